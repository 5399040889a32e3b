/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every call that can block: its asynchronous form, and cancelling it while it
 * waits.
 */
#include "config.h"

#include "rlx-test-executable.h"

#include <glib/gstdio.h>

#include "rlx-ticker-private.h"

/* Long compared with an unobstructed call. */
#define LONG (20 * G_USEC_PER_SEC)

static GAsyncResult *
wait_result (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return *result;
}

/* y = x + p; the state s accumulates y. */
static RlxExecutable *
make_counter (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph =
    rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[2]\n%1 = parameter \"p\" f32[2]\n%2 = state \"s\" f32[2] [1, 1]\n"
                             "%3 = add(%0, %1)\n%4 = add(%2, %3)\nassign %2 %4\noutput \"y\" %3\n", &error);
  g_autoptr(RlxTensor) zero = floats ("f32[2]", (float[]) { 0, 0 });
  RlxExecutable *executable;

  g_assert_no_error (error);
  executable = compile (graph);
  g_assert_true (rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &zero, 1, NULL, &error));
  g_assert_no_error (error);
  return executable;
}

static void
assert_cancelled (GError **error)
{
  g_assert_error (*error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (error);
}

/* ---- opening -------------------------------------------------------------------------- */

static void
test_open (void)
{
  g_autoptr(GAsyncResult) listed = NULL, opened = NULL, chosen = NULL, shared = NULL, refused = NULL;
  g_autoptr(GListModel) adapters = NULL;
  g_autoptr(RlxAdapter) adapter = NULL;
  g_autoptr(RlxDevice) device = NULL, other = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  rlx_adapter_list_async (NULL, rlx_test_keep_result, &listed);
  rlx_device_open_async (NULL, NULL, rlx_test_keep_result, &opened);
  rlx_device_get_default_async (NULL, rlx_test_keep_result, &shared);
  rlx_device_open_async ("no such adapter", NULL, rlx_test_keep_result, &refused);
  adapters = rlx_adapter_list_finish (wait_result (&listed), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (adapters), >, 0);
  device = rlx_device_open_finish (wait_result (&opened), &error);
  g_assert_no_error (error);
  g_assert_nonnull (rlx_device_get_adapter (device));
  g_assert_true (rlx_device_get_default_finish (wait_result (&shared), &error) == rlx_test_device ());
  g_assert_no_error (error);
  g_assert_null (rlx_device_open_finish (wait_result (&refused), &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND);
  g_clear_error (&error);

  adapter = g_list_model_get_item (adapters, 0);
  rlx_device_open_adapter_async (adapter, NULL, rlx_test_keep_result, &chosen);
  other = rlx_device_open_adapter_finish (wait_result (&chosen), &error);
  g_assert_no_error (error);
  g_assert_cmpstr (rlx_adapter_get_name (rlx_device_get_adapter (other)), ==, rlx_adapter_get_name (adapter));

  /* like any object whose construction can fail */
  g_clear_object (&other);
  other = g_initable_new (RLX_TYPE_DEVICE, NULL, &error, "adapter", adapter, NULL);
  g_assert_no_error (error);
  g_assert_true (g_initable_init (G_INITABLE (other), NULL, &error));
}

static void
test_open_cancelled (void)
{
  g_autoptr(GAsyncResult) listed = NULL, opened = NULL, shared = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxAdapter) adapter = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  rlx_adapter_list_async (cancellable, rlx_test_keep_result, &listed);
  rlx_device_open_async (NULL, cancellable, rlx_test_keep_result, &opened);
  rlx_device_get_default_async (cancellable, rlx_test_keep_result, &shared);
  g_cancellable_cancel (cancellable);
  g_assert_null (rlx_adapter_list_finish (wait_result (&listed), &error));
  assert_cancelled (&error);
  g_assert_null (rlx_device_open_finish (wait_result (&opened), &error));
  assert_cancelled (&error);
  g_assert_null (rlx_device_get_default_finish (wait_result (&shared), &error));
  assert_cancelled (&error);

  g_assert_null (rlx_adapter_list (cancellable, &error));
  assert_cancelled (&error);
  g_assert_null (rlx_device_open (NULL, cancellable, &error));
  assert_cancelled (&error);
  adapter = g_object_ref (rlx_device_get_adapter (rlx_test_device ()));
  g_assert_null (rlx_device_open_adapter (adapter, cancellable, &error));
  assert_cancelled (&error);
}

/* ---- executables ------------------------------------------------------------------------ */

/* In sequence, without waiting in between. */
static void
test_in_order (void)
{
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL;
  g_autoptr(GAsyncResult) set = NULL, ran = NULL, read = NULL, written = NULL, named = NULL, reread = NULL, reset = NULL, last = NULL, forked = NULL;
  g_autoptr(RlxTensor) x = floats ("f32[2]", (float[]) { 1, 2 }), p = floats ("f32[2]", (float[]) { 10, 20 });
  g_autoptr(RlxTensor) first = NULL, second = NULL, third = NULL, of_fork = NULL;
  g_auto(RlxTensors) outputs = NULL, more = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = make_counter ();
  rlx_executable_set_parameters_async (executable, (const char *[]) { "p", NULL }, &p, 1, NULL, rlx_test_keep_result, &set);
  rlx_executable_run_async (executable, &x, 1, NULL, rlx_test_keep_result, &ran);
  rlx_executable_read_state_async (executable, "s", NULL, rlx_test_keep_result, &read);
  rlx_executable_write_state_async (executable, "s", x, NULL, rlx_test_keep_result, &written);
  rlx_executable_run_named_async (executable, (const char *[]) { "x", NULL }, &x, 1, NULL, rlx_test_keep_result, &named);
  rlx_executable_read_state_async (executable, "s", NULL, rlx_test_keep_result, &reread);
  rlx_executable_reset_state_async (executable, NULL, rlx_test_keep_result, &reset);
  rlx_executable_read_state_async (executable, "s", NULL, rlx_test_keep_result, &last);

  g_assert_true (rlx_executable_set_parameters_finish (executable, wait_result (&set), &error));
  outputs = rlx_executable_run_finish (executable, wait_result (&ran), NULL, &error);
  first = rlx_executable_read_state_finish (executable, wait_result (&read), &error);
  g_assert_true (rlx_executable_write_state_finish (executable, wait_result (&written), &error));
  more = rlx_executable_run_named_finish (executable, wait_result (&named), NULL, &error);
  second = rlx_executable_read_state_finish (executable, wait_result (&reread), &error);
  g_assert_true (rlx_executable_reset_state_finish (executable, wait_result (&reset), &error));
  third = rlx_executable_read_state_finish (executable, wait_result (&last), &error);
  g_assert_no_error (error);
  assert_values (outputs[0], "[11, 22]");
  assert_values (first, "[12, 23]");
  assert_values (more[0], "[11, 22]");
  assert_values (second, "[12, 24]");
  assert_values (third, "[1, 1]");

  rlx_executable_fork_async (executable, NULL, rlx_test_keep_result, &forked);
  fork = rlx_executable_fork_finish (executable, wait_result (&forked), &error);
  g_assert_no_error (error);
  of_fork = rlx_executable_read_state (fork, "s", NULL, &error);
  assert_values (of_fork, "[1, 1]");
}

/* Errors are reported by the result, not by a warning. */
static void
test_wrong (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GAsyncResult) set = NULL, read = NULL, written = NULL, named = NULL;
  g_autoptr(RlxTensor) x = floats ("f32[3]", (float[]) { 1, 2, 3 });
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = make_counter ();
  rlx_executable_set_parameters_async (executable, (const char *[]) { "q", NULL }, &x, 1, NULL, rlx_test_keep_result, &set);
  g_assert_false (rlx_executable_set_parameters_finish (executable, wait_result (&set), &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  rlx_executable_read_state_async (executable, "p", NULL, rlx_test_keep_result, &read);
  g_assert_null (rlx_executable_read_state_finish (executable, wait_result (&read), &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  rlx_executable_write_state_async (executable, "s", x, NULL, rlx_test_keep_result, &written);
  g_assert_false (rlx_executable_write_state_finish (executable, wait_result (&written), &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  rlx_executable_run_named_async (executable, (const char *[]) { "x", "x", NULL }, (RlxTensor *[]) { x, x }, 2, NULL, rlx_test_keep_result, &named);
  g_assert_null (rlx_executable_run_named_finish (executable, wait_result (&named), NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
}

typedef struct
{
  GMutex mutex;
  GCond cond;
  gboolean open;
} Gate;

/* Keeps the device busy. */
static void
wait_at_gate (RlxGpu  *gpu G_GNUC_UNUSED,
              gpointer data)
{
  Gate *gate = data;

  g_mutex_lock (&gate->mutex);
  while (!gate->open)
    g_cond_wait (&gate->cond, &gate->mutex);
  g_mutex_unlock (&gate->mutex);
}

static void
open_gate (Gate *gate)
{
  g_mutex_lock (&gate->mutex);
  gate->open = TRUE;
  g_cond_signal (&gate->cond);
  g_mutex_unlock (&gate->mutex);
}

static gpointer
cancel_soon (gpointer cancellable)
{
  g_usleep (20 * 1000);
  g_cancellable_cancel (cancellable);
  return NULL;
}

typedef gboolean (*CallFunc) (RlxExecutable *executable,
                              RlxTensor     *value,
                              GCancellable  *cancellable,
                              GError       **error);

static gboolean
call_set_parameters (RlxExecutable *executable,
                     RlxTensor     *value,
                     GCancellable  *cancellable,
                     GError       **error)
{
  return rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &value, 1, cancellable, error);
}

static gboolean
call_write_state (RlxExecutable *executable,
                  RlxTensor     *value,
                  GCancellable  *cancellable,
                  GError       **error)
{
  return rlx_executable_write_state (executable, "s", value, cancellable, error);
}

static gboolean
call_reset_state (RlxExecutable *executable,
                  RlxTensor     *value,
                  GCancellable  *cancellable,
                  GError       **error)
{
  return rlx_executable_reset_state (executable, cancellable, error);
}

static gboolean
call_read_state (RlxExecutable *executable,
                 RlxTensor     *value,
                 GCancellable  *cancellable,
                 GError       **error)
{
  g_autoptr(RlxTensor) read = rlx_executable_read_state (executable, "s", cancellable, error);

  return read != NULL;
}

static gboolean
call_run_named (RlxExecutable *executable,
                RlxTensor     *value,
                GCancellable  *cancellable,
                GError       **error)
{
  g_auto(RlxTensors) outputs = rlx_executable_run_named (executable, (const char *[]) { "x", NULL }, &value, 1, NULL, cancellable, error);

  return outputs != NULL;
}

/* The device is busy with other work for as long as the test wants. */
static void
test_cancel_waiting (void)
{
  static const CallFunc calls[] = { call_set_parameters, call_write_state, call_reset_state, call_read_state, call_run_named };
  g_autoptr(RlxTensor) value = floats ("f32[2]", (float[]) { 5, 5 }), two = floats ("f32[2]", (float[]) { 2, 2 });
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) y = NULL, state = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = make_counter ();
  g_assert_true (rlx_executable_write_state (executable, "s", two, NULL, &error));
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr(GCancellable) cancellable = g_cancellable_new ();
      gint64 start = g_get_monotonic_time ();
      Gate gate = { 0 };
      GThread *thread;

      g_mutex_init (&gate.mutex);
      g_cond_init (&gate.cond);
      rlx_gpu_invoke (rlx_device_get_gpu (rlx_test_device ()), wait_at_gate, &gate);
      thread = g_thread_new ("cancel", cancel_soon, cancellable);
      g_assert_false (calls[i] (executable, value, cancellable, &error));
      assert_cancelled (&error);
      g_assert_cmpint (g_get_monotonic_time () - start, <, LONG);
      g_thread_join (thread);
      open_gate (&gate);
      /* after all queued runs */
      g_clear_object (&state);
      state = rlx_executable_read_state (executable, "s", NULL, &error);
      g_assert_no_error (error);
      g_mutex_clear (&gate.mutex);
      g_cond_clear (&gate.cond);
    }
  /* None of them was executed. */
  assert_values (state, "[2, 2]");
  y = run_one (executable, two);
  assert_values (y, "[2, 2]");
}

static void
test_cancelled_before (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GAsyncResult) set = NULL, forked = NULL;
  g_autoptr(RlxTensor) value = floats ("f32[2]", (float[]) { 5, 5 });
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = make_counter ();
  g_cancellable_cancel (cancellable);
  rlx_executable_set_parameters_async (executable, (const char *[]) { "p", NULL }, &value, 1, cancellable, rlx_test_keep_result, &set);
  g_assert_false (rlx_executable_set_parameters_finish (executable, wait_result (&set), &error));
  assert_cancelled (&error);
  g_assert_null (rlx_executable_fork (executable, cancellable, &error));
  assert_cancelled (&error);
  rlx_executable_fork_async (executable, cancellable, rlx_test_keep_result, &forked);
  g_assert_null (rlx_executable_fork_finish (executable, wait_result (&forked), &error));
  assert_cancelled (&error);
}

/* ---- files -------------------------------------------------------------------------------- */

static void
test_files (void)
{
  g_autofree char *path = NULL;
  g_autoptr(GFile) file = NULL;
  g_autoptr(GAsyncResult) saved = NULL, loaded = NULL, missing = NULL, cancelled = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxTensor) tensor = floats ("f32[2]", (float[]) { 5, 6 }), back = NULL;
  g_autoptr(GError) error = NULL;
  int fd = g_file_open_tmp ("rlx-async-XXXXXX.npy", &path, &error);

  g_assert_no_error (error);
  g_close (fd, NULL);
  file = g_file_new_for_path (path);
  rlx_tensor_save_npy_async (tensor, file, NULL, rlx_test_keep_result, &saved);
  g_assert_true (rlx_tensor_save_npy_finish (tensor, wait_result (&saved), &error));
  g_assert_no_error (error);
  rlx_tensor_load_npy_async (file, NULL, rlx_test_keep_result, &loaded);
  back = rlx_tensor_load_npy_finish (wait_result (&loaded), &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, back));

  g_cancellable_cancel (cancellable);
  rlx_tensor_save_npy_async (tensor, file, cancellable, rlx_test_keep_result, &cancelled);
  g_assert_false (rlx_tensor_save_npy_finish (tensor, wait_result (&cancelled), &error));
  assert_cancelled (&error);
  g_assert_cmpint (g_remove (path), ==, 0);
  rlx_tensor_load_npy_async (file, NULL, rlx_test_keep_result, &missing);
  g_assert_null (rlx_tensor_load_npy_finish (wait_result (&missing), &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
}

/* ---- progress ------------------------------------------------------------------------- */

typedef struct
{
  GThread *thread;
  guint n;
  double last;
  gboolean between;     /* 0 < fraction < 1 was reported */
  gboolean done;
} Told;

static void
note_told (Told  *told,
           double fraction)
{
  g_assert_true (g_thread_self () == told->thread);
  g_assert_false (told->done);
  g_assert_cmpfloat (fraction, >=, told->last);
  g_assert_cmpfloat (fraction, <=, 1.0);
  told->between = told->between || (fraction > 0.0 && fraction < 1.0);
  told->last = fraction;
  told->n++;
}

static void
on_told (RlxDevice  *device G_GNUC_UNUSED,
         double      fraction,
         const char *what,
         Told       *told)
{
  g_assert_true (what != NULL && *what != '\0');
  note_told (told, fraction);
}

static void
on_progress (RlxExecutable *executable,
             GParamSpec    *pspec G_GNUC_UNUSED,
             Told          *told)
{
  note_told (told, rlx_executable_get_progress (executable));
}

static void
on_told_done (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GError) error = NULL;
  Told *told = data;

  if (RLX_IS_DEVICE (source))
    g_assert_true (g_async_initable_init_finish (G_ASYNC_INITABLE (source), result, &error));
  else
    {
      g_auto(RlxTensors) outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, NULL, &error);

      g_assert_nonnull (outputs);
    }
  g_assert_no_error (error);
  told->done = TRUE;
}

/* y = x w w …, with enough products to take a while. */
static RlxExecutable *
long_executable (gint64 size,
                 guint  n_products)
{
  g_autoptr(GString) text = g_string_new ("rlx 1\n");
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;

  g_string_append_printf (text, "%%0 = input \"x\" f32[%d, %d]\n", (int) size, (int) size);
  for (guint i = 0; i < n_products; i++)
    g_string_append_printf (text, "%%%u = matmul(%%%u, %%0)\n", i + 1, i);
  g_string_append_printf (text, "output \"y\" %%%u\n", n_products);
  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);
  return compile (graph);
}

/* Progress is reported in the caller's main context, and before the results. */
static void
test_progress_run (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GBytes) zeros = NULL;
  g_autoptr(GError) error = NULL;
  Told told = { .thread = g_thread_self () };
  gint64 start;

  if (rlx_test_device () == NULL)
    return;
  executable = long_executable (256, 256);
  zeros = g_bytes_new_take (g_malloc0 (256 * 256 * 4), 256 * 256 * 4);
  x = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, RLX_INT_ARRAY (256, 256), zeros, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (rlx_executable_get_progress (executable), ==, 1.0);

  g_signal_connect (executable, "notify::progress", G_CALLBACK (on_progress), &told);
  start = g_get_monotonic_time ();
  rlx_executable_run_async (executable, &x, 1, NULL, on_told_done, &told);
  while (!told.done)
    g_main_context_iteration (NULL, TRUE);
  g_test_message ("told %u times in %" G_GINT64_FORMAT " ms", told.n, (g_get_monotonic_time () - start) / 1000);
  if (g_get_monotonic_time () - start > G_USEC_PER_SEC / 2)
    {
      g_assert_cmpuint (told.n, >=, 2);
      g_assert_true (told.between);
    }
  if (told.n > 0)
    g_assert_cmpfloat (told.last, ==, 1.0);
  g_assert_cmpfloat (rlx_executable_get_progress (executable), ==, 1.0);

  /* A blocking run leaves nothing behind in its main loop. */
  told = (Told) { .thread = g_thread_self (), .done = TRUE };
  rlx_tensors_free (rlx_executable_run (executable, &x, 1, NULL, NULL, &error));
  g_assert_no_error (error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* A short run reports no progress. */
static void
test_progress_short (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  Told told = { .thread = g_thread_self () };
  gint64 start;

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  x = floats ("f32[2,3]", (float[]) { 1, 2, 3, 4, 5, 6 });
  g_object_unref (run_one (executable, x));
  g_signal_connect (executable, "notify::progress", G_CALLBACK (on_progress), &told);
  start = g_get_monotonic_time ();
  rlx_executable_run_async (executable, &x, 1, NULL, on_told_done, &told);
  while (!told.done)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (told.n == 0 || g_get_monotonic_time () - start >= G_USEC_PER_SEC / 10);
}

static void
test_progress_first_calls (void)
{
  Told opening = { .thread = g_thread_self () }, compiling = { .thread = g_thread_self () };
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;
  gint64 start = g_get_monotonic_time ();

  if (rlx_test_device () == NULL)
    return;
  device = g_object_new (RLX_TYPE_DEVICE, "selector", NULL, NULL);
  g_signal_connect (device, "opening", G_CALLBACK (on_told), &opening);
  g_async_initable_init_async (G_ASYNC_INITABLE (device), G_PRIORITY_DEFAULT, NULL, on_told_done, &opening);
  while (!opening.done)
    g_main_context_iteration (NULL, TRUE);
  if (g_get_monotonic_time () - start > G_USEC_PER_SEC / 2)
    g_assert_cmpuint (opening.n, >=, 2);
  if (opening.n > 0)
    g_assert_cmpfloat (opening.last, ==, 1.0);

  graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[64, 64]\n%1 = matmul(%0, %0)\n%2 = softmax(%1) {axis = 1}\n"
                                   "%3 = cumsum(%2) {axis = 0}\n%4 = reduce_max(%3) {axes = [0]}\noutput \"y\" %4\n", &error);
  g_assert_no_error (error);
  g_signal_connect (device, "compiling", G_CALLBACK (on_told), &compiling);
  start = g_get_monotonic_time ();
  rlx_device_compile_async (device, graph, NULL, NULL, rlx_test_keep_result, &result);
  executable = rlx_device_compile_finish (device, wait_result (&result), &error);
  g_assert_no_error (error);
  g_test_message ("told %u times in %" G_GINT64_FORMAT " ms", compiling.n, (g_get_monotonic_time () - start) / 1000);
  if (g_get_monotonic_time () - start > G_USEC_PER_SEC / 2)
    g_assert_cmpuint (compiling.n, >=, 2);
  if (compiling.n > 0)
    g_assert_cmpfloat (compiling.last, ==, 1.0);
}

static void
on_tick (gpointer    object,
         double      fraction,
         const char *what)
{
  Told *told = g_object_get_data (object, "told");

  g_assert_cmpstr (what, ==, told->n < 2 ? "one" : "two");
  note_told (told, fraction);
}

/* Progress counted in another thread is reported here: with a delay, in order, and up to
 * 1 only if it got there. */
static void
test_ticker (void)
{
  g_autoptr(GObject) object = g_object_new (G_TYPE_OBJECT, NULL);
  Told told = { .thread = g_thread_self () };
  RlxTicker *ticker;

  g_object_set_data (object, "told", &told);
  ticker = rlx_ticker_start (g_main_context_default (), object, on_tick);
  rlx_ticker_set (ticker, "one", 0, 4);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (told.n, ==, 0);
  g_atomic_int_inc (rlx_ticker_count (ticker));
  while (told.n < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpfloat (told.last, ==, 0.25);
  rlx_ticker_set (ticker, "two", 3, 4);
  g_main_context_iteration (NULL, TRUE);
  g_assert_cmpfloat (told.last, ==, 0.75);
  rlx_ticker_stop (ticker, TRUE);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (told.n, ==, 4);
  g_assert_cmpfloat (told.last, ==, 1.0);

  /* One that fails, and one that ends before anything was reported. */
  told = (Told) { .thread = g_thread_self (), .n = 2 };
  ticker = rlx_ticker_start (g_main_context_default (), object, on_tick);
  rlx_ticker_set (ticker, "two", 1, 2);
  while (told.n < 3)
    g_main_context_iteration (NULL, TRUE);
  rlx_ticker_stop (ticker, FALSE);
  rlx_ticker_stop (rlx_ticker_start (g_main_context_default (), object, on_tick), TRUE);
  rlx_ticker_stop (NULL, TRUE);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (told.n, ==, 3);
  g_assert_cmpfloat (told.last, ==, 0.5);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/async/open", test_open);
  g_test_add_func ("/async/open-cancelled", test_open_cancelled);
  g_test_add_func ("/async/in-order", test_in_order);
  g_test_add_func ("/async/wrong", test_wrong);
  g_test_add_func ("/async/cancel-waiting", test_cancel_waiting);
  g_test_add_func ("/async/cancelled-before", test_cancelled_before);
  g_test_add_func ("/async/files", test_files);
  g_test_add_func ("/async/progress-run", test_progress_run);
  g_test_add_func ("/async/progress-short", test_progress_short);
  g_test_add_func ("/async/progress-first-calls", test_progress_first_calls);
  g_test_add_func ("/async/ticker", test_ticker);

  return g_test_run ();
}
