/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What element-wise operators do to one element, as their formulas say, and the
 * error bounds of the op table as numbers.
 *
 * Where a formula has no value at minus infinity (∞ · 0) the limit is meant.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define FUNCTION(name, expression) \
  static double \
  f_##name (const double                           *x, \
            const RlxReferenceParams *params G_GNUC_UNUSED) \
  { \
    return expression; \
  }

/* ---- arithmetic -------------------------------------------------------------- */

FUNCTION (add, x[0] + x[1])
FUNCTION (sub, x[0] - x[1])
FUNCTION (mul, x[0] * x[1])
FUNCTION (div, x[0] / x[1])
FUNCTION (max, isnan (x[0]) || isnan (x[1]) ? (double) NAN : x[0] > x[1] ? x[0] : x[1])
FUNCTION (min, isnan (x[0]) || isnan (x[1]) ? (double) NAN : x[0] < x[1] ? x[0] : x[1])
FUNCTION (pow, pow (x[0], x[1]))
FUNCTION (atan2, atan2 (x[0], x[1]))
FUNCTION (fma, fma (x[0], x[1], x[2]))

static double
f_mod (const double             *x,
       const RlxReferenceParams *params)
{
  double rest = fmod (x[0], x[1]);

  if (params->flag && rest != 0 && (rest < 0) != (x[1] < 0))
    rest += x[1];

  return rest;
}

/* Adding the divisor rounds; otherwise the remainder is exact as long as the quotient is. */
static double
bound_mod (const double             *x,
           const RlxReferenceParams *params)
{
  if (fabs (x[0] / x[1]) >= 0x1p23)
    return INFINITY;

  return params->flag && (x[0] < 0) != (x[1] < 0) ? RLX_F32_EPSILON * fabs (f_mod (x, params)) : 0;
}

/* The loss if a device flushes a subnormal product to zero. */
static double
vanishing (double product)
{
  return fabs (product) < FLT_MIN ? fabs (product) : 0;
}

static double
bound_fma (const double                           *x,
           const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return RLX_F32_ULP * fmax (fabs (x[0] * x[1]), fabs (x[0] * x[1] + x[2])) + vanishing (x[0] * x[1]);
}

/* ---- comparison and logic ------------------------------------------------------ */

FUNCTION (equal, x[0] == x[1])
FUNCTION (not_equal, x[0] != x[1])
FUNCTION (less, x[0] < x[1])
FUNCTION (less_equal, x[0] <= x[1])
FUNCTION (greater, x[0] > x[1])
FUNCTION (greater_equal, x[0] >= x[1])
FUNCTION (logical_and, x[0] != 0 && x[1] != 0)
FUNCTION (logical_or, x[0] != 0 || x[1] != 0)
FUNCTION (logical_xor, (x[0] != 0) != (x[1] != 0))
FUNCTION (logical_not, x[0] == 0)
FUNCTION (is_nan, isnan (x[0]))
FUNCTION (is_inf, isinf (x[0]) && (x[0] < 0 ? params->flag : params->other_flag))
FUNCTION (where, x[0] != 0 ? x[1] : x[2])
FUNCTION (identity, x[0])

static double
f_clamp (const double             *x,
         const RlxReferenceParams *params)
{
  if (isnan (x[0]))
    return x[0];

  return fmin (fmax (x[0], params->p), params->q);
}

/* ---- unary ------------------------------------------------------------------------ */

FUNCTION (abs, fabs (x[0]))
FUNCTION (neg, -x[0])
FUNCTION (sign, isnan (x[0]) || x[0] == 0 ? x[0] : x[0] < 0 ? -1 : 1)
FUNCTION (ceil, ceil (x[0]))
FUNCTION (floor, floor (x[0]))
FUNCTION (round_even, nearbyint (x[0]))
FUNCTION (sqrt, sqrt (x[0]))
FUNCTION (rsqrt, 1 / sqrt (x[0]))
FUNCTION (reciprocal, 1 / x[0])
FUNCTION (exp, exp (x[0]))
FUNCTION (log, log (x[0]))
FUNCTION (erf, erf (x[0]))
FUNCTION (sin, sin (x[0]))
FUNCTION (cos, cos (x[0]))
FUNCTION (tan, tan (x[0]))
FUNCTION (asin, asin (x[0]))
FUNCTION (acos, acos (x[0]))
FUNCTION (atan, atan (x[0]))
FUNCTION (sinh, sinh (x[0]))
FUNCTION (cosh, cosh (x[0]))
FUNCTION (tanh, tanh (x[0]))
FUNCTION (asinh, asinh (x[0]))
FUNCTION (acosh, acosh (x[0]))
FUNCTION (atanh, atanh (x[0]))
FUNCTION (sigmoid, 1 / (1 + exp (-x[0])))

