/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-test-util.h"

#include <string.h>

#include "util/rlx-debug-private.h"

static const char *const all_types[] = { "f32", "f16", "i32", "u32", "i8", "u8", "bool", "i64", "u64" };

typedef struct
{
  gsize n_dims;
  gint64 shape[RLX_MAX_DIMS];
} Shape;

static gsize
count (const Shape *shape)
{
  gsize n = 1;

  for (gsize i = 0; i < shape->n_dims; i++)
    n *= shape->shape[i];

  return n;
}

static char *
make_type (const char  *data_type,
           const Shape *shape)
{
  GString *text = g_string_new (data_type);

  g_string_append_c (text, '[');
  for (gsize i = 0; i < shape->n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", shape->shape[i]);
  g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}

static RlxTensor *
make_tensor (const char  *data_type,
             const Shape *shape,
             guint32      seed)
{
  g_autofree char *type = make_type (data_type, shape);
  gboolean is_signed = data_type[0] != 'u' && data_type[0] != 'b';

  return rlx_test_random (type, is_signed ? -100 : 0, data_type[0] == 'b' ? 1 : 100, seed);
}

/* Compares bit for bit. */
static void
check_bytes (const char    *what,
             RlxTensor     *got,
             const char    *data_type,
             const Shape   *shape,
             gconstpointer  expected)
{
  GBytes *bytes;
  g_autofree char *type = make_type (data_type, shape);
  const guint8 *data;
  gsize size;

  if (got == NULL)
    {
      g_test_message ("%s: no result", what);
      g_test_fail ();
      return;
    }

  bytes = rlx_tensor_get_bytes (got);
  data = g_bytes_get_data (bytes, &size);
  if (size != count (shape) * rlx_data_type_get_size (rlx_tensor_get_data_type (got)) ||
      rlx_tensor_get_n_dims (got) != shape->n_dims ||
      (shape->n_dims > 0 && memcmp (rlx_tensor_get_shape (got, NULL), shape->shape, shape->n_dims * sizeof (gint64)) != 0))
    {
      g_autofree char *text = rlx_tensor_to_string (got);

      g_test_message ("%s: expected %s, got %s", what, type, text);
      g_test_fail ();
      return;
    }

  for (gsize i = 0; i < size; i++)
    if (data[i] != ((const guint8 *) expected)[i])
      {
        g_test_message ("%s: %s: byte %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT ": expected %02x, got %02x",
                        what, type, i, size, ((const guint8 *) expected)[i], data[i]);
        g_test_fail ();
        return;
      }
}

/* A view of @x in which element (i0, i1, …) is that at indices[0][i0], indices[1][i1], …
 * of the operand; axes[d] is the operand's dimension for dimension d of the view. */
static void
check_view (const char  *what,
            RlxTensor   *got,
            RlxTensor   *x,
            const char  *data_type,
            const Shape *shape,
            const gsize *axes,
            gint64     **indices)
{
  GBytes *bytes = rlx_tensor_get_bytes (x);
  const guint8 *from = g_bytes_get_data (bytes, NULL);
  gsize n_dims, size = rlx_data_type_get_size (rlx_tensor_get_data_type (x));
  const gint64 *dims = rlx_tensor_get_shape (x, &n_dims);
  gsize n = count (shape);
  g_autofree guint8 *expected = g_malloc (MAX (n * size, 1));
  gint64 strides[RLX_MAX_DIMS], stride = 1;

  for (gsize d = n_dims; d-- > 0;)
    {
      strides[d] = stride;
      stride *= dims[d];
    }

  for (gsize i = 0; i < n; i++)
    {
      gsize rest = i, at = 0;

      for (gsize d = shape->n_dims; d-- > 0;)
        {
          gint64 c = rest % shape->shape[d];

          rest /= shape->shape[d];
          if (axes[d] != G_MAXSIZE)
            at += strides[axes[d]] * indices[d][c];
        }
      memcpy (expected + i * size, from + at * size, size);
    }

  check_bytes (what, got, data_type, shape, expected);
}

static gint64 *
range (gint64 n)
{
  gint64 *out = g_new (gint64, MAX (n, 1));

  for (gint64 i = 0; i < n; i++)
    out[i] = i;

  return out;
}

static void
clear_indices (gint64 **indices,
               gsize    n_dims)
{
  for (gsize i = 0; i < n_dims; i++)
    g_free (indices[i]);
}

static GVariant *
attr_ints (const char   *name,
           gsize         n,
           const gint64 *values)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, name, rlx_test_ints (n, values));

  return g_variant_dict_end (&dict);
}

static GVariant *
attr_int (const char *name,
          gint64      value)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, name, "x", value);

  return g_variant_dict_end (&dict);
}

/* ---- rules ---------------------------------------------------------------------- */

#define PARSED(text) g_variant_new_parsed (text)
#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT
#define SHAPE RLX_GRAPH_ERROR_SHAPE
#define LIMIT RLX_GRAPH_ERROR_LIMIT
#define DATA_TYPE RLX_GRAPH_ERROR_DATA_TYPE

