/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tiled products of matrices; kernels/common/tile.wgsl and kernels/common/tile-rows.wgsl
 * explain the numbers. How a product is divided among workgroups is here, too.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

/* The least number of steps in a split of a sum, since fewer take less time than starting the dispatch that adds up the
 * splits; and the most splits. */
#define MIN_SPLIT 256
#define MAX_SPLITS 16
/* The cost of adding up one more split, as a fraction of the product. */
#define SPLIT_COST 0.04
/* The gain that the first one must bring. */
#define WORTH_A_SPLIT 1.1
/* For the kernel whose subgroups share rows: the most lanes, and the most steps of a row that are loaded at once. */
#define ROWS_WORKGROUP 256
#define MAX_UNIT 16
/* Packed numbers that are unpacked at a time. */
#define CHUNK 32

/* ---- how the work is distributed ----------------------------------------------------------- */

/* How many workgroups keep a GPU busy if each has @workgroup invocations. */
static double
count_wanted (const RlxTarget *target,
              guint64          workgroup)
{
  return MAX (1.0, (double) target->busy_workgroups * 256.0 / (double) workgroup);
}

/* How many times longer @n_groups workgroups take than if all cores were always busy. A core runs at least two
 * workgroups at a time, the last of which may leave half of them idle. */
static double
get_idle_factor (double n_groups,
                 double wanted)
{
  double round = wanted / 2;

  return n_groups < wanted ? wanted / n_groups : ceil (n_groups / round) * round / n_groups;
}

/* Sets the number of splits of the sum that makes the product fastest; returns how many times longer it takes than on a
 * device that is always busy. */
static double
choose_splits (RlxProductKernel *config,
               const RlxProduct *product,
               guint64           n_batch,
               const RlxTarget  *target)
{
  double wanted = count_wanted (target, config->workgroup), n_groups = (double) config->n_groups;
  double best = get_idle_factor (n_groups, wanted);

  config->splits = 1;
  if (n_batch > 1)
    return best;
  for (guint64 n = 2; n <= MIN (MAX_SPLITS, product->k / MIN_SPLIT); n++)
    {
      guint64 steps = rlx_divide_up (rlx_divide_up (product->k, n), 64) * 64, splits = rlx_divide_up (product->k, steps);
      double factor = get_idle_factor (n_groups * (double) splits, wanted) * (1.0 + SPLIT_COST * (double) splits);

      if (factor * WORTH_A_SPLIT >= best)
        continue;
      best = factor;
      config->splits = splits;
      config->split_k = steps;
    }
  return best;
}

double
rlx_product_share_out (RlxProductKernel *config,
                       const RlxProduct *product,
                       guint64           n_batch,
                       const RlxTarget  *target)
{
  guint64 wanted = target->busy_workgroups;
  double factor = 1.0;

  config->n_groups = config->tiles_m * config->tiles_n * n_batch;
  config->splits = 1;
  if (target->loads_coalesce)
    {
      factor = choose_splits (config, product, n_batch, target);
    }
  else if (n_batch == 1 && config->n_groups < wanted && product->k >= 512)
    {
      /* On a CPU: too few workgroups share the work of sums that are long enough. */
      guint64 splits = MIN (MIN (rlx_divide_up (wanted, config->n_groups), product->k / 256), 16);

      config->split_k = rlx_divide_up (rlx_divide_up (product->k, splits), 64) * 64;
      config->splits = rlx_divide_up (product->k, config->split_k);
    }
  config->n_groups *= config->splits;
  return factor;
}

/* ---- how operands are read ---------------------------------------------------------------- */

gboolean
rlx_product_is_even_batch (const RlxProductLoop *batch,
                           guint                 index,
                           guint64               unit)
{
  for (guint i = 0; i < batch->n_dims; i++)
    if (batch->strides[index][i] % unit != 0)
      return FALSE;
  return TRUE;
}

