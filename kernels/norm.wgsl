// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Norms along rows. KIND is an RlxNormKind: 0 layer normalisation, 1 by the root of the mean square, 2 by the sum of
// magnitudes, 3 by the root of the sum of squares.
//
// STAGE 0 does everything, with LANES invocations to a row. Long rows take three steps: STAGE 1 computes moments of
// parts of rows, STAGE 2 joins those of a row, and STAGE 3 applies them. STAGE 4 only computes the sum that is
// normalised.
//
// The mean is computed twice: the second time as a correction to the first, from the same differences as the variance.
// Where the mean is large these are exact or nearly so, so neither result suffers from a common offset. An invocation
// that has a row to itself can skip this if the first mean was good enough. For the same reason a mean is kept as two
// numbers, an element (middle) and the distance of the mean from it (shift).
//
// With VECTORS a row belongs to a whole workgroup and stays in its registers: common/norm-row.wgsl.

#include "common/maps.wgsl"
#if KIND >= 2
#use op_is_nan
#endif

#if KIND == 0
alias sum_t = vec2<f32>;
#define WIDTH 3
#else
alias sum_t = f32;
#define WIDTH 1
#endif

var<private> middle: f32;
var<private> shift: f32;
var<private> scale: f32;
var<private> first_column: u32;

#if STAGE != 2 && !VECTORS

fn value (k: u32) -> f32 {
  var x = load_x (start0 + column0 (k));
#if RESIDUAL
  x += load_residual (start$(RESIDUAL_MAP) + column$(RESIDUAL_MAP) (k));
#endif
#if ADDED
  x += load_added (start$(ADDED_MAP) + column$(ADDED_MAP) (k));
#endif
  return x;
}

#endif

#if STAGE < 3 && !VECTORS

#if STAGE == 2
// The moments of part k; those of the row start at first_column.
fn term (k: u32) -> sum_t {
  let at = first_column + k * $(WIDTH)u;
#if KIND == 0
  let weight = f32 (part_columns (k)) / f32 (p.columns);
  let d = (load_parts (at) - middle) + (load_parts (at + 1u) - shift);
  return vec2<f32> (weight * d, weight * (load_parts (at + 2u) + d * d));
#else
  return load_parts (at);
#endif
}
#else
fn term (k: u32) -> sum_t {
  let x = value (first_column + k);
#if KIND == 0
  let d = x - middle;
  return vec2<f32> (d, d * d);
#elif KIND == 2
  return abs (x);
#else
  return x * x;
#endif
}
#endif

#define UNROLL 8
#include "common/sum.wgsl"

#if KIND == 0 && STAGE != 2 && LANES == 1

// An estimate of the mean of n columns: that of 16 of them, or a single one where there are few.
fn find_middle (n: u32) -> f32 {
  var sum = value (first_column);
  if (n >= 64u) {
    let apart = n / 16u;
    sum *= 0.0625;
    for (var i = 1u; i < 16u; i++) {
      sum += 0.0625 * value (first_column + i * apart);
    }
  }
  return sum;
}

#endif

#endif

#if STAGE == 0 || STAGE == 2

fn get_scale (sum: f32) -> f32 {
#if KIND == 0
  return 1.0 / sqrt (sum + p.epsilon);
#elif KIND == 1
  return 1.0 / sqrt (sum / f32 (p.columns) + p.epsilon);
#elif KIND == 2
  return select (1.0 / sum, 0.0, sum == 0.0 && !op_is_nan (sum));
#else
  return select (1.0 / sqrt (sum), 0.0, sum == 0.0 && !op_is_nan (sum));
#endif
}

#endif

#if STAGE == 0 || STAGE == 3

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

#if VECTORS
#include "common/norm-row.wgsl"
#else
#if SCALE == 2
var<private> row_scale: f32;
#endif
#if BIAS == 2
var<private> row_bias: f32;
#endif

// Computes what is the same for all columns of a row.
fn start_factors () {
#if SCALE == 2
  row_scale = load_scale (start$(SCALE_MAP));
#if PLUS_ONE
  row_scale += 1.0;
#endif
#endif
#if BIAS == 2
  row_bias = load_bias (start$(BIAS_MAP));
#endif
}

