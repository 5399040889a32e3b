// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A convolution on a GPU as a product of matrices (matmul-tile.wgsl) whose one operand is
// read in place: the filter is a matrix of channels by steps, a step being a channel of the
// operand and an element of the filter, and x is one of steps by positions. Only that one's
// loader is here. Spatial axes are numbered from the innermost one.
//
// Columns run along the result. Channels first: rows are channels of a group, columns the
// positions of an image, and a vector of x is four positions at one step, each looked up by
// itself. Channels last (X_A): rows are the positions of all images and columns channels;
// with X_VECTORS, where x has a multiple of four channels, a vector is four channels of one
// position and one load. C_INNER says which of the two parts of a step runs faster: the
// channel, where x or the filter is so; else the element of the filter, innermost axis first.
//
// A workgroup reads each number of x as often as windows reach it (9 times for 3 x 3), but
// mostly from the cache: a tile of 64 positions and 16 steps touches 4 KB. What the loader
// adds to a product is finding an element: a division for each spatial axis and one more,
// about 25 instructions each, and one comparison for each axis, for the one vector that an
// invocation fetches in a step. The products of that step are 256 (tiles of 64, KT 16) or
// 512 (of 128) multiply-adds. So the filter's share is as in a product, and 75 to 100 more
// instructions make it a fifth to a quarter slower with tiles of 64, a tenth with those of
// 128. Registers: 12 more for two axes with four positions, 3 with X_VECTORS.

#define BM TM * TY
#define BN TN * TX
#include "common/product.wgsl"

#if PRODUCT
#if X_VECTORS
alias Places = u32;
alias Truths = bool;
#else
alias Places = vec4<u32>;
alias Truths = vec4<bool>;
#endif

// What an invocation fetches of x.
struct SourceX {
  at: Places,        // the address of the first element of the window, if it is there
#for d in 0..RANK
  place$(d): Places, // where that is along the axis; below 0 is above everything
#endfor
  k: u32,            // from which step of those that are asked for
}

fn begin_x (start: u32, first: u32, n: u32, k: u32) -> SourceX {
#if X_VECTORS
  var rest = min (first, n - 1u);
#else
  var rest = min (vec4<u32> (first, first + 1u, first + 2u, first + 3u), vec4<u32> (n - 1u));
#endif
  var at = Places (start);
#for d in 0..RANK
  let place$(d) = rest % Places (p.out$(d)) * p.stride$(d) - Places (p.begin$(d));
  at += place$(d) * p.x_axis$(d);
  rest /= Places (p.out$(d));
#endfor
  at += rest * p.x_image;
  return SourceX (at,
#for d in 0..RANK
                  place$(d),
#endfor
                  k);
}

fn fetch_x (source: SourceX, step: u32, end: u32) -> vec4<f32> {
  let k = step + source.k;
  var rest = min (k, end - 1u);
#if C_INNER
  let c = rest % p.c;
  rest /= p.c;
#endif
  var there = Truths (k < end);
  var offset = 0u;
#for d in 0..RANK
  let reach$(d) = rest % p.tap$(d) * p.dilation$(d);
  rest /= p.tap$(d);
  there &= source.place$(d) + Places (reach$(d)) < Places (p.in$(d));
  offset += reach$(d) * p.x_axis$(d);
#endfor
#if C_INNER
  offset += c * p.x_channel;
#else
  offset += rest * p.x_channel;
#endif
  let at = select (Places (), source.at + Places (offset), there);
#if X_VECTORS
  return select (vec4<f32> (), load4_x (at / 4u), there);
#else
  return select (vec4<f32> (), vec4<f32> (load_x (at.x), load_x (at.y), load_x (at.z), load_x (at.w)), there);
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
