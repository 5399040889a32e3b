/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A step of training as nodes of the graph.
 */
#include "config.h"

#include "rlx-graph-private.h"

#include <math.h>

#include "ops/rlx-gradient-private.h"
#include "rlx-gradient-options.h"
#include "rlx-op-methods.h"
#include "rlx-optimizer-options-private.h"
#include "rlx-tensor-private.h"

/* The initial scale of a loss, how many finite steps double it, and its limit. */
#define FIRST_SCALE 65536.0
#define STEPS_TO_DOUBLE 2000.0
#define MAX_SCALE 0x1p24
/* Added to the norm of gradients before dividing by it. */
#define NORM_EPSILON 1e-6
/* For Adafactor: the smallest mean square, the smallest step relative to the parameter's size, and the exponent of
 * the decay. */
#define FACTOR_EPSILON 0x1p-23
#define FACTOR_LEAST 1e-3
#define FACTOR_DECAY -0.8

/* An assignment, made unless the step is skipped. */
typedef struct
{
  RlxNode *state;
  RlxIrValue *value;
  RlxNode *node;           /* of the value, once it has one */
  gboolean always;         /* also in a run that makes no step */
} Assignment;

typedef struct
{
  RlxGraph *graph;
  const RlxOptimizerSettings *settings;
  RlxBuilder b;
  GArray *assignments;     /* Assignment */
  RlxIrValue *rate;
  RlxIrValue *step;        /* the number of this one, from 1 on, as f32 */
  RlxIrValue *share1, *share2;   /* 1 - beta ^ step, two elements of one tensor */
} Optimizer;

/* A state of zeros for parameter @node, or a single number for all of them. */
static RlxNode *
new_state (Optimizer           *self,
           RlxNode             *node,
           const char          *what,
           const RlxTensorType *type,
           double               initial,
           GError             **error)
{
  const char *parameter = node != NULL ? rlx_node_get_name (node) : NULL;
  g_autofree char *name = node != NULL ? g_strdup_printf ("%s.%s", parameter != NULL ? parameter : "", what)
                                       : g_strdup_printf ("optimizer.%s", what);
  guint64 n = rlx_type_n_elements (type);
  g_autofree float *values = n <= G_MAXSIZE / sizeof (float) - 1 ? g_try_new0 (float, n + 1) : NULL;
  g_autoptr(RlxTensor) tensor = NULL;

  if (values == NULL)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT, "optimize: there is no memory for the state “%s”", name);
      return NULL;
    }
  for (guint64 i = 0; initial != 0 && i < n; i++)
    values[i] = (float) initial;
  tensor = rlx_tensor_new_from_floats (type->shape, type->n_dims, values, (gsize) n, error);
  return tensor != NULL ? rlx_graph_state (self->graph, name, tensor, error) : NULL;
}

static RlxIrValue *
number (Optimizer *self,
        double     value)
{
  static const RlxIrValue like = { .type = { .data_type = RLX_DATA_TYPE_F32 } };

  return rlx_build_number (&self->b, &like, value);
}

static void
assign (Optimizer  *self,
        RlxNode    *state,
        RlxIrValue *value,
        gboolean    always)
{
  Assignment added = { .state = state, .value = value, .always = always };

  g_array_append_val (self->assignments, added);
}

/* a + (b - a) · share */
static RlxIrValue *
blend (Optimizer  *self,
       RlxIrValue *a,
       RlxIrValue *b,
       double      share)
{
  return rlx_build_add (&self->b, a, rlx_build_mul (&self->b, rlx_build_sub (&self->b, b, a), number (self, share)));
}

static RlxIrValue *
mean_square (Optimizer  *self,
             RlxIrValue *x)
{
  gint64 axes[RLX_MAX_DIMS] = { 0, 1, 2, 3, 4, 5, 6, 7 };

  if (x == NULL)
    return NULL;
  return rlx_build_reduce_mean (&self->b, rlx_build_mul (&self->b, x, x), RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (axes, x->type.n_dims)));
}

