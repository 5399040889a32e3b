// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[n, o, p] = epilogue (bias[o] + Σ_c Σ_k x[n, c, place (p, k)] · w[o, c, k])
//
// A convolution, or with TRANSPOSED a transposed convolution as a sum over the elements of x that reach a position:
// nothing is scattered. Spatial axes are numbered from the innermost one; axis d has p.inD elements, p.outD positions
// and p.kD elements of the filter. Strides are parameters, so this kernel handles every order of axes.
//
// - tiles: a matrix product whose second matrix is read in place. An invocation computes NC channels of NP positions,
//   with positions counted through all batches; lanes have neighbouring positions or, with SWAP, neighbouring channels.
//   What does not depend on the lane has the same address in all of them: one scalar load for the whole subgroup. No
//   workgroup memory, no barrier. With ACROSS, lanes have the channels of all groups. FEW is the number of channels of
//   the operand, unless there are many.
// - PANEL, for a CPU: the same with the weights as [channels / NC][elements of a filter][NC], of which one load brings
//   four, and with four positions for each of eight lanes, so that each word is used often: 36 words for 128 products.
//   All loads come before the products, which are then one basic block (doc/kernels.md). With SPREAD, each position of
//   the operand of a transposed convolution has a block of the result to itself: columns of the filter are channels of
//   that block, and positions in it.
// - LINE, for a CPU: an invocation computes NC channels of NX neighbours along the innermost axis, so that an element
//   of the operand is loaded once for all of the KX elements of a row of the filter that it is multiplied by. For
//   groups with few output channels, where the other variants would use each element too rarely.
// - DIRECT: an invocation computes one element, or LANES of them share its sum.
//
// In a transposed convolution only those elements of the filter contribute to a position that are congruent to it
// modulo the stride. Positions with the same ones, a phase, go to the same workgroup: the other elements cost nothing.

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

fn put (g: u32, m: u32, at: u32, sum: f32) {
#if SPREAD
  let channel = m / p.spread_out % p.channels;
  let y = at + channel * p.y_channel
#for d in 0..RANK
    + m / p.spread_w$(d) % p.spread_k$(d) * p.spread_y$(d)
#endfor
  ;
#else
  let channel = g * p.m + m;
  let y = at + channel * p.y_channel;
#endif
#if BIAS
  let v = sum + load_bias (channel);
#else
  let v = sum;
#endif
#if EPILOGUE
  store_y (y, epilogue (y, v));
#else
  store_y (y, v);
#endif
}

#if PRODUCT
// Adds a product if the element exists. Padding counts as zeros; for a transposed convolution missing elements are left
// out altogether.
fn grow (sum: f32, x: f32, w: f32, there: bool) -> f32 {
#if TRANSPOSED
  return select (sum, fma (x, w, sum), there);
#else
  return fma (select (0.0, x, there), w, sum);
#endif
}
#endif

#if DIRECT

#if PRODUCT
#if TRANSPOSED
// The index in the operand for a position in the dilated operand, or -1 if there is none.
fn source (at: i32, stride: u32) -> i32 {
  return select (-1, at / i32 (stride), at >= 0 && at % i32 (stride) == 0);
}
#endif

// The number of steps from `begin` that are below `end`.
fn steps (begin: u32, end: u32, step: u32) -> u32 {
  return (max (begin, end) - begin + (step - 1u)) / step;
}

// place: the index in the operand for an element of the filter. first, last: which elements can be in the operand at
// all; a filter may be much longer than that.
#for d in 0..RANK
#if TRANSPOSED
fn place$(d) (o: u32, k: u32) -> i32 {
  return source (i32 (o + p.begin$(d)) - i32 (k * p.dilation$(d)), p.stride$(d));
}

fn first$(d) (o: u32) -> u32 {
  return steps ((p.in$(d) - 1u) * p.stride$(d), o + p.begin$(d), p.dilation$(d));
}

fn last$(d) (o: u32) -> u32 {
  return min (p.k$(d), (o + p.begin$(d)) / p.dilation$(d) + 1u);
}
#else
fn place$(d) (o: u32, k: u32) -> i32 {
  return i32 (o * p.stride$(d) + k * p.dilation$(d)) - i32 (p.begin$(d));
}

