/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a run takes from the heap: its outputs, and nothing else. Dawn and the
 * driver below it are not counted.
 */
#include "config.h"

#include <dlfcn.h>
#include <string.h>

#include <rlx-wgpu/rlx-wgpu.h>

#define N_RUNS 10
#define MAX_CALLS 4096
#define SIZE 24

/* The elements, their GBytes, the tensor, and the empty GBytes that a new tensor has. */
#define PER_OUTPUT 4

extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);

static gint counting;
static gint n_calls;
static void *callers[MAX_CALLS];

static void
note (void *caller)
{
  if (g_atomic_int_get (&counting))
    {
      int i = g_atomic_int_add (&n_calls, 1);

      if (i < MAX_CALLS)
        callers[i] = caller;
    }
}

void *
malloc (size_t size)
{
  note (__builtin_return_address (0));
  return __libc_malloc (size);
}

void *
calloc (size_t n,
        size_t size)
{
  note (__builtin_return_address (0));
  return __libc_calloc (n, size);
}

void *
realloc (void  *memory,
         size_t size)
{
  note (__builtin_return_address (0));
  return __libc_realloc (memory, size);
}

/* Allocations of GLib count as ours: nothing below us uses it. */
static gboolean
is_ours (void *caller)
{
  static const char *const names[] = { "librlx-wgpu", "libglib-2.0", "libgobject-2.0", "libgio-2.0" };
  Dl_info info;

  if (dladdr (caller, &info) == 0 || info.dli_fname == NULL)
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (strstr (info.dli_fname, names[i]) != NULL)
      return TRUE;
  return FALSE;
}

/* The product of all inputs, its square, the square of that: @n_outputs in all. */
static RlxExecutable *
make_executable (RlxDevice *device,
                 guint      n_inputs,
                 guint      n_outputs)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { SIZE, SIZE };
  RlxNode *y = NULL;
  RlxExecutable *executable;

  for (guint i = 0; i < n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      RlxNode *x = rlx_graph_input (graph, name, RLX_DATA_TYPE_F32, shape, 2, &error);

      y = y ? rlx_node_matmul (y, x, NULL, &error) : x;
    }
  for (guint i = 0; i < n_outputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%u", i);

      y = rlx_node_matmul (y, y, NULL, &error);
      rlx_graph_output (graph, name, y, NULL);
    }
  g_assert_no_error (error);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static void
run (RlxExecutable *executable,
     RlxTensor    **inputs,
     guint          n_inputs)
{
  RlxTensor **outputs;

  g_atomic_int_set (&counting, TRUE);
  outputs = rlx_executable_run (executable, inputs, n_inputs, NULL, NULL, NULL);
  g_atomic_int_set (&counting, FALSE);
  for (gsize i = 0; outputs[i] != NULL; i++)
    g_object_unref (outputs[i]);
  g_free (outputs);
}

static void
check_run (RlxDevice *device,
           guint      n_inputs,
           guint      n_outputs)
{
  g_autoptr(RlxExecutable) executable = make_executable (device, n_inputs, n_outputs);
  g_autoptr(RlxTensor) x = NULL;
  g_autofree RlxTensor **inputs = g_new (RlxTensor *, n_inputs);
  const gint64 shape[] = { SIZE, SIZE };
  float values[SIZE * SIZE] = { 0 };
  guint n_ours = 0;

  x = rlx_tensor_new_from_floats (shape, 2, values, SIZE * SIZE, NULL);
  for (guint i = 0; i < n_inputs; i++)
    inputs[i] = x;
  for (guint i = 0; i < 3; i++)
    run (executable, inputs, n_inputs);

  g_atomic_int_set (&n_calls, 0);
  for (guint i = 0; i < N_RUNS; i++)
    run (executable, inputs, n_inputs);

  g_assert_cmpint (n_calls, <=, MAX_CALLS);
  for (int i = 0; i < n_calls; i++)
    n_ours += is_ours (callers[i]);
  /* the last one is the array of the outputs */
  g_assert_cmpuint (n_ours, >, 0);
  g_assert_cmpuint (n_ours, <=, N_RUNS * (1 + n_outputs * PER_OUTPUT));
}

static void
test_runs (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);

  g_assert_no_error (error);
  check_run (device, 1, 1);
  check_run (device, 1, 3);
  check_run (device, 4, 1);
  check_run (device, 5, 5);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/allocations/runs", test_runs);
  return g_test_run ();
}
