// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// One digit (4 bits) of a stable sort of update numbers by their target. A workgroup takes a block of WG · ITEMS
// updates, an invocation ITEMS consecutive ones, so that positions follow from the order alone.
//
// COUNT: the number of occurrences of each digit in each block, digit by digit for all blocks. Otherwise: the new
// position of each update, from the running sums of those counts.

var<workgroup> tally: array<u32, $(16 * WG)>;

fn number (i: u32) -> u32 {
#if FIRST
  return i;
#else
  return load_order (i);
#endif
}

fn digit (update: u32) -> u32 {
  return (load_target (update) >> p.shift) & 15u;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let block = workgroup_index (wid);
  let first = block * $(WG * ITEMS)u + lane * $(ITEMS)u;
  // Blocks past the end have nothing to count.
  let end = select (first, first + min ($(ITEMS)u, p.n - min (first, p.n)), block < p.blocks);

#for d in 0..16
  tally[$(d * WG)u + lane] = 0u;
#endfor
  for (var i = first; i < end; i++) {
    tally[digit (number (i)) * $(WG)u + lane]++;
  }
  workgroupBarrier ();

#if COUNT
  if (lane < 16u && block < p.blocks) {
    var sum = 0u;
    for (var l = 0u; l < $(WG)u; l++) {
      sum += tally[lane * $(WG)u + l];
    }
    store_counts (lane * p.blocks + block, sum);
  }
#else
  if (lane < 16u && block < p.blocks) {
    var sum = load_counts (lane * p.blocks + block);
    for (var l = 0u; l < $(WG)u; l++) {
      let here = tally[lane * $(WG)u + l];
      tally[lane * $(WG)u + l] = sum;
      sum += here;
    }
  }
  workgroupBarrier ();
  for (var i = first; i < end; i++) {
    let update = number (i);
    let at = digit (update) * $(WG)u + lane;
    store_sorted (tally[at], update);
    tally[at]++;
  }
#endif
}
