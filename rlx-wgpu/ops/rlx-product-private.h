/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The product of two matrices, for every operator that is based on one.
 */
#pragma once

#include "ops/rlx-fused-private.h"
#include "ops/rlx-variant-private.h"

G_BEGIN_DECLS

/* The rows of the table of variants; see kernels/matmul.wgsl. */
typedef enum
{
  RLX_PRODUCT_MATRIX,   /* with reduced precision only */
  RLX_PRODUCT_ROWS,     /* that subgroups share */
  RLX_PRODUCT_TILES_128,
  RLX_PRODUCT_TILES_64,
  RLX_PRODUCT_TILES_32,
  RLX_PRODUCT_REGISTERS,
  RLX_PRODUCT_DOT,
  RLX_PRODUCT_LANES,
  RLX_N_PRODUCTS
} RlxProductVariant;

/* The columns of a panel of weights on a CPU: four vectors of eight. */
#define RLX_PRODUCT_PANEL 32

/* Dimensions from the innermost to the outermost, with strides in up to two tensors. */
typedef struct
{
  guint n_dims;
  guint64 shape[RLX_MAX_DIMS];
  guint64 strides[2][RLX_MAX_DIMS];
} RlxProductLoop;

/* An operand whose elements are read through a sliding window: a virtual matrix of positions and steps of k.
 * A step is a channel and an element of the window. Axes are numbered from the innermost one. */
typedef struct
{
  const RlxIrValue *x;      /* one of a and b */
  guint n_dims;
  guint64 c;                /* channels */
  guint64 in[3], out[3], taps[3], strides[3], dilations[3], begins[3];
  guint64 x_axes[3], x_channel, x_image;
  gboolean c_inner;         /* channels are inside elements of the window */
  gboolean vectors;         /* channels are read four at a time */
  guint64 split;            /* the other operand's faster part of a step, when the slower */
  guint64 split_stride;     /* one has a distance of its own; else 0 */
} RlxProductWindow;

/* y[batch, m, n] = alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias, and what
 * the node has as an epilogue. Strides describe the layout of the operands. */
typedef struct
{
  const RlxIrValue *a;
  const RlxIrValue *b;
  const RlxIrValue *bias;   /* nullable */
  const RlxIrValue *y[3];   /* one, or up to three (without batch and epilogue) that share the columns */
  guint n_outputs;          /* 0 stands for 1 */
  guint64 widths[3];        /* if there are several */
  gboolean packed;          /* b is stored in panels of RLX_PRODUCT_PANEL columns, one after another */
  guint64 m, n, k;          /* k may be 0 */
  guint64 a_m, a_k;
  guint64 b_k, b_n;
  RlxProductLoop batch;     /* a, b */
  RlxProductLoop rows;      /* of the bias */
  guint64 bias_n;
  guint64 bias_groups;      /* 0, or: the bias of matrix b of the batch begins at */
  guint64 bias_group;       /* b % bias_groups · bias_group */
  const RlxProductWindow *window;   /* nullable */
  const RlxIrNode *blocks;  /* nullable: the node whose packed weight b is: ops/rlx-packed.c */
  const RlxIrValue *scales; /* nullable: a is bytes, with two of these for every 32: kernels/packed-bytes.wgsl */
  double alpha;
  double beta;
} RlxProduct;

/* A tile that matrix units compute; see kernels/matmul-matrix.wgsl. */
typedef struct
{
  gboolean half;            /* operands are f16, otherwise f32 */
  gboolean exact;           /* they are f16 to begin with */
  guint m, n, k;            /* of one matrix */
  guint rows, columns;      /* of the tile */
  guint wm, wn;             /* workers */
  guint kt;
  guint workgroup;
  guint subgroup;           /* size to request; 0: none */
  gboolean along_k;         /* the layout of both operands allows it: common/matrix-rows.wgsl */
  gboolean ahead;           /* the next tile is fetched while one is multiplied */
} RlxProductMatrix;

/* A kernel and its parameters. */
typedef struct
{
  enum { RLX_PRODUCT_BY_LANES, RLX_PRODUCT_BY_TILES, RLX_PRODUCT_BY_DOT, RLX_PRODUCT_BY_MATRIX } kind;
  gboolean transposed;        /* rows and columns are swapped */
  guint64 workgroup;
  guint subgroup;         /* size to request; 0: none */
  guint64 lanes, slices;  /* lanes */
  guint64 tx, ty, kt;     /* tiles */
  gboolean registers;     /* without workgroup memory */
  gboolean rows;          /* subgroups share rows */
  guint64 unit;           /* rows: the steps that are loaded at once */
  gboolean whole;         /* k is a multiple of kt */
  guint turns;            /* how many of these the unrolled loop has; 0: one */
  gboolean padded;        /* gaps in workgroup memory keep its banks apart */
  gboolean a_along_k, b_along_k, a_vectors, b_vectors;
  guint64 tm, tn;
  guint64 tiles_m, tiles_n;
  guint64 splits, split_k;   /* of the sum: how many, and the steps of each */
  guint64 n_groups;
  gboolean panel, pairs, vectors;
  gboolean shuffle;       /* lanes get words of a through shuffles */
  gboolean a_pairs;
  gboolean even;          /* all workgroups have complete rows and columns, and one result */
  guint64 unroll;
  gboolean dots;          /* lanes share sums of vectors */
  guint64 piece, pieces, rounds;   /* vectors per piece, pieces per sum, and iterations of the loop over them */
  RlxProductMatrix matrix; 
} RlxProductKernel;

