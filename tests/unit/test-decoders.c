/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Sessions that keep what a run gives for the next one: decoders as exporters write them.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "import/rlx-session-private.h"
#include "onnx-writer.h"
#include "rlx-test-util.h"

#define FLOAT 1
#define INT64 7

#define TOKENS 16
#define WIDTH 8

/* Features of the decoder that others lack. */
typedef enum
{
  WITH_MASK = 1 << 0,      /* an input as long as all rows */
  WITH_MEAN = 1 << 1,      /* a mean over all rows, which divides by their number */
  WITH_WINDOW = 1 << 2,    /* only the last three rows are visible */
} Kind;

static void
add_ints (GByteArray   *graph,
          const char   *name,
          const gint64 *values,
          gsize         n)
{
  onnx_add_tensor (graph, onnx_tensor (name, INT64, (gint64[]) { (gint64) n }, 1, values, n * sizeof *values));
}

static void
add_int (GByteArray *graph,
         const char *name,
         gint64      value)
{
  onnx_add_tensor (graph, onnx_tensor (name, INT64, NULL, 0, &value, sizeof value));
}

static void
add_floats (GByteArray   *graph,
            const char   *name,
            const gint64 *shape,
            gsize         n_dims,
            guint         seed)
{
  gsize n = 1;
  g_autofree float *values = NULL;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  values = g_new0 (float, n + 1);
  for (gsize i = 0; i < n; i++)
    values[i] = sinf ((float) (seed * 31 + i * 7 + i * i % 13)) * 0.8f;
  onnx_add_tensor (graph, onnx_tensor (name, FLOAT, shape, n_dims, values, n * sizeof *values));
}

static void
add_number (GByteArray *graph,
            const char *name,
            float       value)
{
  onnx_add_tensor (graph, onnx_tensor (name, FLOAT, NULL, 0, &value, sizeof value));
}

#define NODE(op, inputs, outputs, ...) onnx_add_node (graph, op, inputs, outputs, ##__VA_ARGS__, NULL)
#define AXIS(n) onnx_attr ("axis", g_variant_new_int64 (n))

static GVariant *
ints (const gint64 *values,
      gsize         n)
{
  return g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n, sizeof *values);
}

#define PERM onnx_attr ("perm", ints ((gint64[]) { 0, 2, 1, 3 }, 4))

/* Rotates @x by the positions, in halves. */
static void
add_rotary (GByteArray *graph,
            const char *x)
{
  g_autofree char *text = g_strdup_printf (
    "Slice %1$s.t:zeros:half:last %1$s.a;Slice %1$s.t:half:end:last %1$s.b;Neg %1$s.b %1$s.n;Concat %1$s.n:%1$s.a %1$s.r;"
    "Mul %1$s.t:cos %1$s.c;Mul %1$s.r:sin %1$s.s;Add %1$s.c:%1$s.s %1$s.y", x);
  g_auto(GStrv) lines = g_strsplit (text, ";", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) words = g_strsplit (lines[i], " ", 3);
      g_autofree char *inputs = g_strdelimit (g_strdup (words[1]), ":", ' ');

      if (g_str_equal (words[0], "Concat"))
        NODE ("Concat", inputs, words[2], AXIS (-1));
      else
        NODE (words[0], inputs, words[2]);
    }
}

