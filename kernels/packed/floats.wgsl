// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Small floats: e2m1 in blocks with a scale that is itself a small float, and bf16.

#if TYPE == BF16

fn decode (row: u32, chunk: u32) -> Chunk {
  let q = bytes_at (row * p.row_bytes + chunk * 64u);
  var out: Chunk;
#for i in 0..8
  {
    let a = take (q, $(2 * i)u);
    let b = take (q, $(2 * i + 1)u);
    out[$(i)] = bitcast<vec4<f32>> (vec4<u32> (a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u));
  }
#endfor
  return out;
}

#else

// Twice the value: 0, 1, 2, 3, 4, 6, 8, 12, and a sign.
fn e2m1 (q: vec4<u32>) -> vec4<f32> {
  // negated as an integer: there is one 0 only
  let size = bitcast<vec4<i32>> ((vec4<u32> (0xc8643210u) >> ((q & vec4<u32> (7u)) * 4u)) & vec4<u32> (15u));
  return vec4<f32> (select (size, -size, q >= vec4<u32> (8u)));
}

#if TYPE == MXFP4
fn decode (row: u32, chunk: u32) -> Chunk {
  let at = row * p.row_bytes + chunk * $(BYTES)u;
  let exponent = take_byte (at);
  // half of 2^(exponent - 127), which may be subnormal
  let d = bitcast<f32> (select ((exponent - 1u) << 23u, 0x200000u << exponent, exponent < 2u));
  let q = bytes_at (at + 1u);
  var out: Chunk;
#for i in 0..4
  let q$(i) = take (q, $(i)u);
  out[$(i)] = d * e2m1 (of_bytes (q$(i), 0u, 15u));
  out[$(i + 4)] = d * e2m1 (of_bytes (q$(i), 4u, 15u));
#endfor
  return out;
}
#else
// Half of an e4m3 without sign; what would be NaN is 0.
fn e4m3_half (bits: u32) -> f32 {
  let exponent = (bits >> 3u) & 15u;
  let mantissa = bits & 7u;
  let number = select (bitcast<f32> ((exponent + 116u) << 23u) * f32 (i32 (mantissa + 8u)),
                       f32 (i32 (mantissa)) * 0x1p-10, exponent == 0u);
  return select (number, 0.0, bits == 127u);
}

fn decode (row: u32, chunk: u32) -> Chunk {
  let block = bytes_at (row * p.row_bytes + chunk / 2u * $(BYTES)u);
  let part = chunk % 2u;
  let scales = take (block, 0u) >> (part * 16u);
  var out: Chunk;
#for i in 0..2
  let d$(i) = e4m3_half ((scales >> $(8 * i)u) & 255u);
#for j in 0..2
  {
    let q = take (block, 1u + part * 4u + $(2 * i + j)u);
    out[$(4 * i + j)] = d$(i) * e2m1 (of_bytes (q, 0u, 15u));
    out[$(4 * i + 2 + j)] = d$(i) * e2m1 (of_bytes (q, 4u, 15u));
  }
#endfor
#endfor
  return out;
}
#endif

#endif
