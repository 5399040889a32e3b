/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * States that several executables share: one writes what another reads.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include <string.h>

/* 1 MiB, so that it is visible in the device's memory usage. */
#define N (1 << 18)

static RlxDevice *
open_device (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);

  g_assert_no_error (error);
  return device;
}

static RlxTensor *
filled (gint64 n,
        float  value)
{
  g_autofree float *values = g_new (float, (gsize) n);

  for (gint64 i = 0; i < n; i++)
    values[i] = value;
  return rlx_tensor_new_from_floats (&n, 1, values, (gsize) n, NULL);
}

/* "s" is increased by "x" in each run, "t" by 1. */
static RlxExecutable *
make_writer (RlxDevice *device)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { N };
  g_autoptr(RlxTensor) zero = filled (N, 0), one = filled (N, 1);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, &error);
  RlxNode *s = rlx_graph_state (graph, "s", zero, &error), *t = rlx_graph_state (graph, "t", zero, &error);
  RlxExecutable *executable;

  rlx_graph_assign (graph, s, rlx_node_add (s, x, &error), &error);
  rlx_graph_assign (graph, t, rlx_node_add (t, rlx_graph_constant (graph, one, &error), &error), &error);
  rlx_graph_output (graph, "y", x, &error);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

/* y = 2 · s + t, with states of size @n and the type of @initial. */
static RlxExecutable *
make_reader (RlxDevice *device,
             RlxTensor *initial)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  RlxNode *s = rlx_graph_state (graph, "s", initial, &error), *t = rlx_graph_state (graph, "t", initial, &error);
  RlxExecutable *executable;

  rlx_graph_output (graph, "y", rlx_node_add (rlx_node_add (s, s, &error), t, &error), &error);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static void
write_one (RlxExecutable *writer,
           float          x)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) input = filled (N, x);
  g_auto(RlxTensors) outputs = rlx_executable_run (writer, &input, 1, NULL, NULL, &error);

  g_assert_no_error (error);
}

/* All elements are equal. */
static void
assert_reads (RlxExecutable *reader,
              float          expected)
{
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = rlx_executable_run (reader, NULL, 0, NULL, NULL, &error);
  const float *values;
  gsize size;

  g_assert_no_error (error);
  values = g_bytes_get_data (rlx_tensor_get_bytes (outputs[0]), &size);
  for (gsize i = 0; i < size / sizeof (float); i++)
    g_assert_cmpfloat (values[i], ==, expected);
}

static void
assert_state (RlxExecutable *executable,
              const char    *name,
              float          expected)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) value = rlx_executable_read_state (executable, name, NULL, &error);
  const float *values;

  g_assert_no_error (error);
  values = g_bytes_get_data (rlx_tensor_get_bytes (value), NULL);
  g_assert_cmpfloat (values[0], ==, expected);
  g_assert_cmpfloat (values[N - 1], ==, expected);
}

static void
share (RlxExecutable *reader,
       RlxExecutable *writer,
       const char    *name)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxState) state = rlx_executable_dup_state (writer, name, &error);

  g_assert_no_error (error);
  rlx_executable_bind_state (reader, name, state, NULL, &error);
  g_assert_no_error (error);
}

static void
test_one_writes_another_reads (void)
{
  RlxDevice *device = open_device ();
  g_autoptr(RlxTensor) initial = filled (N, 100), value = NULL;
  g_autoptr(RlxExecutable) writer = make_writer (device), reader = make_reader (device, initial), fork = NULL;
  g_autoptr(GError) error = NULL;

  write_one (writer, 1);
  assert_reads (reader, 300);
  share (reader, writer, "s");
  /* the earlier contents, and t is still separate */
  assert_reads (reader, 102);
  write_one (writer, 2);
  write_one (writer, 3);
  assert_reads (reader, 112);
  share (reader, writer, "t");
  assert_reads (reader, 15);

  /* Written explicitly on one side, read on the other. */
  value = filled (N, 7);
  rlx_executable_write_state (reader, "s", value, NULL, &error);
  g_assert_no_error (error);
  assert_state (writer, "s", 7);
  write_one (writer, 1);
  assert_state (reader, "s", 8);

  /* A fork has its own states, even those that were shared. */
  fork = rlx_executable_fork (reader, NULL, &error);
  g_assert_no_error (error);
  assert_reads (fork, 300);
  assert_reads (reader, 20);
}

static guint64
get_used (RlxDevice *device)
{
  return rlx_device_get_memory_used (device);
}

