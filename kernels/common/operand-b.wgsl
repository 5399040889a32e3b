// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The loader of operand `b` for common/tile.wgsl: a matrix, by the distances between its
// elements. A vector is one load (B_VECTORS) where its four numbers lie side by side and all
// vectors begin at a multiple of four; else it is four loads. With B_SPLIT the steps are
// two dimensions, of which the inner one has p.split.
//
// With PANEL the weights lie as [columns / 32][k][32], filled up with zeros, b_k is 32 and
// every vector is one load. So lie those of several products that are made at once, and
// those that could not be read in vectors as they were.

// What an invocation fetches.
struct SourceB {
  at: u32,      // its address at step 0
  first: u32,   // the first of four columns that are fetched one by one
  k: u32,       // from which step of those that are asked for
}

fn step_b (k: u32) -> u32 {
#if B_SPLIT
  return k / p.split * p.split_stride + k % p.split * p.b_k;
#else
  return k * p.b_k;
#endif
}

fn begin_b (to: Place, col: u32, k: u32) -> SourceB {
#if PANEL
#elif PARTS
  let at = 0u;
#else
  let at = origin (to.batch).b;
#endif
#if PANEL
  let first = min (col, (p.n - 1u) / 4u * 4u);
  return SourceB (first / 32u * 32u * p.k + first % 32u, 0u, k);
#elif B_ALONG_K
  return SourceB (at + min (col, p.n - 1u) * p.b_n, 0u, k);
#elif B_VECTORS
  return SourceB (at + min (col, p.n - 4u), 0u, k);
#else
  return SourceB (at, col, k);
#endif
}

fn fetch_b (source: SourceB, step: u32, end: u32) -> vec4<f32> {
  let k = step + source.k;
#if B_ALONG_K && B_VECTORS
  return select (vec4<f32> (), load4_b ((source.at + step_b (min (k, p.k - 4u))) / 4u), k < end);
#elif B_ALONG_K
  let last = end - 1u;
  let v = vec4<f32> (load_b (source.at + step_b (min (k, last))), load_b (source.at + step_b (min (k + 1u, last))),
                     load_b (source.at + step_b (min (k + 2u, last))), load_b (source.at + step_b (min (k + 3u, last))));
  return select (vec4<f32> (), v, vec4<u32> (k, k + 1u, k + 2u, k + 3u) < vec4<u32> (end));
#else
  let at = source.at + step_b (min (k, end - 1u));
#if B_VECTORS
  return select (vec4<f32> (), load4_b (at / 4u), k < end);
#else
  let last = p.n - 1u;
  let n = source.first;
  let v = vec4<f32> (load_b (at + min (n, last) * p.b_n), load_b (at + min (n + 1u, last) * p.b_n),
                     load_b (at + min (n + 2u, last) * p.b_n), load_b (at + min (n + 3u, last) * p.b_n));
  return select (vec4<f32> (), v, k < end);
#endif
#endif
}
