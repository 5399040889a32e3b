/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Sequences whose state is a matrix for each head: state-space models and linear attention. They differ in how the
 * state changes from step to step, and share one kernel, kernels/recurrence.wgsl.
 */
#include "config.h"

#include <math.h>

#include "ops/rlx-variant-private.h"

/* This many rows of the state fit the registers of an invocation, or whatever a driver uses instead. */
#define MAX_ROWS 128
/* Invocations of a workgroup, on a GPU. */
#define MAX_WORKGROUP 64
/* Steps per dispatch: drivers terminate those that take long. */
#define MAX_STEPS 8192
/* The same for a CPU, which processes one column after the other: so many steps are still in its caches for the next
 * column. */
#define MAX_STEPS_IN_CACHE 1024
/* The limit of what the parts of all sequences take together, in elements. */
#define MAX_PARTS (1 << 26)
/* Columns whose states a workgroup keeps in its memory. */
#define CARRY_COLUMNS 4
#define CARRY_WORKGROUP 64

typedef enum
{
  RULE_PLAIN,
  RULE_DELTA,
  RULE_LEAD,
} Rule;

typedef enum
{
  DECAY_NONE,
  DECAY_HEAD,
  DECAY_ROW,
  DECAY_ELEMENT,
} Decay;

/* The indices of an operator's operands; -1 for those that it does not have. */
typedef struct
{
  RlxOpId op;
  gint8 q, k, v, delta, rate, decay, beta, bonus, in_key, out_key, skip, state;
  Rule rule;
  gboolean columns_first;   /* the layout of the state */
} Form;

static const Form forms[] = {
  { RLX_OP_ID_SELECTIVE_SCAN, 4, 3, 0, 1, 2, -1, -1, -1, -1, -1, 5, 6, RULE_PLAIN, TRUE },
  { RLX_OP_ID_MAMBA2, 4, 3, 0, 1, 2, -1, -1, -1, -1, -1, 5, 6, RULE_PLAIN, TRUE },
  { RLX_OP_ID_GATED_DELTA_NET, 0, 1, 2, -1, -1, 3, 4, -1, -1, -1, -1, 5, RULE_DELTA, FALSE },
  { RLX_OP_ID_RWKV6, 0, 1, 2, -1, -1, 3, -1, 4, -1, -1, -1, 5, RULE_PLAIN, FALSE },
  { RLX_OP_ID_RWKV7, 0, 1, 2, -1, -1, 3, -1, -1, 4, 5, -1, 6, RULE_LEAD, FALSE },
};

/* The problem: everything that a choice depends on. */
typedef struct
{
  const Form *form;
  Rule rule;
  Decay decay;
  gboolean init;
  gint64 batch, steps;
  gint64 heads;             /* of the result */
  gint64 q_heads, k_heads, v_heads;
  gint64 rows, columns;
} Recurrence;

static const Form *
find_form (const RlxOp *op)
{
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    if (forms[i].op == (RlxOpId) op->id)
      return &forms[i];
  g_assert_not_reached ();
}

/* ---- the rule ----------------------------------------------------------------------------- */

static const RlxTensorType *
get_type (const RlxOpCall *call,
          int              index)
{
  return index >= 0 && (guint) index < call->n_inputs ? call->inputs[index] : NULL;
}

/* Checks that an operand, which may be absent, matches the others. */
static gboolean
check_shape (const RlxOpCall *call,
             int              index,
             const gint64    *shape,
             guint            n_dims,
             GError         **error)
{
  const RlxTensorType *type = get_type (call, index);
  RlxTensorType wanted = { .n_dims = n_dims };
  g_autofree char *text = NULL, *wanted_text = NULL;
  gboolean same;

  if (type == NULL)
    return TRUE;
  same = type->n_dims == n_dims;
  for (guint i = 0; i < n_dims; i++)
    {
      wanted.shape[i] = shape[i];
      same = same && type->shape[i] == shape[i];
    }
  if (same)
    return TRUE;

  wanted.data_type = type->data_type;
  text = rlx_type_to_string (type);
  wanted_text = rlx_type_to_string (&wanted);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s is %s; the other operands require %s",
                         call->op->inputs[index].name, text, wanted_text);
}

