// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// A workgroup takes TQ queries of one head and WG · TV columns of the value,
// and goes through the keys WG at a time. Each block has three parts:
//
// 1. a lane multiplies its key with all TQ queries;
// 2. the lanes split up the rows of that TQ × WG matrix, SHARE lanes to a row,
//    and turn the products into weights relative to the largest score so far;
// 3. a lane adds the weighted values to the TQ × TV sums of its columns. What
//    was summed up before is scaled down when the largest score has grown.
//
// So no more than one block of scores exists at a time, whatever the number of
// keys and the widths.
//
// A key that takes no part (causal, mask FALSE or a score of -∞) is marked as
// hidden and its value is never multiplied: a NaN there does no harm. The mark
// is compared as bits because a driver may assume that floats are finite.

#use op_exp

#define SHARE WG / TQ

// The bits of -∞, so that such a score hides its key by itself.
const HIDDEN: u32 = 0xff800000u;
// Below every finite score.
const LOWEST: f32 = -0x1.fffffep+127f;

// The products of a block, then the scores, then the weights.
var<workgroup> weights: array<u32, $(TQ * WG)>;
// What each lane found in its share of a row.
var<workgroup> found: array<f32, $(WG)>;
// What the sums of each query are multiplied with.
var<workgroup> factors: array<f32, $(TQ)>;

#if KEYS
// How many keys a query sees: the queries sit at the end of the keys.
fn seen (query: u32) -> u32 {
#if CAUSAL
  let behind = p.queries - 1u - query;
  return select (0u, p.keys - behind, behind < p.keys);
#else
  return p.keys;
#endif
}
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let first_col = (group % p.chunks) * $(WG * TV)u;
  let cols = p.columns - first_col;
  let rest = group / p.chunks;
  let first_query = (rest % p.tiles) * $(TQ)u;
  let rows = min (p.queries - first_query, $(TQ)u);
  let head = rest / p.tiles;
  let query = head * p.queries + first_query;
#for i in 0..TQ
#for c in 0..TV
  var sum$(i)_$(c) = 0.0;
#endfor
#endfor

#if KEYS
  let kv = (head / p.share) * p.keys;
#for c in 0..TV
  let col$(c) = first_col + min (lane + $(c * WG)u, cols - 1u);
#endfor
#if SCORES
#for i in 0..TQ
  let q$(i) = (query + min ($(i)u, rows - 1u)) * p.width;
#endfor
#endif

  // The row this lane has a share in.
  let row = lane / $(SHARE)u;
  let row_query = first_query + min (row, rows - 1u);
  let part = lane % $(SHARE)u;
#if CAUSAL
  let row_seen = seen (row_query);
#endif
#if MASK
  let row_mask = (head / p.heads) * p.mask_batch + (head % p.heads) * p.mask_head + row_query * p.mask_query;
#endif
  var top = LOWEST;
  var total = 0.0;

  let limit = seen (first_query + rows - 1u);
  for (var left = limit; left > 0u; left -= min (left, $(WG)u)) {
    let first_key = limit - left;
    let keys = min (left, $(WG)u);

#for i in 0..TQ
    var product$(i) = 0.0;
#endfor
#if SCORES
    let k = (kv + first_key + min (lane, keys - 1u)) * p.width;
    for (var d = 0u; d < p.width; d++) {
      let x = load_key (k + d);
#for i in 0..TQ
      product$(i) = fma (load_query (q$(i) + d), x, product$(i));
#endfor
    }
#endif
#for i in 0..TQ
    weights[$(i * WG)u + lane] = bitcast<u32> (product$(i));
#endfor
    workgroupBarrier ();

    var best = LOWEST;
    for (var j = part; j < keys; j += $(SHARE)u) {
      let at = row * $(WG)u + j;
      let key = first_key + j;
      var score = bitcast<f32> (weights[at]) * p.scale;
      var shown = true;
#if CAUSAL
      shown = key < row_seen;
#endif
#if MASK == 1
      score += load_mask (row_mask + key * p.mask_key);
#elif MASK == 2
      shown = shown && load_mask (row_mask + key * p.mask_key);
#endif
      best = select (best, max (best, score), shown);
      weights[at] = select (HIDDEN, bitcast<u32> (score), shown);
    }
    found[lane] = best;
    workgroupBarrier ();

    best = top;
    for (var j = 0u; j < $(SHARE)u; j++) {
      best = max (best, found[row * $(SHARE)u + j]);
    }
    let shrink = op_exp (top - best);
    top = best;
    total *= shrink;
    for (var j = part; j < keys; j += $(SHARE)u) {
      let at = row * $(WG)u + j;
      let score = weights[at];
      if (score != HIDDEN) {
        let weight = op_exp (bitcast<f32> (score) - best);
        total += weight;
        weights[at] = bitcast<u32> (weight);
      }
    }
    if (part == 0u) {
      factors[row] = shrink;
    }
    workgroupBarrier ();

#for i in 0..TQ
#for c in 0..TV
    sum$(i)_$(c) *= factors[$(i)];
#endfor
#endfor
    for (var j = 0u; j < keys; j++) {
      let v = (kv + first_key + j) * p.columns;
#for c in 0..TV
      let value$(c) = load_value (v + col$(c));
#endfor
#for i in 0..TQ
      let weight$(i) = weights[$(i * WG)u + j];
#for c in 0..TV
      sum$(i)_$(c) = select (fma (bitcast<f32> (weight$(i)), value$(c), sum$(i)_$(c)), sum$(i)_$(c), weight$(i) == HIDDEN);
#endfor
#endfor
    }
    workgroupBarrier ();
  }

  found[lane] = total;
  workgroupBarrier ();
  if (part == 0u) {
    for (var j = 1u; j < $(SHARE)u; j++) {
      total += found[row * $(SHARE)u + j];
    }
    factors[row] = total;
  }
  workgroupBarrier ();
#endif

#for i in 0..TQ
  if ($(i)u < rows) {
#for c in 0..TV
    if (lane + $(c * WG)u < cols) {
      let y = (query + $(i)u) * p.columns + first_col + lane + $(c * WG)u;
#if KEYS
      store_y (y, select (sum$(i)_$(c) / factors[$(i)], 0.0, factors[$(i)] == 0.0));
#else
      store_y (y, sum$(i)_$(c));
#endif
    }
#endfor
  }
#endfor
}
