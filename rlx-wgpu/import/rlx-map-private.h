/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX in terms of the op table.
 *
 * An operator is one row of a table: where it is only a matter of other names and
 * defaults, the row says so in words; else it names a function.
 */
#pragma once

#include "formats/rlx-onnx-private.h"
#include "rlx-graph.h"
#include "rlx-node.h"

G_BEGIN_DECLS

typedef struct _RlxImport RlxImport;
typedef struct _RlxScope RlxScope;
typedef struct _RlxMapCall RlxMapCall;
typedef struct _RlxMapRow RlxMapRow;
typedef struct _RlxMapValue RlxMapValue;

/* Adds nodes for one call of an operator and sets its outputs. */
typedef gboolean (*RlxMapFunc) (RlxMapCall *call,
                                GError    **error);

typedef enum
{
  MAP_FOLD = 1 << 0,    /* any number of operands, combined pairwise */
} RlxMapFlags;

#define TYPE_BIT(type) (1u << RLX_DATA_TYPE_##type)
#define TYPES_FLOAT (TYPE_BIT (F32) | TYPE_BIT (F16))

struct _RlxMapRow
{
  const char *name;     /* of ONNX's operator, with "domain:" unless it is the default one */
  const char *op;       /* of the op table; NULL: needs none */

  /* Attributes, each THEIRS[:OURS]/KIND[=DEFAULT], separated by spaces. An absent one
   * without a default is left to the op table. A list's default is empty.
   *   f  number      i  integer      b  boolean
   *   t  data type   s  word         I  integers */
  const char *attrs;

  /* Attributes that do not affect results, separated by spaces. Any other that the
   * mapping does not query is rejected. */
  const char *ignored;

  guint flags;          /* RlxMapFlags */
  const char *reason;   /* why it will never be supported */
  RlxMapFunc func;      /* instead of all of the above */
};

#define ROW(theirs, ours, ...) { .name = theirs, .op = ours, __VA_ARGS__ }

/* What a name stands for. */
struct _RlxMapValue
{
  RlxTensor *tensor;    /* its elements, if known */
  RlxNode *node;        /* once it was requested or computed */
  GPtrArray *list;      /* of RlxMapValue, if it is a sequence */
  gboolean is_absent;   /* an optional value without an element */
  gboolean is_failed;   /* its node was rejected */
  RlxProtobufValue record;   /* of an initialiser, which is read on demand */
  RlxNode *count;       /* if its size depends on data: how many elements there are… */
  guint open_axis;      /* …along this axis; the rest is padding */
};

struct _RlxMapCall
{
  RlxImport *import;
  RlxScope *scope;
  RlxGraph *graph;
  RlxOnnxNode *node;
  const RlxMapRow *row;
  gint64 opset;
  guint64 used_inputs;  /* a bit for each position: those that were queried */
  guint64 used_attributes;
};

/* Ends with a row whose name is NULL. */
extern const RlxMapRow rlx_map_rows[];

/* NULL when there is none. */
const RlxMapRow *rlx_map_find       (const RlxOnnxNode *node);
gboolean         rlx_map_call       (RlxMapCall        *call,
                                     GError           **error);

/* ---- arguments --------------------------------------------------------------- */

/* The attribute, or NULL if it is absent. Querying it marks it as supported. */
const RlxOnnxAttribute *
                rlx_map_arg           (RlxMapCall      *call,
                                       const char      *name);
gboolean        rlx_map_arg_int       (RlxMapCall      *call,
                                       const char      *name,
                                       gint64           fallback,
                                       gint64          *value,
                                       GError         **error);
gboolean        rlx_map_arg_double    (RlxMapCall      *call,
                                       const char      *name,
                                       double           fallback,
                                       double          *value,
                                       GError         **error);
gboolean        rlx_map_arg_bool      (RlxMapCall      *call,
                                       const char      *name,
                                       gboolean         fallback,
                                       gboolean        *value,
                                       GError         **error);
gboolean        rlx_map_arg_data_type (RlxMapCall      *call,
                                       const char      *name,
                                       RlxDataType      fallback,
                                       RlxDataType     *value,
                                       GError         **error);
/* NULL without an error when it is absent. */
const char *    rlx_map_arg_string    (RlxMapCall      *call,
                                       const char      *name,
                                       GError         **error);
gint64 *        rlx_map_arg_ints      (RlxMapCall      *call,
                                       const char      *name,
                                       gsize           *n_values,
                                       GError         **error);
