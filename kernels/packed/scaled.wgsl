// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Integers of 2, 4 or 8 bits and floats of 8, with separate scales and zero points: one of each for every p.block_size
// numbers of a row. A chunk has SCALES of them. ZERO is 0 for none, 1 for integers packed like the numbers, 2 for
// floats.

#if TYPE == F8_E4M3
fn f8 (v: vec4<u32>) -> vec4<f32> {
  let a = v & vec4<u32> (127u);
  let size = select (bitcast<vec4<f32>> ((a << vec4<u32> (20u)) + 0x3c000000u), floats (a) * 0x1p-9, a < vec4<u32> (8u));
  let bits = select (bitcast<vec4<u32>> (size), vec4<u32> (0x7fc00000u), a == vec4<u32> (127u));
  return bitcast<vec4<f32>> (bits | ((v & vec4<u32> (128u)) << vec4<u32> (24u)));
}
#elif TYPE == F8_E5M2
fn f8 (v: vec4<u32>) -> vec4<f32> {
  let a = v & vec4<u32> (127u);
  let bias = select (vec4<u32> (0x38000000u), vec4<u32> (0x70000000u), a >= vec4<u32> (124u));
  let quiet = select (vec4<u32> (0u), vec4<u32> (0x400000u), a > vec4<u32> (124u));
  let size = select (bitcast<vec4<f32>> (((a << vec4<u32> (21u)) + bias) | quiet), floats (a) * 0x1p-16, a < vec4<u32> (4u));
  return bitcast<vec4<f32>> (bitcast<vec4<u32>> (size) | ((v & vec4<u32> (128u)) << vec4<u32> (24u)));
}
#else

#if SIGNED_BYTES
fn integer (v: u32) -> i32 {
  return bitcast<i32> (v << $(32 - BITS)u) >> $(32 - BITS)u;
}
#else
fn integer (v: u32) -> i32 {
  return bitcast<i32> (v);
}
#endif

fn integers (v: vec4<u32>) -> vec4<f32> {
#if SIGNED_BYTES
  return vec4<f32> (bitcast<vec4<i32>> (v << vec4<u32> ($(32 - BITS)u)) >> vec4<u32> ($(32 - BITS)u));
#else
  return floats (v);
#endif
}

fn zero_point (row: u32, block: u32) -> f32 {
#if ZERO == 0
#if SIGNED_BYTES
  return 0.0;
#elif BITS == 2
  return 2.0;
#elif BITS == 4
  return 8.0;
#else
  return 128.0;
#endif
#elif ZERO == 1
  let bit = block * $(BITS)u;
  let at = row * p.zero_bytes + bit / 8u;
  return f32 (integer (extractBits (word_zero (at / 4u), at % 4u * 8u + bit % 8u, $(BITS)u)));
#else
  return load_zero (row * p.blocks + block);
#endif
}
#endif

fn scale (row: u32, block: u32) -> f32 {
#if SCALE
  return load_scale (row * p.scale_row + block * p.scale_block);
#else
  return 1.0;
#endif
}

// The block of a number of the chunk; a chunk may extend past the end of its row.
fn block_of (chunk: u32, number: u32) -> u32 {
  return min ((chunk * 32u + number) / p.block_size, p.blocks - 1u);
}

fn zeros (row: u32, block: u32) -> f32 {
#if TYPE == F8_E4M3 || TYPE == F8_E5M2
  return 0.0;
#else
  return zero_point (row, block);
#endif
}

fn head (row: u32, chunk: u32) -> Head {
  var h: Head;
  h.bytes = bytes_at (row * p.row_bytes + chunk * $(4 * BITS)u);
#if SCALES == 8
  h.bits = vec4<u32> (row, chunk, 0u, 0u);
#else
  let block = block_of (chunk, 0u);
  h.scales = vec2<f32> (scale (row, block));
  h.offsets = vec2<f32> (zeros (row, block));
#if SCALES == 2
  let next = block_of (chunk, 16u);
  h.scales.y = scale (row, next);
  h.offsets.y = zeros (row, next);
#endif
#endif
  return h;
}

fn part (h: Head, j: u32) -> Part {
#if SCALES == 8
  let block_a = block_of (h.bits.y, first (j));
  let block_b = block_of (h.bits.y, second (j));
  let d = vec2<f32> (scale (h.bits.x, block_a), scale (h.bits.x, block_b));
  let z = vec2<f32> (zeros (h.bits.x, block_a), zeros (h.bits.x, block_b));
#else
  let d = h.scales;
  let z = h.offsets;
#endif
#if TYPE == F8_E4M3 || TYPE == F8_E5M2
  let a = f8 (of_bytes (take (h.bytes, j), 0u, 255u));
  let b = f8 (of_bytes (take (h.bytes, j + 4u), 0u, 255u));
#elif BITS == 8
  let a = integers (of_bytes (take (h.bytes, j), 0u, 255u)) - z.x;
  let b = integers (of_bytes (take (h.bytes, j + 4u), 0u, 255u)) - z.y;
#elif BITS == 4
  let bits = vec4<u32> (0u, 4u, 8u, 12u) + j % 2u * 16u;
  let a = integers ((vec4<u32> (take (h.bytes, j / 2u)) >> bits) & vec4<u32> (15u)) - z.x;
  let b = integers ((vec4<u32> (take (h.bytes, j / 2u + 2u)) >> bits) & vec4<u32> (15u)) - z.y;
#else
  let a = integers (pairs4 (take (h.bytes, 0u), j * 8u)) - z.x;
  let b = integers (pairs4 (take (h.bytes, 1u), j * 8u)) - z.y;
#endif
#if SCALE
  return Part (d.x * a, d.y * b);
#else
  return Part (a, b);
#endif
}
