/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "gpu/rlx-gpu-private.h"
#include "util/rlx-debug-private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- helpers ------------------------------------------------------------ */

static const RlxGpuBindingKind read_write_pair[] = {
  RLX_GPU_BINDING_READ,
  RLX_GPU_BINDING_READ_WRITE,
};

static const char twice_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  if (id.x < arrayLength(&b)) { b[id.x] = a[id.x] * 2u; }\n"
  "}\n";

static const char add_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  if (id.x < arrayLength(&b)) { b[id.x] = b[id.x] + a[id.x]; }\n"
  "}\n";

/* Never ends, unless somebody writes to the buffer. */
static const char hang_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<atomic<u32>>;\n"
  "@compute @workgroup_size(1) fn main() {\n"
  "  loop { if (atomicLoad(&b[0]) == a[0] + 77u) { break; } }\n"
  "}\n";

static RlxGpu *
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

/* A kernel with its two buffers. */
typedef struct
{
  RlxGpu *gpu;
  RlxGpuPipeline *pipeline;
  RlxGpuBuffer *a;
  RlxGpuBuffer *b;
  RlxGpuBindGroup *group;
  guint n;
} Kernel;

static void
kernel_init (Kernel     *kernel,
             RlxGpu     *gpu,
             const char *wgsl,
             guint       n)
{
  g_autoptr (GError) error = NULL;
  RlxGpuPipelineDesc desc = { "a kernel", wgsl, read_write_pair, G_N_ELEMENTS (read_write_pair) };
  RlxGpuBinding bindings[2] = { 0 };
  gsize size = n * sizeof (guint32);

  kernel->gpu = gpu;
  kernel->n = n;
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

static void
kernel_clear (Kernel *kernel)
{
  rlx_gpu_bind_group_free (kernel->group);
  rlx_gpu_buffer_free (kernel->a);
  rlx_gpu_buffer_free (kernel->b);
}

static RlxGpuDispatch
kernel_dispatch (const Kernel *kernel)
{
  return (RlxGpuDispatch) { kernel->pipeline, kernel->group, { (kernel->n + 63) / 64, 1, 1 }, 0.0 };
}

/* rlx_gpu_execute() from any thread. */
typedef struct
{
  const RlxGpuJob *job;
  GCancellable *cancellable;
  gboolean result;
  GError *error;
} Call;

static void
call_run (RlxGpu  *gpu,
          gpointer user_data)
{
  Call *call = user_data;

  call->result = rlx_gpu_execute (gpu, call->job, call->cancellable, &call->error);
}

static gboolean
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

static gboolean
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
  };

  return execute (kernel->gpu, &job, NULL, error);
}

static guint32 *
make_input (guint n,
            guint seed)
{
  guint32 *input = g_new (guint32, n);

  for (guint i = 0; i < n; i++)
    input[i] = i * 2654435761u + seed;

  return input;
}

static void
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

static guint64
get_rss (void)
{
  g_autofree char *text = NULL;
  guint64 pages;

  g_assert_true (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL));
  pages = g_ascii_strtoull (strchr (text, ' '), NULL, 10);

  return pages * (guint64) sysconf (_SC_PAGESIZE);
}

/* ---- adapters ----------------------------------------------------------- */

static void
test_list (void)
{
  static const int rank[] = { 2, 0, 1, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) list = rlx_gpu_list_adapters (&error);

  g_assert_no_error (error);
  g_assert_cmpuint (list->len, >, 0);

  for (guint i = 0; i < list->len; i++)
    {
      const RlxGpuAdapterInfo *info = g_ptr_array_index (list, i);

      g_assert_cmpstr (info->name, !=, "");
      g_assert_cmpstr (info->backend, !=, "null");
      g_assert_cmpuint (info->limits.max_buffer_size, >=, 256 * 1024 * 1024);
      g_assert_cmpuint (info->limits.max_storage_buffers, >=, 8);
      g_assert_cmpuint (info->limits.max_invocations, >=, 128);
      g_assert_cmpuint (info->limits.max_workgroups, >=, 65535);
      if (i > 0)
        {
          const RlxGpuAdapterInfo *before = g_ptr_array_index (list, i - 1);

          g_assert_cmpint (rank[before->type], <=, rank[info->type]);
        }
      if (info->features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX)
        g_assert_cmpuint (info->n_matrix_configs, >, 0);
      else
        g_assert_cmpuint (info->n_matrix_configs, ==, 0);
    }
}

static void
assert_selects (const char *selector,
                const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGpuAdapterInfo) info = rlx_gpu_select_adapter (selector, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (info->name, ==, name);
}

static void
assert_not_found (const char *selector,
                  const char *part)
{
  g_autoptr (GError) error = NULL;
  RlxGpuAdapterInfo *info = rlx_gpu_select_adapter (selector, &error);

  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND);
  g_assert_null (info);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  if (part != NULL)
    g_assert_nonnull (strstr (error->message, part));
}

