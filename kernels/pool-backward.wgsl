// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The gradient of max pooling: that of each window goes to the first of its largest elements.
//
// - WHOLE: windows are adjacent, and an invocation has one of p.cellsD along axis D. These include incomplete ones past
//   the last window, whose elements have no gradient.
// - Otherwise it has an element of the operand, and iterates over all windows that contain it.
//
// Nothing is scattered. Axes are numbered and described as in pool.wgsl.

#use ${EPILOGUE_USES}
#use op_quotient
#if WHOLE
#use op_is_nan math_order
#else
#use op_lt op_eq op_is_nan
#endif
${EPILOGUE_TEXT}

fn put (at: u32, slope: f32) {
#if EPILOGUE
  store_dx (at, epilogue (at, slope));
#else
  store_dx (at, slope);
#endif
}

#if WHOLE

// Zeros of both signs are equal, and NaN is the largest. Missing elements come before all others.
fn get_rank (x: f32, there: bool) -> i32 {
  let order = select (math_order (x), 0, bitcast<u32> (x) << 1u == 0u);
  return select (-0x7fffffff, select (order, 0x7fffffff, op_is_nan (x)), there);
}

#else

// Whether another element of the window gets the gradient instead. NaN is the largest.
fn beats (other: f32, mine: f32, earlier: bool) -> bool {
  if (op_is_nan (mine)) {
    return earlier && op_is_nan (other);
  }
  return op_is_nan (other) || op_lt (mine, other) || (earlier && op_eq (mine, other));
}

// The number of steps of a window from `begin` that are below `end`.
fn steps (begin: u32, end: u32, step: u32) -> u32 {
  return (max (begin, end) - begin + (step - 1u)) / step;
}

#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let index = workgroup_index (wid) * $(WG)u + lane;
  if (index >= p.elements) {
    return;
  }

  var rest = index;
#if LAST
  let channel = rest % p.channels;
  rest /= p.channels;
#endif
#for d in 0..RANK
  let q$(d) = op_quotient (rest, p.cellsm$(d), p.cellsl$(d));
  let c$(d) = rest - q$(d) * p.cells$(d);
  rest = q$(d);
#endfor
#if LAST
  let x$(RANK) = rest * p.x_batch + channel;
  let g$(RANK) = rest * p.g_batch + channel;
#else
  let x$(RANK) = rest * p.x_channel;
  let g$(RANK) = rest * p.g_channel;
#endif

#if WHOLE
  var g = g$(RANK);
  var has_slope = true;
#for d in 0..RANK
  let at$(d) = c$(d) * p.stride$(d);
  g += c$(d) * p.g_axis$(d);
  has_slope = has_slope && c$(d) < p.out$(d);
#endfor
#include "common/taps.wgsl"
  let slope = select (0.0, load_g (select (0u, g, has_slope)), has_slope);

  var first = 0u;
  var largest = get_rank (v_0, there_0);
#for t in 1..TAPS
  let rank_$(t) = get_rank (v_$(t), there_$(t));
  first = select (first, $(t)u, rank_$(t) > largest);
  largest = max (largest, rank_$(t));
#endfor
#for t in 0..TAPS
  if (there_$(t)) {
    put (x_$(t), select (0.0, slope, first == $(t)u));
  }
#endfor
}
#else
  let mine = load_x (index);
#for d in 0..RANK
  // Including the padding.
  let i$(d) = c$(d) + p.begin$(d);
#endfor

  var sum = 0.0;
#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
  let reach$(D) = (p.k$(D) - 1u) * p.dilation$(D);
  let end$(D) = min (p.out$(D), i$(D) / p.stride$(D) + 1u);
  for (var o$(D) = (max (i$(D), reach$(D)) - reach$(D) + p.stride$(D) - 1u) / p.stride$(D); o$(D) < end$(D); o$(D)++) {
    let at$(D) = o$(D) * p.stride$(D);
    if ((i$(D) - at$(D)) % p.dilation$(D) != 0u) {
      continue;
    }
    let g$(D) = g$(OUTER) + o$(D) * p.g_axis$(D);
#endfor
    var beaten = false;
#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
    let last$(D) = min (p.k$(D), steps (at$(D), p.begin$(D) + p.in$(D), p.dilation$(D)));
    for (var k$(D) = steps (at$(D), p.begin$(D), p.dilation$(D)); k$(D) < last$(D); k$(D)++) {
      let x$(D) = x$(OUTER) + (at$(D) + k$(D) * p.dilation$(D) - p.begin$(D)) * p.x_axis$(D);
#endfor
      if (x0 != index) {
        beaten = beaten || beats (load_x (x0), mine, x0 < index);
      }
#for d in 0..RANK
    }
#endfor
    if (!beaten) {
      sum += load_g (g0);
    }
#for d in 0..RANK
  }
#endfor

  put (index, sum);
}
#endif
