/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What `rlx verify` found, to be attached to a report: the device as the library sees it and
 * what its kernels gave, but nothing of whose it is.
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-wgpu/rlx-private.h"

G_BEGIN_DECLS

typedef struct _RlxVerifyReport RlxVerifyReport;

/* @names, if any, are all that is tried. */
RlxVerifyReport * rlx_verify_report_new           (RlxDevice       *device,
                                                   char           **names,
                                                   gboolean         quick);
void              rlx_verify_report_free          (RlxVerifyReport *self);

/* A line that rlx-verify has told: see there. @dict may be floating. */
void              rlx_verify_report_add           (RlxVerifyReport *self,
                                                   const char      *kind,
                                                   GVariant        *dict);
/* It is no longer used. */
void              rlx_verify_report_add_ban       (RlxVerifyReport *self,
                                                   const char      *family,
                                                   const char      *variant);
/* What rlx-verify has to know to do what is left. */
void              rlx_verify_report_add_arguments (RlxVerifyReport *self,
                                                   GPtrArray       *arguments);

/* The case that was begun last. */
gboolean          rlx_verify_report_is_in_case    (RlxVerifyReport *self);
gboolean          rlx_verify_report_get_variant   (RlxVerifyReport *self,
                                                   const char     **family,
                                                   const char     **variant);
char *            rlx_verify_report_describe_case (RlxVerifyReport *self);
/* Whether it has said itself that the device was lost. */
gboolean          rlx_verify_report_has_lost      (RlxVerifyReport *self);
double            rlx_verify_report_get_progress  (RlxVerifyReport *self);
gboolean          rlx_verify_report_is_complete   (RlxVerifyReport *self);
/* Whether there are no cases. */
gboolean          rlx_verify_report_is_empty      (RlxVerifyReport *self);
/* Leaves the case that was begun last; FALSE if none is left. */
gboolean          rlx_verify_report_go_on         (RlxVerifyReport *self);

/* Nothing more comes, because of @problem (nullable). Whether all was tried and is right. */
gboolean          rlx_verify_report_end           (RlxVerifyReport *self,
                                                   const char      *problem);
void              rlx_verify_report_print         (RlxVerifyReport *self);
void              rlx_verify_report_print_json    (RlxVerifyReport *self);
/* NULL: a name that tells the adapter, and whether the report is partial. */
gboolean          rlx_verify_report_write         (RlxVerifyReport *self,
                                                   const char      *path,
                                                   gboolean         tells);

G_END_DECLS
