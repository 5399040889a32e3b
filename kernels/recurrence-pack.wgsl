// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Copies one of the operands that recurrence.wgsl takes from a common buffer if a kernel cannot bind so many.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i < p.n) {
    store_words (p.at + i, load_x (i));
  }
}
