/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Distances between points, and nearest neighbours. Both are computed from differences, not
 * from products: small distances are exact, and equal points are equally far from any other.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-variant-private.h"

#include <math.h>
#include <string.h>

#define WORKGROUP_SIZE 64
#define MAX_NEIGHBOURS 256
/* Lists of up to this many neighbours are kept in registers. */
#define MAX_REGISTERS 24
/* The limit of products and sums in one dispatch: a step that takes seconds may be mistaken for a hang. */
#define MAX_WORK 1e10

static const RlxTensorType *
get_type (const RlxOpCall *call,
          guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

/* Checks that points and others match; @type becomes that of all distances. */
static gboolean
check_points (const RlxOpCall *call,
              RlxTensorType   *type,
              GError         **error)
{
  const RlxTensorType *x = call->inputs[0], *others = get_type (call, 1);
  g_autofree char *text = rlx_type_to_string (x), *others_text = others != NULL ? rlx_type_to_string (others) : NULL;
  gboolean fits;

  if (x->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is %s, points are [..., n, dimensions]", text);
  *type = *x;
  type->shape[x->n_dims - 1] = x->shape[x->n_dims - 2];
  if (others == NULL)
    return TRUE;

  fits = others->n_dims == x->n_dims && others->shape[x->n_dims - 1] == x->shape[x->n_dims - 1];
  for (guint i = 0; fits && i + 2 < x->n_dims; i++)
    fits = others->shape[i] == x->shape[i];
  if (!fits)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the points are %s and the others %s: only how many there are, in the dimension before the last, may differ",
                           text, others_text);
  type->shape[x->n_dims - 1] = others->shape[x->n_dims - 2];
  return TRUE;
}

/* ---- the kernels ------------------------------------------------------------------------ */

typedef struct
{
  const RlxIrValue *x, *others;   /* the same if there are no others */
  guint64 batch, n, m, width;
} Points;

static Points
get_points (const RlxIrNode *node)
{
  const RlxIrValue *x = node->inputs[0], *others = node->n_inputs > 1 && node->inputs[1] != NULL ? node->inputs[1] : x;
  guint n_dims = x->type.n_dims;
  Points points = {
    .x = x, .others = others, .batch = 1, .n = (guint64) x->type.shape[n_dims - 2], .m = (guint64) others->type.shape[n_dims - 2],
    .width = (guint64) x->type.shape[n_dims - 1],
  };

  for (guint i = 0; i + 2 < n_dims; i++)
    points.batch *= (guint64) x->type.shape[i];
  return points;
}

/* Adds what common/distances.wgsl needs, which both kernels include. */
static void
describe_points (RlxKernel       *kernel,
                 const RlxTarget *target,
                 const Points    *points,
                 RlxDistance      metric)
{
  gboolean vectors = points->width > 0 && points->width % 4 == 0;
  /* two indices below 2^28, or of vectors below 2^26, add up to less than 2^31 bytes */
  guint64 most = G_GUINT64_CONSTANT (1) << (vectors ? 26 : 28);
  guint64 n_loads = points->batch * MAX (points->n, points->m) * points->width / (vectors ? 4 : 1);

  if (vectors)
    {
      rlx_kernel_input_vector (kernel, "x", points->x, 4);
      if (points->others != points->x)
        rlx_kernel_input_vector (kernel, "others", points->others, 4);
    }
  else if (points->width > 0)
    {
      rlx_kernel_input (kernel, "x", points->x);
      if (points->others != points->x)
        rlx_kernel_input (kernel, "others", points->others);
    }
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "VECTORS", vectors);
  rlx_kernel_define (kernel, "SMALL", !target->loads_coalesce && n_loads <= most ? (gint64) most - 1 : G_MAXUINT32);
  rlx_kernel_define (kernel, "BATCHES", points->batch > 1);
  rlx_kernel_define (kernel, "ANY", points->width > 0);
  rlx_kernel_define (kernel, "ROOT", metric == RLX_DISTANCE_EUCLIDEAN);
  rlx_kernel_define (kernel, "DIFFERENCES", metric == RLX_DISTANCE_EUCLIDEAN || metric == RLX_DISTANCE_SQUARED);
  rlx_kernel_define (kernel, "COSINE", metric == RLX_DISTANCE_COSINE);
  rlx_kernel_define_text (kernel, "LOAD", vectors ? "load4" : "load");
  rlx_kernel_define_text (kernel, "TYPE", vectors ? "vec4f" : "f32");
  rlx_kernel_define_text (kernel, "OTHERS", points->others != points->x ? "others" : "x");
  rlx_kernel_param_u32 (kernel, "n", points->n);
  rlx_kernel_param_u32 (kernel, "m", points->m);
  /* in units that are loaded at once */
  rlx_kernel_param_u32 (kernel, "width", vectors ? points->width / 4 : points->width);
}

