/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Scaled dot-product attention.
 */
#include "config.h"

#include "ops/rlx-attention-private.h"
#include "ops/rlx-index-private.h"
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

/* In lists of layouts. */
#define RESULT 3

/* Of a lane of attention-tile.wgsl: 64 sums, 16 scores, operands, and addresses. */
#define TILE_REGISTERS 120

/* The dimensions of query, key, value and result, whatever the layout. */
typedef struct
{
  gint64 batch;
  gint64 heads;
  gint64 sequence;
  gint64 width;
} Heads;

static Heads
get_heads (const RlxTensorType *type,
           gint64               layout)
{
  gboolean first = layout == RLX_HEAD_LAYOUT_HEADS_FIRST;

  return (Heads) {
    .batch = type->shape[0],
    .heads = type->shape[first ? 1 : 2],
    .sequence = type->shape[first ? 2 : 1],
    .width = type->shape[3],
  };
}

/* ---- the rule ------------------------------------------------------------------ */

static gboolean
check_operand (const RlxOpCall     *call,
               const char          *name,
               const RlxTensorType *type,
               gint64               layout,
               GError             **error)
{
  g_autofree char *text = NULL;

  if (type->n_dims == 4)
    return TRUE;

  text = rlx_type_to_string (type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the %s must be [batch, %s, width], it is %s",
                         name, layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? "heads, sequence" : "sequence, heads", text);
}

/* Two dimensions that must be the same. */
static gboolean
check_same (const RlxOpCall *call,
            const char      *what,
            guint            index_a,
            gint64           a,
            guint            index_b,
            gint64           b,
            GError         **error)
{
  static const char *const names[] = { "query", "key", "value" };
  g_autofree char *text_a = NULL;
  g_autofree char *text_b = NULL;

  if (a == b)
    return TRUE;

  text_a = rlx_type_to_string (call->inputs[index_a]);
  text_b = rlx_type_to_string (call->inputs[index_b]);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s of the %s %s and the %s %s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                         what, names[index_a], text_a, names[index_b], text_b, a, b);
}

static const RlxTensorType *
get_input (const RlxOpCall *call,
           guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

static gboolean
check_attributes (const RlxOpCall         *call,
                  const RlxAttentionAttrs *attrs,
                  GError                 **error)
{
  double scale = attrs->scale;
  double softcap = attrs->softcap;
  gint64 window = attrs->window;

  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g; it must be a finite 32-bit float", scale);
  if (!isfinite ((float) softcap) || softcap < 0 || (softcap > 0 && (float) softcap < 0x1p-126f))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "softcap is %g; it must be a finite 32-bit float above 0, or 0 for none", softcap);
  if (window < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "window is %" G_GINT64_FORMAT "; it must be at least 1, or 0 for none", window);
  return TRUE;
}

/* What is there besides query, key and value. */
static gboolean
check_extras (const RlxOpCall *call,
              const Heads     *query,
              const Heads     *key,
              GError         **error)
{
  const RlxTensorType *mask = get_input (call, MASK);
  const RlxTensorType *lengths = get_input (call, LENGTHS);
  const RlxTensorType *sink = get_input (call, SINK);

  if (mask != NULL)
    {
      RlxTensorType scores = { .data_type = mask->data_type, .n_dims = 4, .shape = { query->batch, query->heads, query->sequence, key->sequence } };
      RlxTensorType joined = scores;

      if (!rlx_shape_broadcast (mask, &scores, &joined) || !rlx_type_same_shape (&joined, &scores))
        {
          g_autofree char *text = rlx_type_to_string (mask);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the mask %s does not broadcast to [batch, heads, queries, keys], "
                                 "[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                                 text, scores.shape[0], scores.shape[1], scores.shape[2], scores.shape[3]);
        }
    }
  if (lengths != NULL && (lengths->n_dims != 1 || lengths->shape[0] != query->batch))
    {
      g_autofree char *text = rlx_type_to_string (lengths);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the key lengths must be [%" G_GINT64_FORMAT "], one for each batch, they are %s", query->batch, text);
    }
  if (sink != NULL && (sink->n_dims != 1 || (sink->shape[0] != query->heads && sink->shape[0] != 1)))
    {
      g_autofree char *text = rlx_type_to_string (sink);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the sink must be [%" G_GINT64_FORMAT "], one for each head, or [1], it is %s", query->heads, text);
    }
  return TRUE;
}

