// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Packed numbers as signed bytes: a number is scale · byte + offset. What a chunk has in common comes from its head
// (packed/decode.wgsl); four bytes of each half of it are
//
//   quads (head, j) -> vec2<u32>   numbers first (j) to first (j) + 3 as x, second (j) to
//                                  second (j) + 3 as y
//
// OFFSETS means that there are offsets, HALVES that each half has its own scale.

#define OFFSETS TYPE == Q4_1 || TYPE == Q5_1 || TYPE == Q4_K || TYPE == Q5_K
#define HALVES TYPE == Q6_K

#if OFFSETS
fn offset_of (h: Head) -> f32 {
#if TYPE == Q4_K || TYPE == Q5_K
  return -h.offsets.x;
#else
  return h.offsets.x;
#endif
}
#endif

// Subtracts from each byte, where all are below 128.
fn less (bytes: vec2<u32>, by: u32) -> vec2<u32> {
  return ((bytes | vec2<u32> (0x80808080u)) - vec2<u32> (by)) ^ vec2<u32> (0x80808080u);
}

// Spreads four bits over the lowest bits of four bytes.
fn spread (bits: u32) -> u32 {
  return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}

#if TYPE == MXFP4
fn e2m1_bytes (word: u32, bit: u32) -> u32 {
  let q = of_bytes (word, bit, 15u);
  let size = bitcast<vec4<i32>> ((vec4<u32> (0xc8643210u) >> ((q & vec4<u32> (7u)) * 4u)) & vec4<u32> (15u));
  return pack4xI8 (select (size, -size, q >= vec4<u32> (8u)));
}
#endif

fn quads (h: Head, j: u32) -> vec2<u32> {
#if TYPE == Q8_0
  return vec2<u32> (take (h.bytes, j), take (h.bytes, j + 4u));

#elif TYPE == MXFP4
  let q = take (h.bytes, j);
  return vec2<u32> (e2m1_bytes (q, 0u), e2m1_bytes (q, 4u));

#elif TYPE == Q4_0 || TYPE == Q4_1 || TYPE == Q5_0 || TYPE == Q5_1
  let q = take (h.bytes, j);
  let low = vec2<u32> (q, q >> 4u) & vec2<u32> (0x0f0f0f0fu);
#if TYPE == Q4_0
  return less (low, 0x08080808u);
#elif TYPE == Q4_1
  return low;
#else
  let all = low | (vec2<u32> (spread (h.bits.x >> (j * 4u)), spread (h.bits.x >> (j * 4u + 16u))) << vec2<u32> (4u));
#if TYPE == Q5_0
  return less (all, 0x10101010u);
#else
  return all;
#endif
#endif

#elif TYPE == Q4_K
  return (vec2<u32> (take (h.bytes, j), take (h.bytes, j + 4u)) >> vec2<u32> (h.bits.y)) & vec2<u32> (0x0f0f0f0fu);

#elif TYPE == Q5_K
  let low = (vec2<u32> (take (h.bytes, h.bits.z + j), take (h.bytes, h.bits.z + j + 4u)) >> vec2<u32> (h.bits.y)) & vec2<u32> (0x0f0f0f0fu);
  let high = (vec2<u32> (take (h.bytes, 4u + j), take (h.bytes, 8u + j)) >> vec2<u32> (h.bits.x)) & vec2<u32> (0x01010101u);
  return low | (high << vec2<u32> (4u));

#elif TYPE == Q6_K
  let nibble = h.bits.x % 4u / 2u * 4u;
  let low = (vec2<u32> (take (h.bytes, h.bits.z + j), take (h.bytes, h.bits.z + j + 4u)) >> vec2<u32> (nibble)) & vec2<u32> (0x0f0f0f0fu);
  let high = (vec2<u32> (take (h.bytes, h.bits.w + j), take (h.bytes, h.bits.w + j + 4u)) >> vec2<u32> (h.bits.y)) & vec2<u32> (0x03030303u);
  return less (low | (high << vec2<u32> (4u)), 0x20202020u);
#endif
}
