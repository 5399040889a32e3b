/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * attention against a plain softmax in doubles.
 */
#include "config.h"

#include "rlx-test-util.h"

#include "util/rlx-debug-private.h"

#include <math.h>
#include <string.h>

/* Half the distance between 1 and the next float. */
#define UNIT 0x1p-24

typedef struct
{
  const char *data_type;
  int batches, heads, kv_heads, queries, keys, width, columns;
  gboolean causal;
  gboolean sequence_first;
  gboolean sink;
  int window;              /* 0: none */
  double softcap;          /* 0: none */
  const double *lengths;   /* nullable */
  const char *mask;        /* type, nullable */
  double scale;            /* 0: the default */
  double range;            /* of query and key; 0 means 1 */
} Case;

#define CASE(type, b, h, kv, s, k, w, c, ...) \
  { .data_type = type, .batches = b, .heads = h, .kv_heads = kv, .queries = s, .keys = k, .width = w, .columns = c, __VA_ARGS__ }

static gsize
find_row (const Case *c,
          int         heads,
          int         sequence,
          int         batch,
          int         head,
          int         row)
{
  return c->sequence_first ? ((gsize) batch * sequence + row) * heads + head : ((gsize) batch * heads + head) * sequence + row;
}

/* The index in the mask for a score. */
static gsize
mask_index (RlxTensor    *mask,
            const gint64  at[4])
{
  gsize n_dims, index = 0;
  const gint64 *shape = rlx_tensor_get_shape (mask, &n_dims);

  for (gsize i = 0; i < n_dims; i++)
    index = index * shape[i] + (shape[i] == 1 ? 0 : at[4 - n_dims + i]);

  return index;
}

/* A hidden key does not contribute, whatever its value is. The bound is that of the
 * operator table: errors of the scores, of the sums and of exp. */
static void
reference (RlxTestExpected *expectation,
           const Case  *c,
           RlxTensor   *query,
           RlxTensor   *key,
           RlxTensor   *value,
           RlxTensor   *mask,
           RlxTensor   *sink)
{
  g_autofree double *sinks = sink != NULL ? rlx_test_get_values (sink) : NULL;
  g_autofree double *q = rlx_test_get_values (query);
  g_autofree double *k = rlx_test_get_values (key);
  g_autofree double *v = rlx_test_get_values (value);
  g_autofree double *m = mask != NULL ? rlx_test_get_values (mask) : NULL;
  g_autofree double *scores = g_new (double, c->keys + 1);
  g_autofree gboolean *shown = g_new (gboolean, c->keys + 1);
  gboolean additive = mask != NULL && rlx_tensor_get_data_type (mask) != RLX_DATA_TYPE_BOOL;
  double scale = c->scale != 0 ? c->scale : c->width > 0 ? 1 / sqrt (c->width) : 1;
  gsize n = (gsize) c->batches * c->heads * c->queries * c->columns;

  expectation->data_type = rlx_tensor_get_data_type (query);
  expectation->expected = g_new (double, n + 1);
  expectation->bounds = g_new (double, n + 1);

  for (int b = 0; b < c->batches; b++)
    for (int h = 0; h < c->heads; h++)
      for (int s = 0; s < c->queries; s++)
        {
          int kv_head = h / (c->heads / c->kv_heads);
          int n_keys = c->lengths != NULL ? (int) CLAMP (c->lengths[b], 0, c->keys) : c->keys;
          int position = s + n_keys - c->queries;
          gsize out = find_row (c, c->heads, c->queries, b, h, s) * c->columns;
          const double *row = q + find_row (c, c->heads, c->queries, b, h, s) * c->width;
          double top = -INFINITY, total = 0, magnitude = 0, offset = 0;

          for (int j = 0; j < c->keys; j++)
            {
              double size = 0;

              scores[j] = 0;
              for (int d = 0; d < c->width; d++)
                {
                  double product = row[d] * k[find_row (c, c->kv_heads, c->keys, b, kv_head, j) * c->width + d];

                  scores[j] += product;
                  size += fabs (product);
                }
              scores[j] *= scale;
              if (c->softcap > 0)
                scores[j] = c->softcap * tanh (scores[j] / c->softcap);
              shown[j] = j < n_keys && (!c->causal || j <= position) && (c->window == 0 || ABS (j - position) < c->window);
              if (mask != NULL)
                {
                  double element = m[mask_index (mask, (gint64[]) { b, h, s, j })];

                  if (!additive)
                    {
                      shown[j] = shown[j] && element != 0;
                    }
                  else
                    {
                      scores[j] += element;
                      if (isfinite (element))
                        offset = fmax (offset, fabs (element));
                    }
                }
              shown[j] = shown[j] && scores[j] != -INFINITY;
              if (!shown[j])
                continue;
              magnitude = fmax (magnitude, fabs (scale) * size);
              top = isnan (scores[j]) || isnan (top) ? NAN : fmax (top, scores[j]);
            }

          if (sinks != NULL)
            {
              top = fmax (top, sinks[h]);
              total = exp (sinks[h] - top);
            }
          for (int j = 0; j < c->keys; j++)
            if (shown[j])
              total += exp (scores[j] - top);

          for (int i = 0; i < c->columns; i++)
            {
              double sum = 0, largest = 0;

              for (int j = 0; j < c->keys; j++)
                if (shown[j])
                  {
                    double element = v[find_row (c, c->kv_heads, c->keys, b, kv_head, j) * c->columns + i];

                    sum += exp (scores[j] - top) * element;
                    largest = fmax (largest, fabs (element));
                  }
              expectation->expected[out] = total == 0 ? 0 : sum / total;
              expectation->bounds[out] = 2 * UNIT * (c->keys + (c->width + 10) * magnitude + 2 * offset + 64) * largest;
              out++;
            }
        }
}

