/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Measures the ways to multiply matrices of one shape, as calibration measures
 * them for one size. The operands are small whole numbers: all sums are exact, and
 * a way is right when it gives what others give, and what the host computes for
 * some of the elements.
 */
#include "config.h"

#include "rlx-tune-private.h"

#include <string.h>

#include "rlx-calibration-private.h"
#include "rlx-device-private.h"
#include "rlx-graph.h"
#include "rlx-tensor.h"
#include "util/rlx-debug-private.h"

/* Below this part of a graph's time nothing is to be gained. */
#define WORTHWHILE 0.02
/* Of taking samples, for each shape; then, of all there is to do for one graph.
 * What is left over then is chosen as without tuning. */
#define SHAPE_SECONDS 0.15
#define GRAPH_SECONDS 2.0
/* A way has to be faster than an earlier one by this factor. */
#define CLEARLY 1.03
/* Elements that the host computes, too. */
#define N_CHECKED 64

typedef struct
{
  RlxDevice *device;
  const RlxSpeeds *speeds;
  GCancellable *cancellable;
  const RlxTunedShape *shape;
  int *a, *b;              /* numbers */
  RlxTensor *ta, *tb;
  GBytes *right;           /* what the first way gives that is right */
} Tune;

static void
tune_clear (Tune *self)
{
  g_clear_pointer (&self->a, g_free);
  g_clear_pointer (&self->b, g_free);
  g_clear_object (&self->ta);
  g_clear_object (&self->tb);
  g_clear_pointer (&self->right, g_bytes_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Tune, tune_clear)

static gboolean
tune_init (Tune    *self,
           GError **error)
{
  const RlxTunedShape *shape = self->shape;
  gint64 batch = (gint64) shape->n_batch, m = (gint64) shape->m, n = (gint64) shape->n, k = (gint64) shape->k;
  const gint64 dims_a[] = { batch, shape->a_along_k ? m : k, shape->a_along_k ? k : m };
  const gint64 dims_b[] = { batch, shape->b_along_n ? k : n, shape->b_along_n ? n : k };
  /* Without a batch dimension where there is no batch. */
  guint skip = batch == 1;

  self->a = rlx_calibrate_make_numbers ((gsize) (batch * m * k), 2, 1);
  self->b = rlx_calibrate_make_numbers ((gsize) (batch * k * n), 2, 2);
  self->ta = rlx_calibrate_make_tensor (shape->data_type, dims_a + skip, 3 - skip, self->a, error);
  self->tb = self->ta != NULL ? rlx_calibrate_make_tensor (shape->data_type, dims_b + skip, 3 - skip, self->b, error) : NULL;
  return self->tb != NULL;
}

/* Compiles the product in this one way. */
static RlxExecutable *
compile_way (Tune             *self,
             RlxProductVariant way,
             GError          **error)
{
  const RlxTunedShape *shape = self->shape;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autofree RlxNode **results = NULL;
  RlxSpeeds only = *self->speeds;
  RlxNode *operands[2];
  GVariantDict attributes;
  gsize n_dims;
  const gint64 *dims;

  only.banned[RLX_FAMILY_PRODUCT] = ~(1u << way);
  dims = rlx_tensor_get_shape (self->ta, &n_dims);
  operands[0] = rlx_graph_input (graph, "a", shape->data_type, dims, n_dims, error);
  dims = rlx_tensor_get_shape (self->tb, &n_dims);
  if (operands[0] == NULL ||
      (operands[1] = shape->is_weight ? rlx_graph_constant (graph, self->tb, error)
                                      : rlx_graph_input (graph, "b", shape->data_type, dims, n_dims, error)) == NULL)
    return NULL;
  g_variant_dict_init (&attributes, NULL);
  g_variant_dict_insert (&attributes, "transpose_a", "b", !shape->a_along_k);
  g_variant_dict_insert (&attributes, "transpose_b", "b", !shape->b_along_n);
  results = rlx_graph_add_op (graph, "matmul", operands, 2, g_variant_dict_end (&attributes), NULL, error);
  if (results == NULL || !rlx_graph_output (graph, "y", results[0], error))
    return NULL;
  return rlx_device_compile_for (self->device, graph, &only, self->cancellable, error);
}

/* One element of the product, on the host. */
static gint64
compute (const Tune *self,
         guint64     batch,
         guint64     row,
         guint64     col)
{
  const RlxTunedShape *shape = self->shape;
  const int *a = self->a + batch * shape->m * shape->k, *b = self->b + batch * shape->k * shape->n;
  gint64 sum = 0;

  for (guint64 i = 0; i < shape->k; i++)
    sum += (gint64) a[shape->a_along_k ? row * shape->k + i : i * shape->m + row] *
           b[shape->b_along_n ? i * shape->n + col : col * shape->k + i];
  return sum;
}

static gboolean
is_right (Tune             *self,
          RlxTensor        *got,
          RlxProductVariant way)
{
  const RlxTunedShape *shape = self->shape;
  guint64 n_elements = shape->n_batch * shape->m * shape->n;
  GBytes *bytes = rlx_tensor_get_bytes (got);
  gsize n;
  g_autofree float *values = rlx_tensor_to_floats (got, &n, NULL);
  guint32 state = 1;

  if (n != n_elements || rlx_calibrate_seems_wrong (way))
    return FALSE;
  for (guint i = 0; i < N_CHECKED; i++)
    {
      /* the last element, then anywhere */
      guint64 at = i == 0 ? n_elements - 1 : state % n_elements;
      gint64 sum = compute (self, at / (shape->m * shape->n), at / shape->n % shape->m, at % shape->n);

      state = state * 1664525u + 1013904223u;
      /* What f16 does not hold exactly is compared with other ways only. */
      if (ABS (sum) <= (shape->data_type == RLX_DATA_TYPE_F16 ? 1 << 11 : 1 << 24) && values[at] != (float) sum)
        return FALSE;
    }
  if (self->right == NULL)
    self->right = g_bytes_ref (bytes);
  return g_bytes_equal (self->right, bytes);
}

/* An executable, or none for a way that does not work. */
static gboolean
try_way (Tune             *self,
         RlxProductVariant way,
         RlxExecutable   **executable,
         GError          **error)
{
  g_autoptr(GError) problem = NULL;
  g_autoptr(RlxExecutable) made = compile_way (self, way, &problem);
  g_autofree RlxTensor **outputs = NULL;
  RlxTensor *inputs[] = { self->ta, self->tb };
  gsize n;

  if (made == NULL && problem->domain == RLX_COMPILE_ERROR)
    return TRUE;
  if (made == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  outputs = rlx_executable_run (made, inputs, self->shape->is_weight ? 1 : 2, &n, self->cancellable, error);
  if (outputs == NULL)
    return FALSE;
  if (is_right (self, outputs[0], way))
    *executable = g_steal_pointer (&made);
  g_object_unref (outputs[0]);
  return TRUE;
}

static gboolean
measure_shape (Tune              *self,
               RlxProductVariant *best,
               GError           **error)
{
  g_autoptr(GPtrArray) owned = g_ptr_array_new_with_free_func (g_object_unref);
  RlxExecutable *executables[RLX_N_PRODUCTS] = { 0 };
  double seconds[RLX_N_PRODUCTS];

  *best = RLX_N_PRODUCTS;
  if (!tune_init (self, error))
    return FALSE;
  /* Matrix units are for graphs that allow them; these products are exact. */
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      if (i == RLX_PRODUCT_MATRIX || (self->speeds->banned[RLX_FAMILY_PRODUCT] >> i & 1))
        continue;
      if (!try_way (self, i, &executables[i], error))
        return FALSE;
      if (executables[i] != NULL)
        g_ptr_array_add (owned, executables[i]);
    }
  if (owned->len == 0)
    return TRUE;
  if (!rlx_calibrate_time (self->device, executables, RLX_N_PRODUCTS, SHAPE_SECONDS, seconds, self->cancellable, error))
    return FALSE;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    if (executables[i] != NULL && (*best == RLX_N_PRODUCTS || seconds[i] * CLEARLY < seconds[*best]))
      *best = i;
  RLX_NOTE (COMPILE, "tuned %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT
            ": “%s”, %.1f GFLOPS", self->shape->n_batch, self->shape->m, self->shape->n, self->shape->k,
            rlx_product_variant_get_name (*best), 2e-9 * (double) self->shape->m * (double) self->shape->n *
            (double) self->shape->k * (double) self->shape->n_batch / seconds[*best]);
  return TRUE;
}

/* What all ways take together must leave most of what is free. */
static gboolean
fits (RlxDevice           *device,
      const RlxTunedShape *shape)
{
  guint64 limit = rlx_device_get_memory_limit (device);
  double left = (double) (limit - MIN (rlx_device_get_memory_used (device), limit));
  double bytes = 4.0 * (double) shape->n_batch *
                 ((double) shape->m * (double) shape->k + (double) shape->k * (double) shape->n + (double) shape->m * (double) shape->n);

  return bytes * RLX_N_PRODUCTS <= left / 4;
}

static int
compare_flops (gconstpointer a,
               gconstpointer b)
{
  const RlxMissingShape *x = a, *y = b;

  return x->flops > y->flops ? -1 : x->flops < y->flops;
}

gboolean
rlx_tuning_measure (RlxTuning       *self,
                    RlxDevice       *device,
                    const RlxSpeeds *speeds,
                    double           seconds,
                    guint           *n_measured,
                    GCancellable    *cancellable,
                    GError         **error)
{
  GArray *missing = rlx_tuning_get_missing (self);
  gint64 late = g_get_monotonic_time () + (gint64) (GRAPH_SECONDS * G_USEC_PER_SEC);
  gboolean ok = TRUE;

  *n_measured = 0;
  g_array_sort (missing, compare_flops);
  for (guint i = 0; ok && i < missing->len && g_get_monotonic_time () < late; i++)
    {
      const RlxMissingShape *one = &g_array_index (missing, RlxMissingShape, i);
      g_auto(Tune) tune = { .device = device, .speeds = speeds, .cancellable = cancellable, .shape = &one->shape };
      RlxProductVariant best;

      if (one->flops / speeds->flops < WORTHWHILE * seconds)
        break;
      if (!fits (device, &one->shape))
        continue;
      ok = measure_shape (&tune, &best, error);
      if (ok && best < RLX_N_PRODUCTS)
        {
          rlx_tuning_set (self, &one->shape, best);
          ++*n_measured;
        }
    }
  g_array_set_size (missing, 0);
  return ok;
}

/* ---- where it is kept --------------------------------------------------------- */

RlxTuning *
rlx_tuning_load (const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_gpu_notes_load (info, RLX_TUNING_NOTES);
  RlxTuning *self = bytes != NULL ? rlx_tuning_from_bytes (bytes) : NULL;

  return self != NULL ? self : rlx_tuning_new ();
}

gboolean
rlx_tuning_store (RlxTuning               *self,
                  const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (self);

  return rlx_gpu_notes_store (info, RLX_TUNING_NOTES, bytes);
}