static gboolean
check_rank (const RlxOpCall *call,
            int              index,
            guint            n_dims,
            const char      *dims,
            GError         **error)
{
  const RlxTensorType *type = get_type (call, index);
  g_autofree char *text = rlx_type_to_string (type);

  if (type->n_dims == n_dims)
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s is %s; it must have %u dimensions: %s",
                         call->op->inputs[index].name, text, n_dims, dims);
}

static gboolean
recurrence_init (Recurrence               *self,
                 const RlxOpCall          *call,
                 const RlxRecurrenceAttrs *attrs,
                 GError                  **error)
{
  const Form *form = find_form (call->op);
  const RlxTensorType *q = get_type (call, form->q), *k = get_type (call, form->k), *v = get_type (call, form->v);
  const RlxTensorType *decay = get_type (call, form->decay);
  gboolean scan = form->op == RLX_OP_ID_SELECTIVE_SCAN;

  *self = (Recurrence) { .form = form, .rule = form->rule };
  if (form->op == RLX_OP_ID_GATED_DELTA_NET && !attrs->delta_rule)
    self->rule = RULE_PLAIN;
  self->init = get_type (call, form->state) != NULL;

  if (scan)
    {
      if (!check_rank (call, form->v, 3, "[batch, steps, channels]", error) ||
          !check_rank (call, form->k, 3, "[batch, steps, states]", error))
        return FALSE;
      self->heads = self->q_heads = self->k_heads = self->v_heads = 1;
    }
  else
    {
      const char *dims = "[batch, steps, heads, width]";

      if (!check_rank (call, form->v, 4, dims, error) || !check_rank (call, form->k, 4, dims, error) ||
          !check_rank (call, form->q, 4, dims, error))
        return FALSE;
      self->v_heads = v->shape[2];
      self->k_heads = k->shape[2];
      self->q_heads = q->shape[2];
      self->heads = form->op == RLX_OP_ID_GATED_DELTA_NET ? MAX (self->q_heads, self->v_heads) : self->v_heads;
      /* Without heads, the result has no elements. */
      if (self->heads > 0 && (self->k_heads == 0 || self->v_heads % self->k_heads != 0))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "%s has %" G_GINT64_FORMAT " heads, and %s %" G_GINT64_FORMAT ", which is not a multiple of that",
                               call->op->inputs[form->k].name, self->k_heads, call->op->inputs[form->v].name, self->v_heads);
      if (self->heads > 0 && (self->q_heads == 0 || self->v_heads == 0 ||
                              self->heads % self->q_heads != 0 || self->heads % self->v_heads != 0))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "%s has %" G_GINT64_FORMAT " heads and %s %" G_GINT64_FORMAT "; one of these numbers must divide the other",
                               call->op->inputs[form->q].name, self->q_heads, call->op->inputs[form->v].name, self->v_heads);
    }
  self->batch = v->shape[0];
  self->steps = v->shape[1];
  self->columns = v->shape[v->n_dims - 1];
  self->rows = k->shape[k->n_dims - 1];

  {
    const gint64 b = self->batch, s = self->steps, h = self->v_heads, n = self->rows, m = self->columns;
    const gboolean delta_net = form->op == RLX_OP_ID_GATED_DELTA_NET, mamba = form->op == RLX_OP_ID_MAMBA2;
    const gint64 k_heads = delta_net || mamba ? self->k_heads : h, q_heads = delta_net ? self->q_heads : k_heads;
    const gint64 k_shape[] = { b, s, k_heads, n }, q_shape[] = { b, s, q_heads, n }, gates[] = { b, s, h }, rows[] = { b, s, h, n };
    const gint64 flat[] = { b, s, n }, values[] = { b, s, m }, rates[] = { m, n }, bonus[] = { h, n };
    const gint64 scan_state[] = { b, m, n };
    const gint64 state[] = { b, h, form->columns_first ? m : n, form->columns_first ? n : m };
    gboolean ok;

    if (scan)
      {
        self->decay = DECAY_ELEMENT;
        ok = check_shape (call, form->k, flat, 3, error) && check_shape (call, form->q, flat, 3, error) &&
             check_shape (call, form->delta, values, 3, error) && check_shape (call, form->rate, rates, 2, error) &&
             check_shape (call, form->skip, &m, 1, error) && check_shape (call, form->state, scan_state, 3, error);
      }
    else
      {
        ok = check_shape (call, form->k, k_shape, 4, error) && check_shape (call, form->q, q_shape, 4, error) &&
             check_shape (call, form->delta, gates, 3, error) && check_shape (call, form->rate, &h, 1, error) &&
             check_shape (call, form->beta, gates, 3, error) && check_shape (call, form->bonus, bonus, 2, error) &&
             check_shape (call, form->in_key, rows, 4, error) && check_shape (call, form->out_key, rows, 4, error) &&
             check_shape (call, form->skip, &h, 1, error) && check_shape (call, form->state, state, 4, error);
        if (form->delta >= 0)
          self->decay = DECAY_HEAD;
        else if (decay != NULL && delta_net && decay->n_dims == 3)
          {
            self->decay = DECAY_HEAD;
            ok = ok && check_shape (call, form->decay, gates, 3, error);
          }
        else if (decay != NULL)
          {
            self->decay = DECAY_ROW;
            ok = ok && check_shape (call, form->decay, rows, 4, error);
          }
      }
    return ok;
  }
}