static void
test_select (void)
{
  g_autoptr (GPtrArray) list = rlx_gpu_list_adapters (NULL);
  const RlxGpuAdapterInfo *first = g_ptr_array_index (list, 0);
  g_autofree char *upper = g_utf8_strup (first->name, -1);
  g_autofree char *part = g_strndup (first->name, strlen (first->name) / 2);
  g_autofree char *number = g_strdup_printf ("%u", list->len);
  g_autofree char *overlong = g_strnfill (4096, 'x');
  gboolean found[4] = { FALSE };
  const char *kinds[] = { NULL, "discrete", "integrated", "cpu" };

  assert_selects (NULL, first->name);
  assert_selects ("", first->name);
  assert_selects ("0", first->name);
  assert_selects (upper, first->name);
  assert_selects (part, first->name);
  assert_selects (first->driver, first->name);

  for (guint i = 0; i < list->len; i++)
    found[((RlxGpuAdapterInfo *) g_ptr_array_index (list, i))->type] = TRUE;
  for (guint kind = 1; kind < G_N_ELEMENTS (kinds); kind++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGpuAdapterInfo) info = rlx_gpu_select_adapter (kinds[kind], &error);

      if (found[kind])
        g_assert_cmpuint (info->type, ==, kind);
      else
        g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND);
    }

  assert_not_found (number, first->name);
  assert_not_found ("99999999999999999999999999", first->name);
  assert_not_found ("-1", "-1");
  assert_not_found ("no such adapter", "no such adapter");
  assert_not_found ("a\nb\x1b[31m", NULL);
  assert_not_found (overlong, "256");
  assert_not_found ("\xff\xfe", "UTF-8");
}

static void
test_environment (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) list = rlx_gpu_list_adapters (NULL);
  const RlxGpuAdapterInfo *first = g_ptr_array_index (list, 0);
  g_autofree char *overlong = g_strnfill (4096, 'v');
  g_autofree char *loud = g_ascii_strup (first->backend, -1);
  g_autofree char *both = g_strconcat (" metal ,", first->backend, NULL);
  const char *bad_backends[] = { "no-such-backend", ",", "vulkan,nope", overlong, "\xff\xfe" };

  g_setenv ("RLX_DEVICE", "no such adapter", TRUE);
  assert_not_found (NULL, "RLX_DEVICE");
  assert_selects ("0", first->name);
  g_setenv ("RLX_DEVICE", "0", TRUE);
  assert_selects (NULL, first->name);
  g_setenv ("RLX_DEVICE", "\xff", TRUE);
  assert_not_found (NULL, "RLX_DEVICE");
  g_unsetenv ("RLX_DEVICE");

  g_setenv ("WGPU_BACKEND", loud, TRUE);
  assert_selects (NULL, first->name);
  g_setenv ("WGPU_BACKEND", both, TRUE);
  assert_selects (NULL, first->name);
  for (gsize i = 0; i < G_N_ELEMENTS (bad_backends); i++)
    {
      g_setenv ("WGPU_BACKEND", bad_backends[i], TRUE);
      assert_not_found (NULL, "WGPU_BACKEND");
    }
#ifdef __linux__
  g_setenv ("WGPU_BACKEND", "metal", TRUE);
  g_assert_null (rlx_gpu_list_adapters (&error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER);
#endif
  g_unsetenv ("WGPU_BACKEND");
}

static void
test_no_driver (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (GError) error = NULL;

      g_setenv ("VK_DRIVER_FILES", "/nonexistent", TRUE);
      g_setenv ("VK_ICD_FILENAMES", "/nonexistent", TRUE);
      g_assert_null (rlx_gpu_select_adapter (NULL, &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER);
      g_assert_nonnull (strstr (error->message, "nstall"));
      return;
    }

  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("");
}

/* ---- devices ------------------------------------------------------------ */

static void
test_two_devices (void)
{
  RlxGpu *one = open_device ();
  RlxGpu *other = open_device ();
  Kernel a, b;

  kernel_init (&a, one, twice_wgsl, 1000);
  kernel_init (&b, other, twice_wgsl, 777);
  for (guint i = 0; i < 5; i++)
    {
      check_twice (&a, i);
      check_twice (&b, 100 + i);
    }

  /* The first goes while the second still works. */
  rlx_gpu_force_loss (one, "for the test");
  kernel_clear (&a);
  rlx_gpu_unref (one);
  check_twice (&b, 7);
  kernel_clear (&b);
  rlx_gpu_unref (other);
}

static void
test_features (void)
{
  RlxDebugFlags before = rlx_debug_get_flags ();
  RlxGpu *gpu;

  rlx_debug_set_flags (before | RLX_DEBUG_NO_F16 | RLX_DEBUG_NO_SUBGROUPS | RLX_DEBUG_NO_TIMESTAMPS);
  gpu = open_device ();
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->features &
                    (RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS |
                     RLX_DEVICE_FEATURES_SUBGROUP_MATRIX | RLX_DEVICE_FEATURES_TIMESTAMPS), ==, 0);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->n_matrix_configs, ==, 0);

  {
    g_autoptr (GError) error = NULL;
    RlxGpuPipelineDesc desc = { "halves", "enable f16; @compute @workgroup_size(1) fn main() {}", NULL, 0 };
    RlxGpuPipeline *pipeline = NULL;

    g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, NULL, &error));
    g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  }
  rlx_gpu_unref (gpu);

  rlx_debug_set_flags (before | RLX_DEBUG_SMALL_LIMITS);
  gpu = open_device ();
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->limits.max_invocations, ==, 256);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->limits.max_workgroup_storage, ==, 16384);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->limits.max_storage_buffers, ==, 8);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->limits.max_storage_binding_size, ==, 1024 * 1024);
  rlx_gpu_unref (gpu);

  rlx_debug_set_flags (before);
}

