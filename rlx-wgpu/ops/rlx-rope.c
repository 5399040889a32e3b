/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Rotary position embeddings. The compiler merges several of them, and also the writing of
 * their rows into a cache: see rlx-rope-private.h.
 */
#include "config.h"

#include "ops/rlx-rope-private.h"

#include <math.h>

#include "ops/rlx-shape-private.h"

#define WORKGROUP_SIZE 64

/* The operands; rope_2d has only the first two. */
enum
{
  X = RLX_ROPE_SELF,
  POSITIONS = RLX_ROPE_POSITIONS,
  COS = RLX_ROPE_COSINES,
  SIN = RLX_ROPE_SINES,
};

/* ---- rules ----------------------------------------------------------------------- */

static gint64
get_sequence (const RlxTensorType *type,
              gint64               layout)
{
  return type->shape[layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 2 : 1];
}

static const RlxTensorType *
get_input (const RlxOpCall *call,
           guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

static gboolean
check_operand (const RlxOpCall    *call,
               const RlxRopeAttrs *attrs,
               GError            **error)
{
  double base = attrs->base, scale = attrs->scale;

  if (call->inputs[X]->n_dims != 4)
    {
      g_autofree char *text = rlx_type_to_string (call->inputs[X]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand must be [batch, %s, width]; it is %s",
                             attrs->layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? "heads, sequence" : "sequence, heads", text);
    }
  if (!isfinite ((float) base) || base < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "base is %g; it must be a finite 32-bit float from 1", base);
  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g; it must be a finite 32-bit float", scale);
  return TRUE;
}

/* [sequence] or [batch, sequence], followed by @n_axes coordinates if that is above 1;
 * dimensions of 1 broadcast. */
static gboolean
check_positions (const RlxOpCall    *call,
                 const RlxRopeAttrs *attrs,
                 guint               n_axes,
                 GError            **error)
{
  const RlxTensorType *positions = get_input (call, POSITIONS);
  RlxTensorType all = {
    .data_type = RLX_DATA_TYPE_I32,
    .n_dims = n_axes > 1 ? 3 : 2,
    .shape = { call->inputs[X]->shape[0], get_sequence (call->inputs[X], attrs->layout), n_axes },
  };
  RlxTensorType joined = all;
  g_autofree char *text = NULL;
  g_autofree char *text_all = NULL;

  if (positions == NULL)
    return TRUE;
  if ((n_axes == 1 || (positions->n_dims > 0 && positions->shape[positions->n_dims - 1] == (gint64) n_axes)) &&
      rlx_shape_broadcast (positions, &all, &joined) && rlx_type_same_shape (&joined, &all))
    return TRUE;

  text = rlx_type_to_string (positions);
  text_all = rlx_type_to_string (&all);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the positions %s do not broadcast to %s, %s",
                         text, text_all, n_axes > 1 ? "[batch, sequence, 2]" : "[batch, sequence]");
}

