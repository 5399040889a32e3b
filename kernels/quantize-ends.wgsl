// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The least and the greatest of the elements that are each workgroup's share, and 0: of each invocation those from its
// own on that are a whole number of invocations further (ops/rlx-quantize.c).

#include "common/ends.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.parts) {
    return;
  }

  var low = 0.0;
  var high = 0.0;
  for (var i = group * $(WG)u + lane; i < p.n; i += p.parts * $(WG)u) {
    let x = f32 (load_x (i));
    low = op_min (low, x);
    high = op_max (high, x);
  }
  let ends = join_ends (lane, low, high);
  if (lane == 0u) {
    store_low (group, ends.x);
    store_high (group, ends.y);
  }
}
