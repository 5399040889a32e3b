// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The gradients of attention without a matrix of scores in memory: scores are recomputed from queries and keys.
//
// In STAGE 0 each lane owns a query. It iterates over the keys once for the largest score and the sum of weights, which
// it keeps for STAGE 1 together with g · y, and once more for dq = Σⱼ dsⱼ kⱼ, where dsⱼ = weightⱼ · (g · vⱼ - g · y).
// In STAGE 1 each lane owns a key and iterates over the queries: dk = Σᵢ dsᵢ qᵢ, dv = Σᵢ weightᵢ gᵢ.
//
// The rows that a lane owns are in registers, WIDTH columns of queries and keys and COLS of values; the rows it
// iterates over have the same address in all lanes. There is no workgroup memory and no barrier.

#include "common/attention-backward.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if STAGE == 0
  let first_query = (group % p.tiles) * $(WG)u;
  let last_query = min (first_query + $(WG - 1)u, p.queries - 1u);
  let head = group / p.tiles % p.heads;
  let batch = group / p.tiles / p.heads;
  let count = count_keys (batch);
  let own = first_query + lane;
  let query = min (own, last_query);
  let first = first_seen (query, count);
  let end = end_seen (query, count);
  let q = (batch * p.q_batch + head * p.q_head + query * p.q_row) / 4u;
  let k = (batch * p.k_batch + head / p.share * p.k_head) / 4u;
  let v = (batch * p.v_batch + head / p.share * p.v_head) / 4u;
  let y = (batch * p.y_batch + head * p.y_head + query * p.y_row) / 4u;
#if MASK
  let mask = mask_row (batch, head, query);
#else
  let mask = 0u;
#endif

#for d in 0..WIDTH / 4
  let q$(d) = load4_query (q + $(d)u);
#endfor
  let begin = first_seen (first_query, count);
  let stop = end_seen (last_query, count);
  var top = LOWEST;
  var total = 0.0;
  for (var j = begin; j < stop; j++) {
#for d in 0..WIDTH / 4
    let k$(d) = load4_key (k + j * (p.k_row / 4u) + $(d)u);
#endfor
    var product = 0.0;
#for d in 0..WIDTH / 4
    product = dot4 (q$(d), k$(d), product);
#endfor
    let seen = see (product, j, first, end, mask);
    let best = max (top, select (seen.score, LOWEST, seen.hidden));
    total = total * weigh (top - best) + select (weigh (seen.score - best), 0.0, seen.hidden);
    top = best;
  }
#if SINK
  let sink = load_sink (head * p.sink_head);
  let best = max (top, sink);
  total = total * weigh (top - best) + weigh (sink - best);
  top = best;
#endif
  let inverse = select (1.0 / total, 0.0, is_nothing (total));

  var inner = 0.0;
#for c in 0..COLS / 4
  let g$(c) = load4_g (y + $(c)u);
  let y$(c) = load4_result (y + $(c)u);
#endfor
#for c in 0..COLS / 4
  inner = dot4 (g$(c), y$(c), inner);
#endfor
#for d in 0..WIDTH / 4
  var dq$(d) = vec4<f32> ();
#endfor
  for (var j = begin; j < stop; j++) {
#for d in 0..WIDTH / 4
    let k$(d) = load4_key (k + j * (p.k_row / 4u) + $(d)u);
#endfor
#for c in 0..COLS / 4
    let v$(c) = load4_value (v + j * (p.v_row / 4u) + $(c)u);
#endfor
    var product = 0.0;
#for d in 0..WIDTH / 4
    product = dot4 (q$(d), k$(d), product);
#endfor
    let seen = see (product, j, first, end, mask);
    var change = -inner;
#for c in 0..COLS / 4
    change = dot4 (g$(c), v$(c), change);
#endfor
    let weight = weigh (min (seen.score - top, 0.0)) * inverse;
    let ds = select (weight * change * seen.slope, 0.0, seen.hidden);
#for d in 0..WIDTH / 4
    dq$(d) = fma (vec4<f32> (ds), k$(d), dq$(d));
#endfor
  }
  if (own <= last_query) {
    let row = ((batch * p.heads + head) * p.queries + query) * 3u;
    store_rows (row, top);
    store_rows (row + 1u, inverse);
    store_rows (row + 2u, inner);
#for d in 0..WIDTH / 4
    store4_dq (q + $(d)u, dq$(d));
#endfor
  }

#else

  let first_key = (group % p.tiles) * $(WG)u;
  let end_key = min (first_key + $(WG)u, p.keys);
  let kv_head = group / p.tiles % p.kv_heads;
  let batch = group / p.tiles / p.kv_heads;
  let count = count_keys (batch);
  let own = first_key + lane;
  let key = min (own, end_key - 1u);
  let k = (batch * p.k_batch + kv_head * p.k_head + key * p.k_row) / 4u;
  let v = (batch * p.v_batch + kv_head * p.v_head + key * p.v_row) / 4u;

#for d in 0..WIDTH / 4
  let k$(d) = load4_key (k + $(d)u);
  var dk$(d) = vec4<f32> ();
#endfor
#for c in 0..COLS / 4
  let v$(c) = load4_value (v + $(c)u);
  var dv$(c) = vec4<f32> ();
#endfor
  for (var i = 0u; i < p.share * p.queries; i++) {
    let head = kv_head * p.share + i / p.queries;
    let query = i % p.queries;
    let first = first_seen (query, count);
    let end = end_seen (query, count);
    if (end <= first_key || first >= end_key) {
      continue;
    }
    let q = (batch * p.q_batch + head * p.q_head + query * p.q_row) / 4u;
    let y = (batch * p.y_batch + head * p.y_head + query * p.y_row) / 4u;
    let row = ((batch * p.share * p.kv_heads + head) * p.queries + query) * 3u;
#if MASK
    let mask = mask_row (batch, head, query);
#else
    let mask = 0u;
#endif
    let top = load_rows (row);
    let inverse = load_rows (row + 1u);
    let inner = load_rows (row + 2u);
#for d in 0..WIDTH / 4
    let q$(d) = load4_query (q + $(d)u);
#endfor
#for c in 0..COLS / 4
    let g$(c) = load4_g (y + $(c)u);
#endfor
    var product = 0.0;
#for d in 0..WIDTH / 4
    product = dot4 (q$(d), k$(d), product);
#endfor
    let seen = see (product, key, first, end, mask);
    var change = -inner;
#for c in 0..COLS / 4
    change = dot4 (g$(c), v$(c), change);
#endfor
    let weight = select (weigh (min (seen.score - top, 0.0)) * inverse, 0.0, seen.hidden);
    let ds = select (weight * change * seen.slope, 0.0, seen.hidden);
#for d in 0..WIDTH / 4
    dk$(d) = fma (vec4<f32> (ds), q$(d), dk$(d));
#endfor
#for c in 0..COLS / 4
    dv$(c) = fma (vec4<f32> (weight), g$(c), dv$(c));
#endfor
  }
  if (own < end_key) {
#for d in 0..WIDTH / 4
    store4_dk (k + $(d)u, dk$(d));
#endfor
#for c in 0..COLS / 4
    store4_dv (v + $(c)u, dv$(c));
#endfor
  }
#endif
}
