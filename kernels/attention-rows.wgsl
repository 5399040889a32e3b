// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for many queries, on a CPU: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// A workgroup has eight lanes. Each takes TR queries of one head and COLS columns of the values, and iterates over the
// keys TK at a time: products, weights relative to the largest score so far, weighted values added to the sums, which
// are rescaled when the largest score has grown. Lanes share nothing, so there is no workgroup memory and no barrier,
// and keys and values have the same address in all lanes.
//
// A driver for CPUs runs eight lanes as one vector, and the cost of loads dominates (doc/kernels.md). Loads precede the
// products, because each load has branches: within one basic block the sums stay in registers.
//
// - With WIDTH, the width of keys and values, the only loop is that over the keys. The queries are loaded once, into an
//   array that is only read with constant indices and so becomes plain vectors; likewise the sums.
// - Without WIDTH, for wide heads and little work, there are loops over columns, four at a time.
//
// On a GPU every lane would read the same key, a quarter of its loads would hit different cache lines, and the sums
// would spill to memory: use attention-tile.wgsl there.
//
// With HIDE a key that is masked out is not multiplied, so a NaN there does no harm. Without HIDE, only the last block
// of keys may have places without a key, and a score of -∞ comes from an infinite query or key: its weight is 0, which
// is multiplied.

#include "common/attention.wgsl"

#define HIDE CAUSAL || WINDOW || MASK
#define STEP 1 + 3 * VEC

#if TR == 4
alias Rows = vec4<f32>;
alias Flags = vec4<bool>;
alias Places = vec4<u32>;
#else
alias Rows = f32;
alias Flags = bool;
alias Places = u32;
#endif

fn weigh_rows (x: Rows) -> Rows {
#if TR == 4
  return Rows (weigh (x.x), weigh (x.y), weigh (x.z), weigh (x.w));
#else
  return weigh (x);
#endif
}

fn cap_rows (x: Rows) -> Rows {
#if SOFTCAP && TR == 4
  return Rows (cap (x.x), cap (x.y), cap (x.z), cap (x.w));
#elif SOFTCAP
  return cap (x);
#else
  return x * p.scale;
#endif
}

fn first_seen_rows (query: Places, count: u32) -> Places {
#if TR == 4
  return Places (first_seen (query.x, count), first_seen (query.y, count), first_seen (query.z, count), first_seen (query.w, count));
#else
  return first_seen (query, count);
#endif
}

fn end_seen_rows (query: Places, count: u32) -> Places {
#if TR == 4
  return Places (end_seen (query.x, count), end_seen (query.y, count), end_seen (query.z, count), end_seen (query.w, count));
#else
  return end_seen (query, count);
#endif
}

#if MASK
// The mask of all rows, at the places `at`; a single load where all rows share one mask.
fn load_mask_rows (at: Places) -> ${MASK_TYPE} {
#if TR == 4 && MASK_ROWS
  return ${MASK_TYPE} (load_mask (at.x), load_mask (at.y), load_mask (at.z), load_mask (at.w));
#elif TR == 4
  return ${MASK_TYPE} (load_mask (at.x));
#else
  return load_mask (at);
#endif
}
#endif

#if WIDTH
// The columns of a lane's rows. Written in a loop, but only read with constant indices.
var<private> queries: array<Rows, $(WIDTH)>;
#endif
// The sums of a lane's rows, column by column; private to the lane.
var<private> sums: array<Rows, $(COLS)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first_query = (group % p.tiles) * $(WG * TR)u;
  let last_query = min (first_query + $(WG * TR - 1)u, p.queries - 1u);
  let first_col = (group / p.tiles % p.chunks) * $(COLS)u;
  let cols = min (p.columns - first_col, $(COLS)u);
  let head = group / p.tiles / p.chunks % p.heads;
  let batch = group / p.tiles / p.chunks / p.heads;
  let count = count_keys (batch);
#if TR == 4
  let own_query = first_query + lane + Places (0u, $(WG)u, $(2 * WG)u, $(3 * WG)u);
#else
  let own_query = first_query + lane;
#endif
  let query = min (own_query, Places (last_query));
#if HIDE
  let first = first_seen_rows (query, count);
  let end = end_seen_rows (query, count);
#endif
#if SCORES
  let q = batch * p.q_batch + head * p.q_head + query * p.q_row;
  let k = batch * p.k_batch + (head / p.share) * p.k_head;
#endif
  let v = batch * p.v_batch + (head / p.share) * p.v_head + first_col;
#if MASK && MASK_ROWS
  let mask = mask_row (batch, head, 0u) + query * p.mask_query;
#elif MASK
  let mask = Places (mask_row (batch, head, 0u));
#endif

#if WIDTH
  for (var d = 0u; d < p.width; d += 4u) {
    let qa = load4_query ((q.x + d) / 4u);
    let qb = load4_query ((q.y + d) / 4u);
    let qc = load4_query ((q.z + d) / 4u);
    let qd = load4_query ((q.w + d) / 4u);
#for u in 0..4
    queries[d + $(u)u] = Rows (qa[$(u)], qb[$(u)], qc[$(u)], qd[$(u)]);
#endfor
  }
#for c in 0..WIDTH
  var sum$(c) = Rows (0.0);