static gboolean
check_tables (const RlxOpCall    *call,
              const RlxRopeAttrs *attrs,
              gint64              rotated,
              GError            **error)
{
  const RlxTensorType *cosines = get_input (call, COS);
  const RlxTensorType *sines = get_input (call, SIN);
  g_autofree char *text_cos = NULL;
  g_autofree char *text_sin = NULL;
  gint64 width;

  if (cosines == NULL && sines == NULL)
    return TRUE;
  if (cosines == NULL || sines == NULL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %s but no %s", cosines ? "cosines" : "sines", cosines ? "sines" : "cosines");

  text_cos = rlx_type_to_string (cosines);
  text_sin = rlx_type_to_string (sines);
  if (!rlx_type_equal (cosines, sines))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the cosines %s and the sines %s differ", text_cos, text_sin);
  width = cosines->n_dims > 0 ? cosines->shape[cosines->n_dims - 1] : 0;
  if (cosines->n_dims < 1 || (width != rotated / 2 && width != rotated))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the tables %s have rows of neither %" G_GINT64_FORMAT " nor %" G_GINT64_FORMAT " elements",
                           text_cos, rotated / 2, rotated);

  if (get_input (call, POSITIONS) != NULL)
    {
      if (cosines->n_dims != 2 || cosines->shape[0] == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the tables %s must have 2 dimensions, with a row for each position", text_cos);
    }
  else
    {
      RlxTensorType all = {
        .data_type = cosines->data_type,
        .n_dims = 3,
        .shape = { call->inputs[X]->shape[0], get_sequence (call->inputs[X], attrs->layout), width },
      };
      RlxTensorType joined = all;

      if (!rlx_shape_broadcast (cosines, &all, &joined) || !rlx_type_same_shape (&joined, &all))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the tables %s do not broadcast to [batch, sequence, pairs], "
                               "[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                               text_cos, all.shape[0], all.shape[1], all.shape[2]);
    }
  return TRUE;
}

gboolean
rlx_rope_infer (RlxOpCall          *call,
                const RlxRopeAttrs *attrs,
                GError            **error)
{
  gint64 rotated = attrs->rotated;
  gint64 width;

  if (!check_operand (call, attrs, error))
    return FALSE;

  width = call->inputs[X]->shape[3];
  if (rotated < 0 || rotated > width)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "rotated is %" G_GINT64_FORMAT "; it must be between 0 and the width, %" G_GINT64_FORMAT, rotated, width);
  if (rotated == 0)
    rotated = width;
  if (rotated % 2 != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "%" G_GINT64_FORMAT " rotated elements do not make pairs", rotated);
  if (!check_positions (call, attrs, 1, error) || !check_tables (call, attrs, rotated, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[X]);
  return TRUE;
}

gboolean
rlx_rope_2d_infer (RlxOpCall          *call,
                   const RlxRopeAttrs *attrs,
                   GError            **error)
{
  gint64 columns = attrs->columns;
  gboolean has_positions = get_input (call, POSITIONS) != NULL;

  if (!check_operand (call, attrs, error) || !check_positions (call, attrs, 2, error))
    return FALSE;
  if (call->inputs[X]->shape[3] % 4 != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a width of %" G_GINT64_FORMAT " does not make pairs for two axes", call->inputs[X]->shape[3]);
  if (columns < 0 || columns > G_MAXINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "columns is %" G_GINT64_FORMAT "; it must be between 1 and %d", columns, G_MAXINT32);
  if (has_positions == (columns > 0))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %s positions %s columns", has_positions ? "both" : "neither", has_positions ? "and" : "nor");

  rlx_call_add_output (call, call->inputs[X]);
  return TRUE;
}

/* ---- lowerings --------------------------------------------------------------------- */

/* The rotation that all parts of a step share. */
typedef struct
{
  const RlxIrValue *positions, *cosines, *sines;   /* nullable */
  guint64 pairs;
  guint n_axes;
  gboolean interleaved;
  gboolean sequence_first;
  double base, scale;
  gint64 columns;
} Rotation;

/* Rows of a tensor, one for each head of each token of each sequence, and where they go. */
typedef struct
{
  const RlxIrValue *x, *y;
  guint64 batches, heads, sequence, width, pairs;
  guint64 x_batch, x_head, x_token;
  guint64 y_batch, y_head, y_token;
  guint64 size, length, step;   /* of the cache along its axis, if there is one */
  gboolean in_place;            /* elements keep their positions */
} Part;

/* The fraction of a full turn that separates neighbouring positions, for each pair, in
 * units of 2⁻⁶⁴: the upper word, then the lower one. */
static const RlxIrValue *
make_steps (RlxLower       *lower,
            const Rotation *rotation)
{
  guint64 pairs = rotation->pairs, per_axis = pairs / rotation->n_axes;
  double base = rotation->base;
  double scale = rotation->scale;
  gint64 shape[] = { (gint64) pairs, 2 };
  g_autofree guint32 *words = g_new0 (guint32, pairs * 2 + 1);
  g_autoptr(RlxTensor) tensor = NULL;

  for (guint64 i = 0; i < pairs; i++)
    {
      double fraction = scale * pow (base, -(double) (i % per_axis) / (double) per_axis) / (2.0 * G_PI);
      double upper;

      fraction -= floor (fraction);
      upper = floor (fraction * 0x1p32);
      words[i * 2] = (guint32) MIN (upper, (double) G_MAXUINT32);
      words[i * 2 + 1] = (guint32) MIN (floor ((fraction * 0x1p32 - upper) * 0x1p32), (double) G_MAXUINT32);
    }
  tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_U32, shape, 2, (const guint8 *) words, pairs * 2 * sizeof *words, NULL);
  return rlx_lower_constant (lower, tensor);
}

/* Adds the strides of rows and of batches, 0 for those that broadcast. @skip dimensions
 * follow the rows. */
static void
add_strides (RlxKernel           *kernel,
             const char          *prefix,
             const RlxTensorType *type,
             guint                skip)
{
  guint64 stride = 1;
  char name[32];

  for (guint i = 0; i < skip + 2; i++)
    {
      guint64 dim = i < type->n_dims ? type->shape[type->n_dims - 1 - i] : 1;

      if (i >= skip)
        {
          g_snprintf (name, sizeof name, "%s_%s", prefix, i == skip ? "row" : "batch");
          rlx_kernel_param_u32 (kernel, name, dim == 1 ? 0 : stride);
        }
      stride *= dim;
    }
}

/* Adds what the angles are computed from. */
static void
add_rotation (RlxLower       *lower,
              RlxKernel      *kernel,
              const Rotation *rotation)
{
  rlx_kernel_define (kernel, "INTERLEAVED", rotation->interleaved);
  rlx_kernel_define (kernel, "POSITIONS", rotation->positions == NULL ? 0 : rotation->n_axes);
  rlx_kernel_define (kernel, "GRID", rotation->positions == NULL && rotation->n_axes == 2);
  rlx_kernel_define (kernel, "TABLES", rotation->cosines != NULL);
  rlx_kernel_param_u32 (kernel, "pairs", rotation->pairs);
  if (rotation->n_axes == 2)
    rlx_kernel_param_u32 (kernel, "columns", rotation->columns);
  if (rotation->positions != NULL)
    {
      rlx_kernel_input (kernel, "positions", rotation->positions);
      add_strides (kernel, "position", &rotation->positions->type, rotation->n_axes - 1);
    }
  if (rotation->cosines != NULL)
    {
      const RlxTensorType *table = &rotation->cosines->type;
      guint64 width = table->shape[table->n_dims - 1];

      rlx_kernel_define (kernel, "WIDE", width != rotation->pairs);
      rlx_kernel_input (kernel, "cos", rotation->cosines);
      rlx_kernel_input (kernel, "sin", rotation->sines);
      if (rotation->positions != NULL)
        {
          rlx_kernel_param_u32 (kernel, "table_rows", table->shape[0]);
          rlx_kernel_param_u32 (kernel, "table_width", width);
        }
      else
        {
          add_strides (kernel, "table", table, 1);
        }
    }
  else
    {
      rlx_kernel_input (kernel, "angle_steps", make_steps (lower, rotation));
    }
}

/* Adds a part, whose first workgroup is @first, and returns the number of its workgroups. */
static guint64
add_part (RlxKernel  *kernel,
          guint       index,
          const Part *part,
          guint64     first)
{
  guint64 units = part->batches * part->heads * part->sequence * (part->width - part->pairs);
  guint64 groups = (units + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
  char x[8], y[8];

  g_snprintf (x, sizeof x, "x%u", index);
  g_snprintf (y, sizeof y, "y%u", index);
  rlx_kernel_input (kernel, x, part->x);
  rlx_kernel_output (kernel, y, part->y);
  if (part->in_place)
    rlx_kernel_allow_in_place (kernel, x, y);
  rlx_kernel_param_u32_at (kernel, "first", index, first);
  rlx_kernel_param_u32_at (kernel, "groups", index, groups);
  rlx_kernel_param_u32_at (kernel, "units", index, units);
  rlx_kernel_param_u32_at (kernel, "head_units", index, part->width - part->pairs);
  rlx_kernel_param_u32_at (kernel, "heads", index, part->heads);
  rlx_kernel_param_u32_at (kernel, "sequence", index, part->sequence);
  rlx_kernel_param_u32_at (kernel, "x_batch", index, part->x_batch);
  rlx_kernel_param_u32_at (kernel, "x_head", index, part->x_head);
  rlx_kernel_param_u32_at (kernel, "x_token", index, part->x_token);
  rlx_kernel_param_u32_at (kernel, "y_batch", index, part->y_batch);
  rlx_kernel_param_u32_at (kernel, "y_head", index, part->y_head);
  rlx_kernel_param_u32_at (kernel, "y_token", index, part->y_token);
  if (part->step > 0)
    {
      rlx_kernel_param_u32_at (kernel, "size", index, part->size);
      rlx_kernel_param_u32_at (kernel, "length", index, part->length);
      rlx_kernel_param_u32_at (kernel, "step", index, part->step);
    }
  return groups;
}

/* A single step for all parts, none of which is empty. @index is the first row in the
 * caches. */
static gboolean
lower_parts (RlxLower         *lower,
             const RlxIrNode  *node,
             const Rotation   *rotation,
             const RlxIrValue *index,
             const Part       *parts,
             guint             n_parts,
             GError          **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "rope");
  guint n_rotated = 0, n_plain = 0;
  guint64 groups = 0;
  double elements = 0, bytes = 0;

  for (guint i = 0; i < n_parts; i++)
    {
      n_rotated += parts[i].pairs > 0;
      n_plain += parts[i].step == 0;
    }
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "PARTS", n_parts);
  rlx_kernel_define (kernel, "ROTATED", n_rotated);
  rlx_kernel_define (kernel, "PLAIN", n_plain);
  rlx_kernel_define (kernel, "SEQUENCE_FIRST", rotation->sequence_first);
  if (n_rotated > 0)
    add_rotation (lower, kernel, rotation);
  if (n_plain < n_parts)
    {
      rlx_kernel_input (kernel, "indices", index);
      rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (rlx_data_type_on_device (index->type.data_type)));
    }
  for (guint i = 0; i < n_parts; i++)
    {
      groups += add_part (kernel, i, &parts[i], groups);
      elements += (double) rlx_type_n_elements (&parts[i].x->type);
      bytes += 2.0 * (double) rlx_type_n_bytes (&parts[i].x->type);
    }
  rlx_kernel_set_cost (kernel, 3.0 * elements, bytes);
  return rlx_kernel_dispatch (kernel, groups, error);
}

