/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Chooses how a product uses the matrix units of a GPU. The head of
 * kernels/matmul-matrix.wgsl explains the numbers; plan/rlx-f16-weights.c decides which
 * weights may be rounded for it.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

/* The limits that every device has. */
#define MAX_INVOCATIONS 256
#define MAX_STORAGE 16384
/* For the sums of an invocation; everything else takes as many registers again. */
#define MAX_SUMS 64
/* For devices whose lanes share the registers of a subgroup. Matrix units write their sums elsewhere and copy them back,
 * so each counts twice, and nothing is left for the next tile. A small tile has few lanes to load its elements, each of
 * which loads more. In larger workgroups each lane loads fewer elements into workgroup memory. */
#define MAX_SHARED_SUMS 32
#define MAX_SHARED_SUMS_SMALL 16
#define MAX_SHARED_INVOCATIONS 512
/* With less, tiles are mostly empty. */
#define MIN_ROWS 16
#define MIN_STEPS 32

static const guint tile_sizes[] = { 128, 64, 32 };

static guint64
round_up (guint64 a,
          guint64 b)
{
  return (a + b - 1) / b * b;
}

gboolean
rlx_matrix_config_is_usable (const RlxTarget      *target,
                             const RlxMatrixShape *config)
{
  if (config->result != RLX_COMPONENT_F32)
    return FALSE;
  if (config->component == RLX_COMPONENT_F16)
    return (target->features & RLX_DEVICE_FEATURES_F16) != 0;
  return config->component == RLX_COMPONENT_F32;
}

gboolean
rlx_matrix_config_is_better (const RlxMatrixShape *a,
                             const RlxMatrixShape *b)
{
  /* Half the bytes count for more than more products at once. */
  if (a->component != b->component)
    return a->component == RLX_COMPONENT_F16;
  return a->m * a->n * a->k > b->m * b->n * b->k;
}

static const RlxMatrixShape *
find_config (const RlxTarget *target)
{
  const RlxMatrixShape *best = NULL;

  if (!(target->features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX))
    return NULL;
  for (guint i = 0; i < target->n_matrices; i++)
    {
      const RlxMatrixShape *config = &target->matrices[i];

      if (rlx_matrix_config_is_usable (target, config) && (best == NULL || rlx_matrix_config_is_better (config, best)))
        best = config;
    }
  return best;
}

/* What a tile of @rows by @columns may use of the device. */
typedef struct
{
  gboolean sizes;          /* subgroup sizes can be requested */
  guint subgroup, max_invocations, max_sums;
} Room;

static Room
get_room (const RlxTarget *target,
          guint            rows,
          guint            columns)
{
  gboolean sizes = target->registers_are_shared && target->subgroup_sizes_can_be_set;
  guint subgroup = sizes ? target->subgroup_min : target->subgroup_size;

  return (Room) {
    sizes, subgroup, MIN (sizes ? MAX_SHARED_INVOCATIONS : MAX_INVOCATIONS, rlx_target_get_max_workgroup (target, subgroup)),
    !target->registers_are_shared ? MAX_SUMS : rows * columns > 64 * 64 ? MAX_SHARED_SUMS : MAX_SHARED_SUMS_SMALL,
  };
}

/* As few workers as can keep the sums in registers, or four if there is room. */
static gboolean
fill_tile (RlxProductMatrix     *matrix,
           const RlxTarget      *target,
           const RlxMatrixShape *config,
           guint                 size)
{
  Room room = get_room (target, size, size);
  guint subgroup = room.subgroup, workers, storage;

  if (subgroup == 0 || subgroup > room.max_invocations || config->m == 0 || config->n == 0 || config->k == 0)
    return FALSE;
  workers = MIN (4, room.max_invocations / subgroup);
  while (size * size > workers * subgroup * room.max_sums)
    workers *= 2;

  matrix->half = config->component == RLX_COMPONENT_F16;
  matrix->m = config->m;
  matrix->n = config->n;
  matrix->k = config->k;
  matrix->rows = matrix->columns = size;
  matrix->wm = workers >= 16 ? 4 : workers >= 4 ? 2 : 1;
  matrix->wn = workers / matrix->wm;
  matrix->kt = MAX (config->k, (size == 128 ? 8 : 16) * (matrix->half ? 2 : 1));
  matrix->subgroup = room.sizes ? subgroup : 0;
  matrix->workgroup = workers * subgroup;
  storage = 2 * size * matrix->kt * (matrix->half ? 2 : 4) + workers * config->m * config->n * 4;
  return matrix->workgroup <= room.max_invocations && storage <= MIN (MAX_STORAGE, target->limits.max_workgroup_storage) &&
         size % (matrix->wm * config->m) == 0 && size % (matrix->wn * config->n) == 0 && matrix->kt % config->k == 0 &&
         config->k % 4 == 0 && config->n % 4 == 0 && config->m % 4 == 0;
}