/* ---- algorithms ------------------------------------------------------------------------ */

/* The states of a parameter, created before anything is computed. */
typedef struct
{
  RlxNode *parameter;
  RlxNode *first, *second;
  RlxNode *sum;              /* of gradients, if several runs make a step */
  RlxIrValue *gradient;
} Slot;

static gboolean
is_factored (const RlxTensorType *type)
{
  return type->n_dims >= 2;
}

static gboolean
slot_init (Slot      *slot,
           Optimizer *self,
           GError   **error)
{
  RlxTensorType type = rlx_node_get_value (slot->parameter)->type, rows = type, columns = type;

  if (self->settings->accumulate > 1 && (slot->sum = new_state (self, slot->parameter, "sum", &type, 0, error)) == NULL)
    return FALSE;
  switch (self->settings->algorithm)
    {
    case RLX_OPTIMIZER_SGD:
      return self->settings->momentum == 0 || (slot->first = new_state (self, slot->parameter, "momentum", &type, 0, error)) != NULL;
    case RLX_OPTIMIZER_LION:
      return (slot->first = new_state (self, slot->parameter, "mean", &type, 0, error)) != NULL;
    case RLX_OPTIMIZER_ADAFACTOR:
      if (!is_factored (&type))
        return (slot->first = new_state (self, slot->parameter, "square", &type, 0, error)) != NULL;
      rows.shape[type.n_dims - 1] = 1;
      columns.shape[type.n_dims - 2] = 1;
      return (slot->first = new_state (self, slot->parameter, "rows", &rows, 0, error)) != NULL &&
             (slot->second = new_state (self, slot->parameter, "columns", &columns, 0, error)) != NULL;
    case RLX_OPTIMIZER_ADAM:
    case RLX_OPTIMIZER_ADAMW:
    default:
      return (slot->first = new_state (self, slot->parameter, "mean", &type, 0, error)) != NULL &&
             (slot->second = new_state (self, slot->parameter, "square", &type, 0, error)) != NULL;
    }
}

/* With weight decay applied. */
static RlxIrValue *
decay (Optimizer  *self,
       RlxIrValue *p)
{
  RlxBuilder *b = &self->b;

  if (self->settings->weight_decay == 0)
    return p;
  return rlx_build_sub (b, p, rlx_build_mul (b, p, rlx_build_mul (b, self->rate, number (self, self->settings->weight_decay))));
}

static void
update_sgd (Optimizer  *self,
            Slot       *slot,
            RlxIrValue *p,
            RlxIrValue *g)
{
  const RlxOptimizerSettings *settings = self->settings;
  RlxBuilder *b = &self->b;

  if (settings->weight_decay != 0)
    g = rlx_build_add (b, g, rlx_build_mul (b, p, number (self, settings->weight_decay)));
  if (slot->first != NULL)
    {
      RlxIrValue *factor = number (self, settings->momentum);
      RlxIrValue *m = rlx_build_add (b, rlx_build_mul (b, rlx_node_get_value (slot->first), factor), g);

      assign (self, slot->first, m, FALSE);
      g = settings->nesterov ? rlx_build_add (b, g, rlx_build_mul (b, m, factor)) : m;
    }
  assign (self, slot->parameter, rlx_build_sub (b, p, rlx_build_mul (b, g, self->rate)), FALSE);
}

