// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What the attention kernels share: which keys a query sees, and how its product with one of them becomes a score.
//
// The queries are aligned with the end of the valid keys: the last query has the position of the last key.

#use op_is_nan math_int math_expm1_poly math_exp_reduce
#if SOFTCAP
#use op_tanh
#endif

// Below every finite score.
const LOWEST: f32 = -0x1.fffffep+127f;
// The bits of -∞. A key with such a score is masked out; the score is compared as bits because a driver may assume that
// floats are finite.
const NOWHERE: u32 = 0xff800000u;

// The number of valid keys.
fn count_keys (batch: u32) -> u32 {
#if LENGTHS
  return u32 (clamp (load_lengths (batch), 0, i32 (min (p.keys, 0x7fffffffu))));
#else
  return p.keys;
#endif
}

// The first of `count` keys that a query sees.
fn first_seen (query: u32, count: u32) -> u32 {
#if WINDOW
  let before = count - min (count, p.queries - 1u - query);
  return before - min (before, p.window);
#else
  return 0u;
#endif
}

// The index after the last key that it sees.
fn end_seen (query: u32, count: u32) -> u32 {
#if CAUSAL
  return count - min (count, p.queries - 1u - query);
#elif WINDOW
  let behind = p.queries - query;
  return count - select (min (count, behind - p.window), 0u, behind <= p.window);
#else
  return count;
#endif
}

#if MASK
// The offset of the mask of a query.
fn mask_row (batch: u32, head: u32, query: u32) -> u32 {
  return batch * p.mask_batch + head * p.mask_head + query * p.mask_query;
}
#endif

// e^x for x <= 0: 1 ulp, but never below 2^-126.
fn weigh (x: f32) -> f32 {
  let c = max (x, -87.0);
  let n = round (c * 1.44269504);
  let scale = bitcast<f32> ((math_int (n) + 127) << 23u);
  let y = fma (scale, math_expm1_poly (math_exp_reduce (c, n)), scale);
  return select (y, x, op_is_nan (x));
}

// Whether a sum of weights is empty. It is never negative but may be NaN, for which a comparison of floats may give
// either result.
fn is_nothing (total: f32) -> bool {
  return bitcast<u32> (total) == 0u;
}

fn cap (product: f32) -> f32 {
#if SOFTCAP
  return p.softcap * op_tanh (product * p.scale);
#else
  return product * p.scale;
#endif
}
