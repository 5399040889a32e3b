// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Pieces of rows of packed numbers, for packed-row.wgsl. Each word is loaded once; words that do not start at a
// multiple of four bytes are put together from two: they start at half a word, or anywhere for MXFP4. What is past the
// last word is never used.

#include "packed/types.wgsl"

#define OFFSETS TYPE == Q4_K || TYPE == Q5_K
#define LUT TYPE == MXFP4
#if TYPE == Q4_K || TYPE == Q5_K
// Words with 32 numbers in the lower nibbles of their bytes, and the next 32 in the upper ones.
#define GROUPS 2
#define QUADS 8
#define STEP 32
#elif TYPE == Q6_K
// 16 numbers in each of four rows of 32: pairs of rows have their lower bits in nibbles of the same bytes, all four
// their upper bits.
#define GROUPS 4
#define QUADS 4
#define STEP 32
#else
#define GROUPS 1
#define QUADS 8
#define STEP 32
#endif

struct Piece {
#if TYPE == Q4_0 || TYPE == MXFP4
#for i in 0..4
  q$(i): u32,
#endfor
#else
#for i in 0..8
  q$(i): u32,
#endfor
#endif
#if TYPE == Q5_K
#for i in 0..8
  h$(i): u32,
#endfor
#elif TYPE == Q6_K
#for i in 0..4
  h$(i): u32,
#endfor
#endif
#if OFFSETS
  offset: vec2<f32>,
#endif
#if TYPE == Q6_K
  scale: vec4<f32>,
#else
  scale: vec2<f32>,
#endif
}

// Exact and free of branches; drivers may flush f16 below 2⁻¹⁴.
fn half (bits: u32) -> f32 {
  let a = bits & 0x7fffu;
  let normal = bitcast<f32> ((a << 13u) + select (0x38000000u, 0x70000000u, a >= 0x7c00u));
  let size = select (normal, f32 (a) * 0x1p-24, a < 0x400u);
  return bitcast<f32> (bitcast<u32> (size) | ((bits & 0x8000u) << 16u));
}

fn bytes (word: u32) -> vec4<f32> {
  return vec4<f32> ((vec4<u32> (word) >> vec4<u32> (0u, 8u, 16u, 24u)) & vec4<u32> (255u));
}

fn signed_bytes (word: u32) -> vec4<f32> {
  return vec4<f32> ((vec4<i32> (bitcast<i32> (word)) << vec4<u32> (24u, 16u, 8u, 0u)) >> vec4<u32> (24u));
}

// The word that starts in the middle of `low` if `odd`, else at its beginning.
fn middle (low: u32, high: u32, odd: bool) -> u32 {
  return select (low, (low >> 16u) | (high << 16u), odd);
}

#if TYPE == Q4_0 || TYPE == Q8_0

fn start (piece: u32) -> u32 {
  return piece * 32u;
}

fn load_piece (row: u32, piece: u32) -> Piece {
  let at = row + piece * $(BYTES)u;
  let word = at / 4u;
  let odd = (at & 2u) != 0u;
  var v: Piece;
#define WORDS (BYTES - 2) / 4
#for i in 0..WORDS + 1
  let r$(i) = word_w (word + $(i)u);
#endfor
  // The scale comes first: the words after it start in the middle of a word if the scale does not.
  v.scale.x = half (select (r0 & 0xffffu, r0 >> 16u, odd));
#for i in 0..WORDS
  v.q$(i) = select ((r$(i) >> 16u) | (r$(i + 1) << 16u), r$(i + 1), odd);
#endfor
  return v;
}

#elif TYPE == MXFP4

fn start (piece: u32) -> u32 {
  return piece * 32u;
}

// 0, 1, 2, 3, 4, 6, 8, 12, which is twice the value, and a sign. There is only one 0.
fn number (q: u32) -> f32 {
  let size = i32 ((0xc8643210u >> ((q & 7u) * 4u)) & 15u);
  return f32 (select (size, -size, q >= 8u));
}

