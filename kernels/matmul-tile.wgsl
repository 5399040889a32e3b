// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A product of matrices on a GPU. A workgroup of TX · TY invocations makes a tile of
// BM · BN; both operands go through workgroup memory, KT steps of k at a time, an
// invocation keeps TM · TN sums. For each k it reads TM + TN numbers of workgroup
// memory for TM · TN products: 2 products a read for 4 x 4, 4 for 8 x 8. From memory
// come BM + BN numbers for BM · BN products, so 32 x 32 has an intensity of 8 flops
// a byte, 64 x 64 of 16, 128 x 128 of 32. Rows of `a` are padded by one word against
// bank conflicts of its transposing store; columns of an invocation lie TX apart, so
// that neighbours read and write neighbouring words.

#define BM TM * TY
#define BN TN * TX
#include "common/product.wgsl"

// [k][m], [k][n]
var<workgroup> tile_a: array<f32, $(KT * (BM + 1))>;
var<workgroup> tile_b: array<f32, $(KT * BN)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let to = place (group);
  let tx = lane % $(TX)u;
  let ty = lane / $(TX)u;
#for i in 0..TM
#for j in 0..TN
  var sum$(i)_$(j) = 0.0;
#endfor
#endfor

#if PRODUCT
#if PARTS
  let at = Origin (0u, 0u);
#else
  let at = origin (to.batch);
#endif
  for (var k0 = to.k; k0 < to.k_end; k0 += $(KT)u) {
    for (var e = lane; e < $(KT * BM)u; e += $(WG)u) {
#if A_ALONG_K
      let k = e % $(KT)u;
      let m = e / $(KT)u;
#else
      let m = e % $(BM)u;
      let k = e / $(BM)u;
#endif
      let value = load_a (at.a + min (to.row + m, p.m - 1u) * p.a_m + min (k0 + k, to.k_end - 1u) * p.a_k);
      // zeros beyond the end make whatever `b` holds there harmless, but not NaN
      tile_a[k * $(BM + 1)u + m] = select (0.0, value, k0 + k < to.k_end);
    }
    for (var e = lane; e < $(KT * BN)u; e += $(WG)u) {
#if B_ALONG_K
      let k = e % $(KT)u;
      let n = e / $(KT)u;
#else
      let n = e % $(BN)u;
      let k = e / $(BN)u;
#endif
      let value = load_b (at.b + min (to.col + n, p.n - 1u) * p.b_n + min (k0 + k, to.k_end - 1u) * p.b_k);
      tile_b[k * $(BN)u + n] = select (0.0, value, k0 + k < to.k_end);
    }
    workgroupBarrier ();
    for (var k = 0u; k < $(KT)u; k++) {
#for i in 0..TM
      let x$(i) = tile_a[k * $(BM + 1)u + ty * $(TM)u + $(i)u];
#endfor
#for j in 0..TN
      let y$(j) = tile_b[k * $(BN)u + tx + $(j * TX)u];
#endfor
#for i in 0..TM
#for j in 0..TN
      sum$(i)_$(j) = fma (x$(i), y$(j), sum$(i)_$(j));
#endfor
#endfor
    }
    workgroupBarrier ();
  }
#endif

#for i in 0..TM
#for j in 0..TN
  if (to.row + ty * $(TM)u + $(i)u < p.m && to.col + tx + $(j * TX)u < p.n) {
    put (to.batch, to.row + ty * $(TM)u + $(i)u, to.col + tx + $(j * TX)u, sum$(i)_$(j));
  }
#endfor
#endfor
}
