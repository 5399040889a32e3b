/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-compile-options.h"
#include "rlx-ticker-private.h"

G_BEGIN_DECLS

/* In seconds: a day. */
#define RLX_MAX_TIMEOUT 86400.0

/* The values of options, which may change while somebody compiles. */
typedef struct
{
  RlxPrecision precision;
  gboolean tuning;
  gboolean profiling;
  gboolean checked;
  guint64 memory_limit;    /* bytes, 0: that of the device alone */
  double timeout;          /* seconds, 0: the usual one */
  RlxDeviceFeatures avoided_features;
  guint64 buffer_limit;    /* bytes, 0: that of the device */
  RlxTicker *ticker;       /* not an option: who tells how far it is; nullable */
} RlxCompileSettings;

/* What is so where nothing is said, when @options is NULL. */
void rlx_compile_options_read (RlxCompileOptions  *options,
                               RlxCompileSettings *settings);

G_END_DECLS
