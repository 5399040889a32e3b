/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Measures a device: what starting kernels and moving bytes takes, and every variant of
 * every family, which has to give the right result before its time counts.
 */
#include "config.h"

#include "rlx-calibration-private.h"

#include "ops/rlx-product-private.h"
#include "rlx-bans-private.h"
#include "rlx-graph.h"
#include "rlx-timing-private.h"
#include "rlx-trial-private.h"
#include "util/rlx-debug-private.h"

/* Slow devices get fewer samples: no more are started after this. */
#define PRODUCTS_SECONDS 0.5
#define OTHER_SECONDS 0.15
#define FAMILY_SECONDS 0.05

/* Too large for caches. */
#define BANDWIDTH_ELEMENTS (G_GUINT64_CONSTANT (16) << 20)
#define TRANSFER_ELEMENTS (G_GUINT64_CONSTANT (1) << 20)
#define SLOW_SECONDS 0.002
#define TINY_ELEMENTS 64
#define TINY_RUNS 24
#define TRANSFER_RUNS 8

static int quick;          /* atomic: one time of each */
static int left_out;       /* atomic: bits, by family */

void
rlx_calibrate_set_test (gboolean is_quick,
                        guint32  families)
{
  g_atomic_int_set (&quick, is_quick);
  g_atomic_int_set (&left_out, (int) ~families);
}

typedef struct
{
  RlxDevice *device;
  RlxGpu *gpu;
  RlxTarget target;        /* with its speeds as far as they are known */
  GCancellable *cancellable;
  gint64 start;
  RlxTiming timing;
  RlxTiming loose;         /* for measurements that few choices depend on */
  RlxSpeeds speeds;
} Calibrate;

/* The progress when a part begins. Most of the time is spent compiling the kernels to
 * check, unless the driver has cached them. */
#define AT_MEMORY 0.05
#define AT_VARIANTS 0.1

static void
tell (Calibrate  *self,
      double      fraction,
      const char *what)
{
  rlx_device_tell_calibrating (self->device, fraction, what);
}

/* ---- variants --------------------------------------------------------------------------- */

static double
unless_quick (double seconds)
{
  return g_atomic_int_get (&quick) ? 0.0 : seconds;
}

/* Checks and times variants. Those that are wrong are banned. */
static gboolean
measure_rows (Calibrate *self,
              RlxTrial  *trial,
              guint32    rows,
              double     enough,
              double    *seconds,
              GError   **error)
{
  RlxFamily family = trial->table->family;
  g_autoptr(RlxTensor) expected = NULL;
  gboolean any = FALSE;

  if (family == RLX_FAMILY_PRODUCT && (expected = rlx_trial_multiply (trial, error)) == NULL)
    return FALSE;
  if (!rlx_trial_run (trial, rows, expected, error))
    return FALSE;
  self->speeds.banned[family] |= trial->wrong;
  for (guint i = 0; i < trial->table->n_variants; i++)
    any |= trial->executables[i] != NULL;
  if (!any)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The device “%s” should not be used: all kernels give wrong results for %s",
                   rlx_gpu_get_info (self->gpu)->name, trial->key);
      return FALSE;
    }
  return rlx_timing_time_kernels (family == RLX_FAMILY_PRODUCT ? &self->timing : &self->loose, trial->executables,
                                  trial->table->n_variants, unless_quick (enough), seconds, error);
}

static double
count_operations (RlxExecutable *executable)
{
  const RlxPlan *plan = rlx_executable_peek_plan (executable);
  double operations = 0.0;

  for (guint i = plan->n_prologue; i < plan->steps->len; i++)
    operations += ((const RlxStep *) g_ptr_array_index (plan->steps, i))->flops;
  return operations;
}

/* Those that fit this sample better than any before it, and have been right so far. If
 * there is only one, another one is run for comparison. */
static guint32
choose_rows (const RlxTrial *trial,
             const RlxFit   *best,
             guint32         banned,
             guint32        *run)
{
  guint32 rows = 0;

  for (guint i = 0; i < trial->table->n_variants; i++)
    if (trial->key != NULL && trial->verdicts[i].fit > best[i])
      rows |= 1u << i;
  rows &= ~banned;
  *run = rows;
  for (guint i = trial->table->n_variants; *run != 0 && (*run & (*run - 1)) == 0 && i-- > 0;)
    if (trial->verdicts[i].fit != RLX_FIT_NO && !(banned >> i & 1))
      *run |= 1u << i;
  return rows;
}

