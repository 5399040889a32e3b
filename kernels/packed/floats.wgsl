// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Small floats: e2m1 in blocks with a scale that is itself a small float, and bf16.

#if TYPE == BF16

fn head (row: u32, chunk: u32) -> Head {
  var h: Head;
  h.bytes = bytes_at (row * p.row_bytes + chunk * 64u);
  return h;
}

fn bf16 (low: u32, high: u32) -> vec4<f32> {
  return bitcast<vec4<f32>> (vec4<u32> (low << 16u, low & 0xffff0000u, high << 16u, high & 0xffff0000u));
}

fn part (h: Head, j: u32) -> Part {
  return Part (bf16 (take (h.bytes, j * 2u), take (h.bytes, j * 2u + 1u)),
               bf16 (take (h.bytes, j * 2u + 8u), take (h.bytes, j * 2u + 9u)));
}

#else

// Twice the value: 0, 1, 2, 3, 4, 6, 8, 12, and a sign.
fn e2m1 (q: vec4<u32>) -> vec4<f32> {
  // Negated as an integer: there is only one 0.
  let size = bitcast<vec4<i32>> ((vec4<u32> (0xc8643210u) >> ((q & vec4<u32> (7u)) * 4u)) & vec4<u32> (15u));
  return vec4<f32> (select (size, -size, q >= vec4<u32> (8u)));
}

#if TYPE == MXFP4
fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk * $(BYTES)u;
  let exponent = take_byte (at);
  var h: Head;
  // Half of 2^(exponent - 127), which may be subnormal.
  h.scales.x = bitcast<f32> (select ((exponent - 1u) << 23u, 0x200000u << (exponent % 2u), exponent < 2u));
  h.bytes = bytes_at (at + 1u);
  return h;
}

fn part (h: Head, j: u32) -> Part {
  let q = take (h.bytes, j);
  return Part (h.scales.x * e2m1 (of_bytes (q, 0u, 15u)), h.scales.x * e2m1 (of_bytes (q, 4u, 15u)));
}
#else
// Half of an unsigned e4m3; the code of NaN gives 0.
fn e4m3_half (bits: u32) -> f32 {
  let exponent = (bits >> 3u) & 15u;
  let mantissa = bits & 7u;
  let number = select (bitcast<f32> ((exponent + 116u) << 23u) * f32 (i32 (mantissa + 8u)),
                       f32 (i32 (mantissa)) * 0x1p-10, exponent == 0u);
  return select (number, 0.0, bits == 127u);
}

fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk / 2u * $(BYTES)u;
  let inside = chunk % 2u;
  let scales = take (bytes_at (at), 0u) >> (inside * 16u);
  var h: Head;
  h.scales = vec2<f32> (e4m3_half (scales & 255u), e4m3_half ((scales >> 8u) & 255u));
  h.bytes = bytes_at (at + 4u + inside * 16u);
  return h;
}

// Every 16 numbers have two words: eight lower nibbles, then eight upper ones.
fn part (h: Head, j: u32) -> Part {
  let nibble = j / 2u * 4u;
  return Part (h.scales.x * e2m1 (of_bytes (take (h.bytes, j % 2u), nibble, 15u)),
               h.scales.y * e2m1 (of_bytes (take (h.bytes, j % 2u + 2u), nibble, 15u)));
}
#endif

#endif
