// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The gradients of attention where lanes have too few registers for attention-backward.wgsl. As there, a lane owns a
// query (STAGE 0 and 1) or a key (STAGE 2 and 3), but its columns are in workgroup memory: each number is read once for
// BLOCK of the keys or queries that the lane iterates over. Only their scores and PART columns of the result stay in
// registers. Rows are split into units of UNIT vectors, so that the compiler sees that one address serves a whole unit.
//
// STAGE 0   the largest score, the sum of weights and g · y of each query, for the other stages
// STAGE 1   dq = Σⱼ dsⱼ kⱼ
// STAGE 2   dk = Σᵢ dsᵢ qᵢ
// STAGE 3   dv = Σᵢ weightᵢ gᵢ
//
// Scores are recomputed in each stage, and for each group of PART columns. A lane reads nothing that another lane has
// stored, so there is no barrier.

#include "common/attention-backward.wgsl"

#define QUERIES STAGE < 2
// Whether the gradients of the scores are needed: these take the values and the gradient of the result.
#define CHANGES STAGE == 1 || STAGE == 2
#if STAGE == 3
#define RESULT COLS
#else
#define RESULT WIDTH
#endif
#if CHANGES
#define ROW (WIDTH + COLS) / 4 + 1
#else
#define ROW WIDTH / 4 + 1
#endif

var<workgroup> own: array<array<vec4<f32>, $(ROW)>, $(WG)>;

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let part = workgroup_index (wid) % p.parts;
  let group = workgroup_index (wid) / p.parts;
  if (group >= p.groups) {
    return;
  }
  // The last group of columns may overlap the one before it, which then stores the columns they share.
  let column = min (part * $(PART / 4 / UNIT)u, $((RESULT - PART) / 4 / UNIT)u);

#if QUERIES
  let first_own = (group % p.tiles) * $(WG)u;
  let last_own = min (first_own + $(WG - 1)u, p.queries - 1u);
  let head = group / p.tiles % p.heads;
  let batch = group / p.tiles / p.heads;
  let count = count_keys (batch);
  let query = min (first_own + lane, last_own);
  let first = first_seen (query, count);
  let end = end_seen (query, count);
  let q = (batch * p.q_batch + head * p.q_head + query * p.q_row) / $(4 * UNIT)u;
  let k = (batch * p.k_batch + head / p.share * p.k_head) / $(4 * UNIT)u;
  let row = ((batch * p.heads + head) * p.queries + query) * 3u;
#if STAGE == 0 || CHANGES
  let y = (batch * p.y_batch + head * p.y_head + query * p.y_row) / $(4 * UNIT)u;
#endif
#if MASK
  let mask = mask_row (batch, head, query);
#else
  let mask = 0u;
#endif
#for d in 0..WIDTH / 4
  own[lane][$(d)] = load4_query (q * $(UNIT)u + $(d)u);
#endfor
  let begin = first_seen (first_own, count);
  let stop = end_seen (last_own, count);

#if STAGE == 0
  var top = LOWEST;
  var total = 0.0;
#else
  let v = (batch * p.v_batch + head / p.share * p.v_head) / $(4 * UNIT)u;
  let top = load_rows (row);
  let inverse = load_rows (row + 1u);
  let inner = load_rows (row + 2u);
#for c in 0..COLS / 4
  own[lane][$(WIDTH / 4 + c)] = load4_g (y * $(UNIT)u + $(c)u);
#endfor
#endif

#else

  let first_own = (group % p.tiles) * $(WG)u;
  let last_own = min (first_own + $(WG - 1)u, p.keys - 1u);
  let kv_head = group / p.tiles % p.kv_heads;
  let batch = group / p.tiles / p.kv_heads;
  let count = count_keys (batch);
  let key = min (first_own + lane, last_own);
  let k = (batch * p.k_batch + kv_head * p.k_head + key * p.k_row) / $(4 * UNIT)u;
  let v = (batch * p.v_batch + kv_head * p.v_head + key * p.v_row) / $(4 * UNIT)u;
#for d in 0..WIDTH / 4
  own[lane][$(d)] = load4_key (k * $(UNIT)u + $(d)u);
#endfor
#if CHANGES
#for c in 0..COLS / 4
  own[lane][$(WIDTH / 4 + c)] = load4_value (v * $(UNIT)u + $(c)u);
#endfor
#endif
#endif

#if STAGE > 0
#for c in 0..PART / 4
  var sum$(c) = vec4<f32> ();
