/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Contractions: what the property tests do not reach, and what is refused.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

static GVariant *
equation (const char *text)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "equation", "s", text);
  return g_variant_dict_end (&dict);
}

static GVariant *
no_attributes (void)
{
  return g_variant_new ("a{sv}", NULL);
}

static GVariant *
axes (gint64 left,
      gint64 right)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "lhs_contracting", rlx_test_ints (1, &left));
  g_variant_dict_insert_value (&dict, "rhs_contracting", rlx_test_ints (1, &right));
  return g_variant_dict_end (&dict);
}

static void
check_einsum (const char *text,
              const char *types)
{
  RlxTensor *inputs[8];
  gsize n = 0;

  for (g_auto (GStrv) list = g_strsplit (types, " ", -1); list[n] != NULL; n++)
    inputs[n] = rlx_test_random (list[n], -1, 1, (guint32) n + 1);
  rlx_test_check_op ("einsum", n, inputs, equation (text));
  for (gsize i = 0; i < n; i++)
    g_object_unref (inputs[i]);
}

static void
test_einsum_sizes (void)
{
  if (rlx_test_device () == NULL)
    return;

  /* Eight dimensions, all permuted. */
  check_einsum ("abcdefgh->hcbgfaed", "f32[2,3,2,1,3,2,2,3]");
  check_einsum ("abcdefgh,hgfedcba->", "f32[2,3,2,1,3,2,2,3] f32[3,2,2,3,1,2,3,2]");
  /* More letters than a tensor can have dimensions. */
  check_einsum ("abcdef,fghijk,kl->al", "f32[2,2,2,2,2,3] f32[3,2,2,2,2,4] f32[4,2]");
  check_einsum ("a,b,c,d,e,f,g,h->hgfedcba", "f32[2] f32[1] f32[3] f32[2] f32[1] f32[2] f32[3] f32[2]");
  /* Without copies of the operands, and with copies of both. */
  check_einsum ("bhqd,bhkd->bhqk", "f32[2,3,33,20] f32[2,3,40,20]");
  check_einsum ("ikb,bkj->jib", "f32[33,20,3] f32[3,20,40]");
  /* A diagonal of a diagonal. */
  check_einsum ("iijj->ij", "f32[5,5,6,6]");
  check_einsum ("ijiji", "f32[3,4,3,4,3]");
}

static void
test_einsum_zeros (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_einsum ("ij,jk->ik", "f32[3,0] f32[0,4]");
  check_einsum ("ij,jk->ik", "f32[0,3] f32[3,4]");
  check_einsum ("ij->j", "f32[0,4]");
  check_einsum ("ij,ik,il->jkl", "f32[0,2] f32[0,3] f32[0,4]");
  check_einsum ("ii", "f32[0,0]");
  /* Broadcast to an empty dimension. */
  check_einsum ("ij,jk->ik", "f32[3,1] f32[0,4]");
}

/* An empty sum is zero, whatever the other factors are. */
static void
test_einsum_nothing (void)
{
  g_autoptr (RlxTensor) a = rlx_test_tensor ("f32[2,0]", NULL);
  g_autoptr (RlxTensor) b = rlx_test_tensor ("f32[0,3]", NULL);
  g_autoptr (RlxTensor) c = rlx_test_tensor ("f32[3,2]", (const double[]) { 1, NAN, INFINITY, 2, -INFINITY, 3 });
  g_autoptr (RlxTensor) row = rlx_test_tensor ("f32[1,2]", (const double[]) { NAN, INFINITY });

  if (rlx_test_device () == NULL)
    return;

  rlx_test_check_op ("einsum", 3, (RlxTensor *[]) { a, b, c }, equation ("ij,jk,kl->il"));
  rlx_test_check_op ("einsum", 2, (RlxTensor *[]) { a, row }, equation ("ij,jk->ik"));
  rlx_test_check_op ("einsum", 2, (RlxTensor *[]) { a, c }, equation ("ij,kl->kl"));
}

