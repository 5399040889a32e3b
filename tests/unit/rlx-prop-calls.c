/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What families of operators share, and graphs of their calls.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* ---- filling in calls ----------------------------------------------------------- */

void
add_input (Call         *call,
           PropKind      kind,
           RlxDataType   data_type,
           const gint64 *shape,
           gsize         n_dims)
{
  g_assert_cmpuint (call->n_inputs, <, MAX_OPERANDS);
  call->kinds[call->n_inputs] = kind;
  call->inputs[call->n_inputs++] = prop_tensor (call->rand, kind, data_type, shape, n_dims);
}

void
skip_input (Call *call)
{
  call->n_inputs++;
}

void
set_ints (Call         *call,
          const char   *name,
          const gint64 *values,
          gsize         n_values)
{
  g_variant_dict_insert_value (call->attributes, name, rlx_test_ints (n_values, values));
}

/* At most @most dimensions; few elements, and sometimes none. */
gsize
random_shape (Call   *call,
              gint64 *shape,
              gsize   least,
              gsize   most)
{
  gsize n_dims = (gsize) prop_pick (call->rand, (gint64) least, (gint64) most);
  gint64 n = 1;

  for (gsize i = 0; i < n_dims; i++)
    {
      shape[i] = prop_size (call->rand, MAX (1, MIN (130, 3000 / n)));
      n *= shape[i];
    }
  if (n_dims > 0 && call->variant % 5 == 4)
    shape[prop_pick (call->rand, 0, (gint64) n_dims - 1)] = 0;

  return n_dims;
}

gint64
random_axis (Call *call,
             gsize n_dims)
{
  return prop_pick (call->rand, -(gint64) n_dims, (gint64) n_dims - 1);
}

/* Some distinct axes, in any order and counted from either end. */
gsize
random_axes (Call   *call,
             gsize   n_dims,
             gint64 *axes)
{
  gsize n = 0;

  for (gsize i = 0; i < n_dims; i++)
    {
      gsize at = (gsize) prop_pick (call->rand, 0, (gint64) n);

      if (prop_chance (call->rand, 0.4))
        continue;
      for (gsize j = n; j > at; j--)
        axes[j] = axes[j - 1];
      axes[at] = (gint64) i - (prop_chance (call->rand, 0.5) ? (gint64) n_dims : 0);
      n++;
    }

  return n;
}

/* A shape that broadcasts to @shape. */
gsize
random_part (Call         *call,
             const gint64 *shape,
             gsize         n_dims,
             gint64       *part)
{
  gsize missing = prop_chance (call->rand, 0.4) ? (gsize) prop_pick (call->rand, 0, (gint64) n_dims) : 0;

  for (gsize i = missing; i < n_dims; i++)
    part[i - missing] = prop_chance (call->rand, 0.35) ? 1 : shape[i];

  return n_dims - missing;
}

/* ---- the tables -------------------------------------------------------------------- */

static const PropRow *const tables[] = {
  prop_attention_rows,
  prop_complex_rows,
  prop_contract_rows,
  prop_elementwise_rows,
  prop_fourier_rows,
  prop_index_rows,
  prop_linear_rows,
  prop_neighbours_rows,
  prop_norms_rows,
  prop_packed_rows,
  prop_quantize_rows,
  prop_recurrent_rows,
  prop_rows_loss,
  prop_rows_rows,
  prop_sequence_rows,
  prop_shape_rows,
  prop_signal_rows,
  prop_solve_rows,
  prop_sort_rows,
  prop_window_rows,
};

Generator
find_generator (const RlxOp *op)
{
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const PropRow *row = tables[i]; row->op != NULL; row++)
      if (g_str_equal (row->op, op->name))
        return row->generator;

  return op->flags & RLX_OP_ELEMENTWISE ? generate_elementwise : NULL;
}

/* ---- graphs of calls ----------------------------------------------------------------------------------- */


/* As the operator table says: "kept", or "kept by" and values of an attribute. */
gboolean
keeps_subnormals (const RlxOp *op,
                  GVariant    *attributes)
{
  g_auto (GStrv) words = NULL;
  GVariantIter iter;
  const char *name;
  GVariant *value;
  gboolean kept = FALSE;

  if (op->subnormals == NULL || !g_str_has_prefix (op->subnormals, "kept by "))
    return g_strcmp0 (op->subnormals, "kept") == 0;

  words = g_strsplit_set (op->subnormals, ", ", -1);
  g_variant_iter_init (&iter, attributes);
  while (g_variant_iter_next (&iter, "{&sv}", &name, &value))
    {
      kept = kept || (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) &&
                      g_strv_contains ((const char *const *) words, g_variant_get_string (value, NULL)));
      g_variant_unref (value);
    }

  return kept;
}

