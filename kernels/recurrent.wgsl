// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Steps of a recurrent network: RNN, LSTM, GRU, or BEFORE, a GRU whose reset gate is applied before the product with
// the recurrent weight. The contribution of the operand to the gates has been computed before (inputs), for all steps.
//
// A workgroup has TB sequences of one direction, U invocations for as many hidden units, and KS of these for each unit,
// which share its sums. There are two variants (ops/rlx-recurrent.c):
//
// - LOOP: the workgroup has all units and iterates over p.count steps by itself. The state is in workgroup memory, with
//   one copy for reading and one for writing.
// - Otherwise a workgroup has some of the units for one step, and the state goes through memory. BEFORE takes two
//   dispatches for a step (PHASE0, PHASE1), since all units must be reset before any can use the others.
//
// Gates are in a fixed order here (i o f g; z r n); p.gateN is the position of each in the operands. With FINAL the
// state is written to the results. Rows of the recurrent weight, one for each unit of each gate and direction, are
// stored in panels of p.r_width.

#if USE_SIGMOID
#use op_sigmoid
#endif
#if USE_TANH
#use op_tanh
#endif
#if USE_MAX
#use op_max
#endif
#if USE_CLAMP
#use op_clamp
#endif
#if USE_ELU
#use op_elu
#endif
#if USE_SOFTSIGN
#use op_softsign
#endif
#if USE_SOFTPLUS
#use op_softplus
#endif

fn limited (x: f32) -> f32 {
#if CLIP
  return op_clamp (x, -p.clip, p.clip);
#else
  return x;
#endif
}

#if !RNN
fn gate (pre: f32) -> f32 {
  let x = limited (pre);
  return ${GATE};
}
#endif

#if LSTM
fn cell (pre: f32) -> f32 {
  let x = limited (pre);
  return ${CELL};
}
#endif

fn hidden (pre: f32) -> f32 {
  let x = limited (pre);
  return ${HIDDEN};
}

// With several sequences each load has enough work.
#if TB > 2
#define UNROLL 2
#else
#define UNROLL 4
#endif

#if LOOP
#define BUFFER TB * WIDTH
var<workgroup> shared_hidden: array<f32, $(2 * BUFFER)>;
#if LSTM || BEFORE
// The cell state, or the state times the reset gate.
var<workgroup> shared_other: array<f32, $(BUFFER)>;
#endif
#endif
// The partial sums of each invocation, for each gate and sequence.
var<workgroup> partial: array<f32, $(GATES * TB * WG)>;

// The index in the state of a unit of a sequence.
fn state_at (d: u32, row: u32, j: u32) -> u32 {
  return (d * p.batch + row) * p.hidden + j;
}