fn first$(d) (o: u32) -> u32 {
  return steps (o * p.stride$(d), p.begin$(d), p.dilation$(d));
}

fn last$(d) (o: u32) -> u32 {
  return min (p.k$(d), steps (o * p.stride$(d), p.begin$(d) + p.in$(d), p.dilation$(d)));
}
#endif
#endfor
#endif

#if LANES > 1
var<workgroup> partial: array<f32, $(WG)>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#include "common/window.wgsl"
#for d in 0..RANK
  let o$(d) = rest % p.out$(d);
  rest /= p.out$(d);
#endfor
#if LAST
  let n = rest;
#else
  let channel = rest % p.channels;
  let n = rest / p.channels;
#endif
  let g = channel / p.m;
  let m = channel % p.m;

  var sum = 0.0;
#if PRODUCT
  let x = n * p.x_batch + g * p.c * p.x_channel;
  let w = g * p.w_group + m * p.w_out;
#if LANES > 1
  // The elements of the sum, with the channel varying fastest.
  for (var i = lane; i < p.terms; i += $(LANES)u) {
    var left = i;
    let c = left % p.c;
    left /= p.c;
    var at = x + c * p.x_channel;
    var tap = w + c * p.w_in;
    var there = true;
#for d in 0..RANK
    let k$(d) = left % p.k$(d);
    left /= p.k$(d);
    let i$(d) = u32 (place$(d) (o$(d), k$(d)));
    there = there && i$(d) < p.in$(d);
    at += i$(d) * p.x_axis$(d);
    tap += k$(d) * p.w_axis$(d);
#endfor
    sum = grow (sum, load_x (select (0u, at, there)), load_w (tap), there);
  }
#else
#for e in 0..RANK
#define D RANK - 1 - e
  let end$(D) = last$(D) (o$(D));
  for (var k$(D) = first$(D) (o$(D)); k$(D) < end$(D); k$(D)++) {
#endfor
    var at = x;
    var tap = w;
    var there = true;
#for d in 0..RANK
    let i$(d) = u32 (place$(d) (o$(d), k$(d)));
    there = there && i$(d) < p.in$(d);
    at += i$(d) * p.x_axis$(d);
    tap += k$(d) * p.w_axis$(d);
#endfor
    if (there) {
      for (var c = 0u; c < p.c; c++) {
        sum = fma (load_x (at + c * p.x_channel), load_w (tap + c * p.w_in), sum);
      }
    }
#for d in 0..RANK
  }
#endfor
#endif
#endif

#if LANES > 1
  partial[lane] = sum;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane < width) {
      partial[lane] += partial[lane + width];
    }
  }
  sum = partial[0];
#endif

  if (inside) {
    var y = n * p.y_batch;
#for d in 0..RANK
    y += o$(d) * p.y_axis$(d);
#endfor
    put (g, m, y, sum);
  }
}

#elif PANEL

#if FEW > 0
#define UNROLL FEW
#else
#define UNROLL 4
#endif

// The sums of each channel. Cleared in a loop; all other accesses have constant indices.
var<private> sums: array<vec4<f32>, $(NC)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let channel = group % p.tiles_channel * $(NC)u;
  let tile = group / p.tiles_channel;
  let position = tile * $(4 * WG)u + lane + vec4<u32> (0u, $(WG)u, $(2 * WG)u, $(3 * WG)u);
  var rest = min (position, vec4<u32> (p.positions - 1u));
#for d in 0..RANK
  let o$(d) = rest % p.out$(d);
  rest /= p.out$(d);
  let h$(d) = o$(d) * p.stride$(d) - p.begin$(d);
#endfor
  let there$(RANK) = vec4<bool> (true);
  let x$(RANK) = rest * p.x_batch;
  let w$(RANK)_at = channel * p.terms;
#for j in 0..NC
  var sum$(j) = vec4<f32> ();
#endfor

