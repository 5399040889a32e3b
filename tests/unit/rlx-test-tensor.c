/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Looks at tensors for tests.
 */
#include "config.h"

#include "rlx-test-tensor.h"
#include "rlx-test-graph.h"

void
assert_failed (RlxTensor  *tensor,
               GError    **error,
               int         code,
               const char *parts)
{
  g_assert_null (tensor);
  assert_message (error, code, parts);
}

void
assert_text (RlxTensor  *tensor,
             const char *expected)
{
  g_autofree char *text = rlx_tensor_to_string (tensor);

  g_assert_cmpstr (text, ==, expected);
}
