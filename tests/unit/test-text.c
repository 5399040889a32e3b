/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-graph-private.h"
#include "rlx-op-vocabulary-private.h"
#include "rlx-test-graph.h"

#include <locale.h>
#include <math.h>
#include <string.h>

/* ---- helpers ------------------------------------------------------------------ */

static void
assert_refused (const char *text,
                int         code,
                const char *parts)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, &error);

  if (graph != NULL)
    g_error ("not refused: %s", text);
  assert_message (&error, code, parts);
}

/* The text after its first line. */
static RlxGraph *
read_body (const char *body)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = g_strconcat ("rlx 1\n", body, NULL);
  RlxGraph *graph = rlx_graph_new_from_text (text, &error);

  g_assert_no_error (error);

  return graph;
}

static void
assert_body (RlxGraph   *graph,
             const char *body)
{
  g_autofree char *expected = g_strconcat ("rlx 1\n", body, NULL);
  g_autofree char *text = rlx_graph_to_text (graph);

  g_assert_cmpstr (text, ==, expected);
}

static void
assert_same_ir (const RlxIr *a,
                const RlxIr *b)
{
  g_assert_cmpuint (a->nodes->len, ==, b->nodes->len);
  g_assert_cmpuint (a->n_values, ==, b->n_values);
  g_assert_cmpuint (a->outputs->len, ==, b->outputs->len);
  g_assert_cmpuint (a->assigns->len, ==, b->assigns->len);

  for (guint i = 0; i < a->nodes->len; i++)
    {
      const RlxIrNode *x = g_ptr_array_index (a->nodes, i);
      const RlxIrNode *y = g_ptr_array_index (b->nodes, i);

      g_assert_true (x->op == y->op);
      g_assert_cmpstr (x->name, ==, y->name);
      g_assert_cmpuint (x->n_inputs, ==, y->n_inputs);
      g_assert_cmpuint (x->n_outputs, ==, y->n_outputs);
      g_assert_true (rlx_attrs_equal (x->op, x->attrs, y->attrs));
      for (guint j = 0; j < x->n_inputs; j++)
        {
          g_assert_true ((x->inputs[j] == NULL) == (y->inputs[j] == NULL));
          if (x->inputs[j] != NULL)
            g_assert_cmpuint (x->inputs[j]->id, ==, y->inputs[j]->id);
        }
      for (guint j = 0; j < x->n_outputs; j++)
        g_assert_true (rlx_type_equal (&x->outputs[j].type, &y->outputs[j].type));
      g_assert_true ((x->data == NULL) == (y->data == NULL));
      if (x->data != NULL)
        g_assert_true (rlx_tensor_equal (x->data, y->data));
    }

  for (guint i = 0; i < a->outputs->len; i++)
    {
      const RlxIrOutput *x = &g_array_index (a->outputs, RlxIrOutput, i);
      const RlxIrOutput *y = &g_array_index (b->outputs, RlxIrOutput, i);

      g_assert_cmpstr (x->name, ==, y->name);
      g_assert_cmpuint (x->value->id, ==, y->value->id);
    }

  for (guint i = 0; i < a->assigns->len; i++)
    {
      const RlxIrAssign *x = &g_array_index (a->assigns, RlxIrAssign, i);
      const RlxIrAssign *y = &g_array_index (b->assigns, RlxIrAssign, i);

      g_assert_cmpuint (x->state->id, ==, y->state->id);
      g_assert_cmpuint (x->value->id, ==, y->value->id);
    }
}

/* A round trip through text gives the same graph, and the same text again. */
static void
assert_round_trip (RlxGraph *graph)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = rlx_graph_to_text (graph);
  g_autoptr (RlxGraph) again = rlx_graph_new_from_text (text, &error);
  g_autofree char *text_again = NULL;

  g_assert_no_error (error);
  text_again = rlx_graph_to_text (again);
  g_assert_cmpstr (text, ==, text_again);
  assert_same_ir (rlx_graph_peek_ir (graph, NULL), rlx_graph_peek_ir (again, NULL));
}