static void
test_budget (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpuBuffer *buffer;
  RlxGpu *gpu;
  guint64 used;

  g_setenv ("RLX_MEMORY_LIMIT", "100M", TRUE);
  gpu = open_device ();
  g_assert_cmpuint (rlx_gpu_get_memory_limit (gpu), ==, 100 << 20);
  used = rlx_gpu_get_memory_used (gpu);

  buffer = rlx_gpu_buffer_new (gpu, 300 << 20, RLX_GPU_BUFFER_STORAGE, "too much", &error);
  g_assert_null (buffer);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  g_assert_nonnull (strstr (error->message, "too much"));
  g_assert_nonnull (strstr (error->message, "314572800"));
  g_assert_nonnull (strstr (error->message, "104857600"));
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);
  g_clear_error (&error);

  buffer = rlx_gpu_buffer_new (gpu, G_MAXUINT64, RLX_GPU_BUFFER_STORAGE, "all there is", &error);
  g_assert_null (buffer);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  g_clear_error (&error);

  buffer = rlx_gpu_buffer_new (gpu, 64 << 20, RLX_GPU_BUFFER_STORAGE, "fits", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used + (64 << 20));
  g_assert_null (rlx_gpu_buffer_new (gpu, 64 << 20, RLX_GPU_BUFFER_STORAGE, "no more", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
  rlx_gpu_buffer_free (buffer);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);

  rlx_gpu_unref (gpu);
  g_unsetenv ("RLX_MEMORY_LIMIT");
}

/* Little room for staging: results arrive in several rounds. */
static void
test_tight_budget (void)
{
  const gsize n = 700 * 1000 + 1;
  g_autoptr (GError) error = NULL;
  g_autofree guint32 *input = make_input (n, 5);
  g_autofree guint32 *output = g_new0 (guint32, n);
  RlxGpuDownload download;
  RlxGpuJob job = { 0 };
  RlxGpuBuffer *buffer;
  RlxGpu *gpu;

  g_setenv ("RLX_MEMORY_LIMIT", "3500K", TRUE);
  gpu = open_device ();
  buffer = rlx_gpu_buffer_new (gpu, n * 4, RLX_GPU_BUFFER_STORAGE, "big", &error);
  g_assert_no_error (error);
  rlx_gpu_buffer_write (gpu, buffer, 0, input, n * 4, &error);
  g_assert_no_error (error);

  download = (RlxGpuDownload) { buffer, 3, n * 4 - 5, output };
  job.downloads = &download;
  job.n_downloads = 1;
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (memcmp (output, (guint8 *) input + 3, n * 4 - 5), ==, 0);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), <=, 3500 << 10);

  rlx_gpu_buffer_free (buffer);
  rlx_gpu_unref (gpu);
  g_unsetenv ("RLX_MEMORY_LIMIT");
}

/* ---- jobs --------------------------------------------------------------- */

static void
test_round_trip (void)
{
  static const gsize sizes[] = { 0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 4095, 4097, 65537, 5000003 };
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();

  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gsize size = sizes[i];
      g_autofree guint8 *input = g_malloc (size + 8);
      g_autofree guint8 *output = g_malloc (size + 8);
      RlxGpuBuffer *buffer;
      RlxGpuUpload upload;
      RlxGpuDownload downloads[2];
      RlxGpuJob job = { 0 };
      guint8 tail[4] = { 9, 9, 9, 9 };

      for (gsize b = 0; b < size; b++)
        input[b] = (guint8) (b * 7 + 1);
      memset (output, 0xaa, size + 8);

      buffer = rlx_gpu_buffer_new (gpu, size + 8, RLX_GPU_BUFFER_STORAGE, "bytes", &error);
      g_assert_no_error (error);
      g_assert_cmpuint (rlx_gpu_buffer_get_size (buffer), ==, size + 8);

      upload = (RlxGpuUpload) { buffer, 4, input, size };
      downloads[0] = (RlxGpuDownload) { buffer, 4, size, output };
      /* Behind an odd size there are zeros up to the word's end. */
      downloads[1] = (RlxGpuDownload) { buffer, 4 + size, 4 - size % 4, tail };
      job.uploads = &upload;
      job.n_uploads = 1;
      job.downloads = downloads;
      job.n_downloads = 2;
      execute (gpu, &job, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (output, size, input, size);
      g_assert_cmpuint (output[size], ==, 0xaa);
      for (gsize b = 0; b < 4 - size % 4; b++)
        g_assert_cmpuint (tail[b], ==, 0);

      /* The same through the other way of writing. */
      if (size > 0)
        {
          input[size - 1] ^= 0x55;
          rlx_gpu_buffer_write (gpu, buffer, 4, input, size, &error);
          g_assert_no_error (error);
          job.n_uploads = 0;
          execute (gpu, &job, NULL, &error);
          g_assert_no_error (error);
          g_assert_cmpmem (output, size, input, size);
        }

      rlx_gpu_buffer_free (buffer);
    }

  rlx_gpu_unref (gpu);
}

static void
test_large_upload (void)
{
  const gsize size = (150 << 20) + 3;
  g_autoptr (GError) error = NULL;
  g_autofree guint8 *input = g_malloc (size);
  g_autofree guint8 *output = g_malloc (size);
  RlxGpu *gpu = open_device ();
  RlxGpuBuffer *buffer;
  RlxGpuDownload download;
  RlxGpuJob job = { 0 };

  for (gsize i = 0; i < size; i++)
    input[i] = (guint8) ((i >> 12) + i);
  buffer = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "large", &error);
  g_assert_no_error (error);
  rlx_gpu_buffer_write (gpu, buffer, 0, input, size, &error);
  g_assert_no_error (error);
  download = (RlxGpuDownload) { buffer, 0, size, output };
  job.downloads = &download;
  job.n_downloads = 1;
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (memcmp (input, output, size), ==, 0);

  rlx_gpu_buffer_free (buffer);
  rlx_gpu_unref (gpu);
}

