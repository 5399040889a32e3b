/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the files of ONNX's operators share.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gint64   onnx_product        (const gint64 *values,
                              gsize         first,
                              gsize         end);
gint64 * onnx_copy_shape     (RlxNode      *node,
                              gsize        *n_dims);
/* Counts from the end when negative. An error beyond @limit. */
gboolean onnx_normalise_axis (MapCall      *call,
                              gint64        axis,
                              gsize         n_dims,
                              gsize         limit,
                              gsize        *out,
                              GError      **error);
/* An argument that is an attribute in old opsets and an input in new ones.
 * @present tells whether there is either. */
gboolean onnx_get_ints       (MapCall      *call,
                              const char   *name,
                              guint         index,
                              gint64      **values,
                              gsize        *n_values,
                              gboolean     *present,
                              GError      **error);

/* The mean and the reciprocal deviation, which are outputs 1 and 2 there; of
 * squares alone with @rms. */
gboolean onnx_add_statistics (MapCall      *call,
                              RlxNode      *node,
                              const gint64 *axes,
                              gsize         n_axes,
                              double        epsilon,
                              gboolean      rms,
                              GError      **error);

/* Mappings onto several operators. */
gboolean onnx_map_affine_grid        (MapCall *call,
                                     GError **error);
gboolean onnx_map_center_crop_pad    (MapCall *call,
                                     GError **error);
gboolean onnx_map_col2im             (MapCall *call,
                                     GError **error);
gboolean onnx_map_dft                (MapCall *call,
                                     GError **error);
gboolean onnx_map_eye_like           (MapCall *call,
                                     GError **error);
gboolean onnx_map_fused_matmul       (MapCall *call,
                                     GError **error);
gboolean onnx_map_loss               (MapCall *call,
                                     GError **error);
gboolean onnx_map_max_unpool         (MapCall *call,
                                     GError **error);
gboolean onnx_map_reverse_sequence   (MapCall *call,
                                     GError **error);
gboolean onnx_map_shrink             (MapCall *call,
                                     GError **error);
gboolean onnx_map_tensor_scatter     (MapCall *call,
                                     GError **error);
gboolean onnx_map_window             (MapCall *call,
                                     GError **error);

/* Mappings. */
gboolean onnx_map_top_k             (MapCall *call,
                                     GError **error);
gboolean onnx_map_concat            (MapCall *call,
                                     GError **error);
gboolean onnx_map_constant          (MapCall *call,
                                     GError **error);
gboolean onnx_map_constant_of_shape (MapCall *call,
                                     GError **error);
gboolean onnx_map_dropout           (MapCall *call,
                                     GError **error);
gboolean onnx_map_expand            (MapCall *call,
                                     GError **error);
gboolean onnx_map_flatten           (MapCall *call,
                                     GError **error);
gboolean onnx_map_reshape           (MapCall *call,
                                     GError **error);
gboolean onnx_map_shape             (MapCall *call,
                                     GError **error);
gboolean onnx_map_size              (MapCall *call,
                                     GError **error);
gboolean onnx_map_slice             (MapCall *call,
                                     GError **error);
gboolean onnx_map_squeeze           (MapCall *call,
                                     GError **error);
gboolean onnx_map_tile              (MapCall *call,
                                     GError **error);
gboolean onnx_map_trilu             (MapCall *call,
                                     GError **error);
gboolean onnx_map_unsqueeze         (MapCall *call,
                                     GError **error);

G_END_DECLS
