// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The product of packed-matmul.wgsl with `a` as bytes (packed-bytes.wgsl), four products at once, for many rows on a
// GPU: precision INTEGER only. The integer sums of a chunk of 32 steps are exact; they are then multiplied by the
// scales of both operands.
//
// As in common/tile-rows.wgsl all lanes of a subgroup, TX of them, have the same TM rows, whose words are scalar
// operands of the products, and TN columns of their own, which go through workgroup memory: four lanes unpack a chunk
// of a column.

#define BM TM * TY
#define BN TN * TX
#define PARTS BN * 4 / WG
#include "common/product.wgsl"
#include "packed/decode.wgsl"
#include "packed/quads.wgsl"

// [half][lane][word], padded to avoid bank conflicts; and for each column its scales, and its offset.
var<workgroup> tile_b: array<array<array<vec$(TN)<u32>, $(8 + 4 / TN)>, $(TX)>, 2>;
var<workgroup> tile_s: array<array<array<vec$(TN)<f32>, $(1 + (OFFSETS) + (HALVES))>, $(TX)>, 2>;

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(subgroup_id) subgroup: u32,
         @builtin(subgroup_invocation_id) tx: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let to = place (group);
  let lane = subgroup * $(TX)u + tx;
  let top = to.row + subgroup * $(TM)u;
  let rows = min (top, p.m - 1u) / $(TM)u * p.chunks;
  let j = lane % 4u;
#for v in 0..PARTS
  let column$(v) = (lane + $(v * WG)u) / 4u;
  let weight$(v) = min (to.col + column$(v), p.n - 1u);
#endfor
#for i in 0..TM
  var sum$(i) = vec$(TN)<f32> ();
#endfor

  for (var k = to.k; k < to.k_end; k += 32u) {
    let half = k / 32u % 2u;
#for v in 0..PARTS
    let h$(v) = head (weight$(v), k / 32u);
    let q$(v) = quads (h$(v), j);
#endfor
#for v in 0..PARTS
    tile_b[half][column$(v) / $(TN)u][j][column$(v) % $(TN)u] = q$(v).x;
    tile_b[half][column$(v) / $(TN)u][j + 4u][column$(v) % $(TN)u] = q$(v).y;
    if (j == 0u) {
      tile_s[half][column$(v) / $(TN)u][0][column$(v) % $(TN)u] = h$(v).scales.x;
#if OFFSETS
      tile_s[half][column$(v) / $(TN)u][1][column$(v) % $(TN)u] = offset_of (h$(v));
#elif HALVES
      tile_s[half][column$(v) / $(TN)u][1][column$(v) % $(TN)u] = h$(v).scales.y;
#endif
    }
#endfor
    workgroupBarrier ();
    let at = rows + k / 32u;
#for u in 0..8
    let y$(u) = tile_b[half][tx][$(u)];
#endfor
    let scale0 = tile_s[half][tx][0];
#if OFFSETS || HALVES
    let scale1 = tile_s[half][tx][1];
#endif
#for i in 0..TM / 2
    let s$(i) = load4_s (at * $(TM / 2)u + $(i)u);
#endfor
#for i in 0..TM
    let a$(i) = load4_a (at * $(TM * 2)u + $(2 * i)u);
    let b$(i) = load4_a (at * $(TM * 2)u + $(2 * i + 1)u);
#endfor
#for i in 0..TM
#for c in 0..TN
    {
      var dot = dot4I8Packed (a$(i).x, y0[$(c)]);
      dot += dot4I8Packed (a$(i).y, y1[$(c)]);
      dot += dot4I8Packed (a$(i).z, y2[$(c)]);
      dot += dot4I8Packed (a$(i).w, y3[$(c)]);
#if HALVES
      let half_sum = scale0[$(c)] * f32 (dot);
      dot = dot4I8Packed (b$(i).x, y4[$(c)]);
#else
      dot += dot4I8Packed (b$(i).x, y4[$(c)]);
#endif
      dot += dot4I8Packed (b$(i).y, y5[$(c)]);
      dot += dot4I8Packed (b$(i).z, y6[$(c)]);
      dot += dot4I8Packed (b$(i).w, y7[$(c)]);
#if HALVES
      let part = fma (scale1[$(c)], f32 (dot), half_sum);
#else
      let part = scale0[$(c)] * f32 (dot);
#endif
      sum$(i)[$(c)] = fma (s$(i / 2)[$(i % 2 * 2)], part, sum$(i)[$(c)]);
#if OFFSETS
      sum$(i)[$(c)] = fma (s$(i / 2)[$(i % 2 * 2 + 1)], scale1[$(c)], sum$(i)[$(c)]);
#endif
    }
#endfor
#endfor
  }

  // Stores the first row and moves the others up.
  for (var i = 0u; i < $(TM)u; i++) {
    let row = top + i;
#for c in 0..TN
    let col$(c) = to.col + tx * $(TN)u + $(c)u;
    put_if ((row < p.m) & (col$(c) < p.n), to.batch, row, col$(c), sum0[$(c)]);
#endfor
#for i in 1..TM
    sum$(i - 1) = sum$(i);
#endfor
  }
}
