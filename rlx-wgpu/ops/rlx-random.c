/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-sort-private.h"

#include <math.h>

/* As in kernels/random.wgsl. */
typedef enum
{
  MODE_BITS,
  MODE_UNIFORM,
  MODE_NORMAL,
  MODE_DROPOUT,
} Mode;

/* ---- keys and counters ------------------------------------------------------------- */

static gboolean
check_key (const RlxOpCall *call,
           guint            input,
           const RlxInts   *counter,
           GError         **error)
{
  const RlxTensorType *key = call->inputs[input];
  guint64 n = rlx_type_n_elements (key);

  if (n != 1 && n != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the key has %" G_GUINT64_FORMAT " elements, not 1 or 2", n);
  if (counter->n_values > 4)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "counter has %u words; there are at most 4", counter->n_values);
  for (guint i = 0; i < counter->n_values; i++)
    if (counter->values[i] < 0 || counter->values[i] > G_MAXUINT32)
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "word %u of counter is %" G_GINT64_FORMAT "; it can be 0 to %u", i, counter->values[i], G_MAXUINT32);

  return TRUE;
}

/* Adds what kernels/common/philox.wgsl needs. */
static void
add_key (RlxKernel        *kernel,
         const RlxIrValue *key,
         const RlxInts    *counter)
{
  rlx_kernel_input (kernel, "key", key);
  rlx_kernel_define (kernel, "KEYS", (gint64) rlx_type_n_elements (&key->type));
  for (guint i = 0; i < 4; i++)
    {
      char name[16];

      g_snprintf (name, sizeof name, "counter%u", i);
      rlx_kernel_param_u32 (kernel, name, i < counter->n_values ? (guint64) counter->values[i] : 0);
    }
}

static gboolean
check_finite (const RlxOpCall *call,
              const char      *name,
              double           value,
              GError         **error)
{
  if (!isfinite ((float) value))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s is %g; it must be finite in f32", name, value);

  return TRUE;
}

static gboolean
check_range (const RlxOpCall *call,
             const char      *name,
             double           value,
             double           least,
             double           most,
             GError         **error)
{
  if (!(value >= least && value <= most))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s is %g; it can be %g to %g", name, value, least, most);

  return TRUE;
}

/* ---- random numbers ------------------------------------------------------------------- */

static Mode
get_mode (const RlxOp *op)
{
  switch (op->id)
    {
    case RLX_OP_ID_RANDOM_UNIFORM:
      return MODE_UNIFORM;
    case RLX_OP_ID_RANDOM_NORMAL:
      return MODE_NORMAL;
    case RLX_OP_ID_DROPOUT:
      return MODE_DROPOUT;
    case RLX_OP_ID_RANDOM_BITS:
    default:
      return MODE_BITS;
    }
}

gboolean
rlx_random_infer (RlxOpCall            *call,
                  const RlxRandomAttrs *attrs,
                  GError              **error)
{
  const RlxInts *shape = &attrs->shape;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_U32, .n_dims = shape->n_values };
  Mode mode = get_mode (call->op);

  if (!check_key (call, 0, &attrs->counter, error))
    return FALSE;
  if (shape->n_values > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "shape has %u dimensions; there are at most %d", shape->n_values, RLX_MAX_DIMS);
  for (guint i = 0; i < shape->n_values; i++)
    {
      if (shape->values[i] < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "dimension %u of shape is %" G_GINT64_FORMAT, i, shape->values[i]);
      type.shape[i] = shape->values[i];
    }

  if (mode != MODE_BITS)
    {
      type.data_type = attrs->data_type;
      if (!rlx_data_type_is_float (type.data_type))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                               "data_type is %s; it can be f32 or f16", rlx_data_type_to_string (type.data_type));
    }
  if (mode == MODE_UNIFORM)
    {
      double low = attrs->low, high = attrs->high;

      if (!check_finite (call, "low", attrs->low, error) || !check_finite (call, "high", attrs->high, error))
        return FALSE;
      if (low > high || !isfinite ((float) (high - low)))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "low is %g, high is %g: that is not a range of f32", low, high);
    }
  if (mode == MODE_NORMAL &&
      (!check_finite (call, "mean", attrs->mean, error) || !check_finite (call, "scale", attrs->scale, error)))
    return FALSE;

  rlx_call_add_output (call, &type);
  return TRUE;
}

