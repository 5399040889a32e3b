// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A convolution on a GPU as a matrix product (matmul-tile.wgsl) of which one operand is read in place: the filter is a
// matrix of channels by steps, a step being a channel of the operand and an element of the filter, and x is one of
// steps by positions. This file only adds the loader of x. Spatial axes are numbered from the innermost one.
//
// Columns run along the result. Channels first: rows are channels of a group, columns the positions of an image, and a
// vector of x is four positions at one step, each looked up separately. Channels last (X_A): rows are the positions of
// all images and columns are channels; with X_VECTORS, where x has a multiple of four channels, a vector is four
// channels of one position and a single load. C_INNER says which part of a step varies fastest: the channel, if it does
// in x or the filter; otherwise the element of the filter, innermost axis first.
//
// A workgroup reads each element of x once for each window that contains it (9 times for 3 x 3), but mostly from the
// cache: a tile of 64 positions and 16 steps covers 4 KB. The extra cost over a matrix product is locating an element,
// for the one vector that an invocation fetches in a step. With TAPS, the number of elements of a filter if it is at
// most 32, bit masks of the elements that exist are computed once for each position, and all divisions are by
// constants. Without TAPS, there is one division for each axis and one more, of about 25 instructions each, and a
// comparison for each axis and position.

#define BM TM * TY
#define BN TN * TX
#include "common/product.wgsl"

#if PRODUCT
#if X_VECTORS
alias Places = u32;
#else
alias Places = vec4<u32>;
#endif

// What an invocation fetches of x.
struct SourceX {
  at: Places,        // the address of the first element of the window, if it exists
#if TAPS
  seen: Places,      // which elements of the window exist, as bits
#else
#for d in 0..RANK
  place$(d): Places, // its position along the axis; negative ones wrap around
#endfor
#endif
  k: u32,            // its step relative to those that are requested
}

fn begin_x (start: u32, first: u32, n: u32, k: u32) -> SourceX {
#if TAPS
  var seen = Places (1u);
#define BEFORE 1
#endif
  // The first position; the others are the next ones, as far as they exist.
  var rest = min (first, n - 1u);
  var at = Places (start);
#for d in 0..RANK
  let out$(d) = rest % p.out$(d);
  var place$(d) = Places (out$(d) * p.stride$(d) - p.begin$(d));
  rest /= p.out$(d);
#endfor
#if X_VECTORS
  at += rest * p.x_image;
#else
#if X_A
  // Without X_A there is one image.
  var image = Places (rest);
#endif
#for d in 0..RANK
  var last$(d)_0 = out$(d) + 1u == p.out$(d);
#endfor
#for u in 1..4
  var next$(u) = first + $(u)u < n;
#for d in 0..RANK
  // The last position of an axis is followed by the first one, at the next position of the next axis.
  place$(d)[$(u)] = select (place$(d)[$(u - 1)], select (place$(d)[$(u - 1)] + p.stride$(d), 0u - p.begin$(d), last$(d)_$(u - 1)), next$(u));
  let wraps$(u)_$(d) = next$(u) && last$(d)_$(u - 1);
  let last$(d)_$(u) = select (last$(d)_$(u - 1), place$(d)[$(u)] == p.last$(d), next$(u));
  next$(u) = wraps$(u)_$(d);
#endfor
#if X_A
  image[$(u)] = image[$(u - 1)] + select (0u, 1u, next$(u));
#endif
#endfor
#if X_A
  at += image * p.x_image;
#endif
#endif
#for d in 0..RANK
#if d == 0 && ONE_APART
  at += place0;
#else
  at += place$(d) * p.x_axis$(d);
#endif
#if TAPS
#if d == 0
#define TAP TAP0
#elif d == 1
#define TAP TAP1
#else
#define TAP TAP2
#endif
  var seen$(d) = Places ();
#for t in 0..TAP
  seen$(d) |= select (Places (), seen << Places ($(t * BEFORE)u), place$(d) + Places ($(t)u * p.dilation$(d)) < Places (p.in$(d)));
#endfor
  seen = seen$(d);
#define BEFORE BEFORE * TAP
#endif
#endfor
#if TAPS
  return SourceX (at, seen, k);
#else
  return SourceX (at,
#for d in 0..RANK
                  place$(d),
#endfor
                  k);
#endif
}

