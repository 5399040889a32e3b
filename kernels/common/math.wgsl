// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Functions of one element, the same in every kernel. A line "//= name: a b"
// begins the block of a function and names the blocks it needs.
// Functions of one element, the same in every kernel. A line "//= name: a b" starts the block of a function and lists
// the blocks it needs.
//
// WGSL guarantees little about its own exp, log, sin, pow and so on, so these are built from what it does guarantee:
// +, - and * are correctly rounded, / is within 2.5 ulp. The error bounds given here follow from that; fma() may round
// twice and is not relied on. A compiler may also replace (a + b) - a by b and a - a by 0, and evaluate a comparison
// with NaN to anything. Hence numbers are split and classified by their bits, and polynomials were fitted to the
// interval they are used on.
//
// Hardware may flush subnormal numbers to zero, and a compiler may turn a test of bits for zero, (bits << 1u) == 0u,
// into a comparison of floats. Where it matters, zeros are therefore recognised by ranges of bits: bits - 1u < n
// excludes them.
//
// NaN and infinity cannot be written as literals: a constant expression must not have such a value, not even through
// bitcast. They are made from the bits of an argument.

//= op_is_nan:
fn op_is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

//= op_is_inf:
fn op_is_inf(x: f32, negative: i32, positive: i32) -> bool {
  let bits = bitcast<u32>(x);
  return (bits == 0xff800000u && negative != 0) || (bits == 0x7f800000u && positive != 0);
}

//= math_nan:
// A quiet NaN with the sign of x.
fn math_nan(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u);
}

//= math_order:
// Maps numbers to integers of the same order; -0 comes before 0, NaNs are at both ends.
fn math_order(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return bits ^ ((bits >> 31u) & 0x7fffffff);
}

//= math_copysign:
fn math_copysign(x: f32, sign: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(sign) & 0x80000000u));
}

