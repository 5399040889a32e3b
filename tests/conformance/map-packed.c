/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-packed.h"
#include "map-onnx.h"

#include <math.h>
#include <string.h>

/* ---- GGUF files ------------------------------------------------------------- */

/* How far a product may be off, as a part of the sum of its terms' sizes. */
#define PRODUCT_BOUND 1e-6

/* What one run of a case computes. */
typedef struct
{
  const char *output;
  const char *op;
  const char *packed;     /* names of tensors of the case */
  const char *rows;       /* the other operand, nullable */
  const char *expected;
  const char *sizes;      /* Σ of the sizes of terms; NULL: the same bits */
} Check;

static const Check checks[] = {
  { "random", "dequantize_blocks", "random_q", NULL, "random_f32", NULL },
  { "real", "dequantize_blocks", "real_q", NULL, "real_f32", NULL },
  { "product", "dequant_matmul", "real_q", "x", "y", "y_abs" },
};

static gboolean
has_tensors (const Case  *test,
             const Check *check)
{
  return case_find_input (test, check->packed) != NULL && case_find_input (test, check->expected) != NULL &&
         (check->rows == NULL || case_find_input (test, check->rows) != NULL) &&
         (check->sizes == NULL || case_find_input (test, check->sizes) != NULL);
}

static RlxNode *
add_constant (RlxGraph   *graph,
              const Case *test,
              const char *name,
              GError    **error)
{
  g_autoptr(RlxTensor) tensor = case_tensor_to_rlx (case_find_input (test, name), error);

  return tensor != NULL ? rlx_graph_constant (graph, tensor, error) : NULL;
}

static RlxNode *
add_node (RlxGraph   *graph,
          const char *op,
          RlxNode   **inputs,
          gsize       n_inputs,
          GVariant   *attrs,
          GError    **error)
{
  gsize n_outputs = 0;
  g_autofree RlxNode **outputs = rlx_graph_add_op (graph, op, inputs, n_inputs, attrs, &n_outputs, error);

  return outputs != NULL && n_outputs > 0 ? outputs[0] : NULL;
}

/* The product of the first row alone: another kernel than for several. */
static RlxNode *
take_first_row (RlxGraph *graph,
                RlxNode  *x,
                GError  **error)
{
  const gint64 start = 0, end = 1;

  return add_node (graph, "slice", &x, 1, map_attrs ("starts", map_ints (&start, 1), "ends", map_ints (&end, 1), NULL), error);
}

static gboolean
add_check (RlxGraph    *graph,
           const Case  *test,
           const Check *check,
           const char  *type,
           GError     **error)
{
  RlxNode *inputs[] = { NULL, NULL };
  RlxNode *node;
  guint n = 0;

  if (check->rows != NULL && (inputs[n++] = add_constant (graph, test, check->rows, error)) == NULL)
    return FALSE;
  if ((inputs[n++] = add_constant (graph, test, check->packed, error)) == NULL)
    return FALSE;
  node = add_node (graph, check->op, inputs, n, map_attrs ("type", g_variant_new_string (type), NULL), error);
  if (node == NULL)
    return FALSE;
  rlx_graph_output (graph, check->output, node, NULL);
  if (check->rows == NULL)
    return TRUE;

  inputs[0] = take_first_row (graph, inputs[0], error);
  node = inputs[0] != NULL ? add_node (graph, check->op, inputs, n, map_attrs ("type", g_variant_new_string (type), NULL), error) : NULL;
  if (node == NULL)
    return FALSE;
  rlx_graph_output (graph, "first row", node, NULL);
  return TRUE;
}

/* NULL when all elements of @got are as they should be. */
static char *
compare_packed (const Case  *test,
                const Check *check,
                RlxTensor   *got,
                GError     **error)
{
  const CaseTensor *want = case_find_input (test, check->expected);
  g_autoptr(GBytes) expected = case_tensor_to_bytes (want, 0, error);
  g_autoptr(GBytes) sizes = NULL;
  gsize n = (gsize) rlx_tensor_get_n_elements (got);
  const float *a, *b, *c = NULL;

  if (expected == NULL)
    return NULL;
  if (check->sizes != NULL)
    {
      sizes = case_tensor_to_bytes (case_find_input (test, check->sizes), 0, error);
      if (sizes == NULL)
        return NULL;
      c = g_bytes_get_data (sizes, NULL);
    }
  if (n * sizeof (float) > g_bytes_get_size (expected) || (sizes != NULL && n * sizeof (float) > g_bytes_get_size (sizes)))
    return g_strdup_printf ("“%s” has %" G_GSIZE_FORMAT " elements", check->output, n);

  a = g_bytes_get_data (rlx_tensor_get_bytes (got), NULL);
  b = g_bytes_get_data (expected, NULL);
  for (gsize i = 0; i < n; i++)
    {
      gboolean good = c != NULL ? fabs ((double) a[i] - (double) b[i]) <= PRODUCT_BOUND * (double) c[i]
                                : memcmp (&a[i], &b[i], sizeof (float)) == 0 || (isnan (a[i]) && isnan (b[i]));

      if (!good)
        return g_strdup_printf ("“%s”: element %" G_GSIZE_FORMAT " is %.9g instead of %.9g",
                                check->output, i, (double) a[i], (double) b[i]);
    }
  return NULL;
}