#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
  for (var k$(D) = 0u; k$(D) < p.k$(D); k$(D)++) {
    // Negative indices wrap around and are out of range, too.
    let i$(D) = h$(D) + k$(D) * p.dilation$(D);
    let there$(D) = there$(OUTER) & (i$(D) < vec4<u32> (p.in$(D)));
    let x$(D) = x$(OUTER) + i$(D) * p.x_axis$(D);
    let w$(D)_at = w$(OUTER)_at + k$(D) * p.w_axis$(D);
#endfor

    let at = select (vec4<u32> (), x0, there0);
#if FEW > 0
    {
      let c = 0u;
#else
    let whole = p.c - p.c % $(UNROLL)u;
    for (var c = 0u; c < whole; c += $(UNROLL)u) {
#endif
#for u in 0..UNROLL
      let x_$(u) = at + (c + $(u)u) * p.x_channel;
      let w_$(u) = (w0_at + (c + $(u)u) * p.w_in) / 4u;
      let v$(u) = vec4<f32> (load_x (x_$(u).x), load_x (x_$(u).y), load_x (x_$(u).z), load_x (x_$(u).w));
#for j in 0..NC / 4
      let f$(u)_$(j) = load4_w (w_$(u) + $(j)u);
#endfor
#endfor
#for u in 0..UNROLL
      let y$(u) = select (vec4<f32> (), v$(u), there0);
#endfor
#for j in 0..NC
#for u in 0..UNROLL
      sum$(j) = fma (y$(u), vec4<f32> (f$(u)_$(j / 4)[$(j % 4)]), sum$(j));
#endfor
#endfor
    }
#if FEW == 0
    for (var c = whole; c < p.c; c++) {
      let xc = at + c * p.x_channel;
      let v = vec4<f32> (load_x (xc.x), load_x (xc.y), load_x (xc.z), load_x (xc.w));
#for j in 0..NC / 4
      let f$(j) = load4_w ((w0_at + c * p.w_in) / 4u + $(j)u);
#endfor
      let y = select (vec4<f32> (), v, there0);
#for j in 0..NC
      sum$(j) = fma (y, vec4<f32> (f$(j / 4)[$(j % 4)]), sum$(j));
#endfor
    }
#endif
#for d in 0..RANK
  }
#endfor

  var y = rest * p.y_batch;
#for d in 0..RANK
  y += o$(d) * p.y_axis$(d);
#endfor
#for j in 0..NC
  sums[$(j)] = sum$(j);
#endfor
  for (var j = 0u; j < min ($(NC)u, p.m - channel); j++) {
    let sum = sums[j];
#for i in 0..4
    if (position[$(i)] < p.positions) {
      put (0u, channel + j, y[$(i)], sum[$(i)]);
    }
#endfor
  }
}

#elif LINE

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let place = group % p.tiles_position * $(WG)u + lane;
  let tile = group / p.tiles_position;
  let g = tile / p.tiles_channel;
  let channel = tile % p.tiles_channel * $(NC)u;
  var rest = min (place, p.pieces - 1u);
  let first = rest % p.tiles_line * $(NX)u;
  rest /= p.tiles_line;
#for d in 1..RANK
  let o$(d) = rest % p.out$(d);
  rest /= p.out$(d);
  let h$(d) = o$(d) * p.stride$(d) - p.begin$(d);
#endfor
  let x_at = rest * p.x_batch + g * p.c * p.x_channel;
  let h0 = first * $(STRIDE)u - p.begin0;
#for j in 0..NC
  let w_at$(j) = g * p.w_group + min (channel + $(j)u, p.m - 1u) * p.w_out;
#for t in 0..NX
  var sum$(j)_$(t) = 0.0;
#endfor
#endfor

