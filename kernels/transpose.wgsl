// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// A copy on a GPU whose result is contiguous along another dimension than its operand, such as the transpose of a
// matrix (ops/rlx-copy.c). Whatever the order of the lanes, on one side each of 32 neighbours would be in a cache line
// of its own, and 64 or 128 bytes would be moved for each element. So a workgroup moves 32 x 32 elements through
// workgroup memory: rows of the tile are contiguous in the operand when they are read, columns are contiguous in the
// result when they are written, in runs of 128 bytes for elements of 32 bits. A row takes 33 words, so that the
// elements of a column are in different banks and neither side has conflicts. 4,224 bytes, 256 invocations with four
// loads in flight each.
//
// There is no arithmetic and hardly any register use: memory is the limit on all devices except V3D, where workgroup
// memory is just as slow: going through it costs 4 words per element, against up to 17 without (a line of 64 bytes for
// one word, and a word).
//
// The operand is contiguous along dimension `near`, the result along `far`. Elements narrower than a word are written
// as whole words of PACK; rows of the result are a whole number of words then.

var<workgroup> tile: array<u32, $(32 * 33)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups are adjacent in the result.
  let far0 = group % p.tiles_far * 32u;
  var rest = group / p.tiles_far;
  let near0 = rest % p.tiles_near * 32u;
  rest /= p.tiles_near;
  var at = p.from_offset;
  var to = p.to_offset;
#for d in 0..OTHERS
  let c$(d) = rest % p.dim$(d);
  rest /= p.dim$(d);
  at += c$(d) * p.from$(d);
  to += c$(d) * p.to$(d);
#endfor

  let near = near0 + lane % 32u;
  for (var i = lane / 32u; i < 32u; i += $(WG / 32)u) {
    if (near < p.near && far0 + i < p.far) {
      tile[i * 33u + lane % 32u] = load_x (at + near * p.from_near + (far0 + i) * p.from_far);
    }
  }
  workgroupBarrier ();

#define WORDS 32 / PACK
  let first = lane % $(WORDS)u * $(PACK)u;
  if (far0 + first >= p.far) {
    return;
  }
  for (var i = lane / $(WORDS)u; i < min (32u, p.near - near0); i += $(WG / WORDS)u) {
#if PACK == 1
    store_y (to + (near0 + i) * p.to_near + far0 + first, tile[first * 33u + i]);
#else
    var word = tile[first * 33u + i];
#for e in 1..PACK
    word |= tile[(first + $(e)u) * 33u + i] << $(e * BITS)u;
#endfor
    store_word_y ((to + (near0 + i) * p.to_near + far0 + first) / $(PACK)u, word);
#endif
  }
}
