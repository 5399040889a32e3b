/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Chooses how the product of two matrices is computed: the heads of
 * kernels/matmul.wgsl, kernels/matmul-shuffle.wgsl, kernels/matmul-tile.wgsl,
 * kernels/matmul-registers.wgsl and kernels/matmul-matrix.wgsl say what the ways are
 * and why.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

#include "rlx-tuning-private.h"

void
rlx_product_loop_add (RlxProductLoop *loop,
                      guint64         dim,
                      guint64         stride0,
                      guint64         stride1)
{
  guint last = loop->rank - 1;

  if (dim == 1)
    return;

  if (loop->rank > 0 &&
      stride0 == loop->strides[0][last] * loop->dims[last] &&
      stride1 == loop->strides[1][last] * loop->dims[last])
    {
      loop->dims[last] *= dim;
      return;
    }

  loop->dims[loop->rank] = dim;
  loop->strides[0][loop->rank] = stride0;
  loop->strides[1][loop->rank] = stride1;
  loop->rank++;
}

static void
swap (guint64 *a,
      guint64 *b)
{
  guint64 c = *a;

  *a = *b;
  *b = c;
}

/* One way to compute a product, and its numbers. */
typedef struct
{
  enum { LANES, TILES, DOT, MATRIX } kind;
  gboolean turned;        /* rows and columns have changed places */
  guint64 workgroup;
  guint64 lanes, slices;  /* LANES */
  guint64 tx, ty, kt;     /* TILES */
  gboolean registers;     /* without workgroup memory */
  gboolean a_along_k, b_along_k, a_vectors, b_vectors;
  guint64 tm, tn;
  guint64 tiles_m, tiles_n;
  guint64 parts, part_k;  /* of the sum */
  guint64 n_groups;
  gboolean panel, pairs, vectors;
  gboolean shuffle;       /* LANES whose words of a come through shuffles */
  gboolean a_pairs;
  gboolean even;          /* every workgroup has all of its rows and columns, and one result */
  guint64 unroll;
  RlxProductMatrix matrix; /* MATRIX */
} Way;

static guint64
divide_up (guint64 a,
           guint64 b)
{
  return (a + b - 1) / b;
}

/* Whether a whole workgroup should share the sum of each output. Measured on a
 * CPU adapter, where eight lanes fill a core: only when there are fewer outputs
 * than lanes. A GPU wants thousands of lanes, and neighbouring ones at
 * neighbouring addresses. */
static gboolean
prefer_dot (const RlxProduct *product,
            guint64           n_outputs,
            gboolean          cpu)
{
  if (product->k >= 256 && n_outputs <= (cpu ? 16 : 2048))
    return TRUE;
  return !cpu && product->k >= 64 && n_outputs <= 1 << 20 &&
         MIN (product->m, product->n) <= 4 && product->a_k == 1 && product->b_k == 1;
}

/* Larger tiles save loads, but they take a CPU driver longer to compile than a small
 * product saves. */
static void
enlarge_tile (Way              *way,
              const RlxProduct *product,
              guint64           n_batch,
              double            n_products)
{
  guint64 m = product->m, n = product->n;
  gboolean half = product->b->type.dtype == RLX_DATA_TYPE_F16;

  if (m > 16 && divide_up (m, 32) * 2 == divide_up (m, 16) && n_products >= 1 << 24)
    way->tm = 32;
  /* A gather of half floats has two vectors of columns. */
  if (n >= 64 && way->tn == 4 &&
      ((way->tm == 32 && n_products >= 1 << 27) || (way->tm == 1 && half && n_products >= 1 << 21)) &&
      divide_up (m, way->tm) * divide_up (n, 64) * n_batch >= 16)
    way->tn = 8;
}

