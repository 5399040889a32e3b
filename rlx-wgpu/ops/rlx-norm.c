/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-norm-private.h"

#include <string.h>

#include "ops/rlx-rows-private.h"

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

/* Axes that all maps step through alike are merged into a group. Groups are listed innermost first;
 * axes of size 1 are left out. */
typedef struct
{
  guint n;
  guint64 shape[RLX_NORM_MAX_DIMS];
  guint64 strides[MAX_MAPS][RLX_NORM_MAX_DIMS];
} Groups;

typedef struct
{
  guint n_maps;
  guint map[RLX_NORM_N_INPUTS];   /* the strides of each input; several may be the same */
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

/* How rows are distributed. */
typedef struct
{
  guint lanes;             /* invocations that share a row, or a chunk of it */
  guint workgroup_size;
  guint spread;            /* parts of a chunk */
  guint64 n_chunks;        /* of a row; 0: rows are not split */
  guint64 span;            /* columns of a chunk */
  guint vectors;           /* of four columns, which an invocation keeps in registers; 0: it reads them again */
  guint subgroup;          /* how many invocations then add without workgroup memory */
} Division;

/* ---- steps --------------------------------------------------------------------------------- */

static gboolean
is_softmax (const RlxNorm *self)
{
  return self->kind == RLX_NORM_SOFTMAX || self->kind == RLX_NORM_LOG_SOFTMAX;
}

/* The number of values that a row is reduced to. */
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
  STAGE_SUM,     /* only the sum that is to be normalised */
} Stage;

static void
add_columns (RlxKernel        *kernel,
             const char       *name,
             const RlxIrValue *value,
             gboolean          vectors)
{
  if (vectors)
    rlx_kernel_input_vector (kernel, name, value, 4);
  else
    rlx_kernel_input (kernel, name, value);
}

static void
add_result (RlxKernel        *kernel,
            const char       *name,
            const RlxIrValue *value,
            gboolean          vectors)
{
  if (vectors)
    rlx_kernel_output_vector (kernel, name, value);
  else
    rlx_kernel_output (kernel, name, value);
}

static void
add_input (const RlxNorm *self,
           const Rows    *rows,
           RlxKernel     *kernel,
           RlxNormInput   input,
           const char    *name,
           gboolean       vectors)
{
  g_autofree char *upper = g_ascii_strup (name, -1);
  g_autofree char *map = g_strconcat (upper, "_MAP", NULL);
  guint moving = find_moving_maps (&rows->reduced, rows->n_maps);

  if (self->inputs[input] == NULL)
    {
      rlx_kernel_define (kernel, upper, 0);
      return;
    }
  add_columns (kernel, name, self->inputs[input], vectors);
  rlx_kernel_define (kernel, upper, moving >> rows->map[input] & 1 ? 1 : 2);
  rlx_kernel_define (kernel, map, rows->map[input]);
}

static RlxKernel *
start_stage (const RlxNorm   *self,
             RlxLower        *lower,
             const RlxIrNode *node,
             const Rows      *rows,
             const Division  *division,
             Stage            stage)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, is_softmax (self) ? "softmax" : "norm");
  gboolean reads = stage != STAGE_JOIN;
  gboolean writes = stage == STAGE_ALL || stage == STAGE_APPLY;
  gboolean whole_rows = stage == STAGE_ALL || stage == STAGE_SUM;
  gboolean vectors = division->vectors > 0;

  rlx_kernel_define (kernel, "STAGE", stage);
  rlx_kernel_define (kernel, "WG", division->workgroup_size);
  rlx_kernel_define (kernel, "LANES", division->lanes);
  rlx_kernel_define (kernel, "SPREAD", division->spread);
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
    rlx_kernel_param_u32 (kernel, "span", division->span);
  if (stage == STAGE_PARTS || stage == STAGE_JOIN)
    rlx_kernel_param_u32 (kernel, "parts", division->n_chunks * division->spread);
  else if (stage == STAGE_APPLY)
    rlx_kernel_param_u32 (kernel, "chunks", division->n_chunks);

  if (reads)
    add_columns (kernel, "x", self->inputs[RLX_NORM_OPERAND], vectors);
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
      add_input (reads ? self : &none, rows, kernel, RLX_NORM_RESIDUAL, "residual", vectors);
      add_input (reads ? self : &none, rows, kernel, RLX_NORM_ADDED, "added", vectors);
      add_input (writes ? self : &none, rows, kernel, RLX_NORM_SCALE, "scale", vectors);
      add_input (writes ? self : &none, rows, kernel, RLX_NORM_BIAS, "bias", vectors);
      if ((writes || stage == STAGE_SUM) && self->sum != NULL)
        add_result (kernel, "sum", self->sum, vectors);
      rlx_kernel_define (kernel, "VECTORS", division->vectors);
    }
  if (writes)
    {
      add_result (kernel, "y", self->result, vectors);
      /* An invocation reads only columns that it writes at the end. An epilogue may also read the
       * operand. */
      if (self->inputs[RLX_NORM_OPERAND]->type.data_type == self->result->type.data_type && rlx_ir_node_n_own_inputs (node) == node->n_inputs)
        rlx_kernel_allow_in_place (kernel, "x", "y");
    }
  return kernel;
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

