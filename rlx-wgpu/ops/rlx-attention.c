/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Scaled dot-product attention.
 */
#include "config.h"

#include "ops/rlx-attention-private.h"
#include "ops/rlx-index-private.h"
#include "ops/rlx-product-private.h"
#include "ops/rlx-variant-private.h"

#include <math.h>

/* The operands. */
enum
{
  QUERY = RLX_ATTENTION_SELF,
  KEY = RLX_ATTENTION_KEY,
  VALUE = RLX_ATTENTION_VALUE,
  MASK = RLX_ATTENTION_MASK,
  LENGTHS = RLX_ATTENTION_KEY_LENGTHS,
  SINK = RLX_ATTENTION_SINK,
};

/* The index of the result in lists of layouts. */
#define RESULT 3

/* For a lane of attention-tile.wgsl: 64 sums, 16 scores, operands, and addresses. */
#define TILE_REGISTERS 120

typedef RlxAttention Attention;

/* ---- the lowering ---------------------------------------------------------------- */

static gint64
get_layout (gint64   layout,
            gboolean swapped)
{
  if (!swapped)
    return layout;
  return layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? RLX_HEAD_LAYOUT_SEQUENCE_FIRST : RLX_HEAD_LAYOUT_HEADS_FIRST;
}

void
rlx_attention_init (RlxAttention    *self,
                    const RlxIrNode *node,
                    guint            first_extra)
{
  const RlxAttentionAttrs *attrs = rlx_attention_attrs (node);
  gint64 window = attrs->window;
  double n_scores;

  *self = (Attention) { .node = node, .y = &node->outputs[0] };
  for (guint i = 0; i < G_N_ELEMENTS (self->inputs); i++)
    {
      guint from = i < MASK ? i : i - MASK + first_extra;

      if (from >= node->n_inputs || node->inputs[from] == NULL)
        continue;
      self->inputs[i] = node->inputs[from];
      self->bytes += (double) rlx_type_n_bytes (&node->inputs[from]->type);
    }
  self->bytes += (double) rlx_type_n_bytes (&self->y->type);

  for (guint i = 0; i < G_N_ELEMENTS (self->layouts); i++)
    self->layouts[i] = get_layout (attrs->layout, attrs->swapped >> i & 1);
  self->q = rlx_heads_get (&self->inputs[QUERY]->type, self->layouts[QUERY]);
  self->k = rlx_heads_get (&self->inputs[KEY]->type, self->layouts[KEY]);
  self->v = rlx_heads_get (&self->inputs[VALUE]->type, self->layouts[VALUE]);
  self->share = self->q.heads / self->k.heads;
  self->scale = attrs->scale;
  if (self->scale == 0.0)
    self->scale = self->q.width > 0 ? 1.0 / sqrt ((double) self->q.width) : 1.0;
  self->softcap = attrs->softcap;
  self->causal = attrs->causal;
  /* A window that covers all keys is no window. */
  self->window = window <= G_MAXUINT32 && window < self->k.sequence + self->q.sequence ? (guint64) window : 0;

  n_scores = (double) self->q.batch * (double) self->q.heads * (double) self->q.sequence * (double) self->k.sequence;
  self->flops = 2.0 * n_scores * ((double) self->q.width + (double) self->v.width) * (self->causal ? 0.5 : 1.0);
}

void
rlx_attention_add_strides (const RlxAttention *self,
                           RlxKernel          *kernel,
                           char                prefix,
                           const RlxHeads     *heads)
{
  guint index = prefix == 'q' ? QUERY : prefix == 'k' ? KEY : prefix == 'v' ? VALUE : RESULT;
  gboolean first = self->layouts[index] == RLX_HEAD_LAYOUT_HEADS_FIRST;
  char name[16];

  g_snprintf (name, sizeof name, "%c_batch", prefix);
  rlx_kernel_param_u32 (kernel, name, heads->heads * heads->sequence * heads->width);
  g_snprintf (name, sizeof name, "%c_head", prefix);
  rlx_kernel_param_u32 (kernel, name, heads->width * (first ? heads->sequence : 1));
  g_snprintf (name, sizeof name, "%c_row", prefix);
  rlx_kernel_param_u32 (kernel, name, heads->width * (first ? 1 : heads->heads));
}

void
rlx_attention_add_sink (const RlxAttention *self,
                        RlxKernel          *kernel)
{
  rlx_kernel_define (kernel, "SINK", self->inputs[SINK] != NULL);
  if (self->inputs[SINK] != NULL)
    {
      rlx_kernel_input (kernel, "sink", self->inputs[SINK]);
      rlx_kernel_param_u32 (kernel, "sink_head", self->inputs[SINK]->type.shape[0] == 1 ? 0 : 1);
    }
}