gboolean
rlx_attention_infer (RlxOpCall               *call,
                     const RlxAttentionAttrs *attrs,
                     GError                 **error)
{
  gint64 layout = attrs->layout;
  RlxTensorType type = *call->inputs[QUERY];
  Heads query, key, value;

  if (!check_attributes (call, attrs, error) ||
      !check_operand (call, "query", call->inputs[QUERY], layout, error) ||
      !check_operand (call, "key", call->inputs[KEY], layout, error) ||
      !check_operand (call, "value", call->inputs[VALUE], layout, error))
    return FALSE;

  query = get_heads (call->inputs[QUERY], layout);
  key = get_heads (call->inputs[KEY], layout);
  value = get_heads (call->inputs[VALUE], layout);
  if (!check_same (call, "batches", QUERY, query.batch, KEY, key.batch, error) ||
      !check_same (call, "batches", KEY, key.batch, VALUE, value.batch, error) ||
      !check_same (call, "heads", KEY, key.heads, VALUE, value.heads, error) ||
      !check_same (call, "sequences", KEY, key.sequence, VALUE, value.sequence, error) ||
      !check_same (call, "widths", QUERY, query.width, KEY, key.width, error))
    return FALSE;

  if (key.heads == 0 || query.heads % key.heads != 0)
    {
      g_autofree char *text_query = rlx_type_to_string (call->inputs[QUERY]);
      g_autofree char *text_key = rlx_type_to_string (call->inputs[KEY]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the %" G_GINT64_FORMAT " heads of the query %s are not a multiple of the %" G_GINT64_FORMAT " heads of the key %s",
                             query.heads, text_query, key.heads, text_key);
    }
  if (!check_extras (call, &query, &key, error))
    return FALSE;

  type.shape[3] = value.width;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- the lowering ---------------------------------------------------------------- */

typedef struct
{
  const RlxIrNode *node;
  const RlxIrValue *inputs[6];   /* NULL for one that is left out */
  const RlxIrValue *y;
  Heads q, k, v;
  gint64 layouts[4];             /* of query, key, value and result */
  guint64 share;                 /* heads of the query for one of the key */
  double scale;
  double softcap;
  guint64 window;                /* 0: none */
  gboolean causal;
  double flops;
  double bytes;
} Attention;

static gint64
get_layout (gint64   layout,
            gboolean swapped)
{
  if (!swapped)
    return layout;
  return layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? RLX_HEAD_LAYOUT_SEQUENCE_FIRST : RLX_HEAD_LAYOUT_HEADS_FIRST;
}

static void
attention_init (Attention       *self,
                const RlxIrNode *node)
{
  const RlxAttentionAttrs *attrs = rlx_attention_attrs (node);
  gint64 window = attrs->window;
  double n_scores;

  *self = (Attention) { .node = node, .y = &node->outputs[0] };
  for (guint i = 0; i < MIN (node->n_inputs, G_N_ELEMENTS (self->inputs)); i++)
    {
      self->inputs[i] = node->inputs[i];
      if (node->inputs[i] != NULL)
        self->bytes += (double) rlx_type_n_bytes (&node->inputs[i]->type);
    }
  self->bytes += (double) rlx_type_n_bytes (&self->y->type);

  for (guint i = 0; i < G_N_ELEMENTS (self->layouts); i++)
    self->layouts[i] = get_layout (attrs->layout, attrs->swapped >> i & 1);
  self->q = get_heads (&self->inputs[QUERY]->type, self->layouts[QUERY]);
  self->k = get_heads (&self->inputs[KEY]->type, self->layouts[KEY]);
  self->v = get_heads (&self->inputs[VALUE]->type, self->layouts[VALUE]);
  self->share = self->q.heads / self->k.heads;
  self->scale = attrs->scale;
  if (self->scale == 0.0)
    self->scale = self->q.width > 0 ? 1.0 / sqrt ((double) self->q.width) : 1.0;
  self->softcap = attrs->softcap;
  self->causal = attrs->causal;
  /* A window over everything is none. */
  self->window = window <= G_MAXUINT32 && window < self->k.sequence + self->q.sequence ? (guint64) window : 0;

  n_scores = (double) self->q.batch * (double) self->q.heads * (double) self->q.sequence * (double) self->k.sequence;
  self->flops = 2.0 * n_scores * ((double) self->q.width + (double) self->v.width) * (self->causal ? 0.5 : 1.0);
}

/* How far apart batches, heads and rows of an operand are. */
static void
add_strides (const Attention *self,
             RlxKernel       *kernel,
             char             prefix,
             const Heads     *heads)
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

/* The result, and the sink that goes into its denominator. */
static void
add_result (const Attention *self,
            RlxKernel       *kernel)
{
  Heads y = self->q;

  y.width = self->v.width;
  rlx_kernel_define (kernel, "SINK", self->inputs[SINK] != NULL);
  if (self->inputs[SINK] != NULL)
    {
      rlx_kernel_input (kernel, "sink", self->inputs[SINK]);
      rlx_kernel_param_u32 (kernel, "sink_head", self->inputs[SINK]->type.shape[0] == 1 ? 0 : 1);
    }
  add_strides (self, kernel, 'y', &y);
  rlx_kernel_output (kernel, "y", self->y);
}

static void
add_floats (RlxKernel        *kernel,
            const char       *name,
            const RlxIrValue *value,
            gboolean          vectors)
{
  if (vectors)
    rlx_kernel_input_vector (kernel, name, value, 4);
  else
    rlx_kernel_input (kernel, name, value);
}

/* What makes the scores; see common/attention.wgsl. */
static void
add_scores (const Attention *self,
            RlxKernel       *kernel,
            gboolean         vectors,
            gboolean         value_vectors)
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
      add_floats (kernel, "query", self->inputs[QUERY], vectors);
      add_floats (kernel, "key", self->inputs[KEY], vectors);
      add_strides (self, kernel, 'q', &self->q);
      add_strides (self, kernel, 'k', &self->k);
      rlx_kernel_param_u32 (kernel, "width", self->q.width);
    }
  add_floats (kernel, "value", self->inputs[VALUE], value_vectors);
  add_strides (self, kernel, 'v', &self->v);
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