/* The grid of a step whose units are rows, or chunks of rows. */
static gboolean
dispatch_units (RlxKernel      *kernel,
                const Division *division,
                guint64         n_units,
                GError        **error)
{
  guint64 per_group = division->workgroup_size / division->lanes;
  guint64 groups = rlx_divide_up (n_units, per_group);

  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "rows", n_units);
  return rlx_kernel_dispatch (kernel, groups, error);
}

/* A separate step for the sum @sum: chunks of rows, without any statistics. */
static gboolean
lower_sum (const RlxNorm    *self,
           RlxLower         *lower,
           const RlxIrNode  *node,
           const Rows       *rows,
           const RlxIrValue *sum,
           GError          **error)
{
  Division division = { .lanes = 64, .workgroup_size = 64, .spread = 1, .span = 1024 };
  RlxNorm plain = *self;
  RlxKernel *kernel;

  division.n_chunks = rlx_divide_up (rows->n_columns, division.span);
  plain.sum = sum;
  kernel = start_stage (&plain, lower, node, rows, &division, STAGE_SUM);
  rlx_kernel_param_u32 (kernel, "span", division.span);
  rlx_kernel_param_u32 (kernel, "chunks", division.n_chunks);
  rlx_kernel_param_u32 (kernel, "groups", rows->n_rows * division.n_chunks);
  rlx_kernel_set_cost (kernel, 2.0 * (double) rlx_type_n_elements (&sum->type), count_bytes (self, STAGE_PARTS));
  return rlx_kernel_dispatch (kernel, rows->n_rows * division.n_chunks, error);
}

/* The number of storage bindings that the last step needs. */
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

/* ---- variants ------------------------------------------------------------------------- */

typedef struct
{
  const RlxNorm *norm;
  Rows rows;
  gboolean across;         /* rows, not columns, are contiguous in memory */
  gboolean too_many;       /* tensors for a single step */
} Problem;

static char *
print_problem (gconstpointer data)
{
  static const char *const names[] = { "layer norm", "rms norm", "l1 norm", "l2 norm", "softmax", "log softmax" };
  const Problem *self = data;

  return g_strdup_printf ("%s of %" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT ", %s%s", names[self->norm->kind],
                          self->rows.n_rows, self->rows.n_columns,
                          rlx_data_type_to_string (self->norm->inputs[RLX_NORM_OPERAND]->type.data_type),
                          self->across ? ", across" : "");
}

static double
get_operations (const RlxNorm *self)
{
  return (is_softmax (self) ? 20.0 : 10.0) * (double) rlx_type_n_elements (&self->result->type);
}

static double
norm_cost (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data)
{
  const RlxNorm *norm = ((const Problem *) data)->norm;

  return rlx_target_get_seconds (target, get_operations (norm), count_bytes (norm, STAGE_ALL));
}

/* On a CPU, invocations should read neighbouring elements, so eight of them share a row of a softmax,
 * whatever its length; norms lose more with the barriers than they gain. */
static gboolean
is_shared_on_cpus (const Problem *self)
{
  return is_softmax (self->norm) && !self->across && self->rows.n_columns >= 256;
}