/* Adds the result, and the sink that is added to the denominator of the softmax. */
static void
add_result (const Attention *self,
            RlxKernel       *kernel,
            gboolean         vectors)
{
  RlxHeads y = self->q;

  y.width = self->v.width;
  rlx_attention_add_sink (self, kernel);
  rlx_attention_add_strides (self, kernel, 'y', &y);
  if (vectors)
    rlx_kernel_output_vector (kernel, "y", self->y);
  else
    rlx_kernel_output (kernel, "y", self->y);
}

static void
add_floats (RlxKernel        *kernel,
            const char       *name,
            const RlxIrValue *value,
            guint             width)
{
  if (width > 1)
    rlx_kernel_input_vector (kernel, name, value, width);
  else
    rlx_kernel_input (kernel, name, value);
}

void
rlx_attention_add_scores (const RlxAttention *self,
                          RlxKernel          *kernel,
                          guint               width,
                          guint               value_width)
{
  const RlxIrValue *mask = self->inputs[MASK];

  rlx_kernel_define (kernel, "CAUSAL", self->causal);
  rlx_kernel_define (kernel, "WINDOW", self->window > 0);
  rlx_kernel_define (kernel, "LENGTHS", self->inputs[LENGTHS] != NULL);
  rlx_kernel_define (kernel, "SOFTCAP", self->softcap > 0.0);
  rlx_kernel_define (kernel, "SCORES", self->q.width > 0);
  rlx_kernel_define (kernel, "MASK", mask == NULL ? 0 : rlx_data_type_is_float (mask->type.data_type) ? 1 : 2);

  if (self->q.width > 0)
    {
      add_floats (kernel, "query", self->inputs[QUERY], width);
      add_floats (kernel, "key", self->inputs[KEY], width);
      rlx_attention_add_strides (self, kernel, 'q', &self->q);
      rlx_attention_add_strides (self, kernel, 'k', &self->k);
      rlx_kernel_param_u32 (kernel, "width", self->q.width);
    }
  add_floats (kernel, "value", self->inputs[VALUE], value_width);
  rlx_attention_add_strides (self, kernel, 'v', &self->v);
  if (self->inputs[LENGTHS] != NULL)
    rlx_kernel_input (kernel, "lengths", self->inputs[LENGTHS]);

  rlx_kernel_param_u32 (kernel, "queries", self->q.sequence);
  rlx_kernel_param_u32 (kernel, "keys", self->k.sequence);
  rlx_kernel_param_u32 (kernel, "share", self->share);
  rlx_kernel_param_f32 (kernel, "scale", self->softcap > 0.0 ? self->scale / self->softcap : self->scale);
  if (self->softcap > 0.0)
    rlx_kernel_param_f32 (kernel, "softcap", self->softcap);
  if (self->window > 0)
    rlx_kernel_param_u32 (kernel, "window", self->window);

  if (mask != NULL)
    {
      static const char *const names[] = { "mask_key", "mask_query", "mask_head", "mask_batch" };
      guint64 stride = 1;

      rlx_kernel_input (kernel, "mask", mask);
      for (guint i = 0; i < G_N_ELEMENTS (names); i++)
        {
          guint64 dim = i < mask->type.n_dims ? mask->type.shape[mask->type.n_dims - 1 - i] : 1;

          rlx_kernel_param_u32 (kernel, names[i], dim == 1 ? 0 : stride);
          stride *= dim;
        }
    }
}

static void
add_tiles (const Attention *self,
           RlxKernel       *kernel,
           guint64          n_groups,
           guint64          tiles,
           guint64          chunks)
{
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "tiles", tiles);
  rlx_kernel_param_u32 (kernel, "chunks", chunks);
  rlx_kernel_param_u32 (kernel, "columns", self->v.width);
}

static gboolean
mask_has_rows (const RlxIrValue *mask)
{
  return mask != NULL && mask->type.n_dims >= 2 && mask->type.shape[mask->type.n_dims - 2] != 1;
}

