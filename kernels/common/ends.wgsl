// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The minimum and the maximum over the invocations of a workgroup.
#use op_max op_min

var<workgroup> lows: array<f32, $(WG)>;
var<workgroup> highs: array<f32, $(WG)>;

fn join_ends (lane: u32, low: f32, high: f32) -> vec2<f32> {
  lows[lane] = low;
  highs[lane] = high;
  for (var step = $(WG)u / 2u; step > 0u; step >>= 1u) {
    workgroupBarrier ();
    if (lane < step) {
      lows[lane] = op_min (lows[lane], lows[lane + step]);
      highs[lane] = op_max (highs[lane], highs[lane + step]);
    }
  }
  workgroupBarrier ();
  return vec2<f32> (lows[0], highs[0]);
}
