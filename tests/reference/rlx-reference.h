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
  /* Round f16 values to the range of the type after each operator; otherwise rounding
   * only affects their bounds. */
  RLX_REFERENCE_ROUND_F16 = 1 << 0,
  /* Let products round their operands to f16: affects only their bounds. */
  RLX_REFERENCE_NARROW    = 1 << 1,
  /* And let those with packed weights quantise the other operand to bytes. */
  RLX_REFERENCE_BYTES     = 1 << 4,
  /* The treatment of subnormal f32 numbers is unknown, except with these: operands and
   * results preserve them, or operands are flushed. */
  RLX_REFERENCE_KEEP      = 1 << 2,
  RLX_REFERENCE_FLUSH     = 1 << 3,
} RlxReferenceFlags;

typedef struct
{
  RlxDataType data_type;
  gsize n_dims;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_elements;
  double *values;   /* exact for integers and booleans (0, 1) */
  double *bounds;   /* 0: must be equal; INFINITY: nothing is known */
  gboolean stored;  /* in memory: no fused kernel has it with higher precision */
  gboolean leaf;    /* an input: zeros have a known sign, and a compiler cannot cancel it */
} RlxReferenceValue;

/* The result of comparing a tensor with the expected value. */
typedef struct
{
  gsize n_wrong;
  gsize first_wrong;
  double expected;      /* of the first wrong element, or else the worst one */
  double got;
  double bound;
  double max_error;     /* over elements whose bound is finite */
  double max_bound;
  double max_ratio;     /* ratio of error to bound */
  gsize n_unknown;      /* elements whose bound is infinite: not checked */
} RlxReferenceCheck;

/* Whether the operator is known. */
gboolean            rlx_reference_has_op       (const char              *op);

/* The outputs of @graph, in order, as RlxReferenceValue. States have their initial value. Parameters
 * are given by name. NULL with an error if an operator is unknown or an input does not fit. */
GPtrArray *         rlx_reference_run          (RlxGraph                *graph,
                                                RlxTensor *const        *inputs,
                                                gsize                    n_inputs,
                                                const char *const       *parameter_names,
                                                RlxTensor *const        *parameters,
                                                gsize                    n_parameters,
                                                RlxReferenceFlags        flags,
                                                GError                 **error);

/* The same one node at a time: for a graph under construction, and for repeated runs with
 * states. The value of a leaf is that of @tensor; the value of a result is computed from
 * those of its operands, NULL for an omitted one. NULL with an error. */
RlxReferenceValue * rlx_reference_value_new_leaf   (RlxNode                        *leaf,
                                                    RlxTensor                      *tensor,
                                                    GError                        **error);
RlxReferenceValue * rlx_reference_value_new_result (RlxNode                        *result,
                                                    const RlxReferenceValue *const *inputs,
                                                    RlxReferenceFlags               flags,
                                                    GError                        **error);
/* The new value of a state that @self was assigned to. */
RlxReferenceValue * rlx_reference_value_new_state  (const RlxReferenceValue        *self);

/* Whether all elements of @tensor are within the bounds: NaN where it is expected, the same
 * infinities. Also FALSE if type or shape differ (then n_wrong is the number of elements). */
gboolean            rlx_reference_value_check  (const RlxReferenceValue *self,
                                                RlxTensor               *tensor,
                                                RlxReferenceCheck       *check);
/* Takes the elements of @other for which @tensor is within the bounds, where it is not
 * within those of @self. */
void                rlx_reference_value_relent (RlxReferenceValue       *self,
                                                const RlxReferenceValue *other,
                                                RlxTensor               *tensor);
void                rlx_reference_value_free   (gpointer                 value);

/* The elements of @tensor. */
double *            rlx_reference_decode       (RlxTensor               *tensor,
                                                gsize                   *n_elements);

G_END_DECLS
