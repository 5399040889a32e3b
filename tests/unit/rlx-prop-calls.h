/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of every operator, with every data type it takes, on random shapes and
 * values, and graphs of them.
 *
 * Compiling kernels is what takes time: all calls are made for the first type
 * only, and a quarter of them for each of the others. RLX_TEST_FULL=1 makes all.
 */
#pragma once

#include "ir/rlx-op-private.h"
#include "rlx-prop-common.h"

G_BEGIN_DECLS

#define MAX_OPERANDS 9

typedef struct
{
  const RlxOp *op;
  RlxDataType data_type;   /* of the operand whose type can vary */
  GRand *rand;
  guint variant;           /* index of this call */

  RlxTensor *inputs[MAX_OPERANDS];
  PropKind kinds[MAX_OPERANDS];
  gsize n_inputs;
  guint constants;         /* a bit for each operand that is a constant of the graph */
  GVariantDict *attributes;
} Call;

/* Fills in operands and attributes; FALSE when there are no more variants. */
typedef gboolean (*Generator) (Call *call);

/* What makes the calls of an operator: a row in the table of its family. */
typedef struct
{
  const char *op;
  Generator generator;
} PropRow;

extern const PropRow prop_attention_rows[];
extern const PropRow prop_complex_rows[];
extern const PropRow prop_contract_rows[];
extern const PropRow prop_elementwise_rows[];
extern const PropRow prop_fourier_rows[];
extern const PropRow prop_index_rows[];
extern const PropRow prop_linear_rows[];
extern const PropRow prop_neighbours_rows[];
extern const PropRow prop_norms_rows[];
extern const PropRow prop_packed_rows[];
extern const PropRow prop_quantize_rows[];
extern const PropRow prop_recurrent_rows[];
extern const PropRow prop_rows_loss[];
extern const PropRow prop_rows_rows[];
extern const PropRow prop_sequence_rows[];
extern const PropRow prop_shape_rows[];
extern const PropRow prop_signal_rows[];
extern const PropRow prop_solve_rows[];
extern const PropRow prop_sort_rows[];
extern const PropRow prop_window_rows[];

/* For element-wise operators without a generator of their own. */
gboolean generate_elementwise (Call *call);
/* NULL for an operator that is in no table. */
Generator find_generator (const RlxOp *op);

/* ---- filling in calls ----------------------------------------------------------- */

void add_input (Call *call, PropKind kind, RlxDataType data_type, const gint64 *shape, gsize n_dims);
void skip_input (Call *call);
void set_ints (Call *call, const char *name, const gint64 *values, gsize n_values);
gsize random_shape (Call *call, gint64 *shape, gsize least, gsize most);
gint64 random_axis (Call *call, gsize n_dims);
gsize random_axes (Call *call, gsize n_dims, gint64 *axes);
void random_attributes (Call *call);
RlxDataType get_operand_type (const Call *call, guint index);
gsize rows_shape (Call *call, gint64 *shape);
gsize random_part (Call *call, const gint64 *shape, gsize n_dims, gint64 *part);

/* The sizes of an m × k by k × n product. */
typedef struct
{
  gint64 m, k, n;
} Sizes;

Sizes product_sizes (Call *call);

/* ---- graphs of calls ------------------------------------------------------------- */

typedef struct
{
  RlxGraph *graph;
  GPtrArray *feeds;    /* RlxTensor */
  GPtrArray *texts;    /* descriptions of the outputs */
  GArray *kinds;       /* PropKind of each of the feeds; nullable */
  GArray *keep;        /* for each output, whether subnormals are preserved; nullable */
} Build;

gboolean keeps_subnormals (const RlxOp *op, GVariant *attributes);
gboolean add_call (Build *build, Call *call);
guint get_types (const RlxOp *op);
gboolean is_drawn (const RlxOp *op, RlxDataType data_type, guint variant);
/* Adds a call of an operator with a data type to a graph; FALSE when there are no more. */
gboolean add_next_call (Build *build, const RlxOp *op, Generator generator, RlxDataType data_type, guint variant, GRand *rand);
/* Adds all of them. */
void add_calls (Build *build, const RlxOp *op, Generator generator, RlxDataType data_type, GRand *rand);

G_END_DECLS
