/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From an optimised graph to what the device is told to do: steps over slots
 * (rlx-lower.c), slots placed in buffers (rlx-plan.c), WGSL for each step
 * (rlx-source.c).
 */
#pragma once

#include "ir/rlx-ir-private.h"
#include "ops/rlx-kernel-private.h"
#include "ops/rlx-step-private.h"
#include "ops/rlx-variant-private.h"

G_BEGIN_DECLS

/* A piece of device memory that one or more values stand for. */
typedef enum
{
  RLX_SLOT_ACTIVATION, /* lives within one run (or within the prologue) */
  RLX_SLOT_INPUT,      /* written at the start of a run; still there at the next one if it lasts to the end */
  RLX_SLOT_WEIGHT,     /* constant or parameter: uploaded once, read-only */
  RLX_SLOT_FOLDED,     /* computed once from weights, by the prologue */
  RLX_SLOT_STATE,      /* persists between runs; written by copies at the end, or by steps that update it */
} RlxSlotKind;

/* A weight as a kernel wants it: rlx_lower_pack_weight(). */
typedef struct
{
  guint width;            /* 0: as it is */
  guint64 n_k, n_n;
  guint64 stride_k, stride_n;
} RlxPacking;

typedef struct
{
  RlxSlotKind kind;
  RlxTensorType type;     /* of the value that made the slot */
  RlxPacking packing;     /* weights */
  guint joined;           /* index + 1 of the slot of the same kind that it is a part of */
  guint64 part_offset;    /* in that slot */
  guint64 size;           /* bytes on the device, rounded up */
  const RlxIrNode *leaf;  /* inputs, weights and states: the node they come from */
  int first;              /* step that writes it first; -1: before the steps */
  int last;               /* last step that uses it; G_MAXINT: the end of the run */
  guint buffer;           /* index into RlxPlan.buffers */
  guint64 offset;
  gboolean updated;       /* states: steps write a part of it, for everybody who reads it */
  int shares;             /* slot whose memory it took over in place, -1 */
} RlxSlot;

/* A weight that a product would round to f16: n_k · n_n matrices, one after the
 * other in a slot. Of packed ones the slot has the blocks, or the scales. */
typedef struct
{
  guint slot;
  char *label;            /* of the product, for messages */
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
  RLX_BUFFER_CONSTANT,    /* one constant, or several that are joined: shared by all executables of a device */
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

/* Constants of fewer bytes lie together: a buffer for each costs more than a copy for
 * each executable. */
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

/* Words that are read back after each run, for the library itself. */
typedef struct
{
  guint slot;
  const RlxIrNode *node;  /* says what they mean */
} RlxPlanReport;

typedef struct
{
  GPtrArray *steps;       /* RlxStep, prologue first */
  guint n_prologue;
  GPtrArray *choices;     /* RlxChoice, each after the one that led to it */
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
  guint64 kept_bytes;     /* the same if what is computed again were kept; 0: nothing is */
  guint64 params_size;
  RlxIr *ir;              /* the graph after the passes; steps point into it */
} RlxPlan;

/* Lowers @ir (taken over in every case) for a target and places everything. */
RlxPlan *  rlx_plan_new   (RlxIr           *ir,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);
/* Runs the passes before. They and the lowering must see the same target: what one
 * decides the other relies on. */
RlxPlan *  rlx_plan_make  (const RlxIr     *ir,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);
void       rlx_plan_free  (RlxPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxPlan, rlx_plan_free)

/* Whether each fork has one of its own. */
static inline gboolean
rlx_plan_is_own_buffer (const RlxPlan *plan,
                        guint          index)
{
  RlxBufferKind kind = g_array_index (plan->buffers, RlxBuffer, index).kind;

  return kind == RLX_BUFFER_BANK || kind == RLX_BUFFER_STATE;
}

/* Bytes that each fork has of its own, or that all share. */
guint64    rlx_plan_buffer_bytes (const RlxPlan *plan,
                                  gboolean       own);

/* rlx-verify.c: whether memory is used by one at a time; a failure is a bug. Slow. */
gboolean   rlx_plan_verify (const RlxPlan *plan,
                            GError       **error);

/* rlx-describe.c: for programs, as rlx_executable_dup_plan(), and for people. @steps are
 * those of the plan that are run. */
GVariant * rlx_plan_to_variant (const RlxPlan *plan,
                                GPtrArray     *steps);
char *     rlx_plan_to_text    (const RlxPlan *plan,
                                GPtrArray     *steps);
/* Seconds a step may take: for people, and to cut submits before a driver's watchdog
 * does. */
double     rlx_plan_estimate_step (const RlxPlan   *plan,
                                   const RlxStep   *step,
                                   const RlxSpeeds *speeds);
/* The variants that were looked at for a step; NULL where there was nothing to choose. */
char *     rlx_plan_dup_choice (const RlxPlan *plan,
                                const RlxStep *step);

/* rlx-lower.c: fills steps, slots and ports. */
gboolean   rlx_lower_ir   (RlxPlan         *plan,
                           const RlxTarget *target,
                           GCancellable    *cancellable,
                           GError         **error);

/* rlx-source.c: the text and the bindings of a step, once slots are placed. @bodies, a
 * table of strings to strings, keeps what was expanded for other steps. */
gboolean   rlx_step_build_source (RlxPlan         *plan,
                                  RlxStep         *step,
                                  const RlxTarget *target,
                                  GHashTable      *bodies,
                                  GError         **error);

/* rlx-pack.c: what is uploaded for a slot, from a tensor's bytes. */
GBytes *   rlx_slot_pack       (const RlxSlot *slot, GBytes *bytes);
/* The same, into memory that is there already, of as many bytes as the slot has. */
void       rlx_slot_pack_to    (const RlxSlot *slot, GBytes *bytes, guint8 *to);
/* How many bytes of a tensor can be packed without the others, @wanted at most; 0 if none can, or if they would lie in
 * too many places for _runs(). */
gsize      rlx_slot_get_piece  (const RlxSlot *slot, gsize wanted, gboolean in_runs);
/* The @size bytes at @at of a tensor, a piece or what is left, into memory of all of the slot. */
void       rlx_slot_pack_piece (const RlxSlot *slot, const guint8 *from, gsize at, gsize size, guint8 *to);
/* The same; @func gets what lies together, and where in the slot that is. */
typedef gboolean (*RlxSlotRunFunc) (gpointer data, gsize at, const guint8 *bytes, gsize size, GError **error);
gboolean   rlx_slot_pack_runs  (const RlxSlot *slot, const guint8 *from, gsize at, gsize size, RlxSlotRunFunc func, gpointer data, GError **error);

/* rlx-f16-weights.c: whether products may round the matrices in @data to f16. When not,
 * *@reason (nullable) says why. */
gboolean   rlx_f16_weight_check  (const RlxF16Weight *weight, const float *data, gsize n_elements, char **reason);
/* The same for the weight of a slot, as it is uploaded. Says in the log when not. */
gboolean   rlx_f16_weight_decide (const RlxF16Weight *weight, GBytes *bytes);


G_END_DECLS
