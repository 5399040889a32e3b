// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Numbers that are looked up: either four bits select one of 16 levels, or an index selects four or eight numbers of a
// grid. An entry of the grid has 16 bits, for eight numbers of 2 or four of 4, and has no signs unless it is ternary.

#if !(GRID)

fn level (q: vec4<u32>) -> vec4<f32> {
  let four = (q & vec4<u32> (4u)) != vec4<u32> (0u);
  let low = select (vec4<u32> (0xbfad9881u), vec4<u32> (0xf6eaddcfu), four);
  let high = select (vec4<u32> (0x26190d01u), vec4<u32> (0x71594535u), four);
  let bytes = bitcast<vec4<i32>> (select (low, high, (q & vec4<u32> (8u)) != vec4<u32> (0u)));
  return vec4<f32> ((bytes << (24u - (q & vec4<u32> (3u)) * 8u)) >> vec4<u32> (24u));
}

fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk / $(CHUNKS)u * $(BYTES)u;
  var h: Head;
#if TYPE == IQ4_NL
  h.scales.x = take_f16 (at);
  h.bytes = bytes_at (at + 2u);
#else
  let inside = chunk % 8u;
  let overall = take (bytes_at (at), 0u);
  let low = (take (bytes_at (at), 1u) >> (inside * 4u)) & 15u;
  let high = (overall >> (16u + inside * 2u)) & 3u;
  h.scales.x = half (overall & 0xffffu) * f32 (i32 (low | (high << 4u)) - 32);
  h.bytes = bytes_at (at + 8u + inside * 16u);
#endif
  return h;
}

fn part (h: Head, j: u32) -> Part {
  let q = take (h.bytes, j);
  return Part (h.scales.x * level (of_bytes (q, 0u, 15u)), h.scales.x * level (of_bytes (q, 4u, 15u)));
}

#else

fn grid (index: u32) -> u32 {
  return extractBits (load_table (min (index / 2u, $(TABLE - 1)u)), index % 2u * 16u, 16u);
}

// The eighth sign makes the number of negative ones even.
fn seven_signs (bits: u32) -> u32 {
  let seven = bits & 127u;
  return seven | ((countOneBits (seven) & 1u) << 7u);
}

fn with_signs (v: vec4<f32>, signs: u32, bit: u32) -> vec4<f32> {
  return select (v, -v, bits4 (signs, bit) != vec4<u32> (0u));
}

fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk / 8u * $(BYTES)u;
  let inside = chunk % 8u;
  var h: Head;

#if TYPE == IQ2_XXS
  let q = bytes_at (at + 2u + inside * 8u);
  h.bits = vec4<u32> (take (q, 0u), take (q, 1u), 0u, 0u);
  h.scales = vec2<f32> (take_f16 (at) * (0.5 + f32 (i32 (h.bits.y >> 28u))) * 0.25);

#elif TYPE == IQ2_XS
  let q = bytes_at (at + 2u + inside * 8u);
  let scales = vec2<u32> (take_byte (at + 66u + inside)) >> vec2<u32> (0u, 4u);
  h.bits = vec4<u32> (take (q, 0u), take (q, 1u), 0u, 0u);
  h.scales = take_f16 (at) * (0.5 + vec2<f32> (vec2<i32> (scales & vec2<u32> (15u)))) * 0.25;

#elif TYPE == IQ2_S
  let scales = vec2<u32> (take_byte (at + 74u + inside)) >> vec2<u32> (0u, 4u);
  h.bits = vec4<u32> (take (bytes_at (at + 2u + inside * 4u), 0u), take (bytes_at (at + 34u + inside * 4u), 0u),
                      take_byte (at + 66u + inside), 0u);
  h.scales = take_f16 (at) * (0.5 + vec2<f32> (vec2<i32> (scales & vec2<u32> (15u)))) * 0.25;

#elif TYPE == IQ3_XXS
  let q = bytes_at (at + 2u + inside * 8u);
  h.bits = vec4<u32> (take (q, 0u), take (q, 1u), take (bytes_at (at + 66u + inside * 4u), 0u), 0u);
  h.scales = vec2<f32> (take_f16 (at) * (0.5 + f32 (i32 (h.bits.z >> 28u))) * 0.5);

#elif TYPE == IQ3_S
  let q = bytes_at (at + 2u + inside * 8u);
  let scale = (take_byte (at + 106u + inside / 2u) >> (inside % 2u * 4u)) & 15u;
  h.bits = vec4<u32> (take (q, 0u), take (q, 1u), take (bytes_at (at + 74u + inside * 4u), 0u), take_byte (at + 66u + inside));
  h.scales = vec2<f32> (take_f16 (at) * f32 (i32 (scale * 2u + 1u)));

