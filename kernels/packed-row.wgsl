// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The product of packed-matmul.wgsl for few rows on a GPU: reading the weights dominates, and unpacking must not take
// longer. LANES invocations share the sums of TN columns and TM rows; neighbours take neighbouring pieces of a row of
// weights. A piece is GROUPS · QUADS · 4 numbers whose words are loaded once, with constant indices except for that of
// the piece.
//
// A group of numbers has one scale, which is applied to its sum: what is summed up are the stored values, integers of a
// few bits. If there is also an offset, numbers are unpacked one by one, each rounded once: a difference of two sums
// would lose small numbers, and be NaN where `x` is infinite.
//
// packed/row.wgsl unpacks the pieces:
//
//   load_piece (row, piece) -> Piece   its words (q0, q1, …), scales and offsets
//   start (piece)                      the index of its first number; group g starts STEP numbers later

#include "packed/row.wgsl"

#if EXPERT
fn expert_of (row: u32) -> u32 {
  // Negative indices become too large.
  return bitcast<u32> (load_expert (row));
}
#endif

// Four accumulators where there are so few sums that additions would wait for each other.
#if TM == 1
alias Sum = vec4<f32>;
fn total (sum: Sum) -> f32 {
  return (sum.x + sum.y) + (sum.z + sum.w);
}
fn add (sum: Sum, a: vec4<f32>, b: vec4<f32>) -> Sum {
  return fma (a, b, sum);
}
#else
alias Sum = f32;
fn total (sum: Sum) -> f32 {
  return sum;
}
fn add (sum: Sum, a: vec4<f32>, b: vec4<f32>) -> Sum {
  return fma (a.w, b.w, fma (a.z, b.z, fma (a.y, b.y, fma (a.x, b.x, sum))));
}
#endif

#use ${EPILOGUE_USES}
${EPILOGUE_TEXT}

fn finish (row: u32, column: u32, v: f32) {
  let y = row * p.n + column;
#if EPILOGUE
  store_y (y, epilogue (y, v));
#else
  store_y (y, v);
#endif
}

// The sums of the lanes, contiguous for each column and row.
var<workgroup> partial: array<array<f32, $(LANES)>, $(WG / LANES * TN * TM)>;
#if LUT
// The two numbers of a byte; they are integers that fit half floats.
var<workgroup> pairs: array<u32, 256>;
#endif

@compute @workgroup_size($(WG))
fn main (@builtin(workgroup_id) wid: vec3<u32>,
         @builtin(local_invocation_index) lane: u32) {
  let group = workgroup_index (wid);
  if (group >= p.groups) {
    return;
  }

  let team = lane / $(LANES)u;
  let base_row = group % p.tiles_m * $(TM)u;
  let base_column = group / p.tiles_m * $(WG / LANES * TN)u;
#if EXPERT
  let expert = expert_of (base_row);
  let first = min (expert, p.experts - 1u) * p.n;
#else
  let first = 0u;
#endif
#for t in 0..TN
  let weight$(t) = (first + min (base_column + team * $(TN)u + $(t)u, p.n - 1u)) * p.row_bytes;
#endfor
#for i in 0..TM
  let x$(i) = min (base_row + $(i)u, p.m - 1u) * p.k;
#for t in 0..TN
  var sum$(t)_$(i) = Sum ();
#endfor
#endfor
#if LUT
  for (var i = lane; i < 256u; i += $(WG)u) {
    pairs[i] = pack2x16float (vec2<f32> (number (i & 15u), number (i >> 4u)));
  }
  workgroupBarrier ();
#endif

  for (var piece = lane % $(LANES)u; piece < p.pieces; piece += $(LANES)u) {
    let at = start (piece);
#for t in 0..TN
    let w$(t) = load_piece (weight$(t), piece);
#endfor
#if LUT
#for t in 0..TN
#for q in 0..4
#for c in 0..4
    let v$(t)_$(q)_$(c) = unpack2x16float (pairs[(w$(t).q$(q) >> $(c * 8)u) & 255u]);
#endfor
#endfor
#endfor
#endif
#for g in 0..GROUPS
    {
#for i in 0..TM
#for t in 0..TN
      var part$(t)_$(i) = Sum ();
#endfor
#endfor
#for q in 0..QUADS
      {
#for i in 0..TM
        let a$(i) = load4_x ((x$(i) + at) / 4u + $(g * STEP / 4 + q)u);
#endfor
#for t in 0..TN
        {
#if LUT
          let n = vec4<f32> (v$(t)_$(q % 4)_0[$(q / 4)], v$(t)_$(q % 4)_1[$(q / 4)], v$(t)_$(q % 4)_2[$(q / 4)], v$(t)_$(q % 4)_3[$(q / 4)]);
#elif TYPE == Q4_0
          let n = bytes ((w$(t).q$(q % 4) >> $(q / 4 * 4)u) & 0x0f0f0f0fu) - 8.0;
#elif TYPE == Q8_0
          let n = signed_bytes (w$(t).q$(q));
#elif TYPE == Q4_K
          let stored = bytes (w$(t).q$(q) & (0x0f0f0f0fu << $(g * 4)u));
#elif TYPE == Q5_K
          let stored = bytes (((w$(t).q$(q) >> $(g * 4)u) & 0x0f0f0f0fu) | (((w$(t).h$(q) >> $(g)u) & 0x01010101u) << 4u));
#elif TYPE == Q6_K
          let n = bytes (((w$(t).q$(g % 2 * 4 + q) >> $(g / 2 * 4)u) & 0x0f0f0f0fu) | (((w$(t).h$(q) >> $(g * 2)u) & 0x03030303u) << 4u)) - 32.0;
#endif
#if OFFSETS
          let n = fma (stored, vec4<f32> (w$(t).scale[$(g)]), vec4<f32> (-w$(t).offset[$(g)]));
#endif
#for i in 0..TM
          part$(t)_$(i) = add (part$(t)_$(i), n, a$(i));
#endfor
        }
#endfor
      }
#endfor
#for i in 0..TM
#for t in 0..TN
#if OFFSETS
      sum$(t)_$(i) += part$(t)_$(i);
#else
      sum$(t)_$(i) = fma (Sum (w$(t).scale[$(g)]), part$(t)_$(i), sum$(t)_$(i));
#endif
#endfor
#endfor
    }
#endfor
  }

#for t in 0..TN
#for i in 0..TM
  partial[(team * $(TN)u + $(t)u) * $(TM)u + $(i)u][lane % $(LANES)u] = total (sum$(t)_$(i));
#endfor
#endfor
  workgroupBarrier ();
  if (lane < $(WG / LANES * TN * TM)u) {
    let row = base_row + lane % $(TM)u;
    let column = base_column + lane / $(TM)u;
    var sum = 0.0;
#for l in 0..LANES
    sum += partial[lane][$(l)];
#endfor
    if (row < p.m && column < p.n) {
#if EXPERT
      if (expert < p.experts) {
#if BIAS
        finish (row, column, sum + load_bias (first + column));
#else
        finish (row, column, sum);
#endif
      } else {
        finish (row, column, 0.0);
      }
#elif BIAS
      finish (row, column, sum + load_bias (column));
#else
      finish (row, column, sum);
#endif
    }
  }
}
