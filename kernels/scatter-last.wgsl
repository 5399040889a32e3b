// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The number of the last update of each slot, plus 1: an atomic maximum, so the order of execution does not matter.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) < p.groups && i < p.n) {
    _ = atomic_max_last (load_target (i), i + 1u);
  }
}
