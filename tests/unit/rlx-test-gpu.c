/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A device, a kernel and jobs for tests of the GPU room.
 */
#include "config.h"

#include "rlx-test-gpu.h"

const RlxGpuBindingKind read_write_pair[2] = {
  RLX_GPU_BINDING_READ,
  RLX_GPU_BINDING_READ_WRITE,
};

const char twice_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  if (id.x < arrayLength(&b)) { b[id.x] = a[id.x] * 2u; }\n"
  "}\n";

RlxGpu *
open_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGpuAdapterInfo) info = rlx_gpu_select_adapter (NULL, &error);
  RlxGpu *gpu;

  g_assert_no_error (error);
  gpu = rlx_gpu_open (info, &error);
  g_assert_no_error (error);
  g_assert_nonnull (gpu);

  return gpu;
}

void
kernel_init (Kernel     *kernel,
             RlxGpu     *gpu,
             const char *wgsl,
             guint       n)
{
  g_autoptr (GError) error = NULL;
  RlxGpuPipelineDesc desc = { "a kernel", wgsl, read_write_pair, G_N_ELEMENTS (read_write_pair), NULL };
  RlxGpuBinding bindings[2] = { 0 };
  gsize size = n * sizeof (guint32);

  kernel->gpu = gpu;
  kernel->n = n;
  kernel->timeout_us = 0;
  rlx_gpu_pipelines_new (gpu, &desc, 1, &kernel->pipeline, NULL, NULL, &error);
  g_assert_no_error (error);
  kernel->a = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "a", &error);
  g_assert_no_error (error);
  kernel->b = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "b", &error);
  g_assert_no_error (error);
  bindings[0] = (RlxGpuBinding) { kernel->a, 0, size };
  bindings[1] = (RlxGpuBinding) { kernel->b, 0, size };
  kernel->group = rlx_gpu_bind_group_new (gpu, kernel->pipeline, bindings, 2, "ab", &error);
  g_assert_no_error (error);
}

void
kernel_clear (Kernel *kernel)
{
  rlx_gpu_bind_group_free (kernel->group);
  rlx_gpu_buffer_free (kernel->a);
  rlx_gpu_buffer_free (kernel->b);
}

RlxGpuDispatch
kernel_dispatch (const Kernel *kernel)
{
  return (RlxGpuDispatch) { kernel->pipeline, kernel->group, { (kernel->n + 63) / 64, 1, 1 }, 0.0 };
}

void
call_run (RlxGpu  *gpu,
          gpointer user_data)
{
  Call *call = user_data;

  call->result = rlx_gpu_execute (gpu, call->job, call->cancellable, &call->error);
}

gboolean
execute (RlxGpu          *gpu,
         const RlxGpuJob *job,
         GCancellable    *cancellable,
         GError         **error)
{
  Call call = { .job = job, .cancellable = cancellable };

  rlx_gpu_invoke_sync (gpu, call_run, &call);
  if (call.error != NULL)
    g_propagate_error (error, call.error);

  return call.result;
}

gboolean
run_kernel (Kernel        *kernel,
            const guint32 *input,
            guint32       *output,
            GError       **error)
{
  RlxGpuUpload upload = { kernel->a, 0, input, kernel->n * sizeof (guint32) };
  RlxGpuDispatch dispatch = kernel_dispatch (kernel);
  RlxGpuDownload download = { kernel->b, 0, kernel->n * sizeof (guint32), output };
  RlxGpuJob job = {
    .uploads = &upload, .n_uploads = 1,
    .dispatches = &dispatch, .n_dispatches = 1,
    .downloads = &download, .n_downloads = 1,
    .timeout_us = kernel->timeout_us,
  };

  return execute (kernel->gpu, &job, NULL, error);
}

guint32 *
make_input (guint n,
            guint seed)
{
  guint32 *input = g_new (guint32, n);

  for (guint i = 0; i < n; i++)
    input[i] = i * 2654435761u + seed;

  return input;
}

void
check_twice (Kernel *kernel,
             guint   seed)
{
  g_autoptr (GError) error = NULL;
  g_autofree guint32 *input = make_input (kernel->n, seed);
  g_autofree guint32 *output = g_new0 (guint32, kernel->n);

  run_kernel (kernel, input, output, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < kernel->n; i++)
    g_assert_cmpuint (output[i], ==, input[i] * 2u);
}

void
check_exits (void)
{
  for (guint i = 0; i < 5; i++)
    {
      g_test_trap_subprocess (NULL, 20 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stderr ("");
    }
}
