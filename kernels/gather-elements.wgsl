// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Element i of the result is that of x at the same position except along dimension AXIS, where it is indices[i].
// Dimension 0 is the innermost. With TARGET the result is the address itself.

#include "common/index.wgsl"

fn element (i: u32) -> u32 {
  var rest = i;
  var at = 0u;
#for d in 0..RANK
#if d < RANK - 1
  let c$(d) = rest % p.dim$(d);
  rest /= p.dim$(d);
#else
  let c$(d) = rest;
#endif
#if d == AXIS
  at += limit_index (load_indices (i), p.size) * p.stride$(d);
#else
  at += c$(d) * p.stride$(d);
#endif
#endfor
#if TARGET
  return at;
#else
  return load_x (at);
#endif
}

#include "common/elements.wgsl"