gboolean
rlx_recurrence_infer (RlxOpCall                *call,
                      const RlxRecurrenceAttrs *attrs,
                      GError                  **error)
{
  Recurrence self;
  RlxTensorType y, state = { .data_type = RLX_DATA_TYPE_F32 };

  if (!recurrence_init (&self, call, attrs, error))
    return FALSE;

  y = *call->inputs[self.form->v];
  if (y.n_dims == 4)
    y.shape[2] = self.heads;
  state.shape[state.n_dims++] = self.batch;
  if (y.n_dims == 4)
    state.shape[state.n_dims++] = self.v_heads;
  state.shape[state.n_dims++] = self.form->columns_first ? self.columns : self.rows;
  state.shape[state.n_dims++] = self.form->columns_first ? self.rows : self.columns;
  rlx_call_add_output (call, &y);
  rlx_call_add_output (call, &state);
  return TRUE;
}

/* ---- steps -------------------------------------------------------------------------------- */

/* A state and its layout. */
typedef struct
{
  const RlxIrValue *value;   /* NULL: zeros */
  guint64 chunk, head, row, column;
} State;

typedef struct
{
  guint64 first, count;      /* steps */
  guint64 chunk, chunks;     /* steps per part, and number of parts */
  State from;
  State to;                  /* after the last part */
  const RlxIrValue *folded;  /* instead of results: the effect of each part on a state */
  guint64 all_columns;
  gboolean memory;
  const RlxIrValue *words;   /* nullable: the optional operands of a kernel, one after the other */
} Run;

/* The optional operands, by their names in the kernel. */
static const struct
{
  const char *name, *has, *at;
  gsize offset;
} extras[] = {
  { "g", "HAS_G", "at_g", G_STRUCT_OFFSET (Form, decay) },
  { "beta", "HAS_BETA", "at_beta", G_STRUCT_OFFSET (Form, beta) },
  { "bonus", "HAS_BONUS", "at_bonus", G_STRUCT_OFFSET (Form, bonus) },
  { "in_key", "HAS_IN_KEY", "at_in_key", G_STRUCT_OFFSET (Form, in_key) },
  { "out_key", "HAS_OUT_KEY", "at_out_key", G_STRUCT_OFFSET (Form, out_key) },
  { "rate", "HAS_RATE", "at_rate", G_STRUCT_OFFSET (Form, rate) },
  { "skip", "HAS_SKIP", "at_skip", G_STRUCT_OFFSET (Form, skip) },
};

static const RlxIrValue *
get_input (const RlxIrNode *node,
           int              index)
{
  return index >= 0 && (guint) index < node->n_inputs ? node->inputs[index] : NULL;
}

static RlxIrValue *
temporary (RlxLower *lower,
           guint64   n)
{
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1, .shape = { (gint64) n } };

  return rlx_lower_temporary (lower, &type);
}

/* In the layout of the operator. */
static State
own_state (const Recurrence *self,
           const RlxIrValue *value)
{
  guint64 rows = (guint64) self->rows, columns = (guint64) self->columns;

  return (State) {
    .value = value, .head = rows * columns,
    .row = self->form->columns_first ? 1 : columns, .column = self->form->columns_first ? rows : 1,
  };
}

