// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The loader of operand `a` or `b` for common/tile.wgsl: a matrix with arbitrary strides. A vector is one load
// (VECTORS) where its four numbers are contiguous and all vectors begin at a multiple of four; otherwise it is four
// loads. With SPLIT k comprises two dimensions, of which the inner one has p.split steps.
//
// With PANEL the weights are laid out as [columns / 32][k][32], padded with zeros; b_k is 32 and every vector is one
// load. This is the layout of weights for several products that are computed at once, and of those that could not be
// read in vectors as they were.
//
// With WHOLE k is a multiple of KT: nothing is checked, and what is prefetched past the last tile is the last tile
// again, which is never read.
//
// Included with x and X, the name of the operand; m, that of its rows or columns; and its ALONG_K, VECTORS, SPLIT and
// PANEL.

#define STRAIGHT WHOLE && VECTORS && !SPLIT

// What an invocation fetches.
struct Source${X} {
#if STRAIGHT
  at: u32,      // the address of its vector at step 0, in vectors
#else
  at: u32,      // its address at step 0
  first: u32,   // the first of four rows or columns that are fetched one by one
  k: u32,       // its step relative to those that are requested
#endif
}

fn step_${x} (k: u32) -> u32 {
#if SPLIT
  return k / p.split * p.split_stride + k % p.split * p.${x}_k;
#else
  return k * p.${x}_k;
#endif
}

fn begin_${x} (to: Place, across: u32, k: u32) -> Source${X} {
#if PANEL
#elif SPLIT_K
  let at = 0u;
#else
  let at = origin (to.batch).${x};
#endif
#if PANEL
  let first = min (across, (p.${m} - 1u) / 4u * 4u);
  let begin = first / 32u * 32u * p.k + first % 32u;
#elif ALONG_K
  let begin = at + min (across, p.${m} - 1u) * p.${x}_${m};
#elif VECTORS
  let begin = at + min (across, p.${m} - 4u);
#endif
#if STRAIGHT
  return Source${X} ((begin + step_${x} (k)) / 4u);
#elif PANEL || ALONG_K || VECTORS
  return Source${X} (begin, 0u, k);
#else
  return Source${X} (at, across, k);
#endif
}

fn fetch_${x} (source: Source${X}, step: u32, end: u32) -> vec4<f32> {
#if !WHOLE
  let k = step + source.k;
#elif REGISTERS
  let now = step;
#else
  let now = min (step, end - $(KT)u);
#endif
#if STRAIGHT && ALONG_K
  return load4_${x} (source.at + now / 4u);
#elif STRAIGHT
  return load4_${x} (source.at + now * (p.${x}_k / 4u));
#else
#if WHOLE
  let k = now + source.k;
#endif
#if ALONG_K && VECTORS
  return select (vec4<f32> (), load4_${x} ((source.at + step_${x} (min (k, p.k - 4u))) / 4u), k < end);
#elif ALONG_K
  let last = end - 1u;
  let v = vec4<f32> (load_${x} (source.at + step_${x} (min (k, last))), load_${x} (source.at + step_${x} (min (k + 1u, last))),
                     load_${x} (source.at + step_${x} (min (k + 2u, last))), load_${x} (source.at + step_${x} (min (k + 3u, last))));
  return select (vec4<f32> (), v, vec4<u32> (k, k + 1u, k + 2u, k + 3u) < vec4<u32> (end));
#else
  let at = source.at + step_${x} (min (k, end - 1u));
#if VECTORS
  return select (vec4<f32> (), load4_${x} (at / 4u), k < end);
#else
  let last = p.${m} - 1u;
  let i = source.first;
  let v = vec4<f32> (load_${x} (at + min (i, last) * p.${x}_${m}), load_${x} (at + min (i + 1u, last) * p.${x}_${m}),
                     load_${x} (at + min (i + 2u, last) * p.${x}_${m}), load_${x} (at + min (i + 3u, last) * p.${x}_${m}));
  return select (vec4<f32> (), v, k < end);
#endif
#endif
#endif
}
