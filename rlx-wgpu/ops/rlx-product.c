/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The variants of the product of two matrices: see the heads of kernels/matmul.wgsl,
 * kernels/matmul-dot.wgsl, kernels/matmul-shuffle.wgsl, kernels/matmul-tile.wgsl,
 * kernels/matmul-registers.wgsl and kernels/matmul-matrix.wgsl.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

#include "ops/rlx-variant-private.h"

/* The fewest lanes that share a sum in kernels/matmul-dot.wgsl, and the registers of an invocation with eight pending
 * loads of 16 bytes. */
#define DOT_LANES 16
#define DOT_REGISTERS 100

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

/* Whether a whole workgroup should share the sum of each output. Measured on a CPU, where eight lanes fill a core: only
 * if there are fewer outputs than lanes. A GPU needs thousands of lanes, with neighbours that read adjacent elements. */
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
enlarge_tile (RlxProductKernel *config,
              const RlxProduct *product,
              guint64           n_batch,
              double            n_products)
{
  guint64 m = product->m, n = product->n;
  gboolean half = product->b->type.data_type == RLX_DATA_TYPE_F16;

  if (m > 16 && rlx_divide_up (m, 32) * 2 == rlx_divide_up (m, 16) && n_products >= 1 << 24)
    config->tm = 32;
  /* A gather of half floats has two vectors of columns. */
  if (n >= 64 && config->tn == 4 &&
      ((config->tm == 32 && n_products >= 1 << 27) || (config->tm == 1 && half && n_products >= 1 << 21)) &&
      rlx_divide_up (m, config->tm) * rlx_divide_up (n, 64) * n_batch >= 16)
    config->tn = 8;
}

static void
choose_lanes (RlxProductKernel *config,
              const RlxProduct *product,
              guint64           n_batch,
              guint64           wanted,
              const RlxTarget  *target)
{
  guint64 m = product->m, n = product->n;
  double n_products = (double) m * (double) n * (double) n_batch * (double) MAX (product->k, 1);

  config->slices = 1;
  if (m == 1)
    config->tm = 1;
  else if (m <= 4)
    config->tm = 4;
  /* Sixteen rows may take longer to compile than a small product saves. */
  else if (m <= 8 || target->loads_coalesce || n_products < 1 << 22)
    config->tm = 8;
  else
    config->tm = 16;

  if (!target->loads_coalesce)
    {
      config->tn = config->panel || n > 16 ? RLX_PRODUCT_PANEL / 8 : n > 8 ? 2 : 1;
      if (config->shuffle)
        enlarge_tile (config, product, n_batch, n_products);
      /* With wide rows, the more is read of one at once the better, unless it is packed. */
      config->lanes = config->panel ? 8 : 64;
      while (config->lanes > 8 &&
             (config->lanes * MAX (config->tn, 4) > n ||
              rlx_divide_up (m, config->tm) * rlx_divide_up (n, config->lanes * MAX (config->tn, 4)) * n_batch < wanted))
        config->lanes /= 2;
    }
  else
    {
      config->lanes = config->panel ? RLX_PRODUCT_PANEL : 64;
      while (config->lanes > 32 && config->lanes / 2 >= n)
        config->lanes /= 2;
      config->tn = 1;
      config->slices = product->k >= 64 ? 4 : 1;
    }
  config->workgroup = config->lanes * config->slices;
  config->tiles_m = rlx_divide_up (m, config->tm);
  config->tiles_n = rlx_divide_up (n, config->lanes * config->tn);
}

static gboolean
is_banned (const RlxTarget  *target,
           RlxProductVariant row)
{
  return rlx_speeds_is_banned (&target->speeds, RLX_FAMILY_PRODUCT, row);
}

gboolean
rlx_product_can_be_packed (const RlxTarget *target)
{
  /* A CPU has one kernel that supports panels; on a GPU all but dot do. */
  return target->loads_coalesce || !is_banned (target, RLX_PRODUCT_LANES);
}

