/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Signals in frames: what operators that transform frames have in common.
 */
#pragma once

#include "ops/rlx-builder-private.h"

G_BEGIN_DECLS

/* How a signal along the last axis is divided into frames. */
typedef struct
{
  gint64 length, hop;
  gboolean center;        /* extended by half a frame on both sides */
  RlxPadMode pad_mode;
} RlxFrames;

/* Checks a window for frames of @length; it may be NULL. */
gboolean     rlx_frames_check_window (const RlxOpCall     *call,
                                      const RlxTensorType *window,
                                      gint64               length,
                                      GError             **error);
/* The number of frames of a signal. */
gboolean     rlx_frames_count        (const RlxOpCall     *call,
                                      const RlxFrames     *frames,
                                      const RlxTensorType *signal,
                                      gint64              *n_frames,
                                      GError             **error);
/* The frames in f32, [..., frames, length], times the window unless it is NULL. */
RlxIrValue * rlx_frames_build        (RlxBuilder          *b,
                                      const RlxFrames     *frames,
                                      RlxIrValue          *signal,
                                      RlxIrValue          *window);
/* The window in f32, padded with zeros on both sides to @length; NULL for NULL. */
RlxIrValue * rlx_frames_fill_window  (RlxBuilder          *b,
                                      RlxIrValue          *window,
                                      gint64               length);

G_END_DECLS
