/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From an optimised graph to commands for a device: steps over slots (rlx-lower.c), slots
 * placed in buffers (rlx-plan.c), and WGSL for each step (rlx-source.c).
 */
#pragma once

#include "ir/rlx-ir-private.h"
#include "ops/rlx-kernel-private.h"
#include "ops/rlx-step-private.h"
#include "ops/rlx-variant-private.h"

G_BEGIN_DECLS

/* A piece of device memory that holds one or more values. */
typedef enum
{
  RLX_SLOT_ACTIVATION, /* lives within one run (or within the prologue) */
  RLX_SLOT_INPUT,      /* written at the start of a run; if it lives to the end of the run, the next one still finds
                          it */
  RLX_SLOT_WEIGHT,     /* constant or parameter: uploaded once, read-only */
  RLX_SLOT_FOLDED,     /* computed once from weights, by the prologue */
  RLX_SLOT_STATE,      /* persists between runs; written by copies at the end, or by steps that update it */
} RlxSlotKind;

/* A weight in the layout that a kernel needs: rlx_lower_pack_weight(). */
typedef struct
{
  guint width;            /* 0: unchanged */
  guint64 n_k, n_n;
  guint64 stride_k, stride_n;
} RlxPacking;

typedef struct
{
  RlxSlotKind kind;
  RlxTensorType type;     /* of the value that the slot was created for */
  RlxPacking packing;     /* weights */
  guint joined;           /* index + 1 of the slot of the same kind that it is part of */
  guint64 part_offset;    /* in that slot */
  guint64 size;           /* bytes on the device, rounded up */
  const RlxIrNode *leaf;  /* inputs, weights and states: the node they come from */
  int first;              /* step that writes it first; -1: before the steps */
  int last;               /* last step that uses it; G_MAXINT: the end of the run */
  guint buffer;           /* index into RlxPlan.buffers */
  guint64 offset;
  gboolean updated;       /* states: steps write parts of it, which all readers see */
  int shares;             /* slot whose memory it reuses in place, or -1 */
} RlxSlot;

/* A weight that a product would round to f16: n_k · n_n matrices, one after the other in a slot. For packed ones,
 * the slot has the blocks or the scales. */
typedef struct
{
  guint slot;
  char *label;            /* name of the product, for messages */
  guint64 n_k, n_n;
  guint64 stride_k, stride_n;
  gboolean is_packed;
  RlxPackedType packed_type;
  RlxDataType data_type;  /* of the scales */
} RlxF16Weight;

typedef struct
{
  RlxGpuBindingKind kind;
  guint slot;             /* G_MAXUINT: the parameter block */
  guint64 offset;         /* within the slot */
  guint64 size;
} RlxStepBinding;

typedef enum
{
  RLX_BUFFER_BANK,        /* activations, one set per executable */
  RLX_BUFFER_WEIGHTS,     /* shared by forks */
  RLX_BUFFER_CONSTANT,    /* one constant, or several joined ones: shared by all executables of a device */
  RLX_BUFFER_FOLDED,      /* shared by forks */
  RLX_BUFFER_STATE,       /* one set per executable */
} RlxBufferKind;

typedef struct
{
  RlxBufferKind kind;
  guint64 size;
  guint first_constant;   /* in RlxPlan.constants */
  guint n_constants;
} RlxBuffer;

/* Smaller constants are stored together: a buffer for each would cost more than a copy
 * per executable. */
#define RLX_CONSTANT_MIN 1024

typedef struct
{
  char *name;
  guint slot;
  RlxTensorType type;
} RlxPlanPort;

typedef struct
{
  guint source;
  guint target;
} RlxSlotCopy;

/* Words that the library reads back after each run. */
typedef struct
{
  guint slot;
  const RlxIrNode *node;  /* defines their meaning */
} RlxPlanReport;

typedef struct
{
  GPtrArray *steps;       /* RlxStep, prologue first */
  guint n_prologue;
  GPtrArray *choices;     /* RlxChoice, each after the choice that led to it */
  GArray *slots;          /* RlxSlot */
  GArray *buffers;        /* RlxBuffer */
  GArray *constants;      /* guint: slots that are uploaded once, buffer by buffer */
  GArray *inputs;         /* RlxPlanPort, in the order of the graph */
  GArray *parameters;     /* RlxPlanPort */
  GArray *states;         /* RlxPlanPort */
  GArray *outputs;        /* RlxPlanPort */
  GArray *copies;         /* RlxSlotCopy: state assignments */
  GArray *f16_weights;    /* RlxF16Weight: parameters that steps depend on */
  GArray *reports;        /* RlxPlanReport, in the order of the graph */
  guint64 live_bytes;     /* most activation bytes alive at once: no plan needs less */
  guint64 kept_bytes;     /* the same if recomputed values were kept; 0: nothing is recomputed */
  guint64 params_size;
  RlxIr *ir;              /* the graph after the passes; steps point into it */
} RlxPlan;

