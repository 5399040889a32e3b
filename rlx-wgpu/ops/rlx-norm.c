/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-norm-private.h"

#include <string.h>


#define MAX_MAPS RLX_NORM_N_INPUTS

/* ---- description ------------------------------------------------------------------ */

void
rlx_norm_init (RlxNorm          *self,
               RlxNormKind       kind,
               const RlxIrValue *operand,
               const RlxIrValue *result,
               guint             mask)
{
  const RlxTensorType *type = &operand->type;
  gint64 stride = 1;

  *self = (RlxNorm) { .kind = kind, .n_dims = type->n_dims, .result = result };
  self->inputs[RLX_NORM_OPERAND] = operand;
  for (guint i = type->n_dims; i-- > 0;)
    {
      self->shape[i] = type->shape[i];
      self->along[i] = mask >> i & 1;
      self->strides[RLX_NORM_OPERAND][i] = stride;
      stride *= type->shape[i];
    }
}

void
rlx_norm_split_axis (RlxNorm *self,
                     guint    axis,
                     gint64   outer)
{
  gint64 inner = self->shape[axis] / outer;

  g_assert (self->n_dims < RLX_NORM_MAX_DIMS);
  for (guint i = self->n_dims; i > axis; i--)
    {
      self->shape[i] = self->shape[i - 1];
      self->along[i] = self->along[i - 1];
      for (guint j = 0; j < RLX_NORM_N_INPUTS; j++)
        self->strides[j][i] = self->strides[j][i - 1];
    }
  self->n_dims++;
  self->shape[axis] = outer;
  self->shape[axis + 1] = inner;
  for (guint j = 0; j < RLX_NORM_N_INPUTS; j++)
    self->strides[j][axis] *= inner;
}

void
rlx_norm_broadcast (RlxNorm          *self,
                    RlxNormInput      input,
                    const RlxIrValue *value)
{
  gint64 stride = 1;

  self->inputs[input] = value;
  for (guint i = value->type.n_dims; i-- > 0;)
    {
      self->strides[input][self->n_dims - value->type.n_dims + i] = value->type.shape[i] == 1 ? 0 : stride;
      stride *= value->type.shape[i];
    }
}

/* ---- rows and columns ------------------------------------------------------------------ */

/* Axes that all maps step through alike count as one: a group. Groups are listed
 * innermost first; axes of size 1 are left out. */
typedef struct
{
  guint n;
  guint64 shape[RLX_NORM_MAX_DIMS];
  guint64 strides[MAX_MAPS][RLX_NORM_MAX_DIMS];
} Groups;

typedef struct
{
  guint n_maps;
  guint map[RLX_NORM_N_INPUTS];   /* where each input is; several may lie alike */
  Groups kept;
  Groups reduced;
  guint64 n_rows;
  guint64 n_columns;
} Rows;

static gboolean
joins (const Groups  *groups,
       const guint64 *strides,
       guint          n_maps)
{
  guint last = groups->n - 1;

  if (groups->n == 0)
    return FALSE;
  for (guint m = 0; m < n_maps; m++)
    if (strides[m] != groups->strides[m][last] * groups->shape[last])
      return FALSE;
  return TRUE;
}

static void
rows_init (Rows          *self,
           const RlxNorm *norm)
{
  guint first[MAX_MAPS] = { 0, };

  *self = (Rows) { .n_rows = 1, .n_columns = 1 };

  for (guint i = 0; i < RLX_NORM_N_INPUTS; i++)
    {
      guint m = 0;

      if (norm->inputs[i] == NULL)
        continue;
      while (m < self->n_maps && memcmp (norm->strides[first[m]], norm->strides[i], sizeof norm->strides[i]) != 0)
        m++;
      if (m == self->n_maps)
        first[self->n_maps++] = i;
      self->map[i] = m;
    }

  for (guint i = norm->n_dims; i-- > 0;)
    {
      Groups *groups = norm->along[i] ? &self->reduced : &self->kept;
      guint64 dim = (guint64) norm->shape[i];
      guint64 strides[MAX_MAPS];

      *(norm->along[i] ? &self->n_columns : &self->n_rows) *= dim;
      if (dim == 1)
        continue;
      for (guint m = 0; m < self->n_maps; m++)
        strides[m] = (guint64) norm->strides[first[m]][i];
      if (joins (groups, strides, self->n_maps))
        {
          groups->shape[groups->n - 1] *= dim;
          continue;
        }
      groups->shape[groups->n] = dim;
      for (guint m = 0; m < self->n_maps; m++)
        groups->strides[m][groups->n] = strides[m];
      groups->n++;
    }
}

