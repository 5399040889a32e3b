/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-timing-private.h"

#include <stdlib.h>
#include <string.h>

/* Long enough for the clock, short enough for some to be undisturbed on a busy machine. */
#define SAMPLE_SECONDS 0.004
#define N_SAMPLES 15
#define N_EMPTY 16
#define MAX_REPEATS 4096
/* How often a measurement is repeated, if the spread is wider than on an idle machine. */
#define N_ATTEMPTS 4
#define STEADY 1.5
/* As a multiple of the fastest: beyond this, not worth another sample. */
#define FAR_BEHIND 1.5
/* A difference of two times is meaningful if it is this fraction of the longer one. */
#define LEAST_REST 0.2

static RlxTimingModel test_model;

void
rlx_timing_set_test_model (RlxTimingModel model)
{
  g_atomic_pointer_set (&test_model, model);
}

static double
seconds_since (gint64   start,
               guint    n_dispatches,
               gboolean is_run)
{
  RlxTimingModel model = g_atomic_pointer_get (&test_model);

  return model != NULL ? model (n_dispatches, is_run) : (double) MAX (g_get_monotonic_time () - start, 1) * 1e-6;
}

/* ---- statistics ----------------------------------------------------------------- */

static int
compare_doubles (const void *a,
                 const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

/* Disturbances only ever make it slower, so a low one is closest to what the device can
 * do; the lowest of all may be an error of the clock. */
double
rlx_timing_get_low (double *values,
                    guint   n_values,
                    double *spread)
{
  double low;

  qsort (values, n_values, sizeof (double), compare_doubles);
  low = values[n_values / 4];
  *spread = low > 0.0 ? values[n_values / 2] / low : 1.0;
  return low;
}

gboolean
rlx_timing_subtract (double  whole,
                     double  overhead,
                     double *rest)
{
  /* a clock of microseconds */
  double least = MAX (whole * LEAST_REST, 1e-6);

  *rest = MAX (whole - overhead, least);
  return whole - overhead >= least;
}

/* The steadiest of several attempts counts. */
typedef struct
{
  guint n_attempts;
  double spread;
} Attempts;

#define ATTEMPTS_INIT { 0, G_MAXDOUBLE }

static gboolean
attempts_next (Attempts        *attempts,
               const RlxTiming *self)
{
  return attempts->spread > STEADY && attempts->n_attempts++ < (self->strict ? N_ATTEMPTS : 1);
}

/* Whether this one is the best so far. */
static gboolean
attempts_take (Attempts        *attempts,
               const RlxTiming *self,
               gboolean         drowned,
               double           spread)
{
  if ((drowned && self->strict) || spread >= attempts->spread)
    return FALSE;
  attempts->spread = spread;
  return TRUE;
}

static gboolean
attempts_end (Attempts   *attempts,
              RlxTiming  *self,
              const char *what,
              GError    **error)
{
  if (attempts->spread == G_MAXDOUBLE)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The device “%s” could not be measured: %d times in a row, the time of %s was less than %.0f %% of what "
                   "it was measured with. The machine is busy; try again when it is idle",
                   rlx_gpu_get_info (self->gpu)->name, N_ATTEMPTS, what, LEAST_REST * 100.0);
      return FALSE;
    }
  self->spread = MAX (self->spread, attempts->spread);
  return TRUE;
}

/* ---- jobs ------------------------------------------------------------------------- */

typedef struct
{
  const RlxGpuJob *job;
  GCancellable *cancellable;
  GError **error;
  double seconds;
  gboolean ok;
} TimedJob;

static void
run_timed_job (RlxGpu  *gpu,
               gpointer data)
{
  TimedJob *timed = data;
  gint64 start = g_get_monotonic_time ();

  timed->ok = rlx_gpu_execute (gpu, timed->job, timed->cancellable, timed->error);
  timed->seconds = seconds_since (start, (guint) timed->job->n_dispatches, FALSE);
}

