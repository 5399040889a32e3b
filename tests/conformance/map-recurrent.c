/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-recurrent.h"

#include <string.h>

#define MAX_ACTIVATIONS 3
#define MAX_INPUTS 9

/* ---- activations ---------------------------------------------------------------- */

typedef struct
{
  const char *name;    /* in the operator table */
  double alpha;
  double beta;
} Activation;

/* The kinds of activations, in the order of both specifications. */
static const char *const lstm_places[] = { "gate", "cell", "hidden" };
static const char *const gru_places[] = { "gate", "hidden" };
static const char *const rnn_places[] = { "hidden" };

static gsize
get_places (const char         *op,
            const char *const **places)
{
  if (g_str_has_prefix (op, "lstm"))
    {
      *places = lstm_places;
      return G_N_ELEMENTS (lstm_places);
    }
  if (g_str_has_prefix (op, "gru"))
    {
      *places = gru_places;
      return G_N_ELEMENTS (gru_places);
    }
  *places = rnn_places;
  return G_N_ELEMENTS (rnn_places);
}

static void
insert_activations (GVariantDict     *attrs,
                    const char       *op,
                    const Activation *activations)
{
  const char *const *places;
  gsize n = get_places (op, &places);

  for (gsize i = 0; i < n; i++)
    {
      g_autofree char *activation = g_strconcat (places[i], "_activation", NULL);
      g_autofree char *alpha = g_strconcat (places[i], "_alpha", NULL);
      g_autofree char *beta = g_strconcat (places[i], "_beta", NULL);

      g_variant_dict_insert (attrs, activation, "s", activations[i].name);
      g_variant_dict_insert (attrs, alpha, "d", activations[i].alpha);
      g_variant_dict_insert (attrs, beta, "d", activations[i].beta);
    }
}

/* A list of words; NULL without an error if it is absent. */
static char **
get_words (MapCall    *call,
           const char *name,
           GError    **error)
{
  JsonNode *list = map_arg (call, name);
  g_autoptr(GStrvBuilder) words = g_strv_builder_new ();

  if (list == NULL)
    return NULL;
  if (!JSON_NODE_HOLDS_ARRAY (list))
    {
      map_refused (error, "%s: argument “%s” is not a list", call->op->name, name);
      return NULL;
    }
  for (guint i = 0; i < json_array_get_length (json_node_get_array (list)); i++)
    {
      JsonNode *word = json_array_get_element (json_node_get_array (list), i);

      if (json_node_get_value_type (word) != G_TYPE_STRING)
        {
          map_refused (error, "%s: argument “%s” has something that is not a word", call->op->name, name);
          return NULL;
        }
      g_strv_builder_add (words, json_node_get_string (word));
    }
  return g_strv_builder_end (words);
}

/* Ends @attrs. */
static RlxNode **
add_op (MapCall      *call,
        RlxNode     **inputs,
        gsize         n_inputs,
        GVariantDict *attrs,
        gsize        *n_results,
        GError      **error)
{
  g_autoptr(GVariant) variant = g_variant_ref_sink (g_variant_dict_end (attrs));

  return rlx_graph_add_op (build_get_graph (call->build), call->mapping->op, inputs, n_inputs, variant, n_results, error);
}

/* ---- networks ----------------------------------------------------------------------- */

static gboolean
webnn_get_activations (MapCall      *call,
                       GVariantDict *attrs,
                       GError      **error)
{
  static const char *const names[] = { "relu", "sigmoid", "tanh", NULL };
  g_auto(GStrv) words = NULL;
  Activation activations[MAX_ACTIVATIONS];
  const char *const *places;
  gsize n = get_places (call->mapping->op, &places);

  if (map_arg (call, "activations") == NULL)
    return TRUE;
  words = get_words (call, "activations", error);
  if (words == NULL)
    return FALSE;
  if (g_strv_length (words) != n)
    return map_refused (error, "%s: there are %u activations instead of %" G_GSIZE_FORMAT, call->op->name,
                        g_strv_length (words), n);
  for (gsize i = 0; i < n; i++)
    {
      if (!g_strv_contains (names, words[i]))
        return map_refused (error, "%s: there is no activation “%s”", call->op->name, words[i]);
      activations[i] = (Activation) { words[i], 1, 0 };
    }
  insert_activations (attrs, call->mapping->op, activations);
  return TRUE;
}

