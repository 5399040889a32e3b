/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Foreign operators in terms of the op table.
 *
 * A foreign operator is one row of a table: where it is only a matter of other
 * names and defaults, the row says so in words; else it names a function.
 */
#pragma once

#include "case.h"

G_BEGIN_DECLS

typedef struct _Build Build;
typedef struct _MapCall MapCall;
typedef struct _Mapping Mapping;

/* Adds nodes for one call of a foreign operator and sets its outputs. */
typedef gboolean (*MapFunc) (MapCall *call,
                             GError **error);

typedef enum
{
  MAP_TO_U8  = 1 << 0, /* the bool result is a u8 there */
  MAP_FROM_U8 = 1 << 1, /* the operands are u8 there and bool here */
} MapFlags;

#define TYPE_BIT(type) (1u << RLX_DATA_TYPE_##type)
#define TYPES_FLOAT (TYPE_BIT (F32) | TYPE_BIT (F16))
#define TYPES_SIGNED (TYPES_FLOAT | TYPE_BIT (I32) | TYPE_BIT (I8) | TYPE_BIT (I64))
#define TYPES_WIDE (TYPES_FLOAT | TYPE_BIT (I32) | TYPE_BIT (U32) | TYPE_BIT (I64) | TYPE_BIT (U64))
#define TYPES_INDEX (TYPE_BIT (I32) | TYPE_BIT (U32) | TYPE_BIT (I64))

struct _Mapping
{
  const char *name;     /* of the foreign operator, with "domain:" unless it is the default one */
  const char *op;       /* in the operator table; NULL: needs none */

  /* Names of the operands in order, with a "?" after optional ones: "input scale? bias?".
   * NULL if operands are positional instead of named: all that are given. */
  const char *operands;

  /* Attributes, each FOREIGN[:OURS]/KIND[=DEFAULT], separated by spaces. An absent one
   * without a default is left to the operator table. A list's default is empty.
   *   f  number         d  finite number
   *   i  integer        u  non-negative integer
   *   b  boolean        t  data type      s  word
   *   I  integers       U  non-negative integers
   *   A  integer that is the only element of a list here
   *   X  like U, by default all axes of the first operand */
  const char *attrs;

  /* Attributes that do not affect the result, separated by spaces. Any other attribute
   * that the mapping does not read makes the case unsupported. */
  const char *ignored;

  guint flags;          /* MapFlags */
  guint types;          /* types allowed for the first operand there, by TYPE_BIT; 0: as in the operator table */
  MapFunc func;         /* replaces all of the above */
};

#define ROW(foreign, ours, ...) { .name = foreign, .op = ours, __VA_ARGS__ }

struct _MapCall
{
  Build *build;
  const CaseOp *op;
  const Mapping *mapping;
  GHashTable *used;     /* JsonNode: the arguments and inputs that were read */
};

/* Ends with a row whose name is NULL. */
extern const Mapping mappings_webnn[];
extern const Mapping mappings_ref[];

/* NULL if there is none. */
const Mapping * mapping_find        (Family           family,
                                     const CaseOp    *op);
/* The same; for NAME_backward, which is the gradient of NAME, that of NAME. */
const Mapping * mapping_find_forward (Family          family,
                                      const CaseOp   *op);
#define MAPPING_BACKWARD "_backward"
gboolean        mapping_call        (MapCall         *call,
                                     GError         **error);
/* Whether the operator table has what it maps onto. */
gboolean        mapping_has_target  (const Mapping   *mapping);

/* ---- arguments --------------------------------------------------------------- */

/* The member, or NULL if it is absent or null. Marks it as used. */
JsonNode *      map_arg             (MapCall         *call,
                                     const char      *name);
gboolean        map_arg_int         (MapCall         *call,
                                     const char      *name,
                                     gint64           fallback,
                                     gint64          *value,
                                     GError         **error);
gboolean        map_arg_double      (MapCall         *call,
                                     const char      *name,
                                     double           fallback,
                                     double          *value,
                                     GError         **error);
gboolean        map_arg_bool        (MapCall         *call,
                                     const char      *name,
                                     gboolean         fallback,
                                     gboolean        *value,
                                     GError         **error);
