/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Recurrent networks: one product for the contribution of the operand to all gates of all
 * steps, then the steps.
 */
#include "config.h"

#include "ops/rlx-shape-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-variant-private.h"
#include "util/rlx-checked-private.h"

#define MAX_GATES 4
/* From this many steps on, it pays to transpose the recurrent weight so that neighbouring
 * units have neighbouring addresses. */
#define MIN_STEPS_TO_TRANSPOSE 8
/* Rows in a panel of the recurrent weight: what is read for one unit stays close together,
 * however many units there are. */
#define PANEL 32

typedef enum
{
  KIND_RNN,
  KIND_LSTM,
  KIND_GRU,
} Kind;

/* What the operands determine. */
typedef struct
{
  Kind kind;
  gboolean cell;          /* a single step, without axes for steps and directions */
  gint64 gates;
  gint64 directions;
  gint64 steps;
  gint64 batch;
  gint64 inputs;
  gint64 hidden;
  gboolean batch_first;
  gboolean sequence;
} Recurrent;

static Kind
get_kind (const RlxOp *op)
{
  switch (op->id)
    {
    case RLX_OP_ID_LSTM:
    case RLX_OP_ID_LSTM_CELL:
      return KIND_LSTM;
    case RLX_OP_ID_GRU:
    case RLX_OP_ID_GRU_CELL:
      return KIND_GRU;
    default:
      return KIND_RNN;
    }
}

/* The indices of operands that not all operators have, or that differ between them; 0, the
 * index of x, if the operator lacks one. The weights have the same indices as those of
 * lstm. */
typedef struct
{
  guint8 bias, recurrent_bias, peephole_weight, hidden_state, cell_state, sequence_lengths;
} Operands;

static const Operands *
get_operands (const RlxOp *op)
{
  static const Operands lstm = { RLX_LSTM_BIAS, RLX_LSTM_RECURRENT_BIAS, RLX_LSTM_PEEPHOLE_WEIGHT,
                                 RLX_LSTM_INITIAL_HIDDEN_STATE, RLX_LSTM_INITIAL_CELL_STATE, RLX_LSTM_SEQUENCE_LENGTHS };
  static const Operands gru = { RLX_GRU_BIAS, RLX_GRU_RECURRENT_BIAS, 0,
                                RLX_GRU_INITIAL_HIDDEN_STATE, 0, RLX_GRU_SEQUENCE_LENGTHS };
  static const Operands rnn = { RLX_RNN_BIAS, RLX_RNN_RECURRENT_BIAS, 0,
                                RLX_RNN_INITIAL_HIDDEN_STATE, 0, RLX_RNN_SEQUENCE_LENGTHS };
  static const Operands lstm_cell = { RLX_LSTM_CELL_BIAS, RLX_LSTM_CELL_RECURRENT_BIAS, RLX_LSTM_CELL_PEEPHOLE_WEIGHT,
                                      RLX_LSTM_CELL_HIDDEN_STATE, RLX_LSTM_CELL_CELL_STATE, 0 };
  static const Operands gru_cell = { RLX_GRU_CELL_BIAS, RLX_GRU_CELL_RECURRENT_BIAS, 0, RLX_GRU_CELL_HIDDEN_STATE, 0, 0 };
  static const Operands rnn_cell = { RLX_RNN_CELL_BIAS, RLX_RNN_CELL_RECURRENT_BIAS, 0, RLX_RNN_CELL_HIDDEN_STATE, 0, 0 };

  switch (op->id)
    {
    case RLX_OP_ID_LSTM:
      return &lstm;
    case RLX_OP_ID_GRU:
      return &gru;
    case RLX_OP_ID_RNN:
      return &rnn;
    case RLX_OP_ID_LSTM_CELL:
      return &lstm_cell;
    case RLX_OP_ID_GRU_CELL:
      return &gru_cell;
    case RLX_OP_ID_RNN_CELL:
    default:
      return &rnn_cell;
    }
}

/* ---- the rule --------------------------------------------------------------------- */

static gboolean
check_shape (RlxOpCall    *call,
             guint         index,
             guint         n_dims,
             const gint64 *shape,
             const char   *meaning,
             GError      **error)
{
  RlxTensorType wanted = { .n_dims = n_dims };

  if (index == 0 || call->inputs[index] == NULL)
    return TRUE;

  wanted.data_type = call->inputs[index]->data_type;
  memcpy (wanted.shape, shape, n_dims * sizeof (gint64));
  if (!rlx_type_same_shape (call->inputs[index], &wanted))
    {
      g_autofree char *got = rlx_type_to_string (call->inputs[index]);
      g_autofree char *text = rlx_type_to_string (&wanted);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "%s is %s; it must be %s: %s", call->op->inputs[index].name, got, text, meaning);
    }
  return TRUE;
}

static gboolean
check_rank (RlxOpCall  *call,
            guint       index,
            guint       n_dims,
            const char *meaning,
            GError    **error)
{
  if (call->inputs[index]->n_dims != n_dims)
    {
      g_autofree char *text = rlx_type_to_string (call->inputs[index]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "%s is %s; it must have %u dimensions: %s",
                             index == 0 ? "the operand" : call->op->inputs[index].name, text, n_dims, meaning);
    }
  return TRUE;
}