/* A number that repeats the size of an axis. */
static gboolean
webnn_check_size (MapCall    *call,
                  const char *name,
                  RlxNode    *node,
                  gsize       axis,
                  GError    **error)
{
  gint64 value;
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  if (!map_arg_int (call, name, 0, &value, error))
    return FALSE;
  if (value < 1)
    return map_refused (error, "%s: %s is %" G_GINT64_FORMAT, call->op->name, name, value);
  if (axis < n_dims && shape[axis] != value)
    return map_refused (error, "%s: %s is %" G_GINT64_FORMAT ", the operand has %" G_GINT64_FORMAT, call->op->name, name,
                        value, shape[axis]);
  return TRUE;
}

gboolean
webnn_map_recurrent (MapCall *call,
                     GError **error)
{
  static const char *const lstm[] = {
    "input", "weight", "recurrentWeight", "bias", "recurrentBias", "peepholeWeight", "initialHiddenState", "initialCellState", NULL,
  };
  static const char *const gru[] = { "input", "weight", "recurrentWeight", "bias", "recurrentBias", "initialHiddenState", NULL };
  static const char *const lstm_cell[] = {
    "input", "weight", "recurrentWeight", "hiddenState", "cellState", "bias", "recurrentBias", "peepholeWeight", NULL,
  };
  static const char *const gru_cell[] = { "input", "weight", "recurrentWeight", "hiddenState", "bias", "recurrentBias", NULL };
  gboolean cell = g_str_has_suffix (call->mapping->op, "_cell");
  gboolean is_lstm = g_str_has_prefix (call->mapping->op, "lstm");
  const char *const *names = is_lstm ? (cell ? lstm_cell : lstm) : cell ? gru_cell : gru;
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  g_autofree RlxNode **results = NULL;
  RlxNode *inputs[MAX_INPUTS] = { NULL, };
  const char *layout, *direction;
  gboolean sequence, reset_after;
  g_autoptr(GError) local = NULL;
  gsize n, n_results;

  for (n = 0; names[n] != NULL; n++)
    {
      gboolean optional = strstr (names[n], "ias") != NULL || strstr (names[n], "initial") != NULL ||
                          strstr (names[n], "peephole") != NULL;

      inputs[n] = map_operand (call, names[n], optional, &local);
      if (local != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
    }

  if (!webnn_check_size (call, "hiddenSize", inputs[2], cell ? 1 : 2, error) ||
      (!cell && !webnn_check_size (call, "steps", inputs[0], 0, error)) ||
      !webnn_get_activations (call, &attrs, error) ||
      !map_arg_bool (call, "returnSequence", FALSE, &sequence, error) ||
      !map_arg_bool (call, "resetAfter", TRUE, &reset_after, error))
    return FALSE;
  layout = map_arg_string (call, "layout", error);
  direction = map_arg_string (call, "direction", error);
  if ((layout == NULL && map_arg (call, "layout") != NULL) || (direction == NULL && map_arg (call, "direction") != NULL))
    return FALSE;

  if (layout != NULL)
    g_variant_dict_insert (&attrs, "gate_order", "s", layout);
  if (!is_lstm)
    g_variant_dict_insert (&attrs, "reset_after", "b", reset_after);
  if (!cell)
    {
      g_variant_dict_insert (&attrs, "return_sequence", "b", sequence);
      if (direction != NULL)
        g_variant_dict_insert (&attrs, "direction", "s", direction);
    }

  results = add_op (call, inputs, n, &attrs, &n_results, error);
  if (results == NULL)
    return FALSE;
  for (guint i = 0; i < n_results; i++)
    if (map_wants_output (call, i) && !map_return (call, i, results[i]))
      return FALSE;
  return TRUE;
}
