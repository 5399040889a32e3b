/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The result of the kernel builder: one dispatch. The plan places it, and creates its WGSL
 * and its bindings.
 */
#pragma once

#include "ops/rlx-kernel-private.h"
#include "util/rlx-template-private.h"

G_BEGIN_DECLS

typedef struct
{
  char *name;
  RlxDataType data_type;      /* on the device */
  gboolean raw;
  gboolean atomic;        /* output whose words are shared by invocations */
  guint width;            /* elements per vector that the kernel loads: 1, 2 or 4 */
  gboolean is_output;
  guint slot;
  guint64 n_elements;
  int in_place;           /* inputs: argument that may reuse the memory, or -1 */
  gboolean merged;        /* input: the planner lets the output reuse its memory */
} RlxArg;

typedef enum { RLX_PARAM_U32, RLX_PARAM_I32, RLX_PARAM_F32 } RlxParamKind;

typedef struct
{
  char *name;
  RlxParamKind kind;
  guint32 bits;
} RlxParam;

/* One dispatch. */
typedef struct
{
  char *op;               /* operator's name, for display */
  char *label;            /* node's name or number, for messages */
  char *file;             /* kernel file, or NULL when body is generated */
  char *body;             /* generated WGSL, expanded like a file */
  char *kernel;           /* its name in plans and profiles */
  RlxTemplate *template;
  guint workgroup_size;
  guint subgroup_size;    /* requested from the driver; 0: none */
  GArray *args;           /* RlxArg */
  GArray *params;         /* RlxParam */
  guint32 grid[3];
  gboolean prologue;
  guint f16_weight;       /* index + 1 of the weight that decides whether the step runs; 0: it always does */
  gboolean if_f16;        /* TRUE: runs if f16 represents that weight well; FALSE: if it does not */
  guint choice;           /* index + 1 of the choice of a variant that created it, or 0 */
  char *enables;          /* nullable: directives in front of the WGSL */
  double flops;
  double bytes;
  char *wgsl;             /* set by rlx_step_build_source() */
  GArray *bindings;       /* RlxStepBinding, in order */
  guint64 param_offset;   /* in the parameter buffer */
} RlxStep;

void       rlx_step_free       (RlxStep *step);

/* plan/rlx-lower.c: the slot of a value. */
guint      rlx_lower_get_slot  (RlxLower *lower, const RlxIrValue *value);
void       rlx_lower_add_step  (RlxLower *lower, RlxStep *step);

G_END_DECLS
