// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The index of the largest (or SMALLEST) element of each row; a NaN wins in both cases. Among equal elements the first
// one is taken, or the last with LAST_INDEX.
//
// Consecutive elements of a row are p.inner elements apart. Long rows are split into p.parts chunks; each chunk has
// every p.parts-th run of LANES columns. A chunk yields a pair of key and index, stored side by side, and a second
// dispatch reduces these: FROM_PAIRS, TO_PAIRS.

#if !FROM_PAIRS
#include "common/order.wgsl"
#endif

struct Best {
  key: u32,
  index: u32,
}

fn candidate (at: u32, k: u32) -> Best {
#if FROM_PAIRS
  return Best (load_keys (at), load_indices (at));
#else
  var key = order_key (load_x (at));
#if SMALLEST && KIND == 2
  key = select (~key, key, key == 0xffffffffu);
#elif SMALLEST
  key = ~key;
#endif
  return Best (key, k);
#endif
}

fn better (a: Best, b: Best) -> Best {
#if LAST_INDEX
  let second = b.key > a.key || (b.key == a.key && b.index > a.index);
#else
  let second = b.key > a.key || (b.key == a.key && b.index < a.index);
#endif
  return Best (select (a.key, b.key, second), select (a.index, b.index, second));
}

#if LANES > 1
var<workgroup> shared_best: array<Best, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slot = lane / $(LANES)u;
  let t = lane % $(LANES)u;
  let left = p.rows - group * $(WG / LANES)u;
  let item = group * $(WG / LANES)u + min (slot, left - 1u);
  let row = item / p.parts;
  let start = row / p.inner * p.columns * p.inner + row % p.inner;
  let first = item % p.parts * $(LANES)u + t;

  let k0 = min (first, p.columns - 1u);
  var best = candidate (start + k0 * p.inner, k0);
  for (var k = first; k < p.columns; k += p.parts * $(LANES)u) {
    best = better (best, candidate (start + k * p.inner, k));
  }

#if LANES > 1
  shared_best[lane] = best;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (t < width) {
      shared_best[lane] = better (shared_best[lane], shared_best[lane + width]);
    }
  }
  best = shared_best[lane];
#endif
  if (t == 0u && slot < left) {
#if TO_PAIRS
    store_best_keys (item, best.key);
    store_best_indices (item, best.index);
#else
    store_y (item, type_y (best.index));
#endif
  }
}
