/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The variants of products with packed weights: see the heads of kernels/packed-matmul.wgsl, kernels/packed-row.wgsl,
 * kernels/packed-dot.wgsl, kernels/common/tile-rows.wgsl and kernels/common/matrix-rows.wgsl.
 */
#include "config.h"

#include "ops/rlx-fused-private.h"
#include "ops/rlx-packed-private.h"
#include "ops/rlx-product-private.h"
#include "ops/rlx-variant-private.h"

/* How many numbers kernels/packed/decode.wgsl unpacks at a time. */
#define CHUNK 32

/* The names of the parts of kernels/packed-matmul.wgsl. */
enum { MODE_LANES, MODE_SHARE, MODE_TILE, MODE_SHUFFLE };

/* With fewer rows or columns, most of a tile of matrices is empty. */
#define MIN_MATRIX_SIDE 16

/* The most rows that a subgroup shares in kernels/packed-dot.wgsl; smaller numbers divide it. */
#define BYTES_ROWS 8

/* For kernels/packed-row.wgsl. */
#define ROW_WORKGROUP 64
#define ROW_LANES 16

typedef struct
{
  const RlxIrNode *node;
  const RlxIrValue *x, *weight, *bias, *expert, *y;   /* bias and expert are nullable */
  gint64 k;
  guint64 m, n, chunks;
  RlxProduct product;      /* the same as a product of matrices */
  RlxProductMatrix matrix; /* how matrix units would compute it */
  const char *no_matrix;   /* why matrix units cannot be used; NULL: they can */
  guint condition;         /* under which they can be used, as for rlx_lower_can_unpack_f16() */
  gboolean may_use_bytes;  /* x may be rounded to bytes */
} Problem;

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;
  guint numbers, bytes;

  rlx_packed_type_get_block (rlx_dequantize_blocks_attrs (self->node)->type, &numbers, &bytes);
  return g_strdup_printf ("[%" G_GUINT64_FORMAT ", %" G_GINT64_FORMAT "] · [%" G_GINT64_FORMAT ", %" G_GUINT64_FORMAT
                          "], %u numbers in %u bytes%s%s", self->m, self->k, self->k, self->n, numbers, bytes,
                          self->expert != NULL ? ", by experts" : "", self->no_matrix == NULL || self->may_use_bytes ? ", reduced precision" : "");
}

static double
packed_cost (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data)
{
  const Problem *problem = data;

  return rlx_target_get_seconds (target, 2.0 * (double) (problem->m * problem->n) * (double) problem->k,
                                 (double) rlx_type_n_bytes (&problem->weight->type));
}

/* Without any experts there is no row to replace the requested one. */
static gboolean
has_rows (const Problem *problem)
{
  return problem->expert == NULL || problem->weight->type.shape[0] > 0;
}

/* For fewer rows it is not faster, since unpacking is most of the work. */
static RlxFit
shuffle_fits (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data,
              const char      **why)
{
  const Problem *problem = data;

  if (!rlx_product_has_shuffles (target))
    return rlx_variant_cannot ("needs subgroups of 8, on a CPU", why);
  if (problem->k % CHUNK != 0 || problem->expert != NULL)
    return rlx_variant_cannot ("rows are not whole chunks, or experts choose them", why);
  return problem->m > 4 && problem->n >= 32 && problem->chunks >= 4 ? RLX_FIT_WELL : rlx_variant_poorly ("too few rows or columns", why);
}

/* On a CPU, columns are rarely too few for all cores. */
static RlxFit
share_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;

  if (!has_rows (problem))
    return rlx_variant_cannot ("there are no experts", why);
  if (!target->loads_coalesce)
    return problem->m * problem->n <= 16 && problem->chunks >= 8 ? RLX_FIT_WELL : rlx_variant_poorly ("more than 16 results", why);
  return problem->m <= 8 || problem->expert != NULL ? RLX_FIT_WELL : rlx_variant_poorly ("more than 8 rows", why);
}

/* How many numbers a lane of kernels/packed-row.wgsl unpacks at a time. */
typedef struct
{
  RlxPackedType type;
  guint numbers;
  guint registers, more;   /* for one column and for each further one, as the compiler for Intel's chips counts them */
} Piece;

static const Piece pieces[] = {
  { RLX_PACKED_TYPE_Q4_0, 32, 34, 12 },
  { RLX_PACKED_TYPE_Q8_0, 32, 36, 15 },
  { RLX_PACKED_TYPE_MXFP4, 32, 45, 25 },
  { RLX_PACKED_TYPE_Q4_K, 64, 42, 24 },
  { RLX_PACKED_TYPE_Q5_K, 64, 52, 30 },
  { RLX_PACKED_TYPE_Q6_K, 64, 48, 26 },
};