gboolean
rlx_product_has_shuffles (const RlxTarget *target)
{
  return !target->loads_coalesce && (target->features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0 &&
         target->subgroup_min == 8 && target->subgroup_max == 8;
}

/* Whether the sums are long enough for the overhead of shuffles. Measured: with 64 steps it takes longer, with 128 it
 * takes 0.8 of the time. */
static gboolean
can_shuffle (const RlxTarget  *target,
             const RlxProduct *product)
{
  return rlx_product_has_shuffles (target) && product->k >= 128;
}

/* How a lane of the variant `lanes` reads its operands. */
static void
choose_loads (RlxProductKernel *config,
              const RlxProduct *product)
{
  gboolean along_k = product->k > 0 && product->a_k == 1;

  if (product->k == 0)
    return;

  config->pairs = product->b->type.data_type == RLX_DATA_TYPE_F16 && config->tn % 2 == 0 &&
               (config->panel || (product->b_n == 1 && product->b_k % 2 == 0 && product->n % 2 == 0 && rlx_product_is_even_batch (&product->batch, 1, 2)));
  if (config->shuffle)
    {
      config->unroll = config->tm == 1 ? 8 : 4;
      config->a_pairs = product->a->type.data_type == RLX_DATA_TYPE_F16 && along_k && product->a_m % 2 == 0 &&
                     product->k % config->unroll == 0 && rlx_product_is_even_batch (&product->batch, 0, 2);
    }
  else
    config->vectors = along_k && product->a_m % 4 == 0 && product->k % 4 == 0 && rlx_product_is_even_batch (&product->batch, 0, 4);
}

/* Whether no store needs a guard. The loop over the sums must be too long for the driver to unroll, since the driver
 * would then keep each sum in a variable of its own, which takes half as long again. */
static gboolean
is_even (const RlxTarget        *target,
         const RlxProduct       *product,
         const RlxProductKernel *config)
{
  guint64 cols = config->lanes * config->tn;

  for (guint i = 0; i < product->n_outputs; i++)
    if (product->widths[i] % cols != 0)
      return FALSE;
  return config->tm * config->tn > 32 && product->m % config->tm == 0 && product->n % cols == 0 &&
         config->n_groups <= target->limits.max_workgroups;
}

/* ---- the problem ------------------------------------------------------------------ */

/* Lanes run along the columns, so there should be more columns than rows. */
static void
transpose (RlxProductProblem *problem)
{
  RlxProduct *product = &problem->product;

  problem->is_transposed = TRUE;
  swap (&product->m, &product->n);
  swap (&product->a_m, &product->b_n);
  swap (&product->a_k, &product->b_k);
  product->a = problem->given->b;
  product->b = problem->given->a;
  for (guint i = 0; i < product->batch.n_dims; i++)
    swap (&product->batch.strides[0][i], &product->batch.strides[1][i]);
}

static void
problem_init (RlxProductProblem          *self,
              RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxProduct *product)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  gboolean plain = !product->packed && product->window == NULL;

  *self = (RlxProductProblem) { .given = product, .product = *product, .n_batch = 1, .may_pack = TRUE };
  for (guint i = 0; i < product->batch.n_dims; i++)
    self->n_batch *= product->batch.shape[i];
  self->few_results = plain && prefer_dot (product, product->m * product->n * self->n_batch, target);
  if (plain && product->n < target->lanes && product->n < product->m)
    transpose (self);
  /* Examining weights takes time, so only if necessary. */
  if (self->few_results)
    self->no_matrix = "few results with long sums";
  else
    self->no_matrix = rlx_product_choose_matrix (lower, node, product, self->n_batch, target->busy_workgroups, &self->matrix, &self->condition);
}

static gboolean
is_leaf (const RlxIrValue *value)
{
  return value->node != NULL && (rlx_ir_node_is (value->node, RLX_OP_ID_CONSTANT) || rlx_ir_node_is (value->node, RLX_OP_ID_PARAMETER));
}

static char *
print_problem (gconstpointer data)
{
  const RlxProductProblem *self = data;
  const RlxProduct *product = self->given;
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%" G_GUINT64_FORMAT " of [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "] · [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "], ",
                          self->n_batch, product->m, product->k, product->k, product->n);
  g_string_append (text, rlx_data_type_to_string (product->a->type.data_type));
  if (product->b->type.data_type != product->a->type.data_type)
    g_string_append_printf (text, " and %s", rlx_data_type_to_string (product->b->type.data_type));
  if (product->window != NULL)
    g_string_append (text, product->window->x == product->a ? ", by a window" : ", by a window on the right");
  else if (product->a_k != 1)
    g_string_append (text, ", transposed on the left");
  if (product->packed)
    g_string_append (text, ", packed");
  else if (product->b_n != 1)
    g_string_append (text, ", transposed on the right");
  if (is_leaf (product->b))
    g_string_append (text, self->may_pack ? ", a weight" : ", a weight as it lies");
  if (self->no_matrix == NULL)
    g_string_append (text, ", reduced precision");
  return g_string_free (text, FALSE);
}

