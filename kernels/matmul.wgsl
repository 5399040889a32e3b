// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[batch, m, n] = epilogue (alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias)
//
// Variants, chosen by adapter and shape (ops/rlx-product.c):
//
// - LANES: a workgroup computes TM rows, an invocation TN columns of each. The row follows from the workgroup alone, so
//   the address of `a` is the same in all lanes. There is no workgroup memory and no barrier. This is for CPUs whose
//   driver has no subgroups of eight lanes (matmul-shuffle.wgsl is for those that have), and on GPUs for few rows,
//   where SLICES slices of a workgroup share the sum. All loads of four steps of k come first and then, row by row,
//   four products into each sum: that leaves the products in one basic block, where the compiler keeps a sum in a
//   register. Results are stored in a loop: unrolled, the 64 stores would be most of the compile time. With PANEL the
//   weights are laid out as [columns / (WG · TN)][k][WG · TN], so that a workgroup reads one stream. doc/kernels.md has
//   the measurements. With PAIRS, which is for 16-bit floats, a load brings two columns.
// - DOT: a workgroup computes one output, and its lanes share the sum. For few outputs with long sums.
// - SUM: adds up the partial sums of several workgroups (SPLIT_K), always in the same order.
//
// matmul-tile.wgsl has the tiles for GPUs.

#if SUM

#include "common/product.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  let size = p.m * p.n;
  let at = min (i, size - 1u);
  var sum = load_x (at);
  for (var split = 1u; split < p.splits; split++) {
    sum += load_x (split * size + at);
  }
  put_if (i < size, 0u, i / p.n, i % p.n, sum);
}

#elif DOT

#include "common/product.wgsl"

var<workgroup> partial: array<f32, $(WG)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let col = group % p.n;
  let row = (group / p.n) % p.m;
  let batch = group / p.n / p.m;
  let at = origin (batch);
  let a = at.a + row * p.a_m;
  let b = at.b + col * p.b_n;
  let steps = p.k / $(WG)u + select (0u, 1u, lane < p.k % $(WG)u);
  var sum = 0.0;
  for (var i = 0u; i < steps; i++) {
    let k = i * $(WG)u + lane;
    sum = fma (load_a (a + k * p.a_k), load_b (b + k * p.b_k), sum);
  }

  partial[lane] = sum;
  for (var width = $(WG / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane < width) {
      partial[lane] += partial[lane + width];
    }
  }
  put_if (lane == 0u, batch, row, col, partial[lane]);
}

#else

#define BM TM
#define BN LANES * TN
#include "common/product.wgsl"

