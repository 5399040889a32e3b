/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/rlx-packed-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "rlx-reference.h"
#include "rlx-test-packed.h"

/* Operators on the same packed rows are in the same graph. */
typedef struct
{
  RlxGraph *graph;
  GPtrArray *texts;    /* descriptions of the outputs */
} Build;

static void
build_init (Build *self)
{
  self->graph = rlx_graph_new ();
  self->texts = g_ptr_array_new_with_free_func (g_free);
}

/* All operands are constants; takes ownership of @text and of floating @attributes. */
static void
build_add (Build            *self,
           char             *text,
           const char       *op,
           RlxTensor *const *inputs,
           gsize             n_inputs,
           GVariant         *attributes)
{
  g_autofree char *name = g_strdup_printf ("y%u", self->texts->len);
  g_autofree RlxNode **results = NULL;
  g_autoptr (GError) error = NULL;
  RlxNode *nodes[6] = { NULL, };
  gsize n;

  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL)
      nodes[i] = rlx_graph_constant (self->graph, inputs[i], &error);
  results = rlx_graph_add_op (self->graph, op, nodes, n_inputs, attributes, &n, &error);
  if (results == NULL)
    {
      g_test_message ("%s: %s", text, error->message);
      g_test_fail ();
      g_free (text);
      return;
    }
  rlx_graph_output (self->graph, name, results[0], NULL);
  g_ptr_array_add (self->texts, text);
}

/* Runs the graph, frees it, and compares the results with the reference. */
static void
build_check (Build *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) expected = rlx_reference_run (self->graph, NULL, 0, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  RlxTensor **outputs;
  gsize n = 0;

  g_assert_no_error (error);
  outputs = rlx_test_run_graph (self->graph, 0, NULL, &n);
  for (gsize i = 0; i < n; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (expected, i);
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (value, outputs[i], &check))
        {
          g_test_message ("%s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " are wrong",
                          (char *) g_ptr_array_index (self->texts, (guint) i), check.first_wrong, check.expected, check.got, check.bound,
                          check.n_wrong, value->n_elements);
          g_test_fail ();
        }
      g_object_unref (outputs[i]);
    }
  g_free (outputs);
  g_ptr_array_unref (self->texts);
}

static GVariant *
of_type (const char *name)
{
  return g_variant_new_parsed ("{'type': <%s>}", name);
}

static const RlxTestPacked *
find_format (const char *name)
{
  for (gsize i = 0; i < RLX_TEST_N_PACKED; i++)
    if (g_str_equal (rlx_test_packed[i].name, name))
      return &rlx_test_packed[i];
  g_assert_not_reached ();
}

/* Every format with arbitrary bytes: infinite and other odd scales, indices of all
 * entries of the grids. With an odd number of blocks, rows start anywhere in a word. */
static void
test_formats (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  for (gsize i = 0; i < RLX_TEST_N_PACKED; i++)
    {
      const RlxTestPacked *format = &rlx_test_packed[i];
      gsize columns = format->numbers < 32 ? 36 : (gsize) format->numbers * 3;
      gboolean scaled = i >= RLX_TEST_FIRST_SCALED;
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, 11, columns, FALSE, FALSE, rand);
      g_autoptr (RlxTensor) scale = scaled ? rlx_test_random ("f32[11]", 0.5, 2, 9) : NULL;

      build_add (&build, g_strdup (format->name), "dequantize_blocks", (RlxTensor *[]) { rows, scale }, 2, of_type (format->name));
    }
  build_check (&build);
}