Result
run_packed (const Case *test,
            RlxDevice  *device,
            char      **reason)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *type = g_ascii_strdown (test->op, -1);
  g_autofree RlxTensor **outputs = NULL;
  gsize n_outputs = 0, at = 0;

  g_strdelimit (type, "_", '-');
  for (guint i = 0; error == NULL && i < G_N_ELEMENTS (checks); i++)
    if (has_tensors (test, &checks[i]))
      add_check (graph, test, &checks[i], type, &error);
  if (error == NULL)
    executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  if (executable != NULL)
    outputs = rlx_executable_run (executable, NULL, 0, &n_outputs, NULL, &error);

  for (guint i = 0; outputs != NULL && error == NULL && *reason == NULL && i < G_N_ELEMENTS (checks); i++)
    for (guint j = 0; j < (checks[i].rows != NULL ? 2 : 1) && has_tensors (test, &checks[i]) && *reason == NULL && at < n_outputs; j++)
      *reason = compare_packed (test, &checks[i], outputs[at++], &error);
  for (gsize i = 0; i < n_outputs; i++)
    g_object_unref (outputs[i]);

  if (error != NULL)
    *reason = g_strdup (error->message);
  return *reason == NULL ? RESULT_PASS : RESULT_FAIL;
}

/* ---- contributed operators ---------------------------------------------------- */

static const char *
packed_integers (gint64 bits)
{
  return bits == 2 ? "int2" : bits == 4 ? "int4" : bits == 8 ? "int8" : NULL;
}

gboolean
onnx_map_matmul_nbits (MapCall *call,
                       GError **error)
{
  RlxNode *inputs[] = { NULL, NULL, NULL, NULL, NULL };
  static const guint places[] = { 0, 1, 2, 3, 5 };   /* of the inputs; 4 is g_idx */
  gint64 k, n, bits, block_size, prepacked;
  gint64 shape[2];
  const gint64 *dims;
  gsize n_dims;

  if (!map_arg_int (call, "K", 0, &k, error) || !map_arg_int (call, "N", 0, &n, error) ||
      !map_arg_int (call, "bits", 4, &bits, error) || !map_arg_int (call, "block_size", 0, &block_size, error) ||
      !map_arg_int (call, "weight_prepacked", 0, &prepacked, error))
    return FALSE;
  if (map_has_input (call, 4))
    return map_unsupported (error, "%s with g_idx", call->op->name);
  if (prepacked != 0)
    return map_unsupported (error, "%s with weights that are packed for one machine", call->op->name);
  if (packed_integers (bits) == NULL)
    return map_unsupported (error, "%s with %" G_GINT64_FORMAT " bits", call->op->name, bits);
  if (k < 1 || n < 1 || block_size < 16)
    return map_refused (error, "%s: K is %" G_GINT64_FORMAT ", N %" G_GINT64_FORMAT ", block_size %" G_GINT64_FORMAT,
                        call->op->name, k, n, block_size);

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    if ((i < 3 || map_has_input (call, places[i])) && (inputs[i] = map_input (call, places[i], FALSE, error)) == NULL)
      return FALSE;
  dims = rlx_node_get_shape (inputs[0], &n_dims);
  if (n_dims == 0 || dims[n_dims - 1] != k)
    return map_refused (error, "%s: the columns of A are not K", call->op->name);

  shape[0] = n;
  shape[1] = (k + block_size - 1) / block_size * (block_size * bits / 8);
  inputs[1] = map_reshape (call, inputs[1], shape, 2, error);
  if (inputs[1] == NULL)
    return FALSE;
  return map_return (call, 0, map_op (call, "dequant_matmul", inputs, 5,
                                      map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                 "block_size", g_variant_new_int64 (block_size), NULL), error));
}

