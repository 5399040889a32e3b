// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for many queries on the matrix units of a GPU: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// A workgroup takes BQ queries of one head and all columns of the values, and iterates over the keys in blocks of
// BK = 32. Its WORKERS subgroups share the products, which multiply f16 and accumulate in f32. Each block has three steps:
//
// 1. the products of queries and keys, SR · SC matrices of M · N per worker, are stored in workgroup memory;
// 2. four lanes to a row turn them into weights, computed in f32 and rounded to f16. They are relative to the largest
//    score so far, or to one that is at most SLACK less, which saves rescaling the sums. How often that is necessary
//    depends on the scores (doc/kernels.md);
// 3. the products of weights and values, RT · CT matrices per worker, are accumulated in its registers.
//
// With SPLIT a weight is the sum of two half floats, so that it keeps all digits that matter. They are scaled by GAIN,
// so that a unit that flushes subnormal numbers loses nothing either.
//
// In workgroup memory all operands lie along k, in pieces of eight steps, as the units expect them: each matrix is
// contiguous (common/matrix-rows.wgsl). Values are transposed on the way, eight keys of four columns at a time.
//
// A key that is masked out must do no harm even if its value is NaN. Values that are not finite are therefore replaced
// by zeros in the products, and added by single lanes, for those rows that see the key: the weight of a key that is
// masked out is -0.
//
// With KEEP each worker has one row of matrices of the scores, and keeps its queries in registers. They are loaded in
// PARTS steps, through the memory of the keys.
//
// A worker is a subgroup of LANES lanes, and there are exactly WORKERS of them.

#include "common/attention.wgsl"
#use math_nan

#define BK 32
#define PER K / 8
#define D8 WIDTH / 8
// The stride of a row of scores, in vectors; padded by one to avoid bank conflicts.
#define ROW 9
// e^SLACK · GAIN is below 2^15.
const GAIN: f32 = 2048.0;
const SLACK: f32 = 2.7;
const LOG2_E: f32 = 1.44269504;

#if !KEEP
// [row / M][k / K][M][K], in pieces
var<workgroup> tile_q: array<vec4<u32>, $(BQ * (D8))>;
#endif
// [key / N][k / K][N][K]; then the weights, laid out like the queries; and with SPLIT their low parts
var<workgroup> tile_k: array<vec4<u32>, $(TILE_K)>;
// [column / N][key / K][N][K]
var<workgroup> tile_v: array<vec4<u32>, $(COLS * BK / 8)>;
// The scores; or one matrix per worker.
var<workgroup> scores: array<vec4<f32>, $(BQ * ROW)>;
// The factors for the sums of each query.
var<workgroup> factors: array<f32, $(BQ)>;
// The last block that rescaled sums or had values that are not finite; the last block that had such values.
var<workgroup> repair: atomic<u32>;
var<workgroup> odd_block: atomic<u32>;

fn spot (line: u32, lines: u32, piece: u32, pieces: u32) -> u32 {
  return (line / lines * (pieces / $(PER)u) + piece / $(PER)u) * (lines * $(PER)u) + line % lines * $(PER)u + piece % $(PER)u;
}

// Sets the sign bit of each half float of a pair that is not finite.
fn not_finite (pair: u32) -> u32 {
  return ((pair & 0x7c007c00u) + 0x04000400u) & 0x80008000u;
}

// The weights of four keys as half floats, their low parts, and their sum.
struct Weights {
  high: vec2<u32>,
  low: vec2<u32>,
  sum: f32,
}

