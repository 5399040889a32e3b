// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Samples planes (DIMS 2) or volumes (3). Dimension 0 is x, the innermost. MODE is an RlxInterpolation, PADDING an
// RlxGridPadding.

#if MODE == 2
#include "common/cubic.wgsl"
#define TAPS 4
#elif MODE == 1
#define TAPS 2
#else
#define TAPS 1
#endif
#use op_is_nan

#if PADDING == 2
fn reflect_at (x: f32, low: f32, high: f32) -> f32 {
  let range = high - low;
  if (range <= 0.0) {
    return low;
  }
  let distance = select (x - high, low - x, x < low);
  if (distance <= 0.0) {
    return x;
  }
  let n_reflections = floor (distance / range);
  let rest = distance - n_reflections * range;
  let from_low = (x < low) == (n_reflections % 2.0 == 0.0);
  return select (high - rest, low + rest, from_low);
}
#endif

// Converts from -1 … 1 to an index, moved into the image where PADDING demands that.
fn unscale (g: f32, size: u32) -> f32 {
#if ALIGN
  let low = 0.0;
  let high = f32 (size) - 1.0;
  var x = (g + 1.0) * 0.5 * high;
#else
  let low = -0.5;
  let high = f32 (size) - 0.5;
  var x = ((g + 1.0) * f32 (size) - 1.0) * 0.5;
#endif
  // Infinite coordinates in an image of one element also end up here.
  if (op_is_nan (g) || op_is_nan (x)) {
    x = -1.0e9;
  }
  x = clamp (x, -1.0e9, 1.0e9);
#if MODE == 0
  x = round (x);
#endif
#if PADDING == 1 && MODE != 2
  x = clamp (x, 0.0, f32 (size) - 1.0);
#elif PADDING == 2
  x = reflect_at (x, low, high);
#if MODE == 0
  x = clamp (round (x), 0.0, f32 (size) - 1.0);
#endif
#endif
  return x;
}

struct Tap {
  at: u32,
  weight: f32,
}

fn get_tap (at: i32, weight: f32, size: u32) -> Tap {
#if PADDING == 0
  let inside = at >= 0 && at < i32 (size);
  return Tap (u32 (clamp (at, 0, i32 (size) - 1)), select (0.0, weight, inside));
#elif PADDING == 1
  return Tap (u32 (clamp (at, 0, i32 (size) - 1)), weight);
#else
#if ALIGN
  let mirrored = reflect_at (f32 (at), 0.0, f32 (size) - 1.0);
#else
  let mirrored = reflect_at (f32 (at), -0.5, f32 (size) - 0.5);
#endif
  return Tap (u32 (clamp (i32 (mirrored), 0, i32 (size) - 1)), weight);
#endif
}

fn get_taps (x: f32, size: u32) -> array<Tap, $(TAPS)> {
  let at = i32 (floor (x));
  var taps: array<Tap, $(TAPS)>;
#if MODE == 0
  taps[0] = get_tap (at, 1.0, size);
#elif MODE == 1
  let part = x - floor (x);
  taps[0] = get_tap (at, 1.0 - part, size);
  taps[1] = get_tap (at + 1, part, size);
#else
  let weights = cubic_weights (x - floor (x), -0.75);
#for t in 0..4
  taps[$(t)] = get_tap (at + $(t - 1), weights[$(t)], size);
#endfor
#endif
  return taps;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) >= p.groups || i >= p.n) {
    return;
  }

  let plane = i / p.places;
  let place = (plane / p.channels * p.places + i % p.places) * $(DIMS)u;
#for d in 0..DIMS
  var taps$(d) = get_taps (unscale (load_grid (place + $(d)u), p.size$(d)), p.size$(d));
#endfor

  var sum = 0.0;
#if DIMS == 3
  for (var c = 0u; c < $(TAPS)u; c++) {
    let slice = (plane * p.size2 + taps2[c].at) * p.size1;
    let weight2 = taps2[c].weight;
#else
  {
    let slice = plane * p.size1;
    let weight2 = 1.0;
#endif
    for (var b = 0u; b < $(TAPS)u; b++) {
      let row = (slice + taps1[b].at) * p.size0;
      for (var a = 0u; a < $(TAPS)u; a++) {
        let weight = weight2 * taps1[b].weight * taps0[a].weight;
#if MODE == 0
        // Selected rather than multiplied, since arithmetic may flush subnormal numbers to zero.
        sum = select (0.0, load_x (row + taps0[a].at), weight != 0.0);
#else
        if (weight != 0.0) {
          sum += weight * load_x (row + taps0[a].at);
        }
#endif
      }
    }
  }
  store_y (i, sum);
}
