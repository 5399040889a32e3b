/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Element-wise operators on tensors that are large enough to be read and written four
 * elements at a time on a GPU, with sizes that four does not divide.
 */
#include "config.h"

#include "rlx-test-util.h"

static void
check (const char *op,
       const char *types,
       const char *attributes)
{
  g_auto(GStrv) list = g_strsplit (types, " ", -1);
  RlxTensor *inputs[3] = { NULL, };
  gsize n = 0;

  for (; list[n] != NULL; n++)
    inputs[n] = rlx_test_random (list[n], -2, 2, (guint32) n + 1);
  g_test_message ("%s %s", op, types);
  rlx_test_check_op (op, n, inputs, g_variant_new_parsed (attributes != NULL ? attributes : "@a{sv} {}"));
  for (gsize i = 0; i < n; i++)
    g_object_unref (inputs[i]);
}

static void
test_operands (void)
{
  if (rlx_test_device () == NULL)
    return;

  check ("neg", "f32[70001]", NULL);
  check ("neg", "f16[70002]", NULL);
  check ("tanh", "f16[70003]", NULL);
  check ("add", "f32[257,273] f32[257,273]", NULL);
  /* operands that are not contiguous are read one element at a time */
  check ("sub", "f32[257,273] f32[273]", NULL);
  check ("sub", "f32[257,1] f32[257,273]", NULL);
  check ("mul", "f16[3,101,77] f16[101,1]", NULL);
  check ("where", "bool[257,273] f32[257,273] f32[273]", NULL);
  check ("cast", "f16[70001]", "{'to': <'f32'>}");
  check ("cast", "f32[70001]", "{'to': <'f16'>}");
  check ("cast", "u8[70001]", "{'to': <'f32'>}");
  check ("cast", "f32[70001]", "{'to': <'i32'>}");
  check ("equal", "f32[70001] f32[70001]", NULL);
}

/* A chain whose steps can overwrite their operands, with another operand that is read transposed. */
static void
test_in_place (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text ("rlx 1\n"
                                                       "%0 = input \"x\" f32[259, 259]\n"
                                                       "%1 = neg(%0)\n"
                                                       "%2 = reduce_sum(%1) {axes = [1], keep_dims = true}\n"
                                                       "%3 = sub(%1, %2)\n"
                                                       "%4 = transpose(%3) {permutation = [1, 0]}\n"
                                                       "%5 = add(%3, %4)\n"
                                                       "output \"y\" %5\n", &error);
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[259,259]", -2, 2, 5);
  g_autofree double *values = NULL, *expected = g_new (double, 259 * 259), *sums = g_new0 (double, 259);
  g_autofree RlxTensor **outputs = NULL;
  gsize n;

  g_assert_no_error (error);
  if (rlx_test_device () == NULL)
    return;

  values = rlx_test_get_values (x);
  for (guint i = 0; i < 259 * 259; i++)
    sums[i / 259] -= values[i];
  for (guint i = 0; i < 259; i++)
    for (guint j = 0; j < 259; j++)
      expected[i * 259 + j] = -values[i * 259 + j] - sums[i] - values[j * 259 + i] - sums[j];
  outputs = rlx_test_run_graph (g_steal_pointer (&graph), 1, &x, &n);
  g_assert_nonnull (outputs);
  /* two sums of 259 numbers up to 2, in floats */
  rlx_test_compare ("sums of rows and columns", outputs[0], "f32[259,259]", expected, 2 * 259 * 0x1p-24 * 518, 4 * 0x1p-24);
  g_object_unref (outputs[0]);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/vectors/operands", test_operands);
  g_test_add_func ("/vectors/in-place", test_in_place);

  return g_test_run ();
}