#if SLICES > 1
var<workgroup> partial: array<f32, $(WG * TM * TN)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) index: u32) {
  let group = workgroup_index (wid);
  let to = place (group);
  // After an early return everything would run under one more condition. Instead, a workgroup past the last one has no
  // rows and no steps.
  let there = group < p.groups;
  let k_end = select (to.k, to.k_end, there);
#if SLICES > 1
  let lane = index % $(LANES)u;
  let slice = index / $(LANES)u;
  // The first slice stores.
  let rows = select (0u, min ($(TM)u, p.m - to.row), there & (slice == 0u));
#else
  let lane = index;
  let rows = select (0u, min ($(TM)u, p.m - to.row), there);
#endif
#if PAIRS
#for j in 0..TN
  let col$(j) = to.col + lane * 2u + $(j / 2 * 2 * LANES + j % 2)u;
#endfor
#else
#for j in 0..TN
  let col$(j) = to.col + lane + $(j * LANES)u;
#endfor
#endif

#for i in 0..TM
#for j in 0..TN
  var sum$(i)_$(j) = 0.0;
#endfor
#endfor

#if PRODUCT
#if SPLIT_K
  let at = Origin (0u, 0u);
#else
  let at = origin (to.batch);
#endif
#for i in 0..TM
  let a$(i) = at.a + min (to.row + $(i)u, p.m - 1u) * p.a_m;
#endfor
#if PANEL
  let b0 = to.col * p.k;
#elif PAIRS
#for j in 0..TN / 2
  let b$(j * 2) = at.b + min (col$(j * 2), p.n - 2u);
#endfor
#else
#for j in 0..TN
  let b$(j) = at.b + min (col$(j), p.n - 1u) * p.b_n;
#endfor
#endif

#define UNROLL 4
  let whole = to.k + (k_end - to.k) / $(UNROLL)u * $(UNROLL)u;
#if SLICES > 1
  for (var k = to.k + slice * $(UNROLL)u; k < whole; k += $(UNROLL * SLICES)u) {
#else
  for (var k = to.k; k < whole; k += $(UNROLL)u) {
#endif
#for i in 0..TM
#if VECTORS
    let x$(i) = load4_a ((a$(i) + k) / 4u);
#else
    let x$(i) = vec4<f32> (load_a (a$(i) + k * p.a_k), load_a (a$(i) + (k + 1u) * p.a_k),
                           load_a (a$(i) + (k + 2u) * p.a_k), load_a (a$(i) + (k + 3u) * p.a_k));
#endif
#endfor
#for u in 0..UNROLL
#if PANEL && PAIRS
#for j in 0..TN / 2
    let w$(u)_$(j) = load2_b ((b0 + (k + $(u)u) * $(BN)u) / 2u + lane + $(j * LANES)u);
    let y$(u)_$(j * 2) = w$(u)_$(j).x;
    let y$(u)_$(j * 2 + 1) = w$(u)_$(j).y;
#endfor
#elif PANEL
#for j in 0..TN
    let y$(u)_$(j) = load_b (b0 + (k + $(u)u) * $(BN)u + lane + $(j * LANES)u);
#endfor
#elif PAIRS
#for j in 0..TN / 2
    let w$(u)_$(j) = load2_b ((b$(j * 2) + (k + $(u)u) * p.b_k) / 2u);
    let y$(u)_$(j * 2) = w$(u)_$(j).x;
    let y$(u)_$(j * 2 + 1) = w$(u)_$(j).y;
#endfor
#else
#for j in 0..TN
    let y$(u)_$(j) = load_b (b$(j) + (k + $(u)u) * p.b_k);
#endfor
#endif
#endfor
#for i in 0..TM
#for j in 0..TN
    sum$(i)_$(j) = fma (x$(i).w, y3_$(j), fma (x$(i).z, y2_$(j), fma (x$(i).y, y1_$(j), fma (x$(i).x, y0_$(j), sum$(i)_$(j)))));
#endfor
#endfor
  }
#if !VECTORS
  // The first slice does the last few steps.
#if SLICES > 1
  for (var k = select (k_end, whole, slice == 0u); k < k_end; k++) {
#else
  for (var k = whole; k < k_end; k++) {
#endif
#if PANEL && PAIRS
#for j in 0..TN / 2
    let w$(j) = load2_b ((b0 + k * $(BN)u) / 2u + lane + $(j * LANES)u);
    let y$(j * 2) = w$(j).x;
    let y$(j * 2 + 1) = w$(j).y;
#endfor
#elif PANEL
#for j in 0..TN
    let y$(j) = load_b (b0 + k * $(BN)u + lane + $(j * LANES)u);
#endfor
#elif PAIRS
#for j in 0..TN / 2
    let w$(j) = load2_b ((b$(j * 2) + k * p.b_k) / 2u);
    let y$(j * 2) = w$(j).x;
    let y$(j * 2 + 1) = w$(j).y;
#endfor
#else
#for j in 0..TN
    let y$(j) = load_b (b$(j) + k * p.b_k);
#endfor
#endif
#for i in 0..TM
    let x$(i) = load_a (a$(i) + k * p.a_k);
#for j in 0..TN
    sum$(i)_$(j) = fma (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
  }
#endif
#endif

#if SLICES > 1
#for i in 0..TM
#for j in 0..TN
  partial[$((i * TN + j) * WG)u + index] = sum$(i)_$(j);
#endfor
#endfor
  workgroupBarrier ();
#for j in 0..TN
  for (var i = 0u; i < rows; i++) {
    let first = (i * $(TN)u + $(j)u) * $(WG)u + lane;
    var sum = partial[first];
    for (var s = 1u; s < $(SLICES)u; s++) {
      sum += partial[first + s * $(LANES)u];
    }
    put_if (col$(j) < p.n, to.batch, to.row + i, col$(j), sum);
  }
#endfor
#else
  // Stores the first row and moves the others up.
  for (var i = 0u; i < rows; i++) {
#for j in 0..TN
    put_if (col$(j) < p.n, to.batch, to.row + i, col$(j), sum0_$(j));
#endfor
#for i in 1..TM
#for j in 0..TN
    sum$(i - 1)_$(j) = sum$(i)_$(j);
#endfor
#endfor
  }
#endif
}

#endif
