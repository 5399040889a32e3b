// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sequences with a state that is a matrix of K rows for each head: state-space models, linear attention. In each step a
// row s of the state becomes decay · s + k · v, and the result is the sum of q · s over the rows. Columns are
// independent: each invocation has one, and iterates over p.count steps.
//
// Columns are the elements of a value. Rows have q and k, which all columns of a head share.
//
// RULE 0: v is added as it is; 1: the delta rule, only the difference between v and what the state holds; 2: what the
//   state holds for `in_key` is also added for `out_key`.
// SCAN: a selective scan, where columns have their own step size.
// DECAY 0: none; 1: one for each head; 2: for each row; 3: for each row and column, with the step size `delta`.
// DELTA: values are multiplied by delta; RATE: so is the decay of a head.
// BEFORE: the result is computed before the step, with a bonus for its own key.
//
// Where a subgroup has 8 lanes (SHUFFLE), each lane loads a row and shuffles broadcast it. Where the rows of a column
// are too many for the registers of one invocation, SPLIT neighbours have K of them each, and add up their results.
//
// The state is in registers, or with MEMORY in memory, where there is room for any number of rows. With CHUNKS each
// workgroup has a part of the sequence, in two steps: FOLD computes the final state of each part from zeros and, in
// further columns, from ones or from the columns of the identity matrix (MATRIX); recurrence-carry.wgsl computes the
// initial state of each part from these.

#if DECAY
#use op_exp
#endif

#if SHUFFLE
#define SETS (K + 7) / 8
#endif

// With PACKED the operands that only some operators have are in a common buffer.
#if HAS_G
fn get_g (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_g + i);
#else
  return load_g (i);
#endif
}
#endif
#if HAS_BETA
fn get_beta (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_beta + i);
#else
  return load_beta (i);
#endif
}
#endif
#if HAS_BONUS
fn get_bonus (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_bonus + i);
#else
  return load_bonus (i);
#endif
}
#endif
#if HAS_IN_KEY
fn get_in_key (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_in_key + i);
#else
  return load_in_key (i);
#endif
}
#endif
#if HAS_OUT_KEY
fn get_out_key (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_out_key + i);
#else
  return load_out_key (i);
#endif
}
#endif
#if HAS_RATE
fn get_rate (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_rate + i);
#else
  return load_rate (i);
#endif
}
#endif
#if HAS_SKIP
fn get_skip (i: u32) -> f32 {
#if PACKED
  return load_words (p.at_skip + i);
#else
  return load_skip (i);
#endif
}
#endif

#if MEMORY
// The state between steps: stored in the result, unless several heads share it.
fn get_state (i: u32) -> f32 {
#if APART
  return load_work (i);
#else
  return load_last (i);
#endif
}

fn set_state (i: u32, s: f32) {
#if APART
  store_work (i, s);
#else
  store_last (i, s);
#endif
}
#endif

// Adds up the results of the invocations that share a column.
fn add_rows (found: f32) -> f32 {
#if SPLIT > 1
  var sum = found + subgroupShuffleXor (found, 1u);
#if SPLIT > 2
  sum += subgroupShuffleXor (sum, 2u);
#endif
#if SPLIT > 4
  sum += subgroupShuffleXor (sum, 4u);
#endif
  return sum;
#else
  return found;
#endif
}

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
#if SHUFFLE
         @builtin(subgroup_invocation_id) sub: u32,
#endif
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

#if SPLIT > 1
  let row = lane % $(SPLIT)u * $(K)u;
  let column = group % p.blocks * $(WG / SPLIT)u + lane / $(SPLIT)u;
#else
  let row = 0u;
  let column = group % p.blocks * $(WG)u + lane;
#endif
  let head = group / p.blocks % p.heads;
  let batch = group / p.blocks / p.heads % p.batch;
  let chunk = group / p.blocks / p.heads / p.batch;
  let v_head = head / p.v_share;
  let c = min (column, p.columns - 1u);
  let state_head = batch * p.v_heads + v_head;
#if SHUFFLE
  // If the index looked uniform, there would be a load for each lane.
  let none = sub >> 3u;
#endif

#if MEMORY
#if APART
  let work = (batch * p.heads + head) * p.rows * p.columns + c;
  let work_row = p.columns;
#else
  let work = state_head * p.out_head + c * p.out_column;
  let work_row = p.out_row;
#endif
  for (var j = 0u; j < p.rows; j++) {
#if INIT
    set_state (work + j * work_row, load_state (state_head * p.in_head + j * p.in_row + c * p.in_column));
#else
    set_state (work + j * work_row, 0.0);
#endif
  }
