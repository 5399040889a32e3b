// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Sums along a row whose rounding errors grow with the logarithm of the length.
// The kernel has
//   alias sum_t       the type that is summed
//   fn term (k: u32) -> sum_t
//
// Within an invocation four sums run side by side, and sums of 16 terms are made
// before they are added to sums of 256, these before they are added to sums of
// 4,096 and so on: at most 3 + 2 roundings for each factor of 16. The order
// depends on the length alone.

fn add_four (a: sum_t, b: sum_t, c: sum_t, d: sum_t) -> sum_t {
  return (a + b) + (c + d);
}

// Σ term (first + i · step), i < count. The count is the same in all lanes.
fn lane_sum (first: u32, step: u32, count: u32) -> sum_t {
  let zero = sum_t ();
  var total = zero;
#for l in 0..3
#for j in 0..4
  var sum$(l)_$(j) = zero;
#endfor
#endfor

  var k = first;
  let blocks = count / 16u;
  for (var i = 1u; i <= blocks; i++) {
    var a0 = zero;
    var a1 = zero;
    var a2 = zero;
    var a3 = zero;
    for (var j = 0u; j < 4u; j++) {
      a0 += term (k);
      a1 += term (k + step);
      a2 += term (k + 2u * step);
      a3 += term (k + 3u * step);
      k += 4u * step;
    }

    // The four sums of a level take turns.
    var carry = add_four (a0, a1, a2, a3);
#define PERIOD 1
#for l in 0..3
    if (i % $(PERIOD)u == 0u) {
      let sum = sum$(l)_0 + carry;
      sum$(l)_0 = sum$(l)_1;
      sum$(l)_1 = sum$(l)_2;
      sum$(l)_2 = sum$(l)_3;
      sum$(l)_3 = sum;
      if (i % $(PERIOD * 16)u == 0u) {
        carry = add_four (sum$(l)_0, sum$(l)_1, sum$(l)_2, sum$(l)_3);
#for j in 0..4
        sum$(l)_$(j) = zero;
#endfor
      }
    }
#define PERIOD PERIOD * 16
#endfor
    if (i % $(PERIOD)u == 0u) {
      total += carry;
    }
  }

  var a0 = zero;
  var a1 = zero;
  for (var i = blocks * 16u; i + 1u < count; i += 2u) {
    a0 += term (k);
    a1 += term (k + step);
    k += 2u * step;
  }
  if (count % 2u == 1u) {
    a0 += term (k);
  }

  // Small ones first.
  var sum = a0 + a1;
#for l in 0..3
  sum += add_four (sum$(l)_0, sum$(l)_1, sum$(l)_2, sum$(l)_3);
#endfor
  return total + sum;
}

#if LANES > 1
var<workgroup> shared_sum: array<sum_t, $(WG)>;
#endif

// The sum over the lanes of a row, for all of them. Uniform control flow only.
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

// Σ term (k) over all n columns, LANES invocations sharing them.
fn sum_columns (lane: u32, n: u32) -> sum_t {
  let t = lane % $(LANES)u;
  let whole = n / $(LANES)u;
  var mine = lane_sum (t, $(LANES)u, whole);

#if LANES > 1
  if (t < n % $(LANES)u) {
    mine += term (whole * $(LANES)u + t);
  }
#endif
  return row_sum (lane, mine);
}