// Takes the bits of four scores, none of which exceeds `top` by more than SLACK. The accuracy that WGSL guarantees for
// exp2 is sufficient: its error grows only as weights become small.
fn weigh4 (bits: vec4<u32>, top: f32) -> Weights {
  let hidden = bits == vec4<u32> (NOWHERE);
  // -0 as bits, since a driver may treat it as 0.
  let w = bitcast<vec4<f32>> (select (bitcast<vec4<u32>> (exp2 (fma (bitcast<vec4<f32>> (bits), vec4<f32> (LOG2_E), vec4<f32> (-LOG2_E * top)))),
                                      vec4<u32> (0x80000000u), hidden));
  let sum = w.x + w.y + w.z + w.w;
#if SPLIT
  // The digits that fit a half float, extracted by bits: a driver may assume that rounding does not change a number.
  let high = bitcast<vec4<f32>> (bitcast<vec4<u32>> (w) & vec4<u32> (0xffffe000u));
  let low = bitcast<vec2<u32>> (vec4<f16> ((w - high) * GAIN));
#else
  let high = w;
  let low = vec2<u32> ();
#endif
  return Weights (bitcast<vec2<u32>> (vec4<f16> (high * GAIN)), low, sum);
}

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(subgroup_id) subgroup: u32,
         @builtin(subgroup_invocation_id) tx: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Tells the compiler that the value is uniform.
  let worker = subgroupBroadcastFirst (subgroup);
  let lane = worker * $(LANES)u + tx;
  let first_query = (group % p.tiles) * $(BQ)u;
  let rows = min (p.queries - first_query, $(BQ)u);
  let head = group / p.tiles % p.heads;
  let batch = group / p.tiles / p.heads;
  let count = count_keys (batch);
  let q = batch * p.q_batch + head * p.q_head + first_query * p.q_row;
  let k = batch * p.k_batch + (head / p.share) * p.k_head;
  let v = batch * p.v_batch + (head / p.share) * p.v_head;

#if KEEP
#define STEPS WIDTH / K / PARTS
#for h in 0..PARTS
  for (var e = lane; e < $(BQ * (D8) / PARTS)u; e += $(WG)u) {
    let piece = e % $((D8) / PARTS)u;
    let line = e / $((D8) / PARTS)u;
    let at = (q + min (line, rows - 1u) * p.q_row) / 4u + piece * 2u + $(h * ((D8) / PARTS) * 2)u;
    tile_k[spot (line, $(M)u, piece, $((D8) / PARTS)u)] = vec4<u32> (word_query (at), word_query (at + 1u));
  }
  workgroupBarrier ();
#for d in 0..STEPS
  let x$(h * (STEPS) + d) = subgroupMatrixLoad<subgroup_matrix_left<f16, $(K), $(M)>, row_major>(&tile_k, (worker / $(WC)u * $(STEPS)u + $(d)u) * $(M * PER)u, $(PER)u);
#endfor
  workgroupBarrier ();
#endfor
#else
  for (var e = lane; e < $(BQ * (D8))u; e += $(WG)u) {
    let at = (q + min (e / $(D8)u, rows - 1u) * p.q_row) / 4u + e % $(D8)u * 2u;
    tile_q[spot (e / $(D8)u, $(M)u, e % $(D8)u, $(D8)u)] = vec4<u32> (word_query (at), word_query (at + 1u));
  }
#endif
#for i in 0..RT
#for j in 0..CT
  var sum$(i)_$(j) = subgroup_matrix_result<f32, $(N), $(M)>();
#endfor
#endfor

  // The row this lane has a quarter of.
  let row = lane / 4u;
  let part = lane % 4u;
  let own_query = first_query + min (row, rows - 1u);
  let own_first = first_seen (own_query, count);
  let own_end = end_seen (own_query, count);
#if MASK
  let own_mask = mask_row (batch, head, own_query);
#endif
  var top = LOWEST;
  var total = 0.0;
  // The keys that all rows see.
  let all_first = first_seen (first_query + rows - 1u, count);
  let all_end = end_seen (first_query, count);

  // The strides of keys and values, in units of a load.
  let k_row = p.k_row / 4u;
  let v_row = p.v_row / 2u;
#if KEEP
  // Where there are many registers. The pieces of a lane are whole rows apart.
  let own_row = lane / $(D8)u;
  let own_k = k / 4u + lane % $(D8)u * 2u;
