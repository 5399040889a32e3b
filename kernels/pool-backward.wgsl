// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The gradient of pools that take the largest element: that of each window goes to the first of its largest elements.
//
// An invocation has an element of the operand, and looks at all windows that it is in, one after the other: nothing is
// scattered. Axes are numbered and described as in pool.wgsl.

#use ${EPILOGUE_USES}
#use op_lt op_eq op_is_nan
${EPILOGUE_TEXT}

// Whether another element of the window has its gradient. NaN is the largest there is.
fn beats (other: f32, mine: f32, earlier: bool) -> bool {
  if (op_is_nan (mine)) {
    return earlier && op_is_nan (other);
  }
  return op_is_nan (other) || op_lt (mine, other) || (earlier && op_eq (mine, other));
}

// How many steps of a window that begins at `begin` are below `end`.
fn steps (begin: u32, end: u32, step: u32) -> u32 {
  return (max (begin, end) - begin + (step - 1u)) / step;
}

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
  // With the padding.
  let i$(d) = rest % p.in$(d) + p.begin$(d);
  rest /= p.in$(d);
#endfor
#if LAST
  let n = rest;
#else
  let channel = rest % p.channels;
  let n = rest / p.channels;
#endif
  let x$(RANK) = n * p.x_batch + channel * p.x_channel;
  let g$(RANK) = n * p.g_batch + channel * p.g_channel;
  let mine = load_x (index);

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

#if EPILOGUE
  store_dx (index, epilogue (index, sum));
#else
  store_dx (index, sum);
#endif
}
