// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// How a sum of products of integers is stored (ops/rlx-requantize.c): TO 0 stores the sum itself, 1 the real number
// that it represents, 2 that number quantised. A BIAS of 1 is added to the sum, one of 2 to the real number.

#if TO == 2
#use op_is_nan
#endif

fn finish (sum: i32, channel: u32) -> type_y {
#if BIAS == 1
  let all = sum + load_bias (channel * p.bias_step);
#else
  let all = sum;
#endif
#if TO == 0
  return all;
#else
  var v = f32 (all) * load_scale (channel * p.scale_step);
#if BIAS == 2
  v += load_bias (channel * p.bias_step);
#endif
#if TO == 1
  return v;
#else
  let quotient = v / p.scale_y;
  let level = clamp (round (quotient) + p.zero_y, p.lowest, p.highest);
  return type_y (select (level, 0.0, op_is_nan (quotient)));
#endif
#endif
}