static RlxFit
sum_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *self = data;

  if (self->norm->inputs[RLX_NORM_RESIDUAL] == NULL)
    return rlx_variant_cannot ("there is nothing to add", why);
  return self->too_many ? RLX_FIT_WELL : rlx_variant_poorly ("all tensors fit one step", why);
}

/* The sum comes first, in f32 as in a single step. */
static gboolean
sum_describe (const RlxVariant *variant,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *problem = data;
  const RlxNorm *self = problem->norm;
  const RlxIrValue *sum = self->sum;
  RlxNorm rest = *self;

  if (sum != NULL && !lower_sum (self, lower, node, &problem->rows, sum, error))
    return FALSE;
  if (sum == NULL || sum->type.data_type != RLX_DATA_TYPE_F32)
    {
      RlxTensorType type = self->result->type;

      type.data_type = RLX_DATA_TYPE_F32;
      sum = rlx_lower_temporary (lower, &type);
      if (!lower_sum (self, lower, node, &problem->rows, sum, error))
        return FALSE;
    }
  rest.inputs[RLX_NORM_OPERAND] = sum;
  rest.inputs[RLX_NORM_RESIDUAL] = rest.inputs[RLX_NORM_ADDED] = NULL;
  rest.sum = NULL;
  return rlx_norm_lower (&rest, lower, node, error);
}

static const char too_many[] = "the tensors need more bindings than there are";

/* Rows are split into chunks, which takes three steps: on a CPU enough for 1,024 invocations, with
 * 1,024 to 16,384 columns each; elsewhere enough for 512 workgroups, with at least 4 columns for each
 * invocation. 0: rows are too short. */
static Division
cut_rows (const Problem   *self,
          const RlxTarget *target)
{
  guint64 n = self->rows.n_columns, n_rows = self->rows.n_rows;
  RlxShare share = target->barriers_are_cheap ? rlx_share_pick (target, n_rows, n, self->across) : RLX_SHARE_NONE;
  Division division = { .lanes = rlx_share_get_lanes (share, target) };

  if (target->barriers_are_cheap)
    {
      division.workgroup_size = rlx_share_get_workgroup_size (share, target, n_rows);
      division.spread = 1;
      if (n < division.lanes * 8)
        return division;
      division.n_chunks = CLAMP (rlx_divide_up (512, n_rows), 2, n / (division.lanes * 4));
    }
  else
    {
      division.workgroup_size = division.spread = 8;
      division.n_chunks = CLAMP (rlx_divide_up (128, n_rows), rlx_divide_up (n, 16384), MAX (n / 1024, 1));
    }
  division.span = rlx_divide_up (n, division.n_chunks);
  division.n_chunks = rlx_divide_up (n, division.span);
  return division;
}

/* There should be enough rows to keep the device busy; on a CPU eight of them should
 * also fit its cache, since a row is read two or three times. */
static RlxFit
chunks_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *self = data;
  guint64 n = self->rows.n_columns, n_rows = self->rows.n_rows;
  gboolean shared = is_shared_on_cpus (self), wanted;

  if (self->too_many)
    return rlx_variant_cannot (too_many, why);
  if (cut_rows (self, target).n_chunks == 0)
    return rlx_variant_cannot ("rows are too short to split", why);
  if (target->barriers_are_cheap)
    wanted = n >= 16384 && n_rows < 256;
  else
    wanted = (n >= 8192 && n_rows < (shared ? 32 : 512)) || (n >= 65536 && !shared);
  return wanted ? RLX_FIT_WELL : rlx_variant_poorly ("rows are short, or there are enough of them", why);
}