static gboolean
is_matrix (const Recurrence *self)
{
  return self->rule != RULE_PLAIN;
}

/* Additional columns, which represent the effect of a part on a state. */
static guint64
count_extra (const Recurrence *self)
{
  return (guint64) (is_matrix (self) ? self->rows : self->decay == DECAY_ELEMENT ? self->columns : 1);
}

static gboolean
has_shuffles (const RlxTarget *target)
{
  return !target->loads_coalesce && (target->features & RLX_DEVICE_FEATURES_SUBGROUPS) &&
         target->subgroup_min == 8 && target->subgroup_max == 8;
}

static void
bind (RlxKernel       *kernel,
      const char      *name,
      const RlxIrNode *node,
      int              index)
{
  const RlxIrValue *value = get_input (node, index);

  if (value != NULL)
    rlx_kernel_input (kernel, name, value);
}

static const RlxIrValue *
get_extra (const Recurrence *self,
           const RlxIrNode  *node,
           guint             i)
{
  return get_input (node, G_STRUCT_MEMBER (gint8, self->form, extras[i].offset));
}

/* Stores the optional operands in one value, if a kernel cannot bind all of them. */
static gboolean
pack_extras (RlxLower          *lower,
             const RlxIrNode   *node,
             const Recurrence  *self,
             const RlxIrValue **words,
             GError           **error)
{
  const guint workgroup_size = 64;
  guint64 n = 0, at = 0;

  *words = NULL;
  /* At least four more: the states before and after, and a result. */
  if (rlx_lower_get_target (lower)->limits.max_storage_buffers >= 10 || self->steps == 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    if (get_extra (self, node, i) != NULL)
      n += rlx_type_n_elements (&get_extra (self, node, i)->type);
  if (n == 0)
    return TRUE;

  *words = temporary (lower, n);
  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    {
      const RlxIrValue *value = get_extra (self, node, i);
      guint64 here = value != NULL ? rlx_type_n_elements (&value->type) : 0;
      RlxKernel *kernel;

      if (here == 0)
        continue;
      kernel = rlx_kernel_new (lower, node, "recurrence-pack");
      rlx_kernel_input (kernel, "x", value);
      rlx_kernel_output (kernel, "words", *words);
      rlx_kernel_define (kernel, "WG", workgroup_size);
      rlx_kernel_param_u32 (kernel, "n", here);
      rlx_kernel_param_u32 (kernel, "at", at);
      rlx_kernel_set_cost (kernel, 0, 8.0 * (double) here);
      at += here;
      if (!rlx_kernel_dispatch (kernel, rlx_divide_up (here, workgroup_size), error))
        return FALSE;
    }
  return TRUE;
}

/* Binds those of one kernel: the skip belongs to results, all others to rows. */
static void
bind_extras (RlxKernel        *kernel,
             const RlxIrNode  *node,
             const Recurrence *self,
             const Run        *run)
{
  gboolean rows = self->rows > 0, any = run->count > 0, packed = run->words != NULL;
  guint64 at = 0;

  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    {
      const RlxIrValue *value = get_extra (self, node, i);
      gboolean skip = extras[i].offset == G_STRUCT_OFFSET (Form, skip), bonus = extras[i].offset == G_STRUCT_OFFSET (Form, bonus);
      gboolean wanted = value != NULL && any && (skip || rows) && !((skip || bonus) && run->folded != NULL);

      if (extras[i].offset == G_STRUCT_OFFSET (Form, beta) && self->rule != RULE_DELTA)
        wanted = FALSE;
      rlx_kernel_define (kernel, extras[i].has, wanted);
      if (wanted && !packed)
        rlx_kernel_input (kernel, extras[i].name, value);
      if (packed)
        rlx_kernel_param_u32 (kernel, extras[i].at, at);
      at += value != NULL ? rlx_type_n_elements (&value->type) : 0;
    }
  rlx_kernel_define (kernel, "PACKED", packed);
  if (packed && any)
    rlx_kernel_input (kernel, "words", run->words);
}

static double
count_operations (const Recurrence *self)
{
  double element = self->rule == RULE_PLAIN ? 4 : 8;

  if (self->decay == DECAY_ELEMENT)
    element += 20;
  return (double) self->batch * (double) self->heads * (double) self->steps * (double) self->columns *
         (element * (double) self->rows + 8);
}

/* Registers of an invocation with so many rows of a state: these, their factors, and the products. */
static guint
get_registers (gint64 rows)
{
  return 4 * (guint) rows + 13;
}

/* How many invocations share the rows of a column: if lanes share registers, as many as it takes to avoid spills. */
static guint
get_split (const RlxTarget *target,
           guint            rows)
{
  guint split = 1;

  if (!target->registers_are_shared || !target->barriers_are_cheap || (target->features & RLX_DEVICE_FEATURES_SUBGROUPS) == 0)
    return 1;
  while (split < MIN (target->subgroup_min, 8) && rows % (split * 2) == 0 &&
         rlx_target_get_registers (target, rlx_target_choose_subgroup_size (target, MAX_WORKGROUP, G_MAXUINT)) < get_registers (rows / split))
    split *= 2;
  return split;
}

static gboolean
lower_run (RlxLower         *lower,
           const RlxIrNode  *node,
           const Recurrence *self,
           const Run        *run,
           GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const Form *form = self->form;
  gboolean fold = run->folded != NULL, shuffle;
  gboolean any = run->count > 0, rows = self->rows > 0, apart = run->memory && self->heads > self->v_heads;
  guint64 heads = (guint64) (fold ? self->v_heads : self->heads), columns = (guint64) self->columns;
  guint64 all_columns = fold ? run->all_columns : columns;
  guint split = run->memory ? 1 : get_split (target, (guint) self->rows);
  guint workgroup_size = target->barriers_are_cheap ? (all_columns <= 32 && split == 1 ? 32 : MAX_WORKGROUP) : 8;
  guint64 blocks = rlx_divide_up (all_columns, workgroup_size / split);
  guint64 groups = blocks * heads * (guint64) self->batch * run->chunks;
  double scale = 1, share = self->steps > 0 ? (double) run->count / (double) self->steps : 0;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "recurrence");

  shuffle = has_shuffles (target) && !run->memory && self->rows > 0 && split == 1;
  if (form->op == RLX_OP_ID_GATED_DELTA_NET)
    {
      scale = rlx_recurrence_attrs (node)->scale;
      if (scale == 0 && self->rows > 0)
        scale = 1 / sqrt ((double) self->rows);
    }
  if (shuffle || split > 1)
    rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (target, workgroup_size, get_registers (run->memory ? 0 : self->rows / split)));
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "K", run->memory ? 0 : self->rows / split);
  rlx_kernel_define (kernel, "SPLIT", split);
  rlx_kernel_define (kernel, "SHUFFLE", shuffle);
  rlx_kernel_define (kernel, "MEMORY", run->memory);
  rlx_kernel_define (kernel, "FOLD", fold);
  rlx_kernel_define (kernel, "MATRIX", is_matrix (self));
  rlx_kernel_define (kernel, "INIT", run->from.value != NULL);
  rlx_kernel_define (kernel, "STEPS", any);
  rlx_kernel_define (kernel, "SCAN", form->op == RLX_OP_ID_SELECTIVE_SCAN);
  rlx_kernel_define (kernel, "RULE", self->rule);
  rlx_kernel_define (kernel, "DECAY", any && rows ? self->decay : DECAY_NONE);
  rlx_kernel_define (kernel, "DELTA", form->delta >= 0);
  rlx_kernel_define (kernel, "RATE", form->delta >= 0 && self->decay == DECAY_HEAD && any && rows);
  rlx_kernel_define (kernel, "BETA", get_input (node, form->beta) != NULL && rows);
  rlx_kernel_define (kernel, "BEFORE", form->bonus >= 0);
  rlx_kernel_define (kernel, "SKIP", get_input (node, form->skip) != NULL);
  if (any)
    {
      bind (kernel, "v", node, form->v);
      bind (kernel, "delta", node, form->delta);
    }
  if (any && rows)
    {
      bind (kernel, "k", node, form->k);
      if (!fold)
        bind (kernel, "q", node, form->q);
    }
  bind_extras (kernel, node, self, run);
  if (run->from.value != NULL && rows)
    rlx_kernel_input (kernel, "state", run->from.value);
  rlx_kernel_define (kernel, "APART", apart);
  if (apart)
    rlx_kernel_output (kernel, "work", temporary (lower, (guint64) self->batch * heads * (guint64) self->rows * columns));
  if (fold)
    rlx_kernel_output (kernel, "folded", run->folded);
  else
    {
      if (any)
        rlx_kernel_output (kernel, "y", &node->outputs[0]);
      if (rows)
        rlx_kernel_output (kernel, "last", run->to.value);
    }

  rlx_kernel_param_f32 (kernel, "scale", scale);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_param_u32 (kernel, "heads", heads);
  rlx_kernel_param_u32 (kernel, "batch", self->batch);
  rlx_kernel_param_u32 (kernel, "steps", self->steps);
  rlx_kernel_param_u32 (kernel, "rows", self->rows);
  rlx_kernel_param_u32 (kernel, "columns", columns);
  rlx_kernel_param_u32 (kernel, "all_columns", all_columns);
  rlx_kernel_param_u32 (kernel, "first", run->first);
  rlx_kernel_param_u32 (kernel, "count", run->count);
  rlx_kernel_param_u32 (kernel, "chunk", run->chunk);
  rlx_kernel_param_u32 (kernel, "chunks", run->chunks);
  rlx_kernel_param_u32 (kernel, "q_heads", self->q_heads);
  rlx_kernel_param_u32 (kernel, "k_heads", self->k_heads);
  rlx_kernel_param_u32 (kernel, "v_heads", self->v_heads);
  rlx_kernel_param_u32 (kernel, "q_share", MAX (heads / (guint64) self->q_heads, 1));
  rlx_kernel_param_u32 (kernel, "k_share", heads / (guint64) self->k_heads);
  rlx_kernel_param_u32 (kernel, "v_share", heads / (guint64) self->v_heads);
  rlx_kernel_param_u32 (kernel, "in_chunk", run->from.chunk);
  rlx_kernel_param_u32 (kernel, "in_head", run->from.head);
  rlx_kernel_param_u32 (kernel, "in_row", run->from.row);
  rlx_kernel_param_u32 (kernel, "in_column", run->from.column);
  rlx_kernel_param_u32 (kernel, "out_head", run->to.head);
  rlx_kernel_param_u32 (kernel, "out_row", run->to.row);
  rlx_kernel_param_u32 (kernel, "out_column", run->to.column);
  rlx_kernel_set_cost (kernel, count_operations (self) * share * (double) all_columns / (double) columns,
                       4.0 * (double) self->batch * (double) run->count * (double) heads * (double) (self->rows * 2 + self->columns * 2));
  return rlx_kernel_dispatch (kernel, groups, error);
}

