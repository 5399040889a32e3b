// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The loader of operand `a` or `b` for common/matrix-rows.wgsl: a piece of eight steps of k.
//
// Included with x, the name of the operand, and HALVES, which is A_HALF or B_HALF.

// The eight steps from `k` on; zeros from `end` on, which is a multiple of eight.
fn fetch_${x} (begin: u32, k: u32, end: u32) -> vec4<u32> {
#if WHOLE
  let at = (begin + min (k, end - 8u)) / 4u;
#else
  let at = (begin + min (k, p.k - 8u)) / 4u;
#endif
#if HALVES
  let v = vec4<u32> (word_${x} (at), word_${x} (at + 1u));
#else
  let v = vec4<u32> (halves (load4_${x} (at)), halves (load4_${x} (at + 1u)));
#endif
#if WHOLE
  return v;
#else
  return select (vec4<u32> (), v, k < end);
#endif
}