/* Seconds of @repeats runs of the kernels alone; without @executable, of nothing. */
static gboolean
time_job (RlxTiming     *self,
          RlxExecutable *executable,
          guint          repeats,
          double        *seconds,
          GError       **error)
{
  g_autofree RlxGpuDispatch *dispatches = NULL;
  RlxGpuJob job = { 0 };
  TimedJob timed = { &job, self->cancellable, error, 0.0, FALSE };

  if (executable != NULL)
    {
      guint n;
      const RlxGpuDispatch *once = rlx_executable_peek_dispatches (executable, &n);

      dispatches = g_new (RlxGpuDispatch, (gsize) n * repeats + 1);
      for (guint i = 0; i < n * repeats; i++)
        dispatches[i] = once[i % n];
      job.dispatches = dispatches;
      job.n_dispatches = n * repeats;
    }
  rlx_gpu_invoke_sync (self->gpu, run_timed_job, &timed);
  *seconds = timed.seconds;
  return timed.ok;
}

static gboolean
time_empty (RlxTiming *self,
            GError   **error)
{
  double samples[N_EMPTY], spread;

  for (guint i = 0; i < N_EMPTY; i++)
    if (!time_job (self, NULL, 0, &samples[i], error))
      return FALSE;
  self->empty = rlx_timing_get_low (samples, N_EMPTY, &spread);
  return TRUE;
}

gboolean
rlx_timing_init (RlxTiming    *self,
                 RlxDevice    *device,
                 gboolean      strict,
                 GCancellable *cancellable,
                 GError      **error)
{
  *self = (RlxTiming) {
    .gpu = rlx_device_get_gpu (device),
    .cancellable = cancellable,
    .strict = strict,
    .spread = 1.0,
  };
  return time_empty (self, error);
}

gboolean
rlx_timing_warm_up (RlxTiming     *self,
                    RlxExecutable *executable,
                    GError       **error)
{
  double seconds;

  return time_job (self, executable, 1, &seconds, error);
}

/* ---- kernels in turns --------------------------------------------------------------- */

static gboolean
is_late (const RlxTiming *self)
{
  return g_get_monotonic_time () > self->late;
}

/* The kernels of one executable, and their time so far. */
typedef struct
{
  RlxExecutable *executable;
  guint repeats;           /* in a sample */
  guint n_samples;
  double samples[N_SAMPLES];
  gboolean drowned;        /* one of them is mostly that of the job around it */
} Kernels;

static gboolean
take_sample (RlxTiming *self,
             Kernels   *kernels,
             GError   **error)
{
  double whole, rest;

  if (!time_job (self, kernels->executable, kernels->repeats, &whole, error))
    return FALSE;
  if (!rlx_timing_subtract (whole, self->empty, &rest))
    kernels->drowned = TRUE;
  kernels->samples[kernels->n_samples++] = rest / kernels->repeats;
  return TRUE;
}

/* All have run before. They take turns, so that anything that slows the device down for a while affects all of
   them. */
static gboolean
take_samples (RlxTiming *self,
              Kernels   *all,
              guint      n_all,
              double     enough,
              GError   **error)
{
  double least = G_MAXDOUBLE;

  self->late = g_get_monotonic_time () + (gint64) (enough * G_USEC_PER_SEC);
  for (guint i = 0; i < n_all; i++)
    {
      Kernels *kernels = &all[i];

      kernels->repeats = 1;
      if (kernels->executable == NULL)
        continue;
      if (!take_sample (self, kernels, error))
        return FALSE;
      least = MIN (least, kernels->samples[0]);
      kernels->repeats = (guint) CLAMP (SAMPLE_SECONDS / kernels->samples[0], 1.0, MAX_REPEATS);
      /* too short to count, unless there will be no other */
      if (kernels->repeats > 1 && kernels->samples[0] <= least * FAR_BEHIND && !is_late (self))
        {
          kernels->n_samples = 0;
          kernels->drowned = FALSE;
        }
    }

  for (guint round = 0; round < N_SAMPLES && (round == 0 || !is_late (self)); round++)
    for (guint i = 0; i < n_all; i++)
      {
        Kernels *kernels = &all[i];
        gboolean behind = kernels->n_samples > 0 &&
                          (is_late (self) || kernels->samples[kernels->n_samples - 1] > least * FAR_BEHIND);

        if (kernels->executable == NULL || behind || kernels->n_samples == N_SAMPLES)
          continue;
        if (!take_sample (self, kernels, error))
          return FALSE;
        least = MIN (least, kernels->samples[kernels->n_samples - 1]);
      }
  return TRUE;
}

