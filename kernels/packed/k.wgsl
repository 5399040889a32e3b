// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Blocks of 256 numbers: pieces of 16 or 32 have a scale of few bits each, all have
// one in common. And ternary numbers.

fn f16_pair (word: u32) -> vec2<f32> {
  return vec2<f32> (f16_bits_to_f32 (word & 0xffffu), f16_bits_to_f32 (word >> 16u));
}

#if TYPE == Q4_K || TYPE == Q5_K
// Eight scales and eight offsets of 6 bits in 12 bytes: the last four of each have
// their upper bits where the first four leave room.
fn scale_and_offset (block: Bytes, part: u32) -> vec2<f32> {
  let scales = f16_pair (take (block, 0u));
  let bit = part % 4u * 8u;
  let a = take (block, 1u) >> bit;
  let b = take (block, 2u) >> bit;
  let c = take (block, 3u) >> bit;
  let late = part >= 4u;
  let scale = select (a & 63u, (c & 15u) | ((a >> 2u) & 48u), late);
  let offset = select (b & 63u, ((c >> 4u) & 15u) | ((b >> 2u) & 48u), late);
  return scales * vec2<f32> (vec2<i32> (vec2<u32> (scale, offset)));
}
#endif

fn decode (row: u32, chunk: u32) -> Chunk {
  let at = row * p.row_bytes + chunk / 8u * $(BYTES)u;
  let part = chunk % 8u;
  let block = bytes_at (at);
  let shift = part % 4u * 2u;
  var out: Chunk;

#if TYPE == Q2_K
  let overall = f16_pair (take (block, 20u));
  let scales = take (block, part / 2u) >> (part % 2u * 16u);
#for i in 0..2
  let d$(i) = overall.x * f32 (i32 ((scales >> $(8 * i)u) & 15u));
  let m$(i) = overall.y * f32 (i32 ((scales >> $(8 * i + 4)u) & 15u));
#endfor
#for i in 0..8
  out[$(i)] = d$(i / 4) * floats (of_bytes (take (block, 4u + part / 4u * 8u + $(i)u), shift, 3u)) - m$(i / 4);
#endfor

#elif TYPE == Q3_K
  // Sixteen scales of 6 bits: 4 bits of each in 8 bytes, 2 bits of each in 4 more.
  let low = take (block, 24u + part % 4u / 2u) >> (part % 2u * 16u + part / 4u * 4u);
  let high = take (block, 26u) >> (part % 2u * 16u + part / 2u * 2u);
  let overall = take_f16 (at + 108u);
#for i in 0..2
  let d$(i) = overall * f32 (i32 (((low >> $(8 * i)u) & 15u) | (((high >> $(8 * i)u) & 3u) << 4u)) - 32);
#endfor
#for i in 0..8
  {
    let two = of_bytes (take (block, 8u + part / 4u * 8u + $(i)u), shift, 3u);
    let third = of_bytes (take (block, $(i)u), part, 1u);
    out[$(i)] = d$(i / 4) * (floats (two | (third << vec4<u32> (2u))) - 4.0);
  }
#endfor

#elif TYPE == Q4_K
  let d = scale_and_offset (block, part);
#for i in 0..8
  out[$(i)] = d.x * floats (of_bytes (take (block, 4u + part / 2u * 8u + $(i)u), part % 2u * 4u, 15u)) - d.y;
#endfor

#elif TYPE == Q5_K
  let d = scale_and_offset (block, part);
#for i in 0..8
  {
    let four = of_bytes (take (block, 12u + part / 2u * 8u + $(i)u), part % 2u * 4u, 15u);
    let fifth = of_bytes (take (block, 4u + $(i)u), part, 1u);
    out[$(i)] = d.x * floats (four | (fifth << vec4<u32> (4u))) - d.y;
  }
#endfor

#elif TYPE == Q6_K
  let scales = bitcast<i32> (take_half (at + 192u + part * 2u));
  let overall = take_f16 (at + 208u);
  let d0 = overall * f32 ((scales << 24u) >> 24u);
  let d1 = overall * f32 ((scales << 16u) >> 24u);
  let low = part / 4u * 16u + part % 2u * 8u;
#for i in 0..8
  {
    let four = of_bytes (take (block, low + $(i)u), part % 4u / 2u * 4u, 15u);
    let two = of_bytes (take (block, 32u + part / 4u * 8u + $(i)u), shift, 3u);
    out[$(i)] = d$(i / 4) * (floats (four | (two << vec4<u32> (4u))) - 32.0);
  }
#endfor

#elif TYPE == TQ2_0
  let d = take_f16 (at + 64u);
#for i in 0..8
  out[$(i)] = d * (floats (of_bytes (take (block, part / 4u * 8u + $(i)u), shift, 3u)) - 1.0);
#endfor

#elif TYPE == TQ1_0
  // Bytes are fractions of 256 in base 3: times 3 to the power of a digit's place,
  // less whole numbers, the digit comes first. 32 bytes have five digits each, 16
  // more as well, and the last 4 have four.
  let d = take_f16 (at + 52u);
  let early = part < 5u;
  let last = part == 7u;
#for i in 0..8
  {
#if i < 4
    let word = select ($(8 + i)u, $(i)u, early);
    let place = select (select (part * 2u - 10u, 4u, last), part, early);
#else
    let word = select (select ($(4 + i)u, 12u, last), $(i)u, early);
    let place = select (select (part * 2u - 9u, $(i - 4)u, last), part, early);
#endif
    let power = select ((0x1b090301u >> (place % 4u * 8u)) & 255u, 81u, place == 4u);
    let rest = (of_bytes (take (block, word), 0u, 255u) * power) & vec4<u32> (255u);
    out[$(i)] = d * (floats ((rest * 3u) >> vec4<u32> (8u)) - 1.0);
  }
#endfor
#endif
  return out;
}
