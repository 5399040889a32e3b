/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-gradient-options.h>
#include <rlx-wgpu/rlx-optimizer-options.h>
#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_GRAPH (rlx_graph_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxGraph, rlx_graph, RLX, GRAPH, GObject)

RLX_AVAILABLE_IN_1_0
RlxGraph *   rlx_graph_new            (void);
RLX_AVAILABLE_IN_1_0
RlxGraph *   rlx_graph_new_from_text  (const char    *text,
                                       GError       **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxPrecision rlx_graph_get_precision  (RlxGraph      *self);

RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_input          (RlxGraph      *self,
                                       const char    *name,
                                       RlxDataType    data_type,
                                       const gint64  *shape,
                                       gsize          n_dims,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_parameter      (RlxGraph      *self,
                                       const char    *name,
                                       RlxDataType    data_type,
                                       const gint64  *shape,
                                       gsize          n_dims,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_constant       (RlxGraph      *self,
                                       RlxTensor     *tensor,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_scalar         (RlxGraph      *self,
                                       RlxDataType    data_type,
                                       double         value,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_state          (RlxGraph      *self,
                                       const char    *name,
                                       RlxTensor     *initial,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
gboolean     rlx_graph_assign         (RlxGraph      *self,
                                       RlxNode       *state,
                                       RlxNode       *value,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
gboolean     rlx_graph_output         (RlxGraph      *self,
                                       const char    *name,
                                       RlxNode       *node,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
RlxNode **   rlx_graph_add_op         (RlxGraph      *self,
                                       const char    *op,
                                       RlxNode      **inputs,
                                       gsize          n_inputs,
                                       GVariant      *attributes,
                                       gsize         *n_outputs,
                                       GError       **error);

RLX_AVAILABLE_IN_1_0
RlxNode **   rlx_graph_gradient       (RlxGraph            *self,
                                       RlxNode             *loss,
                                       RlxNode            **nodes,
                                       gsize                n_nodes,
                                       RlxGradientOptions  *options,
                                       gsize               *n_gradients,
                                       GError             **error);

RLX_AVAILABLE_IN_1_0
gboolean     rlx_graph_optimize       (RlxGraph            *self,
                                       RlxNode             *loss,
                                       RlxNode            **parameters,
                                       gsize                n_parameters,
                                       RlxOptimizerOptions *options,
                                       GError             **error);

RLX_AVAILABLE_IN_1_0
gboolean     rlx_graph_check          (RlxGraph      *self,
                                       GError       **error);
RLX_AVAILABLE_IN_1_0
char **      rlx_graph_dup_input_names  (RlxGraph    *self);
RLX_AVAILABLE_IN_1_0
char **      rlx_graph_dup_output_names (RlxGraph    *self);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_get_output     (RlxGraph      *self,
                                       const char    *name);
RLX_AVAILABLE_IN_1_0
RlxNode *    rlx_graph_lookup         (RlxGraph      *self,
                                       const char    *name);
RLX_AVAILABLE_IN_1_0
char *       rlx_graph_to_text        (RlxGraph      *self);
RLX_AVAILABLE_IN_1_0
char *       rlx_graph_to_dot         (RlxGraph      *self);

G_END_DECLS
