/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The kernels that there are for an operator, and the one place where one of them is
 * chosen.
 *
 * A family of operators has a table of variants, rlx_NAME_variants, which the rows of
 * the op table name. A lowering computes the problem, a struct of plain numbers that
 * everything about the choice is read from, and calls rlx_lower_choose(). That takes,
 * of the variants that fit well and are not banned, the one of the least cost; where
 * none fits well, of those that fit at all. Ties go to the earlier row, and the last
 * row fits everything that the table is for.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

typedef enum
{
  RLX_FIT_NO,       /* it would be wrong, or the device cannot */
  RLX_FIT_POORLY,   /* right, but others are known to be faster */
  RLX_FIT_WELL,
} RlxFit;

/* How a weight lies on the device: what executables that share it have to agree on. */
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
  /* Where the answer is not RLX_FIT_WELL, *@why is set: a clause for people. */
  RlxFit (*fits) (const RlxVariant *self,
                  const RlxTarget  *target,
                  gconstpointer     problem,
                  const char      **why);
  /* Seconds, by estimate. */
  double (*cost) (const RlxVariant *self,
                  const RlxTarget  *target,
                  gconstpointer     problem);
  /* How it wants its weight to lie; NULL: always as it is given. */
  RlxWeightLayout (*layout) (const RlxVariant *self,
                             const RlxTarget  *target,
                             gconstpointer     problem);
  /* Makes the steps. */
  gboolean (*describe) (const RlxVariant *self,
                        RlxLower         *lower,
                        const RlxIrNode  *node,
                        gconstpointer     problem,
                        GError          **error);
  gconstpointer data;   /* what rows with the same functions differ in */
};

struct _RlxVariants
{
  RlxFamily family;     /* whose bans these are */
  const char *name;
  const RlxVariant *variants;
  guint n_variants;
  char * (*print) (gconstpointer problem);   /* for people, in one line */
  /* NULL, or the variant that was measured to be the fastest for the problem; -1: not
   * measured. */
  int (*tuned) (const RlxTarget *target, gconstpointer problem);
};

/* Less of a difference says nothing. */
#define RLX_CLEARLY 1.03

/* What became of a variant. */
typedef struct
{
  RlxFit fit;
  const char *why;
  gboolean banned;
  double cost;          /* of one that fits */
  RlxWeightLayout layout;
} RlxVerdict;

/* The row that is taken, or -1 when none fits. @verdicts, one for each row, is nullable. */
int      rlx_variants_pick (const RlxVariants *self,
                            const RlxTarget   *target,
                            gconstpointer      problem,
                            RlxVerdict        *verdicts);

/* Picks one and lets it make the steps, which remember what else there was. */
gboolean rlx_lower_choose  (RlxLower          *lower,
                            const RlxIrNode   *node,
                            const RlxVariants *table,
                            gconstpointer      problem,
                            GError           **error);

/* plan/rlx-lower.c: what is known of the choice that led to the steps being made. */
GString *rlx_lower_get_choice (RlxLower *lower);

/* For fits(): says why. */
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

/* For layout(): 0 columns are no panels. */
static inline RlxWeightLayout
rlx_weight_in_panels (guint width)
{
  return (RlxWeightLayout) { width > 0 ? RLX_WEIGHT_IN_PANELS : RLX_WEIGHT_AS_GIVEN, width };
}

/* Seconds of work at the rates that the device reaches. */
static inline double
rlx_target_get_seconds (const RlxTarget *target,
                        double           operations,
                        double           bytes)
{
  return MAX (operations / target->speeds.flops, bytes / target->speeds.bandwidth);
}

G_END_DECLS