gboolean
rlx_pairwise_distance_infer (RlxOpCall                      *call,
                             const RlxPairwiseDistanceAttrs *attrs,
                             GError                        **error)
{
  RlxTensorType type;

  if (!check_points (call, &type, error))
    return FALSE;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_pairwise_distance_lower (RlxLower        *lower,
                             const RlxIrNode *node,
                             GError         **error)
{
  const Points points = get_points (node);
  guint64 blocks = rlx_divide_up (points.m, 8), items = points.batch * points.n * blocks;
  double work = (double) points.batch * (double) points.n * (double) points.m;
  RlxKernel *kernel;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "pairwise-distance");
  describe_points (kernel, rlx_lower_get_target (lower), &points, rlx_pairwise_distance_attrs (node)->metric);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_param_u32 (kernel, "items", items);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_set_cost (kernel, 3.0 * work * (double) MAX (points.width, 1), 4.0 * work);
  return rlx_kernel_dispatch (kernel, rlx_divide_up (items, WORKGROUP_SIZE), error);
}

/* ---- nearest neighbours ---------------------------------------------------------------------- */

/* Replaces the last dimension of @type, that of the others, and adds the results. */
static gboolean
infer_neighbours (RlxOpCall     *call,
                  RlxTensorType *type,
                  gint64         k,
                  gboolean       exclude_self,
                  GError       **error)
{
  gint64 m = type->shape[type->n_dims - 1], most = MIN (m - (exclude_self ? 1 : 0), MAX_NEIGHBOURS);
  RlxDataType data_type = type->data_type;

  if (k < 1 || k > most)
    return rlx_call_error (call, error, k > MAX_NEIGHBOURS ? RLX_GRAPH_ERROR_LIMIT : RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "k is %" G_GINT64_FORMAT "; it must be from 1 to %" G_GINT64_FORMAT
                           ": there are %" G_GINT64_FORMAT " points%s, and the limit is %d",
                           k, MAX (most, 0), m, exclude_self ? " with the one itself" : "", MAX_NEIGHBOURS);
  type->shape[type->n_dims - 1] = k;
  type->data_type = RLX_DATA_TYPE_I32;
  rlx_call_add_output (call, type);
  type->data_type = data_type;
  rlx_call_add_output (call, type);
  return TRUE;
}

gboolean
rlx_knn_infer (RlxOpCall         *call,
               const RlxKnnAttrs *attrs,
               GError           **error)
{
  RlxTensorType type;

  if (!check_points (call, &type, error))
    return FALSE;
  if (attrs->exclude_self && get_type (call, 1) != NULL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "exclude_self is set, but the neighbours are among others");
  return infer_neighbours (call, &type, attrs->k, attrs->exclude_self, error);
}

typedef struct
{
  Points points;
  const RlxKnnAttrs *attrs;
} Neighbours;

static char *
print_neighbours (gconstpointer data)
{
  const Neighbours *self = data;
  const Points *points = &self->points;

  return g_strdup_printf ("%" G_GINT64_FORMAT " of %" G_GUINT64_FORMAT " for %" G_GUINT64_FORMAT " points of %" G_GUINT64_FORMAT ", %s",
                          self->attrs->k, points->m, points->batch * points->n, points->width,
                          rlx_data_type_to_string (points->x->type.data_type));
}

/* Operations for the distances of each point. */
static double
get_operations (const Points *points)
{
  return 3.0 * (double) points->m * (double) MAX (points->width, 1);
}

static double
neighbours_cost (const RlxVariant *variant,
                 const RlxTarget  *target,
                 gconstpointer     data)
{
  const Points *points = &((const Neighbours *) data)->points;
  double items = (double) points->batch * (double) points->n;

  return rlx_target_get_seconds (target, get_operations (points) * items, 4.0 * items * (double) points->width);
}

static RlxFit
registers_fits (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data,
                const char      **why)
{
  return ((const Neighbours *) data)->attrs->k <= MAX_REGISTERS ? RLX_FIT_WELL : rlx_variant_cannot ("there are too many neighbours for registers", why);
}

static RlxFit
memory_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  return ((const Neighbours *) data)->attrs->k <= MAX_REGISTERS ? rlx_variant_poorly ("neighbours are few", why) : RLX_FIT_WELL;
}

