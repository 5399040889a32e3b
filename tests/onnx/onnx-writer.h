/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Writes ONNX files: right ones, and by the functions at the beginning any wrong one.
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

G_BEGIN_DECLS

/* ---- fields of a message ---- */

void         proto_put_tag     (GByteArray        *message,
                                guint              field,
                                guint              wire);
void         proto_put_varint  (GByteArray        *message,
                                guint64            value);
void         proto_put_int     (GByteArray        *message,
                                guint              field,
                                gint64             value);
void         proto_put_float   (GByteArray        *message,
                                guint              field,
                                float              value);
void         proto_put_bytes   (GByteArray        *message,
                                guint              field,
                                gconstpointer      bytes,
                                gsize              size);
void         proto_put_text    (GByteArray        *message,
                                guint              field,
                                const char        *text);
/* Takes ownership of @inner. */
void         proto_put_message (GByteArray        *message,
                                guint              field,
                                GByteArray        *inner);

/* ---- parts of models ---- */

/* The numbers of types in files; -1 for types without one. */
int          onnx_type         (RlxDataType        data_type);

/* An AttributeProto. The value is x, d, s, ax, ad, as; takes ownership of a floating variant. */
GByteArray * onnx_attr         (const char        *name,
                                GVariant          *value);
GByteArray * onnx_attr_tensor  (const char        *name,
                                GByteArray        *tensor);
GByteArray * onnx_attr_graph   (const char        *name,
                                GByteArray        *graph);
/* A TensorProto with raw elements. */
GByteArray * onnx_tensor       (const char        *name,
                                int                type,
                                const gint64      *shape,
                                gsize              n_dims,
                                gconstpointer      elements,
                                gsize              size);
GByteArray * onnx_tensor_from  (const char        *name,
                                RlxTensor         *tensor);

/* @dims are words as in "batch 3 ? 4": a name, a size, or an unknown one; NULL: no shape. */
void         onnx_add_input    (GByteArray        *graph,
                                const char        *name,
                                int                type,
                                const char        *dims);
void         onnx_add_output   (GByteArray        *graph,
                                const char        *name,
                                int                type,
                                const char        *dims);
/* Takes ownership of the tensor. */
void         onnx_add_tensor   (GByteArray        *graph,
                                GByteArray        *tensor);
/* A NodeProto. Names are words, "-" is an omitted one. @op is DOMAIN:NAME or NAME.
 * Followed by attributes, until NULL, which it takes ownership of. */
GByteArray * onnx_node         (const char        *op,
                                const char        *inputs,
                                const char        *outputs,
                                ...) G_GNUC_NULL_TERMINATED;
void         onnx_add_node     (GByteArray        *graph,
                                const char        *op,
                                const char        *inputs,
                                const char        *outputs,
                                ...) G_GNUC_NULL_TERMINATED;
/* A FunctionProto without nodes, which are added as field 7. */
GByteArray * onnx_function     (const char        *domain,
                                const char        *name,
                                const char        *inputs,
                                const char        *outputs,
                                int                opset);

/* Takes ownership of the graph. The model imports the operator sets of ONNX, version
 * @opset, and of ONNX Runtime, whose operators with channels last have ONNX's versions. */
GByteArray * onnx_model        (GByteArray        *graph,
                                int                opset);
GBytes *     onnx_finish       (GByteArray        *model);

G_END_DECLS
