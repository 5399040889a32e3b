/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Systems of linear equations: factorising matrices, and solving with the factors. Everything
 * is in f32: f16 is converted when operators are expanded.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"
#include "ops/rlx-index-private.h"
#include "ops/rlx-variant-private.h"

/* ---- rules --------------------------------------------------------------------- */

static gboolean
check_square (const RlxOpCall *call,
              GError         **error)
{
  const RlxTensorType *type = call->inputs[0];
  g_autofree char *text = rlx_type_to_string (type);

  if (type->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the first operand must have at least 2 dimensions; it is %s", text);
  if (type->shape[type->n_dims - 1] != type->shape[type->n_dims - 2])
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the last two dimensions of the first operand must be the same; it is %s", text);
  return TRUE;
}

/* @left: the unknowns are columns. */
static gboolean
infer_solution (RlxOpCall *call,
                gboolean   left,
                GError   **error)
{
  const RlxTensorType *a = call->inputs[0], *b = call->inputs[1];
  RlxTensorType stack_a = *a, stack_b = *b, type = { .data_type = a->data_type };
  gint64 n, have;

  if (!check_square (call, error))
    return FALSE;
  if (b->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the second operand is a scalar; it needs at least one dimension");

  n = a->shape[a->n_dims - 1];
  have = b->shape[b->n_dims == 1 || !left ? b->n_dims - 1 : b->n_dims - 2];
  if (have != n)
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the %s of %s and the size of the matrices of %s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                             left ? "rows" : "columns", text_b, text_a, have, n);
    }

  stack_a.n_dims -= 2;
  stack_b.n_dims -= MIN (b->n_dims, 2);
  if (!rlx_shape_broadcast (&stack_a, &stack_b, &type))
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the leading dimensions of %s and %s do not broadcast together", text_a, text_b);
    }
  for (guint i = b->n_dims - MIN (b->n_dims, 2); i < b->n_dims; i++)
    {
      if (type.n_dims == RLX_MAX_DIMS)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "the result has more than %d dimensions", RLX_MAX_DIMS);
      type.shape[type.n_dims++] = b->shape[i];
    }
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_cholesky_infer (RlxOpCall              *call,
                    const RlxCholeskyAttrs *attrs,
                    GError                **error)
{
  if (!check_square (call, error))
    return FALSE;
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_triangular_solve_infer (RlxOpCall                     *call,
                            const RlxTriangularSolveAttrs *attrs,
                            GError                       **error)
{
  return infer_solution (call, attrs->left, error);
}

gboolean
rlx_solve_infer (RlxOpCall *call,
                 GError   **error)
{
  return infer_solution (call, TRUE, error);
}

gboolean
rlx_inverse_infer (RlxOpCall *call,
                   GError   **error)
{
  if (!check_square (call, error))
    return FALSE;
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_determinant_infer (RlxOpCall *call,
                       GError   **error)
{
  RlxTensorType type = *call->inputs[0];

  if (!check_square (call, error))
    return FALSE;
  type.n_dims -= 2;
  rlx_call_add_output (call, &type);
  return TRUE;
}

RlxIrValue *
rlx_cholesky_expand (RlxBuilder        *b,
                     const RlxIrNode   *node,
                     RlxIrValue *const *inputs)
{
  return rlx_build_in_f32 (b, node, inputs);
}

RlxIrValue *
rlx_triangular_solve_expand (RlxBuilder        *b,
                             const RlxIrNode   *node,
                             RlxIrValue *const *inputs)
{
  return rlx_build_in_f32 (b, node, inputs);
}

RlxIrValue *
rlx_solve_expand (RlxBuilder        *b,
                  const RlxIrNode   *node,
                  RlxIrValue *const *inputs)
{
  return rlx_build_in_f32 (b, node, inputs);
}

RlxIrValue *
rlx_inverse_expand (RlxBuilder        *b,
                    const RlxIrNode   *node,
                    RlxIrValue *const *inputs)
{
  return rlx_build_in_f32 (b, node, inputs);
}

RlxIrValue *
rlx_determinant_expand (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs)
{
  return rlx_build_in_f32 (b, node, inputs);
}

/* ---- steps ---------------------------------------------------------------------- */

typedef struct _Problem Problem;

/* Matrices of @n rows. A workgroup factorises one of them, or solves for some columns. */
struct _Problem
{
  const char *what;
  guint64 n, n_groups;
  double operations, bytes;
  gboolean (*lower) (RlxLower        *lower,
                     const RlxIrNode *node,
                     const Problem   *self,
                     guint            workgroup_size,
                     GError         **error);
  gconstpointer data;       /* for lower() */
};

/* The product of all dimensions but the last two. */
static guint64
count_matrices (const RlxTensorType *type)
{
  guint64 n = 1;

  for (guint i = 0; i + 2 < type->n_dims; i++)
    n *= (guint64) type->shape[i];
  return n;
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%s, %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " rows", self->what, self->n_groups, self->n);
}

static double
solve_cost (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data)
{
  const Problem *self = data;

  return rlx_target_get_seconds (target, self->operations, self->bytes);
}

/* Only two sizes, because drivers take long to compile kernels with many barriers. */
static RlxFit
wide_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  if (target->limits.max_invocations < 256)
    return rlx_variant_cannot ("workgroups are smaller here", why);
  return ((const Problem *) data)->n > 128 ? RLX_FIT_WELL : rlx_variant_poorly ("matrices are small", why);
}

