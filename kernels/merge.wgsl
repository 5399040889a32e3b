// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Merges sorted runs of p.run pairs two by two: each pair finds its position by bisection of the other run. Of each new
// run the first p.keep pairs are stored, as in sort.wgsl.

#include "common/place.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups || lane >= p.n - group * $(WG)u) {
    return;
  }

  let i = group * $(WG)u + lane;
  let row = i / p.columns;
  let k = i % p.columns;
  let run = k / p.run;
  let key = load_keys (i);
  let index = load_indices (i);

  // How many pairs of the other run come before this one.
  let other = min ((run ^ 1u) * p.run, p.columns);
  let start = row * p.columns + other;
  var low = 0u;
  var high = min (p.run, p.columns - other);
  while (low < high) {
    let middle = (low + high) / 2u;
    let its_key = load_keys (start + middle);
    if (its_key < key || (its_key == key && load_indices (start + middle) < index)) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }

  let rank = k - run * p.run + low;
  if (rank < p.keep) {
    place (row, run / 2u, rank, key, index);
  }
}
