/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Every operator of the table, with every data type it takes, on random shapes
 * and values: what the device gives is within the operator's stated bound of
 * the reference, and the same bits when it runs again. Then once more with floats
 * that are zeros of both signs, subnormals and halves, and with infinities and
 * NaN among them.
 *
 * Each operator and type is one graph of several calls, so that tensors come to
 * lie anywhere in memory.
 */
#include "config.h"

#include "rlx-prop-calls.h"
#include "util/rlx-debug-private.h"

static void
compare (Build      *build,
         GPtrArray  *expected,
         RlxTensor **outputs,
         gboolean    spoilt)
{
  gboolean talk = g_getenv ("RLX_TEST_RATIOS") != NULL;

  for (guint i = 0; i < expected->len; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (expected, i);
      const char *text = g_ptr_array_index (build->texts, i);
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (value, outputs[i], &check))
        {
          g_test_message ("%s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " are wrong",
                          text, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong, value->n_elements);
          g_test_fail ();
        }
      else if (talk)
        {
          g_test_message ("%s: worst %.3g of the bound %.3g (expected %.9g), %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " unknown",
                          text, check.max_ratio, check.bound, check.expected, check.n_unknown, value->n_elements);
        }
      /* A meaningless bound tests nothing. The effects of infinities are undefined in places. */
      if (!spoilt && check.n_unknown * 2 > value->n_elements && value->n_elements > 64)
        {
          g_test_message ("%s: the reference knows nothing of %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " elements",
                          text, check.n_unknown, value->n_elements);
          g_test_fail ();
        }
    }
}

static GPtrArray *
run_reference (Build            *build,
               GPtrArray        *feeds,
               RlxReferenceFlags flags)
{
  g_autoptr (GError) error = NULL;
  GPtrArray *expected = rlx_reference_run (build->graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, flags, &error);

  g_assert_no_error (error);
  return expected;
}

/* Whether everything is right if subnormals are preserved. */
static gboolean
is_right (GPtrArray  *expected,
          RlxTensor **outputs)
{
  for (guint i = 0; i < expected->len; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        return FALSE;
    }
  return TRUE;
}

static void
free_tensors (RlxTensor **tensors,
              gsize       n)
{
  for (gsize i = 0; i < n; i++)
    g_object_unref (tensors[i]);
  g_free (tensors);
}

static void
run_feeds (Build         *build,
           RlxExecutable *executable,
           GPtrArray     *feeds,
           gboolean       spoilt)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) expected = run_reference (build, feeds, RLX_REFERENCE_KEEP);
  RlxTensor **outputs, **again;
  RlxTensor **inputs = (RlxTensor **) feeds->pdata;
  gsize n_outputs, n_again;

  outputs = rlx_executable_run (executable, inputs, feeds->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  again = rlx_executable_run (executable, inputs, feeds->len, &n_again, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_outputs, ==, expected->len);
  g_assert_cmpuint (n_outputs, ==, build->keep->len);

  if (!is_right (expected, outputs))
    {
      g_autoptr (GPtrArray) flushed = run_reference (build, feeds, RLX_REFERENCE_FLUSH);

      for (guint i = 0; i < expected->len; i++)
        if (!g_array_index (build->keep, gboolean, i))
          rlx_reference_value_relent (g_ptr_array_index (expected, i), g_ptr_array_index (flushed, i), outputs[i]);
    }
  compare (build, expected, outputs, spoilt);
  for (gsize i = 0; i < n_outputs; i++)
    {
      if (!g_bytes_equal (rlx_tensor_get_bytes (outputs[i]), rlx_tensor_get_bytes (again[i])))
        {
          g_test_message ("%s: other bits in the second run", (char *) g_ptr_array_index (build->texts, i));
          g_test_fail ();
        }
    }

  free_tensors (outputs, n_outputs);
  free_tensors (again, n_again);
}

/* The feeds with other random floats; NULL if none were random. */
static GPtrArray *
draw_anew (Build   *build,
           PropKind kind,
           GRand   *rand)
{
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  gboolean any = FALSE;

  for (guint i = 0; i < build->feeds->len; i++)
    {
      RlxTensor *feed = g_ptr_array_index (build->feeds, i);
      RlxDataType data_type = rlx_tensor_get_data_type (feed);
      PropKind was = g_array_index (build->kinds, PropKind, i);
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (feed, &n_dims);

      if (was == PROP_GIVEN || was == PROP_WILD || (was == PROP_POSITIVE && kind == PROP_ODD) || (data_type != RLX_DATA_TYPE_F32 && data_type != RLX_DATA_TYPE_F16))
        {
          g_ptr_array_add (feeds, g_object_ref (feed));
          continue;
        }
      g_ptr_array_add (feeds, prop_tensor (rand, was == PROP_POSITIVE ? PROP_SPOILT_POSITIVE : kind, data_type, shape, n_dims));
      any = TRUE;
    }

  return any ? g_steal_pointer (&feeds) : NULL;
}