/* ---- variants ----------------------------------------------------------------------------- */

static char *
print_problem (gconstpointer data)
{
  static const char *const rules[] = { [RULE_PLAIN] = "plain", [RULE_DELTA] = "delta", [RULE_LEAD] = "lead" };
  static const char *const decays[] = {
    [DECAY_NONE] = "no decay", [DECAY_HEAD] = "decay by head", [DECAY_ROW] = "decay by row", [DECAY_ELEMENT] = "decay by element",
  };
  const Recurrence *self = data;

  return g_strdup_printf ("%s, %s, %" G_GINT64_FORMAT " steps of %" G_GINT64_FORMAT " heads, states of %" G_GINT64_FORMAT " x %"
                          G_GINT64_FORMAT, rules[self->rule], decays[self->decay], self->steps, self->batch * self->heads, self->rows,
                          self->columns);
}

/* How many invocations occupy the device: each step waits for the previous one, so more are needed than elsewhere. */
static double
count_busy (const RlxTarget *target)
{
  return 4.0 * target->busy_invocations;
}

/* Invocations that cannot occupy the device take as long as if there were enough of them. */
static double
get_seconds (const RlxTarget *target,
             double           operations,
             double           invocations)
{
  double idle = MAX (1.0, count_busy (target) / MAX (invocations, 1.0));

  return rlx_target_get_seconds (target, operations * idle, 0);
}

