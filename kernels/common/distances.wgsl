// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// For the body of a function: the distances between the point at `point` and eight others, from `first` on, as
// distance_0, distance_1, …; squared for the Euclidean metric. Each element of the point is loaded once for all of
// them. Past the end the last point is repeated.
//
// SMALL masks the bits that an index may have: a driver omits a check if it sees that the sum of two such numbers is
// positive.
#for U in 0..8
  let other_$(U) = ((others_at + min (first + $(U)u, p.m - 1u)) * p.width) & $(SMALL)u;
  var sum_$(U) = ${TYPE} (0.0);
#if COSINE
  var square_$(U) = ${TYPE} (0.0);
#endif
#endfor
#if ANY
  for (var i = 0u; i < p.width; i++) {
    let a = ${LOAD}_x (point + i);
#for U in 0..8
    let b_$(U) = ${LOAD}_${OTHERS} (other_$(U) + (i & $(SMALL)u));
#if DIFFERENCES
    let difference_$(U) = a - b_$(U);
    sum_$(U) = fma (difference_$(U), difference_$(U), sum_$(U));
#else
    sum_$(U) = fma (a, b_$(U), sum_$(U));
#if COSINE
    square_$(U) = fma (b_$(U), b_$(U), square_$(U));
#endif
#endif
#endfor
  }
#endif
#for U in 0..8
#if COSINE
  let distance_$(U) = 1.0 - divide_by_norms (add_up (sum_$(U)), norm, add_up (square_$(U)));
#elif DIFFERENCES
  let distance_$(U) = add_up (sum_$(U));
#else
  let distance_$(U) = -add_up (sum_$(U));
#endif
#endfor
