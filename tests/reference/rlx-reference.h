/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An interpreter of graphs that shares nothing with the library but its public
 * API: every value is computed in double precision by the plainest loop there
 * is. Beside each value it carries a bound for how far the device may be away
 * from it, from the bounds the operators state and from what errors of the
 * operands do to the result.
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

G_BEGIN_DECLS

typedef enum
{
  RLX_REFERENCE_NONE      = 0,
  /* Round f16 values to what the type can hold after each operator; otherwise
   * only their bounds know of the rounding. */
  RLX_REFERENCE_ROUND_F16 = 1 << 0,
  /* Let products round their operands to f16: only their bounds know of it. */
  RLX_REFERENCE_NARROW    = 1 << 1,
} RlxReferenceFlags;

typedef struct
{
  RlxDataType data_type;
  gsize n_dims;
  gint64 shape[RLX_MAX_RANK];
  gsize n_elements;
  double *values;   /* integers and booleans (0, 1) exactly */
  double *bounds;   /* 0: must be the same; INFINITY: nothing is known */
} RlxReferenceValue;

/* How a tensor compares with what it should be. */
typedef struct
{
  gsize n_wrong;
  gsize first_wrong;
  double expected;      /* of the first wrong element, or else the worst one */
  double got;
  double bound;
  double max_error;     /* over elements whose bound is finite */
  double max_bound;
  double max_ratio;     /* of error to bound */
  gsize n_unknown;      /* elements whose bound is infinite: not checked */
} RlxReferenceCheck;

/* Whether the operator is known. */
gboolean            rlx_reference_has_op       (const char              *op);

/* The outputs of @graph, in their order, as RlxReferenceValue. States have
 * their initial value. Parameters are given by name. NULL with an error when an
 * operator is unknown or an input does not fit. */
GPtrArray *         rlx_reference_run          (RlxGraph                *graph,
                                                RlxTensor *const        *inputs,
                                                gsize                    n_inputs,
                                                const char *const       *parameter_names,
                                                RlxTensor *const        *parameters,
                                                gsize                    n_parameters,
                                                RlxReferenceFlags        flags,
                                                GError                 **error);

/* Whether all elements of @tensor are within the bounds: NaN where there should
 * be one, the same infinities. FALSE also when type or shape differ (then
 * n_wrong is the number of elements). */
gboolean            rlx_reference_value_check  (const RlxReferenceValue *self,
                                                RlxTensor               *tensor,
                                                RlxReferenceCheck       *check);
void                rlx_reference_value_free   (gpointer                 value);

/* The elements of @tensor. */
double *            rlx_reference_decode       (RlxTensor               *tensor,
                                                gsize                   *n_elements);

G_END_DECLS
