// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// How matmul-matrix.wgsl brings operands that both lie along k to the matrix units, or packed
// weights (PACKED), which are taken apart on the way: in pieces of eight steps, which are 16
// bytes of half floats, one load and one store each. In workgroup memory each row of a matrix
// of `a`, and each column of one of `b`, is one or two of these, so that units load them
// without a look at single numbers. The next KT = 32 steps are fetched while these are
// multiplied. With WHOLE there are no others.
//
// Two lanes take a chunk of 32 packed numbers apart, two pieces each.

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

// What a lane brings of each operand. Of a small tile the last ones may have nothing to bring.
#define LEFT_A 4 * (BM) % WG
#define NA (4 * (BM) + WG - 1) / WG
#if PACKED
#define SIDES 2
#else
#define SIDES 4
#endif
#define LEFT_B SIDES * (BN) % WG
#define NB (SIDES * (BN) + WG - 1) / WG

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32,
         @builtin(subgroup_id) subgroup: u32,
         @builtin(num_subgroups) n_subgroups: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let to = place (group);
#if PRODUCT
#if SPLIT_K
  let at = Origin (0u, 0u);
#else
  let at = origin (to.batch);
#endif
  let k_a = lane % 4u * 8u;
#for v in 0..NA
  let line_a$(v) = (lane + $(v * WG)u) / 4u;
  let from_a$(v) = at.a + min (to.row + line_a$(v), p.m - 1u) * p.a_m;
  let spot_a$(v) = spot_a (line_a$(v), lane % 4u);
#endfor
#for v in 0..NB
  let line_b$(v) = (lane + $(v * WG)u) / $(SIDES)u;
#if PACKED
  let from_b$(v) = min (to.col + line_b$(v), p.n - 1u);
#if GRID
  let spot_b$(v)_0 = spot_b (line_b$(v), lane % 2u * 2u);
  let spot_b$(v)_1 = spot_b (line_b$(v), lane % 2u * 2u + 1u);
#else
  let spot_b$(v)_0 = spot_b (line_b$(v), lane % 2u);
  let spot_b$(v)_1 = spot_b (line_b$(v), lane % 2u + 2u);
#endif
#else
  let from_b$(v) = at.b + min (to.col + line_b$(v), p.n - 1u) * p.b_n;
  let spot_b$(v) = spot_b (line_b$(v), lane % 4u);
#endif
#endfor
#endif
  for (var first = 0u; first < $(WORKERS)u; first += n_subgroups) {
    let worker = first + subgroup;
    let row = worker / $(WN)u * $(SM)u;
    let col = worker % $(WN)u * $(SN)u;
    // With a value: without one the variable keeps the sums of the pass before on
    // lavapipe.
#for i in 0..SM
#for j in 0..SN
    var sum$(i)_$(j) = subgroup_matrix_result<f32, $(N), $(M)>();
#endfor
#endfor
#if PRODUCT
#if AHEAD
#for v in 0..NA
    var next_a$(v) = fetch_a (from_a$(v), to.k + k_a, to.k_end);
#endfor
#for v in 0..NB
#if PACKED
    var next_b$(v) = fetch_b (from_b$(v), to.k, lane % 2u);
#else
    var next_b$(v) = fetch_b (from_b$(v), to.k + k_a, to.k_end);
#endif
#endfor
#endif
    for (var k0 = to.k; k0 < to.k_end; k0 += $(KT)u) {
#if !AHEAD
#for v in 0..NA
      let next_a$(v) = fetch_a (from_a$(v), k0 + k_a, to.k_end);
#endfor
#for v in 0..NB
#if PACKED
      let next_b$(v) = fetch_b (from_b$(v), k0, lane % 2u);
#else
      let next_b$(v) = fetch_b (from_b$(v), k0 + k_a, to.k_end);
#endif
#endfor
#endif
#for v in 0..NA
#if LEFT_A
      if (line_a$(v) < $(BM)u) {
        tile_a[spot_a$(v)] = next_a$(v);
      }
#else
      tile_a[spot_a$(v)] = next_a$(v);
#endif
#endfor
#for v in 0..NB
#if LEFT_B
      if (line_b$(v) < $(BN)u) {
#else
      {
#endif
#if PACKED
        tile_b[spot_b$(v)_0] = next_b$(v).a;
        tile_b[spot_b$(v)_1] = next_b$(v).b;
#else
        tile_b[spot_b$(v)] = next_b$(v);
#endif
      }
#endfor
      workgroupBarrier ();
#if AHEAD
#for v in 0..NA
      next_a$(v) = fetch_a (from_a$(v), k0 + $(KT)u + k_a, to.k_end);
#endfor
#for v in 0..NB
#if PACKED
      next_b$(v) = fetch_b (from_b$(v), k0 + $(KT)u, lane % 2u);
#else
      next_b$(v) = fetch_b (from_b$(v), k0 + $(KT)u + k_a, to.k_end);
#endif
#endfor
#endif
      if (worker < $(WORKERS)u) {
#for k in 0..KT / K
        {
#for j in 0..SN
          let y$(j) = subgroupMatrixLoad<subgroup_matrix_right<f16, $(N), $(K)>, col_major>(&tile_b, ((col + $(j)u) * $(KT / K)u + $(k)u) * $(N * PER)u, $(PER)u);
#endfor
#for i in 0..SM
          let x$(i) = subgroupMatrixLoad<subgroup_matrix_left<f16, $(K), $(M)>, row_major>(&tile_a, ((row + $(i)u) * $(KT / K)u + $(k)u) * $(M * PER)u, $(PER)u);
#for j in 0..SN
          sum$(i)_$(j) = subgroupMatrixMultiplyAccumulate (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
        }
#endfor
      }
      workgroupBarrier ();
    }
#endif
#for i in 0..SM
#for j in 0..SN
    if (worker < $(WORKERS)u) {
      subgroupMatrixStore<row_major>(&tile_c, worker * $(M * N)u, sum$(i)_$(j), $(N)u);
    }
    workgroupBarrier ();
    put_all (to, first, n_subgroups, $(i)u, $(j)u, lane);
    workgroupBarrier ();
#endfor
#endfor
  }
}
