// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Numbers that are looked up: four bits name one of 16 levels, or an index names
// four or eight numbers of a grid. An entry of the grid has 16 bits, eight times 2 or
// four times 4 of them, and has no signs unless it is ternary.

#if TYPE == IQ4_NL || TYPE == IQ4_XS

fn level (q: vec4<u32>) -> vec4<f32> {
  let low = select (vec4<u32> (0xbfad9881u), vec4<u32> (0xf6eaddcfu), (q & vec4<u32> (4u)) != vec4<u32> (0u));
  let high = select (vec4<u32> (0x26190d01u), vec4<u32> (0x71594535u), (q & vec4<u32> (4u)) != vec4<u32> (0u));
  let four = bitcast<vec4<i32>> (select (low, high, (q & vec4<u32> (8u)) != vec4<u32> (0u)));
  return vec4<f32> ((four << (24u - (q & vec4<u32> (3u)) * 8u)) >> vec4<u32> (24u));
}

fn decode (row: u32, chunk: u32) -> Chunk {
  let at = row * p.row_bytes + chunk / $(CHUNKS)u * $(BYTES)u;
  var out: Chunk;
#if TYPE == IQ4_NL
  let d = take_f16 (at);
  let q = bytes_at (at + 2u);
#else
  let part = chunk % 8u;
  let head = bytes_at (at);
  let first = take (head, 0u);
  let low = (take (head, 1u) >> (part * 4u)) & 15u;
  let high = (first >> (16u + part * 2u)) & 3u;
  let d = f16_bits_to_f32 (first & 0xffffu) * f32 (i32 (low | (high << 4u)) - 32);
  let q = bytes_at (at + 8u + part * 16u);
#endif
#for i in 0..4
  let q$(i) = take (q, $(i)u);
  out[$(i)] = d * level (of_bytes (q$(i), 0u, 15u));
  out[$(i + 4)] = d * level (of_bytes (q$(i), 4u, 15u));
#endfor
  return out;
}

#else

fn grid (index: u32) -> u32 {
  return extractBits (load_table (min (index / 2u, $(TABLE - 1)u)), index % 2u * 16u, 16u);
}

// The last of eight signs makes their number even.
fn seven_signs (bits: u32) -> u32 {
  let seven = bits & 127u;
  return seven | ((countOneBits (seven) & 1u) << 7u);
}

fn with_signs (v: vec4<f32>, signs: u32, bit: u32) -> vec4<f32> {
  return select (v, -v, bits4 (signs, bit) != vec4<u32> (0u));
}

#if TYPE == IQ2_XXS || TYPE == IQ2_XS || TYPE == IQ2_S
// 8, 25 and 43 by 2 bits.
fn size (entry: u32, bit: u32) -> vec4<f32> {
  let g = pairs4 (entry, bit);
  return floats (g * 17u + (g >> vec4<u32> (1u)) + 8u);
}
#elif TYPE == IQ3_XXS
// 4 to 52 in steps of 8, and 62, by 3 bits.
fn size (entry: u32) -> vec4<f32> {
  let g = (vec4<u32> (entry) >> vec4<u32> (0u, 4u, 8u, 12u)) & vec4<u32> (7u);
  return floats (g * 8u + (((g + 1u) >> vec4<u32> (3u)) << vec4<u32> (1u)) + 4u);
}
#elif TYPE == IQ3_S
// 1 to 15 in steps of 2.
fn size (entry: u32) -> vec4<f32> {
  let g = (vec4<u32> (entry) >> vec4<u32> (0u, 4u, 8u, 12u)) & vec4<u32> (7u);
  return floats (g * 2u + 1u);
}
#endif