static gboolean
check_attrs (RlxOpCall               *call,
             const RlxRecurrentAttrs *attrs,
             GError                 **error)
{
  /* Numbers that an operator does not have are 0. */
  const struct { const char *name; double value; } numbers[] = {
    { "gate_alpha", attrs->gate_alpha }, { "gate_beta", attrs->gate_beta },
    { "cell_alpha", attrs->cell_alpha }, { "cell_beta", attrs->cell_beta },
    { "hidden_alpha", attrs->hidden_alpha }, { "hidden_beta", attrs->hidden_beta },
  };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    if (!isfinite ((float) numbers[i].value))
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s is %g; it must be a finite 32-bit float", numbers[i].name, numbers[i].value);
  if (!(attrs->clip > 0))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "clip is %g; it must be greater than 0", attrs->clip);
  return TRUE;
}

/* Checks the three operands that are always present. */
static gboolean
recurrent_init (Recurrent               *self,
                RlxOpCall               *call,
                const RlxRecurrentAttrs *attrs,
                GError                 **error)
{
  static const gint64 n_gates[] = { 1, 4, 3 };
  const RlxTensorType *x = call->inputs[0];
  const RlxTensorType *recurrent = call->inputs[RLX_LSTM_RECURRENT_WEIGHT];
  gint64 rows, words, all;

  *self = (Recurrent) { .kind = get_kind (call->op), .directions = 1, .steps = 1 };
  self->cell = call->op->id == RLX_OP_ID_LSTM_CELL || call->op->id == RLX_OP_ID_GRU_CELL || call->op->id == RLX_OP_ID_RNN_CELL;
  self->gates = n_gates[self->kind];

  if (!check_rank (call, 0, self->cell ? 2 : 3, self->cell ? "batch, inputs" : "steps, batch, inputs", error) ||
      !check_rank (call, RLX_LSTM_RECURRENT_WEIGHT, self->cell ? 2 : 3, self->cell ? "gates, hidden" : "directions, gates, hidden", error))
    return FALSE;

  self->inputs = x->shape[x->n_dims - 1];
  self->batch = x->shape[0];
  if (!self->cell)
    {
      self->batch_first = attrs->batch_first;
      self->sequence = attrs->return_sequence;
      self->directions = attrs->direction == RLX_RECURRENT_DIRECTION_BOTH ? 2 : 1;
      self->steps = x->shape[self->batch_first ? 1 : 0];
      self->batch = x->shape[self->batch_first ? 0 : 1];
    }
  self->hidden = recurrent->shape[recurrent->n_dims - 1];

  /* All other sizes fit if these do. */
  if (!rlx_mul_i64 (self->gates, self->hidden, &rows) ||
      !rlx_mul_i64 (rows, 2 * self->directions, &words) ||
      !rlx_mul_i64 (words, MAX (self->batch, 1), &all) || all > G_MAXINT32 ||
      !rlx_add_i64 (all, self->batch, &all) || all > G_MAXINT32 ||
      !rlx_mul_i64 (rows, self->directions, &words) ||
      !rlx_mul_i64 (words, self->batch, &all) ||
      !rlx_mul_i64 (all, self->steps, &all) || all > G_MAXUINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%" G_GINT64_FORMAT " gates of %" G_GINT64_FORMAT " units for %" G_GINT64_FORMAT " sequences of %"
                           G_GINT64_FORMAT " steps in %" G_GINT64_FORMAT " directions are more than 2³² elements",
                           self->gates, self->hidden, self->batch, self->steps, self->directions);
  return TRUE;
}

static gboolean
check_operands (Recurrent *self,
                RlxOpCall *call,
                GError   **error)
{
  const Operands *operands = get_operands (call->op);
  gint64 rows = self->gates * self->hidden;
  gint64 state[] = { self->directions, self->batch, self->hidden };

  if (self->batch_first)
    {
      state[0] = self->batch;
      state[1] = self->directions;
    }
  /* A cell has no axis for directions. */
  if (self->cell)
    return check_shape (call, RLX_LSTM_RECURRENT_WEIGHT, 2, (gint64[]) { rows, self->hidden }, "gates, hidden", error) &&
           check_shape (call, RLX_LSTM_WEIGHT, 2, (gint64[]) { rows, self->inputs }, "gates, inputs", error) &&
           check_shape (call, operands->bias, 1, &rows, "gates", error) &&
           check_shape (call, operands->recurrent_bias, 1, &rows, "gates", error) &&
           check_shape (call, operands->peephole_weight, 1, (gint64[]) { 3 * self->hidden }, "three gates", error) &&
           check_shape (call, operands->hidden_state, 2, state + 1, "batch, hidden", error) &&
           check_shape (call, operands->cell_state, 2, state + 1, "batch, hidden", error);

  return check_shape (call, RLX_LSTM_RECURRENT_WEIGHT, 3, (gint64[]) { self->directions, rows, self->hidden },
                      "directions, gates, hidden", error) &&
         check_shape (call, RLX_LSTM_WEIGHT, 3, (gint64[]) { self->directions, rows, self->inputs },
                      "directions, gates, inputs", error) &&
         check_shape (call, operands->bias, 2, (gint64[]) { self->directions, rows }, "directions, gates", error) &&
         check_shape (call, operands->recurrent_bias, 2, (gint64[]) { self->directions, rows }, "directions, gates", error) &&
         check_shape (call, operands->peephole_weight, 2, (gint64[]) { self->directions, 3 * self->hidden },
                      "directions, three gates", error) &&
         check_shape (call, operands->hidden_state, 3, state,
                      self->batch_first ? "batch, directions, hidden" : "directions, batch, hidden", error) &&
         check_shape (call, operands->cell_state, 3, state,
                      self->batch_first ? "batch, directions, hidden" : "directions, batch, hidden", error) &&
         check_shape (call, operands->sequence_lengths, 1, &self->batch, "batch", error);
}

