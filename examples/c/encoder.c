/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compares sentences of several lengths with an encoder: the similarity of each two, from -1 to 1. The weights are
 * seeded, not learned.
 *
 *     cc encoder.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -lm -o encoder && ./encoder
 */
#include <math.h>
#include <rlx-wgpu/rlx-wgpu.h>

enum { TOKENS = 100, N = 3, LENGTH = 8, WIDTH = 32, HEADS = 4, LAYERS = 2 };

static const gint64 sentences[N * LENGTH] = {
  5, 17, 42, 8, 0, 0, 0, 0,
  5, 17, 42, 9, 3, 0, 0, 0,
  61, 2, 2, 77, 30, 12, 99, 0,
};
static const gint64 sentence_lengths[N] = { 4, 5, 7 };

/* The same numbers in every language, scaled for a layer. */
static RlxTensor *
seeded (guint32       seed,
        const gint64 *shape)
{
  gsize n = (gsize) (shape[0] * shape[1]);
  g_autofree float *values = g_new (float, n);

  for (gsize i = 0; i < n; i++)
    {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      values[i] = (float) ((seed / 1073741824.0 - 1) * 2 / sqrt ((double) shape[0]));
    }
  return rlx_tensor_new_from_floats (shape, 2, values, n, NULL);
}

/* h times a weight of its own. If h is NULL after an error, so is the result: all calls pass NULL on. */
static RlxNode *
times (RlxNode    *h,
       RlxGraph   *g,
       const char *name,
       guint       layer,
       gint64      rows,
       gint64      columns,
       GError    **error)
{
  g_autofree char *full = g_strdup_printf ("%s%u", name, layer);

  return rlx_node_matmul (h, rlx_graph_parameter (g, full, RLX_DATA_TYPE_F32, RLX_INT_ARRAY (rows, columns), error), NULL, error);
}

static RlxNode *
heads (RlxNode    *h,
       RlxGraph   *g,
       const char *name,
       guint       layer,
       GError    **error)
{
  return rlx_node_reshape (times (h, g, name, layer, WIDTH, WIDTH, error), RLX_INT_ARRAY (N, LENGTH, HEADS, WIDTH / HEADS), error);
}

static RlxNode *
add_layer (RlxNode  *h,
           RlxNode  *lengths,
           RlxGraph *g,
           guint     layer,
           GError  **error)
{
  g_autoptr(RlxAttentionOptions) options = rlx_attention_options_new ();
  RlxNode *q = heads (h, g, "q", layer, error), *k = heads (h, g, "k", layer, error), *v = heads (h, g, "v", layer, error);
  RlxNode *seen, *up;

  rlx_attention_options_set_layout (options, RLX_HEAD_LAYOUT_SEQUENCE_FIRST);
  seen = rlx_node_attention (q, k, v, NULL, lengths, NULL, options, error);
  seen = rlx_node_reshape (seen, RLX_INT_ARRAY (N, LENGTH, WIDTH), error);
  h = rlx_node_add (h, times (seen, g, "o", layer, WIDTH, WIDTH, error), error);
  h = rlx_node_layer_norm (h, NULL, NULL, NULL, error);
  up = rlx_node_gelu (times (h, g, "up", layer, WIDTH, 4 * WIDTH, error), error);
  h = rlx_node_add (h, times (up, g, "down", layer, 4 * WIDTH, WIDTH, error), error);
  return rlx_node_layer_norm (h, NULL, NULL, NULL, error);
}

static RlxExecutable *
build (GError **error)
{
  g_autoptr(RlxGraph) g = rlx_graph_new ();
  RlxNode *tokens = rlx_graph_input (g, "tokens", RLX_DATA_TYPE_I32, RLX_INT_ARRAY (N, LENGTH), error);
  RlxNode *lengths = rlx_graph_input (g, "lengths", RLX_DATA_TYPE_I32, RLX_INT_ARRAY (N), error);
  RlxNode *table = rlx_graph_parameter (g, "table", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (TOKENS, WIDTH), error);
  RlxNode *positions = rlx_graph_parameter (g, "positions", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (LENGTH, WIDTH), error);
  RlxNode *h = rlx_node_add (rlx_node_gather (table, tokens, 0, NULL, error), positions, error);
  g_autoptr(RlxTensor) count = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, RLX_INT_ARRAY (LENGTH), RLX_INT_ARRAY (0, 1, 2, 3, 4, 5, 6, 7), error);
  g_autoptr(RlxMatmulOptions) transposed = rlx_matmul_options_new ();
  RlxDevice *device = rlx_device_get_default (error);
  RlxNode *there;

  if (device == NULL)
    return NULL;
  for (guint i = 0; i < LAYERS; i++)
    h = add_layer (h, lengths, g, i, error);
  /* The mean of the actual tokens, normalised to length 1. */
  there = rlx_node_reshape (lengths, RLX_INT_ARRAY (N, 1), error);
  there = rlx_node_greater (there, rlx_graph_constant (g, count, error), error);
  there = rlx_node_reshape (rlx_node_cast (there, RLX_DATA_TYPE_F32, error), RLX_INT_ARRAY (N, LENGTH, 1), error);
  h = rlx_node_reduce_sum (rlx_node_mul (h, there, error), RLX_INT_ARRAY (1), NULL, error);
  h = rlx_node_lp_norm (h, NULL, error);
  rlx_matmul_options_set_transpose_b (transposed, TRUE);
  if (!rlx_graph_output (g, "alike", rlx_node_matmul (h, h, transposed, error), error))
    return NULL;
  return rlx_device_compile (device, g, NULL, NULL, error);
}

static gboolean
set_weights (RlxExecutable *exe,
             GError       **error)
{
  GListModel *ports = rlx_executable_get_parameters (exe);

  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxPort) port = g_list_model_get_item (ports, i);
      g_autoptr(RlxTensor) value = seeded (i + 1, rlx_port_get_shape (port, NULL));

      if (!rlx_executable_set_parameters (exe, (const char *[]) { rlx_port_get_name (port), NULL }, &value, 1, NULL, error))
        return FALSE;
    }
  return TRUE;
}

int
main (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) exe = build (&error);
  g_autoptr(RlxTensor) tokens = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, RLX_INT_ARRAY (N, LENGTH), sentences, N * LENGTH, NULL);
  g_autoptr(RlxTensor) lengths = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, RLX_INT_ARRAY (N), sentence_lengths, N, NULL);
  g_auto(RlxTensors) out = NULL;

  if (exe != NULL && set_weights (exe, &error))
    out = rlx_executable_run (exe, (RlxTensor *[]) { tokens, lengths }, 2, NULL, NULL, &error);
  if (out == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  for (guint i = 0; i < N * N; i++)
    g_print ("%.3f%c", rlx_tensor_get_value (out[0], i), i % N == N - 1 ? '\n' : ' ');
  return 0;
}
