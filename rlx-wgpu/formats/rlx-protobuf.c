/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-protobuf-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

#define PIECE 16384
#define MAX_VARINT 10
/* The initial size of the tape, which grows in proportion to its size. */
#define FIRST_BYTES 4096

/* How a field is encoded in the file. */
enum
{
  WIRE_VARINT,
  WIRE_64,
  WIRE_LENGTH,
  WIRE_GROUP,
  WIRE_END_GROUP,
  WIRE_32,
};

typedef struct
{
  RlxSource *source;
  GCancellable *cancellable;
  const RlxProtobufLimits *limits;
  guint64 at;
  guint64 start;             /* offset of the piece's contents */
  gsize filled;
  RlxProtobuf *tape;
  gsize room;                /* allocated size of the tape */
  guint8 piece[PIECE];
} Reader;

gboolean
rlx_model_fail (GError      **error,
                RlxModelError code,
                guint64       at,
                const char   *format,
                ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, RLX_MODEL_ERROR, code, "At byte %" G_GUINT64_FORMAT ": %s", at, message);
  return FALSE;
}

void
rlx_model_adopt_error (GError **error)
{
  if (error != NULL && *error != NULL && (*error)->domain == RLX_WEIGHTS_ERROR)
    {
      /* Both enumerations start with the same codes. */
      if ((*error)->code > RLX_MODEL_ERROR_UNSUPPORTED)
        (*error)->code = RLX_MODEL_ERROR_INVALID;
      (*error)->domain = RLX_MODEL_ERROR;
    }
}

void
rlx_protobuf_free (RlxProtobuf *self)
{
  g_free (self->bytes);
  g_free (self);
}

/* ---- the tape -------------------------------------------------------------------------- */

static gboolean
put (Reader     *reader,
     const void *bytes,
     gsize       n,
     GError    **error)
{
  RlxProtobuf *tape = reader->tape;

  if (n > reader->limits->max_bytes - tape->length)
    return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, reader->at,
                           "there is more than the limit of %u bytes besides the elements of tensors", reader->limits->max_bytes);
  if (n > reader->room - tape->length)
    {
      gsize room = MAX (tape->length + n, reader->room + MAX (reader->room / 4, FIRST_BYTES));
      guint8 *larger = g_try_realloc (tape->bytes, room);

      if (larger == NULL)
        return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, reader->at, "there is no memory for %" G_GSIZE_FORMAT " bytes", room);
      tape->bytes = larger;
      reader->room = room;
    }
  memcpy (tape->bytes + tape->length, bytes, n);
  tape->length += n;
  return TRUE;
}

static gboolean
put_varint (Reader  *reader,
            guint64  value,
            GError **error)
{
  guint8 bytes[MAX_VARINT];
  gsize n = 0;

  do
    {
      bytes[n] = (guint8) (value & 0x7f);
      value >>= 7;
      if (value != 0)
        bytes[n] |= 0x80;
      n++;
    }
  while (value != 0);
  return put (reader, bytes, n, error);
}

static gboolean
put_head (Reader         *reader,
          guint           number,
          RlxProtobufKind kind,
          GError        **error)
{
  return put_varint (reader, number << 4 | kind, error);
}

/* ---- the file -------------------------------------------------------------------------- */

/* Refills the piece from the current position; there is at least one byte. */
static gboolean
fill (Reader     *reader,
      const char *what,
      GError    **error)
{
  gsize size = (gsize) MIN (PIECE, rlx_source_get_size (reader->source) - reader->at);

  reader->filled = 0;
  if (!rlx_source_read (reader->source, what, reader->at, reader->piece, size, reader->cancellable, error))
    {
      rlx_model_adopt_error (error);
      return FALSE;
    }
  reader->start = reader->at;
  reader->filled = size;
  return TRUE;
}

/* The next bytes, up to @n, as many as are in the piece; the caller has checked that there are @n. */
static const guint8 *
look (Reader     *reader,
      const char *what,
      guint64     n,
      gsize      *n_there,
      GError    **error)
{
  if ((reader->at < reader->start || reader->at >= reader->start + reader->filled) && !fill (reader, what, error))
    return NULL;
  *n_there = (gsize) MIN (n, reader->start + reader->filled - reader->at);
  return reader->piece + (reader->at - reader->start);
}

