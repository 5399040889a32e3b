// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A product of matrices on a GPU, in tiles: common/tile.wgsl has the inner product,
// common/product.wgsl the epilogue, and this is the loader.
//
// From memory come BM + BN numbers for BM · BN products, so tiles of 32 x 32 have an
// intensity of 8 flops a byte, 64 x 64 of 16, 128 x 128 of 32, twice that in f16. A vector
// is one load (A_VECTORS, B_VECTORS) where its four numbers lie side by side and all
// vectors begin at a multiple of four; else it is four loads. A row of a tile along k is 32
// (KT 8) or 64 bytes of memory in a row, one across k 128 to 512.
//
// With PANEL the weights lie as [columns / 32][k][32], filled up with zeros, b_k is 32 and
// every vector is one load. So lie those of several products that are made at once, and
// those that could not be read in vectors as they were.

#define BM TM * TY
#define BN TN * TX
#include "common/product.wgsl"

#if PRODUCT
// What an invocation fetches of an operand.
struct Source {
  at: u32,      // its address at step 0
  first: u32,   // the first of four rows or columns that are fetched one by one
  k: u32,       // from which step of those that are asked for
}

alias SourceA = Source;
alias SourceB = Source;

fn begin_a (to: Place, row: u32, k: u32) -> Source {
#if PARTS
  let at = 0u;
#else
  let at = origin (to.batch).a;
#endif
#if A_ALONG_K
  return Source (at + min (row, p.m - 1u) * p.a_m, 0u, k);
#elif A_VECTORS
  return Source (at + min (row, p.m - 4u), 0u, k);
#else
  return Source (at, row, k);
#endif
}

fn fetch_a (from_a: Source, step: u32, end: u32) -> vec4<f32> {
  let k = step + from_a.k;
#if A_ALONG_K && A_VECTORS
  return select (vec4<f32> (), load4_a ((from_a.at + min (k, p.k - 4u)) / 4u), k < end);
#elif A_ALONG_K
  let last = end - 1u;
  let v = vec4<f32> (load_a (from_a.at + min (k, last) * p.a_k), load_a (from_a.at + min (k + 1u, last) * p.a_k),
                     load_a (from_a.at + min (k + 2u, last) * p.a_k), load_a (from_a.at + min (k + 3u, last) * p.a_k));
  return select (vec4<f32> (), v, vec4<u32> (k, k + 1u, k + 2u, k + 3u) < vec4<u32> (end));
#else
  let at = from_a.at + min (k, end - 1u) * p.a_k;
#if A_VECTORS
  return select (vec4<f32> (), load4_a (at / 4u), k < end);
#else
  let last = p.m - 1u;
  let m = from_a.first;
  let v = vec4<f32> (load_a (at + min (m, last) * p.a_m), load_a (at + min (m + 1u, last) * p.a_m),
                     load_a (at + min (m + 2u, last) * p.a_m), load_a (at + min (m + 3u, last) * p.a_m));
  return select (vec4<f32> (), v, k < end);
#endif
#endif
}

fn begin_b (to: Place, col: u32, k: u32) -> Source {
#if PANEL
#elif PARTS
  let at = 0u;
#else
  let at = origin (to.batch).b;
#endif
#if PANEL
  let first = min (col, (p.n - 1u) / 4u * 4u);
  return Source (first / 32u * 32u * p.k + first % 32u, 0u, k);
#elif B_ALONG_K
  return Source (at + min (col, p.n - 1u) * p.b_n, 0u, k);
#elif B_VECTORS
  return Source (at + min (col, p.n - 4u), 0u, k);
#else
  return Source (at, col, k);
#endif
}

fn fetch_b (from_b: Source, step: u32, end: u32) -> vec4<f32> {
  let k = step + from_b.k;
#if B_ALONG_K && B_VECTORS
  return select (vec4<f32> (), load4_b ((from_b.at + min (k, p.k - 4u)) / 4u), k < end);
#elif B_ALONG_K
  let last = end - 1u;
  let v = vec4<f32> (load_b (from_b.at + min (k, last) * p.b_k), load_b (from_b.at + min (k + 1u, last) * p.b_k),
                     load_b (from_b.at + min (k + 2u, last) * p.b_k), load_b (from_b.at + min (k + 3u, last) * p.b_k));
  return select (vec4<f32> (), v, vec4<u32> (k, k + 1u, k + 2u, k + 3u) < vec4<u32> (end));
#else
  let at = from_b.at + min (k, end - 1u) * p.b_k;
#if B_VECTORS
  return select (vec4<f32> (), load4_b (at / 4u), k < end);
#else
  let last = p.n - 1u;
  let n = from_b.first;
  let v = vec4<f32> (load_b (at + min (n, last) * p.b_n), load_b (at + min (n + 1u, last) * p.b_n),
                     load_b (at + min (n + 2u, last) * p.b_n), load_b (at + min (n + 3u, last) * p.b_n));
  return select (vec4<f32> (), v, k < end);
#endif
#endif
}
#endif

#include "common/tile.wgsl"
