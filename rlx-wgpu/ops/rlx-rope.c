/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Rotary positions.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#include <math.h>

gboolean rlx_rope_infer (RlxOpCall *call, GError **error);
gboolean rlx_rope_lower (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_rope_2d_infer (RlxOpCall *call, GError **error);
gboolean rlx_rope_2d_lower (RlxLower *lower, const RlxIrNode *node, GError **error);

#define WORKGROUP_SIZE 64

/* The operands; rope_2d has no tables. */
enum
{
  X,
  POSITIONS,
  COS,
  SIN,
};

/* ---- rules ----------------------------------------------------------------------- */

static gint64
get_sequence (const RlxTensorType *type,
              gint64               layout)
{
  return type->dims[layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 2 : 1];
}

static const RlxTensorType *
get_input (const RlxOpCall *call,
           guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

static gboolean
check_operand (const RlxOpCall *call,
               GError         **error)
{
  gint64 layout = rlx_call_attr (call, "layout")->i;
  double base = rlx_call_attr (call, "base")->f;
  double scale = rlx_call_attr (call, "scale")->f;

  if (call->inputs[X]->rank != 4)
    {
      g_autofree char *text = rlx_type_to_string (call->inputs[X]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand must be [batch, %s, width], it is %s",
                             layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? "heads, sequence" : "sequence, heads", text);
    }
  if (!isfinite ((float) base) || base < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "base is %g, it must be a finite 32-bit float from 1", base);
  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g, it must be a finite 32-bit float", scale);
  return TRUE;
}

/* [sequence] or [batch, sequence], with @n_axes coordinates each when that is
 * above 1; a dimension of 1 is for all. */
static gboolean
check_positions (const RlxOpCall *call,
                 guint            n_axes,
                 GError         **error)
{
  const RlxTensorType *positions = get_input (call, POSITIONS);
  gint64 layout = rlx_call_attr (call, "layout")->i;
  RlxTensorType all = {
    .dtype = RLX_DATA_TYPE_I32,
    .rank = n_axes > 1 ? 3 : 2,
    .dims = { call->inputs[X]->dims[0], get_sequence (call->inputs[X], layout), n_axes },
  };
  RlxTensorType joined = all;
  g_autofree char *text = NULL;
  g_autofree char *text_all = NULL;

  if (positions == NULL)
    return TRUE;
  if ((n_axes == 1 || (positions->rank > 0 && positions->dims[positions->rank - 1] == (gint64) n_axes)) &&
      rlx_shape_broadcast (positions, &all, &joined) && rlx_type_same_shape (&joined, &all))
    return TRUE;

  text = rlx_type_to_string (positions);
  text_all = rlx_type_to_string (&all);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the positions %s do not broadcast to %s, %s",
                         text, text_all, n_axes > 1 ? "[batch, sequence, 2]" : "[batch, sequence]");
}

static gboolean
check_tables (const RlxOpCall *call,
              gint64           rotated,
              GError         **error)
{
  const RlxTensorType *cosines = get_input (call, COS);
  const RlxTensorType *sines = get_input (call, SIN);
  gint64 layout = rlx_call_attr (call, "layout")->i;
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
  width = cosines->rank > 0 ? cosines->dims[cosines->rank - 1] : 0;
  if (cosines->rank < 1 || (width != rotated / 2 && width != rotated))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the tables %s have rows of neither %" G_GINT64_FORMAT " nor %" G_GINT64_FORMAT " elements",
                           text_cos, rotated / 2, rotated);

  if (get_input (call, POSITIONS) != NULL)
    {
      if (cosines->rank != 2 || cosines->dims[0] == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the tables %s must have 2 dimensions, with a row for each position", text_cos);
    }
  else
    {
      RlxTensorType all = {
        .dtype = cosines->dtype,
        .rank = 3,
        .dims = { call->inputs[X]->dims[0], get_sequence (call->inputs[X], layout), width },
      };
      RlxTensorType joined = all;

      if (!rlx_shape_broadcast (cosines, &all, &joined) || !rlx_type_same_shape (&joined, &all))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the tables %s do not broadcast to [batch, sequence, pairs], "
                               "[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                               text_cos, all.dims[0], all.dims[1], all.dims[2]);
    }
  return TRUE;
}

gboolean
rlx_rope_infer (RlxOpCall *call,
                GError   **error)
{
  gint64 rotated = rlx_call_attr (call, "rotated")->i;
  gint64 width;

  if (!check_operand (call, error))
    return FALSE;

  width = call->inputs[X]->dims[3];
  if (rotated < 0 || rotated > width)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "rotated is %" G_GINT64_FORMAT ", it must be between 0 and the width, %" G_GINT64_FORMAT, rotated, width);
  if (rotated == 0)
    rotated = width;
  if (rotated % 2 != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "%" G_GINT64_FORMAT " rotated elements do not make pairs", rotated);
  if (!check_positions (call, 1, error) || !check_tables (call, rotated, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[X]);
  return TRUE;
}

gboolean
rlx_rope_2d_infer (RlxOpCall *call,
                   GError   **error)
{
  gint64 columns = rlx_call_attr (call, "columns")->i;
  gboolean has_positions = get_input (call, POSITIONS) != NULL;

  if (!check_operand (call, error) || !check_positions (call, 2, error))
    return FALSE;
  if (call->inputs[X]->dims[3] % 4 != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a width of %" G_GINT64_FORMAT " does not make pairs for two axes", call->inputs[X]->dims[3]);
  if (columns < 0 || columns > G_MAXINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "columns is %" G_GINT64_FORMAT ", it must be between 1 and %d", columns, G_MAXINT32);
  if (has_positions == (columns > 0))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %s positions %s columns", has_positions ? "both" : "neither", has_positions ? "and" : "nor");

  rlx_call_add_output (call, call->inputs[X]);
  return TRUE;
}

/* ---- lowerings --------------------------------------------------------------------- */

/* The turns each pair makes from one position to the next, without the whole
 * ones, in units of 2⁻⁶⁴: first the upper words. */
static const RlxIrValue *
make_turns (RlxLower        *lower,
            const RlxIrNode *node,
            guint64          pairs,
            guint64          per_axis)
{
  double base = rlx_node_attr (node, "base")->f;
  double scale = rlx_node_attr (node, "scale")->f;
  gint64 shape[] = { (gint64) pairs, 2 };
  g_autofree guint32 *words = g_new0 (guint32, pairs * 2 + 1);
  g_autoptr(RlxTensor) tensor = NULL;

  for (guint64 i = 0; i < pairs; i++)
    {
      double turns = scale * pow (base, -(double) (i % per_axis) / (double) per_axis) / (2.0 * G_PI);
      double upper;

      turns -= floor (turns);
      upper = floor (turns * 0x1p32);
      words[i * 2] = (guint32) MIN (upper, (double) G_MAXUINT32);
      words[i * 2 + 1] = (guint32) MIN (floor ((turns * 0x1p32 - upper) * 0x1p32), (double) G_MAXUINT32);
    }
  tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_U32, shape, 2, (const guint8 *) words, pairs * 2 * sizeof *words, NULL);
  return rlx_lower_constant (lower, tensor);
}

/* How far apart rows are, and batches; 0 where one is for all. @skip dimensions
 * are behind these. */
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
      guint64 dim = i < type->rank ? type->dims[type->rank - 1 - i] : 1;

      if (i >= skip)
        {
          g_snprintf (name, sizeof name, "%s_%s", prefix, i == skip ? "row" : "batch");
          rlx_kernel_param_u32 (kernel, name, dim == 1 ? 0 : stride);
        }
      stride *= dim;
    }
}