static void
update_adam (Optimizer  *self,
             Slot       *slot,
             RlxIrValue *p,
             RlxIrValue *g)
{
  const RlxOptimizerSettings *settings = self->settings;
  RlxBuilder *b = &self->b;
  const RlxTensorType *type = &rlx_node_get_value (slot->parameter)->type;
  RlxIrValue *m, *v, *size;

  if (settings->algorithm == RLX_OPTIMIZER_ADAMW)
    p = decay (self, p);
  else if (settings->weight_decay != 0)
    g = rlx_build_add (b, g, rlx_build_mul (b, p, number (self, settings->weight_decay)));
  m = blend (self, rlx_node_get_value (slot->first), g, 1 - settings->beta1);
  v = blend (self, rlx_node_get_value (slot->second), rlx_build_mul (b, g, g), 1 - settings->beta2);
  assign (self, slot->first, m, FALSE);
  assign (self, slot->second, v, FALSE);
  size = rlx_build_add (b, rlx_build_sqrt (b, rlx_build_div (b, v, self->share2)), number (self, settings->epsilon));
  m = rlx_build_div (b, rlx_build_mul (b, m, self->rate), rlx_build_mul (b, size, self->share1));
  /* The values have one dimension, which a parameter may not have. */
  p = rlx_build_sub (b, p, m);
  assign (self, slot->parameter, p != NULL ? rlx_build_shaped (b, p, type->shape, type->n_dims) : NULL, FALSE);
}

static void
update_lion (Optimizer  *self,
             Slot       *slot,
             RlxIrValue *p,
             RlxIrValue *g)
{
  RlxBuilder *b = &self->b;
  RlxIrValue *m = rlx_node_get_value (slot->first);
  RlxIrValue *way = rlx_build_sign (b, blend (self, m, g, 1 - self->settings->beta1));

  assign (self, slot->first, blend (self, m, g, 1 - self->settings->beta2), FALSE);
  assign (self, slot->parameter, rlx_build_sub (b, decay (self, p), rlx_build_mul (b, way, self->rate)), FALSE);
}

static void
update_adafactor (Optimizer  *self,
                  Slot       *slot,
                  RlxIrValue *p,
                  RlxIrValue *g)
{
  RlxBuilder *b = &self->b;
  RlxIrValue *squares = rlx_build_mul (b, g, g), *share, *v, *way, *most, *rate;
  const gint64 last = -1, before = -2;

  /* The weight of the new value is step ^ -0.8. */
  share = rlx_build_pow (b, self->step, number (self, FACTOR_DECAY));
  if (slot->second != NULL)
    {
      RlxIrValue *rows = rlx_node_get_value (slot->first), *columns = rlx_node_get_value (slot->second), *mean;

      mean = rlx_build_reduce_mean (b, squares, RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (&last, 1), .keep_dims = TRUE));
      rows = rlx_build_add (b, rows, rlx_build_mul (b, rlx_build_sub (b, mean, rows), share));
      mean = rlx_build_reduce_mean (b, squares, RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (&before, 1), .keep_dims = TRUE));
      columns = rlx_build_add (b, columns, rlx_build_mul (b, rlx_build_sub (b, mean, columns), share));
      assign (self, slot->first, rows, FALSE);
      assign (self, slot->second, columns, FALSE);
      mean = rlx_build_reduce_mean (b, rows, RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (&before, 1), .keep_dims = TRUE));
      mean = rlx_build_max (b, mean, number (self, FACTOR_EPSILON));
      v = rlx_build_mul (b, rlx_build_div (b, rows, mean), columns);
    }
  else
    {
      v = rlx_node_get_value (slot->first);
      v = rlx_build_add (b, v, rlx_build_mul (b, rlx_build_sub (b, squares, v), share));
      assign (self, slot->first, v, FALSE);
    }
  way = rlx_build_mul (b, g, rlx_build_rsqrt (b, rlx_build_max (b, v, number (self, FACTOR_EPSILON * FACTOR_EPSILON))));
  most = rlx_build_max (b, rlx_build_sqrt (b, mean_square (self, way)), number (self, 1.0));
  rate = rlx_build_min (b, self->rate, rlx_build_rsqrt (b, self->step));
  rate = rlx_build_mul (b, rate, rlx_build_max (b, rlx_build_sqrt (b, mean_square (self, p)), number (self, FACTOR_LEAST)));
  assign (self, slot->parameter, rlx_build_sub (b, decay (self, p), rlx_build_mul (b, way, rlx_build_div (b, rate, most))), FALSE);
}

