/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Element-wise operators against double precision: within the bounds that the
 * op table states, over the whole range of the type, and with the right NaNs,
 * infinities and zeros.
 */
#include "config.h"
#include "rlx-test-util.h"

#include "ir/rlx-op-private.h"
#include "util/rlx-half-private.h"
#include "util/rlx-wgsl-library-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- inputs --------------------------------------------------------------- */

/* @per_exponent numbers of both signs for each binary exponent from @low to @high,
 * including the ends and the middle of the binade. */
static GArray *
spread (int   low,
        int   high,
        guint per_exponent)
{
  GArray *values = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GRand) rand = g_rand_new_with_seed (low * 1000 + high);

  for (int exponent = low; exponent <= high; exponent++)
    for (guint i = 0; i < per_exponent; i++)
      {
        guint32 fraction = i == 0 ? 0 : i == 1 ? 0x7fffff : i == 2 ? 0x400000 : g_rand_int (rand) & 0x7fffff;
        double value = ldexp (1 + ldexp (fraction, -23), exponent);
        double negative = -value;

        g_array_append_val (values, value);
        g_array_append_val (values, negative);
      }

  return values;
}

static void
add_specials (GArray *values)
{
  static const double specials[] = { 0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, INFINITY, -INFINITY, NAN };

  g_array_append_vals (values, specials, G_N_ELEMENTS (specials));
}

static RlxTensor *
make_tensor (const char   *data_type,
             const double *values,
             gsize         n)
{
  g_autofree char *type = g_strdup_printf ("%s[%" G_GSIZE_FORMAT "]", data_type, n);

  return rlx_test_tensor (type, values);
}

/* ---- bounds --------------------------------------------------------------- */

typedef struct
{
  double absolute;
  double relative;
  double ulps;
  double by_input;          /* times the absolute value of the first operand */
} Bound;

typedef struct
{
  const Bound *bound;
  const double *inputs;
} BoundData;

static double
get_bound (gsize    index,
           double   expected,
           gpointer user_data)
{
  const BoundData *data = user_data;
  const Bound *bound = data->bound;
  int exponent;

  frexp (expected, &exponent);

  /* Devices may flush subnormal results. */
  return bound->absolute + bound->relative * fabs (expected) + bound->ulps * ldexp (1, exponent - 24) +
         (bound->by_input > 0 ? bound->by_input * fabs (data->inputs[index]) : 0) + FLT_MIN;
}

/* Results at the very end of the range may overflow to infinity. */
static gboolean
is_borderline (double expected)
{
  return isfinite (expected) && fabs (fabs (expected) / FLT_MAX - 1) < 1e-5;
}

static double
to_range (double expected)
{
  return fabs (expected) > FLT_MAX ? copysign (INFINITY, expected) : expected;
}

/* ---- functions of one number ------------------------------------------------ */

static double ref_rsqrt (double x) { return 1 / sqrt (x); }
static double ref_reciprocal (double x) { return 1 / x; }
static double ref_sigmoid (double x) { return x < 0 ? exp (x) / (1 + exp (x)) : 1 / (1 + exp (-x)); }
static double ref_elu (double x) { return x < 0 ? 1.5 * expm1 (x) : x; }
static double ref_celu (double x) { return x < 0 ? 2.5 * expm1 (x / 2.5) : x; }
static double ref_selu (double x) { return 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * expm1 (x) : x); }
static double ref_softplus (double x) { return (x < 0 ? 0 : x) + log1p (exp (-fabs (x))); }
static double ref_log_sigmoid (double x) { return -ref_softplus (-x); }
static double ref_relu (double x) { return x < 0 ? 0 : x; }
static double ref_leaky_relu (double x) { return x < 0 ? 0.01f * x : x; }
static double ref_thresholded_relu (double x) { return x > 1 ? x : 0; }
static double ref_identity (double x) { return x; }
static double ref_neg (double x) { return -x; }
static double ref_sign (double x) { return isnan (x) || x == 0 ? x : copysign (1, x); }
static double ref_affine (double x) { return 2.5 * x + 0.75; }
static double ref_is_nan (double x) { return isnan (x); }
static double ref_is_inf (double x) { return isinf (x) != 0; }

/* If one factor vanishes faster than the other grows, the result is the limit and not
 * zero times infinity. */
static double
ref_silu (double x)
{
  return x == -INFINITY ? 0 : x * ref_sigmoid (x);
}