/* Sizes of 1 on both sides. */
static void
test_einsum_broadcast (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_einsum ("ij,jk->ik", "f32[3,1] f32[5,4]");
  check_einsum ("ij,jk->ik", "f32[3,5] f32[1,4]");
  check_einsum ("...j,...jk->...k", "f32[3,1,5] f32[2,5,4]");
  check_einsum ("...,...->...", "f32[3,1] f32[2,1,4]");
  check_einsum ("...i,...i->i...", "f32[2,3] f32[4,1,3]");
  /* An ellipsis that the result lacks is summed over. */
  check_einsum ("...i->i", "f32[2,3,4]");
}

static void
test_einsum_f16 (void)
{
  if (rlx_test_device () == NULL)
    return;

  /* Intermediate results would be rounded, or overflow f16. */
  check_einsum ("ij,jk,kl->il", "f16[9,300] f16[300,9] f16[9,5]");
  check_einsum ("ij,k->k", "f16[300,300] f16[5]");
}

static void
test_einsum_rule (void)
{
  rlx_test_infers ("einsum", "f32[2,3] f32[3,4]", equation ("ij,jk"), "f32[2,4]");
  rlx_test_infers ("einsum", "f32[2,3]", equation ("ba"), "f32[3,2]");
  rlx_test_infers ("einsum", "f32[2,3]", equation ("bA"), "f32[3,2]");
  rlx_test_infers ("einsum", "f32[2,3]", equation ("b..."), "f32[3,2]");
  rlx_test_infers ("einsum", "f32[4,2,3]", equation ("b...a->...ab"), "f32[2,3,4]");
  rlx_test_infers ("einsum", "f32[]", equation (""), "f32[]");
  rlx_test_infers ("einsum", "f32[] f32[2]", equation (",a"), "f32[2]");
  rlx_test_infers ("einsum", "f16[2,2]", equation ("...->..."), "f16[2,2]");
  rlx_test_infers ("einsum", "f32[2]", equation ("i->i..."), "f32[2]");
  /* Sums come before products, or else this would be too large. */
  rlx_test_infers ("einsum", "f32[65536] f32[65536] f32[65536]", equation ("i,j,k->"), "f32[]");
}