void
rlx_product_choose_vectors (RlxProductKernel *config,
                            const RlxProduct *product)
{
  const RlxProductWindow *window = product->window;

  config->a_along_k = product->a_k == 1;
  config->b_along_k = !config->panel && product->b_n != 1 && product->b_k == 1;
  if (product->k == 0)
    return;
  config->a_vectors = rlx_product_is_even_batch (&product->batch, 0, 4) &&
                      (config->a_along_k ? product->a_m % 4 == 0 && product->k % 4 == 0
                                         : product->a_m == 1 && product->a_k % 4 == 0 && product->m % 4 == 0);
  config->b_vectors = config->panel ||
                      (rlx_product_is_even_batch (&product->batch, 1, 4) &&
                       (config->b_along_k ? product->b_n % 4 == 0 && product->k % 4 == 0
                                          : product->b_n == 1 && product->b_k % 4 == 0 && product->n % 4 == 0));

  /* The window determines how one operand is read; the steps of the other may be split in two. */
  if (window == NULL)
    return;
  if (window->split > 0 && (window->split % 4 != 0 || window->split_stride % 4 != 0))
    config->a_vectors = config->b_vectors = FALSE;
  if (window->x == product->a)
    config->a_along_k = config->a_vectors = window->vectors;
  else
    config->b_along_k = config->b_vectors = FALSE;
}

/* ---- tiles ---------------------------------------------------------------------------------- */

typedef struct
{
  guint tx, ty, tm, tn, kt;
  guint registers;        /* that an invocation uses for sums, the operands of four steps, the vectors that come
                           * next, and addresses; counted by the compiler for Intel's chips */
  double share;           /* of the peak, estimated from compiled code: `./dev isa` */
} Tile;

/* If there are enough registers, an invocation has 8 · 8 or 4 · 8 sums: the fewer there are, the sooner workgroup memory
 * becomes the bottleneck. */
static Tile
get_tile (const RlxTarget  *target,
          RlxProductVariant row)
{
  const Tile tile_128 = { 16, 16, 8, 8, 8, 180, 0.9 };
  const Tile wide_64 = { 8, 8, 8, 8, 8, 180, 0.9 }, flat_64 = { 16, 16, 4, 4, 16, 76, 0.45 };
  const Tile wide_32 = { 8, 8, 4, 8, 8, 140, 0.6 }, flat_32 = { 8, 8, 4, 4, 8, 76, 0.45 };
  const Tile registers = { 8, 8, 4, 4, 4, 52, 0.3 };

  switch (row)
    {
    case RLX_PRODUCT_TILES_128:
      return tile_128;
    case RLX_PRODUCT_TILES_64:
      return target->registers >= wide_64.registers ? wide_64 : flat_64;
    case RLX_PRODUCT_TILES_32:
      return target->registers >= wide_32.registers ? wide_32 : flat_32;
    default:
      return registers;
    }
}

/* In workgroup memory, with the gaps that kernels/common/tile.wgsl leaves. */
static guint
count_padded_bytes (const Tile *tile)
{
  guint row_a = tile->kt / 4 * (tile->tm + 1) | 1, row_b = tile->kt / 4 * (tile->tn + 1) | 1;

  return 2 * 16 * (row_a * tile->ty + row_b * tile->tx);
}

static void
use_tile (RlxProductKernel *config,
          const RlxTarget  *target,
          const RlxProduct *product,
          RlxProductVariant row,
          double           *share)
{
  Tile tile = get_tile (target, row);

  config->tx = tile.tx;
  config->ty = tile.ty;
  config->tm = tile.tm;
  config->tn = tile.tn;
  config->kt = tile.kt;
  config->registers = row == RLX_PRODUCT_REGISTERS;
  config->workgroup = tile.tx * tile.ty;
  config->subgroup = rlx_target_choose_subgroup_size (target, config->workgroup, tile.registers);
  config->padded = count_padded_bytes (&tile) <= target->limits.max_workgroup_storage;
  config->whole = product->k > 0 && product->k % config->kt == 0;
  /* Counted for these only; splits are multiples of 64. */
  config->turns = row == RLX_PRODUCT_TILES_128 && config->whole && product->k % (2 * config->kt) == 0 ? 2 : 1;
  *share = tile.share / rlx_target_get_spill_factor (target, config->workgroup, tile.registers);
}

/* ---- rows that a subgroup shares ------------------------------------------------------------ */

/* The lanes of a subgroup that has rows of its own: the size that Dawn requires, if lanes share registers. Only then
 * are the numbers of all lanes scalar operands. */
