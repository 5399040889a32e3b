/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * WordPiece, as BERT's: a text is cleaned, cut into words at white space, around
 * punctuation and around Chinese characters, and each word into the longest pieces that
 * are in the vocabulary, from its start on.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Words with more characters are unknown. */
#define RLX_WORDPIECE_MAX_CHARACTERS 100

typedef struct
{
  GHashTable *ids;           /* const char *: GINT_TO_POINTER () */
  gsize longest;             /* bytes of a token */
  gint unknown;
  gboolean lower_case;
  gboolean strip_accents;
  gboolean split_chinese;
} RlxWordpiece;

/* Appends the tokens of valid UTF-8. FALSE with an error if there are more than @max of
 * them in total. */
gboolean rlx_wordpiece_encode (const RlxWordpiece *self,
                               const char         *text,
                               GArray             *tokens,
                               gsize               max,
                               GError            **error);

G_END_DECLS
