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

#include "formats/rlx-stream-private.h"
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
#define RLX_NPY_MAX_TEXT 65536
#define RLX_NPZ_MAX_INFLATED (G_GUINT64_CONSTANT (1) << 30)
#define RLX_NPZ_MAX_RATIO 100

/* ---- how elements are stored ---- */

/* How bytes are converted to a tensor. */
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
  guint8 numbers;            /* this many elements… */
  guint8 bytes;              /* …are stored in this many bytes; both are 0 if packed defines them */
  RlxDataType own_type;      /* that holds the elements as they are */
  RlxDataType data_type;     /* of the resulting tensor */
  RlxConvert convert;
  int packed;                /* RlxPackedType, or -1 */
  int gguf;                  /* its number in GGUF files, or -1 */
  const char *safetensors;   /* its name there; nullable */
  const char *npy;           /* its code there; nullable */
} RlxStorage;

guint              rlx_storage_get_n            (void);
const RlxStorage * rlx_storage_get              (guint          index);
/* Indices, or -1. */
int                rlx_storage_find_safetensors (const char    *name);
int                rlx_storage_find_gguf        (guint32        type);
int                rlx_storage_find_npy         (const char    *code,
                                                 gsize          length);
/* The storage for elements of that type, unchanged. */
int                rlx_storage_find_data_type   (RlxDataType    data_type);
void               rlx_storage_get_block        (const RlxStorage *storage,
                                                 guint         *numbers,
                                                 guint         *bytes);

/* Converts @n elements to their wider type, of 4 bytes each. */
void               rlx_storage_widen            (const RlxStorage *storage,
                                                 gconstpointer  from,
                                                 gsize          n,
                                                 gpointer       to);

/* ---- records ---- */

typedef struct
{
  const char *name;          /* of the manifest */
  guint64 at;                /* offset of its entry in the header, for messages */
  guint64 offset;            /* of the elements, possibly compressed */
  guint64 length;            /* of the elements, uncompressed */
  guint32 dims;              /* index of the first one in the manifest's dims */
  guint16 part;              /* index of the source */
  guint8 n_dims;
  guint8 storage;            /* index of the RlxStorage */
} RlxRecord;

/* A key of metadata. */
typedef struct
{
  const char *name;          /* of the manifest */
  guint64 at;
} RlxKey;

/* Additional properties of NumPy files. The elements are at the end of the uncompressed bytes. */
typedef struct
{
  RlxExtent extent;
  gboolean fortran_order;    /* the first dimension runs fastest */
} RlxMember;

typedef struct
{
  GPtrArray *sources;        /* RlxSource, by part */
  GStringChunk *names;
  GArray *records;           /* RlxRecord, in the order of the file */
  GArray *members;           /* RlxMember: one for each record, or none at all */
  GArray *dims;              /* gint64 */
  GArray *by_name;           /* guint32: indices of records, once sealed */
  GArray *keys;              /* RlxKey, in the order of the file */
  GVariantBuilder metadata;  /* a{sv}; built last, because variants are large */
} RlxManifest;

RlxManifest *     rlx_manifest_new       (void);
void              rlx_manifest_free      (RlxManifest       *self);
/* Adds the next part. Readers that take a source expect it to have been added. */
void              rlx_manifest_add_source (RlxManifest      *self,
                                           RlxSource        *source);
/* Adds a record whose offset and length are 0. The name and shape are checked; @length
 * (nullable) is set to the size in bytes. @at is the offset in the file, for messages. */
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
/* Ends adding. Two tensors or keys with the same name are RLX_WEIGHTS_ERROR_PARSE. */
gboolean          rlx_manifest_seal      (RlxManifest       *self,
                                          GError           **error);
const RlxRecord * rlx_manifest_get       (RlxManifest       *self,
                                          guint              index);
/* An index, or -1; only after sealing. */
gint64            rlx_manifest_find      (RlxManifest       *self,
                                          const char        *name);
const gint64 *    rlx_manifest_get_shape (RlxManifest       *self,
                                          const RlxRecord   *record);
/* Of a file of NumPy's, or NULL. */
const RlxMember * rlx_manifest_get_member (RlxManifest      *self,
                                           const RlxRecord  *record);
/* The elements of a record, one after the other. */
RlxStream *       rlx_manifest_open      (RlxManifest       *self,
                                          const RlxRecord   *record,
                                          GCancellable      *cancellable,
                                          GError           **error);
/* Checks that no two overlap or begin before @start and, with @gapless, that they fill
 * everything up to @end. */
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
gboolean rlx_npz_read         (RlxSource     *source,
                               RlxManifest   *manifest,
                               GCancellable  *cancellable,
                               GError       **error);
/* One array, which has no name in the file. */
gboolean rlx_npy_read         (RlxSource     *source,
                               const char    *name,
                               RlxManifest   *manifest,
                               GCancellable  *cancellable,
                               GError       **error);
/* The index of a model in several safetensors files in the folder of @file. */
gboolean rlx_safetensors_read_index (RlxSource     *source,
                                     GFile         *file,
                                     RlxManifest   *manifest,
                                     GCancellable  *cancellable,
                                     GError       **error);

G_END_DECLS
