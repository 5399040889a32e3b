/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The header of a .npy file. The file is 6 bytes of magic, 2 of version, the
 * length of the header in 2 or 4 bytes, a Python dictionary as text, and the
 * elements.
 */
#pragma once

#include "rlx-types.h"

G_BEGIN_DECLS

#define RLX_NPY_MAGIC "\x93NUMPY"
#define RLX_NPY_MAGIC_LENGTH 6

/* How a data type says that its bytes are in the order of this machine. */
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
#define RLX_NPY_NATIVE_ORDER '<'
#else
#define RLX_NPY_NATIVE_ORDER '>'
#endif

/* The magic, the version and a length of two bytes. */
#define RLX_NPY_MIN_PREFIX 10
/* The same with a length of four bytes. */
#define RLX_NPY_MAX_PREFIX 12
/* More than numpy itself accepts without being told to. */
#define RLX_NPY_MAX_TEXT 65536

typedef struct
{
  RlxDataType data_type;
  gboolean fortran_order;
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
  guint64 n_elements;
  gsize n_bytes;
} RlxNpyHeader;

/* FALSE with RLX_WEIGHTS_ERROR_TRUNCATED where there are too few bytes. */
gboolean rlx_npy_check_present (const char    *what,
                                guint64        needed,
                                guint64        present,
                                GError       **error);
/* How long the part before the text is, and the text. @length must be at least
 * RLX_NPY_MIN_PREFIX; where the version asks for more than is there, the error
 * is RLX_WEIGHTS_ERROR_TRUNCATED. */
gboolean rlx_npy_parse_prefix  (const guint8  *data,
                                gsize          length,
                                gsize         *prefix_length,
                                gsize         *text_length,
                                GError       **error);
gboolean rlx_npy_parse_text    (const char    *text,
                                gsize          length,
                                RlxNpyHeader  *header,
                                GError       **error);

G_END_DECLS
