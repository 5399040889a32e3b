// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sums along a row whose rounding errors grow with the logarithm of the length. The kernel defines
//   alias sum_t       the type that is summed
//   fn term (k: u32) -> sum_t
//   UNROLL            2, 4, 8 or 16: how many copies of the term the loop gets
//
// An invocation sums 16 terms at a time, then 16 of those sums to sums of 256, then to sums of 4,096 and of 65,536
// terms, with four alternating accumulators on each level (two on the first level when UNROLL is 2). A term is rounded
// 3 + 2 times on each level, or 7 + 1 times on a first level with two; a last incomplete group of 16 is added one by
// one. The order depends on the length alone.

// Σ term (k), k = first, first + step, … below n; first < step.
fn lane_sum (first: u32, step: u32, n: u32) -> sum_t {
  let zero = sum_t ();
  var total = zero;
#for l in 0..3
#for j in 0..4
  var sum$(l)_$(j) = zero;
#endfor
#endfor

  // Only whole groups of 16: the same number in all lanes.
  let whole = n / step / 16u * 16u;
  for (var base = 0u; base < whole; base += 16u) {
#for u in 0..4
    var a$(u) = zero;
#endfor
#if UNROLL == 16
    let i = base;
    {
#else
    // Not the constant 16, or drivers would unroll the loop fully.
    let end = min (base + 16u, whole);
    for (var i = base; i < end; i += $(UNROLL)u) {
#endif
#for u in 0..UNROLL
      a$(u % 4) += term (first + (i + $(u)u) * step);
#endfor
    }
    var carry = (a0 + a1) + (a2 + a3);

    let block = base / 16u + 1u;
#define PERIOD 16
#for l in 0..3
    let next$(l) = sum$(l)_0 + carry;
    sum$(l)_0 = sum$(l)_1;
    sum$(l)_1 = sum$(l)_2;
    sum$(l)_2 = sum$(l)_3;
    sum$(l)_3 = next$(l);
    if (block % $(PERIOD)u == 0u) {
      carry = (sum$(l)_0 + sum$(l)_1) + (sum$(l)_2 + sum$(l)_3);
#for j in 0..4
      sum$(l)_$(j) = zero;
#endfor
#define PERIOD PERIOD * 16
#endfor
    total += carry;
#for l in 0..3
    }
#endfor
  }

  var sum = zero;
  let end = n - whole * step;
  for (var k = first; k < end; k += step) {
    sum += term (whole * step + k);
  }
  // Small sums first.
#for l in 0..3
  sum += (sum$(l)_0 + sum$(l)_1) + (sum$(l)_2 + sum$(l)_3);
#endfor
  return total + sum;
}

#if LANES > 1
var<workgroup> shared_sum: array<sum_t, $(WG)>;
#endif

// The sum over the lanes of a row, returned to all of them. Uniform control flow only.
fn row_sum (lane: u32, mine: sum_t) -> sum_t {
#if LANES > 1
  let t = lane % $(LANES)u;

  shared_sum[lane] = mine;
  for (var width = $(LANES / 2)u; width > 0u; width /= 2u) {
    workgroupBarrier ();
    if (t < width) {
      shared_sum[lane] += shared_sum[lane + width];
    }
  }
  workgroupBarrier ();
  let sum = shared_sum[lane - t];
  workgroupBarrier ();
  return sum;
#else
  return mine;
#endif
}

// Σ term (k) over all n columns, shared by LANES invocations.
fn sum_columns (lane: u32, n: u32) -> sum_t {
  return row_sum (lane, lane_sum (lane % $(LANES)u, $(LANES)u, n));
}
