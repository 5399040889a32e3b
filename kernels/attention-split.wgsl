// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for few queries: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// The heads that share keys are rows of the same matrix, query by query, so that keys and values are read once for all
// of them. A workgroup takes TQ such rows, WG · TV columns of the values and p.span keys, and iterates over its keys in
// blocks of BLOCK = WG · KPL. Each block has three steps:
//
// 1. each lane multiplies its KPL keys by all TQ rows;
// 2. SHARE lanes to a row turn the rows of that TQ × BLOCK matrix into weights relative to the largest score so far;
// 3. each lane adds the weighted values to the TQ × TV sums of its columns. Earlier sums are rescaled when the largest
//    score has grown.
//
// With SPLITS, the workgroups that share a row leave their sums, the largest score and the sum of the weights for
// attention-merge, which merges them in a fixed order.
//
// Reading keys and values dominates the time, so what counts is the number of workgroups: one split for every p.span
// keys makes enough of them. Without STAGE each lane reads along its own key, in a cache line of its own: good where
// lanes share an L1 cache that holds WG lines (a CPU, where it saves the barriers). With STAGE, 16 columns of WG keys
// at a time go through workgroup memory, in rows of 17 words so that 32 lanes hit 32 banks. On a CPU, more keys to a
// lane mean fewer barriers and fewer loops over shares, and steps of four columns and four keys mean fewer bounds
// checks in loops.
//
// A key that is masked out is marked as hidden and its value is never multiplied, so a NaN there does no harm.

#include "common/attention.wgsl"

#define BLOCK WG * KPL
#define SHARE WG / TQ
#define PIECE 16
#define PITCH PIECE + 1

// The products of a block, then the scores, then the weights.
var<workgroup> weights: array<u32, $(TQ * (BLOCK))>;
// The partial result of each lane for its share of a row.
var<workgroup> found: array<f32, $(WG)>;
// The factors for the sums of each row.
var<workgroup> factors: array<f32, $(TQ)>;
#if STAGE && SCORES
var<workgroup> key_piece: array<f32, $(WG * (PITCH))>;
var<workgroup> query_piece: array<f32, $(TQ * PIECE)>;
#endif