#elif TYPE == IQ1_S
  h.bits = vec4<u32> (take (bytes_at (at + 2u + inside * 4u), 0u), take_half (at + 34u + inside * 2u), 0u, 0u);
  h.scales = vec2<f32> (take_f16 (at) * f32 (i32 (((h.bits.y >> 12u) & 7u) * 2u + 1u)));
  h.offsets.x = select (-0.875, -1.125, (h.bits.y & 0x8000u) != 0u);

#elif TYPE == IQ1_M
  // The bits of the common scale are in the top four of each of four 16-bit words.
  let block = bytes_at (at);
  let s0 = take (block, 12u);
  let s1 = take (block, 13u);
  let overall = half (((s0 >> 12u) & 15u) | ((s0 >> 24u) & 0xf0u) | ((s1 >> 4u) & 0xf00u) | ((s1 >> 16u) & 0xf000u));
  let scales = (select (s0, s1, inside >= 4u) >> (inside / 2u % 2u * 16u)) >> (inside % 2u * 6u);
  h.bits = vec4<u32> (take (block, inside), take (block, 8u + inside / 2u) >> (inside % 2u * 16u), 0u, 0u);
  h.scales = overall * vec2<f32> (vec2<i32> (((vec2<u32> (scales) >> vec2<u32> (0u, 3u)) & vec2<u32> (7u)) * 2u + 1u));
#endif
  return h;
}

// 16 of the 64 bits of two words.
fn of_two (low: u32, high: u32, j: u32) -> u32 {
  return (select (low, high, j >= 2u) >> (j % 2u * 16u)) & 0xffffu;
}

#if TYPE == IQ2_XXS || TYPE == IQ2_XS || TYPE == IQ2_S
// Maps 2 bits to 8, 25 or 43.
fn size (entry: u32, bit: u32) -> vec4<f32> {
  let g = pairs4 (entry, bit);
  return floats (g * 17u + (g >> vec4<u32> (1u)) + 8u);
}
#elif TYPE == IQ3_XXS || TYPE == IQ3_S
fn size (entry: u32) -> vec4<f32> {
  let g = (vec4<u32> (entry) >> vec4<u32> (0u, 4u, 8u, 12u)) & vec4<u32> (7u);
#if TYPE == IQ3_XXS
  // 4 to 52 in steps of 8, and 62.
  return floats (g * 8u + (((g + 1u) >> vec4<u32> (3u)) << vec4<u32> (1u)) + 4u);
#else
  // 1 to 15 in steps of 2.
  return floats (g * 2u + 1u);
#endif
}
#endif

fn part (h: Head, j: u32) -> Part {
  let d = select (h.scales.x, h.scales.y, j >= 2u);
#if TYPE == IQ3_XXS || TYPE == IQ3_S
  let two = of_two (h.bits.x, h.bits.y, j);
#if TYPE == IQ3_XXS
  let signs = seven_signs (h.bits.z >> (j * 7u));
  let a = grid (two & 255u);
  let b = grid (two >> 8u);
#else
  let signs = h.bits.z >> (j * 8u);
  let high = h.bits.w >> (j * 2u);
  let a = grid ((two & 255u) | ((high & 1u) << 8u));
  let b = grid ((two >> 8u) | ((high & 2u) << 7u));
#endif
  return Part (with_signs (d * size (a), signs, 0u), with_signs (d * size (b), signs, 4u));

#elif TYPE == IQ2_XXS || TYPE == IQ2_XS || TYPE == IQ2_S
#if TYPE == IQ2_XXS
  let entry = grid ((h.bits.x >> (j * 8u)) & 255u);
  let signs = seven_signs (h.bits.y >> (j * 7u));
#elif TYPE == IQ2_XS
  let q = of_two (h.bits.x, h.bits.y, j);
  let entry = grid (q & 511u);
  let signs = seven_signs (q >> 9u);
#else
  let entry = grid (((h.bits.x >> (j * 8u)) & 255u) | (((h.bits.z >> (j * 2u)) & 3u) << 8u));
  let signs = h.bits.y >> (j * 8u);
#endif
  return Part (with_signs (d * size (entry, 0u), signs, 0u), with_signs (d * size (entry, 8u), signs, 4u));

#else
#if TYPE == IQ1_S
  let high = h.bits.y >> (j * 3u);
  let offset = h.offsets.x;
#else
  let high = h.bits.y >> (j * 4u);
  let offset = select (-0.875, -1.125, (high & 8u) != 0u);
#endif
  let entry = grid (((h.bits.x >> (j * 8u)) & 255u) | ((high & 7u) << 8u));
  return Part (d * (floats (pairs4 (entry, 0u)) + offset), d * (floats (pairs4 (entry, 8u)) + offset));
#endif
}

#endif