/* One lane per query: attention-rows.wgsl. */
static gboolean
rows_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Attention *self = data;
  const guint64 lanes = 8;
  /* Several queries per lane save a third of the time, and more keys at a time a fifth, but each doubles the time to
   * compile. */
  guint64 tile_r = self->q.sequence > 16 && self->flops > 1e7 ? 4 : 1;
  gboolean vectors = self->q.width % 4 == 0 && self->v.width % 4 == 0;
  /* For narrow heads, columns are unrolled. */
  guint64 width = tile_r == 4 && vectors && self->q.width == self->v.width && self->q.width <= 64 ? self->q.width : 0;
  guint64 tile_k = self->flops > 1e9 ? 16 : 8;
  guint64 cols = width > 0 ? width : self->v.width <= 64 ? 64 : 256;
  guint64 tiles = (self->q.sequence - 1) / (lanes * tile_r) + 1;
  guint64 chunks = (self->v.width - 1) / cols + 1;
  guint64 n_groups = (guint64) self->q.batch * self->q.heads * tiles * chunks;
  const RlxIrValue *mask = self->inputs[MASK];
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-rows");

  /* Half the text compiles a third faster, and runs at most a tenth slower. */
  if (width > 0)
    tile_k = CLAMP ((self->flops > 1e9 ? 64 : 32) / width, 1, 8);
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "TR", tile_r);
  rlx_kernel_define (kernel, "TK", tile_k);
  rlx_kernel_define (kernel, "WIDTH", width);
  rlx_kernel_define (kernel, "COLS", cols);
  rlx_kernel_define (kernel, "VEC", vectors);
  rlx_kernel_define (kernel, "MASK_ROWS", mask_has_rows (mask));
  rlx_kernel_define_text (kernel, "MASK_TYPE", mask != NULL && rlx_data_type_is_float (mask->type.data_type) ? "Rows" : "Flags");
  rlx_attention_add_scores (self, kernel, vectors ? 4 : 1, vectors ? 4 : 1);
  add_result (self, kernel, FALSE);
  add_tiles (self, kernel, n_groups, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "heads", self->q.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* Tiles in workgroup memory: attention-tile.wgsl. */
static gboolean
tile_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Attention *self = data;
  guint64 tile_y = self->q.sequence > 32 ? 16 : 8;
  guint64 tile_v = self->v.width <= 16 ? 2 : self->v.width <= 32 ? 4 : self->v.width <= 64 ? 8 : 16;
  guint64 tiles = (self->q.sequence - 1) / (4 * tile_y) + 1;
  guint64 chunks = (self->v.width - 1) / (8 * tile_v) + 1;
  guint64 n_groups = (guint64) self->q.batch * self->q.heads * tiles * chunks;
  /* Rows of 16 columns of queries and keys, 17 words apart; values use the same memory. */
  guint64 size = (4 * tile_y + 32) * 17;
  guint64 keys = 32;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-tile");

  while (keys * 8 * tile_v > size)
    keys /= 2;
  rlx_kernel_define (kernel, "WG", 8 * tile_y);
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), 8 * tile_y, TILE_REGISTERS));
  rlx_kernel_define (kernel, "TY", tile_y);
  rlx_kernel_define (kernel, "CV", tile_v);
  rlx_kernel_define (kernel, "KV", keys);
  rlx_kernel_define (kernel, "SIZE", size);
  rlx_attention_add_scores (self, kernel, 1, 1);
  add_result (self, kernel, FALSE);
  add_tiles (self, kernel, n_groups, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "heads", self->q.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* For attention-block.wgsl: lanes and queries of a workgroup, and the most vectors of 64 columns of the value. */
#define BLOCK_LANES 256
#define BLOCK_QUERIES 64
#define BLOCK_MAX_VECTORS 2
#define BLOCK_REGISTERS 112

static guint
get_block_vectors (const Attention *self)
{
  return (guint) CLAMP (rlx_divide_up ((guint64) self->v.width, 64), 1, BLOCK_MAX_VECTORS);
}

static RlxFit
block_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Attention *self = data;
  guint bytes = 16 * 16 * (2 * 17 + 4 * 17) + 16;

  if (self->q.width == 0 || self->q.width % 4 != 0 || self->v.width % 4 != 0)
    return rlx_variant_cannot ("rows of heads are not whole vectors", why);
  if (MIN (target->limits.max_invocations, target->limits.max_workgroup_size[0]) < BLOCK_LANES || bytes > target->limits.max_workgroup_storage)
    return rlx_variant_cannot ("too little workgroup memory", why);
  if (!target->barriers_are_cheap || !target->workgroup_memory_is_fast)
    return rlx_variant_poorly ("barriers or workgroup memory are slow here", why);
  return self->q.sequence > BLOCK_QUERIES / 2 ? RLX_FIT_WELL : rlx_variant_poorly ("too few queries to fill a block", why);
}