static guint
get_row_lanes (const RlxTarget *target)
{
  return target->registers_are_shared && target->subgroup_sizes_can_be_set && target->subgroup_size <= ROWS_WORKGROUP / 8
           ? target->subgroup_size : 0;
}

const char *
rlx_product_check_rows (const RlxTarget  *target,
                        const RlxProduct *product)
{
  RlxProductKernel config = { 0 };

  if (get_row_lanes (target) == 0)
    return "an operand that all lanes share is not free here";
  if (product->k == 0)
    return "there is nothing to add up";
  rlx_product_choose_vectors (&config, product);
  if (!config.a_along_k || !config.a_vectors || product->m < 8)
    return "rows cannot be read in whole vectors along the sum, or are fewer than 8";
  if (product->window != NULL && (product->window->x == product->a || product->window->split > 0))
    return "does not support windows";
  return NULL;
}

/* 8 · 2 sums per lane need the fewest reads of workgroup memory. 4 · 4 convert half as many half floats and compute half
 * as many addresses, which matters if floats and integers share a pipe: on chips without matrix units. With few rows, 4 ·
 * 2 leave less of a tile empty, and make more workgroups; with the addresses of a window they do not spill, while 8 · 2,
 * and 4 · 4 of half floats, do. */
void
rlx_product_use_rows (RlxProductKernel *config,
                      const RlxTarget  *target,
                      const RlxProduct *product,
                      guint64           n_batch,
                      double           *share)
{
  guint lanes = get_row_lanes (target);
  gboolean wide = (product->a->type.data_type == RLX_DATA_TYPE_F16 && product->window == NULL) || target->n_matrices == 0;

  config->rows = TRUE;
  config->subgroup = lanes;
  config->tx = lanes;
  config->tn = wide ? 4 : 2;
  config->tm = wide ? 4 : 8;
  /* A vector of `b` for each lane, for at most 16 steps. */
  config->workgroup = MIN (ROWS_WORKGROUP, lanes * (wide ? 16 : 8));
  config->ty = config->workgroup / lanes;
  if (product->scales != NULL)
    {
      /* Words of four columns would need more registers than there are. */
      config->tn = 2;
      config->tm = 8;
      config->workgroup = MIN (ROWS_WORKGROUP, lanes * 8);
      config->ty = config->workgroup / lanes;
    }
  config->kt = product->blocks != NULL ? CHUNK : 4 * config->ty / config->tn;
  if (!wide && (product->window != NULL || product->m <= config->ty * 4 ||
                (double) (rlx_divide_up (product->m, config->ty * 8) * rlx_divide_up (product->n, lanes * 2) * n_batch) <
                count_wanted (target, config->workgroup)))
    config->tm = 4;
  config->whole = product->k % config->kt == 0;
  config->unit = 4;
  while (config->whole && config->unit < MIN (config->kt, MAX_UNIT) && product->a_m % (2 * config->unit) == 0 &&
         rlx_product_is_even_batch (&product->batch, 0, 2 * config->unit))
    config->unit *= 2;
  *share = config->tm == 8 || wide ? 0.9 : 0.7;
}

/* ---- the variants --------------------------------------------------------------------------- */

static RlxProductKernel
choose_config (const RlxVariant        *self,
               const RlxTarget         *target,
               const RlxProductProblem *problem,
               double                  *share)
{
  RlxProductVariant row = GPOINTER_TO_UINT (self->data);
  const RlxProduct *product = &problem->product;
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_TILES, .transposed = problem->is_transposed };

  if (row == RLX_PRODUCT_ROWS)
    rlx_product_use_rows (&config, target, product, problem->n_batch, share);
  else
    use_tile (&config, target, product, row, share);
  config.tiles_m = rlx_divide_up (product->m, config.ty * config.tm);
  config.tiles_n = rlx_divide_up (product->n, config.tx * config.tn);
  return config;
}

gboolean
rlx_product_has_no_tiles (const RlxTarget *target)
{
  for (guint i = RLX_PRODUCT_TILES_128; i <= RLX_PRODUCT_REGISTERS; i++)
    if (!rlx_speeds_is_banned (&target->speeds, RLX_FAMILY_PRODUCT, i))
      return FALSE;
  return TRUE;
}