#if FEW == 1
  {
    let c = 0u;
#else
  for (var c = 0u; c < p.c; c++) {
#endif
  let there$(RANK) = true;
  let x$(RANK) = x_at + c * p.x_channel;
  let w$(RANK)_at = c * p.w_in;
#for e in 0..RANK - 1
#define D RANK - 1 - e
#define OUTER D + 1
  for (var k$(D) = 0u; k$(D) < p.k$(D); k$(D)++) {
    // Negative indices wrap around and are out of range, too.
    let i$(D) = h$(D) + k$(D) * p.dilation$(D);
    let there$(D) = there$(OUTER) && i$(D) < p.in$(D);
    let x$(D) = x$(OUTER) + i$(D) * p.x_axis$(D);
    let w$(D)_at = w$(OUTER)_at + k$(D) * p.w_axis$(D);
#endfor
#for s in 0..SPAN
    let there_$(s) = there1 && h0 + $(s)u < p.in0;
    let v$(s) = load_x (select (0u, x1 + (h0 + $(s)u) * p.x_axis0, there_$(s)));
#endfor
#for j in 0..NC
#for t in 0..KX
    let f$(j)_$(t) = load_w (w_at$(j) + w1_at + $(t)u * p.w_axis0);
#endfor
#endfor
#for s in 0..SPAN
    let y$(s) = select (0.0, v$(s), there_$(s));
#endfor
#for j in 0..NC
#for t in 0..NX
#for i in 0..KX
    sum$(j)_$(t) = fma (y$(t * STRIDE + i * DILATION), f$(j)_$(i), sum$(j)_$(t));
#endfor
#endfor
#endfor
#for d in 1..RANK
  }
#endfor
  }

  var y = rest * p.y_batch + first * p.y_axis0;
#for d in 1..RANK
  y += o$(d) * p.y_axis$(d);
#endfor
#if !EVEN
  let end = select (0u, p.out0, place < p.pieces);
#endif
#for j in 0..NC
#if !EVEN
  if (channel + $(j)u < p.m) {
#else
  {
#endif
#for t in 0..NX
#if EVEN
    put (g, channel + $(j)u, y + $(t)u * p.y_axis0, sum$(j)_$(t));
#else
    if (first + $(t)u < end) {
      put (g, channel + $(j)u, y + $(t)u * p.y_axis0, sum$(j)_$(t));
    }
#endif
#endfor
  }
#endfor
}

#else

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups share positions, which stay in the cache.
  var rest = group;
#if SWAP
  let channel0 = (rest % p.tiles_channel) * $(WG * NC)u + lane;
  rest /= p.tiles_channel;
  let position0 = (rest % p.tiles_position) * $(NP)u;
#define STEP_C WG
#define STEP_P 1
#else
  let channel0 = (rest % p.tiles_channel) * $(NC)u;
  rest /= p.tiles_channel;
  let position0 = (rest % p.tiles_position) * $(WG * NP)u + lane;
#define STEP_C 1
#define STEP_P WG
#endif
  rest /= p.tiles_position;
#if TRANSPOSED
#for d in 0..RANK
  let phase$(d) = rest % p.phases$(d);
  rest /= p.phases$(d);
#endfor
#endif
#for j in 0..NC
#if ACROSS
  let g$(j) = min (channel0 + $(j * STEP_C)u, p.tile_channels - 1u) / p.m;
  let m$(j) = min (channel0 + $(j * STEP_C)u, p.tile_channels - 1u) % p.m;
#else
  let g$(j) = rest;
  let m$(j) = min (channel0 + $(j * STEP_C)u, p.tile_channels - 1u);
#endif
#endfor

#for i in 0..NP
  var inside$(i) = position0 + $(i * STEP_P)u < p.positions;
  var rest$(i) = min (position0 + $(i * STEP_P)u, p.positions - 1u);
#for d in 0..RANK
  // h: the index in the operand of the first element of the filter, or of the first element of the phase of the
  // position.
  let q$(d)_$(i) = rest$(i) % p.places$(d);
  rest$(i) /= p.places$(d);
#if TRANSPOSED
  let o$(d)_$(i) = q$(d)_$(i) * p.stride$(d) + phase$(d);
  let h$(d)_$(i) = q$(d)_$(i);
  inside$(i) = inside$(i) && o$(d)_$(i) < p.out$(d);
#else
  let o$(d)_$(i) = q$(d)_$(i);
  let h$(d)_$(i) = q$(d)_$(i) * p.stride$(d) - p.begin$(d);
#endif
#endfor
#for j in 0..NC
  var sum$(j)_$(i) = 0.0;
#endfor
#endfor

#if PRODUCT
#for i in 0..NP
#if ACROSS
  let x$(RANK)_$(i) = rest$(i) * p.x_batch;
#else
  let x$(RANK)_$(i) = rest$(i) * p.x_batch + g0 * p.c * p.x_channel;
#endif
  let there$(RANK)_$(i) = true;
#endfor
#for j in 0..NC
  let w$(j) = g$(j) * p.w_group + m$(j) * p.w_out;
#if ACROSS
  let x_group$(j) = g$(j) * p.c * p.x_channel;
#endif
#endfor
  let w$(RANK)_at = 0u;

#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
  for (var k$(D) = 0u; k$(D) < p.k$(D); k$(D)++) {
#if TRANSPOSED
    let reach$(D) = i32 (phase$(D) + p.begin$(D)) - i32 (k$(D) * p.dilation$(D));
    if (reach$(D) % i32 (p.stride$(D)) != 0) {
      continue;
    }
    let r$(D) = u32 (reach$(D) / i32 (p.stride$(D)));
#else
    let r$(D) = k$(D) * p.dilation$(D);
#endif
    let w$(D)_at = w$(OUTER)_at + k$(D) * p.w_axis$(D);
#for i in 0..NP
    // Negative indices wrap around and are out of range, too.
    let i$(D)_$(i) = h$(D)_$(i) + r$(D);
    let there$(D)_$(i) = there$(OUTER)_$(i) && i$(D)_$(i) < p.in$(D);
    let x$(D)_$(i) = x$(OUTER)_$(i) + i$(D)_$(i) * p.x_axis$(D);
#endfor
#endfor

#for i in 0..NP
    let at$(i) = select (0u, x0_$(i), there0_$(i));
#endfor
#if FEW > 0
#define UNROLL FEW
    {
      let c = 0u;
#else
#define UNROLL 4
    let whole = p.c - p.c % $(UNROLL)u;
    for (var c = 0u; c < whole; c += $(UNROLL)u) {
#endif
#for u in 0..UNROLL
      {
        let xc = (c + $(u)u) * p.x_channel;
        let wc = (c + $(u)u) * p.w_in + w0_at;
#if ACROSS
#for j in 0..NC
        let f$(j) = load_w (w$(j) + wc);
#for i in 0..NP
        sum$(j)_$(i) = grow (sum$(j)_$(i), load_x (at$(i) + x_group$(j) + xc), f$(j), there0_$(i));
#endfor
#endfor
#else
#for i in 0..NP
        let v$(i) = load_x (at$(i) + xc);
#endfor
#for j in 0..NC
        let f$(j) = load_w (w$(j) + wc);
#for i in 0..NP
        sum$(j)_$(i) = grow (sum$(j)_$(i), v$(i), f$(j), there0_$(i));
#endfor
#endfor
#endif
      }
#endfor
    }
#if FEW == 0
    for (var c = whole; c < p.c; c++) {
      let xc = c * p.x_channel;
      let wc = c * p.w_in + w0_at;
#if ACROSS
#for j in 0..NC
      let f$(j) = load_w (w$(j) + wc);
#for i in 0..NP
      sum$(j)_$(i) = grow (sum$(j)_$(i), load_x (at$(i) + x_group$(j) + xc), f$(j), there0_$(i));
#endfor
#endfor
#else
#for i in 0..NP
      let v$(i) = load_x (at$(i) + xc);
#endfor
#for j in 0..NC
      let f$(j) = load_w (w$(j) + wc);
#for i in 0..NP
      sum$(j)_$(i) = grow (sum$(j)_$(i), v$(i), f$(j), there0_$(i));
#endfor
#endfor
#endif
    }
#endif
#for d in 0..RANK
  }
#endfor
#endif

#for i in 0..NP
  if (inside$(i)) {
    var y = rest$(i) * p.y_batch;
#for d in 0..RANK
    y += o$(d)_$(i) * p.y_axis$(d);
#endfor
#for j in 0..NC
    if (channel0 + $(j * STEP_C)u < p.tile_channels) {
      put (g$(j), m$(j), y, sum$(j)_$(i));
    }
#endfor
  }
#endfor
}

#endif