static double
ref_quick_gelu (double x)
{
  return x == -INFINITY ? 0 : x * ref_sigmoid (1.702 * x);
}

static double
ref_gelu (double x)
{
  return x == -INFINITY ? 0 : x / 2 * erfc (-x / sqrt (2));
}

static double
ref_gelu_tanh (double x)
{
  return x < -1e3 ? 0 : x * ref_sigmoid (2 * sqrt (2 / G_PI) * (x + 0.044715 * x * x * x));
}

static double
ref_mish (double x)
{
  return x < -1e3 ? 0 : x * tanh (ref_softplus (x));
}

static double
ref_softsign (double x)
{
  return isinf (x) ? copysign (1, x) : x / (1 + fabs (x));
}

static double
ref_hard_sigmoid (double x)
{
  return isnan (x) ? x : fmax (0, fmin (1, 0.25 * x + 0.5));
}

static double
ref_hard_swish (double x)
{
  return x * fmax (0, fmin (6, x + 3)) / 6;
}

static double
ref_clamp (double x)
{
  return isnan (x) ? x : fmax (-2.5, fmin (1e20f, x));
}

typedef struct
{
  const char *op;
  double (*reference) (double x);
  Bound bound;              /* from the operator table */
  const char *attributes;
  double limit;             /* where the bound applies; 0: everywhere */
} Unary;

static const Unary unary[] = {
  { .op = "identity", .reference = ref_identity },
  { .op = "abs", .reference = fabs },
  { .op = "neg", .reference = ref_neg },
  { .op = "sign", .reference = ref_sign },
  { .op = "ceil", .reference = ceil },
  { .op = "floor", .reference = floor },
  { .op = "round_even", .reference = rint },
  { .op = "relu", .reference = ref_relu },
  { .op = "clamp", .reference = ref_clamp, .attributes = "{'minimum': <-2.5>, 'maximum': <1e20>}" },
  { .op = "thresholded_relu", .reference = ref_thresholded_relu },
  { .op = "is_nan", .reference = ref_is_nan },
  { .op = "is_inf", .reference = ref_is_inf },
  { .op = "leaky_relu", .reference = ref_leaky_relu, .bound = { .ulps = 0.5 } },
  { .op = "affine", .reference = ref_affine, .bound = { .absolute = 2 * 0x1p-24, .relative = 2 * 0x1p-23 }, .attributes = "{'alpha': <2.5>, 'beta': <0.75>}" },
  { .op = "sqrt", .reference = sqrt, .bound = { .ulps = 2.5 } },
  { .op = "rsqrt", .reference = ref_rsqrt, .bound = { .ulps = 3 } },
  /* Beyond this, WGSL gives no bound; / is tested separately. */
  { .op = "reciprocal", .reference = ref_reciprocal, .bound = { .ulps = 2.5 }, .limit = 0x1p126 },
  { .op = "exp", .reference = exp, .bound = { .relative = 2e-6 } },
  { .op = "log", .reference = log, .bound = { .absolute = 2e-6, .relative = 2e-6 } },
  { .op = "erf", .reference = erf, .bound = { .absolute = 1.5e-7 } },
  { .op = "sin", .reference = sin, .bound = { .absolute = 1e-6 }, .limit = 1e5 },
  { .op = "cos", .reference = cos, .bound = { .absolute = 1e-6 }, .limit = 1e5 },
  { .op = "tan", .reference = tan, .bound = { .relative = 4e-6 }, .limit = 1e5 },
  { .op = "asin", .reference = asin, .bound = { .absolute = 2e-6 } },
  { .op = "acos", .reference = acos, .bound = { .absolute = 2e-6 } },
  { .op = "atan", .reference = atan, .bound = { .absolute = 2e-6 } },
  { .op = "sinh", .reference = sinh, .bound = { .relative = 4e-6 } },
  { .op = "cosh", .reference = cosh, .bound = { .relative = 4e-6 } },
  { .op = "tanh", .reference = tanh, .bound = { .relative = 2e-6 } },
  { .op = "asinh", .reference = asinh, .bound = { .relative = 4e-6 } },
  { .op = "acosh", .reference = acosh, .bound = { .absolute = 4e-6, .relative = 4e-6 } },
  { .op = "atanh", .reference = atanh, .bound = { .relative = 4e-6 } },
  { .op = "sigmoid", .reference = ref_sigmoid, .bound = { .relative = 2e-6 } },
  { .op = "elu", .reference = ref_elu, .bound = { .relative = 4e-6 }, .attributes = "{'alpha': <1.5>}" },
  /* x / alpha may be flushed even if x is not. */
  { .op = "celu", .reference = ref_celu, .bound = { .absolute = 1e-37, .relative = 4e-6 }, .attributes = "{'alpha': <2.5>}" },
  { .op = "selu", .reference = ref_selu, .bound = { .relative = 4e-6 } },
  { .op = "gelu", .reference = ref_gelu, .bound = { .absolute = 1e-7, .by_input = 2e-7 } },
  { .op = "gelu_tanh", .reference = ref_gelu_tanh, .bound = { .by_input = 2e-6 } },
  /* Beyond this, the rounding of alpha · x alone exhausts the bound. */
  { .op = "quick_gelu", .reference = ref_quick_gelu, .bound = { .relative = 4e-6 }, .limit = 37 },
  { .op = "silu", .reference = ref_silu, .bound = { .relative = 4e-6 } },
  { .op = "mish", .reference = ref_mish, .bound = { .relative = 6e-6 } },
  { .op = "softplus", .reference = ref_softplus, .bound = { .relative = 4e-6 } },
  { .op = "log_sigmoid", .reference = ref_log_sigmoid, .bound = { .relative = 4e-6 } },
  { .op = "softsign", .reference = ref_softsign, .bound = { .ulps = 4 } },
  { .op = "hard_sigmoid", .reference = ref_hard_sigmoid, .bound = { .absolute = 2 * 0x1p-23 }, .attributes = "{'alpha': <0.25>}" },
  /* Beyond this, six times x is infinite. */
  { .op = "hard_swish", .reference = ref_hard_swish, .bound = { .ulps = 4 }, .limit = 0x1p125 },
};

