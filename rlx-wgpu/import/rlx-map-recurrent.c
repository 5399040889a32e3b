/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <string.h>

#define MAX_ACTIVATIONS 3
#define MAX_INPUTS 9

/* ---- activations ---------------------------------------------------------------- */

typedef struct
{
  const char *name;    /* of the op table */
  double alpha;
  double beta;
} Activation;

/* The attributes that name the activations, in the order in which both specifications list them. */
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

/* Ends @attrs. */
static RlxNode **
add_op (RlxMapCall   *call,
        RlxNode     **inputs,
        gsize         n_inputs,
        GVariantDict *attrs,
        gsize        *n_results,
        GError      **error)
{
  g_autoptr(GVariant) variant = g_variant_ref_sink (g_variant_dict_end (attrs));

  return rlx_map_add_op (call, call->row->op, inputs, n_inputs, variant, n_results, error);
}

/* ONNX compares names without regard to case. Each function takes alpha and beta from the lists if it has them. */
static const struct
{
  const char *foreign;
  const char *name;
  guint n_numbers;
  double alpha;
  double beta;
} onnx_activations[] = {
  { "Affine", "affine", 2, 1, 0 },
  { "Elu", "elu", 1, 1, 0 },
  { "HardSigmoid", "hard-sigmoid", 2, 0.2, 0.5 },
  { "LeakyRelu", "leaky-relu", 1, 0.01, 0 },
  { "Relu", "relu", 0, 1, 0 },
  { "ScaledTanh", "scaled-tanh", 2, 1, 1 },
  { "Sigmoid", "sigmoid", 0, 1, 0 },
  { "Softplus", "softplus", 0, 1, 0 },
  { "Softsign", "softsign", 0, 1, 0 },
  { "Tanh", "tanh", 0, 1, 0 },
  { "ThresholdedRelu", "thresholded-relu", 1, 1, 0 },
};

static gboolean
onnx_next_number (RlxMapCall *call,
                  const char *name,
                  guint      *used,
                  double     *value,
                  GError    **error)
{
  gsize n = 0;
  g_autofree float *list = NULL;

  if (rlx_map_arg (call, name) == NULL)
    return TRUE;
  list = rlx_map_arg_floats (call, name, &n, error);
  if (list == NULL)
    return FALSE;
  if (*used < n)
    *value = (double) list[(*used)++];
  return TRUE;
}

static gboolean
onnx_get_activations (RlxMapCall *call,
                      gsize       n_directions,
                      Activation *activations,
                      gboolean   *given,
                      GError    **error)
{
  g_autoptr(GPtrArray) words = NULL;
  const char *const *places;
  gsize n = get_places (call->row->op, &places);
  guint n_alpha = 0, n_beta = 0;

  *given = FALSE;
  if (rlx_map_arg (call, "activations") == NULL)
    return TRUE;
  words = rlx_map_arg_strings (call, "activations", error);
  if (words == NULL)
    return FALSE;
  if (words->len == 0)
    return TRUE;
  /* One list for both directions is accepted, too. */
  if (words->len != n * n_directions && words->len != n)
    return rlx_map_refused (error, "%s: there are %u activations", call->node->op, words->len);

  for (gsize i = 0; i < n * n_directions; i++)
    {
      const char *word = words->pdata[i % words->len];
      gsize k = 0;

      while (k < G_N_ELEMENTS (onnx_activations) && g_ascii_strcasecmp (word, onnx_activations[k].foreign) != 0)
        k++;
      if (k == G_N_ELEMENTS (onnx_activations))
        return rlx_map_refused (error, "%s: there is no activation “%s”", call->node->op, word);
      activations[i] = (Activation) { onnx_activations[k].name, onnx_activations[k].alpha, onnx_activations[k].beta };
      if (i >= words->len)
        activations[i] = activations[i - n];
      else if ((onnx_activations[k].n_numbers > 0 &&
                !onnx_next_number (call, "activation_alpha", &n_alpha, &activations[i].alpha, error)) ||
               (onnx_activations[k].n_numbers > 1 &&
                !onnx_next_number (call, "activation_beta", &n_beta, &activations[i].beta, error)))
        return FALSE;
    }
  *given = TRUE;
  return TRUE;
}

