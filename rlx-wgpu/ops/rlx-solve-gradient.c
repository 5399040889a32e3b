/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of linear systems, in f32 whatever the operands are.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

static RlxIrValue *
wide (RlxBuilder *b,
      RlxIrValue *x)
{
  return rlx_build_as (b, x, RLX_DATA_TYPE_F32);
}

static RlxIrValue *
transposed (RlxBuilder *b,
            RlxIrValue *x)
{
  return x != NULL ? rlx_build_swapped (b, x, x->type.n_dims - 2, x->type.n_dims - 1) : NULL;
}

/* A one-dimensional right-hand side as a column or a row. */
static RlxIrValue *
as_matrix (RlxBuilder *b,
           RlxIrValue *x,
           gboolean    is_vector,
           gboolean    row)
{
  RlxTensorType type;

  if (x == NULL || !is_vector)
    return x;
  type = x->type;
  type.shape[type.n_dims++] = 1;
  if (row)
    {
      type.shape[type.n_dims - 1] = type.shape[type.n_dims - 2];
      type.shape[type.n_dims - 2] = 1;
    }
  return rlx_build_shaped (b, x, type.shape, type.n_dims);
}

/* @db is the gradient of the right-hand side, a matrix. */
static void
add_right (RlxGradient     *self,
           const RlxIrNode *node,
           RlxIrValue      *db,
           gboolean         is_vector,
           gboolean         row)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);

  if (db != NULL && is_vector)
    {
      RlxTensorType type = db->type;

      type.n_dims--;
      if (row)
        type.shape[type.n_dims - 1] = db->type.shape[type.n_dims];
      db = rlx_build_shaped (b, db, type.shape, type.n_dims);
    }
  rlx_gradient_add (self, node, 1, db);
}

void
rlx_triangular_solve_gradient (RlxGradient     *self,
                               const RlxIrNode *node)
{
  RlxTriangularSolveAttrs attrs = *rlx_triangular_solve_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gboolean is_vector = node->inputs[1]->type.n_dims == 1, row = !attrs.left;
  RlxIrValue *a = wide (b, node->inputs[0]);
  RlxIrValue *x = as_matrix (b, wide (b, &node->outputs[0]), is_vector, row);
  RlxIrValue *g = as_matrix (b, wide (b, rlx_gradient_get (self, node, 0)), is_vector, row);
  RlxIrValue *db, *da;

  /* op(A) X = B: dB = op(A)⁻ᵀ dX, d op(A) = -dB Xᵀ; from the right: d op(A) = -Xᵀ dB. */
  attrs.transpose = !attrs.transpose;
  db = rlx_build_triangular_solve (b, a, g, &attrs);
  if (rlx_gradient_wants (self, node, 0))
    {
      gboolean was_transposed = !attrs.transpose;

      da = attrs.left ? rlx_build_matmul (b, db, x, RLX_MATMUL_ATTRS (.transpose_b = TRUE))
                      : rlx_build_matmul (b, x, db, RLX_MATMUL_ATTRS (.transpose_a = TRUE));
      if (was_transposed)
        da = transposed (b, da);
      da = rlx_build_triangular (b, rlx_build_neg (b, da),
                                 RLX_TRIANGULAR_ATTRS (.upper = attrs.upper,
                                                       .diagonal = !attrs.unit_diagonal ? 0 : attrs.upper ? 1 : -1));
      rlx_gradient_add (self, node, 0, da);
    }
  add_right (self, node, db, is_vector, row);
}

void
rlx_solve_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gboolean is_vector = node->inputs[1]->type.n_dims == 1;
  RlxIrValue *a = wide (b, node->inputs[0]);
  RlxIrValue *x = as_matrix (b, wide (b, &node->outputs[0]), is_vector, FALSE);
  RlxIrValue *g = as_matrix (b, wide (b, rlx_gradient_get (self, node, 0)), is_vector, FALSE);
  RlxIrValue *db = rlx_build_solve (b, transposed (b, a), g);

  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0, rlx_build_neg (b, rlx_build_matmul (b, db, x, RLX_MATMUL_ATTRS (.transpose_b = TRUE))));
  add_right (self, node, db, is_vector, FALSE);
}

void
rlx_inverse_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = wide (b, &node->outputs[0]), *g = wide (b, rlx_gradient_get (self, node, 0));

  g = rlx_build_matmul (b, x, g, RLX_MATMUL_ATTRS (.transpose_a = TRUE));
  rlx_gradient_add (self, node, 0, rlx_build_neg (b, rlx_build_matmul (b, g, x, RLX_MATMUL_ATTRS (.transpose_b = TRUE))));
}

/* The gradient for a singular matrix is not finite. */
void
rlx_determinant_gradient (RlxGradient     *self,
                          const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_build_mul (b, wide (b, rlx_gradient_get (self, node, 0)), wide (b, &node->outputs[0]));
  RlxTensorType type;

  if (g == NULL)
    return;
  type = g->type;
  type.shape[type.n_dims] = type.shape[type.n_dims + 1] = 1;
  g = rlx_build_shaped (b, g, type.shape, type.n_dims + 2);
  rlx_gradient_add (self, node, 0, rlx_build_mul (b, g, transposed (b, rlx_build_inverse (b, wide (b, node->inputs[0])))));
}

/* With P the lower triangle of LᵀdL, its diagonal halved, and S = L⁻ᵀ P L⁻¹: dA = S + Sᵀ below the diagonal and S on it,
 * since nothing above it was read. */
void
rlx_cholesky_gradient (RlxGradient     *self,
                       const RlxIrNode *node)
{
  gboolean upper = rlx_cholesky_attrs (node)->upper;
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *l = wide (b, &node->outputs[0]), *g = wide (b, rlx_gradient_get (self, node, 0)), *p, *s, *strict;

  if (upper)
    {
      l = transposed (b, l);
      g = transposed (b, g);
    }
  g = rlx_build_triangular (b, g, RLX_TRIANGULAR_ATTRS (.upper = FALSE));
  p = rlx_build_matmul (b, l, g, RLX_MATMUL_ATTRS (.transpose_a = TRUE));
  strict = rlx_build_triangular (b, p, RLX_TRIANGULAR_ATTRS (.upper = FALSE, .diagonal = -1));
  p = rlx_build_triangular (b, p, RLX_TRIANGULAR_ATTRS (.upper = FALSE));
  p = rlx_build_mul (b, rlx_build_add (b, p, strict), rlx_build_number (b, g, 0.5));
  s = rlx_build_triangular_solve (b, l, p, RLX_TRIANGULAR_SOLVE_ATTRS (.transpose = TRUE));
  s = rlx_build_triangular_solve (b, l, s, RLX_TRIANGULAR_SOLVE_ATTRS (.left = FALSE));
  s = rlx_build_add (b, s, transposed (b, s));
  strict = rlx_build_triangular (b, s, RLX_TRIANGULAR_ATTRS (.upper = FALSE, .diagonal = -1));
  s = rlx_build_triangular (b, s, RLX_TRIANGULAR_ATTRS (.upper = FALSE));
  s = rlx_build_mul (b, rlx_build_add (b, s, strict), rlx_build_number (b, s, 0.5));
  rlx_gradient_add (self, node, 0, upper ? transposed (b, s) : s);
}
