/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of batches whose factors are known become part of the known filter in front:
 * (Σ x · w + b - mean) · f + bias is Σ x · (w · f) + ((b - mean) · f + bias). The numbers
 * are computed in double precision, once for a model, and rounded once.
 */
#include "config.h"

#include "import/rlx-import-private.h"

#include <math.h>
#include <string.h>

#include "rlx-graph-private.h"
#include "rlx-tensor-private.h"

/* How the output channels are laid out in a filter. */
typedef struct
{
  gint64 before;    /* product of the sizes before the channel axis */
  gint64 channels;  /* size of that axis: output channels in a group */
  gint64 inner;     /* product of the sizes after it */
  gint64 groups;    /* @before is this number times the input channels in a group */
} Layout;

/* A scaled filter with its bias, and what it was made from. */
typedef struct
{
  RlxTensor *sources[6];   /* filter, its bias or NULL, scale, bias, mean, variance */
  double epsilon;
  Layout layout;
  RlxTensor *filter;       /* NULL if it has no precise result */
  RlxTensor *bias;
} Scaled;

static guint
scaled_hash (gconstpointer key)
{
  const Scaled *self = key;

  return g_direct_hash (self->sources[0]);
}

static gboolean
scaled_equal (gconstpointer a,
              gconstpointer b)
{
  const Scaled *self = a, *other = b;

  if (self->sources[0] != other->sources[0] || self->epsilon != other->epsilon || memcmp (&self->layout, &other->layout, sizeof self->layout) != 0)
    return FALSE;
  /* Factors that the host has computed are new in each import. */
  for (guint i = 1; i < G_N_ELEMENTS (self->sources); i++)
    if (self->sources[i] != other->sources[i] &&
        (self->sources[i] == NULL || other->sources[i] == NULL || !rlx_tensor_equal (self->sources[i], other->sources[i])))
      return FALSE;
  return TRUE;
}

static void
scaled_free (gpointer data)
{
  Scaled *self = data;

  for (guint i = 0; i < G_N_ELEMENTS (self->sources); i++)
    g_clear_object (&self->sources[i]);
  g_clear_object (&self->filter);
  g_clear_object (&self->bias);
  g_free (self);
}

/* ---- who reads a value ----------------------------------------------------------------------- */

static void
count_uses (RlxImport          *self,
            const RlxOnnxGraph *graph)
{
  RlxProtobufValue record;
  RlxOnnxPort port;

  for (guint i = 0; i < graph->n_nodes; i++)
    {
      g_autoptr(RlxOnnxNode) node = rlx_onnx_get_node (self->source->onnx, graph, i);

      for (guint j = 0; j < node->n_inputs; j++)
        g_hash_table_insert (self->uses, (gpointer) node->inputs[j],
                             GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (self->uses, node->inputs[j])) + 1));
      for (guint j = 0; j < node->n_attributes; j++)
        if (node->attributes[j].kind == RLX_ONNX_ATTRIBUTE_GRAPH && rlx_onnx_attribute_get_message (&node->attributes[j], &record))
          count_uses (self, rlx_onnx_get_graph (self->source->onnx, record.message));
    }
  for (const guint8 *at = graph->message; rlx_onnx_next (&at, RLX_ONNX_GRAPH_OUTPUT, &record);)
    {
      rlx_onnx_get_port (record.message, &port);
      g_hash_table_insert (self->uses, (gpointer) port.name, GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (self->uses, port.name)) + 1));
    }
}

/* Whether this call is the only user of its first input. In bodies and functions, names need not be unique. */
static gboolean
is_only_user (RlxMapCall *call)
{
  RlxImport *self = call->import;

  if (call->scope->parent != NULL || call->scope->function != NULL)
    return FALSE;
  if (g_hash_table_size (self->uses) == 0)
    count_uses (self, rlx_onnx_get_graph (self->source->onnx, self->source->onnx->body));
  return GPOINTER_TO_UINT (g_hash_table_lookup (self->uses, call->node->inputs[0])) == 1;
}

/* ---- numbers --------------------------------------------------------------------------------------- */

