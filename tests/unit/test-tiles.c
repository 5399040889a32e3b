/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of matrices in each of the ways for a GPU, whatever the adapter is: all
 * others are forbidden. Operands are small whole numbers, so that all sums are exact
 * and right means equal.
 */
#include "config.h"

#include <string.h>

#include "rlx-test-util.h"

#include "ops/rlx-product-private.h"
#include "passes/rlx-passes-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "util/rlx-debug-private.h"

typedef struct
{
  const char *type;
  guint batch;            /* 0: none */
  guint m, n, k;
  gboolean transpose_a, transpose_b;
  gboolean constant_b;
} Case;

static RlxTensor *
make_matrices (const Case *self,
               guint       batch,
               guint       rows,
               guint       cols,
               guint32     seed,
               int       **numbers)
{
  g_autofree char *type = batch > 0 ? g_strdup_printf ("%s[%u,%u,%u]", self->type, batch, rows, cols)
                                    : g_strdup_printf ("%s[%u,%u]", self->type, rows, cols);
  gsize n = (gsize) MAX (batch, 1) * rows * cols;
  g_autofree double *values = g_new (double, n);
  g_autoptr(GRand) rand = g_rand_new_with_seed (seed);

  *numbers = g_new (int, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (*numbers)[i] = g_rand_int_range (rand, -2, 3);
  return rlx_test_tensor (type, values);
}

static double *
multiply (const Case *self,
          const int  *a,
          const int  *b)
{
  guint m = self->m, n = self->n, k = self->k;
  double *y = g_new0 (double, (gsize) MAX (self->batch, 1) * m * n);

  for (guint s = 0; s < MAX (self->batch, 1); s++)
    for (guint i = 0; i < m; i++)
      for (guint j = 0; j < n; j++)
        for (guint l = 0; l < k; l++)
          y[((gsize) s * m + i) * n + j] += a[(gsize) s * m * k + (self->transpose_a ? l * m + i : i * k + l)] *
                                            b[(gsize) s * k * n + (self->transpose_b ? j * k + l : l * n + j)];
  return y;
}

static double
exactly (gsize    index G_GNUC_UNUSED,
         double   expected G_GNUC_UNUSED,
         gpointer user_data G_GNUC_UNUSED)
{
  return 0;
}

static void
check_on (RlxDevice        *device,
          const Case       *self,
          RlxProductVariant row)
{
  gboolean ta = self->transpose_a, tb = self->transpose_b;
  g_autofree char *what = g_strdup_printf ("%s: %s %u · [%u, %u, %u]%s%s%s", rlx_product_variants.variants[row].name, self->type,
                                           self->batch, self->m, self->n, self->k, ta ? " aᵀ" : "", tb ? " bᵀ" : "",
                                           self->constant_b ? " constant" : "");
  g_autofree int *numbers_a = NULL, *numbers_b = NULL;
  g_autoptr(RlxTensor) a = make_matrices (self, self->batch, ta ? self->k : self->m, ta ? self->m : self->k, 1, &numbers_a);
  g_autoptr(RlxTensor) b = make_matrices (self, self->batch, tb ? self->n : self->k, tb ? self->k : self->n, 2, &numbers_b);
  g_autofree double *expected = multiply (self, numbers_a, numbers_b);
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) y = NULL;
  g_autoptr(GError) error = NULL;
  RlxTensor *inputs[] = { a, b };
  RlxNode *operands[2];
  g_autofree RlxTensor **outputs = NULL;
  g_autofree RlxNode **results = NULL;
  RlxSpeeds only;
  gsize n;

  for (guint i = 0; i < 2; i++)
    {
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (inputs[i], &n_dims);

      operands[i] = i == 1 && self->constant_b
                      ? rlx_graph_constant (graph, inputs[i], &error)
                      : rlx_graph_input (graph, i == 0 ? "a" : "b", rlx_tensor_get_data_type (inputs[i]), shape, n_dims, &error);
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, "matmul", operands, 2,
                              g_variant_new_parsed ("{'transpose_a': <%b>, 'transpose_b': <%b>}", ta, tb), &n, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", results[0], NULL);

  rlx_speeds_guess (&only, RLX_ADAPTER_TYPE_DISCRETE);
  only.banned[RLX_FAMILY_PRODUCT] = ~(1u << row);
  executable = rlx_device_compile_for (device, graph, &only, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, inputs, self->constant_b ? 1 : 2, &n, NULL, &error);
  g_assert_no_error (error);
  y = outputs[0];
  rlx_test_compare_full (what, y, NULL, expected, exactly, NULL);
}

static void
check (const Case       *self,
       RlxProductVariant row)
{
  check_on (rlx_test_device (), self, row);
}

/* Sizes next to each one at which rows, columns or steps are split, and multiples of
 * four, which are read as vectors. */
static void
test_edges (gconstpointer data)
{
  static const guint sizes[][3] = {
    { 1, 1, 1 }, { 3, 5, 2 }, { 4, 4, 4 }, { 7, 9, 9 }, { 32, 32, 8 }, { 33, 31, 17 }, { 36, 44, 12 }, { 64, 64, 16 },
    { 65, 63, 15 }, { 128, 128, 8 }, { 129, 130, 7 }, { 132, 196, 36 }, { 20, 300, 24 }, { 260, 12, 20 }, { 100, 100, 33 },
  };
  RlxProductVariant row = GPOINTER_TO_UINT (data);

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i += rlx_test_is_thorough () ? 1 : 3)
    /* f16 only differs in how vectors, or scalars, are loaded. Two of the four layouts of the operands test every edge
     * of both, and the next size tests the other two. */
    for (guint t = 0; t < (i % 4 == 2 ? 8 : 4); t++)
      {
        Case self = { t & 4 ? "f16" : "f32", 0, sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t & 2, i / 2 % 2 };

        if (!g_test_slow () && ((t ^ t >> 1) & 1) != i % 2)
          continue;

        check (&self, row);
      }
}

