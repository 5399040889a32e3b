/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Constants in the memory of a device, once for each way they lie there. Who wants
 * one that somebody else has already gets the same.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-tensor.h"

G_BEGIN_DECLS

typedef struct _RlxResident RlxResident;

/* A tensor in it; several are joined. */
typedef struct
{
  RlxTensor *tensor;
  RlxPacking packing;
  guint64 offset;
} RlxResidentPart;

/* The result of a search. */
typedef enum
{
  RLX_RESIDENT_NEW,        /* the first of its tensor */
  RLX_RESIDENT_FOUND,
  RLX_RESIDENT_RELAID,     /* new, while the same tensor is also there in another layout */
} RlxResidentOrigin;

/* Tensors are not kept alive; copies of a tensor that is gone are not found. Like
 * everything here, may be called on any thread. */
RlxResident *  rlx_resident_get        (RlxGpu                *gpu,
                                        const RlxResidentPart *parts,
                                        guint                  n_parts,
                                        guint64                size,
                                        RlxResidentOrigin     *origin,
                                        GError               **error);
/* Frees it with its last user. */
void           rlx_resident_release    (RlxResident *self);
RlxGpuBuffer * rlx_resident_get_buffer (RlxResident *self);

/* Before an upload: whether it is still necessary; if so, other users wait until
 * _end(). FALSE if the call was cancelled while another user was uploading. */
gboolean       rlx_resident_begin      (RlxResident  *self,
                                        gboolean     *upload,
                                        GCancellable *cancellable,
                                        GError      **error);
void           rlx_resident_end        (RlxResident  *self,
                                        gboolean      uploaded);
gboolean       rlx_resident_is_loaded  (RlxResident  *self);

/* Called when a tensor is finalised. */
void           rlx_resident_forget     (RlxTensor    *tensor);

G_END_DECLS