/* The maps that differ from one group of axes to the next, as bits. */
static guint
find_moving_maps (const Groups *groups,
                  guint         n_maps)
{
  guint moving = 0;

  for (guint m = 0; m < n_maps; m++)
    for (guint i = 0; i < groups->n; i++)
      if (groups->strides[m][i] != 0)
        moving |= 1u << m;
  return moving;
}

static void
describe_groups (const Groups *groups,
                 guint         n_maps,
                 RlxKernel    *kernel,
                 const char   *what)
{
  char name[48];

  for (guint i = 0; i < groups->n; i++)
    {
      g_snprintf (name, sizeof name, "%s_dim%u", what, i);
      rlx_kernel_param_u32 (kernel, name, groups->shape[i]);
      for (guint m = 0; m < n_maps; m++)
        {
          g_snprintf (name, sizeof name, "%s_stride%u_%u", what, m, i);
          rlx_kernel_param_u32 (kernel, name, groups->strides[m][i]);
        }
    }
}

/* ---- choice ------------------------------------------------------------------------------ */

/* How rows are shared out. */
typedef struct
{
  guint lanes;             /* invocations that share a row, or a chunk of it */
  guint workgroup_size;
  guint spread;            /* parts of a chunk */
  guint64 n_chunks;        /* of a row; 0: rows are not cut */
  guint64 span;            /* columns of a chunk */
} Choice;

/* Rows are done in one step as long as there are enough of them to keep the
 * device busy; on a CPU also only as long as what eight of them need stays in
 * its cache, since a row is read two or three times. Invocations of a CPU read
 * neighbouring elements best, so eight of them share a row of a softmax, which
 * then may be as long as it likes; norms gain less from it than they lose with
 * their barriers. Otherwise rows are cut into chunks, which takes three steps: on a
 * CPU enough for 1,024 invocations and not less than 1,024 columns nor more than
 * 16,384; elsewhere enough for 512 workgroups and not less than 4 columns for each
 * invocation. The choice depends on the shape and on the target alone. */
static void
choose (const Rows *rows,
        gboolean    softmax,
        RlxLower   *lower,
        Choice     *choice)
{
  guint most = MIN (256, rlx_lower_get_target (lower)->limits.max_invocations);
  gboolean across = rows->kept.n > 0 && rows->kept.strides[0][0] == 1;
  guint64 n = rows->n_columns;

  *choice = (Choice) { .spread = 1 };
  if (!rlx_lower_get_target (lower)->barriers_are_cheap)
    {
      /* A barrier costs much here, in compile time too; eight rows to a
       * subgroup need none. A workgroup runs on one core. */
      gboolean shared = softmax && !across && n >= 256;

      choice->lanes = shared || (rows->n_rows < 16 && n >= 1024) ? 8 : 1;
      choice->workgroup_size = rows->n_rows >= 4096 && !shared ? 64 : 8;
      if ((n >= 8192 && rows->n_rows < (shared ? 32 : 512)) || (n >= 65536 && !shared))
        {
          choice->lanes = 1;
          choice->workgroup_size = 8;
          choice->spread = 8;
          choice->n_chunks = CLAMP ((128 + rows->n_rows - 1) / rows->n_rows, (n + 16383) / 16384, MAX (n / 1024, 1));
        }
    }
  else
    {
      /* Neighbouring invocations should read neighbouring elements. */
      if (n < 32 || (across && rows->n_rows >= 4096))
        choice->lanes = 1;
      else if (n <= 512)
        choice->lanes = 32;
      else
        choice->lanes = most;
      choice->workgroup_size = MAX (choice->lanes, 64);
      if (n >= 16384 && rows->n_rows < 256)
        choice->n_chunks = CLAMP ((512 + rows->n_rows - 1) / rows->n_rows, 2, n / (choice->lanes * 4));
    }
  if (choice->n_chunks > 0)
    {
      choice->span = (n + choice->n_chunks - 1) / choice->n_chunks;
      choice->n_chunks = (n + choice->span - 1) / choice->span;
    }
}

