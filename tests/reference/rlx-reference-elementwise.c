/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Element-wise operators with broadcasting, and casts.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_OPERANDS 3

/* The two possible values of an operand on the device; one if it is exact. NaN and an
 * ordinary number mean that it is unknown. */
static gsize
get_ends (RlxDataType  data_type,
          double       value,
          double       bound,
          double       ends[2])
{
  if (bound == 0)
    {
      ends[0] = value;
      return 1;
    }
  if (data_type == RLX_DATA_TYPE_BOOL)
    {
      ends[0] = 0;
      ends[1] = 1;
      return 2;
    }
  if (!isfinite (bound) || !isfinite (value))
    {
      ends[0] = NAN;
      ends[1] = 0.5;
      return 2;
    }

  ends[0] = value - bound;
  ends[1] = value + bound;
  return 2;
}

static double
distance (double a,
          double b)
{
  double d;

  if (a == b || (isnan (a) && isnan (b)))
    return 0;
  d = fabs (a - b);

  return isnan (d) ? INFINITY : d;
}

/* Whether a function may have a jump, a pole or a turning point within the intervals of
 * its operands, so that their ends say nothing. */
static gboolean
may_jump (const RlxReferenceFunction *function,
          const RlxReferenceCall     *call,
          const double               *x,
          const double               *e)
{
  const char *op = call->op;

  for (gsize j = 0; j < call->n_inputs; j++)
    if (function->curved && isfinite (e[j]) && e[j] > 0.05 * (1 + fabs (x[j])))
      return TRUE;
  if (strcmp (op, "reciprocal") == 0)
    return e[0] > 0 && fabs (x[0]) <= e[0];
  /* Both ends may be outside the domain. */
  if (strcmp (op, "asin") == 0 || strcmp (op, "acos") == 0 || strcmp (op, "atanh") == 0)
    return fabs (x[0]) + e[0] > 1 && fabs (x[0]) - e[0] <= 1;
  if (strcmp (op, "tan") == 0)
    return floor ((x[0] - e[0]) / G_PI + 0.5) != floor ((x[0] + e[0]) / G_PI + 0.5);
  if (strcmp (op, "div") == 0 || strcmp (op, "mod") == 0)
    {
      double least = (fabs (x[0]) - e[0]) / (fabs (x[1]) + e[1]), greatest = (fabs (x[0]) + e[0]) / (fabs (x[1]) - e[1]);

      if (e[1] > 0 && fabs (x[1]) <= e[1])
        return TRUE;
      return op[0] == 'm' && e[0] + e[1] > 0 && isfinite (e[0] + e[1]) && !(least > 0 && floor (least) == floor (greatest));
    }
  /* A negative number can only be raised to an integer, and zero not to a negative number. */
  if (strcmp (op, "pow") == 0)
    return (x[0] - e[0] < 0 && e[1] > 0 && floor (x[1] + e[1]) >= ceil (x[1] - e[1])) ||
           (e[0] > 0 && fabs (x[0]) <= e[0] && x[1] - e[1] < 0);

  return FALSE;
}

static double
stated_bound (const RlxReferenceFunction *function,
              const RlxReferenceParams   *params,
              const double               *x,
              double                      y)
{
  if (!isfinite (y))
    return 0;

  return function->bound != NULL ? function->bound (x, params) : function->relative * fabs (y) + function->absolute;
}

/* The largest difference caused by the errors of the operands: evaluated at the ends of
 * their intervals, where monotonic functions have it, and half-way. The device's error at
 * such an end is as stated there: *@stated is raised to that. */
static double
propagate (const RlxReferenceFunction *function,
           const RlxReferenceParams   *params,
           const RlxReferenceCall     *call,
           const double               *x,
           const double               *e,
           double                      y,
           double                     *stated)
{
  double ends[MAX_OPERANDS][2], worst = 0;
  gsize n_ends[MAX_OPERANDS], n = 1;

  /* These are periodic, but nowhere steeper than their operand. */
  if (isfinite (e[0]) && isfinite (x[0]) && (strcmp (call->op, "sin") == 0 || strcmp (call->op, "cos") == 0))
    return fmin (e[0], 2);
  if (may_jump (function, call, x, e))
    return INFINITY;

  for (gsize j = 0; j < call->n_inputs; j++)
    {
      n_ends[j] = get_ends (call->inputs[j]->data_type, x[j], e[j], ends[j]);
      n *= n_ends[j];
    }

  for (gsize i = 0; i < n; i++)
    {
      double there[MAX_OPERANDS], between[MAX_OPERANDS], result;
      gsize rest = i;

      for (gsize j = 0; j < call->n_inputs; j++)
        {
          there[j] = ends[j][rest % n_ends[j]];
          between[j] = call->inputs[j]->data_type == RLX_DATA_TYPE_BOOL ? there[j] : (x[j] + there[j]) / 2;
          if (isinf (x[j]) && e[j] == 0)
            between[j] = x[j];
          rest /= n_ends[j];
        }
      result = function->f (there, params);
      worst = fmax (worst, distance (result, y));
      *stated = fmax (*stated, stated_bound (function, params, there, result));
      if (function->curved)
        worst = fmax (worst, distance (function->f (between, params), y));
    }

  return function->curved ? 2 * worst : worst;
}

