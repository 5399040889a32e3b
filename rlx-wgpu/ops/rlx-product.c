/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The variants for the product of two matrices: the heads of kernels/matmul.wgsl,
 * kernels/matmul-shuffle.wgsl, kernels/matmul-tile.wgsl, kernels/matmul-registers.wgsl
 * and kernels/matmul-matrix.wgsl say what they are and why.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

#include "ops/rlx-variant-private.h"
#include "target/rlx-tuning-private.h"

void
rlx_product_loop_add (RlxProductLoop *loop,
                      guint64         dim,
                      guint64         stride0,
                      guint64         stride1)
{
  guint last = loop->n_dims - 1;

  if (dim == 1)
    return;

  if (loop->n_dims > 0 &&
      stride0 == loop->strides[0][last] * loop->shape[last] &&
      stride1 == loop->strides[1][last] * loop->shape[last])
    {
      loop->shape[last] *= dim;
      return;
    }

  loop->shape[loop->n_dims] = dim;
  loop->strides[0][loop->n_dims] = stride0;
  loop->strides[1][loop->n_dims] = stride1;
  loop->n_dims++;
}

static void
swap (guint64 *a,
      guint64 *b)
{
  guint64 c = *a;

  *a = *b;
  *b = c;
}

/* Whether a whole workgroup should share the sum of each output. Measured on a
 * CPU target, where eight lanes fill a core: only when there are fewer outputs
 * than lanes. A GPU wants thousands of lanes, and neighbouring ones at
 * neighbouring addresses. */
static gboolean
prefer_dot (const RlxProduct *product,
            guint64           n_outputs,
            const RlxTarget  *target)
{
  if (product->k >= 256 && n_outputs <= target->busy_invocations)
    return TRUE;
  return target->loads_coalesce && product->k >= 64 && n_outputs <= 1 << 20 &&
         MIN (product->m, product->n) <= 4 && product->a_k == 1 && product->b_k == 1;
}

/* Larger tiles save loads, but they take a CPU driver longer to compile than a small
 * product saves. */
static void
enlarge_tile (RlxProductKernel              *way,
              const RlxProduct *product,
              guint64           n_batch,
              double            n_products)
{
  guint64 m = product->m, n = product->n;
  gboolean half = product->b->type.data_type == RLX_DATA_TYPE_F16;

  if (m > 16 && rlx_divide_up (m, 32) * 2 == rlx_divide_up (m, 16) && n_products >= 1 << 24)
    way->tm = 32;
  /* A gather of half floats has two vectors of columns. */
  if (n >= 64 && way->tn == 4 &&
      ((way->tm == 32 && n_products >= 1 << 27) || (way->tm == 1 && half && n_products >= 1 << 21)) &&
      rlx_divide_up (m, way->tm) * rlx_divide_up (n, 64) * n_batch >= 16)
    way->tn = 8;
}

static void
choose_lanes (RlxProductKernel              *way,
              const RlxProduct *product,
              guint64           n_batch,
              guint64           wanted,
              const RlxTarget  *target)
{
  guint64 m = product->m, n = product->n;
  double n_products = (double) m * (double) n * (double) n_batch * (double) MAX (product->k, 1);

  way->slices = 1;
  if (m == 1)
    way->tm = 1;
  else if (m <= 4)
    way->tm = 4;
  /* Sixteen rows may take longer to compile than a small product saves. */
  else if (m <= 8 || target->loads_coalesce || n_products < 1 << 22)
    way->tm = 8;
  else
    way->tm = 16;

  if (!target->loads_coalesce)
    {
      way->tn = way->panel || n > 16 ? RLX_PRODUCT_PANEL / 8 : n > 8 ? 2 : 1;
      if (way->shuffle)
        enlarge_tile (way, product, n_batch, n_products);
      /* Wide rows: the more of one is read at once the better, unless it is
       * packed. */
      way->lanes = way->panel ? 8 : 64;
      while (way->lanes > 8 &&
             (way->lanes * MAX (way->tn, 4) > n ||
              rlx_divide_up (m, way->tm) * rlx_divide_up (n, way->lanes * MAX (way->tn, 4)) * n_batch < wanted))
        way->lanes /= 2;
    }
  else
    {
      way->lanes = way->panel ? RLX_PRODUCT_PANEL : 64;
      while (way->lanes > 32 && way->lanes / 2 >= n)
        way->lanes /= 2;
      way->tn = 1;
      way->slices = product->k >= 64 ? 4 : 1;
    }
  way->workgroup = way->lanes * way->slices;
  way->tiles_m = rlx_divide_up (m, way->tm);
  way->tiles_n = rlx_divide_up (n, way->lanes * way->tn);
}