/* "2e-6 relative or absolute": of the larger of 1 and the result. */
static double
bound_log (const double                           *x,
           const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return 2e-6 * fmax (1, fabs (log (x[0])));
}

static double
bound_acosh (const double                           *x,
             const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return 4e-6 * fmax (1, fabs (acosh (x[0])));
}

/* ---- activations -------------------------------------------------------------------- */

/* x · weight, where a weight of zero takes precedence over an infinite x. */
static double
weigh (double x,
       double weight)
{
  return weight == 0 && isinf (x) ? copysign (0, x) : x * weight;
}

FUNCTION (relu, isnan (x[0]) ? x[0] : x[0] > 0 ? x[0] : 0)
FUNCTION (leaky_relu, x[0] < 0 ? params->p * x[0] : x[0])
FUNCTION (prelu, x[0] < 0 ? x[1] * x[0] : x[0])
FUNCTION (elu, x[0] < 0 ? params->p * expm1 (x[0]) : x[0])
FUNCTION (celu, isnan (x[0]) ? x[0] : fmax (0, x[0]) + fmin (0, params->p * expm1 (x[0] / params->p)))
FUNCTION (selu, params->q * f_elu (x, params))
FUNCTION (gelu, x[0] < 0 ? weigh (x[0], 0.5 * erfc (-x[0] * M_SQRT1_2)) : x[0] * 0.5 * (1 + erf (x[0] * M_SQRT1_2)))
FUNCTION (gelu_tanh, weigh (x[0], 1 / (1 + exp (-2 * M_2_SQRTPI * M_SQRT1_2 * (x[0] + 0.044715 * x[0] * x[0] * x[0])))))
FUNCTION (quick_gelu, weigh (x[0], 1 / (1 + exp (-params->p * x[0]))))
FUNCTION (silu, weigh (x[0], 1 / (1 + exp (-x[0]))))
FUNCTION (swiglu, f_quick_gelu (x, params) * x[1])
FUNCTION (geglu, f_gelu (x, params) * x[1])
FUNCTION (gated_residual, x[0] + x[1] * x[2])
FUNCTION (mish, weigh (x[0], tanh (x[0] > 0 ? x[0] + log1p (exp (-x[0])) : log1p (exp (x[0])))))
FUNCTION (softplus, x[0] > 0 ? x[0] + log1p (exp (-x[0])) : log1p (exp (x[0])))
FUNCTION (softsign, isinf (x[0]) ? copysign (1, x[0]) : x[0] / (1 + fabs (x[0])))
FUNCTION (log_sigmoid, x[0] < 0 ? x[0] - log1p (exp (x[0])) : -log1p (exp (-x[0])))
FUNCTION (thresholded_relu, x[0] > params->p ? x[0] : 0)
FUNCTION (affine, params->p * x[0] + params->q)

static double
limit (double x,
       double least,
       double greatest)
{
  return isnan (x) ? x : fmax (least, fmin (greatest, x));
}

FUNCTION (hard_sigmoid, limit (params->p * x[0] + params->q, 0, 1))
FUNCTION (hard_swish, x[0] * limit (x[0] + 3, 0, 6) / 6)

/* With a negative alpha the exponential grows, and so does the rounding error of the division. */
static double
bound_celu (const double             *x,
            const RlxReferenceParams *params)
{
  return 4e-6 * (1 + fmax (0, x[0] / params->p)) * fabs (f_celu (x, params));
}

static double
bound_gelu (const double                           *x,
            const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return isinf (x[0]) ? 0 : 2e-7 * fabs (x[0]) + 1e-7;
}

static double
bound_gelu_tanh (const double                           *x,
                 const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return isinf (x[0]) ? 0 : 2e-6 * fabs (x[0]);
}

