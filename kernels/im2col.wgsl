// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[(n, p), (c, k)] = x[n, c, p · stride + k · dilation - begin], or 0 outside. Elements are copied as bits, since zero
// bits are 0 in every type. Spatial axes are numbered from the innermost one. PADDING: there is nothing but padding.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups || lane >= p.elements - group * $(WG)u) {
    return;
  }

  let index = group * $(WG)u + lane;
#if PADDING
  store_y (index, 0u);
#else
  var rest = index;
#for d in 0..RANK
  let k$(d) = rest % p.k$(d);
  rest /= p.k$(d);
#endfor
  let c = rest % p.c;
  rest /= p.c;

  var there = true;
  var at = c * p.x_channel;
#for d in 0..RANK
  // Negative indices wrap around and are out of range, too.
  let i$(d) = (rest % p.out$(d)) * p.stride$(d) + k$(d) * p.dilation$(d) - p.begin$(d);
  rest /= p.out$(d);
  there = there && i$(d) < p.in$(d);
  at += i$(d) * p.x_axis$(d);
#endfor
  at += rest * p.x_batch;
  store_y (index, select (0u, load_x (select (0u, at, there)), there));
#endif
}
