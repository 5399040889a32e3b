// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Rounds rows to bytes for packed-dot.wgsl, which computes four products at once: 32 numbers share a scale, the largest
// magnitude divided by 127, and next to it is the sum of their rounded values, for weights that have an offset. An
// invocation takes one such chunk. The rows that a subgroup shares, TM of them, are interleaved,
// [row / TM][chunk][row % TM], so that one address serves all of them; a last group of fewer than TM rows is filled up
// with copies of the last row.
//
// A chunk whose numbers are all below 2⁻¹⁰⁰ becomes zeros, since its scale would be too small to divide by. A chunk
// with an infinity or NaN gets NaN as its scale, which propagates to all results of its row.

@compute @workgroup_size(64)
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * 64u + lane;
  if (i >= p.count) {
    return;
  }

  let row = i / p.chunks;
  let source = min (row, p.m - 1u) * p.chunks + i % p.chunks;
  let to = (row / $(TM)u * p.chunks + i % p.chunks) * $(TM)u + row % $(TM)u;
#for i in 0..8
  let x$(i) = load4_x (source * 8u + $(i)u);
#endfor
  // As integers, which sort infinities and NaN above all numbers.
  var most = vec4<u32> ();
#for i in 0..8
  most = max (most, bitcast<vec4<u32>> (x$(i)) & vec4<u32> (0x7fffffffu));
#endfor
  let size = max (max (most.x, most.y), max (most.z, most.w));
  let finite = size < 0x7f800000u;
  // 2⁻¹⁰⁰
  let there = size >= 0x0d800000u;
  let largest = bitcast<f32> (select (0x3f800000u, size, finite && there));
  let factor = select (0.0, 127.0 / largest, finite && there);
  var total = 0;
#for i in 0..8
  let n$(i) = vec4<i32> (round (select (vec4<f32> (), x$(i), vec4<bool> (finite)) * factor));
  total += (n$(i).x + n$(i).y) + (n$(i).z + n$(i).w);
  store_q (to * 8u + $(i)u, pack4xI8 (n$(i)));
#endfor
  let number = select (0.0, largest / 127.0, there);
  let scale = bitcast<f32> (select (size | 0x7fc00000u, bitcast<u32> (number), finite));
  store_s (to * 2u, scale);
  store_s (to * 2u + 1u, scale * f32 (total));
}
