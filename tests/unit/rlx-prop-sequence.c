/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Sequences with a state for each head.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Floats between @from and @to. */
static void
add_between (Call         *call,
             RlxDataType   data_type,
             double        from,
             double        to,
             const gint64 *shape,
             gsize         n_dims)
{
  g_autofree char *type = prop_type_text (data_type, shape, n_dims);
  gsize n = prop_count (shape, n_dims);
  g_autofree double *values = g_new0 (double, n + 1);

  for (gsize i = 0; i < n; i++)
    values[i] = from + (to - from) * g_rand_double (call->rand);
  call->inputs[call->n_inputs++] = rlx_test_tensor (type, values);
}

static void
add_state (Call         *call,
           const gint64 *shape,
           gsize         n_dims)
{
  if (prop_chance (call->rand, 0.6))
    add_between (call, RLX_DATA_TYPE_F32, -1, 1, shape, n_dims);
}

/* Long enough to be split, a state too large for registers, and empty. */
static gboolean
generate_sequence (Call *call)
{
  const char *name = call->op->name;
  gboolean scan = strcmp (name, "selective_scan") == 0, mamba = strcmp (name, "mamba2") == 0;
  gboolean delta_net = strcmp (name, "gated_delta_net") == 0, seven = strcmp (name, "rwkv7") == 0;
  gint64 b = prop_pick (call->rand, 1, 2), s = prop_pick (call->rand, 1, 9), n = 6, m = prop_pick (call->rand, 1, 20);
  gint64 h = scan ? 1 : prop_pick (call->rand, 1, 2) * 2, k_heads = h, q_heads = h;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 6 : 0))
    return FALSE;
  if (call->variant == 1)
    s = 45;
  else if (call->variant == 2)
    n = 130;
  else if (call->variant == 3)
    s = 0;
  else if (call->variant == 4)
    m = 0;
  else if (call->variant == 5)
    n = 0;
  if (delta_net || mamba)
    q_heads = k_heads = prop_chance (call->rand, 0.5) ? h / 2 : h;
  if (delta_net && (call->variant == 2 || call->variant == 6))
    q_heads = 2 * h;

  if (scan)
    {
      const gint64 values[] = { b, s, m }, keys[] = { b, s, n }, rates[] = { m, n }, state[] = { b, m, n };

      add_between (call, call->data_type, -1, 1, values, 3);
      add_between (call, call->data_type, 0, 1, values, 3);
      add_between (call, RLX_DATA_TYPE_F32, -2, 0, rates, 2);
      add_between (call, call->data_type, -1, 1, keys, 3);
      add_between (call, call->data_type, -1, 1, keys, 3);
      if (prop_chance (call->rand, 0.5))
        add_between (call, RLX_DATA_TYPE_F32, -1, 1, &m, 1);
      else
        skip_input (call);
      add_state (call, state, 3);
    }
  else
    {
      const gint64 values[] = { b, s, h, m }, keys[] = { b, s, k_heads, n }, queries[] = { b, s, q_heads, n };
      const gint64 rows[] = { b, s, h, n }, gates[] = { b, s, h }, bonus[] = { h, n };
      const gint64 state[] = { b, h, mamba ? m : n, mamba ? n : m };
      /* The delta rule must subtract less than there is. */
      double most = delta_net || seven ? 0.3 : 1;

      if (mamba)
        {
          add_between (call, call->data_type, -1, 1, values, 4);
          add_between (call, call->data_type, 0, 1, gates, 3);
          add_between (call, RLX_DATA_TYPE_F32, -2, 0, &h, 1);
          add_between (call, call->data_type, -1, 1, keys, 4);
          add_between (call, call->data_type, -1, 1, queries, 4);
          if (prop_chance (call->rand, 0.5))
            add_between (call, RLX_DATA_TYPE_F32, -1, 1, &h, 1);
          else
            skip_input (call);
        }
      else
        {
          add_between (call, call->data_type, -most, most, queries, 4);
          add_between (call, call->data_type, -most, most, keys, 4);
          add_between (call, call->data_type, -1, 1, values, 4);
          if (!delta_net)
            add_between (call, RLX_DATA_TYPE_F32, -2, -0.4, rows, 4);
          else if (call->variant == 0 || call->variant == 1)
            add_between (call, call->data_type, -2, 0, gates, 3);
          else if (prop_chance (call->rand, 0.5))
            add_between (call, RLX_DATA_TYPE_F32, -2, 0, rows, 4);
          else
            skip_input (call);
          if (delta_net && prop_chance (call->rand, 0.7))
            add_between (call, call->data_type, 0, 1, gates, 3);
          else if (delta_net)
            skip_input (call);
          else if (seven)
            {
              add_between (call, call->data_type, -most, most, rows, 4);
              add_between (call, call->data_type, -most, most, rows, 4);
            }
          else
            add_between (call, RLX_DATA_TYPE_F32, -1, 1, bonus, 2);
        }
      add_state (call, state, 4);
      if (delta_net)
        {
          g_variant_dict_insert (call->attributes, "scale", "d", call->variant == 0 ? 0.0 : 0.5);
          g_variant_dict_insert (call->attributes, "delta_rule", "b", call->variant < 2 || prop_chance (call->rand, 0.6));
        }
    }
  return TRUE;
}

