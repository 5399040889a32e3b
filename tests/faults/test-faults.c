/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A device is opened, a graph compiled and run, and on the way one call to Dawn
 * goes wrong: each one in turn, in every way it can. The result must be right to
 * the last bit, or there must be an error; afterwards the device still works,
 * unless it says that it is lost, and a new one works in any case.
 *
 * With `-m thorough` it is every single call, otherwise a choice of them.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-fault.h"
#include "util/rlx-half-private.h"

/* Many of these calls are made at the same place. */
#ifdef __SANITIZE_ADDRESS__
#define MAX_PER_POINT 3
#define MAX_ANYWHERE 30
#else
#define MAX_PER_POINT 6
#define MAX_ANYWHERE 40
#endif

/* The number of submits while a graph is first compiled on a device: with parameters,
 * nothing is computed there. */
static guint n_ahead;
static GBytes *right;
/* Calls in the part of a round in which the fault may happen. */
static guint n_calls;

static RlxGraph *
make_graph (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) weights = NULL;
  RlxGraph *graph = rlx_graph_new ();
  const gint64 shape[] = { 5, 7 }, weights_shape[] = { 7, 6 };
  float values[42];
  RlxNode *x, *p, *y;

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float) ((int) (i * 7 % 11) - 5) / 8;
  weights = rlx_tensor_new_from_floats (weights_shape, 2, values, G_N_ELEMENTS (values), &error);
  x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, &error);
  p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, &weights_shape[1], 1, &error);
  y = rlx_node_matmul (x, rlx_graph_constant (graph, weights, &error), NULL, &error);
  y = rlx_node_softmax (rlx_node_add (y, rlx_node_exp (p, &error), &error), -1, &error);
  rlx_graph_output (graph, "y", y, NULL);
  rlx_graph_output (graph, "sum", rlx_node_reduce_sum (y, (gint64[]) { 0 }, 1, NULL, &error), &error);
  g_assert_no_error (error);
  return graph;
}

/* Both outputs joined, so that they can be compared at once. */
static GBytes *
compute (RlxDevice *device,
         gboolean   profile,
         GError   **error)
{
  g_autoptr(RlxGraph) graph = make_graph ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, p = NULL;
  g_autofree RlxTensor **outputs = NULL;
  const gint64 shape[] = { 5, 7 }, parameter_shape[] = { 6 };
  float values[35];
  GByteArray *bytes;
  guint n_before;
  gsize n;

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float) (i * 5 % 13) / 4;
  x = rlx_tensor_new_from_floats (shape, 2, values, G_N_ELEMENTS (values), NULL);
  p = rlx_tensor_new_from_floats (parameter_shape, 1, values, 6, NULL);

  n_before = rlx_fault_count (RLX_FAULT_AT_QueueSubmit);
  executable = rlx_device_compile (device, graph, NULL, NULL, error);
  if (executable == NULL)
    return NULL;
  if (rlx_fault_count (RLX_FAULT_AT_QueueSubmit) > n_before)
    n_ahead = rlx_fault_count (RLX_FAULT_AT_QueueSubmit) - n_before;
  if (!rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &p, 1, NULL, error))
    return NULL;
  rlx_executable_set_profiling (executable, profile);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, error);
  if (outputs == NULL)
    return NULL;
  bytes = g_byte_array_new ();
  for (gsize i = 0; i < n; i++)
    {
      GBytes *one = rlx_tensor_get_bytes (outputs[i]);
      gsize size;
      gconstpointer data = g_bytes_get_data (one, &size);

      g_byte_array_append (bytes, data, (guint) size);
      g_object_unref (outputs[i]);
    }
  return g_byte_array_free_to_bytes (bytes);
}

static void
check_error (const GError *error,
             const char   *what)
{
  if (error == NULL)
    g_error ("%s: it failed without an error", what);
  if (error->domain != RLX_DEVICE_ERROR && error->domain != RLX_COMPILE_ERROR)
    g_error ("%s: the error is of domain %s: %s", what, g_quark_to_string (error->domain), error->message);
  if (error->message[0] == '\0' || !g_utf8_validate (error->message, -1, NULL))
    g_error ("%s: the error has no good message", what);
}

