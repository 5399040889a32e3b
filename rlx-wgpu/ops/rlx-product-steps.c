/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The steps of a product of two matrices, once its kernel is chosen.
 */
#include "config.h"

#include "ops/rlx-packed-private.h"
#include "ops/rlx-product-private.h"

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
  guint64 n_taps = 1;

  rlx_kernel_define (kernel, "X_A", is_a);
  rlx_kernel_define (kernel, "X_VECTORS", window->vectors);
  rlx_kernel_define (kernel, "C_INNER", window->c_inner);
  rlx_kernel_define (kernel, "RANK", window->n_dims);
  rlx_kernel_param_u32 (kernel, "c", window->c);
  rlx_kernel_param_u32 (kernel, "x_channel", window->x_channel);
  rlx_kernel_param_u32 (kernel, "x_image", window->x_image);
  for (guint d = 0; d < window->n_dims; d++)
    {
      rlx_kernel_param_u32_at (kernel, "in", d, window->in[d]);
      rlx_kernel_param_u32_at (kernel, "out", d, window->out[d]);
      rlx_kernel_param_u32_at (kernel, "tap", d, window->taps[d]);
      rlx_kernel_param_u32_at (kernel, "stride", d, window->strides[d]);
      rlx_kernel_param_u32_at (kernel, "dilation", d, window->dilations[d]);
      rlx_kernel_param_u32_at (kernel, "begin", d, window->begins[d]);
      /* Where the last window begins; negative values wrap around, as in the kernel. */
      rlx_kernel_param_u32_at (kernel, "last", d, (guint32) ((window->out[d] - 1) * window->strides[d] - window->begins[d]));
      rlx_kernel_param_u32_at (kernel, "x_axis", d, window->x_axes[d]);
      n_taps *= MIN (window->taps[d], G_MAXUINT16);
    }
  /* At most as many as a word has bits. */
  rlx_kernel_define (kernel, "TAPS", n_taps <= 32 ? (gint64) n_taps : 0);
  rlx_kernel_define (kernel, "ONE_APART", window->dilations[0] * window->x_axes[0] == 1);
  for (guint d = 0; n_taps <= 32 && d < window->n_dims; d++)
    {
      static const char *const names[G_N_ELEMENTS (window->taps)] = { "TAP0", "TAP1", "TAP2" };

      rlx_kernel_define (kernel, names[d], (gint64) window->taps[d]);
      /* Addresses wrap around, as in the kernel. */
      rlx_kernel_param_u32_at (kernel, "reach", d, (guint32) (window->dilations[d] * window->x_axes[d]));
    }
  if (window->split > 0)
    {
      rlx_kernel_param_u32 (kernel, "split", window->split);
      rlx_kernel_param_u32 (kernel, "split_stride", window->split_stride);
    }
}

static void
describe_operands (RlxLower               *lower,
                   RlxKernel              *kernel,
                   const RlxProduct       *product,
                   const RlxProductKernel *config)
{
  const RlxProductWindow *window = product->window;

  if (product->k > 0)
    {
      describe_operand (kernel, window && window->x == product->a ? "x" : "a", product->a,
                        config->a_pairs ? 2 : config->vectors || config->a_vectors ? 4 : 1);
      if (product->scales != NULL)
        rlx_kernel_input_vector (kernel, "s", product->scales, 4);
      if (product->blocks != NULL)
        rlx_packed_describe (kernel, lower, product->blocks);
      else
        describe_operand (kernel, window && window->x == product->b ? "x" : "b", product->b,
                          config->pairs ? 2 : config->b_vectors ? 4 : 1);
    }
  rlx_kernel_define (kernel, "PRODUCT", product->k > 0);

  rlx_kernel_param_u32 (kernel, "k", product->k);
  rlx_kernel_param_u32 (kernel, "a_m", product->a_m);
  rlx_kernel_param_u32 (kernel, "a_k", product->a_k);
  rlx_kernel_param_u32 (kernel, "b_k", product->b_k);
  rlx_kernel_param_u32 (kernel, "b_n", product->b_n);
  for (guint i = 0; i < product->batch.n_dims; i++)
    {
      rlx_kernel_param_u32_at (kernel, "batch", i, product->batch.shape[i]);
      rlx_kernel_param_u32_at (kernel, "a_batch", i, product->batch.strides[0][i]);
      rlx_kernel_param_u32_at (kernel, "b_batch", i, product->batch.strides[1][i]);
    }
  rlx_kernel_define (kernel, "BATCH_DIMS", product->batch.n_dims);
  rlx_kernel_define (kernel, "A_SPLIT", window != NULL && window->split > 0);
  rlx_kernel_define (kernel, "B_SPLIT", window != NULL && window->split > 0);
  if (window != NULL)
    describe_window (kernel, window, window->x == product->a);
}

