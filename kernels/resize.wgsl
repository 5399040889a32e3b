// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Resizes one axis: y[outer, r, inner] from x[outer, …, inner]. MODE is an RlxInterpolation, COORDINATES an
// RlxResizeCoordinates, ROUNDING an RlxResizeRounding. If EXACT, element r is at (a r + b) / d in integers; otherwise
// coordinates are floats.
//
// With ANTIALIAS the weights are stretched to the distance between neighbours in the result; LANES invocations share
// the elements of each result.

#if MODE == 2 && !ANTIALIAS
#include "common/cubic.wgsl"
#endif

struct Place {
  at: i32,       // the element before the position
  twice: i32,    // relative to the midpoint to the next element: -1 before, 0 at, 1 past it
  part: f32,     // the distance from the element
  outside: bool,
}

#if !EXACT
// A quotient that is an integer must not be rounded down below it.
fn divide (a: f32, b: f32) -> f32 {
  let q = a / b;
  let near = round (q);
  return select (q, near, near * b == a);
}
#endif

#if !EXACT || ANTIALIAS
fn axis_scale () -> f32 {
#if SCALES
  return load_scales ($(AXIS)u);
#else
  return f32 (p.new_size) / f32 (p.size);
#endif
}
#endif

fn locate (r: u32) -> Place {
#if EXACT
  let n = i32 (r) * p.a + p.b;
  var at = n / p.d;
  var rest = n - at * p.d;
  if (rest < 0) {
    at--;
    rest += p.d;
  }
  return Place (at, sign (rest - (p.d - rest)), f32 (rest) / f32 (p.d), false);
#else
#if COORDINATES == 6
  let start = load_region ($(AXIS)u);
  let end = load_region ($(AXES + AXIS)u);
  let last = f32 (p.size - 1u);
  var x = 0.5 * (start + end) * last;
  if (p.new_size > 1u) {
    x = start * last + divide (f32 (r) * (end - start) * last, f32 (p.new_size - 1u));
  }
  let outside = !(x >= 0.0 && x <= last);
#else
  let scale = axis_scale ();
#if COORDINATES == 4
  var x = divide (f32 (r), scale);
#elif COORDINATES == 3
  var x = divide (f32 (r) * f32 (p.size - 1u), max (f32 (p.new_size) - 1.0, 1.0));
#elif COORDINATES == 5
  var x = 0.5 * divide (2.0 * f32 (r) + 1.0, scale);
#elif COORDINATES == 1
  // Relative to the centres of both.
  var x = 0.5 * (f32 (p.size) - 1.0 + divide (2.0 * f32 (r) + 1.0 - f32 (p.new_size), scale));
#else
  var x = 0.5 * divide (2.0 * f32 (r) + 1.0, scale) - 0.5;
#if COORDINATES == 2
  if (p.new_size == 1u) {
    x = 0.0;
  }
#endif
#endif
  let outside = false;
#endif
  x = clamp (x, -1.0e9, 1.0e9);
  let part = x - floor (x);
  return Place (i32 (floor (x)), select (select (1, -1, part < 0.5), 0, part == 0.5), part, outside);
#endif
}

fn limit (at: i32) -> u32 {
  return min (u32 (max (at, 0)), p.size - 1u);
}

#if ANTIALIAS

fn weigh (distance: f32) -> f32 {
  let d = abs (distance);
#if MODE == 1
  return max (1.0 - d, 0.0);
#else
  let a = p.cubic_a;
  let near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  let far = ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
  return select (select (0.0, far, d < 2.0), near, d <= 1.0);
#endif
}

#if LANES > 1
var<workgroup> sums: array<vec2<f32>, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let i = group * $(WG / LANES)u + lane / $(LANES)u;
  let element = min (i, p.n - 1u);
  let place = locate (element / p.inner % p.new_size);
  let first = element / p.inner / p.new_size * p.size * p.inner + element % p.inner;
  let scale = min (axis_scale (), 1.0);
  // Scales that contradict the sizes must not make this loop endless.
  let reach = clamp (i32 (ceil ($(MODE).0 / scale)), 0, i32 (min (p.size, 0x1000000u)) * 32 + 32);

  // The weighted sum, and the sum of the weights.
  var sum = vec2<f32> ();
  for (var k = place.at - reach + i32 (lane % $(LANES)u); k <= place.at + 1 + reach; k += $(LANES)) {
    var w = weigh ((f32 (k - place.at) - place.part) * scale);
#if OUTSIDE
    if (k < 0 || k >= i32 (p.size)) {
      w = 0.0;
    }
#endif
    if (w != 0.0) {
      sum += w * vec2<f32> (load_x (first + limit (k) * p.inner), 1.0);
    }
  }

#if LANES > 1
  sums[lane] = sum;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane % $(LANES)u < width) {
      sums[lane] += sums[lane + width];
    }
  }
  sum = sums[lane];
#endif
  if (i < p.n && lane % $(LANES)u == 0u) {
    store_y (i, select (sum.x / sum.y, p.extrapolation, place.outside));
  }
}

#else

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (workgroup_index (wid) >= p.groups || i >= p.n) {
    return;
  }

  let inner = i % p.inner;
  let place = locate (i / p.inner % p.new_size);
  let first = i / p.inner / p.new_size * p.size * p.inner + inner;
#if COORDINATES == 6
  if (place.outside) {
    store_y (i, type_y (p.extrapolation));
    return;
  }
#endif

#if MODE == 0
#if ROUNDING == 0
  let near = place.at + select (0, 1, place.twice > 0);
#elif ROUNDING == 1
  let near = place.at + select (0, 1, place.twice >= 0);
#elif ROUNDING == 2
  let near = place.at;
#else
  let near = place.at + select (0, 1, place.part > 0.0);
#endif
  store_y (i, load_x (first + limit (near) * p.inner));
#else
#if MODE == 1
#define TAPS 2
  var weights = array (1.0 - place.part, place.part);
  let before = place.at;
#else
#define TAPS 4
  let cubic = cubic_weights (place.part, p.cubic_a);
  var weights = array (cubic.x, cubic.y, cubic.z, cubic.w);
  let before = place.at - 1;
#endif
#if OUTSIDE
  var total = 0.0;
#for t in 0..TAPS
  if (before + $(t) < 0 || before + $(t) >= i32 (p.size)) {
    weights[$(t)] = 0.0;
  }
  total += weights[$(t)];
#endfor
#endif
  var sum = 0.0;
#for t in 0..TAPS
  if (weights[$(t)] != 0.0) {
    sum += weights[$(t)] * load_x (first + limit (before + $(t)) * p.inner);
  }
#endfor
#if OUTSIDE
  sum /= total;
#endif
  store_y (i, sum);
#endif
}

#endif