/* Elements @start to @start + @size - 1 of an axis; NULL stays NULL. */
static gboolean
cut (RlxMapCall *call,
     RlxNode   **node,
     gint64      axis,
     gint64      start,
     gint64      size,
     GError    **error)
{
  gint64 end = start + size;
  gsize n_dims;
  const gint64 *shape;

  if (*node == NULL)
    return TRUE;
  shape = rlx_node_get_shape (*node, &n_dims);
  if ((gsize) axis >= n_dims || end > shape[axis])
    return rlx_map_refused (error, "%s: an operand is too short", call->node->op);
  *node = rlx_map_op1 (call, "slice", *node,
                       rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&end, 1), "axes", rlx_map_ints (&axis, 1), NULL),
                       error);
  return *node != NULL;
}

/* B has the biases of operand and state concatenated. */
static gboolean
onnx_split_bias (RlxMapCall *call,
                 RlxNode   **bias,
                 RlxNode   **recurrent_bias,
                 GError    **error)
{
  gsize n_dims;
  const gint64 *shape;

  *recurrent_bias = *bias;
  if (*bias == NULL)
    return TRUE;
  shape = rlx_node_get_shape (*bias, &n_dims);
  if (n_dims != 2 || shape[1] % 2 != 0)
    return rlx_map_refused (error, "%s: B cannot be divided in two", call->node->op);
  return cut (call, recurrent_bias, 1, shape[1] / 2, shape[1] / 2, error) &&
         cut (call, bias, 1, 0, shape[1] / 2, error);
}

/* Positions of operands; W to C have values for each direction. */
enum { X, W, R, B, RB, P, H, C, LENGTHS, N_PLACES };

static RlxNode **
onnx_add_op (RlxMapCall       *call,
             RlxNode *const   *operands,
             GVariant         *common,
             const char       *direction,
             const Activation *activations,
             gsize            *n_results,
             GError          **error)
{
  static const int lstm[] = { X, W, R, B, RB, P, H, C, LENGTHS };
  static const int others[] = { X, W, R, B, RB, H, LENGTHS };
  gboolean is_lstm = g_str_equal (call->row->op, "lstm");
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (common);
  RlxNode *inputs[N_PLACES];
  gsize n = is_lstm ? G_N_ELEMENTS (lstm) : G_N_ELEMENTS (others);

  for (gsize i = 0; i < n; i++)
    inputs[i] = operands[is_lstm ? lstm[i] : others[i]];
  g_variant_dict_insert (&attrs, "direction", "s", direction);
  if (activations != NULL)
    insert_activations (&attrs, call->row->op, activations);
  return add_op (call, inputs, n, &attrs, n_results, error);
}

/* Adds each direction separately, as their activations differ. */
static RlxNode **
onnx_add_both (RlxMapCall       *call,
               RlxNode *const   *operands,
               GVariant         *common,
               gboolean          batch_first,
               const Activation *activations,
               gsize             n_activations,
               gsize            *n_results,
               GError          **error)
{
  static const char *const directions[] = { "forward", "backward" };
  g_autofree RlxNode **parts[2] = { NULL, NULL };
  RlxNode **results;

  for (gint64 d = 0; d < 2; d++)
    {
      RlxNode *own[N_PLACES];

      memcpy (own, operands, sizeof own);
      for (guint i = W; i <= P; i++)
        if (!cut (call, &own[i], 0, d, 1, error))
          return NULL;
      if (!cut (call, &own[H], batch_first ? 1 : 0, d, 1, error) || !cut (call, &own[C], batch_first ? 1 : 0, d, 1, error))
        return NULL;
      parts[d] = onnx_add_op (call, own, common, directions[d], activations + (gsize) d * n_activations, n_results, error);
      if (parts[d] == NULL)
        return NULL;
    }

  results = g_new0 (RlxNode *, *n_results);
  for (gsize i = 0; i < *n_results; i++)
    {
      RlxNode *both[] = { parts[0][i], parts[1][i] };
      gint64 axis = (gint64) rlx_node_get_n_dims (both[0]) - (batch_first ? 2 : 3);

      results[i] = rlx_map_op (call, "concat", both, 2, rlx_map_attrs ("axis", g_variant_new_int64 (axis), NULL), error);
      if (results[i] == NULL)
        {
          g_free (results);
          return NULL;
        }
    }
  return results;
}