float *         rlx_map_arg_floats    (RlxMapCall      *call,
                                       const char      *name,
                                       gsize           *n_values,
                                       GError         **error);
GPtrArray *     rlx_map_arg_strings   (RlxMapCall      *call,
                                       const char      *name,
                                       GError         **error);
RlxTensor *     rlx_map_arg_tensor    (RlxMapCall      *call,
                                       const char      *name,
                                       GError         **error);

/* NULL without an error when an optional one is absent. */
guint           rlx_map_n_inputs      (RlxMapCall      *call);
gboolean        rlx_map_has_input     (RlxMapCall      *call,
                                       guint            index);
/* The input at that position, if any, does not affect results. */
void            rlx_map_ignore_input  (RlxMapCall      *call,
                                       guint            index);
RlxMapValue *   rlx_map_get_value     (RlxMapCall      *call,
                                       guint            index,
                                       GError         **error);
RlxNode *       rlx_map_input         (RlxMapCall      *call,
                                       guint            index,
                                       gboolean         optional,
                                       GError         **error);
/* Whether its elements are known. */
gboolean        rlx_map_is_known      (RlxMapCall      *call,
                                       guint            index);
/* The value of an input that is an argument here: known before the graph is compiled. */
gint64 *        rlx_map_input_ints    (RlxMapCall      *call,
                                       guint            index,
                                       gsize           *n_values,
                                       GError         **error);
RlxTensor *     rlx_map_input_value   (RlxMapCall      *call,
                                       guint            index,
                                       GError         **error);

/* Calls are nested: after a failure the rest does nothing. */
static inline gboolean
rlx_map_has_failed (GError **error)
{
  return error != NULL && *error != NULL;
}

/* ---- nodes --------------------------------------------------------------------- */

/* Attributes are a floating a{sv} or NULL. */
RlxNode *       rlx_map_op            (RlxMapCall      *call,
                                       const char      *op,
                                       RlxNode        **inputs,
                                       gsize            n_inputs,
                                       GVariant        *attrs,
                                       GError         **error);
/* Sets the outputs; operands of types that are only stored are converted to others and back. */
RlxNode **      rlx_map_add_op        (RlxMapCall      *call,
                                       const char      *op,
                                       RlxNode        **inputs,
                                       gsize            n_inputs,
                                       GVariant        *attrs,
                                       gsize           *n_outputs,
                                       GError         **error);
RlxNode *       rlx_map_op1           (RlxMapCall      *call,
                                       const char      *op,
                                       RlxNode         *a,
                                       GVariant        *attrs,
                                       GError         **error);
RlxNode *       rlx_map_op2           (RlxMapCall      *call,
                                       const char      *op,
                                       RlxNode         *a,
                                       RlxNode         *b,
                                       GVariant        *attrs,
                                       GError         **error);
/* As rlx_map_op2(), but rejected if the result does not have the shape of @a. */
RlxNode *       rlx_map_op2_onto      (RlxMapCall      *call,
                                       const char      *op,
                                       RlxNode         *a,
                                       RlxNode         *b,
                                       GError         **error);
gboolean        rlx_map_same_shape    (RlxNode         *a,
                                       RlxNode         *b);
RlxNode *       rlx_map_cast          (RlxMapCall      *call,
                                       RlxNode         *node,
                                       RlxDataType      data_type,
                                       GError         **error);
/* Casts to any type; @saturates only affects 8-bit floats. */
RlxNode *       rlx_map_cast_narrow   (RlxMapCall      *call,
                                       RlxNode         *node,
                                       RlxDataType      to,
                                       gboolean         saturates,
                                       GError         **error);
/* Converts between floats and narrow floats. Blocks of @block elements along @axis share
 * a scale, unless that is -1. */
RlxNode *       rlx_map_quantize_narrow (RlxMapCall    *call,
                                       RlxNode         *x,
                                       RlxNode         *scale,
                                       RlxNode         *zero,
                                       RlxDataType      to,
                                       gssize           axis,
                                       gint64           block,
                                       gboolean         saturates,
                                       GError         **error);
RlxNode *       rlx_map_reshape       (RlxMapCall      *call,
                                       RlxNode         *node,
                                       const gint64    *shape,
                                       gsize            n_dims,
                                       GError         **error);
RlxNode *       rlx_map_constant      (RlxMapCall      *call,
                                       RlxTensor       *tensor,
                                       GError         **error);