static gboolean
lower_rope (RlxLower        *lower,
            const RlxIrNode *node,
            guint64          pairs,
            guint            n_axes,
            GError         **error)
{
  const RlxTensorType *x = &node->inputs[X]->type;
  const RlxIrValue *positions = node->n_inputs > POSITIONS ? node->inputs[POSITIONS] : NULL;
  const RlxIrValue *cosines = node->n_inputs > COS ? node->inputs[COS] : NULL;
  gboolean sequence_first = rlx_node_attr (node, "layout")->i == RLX_HEAD_LAYOUT_SEQUENCE_FIRST;
  guint64 head_units = (guint64) x->dims[3] - pairs;
  guint64 units;
  RlxKernel *kernel;

  if (rlx_type_n_elements (x) == 0)
    return TRUE;

  units = rlx_type_n_elements (x) / x->dims[3] * head_units;
  kernel = rlx_kernel_new (lower, node, "rope");
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "INTERLEAVED", rlx_node_attr (node, "interleaved")->i != 0);
  rlx_kernel_define (kernel, "SEQUENCE_FIRST", sequence_first);
  rlx_kernel_define (kernel, "POSITIONS", positions == NULL ? 0 : n_axes);
  rlx_kernel_define (kernel, "GRID", positions == NULL && n_axes == 2);
  rlx_kernel_define (kernel, "TABLES", cosines != NULL);
  rlx_kernel_param_u32 (kernel, "units", units);
  rlx_kernel_param_u32 (kernel, "head_units", head_units);
  rlx_kernel_param_u32 (kernel, "pairs", pairs);
  rlx_kernel_param_u32 (kernel, "width", x->dims[3]);
  rlx_kernel_param_u32 (kernel, "heads", x->dims[sequence_first ? 2 : 1]);
  rlx_kernel_param_u32 (kernel, "sequence", x->dims[sequence_first ? 1 : 2]);
  if (n_axes == 2)
    rlx_kernel_param_u32 (kernel, "columns", rlx_node_attr (node, "columns")->i);

  rlx_kernel_input (kernel, "x", node->inputs[X]);
  if (positions != NULL)
    {
      rlx_kernel_input (kernel, "positions", positions);
      add_strides (kernel, "position", &positions->type, n_axes - 1);
    }
  if (cosines != NULL)
    {
      const RlxTensorType *table = &cosines->type;
      guint64 width = table->dims[table->rank - 1];

      rlx_kernel_define (kernel, "WIDE", width != pairs);
      rlx_kernel_input (kernel, "cos", cosines);
      rlx_kernel_input (kernel, "sin", node->inputs[SIN]);
      if (positions != NULL)
        {
          rlx_kernel_param_u32 (kernel, "table_rows", table->dims[0]);
          rlx_kernel_param_u32 (kernel, "table_width", width);
        }
      else
        {
          add_strides (kernel, "table", table, 1);
        }
    }
  else
    {
      rlx_kernel_input (kernel, "turns", make_turns (lower, node, pairs, pairs / n_axes));
    }
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_allow_in_place (kernel, "x", "y");
  rlx_kernel_set_cost (kernel, 3.0 * (double) rlx_type_n_elements (x), 2.0 * (double) rlx_type_n_bytes (x));
  return rlx_kernel_dispatch (kernel, (units - 1) / WORKGROUP_SIZE + 1, error);
}

gboolean
rlx_rope_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  gint64 rotated = rlx_node_attr (node, "rotated")->i;

  if (rotated == 0)
    rotated = node->inputs[X]->type.dims[3];
  return lower_rope (lower, node, rotated / 2, 1, error);
}

gboolean
rlx_rope_2d_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  return lower_rope (lower, node, node->inputs[X]->type.dims[3] / 2, 2, error);
}
