/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How an operator says which others it is made of. They take its place before
 * the graph is simplified and fused, so they share in all of that.
 *
 *   RlxIrValue *
 *   rlx_NAME_expand (RlxExpand *expand, GError **error)
 *   {
 *     RlxIrValue *sum = rlx_expand_op (expand, "add", inputs, 2, NULL, error);
 *     return rlx_expand_op (expand, "relu", &sum, 1, NULL, error);
 *   }
 *
 * It returns what stands for the only result, of the same type, or NULL: with
 * an error set that is a failure, without one the node stays as it is.
 */
#pragma once

#include "ops/rlx-op-private.h"

G_BEGIN_DECLS

struct _RlxExpand
{
  RlxIr *ir;                   /* the new graph */
  const RlxIrNode *node;       /* in the old graph */
  RlxIrValue *const *inputs;   /* of the node, in the new graph; NULL for absent ones */
};

/* Adds a node of one result. An input that is NULL, because making it failed,
 * gives NULL; @attributes is a floating a{sv} or NULL and always consumed. */
RlxIrValue *rlx_expand_op        (RlxExpand          *expand,
                                  const char         *op,
                                  RlxIrValue *const  *inputs,
                                  guint               n_inputs,
                                  GVariant           *attributes,
                                  GError            **error);
/* With a list of integers as the only attribute. */
RlxIrValue *rlx_expand_ints      (RlxExpand          *expand,
                                  const char         *op,
                                  RlxIrValue         *input,
                                  const char         *attribute,
                                  const gint64       *values,
                                  guint               n_values,
                                  GError            **error);
RlxIrValue *rlx_expand_cast      (RlxExpand          *expand,
                                  RlxIrValue         *input,
                                  RlxDataType         dtype,
                                  GError            **error);
/* The same node in f32: its f16 inputs are converted, and so is the result.
 * NULL when it has no f16 inputs. */
RlxIrValue *rlx_expand_in_f32    (RlxExpand          *expand,
                                  GError            **error);

G_END_DECLS