/* @result is correct, or there is an error. */
static gboolean
check_result (GBytes       *result,
              const GError *error,
              const char   *what)
{
  if (result == NULL)
    {
      check_error (error, what);
      return FALSE;
    }
  if (error != NULL)
    g_error ("%s: there is a result and an error: %s", what, error->message);
  if (!g_bytes_equal (result, right))
    g_error ("%s: the result is wrong, and nobody said so", what);
  return TRUE;
}

/* A round in which the fault may happen, and one in which it does not. */
static gboolean
round_trip (RlxFaultPoint point,
            guint         nth,
            RlxFaultKind  kind)
{
  g_autofree char *what = g_strdup_printf ("%s at %s number %u", rlx_fault_kind_name (kind), rlx_fault_point_name (point), nth);
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(GBytes) result = NULL, again = NULL;
  g_autoptr(GError) error = NULL, error_again = NULL;
  gboolean good, lost;

  rlx_fault_arm (point, nth, kind);
  device = rlx_device_open (NULL, NULL, &error);
  if (device == NULL)
    {
      check_error (error, what);
      rlx_fault_disarm ();
      return FALSE;
    }
  result = compute (device, TRUE, &error);
  n_calls = rlx_fault_count (point);
  good = check_result (result, error, what);
  rlx_fault_disarm ();

  /* Only a further request is sure to notice a loss. */
  again = compute (device, FALSE, &error_again);
  lost = g_error_matches (error_again, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  if (!check_result (again, error_again, what) && !lost)
    g_error ("%s: the device does not work any more: %s", what, error_again->message);
  if (lost && !rlx_device_get_lost (device))
    g_error ("%s: the device is lost without saying so", what);
  if (lost && kind != RLX_FAULT_LOSS)
    g_error ("%s: that is no reason for a loss: %s", what, error_again->message);
  return good;
}

static void
find_right_result (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = NULL;
  float last;
  gsize size;

  if (right != NULL)
    return;
  rlx_fault_arm (RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE);
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  right = compute (device, TRUE, &error);
  g_assert_no_error (error);
  for (RlxFaultPoint point = 0; point <= RLX_FAULT_N_POINTS; point++)
    g_test_message ("%-34s %4u", rlx_fault_point_name (point), rlx_fault_count (point));
  /* the sums over the rows of a softmax add up to the number of rows */
  last = 0;
  for (guint i = 0; i < 6; i++)
    last += ((const float *) g_bytes_get_data (right, &size))[30 + i];
  g_assert_cmpuint (size, ==, 36 * sizeof (float));
  g_assert_cmpfloat_with_epsilon (last, 5, 1e-5);
}

/* Calls at @point that fail, about evenly spread if there are many. */
static void
try_point (RlxFaultPoint point,
           RlxFaultKind  kind,
           gboolean      must_fail)
{
  guint n, max = point == RLX_FAULT_ANYWHERE ? MAX_ANYWHERE : MAX_PER_POINT, tried = 0, failed = 0;

  find_right_result ();
  g_assert_true (round_trip (point, 0, RLX_FAULT_NONE));
  n = n_calls;
  if (n == 0)
    g_error ("%s is never called", rlx_fault_point_name (point));

  for (guint i = 1; i <= n; i = g_test_thorough () || n <= max ? i + 1 : MAX (i + 1, tried * n / max))
    {
      tried++;
      failed += !round_trip (point, i, kind);
      /* Nobody waits for the result of what is only compiled ahead. */
      if (must_fail && rlx_fault_happened () && failed + (kind == RLX_FAULT_DROPPED ? n_ahead : 0) < tried)
        g_error ("%s at %s number %u made no difference", rlx_fault_kind_name (kind), rlx_fault_point_name (point), i);
    }
  g_test_message ("%s at %s: %u of %u calls tried, %u failed", rlx_fault_kind_name (kind), rlx_fault_point_name (point), tried, n, failed);
  /* How often it waits, and for what, depends on timing; waits for an error that did not
   * occur are among those that make no difference. */
  if (failed == 0 && point != RLX_FAULT_AT_InstanceWaitAny)
    g_error ("%s at %s: no call failed", rlx_fault_kind_name (kind), rlx_fault_point_name (point));
}

static void
test_loss (void)
{
  try_point (RLX_FAULT_ANYWHERE, RLX_FAULT_LOSS, FALSE);
}

static void
test_loss_while_running (void)
{
  try_point (RLX_FAULT_AT_QueueSubmit, RLX_FAULT_LOSS, TRUE);
  try_point (RLX_FAULT_AT_BufferMapAsync, RLX_FAULT_LOSS, TRUE);
  try_point (RLX_FAULT_AT_BufferGetConstMappedRange, RLX_FAULT_LOSS, TRUE);
}

static void
test_refused (void)
{
  const RlxFaultPoint points[] = {
    RLX_FAULT_AT_DeviceCreateBindGroupLayout, RLX_FAULT_AT_DeviceCreatePipelineLayout,
    RLX_FAULT_AT_DeviceCreateShaderModule, RLX_FAULT_AT_DeviceCreateComputePipelineAsync,
    RLX_FAULT_AT_DeviceCreateBindGroup, RLX_FAULT_AT_DeviceCreateQuerySet,
    RLX_FAULT_AT_CommandEncoderCopyBufferToBuffer, RLX_FAULT_AT_CommandEncoderResolveQuerySet,
    RLX_FAULT_AT_ComputePassEncoderSetPipeline, RLX_FAULT_AT_ComputePassEncoderSetBindGroup,
    RLX_FAULT_AT_ComputePassEncoderDispatchWorkgroups, RLX_FAULT_AT_ComputePassEncoderEnd,
    RLX_FAULT_AT_QueueWriteBuffer, RLX_FAULT_AT_BufferMapAsync,
    RLX_FAULT_AT_AdapterRequestDevice,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (points); i++)
    try_point (points[i], RLX_FAULT_REFUSED, FALSE);
  /* queried in several ways, one of which suffices */
  find_right_result ();
  for (guint i = 1; i <= 6; i++)
    round_trip (RLX_FAULT_AT_InstanceRequestAdapter, i, RLX_FAULT_REFUSED);
}

static void
test_buffers (void)
{
  try_point (RLX_FAULT_AT_DeviceCreateBuffer, RLX_FAULT_REFUSED, FALSE);
  try_point (RLX_FAULT_AT_DeviceCreateBuffer, RLX_FAULT_NULL, FALSE);
}

static void
test_reported (void)
{
  const RlxFaultPoint points[] = {
    RLX_FAULT_AT_DeviceCreateBuffer, RLX_FAULT_AT_DeviceCreateBindGroup, RLX_FAULT_AT_DeviceCreateShaderModule,
    RLX_FAULT_AT_QueueWriteBuffer, RLX_FAULT_AT_QueueSubmit, RLX_FAULT_AT_CommandEncoderFinish,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (points); i++)
    {
      try_point (points[i], RLX_FAULT_VALIDATION, FALSE);
      try_point (points[i], RLX_FAULT_MEMORY, FALSE);
    }
}

/* ---- a driver that miscompiles ---- */

static RlxTensor *
make_halves (gint64       rows,
             gint64       columns,
             const float *values)
{
  const gint64 shape[] = { rows, columns };
  gsize n = (gsize) (rows * columns);
  g_autofree guint16 *halves = g_new (guint16, n);
  RlxTensor *tensor;

  for (gsize i = 0; i < n; i++)
    halves[i] = rlx_half_from_float (values[i]);
  tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_F16, shape, 2, (const guint8 *) halves, n * sizeof (guint16), NULL);
  g_assert_nonnull (tensor);
  return tensor;
}