#endfor
#endif
#if !QUERIES
  let stop = p.queries;
  for (var h = 0u; h < p.share; h++) {
    let head = kv_head * p.share + h;
    let q = (batch * p.q_batch + head * p.q_head) / $(4 * UNIT)u;
    let y = (batch * p.y_batch + head * p.y_head) / $(4 * UNIT)u;
    let rows = (batch * p.share * p.kv_heads + head) * p.queries;
  for (var i = 0u; i < p.queries; i += $(BLOCK)u) {
#else
  for (var i = begin; i < stop; i += $(BLOCK)u) {
#endif
    // Indices past the end repeat the last one, and are masked out.
#if QUERIES
#for b in 0..BLOCK
    let key$(b) = min (i + $(b)u, stop - 1u);
    let a$(b) = k + key$(b) * (p.k_row / $(4 * UNIT)u);
#endfor
#else
#for b in 0..BLOCK
    let query$(b) = min (i + $(b)u, p.queries - 1u);
    let first$(b) = first_seen (query$(b), count);
    let end$(b) = end_seen (query$(b), count);
    let a$(b) = q + query$(b) * (p.q_row / $(4 * UNIT)u);
    let g$(b) = y + query$(b) * (p.y_row / $(4 * UNIT)u);
    let row$(b) = (rows + query$(b)) * 3u;
#endfor
    // The range of keys that a query sees never begins or ends before that of the previous query.
    if (end$(BLOCK - 1) <= first_own || first0 > last_own) {
      continue;
    }
#endif

#for b in 0..BLOCK
    var s$(b) = 0.0;
#endfor
    for (var d = 0u; d < p.pieces; d++) {
#for e in 0..UNIT
      let x$(e) = own[lane][d * $(UNIT)u + $(e)u];
#for b in 0..BLOCK
#if QUERIES
      s$(b) = dot4 (x$(e), load4_key ((a$(b) + d) * $(UNIT)u + $(e)u), s$(b));
#else
      s$(b) = dot4 (x$(e), load4_query ((a$(b) + d) * $(UNIT)u + $(e)u), s$(b));
#endif
#endfor
#endfor
    }

#if CHANGES
#for b in 0..BLOCK
#if QUERIES
    var t$(b) = -inner;
#else
    var t$(b) = -load_rows (row$(b) + 2u);
#endif
#endfor
    for (var c = 0u; c < p.value_pieces; c++) {
#for e in 0..UNIT
      let z$(e) = own[lane][$(WIDTH / 4)u + c * $(UNIT)u + $(e)u];
#for b in 0..BLOCK
#if QUERIES
      t$(b) = dot4 (z$(e), load4_value ((v + key$(b) * (p.v_row / $(4 * UNIT)u) + c) * $(UNIT)u + $(e)u), t$(b));
#else
      t$(b) = dot4 (z$(e), load4_g ((g$(b) + c) * $(UNIT)u + $(e)u), t$(b));
#endif
#endfor
#endfor
    }
#endif

#if STAGE == 0
#for b in 0..BLOCK
    let seen$(b) = see (s$(b), key$(b), first, end, mask);
    let hidden$(b) = seen$(b).hidden || i + $(b)u >= stop;
    let best$(b) = max (top, select (seen$(b).score, LOWEST, hidden$(b)));
    total = total * weigh (top - best$(b)) + select (weigh (seen$(b).score - best$(b)), 0.0, hidden$(b));
    top = best$(b);
#endfor
#else
#for b in 0..BLOCK
#if QUERIES
    let seen$(b) = see (s$(b), key$(b), first, end, mask);
    let weight$(b) = weigh (min (seen$(b).score - top, 0.0)) * inverse;
#else
#if MASK
    let mask$(b) = mask_row (batch, head, query$(b));
#else
    let mask$(b) = 0u;
#endif
    let seen$(b) = see (s$(b), key, first$(b), end$(b), mask$(b));
    let weight$(b) = weigh (min (seen$(b).score - load_rows (row$(b)), 0.0)) * load_rows (row$(b) + 1u);
#endif
#if CHANGES
    let share$(b) = select (weight$(b) * t$(b) * seen$(b).slope, 0.0, seen$(b).hidden || i + $(b)u >= stop);
#else
    let share$(b) = select (weight$(b), 0.0, seen$(b).hidden || i + $(b)u >= stop);
#endif
#endfor
#for c in 0..PART / 4 / UNIT
#for b in 0..BLOCK
#for e in 0..UNIT
#if STAGE == 1
    sum$(c * UNIT + e) = fma (vec4<f32> (share$(b)), load4_key ((a$(b) + column + $(c)u) * $(UNIT)u + $(e)u), sum$(c * UNIT + e));
#elif STAGE == 2
    sum$(c * UNIT + e) = fma (vec4<f32> (share$(b)), load4_query ((a$(b) + column + $(c)u) * $(UNIT)u + $(e)u), sum$(c * UNIT + e));
#else
    sum$(c * UNIT + e) = fma (vec4<f32> (share$(b)), load4_g ((g$(b) + column + $(c)u) * $(UNIT)u + $(e)u), sum$(c * UNIT + e));
#endif
#endfor
#endfor
#endfor
#endif
  }
#if !QUERIES
  }
#endif

#if STAGE == 0
#if SINK
  let sink = load_sink (head * p.sink_head);
  let best = max (top, sink);
  total = total * weigh (top - best) + weigh (sink - best);
  top = best;
#endif
  var inner = 0.0;
#for c in 0..COLS / 4
  inner = dot4 (load4_g (y * $(UNIT)u + $(c)u), load4_result (y * $(UNIT)u + $(c)u), inner);
#endfor
  if (first_own + lane <= last_own) {
    store_rows (row, top);
    store_rows (row + 1u, select (1.0 / total, 0.0, is_nothing (total)));
    store_rows (row + 2u, inner);
  }
#else
  if (first_own + lane <= last_own) {
#for c in 0..PART / 4
    if (column + $(c / UNIT)u >= part * $(PART / 4 / UNIT)u) {
#if STAGE == 1
      store4_dq ((q + column + $(c / UNIT)u) * $(UNIT)u + $(c % UNIT)u, sum$(c));
#elif STAGE == 2
      store4_dk ((k + column + $(c / UNIT)u) * $(UNIT)u + $(c % UNIT)u, sum$(c));
#else
      store4_dv ((v + column + $(c / UNIT)u) * $(UNIT)u + $(c % UNIT)u, sum$(c));
#endif
    }
#endfor
  }
#endif
}