#if SCORES
fn query_at (batch: u32, kv_head: u32, row: u32) -> u32 {
  return batch * p.q_batch + (kv_head * p.share + row % p.share) * p.q_head + row / p.share * p.q_row;
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let split = group % p.splits;
  var rest = group / p.splits;
  let first_col = (rest % p.chunks) * $(WG * TV)u;
  let cols = p.columns - first_col;
  rest /= p.chunks;
  let first_row = (rest % p.tiles) * $(TQ)u;
  let rows = min (p.rows - first_row, $(TQ)u);
  rest /= p.tiles;
  let kv_head = rest % p.kv_heads;
  let batch = rest / p.kv_heads;
#for i in 0..TQ
#for c in 0..TV
  var sum$(i)_$(c) = 0.0;
#endfor
#endfor

#if SCORES
  let k = batch * p.k_batch + kv_head * p.k_head;
#endif
  let v = batch * p.v_batch + kv_head * p.v_head;
#for c in 0..TV
  let col$(c) = first_col + min (lane + $(c * WG)u, cols - 1u);
#endfor
#if SCORES && !STAGE
#for i in 0..TQ
  let q$(i) = query_at (batch, kv_head, first_row + min ($(i)u, rows - 1u));
#endfor
#endif

  // The row of which this lane has a share.
#if TQ == 1
  let row = 0u;
  let part = lane;
#else
  let row = lane / $(SHARE)u;
  let part = lane % $(SHARE)u;
#endif
  let own_row = first_row + min (row, rows - 1u);
  let own_query = own_row / p.share;
  let count = count_keys (batch);
  let own_first = first_seen (own_query, count);
  let own_end = end_seen (own_query, count);
#if MASK
  let own_mask = mask_row (batch, kv_head * p.share + own_row % p.share, own_query);
#endif
  var top = LOWEST;
  var total = 0.0;

  let begin = max (first_seen (first_row / p.share, count), split * p.span);
  let limit = min (end_seen ((first_row + rows - 1u) / p.share, count), split * p.span + p.span);
  for (var first_key = begin; first_key < limit; first_key += $(BLOCK)u) {
    let keys = min (limit - first_key, $(BLOCK)u);

#for i in 0..TQ
#for u in 0..KPL
    var product$(i)_$(u) = 0.0;
#endfor
#endfor
#if SCORES && STAGE
    for (var d = 0u; d < p.width; d += $(PIECE)u) {
      let left = min (p.width - d, $(PIECE)u);
      for (var i = lane; i < $(WG * PIECE)u; i += $(WG)u) {
        let c = i % $(PIECE)u;
        let j = i / $(PIECE)u;
        key_piece[j * $(PITCH)u + c] = load_key (k + (first_key + min (j, keys - 1u)) * p.k_row + d + min (c, left - 1u));
      }
      for (var i = lane; i < $(TQ * PIECE)u; i += $(WG)u) {
        let c = i % $(PIECE)u;
        query_piece[i] = load_query (query_at (batch, kv_head, first_row + min (i / $(PIECE)u, rows - 1u)) + d + min (c, left - 1u));
      }
      workgroupBarrier ();
      for (var c = 0u; c < left; c++) {
        let x = key_piece[lane * $(PITCH)u + c];
#for i in 0..TQ
        product$(i)_0 = fma (query_piece[$(i * PIECE)u + c], x, product$(i)_0);
#endfor
      }
      workgroupBarrier ();
    }
#elif SCORES
#for u in 0..KPL
    let key$(u) = k + (first_key + min (lane + $(u * WG)u, keys - 1u)) * p.k_row;
#endfor
#if VEC
    for (var d = 0u; d < p.width; d += 4u) {
#for u in 0..KPL
      let x$(u) = load4_key ((key$(u) + d) / 4u);
#endfor
#for i in 0..TQ
      let y$(i) = load4_query ((q$(i) + d) / 4u);
#endfor
#for i in 0..TQ
#for u in 0..KPL
      product$(i)_$(u) = fma (y$(i).w, x$(u).w, fma (y$(i).z, x$(u).z, fma (y$(i).y, x$(u).y, fma (y$(i).x, x$(u).x, product$(i)_$(u)))));
#endfor
#endfor
    }
#else
    for (var d = 0u; d < p.width; d++) {
#for u in 0..KPL
      let x$(u) = load_key (key$(u) + d);
#endfor
#for i in 0..TQ
      let y$(i) = load_query (q$(i) + d);
#for u in 0..KPL
      product$(i)_$(u) = fma (y$(i), x$(u), product$(i)_$(u));
#endfor
#endfor
    }
#endif
#endif
#for i in 0..TQ
#for u in 0..KPL
    weights[$(i * (BLOCK) + u * WG)u + lane] = bitcast<u32> (product$(i)_$(u));
#endfor
#endfor
    workgroupBarrier ();

    // Keys are handled four at a time below: missing ones are hidden.
    let places = (keys + 3u) & 0xfffffffcu;
    var best = LOWEST;
    for (var j = part; j < places; j += $(SHARE)u) {
      let at = row * $(BLOCK)u + j;
      let key = first_key + j;
      var score = cap (bitcast<f32> (weights[at]));
      var shown = j < keys && key >= own_first && key < own_end;
#if MASK == 1
      score += load_mask (own_mask + min (key, limit - 1u) * p.mask_key);
#elif MASK == 2
      shown = shown && load_mask (own_mask + min (key, limit - 1u) * p.mask_key);
#endif
      best = select (best, max (best, score), shown);
      weights[at] = select (NOWHERE, bitcast<u32> (score), shown);
    }
    found[lane] = best;
    workgroupBarrier ();

    best = top;
    for (var j = 0u; j < $(SHARE)u; j++) {
      best = max (best, found[row * $(SHARE)u + j]);
    }
    let shrink = weigh (top - best);
    top = best;
    total *= shrink;
    for (var j = part; j < keys; j += $(SHARE)u) {
      let at = row * $(BLOCK)u + j;
      let score = weights[at];
      if (score != NOWHERE) {
        let weight = weigh (bitcast<f32> (score) - best);
        total += weight;
        weights[at] = bitcast<u32> (weight);
      }
    }
    if (part == 0u) {
      factors[row] = shrink;
    }
    workgroupBarrier ();

#for i in 0..TQ
#for c in 0..TV
    sum$(i)_$(c) *= factors[$(i)];
#endfor
#endfor
    for (var j = 0u; j < places; j += 4u) {
#for u in 0..4
      let at$(u) = v + (first_key + min (j + $(u)u, keys - 1u)) * p.v_row;
#for c in 0..TV
      let value$(u)_$(c) = load_value (at$(u) + col$(c));
#endfor
#endfor
#for i in 0..TQ
#for u in 0..4
      let weight$(i)_$(u) = weights[$(i * (BLOCK) + u)u + j];
#for c in 0..TV
      sum$(i)_$(c) = select (fma (bitcast<f32> (weight$(i)_$(u)), value$(u)_$(c), sum$(i)_$(c)), sum$(i)_$(c), weight$(i)_$(u) == NOWHERE);
#endfor
#endfor
#endfor
    }
    workgroupBarrier ();
  }

  found[lane] = total;
  workgroupBarrier ();
  if (part == 0u) {
    for (var j = 1u; j < $(SHARE)u; j++) {
      total += found[row * $(SHARE)u + j];
    }
#if SPLITS
    if (row < rows && first_col == 0u) {
      let at = (((batch * p.kv_heads + kv_head) * p.rows + own_row) * p.splits + split) * 2u;
      store_state (at, top);
      store_state (at + 1u, total);
    }
#else
    var factor = 1.0;
#if SINK
    let sink = load_sink ((kv_head * p.share + own_row % p.share) * p.sink_head);
    let best = max (top, sink);
    factor = weigh (top - best);
    total = total * factor + weigh (sink - best);
#endif
    factors[row] = select (factor / total, 0.0, is_nothing (total));
#endif
  }
#if !SPLITS
  workgroupBarrier ();
#endif

#for i in 0..TQ
  if ($(i)u < rows) {
    let r = first_row + $(i)u;
#for c in 0..TV
    if (lane + $(c * WG)u < cols) {
#if SPLITS
      let y = (((batch * p.kv_heads + kv_head) * p.rows + r) * p.splits + split) * p.columns;
      store_sums (y + col$(c), sum$(i)_$(c));
#else
      let y = batch * p.y_batch + (kv_head * p.share + r % p.share) * p.y_head + r / p.share * p.y_row;
      store_y (y + col$(c), sum$(i)_$(c) * factors[$(i)]);
#endif
    }
#endfor
  }
#endfor
}