#endfor
#endif
  var top = Rows (LOWEST);
  var total = Rows (0.0);
  let limit = end_seen (last_query, count);
  for (var block = first_seen (first_query, count); block < limit; block += $(TK)u) {
    let last = limit - 1u - block;
#for j in 0..TK
    var s$(j) = Rows (0.0);
    let row$(j) = block + min ($(j)u, last);
#endfor

#if WIDTH
#for j in 0..TK
#for d in 0..WIDTH / 4
    let k$(j)_$(d) = load4_key ((k + row$(j) * p.k_row) / 4u + $(d)u);
#endfor
#endfor
#for j in 0..TK
#for d in 0..WIDTH / 4
#for u in 0..4
    s$(j) = fma (queries[$(4 * d + u)], Rows (k$(j)_$(d)[$(u)]), s$(j));
#endfor
#endfor
#endfor
#elif SCORES
    for (var d = 0u; d < p.width; d += $(STEP)u) {
#if VEC && TR == 4
      let qa = load4_query ((q.x + d) / 4u);
      let qb = load4_query ((q.y + d) / 4u);
      let qc = load4_query ((q.z + d) / 4u);
      let qd = load4_query ((q.w + d) / 4u);
#for u in 0..4
      let q$(u) = Rows (qa[$(u)], qb[$(u)], qc[$(u)], qd[$(u)]);
#endfor
#elif VEC
      let qa = load4_query ((q + d) / 4u);
#for u in 0..4
      let q$(u) = qa[$(u)];
#endfor
#elif TR == 4
      let q0 = Rows (load_query (q.x + d), load_query (q.y + d), load_query (q.z + d), load_query (q.w + d));
#else
      let q0 = load_query (q + d);
#endif
#for j in 0..TK
#if VEC
      let k$(j) = load4_key ((k + row$(j) * p.k_row + d) / 4u);
#else
      let k$(j) = load_key (k + row$(j) * p.k_row + d);
#endif
#endfor
#for j in 0..TK
#if VEC
      s$(j) = fma (q3, Rows (k$(j).w), fma (q2, Rows (k$(j).z), fma (q1, Rows (k$(j).y), fma (q0, Rows (k$(j).x), s$(j)))));
#else
      s$(j) = fma (q0, Rows (k$(j)), s$(j));
#endif
#endfor
    }
#endif

    var best = top;
#for j in 0..TK
    s$(j) = cap_rows (s$(j));
#if MASK == 1
    s$(j) += load_mask_rows (mask + row$(j) * p.mask_key);
#endif
    let gone$(j) = bitcast<Places> (s$(j)) == Places (NOWHERE);
#if MASK == 2
    let hide$(j) = (Places (block + $(j)u) < first) | (Places (block + $(j)u) >= end) | gone$(j) | !load_mask_rows (mask + row$(j) * p.mask_key);
#elif HIDE
    let hide$(j) = (Places (block + $(j)u) < first) | (Places (block + $(j)u) >= end) | gone$(j);
#else
    let hide$(j) = $(j)u > last;
#endif
    best = max (best, select (s$(j), Rows (LOWEST), hide$(j)));
#endfor
    let shrink = weigh_rows (top - best);
    top = best;
    total *= shrink;
#for j in 0..TK
    s$(j) = select (weigh_rows (s$(j) - best), Rows (0.0), gone$(j) | Flags (hide$(j)));
    total += s$(j);
#endfor

#if WIDTH
#for j in 0..TK
#for c in 0..WIDTH / 4
    let v$(j)_$(c) = load4_value ((v + row$(j) * p.v_row) / 4u + $(c)u);
#endfor
#endfor
#for c in 0..WIDTH
    sum$(c) *= shrink;
#for j in 0..TK
#if HIDE
    sum$(c) = select (fma (s$(j), Rows (v$(j)_$(c / 4)[$(c % 4)]), sum$(c)), sum$(c), hide$(j));
#else
    sum$(c) = fma (s$(j), Rows (select (v$(j)_$(c / 4)[$(c % 4)], 0.0, hide$(j))), sum$(c));
#endif
#endfor
#endfor
  }
#for c in 0..WIDTH
  sums[$(c)] = sum$(c);
#endfor
#else
    for (var c = 0u; c < cols; c += $(STEP)u) {
#for j in 0..TK
#if VEC
      let v$(j) = load4_value ((v + row$(j) * p.v_row + c) / 4u);
#else
      let v$(j) = array<f32, 1> (load_value (v + row$(j) * p.v_row + c));
#endif
#endfor
#for u in 0..STEP
      var sum$(u) = sums[c + $(u)u] * shrink;
#endfor
#for u in 0..STEP
#for j in 0..TK
#if HIDE
      sum$(u) = select (fma (s$(j), Rows (v$(j)[$(u)]), sum$(u)), sum$(u), hide$(j));
#else
      sum$(u) = fma (s$(j), Rows (select (v$(j)[$(u)], 0.0, hide$(j))), sum$(u));
#endif
#endfor
#endfor
#for u in 0..STEP
      sums[c + $(u)u] = sum$(u);
#endfor
    }
  }
#endif

#if SINK
  let sink = load_sink (head * p.sink_head);
  let best = max (top, Rows (sink));
  let rest = weigh_rows (top - best);
  total = total * rest + weigh_rows (Rows (sink) - best);
#else
  let rest = Rows (1.0);
#endif
  let factor = select (rest / total, Rows (0.0), bitcast<Places> (total) == Places (0u));
  let y = batch * p.y_batch + head * p.y_head + query * p.y_row + first_col;
  for (var c = 0u; c < cols; c++) {
    let sum = sums[c] * factor;
#if TR == 4
    for (var r = 0u; r < 4u; r++) {
      if (own_query[r] <= last_query) {
        store_y (y[r] + c, sum[r]);
      }
    }
#else
    if (own_query <= last_query) {
      store_y (y + c, sum);
    }
#endif
  }
}