static void
test_einsum_refused (void)
{
  static const struct
  {
    const char *types;
    const char *equation;
    RlxGraphError code;
    const char *words;
  } cases[] = {
    { "f32[2,3]", "ij->i?", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“?” at character 6" },
    { "f32[2,3]", "i1", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“1” at character 2" },
    { "f32[2,3]", "iß", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“ß” at character 2" },
    { "f32[2,3]", "ij-i", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“-” at character 3" },
    { "f32[2,3]", "ij->i->j", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "character 6" },
    { "f32[2,3]", "ij->i,j", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "character 6" },
    { "f32[2,3]", "i..j", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "dot at character 2" },
    { "f32[2,3]", "...i...", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "character 5" },
    { "f32[2,3]", "ij->ii", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the label “i” appears twice" },
    { "f32[2,3]", "ij->ik", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the label “k” is in the result" },
    { "f32[2,3]", "ij,jk", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "more terms" },
    { "f32[2,3] f32[3,4]", "ij", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "1 terms, but there are 2 operands" },
    { "f32[2,3]", "ijk", RLX_GRAPH_ERROR_SHAPE, "“ijk” has 3 labels, but operand 0 is f32[2, 3]" },
    { "f32[2,3]", "i", RLX_GRAPH_ERROR_SHAPE, "operand 0" },
    { "f32[2,3]", "ij...k", RLX_GRAPH_ERROR_SHAPE, "operand 0" },
    { "f32[2,3] f32[4,5]", "ij,jk", RLX_GRAPH_ERROR_SHAPE, "“j” has the size 4 in operand 1, but 3" },
    { "f32[2,3]", "ii", RLX_GRAPH_ERROR_SHAPE, "“i” is repeated in operand 0, with the sizes 2 and 3" },
    { "f32[1,3]", "ii", RLX_GRAPH_ERROR_SHAPE, "“i” is repeated" },
    { "f32[2,3] f32[4,3]", "...i,...i", RLX_GRAPH_ERROR_SHAPE, "dimension -1 of the ellipsis" },
    { "f32[2,2,2,2,2] f32[2,2,2,2,2]", "abcde,fghij", RLX_GRAPH_ERROR_LIMIT, "10 dimensions" },
    { "f32[65536] f32[65536]", "i,j", RLX_GRAPH_ERROR_LIMIT, NULL },
    { "f32[2] f16[2]", "i,i", RLX_GRAPH_ERROR_DATA_TYPE, NULL },
    { "i32[2]", "i", RLX_GRAPH_ERROR_DATA_TYPE, NULL },
  };
  g_autoptr (GString) many = g_string_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    rlx_test_refuses ("einsum", cases[i].types, equation (cases[i].equation), cases[i].code, cases[i].words);

  rlx_test_refuses ("einsum", "f32[2]", no_attributes (), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“equation” is missing: text (s)");
  rlx_test_refuses ("einsum", "f32[2]", g_variant_new_parsed ("{'equation': <1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "text (s)");

  for (guint i = 0; i < 65; i++)
    g_string_append (many, i > 0 ? " f32[]" : "f32[]");
  rlx_test_refuses ("einsum", many->str, equation (""), RLX_GRAPH_ERROR_LIMIT, "65 operands; the limit is 64");
  for (guint i = 0; i < 6000; i++)
    g_string_append_c (many, ' ');
  rlx_test_refuses ("einsum", "f32[]", equation (many->str), RLX_GRAPH_ERROR_LIMIT, "4096 bytes");
}

/* The method, and the round trip through text. */
static void
test_einsum_method (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxGraph) again = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL, *text_again = NULL;
  const gint64 shape[] = { 3, 3 };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, &error);
  RlxNode *y = rlx_graph_einsum (graph, &x, 1, "ii -> i", &error);

  g_assert_no_error (error);
  rlx_graph_output (graph, "y", y, NULL);
  text = rlx_graph_to_text (graph);
  g_assert_nonnull (strstr (text, "einsum(%0) {equation = \"ii -> i\"}"));
  again = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  text_again = rlx_graph_to_text (again);
  g_assert_cmpstr (text_again, ==, text);

  g_assert_null (rlx_graph_einsum (graph, &x, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "“equation” has no value"));
}

static void
test_dot_general (void)
{
  g_autoptr (RlxTensor) a = NULL, b = NULL;
  GVariantDict dict;

  rlx_test_infers ("dot_general", "f32[2,3,4] f32[5,4]", axes (-1, 1), "f32[2,3,5]");
  rlx_test_refuses ("dot_general", "f32[2,3] f32[4,5]", axes (1, 0), RLX_GRAPH_ERROR_SHAPE, "3 and 4");
  rlx_test_refuses ("dot_general", "f32[2,3] f32[4,5]", axes (2, 0), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  /* No broadcasting here. */
  rlx_test_refuses ("dot_general", "f32[2,1] f32[4,5]", axes (1, 0), RLX_GRAPH_ERROR_SHAPE, "1 and 4");
  rlx_test_refuses ("dot_general", "f32[3,3] f32[3,3]",
                    g_variant_new_parsed ("{'lhs_contracting': <[int64 0, -2]>, 'rhs_contracting': <[int64 0, 1]>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "twice");
  rlx_test_refuses ("dot_general", "f32[3,3] f32[3,3]",
                    g_variant_new_parsed ("{'lhs_contracting': <[int64 0, 1]>, 'rhs_contracting': <[int64 0]>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "2 axes");
  rlx_test_refuses ("dot_general", "f32[3,3] f32[3,3]",
                    g_variant_new_parsed ("{'lhs_contracting': <[int64 0]>, 'rhs_contracting': <[int64 0]>, "
                                          "'lhs_batch': <[int64 0]>, 'rhs_batch': <[int64 1]>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "lhs_batch has the axis 0");

  if (rlx_test_device () == NULL)
    return;

  a = rlx_test_random ("f32[4,33,2,10]", -1, 1, 1);
  b = rlx_test_random ("f32[10,2,40,4]", -1, 1, 2);
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "lhs_contracting", rlx_test_ints (2, (gint64[]) { 3, 2 }));
  g_variant_dict_insert_value (&dict, "rhs_contracting", rlx_test_ints (2, (gint64[]) { 0, 1 }));
  g_variant_dict_insert_value (&dict, "lhs_batch", rlx_test_ints (1, (gint64[]) { 0 }));
  g_variant_dict_insert_value (&dict, "rhs_batch", rlx_test_ints (1, (gint64[]) { -1 }));
  rlx_test_check_op ("dot_general", 2, (RlxTensor *[]) { a, b }, g_variant_dict_end (&dict));
}

static void
test_diagonal (void)
{
  rlx_test_infers ("diagonal", "f32[2,3,4]", no_attributes (), "f32[2,3]");
  rlx_test_infers ("diagonal", "i8[2,3,4]", g_variant_new_parsed ("{'axis1': <int64 0>, 'axis2': <int64 2>, 'offset': <int64 1>}"), "i8[3,2]");
  rlx_test_infers ("diagonal", "f32[3,4]", g_variant_new_parsed ("{'offset': <int64 4>}"), "f32[0]");
  rlx_test_infers ("diagonal", "f32[3,4]", g_variant_new_parsed ("{'offset': <int64 -9223372036854775808>}"), "f32[0]");
  rlx_test_refuses ("diagonal", "f32[3]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "at least 2");
  rlx_test_refuses ("diagonal", "f32[3,4]", g_variant_new_parsed ("{'axis1': <int64 1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "both 1");
  rlx_test_refuses ("diagonal", "f32[3,4]", g_variant_new_parsed ("{'axis1': <int64 2>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
}

/* Many rows and few experts; one row per expert; empty. */
static void
test_grouped_matmul (void)
{
  static const struct
  {
    const char *x, *weight, *expert;
    double least, greatest;
  } cases[] = {
    { "f32[3000,40]", "f32[12,40,70]", "i32[3000]", -1, 13 },
    { "f32[64,16]", "f32[64,16,5]", "i32[64]", 0, 63 },
    { "f32[20,16]", "f32[4,16,70]", "i32[20]", 4, 2147483647 },
    { "f32[20,16]", "f32[4,16,70]", "i32[20]", -2147483648.0, -1 },
    { "f32[2,3,300]", "f32[4,300,70]", "u32[2,3]", 0, 5 },
    { "f32[5,4,30]", "f32[4,30,70]", "u8[5,4]", 0, 5 },
    { "f16[40,33]", "f16[3,33,65]", "i8[40]", -2, 3 },
    { "f32[7]", "f32[3,7,5]", "i32[]", 2, 2 },
  };

  rlx_test_infers ("grouped_matmul", "f32[2,5,3] f32[8,3,7] i64[2,5]", no_attributes (), "f32[2,5,7]");
  rlx_test_refuses ("grouped_matmul", "f32[5,3] f32[3,7] i32[5]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "weight must have 3 dimensions");
  rlx_test_refuses ("grouped_matmul", "f32[5,3] f32[8,4,7] i32[5]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "3 and 4");
  rlx_test_refuses ("grouped_matmul", "f32[5,3] f32[8,3,7] i32[4]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "i32[4]");
  rlx_test_refuses ("grouped_matmul", "f32[5,3] f32[8,3,7] i32[5,1]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "i32[5, 1]");
  rlx_test_refuses ("grouped_matmul", "f32[5,3] f32[8,3,7] f32[5]", no_attributes (), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("grouped_matmul", "f32[] f32[8,3,7] i32[]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "scalar");

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RlxTensor) x = rlx_test_random (cases[i].x, -1, 1, 1);
      g_autoptr (RlxTensor) weight = rlx_test_random (cases[i].weight, -1, 1, 2);
      g_autoptr (RlxTensor) expert = rlx_test_random (cases[i].expert, cases[i].least, cases[i].greatest, 3);

      rlx_test_check_op ("grouped_matmul", 3, (RlxTensor *[]) { x, weight, expert }, no_attributes ());
    }
}

/* An infinity in one row, or in a matrix that few rows use, does not spread. */
static void
test_grouped_matmul_infinite (void)
{
  g_autofree double *x = g_new (double, 40), *weight = g_new (double, 3 * 4 * 2), *expert = g_new (double, 10), *expected = g_new (double, 20);
  g_autoptr (RlxTensor) a = NULL, b = NULL, c = NULL, y = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < 40; i++)
    x[i] = i == 5 ? INFINITY : 1;
  for (gsize i = 0; i < 24; i++)
    weight[i] = i / 8 == 2 ? INFINITY : 1;
  for (gsize i = 0; i < 10; i++)
    {
      expert[i] = i == 3 ? 2 : (double) (i % 2);
      expected[2 * i] = expected[2 * i + 1] = i == 1 || i == 3 ? INFINITY : 4;
    }
  a = rlx_test_tensor ("f32[10,4]", x);
  b = rlx_test_tensor ("f32[3,4,2]", weight);
  c = rlx_test_tensor ("i32[10]", expert);
  y = rlx_test_run_op ("grouped_matmul", 3, (RlxTensor *[]) { a, b, c }, NULL);
  rlx_test_compare ("infinite", y, "f32[10,2]", expected, 0, 0);
}

static void
test_lora_matmul (void)
{
  rlx_test_infers ("lora_matmul", "f32[2,5,3] f32[3,7] f32[3,1] f32[1,7]", no_attributes (), "f32[2,5,7]");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[3,7] f32[4,1] f32[1,7]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "the rows of down differ: 3 and 4");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[3,7] f32[3,1] f32[2,7]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "1 and 2");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[3,7] f32[3,1] f32[1,6]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "7 and 6");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[4,7] f32[3,1] f32[1,7]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "3 and 4");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[1,3,7] f32[3,1] f32[1,7]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "weight must have 2");
  rlx_test_refuses ("lora_matmul", "f32[5,3] f32[3,7] f32[3,1] f32[1,7]", g_variant_new_parsed ("{'scale': <inf>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/contract/einsum/sizes", test_einsum_sizes);
  g_test_add_func ("/contract/einsum/zeros", test_einsum_zeros);
  g_test_add_func ("/contract/einsum/nothing", test_einsum_nothing);
  g_test_add_func ("/contract/einsum/broadcast", test_einsum_broadcast);
  g_test_add_func ("/contract/einsum/f16", test_einsum_f16);
  g_test_add_func ("/contract/einsum/rule", test_einsum_rule);
  g_test_add_func ("/contract/einsum/refused", test_einsum_refused);
  g_test_add_func ("/contract/einsum/method", test_einsum_method);
  g_test_add_func ("/contract/dot-general", test_dot_general);
  g_test_add_func ("/contract/diagonal", test_diagonal);
  rlx_test_add_kernels ("/contract/grouped-matmul", test_grouped_matmul);
  g_test_add_func ("/contract/grouped-matmul/infinite", test_grouped_matmul_infinite);
  g_test_add_func ("/contract/lora-matmul", test_lora_matmul);

  return g_test_run ();
}