/* Against the reference, without a device: no number of a block exceeds what its scale allows, and some come close. */
static void
test_reach (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (17);
  GEnumClass *types = g_type_class_ref (RLX_TYPE_PACKED_TYPE);

  for (gsize i = 0; i < RLX_TEST_N_PACKED; i++)
    {
      const RlxTestPacked *format = &rlx_test_packed[i];
      RlxPackedType type = (RlxPackedType) g_enum_get_value_by_nick (types, format->name)->value;
      gboolean scaled = i >= RLX_TEST_FIRST_SCALED;
      const gsize n_rows = 300, columns = format->numbers < 32 ? 36 : (gsize) format->numbers;
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, n_rows, columns, FALSE, FALSE, rand);
      g_autoptr (RlxTensor) scale = scaled ? rlx_test_tensor ("f32[1]", (const double[]) { 1 }) : NULL;
      g_autoptr (RlxTensor) zero = scaled && !rlx_test_packed_is_f8 (format)
                                   ? rlx_test_packed_rows (format, "", 1, n_rows, 1, FALSE, FALSE, rand) : NULL;
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (GPtrArray) expected = NULL;
      g_autoptr (GError) error = NULL;
      Build build = { graph, g_ptr_array_new_with_free_func (g_free) };
      const RlxReferenceValue *value;
      const guint8 *bytes = g_bytes_get_data (rlx_tensor_get_bytes (rows), NULL);
      gsize row_bytes = g_bytes_get_size (rlx_tensor_get_bytes (rows)) / n_rows;
      double nearest = 0;

      build_add (&build, g_strdup (format->name), "dequantize_blocks", (RlxTensor *[]) { rows, scale, zero }, 3, of_type (format->name));
      expected = rlx_reference_run (graph, NULL, 0, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
      g_assert_no_error (error);
      value = g_ptr_array_index (expected, 0);
      g_assert_cmpuint (value->n_elements, ==, n_rows * columns);
      for (gsize row = 0; row < n_rows; row++)
        {
          double reach = scaled ? rlx_packed_type_get_reach (type) : rlx_packed_find_reach (type, bytes + row * row_bytes, row_bytes), most = 0;

          for (gsize j = 0; j < columns; j++)
            {
              double size = fabs (value->values[row * columns + j]);

              /* 8-bit floats include NaN, as f16 does. */
              if (isfinite (size) || !scaled)
                most = fmax (most, isnan (size) ? INFINITY : size);
            }
          /* Which is rounded as well. */
          if (most > (float) reach)
            {
              g_test_message ("%s: %g is more than %g", format->name, most, reach);
              g_test_fail ();
            }
          if (reach <= FLT_MAX && reach > 0)
            nearest = fmax (nearest, most / reach);
        }
      g_test_message ("%s: %.3f", format->name, nearest);
      g_assert_cmpfloat (nearest, >=, 0.75);
      g_ptr_array_unref (build.texts);
    }
  g_type_class_unref (types);
}

/* Products of few and of many rows, with every way of splitting the work. */
static void
test_products (void)
{
  static const struct { gsize m, n, k; } sizes[] = { { 1, 70, 64 }, { 3, 1, 96 }, { 7, 33, 32 }, { 41, 67, 96 }, { 2, 2, 512 }, { 5, 530, 32 },
                                                     { 6, 40, 256 }, { 19, 161, 256 } };
  const RlxTestPacked *format = find_format ("q4-0");
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree char *x_type = g_strdup_printf ("f32[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", sizes[i].m, sizes[i].k);
      g_autofree char *bias_type = g_strdup_printf ("f32[%" G_GSIZE_FORMAT "]", sizes[i].n);
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, sizes[i].n, sizes[i].k, FALSE, TRUE, rand);
      g_autoptr (RlxTensor) x = rlx_test_random (x_type, -1, 1, 3);
      g_autoptr (RlxTensor) bias = rlx_test_random (bias_type, -1, 1, 4);

      build_add (&build, g_strdup_printf ("%s q4-0", x_type), "dequant_matmul", (RlxTensor *[]) { x, rows, NULL, NULL, bias, NULL }, 6, of_type ("q4-0"));
    }
  build_check (&build);
}

/* Products for each of the formats, with whole chunks and enough rows for shuffles. */
static void
test_each (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  for (gsize i = 0; i < RLX_TEST_N_PACKED; i++)
    {
      const RlxTestPacked *format = &rlx_test_packed[i];
      gsize k = MAX ((gsize) format->numbers, 128);
      g_autofree char *x_type = g_strdup_printf ("%s[9,%" G_GSIZE_FORMAT "]", i % 3 == 0 ? "f16" : "f32", k);
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, 35, k, FALSE, TRUE, rand);
      g_autoptr (RlxTensor) scale = i >= RLX_TEST_FIRST_SCALED ? rlx_test_random ("f32[35]", 0.5, 2, 9) : NULL;
      g_autoptr (RlxTensor) x = rlx_test_random (x_type, -1, 1, 3);

      build_add (&build, g_strdup_printf ("%s %s", x_type, format->name), "dequant_matmul", (RlxTensor *[]) { x, rows, scale, NULL, NULL, NULL }, 6,
                 of_type (format->name));
    }
  build_check (&build);
}

