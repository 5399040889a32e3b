/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Which way is fastest for the product of two matrices of one shape, where
 * somebody asked for it to be measured.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-device.h"

G_BEGIN_DECLS

/* What a choice may depend on. */
typedef struct
{
  guint64 m, n, k;
  guint64 n_batch;
  gboolean a_along_k;      /* neighbours in memory are neighbours along k, else along m */
  gboolean b_along_n;
  gboolean is_weight;      /* b can be packed when it is uploaded */
  RlxDataType data_type;   /* of both */
} RlxTunedShape;

typedef struct _RlxTuning RlxTuning;

/* What is stored for an adapter: empty when nothing is, or when it is damaged. */
RlxTuning * rlx_tuning_load         (const RlxGpuAdapterInfo *info);
gboolean    rlx_tuning_store        (RlxTuning               *self,
                                     const RlxGpuAdapterInfo *info);
void        rlx_tuning_free         (RlxTuning *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxTuning, rlx_tuning_free)

#define RLX_TUNING_NOTES "tuning"
#define RLX_TUNING_MAX_SHAPES 1024
GBytes *    rlx_tuning_to_bytes     (RlxTuning *self);
RlxTuning * rlx_tuning_from_bytes   (GBytes *bytes);
guint       rlx_tuning_get_n_shapes (RlxTuning *self);
void        rlx_tuning_set          (RlxTuning           *self,
                                     const RlxTunedShape *shape,
                                     RlxGpuProduct        way);

/* The way for a shape, or RLX_GPU_N_PRODUCTS if it was not measured; then it is
 * remembered as missing. */
RlxGpuProduct rlx_tuning_look_up    (RlxTuning           *self,
                                     const RlxTunedShape *shape);

/* rlx-tune.c: measures what is missing and matters to a graph that takes
 * @seconds in all, and forgets what else is missing. *@n_measured are new. */
gboolean    rlx_tuning_measure      (RlxTuning           *self,
                                     RlxDevice           *device,
                                     const RlxGpuFigures *figures,
                                     double               seconds,
                                     guint               *n_measured,
                                     GCancellable        *cancellable,
                                     GError             **error);
/* Those that are missing, with the operations of all products of the shape
 * together. (element-type RlxMissingShape) */
typedef struct
{
  RlxTunedShape shape;
  double flops;
} RlxMissingShape;

GArray *    rlx_tuning_get_missing  (RlxTuning *self);

G_END_DECLS
