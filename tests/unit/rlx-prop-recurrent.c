/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of recurrent networks.
 */
#include "config.h"

#include "rlx-prop-calls.h"

typedef struct
{
  gint64 directions;
  gint64 steps;
  gint64 batch;
  gint64 inputs;
  gint64 hidden;
} RecurrentSizes;

/* Small enough for errors to remain small from step to step. */
static void
add_small (Call         *call,
           double        size,
           const gint64 *shape,
           gsize         n_dims)
{
  g_autofree char *type = prop_type_text (call->data_type, shape, n_dims);

  g_assert_cmpuint (call->n_inputs, <, MAX_OPERANDS);
  call->inputs[call->n_inputs++] = rlx_test_random (type, -size, size, g_rand_int (call->rand));
}

static void
add_or_skip (Call         *call,
             double        probability,
             double        size,
             const gint64 *shape,
             gsize         n_dims)
{
  if (prop_chance (call->rand, probability))
    add_small (call, size, shape, n_dims);
  else
    skip_input (call);
}

static void
random_activation (Call       *call,
                   const char *place)
{
  static const char *const names[] = {
    "sigmoid", "tanh", "relu", "leaky-relu", "thresholded-relu", "hard-sigmoid", "elu", "softsign", "softplus", "affine", "scaled-tanh",
  };
  g_autofree char *activation = g_strconcat (place, "_activation", NULL);
  g_autofree char *alpha = g_strconcat (place, "_alpha", NULL);
  g_autofree char *beta = g_strconcat (place, "_beta", NULL);

  g_variant_dict_insert (call->attributes, activation, "s", names[prop_pick (call->rand, 0, G_N_ELEMENTS (names) - 1)]);
  g_variant_dict_insert (call->attributes, alpha, "d", 0.1 + 0.8 * g_rand_double (call->rand));
  g_variant_dict_insert (call->attributes, beta, "d", 0.1 + 0.8 * g_rand_double (call->rand));
}

/* The attributes that they have in common. */
static void
random_recurrent_attributes (Call *call)
{
  static const char *const places[] = { "gate", "cell", "hidden" };
  gboolean lstm = g_str_has_prefix (call->op->name, "lstm");

  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autofree char *activation = g_strconcat (places[i], "_activation", NULL);

      if (call->variant > 3 && rlx_op_find_attr (call->op, activation) >= 0)
        random_activation (call, places[i]);
    }
  if (rlx_op_find_attr (call->op, "gate_order") >= 0 && prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "gate_order", "s", lstm ? "ifgo" : "rzn");
  if (rlx_op_find_attr (call->op, "reset_after") >= 0)
    g_variant_dict_insert (call->attributes, "reset_after", "b", call->variant % 2 == 0);
  if (rlx_op_find_attr (call->op, "input_forget") >= 0)
    g_variant_dict_insert (call->attributes, "input_forget", "b", prop_chance (call->rand, 0.3));
  if (prop_chance (call->rand, 0.3))
    g_variant_dict_insert (call->attributes, "clip", "d", 0.5 + g_rand_double (call->rand));
}

static gint64
recurrent_gates (Call *call)
{
  return g_str_has_prefix (call->op->name, "lstm") ? 4 : g_str_has_prefix (call->op->name, "gru") ? 3 : 1;
}

