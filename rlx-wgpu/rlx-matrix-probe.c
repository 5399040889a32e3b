/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tries the matrix units of a device before they are used. What they do is an extension
 * that few programs use, and drivers differ in how elements lie in a subgroup. So a small
 * product has to give the right result first: of whole numbers, exact in f16 while their
 * sums are not, so that sums in f16 show. Rows, columns and steps differ in number and fill
 * no tile, so that what is transposed, or left out, shows too.
 *
 * That takes a compiled graph and a run. It is done when a graph that may use them is first
 * compiled, not when a device is opened.
 */
#include "config.h"

#include "ops/rlx-product-private.h"
#include "rlx-trial-private.h"
#include "util/rlx-debug-private.h"

static const RlxSample sample = {
  "rlx 1\nprecision reduced\n" RLX_SAMPLE_INPUT (0, "f32[40, 72]") RLX_SAMPLE_WEIGHT (1, "f32[72, 56]")
  "%2 = matmul(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 511,
};

/* *@right is FALSE for a configuration that cannot be used. */
static gboolean
try_config (RlxDevice            *self,
            const RlxMatrixShape *config,
            gboolean             *right,
            GCancellable         *cancellable,
            GError              **error)
{
  g_auto(RlxTrial) trial = { 0 };
  g_autoptr(RlxTensor) expected = NULL;
  RlxTarget target = rlx_gpu_get_info (rlx_device_get_gpu (self))->target;

  target.matrices[0] = *config;
  target.n_matrices = 1;
  if (!rlx_trial_init_for_sample (&trial, self, &target, &rlx_product_variants, &sample, cancellable, error) ||
      (expected = rlx_trial_multiply (&trial, error)) == NULL ||
      !rlx_trial_run (&trial, 1u << RLX_PRODUCT_MATRIX, expected, error))
    return FALSE;
  *right = trial.executables[RLX_PRODUCT_MATRIX] != NULL;
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
      RLX_NOTE (DEVICE, "products with reduced precision %s matrices of %u by %u by %u (%s)",
                known->found ? "use" : "cannot use", known->config.m, known->config.n, known->config.k,
                known->config.component == RLX_COMPONENT_F16 ? "f16" : "f32");
    }
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