/* Blocks in workgroup memory: attention-block.wgsl. */
static gboolean
block_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Attention *self = data;
  guint vectors = get_block_vectors (self);
  guint64 tiles = rlx_divide_up ((guint64) self->q.sequence, BLOCK_QUERIES), chunks = rlx_divide_up ((guint64) self->v.width, 64 * vectors);
  guint64 n_groups = (guint64) self->q.batch * self->q.heads * tiles * chunks;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-block");

  rlx_kernel_define (kernel, "WG", BLOCK_LANES);
  rlx_kernel_define (kernel, "COLS", vectors);
  rlx_kernel_define (kernel, "AHEAD", !rlx_lower_get_target (lower)->registers_are_shared);
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), BLOCK_LANES, BLOCK_REGISTERS));
  rlx_attention_add_scores (self, kernel, 4, 4);
  add_result (self, kernel, TRUE);
  add_tiles (self, kernel, n_groups, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "heads", self->q.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* ---- matrix units ---------------------------------------------------------------- */

/* Per workgroup: queries, lanes for each query, and keys at a time. */
#define MATRIX_MIN_QUERIES 64
#define MATRIX_LANES 4
#define MATRIX_KEYS 32
/* Vectors in a row of scores. */
#define MATRIX_ROW 9
#define MATRIX_MAX_WIDTH 256
/* Leaves room for other values in registers. */
#define MATRIX_MAX_KEPT 128

/* How attention-matrix.wgsl divides its work: see the head of that file. */
typedef struct
{
  const RlxMatrixShape *shape;
  gboolean set_lanes;
  guint lanes;
  guint queries;           /* per workgroup */
  guint workers;
  guint parts;             /* of the queries, which workers load into registers one by one; 0: they stay in workgroup memory */
  guint sr, sc, wc;        /* a worker's matrices of scores, by rows and columns; workers side by side */
  guint rt, ct, wn;        /* the same for the sums */
  guint columns;           /* of the value, rounded up to a multiple that all workers share */
  guint tile_k;            /* of keys or weights, in vectors of eight elements */
} MatrixPlan;

static const RlxMatrixShape *
find_matrix_shape (const RlxTarget *target)
{
  const RlxMatrixShape *best = NULL;

  for (guint i = 0; i < target->n_matrices; i++)
    {
      const RlxMatrixShape *shape = &target->matrices[i];

      if (shape->component == RLX_COMPONENT_F16 && rlx_matrix_config_is_usable (target, shape) && shape->m % 8 == 0 && shape->n % 8 == 0 &&
          shape->k % 8 == 0 && MATRIX_MIN_QUERIES % shape->m == 0 && MATRIX_KEYS % shape->n == 0 && MATRIX_KEYS % shape->k == 0 &&
          (best == NULL || rlx_matrix_config_is_better (shape, best)))
        best = shape;
    }
  return best;
}

/* Gives each worker the rows and columns of the sums for which it loads the fewest matrices: `per_row` for each row, one
 * for each column. */
static gboolean
share_sums (MatrixPlan *plan,
            guint       width,
            guint       per_row)
{
  guint rows = plan->queries / plan->shape->m, best = G_MAXUINT;

  for (guint wm = 1; wm <= MIN (rows, plan->workers); wm *= 2)
    {
      guint wn = plan->workers / wm, rt = rows / wm, ct = (guint) rlx_divide_up (rlx_divide_up (width, plan->shape->n), wn);
      guint cost = ct * wn * 64 + per_row * rt + ct;

      if (rows % wm != 0 || plan->workers % wm != 0 || cost >= best)
        continue;
      best = cost;
      plan->rt = rt;
      plan->ct = ct;
      plan->wn = wn;
    }
  plan->columns = plan->ct * plan->wn * plan->shape->n;
  return best < G_MAXUINT;
}

/* Completes the plan for so many queries per workgroup; FALSE if that is not possible. */
static gboolean
fill_matrix_plan (MatrixPlan      *plan,
                  const Attention *self,
                  const RlxTarget *target,
                  guint            queries)
{
  guint width = (guint) self->q.width, columns = (guint) self->v.width;
  guint rows = queries / plan->shape->m, n_keys = MATRIX_KEYS / plan->shape->n, weights = self->reduced ? 1 : 2;
  guint invocations = rlx_target_get_max_workgroup (target, plan->lanes);
  guint wr, storage;

  plan->queries = queries;
  plan->workers = queries * MATRIX_LANES / plan->lanes;
  plan->wc = CLAMP (plan->workers / rows, 1, n_keys);
  wr = plan->workers / plan->wc;
  if (queries * MATRIX_LANES > invocations || wr == 0 || wr > rows || plan->workers * plan->shape->m * plan->shape->n > queries * MATRIX_ROW * 4)
    return FALSE;
  plan->sr = rows / wr;
  plan->sc = n_keys / plan->wc;
  /* With few registers, a worker should have as few adjacent columns as possible. */
  if (!share_sums (plan, columns, target->registers_are_shared ? 0 : weights))
    return FALSE;
  plan->tile_k = MAX (MATRIX_KEYS * width, weights * queries * MATRIX_KEYS) / 8;
  storage = plan->tile_k * 16 + plan->columns * MATRIX_KEYS * 2 + queries * MATRIX_ROW * 16 + queries * 4 + 16;
  plan->parts = 0;
  if (plan->sr == 1 && !target->registers_are_shared && width <= MATRIX_MAX_KEPT)
    plan->parts = MAX (1, (guint) rlx_divide_up (queries * width / 8, plan->tile_k));
  if (plan->parts > 0 && width / plan->shape->k % plan->parts != 0)
    plan->parts = width / plan->shape->k;
  if (plan->parts == 0)
    storage += queries * width * 2;
  return storage <= target->limits.max_workgroup_storage;
}

/* NULL on success, otherwise the reason for the failure. */
static const char *
make_matrix_plan (MatrixPlan      *plan,
                  const Attention *self,
                  const RlxTarget *target)
{
  *plan = (MatrixPlan) { .shape = find_matrix_shape (target) };
  for (guint i = QUERY; i <= VALUE; i++)
    if (self->inputs[i]->type.data_type != RLX_DATA_TYPE_F16)
      return "elements are not f16";
  if (!(target->features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX) || plan->shape == NULL)
    return "no matrix units for f16, or none that were tried";
  if (target->subgroup_min != target->subgroup_max && !target->subgroup_sizes_can_be_set)
    return "the driver chooses the size of subgroups";
  plan->lanes = target->registers_are_shared ? target->subgroup_min : target->subgroup_size;
  plan->set_lanes = target->subgroup_sizes_can_be_set;
  if (plan->lanes < MATRIX_LANES || MATRIX_MIN_QUERIES * MATRIX_LANES % plan->lanes != 0)
    return "no workgroup of 256 whole subgroups";
  if (self->q.width == 0 || self->q.width % plan->shape->k != 0 || self->v.width % 4 != 0 || MAX (self->q.width, self->v.width) > MATRIX_MAX_WIDTH)
    return "the width of heads does not suit matrices";
  /* With more queries, keys and values are loaded less often, but weights need more workgroup memory. */
  if (self->q.sequence > MATRIX_MIN_QUERIES && fill_matrix_plan (plan, self, target, 2 * MATRIX_MIN_QUERIES) && plan->parts > 0)
    return NULL;
  return fill_matrix_plan (plan, self, target, MATRIX_MIN_QUERIES) ? NULL : "too little workgroup memory for heads so wide, or too small subgroups";
}

static RlxFit
matrix_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Attention *self = data;
  MatrixPlan plan;
  const char *cannot = make_matrix_plan (&plan, self, target);

  if (cannot != NULL)
    return rlx_variant_cannot (cannot, why);
  if (!target->matrices_are_fast)
    return rlx_variant_poorly ("matrix units are emulated", why);
  return self->q.sequence >= MATRIX_MIN_QUERIES / 4 ? RLX_FIT_WELL : rlx_variant_poorly ("too few queries to fill a matrix", why);
}

