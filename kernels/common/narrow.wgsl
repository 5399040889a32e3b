// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Floats narrower than f16 and bfloat16 as bit patterns, with the results of rlx_narrow_from_double() and
// rlx_narrow_to_double(). This file has the format of math.wgsl.

//= narrow_to_f32:
// Takes `e` bits of exponent and `m` of significand. Callers handle special values.
fn narrow_to_f32(v: u32, e: u32, m: u32, bias: u32) -> f32 {
  let sign = (v >> (e + m)) << 31u;
  let size = v & ((1u << (e + m)) - 1u);
  let normal = (size << (23u - m)) + ((127u - bias) << 23u);
  // A subnormal: in units of 2^(1 - bias - m).
  let small = bitcast<u32>(f32(size) * bitcast<f32>((128u - bias - m) << 23u));
  return bitcast<f32>(sign | select(small, normal, size >= (1u << m)));
}

//= f32_to_narrow:
// Rounds to nearest, ties to even, and saturates at `largest`; x is not NaN.
fn f32_to_narrow(x: f32, e: u32, m: u32, bias: u32, largest: u32) -> u32 {
  let bits = bitcast<u32>(x);
  let sign = (bits >> 31u) << (e + m);
  let a = bits & 0x7fffffffu;
  let drop = 23u - m;
  // A carry propagates into the exponent.
  let normal = ((a + (1u << (drop - 1u)) - 1u + ((a >> drop) & 1u)) >> drop) - ((127u - bias) << m);
  // Subnormal: in units of 2^(1 - bias - m).
  let small = u32(round(min(bitcast<f32>(a), 1.0) * bitcast<f32>((126u + bias + m) << 23u)));
  return sign | min(select(small, normal, (a >> 23u) >= 128u - bias), largest);
}

//= narrow_is_nan:
fn narrow_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

//= narrow_nan:
fn narrow_nan(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u);
}

//= bf16_to_f32:
fn bf16_to_f32(v: u32) -> f32 {
  return bitcast<f32>(v << 16u);
}

//= f32_to_bf16: narrow_is_nan
fn f32_to_bf16(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
  return select(rounded, ((bits >> 16u) & 0x8000u) | 0x7fc0u, narrow_is_nan(x));
}

//= f8e4m3fn_to_f32: narrow_to_f32 narrow_nan
fn f8e4m3fn_to_f32(v: u32) -> f32 {
  let x = narrow_to_f32(v, 4u, 3u, 7u);
  return select(x, narrow_nan(x), (v & 0x7fu) == 0x7fu);
}

//= f32_to_f8e4m3fn: f32_to_narrow narrow_is_nan
fn f32_to_f8e4m3fn(x: f32) -> u32 {
  return select(f32_to_narrow(x, 4u, 3u, 7u, 0x7eu), 0x7fu | ((bitcast<u32>(x) >> 31u) << 7u), narrow_is_nan(x));
}

//= f8e4m3fnuz_to_f32: narrow_to_f32 narrow_nan
fn f8e4m3fnuz_to_f32(v: u32) -> f32 {
  let x = narrow_to_f32(v, 4u, 3u, 8u);
  return select(x, narrow_nan(x), v == 0x80u);
}

//= f32_to_f8e4m3fnuz: f32_to_narrow narrow_is_nan
fn f32_to_f8e4m3fnuz(x: f32) -> u32 {
  let v = f32_to_narrow(x, 4u, 3u, 8u, 0x7fu);
  return select(select(v, 0u, v == 0x80u), 0x80u, narrow_is_nan(x));
}

//= f8e5m2_to_f32: narrow_to_f32
fn f8e5m2_to_f32(v: u32) -> f32 {
  let special = ((v & 0x80u) << 24u) | 0x7f800000u | ((v & 3u) << 21u);
  let x = narrow_to_f32(v, 5u, 2u, 15u);
  return bitcast<f32>(select(bitcast<u32>(x), special, (v & 0x7fu) >= 0x7cu));
}

//= f32_to_f8e5m2: f32_to_narrow narrow_is_nan
fn f32_to_f8e5m2(x: f32) -> u32 {
  let bits = bitcast<u32>(x);
  let special = ((bits >> 31u) << 7u) | select(0x7cu, 0x7eu, narrow_is_nan(x));
  return select(f32_to_narrow(x, 5u, 2u, 15u, 0x7bu), special, (bits & 0x7fffffffu) >= 0x7f800000u);
}

//= f8e5m2fnuz_to_f32: narrow_to_f32 narrow_nan
fn f8e5m2fnuz_to_f32(v: u32) -> f32 {
  let x = narrow_to_f32(v, 5u, 2u, 16u);
  return select(x, narrow_nan(x), v == 0x80u);
}

//= f32_to_f8e5m2fnuz: f32_to_narrow narrow_is_nan
fn f32_to_f8e5m2fnuz(x: f32) -> u32 {
  let v = f32_to_narrow(x, 5u, 2u, 16u, 0x7fu);
  return select(select(v, 0u, v == 0x80u), 0x80u, narrow_is_nan(x));
}

//= f8e8m0_to_f32: narrow_nan
fn f8e8m0_to_f32(v: u32) -> f32 {
  let x = bitcast<f32>(select(v << 23u, 0x00400000u, v == 0u));
  return select(x, narrow_nan(x), v == 0xffu);
}

//= f32_to_f8e8m0:
// Rounds up, regardless of the sign.
fn f32_to_f8e8m0(x: f32) -> u32 {
  let a = bitcast<u32>(x) & 0x7fffffffu;
  let least = select(0u, 0x00400000u, a < 0x00800000u);
  let up = (a + 0x007fffffu - least) >> 23u;
  return select(min(up, 0xfeu), 0xffu, a >= 0x7f800000u);
}

//= f4e2m1_to_f32: narrow_to_f32
fn f4e2m1_to_f32(v: u32) -> f32 {
  return narrow_to_f32(v, 2u, 1u, 1u);
}

//= f32_to_f4e2m1: f32_to_narrow narrow_is_nan
fn f32_to_f4e2m1(x: f32) -> u32 {
  return select(f32_to_narrow(x, 2u, 1u, 1u, 7u), 0u, narrow_is_nan(x));
}
