// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Rows of packed numbers, for kernels that have them as `w`. Numbers are unpacked in chunks of 32, a chunk in four
// parts of eight:
//
//   head (row, chunk) -> Head     what the parts of a chunk have in common
//   part (head, j) -> Part        numbers first (j) to first (j) + 3 of the chunk, as a, and
//                                 second (j) to second (j) + 3, as b
//
// first (j) and second (j) are 4 j and 16 + 4 j, or 8 j and 8 j + 4 where numbers come from a grid. There is one file
// of layouts for each family; TYPE selects the layout. BYTES is the size of a block and CHUNKS its number of chunks;
// ALIGNED means that its size is a whole number of words. Rows are p.row_bytes long.

#include "packed/types.wgsl"

// Bytes from any address on, read as words. What is past the last word is never used.
struct Bytes {
  word: u32,
  shift: u32,
}

// Their meaning depends on the layout: scales of both halves, offsets of both halves.
struct Head {
  bytes: Bytes,
  scales: vec2<f32>,
  offsets: vec2<f32>,
  bits: vec4<u32>,
}

struct Part {
  a: vec4<f32>,
  b: vec4<f32>,
}

fn bytes_at (at: u32) -> Bytes {
  return Bytes (at / 4u, at % 4u * 8u);
}

// A GPU checks bounds in hardware.
fn get_word (i: u32) -> u32 {
#if CPU
  return word_w (min (i, p.last_word));
#else
  return word_w (i);
#endif
}

fn take (from_here: Bytes, i: u32) -> u32 {
#if ALIGNED
  return get_word (from_here.word + i);
#else
  let low = get_word (from_here.word + i);
  let high = get_word (from_here.word + i + 1u);
  return (low >> from_here.shift) | ((high << (31u - from_here.shift)) << 1u);
#endif
}

// 16 bits at an even address.
fn take_half (at: u32) -> u32 {
  return extractBits (get_word (at / 4u), at % 4u * 8u, 16u);
}

fn take_byte (at: u32) -> u32 {
  return extractBits (get_word (at / 4u), at % 4u * 8u, 8u);
}

// Free of branches, unlike the general function: drivers compile it faster.
fn half (bits: u32) -> f32 {
  let a = bits & 0x7fffu;
  let normal = bitcast<f32> ((a << 13u) + select (0x38000000u, 0x70000000u, a >= 0x7c00u));
  let size = select (normal, f32 (i32 (a)) * 0x1p-24, a < 0x400u);
  return select (size, -size, (bits & 0x8000u) != 0u);
}

fn take_f16 (at: u32) -> f32 {
  return half (take_half (at));
}

// CPUs convert signed integers fastest, GPUs bytes of words.
fn floats (v: vec4<u32>) -> vec4<f32> {
#if CPU
  return vec4<f32> (bitcast<vec4<i32>> (v));
#else
  return vec4<f32> (v);
#endif
}

// From each byte of a word, the bits of the mask, starting at a bit.
fn of_bytes (word: u32, bit: u32, mask: u32) -> vec4<u32> {
  return (vec4<u32> (word >> bit) >> vec4<u32> (0u, 8u, 16u, 24u)) & vec4<u32> (mask);
}

fn signed_bytes (word: u32) -> vec4<f32> {
  return vec4<f32> ((vec4<i32> (bitcast<i32> (word)) << vec4<u32> (24u, 16u, 8u, 0u)) >> vec4<u32> (24u));
}

// Four consecutive numbers of 1 or 2 bits.
fn bits4 (word: u32, bit: u32) -> vec4<u32> {
  return (vec4<u32> (word) >> (vec4<u32> (0u, 1u, 2u, 3u) + bit)) & vec4<u32> (1u);
}

fn pairs4 (word: u32, bit: u32) -> vec4<u32> {
  return (vec4<u32> (word) >> (vec4<u32> (0u, 2u, 4u, 6u) + bit)) & vec4<u32> (3u);
}

#define GRID TYPE == IQ2_XXS || TYPE == IQ2_XS || TYPE == IQ2_S || TYPE == IQ3_XXS || TYPE == IQ3_S || TYPE == IQ1_S || TYPE == IQ1_M

fn first (j: u32) -> u32 {
#if GRID
  return j * 8u;
#else
  return j * 4u;
#endif
}

fn second (j: u32) -> u32 {
#if GRID
  return j * 8u + 4u;
#else
  return j * 4u + 16u;
#endif
}

#if TYPE == INT2 || TYPE == INT4 || TYPE == INT8 || TYPE == F8_E4M3 || TYPE == F8_E5M2
#include "packed/scaled.wgsl"
#elif TYPE == MXFP4 || TYPE == NVFP4 || TYPE == BF16
#include "packed/floats.wgsl"
#elif TYPE >= Q2_K && TYPE <= Q6_K || TYPE == TQ1_0 || TYPE == TQ2_0
#include "packed/k.wgsl"
#elif TYPE >= IQ2_XXS && TYPE <= IQ1_M
#include "packed/iq.wgsl"
#else
#include "packed/simple.wgsl"
#endif