/* NULL if packed/row.wgsl does not support the format. */
static const Piece *
find_piece (const RlxIrNode *node)
{
  for (guint i = 0; i < G_N_ELEMENTS (pieces); i++)
    if (pieces[i].type == rlx_dequantize_blocks_attrs (node)->type)
      return &pieces[i];
  return NULL;
}

static RlxFit
row_fits (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *problem = data;
  const Piece *piece = find_piece (problem->node);
  guint numbers, bytes;

  if (piece == NULL)
    return rlx_variant_cannot ("cannot unpack numbers of this type", why);
  rlx_packed_type_get_block (piece->type, &numbers, &bytes);
  if (problem->k % MAX (piece->numbers, numbers) != 0)
    return rlx_variant_cannot ("rows are not whole blocks", why);
  if (!has_rows (problem))
    return rlx_variant_cannot ("there are no experts", why);
  if (!target->loads_coalesce)
    return rlx_variant_poorly ("neighbouring lanes would read distant elements", why);
  return problem->m <= 8 || problem->expert != NULL ? RLX_FIT_WELL : rlx_variant_poorly ("more than 8 rows", why);
}

static RlxFit
tile_fits (const RlxVariant *self,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Problem *problem = data;

  if (problem->expert != NULL)
    return rlx_variant_cannot ("rows have weights of their own", why);
  return target->loads_coalesce ? RLX_FIT_WELL : rlx_variant_poorly ("barriers are slow here", why);
}

/* On a GPU, neighbouring lanes should read neighbouring bytes. */
static RlxFit
lanes_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  return target->loads_coalesce ? rlx_variant_poorly ("neighbouring lanes would read distant rows", why) : RLX_FIT_WELL;
}

/* The common part of all kernels: tiles of @tile_m rows and @columns. */
static gboolean
lower_product (RlxLower      *lower,
               const Problem *self,
               RlxKernel     *kernel,
               guint          mode,
               guint64        lanes,
               guint64        tile_m,
               guint64        columns,
               GError       **error)
{
  gboolean shuffle = mode == MODE_SHUFFLE, vectors = self->k % CHUNK == 0 && !shuffle;
  guint64 tiles_m = (self->m - 1) / tile_m + 1, groups = tiles_m * ((self->n - 1) / columns + 1);

  rlx_packed_describe (kernel, lower, self->node);
  rlx_kernel_param_u32 (kernel, "k", (guint64) self->k);
  if (vectors)
    rlx_kernel_input_vector (kernel, "x", self->x, 4);
  else
    rlx_kernel_input (kernel, "x", self->x);
  if (self->bias != NULL)
    rlx_kernel_input (kernel, "bias", self->bias);
  if (self->expert != NULL)
    {
      rlx_kernel_input (kernel, "expert", self->expert);
      rlx_kernel_param_u32 (kernel, "experts", (guint64) self->weight->type.shape[0]);
    }
  rlx_kernel_epilogue (kernel, self->node);
  rlx_kernel_output (kernel, "y", self->y);
  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_define (kernel, "UNROLL", tile_m == 1 ? 4 : 1);
  rlx_kernel_define (kernel, "VECTORS", vectors);
  rlx_kernel_define (kernel, "BIAS", self->bias != NULL);
  rlx_kernel_define (kernel, "EXPERT", self->expert != NULL);
  rlx_kernel_param_u32 (kernel, "m", self->m);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, 2.0 * (double) rlx_type_n_elements (&self->y->type) * (double) self->k,
                       (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->weight->type) +
                       (double) rlx_type_n_bytes (&self->y->type));
  return rlx_kernel_dispatch (kernel, groups, error);
}

static guint64
choose_rows (const Problem *problem)
{
  return problem->m == 1 ? 1 : problem->m <= 4 ? 4 : 8;
}

/* ---- by matrix units ----------------------------------------------------------- */

/* Whether all numbers of the weight are in the range of f16. */
static gboolean
is_in_range (RlxLower *lower,
             Problem  *self)
{
  const RlxIrValue *scale = self->node->inputs[RLX_DEQUANT_MATMUL_SCALE], *zero = self->node->inputs[RLX_DEQUANT_MATMUL_ZERO_POINT];
  RlxPackedType type = rlx_dequantize_blocks_attrs (self->node)->type;
  gboolean is_scaled = rlx_packed_type_get_reach (type) > 0.0;
  const RlxIrValue *value = is_scaled ? scale : self->weight;

  /* 8-bit floats are not scaled. */
  if (value == NULL)
    return TRUE;
  if (zero != NULL && rlx_data_type_is_float (zero->type.data_type))
    return FALSE;
  return rlx_lower_is_weight (lower, value) && rlx_lower_can_unpack_f16 (lower, self->node, value, type, &self->condition);
}