/* ---- precision INTEGER ----------------------------------------------------------- */

#define BYTES_ROWS 21
#define BYTES_COLUMNS 37

/* Whether this device quantises operands to bytes. */
static gboolean
expect_bytes (RlxDevice *device)
{
  const RlxTarget *target = &rlx_gpu_get_info (rlx_device_get_gpu (device))->target;

  return target->registers_are_shared && target->subgroup_sizes_can_be_set && (target->features & RLX_DEVICE_FEATURES_PACKED_DOT) != 0;
}

/* Takes the only output of a product with x, which is computed with bytes if @by_bytes is set. */
static RlxTensor *
run_bytes (RlxGraph  *graph,
           RlxTensor *x,
           gboolean   by_bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_autoptr (GVariant) plan = NULL, kernels = NULL;
  g_autofree RlxTensor **outputs = NULL;
  guint count = 0;
  gsize n;

  g_assert_no_error (error);
  plan = rlx_executable_dup_plan (executable);
  kernels = g_variant_lookup_value (plan, "kernels", NULL);
  g_variant_lookup (kernels, "packed-dot", "u", &count);
  g_assert_cmpuint (count, ==, by_bytes ? 1 : 0);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  g_assert_no_error (error);
  return outputs[0];
}

static RlxGraph *
make_bytes (const RlxTestPacked *format,
            RlxTensor           *x,
            RlxTensor           *rows,
            RlxTensor           *bias)
{
  RlxGraph *graph = rlx_graph_new ();
  g_autofree RlxNode **results = NULL;
  g_autoptr (GError) error = NULL;
  RlxNode *nodes[6] = { NULL };
  gsize n;
  const gint64 *shape = rlx_tensor_get_shape (x, &n);

  rlx_graph_set_default_precision (graph, RLX_PRECISION_INTEGER);
  nodes[0] = rlx_graph_input (graph, "x", rlx_tensor_get_data_type (x), shape, n, &error);
  nodes[1] = rlx_graph_constant (graph, rows, &error);
  nodes[4] = bias != NULL ? rlx_graph_constant (graph, bias, &error) : NULL;
  results = rlx_graph_add_op (graph, "dequant_matmul", nodes, 6, of_type (format->name), &n, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", results[0], &error);
  g_assert_no_error (error);
  return graph;
}

/* Each format within the bound, with blocks of very different magnitude; one with an odd number of blocks per row. */
static void
test_bytes (void)
{
  static const char *const names[] = { "q4-0", "q4-1", "q5-0", "q5-1", "q8-0", "q4-k", "q5-k", "q6-k", "mxfp4", "q3-k" };
  g_autoptr (GRand) rand = g_rand_new_with_seed (29);
  RlxDevice *device = rlx_test_device ();

  if (device == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      const RlxTestPacked *format = find_format (names[i]);
      gsize k = MAX ((gsize) format->numbers, 96);
      g_autofree char *x_type = g_strdup_printf ("%s[%d,%" G_GSIZE_FORMAT "]", i == 1 ? "f16" : "f32", BYTES_ROWS, k);
      g_autofree char *bias_type = g_strdup_printf ("%s[%d]", i == 1 ? "f16" : "f32", BYTES_COLUMNS);
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, BYTES_COLUMNS, k, FALSE, TRUE, rand);
      g_autoptr (RlxTensor) x = rlx_test_random (x_type, -1, 1, 3 + i);
      g_autoptr (RlxTensor) bias = i % 2 != 0 ? rlx_test_random (bias_type, -1, 1, 4) : NULL;
      g_autoptr (RlxGraph) graph = make_bytes (format, x, rows, bias);
      g_autoptr (RlxTensor) y = run_bytes (graph, x, expect_bytes (device) && i + 1 < G_N_ELEMENTS (names));
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) expected = rlx_reference_run (graph, &x, 1, NULL, NULL, 0,
                                                          expect_bytes (device) && i + 1 < G_N_ELEMENTS (names) ? RLX_REFERENCE_BYTES : RLX_REFERENCE_NARROW, &error);
      RlxReferenceCheck check;

      g_assert_no_error (error);
      if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), y, &check))
        {
          g_test_message ("%s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g)", names[i], check.first_wrong,
                          check.expected, check.got, check.bound);
          g_test_fail ();
        }
    }
}

