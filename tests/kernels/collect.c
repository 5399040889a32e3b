/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Writes the WGSL of every kernel that the calls of the property tests and the
 * graphs of a file lead to, on several targets that need not be there: graphs
 * are lowered, nothing runs.
 *
 *   collect-kernels GRAPHS FOLDER
 *
 * The file has graphs in text form, separated by empty lines; those with a comment “# checked” are compiled for
 * checked runs. FOLDER gets a file for each distinct text, and `index` with a line for each: its name, the kernel, the
 * file of kernels/ it is made from ("-" for one that is generated), the operator, the target, and how many invocations
 * and bytes a workgroup may have there.
 */
#include "config.h"

#include <string.h>

#include "rlx-prop-calls.h"
#include "passes/rlx-passes-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-graph-private.h"

#define MIB (1024 * 1024)
/* A comment in graphs that are to be checked, and surveyed. */
#define CHECKED "# checked"

/* Named targets that differ in the kernels they get, those with the most first. */
static const char *const names[] = { "navi21", "lavapipe", "minimum", "v3d", "small", "navi31", "dg2", "lnl", "tgl", "apple-m" };

static RlxTarget targets[G_N_ELEMENTS (names) + 1];

static void
fill_targets (void)
{
  const guint last = G_N_ELEMENTS (names);

  for (guint i = 0; i < last; i++)
    {
      targets[i] = *rlx_target_lookup (names[i]);
      /* Packed half floats with small bindings. */
      if (g_str_equal (names[i], "small"))
        targets[i].features &= ~RLX_DEVICE_FEATURES_F16;
    }
  /* The target of tests on a machine without a GPU. */
  targets[last] = *rlx_target_lookup ("lavapipe");
  if (!rlx_target_pretend (&targets[last], rlx_target_lookup ("navi31"), NULL))
    g_error ("lavapipe cannot stand in for a GPU");
}

static gboolean
has_matrix_units (const RlxTarget *target)
{
  return target->n_matrices > 0 && target->matrices_are_fast;
}

/* Reduced precision is for matrix units, and vice versa, except for attention of half floats. Bytes are for Intel's chips. */
static gboolean
is_for (RlxGraph        *graph,
        const char      *text,
        const RlxTarget *target)
{
  RlxPrecision precision = rlx_graph_get_precision (graph);

  if (precision == RLX_PRECISION_INTEGER)
    return target->registers_are_shared;
  return has_matrix_units (target) == (precision == RLX_PRECISION_REDUCED) ||
         (has_matrix_units (target) && strstr (text, "attention(") != NULL && strstr (text, " f16[") != NULL);
}

typedef struct
{
  const char *folder;
  GString *index;
  GHashTable *known;   /* texts */
} Collection;

static void
collect_step (Collection      *self,
              const RlxStep   *step,
              const RlxTarget *target)
{
  g_autofree char *name = NULL, *path = NULL;
  g_autoptr (GError) error = NULL;

  if (!g_hash_table_add (self->known, g_strdup (step->wgsl)))
    return;

  name = g_strdup_printf ("%04u.wgsl", g_hash_table_size (self->known));
  path = g_build_filename (self->folder, name, NULL);
  if (!g_file_set_contents (path, step->wgsl, -1, &error))
    g_error ("%s", error->message);
  g_string_append_printf (self->index, "%s\t%s\t%s\t%s\t%s\t%u\t%u\n",
                          name, step->kernel, step->file != NULL ? step->file : "-", step->op, target->name,
                          target->limits.max_invocations, target->limits.max_workgroup_storage);
}

/* Like rlx_device_compile(), as far as possible without a device. */
static RlxPlan *
make_plan (const RlxIr     *ir,
           const RlxTarget *target,
           GError         **error)
{
  RlxIr *fused = rlx_run_passes (ir, target, error);

  return fused != NULL ? rlx_plan_new (fused, target, NULL, error) : NULL;
}

static void
collect_graph (Collection      *self,
               const char      *what,
               RlxGraph        *graph,
               gboolean         checked,
               const RlxTarget *target)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxPlan) plan = NULL;
  g_autoptr (RlxIr) ir = rlx_graph_copy_ir (graph, &error);

  if (ir == NULL)
    g_error ("%s: %s", what, error->message);

  ir->checked = ir->surveyed = checked;
  plan = make_plan (ir, target, &error);
  /* A device with small bindings cannot run everything, and reports an error. */
  if (g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT) && target->limits.max_storage_binding_size == MIB)
    return;
  if (plan == NULL)
    g_error ("%s: %s", what, error->message);
  for (guint i = 0; i < plan->steps->len; i++)
    collect_step (self, g_ptr_array_index (plan->steps, i), target);
}

/* Whether a target has other kernels for a type than those before it. */
static gboolean
is_concerned (const RlxTarget *target,
              const RlxOp     *op,
              RlxDataType      data_type)
{
  guint types = get_types (op);

  if (has_matrix_units (target))
    return FALSE;
  if (data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_U64)
    return FALSE;
  if (target->features & RLX_DEVICE_FEATURES_F16)
    return TRUE;
  return data_type == RLX_DATA_TYPE_F16 || data_type == RLX_DATA_TYPE_I8 || !(types & 1u << RLX_DATA_TYPE_F16);
}

static void
collect_calls (Collection *self)
{
  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];
      Generator generator = find_generator (op);

      for (int data_type = 0; generator != NULL && data_type <= RLX_DATA_TYPE_U2; data_type++)
        {
          g_autofree char *what = g_strdup_printf ("%s %s", op->name, rlx_data_type_to_string ((RlxDataType) data_type));
          g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (what));
          g_autoptr (RlxGraph) graph = rlx_graph_new ();
          g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
          g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
          Build build = { .graph = graph, .feeds = feeds, .texts = texts };

          if (!(get_types (op) >> data_type & 1))
            continue;
          add_calls (&build, op, generator, (RlxDataType) data_type, rand);
          for (guint j = 0; j < G_N_ELEMENTS (targets); j++)
            if (is_concerned (&targets[j], op, (RlxDataType) data_type))
              collect_graph (self, what, graph, FALSE, &targets[j]);
        }
    }
}

static void
collect_file (Collection *self,
              const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *content = NULL;
  g_auto (GStrv) texts = NULL;

  if (!g_file_get_contents (path, &content, NULL, &error))
    g_error ("%s", error->message);

  texts = g_strsplit (content, "\n\n", -1);
  for (guint i = 0; texts[i] != NULL; i++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (texts[i], &error);

      if (graph == NULL)
        g_error ("%s: %s", texts[i], error->message);
      for (guint j = 0; j < G_N_ELEMENTS (targets); j++)
        if (is_for (graph, texts[i], &targets[j]))
          collect_graph (self, texts[i], graph, strstr (texts[i], CHECKED) != NULL, &targets[j]);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr (GString) index = g_string_new (NULL);
  g_autoptr (GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  Collection collection = { NULL, index, known };

  g_test_init (&argc, &argv, NULL);
  if (argc != 3)
    g_error ("needs a file of graphs and a folder");

  fill_targets ();
  collection.folder = argv[2];
  collect_calls (&collection);
  collect_file (&collection, argv[1]);

  path = g_build_filename (argv[2], "index", NULL);
  if (!g_file_set_contents (path, index->str, (gssize) index->len, &error))
    g_error ("%s", error->message);

  return 0;
}