/* A subnormal gate may be 0. */
static double
bound_swiglu (const double             *x,
              const RlxReferenceParams *params)
{
  return 6e-6 * fabs (f_swiglu (x, params)) + 0x1p-125 * fabs (x[1]);
}

static double
bound_geglu (const double                           *x,
             const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return isinf (x[0]) ? 0 : (3e-7 * fabs (x[0]) + 1e-7) * fabs (x[1]);
}

static double
bound_gated_residual (const double                           *x,
                      const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return RLX_F32_ULP * (fabs (x[0]) + fabs (x[1] * x[2])) + vanishing (x[1] * x[2]);
}

/* "2 ulp of the largest term", of alpha · x + beta. */
static double
bound_affine (const double             *x,
              const RlxReferenceParams *params)
{
  return 2 * RLX_F32_ULP * fmax (fabs (params->p * x[0] + params->q), fmax (fabs (params->p * x[0]), fabs (params->q))) +
         vanishing (params->p * x[0]);
}

/* Outside the limits it is exact. */
static double
bound_hard_sigmoid (const double             *x,
                    const RlxReferenceParams *params)
{
  double bound = bound_affine (x, params), y = params->p * x[0] + params->q;

  return isinf (y) || y < -bound || y > 1 + bound ? 0 : bound;
}

/* ---- the table ------------------------------------------------------------------------ */

#define EXACT 0, 0, NULL
#define RELATIVE(bound) bound, 0, NULL
#define ABSOLUTE(bound) 0, bound, NULL
#define ULPS(n) n * RLX_F32_ULP, 0, NULL
#define ROUNDED RLX_F32_EPSILON, 0, NULL