gboolean
rlx_timing_time_kernels (RlxTiming            *self,
                         RlxExecutable *const *executables,
                         guint                 n_executables,
                         double                enough,
                         double               *seconds,
                         GError              **error)
{
  g_autofree Kernels *all = g_new (Kernels, n_executables);
  g_autofree double *times = g_new (double, n_executables);
  Attempts attempts = ATTEMPTS_INIT;

  while (attempts_next (&attempts, self))
    {
      double widest = 1.0, spread;
      gboolean drowned = FALSE;

      for (guint j = 0; j < n_executables; j++)
        all[j] = (Kernels) { .executable = executables[j] };
      /* The error may be in what is subtracted. */
      if ((attempts.n_attempts > 1 && !time_empty (self, error)) || !take_samples (self, all, n_executables, enough, error))
        return FALSE;
      for (guint j = 0; j < n_executables; j++)
        {
          times[j] = all[j].n_samples > 0 ? rlx_timing_get_low (all[j].samples, all[j].n_samples, &spread) : 0.0;
          drowned |= all[j].drowned;
          if (all[j].n_samples > 0)
            widest = MAX (widest, spread);
        }
      if (attempts_take (&attempts, self, drowned, widest))
        memcpy (seconds, times, n_executables * sizeof (double));
    }
  return attempts_end (&attempts, self, "a kernel", error);
}

/* ---- whole runs ------------------------------------------------------------------------ */

static gboolean
time_run (RlxTiming     *self,
          RlxExecutable *executable,
          RlxTensor     *input,
          double        *seconds,
          GError       **error)
{
  gint64 start = g_get_monotonic_time ();
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (executable, &input, 1, &n, self->cancellable, error);
  guint n_dispatches;

  rlx_executable_peek_dispatches (executable, &n_dispatches);
  *seconds = seconds_since (start, n_dispatches, TRUE);
  if (outputs == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    g_object_unref (outputs[i]);
  return TRUE;
}

gboolean
rlx_timing_time_runs (RlxTiming     *self,
                      RlxExecutable *executable,
                      RlxTensor     *input,
                      guint          n_runs,
                      double        *seconds,
                      GError       **error)
{
  g_autofree double *samples = g_new (double, n_runs);
  Attempts attempts = ATTEMPTS_INIT;
  double warm_up;

  if (!time_run (self, executable, input, &warm_up, error))
    return FALSE;
  while (attempts_next (&attempts, self))
    {
      double low, spread;

      for (guint i = 0; i < n_runs; i++)
        if (!time_run (self, executable, input, &samples[i], error))
          return FALSE;
      low = rlx_timing_get_low (samples, n_runs, &spread);
      if (attempts_take (&attempts, self, FALSE, spread))
        *seconds = low;
    }
  return attempts_end (&attempts, self, "a run", error);
}

/* In turns, so that disturbances affect both. If host and device share memory, a
 * transfer may take almost no time: then the smallest measurable difference is used. */
gboolean
rlx_timing_time_transfer (RlxTiming     *self,
                          RlxExecutable *executable,
                          RlxTensor     *input,
                          guint          n_runs,
                          double        *seconds,
                          double        *kernels,
                          GError       **error)
{
  g_autofree double *runs = g_new (double, n_runs);
  g_autofree double *jobs = g_new (double, n_runs);
  Attempts attempts = ATTEMPTS_INIT;
  double warm_up;

  if (!time_run (self, executable, input, &warm_up, error))
    return FALSE;
  while (attempts_next (&attempts, self))
    {
      double run, job, run_spread, job_spread;

      for (guint i = 0; i < n_runs; i++)
        if (!time_run (self, executable, input, &runs[i], error) ||
            !time_job (self, executable, 1, &jobs[i], error))
          return FALSE;
      run = rlx_timing_get_low (runs, n_runs, &run_spread);
      job = rlx_timing_get_low (jobs, n_runs, &job_spread);
      if (attempts_take (&attempts, self, FALSE, MAX (run_spread, job_spread)))
        {
          rlx_timing_subtract (run, job, seconds);
          rlx_timing_subtract (job, self->empty, kernels);
        }
    }
  return attempts_end (&attempts, self, "a transfer", error);
}
