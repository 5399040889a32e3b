// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Σₖ (a[m, k] - zero_a[m]) · (b[k, n] - zero_b[n]) of bytes in i32 (ops/rlx-qmatmul.c).
//
// - tiles: an invocation computes TM rows of 4 adjacent columns; p.lanes lanes of a workgroup are neighbours along the
//   columns, the others along the rows. There is no workgroup memory and no barrier. PACKED computes four products of
//   each sum at once, from whole words; rows of b that are not TRANSPOSED are transposed in registers, 4 · 4 elements
//   at a time.
// - SHUFFLE, for drivers that have subgroups of eight lanes and run them as one vector: a subgroup computes TM rows, a
//   lane 4 adjacent columns of each. Each lane loads words of different rows and unpacks their bytes, once for all
//   columns, and shuffles broadcast them to all lanes. With DOT such a driver would unpack the bytes for each product.
// - SPLIT: a workgroup computes one element, and its lanes share the sum. For few elements with long sums.
// - ROW: lanes share the sums of few rows, for memory that neighbours read in pieces of 16 bytes: LANES of them share
//   those of 2 columns and TM rows that both lie along k.
//
// PACKED sums bytes as they are, or less 128 if FLIPped, and subtracts the contribution of the zero points afterwards:
// all of it modulo 2³², so nothing is lost.

#include "common/requantize.wgsl"

// The first element of each operand, for one index of the stack.
struct Origin {
  a: u32,
  b: u32,
  zero_a: u32,
  zero_b: u32,
}

fn origin (stack: u32) -> Origin {
  var at = Origin (0u, 0u, 0u, 0u);
#if RANK > 0
  var rest = stack;
#for d in 0..RANK
  {
    let c = rest % p.dim$(d);
    rest /= p.dim$(d);
    at.a += c * p.a$(d);
    at.b += c * p.b$(d);
    at.zero_a += c * p.za$(d);
    at.zero_b += c * p.zb$(d);
  }
#endfor
#endif
  return at;
}

fn get_zero_a (at: u32) -> i32 {
#if ZERO_A
  return i32 (load_zero_a (at));
#else
  return 0;
#endif
}

fn get_zero_b (at: u32) -> i32 {
#if ZERO_B
  return i32 (load_zero_b (at));
#else
  return 0;
#endif
}

#if SPLIT

var<workgroup> partial: array<i32, $(WG)>;

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let column = group % p.n;
  let row = group / p.n % p.m;
  let at = origin (group / p.n / p.m);
  let zero_a = get_zero_a (at.zero_a + row * p.za_row);
  let zero_b = get_zero_b (at.zero_b + column * p.zb_column);
  let a = at.a + row * p.k;
  let b = at.b + column * p.b_n;
  let steps = p.k / $(WG)u + select (0u, 1u, lane < p.k % $(WG)u);
  var sum = 0;
  for (var i = 0u; i < steps; i++) {
    let k = i * $(WG)u + lane;
    sum += (i32 (load_a (a + k)) - zero_a) * (i32 (load_b (b + k * p.b_k)) - zero_b);
  }

  partial[lane] = sum;
  for (var width = $(WG / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (lane < width) {
      partial[lane] += partial[lane + width];
    }
  }
  if (lane == 0u) {
    store_y (group, finish (partial[0], column));
  }
}

#elif ROW

var<workgroup> partial: array<array<i32, $(LANES)>, $(WG / LANES * 2 * TM)>;

fn get_a (i: u32) -> u32 {
#if FLIP_A
  return word_a (i) ^ 0x80808080u;
#else
  return word_a (i);
#endif
}

fn get_b (i: u32) -> u32 {
#if FLIP_B
  return word_b (i) ^ 0x80808080u;
#else
  return word_b (i);
#endif
}

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let top = group % p.tiles_m * $(TM)u;
  let rest = group / p.tiles_m;
  let left = rest % p.tiles_n * $(WG / LANES * 2)u;
  let stack = rest / p.tiles_n;
  let at = origin (stack);
  let team = lane / $(LANES)u;
  let part = lane % $(LANES)u;
