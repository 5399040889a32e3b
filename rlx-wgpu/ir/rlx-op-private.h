/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An operator: a row of the op table (ops/[*].toml), turned into a RlxOp by
 * the generator, with its shape rule and its lowering.
 */
#pragma once

#include "ir/rlx-ir-private.h"

G_BEGIN_DECLS

typedef struct _RlxOpCall RlxOpCall;
typedef struct _RlxLower RlxLower;
typedef struct _RlxBuilder RlxBuilder;
typedef struct _RlxGradient RlxGradient;

typedef enum
{
  RLX_ATTR_BOOL,
  RLX_ATTR_INT,
  RLX_ATTR_FLOAT,
  RLX_ATTR_ENUM,
  RLX_ATTR_DATA_TYPE,
  RLX_ATTR_INTS,
  RLX_ATTR_STRING,   /* always required */
} RlxAttrKind;

/* The generic description of an attribute, for the text form, bindings and options.
 * Rules, lowerings and passes use the struct. */
typedef struct
{
  const char *name;
  RlxAttrKind kind;
  gsize offset;              /* in the operator's struct of attributes */
  gboolean required;
  GType (*enum_type) (void);
  const char *doc;
} RlxAttrDef;

/* Sets of data types, by bit. 64-bit integers count as what the device stores. */
typedef enum
{
  RLX_TYPES_F32  = 1 << RLX_DATA_TYPE_F32,
  RLX_TYPES_F16  = 1 << RLX_DATA_TYPE_F16,
  RLX_TYPES_BOOL = 1 << RLX_DATA_TYPE_BOOL,
  RLX_TYPES_I32 = 1 << RLX_DATA_TYPE_I32,
  RLX_TYPES_BYTE = 1 << RLX_DATA_TYPE_I8 | 1 << RLX_DATA_TYPE_U8,
  RLX_TYPES_FLOAT = RLX_TYPES_F32 | RLX_TYPES_F16,
  RLX_TYPES_SIGNED_INT = 1 << RLX_DATA_TYPE_I32 | 1 << RLX_DATA_TYPE_I8 | 1 << RLX_DATA_TYPE_I64,
  RLX_TYPES_UNSIGNED_INT = 1 << RLX_DATA_TYPE_U32 | 1 << RLX_DATA_TYPE_U8 | 1 << RLX_DATA_TYPE_U64,
  RLX_TYPES_INT = RLX_TYPES_SIGNED_INT | RLX_TYPES_UNSIGNED_INT,
  RLX_TYPES_NUMBER = RLX_TYPES_FLOAT | RLX_TYPES_INT,
  RLX_TYPES_SIGNED = RLX_TYPES_FLOAT | RLX_TYPES_SIGNED_INT,
  RLX_TYPES_ANY = RLX_TYPES_NUMBER | RLX_TYPES_BOOL,
  /* types that are moved and converted, but not computed with */
  RLX_TYPES_SMALL_INT = 1 << RLX_DATA_TYPE_I4 | 1 << RLX_DATA_TYPE_U4 | 1 << RLX_DATA_TYPE_I16 | 1 << RLX_DATA_TYPE_U16 |
                        1 << RLX_DATA_TYPE_I2 | 1 << RLX_DATA_TYPE_U2,
  RLX_TYPES_NARROW = 1 << RLX_DATA_TYPE_BF16 | 1 << RLX_DATA_TYPE_F8E4M3FN | 1 << RLX_DATA_TYPE_F8E4M3FNUZ | 1 << RLX_DATA_TYPE_F8E5M2 |
                     1 << RLX_DATA_TYPE_F8E5M2FNUZ | 1 << RLX_DATA_TYPE_F8E8M0 | 1 << RLX_DATA_TYPE_F4E2M1,
  RLX_TYPES_STORED = RLX_TYPES_ANY | RLX_TYPES_SMALL_INT | RLX_TYPES_NARROW,
  RLX_TYPES_QUANTIZED = RLX_TYPES_BYTE | RLX_TYPES_SMALL_INT | RLX_TYPES_I32,
} RlxTypeSet;

typedef struct
{
  const char *name;
  guint types;           /* RlxTypeSet */
  gboolean optional;
  int same_as;           /* must have the type of this input; -1: any of `types` */
} RlxInputDef;

