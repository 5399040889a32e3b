/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-job-private.h"

void
rlx_job_init (RlxJob *job)
{
  g_mutex_init (&job->mutex);
  g_cond_init (&job->cond);
}

void
rlx_job_clear (RlxJob *job)
{
  g_mutex_clear (&job->mutex);
  g_cond_clear (&job->cond);
}

void
rlx_job_prepare (RlxJob       *job,
                 RlxGpu       *gpu,
                 GCancellable *cancellable)
{
  g_atomic_ref_count_init (&job->ref_count);
  job->gpu = gpu;
  g_set_object (&job->cancellable, cancellable);
  job->cancel_id = 0;
  job->answered = FALSE;
  job->done = FALSE;
}

static RlxJob *
job_ref (RlxJob *job)
{
  g_atomic_ref_count_inc (&job->ref_count);
  return job;
}

static void
drop_result (RlxJob  *job,
             gpointer result)
{
  if (result != NULL && job->free_result != NULL)
    job->free_result (result);
}

void
rlx_job_unref (RlxJob *job)
{
  if (!g_atomic_ref_count_dec (&job->ref_count))
    return;
  g_clear_object (&job->cancellable);
  g_clear_object (&job->task);
  drop_result (job, g_steal_pointer (&job->result));
  g_clear_error (&job->error);
  job->release (job);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxJob, rlx_job_unref)

/* Takes ownership of @result and @error. A second answer is dropped. */
static void
answer (RlxJob  *job,
        gpointer result,
        GError  *error)
{
  if (!g_atomic_int_compare_and_exchange (&job->answered, FALSE, TRUE))
    {
      drop_result (job, result);
      g_clear_error (&error);
      return;
    }
  if (job->task != NULL)
    {
      if (result != NULL)
        g_task_return_pointer (job->task, result, job->free_result);
      else
        g_task_return_error (job->task, error);
      return;
    }
  g_mutex_lock (&job->mutex);
  job->result = result;
  job->error = error;
  job->done = TRUE;
  g_cond_signal (&job->cond);
  g_mutex_unlock (&job->mutex);
}

/* The same message as GIO's, which callers get if GIO notices first. */
static GError *
cancelled_error (void)
{
  return g_error_new_literal (G_IO_ERROR, G_IO_ERROR_CANCELLED, g_dgettext ("glib20", "Operation was cancelled"));
}

/* The caller gets its answer at once; the GPU finishes what it has started, and the
 * result is dropped. */
static void
on_cancelled (GCancellable *cancellable,
              gpointer      data)
{
  answer (data, NULL, cancelled_error ());
}

static void
execute (RlxGpu  *gpu,
         gpointer data)
{
  g_autoptr(RlxJob) job = data;
  GError *error = NULL;
  gpointer result = NULL;

  if (!g_atomic_int_get (&job->answered))
    result = job->work (job, &error);
  else
    error = cancelled_error ();
  if (job->cancellable != NULL)
    g_signal_handler_disconnect (job->cancellable, job->cancel_id);
  answer (job, result, error);
}

static void
unref_closure_data (gpointer  data,
                    GClosure *closure)
{
  rlx_job_unref (data);
}

/* A signal like any other: g_cancellable_connect() and _disconnect() wait for all
 * handlers to return, of which one may be waiting for a job. */
static void
watch_cancellable (RlxJob *job)
{
  job->cancel_id = g_signal_connect_data (job->cancellable, "cancelled", G_CALLBACK (on_cancelled),
                                          job_ref (job), unref_closure_data, G_CONNECT_DEFAULT);
  /* The signal may have come too late. */
  if (g_cancellable_is_cancelled (job->cancellable))
    on_cancelled (job->cancellable, job);
}

static void
enqueue (RlxJob *job)
{
  if (job->cancellable != NULL)
    watch_cancellable (job);
  rlx_gpu_invoke (job->gpu, execute, job_ref (job));
}

gpointer
rlx_job_wait (RlxJob *job,
              GError **error)
{
  g_autoptr(RlxJob) owned = job;

  /* Without a cancellable only the device thread can end the wait, and its own way of
   * waking us is the fastest. */
  if (job->cancellable == NULL)
    rlx_gpu_invoke_sync (job->gpu, execute, job_ref (job));
  else
    {
      enqueue (job);
      g_mutex_lock (&job->mutex);
      while (!job->done)
        g_cond_wait (&job->cond, &job->mutex);
      g_mutex_unlock (&job->mutex);
    }

  if (job->result == NULL)
    g_propagate_error (error, g_steal_pointer (&job->error));
  return g_steal_pointer (&job->result);
}

