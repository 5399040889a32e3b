// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[i] = Σ x[f, i - f hop] over the frames f that reach element i of a signal.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let at = workgroup_index (wid) * $(WG)u + lane;
  if (at >= p.n) {
    return;
  }

  let signal = at / p.samples;
  let i = at % p.samples;
  let last = min (i / p.hop, p.frames - 1u);
  // The first frame that does not end before element i.
  let past = i - min (i, p.length - 1u);
  let first = past / p.hop + u32 (past % p.hop > 0u);
  var sum = 0.0;
  for (var f = first; f <= last; f++) {
    sum += load_x ((signal * p.frames + f) * p.length + i - f * p.hop);
  }
  store_y (at, sum);
}
