/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * JSON from strangers, token by token: the caller knows what has to come next, so
 * nothing is built, nothing recurses, and no number becomes a double on its way.
 * Only what RFC 8259 allows is taken. Every failure is RLX_WEIGHTS_ERROR_PARSE, with
 * the place in the file.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *start;
  const char *p;
  const char *end;
  guint64 base;              /* offset of the text in the file */
} RlxJson;

guint64  rlx_json_get_place (const RlxJson *json);
/* The next character that is not white space, or NUL at the end. */
char     rlx_json_peek      (RlxJson       *json);
gboolean rlx_json_accept    (RlxJson       *json,
                             char           token);
gboolean rlx_json_expect    (RlxJson       *json,
                             char           token,
                             GError       **error);
/* Skips what precedes the next member of an object or an array: nothing or a comma,
 * depending on @first, which it clears. @more is FALSE after the closing @token. */
gboolean rlx_json_next      (RlxJson       *json,
                             char           token,
                             gboolean      *first,
                             gboolean      *more,
                             GError       **error);
/* Replaces the contents of @text by the string: UTF-8 without a NUL. */
gboolean rlx_json_string    (RlxJson       *json,
                             GString       *text,
                             GError       **error);
/* Digits, and nothing else; beyond 64 bits is RLX_WEIGHTS_ERROR_LIMIT. @field is for
 * messages. */
gboolean rlx_json_unsigned  (RlxJson       *json,
                             const char    *field,
                             guint64       *value,
                             GError       **error);
/* Any value, of at most 32 levels. */
gboolean rlx_json_skip      (RlxJson       *json,
                             GError       **error);
/* Only white space is left. */
gboolean rlx_json_end       (RlxJson       *json,
                             GError       **error);
gboolean rlx_json_fail      (const RlxJson *json,
                             GError       **error,
                             const char    *format,
                             ...) G_GNUC_PRINTF (3, 4);

G_END_DECLS