/* Some of everything. */
static RlxGraph *
make_graph (gboolean with_data)
{
  g_autoptr (GError) error = NULL;
  RlxGraph *graph = rlx_graph_new ();
  g_autoptr (RlxTensor) weights = rlx_tensor_new_from_floats (SHAPE (3, 2), (float[]) { 1, 0, 0.1f, -1, 1e-45f, 3.4028235e38f }, 6, &error);
  g_autoptr (RlxTensor) initial = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, SHAPE (2), (gint64[]) { -128, 127 }, 2, &error);
  g_autofree float *many = g_new (float, 100);
  g_autoptr (RlxTensor) large = NULL;
  g_autoptr (RlxLinearOptions) linear = rlx_linear_options_new ();
  g_autoptr (RlxLayerNormOptions) norm = rlx_layer_norm_options_new ();
  g_autoptr (RlxAttentionOptions) attention = rlx_attention_options_new ();
  RlxNode *x, *w, *p, *s, *y, *z, *big;

  for (guint i = 0; i < 100; i++)
    many[i] = sqrtf ((float) i);
  large = rlx_tensor_new_from_floats (SHAPE (10, 10), many, 100, &error);

  x = rlx_graph_input (graph, "x \"quoted\"\n\\ 😀 \342\200\256", RLX_DATA_TYPE_F32, SHAPE (2, 3), &error);
  w = rlx_graph_constant (graph, weights, &error);
  p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, SHAPE (2), &error);
  s = rlx_graph_state (graph, "state", initial, &error);
  g_assert_no_error (error);

  rlx_linear_options_set_alpha (linear, 1.0 / 3);
  y = rlx_node_linear (x, w, p, linear, &error);
  rlx_node_set_name (y, "a \"label\"");
  rlx_layer_norm_options_set_axes (norm, SHAPE (0, -1));
  rlx_layer_norm_options_set_epsilon (norm, 1e-3);
  y = rlx_node_layer_norm (y, NULL, NULL, norm, &error);
  y = rlx_graph_concat (graph, (RlxNode *[]) { y, y, y }, 3, -1, &error);
  y = rlx_node_slice (y, SHAPE (0, 1), SHAPE (2, G_MAXINT64), NULL, &error);
  y = rlx_node_reshape (y, SHAPE (1, 2, 5, 1), &error);
  rlx_attention_options_set_causal (attention, TRUE);
  z = rlx_node_attention (y, y, y, NULL, NULL, NULL, attention, &error);
  z = rlx_node_cast (z, RLX_DATA_TYPE_F16, &error);
  z = rlx_node_reduce_sum (z, NULL, 0, NULL, &error);
  g_assert_no_error (error);
  rlx_graph_assign (graph, s, rlx_node_identity (s, &error), &error);
  rlx_graph_output (graph, "y", y, NULL);
  rlx_graph_output (graph, "z", z, NULL);
  rlx_graph_output (graph, "again", z, NULL);
  if (with_data)
    {
      big = rlx_graph_constant (graph, large, &error);
      rlx_node_set_name (big, "large");
      rlx_graph_output (graph, "big", rlx_node_softmax (big, 0, &error), &error);
    }
  g_assert_no_error (error);
  g_assert_true (rlx_graph_check (graph, &error));

  return graph;
}

/* ---- writing ------------------------------------------------------------------- */

static void
test_write (void)
{
  g_autoptr (RlxGraph) graph = make_graph (FALSE);

  assert_body (graph,
               "%0 = input \"x \\\"quoted\\\"\\n\\\\ 😀 \\u202e\" f32[2, 3]\n"
               "%1 = constant f32[3, 2] [1, 0, 0.1, -1, 1.4013e-45, 3.4028235e+38]\n"
               "%2 = parameter \"p\" f32[2]\n"
               "%3 = state \"state\" i8[2] [-128, 127]\n"
               "%4 = linear(%0, %1, %2) {alpha = 0.3333333333333333} \"a \\\"label\\\"\"\n"
               "%5 = layer_norm(%4) {axes = [0, -1], epsilon = 0.001}\n"
               "%6 = concat(%5, %5, %5) {axis = -1}\n"
               "%7 = slice(%6) {starts = [0, 1], ends = [2, 9223372036854775807]}\n"
               "%8 = reshape(%7) {shape = [1, 2, 5, 1]}\n"
               "%9 = attention(%8, %8, %8) {causal = true}\n"
               "%10 = cast(%9) {to = f16}\n"
               "%11 = reduce_sum(%10) {axes = []}\n"
               "%12 = identity(%3)\n"
               "output \"y\" %8\n"
               "output \"z\" %11\n"
               "output \"again\" %11\n"
               "assign %3 %12\n");
}

static void
test_round_trip (void)
{
  g_autoptr (RlxGraph) graph = make_graph (TRUE);

  assert_round_trip (graph);
}

/* A round trip of a constant of these bytes; compares with @text unless that is NULL. */
static void
assert_data (RlxDataType  data_type,
             gsize        n_elements,
             const void  *data,
             const char  *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_data (data_type, (const gint64[]) { (gint64) n_elements }, 1, data,
                                                           (n_elements * rlx_data_type_get_bits (data_type) + 7) / 8, &error);
  g_autofree char *body = NULL;

  g_assert_no_error (error);
  rlx_graph_constant (graph, tensor, &error);
  g_assert_no_error (error);
  body = g_strdup_printf ("%%0 = constant %s[%" G_GSIZE_FORMAT "] %s\n", rlx_data_type_to_string (data_type), n_elements, expected != NULL ? expected : "");
  if (expected != NULL)
    assert_body (graph, body);
  assert_round_trip (graph);
}

