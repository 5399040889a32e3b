// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The distances of a point from eight others, for each invocation. Neighbouring invocations share these eight.
#use op_sqrt

#include "common/norms.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let item = workgroup_index (wid) * $(WG)u + lane;
  if (item >= p.items) {
    return;
  }

  let batch = item / (p.blocks * p.n);
  let first = item / p.n % p.blocks * 8u;
  let row = batch * p.n + item % p.n;
  let point = row * p.width;
#if BATCHES
  let others_at = batch * p.m;
#else
  let others_at = 0u;
#endif
#if COSINE
  let norm = get_square (point);
#endif
#include "common/distances.wgsl"
#for U in 0..8
  if (first + $(U)u < p.m) {
#if ROOT
    store_y (row * p.m + first + $(U)u, op_sqrt (distance_$(U)));
#else
    store_y (row * p.m + first + $(U)u, distance_$(U));
#endif
  }
#endfor
}
