// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Random numbers: bits (MODE 0), uniform (1), normal (2), and dropout (3). An invocation computes four elements from
// the four words of a counter.

#include "common/philox.wgsl"

#if MODE == 2
#use op_log op_sqrt math_quarter

// Box-Muller: two normal numbers from a word for the radius and one for the angle, whose upper bits select the
// quadrant.
fn normal (distance: u32, angle: u32) -> vec2<f32> {
  let r = op_sqrt (-2.0 * op_log (f32 ((distance >> 8u) + 1u) * 0x1p-24));
  let q = angle >> 30u;
  let a = (f32 ((angle >> 7u) & 0x7fffffu) - 0x1p22) * (0x1p-23 * 1.57079632679);
  return vec2<f32> (r * math_quarter (a, q + 1u), r * math_quarter (a, q));
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups || lane >= p.blocks - group * $(WG)u) {
    return;
  }

  let block = group * $(WG)u + lane;
  let words = random_words (block);
#if MODE == 2
  let first = normal (words.x, words.y);
  let second = normal (words.z, words.w);
  let numbers = vec4<f32> (first, second);
#endif
  let n = min (4u, p.n - 4u * block);
  for (var i = 0u; i < n; i++) {
    let at = 4u * block + i;
#if MODE == 0
    store_y (at, words[i]);
#elif MODE == 1
    store_y (at, p.low + p.width * (f32 (words[i] >> 8u) * 0x1p-24));
#elif MODE == 2
    store_y (at, p.mean + p.scale * numbers[i]);
#else
    store_y (at, select (load_x (at) * p.scale, 0.0, words[i] < p.threshold));
#endif
  }
}