static char *
make_type (const Case *c,
           int         heads,
           int         sequence,
           int         width)
{
  return g_strdup_printf ("%s[%d,%d,%d,%d]", c->data_type, c->batches, c->sequence_first ? sequence : heads,
                          c->sequence_first ? heads : sequence, width);
}

static void
compare (const Case *c,
         RlxTensor  *query,
         RlxTensor  *key,
         RlxTensor  *value,
         RlxTensor  *mask)
{
  g_autofree char *what = g_strdup_printf ("attention %s B%d H%d/%d S%d K%d D%d/%d%s mask %s scale %g window %d softcap %g",
                                           c->data_type, c->batches, c->heads, c->kv_heads, c->queries, c->keys,
                                           c->width, c->columns, c->causal ? " causal" : "",
                                           c->mask != NULL ? c->mask : "none", c->scale, c->window, c->softcap);
  g_autofree char *type = make_type (c, c->heads, c->queries, c->columns);
  g_autofree char *type_sink = g_strdup_printf ("f32[%d]", c->heads);
  g_autofree char *type_lengths = g_strdup_printf ("i32[%d]", c->batches);
  g_autoptr(RlxTensor) lengths = c->lengths != NULL ? rlx_test_tensor (type_lengths, c->lengths) : NULL;
  g_autoptr(RlxTensor) sink = c->sink ? rlx_test_random (type_sink, -3, 3, 5) : NULL;
  g_autoptr(RlxTensor) y = NULL;
  RlxTensor *inputs[] = { query, key, value, mask, lengths, sink };
  RlxTestExpected expectation;

  y = rlx_test_run_op ("attention", sink != NULL ? 6 : lengths != NULL ? 5 : mask != NULL ? 4 : 3, inputs,
                       g_variant_new_parsed ("{'causal': <%b>, 'scale': <%d>, 'window': <%x>, 'softcap': <%d>, 'layout': <%s>}",
                                             c->causal, c->scale, (gint64) c->window, c->softcap,
                                             c->sequence_first ? "sequence-first" : "heads-first"));
  reference (&expectation, c, query, key, value, mask, sink);
  rlx_test_compare_full (what, y, type, expectation.expected, rlx_test_get_bound, &expectation);
  g_free (expectation.expected);
  g_free (expectation.bounds);
}

static void
make_operands (const Case *c,
               RlxTensor **query,
               RlxTensor **key,
               RlxTensor **value)
{
  g_autofree char *q = make_type (c, c->heads, c->queries, c->width);
  g_autofree char *k = make_type (c, c->kv_heads, c->keys, c->width);
  g_autofree char *v = make_type (c, c->kv_heads, c->keys, c->columns);
  double range = c->range != 0 ? c->range : 1;

  *query = rlx_test_random (q, -range, range, 1);
  *key = rlx_test_random (k, -range, range, 2);
  *value = rlx_test_random (v, -1, 1, 3);
}

static void
check (Case c)
{
  g_autoptr(RlxTensor) query = NULL;
  g_autoptr(RlxTensor) key = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) mask = NULL;

  if (rlx_test_device () == NULL)
    return;

  make_operands (&c, &query, &key, &value);
  if (c.mask != NULL)
    mask = g_str_has_prefix (c.mask, "bool") ? rlx_test_random (c.mask, 0, 1, 4) : rlx_test_random (c.mask, -4, 4, 4);
  compare (&c, query, key, value, mask);
}

