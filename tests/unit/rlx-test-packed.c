/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed rows for tests.
 */
#include "config.h"

#include "rlx-test-packed.h"

const RlxTestPacked rlx_test_packed[RLX_TEST_N_PACKED] = {
  { "q4-0", 32, 18, { 0, -1 } }, { "q4-1", 32, 20, { 0, 2 } }, { "q5-0", 32, 22, { 0, -1 } }, { "q5-1", 32, 24, { 0, 2 } },
  { "q8-0", 32, 34, { 0, -1 } }, { "q2-k", 256, 84, { 80, 82 } }, { "q3-k", 256, 110, { 108, -1 } },
  { "q4-k", 256, 144, { 0, 2 } }, { "q5-k", 256, 176, { 0, 2 } }, { "q6-k", 256, 210, { 208, -1 } },
  { "q8-k", 256, 292, { -1, -1 } }, { "iq2-xxs", 256, 66, { 0, -1 } }, { "iq2-xs", 256, 74, { 0, -1 } },
  { "iq3-xxs", 256, 98, { 0, -1 } }, { "iq1-s", 256, 50, { 0, -1 } }, { "iq4-nl", 32, 18, { 0, -1 } },
  { "iq3-s", 256, 110, { 0, -1 } }, { "iq2-s", 256, 82, { 0, -1 } }, { "iq4-xs", 256, 136, { 0, -1 } },
  { "iq1-m", 256, 56, { -1, -1 } }, { "bf16", 1, 2, { -1, -1 } }, { "tq1-0", 256, 54, { 52, -1 } },
  { "tq2-0", 256, 66, { 64, -1 } }, { "mxfp4", 32, 17, { -1, -1 } }, { "nvfp4", 64, 36, { -1, -1 } },
  { "q1-0", 128, 18, { 0, -1 } }, { "q2-0", 64, 18, { 0, -1 } },
  { "int2", 4, 1, { -1, -1 } }, { "int4", 2, 1, { -1, -1 } }, { "int8", 1, 1, { -1, -1 } },
  { "f8-e4m3", 1, 1, { -1, -1 } }, { "f8-e5m2", 1, 1, { -1, -1 } },
};

gboolean
rlx_test_packed_is_f8 (const RlxTestPacked *format)
{
  return format->name[0] == 'f';
}

void
rlx_test_packed_tame (const RlxTestPacked *format,
                      guint8              *block)
{
  for (int i = 0; i < 2; i++)
    if (format->scales[i] >= 0)
      block[format->scales[i] + 1] = (block[format->scales[i] + 1] & 0x87) | 0x28;
  if (g_str_equal (format->name, "q8-k"))
    {
      block[3] = (block[3] & 0x80) | 0x3d;
    }
  else if (g_str_equal (format->name, "iq1-m"))
    {
      block[53] = (block[53] & 0x0f) | 0x80;
      block[55] = (block[55] & 0x0f) | 0x20;
    }
  else if (g_str_equal (format->name, "bf16"))
    {
      block[1] = (block[1] & 0x80) | 0x3f;
    }
  else if (g_str_equal (format->name, "mxfp4"))
    {
      block[0] = 118 + block[0] % 12;
    }
  else if (rlx_test_packed_is_f8 (format) && (block[0] & 0x7f) >= 0x60)
    {
      block[0] &= 0x8f;
    }
}

RlxTensor *
rlx_test_packed_rows (const RlxTestPacked *format,
                      const char          *prefix,
                      gsize                n_stacks,
                      gsize                rows,
                      gsize                columns,
                      gboolean             is_signed,
                      gboolean             tame,
                      GRand               *rand)
{
  gsize row_bytes = (columns + (gsize) format->numbers - 1) / (gsize) format->numbers * (gsize) format->bytes;
  gsize n = n_stacks * rows * row_bytes;
  g_autofree guint8 *bytes = g_new (guint8, n + 1);
  g_autofree double *values = g_new (double, n + 1);
  g_autofree char *type = g_strdup_printf ("%s[%s%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", is_signed ? "i8" : "u8", prefix, rows, row_bytes);

  for (gsize i = 0; i < n; i++)
    bytes[i] = (guint8) g_rand_int_range (rand, 0, 256);
  for (gsize i = 0; tame && i < n; i += (gsize) format->bytes)
    rlx_test_packed_tame (format, bytes + i);
  for (gsize i = 0; i < n; i++)
    values[i] = is_signed ? (gint8) bytes[i] : bytes[i];
  return rlx_test_tensor (type, values);
}
