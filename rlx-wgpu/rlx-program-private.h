/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A plan with all that is made of it once: weights, parameters and pipelines.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-resident-private.h"
#include "rlx-ticker-private.h"

G_BEGIN_DECLS

/* Shared by forks: weights, folded values and the parameters of kernels, which do not
 * change from run to run. */
typedef struct
{
  gatomicrefcount ref_count;
  RlxPlan *plan;
  RlxGpu *gpu;
  RlxGpuBuffer **buffers;        /* by plan buffer; NULL if each fork has its own */
  RlxResident **residents;       /* by plan buffer; if not NULL, it owns the buffer */
  guint64 found_bytes;           /* of constants that were already on the device */
  guint64 relaid_bytes;          /* of constants that are also there in another layout */
  GString *relaid;               /* a line for each of the latter */
  RlxGpuBuffer *params;
  RlxGpuPipeline **pipelines;    /* by step, borrowed */
  RlxSpeeds speeds;         /* the device when it was compiled */
  guint64 timeout_us;            /* of a job; 0: the default */
  const char **input_names;      /* ends with NULL; the plan's names */
  const char **output_names;
  gboolean *is_set;              /* by parameter; device thread only */
  int *given;                    /* by parameter; atomic: a value is being set */
  gboolean stale;                /* the prologue must run (again); device thread only */

  /* Protects everything below. Which steps run depends on weights, see rlx-f16-weights.c.
   * The device thread changes it between runs, for all forks at once, so that runs find a
   * complete list. */
  GMutex mutex;
  GListModel *ports[4];          /* inputs, outputs, parameters, states; NULL until requested */
  gboolean *is_f16;           /* by f16_weights of the plan */
  guint *steps;                  /* of the main part, the steps that run */
  guint n_steps;
  GPtrArray *forks;              /* RlxProgramFork, not owned */
} RlxProgram;

/* Owned by each fork. */
typedef struct
{
  RlxGpuDispatch *dispatches;    /* by step */
  RlxGpuDispatch *running;       /* the steps of the main part that run */
} RlxProgramFork;

/* Always takes ownership of @plan. */
RlxProgram *   rlx_program_new               (RlxGpu          *gpu,
                                              RlxPlan         *plan,
                                              const RlxSpeeds *speeds,
                                              RlxTicker       *ticker,
                                              GCancellable    *cancellable,
                                              GError         **error);
void           rlx_program_unref             (RlxProgram          *self);
/* Lines about weights that others also use on the device. */
char *         rlx_program_describe_weights  (RlxProgram          *self);
/* A buffer as planned. */
RlxGpuBuffer * rlx_program_new_buffer        (RlxProgram *self,
                                              guint       index,
                                              GError    **error);
/* Both under the mutex, after a weight has changed: for all forks, and for one. */
void           rlx_program_choose_steps      (RlxProgram          *self);
void           rlx_program_choose_dispatches (RlxProgram          *self,
                                              RlxProgramFork      *fork);

static inline const RlxSlot *
rlx_plan_get_slot (const RlxPlan *plan,
                   guint          index)
{
  return &g_array_index (plan->slots, RlxSlot, index);
}

G_END_DECLS
