// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The weights of cubic convolution with coefficient a, for a position t past the second of four neighbours.
fn cubic_weights (t: f32, a: f32) -> vec4<f32> {
  let u = 1.0 - t;
  return vec4<f32> (a * t * u * u,
                    ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
                    ((a + 2.0) * u - (a + 3.0)) * u * u + 1.0,
                    a * u * t * t);
}
