// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A matrix product on the matrix units of a GPU. A subgroup multiplies an M · K matrix by a K · N one with one
// instruction and adds the result to an M · N one of f32. A workgroup computes a tile of BM · BN, shared by WM · WN
// workers, which are subgroups; each keeps SM · SN results in its registers.
//
// Operands go through workgroup memory, KT steps of k at a time. They can therefore be stored in any way (f32 or f16,
// either order of axes, any edge) and are rounded to f16 (HALF) when they are staged. Each small matrix is contiguous
// there, so that a load reads consecutive words, without bank conflicts and without padding. The results go back
// through workgroup memory too, one matrix of each worker at a time, since the layout in registers is opaque: put()
// takes each sum from there.
//
// Several workgroups share a core, and one stages operands while another multiplies: hence no second buffer.
// doc/kernels.md has the counts for some devices.
//
// The driver decides how many invocations form a subgroup: WORKERS is a guess. If there are fewer subgroups, the
// remaining work takes another pass; if there are more, some idle.
//
// With ROWS both operands lie along k, or weights are packed: common/matrix-rows.wgsl.

#define BM WM * SM * M
#define BN WN * SN * N
#define WORKERS WM * WN
#include "common/product.wgsl"
#if PACKED
#include "packed/decode.wgsl"
#endif

#if HALF
alias Element = f16;

// f16() may round either way and return anything beyond 65504: it only gets values that are already rounded to nearest
// and in range. Only below 2⁻¹⁴ does the driver round, or flush to zero.
fn to_component (v: f32) -> f16 {
#if EXACT
  return f16 (v);
#else
  let bits = bitcast<u32>(v);
  let size = bits & 0x7fffffffu;
  // Infinity or NaN.
  let large = ((bits >> 16u) & 0x8000u) | select (0x7c00u, 0x7e00u, size > 0x7f800000u);
  let rounded = bitcast<f32>((bits + 0xfffu + ((bits >> 13u) & 1u)) & 0xffffe000u);
  return select (f16 (select (0.0, rounded, size < 0x477ff000u)), bitcast<vec2<f16>>(large).x, size >= 0x477ff000u);
#endif
}
#else
alias Element = f32;

fn to_component (v: f32) -> f32 {
  return v;
}
#endif

// The M · N results of each worker.
var<workgroup> tile_c: array<f32, $(WORKERS * M * N)>;

// Stores matrix (i, j) of each worker in this pass: `count` of them from `first` on.
fn put_all (to: Place, first: u32, count: u32, i: u32, j: u32, lane: u32) {
  for (var e = lane; e < $(WORKERS * M * N)u; e += $(WG)u) {
    let worker = e / $(M * N)u;
    let row = to.row + (worker / $(WN)u * $(SM)u + i) * $(M)u + e % $(M * N)u / $(N)u;
    let col = to.col + (worker % $(WN)u * $(SN)u + j) * $(N)u + e % $(N)u;
    // Workers before the first one wrap around.
    put_if ((worker - first < count) & (row < p.m) & (col < p.n), to.batch, row, col, tile_c[e]);
  }
}

#if ROWS
#include "common/matrix-rows.wgsl"
#else

// [m / M][k / K][M][K], [k / K][n / N][K][N]
var<workgroup> tile_a: array<Element, $(KT * BM)>;
var<workgroup> tile_b: array<Element, $(KT * BN)>;

fn spot_a (m: u32, k: u32) -> u32 {
  return ((m / $(M)u) * $(KT / K)u + k / $(K)u) * $(M * K)u + (m % $(M)u) * $(K)u + k % $(K)u;
}

fn spot_b (k: u32, n: u32) -> u32 {
  return ((k / $(K)u) * $(BN / N)u + n / $(N)u) * $(K * N)u + (k % $(K)u) * $(N)u + n % $(N)u;
}

