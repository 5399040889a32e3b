/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Kernels for the gradients of attention: see the heads of kernels/attention-backward.wgsl and
 * kernels/attention-backward-block.wgsl.
 */
#include "config.h"

#include "ops/rlx-attention-private.h"

/* The operands that attention has as well. */
enum
{
  QUERY = RLX_ATTENTION_SELF,
  KEY = RLX_ATTENTION_KEY,
  VALUE = RLX_ATTENTION_VALUE,
};

/* Registers of a lane besides rows of its own; and with blocks, the same besides columns of the result. */
#define REGISTERS 40
#define BLOCK_REGISTERS 56

/* How many keys or queries a lane processes at a time, as the compilers for Intel's chips count them. */
static const guint blocks[] = { 4, 4, 2, 3 };

/* The columns of a vector, if rows consist of whole ones, and the fewest columns of a part. */
#define UNIT 4
#define MIN_PART 16

#define LANES 32
#define CPU_LANES 8

gboolean
rlx_attention_backward_fits (const RlxIrNode *node)
{
  guint first = node->op->id == RLX_OP_ID_ATTENTION_BACKWARD ? RLX_ATTENTION_BACKWARD_MASK : RLX_ATTENTION_MASK, n_extras = 0;
  gint64 width = node->inputs[QUERY]->type.shape[3], columns = node->inputs[VALUE]->type.shape[3];

  /* A step has seven storage bindings besides these, and every device has eight. */
  for (guint i = first; i < node->n_inputs; i++)
    n_extras += node->inputs[i] != NULL;
  if (n_extras > 1)
    return FALSE;
  /* All columns of a row are in registers. */
  return width % 4 == 0 && columns % 4 == 0 && width > 0 && columns > 0 && width <= 128 && columns <= 128;
}

static guint64
count_tiles (const RlxAttention *self,
             gboolean            by_query,
             guint64             lanes)
{
  return rlx_divide_up (by_query ? (guint64) self->q.sequence : (guint64) self->k.sequence, lanes);
}

static guint64
count_groups (const RlxAttention *self,
              gboolean            by_query,
              guint64             lanes)
{
  return (guint64) self->q.batch * (guint64) (by_query ? self->q.heads : self->k.heads) * count_tiles (self, by_query, lanes);
}

/* What all steps have in common. Each keeps @rows for the ones after it. */
static RlxKernel *
new_kernel (const RlxAttention *self,
            RlxLower           *lower,
            const char         *file,
            guint               stage,
            guint64             lanes,
            gboolean            by_query,
            const RlxIrValue   *rows)
{
  const RlxIrNode *node = self->node;
  RlxKernel *kernel = rlx_kernel_new (lower, node, file);
  RlxHeads y = self->q;

  y.width = self->v.width;
  rlx_kernel_define (kernel, "STAGE", stage);
  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "WIDTH", self->q.width);
  rlx_kernel_define (kernel, "COLS", self->v.width);
  rlx_attention_add_scores (self, kernel, 4, 4);
  rlx_attention_add_strides (self, kernel, 'y', &y);
  rlx_kernel_input_vector (kernel, "g", node->inputs[RLX_ATTENTION_BACKWARD_GRADIENT], 4);
  rlx_kernel_param_f32 (kernel, "factor", self->scale);
  rlx_kernel_param_u32 (kernel, "groups", count_groups (self, by_query, lanes));
  rlx_kernel_param_u32 (kernel, "tiles", count_tiles (self, by_query, lanes));
  if (stage == 0)
    {
      rlx_attention_add_sink (self, kernel);
      rlx_kernel_input_vector (kernel, "result", node->inputs[RLX_ATTENTION_BACKWARD_RESULT], 4);
      rlx_kernel_output (kernel, "rows", rows);
    }
  else
    {
      rlx_kernel_define (kernel, "SINK", 0);
      rlx_kernel_input (kernel, "rows", rows);
    }
  rlx_kernel_param_u32 (kernel, by_query ? "heads" : "kv_heads", by_query ? self->q.heads : self->k.heads);
  return kernel;
}

