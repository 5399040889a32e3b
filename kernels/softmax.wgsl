// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y = e^(x - max x) / Σ e^(x - max x), or its logarithm (LOG), along rows.
// The exponentials are computed twice instead of being kept: the row may not
// fit anywhere but in the result, whose type may be too narrow.

#use op_exp op_log
#include "common/rows.wgsl"

alias sum_t = f32;

var<private> start: u32;
var<private> largest: f32;

fn term (k: u32) -> f32 {
  return op_exp (load_x (start + column (k)) - largest);
}

#define UNROLL 2
#include "common/sum.wgsl"

#if LANES > 1
var<workgroup> shared_max: array<f32, $(WG)>;
#endif

// A NaN may be lost here; the sum has it.
fn max_columns (lane: u32, n: u32) -> f32 {
  let t = lane % $(LANES)u;
  var mine = load_x (start + column (min (t, n - 1u)));

  for (var k = t; k < n; k += $(LANES * 4)u) {
#for u in 0..4
    let x$(u) = load_x (start + column (min (k + $(u * LANES)u, n - 1u)));
#endfor
    mine = max (mine, max (max (x0, x1), max (x2, x3)));
  }
#if LANES > 1
  shared_max[lane] = mine;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (t < width) {
      shared_max[lane] = max (shared_max[lane], shared_max[lane + width]);
    }
  }
  workgroupBarrier ();
  mine = shared_max[lane - t];
#endif
  return mine;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slot = lane / $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  start = row_start (group * $(WG / LANES)u + min (slot, rows - 1u));

  largest = max_columns (lane, p.columns);
  let sum = sum_columns (lane, p.columns);
#if LOG
  let scale = op_log (sum);
#else
  let scale = 1.0 / sum;
#endif

  if (slot < rows) {
    for (var k = lane % $(LANES)u; k < p.columns; k += $(LANES)u) {
      let at = start + column (k);
#if LOG
      store_y (at, (load_x (at) - largest) - scale);
#else
      store_y (at, op_exp (load_x (at) - largest) * scale);
#endif
    }
  }
}