static void
test_unary (gconstpointer data)
{
  const Unary *row = data;
  g_autoptr(GArray) candidates = spread (-126, 127, 24);
  g_autoptr(GArray) dense = spread (-8, 7, 400);
  g_autoptr(GArray) inputs = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GArray) expected = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxTensor) y = NULL;
  BoundData bound_data = { .bound = &row->bound };

  if (rlx_test_device () == NULL)
    return;

  g_array_append_vals (candidates, dense->data, dense->len);
  if (row->limit == 0)
    add_specials (candidates);

  for (guint i = 0; i < candidates->len; i++)
    {
      double value = g_array_index (candidates, double, i);
      double result = row->reference (value);

      if ((row->limit > 0 && !(fabs (value) < row->limit)) || is_borderline (result))
        continue;

      result = to_range (result);
      g_array_append_val (inputs, value);
      g_array_append_val (expected, result);
    }

  bound_data.inputs = (const double *) inputs->data;
  x = make_tensor ("f32", bound_data.inputs, inputs->len);
  y = rlx_test_run_op (row->op, 1, &x, row->attributes ? g_variant_new_parsed (row->attributes) : NULL);
  rlx_test_compare_full (row->op, y, NULL, (const double *) expected->data, get_bound, &bound_data);
}

/* The reduction of angles is exact for every number, so the sine is defined for all of
 * them; that of doubles is accurate enough as a reference. */
static void
test_large_angles (void)
{
  static const struct
  {
    const char *op;
    double (*reference) (double x);
  } ops[] = { { "sin", sin }, { "cos", cos }, { "tan", tan } };
  static const Bound bound = { .relative = 1e-6 };
  g_autoptr(GArray) inputs = spread (3, 127, 100);
  g_autofree double *expected = NULL;
  BoundData data = { .bound = &bound };

  if (rlx_test_device () == NULL)
    return;

  /* The numbers closest to multiples of π/2 leave the smallest remainders. */
  for (int i = 1; i < 2000; i++)
    {
      float nearest = (float) (i * G_PI_2);
      double values[] = { nextafterf (nearest, 0), nearest, nextafterf (nearest, INFINITY) };

      g_array_append_vals (inputs, values, G_N_ELEMENTS (values));
    }

  data.inputs = (const double *) inputs->data;
  expected = g_new (double, inputs->len);
  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      g_autoptr(RlxTensor) x = make_tensor ("f32", data.inputs, inputs->len);
      g_autoptr(RlxTensor) y = rlx_test_run_op (ops[i].op, 1, &x, NULL);

      for (guint j = 0; j < inputs->len; j++)
        expected[j] = ops[i].reference (data.inputs[j]);
      rlx_test_compare_full (ops[i].op, y, NULL, expected, get_bound, &data);
    }
}