static gboolean
lower_random (RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxIrValue *key,
              GError          **error)
{
  const RlxRandomAttrs *attrs = rlx_random_attrs (node);
  const RlxIrValue *y = &node->outputs[0];
  guint64 n = rlx_type_n_elements (&y->type);
  guint64 blocks = (n + 3) / 4, groups = (blocks + 63) / 64;
  Mode mode = get_mode (node->op);
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "random");
  add_key (kernel, key, &attrs->counter);
  rlx_kernel_output (kernel, "y", y);
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_param_u32 (kernel, "n", n);
  if (mode == MODE_UNIFORM)
    {
      rlx_kernel_param_f32 (kernel, "low", attrs->low);
      rlx_kernel_param_f32 (kernel, "width", attrs->high - attrs->low);
    }
  else if (mode == MODE_NORMAL)
    {
      rlx_kernel_param_f32 (kernel, "mean", attrs->mean);
      rlx_kernel_param_f32 (kernel, "scale", attrs->scale);
    }
  else if (mode == MODE_DROPOUT)
    {
      rlx_kernel_input (kernel, "x", node->inputs[0]);
      rlx_kernel_param_u32 (kernel, "threshold", (guint64) (attrs->ratio * 0x1p32));
      rlx_kernel_param_f32 (kernel, "scale", 1 / (1 - attrs->ratio));
    }
  rlx_kernel_set_cost (kernel, 100.0 * blocks, 8.0 * n);

  return rlx_kernel_dispatch (kernel, groups, error);
}

gboolean
rlx_random_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  return lower_random (lower, node, node->inputs[0], error);
}

gboolean
rlx_dropout_infer (RlxOpCall            *call,
                   const RlxRandomAttrs *attrs,
                   GError              **error)
{
  double ratio = attrs->ratio;

  if (!check_key (call, RLX_DROPOUT_KEY, &attrs->counter, error))
    return FALSE;
  if (!(ratio >= 0 && ratio < 1) || !isfinite ((float) (1 / (1 - ratio))))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "ratio is %g; it must be at least 0 and less than 1", ratio);

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_dropout_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  return lower_random (lower, node, node->inputs[RLX_DROPOUT_KEY], error);
}

/* ---- sampling --------------------------------------------------------------------------- */

gboolean
rlx_sample_infer (RlxOpCall            *call,
                  const RlxSampleAttrs *attrs,
                  GError              **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = *x;
  gint64 top_k = attrs->top_k;

  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "logits have no dimensions");
  if (x->shape[x->n_dims - 1] == 0 || x->shape[x->n_dims - 1] > G_MAXINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the last axis has %" G_GINT64_FORMAT " tokens; there can be 1 to %d", x->shape[x->n_dims - 1], G_MAXINT32);
  if (!check_key (call, RLX_SAMPLE_KEY, &attrs->counter, error) ||
      !check_range (call, "temperature", attrs->temperature, 0, 1e30, error) ||
      !check_range (call, "top_p", attrs->top_p, 0, 1, error) ||
      !check_range (call, "min_p", attrs->min_p, 0, 1, error))
    return FALSE;
  if (top_k < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "top_k is %" G_GINT64_FORMAT "; it cannot be negative", top_k);

  type.data_type = RLX_DATA_TYPE_I32;
  type.n_dims--;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* A step of kernels/sample.wgsl over @n elements. */
static RlxKernel *
sample_new (RlxLower        *lower,
            const RlxIrNode *node,
            guint            mode,
            const RlxAxis   *axis,
            guint64          n,
            guint64         *groups)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "sample");

  *groups = (n + 63) / 64;
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_define (kernel, "MIN_P", 0);
  rlx_kernel_param_u32 (kernel, "groups", *groups);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "columns", axis->length);

  return kernel;
}

