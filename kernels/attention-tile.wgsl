// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for many queries, on a GPU: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// A workgroup of 8 · TY lanes takes BQ = 4 · TY queries of one head and 8 · CV columns of the values, and iterates over
// the keys in blocks of BK = 32. Each block has three steps:
//
// 1. BQ × BK products, 4 × 4 for each lane; queries and keys go through workgroup memory, 16 columns at a time;
// 2. two lanes to a row turn the products into weights relative to the largest score so far;
// 3. the weighted values are added to the sums, 4 rows × CV columns for each lane; values go through workgroup memory,
//    KV keys at a time. Earlier sums are rescaled when the largest score has grown.
//
// Rows of 17 and 33 words avoid bank conflicts. doc/kernels.md counts reads, registers and workgroup memory.
//
// A key that is masked out is marked as hidden and, with HIDE, its value is never multiplied, so a NaN there does no
// harm.

#include "common/attention.wgsl"

#define BQ 4 * TY
#define BK 32
#define PIECE 16
#define PITCH 17
#define ROW 33
#define COLS 8 * CV
#define HIDE CAUSAL || WINDOW || MASK

// Queries and keys, later values.
var<workgroup> piece: array<f32, $(SIZE)>;
// The products of a block, then the scores, then the weights.
var<workgroup> weights: array<u32, $((BQ) * ROW)>;
// The partial result of each lane for its half of a row.
var<workgroup> found: array<f32, $(WG)>;
// The factors for the sums of each query.
var<workgroup> factors: array<f32, $(BQ)>;

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first_query = (group % p.tiles) * $(BQ)u;
  let rows = min (p.queries - first_query, $(BQ)u);
  let first_col = (group / p.tiles % p.chunks) * $(COLS)u;
  let cols = min (p.columns - first_col, $(COLS)u);
  let head = group / p.tiles / p.chunks % p.heads;
  let batch = group / p.tiles / p.chunks / p.heads;
  let count = count_keys (batch);
#if SCORES
  let q = batch * p.q_batch + head * p.q_head + first_query * p.q_row;
  let k = batch * p.k_batch + (head / p.share) * p.k_head;
#endif
  let v = batch * p.v_batch + (head / p.share) * p.v_head + first_col;

  // A lane has queries ty + i · TY and keys tx + j · 8 of a block.
  let tx = lane % 8u;
  let ty = lane / 8u;
#for i in 0..4
#for c in 0..CV
  var sum$(i)_$(c) = 0.0;
#endfor
#endfor

  // The row this lane has a half of.
  let row = lane / 2u;
  let part = lane % 2u;
  let own_query = first_query + min (row, rows - 1u);
  let own_first = first_seen (own_query, count);
  let own_end = end_seen (own_query, count);
#if MASK
  let own_mask = mask_row (batch, head, own_query);