/* Blocks along an axis of 4-bit integers. */
static RlxNode *
dequantize (MapCall *call,
            RlxNode *data,
            RlxNode *scale,
            RlxNode *zero,
            gsize    axis,
            gint64   block_size,
            GError **error)
{
  RlxNode *inputs[] = { data, scale, zero };
  gint64 blocks[RLX_MAX_DIMS];
  gsize n_dims = rlx_node_get_n_dims (data);

  for (gsize i = 0; i < n_dims; i++)
    blocks[i] = i == axis ? block_size : 1;
  return map_op (call, "dequantize_linear", inputs, zero != NULL ? 3 : 2,
                 map_attrs ("blocks", map_ints (blocks, n_dims), NULL), error);
}

gboolean
onnx_map_gather_quantized (MapCall *call,
                           GError **error)
{
  RlxNode *parts[3] = { NULL, NULL, NULL };   /* data, scales, zero points */
  RlxNode *indices, *node;
  gint64 gather_axis, quantize_axis, block_size, bits;
  gsize n_dims, at, along;
  gboolean bytes;
  const gint64 *shape;

  parts[0] = map_input (call, 0, FALSE, error);
  indices = parts[0] != NULL ? map_input (call, 1, FALSE, error) : NULL;
  parts[1] = indices != NULL ? map_input (call, 2, FALSE, error) : NULL;
  if (parts[1] == NULL || (map_has_input (call, 3) && (parts[2] = map_input (call, 3, FALSE, error)) == NULL))
    return FALSE;
  shape = rlx_node_get_shape (parts[0], &n_dims);
  if (!map_arg_int (call, "gather_axis", 0, &gather_axis, error) ||
      !map_arg_int (call, "quantize_axis", 1, &quantize_axis, error) ||
      !map_arg_int (call, "block_size", 128, &block_size, error) ||
      !map_arg_int (call, "bits", 4, &bits, error) ||
      !onnx_normalise_axis (call, gather_axis, n_dims, n_dims - 1, &at, error) ||
      !onnx_normalise_axis (call, quantize_axis, n_dims, n_dims - 1, &along, error))
    return FALSE;
  if (block_size < 16 || (block_size & (block_size - 1)) != 0)
    return map_refused (error, "%s: the block size is %" G_GINT64_FORMAT, call->op->name, block_size);

  bytes = rlx_node_get_data_type (parts[0]) == RLX_DATA_TYPE_U8;
  if (bytes && (packed_integers (bits) == NULL || along != n_dims - 1 || at == along))
    return map_refused (error, "%s: bytes have %" G_GINT64_FORMAT " bits, are gathered along axis %" G_GINT64_FORMAT " and quantised along %" G_GINT64_FORMAT,
                        call->op->name, bits, gather_axis, quantize_axis);

  if (at == along)
    {
      node = dequantize (call, parts[0], parts[1], parts[2], along, block_size, error);
      return node != NULL &&
             map_return (call, 0, map_op2 (call, "gather", node, indices,
                                           map_attrs ("axis", g_variant_new_int64 (gather_axis), NULL), error));
    }

  if (bytes && n_dims == 2)
    {
      RlxNode *inputs[] = { parts[0], indices, parts[1], parts[2] };

      return map_return (call, 0, map_op (call, "gather_packed", inputs, 4,
                                          map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                     "block_size", g_variant_new_int64 (block_size),
                                                     "columns", g_variant_new_int64 (shape[1] * 8 / bits),
                                                     "to", map_data_type (rlx_node_get_data_type (parts[1])), NULL), error));
    }

  for (guint i = 0; i < 3; i++)
    if (parts[i] != NULL &&
        (parts[i] = map_op2 (call, "gather", parts[i], indices,
                             map_attrs ("axis", g_variant_new_int64 ((gint64) at), NULL), error)) == NULL)
      return FALSE;
  if (along > at)
    along += rlx_node_get_n_dims (indices) - 1;
  if (!bytes)
    return map_return (call, 0, dequantize (call, parts[0], parts[1], parts[2], along, block_size, error));
  return map_return (call, 0, map_op (call, "dequantize_blocks", parts, 3,
                                      map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                 "block_size", g_variant_new_int64 (block_size),
                                                 "to", map_data_type (rlx_node_get_data_type (parts[1])), NULL), error));
}
