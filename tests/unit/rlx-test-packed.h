/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed rows with random numbers in them.
 */
#pragma once

#include "rlx-test-util.h"

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  int numbers, bytes;   /* per block */
  int scales[2];        /* offsets of f16 scales, or -1 */
} RlxTestPacked;

#define RLX_TEST_N_PACKED 32
/* From here on the scales are stored separately. */
#define RLX_TEST_FIRST_SCALED 27

extern const RlxTestPacked rlx_test_packed[RLX_TEST_N_PACKED];

gboolean rlx_test_packed_is_f8 (const RlxTestPacked *format);
/* Sets the scales of a block to values of ordinary size. */
void rlx_test_packed_tame (const RlxTestPacked *format, guint8 *block);
/* Rows of @columns numbers, as "u8[rows,bytes]"; @prefix gives leading dimensions: "2,".
 * The bytes are arbitrary, or with @tame ones that decode to ordinary numbers. */
RlxTensor *rlx_test_packed_rows (const RlxTestPacked *format,
                                 const char *prefix,
                                 gsize n_stacks,
                                 gsize rows,
                                 gsize columns,
                                 gboolean is_signed,
                                 gboolean tame,
                                 GRand *rand);

G_END_DECLS
