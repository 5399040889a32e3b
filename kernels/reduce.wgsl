// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Reduces the columns of each row to one element: the sum (SUM), product (PROD), maximum (MAX) or minimum (MIN), or the
// logarithm of the sum of exponentials (LOG_SUM_EXP), which can be combined from partial ones. The first step sums
// absolute values (ABS) or squares (SQUARE); the last one divides (DIVIDE) or takes the ROOT or the LOG. BOOLEAN
// tensors are raw: 0 and 1.
//
// Long rows are split into p.parts parts, each of them every p.parts-th column, which leaves a shorter row of partial
// results for another step. With SPLIT 1 the parts of a row are adjacent, with SPLIT 2 the rows of a part. EMPTY fills
// the result for rows without columns. The last step has the EPILOGUE, which takes floats.

#if EPILOGUE
alias fold_t = f32;
#use ${EPILOGUE_USES}
#else
alias fold_t = type_y;
#endif
${EPILOGUE_TEXT}

fn first_value () -> fold_t {
  return bitcast<fold_t> (p.identity);
}

#if EMPTY

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group < p.groups && lane < p.rows - group * $(WG)u) {
#if EPILOGUE
    store_y (group * $(WG)u + lane, epilogue (group * $(WG)u + lane, first_value ()));
#else
    store_y (group * $(WG)u + lane, first_value ());
#endif
  }
}

#else

#include "common/fold.wgsl"
#include "common/rows.wgsl"

#if LOG_SUM_EXP
#use op_exp op_is_inf op_log
#endif
#if ROOT
#use op_sqrt
#elif LOG
#use op_log
#endif

var<private> start: u32;
#if LOG_SUM_EXP
var<private> largest: f32;
#endif

fn term (k: u32) -> fold_t {
  let x = load_x (start + column (k));
#if ABS
  return abs (x);
#elif SQUARE
  return x * x;
#elif LOG_SUM_EXP
  return op_exp (x - largest);
#elif BOOLEAN
  return min (x, 1u);
#else
  return x;
#endif
}

#if SUM && FLOAT

alias sum_t = fold_t;
#if LOG_SUM_EXP
#define UNROLL 2
#else
#define UNROLL 16
#endif
#include "common/sum.wgsl"

fn lane_fold (first: u32, step: u32, n: u32) -> fold_t {
  return lane_sum (first, step, n);
}

#else

// Over the terms first, first + step, … below n; first < step.
fn lane_fold (first: u32, step: u32, n: u32) -> fold_t {
  var a = first_value ();
  var b = a;
  let whole = n / step / 2u * 2u;
  for (var i = 0u; i < whole; i += 2u) {
    a = join (a, term (first + i * step));
    b = join (b, term (first + (i + 1u) * step));
  }

  let end = n - whole * step;
  for (var k = first; k < end; k += step) {
    a = join (a, term (whole * step + k));
  }
  return join (a, b);
}

#endif

#if LANES > 1
var<workgroup> shared_fold: array<fold_t, $(WG)>;
#endif

#if LOG_SUM_EXP

// Over the terms first, first + step, … below n, and those of the other lanes. max() may lose a NaN; the sum keeps it.
fn find_largest (lane: u32, first: u32, step: u32, n: u32) -> f32 {
  var mine = load_x (start + column (min (first, n - 1u)));
  for (var k = first; k < n; k += step) {
    mine = max (mine, load_x (start + column (k)));
  }
#if LANES > 1
  let t = lane % $(LANES)u;
  shared_fold[lane] = mine;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (t < width) {
      shared_fold[lane] = max (shared_fold[lane], shared_fold[lane + width]);
    }
  }
  workgroupBarrier ();
  mine = shared_fold[lane - t];
  workgroupBarrier ();
#endif
  // With an infinite maximum the sum is right without a shift.
  return select (mine, 0.0, op_is_inf (mine, 1, 1));
}

#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slot = lane / $(LANES)u;
  let t = lane % $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  let row = group * $(WG / LANES)u + min (slot, rows - 1u);
#if SPLIT == 0
  let part = 0u;
  start = row_start (row);
#elif SPLIT == 1
  let part = row % p.parts;
  start = row_start (row / p.parts);
#else
  let part = row / p.kept_rows;
  start = row_start (row % p.kept_rows);
#endif

  let first = part * $(LANES)u + t;
#if SPLIT == 0
  let step = $(LANES)u;
#else
  let step = p.parts * $(LANES)u;
#endif
#if LOG_SUM_EXP
  largest = find_largest (lane, first, step, p.columns);
#endif
  var value = lane_fold (first, step, p.columns);

#if LANES > 1
  shared_fold[lane] = value;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (t < width) {
      shared_fold[lane] = join (shared_fold[lane], shared_fold[lane + width]);
    }
  }
  value = shared_fold[lane];
#endif
#if DIVIDE
  value /= p.divisor;
#elif ROOT
  value = op_sqrt (value);
#elif LOG
  value = op_log (value);
#elif LOG_SUM_EXP
  value = largest + op_log (value);
#endif
  if (t == 0u && slot < rows) {
#if EPILOGUE
    store_y (row, epilogue (row, value));
#else
    store_y (row, value);
#endif
  }
}

#endif