#if PRODUCT
fn stage (to: Place, at: Origin, k0: u32, lane: u32) {
  for (var e = lane; e < $(KT * BM / A_WIDTH)u; e += $(WG)u) {
#if A_ALONG_K
    let k = e % $(KT / A_WIDTH)u * $(A_WIDTH)u;
    let m = e / $(KT / A_WIDTH)u;
#else
    let m = e % $(BM / A_WIDTH)u * $(A_WIDTH)u;
    let k = e / $(BM / A_WIDTH)u;
#endif
    let i = at.a + min (to.row + m, p.m - 1u) * p.a_m + min (k0 + k, to.k_end - 1u) * p.a_k;
    // Zeros past the end cancel whatever `b` has there, unless it is NaN.
#if A_WIDTH > 1
    let value = select (type_a (), load4_a (i / 4u), k0 + k < to.k_end);
#for c in 0..A_WIDTH
#if A_ALONG_K
    tile_a[spot_a (m, k + $(c)u)] = to_component (value[$(c)]);
#else
    tile_a[spot_a (m + $(c)u, k)] = to_component (value[$(c)]);
#endif
#endfor
#else
    let value = select (type_a (), load_a (i), k0 + k < to.k_end);
    tile_a[spot_a (m, k)] = to_component (value);
#endif
  }
  for (var e = lane; e < $(KT * BN / B_WIDTH)u; e += $(WG)u) {
#if B_ALONG_K
    let k = e % $(KT / B_WIDTH)u * $(B_WIDTH)u;
    let n = e / $(KT / B_WIDTH)u;
#else
    let n = e % $(BN / B_WIDTH)u * $(B_WIDTH)u;
    let k = e / $(BN / B_WIDTH)u;
#endif
    let i = at.b + min (to.col + n, p.n - 1u) * p.b_n + min (k0 + k, to.k_end - 1u) * p.b_k;
#if B_WIDTH > 1
    let value = select (type_b (), load4_b (i / 4u), k0 + k < to.k_end);
#for c in 0..B_WIDTH
#if B_ALONG_K
    tile_b[spot_b (k + $(c)u, n)] = to_component (value[$(c)]);
#else
    tile_b[spot_b (k, n + $(c)u)] = to_component (value[$(c)]);
#endif
#endfor
#else
    let value = select (type_b (), load_b (i), k0 + k < to.k_end);
    tile_b[spot_b (k, n)] = to_component (value);
#endif
  }
}
#endif
#endif

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
#if ROWS
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
#endif
  for (var first = 0u; first < $(WORKERS)u; first += n_subgroups) {
    let worker = first + subgroup;
    let row = worker / $(WN)u * $(SM)u;
    let col = worker % $(WN)u * $(SN)u;
    // Initialised explicitly: otherwise the variable keeps the sums of the previous pass on lavapipe.
#for i in 0..SM
#for j in 0..SN
    var sum$(i)_$(j) = subgroup_matrix_result<f32, $(N), $(M)>();
#endfor
#endfor
#if PRODUCT && ROWS
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
#elif PRODUCT
    for (var k0 = to.k; k0 < to.k_end; k0 += $(KT)u) {
      stage (to, at, k0, lane);
      workgroupBarrier ();
      if (worker < $(WORKERS)u) {
        for (var k = 0u; k < $(KT / K)u; k++) {
#for i in 0..SM
          let x$(i) = subgroupMatrixLoad<subgroup_matrix_left<Element, $(K), $(M)>, row_major>(&tile_a, ((row + $(i)u) * $(KT / K)u + k) * $(M * K)u, $(K)u);
#endfor
#for j in 0..SN
          let y$(j) = subgroupMatrixLoad<subgroup_matrix_right<Element, $(N), $(K)>, row_major>(&tile_b, (k * $(BN / N)u + col + $(j)u) * $(K * N)u, $(N)u);
#endfor
#for i in 0..SM
#for j in 0..SN
          sum$(i)_$(j) = subgroupMatrixMultiplyAccumulate (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
        }
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
