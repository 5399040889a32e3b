/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors that stay on the device, with every transfer counted.
 */
#include "config.h"

#include "rlx-apply-private.h"
#include "rlx-tensor-device-private.h"
#include "rlx-test-executable.h"

#include <math.h>
#include <string.h>

#define LARGE (1 << 20)      /* elements: far too large to be kept for the next tensor */

static RlxGpuCounters
count (void)
{
  RlxGpuCounters counters;

  rlx_gpu_get_counters (rlx_device_get_gpu (rlx_test_device ()), &counters);
  return counters;
}

/* y = x · @factor + 1, element-wise. */
static RlxExecutable *
affine (RlxDevice  *device,
        RlxDataType data_type,
        gint64      n,
        double      factor)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  RlxNode *x = rlx_graph_input (graph, "x", data_type, &n, 1, &error);
  RlxNode *y = rlx_node_mul (x, rlx_graph_scalar (graph, data_type, factor, &error), &error);
  RlxExecutable *executable;

  y = rlx_node_add (y, rlx_graph_scalar (graph, data_type, 1, &error), &error);
  rlx_graph_output (graph, "y", y, &error);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static RlxTensor *
stay (RlxExecutable *executable,
      RlxTensor     *x)
{
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = rlx_executable_run_on_device (executable, &x, 1, NULL, NULL, &error);

  g_assert_no_error (error);
  return g_object_ref (outputs[0]);
}

/* A chain of 100 runs: one upload, one read-back, one wait. */
static void
test_chain (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;
  RlxGpuCounters before, after;

  if (rlx_test_device () == NULL)
    return;
  executable = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 4, 0.5);
  x = floats ("f32[4]", (float[]) { 0, 1, 2, 1000 });

  before = count ();
  for (guint i = 0; i < 100; i++)
    {
      RlxTensor *y = stay (executable, x);

      g_object_unref (x);
      x = y;
    }
  after = count ();
  g_assert_true (rlx_tensor_get_device (x) == rlx_test_device ());
  g_assert_cmpuint (after.uploads - before.uploads, ==, 1);
  g_assert_cmpuint (after.uploaded_bytes - before.uploaded_bytes, ==, 16);
  g_assert_cmpuint (after.downloads, ==, before.downloads);
  g_assert_cmpuint (after.waits, ==, before.waits);
  /* Tensors pass memory on to the next ones; at most 16 runs wait in the queue. */
  g_assert_cmpuint (after.buffers - before.buffers, <=, 20);

  g_assert_true (rlx_tensor_fetch (x, NULL, &error));
  g_assert_no_error (error);
  after = count ();
  g_assert_cmpuint (after.downloads - before.downloads, ==, 1);
  g_assert_cmpuint (after.downloaded_bytes - before.downloaded_bytes, ==, 16);
  g_assert_cmpuint (after.waits - before.waits, ==, 1);
  assert_values (x, "[2, 2, 2, 2]");

  /* Fetched data is not fetched again. */
  g_assert_true (rlx_tensor_fetch (x, NULL, &error));
  g_assert_cmpuint (count ().downloads, ==, after.downloads);
}

/* More runs than are queued on the GPU at a time. */
static void
test_many (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  RlxGpuCounters before, after;

  if (rlx_test_device () == NULL)
    return;
  executable = affine (rlx_test_device (), RLX_DATA_TYPE_I32, 2, 1);
  x = rlx_test_tensor ("i32[2]", (double[]) { 0, 7 });
  before = count ();
  for (guint i = 0; i < 1000; i++)
    {
      RlxTensor *y = stay (executable, x);

      g_object_unref (x);
      x = y;
    }
  after = count ();
  g_assert_cmpuint (after.waits - before.waits, <, 1000 / 16);
  g_assert_cmpuint (after.downloads, ==, before.downloads);
  assert_values (x, "[1000, 1007]");
}