fn fetch_x (source: SourceX, step: u32, end: u32) -> vec4<f32> {
#if WHOLE
#if REGISTERS
  // Single steps are requested, and none is fetched ahead.
  let k = step + source.k;
#else
  // What is fetched ahead past the end is the last tile again, and never read.
  let k = min (step, end - $(KT)u) + source.k;
#endif
  var rest = k;
#else
  let k = step + source.k;
  var rest = min (k, end - 1u);
#endif
#if C_INNER
  let c = rest % p.c;
  rest /= p.c;
#elif TAPS
  let c = rest / $(TAPS)u;
  rest %= $(TAPS)u;
#endif
#if TAPS
#if WHOLE
  let bit = 1u << rest;
#else
  let bit = select (0u, 1u << rest, k < end);
#endif
  var offset = c * p.x_channel;
  // From the outermost axis on.
#for e in 0..RANK
#define D RANK - 1 - e
#if (D) == 0
#if ONE_APART
  offset += rest;
#else
  offset += rest * p.reach0;
#endif
#else
#define INSIDE TAP0
#define TAP TAPS / TAP0
#if (D) == 1 && RANK == 3
#define TAP TAP1
#elif (D) == 2
#define INSIDE TAP0 * TAP1
#define TAP TAP2
#endif
#if TAP <= 3
#for t in 1..TAP
  let after$(e)_$(t) = rest >= $(t * (INSIDE))u;
#endfor
  var gone$(e) = 0u;
  var reach$(e) = 0u;
#for t in 1..TAP
  gone$(e) = select (gone$(e), $(t * (INSIDE))u, after$(e)_$(t));
  reach$(e) = select (reach$(e), $(t)u * p.reach$(D), after$(e)_$(t));
#endfor
  offset += reach$(e);
  rest -= gone$(e);
#else
  // A division that is exact below 32.
  let part$(e) = (rest * $((1023 + (INSIDE)) / (INSIDE))u) >> 10u;
  offset += part$(e) * p.reach$(D);
  rest -= part$(e) * $(INSIDE)u;
#endif
#endif
#endfor
#else
  var offset = 0u;
#for d in 0..RANK
  let reach$(d) = rest % p.tap$(d) * p.dilation$(d);
  rest /= p.tap$(d);
  offset += reach$(d) * p.x_axis$(d);
#endfor
#if C_INNER
  offset += c * p.x_channel;
#else
  offset += rest * p.x_channel;
#endif
#endif
  // One position after the other, which takes the fewest registers.
#for u in 0..4 - 3 * X_VECTORS
#if X_VECTORS
  let at$(u) = source.at;
#else
  let at$(u) = source.at[$(u)];
#endif
#if TAPS && X_VECTORS
  let there$(u) = (source.seen & bit) != 0u;
#elif TAPS
  let there$(u) = (source.seen[$(u)] & bit) != 0u;
#else
  let there$(u) = (k < end)
#for d in 0..RANK
#if X_VECTORS
                  & (source.place$(d) + reach$(d) < p.in$(d))
#else
                  & (source.place$(d)[$(u)] + reach$(d) < p.in$(d))
#endif
#endfor
                  ;
#endif
#if X_VECTORS
  return select (vec4<f32> (), load4_x (select (0u, at$(u) + offset, there$(u)) / 4u), there$(u));
#else
  let x$(u) = select (0.0, load_x (select (0u, at$(u) + offset, there$(u))), there$(u));
#endif
#endfor
#if !X_VECTORS
  return vec4<f32> (x0, x1, x2, x3);
#endif
}

#if X_A
alias SourceA = SourceX;

fn begin_a (to: Place, row: u32, k: u32) -> SourceX {
  return begin_x (0u, row, p.m, k);
}

fn fetch_a (source: SourceX, step: u32, end: u32) -> vec4<f32> {
  return fetch_x (source, step, end);
}

#include "common/operand.wgsl" x="b" X="B" m="n" ALONG_K=B_ALONG_K VECTORS=B_VECTORS SPLIT=B_SPLIT PANEL=PANEL
#else
alias SourceB = SourceX;

fn begin_b (to: Place, col: u32, k: u32) -> SourceX {
#if SPLIT_K
  return begin_x (0u, col, p.n, k);
#else
  return begin_x (origin (to.batch).b, col, p.n, k);
#endif
}

fn fetch_b (source: SourceX, step: u32, end: u32) -> vec4<f32> {
  return fetch_x (source, step, end);
}

#if !ROWS
#include "common/operand.wgsl" x="a" X="A" m="m" ALONG_K=A_ALONG_K VECTORS=A_VECTORS SPLIT=A_SPLIT PANEL=0
#endif
#endif
#endif

#if ROWS
#include "common/tile-rows.wgsl"
#else
#include "common/tile.wgsl"
#endif