/* Three results of 16-bit floats, in which each element is the sum of its row and column
 * numbers, and not 0. */
static void
check_three (RlxDevice *device)
{
  enum { ROWS = 13, COLUMNS = 19 };
  static const guint widths[] = { 6, 9, 4 };
  const gint64 shape[] = { ROWS, 2 };
  float rows[ROWS * 2], columns[2 * COLUMNS];
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, w = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  guint first = 0;
  gsize n;

  for (guint i = 0; i < ROWS; i++)
    {
      rows[i * 2] = (float) i;
      rows[i * 2 + 1] = 1;
    }
  for (guint i = 0; i < COLUMNS; i++)
    {
      columns[i] = 1;
      columns[COLUMNS + i] = (float) i + 1;
    }
  x = make_halves (ROWS, 2, rows);
  w = make_halves (2, COLUMNS, columns);
  results = rlx_node_qkv_linear (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F16, shape, 2, &error),
                                 rlx_graph_constant (graph, w, &error), NULL, widths[0], widths[1], NULL, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 3);
  rlx_graph_output (graph, "q", results[0], NULL);
  rlx_graph_output (graph, "k", results[1], NULL);
  rlx_graph_output (graph, "v", results[2], NULL);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  g_assert_no_error (error);

  for (guint o = 0; o < 3; first += widths[o], o++)
    {
      for (guint i = 0; i < ROWS * widths[o]; i++)
        g_assert_cmpfloat (rlx_tensor_get_value (outputs[o], i), ==, i / widths[o] + first + i % widths[o] + 1);
      g_object_unref (outputs[o]);
    }
}

