/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Conformance cases as they are in the files.
 */
#pragma once

#include <json-glib/json-glib.h>
#include <rlx-wgpu/rlx-wgpu.h>

#include "compare.h"

G_BEGIN_DECLS

#define CONFORMANCE_ERROR (conformance_error_quark ())

typedef enum
{
  CONFORMANCE_ERROR_MALFORMED,   /* the file is not in the case format */
  CONFORMANCE_ERROR_UNSUPPORTED, /* the library has no equivalent yet */
  CONFORMANCE_ERROR_REFUSED,     /* the foreign specification forbids what the library would allow */
} ConformanceError;

GQuark conformance_error_quark (void);

/* The family whose operator names and argument conventions a case follows. */
typedef enum
{
  FAMILY_WEBNN,
  FAMILY_ONNX,
  FAMILY_REF,
  FAMILY_GGUF,
} Family;

typedef enum
{
  EXPECT_VALUES,
  EXPECT_ERROR,
  EXPECT_SHAPES,
} Expect;

typedef struct
{
  char *name;
  char *dtype;              /* as written, even if the library lacks it */
  gboolean known;           /* data_type is valid */
  RlxDataType data_type;
  gint64 *shape;
  guint n_dims;
  gboolean constant;
  gboolean param;
  gboolean foreign_graph;
  JsonArray *data;          /* borrowed; at most one of data, fill, base64 */
  JsonNode *fill;
  const char *base64;
} CaseTensor;

typedef struct
{
  char *name;
  char *domain;             /* nullable */
  JsonObject *args;         /* borrowed */
  GStrv outputs;
} CaseOp;

typedef struct
{
  char *id;
  char *suite;
  char *op;
  char *name;
  char *quirk;              /* nullable */
  Family family;
  Expect expect;
  int opset;                /* G_MAXINT: the newest */
  GPtrArray *inputs;        /* CaseTensor */
  GPtrArray *ops;           /* CaseOp */
  GPtrArray *outputs;       /* CaseTensor */
  Tolerance tolerance;
} Case;

typedef struct
{
  JsonParser *parser;       /* owns the data that the cases borrow */
  GPtrArray *cases;         /* Case */
  GPtrArray *problems;      /* errors in cases that are therefore left out: char * */
} CaseFile;

/* Sets the error if the file as a whole is not a case file. */
CaseFile *         case_file_load      (const char       *path,
                                        GError          **error);
CaseFile *         case_file_parse     (const char       *label,
                                        const char       *text,
                                        gsize             length,
                                        GError          **error);
void               case_file_free      (CaseFile         *self);

const CaseTensor * case_find_input     (const Case       *self,
                                        const char       *name);
CaseTensor *       case_tensor_parse   (const char       *name,
                                        JsonNode         *node,
                                        GError          **error);
void               case_tensor_free    (CaseTensor       *self);
char *             case_tensor_describe (const CaseTensor *self);
gboolean           case_tensor_has_data (const CaseTensor *self);
/* The elements as the library stores them: all, or the first @limit (0: all). Zeros if
 * there is no data. */
GBytes *           case_tensor_to_bytes (const CaseTensor *self,
                                        gsize             limit,
                                        GError          **error);
RlxTensor *        case_tensor_to_rlx  (const CaseTensor *self,
                                        GError          **error);
gint64 *           case_tensor_to_ints (const CaseTensor *self,
                                        gsize            *n_values,
                                        GError          **error);

/* Numbers of the format: JSON numbers, "NaN", "Infinity", decimal strings. */
gboolean           case_number_to_double (JsonNode       *node,
                                          double         *value);
/* Whether the number is an integer and in range. */
gboolean           case_number_to_int    (JsonNode       *node,
                                          gint64         *value);
/* A decimal string: a 64-bit integer of the format, a BigInt in WebNN. */
gboolean           case_number_is_string (JsonNode       *node);
gboolean           case_data_type_from_string (const char  *name,
                                               RlxDataType *data_type);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (CaseFile, case_file_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (CaseTensor, case_tensor_free)

G_END_DECLS