/* Lowers @ir, of which it always takes ownership, for a target, and places everything. */
RlxPlan *  rlx_plan_new   (RlxIr           *ir,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);
/* Runs the passes before lowering. Both must see the same target, since each relies on
 * decisions of the other. */
RlxPlan *  rlx_plan_make  (const RlxIr     *ir,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);
void       rlx_plan_free  (RlxPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxPlan, rlx_plan_free)

/* Whether each fork has a buffer of its own. */
static inline gboolean
rlx_plan_is_own_buffer (const RlxPlan *plan,
                        guint          index)
{
  RlxBufferKind kind = g_array_index (plan->buffers, RlxBuffer, index).kind;

  return kind == RLX_BUFFER_BANK || kind == RLX_BUFFER_STATE;
}

/* The size of what each fork owns, or of what all of them share. */
guint64    rlx_plan_buffer_bytes (const RlxPlan *plan,
                                  gboolean       own);

/* rlx-verify.c: whether no memory is used for two things at a time; a failure is a bug. Slow. */
gboolean   rlx_plan_verify (const RlxPlan *plan,
                            GError       **error);

/* rlx-describe.c: the results of rlx_executable_dup_plan() and
 * rlx_executable_describe_plan(). @steps are the steps of the plan that are run. */
GVariant * rlx_plan_to_variant (const RlxPlan *plan,
                                GPtrArray     *steps);
char *     rlx_plan_to_text    (const RlxPlan *plan,
                                GPtrArray     *steps);
/* The estimated seconds of a step: for display, and to split submits before a driver's
 * watchdog strikes. */
double     rlx_plan_estimate_step (const RlxPlan   *plan,
                                   const RlxStep   *step,
                                   const RlxSpeeds *speeds);
/* The variants considered for a step; NULL if there was no choice. */
char *     rlx_plan_dup_choice (const RlxPlan *plan,
                                const RlxStep *step);

/* rlx-lower.c: fills steps, slots and ports. */
gboolean   rlx_lower_ir   (RlxPlan         *plan,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);

/* rlx-source.c: the text and the bindings of a step, once slots are placed. @bodies, a
 * table of strings to strings, caches expansions across steps. */
gboolean   rlx_step_build_source (RlxPlan         *plan,
                                  RlxStep         *step,
                                  const RlxTarget *target,
                                  GHashTable      *bodies,
                                  GError         **error);

/* rlx-pack.c: what is uploaded for a slot, from a tensor's bytes. */
GBytes *   rlx_slot_pack       (const RlxSlot *slot, GBytes *bytes);
/* The same, into existing memory of the size of the slot. */
void       rlx_slot_pack_to    (const RlxSlot *slot, GBytes *bytes, guint8 *to);
/* How many bytes of a tensor, at most @wanted, can be packed without the others; 0 if none can, or if they would be
 * scattered over too many runs for rlx_slot_pack_runs(). */
gsize      rlx_slot_get_piece  (const RlxSlot *slot, gsize wanted, gboolean in_runs);
/* Packs the @size bytes at @at of a tensor, a piece or the rest, into memory of the size of the slot. */
void       rlx_slot_pack_piece (const RlxSlot *slot, const guint8 *from, gsize at, gsize size, guint8 *to);
/* The same; @func gets each contiguous run and its offset in the slot. */
typedef gboolean (*RlxSlotRunFunc) (gpointer data, gsize at, const guint8 *bytes, gsize size, GError **error);
gboolean   rlx_slot_pack_runs  (const RlxSlot *slot, const guint8 *from, gsize at, gsize size, RlxSlotRunFunc func, gpointer data, GError **error);

/* rlx-f16-weights.c: whether products may round the matrices in @data to f16. If not,
 * *@reason (nullable) says why. */
gboolean   rlx_f16_weight_check  (const RlxF16Weight *weight, const float *data, gsize n_elements, char **reason);
/* The same for the weight of a slot, as it is uploaded. Logs the reason if not. */
gboolean   rlx_f16_weight_decide (const RlxF16Weight *weight, GBytes *bytes);


G_END_DECLS
