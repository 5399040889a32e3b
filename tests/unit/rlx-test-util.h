/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What tests that compute on a device have in common. Types and lists of types
 * are text: "f32[2,3]", "f16[4] i32[]".
 *
 *   if (rlx_test_device () == NULL)
 *     return;
 *   x = rlx_test_random ("f32[8,100]", -1, 1, 7);
 *   y = rlx_test_run_op ("softmax", 1, &x, g_variant_new_parsed ("{'axis': <int64 -1>}"));
 *   rlx_test_compare ("softmax", y, "f32[8,100]", expected, 1e-7, 2e-6);
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

#include "target/rlx-target-private.h"

G_BEGIN_DECLS

/* The device of this process. Without an adapter the test fails, or is skipped
 * when RLX_TEST_SKIP_NO_ADAPTER=1 is set, and NULL is returned. */
RlxDevice * rlx_test_device       (void);

/* The same device as the compiler sees it. */
const RlxTarget *rlx_test_target  (void);
/* Whether tensors above a megabyte need several bindings, as with RLX_DEBUG=target=small. */
gboolean    rlx_test_has_small_bindings (void);

/* Whether to try all cases: repeated runs under RLX_DEBUG or with sanitizers may take samples, except in the suite slow. */
gboolean    rlx_test_is_thorough  (void);

/* Adds @func as @path, and once more as @path/gpu, where the device poses as a GPU. The second
 * one only without RLX_DEBUG, as it takes long. For programs that are not run under
 * RLX_DEBUG=target=navi31 as a whole. */
void        rlx_test_add_kernels  (const char   *path,
                                   GTestFunc     func);

/* Parses the type at *@text and advances *@text past it; FALSE at the end. */
gboolean    rlx_test_next_type    (const char  **text,
                                   RlxDataType  *data_type,
                                   gint64        shape[RLX_MAX_DIMS],
                                   gsize        *n_dims);

/* Each value is rounded to the nearest one of the type. */
RlxTensor * rlx_test_tensor       (const char   *type,
                                   const double *values);
/* Uniform in [min, max]; the same seed gives the same values everywhere. */
RlxTensor * rlx_test_random       (const char   *type,
                                   double        min,
                                   double        max,
                                   guint32       seed);
double *    rlx_test_get_values   (RlxTensor    *tensor);
/* An attribute value of type `ax`. */
GVariant *  rlx_test_ints         (gsize         n_values,
                                   const gint64 *values);

/* Compiles and runs @graph, and drops the caller's reference to it. NULL after failing the test. */
RlxTensor **rlx_test_run_graph    (RlxGraph         *graph,
                                   gsize             n_inputs,
                                   RlxTensor *const *inputs,
                                   gsize            *n_outputs);
/* A graph of this operator alone, whose operands are inputs, or constants where a bit of
 * @constants is set; a NULL operand is omitted. Takes ownership of floating @attributes.
 * Returns the first result, or NULL after failing the test. */
RlxTensor * rlx_test_run_op_full  (const char       *op,
                                   gsize             n_inputs,
                                   RlxTensor *const *inputs,
                                   guint             constants,
                                   GVariant         *attributes);
RlxTensor * rlx_test_run_op       (const char       *op,
                                   gsize             n_inputs,
                                   RlxTensor *const *inputs,
                                   GVariant         *attributes);

/* Fails the test unless the operator's first result is within the bounds of the
 * reference. Takes ownership of floating @attributes. */
void        rlx_test_check_op     (const char       *op,
                                   gsize             n_inputs,
                                   RlxTensor *const *inputs,
                                   GVariant         *attributes);

/* The type that @op infers for operands of @types ("-" for an omitted one), or NULL and
 * the error; needs no device. If @constants is given, it has an element for each type: a
 * constant operand, or NULL for an input. */
char *      rlx_test_infer        (const char       *op,
                                   const char       *types,
                                   RlxTensor *const *constants,
                                   GVariant         *attributes,
                                   GError          **error);
/* Fails the test unless the operator infers @type. */
void        rlx_test_infers       (const char       *op,
                                   const char       *types,
                                   GVariant         *attributes,
                                   const char       *type);
/* Fails the test unless the operator is rejected with @code and a message that contains
 * @words (nullable). */
void        rlx_test_refuses      (const char       *op,
                                   const char       *types,
                                   GVariant         *attributes,
                                   RlxGraphError     code,
                                   const char       *words);

/* How far element @index may be from @expected. */
typedef double (*RlxTestBound) (gsize    index,
                                double   expected,
                                gpointer user_data);

/* Fails the test, naming the first element that is out of bounds and their number. NaN
 * matches NaN, infinities must be equal. If @type is NULL, the type does not matter. */
gboolean    rlx_test_compare_full (const char       *what,
                                   RlxTensor        *got,
                                   const char       *type,
                                   const double     *expected,
                                   RlxTestBound      bound,
                                   gpointer          user_data);
/* The bound is absolute + relative · |expected|, and for f16 results half a unit in the
 * last place of the expected value on top. */
gboolean    rlx_test_compare      (const char       *what,
                                   RlxTensor        *got,
                                   const char       *type,
                                   const double     *expected,
                                   double            absolute,
                                   double            relative);
/* Half the distance between neighbouring numbers of @data_type around @value: what
 * rounding to that type may add to a bound. 0 for integers. */
double      rlx_test_rounding     (RlxDataType       data_type,
                                   double            value);

/* Bounds for each element, plus the rounding error of f16: a RlxTestBound and its data. */
typedef struct
{
  RlxDataType data_type;
  double *expected;
  double *bounds;
} RlxTestExpected;

double      rlx_test_get_bound    (gsize             index,
                                   double            expected,
                                   gpointer          user_data);

/* Parses attributes. */
GVariant *  rlx_test_attributes   (const char       *text);
/* Fails the test unless repeated runs of the operator on the same operand give the same bits. */
void        rlx_test_check_same_bits (const char    *op,
                                      const char    *type,
                                      const char    *attributes);

/* A private folder for caches, to be set before anything else; it is removed at the end.
 * Tests added with rlx_test_add_with_empty_cache() find it without any of our files. */
char *rlx_test_use_own_cache        (void);
void  rlx_test_add_with_empty_cache (const char *path,
                                     GTestFunc   func);
void  rlx_test_remove_tree          (const char *path);

/* The memory in use by this process; 0 if the system does not tell. */
gsize rlx_test_resident_bytes       (void);

/* A GAsyncReadyCallback that stores the result in *@data, a GSourceFunc that cancels, and
 * a notify handler that counts in a guint. */
void     rlx_test_keep_result  (GObject      *source,
                                GAsyncResult *result,
                                gpointer      data);
gboolean rlx_test_cancel       (gpointer data);
void     rlx_test_count_notify (GObject      *object,
                                GParamSpec   *pspec,
                                gpointer      data);

G_END_DECLS
