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

/* Sanitizers keep what is freed, and more beside it. */
#if defined (__GLIBC__) && !defined (__SANITIZE_ADDRESS__)
#define RLX_TEST_COUNTS_MEMORY 1
#else
#define RLX_TEST_COUNTS_MEMORY 0
#endif

/* A file that has to be refused: the code, and words of the message. */
typedef struct
{
  const char *name;
  RlxWeightsError code;
  const char *words;         /* separated by "|" */
} RlxTestRefusal;

/* Appends the low @size bytes of @value, the lowest first. */
void     rlx_test_put              (GByteArray           *file,
                                    guint64               value,
                                    guint                 size);
/* @length is what the file says, or -1 for the truth. */
GBytes * rlx_test_make_safetensors (gint64                length,
                                    const char           *header,
                                    gsize                 header_length,
                                    const void           *data,
                                    gsize                 size);
/* The header as text, and so many bytes of data, which count up. */
GBytes * rlx_test_make_simple      (const char           *header,
                                    gsize                 size);
/* What this thread has taken from the heap since _start(), at most; 0 where nothing is counted. */
void     rlx_test_heap_start       (void);
gsize    rlx_test_heap_get_peak    (void);
/* Whether a file with so many bytes besides its elements was refused with little memory, and with a message that says
 * where. */
void     rlx_test_check_message    (const GError         *error,
                                    gsize                 metadata);
/* Opens the file, of which @data bytes are elements; that must fail so. */
void     rlx_test_check_refused    (GBytes               *file,
                                    gsize                 data,
                                    const RlxTestRefusal *refusal);
/* Lets things happen until rlx_test_keep_result() has kept one, which is the caller's. */
GAsyncResult * rlx_test_wait_for   (GAsyncResult        **result);

G_END_DECLS
