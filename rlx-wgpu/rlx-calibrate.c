/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Measures a device. Every way to multiply matrices has to give the right result
 * before its time counts; the operands are whole numbers, chosen so that all
 * sums are exact in the elements' type, and right means equal.
 */
#include "config.h"

#include "rlx-calibration-private.h"
#include "rlx-device-private.h"

#include "rlx-graph-private.h"
#include "rlx-op-methods.h"
#include "rlx-tensor.h"
#include "rlx-timing-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-half-private.h"

/* The largest tile, for tests. */
#define SMALL_SIZE 128

/* A slow device gets fewer samples: no more are begun after this. */
#define PRODUCTS_SECONDS 0.5
#define OTHER_SECONDS 0.15

/* Beyond the caches. */
#define BANDWIDTH_ELEMENTS (G_GUINT64_CONSTANT (16) << 20)
#define TRANSFER_ELEMENTS (G_GUINT64_CONSTANT (1) << 20)
#define SLOW_SECONDS 0.002
#define TINY_ELEMENTS 64
#define TINY_RUNS 24
#define TRANSFER_RUNS 8

static int faults;         /* atomic */
static int quick;          /* atomic: small products, and one time of each */

void
rlx_calibrate_set_test (guint32  wrong,
                        gboolean is_quick)
{
  g_atomic_int_set (&faults, (int) wrong);
  g_atomic_int_set (&quick, is_quick);
}

gboolean
rlx_calibrate_seems_wrong (RlxProductVariant way)
{
  return ((guint) g_atomic_int_get (&faults) >> way & 1) != 0;
}

typedef struct
{
  RlxDevice *device;
  RlxGpu *gpu;
  GCancellable *cancellable;
  guint size;              /* of matrices */
  gint64 start;
  RlxTiming timing;
  RlxSpeeds speeds;
} Calibrate;

/* How far it is when a part begins. Most of the time goes into compiling the kernels
 * that are checked, if the driver has not kept them. */
#define AT_PRODUCTS 0.05
#define AT_TIMES 0.6
#define AT_F16 0.8
#define AT_MEMORY 0.85

static void
tell (Calibrate  *self,
      double      fraction,
      const char *what)
{
  rlx_device_tell_calibrating (self->device, fraction, what);
}

/* ---- numbers ---------------------------------------------------------------------- */

int *
rlx_calibrate_make_numbers (gsize n,
                            guint most,
                            guint seed)
{
  int *numbers = g_new (int, n);
  guint32 state = seed;

  for (gsize i = 0; i < n; i++)
    {
      state = state * 1664525u + 1013904223u;
      numbers[i] = (int) ((state >> 8) % (2 * most + 1)) - (int) most;
    }
  return numbers;
}

static int *
multiply (guint      size,
          const int *a,
          const int *b)
{
  int *c = g_new0 (int, size * size);

  for (guint m = 0; m < size; m++)
    for (guint k = 0; k < size; k++)
      {
        int factor = a[m * size + k];
        const int *from = b + k * size;
        int *to = c + m * size;

        for (guint n = 0; n < size; n++)
          to[n] += factor * from[n];
      }
  return c;
}

RlxTensor *
rlx_calibrate_make_tensor (RlxDataType   type,
                           const gint64 *shape,
                           gsize         n_dims,
                           const int    *numbers,
                           GError      **error)
{
  g_autofree float *floats = NULL;
  g_autofree guint16 *halves = NULL;
  gsize n = 1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  floats = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    floats[i] = (float) numbers[i];
  if (type == RLX_DATA_TYPE_F32)
    return rlx_tensor_new_from_floats (shape, n_dims, floats, n, error);
  halves = g_new (guint16, n);
  rlx_half_from_floats (floats, halves, n);
  return rlx_tensor_new_from_data (type, shape, n_dims, (const guint8 *) halves, n * sizeof (guint16), error);
}

/* ---- products of matrices ----------------------------------------------------------- */

static double
unless_quick (double seconds)
{
  return g_atomic_int_get (&quick) ? 0.0 : seconds;
}

static gboolean
run_once (Calibrate     *self,
          RlxExecutable *executable,
          RlxTensor     *input,
          RlxTensor    **output,
          GError       **error)
{
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (executable, &input, 1, &n, self->cancellable, error);

  if (outputs == NULL)
    return FALSE;
  if (output != NULL)
    *output = outputs[0];
  else
    g_object_unref (outputs[0]);
  return TRUE;
}

