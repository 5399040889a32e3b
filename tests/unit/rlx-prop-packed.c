/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls with packed numbers. Every format has kernels of its own: all of them are in
 * test-packed.c, here are some of each family.
 */
#include "config.h"

#include "rlx-prop-calls.h"
#include "rlx-test-packed.h"

/* The format for this variant, and the number of columns of a row. */
static const RlxTestPacked *
random_format (Call  *call,
               gsize *columns)
{
  static const char *const names[] = { "q4-0", "int4", "f8-e5m2", "q4-k", "iq3-s", "int8" };
  const char *name = names[call->variant % G_N_ELEMENTS (names)];

  for (gsize i = 0; i < RLX_TEST_N_PACKED; i++)
    if (g_str_equal (rlx_test_packed[i].name, name))
      {
        int numbers = rlx_test_packed[i].numbers;

        *columns = (gsize) (numbers < 32 ? prop_pick (call->rand, 1, 150) : numbers * prop_pick (call->rand, 1, 3));
        return &rlx_test_packed[i];
      }
  g_assert_not_reached ();
}

/* Scales and zero points for @rows rows of a format that has them. */
static void
add_scales (Call                *call,
            const RlxTestPacked *format,
            gboolean             is_signed,
            gsize                rows,
            gsize                columns)
{
  gsize bits = 8 / (gsize) format->numbers;
  gint64 block_size = prop_chance (call->rand, 0.3) ? 0 : prop_chance (call->rand, 0.5) ? 4 * prop_pick (call->rand, 1, 9) : 16 << prop_pick (call->rand, 0, 2);
  gint64 blocks = block_size == 0 ? 1 : ((gint64) columns + block_size - 1) / block_size;
  gint64 shape[] = { (gint64) rows, blocks };
  gint64 packed[] = { (gint64) rows, (blocks * (gint64) bits + 7) / 8 };

  if (format - rlx_test_packed < RLX_TEST_FIRST_SCALED)
    {
      skip_input (call);
      skip_input (call);
      return;
    }

  g_variant_dict_insert (call->attributes, "block_size", "x", block_size);
  if (prop_chance (call->rand, 0.2))
    add_input (call, PROP_TAME, RLX_DATA_TYPE_F32, shape, 0);
  else
    add_input (call, PROP_TAME, prop_chance (call->rand, 0.5) ? RLX_DATA_TYPE_F32 : RLX_DATA_TYPE_F16, shape, 2);
  if (rlx_test_packed_is_f8 (format) || prop_chance (call->rand, 0.3))
    skip_input (call);
  else if (prop_chance (call->rand, 0.5))
    add_input (call, PROP_WILD, is_signed ? RLX_DATA_TYPE_I8 : RLX_DATA_TYPE_U8, packed, 2);
  else
    add_input (call, PROP_TAME, RLX_DATA_TYPE_F32, shape, 2);
}

static gboolean
generate_packed (Call *call)
{
  gboolean gather = g_str_equal (call->op->name, "gather_packed"), is_signed = call->data_type == RLX_DATA_TYPE_I8;
  gsize columns, rows = (gsize) prop_pick (call->rand, gather ? 1 : 0, 9);
  const RlxTestPacked *format = random_format (call, &columns);
  gint64 shape[] = { prop_pick (call->rand, 0, 3), 5 };

  if (call->variant > 5)
    return FALSE;

  call->inputs[call->n_inputs++] = rlx_test_packed_rows (format, "", 1, rows, columns, is_signed, prop_chance (call->rand, 0.5), call->rand);
  if (gather)
    add_input (call, PROP_WILD, prop_chance (call->rand, 0.7) ? RLX_DATA_TYPE_I32 : RLX_DATA_TYPE_U8, shape, 2);
  add_scales (call, format, is_signed, rows, columns);
  g_variant_dict_insert (call->attributes, "type", "s", format->name);
  g_variant_dict_insert (call->attributes, "columns", "x", (gint64) columns);
  g_variant_dict_insert (call->attributes, "to", "s", prop_chance (call->rand, 0.5) ? "f16" : "f32");
  return TRUE;
}

static gboolean
generate_dequant_matmul (Call *call)
{
  gboolean experts = call->variant % 3 == 2, is_signed = prop_chance (call->rand, 0.3);
  gsize columns, n = (gsize) prop_size (call->rand, 40), n_experts = experts ? 3 : 1;
  const RlxTestPacked *format = random_format (call, &columns);
  gint64 x[] = { prop_pick (call->rand, 1, 2), prop_pick (call->rand, 1, 10), (gint64) columns };
  gint64 bias[] = { 3, (gint64) n };

  if (call->variant > 5)
    return FALSE;

  if (call->variant == 4)
    x[1] = 0;
  add_input (call, PROP_TAME, call->data_type, x, 3);
  call->inputs[call->n_inputs++] = rlx_test_packed_rows (format, experts ? "3," : "", n_experts, n, columns, is_signed, TRUE, call->rand);
  add_scales (call, format, is_signed, n_experts * n, columns);
  if (prop_chance (call->rand, 0.5))
    add_input (call, PROP_TAME, call->data_type, experts ? bias : bias + 1, experts ? 2 : 1);
  else
    skip_input (call);
  if (experts)
    {
      RlxTensor *tensor;
      double which[32];
      g_autofree char *type = prop_type_text (RLX_DATA_TYPE_I32, x, 2);

      for (gsize i = 0; i < G_N_ELEMENTS (which); i++)
        which[i] = (double) prop_pick (call->rand, -1, 3);
      tensor = rlx_test_tensor (type, which);
      call->inputs[call->n_inputs++] = tensor;
    }
  g_variant_dict_insert (call->attributes, "type", "s", format->name);
  return TRUE;
}

const PropRow prop_packed_rows[] = {
  { "dequant_matmul", generate_dequant_matmul },
  { "dequantize_blocks", generate_packed },
  { "gather_packed", generate_packed },
  { NULL, NULL },
};
