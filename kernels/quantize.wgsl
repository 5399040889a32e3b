// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Converts between numbers and quantised integers (ops/rlx-quantize.c). MODE 0 quantises, 1 dequantises, 2 does both. A
// scale applies to a block of elements: dimension 0 is the innermost, and RAGGED dimensions are divided into blocks
// here.

#use op_is_nan cast_f_i
#if MODE == 2
#use math_nan op_is_inf
#endif

fn scale_index (i: u32) -> u32 {
#if RANK == 0
  return 0u;
#else
  var rest = i;
  var at = 0u;
#for d in 0..RANK
  {
#if d < RANK - 1
    let c = rest % p.dim$(d);
    rest /= p.dim$(d);
#else
    let c = rest;
#endif
#if RAGGED
    at += c / p.block$(d) * p.stride$(d);
#else
    at += c * p.stride$(d);
#endif
  }
#endfor
  return at;
#endif
}

#if MODE == 1
fn element (i: u32) -> u32 {
  let at = scale_index (i);
  let x = load_x (i);
#if !ZERO
  let difference = f32 (x);
#elif WIDE
  // The difference of two 32-bit integers takes 33 bits.
  let zero = load_zero (at);
  let below = x < zero;
  let size = f32 (select (bitcast<u32> (x) - bitcast<u32> (zero), bitcast<u32> (zero) - bitcast<u32> (x), below));
  let difference = select (size, -size, below);
#else
  let difference = f32 (i32 (x) - i32 (load_zero (at)));
#endif
  let y = difference * load_scale (at);
#if HALF
  return f32_to_f16_bits (y);
#else
  return bitcast<u32> (y);
#endif
}
#else
fn element (i: u32) -> u32 {
  let at = scale_index (i);
  let x = f32 (load_x (i));
  let scale = load_scale (at);
  let quotient = x / scale;
#if ZERO
  let zero = load_zero (at);
#endif
#if WIDE
  var y = cast_f_i (round (quotient));
#if ZERO
  // Overflow: both have the same sign and the sum has the other.
  let sum = y + zero;
  y = select (sum, select (0x7fffffff, -0x7fffffff - 1, zero < 0), ((y ^ sum) & (zero ^ sum)) < 0);
#endif
  y = select (y, 0, op_is_nan (quotient));
  return bitcast<u32> (y);
#else
#if ZERO
  let level = clamp (round (quotient) + f32 (zero), p.lowest, p.highest);
#else
  let level = clamp (round (quotient), p.lowest, p.highest);
#endif
#if MODE == 0
  return bitcast<u32> (select (i32 (level), 0, op_is_nan (quotient))) & $(MASK)u;
#else
#if ZERO
  var y = (level - f32 (zero)) * scale;
#else
  var y = level * scale;
#endif
  // A scale of 0 gives 0, an infinite one NaN.
  y = select (y, select (0.0, math_nan (x), op_is_inf (scale, 1, 1)), op_is_nan (quotient));
  y = select (y, x, op_is_nan (x));
  y = select (y, scale, op_is_nan (scale));
#if HALF
  return f32_to_f16_bits (y);
#else
  return bitcast<u32> (y);
#endif
#endif
#endif
}
#endif

#include "common/elements.wgsl"