static gboolean
generate_recurrent (Call *call)
{
  static const RecurrentSizes edges[] = {
    { 1, 3, 2, 3, 5 },
    { 2, 9, 1, 4, 33 },      /* the recurrent weight is transposed */
    { 1, 1, 5, 2, 9 },
    { 2, 2, 3, 7, 17 },
    { 1, 0, 2, 3, 4 },       /* no steps */
    { 2, 3, 0, 2, 3 },       /* no sequences */
    { 1, 2, 2, 0, 6 },       /* no inputs */
    { 1, 2, 2, 3, 0 },       /* no units */
  };
  static const char *const directions[] = { "forward", "backward", "both" };
  gboolean lstm = g_str_has_prefix (call->op->name, "lstm");
  gint64 rows;
  RecurrentSizes sizes;
  gboolean batch_first = prop_chance (call->rand, 0.5);
  gint64 state[3];
  double width;

  /* Each of them takes two or three kernels. */
  if (call->variant >= (call->data_type == RLX_DATA_TYPE_F32 ? G_N_ELEMENTS (edges) + lstm : 1))
    return FALSE;
  if (call->variant < G_N_ELEMENTS (edges))
    sizes = edges[call->variant];
  else
    sizes = (RecurrentSizes) { prop_pick (call->rand, 1, 2), prop_pick (call->rand, 1, 5), prop_pick (call->rand, 1, 6),
                               prop_size (call->rand, 33), prop_size (call->rand, 70) };

  rows = recurrent_gates (call) * sizes.hidden;
  state[0] = batch_first ? sizes.batch : sizes.directions;
  state[1] = batch_first ? sizes.directions : sizes.batch;
  state[2] = sizes.hidden;
  width = 1 / sqrt ((double) MAX (sizes.hidden, 1));
  add_small (call, 1, (gint64[]) { batch_first ? sizes.batch : sizes.steps, batch_first ? sizes.steps : sizes.batch, sizes.inputs }, 3);
  add_small (call, 1, (gint64[]) { sizes.directions, rows, sizes.inputs }, 3);
  add_small (call, width, (gint64[]) { sizes.directions, rows, sizes.hidden }, 3);
  add_or_skip (call, 0.5, 1, (gint64[]) { sizes.directions, rows }, 2);
  add_or_skip (call, 0.5, 1, (gint64[]) { sizes.directions, rows }, 2);
  if (lstm)
    add_or_skip (call, 0.5, 0.5, (gint64[]) { sizes.directions, 3 * sizes.hidden }, 2);
  add_or_skip (call, 0.5, 1, state, 3);
  if (lstm)
    add_or_skip (call, 0.5, 1, state, 3);
  if (prop_chance (call->rand, 0.5))
    {
      g_autofree double *lengths = g_new0 (double, (gsize) sizes.batch + 1);
      g_autofree char *type = prop_type_text (prop_chance (call->rand, 0.5) ? RLX_DATA_TYPE_I32 : RLX_DATA_TYPE_I64, &sizes.batch, 1);

      for (gint64 i = 0; i < sizes.batch; i++)
        lengths[i] = (double) prop_pick (call->rand, 0, sizes.steps);
      call->inputs[call->n_inputs++] = rlx_test_tensor (type, lengths);
    }

  g_variant_dict_insert (call->attributes, "direction", "s", directions[sizes.directions == 2 ? 2 : prop_pick (call->rand, 0, 1)]);
  g_variant_dict_insert (call->attributes, "batch_first", "b", batch_first);
  g_variant_dict_insert (call->attributes, "return_sequence", "b", prop_chance (call->rand, 0.7));
  random_recurrent_attributes (call);
  return TRUE;
}

static gboolean
generate_recurrent_cell (Call *call)
{
  gint64 hidden = call->variant == 3 ? 0 : prop_size (call->rand, 70);
  gint64 batch = call->variant == 4 ? 0 : prop_pick (call->rand, 1, 5);
  gint64 inputs = call->variant == 5 ? 0 : prop_size (call->rand, 33);
  gint64 rows = recurrent_gates (call) * hidden;
  gboolean lstm = g_str_has_prefix (call->op->name, "lstm");

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 5 : 0))
    return FALSE;

  add_small (call, 1, (gint64[]) { batch, inputs }, 2);
  add_small (call, 1, (gint64[]) { rows, inputs }, 2);
  add_small (call, 0.5, (gint64[]) { rows, hidden }, 2);
  add_small (call, 1, (gint64[]) { batch, hidden }, 2);
  if (lstm)
    add_small (call, 1, (gint64[]) { batch, hidden }, 2);
  add_or_skip (call, 0.5, 1, &rows, 1);
  add_or_skip (call, 0.5, 1, &rows, 1);
  if (lstm)
    add_or_skip (call, 0.5, 0.5, (gint64[]) { 3 * hidden }, 1);
  random_recurrent_attributes (call);
  return TRUE;
}

const PropRow prop_recurrent_rows[] = {
  { "lstm", generate_recurrent },
  { "gru", generate_recurrent },
  { "rnn", generate_recurrent },
  { "lstm_cell", generate_recurrent_cell },
  { "gru_cell", generate_recurrent_cell },
  { "rnn_cell", generate_recurrent_cell },
  { NULL, NULL },
};
