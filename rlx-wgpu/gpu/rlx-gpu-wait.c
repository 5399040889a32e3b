/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Waiting for futures, and errors. A wait is never unbounded: a single
 * long wait has been seen to hang for ever, and after a loss inside the wait
 * the only sign of it is the device's own flag.
 */
#include "config.h"

#include "rlx-gpu-internal.h"
#include "util/rlx-os-private.h"

#include <string.h>

#define SLICE_NS (G_GUINT64_CONSTANT (100) * 1000000)
/* Longer than a poll should take: the process was not running in the meantime. */
#define OVERSLEPT_US (100 * 1000)
#define DEFAULT_TIMEOUT_S 60
#define MAX_TIMEOUT_S 86400
#define SCOPES_TIMEOUT_US G_USEC_PER_SEC

/* How long one submit may take, in microseconds; *given (nullable) tells
 * whether RLX_TIMEOUT says so. */
guint64
rlx_gpu_get_timeout (gboolean *given)
{
  const char *value = rlx_getenv ("RLX_TIMEOUT");
  char *end = NULL;
  double seconds;

  if (given != NULL)
    *given = FALSE;

  if (value == NULL || *value == '\0')
    return DEFAULT_TIMEOUT_S * G_USEC_PER_SEC;

  seconds = g_ascii_strtod (value, &end);
  /* Written so that NaN fails. */
  if (end == value || *end != '\0' || !(seconds > 0.0 && seconds <= MAX_TIMEOUT_S))
    {
      static gsize warned = 0;

      if (g_once_init_enter (&warned))
        {
          g_warning ("RLX_TIMEOUT is not a number of seconds between 0 and %d", MAX_TIMEOUT_S);
          g_once_init_leave (&warned, 1);
        }
      return DEFAULT_TIMEOUT_S * G_USEC_PER_SEC;
    }

  if (given != NULL)
    *given = TRUE;
  return (guint64) (seconds * G_USEC_PER_SEC) + 1;
}

/* How much of the time since @last, the previous poll, counts as waited, in
 * microseconds; @meant is the expected time. A process that was stopped, by a user or a
 * debugger, could not poll, and its driver could not work either. Such a poll counts a
 * little, or a busy machine would wait for ever, but not enough to be the last one. */
guint64
rlx_gpu_count_look (gint64 *last,
                    guint64 meant)
{
  gint64 now = g_get_monotonic_time ();
  guint64 passed = (guint64) (now - *last);

  *last = now;
  return passed <= meant + OVERSLEPT_US ? passed : MAX (meant / 2, 1);
}

static gboolean
wait_for (RlxGpu     *gpu,
          WGPUFuture  future,
          guint64     timeout_us,
          gboolean    to_end,
          const char *what,
          GError    **error)
{
  WGPUInstance instance = rlx_gpu_get_instance (NULL);
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;
  gint64 start = g_get_monotonic_time (), last = start;
  guint64 spin = rlx_gpu_get_spin (gpu), elapsed = 0;

  wait.future = future;

  for (;;)
    {
      guint64 slice = 0;
      WGPUWaitStatus status;

      if (elapsed >= spin)
        slice = MIN (SLICE_NS, MAX (timeout_us - elapsed, 1) * 1000);

      status = wgpuInstanceWaitAny (instance, 1, &wait, slice);
      if (status == WGPUWaitStatus_Success && wait.completed)
        {
          rlx_gpu_set_waited (gpu, (guint64) (g_get_monotonic_time () - start));
          return rlx_gpu_check_lost (gpu, error);
        }

      if (!to_end &&
          (!rlx_gpu_exit_point (gpu, error) || !rlx_gpu_check_lost (gpu, error)))
        return FALSE;

      if (status == WGPUWaitStatus_Error)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "Waiting for %s failed", what);
          return FALSE;
        }

      elapsed += rlx_gpu_count_look (&last, slice / 1000);
      if (elapsed >= timeout_us)
        break;
      if (slice == 0)
        rlx_os_yield ();
    }

  rlx_gpu_mark_lost (gpu, "the GPU did not answer in time", TRUE);
  g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT,
               "The GPU did not finish %s within %.1f seconds; the device counts as lost",
               what, timeout_us / (double) G_USEC_PER_SEC);
  return FALSE;
}

/* Returns TRUE when @future is complete and its callback has run. When this
 * fails the callback may still come, at the latest when the device goes. */
gboolean
rlx_gpu_wait (RlxGpu     *gpu,
              WGPUFuture  future,
              guint64     timeout_us,
              const char *what,
              GError    **error)
{
  return wait_for (gpu, future, timeout_us, FALSE, what, error);
}

gboolean
rlx_gpu_wait_to_end (RlxGpu     *gpu,
                     WGPUFuture  future,
                     guint64     timeout_us,
                     const char *what,
                     GError    **error)
{
  return wait_for (gpu, future, timeout_us, TRUE, what, error);
}