/* Stacks of matrices, at offsets that are multiples of four or not. */
static void
test_stacks (gconstpointer data)
{
  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < 4; t++)
    {
      check (&(Case) { "f32", 3, 36, 40, 20, t & 1, t & 2, t == 3 }, GPOINTER_TO_UINT (data));
      check (&(Case) { "f16", 2, 35, 39, 21, t & 1, t & 2, t == 3 }, GPOINTER_TO_UINT (data));
    }
}

/* Sums split over several workgroups. */
static void
test_parts (gconstpointer data)
{
  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < 4; t++)
    {
      check (&(Case) { "f32", 0, 48, 64, 1024, t & 1, t & 2, t == 3 }, GPOINTER_TO_UINT (data));
      check (&(Case) { "f32", 0, 47, 61, 703, t & 1, t & 2, t == 3 }, GPOINTER_TO_UINT (data));
    }
}

/* Without a calibration, according to known traits of the device. */
static void
test_traits (void)
{
  static const struct
  {
    RlxAdapterType type;
    guint32 vendor_id;
    const char *name;
    const char *architecture;
    const char *kernel;
    guint n_groups;
    guint m, n;
    guint subgroup_min, subgroup_max, registers;
  } devices[] = {
    { RLX_ADAPTER_TYPE_INTEGRATED, 0x8086, "Intel(R) Arc(tm) Graphics (LNL)", "xe-2lpg", "matmul-tile", 256, 1024, 1024, 16, 32, 64 },
    { RLX_ADAPTER_TYPE_DISCRETE, 0x8086, "Intel(R) Arc(tm) A770 Graphics (DG2)", "xe-hpg", "matmul-tile", 256, 1024, 1024, 8, 32, 64 },
    /* without subgroups nothing is known about its registers */
    { RLX_ADAPTER_TYPE_INTEGRATED, 0x8086, "Intel(R) Arc(tm) Graphics (LNL)", "xe-2lpg", "matmul-tile", 512, 1024, 1024, 0, 0, 140 },
    { RLX_ADAPTER_TYPE_DISCRETE, 0x1002, "AMD Radeon RX 7800 XT", "rdna-3", "matmul-tile", 64, 1024, 1024, 0, 0, 255 },
    /* half of each tile of 128 would be empty */
    { RLX_ADAPTER_TYPE_INTEGRATED, 0x1002, "AMD Radeon 780M", "rdna-3", "matmul-tile", 64, 64, 4096, 0, 0, 255 },
    { RLX_ADAPTER_TYPE_INTEGRATED, 0x14e4, "V3D 7.1.7", "", "matmul-registers", 1024, 1024, 1024, 0, 0, 0 },
    { RLX_ADAPTER_TYPE_INTEGRATED, 0, "V3D 4.2", NULL, "matmul-registers", 1024, 1024, 1024, 0, 0, 0 },
    { RLX_ADAPTER_TYPE_INTEGRATED, 0, "GPU", "v3d", "matmul-registers", 1024, 1024, 1024, 0, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (devices); i++)
    {
      RlxGpuAdapterInfo info = {
        .type = devices[i].type,
        .vendor_id = devices[i].vendor_id,
        .name = (char *) devices[i].name,
        .architecture = (char *) devices[i].architecture,
        .target.limits = { .max_storage_binding_size = 128 << 20, .max_buffer_size = 256 << 20, .max_storage_buffers = 8,
                    .storage_offset_alignment = 256, .uniform_offset_alignment = 256, .max_uniform_binding_size = 65536,
                    .max_workgroups = 65535 },
        .target.subgroup_min = devices[i].subgroup_min,
        .target.subgroup_max = devices[i].subgroup_max,
      };
      g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"a\" f32[%u, 64]\n%%1 = input \"b\" f32[64, %u]\n"
                                               "%%2 = matmul(%%0, %%1)\noutput \"y\" %%2\n", devices[i].m, devices[i].n);
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxPlan) plan = NULL;
      const RlxStep *step;

      rlx_gpu_adapter_info_set_traits (&info);
      if (devices[i].registers > 0)
        g_assert_cmpuint (info.target.registers, ==, devices[i].registers);
      plan = rlx_plan_new (rlx_pass_simplify (rlx_graph_peek_ir (graph, NULL), &info.target, NULL), &info.target, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (plan->steps->len, ==, 1);
      step = g_ptr_array_index (plan->steps, 0);
      g_assert_cmpstr (step->kernel, ==, devices[i].kernel);
      g_assert_cmpuint (step->grid[0] * step->grid[1], ==, devices[i].n_groups);
    }
}

