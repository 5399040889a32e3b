/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of weight files share: files of which everything can be wrong, and
 * what has to be said about them.
 */
#pragma once

#include "formats/rlx-weights-private.h"
#include "rlx-test-util.h"

G_BEGIN_DECLS

/* Sanitizers hold on to freed memory, and allocate more of their own. */
#if defined (__GLIBC__) && !defined (__SANITIZE_ADDRESS__)
#define RLX_TEST_COUNTS_MEMORY 1
#else
#define RLX_TEST_COUNTS_MEMORY 0
#endif

/* A file that has to be rejected: the error code, and words of the message. */
typedef struct
{
  const char *name;
  RlxWeightsError code;
  const char *words;         /* separated by "|" */
} RlxTestRefusal;

/* Appends the low @size bytes of @value in little-endian order. */
void     rlx_test_put              (GByteArray           *file,
                                    guint64               value,
                                    guint                 size);
/* @length is the one stored in the file, or -1 for the true one. */
GBytes * rlx_test_make_safetensors (gint64                length,
                                    const char           *header,
                                    gsize                 header_length,
                                    const void           *data,
                                    gsize                 size);
/* The header as text, and @size bytes of data that count up. */
GBytes * rlx_test_make_simple      (const char           *header,
                                    gsize                 size);
/* The peak of this thread's heap usage since _start(); 0 where nothing is counted. */
void     rlx_test_heap_start       (void);
gsize    rlx_test_heap_get_peak    (void);
/* Fails unless a file with @metadata bytes besides its elements was rejected using little memory, and with a message
 * that says where. */
void     rlx_test_check_message    (const GError         *error,
                                    gsize                 metadata);
/* Opens the file, of which @data bytes are elements; this must fail as described. */
void     rlx_test_check_refused    (GBytes               *file,
                                    gsize                 data,
                                    const RlxTestRefusal *refusal);
/* Iterates the main context until rlx_test_keep_result() has a result, which is passed to
 * the caller. */
GAsyncResult * rlx_test_wait_for   (GAsyncResult        **result);

G_END_DECLS
