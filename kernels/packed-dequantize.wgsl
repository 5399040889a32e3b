// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[r, k] = number k of packed row r, or of the row at index r (ops/rlx-packed.c). An invocation unpacks 32 numbers.

#include "packed/decode.wgsl"
#if GATHER
#include "common/index.wgsl"
#endif

fn put (y: u32, k: u32, left: u32, v: vec4<f32>) {
#if TAIL
#for c in 0..4
  if (k + $(c)u < left) {
#if HALF
    store_y (y + k + $(c)u, f32_to_f16_bits (v[$(c)]));
#else
    store_y (y + k + $(c)u, bitcast<u32> (v[$(c)]));
#endif
  }
#endfor
#elif HALF
  store_word_y ((y + k) / 2u, f32_to_f16_bits (v.x) | (f32_to_f16_bits (v.y) << 16u));
  store_word_y ((y + k) / 2u + 1u, f32_to_f16_bits (v.z) | (f32_to_f16_bits (v.w) << 16u));
#else
  let bits = bitcast<vec4<u32>> (v);
#for c in 0..4
  store_y (y + k + $(c)u, bits[$(c)]);
#endfor
#endif
}

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
  let h = head (limit_index (load_indices (row), p.rows), chunk);
#else
  let h = head (row, chunk);
#endif
  let left = p.k - chunk * 32u;
  let y = row * p.k + chunk * 32u;
  // A bound that drivers do not know, or they would unroll the loop.
  for (var j = 0u; j < p.parts; j++) {
    let v = part (h, j);
    put (y, first (j), left, v.a);
    put (y, second (j), left, v.b);
  }
}
