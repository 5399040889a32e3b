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

/* How a data type says that its bytes are in the order of this machine. */
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
#define RLX_NPY_NATIVE_ORDER '<'
#else
#define RLX_NPY_NATIVE_ORDER '>'
#endif

/* Reads what is before the elements, and adds a record and its member. All that comes
 * out of the extent has to be this one array. */
gboolean     rlx_npy_add_array   (RlxManifest      *manifest,
                                  const char       *name,
                                  const RlxExtent  *extent,
                                  GCancellable     *cancellable,
                                  GError          **error);

/* Everything before the elements, for a file that is written; 64 bytes, or a multiple. */
GByteArray * rlx_npy_make_header (guint             storage,
                                  const gint64     *shape,
                                  gsize             n_dims);

G_END_DECLS
