// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[m, n] = Σₖ x[m, k] · w[expert[m], k, n], or 0 if the expert does not exist
//
// For few rows: a workgroup computes all of them, at most TM, in WG columns. Each expert is read once, for the rows
// that use it. The addresses of x follow from the workgroup alone: one load serves all lanes.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let column = group * $(WG)u + lane;

#for i in 0..TM
  let row$(i) = min ($(i)u, p.m - 1u);
  var sum$(i) = 0.0;
#endfor

  let b = min (column, p.n - 1u);
#for i in 0..TM
  let expert$(i) = u32 (load_expert (row$(i)));
  let x$(i) = row$(i) * p.k;
#endfor
  // The rows that are left.
  let all = (1u << $(TM)u) - 1u;
  var todo = all;
  while (todo != 0u) {
    let next = countTrailingZeros (todo);
    var expert = expert0;
    var wanted = 0u;
#for i in 1..TM
    expert = select (expert, expert$(i), next == $(i)u);
#endfor
#for i in 0..TM
    wanted |= select (0u, (1u << $(i)u), expert$(i) == expert);
#endfor
    todo &= ~wanted;
    if (expert >= p.experts) {
      continue;
    }
    let w = expert * p.k * p.n + b;
    if (wanted == all) {
      for (var k = 0u; k < p.k; k++) {
        let v = load_w (w + k * p.n);
#for i in 0..TM
        sum$(i) = fma (load_x (x$(i) + k), v, sum$(i));
#endfor
      }
    } else {
      for (var k = 0u; k < p.k; k++) {
        let v = load_w (w + k * p.n);
#for i in 0..TM
        if ((wanted & (1u << $(i)u)) != 0u) {
          sum$(i) = fma (load_x (x$(i) + k), v, sum$(i));
        }
#endfor
      }
    }
  }

  if (column < p.n) {
#for i in 0..TM
    if ($(i)u < p.m) {
      store_y (row$(i) * p.n + column, sum$(i));
    }
#endfor
  }
}