static gboolean
matrix_describe (const RlxVariant *variant,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Attention *self = data;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-matrix");
  guint64 tiles, n_groups;
  MatrixPlan plan;

  make_matrix_plan (&plan, self, rlx_lower_get_target (lower));
  tiles = rlx_divide_up ((guint64) self->q.sequence, plan.queries);
  n_groups = (guint64) self->q.batch * self->q.heads * tiles;
  rlx_kernel_enable (kernel, "enable chromium_experimental_subgroup_matrix;");
  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_set_subgroup_size (kernel, plan.set_lanes ? plan.lanes : 0);
  rlx_kernel_define (kernel, "WG", plan.queries * MATRIX_LANES);
  rlx_kernel_define (kernel, "LANES", plan.lanes);
  rlx_kernel_define (kernel, "BQ", plan.queries);
  rlx_kernel_define (kernel, "M", plan.shape->m);
  rlx_kernel_define (kernel, "N", plan.shape->n);
  rlx_kernel_define (kernel, "K", plan.shape->k);
  rlx_kernel_define (kernel, "SR", plan.sr);
  rlx_kernel_define (kernel, "SC", plan.sc);
  rlx_kernel_define (kernel, "WC", plan.wc);
  rlx_kernel_define (kernel, "RT", plan.rt);
  rlx_kernel_define (kernel, "CT", plan.ct);
  rlx_kernel_define (kernel, "WN", plan.wn);
  rlx_kernel_define (kernel, "WIDTH", self->q.width);
  rlx_kernel_define (kernel, "COLS", plan.columns);
  rlx_kernel_define (kernel, "TILE_K", plan.tile_k);
  rlx_kernel_define (kernel, "NK", rlx_divide_up (MATRIX_KEYS * (guint64) self->q.width / 8, plan.queries * MATRIX_LANES));
  rlx_kernel_define (kernel, "KEEP", plan.parts > 0);
  rlx_kernel_define (kernel, "PARTS", MAX (plan.parts, 1));
  rlx_kernel_define (kernel, "SPLIT", !self->reduced);
  rlx_attention_add_scores (self, kernel, 4, 2);
  add_result (self, kernel, TRUE);
  add_tiles (self, kernel, n_groups, tiles, 1);
  rlx_kernel_param_u32 (kernel, "heads", self->q.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* ---- few queries ------------------------------------------------------------------- */

/* Merges the splits of each row's keys: attention-merge.wgsl. */
static gboolean
lower_merge (const Attention  *self,
             RlxLower         *lower,
             const RlxIrValue *sums,
             const RlxIrValue *state,
             guint64           splits,
             GError          **error)
{
  const guint64 lanes = 64;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-merge");

  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "LENGTHS", 0);
  rlx_kernel_define (kernel, "WINDOW", 0);
  rlx_kernel_define (kernel, "CAUSAL", 0);
  rlx_kernel_define (kernel, "MASK", 0);
  rlx_kernel_define (kernel, "SOFTCAP", 0);
  rlx_kernel_input (kernel, "sums", sums);
  rlx_kernel_input (kernel, "state", state);
  add_result (self, kernel, FALSE);
  rlx_kernel_param_f32 (kernel, "scale", 1);
  rlx_kernel_param_u32 (kernel, "keys", self->k.sequence);
  rlx_kernel_param_u32 (kernel, "elements", rlx_type_n_elements (&self->y->type));
  rlx_kernel_param_u32 (kernel, "splits", splits);
  rlx_kernel_param_u32 (kernel, "rows", self->share * self->q.sequence);
  rlx_kernel_param_u32 (kernel, "share", self->share);
  rlx_kernel_param_u32 (kernel, "kv_heads", self->k.heads);
  rlx_kernel_param_u32 (kernel, "columns", self->v.width);
  return rlx_kernel_dispatch (kernel, (rlx_type_n_elements (&self->y->type) - 1) / lanes + 1, error);
}

/* Adds the number of splits, and the outputs for their results. */
static void
add_splits (const Attention   *self,
            RlxLower          *lower,
            RlxKernel         *kernel,
            guint64            splits,
            gboolean           vectors,
            const RlxIrValue **sums,
            const RlxIrValue **state)
{
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1 };

  type.shape[0] = rlx_type_n_elements (&self->y->type) * splits;
  *sums = rlx_lower_temporary (lower, &type);
  type.shape[0] = self->q.batch * self->q.heads * self->q.sequence * splits * 2;
  *state = rlx_lower_temporary (lower, &type);
  if (vectors)
    rlx_kernel_output_vector (kernel, "sums", *sums);
  else
    rlx_kernel_output (kernel, "sums", *sums);
  rlx_kernel_output (kernel, "state", *state);
}

