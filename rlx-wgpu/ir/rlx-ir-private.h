/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The graph as the compiler sees it: plain structs in topological order.
 * RlxGraph owns one; compiling makes new ones from it, never changes it.
 */
#pragma once

#include "rlx-types.h"
#include "rlx-tensor.h"
#include "util/rlx-data-type-private.h"

G_BEGIN_DECLS

typedef struct _RlxOp RlxOp;
typedef struct _RlxIr RlxIr;
typedef struct _RlxIrNode RlxIrNode;
typedef struct _RlxIrValue RlxIrValue;

typedef struct
{
  RlxDataType data_type;
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
} RlxTensorType;

/* A list of integers, as an attribute. */
typedef struct
{
  const gint64 *values;   /* NULL when there are none */
  guint n_values;
  guint is_set : 1;       /* FALSE: the default of the table; a list that is set may be empty */
  guint fault : 2;        /* RlxIntsFault */
} RlxInts;

#define RLX_INTS(values_, n_values_) ((RlxInts) { .values = (values_), .n_values = (n_values_), .is_set = TRUE })

/* One output of a node. */
struct _RlxIrValue
{
  guint id;           /* unique in its graph, in order of creation */
  RlxIrNode *node;
  guint index;        /* which output of the node */
  RlxTensorType type;
};

struct _RlxIrNode
{
  guint id;
  guint origin;             /* id of its first output in the graph as it was built, used in messages */
  const RlxOp *op;
  char *name;               /* nullable; unique among inputs, parameters and states */
  gpointer attrs;           /* the operator's own struct, see rlx-op-vocabulary-private.h; NULL when it has no attributes */
  RlxIrValue **inputs;      /* NULL for an optional input that is absent; part of the node's memory */
  guint n_inputs;
  RlxIrValue *outputs;      /* part of the node's memory */
  guint n_outputs;
  RlxTensor *data;          /* constants and the initial value of states */
  gpointer payload;         /* of operators the compiler makes; see payload_free */
  GDestroyNotify payload_free;
};

typedef struct
{
  char *name;
  RlxIrValue *value;
} RlxIrOutput;

typedef struct
{
  RlxIrValue *state;
  RlxIrValue *value;
} RlxIrAssign;

struct _RlxIr
{
  GPtrArray *nodes;    /* RlxIrNode, inputs before users */
  GArray *outputs;     /* RlxIrOutput */
  GArray *assigns;     /* RlxIrAssign: state takes value at the end of a run */
  guint n_values;
  RlxPrecision precision;   /* not the default one */
  gboolean checked;         /* runs fail if an index is clamped or an integer wraps */
  gboolean surveyed;        /* runs report the values of each node */
};

RlxIr *     rlx_ir_new   (void);
void        rlx_ir_free  (RlxIr *ir);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxIr, rlx_ir_free)

/* Appends a node. Takes ownership of @attrs (NULL for all defaults); @types and @inputs
 * are copied. */
RlxIrNode * rlx_ir_append (RlxIr               *ir,
                           const RlxOp         *op,
                           gpointer             attrs,
                           RlxIrValue *const   *inputs,
                           guint                n_inputs,
                           const RlxTensorType *types,
                           guint                n_outputs);
void        rlx_ir_add_output (RlxIr *ir, const char *name, RlxIrValue *value);
void        rlx_ir_add_assign (RlxIr *ir, RlxIrValue *state, RlxIrValue *value);

/* Copies @node (attributes, name, data; not payload) into @ir with new inputs. */
RlxIrNode * rlx_ir_append_copy (RlxIr             *ir,
                                const RlxIrNode   *node,
                                RlxIrValue *const *inputs);

/* An element that can be written into the parameters of a kernel instead of being
 * bound: a constant of one element. */
gboolean    rlx_ir_value_get_immediate (const RlxIrValue *value,
                                        double           *number,
                                        gint64           *integer);

/* Whether the graph is consistent, including types; a failure is a bug in a pass. Slow. */
gboolean    rlx_ir_verify      (const RlxIr *ir,
                                GError     **error);

gpointer    rlx_attrs_copy  (const RlxOp *op, gconstpointer attrs);
void        rlx_attrs_free  (const RlxOp *op, gpointer attrs);
gboolean    rlx_attrs_equal (const RlxOp *op, gconstpointer a, gconstpointer b);
guint       rlx_attrs_hash  (const RlxOp *op, gconstpointer attrs);

/* ---- types ------------------------------------------------------------- */

guint64     rlx_type_n_elements (const RlxTensorType *type);   /* < 2^32: verified on creation */
guint64     rlx_type_n_bytes    (const RlxTensorType *type);   /* on the host */
guint64     rlx_type_n_device_bytes (const RlxTensorType *type);   /* without padding */
guint64     rlx_type_device_size (const RlxTensorType *type);      /* rounded up for bindings */
gboolean    rlx_type_equal      (const RlxTensorType *a, const RlxTensorType *b);
gboolean    rlx_type_same_shape (const RlxTensorType *a, const RlxTensorType *b);
/* "f32[2, 3]" */
char *      rlx_type_to_string  (const RlxTensorType *type);
/* Rank, signs and products against the limits. */
gboolean    rlx_type_check      (const RlxTensorType *type, GError **error);
/* NumPy broadcasting of two shapes; FALSE if they are incompatible. */
gboolean    rlx_shape_broadcast (const RlxTensorType *a, const RlxTensorType *b, RlxTensorType *out);

/* The stride along each axis, in elements, in row-major order. */
void        rlx_type_get_strides (const RlxTensorType *type, gint64 strides[RLX_MAX_DIMS]);

/* For an attribute that a rule has accepted: negative axes count from the end. */
static inline guint
rlx_type_get_axis (const RlxTensorType *type,
                   gint64               axis)
{
  return (guint) (axis < 0 ? axis + type->n_dims : axis);
}

/* ---- text and dot (rlx-ir-text.c, rlx-ir-dot.c) -------------------------- */

/* The reverse is rlx_graph_read_text(). */
char *      rlx_ir_to_text      (const RlxIr *ir);
char *      rlx_ir_to_dot       (const RlxIr *ir);
/* A double in a form that reads back as the same bits, whatever the locale. */
void        rlx_ir_append_double (GString *text, double value);
/* The operator's name, its operands, attributes and label, as in the text form: a node
 * in one line, without its data and types. */
void        rlx_ir_append_call  (GString *text, const RlxIrNode *node);
/* "%3 “label”", to name a value in a message. */
char *      rlx_ir_value_describe (const RlxIrValue *value);

G_END_DECLS