/* ---- functions of two numbers ------------------------------------------------- */

static void
check_binary (const char  *op,
              const char  *attributes,
              GArray      *a,
              GArray      *b,
              double     (*reference) (double a, double b),
              const Bound *bound)
{
  BoundData data = { .bound = bound };
  g_autofree double *expected = g_new (double, a->len);
  RlxTensor *inputs[2];
  RlxTensor *result;
  guint n = 0;

  g_assert_cmpuint (a->len, ==, b->len);

  for (guint i = 0; i < a->len; i++)
    {
      double first = g_array_index (a, double, i);
      double second = g_array_index (b, double, i);
      double value = reference (first, second);

      if (is_borderline (value))
        continue;

      g_array_index (a, double, n) = first;
      g_array_index (b, double, n) = second;
      expected[n++] = to_range (value);
    }

  data.inputs = (const double *) a->data;
  inputs[0] = make_tensor ("f32", (const double *) a->data, n);
  inputs[1] = make_tensor ("f32", (const double *) b->data, n);
  result = rlx_test_run_op (op, 2, inputs, attributes ? g_variant_new_parsed (attributes) : NULL);
  rlx_test_compare_full (op, result, NULL, expected, get_bound, &data);

  g_clear_object (&result);
  g_object_unref (inputs[0]);
  g_object_unref (inputs[1]);
}

static void
add_pair (GArray *a,
          GArray *b,
          double  first,
          double  second)
{
  float x = (float) first;
  float y = (float) second;

  first = x;
  second = y;
  g_array_append_val (a, first);
  g_array_append_val (b, second);
}

/* All pairs of special values. */
static void
add_special_pairs (GArray *a,
                   GArray *b)
{
  static const double values[] = {
    0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 2.5, -2.5, 1e10, -1e10, 3e38, -3e38,
    16777215, -16777215, 16777216, 1 - 0x1p-24, 1 + 0x1p-23, INFINITY, -INFINITY, NAN,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (values); j++)
      add_pair (a, b, values[i], values[j]);
}

/* Pairs of unrelated magnitudes. */
static void
add_random_pairs (GArray *a,
                  GArray *b,
                  double  exponent,
                  guint   n)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed (n);

  for (guint i = 0; i < n; i++)
    {
      double first = exp2 (g_rand_double_range (rand, -exponent, exponent));
      double second = exp2 (g_rand_double_range (rand, -exponent, exponent));

      add_pair (a, b, g_rand_boolean (rand) ? first : -first, g_rand_boolean (rand) ? second : -second);
    }
}

static void
test_pow (void)
{
  static const Bound bound = { .relative = 4e-6 };
  g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GRand) rand = g_rand_new_with_seed (5);

  if (rlx_test_device () == NULL)
    return;

  add_special_pairs (a, b);
  add_random_pairs (a, b, 6, 4000);
  for (guint i = 0; i < 20000; i++)
    {
      /* Any base, and one close to 1, with an exponent for which the result is finite:
       * the logarithm needs more than 24 bits for that. */
      double away = exp2 (-g_rand_double_range (rand, 0, 22));
      double base = i % 2 ? exp2 (g_rand_double_range (rand, -126, 127)) : i % 4 ? 1 + away : 1 - away / 2;

      base = (float) base;
      add_pair (a, b, base, g_rand_double_range (rand, -125, 128) / log2 (base));
    }
  for (int i = -40; i <= 40; i++)
    add_pair (a, b, -1.75, i);

  check_binary ("pow", NULL, a, b, pow, &bound);
}

static double
ref_floor_mod (double a,
               double b)
{
  double r = fmod (a, b);

  if (r != 0 && signbit (r) != signbit (b))
    r += b;

  return r;
}

static double
ref_div (double a,
         double b)
{
  return a / b;
}

static void
test_mod (void)
{
  static const Bound exact = { 0 };
  static const Bound rounded = { .ulps = 0.5 };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
      g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));

      add_special_pairs (a, b);
      add_random_pairs (a, b, 10, 10000);
      /* Up to the largest possible quotient, and without subnormal remainders. */
      add_random_pairs (a, b, 100, 10000);
      if (i == 0)
        check_binary ("mod", NULL, a, b, fmod, &exact);
      else
        check_binary ("mod", "{'floor': <true>}", a, b, ref_floor_mod, &rounded);
    }
}

