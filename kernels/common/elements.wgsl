// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The frame of kernels that compute each element of a result by itself, as raw bits in row-major order: the kernel
// defines element (i: u32) -> u32. A workgroup takes a block of consecutive words; a word has PACK elements of BITS
// bits and is written by one invocation, so small elements need no atomics.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first = group * p.block;
  let end = min (p.block, p.words - first);
  for (var w = lane; w < end; w += $(WG)u) {
#if PACK == 1
    store_y (first + w, element (first + w));
#else
    let i = (first + w) * $(PACK)u;
    var word = 0u;
    for (var e = 0u; e < min ($(PACK)u, p.n - i); e++) {
      word |= element (i + e) << (e * $(BITS)u);
    }
    store_word_y (first + w, word);
#endif
  }
}
