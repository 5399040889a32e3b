/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Writes the WGSL of every kernel that the calls of the property tests and the
 * graphs of a file lead to, on several adapters that need not be there: graphs
 * are lowered, nothing runs.
 *
 *   collect-kernels GRAPHS FOLDER
 *
 * The file has graphs in text form, separated by empty lines. FOLDER gets a file for each distinct text, and `index` with a line for
 * each: its name, the kernel, the file of kernels/ it is made from ("-" for one
 * that is generated), the operator, and the adapter.
 */
#include "config.h"

#include <string.h>

#include "../unit/test-prop-calls.h"
#include "passes/rlx-passes-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-graph-private.h"

#define MIB (1024 * 1024)

/* The limits are those of every WebGPU device, but for bindings. */
#define LIMITS(binding_size, n_buffers) { \
  .max_buffer_size = 1024ul * MIB, .max_storage_binding_size = binding_size, .max_storage_buffers = n_buffers, \
  .max_uniform_binding_size = 65536, .storage_offset_alignment = 256, .uniform_offset_alignment = 256, \
  .max_workgroup_storage = 16384, .max_invocations = 256, .max_workgroup_size = { 256, 256, 64 }, .max_workgroups = 65535 }

/* Adapters with matrix units of one kind. */
#define MATRIX(name_, vendor, min, max, ...) \
  { \
    .name = (char *) name_, \
    .type = RLX_ADAPTER_TYPE_DISCRETE, \
    .vendor_id = vendor, \
    .features = RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS | RLX_DEVICE_FEATURES_SUBGROUP_MATRIX, \
    .subgroup_min = min, \
    .subgroup_max = max, \
    .limits = LIMITS (128 * MIB, 10), \
    .matrix_configs = (RlxGpuMatrixConfig[]) { { __VA_ARGS__ } }, \
    .n_matrix_configs = 1, \
  }

static const RlxGpuAdapterInfo adapters[] = {
  {
    .name = (char *) "gpu",
    .type = RLX_ADAPTER_TYPE_DISCRETE,
    .features = RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS | RLX_DEVICE_FEATURES_PACKED_DOT,
    .limits = LIMITS (128 * MIB, 10),
  },
  {
    .name = (char *) "cpu",
    .type = RLX_ADAPTER_TYPE_CPU,
    .features = RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS | RLX_DEVICE_FEATURES_PACKED_DOT,
    .subgroup_min = 8,
    .subgroup_max = 8,
    .limits = LIMITS (128 * MIB, 10),
  },
  {
    .name = (char *) "plain-gpu",
    .type = RLX_ADAPTER_TYPE_INTEGRATED,
    .limits = LIMITS (1 * MIB, 8),
  },
  {
    .name = (char *) "v3d",
    .type = RLX_ADAPTER_TYPE_INTEGRATED,
    .vendor_id = 0x14e4,
    .limits = LIMITS (128 * MIB, 10),
  },
  {
    .name = (char *) "plain-cpu",
    .type = RLX_ADAPTER_TYPE_CPU,
    .limits = LIMITS (1 * MIB, 8),
  },
  MATRIX ("lavapipe", 0x10005, 8, 8, RLX_GPU_COMPONENT_F16, RLX_GPU_COMPONENT_F32, 8, 8, 8),
  MATRIX ("xe2", 0x8086, 16, 32, RLX_GPU_COMPONENT_F16, RLX_GPU_COMPONENT_F32, 8, 16, 16),
  MATRIX ("rdna3", 0x1002, 32, 64, RLX_GPU_COMPONENT_F16, RLX_GPU_COMPONENT_F32, 16, 16, 16),
  MATRIX ("ada", 0x10de, 32, 32, RLX_GPU_COMPONENT_F16, RLX_GPU_COMPONENT_F32, 16, 16, 16),
  MATRIX ("apple", 0x106b, 32, 32, RLX_GPU_COMPONENT_F32, RLX_GPU_COMPONENT_F32, 8, 8, 8),
};

