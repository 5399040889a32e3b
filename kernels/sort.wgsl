// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sorts blocks of 1 << p.log_size elements in workgroup memory, which has room for p.capacity: a whole row, or a part
// of one. What is sorted are pairs of a key and the index in the row: no two are equal, so the result is stable
// although the network is not. Sizes are parameters, since constants would make drivers unroll the loops and take long
// to compile them.
//
// Pairs are made from x (consecutive elements of a row are p.inner elements apart), or come from an earlier step
// (FROM_PAIRS). The first p.keep of each block are stored: as pairs (TO_PAIRS), or else as values, taken from x
// (VALUES), and indices (INDICES).

#if !FROM_PAIRS
#include "common/order.wgsl"
#endif

var<workgroup> shared_keys: array<u32, $(ROOM)>;
var<workgroup> shared_indices: array<u32, $(ROOM)>;

fn order (a: u32, b: u32) {
  let ka = shared_keys[a];
  let kb = shared_keys[b];
  let ia = shared_indices[a];
  let ib = shared_indices[b];
  if (kb < ka || (kb == ka && ib < ia)) {
    shared_keys[a] = kb;
    shared_keys[b] = ka;
    shared_indices[a] = ib;
    shared_indices[b] = ia;
  }
}

#include "common/place.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let mask = (1u << p.log_size) - 1u;
  let slots = p.capacity >> p.log_size;
  let left = p.items - group * slots;
  for (var e = lane; e < p.capacity; e += $(WG)u) {
    let item = group * slots + min (e >> p.log_size, left - 1u);
    let row = item / p.blocks;
    let k = ((item % p.blocks) << p.log_size) + (e & mask);
    // Greater than all others, which no index is.
    var key = 0xffffffffu;
    var index = 0xffffffffu;
    if (k < p.columns) {
#if FROM_PAIRS
      key = load_keys (row * p.columns + k);
      index = load_indices (row * p.columns + k);
#else
      key = order_key (load_x (operand_at (row, k))) ^ p.flip;
      index = k;
#endif
    }
    shared_keys[e] = key;
    shared_indices[e] = index;
  }

  // A bitonic network whose comparisons all go in the same direction: the first step of each stage mirrors the second
  // half.
  for (var s = 0u; s < p.log_size; s++) {
    workgroupBarrier ();
    let half = (1u << s) - 1u;
    for (var e = lane; e < p.capacity / 2u; e += $(WG)u) {
      let first = (e >> s) << (s + 1u);
      order (first + (e & half), first + 2u * half + 1u - (e & half));
    }
    for (var j = s; j > 0u; j--) {
      workgroupBarrier ();
      let step = 1u << (j - 1u);
      for (var e = lane; e < p.capacity / 2u; e += $(WG)u) {
        let a = ((e >> (j - 1u)) << j) + (e & (step - 1u));
        order (a, a + step);
      }
    }
  }
  workgroupBarrier ();

  for (var e = lane; e < p.capacity; e += $(WG)u) {
    let slot = e >> p.log_size;
    let i = e & mask;
    let item = group * slots + slot;
    let block = item % p.blocks;
    if (slot < left && i < p.keep && i < p.columns - (block << p.log_size)) {
      place (item / p.blocks, block, i, shared_keys[e], shared_indices[e]);
    }
  }
}