/* ---- the step ----------------------------------------------------------------------------- */

/* The numbers that all parameters share. */
typedef struct
{
  RlxNode *step, *shares, *skipped, *scale, *since, *run;
} Counters;

static gboolean
counters_init (Counters  *self,
               Optimizer *optimizer,
               GError   **error)
{
  const RlxOptimizerSettings *settings = optimizer->settings;
  const RlxTensorType one = { .data_type = RLX_DATA_TYPE_F32 }, two = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1, .shape = { 2 } };
  gboolean adam = settings->algorithm == RLX_OPTIMIZER_ADAM || settings->algorithm == RLX_OPTIMIZER_ADAMW;
  const struct { gboolean wanted; RlxNode **node; const char *name; double initial; } rows[] = {
    { settings->algorithm == RLX_OPTIMIZER_ADAFACTOR, &self->step, "step", 0 },
    { adam, &self->shares, "shares", 0 },
    { settings->skip_not_finite || settings->scale_loss, &self->skipped, "skipped", 0 },
    { settings->scale_loss, &self->scale, "scale", FIRST_SCALE },
    { settings->scale_loss, &self->since, "since", 0 },
    { settings->accumulate > 1, &self->run, "run", 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    if (rows[i].wanted && (*rows[i].node = new_state (optimizer, NULL, rows[i].name, rows[i].node == &self->shares ? &two : &one, rows[i].initial, error)) == NULL)
      return FALSE;
  return TRUE;
}

static RlxIrValue *
sum_square (Optimizer  *self,
            RlxIrValue *x)
{
  const gint64 axes[RLX_MAX_DIMS] = { 0, 1, 2, 3, 4, 5, 6, 7 };

  return x != NULL ? rlx_build_reduce_sum_square (&self->b, x, RLX_REDUCE_SUM_SQUARE_ATTRS (.axes = RLX_INTS (axes, x->type.n_dims))) : NULL;
}

/* All values, from gradients to assignments. With the lock. */
static void
compute (Optimizer *self,
         Counters  *counters,
         Slot      *slots,
         gsize      n_slots,
         RlxNode   *rate)
{
  const RlxOptimizerSettings *settings = self->settings;
  RlxBuilder *b = &self->b;
  RlxIrValue *good = NULL, *due = NULL, *norm = NULL, *one = number (self, 1.0), *zero = number (self, 0.0);

  self->rate = rate != NULL ? rlx_build_as (b, rlx_build_shaped (b, rlx_node_get_value (rate), NULL, 0), RLX_DATA_TYPE_F32)
                            : number (self, settings->learning_rate);
  if (counters->run != NULL)
    {
      RlxIrValue *run = rlx_build_add (b, rlx_node_get_value (counters->run), one);

      due = rlx_build_greater_equal (b, run, number (self, settings->accumulate));
      assign (self, counters->run, rlx_build_where (b, due, zero, run), TRUE);
    }
  for (gsize i = 0; i < n_slots; i++)
    {
      Slot *slot = &slots[i];
      double share = 1.0 / settings->accumulate;

      if (counters->scale != NULL)
        slot->gradient = rlx_build_div (b, slot->gradient, rlx_node_get_value (counters->scale));
      if (slot->sum != NULL)
        {
          slot->gradient = rlx_build_add (b, rlx_node_get_value (slot->sum), rlx_build_mul (b, slot->gradient, number (self, share)));
          assign (self, slot->sum, rlx_build_where (b, due, zero, slot->gradient), TRUE);
        }
      if (settings->clip_value > 0)
        slot->gradient = rlx_build_clamp (b, slot->gradient, RLX_CLAMP_ATTRS (.minimum = -settings->clip_value, .maximum = settings->clip_value));
      if (settings->clip_norm > 0 || counters->skipped != NULL)
        norm = norm == NULL ? sum_square (self, slot->gradient) : rlx_build_add (b, norm, sum_square (self, slot->gradient));
    }
  if (counters->skipped != NULL)
    {
      RlxIrValue *skipped = rlx_node_get_value (counters->skipped);

      /* Neither infinite nor NaN. */
      good = rlx_build_less (b, norm, number (self, INFINITY));
      skipped = rlx_build_where (b, good, skipped, rlx_build_add (b, skipped, one));
      assign (self, counters->skipped, due != NULL ? rlx_build_where (b, due, skipped, rlx_node_get_value (counters->skipped)) : skipped, TRUE);
    }
  if (settings->clip_norm > 0)
    {
      RlxIrValue *factor = rlx_build_add (b, rlx_build_sqrt (b, norm), number (self, NORM_EPSILON));

      factor = rlx_build_min (b, rlx_build_div (b, number (self, settings->clip_norm), factor), one);
      for (gsize i = 0; i < n_slots; i++)
        slots[i].gradient = rlx_build_mul (b, slots[i].gradient, factor);
    }
  if (counters->scale != NULL)
    {
      RlxIrValue *scale = rlx_node_get_value (counters->scale), *since = rlx_build_add (b, rlx_node_get_value (counters->since), one);
      RlxIrValue *enough = rlx_build_greater_equal (b, since, number (self, STEPS_TO_DOUBLE)), *wider, *next;

      wider = rlx_build_where (b, enough, rlx_build_min (b, rlx_build_mul (b, scale, number (self, 2.0)), number (self, MAX_SCALE)), scale);
      next = rlx_build_where (b, good, wider, rlx_build_max (b, rlx_build_mul (b, scale, number (self, 0.5)), one));
      since = rlx_build_where (b, good, rlx_build_where (b, enough, zero, since), zero);
      assign (self, counters->scale, due != NULL ? rlx_build_where (b, due, next, scale) : next, TRUE);
      assign (self, counters->since, due != NULL ? rlx_build_where (b, due, since, rlx_node_get_value (counters->since)) : since, TRUE);
    }

  if (counters->step != NULL)
    {
      self->step = rlx_build_add (b, rlx_node_get_value (counters->step), one);
      assign (self, counters->step, self->step, FALSE);
    }
  if (counters->shares != NULL)
    {
      const float rest[2] = { (float) (1 - settings->beta1), (float) (1 - settings->beta2) };
      RlxIrValue *shares = rlx_node_get_value (counters->shares);
      RlxIrValue *new = rlx_build_constant (b, rlx_tensor_new_from_floats ((const gint64[]) { 2 }, 1, rest, 2, NULL));

      new = rlx_build_add (b, shares, rlx_build_mul (b, rlx_build_sub (b, one, shares), new));
      self->share1 = rlx_build_part (b, new, 0, 0, 1);
      self->share2 = rlx_build_part (b, new, 0, 1, 2);
      assign (self, counters->shares, new, FALSE);
    }
  for (gsize i = 0; i < n_slots; i++)
    {
      RlxIrValue *p = rlx_node_get_value (slots[i].parameter);

      if (settings->algorithm == RLX_OPTIMIZER_SGD)
        update_sgd (self, &slots[i], p, slots[i].gradient);
      else if (settings->algorithm == RLX_OPTIMIZER_LION)
        update_lion (self, &slots[i], p, slots[i].gradient);
      else if (settings->algorithm == RLX_OPTIMIZER_ADAFACTOR)
        update_adafactor (self, &slots[i], p, slots[i].gradient);
      else
        update_adam (self, &slots[i], p, slots[i].gradient);
    }

  /* A run that makes no step leaves everything as it was. */
  if (due != NULL)
    good = good != NULL ? rlx_build_logical_and (b, good, due) : due;
  for (guint i = 0; good != NULL && i < self->assignments->len; i++)
    {
      Assignment *assignment = &g_array_index (self->assignments, Assignment, i);

      if (!assignment->always)
        assignment->value = rlx_build_where (b, good, assignment->value, rlx_node_get_value (assignment->state));
    }
}

static gboolean
check_parameters (RlxNode **parameters,
                  gsize     n_parameters,
                  RlxNode  *rate,
                  GError  **error)
{
  for (gsize i = 0; i < n_parameters; i++)
    {
      const RlxIrValue *value = rlx_node_get_value (parameters[i]);
      g_autofree char *name = rlx_ir_value_describe (value);
      g_autofree char *type = rlx_type_to_string (&value->type);

      if (value->node->op->id != RLX_OP_ID_STATE)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "optimize: %s is not a state; parameters must be states of the graph", name);
          return FALSE;
        }
      if (value->type.data_type != RLX_DATA_TYPE_F32)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE,
                       "optimize: %s is %s; parameters must be f32, and can be converted where they are used", name, type);
          return FALSE;
        }
    }
  if (rate != NULL && rlx_type_n_elements (&rlx_node_get_value (rate)->type) != 1)
    {
      g_autofree char *type = rlx_type_to_string (&rlx_node_get_value (rate)->type);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE, "optimize: the learning rate is %s; it must have one element", type);
      return FALSE;
    }
  return TRUE;
}