static void
test_rules_reshape (void)
{
  rlx_test_infers ("reshape", "f32[2,3,4]", PARSED ("{'shape': <[int64 6, 4]>}"), "f32[6,4]");
  rlx_test_infers ("reshape", "u8[2,3,4]", PARSED ("{'shape': <[int64 -1, 4]>}"), "u8[6,4]");
  rlx_test_infers ("reshape", "f32[1]", PARSED ("{'shape': <@ax []>}"), "f32[]");
  rlx_test_infers ("reshape", "f32[]", PARSED ("{'shape': <[int64 1, -1, 1]>}"), "f32[1,1,1]");
  rlx_test_infers ("reshape", "f32[0,3]", PARSED ("{'shape': <[int64 7, 0]>}"), "f32[7,0]");
  rlx_test_infers ("reshape", "f32[0,3]", PARSED ("{'shape': <[int64 -1, 5]>}"), "f32[0,5]");

  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 7]>}"), SHAPE, "6 elements");
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 4, -1]>}"), SHAPE, "[4, -1]");
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <@ax []>}"), SHAPE, NULL);
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 6, 0]>}"), SHAPE, NULL);
  rlx_test_refuses ("reshape", "f32[0]", PARSED ("{'shape': <[int64 1]>}"), SHAPE, NULL);
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 -1, -1]>}"), INVALID, "both -1");
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 -2, 3]>}"), INVALID, "-2");
  rlx_test_refuses ("reshape", "f32[2,3]", PARSED ("{'shape': <[int64 -9223372036854775808]>}"), INVALID, "-9223372036854775808");
  rlx_test_refuses ("reshape", "f32[0]", PARSED ("{'shape': <[int64 -1, 0]>}"), INVALID, "inferred");
  rlx_test_refuses ("reshape", "f32[4]", PARSED ("{'shape': <[int64 4611686018427387904, 4]>}"), SHAPE, NULL);
  rlx_test_refuses ("reshape", "f32[4]", PARSED ("{'shape': <[int64 4294967296, 4294967296, 4]>}"), SHAPE, NULL);
  rlx_test_refuses ("reshape", "f32[0]", PARSED ("{'shape': <[int64 0, 4294967296, 4294967296]>}"), LIMIT, NULL);
  rlx_test_refuses ("reshape", "f32[1]", PARSED ("{'shape': <[int64 1,1,1,1,1,1,1,1,1]>}"), LIMIT, "9 dimensions");
}

static void
test_rules_transpose (void)
{
  rlx_test_infers ("transpose", "f32[2,3,4]", PARSED ("{'permutation': <@ax []>}"), "f32[4,3,2]");
  rlx_test_infers ("transpose", "f32[2,3,4]", PARSED ("{'permutation': <[int64 1, -1, 0]>}"), "f32[3,4,2]");
  rlx_test_infers ("transpose", "bool[]", PARSED ("{'permutation': <@ax []>}"), "bool[]");
  rlx_test_infers ("transpose", "f32[0,3]", PARSED ("{'permutation': <[int64 1, 0]>}"), "f32[3,0]");

  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 0]>}"), INVALID, "1 entries");
  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 0, 1, 2]>}"), INVALID, "3 entries");
  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 0, 0]>}"), INVALID, "twice");
  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 1, -1]>}"), INVALID, "twice");
  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 0, 2]>}"), INVALID, "axis 2");
  rlx_test_refuses ("transpose", "f32[2,3]", PARSED ("{'permutation': <[int64 0, -3]>}"), INVALID, "axis -3");
}

