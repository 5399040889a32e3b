// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[outer, k, inner] = values[indices[outer, inner] == k]

fn element (i: u32) -> u32 {
  let k = i / p.inner % p.depth;
  let index = load_indices (i / p.inner / p.depth * p.inner + i % p.inner);
#if SIGNED
  // Modulo 2^32, where no index that is too small can equal a k.
  let place = bitcast<u32> (index) + select (0u, p.depth, index < 0);
#else
  let place = index;
#endif
  return load_values (select (0u, 1u, place == k));
}

#include "common/elements.wgsl"