/* Both steps read all operands. */
static gboolean
lower_rows (const RlxAttention *self,
            RlxLower           *lower,
            guint               stage,
            const RlxIrValue   *rows,
            GError            **error)
{
  const guint64 lanes = rlx_lower_get_target (lower)->barriers_are_cheap ? LANES : CPU_LANES;
  RlxKernel *kernel = new_kernel (self, lower, "attention-backward", stage, lanes, stage == 0, rows);

  if (stage == 0)
    {
      rlx_kernel_output_vector (kernel, "dq", &self->node->outputs[QUERY]);
    }
  else
    {
      rlx_kernel_output_vector (kernel, "dk", &self->node->outputs[KEY]);
      rlx_kernel_output_vector (kernel, "dv", &self->node->outputs[VALUE]);
    }
  rlx_kernel_set_cost (kernel, 2.0 * self->flops, self->bytes);
  return rlx_kernel_dispatch (kernel, count_groups (self, stage == 0, lanes), error);
}

/* One of four steps, each of which computes a part of the columns of one result. */
static gboolean
lower_block (const RlxAttention *self,
             RlxLower           *lower,
             guint               stage,
             const RlxIrValue   *rows,
             GError            **error)
{
  static const char *const names[] = { NULL, "dq", "dk", "dv" };
  static const guint results[] = { 0, QUERY, KEY, VALUE };
  const RlxTarget *target = rlx_lower_get_target (lower);
  const gboolean changes = stage == 1 || stage == 2, by_query = stage < 2;
  const guint most = rlx_target_get_registers (target, target->subgroup_sizes_can_be_set ? target->subgroup_min : target->subgroup_size);
  guint64 lanes = LANES, width = (guint64) self->q.width, columns = (guint64) self->v.width, n_parts = 1;
  guint64 row = (width + (changes ? columns : 0)) / 4 + 1, unit = width % (4 * UNIT) == 0 && columns % (4 * UNIT) == 0 ? UNIT : 1;
  guint64 n_pieces = (stage == 3 ? columns : width) / (4 * unit), part, products;
  RlxKernel *kernel;

  while (lanes * row * 16 > target->limits.max_workgroup_storage)
    lanes /= 2;
  while (stage > 0 && 4 * unit * rlx_divide_up (n_pieces, n_parts) > MAX (MIN_PART, most - MIN (most, BLOCK_REGISTERS)))
    n_parts++;
  part = 4 * unit * rlx_divide_up (n_pieces, n_parts);
  n_parts = rlx_divide_up (4 * unit * n_pieces, part);
  products = n_parts * (width + (changes ? columns : 0) + (stage == 0 ? 0 : part));

  kernel = new_kernel (self, lower, "attention-backward-block", stage, lanes, by_query, rows);
  rlx_kernel_define (kernel, "BLOCK", blocks[stage]);
  rlx_kernel_define (kernel, "UNIT", (gint64) unit);
  rlx_kernel_define (kernel, "PART", (gint64) part);
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (target, (guint) lanes, BLOCK_REGISTERS + (stage == 0 ? 0 : (guint) part)));
  rlx_kernel_param_u32 (kernel, "pieces", width / (4 * unit));
  rlx_kernel_param_u32 (kernel, "value_pieces", columns / (4 * unit));
  rlx_kernel_param_u32 (kernel, "parts", n_parts);
  if (stage > 0)
    rlx_kernel_output_vector (kernel, names[stage], &self->node->outputs[results[stage]]);
  rlx_kernel_set_cost (kernel, self->flops / (double) (width + columns) * (double) products, self->bytes);
  return rlx_kernel_dispatch (kernel, n_parts * count_groups (self, by_query, lanes), error);
}

gboolean
rlx_attention_backward_lower (RlxLower        *lower,
                              const RlxIrNode *node,
                              GError         **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 2, .shape = { 0, 3 } };
  const RlxIrValue *rows;
  RlxAttention self;
  gboolean has_room;

  rlx_attention_init (&self, node, RLX_ATTENTION_BACKWARD_MASK);
  type.shape[0] = self.q.batch * self.q.heads * self.q.sequence;
  rows = rlx_lower_temporary (lower, &type);
  /* Room for a key and a value with their gradients. If a fifth is missing, spills of 12 % on NVIDIA's cards and none on
   * AMD's cost less than recomputing the scores. */
  has_room = 5 * (gint64) target->registers >= 4 * (2 * (self.q.width + self.v.width) + REGISTERS);
  if (!target->barriers_are_cheap || has_room)
    return lower_rows (&self, lower, 0, rows, error) && lower_rows (&self, lower, 1, rows, error);
  for (guint stage = 0; stage < 4; stage++)
    if (!lower_block (&self, lower, stage, rows, error))
      return FALSE;
  return TRUE;
}