static void
test_rules_slice (void)
{
  rlx_test_infers ("slice", "f32[10,5]", PARSED ("{'starts': <[int64 2]>, 'ends': <[int64 5]>}"), "f32[3,5]");
  rlx_test_infers ("slice", "f32[10,5]", PARSED ("{'starts': <[int64 -3]>, 'ends': <[int64 9223372036854775807]>, 'axes': <[int64 -1]>}"), "f32[10,3]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 9]>, 'ends': <[int64 -9223372036854775808]>, 'steps': <[int64 -1]>}"), "f32[10]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 9]>, 'ends': <[int64 -9223372036854775808]>, 'steps': <[int64 -9223372036854775808]>}"), "f32[1]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 0]>, 'ends': <[int64 9223372036854775807]>, 'steps': <[int64 9223372036854775807]>}"), "f32[1]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 8]>, 'ends': <[int64 1]>, 'steps': <[int64 -3]>}"), "f32[3]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 100]>, 'ends': <[int64 -100]>, 'steps': <[int64 -4]>}"), "f32[3]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 -100]>, 'ends': <[int64 -9]>}"), "f32[1]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 5]>, 'ends': <[int64 5]>}"), "f32[0]");
  rlx_test_infers ("slice", "f32[10]", PARSED ("{'starts': <[int64 5]>, 'ends': <[int64 2]>}"), "f32[0]");
  rlx_test_infers ("slice", "f32[0]", PARSED ("{'starts': <[int64 -1]>, 'ends': <[int64 -5]>, 'steps': <[int64 -1]>}"), "f32[0]");
  rlx_test_infers ("slice", "f32[]", PARSED ("{'starts': <@ax []>, 'ends': <@ax []>}"), "f32[]");

  rlx_test_refuses ("slice", "f32[10]", PARSED ("{'starts': <[int64 0]>, 'ends': <[int64 5]>, 'steps': <[int64 0]>}"), INVALID, "step 0 is 0");
  rlx_test_refuses ("slice", "f32[10]", PARSED ("{'starts': <[int64 0, 1]>, 'ends': <[int64 5]>}"), INVALID, "2 starts and 1 ends");
  rlx_test_refuses ("slice", "f32[10,2]", PARSED ("{'starts': <[int64 0, 1]>, 'ends': <[int64 5, 1]>, 'axes': <[int64 1]>}"), INVALID, "1 axes");
  rlx_test_refuses ("slice", "f32[10,2]", PARSED ("{'starts': <[int64 0]>, 'ends': <[int64 5]>, 'steps': <[int64 1, 1]>}"), INVALID, "2 steps");
  rlx_test_refuses ("slice", "f32[10]", PARSED ("{'starts': <[int64 0, 0]>, 'ends': <[int64 5, 5]>}"), INVALID, "2 starts");
  rlx_test_refuses ("slice", "f32[]", PARSED ("{'starts': <[int64 0]>, 'ends': <[int64 5]>}"), INVALID, NULL);
  rlx_test_refuses ("slice", "f32[10,2]", PARSED ("{'starts': <[int64 0, 0]>, 'ends': <[int64 5, 5]>, 'axes': <[int64 1, -1]>}"), INVALID, NULL);
  rlx_test_refuses ("slice", "f32[10,2]", PARSED ("{'starts': <[int64 0]>, 'ends': <[int64 5]>, 'axes': <[int64 2]>}"), INVALID, "axis 2");
}

static void
test_rules_concat (void)
{
  rlx_test_infers ("concat", "f32[2,3] f32[2,5]", PARSED ("{'axis': <int64 -1>}"), "f32[2,8]");
  rlx_test_infers ("concat", "f32[2,3]", PARSED ("{'axis': <int64 0>}"), "f32[2,3]");
  rlx_test_infers ("concat", "f32[0,3] f32[2,3] f32[0,3]", PARSED ("{'axis': <int64 0>}"), "f32[2,3]");

  rlx_test_refuses ("concat", "", PARSED ("{'axis': <int64 0>}"), INVALID, NULL);
  rlx_test_refuses ("concat", "f32[2,3] i32[2,3]", PARSED ("{'axis': <int64 0>}"), DATA_TYPE, "input 1 is i32");
  rlx_test_refuses ("concat", "f32[2,3] f32[2]", PARSED ("{'axis': <int64 0>}"), SHAPE, "input 1");
  rlx_test_refuses ("concat", "f32[2,3] f32[2,3] f32[2,4]", PARSED ("{'axis': <int64 0>}"), SHAPE, "input 2");
  rlx_test_refuses ("concat", "f32[2,3] f32[2,3]", PARSED ("{'axis': <int64 2>}"), INVALID, "axis 2");
  rlx_test_refuses ("concat", "f32[] f32[]", PARSED ("{'axis': <int64 0>}"), INVALID, NULL);
  rlx_test_refuses ("concat", "u8[3000000000] u8[3000000000]", PARSED ("{'axis': <int64 0>}"), LIMIT, NULL);
}

static void
test_rules_expand (void)
{
  rlx_test_infers ("expand", "f32[3,1]", PARSED ("{'shape': <[int64 2, 3, 4]>}"), "f32[2,3,4]");
  rlx_test_infers ("expand", "f32[]", PARSED ("{'shape': <[int64 2]>}"), "f32[2]");
  rlx_test_infers ("expand", "f32[1]", PARSED ("{'shape': <[int64 0]>}"), "f32[0]");
  rlx_test_infers ("expand", "f32[]", PARSED ("{'shape': <@ax []>}"), "f32[]");

  rlx_test_refuses ("expand", "f32[3]", PARSED ("{'shape': <[int64 1]>}"), SHAPE, "f32[3]");
  rlx_test_refuses ("expand", "f32[3]", PARSED ("{'shape': <[int64 3, 4]>}"), SHAPE, "[3, 4]");
  rlx_test_refuses ("expand", "f32[1,3]", PARSED ("{'shape': <[int64 3]>}"), SHAPE, NULL);
  rlx_test_refuses ("expand", "f32[3]", PARSED ("{'shape': <[int64 -1]>}"), INVALID, "-1");
  rlx_test_refuses ("expand", "f32[1]", PARSED ("{'shape': <[int64 65536, 65536]>}"), LIMIT, NULL);
  rlx_test_refuses ("expand", "f32[1]", PARSED ("{'shape': <[int64 1,1,1,1,1,1,1,1,1]>}"), LIMIT, "9 dimensions");
}

