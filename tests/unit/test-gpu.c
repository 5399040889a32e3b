/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Adapters, and devices opened on them.
 */
#include "config.h"

#include "rlx-test-gpu.h"

#include "rlx-adapter-private.h"

/* ---- adapters ----------------------------------------------------------- */

static void
test_list (void)
{
  static const int n_dims[] = { 2, 0, 1, 3 };
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) list = rlx_gpu_list_adapters (&error);

  g_assert_no_error (error);
  g_assert_cmpuint (list->len, >, 0);

  for (guint i = 0; i < list->len; i++)
    {
      const RlxGpuAdapterInfo *info = g_ptr_array_index (list, i);

      g_assert_cmpstr (info->name, !=, "");
      g_assert_cmpstr (info->backend, !=, "null");
      g_assert_cmpuint (info->target.limits.max_buffer_size, >=, 256 * 1024 * 1024);
      g_assert_cmpuint (info->target.limits.max_storage_buffers, >=, 8);
      g_assert_cmpuint (info->target.limits.max_invocations, >=, 128);
      g_assert_cmpuint (info->target.limits.max_workgroups, >=, 65535);
      if (i > 0)
        {
          const RlxGpuAdapterInfo *before = g_ptr_array_index (list, i - 1);

          g_assert_cmpint (n_dims[before->type], <=, n_dims[info->type]);
        }
      if (info->target.features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX)
        g_assert_cmpuint (info->target.n_matrices, >, 0);
      else
        g_assert_cmpuint (info->target.n_matrices, ==, 0);
    }
}

static void
test_object (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) infos = rlx_gpu_list_adapters (NULL);
  g_autoptr (GListModel) list = rlx_adapter_list (NULL, &error);
  g_autoptr (RlxAdapter) nothing = g_object_new (RLX_TYPE_ADAPTER, NULL);

  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (list), ==, infos->len);

  for (guint i = 0; i < infos->len; i++)
    {
      const RlxGpuAdapterInfo *info = g_ptr_array_index (infos, i);
      g_autoptr (RlxAdapter) adapter = g_list_model_get_item (list, i);
      g_autofree char *name = NULL, *vendor = NULL, *driver = NULL, *backend = NULL;
      g_autoptr (GVariant) limits = NULL;
      RlxAdapterType type;
      RlxDeviceFeatures features;
      g_auto (GStrv) matrices = NULL;
      guint64 memory_size, max_buffer_size;
      guint32 subgroup;

      g_object_get (adapter, "name", &name, "vendor", &vendor, "driver", &driver, "backend", &backend,
                    "adapter-type", &type, "features", &features, "memory-size", &memory_size,
                    "limits", &limits, NULL);
      g_assert_cmpstr (name, ==, info->name);
      g_assert_cmpstr (name, ==, rlx_adapter_get_name (adapter));
      g_assert_cmpstr (vendor, ==, info->vendor);
      g_assert_cmpstr (vendor, ==, rlx_adapter_get_vendor (adapter));
      g_assert_cmpstr (driver, ==, info->driver);
      g_assert_cmpstr (driver, ==, rlx_adapter_get_driver (adapter));
      g_assert_cmpstr (backend, ==, info->backend);
      g_assert_cmpstr (backend, ==, rlx_adapter_get_backend (adapter));
      g_assert_cmpint (type, ==, info->type);
      g_assert_cmpint (type, ==, rlx_adapter_get_adapter_type (adapter));
      g_assert_cmpuint (features, ==, info->target.features);
      g_assert_cmpuint (features, ==, rlx_adapter_get_features (adapter));
      g_assert_cmpuint (memory_size, ==, info->memory_size);
      g_assert_cmpuint (memory_size, ==, rlx_adapter_get_memory_size (adapter));
      g_assert_true (g_variant_is_of_type (limits, G_VARIANT_TYPE_VARDICT));
      g_assert_true (g_variant_equal (limits, rlx_adapter_get_limits (adapter)));
      g_assert_false (g_variant_is_floating (rlx_adapter_get_limits (adapter)));
      g_assert_cmpuint (g_variant_n_children (limits), ==, 16);
      g_assert_true (g_variant_lookup (limits, "max-buffer-size", "t", &max_buffer_size));
      g_assert_cmpuint (max_buffer_size, ==, info->target.limits.max_buffer_size);
      g_assert_true (g_variant_lookup (limits, "max-subgroup-size", "u", &subgroup));
      g_assert_cmpuint (subgroup, ==, info->target.subgroup_max);
      g_assert_true (g_variant_lookup (limits, "matrices", "^as", &matrices));
      g_assert_cmpuint (g_strv_length (matrices), ==, info->target.n_matrices);
    }

  /* An empty adapter describes nothing and cannot be opened. */
  g_assert_cmpstr (rlx_adapter_get_name (nothing), ==, "");
  g_assert_cmpuint (rlx_adapter_get_features (nothing), ==, 0);
  g_assert_null (rlx_gpu_open (rlx_adapter_get_info (nothing), &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND);
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

  /* The first one is lost while the second still works. */
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
  RlxGpuCounters counters;
  RlxGpu *gpu;

  rlx_debug_set_flags (before | RLX_DEBUG_NO_F16 | RLX_DEBUG_NO_SUBGROUPS | RLX_DEBUG_NO_TIMESTAMPS);
  gpu = open_device ();
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.features &
                    (RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS |
                     RLX_DEVICE_FEATURES_SUBGROUP_MATRIX | RLX_DEVICE_FEATURES_TIMESTAMPS), ==, 0);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.n_matrices, ==, 0);

  {
    g_autoptr (GError) error = NULL;
    RlxGpuPipelineDesc desc = { "halves", "enable f16; @compute @workgroup_size(1) fn main() {}", NULL, 0, NULL };
    RlxGpuPipeline *pipeline = NULL;

    g_assert_false (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, NULL, &error));
    g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  }
  rlx_gpu_unref (gpu);

  rlx_debug_set_flags (before);
  gpu = open_device ();
  /* All are checked by one kernel. */
  rlx_gpu_get_counters (gpu, &counters);
  g_assert_cmpuint (counters.pipelines, ==, 1);
  rlx_gpu_unref (gpu);

  rlx_debug_set_flags (before);
  rlx_debug_set_target ("small");
  gpu = open_device ();
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.limits.max_invocations, ==, 256);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.limits.max_workgroup_storage, ==, 16384);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.limits.max_storage_buffers, ==, 8);
  g_assert_cmpuint (rlx_gpu_get_info (gpu)->target.limits.max_storage_binding_size, ==, 1024 * 1024);
  rlx_gpu_unref (gpu);

  rlx_debug_set_target (NULL);
}

