/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a reader finds in a file of tensors: where each one is, and what there is to
 * say about all. Readers look at headers and at nothing else.
 *
 * A file may lie about everything. It can have a million tensors, so a record is
 * small: what is kept of a header takes less than three times its bytes.
 */
#pragma once

#include "formats/rlx-source-private.h"
#include "rlx-types.h"

G_BEGIN_DECLS

/* The limits of doc/weights.md. */
#define RLX_WEIGHTS_MAX_ENTRIES (1 << 20)
#define RLX_WEIGHTS_MAX_NAME 4096
#define RLX_WEIGHTS_MAX_PARTS 512
#define RLX_WEIGHTS_MAX_PAIRS 65536
#define RLX_SAFETENSORS_MAX_HEADER G_GUINT64_CONSTANT (100000000)
#define RLX_GGUF_MAX_METADATA (G_GUINT64_CONSTANT (256) << 20)
#define RLX_GGUF_MAX_NAME 64
#define RLX_GGUF_MAX_KEY 65535
#define RLX_GGUF_MAX_DIMS 4
#define RLX_GGUF_MAX_ALIGNMENT 65536

/* ---- how elements are stored ---- */

/* How a tensor comes from the bytes. */
typedef enum
{
  RLX_CONVERT_NONE,
  RLX_CONVERT_BF16,
  RLX_CONVERT_F8_E4M3,
  RLX_CONVERT_F8_E5M2,
  RLX_CONVERT_F8_E8M0,
  RLX_CONVERT_I16,
  RLX_CONVERT_U16,
  RLX_CONVERT_IMPOSSIBLE,
} RlxConvert;

typedef struct
{
  const char *name;
  guint8 numbers;            /* so many elements are together… */
  guint8 bytes;              /* …in so many bytes; both are 0 where packed says it */
  RlxDataType data_type;     /* of the tensor */
  RlxConvert convert;
  int packed;                /* RlxPackedType, or -1 */
  int gguf;                  /* its number in GGUF files, or -1 */
  const char *safetensors;   /* nullable */
} RlxStorage;

guint              rlx_storage_get_n            (void);
const RlxStorage * rlx_storage_get              (guint          index);
/* Indices, or -1. */
int                rlx_storage_find_safetensors (const char    *name);
int                rlx_storage_find_gguf        (guint32        type);
void               rlx_storage_get_block        (const RlxStorage *storage,
                                                 guint         *numbers,
                                                 guint         *bytes);

/* ---- records ---- */

typedef struct
{
  const char *name;          /* of the manifest */
  guint64 offset;            /* of the elements */
  guint64 length;
  guint32 dims;              /* the first one, in the manifest's */
  guint16 part;              /* which source */
  guint8 n_dims;
  guint8 storage;            /* an index */
} RlxRecord;

typedef struct
{
  GStringChunk *names;
  GArray *records;           /* RlxRecord, in the order of the file */
  GArray *dims;              /* gint64 */
  GArray *by_name;           /* guint32, once it is sealed */
  GPtrArray *keys;           /* of metadata, as they come */
  GVariantBuilder metadata;  /* a{sv}; variants are large, so only once all else is right */
} RlxManifest;

RlxManifest *     rlx_manifest_new       (void);
void              rlx_manifest_free      (RlxManifest       *self);
/* Adds a record whose offset and length are 0. The name is checked, and the shape
 * counted: @length (nullable) gets the bytes that it takes. @at is the place in the
 * file, for messages. */
RlxRecord *       rlx_manifest_add       (RlxManifest       *self,
                                          guint64            at,
                                          const char        *name,
                                          gsize              name_length,
                                          guint              storage,
                                          const gint64      *dims,
                                          guint              n_dims,
                                          guint64           *length,
                                          GError           **error);
/* A key of metadata. */
gboolean          rlx_manifest_add_key   (RlxManifest       *self,
                                          guint64            at,
                                          const char        *key,
                                          gsize              length,
                                          GError           **error);
/* No more are added. Two tensors or keys of one name are RLX_WEIGHTS_ERROR_PARSE. */
gboolean          rlx_manifest_seal      (RlxManifest       *self,
                                          GError           **error);
const RlxRecord * rlx_manifest_get       (RlxManifest       *self,
                                          guint              index);
/* An index, or -1; only once it is sealed. */
gint64            rlx_manifest_find      (RlxManifest       *self,
                                          const char        *name);
const gint64 *    rlx_manifest_get_shape (RlxManifest       *self,
                                          const RlxRecord   *record);
/* Whether no two lie in the same bytes or begin before @start; with @gapless, also
 * whether they fill everything up to @end. */
gboolean          rlx_manifest_check_places (RlxManifest    *self,
                                             gboolean        gapless,
                                             guint64         start,
                                             guint64         end,
                                             GError        **error);

/* "At byte N: …"; always FALSE. */
gboolean          rlx_weights_fail       (GError           **error,
                                          RlxWeightsError    code,
                                          guint64            at,
                                          const char        *format,
                                          ...) G_GNUC_PRINTF (4, 5);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxManifest, rlx_manifest_free)

/* ---- readers ---- */

/* Each fills and seals a manifest. */

gboolean rlx_safetensors_read (RlxSource     *source,
                               RlxManifest   *manifest,
                               GCancellable  *cancellable,
                               GError       **error);
gboolean rlx_gguf_read        (RlxSource     *source,
                               RlxManifest   *manifest,
                               GCancellable  *cancellable,
                               GError       **error);
/* The index of a model in several files: names of tensors and, in the same order,
 * guint16 of where in @files their file is; those are plain names. */
gboolean rlx_safetensors_read_index (RlxSource     *source,
                                     GPtrArray     *names,
                                     GArray        *parts,
                                     GPtrArray     *files,
                                     GCancellable  *cancellable,
                                     GError       **error);

G_END_DECLS
