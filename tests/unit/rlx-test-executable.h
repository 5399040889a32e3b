/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of executables share: small ones, and their results.
 */
#pragma once

#include "rlx-device-private.h"
#include "rlx-test-util.h"

RlxTensor *floats (const char *type, const float *values);
RlxExecutable *compile (RlxGraph *graph);
/* y = relu(x w + b) with x [2, 3], w constant. */
RlxExecutable *small_executable (void);
RlxTensor *run_one (RlxExecutable *executable, RlxTensor *input);
void assert_values (RlxTensor *tensor, const char *text);
/* A graph with several kinds of kernels, so that concurrent runs would disturb each other
 * if they could. */
RlxExecutable *busy_executable (void);