static const char *
find_obstacle (RlxLower *lower,
               Problem  *self)
{
  const RlxTarget *target = rlx_lower_get_target (lower);

  if (rlx_lower_get_precision (lower) < RLX_PRECISION_REDUCED)
    return "the graph asks for full precision";
  if (!rlx_product_has_matrix (lower))
    return "no matrix units that are faster";
  if (self->expert != NULL)
    return "rows have weights of their own";
  if (self->m < MIN_MATRIX_SIDE || self->n < MIN_MATRIX_SIDE)
    return "too small for tiles of matrices";
  if (!rlx_product_choose_pieces (target, &self->product, 1, TRUE, &self->matrix))
    return "rows are not whole chunks";
  return is_in_range (lower, self) ? NULL : "the weight may have numbers that do not fit f16";
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
  /* If lanes share registers, unpacking takes longer than the products. */
  return packed_cost (self, target, data) / (target->registers_are_shared ? 2.0 : 4.0);
}

/* If the values of the weight become known later, there are steps for both cases. */
static gboolean
matrix_describe (const RlxVariant *self,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Problem *problem = data;
  const RlxProduct *product = &problem->product;
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_MATRIX, .matrix = problem->matrix, .workgroup = problem->matrix.workgroup,
                              .a_along_k = TRUE, .a_vectors = TRUE };
  Problem other = *problem;
  gboolean ok;

  config.tiles_m = rlx_divide_up (product->m, config.matrix.rows);
  config.tiles_n = rlx_divide_up (product->n, config.matrix.columns);
  rlx_product_share_out (&config, product, 1, rlx_lower_get_target (lower));
  rlx_lower_set_condition (lower, problem->condition, TRUE);
  ok = rlx_lower_product_kernel (lower, node, product, product, 1, &config, error);
  rlx_lower_set_condition (lower, problem->condition, FALSE);
  if (ok && problem->condition != 0)
    {
      other.no_matrix = "for a weight that f16 does not hold";
      ok = rlx_lower_choose (lower, node, &rlx_packed_variants, &other, error);
    }
  rlx_lower_set_condition (lower, 0, FALSE);
  return ok;
}

/* ---- by rows that a subgroup shares --------------------------------------------------- */

static RlxFit
rows_fits (const RlxVariant *self,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Problem *problem = data;

  if (problem->expert != NULL)
    return rlx_variant_cannot ("rows have weights of their own", why);
  if (problem->k % CHUNK != 0)
    return rlx_variant_cannot ("rows are not whole chunks", why);
  if ((*why = rlx_product_check_rows (target, &problem->product)) != NULL)
    return RLX_FIT_NO;
  return problem->m > 8 ? RLX_FIT_WELL : rlx_variant_poorly ("8 rows or fewer", why);
}

/* The operands of @product are those of the node, or derived from them. */
static RlxProductKernel
choose_shared_rows (const RlxProduct *product,
                    const RlxTarget  *target)
{
  RlxProductKernel config = { .kind = RLX_PRODUCT_BY_TILES, .a_along_k = TRUE, .a_vectors = TRUE };
  double share;

  rlx_product_use_rows (&config, target, product, 1, &share);
  config.tiles_m = rlx_divide_up (product->m, config.ty * config.tm);
  config.tiles_n = rlx_divide_up (product->n, config.tx * config.tn);
  rlx_product_share_out (&config, product, 1, target);
  return config;
}

static gboolean
rows_describe (const RlxVariant *self,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const RlxProduct *product = &((const Problem *) data)->product;
  RlxProductKernel config = choose_shared_rows (product, rlx_lower_get_target (lower));

  return rlx_lower_product_kernel (lower, node, product, product, 1, &config, error);
}

/* ---- by products of bytes ------------------------------------------------------ */

/* The formats that kernels/packed/quads.wgsl supports. */
static gboolean
has_quads (const RlxIrNode *node)
{
  static const RlxPackedType types[] = {
    RLX_PACKED_TYPE_Q4_0, RLX_PACKED_TYPE_Q4_1, RLX_PACKED_TYPE_Q5_0, RLX_PACKED_TYPE_Q5_1, RLX_PACKED_TYPE_Q8_0,
    RLX_PACKED_TYPE_Q4_K, RLX_PACKED_TYPE_Q5_K, RLX_PACKED_TYPE_Q6_K, RLX_PACKED_TYPE_MXFP4,
  };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i] == rlx_dequantize_blocks_attrs (node)->type)
      return TRUE;
  return FALSE;
}

