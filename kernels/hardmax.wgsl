// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// 1 for the element at the index of its row, 0 elsewhere.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups || lane >= p.n - group * $(WG)u) {
    return;
  }

  let i = group * $(WG)u + lane;
  let inner = i % p.inner;
  let k = i / p.inner % p.columns;
  let row = i / p.inner / p.columns * p.inner + inner;
  store_y (i, select (0.0, 1.0, u32 (load_indices (row)) == k));
}