static void
run_graph (Build *build,
           GRand *rand)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = NULL;

  executable = rlx_device_compile (rlx_test_device (), build->graph, NULL, NULL, &error);
  g_assert_no_error (error);

  run_feeds (build, executable, build->feeds, FALSE);
  for (PropKind kind = PROP_ODD; kind <= PROP_SPOILT; kind++)
    {
      g_autoptr (GPtrArray) feeds = draw_anew (build, kind, rand);

      if (feeds != NULL)
        run_feeds (build, executable, feeds, kind == PROP_SPOILT);
    }
}

/* Whether the settings of this run matter for a type. Storage-only types are moved like
 * others of their size: each operator gets a few of them. */
static gboolean
is_concerned (const RlxOp *op,
              RlxDataType  data_type)
{
  if (data_type > RLX_DATA_TYPE_U4 && !strstr (op->name, "cast") && !strstr (op->name, "quantize") && (op->id + data_type) % 5 != 0)
    return FALSE;
  /* Other devices differ in floats only; integers take the same paths. */
  if (!rlx_test_is_thorough () && data_type != RLX_DATA_TYPE_F32 && data_type != RLX_DATA_TYPE_F16 && !strstr (op->name, "cast") &&
      get_types (op) & 1u << RLX_DATA_TYPE_F32 && (op->id + data_type) % 3 != 0)
    return FALSE;
  /* The devices that pose as GPUs have the same element-wise kernels: one of them tests every other operator, and another
   * those in between. */
  if (!rlx_test_is_thorough () && op->flags & RLX_OP_ELEMENTWISE && rlx_debug_get_target () != NULL &&
      op->id % 2 != g_str_equal (rlx_debug_get_target (), "minimum"))
    return FALSE;
  if (RLX_DEBUG_CHECK (NO_F16))
    return data_type == RLX_DATA_TYPE_F16 || g_str_equal (op->name, "cast");
  /* A type of whole words and one that shares words. */
  if (RLX_DEBUG_CHECK (NO_ROBUSTNESS))
    return data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_U8 ||
           !(get_types (op) & (1u << RLX_DATA_TYPE_F32 | 1u << RLX_DATA_TYPE_U8));

  return TRUE;
}

static void
test_type (const RlxOp *op,
           Generator    generator,
           RlxDataType  data_type)
{
  g_autofree char *what = g_strdup_printf ("%s %s", op->name, rlx_data_type_to_string (data_type));
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (what));
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) kinds = g_array_new (FALSE, FALSE, sizeof (PropKind));
  g_autoptr (GArray) keep = g_array_new (FALSE, FALSE, sizeof (gboolean));
  g_autoptr (GError) error = NULL;
  Build build = { graph, feeds, texts, kinds, keep };

  add_calls (&build, op, generator, data_type, rand);
  if (!rlx_graph_check (graph, &error))
    {
      g_test_message ("%s: %s", what, error->message);
      g_test_fail ();
      return;
    }
  if (texts->len == 0)
    {
      g_test_message ("%s: no calls were made", what);
      g_test_fail ();
      return;
    }
  run_graph (&build, rand);
}

static void
test_op (gconstpointer data)
{
  const RlxOp *op = data;
  Generator generator = find_generator (op);

  if (rlx_test_device () == NULL)
    return;

  if (generator == NULL || !rlx_reference_has_op (op->name))
    {
      g_test_message ("%s has no %s", op->name, generator == NULL ? "generator in this test" : "reference");
      g_test_fail ();
      return;
    }

  for (int data_type = 0; data_type <= RLX_DATA_TYPE_U2; data_type++)
    if (get_types (op) >> data_type & 1 && is_concerned (op, (RlxDataType) data_type))
      test_type (op, generator, (RlxDataType) data_type);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      g_autofree char *path = g_strdup_printf ("/properties/%s", rlx_op_table[i]->name);

      if (!(rlx_op_table[i]->flags & (RLX_OP_LEAF | RLX_OP_INTERNAL)))
        g_test_add_data_func (path, rlx_op_table[i], test_op);
    }

  return g_test_run ();
}