/* Known objections to a kind of tile, for a device that was not measured. */
static const char *
find_obstacle (RlxProductVariant row,
               const RlxTarget  *target)
{
  if (target->speeds.measured)
    return NULL;
  if (row == RLX_PRODUCT_REGISTERS && target->workgroup_memory_is_fast)
    return "workgroup memory is fast here";
  if (row != RLX_PRODUCT_REGISTERS && !target->workgroup_memory_is_fast)
    return "workgroup memory is slow here";
  return NULL;
}

RlxFit
rlx_product_tiles_fits (const RlxVariant *self,
                        const RlxTarget  *target,
                        gconstpointer     data,
                        const char      **why)
{
  const RlxProductProblem *problem = data;
  RlxProductVariant row = GPOINTER_TO_UINT (self->data);

  if (problem->product.packed && !target->loads_coalesce)
    return rlx_variant_cannot ("does not support panels on a CPU", why);
  if (row == RLX_PRODUCT_ROWS && (*why = rlx_product_check_rows (target, &problem->product)) != NULL)
    return RLX_FIT_NO;
  if ((*why = rlx_product_find_better (problem)) != NULL)
    return RLX_FIT_POORLY;
  if (rlx_product_prefers_lanes (target, problem))
    return rlx_variant_poorly (problem->product.m <= 8 ? "8 rows or fewer leave most of a tile empty" : "tiles are no faster than lanes here", why);
  *why = find_obstacle (row, target);
  return *why != NULL ? RLX_FIT_POORLY : RLX_FIT_WELL;
}

/* A partly empty tile takes as long as a full one, and too few tiles leave cores idle. */
double
rlx_product_tiles_cost (const RlxVariant *self,
                        const RlxTarget  *target,
                        gconstpointer     data)
{
  const RlxProductProblem *problem = data;
  const RlxProduct *product = &problem->product;
  double share, operations, factor;
  RlxProductKernel config = choose_config (self, target, problem, &share);
  guint64 bm = config.ty * config.tm, bn = config.tx * config.tn;

  operations = 2.0 * (double) MAX (product->k, 1) * (double) (config.tiles_m * bm * config.tiles_n * bn * problem->n_batch);
  factor = rlx_product_share_out (&config, product, problem->n_batch, target);
  return operations / target->speeds.flops / share * factor * (find_obstacle (GPOINTER_TO_UINT (self->data), target) != NULL ? 16.0 : 1.0);
}

/* Mostly the original layout: a tile reads at least 128 bytes of a row, which are whole cache lines wherever the rows
 * are, and columns along k are as good. But vectors require a number of columns, or of steps, that is a multiple of
 * four. */
RlxWeightLayout
rlx_product_tiles_layout (const RlxVariant *self,
                          const RlxTarget  *target,
                          gconstpointer     data)
{
  const RlxProductProblem *problem = data;
  const RlxProductWindow *window = problem->product.window;
  RlxProductKernel plain = { 0 };

  if (!rlx_product_can_use_panels (problem) || !target->loads_coalesce ||
      (window != NULL && (window->x == problem->product.b || window->split > 0)))
    return rlx_weight_in_panels (0);
  rlx_product_choose_vectors (&plain, &problem->product);
  return rlx_weight_in_panels (plain.b_vectors ? 0 : RLX_PRODUCT_PANEL);
}

gboolean
rlx_product_tiles_describe (const RlxVariant *self,
                            RlxLower         *lower,
                            const RlxIrNode  *node,
                            gconstpointer     data,
                            GError          **error)
{
  const RlxProductProblem *problem = data;
  const RlxTarget *target = rlx_lower_get_target (lower);
  RlxProduct product = problem->product;
  double share;
  RlxProductKernel config = choose_config (self, target, problem, &share);

  config.panel = rlx_product_take_panels (self, lower, problem, &product);
  rlx_product_choose_vectors (&config, &product);
  rlx_product_share_out (&config, &product, problem->n_batch, target);
  return rlx_lower_product_kernel (lower, node, problem->given, &product, problem->n_batch, &config, error);
}