/* A layer with two heads, a past of keys and values, positions and a mask computed from its length. */
static RlxSession *
new_decoder (Kind kind)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GBytes) file = NULL;
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(GError) error = NULL;

  onnx_add_input (graph, "ids", INT64, "1 length");
  onnx_add_input (graph, "past_key_values.0.key", FLOAT, "1 2 past 4");
  onnx_add_input (graph, "past_key_values.0.value", FLOAT, "1 2 past 4");
  if (kind & WITH_MASK)
    onnx_add_input (graph, "mask", INT64, "1 all");
  onnx_add_output (graph, "logits", FLOAT, NULL);
  onnx_add_output (graph, "present.0.key", FLOAT, NULL);
  onnx_add_output (graph, "present.0.value", FLOAT, NULL);
  add_floats (graph, "embedding", (gint64[]) { TOKENS, WIDTH }, 2, 1);
  add_floats (graph, "wq", (gint64[]) { WIDTH, WIDTH }, 2, 2);
  add_floats (graph, "wk", (gint64[]) { WIDTH, WIDTH }, 2, 3);
  add_floats (graph, "wv", (gint64[]) { WIDTH, WIDTH }, 2, 4);
  add_floats (graph, "wo", (gint64[]) { WIDTH, TOKENS }, 2, 5);
  add_floats (graph, "frequencies", (gint64[]) { 1, 2 }, 2, 6);
  add_int (graph, "zero", 0);
  add_int (graph, "one", 1);
  add_int (graph, "two", 2);
  add_ints (graph, "zeros", (gint64[]) { 0 }, 1);
  add_ints (graph, "ones", (gint64[]) { 1 }, 1);
  add_ints (graph, "half", (gint64[]) { 2 }, 1);
  add_ints (graph, "end", (gint64[]) { G_MAXINT64 }, 1);
  add_ints (graph, "last", (gint64[]) { -1 }, 1);
  add_ints (graph, "heads", (gint64[]) { 1, -1, 2, 4 }, 4);
  add_ints (graph, "flat", (gint64[]) { 1, -1, 8 }, 3);
  add_number (graph, "scale", 0.5f);
  add_number (graph, "nothing", 0);
  add_number (graph, "never", -INFINITY);

  NODE ("Gather", "embedding ids", "x");
  for (guint i = 0; i < 3; i++)
    {
      const char *name = &"q\0k\0v"[2 * i];
      g_autofree char *text = g_strdup_printf ("%1$s.m %1$s.h %1$s.t x_w%1$s %1$s.m_heads", name);
      g_auto(GStrv) words = g_strsplit (text, " ", 5);

      NODE ("MatMul", g_strdelimit (words[3], "_", ' '), words[0]);
      NODE ("Reshape", g_strdelimit (words[4], "_", ' '), words[1]);
      NODE ("Transpose", words[1], words[2], PERM);
    }

  /* positions: past, past + 1, … */
  NODE ("Shape", "past_key_values.0.key", "past.shape");
  NODE ("Gather", "past.shape two", "past");
  NODE ("Shape", "ids", "ids.shape");
  NODE ("Gather", "ids.shape one", "length");
  NODE ("Add", "past length", "all");
  NODE ("Range", "past all one", "positions");
  NODE ("Unsqueeze", "positions ones", "column");
  NODE ("Cast", "column", "angles.i", onnx_attr ("to", g_variant_new_int64 (FLOAT)));
  NODE ("Mul", "angles.i frequencies", "angles.h");
  NODE ("Concat", "angles.h angles.h", "angles", AXIS (-1));
  NODE ("Cos", "angles", "cos");
  NODE ("Sin", "angles", "sin");
  add_rotary (graph, "q");
  add_rotary (graph, "k");

  NODE ("Concat", "past_key_values.0.key k.y", "present.0.key", AXIS (2));
  NODE ("Concat", "past_key_values.0.value v.t", "present.0.value", AXIS (2));

  /* Hides later rows, and those that the mask excludes. */
  NODE ("Range", "zero all one", "rows");
  NODE ("Greater", "rows column", "later");
  if (kind & WITH_WINDOW)
    {
      add_int (graph, "three", 3);
      NODE ("Sub", "column three", "before");
      NODE ("LessOrEqual", "rows before", "earlier");
      NODE ("Or", "later earlier", "hidden");
    }
  else
    {
      NODE ("Identity", "later", "hidden");
    }
  if (kind & WITH_MASK)
    {
      NODE ("Cast", "mask", "mask.b", onnx_attr ("to", g_variant_new_int64 (9)));
      NODE ("Not", "mask.b", "masked");
      NODE ("Or", "hidden masked", "hidden.all");
    }
  else
    {
      NODE ("Identity", "hidden", "hidden.all");
    }
  NODE ("Where", "hidden.all never nothing", "mask.f");
  NODE ("Transpose", "present.0.key", "k.x", onnx_attr ("perm", ints ((gint64[]) { 0, 1, 3, 2 }, 4)));
  NODE ("MatMul", "q.y k.x", "scores.r");
  NODE ("Mul", "scores.r scale", "scores.s");
  NODE ("Add", "scores.s mask.f", "scores");
  NODE ("Softmax", "scores", "weights", AXIS (-1));
  NODE ("MatMul", "weights present.0.value", "seen");
  if (kind & WITH_MEAN)
    {
      NODE ("ReduceMean", "present.0.value", "mean", onnx_attr ("axes", ints ((gint64[]) { 2 }, 1)));
      NODE ("Add", "seen mean", "seen.m");
    }
  else
    {
      NODE ("Identity", "seen", "seen.m");
    }
  NODE ("Transpose", "seen.m", "seen.t", PERM);
  NODE ("Reshape", "seen.t flat", "seen.f");
  NODE ("MatMul", "seen.f wo", "logits");

  file = onnx_finish (onnx_model (graph, 17));
  model = rlx_model_new_from_bytes (file, &error);
  g_assert_no_error (error);
  return rlx_session_new (model, rlx_test_device (), NULL);
}