double
rlx_product_count_operations (const RlxProductProblem *problem)
{
  return 2.0 * (double) (problem->given->m * problem->given->n * problem->n_batch) * (double) MAX (problem->given->k, 1);
}

/* ---- fits and costs ------------------------------------------------------------------ */

/* Variants that are better than lanes and tiles wherever they fit; NULL: none. */
const char *
rlx_product_find_better (const RlxProductProblem *problem)
{
  if (problem->few_results)
    return "few results with long sums: a workgroup for each is faster";
  return problem->no_matrix == NULL ? "matrix units are faster" : NULL;
}

/* Whether invocations should be adjacent along the columns rather than in tiles, or the other way round. If either may
 * be faster, measurements decide. */
gboolean
rlx_product_prefers_lanes (const RlxTarget         *target,
                           const RlxProductProblem *problem)
{
  return problem->product.window == NULL &&
         (problem->product.m <= 8 || (!target->speeds.measured && !target->barriers_are_cheap));
}

static gboolean
prefers_tiles (const RlxTarget         *target,
               const RlxProductProblem *problem)
{
  return !rlx_product_prefers_lanes (target, problem) && !target->speeds.measured;
}

static RlxFit
lanes_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const RlxProductProblem *problem = data;

  if (problem->product.window != NULL)
    *why = "does not support windows";
  else if ((*why = rlx_product_find_better (problem)) == NULL && prefers_tiles (target, problem))
    *why = "more than 8 rows: tiles read operands fewer times";
  return problem->product.window != NULL ? RLX_FIT_NO : *why != NULL ? RLX_FIT_POORLY : RLX_FIT_WELL;
}

/* The estimates in this and other costs are for devices that were not measured. */
static double
lanes_cost (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data)
{
  return rlx_product_count_operations (data) / target->speeds.flops * (prefers_tiles (target, data) ? 4.0 : 1.0);
}

static RlxFit
dot_fits (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const RlxProductProblem *problem = data;

  if (problem->product.packed || problem->product.window != NULL)
    return rlx_variant_cannot ("supports neither panels nor windows", why);
  if (problem->product.k == 0)
    return rlx_variant_cannot ("there is nothing to add up", why);
  return problem->few_results ? RLX_FIT_WELL : rlx_variant_poorly ("too many results, or too short sums, for a workgroup each", why);
}

static double
dot_cost (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data)
{
  const RlxProductProblem *problem = data;

  return rlx_product_count_operations (problem) / target->speeds.flops * (problem->few_results || target->speeds.measured ? 1.0 : 64.0);
}

static RlxFit
matrix_fits (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  *why = ((const RlxProductProblem *) data)->no_matrix;
  return *why == NULL ? RLX_FIT_WELL : RLX_FIT_NO;
}

static double
matrix_cost (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data)
{
  return rlx_product_count_operations (data) / target->speeds.flops / (target->speeds.measured ? 1.0 : 4.0);
}

/* ---- layouts of the weight -------------------------------------------------------------- */

gboolean
rlx_product_can_use_panels (const RlxProductProblem *problem)
{
  const RlxProduct *product = &problem->product;

  return problem->may_pack && !product->packed && !problem->is_transposed && product->k > 0 &&
         product->n >= RLX_PRODUCT_PANEL / 2 && product->batch.n_dims == 0;
}

/* Lanes of a CPU read eight columns at once, in consecutive rows; those of a GPU read adjacent columns. */
static RlxWeightLayout
lanes_layout (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data)
{
  const RlxProductProblem *problem = data;

  return rlx_weight_in_panels (rlx_product_can_use_panels (problem) && (!target->loads_coalesce || problem->product.b_n != 1) ? RLX_PRODUCT_PANEL : 0);
}

/* Changes the weight to the layout that the variant needs, if possible, and sets where its elements are. */
gboolean
rlx_product_take_panels (const RlxVariant        *self,
                         RlxLower                *lower,
                         const RlxProductProblem *problem,
                         RlxProduct              *product)
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