#for i in 0..TM
  let row$(i) = min (top + $(i)u, p.m - 1u);
  let a$(i) = (at.a + row$(i) * p.k) / 4u;
#if OFFSET_A
  let zero_a$(i) = get_zero_a (at.zero_a + row$(i) * p.za_row) - $(128 * FLIP_A);
#endif
#if OFFSET_B
  var all_a$(i) = 0;
#endif
#endfor
#for e in 0..2
  let column$(e) = min (left + team * 2u + $(e)u, p.n - 1u);
  let b$(e) = (at.b + column$(e) * p.b_n) / 4u;
#if OFFSET_B
  let zero_b$(e) = get_zero_b (at.zero_b + column$(e) * p.zb_column) - $(128 * FLIP_B);
#endif
#if OFFSET_A
  var all_b$(e) = 0;
#endif
#for i in 0..TM
  var sum$(i)_$(e) = 0;
#endfor
#endfor

  for (var piece = part; piece < p.pieces; piece += $(LANES)u) {
#for u in 0..4
#for e in 0..2
    let y$(e)_$(u) = get_b (b$(e) + piece * 4u + $(u)u);
#endfor
#for i in 0..TM
    let x$(i)_$(u) = get_a (a$(i) + piece * 4u + $(u)u);
#endfor
#endfor
#for u in 0..4
#for e in 0..2
#if OFFSET_A
    all_b$(e) += i32 (${DOT} (y$(e)_$(u), 0x01010101u));
#endif
#for i in 0..TM
    sum$(i)_$(e) += i32 (${DOT} (x$(i)_$(u), y$(e)_$(u)));
#endfor
#endfor
#if OFFSET_B
#for i in 0..TM
    all_a$(i) += i32 (${DOT} (x$(i)_$(u), 0x01010101u));
#endfor
#endif
#endfor
  }

  // Each lane subtracts the zero points from its share of the sums; the first one adds their product.
#for e in 0..2
#for i in 0..TM
#if OFFSET_A
  sum$(i)_$(e) -= zero_a$(i) * all_b$(e);
#endif
#if OFFSET_B
  sum$(i)_$(e) -= zero_b$(e) * all_a$(i);
#endif
#if OFFSET_A && OFFSET_B
  sum$(i)_$(e) += select (0, i32 (p.k) * zero_a$(i) * zero_b$(e), part == 0u);
#endif
  partial[(team * 2u + $(e)u) * $(TM)u + $(i)u][part] = sum$(i)_$(e);
#endfor
#endfor
  workgroupBarrier ();
  let row = top + lane % $(TM)u;
  let column = left + lane / $(TM)u;
  if (lane < $(WG / LANES * 2 * TM)u && row < p.m && column < p.n) {
    var sum = 0;
#for l in 0..LANES
    sum += partial[lane][$(l)];
#endfor
    store_y ((stack * p.m + row) * p.n + column, finish (sum, column));
  }
}

#elif SHUFFLE

#define GROUPS TM / 8

// The value of a byte of a word.
fn number (word: u32, shift: u32, is_signed: bool) -> i32 {
  return select (bitcast<i32> ((word >> shift) & 255u), bitcast<i32> (word << (24u - shift)) >> 24u, is_signed);
}

