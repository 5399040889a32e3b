// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[outer, i, inner] = x[outer, indices[i], inner], raw elements. The work is distributed as in copy.wgsl; results are
// always contiguous.

fn pick (i: u32) -> u32 {
  let index = load_indices (i);
#if SIGNED
  // Negative indices count from the end. Sizes use all 32 bits, so this is done in unsigned arithmetic.
  let back = 0u - bitcast<u32> (index);
  let from_end = p.size - min (back, p.size);
  return select (min (bitcast<u32> (index), p.size - 1u), from_end, index < 0);
#else
  return min (index, p.size - 1u);
#endif
}

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
  let rest = first + min (start, left - 1u);
  var inner = rest % p.inner;
  var index = rest / p.inner % p.n_indices;
  var outer = rest / p.inner / p.n_indices;

  let end = min (p.block, left);
  for (var base = 0u; base < end; base += $(WG * PACK)u) {
    if (base + start < left) {
#if PACK == 1
      store_y (first + base + start, load_x ((outer * p.size + pick (index)) * p.inner + inner));
#else
      var e = inner;
      var i = index;
      var o = outer;
      var word = 0u;
      for (var shift = 0u; shift < 32u; shift += $(BITS)u) {
        word |= load_x ((o * p.size + pick (i)) * p.inner + e) << shift;
        e++;
        if (e == p.inner) {
          e = 0u;
          i++;
          if (i == p.n_indices) {
            i = 0u;
            o++;
          }
        }
      }
      store_word_y ((first + base + start) / $(PACK)u, word);
#endif
    }

    inner += p.next_inner;
    index += p.next_index;
    outer += p.next_outer;
    if (inner >= p.inner) {
      inner -= p.inner;
      index++;
    }
    if (index >= p.n_indices) {
      index -= p.n_indices;
      outer++;
    }
  }
}
