/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An ONNX file: what is in it, with nothing interpreted. Once it is open, names are
 * unique and made by somebody, nodes come after what they need, and tensors have as many
 * bytes as their shapes say. What operators mean is for import/ to know.
 */
#pragma once

#include "formats/rlx-protobuf-private.h"
#include "rlx-tensor.h"

G_BEGIN_DECLS

/* The limits of doc/models.md. */
#define RLX_ONNX_MAX_FILE (G_GUINT64_CONSTANT (1) << 31)
#define RLX_ONNX_MAX_METADATA (256 << 20)
#define RLX_ONNX_MAX_TEXT (1 << 20)
#define RLX_ONNX_MAX_NODES (1 << 20)
#define RLX_ONNX_MAX_FUNCTIONS 4096
#define RLX_ONNX_MAX_ATTRIBUTES 1024
#define RLX_ONNX_MAX_LOCATION 4095
#define RLX_ONNX_MAX_IR_VERSION 13
#define RLX_ONNX_MAX_VERSION 1000000

/* The types of elements, by their numbers in files. */
typedef enum
{
  RLX_ONNX_TYPE_UNDEFINED,
  RLX_ONNX_TYPE_FLOAT,
  RLX_ONNX_TYPE_UINT8,
  RLX_ONNX_TYPE_INT8,
  RLX_ONNX_TYPE_UINT16,
  RLX_ONNX_TYPE_INT16,
  RLX_ONNX_TYPE_INT32,
  RLX_ONNX_TYPE_INT64,
  RLX_ONNX_TYPE_STRING,
  RLX_ONNX_TYPE_BOOL,
  RLX_ONNX_TYPE_FLOAT16,
  RLX_ONNX_TYPE_DOUBLE,
  RLX_ONNX_TYPE_UINT32,
  RLX_ONNX_TYPE_UINT64,
  RLX_ONNX_TYPE_COMPLEX64,
  RLX_ONNX_TYPE_COMPLEX128,
  RLX_ONNX_TYPE_BFLOAT16,
  RLX_ONNX_TYPE_FLOAT8E4M3FN,
  RLX_ONNX_TYPE_FLOAT8E4M3FNUZ,
  RLX_ONNX_TYPE_FLOAT8E5M2,
  RLX_ONNX_TYPE_FLOAT8E5M2FNUZ,
  RLX_ONNX_TYPE_UINT4,
  RLX_ONNX_TYPE_INT4,
  RLX_ONNX_TYPE_FLOAT4E2M1,
  RLX_ONNX_TYPE_FLOAT8E8M0,
  RLX_ONNX_TYPE_UINT2,
  RLX_ONNX_TYPE_INT2,
  RLX_ONNX_N_TYPES
} RlxOnnxType;

typedef struct
{
  const char *name;          /* as in text: "float", "int64" */
  guint bits;                /* 0: not a numeric type */
  int data_type;             /* RlxDataType of the tensor, or -1 if the library has none */
} RlxOnnxTypeInfo;

/* For unknown types, a row without bits. */
const RlxOnnxTypeInfo * rlx_onnx_type_get_info (gint64 type);

/* ---- records -------------------------------------------------------------------------- */

/* A declaration of a value. Strings are borrowed from the file, here and below. */
typedef struct
{
  const char *name;
  const char *kind;          /* "tensor", "sequence"… */
  gint64 type;               /* RlxOnnxType of a tensor's elements */
  gboolean has_shape;
  guint n_dims;              /* may exceed RLX_MAX_DIMS; the sizes are then unset */
  gint64 dims[RLX_MAX_DIMS]; /* -1: not fixed */
  const char *symbols[RLX_MAX_DIMS]; /* names of dimensions that have one */
} RlxOnnxPort;

typedef struct
{
  const char *name;          /* nullable */
  guint64 at;                /* in the file */
  gint64 type;
  guint n_dims;
  gint64 dims[RLX_MAX_DIMS];
  guint64 n_elements;
  guint field;               /* of TensorProto that has the elements; 0 if none or in another file */
  guint64 offset;            /* of the bytes, in this file or the other */
  guint64 length;
  const char *location;      /* of the other file; nullable */
} RlxOnnxTensor;

typedef enum
{
  RLX_ONNX_ATTRIBUTE_NONE,
  RLX_ONNX_ATTRIBUTE_FLOAT,
  RLX_ONNX_ATTRIBUTE_INT,
  RLX_ONNX_ATTRIBUTE_STRING,
  RLX_ONNX_ATTRIBUTE_TENSOR,
  RLX_ONNX_ATTRIBUTE_GRAPH,
  RLX_ONNX_ATTRIBUTE_FLOATS,
  RLX_ONNX_ATTRIBUTE_INTS,
  RLX_ONNX_ATTRIBUTE_STRINGS,
  RLX_ONNX_ATTRIBUTE_OTHER,  /* not supported by numeric operators */
} RlxOnnxAttributeKind;

typedef struct
{
  const char *name;
  const char *reference;     /* in a function: the attribute that it refers to; nullable */
  RlxOnnxAttributeKind kind;
  guint64 at;
  gint64 integer;
  float real;
  const char *text;
  const guint8 *message;
} RlxOnnxAttribute;

typedef struct
{
  guint64 at;
  const char *op;
  const char *domain;        /* "" for the default domain, however it is spelled */
  const char *name;          /* "" where it has none */
  const char *overload;
  const char **inputs;       /* "" where one is left out; all in one block */
  const char **outputs;
  guint n_inputs;
  guint n_outputs;
  guint n_attributes;
  RlxOnnxAttribute *attributes;
} RlxOnnxNode;

/* The body of a model, of a function, or of an attribute. */
typedef struct
{
  const guint8 *message;
  guint32 first;             /* of its nodes, in the model's order */
  guint32 n_nodes;
} RlxOnnxGraph;