static RlxTensor *
new_ints (const gint64 *values,
          gint64        n)
{
  return rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { 1, n }, 2, values, (gsize) n, NULL);
}

/* Logits for @n tokens; all elements of the mask are 1 except the one at @hidden, unless that
 * is negative. */
static RlxTensor *
run (RlxSession   *session,
     const gint64 *tokens,
     gint64        n,
     gint64        n_all,
     gint64        hidden,
     GError      **error)
{
  g_autofree gint64 *mask = g_new0 (gint64, n_all + 1);
  const char *names[] = { "ids", n_all > 0 ? "mask" : NULL, NULL };
  g_autoptr(RlxTensor) ids = new_ints (tokens, n);
  g_autoptr(RlxTensor) seen = NULL;
  g_auto(RlxTensors) outputs = NULL;
  RlxTensor *inputs[2] = { ids, };
  gsize n_outputs;

  for (gint64 i = 0; i < n_all; i++)
    mask[i] = i != hidden;
  if (n_all > 0)
    inputs[1] = seen = new_ints (mask, n_all);
  outputs = rlx_session_run (session, names, inputs, n_all > 0 ? 2 : 1, &n_outputs, NULL, error);
  if (outputs == NULL)
    return NULL;
  g_assert_cmpuint (n_outputs, ==, 1);
  return g_object_ref (outputs[0]);
}

/* Both are sums of a few products of numbers below 1, computed by different kernels. */
static void
assert_same_logits (RlxTensor *part,
                    gint64     first,
                    RlxTensor *whole)
{
  gsize n = rlx_tensor_get_n_elements (part);

  for (gsize i = 0; i < n; i++)
    g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (part, i), rlx_tensor_get_value (whole, (gsize) first * TOKENS + i), 2e-5);
}

static const gint64 spoken[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 8, 9 };

/* The result is the same in chunks of several lengths as in a single run, and there is a graph for each chunk length. */
static void
check_parts (Kind   kind,
             gint64 hidden)
{
  const gint64 parts[] = { 3, 1, 1, 2, 1, 2, 1, 1 };
  gboolean masked = kind & WITH_MASK;
  g_autoptr(RlxSession) session = new_decoder (kind);
  g_autoptr(RlxSession) at_once = new_decoder (kind);
  g_autoptr(RlxTensor) whole = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_true (rlx_session_add_states (at_once, NULL));
  whole = run (at_once, spoken, G_N_ELEMENTS (spoken), masked ? G_N_ELEMENTS (spoken) : 0, hidden, &error);
  g_assert_no_error (error);

  g_assert_true (rlx_session_add_states (session, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length ((char **) rlx_session_get_output_names (session)), ==, 1);
  rlx_session_set_max_rows (session, 12);
  for (guint again = 0; again < 2; again++)
    {
      gint64 at = 0;

      for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
        {
          g_autoptr(RlxTensor) logits = run (session, spoken + at, parts[i], masked ? at + parts[i] : 0, hidden, &error);

          g_assert_no_error (error);
          assert_same_logits (logits, at, whole);
          at += parts[i];
        }
      g_assert_cmpuint (rlx_session_get_n_rows (session), ==, 12);
      g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 3);
      /* The cache is full. */
      g_assert_null (run (session, spoken, 1, masked ? 13 : 0, hidden, &error));
      g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT);
      g_clear_error (&error);
      rlx_session_reset_states (session);
      g_assert_cmpuint (rlx_session_get_n_rows (session), ==, 0);
    }
}

static void
test_parts (void)
{
  if (rlx_test_device () != NULL)
    check_parts (0, -1);
}

static void
test_mask (void)
{
  if (rlx_test_device () != NULL)
    check_parts (WITH_MASK, 2);
}

static void
test_window (void)
{
  if (rlx_test_device () != NULL)
    check_parts (WITH_WINDOW, -1);
}

