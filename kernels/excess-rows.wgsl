// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The excess (ops/report.toml) of sums and products over rows of n integers.
//
// MODE 0: sum, 1: product, 2: sum of magnitudes, 3: sum of squares
//
// Sums are exact, in three words. A product is kept as its magnitude, in two words, whether it overflows these, and
// whether it is negative.
//
// STAGE 0: one invocation for each row. STAGE 1: p.lanes of them, which store partial results; STAGE 2: an invocation
// for each row combines these. With SCAN an invocation goes along its row and stores the excess at each position.

#if MODE == 1 || MODE == 3
#use math_mul_high

fn multiply (a: u32, b: u32) -> vec2<u32> {
  return vec2<u32> (a * b, math_mul_high (a, b));
}
#endif

#if STAGE != 2 && MODE > 0
fn magnitude (x: type_x) -> u32 {
#if SIGNED
  return select (bitcast<u32> (x), 0u - bitcast<u32> (x), x < 0);
#else
  return x;
#endif
}
#endif

#if MODE == 1

fn nothing () -> vec4<u32> {
  return vec4<u32> (1u, 0u, 0u, 0u);
}

// Overflow beyond two words is permanent, unless the product becomes 0.
fn scale (a: vec4<u32>, factor: u32) -> vec4<u32> {
  let low = multiply (a.x, factor);
  let high = multiply (a.y, factor);
  let middle = low.y + high.x;
  let over = high.y | select (0u, 1u, middle < low.y) | a.z;
  return vec4<u32> (low.x, middle, select (min (over, 1u), 0u, factor == 0u), a.w);
}

#if STAGE != 2
fn include (a: vec4<u32>, x: type_x) -> vec4<u32> {
  var y = scale (a, magnitude (x));
#if SIGNED
  y.w ^= select (0u, 1u, x < 0);
#endif
  return y;
}
#else
fn join (a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
  if ((a.x | a.y | a.z) == 0u || (b.x | b.y | b.z) == 0u) {
    return vec4<u32> (0u);
  }
  var y = scale (select (a, b, b.y != 0u), select (b.x, a.x, b.y != 0u));
  y.z = select (y.z, 1u, (a.y != 0u && b.y != 0u) || (a.z | b.z) != 0u);
  y.w = a.w ^ b.w;
  return y;
}
#endif

#else

fn nothing () -> vec4<u32> {
  return vec4<u32> (0u);
}

fn join (a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
  let low = a.x + b.x;
  let carry = select (0u, 1u, low < a.x);
  let middle = a.y + b.y;
  let both = middle + carry;
  let next = select (0u, 1u, middle < a.y) + select (0u, 1u, both < middle);
  return vec4<u32> (low, both, a.z + b.z + next, 0u);
}

#if STAGE != 2
fn include (a: vec4<u32>, x: type_x) -> vec4<u32> {
#if MODE == 3
  let square = multiply (magnitude (x), magnitude (x));
  return join (a, vec4<u32> (square.x, square.y, 0u, 0u));
#elif MODE == 2
  return join (a, vec4<u32> (magnitude (x), 0u, 0u, 0u));
#elif SIGNED
  let sign = bitcast<u32> (x >> 31u);
  return join (a, vec4<u32> (bitcast<u32> (x), sign, sign, 0u));
#else
  return join (a, vec4<u32> (x, 0u, 0u, 0u));
#endif
}
#endif

#endif

#if STAGE != 1
fn get_excess (all: vec4<u32>) -> i32 {
#if MODE == 1
  if (all.z != 0u) {
    return select (0x7fffffff, -0x7fffffff, all.w != 0u);
  }
  let negative = all.w != 0u && (all.x | all.y) != 0u;
  let low = select (all.x, 0u - all.x, negative);
  var high = select (all.y, ~all.y + select (0u, 1u, all.x == 0u), negative);
  var top = select (0u, 0xffffffffu, negative);
#else
  let low = all.x;
  var high = all.y;
  var top = all.z;
#endif
#if SIGNED
  // The low word is negative if its top bit is set.
  high += low >> 31u;
  top += select (0u, 1u, high == 0u && (low >> 31u) != 0u);
#endif
  let fits = bitcast<i32> (top) == bitcast<i32> (high) >> 31u;
  return select (select (0x7fffffff, -0x7fffffff, bitcast<i32> (top) < 0), bitcast<i32> (high), fits);
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let index = workgroup_index (wid) * $(WG)u + lane;
#if STAGE == 1
  if (index >= p.rows * p.lanes) {
    return;
  }
  let first = index / p.lanes * p.n;
  let start = index % p.lanes;
  var all = nothing ();
  for (var k = 0u; k <= (p.n - 1u - start) / p.lanes; k++) {
    all = include (all, load_x (first + start + k * p.lanes));
  }
  store_y (index * 4u, all.x);
  store_y (index * 4u + 1u, all.y);
  store_y (index * 4u + 2u, all.z);
  store_y (index * 4u + 3u, all.w);
#else
  if (index >= p.rows) {
    return;
  }
#if STAGE == 2
  var all = nothing ();
  for (var k = 0u; k < p.lanes; k++) {
    let i = (index * p.lanes + k) * 4u;
    all = join (all, vec4<u32> (load_lanes (i), load_lanes (i + 1u), load_lanes (i + 2u), load_lanes (i + 3u)));
  }
  store_y (index, get_excess (all));
#elif SCAN
  var all = nothing ();
  for (var k = 0u; k < p.n; k++) {
#if REVERSE
    let i = index * p.n + p.n - 1u - k;
#else
    let i = index * p.n + k;
#endif
#if EXCLUSIVE
    store_y (i, get_excess (all));
    all = include (all, load_x (i));
#else
    all = include (all, load_x (i));
    store_y (i, get_excess (all));
#endif
  }
#else
  var all = nothing ();
  for (var k = 0u; k < p.n; k++) {
    all = include (all, load_x (index * p.n + k));
  }
  store_y (index, get_excess (all));
#endif
#endif
}