static void
test_rules_gather (void)
{
  g_autoptr (RlxTensor) high = rlx_test_tensor ("i32[2,2]", (double[]) { 0, 4, 5, -5 });
  g_autoptr (RlxTensor) low = rlx_test_tensor ("i64[2]", (double[]) { -5, -6 });
  g_autoptr (RlxTensor) good = rlx_test_tensor ("u8[3]", (double[]) { 0, 4, 2 });
  g_autoptr (GError) error = NULL;
  g_autofree char *type = NULL;

  rlx_test_infers ("gather", "f32[5,6] i32[2,3]", PARSED ("{'axis': <int64 0>}"), "f32[2,3,6]");
  rlx_test_infers ("gather", "f32[5,6] u8[]", PARSED ("{'axis': <int64 -1>}"), "f32[5]");
  rlx_test_infers ("gather", "f32[0,6] i32[0]", PARSED ("{'axis': <int64 0>}"), "f32[0,6]");

  rlx_test_refuses ("gather", "f32[5,6] f32[2]", PARSED ("{'axis': <int64 0>}"), DATA_TYPE, NULL);
  rlx_test_refuses ("gather", "f32[5,6] bool[2]", PARSED ("{'axis': <int64 0>}"), DATA_TYPE, NULL);
  rlx_test_refuses ("gather", "f32[5,6] i32[2]", PARSED ("{'axis': <int64 2>}"), INVALID, "axis 2");
  rlx_test_refuses ("gather", "f32[] i32[2]", PARSED ("{'axis': <int64 0>}"), INVALID, NULL);
  rlx_test_refuses ("gather", "f32[0,6] i32[2]", PARSED ("{'axis': <int64 0>}"), SHAPE, "nothing to pick");
  rlx_test_refuses ("gather", "f32[2,2,2,2,2] i32[1,1,1,1,1]", PARSED ("{'axis': <int64 0>}"), LIMIT, "9 dimensions");
  rlx_test_refuses ("gather", "f32[2]", PARSED ("{'axis': <int64 0>}"), INVALID, NULL);

  g_assert_null (rlx_test_infer ("gather", "f32[5] i32[2,2]", (RlxTensor *[]) { NULL, high }, PARSED ("{'axis': <int64 0>}"), &error));
  g_assert_error (error, RLX_GRAPH_ERROR, SHAPE);
  g_assert_nonnull (strstr (error->message, "index 5 at position 2"));
  g_assert_nonnull (strstr (error->message, "size is 5"));
  g_clear_error (&error);

  g_assert_null (rlx_test_infer ("gather", "f32[5] i64[2]", (RlxTensor *[]) { NULL, low }, PARSED ("{'axis': <int64 0>}"), &error));
  g_assert_error (error, RLX_GRAPH_ERROR, SHAPE);
  g_assert_nonnull (strstr (error->message, "index -6 at position 1"));
  g_clear_error (&error);

  type = rlx_test_infer ("gather", "f32[5] u8[3]", (RlxTensor *[]) { NULL, good }, PARSED ("{'axis': <int64 0>}"), &error);
  g_assert_no_error (error);
  g_assert_cmpstr (type, ==, "f32[3]");
}

/* ---- values --------------------------------------------------------------------- */

static void
test_reshape (void)
{
  static const Shape from = { 3, { 2, 3, 4 } }, to = { 2, { 4, 6 } }, none = { 2, { 0, 3 } }, none_to = { 1, { 0 } };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (all_types); i++)
    {
      g_autoptr (RlxTensor) x = make_tensor (all_types[i], &from, 1);
      g_autoptr (RlxTensor) y = rlx_test_run_op ("reshape", 1, &x, PARSED ("{'shape': <[int64 4, -1]>}"));
      g_autoptr (RlxTensor) z = rlx_test_run_op_full ("reshape", 1, &x, 1, PARSED ("{'shape': <[int64 4, -1]>}"));
      GBytes *bytes = rlx_tensor_get_bytes (x);

      check_bytes ("reshape", y, all_types[i], &to, g_bytes_get_data (bytes, NULL));
      check_bytes ("reshape of a constant", z, all_types[i], &to, g_bytes_get_data (bytes, NULL));
    }

  {
    g_autoptr (RlxTensor) x = make_tensor ("f32", &none, 1);
    g_autoptr (RlxTensor) y = rlx_test_run_op ("reshape", 1, &x, PARSED ("{'shape': <[int64 0]>}"));

    check_bytes ("reshape of nothing", y, "f32", &none_to, "");
  }
}

static void
check_transpose (const char   *data_type,
                 const Shape  *from,
                 const gint64 *permutation)
{
  g_autoptr (RlxTensor) x = make_tensor (data_type, from, 3);
  g_autoptr (RlxTensor) y = rlx_test_run_op ("transpose", 1, &x, attr_ints ("permutation", from->n_dims, permutation));
  g_autoptr (GString) what = g_string_new ("transpose");
  gint64 *indices[RLX_MAX_DIMS];
  gsize axes[RLX_MAX_DIMS] = { 0 };
  Shape to = { from->n_dims, { 0 } };

  for (gsize d = 0; d < from->n_dims; d++)
    {
      axes[d] = (gsize) (permutation[d] < 0 ? permutation[d] + (gint64) from->n_dims : permutation[d]);
      to.shape[d] = from->shape[axes[d]];
      indices[d] = range (to.shape[d]);
      g_string_append_printf (what, " %" G_GINT64_FORMAT, permutation[d]);
    }
  check_view (what->str, y, x, data_type, &to, axes, indices);
  clear_indices (indices, from->n_dims);
}

