// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The initial state of each part of a sequence, from what recurrence.wgsl has computed for the parts: a part turns a
// state S into T S + U, where U is its result for a state of zeros, and T is diagonal or, with MATRIX, any matrix.
//
// States are stored column by column. Each invocation has an element; with MATRIX a workgroup has COLUMNS columns, and
// their states, before and after a part, in workgroup memory.

#if MATRIX
var<workgroup> states: array<f32, $(2 * COLUMNS * K)>;
#endif

// Row j of column c before the first part.
fn initial (head: u32, c: u32, j: u32) -> f32 {
#if INIT
  return load_state (head * p.in_head + j * p.in_row + c * p.in_column);
#else
  return 0.0;
#endif
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
#if MATRIX
  if (group >= p.groups) {
    return;
  }

  let head = group / p.blocks;
  let c0 = group % p.blocks * $(COLUMNS)u;
  var now = 0u;
  for (var i = lane; i < $(COLUMNS * K)u; i += $(WG)u) {
    states[i] = initial (head, min (c0 + i / $(K)u, p.columns - 1u), i % $(K)u);
  }
  for (var chunk = 0u; chunk < p.chunks; chunk++) {
    let part = chunk * p.heads + head;
    workgroupBarrier ();
    for (var i = lane; i < $(COLUMNS * K)u; i += $(WG)u) {
      let c = c0 + i / $(K)u;
      let j = i % $(K)u;
      let before = now + i / $(K)u * $(K)u;
      var sum = load_folded ((part * p.all_columns + min (c, p.columns - 1u)) * $(K)u + j);
      for (var k = 0u; k < $(K)u; k++) {
        sum = fma (load_folded ((part * p.all_columns + p.columns + k) * $(K)u + j), states[before + k], sum);
      }
      states[$(COLUMNS * K)u - now + i] = sum;
      if (c < p.columns) {
        store_starts ((part * p.columns + c) * $(K)u + j, states[now + i]);
      }
    }
    now = $(COLUMNS * K)u - now;
  }
#else
  let item = group * $(WG)u + lane;
  if (item >= p.items) {
    return;
  }

  let j = item % p.rows;
  let c = item / p.rows % p.columns;
  let head = item / p.rows / p.columns;
  var s = initial (head, c, j);
  for (var chunk = 0u; chunk < p.chunks; chunk++) {
    let part = chunk * p.heads + head;
    let all = part * p.all_columns;
#if OWN
    let decay = load_folded ((all + p.columns + c) * p.rows + j);
#else
    let decay = load_folded ((all + p.columns) * p.rows + j);
#endif
    store_starts ((part * p.columns + c) * p.rows + j, s);
    s = fma (decay, s, load_folded ((all + c) * p.rows + j));
  }
#endif
}
