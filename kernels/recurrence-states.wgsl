// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// All states of a sequence, each computed from the previous one. An invocation has a column of them: of the result it
// reads nothing but what it has written itself.
//
// LEAD: what the state holds for `in_key` is also added for `out_key`. FIRST: also writes the state before all steps.

#if DECAY
#use op_exp
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i >= p.n) {
    return;
  }

  let head = i / p.columns;
  let column = i % p.columns;
  let size = p.heads * p.rows * p.columns;
  let here = head * p.rows * p.columns + column;

#if FIRST
  let start = select (0u, p.steps, p.reverse != 0u) * size + here;
  for (var j = 0u; j < p.rows; j++) {
#if INITIAL
    store_s (start + j * p.columns, load_initial (here + j * p.columns));
#else
    store_s (start + j * p.columns, 0.0);
#endif
  }
#endif

#if STEPS
  for (var at = p.first; at < p.first + p.count; at++) {
    let t = select (at, p.steps - 1u - at, p.reverse != 0u);
    let before = (t + select (0u, 1u, p.reverse != 0u)) * size + here;
    let after = (t + select (1u, 0u, p.reverse != 0u)) * size + here;
    let keys = (t * p.heads + head) * p.rows;
    let v = load_v ((t * p.heads + head) * p.columns + column);
#if LEAD
    var had = 0.0;
    for (var j = 0u; j < p.rows; j++) {
      had = fma (load_in_key (keys + j), load_s (before + j * p.columns), had);
    }
#endif
    for (var j = 0u; j < p.rows; j++) {
      var s = load_s (before + j * p.columns);
#if DECAY
      s *= op_exp (load_decay (keys + j));
#endif
#if LEAD
      s = fma (load_out_key (keys + j), had, s);
#endif
      store_s (after + j * p.columns, fma (load_k (keys + j), v, s));
    }
  }
#endif
}