typedef struct
{
  RlxProductVariant row;
  guint tx, ty, tm, tn, kt;
  guint registers;        /* that an invocation takes: sums, the operands of four steps, the vectors that
                           * come next, and addresses; the compiler for Intel's chips needs so many */
} Tile;

/* Of the kernel whose subgroups share rows. */
#define ROWS_WORKGROUP 256

static const Tile tiles[] = {
  { RLX_PRODUCT_TILES_128, 16, 16, 8, 8, 8, 130 },
  { RLX_PRODUCT_TILES_64, 16, 16, 4, 4, 16, 76 },
  { RLX_PRODUCT_TILES_32, 8, 8, 4, 4, 8, 76 },
  { RLX_PRODUCT_REGISTERS, 8, 8, 4, 4, 4, 52 },
};

static gboolean
is_banned (const RlxTarget  *target,
           RlxProductVariant row)
{
  return (target->speeds.banned[RLX_FAMILY_PRODUCT] >> row & 1) != 0;
}

gboolean
rlx_product_can_be_packed (const RlxTarget *target)
{
  /* For a CPU there is one kernel that takes panels, for a GPU all but dot do. */
  return target->loads_coalesce || !is_banned (target, RLX_PRODUCT_LANES);
}

gboolean
rlx_product_has_no_tiles (const RlxTarget *target)
{
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    if (!is_banned (target, tiles[i].row))
      return FALSE;
  return TRUE;
}

