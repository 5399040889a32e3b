// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The product of matrices of bytes less their zero points, in i32
// (ops/rlx-qmatmul.c). A workgroup makes a square of TILE · TILE elements from
// tiles of both operands that it shares.

var<workgroup> tile_a: array<i32, $(TILE * TILE)>;
var<workgroup> tile_b: array<i32, $(TILE * TILE)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let stack = group / (p.tiles_m * p.tiles_n);
  let square = group % (p.tiles_m * p.tiles_n);
  let i = lane / $(TILE)u;
  let j = lane % $(TILE)u;
  let row = square / p.tiles_n * $(TILE)u + i;
  let column = square % p.tiles_n * $(TILE)u + j;

  var rest = stack;
  var a = 0u;
  var b = 0u;
  var za = 0u;
  var zb = 0u;
#for d in 0..RANK
  {
    let c = rest % p.dim$(d);
    rest /= p.dim$(d);
    a += c * p.a$(d);
    b += c * p.b$(d);
    za += c * p.za$(d);
    zb += c * p.zb$(d);
  }
#endfor

  var zero_a = 0;
  var zero_b = 0;
#if ZERO_A
  if (row < p.m) {
    zero_a = i32 (load_zero_a (za + row * p.za_row));
  }
#endif
#if ZERO_B
  if (column < p.n) {
    zero_b = i32 (load_zero_b (zb + column * p.zb_column));
  }
#endif

  var sum = 0;
  for (var k = 0u; k < p.k; k += $(TILE)u) {
    // What is beyond an edge counts as the zero point: as 0.
    var left = 0;
    if (row < p.m && k + j < p.k) {
      left = i32 (load_a (a + row * p.k + k + j)) - zero_a;
    }
    tile_a[lane] = left;
    var right = 0;
    if (column < p.n && k + i < p.k) {
      right = i32 (load_b (b + (k + i) * p.n + column)) - zero_b;
    }
    tile_b[lane] = right;
    workgroupBarrier ();
    for (var e = 0u; e < $(TILE)u; e++) {
      sum += tile_a[i * $(TILE)u + e] * tile_b[e * $(TILE)u + j];
    }
    workgroupBarrier ();
  }
  if (row < p.m && column < p.n) {
    store_y ((stack * p.m + row) * p.n + column, sum);
  }
}
