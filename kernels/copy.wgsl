// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Copies elements of any type between two tensors that each have an offset and a stride for each dimension
// (ops/rlx-shape.c). Dimension 0 is the innermost.
//
// A workgroup takes a block of consecutive elements of the result, with neighbours in neighbouring invocations. The
// address of an element follows from its index in each dimension: the first one of an invocation takes divisions, the
// next ones add WG in mixed radix. Contiguous results are written in whole words of PACK elements; otherwise small
// elements are merged into their words.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first = group * p.block;
  let left = p.n - first;
  let start = lane * $(PACK)u;
  var rest = first + min (start, left - 1u);
  var at = p.from_offset;
#if !IN_ORDER
  var to = p.to_offset;
#endif
#for d in 0..RANK
#if d < RANK - 1
  var c$(d) = rest % p.dim$(d);
  rest /= p.dim$(d);
#else
  let c$(d) = rest;
#endif
  at += c$(d) * p.from$(d);
#if !IN_ORDER
  to += c$(d) * p.to$(d);
#endif
#endfor

  let end = min (p.block, left);
  for (var base = 0u; base < end; base += $(WG * PACK)u) {
    if (base + start < left) {
#if PACK == 1
#if IN_ORDER
      store_y (first + base + start, load_x (at));
#else
      store_y (to, load_x (at));
#endif
#else
      var source = at;
      var word = load_x (source);
#for d in 0..RANK - 1
      var e$(d) = c$(d);
#endfor
#for e in 1..PACK
      source += p.from0;
#for d in 0..RANK - 1
#if d == 0
      var carry$(e) = true;
#endif
      e$(d) += select (0u, 1u, carry$(e));
      carry$(e) = e$(d) == p.dim$(d);
      e$(d) = select (e$(d), 0u, carry$(e));
      source += select (0u, p.carry_from$(d), carry$(e));
#endfor
      word |= load_x (source) << $(e * BITS)u;
#endfor
      store_word_y ((first + base + start) / $(PACK)u, word);
#endif
    }

    at += p.next_from;
#if !IN_ORDER
    to += p.next_to;
#endif
#for d in 0..RANK - 1
    c$(d) += p.next$(d);
#endfor
#for d in 0..RANK - 1
    let carry$(d) = c$(d) >= p.dim$(d);
    c$(d) -= select (0u, p.dim$(d), carry$(d));
    at += select (0u, p.carry_from$(d), carry$(d));
#if !IN_ORDER
    to += select (0u, p.carry_to$(d), carry$(d));
#endif
#if d < RANK - 2
    c$(d + 1) += select (0u, 1u, carry$(d));
#endif
#endfor
  }
}