static RlxFit
bytes_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;

  if (!problem->may_use_bytes)
    return rlx_variant_cannot ("the graph asks for more precision", why);
  if (!(target->features & RLX_DEVICE_FEATURES_PACKED_DOT))
    return rlx_variant_cannot ("no packed dot products", why);
  if (!has_quads (problem->node))
    return rlx_variant_cannot ("cannot unpack numbers of this type", why);
  return rows_fits (self, target, data, why);
}

static double
bytes_cost (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data)
{
  return packed_cost (self, target, data) / 3.0;
}

/* Rounds x, then multiplies. */
static gboolean
bytes_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *problem = data;
  RlxProduct product = problem->product;
  guint64 m = rlx_divide_up (problem->m, BYTES_ROWS) * BYTES_ROWS;
  RlxTensorType words = { RLX_DATA_TYPE_U32, 2, { (gint64) m, (gint64) problem->chunks * (CHUNK / 4) } };
  RlxTensorType scales = { RLX_DATA_TYPE_F32, 2, { (gint64) m, (gint64) problem->chunks * 2 } };
  RlxIrValue *q = rlx_lower_temporary (lower, &words), *s = rlx_lower_temporary (lower, &scales);
  RlxKernel *kernel = rlx_kernel_new (lower, node, "packed-bytes");
  RlxProductKernel config;

  product.a = q;
  product.scales = s;
  config = choose_shared_rows (&product, rlx_lower_get_target (lower));
  rlx_kernel_input_vector (kernel, "x", problem->x, 4);
  rlx_kernel_output (kernel, "q", q);
  rlx_kernel_output (kernel, "s", s);
  rlx_kernel_define (kernel, "TM", (gint64) config.tm);
  rlx_kernel_param_u32 (kernel, "m", problem->m);
  rlx_kernel_param_u32 (kernel, "chunks", problem->chunks);
  rlx_kernel_param_u32 (kernel, "count", m * problem->chunks);
  rlx_kernel_set_cost (kernel, 4.0 * (double) rlx_type_n_elements (&problem->x->type),
                       (double) rlx_type_n_bytes (&problem->x->type) + (double) rlx_type_n_bytes (&words) + (double) rlx_type_n_bytes (&scales));
  if (!rlx_kernel_dispatch (kernel, rlx_divide_up (m * problem->chunks, 64), error))
    return FALSE;
  return rlx_lower_product_kernel (lower, node, &problem->product, &product, 1, &config, error);
}

/* Adjacent columns; with shuffles if self->data is not NULL. */
static gboolean
lanes_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *problem = data;
  gboolean shuffle = self->data != NULL;
  guint64 tile_m = shuffle && problem->m > 8 ? 16 : choose_rows (problem), lanes = 64;
  /* More columns share the loads of a row if there are many rows; for one row,
   * unpacking is most of the work. */
  guint64 tile_n = shuffle || (problem->m > 1 && problem->n >= 512 && problem->expert == NULL) ? 4 : 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "packed-matmul");

  /* enough workgroups for several cores */
  while (lanes > 8 && problem->n <= lanes * tile_n * 16)
    lanes /= 2;
  rlx_kernel_define (kernel, "TM", (gint64) tile_m);
  rlx_kernel_define (kernel, "TN", (gint64) tile_n);
  if (shuffle)
    rlx_kernel_enable (kernel, "enable subgroups;");
  return lower_product (lower, problem, kernel, shuffle ? MODE_SHUFFLE : MODE_LANES, lanes, tile_m, lanes * tile_n, error);
}

/* Lanes share the sums. */
static gboolean
share_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const guint64 lanes = 64;
  const Problem *problem = data;
  guint64 tile_m = problem->expert != NULL ? 1 : choose_rows (problem), share = 32;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "packed-matmul");

  while (share > 4 && share / 2 >= problem->chunks)
    share /= 2;
  rlx_kernel_define (kernel, "LANES", (gint64) share);
  rlx_kernel_define (kernel, "TM", (gint64) tile_m);
  rlx_kernel_define (kernel, "TN", 1);
  return lower_product (lower, problem, kernel, MODE_SHARE, lanes, tile_m, lanes / share, error);
}

