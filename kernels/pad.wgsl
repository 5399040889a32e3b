// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[i…] = x[where i is…]: elements around a part of x, or from it over and over
// (ops/rlx-move.c). Dimension 0 is the innermost. MODE is a RlxPadMode.

fn element (i: u32) -> u32 {
  var rest = i;
  var at = p.offset;
#for d in 0..RANK
  {
#if d < RANK - 1
    let c = rest % p.dim$(d);
    rest /= p.dim$(d);
#else
    let c = rest;
#endif
    let k = c - p.before$(d);   // wraps in front of the part
#if MODE == 0
    if (k >= p.size$(d)) {
#if VALUE
      return load_value (0u);
#else
      return 0u;
#endif
    }
    let source = k;
#elif MODE == 1
    let source = select (min (k, p.size$(d) - 1u), 0u, c < p.before$(d));
#elif MODE == 2
    let source = select (select (2u * (p.size$(d) - 1u) - k, k, k < p.size$(d)), 0u - k, c < p.before$(d));
#elif MODE == 3
    let source = select (select (2u * p.size$(d) - 1u - k, k, k < p.size$(d)), 0u - k - 1u, c < p.before$(d));
#else
    // here before is less than the size
    let turn = c % p.size$(d);
    let source = select (turn - p.before$(d), turn + (p.size$(d) - p.before$(d)), turn < p.before$(d));
#endif
    at += source * p.stride$(d);
  }
#endfor
  return load_x (at);
}

#include "common/elements.wgsl"