/* Sizes next to each one at which a kernel splits queries, keys or columns. */
static void
test_edges (void)
{
  static const int queries[] = { 1, 7, 8, 16, 17, 31, 33, 65 };
  static const int keys[] = { 1, 2, 15, 17, 63, 64, 65, 129, 200 };
  static const int widths[] = { 64, 4, 256, 300 };
  static const int columns[] = { 64, 4, 60, 48 };
  g_autoptr(GRand) rand = g_rand_new_with_seed (3);

  for (guint i = 0; i < 32; i++)
    check ((Case) CASE ("f32", 1, 2, 1,
                        queries[i % G_N_ELEMENTS (queries)],
                        keys[g_rand_int_range (rand, 0, G_N_ELEMENTS (keys))],
                        widths[g_rand_int_range (rand, 0, G_N_ELEMENTS (widths))],
                        columns[g_rand_int_range (rand, 0, G_N_ELEMENTS (columns))]));
}

/* Widths that are not multiples of four, and values wider than a workgroup handles. */
static void
test_widths (void)
{
  check ((Case) CASE ("f32", 1, 2, 1, 40, 66, 33, 1));
  check ((Case) CASE ("f32", 1, 1, 1, 40, 70, 5, 65));
  check ((Case) CASE ("f32", 1, 1, 1, 40, 70, 5, 300));
  check ((Case) CASE ("f32", 1, 1, 1, 3, 70, 5, 129));
}

/* The operands as a projection leaves them. */
static void
test_layout (void)
{
  check ((Case) CASE ("f32", 2, 6, 3, 40, 70, 8, 12, .sequence_first = TRUE));
  check ((Case) CASE ("f32", 2, 6, 3, 1, 70, 8, 12, .sequence_first = TRUE));
  check ((Case) CASE ("f32", 2, 6, 3, 5, 700, 8, 12, .sequence_first = TRUE));
}

static void
test_window (void)
{
  for (int causal = 0; causal < 2; causal++)
    {
      check ((Case) CASE ("f32", 1, 2, 2, 70, 70, 16, 16, .causal = causal, .window = 9));
      check ((Case) CASE ("f32", 1, 2, 2, 40, 90, 16, 16, .causal = causal, .window = 33));
      check ((Case) CASE ("f32", 1, 2, 2, 90, 20, 16, 16, .causal = causal, .window = 1));
      check ((Case) CASE ("f32", 1, 2, 2, 40, 40, 16, 16, .causal = causal, .window = 1000));
    }
  check ((Case) CASE ("f32", 1, 4, 2, 1, 1500, 16, 16, .causal = TRUE, .window = 700));
  check ((Case) CASE ("f32", 1, 4, 2, 1, 1500, 16, 16, .causal = TRUE, .window = 1));
}

static const double lengths[] = { 70, 0, 33, -5, 1000, 1 };

/* Lengths of a cache, some of them larger than the cache. */
static void
test_lengths (void)
{
  check ((Case) CASE ("f32", 6, 2, 1, 20, 70, 16, 16, .lengths = lengths));
  check ((Case) CASE ("f32", 6, 2, 1, 20, 70, 16, 16, .causal = TRUE, .lengths = lengths));
  check ((Case) CASE ("f32", 6, 4, 2, 2, 700, 16, 16, .causal = TRUE, .lengths = lengths));
}

static void
check_all (int queries,
           int keys,
           int columns)
{
  g_autofree char *mask = g_strdup_printf ("f32[6,1,1,%d]", keys);

  check ((Case) CASE ("f32", 6, 4, 2, queries, keys, 16, columns, .mask = mask, .causal = TRUE, .window = 50, .softcap = 3,
                      .range = 3, .lengths = lengths, .sequence_first = TRUE, .sink = TRUE));
}

/* All options at once, in the kernels for many queries, for few, and for few with many
 * keys; and none of them, with so many queries that a larger kernel pays off. */
static void
test_all (void)
{
  check_all (20, 70, 20);
  check_all (2, 70, 20);
  check_all (2, 700, 20);
  /* so few rows that their keys are split */
  check ((Case) CASE ("f32", 1, 2, 1, 2, 900, 16, 20, .mask = "f32[1,1,1,900]", .causal = TRUE, .window = 700, .softcap = 3,
                      .range = 3, .lengths = (double[]) { 850 }, .sequence_first = TRUE, .sink = TRUE));
  check ((Case) CASE ("f32", 6, 4, 2, 301, 100, 16, 20));
}