static void
rotation_init (Rotation        *rotation,
               const RlxIrNode *node)
{
  const RlxRopeAttrs *attrs = rlx_rope_attrs (node);

  *rotation = (Rotation) {
    .interleaved = attrs->interleaved,
    .sequence_first = attrs->layout == RLX_HEAD_LAYOUT_SEQUENCE_FIRST,
    .base = attrs->base,
    .scale = attrs->scale,
    .n_axes = 1,
  };
}

/* Gets the rows of a four-dimensional tensor, and their strides, from @type. */
static void
part_init (Part                *part,
           const RlxTensorType *type,
           gboolean             sequence_first,
           gboolean             swapped)
{
  guint64 inner = (guint64) type->shape[3];
  guint64 middle = (guint64) type->shape[2] * inner;

  part->batches = (guint64) type->shape[0];
  part->width = inner;
  part->x_batch = (guint64) type->shape[1] * middle;
  /* If the two axes are swapped, the second one is the third in memory. */
  if (sequence_first != swapped)
    {
      part->sequence = (guint64) type->shape[1];
      part->heads = (guint64) type->shape[2];
      part->x_token = middle;
      part->x_head = inner;
    }
  else
    {
      part->heads = (guint64) type->shape[1];
      part->sequence = (guint64) type->shape[2];
      part->x_head = middle;
      part->x_token = inner;
    }
}

