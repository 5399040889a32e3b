// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Combines a slot with many updates: rows of invocations take every ROWS-th update, then the rows are combined as a
// tree. WIDTH neighbouring elements of a slice are done together.

#include "common/scatter.wgsl"

#define ROWS WG / WIDTH

var<workgroup> parts: array<type_y, $(WG)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  let which = group / p.chunks;
  let inner = group % p.chunks * $(WIDTH)u + lane % $(WIDTH)u;
  let row = lane / $(WIDTH)u;
  var slot = 0u;
  var here = false;

  if (which < load_list (0u) && inner < p.inner) {
    here = true;
    let first = load_list (1u + which);
    slot = slot_of (first);

    // Finds the end of its updates: from low on there are others.
    var low = p.n;
    var high = first;
    while (low - high > 1u) {
      let middle = high + (low - high) / 2u;
      if (slot_of (middle) == slot) {
        high = middle;
      } else {
        low = middle;
      }
    }

    var value = load_updates (number (first + row) * p.inner + inner);
    for (var i = first + row + $(ROWS)u; i < low; i += $(ROWS)u) {
      value = combine (value, load_updates (number (i) * p.inner + inner));
    }
    parts[lane] = value;
  }

  for (var half = $(ROWS / 2)u; half > 0u; half /= 2u) {
    workgroupBarrier ();
    if (here && row < half) {
      parts[lane] = combine (parts[lane], parts[lane + half * $(WIDTH)u]);
    }
  }
  if (here && row == 0u) {
    let at = slot * p.inner + inner;
    store_y (at, combine (load_y (at), parts[lane]));
  }
}