static void
test_heads (void)
{
  static const int kv_heads[] = { 1, 2, 3, 6 };

  for (guint i = 0; i < G_N_ELEMENTS (kv_heads); i++)
    {
      check ((Case) CASE ("f32", 2, 6, kv_heads[i], 17, 70, 8, 12));
      check ((Case) CASE ("f32", 3, 6, kv_heads[i], 1, 70, 8, 12));
    }
}

static void
test_causal (void)
{
  check ((Case) CASE ("f32", 1, 2, 2, 70, 70, 16, 16, .causal = TRUE));
  check ((Case) CASE ("f32", 1, 2, 2, 20, 150, 16, 16, .causal = TRUE));
  /* more queries than keys: the first ones see none */
  check ((Case) CASE ("f32", 1, 2, 2, 150, 20, 16, 16, .causal = TRUE));
  check ((Case) CASE ("f32", 1, 1, 1, 19, 1, 16, 16, .causal = TRUE));
  check ((Case) CASE ("f32", 2, 2, 1, 40, 70, 16, 16, .causal = TRUE, .mask = "bool[2,1,1,70]"));
}

static void
test_masks (void)
{
  static const char *const shapes[] = {
    "[66]", "[9,66]", "[1,66]", "[9,1]", "[4,9,66]", "[4,1,1]", "[2,4,9,66]", "[2,1,1,66]", "[1,4,9,1]", "[2,1,9,66]", "[1]", "[]",
  };

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autofree char *mask = g_strconcat (i % 2 == 0 ? "f32" : "bool", shapes[i], NULL);

      check ((Case) CASE ("f32", 2, 4, 2, 9, 66, 12, 8, .mask = mask));
    }
  check ((Case) CASE ("f32", 2, 4, 2, 1, 66, 12, 8, .mask = "bool[2,4,1,66]"));
}

static void
test_f16 (void)
{
  check ((Case) CASE ("f16", 2, 4, 2, 20, 66, 32, 36));
  check ((Case) CASE ("f16", 2, 4, 2, 9, 66, 33, 35, .mask = "f16[66]"));
  check ((Case) CASE ("f16", 2, 4, 2, 1, 130, 64, 64, .causal = TRUE));
}

/* Candidates for matrix units, at the edges of tiles of 64 queries, 32 keys and of columns. */
static void
test_matrices (void)
{
  static const double some[] = { 0, 33, 70, 64 };

  check ((Case) CASE ("f16", 1, 1, 1, 64, 64, 64, 64));
  check ((Case) CASE ("f16", 2, 4, 2, 65, 33, 16, 4));
  check ((Case) CASE ("f16", 1, 2, 1, 130, 131, 32, 72, .causal = TRUE, .sequence_first = TRUE));
  check ((Case) CASE ("f16", 1, 2, 2, 40, 90, 16, 16, .causal = TRUE, .window = 33, .mask = "f16[40,90]", .sink = TRUE));
  check ((Case) CASE ("f16", 2, 2, 2, 40, 90, 16, 16, .mask = "bool[2,1,40,90]", .softcap = 3));
  check ((Case) CASE ("f16", 4, 2, 1, 20, 70, 16, 16, .lengths = some, .window = 60));
  /* scores in the hundreds: the largest may be in any block */
  check ((Case) CASE ("f16", 1, 2, 2, 70, 300, 16, 16, .scale = 1, .range = 10));
}

/* Reduced precision: a weight is a single half float rather than two, with a relative error of 2^-10. Both results are
 * rounded. */