static gboolean
lanes_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxProductProblem *problem = data;
  RlxProduct product = problem->product;
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_LANES, .transposed = problem->is_transposed };

  config.panel = rlx_product_take_panels (self, lower, problem, &product);
  config.shuffle = can_shuffle (target, &product);
  choose_lanes (&config, &product, problem->n_batch, target->busy_workgroups, target);
  rlx_product_share_out (&config, &product, problem->n_batch, target);
  choose_loads (&config, &product);
  config.even = config.shuffle && is_even (target, &product, &config);
  return rlx_lower_product_kernel (lower, node, problem->given, &product, problem->n_batch, &config, error);
}

/* For operands that neighbours read in vectors along k: kernels/matmul-dot.wgsl. Two or four columns share what is read
 * of a row; if there are few sums, more lanes share each of them, as long as each lane has work. */
static gboolean
share_dots (RlxProductKernel        *result,
            const RlxProductProblem *problem,
            const RlxTarget         *target)
{
  const RlxProduct *product = &problem->product;
  RlxProductKernel config = *result;
  guint64 busy = target->busy_workgroups * 64, sums = product->m * product->n * problem->n_batch, pieces;
  gboolean roomy = target->registers >= DOT_REGISTERS;

  if (!target->loads_coalesce)
    return FALSE;
  rlx_product_choose_vectors (&config, product);
  if (!config.a_along_k || !config.b_along_k || !config.a_vectors || !config.b_vectors)
    return FALSE;
  config.dots = TRUE;
  config.transposed = problem->is_transposed;
  config.piece = product->k % 8 == 0 && product->a_m % 8 == 0 && product->b_n % 8 == 0 &&
                  rlx_product_is_even_batch (&product->batch, 0, 8) && rlx_product_is_even_batch (&product->batch, 1, 8) ? 2 : 1;
  pieces = product->k / (4 * config.piece);
  config.tm = MIN (product->m, 4);
  config.tn = config.tm > 2 || sums * DOT_LANES < 2 * busy ? 1 : config.tm > 1 || !roomy || sums * DOT_LANES < 8 * busy ? 2 : 4;
  config.lanes = DOT_LANES;
  while (config.lanes < 256 && config.lanes * sums < busy * config.tm && pieces >= 4 * config.lanes)
    config.lanes *= 2;
  config.workgroup = MAX (config.lanes, 64);
  config.unroll = (roomy ? 8 : 4) / MAX (config.tm * config.tn, 2);
  config.rounds = pieces / (config.lanes * config.unroll);
  config.pieces = pieces;
  config.tiles_m = rlx_divide_up (product->m, config.tm);
  config.tiles_n = rlx_divide_up (product->n, config.workgroup / config.lanes * config.tn);
  config.n_groups = config.tiles_m * config.tiles_n * problem->n_batch;
  *result = config;
  return TRUE;
}

static gboolean
dot_describe (const RlxVariant *self,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const RlxProductProblem *problem = data;
  const RlxProduct *product = problem->given;
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_DOT, .splits = 1, .workgroup = product->k >= 4096 ? 256 : 64 };

  if (share_dots (&config, problem, rlx_lower_get_target (lower)))
    return rlx_lower_product_kernel (lower, node, product, &problem->product, problem->n_batch, &config, error);
  config.n_groups = product->m * product->n * problem->n_batch;
  return rlx_lower_product_kernel (lower, node, product, product, problem->n_batch, &config, error);
}

/* Whether the weight should be stored by columns, as panels of one column: matrix units read it along k. If there are
 * steps for two kernels, both read the original layout. */
static gboolean
wants_columns (const RlxTarget         *target,
               const RlxProductProblem *problem,
               RlxProductMatrix        *matrix)
{
  RlxProduct product = *problem->given;

  if (problem->no_matrix != NULL || problem->condition != 0 || product.b_k == 1 || !rlx_product_can_use_panels (problem))
    return FALSE;
  product.b_k = 1;
  product.b_n = product.k;
  return rlx_product_choose_pieces (target, &product, problem->n_batch, FALSE, matrix);
}

static RlxWeightLayout
matrix_layout (const RlxVariant *self,
               const RlxTarget  *target,
               gconstpointer     data)
{
  RlxProductMatrix matrix;

  return rlx_weight_in_panels (wants_columns (target, data, &matrix) ? 1 : 0);
}