typedef enum
{
  RLX_OP_LEAF        = 1 << 0, /* input, parameter, constant, state */
  RLX_OP_ELEMENTWISE = 1 << 1, /* one output element from one element of each input */
  RLX_OP_VARIADIC    = 1 << 2, /* the last input may repeat */
  RLX_OP_INTERNAL    = 1 << 3, /* made by the compiler only */
  RLX_OP_BOOL_RESULT = 1 << 4, /* element-wise with a bool result */
  RLX_OP_EPILOGUE    = 1 << 5, /* its kernel calls epilogue() */
  RLX_OP_NORM        = 1 << 6, /* a norm or a softmax, whose last step may read the results of others */
  RLX_OP_REPORT      = 1 << 7, /* its result is for the library itself: nothing reads it, but every run computes it */
  RLX_OP_FLAT        = 1 << 8, /* its derivative is zero wherever it exists */
} RlxOpFlags;

typedef gboolean (*RlxInferFunc) (RlxOpCall *call,
                                  GError   **error);
typedef gboolean (*RlxLowerFunc) (RlxLower        *lower,
                                  const RlxIrNode *node,
                                  GError         **error);
/* See ops/rlx-builder-private.h. */
typedef RlxIrValue *(*RlxExpandFunc) (RlxBuilder        *b,
                                      const RlxIrNode   *node,
                                      RlxIrValue *const *inputs);

/* See ops/rlx-gradient-private.h. */
typedef void (*RlxGradientFunc) (RlxGradient     *gradient,
                                 const RlxIrNode *node);

/* ops/rlx-variant-private.h */
typedef struct _RlxVariants RlxVariants;

struct _RlxOp
{
  guint id;                   /* RlxOpId */
  const char *name;
  const char *family;
  const char *summary;
  const char *doc;            /* further details, "" if none */
  const char *shapes;         /* a call by example, as in the text form, and its results; NULL for leaves */
  const char *formula;        /* nullable */
  const char *bound;          /* stated error bound */
  const char *since;          /* the first version that has it */
  const char *subnormals;     /* of subnormal numbers: "kept…" or not; NULL without floats */
  const char *checked;        /* what makes a checked run fail, or "nothing:…"; NULL if nothing could */
  guint flags;                /* RlxOpFlags */
  const RlxInputDef *inputs;
  guint n_inputs;
  const RlxAttrDef *attrs;
  guint n_attrs;
  guint attrs_id;             /* its struct of attributes */
  gsize attrs_size;
  gconstpointer defaults;     /* its default attributes */
  RlxInferFunc infer;         /* NULL for leaves and operators that only passes make */
  RlxLowerFunc lower;         /* NULL if expand leaves nothing to lower */
  const RlxVariants *variants; /* the kernels its lowering chooses from; nullable */
  RlxExpandFunc expand;       /* nullable */
  RlxGradientFunc gradient;   /* NULL if it is zero or does not exist */
  const char *no_gradient;    /* why not: a clause for people */
  /* element-wise: WGSL expressions in a, b, c, $ and the number of an attribute, and
   * $bits, for floats, signed, unsigned and bool operands; NULL for types that are not
   * supported */
  const char *expr_f;
  const char *expr_i;
  const char *expr_u;
  const char *expr_b;
};

/* The input of a shape rule, and the place for its result. */
struct _RlxOpCall
{
  const RlxOp *op;
  const char *name;                    /* of the node, nullable, for messages */
  gconstpointer attrs;                 /* the operator's struct of attributes */
  const RlxTensorType *const *inputs;  /* NULL for an absent optional input */
  RlxTensor *const *constants;         /* while the graph is built: the value of a constant input, otherwise NULL */
  guint n_inputs;
  GArray *outputs;                     /* RlxTensorType, appended by the rule */
};

/* ---- the table ----------------------------------------------------------- */

/* The values of enumerations; the last one has no name. */
typedef struct
{
  const char *type;           /* RlxLayout */
  const char *nick;           /* channels-first */
  const char *doc;
} RlxEnumDoc;

extern const RlxEnumDoc rlx_enum_docs[];

/* Those that a graph can have. */
extern const RlxOp *const rlx_op_table[];
extern const guint rlx_n_ops;
const RlxOp * rlx_op_lookup (const char *name);        /* NULL when there is none */
int           rlx_op_find_attr (const RlxOp *op, const char *name);  /* -1 */
/* The operator whose name is most similar to @name; NULL if none is close. */
const char *  rlx_op_suggest (const char *name);

/* Operators that graphs create with methods of their own. The compiler's vocabulary has
 * all operators. */