static void
test_data (void)
{
  const guint32 f32[] = { 0x80000000, 0x00000001, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3dcccccd, 0x4b800001, 0x00800000 };
  const guint16 f16[] = { 0x8000, 0x0001, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x2e66, 0x0400 };
  /* A NaN with a sign, one with a payload, a signalling one. */
  const guint32 odd_f32[] = { 0xffc00000, 0x7fc00001, 0x7f800001 };
  const guint16 odd_f16[] = { 0xfe00, 0x7e01, 0x7c01 };
  const gint64 i64[] = { G_MININT32, -1, 0, G_MAXINT32 };
  const guint64 u64[] = { 0, G_MAXUINT32 };
  const guint32 u32[] = { 0, G_MAXUINT32 };
  const guint8 bytes[130] = { 0 };
  g_autofree guint32 *random = g_new (guint32, 1000);
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  assert_data (RLX_DATA_TYPE_F32, G_N_ELEMENTS (f32), f32,
               "[-0, 1.4013e-45, 3.4028235e+38, inf, -inf, nan, 0.1, 16777218, 1.1754944e-38]");
  assert_data (RLX_DATA_TYPE_F16, G_N_ELEMENTS (f16), f16, "[-0, 5.96e-08, 65504, inf, -inf, nan, 0.1, 6.104e-05]");
  for (guint i = 0; i < 3; i++)
    {
      assert_data (RLX_DATA_TYPE_F32, 1, &odd_f32[i], NULL);
      assert_data (RLX_DATA_TYPE_F16, 1, &odd_f16[i], NULL);
    }
  assert_data (RLX_DATA_TYPE_F32, 1, &odd_f32[1], "base64:\"AQDAfw==\"");
  assert_data (RLX_DATA_TYPE_I64, G_N_ELEMENTS (i64), i64, "[-2147483648, -1, 0, 2147483647]");
  assert_data (RLX_DATA_TYPE_U64, G_N_ELEMENTS (u64), u64, "[0, 4294967295]");
  assert_data (RLX_DATA_TYPE_U32, G_N_ELEMENTS (u32), u32, "[0, 4294967295]");
  assert_data (RLX_DATA_TYPE_I32, 2, (const gint32[]) { G_MININT32, G_MAXINT32 }, "[-2147483648, 2147483647]");
  assert_data (RLX_DATA_TYPE_I8, 2, (const gint8[]) { -128, 127 }, "[-128, 127]");
  assert_data (RLX_DATA_TYPE_U8, 2, (const guint8[]) { 0, 255 }, "[0, 255]");
  assert_data (RLX_DATA_TYPE_BOOL, 2, (const guint8[]) { 0, 1 }, "[false, true]");
  assert_data (RLX_DATA_TYPE_I4, 3, (const guint8[]) { 0x78, 0x0f }, "[-8, 7, -1]");
  assert_data (RLX_DATA_TYPE_U4, 3, (const guint8[]) { 0xf0, 0x08 }, "[0, 15, 8]");
  assert_data (RLX_DATA_TYPE_U4, 67, bytes, "base64:\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\"");
  assert_data (RLX_DATA_TYPE_F32, 0, NULL, "[]");

  /* 64 elements are listed, one more is not; all lengths of the last group. */
  assert_data (RLX_DATA_TYPE_U8, 64, bytes,
               "[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
               "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]");
  assert_data (RLX_DATA_TYPE_U8, 65, bytes,
               "base64:\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"");
  assert_data (RLX_DATA_TYPE_BOOL, 66, bytes,
               "base64:\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"");
  assert_data (RLX_DATA_TYPE_U8, 67, bytes,
               "base64:\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==\"");

  /* Arbitrary bits, a few at a time so that they are listed, and all at once. */
  for (guint i = 0; i < 1000; i++)
    random[i] = g_rand_int (rand);
  for (guint i = 0; i < 1000; i += 50)
    {
      assert_data (RLX_DATA_TYPE_F32, 50, random + i, NULL);
      assert_data (RLX_DATA_TYPE_F16, 50, random + i, NULL);
    }
  assert_data (RLX_DATA_TYPE_F32, 1000, random, NULL);
  assert_data (RLX_DATA_TYPE_U8, 3999, random, NULL);
}

static void
test_doubles (void)
{
  static const struct
  {
    double value;
    const char *text;
  } cases[] = {
    { 0.0, "0" }, { -0.0, "-0" }, { 0.1, "0.1" }, { 1e-5, "1e-05" }, { 1.0 / 3, "0.3333333333333333" },
    { 0.1 + 0.2, "0.30000000000000004" }, { 5e-324, "4.94065645841247e-324" }, { 1.7976931348623157e308, "1.797693134862316e+308" },
    { INFINITY, "inf" }, { -INFINITY, "-inf" }, { 123456789, "123456789" }, { -1.6732632423543772, "-1.6732632423543772" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      g_autoptr (RlxGraph) graph = NULL;
      g_autofree char *body = NULL;
      const RlxIr *ir;
      double back;

      rlx_ir_append_double (text, cases[i].value);
      if (cases[i].value < 1e308 || isinf (cases[i].value))
        g_assert_cmpstr (text->str, ==, cases[i].text);

      body = g_strdup_printf ("%%0 = input \"x\" f32[]\n%%1 = leaky_relu(%%0) {alpha = %s}\n", text->str);
      graph = read_body (body);
      ir = rlx_graph_peek_ir (graph, NULL);
      back = rlx_leaky_relu_attrs (g_ptr_array_index (ir->nodes, 1))->alpha;
      g_assert_cmpmem (&back, sizeof back, &cases[i].value, sizeof (double));
    }
}

static void
test_attribute_defaults (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxSliceOptions) options = rlx_slice_options_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), &error);
  g_autofree RlxNode **nodes = NULL;

  /* An explicit empty list is preserved; an explicit default is not shown. */
  rlx_slice_options_set_axes (options, NULL, 0);
  rlx_slice_options_set_steps (options, SHAPE (1));
  rlx_node_slice (x, SHAPE (0), SHAPE (1), options, &error);
  nodes = rlx_graph_add_op (graph, "clamp", &x, 1, g_variant_new_parsed ("{'minimum': <-inf>, 'maximum': <7>}"), NULL, &error);
  g_assert_no_error (error);
  assert_body (graph,
               "%0 = input \"x\" f32[2]\n"
               "%1 = slice(%0) {starts = [0], ends = [1], axes = [], steps = [1]}\n"
               "%2 = clamp(%0) {maximum = 7}\n");
  assert_round_trip (graph);
}

