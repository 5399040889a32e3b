// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Rotary positions: the pairs of a head turn by angles that grow with the
// position of their token. A lane turns one pair, or copies one of the elements
// behind the last pair.
//
// The angles come from tables, or from a position and turns per position.
// These are fractions of 64 bits, in two words: whole turns do not matter, so
// that the product is taken modulo 2³² of the upper word, and a position of a
// hundred million is as exact as one of three. Neighbouring lanes take
// neighbouring pairs, so that reads and writes are in order; a pair costs two
// reads, two writes and either two reads of a table that all heads share or
// some forty operations, so that the time is that of the memory.

#if !TABLES
#use op_sin op_cos

// The upper 32 bits of a product.
fn mul_high (a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let middle = a1 * b0 + ((a0 * b0) >> 16u);
  return a1 * b1 + (middle >> 16u) + ((a0 * b1 + (middle & 0xffffu)) >> 16u);
}

// The angle of a pair, between -π and π.
fn get_angle (position: i32, pair: u32) -> f32 {
  let size = u32 (abs (position));
  let turns = size * load_turns (pair * 2u) + mul_high (size, load_turns (pair * 2u + 1u));
  let angle = f32 (bitcast<i32> (turns)) * 1.46291807926716e-9;
  return select (angle, -angle, position < 0);
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let index = workgroup_index (wid) * $(WG)u + lane;
  if (index >= p.units) {
    return;
  }

  // Pairs, then single elements, of each head of each token.
  let unit = index % p.head_units;
  let head = index / p.head_units;
  let x = head * p.width;
#if SEQUENCE_FIRST
  let token = head / p.heads % p.sequence;
  let batch = head / p.heads / p.sequence;
#else
  let token = head % p.sequence;
  let batch = head / p.sequence / p.heads;
#endif

  if (unit >= p.pairs) {
    let at = x + unit + p.pairs;
    store_y (at, load_x (at));
    return;
  }

#if INTERLEAVED
  let first = unit * 2u;
  let second = unit * 2u + 1u;
#else
  let first = unit;
  let second = unit + p.pairs;
#endif

#if POSITIONS == 2
  // The first half of the pairs takes the first coordinate.
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
  let c1 = load_cos (row + first);
  let s1 = load_sin (row + first);
  let c2 = load_cos (row + second);
  let s2 = load_sin (row + second);
#else
  let c1 = load_cos (row + unit);
  let s1 = load_sin (row + unit);
  let c2 = c1;
  let s2 = s1;
#endif
#else
  let angle = get_angle (position, unit);
  let c1 = op_cos (angle);
  let s1 = op_sin (angle);
  let c2 = c1;
  let s2 = s1;
#endif

  let a = load_x (x + first);
  let b = load_x (x + second);
  store_y (x + first, a * c1 - b * s1);
  store_y (x + second, b * c2 + a * s2);
}
