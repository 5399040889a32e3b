// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The least and the greatest of the elements that are each invocation's share:
// every one from its own on that is a whole number of parts further
// (ops/rlx-quantize.c). There are at least as many elements as parts.

#use op_max op_min

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.parts / $(WG)u) {
    return;
  }

  let part = group * $(WG)u + lane;
  var i = part;
  var low = f32 (load_x (i));
  var high = low;
  while (p.n - i > p.parts) {
    i += p.parts;
    let x = f32 (load_x (i));
    low = op_min (low, x);
    high = op_max (high, x);
  }
  store_low (part, low);
  store_high (part, high);
}
