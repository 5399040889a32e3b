/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Work for a device: uploads, dispatches and downloads, right and wrong, from
 * several threads.
 */
#include "config.h"

#include "rlx-test-util.h"
#include "rlx-test-gpu.h"

static const char add_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  if (id.x < arrayLength(&b)) { b[id.x] = b[id.x] + a[id.x]; }\n"
  "}\n";

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
      /* After an odd size there are zeros up to the end of the word. */
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

      /* The same through the other method of writing. */
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

  /* Nothing is done for an empty grid. */
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

/* More dispatches than fit in a submit, each depending on the previous one. */
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
      /* Split by count; in the second round by time. */
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
          /* Only Dawn checks that a buffer is not copied to itself. */
          copy.target = kernel.a;
          break;
        case 7:
          dispatch.grid[2] = rlx_gpu_get_info (gpu)->target.limits.max_workgroups + 1;
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
    { "good", twice_wgsl, read_write_pair, 2, NULL },
    { "also good", add_wgsl, read_write_pair, 2, NULL },
    { "the broken one", "@compute @workgroup_size(1)\nfn main() {\n  let x = nonsense;\n}", NULL, 0, NULL },
    { "good again", twice_wgsl, read_write_pair, 2, NULL },
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
      RlxGpuPipelineDesc desc = { "bad", bad[i], read_write_pair, 2, NULL };

      g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, pipelines, &failed, NULL, &error));
      g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
      g_assert_cmpuint (failed, ==, 0);
      g_assert_nonnull (strstr (error->message, "bad"));
      g_clear_error (&error);
    }

  /* The device is unharmed, and equal kernels are shared. */
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
        rss = rlx_test_resident_bytes ();
      run_kernel (&kernel, input, output, &error);
      g_assert_no_error (error);
    }
  g_test_message ("grew by %" G_GINT64_FORMAT " bytes", (gint64) (rlx_test_resident_bytes () - rss));
  /* 200 kB of input and as much output: leaking any of it even once in a hundred runs
   * would be 3.6 MB. */
  g_assert_cmpuint (rlx_test_resident_bytes (), <, rss + 512 * 1024);
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
  gboolean has = (rlx_gpu_get_info (gpu)->target.features & RLX_DEVICE_FEATURES_TIMESTAMPS) != 0;
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
      /* They are sequential, so their sum is at most the total. */
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
  RlxGpuPipelineDesc desc = { "cancelled", add_wgsl, read_write_pair, 2, NULL };
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

  /* And cancelled before anything began. */
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
  /* In the thread itself it is a plain call. */
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

/* The last reference is dropped in the device thread, or with work still queued. */
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

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

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

  return g_test_run ();
}
