// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[r, k] = number k of packed row r, or of the row that the index r names
// (ops/rlx-packed.c). An invocation makes 32 numbers.

#include "packed/decode.wgsl"
#if GATHER
#include "common/index.wgsl"
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i >= p.count) {
    return;
  }

  let chunk = i % p.chunks;
  let row = i / p.chunks;
#if GATHER
  let v = decode (limit_index (load_indices (row), p.rows), chunk);
#else
  let v = decode (row, chunk);
#endif
  let y = row * p.k + chunk * 32u;
#if TAIL
  let end = p.k - chunk * 32u;
#endif
#for e in 0..8
#for c in 0..4
#if TAIL
  if ($(4 * e + c)u < end)
#endif
  {
#if !HALF
    store_y (y + $(4 * e + c)u, bitcast<u32> (v[$(e)][$(c)]));
#elif TAIL
    store_y (y + $(4 * e + c)u, f32_to_f16_bits (v[$(e)][$(c)]));
#elif c % 2 == 0
    store_word_y ((y + $(4 * e + c)u) / 2u, f32_to_f16_bits (v[$(e)][$(c)]) | (f32_to_f16_bits (v[$(e)][$(c + 1)]) << 16u));
#endif
  }
#endfor
#endfor
}
