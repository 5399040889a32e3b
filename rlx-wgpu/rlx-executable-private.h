/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The internals of an executable: rlx-executable.c creates it, rlx-run.c runs it,
 * rlx-executable-values.c has its parameters and states, and rlx-executable-facts.c describes
 * it.
 */
#pragma once

#include "rlx-device-private.h"
#include "rlx-program-private.h"
#include "rlx-state.h"

G_BEGIN_DECLS

typedef struct _RlxRun RlxRun;

/* The memory of one state, or of several that are stored together, once it may be shared. */
typedef struct
{
  gatomicrefcount ref_count;
  RlxDevice *device;
  RlxGpuBuffer *buffer;
  guint64 size;
} RlxStateMemory;

struct _RlxExecutable
{
  GObject parent_instance;

  RlxDevice *device;
  gboolean borrows_device;       /* kept by the device, not the reverse */
  RlxProgram *shared;
  RlxGpuBuffer **own;            /* by plan buffer; NULL where shared */
  RlxStateMemory **memories;     /* by plan buffer: the owner of its memory; NULL while it is not shared; under the
                                    mutex */
  guint64 *offsets;              /* by plan buffer: its offset in shared memory */
  RlxState **states;             /* by state of the plan; NULL until requested; under the mutex */
  GPtrArray *groups;             /* RlxGpuBindGroup: steps with the same bindings share one */
  RlxProgramFork fork;
  RlxGpuCopy *copies;            /* of states, with room for those to outputs that stay on the device */
  guint64 *times;                /* by main step, while profiling */

  /* Preallocated for runs to fill in. On the device thread. */
  RlxGpuUpload *uploads;
  RlxGpuCopy *copies_in;         /* from inputs that are on the device */
  guint64 *held;                 /* by input: the tensor left from the last run; 0: none */
  RlxGpuDownload *downloads;
  gpointer *results;             /* by output, until it is a tensor */
  guint32 *reports;              /* words of each: rlx-run-report.c */

  RlxRun *spare;                 /* atomic, nullable: for the next run */

  int profiling;                 /* atomic */
  int brief;                     /* atomic: whether runs are estimated to be short; -1 before one has left its outputs on the device */
  int n_done;                    /* atomic, of the current run: steps that have ended … */
  int n_running;                 /* … out of so many; 0: there is no run */
  GMutex mutex;
  RlxProfile *profile;           /* under the mutex */
};

/* The memory of a plan buffer. */
static inline RlxGpuBuffer *
rlx_executable_get_buffer (RlxExecutable *self,
                           guint          index)
{
  return self->own[index] ? self->own[index] : self->shared->buffers[index];
}

/* The offset of a slot in its buffer. */
static inline guint64
rlx_executable_get_offset (RlxExecutable *self,
                           const RlxSlot *slot)
{
  return self->offsets[slot->buffer] + slot->offset;
}

/* rlx-state.c */
void     rlx_state_memory_unref      (RlxStateMemory *self);

/* Computes what depends only on constants and parameters, if any of these has changed.
 * On the device thread. */
gboolean rlx_executable_run_prologue (RlxExecutable *self,
                                      GCancellable  *cancellable,
                                      GError       **error);

/* Recreates bind groups after the executable's own memory was replaced; all or nothing. On the device thread. */
gboolean rlx_executable_bind_again   (RlxExecutable *self,
                                      GError       **error);

/* rlx-executable-fill.c: parameters whose values arrive in pieces, so that the host never holds all of one. */

/* Writes the next @size bytes of a value, as the device stores it, to @to. */
typedef gboolean (*RlxFillFunc) (gpointer      data,
                                 gpointer      to,
                                 gsize         size,
                                 GCancellable *cancellable,
                                 GError      **error);
/* FALSE for a parameter that is needed as a whole, or is too small for pieces. */
gboolean rlx_executable_can_fill       (RlxExecutable *self,
                                        const char    *name);
/* As rlx_executable_set_parameters(), for a value of the right type and shape; on failure the parameter may be
 * partly written. */
gboolean rlx_executable_fill_parameter (RlxExecutable *self,
                                        const char    *name,
                                        RlxFillFunc    func,
                                        gpointer       data,
                                        GCancellable  *cancellable,
                                        GError       **error);

/* Whether anybody listens to RlxExecutable:progress. */
gboolean rlx_executable_is_watched   (RlxExecutable *self);
/* An RlxTickerFunc. */
void     rlx_executable_notify_progress (gpointer    self,
                                         double      fraction,
                                         const char *what);

/* Frees the run that is kept for the next one. */
void     rlx_run_free                (RlxRun        *run);

G_END_DECLS