//= math_high:
// The upper 12 bits of the significand: the product of two such numbers is exact.
fn math_high(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

//= op_eq: op_is_nan
// Exact for subnormals too, which hardware may flush to zero.
fn op_eq(a: f32, b: f32) -> bool {
  let x = bitcast<u32>(a);
  let y = bitcast<u32>(b);
  return (x == y && !op_is_nan(a)) || ((x | y) << 1u) == 0u;
}

//= op_lt: op_is_nan math_order
fn op_lt(a: f32, b: f32) -> bool {
  let zeros = ((bitcast<u32>(a) | bitcast<u32>(b)) << 1u) == 0u;
  return math_order(a) < math_order(b) && !(zeros || op_is_nan(a) || op_is_nan(b));
}

//= op_le: op_is_nan math_order
fn op_le(a: f32, b: f32) -> bool {
  let zeros = ((bitcast<u32>(a) | bitcast<u32>(b)) << 1u) == 0u;
  return (math_order(a) <= math_order(b) || zeros) && !(op_is_nan(a) || op_is_nan(b));
}

//= op_max: op_is_nan math_order
fn op_max(a: f32, b: f32) -> f32 {
  return select(b, a, op_is_nan(a) || (math_order(a) >= math_order(b) && !op_is_nan(b)));
}

//= op_min: op_is_nan math_order
fn op_min(a: f32, b: f32) -> f32 {
  return select(b, a, op_is_nan(a) || (math_order(a) <= math_order(b) && !op_is_nan(b)));
}

//= op_clamp: op_max op_min
fn op_clamp(x: f32, low: f32, high: f32) -> f32 {
  return op_min(op_max(x, low), high);
}

//= op_sign: math_copysign
// Zeros and NaNs are returned unchanged.
fn op_sign(x: f32) -> f32 {
  return select(x, math_copysign(1.0, x), (bitcast<u32>(x) & 0x7fffffffu) - 1u < 0x7f800000u);
}

//= op_ceil:
// Subnormals are not treated as zero.
fn op_ceil(x: f32) -> f32 {
  return select(ceil(x), 1.0, bitcast<u32>(x) - 1u < 0x007fffffu);
}

//= op_floor:
fn op_floor(x: f32) -> f32 {
  return select(floor(x), -1.0, bitcast<u32>(x) - 0x80000001u < 0x007fffffu);
}

//= op_sqrt: op_is_nan math_nan math_high
// Within 1 ulp (slightly over 0.5): the built-in one may be off by 4.5, so it is corrected by the residual of its
// square. Computed on [1, 4) because the square of the lower half of a small number would underflow.
fn op_sqrt(x: f32) -> f32 {
  var bits = bitcast<u32>(x);
  if bits > 0x80000000u || op_is_nan(x) {
    return math_nan(x);
  }
  if bits - 1u >= 0x7f7fffffu {
    // 0, -0 and infinity
    return x;
  }
  var e = -127;
  if bits < 0x00800000u {
    bits = bitcast<u32>(f32(bits));
    e -= 149;
  }
  e += i32(bits >> 23u);
  let m = bitcast<f32>((bits & 0x007fffffu) | select(0x3f800000u, 0x40000000u, (e & 1) != 0));
  let y = sqrt(m);
  let h = math_high(y);
  let l = y - h;
  let lack = ((m - h * h) - 2.0 * h * l) - l * l;
  return bitcast<f32>(bitcast<i32>(y + 0.5 * lack / y) + ((e >> 1u) << 23u));
}

//= op_rsqrt: op_is_nan math_nan
// 2 ulp, as WGSL guarantees.
fn op_rsqrt(x: f32) -> f32 {
  return select(inverseSqrt(x), math_nan(x), bitcast<u32>(x) > 0x80000000u || op_is_nan(x));
}

// ---- exponential functions ----------------------------------------------------

//= math_scale:
// x * 2^k for -252 <= k <= 254, in two steps as 2^k itself may be out of range.
fn math_scale(x: f32, k: i32) -> f32 {
  let half = k >> 1u;
  return x * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((k - half + 127) << 23u);
}

//= math_int:
// Converts a whole number below 2^22 in magnitude to an integer, exactly. A driver for CPUs converts lane by lane, with
// the checks that WGSL requires: about 70 instructions for eight lanes, where this takes two.
fn math_int(n: f32) -> i32 {
  return bitcast<i32>(n + 12582912.0) - 0x4b400000;
}

//= math_expm1_poly:
// e^r - 1 for |r| <= ln 2 / 2: relative error 1.4e-8.
fn math_expm1_poly(r: f32) -> f32 {
  let p = 0.5 + r * (0.166665435 + r * (0.0416664034 + r * (0.00836659037 + r * 0.00139406603)));
  return r + r * r * p;
}

//= math_exp_reduce:
// x - n ln 2 for |n| < 256: the upper part of ln 2 has 16 bits, so that its product with n and the first difference are
// exact.
fn math_exp_reduce(x: f32, n: f32) -> f32 {
  return (x - n * 0.693145751953125) - n * 1.42860682e-6;
}

//= math_exp: op_is_nan math_int math_scale math_expm1_poly math_exp_reduce
// 2^bias e^x: 1 ulp.
fn math_exp(x: f32, bias: i32) -> f32 {
  let c = clamp(x, -105.0, 90.0);
  let n = round(c * 1.44269504);
  let y = math_scale(1.0 + math_expm1_poly(math_exp_reduce(c, n)), math_int(n) + bias);
  return select(y, x, op_is_nan(x));
}

//= op_exp: math_exp
fn op_exp(x: f32) -> f32 {
  return math_exp(x, 0);
}

//= math_expm1: op_is_nan math_int math_expm1_poly math_exp_reduce
// e^x - 1 for x <= 0: 2 ulp, also near zero.
fn math_expm1(x: f32) -> f32 {
  let c = clamp(x, -26.0, 0.0);
  let n = round(c * 1.44269504);
  let scale = bitcast<f32>((math_int(n) + 127) << 23u);
  let y = scale * math_expm1_poly(math_exp_reduce(c, n)) + (scale - 1.0);
  return select(y, x, op_is_nan(x));
}

//= op_sinh: math_copysign math_exp
// 4 ulp; the series avoids cancellation for small arguments.
fn op_sinh(x: f32) -> f32 {
  let z = x * x;
  let series = x * (1.0 + z * (0.166667178 + z * (0.00833022315 + z * 0.000203766336)));
  let e = math_exp(abs(x), -1);
  let y = math_copysign(e - 0.25 / e, x);
  return select(series, y, abs(x) > 1.0);
}

//= op_cosh: math_exp
// 3 ulp.
fn op_cosh(x: f32) -> f32 {
  let e = math_exp(abs(x), -1);
  return e + 0.25 / e;
}

//= op_tanh: math_copysign math_expm1
// 6 ulp.
fn op_tanh(x: f32) -> f32 {
  let t = math_expm1(-2.0 * abs(x));
  return math_copysign(t / (t + 2.0), x);
}

//= op_sigmoid: op_exp
// 5 ulp.
fn op_sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + op_exp(-x));
}

//= op_mul_sigmoid: op_exp
// a sigmoid(t): 7 ulp. The exponential is applied in two halves, since by itself it may underflow where the product
// does not.
fn op_mul_sigmoid(a: f32, t: f32) -> f32 {
  let h = op_exp(-0.5 * abs(t));
  let d = 1.0 + h * h;
  let c = select(a, 0.0, t < -1000.0);
  return select(a / d, c * h * h / d, t < 0.0);
}

//= op_silu: op_mul_sigmoid
fn op_silu(x: f32) -> f32 {
  return op_mul_sigmoid(x, x);
}

