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

/* What forks share. Weights, folded values and the parameters of the kernels
 * do not change from run to run. */
typedef struct
{
  gatomicrefcount ref_count;
  RlxPlan *plan;
  RlxGpu *gpu;
  RlxGpuBuffer **buffers;        /* by plan buffer; NULL where each fork has its own */
  RlxResident **residents;       /* by plan buffer; where there is one, the buffer is its */
  guint64 found_bytes;           /* of constants that the device had already */
  guint64 relaid_bytes;          /* of constants that it has in another layout, too */
  GString *relaid;               /* a line for each of these */
  RlxGpuBuffer *params;
  RlxGpuPipeline **pipelines;    /* by step, borrowed */
  RlxSpeeds speeds;         /* the device when it was compiled */
  guint64 timeout_us;            /* of a piece of work; 0: the usual one */
  const char **input_names;      /* ends with NULL; the plan's names */
  const char **output_names;
  gboolean *is_set;              /* by parameter; device thread only */
  int *given;                    /* by parameter; atomic: somebody has begun to give it a value */
  gboolean stale;                /* the prologue must run (again); device thread only */

  /* Of all that follows. Which steps run depends on weights: rlx-f16-weights.c. The device
   * thread changes it, between runs and for all forks at once, so that a run finds its
   * list made. */
  GMutex mutex;
  GListModel *ports[4];          /* inputs, outputs, parameters, states; NULL until somebody asks */
  gboolean *is_f16;           /* by f16_weights of the plan */
  guint *steps;                  /* of the main part, those that run */
  guint n_steps;
  GPtrArray *forks;              /* RlxProgramFork, not owned */
} RlxProgram;

/* What each fork has of its own. */
typedef struct
{
  RlxGpuDispatch *dispatches;    /* by step */
  RlxGpuDispatch *running;       /* of the main part, those that run: steps of the program */
} RlxProgramFork;

/* Takes @plan over in every case. */
RlxProgram *   rlx_program_new               (RlxGpu          *gpu,
                                              RlxPlan         *plan,
                                              const RlxSpeeds *speeds,
                                              RlxTicker       *ticker,
                                              GCancellable    *cancellable,
                                              GError         **error);
void           rlx_program_unref             (RlxProgram          *self);
/* Lines about weights that lie on the device for others, too. */
char *         rlx_program_describe_weights  (RlxProgram          *self);
/* A buffer as the plan has it. */
RlxGpuBuffer * rlx_program_new_buffer        (RlxProgram *self,
                                              guint       index,
                                              GError    **error);
/* Both under the mutex: after a weight has changed, for all forks, and for one. */
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
