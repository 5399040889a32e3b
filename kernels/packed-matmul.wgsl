// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[m, n] = epilogue (Σₖ x[m, k] · w[n, k] + bias[n]), where w is packed (ops/rlx-packed.c), or w[expert[m], n, k] and
// bias[expert[m], n]. Four variants:
//
// - MODE 0: an invocation computes TM rows of TN columns. Rows follow from the workgroup alone, so that `x` has the
//   same address in all lanes. For processors with few lanes: their caches keep the lines that 8 lanes read from.
// - MODE 1: LANES invocations share the sums of a column for TM rows, and neighbours take neighbouring chunks. For few
//   rows on a GPU, if packed-row.wgsl does not support the packing, and for few columns.
// - MODE 2: a workgroup keeps 64 columns and 32 rows of a chunk in its memory and computes all their products. For many
//   rows on a GPU whose subgroups do not share them (common/tile-rows.wgsl).
// - MODE 3: MODE 0 on drivers that have subgroups of eight lanes and run them as one vector: the eight numbers of a
//   part come from each row in one gather, and a shuffle broadcasts each of them to all lanes, as in
//   matmul-shuffle.wgsl (doc/kernels.md).
//
// Where K is not a multiple of 32 (TAIL), numbers past the end count as 0; otherwise `x` is loaded four at a time
// (VECTORS). Loops over the four parts of a chunk end at p.parts, which drivers do not know: unrolled they take long to
// compile. For one row unrolling pays off (UNROLL 4): words that two parts have in common are loaded once.

#include "packed/decode.wgsl"

#if EXPERT
fn expert_of (row: u32) -> u32 {
  // Negative indices become too large.
  return bitcast<u32> (load_expert (row));
}
#endif

fn weights (h: Head, chunk: u32, j: u32) -> Part {
#if TAIL
  let left = vec4<u32> (p.k - chunk * 32u);
  let v = part (h, j);
  return Part (select (vec4<f32> (0.0), v.a, left > vec4<u32> (0u, 1u, 2u, 3u) + first (j)),
               select (vec4<f32> (0.0), v.b, left > vec4<u32> (0u, 1u, 2u, 3u) + second (j)));
#else
  return part (h, j);
#endif
}

// x[row, k] and the next three numbers, for a row that starts at `at`.
#if !VECTORS
fn get_x (at: u32, k: u32) -> f32 {
  return select (0.0, load_x (at + min (k, p.k - 1u)), k < p.k);
}
#endif

fn get_x4 (at: u32, k: u32) -> vec4<f32> {
#if VECTORS
  return load4_x ((at + k) / 4u);
#else
  return vec4<f32> (get_x (at, k), get_x (at, k + 1u), get_x (at, k + 2u), get_x (at, k + 3u));
#endif
}

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

fn finish (row: u32, column: u32, v: f32) {
  let y = row * p.n + column;
#if EPILOGUE
  store_y (y, epilogue (y, v));
#else
  store_y (y, v);
#endif
}

fn put (row: u32, column: u32, weight_row: u32, sum: f32) {
#if BIAS
  finish (row, column, sum + load_bias (weight_row));
#else
  finish (row, column, sum);
#endif
}

#if MODE < 2
// Four accumulators where there are so few sums that additions would wait for each other.
#if TM * TN <= 2
alias Sum = vec4<f32>;
fn total (sum: Sum) -> f32 {
  return (sum.x + sum.y) + (sum.z + sum.w);
}
fn add (sum: Sum, a: vec4<f32>, b: vec4<f32>, w: Part) -> Sum {
  return fma (b, w.b, fma (a, w.a, sum));
}
#else
alias Sum = f32;
fn total (sum: Sum) -> f32 {
  return sum;
}
fn add (sum: Sum, a: vec4<f32>, b: vec4<f32>, w: Part) -> Sum {
  let mid = fma (a.w, w.a.w, fma (a.z, w.a.z, fma (a.y, w.a.y, fma (a.x, w.a.x, sum))));
  return fma (b.w, w.b.w, fma (b.z, w.b.z, fma (b.y, w.b.y, fma (b.x, w.b.x, mid))));
}
#endif
#endif

#if MODE == 0

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups share columns, which stay in the cache.
  let base_row = group % p.tiles_m * $(TM)u;
  let base_column = group / p.tiles_m * $(WG * TN)u;
  let rows = p.m - base_row;
#for t in 0..TN
  let column$(t) = base_column + lane + $(t * WG)u;
  let weight$(t) = min (column$(t), p.n - 1u);
#endfor
#for i in 0..TM
  let row$(i) = base_row + min ($(i)u, rows - 1u);
  let x$(i) = row$(i) * p.k;