static gboolean
chunks_describe (const RlxVariant *variant,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const RlxNorm *self = ((const Problem *) data)->norm;
  const Rows *rows = &((const Problem *) data)->rows;
  Division division = cut_rows (data, rlx_lower_get_target (lower));
  guint64 n_parts = rows->n_rows * division.n_chunks * division.spread;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1 };
  const RlxIrValue *parts, *moments;
  RlxKernel *kernel;

  type.shape[0] = (gint64) (n_parts * n_moments (self));
  parts = rlx_lower_temporary (lower, &type);
  type.shape[0] = (gint64) (rows->n_rows * n_moments (self));
  moments = rlx_lower_temporary (lower, &type);

  kernel = start_stage (self, lower, node, rows, &division, STAGE_PARTS);
  rlx_kernel_output (kernel, "parts", parts);
  rlx_kernel_set_cost (kernel, get_operations (self) / 2, count_bytes (self, STAGE_PARTS));
  if (!dispatch_units (kernel, &division, n_parts, error))
    return FALSE;

  kernel = start_stage (self, lower, node, rows, &division, STAGE_JOIN);
  rlx_kernel_input (kernel, "parts", parts);
  rlx_kernel_output (kernel, "moments", moments);
  if (!dispatch_units (kernel, &division, rows->n_rows, error))
    return FALSE;

  /* Columns of a chunk are adjacent, and all invocations share one row. */
  division.workgroup_size = 64;
  division.span = MIN (division.span, 4096);
  division.n_chunks = rlx_divide_up (rows->n_columns, division.span);
  kernel = start_stage (self, lower, node, rows, &division, STAGE_APPLY);
  rlx_kernel_epilogue (kernel, node);
  rlx_kernel_input (kernel, "moments", moments);
  rlx_kernel_param_u32 (kernel, "groups", rows->n_rows * division.n_chunks);
  rlx_kernel_set_cost (kernel, get_operations (self) / 2, count_bytes (self, STAGE_APPLY));
  return rlx_kernel_dispatch (kernel, rows->n_rows * division.n_chunks, error);
}

static RlxFit
whole_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;
  RlxShare share = GPOINTER_TO_UINT (variant->data);

  if (self->too_many)
    return rlx_variant_cannot (too_many, why);
  if (!target->barriers_are_cheap && is_shared_on_cpus (self))
    return share == RLX_SHARE_LANES ? RLX_FIT_WELL : rlx_variant_poorly ("eight lanes should share a row of a softmax", why);
  return rlx_share_fits (share, target, self->rows.n_rows, self->rows.n_columns, self->across, why);
}

static gboolean
whole_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const Problem *self = data;
  RlxShare share = GPOINTER_TO_UINT (variant->data);
  Division division = {
    .lanes = rlx_share_get_lanes (share, target),
    .workgroup_size = rlx_share_get_workgroup_size (share, target, self->rows.n_rows),
    .spread = 1,
  };
  RlxKernel *kernel = start_stage (self->norm, lower, node, &self->rows, &division, STAGE_ALL);

  rlx_kernel_epilogue (kernel, node);
  rlx_kernel_set_cost (kernel, get_operations (self->norm), count_bytes (self->norm, STAGE_ALL));
  return dispatch_units (kernel, &division, self->rows.n_rows, error);
}

/* For an invocation that keeps its columns and their factors; fewer if registers are scarce. */
#define MAX_VECTORS 4
#define MAX_SHARED_VECTORS 2
#define MAX_WORKGROUP 1024

static gboolean
is_plain_float (const RlxIrValue *value)
{
  return value == NULL || value->type.data_type == RLX_DATA_TYPE_F32 || value->type.data_type == RLX_DATA_TYPE_F16;
}

/* Whether vectors of four columns are possible for all tensors. */
static gboolean
has_vectors (const Problem *self)
{
  const Rows *rows = &self->rows;

  if (rows->n_columns % 4 != 0 || rows->reduced.n != 1 || !is_plain_float (self->norm->result) || !is_plain_float (self->norm->sum))
    return FALSE;
  for (guint i = 0; i < RLX_NORM_N_INPUTS; i++)
    if (!is_plain_float (self->norm->inputs[i]))
      return FALSE;
  for (guint m = 0; m < rows->n_maps; m++)
    {
      if (rows->reduced.strides[m][0] != 1)
        return FALSE;
      for (guint i = 0; i < rows->kept.n; i++)
        if (rows->kept.strides[m][i] % 4 != 0)
          return FALSE;
    }
  return TRUE;
}

/* A workgroup for each row, with the fewest invocations that can keep it. `vectors` is 0 if that is
 * not possible. */