/* Infinities and NaN affect their row and no other; very small values count as zero, and very large ones are kept. */
static void
test_bytes_edges (void)
{
  const RlxTestPacked *format = find_format ("q8-0");
  g_autoptr (GRand) rand = g_rand_new_with_seed (31);
  g_autoptr (RlxTensor) rows = NULL, x = NULL, y = NULL;
  g_autoptr (RlxGraph) graph = NULL;
  float values[BYTES_ROWS][64] = { { 0 } };
  gsize size;
  const float *results;

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < BYTES_ROWS; i++)
    for (guint j = 0; j < 64; j++)
      values[i][j] = i == 3 ? 0x1p-120f : i == 4 ? 0x1p120f : 1.0f;
  values[1][40] = NAN;
  values[2][7] = -INFINITY;
  rows = rlx_test_packed_rows (format, "", 1, BYTES_COLUMNS, 64, FALSE, TRUE, rand);
  x = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, (gint64[]) { BYTES_ROWS, 64 }, 2, (const guint8 *) values, sizeof values, NULL);
  graph = make_bytes (format, x, rows, NULL);
  y = run_bytes (graph, x, expect_bytes (rlx_test_device ()));
  results = g_bytes_get_data (rlx_tensor_get_bytes (y), &size);
  for (guint j = 0; j < BYTES_COLUMNS; j++)
    {
      const float *first = results + j;

      g_assert_false (isfinite (first[1 * BYTES_COLUMNS]));
      g_assert_false (isfinite (first[2 * BYTES_COLUMNS]));
      g_assert_true (fabsf (first[3 * BYTES_COLUMNS]) <= 0x1p-100f);
      for (guint i = 0; i < BYTES_ROWS; i++)
        if (i == 0 || i > 4)
          g_assert_true (first[i * BYTES_COLUMNS] == first[0] && isfinite (first[0]));
      /* With matrix units it is f16, where it is infinite. */
      if (expect_bytes (rlx_test_device ()))
        g_assert_true (fabsf (first[4 * BYTES_COLUMNS] * 0x1p-120f - first[0]) <= 0x1p-10f * fabsf (first[0]) + 0x1p-10f);
    }
}

/* Rows with incomplete chunks, scales of incomplete blocks, zero points of each kind, and halves. */
static void
test_scaled (void)
{
  static const struct
  {
    const char *type, *x, *scale, *zero;
    gsize n, k;
    gint64 block_size;
    gboolean is_signed;
  } cases[] = {
    { "int4", "f32[3,45]", "f32[9,3]", "u8[9,2]", 9, 45, 16, FALSE },
    { "int4", "f16[1,45]", "f16[9,3]", NULL, 9, 45, 16, TRUE },
    { "int8", "f32[2,70]", "f32[5,6]", "f32[5,6]", 5, 70, 12, FALSE },
    { "int2", "f32[2,50]", "f32[5,2]", "u8[5,1]", 5, 50, 32, FALSE },
    { "f8-e4m3", "f32[2,33]", NULL, NULL, 5, 33, 0, FALSE },
    { "f8-e5m2", "f32[2,33]", "f32[]", NULL, 5, 33, 0, FALSE },
    { "bf16", "f16[2,33]", NULL, NULL, 5, 33, 0, FALSE },
  };
  g_autoptr (GRand) rand = g_rand_new_with_seed (13);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const RlxTestPacked *format = find_format (cases[i].type);
      g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "", 1, cases[i].n, cases[i].k, cases[i].is_signed, TRUE, rand);
      g_autoptr (RlxTensor) x = rlx_test_random (cases[i].x, -1, 1, 3);
      g_autoptr (RlxTensor) scale = cases[i].scale ? rlx_test_random (cases[i].scale, -2, 2, 4) : NULL;
      g_autoptr (RlxTensor) zero = cases[i].zero ? rlx_test_random (cases[i].zero, 0, cases[i].zero[0] == 'u' ? 255 : 9, 5) : NULL;

      build_add (&build, g_strdup_printf ("%s %s", cases[i].x, cases[i].type), "dequant_matmul",
                 (RlxTensor *[]) { x, rows, scale, zero, NULL, NULL }, 6,
                 g_variant_new_parsed ("{'type': <%s>, 'block_size': <%x>}", cases[i].type, cases[i].block_size));
    }
  build_check (&build);
}

