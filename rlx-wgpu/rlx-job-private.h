/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A call on its way through the queue of a device. Whoever ends it first, the
 * device thread or a cancellation, gives the caller the answer.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-device.h"

G_BEGIN_DECLS

typedef struct _RlxJob RlxJob;

/* The first member of what a call needs. */
struct _RlxJob
{
  gatomicrefcount ref_count;
  RlxGpu *gpu;                  /* not a reference: @release may drop the last one */
  /* On the device thread: the result, or NULL with an error. */
  gpointer (*work)    (RlxJob  *job,
                       GError **error);
  GDestroyNotify free_result;   /* nullable */
  /* Nobody knows the job any more. */
  void     (*release) (RlxJob  *job);

  GCancellable *cancellable;
  gulong cancel_id;
  int answered;                 /* atomic: somebody has the right to answer */

  GTask *task;                  /* of a call that does not wait */

  GMutex mutex;                 /* of one that waits */
  GCond cond;
  gboolean done;
  gpointer result;
  GError *error;
};

/* To be called once for a job that is used again and again. */
void     rlx_job_init     (RlxJob       *job);
void     rlx_job_clear    (RlxJob       *job);

/* Gives the job its first reference. */
void     rlx_job_prepare  (RlxJob       *job,
                           RlxGpu       *gpu,
                           GCancellable *cancellable);
void     rlx_job_unref    (RlxJob       *job);

/* Each drops the caller's reference. The result is the caller's. */
gpointer rlx_job_wait     (RlxJob             *job,
                           GError            **error);
/* Nobody is told how it ends. */
void     rlx_job_leave    (RlxJob             *job);
/* @job is NULL when making it failed with @error, which is taken over. */
void     rlx_job_start    (RlxJob             *job,
                           GError             *error,
                           gpointer            source,
                           gpointer            source_tag,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data);

/* ---- what waits for something else than the queue of a device --------------------- */

/* In any thread: the result, or NULL with an error. */
typedef gpointer (*RlxThreadFunc) (gpointer      data,
                                   GCancellable *cancellable,
                                   GError      **error);

/* Both call @func in another thread and take @data over. Cancelling ends the wait
 * at once; what is done goes on, and its result is dropped. */
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

/* What opens @file, for a device unless that is NULL. */
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
