// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sums of products on a GPU: a workgroup of TX · TY invocations computes a tile of BM rows and BN columns, an
// invocation TM · TN of its sums. The kernel that includes this file defines the operands:
//
//   struct Place and place (group): the tile, and the steps of its sums;
//   struct SourceA, begin_a (to, row, k) and fetch_a (source, k, end) -> vec4<f32>, and
//     the same for b: the loader. With A_ALONG_K a vector is four steps of one row, from
//     `k` on; otherwise it is four rows, from `row` on, at one step. `begin` computes what is
//     the same for all steps, `fetch` returns zeros from step `end` on, whatever is there;
//   put_if (there, batch, row, col, sum): the epilogue.
//
// Tiles go through workgroup memory, KT steps at a time. An invocation loads NA or NB vectors of each operand and
// stores them as they are: whatever the layout of an operand, nothing is transposed, only read differently. The next
// tile is fetched while the current one is multiplied, so that memory has a whole step to respond. Tiles alternate
// between two halves of workgroup memory, so one barrier per step is enough: an invocation that writes a half has
// passed a barrier that the others only reach after reading that half.
//
// An index that varies between lanes is clamped, and then reads have no constant offsets. What an invocation reads is
// therefore contiguous, [half][row or column of invocations][what it reads], and the last index is a constant. For four
// steps from 4 · q on it reads T vectors of its row or column n: along k, one for each of its T rows or columns;
// otherwise T / 4 for each of the four steps. With PAD there are gaps between these, and rows have an odd number of
// vectors, so that neither stores nor reads have bank conflicts: doc/kernels.md counts these, registers and bytes.
//
// With REGISTERS there is no workgroup memory and no barrier: an invocation fetches its own operands, four steps at a
// time. For 4 x 4 these are 8 vectors for 64 products, and neighbours fetch the same ones, from the cache. This is for
// devices whose workgroup memory is part of ordinary memory, V3D above all: 16 sums, 20 words of operands and 10 to 20
// for addresses are below the 64 registers a lane has there.
//
// With TURNS = 2 the loop is unrolled for both halves of workgroup memory, so that selecting one takes no instruction.
// k is a multiple of 2 · KT then.
//
// Results are stored row by row in a loop; unrolled, there would be TM · TN copies of the epilogue.

#if PRODUCT
#define Q KT / 4
#if !REGISTERS
#define NA BM * Q / WG
#define NB BN * Q / WG
#define GAP_A TM + PAD
#define GAP_B TN + PAD
// Rounds up to an odd number.
#define ROW_A Q * GAP_A + PAD * (1 - Q * GAP_A % 2)
#define ROW_B Q * GAP_B + PAD * (1 - Q * GAP_B % 2)
var<workgroup> tile_a: array<array<array<vec4<f32>, $(ROW_A)>, $(TY)>, 2>;
var<workgroup> tile_b: array<array<array<vec4<f32>, $(ROW_B)>, $(TX)>, 2>;
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
#if TX == 16
  let tx = lane % 8u + lane / 32u % 2u * 8u;
  let ty = lane / 8u % 4u + lane / 64u * 4u;
#else
  let tx = lane % $(TX)u;
  let ty = lane / $(TX)u;
#endif
#for i in 0..TM
#for g in 0..TN / 4
  var sum$(i)_$(g) = vec4<f32> ();
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
  // The row or column of invocations that reads what this invocation loads, and its position there.
#for v in 0..NA
  let brings_a$(v) = lane + $(v * WG)u;
#if A_ALONG_K
  let across_a$(v) = brings_a$(v) / $(Q)u;
  let source_a$(v) = begin_a (to, to.row + across_a$(v), brings_a$(v) % $(Q)u * 4u);
  let slot_a$(v) = brings_a$(v) % $(Q)u * $(GAP_A)u + across_a$(v) / $(TY)u;
#else
  let across_a$(v) = brings_a$(v) % $(BM / 4)u;
  let step_a$(v) = brings_a$(v) / $(BM / 4)u;
  let source_a$(v) = begin_a (to, to.row + across_a$(v) * 4u, step_a$(v));
  let slot_a$(v) = step_a$(v) / 4u * $(GAP_A)u + step_a$(v) % 4u * $(TM / 4)u + across_a$(v) / $(TY)u;