const RlxReferenceFunction rlx_reference_functions[] = {
  { "add", f_add, rlx_reference_add_i, ROUNDED, FALSE },
  { "sub", f_sub, rlx_reference_sub_i, ROUNDED, FALSE },
  { "mul", f_mul, rlx_reference_mul_i, ROUNDED, FALSE },
  { "div", f_div, rlx_reference_div_i, ULPS (2.5), FALSE },
  { "max", f_max, NULL, EXACT, FALSE },
  { "min", f_min, NULL, EXACT, FALSE },
  { "pow", f_pow, rlx_reference_pow_i, RELATIVE (4e-6), TRUE },
  { "mod", f_mod, rlx_reference_mod_i, 0, 0, bound_mod, TRUE },
  { "atan2", f_atan2, NULL, ABSOLUTE (4e-6), TRUE },
  { "fma", f_fma, rlx_reference_fma_i, 0, 0, bound_fma, FALSE },

  { "bit_and", NULL, rlx_reference_bit_and, EXACT, FALSE },
  { "bit_or", NULL, rlx_reference_bit_or, EXACT, FALSE },
  { "bit_xor", NULL, rlx_reference_bit_xor, EXACT, FALSE },
  { "bit_not", NULL, rlx_reference_bit_not, EXACT, FALSE },
  { "shift_left", NULL, rlx_reference_shift_left, EXACT, FALSE },
  { "shift_right", NULL, rlx_reference_shift_right, EXACT, FALSE },

  { "equal", f_equal, NULL, EXACT, FALSE },
  { "not_equal", f_not_equal, NULL, EXACT, FALSE },
  { "less", f_less, NULL, EXACT, FALSE },
  { "less_equal", f_less_equal, NULL, EXACT, FALSE },
  { "greater", f_greater, NULL, EXACT, FALSE },
  { "greater_equal", f_greater_equal, NULL, EXACT, FALSE },
  { "logical_and", f_logical_and, NULL, EXACT, FALSE },
  { "logical_or", f_logical_or, NULL, EXACT, FALSE },
  { "logical_xor", f_logical_xor, NULL, EXACT, FALSE },
  { "logical_not", f_logical_not, NULL, EXACT, FALSE },
  { "is_nan", f_is_nan, NULL, EXACT, FALSE },
  { "is_inf", f_is_inf, NULL, EXACT, FALSE },
  { "where", f_where, NULL, EXACT, FALSE },
  { "clamp", f_clamp, rlx_reference_clamp_i, EXACT, FALSE },

  { "identity", f_identity, NULL, EXACT, FALSE },
  { "stop_gradient", f_identity, NULL, EXACT, FALSE },
  { "abs", f_abs, NULL, EXACT, TRUE },
  { "neg", f_neg, NULL, EXACT, FALSE },
  { "sign", f_sign, NULL, EXACT, FALSE },
  { "ceil", f_ceil, NULL, EXACT, FALSE },
  { "floor", f_floor, NULL, EXACT, FALSE },
  { "round_even", f_round_even, NULL, EXACT, FALSE },
  { "sqrt", f_sqrt, NULL, ULPS (2.5), FALSE },
  { "rsqrt", f_rsqrt, NULL, ULPS (3), FALSE },
  { "reciprocal", f_reciprocal, NULL, ULPS (2.5), FALSE },
  { "exp", f_exp, NULL, RELATIVE (2e-6), FALSE },
  { "log", f_log, NULL, 0, 0, bound_log, FALSE },
  { "erf", f_erf, NULL, ABSOLUTE (1.5e-7), FALSE },
  { "sin", f_sin, NULL, ABSOLUTE (1e-6), TRUE },
  { "cos", f_cos, NULL, ABSOLUTE (1e-6), TRUE },
  { "tan", f_tan, NULL, RELATIVE (4e-6), TRUE },
  { "asin", f_asin, NULL, ABSOLUTE (2e-6), FALSE },
  { "acos", f_acos, NULL, ABSOLUTE (2e-6), FALSE },
  { "atan", f_atan, NULL, ABSOLUTE (2e-6), FALSE },
  { "sinh", f_sinh, NULL, RELATIVE (4e-6), FALSE },
  { "cosh", f_cosh, NULL, RELATIVE (4e-6), TRUE },
  { "tanh", f_tanh, NULL, RELATIVE (2e-6), FALSE },
  { "asinh", f_asinh, NULL, RELATIVE (4e-6), FALSE },
  { "acosh", f_acosh, NULL, 0, 0, bound_acosh, FALSE },
  { "atanh", f_atanh, NULL, RELATIVE (4e-6), FALSE },
  { "sigmoid", f_sigmoid, NULL, RELATIVE (2e-6), FALSE },

  { "relu", f_relu, NULL, EXACT, FALSE },
  { "leaky_relu", f_leaky_relu, NULL, ROUNDED, TRUE },
  { "prelu", f_prelu, rlx_reference_prelu_i, ROUNDED, TRUE },
  { "elu", f_elu, NULL, RELATIVE (4e-6), TRUE },
  { "celu", f_celu, NULL, 0, 0, bound_celu, TRUE },
  { "selu", f_selu, NULL, RELATIVE (4e-6), TRUE },
  { "gelu", f_gelu, NULL, 0, 0, bound_gelu, TRUE },
  { "gelu_tanh", f_gelu_tanh, NULL, 0, 0, bound_gelu_tanh, TRUE },
  { "quick_gelu", f_quick_gelu, NULL, RELATIVE (5e-6), TRUE },
  { "silu", f_silu, NULL, RELATIVE (4e-6), TRUE },
  { "swiglu", f_swiglu, NULL, 0, 0, bound_swiglu, TRUE },
  { "geglu", f_geglu, NULL, 0, 0, bound_geglu, TRUE },
  { "gated_residual", f_gated_residual, NULL, 0, 0, bound_gated_residual, FALSE },
  { "mish", f_mish, NULL, RELATIVE (6e-6), TRUE },
  { "softplus", f_softplus, NULL, RELATIVE (4e-6), FALSE },
  { "softsign", f_softsign, NULL, ULPS (4), FALSE },
  { "hard_sigmoid", f_hard_sigmoid, NULL, 0, 0, bound_hard_sigmoid, FALSE },
  { "hard_swish", f_hard_swish, NULL, ULPS (4), TRUE },
  { "log_sigmoid", f_log_sigmoid, NULL, RELATIVE (4e-6), FALSE },
  { "thresholded_relu", f_thresholded_relu, NULL, EXACT, FALSE },
  { "affine", f_affine, NULL, 0, 0, bound_affine, FALSE },

  { NULL, NULL, NULL, EXACT, FALSE },
};

const RlxReferenceFunction *
rlx_reference_find_function (const char *op)
{
  for (const RlxReferenceFunction *function = rlx_reference_functions; function->op != NULL; function++)
    if (strcmp (function->op, op) == 0)
      return function;

  return NULL;
}