/* NULL without an error if it is absent. */
const char *    map_arg_string      (MapCall         *call,
                                     const char      *name,
                                     GError         **error);
gint64 *        map_arg_ints        (MapCall         *call,
                                     const char      *name,
                                     gsize           *n_values,
                                     GError         **error);

/* Operands by name (WebNN) or position (the others). NULL without an error if an optional
 * one is absent. */
RlxNode *       map_operand         (MapCall         *call,
                                     const char      *name,
                                     gboolean         optional,
                                     GError         **error);
RlxNode *       map_operand_node    (MapCall         *call,
                                     JsonNode        *node,
                                     const char      *what,
                                     GError         **error);
guint           map_n_inputs        (MapCall         *call);
/* Whether there is one at that position; does not mark it as used. */
gboolean        map_has_input       (MapCall         *call,
                                     guint            index);
RlxNode *       map_input           (MapCall         *call,
                                     guint            index,
                                     gboolean         optional,
                                     GError         **error);

/* ---- nodes --------------------------------------------------------------------- */

/* Attributes are a floating a{sv} or NULL. */
RlxNode *       map_op              (MapCall         *call,
                                     const char      *op,
                                     RlxNode        **inputs,
                                     gsize            n_inputs,
                                     GVariant        *attrs,
                                     GError         **error);
RlxNode *       map_op1             (MapCall         *call,
                                     const char      *op,
                                     RlxNode         *a,
                                     GVariant        *attrs,
                                     GError         **error);
RlxNode *       map_op2             (MapCall         *call,
                                     const char      *op,
                                     RlxNode         *a,
                                     RlxNode         *b,
                                     GVariant        *attrs,
                                     GError         **error);
/* Like map_op2(), but rejected unless the result has the shape of @a. */
RlxNode *       map_op2_onto        (MapCall         *call,
                                     const char      *op,
                                     RlxNode         *a,
                                     RlxNode         *b,
                                     GError         **error);
gboolean        map_same_shape      (RlxNode         *a,
                                     RlxNode         *b);
RlxNode *       map_cast            (MapCall         *call,
                                     RlxNode         *node,
                                     RlxDataType      data_type,
                                     GError         **error);
RlxNode *       map_reshape         (MapCall         *call,
                                     RlxNode         *node,
                                     const gint64    *shape,
                                     gsize            n_dims,
                                     GError         **error);
RlxNode *       map_constant        (MapCall         *call,
                                     RlxTensor       *tensor,
                                     GError         **error);
/* One attribute, two attributes, … as for g_variant_dict_insert(), until NULL. */
GVariant *      map_attrs           (const char      *name,
                                     ...);
GVariant *      map_ints            (const gint64    *values,
                                     gsize            n_values);
GVariant *      map_data_type       (RlxDataType      data_type);

/* Sets output @index; TRUE unless @node is NULL (with an error set). */
gboolean        map_return          (MapCall         *call,
                                     guint            index,
                                     RlxNode         *node);
/* Whether the case wants that output. */
gboolean        map_wants_output    (MapCall         *call,
                                     guint            index);

gboolean        map_unsupported     (GError         **error,
                                     const char      *format,
                                     ...) G_GNUC_PRINTF (2, 3);
gboolean        map_refused         (GError         **error,
                                     const char      *format,
                                     ...) G_GNUC_PRINTF (2, 3);

/* ---- the graph under construction ------------------------------------------------ */

Build *         build_new           (const Case      *test,
                                     RlxDevice       *device);
void            build_free          (Build           *self);
/* Maps the operators. */
gboolean        build_all           (Build           *self,
                                     GError         **error);
RlxGraph *      build_get_graph     (Build           *self);
/* The value of that name: an earlier result, or an input, created on first use. */
RlxNode *       build_get           (Build           *self,
                                     const char      *name,
                                     GError         **error);
void            build_set           (Build           *self,
                                     const char      *name,
                                     RlxNode         *node);
/* Compiles and runs; returns the outputs by name, in the order of declaration. */
RlxTensor **    build_run           (Build           *self,
                                     char          ***names,
                                     gsize           *n_outputs,
                                     GError         **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Build, build_free)

G_END_DECLS