typedef struct
{
  guint size;
  RlxTensor *a;
  RlxTensor *b;
  int *expected;
} Product;

static void
product_clear (Product *product)
{
  g_clear_object (&product->a);
  g_clear_object (&product->b);
  g_clear_pointer (&product->expected, g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Product, product_clear)

static gboolean
product_init (Product    *product,
              RlxDataType type,
              gboolean    narrow,
              guint       size,
              GError    **error)
{
  /* 512 · 4095 · 7 < 2²⁴, and 512 · 2 · 2 ≤ 2¹¹: what f32 and f16 hold exactly.
   * Twelve bits show whether f32 is computed with less, eleven do no harm to
   * products that are (@narrow), and show whether their sums are. */
  g_autofree int *a = rlx_calibrate_make_numbers ((gsize) size * size, type != RLX_DATA_TYPE_F32 ? 2 : narrow ? 2047 : 4095, 1);
  g_autofree int *b = rlx_calibrate_make_numbers ((gsize) size * size, type == RLX_DATA_TYPE_F32 ? 7 : 2, 2);
  const gint64 shape[] = { size, size };

  product->size = size;
  product->a = rlx_calibrate_make_tensor (type, shape, 2, a, error);
  product->b = product->a != NULL ? rlx_calibrate_make_tensor (type, shape, 2, b, error) : NULL;
  if (product->b == NULL)
    return FALSE;
  product->expected = multiply (size, a, b);
  return TRUE;
}

/* Compiles the product in this one way. */
static RlxExecutable *
compile_product (Calibrate        *self,
                 const Product    *product,
                 RlxProductVariant way,
                 GError          **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { product->size, product->size };
  RlxSpeeds only;
  RlxNode *a, *b, *y;

  rlx_speeds_guess (&only, rlx_gpu_get_info (self->gpu)->type);
  only.banned[RLX_FAMILY_PRODUCT] = ~(1u << way);
  rlx_graph_set_default_precision (graph, way == RLX_PRODUCT_MATRIX ? RLX_PRECISION_REDUCED : RLX_PRECISION_FULL);
  a = rlx_graph_input (graph, "a", rlx_tensor_get_data_type (product->a), shape, 2, error);
  b = a != NULL ? rlx_graph_constant (graph, product->b, error) : NULL;
  y = b != NULL ? rlx_node_matmul (a, b, NULL, error) : NULL;
  if (y == NULL || !rlx_graph_output (graph, "y", y, error))
    return NULL;
  return rlx_device_compile_for (self->device, graph, &only, self->cancellable, error);
}

static gboolean
is_right (const Product    *product,
          RlxTensor        *got,
          RlxProductVariant way)
{
  gsize n;
  g_autofree float *values = rlx_tensor_to_floats (got, &n, NULL);

  if (n != (gsize) product->size * product->size)
    return FALSE;
  if (rlx_calibrate_seems_wrong (way))
    values[n - 1] += 1.0f;
  for (gsize i = 0; i < n; i++)
    if (values[i] != (float) product->expected[i])
      return FALSE;
  return TRUE;
}

/* An executable, or none in *@executable for a way that does not work here. */
static gboolean
try_product (Calibrate        *self,
             const Product    *product,
             RlxProductVariant way,
             RlxExecutable   **executable,
             GError          **error)
{
  g_autoptr(RlxExecutable) made = NULL;
  g_autoptr(RlxTensor) result = NULL;
  g_autoptr(GError) problem = NULL;

  *executable = NULL;
  made = compile_product (self, product, way, &problem);
  if (made == NULL && problem->domain != RLX_COMPILE_ERROR)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (made != NULL && !run_once (self, made, product->a, &result, error))
    return FALSE;
  if (made != NULL && is_right (product, result, way))
    {
      *executable = g_steal_pointer (&made);
      return TRUE;
    }

  self->speeds.banned[RLX_FAMILY_PRODUCT] |= 1u << way;
  self->speeds.product_flops[way] = 0.0;
  RLX_NOTE (DEVICE, "products in the way “%s” are not used: %s", rlx_product_variant_get_name (way),
            problem != NULL ? problem->message : "a wrong result");
  return TRUE;
}

static gboolean
check_any_left (Calibrate *self,
                GError   **error)
{
  const guint32 all = ((1u << RLX_N_PRODUCTS) - 1) & ~(1u << RLX_PRODUCT_MATRIX);

  if ((self->speeds.banned[RLX_FAMILY_PRODUCT] & all) != all)
    return TRUE;
  g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
               "The device “%s” multiplies matrices of %u by %u wrongly in all %u ways there are; it should not be used",
               rlx_gpu_get_info (self->gpu)->name, self->size, self->size, RLX_N_PRODUCTS - 1);
  return FALSE;
}

