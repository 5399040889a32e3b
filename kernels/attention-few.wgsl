// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Attention for few queries, on a GPU with subgroups: y[b, h, q, :] = Σⱼ softmaxⱼ (scale · q·kⱼ + mask) · vⱼ
//
// As in attention-split.wgsl, the heads that share keys are rows of the same matrix; a workgroup takes TQ of them and
// p.span keys. It is a single subgroup of LANES lanes. PER lanes share a key, eight columns each, and likewise its
// value: neighbouring lanes read neighbouring 16 bytes, and UNROLL keys and values are being loaded before the first is
// used. The partial products of a key are added up by shuffles. There is no workgroup memory and no barrier: each group
// of PER lanes has its own largest scores, weights and sums, which are merged at the end.
//
// With SPLITS, the workgroups that share a row leave partial results for attention-merge.
//
// A key that is masked out is not multiplied, so a NaN there does no harm.

#include "common/attention.wgsl"

#define PER WIDTH / 8
#define AT_A_TIME LANES / (PER)
#define HIDE CAUSAL || WINDOW || MASK

#if HALF
alias Word = vec2<u32>;
fn numbers (v: Word) -> vec4<f32> {
  return vec4<f32> (unpack2x16float (v.x), unpack2x16float (v.y));
}
#else
alias Word = vec4<f32>;
fn numbers (v: Word) -> vec4<f32> {
  return v;
}
#endif

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(subgroup_invocation_id) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let split = group % p.splits;
  let first_row = (group / p.splits % p.tiles) * $(TQ)u;
  let rows = min (p.rows - first_row, $(TQ)u);
  let kv_head = group / p.splits / p.tiles % p.kv_heads;
  let batch = group / p.splits / p.tiles / p.kv_heads;
  let count = count_keys (batch);
  // In vectors of four columns.
  let column = lane % $(PER)u * 2u;
  let k = (batch * p.k_batch + kv_head * p.k_head) / 4u + column;
  let v = (batch * p.v_batch + kv_head * p.v_head) / 4u + column;
#for i in 0..TQ
  let row$(i) = first_row + min ($(i)u, rows - 1u);
  let query$(i) = row$(i) / p.share;
  let head$(i) = kv_head * p.share + row$(i) % p.share;
  let at$(i) = (batch * p.q_batch + head$(i) * p.q_head + query$(i) * p.q_row) / 4u + column;
  let q$(i)_0 = load4_query (at$(i));
  let q$(i)_1 = load4_query (at$(i) + 1u);
  let first$(i) = first_seen (query$(i), count);
  let end$(i) = end_seen (query$(i), count);
#if MASK
  let mask$(i) = mask_row (batch, head$(i), query$(i));
#endif
  var top$(i) = LOWEST;
  var total$(i) = 0.0;
  var sum$(i)_0 = vec4<f32> ();
  var sum$(i)_1 = vec4<f32> ();
#endfor

  let begin = max (first0, split * p.span);
  let limit = min (end$(TQ - 1), split * p.span + p.span);
  for (var first_key = begin; first_key < limit; first_key += $(UNROLL * (AT_A_TIME))u) {
#for u in 0..UNROLL
    let key$(u) = first_key + lane / $(PER)u + $(u * (AT_A_TIME))u;
    let place$(u) = min (key$(u), limit - 1u);
    let k$(u)_0 = word_key (k + place$(u) * (p.k_row / 4u));
    let k$(u)_1 = word_key (k + place$(u) * (p.k_row / 4u) + 1u);
#endfor
#for u in 0..UNROLL
    let v$(u)_0 = word_value (v + place$(u) * (p.v_row / 4u));
    let v$(u)_1 = word_value (v + place$(u) * (p.v_row / 4u) + 1u);
#endfor
#for i in 0..TQ
    {
#for u in 0..UNROLL
      var s$(u) = dot (q$(i)_0, numbers (k$(u)_0)) + dot (q$(i)_1, numbers (k$(u)_1));
#endfor
#define APART 1
#for step in 0..STEPS
#for u in 0..UNROLL
      s$(u) += subgroupShuffleXor (s$(u), $(APART)u);
#endfor
#define APART APART * 2
#endfor
      var best = top$(i);
#for u in 0..UNROLL
      s$(u) = cap (s$(u));
#if MASK == 1
      s$(u) += load_mask (mask$(i) + place$(u) * p.mask_key);
#endif
      let shown$(u) = key$(u) < limit && key$(u) >= first$(i) && key$(u) < end$(i) && bitcast<u32> (s$(u)) != NOWHERE
#if MASK == 2
                      && load_mask (mask$(i) + place$(u) * p.mask_key)
#endif
                      ;
      best = select (best, max (best, s$(u)), shown$(u));
#endfor
      let shrink = weigh (top$(i) - best);
      top$(i) = best;
      total$(i) *= shrink;
      sum$(i)_0 *= shrink;
      sum$(i)_1 *= shrink;
#for u in 0..UNROLL
      let weight$(u) = select (0.0, weigh (s$(u) - best), shown$(u));
      total$(i) += weight$(u);
#for c in 0..2
      sum$(i)_$(c) = select (sum$(i)_$(c), fma (vec4<f32> (weight$(u)), numbers (v$(u)_$(c)), sum$(i)_$(c)), shown$(u));
#endfor
#endfor
    }
#endfor
  }

#for i in 0..TQ
#define APART PER
#for step in 0..JOINS
  {
    let best = max (top$(i), subgroupShuffleXor (top$(i), $(APART)u));
    let shrink = weigh (top$(i) - best);
    top$(i) = best;
    total$(i) *= shrink;
    total$(i) += subgroupShuffleXor (total$(i), $(APART)u);
#for c in 0..2
    sum$(i)_$(c) *= shrink;
    sum$(i)_$(c) += subgroupShuffleXor (sum$(i)_$(c), $(APART)u);
#endfor
  }
#define APART APART * 2
#endfor
  if ($(i)u < rows && lane < $(PER)u) {
#if SPLITS
    let index = ((batch * p.kv_heads + kv_head) * p.rows + row$(i)) * p.splits + split;
    if (lane == 0u) {
      store_state (index * 2u, top$(i));
      store_state (index * 2u + 1u, total$(i));
    }
    store4_sums (index * (p.columns / 4u) + column, sum$(i)_0);
    store4_sums (index * (p.columns / 4u) + column + 1u, sum$(i)_1);
#else
    var rest = 1.0;
#if SINK
    let sink = load_sink (head$(i) * p.sink_head);
    let best = max (top$(i), sink);
    rest = weigh (top$(i) - best);
    total$(i) = total$(i) * rest + weigh (sink - best);
#endif
    let factor = select (rest / total$(i), 0.0, is_nothing (total$(i)));
    let y = (batch * p.y_batch + head$(i) * p.y_head + query$(i) * p.y_row) / 4u + column;
    store4_y (y, sum$(i)_0 * factor);
    store4_y (y + 1u, sum$(i)_1 * factor);
#endif
  }
#endfor
}
