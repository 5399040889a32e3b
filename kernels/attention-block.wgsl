// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for many queries, on a GPU: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// Like attention-tile.wgsl, for heads whose rows are whole vectors, on devices with 26 KB of workgroup memory. A
// workgroup of 16 · 16 lanes takes 64 queries of one head and 64 · COLS columns of the values, and iterates over the
// keys in blocks of 64. A lane computes 4 · 4 products, loading the operands 16 columns at a time, and then accumulates
// 4 · 4 · COLS sums, 16 values at a time. What a lane reads is contiguous in workgroup memory, and only the index of
// the lane is not a constant. The next operands are fetched while the current ones are multiplied.
//
// A key that is masked out must do no harm even if its value is NaN: values that are not finite are stored as zeros in
// workgroup memory, and each lane adds them separately, for those of its rows that see the key. The weight of a key
// that is masked out is -0.

#include "common/attention.wgsl"

#define BK 64
#define STEP 16
// Four columns of each of four rows or keys; padded by one to avoid bank conflicts.
#define PIECE 17
// [lanes that share it][4 · row or key + vector], first queries, then keys; or [lanes that share it][COLS · key +
// vector] of the values.
var<workgroup> pieces: array<array<vec4<f32>, $(2 * PIECE)>, 16>;
// [lanes that share it][row][vector of keys]
var<workgroup> weights: array<array<array<vec4<f32>, 17>, 4>, 16>;
// The last slice of a block that had values that are not finite.
var<workgroup> odd_piece: atomic<u32>;

fn is_odd (v: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>> (v) & vec4<u32> (0x7f800000u)) == vec4<u32> (0x7f800000u);
}

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first_query = (group % p.tiles) * 64u;
  let rows = min (p.queries - first_query, 64u);
  let first_col = (group / p.tiles % p.chunks) * $(64 * COLS)u;
  let head = group / p.tiles / p.chunks % p.heads;
  let batch = group / p.tiles / p.chunks / p.heads;
  let count = count_keys (batch);
  let tx = lane % 16u;
  let ty = lane / 16u;

  // Widths and strides in vectors.
  let width = p.width / 4u;
  let k_row = p.k_row / 4u;
  let v_row = p.v_row / 4u;
  let columns = p.columns / 4u;
  // What this lane loads: a vector of a query and one of a key, and COLS vectors of values.
  let line = lane / 4u;
  let part = lane % 4u;
  let from_q = (batch * p.q_batch + head * p.q_head + (first_query + min (line, rows - 1u)) * p.q_row) / 4u;
  let from_k = (batch * p.k_batch + (head / p.share) * p.k_head) / 4u;
  let from_v = (batch * p.v_batch + (head / p.share) * p.v_head) / 4u;

#for i in 0..4
#for c in 0..COLS
  var sum$(i)_$(c) = vec4<f32> ();