@compute @workgroup_size(8)
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32,
         @builtin(subgroup_invocation_id) sub: u32) {
  // After an early return everything would run under one more mask. Instead, a workgroup past the last one repeats the
  // last one, and stores nothing.
  let group = min (workgroup_index (wid), p.groups - 1u);
  let top = group % p.tiles_m * $(TM)u;
  let rest = group / p.tiles_m;
  let stack = rest / p.tiles_n;
  let here = (rest % p.tiles_n * 8u + lane) * 4u;
  let left = min (here, (p.n - 1u) / 4u * 4u);
#if EVEN
  let rows = min ($(TM)u, p.m - top);
#else
  let rows = select (0u, min ($(TM)u, p.m - top), here < p.n && workgroup_index (wid) < p.groups);
#endif
  let at = origin (stack);
#for i in 0..GROUPS
  let row$(i) = min (top + $(8 * i)u + sub, p.m - 1u);
  let a$(i) = at.a + row$(i) * p.k;
  let zero_a$(i) = get_zero_a (at.zero_a + row$(i) * p.za_row);
#endfor
#for e in 0..4
  let column$(e) = min (left + $(e)u, p.n - 1u);
  let b$(e) = at.b + column$(e) * p.b_n;
  let zero_b$(e) = get_zero_b (at.zero_b + column$(e) * p.zb_column);
#endfor

  // An index that, as far as the driver knows, is not uniform.
  let none = sub >> 3u;
  var sums: array<i32, $(4 * TM)>;
  for (var k = 0u; k < p.k; k += 4u) {
#for i in 0..GROUPS
    let v$(i) = word_a ((a$(i) + k) >> 2u);
#endfor
#for u in 0..4
#if TRANSPOSED
    let w$(u) = word_b ((b$(u) + k) >> 2u);
#else
    let w$(u) = word_b ((at.b + (k + $(u)u) * p.n + left) >> 2u);
#endif
#endfor
#for u in 0..4
#for i in 0..GROUPS
    let x$(i)_$(u) = number (v$(i), $(8 * u)u, $(SIGNED_A) != 0) - zero_a$(i);
#endfor
#for e in 0..4
#if TRANSPOSED
    let y$(u)_$(e) = number (w$(e), $(8 * u)u, $(SIGNED_B) != 0) - zero_b$(e);
#else
    let y$(u)_$(e) = number (w$(u), $(8 * e)u, $(SIGNED_B) != 0) - zero_b$(e);
#endif
#endfor
#endfor
#for i in 0..TM
    {
#for u in 0..4
      let x$(u) = subgroupShuffle (x$(i / 8)_$(u), none + $(i % 8)u);
#endfor
#for e in 0..4
      sums[$(4 * i + e)] += x0 * y0_$(e) + x1 * y1_$(e) + x2 * y2_$(e) + x3 * y3_$(e);
#endfor
    }
#endfor
  }

  for (var i = 0u; i < rows; i++) {
    let y = (stack * p.m + top + i) * p.n + left;
#if WORDS
    store_word_y (y >> 2u, encode_y (finish (sums[4u * i], left)) | (encode_y (finish (sums[4u * i + 1u], left + 1u)) << 8u) |
                           (encode_y (finish (sums[4u * i + 2u], left + 2u)) << 16u) | (encode_y (finish (sums[4u * i + 3u], left + 3u)) << 24u));
#else
#for e in 0..4
#if EVEN
    store_y (y + $(e)u, finish (sums[4u * i + $(e)u], left + $(e)u));
#else
    if (left + $(e)u < p.n) {
      store_y (y + $(e)u, finish (sums[4u * i + $(e)u], left + $(e)u));
    }
#endif
#endfor
#endif
  }
}

#else

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  // Neighbouring workgroups share columns, which stay in the cache.
  let top = (group % p.tiles_m * ($(WG)u / p.lanes) + lane / p.lanes) * $(TM)u;
  let rest = group / p.tiles_m;
  let stack = rest / p.tiles_n;
  let left = (rest % p.tiles_n * p.lanes + lane % p.lanes) * 4u;
  if (top >= p.m || left >= p.n) {
    return;
  }
  let rows = min ($(TM)u, p.m - top);

  // Indices past the edge are clamped to it, and only stores are guarded.
  let at = origin (stack);
#for i in 0..TM
  let row$(i) = min (top + $(i)u, p.m - 1u);
  let a$(i) = at.a + row$(i) * p.k;
  let zero_a$(i) = get_zero_a (at.zero_a + row$(i) * p.za_row);
#endfor
#for e in 0..4
  let column$(e) = min (left + $(e)u, p.n - 1u);
  let b$(e) = at.b + column$(e) * p.b_n;
  let zero_b$(e) = get_zero_b (at.zero_b + column$(e) * p.zb_column);
#for i in 0..TM
  var sum$(i)_$(e) = 0;
#endfor
#endfor

