// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Where the sorted rows of each expert start, and how many tiles they take (kernels/grouped-matmul.wgsl). The first
// segment has the rows whose expert is negative, the last one those whose expert is too large; the number of rows
// follows after it. An invocation finds one segment by bisection.

// The number of rows that come before segment s.
fn count_before (s: u32) -> u32 {
  var low = 0u;
  var high = p.m;
  while (low < high) {
    let middle = (low + high) / 2u;
    let expert = load_expert (load_order (middle));
#if SIGNED
    let segment = select (min (u32 (max (expert, 0)), p.experts) + 1u, 0u, expert < 0);
#else
    let segment = min (expert, p.experts) + 1u;
#endif
    if (segment < s) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let s = workgroup_index (wid) * $(WG)u + lane;
  if (s > p.experts + 2u) {
    return;
  }
  let start = count_before (s);
  store_start (s, start);
  if (s < p.experts + 2u) {
    store_tiles (s, (count_before (s + 1u) - start + p.tile - 1u) / p.tile);
  }
}
