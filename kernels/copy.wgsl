// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Copies elements, whatever they are, between two tensors that each have an
// offset and a distance per dimension (ops/rlx-shape.c). Dimension 0 is the
// innermost; RANK 0 is a plain copy of n elements.
//
// A workgroup takes a block of consecutive elements of the result, neighbours
// in neighbouring invocations. Where an element is follows from its index in
// each dimension: division finds the first of an invocation, the next ones come
// from adding WG in mixed radix. Results in order are written in whole words of
// PACK elements; otherwise small elements are merged into their words.

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
#if RANK == 0
  let i = workgroup_index (wid) * $(WG)u + lane;
  if (i < p.n) {
    store_y (i, load_x (i));
  }
#else
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first = group * p.block;
  let left = p.n - first;
  let start = lane * $(PACK)u;
  var rest = first + min (start, left - 1u);
#for d in 0..RANK - 1
  var c$(d) = rest % p.dim$(d);
  rest /= p.dim$(d);
#endfor
  var c$(RANK - 1) = rest;

  let end = min (p.block, left);
  for (var base = 0u; base < end; base += $(WG * PACK)u) {
    if (base + start < left) {
#if PACK == 1
      var at = p.from_offset;
#for d in 0..RANK
      at += c$(d) * p.from$(d);
#endfor
#if IN_ORDER
      let to = first + base + start;
#else
      var to = p.to_offset;
#for d in 0..RANK
      to += c$(d) * p.to$(d);
#endfor
#endif
      store_y (to, load_x (at));
#else
#for d in 0..RANK
      var e$(d) = c$(d);
#endfor
      var word = 0u;
      var carry = false;
#for e in 0..PACK
      {
        var at = p.from_offset;
#for d in 0..RANK
        at += e$(d) * p.from$(d);
#endfor
        word |= load_x (at) << $(e * BITS)u;
        e0++;
#for d in 0..RANK - 1
        carry = e$(d) == p.dim$(d);
        e$(d) = select (e$(d), 0u, carry);
        e$(d + 1) += select (0u, 1u, carry);
#endfor
      }
#endfor
      store_word_y ((first + base + start) / $(PACK)u, word);
#endif
    }

#for d in 0..RANK
    c$(d) += p.next$(d);
#endfor
#for d in 0..RANK - 1
    if (c$(d) >= p.dim$(d)) {
      c$(d) -= p.dim$(d);
      c$(d + 1)++;
    }
#endfor
  }
#endif
}
