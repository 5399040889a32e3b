// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[batch, m, n] = alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias
//
// Two ways to share the work, chosen by shape (ops/rlx-linear.c):
//
// - tiles: a workgroup makes TM rows of WG · TN columns, an invocation TM rows
//   of every WG-th column. The row follows from the workgroup alone, so that
//   the address of `a` is the same in all lanes: one scalar load for the whole
//   subgroup. There is no workgroup memory and no barrier.
// - DOT: a workgroup makes one output, its lanes split up the sum. For few
//   outputs with long sums.
//
// Both operands come with the distance between elements along each of their
// axes, so a transpose costs nothing here. Rows and columns change places
// (SWAP) when there are more rows than columns to spread over the lanes.
// Indices beyond the edge are moved back onto it and only stores are guarded.

#if PRODUCT
// The first element of each matrix, for one index of the batch.
struct Origin {
  a: u32,
  b: u32,
}

fn origin (batch: u32) -> Origin {
  var at = Origin (0u, 0u);
#if BATCH_DIMS > 0
  var rest = batch;
#for d in 0..BATCH_DIMS
  let c$(d) = rest % p.batch$(d);
  rest /= p.batch$(d);
  at.a += c$(d) * p.a_batch$(d);
  at.b += c$(d) * p.b_batch$(d);
#endfor
#endif
  return at;
}
#endif

// Takes coordinates as the loops below have them.
fn put (batch: u32, row: u32, col: u32, sum: f32) {
#if SWAP
  let m = col;
  let n = row;
  let y = (batch * p.n + m) * p.m + n;
#else
  let m = row;
  let n = col;
  let y = (batch * p.m + m) * p.n + n;
#endif
  var v = sum;
#if ALPHA
  v *= p.alpha;
#endif
#if BIAS
  var at = n * p.bias_n;
#if BIAS_DIMS > 0
  var rest = m;
#for d in 0..BIAS_DIMS
  at += (rest % p.row$(d)) * p.bias_row$(d);
  rest /= p.row$(d);
#endfor
#endif
#if BETA
  v = fma (p.beta, load_bias (at), v);
#else
  v += load_bias (at);
#endif
#endif
  store_y (y, v);
}

#if DOT

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
  if (lane == 0u) {
    put (batch, row, col, partial[0]);
  }
}

#else

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups take the same columns: these stay in the cache.
  let row0 = (group % p.tiles_m) * $(TM)u;
  let rest = group / p.tiles_m;
  let col0 = (rest % p.tiles_n) * $(WG * TN)u;
  let batch = rest / p.tiles_n;
  let rows = p.m - row0;
  let cols = p.n - col0;

#for i in 0..TM
#for j in 0..TN
  var sum$(i)_$(j) = 0.0;
#endfor
#endfor

#if PRODUCT
#define UNROLL 4
  let at = origin (batch);
#for i in 0..TM
  let a$(i) = at.a + (row0 + min ($(i)u, rows - 1u)) * p.a_m;
#endfor
#for j in 0..TN
  let b$(j) = at.b + (col0 + min (lane + $(j * WG)u, cols - 1u)) * p.b_n;
#endfor

  let whole = p.k - p.k % $(UNROLL)u;
  for (var k = 0u; k < whole; k += $(UNROLL)u) {
#for u in 0..UNROLL
    {
      let ka = (k + $(u)u) * p.a_k;
      let kb = (k + $(u)u) * p.b_k;
#for j in 0..TN
      let y$(j) = load_b (b$(j) + kb);
#endfor
#for i in 0..TM
      let x$(i) = load_a (a$(i) + ka);
#for j in 0..TN
      sum$(i)_$(j) = fma (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
    }
#endfor
  }
  for (var k = whole; k < p.k; k++) {
    let ka = k * p.a_k;
    let kb = k * p.b_k;
#for j in 0..TN
    let y$(j) = load_b (b$(j) + kb);
#endfor
#for i in 0..TM
    let x$(i) = load_a (a$(i) + ka);
#for j in 0..TN
    sum$(i)_$(j) = fma (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
  }
#endif

#for i in 0..TM
#for j in 0..TN
  if ($(i)u < rows && lane + $(j * WG)u < cols) {
    put (batch, row0 + $(i)u, col0 + lane + $(j * WG)u, sum$(i)_$(j));
  }
#endfor
#endfor
}

#endif