static void
test_reduced (void)
{
  static const char body[] = "%0 = input \"q\" f16[1,2,70,16]\n%1 = input \"k\" f16[1,1,90,16]\n%2 = input \"v\" f16[1,1,90,20]\n"
                             "%3 = attention(%0, %1, %2) {causal = true}\noutput \"y\" %3\n";
  static const char *const heads[] = { "rlx 1\nprecision full\n", "rlx 1\nprecision reduced\n" };
  Case c = CASE ("f16", 1, 2, 1, 70, 90, 16, 20);
  RlxTensor *operands[3] = { NULL, };
  double *values[2];

  if (rlx_test_device () == NULL)
    return;

  make_operands (&c, &operands[0], &operands[1], &operands[2]);
  for (guint i = 0; i < G_N_ELEMENTS (heads); i++)
    {
      g_autofree char *text = g_strconcat (heads[i], body, NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
      g_autoptr(RlxExecutable) executable = NULL;
      RlxTensor **outputs;
      gsize n;

      g_assert_no_error (error);
      executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
      g_assert_no_error (error);
      outputs = rlx_executable_run (executable, operands, 3, &n, NULL, &error);
      g_assert_no_error (error);
      values[i] = rlx_test_get_values (outputs[0]);
      g_object_unref (outputs[0]);
      g_free (outputs);
    }
  for (int i = 0; i < c.heads * c.queries * c.columns; i++)
    g_assert_cmpfloat_with_epsilon (values[0][i], values[1][i], 0x1p-10 + 2 * 0x1p-11);
  for (guint i = 0; i < G_N_ELEMENTS (operands); i++)
    g_object_unref (operands[i]);
  g_free (values[0]);
  g_free (values[1]);
}

static void
test_scale (void)
{
  check ((Case) CASE ("f32", 1, 2, 2, 9, 66, 16, 16, .scale = 1));
  check ((Case) CASE ("f32", 1, 2, 2, 9, 66, 16, 16, .scale = -0.7));
  check ((Case) CASE ("f32", 1, 2, 2, 9, 66, 16, 16, .scale = 1e-9));
  /* scores in the hundreds, the largest in any block */
  check ((Case) CASE ("f32", 1, 2, 2, 20, 300, 16, 16, .scale = 1, .range = 10));
  /* exp of such scores is far beyond the range of floats */
  check ((Case) CASE ("f32", 1, 1, 1, 20, 300, 4, 16, .scale = 1, .range = 100));
}

/* Also tensors above a megabyte, which need several bindings with
 * RLX_DEBUG=target=small. */
static void
test_large (void)
{
  check_all (301, 100, 20);
  check ((Case) CASE ("f32", 1, 8, 8, 600, 3, 64, 64));
  check ((Case) CASE ("f32", 1, 2, 1, 1, 5000, 64, 64));
  check ((Case) CASE ("f32", 1, 1, 1, 19, 4097, 8, 4, .causal = TRUE));
}

/* Heads narrow enough for a kernel specialised for the width, with enough work for it. */
static void
test_narrow (void)
{
  check_all (301, 100, 16);
  check ((Case) CASE ("f32", 2, 4, 2, 170, 129, 32, 32, .sequence_first = TRUE));
  check ((Case) CASE ("f32", 1, 4, 4, 161, 130, 64, 64));
  check ((Case) CASE ("f32", 2, 4, 1, 170, 131, 20, 20, .scale = 1, .range = 10));
  check ((Case) CASE ("f32", 2, 4, 2, 170, 129, 32, 32, .causal = TRUE, .mask = "bool[170,129]"));
  check ((Case) CASE ("f32", 2, 4, 2, 170, 129, 32, 32, .mask = "f32[2,1,1,129]"));
  check ((Case) CASE ("f16", 2, 4, 2, 170, 129, 36, 36));
  /* several keys at a time, with three missing in the last block */
  check ((Case) CASE ("f32", 2, 4, 2, 600, 129, 8, 8));
}

/* Enough work that the largest kernel pays off, compared with smaller ones that do half
 * the heads each. Both are within the bound of the exact result. */
static void
test_halves (void)
{
  enum { QUERIES = 2090, KEYS = 270, WIDTH = 68, HALF = 4 * QUERIES * WIDTH };
  g_autoptr(RlxTensor) whole = NULL;
  RlxTensor *operands[3];

  if (rlx_test_device () == NULL)
    return;
  if (rlx_test_has_small_bindings ())
    {
      g_test_skip ("the tensors need more bindings than there are");
      return;
    }

  for (guint i = 0; i < 3; i++)
    operands[i] = rlx_test_random (i == 0 ? "f32[1,8,2090,68]" : "f32[1,8,270,68]", -1, 1, i + 1);
  whole = rlx_test_run_op ("attention", 3, operands, NULL);
  g_assert_nonnull (whole);

  for (guint half = 0; half < 2; half++)
    {
      g_autofree double *expected = rlx_test_get_values (whole);
      g_autoptr(RlxTensor) y = NULL;
      RlxTensor *parts[3];

      for (guint i = 0; i < 3; i++)
        {
          g_autofree double *values = rlx_test_get_values (operands[i]);

          parts[i] = rlx_test_tensor (i == 0 ? "f32[1,4,2090,68]" : "f32[1,4,270,68]",
                                      values + half * 4 * WIDTH * (i == 0 ? QUERIES : KEYS));
        }
      y = rlx_test_run_op ("attention", 3, parts, NULL);
      rlx_test_compare ("half of the heads", y, "f32[1,4,2090,68]", expected + half * HALF,
                        2 * 2 * UNIT * (KEYS + (WIDTH + 10) * WIDTH / 8.0 + 64), 0);
      for (guint i = 0; i < 3; i++)
        g_object_unref (parts[i]);
    }
  for (guint i = 0; i < 3; i++)
    g_object_unref (operands[i]);
}

static void
test_empty (void)
{
  check ((Case) CASE ("f32", 0, 2, 2, 3, 4, 5, 6));
  check ((Case) CASE ("f32", 1, 0, 2, 3, 4, 5, 6));
  check ((Case) CASE ("f32", 1, 2, 2, 0, 4, 5, 6));
  check ((Case) CASE ("f32", 1, 2, 2, 3, 4, 5, 0));
  /* no keys: zeros */
  check ((Case) CASE ("f32", 1, 2, 2, 3, 0, 5, 6));
  check ((Case) CASE ("f32", 1, 2, 2, 3, 0, 5, 6, .causal = TRUE, .mask = "bool[3,0]"));
  /* no width: all scores are zero */
  check ((Case) CASE ("f32", 1, 2, 2, 3, 70, 0, 6));
  check ((Case) CASE ("f32", 1, 2, 2, 20, 70, 0, 8));
}

static void
fill (double *values,
      int     from,
      int     to,
      double  value)
{
  for (int i = from; i < to; i++)
    values[i] = value;
}

/* Rows of a mask that hide everything, or all but one key. */
static void
test_hidden (void)
{
  Case c = CASE ("f32", 1, 1, 1, 10, 130, 8, 20);
  g_autofree double *additive = g_new0 (double, 10 * 130);
  g_autofree double *boolean = g_new0 (double, 10 * 130);
  g_autoptr(RlxTensor) query = NULL;
  g_autoptr(RlxTensor) key = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) mask_f = NULL;
  g_autoptr(RlxTensor) mask_b = NULL;

  if (rlx_test_device () == NULL)
    return;

  /* 0 and 9: none; 1: the last key only; 2: the first; 3: none in the first
   * block; others: all */
  fill (additive, 0, 4 * 130, -INFINITY);
  fill (additive, 9 * 130, 10 * 130, -INFINITY);
  additive[2 * 130 - 1] = additive[2 * 130] = 1;
  fill (additive, 3 * 130 + 64, 4 * 130, -1e4);
  for (int i = 0; i < 10 * 130; i++)
    boolean[i] = isfinite (additive[i]);

  make_operands (&c, &query, &key, &value);
  mask_f = rlx_test_tensor ("f32[10,130]", additive);
  mask_b = rlx_test_tensor ("bool[10,130]", boolean);
  c.mask = "f32[10,130]";
  compare (&c, query, key, value, mask_f);
  c.mask = "bool[10,130]";
  compare (&c, query, key, value, mask_b);
  c.causal = TRUE;
  compare (&c, query, key, value, mask_b);
}