fn put (k: u32) {
  let x = value (k);
#if KEEP_SUM
  store_sum (start0 + column0 (k), x);
#endif
#if KIND == 0
  var y = ((x - middle) - shift) * scale;
#else
  var y = x * scale;
#endif
#if SCALE == 2
  y *= row_scale;
#elif SCALE && PLUS_ONE
  y *= 1.0 + load_scale (start$(SCALE_MAP) + column$(SCALE_MAP) (k));
#elif SCALE
  y *= load_scale (start$(SCALE_MAP) + column$(SCALE_MAP) (k));
#endif
#if BIAS == 2
  y += row_bias;
#elif BIAS
  y += load_bias (start$(BIAS_MAP) + column$(BIAS_MAP) (k));
#endif
  let at = start0 + column0 (k);
#if EPILOGUE
  store_y (at, epilogue (at, y));
#else
  store_y (at, y);
#endif
}

#include "common/columns.wgsl"

#endif
#endif

#if !VECTORS
@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if STAGE >= 3
  // A workgroup has p.span columns of one row.
  let row = group / p.chunks;
  let chunk = group % p.chunks;
  start_row (row);
#if STAGE == 4
  let end = min (p.span, p.columns - chunk * p.span);
  for (var k = lane; k < end; k += $(WG)u) {
    store_sum (start0 + column0 (chunk * p.span + k), value (chunk * p.span + k));
  }
#else
#if KIND == 0
  middle = load_moments (row * 3u);
  shift = load_moments (row * 3u + 1u);
  scale = load_moments (row * 3u + 2u);
#else
  scale = load_moments (row);
#endif
  start_factors ();
  let first = chunk * p.span;
  put_columns (first + lane, first + min (p.span, p.columns - first), $(WG)u);
#endif
#else

  let slot = lane / $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  let row = group * $(WG / LANES)u + min (slot, rows - 1u);
#if STAGE == 0
  start_row (row);
  let n = p.columns;
  let first = lane % $(LANES)u;
  let step = $(LANES)u;
  let weight = f32 (p.columns);
#elif STAGE == 1
  let part = row % p.parts;
  start_row (row / p.parts);
  first_column = part / $(SPREAD)u * p.span;
  let n = min (p.span, p.columns - first_column);
  let first = part % $(SPREAD)u * $(LANES)u + lane % $(LANES)u;
  let step = $(LANES * SPREAD)u;
  // The last parts of the last chunk may have no columns at all.
  let weight = f32 (max (part_columns (part), 1u));
#else
  first_column = row * p.parts * $(WIDTH)u;
  let n = p.parts;
  let first = lane % $(LANES)u;
  let step = $(LANES)u;
  let weight = 1.0;
#endif

#if KIND == 0
  // Relative to an estimate of the mean, so that a common offset cancels out. The number of passes is a parameter so
  // that there is one copy of the loop body.
#if STAGE == 2
  middle = load_parts (first_column);
#elif LANES > 1
  middle = value (first_column);
#else
  middle = find_middle (n);
#endif
  var sums = vec2<f32> ();
  for (var turn = 0u; turn < p.passes; turn++) {
#if STAGE == 2
    shift += sums.x;
#else
    middle += sums.x;
#endif
    sums = row_sum (lane, lane_sum (first, step, n)) / weight;
#if LANES == 1 && STAGE != 2
    // Nearly always the case in long rows: the mean of their sample is less than a deviation away, so the difference of
    // the squares loses a bit at most. Never with infinities.
    if (n >= 64u && 2.0 * sums.x * sums.x < sums.y) {
      break;
    }
#endif
  }
  shift += sums.x;
  let variance = max (sums.y - sums.x * sums.x, 0.0);
#else
  let sum = row_sum (lane, lane_sum (first, step, n));
#endif

#if STAGE == 1
  if (slot < rows && lane % $(LANES)u == 0u) {
#if KIND == 0
    store_parts (row * 3u, middle);
    store_parts (row * 3u + 1u, shift);
    store_parts (row * 3u + 2u, variance);
#else
    store_parts (row, sum);
#endif
  }
#else

#if KIND == 0
  scale = get_scale (variance);
#else
  scale = get_scale (sum);
#endif
#if STAGE == 2
  if (slot < rows && lane % $(LANES)u == 0u) {
#if KIND == 0
    store_moments (row * 3u, middle);
    store_moments (row * 3u + 1u, shift);
    store_moments (row * 3u + 2u, scale);
#else
    store_moments (row, scale);
#endif
  }
#else
  start_factors ();
  // No loop in a branch: a driver has been seen to lose 16-bit stores there.
  put_columns (first, select (0u, n, slot < rows), step);
#endif
#endif
#endif
}
#endif