static gboolean
neighbours_describe (const RlxVariant *variant,
                     RlxLower         *lower,
                     const RlxIrNode  *node,
                     gconstpointer     data,
                     GError          **error)
{
  const Neighbours *self = data;
  const Points *points = &self->points;
  gboolean registers = GPOINTER_TO_INT (variant->data);
  gboolean subgroups = registers && (rlx_lower_get_target (lower)->features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0;
  guint64 items = points->batch * points->n, k = (guint64) self->attrs->k, at_once;
  double each = get_operations (points);

  at_once = (guint64) CLAMP (MAX_WORK / each, WORKGROUP_SIZE * 16.0, 1e9) / WORKGROUP_SIZE * WORKGROUP_SIZE;
  for (guint64 first = 0; first < items; first += at_once)
    {
      guint64 count = MIN (at_once, items - first);
      RlxKernel *kernel = rlx_kernel_new (lower, node, "knn");

      describe_points (kernel, rlx_lower_get_target (lower), points, self->attrs->metric);
      rlx_kernel_output (kernel, "indices", &node->outputs[0]);
      rlx_kernel_output (kernel, "distances", &node->outputs[1]);
      rlx_kernel_define (kernel, "SUBGROUPS", subgroups);
      if (subgroups)
        rlx_kernel_enable (kernel, "enable subgroups;");
      rlx_kernel_define (kernel, "REGISTERS", registers);
      /* only a few lengths, to limit the number of kernels */
      rlx_kernel_define (kernel, "K", registers ? (gint64) rlx_divide_up (k, 8) * 8 : MAX_NEIGHBOURS);
      /* for eight sums, as many loads, and the list */
      rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), WORKGROUP_SIZE, 72 + (registers ? 2 * (guint) k : 0)));
      rlx_kernel_define (kernel, "BITS", 32);
      rlx_kernel_define (kernel, "KIND", 2);
      rlx_kernel_define (kernel, "EXCLUDE", self->attrs->exclude_self);
      rlx_kernel_param_u32 (kernel, "first", first);
      rlx_kernel_param_u32 (kernel, "end", first + count);
      rlx_kernel_param_u32 (kernel, "keep", k);
      rlx_kernel_set_cost (kernel, each * (double) count, 4.0 * (double) count * ((double) points->width + 2.0 * (double) k));
      if (!rlx_kernel_dispatch (kernel, rlx_divide_up (count, WORKGROUP_SIZE), error))
        return FALSE;
    }
  return TRUE;
}

static const RlxVariant variants[] = {
  { "registers", registers_fits, neighbours_cost, NULL, neighbours_describe, GINT_TO_POINTER (TRUE) },
  { "memory", memory_fits, neighbours_cost, NULL, neighbours_describe, GINT_TO_POINTER (FALSE) },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1024, 8]")
    "%1, %2 = knn(%0) {k = 8}\n" RLX_SAMPLE_OUTPUT (1) RLX_SAMPLE_OUTPUT (2), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_knn_variants = {
  RLX_FAMILY_KNN, "knn", variants, G_N_ELEMENTS (variants), print_neighbours, samples,
};

gboolean
rlx_knn_lower (RlxLower        *lower,
               const RlxIrNode *node,
               GError         **error)
{
  const Neighbours neighbours = { get_points (node), rlx_knn_attrs (node) };

  return neighbours.points.batch * neighbours.points.n == 0 ||
         rlx_lower_choose (lower, node, &rlx_knn_variants, &neighbours, error);
}

gboolean
rlx_knn_from_distances_infer (RlxOpCall                      *call,
                              const RlxKnnFromDistancesAttrs *attrs,
                              GError                        **error)
{
  RlxTensorType type = *call->inputs[0];

  if (type.n_dims < 2 || (attrs->exclude_self && type.shape[type.n_dims - 1] != type.shape[type.n_dims - 2]))
    {
      g_autofree char *text = rlx_type_to_string (&type);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is %s, distances are [..., n, %s]", text,
                             attrs->exclude_self ? "n], for leaving out the diagonal" : "m]");
    }
  return infer_neighbours (call, &type, attrs->k, attrs->exclude_self, error);
}

