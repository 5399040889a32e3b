/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The kernels that are available for an operator, and the one place where one of them is
 * chosen.
 *
 * A family of operators has a table of variants, rlx_NAME_variants, which the rows of the op
 * table refer to. A lowering computes the problem, a struct of plain numbers on which the
 * whole choice is based, and calls rlx_lower_choose(). That takes the cheapest of the
 * variants that fit well and are not banned; if none fits well, the cheapest of those that
 * fit at all. Ties go to the earlier row, and the last row fits every problem of the table. A
 * cost is an estimate, multiplied by the error that calibration has measured for it.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

typedef enum
{
  RLX_FIT_NO,       /* the result would be wrong, or the device cannot run it */
  RLX_FIT_POORLY,   /* correct, but others are known to be faster */
  RLX_FIT_WELL,
} RlxFit;

/* The layout of a weight on the device, which executables that share it must agree on. */
typedef enum
{
  RLX_WEIGHT_AS_GIVEN,
  RLX_WEIGHT_IN_PANELS,   /* see rlx_lower_pack_weight() */
} RlxWeightOrder;

typedef struct
{
  RlxWeightOrder order;
  guint width;            /* columns of a panel */
} RlxWeightLayout;

typedef struct _RlxVariant RlxVariant;

struct _RlxVariant
{
  const char *name;
  /* Unless it returns RLX_FIT_WELL, sets *@why to a clause that explains why. */
  RlxFit (*fits) (const RlxVariant *self,
                  const RlxTarget  *target,
                  gconstpointer     problem,
                  const char      **why);
  /* The estimated time in seconds. */
  double (*cost) (const RlxVariant *self,
                  const RlxTarget  *target,
                  gconstpointer     problem);
  /* The layout that it needs for its weight; NULL: always the original one. */
  RlxWeightLayout (*layout) (const RlxVariant *self,
                             const RlxTarget  *target,
                             gconstpointer     problem);
  /* Creates the steps. */
  gboolean (*describe) (const RlxVariant *self,
                        RlxLower         *lower,
                        const RlxIrNode  *node,
                        gconstpointer     problem,
                        GError          **error);
  gconstpointer data;   /* distinguishes rows with the same functions */
};

/* A graph of one operator, in the text form. Calibration measures it, and a test
 * computes it with every variant. */
typedef struct
{
  const char *text;
  guint most;           /* the largest number in the first operand; those of the others are small */
} RlxSample;

#define RLX_SAMPLE_INPUT(n, type) "%" #n " = input \"x" #n "\" " type "\n"
#define RLX_SAMPLE_WEIGHT(n, type) "%" #n " = parameter \"x" #n "\" " type "\n"
#define RLX_SAMPLE_OUTPUT(n) "output \"y" #n "\" %" #n "\n"

struct _RlxVariants
{
  RlxFamily family;     /* the family of its bans */
  const char *name;
  const RlxVariant *variants;
  guint n_variants;
  /* A line with everything that the speed depends on, for display. */
  char * (*print) (gconstpointer problem);
  const RlxSample *samples;   /* together they fit every variant; the last has no text */
};

/* The table of a family. */
const RlxVariants *rlx_variants_get (RlxFamily family);

/* Smaller differences are insignificant. */
#define RLX_CLEARLY 1.03

/* The verdict on a variant. */
typedef struct
{
  RlxFit fit;
  const char *why;
  gboolean banned;
  double cost;          /* of a variant that fits */
  RlxWeightLayout layout;
} RlxVerdict;

/* A choice, with the alternatives. */
typedef struct
{
  const RlxVariants *table;
  const RlxIrNode *node;
  char *key;            /* the family and the problem */
  int row;
  gboolean once;        /* for a step of the prologue */
  guint parent;         /* index + 1 of the choice that led to this one, or 0 */
  RlxVerdict verdicts[RLX_MAX_VARIANTS];
} RlxChoice;

/* The chosen row, or -1 if none fits. @tuned is the one that was measured to be the
 * fastest, or -1. @verdicts, one for each row, is nullable. */
int      rlx_variants_pick  (const RlxVariants *self,
                             const RlxTarget   *target,
                             gconstpointer      problem,
                             int                tuned,
                             RlxVerdict        *verdicts);

/* Chooses one and lets it create the steps, which remember the alternatives. */
gboolean rlx_lower_choose   (RlxLower          *lower,
                             const RlxIrNode   *node,
                             const RlxVariants *table,
                             gconstpointer      problem,
                             GError           **error);

void     rlx_choice_free    (RlxChoice *self);
/* For display: the problem, then a line for each variant. */
void     rlx_choice_append_text (const RlxChoice *self,
                                 GString         *text);

/* plan/rlx-lower.c: takes ownership of @choice and assigns it to the steps being created,
 * until it is ended. Returns the argument for rlx_lower_end_choice(). */
guint    rlx_lower_begin_choice (RlxLower  *lower,
                                 RlxChoice *choice);
void     rlx_lower_end_choice   (RlxLower  *lower,
                                 guint      before);

/* For fits(): sets the reason. */
static inline RlxFit
rlx_variant_cannot (const char  *reason,
                    const char **why)
{
  *why = reason;
  return RLX_FIT_NO;
}

static inline RlxFit
rlx_variant_poorly (const char  *reason,
                    const char **why)
{
  *why = reason;
  return RLX_FIT_POORLY;
}

/* For layout(): 0 columns mean no panels. */
static inline RlxWeightLayout
rlx_weight_in_panels (guint width)
{
  return (RlxWeightLayout) { width > 0 ? RLX_WEIGHT_IN_PANELS : RLX_WEIGHT_AS_GIVEN, width };
}

/* The time of some work in seconds, at the speeds of the device. */
static inline double
rlx_target_get_seconds (const RlxTarget *target,
                        double           operations,
                        double           bytes)
{
  return MAX (operations / target->speeds.flops, bytes / target->speeds.bandwidth);
}

G_END_DECLS