/* Checks that there are gradients before anything is added, so that a failure leaves the graph unchanged. With the
   lock. */
static gboolean
check_gradients (RlxGraph *self,
                 RlxNode  *loss,
                 RlxNode **parameters,
                 gsize     n_parameters,
                 GError  **error)
{
  const RlxLoss losses = { .value = rlx_node_get_value (loss) };
  g_autofree RlxIrValue **values = g_new0 (RlxIrValue *, n_parameters + 1), **gradients = g_new0 (RlxIrValue *, n_parameters + 1);
  guint n_nodes = self->ir->nodes->len, n_values = self->ir->n_values;
  GError *failure = NULL;

  for (gsize i = 0; i < n_parameters; i++)
    values[i] = rlx_node_get_value (parameters[i]);
  if (!rlx_ir_add_gradients (self->ir, &losses, 1, values, (guint) n_parameters, FALSE, FALSE, gradients, &failure))
    {
      rlx_graph_fail (self, failure, error);
      return FALSE;
    }
  g_ptr_array_set_size (self->ir->nodes, (int) n_nodes);
  self->ir->n_values = n_values;
  return TRUE;
}

/* The gradients, of the loss or of the scaled one. */
static gboolean
differentiate (Optimizer *self,
               Counters  *counters,
               RlxNode   *loss,
               RlxNode  **parameters,
               Slot      *slots,
               gsize      n_slots,
               GError   **error)
{
  g_autoptr(RlxGradientOptions) options = rlx_gradient_options_new ();
  g_autofree RlxNode **gradients = NULL;

  rlx_gradient_options_set_recompute (options, self->settings->recompute);
  if (counters->scale != NULL)
    {
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (loss, &n_dims);
      RlxNode *seed = rlx_node_reshape (counters->scale, shape, n_dims, error);

      if (rlx_node_get_data_type (loss) != RLX_DATA_TYPE_F32)
        seed = rlx_node_cast (seed, rlx_node_get_data_type (loss), error);
      if (seed == NULL)
        return FALSE;
      rlx_gradient_options_set_seed (options, seed);
    }
  gradients = rlx_graph_gradient (self->graph, loss, parameters, n_slots, options, NULL, error);
  for (gsize i = 0; gradients != NULL && i < n_slots; i++)
    slots[i].gradient = rlx_node_get_value (gradients[i]);
  return gradients != NULL;
}

