// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sums of products on a GPU: a workgroup of TX · TY invocations makes a tile of BM rows
// and BN columns, an invocation TM · TN of its sums. What the operands are is up to the
// kernel that includes this. It has
//
//   struct Place and place (group): the tile, and the steps of its sums;
//   struct SourceA, begin_a (to, row, k) and fetch_a (source, k, end) -> vec4<f32>, and
//     the same for b: the loader. With A_ALONG_K a vector is four steps of one row, from
//     `k` on; otherwise it is four rows, from `row` on, at one step. `begin` does what is
//     the same for all steps, `fetch` gives zeros from the step `end` on, whatever is there;
//   put_if (there, batch, row, col, sum): the epilogue.
//
// Tiles go through workgroup memory, KT steps at a time. An invocation brings one vector
// of each operand and stores it as it is: whichever way an operand lies, nothing is
// turned, only read otherwise. The words of the next tile are fetched while this one is
// multiplied: memory has a whole step to answer. Tiles alternate between two halves of
// workgroup memory, so one barrier a step is enough: who writes a half has passed the
// barrier that all reach only when they have read that half.
//
// An operand along k is stored with its vectors swapped about, vector q of row n at q ^ (n · Q / 8) % Q for Q = KT / 4, so
// that neither stores nor reads have bank conflicts, without padding: doc/kernels.md counts them, registers and bytes.
//
// With REGISTERS there is no workgroup memory and no barrier: an invocation fetches what
// it needs itself, four steps at a time. For 4 x 4 these are 8 vectors for 64 products, and
// neighbours fetch the same ones, which is what a cache is for. This is for devices whose
// workgroup memory is a part of ordinary memory, V3D above all: 16 sums, 20 words of
// operands and 10 to 20 for addresses are below the 64 registers a lane has there.
//
// With ROWS all lanes of a subgroup, TX of them, have the same rows, and their columns lie side by
// side. So the address of a vector of `a` is the same in the subgroup: one load brings it for all
// lanes, straight from memory, and its numbers are scalar operands of the products. Only `b`
// goes through workgroup memory. This is for vectors of `a` along k, of which there are whole
// ones. WHOLE says that k is a multiple of KT: a loop with a constant bound is unrolled. Behind
// the last step `b` is zero, but `a` may be anything, and is not read.
//
// Results leave row by row in a loop; unrolled, the epilogue would be there TM · TN times.

// The columns of a vector of sums.
#if ROWS
#define V 2
#else
#define V 4
#endif

#if PRODUCT
#define Q KT / 4
#if !REGISTERS
#if !ROWS
var<workgroup> tile_a: array<vec4<f32>, $(2 * BM * Q)>;
#endif
#if ROWS && !B_ALONG_K
var<workgroup> tile_b: array<vec2<f32>, $(4 * BN * Q)>;
#else
var<workgroup> tile_b: array<vec4<f32>, $(2 * BN * Q)>;
#endif

#if (A_ALONG_K && !ROWS) || B_ALONG_K
// Where the steps from 4 · q on of row or column n are.
fn turn (n: u32, q: u32) -> u32 {
  return n * $(Q)u + (q ^ (n / $(8 / Q)u % $(Q)u));
}
#endif
#endif
#endif

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let to = place (group);
#if ROWS
  let tx = lane % $(TX)u;
  let ty = subgroupBroadcastFirst (lane / $(TX)u);
#elif TX == 16
  let tx = lane % 8u + lane / 32u % 2u * 8u;
  let ty = lane / 8u % 4u + lane / 64u * 4u;
#else
  let tx = lane % $(TX)u;
  let ty = lane / $(TX)u;
#endif
#for i in 0..TM
#for g in 0..TN / V
  var sum$(i)_$(g) = vec$(V)<f32> ();
#endfor
#endfor

#if PRODUCT
#if REGISTERS
#if A_ALONG_K
#for i in 0..TM
  let source_a$(i) = begin_a (to, to.row + ty + $(i * TY)u, 0u);
#endfor
#else
#for g in 0..TM / 4
  let source_a$(g) = begin_a (to, to.row + (ty + $(g * TY)u) * 4u, 0u);
#endfor
#endif
#if B_ALONG_K
#for j in 0..TN
  let source_b$(j) = begin_b (to, to.col + tx + $(j * TX)u, 0u);
#endfor
#else
#for g in 0..TN / 4
  let source_b$(g) = begin_b (to, to.col + (tx + $(g * TX)u) * 4u, 0u);
#endfor
#endif
#else
#if ROWS
#for i in 0..TM
  let row$(i) = begin_a (to, to.row + ty + $(i * TY)u, 0u).at / 4u;
#endfor
#elif A_ALONG_K
  let source_a = begin_a (to, to.row + lane / $(Q)u, lane % $(Q)u * 4u);
  let slot_a = turn (lane / $(Q)u, lane % $(Q)u);
#else
  let source_a = begin_a (to, to.row + lane % $(BM / 4)u * 4u, lane / $(BM / 4)u);
  let slot_a = lane;
#endif
#if B_ALONG_K
  let source_b = begin_b (to, to.col + lane / $(Q)u, lane % $(Q)u * 4u);
  let slot_b = turn (lane / $(Q)u, lane % $(Q)u);
