// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What all steps of a recurrent network use, in one buffer of words, and the state before the first step, so that a
// step needs few bindings.
//
// The words: the sum of both biases of each gate (of the last gate only the first bias if the second is separate), that
// second bias, the peephole weights, and the number of valid steps of each sequence.

fn bias_at (i: u32) -> f32 {
  var sum = 0.0;
#if BIAS
  sum += load_bias (i);
#endif
#if RECURRENT_BIAS
#if APART
  if (i % p.biases < p.summed) {
    sum += load_recurrent_bias (i);
  }
#else
  sum += load_recurrent_bias (i);
#endif
#endif
  return sum;
}

fn word (i: u32) -> u32 {
  if (i < p.at_apart) {
    return bitcast<u32> (bias_at (i));
  }
#if APART
  if (i < p.at_peephole) {
    let at = i - p.at_apart;
#if RECURRENT_BIAS
    return bitcast<u32> (load_recurrent_bias (at / p.hidden * p.biases + p.summed + at % p.hidden));
#else
    return 0u;
#endif
  }
#endif
#if PEEPHOLE
  if (i < p.at_lengths) {
    return bitcast<u32> (load_peephole_weight (i - p.at_peephole));
  }
#endif
#if LENGTHS
  return min (u32 (max (load_lengths (i - p.at_lengths), type_lengths (0))), p.steps);
#else
  return 0u;
#endif
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;

  if (i < p.words) {
    store_words (i, word (i));
  } else if (i - p.words < p.states) {
    // [state, direction, batch, hidden]
    let at = i - p.words;
    let one = at % p.one_state;
    let place = one / p.hidden / p.batch * p.from_direction + one / p.hidden % p.batch * p.from_batch + one % p.hidden;
    var v = 0.0;
#if HIDDEN
    if (at < p.one_state) {
      v = load_initial_hidden (place);
    }
#endif
#if CELL
    if (at >= p.one_state) {
      v = load_initial_cell (place);
    }
#endif
    store_state (at, v);
  }
}