gboolean
rlx_recurrent_infer (RlxOpCall               *call,
                     const RlxRecurrentAttrs *attrs,
                     GError                 **error)
{
  RlxTensorType type = { .data_type = call->inputs[0]->data_type };
  Recurrent self;

  if (!check_attrs (call, attrs, error) || !recurrent_init (&self, call, attrs, error) || !check_operands (&self, call, error))
    return FALSE;

  if (self.batch_first)
    type.shape[type.n_dims++] = self.batch;
  if (!self.cell)
    type.shape[type.n_dims++] = self.directions;
  if (!self.batch_first)
    type.shape[type.n_dims++] = self.batch;
  type.shape[type.n_dims++] = self.hidden;
  rlx_call_add_output (call, &type);
  if (self.kind == KIND_LSTM)
    rlx_call_add_output (call, &type);

  if (self.sequence)
    {
      /* The state with an additional axis, after the batch if that comes first. */
      guint axis = self.batch_first ? 1 : 0;

      memmove (type.shape + axis + 1, type.shape + axis, (type.n_dims - axis) * sizeof (gint64));
      type.shape[axis] = self.steps;
      type.n_dims++;
      rlx_call_add_output (call, &type);
    }
  return TRUE;
}

/* ---- the lowering ------------------------------------------------------------------- */

/* How the steps are divided among dispatches and workgroups. */
typedef struct
{
  gboolean loop;          /* a workgroup computes all units, over many steps */
  guint64 width;          /* of a row of workgroup memory */
  guint64 tile;           /* sequences per workgroup */
  guint64 units;
  guint64 split;          /* invocations that share a sum */
  guint64 slice;          /* units per workgroup */
  guint64 count;          /* steps per dispatch */
} Division;

/* Offsets in the packed words. */
typedef struct
{
  guint64 apart;
  guint64 peephole;
  guint64 lengths;
  guint64 end;
} Words;

typedef struct
{
  Recurrent shape;
  RlxLower *lower;
  const RlxIrNode *node;
  gboolean before;        /* the reset gate is applied before the product */
  Division division;
  Words words;
  guint64 one_state;
  const RlxIrValue *packed;
  const RlxIrValue *inputs;
  const RlxIrValue *recurrent;
  gboolean panels;        /* the recurrent weight is laid out in panels of rows */
} Steps;

static guint64
round_up_to_power (guint64 value)
{
  guint64 power = 1;

  while (power < value)
    power *= 2;
  return power;
}

/* The operand at an index from get_operands(). */
static const RlxIrValue *
get_value (const RlxIrNode *node,
           guint            index)
{
  return index > 0 ? node->inputs[index] : NULL;
}

/* 16 KiB are 4096 floats: three times the state and the sums, or the sums alone. */
#define MAX_STATE 1024
#define MAX_SUMS 1024
#define MAX_SUMS_ALONE 4096

static guint64
choose_units (const Recurrent *shape,
              const RlxTarget *target)
{
  guint64 power = round_up_to_power ((guint64) shape->hidden);

  return target->barriers_are_cheap ? CLAMP (power, 32, 256) : CLAMP (power, 8, 64);
}

/* Several lanes share a sum as long as there is room for their partial sums. */
static void
split_sums (Division        *self,
            const Recurrent *shape,
            const RlxTarget *target,
            guint64          most)
{
  guint64 sums = (guint64) shape->gates * self->tile * self->units;

  self->split = 1;
  while (target->barriers_are_cheap && self->split < 8 && self->split * 2 <= (guint64) shape->hidden &&
         self->units * self->split * 2 <= 256 && sums * self->split * 2 <= most)
    self->split *= 2;
}

/* Multiplications of a workgroup per step. */
static guint64
get_work (const Division  *self,
          const Recurrent *shape)
{
  return (guint64) shape->gates * (guint64) shape->hidden * (guint64) shape->hidden * self->tile;
}

static Division
divide_loop (const Recurrent *shape,
             const RlxTarget *target)
{
  guint64 hidden = (guint64) shape->hidden, batch = (guint64) shape->batch;
  Division self = { .loop = TRUE, .width = MAX (32, round_up_to_power (hidden)), .slice = hidden };

  self.tile = batch >= 3 ? 4 : batch;
  self.units = choose_units (shape, target);
  while (self.tile > 1 && (self.width * self.tile > MAX_STATE || (guint64) shape->gates * self.tile * self.units > MAX_SUMS))
    self.tile /= 2;
  split_sums (&self, shape, target, MAX_SUMS);
  /* Dispatches should be short, on slow devices too. */
  self.count = CLAMP ((1u << 26) / MAX (get_work (&self, shape), 1), 16, (guint64) shape->steps);
  return self;
}