/* Rows for several experts, some for one that does not exist. */
static void
test_experts (void)
{
  static const double which[] = { 2, 0, 2, -1, 1, 3, 0, 0, 2, 1, 1000000, 2 };
  const RlxTestPacked *format = find_format ("q8-0");
  g_autoptr (GRand) rand = g_rand_new_with_seed (17);
  g_autoptr (RlxTensor) rows = rlx_test_packed_rows (format, "3,", 3, 37, 64, FALSE, TRUE, rand);
  g_autoptr (RlxTensor) x = rlx_test_random ("f32[2,6,64]", -1, 1, 3);
  g_autoptr (RlxTensor) bias = rlx_test_random ("f32[3,37]", -1, 1, 4);
  g_autoptr (RlxTensor) experts = rlx_test_tensor ("i32[2,6]", which);
  g_autoptr (RlxTensor) none = rlx_test_packed_rows (format, "0,", 0, 37, 64, FALSE, TRUE, rand);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  build_add (&build, g_strdup ("experts"), "dequant_matmul", (RlxTensor *[]) { x, rows, NULL, NULL, bias, experts }, 6, of_type ("q8-0"));
  build_add (&build, g_strdup ("no experts"), "dequant_matmul", (RlxTensor *[]) { x, none, NULL, NULL, NULL, experts }, 6, of_type ("q8-0"));
  build_check (&build);
}

