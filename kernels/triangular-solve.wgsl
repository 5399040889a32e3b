// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// op(A) X = B for triangular matrices, a workgroup for each matrix and up to CHUNK columns of X. Every case is reduced
// to that of a lower triangle: for an upper one rows count from the end, and a transpose or a matrix on the right only
// changes the strides, which are taken modulo 2³².
//
// NB rows are solved at a time, each column by one invocation; then all invocations subtract their contribution from
// the rows that follow. Rows of B are permuted by ORDER if there is one; without B it is the identity matrix
// (IDENTITY).

var<workgroup> square: array<f32, $(NB * NB)>;
var<workgroup> solved: array<f32, $(NB * CHUNK)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let n = p.n;
  let matrix = group / p.chunks;
  let left = group % p.chunks * p.chunk;
  let columns = min (p.chunk, p.columns - left);

  var index_a = 0u;
  var index_b = 0u;
  var rest = matrix;
#for d in 0..BATCH_DIMS
  index_a += rest % p.batch$(d) * p.a_batch$(d);
  index_b += rest % p.batch$(d) * p.b_batch$(d);
  rest /= p.batch$(d);
#endfor
  let a = index_a * n * n + p.a_first;
  let x = matrix * n * p.columns + p.x_first + left * p.x_column;

  for (var i = lane; i < n * columns; i += $(WG)u) {
    let r = i / columns;
    let c = i % columns;
#if ORDER
    let source = load_order (index_a * n + r);
#else
    let source = r;
#endif
#if IDENTITY
    let v = select (0.0, 1.0, source == left + c);
#else
    let v = load_b (index_b * n * p.columns + p.x_first + source * p.x_row + (left + c) * p.x_column);
#endif
    store_y (x + r * p.x_row + c * p.x_column, v);
  }
  storageBarrier ();

  for (var first = 0u; first < n; first += $(NB)u) {
    let end = min (first + $(NB)u, n);
    let rows = end - first;
    for (var i = lane; i < rows * rows; i += $(WG)u) {
      let r = i / rows;
      let c = i % rows;
      if (c <= r) {
        square[r * $(NB)u + c] = load_a (a + (first + r) * p.a_row + (first + c) * p.a_column);
      }
    }
    for (var i = lane; i < rows * columns; i += $(WG)u) {
      let r = i / columns;
      let c = i % columns;
      solved[r * $(CHUNK)u + c] = load_y (x + (first + r) * p.x_row + c * p.x_column);
    }
    workgroupBarrier ();

    if (lane < columns) {
      for (var r = 0u; r < rows; r++) {
        var v = solved[r * $(CHUNK)u + lane];
        for (var k = 0u; k < r; k++) {
          v = fma (-square[r * $(NB)u + k], solved[k * $(CHUNK)u + lane], v);
        }
        if (p.unit == 0u) {
          v /= square[r * $(NB + 1)u];
        }
        solved[r * $(CHUNK)u + lane] = v;
      }
    }
    workgroupBarrier ();

    for (var i = lane; i < rows * columns; i += $(WG)u) {
      let r = i / columns;
      let c = i % columns;
      store_y (x + (first + r) * p.x_row + c * p.x_column, solved[r * $(CHUNK)u + c]);
    }
    for (var i = lane; i < (n - end) * columns; i += $(WG)u) {
      let r = end + i / columns;
      let c = i % columns;
      let at = x + r * p.x_row + c * p.x_column;
      let row = a + r * p.a_row + first * p.a_column;
      var v = load_y (at);
      for (var k = 0u; k < rows; k++) {
        v = fma (-load_a (row + k * p.a_column), solved[k * $(CHUNK)u + c], v);
      }
      store_y (at, v);
    }
    storageBarrier ();
    workgroupBarrier ();
  }
}
