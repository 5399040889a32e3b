// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// An index along an axis: negative ones count from the end when SIGNED, and the result is clamped to the axis. Sizes
// use all 32 bits, so this is done in unsigned arithmetic.
fn limit_index (index: type_indices, size: u32) -> u32 {
#if SIGNED
  let back = 0u - bitcast<u32> (index);
  return select (min (bitcast<u32> (index), size - 1u), size - min (back, size), index < 0);
#else
  return min (index, size - 1u);
#endif
}
