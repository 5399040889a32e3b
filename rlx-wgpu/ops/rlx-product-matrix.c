/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Chooses how a product goes through the matrix units of a GPU; the head of
 * kernels/matmul-matrix.wgsl says what the numbers are, plan/rlx-narrow.c which
 * weights may.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

/* What every device has. */
#define MAX_INVOCATIONS 256
#define MAX_STORAGE 16384
/* For the sums of an invocation; as many again are for the rest. */
#define MAX_SUMS 64
/* Below that there is nothing to fill a tile with. */
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
rlx_matrix_config_is_usable (const RlxGpuAdapterInfo  *adapter,
                             const RlxGpuMatrixConfig *config)
{
  if (config->result != RLX_GPU_COMPONENT_F32)
    return FALSE;
  if (config->component == RLX_GPU_COMPONENT_F16)
    return (adapter->features & RLX_DEVICE_FEATURES_F16) != 0;
  return config->component == RLX_GPU_COMPONENT_F32;
}

gboolean
rlx_matrix_config_is_better (const RlxGpuMatrixConfig *a,
                             const RlxGpuMatrixConfig *b)
{
  /* Half the bytes before more products at once. */
  if (a->component != b->component)
    return a->component == RLX_GPU_COMPONENT_F16;
  return a->m * a->n * a->k > b->m * b->n * b->k;
}

static const RlxGpuMatrixConfig *
find_config (const RlxGpuAdapterInfo *adapter)
{
  const RlxGpuMatrixConfig *best = NULL;

  if (!(adapter->features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX))
    return NULL;
  for (guint i = 0; i < adapter->n_matrix_configs; i++)
    {
      const RlxGpuMatrixConfig *config = &adapter->matrix_configs[i];

      if (rlx_matrix_config_is_usable (adapter, config) && (best == NULL || rlx_matrix_config_is_better (config, best)))
        best = config;
    }
  return best;
}

/* Where the driver may choose, what Dawn asks of Intel's, and what others give. */
static guint
guess_subgroup (const RlxGpuAdapterInfo *adapter)
{
  if (adapter->vendor_id == 0x8086 && adapter->subgroup_min <= 16 && adapter->subgroup_max >= 16)
    return 16;
  return adapter->subgroup_max;
}

/* As few workers as keep the sums in registers, four if there is room. */
static gboolean
fill_tile (RlxProductMatrix         *matrix,
           const RlxGpuAdapterInfo  *adapter,
           const RlxGpuMatrixConfig *config,
           guint                     size)
{
  guint subgroup = guess_subgroup (adapter);
  guint max_invocations = MIN (MAX_INVOCATIONS, MIN (adapter->limits.max_invocations, adapter->limits.max_workgroup_size[0]));
  guint workers, storage;

  if (subgroup == 0 || subgroup > max_invocations || config->m == 0 || config->n == 0 || config->k == 0)
    return FALSE;
  workers = MIN (4, max_invocations / subgroup);
  while (size * size > workers * subgroup * MAX_SUMS)
    workers *= 2;

  matrix->half = config->component == RLX_GPU_COMPONENT_F16;
  matrix->m = config->m;
  matrix->n = config->n;
  matrix->k = config->k;
  matrix->size = size;
  matrix->wm = workers >= 16 ? 4 : workers >= 4 ? 2 : 1;
  matrix->wn = workers / matrix->wm;
  matrix->kt = MAX (config->k, (size == 128 ? 8 : 16) * (matrix->half ? 2 : 1));
  matrix->workgroup = workers * subgroup;
  storage = 2 * size * matrix->kt * (matrix->half ? 2 : 4) + workers * config->m * config->n * 4;
  return matrix->workgroup <= max_invocations && storage <= MIN (MAX_STORAGE, adapter->limits.max_workgroup_storage) &&
         size % (matrix->wm * config->m) == 0 && size % (matrix->wn * config->n) == 0 && matrix->kt % config->k == 0 &&
         config->k % 4 == 0 && config->n % 4 == 0 && config->m % 4 == 0;
}