/* Two networks in sequence, and a third that reads both: without read-backs in between. */
static void
test_models (void)
{
  g_autoptr(RlxExecutable) first = NULL, second = NULL, sum = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxTensor) x = NULL, a = NULL, b = NULL;
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;
  RlxGpuCounters before, after;
  const gint64 n = 20000;

  if (rlx_test_device () == NULL)
    return;
  first = affine (rlx_test_device (), RLX_DATA_TYPE_F32, n, 2);
  second = affine (rlx_test_device (), RLX_DATA_TYPE_F32, n, 3);
  rlx_graph_output (graph, "sum", rlx_node_add (rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, &n, 1, NULL),
                                                rlx_graph_input (graph, "b", RLX_DATA_TYPE_F32, &n, 1, NULL), NULL), NULL);
  sum = compile (graph);
  x = rlx_test_random ("f32[20000]", -1, 1, 1);

  before = count ();
  a = stay (first, x);
  b = stay (second, a);
  outputs = rlx_executable_run (sum, (RlxTensor *[]) { a, b }, 2, NULL, NULL, &error);
  g_assert_no_error (error);
  after = count ();
  g_assert_cmpuint (after.uploaded_bytes - before.uploaded_bytes, ==, n * 4);
  g_assert_cmpuint (after.downloaded_bytes - before.downloaded_bytes, ==, n * 4);
  for (guint i = 0; i < n; i += 97)
    {
      double v = rlx_tensor_get_value (x, i);

      g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (outputs[0], i), (2 * v + 1) * 4 + 1, 1e-5);
    }
}

/* A tensor used again is not uploaded again, and stays out of memory that the run could have reused. */
static void
test_again (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, equal = NULL, y = NULL, z = NULL;
  guint64 uploaded;

  if (rlx_test_device () == NULL)
    return;
  executable = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 4, 2);
  x = floats ("f32[4]", (float[]) { 1, 2, 3, 4 });
  equal = floats ("f32[4]", (float[]) { 5, 6, 7, 8 });
  y = run_one (executable, x);
  uploaded = count ().uploaded_bytes;
  for (guint i = 0; i < 5; i++)
    {
      g_autoptr(RlxTensor) same = run_one (executable, x);

      g_assert_true (rlx_tensor_equal (same, y));
    }
  g_assert_cmpuint (count ().uploaded_bytes, ==, uploaded);
  z = run_one (executable, equal);
  assert_values (z, "[11, 13, 15, 17]");
  g_assert_cmpuint (count ().uploaded_bytes, ==, uploaded + 16);
  g_clear_object (&y);
  y = run_one (executable, x);
  assert_values (y, "[3, 5, 7, 9]");
}

/* Computations on new parameters reuse the memory of inputs. */
static void
test_prologue (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;
  const gint64 n = 4;
  RlxNode *p;

  if (rlx_test_device () == NULL)
    return;
  p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, &n, 1, NULL);
  /* Several steps that depend on parameters only. */
  p = rlx_node_cumsum (rlx_node_cumsum (p, 0, NULL, NULL), 0, NULL, NULL);
  rlx_graph_output (graph, "y", rlx_node_add (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, &n, 1, NULL), p, NULL), NULL);
  executable = compile (graph);
  x = floats ("f32[4]", (float[]) { 100, 200, 300, 400 });
  for (guint i = 1; i <= 3; i++)
    {
      g_autoptr(RlxTensor) value = floats ("f32[4]", (float[]) { i, i, i, i }), y = NULL;
      g_autofree char *text = g_strdup_printf ("[%u, %u, %u, %u]", 100 + i, 200 + 3 * i, 300 + 6 * i, 400 + 10 * i);

      g_assert_true (rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &value, 1, NULL, &error));
      y = run_one (executable, x);
      assert_values (y, text);
    }
}

/* Counted as long as it exists, and not a moment longer. */
static void
test_memory (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, up = NULL, y = NULL, reshaped = NULL, small = NULL;
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_test_device ();
  guint64 before, uploaded;

  if (device == NULL)
    return;
  executable = affine (device, RLX_DATA_TYPE_F32, LARGE, 2);
  x = rlx_test_random ("f32[1048576]", -1, 1, 1);
  y = stay (executable, x);
  g_clear_object (&y);
  before = rlx_device_get_memory_used (device);

  up = rlx_device_upload (device, x, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_get_device (up) == device);
  g_assert_null (rlx_tensor_get_device (x));
  g_assert_cmpuint (rlx_device_get_memory_used (device), ==, before + LARGE * 4);
  uploaded = count ().uploaded_bytes;
  y = stay (executable, up);
  g_assert_cmpuint (count ().uploaded_bytes, ==, uploaded);
  g_assert_cmpuint (rlx_device_get_memory_used (device), ==, before + 2 * LARGE * 4);

  reshaped = rlx_tensor_reshape (y, (gint64[]) { 1024, 1024 }, 2, &error);
  g_assert_no_error (error);
  g_clear_object (&y);
  g_clear_object (&up);
  g_assert_cmpuint (rlx_device_get_memory_used (device), ==, before + LARGE * 4);
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (reshaped, 5), 2 * rlx_tensor_get_value (x, 5) + 1, 1e-6);
  g_clear_object (&reshaped);

  /* Small ones are kept for reuse, and count as free. The staging buffer of the fetch may be kept, too. */
  before = rlx_device_get_memory_used (device);
  small = rlx_test_tensor ("f32[2]", (double[]) { 1, 2 });
  up = rlx_device_upload (device, small, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_device_get_memory_used (device), >, before);
  g_clear_object (&up);
  g_assert_cmpuint (rlx_device_get_memory_used (device), <=, before + (128 << 10));
}