/* If the values of the weight become known later, there are steps for both cases. */
static gboolean
matrix_describe (const RlxVariant *self,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const RlxProductProblem *problem = data;
  const RlxTarget *target = rlx_lower_get_target (lower);
  RlxProduct product = *problem->given;
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_MATRIX, .matrix = problem->matrix };
  RlxProductProblem other = *problem;
  gboolean ok;

  if (wants_columns (target, problem, &config.matrix) &&
      rlx_lower_pack_weight (lower, product.b, product.k, product.n, product.b_k, product.b_n, 1))
    {
      product.b_k = 1;
      product.b_n = product.k;
    }
  else
    {
      config.matrix = problem->matrix;
    }
  rlx_product_choose_pieces (target, &product, problem->n_batch, FALSE, &config.matrix);
  config.workgroup = config.matrix.workgroup;
  config.tiles_m = rlx_divide_up (product.m, config.matrix.rows);
  config.tiles_n = rlx_divide_up (product.n, config.matrix.columns);
  rlx_product_share_out (&config, &product, problem->n_batch, target);
  rlx_product_choose_vectors (&config, &product);
  rlx_lower_set_condition (lower, problem->condition, TRUE);
  ok = rlx_lower_product_kernel (lower, node, &product, &product, problem->n_batch, &config, error);
  rlx_lower_set_condition (lower, problem->condition, FALSE);
  if (ok && problem->condition != 0)
    {
      other.no_matrix = "for a weight that does not fit f16";
      /* Both read it in its original layout. */
      other.may_pack = FALSE;
      ok = rlx_lower_choose (lower, node, &rlx_product_variants, &other, error);
    }
  rlx_lower_set_condition (lower, 0, FALSE);
  return ok;
}

/* ---- the table --------------------------------------------------------------------------- */

#define TILES(name, row) { name, rlx_product_tiles_fits, rlx_product_tiles_cost, rlx_product_tiles_layout, rlx_product_tiles_describe, \
                           GUINT_TO_POINTER (RLX_PRODUCT_##row) }

static const RlxVariant variants[] = {
  [RLX_PRODUCT_MATRIX] = { "matrix", matrix_fits, matrix_cost, matrix_layout, matrix_describe, NULL },
  [RLX_PRODUCT_ROWS] = TILES ("rows", ROWS),
  [RLX_PRODUCT_TILES_128] = TILES ("tiles-128", TILES_128),
  [RLX_PRODUCT_TILES_64] = TILES ("tiles-64", TILES_64),
  [RLX_PRODUCT_TILES_32] = TILES ("tiles-32", TILES_32),
  [RLX_PRODUCT_REGISTERS] = TILES ("registers", REGISTERS),
  [RLX_PRODUCT_DOT] = { "dot", dot_fits, dot_cost, NULL, dot_describe, NULL },
  /* Callers only use windows if they know that tiles can be used. */
  [RLX_PRODUCT_LANES] = { "lanes", lanes_fits, lanes_cost, lanes_layout, lanes_describe, NULL },
};

/* Sums that f32 represents exactly: 512 · 4095 · 7 < 2²⁴. Twelve bits reveal whether f32 is computed with less. Eleven
 * are exact when rounded to f16, and reveal whether its sums are in f16. */
#define SAMPLE(m, k, n) \
  RLX_SAMPLE_INPUT (0, "f32[" #m ", " #k "]") RLX_SAMPLE_WEIGHT (1, "f32[" #k ", " #n "]") "%2 = matmul(%0, %1)\n" RLX_SAMPLE_OUTPUT (2)
static const RlxSample samples[] = {
  { "rlx 1\n" SAMPLE (512, 512, 512), 4095 },
  { "rlx 1\nprecision reduced\n" SAMPLE (512, 512, 512), 2047 },
  { "rlx 1\n" SAMPLE (2, 512, 4), 4095 },
  { NULL, 0 },
};

const RlxVariants rlx_product_variants = {
  RLX_FAMILY_PRODUCT, "product", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_lower_product (RlxLower         *lower,
                   const RlxIrNode  *node,
                   const RlxProduct *product,
                   GError          **error)
{
  RlxProductProblem problem;

  problem_init (&problem, lower, node, product);
  return rlx_lower_choose (lower, node, &rlx_product_variants, &problem, error);
}