/* ---- steps --------------------------------------------------------------------------------- */

static gboolean
is_softmax (const RlxNorm *self)
{
  return self->kind == RLX_NORM_SOFTMAX || self->kind == RLX_NORM_LOG_SOFTMAX;
}

/* How many numbers a row comes down to. */
static guint
n_moments (const RlxNorm *self)
{
  return self->kind == RLX_NORM_LAYER ? 3 : is_softmax (self) ? 2 : 1;
}

typedef enum
{
  STAGE_ALL,
  STAGE_PARTS,
  STAGE_JOIN,
  STAGE_APPLY,
  STAGE_SUM,     /* all that is to be normalised, and no more */
} Stage;

static void
add_input (const RlxNorm *self,
           const Rows    *rows,
           RlxKernel     *kernel,
           RlxNormInput   input,
           const char    *name)
{
  g_autofree char *upper = g_ascii_strup (name, -1);
  g_autofree char *map = g_strconcat (upper, "_MAP", NULL);
  guint moving = find_moving_maps (&rows->reduced, rows->n_maps);

  if (self->inputs[input] == NULL)
    {
      rlx_kernel_define (kernel, upper, 0);
      return;
    }
  rlx_kernel_input (kernel, name, self->inputs[input]);
  rlx_kernel_define (kernel, upper, moving >> rows->map[input] & 1 ? 1 : 2);
  rlx_kernel_define (kernel, map, rows->map[input]);
}

static RlxKernel *
start_stage (const RlxNorm   *self,
             RlxLower        *lower,
             const RlxIrNode *node,
             const Rows      *rows,
             const Choice    *choice,
             Stage            stage)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, is_softmax (self) ? "softmax" : "norm");
  gboolean reads = stage != STAGE_JOIN;
  gboolean writes = stage == STAGE_ALL || stage == STAGE_APPLY;
  gboolean whole_rows = stage == STAGE_ALL || stage == STAGE_SUM;

  rlx_kernel_define (kernel, "STAGE", stage);
  rlx_kernel_define (kernel, "WG", choice->workgroup_size);
  rlx_kernel_define (kernel, "LANES", choice->lanes);
  rlx_kernel_define (kernel, "SPREAD", choice->spread);
  rlx_kernel_define (kernel, "MAPS", reads ? rows->n_maps : 0);
  rlx_kernel_define (kernel, "KEPT", rows->kept.n);
  rlx_kernel_define (kernel, "REDUCED", rows->reduced.n);
  rlx_kernel_define (kernel, "ROW_MAPS", find_moving_maps (&rows->kept, rows->n_maps));
  rlx_kernel_define (kernel, "COLUMN_MAPS", find_moving_maps (&rows->reduced, rows->n_maps));
  rlx_kernel_param_u32 (kernel, "columns", rows->n_columns);
  if (reads)
    {
      describe_groups (&rows->kept, rows->n_maps, kernel, "row");
      describe_groups (&rows->reduced, rows->n_maps, kernel, "column");
    }
  if (!whole_rows)
    rlx_kernel_param_u32 (kernel, "span", choice->span);
  if (stage == STAGE_PARTS || stage == STAGE_JOIN)
    rlx_kernel_param_u32 (kernel, "parts", choice->n_chunks * choice->spread);
  else if (stage == STAGE_APPLY)
    rlx_kernel_param_u32 (kernel, "chunks", choice->n_chunks);

  if (reads)
    rlx_kernel_input (kernel, "x", self->inputs[RLX_NORM_OPERAND]);
  if (is_softmax (self))
    {
      rlx_kernel_define (kernel, "LOG", self->kind == RLX_NORM_LOG_SOFTMAX);
    }
  else
    {
      RlxNorm none = { .kind = self->kind };

      rlx_kernel_define (kernel, "KIND", self->kind);
      rlx_kernel_define (kernel, "PLUS_ONE", self->plus_one);
      rlx_kernel_define (kernel, "KEEP_SUM", self->sum != NULL);
      if (self->kind == RLX_NORM_LAYER && stage != STAGE_APPLY && stage != STAGE_SUM)
        rlx_kernel_param_u32 (kernel, "passes", 2);
      if (self->kind <= RLX_NORM_RMS && (stage == STAGE_ALL || stage == STAGE_JOIN))
        rlx_kernel_param_f32 (kernel, "epsilon", self->epsilon);
      add_input (reads ? self : &none, rows, kernel, RLX_NORM_RESIDUAL, "residual");
      add_input (reads ? self : &none, rows, kernel, RLX_NORM_ADDED, "added");
      add_input (writes ? self : &none, rows, kernel, RLX_NORM_SCALE, "scale");
      add_input (writes ? self : &none, rows, kernel, RLX_NORM_BIAS, "bias");
      if ((writes || stage == STAGE_SUM) && self->sum != NULL)
        rlx_kernel_output (kernel, "sum", self->sum);
    }
  if (writes)
    {
      rlx_kernel_output (kernel, "y", self->result);
      /* An invocation reads no other columns than those it writes in the end. An
       * epilogue may have the operand as its own, too. */
      if (self->inputs[RLX_NORM_OPERAND]->type.data_type == self->result->type.data_type && rlx_ir_node_n_own_inputs (node) == node->n_inputs)
        rlx_kernel_allow_in_place (kernel, "x", "y");
    }
  return kernel;
}

