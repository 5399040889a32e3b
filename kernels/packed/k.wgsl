// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Blocks of 256 numbers: groups of 16 or 32 have a scale of few bits each, and the block has a common one. Also ternary
// numbers.

fn f16_pair (word: u32) -> vec2<f32> {
  return vec2<f32> (half (word & 0xffffu), half (word >> 16u));
}

fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk / 8u * $(BYTES)u;
  let inside = chunk % 8u;
  let block = bytes_at (at);
  var h: Head;

  // Which of the eight it is, and its lowest bit where four share their bytes.
  h.bits.x = inside;
  h.bits.y = inside % 4u * 2u;

#if TYPE == Q2_K
  let overall = f16_pair (take (block, 20u));
  let scales = vec2<u32> (take (block, inside / 2u) >> (inside % 2u * 16u)) >> vec2<u32> (0u, 8u);
  h.scales = overall.x * vec2<f32> (vec2<i32> (scales & vec2<u32> (15u)));
  h.offsets = overall.y * vec2<f32> (vec2<i32> ((scales >> vec2<u32> (4u)) & vec2<u32> (15u)));
  h.bytes = bytes_at (at + 16u + inside / 4u * 32u);

#elif TYPE == Q3_K
  // Sixteen scales of 6 bits: 4 bits of each in 8 bytes, 2 bits of each in 4 more.
  let low = vec2<u32> (take (block, 24u + inside % 4u / 2u) >> (inside % 2u * 16u + inside / 4u * 4u)) >> vec2<u32> (0u, 8u);
  let high = vec2<u32> (take (block, 26u) >> (inside % 2u * 16u + inside / 2u * 2u)) >> vec2<u32> (0u, 8u);
  let six = (low & vec2<u32> (15u)) | ((high & vec2<u32> (3u)) << vec2<u32> (4u));
  h.scales = take_f16 (at + 108u) * vec2<f32> (vec2<i32> (six) - 32);
  h.bytes = block;
  h.bits.z = 8u + inside / 4u * 8u;

#elif TYPE == Q4_K || TYPE == Q5_K
  // Eight scales and eight offsets of 6 bits in 12 bytes: the last four of each have their upper bits where the first
  // four leave room.
  let overall = f16_pair (take (block, 0u));
  let bit = inside % 4u * 8u;
  let a = take (block, 1u) >> bit;
  let b = take (block, 2u) >> bit;
  let c = take (block, 3u) >> bit;
  let late = inside >= 4u;
  h.scales.x = overall.x * f32 (i32 (select (a & 63u, (c & 15u) | ((a >> 2u) & 48u), late)));
  h.offsets.x = overall.y * f32 (i32 (select (b & 63u, ((c >> 4u) & 15u) | ((b >> 2u) & 48u), late)));
  h.bits.y = inside % 2u * 4u;
#if TYPE == Q4_K
  h.bytes = bytes_at (at + 16u + inside / 2u * 32u);
#else
  h.bytes = block;
  h.bits.z = 12u + inside / 2u * 8u;
#endif

#elif TYPE == Q6_K
  let scales = vec2<i32> (bitcast<i32> (take_half (at + 192u + inside * 2u)));
  h.scales = take_f16 (at + 208u) * vec2<f32> ((scales << vec2<u32> (24u, 16u)) >> vec2<u32> (24u));
  h.bytes = block;
  h.bits.z = inside / 4u * 16u + inside % 2u * 8u;
  h.bits.w = 32u + inside / 4u * 8u;

#elif TYPE == TQ2_0
  h.scales.x = take_f16 (at + 64u);
  h.bytes = bytes_at (at + inside / 4u * 32u);

#elif TYPE == TQ1_0
  h.scales.x = take_f16 (at + 52u);
  h.bytes = block;
#endif
  return h;
}

