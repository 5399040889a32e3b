// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Combines each slot with its updates, in order, or copies it if there are none. scatter-rank.wgsl has sorted the
// updates.

#include "common/scatter.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let at = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) >= p.groups || at >= p.n) {
    return;
  }

  let slot = at / p.inner;
  let inner = at % p.inner;
  let first = load_starts (slot);
  let end = load_starts (slot + 1u);
  var value = load_x (at);
  if (first < end) {
    var sum = load_updates (number (first) * p.inner + inner);
    for (var i = first + 1u; i < end; i++) {
      sum = combine (sum, load_updates (number (i) * p.inner + inner));
    }
    value = combine (value, sum);
  }
  store_y (at, value);
}
