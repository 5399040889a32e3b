// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The elements of an unrolled window, K0 · K1 · K2 of them, where K is 1 along missing axes: the index of element T is
// x_T, there_T says whether it exists, and v_T is its value. The window starts at at0, at1, at2, in the padded operand
// at x_RANK. All loads come before the arithmetic.

#for d in 0..RANK
#for k in 0..(d == 0) * K0 + (d == 1) * K1 + (d == 2) * K2
  // Negative indices wrap around and are out of range, too.
  let i$(d)_$(k) = at$(d) + $(k)u * p.dilation$(d) - p.begin$(d);
#endfor
#endfor
#for c in 0..K2
#for b in 0..K1
#for a in 0..K0
#define T (c * K1 + b) * K0 + a
  var x_$(T) = x$(RANK) + i0_$(a) * p.x_axis0;
  var there_$(T) = i0_$(a) < p.in0;
#if RANK > 1
  x_$(T) += i1_$(b) * p.x_axis1;
  there_$(T) = there_$(T) && i1_$(b) < p.in1;
#endif
#if RANK > 2
  x_$(T) += i2_$(c) * p.x_axis2;
  there_$(T) = there_$(T) && i2_$(c) < p.in2;
#endif
  let v_$(T) = load_x (select (0u, x_$(T), there_$(T)));
#endfor
#endfor
#endfor
