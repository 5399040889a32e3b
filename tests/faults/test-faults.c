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

#define MAX_PER_POINT 10
#define MAX_ANYWHERE 60

/* How often something is submitted while a graph is first compiled on a device: with
 * parameters, nothing is computed there. */
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
  y = rlx_node_matmul (x, rlx_graph_constant (graph, weights, &error), &error);
  y = rlx_node_softmax (rlx_node_add (y, rlx_node_exp (p, &error), &error), -1, &error);
  rlx_graph_output (graph, "y", y);
  rlx_graph_output (graph, "sum", rlx_node_reduce_sum (y, (gint64[]) { 0 }, 1, &error));
  g_assert_no_error (error);
  return graph;
}

/* Both outputs in one, so that they can be compared at once. */
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
  executable = rlx_device_compile (device, graph, NULL, error);
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

/* @result is right, or there is an error. */
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
  device = rlx_device_open (NULL, &error);
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

  /* A loss is only known for sure to who asks for something. */
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
  device = rlx_device_open (NULL, &error);
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

/* Calls of @point that are let go wrong, about evenly spread when there are many. */
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
      /* Nobody waits for a result of what is only there to be compiled ahead. */
      if (must_fail && rlx_fault_happened () && failed + (kind == RLX_FAULT_DROPPED ? n_ahead : 0) < tried)
        g_error ("%s at %s number %u made no difference", rlx_fault_kind_name (kind), rlx_fault_point_name (point), i);
    }
  g_test_message ("%s at %s: %u of %u calls tried, %u failed", rlx_fault_kind_name (kind), rlx_fault_point_name (point), tried, n, failed);
  /* How often is waited, and for what, is a matter of time; waits for an error
   * that did not come are among those that make no difference. */
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
  /* asked in several ways, of which one is enough */
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

/* One run, in which the @nth call at @point goes wrong. */
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
  if (kind != RLX_FAULT_NONE)
    {
      g_assert_true (rlx_fault_happened ());
      g_assert_null (outputs);
      g_assert_error (error, RLX_DEVICE_ERROR, code);
      return;
    }
  g_assert_no_error (error);
  for (gsize i = 0; i < n; i++)
    {
      gsize n_floats;
      g_autofree float *y = rlx_tensor_get_floats (outputs[i], &n_floats);

      for (guint j = 0; j < 4; j++)
        g_assert_cmpfloat (y[j], ==, values[j] + values[j]);
      g_object_unref (outputs[i]);
    }
  g_free (outputs);
}

/* A run says what the matter was, and the next one knows nothing of it. */
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
    /* the input, and the numbers that tell whether a job got to its end */
    { RLX_FAULT_AT_QueueWriteBuffer, 1, RLX_FAULT_REFUSED, RLX_DEVICE_ERROR_INTERNAL },
    { RLX_FAULT_AT_QueueWriteBuffer, 2, RLX_FAULT_REFUSED, RLX_DEVICE_ERROR_INTERNAL },
    { RLX_FAULT_AT_QueueSubmit, 1, RLX_FAULT_DROPPED, RLX_DEVICE_ERROR_INTERNAL },
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { 4 };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL);

  rlx_fault_disarm ();
  device = rlx_device_open (NULL, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", rlx_node_add (x, x, NULL));
  executable = rlx_device_compile (device, graph, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    for (guint j = 0; j < G_N_ELEMENTS (faults); j++)
      {
        /* those numbers are only sent again after a failure */
        if (faults[i].nth > 1)
          continue;
        check_run (executable, faults[i].point, faults[i].nth, faults[i].kind, faults[i].code);
        check_run (executable, faults[j].point, faults[j].nth, faults[j].kind, faults[j].code);
        check_run (executable, RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE, 0);
        check_run (executable, RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE, 0);
      }
}

/* Work that the driver loses without a word, and memory that is not there. */
static void
test_silence (void)
{
  try_point (RLX_FAULT_AT_QueueSubmit, RLX_FAULT_DROPPED, TRUE);
  try_point (RLX_FAULT_AT_BufferGetConstMappedRange, RLX_FAULT_NULL, TRUE);
}

/* A wait that ends too early is no reason to fail; one that fails may be. */
static void
test_waits (void)
{
  try_point (RLX_FAULT_AT_InstanceWaitAny, RLX_FAULT_LATE, FALSE);
  try_point (RLX_FAULT_AT_InstanceWaitAny, RLX_FAULT_REFUSED, FALSE);
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

/* A device that is being closed on its thread when the process ends gets to the
 * end of it. */
static void
test_exit_while_closing (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxDevice) device = NULL;
      g_autoptr(GBytes) result = NULL;

      /* The first to be registered, it is the last to be called. */
      atexit (check_at_exit);
      rlx_fault_arm (RLX_FAULT_ANYWHERE, 0, RLX_FAULT_NONE);
      device = rlx_device_open (NULL, &error);
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
  g_test_add_func ("/faults/waits", test_waits);
  g_test_add_func ("/faults/exit-while-closing", test_exit_while_closing);

  return g_test_run ();
}