/* A device that computes wrong results is not returned, or without the feature concerned. */
static void
test_miscompiled (void)
{
  static const struct
  {
    const char *pattern, *other;
    RlxDeviceFeatures lost;
    const char *message;    /* of the error, if there must be one */
  } faults[] = {
    { "2654435761u", "2654435763u", 0, "arithmetic" },
    { "f32\\(x & 255u\\)", "f32(x & 127u)", 0, "arithmetic" },
    /* Stores to the third of several results: those of some columns, or rows, or all. They
     * are lost in other kernels as well. */
    { "y2(_0)?\\[(\\w+)\\] = ", "if ((\\2 % 4u) != 1u) { return; } \\0", RLX_DEVICE_FEATURES_F16, NULL },
    { "y2(_0)?\\[(\\w+)\\] = ", "if (\\2 > 50u) { return; } \\0", RLX_DEVICE_FEATURES_F16, NULL },
    { "y2(_0)?\\[(\\w+)\\] = ", "let lost = ", RLX_DEVICE_FEATURES_F16, NULL },
    /* Those of a loop in a branch. */
    { "(?s)0\\.5h.*if \\(row < sizes.x\\) \\{\\s*for [^{]*\\{", "\\0 if (col > 15u) { continue; }", RLX_DEVICE_FEATURES_F16, NULL },
    /* Of any width, if they are done with words as well. */
    { "y2\\[i\\] = [^;]*;|atomicOr\\(&y2\\[i[^;]*;", ";", 0, "halves of words" },
    /* Here the kernel for 16-bit floats even becomes invalid. */
    { "y0\\[i\\] = [^;]*;|atomicAnd\\(&y0\\[i[^;]*;", "atomicOr(&y0[i >> 1u], 64u << s);", 0, "halves of words" },
    { "subgroupAdd\\(a", "subgroupMax(a", RLX_DEVICE_FEATURES_SUBGROUPS | RLX_DEVICE_FEATURES_SUBGROUP_MATRIX, NULL },
    { "dot4U8Packed\\(a\\[i\\]", "dot4U8Packed(1u + a[i]", RLX_DEVICE_FEATURES_PACKED_DOT, NULL },
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) good = rlx_device_open (NULL, NULL, &error);
  RlxDeviceFeatures features;

  g_assert_no_error (error);
  features = rlx_device_get_features (good);
  check_three (good);

  for (gsize i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_autoptr(RlxDevice) device = NULL;

      g_test_message ("“%s” is taken for “%s”", faults[i].pattern, faults[i].other);
      if ((faults[i].lost & ~features) != 0)
        continue;
      rlx_fault_miscompile (faults[i].pattern, faults[i].other);
      device = rlx_device_open (NULL, NULL, &error);
      g_assert_cmpuint (rlx_fault_n_miscompiled (), >, 0);
      if (faults[i].message != NULL)
        {
          g_assert_null (device);
          g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER);
          g_assert_nonnull (strstr (error->message, "fails the self-test"));
          g_assert_nonnull (strstr (error->message, faults[i].message));
          g_clear_error (&error);
        }
      else
        {
          g_assert_no_error (error);
          g_assert_cmphex (rlx_device_get_features (device), ==, features & ~faults[i].lost);
          check_three (device);
        }
      rlx_fault_miscompile (NULL, NULL);
    }

  /* The result is not remembered. */
  g_clear_object (&good);
  good = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmphex (rlx_device_get_features (good), ==, features);
}