#for t in 0..TN
  var sum$(i)_$(t) = Sum ();
#endfor
#endfor

#if EXPERT
#for i in 0..TM
  let expert$(i) = expert_of (row$(i));
  var todo$(i) = expert$(i) < p.experts;
#endfor
  loop {
    // Each expert of these rows in turn.
    var expert = p.experts;
#for i in 0..TM
    expert = select (expert, min (expert, expert$(i)), todo$(i));
#endfor
    if (expert == p.experts) {
      break;
    }
    for (var chunk = 0u; chunk < p.chunks; chunk++) {
#for t in 0..TN
      let h$(t) = head (expert * p.n + weight$(t), chunk);
#endfor
      for (var j = 0u; j < p.parts; j++) {
        let k = chunk * 32u + first (j);
        let l = chunk * 32u + second (j);
#for t in 0..TN
        let w$(t) = weights (h$(t), chunk, j);
#endfor
#for i in 0..TM
        if (expert$(i) == expert) {
          let a = get_x4 (x$(i), k);
          let b = get_x4 (x$(i), l);
#for t in 0..TN
          sum$(i)_$(t) = add (sum$(i)_$(t), a, b, w$(t));
#endfor
        }
#endfor
      }
    }
#for i in 0..TM
    todo$(i) = todo$(i) && expert$(i) != expert;
#endfor
  }
#else
  for (var chunk = 0u; chunk < p.chunks; chunk++) {
#for t in 0..TN
    let h$(t) = head (weight$(t), chunk);
#endfor
#if UNROLL == 4
    let base = 0u;
    {
#else
    for (var base = 0u; base < p.parts; base++) {
#endif
#for u in 0..UNROLL
      {
        // All loads come first, then the products row by row: this keeps the sums in registers.
        let j = base + $(u)u;
        let k = chunk * 32u + first (j);
        let l = chunk * 32u + second (j);
#for i in 0..TM
        let a$(i) = get_x4 (x$(i), k);
        let b$(i) = get_x4 (x$(i), l);
#endfor
#for t in 0..TN
        let w$(t) = weights (h$(t), chunk, j);
#endfor
#for i in 0..TM
#for t in 0..TN
        sum$(i)_$(t) = add (sum$(i)_$(t), a$(i), b$(i), w$(t));
#endfor
#endfor
      }
#endfor
    }
  }
#endif

#for i in 0..TM
#for t in 0..TN
  if ($(i)u < rows && column$(t) < p.n) {
#if EXPERT
    if (expert$(i) < p.experts) {
      put (row$(i), column$(t), expert$(i) * p.n + column$(t), total (sum$(i)_$(t)));
    } else {
      finish (row$(i), column$(t), 0.0);
    }
#else
    put (row$(i), column$(t), column$(t), total (sum$(i)_$(t)));
#endif
  }
#endfor
#endfor
}