#endfor
#endfor
  var top = vec4<f32> (LOWEST);
  var total = vec4<f32> ();
  // The keys that all rows see.
  let all_first = first_seen (first_query + rows - 1u, count);
  let all_end = end_seen (first_query, count);

  let limit = end_seen (first_query + rows - 1u, count);
  var turn = 0u;
  for (var first_key = first_seen (first_query, count); first_key < limit; first_key += $(BK)u) {
    let last = limit - 1u;
#for i in 0..4
    var s$(i) = vec4<f32> ();
#endfor
    let from_line = from_k + min (first_key + line, last) * k_row;
#if AHEAD
    var next_q = load4_query (from_q + min (part, width - 1u));
    var next_k = load4_key (from_line + min (part, width - 1u));
#endif
    for (var d = 0u; d < p.width; d += $(STEP)u) {
#if !AHEAD
      let now = min (d / 4u + part, width - 1u);
      let next_q = load4_query (from_q + now);
      let next_k = load4_key (from_line + now);
#endif
      let there = d / 4u + part < width;
      pieces[line / 4u][line % 4u * 4u + part] = select (vec4<f32> (), next_q, there);
      pieces[line / 4u][$(PIECE)u + line % 4u * 4u + part] = select (vec4<f32> (), next_k, there);
      workgroupBarrier ();
#if AHEAD
      let at = min (d / 4u + 4u + part, width - 1u);
      next_q = load4_query (from_q + at);
      next_k = load4_key (from_line + at);
#endif
#for c in 0..4
      {
#for j in 0..4
        let x$(j) = pieces[ty][$(j * 4 + c)];
        let y$(j) = pieces[tx][$(PIECE + j * 4 + c)];
#endfor
#for i in 0..4
#for j in 0..4
#for u in 0..4
        s$(i)[$(j)] = fma (x$(i)[$(u)], y$(j)[$(u)], s$(i)[$(j)]);
#endfor
#endfor
#endfor
      }
#endfor
      workgroupBarrier ();
    }

    // Recomputed for each block, since registers are scarce.
    let own_key = first_key + tx * 4u;
    let partial = first_key < all_first || first_key + $(BK)u > all_end;
#for i in 0..4
    let query$(i) = first_query + min (ty * 4u + $(i)u, rows - 1u);
#if MASK
    let mask$(i) = mask_row (batch, head, query$(i));
#endif
#for j in 0..4
    s$(i)[$(j)] = cap (s$(i)[$(j)]);
#if MASK == 1
    s$(i)[$(j)] += load_mask (mask$(i) + min (own_key + $(j)u, last) * p.mask_key);
#endif
#endfor
    var bits$(i) = bitcast<vec4<u32>> (s$(i));
    if (partial) {
      let first = first_seen (query$(i), count);
      let seen = end_seen (query$(i), count) - first;
#for j in 0..4
      bits$(i)[$(j)] = select (NOWHERE, bits$(i)[$(j)], own_key - first + $(j)u < seen);
#endfor
    }
#if MASK == 2
#for j in 0..4
    bits$(i)[$(j)] = select (NOWHERE, bits$(i)[$(j)], load_mask (mask$(i) + min (own_key + $(j)u, last) * p.mask_key));
#endfor
#endif
    let shown$(i) = bits$(i) != vec4<u32> (NOWHERE);
    let high$(i) = select (vec4<f32> (LOWEST), bitcast<vec4<f32>> (bits$(i)), shown$(i));
    let best$(i) = max (max (high$(i).x, high$(i).y), max (high$(i).z, high$(i).w));
#endfor
    // The maximum of each row is stored where the queries were.
    pieces[ty][tx] = vec4<f32> (best0, best1, best2, best3);
    workgroupBarrier ();
    var best = top;
#for t in 0..16
    best = max (best, pieces[ty][$(t)]);
#endfor
    workgroupBarrier ();
    let shrink = vec4<f32> (weigh (top.x - best.x), weigh (top.y - best.y), weigh (top.z - best.z), weigh (top.w - best.w));
    top = best;
    total *= shrink;
#for i in 0..4
    {
      var w = vec4<f32> (
#for j in 0..4
        weigh (bitcast<f32> (bits$(i)[$(j)]) - best[$(i)]),
#endfor
      );
      w = select (vec4<f32> (), w, shown$(i));
      total[$(i)] += (w.x + w.y) + (w.z + w.w);
      weights[ty][$(i)][tx] = bitcast<vec4<f32>> (select (vec4<u32> (0x80000000u), bitcast<vec4<u32>> (w), shown$(i)));
#for c in 0..COLS
      sum$(i)_$(c) *= shrink[$(i)];
#endfor
    }
#endfor

    let keys_left = min (limit - first_key, $(BK)u);
#if AHEAD
#for c in 0..COLS
    var next$(c) = load4_value (from_v + min (first_key + ty, last) * v_row + min (first_col / 4u + tx + $(c * 16)u, columns - 1u));
#endfor
#endif
    for (var first_row = 0u; first_row < keys_left; first_row += $(STEP)u) {
      turn++;
#for c in 0..COLS
#if !AHEAD
      let next$(c) = load4_value (from_v + min (first_key + first_row + ty, last) * v_row + min (first_col / 4u + tx + $(c * 16)u, columns - 1u));
#endif
      let odd$(c) = is_odd (next$(c));
      if (any (odd$(c))) {
        atomicMax (&odd_piece, turn);
      }
      pieces[tx][ty * $(COLS)u + $(c)u] = select (next$(c), vec4<f32> (), odd$(c));
#endfor
      workgroupBarrier ();
#if AHEAD
#for c in 0..COLS
      next$(c) = load4_value (from_v + min (first_key + first_row + $(STEP)u + ty, last) * v_row + min (first_col / 4u + tx + $(c * 16)u, columns - 1u));
#endfor
#endif
      for (var u = 0u; u < 4u; u++) {
#for i in 0..4
        let w$(i) = weights[ty][$(i)][first_row / 4u + u];
#endfor
#for j in 0..4
#for c in 0..COLS
        let v$(j)_$(c) = pieces[tx][u * $(4 * COLS)u + $(j * COLS + c)u];
#endfor
#for i in 0..4
#for c in 0..COLS
        sum$(i)_$(c) = fma (vec4<f32> (w$(i)[$(j)]), v$(j)_$(c), sum$(i)_$(c));
#endfor
#endfor
#endfor
      }
      let odd_rows = select (0u, min (keys_left - first_row, $(STEP)u), atomicLoad (&odd_piece) == turn);
      for (var u = 0u; u < odd_rows; u++) {
        let key = first_row + u;
#for c in 0..COLS
        {
          let v = load4_value (from_v + (first_key + key) * v_row + min (first_col / 4u + tx + $(c * 16)u, columns - 1u));
          let odd = is_odd (v);
#for i in 0..4
          {
            let w = weights[ty][$(i)][key / 4u][key % 4u];
            sum$(i)_$(c) = select (sum$(i)_$(c), fma (vec4<f32> (w), v, sum$(i)_$(c)), odd & vec4<bool> (bitcast<u32> (w) != 0x80000000u));
          }
#endfor
        }
#endfor
      }
      workgroupBarrier ();
    }
  }

  // The sum of the weights of each row, and the factor for its sums.
  pieces[ty][tx] = total;
  workgroupBarrier ();
  total = vec4<f32> ();
#for t in 0..16
  total += pieces[ty][$(t)];
#endfor
#if SINK
  let sink = load_sink (head * p.sink_head);
#endif
#for i in 0..4
  {
    var all = total[$(i)];
    var rest = 1.0;
#if SINK
    let best = max (top[$(i)], sink);
    rest = weigh (top[$(i)] - best);
    all = all * rest + weigh (sink - best);
#endif
    let factor = select (rest / all, 0.0, is_nothing (all));
    let y = (batch * p.y_batch + head * p.y_head + (first_query + ty * 4u + $(i)u) * p.y_row + first_col) / 4u + tx;
    if (ty * 4u + $(i)u < rows) {
#for c in 0..COLS
      if (first_col / 4u + tx + $(c * 16)u < columns) {
        store4_y (y + $(c * 16)u, sum$(i)_$(c) * factor);
      }
#endfor
    }
  }
#endfor
}
