/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From a model's file to a graph, for inputs of known sizes.
 */
#pragma once

#include "import/rlx-map-private.h"
#include "ir/rlx-ir-private.h"

G_BEGIN_DECLS

/* The limits of doc/models.md. */
#define RLX_IMPORT_MAX_NODES (1 << 18)   /* also of loops that are unrolled */
#define RLX_IMPORT_MAX_STEPS 4096        /* of one loop */
#define RLX_IMPORT_MAX_DEPTH 64          /* nesting of bodies and functions */
#define RLX_IMPORT_MAX_REASONS 16        /* in one message */
#define RLX_IMPORT_MAX_FOLDED 65536      /* elements that the host computes */
#define RLX_IMPORT_MAX_FLAGS (1 << 24)   /* of which data says how many are set */
#define RLX_IMPORT_MAX_OPSET 28

/* Shared by several imports of one model. */
typedef struct
{
  const RlxOnnx *onnx;
  GMutex lock;
  GHashTable *tensors;      /* by their messages: RlxTensor */
  GHashTable *scaled;       /* set of scaled filters, see rlx-map-filter.c; nullable */
} RlxImportSource;

/* Conversions of known integers to floats, in order. */
typedef struct
{
  GPtrArray *found;         /* RlxTensor: the results */
  GHashTable *kept;         /* indices of those that are left to the device; nullable */
} RlxImportCasts;

struct _RlxImport
{
  RlxImportSource *source;
  RlxGraph *graph;
  GPtrArray *values;        /* RlxMapValue: owns all of them */
  GPtrArray *reasons;       /* reasons why it cannot be imported */
  guint n_reasons;
  RlxModelError code;       /* of the first reason */
  GHashTable *needed;       /* inputs whose elements would have to be known */
  RlxImportCasts *casts;    /* nullable */
  GHashTable *uses;         /* by name: how often values are used in the main graph; filled on first use */
  GCancellable *cancellable;
  guint n_nodes;
  guint depth;
};

/* A scope of names: a graph, the body of a branch or loop, or a function. */
struct _RlxScope
{
  RlxImport *import;
  RlxScope *parent;         /* enclosing scope, whose names are visible; nullable */
  GHashTable *values;
  const GArray *opsets;
  const RlxOnnxNode *caller;   /* of a function, which has its attributes; nullable */
  const RlxOnnxFunction *function;
};

/* The sizes of inputs, and inputs with known values. */
typedef struct
{
  GHashTable *dimensions;   /* by name, or as INPUT.AXIS: gint64 */
  GHashTable *types;        /* by name of the input: RlxTensorType; nullable */
  GHashTable *fixed;        /* by name of the input: RlxTensor; nullable */
  RlxImportCasts *casts;    /* where they are reported; nullable */
} RlxImportSizes;

/* If the error is that elements of inputs would have to be known, their names are added
 * to @needed, which is nullable. */
RlxGraph *    rlx_import_model      (RlxImportSource      *source,
                                     const RlxImportSizes *sizes,
                                     GHashTable           *needed,
                                     GCancellable         *cancellable,
                                     GError              **error);

RlxMapValue * rlx_import_new_value  (RlxImport            *self);
gboolean      rlx_map_value_is_known (const RlxMapValue   *value);
RlxTensor *   rlx_import_get_tensor (RlxImport            *self,
                                     RlxMapValue          *value,
                                     GError              **error);
RlxNode *     rlx_import_get_node   (RlxImport            *self,
                                     RlxMapValue          *value,
                                     GError              **error);
/* The tensor of a record, which is only read once. */
RlxTensor *   rlx_import_load       (RlxImport            *self,
                                     const RlxProtobufValue *record,
                                     GError              **error);
/* Records the inputs that a value is computed from. */
void          rlx_import_need       (RlxImport            *self,
                                     RlxMapValue          *value);
/* Shape and type of a value, whether it is known or not; NULL if it has none. */
const gint64 *rlx_map_value_get_shape (RlxImport          *self,
                                       RlxMapValue        *value,
                                       gsize              *n_dims,
                                       RlxDataType        *data_type);

RlxMapValue * rlx_scope_get         (RlxScope             *self,
                                     const char           *name);
void          rlx_scope_set         (RlxScope             *self,
                                     const char           *name,
                                     RlxMapValue          *value);

/* Imports the body in an attribute, with values for its inputs; @outputs has room for
 * @n_outputs. FALSE on failure, whose reason may be in the list. */
gboolean      rlx_import_body       (RlxMapCall           *call,
                                     const char           *attribute,
                                     RlxMapValue         **inputs,
                                     gsize                 n_inputs,
                                     RlxMapValue         **outputs,
                                     gsize                 n_outputs,
                                     GError              **error);
/* The numbers of inputs and outputs of a body. */
gboolean      rlx_import_body_size  (RlxMapCall           *call,
                                     const char           *attribute,
                                     gsize                *n_inputs,
                                     gsize                *n_outputs,
                                     GError              **error);
/* Adds an operator that is not in the file. The integer attribute is nullable. */
RlxMapValue * rlx_import_apply      (RlxMapCall           *call,
                                     const char           *op,
                                     RlxMapValue         **inputs,
                                     gsize                 n_inputs,
                                     const char           *attribute,
                                     gint64                value,
                                     GError              **error);

G_END_DECLS
