// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The p.keep nearest of p.m others for each point. An invocation has a point, iterates over the others, eight at a
// time, and keeps the best K >= p.keep so far, sorted: in registers where these are few (REGISTERS). Insertions are
// rare, so most of the time is spent on distances. A key sorts like its distance, with NaN last.
#use op_sqrt

#include "common/norms.wgsl"
#include "common/order.wgsl"

// Sorts after all others.
const NOTHING = 0xffffffffu;

// A condition that is uniform in a subgroup becomes a real branch in all drivers.
fn any_lane (condition: bool) -> bool {
#if SUBGROUPS
  return subgroupAny (condition);
#else
  return condition;
#endif
}

fn from_key (key: u32) -> f32 {
  let bits = select (2147483648u | (2147483648u - key), key - 2147483648u, key >= 2147483648u);
  let distance = bitcast<f32> (select (bits, 0x7fc00000u, key == NOTHING - 1u));
#if ROOT
  return op_sqrt (distance);
#else
  return distance;
#endif
}

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let item = p.first + workgroup_index (wid) * $(WG)u + lane;
  // Lanes without work of their own take part, so that subgroups stay together.
  let row = min (item, p.end - 1u);
  let point = row * p.width;
#if BATCHES
  let others_at = row / p.n * p.m;
#else
  // The same for all lanes: one load serves them.
  let others_at = 0u;
#endif
#if COSINE
  let norm = get_square (point);
#endif
#if REGISTERS
#for I in 0..K
  var key_$(I) = NOTHING;
  var index_$(I) = 0u;
#endfor
#else
  var keys = array<u32, $(K)> ();
  var indices = array<u32, $(K)> ();
  for (var i = 0u; i < p.keep; i++) {
    keys[i] = NOTHING;
  }
  var last = NOTHING;
#endif

  for (var first = 0u; first < p.m; first += 8u) {
#include "common/distances.wgsl"
#for U in 0..8
    let is_there_$(U) = first + $(U)u < p.m;
#if EXCLUDE
    let is_other_$(U) = first + $(U)u != row % p.n;
#else
    let is_other_$(U) = true;
#endif
    let found_$(U) = min (order_key (bitcast<u32> (distance_$(U))), NOTHING - 1u);
    let new_$(U) = select (NOTHING, found_$(U), is_there_$(U) && is_other_$(U));
#endfor
#if REGISTERS
#for U in 0..8
    if (any_lane (new_$(U) < key_$(K - 1))) {
      let before_$(U)_$(K - 1) = new_$(U) < key_$(K - 1);
#for I in 1..K
      let before_$(U)_$(K - I - 1) = new_$(U) < key_$(K - I - 1);
      key_$(K - I) = select (key_$(K - I), select (new_$(U), key_$(K - I - 1), before_$(U)_$(K - I - 1)), before_$(U)_$(K - I));
      index_$(K - I) = select (index_$(K - I), select (first + $(U)u, index_$(K - I - 1), before_$(U)_$(K - I - 1)), before_$(U)_$(K - I));
#endfor
      key_0 = select (key_0, new_$(U), before_$(U)_0);
      index_0 = select (index_0, first + $(U)u, before_$(U)_0);
    }
#endfor
#else
#for U in 0..8
    if (new_$(U) < last) {
      var to = p.keep - 1u;
      while (to > 0u && keys[max (to, 1u) - 1u] > new_$(U)) {
        keys[to] = keys[to - 1u];
        indices[to] = indices[to - 1u];
        to--;
      }
      keys[to] = new_$(U);
      indices[to] = first + $(U)u;
      last = keys[p.keep - 1u];
    }
#endfor
#endif
  }

  if (item < p.end) {
#if REGISTERS
#for I in 0..K
    if ($(I)u < p.keep) {
      store_indices (row * p.keep + $(I)u, i32 (index_$(I)));
      store_distances (row * p.keep + $(I)u, from_key (key_$(I)));
    }
#endfor
#else
    for (var i = 0u; i < p.keep; i++) {
      store_indices (row * p.keep + i, i32 (indices[i]));
      store_distances (row * p.keep + i, from_key (keys[i]));
    }
#endif
  }
}
