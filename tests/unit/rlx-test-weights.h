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
#ifdef __SANITIZE_ADDRESS__
#define RLX_TEST_COUNTS_MEMORY FALSE
#else
#define RLX_TEST_COUNTS_MEMORY TRUE
#endif

/* A file that has to be refused: the code, and words of the message. */
typedef struct
{
  const char *name;
  RlxWeightsError code;
  const char *words;         /* separated by "|" */
} RlxTestRefusal;

/* @length is what the file says, or -1 for the truth. */
GBytes * rlx_test_make_safetensors (gint64                length,
                                    const char           *header,
                                    gsize                 header_length,
                                    const void           *data,
                                    gsize                 size);
/* The header as text, and so many bytes of data, which count up. */
GBytes * rlx_test_make_simple      (const char           *header,
                                    gsize                 size);
/* Opens the file, which must fail so. */
void     rlx_test_check_refused    (GBytes               *file,
                                    const RlxTestRefusal *refusal);
/* Lets things happen until rlx_test_keep_result() has kept one, which is the caller's. */
GAsyncResult * rlx_test_wait_for   (GAsyncResult        **result);
/* The most memory that the process had. */
gsize    rlx_test_get_peak         (void);

G_END_DECLS