#if TYPE == TQ1_0
// Bytes are fractions of 256 in base 3: multiplied by 3 to the power of a digit's position, modulo 256, they start with
// that digit.
fn digits (word: u32, place: u32) -> vec4<f32> {
  let power = select ((0x1b090301u >> (place % 4u * 8u)) & 255u, 81u, place == 4u);
  let rest = (of_bytes (word, 0u, 255u) * power) & vec4<u32> (255u);
  return floats ((rest * 3u) >> vec4<u32> (8u)) - 1.0;
}
#endif

fn part (h: Head, j: u32) -> Part {
  let d = h.scales;
#if TYPE == Q2_K
  return Part (d.x * floats (of_bytes (take (h.bytes, j), h.bits.y, 3u)) - h.offsets.x,
               d.y * floats (of_bytes (take (h.bytes, j + 4u), h.bits.y, 3u)) - h.offsets.y);

#elif TYPE == Q3_K
  let a = of_bytes (take (h.bytes, h.bits.z + j), h.bits.y, 3u) | (of_bytes (take (h.bytes, j), h.bits.x, 1u) << vec4<u32> (2u));
  let b = of_bytes (take (h.bytes, h.bits.z + j + 4u), h.bits.y, 3u) | (of_bytes (take (h.bytes, j + 4u), h.bits.x, 1u) << vec4<u32> (2u));
  return Part (d.x * (floats (a) - 4.0), d.y * (floats (b) - 4.0));

#elif TYPE == Q4_K
  return Part (d.x * floats (of_bytes (take (h.bytes, j), h.bits.y, 15u)) - h.offsets.x,
               d.x * floats (of_bytes (take (h.bytes, j + 4u), h.bits.y, 15u)) - h.offsets.x);

#elif TYPE == Q5_K
  let a = of_bytes (take (h.bytes, h.bits.z + j), h.bits.y, 15u) | (of_bytes (take (h.bytes, 4u + j), h.bits.x, 1u) << vec4<u32> (4u));
  let b = of_bytes (take (h.bytes, h.bits.z + j + 4u), h.bits.y, 15u) | (of_bytes (take (h.bytes, 8u + j), h.bits.x, 1u) << vec4<u32> (4u));
  return Part (d.x * floats (a) - h.offsets.x, d.x * floats (b) - h.offsets.x);

#elif TYPE == Q6_K
  let nibble = h.bits.x % 4u / 2u * 4u;
  let a = of_bytes (take (h.bytes, h.bits.z + j), nibble, 15u) | (of_bytes (take (h.bytes, h.bits.w + j), h.bits.y, 3u) << vec4<u32> (4u));
  let b = of_bytes (take (h.bytes, h.bits.z + j + 4u), nibble, 15u) | (of_bytes (take (h.bytes, h.bits.w + j + 4u), h.bits.y, 3u) << vec4<u32> (4u));
  return Part (d.x * (floats (a) - 32.0), d.y * (floats (b) - 32.0));

#elif TYPE == TQ2_0
  return Part (d.x * (floats (of_bytes (take (h.bytes, j), h.bits.y, 3u)) - 1.0),
               d.x * (floats (of_bytes (take (h.bytes, j + 4u), h.bits.y, 3u)) - 1.0));

#elif TYPE == TQ1_0
  // 32 bytes have five digits each, 16 more as well, and the last 4 have four: these are chunks 0 to 4, chunks 5 to 7
  // except for the second half of 7, and that half.
  let early = h.bits.x < 5u;
  let last = h.bits.x == 7u;
  let word_a = select (8u + j, j, early);
  let word_b = select (select (8u + j, 12u, last), j + 4u, early);
  let place_a = select (select (h.bits.x * 2u - 10u, 4u, last), h.bits.x, early);
  let place_b = select (select (h.bits.x * 2u - 9u, j, last), h.bits.x, early);
  return Part (d.x * digits (take (h.bytes, word_a), place_a), d.x * digits (take (h.bytes, word_b), place_b));
#endif
}
