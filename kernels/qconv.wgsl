// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Σ_c Σ_k (x[n, c, place (p, k)] - zero_x) · (w[o, c, k] - zero_w[o]) of bytes in i32 (ops/rlx-qconv.c). Spatial axes
// are numbered from the innermost one; strides are parameters, so this kernel handles every order of axes.
//
// An invocation computes NC channels of one position, with positions counted through all batches. Lanes have
// neighbouring positions, and elements of the filter have the same address in all of them; or, with SWAP, neighbouring
// channels, and elements of the operand have the same address. With ACROSS these are the channels of all groups. Only
// existing elements are visited: padding counts as the zero point, so it adds nothing.
//
// PACKED computes the products of four channels at once, from whole words; bytes are used as they are, or less 128 if
// FLIPped, and the contribution of the zero points is subtracted afterwards, modulo 2³².

#include "common/requantize.wgsl"

#if PRODUCT
// The number of steps from `begin` that are below `end`.
fn steps (begin: u32, end: u32, step: u32) -> u32 {
  return (max (begin, end) - begin + (step - 1u)) / step;
}
#endif

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
#define STEP WG
  let channel0 = (rest % p.tiles_channel) * $(WG * NC)u + lane;
  rest /= p.tiles_channel;
  let position = rest % p.positions;
  rest /= p.positions;
#else
#define STEP 1
  let channel0 = (rest % p.tiles_channel) * $(NC)u;
  rest /= p.tiles_channel;
  let position = (rest % p.tiles_position) * $(WG)u + lane;
  rest /= p.tiles_position;
#endif
  if (position >= p.positions || channel0 >= p.tile_channels) {
    return;
  }
  // Past the last channel it is repeated, and only stores are guarded.
#for j in 0..NC
#if ACROSS
  let channel_at$(j) = min (channel0 + $(j * STEP)u, p.tile_channels - 1u);
  let g$(j) = channel_at$(j) / p.m;
#else
  let g$(j) = rest;
  let channel_at$(j) = g$(j) * p.m + min (channel0 + $(j * STEP)u, p.tile_channels - 1u);
#endif
#endfor

  var n = position;
#for d in 0..RANK
  let o$(d) = n % p.out$(d);
  n /= p.out$(d);
#endfor
#for j in 0..NC
  var sum$(j) = 0;
#endfor

#if PRODUCT
#if ZERO_X == 1
  let zero_x = i32 (load_zero_x (0u)) - $(128 * FLIP_X);
#elif ZERO_X == 2
  let zero_x = p.zero_x - $(128 * FLIP_X);
#else
  let zero_x = $(0 - 128 * FLIP_X);
#endif
#for j in 0..NC
#if ZERO_W
  let zero_w$(j) = i32 (load_zero_w (channel_at$(j) * p.zero_w_step)) - $(128 * FLIP_W);
#else
  let zero_w$(j) = $(0 - 128 * FLIP_W);
#endif
#if ACROSS
  let x_group$(j) = g$(j) * p.c * p.x_channel;
#endif
  // The output channel of the filter counts through all groups.
  let w$(j) = channel_at$(j) * p.w_out;
#endfor
#if ACROSS
  let x$(RANK) = n * p.x_batch;
#else
  let x$(RANK) = n * p.x_batch + g0 * p.c * p.x_channel;
#endif
  let w_at$(RANK) = 0u;
#for d in 0..RANK
  let h$(d) = o$(d) * p.stride$(d);
  let first$(d) = steps (h$(d), p.begin$(d), p.dilation$(d));
  let end$(d) = min (p.k$(d), steps (h$(d), p.begin$(d) + p.in$(d), p.dilation$(d)));
#endfor
#if PACKED
#if OFFSET_W
#if ACROSS
#for j in 0..NC
  var all_x$(j) = 0;
#endfor
#else
  var all_x = 0;
