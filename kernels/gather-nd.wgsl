// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Slices of `inner` elements, each addressed by K indices. With TARGET the result is the index of the slice.

#include "common/index.wgsl"

fn element (i: u32) -> u32 {
#if TARGET
  let which = i;
  var at = 0u;
#else
  let which = i / p.inner;
  var at = which / p.per_batch * p.batch_stride + i % p.inner;
#endif
#for k in 0..K
  at += limit_index (load_indices (which * $(K)u + $(k)u), p.size$(k)) * p.stride$(k);
#endfor
#if TARGET
  return at;
#else
  return load_x (at);
#endif
}

#include "common/elements.wgsl"