#elif FOLD
  let extra = column - p.columns;
#for j in 0..K
#if MATRIX
  var s_$(j) = select (0.0, 1.0, extra == row + $(j)u);
#else
  var s_$(j) = select (0.0, 1.0, column >= p.columns);
#endif
#endfor
#elif INIT
  let from_state = chunk * p.in_chunk + state_head * p.in_head + c * p.in_column;
#for j in 0..K
  var s_$(j) = load_state (from_state + (row + $(j)u) * p.in_row);
#endfor
#else
#for j in 0..K
  var s_$(j) = 0.0;
#endfor
#endif

#if STEPS
#if SCAN
  // The channels of a selective scan repeat for the additional columns.
#if FOLD
  let channel = min (column % p.columns, p.columns - 1u);
#else
  let channel = c;
#endif
#if DECAY && !MEMORY
#for j in 0..K
  let rate_$(j) = get_rate (channel * p.rows + row + $(j)u);
#endfor
#endif
#endif
#if RATE
  let rate = get_rate (v_head);
#endif
#if SKIP && !FOLD
#if SCAN
  let skip = get_skip (c);
#else
  let skip = get_skip (v_head);
#endif
#endif

  let first = p.first + chunk * p.chunk;
  let end = min (first + p.chunk, p.first + p.count);
  for (var t = first; t < end; t++) {
    let token = batch * p.steps + t;
    let gate = token * p.v_heads + v_head;
    let q_at = (token * p.q_heads + head / p.q_share) * p.rows;
    let k_at = (token * p.k_heads + head / p.k_share) * p.rows;
    let given = load_v (gate * p.columns + c);
#if SCAN
    let delta = load_delta (gate * p.columns + channel);
#elif DELTA
    let delta = load_delta (gate);
#endif
#if DELTA
    var v = given * delta;
#else
    var v = given;
#endif
#if FOLD
    v = select (v, 0.0, column >= p.columns);
#endif
#if RATE
    let decay = op_exp (delta * rate);
#elif DECAY == 1
    let decay = op_exp (get_g (gate));
#endif
#for u in 0..4
    var y_$(u) = 0.0;
    var m_$(u) = 0.0;
#endfor

#if MEMORY
    // Two passes over the rows where the step depends on what the state holds.
#if RULE == 1
    for (var j = 0u; j < p.rows; j++) {
      var s = get_state (work + j * work_row);
#if DECAY == 2
      s *= op_exp (get_g (gate * p.rows + j));
#elif DECAY
      s *= decay;
#endif
      set_state (work + j * work_row, s);
      m_0 = fma (load_k (k_at + j), s, m_0);
    }
#elif RULE == 2
    for (var j = 0u; j < p.rows; j++) {
      m_0 = fma (get_in_key (k_at + j), get_state (work + j * work_row), m_0);
    }
#endif
#if RULE == 1
    v -= m_0;
#if BETA
    v *= get_beta (gate);
#endif
#endif
    for (var j = 0u; j < p.rows; j++) {
      let k = load_k (k_at + j);
      let q = load_q (q_at + j);
      let old = get_state (work + j * work_row);
#if BEFORE
      y_0 = fma (q, fma (get_bonus (v_head * p.rows + j) * k, v, old), y_0);
#endif
#if RULE == 1 || DECAY == 0
      var s = old;
#elif DECAY == 2
      var s = old * op_exp (get_g (gate * p.rows + j));
#elif DECAY == 3
      var s = old * op_exp (delta * get_rate (channel * p.rows + j));
#else
      var s = old * decay;
#endif
#if RULE == 2
      s = fma (m_0, get_out_key (k_at + j), s);
#endif
      s = fma (k, v, s);
      set_state (work + j * work_row, s);
#if !BEFORE
      y_0 = fma (q, s, y_0);
#endif
    }
#else

#if SHUFFLE
#for i in 0..SETS
#if i * 8 + 8 <= K
    let row_$(i) = $(i * 8)u + sub;
#else
    let row_$(i) = min ($(i * 8)u + sub, $(K - 1)u);
#endif
    let set_k_$(i) = load_k (k_at + row_$(i));
#if !FOLD
    let set_q_$(i) = load_q (q_at + row_$(i));
#endif
#if DECAY == 2
    let set_g_$(i) = op_exp (get_g (gate * p.rows + row_$(i)));
#endif
#if RULE == 2
    let set_lead_$(i) = get_in_key (k_at + row_$(i));
    let set_next_$(i) = get_out_key (k_at + row_$(i));
#endif
#if BEFORE && !FOLD
    let set_bonus_$(i) = get_bonus (v_head * p.rows + row_$(i));
#endif
#endfor
#endif

#for j in 0..K
#if SHUFFLE
    let k_$(j) = subgroupShuffle (set_k_$(j / 8), none + $(j % 8)u);
#else
    let k_$(j) = load_k (k_at + row + $(j)u);
#endif
#if DECAY == 2 && SHUFFLE
    let decay_$(j) = subgroupShuffle (set_g_$(j / 8), none + $(j % 8)u);
#elif DECAY == 2
    let decay_$(j) = op_exp (get_g (gate * p.rows + row + $(j)u));
#elif DECAY == 3
    let decay_$(j) = op_exp (delta * rate_$(j));
#elif DECAY
    let decay_$(j) = decay;
#endif
#if RULE == 1
#if DECAY > 1
    s_$(j) *= decay_$(j);
#endif
    m_$(j % 4) = fma (k_$(j), s_$(j), m_$(j % 4));
#elif RULE == 2 && SHUFFLE
    m_$(j % 4) = fma (subgroupShuffle (set_lead_$(j / 8), none + $(j % 8)u), s_$(j), m_$(j % 4));
#elif RULE == 2
    m_$(j % 4) = fma (get_in_key (k_at + row + $(j)u), s_$(j), m_$(j % 4));
#endif
#endfor

#if RULE
    let m = add_rows ((m_0 + m_1) + (m_2 + m_3));
#endif
#if RULE == 1
    // A decay common to all rows is applied afterwards, so that spilled registers are only read here.
#if DECAY == 1
    v -= m * decay;
#else
    v -= m;
#endif
#if BETA
    v *= get_beta (gate);
#endif
#endif

#for j in 0..K
#if !FOLD
#if SHUFFLE
    let q_$(j) = subgroupShuffle (set_q_$(j / 8), none + $(j % 8)u);
#else
    let q_$(j) = load_q (q_at + row + $(j)u);
#endif
#endif
#if BEFORE && !FOLD
#if SHUFFLE
    let bonus_$(j) = subgroupShuffle (set_bonus_$(j / 8), none + $(j % 8)u);
#else
    let bonus_$(j) = get_bonus (v_head * p.rows + row + $(j)u);
#endif
    y_$(j % 4) = fma (q_$(j), fma (bonus_$(j) * k_$(j), v, s_$(j)), y_$(j % 4));
#endif
#if DECAY == 0 || (RULE == 1 && DECAY > 1)
    s_$(j) = fma (k_$(j), v, s_$(j));
#elif RULE == 2
#if SHUFFLE
    let next_$(j) = subgroupShuffle (set_next_$(j / 8), none + $(j % 8)u);
#else
    let next_$(j) = get_out_key (k_at + row + $(j)u);
#endif
    s_$(j) = fma (k_$(j), v, fma (m, next_$(j), s_$(j) * decay_$(j)));
#else
    s_$(j) = fma (s_$(j), decay_$(j), k_$(j) * v);
#endif
#if !BEFORE && !FOLD
    y_$(j % 4) = fma (q_$(j), s_$(j), y_$(j % 4));
#endif
#endfor
#endif

#if !FOLD
    var y = add_rows ((y_0 + y_1) + (y_2 + y_3)) * p.scale;
#if SKIP
    y = fma (skip, given, y);
#endif
    if (column < p.columns && row == 0u) {
      store_y ((token * p.heads + head) * p.columns + c, y);
    }
#endif
  }
#endif

#if FOLD
  if (column < p.all_columns) {
    let to = ((chunk * p.batch + batch) * p.v_heads + v_head) * p.all_columns + column;
#for j in 0..K
    store_folded (to * p.rows + row + $(j)u, s_$(j));
#endfor
  }
#elif K || MEMORY
#if !MEMORY || APART
  // Heads that share a state compute the same one, so only the first stores it.
  let is_last = u32 (column < p.columns) * u32 (head % p.v_share == 0u) * u32 (chunk + 1u == p.chunks);
  if (is_last == 1u) {
    let to = state_head * p.out_head + c * p.out_column;
#if MEMORY
    for (var j = 0u; j < p.rows; j++) {
      store_last (to + j * p.out_row, load_work (work + j * work_row));
    }
#else
#for j in 0..K
    store_last (to + (row + $(j)u) * p.out_row, s_$(j));
#endfor
#endif
  }
#endif
#endif
}