static double
n_operations (const Calibrate *self)
{
  return 2.0 * self->size * self->size * self->size;
}

static gboolean
measure_products (Calibrate *self,
                  GError   **error)
{
  g_auto(Product) product = { 0 };
  g_auto(Product) narrow = { 0 };
  g_autoptr(GPtrArray) owned = g_ptr_array_new_with_free_func (g_object_unref);
  RlxExecutable *executables[RLX_N_PRODUCTS] = { 0 };
  double seconds[RLX_N_PRODUCTS];
  RlxMatrixShape config;
  gboolean has_matrix;

  if (!product_init (&product, RLX_DATA_TYPE_F32, FALSE, self->size, error) ||
      !product_init (&narrow, RLX_DATA_TYPE_F32, TRUE, self->size, error) ||
      !rlx_device_find_matrix (self->device, &config, &has_matrix, self->cancellable, error))
    return FALSE;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      g_autofree char *what = g_strdup_printf ("checking products of matrices, %s", rlx_product_variant_get_name (i));

      if (i == RLX_PRODUCT_MATRIX && !has_matrix)
        continue;
      tell (self, AT_PRODUCTS + (AT_TIMES - AT_PRODUCTS) * i / RLX_N_PRODUCTS, what);
      if (!try_product (self, i == RLX_PRODUCT_MATRIX ? &narrow : &product, i, &executables[i], error))
        return FALSE;
      if (executables[i] != NULL)
        g_ptr_array_add (owned, executables[i]);
    }
  tell (self, AT_TIMES, "timing products of matrices");
  if (!check_any_left (self, error) ||
      !rlx_timing_time_kernels (&self->timing, executables, RLX_N_PRODUCTS, unless_quick (PRODUCTS_SECONDS), seconds, error))
    return FALSE;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    if (executables[i] != NULL)
      self->speeds.product_flops[i] = n_operations (self) / seconds[i];
  return TRUE;
}

/* The fastest way that is right for f32, if it is right for f16. */
static gboolean
measure_f16 (Calibrate *self,
             GError   **error)
{
  g_auto(Product) product = { 0 };
  g_autoptr(RlxExecutable) executable = NULL;
  double seconds;

  tell (self, AT_F16, "timing products of f16 matrices");
  if (!product_init (&product, RLX_DATA_TYPE_F16, FALSE, self->size, error))
    return FALSE;
  while (executable == NULL)
    {
      double best = rlx_speeds_get_best (&self->speeds);
      guint way = 0;

      while (self->speeds.product_flops[way] != best)
        way++;
      if (!try_product (self, &product, way, &executable, error) || !check_any_left (self, error))
        return FALSE;
    }
  if (!rlx_timing_time_kernels (&self->timing, &executable, 1, unless_quick (OTHER_SECONDS), &seconds, error))
    return FALSE;
  self->speeds.flops_f16 = n_operations (self) / seconds;
  self->speeds.flops = rlx_speeds_get_best (&self->speeds);
  return TRUE;
}

/* ---- memory and overheads ----------------------------------------------------------- */

/* y = -x: one kernel that reads and writes as much. */
static RlxExecutable *
compile_negation (Calibrate *self,
                  guint64    n_elements,
                  GError   **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { (gint64) n_elements };
  RlxSpeeds speeds;
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, error);
  RlxNode *y = x != NULL ? rlx_node_neg (x, error) : NULL;

  if (y == NULL || !rlx_graph_output (graph, "y", y, error))
    return NULL;
  rlx_speeds_guess (&speeds, rlx_gpu_get_info (self->gpu)->type);
  return rlx_device_compile_for (self->device, graph, &speeds, self->cancellable, error);
}