/* If the lanes of a subgroup share registers, a kernel requests as few lanes as leave it enough registers, if the
 * device allows that; otherwise a smaller tile is preferred. */
static void
test_sizes (void)
{
  static const struct
  {
    const char *name;
    gboolean can_be_set, transpose_a;
    guint registers, subgroup_size, n_groups;
    gboolean rows;
  } targets[] = {
    { "tgl", TRUE, TRUE, 128, 8, 256, FALSE },
    { "dg2", TRUE, TRUE, 128, 8, 256, FALSE },
    { "lnl", TRUE, TRUE, 128, 16, 256, FALSE },
    { "tgl", TRUE, FALSE, 64, 16, 256, TRUE },
    { "dg2", TRUE, FALSE, 64, 16, 512, TRUE },
    { "lnl", TRUE, FALSE, 64, 32, 256, TRUE },
    { "dg2", FALSE, FALSE, 64, 0, 256, FALSE },
    { "navi31", TRUE, FALSE, 255, 0, 64, FALSE },
    { "lavapipe", TRUE, FALSE, 140, 0, 0, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
    {
      RlxTarget target = *rlx_target_lookup (targets[i].name);
      g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"a\" f32[%s]\n%%1 = input \"b\" f32[64, 1024]\n"
                                               "%%2 = matmul(%%0, %%1) {transpose_a = %s}\noutput \"y\" %%2\n",
                                               targets[i].transpose_a ? "64, 1024" : "1024, 64",
                                               targets[i].transpose_a ? "true" : "false");
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxPlan) plan = NULL;
      const RlxStep *step;

      target.subgroup_sizes_can_be_set = targets[i].can_be_set;
      g_assert_cmpuint (rlx_target_get_registers (&target, targets[i].subgroup_size), ==, targets[i].registers);
      plan = rlx_plan_new (rlx_pass_simplify (rlx_graph_peek_ir (graph, NULL), &target, NULL), &target, NULL, &error);
      g_assert_no_error (error);
      step = g_ptr_array_index (plan->steps, 0);
      g_assert_cmpuint (step->subgroup_size, ==, targets[i].subgroup_size);
      g_assert_cmpint (strstr (step->wgsl, "subgroup_size") != NULL, ==, targets[i].subgroup_size > 0);
      if (targets[i].n_groups > 0)
        g_assert_cmpint (strstr (step->wgsl, "subgroup_invocation_id") != NULL, ==, targets[i].rows);
      if (targets[i].n_groups > 0)
        g_assert_cmpuint (step->grid[0] * step->grid[1], ==, targets[i].n_groups);
    }
}

/* No kernel that requests a subgroup size has more subgroups in a workgroup than the device allows, whose limit is lowered
 * here: tiles, matrix units, attention and rows kept by a workgroup. */
