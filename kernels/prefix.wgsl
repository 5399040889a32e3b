// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Replaces each number by the sum of those before it, modulo 2^32. A single workgroup iterates over them.

var<workgroup> sums: array<u32, $(WG)>;

@compute @workgroup_size($(WG))
fn main (@builtin(local_invocation_index) lane: u32) {
  var before = 0u;

  for (var base = 0u; base < p.n; base += $(WG * ITEMS)u) {
    let first = base + lane * $(ITEMS)u;
    var sum = 0u;
    for (var i = first; i < min (first + $(ITEMS)u, p.n); i++) {
      sum += load_counts (i);
    }
    sums[lane] = sum;
    workgroupBarrier ();
    for (var step = 1u; step < $(WG)u; step *= 2u) {
      let left = select (0u, sums[lane - min (step, lane)], lane >= step);
      workgroupBarrier ();
      sums[lane] += left;
      workgroupBarrier ();
    }

    var at = before + sums[lane] - sum;
    for (var i = first; i < min (first + $(ITEMS)u, p.n); i++) {
      let here = load_counts (i);
      store_counts (i, at);
      at += here;
    }
    before += sums[$(WG - 1)u];
    workgroupBarrier ();
  }
}