/* The largest tile of which there are enough to occupy every core, otherwise the smallest. */
static gboolean
choose_tile (RlxProductMatrix     *matrix,
             const RlxTarget      *target,
             const RlxMatrixShape *config,
             const RlxProduct     *product,
             guint64               n_batch,
             guint64               wanted)
{
  gboolean found = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (tile_sizes); i++)
    {
      guint size = tile_sizes[i];
      RlxProductMatrix tile;

      if (!fill_tile (&tile, target, config, size))
        continue;
      *matrix = tile;
      found = TRUE;
      if (round_up (product->m, size) / size * (round_up (product->n, size) / size) * n_batch >= wanted)
        break;
    }
  return found;
}

/* At least half of the smallest tiles must be filled. */
static gboolean
is_worth_it (const RlxProduct *product)
{
  guint64 size = tile_sizes[G_N_ELEMENTS (tile_sizes) - 1];

  return product->m >= MIN_ROWS && product->n >= MIN_ROWS && product->k >= MIN_STEPS &&
         2 * product->m * product->n >= round_up (product->m, size) * round_up (product->n, size);
}

/* On a CPU, matrix units are emulated in many small steps. */
gboolean
rlx_product_has_matrix (RlxLower *lower)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxMeasurement *measured = &target->speeds.variants[RLX_FAMILY_PRODUCT][RLX_PRODUCT_MATRIX];

  if (rlx_lower_get_precision (lower) < RLX_PRECISION_REDUCED || !target->matrices_are_fast ||
      rlx_speeds_is_banned (&target->speeds, RLX_FAMILY_PRODUCT, RLX_PRODUCT_MATRIX) || find_config (target) == NULL)
    return FALSE;
  return measured->seconds == 0.0 || measured->flops > target->speeds.flops;
}

const char *
rlx_product_choose_matrix (RlxLower         *lower,
                           const RlxIrNode  *node,
                           const RlxProduct *product,
                           guint64           n_batch,
                           guint64           wanted,
                           RlxProductMatrix *matrix,
                           guint            *condition)
{
  static const char not_well[] = "the weight does not fit f16 well enough";
  const RlxTarget *target = rlx_lower_get_target (lower);

  *condition = 0;
  if (product->packed || product->window != NULL)
    return "supports neither panels nor windows";
  if (rlx_lower_get_precision (lower) < RLX_PRECISION_REDUCED)
    return "the graph asks for full precision";
  if (!rlx_product_has_matrix (lower))
    return "no matrix units that are faster";
  if (!is_worth_it (product))
    return "too small for tiles of matrices";
  if (!choose_tile (matrix, target, find_config (target), product, n_batch, wanted))
    return "no tile fits the limits of the device";

  /* Nothing is rounded, or everything already was. */
  matrix->exact = product->a->type.data_type == RLX_DATA_TYPE_F16 && product->b->type.data_type == RLX_DATA_TYPE_F16;
  if (!matrix->half || matrix->exact)
    return NULL;
  if (product->a->type.data_type != RLX_DATA_TYPE_F32 || product->b->type.data_type != RLX_DATA_TYPE_F32)
    return "operands of different types";
  if (rlx_lower_is_weight (lower, product->b))
    return rlx_lower_can_cast_f16 (lower, node, product->b, product->k, product->n, product->b_k, product->b_n, condition) ? NULL : not_well;
  if (rlx_lower_is_weight (lower, product->a))
    return rlx_lower_can_cast_f16 (lower, node, product->a, product->k, product->m, product->a_k, product->a_m, condition) ? NULL : not_well;
  return "no operand is a weight";
}

/* ---- pieces along k ------------------------------------------------------------------ */

/* The steps of a tile, and of a piece. */
#define PIECES_STEPS 32
#define PIECE 8
/* Sets the workers so that each reads as little as possible for its sums, in as few matrices as possible, since each costs
 * a check. */