/* Distinguishes a message that extends beyond the end of the file from one that extends beyond its parent. */
static gboolean
fail_short (Reader     *reader,
            guint64     at,
            guint64     end,
            const char *what,
            GError    **error)
{
  guint64 size = rlx_source_get_size (reader->source);

  if (end >= size)
    return rlx_model_fail (error, RLX_MODEL_ERROR_TRUNCATED, at, "the file ends in %s; it has %" G_GUINT64_FORMAT " bytes", what, size);
  return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s goes on beyond byte %" G_GUINT64_FORMAT ", where the message around it ends", what, end);
}

static gboolean
take_varint (Reader     *reader,
             guint64     end,
             const char *what,
             guint64    *value,
             GError    **error)
{
  guint64 at = reader->at;

  *value = 0;
  for (guint i = 0; i < MAX_VARINT; i++)
    {
      const guint8 *byte;
      gsize n;

      if (reader->at >= end)
        return fail_short (reader, at, end, what, error);
      byte = look (reader, what, 1, &n, error);
      if (byte == NULL)
        return FALSE;
      if (i == MAX_VARINT - 1 && *byte > 1)
        break;
      *value |= (guint64) (*byte & 0x7f) << (7 * i);
      reader->at++;
      if (*byte < 0x80)
        return TRUE;
    }
  return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s is a number of more than 64 bits", what);
}

/* Reads a length, which must fit into the rest of the message. */
static gboolean
take_length (Reader     *reader,
             guint64     end,
             const char *what,
             guint64    *length,
             GError    **error)
{
  guint64 at = reader->at;

  if (!take_varint (reader, end, what, length, error))
    return FALSE;
  if (*length > end - reader->at)
    return end >= rlx_source_get_size (reader->source)
             ? rlx_model_fail (error, RLX_MODEL_ERROR_TRUNCATED, at,
                               "the file ends in %s: %" G_GUINT64_FORMAT " bytes are needed, %" G_GUINT64_FORMAT " are there",
                               what, *length, end - reader->at)
             : rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at,
                               "%s has a length of %" G_GUINT64_FORMAT ", but the message around it has %" G_GUINT64_FORMAT " bytes left",
                               what, *length, end - reader->at);
  return TRUE;
}

/* Copies bytes to the tape. */
static gboolean
copy (Reader     *reader,
      const char *what,
      guint64     n,
      GError    **error)
{
  while (n > 0)
    {
      gsize part;
      const guint8 *bytes = look (reader, what, n, &part, error);

      if (bytes == NULL || !put (reader, bytes, part, error))
        return FALSE;
      reader->at += part;
      n -= part;
    }
  return TRUE;
}

/* ---- fields ---------------------------------------------------------------------------- */

static gboolean
skip_field (Reader  *reader,
            guint64  end,
            guint    wire,
            guint64  at,
            GError **error)
{
  guint64 n;

  switch (wire)
    {
    case WIRE_VARINT:
      return take_varint (reader, end, "an unknown field", &n, error);
    case WIRE_64:
    case WIRE_32:
      n = wire == WIRE_64 ? 8 : 4;
      if (n > end - reader->at)
        return fail_short (reader, at, end, "an unknown field", error);
      break;
    case WIRE_LENGTH:
      if (!take_length (reader, end, "an unknown field", &n, error))
        return FALSE;
      break;
    default:
      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "a field has the unknown wire type %u", wire);
    }
  reader->at += n;
  return TRUE;
}

