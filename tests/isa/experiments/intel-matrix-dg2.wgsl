// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
enable subgroup_size_control;
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);
// 64 x 64 of y a workgroup of 16 subgroups of 8, 16 x 16 each. a is [m, k], b is [n, k], both f16, y f32; whole tiles.
struct Params { m: u32, n: u32, k: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
var<workgroup> tile_a: array<vec4<u32>, 256>;
var<workgroup> tile_b: array<vec4<u32>, 256>;
@compute @subgroup_size(8) @workgroup_size(128)
fn main (@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) worker: u32) {
  let row = worker / 4u * 2u;
  let col = worker % 4u * 2u;
  var s0_0 = subgroup_matrix_result<f32, 8, 8>();
  var s0_1 = subgroup_matrix_result<f32, 8, 8>();
  var s1_0 = subgroup_matrix_result<f32, 8, 8>();
  var s1_1 = subgroup_matrix_result<f32, 8, 8>();
  let k8 = p.k / 8u;
  let line = lane / 4u;
  let part = lane % 4u;
  let begin_a = (wid.y * 64u + line) * k8 + part;
  let begin_b = (wid.x * 64u + line) * k8 + part;
  let slot_a = (line / 8u * 2u + part / 2u) * 16u + line % 8u * 2u + part % 2u;
  let slot_b = (line / 8u * 2u + part / 2u) * 16u + line % 8u * 2u + part % 2u;
  for (var k = 0u; k < p.k; k += 32u) {
    let a0 = a[begin_a + 0u * k8 + k / 8u];
    let a1 = a[begin_a + 32u * k8 + k / 8u];
    let b0 = b[begin_b + 0u * k8 + k / 8u];
    let b1 = b[begin_b + 32u * k8 + k / 8u];
    tile_a[slot_a + 0u] = a0;
    tile_a[slot_a + 128u] = a1;
    tile_b[slot_b + 0u] = b0;
    tile_b[slot_b + 128u] = b1;
    workgroupBarrier ();
    {
      let z0 = subgroupMatrixLoad<subgroup_matrix_right<f16, 8, 16>, col_major>(&tile_b, ((col + 0u) * 2u + 0u) * 16u, 2u);
      let z1 = subgroupMatrixLoad<subgroup_matrix_right<f16, 8, 16>, col_major>(&tile_b, ((col + 1u) * 2u + 0u) * 16u, 2u);
      let x0 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 0u) * 2u + 0u) * 16u, 2u);
      s0_0 = subgroupMatrixMultiplyAccumulate (x0, z0, s0_0);
      s0_1 = subgroupMatrixMultiplyAccumulate (x0, z1, s0_1);
      let x1 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 1u) * 2u + 0u) * 16u, 2u);
      s1_0 = subgroupMatrixMultiplyAccumulate (x1, z0, s1_0);
      s1_1 = subgroupMatrixMultiplyAccumulate (x1, z1, s1_1);
    }
    {
      let z0 = subgroupMatrixLoad<subgroup_matrix_right<f16, 8, 16>, col_major>(&tile_b, ((col + 0u) * 2u + 1u) * 16u, 2u);
      let z1 = subgroupMatrixLoad<subgroup_matrix_right<f16, 8, 16>, col_major>(&tile_b, ((col + 1u) * 2u + 1u) * 16u, 2u);
      let x0 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 0u) * 2u + 1u) * 16u, 2u);
      s0_0 = subgroupMatrixMultiplyAccumulate (x0, z0, s0_0);
      s0_1 = subgroupMatrixMultiplyAccumulate (x0, z1, s0_1);
      let x1 = subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 8>, row_major>(&tile_a, ((row + 1u) * 2u + 1u) * 16u, 2u);
      s1_0 = subgroupMatrixMultiplyAccumulate (x1, z0, s1_0);
      s1_1 = subgroupMatrixMultiplyAccumulate (x1, z1, s1_1);
    }
    workgroupBarrier ();
  }
  subgroupMatrixStore<row_major>(&y, (wid.y * 64u + (row + 0u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 8u, s0_0, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 64u + (row + 0u) * 8u) * p.n + wid.x * 64u + (col + 1u) * 8u, s0_1, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 64u + (row + 1u) * 8u) * p.n + wid.x * 64u + (col + 0u) * 8u, s1_0, p.n);
  subgroupMatrixStore<row_major>(&y, (wid.y * 64u + (row + 1u) * 8u) * p.n + wid.x * 64u + (col + 1u) * 8u, s1_1, p.n);
}
