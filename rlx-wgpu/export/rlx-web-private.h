/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Plans as files for a web page: rlx-web-plan.c writes what a page needs to know of a
 * plan, rlx-web-folder.c the files, and rlx-web-export.c is for programs. What reads them
 * is rlx.js; doc/browser.md describes the files.
 */
#pragma once

#include "plan/rlx-plan-private.h"

G_BEGIN_DECLS

/* The version of the files; rlx.js rejects any other. */
#define RLX_WEB_VERSION 1

/* Reports how many more bytes are done. */
typedef void (*RlxWebAdvance) (gpointer data,
                               guint64  bytes);

/* ---- the folder ------------------------------------------------------------------------ */

/* Data is written to files of limited size, which browsers fetch and cache one by one.
 * Equal data is written once. */
typedef struct _RlxWebFolder RlxWebFolder;

RlxWebFolder * rlx_web_folder_new    (GFile         *folder,
                                      RlxWebAdvance  advance,
                                      gpointer       advance_data,
                                      GCancellable  *cancellable,
                                      GError       **error);
void           rlx_web_folder_free   (RlxWebFolder  *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxWebFolder, rlx_web_folder_free)

/* Appends to @out where @data was written, as "[piece,at,size,offset]" for each part, where
 * offset is @offset plus what of @data came before, with commas between and before them
 * unless @out ends with "[". Sizes are rounded up to words. */
gboolean       rlx_web_folder_add    (RlxWebFolder  *self,
                                      GBytes        *data,
                                      guint64        offset,
                                      const char    *prefix,
                                      GString       *out,
                                      GError       **error);
/* Starts a new file for what follows. */
gboolean       rlx_web_folder_cut    (RlxWebFolder  *self,
                                      GError       **error);
/* Writes everything that is left, plan.json last. @text is its contents without the list of
 * pieces and the head with the checksum. */
gboolean       rlx_web_folder_finish (RlxWebFolder  *self,
                                      GString       *text,
                                      GError       **error);

/* ---- text ------------------------------------------------------------------------------ */

void           rlx_web_append_string (GString       *out,
                                      const char    *string);
/* A list of names, types and shapes, of RlxPlanPort. */
void           rlx_web_append_ports  (GString       *out,
                                      const char    *name,
                                      const GArray  *ports);

/* ---- plans ----------------------------------------------------------------------------- */

/* Kernels of all plans, each once. */
typedef struct
{
  GPtrArray *texts;
  GHashTable *indices;     /* text → index + 1 */
} RlxWebShaders;

/* The part of a target that browsers support: no matrices, no requested subgroup sizes, and
 * no subgroups if the driver chooses their size. */
void           rlx_web_restrict      (RlxTarget     *target);

/* Bytes of constants, states and @parameters (nullable, by name). */
guint64        rlx_web_count_bytes   (const RlxPlan *plan,
                                      GHashTable    *parameters);
gboolean       rlx_web_append_plan   (GString         *out,
                                      const RlxPlan   *plan,
                                      const RlxTarget *target,
                                      GHashTable      *parameters,
                                      RlxWebShaders   *shaders,
                                      RlxWebFolder    *folder,
                                      GError         **error);

G_END_DECLS