//= op_gelu_tanh: op_mul_sigmoid
// (1 + tanh(x)) / 2 is the sigmoid of 2 x.
fn op_gelu_tanh(x: f32) -> f32 {
  return op_mul_sigmoid(x, 1.59576912 * (x + 0.044715 * x * x * x));
}

//= op_leaky: op_is_nan
// Decides by the sign bit: comparisons may flush subnormal numbers where products keep them. If products flush them,
// zero times an infinite slope would not be infinite, so that case is separate.
fn op_leaky(x: f32, slope: f32) -> f32 {
  let negative = bitcast<u32>(x) > 0x80000000u;
  let infinite = (bitcast<u32>(slope) & 0x7fffffffu) == 0x7f800000u;
  return select(x * select(1.0, slope, negative), -slope, negative && infinite && !op_is_nan(x));
}

//= op_elu: math_expm1
// 3 ulp. Decides by the sign bit, so that a negative subnormal number is never returned unchanged.
fn op_elu(x: f32, alpha: f32) -> f32 {
  return select(x, alpha * math_expm1(x), bitcast<u32>(x) > 0x80000000u);
}

//= op_celu: math_expm1 op_exp
// Relative error 4e-6 (1 + max(0, x / alpha)): the rounding error of the division grows with a positive exponent, which
// occurs where alpha is negative. A small quotient, which may be subnormal where the result is not, returns x
// unchanged.
fn op_celu(x: f32, alpha: f32) -> f32 {
  let t = x / alpha;
  let e = math_expm1(-abs(t));
  let y = select(e, select(op_exp(t) - 1.0, -e / (1.0 + e), t < 1.0), t > 0.0);
  return select(alpha * y, x, x >= 0.0 || abs(t) < 1e-6);
}

//= op_mish: op_exp
// With e = e^x, tanh(ln(1 + e)) is e (e + 2) / (e (e + 2) + 2): 10 ulp. From 30 on it is 1; below -200 the result is 0.
fn op_mish(x: f32) -> f32 {
  let h = op_exp(0.5 * min(x, 30.0));
  let e = h * h;
  let c = select(x, 0.0, abs(x) > 200.0);
  let y = (c * h) * (h * (e + 2.0)) / (e * (e + 2.0) + 2.0);
  return select(y, x, x > 30.0);
}

//= op_softsign: math_copysign
// 4 ulp; for huge arguments the quotient is taken as 1, since infinity / infinity would be NaN.
fn op_softsign(x: f32) -> f32 {
  return select(x / (1.0 + abs(x)), math_copysign(1.0, x), abs(x) > 1e9);
}

// ---- logarithms -----------------------------------------------------------------

//= math_atanh_poly:
// (artanh(s) / s - 1) / s^2 of z = s^2 <= 1/9, with an error of 1.3e-10 relative to artanh.
fn math_atanh_poly(z: f32) -> f32 {
  return 0.333333373 + z * (0.199994668 + z * (0.143079549 + z * (0.107169032 + z * 0.121455431)));
}

//= math_atanh: math_atanh_poly
// 2 artanh(w / 2) for |w| <= 2/3: 1 ulp. ln(1 + u) is this function of u / (1 + u / 2).
fn math_atanh(w: f32) -> f32 {
  let z = 0.25 * w * w;
  return w * (1.0 + z * math_atanh_poly(z));
}

//= math_split:
// A positive number as m 2^k with sqrt(1/2) <= m < sqrt(2); correct for subnormals even where arithmetic flushes them.
struct MathSplit {
  m: f32,
  k: f32,
}

fn math_split(x: f32) -> MathSplit {
  var bits = bitcast<u32>(x);
  var k = 0;
  if bits < 0x00800000u {
    bits = bitcast<u32>(f32(bits));
    k = -149;
  }
  let t = bitcast<i32>(bits) - 0x3f3504f3;
  return MathSplit(bitcast<f32>((t & 0x007fffff) + 0x3f3504f3), f32(k + (t >> 23u)));
}

//= op_log: op_is_nan math_nan math_split math_atanh
// 5 ulp.
fn op_log(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  if bits > 0x80000000u || op_is_nan(x) {
    return math_nan(x);
  }
  if bits - 1u >= 0x7f7fffffu {
    // 0, -0 and infinity
    return select(bitcast<f32>(bits | 0xff800000u), x, bits == 0x7f800000u);
  }
  let a = math_split(x);
  let y = math_atanh(2.0 * (a.m - 1.0) / (a.m + 1.0));
  return a.k * 0.693145751953125 + (y + a.k * 1.42860682e-6);
}

//= math_log1p: op_log math_atanh
// ln(1 + u) for u >= 0, accurate for small u: 6 ulp.
fn math_log1p(u: f32) -> f32 {
  if u > 1.0 {
    return op_log(1.0 + u);
  }
  return math_atanh(u / (1.0 + 0.5 * u));
}