static void
test_transpose (void)
{
  static const Shape four = { 4, { 3, 5, 2, 7 } };
  static const Shape eight = { 8, { 2, 3, 1, 2, 3, 2, 1, 5 } };
  static const Shape zero = { 3, { 2, 0, 3 } };
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);

  if (rlx_test_device () == NULL)
    return;

  for (int i = 0; i < 256; i++)
    {
      const gint64 permutation[] = { i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6 };

      if ((1 << permutation[0] | 1 << permutation[1] | 1 << permutation[2] | 1 << permutation[3]) != 15)
        continue;
      check_transpose (i % 3 == 0 ? "f32" : i % 3 == 1 ? "u8" : "f16", &four, permutation);
    }

  for (gsize i = 0; i < G_N_ELEMENTS (all_types); i++)
    check_transpose (all_types[i], &four, (gint64[]) { -1, 0, 2, 1 });

  for (int i = 0; i < 12; i++)
    {
      gint64 permutation[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

      for (int j = 7; j > 0; j--)
        {
          int k = g_rand_int_range (rand, 0, j + 1);
          gint64 swap = permutation[j];

          permutation[j] = permutation[k];
          permutation[k] = swap;
        }
      check_transpose (i % 2 ? "i8" : "i32", &eight, permutation);
    }

  check_transpose ("f32", &zero, (gint64[]) { 2, 0, 1 });
}

/* Whole tiles of 32 by 32 elements, and the remainder; rows of the result that are a
 * whole number of words for some types only. */
static void
test_turn (void)
{
  static const struct
  {
    Shape from;
    gint64 permutation[5];
  } cases[] = {
    { { 2, { 64, 32 } }, { 1, 0 } },
    { { 2, { 70, 33 } }, { 1, 0 } },
    { { 2, { 8, 100 } }, { 1, 0 } },
    { { 2, { 40, 9 } }, { 1, 0 } },
    { { 3, { 3, 40, 34 } }, { 0, 2, 1 } },
    { { 3, { 36, 5, 41 } }, { 2, 1, 0 } },
    { { 3, { 16, 2, 48 } }, { 1, 2, 0 } },
    { { 5, { 2, 24, 3, 2, 10 } }, { 3, 0, 4, 2, 1 } },
  };

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (all_types); j++)
      check_transpose (all_types[j], &cases[i].from, cases[i].permutation);
}

/* As in Python's slice(), but with a start that is clamped to the axis for either sign of
 * the step, one index after the other. */
static gint64 *
slice_indices (gint64  start,
               gint64  end,
               gint64  step,
               gint64  size,
               gint64 *n)
{
  gint64 *out = g_new (gint64, MAX (size, 1));

  *n = 0;
  if (size == 0)
    return out;
  if (start < 0)
    start += size;
  if (end < 0)
    end += size;
  if (start < 0)
    start = 0;
  if (start > size - 1)
    {
      if (step > 0)
        return out;
      start = size - 1;
    }
  while (start >= 0 && start < size && (step > 0 ? start < end : start > end))
    {
      out[(*n)++] = start;
      if (step > size || step < -size)
        break;
      start += step;
    }

  return out;
}

