// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Reduces each window of an image to one element: its maximum (MAX), the index of that (INDICES), or its sum (SUM), of
// squares (SQUARE), divided by the number of elements (DIVIDE 1), including padding (DIVIDE 2), or by p.divisor
// (DIVIDE 3); ROOT takes the root at the end.
//
// An invocation computes one element, or LANES of them share the window. Only elements of the operand are visited:
// p.inD elements along axis D, counted from the innermost one, starting at p.beginD of p.paddedD. A window of few
// elements is unrolled (TAPS): they are all loaded first.

alias fold_t = type_x;

#use op_quotient
#if INDICES && FLOAT
#use op_lt op_eq op_is_nan
#elif MAX && FLOAT
#use op_max
#endif
#if ROOT
#use op_sqrt
#endif

fn first_value () -> fold_t {
  return bitcast<fold_t> (p.identity);
}

#if INDICES

struct Best {
  value: fold_t,
  at: u32,
}

// The position of a missing element.
const NOWHERE = 0xffffffffu;

fn join (a: Best, b: Best) -> Best {
#if FLOAT
  let a_nan = op_is_nan (a.value);
  let b_nan = op_is_nan (b.value);
  let better = (b_nan && !a_nan) || op_lt (a.value, b.value);
  let equal = (a_nan && b_nan) || op_eq (a.value, b.value);
#else
  let better = b.value > a.value;
  let equal = a.value == b.value;
#endif
  let take = b.at != NOWHERE && (a.at == NOWHERE || better || (equal && b.at < a.at));
  return Best (select (a.value, b.value, take), select (a.at, b.at, take));
}

alias state_t = Best;

fn first_state () -> state_t {
  return Best (first_value (), NOWHERE);
}

fn take (state: state_t, value: fold_t, at: u32, there: bool) -> state_t {
  return join (state, Best (value, select (NOWHERE, at, there)));
}

#else

alias state_t = fold_t;

fn first_state () -> state_t {
  return first_value ();
}

fn join (a: state_t, b: state_t) -> state_t {
#if SUM
  return a + b;
#elif FLOAT
  return op_max (a, b);
#else
  return max (a, b);
#endif
}

fn take (state: state_t, value: fold_t, at: u32, there: bool) -> state_t {
  let x = select (first_value (), value, there);
#if SQUARE
  return fma (x, x, state);
#else
  return join (state, x);
#endif
}

#endif

fn visit (state: state_t, at: u32) -> state_t {
  return take (state, load_x (at), at, true);
}

#if LANES > 1 || TAPS == 0 || DIVIDE == 1 || DIVIDE == 2

// The number of steps of a window from `begin` that are below `end`.
fn steps (begin: u32, end: u32, step: u32) -> u32 {
  return (max (begin, end) - begin + (step - 1u)) / step;
}
#endif

#if LANES > 1
var<workgroup> shared_state: array<state_t, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#include "common/window.wgsl"
  var count = 1u;
#for d in 0..RANK
  let q$(d) = op_quotient (rest, p.outm$(d), p.outl$(d));
  let at$(d) = (rest - q$(d) * p.out$(d)) * p.stride$(d);
  rest = q$(d);
#if LANES > 1 || TAPS == 0 || DIVIDE == 1
  let first$(d) = min (p.k$(d), steps (at$(d), p.begin$(d), p.dilation$(d)));
  let last$(d) = min (p.k$(d), steps (at$(d), p.begin$(d) + p.in$(d), p.dilation$(d)));
#endif
#if DIVIDE == 1
  count *= last$(d) - first$(d);
#elif DIVIDE == 2
  count *= min (p.k$(d), steps (at$(d), p.padded$(d), p.dilation$(d)));
#endif
#endfor
#if LAST
  let x$(RANK) = rest * p.x_batch + channel;
#else
  let x$(RANK) = rest * p.x_channel;
#endif

  var state = first_state ();
#if LANES > 1
  var size = 1u;
#for d in 0..RANK
  size *= last$(d) - first$(d);
#endfor
  for (var i = lane; i < size; i += $(LANES)u) {
    var left = i;
    var x = x$(RANK);
#for d in 0..RANK
    let width$(d) = last$(d) - first$(d);
    x += (at$(d) + (first$(d) + left % width$(d)) * p.dilation$(d) - p.begin$(d)) * p.x_axis$(d);
    left /= width$(d);
#endfor
    state = visit (state, x);
  }

  shared_state[lane] = state;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane < width) {
      shared_state[lane] = join (shared_state[lane], shared_state[lane + width]);
    }
  }
  state = shared_state[0];
#elif TAPS > 0
#include "common/taps.wgsl"
#for t in 0..TAPS
  state = take (state, v_$(t), x_$(t), there_$(t));
#endfor
#else
#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
  for (var k$(D) = first$(D); k$(D) < last$(D); k$(D)++) {
    let x$(D) = x$(OUTER) + (at$(D) + k$(D) * p.dilation$(D) - p.begin$(D)) * p.x_axis$(D);
#endfor
    state = visit (state, x0);
#for d in 0..RANK
  }
#endfor
#endif

  if (inside) {
#if INDICES
    store_y (index, i32 (select (state.at, 0u, state.at == NOWHERE)));
#else
    var value = state;
#if DIVIDE == 3
    value /= p.divisor;
#elif DIVIDE > 0
    value /= f32 (max (count, 1u));
#endif
#if ROOT
    value = op_sqrt (value);
#endif
    store_y (index, value);
#endif
  }
}