static gboolean
onnx_get_operands (RlxMapCall *call,
                   RlxNode   **operands,
                   GError    **error)
{
  static const int places[] = { X, W, R, B, LENGTHS, H, C, P };
  gboolean is_lstm = g_str_equal (call->row->op, "lstm");

  for (guint i = 0; i < (is_lstm ? G_N_ELEMENTS (places) : 6); i++)
    if ((i < 3 || rlx_map_has_input (call, i)) && (operands[places[i]] = rlx_map_input (call, i, FALSE, error)) == NULL)
      return FALSE;
  return onnx_split_bias (call, &operands[B], &operands[RB], error);
}

gboolean
rlx_onnx_map_recurrent (RlxMapCall *call,
                        GError    **error)
{
  gboolean is_lstm = g_str_equal (call->row->op, "lstm");
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) common = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *operands[N_PLACES] = { NULL, };
  Activation activations[2 * MAX_ACTIVATIONS];
  const char *const *places;
  gsize n_activations = get_places (call->row->op, &places), n_results, n_dims;
  gboolean input_forget, reset_after, given, both, batch_first;
  const char *direction;
  gint64 layout, hidden;
  double clip;

  if (!onnx_get_operands (call, operands, error) ||
      !rlx_map_arg_int (call, "layout", 0, &layout, error) ||
      !rlx_map_arg_int (call, "hidden_size", 0, &hidden, error) ||
      !rlx_map_arg_bool (call, "input_forget", FALSE, &input_forget, error) ||
      !rlx_map_arg_bool (call, "linear_before_reset", FALSE, &reset_after, error) ||
      !rlx_map_arg_double (call, "clip", 0, &clip, error))
    return FALSE;
  if (layout != 0 && layout != 1)
    return rlx_map_refused (error, "%s: the layout is %" G_GINT64_FORMAT, call->node->op, layout);
  if (hidden != 0)
    {
      const gint64 *shape = rlx_node_get_shape (operands[R], &n_dims);

      if (n_dims == 3 && shape[2] != hidden)
        return rlx_map_refused (error, "%s: hidden_size is %" G_GINT64_FORMAT ", R has %" G_GINT64_FORMAT, call->node->op,
                                hidden, shape[2]);
    }

  direction = rlx_map_arg_string (call, "direction", error);
  if (direction == NULL && rlx_map_arg (call, "direction") != NULL)
    return FALSE;
  if (direction == NULL || g_str_equal (direction, "forward"))
    direction = "forward";
  else if (g_str_equal (direction, "reverse"))
    direction = "backward";
  else if (g_str_equal (direction, "bidirectional"))
    direction = "both";
  else
    return rlx_map_refused (error, "%s: there is no direction “%s”", call->node->op, direction);
  both = g_str_equal (direction, "both");
  if (!onnx_get_activations (call, both ? 2 : 1, activations, &given, error))
    return FALSE;

  batch_first = layout == 1;
  g_variant_dict_insert (&dict, "batch_first", "b", batch_first);
  g_variant_dict_insert (&dict, "return_sequence", "b", rlx_map_wants_output (call, 0));
  if (rlx_map_arg (call, "clip") != NULL && clip > 0)
    g_variant_dict_insert (&dict, "clip", "d", clip);
  if (is_lstm)
    g_variant_dict_insert (&dict, "input_forget", "b", input_forget);
  if (g_str_equal (call->row->op, "gru"))
    g_variant_dict_insert (&dict, "reset_after", "b", reset_after);
  common = g_variant_ref_sink (g_variant_dict_end (&dict));

  if (both && given && memcmp (activations, activations + n_activations, n_activations * sizeof (Activation)) != 0)
    results = onnx_add_both (call, operands, common, batch_first, activations, n_activations, &n_results, error);
  else
    results = onnx_add_op (call, operands, common, direction, given ? activations : NULL, &n_results, error);
  if (results == NULL)
    return FALSE;

  /* Here, the states come first, then the sequence. */
  if (rlx_map_wants_output (call, 0) && !rlx_map_return (call, 0, results[n_results - 1]))
    return FALSE;
  for (guint i = 0; i < (is_lstm ? 2 : 1); i++)
    if (rlx_map_wants_output (call, i + 1) && !rlx_map_return (call, i + 1, results[i]))
      return FALSE;
  return TRUE;
}