/* Each variant with the sample that it fits best. */
static gboolean
measure_family (Calibrate         *self,
                const RlxVariants *table,
                double             enough,
                GError           **error)
{
  RlxMeasurement *measured = self->speeds.variants[table->family];
  RlxFit best[RLX_MAX_VARIANTS] = { 0 };

  for (const RlxSample *sample = table->samples; sample->text != NULL; sample++)
    {
      g_auto(RlxTrial) trial = { 0 };
      double seconds[RLX_MAX_VARIANTS];
      guint32 rows, run;

      if (!rlx_trial_init_for_sample (&trial, self->device, &self->target, table, sample, self->cancellable, error))
        return FALSE;
      rows = choose_rows (&trial, best, self->speeds.banned[table->family], &run);
      if (rows == 0)
        continue;
      if (!measure_rows (self, &trial, run, enough, seconds, error))
        return FALSE;
      for (guint i = 0; i < table->n_variants; i++)
        if ((rows >> i & 1) && trial.executables[i] != NULL)
          {
            best[i] = trial.verdicts[i].fit;
            measured[i].seconds = seconds[i];
            measured[i].flops = count_operations (trial.executables[i]) / seconds[i];
            measured[i].factor = seconds[i] / trial.verdicts[i].cost;
          }
    }
  return TRUE;
}

/* 512 · 2 · 2 ≤ 2¹¹: f16 holds the sums exactly. */
static const RlxSample sample_f16 = {
  "rlx 1\n" RLX_SAMPLE_INPUT (0, "f16[512, 512]") RLX_SAMPLE_WEIGHT (1, "f16[512, 512]") "%2 = matmul(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 2,
};

/* All cost estimates are based on the fastest rates. */
static gboolean
measure_products (Calibrate *self,
                  GError   **error)
{
  RlxMeasurement *measured = self->speeds.variants[RLX_FAMILY_PRODUCT];
  g_auto(RlxTrial) trial = { 0 };
  double seconds[RLX_MAX_VARIANTS], guessed = self->target.speeds.flops;

  if (!measure_family (self, &rlx_product_variants, PRODUCTS_SECONDS, error) ||
      !rlx_trial_init_for_sample (&trial, self->device, &self->target, &rlx_product_variants, &sample_f16, self->cancellable, error) ||
      !measure_rows (self, &trial, ~self->speeds.banned[RLX_FAMILY_PRODUCT], OTHER_SECONDS, seconds, error))
    return FALSE;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    if (trial.executables[i] != NULL)
      self->speeds.flops_f16 = MAX (self->speeds.flops_f16, count_operations (trial.executables[i]) / seconds[i]);
  self->speeds.flops = rlx_speeds_get_best (&self->speeds);
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    measured[i].factor *= self->speeds.flops / guessed;
  return TRUE;
}

static gboolean
measure_variants (Calibrate *self,
                  GError   **error)
{
  gboolean has_matrix;

  if (!rlx_device_find_matrix (self->device, &self->target.matrices[0], &has_matrix, self->cancellable, error))
    return FALSE;
  self->target.n_matrices = has_matrix ? 1 : 0;
  self->target.speeds.measured = TRUE;
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    {
      const RlxVariants *table = rlx_variants_get (i);
      g_autofree char *what = g_strdup_printf ("measuring kernels: %s", table->name);

      if ((guint) g_atomic_int_get (&left_out) >> i & 1)
        continue;
      tell (self, AT_VARIANTS + (1.0 - AT_VARIANTS) * i / RLX_N_FAMILIES, what);
      if (!(i == RLX_FAMILY_PRODUCT ? measure_products (self, error) : measure_family (self, table, FAMILY_SECONDS, error)))
        return FALSE;
      /* Even if it was fast where it was right. */
      for (guint j = 0; j < table->n_variants; j++)
        if (rlx_speeds_is_banned (&self->speeds, i, j))
          self->speeds.variants[i][j] = (RlxMeasurement) { 0 };
      self->target.speeds = self->speeds;
    }
  return TRUE;
}

