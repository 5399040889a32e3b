// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Scale and zero point for the range that covers several partial ranges (ops/rlx-quantize.c), by a single invocation.
// With SYMMETRIC levels there is no zero point.

#use op_is_nan op_max op_min

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  if (workgroup_index (wid) > 0u || lane > 0u) {
    return;
  }
  var low = 0.0;
  var high = 0.0;
  for (var i = 0u; i < p.parts; i++) {
    low = op_min (low, load_low (i));
    high = op_max (high, load_high (i));
  }
#if SYMMETRIC
  let range = op_max (-low, high);
#else
  let range = high - low;
#endif
  let scale = select (range / p.levels, 1.0, range == 0.0 && !op_is_nan (range));
  store_scale (0u, scale);
#if !SYMMETRIC
  let place = -low / scale;
  store_zero (0u, type_zero (select (round (clamp (place, 0.0, p.levels)), 0.0, op_is_nan (place))));
#endif
}