#endif
  var next_a$(v) = fetch_a (source_a$(v), to.k, to.k_end);
#endfor
#for v in 0..NB
  let brings_b$(v) = lane + $(v * WG)u;
#if B_ALONG_K
  let across_b$(v) = brings_b$(v) / $(Q)u;
  let source_b$(v) = begin_b (to, to.col + across_b$(v), brings_b$(v) % $(Q)u * 4u);
  let slot_b$(v) = brings_b$(v) % $(Q)u * $(GAP_B)u + across_b$(v) / $(TX)u;
#else
  let across_b$(v) = brings_b$(v) % $(BN / 4)u;
  let step_b$(v) = brings_b$(v) / $(BN / 4)u;
  let source_b$(v) = begin_b (to, to.col + across_b$(v) * 4u, step_b$(v));
  let slot_b$(v) = step_b$(v) / 4u * $(GAP_B)u + step_b$(v) % 4u * $(TN / 4)u + across_b$(v) / $(TX)u;
#endif
  var next_b$(v) = fetch_b (source_b$(v), to.k, to.k_end);
#endfor
#if TURNS == 1
  var half = 0u;
#endif
#endif

  for (var k = to.k; k < to.k_end; k += $(TURNS * KT)u) {
#for h in 0..TURNS
#if TURNS > 1
    {
    let half = $(h)u;
#endif
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
#for v in 0..NA
    tile_a[half][across_a$(v) % $(TY)u][slot_a$(v)] = next_a$(v);
#endfor
#for v in 0..NB
    tile_b[half][across_b$(v) % $(TX)u][slot_b$(v)] = next_b$(v);
#endfor
    workgroupBarrier ();
    // Fetched past the last step, these are never read.
#for v in 0..NA
    next_a$(v) = fetch_a (source_a$(v), k + $((h + 1) * KT)u, to.k_end);
#endfor
#for v in 0..NB
    next_b$(v) = fetch_b (source_b$(v), k + $((h + 1) * KT)u, to.k_end);
#endfor
    for (var q = 0u; q < $(Q)u; q++) {
#if A_ALONG_K
#for i in 0..TM
      let x$(i) = tile_a[half][ty][q * $(GAP_A)u + $(i)u];
#endfor
#else
#for u in 0..4
#for g in 0..TM / 4
      let x$(u)_$(g) = tile_a[half][ty][q * $(GAP_A)u + $(u * (TM / 4) + g)u];
#endfor
#endfor
#endif
#if B_ALONG_K
#for j in 0..TN
      let w$(j) = tile_b[half][tx][q * $(GAP_B)u + $(j)u];
#endfor
#else
#for u in 0..4
#for g in 0..TN / 4
      let y$(u)_$(g) = tile_b[half][tx][q * $(GAP_B)u + $(u * (TN / 4) + g)u];
#endfor
#endfor
#endif
#endif
#for u in 0..4
#for g in 0..TN / 4
#if B_ALONG_K
      let y$(u)_$(g) = vec4<f32> (w$(g * 4)[$(u)], w$(g * 4 + 1)[$(u)], w$(g * 4 + 2)[$(u)], w$(g * 4 + 3)[$(u)]);
#endif
#for i in 0..TM
#if A_ALONG_K
      sum$(i)_$(g) = fma (vec4<f32> (x$(i)[$(u)]), y$(u)_$(g), sum$(i)_$(g));
#else
      sum$(i)_$(g) = fma (vec4<f32> (x$(u)_$(i / 4)[$(i % 4)]), y$(u)_$(g), sum$(i)_$(g));
#endif
#endfor
#endfor
#endfor
    }
#if TURNS > 1
    }
#elif !REGISTERS
    half = 1u - half;
#endif
#endfor
  }
#endif

  // Stores the first row and moves the others up.
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
    let col$(j) = to.col + tx * 4u + $(j / 4 * TX * 4 + j % 4)u;
#endif
    put_if ((row < p.m) & (col$(j) < p.n), to.batch, row, col$(j), sum0_$(j / 4)[$(j % 4)]);
#endfor
#for i in 1..TM
#for g in 0..TN / 4
    sum$(i - 1)_$(g) = sum$(i)_$(g);
#endfor
#endfor
  }
}