/* Lanes take queries: attention-rows.wgsl. */
static gboolean
rows_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Attention *self = data;
  const guint64 lanes = 8;
  /* More queries to a lane and more keys at a time save a third and a fifth of
   * the time, but each takes twice as long to compile. */
  guint64 tile_r = self->q.sequence > 16 && self->flops > 1e7 ? 4 : 1;
  gboolean vectors = self->q.width % 4 == 0 && self->v.width % 4 == 0;
  /* Narrow heads get text for each of their columns. */
  guint64 width = tile_r == 4 && vectors && self->q.width == self->v.width && self->q.width <= 64 ? self->q.width : 0;
  guint64 tile_k = self->flops > 1e9 ? 16 : 8;
  guint64 cols = width > 0 ? width : self->v.width <= 64 ? 64 : 256;
  guint64 tiles = (self->q.sequence - 1) / (lanes * tile_r) + 1;
  guint64 chunks = (self->v.width - 1) / cols + 1;
  guint64 n_groups = (guint64) self->q.batch * self->q.heads * tiles * chunks;
  const RlxIrValue *mask = self->inputs[MASK];
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-rows");

  /* Half of the text takes a third less to compile, and a tenth more to run at most. */
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
  add_scores (self, kernel, vectors, vectors);
  add_result (self, kernel);
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
  /* Queries and keys in pieces of 16, 17 words apart; values in the same place. */
  guint64 size = (4 * tile_y + 32) * 17;
  guint64 keys = 32;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-tile");

  while (keys * 8 * tile_v > size)
    keys /= 2;
  rlx_kernel_define (kernel, "WG", 8 * tile_y);
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), TILE_REGISTERS));
  rlx_kernel_define (kernel, "TY", tile_y);
  rlx_kernel_define (kernel, "CV", tile_v);
  rlx_kernel_define (kernel, "KV", keys);
  rlx_kernel_define (kernel, "SIZE", size);
  add_scores (self, kernel, FALSE, FALSE);
  add_result (self, kernel);
  add_tiles (self, kernel, n_groups, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "heads", self->q.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* Joins the splits of each row's keys: attention-merge.wgsl. */
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
  add_result (self, kernel);
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

/* Where the splits leave what they have found, and how many there are. */
static void
add_splits (const Attention   *self,
            RlxLower          *lower,
            RlxKernel         *kernel,
            guint64            splits,
            const RlxIrValue **sums,
            const RlxIrValue **state)
{
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1 };

  type.shape[0] = rlx_type_n_elements (&self->y->type) * splits;
  *sums = rlx_lower_temporary (lower, &type);
  type.shape[0] = self->q.batch * self->q.heads * self->q.sequence * splits * 2;
  *state = rlx_lower_temporary (lower, &type);
  rlx_kernel_output (kernel, "sums", *sums);
  rlx_kernel_output (kernel, "state", *state);
}