/* The elements of a constant of f32, or NULL. */
static RlxTensor *
get_constant (RlxNode *node)
{
  const RlxIrNode *ir = node != NULL && g_str_equal (rlx_node_get_op (node), "constant") ? rlx_node_get_value (node)->node : NULL;

  return ir != NULL && rlx_tensor_get_data_type (ir->data) == RLX_DATA_TYPE_F32 && rlx_tensor_fetch (ir->data, NULL, NULL) ? ir->data : NULL;
}

/* The same, for one with @n elements along one axis. */
static RlxTensor *
get_vector (RlxNode *node,
            gint64   n)
{
  RlxTensor *tensor = get_constant (node);
  const gint64 *shape;
  gsize n_dims;

  if (tensor == NULL)
    return NULL;
  shape = rlx_tensor_get_shape (tensor, &n_dims);
  return n_dims == 1 && shape[0] == n ? tensor : NULL;
}

static const float *
get_floats (RlxTensor *tensor)
{
  return (const float *) rlx_tensor_peek_data (tensor);
}

/* Rounds; FALSE if the result is infinite, or so small that precision may be lost. */
static gboolean
put (float *result,
     double number)
{
  *result = (float) number;
  return fabs (number) <= G_MAXFLOAT && (number == 0 || fabs (number) >= G_MINFLOAT);
}

static gboolean
scale_filter (Scaled *scaled)
{
  const Layout *layout = &scaled->layout;
  const float *filter = get_floats (scaled->sources[0]), *bias = scaled->sources[1] != NULL ? get_floats (scaled->sources[1]) : NULL;
  const float *scale = get_floats (scaled->sources[2]), *shift = get_floats (scaled->sources[3]), *mean = get_floats (scaled->sources[4]);
  const float *variance = get_floats (scaled->sources[5]);
  gint64 n = layout->channels * layout->groups, n_elements = (gint64) rlx_tensor_get_n_elements (scaled->sources[0]);
  g_autofree double *factors = g_new (double, (gsize) n + 1);
  g_autofree float *biases = g_new (float, (gsize) n + 1);
  float *values = g_try_new (float, (gsize) n_elements + 1);
  g_autoptr(GBytes) bytes = g_bytes_new_take (values, values != NULL ? (gsize) n_elements * sizeof *values : 0);
  gboolean ok = values != NULL;
  const gint64 *shape;
  gsize n_dims;

  for (gint64 i = 0; ok && i < n; i++)
    {
      factors[i] = scale[i] / sqrt (variance[i] + scaled->epsilon);
      ok = isfinite (factors[i]) && put (&biases[i], ((bias != NULL ? bias[i] : 0) - (double) mean[i]) * factors[i] + shift[i]);
    }
  for (gint64 i = 0; ok && i < layout->before; i++)
    for (gint64 j = 0; ok && j < layout->channels; j++)
      {
        double factor = factors[i / (layout->before / layout->groups) * layout->channels + j];
        gint64 at = (i * layout->channels + j) * layout->inner;

        for (gint64 k = at; ok && k < at + layout->inner; k++)
          ok = put (&values[k], filter[k] * factor);
      }
  if (!ok)
    return FALSE;
  shape = rlx_tensor_get_shape (scaled->sources[0], &n_dims);
  scaled->filter = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, n_dims, bytes, NULL);
  scaled->bias = rlx_tensor_new_from_floats (&n, 1, biases, (gsize) n, NULL);
  return scaled->filter != NULL && scaled->bias != NULL;
}

/* Shared by all sizes that a model is imported for, so that a device has the filter only once. */
static const Scaled *
get_scaled (RlxImport    *self,
            const Scaled *wanted)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->source->lock);
  Scaled *found;

  /* Entries stay until the model is freed, so they can be used without the lock. */
  if (self->source->scaled == NULL)
    self->source->scaled = g_hash_table_new_full (scaled_hash, scaled_equal, scaled_free, NULL);
  found = g_hash_table_lookup (self->source->scaled, wanted);
  if (found == NULL)
    {
      found = g_new0 (Scaled, 1);
      found->epsilon = wanted->epsilon;
      found->layout = wanted->layout;
      for (guint i = 0; i < G_N_ELEMENTS (found->sources); i++)
        g_set_object (&found->sources[i], wanted->sources[i]);
      if (!scale_filter (found))
        {
          g_clear_object (&found->filter);
          g_clear_object (&found->bias);
        }
      g_hash_table_add (self->source->scaled, found);
    }
  return found->filter != NULL ? found : NULL;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