gboolean
rlx_product_has_shuffles (const RlxTarget *target)
{
  return !target->loads_coalesce && (target->features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0 &&
         target->subgroup_min == 8 && target->subgroup_max == 8;
}

/* Whether the sums are long enough for what shuffles cost before and after them:
 * measured, for 64 steps it takes longer, for 128 0.8 of the time. */
static gboolean
can_shuffle (const RlxTarget  *target,
             const RlxProduct *product)
{
  return rlx_product_has_shuffles (target) && product->k >= 128;
}

/* Too few workgroups for the device share sums that are long enough. */
static void
choose_parts (RlxProductKernel              *way,
              const RlxProduct *product,
              guint64           n_batch,
              guint64           wanted)
{
  guint64 step = 64;

  way->parts = 1;
  if (n_batch > 1 || way->n_groups >= wanted || product->k < 512)
    return;
  way->parts = MIN (MIN (rlx_divide_up (wanted, way->n_groups), product->k / 256), 16);
  way->part_k = rlx_divide_up (rlx_divide_up (product->k, way->parts), step) * step;
  way->parts = rlx_divide_up (product->k, way->part_k);
}

static gboolean
is_even_batch (const RlxProductLoop *batch,
               guint                 index,
               guint64               unit)
{
  for (guint i = 0; i < batch->n_dims; i++)
    if (batch->strides[index][i] % unit != 0)
      return FALSE;
  return TRUE;
}

/* Which way the vectors of each operand go, and whether each is one load. */
static void
choose_vectors (RlxProductKernel              *way,
                const RlxProduct *product)
{
  const RlxProductWindow *window = product->window;

  way->a_along_k = product->a_k == 1;
  way->b_along_k = !way->panel && product->b_n != 1 && product->b_k == 1;
  if (product->k == 0)
    return;
  way->a_vectors = is_even_batch (&product->batch, 0, 4) &&
                   (way->a_along_k ? product->a_m % 4 == 0 && product->k % 4 == 0
                                   : product->a_m == 1 && product->a_k % 4 == 0 && product->m % 4 == 0);
  way->b_vectors = way->panel ||
                   (is_even_batch (&product->batch, 1, 4) &&
                    (way->b_along_k ? product->b_n % 4 == 0 && product->k % 4 == 0
                                    : product->b_n == 1 && product->b_k % 4 == 0 && product->n % 4 == 0));

  /* A window reads the one operand in its own way; the other may have steps in two parts. */
  if (window == NULL)
    return;
  if (window->split % 4 != 0 || window->split_stride % 4 != 0)
    way->a_vectors = way->b_vectors = FALSE;
  if (window->x == product->a)
    way->a_along_k = way->a_vectors = window->vectors;
  else
    way->b_along_k = way->b_vectors = FALSE;
}

/* How a lane of LANES reads its operands. */
static void
choose_loads (RlxProductKernel              *way,
              const RlxProduct *product)
{
  gboolean along_k = product->k > 0 && product->a_k == 1;

  if (product->k == 0)
    return;

  way->pairs = product->b->type.data_type == RLX_DATA_TYPE_F16 && way->tn % 2 == 0 &&
               (way->panel || (product->b_n == 1 && product->b_k % 2 == 0 && product->n % 2 == 0 && is_even_batch (&product->batch, 1, 2)));
  if (way->shuffle)
    {
      way->unroll = way->tm == 1 ? 8 : 4;
      way->a_pairs = product->a->type.data_type == RLX_DATA_TYPE_F16 && along_k && product->a_m % 2 == 0 &&
                     product->k % way->unroll == 0 && is_even_batch (&product->batch, 0, 2);
    }
  else
    way->vectors = along_k && product->a_m % 4 == 0 && product->k % 4 == 0 && is_even_batch (&product->batch, 0, 4);
}

/* Whether no store needs a guard. The loop over the sums must be too long for the driver
 * to unroll it: it would keep each sum in a variable of its own then, and take half as
 * long again. */
static gboolean
is_even (const RlxTarget  *target,
         const RlxProduct *product,
         const RlxProductKernel        *way)
{
  guint64 cols = way->lanes * way->tn;

  for (guint i = 0; i < product->n_outputs; i++)
    if (product->widths[i] % cols != 0)
      return FALSE;
  return way->tm * way->tn > 32 && product->m % way->tm == 0 && product->n % cols == 0 &&
         way->n_groups <= target->limits.max_workgroups;
}

/* ---- the problem ------------------------------------------------------------------ */

/* What the choice is made from. */
typedef struct
{
  const RlxProduct *given;
  RlxProduct product;        /* the same, or with rows and columns in each other's place */
  gboolean is_turned;
  guint64 n_batch;
  gboolean few_results;      /* a workgroup for each is best */
  gboolean may_pack;         /* the weight can lie in panels, as far as the steps go */
  RlxProductMatrix matrix;   /* how matrix units would do it */
  const char *no_matrix;     /* why they cannot; NULL: they can */
  guint condition;           /* on which they can, as for rlx_lower_can_cast_f16() */
} Problem;

/* Lanes go along the columns: there had better be more of these than rows. */
static void
turn (Problem *problem)
{
  RlxProduct *product = &problem->product;

  problem->is_turned = TRUE;
  swap (&product->m, &product->n);
  swap (&product->a_m, &product->b_n);
  swap (&product->a_k, &product->b_k);
  product->a = problem->given->b;
  product->b = problem->given->a;
  for (guint i = 0; i < product->batch.n_dims; i++)
    swap (&product->batch.strides[0][i], &product->batch.strides[1][i]);
}

static void
problem_init (Problem          *self,
              RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxProduct *product)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  gboolean plain = !product->packed && product->window == NULL;

  *self = (Problem) { .given = product, .product = *product, .n_batch = 1, .may_pack = TRUE };
  for (guint i = 0; i < product->batch.n_dims; i++)
    self->n_batch *= product->batch.shape[i];
  self->few_results = plain && prefer_dot (product, product->m * product->n * self->n_batch, target);
  if (plain && product->n < target->lanes && product->n < product->m)
    turn (self);
  /* Looking at weights takes time: not for nothing. */
  if (self->few_results)
    self->no_matrix = "few results with long sums";
  else
    self->no_matrix = rlx_product_choose_matrix (lower, node, product, self->n_batch, target->busy_workgroups, &self->matrix, &self->condition);
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;
  const RlxProduct *product = self->given;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " of [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "] · [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "], %s%s%s",
                          self->n_batch, product->m, product->k, product->k, product->n, rlx_data_type_to_string (product->b->type.data_type),
                          product->packed ? ", packed" : "", product->window != NULL ? ", by a window" : "");
}