gboolean
rlx_sample_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxSampleAttrs *attrs = rlx_sample_attrs (node);
  const RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  double temperature = attrs->temperature;
  double top_p = attrs->top_p, min_p = attrs->min_p;
  guint64 top_k = (guint64) attrs->top_k;
  const RlxIrValue *indices = NULL, *place = NULL, *sums = NULL, *scores;
  guint64 tokens, n, groups;
  gboolean sorted;
  RlxKernel *kernel;
  RlxAxis axis;

  rlx_axis_init (&axis, &x->type, x->type.n_dims - 1);
  tokens = axis.length;
  if (axis.n_rows == 0)
    return TRUE;
  /* Its inverse must be representable as f32. */
  if (temperature < 1e-30 || top_k == 1)
    return rlx_lower_arg (lower, node, x, &axis, FALSE, FALSE, y, error);

  if (top_k >= tokens)
    top_k = 0;
  sorted = top_k > 0 || top_p < 1;
  if (sorted)
    {
      guint64 keep = top_k > 0 ? top_k : tokens;
      const RlxIrValue *values = rlx_axis_temporary (lower, x->type.data_type, &axis, keep);

      indices = rlx_axis_temporary (lower, RLX_DATA_TYPE_I32, &axis, keep);
      if (!rlx_lower_sort (lower, node, x, &axis, TRUE, keep, values, indices, error))
        return FALSE;
      x = values;
      axis.length = keep;
    }
  else
    {
      place = rlx_axis_temporary (lower, RLX_DATA_TYPE_I32, &axis, 1);
      if (!rlx_lower_arg (lower, node, x, &axis, FALSE, FALSE, place, error))
        return FALSE;
    }
  n = axis.n_rows * axis.length;

  if (top_p < 1)
    {
      const RlxIrValue *weights = rlx_axis_temporary (lower, RLX_DATA_TYPE_F32, &axis, axis.length);

      kernel = sample_new (lower, node, 0, &axis, n, &groups);
      rlx_kernel_define (kernel, "SORTED", 1);
      rlx_kernel_input (kernel, "x", x);
      rlx_kernel_output (kernel, "y", weights);
      rlx_kernel_param_f32 (kernel, "inverse_temperature", 1 / temperature);
      sums = rlx_axis_temporary (lower, RLX_DATA_TYPE_F32, &axis, axis.length);
      if (!rlx_kernel_dispatch (kernel, groups, error) ||
          !rlx_lower_scan (lower, node, weights, &axis, RLX_SCAN_SUM, FALSE, FALSE, sums, error))
        return FALSE;
    }

  kernel = sample_new (lower, node, 1, &axis, n, &groups);
  rlx_kernel_define (kernel, "SORTED", sorted);
  rlx_kernel_define (kernel, "MIN_P", min_p > 0);
  rlx_kernel_define (kernel, "TOP_P", top_p < 1);
  rlx_kernel_input (kernel, "x", x);
  if (sorted)
    rlx_kernel_input (kernel, "indices", indices);
  else
    rlx_kernel_input (kernel, "place", place);
  if (top_p < 1)
    {
      rlx_kernel_input (kernel, "sums", sums);
      rlx_kernel_param_f32 (kernel, "top_p", top_p);
    }
  if (min_p > 0)
    rlx_kernel_param_f32 (kernel, "min_p", min_p);
  add_key (kernel, node->inputs[RLX_SAMPLE_KEY], &attrs->counter);
  rlx_kernel_param_u32 (kernel, "tokens", tokens);
  rlx_kernel_param_f32 (kernel, "inverse_temperature", 1 / temperature);
  scores = rlx_axis_temporary (lower, RLX_DATA_TYPE_F32, &axis, axis.length);
  rlx_kernel_output (kernel, "y", scores);
  rlx_kernel_set_cost (kernel, 200.0 * n, 12.0 * n);
  if (!rlx_kernel_dispatch (kernel, groups, error))
    return FALSE;

  if (!sorted)
    return rlx_lower_arg (lower, node, scores, &axis, FALSE, FALSE, y, error);

  place = rlx_axis_temporary (lower, RLX_DATA_TYPE_I32, &axis, 1);
  if (!rlx_lower_arg (lower, node, scores, &axis, FALSE, FALSE, place, error))
    return FALSE;
  kernel = sample_new (lower, node, 2, &axis, axis.n_rows, &groups);
  rlx_kernel_define (kernel, "SORTED", 1);
  rlx_kernel_input (kernel, "indices", indices);
  rlx_kernel_input (kernel, "place", place);
  rlx_kernel_output (kernel, "y", y);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* The gradient drops the same elements. */
void
rlx_dropout_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_build_dropout (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                      node->inputs[RLX_DROPOUT_KEY], rlx_random_attrs (node)));
}