#endif
#endif
#for j in 0..NC
#if OFFSET_X
  var all_w$(j) = 0;
#endif
#endfor
#endif

#for e in 0..RANK
#define D RANK - 1 - e
#define OUTER D + 1
  for (var k$(D) = first$(D); k$(D) < end$(D); k$(D)++) {
    let x$(D) = x$(OUTER) + (h$(D) + k$(D) * p.dilation$(D) - p.begin$(D)) * p.x_axis$(D);
    let w_at$(D) = w_at$(OUTER) + k$(D) * p.w_axis$(D);
#endfor
#if PACKED
    for (var c = 0u; c < p.c; c += 4u) {
#if !ACROSS
#if FLIP_X
      let v = word_x ((x0 + c) >> 2u) ^ 0x80808080u;
#else
      let v = word_x ((x0 + c) >> 2u);
#endif
#if OFFSET_W
      all_x += i32 (${DOT} (v, 0x01010101u));
#endif
#endif
#for j in 0..NC
      {
#if ACROSS
#if FLIP_X
        let v = word_x ((x0 + x_group$(j) + c) >> 2u) ^ 0x80808080u;
#else
        let v = word_x ((x0 + x_group$(j) + c) >> 2u);
#endif
#if OFFSET_W
        all_x$(j) += i32 (${DOT} (v, 0x01010101u));
#endif
#endif
#if FLIP_W
        let f = word_w ((w$(j) + w_at0 + c) >> 2u) ^ 0x80808080u;
#else
        let f = word_w ((w$(j) + w_at0 + c) >> 2u);
#endif
#if OFFSET_X
        all_w$(j) += i32 (${DOT} (f, 0x01010101u));
#endif
        sum$(j) += i32 (${DOT} (v, f));
      }
#endfor
    }
#else
    for (var c = 0u; c < p.c; c++) {
#if !ACROSS
      let v = i32 (load_x (x0 + c * p.x_channel)) - zero_x;
#endif
#for j in 0..NC
      {
#if ACROSS
        let v = i32 (load_x (x0 + x_group$(j) + c * p.x_channel)) - zero_x;
#endif
        sum$(j) += v * (i32 (load_w (w$(j) + w_at0 + c * p.w_in)) - zero_w$(j));
      }
#endfor
    }
#endif
#for d in 0..RANK
  }
#endfor

#if PACKED
  var count = i32 (p.c);
#for d in 0..RANK
  count *= i32 (max (end$(d), first$(d)) - first$(d));
#endfor
#for j in 0..NC
#if OFFSET_X
  sum$(j) -= zero_x * all_w$(j);
#endif
#if OFFSET_W
#if ACROSS
  sum$(j) -= zero_w$(j) * all_x$(j);
#else
  sum$(j) -= zero_w$(j) * all_x;
#endif
#endif
#if OFFSET_X && OFFSET_W
  sum$(j) += count * zero_x * zero_w$(j);
#endif
#endfor
#endif
#endif

  var y = n * p.y_batch;
#for d in 0..RANK
  y += o$(d) * p.y_axis$(d);
#endfor
#if WORDS
#for q in 0..NC / 4
#define A 4 * q
#define B 4 * q + 1
#define C 4 * q + 2
#define E 4 * q + 3
  if (channel0 + $(A)u < p.tile_channels) {
    store_word_y ((y + channel_at$(A)) >> 2u, encode_y (finish (sum$(A), channel_at$(A))) |
                  (encode_y (finish (sum$(B), channel_at$(B))) << 8u) |
                  (encode_y (finish (sum$(C), channel_at$(C))) << 16u) |
                  (encode_y (finish (sum$(E), channel_at$(E))) << 24u));
  }
#endfor
#else
#for j in 0..NC
  if (channel0 + $(j * STEP)u < p.tile_channels) {
    store_y (y + channel_at$(j) * p.y_channel, finish (sum$(j), channel_at$(j)));
  }
#endfor
#endif
}