//= op_softplus: op_exp math_atanh
// 6 ulp.
fn op_softplus(x: f32) -> f32 {
  let u = op_exp(-abs(x));
  return select(x, 0.0, x < 0.0) + math_atanh(u / (1.0 + 0.5 * u));
}

//= op_asinh: math_copysign math_log1p
// 8 ulp; from 2^26 on it is ln 2|x|, since the square might overflow.
fn op_asinh(x: f32) -> f32 {
  let a = abs(x);
  let big = a > 0x1p26;
  let u = a + a * a / (1.0 + sqrt(1.0 + a * a));
  return math_copysign(math_log1p(select(u, a, big)) + select(0.0, 0.693147181, big), x);
}

//= op_acosh: math_nan math_log1p
// 8 ulp.
fn op_acosh(x: f32) -> f32 {
  let t = x - 1.0;
  let big = x > 0x1p26;
  let u = t + sqrt(t * (t + 2.0));
  let y = math_log1p(select(u, x, big)) + select(0.0, 0.693147181, big);
  return select(math_nan(x), y, x >= 1.0);
}

//= op_atanh: math_copysign op_log math_atanh
// 8 ulp.
fn op_atanh(x: f32) -> f32 {
  let a = abs(x);
  if a > 0.333 {
    return math_copysign(0.5 * op_log((1.0 + a) / (1.0 - a)), x);
  }
  return 0.5 * math_atanh(2.0 * x);
}

//= op_pow: op_is_nan math_nan math_high math_split math_atanh_poly math_expm1_poly math_int math_scale
// 2^(b log2 |a|), 4 ulp: the logarithm and its product with b are kept as a part of 12 bits and a remainder, good for
// 30 bits together.
fn op_pow(a: f32, b: f32) -> f32 {
  let x = math_split(abs(a));
  let f = x.m - 1.0;
  let dh = math_high(x.m + 1.0);
  let dl = x.m - (dh - 1.0);
  let d = 1.0 / (x.m + 1.0);
  let sh = math_high(f * d);
  let sl = ((f - sh * dh) - sh * dl) * d;
  let s = sh + sl;
  let z = s * s;
  // 2 / ln 2 = 2.884765625 + 0.000624456778, where the former has 12 bits.
  let hi = 2.884765625 * sh;
  let lo = 2.884765625 * sl + (0.000624456778 * s + 2.88539008 * s * z * math_atanh_poly(z));
  let lh = math_high(x.k + (hi + lo));
  let ll = ((x.k - lh) + hi) + lo;

  // Beyond 2^31 every exponent is even and takes every base but 1 out of range.
  let y = clamp(b, -0x1p31, 0x1p31);
  let yh = math_high(y);
  let th = yh * lh;
  let tl = (y - yh) * lh + y * ll;
  let n = clamp(round(th + tl), -160.0, 160.0);
  let r = clamp((th - n) + tl, -1.0, 1.0);
  var v = math_scale(1.0 + math_expm1_poly(0.693147181 * r), math_int(n));

  let base = bitcast<u32>(a);
  let edge = (base << 1u) == 0u || (base & 0x7fffffffu) == 0x7f800000u;
  if edge {
    v = select(0.0, bitcast<f32>((base & 0x7fffffffu) | 0x7f800000u), ((base << 1u) == 0u) == (bitcast<u32>(b) >= 0x80000000u));
  }
  if base >= 0x80000000u {
    let whole = abs(y) >= 1.0 && trunc(y) == y;
    if whole && abs(y) < 0x1p24 && (i32(y) & 1) != 0 {
      v = -v;
    } else if !whole && !edge {
      v = math_nan(a);
    }
  }
  if op_is_nan(a) || op_is_nan(b) {
    v = math_nan(a);
  }
  // The square is the most frequent power, and exact where possible.
  v = select(v, a * a, b == 2.0);
  return select(v, 1.0, a == 1.0 || (bitcast<u32>(b) << 1u) == 0u);
}

// ---- error function ---------------------------------------------------------------

//= math_erf_series:
// erf(x) for |x| <= 1: 1 ulp.
fn math_erf_series(x: f32) -> f32 {
  let z = x * x;
  let p = 0.128379166 + z * (-0.37612626 + z * (0.112835787 + z * (-0.0268533472 +
          z * (0.0051871622 + z * (-0.00079978531 + z * 7.80690316e-05)))));
  return x + x * p;
}