#endif
  var top = LOWEST;
  var total = 0.0;

  let limit = end_seen (first_query + rows - 1u, count);
  for (var first_key = first_seen (first_query, count); first_key < limit; first_key += $(BK)u) {
    let keys = min (limit - first_key, $(BK)u);

#for i in 0..4
#for j in 0..4
    var s$(i)_$(j) = 0.0;
#endfor
#endfor
#if SCORES
    for (var d = 0u; d < p.width; d += $(PIECE)u) {
      let left = min (p.width - d, $(PIECE)u);
      for (var i = lane; i < $((BQ) * PIECE)u; i += $(WG)u) {
        let c = i % $(PIECE)u;
        piece[i / $(PIECE)u * $(PITCH)u + c] = load_query (q + min (i / $(PIECE)u, rows - 1u) * p.q_row + d + min (c, left - 1u));
      }
      for (var i = lane; i < $(BK * PIECE)u; i += $(WG)u) {
        let c = i % $(PIECE)u;
        piece[$((BQ) * PITCH)u + i / $(PIECE)u * $(PITCH)u + c] =
          load_key (k + (first_key + min (i / $(PIECE)u, keys - 1u)) * p.k_row + d + min (c, left - 1u));
      }
      workgroupBarrier ();
      for (var c = 0u; c < left; c++) {
#for i in 0..4
        let x$(i) = piece[(ty + $(i * TY)u) * $(PITCH)u + c];
        let y$(i) = piece[$((BQ) * PITCH)u + (tx + $(i * 8)u) * $(PITCH)u + c];
#endfor
#for i in 0..4
#for j in 0..4
        s$(i)_$(j) = fma (x$(i), y$(j), s$(i)_$(j));
#endfor
#endfor
      }
      workgroupBarrier ();
    }
#endif
#for i in 0..4
#for j in 0..4
    weights[(ty + $(i * TY)u) * $(ROW)u + tx + $(j * 8)u] = bitcast<u32> (s$(i)_$(j));
#endfor
#endfor
    workgroupBarrier ();

    var best = LOWEST;
    for (var j = part; j < keys; j += 2u) {
      let at = row * $(ROW)u + j;
      let key = first_key + j;
      var score = cap (bitcast<f32> (weights[at]));
      var shown = key >= own_first && key < own_end;
#if MASK == 1
      score += load_mask (own_mask + key * p.mask_key);
#elif MASK == 2
      shown = shown && load_mask (own_mask + key * p.mask_key);
#endif
      best = select (best, max (best, score), shown);
      weights[at] = select (NOWHERE, bitcast<u32> (score), shown);
    }
    found[lane] = best;
    workgroupBarrier ();

    best = max (top, max (found[row * 2u], found[row * 2u + 1u]));
    let shrink = weigh (top - best);
    top = best;
    total *= shrink;
    for (var j = part; j < keys; j += 2u) {
      let at = row * $(ROW)u + j;
      let score = weights[at];
      if (score != NOWHERE) {
        let weight = weigh (bitcast<f32> (score) - best);
        total += weight;
        weights[at] = bitcast<u32> (weight);
      }
#if !(HIDE)
      else {
        weights[at] = 0u;
      }
#endif
    }
    if (part == 0u) {
      factors[row] = shrink;
    }
    workgroupBarrier ();

#for i in 0..4
    let factor$(i) = factors[ty + $(i * TY)u];
#for c in 0..CV
    sum$(i)_$(c) *= factor$(i);
#endfor
#endfor
    for (var first_row = 0u; first_row < keys; first_row += $(KV)u) {
      let n = min (keys - first_row, $(KV)u);
      for (var i = lane; i < n * $(COLS)u; i += $(WG)u) {
        piece[i] = load_value (v + (first_key + first_row + i / $(COLS)u) * p.v_row + min (i % $(COLS)u, cols - 1u));
      }
      workgroupBarrier ();
      for (var j = 0u; j < n; j++) {
#for c in 0..CV
        let value$(c) = piece[j * $(COLS)u + tx + $(c * 8)u];
#endfor
#for i in 0..4
        let weight$(i) = weights[(ty + $(i * TY)u) * $(ROW)u + first_row + j];
#for c in 0..CV
#if HIDE
        sum$(i)_$(c) = select (fma (bitcast<f32> (weight$(i)), value$(c), sum$(i)_$(c)), sum$(i)_$(c), weight$(i) == NOWHERE);
#else
        sum$(i)_$(c) = fma (bitcast<f32> (weight$(i)), value$(c), sum$(i)_$(c));
#endif
#endfor
#endfor
      }
      workgroupBarrier ();
    }
  }

  found[lane] = total;
  workgroupBarrier ();
  if (part == 0u) {
    total += found[lane + 1u];
    var rest = 1.0;
#if SINK
    let sink = load_sink (head * p.sink_head);
    let best = max (top, sink);
    rest = weigh (top - best);
    total = total * rest + weigh (sink - best);
#endif
    factors[row] = select (rest / total, 0.0, is_nothing (total));
  }
  workgroupBarrier ();

  let y = batch * p.y_batch + head * p.y_head + first_query * p.y_row + first_col;
#for i in 0..4
  if (ty + $(i * TY)u < rows) {
    let factor = factors[ty + $(i * TY)u];
#for c in 0..CV
    if (tx + $(c * 8)u < cols) {
      store_y (y + (ty + $(i * TY)u) * p.y_row + tx + $(c * 8)u, sum$(i)_$(c) * factor);
    }
#endfor
  }
#endfor
}
