// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Merges what the workgroups of attention-split, or the lanes of attention-keys, have computed for their split of the
// keys: a lane merges one column of one row, over the splits in order.
//
// Neighbouring lanes read neighbouring columns; the p.splits largest scores and sums of a row are the same for all of
// its lanes. There are at most 128 splits, so this takes a small part of the time of reading keys and values.

#include "common/attention.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i >= p.elements) {
    return;
  }

  let col = i % p.columns;
  let index = i / p.columns;
  let row = index % p.rows;
  let kv_head = index / p.rows % p.kv_heads;
  let batch = index / p.rows / p.kv_heads;
  let head = kv_head * p.share + row % p.share;
  let first = index * p.splits;

  var top = LOWEST;
  for (var j = 0u; j < p.splits; j++) {
    top = max (top, load_state ((first + j) * 2u));
  }
#if SINK
  let sink = load_sink (head * p.sink_head);
  top = max (top, sink);
  var total = weigh (sink - top);
#else
  var total = 0.0;
#endif
  var sum = 0.0;
  for (var j = 0u; j < p.splits; j++) {
    let share = load_state ((first + j) * 2u + 1u);
    // A split that saw no key has no largest score.
    if (!is_nothing (share)) {
      let weight = weigh (load_state ((first + j) * 2u) - top);
      total = fma (weight, share, total);
      sum = fma (weight, load_sums ((first + j) * p.columns + col), sum);
    }
  }
  store_y (batch * p.y_batch + head * p.y_head + row / p.share * p.y_row + col, select (sum / total, 0.0, is_nothing (total)));
}
