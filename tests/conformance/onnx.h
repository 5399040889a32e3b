/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "case.h"

G_BEGIN_DECLS

/* Runs the case as a model file; returns the outputs by name. */
RlxTensor ** onnx_run (const Case *test,
                       RlxDevice  *device,
                       char     ***names,
                       gsize      *n_outputs,
                       GError    **error);

G_END_DECLS