typedef struct
{
  const char *domain;
  gint64 version;
} RlxOnnxOpset;

typedef struct
{
  const char *domain;
  const char *name;
  const char *overload;
  const guint8 *message;     /* its body, too */
  GArray *opsets;            /* RlxOnnxOpset */
} RlxOnnxFunction;

typedef struct
{
  RlxSource *source;
  GFile *file;               /* the file itself; nullable */
  char *folder;              /* folder of other files; NULL: none */
  RlxProtobuf *tape;
  gint64 ir_version;
  gint64 model_version;
  const char *producer;      /* these are never NULL */
  const char *producer_version;
  const char *domain;
  const char *description;
  const char *graph_name;
  GArray *opsets;            /* RlxOnnxOpset */
  GArray *graphs;            /* RlxOnnxGraph, in the order of the tape */
  GArray *order;             /* guint32, offsets of nodes on the tape */
  GArray *functions;         /* RlxOnnxFunction */
  const guint8 *body;        /* the message of the model's graph */
  guint n_nodes;             /* of all graphs */
  guint n_tensors;           /* initialisers of all graphs… */
  guint64 n_tensor_bytes;    /* …and their total size */
} RlxOnnx;

/* Takes ownership of @source. Other files that the model names are searched for next to
 * @file, or in @folder; both are nullable, and without them no other files are read. */
RlxOnnx *            rlx_onnx_read          (RlxSource          *source,
                                             GFile              *file,
                                             const char         *folder,
                                             GCancellable       *cancellable,
                                             GError            **error);
void                 rlx_onnx_free          (RlxOnnx            *self);

/* ---- contents ---- */

RlxOnnxGraph *       rlx_onnx_get_graph     (const RlxOnnx      *self,
                                             const guint8       *message);
/* Pairs of metadata: calls @func for each. */
void                 rlx_onnx_each_metadata (const RlxOnnx      *self,
                                             void              (*func) (const char *key,
                                                                        const char *value,
                                                                        gpointer    data),
                                             gpointer            data);

/* Moves through a graph's inputs, outputs and initialisers; @at begins as its message. */
typedef enum
{
  RLX_ONNX_GRAPH_NODE = 1,
  RLX_ONNX_GRAPH_NAME = 2,
  RLX_ONNX_GRAPH_INITIALIZER = 5,
  RLX_ONNX_GRAPH_INPUT = 11,
  RLX_ONNX_GRAPH_OUTPUT = 12,
  RLX_ONNX_GRAPH_SPARSE = 15,
} RlxOnnxGraphField;

gboolean             rlx_onnx_next          (const guint8      **at,
                                             RlxOnnxGraphField   field,
                                             RlxProtobufValue   *value);
/* The names of a function's inputs, outputs and attributes, and its defaults. */
GPtrArray *          rlx_onnx_function_get_names (const RlxOnnxFunction *function,
                                                  guint                  field);
#define RLX_ONNX_FUNCTION_INPUT 4
#define RLX_ONNX_FUNCTION_OUTPUT 5
#define RLX_ONNX_FUNCTION_ATTRIBUTE 6
#define RLX_ONNX_FUNCTION_DEFAULT 11

void                 rlx_onnx_get_port      (const guint8       *message,
                                             RlxOnnxPort        *port);
void                 rlx_onnx_get_attribute (const RlxProtobufValue *value,
                                             RlxOnnxAttribute   *attribute);
/* Node @index of a graph, in topological order. */
RlxOnnxNode *        rlx_onnx_get_node      (const RlxOnnx      *self,
                                             const RlxOnnxGraph *graph,
                                             guint               index);
void                 rlx_onnx_node_free     (RlxOnnxNode        *node);

/* Lists of attributes. (transfer full) */
gint64 *             rlx_onnx_attribute_dup_ints    (const RlxOnnxAttribute *attribute,
                                                     gsize                  *n);
float *              rlx_onnx_attribute_dup_floats  (const RlxOnnxAttribute *attribute,
                                                     gsize                  *n);
GPtrArray *          rlx_onnx_attribute_get_strings (const RlxOnnxAttribute *attribute);
/* Its tensor or graph; FALSE if it claims to have one but does not. */
gboolean             rlx_onnx_attribute_get_message (const RlxOnnxAttribute *attribute,
                                                     RlxProtobufValue       *value);

/* "node “x” (Conv)", for messages. */
char *               rlx_onnx_node_to_string (const char        *op,
                                              const char        *name);

/* ---- rlx-onnx-tensor.c ---- */

/* Reads a record and checks it. */
gboolean             rlx_onnx_check_tensor  (const RlxOnnx          *self,
                                             const RlxProtobufValue *value,
                                             RlxOnnxTensor          *tensor,
                                             GError                **error);
/* The tensor, in memory. */
RlxTensor *          rlx_onnx_load_tensor   (const RlxOnnx          *self,
                                             const RlxOnnxTensor    *tensor,
                                             GCancellable           *cancellable,
                                             GError                **error);
/* A TensorProto that is a file of its own, like test data. */
RlxTensor *          rlx_onnx_read_tensor   (RlxSource              *source,
                                             GCancellable           *cancellable,
                                             GError                **error);

/* ---- rlx-onnx-names.c ---- */

/* Checks names, puts nodes in order and fills the lists of graphs and functions. */
gboolean             rlx_onnx_check_names   (RlxOnnx            *self,
                                             GError            **error);

/* The messages; rlx-onnx.c */
extern const RlxProtobufSchema rlx_onnx_model_schema;
extern const RlxProtobufSchema rlx_onnx_tensor_schema;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxOnnx, rlx_onnx_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxOnnxNode, rlx_onnx_node_free)

G_END_DECLS