static void
test_many_subgroups (void)
{
  static const char *const graphs[] = {
    "rlx 1\n%0 = input \"a\" f32[64, 1024]\n%1 = input \"b\" f32[64, 1024]\n"
    "%2 = matmul(%0, %1) {transpose_a = true}\noutput \"y\" %2\n",
    "rlx 1\nprecision reduced\n%0 = input \"a\" f16[2048, 512]\n%1 = input \"b\" f16[512, 2048]\n"
    "%2 = matmul(%0, %1)\noutput \"y\" %2\n",
    "rlx 1\nprecision reduced\n%0 = input \"a\" f16[2048, 512]\n%1 = input \"b\" f16[2048, 512]\n"
    "%2 = matmul(%0, %1) {transpose_b = true}\noutput \"y\" %2\n",
    "rlx 1\n%0 = input \"q\" f16[1, 8, 512, 64]\n%1 = input \"k\" f16[1, 8, 512, 64]\n%2 = input \"v\" f16[1, 8, 512, 64]\n"
    "%3 = attention(%0, %1, %2)\noutput \"y\" %3\n",
    "rlx 1\n%0 = input \"q\" f32[1, 8, 512, 64]\n%1 = input \"k\" f32[1, 8, 512, 64]\n%2 = input \"v\" f32[1, 8, 512, 64]\n"
    "%3 = attention(%0, %1, %2)\noutput \"y\" %3\n",
    "rlx 1\n%0 = input \"x\" f32[512, 16384]\n%1 = layer_norm(%0)\noutput \"y\" %1\n",
  };
  const RlxTarget *named;
  guint n_sizes = 0;

  for (guint i = 0; (named = rlx_target_get_named (i)) != NULL; i++)
    for (guint max = 16; max <= 64; max *= 2)
      for (guint j = 0; j < G_N_ELEMENTS (graphs); j++)
        {
          g_autoptr(RlxGraph) graph = NULL;
          g_autoptr(RlxPlan) plan = NULL;
          g_autoptr(GError) error = NULL;
          RlxTarget target = *named;

          target.max_subgroups = MIN (target.max_subgroups, max);
          target.limits.max_storage_binding_size = MAX (target.limits.max_storage_binding_size, 128 << 20);
          graph = rlx_graph_new_from_text (graphs[j], &error);
          g_assert_no_error (error);
          plan = rlx_plan_new (rlx_pass_simplify (rlx_graph_peek_ir (graph, NULL), &target, NULL), &target, NULL, &error);
          g_assert_no_error (error);
          for (guint k = 0; k < plan->steps->len; k++)
            {
              const RlxStep *step = g_ptr_array_index (plan->steps, k);

              if (step->subgroup_size == 0)
                continue;
              n_sizes++;
              if (step->workgroup_size > target.max_subgroups * step->subgroup_size)
                g_error ("%s, %u subgroups: %s has %u invocations in subgroups of %u", named->name, target.max_subgroups,
                         step->kernel, step->workgroup_size, step->subgroup_size);
            }
        }
  g_assert_cmpuint (n_sizes, >, 0);
}

/* Rows shared by subgroups, on a device that poses as one that has them: 8 · 2 sums per lane, or 4 · 4. */
static void
test_rows (gconstpointer data)
{
  static const Case cases[] = {
    { "f32", 0, 8, 4, 4, FALSE, FALSE, FALSE },
    { "f32", 0, 300, 70, 68, FALSE, FALSE, FALSE },
    { "f32", 0, 300, 70, 128, FALSE, TRUE, FALSE },
    { "f16", 0, 129, 33, 192, FALSE, FALSE, TRUE },
    { "f32", 3, 36, 40, 20, FALSE, TRUE, FALSE },
    { "f32", 2, 17, 40, 32, FALSE, FALSE, FALSE },
    { "f32", 0, 48, 64, 1028, FALSE, FALSE, FALSE },
    { "f32", 0, 48, 61, 1024, FALSE, TRUE, TRUE },
  };
  const char *before = rlx_debug_get_target ();
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  rlx_debug_set_target (data);
  device = rlx_device_open (NULL, NULL, &error);
  rlx_debug_set_target (before);
  if (device == NULL)
    {
      g_test_skip (error->message);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    check_on (device, &cases[i], RLX_PRODUCT_ROWS);
}

/* On a device that poses as a GPU, graphs are transformed as for one, too: only there the first operand of a product
 * with many columns is read from before its transpose. */
static void
test_stand_in (void)
{
  const char *before = rlx_debug_get_target ();

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"a\" f32[20, 6]\n%1 = input \"b\" f32[20, 40]\n"
                                                           "%2 = transpose(%0) {permutation = [1, 0]}\n"
                                                           "%3 = matmul(%2, %1)\noutput \"y\" %3\n", NULL);
      g_autoptr(RlxDevice) device = NULL;
      g_autoptr(RlxExecutable) executable = NULL;
      g_autoptr(GError) error = NULL;

      rlx_debug_set_target (i == 0 ? "lavapipe" : "navi31");
      device = rlx_device_open (NULL, NULL, &error);
      rlx_debug_set_target (before);
      g_assert_no_error (error);
      executable = rlx_device_compile (device, graph, NULL, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==, i == 0 ? 2 : 1);
    }
}