/* Each type makes a round trip, also 64-bit integers and odd sizes. */
static void
test_types (void)
{
  static const char *const types[] = {
    "f32[3]", "f16[3]", "i32[3]", "u32[3]", "i8[3]", "u8[5]", "bool[3]", "i64[3]", "u64[3]", "f32[]", "f32[0]", "u8[1]"
  };
  const double values[] = { 1, 0, 1, 1, 0 };

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr(RlxTensor) given = rlx_test_tensor (types[i], values), up = NULL;
      g_autoptr(RlxGraph) graph = rlx_graph_new ();
      g_autoptr(RlxExecutable) executable = NULL;
      g_autoptr(GError) error = NULL;
      g_auto(RlxTensors) kept = NULL, back = NULL;
      gsize n_dims, n_outputs;
      const gint64 *shape = rlx_tensor_get_shape (given, &n_dims);
      RlxNode *x = rlx_graph_input (graph, "x", rlx_tensor_get_data_type (given), shape, n_dims, &error);

      rlx_graph_output (graph, "y", rlx_node_identity (x, &error), &error);
      g_assert_no_error (error);
      executable = compile (graph);
      up = rlx_device_upload (rlx_test_device (), given, NULL, &error);
      g_assert_no_error (error);
      kept = rlx_executable_run_on_device (executable, &up, 1, &n_outputs, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (n_outputs, ==, 1);
      g_assert_cmpuint (rlx_tensor_get_size (kept[0]), ==, rlx_tensor_get_size (given));
      back = rlx_executable_run (executable, kept, 1, NULL, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (rlx_tensor_equal (back[0], given));
      g_assert_true (rlx_tensor_equal (kept[0], given));
    }
}

/* Runs that nobody waits for update the states, and inputs in host memory are not
 * overwritten under them. */
static void
test_order (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) zeros = NULL, total = NULL;
  g_autoptr(GError) error = NULL;
  const gint64 n = 65536;
  RlxNode *x, *s;

  if (rlx_test_device () == NULL)
    return;
  zeros = rlx_test_random ("f32[65536]", 0, 0, 1);
  x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, &n, 1, NULL);
  s = rlx_graph_state (graph, "s", zeros, NULL);
  rlx_graph_assign (graph, s, rlx_node_add (s, x, NULL), NULL);
  rlx_graph_output (graph, "y", rlx_node_add (s, x, NULL), NULL);
  executable = compile (graph);
  for (guint i = 1; i <= 20; i++)
    {
      g_autofree float *values = g_new (float, n);
      g_autoptr(RlxTensor) given = NULL, y = NULL;

      for (guint j = 0; j < n; j++)
        values[j] = (float) i;
      given = rlx_tensor_new_from_floats (&n, 1, values, n, NULL);
      y = stay (executable, given);
    }
  total = rlx_executable_read_state (executable, "s", NULL, &error);
  g_assert_no_error (error);
  for (guint j = 0; j < n; j++)
    g_assert_cmpfloat (rlx_tensor_get_value (total, j), ==, 210);

  /* A state is not written while a run that nobody waits for reads it. */
  for (guint i = 0; i < 10; i++)
    {
      g_autoptr(RlxTensor) y = stay (executable, zeros);

      g_assert_true (rlx_executable_write_state (executable, "s", zeros, NULL, &error));
      g_assert_cmpfloat (rlx_tensor_get_value (y, n - 1), ==, i == 0 ? 210 : 0);
    }
}

typedef struct
{
  RlxTensor *tensor;
  GError *error;
} Failure;

static void
fail (RlxGpu  *gpu G_GNUC_UNUSED,
      gpointer data)
{
  Failure *failure = data;

  rlx_tensor_set_failed (failure->tensor, failure->error);
}

