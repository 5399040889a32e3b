// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sums of products as in common/tile.wgsl, where all lanes of a subgroup, TX of them, have the same TM rows. Their
// columns are adjacent, TN for each lane. The address of an element of `a`, which lies along k, is uniform in the
// subgroup: one load straight from memory serves all lanes, and the value is a scalar operand of the products. Only `b`
// goes through workgroup memory. The elements for a lane are contiguous there, so that only the index of the lane is
// not a constant.
//
// The compiler has to see that the address is uniform, and that vectors are contiguous: rows of `a` consist of pieces
// of UNIT steps, and the address of a piece serves four loads or more. With WHOLE k is a multiple of KT; otherwise UNIT
// is 4.
//
// With PACKED the elements of `b` are packed (packed/decode.wgsl): each iteration takes a block of 32, which four lanes
// unpack for each column. They unpack it just before it is used: fetching it ahead would take registers that are not
// there.
//
// A last group of rows that is not full starts earlier, and does not store the rows of the group before: there are at
// least TM rows.

#define Q KT / 4
#define PIECE UNIT / 4
#if PRODUCT
// [half][lane][step]: the columns of the lane. The stride of a lane is padded by 16 bytes to avoid bank conflicts.
var<workgroup> tile_b: array<array<array<vec$(TN)<f32>, $(KT + 4 / TN)>, $(TX)>, 2>;
#if PACKED
// How many parts a lane unpacks in an iteration.
#define PARTS BN * 4 / WG

fn fetch_part (column: u32, k: u32, j: u32) -> Part {
  return part (head (column, k / 32u), j);
}
#endif
#endif

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
  let begin = min (top, p.m - $(TM)u);
#for i in 0..TM
  var sum$(i) = vec$(TN)<f32> ();
#endfor

#if PRODUCT
#if SPLIT_K
  let rows = begin * (p.a_m / $(UNIT)u);
#else
  let rows = origin (to.batch).a / $(UNIT)u + begin * (p.a_m / $(UNIT)u);
#endif
#if PACKED
  let j = lane % 4u;
#for v in 0..PARTS
  let column$(v) = (lane + $(v * WG)u) / 4u;
  let source_b$(v) = min (to.col + column$(v), p.n - 1u);
#endfor
#else
#if B_ALONG_K
  let column = lane / $(Q)u;
  let step = lane % $(Q)u * 4u;
#else
  let column = lane % $(BN / 4)u * 4u;
  let step = lane / $(BN / 4)u;
#endif
  let source_b = begin_b (to, to.col + column, step);
  var next_b = fetch_b (source_b, to.k, to.k_end);
#endif
  for (var k = to.k; k < to.k_end; k += $(KT)u) {
    let half = k / $(KT)u % 2u;
#if PACKED
#for v in 0..PARTS
    let next_b$(v) = fetch_part (source_b$(v), k, j);
#endfor
#for v in 0..PARTS
#for c in 0..4
    tile_b[half][column$(v) / $(TN)u][first (j) + $(c)u][column$(v) % $(TN)u] = next_b$(v).a[$(c)];
    tile_b[half][column$(v) / $(TN)u][second (j) + $(c)u][column$(v) % $(TN)u] = next_b$(v).b[$(c)];
#endfor
#endfor
#elif B_ALONG_K
#for c in 0..4
    tile_b[half][column / $(TN)u][step + $(c)u][column % $(TN)u] = next_b[$(c)];
#endfor
#elif TN == 2
    tile_b[half][column / 2u][step] = next_b.xy;
    tile_b[half][column / 2u + 1u][step] = next_b.zw;
#else
    tile_b[half][column / 4u][step] = next_b;
#endif
    workgroupBarrier ();
#if !PACKED
    next_b = fetch_b (source_b, k + $(KT)u, to.k_end);
#endif
    let now = rows + k / $(UNIT)u;
#if WHOLE
    for (var q = 0u; q < $(Q)u; q += $(PIECE)u) {
#else
    let vectors = min ((to.k_end - k) / 4u, $(Q)u);
    for (var q = 0u; q < vectors; q++) {
#endif
#for i in 0..TM
#for v in 0..PIECE
      let x$(i)_$(v) = load4_a ((now + q / $(PIECE)u + $(i)u * (p.a_m / $(UNIT)u)) * $(PIECE)u + $(v)u);
#endfor
#endfor
#for v in 0..PIECE
#for u in 0..4
      let y$(v)_$(u) = tile_b[half][tx][(q + $(v)u) * 4u + $(u)u];
#for i in 0..TM
      sum$(i) = fma (vec$(TN)<f32> (x$(i)_$(v)[$(u)]), y$(v)_$(u), sum$(i));
#endfor
#endfor
#endfor
    }
  }
#endif

  // Stores the first row and moves the others up.
  for (var i = 0u; i < $(TM)u; i++) {
    let row = begin + i;
#for j in 0..TN
    let col$(j) = to.col + tx * $(TN)u + $(j)u;
    put_if ((row >= top) & (row < p.m) & (col$(j) < p.n), to.batch, row, col$(j), sum0[$(j)]);
#endfor
#for i in 1..TM
    sum$(i - 1) = sum$(i);
#endfor
  }
}
