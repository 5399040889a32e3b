// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[m, n] = Σₖ x[m, k] · w[expert[m], k, n], 0 for an expert that is not there
//
// A workgroup makes TM rows of WG columns, an invocation TM rows of one column.
// Rows come in an ORDER that brings those of one expert together: most tiles
// need one matrix, and the others take one turn for each of theirs. The addresses
// of x follow from the workgroup alone: one load serves all lanes.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups take the same columns: these stay in the cache.
  let first = (group % p.tiles_m) * $(TM)u;
  let column = (group / p.tiles_m) * $(WG)u + lane;
  let rows = p.m - first;

#for i in 0..TM
#if ORDER
  let row$(i) = load_order (first + min ($(i)u, rows - 1u));
#else
  let row$(i) = first + min ($(i)u, rows - 1u);
#endif
  var sum$(i) = 0.0;
#endfor

#if PRODUCT
  let b = min (column, p.n - 1u);
#for i in 0..TM
  let expert$(i) = u32 (load_expert (row$(i)));
  let x$(i) = row$(i) * p.k;
#endfor
  // Rows that have not had their turn.
  let all = (1u << $(TM)u) - 1u;
  var todo = all;
  while (todo != 0u) {
    let next = countTrailingZeros (todo);
    var expert = expert0;
    var turn = 0u;
#for i in 1..TM
    expert = select (expert, expert$(i), next == $(i)u);
#endfor
#for i in 0..TM
    turn |= select (0u, (1u << $(i)u), expert$(i) == expert);
#endfor
    todo &= ~turn;
    if (expert >= p.experts) {
      continue;
    }
    let w = expert * p.k * p.n + b;
    if (turn == all) {
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
        if ((turn & (1u << $(i)u)) != 0u) {
          sum$(i) = fma (load_x (x$(i) + k), v, sum$(i));
        }
#endfor
      }
    }
  }
#endif

  if (column < p.n) {
#for i in 0..TM
    if ($(i)u < rows) {
      store_y (row$(i) * p.n + column, sum$(i));
    }
#endfor
  }
}
