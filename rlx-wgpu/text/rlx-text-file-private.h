/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The small files beside a model's weights: texts, and objects of JSON of which a few
 * members matter.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* The size limit of a file. */
#define RLX_MAX_TEXT_FILE ((gsize) 16 << 20)

/* The contents of the file @name in @folder. If it is @optional and missing, returns NULL
 * without an error. */
GBytes *   rlx_text_file_load  (GFile             *folder,
                                const char        *name,
                                gboolean           optional,
                                GCancellable      *cancellable,
                                GError           **error);

/* A member of an object: exactly one of the pointers is not NULL. Members that are
 * missing leave their target unchanged. */
typedef struct
{
  const char *name;
  char **string;             /* freed when it is replaced; null leaves it */
  gboolean *boolean;         /* null leaves it */
  guint64 *number;           /* an unsigned integer up to @max */
  guint64 max;
  double *real;              /* finite */
} RlxTextMember;

/* Reads the members of an object; skips others. @title is for messages. A duplicate member
 * is an error. */
gboolean   rlx_text_members_read    (GBytes            *text,
                                const char        *title,
                                const RlxTextMember   *members,
                                gsize              n_members,
                                GError           **error);

G_END_DECLS