static guint64
get_chunk (const Recurrence *self)
{
  return self->steps < 256 ? 16 : 64;
}

static double
count_columns (const Recurrence *self)
{
  return (double) self->batch * (double) self->heads * (double) self->columns;
}

static RlxFit
chunks_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Recurrence *self = data;
  double chunks = (double) self->steps / (double) get_chunk (self) + 1;
  double heads = (double) self->batch * (double) self->v_heads;

  if (self->steps < 32)
    return rlx_variant_cannot ("there are few steps", why);
  if (self->rows > MAX_ROWS || self->rows == 0)
    return rlx_variant_cannot ("the state does not fit registers", why);
  if (chunks * heads * (double) self->rows * (double) ((guint64) self->columns + count_extra (self)) > MAX_PARTS)
    return rlx_variant_cannot ("the states of all parts would take much memory", why);
  if (!target->barriers_are_cheap)
    return rlx_variant_poorly ("a CPU is busy with the columns", why);
  if (count_columns (self) >= count_busy (target))
    return rlx_variant_poorly ("the columns alone keep the device busy", why);
  return RLX_FIT_WELL;
}

static double
chunks_cost (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data)
{
  const Recurrence *self = data;
  double more = (double) count_extra (self) / (double) self->columns;
  double chunks = (double) self->steps / (double) get_chunk (self) + 1;
  double carry = count_columns (self) * (double) self->rows * chunks * (is_matrix (self) ? (double) self->rows : 1.0) * 2.0;

  return get_seconds (target, count_operations (self) * (2.0 + more), count_columns (self) * chunks) +
         get_seconds (target, carry, count_columns (self) * (double) self->rows) + 2.0 * target->speeds.dispatch_time;
}