fn load_piece (row: u32, piece: u32) -> Piece {
  let at = row + piece * 17u;
  let exponent = extractBits (word_w (at / 4u), at % 4u * 8u, 8u);
  let word = (at + 1u) / 4u;
  let shift = (at + 1u) % 4u * 8u;
  var v: Piece;
#for i in 0..5
  let r$(i) = word_w (word + $(i)u);
#endfor
  // Half of 2^(exponent - 127), which may be subnormal.
  v.scale.x = bitcast<f32> (select ((exponent - 1u) << 23u, 0x200000u << (exponent % 2u), exponent < 2u));
#for i in 0..4
  v.q$(i) = (r$(i) >> shift) | ((r$(i + 1) << (31u - shift)) << 1u);
#endfor
  return v;
}

#elif TYPE == Q4_K || TYPE == Q5_K

fn start (piece: u32) -> u32 {
  return piece * 64u;
}

fn load_piece (row: u32, piece: u32) -> Piece {
  let block = (row + piece / 4u * $(BYTES)u) / 4u;
  let pair = piece % 4u;
  var v: Piece;
#if TYPE == Q5_K
#for i in 0..8
  v.h$(i) = word_w (block + $(i + 4)u) >> (pair * 2u);
#endfor
  let words = block + 12u + pair * 8u;
#else
  let words = block + 4u + pair * 8u;
#endif
#for i in 0..8
  v.q$(i) = word_w (words + $(i)u);
#endfor
  let overall = word_w (block);
  // Eight scales and eight offsets of 6 bits in 12 bytes: the last four of each have their upper bits where the first
  // four leave room. Two of each at once.
  let bit = pair % 2u * 16u;
  let a = word_w (block + 1u) >> bit;
  let b = word_w (block + 2u) >> bit;
  let c = word_w (block + 3u) >> bit;
  let late = pair >= 2u;
  let scale = select (a & 0x3f3fu, (c & 0x0f0fu) | ((a >> 2u) & 0x3030u), late);
  let offset = select (b & 0x3f3fu, ((c >> 4u) & 0x0f0fu) | ((b >> 2u) & 0x3030u), late);
  v.scale = half (overall & 0xffffu) * bytes (scale).xy;
#if TYPE == Q4_K
  // The upper nibbles are not shifted, so the scale makes up for it.
  v.scale.y *= 0.0625;
#endif
  v.offset = half (overall >> 16u) * bytes (offset).xy;
  return v;
}

#elif TYPE == Q6_K

fn start (piece: u32) -> u32 {
  return piece / 2u * 128u + piece % 2u * 16u;
}

fn load_piece (row: u32, piece: u32) -> Piece {
  let block = row + piece / 4u * 210u;
  let part = piece % 4u / 2u;
  let side = piece % 2u;
  let odd = (block & 2u) != 0u;
  let low = block / 4u + part * 16u + side * 4u;
  let high = block / 4u + 32u + part * 8u + side * 4u;
  let scales = block / 4u + 48u + part * 2u;
  var v: Piece;
#for i in 0..5
  let a$(i) = word_w (low + $(i)u);
  let b$(i) = word_w (low + $(i + 8)u);
  let c$(i) = word_w (high + $(i)u);
#endfor
#for i in 0..3
  let s$(i) = word_w (scales + $(i)u);
#endfor
  let overall = word_w (block / 4u + 52u);
#for i in 0..4
  v.q$(i) = middle (a$(i), a$(i + 1), odd);
  v.q$(i + 4) = middle (b$(i), b$(i + 1), odd);
  v.h$(i) = middle (c$(i), c$(i + 1), odd);
#endfor
  let d = half (select (overall & 0xffffu, overall >> 16u, odd));
  let early = signed_bytes (middle (s0, s1, odd) >> (side * 8u));
  let late = signed_bytes (middle (s1, s2, odd) >> (side * 8u));
  v.scale = d * vec4<f32> (early.xz, late.xz);
  return v;
}

#endif