static gboolean
take_text (Reader                 *reader,
           guint64                 end,
           const RlxProtobufField *field,
           const char             *what,
           GError                **error)
{
  guint64 at = reader->at, length;
  const char *text;

  if (!take_length (reader, end, what, &length, error))
    return FALSE;
  if (length > reader->limits->max_text)
    return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, at, "%s has %" G_GUINT64_FORMAT " bytes; the limit is %u",
                           what, length, reader->limits->max_text);
  if (field->required && length == 0)
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s is empty", what);
  if (!put_head (reader, field->number, field->kind, error) || !put_varint (reader, length, error) ||
      !copy (reader, what, length, error) || !put (reader, "", 1, error))
    return FALSE;

  text = (const char *) reader->tape->bytes + reader->tape->length - 1 - length;
  if (field->kind == RLX_PROTOBUF_TEXT && !g_utf8_validate_len (text, (gsize) length, NULL))
    {
      g_autofree char *quoted = rlx_quote_text (text, (gssize) length);

      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s %s: %s", what,
                             memchr (text, '\0', (gsize) length) != NULL ? "has a NUL byte" : "is not UTF-8", quoted);
    }
  return TRUE;
}

/* The encoded size of a number. */
static guint
count_varint (guint64 value)
{
  guint n = 1;

  for (value >>= 7; value != 0; value >>= 7)
    n++;
  return n;
}

/* One or more numbers; the tape has them packed. */
static gboolean
take_numbers (Reader                 *reader,
              guint64                 end,
              guint                   wire,
              const RlxProtobufField *field,
              const char             *what,
              GError                **error)
{
  gboolean floats = field->kind == RLX_PROTOBUF_FLOATS;
  guint64 at = reader->at, length, value;

  if (wire == WIRE_LENGTH)
    {
      if (!take_length (reader, end, what, &length, error))
        return FALSE;
      if (floats && length % 4 != 0)
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s has %" G_GUINT64_FORMAT " bytes, which is not a whole number of floats", what, length);
      if (length == 0)
        return TRUE;
      if (!put_head (reader, field->number, field->kind, error) || !put_varint (reader, length, error))
        return FALSE;
      if (floats)
        return copy (reader, what, length, error);
      for (end = reader->at + length; reader->at < end;)
        {
          at = reader->at;
          if (!take_varint (reader, end, what, &value, error) || !put_varint (reader, value, error))
            return FALSE;
          if (reader->at - at != count_varint (value))
            return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "a number of %s has more bytes than it needs", what);
        }
      return TRUE;
    }

  /* A single number, whose bytes must be within the message. */
  if (floats && end - reader->at < 4)
    return fail_short (reader, at, end, what, error);
  if (!put_head (reader, field->number, field->kind, error))
    return FALSE;
  if (floats)
    return put_varint (reader, 4, error) && copy (reader, what, 4, error);
  if (!take_varint (reader, end, what, &value, error))
    return FALSE;
  return put_varint (reader, count_varint (value), error) && put_varint (reader, value, error);
}

static gboolean
take_data (Reader                 *reader,
           guint64                 end,
           guint                   wire,
           const RlxProtobufField *field,
           const char             *what,
           GError                **error)
{
  guint64 at = reader->at, length;

  if (wire != WIRE_LENGTH)
    return rlx_model_fail (error, RLX_MODEL_ERROR_UNSUPPORTED, at, "%s is a list of single numbers instead of packed", what);
  if (!take_length (reader, end, what, &length, error) ||
      !put_head (reader, field->number, field->kind, error) ||
      !put_varint (reader, reader->at, error) ||
      !put_varint (reader, length, error))
    return FALSE;
  reader->at += length;
  return TRUE;
}

/* Whether a field of that kind may have that encoding. */
static gboolean
fits_wire (RlxProtobufKind kind,
           guint           wire)
{
  switch (kind)
    {
    case RLX_PROTOBUF_INT:
      return wire == WIRE_VARINT;
    case RLX_PROTOBUF_FLOAT:
      return wire == WIRE_32;
    case RLX_PROTOBUF_INTS:
      return wire == WIRE_VARINT || wire == WIRE_LENGTH;
    case RLX_PROTOBUF_FLOATS:
      return wire == WIRE_32 || wire == WIRE_LENGTH;
    case RLX_PROTOBUF_DATA:
      return wire == WIRE_VARINT || wire == WIRE_32 || wire == WIRE_64 || wire == WIRE_LENGTH;
    default:
      return wire == WIRE_LENGTH;
    }
}

