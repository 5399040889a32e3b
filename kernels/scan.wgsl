// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Running sums (SUM), products (PROD), maxima (MAX) or minima (MIN) along rows, from the end if p.reverse, without the
// element itself if p.exclusive. Consecutive elements of a row are p.inner elements apart.
//
// Rows are split into blocks of LANES * p.lane_items elements. A first step computes the total of each block (TOTALS),
// further steps the running totals before each block, from which the last one starts (CARRY). Each lane has
// p.lane_items consecutive elements. A lane sums up its elements before it adds what comes before them: on each level
// of blocks an element goes through lane_items + log₂ LANES + 1 additions.

alias fold_t = type_y;

#include "common/fold.wgsl"

#if LANES > 1
var<workgroup> shared_totals: array<fold_t, $(WG)>;
#endif

// Element i of a lane, from either end of the row.
fn element (start: u32, first: u32, i: u32) -> u32 {
  let k = first + i;
  return start + select (k, p.columns - 1u - k, p.reverse != 0u) * p.inner;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slot = lane / $(LANES)u;
  let t = lane % $(LANES)u;
  let left = p.items - group * $(WG / LANES)u;
  let item = group * $(WG / LANES)u + min (slot, left - 1u);
  let row = item / p.blocks;
  let start = row / p.inner * p.columns * p.inner + row % p.inner;
  let first = min ((item % p.blocks * $(LANES)u + t) * p.lane_items, p.columns);
  let n = min (p.lane_items, p.columns - first);
  let nothing = bitcast<fold_t> (p.identity);

#if TOTALS || LANES > 1
  var total = nothing;
  for (var i = 0u; i < n; i++) {
    total = join (total, load_x (element (start, first, i)));
  }
#endif

#if LANES > 1
  shared_totals[lane] = total;
  for (var step = 1u; step < $(LANES)u; step *= 2u) {
    workgroupBarrier ();
    let other = shared_totals[lane - min (t, step)];
    workgroupBarrier ();
    if (t >= step) {
      total = join (other, total);
      shared_totals[lane] = total;
    }
  }
  workgroupBarrier ();
#endif

#if TOTALS
  if (t == $(LANES - 1)u && slot < left) {
    store_y (item, total);
  }
#else
  var before = nothing;
#if LANES > 1
  before = select (shared_totals[lane - min (t, 1u)], nothing, t == 0u);
#endif
#if CARRY
  before = join (load_carry (item), before);
#endif
  if (slot < left) {
    var sum = nothing;
    for (var i = 0u; i < n; i++) {
      let at = element (start, first, i);
      let next = join (sum, load_x (at));
      store_y (at, join (before, select (next, sum, p.exclusive != 0u)));
      sum = next;
    }
  }
#endif
}
