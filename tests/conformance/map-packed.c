/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-packed.h"

#include <math.h>
#include <string.h>

/* ---- GGUF files ------------------------------------------------------------- */

/* The allowed error of a product, relative to the sum of its terms' magnitudes. */
#define PRODUCT_BOUND 1e-6

/* What a single run of a case computes. */
typedef struct
{
  const char *output;
  const char *op;
  const char *packed;     /* names of tensors of the case */
  const char *rows;       /* the other operand, nullable */
  const char *expected;
  const char *sizes;      /* Σ of the terms' magnitudes; NULL: the same bits */
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

/* The product of the first row alone uses another kernel than that of several rows. */
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

/* NULL if all elements of @got are as expected. */
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