/* An error in a run that nobody waits for is reported to users of its outputs, and to nobody else. */
static void
test_left (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL, wrong = NULL, after = NULL, right = NULL;
  g_autoptr(GError) error = NULL;
  Failure failure = { .error = g_error_new (RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY, "there was none left") };

  if (rlx_test_device () == NULL)
    return;
  executable = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 2, 2);
  x = floats ("f32[2]", (float[]) { 1, 2 });
  failure.tensor = y = stay (executable, x);
  rlx_gpu_invoke_sync (rlx_device_get_gpu (rlx_test_device ()), fail, &failure);
  /* At least two that nobody waits for, in sequence. */
  wrong = stay (executable, y);
  after = stay (executable, wrong);
  right = stay (executable, x);

  g_assert_false (rlx_tensor_fetch (after, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (error->message, ==, "“y” could not be fetched from the device: there was none left");
  g_clear_error (&error);
  g_assert_null (rlx_executable_run (executable, &wrong, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  g_assert_cmpstr (error->message, ==, "input “x”: there was none left");
  g_clear_error (&error);
  g_assert_true (rlx_tensor_fetch (right, NULL, &error));
  assert_values (right, "[3, 5]");
  g_clear_error (&failure.error);
}

/* A run with a state is waited for: if it failed, its state would lack a step, and only its outputs would say so. */
static void
test_left_state (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[2]\n%1 = state \"sum\" f32[2] [0, 0]\n%2 = add(%0, %1)\n"
                                                       "assign %1 %2\noutput \"y\" %2\n", &error);
  g_autoptr(RlxExecutable) executable = NULL, first = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL, sum = NULL;
  g_auto(RlxTensors) outputs = NULL;
  Failure failure = { .error = g_error_new (RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY, "there was none left") };

  if (rlx_test_device () == NULL)
    return;
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  first = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 2, 2);
  x = floats ("f32[2]", (float[]) { 1, 2 });
  sum = stay (executable, x);
  failure.tensor = y = stay (first, x);
  rlx_gpu_invoke_sync (rlx_device_get_gpu (rlx_test_device ()), fail, &failure);

  outputs = rlx_executable_run_on_device (executable, &y, 1, NULL, NULL, &error);
  g_assert_null (outputs);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  g_clear_error (&failure.error);
}

/* ---- asynchronous calls ------------------------------------------------------------------- */

typedef struct
{
  GMainLoop *loop;
  RlxTensor *tensor;
  GError *error;
} Wait;

static void
on_run (GObject      *source,
        GAsyncResult *result,
        gpointer      data)
{
  Wait *wait = data;
  g_auto(RlxTensors) outputs = rlx_executable_run_on_device_finish (RLX_EXECUTABLE (source), result, NULL, &wait->error);

  wait->tensor = outputs != NULL ? g_object_ref (outputs[0]) : NULL;
  g_main_loop_quit (wait->loop);
}

static void
on_upload (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  Wait *wait = data;

  wait->tensor = rlx_device_upload_finish (RLX_DEVICE (source), result, &wait->error);
  g_main_loop_quit (wait->loop);
}

static void
on_fetch (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  Wait *wait = data;

  g_assert_true (rlx_tensor_fetch_finish (RLX_TENSOR (source), result, &wait->error) == (wait->error == NULL));
  g_main_loop_quit (wait->loop);
}

static void
test_async (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, up = NULL, y = NULL;
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GCancellable) cancelled = g_cancellable_new ();
  Wait wait = { .loop = loop };

  if (rlx_test_device () == NULL)
    return;
  executable = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 2, 2);
  x = floats ("f32[2]", (float[]) { 1, 2 });
  rlx_device_upload_async (rlx_test_device (), x, NULL, on_upload, &wait);
  g_main_loop_run (loop);
  g_assert_no_error (wait.error);
  up = g_steal_pointer (&wait.tensor);
  rlx_executable_run_on_device_async (executable, &up, 1, NULL, on_run, &wait);
  g_main_loop_run (loop);
  g_assert_no_error (wait.error);
  y = g_steal_pointer (&wait.tensor);

  g_cancellable_cancel (cancelled);
  rlx_tensor_fetch_async (y, cancelled, on_fetch, &wait);
  g_main_loop_run (loop);
  g_assert_error (wait.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&wait.error);
  g_assert_false (rlx_tensor_fetch (y, cancelled, &wait.error));
  g_assert_error (wait.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&wait.error);

  rlx_tensor_fetch_async (y, NULL, on_fetch, &wait);
  g_main_loop_run (loop);
  g_assert_no_error (wait.error);
  assert_values (y, "[3, 5]");
  rlx_tensor_fetch_async (y, NULL, on_fetch, &wait);
  g_main_loop_run (loop);
  g_assert_no_error (wait.error);

  g_assert_null (rlx_device_upload (rlx_test_device (), x, cancelled, &wait.error));
  g_assert_error (wait.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&wait.error);
}