static Division
divide_steps (const Recurrent *shape,
              const RlxTarget *target)
{
  guint64 batch = (guint64) shape->batch;
  Division self = { .width = MAX (32, round_up_to_power ((guint64) shape->hidden)), .count = 1 };

  self.tile = batch >= 3 ? 4 : batch;
  self.units = MIN (choose_units (shape, target), target->barriers_are_cheap ? 32 : 64);
  self.slice = self.units;
  split_sums (&self, shape, target, MAX_SUMS_ALONE);
  return self;
}

static RlxIrValue *
temporary (RlxLower   *lower,
           RlxDataType data_type,
           guint64     n_elements)
{
  RlxTensorType type = { .data_type = data_type, .n_dims = 1, .shape = { (gint64) n_elements } };

  return rlx_lower_temporary (lower, &type);
}

/* A value with the same elements as @value, seen as a matrix. */
static RlxIrValue *
as_matrix (RlxLower         *lower,
           const RlxIrValue *value,
           gint64            rows,
           gint64            columns)
{
  RlxTensorType type = { .data_type = value->type.data_type, .n_dims = 2, .shape = { rows, columns } };
  RlxIrValue *view = rlx_lower_temporary (lower, &type);

  rlx_lower_alias (lower, view, value);
  return view;
}

/* x Wᵀ for all steps, sequences, directions and gates. */
static gboolean
lower_inputs (Steps   *self,
              GError **error)
{
  const Recurrent *shape = &self->shape;
  gint64 rows = shape->steps * shape->batch, columns = shape->directions * shape->gates * shape->hidden;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 2, .shape = { rows, columns } };
  RlxIrValue *product = rlx_lower_temporary (self->lower, &type);
  RlxIrValue *operands[2] = {
    as_matrix (self->lower, self->node->inputs[0], rows, shape->inputs),
    as_matrix (self->lower, self->node->inputs[RLX_LSTM_WEIGHT], columns, shape->inputs),
  };
  RlxMatmulAttrs attrs = { .transpose_b = TRUE };
  RlxIrNode node = {
    .id = self->node->id,
    .origin = self->node->origin,
    .op = &rlx_op_matmul,
    .name = self->node->name,
    .attrs = &attrs,
    .inputs = operands,
    .n_inputs = G_N_ELEMENTS (operands),
    .outputs = product,
    .n_outputs = 1,
  };

  self->inputs = product;
  return rlx_matmul_lower (self->lower, &node, error);
}

/* The recurrent weight has a row of @hidden elements for each unit of each gate and
 * direction. A weight that is uploaded once is packed into panels at that point, any other
 * one in each run. */
static gboolean
lower_recurrent_weight (Steps   *self,
                        GError **error)
{
  const Recurrent *shape = &self->shape;
  gint64 rows = shape->directions * shape->gates * shape->hidden, columns = shape->hidden;
  gint64 n_panels = (rows + PANEL - 1) / PANEL;
  RlxCopy copy = {
    .n_dims = 3,
    .shape = { rows / PANEL, columns, PANEL },
    .from = { PANEL * columns, 1, columns },
    .to = { PANEL * columns, PANEL, 1 },
  };
  RlxIrValue *transposed;

  self->recurrent = self->node->inputs[RLX_LSTM_RECURRENT_WEIGHT];
  self->panels = rlx_lower_pack_weight (self->lower, self->recurrent, (guint64) columns, (guint64) rows, 1,
                                        (guint64) columns, PANEL);
  if (self->panels || shape->steps < MIN_STEPS_TO_TRANSPOSE || shape->hidden == 1)
    return TRUE;

  self->panels = TRUE;
  transposed = temporary (self->lower, self->recurrent->type.data_type, (guint64) (n_panels * PANEL * columns));
  if (rows >= PANEL && !rlx_lower_copy (self->lower, self->node, self->recurrent, transposed, &copy, error))
    return FALSE;
  /* the last panel may not be full */
  if (rows % PANEL != 0)
    {
      copy.shape[0] = 1;
      copy.shape[2] = rows % PANEL;
      copy.from_offset = copy.to_offset = rows / PANEL * PANEL * columns;
      if (!rlx_lower_copy (self->lower, self->node, self->recurrent, transposed, &copy, error))
        return FALSE;
    }
  self->recurrent = transposed;
  return TRUE;
}