/* For few rows on a CPU: attention-keys.wgsl, then attention-merge.wgsl if the keys are split among several workgroups. */
static gboolean
keys_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Attention *self = data;
  const guint64 lanes = 8;
  guint64 rows = self->share * self->q.sequence;
  guint64 n_groups = (guint64) self->q.batch * self->k.heads * rows;
  /* Two workgroups for each of eight cores, but at least 256 keys each: fewer take less time than the step that merges
   * them. */
  guint64 splits = CLAMP (MIN ((16 + n_groups - 1) / n_groups, (guint64) self->k.sequence / 256), 1, 16);
  guint64 span = (self->k.sequence - 1) / splits + 1;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-keys");
  const RlxIrValue *sums, *state;

  splits = (self->k.sequence - 1) / span + 1;
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "WIDTH", self->q.width);
  rlx_kernel_define (kernel, "COLS", self->v.width);
  /* The most text that is worth compiling. */
  rlx_kernel_define (kernel, "TK", self->q.width + self->v.width <= 64 ? 2 : 1);
  rlx_kernel_define (kernel, "SPLITS", splits > 1);
  rlx_attention_add_scores (self, kernel, 4, 4);
  add_tiles (self, kernel, n_groups * splits, 1, 1);
  rlx_kernel_param_u32 (kernel, "splits", splits);
  rlx_kernel_param_u32 (kernel, "span", MIN (span, G_MAXUINT32 / 2));
  rlx_kernel_param_u32 (kernel, "rows", rows);
  rlx_kernel_param_u32 (kernel, "kv_heads", self->k.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  if (splits == 1)
    {
      add_result (self, kernel, FALSE);
      return rlx_kernel_dispatch (kernel, n_groups, error);
    }

  rlx_kernel_define (kernel, "SINK", 0);
  add_splits (self, lower, kernel, splits * lanes, FALSE, &sums, &state);
  return rlx_kernel_dispatch (kernel, n_groups * splits, error) &&
         lower_merge (self, lower, sums, state, splits * lanes, error);
}

/* Rows of queries that a workgroup processes together, since they share keys. */
static guint64
choose_rows (const Attention *self)
{
  guint64 rows = self->share * (guint64) self->q.sequence;

  return rows == 1 ? 1 : rows <= 4 ? 4 : 8;
}

/* The number of splits of the keys for @n_groups workgroups, and their length. */
static guint64
cut_keys (const Attention *self,
          const RlxTarget *target,
          guint64          n_groups,
          guint64         *span)
{
  const guint64 block = 64;
  /* Enough workgroups for any likely number of cores, with at least four blocks of keys each; on a GPU with one, if
   * there are eight blocks or more. Workgroups there consist of one or two subgroups, of which each SIMD needs several
   * to hide the latency of memory. */
  guint64 wanted = (target->split_workgroups * (target->loads_coalesce ? 4 : 1) + n_groups - 1) / n_groups;
  guint64 blocks = (self->k.sequence - 1) / block + 1;
  guint64 splits = CLAMP (MIN (wanted, target->loads_coalesce && blocks >= 8 ? blocks : blocks / 4), 1, 64);

  *span = ((blocks - 1) / splits + 1) * block;
  return (self->k.sequence - 1) / *span + 1;
}

