/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Messages of protocol buffers, as far as files of models need them.
 *
 * A file is read once, in pieces, and becomes a tape: the same fields one after the
 * other, with what a reader would have to check again already checked. Large arrays
 * stay in the file, and the tape says where. Fields that the schema does not have are
 * left out. So the tape is about as long as what a file says besides its numbers, and
 * nothing is ever allocated from a length that the file only claims to have.
 */
#pragma once

#include "formats/rlx-source-private.h"
#include "rlx-types.h"

G_BEGIN_DECLS

/* The nesting limit of messages. */
#define RLX_PROTOBUF_MAX_DEPTH 64

typedef enum
{
  RLX_PROTOBUF_END,      /* of a message; on the tape only */
  RLX_PROTOBUF_INT,      /* a number, at most once */
  RLX_PROTOBUF_FLOAT,    /* of 32 bits, at most once */
  RLX_PROTOBUF_INTS,     /* any number of them, packed or not */
  RLX_PROTOBUF_FLOATS,
  RLX_PROTOBUF_TEXT,     /* UTF-8 without NUL, as a string of C */
  RLX_PROTOBUF_BYTES,    /* any bytes, with a NUL appended */
  RLX_PROTOBUF_MESSAGE,
  RLX_PROTOBUF_PLACED,   /* a message whose offset is recorded; on the tape only */
  RLX_PROTOBUF_DATA,     /* an array of bytes or packed numbers that stays where it is */
} RlxProtobufKind;

typedef struct _RlxProtobufSchema RlxProtobufSchema;

typedef struct
{
  const char *name;                  /* with that of the message, for errors; NULL ends a list */
  guint8 number;                     /* below 64 */
  guint8 kind;                       /* RlxProtobufKind */
  gboolean repeated;                 /* of texts, bytes and messages; INTS and FLOATS always are */
  gboolean required;                 /* and not empty */
  const RlxProtobufSchema *message;
} RlxProtobufField;

struct _RlxProtobufSchema
{
  const char *name;
  const RlxProtobufField *fields;
  gboolean placed;                   /* the tape tells where in the file it is */
};

typedef struct
{
  guint max_bytes;                   /* of the tape, that is of all but arrays */
  guint max_text;                    /* of a text or of bytes */
} RlxProtobufLimits;

/* A file as a tape. */
typedef struct
{
  guint8 *bytes;
  gsize length;
} RlxProtobuf;

/* Errors are RLX_MODEL_ERROR or those of reading. */
RlxProtobuf * rlx_protobuf_read   (RlxSource               *source,
                                   const RlxProtobufSchema *schema,
                                   const RlxProtobufLimits *limits,
                                   GCancellable            *cancellable,
                                   GError                 **error);
void          rlx_protobuf_free   (RlxProtobuf             *self);

/* A field on a tape. */
typedef struct
{
  guint number;
  RlxProtobufKind kind;
  gint64 integer;
  float real;
  const char *text;                  /* of TEXT and BYTES, and the numbers of INTS and FLOATS */
  gsize length;                      /* of that, or of the DATA */
  guint64 offset;                    /* in the file: of DATA, or of a MESSAGE that is placed */
  const guint8 *message;             /* where its first field is */
} RlxProtobufValue;

/* Moves on to the next field of a message, skipping nested ones; FALSE at its end. */
gboolean      rlx_protobuf_next   (const guint8           **at,
                                   RlxProtobufValue        *value);
/* Takes the next number of INTS or FLOATS; FALSE if there are no more. */
gboolean      rlx_protobuf_next_int   (RlxProtobufValue    *value,
                                       gint64              *number);
gboolean      rlx_protobuf_next_float (RlxProtobufValue    *value,
                                       float               *number);

/* Decodes a varint from at most @size bytes; returns the number of bytes used, or 0 if it is invalid. */
gsize         rlx_varint_read     (const guint8            *bytes,
                                   gsize                    size,
                                   guint64                 *value);

/* "At byte N: …"; always FALSE. */
gboolean      rlx_model_fail      (GError                 **error,
                                   RlxModelError            code,
                                   guint64                  at,
                                   const char              *format,
                                   ...) G_GNUC_PRINTF (4, 5);

/* Converts an error of reading, which has the domain of weights, to one of a model. */
void          rlx_model_adopt_error (GError              **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxProtobuf, rlx_protobuf_free)

G_END_DECLS