static double
count_operations (const Problem *problem)
{
  return 2.0 * (double) (problem->given->m * problem->given->n * problem->n_batch) * (double) MAX (problem->given->k, 1);
}

/* ---- fits and costs ------------------------------------------------------------------ */

/* What is better than lanes and tiles wherever it can be; NULL: nothing. */
static const char *
find_better (const Problem *problem)
{
  if (problem->few_results)
    return "few results with long sums: a workgroup for each is faster";
  return problem->no_matrix == NULL ? "matrix units are faster" : NULL;
}

/* Whether invocations should go side by side along the columns, and not in tiles. */
static gboolean
prefer_lanes (const RlxTarget *target,
              const Problem   *problem)
{
  const double *flops = target->speeds.product_flops;
  double best = 0.0;

  if (problem->product.window != NULL)
    return FALSE;
  if (problem->product.m <= 8)
    return TRUE;
  if (!target->speeds.measured)
    return !target->barriers_are_cheap;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    if (!is_banned (target, tiles[i].row))
      best = MAX (best, flops[tiles[i].row]);
  return best <= flops[RLX_PRODUCT_LANES] * RLX_CLEARLY;
}

static RlxFit
lanes_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;

  if (problem->product.window != NULL)
    *why = "does not read through windows";
  else if ((*why = find_better (problem)) == NULL && !prefer_lanes (target, problem))
    *why = "more than 8 rows: tiles read operands fewer times";
  return problem->product.window != NULL ? RLX_FIT_NO : *why != NULL ? RLX_FIT_POORLY : RLX_FIT_WELL;
}

static double
lanes_cost (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data)
{
  double measured = target->speeds.product_flops[RLX_PRODUCT_LANES];

  if (target->speeds.measured && measured > 0.0)
    return count_operations (data) / measured;
  return count_operations (data) / target->speeds.flops * (prefer_lanes (target, data) ? 1.0 : 4.0);
}

static RlxFit
dot_fits (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *problem = data;

  if (problem->product.packed || problem->product.window != NULL)
    return rlx_variant_cannot ("reads neither panels nor through windows", why);
  if (problem->product.k == 0)
    return rlx_variant_cannot ("there is nothing to add up", why);
  return problem->few_results ? RLX_FIT_WELL : rlx_variant_poorly ("too many results, or too short sums, for a workgroup each", why);
}

static double
dot_cost (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data)
{
  return count_operations (data) / target->speeds.flops * (((const Problem *) data)->few_results ? 1.0 : 64.0);
}

static RlxFit
matrix_fits (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  *why = ((const Problem *) data)->no_matrix;
  return *why == NULL ? RLX_FIT_WELL : RLX_FIT_NO;
}

static double
matrix_cost (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data)
{
  double measured = target->speeds.product_flops[RLX_PRODUCT_MATRIX];

  return count_operations (data) / (measured > 0.0 ? measured : 4.0 * target->speeds.flops);
}

/* What is known to speak against a kind of tile on a device that was not measured. */
static const char *
find_obstacle (const Tile      *tile,
               const RlxTarget *target)
{
  if (target->speeds.measured)
    return NULL;
  if (tile->row == RLX_PRODUCT_REGISTERS && target->workgroup_memory_is_fast)
    return "workgroup memory is fast here";
  if (tile->row != RLX_PRODUCT_REGISTERS && !target->workgroup_memory_is_fast)
    return "workgroup memory is slow here";
  return NULL;
}

static RlxFit
tiles_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;

  if (problem->product.packed && !target->loads_coalesce)
    {
      *why = "reads no panels on a CPU";
      return RLX_FIT_NO;
    }
  if ((*why = find_better (problem)) != NULL)
    return RLX_FIT_POORLY;
  if (prefer_lanes (target, problem))
    {
      *why = problem->product.m <= 8 ? "8 rows or fewer leave most of a tile empty" : "tiles are no faster than lanes here";
      return RLX_FIT_POORLY;
    }
  *why = find_obstacle (self->data, target);
  return *why != NULL ? RLX_FIT_POORLY : RLX_FIT_WELL;
}