static gboolean
lower_rope (RlxLower        *lower,
            const RlxIrNode *node,
            Rotation        *rotation,
            GError         **error)
{
  const RlxTensorType *type = &node->inputs[X]->type;
  Part part = { .x = node->inputs[X], .y = &node->outputs[0], .pairs = rotation->pairs, .in_place = TRUE };

  if (rlx_type_n_elements (type) == 0)
    return TRUE;

  rotation->positions = node->n_inputs > POSITIONS ? node->inputs[POSITIONS] : NULL;
  rotation->cosines = node->n_inputs > COS ? node->inputs[COS] : NULL;
  rotation->sines = node->n_inputs > SIN ? node->inputs[SIN] : NULL;
  part_init (&part, type, rotation->sequence_first, FALSE);
  part.y_batch = part.x_batch;
  part.y_head = part.x_head;
  part.y_token = part.x_token;
  return lower_parts (lower, node, rotation, NULL, &part, 1, error);
}

static guint64
get_rope_pairs (const RlxIrNode *rope)
{
  gint64 rotated = rlx_rope_attrs (rope)->rotated;

  return (guint64) (rotated != 0 ? rotated : rope->inputs[X]->type.shape[3]) / 2;
}

gboolean
rlx_rope_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  Rotation rotation;

  rotation_init (&rotation, node);
  rotation.pairs = get_rope_pairs (node);
  return lower_rope (lower, node, &rotation, error);
}

gboolean
rlx_rope_2d_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  Rotation rotation;

  rotation_init (&rotation, node);
  rotation.pairs = get_rope_pairs (node);
  rotation.n_axes = 2;
  rotation.columns = rlx_rope_attrs (node)->columns;
  return lower_rope (lower, node, &rotation, error);
}

/* ---- several at once, and rows of caches -------------------------------------------- */

/* The integers of a part in the attribute. */
#define PART_INTS 5

