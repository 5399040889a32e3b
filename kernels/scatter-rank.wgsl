// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The order of few updates, stably sorted by slot, and where the updates of each slot start in it: p.slots positions,
// and the end. Each update is compared with all of them, which takes one step; sorting takes many.

#define UNROLL 4

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) >= p.groups) {
    return;
  }

  let mine = load_target (min (i, p.n - 1u));
  var rank = 0u;
  var start = 0u;
  for (var j = 0u; j < p.n; j += $(UNROLL)u) {
#for u in 0..UNROLL
    let j_$(u) = j + $(u)u;
    let other_$(u) = select (0xffffffffu, load_target (min (j_$(u), p.n - 1u)), j_$(u) < p.n);
    rank += select (0u, 1u, other_$(u) < mine || (other_$(u) == mine && j_$(u) < i));
    start += select (0u, 1u, other_$(u) < i);
#endfor
  }
  if (i < p.n) {
    store_order (rank, i);
  }
  if (i <= p.slots) {
    store_starts (i, start);
  }
}