static gboolean
chunks_describe (const RlxVariant *variant,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Recurrence *self = data;
  gboolean matrix = is_matrix (self);
  guint64 rows = (guint64) self->rows, columns = (guint64) self->columns, heads = (guint64) (self->batch * self->v_heads);
  guint64 chunk = get_chunk (self), chunks = rlx_divide_up ((guint64) self->steps, chunk);
  guint64 all_columns = columns + count_extra (self);
  State own = own_state (self, get_input (node, self->form->state));
  const RlxIrValue *folded = temporary (lower, chunks * heads * all_columns * rows);
  const RlxIrValue *starts = temporary (lower, chunks * heads * columns * rows);
  Run run = { .count = (guint64) self->steps, .chunk = chunk, .chunks = chunks, .folded = folded, .all_columns = all_columns };
  guint64 items = heads * columns * rows, groups = rlx_divide_up (items, CARRY_WORKGROUP);
  RlxKernel *kernel;

  if (!pack_extras (lower, node, self, &run.words, error) || !lower_run (lower, node, self, &run, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "recurrence-carry");
  rlx_kernel_define (kernel, "WG", CARRY_WORKGROUP);
  rlx_kernel_define (kernel, "MATRIX", matrix);
  rlx_kernel_define (kernel, "OWN", self->decay == DECAY_ELEMENT);
  rlx_kernel_define (kernel, "INIT", own.value != NULL);
  rlx_kernel_input (kernel, "folded", folded);
  if (own.value != NULL)
    rlx_kernel_input (kernel, "state", own.value);
  rlx_kernel_output (kernel, "starts", starts);
  rlx_kernel_param_u32 (kernel, "chunks", chunks);
  rlx_kernel_param_u32 (kernel, "heads", heads);
  rlx_kernel_param_u32 (kernel, "columns", columns);
  rlx_kernel_param_u32 (kernel, "all_columns", all_columns);
  rlx_kernel_param_u32 (kernel, "in_head", own.head);
  rlx_kernel_param_u32 (kernel, "in_row", own.row);
  rlx_kernel_param_u32 (kernel, "in_column", own.column);
  if (matrix)
    {
      guint64 blocks = rlx_divide_up (columns, CARRY_COLUMNS);

      groups = heads * blocks;
      rlx_kernel_define (kernel, "K", (gint64) rows);
      rlx_kernel_define (kernel, "COLUMNS", CARRY_COLUMNS);
      rlx_kernel_param_u32 (kernel, "groups", groups);
      rlx_kernel_param_u32 (kernel, "blocks", blocks);
    }
  else
    {
      rlx_kernel_param_u32 (kernel, "items", items);
      rlx_kernel_param_u32 (kernel, "rows", rows);
    }
  rlx_kernel_set_cost (kernel, 2.0 * (double) items * (double) chunks * (matrix ? (double) rows : 1.0), 12.0 * (double) items * (double) chunks);
  if (!rlx_kernel_dispatch (kernel, groups, error))
    return FALSE;

  run.folded = NULL;
  run.from = (State) { .value = starts, .chunk = heads * rows * columns, .head = rows * columns, .row = 1, .column = rows };
  run.to = own_state (self, &node->outputs[1]);
  return lower_run (lower, node, self, &run, error);
}

static RlxFit
registers_fits (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data,
                const char      **why)
{
  return ((const Recurrence *) data)->rows > MAX_ROWS ? rlx_variant_cannot ("the state does not fit registers", why) : RLX_FIT_WELL;
}

static RlxFit
memory_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  if (((const Recurrence *) data)->rows == 0)
    return rlx_variant_cannot ("there is no state", why);
  return RLX_FIT_WELL;
}