/* Indices of every type, also with separate scales, and f16 results. */
static void
test_gather (void)
{
  static const double indices[] = { 0, 5, -1, -6, 100, -100 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (19);
  g_autoptr (RlxTensor) pick = rlx_test_tensor ("i32[2,3]", indices);
  g_autoptr (RlxTensor) rows = rlx_test_packed_rows (find_format ("q4-k"), "", 1, 6, 256, FALSE, TRUE, rand);
  g_autoptr (RlxTensor) integers = rlx_test_packed_rows (find_format ("int4"), "", 1, 6, 40, FALSE, TRUE, rand);
  g_autoptr (RlxTensor) scale = rlx_test_random ("f16[6,3]", -1, 1, 4);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  build_add (&build, g_strdup ("q4-k"), "gather_packed", (RlxTensor *[]) { rows, pick }, 2, of_type ("q4-k"));
  build_add (&build, g_strdup ("int4"), "gather_packed", (RlxTensor *[]) { integers, pick, scale }, 3,
             g_variant_new_parsed ("{'type': <'int4'>, 'block_size': <int64 16>, 'columns': <int64 39>, 'to': <'f16'>}"));
  build_check (&build);
}

/* Empty operands: no rows, no columns. Without columns a sum is its bias. */
static void
test_empty (void)
{
  g_autoptr (RlxTensor) x = rlx_test_random ("f32[2,0]", 0, 1, 1);
  g_autoptr (RlxTensor) none = rlx_test_random ("u8[3,0]", 0, 1, 1);
  g_autoptr (RlxTensor) bias = rlx_test_random ("f32[3]", -1, 1, 1);
  g_autoptr (RlxTensor) rows = rlx_test_random ("u8[0,18]", 0, 1, 1);
  g_autoptr (RlxTensor) full = rlx_test_random ("f32[2,32]", 0, 1, 1);
  Build build;

  if (rlx_test_device () == NULL)
    return;
  build_init (&build);
  build_add (&build, g_strdup ("no columns"), "dequant_matmul", (RlxTensor *[]) { x, none, NULL, NULL, bias, NULL }, 6, of_type ("q4-0"));
  build_add (&build, g_strdup ("no rows"), "dequant_matmul", (RlxTensor *[]) { full, rows }, 2, of_type ("q4-0"));
  build_add (&build, g_strdup ("no numbers"), "dequantize_blocks", (RlxTensor *[]) { none }, 1, of_type ("q4-0"));
  build_check (&build);
}

/* A table that needs several bindings of a megabyte if these are small: with rows and
 * words that span two of them. */
static void
test_large (void)
{
  enum { ROWS = 2600, BLOCKS = 32, BYTES = BLOCKS * 34 };
  static const gint64 shape[] = { ROWS, BYTES };
  static const double indices[] = { 0, 962, 963, 1927, 1928, ROWS - 1 };
  g_autoptr (RlxTensor) pick = rlx_test_tensor ("i32[6]", indices);
  g_autoptr (RlxTensor) table = NULL, y = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree double *expected = NULL;
  guint8 *bytes;

  if (rlx_test_device () == NULL)
    return;
  bytes = g_malloc (ROWS * (gsize) BYTES);
  for (gsize i = 0; i < ROWS * (gsize) BLOCKS; i++)
    {
      memcpy (bytes + i * 34, "\x00\x3c", 2);   /* a scale of 1 */
      memset (bytes + i * 34 + 2, (int) (i / BLOCKS % 101 + i % BLOCKS % 20), 32);
    }
  table = rlx_tensor_new_from_data (RLX_DATA_TYPE_U8, shape, 2, bytes, ROWS * (gsize) BYTES, &error);
  g_free (bytes);
  g_assert_no_error (error);

  expected = g_new (double, 6 * BLOCKS * 32);
  for (gsize i = 0; i < 6 * BLOCKS * 32; i++)
    expected[i] = (gsize) indices[i / 32 / BLOCKS] % 101 + i / 32 % BLOCKS % 20;
  y = rlx_test_run_op ("gather_packed", 2, (RlxTensor *[]) { table, pick }, of_type ("q8-0"));
  if (y != NULL)
    rlx_test_compare ("a large table", y, "f32[6,1024]", expected, 0, 0);
}

static void
refuses (const char   *op,
         const char   *types,
         const char   *attributes,
         RlxGraphError code,
         const char   *words)
{
  rlx_test_refuses (op, types, g_variant_new_parsed (attributes), code, words);
}

static void
infers (const char *op,
        const char *types,
        const char *attributes,
        const char *type)
{
  rlx_test_infers (op, types, g_variant_new_parsed (attributes), type);
}

static void
test_rules (void)
{
  infers ("dequant_matmul", "f16[5,2,512] u8[3,288]", "{'type': <'q4-k'>}", "f16[5,2,3]");
  infers ("dequant_matmul", "f32[32] i8[3,18]", "{'type': <'q4-0'>}", "f32[3]");
  infers ("dequant_matmul", "f32[4,2,32] u8[7,3,18] - - f32[7,3] i32[4,2]", "{'type': <'q4-0'>}", "f32[4,2,3]");
  infers ("dequant_matmul", "f32[4,17] u8[3,16] f16[3,2] u8[3,1]", "{'type': <'int4'>, 'block_size': <int64 16>}", "f32[4,3]");
  infers ("dequant_matmul", "f32[4,17] u8[3,9] f16[6] f16[6]", "{'type': <'int4'>, 'block_size': <int64 16>}", "f32[4,3]");
  infers ("dequantize_blocks", "u8[2,3,50]", "{'type': <'iq1-s'>, 'to': <'f16'>}", "f16[2,3,256]");
  infers ("dequantize_blocks", "u8[5] f32[]", "{'type': <'int2'>, 'columns': <int64 18>}", "f32[18]");
  infers ("gather_packed", "u8[9,34] i64[2,4]", "{'type': <'q8-0'>}", "f32[2,4,32]");
  infers ("gather_packed", "u8[0,34] i64[2,0]", "{'type': <'q8-0'>}", "f32[2,0,32]");

  refuses ("dequant_matmul", "f32[4,32] u8[3,18]", "{'type': <'q9-9'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "q9-9");
  refuses ("dequant_matmul", "f32[] u8[3,18]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "scalar");
  refuses ("dequant_matmul", "f32[4,32] u8[18]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "2 dimensions");
  refuses ("dequant_matmul", "f32[4,32] u8[3,18] - - - i32[4]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "3 dimensions");
  refuses ("dequant_matmul", "f32[4,32] u8[3,17]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "17 bytes");
  refuses ("dequant_matmul", "f32[4,33] u8[3,18]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "32 numbers, not 33");
  refuses ("dequant_matmul", "f32[4,0] u8[3,18]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "32 numbers");
  refuses ("dequant_matmul", "f32[4,32] f32[3,18]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  refuses ("dequant_matmul", "f32[4,32] u8[3,18] f32[3]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale");
  refuses ("dequant_matmul", "f32[4,32] u8[3,18]", "{'type': <'q4-0'>, 'block_size': <int64 32>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "block_size");
  refuses ("dequant_matmul", "f32[4,32] u8[3,18] - - f32[4]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "bias");
  refuses ("dequant_matmul", "f32[4,32] u8[3,18] - - f16[3]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_DATA_TYPE, "bias");
  refuses ("dequant_matmul", "f32[4,32] u8[2,3,18] - - - i32[5]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "experts");
  refuses ("dequant_matmul", "f32[4,32] u8[2,3,18] - - f32[3] i32[4]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "bias");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16]", "{'type': <'int4'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "need a scale");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16] f32[2]", "{'type': <'int4'>}", RLX_GRAPH_ERROR_SHAPE, "2 elements");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16] f32[3,2] u8[3,2]", "{'type': <'int4'>, 'block_size': <int64 16>}", RLX_GRAPH_ERROR_SHAPE, "1 bytes");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16] f32[3,2] f32[3,1]", "{'type': <'int4'>, 'block_size': <int64 16>}", RLX_GRAPH_ERROR_SHAPE, "2 floats");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16] f32[3]", "{'type': <'int4'>, 'block_size': <int64 -4>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-4");
  refuses ("dequant_matmul", "f32[4,32] u8[3,16] f32[3]", "{'type': <'int4'>, 'block_size': <int64 6>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "6");
  refuses ("dequant_matmul", "f32[4,16] u8[3,16] f32[3]", "{'type': <'int4'>, 'block_size': <int64 16>}", RLX_GRAPH_ERROR_SHAPE, "not 16");
  refuses ("dequant_matmul", "f32[4,32] u8[3,32] f32[3] u8[3]", "{'type': <'f8-e4m3'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "zero point");
  refuses ("dequantize_blocks", "u8[18]", "{'type': <'q4-0'>, 'to': <'i32'>}", RLX_GRAPH_ERROR_DATA_TYPE, "i32");
  refuses ("dequantize_blocks", "u8[]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "scalar");
  refuses ("dequantize_blocks", "u8[18]", "{'type': <'q4-0'>, 'columns': <int64 31>}", RLX_GRAPH_ERROR_SHAPE, "not 31");
  refuses ("dequantize_blocks", "u8[18]", "{'type': <'q4-0'>, 'columns': <int64 -1>}", RLX_GRAPH_ERROR_SHAPE, "not -1");
  refuses ("dequantize_blocks", "u8[4] f32[]", "{'type': <'int4'>, 'columns': <int64 9>}", RLX_GRAPH_ERROR_SHAPE, "not 9");
  /* rows that unpack to more elements than a tensor can have */
  refuses ("dequantize_blocks", "u8[60000,60000]", "{'type': <'iq1-s'>}", RLX_GRAPH_ERROR_LIMIT, NULL);
  refuses ("gather_packed", "u8[18] i32[2]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "2 dimensions");
  refuses ("gather_packed", "u8[0,18] i32[2]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_SHAPE, "no rows");
  refuses ("gather_packed", "u8[2,18] f32[2]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  refuses ("gather_packed", "u8[2,18] i32[1,1,1,1,1,1,1,1]", "{'type': <'q4-0'>}", RLX_GRAPH_ERROR_LIMIT, "9 dimensions");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/packed/rules", test_rules);
  g_test_add_func ("/packed/formats", test_formats);
  rlx_test_add_kernels ("/packed/products", test_products);
  g_test_add_func ("/packed/reach", test_reach);
  g_test_add_func ("/packed/each", test_each);
  g_test_add_func ("/packed/bytes", test_bytes);
  g_test_add_func ("/packed/bytes/edges", test_bytes_edges);
  g_test_add_func ("/packed/scaled", test_scaled);
  rlx_test_add_kernels ("/packed/experts", test_experts);
  g_test_add_func ("/packed/gather", test_gather);
  g_test_add_func ("/packed/empty", test_empty);
  g_test_add_func ("/packed/large", test_large);

  return g_test_run ();
}