/* What the choice of a kernel is based on. */
typedef struct
{
  const RlxProduct *given;
  RlxProduct product;        /* the same, or with rows and columns swapped */
  gboolean is_transposed;
  guint64 n_batch;
  gboolean few_results;      /* a workgroup for each result is best */
  gboolean may_pack;         /* the weight can be stored in panels, as far as the steps are concerned */
  RlxProductMatrix matrix;   /* the configuration for matrix units */
  const char *no_matrix;     /* why they cannot be used; NULL: they can */
  guint condition;           /* under which they can be used, as for rlx_lower_can_cast_f16() */
} RlxProductProblem;

/* Adds an outermost dimension, or widens the present outermost one if both are
 * contiguous in either tensor. */
void     rlx_product_loop_add (RlxProductLoop *loop,
                               guint64         dim,
                               guint64         stride0,
                               guint64         stride1);

/* Whether the driver runs eight lanes in a vector and can shuffle them. */
gboolean rlx_product_has_shuffles (const RlxTarget *target);

/* Whether the target supports `packed`. */
gboolean rlx_product_can_be_packed (const RlxTarget *target);

/* Whether all tiles are banned, which are the only variants that support a `window`. */
gboolean rlx_product_has_no_tiles  (const RlxTarget *target);

/* Whether products may use matrix units at all. */
gboolean rlx_product_has_matrix    (RlxLower *lower);
/* How a product uses matrix units, or why it cannot. *@condition is as for
 * rlx_lower_can_cast_f16(). */
const char *rlx_product_choose_matrix (RlxLower         *lower,
                                       const RlxIrNode  *node,
                                       const RlxProduct *product,
                                       guint64           n_batch,
                                       guint64           wanted,
                                       RlxProductMatrix *matrix,
                                       guint            *condition);
/* Whether both operands of the product, in their layout, can be loaded for matrix units in
 * pieces along k; if so, sets how. A packed weight always can (@packed). */
gboolean rlx_product_choose_pieces   (const RlxTarget        *target,
                                      const RlxProduct       *product,
                                      guint64                 n_batch,
                                      gboolean                packed,
                                      RlxProductMatrix       *matrix);
void     rlx_product_describe_matrix (RlxKernel              *kernel,
                                      const RlxProductMatrix *matrix);
gboolean rlx_matrix_config_is_usable (const RlxTarget      *target,
                                      const RlxMatrixShape *config);
gboolean rlx_matrix_config_is_better (const RlxMatrixShape *a,
                                      const RlxMatrixShape *b);

/* rlx-product-steps.c: the steps of a kernel. @product is @original, or that transposed. */
gboolean rlx_lower_product_kernel (RlxLower         *lower,
                                   const RlxIrNode  *node,
                                   const RlxProduct *original,
                                   const RlxProduct *product,
                                   guint64           n_batch,
                                   RlxProductKernel *config,
                                   GError          **error);

double      rlx_product_count_operations (const RlxProductProblem *problem);
/* What is better than lanes and tiles wherever it fits; NULL: nothing. */
const char *rlx_product_find_better      (const RlxProductProblem *problem);
/* Whether invocations should be adjacent along the columns rather than in tiles. */
gboolean    rlx_product_prefers_lanes    (const RlxTarget         *target,
                                          const RlxProductProblem *problem);
gboolean    rlx_product_can_use_panels   (const RlxProductProblem *problem);
/* Changes the weight to the layout that the variant needs, if possible, and sets where its elements are. */
gboolean    rlx_product_take_panels      (const RlxVariant        *self,
                                          RlxLower                *lower,
                                          const RlxProductProblem *problem,
                                          RlxProduct              *product);

/* rlx-product-tiles.c: whether the matrices of a batch start at multiples of @unit; along which
 * dimension the vectors of each operand lie, and whether each is one load. */
gboolean    rlx_product_is_even_batch    (const RlxProductLoop *batch,
                                          guint                 index,
                                          guint64               unit);
void        rlx_product_choose_vectors   (RlxProductKernel *config,
                                          const RlxProduct *product);
/* Sets workgroups and splits of the sum, from tiles and workgroup; returns how many times longer the product
 * takes than on a device that is always busy. */
double      rlx_product_share_out        (RlxProductKernel *config,
                                          const RlxProduct *product,
                                          guint64           n_batch,
                                          const RlxTarget  *target);

/* Why subgroups cannot share rows of the product, or NULL. Sets how they do, and which fraction of the peak
 * that reaches. */
const char *    rlx_product_check_rows     (const RlxTarget  *target,
                                            const RlxProduct *product);
void            rlx_product_use_rows       (RlxProductKernel *config,
                                            const RlxTarget  *target,
                                            const RlxProduct *product,
                                            guint64           n_batch,
                                            double           *share);

RlxFit          rlx_product_tiles_fits     (const RlxVariant *self,
                                            const RlxTarget  *target,
                                            gconstpointer     data,
                                            const char      **why);
double          rlx_product_tiles_cost     (const RlxVariant *self,
                                            const RlxTarget  *target,
                                            gconstpointer     data);
RlxWeightLayout rlx_product_tiles_layout   (const RlxVariant *self,
                                            const RlxTarget  *target,
                                            gconstpointer     data);
gboolean        rlx_product_tiles_describe (const RlxVariant *self,
                                            RlxLower         *lower,
                                            const RlxIrNode  *node,
                                            gconstpointer     data,
                                            GError          **error);

/* The result must have elements. */
gboolean rlx_lower_product    (RlxLower         *lower,
                               const RlxIrNode  *node,
                               const RlxProduct *product,
                               GError          **error);

G_END_DECLS