/* Names of attributes, each followed by its value; terminated by NULL. */
GVariant *      rlx_map_attrs         (const char      *name,
                                       ...) G_GNUC_NULL_TERMINATED;
GVariant *      rlx_map_ints          (const gint64    *values,
                                       gsize            n_values);
GVariant *      rlx_map_data_type     (RlxDataType      data_type);

/* Sets output @index; TRUE unless @node is NULL (with an error set). */
gboolean        rlx_map_return        (RlxMapCall      *call,
                                       guint            index,
                                       RlxNode         *node);
gboolean        rlx_map_return_tensor (RlxMapCall      *call,
                                       guint            index,
                                       RlxTensor       *tensor);
gboolean        rlx_map_return_value  (RlxMapCall      *call,
                                       guint            index,
                                       RlxMapValue     *value);
/* Whether the model uses that output. */
gboolean        rlx_map_wants_output  (RlxMapCall      *call,
                                       guint            index);

gboolean        rlx_map_unsupported   (GError         **error,
                                       const char      *format,
                                       ...) G_GNUC_PRINTF (2, 3);
gboolean        rlx_map_refused       (GError         **error,
                                       const char      *format,
                                       ...) G_GNUC_PRINTF (2, 3);

/* ---- shared by several files of mappings ------------------------------------------- */

gint64          rlx_map_product        (const gint64   *values,
                                        gsize           first,
                                        gsize           end);
gint64 *        rlx_map_copy_shape     (RlxNode        *node,
                                        gsize          *n_dims);
/* Counts from the end when negative. An error beyond @limit. */
gboolean        rlx_map_normalise_axis (RlxMapCall     *call,
                                        gint64          axis,
                                        gsize           n_dims,
                                        gsize           limit,
                                        gsize          *out,
                                        GError        **error);
/* An argument that is an attribute in old opsets and an input in new ones. */
gboolean        rlx_map_get_ints       (RlxMapCall     *call,
                                        const char     *name,
                                        guint           index,
                                        gint64        **values,
                                        gsize          *n_values,
                                        gboolean       *present,
                                        GError        **error);
/* The mean and the reciprocal deviation, which are outputs 1 and 2 there; with @rms
 * only the latter. */
gboolean        rlx_map_add_statistics (RlxMapCall     *call,
                                        RlxNode        *node,
                                        const gint64   *axes,
                                        gsize           n_axes,
                                        double          epsilon,
                                        gboolean        rms,
                                        GError        **error);

/* If @x is the result of a known filter and has no other user, its norm with known numbers (factor, bias, mean and variance)
 * can be merged into the filter: returns the result of that. Otherwise NULL, without an error. */
RlxNode *       rlx_map_scale_filter   (RlxMapCall     *call,
                                        RlxNode        *x,
                                        RlxNode       **factors,
                                        double          epsilon,
                                        gint64          axis,
                                        GError        **error);

/* Whether the mapping queried everything that the node has; part of rlx_map_call(). */
gboolean        rlx_map_check_used     (RlxMapCall     *call,
                                        GError        **error);

/* ---- known values: rlx-fold.c ----------------------------------------------- */

typedef enum
{
  RLX_FOLD_NONE,        /* it has to be computed on the device */
  RLX_FOLD_DONE,
  RLX_FOLD_FAILED,
} RlxFold;

/* Computes the call on the host if it deals with shapes and indices, and its operands
 * are known and small. */
RlxFold         rlx_fold               (RlxMapCall     *call,
                                        GError        **error);

/* ---- values whose size depends on data: rlx-map-open.c -------------------------------- */

/* Whether the size of an operand depends on data. */
gboolean        rlx_map_is_open        (RlxMapCall     *call);
/* To be called instead of rlx_fold() and rlx_map_call() in that case. */
gboolean        rlx_map_call_open      (RlxMapCall     *call,
                                        GError        **error);

/* ---- mappings -------------------------------------------------------------------------- */

#define MAPPING(name) gboolean name (RlxMapCall *call, GError **error)

