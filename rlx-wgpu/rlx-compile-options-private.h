/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-compile-options.h"
#include "rlx-ticker-private.h"

G_BEGIN_DECLS

/* In seconds: a day. */
#define RLX_MAX_TIMEOUT 86400.0

/* A copy of the options, which may change during compilation. */
typedef struct
{
  RlxPrecision precision;
  gboolean tuning;
  gboolean profiling;
  gboolean checked;
  guint64 memory_limit;    /* in bytes; 0: only that of the device */
  double timeout;          /* in seconds; 0: the default */
  RlxDeviceFeatures avoided_features;
  guint64 buffer_limit;    /* in bytes; 0: that of the device */
  RlxTicker *ticker;       /* not an option: reports the progress; nullable */
} RlxCompileSettings;

/* The defaults if @options is NULL. */
void rlx_compile_options_read (RlxCompileOptions  *options,
                               RlxCompileSettings *settings);

G_END_DECLS
