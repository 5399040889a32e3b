// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The first p.keep elements in sorted order of each row, or of each of the p.parts of one. An invocation iterates over
// its part, whose elements are p.parts apart, and keeps the best K >= p.keep pairs of key and index in registers,
// sorted. Insertions are rare: most elements cost a load and a comparison.
//
// Pairs are made from x, or come from an earlier step (FROM_PAIRS); they are stored as in sort.wgsl.

#if !FROM_PAIRS
#include "common/order.wgsl"
#endif

// Sorts after all others: no element has that index.
const NOTHING = 0xffffffffu;

// Whether a comes before b.
fn is_before (key_a: u32, index_a: u32, key_b: u32, index_b: u32) -> bool {
#if DISTINCT
  // Indices increase during the iteration, and no key is NOTHING.
  return key_a < key_b;
#else
  return key_a < key_b || (key_a == key_b && index_a < index_b);
#endif
}

// A condition that is uniform in a subgroup becomes a real branch in all drivers.
fn any_lane (condition: bool) -> bool {
#if SUBGROUPS
  return subgroupAny (condition);
#else
  return condition;
#endif
}

#include "common/place.wgsl"

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let item = workgroup_index (wid) * $(WG)u + lane;
  // Lanes without work of their own take part, so that subgroups stay together.
  let row = min (item, p.items - 1u) / p.parts;
  let part = min (item, p.items - 1u) % p.parts;

#if FROM_PAIRS
  let start = row * p.columns;
#else
  let start = operand_at (row, 0u);
#endif
#for I in 0..K
  var key_$(I) = NOTHING;
  var index_$(I) = NOTHING;
#endfor
  for (var j = 0u; j < p.steps; j += 4u) {
#for U in 0..4
    let k_$(U) = part + (j + $(U)u) * p.parts;
    let at_$(U) = min (k_$(U), p.columns - 1u);
#if FROM_PAIRS
    let found_$(U) = load_keys (start + at_$(U));
    let place_$(U) = load_indices (start + at_$(U));
#elif DISTINCT
    let found_$(U) = min (order_key (load_x (start + at_$(U) * p.inner)) ^ p.flip, NOTHING - 1u);
    let place_$(U) = at_$(U);
#else
    let found_$(U) = order_key (load_x (start + at_$(U) * p.inner)) ^ p.flip;
    let place_$(U) = at_$(U);
#endif
    let new_key_$(U) = select (NOTHING, found_$(U), k_$(U) < p.columns);
    let new_index_$(U) = select (NOTHING, place_$(U), k_$(U) < p.columns);
    let is_new_$(U) = is_before (new_key_$(U), new_index_$(U), key_$(K - 1), index_$(K - 1));
#endfor
    if (any_lane (is_new_0 || is_new_1 || is_new_2 || is_new_3)) {
#for U in 0..4
      let before_$(U)_$(K - 1) = is_before (new_key_$(U), new_index_$(U), key_$(K - 1), index_$(K - 1));
#for I in 1..K
      let before_$(U)_$(K - I - 1) = is_before (new_key_$(U), new_index_$(U), key_$(K - I - 1), index_$(K - I - 1));
      key_$(K - I) = select (key_$(K - I), select (new_key_$(U), key_$(K - I - 1), before_$(U)_$(K - I - 1)), before_$(U)_$(K - I));
      index_$(K - I) = select (index_$(K - I), select (new_index_$(U), index_$(K - I - 1), before_$(U)_$(K - I - 1)), before_$(U)_$(K - I));
#endfor
      key_0 = select (key_0, new_key_$(U), before_$(U)_0);
      index_0 = select (index_0, new_index_$(U), before_$(U)_0);
#endfor
    }
  }

  if (item < p.items) {
#for I in 0..K
    if ($(I)u < p.keep) {
      place (row, part, $(I)u, key_$(I), index_$(I));
    }
#endfor
  }
}
