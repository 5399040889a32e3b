// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[c, t] = bias[c] + Σⱼ weight[c, j] · x[c, t + j - (width - 1)], where steps before the first come from the state;
// and the last width - 1 steps, which are the next state. Each invocation computes one element of either.

struct Place {
  batch: u32,
  channel: u32,
  step: u32,
}

// The coordinates of element i of a tensor with `steps` steps.
fn find (i: u32, steps: u32) -> Place {
  let outer = i / (p.channels * steps);
  let inner = i % (p.channels * steps);
  if (p.channels_last != 0u) {
    return Place (outer, inner % p.channels, inner / p.channels);
  }
  return Place (outer, inner / steps, inner % steps);
}

fn position (batch: u32, channel: u32, step: u32, steps: u32) -> u32 {
  return batch * p.channels * steps + select (channel * steps + step, step * p.channels + channel, p.channels_last != 0u);
}

// Step t of the state followed by the operand.
fn step_of (batch: u32, channel: u32, t: u32) -> f32 {
  let before = p.width - 1u;
#if INIT
  if (t < before) {
    return load_state (position (batch, channel, t, before));
  }
#else
  if (t < before) {
    return 0.0;
  }
#endif
#if ANY
  return load_x (position (batch, channel, t - before, p.steps));
#else
  return 0.0;
#endif
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;

#if ANY
  let here = find (min (i, p.n - 1u), p.steps);
#if BIAS
  var sum = load_bias (here.channel);
#else
  var sum = 0.0;
#endif
  for (var j = 0u; j < p.width; j++) {
    sum = fma (load_weight (here.channel * p.width + j), step_of (here.batch, here.channel, here.step + j), sum);
  }
  if (i < p.n) {
    store_y (i, sum);
  }
#endif

#if KEEPS
  let k = min (i - min (i, p.n), p.n_state - 1u);
  let to = find (k, p.width - 1u);
  let kept = step_of (to.batch, to.channel, to.step + p.steps);
  let is_kept = u32 (i >= p.n) * u32 (i < p.n + p.n_state);
  if (is_kept == 1u) {
    store_last (k, kept);
  }
#endif
}