static RlxFit
narrow_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  return ((const Problem *) data)->n > 128 ? rlx_variant_poorly ("matrices are large", why) : RLX_FIT_WELL;
}

static gboolean
solve_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;

  return self->lower (lower, node, self, GPOINTER_TO_UINT (variant->data), error);
}

static const RlxVariant variants[] = {
  { "workgroup-256", wide_fits, solve_cost, NULL, solve_describe, GUINT_TO_POINTER (256) },
  { "workgroup-64", narrow_fits, solve_cost, NULL, solve_describe, GUINT_TO_POINTER (64) },
};

/* A Aᵀ is positive definite, whatever is in A. */
#define SAMPLE(rows) \
  "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[4, " #rows ", 256]") \
  "%1 = matmul(%0, %0) {transpose_b = true}\n%2 = cholesky(%1)\n" RLX_SAMPLE_OUTPUT (2)

static const RlxSample samples[] = {
  { SAMPLE (64), 15 },
  { SAMPLE (192), 15 },
  { NULL, 0 },
};

const RlxVariants rlx_solve_variants = {
  RLX_FAMILY_SOLVE, "solve", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

static gboolean
lower_cholesky (RlxLower        *lower,
                const RlxIrNode *node,
                const Problem   *self,
                guint            workgroup_size,
                GError         **error)
{
  gboolean upper = rlx_cholesky_attrs (node)->upper;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "cholesky");

  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "NB", 8);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "row", upper ? 1 : self->n);
  rlx_kernel_param_u32 (kernel, "column", upper ? self->n : 1);
  rlx_kernel_param_u32 (kernel, "groups", self->n_groups);
  rlx_kernel_set_cost (kernel, self->operations, self->bytes);
  return rlx_kernel_dispatch (kernel, self->n_groups, error);
}

gboolean
rlx_cholesky_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  guint64 n = type->shape[type->n_dims - 1];
  Problem problem = {
    .what = "cholesky",
    .n = n,
    .n_groups = count_matrices (type),
    .operations = (double) rlx_type_n_elements (type) * (double) n / 3.0,
    .bytes = 2.0 * (double) rlx_type_n_bytes (type),
    .lower = lower_cholesky,
  };

  return rlx_type_n_elements (type) == 0 || rlx_lower_choose (lower, node, &rlx_solve_variants, &problem, error);
}

/* The arguments of kernels/lu.wgsl: both factors of @x, and either the order of its rows or the
 * determinants. */
typedef struct
{
  const RlxIrValue *x;
  const RlxIrValue *factors;
  const RlxIrValue *order;
  const RlxIrValue *determinant;
} Factors;

static gboolean
lower_lu (RlxLower        *lower,
          const RlxIrNode *node,
          const Problem   *self,
          guint            workgroup_size,
          GError         **error)
{
  const Factors *factors = self->data;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "lu");

  rlx_kernel_input (kernel, "x", factors->x);
  rlx_kernel_output (kernel, "y", factors->factors);
  if (factors->determinant != NULL)
    rlx_kernel_output (kernel, "result", factors->determinant);
  else
    rlx_kernel_output (kernel, "order", factors->order);
  rlx_kernel_define (kernel, "DETERMINANT", factors->determinant != NULL);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_param_u32 (kernel, "half", workgroup_size / 2);
  rlx_kernel_define (kernel, "NB", 8);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "groups", self->n_groups);
  rlx_kernel_set_cost (kernel, self->operations, self->bytes);
  return rlx_kernel_dispatch (kernel, self->n_groups, error);
}