static void
on_work_done (WGPUQueueWorkDoneStatus status G_GNUC_UNUSED,
              WGPUStringView          message G_GNUC_UNUSED,
              void                   *userdata1 G_GNUC_UNUSED,
              void                   *userdata2 G_GNUC_UNUSED)
{
  /* The callback itself is the only information: the status is success even if the
   * device was lost. */
}

/* For the end of everything submitted so far. */
WGPUFuture
rlx_gpu_work_done (RlxGpu *gpu)
{
  WGPUQueueWorkDoneCallbackInfo callback = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_work_done;

  return wgpuQueueOnSubmittedWorkDone (gpu->queue, callback);
}

/* ---- errors ---- */

typedef struct
{
  WGPUErrorType type;
  char *message;
} Scope;

static void
on_scope (WGPUPopErrorScopeStatus status,
          WGPUErrorType           type,
          WGPUStringView          message,
          void                   *userdata1,
          void                   *userdata2 G_GNUC_UNUSED)
{
  Scope *scope = userdata1;

  if (status != WGPUPopErrorScopeStatus_Success)
    {
      scope->type = WGPUErrorType_Unknown;
      scope->message = g_strdup ("the error scopes are unbalanced");
    }
  else if (type != WGPUErrorType_NoError)
    {
      scope->type = type;
      scope->message = rlx_gpu_string (message);
    }
}

/* Exhausted memory is reported as internal when it strikes while a shader or
 * pipeline is made. */
static void
set_refusal (WGPUErrorType type,
             const char   *message,
             const char   *what,
             GError      **error)
{
  if (type == WGPUErrorType_OutOfMemory || strstr (message, "_OUT_OF_") != NULL)
    g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                 "The device has no memory left for %s: %s", what, message);
  else
    g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                 "The driver rejected %s: %s", what, message);
}

gboolean
rlx_gpu_check_uncaptured (RlxGpu     *gpu,
                          const char *what,
                          GError    **error)
{
  WGPUErrorType type;
  g_autofree char *message = rlx_gpu_steal_uncaptured (gpu, &type);

  if (G_LIKELY (message == NULL))
    return TRUE;

  set_refusal (type, message, what, error);
  return FALSE;
}

static const WGPUErrorFilter filters[] = {
  WGPUErrorFilter_Validation,
  WGPUErrorFilter_OutOfMemory,
  WGPUErrorFilter_Internal,
};

void
rlx_gpu_scopes_push (RlxGpu *gpu)
{
  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    wgpuDevicePushErrorScope (gpu->device, filters[i]);
}

gboolean
rlx_gpu_scopes_pop (RlxGpu     *gpu,
                    const char *what,
                    GError    **error)
{
  WGPUInstance instance = rlx_gpu_get_instance (NULL);
  Scope *scopes = g_new0 (Scope, G_N_ELEMENTS (filters));
  WGPUFutureWaitInfo waits[G_N_ELEMENTS (filters)];
  gint64 last = g_get_monotonic_time ();
  guint64 elapsed = 0;
  gsize done = 0;
  gboolean result = TRUE;

  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    {
      WGPUPopErrorScopeCallbackInfo callback = WGPU_POP_ERROR_SCOPE_CALLBACK_INFO_INIT;

      scopes[i].type = WGPUErrorType_NoError;
      callback.mode = WGPUCallbackMode_WaitAnyOnly;
      callback.callback = on_scope;
      callback.userdata1 = &scopes[i];
      waits[i] = (WGPUFutureWaitInfo) WGPU_FUTURE_WAIT_INFO_INIT;
      waits[i].future = wgpuDevicePopErrorScope (gpu->device, callback);
    }

  /* Popping does not involve the GPU: the futures are complete when they are created,
   * and the loop is for versions of Dawn that differ. */
  while (done < G_N_ELEMENTS (filters))
    {
      gsize n = 0;

      wgpuInstanceWaitAny (instance, G_N_ELEMENTS (filters), waits, 0);
      for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
        n += waits[i].completed ? 1 : 0;
      done = n;
      if (done < G_N_ELEMENTS (filters) && (elapsed += rlx_gpu_count_look (&last, 0)) > SCOPES_TIMEOUT_US)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "The driver did not report the errors of %s in time", what);
          return FALSE;
        }
    }

  for (gsize i = 0; i < G_N_ELEMENTS (filters) && result; i++)
    if (scopes[i].type != WGPUErrorType_NoError)
      {
        result = FALSE;
        set_refusal (scopes[i].type, scopes[i].message, what, error);
      }

  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    g_free (scopes[i].message);
  g_free (scopes);

  /* A lost device reports no error. */
  return result && rlx_gpu_check_lost (gpu, error);
}