static void
test_locale (void)
{
  static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "tr_TR.UTF-8", "ru_RU.UTF-8" };
  g_autofree char *before = g_strdup (setlocale (LC_ALL, NULL));
  g_autoptr (RlxGraph) graph = make_graph (TRUE);
  g_autoptr (RlxGraph) again = make_graph (TRUE);
  g_autofree char *text = rlx_graph_to_text (graph);
  g_autofree char *there = NULL;
  gboolean found = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (names) && !found; i++)
    found = setlocale (LC_ALL, names[i]) != NULL;
  if (!found)
    {
      g_test_skip ("there is no locale with a decimal comma");
      return;
    }

  there = rlx_graph_to_text (again);
  g_assert_cmpstr (text, ==, there);
  assert_round_trip (again);
  setlocale (LC_ALL, before);
}

static void
test_dot (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) zero = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 0, NULL);
  RlxNode *x = rlx_graph_input (graph, "\"];\n\\N <b>\001", RLX_DATA_TYPE_F32, NULL, 0, &error);
  RlxNode *s = rlx_graph_state (graph, "s", zero, &error);
  RlxNode *y = rlx_node_add (x, s, &error);
  g_autofree char *dot = NULL;

  rlx_graph_assign (graph, s, y, &error);
  rlx_graph_output (graph, "\"out\"", y, NULL);
  g_assert_no_error (error);
  dot = rlx_graph_to_dot (graph);
  g_assert_true (g_str_has_prefix (dot, "digraph rlx {\n"));
  g_assert_true (g_str_has_suffix (dot, "}\n"));
  g_assert_nonnull (strstr (dot, "label=\"input\\n\\\"];\\n\\\\N <b>\\\\u0001\\n%0: f32[]\"];\n"));
  g_assert_nonnull (strstr (dot, "  n0 -> n2;\n"));
  g_assert_nonnull (strstr (dot, "  n1 -> n2;\n"));
  g_assert_nonnull (strstr (dot, "label=\"output\\n\\\"out\\\"\"];\n  n2 -> o0;\n"));
  g_assert_nonnull (strstr (dot, "  n2 -> n1 [style=dashed"));
}

/* ---- reading ---------------------------------------------------------------------- */

static void
test_read (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (
    "\n"
    "  # a comment\r\n"
    "\trlx 1 # the version\r\n"
    "%7=input\"\\u0078\\/\\ud83d\\ude00\"f32[2,3] # any number will do\n"
    "   %4294967295  =  parameter  \"#\"  f32 [ 3 , 2 ]   \n"
    "%0 = matmul ( %7 , %4294967295 ) { transpose_a = false , transpose_b=false } \"label\" # comment\n"
    "output\"y\"%0\n"
    "%1 = clamp(%0){}\n"
    "%2 = linear(%7, %4294967295)\n"
    "%3 = constant f32[2] [1,-2.5E+1] \"c\"\n"
    "output \"z\" %1",
    &error);
  RlxNode *x;

  g_assert_no_error (error);
  assert_body (graph,
               "%0 = input \"x/😀\" f32[2, 3]\n"
               "%1 = parameter \"#\" f32[3, 2]\n"
               "%2 = matmul(%0, %1) \"label\"\n"
               "%3 = clamp(%2)\n"
               "%4 = linear(%0, %1)\n"
               "%5 = constant f32[2] [1, -25] \"c\"\n"
               "output \"y\" %2\n"
               "output \"z\" %3\n");
  assert_round_trip (graph);

  /* It is a graph like any other. */
  graph = (g_object_unref (graph), read_body ("%0 = input \"x\" f32[2]\n"));
  x = rlx_graph_lookup (graph, "x");
  rlx_graph_output (graph, "y", rlx_node_relu (x, &error), &error);
  g_assert_no_error (error);
  assert_body (graph, "%0 = input \"x\" f32[2]\n%1 = relu(%0)\noutput \"y\" %1\n");
}

