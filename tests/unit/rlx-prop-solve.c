/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls with systems of equations.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Matrices that are far from singular: random ones with a larger diagonal, or with
 * @symmetric, symmetric positive definite ones. */
static void
add_matrices (Call         *call,
              const gint64 *stack,
              gsize         n_stack,
              gint64        n,
              gboolean      symmetric,
              gboolean      spoilt)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize count = prop_count (stack, n_stack);
  g_autofree double *values = g_new0 (double, count * (gsize) (n * n) + 1);
  g_autofree char *type = NULL;

  memcpy (shape, stack, n_stack * sizeof (gint64));
  shape[n_stack] = shape[n_stack + 1] = n;
  for (gsize s = 0; s < count; s++)
    for (gint64 i = 0; i < n; i++)
      for (gint64 j = 0; j < n; j++)
        {
          double *a = &values[s * (gsize) (n * n)];

          a[i * n + j] = prop_float (call->rand, i == j ? PROP_TAME : PROP_ODD, FALSE);
          if (symmetric && j <= i)
            {
              a[i * n + j] /= 2;
              a[j * n + i] = a[i * n + j];
            }
          if (i == j)
            a[i * n + j] = symmetric ? (double) n + 1 : (a[i * n + j] < 0 ? -1 : 1) * (1 + fabs (a[i * n + j]));
        }
  /* One matrix of a stack may contain an infinity or NaN, which must not affect the others. */
  if (spoilt && count > 2 && n > 0)
    values[prop_pick (call->rand, 0, n * n - 1)] = ((double[]) { INFINITY, -INFINITY, NAN })[prop_pick (call->rand, 0, 2)];
  type = prop_type_text (call->data_type, shape, n_stack + 2);
  call->inputs[call->n_inputs++] = rlx_test_tensor (type, values);
}

static const gint64 system_sizes[] = { 9, 1, 33, 16, 0, 8, 50, 2 };

/* Also returns the number of dimensions of the stack. */
static gsize
random_stack (Call   *call,
              gint64 *stack)
{
  gsize n = (gsize) prop_pick (call->rand, 0, 2);

  for (gsize i = 0; i < n; i++)
    stack[i] = prop_pick (call->rand, 1, 3);
  return n;
}

static gboolean
generate_matrices (Call *call)
{
  gint64 stack[RLX_MAX_DIMS];
  gsize n_stack;

  if (call->variant >= G_N_ELEMENTS (system_sizes))
    return FALSE;

  n_stack = random_stack (call, stack);
  if (g_str_equal (call->op->name, "cholesky"))
    {
      add_matrices (call, stack, n_stack, system_sizes[call->variant], TRUE, call->variant % 4 == 3);
      g_variant_dict_insert (call->attributes, "upper", "b", call->variant % 2 == 1);
    }
  else
    {
      add_matrices (call, stack, n_stack, system_sizes[call->variant], FALSE, call->variant % 4 == 3);
    }

  return TRUE;
}

static gboolean
generate_system (Call *call)
{
  gint64 stack[RLX_MAX_DIMS], own[RLX_MAX_DIMS], shape[RLX_MAX_DIMS];
  gint64 n, m = prop_size (call->rand, 40);
  gboolean left = TRUE;
  gsize n_stack, n_own, n_dims;

  if (call->variant >= G_N_ELEMENTS (system_sizes))
    return FALSE;

  n = system_sizes[call->variant];
  n_stack = random_stack (call, stack);
  n_own = random_part (call, stack, n_stack, own);
  n_dims = random_part (call, stack, n_stack, shape);
  if (g_str_equal (call->op->name, "triangular_solve"))
    {
      left = call->variant % 4 < 2;
      g_variant_dict_insert (call->attributes, "left", "b", left);
      g_variant_dict_insert (call->attributes, "upper", "b", call->variant % 2 == 1);
      g_variant_dict_insert (call->attributes, "transpose", "b", prop_chance (call->rand, 0.5));
      g_variant_dict_insert (call->attributes, "unit_diagonal", "b", n <= 9 && prop_chance (call->rand, 0.5));
    }

  add_matrices (call, own, n_own, n, FALSE, call->variant % 4 == 3);
  if (call->variant == 5)
    {
      add_input (call, PROP_TAME, call->data_type, &n, 1);
    }
  else
    {
      shape[n_dims] = left ? n : m;
      shape[n_dims + 1] = left ? m : n;
      add_input (call, PROP_TAME, call->data_type, shape, n_dims + 2);
    }

  return TRUE;
}

const PropRow prop_solve_rows[] = {
  { "cholesky", generate_matrices },
  { "triangular_solve", generate_system },
  { "solve", generate_system },
  { "inverse", generate_matrices },
  { "determinant", generate_matrices },
  { NULL, NULL },
};
