/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How an operator's lowering describes a dispatch.
 *
 *   RlxKernel *k = rlx_kernel_new (lower, node, "softmax");   // kernels/softmax.wgsl
 *   rlx_kernel_input (k, "x", node->inputs[0]);
 *   rlx_kernel_output (k, "y", &node->outputs[0]);
 *   rlx_kernel_param_u32 (k, "cols", cols);
 *   rlx_kernel_define (k, "LOG", 1);
 *   return rlx_kernel_dispatch (k, n_rows, error);
 *
 * The kernel file sees
 *   - load_x (i: u32) -> type_x and store_y (i: u32, v: type_y) for each input
 *     and output: i counts elements of the tensor in row-major order, whatever
 *     the storage (packed bytes, native or packed f16, tensors above the
 *     binding limit in several bindings). type_NAME is f32 for floats, i32 or
 *     u32 for integers, bool for bool. A raw input or output has type u32: the
 *     element's bits, untouched.
 *   - outputs can be read back within the dispatch with load_y as well;
 *   - p.NAME for each parameter;
 *   - workgroup_index (wid: vec3<u32>) -> u32, the linear index of the
 *     workgroup: the grid is folded, so a kernel must do nothing if the index
 *     is not below n_workgroups;
 *   - $(NAME) for each define, also NAME in #if; WG is always defined: the
 *     workgroup size to use in @workgroup_size($(WG)) (default 64).
 * and must have the entry point `main`. Shapes go into parameters, not
 * defines, so that nodes of the same kind share a pipeline.
 *
 * A vector input (of floats) is loaded two or four elements at a time:
 * load2_x (i) or load4_x (i) -> vector of f32, where i counts whole vectors from
 * the tensor's start. The last vector may reach beyond the tensor's end. A vector
 * output is stored four elements at a time: store4_y (i, v).
 *
 * Any invocation may store to an 8-bit or packed 16-bit output, in any order: the
 * store uses atomics on the word. Two invocations must not store to the same
 * element.
 *
 * If a kernel has several outputs with elements of less than a word, stores to them must
 * be nested in at most one condition, without && or ||: one driver lost 16-bit stores
 * that were nested deeper. So turn conditions into numbers first, and store last: put_if ()
 * in kernels/common/product.wgsl does that.
 *
 * An atomic output is for elements that invocations do share: they are u32 (the
 * value has 32-bit elements), and besides load_NAME and store_NAME there are
 * atomic_add_NAME and atomic_max_NAME (i: u32, v: u32) -> u32, which return the
 * previous value.
 */
#pragma once

#include "rlx-op-vocabulary-private.h"
#include "gpu/rlx-gpu-private.h"

G_BEGIN_DECLS

typedef struct _RlxKernel RlxKernel;

/* The facts by which a lowering may choose a variant. */
const RlxTarget *rlx_lower_get_target (RlxLower *lower);

/* The precision of products in the steps being created. */
RlxPrecision rlx_lower_get_precision (RlxLower *lower);

/* A temporary value between two steps of one lowering. */
RlxIrValue *rlx_lower_temporary (RlxLower            *lower,
                                 const RlxTensorType *type);
/* Data that a lowering needs besides its operands, uploaded once; the same tensor
 * always returns the same value. */
const RlxIrValue *rlx_lower_constant (RlxLower  *lower,
                                      RlxTensor *tensor);
/* Makes @view an alias of the memory of @base, element by element in row-major order;
 * no step is created. */
void        rlx_lower_alias     (RlxLower         *lower,
                                 const RlxIrValue *view,
                                 const RlxIrValue *base);

/* Places @value, which is assigned to the state @state, in the state's own memory, so
 * that steps only write what changes. FALSE if something else needs the old state; it
 * must then be copied. */
gboolean    rlx_lower_update_state (RlxLower         *lower,
                                    const RlxIrValue *state,
                                    const RlxIrValue *value);

/* The same for a value that is assigned to a state, if it is known that nothing needs the old state. Returns the state. */
const RlxIrValue *rlx_lower_take_state (RlxLower         *lower,
                                        const RlxIrValue *value);

/* Whether values, which are all states or all computed, can be stored contiguously: no step may write to one and read
 * another, and none can be in two places. @joinable tells for each group of @n_roles values whether it still can; value
 * r of group g is at g · @n_roles + r, and those of one role are joined. */
void              rlx_lower_find_joinable (RlxLower                *lower,
                                           const RlxIrValue *const *values,
                                           guint                    n_roles,
                                           guint                    n_groups,
                                           gboolean                *joinable);
/* Stores the values contiguously. Returns all of them as one value, with gaps between them. */
const RlxIrValue *rlx_lower_join_values   (RlxLower                *lower,
                                           const RlxIrValue *const *values,
                                           guint                    n_values);
/* The size of each joined value, in bytes. */
guint64           rlx_lower_get_joined_size (RlxLower         *lower,
                                             const RlxIrValue *value);

