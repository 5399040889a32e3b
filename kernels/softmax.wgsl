// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y = e^(x - max x) / Σ e^(x - max x), or its logarithm (LOG), along rows. The exponentials are computed twice instead
// of being kept: there may be no room for the row except in the result, whose type may be too narrow.
//
// STAGE 0 does everything, with LANES invocations to a row. Long rows take three steps: STAGE 1 computes the maximum
// and the sum of parts of rows, STAGE 2 joins those of a row, and STAGE 3 applies them.
//
// On a CPU eight lanes share a row, so that a load reads neighbours: three loads, a store and two exponentials for
// eight elements. Measured on one core for rows of 256 to 16,384: half the time of three steps in which each lane has a
// part of a row to itself.

#use op_is_nan math_int math_expm1_poly math_exp_reduce
#if LOG && STAGE != 1 && STAGE != 3
#use op_log
#endif
#include "common/maps.wgsl"

alias sum_t = f32;

var<private> largest: f32;
var<private> scale: f32;
var<private> first_column: u32;

// e^x for x <= 0, 2 ulp; subnormal results are 0.
fn decay (x: f32) -> f32 {
  let c = max (x, -88.0);
  let n = round (c * 1.44269504);
  let y = (1.0 + math_expm1_poly (math_exp_reduce (c, n))) * bitcast<f32> ((math_int (n) + 127) << 23u);
  return select (y, x, op_is_nan (x));
}

fn element (k: u32) -> f32 {
#if STAGE == 2
  return load_parts (first_column + k * 2u);
#else
  return load_x (start0 + column0 (first_column + k));
#endif
}

#if STAGE != 3

fn term (k: u32) -> f32 {
#if STAGE == 2
  return load_parts (first_column + k * 2u + 1u) * decay (element (k) - largest);
#else
  return decay (element (k) - largest);
#endif
}

// CPUs get eight lanes to a row: there an iteration of a loop costs as much as several loads.
#if LANES == 8
#define UNROLL 16
#else
#define UNROLL 4
#endif
#include "common/sum.wgsl"

#if LANES > 1
var<workgroup> shared_max: array<f32, $(WG)>;
#endif

// max() may lose a NaN; the sum keeps it.
fn find_largest (lane: u32, first: u32, step: u32, n: u32) -> f32 {
  let t = lane % $(LANES)u;
  var mine = element (min (first, n - 1u));

  for (var k = first; k < n; k += step * $(UNROLL)u) {
#for u in 0..UNROLL
    let x$(u) = element (min (k + $(u)u * step, n - 1u));
#endfor
#for u in 0..UNROLL / 4
    mine = max (mine, max (max (x$(4 * u), x$(4 * u + 1)), max (x$(4 * u + 2), x$(4 * u + 3))));
#endfor
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

#endif

#if STAGE == 0 || STAGE == 3

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

fn put (k: u32) {
  let at = start0 + column0 (k);
#if LOG
  let y = (load_x (at) - largest) - scale;
#else
  let y = decay (load_x (at) - largest) * scale;
#endif
#if EPILOGUE
  store_y (at, epilogue (at, y));
#else
  store_y (at, y);
#endif
}

#include "common/columns.wgsl"

#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if STAGE == 3
  // A workgroup has p.span columns of one row.
  let row = group / p.chunks;
  let chunk = group % p.chunks;
  start_row (row);
  largest = load_moments (row * 2u);
  scale = load_moments (row * 2u + 1u);
  let first = chunk * p.span;
  put_columns (first + lane, first + min (p.span, p.columns - first), $(WG)u);
#else

  let slot = lane / $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  let row = group * $(WG / LANES)u + min (slot, rows - 1u);
#if STAGE == 0
  start_row (row);
  let n = p.columns;
  let first = lane % $(LANES)u;
  let step = $(LANES)u;
#elif STAGE == 1
  let part = row % p.parts;
  start_row (row / p.parts);
  first_column = part / $(SPREAD)u * p.span;
  let n = min (p.span, p.columns - first_column);
  let first = part % $(SPREAD)u * $(LANES)u + lane % $(LANES)u;
  let step = $(LANES * SPREAD)u;
#else
  first_column = row * p.parts * 2u;
  let n = p.parts;
  let first = lane % $(LANES)u;
  let step = $(LANES)u;
#endif

  largest = find_largest (lane, first, step, n);
#if STAGE == 1
  // A part that is -∞ throughout contributes nothing if others are not.
  let part_largest = largest;
  if (bitcast<u32> (largest) == 0xff800000u) {
    largest = 0.0;
  }
#endif
  let sum = row_sum (lane, lane_sum (first, step, n));

#if STAGE == 1
  if (slot < rows && lane % $(LANES)u == 0u) {
    store_parts (row * 2u, part_largest);
    store_parts (row * 2u + 1u, sum);
  }
#else

#if LOG
  scale = op_log (sum);
#else
  scale = 1.0 / sum;
#endif
#if STAGE == 2
  if (slot < rows && lane % $(LANES)u == 0u) {
    store_moments (row * 2u, largest);
    store_moments (row * 2u + 1u, scale);
  }
#else
  // No loop in a branch: a driver has been seen to lose 16-bit stores there.
  put_columns (first, select (0u, n, slot < rows), step);
#endif
#endif
#endif
}