static gboolean take_message (Reader                  *reader,
                              guint64                  end,
                              const RlxProtobufSchema *schema,
                              guint                    depth,
                              GError                 **error);

static gboolean
take_field (Reader                  *reader,
            guint64                  end,
            guint                    wire,
            const RlxProtobufField  *field,
            guint                    depth,
            GError                 **error)
{
  const char *what = field->name;
  guint64 at = reader->at, n;

  if (!fits_wire (field->kind, wire))
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s has the wire type %u", what, wire);

  switch ((RlxProtobufKind) field->kind)
    {
    case RLX_PROTOBUF_INT:
      return take_varint (reader, end, what, &n, error) && put_head (reader, field->number, field->kind, error) &&
             put_varint (reader, n, error);
    case RLX_PROTOBUF_FLOAT:
      if (end - reader->at < 4)
        return fail_short (reader, at, end, what, error);
      return put_head (reader, field->number, field->kind, error) && copy (reader, what, 4, error);
    case RLX_PROTOBUF_INTS:
    case RLX_PROTOBUF_FLOATS:
      return take_numbers (reader, end, wire, field, what, error);
    case RLX_PROTOBUF_TEXT:
    case RLX_PROTOBUF_BYTES:
      return take_text (reader, end, field, what, error);
    case RLX_PROTOBUF_DATA:
      return take_data (reader, end, wire, field, what, error);
    case RLX_PROTOBUF_MESSAGE:
      if (depth == RLX_PROTOBUF_MAX_DEPTH)
        return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, at, "%s is more than %d messages deep", what, RLX_PROTOBUF_MAX_DEPTH);
      if (!take_length (reader, end, what, &n, error) ||
          !put_head (reader, field->number, field->message->placed ? RLX_PROTOBUF_PLACED : RLX_PROTOBUF_MESSAGE, error) ||
          (field->message->placed && !put_varint (reader, reader->at, error)))
        return FALSE;
      return take_message (reader, reader->at + n, field->message, depth + 1, error);
    case RLX_PROTOBUF_END:
    case RLX_PROTOBUF_PLACED:
    default:
      g_assert_not_reached ();
    }
}

static gboolean
take_message (Reader                  *reader,
              guint64                  end,
              const RlxProtobufSchema *schema,
              guint                    depth,
              GError                 **error)
{
  guint64 first = reader->at, seen = 0;

  while (reader->at < end)
    {
      const RlxProtobufField *field = schema->fields;
      guint64 at = reader->at, tag, number;

      if (!take_varint (reader, end, schema->name, &tag, error))
        return FALSE;
      number = tag >> 3;
      if (number == 0 || tag > G_MAXUINT32)
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s has a field of number %" G_GUINT64_FORMAT, schema->name, number);
      while (field->name != NULL && field->number != number)
        field++;
      if (field->name == NULL)
        {
          if (!skip_field (reader, end, (guint) (tag & 7), at, error))
            return FALSE;
          continue;
        }
      if (!field->repeated && field->kind != RLX_PROTOBUF_INTS && field->kind != RLX_PROTOBUF_FLOATS &&
          (seen & G_GUINT64_CONSTANT (1) << number) != 0)
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "%s comes twice", field->name);
      seen |= G_GUINT64_CONSTANT (1) << number;
      if (!take_field (reader, end, (guint) (tag & 7), field, depth, error))
        return FALSE;
    }

  for (const RlxProtobufField *field = schema->fields; field->name != NULL; field++)
    if (field->required && (seen & G_GUINT64_CONSTANT (1) << field->number) == 0)
      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, first, "%s is missing", field->name);
  return put_head (reader, 0, RLX_PROTOBUF_END, error);
}

