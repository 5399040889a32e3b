// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Rotary position embedding: the pairs of a head rotate by angles that grow with the position of their token. A lane
// rotates one pair, or copies one of the elements after the last pair.
//
// There may be several tensors (PARTS), each with its own workgroups: the first ROTATED of them are rotated, the others
// copied, and those from PLAIN on are written to a cache, at a position that is read here. The rest of the cache is
// left alone.
//
// The angles come from tables, or from a position and the angle per position. The latter is a fraction of a full turn
// with 64 bits, in two words: whole turns do not matter, so the product with the upper word is taken modulo 2³², and a
// position of a hundred million is as exact as one of three. Neighbouring lanes take neighbouring pairs, so that reads
// and writes are contiguous; a pair costs two reads, two writes and either two reads of a table that all heads share or
// about forty operations, so memory bandwidth is the limit.

#if PLAIN < PARTS
#include "common/index.wgsl"
#endif

#if ROTATED > 0
#if !TABLES
#use op_sin op_cos math_mul_high

// The angle of a pair, between -π and π.
fn get_angle (position: i32, pair: u32) -> f32 {
  let size = u32 (abs (position));
  let fraction = size * load_angle_steps (pair * 2u) + math_mul_high (size, load_angle_steps (pair * 2u + 1u));
  let angle = f32 (bitcast<i32> (fraction)) * 1.46291807926716e-9;
  return select (angle, -angle, position < 0);
}
#endif

// The cosine and sine for the first and for the second element of a pair.
fn get_rotation (batch: u32, token: u32, unit: u32, first: u32, second: u32) -> vec4<f32> {
#if POSITIONS == 2
  // The first half of the pairs uses the first coordinate.
  let axis = select (0u, 1u, unit >= p.pairs / 2u);
  let position = load_positions (batch * p.position_batch + token * p.position_row + axis);
#elif POSITIONS
  let position = load_positions (batch * p.position_batch + token * p.position_row);
#elif GRID
  let position = i32 (select (token / p.columns, token % p.columns, unit >= p.pairs / 2u));
#else
  let position = i32 (token);
#endif

#if TABLES
#if POSITIONS
  let row = u32 (clamp (position, 0, i32 (min (p.table_rows, 0x7fffffffu)) - 1)) * p.table_width;
#else
  let row = batch * p.table_batch + token * p.table_row;
#endif
#if WIDE
  return vec4<f32> (load_cos (row + first), load_sin (row + first), load_cos (row + second), load_sin (row + second));
#else
  let c = load_cos (row + unit);
  let s = load_sin (row + unit);
  return vec4<f32> (c, s, c, s);
#endif
#else
  let angle = get_angle (position, unit);
  let c = op_cos (angle);
  let s = op_sin (angle);
  return vec4<f32> (c, s, c, s);
#endif
}
#endif

// What a lane stores: one element, or two.
struct Moved {
  count: u32,
  first: u32,
  second: u32,
  a: f32,
  b: f32,
}

#for t in 0..PARTS
fn part$(t) (index: u32) -> Moved {
  // Pairs, then single elements, of each head of each token.
  let unit = index % p.head_units$(t);
  let row = index / p.head_units$(t);
#if SEQUENCE_FIRST
  let head = row % p.heads$(t);
  let token = row / p.heads$(t) % p.sequence$(t);
  let batch = row / p.heads$(t) / p.sequence$(t);
#else
  let token = row % p.sequence$(t);
  let head = row / p.sequence$(t) % p.heads$(t);
  let batch = row / p.sequence$(t) / p.heads$(t);
#endif
  let x = batch * p.x_batch$(t) + head * p.x_head$(t) + token * p.x_token$(t);
#if t < PLAIN
  let y = batch * p.y_batch$(t) + head * p.y_head$(t) + token * p.y_token$(t);
#else
  let y = batch * p.y_batch$(t) + head * p.y_head$(t) + token * p.y_token$(t) +
          limit_index (load_indices (0u), p.size$(t) - p.length$(t) + 1u) * p.step$(t);
#endif

#if t < ROTATED
  if (unit < p.pairs) {
#if INTERLEAVED
    let first = unit * 2u;
    let second = unit * 2u + 1u;
#else
    let first = unit;
    let second = unit + p.pairs;
#endif
    let r = get_rotation (batch, token, unit, first, second);
    let a = load_x$(t) (x + first);
    let b = load_x$(t) (x + second);
    return Moved (2u, y + first, y + second, a * r.x - b * r.y, b * r.z + a * r.w);
  }
  let at = unit + p.pairs;
#else
  let at = unit;
#endif
  return Moved (1u, y + at, 0u, load_x$(t) (x + at), 0.0);
}
#endfor

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  // Stores to one of several tensors are nested in one condition at most (product.wgsl).
#for t in 0..PARTS
  let index$(t) = (group - p.first$(t)) * $(WG)u + lane;
  var moved$(t) = Moved (0u, 0u, 0u, 0.0, 0.0);
  // Workgroups before the first one wrap around.
  if ((group - p.first$(t) < p.groups$(t)) & (index$(t) < p.units$(t))) {
    moved$(t) = part$(t) (index$(t));
  }
  if (moved$(t).count > 0u) {
    store_y$(t) (moved$(t).first, moved$(t).a);
  }
  if (moved$(t).count > 1u) {
    store_y$(t) (moved$(t).second, moved$(t).b);
  }
#endfor
}