#if FINAL
fn put_state (d: u32, row: u32, j: u32, h: f32, c: f32) {
  let at = d * p.last_direction + row * p.last_batch + j;
  store_last_hidden (at, h);
#if LSTM
  store_last_cell (at, c);
#endif
}
#elif !BEFORE || PHASE1 == 2
fn put_state (d: u32, row: u32, j: u32, h: f32, c: f32) {
  let at = state_at (d, row, j);
  store_new_state (at, h);
#if LSTM
  store_new_state (p.one_state + at, c);
#endif
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let slice = group % p.slices * p.slice;
  let slice_end = min (slice + p.slice, p.hidden);
  let tile = group / p.slices % p.tiles * $(TB)u;
  let d = group / p.slices / p.tiles;
  let rows = p.batch - tile;
  let backward = d != p.forward;
#if KS > 1
  let unit = lane % $(U)u;
  let part = lane / $(U)u;
  let k0 = min (part * p.run, p.hidden);
  let k1 = min (k0 + p.run, p.hidden);
#else
  let unit = lane;
  let part = 0u;
  let k0 = 0u;
  let k1 = p.hidden;
#endif

#for b in 0..TB
  let row$(b) = tile + min ($(b)u, rows - 1u);
#endfor

#if LOOP
#for b in 0..TB
  for (var j = lane; j < p.hidden; j += $(WG)u) {
    shared_hidden[$(b * WIDTH)u + j] = load_state (state_at (d, row$(b), j));
#if LSTM
    shared_other[$(b * WIDTH)u + j] = load_state (p.one_state + state_at (d, row$(b), j));
#endif
  }
#endfor
  workgroupBarrier ();
  var now = 0u;
  var next = $(BUFFER)u;
  for (var s = p.first; s < p.first + p.count; s++) {
#else
  {
    let s = p.first;
#endif

#for phase in PHASE0..PHASE1
#if !BEFORE
#define G0 0
#define G1 GATES
#elif phase == 0
#define G0 0
#define G1 2
#else
#define G0 2
#define G1 3
#endif
    for (var j0 = slice; j0 < slice_end; j0 += $(U)u) {
      let j = min (j0 + unit, p.hidden - 1u);
#if STEPS
#for g in G0..G1
      let line$(g) = d * p.biases + p.gate$(g) + j;
      let weight$(g) = line$(g) / p.r_width * p.r_panel + line$(g) % p.r_width * p.r_unit;
#for b in 0..TB
      var sum$(g)_$(b) = 0.0;
#endfor
#endfor
      let whole = k0 + (k1 - k0) / $(UNROLL)u * $(UNROLL)u;
      for (var k = k0; k < whole; k += $(UNROLL)u) {
#for u in 0..UNROLL
        {
#for g in G0..G1
          let w$(g) = load_recurrent (weight$(g) + (k + $(u)u) * p.r_input);
#endfor
#for b in 0..TB
#if LOOP && phase == 0
          let h$(b) = shared_hidden[now + $(b * WIDTH)u + k + $(u)u];
#elif LOOP
          let h$(b) = shared_other[$(b * WIDTH)u + k + $(u)u];
#elif phase == 0
          let h$(b) = load_state (state_at (d, row$(b), k + $(u)u));
#else
          let h$(b) = load_reset (p.one_state + state_at (d, row$(b), k + $(u)u));
#endif
#for g in G0..G1
          sum$(g)_$(b) = fma (w$(g), h$(b), sum$(g)_$(b));
#endfor
#endfor
        }
#endfor
      }
      for (var k = whole; k < k1; k++) {
#for g in G0..G1
        let w$(g) = load_recurrent (weight$(g) + k * p.r_input);
#endfor
#for b in 0..TB
#if LOOP && phase == 0
        let h$(b) = shared_hidden[now + $(b * WIDTH)u + k];
#elif LOOP
        let h$(b) = shared_other[$(b * WIDTH)u + k];
#elif phase == 0
        let h$(b) = load_state (state_at (d, row$(b), k));
#else
        let h$(b) = load_reset (p.one_state + state_at (d, row$(b), k));
#endif
#for g in G0..G1
        sum$(g)_$(b) = fma (w$(g), h$(b), sum$(g)_$(b));
#endfor
#endfor
      }
#endif

#if STEPS
#for g in G0..G1
#for b in 0..TB
      partial[$((g * TB + b) * WG)u + lane] = sum$(g)_$(b);
#endfor
#endfor
#if KS > 1
      workgroupBarrier ();
#endif
#endif

      // The invocations of a unit share out the sequences.
      for (var b = part; j0 + unit < p.hidden && b < min ($(TB)u, rows); b += $(KS)u) {
        let row = tile + b;
        let at_state = state_at (d, row, j);
#if LENGTHS
        let length = load_words (p.at_lengths + row);
#else
        let length = p.steps;
#endif
        let live = s < length;
        let t = select (s, length - 1u - s, live && backward);
#if LOOP
        let at_shared = b * $(WIDTH)u + j;
        let old = shared_hidden[now + at_shared];
#else
        let old = load_state (at_state);
#endif
#if LSTM && LOOP
        let c = shared_other[at_shared];
#elif LSTM
        let c = load_state (p.one_state + at_state);
#else
        let c = 0.0;
#endif
        var new_c = c;
        var new_h = old;

#if STEPS
        let at_inputs = t * p.x_step + row * p.x_batch + d * p.x_direction + j;
        let at_bias = d * p.biases + j;
#for g in G0..G1
        var sum$(g) = partial[($(g * TB)u + b) * $(WG)u + unit];
#for q in 1..KS
        sum$(g) += partial[($(g * TB)u + b) * $(WG)u + $(q * U)u + unit];
#endfor
        var pre$(g) = load_inputs (at_inputs + p.gate$(g)) + bitcast<f32> (load_words (at_bias + p.gate$(g)));
#if !(AFTER && g == 2)
        pre$(g) += sum$(g);
#endif
#endfor
#if RNN
        new_h = hidden (pre0);
#elif LSTM
#if PEEPHOLE
        let peephole = p.at_peephole + d * 3u * p.hidden + j;
        pre0 += bitcast<f32> (load_words (peephole)) * c;
        pre2 += bitcast<f32> (load_words (peephole + 2u * p.hidden)) * c;
#endif
        let i = gate (pre0);
#if INPUT_FORGET
        let f = 1.0 - i;
#else
        let f = gate (pre2);
#endif
        new_c = f * c + i * cell (pre3);
#if PEEPHOLE
        pre1 += bitcast<f32> (load_words (peephole + p.hidden)) * new_c;
#endif
        new_h = gate (pre1) * hidden (new_c);
#elif AFTER
        let z = gate (pre0);
        let apart = sum2 + bitcast<f32> (load_words (p.at_apart + d * p.hidden + j));
        let n = hidden (pre2 + gate (pre1) * apart);
        new_h = (1.0 - z) * n + z * old;
#elif phase == 0
        let z = gate (pre0);
        let reset = gate (pre1) * old;
#if LOOP
        shared_hidden[next + at_shared] = z;
        shared_other[at_shared] = reset;
#else
        store_new_reset (at_state, z);
        store_new_reset (p.one_state + at_state, reset);
#endif
#else
#if LOOP
        let z = shared_hidden[next + at_shared];
#else
        let z = load_reset (at_state);
#endif
        new_h = (1.0 - z) * hidden (pre2) + z * old;
#endif
        new_h = select (old, new_h, live);
        new_c = select (c, new_c, live);
#endif

#if !BEFORE || phase == 1
#if SEQUENCE
        store_sequence (t * p.y_step + d * p.y_direction + row * p.y_batch + j, select (0.0, new_h, live));
#endif
#if LOOP
        shared_hidden[next + at_shared] = new_h;
#if LSTM
        shared_other[at_shared] = new_c;
#endif
#else
        put_state (d, row, j, new_h, new_c);
#endif
#endif
      }
#if KS > 1 && STEPS
      // The next units use the same memory.
      workgroupBarrier ();
#endif
    }
#if LOOP
    workgroupBarrier ();
#endif
#endfor

#if LOOP
    let last = now;
    now = next;
    next = last;
#endif
  }

#if LOOP
#for b in 0..TB
  for (var j = lane; j < p.hidden && $(b)u < rows; j += $(WG)u) {
#if LSTM
    put_state (d, row$(b), j, shared_hidden[now + $(b * WIDTH)u + j], shared_other[$(b * WIDTH)u + j]);
#else
    put_state (d, row$(b), j, shared_hidden[now + $(b * WIDTH)u + j], 0.0);
#endif
  }
#endfor
#endif
}
