/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "import/rlx-import-private.h"
#include "rlx-model.h"

G_BEGIN_DECLS

struct _RlxModelPort
{
  GObject parent_instance;

  char *name;
  const char *type_name;
  int data_type;
  gboolean has_shape;
  gsize n_dims;
  gint64 shape[RLX_MAX_DIMS];
  char *names[RLX_MAX_DIMS];
};

/* The graph for inputs of those types, by name: RlxTensorType. Those of @known, RlxTensor, are
 * constants. Names of further inputs that would have to be known are added to @needed. */
RlxGraph *    rlx_model_specialise (RlxModel     *self,
                                    GHashTable   *types,
                                    GHashTable   *known,
                                    GHashTable   *needed,
                                    GCancellable *cancellable,
                                    GError      **error);
RlxModelPort *rlx_model_port_new   (const RlxOnnxPort *port);
RlxImportSource *rlx_model_get_source (RlxModel  *self);
/* Inputs that are fixed, with those of @known, which is nullable. */
GHashTable *  rlx_model_copy_fixed (RlxModel     *self,
                                    GHashTable   *known);
/* Changes when an input is fixed. */
guint         rlx_model_get_serial (RlxModel     *self);
/* NULL if there is none, or if it is fixed. */
RlxModelPort *rlx_model_find_input (RlxModel     *self,
                                    const char   *name);

G_END_DECLS