static RlxTensor *
make_zeros (guint64  n_elements,
            GError **error)
{
  const gint64 shape[] = { (gint64) n_elements };
  g_autofree float *zeros = g_new0 (float, n_elements);

  return rlx_tensor_new_from_floats (shape, 1, zeros, n_elements, error);
}

gboolean
rlx_calibrate_time (RlxDevice            *device,
                    RlxExecutable *const *executables,
                    guint                 n_executables,
                    double                enough,
                    double               *seconds,
                    GCancellable         *cancellable,
                    GError              **error)
{
  RlxTiming timing;

  /* The fastest of several is looked for, and the rates do not matter. */
  return rlx_timing_init (&timing, device, FALSE, cancellable, error) &&
         rlx_timing_time_kernels (&timing, executables, n_executables, unless_quick (enough), seconds, error);
}

static gboolean
measure_overheads (Calibrate *self,
                   GError   **error)
{
  g_autoptr(RlxExecutable) executable = compile_negation (self, TINY_ELEMENTS, error);
  g_autoptr(RlxTensor) input = executable != NULL ? make_zeros (TINY_ELEMENTS, error) : NULL;

  return input != NULL &&
         rlx_timing_time_runs (&self->timing, executable, input, TINY_RUNS, &self->speeds.round_trip_time, error) &&
         rlx_timing_time_kernels (&self->timing, &executable, 1, OTHER_SECONDS, &self->speeds.dispatch_time, error);
}

/* Tensors that take one binding, and little of the memory that is left. */
static guint64
limit_elements (Calibrate *self,
                guint64    n_elements)
{
  guint64 limit = rlx_gpu_get_memory_limit (self->gpu);
  guint64 left = limit - MIN (rlx_gpu_get_memory_used (self->gpu), limit);

  n_elements = MIN (n_elements, rlx_gpu_get_info (self->gpu)->target.limits.max_storage_binding_size / 4);
  return MAX (MIN (n_elements, left / 64), TINY_ELEMENTS);
}

static gboolean
measure_transfer (Calibrate *self,
                  double    *kernel,
                  GError   **error)
{
  guint64 n = limit_elements (self, TRANSFER_ELEMENTS);
  g_autoptr(RlxExecutable) executable = compile_negation (self, n, error);
  g_autoptr(RlxTensor) input = executable != NULL ? make_zeros (n, error) : NULL;
  double seconds;

  if (input == NULL ||
      !rlx_timing_time_transfer (&self->timing, executable, input, TRANSFER_RUNS, &seconds, kernel, error))
    return FALSE;
  self->speeds.transfer = 8.0 * (double) n / seconds;
  return TRUE;
}

static gboolean
measure_memory (Calibrate *self,
                GError   **error)
{
  g_autoptr(RlxExecutable) executable = NULL;
  double seconds;
  guint64 n;

  tell (self, AT_MEMORY, "timing memory");
  if (!measure_transfer (self, &seconds, error))
    return FALSE;
  /* A device that takes that long has no cache worth the name. */
  n = limit_elements (self, seconds > SLOW_SECONDS || g_atomic_int_get (&quick) ? 2 * TRANSFER_ELEMENTS : BANDWIDTH_ELEMENTS);
  executable = compile_negation (self, n, error);
  if (executable == NULL || !rlx_timing_warm_up (&self->timing, executable, error) ||
      !rlx_timing_time_kernels (&self->timing, &executable, 1, OTHER_SECONDS, &seconds, error))
    return FALSE;
  self->speeds.bandwidth = 8.0 * (double) n / seconds;
  return TRUE;
}

/* ---- the public part ------------------------------------------------------------------ */