/* On a device that was measured, what that says: a tile that is partly empty takes as long as
 * a full one, and too few leave cores idle; what was measured had too few tiles for the
 * device, too, when they were large. Otherwise a tile is as good as any as long as it leaves
 * every core one and is not half empty; else the smaller it is the better. */
static double
tiles_cost (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data)
{
  const Tile *tile = self->data;
  const Problem *problem = data;
  const RlxProduct *product = &problem->product;
  guint64 wanted = target->busy_workgroups, rows = tile->ty * tile->tm, cols = tile->tx * tile->tn;
  guint64 n_groups = rlx_divide_up (product->m, rows) * rlx_divide_up (product->n, cols) * problem->n_batch;
  guint64 measured = rlx_divide_up (RLX_MEASURED_SIZE, rows) * rlx_divide_up (RLX_MEASURED_SIZE, cols);
  double rate = target->speeds.product_flops[tile->row];
  gboolean full = n_groups >= wanted && product->m * 2 > rows && product->n * 2 > cols;

  if (target->speeds.measured && rate > 0.0)
    return 2.0 * (double) MAX (product->k, 1) * (double) (n_groups * rows * cols) / rate *
           (double) MIN (measured, wanted) / (double) MIN (n_groups, wanted);
  return count_operations (problem) / target->speeds.flops * (full ? 1.0 : (double) (2 * rows * cols) / (32 * 32)) *
         rlx_target_get_spill_factor (target, tile->registers) * (find_obstacle (tile, target) != NULL ? 16.0 : 1.0);
}

/* ---- layouts of the weight -------------------------------------------------------------- */

static gboolean
can_use_panels (const Problem *problem)
{
  const RlxProduct *product = &problem->product;

  return problem->may_pack && !product->packed && !problem->is_turned && product->k > 0 &&
         product->n >= RLX_PRODUCT_PANEL / 2 && product->batch.n_dims == 0;
}

/* Lanes of a CPU read eight columns at once, and rows that follow each other; those of a GPU
 * want neighbouring columns. */
static RlxWeightLayout
lanes_layout (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data)
{
  const Problem *problem = data;

  return rlx_weight_in_panels (can_use_panels (problem) && (!target->loads_coalesce || problem->product.b_n != 1) ? RLX_PRODUCT_PANEL : 0);
}

/* Mostly not: a tile reads 128 bytes or more of a row, which are whole lines of every cache
 * wherever the rows are, and columns that lie along k are as good. But vectors want a number
 * of columns, or of steps, that is a multiple of four. */
static RlxWeightLayout
tiles_layout (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data)
{
  const Problem *problem = data;
  const RlxProductWindow *window = problem->product.window;
  RlxProductKernel plain = { 0 };

  if (!can_use_panels (problem) || !target->loads_coalesce ||
      (window != NULL && (window->x == problem->product.b || window->split > 0)))
    return rlx_weight_in_panels (0);
  choose_vectors (&plain, &problem->product);
  return rlx_weight_in_panels (plain.b_vectors ? 0 : RLX_PRODUCT_PANEL);
}

/* Lets the weight lie as the variant wants it, if it can, and tells where its elements are. */
static gboolean
take_panels (const RlxVariant *self,
             RlxLower         *lower,
             const Problem    *problem,
             RlxProduct       *product)
{
  RlxWeightLayout layout = self->layout (self, rlx_lower_get_target (lower), problem);

  if (!product->packed &&
      (layout.order != RLX_WEIGHT_IN_PANELS ||
       !rlx_lower_pack_weight (lower, product->b, product->k, product->n, product->b_k, product->b_n, layout.width)))
    return FALSE;
  product->b_k = RLX_PRODUCT_PANEL;
  product->b_n = 1;
  return TRUE;
}

/* ---- steps -------------------------------------------------------------------------------- */

static void
share_out (RlxProductKernel              *way,
           const RlxProduct *product,
           const Problem    *problem,
           const RlxTarget  *target)
{
  way->n_groups = way->tiles_m * way->tiles_n * problem->n_batch;
  choose_parts (way, product, problem->n_batch, target->busy_workgroups);
  way->n_groups *= way->parts;
}