/* Factorises the operand. @determinant is nullable; without one, @factors has the order of the rows. */
static gboolean
make_factors (RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxIrValue *determinant,
              Factors          *factors,
              GError          **error)
{
  const RlxTensorType *type = &node->inputs[0]->type;
  guint64 n = type->shape[type->n_dims - 1];
  Problem problem = {
    .what = "factors",
    .n = n,
    .n_groups = count_matrices (type),
    .operations = (double) rlx_type_n_elements (type) * (double) n * 2.0 / 3.0,
    .bytes = 2.0 * (double) rlx_type_n_bytes (type),
    .lower = lower_lu,
    .data = factors,
  };
  const RlxTensorType order = {
    .data_type = RLX_DATA_TYPE_U32,
    .n_dims = 2,
    .shape = { (gint64) problem.n_groups, (gint64) n },
  };

  *factors = (Factors) {
    .x = node->inputs[0],
    .factors = rlx_lower_temporary (lower, type),
    .order = determinant == NULL ? rlx_lower_temporary (lower, &order) : NULL,
    .determinant = determinant,
  };
  return rlx_lower_choose (lower, node, &rlx_solve_variants, &problem, error);
}

/* The arguments of kernels/triangular-solve.wgsl: op(a) y = b, where b is the identity matrix if it is
 * NULL, and has its rows in @order unless that is NULL. */
typedef struct
{
  const RlxIrValue *a;
  const RlxIrValue *b;
  const RlxIrValue *order;
  const RlxIrValue *y;
  gboolean upper;
  gboolean transpose;
  gboolean unit;
  gboolean left;
  guint64 columns;           /* of the unknowns; their rows if they are on the left */
} System;

/* The number of right-hand sides per matrix. */
static guint64
count_columns (const RlxTensorType *b,
               gboolean             left)
{
  return b->n_dims == 1 ? 1 : (guint64) b->shape[b->n_dims - (left ? 1 : 2)];
}

/* Dimension @index of the stack, counted from the last. */
static guint64
stack_dim (const RlxTensorType *type,
           guint                index)
{
  return index + 2 < type->n_dims ? (guint64) type->shape[type->n_dims - 3 - index] : 1;
}

/* The matrices of the result in order, and the matrices of the operands that each of them needs. */
static void
describe_stack (RlxKernel           *kernel,
                const RlxTensorType *a,
                const RlxTensorType *b)
{
  guint64 shape[RLX_MAX_DIMS], strides[2][RLX_MAX_DIMS];
  guint64 step_a = 1, step_b = 1;
  guint n_dims = 0;

  for (guint i = 0; i + 2 < MAX (a->n_dims, b->n_dims); i++)
    {
      guint64 dim_a = stack_dim (a, i), dim_b = stack_dim (b, i), dim = MAX (dim_a, dim_b);
      guint64 stride_a = dim_a == 1 ? 0 : step_a, stride_b = dim_b == 1 ? 0 : step_b;

      step_a *= dim_a;
      step_b *= dim_b;
      if (dim == 1)
        continue;
      if (n_dims > 0 && stride_a == strides[0][n_dims - 1] * shape[n_dims - 1] && stride_b == strides[1][n_dims - 1] * shape[n_dims - 1])
        {
          shape[n_dims - 1] *= dim;
          continue;
        }
      shape[n_dims] = dim;
      strides[0][n_dims] = stride_a;
      strides[1][n_dims++] = stride_b;
    }

  /* Always two dimensions at least, so that few pipelines serve all: more are rare. */
  for (; n_dims < 2; n_dims++)
    {
      shape[n_dims] = 1;
      strides[0][n_dims] = strides[1][n_dims] = 0;
    }
  rlx_kernel_define (kernel, "BATCH_DIMS", n_dims);
  for (guint i = 0; i < n_dims; i++)
    {
      rlx_kernel_param_indexed (kernel, "batch", i, (gint64) shape[i]);
      rlx_kernel_param_indexed (kernel, "a_batch", i, (gint64) strides[0][i]);
      rlx_kernel_param_indexed (kernel, "b_batch", i, (gint64) strides[1][i]);
    }
}

/* Columns per workgroup. */
enum { CHUNK = 32 };