/* How many columns share the loads of a row, if there are enough workgroups and registers. Four take up to 250 registers
 * on RDNA3, and do not speed up a product that is limited by memory. */
static guint64
choose_columns (const Problem   *problem,
                const Piece     *piece,
                const RlxTarget *target)
{
  guint64 n = 2;

  while (n > 1 && (piece->registers + (n - 1) * piece->more > target->registers ||
                   problem->m * problem->n < n * (ROW_WORKGROUP / ROW_LANES) * target->busy_workgroups))
    n /= 2;
  return n;
}

/* Lanes share the sums; everything that can be constant is. */
static gboolean
row_describe (const RlxVariant *self,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *problem = data;
  const Piece *piece = find_piece (node);
  guint64 tile_m = problem->expert != NULL ? 1 : choose_rows (problem);
  guint64 tile_n = tile_m == 1 ? choose_columns (problem, piece, rlx_lower_get_target (lower)) : 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "packed-row");

  rlx_kernel_define (kernel, "LANES", ROW_LANES);
  rlx_kernel_define (kernel, "TM", (gint64) tile_m);
  rlx_kernel_define (kernel, "TN", (gint64) tile_n);
  rlx_kernel_param_u32 (kernel, "pieces", (guint64) problem->k / piece->numbers);
  return lower_product (lower, problem, kernel, MODE_SHARE, ROW_WORKGROUP, tile_m, ROW_WORKGROUP / ROW_LANES * tile_n, error);
}

/* Tiles in workgroup memory. */
static gboolean
tile_describe (const RlxVariant *self,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  return lower_product (lower, data, rlx_kernel_new (lower, node, "packed-matmul"), MODE_TILE, 64, 32, 64, error);
}

static const RlxVariant variants[] = {
  { "bytes", bytes_fits, bytes_cost, NULL, bytes_describe, NULL },
  { "matrix", matrix_fits, matrix_cost, NULL, matrix_describe, NULL },
  { "shuffle", shuffle_fits, packed_cost, NULL, lanes_describe, variants },
  { "row", row_fits, packed_cost, NULL, row_describe, NULL },
  { "share", share_fits, packed_cost, NULL, share_describe, NULL },
  { "rows", rows_fits, packed_cost, NULL, rows_describe, NULL },
  { "tile", tile_fits, packed_cost, NULL, tile_describe, NULL },
  { "lanes", lanes_fits, packed_cost, NULL, lanes_describe, NULL },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[16, 512]") RLX_SAMPLE_WEIGHT (1, "u8[256, 288]")
    "%2 = dequant_matmul(%0, %1) {type = q4-0}\n" RLX_SAMPLE_OUTPUT (2), 2 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 512]") RLX_SAMPLE_WEIGHT (1, "u8[8, 288]")
    "%2 = dequant_matmul(%0, %1) {type = q4-0}\n" RLX_SAMPLE_OUTPUT (2), 2 },
  { NULL, 0 },
};

const RlxVariants rlx_packed_variants = {
  RLX_FAMILY_PACKED, "packed product", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_dequant_matmul_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  const RlxIrValue *x = node->inputs[RLX_DEQUANT_MATMUL_SELF], *weight = node->inputs[RLX_DEQUANT_MATMUL_WEIGHT];
  Problem problem = {
    .node = node, .x = x, .weight = weight,
    .bias = node->inputs[RLX_DEQUANT_MATMUL_BIAS],
    .expert = node->inputs[RLX_DEQUANT_MATMUL_EXPERT],
    .y = &node->outputs[0],
    .k = x->type.shape[x->type.n_dims - 1],
    .n = (guint64) weight->type.shape[weight->type.n_dims - 2],
  };
  guint64 n_outputs = rlx_type_n_elements (&node->outputs[0].type);

  if (n_outputs == 0)
    return TRUE;
  problem.m = n_outputs / problem.n;
  problem.chunks = (guint64) (problem.k + CHUNK - 1) / CHUNK;
  problem.product = (RlxProduct) {
    .a = x, .b = weight, .bias = problem.bias, .y = { problem.y }, .blocks = node,
    .m = problem.m, .n = problem.n, .k = (guint64) problem.k, .a_m = (guint64) problem.k, .a_k = 1, .b_k = 1,
    .bias_n = 1, .alpha = 1.0, .beta = 1.0,
  };
  problem.may_use_bytes = rlx_lower_get_precision (lower) == RLX_PRECISION_INTEGER;
  problem.no_matrix = find_obstacle (lower, &problem);
  return rlx_lower_choose (lower, node, &rlx_packed_variants, &problem, error);
}