/* Few rows on a CPU: attention-keys.wgsl, then attention-merge.wgsl when the keys are
 * dealt out to several workgroups. */
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
  /* Two workgroups for each of eight cores, but at least 256 keys for each: fewer take less
   * time than the step that joins them. */
  guint64 splits = CLAMP (MIN ((16 + n_groups - 1) / n_groups, (guint64) self->k.sequence / 256), 1, 16);
  guint64 span = (self->k.sequence - 1) / splits + 1;
  RlxKernel *kernel = rlx_kernel_new (lower, self->node, "attention-keys");
  const RlxIrValue *sums, *state;

  splits = (self->k.sequence - 1) / span + 1;
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "WIDTH", self->q.width);
  rlx_kernel_define (kernel, "COLS", self->v.width);
  /* As much text as is worth compiling. */
  rlx_kernel_define (kernel, "TK", self->q.width + self->v.width <= 64 ? 2 : 1);
  rlx_kernel_define (kernel, "SPLITS", splits > 1);
  add_scores (self, kernel, TRUE, TRUE);
  add_tiles (self, kernel, n_groups * splits, 1, 1);
  rlx_kernel_param_u32 (kernel, "splits", splits);
  rlx_kernel_param_u32 (kernel, "span", MIN (span, G_MAXUINT32 / 2));
  rlx_kernel_param_u32 (kernel, "rows", rows);
  rlx_kernel_param_u32 (kernel, "kv_heads", self->k.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  if (splits == 1)
    {
      add_result (self, kernel);
      return rlx_kernel_dispatch (kernel, n_groups, error);
    }

  rlx_kernel_define (kernel, "SINK", 0);
  add_splits (self, lower, kernel, splits * lanes, &sums, &state);
  return rlx_kernel_dispatch (kernel, n_groups * splits, error) &&
         lower_merge (self, lower, sums, state, splits * lanes, error);
}

/* Few rows: attention-split.wgsl, and attention-merge.wgsl when the keys are
 * dealt out to several workgroups. */
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
  guint64 rows = self->share * self->q.sequence;
  guint64 tile_q = rows == 1 ? 1 : rows <= 4 ? 4 : 8;
  guint64 tile_v = self->v.width > (gint64) lanes ? 2 : 1;
  guint64 tiles = (rows - 1) / tile_q + 1;
  guint64 chunks = (self->v.width - 1) / (lanes * tile_v) + 1;
  guint64 n_groups = (guint64) self->q.batch * self->k.heads * tiles * chunks;
  /* Enough workgroups for the cores there may be, but at least four blocks of keys each: with eight and more a GPU has
   * one. Its workgroups are one subgroup or two, of which it wants several for each SIMD while they wait for memory. */
  guint64 wanted = (target->split_workgroups * (target->loads_coalesce ? 4 : 1) + n_groups - 1) / n_groups;
  guint64 blocks = (self->k.sequence - 1) / lanes + 1;
  guint64 splits = CLAMP (MIN (wanted, target->loads_coalesce && blocks >= 8 ? blocks : blocks / 4), 1, 64);
  guint64 span = ((blocks - 1) / splits + 1) * lanes;
  gboolean vectors = !target->loads_coalesce && self->q.width % 4 == 0;
  const RlxIrValue *sums, *state;
  RlxKernel *kernel;

  splits = (self->k.sequence - 1) / span + 1;
  kernel = rlx_kernel_new (lower, self->node, "attention-split");
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "TQ", tile_q);
  rlx_kernel_define (kernel, "TV", tile_v);
  rlx_kernel_define (kernel, "STAGE", target->barriers_are_cheap);
  rlx_kernel_define (kernel, "KPL", target->loads_coalesce ? 1 : tile_q == 8 ? 2 : 4);
  rlx_kernel_define (kernel, "VEC", vectors);
  rlx_kernel_define (kernel, "SPLITS", splits > 1);
  add_scores (self, kernel, vectors, FALSE);
  add_tiles (self, kernel, n_groups * splits, tiles, chunks);
  rlx_kernel_param_u32 (kernel, "splits", splits);
  rlx_kernel_param_u32 (kernel, "span", MIN (span, G_MAXUINT32 / 2));
  rlx_kernel_param_u32 (kernel, "rows", rows);
  rlx_kernel_param_u32 (kernel, "kv_heads", self->k.heads);
  rlx_kernel_set_cost (kernel, self->flops, self->bytes);
  if (splits == 1)
    {
      add_result (self, kernel);
      return rlx_kernel_dispatch (kernel, n_groups, error);
    }

  rlx_kernel_define (kernel, "SINK", 0);
  add_splits (self, lower, kernel, splits, &sums, &state);
  return rlx_kernel_dispatch (kernel, n_groups * splits, error) && lower_merge (self, lower, sums, state, splits, error);
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

/* Keys are read again for each row, and columns are written out: twice as many take six times
 * as long. */
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

static RlxFit
tile_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  return target->barriers_are_cheap ? RLX_FIT_WELL : rlx_variant_poorly ("a barrier costs much here", why);
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
  { "split", split_fits, attention_cost, NULL, split_describe, NULL },
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

  attention_init (&self, node);
  if (self.k.sequence == 0)
    return rlx_kernel_dispatch_elements (rlx_kernel_new (lower, node, "fill"), lower, self.y, error);
  return rlx_lower_choose (lower, node, &rlx_attention_variants, &self, error);
}
