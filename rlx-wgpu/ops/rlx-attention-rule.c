/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The rules of attention.
 */
#include "config.h"

#include "ops/rlx-attention-private.h"

#include <math.h>

static gboolean
check_operand (const RlxOpCall     *call,
               const char          *name,
               const RlxTensorType *type,
               gint64               layout,
               GError             **error)
{
  g_autofree char *text = NULL;

  if (type->n_dims == 4)
    return TRUE;

  text = rlx_type_to_string (type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the %s must be [batch, %s, width]; it is %s",
                         name, layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? "heads, sequence" : "sequence, heads", text);
}

/* Two dimensions that must be the same. */
static gboolean
check_same (const RlxOpCall *call,
            const char      *what,
            guint            index_a,
            gint64           a,
            guint            index_b,
            gint64           b,
            GError         **error)
{
  static const char *const names[] = { "query", "key", "value" };
  g_autofree char *text_a = NULL;
  g_autofree char *text_b = NULL;

  if (a == b)
    return TRUE;

  text_a = rlx_type_to_string (call->inputs[index_a]);
  text_b = rlx_type_to_string (call->inputs[index_b]);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s of the %s %s and the %s %s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                         what, names[index_a], text_a, names[index_b], text_b, a, b);
}

static const RlxTensorType *
get_input (const RlxOpCall *call,
           guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

static gboolean
check_attributes (const RlxOpCall         *call,
                  const RlxAttentionAttrs *attrs,
                  GError                 **error)
{
  double scale = attrs->scale;
  double softcap = attrs->softcap;
  gint64 window = attrs->window;

  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g; it must be a finite 32-bit float", scale);
  if (!isfinite ((float) softcap) || softcap < 0 || (softcap > 0 && (float) softcap < 0x1p-126f))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "softcap is %g; it must be a finite 32-bit float above 0, or 0 for none", softcap);
  if (window < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "window is %" G_GINT64_FORMAT "; it must be at least 1, or 0 for none", window);
  return TRUE;
}

/* The operands besides query, key and value. */
static gboolean
check_extras (const RlxOpCall *call,
              const RlxHeads     *query,
              const RlxHeads     *key,
              GError         **error)
{
  const RlxTensorType *mask = get_input (call, RLX_ATTENTION_MASK);
  const RlxTensorType *lengths = get_input (call, RLX_ATTENTION_KEY_LENGTHS);
  const RlxTensorType *sink = get_input (call, RLX_ATTENTION_SINK);

  if (mask != NULL)
    {
      RlxTensorType scores = { .data_type = mask->data_type, .n_dims = 4, .shape = { query->batch, query->heads, query->sequence, key->sequence } };
      RlxTensorType joined = scores;

      if (!rlx_shape_broadcast (mask, &scores, &joined) || !rlx_type_same_shape (&joined, &scores))
        {
          g_autofree char *text = rlx_type_to_string (mask);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the mask %s does not broadcast to [batch, heads, queries, keys], "
                                 "[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                                 text, scores.shape[0], scores.shape[1], scores.shape[2], scores.shape[3]);
        }
    }
  if (lengths != NULL && (lengths->n_dims != 1 || lengths->shape[0] != query->batch))
    {
      g_autofree char *text = rlx_type_to_string (lengths);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the key lengths must be [%" G_GINT64_FORMAT "], one for each batch; they are %s", query->batch, text);
    }
  if (sink != NULL && (sink->n_dims != 1 || (sink->shape[0] != query->heads && sink->shape[0] != 1)))
    {
      g_autofree char *text = rlx_type_to_string (sink);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the sink must be [%" G_GINT64_FORMAT "], one for each head, or [1]; it is %s", query->heads, text);
    }
  return TRUE;
}

gboolean
rlx_attention_infer (RlxOpCall               *call,
                     const RlxAttentionAttrs *attrs,
                     GError                 **error)
{
  gint64 layout = attrs->layout;
  RlxTensorType type = *call->inputs[RLX_ATTENTION_SELF];
  RlxHeads query, key, value;

  if (!check_attributes (call, attrs, error) ||
      !check_operand (call, "query", call->inputs[RLX_ATTENTION_SELF], layout, error) ||
      !check_operand (call, "key", call->inputs[RLX_ATTENTION_KEY], layout, error) ||
      !check_operand (call, "value", call->inputs[RLX_ATTENTION_VALUE], layout, error))
    return FALSE;

  query = rlx_heads_get (call->inputs[RLX_ATTENTION_SELF], layout);
  key = rlx_heads_get (call->inputs[RLX_ATTENTION_KEY], layout);
  value = rlx_heads_get (call->inputs[RLX_ATTENTION_VALUE], layout);
  if (!check_same (call, "batches", RLX_ATTENTION_SELF, query.batch, RLX_ATTENTION_KEY, key.batch, error) ||
      !check_same (call, "batches", RLX_ATTENTION_KEY, key.batch, RLX_ATTENTION_VALUE, value.batch, error) ||
      !check_same (call, "heads", RLX_ATTENTION_KEY, key.heads, RLX_ATTENTION_VALUE, value.heads, error) ||
      !check_same (call, "sequences", RLX_ATTENTION_KEY, key.sequence, RLX_ATTENTION_VALUE, value.sequence, error) ||
      !check_same (call, "widths", RLX_ATTENTION_SELF, query.width, RLX_ATTENTION_KEY, key.width, error))
    return FALSE;

  if (key.heads == 0 || query.heads % key.heads != 0)
    {
      g_autofree char *text_query = rlx_type_to_string (call->inputs[RLX_ATTENTION_SELF]);
      g_autofree char *text_key = rlx_type_to_string (call->inputs[RLX_ATTENTION_KEY]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the %" G_GINT64_FORMAT " heads of the query %s are not a multiple of the %" G_GINT64_FORMAT " heads of the key %s",
                             query.heads, text_query, key.heads, text_key);
    }
  if (!check_extras (call, &query, &key, error))
    return FALSE;

  type.shape[3] = value.width;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_attention_backward_infer (RlxOpCall               *call,
                              const RlxAttentionAttrs *attrs,
                              GError                 **error)
{
  const RlxTensorType *inputs[6];
  g_autoptr(GArray) types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  RlxOpCall forward = *call;

  for (guint i = 0; i < G_N_ELEMENTS (inputs); i++)
    inputs[i] = get_input (call, i < RLX_ATTENTION_MASK ? i : i - RLX_ATTENTION_MASK + RLX_ATTENTION_BACKWARD_MASK);
  forward.inputs = inputs;
  forward.n_inputs = G_N_ELEMENTS (inputs);
  forward.outputs = types;
  if (!rlx_attention_infer (&forward, attrs, error))
    return FALSE;
  for (guint i = RLX_ATTENTION_BACKWARD_RESULT; i <= RLX_ATTENTION_BACKWARD_GRADIENT; i++)
    if (!rlx_type_equal (call->inputs[i], &g_array_index (types, RlxTensorType, 0)))
      {
        g_autofree char *got = rlx_type_to_string (call->inputs[i]), *text = rlx_type_to_string (&g_array_index (types, RlxTensorType, 0));

        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the %s is %s; it must be %s", call->op->inputs[i].name, got, text);
      }

  for (guint i = 0; i < 3; i++)
    rlx_call_add_output (call, call->inputs[i]);
  return TRUE;
}