static RlxCalibration *
calibrate (RlxDevice    *device,
           GCancellable *cancellable,
           GError      **error)
{
  Calibrate self = {
    .device = device,
    .gpu = rlx_device_get_gpu (device),
    .cancellable = cancellable,
    .size = g_atomic_int_get (&quick) ? SMALL_SIZE : RLX_MEASURED_SIZE,
    .start = g_get_monotonic_time (),
    .speeds.measured = TRUE,
  };
  const RlxSpeeds *speeds = &self.speeds;
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autofree char *problem = NULL;
  gboolean stored;

  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !rlx_gpu_check_lost (self.gpu, error))
    return NULL;
  tell (&self, 0.0, "timing overheads");
  if (!rlx_timing_init (&self.timing, device, !g_atomic_int_get (&quick), cancellable, error) ||
      !measure_overheads (&self, error) || !measure_products (&self, error) ||
      !measure_f16 (&self, error) || !measure_memory (&self, error))
    return NULL;
  /* A round trip has a dispatch in it: if that takes longer alone, it was disturbed. */
  self.speeds.spread = MAX (self.timing.spread, speeds->dispatch_time / speeds->round_trip_time);
  problem = rlx_speeds_find_problem (speeds);
  if (problem != NULL)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The times of the device “%s” make no sense: %s. Try again when the machine has nothing else to do",
                   rlx_gpu_get_info (self.gpu)->name, problem);
      return NULL;
    }

  calibration = rlx_calibration_new (speeds);
  stored = rlx_calibration_store (calibration, rlx_gpu_get_info (self.gpu));
  rlx_device_set_calibration (device, calibration);
  tell (&self, 1.0, "done");
  RLX_NOTE (DEVICE, "calibrated in %.2f s (%s): %.1f GFLOPS, %.1f with f16, %.1f GB/s, transfer %.1f GB/s, dispatch %.1f µs, round trip %.1f µs, spread %.2f",
            (double) (g_get_monotonic_time () - self.start) * 1e-6, stored ? "stored" : "not stored",
            speeds->flops * 1e-9, speeds->flops_f16 * 1e-9, speeds->bandwidth * 1e-9, speeds->transfer * 1e-9,
            speeds->dispatch_time * 1e6, speeds->round_trip_time * 1e6, speeds->spread);
  return g_steal_pointer (&calibration);
}

/**
 * rlx_device_calibrate:
 * @self: a device
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Measures how fast the device is, which takes about two seconds, and more on a
 * machine that is busy.
 *
 * What is compiled afterwards chooses between kernels by what was measured, and
 * [method@Rlx.Executable.get_estimate] is better. Without it both go by the type
 * of the adapter. Nothing is ever measured unless this function is called.
 *
 * Each way to multiply matrices is also checked against a computation on the
 * host; one that is wrong on this driver is not used any more.
 *
 * The result is stored in the user's cache, for this adapter, this driver and
 * this build of the library, and is looked up whenever a device is opened on
 * the adapter. With the same stored calibration a graph gives the same bits in
 * every process; another calibration may choose other kernels, which round
 * differently, within the bounds of the operators.
 *
 * The machine should have nothing else to do meanwhile. Times that lie far apart
 * are taken again, and [method@Rlx.Calibration.get_spread] tells how far they still
 * are. Where they make no sense, this fails, and what was stored before stays.
 *
 * Returns: (transfer full): the calibration
 *
 * Since: 1.0
 */
RlxCalibration *
rlx_device_calibrate (RlxDevice    *self,
                      GCancellable *cancellable,
                      GError      **error)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return calibrate (self, cancellable, error);
}

static void
calibrate_thread (GTask        *task,
                  gpointer      source,
                  gpointer      data G_GNUC_UNUSED,
                  GCancellable *cancellable)
{
  GError *error = NULL;
  RlxCalibration *calibration = calibrate (RLX_DEVICE (source), cancellable, &error);

  if (calibration != NULL)
    g_task_return_pointer (task, calibration, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * rlx_device_calibrate_async:
 * @self: a device
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the device is measured
 * @user_data: data for @callback
 *
 * Measures in another thread how fast the device is; see
 * [method@Rlx.Device.calibrate]. [signal@Rlx.Device::calibrating] tells how far it
 * is.
 *
 * Since: 1.0
 */
void
rlx_device_calibrate_async (RlxDevice          *self,
                            GCancellable       *cancellable,
                            GAsyncReadyCallback callback,
                            gpointer            user_data)
{
  g_autoptr(GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_device_calibrate_async);
  if (rlx_gpu_check_forked (&error))
    g_task_run_in_thread (task, calibrate_thread);
  else
    g_task_return_error (task, error);
}

/**
 * rlx_device_calibrate_finish:
 * @self: a device
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Ends what [method@Rlx.Device.calibrate_async] began.
 *
 * Returns: (transfer full): the calibration
 *
 * Since: 1.0
 */
RlxCalibration *
rlx_device_calibrate_finish (RlxDevice    *self,
                             GAsyncResult *result,
                             GError      **error)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