//= math_erfc_tail: op_exp
// erfc(x) for x >= 1: relative error 9e-8, plus 1e-7 x^2 from e^(-x^2).
fn math_erfc_tail(x: f32) -> f32 {
  let t = 1.0 / (1.0 + x);
  let p = 0.564157128 + t * (0.56549859 + t * (0.260566592 + t * (-0.0949551687 +
          t * (-1.62759066 + t * (2.3402555 + t * -1.05089068)))));
  return op_exp(-x * x) * t * p;
}

//= op_erf: math_copysign math_erf_series math_erfc_tail
// Absolute error 1.2e-7.
fn op_erf(x: f32) -> f32 {
  let a = abs(x);
  let y = math_copysign(1.0 - math_erfc_tail(clamp(a, 1.0, 10.0)), x);
  return select(math_erf_series(x), y, a > 1.0);
}

//= op_gelu: math_erf_series math_erfc_tail
// Absolute error 1.2e-7 |x|; for negative numbers the small remainder is computed directly and not as a difference.
fn op_gelu(x: f32) -> f32 {
  let a = min(abs(x), 20.0);
  let z = 0.707106781 * a;
  let c = select(1.0 - math_erf_series(z), math_erfc_tail(clamp(z, 1.0, 10.0)), z > 1.0);
  return select(x, 0.0, x < 0.0) - 0.5 * a * c;
}

// ---- angles -----------------------------------------------------------------------

//= math_angle:
// x as q quarter turns and a remainder r, |r| <= pi / 4, for every number. x is an integer times a power of two; the
// product of the integer with those bits of 1 / 2 pi that contribute to the fraction of a turn is computed to 64 bits.
struct MathAngle {
  r: f32,
  q: u32,
}

fn math_angle(x: f32) -> MathAngle {
  let bits = bitcast<u32>(x) & 0x7fffffffu;
  if bits >= 0x7f800000u {
    return MathAngle(bitcast<f32>(bits | 0x7fc00000u), 0u);
  }
  if bits < 0x3f490fdbu {
    return MathAngle(x, 0u);
  }
  var turn = array<u32, 8>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u,
                           0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau);
  let m = (bits & 0x007fffffu) | 0x00800000u;
  let first = (bits >> 23u) - 118u;
  let i = first >> 5u;
  let left = first & 31u;
  let right = 31u - left;
  let w0 = (turn[i] << left) | ((turn[i + 1u] >> 1u) >> right);
  let w1 = (turn[i + 1u] << left) | ((turn[i + 2u] >> 1u) >> right);
  let w2 = (turn[i + 2u] << left) | ((turn[i + 3u] >> 1u) >> right);
  // The upper word of m * w1; for m * w2 an estimate is enough.
  let ll = (m & 0xffffu) * (w1 & 0xffffu);
  let lh = (m & 0xffffu) * (w1 >> 16u);
  let middle = (ll >> 16u) + (lh & 0xffffu) + (m >> 16u) * (w1 & 0xffffu);
  let upper = (m >> 16u) * (w1 >> 16u) + (lh >> 16u) + (middle >> 16u);
  let w2_upper = u32(f32(m) * (f32(w2) * 0x1p-32));
  var lo = m * w1 + w2_upper;
  var hi = m * w0 + upper + select(0u, 1u, lo < w2_upper);

  let q = (hi + 0x20000000u) >> 30u;
  hi -= q << 30u;
  var sign = bitcast<u32>(x) & 0x80000000u;
  if (hi & 0x80000000u) != 0u {
    hi = ~hi;
    lo = ~lo;
    sign ^= 0x80000000u;
  }
  // 2 pi / 2^32 and 2 pi / 2^64
  let r = f32(hi) * 1.46291808e-9 + f32(lo) * 3.40612158e-19;
  return MathAngle(bitcast<f32>(bitcast<u32>(r) | sign), select(q, 0u - q, bitcast<u32>(x) >= 0x80000000u));
}

//= math_sin_poly:
// sin(r) for |r| <= pi / 4: 1 ulp.
fn math_sin_poly(r: f32) -> f32 {
  let z = r * r;
  return r * (1.0 + z * (-0.166666552 + z * (0.0083321901 + z * -0.000195183922)));
}

//= math_cos_poly:
// cos(r) for |r| <= pi / 4: 1 ulp.
fn math_cos_poly(r: f32) -> f32 {
  let z = r * r;
  return 1.0 - z * (0.5 - z * (0.0416666456 + z * (-0.00138873013 + z * 2.44306684e-05)));
}

//= math_quarter: math_sin_poly math_cos_poly
// sin(r + q pi / 2)
fn math_quarter(r: f32, q: u32) -> f32 {
  let y = select(math_sin_poly(r), math_cos_poly(r), (q & 1u) != 0u);
  return select(y, -y, (q & 2u) != 0u);
}

//= op_sin: math_angle math_quarter
// 3 ulp for every number.
fn op_sin(x: f32) -> f32 {
  let a = math_angle(x);
  return math_quarter(a.r, a.q);
}