/* What attention-split.wgsl and attention-few.wgsl have in common; attention-merge.wgsl follows if the keys are split
 * among several workgroups. */
static gboolean
dispatch_few (const Attention *self,
              RlxLower        *lower,
              RlxKernel       *kernel,
              guint64          tiles,
              guint64          chunks,
              gboolean         vectors,
              GError         **error)
{
  guint64 n_groups = (guint64) self->q.batch * self->k.heads * tiles * chunks;
  guint64 span, splits = cut_keys (self, rlx_lower_get_target (lower), n_groups, &span);
  const RlxIrValue *sums, *state;

  rlx_kernel_define (kernel, "SPLITS", splits > 1);
  add_tiles (self, kernel, n_groups * splits, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "splits", splits);
  rlx_kernel_param_u32 (kernel, "span", MIN (span, G_MAXUINT32 / 2));
  rlx_kernel_param_u32 (kernel, "rows", self->share * (guint64) self->q.sequence);
  rlx_kernel_param_u32 (kernel, "kv_heads", self->k.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  if (splits == 1)
    {
      add_result (self, kernel, vectors);
      return rlx_kernel_dispatch (kernel, n_groups, error);
    }

  rlx_kernel_define (kernel, "SINK", 0);
  add_splits (self, lower, kernel, splits, vectors, &sums, &state);
  return rlx_kernel_dispatch (kernel, n_groups * splits, error) && lower_merge (self, lower, sums, state, splits, error);
}

/* For few rows: attention-split.wgsl. */
static gboolean
split_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Attention *self = data;
  const RlxTarget *target = rlx_lower_get_target (lower);
  const guint64 lanes = 64;
  guint64 tile_q = choose_rows (self);
  guint64 tile_v = self->v.width > (gint64) lanes ? 2 : 1;
  gboolean vectors = !target->loads_coalesce && self->q.width % 4 == 0;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-split");

  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "TQ", tile_q);
  rlx_kernel_define (kernel, "TV", tile_v);
  rlx_kernel_define (kernel, "STAGE", target->barriers_are_cheap);
  rlx_kernel_define (kernel, "KPL", target->loads_coalesce ? 1 : tile_q == 8 ? 2 : 4);
  rlx_kernel_define (kernel, "VEC", vectors);
  rlx_attention_add_scores (self, kernel, vectors ? 4 : 1, 1);
  return dispatch_few (self, lower, kernel, rlx_divide_up (self->share * (guint64) self->q.sequence, tile_q),
                       rlx_divide_up ((guint64) self->v.width, lanes * tile_v), FALSE, error);
}

/* For few rows on a GPU: attention-few.wgsl. Each lane has eight columns of queries and sums, and of the keys and values
 * that it is loading. */
#define FEW_COLUMNS 8

/* If registers are scarce, half as many lanes have twice as many registers each. */
static guint
get_few_lanes (const RlxTarget *target)
{
  return target->registers_are_shared && target->subgroup_sizes_can_be_set ? target->subgroup_min : target->subgroup_size;
}

static gboolean
few_describe (const RlxVariant *variant,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Attention *self = data;
  const RlxTarget *target = rlx_lower_get_target (lower);
  guint lanes = get_few_lanes (target), per = (guint) self->q.width / FEW_COLUMNS;
  guint64 tile_q = choose_rows (self);
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-few");

  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_set_subgroup_size (kernel, target->subgroup_sizes_can_be_set ? lanes : 0);
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "WIDTH", self->q.width);
  rlx_kernel_define (kernel, "TQ", tile_q);
  rlx_kernel_define (kernel, "UNROLL", target->registers_are_shared ? (tile_q == 1 ? 4 : 1) : tile_q == 8 ? 4 : 8);
  rlx_kernel_define (kernel, "STEPS", g_bit_storage (per) - 1);
  rlx_kernel_define (kernel, "JOINS", g_bit_storage (lanes / per) - 1);
  rlx_kernel_define (kernel, "HALF", self->inputs[KEY]->type.data_type == RLX_DATA_TYPE_F16);
  rlx_attention_add_scores (self, kernel, 4, 4);
  return dispatch_few (self, lower, kernel, rlx_divide_up (self->share * (guint64) self->q.sequence, tile_q), 1, TRUE, error);
}

/* ---- the variants ------------------------------------------------------------------ */

static char *
print_attention (gconstpointer data)
{
  const Attention *self = data;

  return g_strdup_printf ("%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " heads, %" G_GINT64_FORMAT " queries of %" G_GINT64_FORMAT
                          ", %" G_GINT64_FORMAT " keys, values of %" G_GINT64_FORMAT ", %s",
                          self->q.batch, self->q.heads, self->q.sequence, self->q.width, self->k.sequence, self->v.width,
                          rlx_data_type_to_string (self->y->type.data_type));
}

