// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What the gradient kernels of attention share: how a product becomes a score, and the derivative of the score.

#include "common/attention.wgsl"

struct Seen {
  score: f32,
  slope: f32,     // the derivative of the score with respect to the product
  hidden: bool,
}

// The score of a product.
fn see (product: f32, key: u32, first: u32, end: u32, mask: u32) -> Seen {
  let capped = cap (product);
  var seen = Seen (capped, p.factor, key < first || key >= end);
#if SOFTCAP
  let part = capped / p.softcap;
  seen.slope *= 1.0 - part * part;
#endif
#if MASK == 1
  seen.score += load_mask (mask + key * p.mask_key);
#elif MASK == 2
  seen.hidden = seen.hidden || !load_mask (mask + key * p.mask_key);
#endif
  seen.hidden = seen.hidden || bitcast<u32> (seen.score) == NOWHERE;
  return seen;
}

// Adds the product of four columns of a query and a key, column by column.
fn dot4 (a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
  return fma (a.w, b.w, fma (a.z, b.z, fma (a.y, b.y, fma (a.x, b.x, sum))));
}
