// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The gradient of norms along rows. STAGE 0 computes the gradient of rows, with LANES invocations to each, and stores
// their statistics; STAGE 1 goes down the columns and sums up the gradients of the scale and the bias, with an
// invocation for a column of p.span rows; STAGE 2 adds up several such parts.
//
// As in norm.wgsl, a mean is kept as two numbers, an element (middle) and the distance of the mean from it (shift): an
// offset common to all elements cancels out.

#if STAGE == 0

alias sum_t = vec2<f32>;

var<private> start: u32;
var<private> middle: f32;
var<private> about_slopes: bool;

// The gradient with respect to the normalised row.
fn slope (k: u32) -> f32 {
#if SCALE
  return load_g (start + k) * load_scale (k);
#else
  return load_g (start + k);
#endif
}

fn term (k: u32) -> sum_t {
  let d = load_x (start + k) - middle;
  var factor = d;
  if (about_slopes) {
    factor = slope (k);
  }
  return sum_t (factor, factor * d);
}

#define UNROLL 4
#include "common/sum.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slot = lane / $(LANES)u;
  let rows = p.rows - group * $(WG / LANES)u;
  let row = group * $(WG / LANES)u + min (slot, rows - 1u);
  let n = f32 (p.columns);
  start = row * p.columns;
#if CENTRED
  middle = load_x (start);
#endif

  // The last pass sums the slopes. The number of passes is a parameter so that there is one copy of the loop body; not
  // more than two sums at a time fit the registers.
  var moments = sum_t ();
  var slopes = sum_t ();
  for (var turn = 0u; turn < p.passes; turn++) {
    about_slopes = turn + 1u == p.passes;
    if (!about_slopes) {
      middle += moments.x;
    }
    let means = sum_columns (lane, p.columns) / n;
    moments = select (means, moments, about_slopes);
    slopes = means;
  }
#if CENTRED
  let shift = moments.x;
  let rate = 1.0 / sqrt (max (moments.y - shift * shift, 0.0) + p.epsilon);
  let level = slopes.x;
#else
  let shift = 0.0;
  let rate = 1.0 / sqrt (moments.y + p.epsilon);
  let level = 0.0;
#endif
  let tilt = rate * (slopes.y - shift * slopes.x);

  let end = select (0u, p.columns, slot < rows);
  for (var k = lane % $(LANES)u; k < end; k += $(LANES)u) {
    let unit = ((load_x (start + k) - middle) - shift) * rate;
    var d = rate * ((slope (k) - level) - unit * tilt);
#if ADDEND
    d += load_addend (start + k);
#endif
    store_dx (start + k, d);
  }
#if FACTORS
  if (slot < rows && lane % $(LANES)u == 0u) {
    store_rows (row * 3u, middle);
    store_rows (row * 3u + 1u, shift);
    store_rows (row * 3u + 2u, rate);
  }
#endif
}

#else

#define LANES 1
alias sum_t = vec2<f32>;

var<private> first_row: u32;
var<private> column: u32;

fn term (k: u32) -> sum_t {
#if STAGE == 1
  let row = first_row + k;
  let at = row * p.columns + column;
  let g = load_g (at);
  let unit = ((load_x (at) - load_rows (row * 3u)) - load_rows (row * 3u + 1u)) * load_rows (row * 3u + 2u);
  return sum_t (g * unit, g);
#else
  let at = k * 2u * p.columns + column;
  return sum_t (load_parts (at), load_parts (at + p.columns));
#endif
}

#define UNROLL 4
#include "common/sum.wgsl"

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i >= p.columns * p.parts) {
    return;
  }

  column = i % p.columns;
#if STAGE == 1
  let part = i / p.columns;
  first_row = part * p.span;
  let sum = lane_sum (0u, 1u, min (p.span, p.rows - first_row));
#else
  let sum = lane_sum (0u, 1u, p.n_parts);
#endif
#if PARTS
  store_parts (part * 2u * p.columns + column, sum.x);
  store_parts ((part * 2u + 1u) * p.columns + column, sum.y);
#else
  store_dscale (column, sum.x);
  store_dbias (column, sum.y);
#endif
}

#endif
