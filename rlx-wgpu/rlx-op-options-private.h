/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "ir/rlx-op-private.h"

G_BEGIN_DECLS

/* A copy of the attributes in an options object (generated), or the defaults. */
gpointer      rlx_op_options_get_attrs    (GObject *options, const RlxOp *op);

/* Properties of options objects: attribute @index of @op. */
void          rlx_op_options_get_property (gconstpointer attrs, const RlxOp *op, guint index, GValue *value);
/* Whether the value changed. */
gboolean      rlx_op_options_set_property (gpointer attrs, const RlxOp *op, guint index, const GValue *value);

G_END_DECLS
