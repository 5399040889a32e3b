// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What a checked run reports about a tensor of n elements. STAGE 0 looks at all of them in one invocation. For large
// tensors LANES invocations leave four words each (STAGE 1), and one combines these into the report (STAGE 2).
//
// KIND 0: the first element outside a range; BOUNDS elements have ranges of their own, in turn
// KIND 1: the first result that has an excess
// KIND 2: how many elements are NaN and infinite, the largest magnitude and the sum of
//         the others
//
// Reports of the first two kinds have the index of the element plus 1, or 0 if there is none, and its bits; those of a
// result also have its excess.

#if STAGE != 2

#if KIND == 0

#if FLOAT
#use op_is_nan
#endif

fn is_wrong (i: u32) -> bool {
  let x = load_x (i);
#if FLOAT
  return op_is_nan (x) || x < p.lowest0 || x >= p.highest0;
#elif BOUNDS == 1
  return x < p.lowest0 || x > p.highest0;
#else
  let which = i % $(BOUNDS)u;
  var wrong = false;
#for k in 0..BOUNDS
  wrong = wrong || (which == $(k)u && (x < p.lowest$(k) || x > p.highest$(k)));
#endfor
  return wrong;
#endif
}

#elif KIND == 1

fn is_wrong (i: u32) -> bool {
  return load_excess (i) != 0;
}

#endif

// Examines every step-th element, for one invocation.
fn look (start: u32, step: u32) -> vec4<u32> {
  let count = (p.n - 1u - start) / step + 1u;
#if KIND == 2
  var n_nan = 0u;
  var n_infinite = 0u;
  var largest = 0.0;
  var sum = 0.0;
  for (var k = 0u; k < count; k++) {
    let x = f32 (load_x (start + k * step));
#if FLOAT
    let bits = bitcast<u32> (x) & 0x7fffffffu;
    n_nan += select (0u, 1u, bits > 0x7f800000u);
    n_infinite += select (0u, 1u, bits == 0x7f800000u);
    let finite = select (0.0, x, bits < 0x7f800000u);
#else
    let finite = x;
#endif
    largest = max (largest, abs (finite));
    sum += finite;
  }
  return vec4<u32> (n_nan, n_infinite, bitcast<u32> (largest), bitcast<u32> (sum));
#else
  var found = vec4<u32> (0u);
  for (var k = 0u; k < count; k++) {
    let i = start + k * step;
    if (is_wrong (i)) {
#if KIND == 0
      found = vec4<u32> (i + 1u, bitcast<u32> (load_x (i)), 0u, 0u);
#else
      found = vec4<u32> (i + 1u, bitcast<u32> (load_x (i)), bitcast<u32> (load_excess (i)), 0u);
#endif
      break;
    }
  }
  return found;
#endif
}

#else

fn join (a: vec4<u32>, b: vec4<u32>) -> vec4<u32> {
#if KIND == 2
  return vec4<u32> (a.x + b.x, a.y + b.y, bitcast<u32> (max (bitcast<f32> (a.z), bitcast<f32> (b.z))),
                    bitcast<u32> (bitcast<f32> (a.w) + bitcast<f32> (b.w)));
#else
  // 0 sorts last.
  return select (a, b, b.x - 1u < a.x - 1u);
#endif
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
#if STAGE == 1
  let index = workgroup_index (wid) * $(WG)u + lane;
  if (index >= p.lanes) {
    return;
  }
  let found = look (index, p.lanes);
  store_y (index * 4u, found.x);
  store_y (index * 4u + 1u, found.y);
  store_y (index * 4u + 2u, found.z);
  store_y (index * 4u + 3u, found.w);
#else
  if (lane > 0u) {
    return;
  }
#if STAGE == 0
  let found = look (0u, 1u);
#else
  var found = vec4<u32> (load_lanes (0u), load_lanes (1u), load_lanes (2u), load_lanes (3u));
  for (var i = 1u; i < p.lanes; i++) {
    found = join (found, vec4<u32> (load_lanes (i * 4u), load_lanes (i * 4u + 1u), load_lanes (i * 4u + 2u), load_lanes (i * 4u + 3u)));
  }
#endif
  store_y (0u, found.x);
  store_y (1u, found.y);
  store_y (2u, found.z);
  store_y (3u, found.w);
#endif
}
