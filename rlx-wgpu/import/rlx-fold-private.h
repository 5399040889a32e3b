/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "import/rlx-import-private.h"
#include "util/rlx-data-type-private.h"

G_BEGIN_DECLS

#define RLX_FOLD_MAX_INPUTS 64
#define RLX_FOLD_MAX_OUTPUTS 16

/* Elements on the host. */
typedef struct
{
  RlxDataType type;
  gboolean is_float;
  gboolean is_absent;
  gsize n_dims;
  gint64 shape[RLX_MAX_DIMS];
  gsize n;
  gint64 *ints;         /* either this or @floats is set */
  double *floats;
} RlxArray;

typedef enum
{
  RLX_FOLD_ADD,
  RLX_FOLD_SUB,
  RLX_FOLD_MUL,
  RLX_FOLD_DIV,
  RLX_FOLD_MOD,
  RLX_FOLD_POW,
  RLX_FOLD_MIN,
  RLX_FOLD_MAX,
  RLX_FOLD_AND,
  RLX_FOLD_OR,
  RLX_FOLD_XOR,
  RLX_FOLD_EQUAL,
  RLX_FOLD_LESS,
  RLX_FOLD_LESS_EQUAL,
  RLX_FOLD_GREATER,
  RLX_FOLD_GREATER_EQUAL,
  RLX_FOLD_NEG,
  RLX_FOLD_ABS,
  RLX_FOLD_SIGN,
  RLX_FOLD_NOT,
  RLX_FOLD_FLOOR,
  RLX_FOLD_CEIL,
  RLX_FOLD_ROUND,
  RLX_FOLD_SQRT,
  RLX_FOLD_EXP,
  RLX_FOLD_LOG,
  RLX_FOLD_RECIPROCAL,
} RlxFoldOp;

typedef struct
{
  RlxMapCall *call;
  RlxFoldOp op;
  RlxArray *inputs;
  gsize n_inputs;
  RlxArray *results;    /* room for RLX_FOLD_MAX_OUTPUTS… */
  guint n_results;      /* …of which there is one, unless the function says otherwise */
} RlxFoldCall;

/* FALSE if the call is left to the mapping, which also reports what is wrong with it. */
typedef gboolean (*RlxFoldFunc) (RlxFoldCall *fold,
                                 RlxArray    *result);

typedef struct
{
  const char *name;
  guint n_required;     /* required operands */
  guint n_operands;     /* and at most */
  RlxFoldFunc func;
  RlxFoldOp op;
} RlxFoldRow;

const RlxFoldRow *rlx_fold_find (const char *op);

gboolean rlx_array_init  (RlxArray     *array,
                          RlxDataType   type,
                          const gint64 *shape,
                          gsize         n_dims);
void     rlx_array_clear (RlxArray     *array);

static inline void
rlx_array_copy (RlxArray       *to,
                gsize           i,
                const RlxArray *from,
                gsize           j)
{
  if (to->is_float)
    to->floats[i] = from->floats[j];
  else
    to->ints[i] = from->ints[j];
}

gboolean rlx_fold_elements (RlxFoldCall *fold,
                            RlxArray    *result);
gboolean rlx_fold_where    (RlxFoldCall *fold,
                            RlxArray    *result);
gboolean rlx_fold_cast     (RlxFoldCall *fold,
                            RlxArray    *result);

G_END_DECLS