static double
attention_cost (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data)
{
  const Attention *self = data;

  return rlx_target_get_seconds (target, self->flops, self->bytes);
}

/* Keys are read again for each row, and columns are unrolled: twice as many columns take six times as long. */
static RlxFit
keys_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Attention *self = data;

  if (self->q.width == 0 || self->q.width % 4 != 0 || self->v.width % 4 != 0 || self->q.width > 64 || self->v.width > 64)
    return rlx_variant_cannot ("heads are not 4, 8 … 64 wide", why);
  if (self->share * self->q.sequence > 4)
    return rlx_variant_poorly ("more than 4 rows for the same keys", why);
  return target->barriers_are_cheap ? rlx_variant_poorly ("made for the eight lanes of a CPU", why) : RLX_FIT_WELL;
}

static RlxFit
split_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Attention *self = data;

  return self->q.sequence < 8 ? RLX_FIT_WELL : rlx_variant_poorly ("8 queries or more", why);
}

static gboolean
is_power_of_two (gint64 n)
{
  return n > 0 && (n & (n - 1)) == 0;
}

static RlxFit
few_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Attention *self = data;
  RlxDataType type = self->inputs[KEY]->type.data_type;

  if (!(target->features & RLX_DEVICE_FEATURES_SUBGROUPS) || !is_power_of_two (get_few_lanes (target)) ||
      (target->subgroup_min != target->subgroup_max && !target->subgroup_sizes_can_be_set))
    return rlx_variant_cannot ("there are no subgroups, or their size is unknown", why);
  if (self->q.width != self->v.width || self->q.width % FEW_COLUMNS != 0 || !is_power_of_two (self->q.width / FEW_COLUMNS) ||
      self->q.width / FEW_COLUMNS > (gint64) get_few_lanes (target))
    return rlx_variant_cannot ("the width of heads cannot be divided evenly among the lanes of a subgroup", why);
  if ((type != RLX_DATA_TYPE_F32 && type != RLX_DATA_TYPE_F16) || self->inputs[VALUE]->type.data_type != type ||
      self->inputs[QUERY]->type.data_type != type)
    return rlx_variant_cannot ("elements are neither all f32 nor all f16", why);
  if (self->q.sequence >= 8)
    return rlx_variant_poorly ("8 queries or more", why);
  if (target->registers_are_shared && choose_rows (self) > 4)
    return rlx_variant_poorly ("more than four rows need more registers", why);
  return target->loads_coalesce ? RLX_FIT_WELL : rlx_variant_poorly ("neighbouring loads are not combined here", why);
}

static RlxFit
tile_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  return target->barriers_are_cheap ? RLX_FIT_WELL : rlx_variant_poorly ("barriers are slow here", why);
}

static RlxFit
rows_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  return target->barriers_are_cheap ? rlx_variant_poorly ("made for the eight lanes of a CPU", why) : RLX_FIT_WELL;
}

static const RlxVariant variants[] = {
  { "keys", keys_fits, attention_cost, NULL, keys_describe, NULL },
  { "few", few_fits, attention_cost, NULL, few_describe, NULL },
  { "split", split_fits, attention_cost, NULL, split_describe, NULL },
  { "matrix", matrix_fits, attention_cost, NULL, matrix_describe, NULL },
  { "block", block_fits, attention_cost, NULL, block_describe, NULL },
  { "tile", tile_fits, attention_cost, NULL, tile_describe, NULL },
  { "rows", rows_fits, attention_cost, NULL, rows_describe, NULL },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 8, 64, 64]") RLX_SAMPLE_INPUT (1, "f32[1, 8, 64, 64]") RLX_SAMPLE_INPUT (2, "f32[1, 8, 64, 64]")
    "%3 = attention(%0, %1, %2)\n" RLX_SAMPLE_OUTPUT (3), 2 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 8, 1, 64]") RLX_SAMPLE_INPUT (1, "f32[1, 8, 512, 64]") RLX_SAMPLE_INPUT (2, "f32[1, 8, 512, 64]")
    "%3 = attention(%0, %1, %2)\n" RLX_SAMPLE_OUTPUT (3), 2 },
  { NULL, 0 },
};

const RlxVariants rlx_attention_variants = {
  RLX_FAMILY_ATTENTION, "attention", variants, G_N_ELEMENTS (variants), print_attention, samples,
};

gboolean
rlx_attention_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  Attention self;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  rlx_attention_init (&self, node, MASK);
  self.reduced = rlx_lower_get_precision (lower) >= RLX_PRECISION_REDUCED;
  if (self.k.sequence == 0)
    return rlx_kernel_dispatch_elements (rlx_kernel_new (lower, node, "fill"), lower, self.y, error);
  return rlx_lower_choose (lower, node, &rlx_attention_variants, &self, error);
}
