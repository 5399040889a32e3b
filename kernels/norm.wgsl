// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Layer normalisation, or with RMS that by the root of the mean square, along
// rows.
//
// The mean is found twice: the second time as a correction to the first, from
// the differences that the variance is made of. Those are exact or nearly so
// where the mean is large, so neither result suffers from a common offset.

#include "common/rows.wgsl"

#if RMS
alias sum_t = f32;
#else
alias sum_t = vec2<f32>;
#endif

var<private> start: u32;
var<private> middle: f32;

fn term (k: u32) -> sum_t {
  let x = load_x (start + column (k));
#if RMS
  return x * x;
#else
  let d = x - middle;
  return vec2<f32> (d, d * d);
#endif
}

#define UNROLL 8
#include "common/sum.wgsl"

#if SCALE || BIAS
// Where the element of scale and bias for a column is: these have the axes in
// an order of their own.
fn factor (k: u32) -> u32 {
#if REDUCED == 0
  return 0u;
#elif REDUCED == 1
  return k;
#else
  var at = 0u;
  var rest = k;
#for j in 0..REDUCED - 1
  at += (rest % p.column_dim$(j)) * p.factor_stride$(j);
  rest /= p.column_dim$(j);
#endfor
  return at + rest * p.factor_stride$(REDUCED - 1);
#endif
}
#endif

fn put (k: u32, shift: f32, scale: f32) {
  let at = start + column (k);
#if RMS
  var y = load_x (at) * scale;
#else
  var y = ((load_x (at) - middle) - shift) * scale;
#endif
#if SCALE
  y *= load_scale (factor (k));
#endif
#if BIAS
  y += load_bias (factor (k));
#endif
  store_y (at, y);
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
  let n = f32 (p.columns);
  start = row_start (group * $(WG / LANES)u + min (slot, rows - 1u));

#if RMS
  let mean_square = sum_columns (lane, p.columns) / n;
  let shift = 0.0;
  let scale = 1.0 / sqrt (mean_square + p.epsilon);
#else
  // Relative to an element of the row: what all have in common stays out. The
  // number of passes is a parameter so that the loop body is there once.
  middle = load_x (start);
  var sums = vec2<f32> ();
  for (var turn = 0u; turn < p.passes; turn++) {
    middle += sums.x;
    sums = sum_columns (lane, p.columns) / n;
  }
  let shift = sums.x;
  let variance = max (sums.y - shift * shift, 0.0);
  let scale = 1.0 / sqrt (variance + p.epsilon);
#endif

  if (slot < rows) {
    let whole = p.columns / $(LANES * 4)u * $(LANES * 4)u;
    for (var k = lane % $(LANES)u; k < whole; k += $(LANES * 4)u) {
#for u in 0..4
      put (k + $(u * LANES)u, shift, scale);
#endfor
    }
    for (var k = whole + lane % $(LANES)u; k < p.columns; k += $(LANES)u) {
      put (k, shift, scale);
    }
  }
}
