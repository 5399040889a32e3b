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
#include "util/rlx-template-private.h"

G_BEGIN_DECLS

/* A piece of device memory that one or more values stand for. */
typedef enum
{
  RLX_SLOT_ACTIVATION, /* lives within one run (or within the prologue) */
  RLX_SLOT_INPUT,      /* uploaded at the start of a run */
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
  guint joined;           /* weights: index + 1 of the slot it is a part of */
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

typedef struct
{
  char *name;
  RlxDataType dtype;      /* on the device */
  gboolean raw;
  gboolean atomic;        /* output of words that invocations share */
  guint width;            /* elements of a vector the kernel loads at once: 1, 2 or 4 */
  gboolean is_output;
  guint slot;
  guint64 n_elements;
  int in_place;           /* inputs: argument that may take over the memory, -1 */
  gboolean merged;        /* input: the planner let the output take it over */
} RlxArg;

typedef enum { RLX_PARAM_U32, RLX_PARAM_I32, RLX_PARAM_F32 } RlxParamKind;

typedef struct
{
  char *name;
  RlxParamKind kind;
  guint32 bits;
} RlxParam;

/* A weight that a product would round to f16: n_k · n_n matrices, one after the
 * other in a slot. */
typedef struct
{
  guint slot;
  char *label;            /* of the product, for messages */
  guint64 n_k, n_n;
  guint64 stride_k, stride_n;
} RlxNarrow;

/* One dispatch. */
typedef struct
{
  char *op;               /* operator's name, for people */
  char *label;            /* node's name or number, for messages */
  char *file;             /* kernel file, or NULL when body is generated */
  char *body;             /* generated WGSL, expanded like a file */
  char *kernel;           /* what the plan and the profile call it */
  RlxTemplate *template;
  guint workgroup_size;
  GArray *args;           /* RlxArg */
  GArray *params;         /* RlxParam */
  guint32 grid[3];
  gboolean prologue;
  guint narrow;           /* index + 1 of the weight that decides whether it runs, 0: it always does */
  gboolean if_narrow;     /* when f16 holds that weight well, else when it does not */
  char *enables;          /* nullable: directives in front of the WGSL */
  double flops;
  double bytes;
  char *wgsl;             /* by rlx_step_build_source */
  GArray *bindings;       /* RlxStepBinding, in order */
  guint64 param_offset;   /* in the parameter buffer */
} RlxStep;

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
  RLX_BUFFER_FOLDED,      /* shared by forks */
  RLX_BUFFER_STATE,       /* one set per executable */
} RlxBufferKind;

typedef struct
{
  RlxBufferKind kind;
  guint64 size;
} RlxBuffer;

typedef struct
{
  char *name;
  guint slot;
  RlxTensorType type;
} RlxPort;

typedef struct
{
  guint source;
  guint target;
} RlxSlotCopy;

typedef struct
{
  GPtrArray *steps;       /* RlxStep, prologue first */
  guint n_prologue;
  GArray *slots;          /* RlxSlot */
  GArray *buffers;        /* RlxBuffer */
  GArray *inputs;         /* RlxPort, in the order of the graph */
  GArray *parameters;     /* RlxPort */
  GArray *states;         /* RlxPort */
  GArray *outputs;        /* RlxPort */
  GArray *copies;         /* RlxSlotCopy: state assignments */
  GArray *narrows;        /* RlxNarrow: parameters that steps depend on */
  guint64 live_bytes;     /* most activation bytes alive at once: no plan needs less */
  guint64 params_size;
  RlxIr *ir;              /* the graph after the passes; steps point into it */
} RlxPlan;

/* Lowers @ir (taken over in every case) for an adapter and places everything. */
RlxPlan *  rlx_plan_new   (RlxIr                   *ir,
                           const RlxGpuAdapterInfo *adapter,
                           GCancellable            *cancellable,
                           GError                 **error);
void       rlx_plan_free  (RlxPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxPlan, rlx_plan_free)

/* rlx-verify.c: whether memory is used by one at a time; a failure is a bug. Slow. */
gboolean   rlx_plan_verify (const RlxPlan *plan,
                            GError       **error);

/* rlx-lower.c: fills steps, slots and ports. */
gboolean   rlx_lower_ir   (RlxPlan                 *plan,
                           const RlxGpuAdapterInfo *adapter,
                           GCancellable            *cancellable,
                           GError                 **error);

/* rlx-source.c: the text and the bindings of a step, once slots are placed. @bodies, a
 * table of strings to strings, keeps what was expanded for other steps. */
gboolean   rlx_step_build_source (RlxPlan                 *plan,
                                  RlxStep                 *step,
                                  const RlxGpuAdapterInfo *adapter,
                                  GHashTable              *bodies,
                                  GError                 **error);
void       rlx_step_free  (RlxStep *step);
/* The storage bindings an argument of that many bytes takes. */
guint      rlx_n_segments (guint64 size, const RlxGpuAdapterInfo *adapter);

/* Bytes a value takes on the device, rounded to what a binding needs. */
guint64    rlx_type_device_size (const RlxTensorType *type);

/* What is uploaded for a slot, from a tensor's bytes. */
GBytes *   rlx_slot_pack       (const RlxSlot *slot, GBytes *bytes);
/* The same, into memory that is there already, of as many bytes as the slot has. */
void       rlx_slot_pack_to    (const RlxSlot *slot, GBytes *bytes, guint8 *to);

/* rlx-narrow.c: whether products may round the matrices in @data to f16. When not,
 * *@reason (nullable) says why. */
gboolean   rlx_narrow_check    (const RlxNarrow *narrow, const float *data, gsize n_elements, char **reason);
/* The same for the weight of a slot, as it is uploaded. Says in the log when not. */
gboolean   rlx_narrow_decide   (const RlxNarrow *narrow, GBytes *bytes);

/* The slot a value stands for, for the kernel builder. */
guint      rlx_lower_get_slot  (RlxLower *lower, const RlxIrValue *value);
void       rlx_lower_add_step  (RlxLower *lower, RlxStep *step);
/* An element that can be written into the parameters instead of a binding:
 * constants of one element. */
gboolean   rlx_value_get_immediate (const RlxIrValue *value, double *number, gint64 *integer);

G_END_DECLS
