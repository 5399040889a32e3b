/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  gconstpointer data;
  gsize size;
} RlxBlock;

/* Puts a file of these blocks where another one may be: all of it or nothing.
 * Errors begin with the name of the file. */
gboolean rlx_replace_file (GFile           *file,
                           const RlxBlock  *blocks,
                           gsize            n_blocks,
                           GCancellable    *cancellable,
                           GError         **error);

G_END_DECLS
