/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reports: small results of a run that are for the library itself, which finds in them
 * what went wrong in a checked run, or what values there were.
 */
#pragma once

#include "rlx-op-vocabulary-private.h"

G_BEGIN_DECLS

/* Of a report, all of type u32. */
#define RLX_REPORT_WORDS 4

/* Represents an excess beyond 64 bits, also with the opposite sign. */
#define RLX_EXCESS_MAX G_MAXINT32

/* plan/rlx-lower.c: makes each run read back the node's result. */
void rlx_lower_add_report (RlxLower *lower, const RlxIrNode *node);

G_END_DECLS
