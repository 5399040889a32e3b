/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of contractions.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Equations with special lowerings; then random ones. Letters are sizes. */
static const char *const einsum_equations[] = {
  "ij,jk->ik",
  "bij,bkj->bik",
  "...ij,...jk->...ik",
  "ii->i",
  "iij,jk",
  " i j , k -> k j i ",
  "ij->",
  "->",
  ",ij,->ji",
  "aij,bjk,ckl->abcil",
  "bshd,bthd->bhst",
  "i...,...i->...",
  "iii,i->i",
  "Ba,aB",
  "bhst,bthd->bshd",
};

/* The size of a dimension depends on its letter, so that it is the same everywhere. */
static gint64
letter_size (Call *call,
             char  letter)
{
  static const gint64 sizes[] = { 3, 5, 1, 8, 2, 7, 4 };

  if (call->variant % 5 == 4 && letter == 'j')
    return 0;
  return sizes[(letter + (int) call->variant) % (int) G_N_ELEMENTS (sizes)];
}

static void
add_term (Call       *call,
          const char *term,
          gsize       length)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n = 0;

  for (gsize i = 0; i < length; i++)
    {
      if (term[i] == '.')
        {
          gint64 stack[] = { 4, 3 };

          for (gsize j = prop_chance (call->rand, 0.3) ? 1 : 0; j < 2; j++)
            shape[n++] = prop_chance (call->rand, 0.3) ? 1 : stack[j];
          i += 2;
        }
      else if (term[i] != ' ')
        {
          /* Sometimes a dimension is broadcast, but not those of a diagonal. */
          gboolean stretched = prop_chance (call->rand, 0.1) && strchr (term, term[i]) == &term[i] &&
                               memchr (&term[i + 1], term[i], length - i - 1) == NULL;

          shape[n++] = stretched ? 1 : letter_size (call, term[i]);
        }
    }
  add_input (call, PROP_TAME, call->data_type, shape, n);
}

/* Some of the letters in any order. */
static void
append_letters (Call       *call,
                GString    *equation,
                const char *letters)
{
  gsize start = equation->len;

  for (const char *p = letters; *p != '\0'; p++)
    if (prop_chance (call->rand, 0.6))
      g_string_insert_c (equation, (gssize) prop_pick (call->rand, (gint64) start, (gint64) equation->len), *p);
}

static gboolean
generate_einsum (Call *call)
{
  g_autoptr (GString) equation = g_string_new (NULL);
  const char *p;

  if (call->variant > G_N_ELEMENTS (einsum_equations) + 6)
    return FALSE;

  if (call->variant < G_N_ELEMENTS (einsum_equations))
    {
      g_string_assign (equation, einsum_equations[call->variant]);
    }
  else
    {
      /* Two or three operands with labels in random order, some of which are kept. */
      gsize n_terms = (gsize) prop_pick (call->rand, 2, 3);

      append_letters (call, equation, "abcde");
      for (gsize i = 1; i < n_terms; i++)
        {
          g_string_append_c (equation, ',');
          append_letters (call, equation, "abcde");
        }
      if (prop_chance (call->rand, 0.7))
        {
          g_autofree char *used = g_strdup ("abcde");
          gsize n = 0;

          for (gsize j = 0; j < 5; j++)
            if (strchr (equation->str, "abcde"[j]) != NULL)
              used[n++] = "abcde"[j];
          used[n] = '\0';
          g_string_append (equation, "->");
          append_letters (call, equation, used);
        }
    }

  for (p = equation->str;; p++)
    {
      gsize length = strcspn (p, ",-");

      add_term (call, p, length);
      p += length;
      if (*p != ',')
        break;
    }
  g_variant_dict_insert (call->attributes, "equation", "s", equation->str);

  return TRUE;
}

