/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "case.h"

G_BEGIN_DECLS

typedef enum
{
  RESULT_PASS,
  RESULT_FAIL,
  RESULT_UNSUPPORTED,
} Result;

#define N_RESULTS 3

const char * result_to_string (Result      result);

/* @reason is set unless the case passes; for one that had to be rejected, it is the
 * reason for that, and @by_mapping tells whether it was rejected by a rule of the foreign
 * specification that is stricter than the operator table, before the library saw the
 * call. @device may be NULL for cases that compute nothing. */
Result       run_case         (const Case *test,
                               RlxDevice  *device,
                               char      **reason,
                               gboolean   *by_mapping);
gboolean     case_needs_device (const Case *test);

G_END_DECLS
