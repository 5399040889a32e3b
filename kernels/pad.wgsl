// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[i…] = x[source of i…]: surrounds x with elements, or repeats it (ops/rlx-move.c). Dimension 0 is the innermost.
// MODE is an RlxPadMode.

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
    let k = c - p.before$(d);   // wraps around before the start of x
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
#else
    // Repeated, or mirrored back and forth; here `before` is less than the period.
#if ONCE
    let phase = c;
#else
    let phase = c % p.period$(d);
#endif
    let place = select (phase - p.before$(d), phase + (p.period$(d) - p.before$(d)), phase < p.before$(d));
#if MODE == 4
    let source = place;
#elif MODE == 3
    let source = select (p.period$(d) - 1u - place, place, place < p.size$(d));
#else
    let source = select (p.period$(d) - place, place, place < p.size$(d));
#endif
#endif
    at += source * p.stride$(d);
  }
#endfor
  return load_x (at);
}

#include "common/elements.wgsl"