/* What only the kernel with shuffles needs. */
static void
describe_shuffles (RlxKernel              *kernel,
                   const RlxProduct       *product,
                   const RlxProductKernel *config)
{
  guint64 per_a = config->a_pairs ? 2 : 1, per_b = config->pairs ? 2 : 1;
  guint64 words_a = rlx_type_n_elements (&product->a->type) / per_a;
  guint64 words_b = rlx_type_n_elements (&product->b->type) / per_b;
  guint64 block = config->unroll * RLX_PRODUCT_PANEL / per_b;

  if (config->panel)
    {
      words_b = rlx_divide_up (product->n, RLX_PRODUCT_PANEL) * RLX_PRODUCT_PANEL * product->k / per_b;
      /* The last words that are prefetched. */
      rlx_kernel_param_u32 (kernel, "b_last", MAX (words_b, block) - block);
    }
  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_define (kernel, "UNROLL", (gint64) config->unroll);
  rlx_kernel_define (kernel, "A_PAIRS", config->a_pairs);
  rlx_kernel_define (kernel, "EVEN", config->even);
  rlx_kernel_define (kernel, "SPLIT", config->even && config->splits == 1 && product->n_outputs > 1);
  rlx_kernel_define (kernel, "WHOLE", product->k % config->unroll == 0);
  /* Two indices below 2^28 add up to less than 2^31 bytes. */
  rlx_kernel_define (kernel, "SMALL", MAX (words_a, words_b) <= 1 << 28 ? (1 << 28) - 1 : G_MAXUINT32);
}

/* Defines what put() in the kernel does with a sum. */
static void
describe_result (RlxKernel              *kernel,
                 const RlxIrNode        *node,
                 const RlxProduct       *product,
                 const RlxProductKernel *config)
{
  rlx_kernel_param_u32 (kernel, "m", product->m);
  rlx_kernel_param_u32 (kernel, "n", product->n);
  rlx_kernel_define (kernel, "SWAP", config->transposed);
  rlx_kernel_define (kernel, "OUTPUTS", MAX (product->n_outputs, 1));
  rlx_kernel_define (kernel, "ALPHA", product->alpha != 1.0);
  if (product->alpha != 1.0)
    rlx_kernel_param_f32 (kernel, "alpha", product->alpha);
  rlx_kernel_define (kernel, "BIAS", product->bias != NULL);
  rlx_kernel_define (kernel, "BETA", product->beta != 1.0);
  rlx_kernel_define (kernel, "BIAS_DIMS", product->rows.n_dims);
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
      for (guint i = 0; i < product->rows.n_dims; i++)
        {
          rlx_kernel_param_u32_at (kernel, "row", i, product->rows.shape[i]);
          rlx_kernel_param_u32_at (kernel, "bias_row", i, product->rows.strides[0][i]);
        }
    }
  rlx_kernel_epilogue (kernel, node);

  rlx_kernel_output (kernel, "y0", product->y[0]);
  for (guint i = 0; i < product->n_outputs; i++)
    {
      rlx_kernel_param_u32_at (kernel, "width", i, product->widths[i]);
      if (i > 0)
        rlx_kernel_output (kernel, i == 1 ? "y1" : "y2", product->y[i]);
    }
}

