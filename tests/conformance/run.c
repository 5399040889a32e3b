/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "run.h"

#include "map.h"
#include "map-packed.h"
#include "onnx.h"

#include <string.h>

/* How many elements of a constant expected output are compared. */
#define MAX_FILL_ELEMENTS 1000

const char *
result_to_string (Result result)
{
  static const char *const names[] = { "pass", "fail", "unsupported" };

  return names[result];
}

static gboolean
is_unsupported (const GError *error)
{
  return g_error_matches (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED) ||
         g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_UNSUPPORTED) ||
         g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND) ||
         g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED) ||
         g_error_matches (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
}

/* Whether everything in the case has an equivalent, as far as can be told without building
 * it: a case that must be rejected must not pass because something is merely missing. */
static gboolean
check_supported (const Case *test,
                 char      **reason)
{
  for (guint i = 0; i < test->ops->len; i++)
    {
      const CaseOp *op = g_ptr_array_index (test->ops, i);

      if (mapping_find_forward (test->family, op) == NULL || !mapping_has_target (mapping_find_forward (test->family, op)))
        {
          *reason = op->domain != NULL && op->domain[0] != '\0'
                      ? g_strdup_printf ("operator %s:%s", op->domain, op->name)
                      : g_strdup_printf ("operator %s", op->name);
          return FALSE;
        }
    }
  for (guint i = 0; i < test->inputs->len; i++)
    {
      const CaseTensor *tensor = g_ptr_array_index (test->inputs, i);

      if (!tensor->known && !tensor->param)
        {
          *reason = g_strdup_printf ("data type %s", tensor->dtype);
          return FALSE;
        }
    }
  for (guint i = 0; i < test->outputs->len; i++)
    {
      const CaseTensor *tensor = g_ptr_array_index (test->outputs, i);

      if (!tensor->known)
        {
          *reason = g_strdup_printf ("data type %s", tensor->dtype);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
same_type (const CaseTensor *want,
           RlxDataType       data_type,
           const gint64     *shape,
           gsize             n_dims)
{
  return want->data_type == data_type && want->n_dims == n_dims &&
         (n_dims == 0 || memcmp (want->shape, shape, n_dims * sizeof *shape) == 0);
}

static char *
describe_type (RlxDataType   data_type,
               const gint64 *shape,
               gsize         n_dims)
{
  CaseTensor tensor = {
    .dtype = (char *) rlx_data_type_to_string (data_type),
    .shape = (gint64 *) shape,
    .n_dims = (guint) n_dims,
  };

  return case_tensor_describe (&tensor);
}

/* Declares the outputs. Sets @reason if one has the wrong type. */
static gboolean
add_outputs (Build      *build,
             const Case *test,
             char      **reason,
             GError    **error)
{
  for (guint i = 0; i < test->outputs->len; i++)
    {
      const CaseTensor *want = g_ptr_array_index (test->outputs, i);
      RlxNode *node = build_get (build, want->name, error);
      const gint64 *shape;
      gsize n_dims;

      if (node == NULL)
        return FALSE;
      shape = rlx_node_get_shape (node, &n_dims);
      if (!same_type (want, rlx_node_get_data_type (node), shape, n_dims))
        {
          g_autofree char *is = describe_type (rlx_node_get_data_type (node), shape, n_dims);
          g_autofree char *wanted = case_tensor_describe (want);

          *reason = g_strdup_printf ("output “%s” is %s instead of %s", want->name, is, wanted);
          return FALSE;
        }
      rlx_graph_output (build_get_graph (build), want->name, node, NULL);
    }
  return TRUE;
}

static char *
compare_outputs (const Case *test,
                 char      **names,
                 RlxTensor **outputs,
                 gsize       n_outputs,
                 GError    **error)
{
  for (guint i = 0; i < test->outputs->len; i++)
    {
      const CaseTensor *want = g_ptr_array_index (test->outputs, i);
      g_autoptr(GBytes) expected = NULL;
      GBytes *got;
      g_autofree char *difference = NULL;
      RlxTensor *tensor = NULL;
      const gint64 *shape;
      gsize n_dims, n_elements;

      for (gsize j = 0; j < n_outputs && names[j] != NULL; j++)
        if (g_str_equal (names[j], want->name))
          tensor = outputs[j];
      if (tensor == NULL)
        return g_strdup_printf ("the run gave no output “%s”", want->name);

      shape = rlx_tensor_get_shape (tensor, &n_dims);
      if (!same_type (want, rlx_tensor_get_data_type (tensor), shape, n_dims))
        {
          g_autofree char *is = describe_type (rlx_tensor_get_data_type (tensor), shape, n_dims);
          g_autofree char *wanted = case_tensor_describe (want);

          return g_strdup_printf ("the run gave “%s” as %s instead of %s", want->name, is, wanted);
        }

      expected = case_tensor_to_bytes (want, want->fill != NULL ? MAX_FILL_ELEMENTS : 0, error);
      if (expected == NULL)
        return NULL;
      got = rlx_tensor_get_bytes (tensor);
      /* the unused rest of a byte is not an element */
      n_elements = MIN (g_bytes_get_size (expected) * 8 / rlx_data_type_get_bits (want->data_type),
                        (gsize) rlx_tensor_get_n_elements (tensor));
      if (got == NULL || g_bytes_get_size (got) < g_bytes_get_size (expected))
        return g_strdup_printf ("the run gave too few bytes for “%s”", want->name);
      difference = compare_elements (want->data_type, g_bytes_get_data (got, NULL),
                                     g_bytes_get_data (expected, NULL), n_elements, &test->tolerance);
      if (difference != NULL)
        return g_strdup_printf ("“%s”: %s", want->name, difference);
    }
  return NULL;
}

/* Whether a 64-bit integer of the case exceeds 32 bits, which is their width on a device. */
static gboolean
has_wide_integers (const Case *test)
{
  for (guint i = 0; i < test->inputs->len + test->outputs->len; i++)
    {
      const CaseTensor *tensor = i < test->inputs->len
                                   ? g_ptr_array_index (test->inputs, i)
                                   : g_ptr_array_index (test->outputs, i - test->inputs->len);
      g_autoptr(GBytes) bytes = NULL;
      gsize n;

      if (!tensor->known || (tensor->data_type != RLX_DATA_TYPE_I64 && tensor->data_type != RLX_DATA_TYPE_U64))
        continue;
      bytes = case_tensor_to_bytes (tensor, 0, NULL);
      n = bytes != NULL ? g_bytes_get_size (bytes) / sizeof (gint64) : 0;
      for (gsize j = 0; j < n; j++)
        {
          gint64 value;

          memcpy (&value, (const char *) g_bytes_get_data (bytes, NULL) + j * sizeof value, sizeof value);
          if (tensor->data_type == RLX_DATA_TYPE_U64
                ? (guint64) value > G_MAXUINT32
                : value < G_MININT32 || value > G_MAXINT32)
            return TRUE;
        }
    }
  return FALSE;
}

static Result
fail_with (const Case *test,
           GError     *error,
           char      **reason)
{
  g_autoptr(GError) owned = error;

  /* rejected by name, as documented: not a wrong result */
  if (g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT) && has_wide_integers (test))
    {
      *reason = g_strdup ("64-bit integers beyond 32 bits");
      return RESULT_UNSUPPORTED;
    }

  *reason = g_strdup_printf ("%s (%s, %d)", error->message, g_quark_to_string (error->domain), error->code);
  return is_unsupported (error) ? RESULT_UNSUPPORTED : RESULT_FAIL;
}

static Result
run_values (const Case *test,
            RlxDevice  *device,
            char      **reason)
{
  g_autoptr(Build) build = build_new (test, device);
  g_auto(GStrv) names = NULL;
  g_autofree RlxTensor **outputs = NULL;
  gsize n_outputs = 0;
  GError *error = NULL;

  if (!build_all (build, &error) || !add_outputs (build, test, reason, &error))
    return error != NULL ? fail_with (test, error, reason) : RESULT_FAIL;

  outputs = build_run (build, &names, &n_outputs, &error);
  if (outputs == NULL)
    return fail_with (test, error, reason);

  *reason = compare_outputs (test, names, outputs, n_outputs, &error);
  for (gsize i = 0; i < n_outputs; i++)
    g_object_unref (outputs[i]);
  if (error != NULL)
    return fail_with (test, error, reason);
  return *reason == NULL ? RESULT_PASS : RESULT_FAIL;
}

static Result
run_shapes (const Case *test,
            char      **reason)
{
  g_autoptr(Build) build = build_new (test, NULL);
  GError *error = NULL;

  if (!build_all (build, &error) ||
      !add_outputs (build, test, reason, &error) ||
      !rlx_graph_check (build_get_graph (build), &error))
    return error != NULL ? fail_with (test, error, reason) : RESULT_FAIL;
  return RESULT_PASS;
}

/* Takes ownership of the error, if there is one. */
static Result
judge_refusal (const Case *test,
               GError     *error,
               char      **reason)
{
  g_autoptr(GError) owned = error;

  if (error == NULL)
    {
      *reason = g_strdup_printf ("the call was accepted: %s", test->name != NULL ? test->name : "");
      return RESULT_FAIL;
    }
  *reason = g_strdup (error->message);
  if (is_unsupported (error))
    return RESULT_UNSUPPORTED;
  return g_error_matches (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_MALFORMED) ? RESULT_FAIL : RESULT_PASS;
}

static Result
run_refusal (const Case *test,
             RlxDevice  *device,
             char      **reason,
             gboolean   *by_mapping)
{
  g_autoptr(Build) build = build_new (test, NULL);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;

  if (build_all (build, &error))
    {
      const CaseOp *last = test->ops->len > 0 ? g_ptr_array_index (test->ops, test->ops->len - 1) : NULL;

      for (guint i = 0; last != NULL && last->outputs[i] != NULL; i++)
        if (last->outputs[i][0] != '\0')
          {
            RlxNode *node = build_get (build, last->outputs[i], NULL);

            if (node != NULL)
              rlx_graph_output (build_get_graph (build), last->outputs[i], node, NULL);
          }
      if (rlx_graph_check (build_get_graph (build), &error))
        executable = rlx_device_compile (device, build_get_graph (build), NULL, NULL, &error);
    }

  *by_mapping = error != NULL && error->domain == CONFORMANCE_ERROR;
  return judge_refusal (test, g_steal_pointer (&error), reason);
}

/* ONNX cases, which either compute values or have to be rejected. */
static Result
run_onnx (const Case *test,
          RlxDevice  *device,
          char      **reason)
{
  g_auto(GStrv) names = NULL;
  g_auto(RlxTensors) outputs = NULL;
  gsize n_outputs = 0;
  GError *error = NULL;

  outputs = onnx_run (test, device, &names, &n_outputs, &error);
  if (test->expect == EXPECT_ERROR)
    return judge_refusal (test, error, reason);
  if (outputs == NULL)
    return fail_with (test, error, reason);
  *reason = compare_outputs (test, names, outputs, n_outputs, &error);
  if (error != NULL)
    return fail_with (test, error, reason);
  return *reason == NULL ? RESULT_PASS : RESULT_FAIL;
}

gboolean
case_needs_device (const Case *test)
{
  return test->expect != EXPECT_SHAPES;
}

Result
run_case (const Case *test,
          RlxDevice  *device,
          char      **reason,
          gboolean   *by_mapping)
{
  *reason = NULL;
  *by_mapping = FALSE;
  if (test->family == FAMILY_GGUF)
    return run_packed (test, device, reason);
  if (test->family == FAMILY_ONNX)
    return run_onnx (test, device, reason);
  if (!check_supported (test, reason))
    return RESULT_UNSUPPORTED;

  switch (test->expect)
    {
    case EXPECT_ERROR:
      return run_refusal (test, device, reason, by_mapping);
    case EXPECT_SHAPES:
      return run_shapes (test, reason);
    default:
      return run_values (test, device, reason);
    }
}