MAPPING (rlx_onnx_map_affine_grid);
MAPPING (rlx_onnx_map_attention);
MAPPING (rlx_onnx_map_batch_norm);
MAPPING (rlx_onnx_map_bernoulli);
MAPPING (rlx_onnx_map_bit_cast);
MAPPING (rlx_onnx_map_bias_split_gelu);
MAPPING (rlx_onnx_map_cast);
MAPPING (rlx_onnx_map_causal_conv);
MAPPING (rlx_onnx_map_center_crop_pad);
MAPPING (rlx_onnx_map_col2im);
MAPPING (rlx_onnx_map_compress);
MAPPING (rlx_onnx_map_concat);
MAPPING (rlx_onnx_map_concat_from_sequence);
MAPPING (rlx_onnx_map_constant);
MAPPING (rlx_onnx_map_constant_of_shape);
MAPPING (rlx_onnx_map_conv);
MAPPING (rlx_onnx_map_conv_transpose);
MAPPING (rlx_onnx_map_crop);
MAPPING (rlx_onnx_map_deform_conv);
MAPPING (rlx_onnx_map_depth);
MAPPING (rlx_onnx_map_dft);
MAPPING (rlx_onnx_map_dropout);
MAPPING (rlx_onnx_map_expand);
MAPPING (rlx_onnx_map_eye_like);
MAPPING (rlx_onnx_map_flatten);
MAPPING (rlx_onnx_map_fused_matmul);
MAPPING (rlx_onnx_map_gather_quantized);
MAPPING (rlx_onnx_map_grid_sample);
MAPPING (rlx_onnx_map_group_norm);
MAPPING (rlx_onnx_map_if);
MAPPING (rlx_onnx_map_image_scaler);
MAPPING (rlx_onnx_map_instance_norm);
MAPPING (rlx_onnx_map_linear_attention);
MAPPING (rlx_onnx_map_local_response);
MAPPING (rlx_onnx_map_loop);
MAPPING (rlx_onnx_map_loss);
MAPPING (rlx_onnx_map_lp_pool);
MAPPING (rlx_onnx_map_matmul_nbits);
MAPPING (rlx_onnx_map_max_unpool);
MAPPING (rlx_onnx_map_mean_variance);
MAPPING (rlx_onnx_map_mel_weights);
MAPPING (rlx_onnx_map_ms_group_norm);
MAPPING (rlx_onnx_map_multinomial);
MAPPING (rlx_onnx_map_non_max_suppression);
MAPPING (rlx_onnx_map_non_zero);
MAPPING (rlx_onnx_map_one_hot);
MAPPING (rlx_onnx_map_optional);
MAPPING (rlx_onnx_map_pad);
MAPPING (rlx_onnx_map_pool);
MAPPING (rlx_onnx_map_qconv);
MAPPING (rlx_onnx_map_qgemm);
MAPPING (rlx_onnx_map_qmatmul);
MAPPING (rlx_onnx_map_qmatmul_float);
MAPPING (rlx_onnx_map_quantize);
MAPPING (rlx_onnx_map_random);
MAPPING (rlx_onnx_map_range);
MAPPING (rlx_onnx_map_recurrent);
MAPPING (rlx_onnx_map_reshape);
MAPPING (rlx_onnx_map_resize);
MAPPING (rlx_onnx_map_reverse_sequence);
MAPPING (rlx_onnx_map_roi_align);
MAPPING (rlx_onnx_map_rotary_embedding);
MAPPING (rlx_onnx_map_scaled);
MAPPING (rlx_onnx_map_scan);
MAPPING (rlx_onnx_map_scatter);
MAPPING (rlx_onnx_map_sequence);
MAPPING (rlx_onnx_map_shrink);
MAPPING (rlx_onnx_map_skip_norm);
MAPPING (rlx_onnx_map_slice);
MAPPING (rlx_onnx_map_split);
MAPPING (rlx_onnx_map_split_to_sequence);
MAPPING (rlx_onnx_map_squeeze);
MAPPING (rlx_onnx_map_stft);
MAPPING (rlx_onnx_map_tensor_scatter);
MAPPING (rlx_onnx_map_tile);
MAPPING (rlx_onnx_map_top_k);
MAPPING (rlx_onnx_map_trilu);
MAPPING (rlx_onnx_map_unknown);
MAPPING (rlx_onnx_map_unique);
MAPPING (rlx_onnx_map_unsqueeze);
MAPPING (rlx_onnx_map_window);
MAPPING (rlx_ort_map_attention);
MAPPING (rlx_ort_map_embed_layer_norm);
MAPPING (rlx_ort_map_group_query_attention);
MAPPING (rlx_ort_map_multi_head_attention);
MAPPING (rlx_ort_map_rotary_embedding);

G_END_DECLS