static gboolean
lanes_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const Problem *problem = data;
  RlxProduct product = problem->product;
  RlxProductKernel way = { .kind = RLX_PRODUCT_BY_LANES, .turned = problem->is_turned };

  way.panel = take_panels (self, lower, problem, &product);
  way.shuffle = can_shuffle (target, &product);
  choose_lanes (&way, &product, problem->n_batch, target->busy_workgroups, target);
  share_out (&way, &product, problem, target);
  choose_loads (&way, &product);
  way.even = way.shuffle && is_even (target, &product, &way);
  return rlx_lower_product_kernel (lower, node, problem->given, &product, problem->n_batch, &way, error);
}

/* Lanes of a subgroup that has rows of its own: what Dawn requires, where they share registers.
 * Nothing else promises that a subgroup is as large as the kernel is written for. */
static guint
get_row_lanes (const RlxTarget *target)
{
  return target->registers_are_shared && target->subgroup_sizes_can_be_set && target->subgroup_size <= ROWS_WORKGROUP
           ? target->subgroup_size : 0;
}

/* Lets subgroups share rows instead, in place of tiles of 64: counted, 2 times as fast by the compiler for Intel's
 * chips. There, the registers of a subgroup of the usual size suffice. */
static void
share_rows (RlxProductKernel *way,
            const RlxProduct *product,
            guint64           n_batch,
            const RlxTarget  *target)
{
  guint lanes = get_row_lanes (target);

  if (lanes == 0 || !way->a_along_k || !way->a_vectors || product->window != NULL || product->k == 0)
    return;
  /* Every subgroup converts the rows of half floats: counted, that takes a fifth longer than tiles where it is the
   * multiplying pipe that does it, as on chips of before matrix units. */
  if (product->a->type.data_type == RLX_DATA_TYPE_F16 && target->n_matrices == 0)
    return;
  way->rows = TRUE;
  way->subgroup = lanes;
  /* At most 32 steps, and a vector of `b` for each lane. */
  way->workgroup = MIN (ROWS_WORKGROUP, 16 * lanes);
  way->kt = 2 * way->workgroup / lanes;
  way->tx = lanes;
  way->ty = way->workgroup / lanes;
  way->tn = 2;
  way->tm = 8;
  if (product->m <= way->ty * 4 ||
      rlx_divide_up (product->m, way->ty * 8) * rlx_divide_up (product->n, lanes * 2) * n_batch < target->busy_workgroups)
    way->tm = 4;
  way->whole = product->k % way->kt == 0;
  way->tiles_m = rlx_divide_up (product->m, way->ty * way->tm);
  way->tiles_n = rlx_divide_up (product->n, lanes * 2);
}

static gboolean
tiles_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *problem = data;
  const Tile *tile = self->data;
  RlxProduct product = problem->product;
  RlxProductKernel way = {
    .kind = RLX_PRODUCT_BY_TILES,
    .turned = problem->is_turned,
    .tx = tile->tx, .ty = tile->ty, .tm = tile->tm, .tn = tile->tn, .kt = tile->kt,
    .registers = tile->row == RLX_PRODUCT_REGISTERS,
    .workgroup = tile->tx * tile->ty,
    .subgroup = rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), tile->registers),
    .tiles_m = rlx_divide_up (product.m, tile->ty * tile->tm),
    .tiles_n = rlx_divide_up (product.n, tile->tx * tile->tn),
  };

  way.panel = take_panels (self, lower, problem, &product);
  choose_vectors (&way, &product);
  if (tile->row == RLX_PRODUCT_TILES_64)
    share_rows (&way, &product, problem->n_batch, rlx_lower_get_target (lower));
  share_out (&way, &product, problem, rlx_lower_get_target (lower));
  return rlx_lower_product_kernel (lower, node, problem->given, &product, problem->n_batch, &way, error);
}

static gboolean
dot_describe (const RlxVariant *self,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *problem = data;
  const RlxProduct *product = problem->given;
  RlxProductKernel way = { .kind = RLX_PRODUCT_BY_DOT, .parts = 1, .workgroup = product->k >= 4096 ? 256 : 64 };

  way.n_groups = product->m * product->n * problem->n_batch;
  return rlx_lower_product_kernel (lower, node, product, product, problem->n_batch, &way, error);
}

