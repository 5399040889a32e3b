// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Norms of contiguous rows that fit the registers of a workgroup, one row for each: an invocation has VECTORS vectors
// of four columns. Columns and factors are all loaded before anything is computed, so that a single row, as in a
// decoder, costs the latency of one load. A subgroup of LANES lanes adds up by shuffles, and one barrier joins the
// subgroups.
//
// Rounding errors stay small: four numbers are added at a time, then two in each step between lanes, and then one for
// each subgroup.

#define SUBGROUPS WG / LANES
// One slot for each time that a row is summed up, so that one barrier for each sum is enough.
var<workgroup> sums: array<array<sum_t, $(SUBGROUPS)>, 2>;

// The sum over the lanes of a row, returned to all of them. Uniform control flow only.
fn join (mine: sum_t, turn: u32, subgroup: u32, lane: u32) -> sum_t {
  var sum = mine;
#define APART 1
#for s in 0..STEPS
  sum += subgroupShuffleXor (sum, $(APART)u);
#define APART APART * 2
#endfor
  if (lane == 0u) {
    sums[turn][subgroup] = sum;
  }
  workgroupBarrier ();
  sum = sums[turn][0];
#for s in 1..SUBGROUPS
  sum += sums[turn][$(s)];
#endfor
  return sum;
}

@compute @workgroup_size($(WG))${SUBGROUP_SIZE}
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(subgroup_id) subgroup: u32,
         @builtin(subgroup_invocation_id) lane: u32) {
  let row = workgroup_index (wid);
  if (row >= p.groups) {
    return;
  }

  start_row (row);
  let vectors = p.columns / 4u;
#for v in 0..VECTORS
  let k$(v) = subgroup * $(LANES)u + lane + $(v * WG)u;
#if WHOLE
  let there$(v) = true;
  let at$(v) = k$(v);
#else
  let there$(v) = k$(v) < vectors;
  let at$(v) = min (k$(v), vectors - 1u);
#endif
  var x$(v) = load4_x (start0 / 4u + at$(v));
#if RESIDUAL
  let residual$(v) = load4_residual (start$(RESIDUAL_MAP) / 4u + at$(v));
#endif
#if ADDED
  let added$(v) = load4_added (start$(ADDED_MAP) / 4u + at$(v));
#endif
#if SCALE
  let scale$(v) = load4_scale (start$(SCALE_MAP) / 4u + at$(v));
#endif
#if BIAS
  let bias$(v) = load4_bias (start$(BIAS_MAP) / 4u + at$(v));
#endif
#endfor
#for v in 0..VECTORS
#if RESIDUAL
  x$(v) += residual$(v);
#endif
#if ADDED
  x$(v) += added$(v);
#endif
#endfor

#if KIND == 0
  // Relative to the first element as a rough mean, then to the mean, which is corrected by the same sums as the
  // deviation.
  middle = load4_x (start0 / 4u).x;
#if RESIDUAL
  middle += load4_residual (start$(RESIDUAL_MAP) / 4u).x;
#endif
#if ADDED
  middle += load4_added (start$(ADDED_MAP) / 4u).x;
#endif
#for turn in 0..2
  {
    var sum = vec2<f32> ();
#for v in 0..VECTORS
    {
      let d = select (vec4<f32> (), x$(v) - middle, there$(v));
      let s = d * d;
      sum += vec2<f32> ((d.x + d.y) + (d.z + d.w), (s.x + s.y) + (s.z + s.w));
    }
#endfor
    let mean = join (sum, $(turn)u, subgroup, lane) / f32 (p.columns);
#if turn == 0
    middle += mean.x;
#else
    shift = mean.x;
    scale = get_scale (max (mean.y - mean.x * mean.x, 0.0));
#endif
  }
#endfor
#else
  var sum = 0.0;
#for v in 0..VECTORS
  {
#if KIND == 2
    let s = select (vec4<f32> (), abs (x$(v)), there$(v));
#else
    let s = select (vec4<f32> (), x$(v) * x$(v), there$(v));
#endif
    sum += (s.x + s.y) + (s.z + s.w);
  }
#endfor
  scale = get_scale (join (sum, 0u, subgroup, lane));
#endif

#for v in 0..VECTORS
  if (there$(v)) {
    let at = start0 / 4u + k$(v);
#if KEEP_SUM
    store4_sum (at, x$(v));
#endif
#if KIND == 0
    var y = ((x$(v) - middle) - shift) * scale;
#else
    var y = x$(v) * scale;
#endif
#if SCALE && PLUS_ONE
    y *= 1.0 + scale$(v);
#elif SCALE
    y *= scale$(v);
#endif
#if BIAS
    y += bias$(v);
#endif
#if EPILOGUE
    y = vec4<f32> (epilogue (at * 4u, y.x), epilogue (at * 4u + 1u, y.y), epilogue (at * 4u + 2u, y.z), epilogue (at * 4u + 3u, y.w));
#endif
    store4_y (at, y);
  }
#endfor
}