static void
test_slice (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  if (rlx_test_device () == NULL)
    return;

  for (int round = 0; round < 120; round++)
    {
      static const gint64 extremes[] = { G_MININT64, G_MININT64 + 1, G_MAXINT64, G_MAXINT64 - 1, G_MININT32, G_MAXINT32, 0, -1 };
      const char *data_type = all_types[round % G_N_ELEMENTS (all_types)];
      Shape from = { g_rand_int_range (rand, 1, 6), { 0 } }, to;
      gint64 starts[RLX_MAX_DIMS], ends[RLX_MAX_DIMS], steps[RLX_MAX_DIMS], names[RLX_MAX_DIMS];
      gint64 *indices[RLX_MAX_DIMS];
      gsize axes[RLX_MAX_DIMS] = { 0 };
      g_autoptr (RlxTensor) x = NULL, y = NULL;
      g_autoptr (GString) what = g_string_new ("slice");
      GVariantDict dict;

      for (gsize d = 0; d < from.n_dims; d++)
        from.shape[d] = g_rand_int_range (rand, round % 10 == 0 ? 0 : 1, 9);
      to = from;
      for (gsize i = 0; i < from.n_dims; i++)
        {
          /* all axes, the last first */
          gsize axis = from.n_dims - 1 - i;
          int size = (int) from.shape[axis];

          names[i] = i % 2 ? (gint64) axis : (gint64) axis - (gint64) from.n_dims;
          steps[i] = g_rand_boolean (rand) ? 1 : g_rand_int_range (rand, 1, 4);
          if (g_rand_boolean (rand))
            steps[i] = -steps[i];
          starts[i] = steps[i] > 0 ? g_rand_int_range (rand, -size - 1, size / 2 + 1) : g_rand_int_range (rand, size / 2, size + 2);
          ends[i] = steps[i] > 0 ? g_rand_int_range (rand, size / 2, size + 2) : g_rand_int_range (rand, -size - 2, size / 2 + 1);
          if (g_rand_int_range (rand, 0, 8) == 0)
            ends[i] = extremes[g_rand_int_range (rand, 0, G_N_ELEMENTS (extremes))];
          if (g_rand_int_range (rand, 0, 8) == 0)
            starts[i] = extremes[g_rand_int_range (rand, 0, G_N_ELEMENTS (extremes))];
          if (g_rand_int_range (rand, 0, 12) == 0)
            steps[i] = extremes[g_rand_int_range (rand, 0, 6)];
          g_string_append_printf (what, " %" G_GINT64_FORMAT ":%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT, starts[i], ends[i], steps[i]);
          axes[axis] = axis;
          indices[axis] = slice_indices (starts[i], ends[i], steps[i], from.shape[axis], &to.shape[axis]);
        }

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert_value (&dict, "starts", rlx_test_ints (from.n_dims, starts));
      g_variant_dict_insert_value (&dict, "ends", rlx_test_ints (from.n_dims, ends));
      g_variant_dict_insert_value (&dict, "steps", rlx_test_ints (from.n_dims, steps));
      g_variant_dict_insert_value (&dict, "axes", rlx_test_ints (from.n_dims, names));
      x = make_tensor (data_type, &from, round);
      y = rlx_test_run_op ("slice", 1, &x, g_variant_dict_end (&dict));
      check_view (what->str, y, x, data_type, &to, axes, indices);
      clear_indices (indices, from.n_dims);
    }
}

static void
test_expand (void)
{
  static const struct { Shape from, to; } cases[] = {
    { { 0, { 0 } }, { 0, { 0 } } },
    { { 0, { 0 } }, { 2, { 3, 5 } } },
    { { 1, { 5 } }, { 2, { 3, 5 } } },
    { { 2, { 3, 1 } }, { 2, { 3, 5 } } },
    { { 3, { 3, 1, 5 } }, { 4, { 2, 3, 7, 5 } } },
    { { 3, { 1, 4, 1 } }, { 3, { 6, 4, 9 } } },
    { { 2, { 1, 1 } }, { 2, { 0, 3 } } },
    { { 4, { 1, 2, 1, 3 } }, { 8, { 2, 1, 2, 1, 2, 2, 3, 3 } } },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *data_type = all_types[i % G_N_ELEMENTS (all_types)];
      const Shape *from = &cases[i].from, *to = &cases[i].to;
      g_autoptr (RlxTensor) x = make_tensor (data_type, from, 17);
      g_autoptr (RlxTensor) y = rlx_test_run_op ("expand", 1, &x, attr_ints ("shape", to->n_dims, to->shape));
      gint64 *indices[RLX_MAX_DIMS];
      gsize axes[RLX_MAX_DIMS] = { 0 };
      gsize missing = to->n_dims - from->n_dims;

      for (gsize d = 0; d < to->n_dims; d++)
        {
          axes[d] = d < missing || from->shape[d - missing] == 1 ? G_MAXSIZE : d - missing;
          indices[d] = range (to->shape[d]);
        }
      check_view ("expand", y, x, data_type, to, axes, indices);
      clear_indices (indices, to->n_dims);
    }
}

static void
check_concat (const char *data_type,
              gsize       n_inputs,
              gsize       n_dims,
              gint64      axis,
              GRand      *rand)
{
  g_autofree RlxTensor **inputs = g_new0 (RlxTensor *, n_inputs);
  g_autoptr (RlxTensor) y = NULL;
  g_autofree guint8 *expected = NULL;
  g_autofree char *what = g_strdup_printf ("concat of %" G_GSIZE_FORMAT " along %" G_GINT64_FORMAT, n_inputs, axis);
  gsize real = (gsize) (axis < 0 ? axis + (gint64) n_dims : axis);
  gsize size = 0, outer = 1, inner = 1, at = 0;
  Shape to = { n_dims, { 0 } };

  for (gsize d = 0; d < n_dims; d++)
    {
      to.shape[d] = g_rand_int_range (rand, 1, 6);
      if (d < real)
        outer *= to.shape[d];
      else if (d > real)
        inner *= to.shape[d];
    }
  to.shape[real] = 0;
  for (gsize i = 0; i < n_inputs; i++)
    {
      Shape from = to;

      from.shape[real] = g_rand_int_range (rand, 0, 5);
      inputs[i] = make_tensor (data_type, &from, 100 + i);
    }
  for (gsize i = 0; i < n_inputs; i++)
    to.shape[real] += rlx_tensor_get_shape (inputs[i], NULL)[real];

  size = rlx_data_type_get_size (rlx_tensor_get_data_type (inputs[0]));
  expected = g_malloc (MAX (count (&to) * size, 1));
  for (gsize o = 0; o < outer; o++)
    for (gsize i = 0; i < n_inputs; i++)
      {
        GBytes *bytes = rlx_tensor_get_bytes (inputs[i]);
        gsize run = rlx_tensor_get_shape (inputs[i], NULL)[real] * inner * size;

        if (run > 0)
          memcpy (expected + at, (const guint8 *) g_bytes_get_data (bytes, NULL) + o * run, run);
        at += run;
      }

  y = rlx_test_run_op ("concat", n_inputs, inputs, attr_int ("axis", axis));
  check_bytes (what, y, data_type, &to, expected);
  for (gsize i = 0; i < n_inputs; i++)
    g_object_unref (inputs[i]);
}

static void
test_concat (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (23);

  if (rlx_test_device () == NULL)
    return;

  for (int round = 0; round < 36; round++)
    {
      gsize n_dims = g_rand_int_range (rand, 1, 5);

      check_concat (all_types[round % G_N_ELEMENTS (all_types)], g_rand_int_range (rand, 1, 6), n_dims,
                    g_rand_int_range (rand, -(int) n_dims, (int) n_dims), rand);
    }
  check_concat ("f32", 100, 2, 1, rand);
  check_concat ("u8", 100, 3, 2, rand);
}

static void
check_gather (const char  *data_type,
              const char  *index_type,
              const Shape *from,
              gint64       axis,
              const Shape *at,
              gboolean     in_range,
              guint32      seed)
{
  gint64 size = from->shape[axis < 0 ? axis + (gint64) from->n_dims : axis];
  gsize real = (gsize) (axis < 0 ? axis + (gint64) from->n_dims : axis);
  gboolean has_sign = index_type[0] == 'i';
  gint64 reach = in_range ? 0 : 3;
  g_autofree char *type = make_type (index_type, at);
  g_autoptr (RlxTensor) x = make_tensor (data_type, from, seed);
  g_autoptr (RlxTensor) indices = rlx_test_random (type, has_sign ? -size - reach : 0, size - 1 + reach, seed + 1);
  g_autoptr (RlxTensor) y = NULL;
  GBytes *bytes = rlx_tensor_get_bytes (x);
  g_autofree gint64 *picks = NULL;
  g_autofree guint8 *expected = NULL;
  g_autofree char *what = g_strdup_printf ("gather %s by %s along %" G_GINT64_FORMAT, data_type, type, axis);
  gsize n_picks, outer = 1, inner = 1, width, to_rank = 0;
  Shape to = { 0, { 0 } };

  picks = rlx_tensor_to_ints (indices, &n_picks, NULL);
  for (gsize d = 0; d < real; d++)
    {
      to.shape[to_rank++] = from->shape[d];
      outer *= from->shape[d];
    }
  for (gsize d = 0; d < at->n_dims; d++)
    to.shape[to_rank++] = at->shape[d];
  for (gsize d = real + 1; d < from->n_dims; d++)
    {
      to.shape[to_rank++] = from->shape[d];
      inner *= from->shape[d];
    }
  to.n_dims = to_rank;

  width = inner * rlx_data_type_get_size (rlx_tensor_get_data_type (x));
  expected = g_malloc (MAX (outer * n_picks * width, 1));
  for (gsize o = 0; o < outer; o++)
    for (gsize i = 0; i < n_picks; i++)
      {
        gint64 pick = picks[i] < 0 ? picks[i] + size : picks[i];

        pick = CLAMP (pick, 0, size - 1);
        memcpy (expected + (o * n_picks + i) * width, (const guint8 *) g_bytes_get_data (bytes, NULL) + (o * size + pick) * width, width);
      }

  y = rlx_test_run_op_full ("gather", 2, (RlxTensor *[]) { x, indices }, in_range ? 2 : 0, attr_int ("axis", axis));
  check_bytes (what, y, data_type, &to, expected);
}

static void
test_gather (void)
{
  static const Shape table = { 3, { 5, 7, 6 } };
  static const Shape lists[] = { { 0, { 0 } }, { 1, { 9 } }, { 2, { 3, 4 } }, { 3, { 2, 1, 5 } }, { 1, { 0 } } };
  static const Shape wide = { 2, { 30, 97 } }, row = { 1, { 33 } }, line = { 1, { 50 } };
  static const char *const index_types[] = { "i32", "u32", "i8", "u8", "i64", "u64" };
  int n = 0;

  if (rlx_test_device () == NULL)
    return;

  for (gint64 axis = -3; axis < 3; axis++)
    for (gsize i = 0; i < G_N_ELEMENTS (lists); i++, n++)
      check_gather (all_types[n % G_N_ELEMENTS (all_types)], index_types[n % G_N_ELEMENTS (index_types)],
                    &table, axis, &lists[i], n % 2, n);
  for (gsize i = 0; i < G_N_ELEMENTS (index_types); i++)
    {
      check_gather ("f32", index_types[i], &wide, 0, &row, FALSE, 40);
      check_gather ("u8", index_types[i], &line, 0, &row, FALSE, 41);
      check_gather ("f16", index_types[i], &wide, 1, &row, TRUE, 42);
    }

  {
    /* As far outside as possible. */
    static const Shape to = { 1, { 6 } };
    g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[3]", (double[]) { 1, 2, 3 });
    g_autoptr (RlxTensor) indices = rlx_test_tensor ("i32[6]", (double[]) { G_MININT32, G_MAXINT32, -1, -3, -4, 3 });
    g_autoptr (RlxTensor) large = rlx_test_tensor ("u32[6]", (double[]) { G_MAXUINT32, 2147483648.0, 0, 1, 2, 3 });
    g_autoptr (RlxTensor) y = rlx_test_run_op ("gather", 2, (RlxTensor *[]) { x, indices }, attr_int ("axis", 0));
    g_autoptr (RlxTensor) z = rlx_test_run_op ("gather", 2, (RlxTensor *[]) { x, large }, attr_int ("axis", 0));

    check_bytes ("gather far out", y, "f32", &to, (float[]) { 1, 3, 3, 1, 1, 3 });
    check_bytes ("gather far out, unsigned", z, "f32", &to, (float[]) { 3, 3, 1, 2, 3, 3 });
  }
}

/* Views of views, and views whose result has several users. */
static void
test_chain (void)
{
  static const Shape from = { 3, { 4, 6, 10 } }, to = { 2, { 30, 4 } };
  g_autoptr (RlxTensor) x = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autofree float *values = NULL;
  float expected[30 * 4];
  RlxNode *node;
  gsize n_outputs, n;

  if (rlx_test_device () == NULL)
    return;

  x = make_tensor ("f32", &from, 9);
  values = rlx_tensor_to_floats (x, &n, NULL);
  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, from.shape, from.n_dims, &error);
  g_assert_no_error (error);
  {
    static const struct { const char *op, *attributes; } steps[] = {
      { "slice", "{'starts': <[int64 -1]>, 'ends': <[int64 -100]>, 'steps': <[int64 -2]>, 'axes': <[int64 2]>}" },
      { "transpose", "{'permutation': <[int64 2, 1, 0]>}" },
      { "reshape", "{'shape': <[int64 30, 4]>}" },
    };

    for (gsize i = 0; i < G_N_ELEMENTS (steps); i++)
      {
        g_autoptr (GVariant) attributes = g_variant_ref_sink (g_variant_new_parsed (steps[i].attributes));
        g_autofree RlxNode **results = rlx_graph_add_op (graph, steps[i].op, &node, 1, attributes, &n, &error);

        g_assert_no_error (error);
        node = results[0];
        rlx_graph_output (graph, steps[i].op, node, NULL);
      }
  }

  for (int k = 0; k < 5; k++)
    for (int j = 0; j < 6; j++)
      for (int i = 0; i < 4; i++)
        expected[(k * 6 + j) * 4 + i] = values[(i * 6 + j) * 10 + 9 - 2 * k];

  outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n_outputs);
  if (outputs == NULL)
    return;
  g_assert_cmpuint (n_outputs, ==, 3);
  check_bytes ("slice, transpose, reshape", outputs[2], "f32", &to, expected);
  for (gsize i = 0; i < n_outputs; i++)
    g_object_unref (outputs[i]);
}