RlxProtobuf *
rlx_protobuf_read (RlxSource               *source,
                   const RlxProtobufSchema *schema,
                   const RlxProtobufLimits *limits,
                   GCancellable            *cancellable,
                   GError                 **error)
{
  g_autoptr(RlxProtobuf) tape = g_new0 (RlxProtobuf, 1);
  g_autofree Reader *reader = g_new0 (Reader, 1);
  guint8 *exact;

  reader->source = source;
  reader->cancellable = cancellable;
  reader->limits = limits;
  reader->tape = tape;
  if (!take_message (reader, rlx_source_get_size (source), schema, 1, error))
    return NULL;
  exact = g_try_realloc (tape->bytes, tape->length);
  if (exact != NULL)
    tape->bytes = exact;
  return g_steal_pointer (&tape);
}

/* ---- reading the tape ------------------------------------------------------------------- */

gsize
rlx_varint_read (const guint8 *bytes,
                 gsize         size,
                 guint64      *value)
{
  *value = 0;
  for (gsize i = 0; i < MIN (size, MAX_VARINT); i++)
    {
      if (i == MAX_VARINT - 1 && bytes[i] > 1)
        return 0;
      *value |= (guint64) (bytes[i] & 0x7f) << (7 * i);
      if (bytes[i] < 0x80)
        return i + 1;
    }
  return 0;
}

static guint64
get_varint (const guint8 **at)
{
  guint64 value;

  *at += rlx_varint_read (*at, MAX_VARINT, &value);
  return value;
}

/* Reads a field; for a message, only its start. */
static gboolean
get_field (const guint8    **at,
           RlxProtobufValue *value)
{
  guint64 head = get_varint (at);

  *value = (RlxProtobufValue) { .number = (guint) (head >> 4), .kind = (RlxProtobufKind) (head & 15) };
  switch (value->kind)
    {
    case RLX_PROTOBUF_END:
      return FALSE;
    case RLX_PROTOBUF_INT:
      value->integer = (gint64) get_varint (at);
      break;
    case RLX_PROTOBUF_FLOAT:
      {
        guint32 bits;

        memcpy (&bits, *at, 4);
        bits = GUINT32_FROM_LE (bits);
        memcpy (&value->real, &bits, 4);
        *at += 4;
        break;
      }
    case RLX_PROTOBUF_DATA:
      value->offset = get_varint (at);
      value->length = (gsize) get_varint (at);
      break;
    case RLX_PROTOBUF_PLACED:
      value->kind = RLX_PROTOBUF_MESSAGE;
      value->offset = get_varint (at);
      value->message = *at;
      break;
    case RLX_PROTOBUF_MESSAGE:
      value->message = *at;
      break;
    case RLX_PROTOBUF_TEXT:
    case RLX_PROTOBUF_BYTES:
    case RLX_PROTOBUF_INTS:
    case RLX_PROTOBUF_FLOATS:
    default:
      value->length = (gsize) get_varint (at);
      value->text = (const char *) *at;
      *at += value->length + (value->kind == RLX_PROTOBUF_TEXT || value->kind == RLX_PROTOBUF_BYTES);
    }
  return TRUE;
}

gboolean
rlx_protobuf_next (const guint8    **at,
                   RlxProtobufValue *value)
{
  if (!get_field (at, value))
    return FALSE;
  for (guint depth = value->kind == RLX_PROTOBUF_MESSAGE; depth > 0;)
    {
      RlxProtobufValue inner;

      if (!get_field (at, &inner))
        depth--;
      else if (inner.kind == RLX_PROTOBUF_MESSAGE)
        depth++;
    }
  return TRUE;
}

gboolean
rlx_protobuf_next_int (RlxProtobufValue *value,
                       gint64           *number)
{
  guint64 bits;
  gsize n = rlx_varint_read ((const guint8 *) value->text, value->length, &bits);

  value->text += n;
  value->length -= n;
  *number = (gint64) bits;
  return n > 0;
}

gboolean
rlx_protobuf_next_float (RlxProtobufValue *value,
                         float            *number)
{
  guint32 bits;

  if (value->length < 4)
    return FALSE;
  memcpy (&bits, value->text, 4);
  bits = GUINT32_FROM_LE (bits);
  memcpy (number, &bits, 4);
  value->text += 4;
  value->length -= 4;
  return TRUE;
}
