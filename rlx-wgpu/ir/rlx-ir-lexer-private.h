/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The pieces of the text form: rlx-ir-text.c says what it is.
 */
#pragma once

#include "rlx-types.h"

G_BEGIN_DECLS

/* Both directions must agree on the NaNs that are written as "nan", and on the byte
 * order of base64. */
#define RLX_IR_NAN_F32 0x7fc00000u
#define RLX_IR_NAN_F16 0x7e00u
/* To or from little-endian, in place. */
void     rlx_ir_swap_bytes     (RlxDataType  data_type,
                                guint8      *data,
                                gsize        size);

/* The state of the reader. The text is valid UTF-8 and ends in NUL. */
typedef struct
{
  const char *p;
  const char *line_start;
  guint line;             /* from 1 */
} RlxLexer;

typedef struct
{
  enum
  {
    RLX_LEXER_SIGNED,     /* an integer that fits i */
    RLX_LEXER_UNSIGNED,   /* one that fits only u */
    RLX_LEXER_FLOAT,
    RLX_LEXER_BOOL,
  } kind;
  gint64 i;
  guint64 u;
  double f;               /* for all of them */
  gboolean overflow;      /* finite in the text, but not in @f */
  const char *start;
} RlxLexerNumber;

/* RLX_GRAPH_ERROR_PARSE at @where, which is on the current line. Returns FALSE. */
gboolean rlx_lexer_error       (RlxLexer    *self,
                                const char  *where,
                                GError     **error,
                                const char  *format,
                                ...) G_GNUC_PRINTF (4, 5);
/* The same, at the current place, for a missing @what. */
gboolean rlx_lexer_expected    (RlxLexer    *self,
                                const char  *what,
                                GError     **error);

void     rlx_lexer_skip_space  (RlxLexer    *self);
/* Also skips a comment before the end of the line. */
gboolean rlx_lexer_at_line_end (RlxLexer    *self);
/* To the start of the next line that is not empty; FALSE at the end. */
gboolean rlx_lexer_next_line   (RlxLexer    *self);
gboolean rlx_lexer_accept      (RlxLexer    *self,
                                char         c);
gboolean rlx_lexer_read_char   (RlxLexer    *self,
                                char         c,
                                GError     **error);
/* A letter, then letters, digits, "_" and "-"; 0 when there is none. */
gsize    rlx_lexer_word_length (const char  *p);
char *   rlx_lexer_read_word   (RlxLexer    *self,
                                const char  *what,
                                GError     **error);
char *   rlx_lexer_read_string (RlxLexer    *self,
                                const char  *what,
                                GError     **error);
/* A number, or nan, inf, -inf, true or false. */
gboolean rlx_lexer_read_number (RlxLexer       *self,
                                RlxLexerNumber *number,
                                const char     *what,
                                GError        **error);
/* In a list, after the bracket that opens it: whether there is another element,
 * in @more. @first is TRUE before the first call. */
gboolean rlx_lexer_read_next   (RlxLexer    *self,
                                char         close,
                                gboolean    *first,
                                gboolean    *more,
                                GError     **error);

G_END_DECLS
