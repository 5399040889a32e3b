/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A call on its way through the queue of a device. Whatever ends it first, the device thread
 * or a cancellation, gives the caller the answer.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-device.h"

G_BEGIN_DECLS

typedef struct _RlxJob RlxJob;

/* The first member of a call's data. */
struct _RlxJob
{
  gatomicrefcount ref_count;
  RlxGpu *gpu;                  /* not a reference: @release may drop the last one */
  /* On the device thread: returns the result, or NULL with an error. */
  gpointer (*work)    (RlxJob  *job,
                       GError **error);
  GDestroyNotify free_result;   /* nullable */
  /* The last reference is gone. */
  void     (*release) (RlxJob  *job);

  GCancellable *cancellable;
  gulong cancel_id;
  int answered;                 /* atomic: the answer has been claimed */

  GTask *task;                  /* of an asynchronous call */

  GMutex mutex;                 /* of a blocking one */
  GCond cond;
  gboolean done;
  gpointer result;
  GError *error;
};

/* Called once for a job that is reused. */
void     rlx_job_init     (RlxJob       *job);
void     rlx_job_clear    (RlxJob       *job);

/* Gives the job its first reference. */
void     rlx_job_prepare  (RlxJob       *job,
                           RlxGpu       *gpu,
                           GCancellable *cancellable);
void     rlx_job_unref    (RlxJob       *job);

/* Each drops the caller's reference. The result belongs to the caller. */
gpointer rlx_job_wait     (RlxJob             *job,
                           GError            **error);
/* For a job that nobody waits for. */
void     rlx_job_leave    (RlxJob             *job);
/* @job is NULL if creating it failed with @error, which is taken over. */
void     rlx_job_start    (RlxJob             *job,
                           GError             *error,
                           gpointer            source,
                           gpointer            source_tag,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data);

/* ---- waiting for something other than the queue of a device --------------------- */

/* In any thread: returns the result, or NULL with an error. */
typedef gpointer (*RlxThreadFunc) (gpointer      data,
                                   GCancellable *cancellable,
                                   GError      **error);

/* Both call @func in another thread and take ownership of @data. Cancelling ends the
 * wait at once; the work continues, and its result is dropped. */
gpointer rlx_thread_wait  (RlxThreadFunc       func,
                           GDestroyNotify      free_result,
                           gpointer            data,
                           GDestroyNotify      free_data,
                           GCancellable       *cancellable,
                           GError            **error);
void     rlx_thread_start (gpointer            source,
                           gpointer            source_tag,
                           RlxThreadFunc       func,
                           GDestroyNotify      free_result,
                           gpointer            data,
                           GDestroyNotify      free_data,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data);

/* Opens @file, for a device unless that is NULL. */
typedef gpointer (*RlxOpenFunc) (GFile        *file,
                                 RlxDevice    *device,
                                 GCancellable *cancellable,
                                 GError      **error);

/* Opens an object in another thread. */
void     rlx_thread_open  (gpointer            source_tag,
                           RlxOpenFunc         func,
                           GFile              *file,
                           RlxDevice          *device,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data);

G_END_DECLS