RlxIrValue *
rlx_knn_from_distances_expand (RlxBuilder        *b,
                               const RlxIrNode   *node,
                               RlxIrValue *const *inputs)
{
  const RlxKnnFromDistancesAttrs *attrs = rlx_knn_from_distances_attrs (node);
  RlxIrValue *x = inputs[0], *indices;
  RlxIrNode *nearest;

  if (attrs->exclude_self)
    {
      guint n_dims = x->type.n_dims;
      gint64 n = x->type.shape[n_dims - 1], shape[RLX_MAX_DIMS];

      /* From the second element on, every (n + 1)th is one of the diagonal. */
      memcpy (shape, x->type.shape, sizeof shape);
      shape[n_dims - 2] = n * n;
      x = rlx_build_shaped (b, x, shape, n_dims - 1);
      x = rlx_build_part (b, x, -1, 1, n * n);
      shape[n_dims - 2] = n - 1;
      shape[n_dims - 1] = n + 1;
      x = x != NULL ? rlx_build_shaped (b, x, shape, n_dims) : NULL;
      x = rlx_build_part (b, x, -1, 0, n);
      shape[n_dims - 2] = n;
      shape[n_dims - 1] = n - 1;
      x = x != NULL ? rlx_build_shaped (b, x, shape, n_dims) : NULL;
    }
  nearest = rlx_build_top_k (b, x, RLX_TOP_K_ATTRS (.k = attrs->k, .largest = FALSE));
  if (nearest == NULL)
    return NULL;
  indices = &nearest->outputs[1];
  if (attrs->exclude_self)
    {
      gint64 n = indices->type.shape[indices->type.n_dims - 2], column[] = { n, 1 };
      RlxIrValue *rows = rlx_build_iota (b, n);

      rows = rows != NULL ? rlx_build_shaped (b, rows, column, 2) : NULL;
      /* so far, indices are counted without the point itself */
      indices = rlx_build_where (b, rlx_build_greater_equal (b, indices, rows),
                                 rlx_build_add (b, indices, rlx_build_number (b, indices, 1)), indices);
    }
  b->results[0] = indices;
  b->results[1] = &nearest->outputs[0];
  return b->results[0];
}

/* ---- gradient ------------------------------------------------------------------------------- */

/* With the last two dimensions swapped. */
static RlxIrValue *
swap_last_two (RlxBuilder *b,
               RlxIrValue *x)
{
  return x != NULL ? rlx_build_swapped (b, x, x->type.n_dims - 2, x->type.n_dims - 1) : NULL;
}

/* The points divided by their norms; points at 0 stay there. */
static RlxIrValue *
normalise (RlxBuilder *b,
           RlxIrValue *x)
{
  RlxIrValue *square = rlx_build_mul (b, x, x), *is_zero;

  square = square != NULL ? rlx_build_sum_along (b, square, square->type.n_dims - 1) : NULL;
  if (square == NULL)
    return NULL;
  is_zero = rlx_build_equal (b, square, rlx_build_number (b, square, 0));
  return rlx_build_mul (b, x, rlx_build_rsqrt (b, rlx_build_where (b, is_zero, rlx_build_number (b, square, 1), square)));
}

void
rlx_pairwise_distance_gradient (RlxGradient     *self,
                                const RlxIrNode *node)
{
  RlxDistance metric = rlx_pairwise_distance_attrs (node)->metric;
  RlxBuilder *b = rlx_gradient_get_builder (self);
  guint other = node->n_inputs > 1 && node->inputs[1] != NULL ? 1 : 0;
  RlxIrValue *x = node->inputs[0], *others = node->inputs[other], *h;

  if (metric == RLX_DISTANCE_COSINE)
    {
      RlxIrValue *y = rlx_build_matmul (b, normalise (b, x), normalise (b, others), RLX_MATMUL_ATTRS (.transpose_b = TRUE));

      y = y != NULL ? rlx_build_sub (b, rlx_build_number (b, y, 1), y) : NULL;
      rlx_gradient_through (self, node, &y, 1);
      return;
    }

  h = rlx_gradient_get (self, node, 0);
  if (metric == RLX_DISTANCE_INNER_PRODUCT)
    {
      h = rlx_build_neg (b, h);
      if (rlx_gradient_wants (self, node, 0))
        rlx_gradient_add (self, node, 0, rlx_build_matmul (b, h, others, NULL));
      if (rlx_gradient_wants (self, node, other))
        rlx_gradient_add (self, node, other, rlx_build_matmul (b, h, x, RLX_MATMUL_ATTRS (.transpose_a = TRUE)));
      return;
    }

  if (metric == RLX_DISTANCE_SQUARED)
    h = rlx_build_mul (b, h, rlx_build_number (b, h, 2));
  else
    {
      /* 0 for equal points, where the gradient does not exist */
      RlxIrValue *y = &((RlxIrNode *) node)->outputs[0], *apart = rlx_build_greater (b, y, rlx_build_number (b, y, 0));

      h = rlx_build_where (b, apart, rlx_build_div (b, h, rlx_build_where (b, apart, y, rlx_build_number (b, y, 1))), rlx_build_number (b, y, 0));
    }
  if (h == NULL)
    return;
  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0, rlx_build_sub (b, rlx_build_mul (b, x, rlx_build_sum_along (b, h, h->type.n_dims - 1)),
                                                    rlx_build_matmul (b, h, others, NULL)));
  if (rlx_gradient_wants (self, node, other))
    {
      RlxIrValue *sums = swap_last_two (b, rlx_build_sum_along (b, h, h->type.n_dims - 2));

      rlx_gradient_add (self, node, other, rlx_build_sub (b, rlx_build_mul (b, others, sums),
                                                          rlx_build_matmul (b, h, x, RLX_MATMUL_ATTRS (.transpose_a = TRUE))));
    }
}