typedef struct
{
  const char *folder;
  GString *index;
  GHashTable *known;   /* texts */
} Collection;

static void
collect_step (Collection              *self,
              const RlxStep           *step,
              const RlxGpuAdapterInfo *adapter)
{
  g_autofree char *name = NULL, *path = NULL;
  g_autoptr (GError) error = NULL;

  if (!g_hash_table_add (self->known, g_strdup (step->wgsl)))
    return;

  name = g_strdup_printf ("%04u.wgsl", g_hash_table_size (self->known));
  path = g_build_filename (self->folder, name, NULL);
  if (!g_file_set_contents (path, step->wgsl, -1, &error))
    g_error ("%s", error->message);
  g_string_append_printf (self->index, "%s\t%s\t%s\t%s\t%s\n",
                          name, step->kernel, step->file != NULL ? step->file : "-", step->op, adapter->name);
}

/* What rlx_device_compile() does, as far as it goes without a device. */
static RlxPlan *
make_plan (const RlxIr             *ir,
           const RlxGpuAdapterInfo *adapter,
           GError                 **error)
{
  RlxIr *fused = rlx_run_passes (ir, adapter, error);

  return fused != NULL ? rlx_plan_new (fused, adapter, NULL, error) : NULL;
}

static void
collect_graph (Collection              *self,
               const char              *what,
               RlxGraph                *graph,
               const RlxGpuAdapterInfo *adapter)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxPlan) plan = NULL;
  const RlxIr *ir = rlx_graph_freeze (graph, &error);

  if (ir == NULL)
    g_error ("%s: %s", what, error->message);

  plan = make_plan (ir, adapter, &error);
  /* A device with small bindings cannot do everything, and says so. */
  if (g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT) && adapter->limits.max_storage_binding_size == MIB)
    return;
  if (plan == NULL)
    g_error ("%s: %s", what, error->message);
  for (guint i = 0; i < plan->steps->len; i++)
    collect_step (self, g_ptr_array_index (plan->steps, i), adapter);
}

/* Whether an adapter has other kernels for a type than those before it. */
static gboolean
is_concerned (const RlxGpuAdapterInfo *adapter,
              const RlxOp             *op,
              RlxDataType              data_type)
{
  guint types = get_types (op);

  if (adapter->n_matrix_configs > 0)
    return FALSE;
  if (data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_U64)
    return FALSE;
  if (adapter->features & RLX_DEVICE_FEATURES_F16)
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

      for (int data_type = 0; generator != NULL && data_type <= RLX_DATA_TYPE_U4; data_type++)
        {
          g_autofree char *what = g_strdup_printf ("%s %s", op->name, rlx_data_type_to_string ((RlxDataType) data_type));
          g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (what));
          g_autoptr (RlxGraph) graph = rlx_graph_new ();
          g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
          g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
          Build build = { graph, feeds, texts };

          if (!(get_types (op) >> data_type & 1))
            continue;
          add_calls (&build, op, generator, (RlxDataType) data_type, rand);
          for (guint j = 0; j < G_N_ELEMENTS (adapters); j++)
            if (is_concerned (&adapters[j], op, (RlxDataType) data_type))
              collect_graph (self, what, graph, &adapters[j]);
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
      /* Reduced precision is for matrix units, and the other way round. */
      for (guint j = 0; j < G_N_ELEMENTS (adapters); j++)
        if ((adapters[j].n_matrix_configs > 0) == (rlx_graph_get_precision (graph) == RLX_PRECISION_REDUCED))
          collect_graph (self, texts[i], graph, &adapters[j]);
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

  collection.folder = argv[2];
  collect_calls (&collection);
  collect_file (&collection, argv[1]);

  path = g_build_filename (argv[2], "index", NULL);
  if (!g_file_set_contents (path, index->str, (gssize) index->len, &error))
    g_error ("%s", error->message);

  return 0;
}