#else
  let source_b = begin_b (to, to.col + lane % $(BN / 4)u * 4u, lane / $(BN / 4)u);
  let slot_b = lane;
#endif
#if !ROWS
  var next_a = fetch_a (source_a, to.k, to.k_end);
#endif
  var next_b = fetch_b (source_b, to.k, to.k_end);
  var half = 0u;
#endif

  for (var k = to.k; k < to.k_end; k += $(KT)u) {
#if REGISTERS
    {
#if A_ALONG_K
#for i in 0..TM
      let x$(i) = fetch_a (source_a$(i), k, to.k_end);
#endfor
#else
#for u in 0..4
#for g in 0..TM / 4
      let x$(u)_$(g) = fetch_a (source_a$(g), k + $(u)u, to.k_end);
#endfor
#endfor
#endif
#if B_ALONG_K
#for j in 0..TN
      let w$(j) = fetch_b (source_b$(j), k, to.k_end);
#endfor
#else
#for u in 0..4
#for g in 0..TN / 4
      let y$(u)_$(g) = fetch_b (source_b$(g), k + $(u)u, to.k_end);
#endfor
#endfor
#endif
#else
#if !ROWS
    let half_a = half * $(BM * Q)u;
    tile_a[half_a + slot_a] = next_a;
#endif
    let half_b = half * $(BN * Q)u;
#if ROWS && !B_ALONG_K
    tile_b[(half_b + slot_b) * 2u] = next_b.xy;
    tile_b[(half_b + slot_b) * 2u + 1u] = next_b.zw;
#else
    tile_b[half_b + slot_b] = next_b;
#endif
    workgroupBarrier ();
    // behind the last step these are zeros, and nobody reads them
#if !ROWS
    next_a = fetch_a (source_a, k + $(KT)u, to.k_end);
#endif
    next_b = fetch_b (source_b, k + $(KT)u, to.k_end);
    half = 1u - half;
#if ROWS && !WHOLE
    let vectors = min ((to.k_end - k) / 4u, $(Q)u);
    for (var q = 0u; q < vectors; q++) {
#else
    for (var q = 0u; q < $(Q)u; q++) {
#endif
#if ROWS
#for i in 0..TM
      let x$(i) = load4_a (row$(i) + k / 4u + q);
#endfor
#elif A_ALONG_K
#for i in 0..TM
      let x$(i) = tile_a[half_a + turn (ty + $(i * TY)u, q)];
#endfor
#else
#for u in 0..4
#for g in 0..TM / 4
      let x$(u)_$(g) = tile_a[half_a + q * $(BM)u + ty + $(u * (BM / 4) + g * TY)u];
#endfor
#endfor
#endif
#if B_ALONG_K
#for j in 0..TN
      let w$(j) = tile_b[half_b + turn (tx + $(j * TX)u, q)];
#endfor
#else
#for u in 0..4
#for g in 0..TN / V
#if ROWS
      let y$(u)_$(g) = tile_b[half_b * 2u + q * $(BN * 2)u + tx + $(u * (BN / 2) + g * TX)u];
#else
      let y$(u)_$(g) = tile_b[half_b + q * $(BN)u + tx + $(u * (BN / 4) + g * TX)u];
#endif
#endfor
#endfor
#endif
#endif
#for u in 0..4
#for g in 0..TN / V
#if B_ALONG_K && ROWS
      let y$(u)_$(g) = vec2<f32> (w$(g * 2)[$(u)], w$(g * 2 + 1)[$(u)]);
#elif B_ALONG_K
      let y$(u)_$(g) = vec4<f32> (w$(g * 4)[$(u)], w$(g * 4 + 1)[$(u)], w$(g * 4 + 2)[$(u)], w$(g * 4 + 3)[$(u)]);
#endif
#for i in 0..TM
#if A_ALONG_K
      sum$(i)_$(g) = fma (vec$(V)<f32> (x$(i)[$(u)]), y$(u)_$(g), sum$(i)_$(g));
#else
      sum$(i)_$(g) = fma (vec4<f32> (x$(u)_$(i / 4)[$(i % 4)]), y$(u)_$(g), sum$(i)_$(g));
#endif
#endfor
#endfor
#endfor
    }
  }
#endif

  // The first row leaves, the others move up.
  for (var i = 0u; i < $(TM)u; i++) {
#if A_ALONG_K
    let row = to.row + ty + i * $(TY)u;
#else
    let row = to.row + (ty + i / 4u * $(TY)u) * 4u + i % 4u;
#endif
#for j in 0..TN
#if B_ALONG_K
    let col$(j) = to.col + tx + $(j * TX)u;
#else
    let col$(j) = to.col + tx * $(V)u + $(j / V * TX * V + j % V)u;
#endif
    put_if ((row < p.m) & (col$(j) < p.n), to.batch, row, col$(j), sum0_$(j / V)[$(j % V)]);
#endfor
#for i in 1..TM
#for g in 0..TN / V
    sum$(i - 1)_$(g) = sum$(i)_$(g);
#endfor
#endfor
  }
}
