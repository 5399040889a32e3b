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
};

static const RlxDataType no_types[] = { (RlxDataType) -1, (RlxDataType) 11, (RlxDataType) 999, (RlxDataType) G_MININT };

/* The error is of the code, and its message has all of the parts, which are
 * separated by "|". */
static G_GNUC_UNUSED void
assert_failed (RlxTensor  *tensor,
               GError    **error,
               int         code,
               const char *parts)
{
  g_auto (GStrv) split = g_strsplit (parts, "|", -1);

  g_assert_null (tensor);
  g_assert_error (*error, RLX_GRAPH_ERROR, code);
  g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  for (guint i = 0; split[i] != NULL; i++)
    if (strstr ((*error)->message, split[i]) == NULL)
      g_error ("“%s” does not mention “%s”", (*error)->message, split[i]);
  g_clear_error (error);
}

static G_GNUC_UNUSED void
assert_text (RlxTensor  *tensor,
             const char *expected)
{
  g_autofree char *text = rlx_tensor_to_string (tensor);

  g_assert_cmpstr (text, ==, expected);
}
