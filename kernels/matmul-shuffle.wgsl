// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[batch, m, n] = epilogue (alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias)
//
// For CPU drivers that have subgroups of eight lanes and run each as one vector: a subgroup computes TM rows, a lane TN
// columns of each, as with LANES in matmul.wgsl. There is no workgroup memory and no barrier. These choices follow from
// the measurements in doc/kernels.md:
//
// - `a` is gathered too, UNROLL steps of k of ROWS rows at a time, and each word is broadcast to all lanes by a
//   shuffle. The driver must not see that its index is uniform, hence lane >> 3, which is 0.
// - The sums are an array that the loop at the end indexes: that keeps them in memory, which is faster here than
//   variables that are copied in every iteration. With a bound of 32 or less that loop would be unrolled.
// - One load across all lanes from each cache line, AHEAD words before it is needed, triggers the prefetcher. Its value
//   is used for something that never happens, so that it is not optimised away.
//
// With PANEL the weights are laid out as [columns / PANEL][k][PANEL], one stream each. With PAIRS and A_PAIRS, which
// are for 16-bit floats, a word has two columns of b, and two steps of k of a.

#define BM TM
#define BN LANES * TN
#include "common/product.wgsl"

#define PER_A 1 + A_PAIRS
#define PER_B 1 + PAIRS
#define ALONG UNROLL / PER_A
#define ROWS 8 / ALONG
#define GATHERS (TM + ROWS - 1) / ROWS
#define WORDS PANEL / PER_B
#define LINE 16
#define AHEAD 512

// The driver checks the byte offset of a load, as a signed number, against 0 and against the size of the tensor. It
// omits the first check if it can see that a sum of two such numbers is not negative.
fn small (i: u32) -> u32 {
  return i & $(SMALL)u;
}

