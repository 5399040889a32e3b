// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// How matmul-matrix.wgsl feeds the matrix units if both operands lie along k, or if the weights are packed (PACKED) and
// unpacked on the way: in pieces of eight steps, which are 16 bytes of half floats, with one load and one store each.
// In workgroup memory each row of a matrix of `a`, and each column of one of `b`, is one or two pieces, so that the
// units load them without addressing single elements. The next KT = 32 steps are fetched while the current ones are
// multiplied. With WHOLE k is a multiple of KT.
//
// Two lanes unpack a block of 32 numbers, two pieces each.

#define PER K / 8
// [row / M][k / K][M][K], [column / N][k / K][N][K], in pieces
var<workgroup> tile_a: array<vec4<u32>, $(4 * (BM))>;
var<workgroup> tile_b: array<vec4<u32>, $(4 * (BN))>;

fn spot_a (row: u32, piece: u32) -> u32 {
  return (row / $(M)u * $(KT / K)u + piece / $(PER)u) * $(M * PER)u + row % $(M)u * $(PER)u + piece % $(PER)u;
}

fn spot_b (col: u32, piece: u32) -> u32 {
  return (col / $(N)u * $(KT / K)u + piece / $(PER)u) * $(N * PER)u + col % $(N)u * $(PER)u + piece % $(PER)u;
}

#if PRODUCT
fn halves (v: vec4<f32>) -> vec2<u32> {
  return bitcast<vec2<u32>> (vec4<f16> (to_component (v.x), to_component (v.y), to_component (v.z), to_component (v.w)));
}

#include "common/matrix-piece.wgsl" x="a" HALVES=A_HALF

#if PACKED
fn narrow (v: vec4<f32>) -> vec2<u32> {
  return bitcast<vec2<u32>> (vec4<f16> (v));
}

struct Pieces {
  a: vec4<u32>,
  b: vec4<u32>,
}

// Half of the numbers of a column from `k` on, which is a multiple of 32.
fn fetch_b (column: u32, k: u32, side: u32) -> Pieces {
  let h = head (column, min (k / 32u, p.chunks - 1u));
  let v = part (h, side * 2u);
  let w = part (h, side * 2u + 1u);
#if GRID
  return Pieces (vec4<u32> (narrow (v.a), narrow (v.b)), vec4<u32> (narrow (w.a), narrow (w.b)));
#else
  return Pieces (vec4<u32> (narrow (v.a), narrow (w.a)), vec4<u32> (narrow (v.b), narrow (w.b)));
#endif
}
#else
#include "common/matrix-piece.wgsl" x="b" HALVES=B_HALF
#endif
#endif

// What a lane loads of each operand. In a small tile the last lanes may have nothing to load.
#define LEFT_A 4 * (BM) % WG
#define NA (4 * (BM) + WG - 1) / WG
#if PACKED
#define SIDES 2
#else
#define SIDES 4
#endif
#define LEFT_B SIDES * (BN) % WG
#define NB (SIDES * (BN) + WG - 1) / WG
