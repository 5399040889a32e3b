/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What convolutions and pools have in common: a window that slides over the spatial axes of a
 * tensor.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

#define RLX_MAX_SPATIAL 3

/* One spatial axis. Padded sizes are below 2³¹. */
typedef struct
{
  gint64 in;
  gint64 window;     /* elements, at least 1 */
  gint64 stride;
  gint64 dilation;
  gint64 begin;      /* padding */
  gint64 end;
  gint64 reach;      /* extent of a window: from its first to its last element, + 1 */
  gint64 out;        /* 0 until known */
} RlxWindowAxis;

typedef struct
{
  guint n_axes;
  gboolean channels_last;
  gboolean swapped;      /* channels before the batch */
  gint64 batch;
  gint64 channels;
  RlxWindowAxis axes[RLX_MAX_SPATIAL];   /* in the tensor's order */
} RlxWindow;

/* The attributes that all operators with windows have. */
typedef struct
{
  RlxInts strides, dilations, padding;
  RlxLayout layout;
  gboolean swapped;
} RlxWindowSteps;

/* Reads the operand and the attributes. @sizes are those of the window, by default the
 * operand's own; @what names their source in messages. */
gboolean rlx_window_init       (RlxWindow            *self,
                                const RlxOpCall      *call,
                                const RlxWindowSteps *steps,
                                const gint64         *sizes,
                                const char           *what,
                                GError              **error);
/* Sets the number of window positions, leaving out an incomplete last one. */
gboolean rlx_window_slide      (RlxWindow       *self,
                                const RlxOpCall *call,
                                GError         **error);
/* The number of spatial axes of the operand; an error if it has too few or too many
 * dimensions. */
gboolean rlx_window_check_rank (const RlxOpCall *call,
                                guint           *n_axes,
                                GError         **error);
/* Gets a list with one value per axis, called @name in messages. Returns FALSE without an
 * error if it is empty. */
gboolean rlx_window_get_list   (const RlxOpCall *call,
                                const char      *name,
                                const RlxInts   *list,
                                guint            n_values,
                                gint64           least,
                                const gint64   **values,
                                GError         **error);
/* Reads the attributes of a pool. */
gboolean rlx_pool_read         (RlxWindow          *window,
                                const RlxOpCall    *call,
                                const RlxPoolAttrs *attrs,
                                GError            **error);
/* The type of the result, with @channels channels. */
void     rlx_window_get_type   (const RlxWindow *self,
                                RlxDataType      data_type,
                                gint64           channels,
                                RlxTensorType   *type);
/* Makes the input of a rule, for a lowering that needs the same facts. @types has room for
 * all operands. */
void     rlx_window_make_call  (RlxOpCall            *call,
                                const RlxIrNode      *node,
                                const RlxTensorType **types);

/* Strides; those of the spatial axes are innermost first. */
typedef struct
{
  guint64 batch;
  guint64 channel;
  guint64 axes[RLX_MAX_SPATIAL];
} RlxWindowStrides;

/* The strides of a tensor with this many channels and these spatial sizes, innermost first. */
void     rlx_window_get_strides (const RlxWindow  *self,
                                 guint64           channels,
                                 const guint64    *sizes,
                                 RlxWindowStrides *strides);
/* "name0", "name1", … */
void     rlx_window_param      (RlxKernel  *kernel,
                                const char *prefix,
                                guint       index,
                                guint64     value);

G_END_DECLS