static gboolean
generate_dot_general (Call *call)
{
  gsize n_batch = (gsize) prop_pick (call->rand, 0, 2), n_sum = (gsize) prop_pick (call->rand, 0, 2);
  gint64 shapes[2][RLX_MAX_DIMS], axes[2][2][RLX_MAX_DIMS];
  gsize n[2];

  if (call->variant > 9)
    return FALSE;

  for (gsize i = 0; i < 2; i++)
    {
      gboolean used[RLX_MAX_DIMS] = { FALSE, };

      n[i] = n_batch + n_sum + (gsize) prop_pick (call->rand, 0, 2);
      for (gsize j = 0; j < n[i]; j++)
        shapes[i][j] = prop_size (call->rand, 9);
      for (gsize j = 0; j < n_batch + n_sum; j++)
        {
          gsize axis;

          do
            axis = (gsize) prop_pick (call->rand, 0, (gint64) n[i] - 1);
          while (used[axis]);
          used[axis] = TRUE;
          if (j < n_batch)
            axes[i][0][j] = (gint64) axis - (prop_chance (call->rand, 0.3) ? (gint64) n[i] : 0);
          else
            axes[i][1][j - n_batch] = (gint64) axis;
          shapes[i][axis] = call->variant == 4 && j == n_batch ? 0 : 2 + (gint64) j;
        }
    }

  add_input (call, PROP_TAME, call->data_type, shapes[0], n[0]);
  add_input (call, PROP_TAME, call->data_type, shapes[1], n[1]);
  if (n_batch > 0)
    {
      set_ints (call, "lhs_batch", axes[0][0], n_batch);
      set_ints (call, "rhs_batch", axes[1][0], n_batch);
    }
  set_ints (call, "lhs_contracting", axes[0][1], n_sum);
  set_ints (call, "rhs_contracting", axes[1][1], n_sum);

  return TRUE;
}

static gboolean
generate_diagonal (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;
  gint64 axis1, axis2;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 2, 5);
  axis1 = random_axis (call, n_dims);
  do
    axis2 = random_axis (call, n_dims);
  while ((axis1 + (gint64) n_dims) % (gint64) n_dims == (axis2 + (gint64) n_dims) % (gint64) n_dims);
  add_input (call, PROP_WILD, call->data_type, shape, n_dims);
  if (call->variant % 2 == 1)
    g_variant_dict_insert (call->attributes, "offset", "x", prop_pick (call->rand, -4, 4));
  if (call->variant > 0)
    {
      g_variant_dict_insert (call->attributes, "axis1", "x", axis1);
      g_variant_dict_insert (call->attributes, "axis2", "x", axis2);
    }

  return TRUE;
}

static gboolean
generate_grouped_matmul (Call *call)
{
  static const struct
  {
    gint64 m, experts, k, n;
  } sizes[] = {
    { 75, 5, 33, 65 },
    { 1, 3, 40, 9 },
    { 4, 4, 17, 8 },
    { 15, 1, 20, 12 },
    { 9, 0, 5, 7 },
    { 9, 3, 0, 7 },
    { 0, 3, 4, 5 },
    { 8, 40, 30, 5 },
    { 40, 7, 5, 1 },
  };
  gint64 rows[RLX_MAX_DIMS], x[RLX_MAX_DIMS];
  gsize n_rows = 1;

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  rows[0] = x[0] = sizes[call->variant].m;
  if (call->variant % 2 == 1 && rows[0] > 1)
    {
      rows[n_rows] = x[n_rows] = rows[0] / 3;
      rows[0] = x[0] = 3;
      n_rows++;
    }
  x[n_rows] = sizes[call->variant].k;
  add_input (call, PROP_TAME, call->data_type, x, n_rows + 1);
  add_input (call, PROP_TAME, call->data_type,
             (gint64[]) { sizes[call->variant].experts, sizes[call->variant].k, sizes[call->variant].n }, 3);
  /* between -9 and 9: some are out of range */
  add_input (call, PROP_TAME, call->variant % 3 == 2 ? RLX_DATA_TYPE_U8 : call->variant % 3 == 1 ? RLX_DATA_TYPE_I64 : RLX_DATA_TYPE_I32,
             rows, n_rows);

  return TRUE;
}

static gboolean
generate_lora_matmul (Call *call)
{
  static const struct
  {
    gint64 k, n, n_dims;
  } sizes[] = { { 40, 30, 4 }, { 40, 30, 0 }, { 0, 30, 4 }, { 40, 0, 4 } };
  gint64 x[RLX_MAX_DIMS];
  gsize n_x = 0;

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  if (call->variant == 0)
    x[n_x++] = 2;
  x[n_x++] = 10;
  x[n_x++] = sizes[call->variant].k;
  add_input (call, PROP_TAME, call->data_type, x, n_x);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { sizes[call->variant].k, sizes[call->variant].n }, 2);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { sizes[call->variant].k, sizes[call->variant].n_dims }, 2);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { sizes[call->variant].n_dims, sizes[call->variant].n }, 2);
  if (call->variant % 2 == 0)
    g_variant_dict_insert (call->attributes, "scale", "d", 0.25);

  return TRUE;
}

const PropRow prop_contract_rows[] = {
  { "dot_general", generate_dot_general },
  { "einsum", generate_einsum },
  { "diagonal", generate_diagonal },
  { "grouped_matmul", generate_grouped_matmul },
  { "lora_matmul", generate_lora_matmul },
  { NULL, NULL },
};
