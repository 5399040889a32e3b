// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Quantises to the range of the numbers themselves (ops/rlx-quantize.c). Each workgroup computes the range, from PARTS
// partial ranges or, if it is the only workgroup, from all elements, and takes a block of consecutive words.
#use op_is_nan

#include "common/ends.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  var low = 0.0;
  var high = 0.0;
#if PARTS
  for (var i = lane; i < p.parts; i += $(WG)u) {
    low = op_min (low, load_low (i));
    high = op_max (high, load_high (i));
  }
#else
  for (var i = lane; i < p.n; i += $(WG)u) {
    let x = f32 (load_x (i));
    low = op_min (low, x);
    high = op_max (high, x);
  }
#endif
  let ends = join_ends (lane, low, high);
  let range = ends.y - ends.x;
  let scale = select (range / 255.0, 1.0, range == 0.0 && !op_is_nan (range));
  let place = -ends.x / scale;
  let zero = select (round (clamp (place, 0.0, 255.0)), 0.0, op_is_nan (place));

#if FACTORS
  if (group == 0u) {
    for (var i = lane; i < p.factors; i += $(WG)u) {
      store_scaled (i, scale * load_factor (i));
    }
  }
#endif
  let first = group * p.block;
  let end = min (p.block, p.words - first);
  for (var w = lane; w < end; w += $(WG)u) {
    let i = (first + w) * 4u;
    var word = 0u;
    for (var e = 0u; e < min (4u, p.n - i); e++) {
      let quotient = f32 (load_x (i + e)) / scale;
      let level = clamp (round (quotient) + zero, 0.0, 255.0);
      word |= select (u32 (level), 0u, op_is_nan (quotient)) << (e * 8u);
    }
    store_word_y (first + w, word);
  }
  let owner = group * $(WG)u + lane;
  if (owner == 0u) {
    store_scale (0u, scale);
    store_zero (0u, type_zero (zero));
  }
}
