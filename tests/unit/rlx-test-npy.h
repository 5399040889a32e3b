/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of .npy files share: such files.
 */
#pragma once

#include "rlx-tensor-private.h"

#include "formats/rlx-npy-private.h"

#include <string.h>

#if G_BYTE_ORDER == G_LITTLE_ENDIAN
#define NATIVE "<"
#define FOREIGN ">"
#else
#define NATIVE ">"
#define FOREIGN "<"
#endif

#define SHAPE(...) \
  ((const gint64[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ }))

/* A file in which anything can be made wrong. */
GBytes *make_file (guint8 major,
                   const char *text,
                   gssize text_length,
                   const void *data,
                   gsize size);
GBytes *make_simple (const char *descr,
                     const char *order,
                     const char *shape,
                     const void *data,
                     gsize size);