fn decode (row: u32, chunk: u32) -> Chunk {
  let at = row * p.row_bytes + chunk / 8u * $(BYTES)u;
  let part = chunk % 8u;
  var out: Chunk;

#if TYPE == IQ2_XXS
  let q = bytes_at (at + 2u + part * 8u);
  let indices = take (q, 0u);
  let rest = take (q, 1u);
  let d = take_f16 (at) * (0.5 + f32 (i32 (rest >> 28u))) * 0.25;
#for i in 0..4
  {
    let entry = grid ((indices >> $(8 * i)u) & 255u);
    let signs = seven_signs (rest >> $(7 * i)u);
    out[$(2 * i)] = with_signs (d * size (entry, 0u), signs, 0u);
    out[$(2 * i + 1)] = with_signs (d * size (entry, 8u), signs, 4u);
  }
#endfor

#elif TYPE == IQ2_XS
  let q = bytes_at (at + 2u + part * 8u);
  let q0 = take (q, 0u);
  let q1 = take (q, 1u);
  let scales = take_byte (at + 66u + part);
  let overall = take_f16 (at);
  let d0 = overall * (0.5 + f32 (i32 (scales & 15u))) * 0.25;
  let d1 = overall * (0.5 + f32 (i32 (scales >> 4u))) * 0.25;
#for i in 0..4
  {
    let pick = q$(i / 2) >> $(i % 2 * 16)u;
    let entry = grid (pick & 511u);
    let signs = seven_signs (pick >> 9u);
    out[$(2 * i)] = with_signs (d$(i / 2) * size (entry, 0u), signs, 0u);
    out[$(2 * i + 1)] = with_signs (d$(i / 2) * size (entry, 8u), signs, 4u);
  }
#endfor

#elif TYPE == IQ2_S
  let indices = take (bytes_at (at + 2u + part * 4u), 0u);
  let signs = take (bytes_at (at + 34u + part * 4u), 0u);
  let high = take_byte (at + 66u + part);
  let scales = take_byte (at + 74u + part);
  let overall = take_f16 (at);
  let d0 = overall * (0.5 + f32 (i32 (scales & 15u))) * 0.25;
  let d1 = overall * (0.5 + f32 (i32 (scales >> 4u))) * 0.25;
#for i in 0..4
  {
    let entry = grid (((indices >> $(8 * i)u) & 255u) | (((high >> $(2 * i)u) & 3u) << 8u));
    out[$(2 * i)] = with_signs (d$(i / 2) * size (entry, 0u), signs, $(8 * i)u);
    out[$(2 * i + 1)] = with_signs (d$(i / 2) * size (entry, 8u), signs, $(8 * i + 4)u);
  }
#endfor

#elif TYPE == IQ3_XXS
  let q = bytes_at (at + 2u + part * 8u);
  let rest = take (bytes_at (at + 66u + part * 4u), 0u);
  let d = take_f16 (at) * (0.5 + f32 (i32 (rest >> 28u))) * 0.5;
#for i in 0..2
  let q$(i) = take (q, $(i)u);
#for j in 0..4
  out[$(4 * i + j)] = with_signs (d * size (grid ((q$(i) >> $(8 * j)u) & 255u)),
                                  seven_signs (rest >> $((4 * i + j) / 2 * 7)u), $(j % 2 * 4)u);
#endfor
#endfor

#elif TYPE == IQ3_S
  let q = bytes_at (at + 2u + part * 8u);
  let high = take_byte (at + 66u + part);
  let signs = take (bytes_at (at + 74u + part * 4u), 0u);
  let scale = (take_byte (at + 106u + part / 2u) >> (part % 2u * 4u)) & 15u;
  let d = take_f16 (at) * f32 (i32 (scale * 2u + 1u));
#for i in 0..2
  let q$(i) = take (q, $(i)u);
#for j in 0..4
  out[$(4 * i + j)] = with_signs (d * size (grid (((q$(i) >> $(8 * j)u) & 255u) | (((high >> $(4 * i + j)u) & 1u) << 8u))),
                                  signs, $(16 * i + 4 * j)u);
#endfor
#endfor

#elif TYPE == IQ1_S
  let indices = take (bytes_at (at + 2u + part * 4u), 0u);
  let rest = take_half (at + 34u + part * 2u);
  let d = take_f16 (at) * f32 (i32 (((rest >> 12u) & 7u) * 2u + 1u));
  let shift = select (-0.875, -1.125, (rest & 0x8000u) != 0u);
#for i in 0..4
  {
    let entry = grid (((indices >> $(8 * i)u) & 255u) | (((rest >> $(3 * i)u) & 7u) << 8u));
    out[$(2 * i)] = d * (floats (pairs4 (entry, 0u)) + shift);
    out[$(2 * i + 1)] = d * (floats (pairs4 (entry, 8u)) + shift);
  }
#endfor

#elif TYPE == IQ1_M
  // The scale of all has its bits in the upper four of each of four halves.
  let block = bytes_at (at);
  let indices = take (block, part);
  let rest = take (block, 8u + part / 2u) >> (part % 2u * 16u);
  let s0 = take (block, 12u);
  let s1 = take (block, 13u);
  let overall = f16_bits_to_f32 (((s0 >> 12u) & 15u) | ((s0 >> 24u) & 0xf0u) | ((s1 >> 4u) & 0xf00u) | ((s1 >> 16u) & 0xf000u));
  let scales = (select (s0, s1, part >= 4u) >> (part / 2u % 2u * 16u)) >> (part % 2u * 6u);
  let d0 = overall * f32 (i32 ((scales & 7u) * 2u + 1u));
  let d1 = overall * f32 (i32 (((scales >> 3u) & 7u) * 2u + 1u));
#for i in 0..4
  {
    let four = rest >> $(4 * i)u;
    let entry = grid (((indices >> $(8 * i)u) & 255u) | ((four & 7u) << 8u));
    let shift = select (-0.875, -1.125, (four & 8u) != 0u);
    out[$(2 * i)] = d$(i / 2) * (floats (pairs4 (entry, 0u)) + shift);
    out[$(2 * i + 1)] = d$(i / 2) * (floats (pairs4 (entry, 8u)) + shift);
  }
#endfor
#endif
  return out;
}

#endif