/* NaN propagates where it contributes and nowhere else. */
static void
check_nan (Case c)
{
  g_autofree char *query_type = make_type (&c, 1, c.queries, c.width);
  g_autofree char *key_type = make_type (&c, 1, c.keys, c.width);
  g_autofree char *value_type = make_type (&c, 1, c.keys, c.columns);
  g_autofree char *mask_type = g_strdup_printf ("bool[%d,%d]", c.queries, c.keys);
  g_autofree double *boolean = g_new0 (double, c.queries * c.keys);
  g_autofree double *q = NULL;
  g_autofree double *k = NULL;
  g_autofree double *v = NULL;
  g_autoptr(RlxTensor) query = NULL;
  g_autoptr(RlxTensor) key = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) mask = NULL;

  make_operands (&c, &query, &key, &value);
  q = rlx_test_get_values (query);
  k = rlx_test_get_values (key);
  v = rlx_test_get_values (value);
  q[3 * c.width + 1] = NAN;
  k[(c.keys - 1) * c.width] = NAN;
  v[50 * c.columns + c.columns - 1] = NAN;
  v[60 * c.columns + 7] = INFINITY;
  g_clear_object (&query);
  g_clear_object (&key);
  g_clear_object (&value);
  query = rlx_test_tensor (query_type, q);
  key = rlx_test_tensor (key_type, k);
  value = rlx_test_tensor (value_type, v);

  /* row 0 hides everything, 1 the key, 2 the values; the others only the key */
  fill (boolean, 0, c.queries * c.keys, 1);
  for (int i = 0; i < c.queries; i++)
    boolean[i * c.keys + c.keys - 1] = i == 2;
  for (int i = 0; i < 3; i += 2)
    boolean[i * c.keys + 50] = boolean[i * c.keys + 60] = 0;

  mask = rlx_test_tensor (mask_type, boolean);
  c.mask = mask_type;
  compare (&c, query, key, value, mask);
  c.mask = NULL;
  c.causal = TRUE;
  compare (&c, query, key, value, NULL);
}

