/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Which way is fastest for the product of two matrices of one shape, where
 * somebody asked for it to be measured.
 */
#pragma once

#include "target/rlx-target-private.h"

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

RlxTuning * rlx_tuning_new          (void);
void        rlx_tuning_free         (RlxTuning *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxTuning, rlx_tuning_free)

#define RLX_TUNING_MAX_SHAPES 1024
GBytes *    rlx_tuning_to_bytes     (RlxTuning *self);
RlxTuning * rlx_tuning_from_bytes   (GBytes *bytes);
guint       rlx_tuning_get_n_shapes (RlxTuning *self);
void        rlx_tuning_set          (RlxTuning           *self,
                                     const RlxTunedShape *shape,
                                     RlxProductVariant    way);

/* The way for a shape, or RLX_N_PRODUCTS if it was not measured; then it is
 * remembered as missing. */
RlxProductVariant rlx_tuning_look_up    (RlxTuning           *self,
                                     const RlxTunedShape *shape);

/* Those that are missing, with the operations of all products of the shape
 * together. (element-type RlxMissingShape) */
typedef struct
{
  RlxTunedShape shape;
  double flops;
} RlxMissingShape;

GArray *    rlx_tuning_get_missing  (RlxTuning *self);

G_END_DECLS