static gboolean
lower_pack (Steps            *self,
            const RlxIrValue *state,
            GError          **error)
{
  const Recurrent *shape = &self->shape;
  const RlxIrNode *node = self->node;
  const Operands *operands = get_operands (node->op);
  const RlxIrValue *bias = get_value (node, operands->bias);
  const RlxIrValue *recurrent_bias = get_value (node, operands->recurrent_bias);
  const RlxIrValue *peephole = get_value (node, operands->peephole_weight);
  const RlxIrValue *lengths = get_value (node, operands->sequence_lengths);
  const RlxIrValue *hidden = get_value (node, operands->hidden_state);
  const RlxIrValue *cell = get_value (node, operands->cell_state);
  gboolean apart = shape->kind == KIND_GRU && !self->before;
  guint64 units = shape->hidden, all = shape->directions * units;
  guint64 n_states = rlx_type_n_elements (&state->type);
  RlxKernel *kernel = rlx_kernel_new (self->lower, node, "recurrent-pack");
  RlxIrValue *packed;
  guint64 n;

  self->words.apart = all * (guint64) shape->gates;
  self->words.peephole = self->words.apart + (apart ? all : 0);
  self->words.lengths = self->words.peephole + (peephole != NULL ? 3 * all : 0);
  self->words.end = self->words.lengths + (lengths != NULL ? (guint64) shape->batch : 0);
  packed = temporary (self->lower, RLX_DATA_TYPE_U32, self->words.end);
  self->packed = packed;
  n = self->words.end + n_states;

  if (bias != NULL)
    rlx_kernel_input (kernel, "bias", bias);
  if (recurrent_bias != NULL)
    rlx_kernel_input (kernel, "recurrent_bias", recurrent_bias);
  if (peephole != NULL)
    rlx_kernel_input (kernel, "peephole_weight", peephole);
  if (lengths != NULL)
    rlx_kernel_input (kernel, "lengths", lengths);
  if (hidden != NULL)
    rlx_kernel_input (kernel, "initial_hidden", hidden);
  if (cell != NULL)
    rlx_kernel_input (kernel, "initial_cell", cell);
  rlx_kernel_output (kernel, "words", packed);
  rlx_kernel_output (kernel, "state", state);

  rlx_kernel_define (kernel, "BIAS", bias != NULL);
  rlx_kernel_define (kernel, "RECURRENT_BIAS", recurrent_bias != NULL);
  rlx_kernel_define (kernel, "APART", apart);
  rlx_kernel_define (kernel, "PEEPHOLE", peephole != NULL);
  rlx_kernel_define (kernel, "LENGTHS", lengths != NULL);
  rlx_kernel_define (kernel, "HIDDEN", hidden != NULL);
  rlx_kernel_define (kernel, "CELL", cell != NULL);
  rlx_kernel_param_u32 (kernel, "words", self->words.end);
  rlx_kernel_param_u32 (kernel, "states", n_states);
  rlx_kernel_param_u32 (kernel, "one_state", self->one_state);
  rlx_kernel_param_u32 (kernel, "hidden", units);
  rlx_kernel_param_u32 (kernel, "batch", shape->batch);
  rlx_kernel_param_u32 (kernel, "from_direction", shape->batch_first ? units : units * (guint64) shape->batch);
  rlx_kernel_param_u32 (kernel, "from_batch", shape->batch_first ? all : units);
  rlx_kernel_param_u32 (kernel, "biases", (guint64) shape->gates * units);
  rlx_kernel_param_u32 (kernel, "summed", ((guint64) shape->gates - 1) * units);
  rlx_kernel_param_u32 (kernel, "at_apart", self->words.apart);
  rlx_kernel_param_u32 (kernel, "at_peephole", self->words.peephole);
  rlx_kernel_param_u32 (kernel, "at_lengths", self->words.lengths);
  rlx_kernel_param_u32 (kernel, "steps", shape->steps);
  rlx_kernel_set_cost (kernel, (double) n, 8.0 * (double) n);
  return rlx_kernel_dispatch (kernel, (n + 63) / 64, error);
}

/* Defines @macro as an activation of x, and adds the functions that it needs to @uses. */
static void
define_activation (RlxKernel              *kernel,
                   const char             *place,
                   const char             *macro,
                   RlxRecurrentActivation  activation,
                   double                  alpha,
                   double                  beta,
                   guint                  *uses)
{
  static const struct { const char *text; guint uses; guint numbers; } activations[] = {
    /* uses: bits in the order of the names below; numbers: alpha, beta */
    [RLX_RECURRENT_ACTIVATION_SIGMOID] = { "op_sigmoid (x)", 1 << 0, 0 },
    [RLX_RECURRENT_ACTIVATION_TANH] = { "op_tanh (x)", 1 << 1, 0 },
    [RLX_RECURRENT_ACTIVATION_RELU] = { "op_max (x, 0.0)", 1 << 2, 0 },
    [RLX_RECURRENT_ACTIVATION_LEAKY_RELU] = { "x * select (1.0, p.%s_alpha, x < 0.0)", 0, 1 },
    [RLX_RECURRENT_ACTIVATION_THRESHOLDED_RELU] = { "select (0.0, x, x > p.%s_alpha)", 0, 1 },
    [RLX_RECURRENT_ACTIVATION_HARD_SIGMOID] = { "op_clamp (p.%s_alpha * x + p.%s_beta, 0.0, 1.0)", 1 << 3, 2 },
    [RLX_RECURRENT_ACTIVATION_ELU] = { "op_elu (x, p.%s_alpha)", 1 << 4, 1 },
    [RLX_RECURRENT_ACTIVATION_SOFTSIGN] = { "op_softsign (x)", 1 << 5, 0 },
    [RLX_RECURRENT_ACTIVATION_SOFTPLUS] = { "op_softplus (x)", 1 << 6, 0 },
    [RLX_RECURRENT_ACTIVATION_AFFINE] = { "p.%s_alpha * x + p.%s_beta", 0, 2 },
    [RLX_RECURRENT_ACTIVATION_SCALED_TANH] = { "p.%s_alpha * op_tanh (p.%s_beta * x)", 1 << 1, 2 },
  };
  static const char *const suffixes[] = { "alpha", "beta" };
  const double numbers[] = { alpha, beta };
  g_auto(GStrv) parts = g_strsplit (activations[activation].text, "%s", -1);
  g_autofree char *text = g_strjoinv (place, parts);

  rlx_kernel_define_text (kernel, macro, text);
  *uses |= activations[activation].uses;
  for (guint i = 0; i < activations[activation].numbers; i++)
    {
      g_autofree char *name = g_strdup_printf ("%s_%s", place, suffixes[i]);

      rlx_kernel_param_f32 (kernel, name, numbers[i]);
    }
}