static void
test_atan2 (void)
{
  static const Bound bound = { .absolute = 4e-6 };
  g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));

  if (rlx_test_device () == NULL)
    return;

  add_special_pairs (a, b);
  add_random_pairs (a, b, 3, 10000);
  add_random_pairs (a, b, 125, 2000);
  check_binary ("atan2", NULL, a, b, atan2, &bound);
}

static void
test_div (void)
{
  static const Bound bound = { .ulps = 2.5 };
  g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));

  if (rlx_test_device () == NULL)
    return;

  add_special_pairs (a, b);
  add_random_pairs (a, b, 60, 10000);
  check_binary ("div", NULL, a, b, ref_div, &bound);
}

/* ---- order, NaN and zeros -------------------------------------------------------- */

static double ref_equal (double a, double b) { return a == b; }
static double ref_not_equal (double a, double b) { return a != b; }
static double ref_less (double a, double b) { return a < b; }
static double ref_less_equal (double a, double b) { return a <= b; }
static double ref_greater (double a, double b) { return a > b; }
static double ref_greater_equal (double a, double b) { return a >= b; }
static double ref_max (double a, double b) { return isnan (a) || isnan (b) ? NAN : fmax (a, b); }
static double ref_min (double a, double b) { return isnan (a) || isnan (b) ? NAN : fmin (a, b); }

static void
test_order (void)
{
  static const struct
  {
    const char *op;
    double (*reference) (double a, double b);
  } ops[] = {
    { "equal", ref_equal }, { "not_equal", ref_not_equal },
    { "less", ref_less }, { "less_equal", ref_less_equal },
    { "greater", ref_greater }, { "greater_equal", ref_greater_equal },
    { "max", ref_max }, { "min", ref_min },
  };
  /* Also subnormals: no arithmetic is done that could flush them. */
  static const double tiny[] = { 0x1p-149, -0x1p-149, 0x1p-140, -0x1p-140, 0.0, -0.0, NAN, 1 };
  static const Bound exact = { .absolute = -FLT_MIN };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
      g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));

      add_special_pairs (a, b);
      add_random_pairs (a, b, 2, 500);
      for (gsize j = 0; j < G_N_ELEMENTS (tiny); j++)
        for (gsize k = 0; k < G_N_ELEMENTS (tiny); k++)
          add_pair (a, b, tiny[j], tiny[k]);
      check_binary (ops[i].op, NULL, a, b, ops[i].reference, &exact);
    }
}

static void
test_signed_zero (void)
{
  static const char *const odd[] = {
    "identity", "sign", "floor", "ceil", "round_even", "sqrt", "erf", "sin", "tan", "asin", "atan",
    "sinh", "tanh", "asinh", "atanh", "elu", "softsign",
  };
  static const double zeros[] = { 0.0, -0.0 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (odd); i++)
    {
      g_autoptr(RlxTensor) x = make_tensor ("f32", zeros, 2);
      g_autoptr(RlxTensor) y = rlx_test_run_op (odd[i], 1, &x, NULL);
      g_autofree double *values = y ? rlx_test_get_values (y) : NULL;

      if (values == NULL || values[0] != 0 || signbit (values[0]) || values[1] != 0 || !signbit (values[1]))
        {
          g_test_message ("%s: zeros lose their sign", odd[i]);
          g_test_fail ();
        }
    }
}

static void
test_signs (void)
{
  static const struct
  {
    const char *op;
    double a, b, expected;
  } cases[] = {
    { "pow", -0.0, 3, -0.0 }, { "pow", -0.0, 2, 0.0 }, { "pow", -0.0, -3, -INFINITY }, { "pow", -0.0, -2, INFINITY },
    { "pow", -INFINITY, -3, -0.0 }, { "pow", -INFINITY, 3, -INFINITY }, { "pow", -2, 16777216, INFINITY },
    { "pow", -1.5, -301, -0.0 }, { "mod", -4, 2, -0.0 }, { "mod", 4, -2, 0.0 }, { "atan2", -0.0, -0.0, -G_PI },
    { "atan2", 0.0, -0.0, G_PI }, { "atan2", -0.0, 1, -0.0 }, { "atan2", -1, INFINITY, -0.0 },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(RlxTensor) a = make_tensor ("f32", &cases[i].a, 1);
      g_autoptr(RlxTensor) b = make_tensor ("f32", &cases[i].b, 1);
      RlxTensor *inputs[] = { a, b };
      g_autoptr(RlxTensor) y = rlx_test_run_op (cases[i].op, 2, inputs, NULL);
      g_autofree double *values = y ? rlx_test_get_values (y) : NULL;

      if (values == NULL || signbit (values[0]) != signbit (cases[i].expected) ||
          !(values[0] == cases[i].expected || fabs (values[0] - cases[i].expected) < 1e-6))
        {
          g_test_message ("%s (%g, %g) is %g instead of %g", cases[i].op, cases[i].a, cases[i].b,
                          values ? values[0] : NAN, cases[i].expected);
          g_test_fail ();
        }
    }
}

