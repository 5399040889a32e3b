/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-device-private.h"

G_BEGIN_DECLS

/* One run on its way through the device's queue. Whoever ends it first, the
 * device thread or a cancellation, gives the caller the answer. */
typedef struct
{
  gatomicrefcount ref_count;
  RlxExecutable *executable;
  GPtrArray *inputs;          /* GBytes as the device stores them */
  GCancellable *cancellable;
  gulong cancel_id;
  int answered;               /* atomic: somebody has the right to answer */

  GTask *task;                /* asynchronous runs */

  GMutex mutex;               /* synchronous runs */
  GCond cond;
  gboolean done;
  GPtrArray *outputs;
  GError *error;
} RlxRun;

RlxRun *    rlx_run_new     (RlxExecutable *self,
                             RlxTensor    **inputs,
                             gsize          n_inputs,
                             GCancellable  *cancellable,
                             GError       **error);
void        rlx_run_unref   (RlxRun *run);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxRun, rlx_run_unref)

/* On the device thread: uploads, dispatches, downloads. (element-type RlxTensor) */
GPtrArray * rlx_run_execute (RlxRun  *run,
                             GError **error);
RlxGpu *    rlx_run_get_gpu (RlxRun *run);

gboolean    rlx_executable_order_inputs (RlxExecutable      *self,
                                         const char *const  *names,
                                         RlxTensor         **inputs,
                                         gsize               n_inputs,
                                         RlxTensor         **ordered,
                                         GError            **error);

/* The bytes the device stores for a tensor: 64-bit integers become narrow ones,
 * and one that does not fit is RLX_GRAPH_ERROR_LIMIT. @name is for the message. */
GBytes *    rlx_tensor_to_device       (RlxTensor    *tensor,
                                        const char   *name,
                                        GError      **error);
/* The way back; takes @data over. */
RlxTensor * rlx_tensor_new_from_device (RlxDataType   dtype,
                                        const gint64 *dims,
                                        guint         rank,
                                        gpointer      data,
                                        GError      **error);

guint64     rlx_plan_buffer_bytes      (const RlxPlan *plan,
                                        gboolean       own);

G_END_DECLS
