/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tries the matrix units of a device before they are used. What they do is an
 * extension that few programs use, and drivers differ in how elements lie in a
 * subgroup. So a small product has to give the right result first: of whole
 * numbers, exact in f16 while their sums are not, so that sums in f16 show. Rows,
 * columns and steps differ in number and fill no tile, so that what is transposed,
 * or left out, shows too.
 *
 * That takes a compiled graph and a run. It is done when a graph that allows reduced
 * precision is first compiled, not when a device is opened.
 */
#include "config.h"

#include "rlx-device-private.h"

#include "ops/rlx-product-private.h"
#include "rlx-calibration-private.h"
#include "rlx-graph-private.h"
#include "rlx-op-methods.h"
#include "rlx-tensor.h"
#include "util/rlx-debug-private.h"

#define ROWS 40
#define STEPS 72
#define COLUMNS 56

static int wrong;          /* atomic */

void
rlx_matrix_probe_set_test (gboolean is_wrong)
{
  g_atomic_int_set (&wrong, is_wrong);
}

/* Whole numbers in [-31, 31]. */
static void
fill (float  *numbers,
      guint   n,
      guint32 seed)
{
  guint32 state = seed;

  for (guint i = 0; i < n; i++)
    {
      state = state * 1664525u + 1013904223u;
      numbers[i] = (float) ((int) ((state >> 8) % 63) - 31);
    }
}

static gboolean
is_right (const float *a,
          const float *b,
          RlxTensor   *result)
{
  gsize n;
  g_autofree float *got = rlx_tensor_to_floats (result, &n, NULL);

  if (n != ROWS * COLUMNS)
    return FALSE;
  if (g_atomic_int_get (&wrong))
    got[n - 1] += 1.0f;
  for (guint i = 0; i < ROWS; i++)
    for (guint j = 0; j < COLUMNS; j++)
      {
        int sum = 0;

        for (guint k = 0; k < STEPS; k++)
          sum += (int) a[i * STEPS + k] * (int) b[k * COLUMNS + j];
        if (got[i * COLUMNS + j] != (float) sum)
          return FALSE;
      }
  return TRUE;
}

static RlxExecutable *
compile_probe (RlxDevice            *self,
               const RlxMatrixShape *config,
               RlxTensor            *weight,
               GCancellable         *cancellable,
               GError              **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  RlxTarget target = rlx_gpu_get_info (rlx_device_get_gpu (self))->target;
  const gint64 shape[] = { ROWS, STEPS };
  RlxNode *a = rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, shape, 2, error);
  RlxNode *b = a != NULL ? rlx_graph_constant (graph, weight, error) : NULL;
  RlxNode *y = b != NULL ? rlx_node_matmul (a, b, NULL, error) : NULL;

  if (y == NULL || !rlx_graph_output (graph, "y", y, error))
    return NULL;
  rlx_graph_set_default_precision (graph, RLX_PRECISION_REDUCED);
  target.matrices[0] = *config;
  target.n_matrices = 1;
  return rlx_device_compile_for_target (self, graph, &target, cancellable, error);
}

static const char *
component_name (RlxComponent component)
{
  return component == RLX_COMPONENT_F16 ? "f16" : "f32";
}

/* *@right is FALSE for a configuration that cannot be used. */
static gboolean
try_config (RlxDevice            *self,
            const RlxMatrixShape *config,
            gboolean             *right,
            GCancellable         *cancellable,
            GError              **error)
{
  const gint64 shape_a[] = { ROWS, STEPS }, shape_b[] = { STEPS, COLUMNS };
  float a[ROWS * STEPS], b[STEPS * COLUMNS];
  g_autoptr(RlxTensor) input = NULL;
  g_autoptr(RlxTensor) weight = NULL;
  g_autoptr(RlxTensor) result = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) steps = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(GError) problem = NULL;
  gsize n;

  *right = FALSE;
  fill (a, G_N_ELEMENTS (a), 1);
  fill (b, G_N_ELEMENTS (b), 2);
  input = rlx_tensor_new_from_floats (shape_a, 2, a, G_N_ELEMENTS (a), error);
  weight = input != NULL ? rlx_tensor_new_from_floats (shape_b, 2, b, G_N_ELEMENTS (b), error) : NULL;
  if (weight == NULL)
    return FALSE;

  executable = compile_probe (self, config, weight, cancellable, &problem);
  if (executable == NULL && problem->domain != RLX_COMPILE_ERROR)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (executable != NULL)
    {
      /* A tile may not fit the device. */
      steps = rlx_executable_get_steps (executable);
      if (!g_str_equal (((const RlxStep *) g_ptr_array_index (steps, 0))->kernel, "matmul-matrix"))
        return TRUE;
      outputs = rlx_executable_run (executable, &input, 1, &n, cancellable, error);
      if (outputs == NULL)
        return FALSE;
      result = outputs[0];
      *right = is_right (a, b, result);
    }
  if (!*right)
    RLX_NOTE (DEVICE, "matrices of %u by %u by %u (%s) are not used: %s", config->m, config->n, config->k,
              component_name (config->component), problem != NULL ? problem->message : "a wrong result");
  return TRUE;
}

static int
compare_configs (gconstpointer a,
                 gconstpointer b)
{
  return rlx_matrix_config_is_better (a, b) ? -1 : rlx_matrix_config_is_better (b, a);
}

/* The best that works. */
static gboolean
probe (RlxDevice      *self,
       RlxMatrixProbe *known,
       GCancellable   *cancellable,
       GError        **error)
{
  const RlxTarget *target = &rlx_gpu_get_info (rlx_device_get_gpu (self))->target;
  g_autoptr(GArray) configs = g_array_new (FALSE, FALSE, sizeof (RlxMatrixShape));

  if (!target->matrices_are_fast)
    return TRUE;
  for (guint i = 0; i < target->n_matrices; i++)
    if (rlx_matrix_config_is_usable (target, &target->matrices[i]))
      g_array_append_val (configs, target->matrices[i]);
  g_array_sort (configs, compare_configs);

  for (guint i = 0; i < configs->len && !known->found; i++)
    {
      known->config = g_array_index (configs, RlxMatrixShape, i);
      if (!try_config (self, &known->config, &known->found, cancellable, error))
        return FALSE;
    }
  if (known->found)
    RLX_NOTE (DEVICE, "products with reduced precision use matrices of %u by %u by %u (%s)", known->config.m,
              known->config.n, known->config.k, component_name (known->config.component));
  return TRUE;
}

gboolean
rlx_device_find_matrix (RlxDevice      *self,
                        RlxMatrixShape *config,
                        gboolean       *found,
                        GCancellable   *cancellable,
                        GError        **error)
{
  RlxMatrixProbe *known = rlx_device_get_matrix_probe (self);
  gboolean ok;

  g_mutex_lock (&known->mutex);
  if (!known->done)
    known->done = probe (self, known, cancellable, error);
  ok = known->done;
  *found = known->found;
  *config = known->config;
  g_mutex_unlock (&known->mutex);
  return ok;
}