//= op_cos: math_angle math_quarter
// 3 ulp for every number.
fn op_cos(x: f32) -> f32 {
  let a = math_angle(x);
  return math_quarter(a.r, a.q + 1u);
}

//= op_tan: math_angle math_sin_poly math_cos_poly
// 7 ulp for every number.
fn op_tan(x: f32) -> f32 {
  let a = math_angle(x);
  let s = math_sin_poly(a.r);
  let c = math_cos_poly(a.r);
  let odd = (a.q & 1u) != 0u;
  return select(s, -c, odd) / select(c, s, odd);
}

//= math_asin_poly:
// asin(s) for |s| <= 1/2: 1 ulp.
fn math_asin_poly(s: f32) -> f32 {
  let z = s * s;
  return s * (1.0 + z * (0.166667536 + z * (0.0749525204 + z * (0.0454760417 +
         z * (0.0241520926 + z * 0.0422117971)))));
}

//= op_asin: math_nan math_copysign math_asin_poly
// Absolute error 8e-7, most of it from sqrt().
fn op_asin(x: f32) -> f32 {
  let a = abs(x);
  if !(a <= 1.0) {
    return math_nan(x);
  }
  let y = 1.57079633 - 2.0 * math_asin_poly(sqrt(0.5 - 0.5 * a));
  return select(math_asin_poly(x), math_copysign(y, x), a > 0.5);
}

//= op_acos: math_nan math_asin_poly
// 8 ulp, also near 1, where the result is small.
fn op_acos(x: f32) -> f32 {
  let a = abs(x);
  if !(a <= 1.0) {
    return math_nan(x);
  }
  let y = 2.0 * math_asin_poly(sqrt(0.5 - 0.5 * a));
  return select(1.57079633 - math_asin_poly(x), select(y, 3.14159265 - y, x < 0.0), a > 0.5);
}

//= math_atan_poly:
// atan(t) for |t| <= 1: 2 ulp.
fn math_atan_poly(t: f32) -> f32 {
  let z = t * t;
  return t * (1.0 + z * (-0.333331674 + z * (0.199941471 + z * (-0.142142847 + z * (0.106792226 +
         z * (-0.0758115426 + z * (0.0435600914 + z * (-0.0165850837 + z * 0.00297553698))))))));
}

//= op_atan: math_copysign math_atan_poly
// 4 ulp.
fn op_atan(x: f32) -> f32 {
  let y = 1.57079633 - math_atan_poly(1.0 / max(abs(x), 1.0));
  return select(math_atan_poly(x), math_copysign(y, x), abs(x) > 1.0);
}

//= op_atan2: op_is_nan math_nan math_copysign math_atan_poly
// 6 ulp. The quotient is 0 at the origin and 1 for two infinities; scaling keeps the divisor in the range for which
// WGSL bounds the error of a division.
fn op_atan2(y: f32, x: f32) -> f32 {
  let big = max(abs(x), abs(y));
  let small = min(abs(x), abs(y));
  let scale = select(1.0, 0x1p-24, big > 0x1p100);
  var t = select((small * scale) / (big * scale), 0.0, big == 0.0);
  t = select(t, 1.0, bitcast<u32>(small) == 0x7f800000u);
  var a = math_atan_poly(t);
  a = select(a, 1.57079633 - a, abs(y) > abs(x));
  a = select(a, 3.14159265 - a, bitcast<u32>(x) >= 0x80000000u);
  return select(math_copysign(a, y), math_nan(x), op_is_nan(x) || op_is_nan(y));
}

// ---- remainders and integers -------------------------------------------------------

//= op_mod_bits:
// The bits of m · 2^(e - 150), for m < 2^24 and e > 0: not by a product, which might flush a subnormal result to zero.
fn op_mod_bits(m: u32, e: u32) -> u32 {
  let shift = min(countLeadingZeros(m) - 8u, e - 1u);
  return select((m << shift) + ((e - shift - 1u) << 23u), 0u, m == 0u);
}

