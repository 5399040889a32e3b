// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Half floats as bit patterns, by integer arithmetic, with the results of rlx_half_from_float() and
// rlx_half_to_float(). WGSL allows f16() and pack2x16float() to round either way, to flush subnormals and to return
// anything beyond 65504. This file has the format of math.wgsl.

//= f32_to_f16_bits:
// Rounds to nearest, ties to even; overflow gives infinity, and a NaN stays one. Free of branches: with branches here
// and in the stores that follow, a driver for CPUs with AVX-512 lost every fourth store of the norms.
fn f32_to_f16_bits(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 16u) & 0x8000u;
  let a = bits & 0x7fffffffu;
  // A carry propagates into the exponent, up to infinity.
  let normal = (a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u;
  // Subnormal: in units of 2^-24; below 2^-25 everything rounds to 0.
  let shift = clamp(126u - (a >> 23u), 1u, 25u);
  let m = (a & 0x007fffffu) | 0x00800000u;
  let small = (m + (1u << (shift - 1u)) - 1u + ((m >> shift) & 1u)) >> shift;
  let large = select(0x7c00u, 0x7e00u | ((a >> 13u) & 0x3ffu), a > 0x7f800000u);
  return sign | select(select(small, normal, a >= 0x38800000u), large, a >= 0x47800000u);
}

//= f16_bits_to_f32:
// Exact, but a signalling NaN becomes a quiet one.
fn f16_bits_to_f32(h: u32) -> f32 {
  let sign = (h & 0x8000u) << 16u;
  let a = h & 0x7fffu;
  if a < 0x400u {
    return bitcast<f32>(bitcast<u32>(f32(a) * 0x1p-24) | sign);
  }
  let quiet = select(0u, 0x00400000u, a > 0x7c00u);
  let bias = select(0x38000000u, 0x70000000u, a >= 0x7c00u);
  return bitcast<f32>(((a << 13u) + bias) | quiet | sign);
}