static void
define_activations (RlxKernel       *kernel,
                    const RlxIrNode *node,
                    Kind             kind)
{
  static const char *const names[] = {
    "USE_SIGMOID", "USE_TANH", "USE_MAX", "USE_CLAMP", "USE_ELU", "USE_SOFTSIGN", "USE_SOFTPLUS",
  };
  const RlxRecurrentAttrs *attrs = rlx_recurrent_attrs (node);
  double clip = attrs->clip;
  guint uses = 0;

  if (kind != KIND_RNN)
    define_activation (kernel, "gate", "GATE", attrs->gate_activation, attrs->gate_alpha, attrs->gate_beta, &uses);
  if (kind == KIND_LSTM)
    define_activation (kernel, "cell", "CELL", attrs->cell_activation, attrs->cell_alpha, attrs->cell_beta, &uses);
  define_activation (kernel, "hidden", "HIDDEN", attrs->hidden_activation, attrs->hidden_alpha, attrs->hidden_beta, &uses);

  rlx_kernel_define (kernel, "CLIP", isfinite ((float) clip));
  if (isfinite ((float) clip))
    {
      rlx_kernel_param_f32 (kernel, "clip", clip);
      uses |= 1 << 3;
    }
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    rlx_kernel_define (kernel, names[i], uses >> i & 1);
}

/* The position of each gate in the operands, in the order of the kernel. */
static void
param_gates (RlxKernel       *kernel,
             const RlxIrNode *node,
             Kind             kind,
             guint64          hidden)
{
  static const guint8 orders[][2][MAX_GATES] = {
    [KIND_RNN] = { { 0 }, { 0 } },
    [KIND_LSTM] = { [RLX_LSTM_GATES_IOFG] = { 0, 1, 2, 3 }, [RLX_LSTM_GATES_IFGO] = { 0, 3, 1, 2 } },
    [KIND_GRU] = { [RLX_GRU_GATES_ZRN] = { 0, 1, 2 }, [RLX_GRU_GATES_RZN] = { 1, 0, 2 } },
  };
  static const char *const names[] = { "gate0", "gate1", "gate2", "gate3" };
  const RlxRecurrentAttrs *attrs = rlx_recurrent_attrs (node);
  guint order = kind == KIND_LSTM ? (guint) attrs->lstm_gates : kind == KIND_GRU ? (guint) attrs->gru_gates : 0;

  for (guint i = 0; i < MAX_GATES; i++)
    rlx_kernel_param_u32 (kernel, names[i], orders[kind][order][i] * hidden);
}

/* Binds the destination of the state: the results, or @new_state. */
static void
bind_new_state (Steps            *self,
                RlxKernel        *kernel,
                const RlxIrValue *new_state)
{
  const Recurrent *shape = &self->shape;
  guint64 hidden = shape->hidden;

  rlx_kernel_define (kernel, "FINAL", new_state == NULL);
  if (new_state != NULL)
    {
      rlx_kernel_output (kernel, "new_state", new_state);
      return;
    }
  rlx_kernel_output (kernel, "last_hidden", &self->node->outputs[0]);
  if (shape->kind == KIND_LSTM)
    rlx_kernel_output (kernel, "last_cell", &self->node->outputs[1]);
  rlx_kernel_param_u32 (kernel, "last_direction", shape->batch_first ? hidden : hidden * (guint64) shape->batch);
  rlx_kernel_param_u32 (kernel, "last_batch", shape->batch_first ? hidden * (guint64) shape->directions : hidden);
}

static void
bind_sequence (Steps     *self,
               RlxKernel *kernel)
{
  const Recurrent *shape = &self->shape;
  guint64 hidden = shape->hidden, one_step = self->one_state;

  rlx_kernel_output (kernel, "sequence", &self->node->outputs[self->node->n_outputs - 1]);
  if (shape->batch_first)
    {
      rlx_kernel_param_u32 (kernel, "y_batch", hidden * (guint64) (shape->directions * shape->steps));
      rlx_kernel_param_u32 (kernel, "y_step", hidden * (guint64) shape->directions);
      rlx_kernel_param_u32 (kernel, "y_direction", hidden);
    }
  else
    {
      rlx_kernel_param_u32 (kernel, "y_step", one_step);
      rlx_kernel_param_u32 (kernel, "y_direction", hidden * (guint64) shape->batch);
      rlx_kernel_param_u32 (kernel, "y_batch", hidden);
    }
}

