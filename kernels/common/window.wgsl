// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The beginning of main() in kernels that iterate over windows, after `group` has been computed: which element of the
// result to compute. Each lane computes one, or LANES of them share one. `rest` is left with the positions along the
// axes, the innermost first, and the batch. The channel comes between these two, unless it is LAST: then it is already
// split off here.

#if LANES > 1
  let index = group;
  let inside = lane == 0u;
#else
  let inside = lane < p.elements - group * $(WG)u;
  let index = min (group * $(WG)u + lane, p.elements - 1u);
#endif
  var rest = index;
#if LAST
  let channel = rest % p.channels;
  rest /= p.channels;
#endif