static void
test_no_downloads (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  RlxGpuJob job = { 0 };
  RlxGpuDispatch dispatches[2];
  Kernel kernel;

  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);

  /* A grid of nothing is nothing to do. */
  kernel_init (&kernel, gpu, twice_wgsl, 100);
  dispatches[0] = kernel_dispatch (&kernel);
  dispatches[1] = kernel_dispatch (&kernel);
  dispatches[1].grid[1] = 0;
  job.dispatches = dispatches;
  job.n_dispatches = 2;
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

/* More dispatches than one submit takes, each depending on the one before. */
static void
test_many_dispatches (void)
{
  const guint n_dispatches = 1300;
  g_autoptr (GError) error = NULL;
  g_autofree RlxGpuDispatch *dispatches = g_new (RlxGpuDispatch, n_dispatches);
  g_autofree guint32 *input = make_input (130, 3);
  guint32 output[130], copied[130];
  RlxGpu *gpu = open_device ();
  RlxGpuBuffer *other;
  RlxGpuUpload uploads[2];
  RlxGpuDownload downloads[2];
  RlxGpuCopy copy;
  RlxGpuCounters before, after;
  guint32 zeros[130] = { 0 };
  Kernel kernel;

  kernel_init (&kernel, gpu, add_wgsl, 130);
  other = rlx_gpu_buffer_new (gpu, sizeof output, RLX_GPU_BUFFER_STORAGE, "copy", &error);
  g_assert_no_error (error);
  for (guint i = 0; i < n_dispatches; i++)
    dispatches[i] = kernel_dispatch (&kernel);
  uploads[0] = (RlxGpuUpload) { kernel.a, 0, input, sizeof output };
  uploads[1] = (RlxGpuUpload) { kernel.b, 0, zeros, sizeof output };
  downloads[0] = (RlxGpuDownload) { kernel.b, 0, sizeof output, output };
  downloads[1] = (RlxGpuDownload) { other, 0, sizeof copied, copied };
  copy = (RlxGpuCopy) { kernel.b, 0, other, 0, sizeof copied };

  for (guint round = 0; round < 2; round++)
    {
      RlxGpuJob job = {
        .uploads = uploads, .n_uploads = 2,
        .dispatches = dispatches, .n_dispatches = n_dispatches,
        .copies = &copy, .n_copies = 1,
        .downloads = downloads, .n_downloads = 2,
      };

      rlx_gpu_get_counters (gpu, &before);
      execute (gpu, &job, NULL, &error);
      g_assert_no_error (error);
      rlx_gpu_get_counters (gpu, &after);
      for (guint i = 0; i < kernel.n; i++)
        {
          g_assert_cmpuint (output[i], ==, input[i] * n_dispatches);
          g_assert_cmpuint (copied[i], ==, output[i]);
        }
      g_assert_cmpuint (after.dispatches - before.dispatches, ==, n_dispatches);
      /* By count; in the second round by time. */
      g_assert_cmpuint (after.submits - before.submits, ==, round == 0 ? 3 : 130);
      for (guint i = 0; i < n_dispatches; i++)
        dispatches[i].estimate = 0.0099;
    }

  rlx_gpu_buffer_free (other);
  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static void
test_bad_jobs (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  guint32 words[64];
  RlxGpuUpload upload = { 0 };
  RlxGpuDownload download = { 0 };
  RlxGpuCopy copy = { 0 };
  RlxGpuDispatch dispatch;
  RlxGpuBinding bindings[2] = { 0 };
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 64);

  for (guint i = 0; i < 9; i++)
    {
      RlxGpuJob job = {
        .uploads = &upload, .n_uploads = 1,
        .dispatches = &dispatch, .n_dispatches = 1,
        .copies = &copy, .n_copies = 1,
        .downloads = &download, .n_downloads = 1,
      };

      upload = (RlxGpuUpload) { kernel.a, 0, words, sizeof words };
      download = (RlxGpuDownload) { kernel.b, 0, sizeof words, words };
      copy = (RlxGpuCopy) { kernel.a, 0, kernel.b, 0, sizeof words };
      dispatch = kernel_dispatch (&kernel);
      switch (i)
        {
        case 0:
          upload.offset = 2;
          break;
        case 1:
          upload.offset = 4;
          break;
        case 2:
          upload.offset = G_MAXUINT64 - 3;
          break;
        case 3:
          download.offset = 1;
          break;
        case 4:
          download.offset = G_MAXUINT64;
          break;
        case 5:
          copy.size = G_MAXUINT64;
          break;
        case 6:
          /* Only Dawn knows that a buffer cannot be copied to itself. */
          copy.target = kernel.a;
          break;
        case 7:
          dispatch.grid[2] = rlx_gpu_get_info (gpu)->limits.max_workgroups + 1;
          break;
        case 8:
          dispatch.group = NULL;
          break;
        default:
          g_assert_not_reached ();
        }
      g_assert_false (execute (gpu, &job, NULL, &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
      g_clear_error (&error);
      check_twice (&kernel, i);
    }

  /* Bind groups. */
  bindings[0] = (RlxGpuBinding) { kernel.a, 0, 256 };
  bindings[1] = (RlxGpuBinding) { kernel.b, 4, 256 };
  g_assert_null (rlx_gpu_bind_group_new (gpu, kernel.pipeline, bindings, 2, "past the end", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
  g_assert_nonnull (strstr (error->message, "past the end"));
  g_clear_error (&error);
  bindings[1].size = 128;
  g_assert_null (rlx_gpu_bind_group_new (gpu, kernel.pipeline, bindings, 2, "not aligned", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
  g_clear_error (&error);
  g_assert_null (rlx_gpu_bind_group_new (gpu, kernel.pipeline, bindings, 1, "too few", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
  g_clear_error (&error);
  bindings[1] = (RlxGpuBinding) { NULL, 0, 0 };
  g_assert_null (rlx_gpu_bind_group_new (gpu, kernel.pipeline, bindings, 2, "no buffer", &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
  g_clear_error (&error);

  g_assert_false (rlx_gpu_buffer_write (gpu, kernel.a, 252, words, 8, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL);
  check_twice (&kernel, 1);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static void
test_bad_wgsl (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  RlxGpuPipelineDesc descs[] = {
    { "good", twice_wgsl, read_write_pair, 2 },
    { "also good", add_wgsl, read_write_pair, 2 },
    { "the broken one", "@compute @workgroup_size(1)\nfn main() {\n  let x = nonsense;\n}", NULL, 0 },
    { "good again", twice_wgsl, read_write_pair, 2 },
  };
  const char *bad[] = {
    "",
    "fn main() {}",
    "@compute @workgroup_size(1) fn other() {}",
    "@compute @workgroup_size(1000000) fn main() {}",
    "@group(0) @binding(9) var<storage, read_write> b : array<u32>;\n"
    "@compute @workgroup_size(1) fn main() { b[0] = 1u; }",
  };
  RlxGpuPipeline *pipelines[G_N_ELEMENTS (descs)] = { NULL };
  RlxGpuCounters before, after;
  guint failed = 0;
  Kernel kernel;

  g_assert_false (rlx_gpu_pipelines_new (gpu, descs, G_N_ELEMENTS (descs), pipelines, &failed, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_cmpuint (failed, ==, 2);
  g_assert_nonnull (strstr (error->message, "the broken one"));
  g_assert_nonnull (strstr (error->message, "nonsense"));
  g_assert_nonnull (strstr (error->message, "3:11"));
  g_clear_error (&error);

  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      RlxGpuPipelineDesc desc = { "bad", bad[i], read_write_pair, 2 };

      g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, pipelines, &failed, NULL, &error));
      g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
      g_assert_cmpuint (failed, ==, 0);
      g_assert_nonnull (strstr (error->message, "bad"));
      g_clear_error (&error);
    }

  /* The device is none the worse for it, and equal kernels are shared. */
  g_assert_false (rlx_gpu_is_lost (gpu));
  descs[2] = descs[0];
  descs[2].label = "another name";
  g_assert_true (rlx_gpu_pipelines_new (gpu, descs, G_N_ELEMENTS (descs), pipelines, NULL, NULL, &error));
  g_assert_no_error (error);
  g_assert_true (pipelines[0] == pipelines[2]);
  g_assert_true (pipelines[0] == pipelines[3]);
  g_assert_true (pipelines[0] != pipelines[1]);
  rlx_gpu_get_counters (gpu, &before);
  g_assert_true (rlx_gpu_pipelines_new (gpu, descs, G_N_ELEMENTS (descs), pipelines, NULL, NULL, &error));
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (before.pipelines, ==, after.pipelines);
  g_assert_cmpuint (before.shader_modules, ==, after.shader_modules);

  kernel_init (&kernel, gpu, twice_wgsl, 100);
  g_assert_true (kernel.pipeline == pipelines[0]);
  check_twice (&kernel, 4);
  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static void
test_counters (void)
{
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  RlxGpuCounters before, after;
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 1000);
  check_twice (&kernel, 0);
  rlx_gpu_get_counters (gpu, &before);
  for (guint i = 0; i < 500; i++)
    check_twice (&kernel, i);
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (before.buffers, ==, after.buffers);
  g_assert_cmpuint (before.bind_groups, ==, after.bind_groups);
  g_assert_cmpuint (before.pipelines, ==, after.pipelines);
  g_assert_cmpuint (before.shader_modules, ==, after.shader_modules);
  g_assert_cmpuint (after.submits - before.submits, ==, 500);
  g_assert_cmpuint (after.dispatches - before.dispatches, ==, 500);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static void
test_memory_flat (void)
{
  const guint n = 50000;
  g_autofree guint32 *input = make_input (n, 0);
  g_autofree guint32 *output = g_new0 (guint32, n);
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  guint64 used, rss = 0;
  Kernel kernel;

#if defined (__SANITIZE_ADDRESS__) || defined (__SANITIZE_THREAD__)
  g_test_skip ("a sanitizer keeps freed memory");
  rlx_gpu_unref (gpu);
  return;
#endif

  kernel_init (&kernel, gpu, twice_wgsl, n);
  run_kernel (&kernel, input, output, &error);
  used = rlx_gpu_get_memory_used (gpu);
  for (guint i = 0; i < 2000; i++)
    {
      if (i == 200)
        rss = get_rss ();
      run_kernel (&kernel, input, output, &error);
      g_assert_no_error (error);
    }
  g_test_message ("grew by %" G_GINT64_FORMAT " bytes", (gint64) (get_rss () - rss));
  /* 200 kB of input and as much output: leaking any of it even once in a
   * hundred runs would be 3.6 MB. */
  g_assert_cmpuint (get_rss (), <, rss + 512 * 1024);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static void
test_timestamps (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree RlxGpuDispatch *dispatches = g_new (RlxGpuDispatch, 600);
  g_autofree guint64 *ns = g_new (guint64, 600);
  RlxGpu *gpu = open_device ();
  RlxGpuJob job = { .dispatches = dispatches, .n_dispatches = 600, .dispatch_ns = ns };
  gboolean has = (rlx_gpu_get_info (gpu)->features & RLX_DEVICE_FEATURES_TIMESTAMPS) != 0;
  gint64 start, end;
  guint64 sum = 0;
  guint n_zero = 0;
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 100000);
  for (guint i = 0; i < 600; i++)
    dispatches[i] = kernel_dispatch (&kernel);
  dispatches[300].grid[0] = 0;

  for (guint round = 0; round < 2; round++)
    {
      memset (ns, 0xff, 600 * sizeof *ns);
      start = g_get_monotonic_time ();
      execute (gpu, &job, NULL, &error);
      end = g_get_monotonic_time ();
      g_assert_no_error (error);
    }

  for (guint i = 0; i < 600; i++)
    {
      sum += ns[i];
      n_zero += ns[i] == 0 ? 1 : 0;
    }
  g_assert_cmpuint (ns[300], ==, 0);
  if (has)
    {
      g_assert_cmpuint (n_zero, ==, 1);
      /* They follow one another, so together they fit into the whole. */
      g_assert_cmpuint (sum, <=, (guint64) (end - start) * 1000);
    }
  else
    {
      g_assert_cmpuint (sum, ==, 0);
    }

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

/* ---- threads ------------------------------------------------------------ */

static gpointer
cancel_soon (gpointer data)
{
  g_usleep (20 * 1000);
  g_cancellable_cancel (data);

  return NULL;
}

static void
test_cancel (void)
{
  const guint n_dispatches = 20000;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;
  g_autofree RlxGpuDispatch *dispatches = g_new (RlxGpuDispatch, n_dispatches);
  RlxGpu *gpu = open_device ();
  RlxGpuJob job = { .dispatches = dispatches, .n_dispatches = n_dispatches };
  RlxGpuPipelineDesc desc = { "cancelled", add_wgsl, read_write_pair, 2 };
  RlxGpuPipeline *pipeline;
  RlxGpuCounters before, after;
  GThread *thread;
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 1000);
  check_twice (&kernel, 1);
  for (guint i = 0; i < n_dispatches; i++)
    dispatches[i] = kernel_dispatch (&kernel);

  rlx_gpu_get_counters (gpu, &before);
  thread = g_thread_new ("cancel", cancel_soon, cancellable);
  g_assert_false (execute (gpu, &job, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (after.dispatches - before.dispatches, <, n_dispatches);
  g_thread_join (thread);
  check_twice (&kernel, 2);

  /* And before anything began. */
  rlx_gpu_get_counters (gpu, &before);
  g_assert_false (execute (gpu, &job, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (after.submits, ==, before.submits);
  check_twice (&kernel, 3);

  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static gpointer
use_device (gpointer data)
{
  RlxGpu *gpu = data;

  for (guint i = 0; i < 10; i++)
    {
      g_autofree char *wgsl = g_strdup_printf ("// %u\n%s", i, twice_wgsl);
      Kernel kernel;

      kernel_init (&kernel, gpu, wgsl, 500 + i);
      for (guint k = 0; k < 10; k++)
        check_twice (&kernel, i * 100 + k);
      kernel_clear (&kernel);
    }

  return NULL;
}

static void
test_threads (void)
{
  GThread *threads[8];
  RlxGpu *gpu = open_device ();
  guint64 used = rlx_gpu_get_memory_used (gpu);

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("use", use_device, gpu);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);

  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);
  rlx_gpu_unref (gpu);
}

static void
count_up (RlxGpu  *gpu G_GNUC_UNUSED,
          gpointer user_data)
{
  guint *value = user_data;

  (*value)++;
}

static void
check_order (RlxGpu  *gpu,
             gpointer user_data)
{
  guint *value = user_data;

  g_assert_cmpuint (*value, ==, 100);
  /* From the thread itself it is a plain call. */
  rlx_gpu_invoke_sync (gpu, count_up, value);
  g_assert_cmpuint (*value, ==, 101);
}

static void
test_invoke (void)
{
  RlxGpu *gpu = open_device ();
  guint value = 0;

  for (guint i = 0; i < 100; i++)
    rlx_gpu_invoke (gpu, count_up, &value);
  rlx_gpu_invoke_sync (gpu, check_order, &value);
  g_assert_cmpuint (value, ==, 101);
  rlx_gpu_unref (gpu);
}

static gint unref_runs;

static void
unref_there (RlxGpu  *gpu,
             gpointer user_data G_GNUC_UNUSED)
{
  g_usleep (1000);
  rlx_gpu_unref (gpu);
  g_atomic_int_inc (&unref_runs);
}

/* The last reference goes on the device thread, or with work still queued. */
static void
test_unref (void)
{
  for (guint i = 0; i < 5; i++)
    {
      RlxGpu *gpu = open_device ();

      rlx_gpu_invoke (gpu, unref_there, NULL);
    }
  while (g_atomic_int_get (&unref_runs) < 5)
    g_usleep (1000);
}

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
  RlxGpuPipelineDesc desc = { "too late", add_wgsl, read_write_pair, 2 };
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

/* The driver goes on to report success; no result may be handed out. */
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

static void
test_hang (void)
{
  if (g_test_subprocess ())
    {
      g_autoptr (GError) error = NULL;
      RlxGpu *gpu;
      guint32 input[4] = { 0 }, output[4];
      gint64 start;
      Kernel kernel;

      g_setenv ("RLX_TIMEOUT", "0.5", TRUE);
      gpu = open_device ();
      kernel_init (&kernel, gpu, hang_wgsl, 4);
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
      /* Another device is not concerned. */
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

/* The process ends while the device is at work. */
static void
test_exit (void)
{
  if (g_test_subprocess ())
    {
      RlxGpu *gpu = open_device ();
      RlxGpuDispatch *dispatch = g_new (RlxGpuDispatch, 1);
      RlxGpuJob *job = g_new0 (RlxGpuJob, 1);
      Kernel *kernel = g_new0 (Kernel, 1);

      kernel_init (kernel, gpu, twice_wgsl, 100000);
      *dispatch = kernel_dispatch (kernel);
      job->dispatches = dispatch;
      job->n_dispatches = 1;
      rlx_gpu_invoke (gpu, run_for_ever, job);
      g_usleep (g_test_rand_int_range (0, 20) * 1000);
      exit (0);
    }

  for (guint i = 0; i < 5; i++)
    {
      g_test_trap_subprocess (NULL, 20 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_DEFAULT);
      g_test_trap_assert_passed ();
      g_test_trap_assert_stderr ("");
    }
}

/* ---- the cache ---------------------------------------------------------- */

static void
remove_tree (const char *path)
{
  g_autoptr (GDir) dir = NULL;
  const char *name;

  if (g_file_test (path, G_FILE_TEST_IS_SYMLINK) || !g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_unlink (path);
      return;
    }

  dir = g_dir_open (path, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      remove_tree (child);
    }
  g_rmdir (path);
}

/* The test again, in a process with a cache of its own. */
static void
repeat_with_empty_cache (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-test-XXXXXX", NULL);
  g_auto (GStrv) environment = g_get_environ ();

  environment = g_environ_setenv (environment, "XDG_CACHE_HOME", folder, TRUE);
  g_test_trap_subprocess_with_envp (NULL, (const char * const *) environment, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  remove_tree (folder);
  g_test_trap_assert_passed ();
}

static char *
cache_folder (void)
{
  g_autofree char *versions = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", "v1", NULL);
  g_autoptr (GDir) dir = g_dir_open (versions, 0, NULL);
  const char *name;

  g_assert_nonnull (dir);
  name = g_dir_read_name (dir);
  g_assert_nonnull (name);

  return g_build_filename (versions, name, NULL);
}

static GPtrArray *
cache_files (const char *folder)
{
  GPtrArray *files = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (files, g_build_filename (folder, name, NULL));

  return files;
}

/* Opens a device, computes something, and tells how the cache did. */
static RlxGpuCounters
use_cache (void)
{
  RlxGpu *gpu = open_device ();
  RlxGpuCounters counters;
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 1000);
  check_twice (&kernel, 1);
  kernel_clear (&kernel);
  rlx_gpu_get_counters (gpu, &counters);
  rlx_gpu_unref (gpu);

  return counters;
}

typedef void (* Damage) (const char *path,
                         guint       index);

static void
damage_flip (const char *path,
             guint       index)
{
  g_autofree char *data = NULL;
  gsize size;

  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  data[(index * 97) % size] ^= (char) (1 << (index % 8));
  g_assert_true (g_file_set_contents (path, data, (gssize) size, NULL));
}

static void
damage_truncate (const char *path,
                 guint       index)
{
  GStatBuf status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  g_assert_cmpint (truncate (path, status.st_size * (index % 4) / 4), ==, 0);
}

static void
damage_grow (const char *path,
             guint       index)
{
  GStatBuf status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  g_assert_cmpint (truncate (path, status.st_size + 1 + ((off_t) (index % 3) << 33)), ==, 0);
}

/* A length that would be far beyond the file. */
static void
damage_lengths (const char *path,
                guint       index)
{
  g_autofree char *data = NULL;
  gsize size;

  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  memset (data + 8 + 8 * (index % 2), 0x7f, 8);
  g_assert_true (g_file_set_contents (path, data, (gssize) size, NULL));
}

static void
damage_link (const char *path,
             guint       index G_GNUC_UNUSED)
{
  g_autofree char *elsewhere = g_build_filename (g_get_user_cache_dir (), "elsewhere", NULL);
  g_autofree char *data = NULL;
  gsize size;

  /* Where it points is a perfectly good entry. */
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_assert_true (g_file_set_contents (elsewhere, data, (gssize) size, NULL));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (symlink (elsewhere, path), ==, 0);
}

static void
damage_fifo (const char *path,
             guint       index G_GNUC_UNUSED)
{
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
}

static void
damage_folder (const char *path,
               guint       index G_GNUC_UNUSED)
{
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
}

static void
damage_swap (const char *path,
             guint       index)
{
  static char *previous = NULL;
  g_autofree char *aside = g_strconcat (path, ".aside", NULL);

  if (index % 2 == 0 || previous == NULL)
    {
      g_free (previous);
      previous = g_strdup (path);
      return;
    }
  g_assert_cmpint (g_rename (path, aside), ==, 0);
  g_assert_cmpint (g_rename (previous, path), ==, 0);
  g_assert_cmpint (g_rename (aside, previous), ==, 0);
  g_clear_pointer (&previous, g_free);
}

static void
test_cache (void)
{
  static const struct
  {
    const char *name;
    Damage damage;
  } damages[] = {
    { "flip", damage_flip },
    { "truncate", damage_truncate },
    { "grow", damage_grow },
    { "lengths", damage_lengths },
    { "swap", damage_swap },
    { "link", damage_link },
    { "fifo", damage_fifo },
    { "folder", damage_folder },
  };
  RlxGpuCounters counters;
  g_autofree char *folder = NULL;
  guint64 n_entries;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  counters = use_cache ();
  n_entries = counters.cache_misses;
  g_assert_cmpuint (counters.cache_hits, ==, 0);
  g_assert_cmpuint (n_entries, >, 0);
  folder = cache_folder ();

  counters = use_cache ();
  g_assert_cmpuint (counters.cache_misses, ==, 0);
  g_assert_cmpuint (counters.cache_hits, ==, n_entries);

  for (gsize i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autoptr (GPtrArray) files = cache_files (folder);
      guint64 n_hits;

      g_test_message ("%s", damages[i].name);
      g_assert_cmpuint (files->len, ==, n_entries);
      for (guint f = 0; f < files->len; f++)
        damages[i].damage (g_ptr_array_index (files, f), f);

      n_hits = damages[i].damage == damage_swap ? files->len % 2 : 0;
      counters = use_cache ();
      g_assert_cmpuint (counters.cache_hits, ==, n_hits);
      g_assert_cmpuint (counters.cache_misses, ==, n_entries - n_hits);

      /* What was bad has been written anew; a folder cannot be replaced. */
      counters = use_cache ();
      if (damages[i].damage != damage_folder)
        g_assert_cmpuint (counters.cache_misses, ==, 0);
    }
}

static void
test_cache_folder (void)
{
  g_autofree char *folder = NULL;
  g_autofree char *moved = NULL;
  g_autofree char *own = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", NULL);
  RlxDebugFlags flags = rlx_debug_get_flags ();
  RlxGpuCounters counters;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  use_cache ();
  folder = cache_folder ();

  /* Writable for others. */
  g_assert_cmpint (g_chmod (folder, 0777), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  g_assert_cmpint (g_chmod (folder, 0700), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits, >, 0);

  /* A link to the real one. */
  moved = g_build_filename (g_get_user_cache_dir (), "moved", NULL);
  g_assert_cmpint (g_rename (own, moved), ==, 0);
  g_assert_cmpint (symlink (moved, own), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);

  /* A file in its place. */
  g_assert_cmpint (g_unlink (own), ==, 0);
  g_assert_true (g_file_set_contents (own, "x", 1, NULL));
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  g_assert_cmpint (g_unlink (own), ==, 0);
  g_assert_cmpint (g_rename (moved, own), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits, >, 0);

  rlx_debug_set_flags (flags | RLX_DEBUG_NO_CACHE);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  rlx_debug_set_flags (flags);
}

static void
test_cache_limit (void)
{
  g_autofree char *versions = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", "v1", NULL);
  g_autofree char *old = g_build_filename (versions, "driver-of-yesterday", NULL);
  g_autofree char *half_written = g_build_filename (old, "tmp-1-2-3", NULL);
  RlxGpuCounters counters;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  use_cache ();
  g_assert_cmpint (g_mkdir (old, 0700), ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);
      g_autofree char *path = g_build_filename (old, name, NULL);
      struct timespec times[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } };

      /* Holes: large to look at, nothing on the disk. */
      g_assert_true (g_file_set_contents (path, "x", 1, NULL));
      g_assert_cmpint (truncate (path, 60 << 20), ==, 0);
      g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
      if (i == 0)
        {
          g_assert_true (g_file_set_contents (half_written, "x", 1, NULL));
          g_assert_cmpint (utimensat (AT_FDCWD, half_written, times, 0), ==, 0);
        }
    }

  counters = use_cache ();
  g_assert_cmpuint (counters.cache_misses, ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);
      g_autofree char *path = g_build_filename (old, name, NULL);

      /* Three of them are 180 MiB, below three quarters of 256. */
      g_assert_true (g_file_test (path, G_FILE_TEST_EXISTS) == (i >= 2));
    }
  g_assert_false (g_file_test (half_written, G_FILE_TEST_EXISTS));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/gpu/list", test_list);
  g_test_add_func ("/gpu/select", test_select);
  g_test_add_func ("/gpu/environment", test_environment);
  g_test_add_func ("/gpu/no-driver", test_no_driver);
  g_test_add_func ("/gpu/two-devices", test_two_devices);
  g_test_add_func ("/gpu/features", test_features);
  g_test_add_func ("/gpu/budget", test_budget);
  g_test_add_func ("/gpu/tight-budget", test_tight_budget);
  g_test_add_func ("/gpu/round-trip", test_round_trip);
  g_test_add_func ("/gpu/large-upload", test_large_upload);
  g_test_add_func ("/gpu/no-downloads", test_no_downloads);
  g_test_add_func ("/gpu/many-dispatches", test_many_dispatches);
  g_test_add_func ("/gpu/bad-jobs", test_bad_jobs);
  g_test_add_func ("/gpu/bad-wgsl", test_bad_wgsl);
  g_test_add_func ("/gpu/counters", test_counters);
  g_test_add_func ("/gpu/memory-flat", test_memory_flat);
  g_test_add_func ("/gpu/timestamps", test_timestamps);
  g_test_add_func ("/gpu/cancel", test_cancel);
  g_test_add_func ("/gpu/threads", test_threads);
  g_test_add_func ("/gpu/invoke", test_invoke);
  g_test_add_func ("/gpu/unref", test_unref);
  g_test_add_func ("/gpu/loss", test_loss);
  g_test_add_func ("/gpu/loss-in-job", test_loss_in_job);
  g_test_add_func ("/gpu/hang", test_hang);
  g_test_add_func ("/gpu/exit", test_exit);
  g_test_add_func ("/gpu/cache", test_cache);
  g_test_add_func ("/gpu/cache-folder", test_cache_folder);
  g_test_add_func ("/gpu/cache-limit", test_cache_limit);

  return g_test_run ();
}