gpointer
rlx_joint_rope_attrs_new (const RlxIrNode   *rope,
                          const RlxRopePart *parts,
                          guint              n_parts)
{
  gint64 ints[RLX_JOINT_ROPE_MAX_PARTS * PART_INTS];
  RlxJointRopeAttrs attrs = { .parts = RLX_INTS (ints, n_parts * PART_INTS), .axes = 1 };

  for (guint i = 0; i < n_parts; i++)
    {
      gint64 *part = ints + i * PART_INTS;

      part[0] = parts[i].rotates;
      part[1] = parts[i].writes;
      part[2] = parts[i].swap_x;
      part[3] = parts[i].swap_y;
      part[4] = parts[i].axis;
    }
  if (rope != NULL)
    {
      const RlxRopeAttrs *from = rlx_rope_attrs (rope);

      attrs.pairs = (gint64) get_rope_pairs (rope);
      attrs.axes = rlx_ir_node_is (rope, RLX_OP_ID_ROPE_2D) ? 2 : 1;
      attrs.columns = from->columns;
      attrs.interleaved = from->interleaved;
      attrs.layout = from->layout;
      attrs.base = from->base;
      attrs.scale = from->scale;
    }
  return rlx_attrs_copy (&rlx_op_joint_rope, &attrs);
}

/* Rows of any rank that are written into a cache in their order. */
static void
part_init_plain (Part                *part,
                 const RlxTensorType *cache,
                 guint                axis)
{
  part->batches = part->width = part->heads = 1;
  for (guint i = 0; i < axis; i++)
    part->batches *= (guint64) cache->shape[i];
  for (guint i = axis + 1; i < cache->n_dims; i++)
    part->width *= (guint64) cache->shape[i];
  part->sequence = part->length;
  part->x_token = part->y_token = part->step = part->width;
  part->x_batch = part->length * part->width;
  part->y_batch = part->size * part->width;
}

/* Sets where the rows of a part go. The axis along which a cache grows may be its last. */
static void
part_set_target (Part                *part,
                 const RlxTensorType *cache,
                 guint                axis,
                 gboolean             sequence_first,
                 gboolean             swapped)
{
  Part target = { 0, };

  part_init (&target, cache, sequence_first, swapped);
  part->y_batch = target.x_batch;
  part->y_head = target.x_head;
  part->y_token = target.x_token;
  part->step = 1;
  for (guint i = axis + 1; i < cache->n_dims; i++)
    part->step *= (guint64) cache->shape[i];
}

gboolean
rlx_joint_rope_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  const RlxJointRopeAttrs *attrs = rlx_joint_rope_attrs (node);
  const RlxInts *ints = &attrs->parts;
  guint n_parts = ints->n_values / PART_INTS;
  RlxIrValue *const *sources = node->inputs + RLX_JOINT_ROPE_N_SHARED;
  RlxIrValue *const *caches = sources + n_parts;
  Part parts[RLX_JOINT_ROPE_MAX_PARTS] = { { 0, }, };
  Rotation rotation = {
    .positions = node->inputs[RLX_JOINT_ROPE_POSITIONS],
    .cosines = node->inputs[RLX_JOINT_ROPE_COSINES],
    .sines = node->inputs[RLX_JOINT_ROPE_SINES],
    .interleaved = attrs->interleaved,
    .sequence_first = attrs->layout == RLX_HEAD_LAYOUT_SEQUENCE_FIRST,
    .base = attrs->base,
    .scale = attrs->scale,
    .pairs = (guint64) attrs->pairs,
    .n_axes = (guint) attrs->axes,
    .columns = attrs->columns,
  };

  for (guint i = 0; i < n_parts; i++)
    {
      const gint64 *values = ints->values + i * PART_INTS;
      gboolean rotates = values[0] != 0, writes = values[1] != 0, swap_x = values[2] != 0, swap_y = values[3] != 0;
      guint axis = (guint) values[4];
      const RlxTensorType *type = &sources[i]->type, *target = &node->outputs[i].type;
      Part *part = &parts[i];

      part->x = sources[i];
      part->y = &node->outputs[i];
      if (writes)
        {
          guint seen = swap_x != swap_y && (axis == 1 || axis == 2) ? 3 - axis : axis;

          part->size = (guint64) target->shape[axis];
          part->length = (guint64) type->shape[seen];
          if (!rlx_lower_update_state (lower, *caches, part->y) && !rlx_lower_copy_all (lower, node, *caches, part->y, error))
            return FALSE;
          caches++;
        }
      if (rotates || swap_x)
        {
          part->pairs = rotates ? rotation.pairs : 0;
          part_init (part, type, rotation.sequence_first, swap_x);
          part_set_target (part, target, axis, rotation.sequence_first, swap_y);
          if (!writes)
            part->step = 0;
          part->in_place = !writes && swap_x == swap_y;
        }
      else
        {
          part_init_plain (part, target, axis);
        }
    }
  return lower_parts (lower, node, &rotation, node->inputs[RLX_JOINT_ROPE_INDEX], parts, n_parts, error);
}