/* Steps @first to @first + count - 1 of phases @phase0 to @phase1 - 1. */
static gboolean
lower_steps (Steps            *self,
             guint64           first,
             guint64           count,
             guint             phase0,
             guint             phase1,
             const RlxIrValue *state,
             const RlxIrValue *new_state,
             const RlxIrValue *reset,
             GError          **error)
{
  const Recurrent *shape = &self->shape;
  const RlxIrNode *node = self->node;
  const Operands *operands = get_operands (node->op);
  const Division *division = &self->division;
  /* Without steps, the state is passed through. */
  gboolean any = shape->steps > 0;
  Kind kind = any || shape->kind == KIND_LSTM ? shape->kind : KIND_RNN;
  gboolean peephole = any && get_value (node, operands->peephole_weight) != NULL;
  gboolean lengths = any && get_value (node, operands->sequence_lengths) != NULL;
  gboolean writes_state = phase1 == 2 || !self->before;
  guint64 hidden = shape->hidden, rows = (guint64) shape->gates * hidden, columns = rows * (guint64) shape->directions;
  guint64 tiles = rlx_divide_up ((guint64) shape->batch, division->tile);
  guint64 slices = rlx_divide_up (hidden, division->slice);
  guint64 n_groups = slices * tiles * (guint64) shape->directions;
  double products = (double) shape->batch * (double) columns * (double) hidden * (double) count;
  RlxKernel *kernel = rlx_kernel_new (self->lower, node, "recurrent");

  rlx_kernel_define (kernel, "WG", division->units * division->split);
  rlx_kernel_define (kernel, "RNN", kind == KIND_RNN);
  rlx_kernel_define (kernel, "LSTM", kind == KIND_LSTM);
  rlx_kernel_define (kernel, "AFTER", kind == KIND_GRU && !self->before);
  rlx_kernel_define (kernel, "BEFORE", kind == KIND_GRU && self->before);
  rlx_kernel_define (kernel, "GATES", shape->gates);
  rlx_kernel_define (kernel, "TB", division->tile);
  rlx_kernel_define (kernel, "U", division->units);
  rlx_kernel_define (kernel, "KS", division->split);
  rlx_kernel_define (kernel, "LOOP", division->loop);
  rlx_kernel_define (kernel, "WIDTH", division->width);
  rlx_kernel_define (kernel, "PHASE0", any ? phase0 : 0);
  rlx_kernel_define (kernel, "PHASE1", any ? phase1 : 1);
  rlx_kernel_define (kernel, "STEPS", any);
  rlx_kernel_define (kernel, "LENGTHS", lengths);
  rlx_kernel_define (kernel, "PEEPHOLE", peephole);
  rlx_kernel_define (kernel, "INPUT_FORGET", kind == KIND_LSTM && rlx_recurrent_attrs (node)->input_forget);
  rlx_kernel_define (kernel, "SEQUENCE", any && writes_state && shape->sequence);

  if (any)
    {
      rlx_kernel_input (kernel, "inputs", self->inputs);
      rlx_kernel_input (kernel, "recurrent", self->recurrent);
      rlx_kernel_input (kernel, "words", self->packed);
      if (phase0 == 1)
        rlx_kernel_input (kernel, "reset", reset);
    }
  rlx_kernel_input (kernel, "state", state);
  if (writes_state)
    bind_new_state (self, kernel, new_state);
  else
    {
      rlx_kernel_define (kernel, "FINAL", FALSE);
      rlx_kernel_output (kernel, "new_reset", reset);
    }
  if (any && writes_state && shape->sequence)
    bind_sequence (self, kernel);

  define_activations (kernel, node, kind);
  param_gates (kernel, node, kind, hidden);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "slices", slices);
  rlx_kernel_param_u32 (kernel, "slice", division->slice);
  rlx_kernel_param_u32 (kernel, "tiles", tiles);
  rlx_kernel_param_u32 (kernel, "run", rlx_divide_up (hidden, division->split));
  rlx_kernel_param_u32 (kernel, "hidden", hidden);
  rlx_kernel_param_u32 (kernel, "batch", shape->batch);
  rlx_kernel_param_u32 (kernel, "steps", shape->steps);
  rlx_kernel_param_u32 (kernel, "first", first);
  rlx_kernel_param_u32 (kernel, "count", count);
  rlx_kernel_param_u32 (kernel, "forward",
                        !shape->cell && rlx_recurrent_attrs (node)->direction == RLX_RECURRENT_DIRECTION_BACKWARD);
  rlx_kernel_param_u32 (kernel, "one_state", self->one_state);
  rlx_kernel_param_u32 (kernel, "biases", rows);
  rlx_kernel_param_u32 (kernel, "at_apart", self->words.apart);
  rlx_kernel_param_u32 (kernel, "at_peephole", self->words.peephole);
  rlx_kernel_param_u32 (kernel, "at_lengths", self->words.lengths);
  rlx_kernel_param_u32 (kernel, "x_step", shape->batch_first ? columns : columns * (guint64) shape->batch);
  rlx_kernel_param_u32 (kernel, "x_batch", shape->batch_first ? columns * (guint64) shape->steps : columns);
  rlx_kernel_param_u32 (kernel, "x_direction", rows);
  rlx_kernel_param_u32 (kernel, "r_width", self->panels ? PANEL : G_MAXUINT32);
  rlx_kernel_param_u32 (kernel, "r_panel", self->panels ? PANEL * hidden : 0);
  rlx_kernel_param_u32 (kernel, "r_unit", self->panels ? 1 : hidden);
  rlx_kernel_param_u32 (kernel, "r_input", self->panels ? PANEL : 1);

  rlx_kernel_set_cost (kernel, 2.0 * products,
                       4.0 * ((double) columns * (double) hidden + (double) shape->batch * (double) columns) * (double) count);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* ---- variants ------------------------------------------------------------------------- */

