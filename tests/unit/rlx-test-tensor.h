/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of tensors share.
 */
#pragma once

#include "rlx-tensor-private.h"

#include <string.h>

#define SHAPE(...) \
  ((const gint64[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ }))
#define VALUES(type, ...) \
  ((const type[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const type[]) { __VA_ARGS__ }))

static const RlxDataType all_types[] = {
  RLX_DATA_TYPE_F32,
  RLX_DATA_TYPE_F16,
  RLX_DATA_TYPE_I32,
  RLX_DATA_TYPE_U32,
  RLX_DATA_TYPE_I8,
  RLX_DATA_TYPE_U8,
  RLX_DATA_TYPE_BOOL,
  RLX_DATA_TYPE_I64,
  RLX_DATA_TYPE_U64,
  RLX_DATA_TYPE_I4,
  RLX_DATA_TYPE_U4,
  RLX_DATA_TYPE_I16,
  RLX_DATA_TYPE_U16,
  RLX_DATA_TYPE_BF16,
  RLX_DATA_TYPE_F8E4M3FN,
  RLX_DATA_TYPE_F8E4M3FNUZ,
  RLX_DATA_TYPE_F8E5M2,
  RLX_DATA_TYPE_F8E5M2FNUZ,
  RLX_DATA_TYPE_F8E8M0,
  RLX_DATA_TYPE_F4E2M1,
  RLX_DATA_TYPE_I2,
  RLX_DATA_TYPE_U2,
};

static const RlxDataType no_types[] = { (RlxDataType) -1, (RlxDataType) 22, (RlxDataType) 999, (RlxDataType) G_MININT };

/* The tensor is NULL, and the error is as in assert_message(). */
void assert_failed (RlxTensor *tensor, GError **error, int code, const char *parts);
void assert_text (RlxTensor *tensor, const char *expected);