gboolean
add_call (Build *build,
          Call  *call)
{
  g_autofree char *output = g_strdup_printf ("y%u", call->variant);
  g_autoptr (GVariant) attributes = g_variant_ref_sink (g_variant_dict_end (call->attributes));
  g_autofree char *printed = g_variant_print (attributes, FALSE);
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *nodes[MAX_OPERANDS] = { NULL, };
  GString *text = g_string_new (call->op->name);
  gboolean keep;
  gsize n_results;

  for (gsize i = 0; i < call->n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u_%" G_GSIZE_FORMAT, call->variant, i);
      g_autofree char *type = NULL;
      const gint64 *shape;
      gsize n_dims;

      if (call->inputs[i] == NULL)
        {
          g_string_append (text, " -");
          continue;
        }
      shape = rlx_tensor_get_shape (call->inputs[i], &n_dims);
      type = prop_type_text (rlx_tensor_get_data_type (call->inputs[i]), shape, n_dims);
      g_string_append_printf (text, " %s", type);
      if (call->constants >> i & 1)
        {
          nodes[i] = rlx_graph_constant (build->graph, call->inputs[i], &error);
        }
      else
        {
          nodes[i] = rlx_graph_input (build->graph, name, rlx_tensor_get_data_type (call->inputs[i]), shape, n_dims, &error);
          g_ptr_array_add (build->feeds, g_object_ref (call->inputs[i]));
          if (build->kinds != NULL)
            g_array_append_val (build->kinds, call->kinds[i]);
        }
      g_assert_no_error (error);
    }
  g_string_append_printf (text, " %s", printed);
  g_ptr_array_add (build->texts, g_string_free (text, FALSE));

  results = rlx_graph_add_op (build->graph, call->op->name, nodes, call->n_inputs, attributes, &n_results, &error);
  if (error != NULL)
    {
      g_test_message ("%s: %s", (char *) g_ptr_array_index (build->texts, build->texts->len - 1), error->message);
      g_test_fail ();
      return FALSE;
    }
  keep = keeps_subnormals (call->op, attributes);
  for (gsize i = 0; i < n_results && build->keep != NULL; i++)
    g_array_append_val (build->keep, keep);
  rlx_graph_output (build->graph, output, results[0], NULL);
  for (gsize i = 1; i < n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("%s_%" G_GSIZE_FORMAT, output, i);

      rlx_graph_output (build->graph, name, results[i], NULL);
      g_ptr_array_add (build->texts, g_strdup_printf ("%s, result %" G_GSIZE_FORMAT,
                                                      (char *) g_ptr_array_index (build->texts, build->texts->len - 1), i));
    }

  return TRUE;
}

/* The first operand whose type can vary, which excludes a condition. */
guint
get_types (const RlxOp *op)
{
  for (guint i = 0; i < op->n_inputs; i++)
    if (op->inputs[i].types != RLX_TYPES_BOOL)
      return op->inputs[i].types;

  return RLX_TYPES_BOOL;
}

/* Whether a call is included: see above. The first one of a type always is. */
gboolean
is_drawn (const RlxOp *op,
          RlxDataType  data_type,
          guint        variant)
{
  /* Its variants are the target types. */
  if (g_str_equal (op->name, "cast") || g_getenv ("RLX_TEST_FULL") != NULL)
    return TRUE;

  if (variant == 0 || (get_types (op) & ((1u << data_type) - 1)) == 0)
    return TRUE;
  /* On the device these have 32 bits, like others. */
  if (data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_U64)
    return FALSE;

  return (variant + data_type) % 4 == 0;
}

gboolean
add_next_call (Build       *build,
               const RlxOp *op,
               Generator    generator,
               RlxDataType  data_type,
               guint        variant,
               GRand       *rand)
{
  g_autoptr (GVariantDict) attributes = g_variant_dict_new (NULL);
  Call call = { .op = op, .data_type = data_type, .rand = rand, .variant = variant, .attributes = attributes };
  gboolean more = generator (&call) && (!is_drawn (op, data_type, variant) || add_call (build, &call));

  for (gsize i = 0; i < call.n_inputs; i++)
    g_clear_object (&call.inputs[i]);
  return more;
}

void
add_calls (Build       *build,
           const RlxOp *op,
           Generator    generator,
           RlxDataType  data_type,
           GRand       *rand)
{
  for (guint variant = 0; add_next_call (build, op, generator, data_type, variant, rand);)
    variant++;
}
