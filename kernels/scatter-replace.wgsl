// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The elements of x, or of the last update of their slot.

fn element (i: u32) -> u32 {
  let last = load_last (i / p.inner);
  if (last == 0u) {
    return load_x (i);
  }
  return load_updates ((last - 1u) * p.inner + i % p.inner);
}

#include "common/elements.wgsl"
