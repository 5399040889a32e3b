// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[m, n] = Σₖ x[m, k] · w[expert[m], k, n], or 0 if the expert does not exist
//
// A workgroup computes TM rows of WG · TN columns, an invocation TM rows of every WG-th column. Rows are sorted by
// expert; those of one expert are its segment. The first segment has the rows whose expert is negative, the last one
// those whose expert is too large. Tiles do not cross segments: `first` is the first tile of each segment, and `start`
// its first row. So all rows of a workgroup share a matrix, the addresses of x follow from the workgroup alone, and one
// load serves all lanes. The loads of four steps of k precede their products, as in matmul.

#define UNROLL 4

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups share columns, which stay in the cache.
  let tile = group % p.tiles_m;
  let column = (group / p.tiles_m) * $(WG * TN)u + lane;

  // The last segment whose first tile is not after this one: never an empty one, since the next would start at the same
  // tile.
  var low = 0u;
  var high = p.experts + 2u;
  while (high - low > 1u) {
    let middle = (low + high) / 2u;
    if (load_first (middle) <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  let begin = load_start (low) + (tile - load_first (low)) * $(TM)u;
  let end = load_start (low + 1u);
  // The dispatch is sized for the worst case, so the last workgroups may have no tile.
  if (begin >= end) {
    return;
  }
  let rows = end - begin;

#for i in 0..TM
  let row$(i) = load_order (begin + min ($(i)u, rows - 1u));
#for j in 0..TN
  var sum$(i)_$(j) = 0.0;
#endfor
#endfor

#for i in 0..TM
  let x$(i) = row$(i) * p.k;
#endfor
#for j in 0..TN
  let w$(j) = clamp (low, 1u, p.experts) * p.k * p.n - p.k * p.n + min (column + $(j * WG)u, p.n - 1u);
#endfor
  // No steps for rows without an expert.
  let steps = select (0u, p.k, low > 0u && low <= p.experts);
  let whole = steps - steps % $(UNROLL)u;
  for (var k = 0u; k < whole; k += $(UNROLL)u) {
#for u in 0..UNROLL
#for j in 0..TN
    let b$(u)_$(j) = load_w (w$(j) + (k + $(u)u) * p.n);
#endfor
#for i in 0..TM
    let a$(u)_$(i) = load_x (x$(i) + k + $(u)u);
#endfor
#endfor
#for i in 0..TM
#for u in 0..UNROLL
#for j in 0..TN
    sum$(i)_$(j) = fma (a$(u)_$(i), b$(u)_$(j), sum$(i)_$(j));
#endfor
#endfor
#endfor
  }
  for (var k = whole; k < steps; k++) {
#for j in 0..TN
    let b$(j) = load_w (w$(j) + k * p.n);
#endfor
#for i in 0..TM
    let a$(i) = load_x (x$(i) + k);
#for j in 0..TN
    sum$(i)_$(j) = fma (a$(i), b$(j), sum$(i)_$(j));
#endfor
#endfor
  }

  // In a loop: unrolled stores take long to compile.
  var sums: array<f32, $(TM * TN)>;
#for i in 0..TM
#for j in 0..TN
  sums[$(i * TN + j)] = sum$(i)_$(j);
#endfor
#endfor
  for (var i = 0u; i < min (rows, $(TM)u); i++) {
    let row = load_order (begin + i);
#for j in 0..TN
    if (column + $(j * WG)u < p.n) {
      store_y (row * p.n + column + $(j * WG)u, sums[i * $(TN)u + $(j)u]);
    }
#endfor
  }
}