static void
choose_lanes (Way              *way,
              const RlxProduct *product,
              guint64           n_batch,
              guint64           wanted,
              gboolean          cpu)
{
  guint64 m = product->m, n = product->n;
  double n_products = (double) m * (double) n * (double) n_batch * (double) MAX (product->k, 1);

  way->kind = LANES;
  way->slices = 1;
  if (m == 1)
    way->tm = 1;
  else if (m <= 4)
    way->tm = 4;
  /* Sixteen rows take a CPU driver longer to compile than a small product saves. */
  else if (m <= 8 || !cpu || n_products < 1 << 22)
    way->tm = 8;
  else
    way->tm = 16;

  if (cpu)
    {
      way->tn = way->panel || n > 16 ? RLX_PRODUCT_PANEL / 8 : n > 8 ? 2 : 1;
      if (way->shuffle)
        enlarge_tile (way, product, n_batch, n_products);
      /* Wide rows: the more of one is read at once the better, unless it is
       * packed. */
      way->lanes = way->panel ? 8 : 64;
      while (way->lanes > 8 &&
             (way->lanes * MAX (way->tn, 4) > n ||
              divide_up (m, way->tm) * divide_up (n, way->lanes * MAX (way->tn, 4)) * n_batch < wanted))
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
  way->tiles_m = divide_up (m, way->tm);
  way->tiles_n = divide_up (n, way->lanes * way->tn);
}

/* The last column is how many registers an invocation takes, by estimate: sums, the
 * operands of four steps, the vectors that come next, and addresses. */
static const struct
{
  RlxGpuProduct product;
  guint tx, ty, tm, tn, kt;
  guint registers;
} tiles[] = {
  { RLX_GPU_PRODUCT_TILES_128, 16, 16, 8, 8, 8, 130 },
  { RLX_GPU_PRODUCT_TILES_64, 16, 16, 4, 4, 16, 60 },
  { RLX_GPU_PRODUCT_TILES_32, 8, 8, 4, 4, 8, 60 },
  { RLX_GPU_PRODUCT_REGISTERS, 8, 8, 4, 4, 4, 52 },
};

static gboolean
is_banned (const RlxGpuAdapterInfo *adapter,
           RlxGpuProduct            product)
{
  return (adapter->figures.banned_products >> product & 1) != 0;
}

/* A difference that is smaller says nothing. */
#define CLEARLY 1.03

gboolean
rlx_product_can_be_packed (const RlxGpuAdapterInfo *adapter)
{
  /* For a CPU there is one kernel that takes panels, for a GPU all but dot do. */
  return adapter->type != RLX_ADAPTER_TYPE_CPU || !is_banned (adapter, RLX_GPU_PRODUCT_LANES);
}

gboolean
rlx_product_takes_windows (const RlxGpuAdapterInfo *adapter)
{
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    if (!is_banned (adapter, tiles[i].product))
      return adapter->type != RLX_ADAPTER_TYPE_CPU;
  return FALSE;
}

gboolean
rlx_product_has_shuffles (const RlxGpuAdapterInfo *adapter)
{
  return adapter->type == RLX_ADAPTER_TYPE_CPU && (adapter->features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0 &&
         adapter->subgroup_min == 8 && adapter->subgroup_max == 8;
}

/* Whether the sums are long enough for what shuffles cost before and after them:
 * measured, for 64 steps it takes longer, for 128 0.8 of the time. */
static gboolean
can_shuffle (const RlxGpuAdapterInfo *adapter,
             const RlxProduct        *product)
{
  return rlx_product_has_shuffles (adapter) && product->k >= 128;
}

/* Whether invocations go side by side along the columns, and not in tiles. */
static gboolean
prefer_lanes (const RlxGpuAdapterInfo *adapter,
              const RlxProduct        *product)
{
  const double *flops = adapter->figures.product_flops;
  gboolean any_tiles = FALSE;
  double best = 0.0;

  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    if (!is_banned (adapter, tiles[i].product))
      {
        any_tiles = TRUE;
        best = MAX (best, flops[tiles[i].product]);
      }

  if ((product->packed && adapter->type == RLX_ADAPTER_TYPE_CPU) || !any_tiles)
    return TRUE;
  if (product->window != NULL)
    return FALSE;
  if (is_banned (adapter, RLX_GPU_PRODUCT_LANES))
    return FALSE;
  if (product->m <= 8)
    return TRUE;
  if (adapter->figures.measured)
    return best <= flops[RLX_GPU_PRODUCT_LANES] * CLEARLY;
  return adapter->type == RLX_ADAPTER_TYPE_CPU;
}

/* Whether a way may be taken at all: for a device that was not measured, only what
 * suits what is known of it, unless nothing does. */
static gboolean
is_candidate (const RlxGpuAdapterInfo *adapter,
              guint                    index)
{
  RlxGpuTraits traits = rlx_gpu_adapter_info_get_traits (adapter);
  gboolean suits[G_N_ELEMENTS (tiles)], any = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      suits[i] = !is_banned (adapter, tiles[i].product) && tiles[i].registers <= traits.registers &&
                 (tiles[i].product != RLX_GPU_PRODUCT_REGISTERS) == traits.workgroup_memory;
      any = any || suits[i];
    }
  return any && !adapter->figures.measured ? suits[index] : !is_banned (adapter, tiles[index].product);
}

/* The largest tile that leaves every core of the device one and is not half empty, else the
 * smallest;
 * on a device that was measured the one that takes the least time. What was
 * measured had too few tiles for the device, too, when they were large. */
static void
choose_tiles (Way                     *way,
              const RlxGpuAdapterInfo *adapter,
              const RlxProduct        *product,
              guint64                  n_batch,
              guint64                  wanted)
{
  double least = G_MAXDOUBLE;

  way->kind = TILES;
  for (guint i = 0; i < G_N_ELEMENTS (tiles); i++)
    {
      guint64 rows = tiles[i].ty * tiles[i].tm, cols = tiles[i].tx * tiles[i].tn;
      guint64 tiles_m = divide_up (product->m, rows), tiles_n = divide_up (product->n, cols);
      guint64 n_groups = tiles_m * tiles_n * n_batch;
      guint64 measured = divide_up (RLX_GPU_MEASURED_SIZE, rows) * divide_up (RLX_GPU_MEASURED_SIZE, cols);
      double time = 1.0;

      if (!is_candidate (adapter, i))
        continue;
      if (adapter->figures.measured)
        {
          time = (double) (n_groups * rows * cols) / adapter->figures.product_flops[tiles[i].product] *
                 (double) MIN (measured, wanted) / (double) MIN (n_groups, wanted);
          if (way->tx != 0 && time * CLEARLY > least)
            continue;
        }
      least = time;
      way->tx = tiles[i].tx;
      way->ty = tiles[i].ty;
      way->tm = tiles[i].tm;
      way->tn = tiles[i].tn;
      way->kt = tiles[i].kt;
      way->registers = tiles[i].product == RLX_GPU_PRODUCT_REGISTERS;
      way->workgroup = way->tx * way->ty;
      way->tiles_m = tiles_m;
      way->tiles_n = tiles_n;
      if (!adapter->figures.measured && n_groups >= wanted && product->m * 2 > rows && product->n * 2 > cols)
        break;
    }
}

/* Too few workgroups for the device share sums that are long enough. */
static void
choose_parts (Way              *way,
              const RlxProduct *product,
              guint64           n_batch,
              guint64           wanted)
{
  guint64 step = 64;

  way->parts = 1;
  if (n_batch > 1 || way->n_groups >= wanted || product->k < 512)
    return;
  way->parts = MIN (MIN (divide_up (wanted, way->n_groups), product->k / 256), 16);
  way->part_k = divide_up (divide_up (product->k, way->parts), step) * step;
  way->parts = divide_up (product->k, way->part_k);
}

static gboolean
is_even_batch (const RlxProductLoop *batch,
               guint                 index,
               guint64               unit)
{
  for (guint i = 0; i < batch->rank; i++)
    if (batch->strides[index][i] % unit != 0)
      return FALSE;
  return TRUE;
}

/* Which way the vectors of each operand go, and whether each is one load. */
static void
choose_vectors (Way              *way,
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

/* Whether a GPU reads a weight better in panels. Mostly not: a tile reads 128 bytes or more
 * of a row, which are whole lines of every cache wherever the rows are, and columns that
 * lie along k are as good. But neighbouring lanes without tiles want neighbouring columns,
 * and vectors want a number of columns, or of steps, that is a multiple of four. */
static gboolean
gains_by_panels (const Way        *way,
                 const RlxProduct *product,
                 gboolean          lanes)
{
  Way plain = *way;

  if (way->turned || product->k == 0 || product->n < RLX_PRODUCT_PANEL / 2 || product->batch.rank > 0 ||
      (product->window != NULL && (product->window->x == product->b || product->window->split > 0)))
    return FALSE;
  if (lanes)
    return product->b_n != 1;
  choose_vectors (&plain, product);
  return !plain.b_vectors;
}

static void
describe_operand (RlxKernel        *kernel,
                  const char       *name,
                  const RlxIrValue *value,
                  guint             width)
{
  if (width > 1)
    rlx_kernel_input_vector (kernel, name, value, width);
  else
    rlx_kernel_input (kernel, name, value);
}

static void
describe_window (RlxKernel              *kernel,
                 const RlxProductWindow *window,
                 gboolean                is_a)
{
  rlx_kernel_define (kernel, "X_A", is_a);
  rlx_kernel_define (kernel, "X_VECTORS", window->vectors);
  rlx_kernel_define (kernel, "C_INNER", window->c_inner);
  rlx_kernel_define (kernel, "RANK", window->rank);
  rlx_kernel_param_u32 (kernel, "c", window->c);
  rlx_kernel_param_u32 (kernel, "x_channel", window->x_channel);
  rlx_kernel_param_u32 (kernel, "x_image", window->x_image);
  for (guint d = 0; d < window->rank; d++)
    {
      rlx_kernel_param_u32_at (kernel, "in", d, window->in[d]);
      rlx_kernel_param_u32_at (kernel, "out", d, window->out[d]);
      rlx_kernel_param_u32_at (kernel, "tap", d, window->taps[d]);
      rlx_kernel_param_u32_at (kernel, "stride", d, window->strides[d]);
      rlx_kernel_param_u32_at (kernel, "dilation", d, window->dilations[d]);
      rlx_kernel_param_u32_at (kernel, "begin", d, window->begins[d]);
      rlx_kernel_param_u32_at (kernel, "x_axis", d, window->x_axes[d]);
    }
  if (window->split > 0)
    {
      rlx_kernel_param_u32 (kernel, "split", window->split);
      rlx_kernel_param_u32 (kernel, "split_stride", window->split_stride);
    }
}

/* How a lane of LANES reads its operands. */
static void
choose_loads (Way              *way,
              const RlxProduct *product)
{
  gboolean along_k = product->k > 0 && product->a_k == 1;

  if (product->k == 0)
    return;

  way->pairs = product->b->type.dtype == RLX_DATA_TYPE_F16 && way->tn % 2 == 0 &&
               (way->panel || (product->b_n == 1 && product->b_k % 2 == 0 && product->n % 2 == 0 && is_even_batch (&product->batch, 1, 2)));
  if (way->shuffle)
    {
      way->unroll = way->tm == 1 ? 8 : 4;
      way->a_pairs = product->a->type.dtype == RLX_DATA_TYPE_F16 && along_k && product->a_m % 2 == 0 &&
                     product->k % way->unroll == 0 && is_even_batch (&product->batch, 0, 2);
    }
  else
    way->vectors = along_k && product->a_m % 4 == 0 && product->k % 4 == 0 && is_even_batch (&product->batch, 0, 4);
}

static void
describe_operands (RlxKernel        *kernel,
                   const RlxProduct *product,
                   const Way        *way)
{
  const RlxProductWindow *window = product->window;

  if (product->k > 0)
    {
      describe_operand (kernel, window && window->x == product->a ? "x" : "a", product->a,
                        way->a_pairs ? 2 : way->vectors || way->a_vectors ? 4 : 1);
      describe_operand (kernel, window && window->x == product->b ? "x" : "b", product->b,
                        way->pairs ? 2 : way->b_vectors ? 4 : 1);
    }
  rlx_kernel_define (kernel, "PRODUCT", product->k > 0);

  rlx_kernel_param_u32 (kernel, "k", product->k);
  rlx_kernel_param_u32 (kernel, "a_m", product->a_m);
  rlx_kernel_param_u32 (kernel, "a_k", product->a_k);
  rlx_kernel_param_u32 (kernel, "b_k", product->b_k);
  rlx_kernel_param_u32 (kernel, "b_n", product->b_n);
  for (guint i = 0; i < product->batch.rank; i++)
    {
      rlx_kernel_param_u32_at (kernel, "batch", i, product->batch.dims[i]);
      rlx_kernel_param_u32_at (kernel, "a_batch", i, product->batch.strides[0][i]);
      rlx_kernel_param_u32_at (kernel, "b_batch", i, product->batch.strides[1][i]);
    }
  rlx_kernel_define (kernel, "BATCH_DIMS", product->batch.rank);
  rlx_kernel_define (kernel, "A_SPLIT", window != NULL && window->split > 0);
  rlx_kernel_define (kernel, "B_SPLIT", window != NULL && window->split > 0);
  if (window != NULL)
    describe_window (kernel, window, window->x == product->a);
}

/* Whether no store needs a guard. The loop over the sums must be too long for the driver
 * to unroll it: it would keep each sum in a variable of its own then, and take half as
 * long again. */
static gboolean
is_even (const RlxGpuAdapterInfo *adapter,
         const RlxProduct        *product,
         const Way               *way)
{
  guint64 cols = way->lanes * way->tn;

  for (guint i = 0; i < product->n_outputs; i++)
    if (product->widths[i] % cols != 0)
      return FALSE;
  return way->tm * way->tn > 32 && product->m % way->tm == 0 && product->n % cols == 0 &&
         way->n_groups <= adapter->limits.max_workgroups;
}

/* What only the kernel with shuffles knows. */
static void
describe_shuffles (RlxKernel        *kernel,
                   const RlxProduct *product,
                   const Way        *way)
{
  guint64 per_a = way->a_pairs ? 2 : 1, per_b = way->pairs ? 2 : 1;
  guint64 words_a = rlx_type_n_elements (&product->a->type) / per_a;
  guint64 words_b = rlx_type_n_elements (&product->b->type) / per_b;
  guint64 block = way->unroll * RLX_PRODUCT_PANEL / per_b;

  if (way->panel)
    {
      words_b = divide_up (product->n, RLX_PRODUCT_PANEL) * RLX_PRODUCT_PANEL * product->k / per_b;
      /* The last words that are loaded ahead. */
      rlx_kernel_param_u32 (kernel, "b_last", MAX (words_b, block) - block);
    }
  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_define (kernel, "UNROLL", (gint64) way->unroll);
  rlx_kernel_define (kernel, "A_PAIRS", way->a_pairs);
  rlx_kernel_define (kernel, "EVEN", way->even);
  rlx_kernel_define (kernel, "SPLIT", way->even && way->parts == 1 && product->n_outputs > 1);
  rlx_kernel_define (kernel, "WHOLE", product->k % way->unroll == 0);
  /* Two indices below 2^28 are together less than 2^31 bytes. */
  rlx_kernel_define (kernel, "SMALL", MAX (words_a, words_b) <= 1 << 28 ? (1 << 28) - 1 : G_MAXUINT32);
}

/* What put() in the kernel does with a sum. */
static gboolean
describe_result (RlxKernel        *kernel,
                 const RlxIrNode  *node,
                 const RlxProduct *product,
                 const Way        *way,
                 GError          **error)
{
  rlx_kernel_param_u32 (kernel, "m", product->m);
  rlx_kernel_param_u32 (kernel, "n", product->n);
  rlx_kernel_define (kernel, "SWAP", way->turned);
  rlx_kernel_define (kernel, "OUTPUTS", MAX (product->n_outputs, 1));
  rlx_kernel_define (kernel, "ALPHA", product->alpha != 1.0);
  if (product->alpha != 1.0)
    rlx_kernel_param_f32 (kernel, "alpha", product->alpha);
  rlx_kernel_define (kernel, "BIAS", product->bias != NULL);
  rlx_kernel_define (kernel, "BETA", product->beta != 1.0);
  rlx_kernel_define (kernel, "BIAS_DIMS", product->rows.rank);
  rlx_kernel_define (kernel, "BIAS_GROUPS", product->bias_groups > 1);
  if (product->bias != NULL)
    {
      rlx_kernel_input (kernel, "bias", product->bias);
      if (product->beta != 1.0)
        rlx_kernel_param_f32 (kernel, "beta", product->beta);
      rlx_kernel_param_u32 (kernel, "bias_n", product->bias_n);
      if (product->bias_groups > 1)
        {
          rlx_kernel_param_u32 (kernel, "bias_groups", product->bias_groups);
          rlx_kernel_param_u32 (kernel, "bias_group", product->bias_group);
        }
      for (guint i = 0; i < product->rows.rank; i++)
        {
          rlx_kernel_param_u32_at (kernel, "row", i, product->rows.dims[i]);
          rlx_kernel_param_u32_at (kernel, "bias_row", i, product->rows.strides[0][i]);
        }
    }
  if (!rlx_kernel_epilogue (kernel, node, error))
    return FALSE;

  rlx_kernel_output (kernel, "y0", product->y[0]);
  for (guint i = 0; i < product->n_outputs; i++)
    {
      rlx_kernel_param_u32_at (kernel, "width", i, product->widths[i]);
      if (i > 0)
        rlx_kernel_output (kernel, i == 1 ? "y1" : "y2", product->y[i]);
    }
  return TRUE;
}

static void
describe_way (RlxKernel *kernel,
              const Way *way)
{
  rlx_kernel_define (kernel, "SUM", 0);
  rlx_kernel_define (kernel, "DOT", way->kind == DOT);
  rlx_kernel_define (kernel, "WG", (gint64) way->workgroup);
  rlx_kernel_define (kernel, "LANES", way->kind == LANES ? (gint64) way->lanes : 0);
  rlx_kernel_define (kernel, "PARTS", way->parts > 1);
  rlx_kernel_param_u32 (kernel, "groups", way->n_groups);
  if (way->kind == DOT)
    return;

  rlx_kernel_define (kernel, "TM", (gint64) way->tm);
  rlx_kernel_define (kernel, "TN", (gint64) way->tn);
  rlx_kernel_param_u32 (kernel, "tiles_m", way->tiles_m);
  rlx_kernel_param_u32 (kernel, "tiles_n", way->tiles_n);
  if (way->parts > 1)
    rlx_kernel_param_u32 (kernel, "part_k", way->part_k);
  rlx_kernel_define (kernel, "PANEL", way->panel ? RLX_PRODUCT_PANEL : 0);
  if (way->kind == LANES)
    {
      rlx_kernel_define (kernel, "SLICES", (gint64) way->slices);
      rlx_kernel_define (kernel, "PAIRS", way->pairs);
      rlx_kernel_define (kernel, "VECTORS", way->vectors);
    }
  else
    {
      rlx_kernel_define (kernel, "A_ALONG_K", way->a_along_k);
      rlx_kernel_define (kernel, "B_ALONG_K", way->b_along_k);
      rlx_kernel_define (kernel, "A_VECTORS", way->a_vectors);
      rlx_kernel_define (kernel, "B_VECTORS", way->b_vectors);
    }
  if (way->kind == TILES)
    {
      rlx_kernel_define (kernel, "TX", (gint64) way->tx);
      rlx_kernel_define (kernel, "TY", (gint64) way->ty);
      rlx_kernel_define (kernel, "KT", (gint64) way->kt);
      rlx_kernel_define (kernel, "REGISTERS", way->registers);
    }
  else if (way->kind == MATRIX)
    {
      rlx_product_describe_matrix (kernel, &way->matrix);
      rlx_kernel_define (kernel, "A_WIDTH", way->a_vectors ? 4 : 1);
      rlx_kernel_define (kernel, "B_WIDTH", way->b_vectors ? 4 : 1);
    }
}

/* Adds up the parts of the sums. */
static gboolean
lower_sum (RlxLower         *lower,
           const RlxIrNode  *node,
           const RlxProduct *product,
           const Way        *way,
           const RlxIrValue *parts,
           GError          **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "matmul");
  guint64 n = product->m * product->n;

  rlx_kernel_input (kernel, "x", parts);
  if (!describe_result (kernel, node, product, way, error))
    {
      rlx_kernel_free (kernel);
      return FALSE;
    }
  rlx_kernel_define (kernel, "PRODUCT", 0);
  rlx_kernel_define (kernel, "SUM", 1);
  rlx_kernel_define (kernel, "PARTS", 0);
  rlx_kernel_define (kernel, "WG", 64);
  rlx_kernel_param_u32 (kernel, "parts", way->parts);
  rlx_kernel_set_cost (kernel, (double) way->parts * (double) n, (double) (way->parts + 1) * (double) n * 4);
  return rlx_kernel_dispatch (kernel, divide_up (n, 64), error);
}

/* Where somebody had this shape measured, @adapter with nothing but the way that
 * was fastest; else @adapter. */
static const RlxGpuAdapterInfo *
apply_tuning (const RlxGpuAdapterInfo *adapter,
              const RlxProduct        *product,
              guint64                  n_batch,
              RlxGpuAdapterInfo       *tuned)
{
  const RlxIrNode *leaf = product->b->node;
  RlxTunedShape shape = {
    .m = product->m, .n = product->n, .k = product->k, .n_batch = n_batch,
    .a_along_k = product->a_k == 1, .b_along_n = product->b_n == 1,
    .is_weight = leaf != NULL && (g_str_equal (leaf->op->name, "constant") || g_str_equal (leaf->op->name, "parameter")),
    .data_type = product->b->type.dtype,
  };
  RlxGpuProduct way;

  if (adapter->tuning == NULL || product->packed || product->window != NULL || product->k == 0 ||
      (product->a_k != 1 && product->a_m != 1) || (product->b_k != 1 && product->b_n != 1) ||
      product->a->type.dtype != shape.data_type ||
      (shape.data_type != RLX_DATA_TYPE_F32 && shape.data_type != RLX_DATA_TYPE_F16))
    return adapter;
  way = rlx_tuning_look_up (adapter->tuning, &shape);
  if (way == RLX_GPU_N_PRODUCTS || is_banned (adapter, way))
    return adapter;
  *tuned = *adapter;
  tuned->figures.banned_products = ~(1u << way);
  return tuned;
}

static const char *
get_file (const RlxProduct *product,
          const Way        *way)
{
  if (product->window != NULL)
    return "conv-tile";
  if (way->kind == MATRIX)
    return "matmul-matrix";
  if (way->kind == TILES)
    return way->registers ? "matmul-registers" : "matmul-tile";
  return way->shuffle ? "matmul-shuffle" : "matmul";
}

/* The steps of one way. @product is @original, or that turned. */
static gboolean
lower_way (RlxLower         *lower,
           const RlxIrNode  *node,
           const RlxProduct *original,
           const RlxProduct *product,
           guint64           n_batch,
           Way              *way,
           GError          **error)
{
  RlxIrValue *parts = NULL;
  RlxKernel *kernel;

  kernel = rlx_kernel_new (lower, node, get_file (product, way));
  describe_operands (kernel, product, way);
  describe_way (kernel, way);
  if (way->shuffle)
    describe_shuffles (kernel, product, way);
  if (way->parts > 1)
    {
      RlxTensorType type = { RLX_DATA_TYPE_F32, 3, { (gint64) way->parts, (gint64) original->m, (gint64) original->n } };

      /* A device that cannot hold them cannot hold the operands either: k is far
       * longer than there are parts. */
      parts = rlx_lower_temporary (lower, &type);
      rlx_kernel_param_u32 (kernel, "m", product->m);
      rlx_kernel_param_u32 (kernel, "n", product->n);
      rlx_kernel_define (kernel, "SWAP", way->turned);
      rlx_kernel_define_text (kernel, "EPILOGUE_TEXT", "");
      rlx_kernel_output (kernel, "y0", parts);
    }
  else if (!describe_result (kernel, node, product, way, error))
    {
      rlx_kernel_free (kernel);
      return FALSE;
    }

  rlx_kernel_set_cost (kernel,
                       2.0 * (double) (product->m * product->n * n_batch) * (double) product->k,
                       (double) rlx_type_n_bytes (&product->a->type) + (double) rlx_type_n_bytes (&product->b->type) +
                       (double) rlx_type_n_bytes (&node->outputs[0].type) +
                       (product->bias ? (double) rlx_type_n_bytes (&product->bias->type) : 0.0));
  if (!rlx_kernel_dispatch (kernel, way->n_groups, error))
    return FALSE;
  if (parts == NULL)
    return TRUE;
  way->turned = FALSE;
  return lower_sum (lower, node, original, way, parts, error);
}

static gboolean
lower_plain (RlxLower         *lower,
             const RlxIrNode  *node,
             const RlxProduct *original,
             guint64           n_batch,
             guint64           wanted,
             gboolean          may_pack,
             GError          **error)
{
  const RlxGpuAdapterInfo *adapter = rlx_lower_get_adapter (lower);
  gboolean cpu = adapter->type == RLX_ADAPTER_TYPE_CPU;
  guint64 min_lanes = cpu ? 8 : 32;
  RlxProduct product = *original;
  guint64 n_outputs = product.m * product.n * n_batch;
  Way way = { .parts = 1 };
  RlxGpuAdapterInfo tuned;
  gboolean lanes;

  adapter = apply_tuning (adapter, original, n_batch, &tuned);

  if (!product.packed && product.window == NULL && prefer_dot (&product, n_outputs, cpu))
    {
      way.kind = DOT;
      way.workgroup = product.k >= 4096 ? 256 : 64;
      way.n_groups = n_outputs;
    }
  else
    {
      if (!product.packed && product.window == NULL && product.n < min_lanes && product.n < product.m)
        {
          way.turned = TRUE;
          swap (&product.m, &product.n);
          swap (&product.a_m, &product.b_n);
          swap (&product.a_k, &product.b_k);
          product.a = original->b;
          product.b = original->a;
          for (guint i = 0; i < product.batch.rank; i++)
            swap (&product.batch.strides[0][i], &product.batch.strides[1][i]);
        }

      lanes = prefer_lanes (adapter, &product);
      if (product.packed)
        way.panel = TRUE;
      else if (cpu && lanes && !way.turned && product.k > 0 && product.n >= RLX_PRODUCT_PANEL / 2 && product.batch.rank == 0)
        way.panel = rlx_lower_pack_weight (lower, product.b, product.k, product.n, product.b_k, product.b_n, RLX_PRODUCT_PANEL);
      else if (!cpu && may_pack && gains_by_panels (&way, &product, lanes))
        way.panel = rlx_lower_pack_weight (lower, product.b, product.k, product.n, product.b_k, product.b_n, RLX_PRODUCT_PANEL);
      if (way.panel)
        {
          product.b_k = RLX_PRODUCT_PANEL;
          product.b_n = 1;
        }

      way.shuffle = lanes && can_shuffle (adapter, &product);
      if (lanes)
        choose_lanes (&way, &product, n_batch, wanted, cpu);
      else
        choose_tiles (&way, adapter, &product, n_batch, wanted);
      way.n_groups = way.tiles_m * way.tiles_n * n_batch;
      choose_parts (&way, &product, n_batch, wanted);
      way.n_groups *= way.parts;
    }

  if (way.kind == LANES)
    choose_loads (&way, &product);
  way.even = way.shuffle && is_even (adapter, &product, &way);

  if (way.kind == TILES)
    choose_vectors (&way, &product);
  return lower_way (lower, node, original, &product, n_batch, &way, error);
}

static gboolean
lower_matrix (RlxLower               *lower,
              const RlxIrNode        *node,
              const RlxProduct       *product,
              guint64                 n_batch,
              guint64                 wanted,
              const RlxProductMatrix *matrix,
              GError                **error)
{
  Way way = { .kind = MATRIX, .matrix = *matrix, .workgroup = matrix->workgroup };

  way.tiles_m = divide_up (product->m, matrix->size);
  way.tiles_n = divide_up (product->n, matrix->size);
  way.n_groups = way.tiles_m * way.tiles_n * n_batch;
  choose_parts (&way, product, n_batch, wanted);
  way.n_groups *= way.parts;
  choose_vectors (&way, product);
  return lower_way (lower, node, product, product, n_batch, &way, error);
}

gboolean
rlx_lower_product (RlxLower         *lower,
                   const RlxIrNode  *node,
                   const RlxProduct *product,
                   GError          **error)
{
  const RlxGpuAdapterInfo *adapter = rlx_lower_get_adapter (lower);
  gboolean cpu = adapter->type == RLX_ADAPTER_TYPE_CPU;
  /* Workgroups that keep the whole device busy. */
  guint64 wanted = cpu ? 4 : adapter->type == RLX_ADAPTER_TYPE_DISCRETE ? 96 : 24;
  guint64 n_batch = 1;
  RlxProductMatrix matrix;
  guint condition;
  gboolean ok;

  for (guint i = 0; i < product->batch.rank; i++)
    n_batch *= product->batch.dims[i];

  if (prefer_dot (product, product->m * product->n * n_batch, cpu) ||
      !rlx_product_choose_matrix (lower, node, product, n_batch, wanted, &matrix, &condition))
    return lower_plain (lower, node, product, n_batch, wanted, TRUE, error);

  rlx_lower_set_condition (lower, condition, TRUE);
  ok = lower_matrix (lower, node, product, n_batch, wanted, &matrix, error);
  rlx_lower_set_condition (lower, condition, FALSE);
  /* Both read the weight where it is. */
  if (ok && condition != 0)
    ok = lower_plain (lower, node, product, n_batch, wanted, FALSE, error);
  rlx_lower_set_condition (lower, 0, FALSE);
  return ok;
}