static char *
print_problem (gconstpointer data)
{
  static const char *const names[] = { [KIND_RNN] = "rnn", [KIND_LSTM] = "lstm", [KIND_GRU] = "gru" };
  const Recurrent *shape = &((const Steps *) data)->shape;

  return g_strdup_printf ("%s of %" G_GINT64_FORMAT " units, %" G_GINT64_FORMAT " steps of %" G_GINT64_FORMAT " sequences, %"
                          G_GINT64_FORMAT " directions", names[shape->kind], shape->hidden, shape->steps, shape->batch,
                          shape->directions);
}

static double
recurrent_cost (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data)
{
  const Recurrent *shape = &((const Steps *) data)->shape;
  double weights = (double) shape->directions * (double) shape->gates * (double) shape->hidden * (double) shape->hidden;

  return rlx_target_get_seconds (target, 2.0 * weights * (double) shape->batch * (double) shape->steps,
                                 4.0 * weights * (double) shape->steps);
}

/* Up to the first limit, a dispatch for each step would cost more than it gains; up to the
 * second, there are enough workgroups to keep a device busy. */
static RlxFit
loop_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Recurrent *shape = &((const Steps *) data)->shape;
  Division division = divide_loop (shape, target);
  guint64 tiles = rlx_divide_up ((guint64) shape->batch, division.tile) * (guint64) shape->directions;
  guint64 work = get_work (&division, shape);

  if (shape->steps < 2)
    return rlx_variant_cannot ("there are no steps to loop over", why);
  if (division.width * division.tile > MAX_STATE)
    return rlx_variant_cannot ("the state does not fit workgroup memory", why);
  return work <= 1 << 18 || (tiles >= 16 && work <= 1 << 22)
         ? RLX_FIT_WELL : rlx_variant_poorly ("too much work for so few workgroups", why);
}

static RlxFit
steps_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  return RLX_FIT_WELL;
}

/* All steps, divided as @self->division says. */
static gboolean
lower_all (Steps   *self,
           GError **error)
{
  const RlxIrValue *states[2], *reset = NULL;
  guint64 steps = (guint64) self->shape.steps, done = 0;
  guint64 n_states = self->one_state * (self->shape.kind == KIND_LSTM ? 2 : 1);
  guint from = 0;

  states[0] = temporary (self->lower, RLX_DATA_TYPE_F32, n_states);
  states[1] = steps > self->division.count ? temporary (self->lower, RLX_DATA_TYPE_F32, n_states) : NULL;
  if (self->before && !self->division.loop && steps > 0)
    reset = temporary (self->lower, RLX_DATA_TYPE_F32, 2 * self->one_state);

  if (!lower_pack (self, states[0], error) ||
      (steps > 0 && (!lower_inputs (self, error) || !lower_recurrent_weight (self, error))))
    return FALSE;

  do
    {
      guint64 count = MIN (self->division.count, steps - done);
      gboolean last = done + count == steps;
      const RlxIrValue *new_state = last ? NULL : states[1 - from];

      if (reset != NULL && !lower_steps (self, done, count, 0, 1, states[from], NULL, reset, error))
        return FALSE;
      if (!lower_steps (self, done, count, reset != NULL ? 1 : 0, self->before ? 2 : 1, states[from], new_state, reset, error))
        return FALSE;
      from = 1 - from;
      done += count;
    }
  while (done < steps);

  return TRUE;
}

static gboolean
loop_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  Steps self = *(const Steps *) data;

  self.division = divide_loop (&self.shape, rlx_lower_get_target (lower));
  return lower_all (&self, error);
}

static gboolean
steps_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  Steps self = *(const Steps *) data;

  self.division = divide_steps (&self.shape, rlx_lower_get_target (lower));
  return lower_all (&self, error);
}

static const RlxVariant variants[] = {
  { "loop", loop_fits, recurrent_cost, NULL, loop_describe, NULL },
  { "steps", steps_fits, recurrent_cost, NULL, steps_describe, NULL },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[16, 2, 64]") RLX_SAMPLE_WEIGHT (1, "f32[1, 256, 64]") RLX_SAMPLE_WEIGHT (2, "f32[1, 256, 64]")
    "%3, %4 = lstm(%0, %1, %2)\n" RLX_SAMPLE_OUTPUT (3) RLX_SAMPLE_OUTPUT (4), 1 },
  { NULL, 0 },
};

const RlxVariants rlx_recurrent_variants = {
  RLX_FAMILY_RECURRENT, "recurrent", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_recurrent_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  const RlxTensorType *types[16];
  g_autoptr(GArray) outputs = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  RlxOpCall call = {
    .op = node->op,
    .attrs = node->attrs,
    .inputs = types,
    .n_inputs = node->n_inputs,
    .outputs = outputs,
  };
  Steps self = { .lower = lower, .node = node };

  g_assert (node->n_inputs <= G_N_ELEMENTS (types));
  for (guint i = 0; i < node->n_inputs; i++)
    types[i] = node->inputs[i] != NULL ? &node->inputs[i]->type : NULL;
  if (!recurrent_init (&self.shape, &call, rlx_recurrent_attrs (node), error))
    return FALSE;

  self.one_state = (guint64) self.shape.directions * (guint64) self.shape.batch * (guint64) self.shape.hidden;
  self.before = self.shape.kind == KIND_GRU && !rlx_recurrent_attrs (node)->reset_after;
  return self.one_state == 0 || rlx_lower_choose (lower, node, &rlx_recurrent_variants, &self, error);
}