static void
describe_config (RlxKernel              *kernel,
                 const RlxProduct       *product,
                 const RlxProductKernel *config)
{
  rlx_kernel_define (kernel, "SUM", 0);
  rlx_kernel_define (kernel, "DOT", config->kind == RLX_PRODUCT_BY_DOT);
  rlx_kernel_define (kernel, "WG", (gint64) config->workgroup);
  rlx_kernel_set_subgroup_size (kernel, config->subgroup);
  if (!config->dots)
    rlx_kernel_define (kernel, "LANES", config->kind == RLX_PRODUCT_BY_LANES ? (gint64) config->lanes : 0);
  rlx_kernel_define (kernel, "SPLIT_K", config->splits > 1);
  rlx_kernel_param_u32 (kernel, "groups", config->n_groups);
  if (config->kind == RLX_PRODUCT_BY_DOT && !config->dots)
    return;

  rlx_kernel_define (kernel, "TM", (gint64) config->tm);
  rlx_kernel_define (kernel, "TN", (gint64) config->tn);
  rlx_kernel_param_u32 (kernel, "tiles_m", config->tiles_m);
  rlx_kernel_param_u32 (kernel, "tiles_n", config->tiles_n);
  if (config->splits > 1)
    rlx_kernel_param_u32 (kernel, "split_k", config->split_k);
  if (config->dots)
    {
      rlx_kernel_define (kernel, "LANES", (gint64) config->lanes);
      rlx_kernel_define (kernel, "PIECE", (gint64) config->piece);
      rlx_kernel_define (kernel, "UNROLL", (gint64) config->unroll);
      rlx_kernel_define (kernel, "REST", config->pieces % (config->lanes * config->unroll) != 0);
      rlx_kernel_param_u32 (kernel, "pieces", config->pieces);
      rlx_kernel_param_u32 (kernel, "rounds", config->rounds);
      return;
    }
  rlx_kernel_define (kernel, "PANEL", config->panel ? RLX_PRODUCT_PANEL : 0);
  rlx_kernel_define (kernel, "PACKED", product->blocks != NULL);
  if (config->kind == RLX_PRODUCT_BY_LANES)
    {
      rlx_kernel_define (kernel, "SLICES", (gint64) config->slices);
      rlx_kernel_define (kernel, "PAIRS", config->pairs);
      rlx_kernel_define (kernel, "VECTORS", config->vectors);
    }
  else
    {
      rlx_kernel_define (kernel, "A_ALONG_K", config->a_along_k);
      rlx_kernel_define (kernel, "B_ALONG_K", config->b_along_k);
      rlx_kernel_define (kernel, "A_VECTORS", config->a_vectors);
      rlx_kernel_define (kernel, "B_VECTORS", config->b_vectors);
    }
  if (config->kind == RLX_PRODUCT_BY_TILES)
    {
      rlx_kernel_define (kernel, "TX", (gint64) config->tx);
      rlx_kernel_define (kernel, "TY", (gint64) config->ty);
      rlx_kernel_define (kernel, "KT", (gint64) config->kt);
      rlx_kernel_define (kernel, "TURNS", MAX (1, config->turns));
      rlx_kernel_define (kernel, "REGISTERS", config->registers);
      rlx_kernel_define (kernel, "ROWS", config->rows);
      rlx_kernel_define (kernel, "UNIT", (gint64) config->unit);
      rlx_kernel_define (kernel, "WHOLE", config->whole);
      rlx_kernel_define (kernel, "PAD", config->padded);
    }
  else if (config->kind == RLX_PRODUCT_BY_MATRIX)
    {
      rlx_product_describe_matrix (kernel, &config->matrix);
      rlx_kernel_define (kernel, "A_WIDTH", config->a_vectors ? 4 : 1);
      rlx_kernel_define (kernel, "B_WIDTH", config->b_vectors ? 4 : 1);
      rlx_kernel_define (kernel, "A_HALF", product->a->type.data_type == RLX_DATA_TYPE_F16);
      rlx_kernel_define (kernel, "B_HALF", product->b->type.data_type == RLX_DATA_TYPE_F16);
      rlx_kernel_define (kernel, "WHOLE", product->k > 0 && product->k % config->matrix.kt == 0);
    }
}

