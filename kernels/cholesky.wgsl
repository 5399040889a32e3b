// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The Cholesky factors of symmetric matrices, one workgroup for each. Columns are computed in blocks of NB, from left
// to right: first the contributions of all columns before the block, then the square on the diagonal in workgroup
// memory, then the rows below it, each by one invocation. For an upper factor rows and columns are exchanged, so both
// strides are parameters.

#use op_sqrt
#use math_nan

var<workgroup> square: array<f32, $(NB * NB)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let base = group * p.n * p.n;
  for (var first = 0u; first < p.n; first += $(NB)u) {
    let end = min (first + $(NB)u, p.n);
    let width = end - first;
    for (var t = lane; t < (p.n - first) * width; t += $(WG)u) {
      let c = first + t % width;
      let r = first + t / width;
      let at = base + r * p.row + c * p.column;
      var v = 0.0;
      if (c <= r) {
        var sum = 0.0;
        for (var k = 0u; k < first; k++) {
          sum = fma (load_y (base + r * p.row + k * p.column), load_y (base + c * p.row + k * p.column), sum);
        }
        v = load_x (at) - sum;
      }
      store_y (at, v);
    }
    // Zeros to the right of the square.
    for (var t = lane; t < width * (p.n - end); t += $(WG)u) {
      store_y (base + (first + t % width) * p.row + (end + t / width) * p.column, 0.0);
    }
    storageBarrier ();

    // The bounds are not constants, because drivers would unroll the loops and take long to compile them.
    for (var t = lane; t < width * width; t += $(WG)u) {
      let r = t / width;
      let c = t % width;
      square[r * $(NB)u + c] = load_y (base + (first + r) * p.row + (first + c) * p.column);
    }
    workgroupBarrier ();
    for (var j = 0u; j < width; j++) {
      let pivot = square[j * $(NB + 1)u];
      var root = math_nan (pivot);
      if (pivot > 0.0) {
        root = op_sqrt (pivot);
      }
      workgroupBarrier ();
      if (lane >= j && lane < width) {
        let at = lane * $(NB)u + j;
        square[at] = select (square[at] / root, root, lane == j);
      }
      workgroupBarrier ();
      for (var t = lane; t < width * width; t += $(WG)u) {
        let r = t / width;
        let c = t % width;
        if (c > j && c <= r) {
          let at = r * $(NB)u;
          square[at + c] = fma (-square[at + j], square[c * $(NB)u + j], square[at + c]);
        }
      }
      workgroupBarrier ();
    }

    for (var t = lane; t < width * width; t += $(WG)u) {
      let r = t / width;
      let c = t % width;
      if (c <= r) {
        store_y (base + (first + r) * p.row + (first + c) * p.column, square[r * $(NB)u + c]);
      }
    }
    for (var r = end + lane; r < p.n; r += $(WG)u) {
      let at = base + r * p.row + first * p.column;
      for (var c = 0u; c < width; c++) {
        var v = load_y (at + c * p.column);
        for (var k = 0u; k < c; k++) {
          v = fma (-load_y (at + k * p.column), square[c * $(NB)u + k], v);
        }
        store_y (at + c * p.column, v / square[c * $(NB + 1)u]);
      }
    }
    storageBarrier ();
  }
}
