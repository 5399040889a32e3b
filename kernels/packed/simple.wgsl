// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Blocks that have one scale, and some a number to add.

fn decode (row: u32, chunk: u32) -> Chunk {
  let at = row * p.row_bytes + chunk / $(CHUNKS)u * $(BYTES)u;
  let part = chunk % $(CHUNKS)u;
  var out: Chunk;

#if TYPE == Q4_0
  let d = take_f16 (at);
  let q = bytes_at (at + 2u);
#for i in 0..4
  let q$(i) = take (q, $(i)u);
  out[$(i)] = d * (floats (of_bytes (q$(i), 0u, 15u)) - 8.0);
  out[$(i + 4)] = d * (floats (of_bytes (q$(i), 4u, 15u)) - 8.0);
#endfor

#elif TYPE == Q4_1
  let q = bytes_at (at);
  let scales = take (q, 0u);
  let d = f16_bits_to_f32 (scales & 0xffffu);
  let m = f16_bits_to_f32 (scales >> 16u);
#for i in 0..4
  let q$(i) = take (q, $(i + 1)u);
  out[$(i)] = d * floats (of_bytes (q$(i), 0u, 15u)) + m;
  out[$(i + 4)] = d * floats (of_bytes (q$(i), 4u, 15u)) + m;
#endfor

#elif TYPE == Q5_0
  let d = take_f16 (at);
  let q = bytes_at (at + 2u);
  let high = take (q, 0u);
#for i in 0..4
  let q$(i) = take (q, $(i + 1)u);
  out[$(i)] = d * (floats (of_bytes (q$(i), 0u, 15u) | (bits4 (high, $(4 * i)u) << vec4<u32> (4u))) - 16.0);
  out[$(i + 4)] = d * (floats (of_bytes (q$(i), 4u, 15u) | (bits4 (high, $(4 * i + 16)u) << vec4<u32> (4u))) - 16.0);
#endfor

#elif TYPE == Q5_1
  let q = bytes_at (at);
  let scales = take (q, 0u);
  let d = f16_bits_to_f32 (scales & 0xffffu);
  let m = f16_bits_to_f32 (scales >> 16u);
  let high = take (q, 1u);
#for i in 0..4
  let q$(i) = take (q, $(i + 2)u);
  out[$(i)] = d * floats (of_bytes (q$(i), 0u, 15u) | (bits4 (high, $(4 * i)u) << vec4<u32> (4u))) + m;
  out[$(i + 4)] = d * floats (of_bytes (q$(i), 4u, 15u) | (bits4 (high, $(4 * i + 16)u) << vec4<u32> (4u))) + m;
#endfor

#elif TYPE == Q8_0
  let d = take_f16 (at);
  let q = bytes_at (at + 2u);
#for i in 0..8
  out[$(i)] = d * signed_bytes (take (q, $(i)u));
#endfor

#elif TYPE == Q8_K
  let d = bitcast<f32> (take (bytes_at (at), 0u));
  let q = bytes_at (at + 4u + part * 32u);
#for i in 0..8
  out[$(i)] = d * signed_bytes (take (q, $(i)u));
#endfor

#elif TYPE == Q1_0
  let d = take_f16 (at);
  let q = take (bytes_at (at + 2u), part);
#for i in 0..8
  out[$(i)] = select (vec4<f32> (-d), vec4<f32> (d), bits4 (q, $(4 * i)u) != vec4<u32> (0u));
#endfor

#elif TYPE == Q2_0
  let d = take_f16 (at);
  let q = bytes_at (at + 2u + part * 8u);
#for i in 0..2
  let q$(i) = take (q, $(i)u);
#for j in 0..4
  out[$(4 * i + j)] = d * (floats (pairs4 (q$(i), $(8 * j)u)) - 1.0);
#endfor
#endfor
#endif
  return out;
}