/* ---- integers -------------------------------------------------------------------- */

static gint64
ref_int_div (gint64 a,
             gint64 b,
             int    bits G_GNUC_UNUSED)
{
  return b == 0 ? 0 : a / b;
}

static gint64
ref_int_mod (gint64 a,
             gint64 b,
             int    bits G_GNUC_UNUSED)
{
  return b == 0 ? 0 : a % b;
}

static gint64
ref_int_floor_mod (gint64 a,
                   gint64 b,
                   int    bits)
{
  gint64 r = ref_int_mod (a, b, bits);

  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static gint64
ref_int_pow (gint64 a,
             gint64 b,
             int    bits G_GNUC_UNUSED)
{
  guint64 result = 1;

  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;

  for (guint64 power = (guint64) a; b > 0; b >>= 1, power *= power)
    {
      if (b & 1)
        result *= power;
    }

  return (gint64) result;
}

static gint64
ref_shift_left (gint64 a,
                gint64 b,
                int    bits)
{
  return b < 0 || b >= bits ? 0 : (gint64) ((guint64) a << b);
}

static gint64
ref_shift_right (gint64 a,
                 gint64 b,
                 int    bits)
{
  return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
}

static void
test_integers (void)
{
  static const struct
  {
    const char *op;
    const char *attributes;
    gint64 (*reference) (gint64 a, gint64 b, int bits);
  } ops[] = {
    { "div", NULL, ref_int_div },
    { "mod", NULL, ref_int_mod },
    { "mod", "{'floor': <true>}", ref_int_floor_mod },
    { "pow", NULL, ref_int_pow },
    { "shift_left", NULL, ref_shift_left },
    { "shift_right", NULL, ref_shift_right },
  };
  static const struct
  {
    const char *name;
    int bits;
    gint64 min, max;
  } types[] = {
    { "i32", 32, G_MININT32, G_MAXINT32 }, { "u32", 32, 0, G_MAXUINT32 },
    { "i8", 8, G_MININT8, G_MAXINT8 }, { "u8", 8, 0, G_MAXUINT8 },
  };
  static const gint64 values[] = {
    0, 1, -1, 2, -2, 3, -3, 7, -7, 8, 9, 31, 32, 33, 100, -100, 127, -128, -127, 255,
    65536, 123456789, -123456789, G_MAXINT32, G_MININT32, G_MININT32 + 1, G_MAXUINT32,
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize t = 0; t < G_N_ELEMENTS (types); t++)
    {
      g_autoptr(GArray) a = g_array_new (FALSE, FALSE, sizeof (double));
      g_autoptr(GArray) b = g_array_new (FALSE, FALSE, sizeof (double));
      g_autofree double *expected = NULL;
      g_autoptr(RlxTensor) ta = NULL;
      g_autoptr(RlxTensor) tb = NULL;
      RlxTensor *inputs[2];

      for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
        for (gsize j = 0; j < G_N_ELEMENTS (values); j++)
          {
            double first = (double) values[i], second = (double) values[j];

            if (MIN (values[i], values[j]) < types[t].min || MAX (values[i], values[j]) > types[t].max)
              continue;
            g_array_append_val (a, first);
            g_array_append_val (b, second);
          }

      expected = g_new (double, a->len);
      ta = inputs[0] = make_tensor (types[t].name, (const double *) a->data, a->len);
      tb = inputs[1] = make_tensor (types[t].name, (const double *) b->data, b->len);

      for (gsize k = 0; k < G_N_ELEMENTS (ops); k++)
        {
          g_autofree char *what = g_strdup_printf ("%s of %s", ops[k].op, types[t].name);
          g_autoptr(RlxTensor) y = NULL;

          for (guint i = 0; i < a->len; i++)
            {
              guint64 wrapped = (guint64) ops[k].reference ((gint64) g_array_index (a, double, i),
                                                            (gint64) g_array_index (b, double, i),
                                                            types[t].bits);
              int rest = 64 - types[t].bits;

              expected[i] = types[t].min < 0 ? (double) ((gint64) (wrapped << rest) >> rest)
                                             : (double) ((wrapped << rest) >> rest);
            }

          y = rlx_test_run_op (ops[k].op, 2, inputs,
                               ops[k].attributes ? g_variant_new_parsed (ops[k].attributes) : NULL);
          rlx_test_compare (what, y, NULL, expected, 0, 0);
        }
    }
}

/* ---- conversions ------------------------------------------------------------------- */

static GVariant *
to_type (RlxDataType data_type)
{
  return g_variant_new_parsed ("{'to': <%s>}", rlx_data_type_to_string (data_type));
}

static void
test_cast (void)
{
  static const struct
  {
    RlxDataType type;
    double min, max;
  } types[] = {
    { RLX_DATA_TYPE_I32, G_MININT32, G_MAXINT32 }, { RLX_DATA_TYPE_U32, 0, G_MAXUINT32 },
    { RLX_DATA_TYPE_I8, G_MININT8, G_MAXINT8 }, { RLX_DATA_TYPE_U8, 0, G_MAXUINT8 },
  };
  static const double edges[] = {
    127.9, 128, -128.9, -129, 255.9, 256, -0.9, 0.9, 2147483520, 2147483648, -2147483648.0, -2147483904.0,
    4294967040, 4294967296, 0x1p-149,
  };
  g_autoptr(GArray) inputs = spread (-3, 40, 20);
  g_autofree double *expected = NULL;
  g_autoptr(RlxTensor) x = NULL;

  if (rlx_test_device () == NULL)
    return;

  add_specials (inputs);
  g_array_append_vals (inputs, edges, G_N_ELEMENTS (edges));
  expected = g_new (double, inputs->len);
  x = make_tensor ("f32", (const double *) inputs->data, inputs->len);

  for (gsize t = 0; t < G_N_ELEMENTS (types); t++)
    {
      g_autoptr(RlxTensor) y = rlx_test_run_op ("cast", 1, &x, to_type (types[t].type));

      for (guint i = 0; i < inputs->len; i++)
        {
          double value = (float) g_array_index (inputs, double, i);

          expected[i] = isnan (value) ? 0 : CLAMP (trunc (value), types[t].min, types[t].max);
        }
      rlx_test_compare (rlx_data_type_to_string (types[t].type), y, NULL, expected, 0, 0);
    }

  for (guint i = 0; i < inputs->len; i++)
    expected[i] = g_array_index (inputs, double, i) != 0;
  {
    g_autoptr(RlxTensor) y = rlx_test_run_op ("cast", 1, &x, to_type (RLX_DATA_TYPE_BOOL));

    rlx_test_compare ("bool", y, NULL, expected, 0, 0);
  }
}

/* Bit for bit: every half, and the numbers around and between them. */
static void
test_half (void)
{
  g_autofree guint16 *halves = g_new (guint16, 65536);
  g_autoptr(GArray) floats = g_array_new (FALSE, FALSE, sizeof (float));
  const gint64 n_halves = 65536;
  gint64 n_floats;
  g_autoptr(RlxTensor) narrow = NULL;
  g_autoptr(RlxTensor) wide = NULL;
  g_autoptr(RlxTensor) widened = NULL;
  g_autoptr(RlxTensor) narrowed = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 65536; i++)
    {
      float value = rlx_half_to_float ((guint16) i);
      float next = rlx_half_to_float ((guint16) (i + 1));

      halves[i] = (guint16) i;
      g_array_append_val (floats, value);
      if (isfinite (value) && isfinite (next))
        {
          float middle = value + (next - value) / 2;
          float around[] = { nextafterf (middle, -INFINITY), middle, nextafterf (middle, INFINITY) };

          g_array_append_vals (floats, around, G_N_ELEMENTS (around));
        }
    }
  {
    static const float large[] = { 65519.996f, 65520, 65536, 1e6f, FLT_MAX, -65520, -FLT_MAX, 0x1p-26f, 0x1p-130f };

    g_array_append_vals (floats, large, G_N_ELEMENTS (large));
  }
  n_floats = floats->len;

  narrow = rlx_tensor_new_from_data (RLX_DATA_TYPE_F16, &n_halves, 1, (const guint8 *) halves, 65536 * 2, &error);
  g_assert_no_error (error);
  wide = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, &n_floats, 1, (const guint8 *) floats->data,
                                   floats->len * sizeof (float), &error);
  g_assert_no_error (error);

  widened = rlx_test_run_op ("cast", 1, &narrow, to_type (RLX_DATA_TYPE_F32));
  narrowed = rlx_test_run_op ("cast", 1, &wide, to_type (RLX_DATA_TYPE_F16));
  if (widened == NULL || narrowed == NULL)
    return;

  {
    const float *got = g_bytes_get_data (rlx_tensor_get_bytes (widened), NULL);

    for (guint i = 0; i < 65536; i++)
      {
        float value = rlx_half_to_float ((guint16) i);

        if (isnan (value) ? !isnan (got[i]) : got[i] != value || signbit (got[i]) != signbit (value))
          {
            g_test_message ("0x%04x becomes %a instead of %a", i, got[i], value);
            g_test_fail ();
            break;
          }
      }
  }
  {
    const guint16 *got = g_bytes_get_data (rlx_tensor_get_bytes (narrowed), NULL);

    for (guint i = 0; i < floats->len; i++)
      {
        float value = g_array_index (floats, float, i);
        guint16 half = rlx_half_from_float (value);

        if (isnan (value) ? !isnan (rlx_half_to_float (got[i])) : got[i] != half)
          {
            g_test_message ("%a becomes 0x%04x instead of 0x%04x", value, got[i], half);
            g_test_fail ();
            break;
          }
      }
  }
}