/**
 * rlx_graph_optimize:
 * @self: a graph
 * @loss: the node to minimise, which has one element
 * @parameters: (array length=n_parameters): the states to train, of type `f32`
 * @n_parameters: the number of @parameters
 * @options: (nullable): options, or %NULL for the defaults
 * @error: where to store an error
 *
 * Adds a training step: each run of the graph updates the parameters using the gradients
 * of the loss.
 *
 * Parameters are states, so they stay on the device. So do the values that the algorithm
 * keeps for each parameter, in states named after it, such as `weight.mean`, and those that
 * it keeps for all, such as `optimizer.step`. They can be read, saved and written back, to
 * resume training with the same bits.
 *
 * Everything else in the graph sees the parameters as they were before the step.
 *
 * ```python
 * w = g.state('w', numpy.zeros((784, 10), 'f'))
 * loss = (x @ w).softmax_cross_entropy(labels)
 * g.optimize(loss, [w], algorithm='adam', learning_rate=1e-3)
 * g.output('loss', loss)
 * ```
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_graph_optimize (RlxGraph            *self,
                    RlxNode             *loss,
                    RlxNode            **parameters,
                    gsize                n_parameters,
                    RlxOptimizerOptions *options,
                    GError             **error)
{
  g_autoptr(RlxOptimizerOptions) given = NULL;
  g_autoptr(GArray) assignments = g_array_new (FALSE, FALSE, sizeof (Assignment));
  g_autofree Slot *slots = g_new0 (Slot, n_parameters + 1);
  Optimizer optimizer = { .graph = self, .assignments = assignments };
  Counters counters = { NULL };
  RlxNode *rate;

  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (loss == NULL || RLX_IS_NODE (loss), FALSE);
  g_return_val_if_fail (parameters != NULL || n_parameters == 0, FALSE);
  g_return_val_if_fail (options == NULL || RLX_IS_OPTIMIZER_OPTIONS (options), FALSE);

  given = options != NULL ? g_object_ref (options) : rlx_optimizer_options_new ();
  rate = rlx_optimizer_options_get_rate (given);
  optimizer.settings = rlx_optimizer_options_peek (given);
  {
    g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);

    for (gsize i = 0; i <= n_parameters; i++)
      {
        RlxNode *node = i < n_parameters ? parameters[i] : loss;

        if (node == NULL)
          {
            rlx_graph_note_null (self, "optimize", i < n_parameters ? "parameter" : "loss");
            return FALSE;
          }
        if (!rlx_graph_check_owner (self, "optimize", i < n_parameters ? "parameter" : "loss", node, error))
          return FALSE;
        slots[i].parameter = node;
      }
    if ((rate != NULL && !rlx_graph_check_owner (self, "optimize", "rate", rate, error)) ||
        !check_parameters (parameters, n_parameters, rate, error) ||
        !check_gradients (self, loss, parameters, n_parameters, error))
      return FALSE;
  }
  if (!counters_init (&counters, &optimizer, error))
    return FALSE;
  for (gsize i = 0; i < n_parameters; i++)
    if (!slot_init (&slots[i], &optimizer, error))
      return FALSE;
  if (!differentiate (&optimizer, &counters, loss, parameters, slots, n_parameters, error))
    return FALSE;

  {
    g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);
    guint n_before = self->ir->nodes->len;

    optimizer.b.ir = self->ir;
    compute (&optimizer, &counters, slots, n_parameters, rate);
    for (guint i = n_before; i < self->ir->nodes->len; i++)
      {
        RlxIrNode *node = g_ptr_array_index (self->ir->nodes, i);

        node->origin = node->outputs[0].id;
        rlx_graph_add_nodes (self, node);
      }
    if (optimizer.b.error != NULL)
      {
        rlx_graph_fail (self, g_steal_pointer (&optimizer.b.error), error);
        return FALSE;
      }
    for (guint i = 0; i < assignments->len; i++)
      {
        Assignment *assignment = &g_array_index (assignments, Assignment, i);

        assignment->node = rlx_graph_get_node (self, assignment->value);
      }
  }
  for (guint i = 0; i < assignments->len; i++)
    {
      const Assignment *assignment = &g_array_index (assignments, Assignment, i);

      if (!rlx_graph_assign (self, assignment->state, assignment->node, error))
        return FALSE;
    }
  return TRUE;
}
