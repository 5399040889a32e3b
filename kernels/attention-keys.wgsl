// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for few queries, on a CPU: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// A workgroup takes one query of one head and p.span keys. Each of its eight lanes handles every eighth key by itself,
// TK keys at a time: products, weights relative to the largest score so far, weighted values added to the sums. Lanes
// exchange nothing until the end. With SPLITS each lane leaves its sums, its largest score and the sum of its weights
// for attention-merge as if it were a split of its own, so there is neither workgroup memory nor a barrier. Otherwise
// the workgroup has all keys: after one barrier, each lane merges the sums of some columns, in the same order and with
// the same bits.
//
// All WIDTH columns of keys and COLS of values are unrolled: the query and the sums stay in registers, or in memory at
// a cost of one instruction, and the only remaining loop has enough work per iteration. What dominates are the loads,
// one for every eight words of keys and values. Measured on one core for 8 heads of 64 columns and 1,024 keys: 0.66 ms,
// against 3.0 for lanes that exchange weights through workgroup memory (attention-split.wgsl); for four heads that
// share keys, 2.2 against 3.2.
//
// A key that is masked out is marked as hidden and its value is never multiplied, so a NaN there does no harm.

#include "common/attention.wgsl"

#if SPLITS
// Cleared in a loop; all other accesses have constant indices.
var<private> sums: array<f32, $(COLS)>;
#else
var<workgroup> sums: array<f32, $(WG * COLS)>;
var<workgroup> tops: array<f32, $(WG)>;
var<workgroup> totals: array<f32, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let split = group % p.splits;
  let index = group / p.splits;
  let row = index % p.rows;
  let kv_head = index / p.rows % p.kv_heads;
  let batch = index / p.rows / p.kv_heads;
  let head = kv_head * p.share + row % p.share;
  let query = row / p.share;
  let count = count_keys (batch);
  let q = (batch * p.q_batch + head * p.q_head + query * p.q_row) / 4u;
  let k = batch * p.k_batch + kv_head * p.k_head;
  let v = batch * p.v_batch + kv_head * p.v_head;
#if MASK
  let mask = mask_row (batch, head, query);
#endif
#for d in 0..WIDTH / 4
  let q$(d) = load4_query (q + $(d)u);
#endfor
#for c in 0..COLS
  var sum$(c) = 0.0;
#endfor

  var top = LOWEST;
  var total = 0.0;
  let begin = max (first_seen (query, count), split * p.span);
  let limit = min (end_seen (query, count), split * p.span + p.span);
  for (var block = begin; block < limit; block += $(WG * TK)u) {
    let last = limit - 1u - block;
#for j in 0..TK
    let key$(j) = block + min (lane + $(j * WG)u, last);
#for d in 0..WIDTH / 4
    let k$(j)_$(d) = load4_key ((k + key$(j) * p.k_row) / 4u + $(d)u);
#endfor
#if MASK
    let mask$(j) = load_mask (mask + key$(j) * p.mask_key);
#endif
#endfor
#for j in 0..TK
    var product$(j) = 0.0;
#for d in 0..WIDTH / 4
#for u in 0..4
    product$(j) = fma (q$(d)[$(u)], k$(j)_$(d)[$(u)], product$(j));
#endfor
#endfor
#endfor

    var best = top;
#for j in 0..TK
#if MASK == 1
    let score$(j) = cap (product$(j)) + mask$(j);
#else
    let score$(j) = cap (product$(j));
#endif
#if MASK == 2
    let hide$(j) = lane + $(j * WG)u > last || bitcast<u32> (score$(j)) == NOWHERE || !mask$(j);
#else
    let hide$(j) = lane + $(j * WG)u > last || bitcast<u32> (score$(j)) == NOWHERE;
#endif
    best = max (best, select (score$(j), LOWEST, hide$(j)));
#endfor
    let shrink = weigh (top - best);
    top = best;
    total *= shrink;
#for j in 0..TK
    let weight$(j) = select (weigh (score$(j) - best), 0.0, hide$(j));
    total += weight$(j);
#endfor

#for j in 0..TK
#for c in 0..COLS / 4
    let v$(j)_$(c) = load4_value ((v + key$(j) * p.v_row) / 4u + $(c)u);
#endfor
#endfor
#for c in 0..COLS
    sum$(c) *= shrink;
#for j in 0..TK
    sum$(c) = select (fma (weight$(j), v$(j)_$(c / 4)[$(c % 4)], sum$(c)), sum$(c), hide$(j));
#endfor
#endfor
  }

#if SPLITS
  let own = group * $(WG)u + lane;
  store_state (own * 2u, top);
  store_state (own * 2u + 1u, total);
#for c in 0..COLS
  sums[$(c)] = sum$(c);
#endfor
  for (var c = 0u; c < p.columns; c++) {
    store_sums (own * p.columns + c, sums[c]);
  }
#else
  tops[lane] = top;
  totals[lane] = total;
#for c in 0..COLS
  sums[$(c)u * $(WG)u + lane] = sum$(c);
#endfor
  workgroupBarrier ();

  var best = LOWEST;
#for j in 0..WG
  best = max (best, tops[$(j)]);
#endfor
#if SINK
  let sink = load_sink (head * p.sink_head);
  best = max (best, sink);
  var whole = weigh (sink - best);
#else
  var whole = 0.0;
#endif
#for j in 0..WG
  // A lane that saw no key has no largest score.
  let idle$(j) = is_nothing (totals[$(j)]);
  let share$(j) = weigh (tops[$(j)] - best);
  whole = select (fma (share$(j), totals[$(j)], whole), whole, idle$(j));
#endfor
  let y = batch * p.y_batch + head * p.y_head + query * p.y_row;
  for (var c = lane; c < p.columns; c += $(WG)u) {
    var sum = 0.0;
#for j in 0..WG
    sum = select (fma (share$(j), sums[c * $(WG)u + $(j)u], sum), sum, idle$(j));
#endfor
    store_y (y + c, select (sum / whole, 0.0, is_nothing (whole)));
  }
#endif
}