/* ---- the library --------------------------------------------------------------------- */

static void
test_library (void)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];
      const char *expressions[] = { op->expr_f, op->expr_i, op->expr_u, op->expr_b };

      for (gsize j = 0; j < G_N_ELEMENTS (expressions); j++)
        {
          if (expressions[j] != NULL)
            rlx_wgsl_library_scan (expressions[j], names);
        }
    }

  g_assert_cmpuint (names->len, >, 30);

  for (guint i = 0; i < names->len; i++)
    {
      const char *const one[] = { names->pdata[i], NULL };
      g_autofree char *text = rlx_wgsl_library_select (RLX_WGSL_LIBRARY_MATH, one, &error);
      g_autofree char *definition = g_strdup_printf ("fn %s(", one[0]);

      g_assert_no_error (error);
      g_assert_nonnull (strstr (text, definition));
    }
}

/* So many elements that computing the operands' indices takes more than 16 bits. */
static void
test_broadcast (void)
{
  static const char *const types[][2] = {
    { "i32[7,1,97]", "i32[331,1]" }, { "i32[3,1,1,5]", "i32[9973,2,1]" }, { "f32[1,65537]", "f32[3,1]" }, { "i32[70001,1,1]", "i32[1,4,1]" },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr(RlxTensor) a = rlx_test_random (types[i][0], -1000, 1000, 1);
      g_autoptr(RlxTensor) b = rlx_test_random (types[i][1], -1000, 1000, 2);

      rlx_test_check_op ("add", 2, (RlxTensor *[]) { a, b }, g_variant_new_parsed ("@a{sv} {}"));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/math/library", test_library);
  for (gsize i = 0; i < G_N_ELEMENTS (unary); i++)
    {
      g_autofree char *path = g_strdup_printf ("/math/unary/%s", unary[i].op);

      g_test_add_data_func (path, &unary[i], test_unary);
    }
  g_test_add_func ("/math/large-angles", test_large_angles);
  g_test_add_func ("/math/pow", test_pow);
  g_test_add_func ("/math/mod", test_mod);
  g_test_add_func ("/math/atan2", test_atan2);
  g_test_add_func ("/math/div", test_div);
  g_test_add_func ("/math/order", test_order);
  g_test_add_func ("/math/signed-zero", test_signed_zero);
  g_test_add_func ("/math/signs", test_signs);
  g_test_add_func ("/math/integers", test_integers);
  g_test_add_func ("/math/broadcast", test_broadcast);
  g_test_add_func ("/math/cast", test_cast);
  g_test_add_func ("/math/half", test_half);

  return g_test_run ();
}