/* ---- errors ----------------------------------------------------------------------------- */

static void
test_other_device (void)
{
  g_autoptr(RlxDevice) other = NULL;
  g_autoptr(RlxExecutable) here = NULL, there = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL, up = NULL;
  g_autoptr(GError) error = NULL;
  RlxTensor **outputs;

  if (rlx_test_device () == NULL)
    return;
  other = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  here = affine (rlx_test_device (), RLX_DATA_TYPE_F32, 2, 2);
  there = affine (other, RLX_DATA_TYPE_F32, 2, 2);
  x = floats ("f32[2]", (float[]) { 1, 2 });
  y = stay (here, x);
  outputs = rlx_executable_run (there, &y, 1, NULL, NULL, &error);
  g_assert_null (outputs);
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "“x” is on another device"));
  g_clear_error (&error);

  /* Once fetched, it can go anywhere. */
  up = rlx_device_upload (other, y, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_get_device (up) == other);
  outputs = rlx_executable_run (there, &y, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_values (outputs[0], "[7, 11]");
  rlx_tensors_free (outputs);
}

static void
test_lost (void)
{
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL, z = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  if (rlx_test_device () == NULL)
    return;
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  executable = affine (device, RLX_DATA_TYPE_F32, 2, 2);
  x = floats ("f32[2]", (float[]) { 1, 2 });
  y = stay (executable, x);
  z = stay (executable, y);
  g_assert_true (rlx_tensor_fetch (y, NULL, &error));
  rlx_gpu_force_loss (rlx_device_get_gpu (device), "pulled out");
  while (!rlx_device_get_lost (device))
    g_usleep (1000);

  g_assert_false (rlx_tensor_fetch (z, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_assert_nonnull (strstr (error->message, "“y”"));
  g_assert_nonnull (strstr (error->message, "pulled out"));
  g_clear_error (&error);
  g_assert_null (rlx_executable_run_on_device (executable, &z, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_assert_nonnull (strstr (error->message, "“x”"));
  g_clear_error (&error);
  g_assert_null (rlx_device_upload (device, x, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  g_assert_null (rlx_graph_constant (graph, z, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);

  /* Calls without a GError argument. */
  g_assert_null (rlx_tensor_get_bytes (z));
  g_assert_true (isnan (rlx_tensor_get_value (z, 0)));
  g_assert_false (rlx_tensor_equal (z, z));
  text = rlx_tensor_to_string (z);
  g_assert_nonnull (strstr (text, "pulled out"));
  /* Data fetched before is still there. */
  assert_values (y, "[3, 5]");
}

/* ---- operators without a graph ------------------------------------------------------------- */

static RlxTensor *
apply (const char *op,
       RlxTensor **inputs,
       gsize       n_inputs,
       const char *attributes)
{
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;
  gsize n_outputs;

  outputs = rlx_device_apply (rlx_test_device (), op, inputs, n_inputs,
                              attributes != NULL ? g_variant_new_parsed (attributes) : NULL, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_outputs, >=, 1);
  return g_object_ref (outputs[0]);
}

/* Compiled once per kind of call; results are not read back until requested. */
static void
test_apply (void)
{
  g_autoptr(RlxTensor) a = NULL, b = NULL, product = NULL, sum = NULL, axis = NULL;
  RlxGpuCounters before, after;
  RlxApplyCache *cache;
  guint length;

  if (rlx_test_device () == NULL)
    return;
  cache = rlx_device_get_apply_cache (rlx_test_device ());
  length = rlx_apply_cache_get_length (cache);
  a = floats ("f32[2,2]", (float[]) { 1, 2, 3, 4 });
  b = floats ("f32[2,2]", (float[]) { 1, 0, 0, 2 });
  product = apply ("matmul", (RlxTensor *[]) { a, b }, 2, NULL);
  g_assert_true (rlx_tensor_get_device (product) == rlx_test_device ());
  sum = apply ("add", (RlxTensor *[]) { product, a }, 2, NULL);
  assert_values (sum, "[2, 6, 6, 12]");
  axis = apply ("reduce_sum", &sum, 1, "{'axes': <[int64 0]>}");
  assert_values (axis, "[8, 18]");
  g_clear_object (&axis);
  axis = apply ("reduce_sum", &sum, 1, "{'axes': <[int64 1]>}");
  assert_values (axis, "[8, 18]");
  g_assert_cmpuint (rlx_apply_cache_get_length (cache), ==, length + 4);

  before = count ();
  for (guint i = 0; i < 5; i++)
    {
      g_clear_object (&product);
      product = apply ("matmul", (RlxTensor *[]) { i % 2 ? a : b, b }, 2, NULL);
    }
  after = count ();
  g_assert_cmpuint (rlx_apply_cache_get_length (cache), ==, length + 4);
  g_assert_cmpuint (after.shader_modules, ==, before.shader_modules);
  g_assert_cmpuint (after.bind_groups, ==, before.bind_groups);
  g_assert_cmpuint (after.downloads, ==, before.downloads);
  assert_values (product, "[1, 0, 0, 4]");
}

/* Limited in number, and the oldest are dropped first. */
static void
test_apply_bounded (void)
{
  RlxApplyCache *cache;

  if (rlx_test_device () == NULL)
    return;
  cache = rlx_device_get_apply_cache (rlx_test_device ());
  for (gint64 n = 1; n <= 150; n++)
    {
      g_autofree float *values = g_new0 (float, n);
      g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats (&n, 1, values, (gsize) n, NULL), y = apply ("cos", &x, 1, NULL);

      if (n % 50 == 0)
        g_assert_cmpfloat (rlx_tensor_get_value (y, n - 1), ==, 1);
    }
  g_assert_cmpuint (rlx_apply_cache_get_length (cache), ==, 128);
}

static void
on_apply (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  Wait *wait = data;
  g_auto(RlxTensors) outputs = rlx_device_apply_finish (RLX_DEVICE (source), result, NULL, &wait->error);

  wait->tensor = outputs != NULL ? g_object_ref (outputs[0]) : NULL;
  g_main_loop_quit (wait->loop);
}

static void
test_apply_errors (void)
{
  g_autoptr(RlxTensor) a = NULL, b = NULL;
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = NULL;
  g_auto(RlxTensors) outputs = NULL;
  Wait wait = { .loop = loop };

  if (rlx_test_device () == NULL)
    return;
  a = floats ("f32[2]", (float[]) { 1, 2 });
  b = floats ("f32[3]", (float[]) { 1, 2, 3 });
  g_assert_null (rlx_device_apply (rlx_test_device (), "add", (RlxTensor *[]) { a, b }, 2, NULL, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (rlx_device_apply (rlx_test_device (), "ad", (RlxTensor *[]) { a, a }, 2, NULL, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_null (rlx_device_apply (rlx_test_device (), "add", (RlxTensor *[]) { a, NULL }, 2, NULL, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_null (rlx_device_apply (rlx_test_device (), "constant", NULL, 0, NULL, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_UNSUPPORTED);
  g_clear_error (&error);

  rlx_device_apply_async (rlx_test_device (), "add", (RlxTensor *[]) { a, a }, 2, NULL, NULL, on_apply, &wait);
  g_main_loop_run (loop);
  g_assert_no_error (wait.error);
  assert_values (wait.tensor, "[2, 4]");
  g_clear_object (&wait.tensor);

  /* The device's caches do not keep it alive. */
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_device_apply (device, "add", (RlxTensor *[]) { a, a }, 2, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_values (outputs[0], "[2, 4]");
  rlx_tensors_free (g_steal_pointer (&outputs));
  g_object_add_weak_pointer (G_OBJECT (device), (gpointer *) &device);
  g_object_unref (device);
  g_assert_null (device);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/on-device/chain", test_chain);
  g_test_add_func ("/on-device/many", test_many);
  g_test_add_func ("/on-device/models", test_models);
  g_test_add_func ("/on-device/again", test_again);
  g_test_add_func ("/on-device/prologue", test_prologue);
  g_test_add_func ("/on-device/memory", test_memory);
  g_test_add_func ("/on-device/types", test_types);
  g_test_add_func ("/on-device/order", test_order);
  g_test_add_func ("/on-device/left", test_left);
  g_test_add_func ("/on-device/left/state", test_left_state);
  g_test_add_func ("/on-device/async", test_async);
  g_test_add_func ("/on-device/other-device", test_other_device);
  g_test_add_func ("/on-device/lost", test_lost);
  g_test_add_func ("/on-device/apply", test_apply);
  g_test_add_func ("/on-device/apply/bounded", test_apply_bounded);
  g_test_add_func ("/on-device/apply/errors", test_apply_errors);

  return g_test_run ();
}
