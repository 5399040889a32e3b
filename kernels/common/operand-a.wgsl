// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The loader of operand `a` for common/tile.wgsl: a matrix, by the distances between its
// elements. A vector is one load (A_VECTORS) where its four numbers lie side by side and all
// vectors begin at a multiple of four; else it is four loads. With A_SPLIT the steps are
// two dimensions, of which the inner one has p.split.

// What an invocation fetches.
struct SourceA {
  at: u32,      // its address at step 0
  first: u32,   // the first of four rows that are fetched one by one
  k: u32,       // from which step of those that are asked for
}

fn step_a (k: u32) -> u32 {
#if A_SPLIT
  return k / p.split * p.split_stride + k % p.split * p.a_k;
#else
  return k * p.a_k;
#endif
}

fn begin_a (to: Place, row: u32, k: u32) -> SourceA {
#if PARTS
  let at = 0u;
#else
  let at = origin (to.batch).a;
#endif
#if A_ALONG_K
  return SourceA (at + min (row, p.m - 1u) * p.a_m, 0u, k);
#elif A_VECTORS
  return SourceA (at + min (row, p.m - 4u), 0u, k);
#else
  return SourceA (at, row, k);
#endif
}

fn fetch_a (source: SourceA, step: u32, end: u32) -> vec4<f32> {
  let k = step + source.k;
#if A_ALONG_K && A_VECTORS
  return select (vec4<f32> (), load4_a ((source.at + step_a (min (k, p.k - 4u))) / 4u), k < end);
#elif A_ALONG_K
  let last = end - 1u;
  let v = vec4<f32> (load_a (source.at + step_a (min (k, last))), load_a (source.at + step_a (min (k + 1u, last))),
                     load_a (source.at + step_a (min (k + 2u, last))), load_a (source.at + step_a (min (k + 3u, last))));
  return select (vec4<f32> (), v, vec4<u32> (k, k + 1u, k + 2u, k + 3u) < vec4<u32> (end));
#else
  let at = source.at + step_a (min (k, end - 1u));
#if A_VECTORS
  return select (vec4<f32> (), load4_a (at / 4u), k < end);
#else
  let last = p.m - 1u;
  let m = source.first;
  let v = vec4<f32> (load_a (at + min (m, last) * p.a_m), load_a (at + min (m + 1u, last) * p.a_m),
                     load_a (at + min (m + 2u, last) * p.a_m), load_a (at + min (m + 3u, last) * p.a_m));
  return select (vec4<f32> (), v, k < end);
#endif
#endif
}
