/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reports: small results of a run for the library itself, which tell what went wrong in a
 * checked run, or which values there were.
 */
#pragma once

#include "rlx-op-vocabulary-private.h"

G_BEGIN_DECLS

/* The words of a report, all u32. */
#define RLX_REPORT_WORDS 4

/* Stands for an excess of more than 64 bits, also negated. */
#define RLX_EXCESS_MAX G_MAXINT32

/* plan/rlx-lower.c: makes each run read back the node's result. */
void rlx_lower_add_report (RlxLower *lower, const RlxIrNode *node);

G_END_DECLS