static void
test_parse_errors (void)
{
  static const struct
  {
    const char *body;
    int code;
    const char *parts;
  } cases[] = {
    { "x", RLX_GRAPH_ERROR_PARSE, "line 2, column 1|“x”|\"output\"" },
    { "[", RLX_GRAPH_ERROR_PARSE, "line 2, column 1" },
    { "\n\n   %", RLX_GRAPH_ERROR_PARSE, "line 4, column 4|%0" },
    { "%0", RLX_GRAPH_ERROR_PARSE, "line 2, column 3|\"=\"|the end of the text" },
    { "%0 =\n", RLX_GRAPH_ERROR_PARSE, "line 2, column 5|name of an operator|the end of the line" },
    { "%4294967296 = input \"x\" f32[]", RLX_GRAPH_ERROR_PARSE, "line 2, column 1|4294967295" },
    { "%99999999999999999999999999 = input \"x\" f32[]", RLX_GRAPH_ERROR_PARSE, "4294967295" },
    { "%0 = input x f32[]", RLX_GRAPH_ERROR_PARSE, "line 2, column 12|a name in quotes" },
    { "%0 = input \"x f32[]\n", RLX_GRAPH_ERROR_PARSE, "line 2, column 12|does not end" },
    { "%0 = input \"x", RLX_GRAPH_ERROR_PARSE, "line 2, column 12|does not end" },
    { "%0 = input \"x\\", RLX_GRAPH_ERROR_PARSE, "line 2, column 14|escape" },
    { "%0 = input \"\\x\" f32[]", RLX_GRAPH_ERROR_PARSE, "line 2, column 13|escape" },
    { "%0 = input \"\\u12\" f32[]", RLX_GRAPH_ERROR_PARSE, "hexadecimal" },
    { "%0 = input \"\\u0000\" f32[]", RLX_GRAPH_ERROR_PARSE, "\\u0000" },
    { "%0 = input \"\\ud800\" f32[]", RLX_GRAPH_ERROR_PARSE, "surrogate" },
    { "%0 = input \"\\ud800\\u0041\" f32[]", RLX_GRAPH_ERROR_PARSE, "surrogate" },
    { "%0 = input \"\\udc00\" f32[]", RLX_GRAPH_ERROR_PARSE, "surrogate" },
    { "%0 = input \"a\tb\" f32[]", RLX_GRAPH_ERROR_PARSE, "line 2, column 14|control character" },
    { "%0 = input \"äöü\" f64[]", RLX_GRAPH_ERROR_PARSE, "line 2, column 18|“f64”" },
    { "%0 = input \"x\" f32", RLX_GRAPH_ERROR_PARSE, "\"[\"" },
    { "%0 = input \"x\" f32[2", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = input \"x\" f32[2,]", RLX_GRAPH_ERROR_PARSE, "an integer" },
    { "%0 = input \"x\" f32[,2]", RLX_GRAPH_ERROR_PARSE, "an integer" },
    { "%0 = input \"x\" f32[2 3]", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = input \"x\" f32[2.0]", RLX_GRAPH_ERROR_PARSE, "not an integer" },
    { "%0 = input \"x\" f32[1e2]", RLX_GRAPH_ERROR_PARSE, "not an integer" },
    { "%0 = input \"x\" f32[9223372036854775808]", RLX_GRAPH_ERROR_PARSE, "not an integer" },
    { "%0 = input \"x\" f32[true]", RLX_GRAPH_ERROR_PARSE, "not an integer" },
    { "%0 = input \"x\" f32[+1]", RLX_GRAPH_ERROR_PARSE, "an integer" },
    { "%0 = input \"x\" f32[0x10]", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = input \"x\" f32[007]", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = input \"x\" f32[-1]", RLX_GRAPH_ERROR_SHAPE, "line 2: |“x”|-1" },
    { "%0 = input \"x\" f32[1,1,1,1,1,1,1,1,1]", RLX_GRAPH_ERROR_LIMIT, "line 2: |9|8" },
    { "%0 = input \"x\" f32[4294967296]", RLX_GRAPH_ERROR_LIMIT, "line 2: |4294967296" },
    { "%0 = input \"x\" f32[] 5", RLX_GRAPH_ERROR_PARSE, "the end of the line" },
    { "%0 = input \"x\" f32[] \"label\"", RLX_GRAPH_ERROR_PARSE, "the end of the line" },
    { "%0 = input \"\" f32[]", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 2: |empty" },
    { "%0 = input \"x\" f32[]\n%1 = input \"x\" f32[]", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: |“x”|taken" },
    { "%0 = input \"x\" f32[]\n%0 = input \"y\" f32[]", RLX_GRAPH_ERROR_PARSE, "line 3, column 1|%0|already" },
    { "%0, %1 = input \"x\" f32[]", RLX_GRAPH_ERROR_PARSE, "2 values|1 results" },
    { "%0 = input \"x\" f32[]\n%1, %1 = relu(%0)", RLX_GRAPH_ERROR_PARSE, "2 values|1 results" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%1)", RLX_GRAPH_ERROR_PARSE, "line 3, column 11|%1" },
    { "%0 = input \"x\" f32[]\n%1 = relu(_)", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: |“self”|NULL" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0, %0)", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: |2 operands" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0", RLX_GRAPH_ERROR_PARSE, "\",\" or \")\"" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0,)", RLX_GRAPH_ERROR_PARSE, "%0" },
    { "%0 = input \"x\" f32[]\n%1 = relu %0", RLX_GRAPH_ERROR_PARSE, "\"(\"" },
    { "%0 = input \"x\" f32[]\n%1 = relu", RLX_GRAPH_ERROR_PARSE, "\"(\"" },
    { "%0 = input \"x\" f32[]\n%1 = rellu(%0)", RLX_GRAPH_ERROR_NOT_FOUND, "line 3: |“rellu”|“relu”" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0) {a}", RLX_GRAPH_ERROR_PARSE, "\"=\"" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0) {a = 1}", RLX_GRAPH_ERROR_NOT_FOUND, "line 3: |“a”" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = nan}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: |“alpha”" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = 1, alpha = 1}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "twice" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = 1e999}", RLX_GRAPH_ERROR_PARSE, "line 3, column 30|range" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = word}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“alpha”|“s”" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = \"1\"}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "a number (d) is expected" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = 1", RLX_GRAPH_ERROR_PARSE, "\"}\"" },
    { "%0 = input \"x\" f32[]\n%1 = leaky_relu(%0) {alpha = [1]}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“alpha”" },
    { "%0 = input \"x\" f32[2]\n%1 = concat(%0) {axis = 18446744073709551615}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "18446744073709551615" },
    { "%0 = input \"x\" f32[2]\n%1 = concat(%0) {axis = 1}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: concat|axis 1" },
    { "%0 = input \"x\" f32[2]\n%1 = cast(%0) {to = f99}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“f99”" },
    { "%0 = input \"x\" f32[]\n%1 = relu(%0) \"\"", RLX_GRAPH_ERROR_PARSE, "line 3, column 15|label of 0 bytes" },
    { "%0 = constant f32[2] [1]", RLX_GRAPH_ERROR_PARSE, "fewer elements|2" },
    { "%0 = constant f32[2] [1000]", RLX_GRAPH_ERROR_PARSE, "1 elements|2" },
    { "%0 = constant f32[2] [1, 2, 3]", RLX_GRAPH_ERROR_PARSE, "more elements|2" },
    { "%0 = constant f32[0] [1]", RLX_GRAPH_ERROR_PARSE, "more elements|0" },
    { "%0 = constant f32[] []", RLX_GRAPH_ERROR_PARSE, "0 elements|1" },
    { "%0 = constant f32[]", RLX_GRAPH_ERROR_PARSE, "fewer elements" },
    { "%0 = constant f32[4000000000] [1]", RLX_GRAPH_ERROR_PARSE, "fewer elements|4000000000" },
    { "%0 = constant u64[4000000000] base64:\"AAAA\"", RLX_GRAPH_ERROR_PARSE, "4 characters|42666666668" },
    { "%0 = constant f32[4294967296] base64:\"\"", RLX_GRAPH_ERROR_LIMIT, "line 2: |4294967296" },
    { "%0 = constant f32[] [1e39]", RLX_GRAPH_ERROR_PARSE, "line 2, column 22|range of f32" },
    { "%0 = constant f32[] [1e400]", RLX_GRAPH_ERROR_PARSE, "range of f32" },
    { "%0 = constant f16[] [65520]", RLX_GRAPH_ERROR_PARSE, "range of f16" },
    { "%0 = constant f32[] [true]", RLX_GRAPH_ERROR_PARSE, "type f32" },
    { "%0 = constant f32[] [-nan]", RLX_GRAPH_ERROR_PARSE, "an element" },
    { "%0 = constant f32[] [infinity]", RLX_GRAPH_ERROR_PARSE, "an element" },
    { "%0 = constant f32[] [1.]", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = constant f32[] [.5]", RLX_GRAPH_ERROR_PARSE, "an element" },
    { "%0 = constant f32[] [1,5]", RLX_GRAPH_ERROR_PARSE, "more elements" },
    { "%0 = constant f32[] [0x1p3]", RLX_GRAPH_ERROR_PARSE, "\",\" or \"]\"" },
    { "%0 = constant bool[] [1]", RLX_GRAPH_ERROR_PARSE, "type bool" },
    { "%0 = constant i32[] [1.0]", RLX_GRAPH_ERROR_PARSE, "type i32" },
    { "%0 = constant i32[] [nan]", RLX_GRAPH_ERROR_PARSE, "type i32" },
    { "%0 = constant i8[] [128]", RLX_GRAPH_ERROR_PARSE, "range of i8" },
    { "%0 = constant i8[] [-129]", RLX_GRAPH_ERROR_PARSE, "range of i8" },
    { "%0 = constant u8[] [-1]", RLX_GRAPH_ERROR_PARSE, "range of u8" },
    { "%0 = constant i64[] [9223372036854775808]", RLX_GRAPH_ERROR_PARSE, "range of i64" },
    { "%0 = constant u64[] [18446744073709551616]", RLX_GRAPH_ERROR_PARSE, "type u64" },
    { "%0 = constant i64[] [2147483648]", RLX_GRAPH_ERROR_LIMIT, "line 2: |2147483648" },
    { "%0 = constant u64[] [18446744073709551615]", RLX_GRAPH_ERROR_LIMIT, "line 2: |18446744073709551615" },
    { "%0 = constant u8[1] base64:\"AA\"", RLX_GRAPH_ERROR_PARSE, "line 2, column 21|2 characters|4" },
    { "%0 = constant u8[1] base64:\"AA==", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = constant u8[1] base64:AA==", RLX_GRAPH_ERROR_PARSE, "\"[\"" },
    { "%0 = constant u8[1] base64:\"AB==\"", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = constant u8[2] base64:\"AAB=\"", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = constant u8[3] base64:\"AAA=\"", RLX_GRAPH_ERROR_PARSE, "column 32|base64" },
    { "%0 = constant u8[1] base64:\"AAA=\"", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = constant u8[3] base64:\"A AA\"", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = constant u8[3] base64:\"AA\303\244\"", RLX_GRAPH_ERROR_PARSE, "base64" },
    { "%0 = state f32[] [1]", RLX_GRAPH_ERROR_PARSE, "a name in quotes" },
    { "output \"y\"", RLX_GRAPH_ERROR_PARSE, "a value such as %0" },
    { "output \"y\" %0", RLX_GRAPH_ERROR_PARSE, "line 2, column 12|%0" },
    { "outputs \"y\" %0", RLX_GRAPH_ERROR_PARSE, "column 1|“outputs" },
    { "%0 = input \"x\" f32[]\noutput \"y\" %0\noutput \"y\" %0", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 4: |“y”" },
    { "%0 = input \"x\" f32[]\nassign %0 %0", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "line 3: |state" },
    { "%0 = state \"s\" f32[1] [0]\nassign %0", RLX_GRAPH_ERROR_PARSE, "a value such as %0" },
    { "%0 = state \"s\" f32[1] [0]\nassign %0 %0 %0", RLX_GRAPH_ERROR_PARSE, "the end of the line" },
    { "%0 = input \"x\" f32[]\r%1 = relu(%0)", RLX_GRAPH_ERROR_PARSE, "line 2, column 21" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strconcat ("rlx 1\n", cases[i].body, NULL);

      assert_refused (text, cases[i].code, cases[i].parts);
    }

  assert_refused ("", RLX_GRAPH_ERROR_PARSE, "line 1, column 1|the end of the text");
  assert_refused ("# only a comment\n", RLX_GRAPH_ERROR_PARSE, "line 2, column 1");
  assert_refused ("rlx", RLX_GRAPH_ERROR_PARSE, "line 1, column 4|version");
  assert_refused ("rlx 2\n", RLX_GRAPH_ERROR_PARSE, "line 1, column 5|version 1");
  assert_refused ("rlx 1.0\n", RLX_GRAPH_ERROR_PARSE, "version 1");
  assert_refused ("rlx 1 x\n", RLX_GRAPH_ERROR_PARSE, "column 7|the end of the line");
  assert_refused ("rlx1\n", RLX_GRAPH_ERROR_PARSE, "column 1");
  assert_refused ("\xef\xbb\xbfrlx 1\n", RLX_GRAPH_ERROR_PARSE, "line 1, column 1");
  assert_refused ("rlx 1\n# \xff\n", RLX_GRAPH_ERROR_PARSE, "line 2, column 3|UTF-8");
}

/* ---- malicious text ------------------------------------------------------------------ */

static void
assert_error_or_graph (const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, &error);

  if (graph == NULL)
    {
      g_assert_nonnull (error);
      g_assert_true (error->domain == RLX_GRAPH_ERROR);
      g_assert_true (g_str_has_prefix (error->message, "line "));
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
      g_assert_cmpuint (strlen (error->message), <, 2000);
    }
  else
    {
      g_assert_no_error (error);
      assert_round_trip (graph);
    }
}

static void
test_truncations (void)
{
  g_autoptr (RlxGraph) graph = make_graph (TRUE);
  g_autofree char *text = rlx_graph_to_text (graph);
  gsize length = strlen (text);

  for (gsize i = 0; i < length; i++)
    {
      /* A block of its own, so that reads beyond its end are detected. */
      g_autofree char *head = g_strndup (text, i);

      assert_error_or_graph (head);
    }
}

static void
test_mutations (void)
{
  static const char interesting[] = "%\"\\[](){}=,_#-.0129eE \t\r\n+/x";
  g_autoptr (RlxGraph) graph = make_graph (TRUE);
  g_autofree char *text = rlx_graph_to_text (graph);
  gsize length = strlen (text);
  g_autoptr (GRand) rand = g_rand_new_with_seed (20);
  guint n_good = 0;

  for (guint round = 0; round < 6000; round++)
    {
      g_autoptr (GString) mutant = g_string_new_len (text, (gssize) length);
      guint n_changes = (guint) g_rand_int_range (rand, 1, 4);
      g_autoptr (RlxGraph) read = NULL;

      for (guint i = 0; i < n_changes; i++)
        {
          gssize at = g_rand_int_range (rand, 0, (gint32) mutant->len);
          gssize n = g_rand_int_range (rand, 1, 20);

          if (round % 3 == 0)
            mutant->str[at] = (char) (mutant->str[at] ^ (1 << g_rand_int_range (rand, 0, 8)));
          else if (round % 3 == 1)
            mutant->str[at] = interesting[g_rand_int_range (rand, 0, sizeof interesting - 1)];
          else if (g_rand_boolean (rand))
            g_string_erase (mutant, at, MIN (n, (gssize) mutant->len - at));
          else
            g_string_insert_c (mutant, at, interesting[g_rand_int_range (rand, 0, sizeof interesting - 1)]);
        }

      assert_error_or_graph (mutant->str);
      read = rlx_graph_new_from_text (mutant->str, NULL);
      n_good += read != NULL;
    }

  /* Otherwise the test would not test much. */
  g_assert_cmpuint (n_good, >, 50);
  g_assert_cmpuint (n_good, <, 5000);
}

/* Megabytes of the same thing: an error, quickly and with little memory. */
static void
test_bombs (void)
{
  static const struct
  {
    const char *head;
    char fill;
    const char *parts;
  } cases[] = {
    { "%0 = input \"x\" f32", '[', "line 2" },
    { "%0 = input \"x\" f32[", '9', "limit" },
    { "%0 = input \"x\" f32[1", ' ', "\"]\"" },
    { "%", '0', "\"=\"" },
    { "%0 = ", 'a', "\"(\"" },
    { "%0 = relu", '(', "line 2" },
    { "%0 = relu(", '_', "line 2" },
    { "%0 = relu() ", '{', "line 2" },
    { "%0 = constant f32[1000] [", '1', "limit" },
    { "%0 = constant f32[1] ", '[', "line 2" },
    { "%0 = constant f32[1] base64:\"", 'A', "characters" },
    { "%0 = constant u8[750000] base64:\"", 'A', "base64" },
    { "output \"", 'a', "does not end" },
    { "output \"", '\\', "does not end" },
    { "", '\n', NULL },
    { "", ' ', NULL },
    { "#", '#', NULL },
    { "%0 = constant f32[] [0.", '0', "limit" },
    { "%0 = constant f32[] [1e", '9', "limit" },
    { "%0 = constant f32[] ", '-', "line 2" },
  };
  gint64 start = g_get_monotonic_time ();

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *fill = g_strnfill (1000000, cases[i].fill);
      g_autofree char *text = g_strconcat ("rlx 1\n", cases[i].head, fill, NULL);
      g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, &error);

      if (cases[i].parts != NULL)
        {
          g_assert_null (graph);
          g_assert_nonnull (error);
          if (strstr (error->message, cases[i].parts) == NULL)
            g_error ("“%s” does not mention “%s”", error->message, cases[i].parts);
          g_assert_cmpuint (strlen (error->message), <, 1000);
        }
      else
        g_assert_no_error (error);
    }

  /* Many short lists, whose parsing must not depend on what follows. */
  {
    g_autoptr (GError) error = NULL;
    g_autoptr (GString) text = g_string_new ("rlx 1\n");
    g_autoptr (RlxGraph) graph = NULL;

    for (guint i = 0; i < 50000; i++)
      g_string_append_printf (text, "%%%u = constant f32[2] [1, 2]\n", i);
    graph = rlx_graph_new_from_text (text->str, &error);
    g_assert_no_error (error);
    g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 50000);
  }

  /* A second is plenty; anything quadratic takes hours. */
  g_assert_cmpint (g_get_monotonic_time () - start, <, 60 * G_USEC_PER_SEC);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/text/write", test_write);
  g_test_add_func ("/text/round-trip", test_round_trip);
  g_test_add_func ("/text/data", test_data);
  g_test_add_func ("/text/doubles", test_doubles);
  g_test_add_func ("/text/attribute-defaults", test_attribute_defaults);
  g_test_add_func ("/text/locale", test_locale);
  g_test_add_func ("/text/dot", test_dot);
  g_test_add_func ("/text/read", test_read);
  g_test_add_func ("/text/parse-errors", test_parse_errors);
  g_test_add_func ("/text/truncations", test_truncations);
  g_test_add_func ("/text/mutations", test_mutations);
  g_test_add_func ("/text/bombs", test_bombs);

  return g_test_run ();
}