/* Where the values of the weight come later, there are steps for both. */
static gboolean
matrix_describe (const RlxVariant *self,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Problem *problem = data;
  const RlxProduct *product = problem->given;
  RlxProductKernel way = { .kind = RLX_PRODUCT_BY_MATRIX, .matrix = problem->matrix, .workgroup = problem->matrix.workgroup };
  Problem other = *problem;
  gboolean ok;

  way.tiles_m = rlx_divide_up (product->m, way.matrix.size);
  way.tiles_n = rlx_divide_up (product->n, way.matrix.size);
  share_out (&way, product, problem, rlx_lower_get_target (lower));
  choose_vectors (&way, product);
  rlx_lower_set_condition (lower, problem->condition, TRUE);
  ok = rlx_lower_product_kernel (lower, node, product, product, problem->n_batch, &way, error);
  rlx_lower_set_condition (lower, problem->condition, FALSE);
  if (ok && problem->condition != 0)
    {
      other.no_matrix = "for a weight that f16 does not hold";
      /* Both read it where it is. */
      other.may_pack = FALSE;
      ok = rlx_lower_choose (lower, node, &rlx_product_variants, &other, error);
    }
  rlx_lower_set_condition (lower, 0, FALSE);
  return ok;
}

/* ---- the table --------------------------------------------------------------------------- */

/* The variant that was measured to be the fastest, where somebody asked for that. */
static int
get_tuned (const RlxTarget *target,
           gconstpointer    data)
{
  const Problem *problem = data;
  const RlxProduct *product = problem->given;
  const RlxIrNode *leaf = product->b->node;
  RlxTunedShape shape = {
    .m = product->m, .n = product->n, .k = product->k, .n_batch = problem->n_batch,
    .a_along_k = product->a_k == 1, .b_along_n = product->b_n == 1,
    .is_weight = leaf != NULL && (rlx_ir_node_is (leaf, RLX_OP_ID_CONSTANT) || rlx_ir_node_is (leaf, RLX_OP_ID_PARAMETER)),
    .data_type = product->b->type.data_type,
  };
  RlxProductVariant row;

  if (target->tuning == NULL || problem->no_matrix == NULL || product->packed || product->window != NULL || product->k == 0 ||
      (product->a_k != 1 && product->a_m != 1) || (product->b_k != 1 && product->b_n != 1) ||
      product->a->type.data_type != shape.data_type ||
      (shape.data_type != RLX_DATA_TYPE_F32 && shape.data_type != RLX_DATA_TYPE_F16))
    return -1;
  row = rlx_tuning_look_up (target->tuning, &shape);
  return row == RLX_N_PRODUCTS ? -1 : (int) row;
}

static const RlxVariant variants[] = {
  [RLX_PRODUCT_MATRIX] = { "matrix", matrix_fits, matrix_cost, NULL, matrix_describe, NULL },
  [RLX_PRODUCT_TILES_128] = { "tiles-128", tiles_fits, tiles_cost, tiles_layout, tiles_describe, &tiles[0] },
  [RLX_PRODUCT_TILES_64] = { "tiles-64", tiles_fits, tiles_cost, tiles_layout, tiles_describe, &tiles[1] },
  [RLX_PRODUCT_TILES_32] = { "tiles-32", tiles_fits, tiles_cost, tiles_layout, tiles_describe, &tiles[2] },
  [RLX_PRODUCT_REGISTERS] = { "registers", tiles_fits, tiles_cost, tiles_layout, tiles_describe, &tiles[3] },
  [RLX_PRODUCT_DOT] = { "dot", dot_fits, dot_cost, NULL, dot_describe, NULL },
  /* Windows are for those who know that tiles can be used. */
  [RLX_PRODUCT_LANES] = { "lanes", lanes_fits, lanes_cost, lanes_layout, lanes_describe, NULL },
};

const RlxVariants rlx_product_variants = {
  RLX_FAMILY_PRODUCT, "product", variants, G_N_ELEMENTS (variants), print_problem, get_tuned,
};

gboolean
rlx_lower_product (RlxLower         *lower,
                   const RlxIrNode  *node,
                   const RlxProduct *product,
                   GError          **error)
{
  Problem problem;

  problem_init (&problem, lower, node, product);
  return rlx_lower_choose (lower, node, &rlx_product_variants, &problem, error);
}
