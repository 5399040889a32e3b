// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The steps of sampling that look at each token. Rows have p.columns tokens: all of the p.tokens or, when SORTED, the
// first ones in descending order with their indices; then the first is the largest. Otherwise the index of the largest
// is given.
//
// MODE 0: weights e^((x - largest) / temperature)
// MODE 1: (x - largest) / temperature + Gumbel noise: the token with the largest result is a
//         sample of the softmax. Tokens that are excluded get a number below all others.
//         TOP_P needs running sums of the weights.
// MODE 2: the token at a given position in its row.

#if MODE != 2
#use op_is_nan

// (x - largest) / temperature, also for infinities.
fn scaled (x: f32, largest: f32) -> f32 {
  return select ((x - largest) * p.inverse_temperature, 0.0, bitcast<u32> (x) == bitcast<u32> (largest));
}
#endif

#if MODE == 0 || MIN_P
#use op_exp
#endif

#if MODE == 1
#use op_log
#include "common/philox.wgsl"

fn gumbel (i: u32) -> f32 {
  let word = random_words (i / 4u)[i % 4u];
  return -op_log (-op_log ((f32 (word >> 9u) + 0.5) * 0x1p-23));
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups || lane >= p.n - group * $(WG)u) {
    return;
  }

  let i = group * $(WG)u + lane;
#if MODE == 2
  store_y (i, load_indices (i * p.columns + min (u32 (load_place (i)), p.columns - 1u)));
#else
  let row = i / p.columns;
  let k = i % p.columns;
  let x = load_x (i);
#if SORTED
  let largest = load_x (row * p.columns);
#else
  let largest = load_x (row * p.columns + min (u32 (load_place (row)), p.columns - 1u));
#endif
#if MODE == 0
  store_y (i, op_exp (scaled (x, largest)));
#else
#if SORTED
  let token = u32 (load_indices (i));
#else
  let token = k;
#endif
  let score = scaled (x, largest);
  var keep = !op_is_nan (largest);
#if MIN_P
  keep = keep && op_exp (score) >= p.min_p;
#endif
#if TOP_P
  // Keeps a token while the sum before it is below the limit.
  let before = load_sums (select (i - 1u, i, k == 0u));
  keep = keep && (k == 0u || before < p.top_p * load_sums (row * p.columns + p.columns - 1u));
#endif
  let noisy = score + gumbel (row * p.tokens + token);
  // A NaN sorts as the greatest.
  store_y (i, select (select (-3.4e38, noisy, keep), x, op_is_nan (x)));
#endif
#endif
}
