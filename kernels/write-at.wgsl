// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Element i of the result is that of x, or that of value where value has been put:
// `length` of the `size` places of an axis, from a position on that is read here.
// `inner` elements lie between two places.

#include "common/index.wgsl"

fn element (i: u32) -> u32 {
  let first = limit_index (load_indices (0u), p.size - p.length + 1u);
  let place = i / p.inner % p.size;
  if (place < first || place - first >= p.length) {
    return load_x (i);
  }
  return load_value ((i / p.inner / p.size * p.length + place - first) * p.inner + i % p.inner);
}

#include "common/elements.wgsl"