static gboolean
generate_states (Call *call)
{
  gint64 steps = prop_pick (call->rand, 1, 9), heads = prop_pick (call->rand, 1, 3), rows = 5, columns = prop_pick (call->rand, 1, 40);
  gboolean lead;

  if (call->variant > 7)
    return FALSE;
  if (call->variant == 2)
    steps = 40;
  else if (call->variant == 3)
    steps = 0;
  else if (call->variant == 4)
    columns = 0;
  else if (call->variant == 5)
    rows = 0;
  lead = call->variant % 2 == 0;

  add_between (call, RLX_DATA_TYPE_F32, -1, 1, (gint64[]) { steps, heads, rows }, 3);
  add_between (call, RLX_DATA_TYPE_F32, -1, 1, (gint64[]) { steps, heads, columns }, 3);
  if (call->variant < 2 || prop_chance (call->rand, 0.5))
    add_between (call, RLX_DATA_TYPE_F32, -2, 0, (gint64[]) { steps, heads, rows }, 3);
  else
    skip_input (call);
  for (guint i = 0; i < 2; i++)
    {
      if (lead)
        add_between (call, RLX_DATA_TYPE_F32, -0.4, 0.4, (gint64[]) { steps, heads, rows }, 3);
      else
        skip_input (call);
    }
  add_state (call, (gint64[]) { heads, rows, columns }, 3);
  g_variant_dict_insert (call->attributes, "reverse", "b", call->variant == 1 || call->variant == 6 || call->variant == 7);
  return TRUE;
}

static gboolean
generate_causal_conv (Call *call)
{
  static const char *const layouts[] = { "channels-first", "channels-last" };
  gint64 batch = prop_pick (call->rand, 1, 3), channels = prop_size (call->rand, 20), steps = prop_size (call->rand, 40);
  gint64 width = call->variant == 1 ? 1 : call->variant == 2 ? 9 : 4;
  gboolean last = call->variant % 2 == 1;
  gint64 shape[3] = { batch, last ? steps : channels, last ? channels : steps };

  if (call->variant > 6)
    return FALSE;
  if (call->variant == 3)
    shape[1] = 0;
  else if (call->variant == 4)
    shape[1] = channels = 0;
  else if (call->variant == 5)
    shape[1] = 2;

  add_input (call, PROP_TAME, call->data_type, shape, 3);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { channels, width }, 2);
  if (prop_chance (call->rand, 0.5))
    add_input (call, PROP_TAME, call->data_type, &channels, 1);
  else
    skip_input (call);
  shape[last ? 1 : 2] = width - 1;
  if (call->variant != 0 && call->variant != 3)
    add_input (call, PROP_TAME, call->data_type, shape, 3);
  g_variant_dict_insert (call->attributes, "layout", "s", layouts[last]);
  return TRUE;
}

const PropRow prop_sequence_rows[] = {
  { "causal_conv1d", generate_causal_conv },
  { "selective_scan", generate_sequence },
  { "mamba2", generate_sequence },
  { "gated_delta_net", generate_sequence },
  { "rwkv6", generate_sequence },
  { "rwkv7", generate_sequence },
  { "recurrence_states", generate_states },
  { NULL, NULL },
};