/* Allocates and releases memory for a tensor; returns how many buffers were created for it. */
static guint64
count_made (RlxGpu  *gpu,
            guint64  size)
{
  g_autoptr (GError) error = NULL;
  RlxGpuCounters before, after;
  RlxGpuBuffer *buffer;

  rlx_gpu_get_counters (gpu, &before);
  buffer = rlx_gpu_pool_take (gpu, size, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), >=, size);
  rlx_gpu_pool_give (buffer);
  rlx_gpu_get_counters (gpu, &after);
  return after.buffers - before.buffers;
}

/* Released buffers are reused, up to a limit. */
static void
test_pool (void)
{
  RlxGpu *gpu;
  guint64 used;

  g_setenv ("RLX_MEMORY_LIMIT", "128M", TRUE);
  gpu = open_device ();
  used = rlx_gpu_get_memory_used (gpu);

  /* small ones of several sizes share a buffer, large ones do not */
  g_assert_cmpuint (count_made (gpu, 1000), ==, 1);
  g_assert_cmpuint (count_made (gpu, 600), ==, 0);
  g_assert_cmpuint (count_made (gpu, 3 << 20), ==, 1);
  g_assert_cmpuint (count_made (gpu, 3 << 20), ==, 0);
  g_assert_cmpuint (count_made (gpu, 2 << 20), ==, 1);
  /* a sixteenth of the limit holds two: the oldest is dropped */
  g_assert_cmpuint (count_made (gpu, 4 << 20), ==, 1);
  g_assert_cmpuint (count_made (gpu, 3 << 20), ==, 1);
  g_assert_cmpuint (count_made (gpu, 4 << 20), ==, 0);
  g_assert_cmpuint (count_made (gpu, 9 << 20), ==, 1);
  g_assert_cmpuint (count_made (gpu, 9 << 20), ==, 1);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);

  rlx_gpu_unref (gpu);
  g_unsetenv ("RLX_MEMORY_LIMIT");
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

/* If the driver computes on the host, large buffers are in the program's own memory: a
 * job reads and writes it directly. */