#elif MODE == 3

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32,
         @builtin(subgroup_invocation_id) sub: u32) {
  // After an early return everything would run under one more mask.
  let group = workgroup_index (wid);
  let base_row = group % p.tiles_m * $(TM)u;
  let base_column = group / p.tiles_m * $(WG * TN)u;
  let rows = select (0u, min ($(TM)u, p.m - base_row), group < p.groups);
  let chunks = select (0u, p.chunks, rows > 0u);
#for t in 0..TN
  let weight$(t) = min (base_column + lane + $(t * WG)u, p.n - 1u);
#endfor
#for i in 0..TM
  let x$(i) = min (base_row + $(i)u, p.m - 1u) * p.k;
#endfor

  // An index that, as far as the driver knows, is not uniform.
  let none = sub >> 3u;
  var sum: array<f32, $(TM * TN)>;
  for (var chunk = 0u; chunk < chunks; chunk++) {
#for t in 0..TN
    let h$(t) = head (weight$(t), chunk);
#endfor
    for (var j = 0u; j < p.parts; j++) {
      let at = chunk * 32u + select (first (j), second (j), sub >= 4u) + sub % 4u;
#for t in 0..TN
      let w$(t) = part (h$(t), j);
#endfor
#for i in 0..TM
      let v$(i) = load_x (x$(i) + at);
#endfor
#for i in 0..TM
#for u in 0..8
      let x$(i)_$(u) = subgroupShuffle (v$(i), none + $(u)u);
#endfor
#for t in 0..TN
      let y$(i)_$(t)_0 = x$(i)_0 * w$(t).a.x;
#for u in 1..4
      let y$(i)_$(t)_$(u) = fma (x$(i)_$(u), w$(t).a[$(u)], y$(i)_$(t)_$(u - 1));
#endfor
#for u in 4..8
      let y$(i)_$(t)_$(u) = fma (x$(i)_$(u), w$(t).b[$(u - 4)], y$(i)_$(t)_$(u - 1));
#endfor
      sum[$(i * TN + t)] += y$(i)_$(t)_7;
#endfor
#endfor
    }
  }

#if TM * TN > 32
  for (var i = 0u; i < $(TM * TN)u; i++) {
#else
  for (var i = 0u; i < rows * $(TN)u; i++) {
#endif
    let column = base_column + lane + i % $(TN)u * $(WG)u;
    if (i < rows * $(TN)u && column < p.n) {
      put (base_row + i / $(TN)u, column, column, sum[i]);
    }
  }
}

#elif MODE == 1

var<workgroup> partial: array<f32, $(WG * TM)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let base_row = group % p.tiles_m * $(TM)u;
  let base_column = group / p.tiles_m * $(WG / LANES)u + lane / $(LANES)u;
  let rows = p.m - base_row;
  let column = min (base_column, p.n - 1u);
#if EXPERT
  let expert = expert_of (base_row);
  let weight_row = min (expert, p.experts - 1u) * p.n + column;
#else
  let weight_row = column;
#endif
#for i in 0..TM
  let x$(i) = (base_row + min ($(i)u, rows - 1u)) * p.k;
  var sum$(i) = Sum ();
#endfor

  for (var chunk = lane % $(LANES)u; chunk < p.chunks; chunk += $(LANES)u) {
    let h = head (weight_row, chunk);
    for (var j = 0u; j < p.parts; j++) {
      let w = weights (h, chunk, j);
      let k = chunk * 32u + first (j);
      let l = chunk * 32u + second (j);
#for i in 0..TM
      sum$(i) = add (sum$(i), get_x4 (x$(i), k), get_x4 (x$(i), l), w);
#endfor
    }
  }

#for i in 0..TM
  partial[$(i * WG)u + lane] = total (sum$(i));
#endfor
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane % $(LANES)u < width) {
#for i in 0..TM
      partial[$(i * WG)u + lane] += partial[$(i * WG)u + lane + width];
#endfor
    }
  }

  if (lane % $(LANES)u == 0u && base_column < p.n) {
#for i in 0..TM
    if ($(i)u < rows) {
#if EXPERT
      if (expert < p.experts) {
        put (base_row, column, weight_row, partial[lane]);
      } else {
        finish (base_row, column, 0.0);
      }
#else
      put (base_row + $(i)u, column, column, partial[$(i * WG)u + lane]);
#endif
    }
#endfor
  }
}

#else

var<workgroup> tile_w: array<f32, 2048>;   // [k][column]
var<workgroup> tile_x: array<f32, 1024>;   // [row][k]

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let base_row = group % p.tiles_m * 32u;
  let base_column = group / p.tiles_m * 64u;
  // This invocation has 4 rows of every eighth column.
  let my_row = lane / 8u * 4u;
  let my_column = lane % 8u;
#for i in 0..4
#for j in 0..8
  var sum$(i)_$(j) = 0.0;
#endfor
#endfor

  for (var chunk = 0u; chunk < p.chunks; chunk++) {
    let h = head (min (base_column + lane, p.n - 1u), chunk);
    for (var j = 0u; j < p.parts; j++) {
      let w = weights (h, chunk, j);
#for c in 0..4
      tile_w[(first (j) + $(c)u) * 64u + lane] = w.a[$(c)];
      tile_w[(second (j) + $(c)u) * 64u + lane] = w.b[$(c)];
#endfor
    }
    for (var i = lane; i < 256u; i += 64u) {
      let x = get_x4 (min (base_row + i / 8u, p.m - 1u) * p.k, chunk * 32u + i % 8u * 4u);
#for c in 0..4
      tile_x[i * 4u + $(c)u] = x[$(c)];
#endfor
    }
    workgroupBarrier ();
    for (var k = 0u; k < 32u; k++) {
#for j in 0..8
      let w$(j) = tile_w[k * 64u + my_column + $(8 * j)u];
#endfor
#for i in 0..4
      let x$(i) = tile_x[(my_row + $(i)u) * 32u + k];
#for j in 0..8
      sum$(i)_$(j) = fma (x$(i), w$(j), sum$(i)_$(j));
#endfor
#endfor
    }
    workgroupBarrier ();
  }

#for i in 0..4
#for j in 0..8
  if (base_row + my_row + $(i)u < p.m && base_column + my_column + $(8 * j)u < p.n) {
    put (base_row + my_row + $(i)u, base_column + my_column + $(8 * j)u, base_column + my_column + $(8 * j)u, sum$(i)_$(j));
  }
#endfor
#endfor
}

#endif
