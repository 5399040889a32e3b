/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-test-gpu.h"

#include <stdlib.h>

static const char add_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  if (id.x < arrayLength(&b)) { b[id.x] = b[id.x] + a[id.x]; }\n"
  "}\n";

/* Never ends unless the buffer is written to. */
static const char hang_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<atomic<u32>>;\n"
  "@compute @workgroup_size(1) fn main() {\n"
  "  loop { if (atomicLoad(&b[0]) == a[0] + 77u) { break; } }\n"
  "}\n";

/* ---- loss --------------------------------------------------------------- */

typedef struct
{
  gint n_calls;
  gint n_destroyed;
  char *reason;
  GMutex lock;
} Lost;

static void
on_lost (const char *reason,
         gpointer    user_data)
{
  Lost *lost = user_data;

  g_mutex_lock (&lost->lock);
  lost->n_calls++;
  g_free (lost->reason);
  lost->reason = g_strdup (reason);
  g_mutex_unlock (&lost->lock);
}

static void
lost_destroy (gpointer user_data)
{
  Lost *lost = user_data;

  g_atomic_int_inc (&lost->n_destroyed);
}

static void
do_nothing (RlxGpu  *gpu G_GNUC_UNUSED,
            gpointer user_data G_GNUC_UNUSED)
{
}

static void
test_loss (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  guint32 input[64] = { 0 }, output[64];
  RlxGpuPipelineDesc desc = { "too late", add_wgsl, read_write_pair, 2, NULL };
  RlxGpuPipeline *pipeline;
  RlxGpuBinding bindings[2];
  Lost lost = { 0 };
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 64);
  check_twice (&kernel, 1);
  g_assert_true (rlx_gpu_check_lost (gpu, &error));
  rlx_gpu_set_lost_func (gpu, on_lost, &lost, lost_destroy);

  rlx_gpu_force_loss (gpu, "the test says so");
  g_assert_true (rlx_gpu_is_lost (gpu));

  memset (output, 0xaa, sizeof output);
  g_assert_false (run_kernel (&kernel, input, output, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_assert_nonnull (strstr (error->message, "the test says so"));
  g_assert_cmpuint (output[0], ==, 0xaaaaaaaau);
  g_clear_error (&error);

  g_assert_false (rlx_gpu_check_lost (gpu, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  g_assert_null (rlx_gpu_buffer_new (gpu, 64, RLX_GPU_BUFFER_STORAGE, "late", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  g_assert_false (rlx_gpu_buffer_write (gpu, kernel.a, 0, input, sizeof input, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  bindings[0] = (RlxGpuBinding) { kernel.a, 0, 64 };
  bindings[1] = (RlxGpuBinding) { kernel.b, 0, 64 };
  g_assert_null (rlx_gpu_bind_group_new (gpu, kernel.pipeline, bindings, 2, "late", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);

  rlx_gpu_invoke_sync (gpu, do_nothing, NULL);
  rlx_gpu_force_loss (gpu, "again");
  rlx_gpu_invoke_sync (gpu, do_nothing, NULL);
  g_mutex_lock (&lost.lock);
  g_assert_cmpint (lost.n_calls, ==, 1);
  g_assert_nonnull (strstr (lost.reason, "the test says so"));
  g_mutex_unlock (&lost.lock);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
  while (g_atomic_int_get (&lost.n_destroyed) == 0)
    g_usleep (1000);
  g_assert_cmpint (lost.n_calls, ==, 1);
  g_free (lost.reason);
}

static gpointer
lose_soon (gpointer data)
{
  g_usleep (15 * 1000);
  rlx_gpu_force_loss (data, "in the middle");

  return NULL;
}

/* The driver keeps reporting success; no result may be returned. */
static void
test_loss_in_job (void)
{
  g_autofree RlxGpuDispatch *dispatches = g_new (RlxGpuDispatch, 20000);

  for (guint round = 0; round < 3; round++)
    {
      g_autoptr (GError) error = NULL;
      RlxGpu *gpu = open_device ();
      guint32 output[1000];
      RlxGpuDownload download;
      RlxGpuJob job = { .dispatches = dispatches, .n_dispatches = 20000 };
      GThread *thread;
      Kernel kernel;

      kernel_init (&kernel, gpu, twice_wgsl, 1000);
      check_twice (&kernel, 1);
      for (guint i = 0; i < 20000; i++)
        dispatches[i] = kernel_dispatch (&kernel);
      download = (RlxGpuDownload) { kernel.b, 0, sizeof output, output };
      job.downloads = &download;
      job.n_downloads = 1;

      thread = g_thread_new ("lose", lose_soon, gpu);
      g_assert_false (execute (gpu, &job, NULL, &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
      g_thread_join (thread);

      kernel_clear (&kernel);
      rlx_gpu_unref (gpu);
    }
}

/* The time-out is taken from the environment, or from the job. */
static void
test_hang (gconstpointer by_job)
{
  if (g_test_subprocess ())
    {
      g_autoptr (GError) error = NULL;
      RlxGpu *gpu;
      guint32 input[4] = { 0 }, output[4];
      gint64 start;
      Kernel kernel;

      if (by_job == NULL)
        g_setenv ("RLX_TIMEOUT", "0.5", TRUE);
      gpu = open_device ();
      kernel_init (&kernel, gpu, hang_wgsl, 4);
      kernel.timeout_us = by_job != NULL ? G_USEC_PER_SEC / 2 : 0;
      start = g_get_monotonic_time ();
      g_assert_false (run_kernel (&kernel, input, output, &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT);
      g_assert_cmpint (g_get_monotonic_time () - start, <, G_USEC_PER_SEC);
      g_clear_error (&error);
      g_assert_false (run_kernel (&kernel, input, output, &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);

      start = g_get_monotonic_time ();
      kernel_clear (&kernel);
      rlx_gpu_unref (gpu);
      g_assert_cmpint (g_get_monotonic_time () - start, <, 50 * 1000);
      /* Another device is not affected. */
      gpu = open_device ();
      rlx_gpu_unref (gpu);
      return;
    }

  g_test_trap_subprocess (NULL, 20 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("");
}

static void
run_for_ever (RlxGpu  *gpu,
              gpointer user_data)
{
  for (;;)
    if (!rlx_gpu_execute (gpu, user_data, NULL, NULL))
      return;
}

/* The process ends while the device is busy. */
static void
test_exit (void)
{
  if (g_test_subprocess ())
    {
      /* Used until the very end, and always reachable for a leak checker. */
      static RlxGpuDispatch dispatch;
      static RlxGpuJob job;
      static Kernel kernel;
      RlxGpu *gpu = open_device ();

      kernel_init (&kernel, gpu, twice_wgsl, 100000);
      dispatch = kernel_dispatch (&kernel);
      job.dispatches = &dispatch;
      job.n_dispatches = 1;
      rlx_gpu_invoke (gpu, run_for_ever, &job);
      g_usleep (g_test_rand_int_range (0, 20) * 1000);
      exit (0);
    }

  check_exits ();
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/gpu-faults/loss", test_loss);
  g_test_add_func ("/gpu-faults/loss-in-job", test_loss_in_job);
  g_test_add_data_func ("/gpu-faults/hang", NULL, test_hang);
  g_test_add_data_func ("/gpu-faults/hang-of-job", "", test_hang);
  g_test_add_func ("/gpu-faults/exit", test_exit);

  return g_test_run ();
}