void
rlx_job_leave (RlxJob *job)
{
  g_autoptr(RlxJob) owned = job;

  enqueue (job);
}

void
rlx_job_start (RlxJob             *job,
               GError             *error,
               gpointer            source,
               gpointer            source_tag,
               GCancellable       *cancellable,
               GAsyncReadyCallback callback,
               gpointer            user_data)
{
  g_autoptr(GTask) task = g_task_new (source, cancellable, callback, user_data);
  g_autoptr(RlxJob) owned = job;

  g_task_set_source_tag (task, source_tag);
  if (job == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  job->task = g_steal_pointer (&task);
  enqueue (job);
}

/* ---- threads -------------------------------------------------------------------------- */

typedef struct
{
  RlxThreadFunc func;
  GDestroyNotify free_result;
  gpointer data;
  GDestroyNotify free_data;
} ThreadCall;

static void
thread_call_free (gpointer data)
{
  ThreadCall *call = data;

  if (call->free_data != NULL)
    call->free_data (call->data);
  g_free (call);
}

static void
thread_call_run (GTask        *task,
                 gpointer      source G_GNUC_UNUSED,
                 gpointer      data,
                 GCancellable *cancellable)
{
  ThreadCall *call = data;
  GError *error = NULL;
  gpointer result = call->func (call->data, cancellable, &error);

  if (result != NULL)
    g_task_return_pointer (task, result, call->free_result);
  else
    g_task_return_error (task, error);
}

static GTask *
thread_task_new (gpointer            source,
                 RlxThreadFunc       func,
                 GDestroyNotify      free_result,
                 gpointer            data,
                 GDestroyNotify      free_data,
                 GCancellable       *cancellable,
                 GAsyncReadyCallback callback,
                 gpointer            user_data)
{
  GTask *task = g_task_new (source, cancellable, callback, user_data);
  ThreadCall *call = g_new0 (ThreadCall, 1);

  *call = (ThreadCall) { func, free_result, data, free_data };
  g_task_set_task_data (task, call, thread_call_free);
  g_task_set_return_on_cancel (task, TRUE);
  return task;
}

gpointer
rlx_thread_wait (RlxThreadFunc  func,
                 GDestroyNotify free_result,
                 gpointer       data,
                 GDestroyNotify free_data,
                 GCancellable  *cancellable,
                 GError       **error)
{
  g_autoptr(GTask) task = NULL;

  /* The wait cannot be cancelled, so the work can be done here. */
  if (cancellable == NULL)
    {
      gpointer result = func (data, NULL, error);

      if (free_data != NULL)
        free_data (data);
      return result;
    }
  /* A task that is cancelled before it starts still runs, and loses an error. */
  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    {
      if (free_data != NULL)
        free_data (data);
      return NULL;
    }
  task = thread_task_new (NULL, func, free_result, data, free_data, cancellable, NULL, NULL);
  g_task_run_in_thread_sync (task, thread_call_run);
  return g_task_propagate_pointer (task, error);
}

void
rlx_thread_start (gpointer            source,
                  gpointer            source_tag,
                  RlxThreadFunc       func,
                  GDestroyNotify      free_result,
                  gpointer            data,
                  GDestroyNotify      free_data,
                  GCancellable       *cancellable,
                  GAsyncReadyCallback callback,
                  gpointer            user_data)
{
  g_autoptr(GTask) task = thread_task_new (source, func, free_result, data, free_data, cancellable, callback, user_data);

  g_task_set_source_tag (task, source_tag);
  if (!g_task_return_error_if_cancelled (task))
    g_task_run_in_thread (task, thread_call_run);
}

typedef struct
{
  RlxOpenFunc func;
  GFile *file;
  RlxDevice *device;
} Opening;

static void
opening_free (gpointer data)
{
  Opening *self = data;

  g_object_unref (self->file);
  g_clear_object (&self->device);
  g_free (self);
}

static gpointer
open_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Opening *self = data;

  return self->func (self->file, self->device, cancellable, error);
}

void
rlx_thread_open (gpointer            source_tag,
                 RlxOpenFunc         func,
                 GFile              *file,
                 RlxDevice          *device,
                 GCancellable       *cancellable,
                 GAsyncReadyCallback callback,
                 gpointer            user_data)
{
  Opening *opening = g_new0 (Opening, 1);

  opening->func = func;
  opening->file = g_object_ref (file);
  g_set_object (&opening->device, device);
  rlx_thread_start (NULL, source_tag, open_in_thread, g_object_unref, opening, opening_free, cancellable, callback, user_data);
}