static gboolean
lower_triangular (RlxLower        *lower,
                  const RlxIrNode *node,
                  const Problem   *self,
                  guint            workgroup_size,
                  GError         **error)
{
  const System *system = self->data;
  const RlxTensorType *a = &system->a->type;
  guint64 n = self->n, columns = system->columns, chunk = MIN (columns, CHUNK);
  gint64 a_row = (gint64) n, a_column = 1, x_row, x_column, a_first = 0, x_first = 0;
  gboolean upper = system->upper != system->transpose;
  RlxKernel *kernel;

  x_row = system->left ? (gint64) columns : 1;
  x_column = system->left ? 1 : (gint64) n;

  /* X op(A) = B is op(A)ᵀ Xᵀ = Bᵀ. */
  if (!system->left)
    upper = !upper;
  if (system->transpose == system->left)
    {
      a_row = 1;
      a_column = (gint64) n;
    }
  if (upper)
    {
      a_first = (gint64) (n - 1) * (a_row + a_column);
      x_first = (gint64) (n - 1) * x_row;
      a_row = -a_row;
      a_column = -a_column;
      x_row = -x_row;
    }

  kernel = rlx_kernel_new (lower, node, "triangular-solve");
  rlx_kernel_input (kernel, "a", system->a);
  if (system->b != NULL)
    rlx_kernel_input (kernel, "b", system->b);
  if (system->order != NULL)
    rlx_kernel_input (kernel, "order", system->order);
  rlx_kernel_output (kernel, "y", system->y);
  rlx_kernel_define (kernel, "ORDER", system->order != NULL);
  rlx_kernel_define (kernel, "IDENTITY", system->b == NULL);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "NB", 16);
  rlx_kernel_define (kernel, "CHUNK", CHUNK);
  describe_stack (kernel, a, system->b != NULL ? &system->b->type : a);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "columns", columns);
  rlx_kernel_param_u32 (kernel, "chunk", chunk);
  rlx_kernel_param_u32 (kernel, "chunks", rlx_divide_up (columns, chunk));
  rlx_kernel_param_u32 (kernel, "groups", self->n_groups);
  rlx_kernel_param_u32 (kernel, "unit", system->unit);
  rlx_kernel_param_u32 (kernel, "a_first", (guint32) a_first);
  rlx_kernel_param_u32 (kernel, "a_row", (guint32) a_row);
  rlx_kernel_param_u32 (kernel, "a_column", (guint32) a_column);
  rlx_kernel_param_u32 (kernel, "x_first", (guint32) x_first);
  rlx_kernel_param_u32 (kernel, "x_row", (guint32) x_row);
  rlx_kernel_param_u32 (kernel, "x_column", (guint32) x_column);
  rlx_kernel_set_cost (kernel, self->operations, self->bytes);
  return rlx_kernel_dispatch (kernel, self->n_groups, error);
}

static gboolean
solve_triangular (RlxLower        *lower,
                  const RlxIrNode *node,
                  const System    *system,
                  GError         **error)
{
  const RlxTensorType *a = &system->a->type, *y = &system->y->type;
  guint64 n = a->shape[a->n_dims - 1], n_elements = rlx_type_n_elements (y);
  Problem problem = {
    .what = "triangular",
    .n = n,
    .n_groups = n_elements / (n * system->columns) * rlx_divide_up (system->columns, MIN (system->columns, CHUNK)),
    .operations = (double) n_elements * (double) n,
    .bytes = (double) rlx_type_n_bytes (a) + 2.0 * (double) rlx_type_n_bytes (y),
    .lower = lower_triangular,
    .data = system,
  };

  return rlx_lower_choose (lower, node, &rlx_solve_variants, &problem, error);
}

/* ---- lowerings -------------------------------------------------------------------- */

gboolean
rlx_triangular_solve_lower (RlxLower        *lower,
                            const RlxIrNode *node,
                            GError         **error)
{
  const RlxTriangularSolveAttrs *attrs = rlx_triangular_solve_attrs (node);
  const System system = {
    .a = node->inputs[0],
    .b = node->inputs[1],
    .y = &node->outputs[0],
    .upper = attrs->upper,
    .transpose = attrs->transpose,
    .unit = attrs->unit_diagonal,
    .left = attrs->left,
    .columns = count_columns (&node->inputs[1]->type, attrs->left),
  };

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;
  return solve_triangular (lower, node, &system, error);
}

/* P A = L U, then L Z = P B and U X = Z. */
static gboolean
lower_solution (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *b,
                GError          **error)
{
  const RlxIrValue *y = &node->outputs[0];
  RlxTensorType type = y->type;
  RlxIrValue *middle;
  Factors factors;
  System system = {
    .b = b,
    .unit = TRUE,
    .left = TRUE,
    .columns = count_columns (b != NULL ? &b->type : &y->type, TRUE),
  };

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;
  if (!make_factors (lower, node, NULL, &factors, error))
    return FALSE;

  /* a stack of matrices, even if the result is a stack of vectors */
  if (b != NULL && b->type.n_dims == 1)
    type.shape[type.n_dims++] = 1;
  middle = rlx_lower_temporary (lower, &type);
  system.a = factors.factors;
  system.order = factors.order;
  system.y = middle;
  if (!solve_triangular (lower, node, &system, error))
    return FALSE;

  system.b = middle;
  system.order = NULL;
  system.y = y;
  system.upper = TRUE;
  system.unit = FALSE;
  return solve_triangular (lower, node, &system, error);
}

gboolean
rlx_solve_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  return lower_solution (lower, node, node->inputs[1], error);
}

gboolean
rlx_inverse_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  return lower_solution (lower, node, NULL, error);
}

gboolean
rlx_determinant_lower (RlxLower        *lower,
                       const RlxIrNode *node,
                       GError         **error)
{
  Factors factors;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;
  return make_factors (lower, node, &node->outputs[0], &factors, error);
}