/* Whether two numbers are equal is uncertain if their intervals overlap, even if their
 * ends differ. */
static gboolean
may_be_equal (const char   *op,
              const double *x,
              const double *e)
{
  if (strcmp (op, "equal") != 0 && strcmp (op, "not_equal") != 0)
    return FALSE;

  return e[0] + e[1] > 0 && !(fabs (x[0] - x[1]) > e[0] + e[1]);
}

/* A device may fuse multiplication and addition or not: this makes a difference if the
 * product overflows f32. */
static gboolean
may_overflow (const char   *op,
              const double *x)
{
  if (strcmp (op, "gated_residual") == 0)
    return may_overflow ("fma", (double[]) { x[1], x[2], x[0] });
  return strcmp (op, "fma") == 0 && isfinite (x[0]) && isfinite (x[1]) && fabs (x[0] * x[1]) >= FLT_MAX &&
         (x[0] * x[1] < 0) != (x[2] < 0);
}

/* The sign of a computed zero is unknown, and some functions depend on it. */
static gboolean
may_change_sign (const RlxReferenceCall *call,
                 const double           *x)
{
  const char *op = call->op;
  gsize divisor = strcmp (op, "div") == 0 ? 1 : 0;

  if (strcmp (op, "atan2") == 0)
    return x[0] == 0 && x[1] <= 0 && !(call->inputs[0]->leaf && call->inputs[1]->leaf);
  if (strcmp (op, "div") != 0 && strcmp (op, "reciprocal") != 0 && strcmp (op, "rsqrt") != 0 &&
      !(strcmp (op, "pow") == 0 && x[1] < 0))
    return FALSE;
  return x[divisor] == 0 && !call->inputs[divisor]->leaf;
}

/* Whether NaN arises only from the factors at @a and @b, the first of which is a zero
 * known to the compiler: it may replace that times NaN by 0. */
static gboolean
may_be_nothing (const RlxReferenceCall *call,
                const double           *x,
                gsize                   a,
                gsize                   b)
{
  for (gsize j = 0; j < call->n_inputs; j++)
    if (j != b && isnan (x[j]))
      return FALSE;
  return x[a] == 0 && !call->inputs[a]->leaf;
}

/* A compiler may replace a difference of equal terms by 0, and a quotient by 1, even for
 * infinities and NaN, and such a 0 times NaN by 0. */
static gboolean
may_cancel (const RlxReferenceCall *call,
            const double           *x,
            double                  y)
{
  static const char *const ops[] = { "add", "sub", "mul", "div", "fma", "gated_residual" };
  gboolean leaves = TRUE;
  gsize n = 0;

  for (gsize j = 0; j < call->n_inputs; j++)
    {
      n += isnan (x[j]) ? 1 : 0;
      leaves = leaves && call->inputs[j]->leaf && (j == 0 || call->inputs[j] != call->inputs[j - 1]);
    }
  for (gsize i = 0; isnan (y) && n != 1 && !leaves && i < G_N_ELEMENTS (ops); i++)
    if (strcmp (call->op, ops[i]) == 0)
      return TRUE;
  if (!isnan (y) || n != 1)
    return FALSE;
  if (strcmp (call->op, "div") == 0)
    return may_be_nothing (call, x, 0, 1);
  if (strcmp (call->op, "mul") == 0 || strcmp (call->op, "fma") == 0)
    return may_be_nothing (call, x, 0, 1) || may_be_nothing (call, x, 1, 0);
  return strcmp (call->op, "gated_residual") == 0 && (may_be_nothing (call, x, 1, 2) || may_be_nothing (call, x, 2, 1));
}

static void
get_params (RlxReferenceCall   *call,
            RlxReferenceParams *params)
{
  static const char *const first[] = { "alpha", "minimum" };
  static const char *const second[] = { "beta", "gamma", "maximum" };
  gboolean detect = FALSE;

  memset (params, 0, sizeof *params);
  params->type = call->inputs[call->n_inputs - 1]->data_type;
  params->to = call->output->data_type;
  for (gsize i = 0; i < G_N_ELEMENTS (first); i++)
    g_variant_lookup (call->attributes, first[i], "d", &params->p);
  for (gsize i = 0; i < G_N_ELEMENTS (second); i++)
    g_variant_lookup (call->attributes, second[i], "d", &params->q);
  if (rlx_reference_is_float (params->type))
    {
      params->p = (float) params->p;
      params->q = (float) params->q;
    }
  if (g_variant_lookup (call->attributes, "floor", "b", &detect) ||
      g_variant_lookup (call->attributes, "detect_negative", "b", &detect))
    params->flag = detect;
  if (g_variant_lookup (call->attributes, "detect_positive", "b", &detect))
    params->other_flag = detect;
}

