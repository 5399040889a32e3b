// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[m, n] = Σₖ x[m, k] · w[n, k] + bias[n], where w is packed (ops/rlx-packed.c), or
// w[expert[m], n, k] and bias[expert[m], n]. Three ways to share the work:
//
// - MODE 0: an invocation makes TM rows of one column. Rows follow from the workgroup
//   alone, so that `x` has the same address in all lanes. For processors that have
//   few lanes: their caches keep the lines that 8 lanes read from.
// - MODE 1: LANES invocations share the sums of a column, neighbours take neighbouring
//   chunks, for TM rows. For few rows on a GPU, and for few columns.
// - MODE 2: a workgroup keeps 64 columns and 32 rows of a chunk in its memory and
//   makes all their products. For many rows on a GPU.
//
// Where K is no multiple of 32 (TAIL), what is beyond it counts as 0. Loops over the
// four parts of a chunk end at p.parts, which drivers do not know: written out they
// take long to compile, and are no faster but for one row.

#include "packed/decode.wgsl"

#if EXPERT
fn expert_of (row: u32) -> u32 {
  // negative ones are too large
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

// x[row, k], for a row that starts at `at`.
fn get_x (at: u32, k: u32) -> f32 {
#if TAIL
  return select (0.0, load_x (at + min (k, p.k - 1u)), k < p.k);
#else
  return load_x (at + k);
#endif
}

fn put (row: u32, column: u32, weight_row: u32, sum: f32) {
  var v = sum;
#if BIAS
  v += load_bias (weight_row);
#endif
  store_y (row * p.n + column, v);
}

#if MODE < 2
// The sums of TM rows: four each when there are so few that additions would wait for
// each other.
#if TM <= 2
alias Sum = vec4<f32>;
fn total (sum: Sum) -> f32 {
  return (sum.x + sum.y) + (sum.z + sum.w);
}
fn add (sum: Sum, at: u32, k: u32, w: vec4<f32>) -> Sum {
  return fma (vec4<f32> (get_x (at, k), get_x (at, k + 1u), get_x (at, k + 2u), get_x (at, k + 3u)), w, sum);
}
#else
alias Sum = f32;
fn total (sum: Sum) -> f32 {
  return sum;
}
fn add (sum: Sum, at: u32, k: u32, w: vec4<f32>) -> Sum {
  return fma (get_x (at, k), w.x, fma (get_x (at, k + 1u), w.y, fma (get_x (at, k + 2u), w.z, fma (get_x (at, k + 3u), w.w, sum))));
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

  // Neighbouring workgroups take the same columns: these stay in the cache.
  let base_row = group % p.tiles_m * $(TM)u;
  let base_column = group / p.tiles_m * $(WG)u;
  let rows = p.m - base_row;
  let column = base_column + min (lane, p.n - 1u - base_column);
#for i in 0..TM
  let row$(i) = base_row + min ($(i)u, rows - 1u);
  let x$(i) = row$(i) * p.k;
  var sum$(i) = Sum ();
#endfor

#if EXPERT
#for i in 0..TM
  let expert$(i) = expert_of (row$(i));
  var todo$(i) = expert$(i) < p.experts;
#endfor
  loop {
    // each expert of these rows in turn
    var expert = p.experts;
#for i in 0..TM
    expert = select (expert, min (expert, expert$(i)), todo$(i));
#endfor
    if (expert == p.experts) {
      break;
    }
    for (var chunk = 0u; chunk < p.chunks; chunk++) {
      let h = head (expert * p.n + column, chunk);
      for (var j = 0u; j < p.parts; j++) {
        let w = weights (h, chunk, j);
        let a = chunk * 32u + first (j);
        let b = chunk * 32u + second (j);
#for i in 0..TM
        if (expert$(i) == expert) {
          sum$(i) = add (add (sum$(i), x$(i), a, w.a), x$(i), b, w.b);
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
    let h = head (column, chunk);
#if TM == 1
#for j in 0..4
    let w$(j) = weights (h, chunk, $(j)u);
    sum0 = add (add (sum0, x0, chunk * 32u + first ($(j)u), w$(j).a), x0, chunk * 32u + second ($(j)u), w$(j).b);
#endfor
#else
    for (var j = 0u; j < p.parts; j++) {
      let w = weights (h, chunk, j);
      let a = chunk * 32u + first (j);
      let b = chunk * 32u + second (j);
#for i in 0..TM
      sum$(i) = add (add (sum$(i), x$(i), a, w.a), x$(i), b, w.b);
#endfor
    }
#endif
  }
#endif

  if (base_column + lane < p.n) {
#for i in 0..TM
    if ($(i)u < rows) {
#if EXPERT
      if (expert$(i) < p.experts) {
        put (row$(i), column, expert$(i) * p.n + column, total (sum$(i)));
      } else {
        store_y (row$(i) * p.n + column, 0.0);
      }
#else
      put (row$(i), column, column, total (sum$(i)));
#endif
    }
#endfor
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
      let a = chunk * 32u + first (j);
      let b = chunk * 32u + second (j);
#for i in 0..TM
      sum$(i) = add (add (sum$(i), x$(i), a, w.a), x$(i), b, w.b);
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
        store_y (base_row * p.n + column, 0.0);
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
  // this invocation has 4 rows of every eighth column
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
    for (var i = lane; i < 1024u; i += 64u) {
      tile_x[i] = get_x (min (base_row + i / 32u, p.m - 1u) * p.k, chunk * 32u + i % 32u);
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