/* The same for a step that writes the result. */
static RlxKernel *
start_last_stage (const RlxNorm   *self,
                  RlxLower        *lower,
                  const RlxIrNode *node,
                  const Rows      *rows,
                  const Choice    *choice,
                  Stage            stage,
                  GError         **error)
{
  RlxKernel *kernel = start_stage (self, lower, node, rows, choice, stage);

  if (is_softmax (self) ? rlx_kernel_epilogue_apart (kernel, node, error) : rlx_kernel_epilogue (kernel, node, error))
    return kernel;
  rlx_kernel_free (kernel);
  return NULL;
}

static double
count_bytes (const RlxNorm *self,
             Stage          stage)
{
  gboolean writes = stage != STAGE_PARTS;
  guint last = writes ? RLX_NORM_N_INPUTS : RLX_NORM_SCALE;
  double bytes = 0;

  for (guint i = 0; i < last; i++)
    if (self->inputs[i] != NULL)
      bytes += (double) rlx_type_n_bytes (&self->inputs[i]->type);
  if (writes)
    bytes += (double) rlx_type_n_bytes (&self->result->type) * (self->sum != NULL ? 2 : 1);
  return bytes;
}

/* The grid of a step whose units are rows, or parts of rows. */
static gboolean
dispatch_units (RlxKernel    *kernel,
                const Choice *choice,
                guint64       n_units,
                GError      **error)
{
  guint64 per_group = choice->workgroup_size / choice->lanes;
  guint64 groups = (n_units + per_group - 1) / per_group;

  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "rows", n_units);
  return rlx_kernel_dispatch (kernel, groups, error);
}

/* A step of its own for the sum @sum. Chunks of rows, as if there were nothing
 * to be found out about them. */
static gboolean
lower_sum (const RlxNorm    *self,
           RlxLower         *lower,
           const RlxIrNode  *node,
           const Rows       *rows,
           const RlxIrValue *sum,
           GError          **error)
{
  Choice choice = { .lanes = 64, .workgroup_size = 64, .spread = 1, .span = 1024 };
  RlxNorm plain = *self;
  RlxKernel *kernel;

  choice.n_chunks = (rows->n_columns + choice.span - 1) / choice.span;
  plain.sum = sum;
  kernel = start_stage (&plain, lower, node, rows, &choice, STAGE_SUM);
  rlx_kernel_param_u32 (kernel, "span", choice.span);
  rlx_kernel_param_u32 (kernel, "chunks", choice.n_chunks);
  rlx_kernel_param_u32 (kernel, "groups", rows->n_rows * choice.n_chunks);
  rlx_kernel_set_cost (kernel, 2.0 * (double) rlx_type_n_elements (&sum->type), count_bytes (self, STAGE_PARTS));
  return rlx_kernel_dispatch (kernel, rows->n_rows * choice.n_chunks, error);
}