static RlxExecutable *
compile_doubling (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  RlxExecutable *executable;
  const gint64 shape[] = { 4 };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL);

  rlx_fault_disarm ();
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", rlx_node_add (x, x, NULL), NULL);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

/* A run in which the @nth call at @point fails; it returns the error @code, unless that is 0. */
static void
check_run (RlxExecutable *executable,
           RlxFaultPoint  point,
           guint          nth,
           RlxFaultKind   kind,
           int            code)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = NULL;
  RlxTensor **outputs;
  const gint64 shape[] = { 4 };
  const float values[] = { 1, 2, 3, 4 };
  gsize n;

  x = rlx_tensor_new_from_floats (shape, 1, values, 4, NULL);
  rlx_fault_arm (point, nth, kind);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  rlx_fault_disarm ();
  g_assert_true (rlx_fault_happened () == (kind != RLX_FAULT_NONE));
  if (code != 0)
    {
      g_assert_null (outputs);
      g_assert_error (error, RLX_DEVICE_ERROR, code);
      return;
    }
  g_assert_no_error (error);
  for (gsize i = 0; i < n; i++)
    {
      gsize n_floats;
      g_autofree float *y = rlx_tensor_to_floats (outputs[i], &n_floats, NULL);

      for (guint j = 0; j < 4; j++)
        g_assert_cmpfloat (y[j], ==, values[j] + values[j]);
      g_object_unref (outputs[i]);
    }
  g_free (outputs);
}

/* A run reports its failure, and the next one is not affected. */
static void
test_codes (void)
{
  static const struct
  {
    RlxFaultPoint point;
    guint nth;
    RlxFaultKind kind;
    int code;
  } faults[] = {
    { RLX_FAULT_AT_QueueSubmit, 1, RLX_FAULT_VALIDATION, RLX_DEVICE_ERROR_INTERNAL },
    { RLX_FAULT_AT_QueueSubmit, 1, RLX_FAULT_MEMORY, RLX_DEVICE_ERROR_OUT_OF_MEMORY },
    { RLX_FAULT_AT_BufferMapAsync, 1, RLX_FAULT_MEMORY, RLX_DEVICE_ERROR_OUT_OF_MEMORY },
    { RLX_FAULT_AT_BufferUnmap, 1, RLX_FAULT_VALIDATION, RLX_DEVICE_ERROR_INTERNAL },
    /* the input, and the counters that tell whether a job was completed */
    { RLX_FAULT_AT_QueueWriteBuffer, 1, RLX_FAULT_REFUSED, RLX_DEVICE_ERROR_INTERNAL },
    { RLX_FAULT_AT_QueueWriteBuffer, 2, RLX_FAULT_REFUSED, RLX_DEVICE_ERROR_INTERNAL },
    { RLX_FAULT_AT_QueueSubmit, 1, RLX_FAULT_DROPPED, RLX_DEVICE_ERROR_INTERNAL },
  };
  g_autoptr(RlxExecutable) executable = compile_doubling ();

  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    for (guint j = 0; j < G_N_ELEMENTS (faults); j++)
      {
        /* those counters are only sent again after a failure */
        if (faults[i].nth > 1)
          continue;
        check_run (executable, faults[i].point, faults[i].nth, faults[i].kind, faults[i].code);
        check_run (executable, faults[j].point, faults[j].nth, faults[j].kind, faults[j].code);
        check_run (executable, RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE, 0);
        check_run (executable, RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE, 0);
      }
}

/* Work that the driver drops silently, and memory that is missing. */
static void
test_silence (void)
{
  try_point (RLX_FAULT_AT_QueueSubmit, RLX_FAULT_DROPPED, TRUE);
  try_point (RLX_FAULT_AT_BufferGetConstMappedRange, RLX_FAULT_NULL, TRUE);
}

/* A wait that returns early is no reason to fail; one that fails may be. */
static void
test_waits (void)
{
  try_point (RLX_FAULT_AT_InstanceWaitAny, RLX_FAULT_LATE, FALSE);
  try_point (RLX_FAULT_AT_InstanceWaitAny, RLX_FAULT_REFUSED, FALSE);
}

