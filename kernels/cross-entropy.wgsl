// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The cross-entropy of the softmax along rows, with one label for each row. A row whose label is the ignored one, or is
// out of range, does not count.
//
// STAGE 0 computes the loss of each row, and with COUNT whether it counts, with LANES invocations to a row; STAGE 1
// adds these up. For the gradient, STAGE 2 computes the share of a row in the mean, and STAGE 3 the gradient of rows.
// Where there are few rows, DIVIDE 2 makes STAGE 3 count them by itself.

#if STAGE == 0 || STAGE == 3
#use op_exp
#include "common/rows.wgsl"
#endif
#if STAGE == 0
#use op_log
#endif

#if STAGE == 1 || STAGE == 0 && SMOOTH
alias sum_t = vec2<f32>;
#else
alias sum_t = f32;
#endif

var<private> start: u32;
var<private> largest: f32;

#if STAGE != 1
fn counts (label: i32) -> bool {
  return label >= 0 && u32 (label) < p.classes && label != p.ignored;
}
#endif

fn term (k: u32) -> sum_t {
#if STAGE == 1
  return sum_t (load_parts (2u * k), load_parts (2u * k + 1u));
#elif STAGE == 2
  return select (0.0, 1.0, counts (i32 (load_target (k))));
#else
  let d = load_x (start + column (k)) - largest;
#if STAGE == 0 && SMOOTH
  return sum_t (op_exp (d), d);
#else
  return op_exp (d);
#endif
#endif
}

#define UNROLL 4
#include "common/sum.wgsl"

#if STAGE == 0 || STAGE == 3

#if LANES > 1
var<workgroup> shared_max: array<f32, $(WG)>;
#endif

// max() may lose a NaN; the sum keeps it.
fn find_largest (lane: u32) -> f32 {
  let t = lane % $(LANES)u;
  var mine = load_x (start + column (min (t, p.columns - 1u)));
  for (var k = t; k < p.columns; k += $(LANES)u) {
    mine = max (mine, load_x (start + column (k)));
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
  workgroupBarrier ();
#endif
  return mine;
}

#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if STAGE == 1 || STAGE == 2
  // A single row, for the lanes of one workgroup.
  let sum = sum_columns (lane, p.columns);
  if (lane == 0u) {
#if STAGE == 1 && DIVIDE
    store_y (0u, sum.x / max (sum.y, 1.0));
#elif STAGE == 1
    store_y (0u, sum.x);
#else
    store_share (0u, 1.0 / max (sum, 1.0));
#endif
  }
#else
  let slot = lane / $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  let row = group * $(WG / LANES)u + min (slot, rows - 1u);
  let label = i32 (load_target (row));
  let there = counts (label);
  start = row_start (row);
  largest = find_largest (lane);
  let sum = sum_columns (lane, p.columns);

#if STAGE == 0
  let minus = largest - load_x (start + column (u32 (clamp (label, 0, i32 (p.classes - 1u)))));
#if SMOOTH
  // Σ (log Σ e^d - d) / n: no term is negative.
  let log_sum = op_log (sum.x);
  let loss = (log_sum + minus) * p.sharp + (log_sum - sum.y / f32 (p.columns)) * p.smoothing;
#else
  let loss = op_log (sum) + minus;
#endif
  if (slot < rows && lane % $(LANES)u == 0u) {
#if COUNT
    store_parts (2u * row, select (0.0, loss, there));
    store_parts (2u * row + 1u, select (0.0, 1.0, there));
#else
    store_y (row, select (0.0, loss, there));
#endif
  }
#else
#if EACH
  var slope = load_g (row);
#else
  var slope = load_g (0u);
#endif
#if DIVIDE == 1
  slope *= load_share (0u);
#elif DIVIDE == 2
  var count = 0.0;
  for (var i = lane % $(LANES)u; i < p.rows; i += $(LANES)u) {
    count += select (0.0, 1.0, counts (i32 (load_target (i))));
  }
  slope *= 1.0 / max (row_sum (lane, count), 1.0);
#endif
  let end = select (0u, p.columns, slot < rows);
  for (var k = lane % $(LANES)u; k < end; k += $(LANES)u) {
    let at = start + column (k);
    let share = op_exp (load_x (at) - largest) / sum - select (p.miss, p.hit, i32 (k) == label);
    store_dx (at, select (0.0, share * slope, there));
  }
#endif
#endif
}
