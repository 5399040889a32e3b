// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Combines slots with their updates, which are adjacent in sorted order: the invocation of the first one handles all of
// them, in order. Slots with more than LIMIT updates are appended to a list for scatter-long.wgsl.

#include "common/scatter.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let g = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) >= p.groups || g >= p.n * p.inner) {
    return;
  }

  let first = g / p.inner;
  let inner = g % p.inner;
  let slot = slot_of (first);
  if (first > 0u && slot_of (first - 1u) == slot) {
    return;
  }
#if LONG
  if (p.n - first > $(LIMIT)u && slot_of (first + $(LIMIT)u) == slot) {
    if (inner == 0u) {
      store_list (1u + atomic_add_list (0u, 1u), first);
    }
    return;
  }
#endif

  var value = load_updates (number (first) * p.inner + inner);
  for (var i = first + 1u; i < p.n && slot_of (i) == slot; i++) {
    value = combine (value, load_updates (number (i) * p.inner + inner));
  }
  let at = slot * p.inner + inner;
  store_y (at, combine (load_y (at), value));
}