static double
whole_cost (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data)
{
  const Recurrence *self = data;

  return get_seconds (target, count_operations (self) * (variant->data != NULL ? 4.0 : 1.0), count_columns (self));
}

/* One dispatch for so many steps; @variant->data tells whether the state is in workgroup memory. */
static gboolean
whole_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Recurrence *self = data;
  guint64 steps = (guint64) self->steps, n = (guint64) (self->batch * self->v_heads * self->rows * self->columns);
  guint64 max_steps = rlx_lower_get_target (lower)->barriers_are_cheap ? MAX_STEPS : MAX_STEPS_IN_CACHE;
  Run run = { .chunks = 1, .memory = variant->data != NULL, .from = own_state (self, get_input (node, self->form->state)) };

  if (!pack_extras (lower, node, self, &run.words, error))
    return FALSE;
  do
    {
      run.count = run.chunk = MIN (steps - run.first, max_steps);
      run.to = own_state (self, run.first + run.count == steps || n == 0 ? &node->outputs[1] : temporary (lower, n));
      if (!lower_run (lower, node, self, &run, error))
        return FALSE;
      run.first += run.count;
      run.from = run.to;
    }
  while (run.first < steps);

  return TRUE;
}

static const RlxVariant variants[] = {
  { "chunks", chunks_fits, chunks_cost, NULL, chunks_describe, NULL },
  { "registers", registers_fits, whole_cost, NULL, whole_describe, NULL },
  { "memory", memory_fits, whole_cost, NULL, whole_describe, variants },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 256, 2, 32]") RLX_SAMPLE_INPUT (1, "f32[1, 256, 2, 32]")
    RLX_SAMPLE_INPUT (2, "f32[1, 256, 2, 32]") RLX_SAMPLE_INPUT (3, "f32[1, 256, 2]")
    "%4 = neg(%3)\n%5, %6 = gated_delta_net(%0, %1, %2, %4) {delta_rule = false}\n" RLX_SAMPLE_OUTPUT (5) RLX_SAMPLE_OUTPUT (6), 1 },
  { NULL, 0 },
};

const RlxVariants rlx_recurrence_variants = {
  RLX_FAMILY_RECURRENCE, "recurrence", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_recurrence_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  const RlxTensorType *types[8];
  RlxOpCall call = { .op = node->op, .attrs = node->attrs, .inputs = types, .n_inputs = node->n_inputs };
  Recurrence self;

  g_assert (node->n_inputs <= G_N_ELEMENTS (types));
  for (guint i = 0; i < node->n_inputs; i++)
    types[i] = node->inputs[i] != NULL ? &node->inputs[i]->type : NULL;
  /* The only operator with attributes. */
  if (!recurrence_init (&self, &call, rlx_ir_node_is (node, RLX_OP_ID_GATED_DELTA_NET) ? rlx_recurrence_attrs (node) : NULL, error))
    return FALSE;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0 && rlx_type_n_elements (&node->outputs[1].type) == 0)
    return TRUE;
  return rlx_lower_choose (lower, node, &rlx_recurrence_variants, &self, error);
}