#if PRODUCT
#if PACKED
#if OFFSET_B
#for i in 0..TM
  var all_a$(i) = 0;
#endfor
#endif
#for e in 0..4
#if OFFSET_A
  var all_b$(e) = 0;
#endif
#endfor
  for (var k = 0u; k < p.k; k += 4u) {
#if TRANSPOSED
#for e in 0..4
    let t$(e) = word_b ((b$(e) + k) >> 2u);
#endfor
#else
#for u in 0..4
    let w$(u) = word_b ((at.b + (k + $(u)u) * p.n + left) >> 2u);
#endfor
    // Interleaves two rows, even columns and odd ones; then all four.
    let even0 = (w0 & 0x00ff00ffu) | ((w1 & 0x00ff00ffu) << 8u);
    let odd0 = ((w0 >> 8u) & 0x00ff00ffu) | (w1 & 0xff00ff00u);
    let even2 = (w2 & 0x00ff00ffu) | ((w3 & 0x00ff00ffu) << 8u);
    let odd2 = ((w2 >> 8u) & 0x00ff00ffu) | (w3 & 0xff00ff00u);
    let t0 = (even0 & 0xffffu) | (even2 << 16u);
    let t1 = (odd0 & 0xffffu) | (odd2 << 16u);
    let t2 = (even0 >> 16u) | (even2 & 0xffff0000u);
    let t3 = (odd0 >> 16u) | (odd2 & 0xffff0000u);
#endif
#for e in 0..4
#if FLIP_B
    let y$(e) = t$(e) ^ 0x80808080u;
#else
    let y$(e) = t$(e);
#endif
#if OFFSET_A
    all_b$(e) += i32 (${DOT} (y$(e), 0x01010101u));
#endif
#endfor
#for i in 0..TM
    {
#if FLIP_A
      let x = word_a ((a$(i) + k) >> 2u) ^ 0x80808080u;
#else
      let x = word_a ((a$(i) + k) >> 2u);
#endif
#if OFFSET_B
      all_a$(i) += i32 (${DOT} (x, 0x01010101u));
#endif
#for e in 0..4
      sum$(i)_$(e) += i32 (${DOT} (x, y$(e)));
#endfor
    }
#endfor
  }
#for i in 0..TM
#for e in 0..4
#if OFFSET_A
  sum$(i)_$(e) -= (zero_a$(i) - $(128 * FLIP_A)) * all_b$(e);
#endif
#if OFFSET_B
  sum$(i)_$(e) -= (zero_b$(e) - $(128 * FLIP_B)) * all_a$(i);
#endif
#if OFFSET_A && OFFSET_B
  sum$(i)_$(e) += i32 (p.k) * (zero_a$(i) - $(128 * FLIP_A)) * (zero_b$(e) - $(128 * FLIP_B));
#endif
#endfor
#endfor
#else
  for (var k = 0u; k < p.k; k++) {
#for e in 0..4
    let y$(e) = i32 (load_b (b$(e) + k * p.b_k)) - zero_b$(e);
#endfor
#for i in 0..TM
    {
      let x = i32 (load_a (a$(i) + k)) - zero_a$(i);
#for e in 0..4
      sum$(i)_$(e) += x * y$(e);
#endfor
    }
#endfor
  }
#endif
#endif

  // In a loop: unrolled, this would take longer to compile than the sums.
  var sums: array<i32, $(4 * TM)>;
#for i in 0..TM
#for e in 0..4
  sums[$(4 * i + e)] = sum$(i)_$(e);
#endfor
#endfor
  for (var i = 0u; i < rows; i++) {
    let y = (stack * p.m + top + i) * p.n + left;
#if WORDS
    var word = 0u;
    for (var e = 0u; e < 4u; e++) {
      word |= encode_y (finish (sums[4u * i + e], left + e)) << (8u * e);
    }
    store_word_y (y >> 2u, word);
#else
    for (var e = 0u; e < min (4u, p.n - left); e++) {
      store_y (y + e, finish (sums[4u * i + e], left + e));
    }
#endif
  }
}

#endif
