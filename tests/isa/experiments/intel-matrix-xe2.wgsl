// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
enable subgroup_size_control;
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);
// 128 x 64 of y a workgroup of 16 subgroups of 16, 32 x 16 each. a is [m, k], b is [n, k], both f16, y f32; whole tiles.
struct Params { m: u32, n: u32, k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
var<workgroup> tile_a: array<vec4<u32>, 512>;
var<workgroup> tile_b: array<vec4<u32>, 256>;
@compute @subgroup_size(16) @workgroup_size(256)
fn main (@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) worker: u32) {
  let row = worker / 4u * 4u;
  let col = worker % 4u * 1u;
  var s0_0 = subgroup_matrix_result<f32, 16, 8>();
  var s1_0 = subgroup_matrix_result<f32, 16, 8>();
  var s2_0 = subgroup_matrix_result<f32, 16, 8>();
  var s3_0 = subgroup_matrix_result<f32, 16, 8>();
  let k8 = p.k / 8u;
  let line = lane / 4u;
  let part = lane % 4u;
  let begin_a = (wid.y * 128u + line) * k8 + part;
  let begin_b = (wid.x * 64u + line) * k8 + part;
  let slot_a = (line / 8u * 2u + part / 2u) * 16u + line % 8u * 2u + part % 2u;
  let slot_b = (line / 16u * 2u + part / 2u) * 32u + line % 16u * 2u + part % 2u;
  var a0 = a[begin_a + 0u * k8];
  var a1 = a[begin_a + 64u * k8];
  var b0 = b[begin_b + 0u * k8];
  for (var k = 0u; k < p.k; k += 32u) {
    tile_a[slot_a + 0u] = a0;
    tile_a[slot_a + 256u] = a1;
    tile_b[slot_b + 0u] = b0;
    workgroupBarrier ();
    a0 = a[begin_a + 0u * k8 + (k + 32u) / 8u];
    a1 = a[begin_a + 64u * k8 + (k + 32u) / 8u];
    b0 = b[begin_b + 0u * k8 + (k + 32u) / 8u];
    {
      let z0 = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(&tile_b, ((col + 0u) * 2u + 0u) * 32u, 2u);
      let x0 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 0u) * 2u + 0u) * 16u, 2u);
      s0_0 = subgroupMatrixMultiplyAccumulate (x0, z0, s0_0);
      let x1 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 1u) * 2u + 0u) * 16u, 2u);
      s1_0 = subgroupMatrixMultiplyAccumulate (x1, z0, s1_0);
      let x2 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 2u) * 2u + 0u) * 16u, 2u);
      s2_0 = subgroupMatrixMultiplyAccumulate (x2, z0, s2_0);
      let x3 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 3u) * 2u + 0u) * 16u, 2u);
      s3_0 = subgroupMatrixMultiplyAccumulate (x3, z0, s3_0);
    }
    {
      let z0 = subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>(&tile_b, ((col + 0u) * 2u + 1u) * 32u, 2u);
      let x0 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 0u) * 2u + 1u) * 16u, 2u);
      s0_0 = subgroupMatrixMultiplyAccumulate (x0, z0, s0_0);
      let x1 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 1u) * 2u + 1u) * 16u, 2u);
      s1_0 = subgroupMatrixMultiplyAccumulate (x1, z0, s1_0);
      let x2 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 2u) * 2u + 1u) * 16u, 2u);
      s2_0 = subgroupMatrixMultiplyAccumulate (x2, z0, s2_0);
      let x3 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 3u) * 2u + 1u) * 16u, 2u);
      s3_0 = subgroupMatrixMultiplyAccumulate (x3, z0, s3_0);
    }
    workgroupBarrier ();
  }
  subgroupMatrixStore<row_major>(&y, (wid.y * 128u + (row + 0u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 16u, s0_0, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 128u + (row + 1u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 16u, s1_0, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 128u + (row + 2u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 16u, s2_0, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 128u + (row + 3u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 16u, s3_0, p.n);
}