static void
test_memory_is_there_once (void)
{
  RlxDevice *device = open_device ();
  guint64 start = get_used (device), apart, together;
  g_autoptr(RlxTensor) initial = filled (N, 0);
  RlxExecutable *writer = make_writer (device), *reader = make_reader (device, initial);
  g_autoptr(GError) error = NULL;
  RlxState *state;

  write_one (writer, 1);
  assert_reads (reader, 0);
  apart = get_used (device);
  share (reader, writer, "s");
  together = get_used (device);
  g_assert_cmpuint (apart - together, ==, N * sizeof (float));
  /* Sharing again changes nothing. */
  share (reader, writer, "s");
  g_assert_cmpuint (get_used (device), ==, together);
  assert_reads (reader, 2);

  /* First the reader keeps it alive, then the object. */
  state = rlx_executable_dup_state (writer, "s", &error);
  g_clear_object (&writer);
  assert_reads (reader, 2);
  g_clear_object (&reader);
  g_assert_cmpuint (get_used (device), ==, start + N * sizeof (float));
  reader = make_reader (device, initial);
  rlx_executable_bind_state (reader, "s", state, NULL, &error);
  g_assert_no_error (error);
  assert_reads (reader, 2);
  g_clear_object (&reader);
  g_clear_object (&state);
  g_assert_cmpuint (get_used (device), ==, start);
}

static void
on_done (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static void
test_in_order (void)
{
  RlxDevice *device = open_device ();
  g_autoptr(RlxTensor) initial = filled (N, 0), x = filled (N, 1);
  g_autoptr(RlxExecutable) writer = make_writer (device), reader = make_reader (device, initial);
  g_autoptr(RlxState) state = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) result = NULL;

  state = rlx_executable_dup_state (writer, "s", &error);
  g_assert_no_error (error);
  /* Runs submitted before are in progress while it is bound; those after it use it. */
  for (guint i = 0; i < 20; i++)
    rlx_executable_run_async (writer, &x, 1, NULL, NULL, NULL);
  rlx_executable_bind_state_async (reader, "s", state, NULL, on_done, &result);
  for (guint i = 0; i < 20; i++)
    rlx_executable_run_async (writer, &x, 1, NULL, NULL, NULL);
  assert_reads (reader, 80);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (rlx_executable_bind_state_finish (reader, result, &error));
  g_assert_no_error (error);
}

static void
test_what_does_not_fit (void)
{
  RlxDevice *device = open_device ();
  g_autoptr(RlxTensor) initial = filled (N, 0), shorter = filled (N - 1, 0), whole = NULL;
  g_autoptr(RlxExecutable) writer = make_writer (device), reader = make_reader (device, initial);
  g_autoptr(RlxExecutable) small = make_reader (device, shorter), integers = NULL, foreign = NULL;
  g_autoptr(RlxState) state = NULL, other = NULL;
  g_autoptr(RlxDevice) second = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GError) error = NULL;
  g_autofree gint64 *zeros = g_new0 (gint64, N);
  const gint64 shape[] = { N };

  g_assert_null (rlx_executable_dup_state (writer, "u", &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  state = rlx_executable_dup_state (writer, "s", &error);
  g_assert_no_error (error);
  g_assert_false (rlx_executable_bind_state (reader, "u", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);

  g_assert_false (rlx_executable_bind_state (small, "s", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_assert_cmpstr (error->message, ==, "State “s” of the graph is f32[262143]; the one that was given is f32[262144]");
  g_clear_error (&error);
  whole = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, shape, 1, zeros, N, &error);
  g_assert_no_error (error);
  integers = make_reader (device, whole);
  g_assert_false (rlx_executable_bind_state (integers, "s", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE);
  g_clear_error (&error);

  /* The same memory under two names would be written while it is read. */
  rlx_executable_bind_state (reader, "t", state, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (rlx_executable_bind_state (reader, "s", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (rlx_executable_bind_state (writer, "t", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  g_cancellable_cancel (cancellable);
  g_assert_false (rlx_executable_bind_state (reader, "s", state, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);

  second = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  foreign = make_reader (second, initial);
  g_assert_false (rlx_executable_bind_state (foreign, "s", state, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "another device"));
  g_clear_error (&error);

  /* None of this changed anything. */
  write_one (writer, 1);
  assert_reads (reader, 1);
  assert_reads (small, 0);
  assert_reads (foreign, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/states/one-writes-another-reads", test_one_writes_another_reads);
  g_test_add_func ("/states/memory-is-there-once", test_memory_is_there_once);
  g_test_add_func ("/states/in-order", test_in_order);
  g_test_add_func ("/states/what-does-not-fit", test_what_does_not_fit);
  return g_test_run ();
}