static gboolean
fill_pieces (RlxProductMatrix     *matrix,
             const RlxTarget      *target,
             const RlxMatrixShape *config,
             guint                 rows,
             guint                 columns)
{
  Room room = get_room (target, rows, columns);
  guint subgroup = room.subgroup, workers, storage, best = G_MAXUINT, fewest = G_MAXUINT;

  if (subgroup == 0 || subgroup > room.max_invocations || config->m % PIECE != 0 || config->n % PIECE != 0 || config->k % PIECE != 0 ||
      config->k == 0 || PIECES_STEPS % config->k != 0)
    return FALSE;
  workers = MIN (MAX (4, rows * columns / (subgroup * room.max_sums)), room.max_invocations / subgroup);
  if (rows * columns > workers * subgroup * room.max_sums)
    return FALSE;
  for (guint wm = 1; wm <= workers; wm *= 2)
    {
      guint wn = workers / wm, read = rows / wm + columns / wn, n_loads = rows / (wm * config->m) + columns / (wn * config->n);

      if (workers % wm != 0 || rows % (wm * config->m) != 0 || columns % (wn * config->n) != 0 || read > best ||
          (read == best && n_loads >= fewest))
        continue;
      best = read;
      fewest = n_loads;
      matrix->wm = wm;
      matrix->wn = wn;
    }
  matrix->half = TRUE;
  matrix->along_k = TRUE;
  matrix->ahead = !room.sizes;
  matrix->m = config->m;
  matrix->n = config->n;
  matrix->k = config->k;
  matrix->rows = rows;
  matrix->columns = columns;
  matrix->kt = PIECES_STEPS;
  matrix->subgroup = room.sizes ? subgroup : 0;
  matrix->workgroup = workers * subgroup;
  storage = (rows + columns) * PIECES_STEPS * 2 + workers * config->m * config->n * 4;
  return best < G_MAXUINT && storage <= target->limits.max_workgroup_storage;
}

gboolean
rlx_product_choose_pieces (const RlxTarget  *target,
                           const RlxProduct *product,
                           guint64           n_batch,
                           gboolean          packed,
                           RlxProductMatrix *matrix)
{
  static const guint tiles[][2] = { { 128, 128 }, { 128, 64 }, { 64, 64 }, { 32, 32 } };
  const RlxMatrixShape *config = find_config (target);
  RlxDataType b = packed ? RLX_DATA_TYPE_F16 : product->b->type.data_type;
  gboolean found = FALSE;

  if (config == NULL || config->component != RLX_COMPONENT_F16 || product->k == 0 ||
      product->a_k != 1 || product->a_m % PIECE != 0 || product->k % (packed ? PIECES_STEPS : PIECE) != 0 ||
      !rlx_product_is_even_batch (&product->batch, 0, PIECE) ||
      (!packed && (product->b_k != 1 || product->b_n % PIECE != 0 || !rlx_product_is_even_batch (&product->batch, 1, PIECE))) ||
      (product->a->type.data_type != RLX_DATA_TYPE_F16 && product->a->type.data_type != RLX_DATA_TYPE_F32) ||
      (b != RLX_DATA_TYPE_F16 && b != RLX_DATA_TYPE_F32))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      RlxProductMatrix tile = { .exact = product->a->type.data_type == RLX_DATA_TYPE_F16 && b == RLX_DATA_TYPE_F16 };

      if (!fill_pieces (&tile, target, config, tiles[i][0], tiles[i][1]))
        continue;
      *matrix = tile;
      found = TRUE;
      if (rlx_divide_up (product->m, tile.rows) * rlx_divide_up (product->n, tile.columns) * n_batch >= target->busy_workgroups)
        break;
    }
  return found;
}

void
rlx_product_describe_matrix (RlxKernel              *kernel,
                             const RlxProductMatrix *matrix)
{
  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_enable (kernel, "enable chromium_experimental_subgroup_matrix;");
  /* All invocations of a subgroup take the same branch, which depends on its index. */
  rlx_kernel_enable (kernel, "diagnostic(off, chromium.subgroup_matrix_uniformity);");
  if (matrix->half)
    rlx_kernel_enable (kernel, "enable f16;");
  rlx_kernel_define (kernel, "HALF", matrix->half);
  rlx_kernel_define (kernel, "EXACT", matrix->exact);
  rlx_kernel_define (kernel, "ROWS", matrix->along_k);
  rlx_kernel_define (kernel, "AHEAD", matrix->ahead);
  rlx_kernel_set_subgroup_size (kernel, matrix->subgroup);
  rlx_kernel_define (kernel, "M", matrix->m);
  rlx_kernel_define (kernel, "N", matrix->n);
  rlx_kernel_define (kernel, "K", matrix->k);
  rlx_kernel_define (kernel, "KT", matrix->kt);
  rlx_kernel_define (kernel, "WM", matrix->wm);
  rlx_kernel_define (kernel, "WN", matrix->wn);
  rlx_kernel_define (kernel, "SM", matrix->rows / matrix->wm / matrix->m);
  rlx_kernel_define (kernel, "SN", matrix->columns / matrix->wn / matrix->n);
}