//= op_mod: math_nan math_copysign op_mod_bits
// Exact, also for subnormal numbers: a long division of the significands, eight bits of the quotient at a time. A
// remainder that has to take the sign of the divisor is subtracted from the divisor, which rounds only where the
// dividend is smaller than the divisor: small numbers are subtracted in units of the smallest subnormal number.
fn op_mod(a: f32, b: f32, floored: i32) -> f32 {
  let x = bitcast<u32>(a) & 0x7fffffffu;
  let y = bitcast<u32>(b) & 0x7fffffffu;
  if x >= 0x7f800000u || y > 0x7f800000u || y == 0u {
    return math_nan(select(a, b, y > 0x7f800000u));
  }
  let ex = max(x >> 23u, 1u);
  let ey = max(y >> 23u, 1u);
  let mx = (x & 0x007fffffu) | select(0u, 0x00800000u, x >= 0x00800000u);
  let my = (y & 0x007fffffu) | select(0u, 0x00800000u, y >= 0x00800000u);
  let other = floored != 0 && ((bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u) != 0u;
  var r = x;
  if x >= y {
    var m = mx % my;
    for (var n = ex - ey; n > 0u;) {
      let step = min(n, 8u);
      m = (m << step) % my;
      n -= step;
    }
    r = op_mod_bits(select(m, my - m, other && m != 0u), ey);
  } else if other && x != 0u {
    if ey > 64u {
      r = bitcast<u32>(bitcast<f32>(y) - bitcast<f32>(x));
    } else {
      let d = f32(my) * bitcast<f32>((ey + 126u) << 23u) - f32(mx) * bitcast<f32>((ex + 126u) << 23u);
      r = select(u32(d), bitcast<u32>(d) - (149u << 23u), d >= 0x1p23);
    }
  }
  return math_copysign(bitcast<f32>(r), select(a, b, floored != 0));
}

//= op_mod_i:
// WGSL defines a % 0 and the lowest number % -1 as zero.
fn op_mod_i(a: i32, b: i32, floored: i32) -> i32 {
  let r = a % b;
  return select(r, r + b, floored != 0 && r != 0 && (r ^ b) < 0);
}

//= op_mod_u:
fn op_mod_u(a: u32, b: u32) -> u32 {
  return a % b;
}

//= op_div_i:
// The lowest number / -1 is itself, as in WGSL.
fn op_div_i(a: i32, b: i32) -> i32 {
  return select(a / b, 0, b == 0);
}

//= op_div_u:
fn op_div_u(a: u32, b: u32) -> u32 {
  return select(a / b, 0u, b == 0u);
}

//= op_quotient:
// n / d for every n, by the multiplier m = floor(2^32 (2^l - d) / d) + 1 with l = ceil(log2 d), which the host
// computes. A driver for CPUs divides lane by lane, in a hundred instructions for eight lanes.
fn op_quotient(n: u32, m: u32, l: u32) -> u32 {
  let low = (n >> 16u) * (m & 0xffffu) + (((n & 0xffffu) * (m & 0xffffu)) >> 16u);
  let middle = (n & 0xffffu) * (m >> 16u) + (low & 0xffffu);
  let high = (n >> 16u) * (m >> 16u) + (low >> 16u) + (middle >> 16u);
  return (high + ((n - high) >> min(l, 1u))) >> (max(l, 1u) - 1u);
}

//= op_pow_u:
fn op_pow_u(a: u32, b: u32) -> u32 {
  var result = 1u;
  var power = a;
  for (var rest = b; rest != 0u; rest >>= 1u) {
    result *= select(1u, power, (rest & 1u) != 0u);
    power *= power;
  }
  return result;
}

//= op_pow_i: op_pow_u
fn op_pow_i(a: i32, b: i32) -> i32 {
  if b < 0 {
    let sign = select(1, a, (b & 1) != 0);
    return select(0, sign, a == 1 || a == -1);
  }
  return bitcast<i32>(op_pow_u(bitcast<u32>(a), bitcast<u32>(b)));
}

//= op_shl_i:
fn op_shl_i(a: i32, b: i32, bits: u32) -> i32 {
  let count = bitcast<u32>(b);
  return select(0, a << (count & 31u), count < bits);
}

//= op_shl_u:
fn op_shl_u(a: u32, b: u32, bits: u32) -> u32 {
  return select(0u, a << (b & 31u), b < bits);
}

//= op_shr_i:
fn op_shr_i(a: i32, b: i32, bits: u32) -> i32 {
  let count = bitcast<u32>(b);
  return a >> select(31u, count & 31u, count < bits);
}

//= op_shr_u:
fn op_shr_u(a: u32, b: u32, bits: u32) -> u32 {
  return select(0u, a >> (b & 31u), b < bits);
}

// ---- conversions: truncating, saturating, NaN to 0 ----------------------------------

//= cast_f_i: op_is_nan
// The conversion of WGSL saturates at the largest f32 below the end of the range.
fn cast_f_i(x: f32) -> i32 {
  let y = select(i32(x), 0x7fffffff, x >= 0x1p31);
  return select(y, 0, op_is_nan(x));
}

//= cast_f_u: op_is_nan
fn cast_f_u(x: f32) -> u32 {
  let y = select(u32(max(x, 0.0)), 0xffffffffu, x >= 0x1p32);
  return select(y, 0u, op_is_nan(x));
}

//= cast_f_small_i: op_is_nan
// To the integers from -end to end - 1.
fn cast_f_small_i(x: f32, end: f32) -> i32 {
  return select(i32(clamp(x, -end, end - 1.0)), 0, op_is_nan(x));
}

//= cast_f_small_u: op_is_nan
fn cast_f_small_u(x: f32, last: f32) -> u32 {
  return select(u32(clamp(x, 0.0, last)), 0u, op_is_nan(x));
}

// ---- by how much integer results exceed 32 bits: ops/report.toml ----

//= math_mul_high:
// The upper 32 bits of a product.
fn math_mul_high(a: u32, b: u32) -> u32 {
  let a0 = a & 0xffffu;
  let a1 = a >> 16u;
  let b0 = b & 0xffffu;
  let b1 = b >> 16u;
  let middle = a1 * b0 + ((a0 * b0) >> 16u);
  return a1 * b1 + (middle >> 16u) + ((a0 * b1 + (middle & 0xffffu)) >> 16u);
}

//= op_excess_add_i:
fn op_excess_add_i(a: i32, b: i32) -> i32 {
  let sum = a + b;
  return select(0, select(1, -1, a < 0), ((a ^ sum) & (b ^ sum)) < 0);
}

//= op_excess_add_u:
fn op_excess_add_u(a: u32, b: u32) -> i32 {
  return select(0, 1, a + b < a);
}

//= op_excess_sub_i:
fn op_excess_sub_i(a: i32, b: i32) -> i32 {
  let difference = a - b;
  return select(0, select(1, -1, a < 0), ((a ^ b) & (a ^ difference)) < 0);
}

//= op_excess_sub_u:
fn op_excess_sub_u(a: u32, b: u32) -> i32 {
  return select(0, -1, a < b);
}

//= op_excess_mul_i: math_mul_high
fn op_excess_mul_i(a: i32, b: i32) -> i32 {
  let high = bitcast<i32>(math_mul_high(bitcast<u32>(a), bitcast<u32>(b))) - select(0, b, a < 0) - select(0, a, b < 0);
  return high - ((a * b) >> 31u);
}

//= op_excess_mul_u: math_mul_high
fn op_excess_mul_u(a: u32, b: u32) -> i32 {
  return bitcast<i32>(min(math_mul_high(a, b), 0x7fffffffu));
}

//= op_excess_fma_i: op_excess_mul_i op_excess_add_i
fn op_excess_fma_i(a: i32, b: i32, c: i32) -> i32 {
  return op_excess_mul_i(a, b) + op_excess_add_i(a * b, c);
}

//= op_excess_fma_u: math_mul_high
fn op_excess_fma_u(a: u32, b: u32, c: u32) -> i32 {
  let carry = select(0u, 1u, a * b + c < c);
  return bitcast<i32>(min(math_mul_high(a, b) + carry, 0x7fffffffu));
}

//= op_excess_pow_i: op_excess_mul_i
// Products grow by at least a factor of two and overflow after 32 steps, so there are few.
fn op_excess_pow_i(a: i32, b: i32) -> i32 {
  if b <= 1 || (a >= -1 && a <= 1) {
    return 0;
  }
  var power = a;
  for (var i = 1; i < b; i++) {
    let excess = op_excess_mul_i(power, a);
    if excess != 0 {
      return select(select(0x7fffffff, -0x7fffffff, a < 0 && (b & 1) != 0), excess, i == b - 1);
    }
    power *= a;
  }
  return 0;
}

//= op_excess_pow_u: op_excess_mul_u
fn op_excess_pow_u(a: u32, b: u32) -> i32 {
  if b <= 1u || a <= 1u {
    return 0;
  }
  var power = a;
  for (var i = 1u; i < b; i++) {
    let excess = op_excess_mul_u(power, a);
    if excess != 0 {
      return select(0x7fffffff, excess, i == b - 1u);
    }
    power *= a;
  }
  return 0;
}

//= op_excess_shl_i:
// From a count of 32 on the result is 0. Negative counts are not powers of two.
fn op_excess_shl_i(a: i32, b: i32) -> i32 {
  if b <= 0 || a == 0 {
    return 0;
  }
  if b < 32 {
    let low = a << u32(b);
    return (a >> u32(32 - b)) - (low >> 31u);
  }
  let high = a << u32(min(b, 63) - 32);
  return select(select(0x7fffffff, -0x7fffffff, a < 0), high, b < 63 && (high >> u32(min(b, 63) - 32)) == a);
}

//= op_excess_shl_u:
fn op_excess_shl_u(a: u32, b: u32) -> i32 {
  if b == 0u || a == 0u {
    return 0;
  }
  if b < 32u {
    return bitcast<i32>(min(a >> (32u - b), 0x7fffffffu));
  }
  let high = a << (min(b, 63u) - 32u);
  return bitcast<i32>(select(0x7fffffffu, high, b < 63u && high < 0x7fffffffu && (high >> (min(b, 63u) - 32u)) == a));
}