static void
test_nan (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_nan ((Case) CASE ("f32", 1, 1, 1, 10, 100, 4, 70));
  check_nan ((Case) CASE ("f16", 1, 1, 1, 70, 100, 16, 40));
}

/* Keys whose score is -∞ without a mask do not contribute, and NaN propagates, however
 * queries and keys are split. */
static void
test_infinite (void)
{
  static const int queries[] = { 1, 3, 40 };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 4 * G_N_ELEMENTS (queries); i++)
    {
      gboolean half = i / 2 % 2;
      Case c = CASE (half ? "f16" : "f32", 1, 1, 1, queries[i / 4], 600, half ? 16 : 8, 12);
      g_autofree char *type = make_type (&c, 1, c.queries, c.width);
      g_autofree char *key_type = make_type (&c, 1, c.keys, c.width);
      g_autoptr(RlxTensor) query = NULL;
      g_autoptr(RlxTensor) key = NULL;
      g_autoptr(RlxTensor) value = NULL;
      g_autofree double *q = NULL;
      g_autofree double *k = NULL;

      make_operands (&c, &query, &key, &value);
      q = rlx_test_get_values (query);
      k = rlx_test_get_values (key);
      for (int j = 0; j < c.queries * c.width; j += c.width)
        q[j] = -1;
      for (int j = 0; j < c.keys * c.width; j += c.width)
        k[j] = 1;
      if (i % 2 == 1)
        {
          k[500 * c.width + 3] = NAN;
        }
      else
        {
          /* all keys for the first query, two of them for the others */
          q[0] = -INFINITY;
          k[7 * c.width] = k[530 * c.width] = INFINITY;
        }
      g_clear_object (&query);
      g_clear_object (&key);
      query = rlx_test_tensor (type, q);
      key = rlx_test_tensor (key_type, k);
      compare (&c, query, key, value, NULL);
      c.causal = TRUE;
      compare (&c, query, key, value, NULL);
    }
}

static void
test_repeatable (void)
{
  Case c = CASE ("f32", 1, 4, 2, 33, 300, 64, 64);
  g_autoptr(RlxTensor) query = NULL;
  g_autoptr(RlxTensor) key = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) first = NULL;

  if (rlx_test_device () == NULL)
    return;

  make_operands (&c, &query, &key, &value);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(RlxTensor) y = rlx_test_run_op ("attention", 3, (RlxTensor *[]) { query, key, value }, NULL);

      g_assert_nonnull (y);
      if (first == NULL)
        first = g_object_ref (y);
      g_assert_true (rlx_tensor_equal (first, y));
    }
}

static void
test_rule (void)
{
  static const double scales[] = { NAN, INFINITY, -INFINITY, 1e39 };

  rlx_test_infers ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3]", NULL, "f32[2,4,5,3]");
  rlx_test_infers ("attention", "f16[2,4,5,8] f16[2,1,7,8] f16[2,1,7,3] f32[5,7]", NULL, "f16[2,4,5,3]");
  rlx_test_infers ("attention", "f32[2,4,5,8] f32[2,2,7,8] f32[2,2,7,3] bool[2,1,1,7]", NULL, "f32[2,4,5,3]");
  rlx_test_infers ("attention", "f32[2,0,5,8] f32[2,2,7,8] f32[2,2,7,3] -", NULL, "f32[2,0,5,3]");

  rlx_test_infers ("attention", "f32[2,5,4,8] f32[2,7,2,8] f32[2,7,2,3] - i32[2] f32[4]",
                   g_variant_new_parsed ("{'layout': <'sequence-first'>}"), "f32[2,5,4,3]");

