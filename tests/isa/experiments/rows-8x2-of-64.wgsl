// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
enable subgroups;
// 32 x 128 of y a workgroup, 8 x 2 a lane. The rows of a lane are those of its whole subgroup of 64: their numbers
// are uniform, so the driver loads them once for all lanes and multiplies by a scalar operand.
struct Params { m: u32, n: u32, k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec2<f32>>;
var<workgroup> tile: array<array<array<vec2<f32>, 64>, 16>, 2>;
@compute @workgroup_size(256)
fn main (@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let tx = lane % 64u;
  let ty = subgroupBroadcastFirst (lane / 64u);
  let k4 = p.k / 4u;
  let nv = p.n / 2u;
  var s0 = vec2<f32> ();
  var s1 = vec2<f32> ();
  var s2 = vec2<f32> ();
  var s3 = vec2<f32> ();
  var s4 = vec2<f32> ();
  var s5 = vec2<f32> ();
  var s6 = vec2<f32> ();
  var s7 = vec2<f32> ();
  let r0 = (wid.y * 32u + ty * 8u + 0u) * k4;
  let r1 = (wid.y * 32u + ty * 8u + 1u) * k4;
  let r2 = (wid.y * 32u + ty * 8u + 2u) * k4;
  let r3 = (wid.y * 32u + ty * 8u + 3u) * k4;
  let r4 = (wid.y * 32u + ty * 8u + 4u) * k4;
  let r5 = (wid.y * 32u + ty * 8u + 5u) * k4;
  let r6 = (wid.y * 32u + ty * 8u + 6u) * k4;
  let r7 = (wid.y * 32u + ty * 8u + 7u) * k4;
  let col = wid.x * 64u + tx;
  let begin = lane / 64u * nv + col;
  var n0 = b[begin + 0u * nv];
  var n1 = b[begin + 4u * nv];
  var n2 = b[begin + 8u * nv];
  var n3 = b[begin + 12u * nv];
  var half = 0u;
  for (var k = 0u; k < p.k; k += 16u) {
    tile[half][lane / 64u + 0u][tx] = n0;
    tile[half][lane / 64u + 4u][tx] = n1;
    tile[half][lane / 64u + 8u][tx] = n2;
    tile[half][lane / 64u + 12u][tx] = n3;
    workgroupBarrier ();
    n0 = b[begin + (k + 16u) * nv];
    n1 = b[begin + (k + 20u) * nv];
    n2 = b[begin + (k + 24u) * nv];
    n3 = b[begin + (k + 28u) * nv];
    for (var q = 0u; q < 4u; q++) {
      let x0 = a[r0 + k / 4u + q];
      let x1 = a[r1 + k / 4u + q];
      let x2 = a[r2 + k / 4u + q];
      let x3 = a[r3 + k / 4u + q];
      let x4 = a[r4 + k / 4u + q];
      let x5 = a[r5 + k / 4u + q];
      let x6 = a[r6 + k / 4u + q];
      let x7 = a[r7 + k / 4u + q];
      let w0 = tile[half][q * 4u + 0u][tx];
      s0 = fma (vec2<f32> (x0[0]), w0, s0);
      s1 = fma (vec2<f32> (x1[0]), w0, s1);
      s2 = fma (vec2<f32> (x2[0]), w0, s2);
      s3 = fma (vec2<f32> (x3[0]), w0, s3);
      s4 = fma (vec2<f32> (x4[0]), w0, s4);
      s5 = fma (vec2<f32> (x5[0]), w0, s5);
      s6 = fma (vec2<f32> (x6[0]), w0, s6);
      s7 = fma (vec2<f32> (x7[0]), w0, s7);
      let w1 = tile[half][q * 4u + 1u][tx];
      s0 = fma (vec2<f32> (x0[1]), w1, s0);
      s1 = fma (vec2<f32> (x1[1]), w1, s1);
      s2 = fma (vec2<f32> (x2[1]), w1, s2);
      s3 = fma (vec2<f32> (x3[1]), w1, s3);
      s4 = fma (vec2<f32> (x4[1]), w1, s4);
      s5 = fma (vec2<f32> (x5[1]), w1, s5);
      s6 = fma (vec2<f32> (x6[1]), w1, s6);
      s7 = fma (vec2<f32> (x7[1]), w1, s7);
      let w2 = tile[half][q * 4u + 2u][tx];
      s0 = fma (vec2<f32> (x0[2]), w2, s0);
      s1 = fma (vec2<f32> (x1[2]), w2, s1);
      s2 = fma (vec2<f32> (x2[2]), w2, s2);
      s3 = fma (vec2<f32> (x3[2]), w2, s3);
      s4 = fma (vec2<f32> (x4[2]), w2, s4);
      s5 = fma (vec2<f32> (x5[2]), w2, s5);
      s6 = fma (vec2<f32> (x6[2]), w2, s6);
      s7 = fma (vec2<f32> (x7[2]), w2, s7);
      let w3 = tile[half][q * 4u + 3u][tx];
      s0 = fma (vec2<f32> (x0[3]), w3, s0);
      s1 = fma (vec2<f32> (x1[3]), w3, s1);
      s2 = fma (vec2<f32> (x2[3]), w3, s2);
      s3 = fma (vec2<f32> (x3[3]), w3, s3);
      s4 = fma (vec2<f32> (x4[3]), w3, s4);
      s5 = fma (vec2<f32> (x5[3]), w3, s5);
      s6 = fma (vec2<f32> (x6[3]), w3, s6);
      s7 = fma (vec2<f32> (x7[3]), w3, s7);
    }
    half = 1u - half;
  }
  y[(wid.y * 32u + ty * 8u + 0u) * nv + col] = s0;
  y[(wid.y * 32u + ty * 8u + 1u) * nv + col] = s1;
  y[(wid.y * 32u + ty * 8u + 2u) * nv + col] = s2;
  y[(wid.y * 32u + ty * 8u + 3u) * nv + col] = s3;
  y[(wid.y * 32u + ty * 8u + 4u) * nv + col] = s4;
  y[(wid.y * 32u + ty * 8u + 5u) * nv + col] = s5;
  y[(wid.y * 32u + ty * 8u + 6u) * nv + col] = s6;
  y[(wid.y * 32u + ty * 8u + 7u) * nv + col] = s7;
}