/* Adds up the partial sums. */
static gboolean
lower_sum (RlxLower               *lower,
           const RlxIrNode        *node,
           const RlxProduct       *product,
           const RlxProductKernel *config,
           const RlxIrValue       *partials,
           GError                **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "matmul");
  guint64 n = product->m * product->n;

  rlx_kernel_input (kernel, "x", partials);
  describe_result (kernel, node, product, config);
  rlx_kernel_define (kernel, "PRODUCT", 0);
  rlx_kernel_define (kernel, "SUM", 1);
  rlx_kernel_define (kernel, "SPLIT_K", 0);
  rlx_kernel_define (kernel, "WG", 64);
  rlx_kernel_param_u32 (kernel, "splits", config->splits);
  rlx_kernel_set_cost (kernel, (double) config->splits * (double) n, (double) (config->splits + 1) * (double) n * 4);
  return rlx_kernel_dispatch (kernel, rlx_divide_up (n, 64), error);
}

static const char *
get_file (const RlxProduct       *product,
          const RlxProductKernel *config)
{
  if (product->window != NULL)
    return "conv-tile";
  if (product->scales != NULL)
    return "packed-dot";
  if (config->kind == RLX_PRODUCT_BY_MATRIX)
    return "matmul-matrix";
  if (config->dots)
    return "matmul-dot";
  if (config->kind == RLX_PRODUCT_BY_TILES)
    return config->registers ? "matmul-registers" : "matmul-tile";
  return config->shuffle ? "matmul-shuffle" : "matmul";
}

gboolean
rlx_lower_product_kernel (RlxLower         *lower,
                          const RlxIrNode  *node,
                          const RlxProduct *original,
                          const RlxProduct *product,
                          guint64           n_batch,
                          RlxProductKernel *config,
                          GError          **error)
{
  RlxIrValue *partials = NULL;
  RlxKernel *kernel;

  kernel = rlx_kernel_new (lower, node, get_file (product, config));
  describe_operands (lower, kernel, product, config);
  describe_config (kernel, product, config);
  if (config->shuffle)
    describe_shuffles (kernel, product, config);
  if (config->splits > 1)
    {
      RlxTensorType type = { RLX_DATA_TYPE_F32, 3, { (gint64) config->splits, (gint64) original->m, (gint64) original->n } };

      /* A device that cannot hold them cannot hold the operands either, since k is far
       * longer than the number of splits. */
      partials = rlx_lower_temporary (lower, &type);
      rlx_kernel_param_u32 (kernel, "m", product->m);
      rlx_kernel_param_u32 (kernel, "n", product->n);
      rlx_kernel_define (kernel, "SWAP", config->transposed);
      rlx_kernel_define (kernel, "OUTPUTS", 1);
      rlx_kernel_define_text (kernel, "EPILOGUE_TEXT", "");
      rlx_kernel_define_text (kernel, "EPILOGUE_USES", "");
      rlx_kernel_output (kernel, "y0", partials);
    }
  else
    {
      describe_result (kernel, node, product, config);
    }

  rlx_kernel_set_cost (kernel,
                       2.0 * (double) (product->m * product->n * n_batch) * (double) product->k,
                       (double) rlx_type_n_bytes (&product->a->type) + (double) rlx_type_n_bytes (&product->b->type) +
                       (double) rlx_type_n_bytes (&node->outputs[0].type) +
                       (product->bias ? (double) rlx_type_n_bytes (&product->bias->type) : 0.0));
  if (!rlx_kernel_dispatch (kernel, config->n_groups, error))
    return FALSE;
  if (partials == NULL)
    return TRUE;
  config->transposed = FALSE;
  return lower_sum (lower, node, original, config, partials, error);
}