/* Whatever would count missing rows is rejected, unless there is no room for any. */
static void
test_refused (void)
{
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) first = NULL;
  g_autoptr(RlxTensor) second = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  session = new_decoder (WITH_MEAN);
  g_assert_true (rlx_session_add_states (session, NULL));
  rlx_session_set_max_rows (session, 12);
  first = run (session, spoken, 3, 0, -1, &error);
  g_assert_no_error (error);
  g_assert_null (run (session, spoken + 3, 1, 0, -1, &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "reduce_mean"));
  g_clear_error (&error);

  g_clear_object (&first);
  rlx_session_set_max_rows (session, 0);
  first = run (session, spoken, 3, 0, -1, &error);
  g_assert_no_error (error);
  second = run (session, spoken + 3, 1, 0, -1, &error);
  g_assert_no_error (error);

  g_assert_false (rlx_session_add_state (session, "ids", "nothing", &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_false (rlx_session_add_state (session, "past_key_values.0.key", "logits", &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_false (rlx_session_add_states (session, &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND);
}

/* A running sum across runs, of fixed size. */
static void
test_fixed_size (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GBytes) file = NULL;
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;

  onnx_add_input (graph, "x", FLOAT, "batch 2");
  onnx_add_input (graph, "sum", FLOAT, "batch 2");
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_output (graph, "next", FLOAT, NULL);
  NODE ("Add", "x sum", "next");
  NODE ("Neg", "next", "y");
  file = onnx_finish (onnx_model (graph, 17));
  model = rlx_model_new_from_bytes (file, &error);
  g_assert_no_error (error);
  if (rlx_test_device () == NULL)
    return;
  session = rlx_session_new (model, rlx_test_device (), NULL);
  g_assert_true (rlx_session_add_state (session, "sum", "next", &error));
  x = rlx_tensor_new_from_floats ((gint64[]) { 1, 2 }, 2, (float[]) { 1, 2 }, 2, NULL);
  for (guint i = 0; i < 5; i++)
    {
      const char *names[] = { "x", i == 3 ? "sum" : NULL, NULL };
      RlxTensor *inputs[] = { x, x };
      g_auto(RlxTensors) outputs = rlx_session_run (session, names, inputs, i == 3 ? 2 : 1, NULL, NULL, &error);

      g_assert_no_error (error);
      /* The fourth run gets an explicit start. */
      g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 1), ==, -2.0 * (i < 3 ? i + 1 : i - 1));
    }
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);
}

static void
cancel_soon (GTask        *task,
             gpointer      source G_GNUC_UNUSED,
             gpointer      data,
             GCancellable *cancellable G_GNUC_UNUSED)
{
  g_usleep (G_USEC_PER_SEC / 50);
  g_cancellable_cancel (data);
  g_task_return_boolean (task, TRUE);
}

/* While a run is in progress, other callers can cancel their wait, and it is not disturbed. */
static void
test_busy (void)
{
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) first = NULL, second = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GTask) task = NULL;
  g_autoptr(GError) error = NULL;
  const char *names[] = { "ids", NULL };
  RlxTensor *ids;

  if (rlx_test_device () == NULL)
    return;
  session = new_decoder (0);
  g_assert_true (rlx_session_add_states (session, NULL));
  rlx_session_set_max_rows (session, 12);
  first = run (session, spoken, 3, 0, -1, &error);
  g_assert_no_error (error);

  g_assert_true (rlx_session_begin_run (session, NULL, &error));
  g_assert_false (rlx_session_add_states (session, &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID);
  g_clear_error (&error);
  rlx_session_set_max_rows (session, 14);
  rlx_session_reset_states (session);
  g_assert_cmpuint (rlx_session_get_max_rows (session), ==, 14);
  g_assert_cmpuint (rlx_session_get_n_rows (session), ==, 0);
  ids = first;
  task = g_task_new (NULL, NULL, NULL, NULL);
  g_task_set_task_data (task, cancellable, NULL);
  g_task_run_in_thread (task, cancel_soon);
  g_assert_null (rlx_session_run (session, names, &ids, 1, NULL, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_null (rlx_session_prepare (session, names, &ids, 1, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  rlx_session_end_run (session);

  /* The request made in the meantime. */
  second = run (session, spoken, 3, 0, -1, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (rlx_tensor_get_bytes (first), rlx_tensor_get_bytes (second)));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/decoders/parts", test_parts);
  g_test_add_func ("/decoders/mask", test_mask);
  g_test_add_func ("/decoders/window", test_window);
  g_test_add_func ("/decoders/refused", test_refused);
  g_test_add_func ("/decoders/busy", test_busy);
  g_test_add_func ("/decoders/fixed-size", test_fixed_size);
  return g_test_run ();
}