static void
test_host_memory (void)
{
  const guint n = 10 * 1000 + 3;
  g_autoptr (GError) error = NULL;
  g_autofree guint32 *input = make_input (n, 9);
  g_autofree guint32 *output = g_new0 (guint32, n);
  RlxGpu *gpu = open_device ();
  const RlxGpuAdapterInfo *info = rlx_gpu_get_info (gpu);
  gboolean wanted = info->type == RLX_ADAPTER_TYPE_CPU && (info->target.features & RLX_DEVICE_FEATURES_MAPPED_STORAGE);
  RlxGpuBuffer *small;
  Kernel kernel;
  guint8 odd[5] = { 1, 2, 3, 4, 5 };
  guint8 back[12] = { 0 };
  RlxGpuDownload download;
  RlxGpuJob job = { .downloads = &download, .n_downloads = 1 };

  if (RLX_DEBUG_CHECK (NO_MAP))
    g_assert_false (wanted);
  small = rlx_gpu_buffer_new (gpu, 64, RLX_GPU_BUFFER_STORAGE, "small", &error);
  g_assert_no_error (error);
  g_assert_null (rlx_gpu_buffer_get_host (small));
  rlx_gpu_buffer_populate (small, RLX_GPU_WHOLE);
  rlx_gpu_buffer_free (small);

  kernel_init (&kernel, gpu, twice_wgsl, n);
  g_assert_cmpuint (rlx_gpu_buffer_get_size (kernel.b), ==, n * 4);
  g_assert_true ((rlx_gpu_buffer_get_host (kernel.b) != NULL) == wanted);
  rlx_gpu_buffer_populate (kernel.b, RLX_GPU_WHOLE);
  /* New memory is zeroed, whichever buffer it belongs to. */
  download = (RlxGpuDownload) { kernel.b, 0, n * 4, output };
  output[n - 1] = 1;
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (output[i], ==, 0);

  /* Repeatedly, so that a run that reads stale data is detected. */
  for (guint round = 0; round < 20; round++)
    {
      input[0] = input[n - 1] = round;
      run_kernel (&kernel, input, output, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < n; i++)
        g_assert_cmpuint (output[i], ==, input[i] * 2u);
      if (wanted)
        {
          g_assert_cmpmem (rlx_gpu_buffer_get_host (kernel.a), n * 4, input, n * 4);
          g_assert_cmpmem (rlx_gpu_buffer_get_host (kernel.b), n * 4, output, n * 4);
        }
    }

  /* The rest of the last word is zeroed, and nothing beyond it. */
  rlx_gpu_buffer_write (gpu, kernel.b, 8, odd, sizeof odd, &error);
  g_assert_no_error (error);
  download = (RlxGpuDownload) { kernel.b, 7, sizeof back, back };
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (back[0], ==, ((guint8 *) output)[7]);
  g_assert_cmpmem (back + 1, 8, ((guint8[]) { 1, 2, 3, 4, 5, 0, 0, 0 }), 8);
  g_assert_cmpmem (back + 9, 3, (guint8 *) output + 16, 3);

  /* A new buffer must not see the memory of a freed one. */
  kernel_clear (&kernel);
  kernel_init (&kernel, gpu, twice_wgsl, n);
  download = (RlxGpuDownload) { kernel.a, 0, n * 4, output };
  execute (gpu, &job, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (output[i], ==, 0);
  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

static guint64
count_dispatches (RlxGpu *gpu)
{
  RlxGpuCounters counters;

  rlx_gpu_get_counters (gpu, &counters);
  return counters.dispatches;
}

/* Kernels that are compiled ahead do not run. */
static void
test_warm (void)
{
  static const RlxGpuBindingKind kinds[] = {
    RLX_GPU_BINDING_UNIFORM, RLX_GPU_BINDING_READ, RLX_GPU_BINDING_READ_WRITE, RLX_GPU_BINDING_READ_WRITE,
  };
  /* It would never end. */
  static const char wgsl[] =
    "struct P { n : array<vec4<u32>, 64> }\n"
    "@group(0) @binding(0) var<uniform> p : P;\n"
    "@group(0) @binding(1) var<storage, read> x : array<vec4<u32>>;\n"
    "@group(0) @binding(2) var<storage, read_write> y : array<u32>;\n"
    "@group(0) @binding(3) var<storage, read_write> z : array<u32>;\n"
    "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
    "  for (var i = 0u; y[i] == 0u; i += p.n[id.x].x) { y[id.x + 1u] = x[i].x; z[i] = i; }\n"
    "}\n";
  g_autoptr (GError) error = NULL;
  RlxGpu *gpu = open_device ();
  RlxGpuPipelineDesc descs[] = {
    { "ahead", wgsl, kinds, G_N_ELEMENTS (kinds), NULL },
    { "ahead again", wgsl, kinds, G_N_ELEMENTS (kinds), NULL },
    { "bad", "fn main() {", kinds, 0, NULL },
  };
  /* More than are compiled at a time. */
  RlxGpuPipelineDesc many[8];
  char *texts[G_N_ELEMENTS (many) - 1];
  g_autoptr (GCancellable) cancelled = g_cancellable_new ();
  guint64 before, used;
  guint32 input[32] = { 3 }, output[32];
  guint failed = 0;
  Kernel kernel;

  g_assert_true (rlx_gpu_compiles_late (gpu) == (rlx_gpu_get_info (gpu)->type == RLX_ADAPTER_TYPE_CPU));
  kernel_init (&kernel, gpu, twice_wgsl, 32);

  before = count_dispatches (gpu);
  g_assert_true (rlx_gpu_pipelines_warm (gpu, descs, 0, NULL, NULL, &error));
  g_assert_cmpuint (count_dispatches (gpu), ==, before);
  g_assert_true (rlx_gpu_pipelines_warm (gpu, descs, 2, NULL, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (count_dispatches (gpu), ==, before + 1);
  /* Once is enough. */
  used = rlx_gpu_get_memory_used (gpu);
  g_assert_true (rlx_gpu_pipelines_warm (gpu, descs, 2, NULL, NULL, &error));
  g_assert_cmpuint (count_dispatches (gpu), ==, before + 1);
  g_assert_cmpuint (rlx_gpu_get_memory_used (gpu), ==, used);

  g_assert_false (rlx_gpu_pipelines_warm (gpu, descs, 3, &failed, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_cmpuint (failed, ==, 2);
  g_clear_error (&error);

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      texts[i] = g_strdup_printf ("@compute @workgroup_size(%u) fn main() {}", i + 1);
      many[i] = (RlxGpuPipelineDesc) { "one of many", texts[i], kinds, 0, NULL };
    }
  many[G_N_ELEMENTS (texts)] = descs[2];
  before = count_dispatches (gpu);
  g_assert_false (rlx_gpu_pipelines_warm (gpu, many, G_N_ELEMENTS (many), &failed, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_cmpuint (failed, ==, G_N_ELEMENTS (texts));
  g_clear_error (&error);
  g_assert_cmpuint (count_dispatches (gpu), ==, before + G_N_ELEMENTS (texts));

  g_cancellable_cancel (cancelled);
  g_assert_false (rlx_gpu_pipelines_warm (gpu, many, G_N_ELEMENTS (texts), NULL, cancelled, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    g_free (texts[i]);

  /* None of this is an error of the next job. */
  run_kernel (&kernel, input, output, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (output[0], ==, 6);
  g_assert_cmpuint (output[31], ==, 0);

  kernel_clear (&kernel);
  kernel_init (&kernel, gpu, twice_wgsl, 32);
  rlx_gpu_force_loss (gpu, "for a test");
  before = count_dispatches (gpu);
  g_assert_false (rlx_gpu_pipelines_warm (gpu, &descs[2], 1, NULL, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_assert_cmpuint (count_dispatches (gpu), ==, before);
  kernel_clear (&kernel);
  rlx_gpu_unref (gpu);
}

/* Little room for staging: results are read back in several rounds. */
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

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/gpu/list", test_list);
  g_test_add_func ("/gpu/object", test_object);
  g_test_add_func ("/gpu/select", test_select);
  g_test_add_func ("/gpu/environment", test_environment);
  g_test_add_func ("/gpu/no-driver", test_no_driver);
  g_test_add_func ("/gpu/two-devices", test_two_devices);
  g_test_add_func ("/gpu/features", test_features);
  g_test_add_func ("/gpu/pool", test_pool);
  g_test_add_func ("/gpu/budget", test_budget);
  g_test_add_func ("/gpu/host-memory", test_host_memory);
  g_test_add_func ("/gpu/warm", test_warm);
  g_test_add_func ("/gpu/tight-budget", test_tight_budget);

  return g_test_run ();
}