/* The largest tile that leaves every core of the device one, else the smallest. */
static gboolean
choose_tile (RlxProductMatrix         *matrix,
             const RlxGpuAdapterInfo  *adapter,
             const RlxGpuMatrixConfig *config,
             const RlxProduct         *product,
             guint64                   n_batch,
             guint64                   wanted)
{
  gboolean found = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (tile_sizes); i++)
    {
      guint size = tile_sizes[i];
      RlxProductMatrix tile;

      if (!fill_tile (&tile, adapter, config, size))
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

/* On a CPU the units are made of many small steps. */
gboolean
rlx_product_has_matrix (RlxLower *lower)
{
  const RlxGpuAdapterInfo *adapter = rlx_lower_get_adapter (lower);

  if (rlx_lower_get_precision (lower) != RLX_PRECISION_REDUCED || adapter->type == RLX_ADAPTER_TYPE_CPU ||
      (adapter->figures.banned_products >> RLX_GPU_PRODUCT_MATRIX & 1) != 0 || find_config (adapter) == NULL)
    return FALSE;
  if (adapter->figures.measured)
    for (guint i = 0; i < RLX_GPU_PRODUCT_MATRIX; i++)
      if (adapter->figures.product_flops[i] >= adapter->figures.product_flops[RLX_GPU_PRODUCT_MATRIX])
        return FALSE;
  return TRUE;
}

gboolean
rlx_product_choose_matrix (RlxLower         *lower,
                           const RlxIrNode  *node,
                           const RlxProduct *product,
                           guint64           n_batch,
                           guint64           wanted,
                           RlxProductMatrix *matrix,
                           guint            *condition)
{
  const RlxGpuAdapterInfo *adapter = rlx_lower_get_adapter (lower);

  *condition = 0;
  if (product->packed || product->window != NULL || !rlx_product_has_matrix (lower) || !is_worth_it (product) ||
      !choose_tile (matrix, adapter, find_config (adapter), product, n_batch, wanted))
    return FALSE;

  /* Nothing is rounded, or nothing that was not. */
  matrix->exact = product->a->type.dtype == RLX_DATA_TYPE_F16 && product->b->type.dtype == RLX_DATA_TYPE_F16;
  if (!matrix->half || matrix->exact)
    return TRUE;
  if (product->a->type.dtype != RLX_DATA_TYPE_F32 || product->b->type.dtype != RLX_DATA_TYPE_F32)
    return FALSE;
  if (rlx_lower_is_weight (lower, product->b))
    return rlx_lower_can_narrow (lower, node, product->b, product->k, product->n, product->b_k, product->b_n, condition);
  if (rlx_lower_is_weight (lower, product->a))
    return rlx_lower_can_narrow (lower, node, product->a, product->k, product->m, product->a_k, product->a_m, condition);
  return FALSE;
}

void
rlx_product_describe_matrix (RlxKernel              *kernel,
                             const RlxProductMatrix *matrix)
{
  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_enable (kernel, "enable chromium_experimental_subgroup_matrix;");
  /* A subgroup goes one way: its number decides. */
  rlx_kernel_enable (kernel, "diagnostic(off, chromium.subgroup_matrix_uniformity);");
  if (matrix->half)
    rlx_kernel_enable (kernel, "enable f16;");
  rlx_kernel_define (kernel, "HALF", matrix->half);
  rlx_kernel_define (kernel, "EXACT", matrix->exact);
  rlx_kernel_define (kernel, "M", matrix->m);
  rlx_kernel_define (kernel, "N", matrix->n);
  rlx_kernel_define (kernel, "K", matrix->k);
  rlx_kernel_define (kernel, "KT", matrix->kt);
  rlx_kernel_define (kernel, "WM", matrix->wm);
  rlx_kernel_define (kernel, "WN", matrix->wn);
  rlx_kernel_define (kernel, "SM", matrix->size / matrix->wm / matrix->m);
  rlx_kernel_define (kernel, "SN", matrix->size / matrix->wn / matrix->n);
}
