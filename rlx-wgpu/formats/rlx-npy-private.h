/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The header of a .npy file. The file is 6 bytes of magic, 2 of version, the
 * length of the header in 2 or 4 bytes, a Python dictionary as text, and the
 * elements.
 */
#pragma once

#include "formats/rlx-manifest-private.h"

G_BEGIN_DECLS

#define RLX_NPY_MAGIC "\x93NUMPY"
#define RLX_NPY_MAGIC_LENGTH 6

/* The character in a data type that stands for this machine's byte order. */
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
#define RLX_NPY_NATIVE_ORDER '<'
#else
#define RLX_NPY_NATIVE_ORDER '>'
#endif

/* Reads what precedes the elements, and adds a record and its member. The extent must
 * contain nothing but this array. */
gboolean     rlx_npy_add_array   (RlxManifest      *manifest,
                                  const char       *name,
                                  const RlxExtent  *extent,
                                  GCancellable     *cancellable,
                                  GError          **error);

/* Everything that precedes the elements when writing a file; a multiple of 64 bytes. */
GByteArray * rlx_npy_make_header (guint             storage,
                                  const gint64     *shape,
                                  gsize             n_dims);

G_END_DECLS
