// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The minimum and maximum of each workgroup's share of the elements and 0: an invocation starts at its own index, and
// its stride is the number of all invocations (ops/rlx-quantize.c).

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
  let stride = p.parts * $(WG)u;
  // without wrapping around at the end
  for (var i = group * $(WG)u + lane; i < p.n; i += min (stride, p.n - i)) {
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