/* Lets the weight @value, whose element (k, n) is at k · @stride_k + n · @stride_n, be
 * stored on the device as [n / @width][k][@width] instead, padded with zeros. FALSE if
 * it is not a weight, or if something else also uses it. */
gboolean    rlx_lower_pack_weight (RlxLower         *lower,
                                   const RlxIrValue *value,
                                   guint64           n_k,
                                   guint64           n_n,
                                   guint64           stride_k,
                                   guint64           stride_n,
                                   guint             width);

/* Whether rlx_lower_pack_weight() would succeed. */
gboolean    rlx_lower_can_pack_weight (RlxLower         *lower,
                                       const RlxIrValue *value,
                                       guint64           n_k,
                                       guint64           n_n,
                                       guint             width);

/* The same for several weights as one, the columns of the second after those of the
 * first, and so on. @n_n has the columns of each. Check first whether it is possible. */
gboolean          rlx_lower_can_join_weights (RlxLower                *lower,
                                              const RlxIrValue *const *values,
                                              guint                    n_values,
                                              guint64                  n_k,
                                              const guint64           *n_n,
                                              guint                    width);
const RlxIrValue *rlx_lower_join_weights     (RlxLower                *lower,
                                              const RlxIrValue *const *values,
                                              guint                    n_values,
                                              guint64                  n_k,
                                              const guint64           *n_n,
                                              gboolean                 columns_first,
                                              guint                    width);

/* Whether a value is a constant or a parameter in its original layout. */
gboolean    rlx_lower_is_weight     (RlxLower *lower, const RlxIrValue *value);
/* Whether f16 holds such a weight of f32 well enough for products, @n_k · @n_n matrices
 * as for rlx_lower_pack_weight(). A constant is examined here. For a parameter, whose
 * values come later, *@condition is not 0 and represents the answer: create steps for
 * both. */
gboolean    rlx_lower_can_cast_f16  (RlxLower         *lower,
                                     const RlxIrNode  *node,
                                     const RlxIrValue *value,
                                     guint64           n_k,
                                     guint64           n_n,
                                     guint64           stride_k,
                                     guint64           stride_n,
                                     guint            *condition);
/* The same for the range of packed numbers of that type: @value has their blocks, or their scales where these are elsewhere. */
gboolean    rlx_lower_can_unpack_f16 (RlxLower         *lower,
                                      const RlxIrNode  *node,
                                      const RlxIrValue *value,
                                      RlxPackedType     type,
                                      guint            *condition);
/* Steps from here on run only if the answer is @if_f16; a @condition of 0 ends that. */
void        rlx_lower_set_condition (RlxLower *lower, guint condition, gboolean if_f16);

RlxKernel * rlx_kernel_new        (RlxLower        *lower,
                                   const RlxIrNode *node,
                                   const char      *file);
void        rlx_kernel_input      (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_input_vector (RlxKernel *self, const char *name, const RlxIrValue *value, guint width);
void        rlx_kernel_output     (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_output_vector (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_input_raw  (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_output_raw (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_output_atomic (RlxKernel *self, const char *name, const RlxIrValue *value);
void        rlx_kernel_param_u32  (RlxKernel *self, const char *name, guint64 value); /* < 2^32 */
/* The same for one of several: “prefix0”, “prefix1”… */
void        rlx_kernel_param_u32_at (RlxKernel *self, const char *prefix, guint index, guint64 value);
/* The same of a divisor, with what op_quotient() needs to divide by it: “prefixm0” and “prefixl0”. */
void        rlx_kernel_param_divisor (RlxKernel *self, const char *prefix, guint index, guint64 value);
void        rlx_kernel_param_i32  (RlxKernel *self, const char *name, gint64 value);
void        rlx_kernel_param_f32  (RlxKernel *self, const char *name, double value);
void        rlx_kernel_define     (RlxKernel *self, const char *name, gint64 value);
void        rlx_kernel_define_text (RlxKernel *self, const char *name, const char *text);
/* A directive that the kernel needs, such as "enable f16;". */
void        rlx_kernel_enable     (RlxKernel *self, const char *directive);
/* Requests subgroups of @size from the driver; 0: any size. The entry point has
 * @compute @workgroup_size($(WG))${SUBGROUP_SIZE}. */
void        rlx_kernel_set_subgroup_size (RlxKernel *self, guint size);
/* For the profile, and for splitting submits. */
void        rlx_kernel_set_cost   (RlxKernel *self, double flops, double bytes);
/* Declares that input @input may share memory with output @output if it is not used
 * afterwards: each invocation reads the elements that it writes, before writing them. */
void        rlx_kernel_allow_in_place (RlxKernel *self, const char *input, const char *output);
/* Declares the same for an input that is already in the memory of an output; does nothing for others. */
void        rlx_kernel_merge          (RlxKernel *self, const char *input);

/* Discards a description. */
void        rlx_kernel_free        (RlxKernel *self);
/* Ends the description and takes ownership of @self. @n_workgroups may be 0 (no step is
 * created) and above 65,535. */
gboolean    rlx_kernel_dispatch    (RlxKernel *self, guint64 n_workgroups, GError **error);

G_END_DECLS