#define REFUSES(types, words) rlx_test_refuses ("attention", types, NULL, RLX_GRAPH_ERROR_SHAPE, words)
  REFUSES ("f32[4,5,8] f32[2,4,7,8] f32[2,4,7,3]", "query must be [batch, heads, sequence, width]; it is f32[4, 5, 8]");
  REFUSES ("f32[2,4,5,8] f32[7,8] f32[2,4,7,3]", "key must be");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[1,2,4,7,3]", "value must be");
  REFUSES ("f32[2,4,5,8] f32[3,4,7,8] f32[3,4,7,3]", "batches of the query");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[1,4,7,3]", "batches of the key");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,2,7,3]", "heads of the key");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,6,3]", "sequences of the key f32[2, 4, 7, 8] and the value f32[2, 4, 6, 3] differ: 7 and 6");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,9] f32[2,4,7,3]", "widths of the query");
  REFUSES ("f32[2,4,5,8] f32[2,3,7,8] f32[2,3,7,3]", "4 heads of the query f32[2, 4, 5, 8] are not a multiple of the 3 heads");
  REFUSES ("f32[2,4,5,8] f32[2,0,7,8] f32[2,0,7,3]", "heads");
  REFUSES ("f32[2,2,5,8] f32[2,4,7,8] f32[2,4,7,3]", "multiple");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] bool[5,8]", "mask bool[5, 8]");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] f32[1,2,4,5,7]", "mask");
  REFUSES ("f32[2,4,1,8] f32[2,4,7,8] f32[2,4,7,3] f32[5,7]", "[2, 4, 1, 7]");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] - i32[3]", "key lengths must be [2], one for each batch; they are i32[3]");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] - i32[2,1]", "key lengths");
  REFUSES ("f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] - - f32[2]", "sink must be [4], one for each head, or [1]; it is f32[2]");
#undef REFUSES

  rlx_test_refuses ("attention", "f32[2,4,5,8] f16[2,4,7,8] f32[2,4,7,3]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] i32[5,7]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3] - f32[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    {
      rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3]",
                        g_variant_new_parsed ("{'scale': <%d>}", scales[i]), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale");
      rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3]",
                        g_variant_new_parsed ("{'softcap': <%d>}", scales[i]), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "softcap");
    }
  rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3]",
                    g_variant_new_parsed ("{'softcap': <-1.0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "softcap is -1");
  rlx_test_refuses ("attention", "f32[2,4,5,8] f32[2,4,7,8] f32[2,4,7,3]",
                    g_variant_new_parsed ("{'window': <int64 -1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "window is -1");
}

static guint
count_dispatches (int heads,
                  int queries,
                  int keys)
{
  g_autofree char *text = g_strdup_printf ("rlx 1\n"
                                           "%%0 = input \"q\" f32[1, %d, %d, 16]\n"
                                           "%%1 = input \"k\" f32[1, %d, %d, 16]\n"
                                           "%%2 = attention(%%0, %%1, %%1)\n"
                                           "output \"y\" %%2\n", heads, queries, heads, keys);
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  g_autoptr (RlxExecutable) executable = NULL;

  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return rlx_executable_get_n_dispatches (executable);
}

/* Keys are split, and the partial results combined by a second dispatch, only if there
 * are many of them and few rows. */
static void
test_dispatches (void)
{
  if (rlx_test_device () == NULL)
    return;

  g_assert_cmpuint (count_dispatches (4, 1, 1), ==, 1);
  g_assert_cmpuint (count_dispatches (4, 1, 100), ==, 1);
  g_assert_cmpuint (count_dispatches (4, 4, 100), ==, 1);
  g_assert_cmpuint (count_dispatches (4, 1, 400), ==, 1);
  g_assert_cmpuint (count_dispatches (4, 1, 1000), ==, 2);
  g_assert_cmpuint (count_dispatches (4, 8, 1000), ==, 1);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/attention/rule", test_rule);
  g_test_add_func ("/attention/edges", test_edges);
  g_test_add_func ("/attention/widths", test_widths);
  g_test_add_func ("/attention/heads", test_heads);
  g_test_add_func ("/attention/layout", test_layout);
  g_test_add_func ("/attention/window", test_window);
  g_test_add_func ("/attention/lengths", test_lengths);
  g_test_add_func ("/attention/all", test_all);
  g_test_add_func ("/attention/causal", test_causal);
  g_test_add_func ("/attention/masks", test_masks);
  g_test_add_func ("/attention/f16", test_f16);
  g_test_add_func ("/attention/matrices", test_matrices);
  g_test_add_func ("/attention/reduced", test_reduced);
  g_test_add_func ("/attention/scale", test_scale);
  g_test_add_func ("/attention/large", test_large);
  g_test_add_func ("/attention/narrow", test_narrow);
  g_test_add_func ("/attention/halves", test_halves);
  g_test_add_func ("/attention/empty", test_empty);
  g_test_add_func ("/attention/hidden", test_hidden);
  g_test_add_func ("/attention/nan", test_nan);
  g_test_add_func ("/attention/infinite", test_infinite);
  g_test_add_func ("/attention/repeatable", test_repeatable);
  g_test_add_func ("/attention/dispatches", test_dispatches);

  return g_test_run ();
}