/* Storage bindings that the last step needs. */
static guint
count_bindings (const RlxNorm *self,
                RlxLower      *lower)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  guint n = rlx_target_get_n_segments (target, rlx_type_device_size (&self->result->type)) * (self->sum != NULL ? 2 : 1);

  for (guint i = 0; i < RLX_NORM_N_INPUTS; i++)
    if (self->inputs[i] != NULL)
      n += rlx_target_get_n_segments (target, rlx_type_device_size (&self->inputs[i]->type));
  return n;
}

/* Where the tensors are so large that they do not fit one step, the sum comes
 * first, in f32 as it is in one step. */
static gboolean
lower_sum_first (const RlxNorm   *self,
                 RlxLower        *lower,
                 const RlxIrNode *node,
                 const Rows      *rows,
                 GError         **error)
{
  const RlxIrValue *sum = self->sum;
  RlxNorm rest = *self;

  if (sum != NULL && !lower_sum (self, lower, node, rows, sum, error))
    return FALSE;
  if (sum == NULL || sum->type.data_type != RLX_DATA_TYPE_F32)
    {
      RlxTensorType type = self->result->type;

      type.data_type = RLX_DATA_TYPE_F32;
      sum = rlx_lower_temporary (lower, &type);
      if (!lower_sum (self, lower, node, rows, sum, error))
        return FALSE;
    }
  rest.inputs[RLX_NORM_OPERAND] = sum;
  rest.inputs[RLX_NORM_RESIDUAL] = rest.inputs[RLX_NORM_ADDED] = NULL;
  rest.sum = NULL;
  return rlx_norm_lower (&rest, lower, node, error);
}

gboolean
rlx_norm_lower (const RlxNorm   *self,
                RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  double n = (double) rlx_type_n_elements (&self->result->type);
  double flops = is_softmax (self) ? 20 : 10;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1 };
  const RlxIrValue *parts, *moments;
  RlxKernel *kernel;
  Choice choice, join;
  Rows rows;

  rows_init (&rows, self);
  if (self->inputs[RLX_NORM_RESIDUAL] != NULL &&
      count_bindings (self, lower) > rlx_lower_get_target (lower)->limits.max_storage_buffers)
    return lower_sum_first (self, lower, node, &rows, error);

  choose (&rows, is_softmax (self), lower, &choice);
  if (choice.n_chunks == 0)
    {
      kernel = start_last_stage (self, lower, node, &rows, &choice, STAGE_ALL, error);
      if (kernel == NULL)
        return FALSE;
      rlx_kernel_set_cost (kernel, flops * n, count_bytes (self, STAGE_ALL));
      return dispatch_units (kernel, &choice, rows.n_rows, error);
    }

  type.shape[0] = (gint64) (rows.n_rows * choice.n_chunks * choice.spread * n_moments (self));
  parts = rlx_lower_temporary (lower, &type);
  type.shape[0] = (gint64) (rows.n_rows * n_moments (self));
  moments = rlx_lower_temporary (lower, &type);

  kernel = start_stage (self, lower, node, &rows, &choice, STAGE_PARTS);
  rlx_kernel_output (kernel, "parts", parts);
  rlx_kernel_set_cost (kernel, flops / 2 * n, count_bytes (self, STAGE_PARTS));
  if (!dispatch_units (kernel, &choice, rows.n_rows * choice.n_chunks * choice.spread, error))
    return FALSE;

  join = choice;
  kernel = start_stage (self, lower, node, &rows, &join, STAGE_JOIN);
  rlx_kernel_input (kernel, "parts", parts);
  rlx_kernel_output (kernel, "moments", moments);
  if (!dispatch_units (kernel, &join, rows.n_rows, error))
    return FALSE;

  /* Columns of a chunk are side by side, and all invocations have one row. */
  choice.workgroup_size = 64;
  choice.span = MIN (choice.span, 4096);
  choice.n_chunks = (rows.n_columns + choice.span - 1) / choice.span;
  kernel = start_last_stage (self, lower, node, &rows, &choice, STAGE_APPLY, error);
  if (kernel == NULL)
    return FALSE;
  rlx_kernel_input (kernel, "moments", moments);
  rlx_kernel_param_u32 (kernel, "groups", rows.n_rows * choice.n_chunks);
  rlx_kernel_set_cost (kernel, flops / 2 * n, count_bytes (self, STAGE_APPLY));
  return rlx_kernel_dispatch (kernel, rows.n_rows * choice.n_chunks, error);
}
