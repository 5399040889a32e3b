/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Weights as their files know them: rlx-weights.c opens them, rlx-weights-entry.c
 * tells about one, rlx-weights-load.c loads it, rlx-weights-parameters.c gives them
 * to an executable.
 */
#pragma once

#include "formats/rlx-manifest-private.h"
#include "rlx-tensor.h"
#include "rlx-weights.h"

G_BEGIN_DECLS

struct _RlxWeights
{
  GObject parent_instance;

  char *title;               /* of the file, for messages; nullable */
  RlxWeightsFormat format;
  RlxManifest *manifest;
  GVariant *metadata;

  GMutex mutex;
  RlxWeightsEntry **entries; /* under the mutex; created on demand */
  guint64 done, total;       /* under the mutex: size of the current load in bytes */
  guint n_loading;
  gboolean notifying;
  GMainContext *context;     /* where progress is notified */
};

RlxWeightsEntry * rlx_weights_entry_new   (RlxManifest      *manifest,
                                           const RlxRecord  *record);
/* The shape of the packed bytes: rows of bytes. */
void              rlx_record_get_packed_shape (RlxManifest     *manifest,
                                               const RlxRecord *record,
                                               gint64          *dims);

/* Loading @bytes starts, progresses, ends. */
void              rlx_weights_begin       (RlxWeights       *self,
                                           guint64           bytes);
void              rlx_weights_advance     (RlxWeights       *self,
                                           gsize             bytes);
void              rlx_weights_end         (RlxWeights       *self);

/* ---- rlx-weights-load.c: what programs see of a file ---- */

/* @progress is nullable in all of these. */

/* The unconverted elements of a tensor in row-major order. */
GBytes *          rlx_record_load_bytes   (RlxManifest      *manifest,
                                           const RlxRecord  *record,
                                           RlxWeights       *progress,
                                           GCancellable     *cancellable,
                                           GError          **error);
/* How elements are returned. */
typedef enum
{
  RLX_RECORD_WIDE,           /* a tensor of the data type of the storage */
  RLX_RECORD_OWN,            /* of its own type */
  RLX_RECORD_PACKED,         /* rows of bytes */
} RlxRecordForm;

RlxTensor *       rlx_record_load_tensor  (RlxManifest      *manifest,
                                           const RlxRecord  *record,
                                           RlxRecordForm     form,
                                           RlxWeights       *progress,
                                           GCancellable     *cancellable,
                                           GError          **error);

/* The same elements, piece by piece. */
typedef struct _RlxRecordReader RlxRecordReader;

/* Whether they are in row-major order. */
gboolean          rlx_record_is_in_order  (RlxManifest      *manifest,
                                           const RlxRecord  *record);
RlxRecordReader * rlx_record_reader_new   (RlxManifest      *manifest,
                                           const RlxRecord  *record,
                                           RlxRecordForm     form,
                                           RlxWeights       *progress,
                                           GCancellable     *cancellable,
                                           GError          **error);
void              rlx_record_reader_free  (RlxRecordReader  *self);
/* The bytes that are left. */
guint64           rlx_record_reader_get_left (RlxRecordReader *self);
/* The next bytes, in whole elements. */
gboolean          rlx_record_reader_read  (RlxRecordReader  *self,
                                           gpointer          to,
                                           gsize             size,
                                           GCancellable     *cancellable,
                                           GError          **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxRecordReader, rlx_record_reader_free)

/* ---- rlx-weights-parameters.c ---- */

/* The value of a parameter. */
typedef struct
{
  const char *parameter;
  RlxWeights *weights;
  const RlxRecord *record;
  RlxRecordForm form;
} RlxRecordPair;

typedef gboolean (*RlxParameterFunc) (const RlxRecordPair *pair,
                                      gpointer             data,
                                      GCancellable        *cancellable,
                                      GError             **error);
/* The value as a tensor. */
RlxTensor *       rlx_record_pair_load        (const RlxRecordPair *pair,
                                               GCancellable        *cancellable,
                                               GError             **error);
/* Calls @func for each of @ports (of RlxPort) that has a tensor in the file: the rules are those
 * of rlx_executable_set_parameters_from(). */
gboolean          rlx_weights_load_parameters (RlxWeights       *self,
                                               GListModel       *ports,
                                               GVariant         *names,
                                               RlxParameterFunc  func,
                                               gpointer          data,
                                               GCancellable     *cancellable,
                                               GError          **error);

G_END_DECLS