static Division
keep_rows (const Problem   *self,
           const RlxTarget *target)
{
  guint max = MIN (MAX_WORKGROUP, rlx_target_get_max_workgroup (target, target->subgroup_size));
  guint64 n = self->rows.n_columns / 4, each = target->registers_are_shared ? MAX_SHARED_VECTORS : MAX_VECTORS;
  Division division = { .workgroup_size = MAX (target->subgroup_size, 64), .spread = 1, .subgroup = target->subgroup_size };

  while (division.workgroup_size * each < n && division.workgroup_size * 2 <= max)
    division.workgroup_size *= 2;
  division.lanes = division.workgroup_size;
  if (division.workgroup_size * each >= n && division.workgroup_size <= max)
    division.vectors = (guint) rlx_divide_up (n, division.workgroup_size);
  return division;
}

static RlxFit
registers_fits (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data,
                const char      **why)
{
  const Problem *self = data;

  if (self->too_many)
    return rlx_variant_cannot (too_many, why);
  if (is_softmax (self->norm) || !has_vectors (self))
    return rlx_variant_cannot ("it is a softmax, or its columns are not vectors of floats", why);
  if (!(target->features & RLX_DEVICE_FEATURES_SUBGROUPS) || target->subgroup_size < 4 ||
      (target->subgroup_min != target->subgroup_max && !target->subgroup_sizes_can_be_set))
    return rlx_variant_cannot ("there are no subgroups, or their size is unknown", why);
  if (keep_rows (self, target).vectors == 0)
    return rlx_variant_cannot ("rows are too long for the registers of a workgroup", why);
  return rlx_share_fits (RLX_SHARE_WORKGROUP, target, self->rows.n_rows, self->rows.n_columns, self->across, why);
}

static gboolean
registers_describe (const RlxVariant *variant,
                    RlxLower         *lower,
                    const RlxIrNode  *node,
                    gconstpointer     data,
                    GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const Problem *self = data;
  Division division = keep_rows (self, target);
  RlxKernel *kernel = start_stage (self->norm, lower, node, &self->rows, &division, STAGE_ALL);

  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_set_subgroup_size (kernel, target->subgroup_sizes_can_be_set ? division.subgroup : 0);
  rlx_kernel_define (kernel, "LANES", division.subgroup);
  rlx_kernel_define (kernel, "STEPS", g_bit_storage (division.subgroup) - 1);
  rlx_kernel_define (kernel, "WHOLE", self->rows.n_columns == 4 * (guint64) division.vectors * division.workgroup_size);
  rlx_kernel_epilogue (kernel, node);
  rlx_kernel_set_cost (kernel, get_operations (self->norm), count_bytes (self->norm, STAGE_ALL));
  return dispatch_units (kernel, &division, self->rows.n_rows, error);
}

static const RlxVariant variants[] = {
  { "sum-first", sum_fits, norm_cost, NULL, sum_describe, NULL },
  { "chunks", chunks_fits, norm_cost, NULL, chunks_describe, NULL },
  { "registers", registers_fits, norm_cost, NULL, registers_describe, NULL },
  { "workgroup", whole_fits, norm_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_WORKGROUP) },
  { "lanes", whole_fits, norm_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_LANES) },
  { "rows", whole_fits, norm_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_NONE) },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[256, 1024]")
    "%1 = softmax(%0) {axis = 1}\n" RLX_SAMPLE_OUTPUT (1), 7 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[8, 16384]")
    "%1 = layer_norm(%0)\n" RLX_SAMPLE_OUTPUT (1), 7 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[256, 256]") RLX_SAMPLE_INPUT (1, "f32[256, 256]")
    "%2 = add(%0, %1)\n%3 = layer_norm(%2)\n" RLX_SAMPLE_OUTPUT (2) RLX_SAMPLE_OUTPUT (3), 7 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[4096, 24]")
    "%1 = softmax(%0) {axis = 1}\n" RLX_SAMPLE_OUTPUT (1), 7 },
  { NULL, 0 },
};

const RlxVariants rlx_norm_variants = {
  RLX_FAMILY_NORM, "norm", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_norm_lower (const RlxNorm   *self,
                RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  Problem problem = { .norm = self };

  rows_init (&problem.rows, self);
  problem.across = problem.rows.kept.n > 0 && problem.rows.kept.strides[0][0] == 1;
  problem.too_many = self->inputs[RLX_NORM_RESIDUAL] != NULL &&
                     count_bindings (self, lower) > rlx_lower_get_target (lower)->limits.max_storage_buffers;
  return rlx_lower_choose (lower, node, &rlx_norm_variants, &problem, error);
}