// The column of a lane's sum.
fn column (first: u32, lane: u32, j: u32) -> u32 {
  return first + lane * $(PER_B)u + j / $(PER_B)u * $(PER_B * LANES)u + j % $(PER_B)u;
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32,
         @builtin(subgroup_invocation_id) sub: u32) {
  let group = workgroup_index (wid);
  let to = place (group);
#if EVEN
  let k_end = to.k_end;
#else
  // After an early return everything would run under one more mask. Instead, a workgroup past the last one has no rows
  // and no steps.
  let rows = select (0u, min ($(TM)u, p.m - to.row), group < p.groups);
  let k_end = select (to.k, to.k_end, rows > 0u);
#endif
#if SPLIT_K
  let at = Origin (0u, 0u);
#else
  let at = origin (to.batch);
#endif

#for i in 0..GATHERS
  let row$(i) = at.a + min (to.row + $(i * ROWS)u + sub / $(ALONG)u, p.m - 1u) * p.a_m;
  let a$(i) = small ((row$(i) + sub % $(ALONG)u * $(PER_A)u * p.a_k) / $(PER_A)u);
#endfor
#if PANEL
  // Clamped to the last panel.
#for q in 0..BN / PANEL
  let b$(q) = min (to.col + $(q * PANEL)u, (p.n - 1u) / $(PANEL)u * $(PANEL)u) * p.k;
#endfor
  var seen = 0u;
#else
#for j in 0..TN / PER_B
  let col$(j) = min (to.col + (lane + $(j * LANES)u) * $(PER_B)u, p.n - $(PER_B)u);
  let b$(j) = small ((at.b + col$(j) * p.b_n) / $(PER_B)u);
#endfor
#endif

  let none = sub >> 3u;
  var sum: array<f32, $(TM * TN)>;
  let whole = to.k + (k_end - to.k) / $(UNROLL)u * $(UNROLL)u;
  for (var k = to.k; k < whole; k += $(UNROLL)u) {
#if PANEL
#for q in 0..BN / PANEL
    let w$(q) = small ((b$(q) + k * $(PANEL)u) / $(PER_B)u);
    let ahead$(q) = min (w$(q) + $(AHEAD)u, p.b_last);
#for z in 0..UNROLL * WORDS / LINE
#if PAIRS
    seen |= bitcast<u32> (load2_b (ahead$(q) + $(z * LINE)u).x);
#else
    seen |= bitcast<u32> (load_b (ahead$(q) + $(z * LINE)u));
#endif
#endfor
#endfor
#endif

    let step = small (k * p.a_k / $(PER_A)u);
#for i in 0..GATHERS
#if A_PAIRS
    let v$(i) = load2_a (a$(i) + step);
#else
    let v$(i) = load_a (a$(i) + step);
#endif
#endfor
#for u in 0..UNROLL
#if !PANEL
    let down$(u) = small ((k + $(u)u) * p.b_k / $(PER_B)u);
#endif
#for j in 0..TN / PER_B
#if PANEL && PAIRS
    let y$(u)_$(j) = load2_b (w$(j * LANES / WORDS) + lane + $(u * WORDS + j * LANES % WORDS)u);
#elif PANEL
    let y$(u)_$(j) = load_b (w$(j * LANES / WORDS) + lane + $(u * WORDS + j * LANES % WORDS)u);
#elif PAIRS
    let y$(u)_$(j) = load2_b (b$(j) + down$(u));
#else
    let y$(u)_$(j) = load_b (b$(j) + down$(u));
#endif
#endfor
#endfor

#for i in 0..TM
#for u in 0..UNROLL
#if A_PAIRS
    let x$(i)_$(u) = subgroupShuffle (v$(i / ROWS)[$(u % 2)], none + $(i % ROWS * ALONG + u / 2)u);
#else
    let x$(i)_$(u) = subgroupShuffle (v$(i / ROWS), none + $(i % ROWS * ALONG + u)u);
#endif
#endfor
#for j in 0..TN / PER_B
    let t$(i)_$(j)_0 = x$(i)_0 * y0_$(j);
#for u in 1..UNROLL
#if PAIRS
    let t$(i)_$(j)_$(u) = fma (vec2<f32> (x$(i)_$(u)), y$(u)_$(j), t$(i)_$(j)_$(u - 1));
#else
    let t$(i)_$(j)_$(u) = fma (x$(i)_$(u), y$(u)_$(j), t$(i)_$(j)_$(u - 1));
#endif
#endfor
#if PAIRS
    sum[$(i * TN + j * 2)] += t$(i)_$(j)_$(UNROLL - 1).x;
    sum[$(i * TN + j * 2 + 1)] += t$(i)_$(j)_$(UNROLL - 1).y;
#else
    sum[$(i * TN + j)] += t$(i)_$(j)_$(UNROLL - 1);
#endif
#endfor
#endfor
  }
#if PANEL
  if (p.m == 0u) {
    sum[0] = bitcast<f32> (seen);
  }
#endif

#if !WHOLE
  // The last few steps.
  for (var k = whole; k < k_end; k++) {
#for j in 0..TN / PER_B
#if PANEL && PAIRS
    let y$(j) = load2_b ((b$(j * LANES / WORDS) + k * $(PANEL)u) / 2u + lane + $(j * LANES % WORDS)u);
#elif PANEL
    let y$(j) = load_b (b$(j * LANES / WORDS) + k * $(PANEL)u + lane + $(j * LANES % WORDS)u);
#elif PAIRS
    let y$(j) = load2_b (b$(j) + k * p.b_k / 2u);
#else
    let y$(j) = load_b (b$(j) + k * p.b_k);
#endif
#endfor
#for i in 0..TM
    let x$(i) = load_a (at.a + min (to.row + $(i)u, p.m - 1u) * p.a_m + k * p.a_k);
#for j in 0..TN / PER_B
#if PAIRS
    sum[$(i * TN + j * 2)] = fma (x$(i), y$(j).x, sum[$(i * TN + j * 2)]);
    sum[$(i * TN + j * 2 + 1)] = fma (x$(i), y$(j).y, sum[$(i * TN + j * 2 + 1)]);
#else
    sum[$(i * TN + j)] = fma (x$(i), y$(j), sum[$(i * TN + j)]);
#endif
#endfor
#endfor
  }
#endif

#if SPLIT
  // All columns of a workgroup belong to one result: the loops of the others never run.
  let first0 = 0u;
#for o in 1..OUTPUTS
  let first$(o) = first$(o - 1) + p.width$(o - 1);
#endfor
#for o in 0..OUTPUTS
  for (var i = select ($(TM * TN)u, 0u, to.col - first$(o) < p.width$(o)); i < $(TM * TN)u; i++) {
    let row = to.row + i / $(TN)u;
    let col = column (to.col, lane, i % $(TN)u);
    store_y$(o) (row * p.width$(o) + col - first$(o), biased (to.batch, row, col, sum[i]));
  }
#endfor
#elif EVEN
  for (var i = 0u; i < $(TM * TN)u; i++) {
    put (to.batch, to.row + i / $(TN)u, column (to.col, lane, i % $(TN)u), sum[i]);
  }
#else
#if TM * TN > 32
  for (var i = 0u; i < $(TM * TN)u; i++) {
#else
  for (var i = 0u; i < rows * $(TN)u; i++) {
#endif
    let col = column (to.col, lane, i % $(TN)u);
    put_if ((i < rows * $(TN)u) & (col < p.n), to.batch, to.row + i / $(TN)u, col, sum[i]);
  }
#endif
}