extern const RlxOp rlx_op_input;
extern const RlxOp rlx_op_parameter;
extern const RlxOp rlx_op_constant;
extern const RlxOp rlx_op_state;

/* ---- helpers of rules ------------------------------------------------------ */

/* Sets an error that starts with the operator and the node's name. Returns FALSE. */
gboolean rlx_call_error (const RlxOpCall *call,
                         GError         **error,
                         RlxGraphError    code,
                         const char      *format,
                         ...) G_GNUC_PRINTF (4, 5);
/* Negative axes count from the end; error when outside the rank. */
gboolean rlx_call_axis  (const RlxOpCall *call,
                         gint64           axis,
                         guint            n_dims,
                         guint           *out,
                         GError         **error);
/* Normalises a list of axes into a mask; duplicates are an error; an unset
 * attribute means all axes when @all_by_default. */
gboolean rlx_call_axes  (const RlxOpCall *call,
                         const RlxInts   *axes,
                         guint            n_dims,
                         gboolean         all_by_default,
                         guint           *mask,
                         GError         **error);
/* Number and data types of the inputs against the table row, then the rule,
 * then the limits of the result. The one entry point for inference. */
gboolean rlx_op_infer   (RlxOpCall *call,
                         GError   **error);
void     rlx_call_add_output (RlxOpCall *call, const RlxTensorType *type);
/* Rejects attributes that are invalid for every rule; part of rlx_op_infer(). */
gboolean rlx_call_check_attrs (const RlxOpCall *call,
                               GError         **error);

/* ---- attributes (rlx-attrs.c) ------------------------------------------------ */

/* Structs of attributes are made, copied and freed by their operator's table of
 * attributes. Of a node they are read by rlx_NAME_attrs(). */

/* All defaults. Never NULL. */
gpointer      rlx_attrs_new              (const RlxOp *op);
/* From a{sv}: every attribute known, of the right type, required ones there. */
gpointer      rlx_attrs_new_from_variant (const RlxOp *op,
                                          GVariant    *attributes,
                                          GError     **error);
/* Not floating. */
GVariant *    rlx_attrs_to_variant       (const RlxOp  *op,
                                          gconstpointer attrs);

/* Of bool, int, enum or data type. */
gint64        rlx_attr_get_int           (const RlxAttrDef *def, gconstpointer attrs);
double        rlx_attr_get_float         (const RlxAttrDef *def, gconstpointer attrs);
const RlxInts *rlx_attr_get_ints         (const RlxAttrDef *def, gconstpointer attrs);
const char *  rlx_attr_get_string        (const RlxAttrDef *def, gconstpointer attrs);
/* Whether the value has changed. */
gboolean      rlx_attr_set_int           (const RlxAttrDef *def, gpointer attrs, gint64 value);
gboolean      rlx_attr_set_float         (const RlxAttrDef *def, gpointer attrs, double value);
gboolean      rlx_attr_set_ints          (const RlxAttrDef *def, gpointer attrs, const gint64 *values, gsize n_values);
gboolean      rlx_attr_reset_ints        (const RlxAttrDef *def, gpointer attrs, const RlxOp *op);
/* Keeps a copy. NULL, and text that is too long or not UTF-8, lead to an error when the
 * node is created. */
void          rlx_attr_set_string        (const RlxAttrDef *def, gpointer attrs, const char *value);
#define RLX_MAX_ATTR_STRING 4096u
/* Keeps a copy of at most RLX_MAX_ATTR_INTS values. More, or NULL with a number above
 * 0, lead to an error when the node is created. */
void          rlx_ints_set               (RlxInts *ints, const gint64 *values, gsize n_values);
#define RLX_MAX_ATTR_INTS 65536u
gboolean      rlx_attr_equal             (const RlxAttrDef *def, gconstpointer a, gconstpointer b);
/* Whether the attribute has its default value. */
gboolean      rlx_attr_is_default        (const RlxOp *op, const RlxAttrDef *def, gconstpointer attrs);
/* The name of an enumeration's value or of a data type; NULL when there is none. */
const char *  rlx_attr_get_nick          (const RlxAttrDef *def, gconstpointer attrs);

/* The struct of attributes of a node, which must have that one. */
static inline gconstpointer
rlx_ir_node_get_attrs (const RlxIrNode *node,
                       guint            attrs_id)
{
#ifndef NDEBUG
  g_assert (node->op->attrs_id == attrs_id);
#endif
  return node->attrs;
}

G_END_DECLS
