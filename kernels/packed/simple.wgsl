// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Blocks that have one scale, and in some types an offset.

fn head (row: u32, chunk: u32) -> Head {
  let at = row * p.row_bytes + chunk / $(CHUNKS)u * $(BYTES)u;
  let inside = chunk % $(CHUNKS)u;
  var h: Head;

#if TYPE == Q4_0 || TYPE == Q8_0
  h.scales.x = take_f16 (at);
  h.bytes = bytes_at (at + 2u);

#elif TYPE == Q4_1 || TYPE == Q5_1
  let both = take (bytes_at (at), 0u);
  h.scales.x = half (both & 0xffffu);
  h.offsets.x = half (both >> 16u);
#if TYPE == Q5_1
  h.bits.x = take (bytes_at (at), 1u);
  h.bytes = bytes_at (at + 8u);
#else
  h.bytes = bytes_at (at + 4u);
#endif

#elif TYPE == Q5_0
  h.scales.x = take_f16 (at);
  h.bits.x = take (bytes_at (at + 2u), 0u);
  h.bytes = bytes_at (at + 6u);

#elif TYPE == Q8_K
  h.scales.x = bitcast<f32> (take (bytes_at (at), 0u));
  h.bytes = bytes_at (at + 4u + inside * 32u);

#elif TYPE == Q1_0
  h.scales.x = take_f16 (at);
  h.bits.x = take (bytes_at (at + 2u), inside);

#elif TYPE == Q2_0
  h.scales.x = take_f16 (at);
  let q = bytes_at (at + 2u + inside * 8u);
  h.bits = vec4<u32> (take (q, 0u), take (q, 1u), 0u, 0u);
#endif
  return h;
}

fn part (h: Head, j: u32) -> Part {
  let d = h.scales.x;
#if TYPE == Q4_0
  let q = take (h.bytes, j);
  return Part (d * (floats (of_bytes (q, 0u, 15u)) - 8.0), d * (floats (of_bytes (q, 4u, 15u)) - 8.0));

#elif TYPE == Q4_1
  let q = take (h.bytes, j);
  return Part (d * floats (of_bytes (q, 0u, 15u)) + h.offsets.x, d * floats (of_bytes (q, 4u, 15u)) + h.offsets.x);

#elif TYPE == Q5_0 || TYPE == Q5_1
  let q = take (h.bytes, j);
  let a = floats (of_bytes (q, 0u, 15u) | (bits4 (h.bits.x, j * 4u) << vec4<u32> (4u)));
  let b = floats (of_bytes (q, 4u, 15u) | (bits4 (h.bits.x, j * 4u + 16u) << vec4<u32> (4u)));
#if TYPE == Q5_0
  return Part (d * (a - 16.0), d * (b - 16.0));
#else
  return Part (d * a + h.offsets.x, d * b + h.offsets.x);
#endif

#elif TYPE == Q8_0 || TYPE == Q8_K
  return Part (d * signed_bytes (take (h.bytes, j)), d * signed_bytes (take (h.bytes, j + 4u)));

#elif TYPE == Q1_0
  return Part (select (vec4<f32> (-d), vec4<f32> (d), bits4 (h.bits.x, j * 4u) != vec4<u32> (0u)),
               select (vec4<f32> (-d), vec4<f32> (d), bits4 (h.bits.x, j * 4u + 16u) != vec4<u32> (0u)));

#elif TYPE == Q2_0
  return Part (d * (floats (pairs4 (h.bits.x, j * 8u)) - 1.0), d * (floats (pairs4 (h.bits.y, j * 8u)) - 1.0));
#endif
}