/* ---- memory and overheads ----------------------------------------------------------- */

/* y = -x: one kernel that reads and writes as much. */
static RlxExecutable *
compile_negation (Calibrate *self,
                  guint64    n_elements,
                  GError   **error)
{
  g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"x\" f32[%" G_GUINT64_FORMAT "]\n%%1 = neg(%%0)\noutput \"y\" %%1\n", n_elements);
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, error);

  return graph != NULL ? rlx_device_compile_for_target (self->device, graph, &self->target, self->cancellable, error) : NULL;
}

static RlxTensor *
make_zeros (guint64  n_elements,
            GError **error)
{
  const gint64 shape[] = { (gint64) n_elements };
  g_autofree float *zeros = g_new0 (float, n_elements);

  return rlx_tensor_new_from_floats (shape, 1, zeros, n_elements, error);
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

/* Tensors that need one binding, and little of the remaining memory. */
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
  /* A device that takes that long has no significant cache. */
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
  RlxGpu *gpu = rlx_device_get_gpu (device);
  Calibrate self = {
    .device = device,
    .gpu = gpu,
    .target = rlx_gpu_get_info (gpu)->target,
    .cancellable = cancellable,
    .start = g_get_monotonic_time (),
    .speeds.measured = TRUE,
  };
  const RlxSpeeds *speeds = &self.speeds;
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autofree char *problem = NULL;
  gboolean stored;

  /* Such a kernel may hang the whole device, so it is not tried again. */
  rlx_bans_load (rlx_gpu_get_info (gpu), self.speeds.banned);
  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !rlx_gpu_check_lost (gpu, error))
    return NULL;
  tell (&self, 0.0, "timing overheads");
  if (!rlx_timing_init (&self.timing, device, !g_atomic_int_get (&quick), cancellable, error) ||
      !rlx_timing_init (&self.loose, device, FALSE, cancellable, error) || !measure_overheads (&self, error) || !measure_memory (&self, error) || !measure_variants (&self, error))
    return NULL;
  /* A round trip includes a dispatch: if that takes longer by itself, the measurement was disturbed. */
  self.speeds.spread = MAX (self.timing.spread, speeds->dispatch_time / speeds->round_trip_time);
  problem = rlx_speeds_find_problem (speeds);
  if (problem != NULL)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The times of the device “%s” make no sense: %s. Try again when the machine is idle",
                   rlx_gpu_get_info (gpu)->name, problem);
      return NULL;
    }

  calibration = rlx_calibration_new (speeds);
  stored = rlx_calibration_store (calibration, rlx_gpu_get_info (gpu));
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
 * Measures how fast the device is. This takes a few seconds, and longer if the driver
 * has to compile many kernels or the machine is busy.
 *
 * From then on, kernels are selected by these measurements, and
 * [method@Rlx.Executable.get_estimate] is more accurate. Without a calibration, both
 * rely on typical values for the type of the adapter. Nothing is ever measured unless
 * this function is called.
 *
 * All kernels that compete with others are also checked: those that multiply matrices
 * against the host, the rest against each other. A kernel that gives wrong results with
 * this driver is no longer used.
 *
 * The result is stored in the user's cache, for this adapter, driver and build of the
 * library, and is looked up whenever a device is opened on the adapter. With the same
 * stored calibration, a graph gives the same bits in every process. Another calibration
 * may lead to other kernels, which round differently, within the bounds of the
 * operators.
 *
 * The machine should be idle otherwise. If the times vary a lot, they are measured
 * again; [method@Rlx.Calibration.get_spread] tells how much they still vary. If they
 * make no sense, the call fails, and the stored calibration does not change.
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
 * @callback: (scope async) (nullable): called when the device has been measured
 * @user_data: data for @callback
 *
 * Measures in another thread how fast the device is; see [method@Rlx.Device.calibrate].
 * [signal@Rlx.Device::calibrating] reports the progress.
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
 * Finishes an operation started with [method@Rlx.Device.calibrate_async].
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