/* A gate within its error of zero may be zero, and zero times infinity is not infinity. */
static gboolean
may_vanish (const RlxReferenceFunction *function,
            const RlxReferenceParams   *params,
            const char                 *op,
            const double               *x)
{
  const double alone[] = { x[0], 1 };
  double gate;

  if ((strcmp (op, "swiglu") != 0 && strcmp (op, "geglu") != 0) || !isinf (x[1]))
    return FALSE;
  gate = function->f (alone, params);
  return fabs (gate) <= stated_bound (function, params, alone, gate) + FLT_MIN;
}

static void
compute (const RlxReferenceFunction *function,
         const RlxReferenceParams   *params,
         const RlxReferenceCall     *call,
         const double               *x,
         const double               *e,
         double                     *value,
         double                     *bound)
{
  gboolean certain = TRUE;
  gboolean integers = !rlx_reference_is_float (params->type) && params->type != RLX_DATA_TYPE_BOOL;

  for (gsize j = 0; j < call->n_inputs; j++)
    certain = certain && e[j] == 0;

  if (integers && function->i != NULL)
    {
      gint64 numbers[MAX_OPERANDS];

      for (gsize j = 0; j < call->n_inputs; j++)
        numbers[j] = (gint64) x[j];
      *value = (double) rlx_reference_wrap (params->to, function->i (numbers, params));
      *bound = certain ? 0 : INFINITY;
      return;
    }

  *value = function->f (x, params);
  *bound = stated_bound (function, params, x, *value);
  if (!certain)
    {
      double change = propagate (function, params, call, x, e, *value, bound);

      *bound += change;
    }
  /* A device may flush a subnormal number in one place and not in another: compare it as
   * zero, and then copy it. */
  for (gsize j = 0; j < call->n_inputs; j++)
    if (e[j] > 0 && fabs (x[j]) < FLT_MIN)
      *bound += FLT_MIN;
  if (may_be_equal (call->op, x, e))
    *bound = 1;
  if (may_overflow (call->op, x) || may_vanish (function, params, call->op, x) || may_change_sign (call, x) ||
      may_cancel (call, x, *value))
    *bound = INFINITY;

  if (params->to == RLX_DATA_TYPE_BOOL)
    *bound = *bound > 0 ? 1 : 0;
  else if (!rlx_reference_is_float (params->to))
    *value = (double) rlx_reference_wrap (params->to, (gint64) *value);
}

void
rlx_reference_elementwise (RlxReferenceCall *call)
{
  const RlxReferenceFunction *function = rlx_reference_find_function (call->op);
  RlxReferenceValue *y = call->output;
  RlxReferenceParams params;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  g_return_if_fail (call->n_inputs > 0 && call->n_inputs <= MAX_OPERANDS);

  if (y->n_elements == 0)
    return;

  get_params (call, &params);
  do
    {
      double x[MAX_OPERANDS], e[MAX_OPERANDS];

      for (gsize j = 0; j < call->n_inputs; j++)
        {
          gsize position = rlx_reference_position (call->inputs[j], index, y->n_dims);

          x[j] = call->inputs[j]->values[position];
          e[j] = call->inputs[j]->bounds[position];
        }
      compute (function, &params, call, x, e, &y->values[at], &y->bounds[at]);
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

/* ---- cast ---------------------------------------------------------------------- */

/* Truncated and clamped to the range of the type. */
static double
saturate (double      x,
          RlxDataType to)
{
  gint64 least, greatest;

  if (isnan (x))
    return 0;
  rlx_reference_get_range (to, &least, &greatest);

  return fmin (fmax (trunc (x), (double) least), (double) greatest);
}

static double
cast (double      x,
      RlxDataType from,
      RlxDataType to)
{
  if (to == RLX_DATA_TYPE_BOOL)
    return x != 0;
  if (rlx_reference_is_float (to))
    return x;
  if (rlx_reference_is_float (from))
    return saturate (x, to);

  return (double) rlx_reference_wrap (to, (gint64) x);
}

void
rlx_reference_cast (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  RlxDataType from = x->data_type, to = y->data_type;

  for (gsize i = 0; i < y->n_elements; i++)
    {
      double ends[2];
      gsize n_ends = get_ends (from, x->values[i], x->bounds[i], ends);

      y->values[i] = cast (x->values[i], from, to);
      /* A 32-bit integer may have more digits than a float. */
      if (rlx_reference_is_float (to) && !rlx_reference_is_float (from))
        y->bounds[i] = fabs (y->values[i]) > 0x1p24 ? RLX_F32_EPSILON * fabs (y->values[i]) : 0;
      if (x->bounds[i] == 0)
        continue;

      if (!isfinite (x->bounds[i]))
        y->bounds[i] = INFINITY;
      for (gsize j = 0; j < n_ends; j++)
        y->bounds[i] = fmax (y->bounds[i], distance (cast (ends[j], from, to), y->values[i]));
      if (to == RLX_DATA_TYPE_BOOL && fabs (x->values[i]) <= x->bounds[i])
        y->bounds[i] = 1;
    }
}