#endif
  let limit = end_seen (first_query + rows - 1u, count);
  var turn = 0u;
  for (var first_key = first_seen (first_query, count); first_key < limit; first_key += $(BK)u) {
    let last = limit - 1u;
    turn++;
#for u in 0..NK
    {
      let e = lane + $(u * WG)u;
#if KEEP && WG % (D8) == 0
      let at = own_k + min (first_key + $(u * (WG / (D8)))u + own_row, last) * k_row;
#else
      let at = k / 4u + min (first_key + e / $(D8)u, last) * k_row + e % $(D8)u * 2u;
#endif
#if BK * (D8) % WG
      if (e < $(BK * (D8))u) {
#else
      {
#endif
        tile_k[spot (e / $(D8)u, $(N)u, e % $(D8)u, $(D8)u)] = vec4<u32> (word_key (at), word_key (at + 1u));
      }
    }
#endfor
    for (var e = lane; e < $(COLS * 2)u; e += $(WG)u) {
      let col = e % $(COLS / 2)u * 2u;
      let eight = e / $(COLS / 2)u;
      // Past the end the last key is repeated: its weight is 0.
      let first = first_key + eight * 8u;
      let start = (v + min (col, p.columns - 2u)) / 2u;
      // Accumulated one by one: the compiler turns products of sums into slow code.
      let end = last * v_row;
      let line0 = first * v_row;
      var v0 = word_value (start + min (line0, end));
#for u in 1..8
      let line$(u) = line$(u - 1) + v_row;
      var v$(u) = word_value (start + min (line$(u), end));
#endfor
      let odd_bits = not_finite (v0) | not_finite (v1) | not_finite (v2) | not_finite (v3) |
                     not_finite (v4) | not_finite (v5) | not_finite (v6) | not_finite (v7);
      // A loop rather than a branch, so that `./dev isa` knows how often it runs.
      let odd = select (0u, 1u, odd_bits != 0u);
      for (var i = 0u; i < odd; i++) {
        atomicMax (&repair, turn);
        atomicMax (&odd_block, turn);
#for u in 0..8
        v$(u) &= ~((not_finite (v$(u)) >> 15u) * 0xffffu);
#endfor
      }
      let to = spot (col, $(N)u, eight, 4u);
      tile_v[to] = vec4<u32> ((v0 & 0xffffu) | (v1 << 16u), (v2 & 0xffffu) | (v3 << 16u),
                              (v4 & 0xffffu) | (v5 << 16u), (v6 & 0xffffu) | (v7 << 16u));
      tile_v[to + $(PER)u] = vec4<u32> ((v0 >> 16u) | (v1 & 0xffff0000u), (v2 >> 16u) | (v3 & 0xffff0000u),
                                       (v4 >> 16u) | (v5 & 0xffff0000u), (v6 >> 16u) | (v7 & 0xffff0000u));
    }
    workgroupBarrier ();

    {
      let r = worker / $(WC)u * $(SR)u;
      let c = worker % $(WC)u * $(SC)u;
#for i in 0..SR
#for j in 0..SC
      var s$(i)_$(j) = subgroup_matrix_result<f32, $(N), $(M)>();
#endfor
#endfor
#for d in 0..WIDTH / K
      {
#for j in 0..SC
        let y$(j) = subgroupMatrixLoad<subgroup_matrix_right<f16, $(N), $(K)>, col_major>(&tile_k, ((c + $(j)u) * $(WIDTH / K)u + $(d)u) * $(N * PER)u, $(PER)u);
#endfor
#for i in 0..SR
#if KEEP
        let line$(i) = x$(d);
#else
        let line$(i) = subgroupMatrixLoad<subgroup_matrix_left<f16, $(K), $(M)>, row_major>(&tile_q, ((r + $(i)u) * $(WIDTH / K)u + $(d)u) * $(M * PER)u, $(PER)u);
#endif
#for j in 0..SC
        s$(i)_$(j) = subgroupMatrixMultiplyAccumulate (line$(i), y$(j), s$(i)_$(j));
#endfor
#endfor
      }
#endfor
#for i in 0..SR
#for j in 0..SC
      subgroupMatrixStore<row_major>(&scores, (r + $(i)u) * $(M * ROW)u + (c + $(j)u) * $(N / 4)u, s$(i)_$(j), $(ROW)u);
#endfor
#endfor
    }
    workgroupBarrier ();

    let score_a = scores[row * $(ROW)u + part * 2u];
    let score_b = scores[row * $(ROW)u + part * 2u + 1u];
#for u in 0..4
    var s$(u) = cap (score_a[$(u)]);
    var s$(u + 4) = cap (score_b[$(u)]);
#endfor
    let own_key = first_key + part * 8u;
#if MASK == 1
#for u in 0..8
    s$(u) += load_mask (own_mask + min (own_key + $(u)u, last) * p.mask_key);
#endfor
#endif
#for u in 0..8
    var b$(u) = bitcast<u32> (s$(u));
#endfor
    if (first_key < all_first || first_key + $(BK)u > all_end) {
#for u in 0..8
      b$(u) = select (NOWHERE, b$(u), own_key - own_first + $(u)u < own_end - own_first);
#endfor
    }
#if MASK == 2
#for u in 0..8
    b$(u) = select (NOWHERE, b$(u), load_mask (own_mask + min (own_key + $(u)u, last) * p.mask_key));
#endfor
#endif
    var best = LOWEST;
#for u in 0..8
    best = max (best, bitcast<f32> (b$(u)));
#endfor
    best = max (best, subgroupShuffleXor (best, 1u));
    best = max (best, subgroupShuffleXor (best, 2u));
    var shrink = 1.0;
    if (best > top + SLACK) {
      if (top > LOWEST) {
        shrink = weigh (top - best);
        atomicMax (&repair, turn);
      }
      top = best;
      total *= shrink;
    }
    if (part == 0u) {
      factors[row] = shrink;
    }
    let at = spot (row, $(M)u, part, 4u);
    let first_half = weigh4 (vec4<u32> (b0, b1, b2, b3), top);
    let second_half = weigh4 (vec4<u32> (b4, b5, b6, b7), top);
    total += first_half.sum + second_half.sum;
    // Catches scores that are NaN, or +∞, which results in NaN. -∞ is the score of a key that is masked out.
    var all = 0.0;
#for u in 0..8
    all = fma (bitcast<f32> (b$(u)), 0.125, all);
#endfor
    total = select (total, math_nan (all), (bitcast<u32> (all) & 0x7fffffffu) >= 0x7f800000u && bitcast<u32> (all) != NOWHERE);
    tile_k[at] = vec4<u32> (first_half.high, second_half.high);
#if SPLIT
    tile_k[$(BQ * BK / 8)u + at] = vec4<u32> (first_half.low, second_half.low);
#endif

    let r = worker / $(WN)u * $(RT)u;
    let c = worker % $(WN)u * $(CT)u;
    let grown = select (0u, 1u, workgroupUniformLoad (&repair) == turn);
    for (var i = 0u; i < grown; i++) {
      let odd_keys = select (0u, $(BK)u, atomicLoad (&odd_block) == turn);
#for i in 0..RT
#for j in 0..CT
      subgroupMatrixStore<row_major>(&scores, worker * $(M * N / 4)u, sum$(i)_$(j), $(N / 4)u);
      workgroupBarrier ();
      for (var e = tx; e < $(M * N / 4)u; e += $(LANES)u) {
        let line = (r + $(i)u) * $(M)u + e / $(N / 4)u;
        let col = (c + $(j)u) * $(N)u + e % $(N / 4)u * 4u;
        var sum = scores[worker * $(M * N / 4)u + e] * factors[line];
        for (var u = 0u; u < odd_keys; u++) {
          let at = min (first_key + u, last);
          let weight = (tile_k[spot (line, $(M)u, u / 8u, 4u)][u % 8u / 2u] >> (u % 2u * 16u)) & 0xffffu;
          let pairs = (v + min (col, p.columns - 4u)) / 2u + at * v_row;
          let value = vec4<f32> (unpack2x16float (word_value (pairs)), unpack2x16float (word_value (pairs + 1u)));
          let odd = (bitcast<vec4<u32>> (value) & vec4<u32> (0x7f800000u)) == vec4<u32> (0x7f800000u);
          // Any weight other than -0 is larger than 0.
          let by = max (unpack2x16float (weight).x, 0x1p-100);
          sum = select (sum, fma (value, vec4<f32> (by), sum), odd & vec4<bool> (weight != 0x8000u));
        }
        scores[worker * $(M * N / 4)u + e] = sum;
      }
      workgroupBarrier ();
      sum$(i)_$(j) = subgroupMatrixLoad<subgroup_matrix_result<f32, $(N), $(M)>, row_major>(&scores, worker * $(M * N / 4)u, $(N / 4)u);
      workgroupBarrier ();
#endfor
#endfor
    }

#for d in 0..BK / K
    {
#for j in 0..CT
      let y$(j) = subgroupMatrixLoad<subgroup_matrix_right<f16, $(N), $(K)>, col_major>(&tile_v, ((c + $(j)u) * $(BK / K)u + $(d)u) * $(N * PER)u, $(PER)u);
#endfor
#for i in 0..RT
      {
        let x = subgroupMatrixLoad<subgroup_matrix_left<f16, $(K), $(M)>, row_major>(&tile_k, ((r + $(i)u) * $(BK / K)u + $(d)u) * $(M * PER)u, $(PER)u);
#for j in 0..CT
        sum$(i)_$(j) = subgroupMatrixMultiplyAccumulate (x, y$(j), sum$(i)_$(j));
#endfor
#if SPLIT
        let z = subgroupMatrixLoad<subgroup_matrix_left<f16, $(K), $(M)>, row_major>(&tile_k, $(BQ * BK / 8)u + ((r + $(i)u) * $(BK / K)u + $(d)u) * $(M * PER)u, $(PER)u);
#for j in 0..CT
        sum$(i)_$(j) = subgroupMatrixMultiplyAccumulate (z, y$(j), sum$(i)_$(j));
#endfor
#endif
      }
#endfor
    }
#endfor
    workgroupBarrier ();
  }

  total += subgroupShuffleXor (total, 1u);
  total += subgroupShuffleXor (total, 2u);
  if (part == 0u) {
    var rest = 1.0;
#if SINK
    let sink = load_sink (head * p.sink_head);
    let best = max (top, sink);
    rest = weigh (top - best);
    total = total * rest + weigh (sink - best);
#endif
    factors[row] = select (rest / total / GAIN, 0.0, is_nothing (total));
  }

  let y = batch * p.y_batch + head * p.y_head + first_query * p.y_row;
#for i in 0..RT
#for j in 0..CT
  subgroupMatrixStore<row_major>(&scores, worker * $(M * N / 4)u, sum$(i)_$(j), $(N / 4)u);
  workgroupBarrier ();
  for (var e = tx; e < $(M * N / 4)u; e += $(LANES)u) {
    let line = (worker / $(WN)u * $(RT)u + $(i)u) * $(M)u + e / $(N / 4)u;
    let col = (worker % $(WN)u * $(CT)u + $(j)u) * $(N)u + e % $(N / 4)u * 4u;
    let sum = scores[worker * $(M * N / 4)u + e] * factors[line];
    if (line < rows && col < p.columns) {
      store4_y ((y + line * p.y_row + col) / 4u, sum);
    }
  }
  workgroupBarrier ();
#endfor
#endfor
}
