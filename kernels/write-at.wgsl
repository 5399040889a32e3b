// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Element i of the result is that of x, or that of value where value is inserted: it covers `length` of the `size`
// positions of an axis, from a position that is read here. A position has `inner` elements. With UPDATE the result
// already holds x, and only the elements of value are written.

#include "common/index.wgsl"

#if UPDATE

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i >= p.n) {
    return;
  }

  let first = limit_index (load_indices (0u), p.size - p.length + 1u);
  let row = i / p.inner;
  store_y ((row / p.length * p.size + first + row % p.length) * p.inner + i % p.inner, load_value (i));
}

#else

fn element (i: u32) -> u32 {
  let first = limit_index (load_indices (0u), p.size - p.length + 1u);
  let place = i / p.inner % p.size;
  if (place < first || place - first >= p.length) {
    return load_x (i);
  }
  return load_value ((i / p.inner / p.size * p.length + place - first) * p.inner + i % p.inner);
}

#include "common/elements.wgsl"

#endif
