// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The product of few rows and columns that both lie along k, on a GPU: `b` is in memory, and reading it dominates the
// time. LANES invocations share the sums of TM rows and TN columns. Neighbours read neighbouring pieces of 8 numbers,
// or of 4 (PIECE vectors): 16 bytes of half floats are one load. All loads of UNROLL pieces precede their products, so
// that many are in flight. Any REST that this leaves is done piece by piece.

#define BM TM
#define BN WG / LANES * TN
#include "common/product.wgsl"

var<workgroup> partial: array<array<f32, $(LANES)>, $(WG / LANES * TN * TM)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let to = place (group);
  let at = origin (to.batch);
  let team = lane / $(LANES)u;
  let part = lane % $(LANES)u;
  let first_col = to.col + team * $(TN)u;
#for i in 0..TM
  let a$(i) = (at.a + min (to.row + $(i)u, p.m - 1u) * p.a_m) / $(4 * PIECE)u + part;
#for j in 0..TN
  var sum$(i)_$(j) = vec4<f32> ();
#endfor
#endfor
#for j in 0..TN
  let b$(j) = (at.b + min (first_col + $(j)u, p.n - 1u) * p.b_n) / $(4 * PIECE)u + part;
#endfor

  for (var round = 0u; round < p.rounds; round++) {
    let k = round * $(LANES * UNROLL)u;
#for u in 0..UNROLL
#for v in 0..PIECE
#for j in 0..TN
    let y$(j)_$(u)_$(v) = load4_b ((b$(j) + k + $(u * LANES)u) * $(PIECE)u + $(v)u);
#endfor
#for i in 0..TM
    let x$(i)_$(u)_$(v) = load4_a ((a$(i) + k + $(u * LANES)u) * $(PIECE)u + $(v)u);
#endfor
#endfor
#endfor
#for u in 0..UNROLL
#for v in 0..PIECE
#for i in 0..TM
#for j in 0..TN
    sum$(i)_$(j) = fma (x$(i)_$(u)_$(v), y$(j)_$(u)_$(v), sum$(i)_$(j));
#endfor
#endfor
#endfor
#endfor
  }
#if REST
  for (var k = p.rounds * $(LANES * UNROLL)u; k + part < p.pieces; k += $(LANES)u) {
#for v in 0..PIECE
#for j in 0..TN
    let y$(j)_$(v) = load4_b ((b$(j) + k) * $(PIECE)u + $(v)u);
#endfor
#for i in 0..TM
    let x$(i)_$(v) = load4_a ((a$(i) + k) * $(PIECE)u + $(v)u);
#for j in 0..TN
    sum$(i)_$(j) = fma (x$(i)_$(v), y$(j)_$(v), sum$(i)_$(j));
#endfor
#endfor
#endfor
  }
#endif

#for i in 0..TM
#for j in 0..TN
  partial[(team * $(TN)u + $(j)u) * $(TM)u + $(i)u][part] = (sum$(i)_$(j).x + sum$(i)_$(j).y) + (sum$(i)_$(j).z + sum$(i)_$(j).w);
#endfor
#endfor
  // Halved until 16 sums are left, which one lane adds up.
#if LANES > 16
  for (var width = $(LANES / 2)u; width > 8u; width /= 2u) {
    workgroupBarrier ();
    if (part < width) {
#for i in 0..TN * TM
      partial[team * $(TN * TM)u + $(i)u][part] += partial[team * $(TN * TM)u + $(i)u][part + width];
#endfor
    }
  }
#endif
  workgroupBarrier ();
  let mine = lane < $(WG / LANES * TN * TM)u;
  let row = to.row + lane % $(TM)u;
  let col = to.col + lane / $(TM)u;
  var sum = 0.0;
  if (mine) {
#for l in 0..16
    sum += partial[lane][$(l)];
#endfor
  }
  put_if (mine & (row < p.m) & (col < p.n), to.batch, row, col, sum);
}