/* A process that is stopped for longer than the time-out loses nothing. */
static void
test_stopped (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autofree char *timeout = g_strdup_printf ("%g", RLX_FAULT_STOP_MS * 0.8e-3);

  g_setenv ("RLX_TIMEOUT", timeout, TRUE);
  executable = compile_doubling ();
  check_run (executable, RLX_FAULT_AT_InstanceWaitAny, 1, RLX_FAULT_STOPPED, 0);
  check_run (executable, RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE, 0);
  g_unsetenv ("RLX_TIMEOUT");
}

static guint n_living;

static void
check_at_exit (void)
{
  if (rlx_fault_count (RLX_FAULT_AT_BufferRelease) == n_living)
    return;
  g_printerr ("%u of %u buffers were released\n", rlx_fault_count (RLX_FAULT_AT_BufferRelease), n_living);
  _exit (1);
}

/* A device that is being closed in its thread when the process ends is closed completely. */
static void
test_exit_while_closing (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxDevice) device = NULL;
      g_autoptr(GBytes) result = NULL;

      /* Registered first, it is called last. */
      atexit (check_at_exit);
      rlx_fault_arm (RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE);
      device = rlx_device_open (NULL, NULL, &error);
      g_assert_no_error (error);
      result = compute (device, FALSE, &error);
      g_assert_no_error (error);
      g_clear_pointer (&result, g_bytes_unref);
      n_living = rlx_fault_count (RLX_FAULT_AT_DeviceCreateBuffer) - rlx_fault_count (RLX_FAULT_AT_BufferRelease);
      g_assert_cmpuint (n_living, >, 1);
      rlx_fault_arm (RLX_FAULT_AT_BufferRelease, 1, RLX_FAULT_SLOW);
      g_clear_object (&device);
      while (!rlx_fault_happened ())
        g_usleep (100);
      exit (EXIT_SUCCESS);
    }

  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

static void
check_idle_at_exit (void)
{
  if (!rlx_fault_is_busy ())
    return;
  g_printerr ("the driver is at work while it is taken apart\n");
  _exit (1);
}

/* Not compiled by any driver before, and not compiled quickly. */
static gpointer
compile_much (gpointer device)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  const gint64 shape[] = { 64 };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, &error), *y = x;

  for (guint i = 0; i < 12; i++)
    y = rlx_node_pow (rlx_node_tan (rlx_node_add (y, x, &error), &error), rlx_node_erf (y, &error), &error);
  rlx_graph_output (graph, "y", y, &error);
  g_assert_no_error (error);
  /* It may get an error because the process is ending. */
  executable = rlx_device_compile (device, graph, NULL, NULL, NULL);
  return NULL;
}

/* Drivers that compile in threads of their own have finished before their compiler is torn down. */
static void
test_exit_while_compiling (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr(GError) error = NULL;
      RlxDevice *device;

      g_setenv ("MESA_SHADER_CACHE_DISABLE", "true", TRUE);
      /* Registered first, it is called last. */
      atexit (check_idle_at_exit);
      device = rlx_device_open (NULL, NULL, &error);
      g_assert_no_error (error);
      rlx_fault_arm (RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE);
      g_thread_unref (g_thread_new ("compiler", compile_much, device));
      while (rlx_fault_count (RLX_FAULT_AT_QueueSubmit) == 0)
        g_usleep (100);
      exit (EXIT_SUCCESS);
    }

  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/faults/loss", test_loss);
  g_test_add_func ("/faults/loss-while-running", test_loss_while_running);
  g_test_add_func ("/faults/refused", test_refused);
  g_test_add_func ("/faults/buffers", test_buffers);
  g_test_add_func ("/faults/reported", test_reported);
  g_test_add_func ("/faults/codes", test_codes);
  g_test_add_func ("/faults/silence", test_silence);
  g_test_add_func ("/faults/miscompiled", test_miscompiled);
  g_test_add_func ("/faults/waits", test_waits);
  g_test_add_func ("/faults/stopped", test_stopped);
  g_test_add_func ("/faults/exit-while-closing", test_exit_while_closing);
  g_test_add_func ("/faults/exit-while-compiling", test_exit_while_compiling);

  return g_test_run ();
}