/* The layout of the output channels in the filter of a node, if they lie along axis @axis of its @n_axes and there are @n of them. */
static gboolean
get_layout (const char *op,
            GVariant   *attributes,
            RlxTensor  *filter,
            gint64      axis,
            gsize       n_axes,
            gint64      n,
            Layout     *layout)
{
  g_autofree char *order = NULL, *place_of_channels = NULL;
  gboolean transposed = FALSE, swapped = FALSE, is_conv = g_str_equal (op, "conv"), is_product = g_str_equal (op, "matmul") || g_str_equal (op, "linear");
  gint64 groups = 1, all;
  double alpha = 1, beta = 1;
  const gint64 *shape;
  gsize n_dims, place;

  if (!is_conv && !is_product && !g_str_equal (op, "conv_transpose"))
    return FALSE;
  g_variant_lookup (attributes, "layout", "s", &place_of_channels);
  g_variant_lookup (attributes, "swapped", "b", &swapped);
  g_variant_lookup (attributes, "filter_layout", "s", &order);
  g_variant_lookup (attributes, "groups", "x", &groups);
  g_variant_lookup (attributes, "transpose_b", "b", &transposed);
  g_variant_lookup (attributes, "alpha", "d", &alpha);
  g_variant_lookup (attributes, "beta", "d", &beta);
  if (swapped || axis != (is_product || (place_of_channels != NULL && !g_str_equal (place_of_channels, "channels-first")) ? (gint64) n_axes - 1 : 1))
    return FALSE;
  shape = rlx_tensor_get_shape (filter, &n_dims);
  if ((order != NULL && !g_str_equal (order, is_conv ? "ois" : "ios")) || groups < 1 || n_dims < 2 || (is_product && n_dims != 2) || alpha != 1 || beta != 1)
    return FALSE;
  place = is_conv || transposed ? 0 : 1;
  *layout = (Layout) { .before = rlx_map_product (shape, 0, place), .channels = shape[place], .inner = rlx_map_product (shape, place + 1, n_dims), .groups = 1 };
  if (place == 1)
    layout->groups = groups;
  all = layout->channels * layout->groups;
  return all == n && layout->before > 0 && layout->before % layout->groups == 0;
}

RlxNode *
rlx_map_scale_filter (RlxMapCall *call,
                      RlxNode    *x,
                      RlxNode   **factors,
                      double      epsilon,
                      gint64      axis,
                      GError    **error)
{
  Scaled wanted = { .epsilon = epsilon };
  const Scaled *scaled;
  GVariant *attributes;
  RlxNode **operands, *inputs[3], *result;
  const char *op = rlx_node_get_op (x);
  const gint64 *shape;
  gsize n_operands, n_dims;

  operands = rlx_node_get_inputs (x, &n_operands);
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_operands < 2 || axis >= (gint64) n_dims || (wanted.sources[0] = get_constant (operands[1])) == NULL)
    return NULL;
  attributes = rlx_node_get_attributes (x);
  if (!get_layout (op, attributes, wanted.sources[0], axis, n_dims, shape[axis], &wanted.layout))
    return NULL;
  if (n_operands > 2 && operands[2] != NULL && (wanted.sources[1] = get_vector (operands[2], shape[axis])) == NULL)
    return NULL;
  for (guint i = 0; i < 4; i++)
    if ((wanted.sources[2 + i] = get_vector (factors[i], shape[axis])) == NULL)
      return NULL;
  scaled = is_only_user (call) ? get_scaled (call->import, &wanted) : NULL;
  if (scaled == NULL)
    return NULL;

  inputs[0] = operands[0];
  inputs[1] = rlx_map_constant (call, scaled->filter, error);
  inputs[2] = rlx_map_constant (call, scaled->bias, error);
  if (inputs[1] == NULL || inputs[2] == NULL)
    return NULL;
  if (!g_str_equal (op, "matmul"))
    return rlx_map_op (call, op, inputs, 3, attributes, error);
  result = rlx_map_op (call, op, inputs, 2, attributes, error);
  return result != NULL ? rlx_map_op2 (call, "add", result, inputs[2], NULL, error) : NULL;
}
