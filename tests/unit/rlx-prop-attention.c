/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of attention and of positions.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Each of these is a kernel that takes long to compile. */
static const struct
{
  gint64 batch, heads, key_heads, queries, keys, width, value_width;
  guint mask;         /* 1: Boolean, 2: additive */
  gboolean causal;
  gint64 window;
  gboolean extras;    /* lengths, a sink, a limit for the scores, and another layout of the heads */
} attentions[] = {
  { 1, 4, 2, 17, 65, 33, 7, 0, TRUE, 0, FALSE },      /* grouped heads, an odd width, a different one for the values */
  { 2, 3, 3, 9, 9, 8, 8, 1, FALSE, 0, FALSE },
  { 1, 2, 1, 1, 130, 16, 65, 2, FALSE, 0, FALSE },    /* one query, as in decoding */
  { 2, 6, 2, 31, 127, 20, 40, 2, TRUE, 11, TRUE },
  { 2, 2, 2, 12, 5, 4, 4, 0, TRUE, 0, FALSE },        /* more queries than keys: some see none */
  { 1, 1, 1, 3, 0, 4, 5, 0, TRUE, 0, FALSE },         /* no keys */
  { 1, 1, 1, 3, 4, 0, 5, 0, TRUE, 0, FALSE },         /* no width: every score is 0 */
  { 0, 2, 1, 3, 4, 5, 6, 1, FALSE, 0, FALSE },
  { 3, 4, 2, 2, 600, 8, 16, 0, FALSE, 300, TRUE },
  { 1, 2, 1, 21, 19, 12, 4, 2, TRUE, 0, FALSE },
  /* More columns than fit in registers, in overlapping blocks: blocks of 16 in one case, of 4 in the other. */
  { 1, 2, 1, 5, 37, 112, 48, 2, FALSE, 0, FALSE },
  { 1, 2, 1, 35, 6, 20, 100, 0, TRUE, 0, FALSE },
};
/* That many of them, just for gradients. */
#define N_WIDE 2

/* A query, key or value. */
static void
add_heads (Call    *call,
           gint64   batch,
           gint64   heads,
           gint64   sequence,
           gint64   width,
           gboolean sequence_first)
{
  gint64 shape[] = { batch, sequence_first ? sequence : heads, sequence_first ? heads : sequence, width };

  add_input (call, PROP_TAME, call->data_type, shape, 4);
}

static gboolean
generate_attention (Call *call)
{
  gboolean backward = strcmp (call->op->name, "attention_backward") == 0;
  gsize row = call->data_type == RLX_DATA_TYPE_F32 ? call->variant : 3 * call->variant;
  gint64 shape[4];
  gsize n_dims;

  if (row >= G_N_ELEMENTS (attentions) - (backward ? 0 : N_WIDE))
    return FALSE;

  add_heads (call, attentions[row].batch, attentions[row].heads, attentions[row].queries, attentions[row].width, attentions[row].extras);
  add_heads (call, attentions[row].batch, attentions[row].key_heads, attentions[row].keys, attentions[row].width, attentions[row].extras);
  add_heads (call, attentions[row].batch, attentions[row].key_heads, attentions[row].keys, attentions[row].value_width, attentions[row].extras);
  for (guint i = 0; backward && i < 2; i++)
    add_heads (call, attentions[row].batch, attentions[row].heads, attentions[row].queries, attentions[row].value_width, attentions[row].extras);
  if (backward && attentions[row].extras)
    {
      skip_input (call);
    }
  else if (attentions[row].mask > 0 || attentions[row].extras)
    {
      n_dims = random_part (call,
                            (gint64[]) { attentions[row].batch, attentions[row].heads, attentions[row].queries, attentions[row].keys },
                            4, shape);
      add_input (call, PROP_TAME, attentions[row].mask == 1 ? RLX_DATA_TYPE_BOOL : call->data_type, shape, n_dims);
    }
  g_variant_dict_insert (call->attributes, "causal", "b", attentions[row].causal);
  g_variant_dict_insert (call->attributes, "window", "x", attentions[row].window);
  if (attentions[row].extras)
    {
      /* The gradient's kernel takes one of them. */
      if (backward && row % 2 == 0)
        skip_input (call);
      else
        add_input (call, PROP_WILD, RLX_DATA_TYPE_I32, &attentions[row].batch, 1);
      if (!backward || row % 2 == 0)
        add_input (call, PROP_TAME, call->data_type, prop_chance (call->rand, 0.5) ? &attentions[row].heads : (gint64[]) { 1 }, 1);
      g_variant_dict_insert (call->attributes, "softcap", "d", 1.5);
      g_variant_dict_insert (call->attributes, "layout", "s", "sequence-first");
    }
  if (prop_chance (call->rand, 0.4))
    g_variant_dict_insert (call->attributes, "scale", "d", g_rand_double (call->rand) - 0.5);

  return TRUE;
}

static gboolean
generate_rope (Call *call)
{
  gboolean plane = g_str_equal (call->op->name, "rope_2d");
  gboolean sequence_first = prop_chance (call->rand, 0.5);
  gboolean positions = plane || prop_chance (call->rand, 0.5);
  gint64 batch = prop_pick (call->rand, call->variant == 3 ? 0 : 1, 3), heads = prop_pick (call->rand, 1, 4);
  gint64 sequence = prop_size (call->rand, 33), pairs = prop_size (call->rand, 33) * (plane ? 2 : 1);
  gint64 rest = plane || call->variant % 2 == 0 ? 0 : prop_pick (call->rand, 1, 9);
  gint64 shape[3];
  gsize n_dims;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 8 : 3))
    return FALSE;

  add_heads (call, batch, heads, sequence, 2 * pairs + rest, sequence_first);
  if (positions && !(plane && call->variant % 2 == 0))
    {
      n_dims = random_part (call, (gint64[]) { batch, sequence }, 2, shape);
      if (plane)
        shape[n_dims++] = 2;
      add_input (call, PROP_TAME, RLX_DATA_TYPE_I32, shape, n_dims);
    }
  else if (plane)
    {
      g_variant_dict_insert (call->attributes, "columns", "x", prop_pick (call->rand, 1, 9));
    }
  if (!plane && prop_chance (call->rand, 0.5))
    {
      gint64 table[] = { batch, sequence, pairs * (prop_chance (call->rand, 0.5) ? 2 : 1) };
      gsize skip = positions ? 1 : prop_pick (call->rand, 0, 1);

      if (!positions)
        skip_input (call);
      for (guint i = 0; i < 2; i++)
        add_input (call, PROP_TAME, call->data_type, table + skip, 3 - skip);
    }
  if (!plane)
    g_variant_dict_insert (call->attributes, "rotated", "x", 2 * pairs);
  g_variant_dict_insert (call->attributes, "interleaved", "b", prop_chance (call->rand, 0.5));
  g_variant_dict_insert (call->attributes, "base", "d", prop_chance (call->rand, 0.5) ? 10000.0 : 500.0);
  g_variant_dict_insert (call->attributes, "scale", "d", prop_chance (call->rand, 0.5) ? 1.0 : 0.25);
  g_variant_dict_insert (call->attributes, "layout", "s", sequence_first ? "sequence-first" : "heads-first");

  return TRUE;
}

const PropRow prop_attention_rows[] = {
  { "attention", generate_attention },
  { "attention_backward", generate_attention },
  { "rope", generate_rope },
  { "rope_2d", generate_rope },
  { NULL, NULL },
};