/* A matrix in panels of columns, in each order, as a whole and piece by piece: each element where it belongs, and zeros
 * where there is none. */
static void
assert_panels (RlxDataType type,
               guint       width,
               guint       n_k,
               guint       n_n,
               gboolean    columns_first)
{
  gsize element = rlx_data_type_get_size (type), size = (gsize) n_k * n_n * element, piece;
  RlxSlot slot = { .type.data_type = type, .packing = { width, n_k, n_n, columns_first ? 1 : n_n, columns_first ? n_k : 1 } };
  g_autofree guint8 *data = g_malloc (size);
  g_autofree guint8 *expected = NULL, *pieces = NULL;
  g_autoptr(GBytes) bytes = NULL, packed = NULL;

  for (gsize i = 0; i < size; i++)
    data[i] = (guint8) (i * 7919 >> 3);
  slot.size = (n_n + width - 1) / width * width * n_k * element;
  expected = g_malloc0 (slot.size);
  pieces = g_malloc0 (slot.size);
  for (gsize k = 0; k < n_k; k++)
    for (gsize n = 0; n < n_n; n++)
      memcpy (expected + ((n / width * n_k + k) * width + n % width) * element,
              data + (columns_first ? n * n_k + k : k * n_n + n) * element, element);

  bytes = g_bytes_new_static (data, size);
  packed = rlx_slot_pack (&slot, bytes);
  g_assert_cmpmem (g_bytes_get_data (packed, NULL), g_bytes_get_size (packed), expected, slot.size);
  piece = rlx_slot_get_piece (&slot, MAX (size / 3, (columns_first ? width * n_k : n_n) * element), FALSE);
  g_assert_cmpuint (piece, >, 0);
  for (gsize at = 0; at < size; at += piece)
    rlx_slot_pack_piece (&slot, data + at, at, MIN (piece, size - at), pieces);
  g_assert_cmpmem (pieces, slot.size, expected, slot.size);
}

static void
test_panels (void)
{
  static const RlxDataType types[] = { RLX_DATA_TYPE_F32, RLX_DATA_TYPE_F16, RLX_DATA_TYPE_U8 };
  static const guint widths[] = { 1, 4, 6, 16, 64 }, sizes[] = { 1, 3, 4, 15, 16, 17, 37, 130 };

  for (guint type = 0; type < G_N_ELEMENTS (types); type++)
    for (guint width = 0; width < G_N_ELEMENTS (widths); width++)
      for (guint k = 0; k < G_N_ELEMENTS (sizes); k++)
        for (guint n = 0; n < G_N_ELEMENTS (sizes); n++)
          {
            assert_panels (types[type], widths[width], sizes[k], sizes[n], FALSE);
            assert_panels (types[type], widths[width], sizes[k], sizes[n], TRUE);
          }
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *name;
    void (*func) (gconstpointer data);
  } tests[] = { { "edges", test_edges }, { "stacks", test_stacks }, { "parts", test_parts } };

  g_test_init (&argc, &argv, NULL);

  for (guint row = 0; row < RLX_N_PRODUCTS; row++)
    for (guint i = 0; row != RLX_PRODUCT_ROWS && i < G_N_ELEMENTS (tests); i++)
      {
        g_autofree char *path = g_strdup_printf ("/tiles/%s/%s", rlx_product_variants.variants[row].name, tests[i].name);

        g_test_add_data_func (path, GUINT_TO_POINTER (row), tests[i].func);
      }

  g_test_add_func ("/tiles/traits", test_traits);
  g_test_add_func ("/tiles/sizes", test_sizes);
  g_test_add_func ("/tiles/many-subgroups", test_many_subgroups);
  g_test_add_data_func ("/tiles/rows/dg2", "dg2", test_rows);
  g_test_add_data_func ("/tiles/rows/tgl", "tgl", test_rows);
  g_test_add_func ("/tiles/stand-in", test_stand_in);
  g_test_add_func ("/tiles/panels", test_panels);

  return g_test_run ();
}