static void
test_large (void)
{
  /* With small binding limits a tensor needs several bindings, of which there are few. */
  gboolean small = rlx_test_has_small_bindings ();
  const Shape matrix = { 2, { small ? 700 : 2500, small ? 1000 : 2001 } };
  const Shape bytes = { 2, { small ? 1900 : 2500, 2001 } };
  const Shape rows = { 1, { small ? 10000 : 70000 } };
  const Shape table = { 2, { 300, 70 } };
  const Shape batch = { 3, { 3, 400, 500 } };
  const Shape apart = { 4, { 50, 7, 33, 40 } };

  if (rlx_test_device () == NULL)
    return;

  check_transpose ("f32", &matrix, (gint64[]) { 1, 0 });
  check_transpose ("u8", &bytes, (gint64[]) { 1, 0 });
  check_transpose ("f16", &matrix, (gint64[]) { 1, 0 });
  check_transpose ("f32", &batch, (gint64[]) { 0, 2, 1 });
  check_transpose ("i32", &batch, (gint64[]) { 2, 0, 1 });
  check_transpose ("u32", &apart, (gint64[]) { 3, 1, 2, 0 });
  check_gather ("f32", "i32", &table, 0, &rows, TRUE, 77);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/shape/rules/reshape", test_rules_reshape);
  g_test_add_func ("/shape/rules/transpose", test_rules_transpose);
  g_test_add_func ("/shape/rules/slice", test_rules_slice);
  g_test_add_func ("/shape/rules/concat", test_rules_concat);
  g_test_add_func ("/shape/rules/expand", test_rules_expand);
  g_test_add_func ("/shape/rules/gather", test_rules_gather);
  g_test_add_func ("/shape/reshape", test_reshape);
  g_test_add_func ("/shape/transpose", test_transpose);
  g_test_add_func ("/shape/turn", test_turn);
  g_test_add_func ("/shape/slice", test_slice);
  g_test_add_func ("/shape/expand", test_expand);
  g_test_add_func ("/shape/concat", test_concat);
  g_test_add_func ("/shape/gather", test_gather);
  g_test_add_func ("/shape/chain", test_chain);
  g_test_add_func ("/shape/large", test_large);

  return g_test_run ();
}
