// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Integers of 2, 4 or 8 bits and floats of 8, with scales and zero points beside
// them: one of each for p.block_size numbers of a row. A chunk has SCALES of them.
// ZERO is 0 for none, 1 for integers packed like the numbers, 2 for floats.

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

fn decode (row: u32, chunk: u32) -> Chunk {
  let q = bytes_at (row * p.row_bytes + chunk * $(4 * BITS)u);
  var out: Chunk;

#for s in 0..SCALES
  // a chunk may go beyond the end of its row
  let block$(s) = min ((chunk * 32u + $(32 / SCALES * s)u) / p.block_size, p.blocks - 1u);
#if SCALE
  let d$(s) = load_scale (row * p.scale_row + block$(s) * p.scale_block);
#endif
#if TYPE != F8_E4M3 && TYPE != F8_E5M2
  let z$(s) = zero_point (row, block$(s));
#endif
#endfor

#for i in 0..8
#define S i * SCALES / 8
#if TYPE == F8_E4M3 || TYPE == F8_E5M2
  let v$(i) = f8 (of_bytes (take (q, $(i)u), 0u, 255u));
#elif BITS == 8
  let v$(i) = integers (of_bytes (take (q, $(i)u), 0u, 255u)) - z$(S);
#elif BITS == 4
  let v$(i) = integers ((vec4<u32> (take (q, $(i / 2)u)) >> vec4<u32> ($(i % 2 * 16)u, $(i % 2 * 16 + 4)u, $(i % 2 * 16 + 8)u, $(i % 2 * 16 + 12)u)) & vec4<u32> (15u)) - z$(S);
#else
  let v$(i) = integers (pairs4 (take (q, $(i / 4)u), $(i % 4 * 8)u)) - z$(S);
#endif
#if SCALE
  out[$(i)] = d$(S) * v$(i);
#else
  out[$(i)] = v$(i);
#endif
#endfor
  return out;
}
