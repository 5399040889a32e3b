/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The gradient of every operator that has one, on the calls of the property tests. The
 * reference computes it in double precision from the nodes that the rule makes; that has
 * to agree with differences of what the reference says of the operator itself, and the
 * device with the reference.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Calls of an operator whose gradient is checked, and how many of these on the device; then the same for second order
 * and for samples. */
#define MAX_CALLS 10
#define MAX_DEVICE_CALLS 2
#define MAX_SECOND_CALLS 4
#define SAMPLE_CALLS 3
#define SAMPLE_DEVICE_CALLS 1
/* Larger ones take too long. */
#define MAX_ELEMENTS 4000
/* How many elements of each operand are changed at once. */
#define MAX_CHANGED 12
/* Differences are meaningless if the function has a kink between the points: of this many
 * directions most have to be right. */
#define DIRECTIONS 5
#define MAX_SPOILT 2
/* Operands are multiples of this, so that all points are exact. */
#define GRAIN 0x1p-20
#define STEP 0x1p-15

typedef struct
{
  const RlxOp *op;
  GRand *rand;
  RlxGraph *graph;
  RlxNode *inputs[MAX_OPERANDS];        /* those of the graph: not constant */
  RlxTensor *feeds[MAX_OPERANDS];
  gsize n_inputs;
  RlxNode *by[MAX_OPERANDS];            /* to differentiate with respect to: floats only */
  gsize by_input[MAX_OPERANDS];
  gsize n_by;
  GPtrArray *seeds;                     /* double *, for each result; NULL for integers */
  gsize n_results;
  gsize first;                          /* index of the first of its outputs */
  char *text;
} Case;

static gboolean
is_f32 (RlxTensor *tensor)
{
  return rlx_tensor_get_data_type (tensor) == RLX_DATA_TYPE_F32;
}

/* The same numbers, slightly rounded; NULL when one is not finite. */
static RlxTensor *
make_even (RlxTensor *tensor)
{
  gsize n, n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_autofree double *values = rlx_reference_decode (tensor, &n);
  g_autofree float *floats = g_new (float, n + 1);

  for (gsize i = 0; i < n; i++)
    {
      if (!(fabs (values[i]) < 100))
        return NULL;
      floats[i] = (float) (rint (values[i] / GRAIN) * GRAIN);
    }
  return rlx_tensor_new_from_floats (shape, n_dims, floats, n, NULL);
}

static void
case_clear (Case *self)
{
  for (gsize i = 0; i < self->n_inputs; i++)
    g_clear_object (&self->feeds[i]);
  g_clear_pointer (&self->seeds, g_ptr_array_unref);
  g_clear_object (&self->graph);
  g_clear_pointer (&self->text, g_free);
}

static double *
draw_seed (Case *self,
           gsize n)
{
  double *seed = g_new (double, n + 1);

  for (gsize k = 0; k < n; k++)
    seed[k] = (double) prop_pick (self->rand, -16, 16) / 16;
  return seed;
}

/* The call in a graph of its own, with all its results as outputs. FALSE if its operands
 * are unsuitable. */
static gboolean
case_init (Case *self,
           Call *call,
           RlxNode ***results)
{
  g_autoptr (GVariant) attributes = g_variant_ref_sink (g_variant_dict_end (call->attributes));
  g_autofree char *printed = g_variant_print (attributes, FALSE);
  g_autoptr (GString) text = g_string_new (call->op->name);
  g_autoptr (GError) error = NULL;
  RlxNode *nodes[MAX_OPERANDS] = { NULL, };

  self->op = call->op;
  self->rand = call->rand;
  self->graph = rlx_graph_new ();
  for (gsize i = 0; i < call->n_inputs; i++)
    {
      RlxTensor *tensor = call->inputs[i];
      g_autoptr (RlxTensor) even = NULL;
      g_autofree char *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, i);
      g_autofree char *type = NULL;
      const gint64 *shape;
      gsize n_dims;

      if (tensor == NULL)
        {
          g_string_append (text, " -");
          continue;
        }
      if (rlx_tensor_get_n_elements (tensor) > MAX_ELEMENTS)
        return FALSE;
      if (is_f32 (tensor))
        {
          g_autoptr (RlxTensor) tame = NULL;

          shape = rlx_tensor_get_shape (tensor, &n_dims);
          if (call->kinds[i] == PROP_WILD)
            tensor = tame = prop_tensor (self->rand, PROP_TAME, RLX_DATA_TYPE_F32, shape, n_dims);
          even = make_even (tensor);
          if (even == NULL)
            return FALSE;
          tensor = even;
        }
      shape = rlx_tensor_get_shape (tensor, &n_dims);
      type = prop_type_text (rlx_tensor_get_data_type (tensor), shape, n_dims);
      g_string_append_printf (text, " %s", type);
      if (call->constants >> i & 1)
        nodes[i] = rlx_graph_constant (self->graph, tensor, &error);
      else
        {
          nodes[i] = rlx_graph_input (self->graph, name, rlx_tensor_get_data_type (tensor), shape, n_dims, &error);
          if (is_f32 (tensor))
            {
              self->by[self->n_by] = nodes[i];
              self->by_input[self->n_by++] = self->n_inputs;
            }
          self->feeds[self->n_inputs++] = g_object_ref (tensor);
        }
      g_assert_no_error (error);
    }
  g_string_append_printf (text, " %s", printed);
  self->text = g_strdup (text->str);
  if (self->n_by == 0)
    return FALSE;
  /* With respect to nearest-element positions the slope is zero, or there is a jump. */
  if (strcmp (call->op->name, "grid_sample") == 0 && strstr (printed, "nearest") != NULL && !(call->constants & 1))
    self->n_by = 1;

  *results = rlx_graph_add_op (self->graph, call->op->name, nodes, call->n_inputs, attributes, &self->n_results, &error);
  if (error != NULL)
    {
      /* Rounded operands may be invalid. */
      g_test_message ("%s: %s", self->text, error->message);
      return FALSE;
    }
  self->seeds = g_ptr_array_new_with_free_func (g_free);
  for (gsize i = 0; i < self->n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%" G_GSIZE_FORMAT, i);
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape ((*results)[i], &n_dims);
      double *seed = NULL;

      rlx_graph_output (self->graph, name, (*results)[i], &error);
      g_assert_no_error (error);
      if (rlx_node_get_data_type ((*results)[i]) == RLX_DATA_TYPE_F32)
        {
          gsize n = prop_count (shape, n_dims);

          seed = draw_seed (self, n);
        }
      g_ptr_array_add (self->seeds, seed);
    }
  return TRUE;
}

/* Ignores elements that are not finite: outside a function's domain there is no slope. */
static void
leave_out (Case      *self,
           GPtrArray *values)
{
  for (gsize i = 0; i < self->n_results; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (values, self->first + i);
      double *seed = g_ptr_array_index (self->seeds, i);

      for (gsize k = 0; seed != NULL && k < value->n_elements; k++)
        if (!isfinite (value->values[k]))
          seed[k] = 0;
    }
}

static GPtrArray *
run_reference (Case *self)
{
  g_autoptr (GError) error = NULL;
  GPtrArray *values = rlx_reference_run (self->graph, self->feeds, self->n_inputs, NULL, NULL, 0, RLX_REFERENCE_KEEP, &error);

  if (values == NULL)
    g_test_message ("%s: %s", self->text, error->message);
  g_assert_no_error (error);
  return values;
}

/* Adds the gradients to the graph as outputs after the results, and stores them in *@gradients_out unless that is NULL. */
static gboolean
add_gradients (Case      *self,
               RlxNode  **results,
               RlxNode ***gradients_out)
{
  g_autoptr (RlxGradientOptions) options = rlx_gradient_options_new ();
  g_autoptr (GPtrArray) forward = run_reference (self);
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **gradients = NULL;
  RlxNode *loss = NULL;

  leave_out (self, forward);
  rlx_gradient_options_set_allow_unused (options, TRUE);
  for (gsize i = 0; i < self->n_results; i++)
    {
      const double *seed = g_ptr_array_index (self->seeds, i);
      g_autoptr (RlxTensor) tensor = NULL;
      g_autofree float *floats = NULL;
      RlxNode *node;
      gsize n_dims, n;
      const gint64 *shape = rlx_node_get_shape (results[i], &n_dims);

      if (seed == NULL)
        continue;
      n = prop_count (shape, n_dims);
      floats = g_new (float, n + 1);
      for (gsize k = 0; k < n; k++)
        floats[k] = (float) seed[k];
      tensor = rlx_tensor_new_from_floats (shape, n_dims, floats, n, &error);
      g_assert_no_error (error);
      node = rlx_graph_constant (self->graph, tensor, &error);
      g_assert_no_error (error);
      if (loss == NULL)
        {
          loss = results[i];
          rlx_gradient_options_set_seed (options, node);
        }
      else
        rlx_gradient_options_add_loss (options, results[i], node);
    }
  if (loss == NULL)
    return FALSE;

  gradients = rlx_graph_gradient (self->graph, loss, self->by, self->n_by, options, NULL, &error);
  if (g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_UNSUPPORTED) && self->n_by > 1)
    {
      /* A rule may support only the first operand, and say why. */
      g_test_message ("%s: %s", self->text, error->message);
      g_clear_error (&error);
      self->n_by = 1;
      gradients = rlx_graph_gradient (self->graph, loss, self->by, self->n_by, options, NULL, &error);
    }
  if (gradients == NULL)
    {
      g_test_message ("%s: %s", self->text, error->message);
      g_test_fail ();
      return FALSE;
    }
  for (gsize i = 0; i < self->n_by; i++)
    {
      g_autofree char *name = g_strdup_printf ("d%" G_GSIZE_FORMAT, self->first + self->n_results + i);

      g_assert_cmpint (rlx_node_get_data_type (gradients[i]), ==, RLX_DATA_TYPE_F32);
      rlx_graph_output (self->graph, name, gradients[i], &error);
      g_assert_no_error (error);
    }
  if (gradients_out != NULL)
    *gradients_out = g_steal_pointer (&gradients);
  return TRUE;
}

/* From here on checks the gradients of the gradients. */
static gboolean
raise_order (Case    *self,
             RlxNode **gradients)
{
  self->first += self->n_results;
  self->n_results = self->n_by;
  g_ptr_array_set_size (self->seeds, 0);
  for (gsize i = 0; i < self->n_by; i++)
    {
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (gradients[i], &n_dims);

      g_ptr_array_add (self->seeds, draw_seed (self, prop_count (shape, n_dims)));
    }
  return add_gradients (self, gradients, NULL);
}

/* Σ seed · result, and the magnitude of its terms. */
static double
evaluate (Case   *self,
          double *size)
{
  g_autoptr (GPtrArray) values = run_reference (self);
  double sum = 0;

  for (gsize i = 0; i < self->n_results; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (values, self->first + i);
      const double *seed = g_ptr_array_index (self->seeds, i);

      for (gsize k = 0; seed != NULL && k < value->n_elements; k++)
        {
          if (seed[k] == 0)
            continue;
          sum += seed[k] * value->values[k];
          *size += fabs (seed[k] * value->values[k]);
        }
    }
  return sum;
}

/* The changes of elements: for each operand, which ones and by how much. */
typedef struct
{
  gsize at[MAX_CHANGED];
  double by[MAX_CHANGED];
  guint n;
} Direction;

static double
evaluate_at (Case            *self,
             const Direction *directions,
             double           distance,
             double          *size)
{
  RlxTensor *before[MAX_OPERANDS];
  double result;

  memcpy (before, self->feeds, sizeof before);
  for (gsize i = 0; i < self->n_by; i++)
    {
      gsize n, n_dims;
      RlxTensor **feed = &self->feeds[self->by_input[i]];
      const gint64 *shape = rlx_tensor_get_shape (*feed, &n_dims);
      g_autofree double *values = rlx_reference_decode (*feed, &n);
      g_autofree float *floats = g_new (float, n + 1);

      for (guint k = 0; k < directions[i].n; k++)
        values[directions[i].at[k]] += distance * directions[i].by[k];
      for (gsize k = 0; k < n; k++)
        floats[k] = (float) values[k];
      *feed = rlx_tensor_new_from_floats (shape, n_dims, floats, n, NULL);
    }
  result = evaluate (self, size);
  for (gsize i = 0; i < self->n_inputs; i++)
    if (self->feeds[i] != before[i])
      {
        g_object_unref (self->feeds[i]);
        self->feeds[i] = before[i];
      }
  return result;
}

/* One direction: whether the slope along it agrees with the gradients. */
static gboolean
check_direction (Case      *self,
                 GPtrArray *gradients,
                 char     **why)
{
  Direction directions[MAX_OPERANDS] = { 0 };
  double expected = 0, terms = 0, size = 0;
  double f[4], coarse, fine, tolerance;

  for (gsize i = 0; i < self->n_by; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (gradients, self->first + self->n_results + i);

      for (guint k = 0; value->n_elements > 0 && k < MIN (MAX_CHANGED, value->n_elements); k++)
        {
          gsize at = (gsize) prop_pick (self->rand, 0, (gint64) value->n_elements - 1);
          gboolean taken = FALSE;

          for (guint j = 0; j < directions[i].n; j++)
            taken = taken || directions[i].at[j] == at;
          if (taken || !isfinite (value->values[at]))
            continue;
          directions[i].at[directions[i].n] = at;
          directions[i].by[directions[i].n] = (double) prop_pick (self->rand, -4, 4) / 4;
          expected += value->values[at] * directions[i].by[directions[i].n];
          terms += fabs (value->values[at]);
          directions[i].n++;
        }
    }

  f[0] = evaluate_at (self, directions, -2 * STEP, &size);
  f[1] = evaluate_at (self, directions, -STEP, &size);
  f[2] = evaluate_at (self, directions, STEP, &size);
  f[3] = evaluate_at (self, directions, 2 * STEP, &size);
  coarse = (f[3] - f[0]) / (4 * STEP);
  fine = (f[2] - f[1]) / (2 * STEP);
  /* The third derivative's share in the fine one is a fourth of that in the coarse one. */
  fine += (fine - coarse) / 3;
  /* Constants in a rule are rounded to f32; sums of doubles; the fifth derivative, estimated
   * from the third. */
  tolerance = 1e-6 * terms + 1e-14 * size / STEP + 0.05 * fabs (fine - coarse) + 1e-9;
  if (fabs (fine - expected) <= tolerance)
    return TRUE;

  g_free (*why);
  *why = g_strdup_printf ("the slope is %.9g, by the gradient %.9g (tolerance %.3g)", fine, expected, tolerance);
  return FALSE;
}

static void
check_device (Case      *self,
              GPtrArray *gradients)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = rlx_device_compile (rlx_test_device (), self->graph, NULL, NULL, &error);
  g_auto (RlxTensors) outputs = NULL;

  if (executable != NULL)
    outputs = rlx_executable_run (executable, self->feeds, self->n_inputs, NULL, NULL, &error);
  if (error != NULL)
    g_test_message ("%s: %s", self->text, error->message);
  g_assert_no_error (error);
  for (gsize i = 0; i < self->n_by; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (gradients, self->first + self->n_results + i);
      RlxReferenceCheck check;

      /* Subnormal intermediate results may be flushed to zero, whatever they are multiplied by later. */
      for (gsize k = 0; k < value->n_elements; k++)
        value->bounds[k] += 0x1p-110;
      if (!rlx_reference_value_check (value, outputs[self->first + self->n_results + i], &check))
        {
          g_test_message ("%s: gradient %" G_GSIZE_FORMAT ", element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " are wrong",
                          self->text, i, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong, value->n_elements);
          g_test_fail ();
        }
    }
}

static gboolean
is_flat (const RlxOp *op)
{
  return (op->flags & RLX_OP_FLAT) != 0;
}

/* Whether the gradient intentionally differs from that of the function. */
static gboolean
is_straight_through (const RlxOp *op)
{
  return strcmp (op->name, "fake_quantize") == 0;
}

static void
check_case (Case    *self,
            gboolean on_device)
{
  g_autoptr (GPtrArray) gradients = run_reference (self);
  g_autofree char *why = NULL;
  guint n_spoilt = 0;

  /* For step functions the slope is arbitrary. */
  for (guint i = 0; i < DIRECTIONS && !is_flat (self->op) && !is_straight_through (self->op); i++)
    n_spoilt += !check_direction (self, gradients, &why);
  if (n_spoilt > MAX_SPOILT)
    {
      g_test_message ("%s: %s", self->text, why);
      g_test_fail ();
    }
  for (gsize i = 0; i < self->n_by && is_flat (self->op); i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (gradients, self->first + self->n_results + i);

      for (gsize k = 0; k < value->n_elements; k++)
        g_assert_cmpfloat (value->values[k], ==, 0.0);
    }
  if (on_device && rlx_test_device () != NULL)
    check_device (self, gradients);
}

static guint
test_calls (const RlxOp *op,
            RlxDataType  data_type,
            guint        order)
{
  Generator generator = find_generator (op);
  g_autofree char *what = g_strdup_printf (order == 1 ? "gradient of %s" : "second gradient of %s", op->name);
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (what));
  const guint max_calls = !rlx_test_is_thorough () ? SAMPLE_CALLS : order == 1 ? MAX_CALLS : MAX_SECOND_CALLS;
  /* Kernels have tests of their own. */
  const guint max_device_calls = rlx_test_is_thorough () ? MAX_DEVICE_CALLS : op->id % 3 == 0 ? SAMPLE_DEVICE_CALLS : 0;
  guint n_calls = 0;
  gboolean more = TRUE;

  g_assert_nonnull (generator);
  for (guint variant = 0; more && n_calls < max_calls; variant++)
    {
      g_autoptr (GVariantDict) attributes = g_variant_dict_new (NULL);
      g_autofree RlxNode **results = NULL, **gradients = NULL;
      Call call = { .op = op, .data_type = data_type, .rand = rand, .variant = variant, .attributes = attributes };
      Case self = { 0 };

      more = generator (&call);
      if (more && case_init (&self, &call, &results) && add_gradients (&self, results, &gradients) &&
          (order == 1 || raise_order (&self, gradients)))
        check_case (&self, n_calls++ < max_device_calls);
      case_clear (&self);
      for (gsize i = 0; i < call.n_inputs; i++)
        g_clear_object (&call.inputs[i]);
    }
  return n_calls;
}

static void
test_op (gconstpointer data)
{
  const RlxOp *op = data;
  guint n_calls = test_calls (op, RLX_DATA_TYPE_F32, 1);

  /* The type that calls are drawn for may be that of an integer operand. */
  for (guint type = RLX_DATA_TYPE_I32; n_calls == 0 && type <= RLX_DATA_TYPE_U8; type++)
    if ((op->inputs[0].types >> type & 1) != 0)
      n_calls = test_calls (op, (RlxDataType) type, 1);
  if (n_calls == 0)
    {
      g_test_message ("%s: no call has a gradient", op->name);
      g_test_fail ();
    }
}

/* Gradients can be differentiated themselves: where that is in common use, the result is right. */
static void
test_second (gconstpointer data)
{
  g_assert_cmpuint (test_calls (data, RLX_DATA_TYPE_F32, 2), >, 0);
}

/* ---- the call itself --------------------------------------------------------------- */

static RlxNode *
differentiate (RlxGraph *graph,
               RlxNode  *loss,
               RlxNode  *by)
{
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **gradients = rlx_graph_gradient (graph, loss, &by, 1, NULL, NULL, &error);

  g_assert_no_error (error);
  return gradients[0];
}

static RlxGraph *
make_graph (RlxNode **x)
{
  RlxGraph *graph = rlx_graph_new ();

  *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (3), NULL);
  g_assert_nonnull (*x);
  return graph;
}

static void
assert_refused (RlxGraph           *graph,
                RlxNode            *loss,
                RlxNode            *by,
                RlxGradientOptions *options,
                RlxGraphError       code,
                const char         *words)
{
  g_autoptr (GError) error = NULL;
  guint n_before = g_list_model_get_n_items (G_LIST_MODEL (graph));
  gsize n_gradients = 7;

  g_assert_null (rlx_graph_gradient (graph, loss, &by, 1, options, &n_gradients, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, (int) code);
  if (strstr (error->message, words) == NULL)
    g_test_message ("%s", error->message);
  g_assert_nonnull (strstr (error->message, words));
  g_assert_cmpuint (n_gradients, ==, 0);
  /* The graph is usable after a reported error. */
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, n_before);
  g_assert_true (rlx_graph_check (graph, NULL));
}

static void
test_errors (void)
{
  RlxNode *x, *alone, *index, *sum, *states;
  g_autoptr (RlxGraph) graph = make_graph (&x);
  g_autoptr (RlxGraph) other = NULL;
  g_autoptr (RlxGradientOptions) options = rlx_gradient_options_new ();
  RlxNode *foreign;

  other = make_graph (&foreign);
  alone = rlx_graph_input (graph, "alone", RLX_DATA_TYPE_F32, NULL, 0, NULL);
  index = rlx_node_arg_max (x, 0, NULL, NULL);
  sum = rlx_node_reduce_sum (x, (const gint64[]) { 0 }, 1, NULL, NULL);
  g_assert_nonnull (sum);

  assert_refused (graph, x, x, NULL, RLX_GRAPH_ERROR_SHAPE, "f32[3]; it must have one element");
  assert_refused (graph, index, x, NULL, RLX_GRAPH_ERROR_DATA_TYPE, "only floats have gradients");
  assert_refused (graph, sum, index, NULL, RLX_GRAPH_ERROR_DATA_TYPE, "only floats have gradients");
  assert_refused (graph, sum, alone, NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "does not depend on %1 “alone”");
  assert_refused (graph, sum, foreign, NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "belongs to another graph");
  rlx_gradient_options_set_seed (options, x);
  assert_refused (graph, sum, x, options, RLX_GRAPH_ERROR_SHAPE, "the seed is f32[3], the loss");

  /* An operator without a gradient, on the path to the loss. */
  states = rlx_node_reshape (x, (const gint64[]) { 1, 1, 3 }, 3, NULL);
  states = rlx_node_recurrence_states (states, states, NULL, NULL, NULL, NULL, NULL, NULL);
  states = rlx_node_exp (states, NULL);
  sum = rlx_node_reduce_sum (states, (const gint64[]) { 0, 1, 2, 3 }, 4, NULL, NULL);
  g_assert_nonnull (sum);
  assert_refused (graph, sum, x, NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "recurrence_states has none: ");
  assert_refused (graph, sum, x, NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "recurrence_states → ");
  assert_refused (graph, sum, x, NULL, RLX_GRAPH_ERROR_UNSUPPORTED, " exp → ");
}

/* Every operator has a rule, or a stated reason for having none. */
static void
test_table (void)
{
  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];

      if ((op->gradient != NULL || is_flat (op)) != (op->no_gradient == NULL))
        {
          g_test_message ("%s", op->name);
          g_test_fail ();
        }
    }
}

/* Rounded to 4 levels on each side; 9 is out of range. */
static void
test_straight_through (void)
{
  static const double dx[] = { 1, 1, 0 }, dscale = 0.0 + (3 - 2.8) + 3;
  RlxNode *x, *scale, *y;
  g_autoptr (RlxGraph) graph = make_graph (&x);
  g_autoptr (RlxFakeQuantizeOptions) options = rlx_fake_quantize_options_new ();
  g_autoptr (RlxTensor) feed = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3), RLX_FLOAT_ARRAY (0.5, 1.4, 9), NULL);
  g_autoptr (RlxTensor) half = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 0.5, NULL);
  g_autoptr (GPtrArray) values = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **gradients = NULL;

  scale = rlx_graph_input (graph, "scale", RLX_DATA_TYPE_F32, NULL, 0, NULL);
  rlx_fake_quantize_options_set_bits (options, 3);
  y = rlx_node_reduce_sum (rlx_node_fake_quantize (x, scale, NULL, options, NULL), (const gint64[]) { 0 }, 1, NULL, NULL);
  gradients = rlx_graph_gradient (graph, y, (RlxNode *[]) { x, scale }, 2, NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "dx", gradients[0], &error);
  rlx_graph_output (graph, "dscale", gradients[1], &error);
  g_assert_no_error (error);
  values = rlx_reference_run (graph, (RlxTensor *[]) { feed, half }, 2, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (guint k = 0; k < 3; k++)
    g_assert_cmpfloat (((RlxReferenceValue *) g_ptr_array_index (values, 0))->values[k], ==, dx[k]);
  g_assert_cmpfloat_with_epsilon (((RlxReferenceValue *) g_ptr_array_index (values, 1))->values[0], dscale, 1e-6);
}

/* x⁴: 4x³, 12x², 24x, 24. */
static void
test_orders (void)
{
  static const double slopes[][3] = { { 4, -32, 4.0 / 8 }, { 12, 48, 3 }, { 24, -48, 12 }, { 24, 24, 24 } };
  RlxNode *x;
  g_autoptr (RlxGraph) graph = make_graph (&x);
  g_autoptr (RlxTensor) feed = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3), RLX_FLOAT_ARRAY (1, -2, 0.5), NULL);
  g_autoptr (GPtrArray) values = NULL;
  g_autoptr (GError) error = NULL;
  RlxNode *square = rlx_node_mul (x, x, NULL);
  RlxNode *y = rlx_node_mul (square, square, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (slopes); i++)
    {
      g_autofree char *name = g_strdup_printf ("d%u", i);

      y = differentiate (graph, rlx_node_reduce_sum (y, (const gint64[]) { 0 }, 1, NULL, NULL), x);
      rlx_graph_output (graph, name, y, &error);
      g_assert_no_error (error);
    }
  values = rlx_reference_run (graph, &feed, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (slopes); i++)
    for (guint k = 0; k < 3; k++)
      g_assert_cmpfloat_with_epsilon (((RlxReferenceValue *) g_ptr_array_index (values, i))->values[k], slopes[i][k], 1e-12);
}

/* tanh: 1 - t², and its derivatives. */
static void
test_orders_on_device (void)
{
  RlxNode *x, *y;
  g_autoptr (RlxGraph) graph = make_graph (&x);
  g_autoptr (RlxTensor) feed = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3), RLX_FLOAT_ARRAY (1, -2, 0.5), NULL);
  g_autoptr (GPtrArray) values = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  g_auto (RlxTensors) outputs = NULL;
  g_autoptr (GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  y = rlx_node_tanh (x, NULL);
  for (guint i = 0; i < 4; i++)
    {
      g_autofree char *name = g_strdup_printf ("d%u", i);

      y = differentiate (graph, rlx_node_reduce_sum (y, (const gint64[]) { 0 }, 1, NULL, NULL), x);
      rlx_graph_output (graph, name, y, &error);
      g_assert_no_error (error);
    }
  values = rlx_reference_run (graph, &feed, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &feed, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (values, i);
      RlxReferenceCheck check;

      for (guint k = 0; k < 3; k++)
        {
          double t = tanh (((const double[]) { 1, -2, 0.5 })[k]), d1 = 1 - t * t, d2 = -2 * t * d1;
          const double slopes[] = { d1, d2, -2 * d1 * d1 - 2 * t * d2, -4 * d1 * d2 + 8 * t * d1 * d1 + 4 * t * t * d2 };

          g_assert_cmpfloat_with_epsilon (value->values[k], slopes[i], 1e-12);
        }
      g_assert_true (rlx_reference_value_check (value, outputs[i], &check));
    }
}

/* @depth layers with residual connections, whose weights are states or parameters; the gradients of a loss with respect to the
 * first weight and x are outputs. */
static RlxGraph *
make_deep (guint    depth,
           gint64   rows,
           gint64   width,
           gboolean learnt,
           gboolean recompute)
{
  RlxGraph *graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (rows, width), NULL), *h = x, *by[2] = { x };
  g_autoptr (RlxGradientOptions) options = rlx_gradient_options_new ();
  g_autofree RlxNode **gradients = NULL;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < depth; i++)
    {
      g_autofree char *name = g_strdup_printf ("w%u", i), *type = g_strdup_printf ("f32[%d,%d]", (int) width, (int) width);
      g_autoptr (RlxTensor) initial = rlx_test_random (type, -1, 1, i + 1);
      RlxNode *w = learnt ? rlx_graph_state (graph, name, initial, NULL)
                          : rlx_graph_parameter (graph, name, RLX_DATA_TYPE_F32, RLX_INT_ARRAY (width, width), NULL), *inner;

      by[1] = i == 0 ? w : by[1];
      inner = rlx_node_tanh (rlx_node_matmul (h, w, NULL, NULL), NULL);
      inner = rlx_node_sin (rlx_node_matmul (inner, w, NULL, NULL), NULL);
      inner = rlx_node_matmul (inner, w, NULL, NULL);
      h = rlx_node_add (h, inner, NULL);
    }
  h = rlx_node_reduce_sum_square (h, (const gint64[]) { 0, 1 }, 2, NULL, NULL);
  rlx_gradient_options_set_recompute (options, recompute);
  gradients = rlx_graph_gradient (graph, h, by, 2, options, NULL, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "loss", h, &error);
  rlx_graph_output (graph, "dx", gradients[0], &error);
  rlx_graph_output (graph, "dw", gradients[1], &error);
  g_assert_no_error (error);
  return graph;
}

/* The peak of live memory in the plan, and the peak if everything were kept. */
static guint64
get_alive (RlxExecutable *executable,
           const char    *key)
{
  g_autoptr (GVariant) plan = rlx_executable_dup_plan (executable);
  guint64 bytes = 0;

  g_variant_lookup (plan, key, "t", &bytes);
  return bytes;
}

static guint64
get_memory (guint    depth,
            gboolean recompute)
{
  g_autoptr (RlxGraph) graph = make_deep (depth, 64, 64, FALSE, recompute);
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);

  g_assert_no_error (error);
  g_test_message ("%u layers, %s: %" G_GUINT64_FORMAT " bytes", depth, recompute ? "computed again" : "kept",
                  rlx_executable_get_arena_size (executable));
  return rlx_executable_get_arena_size (executable);
}

/* Recomputed values are the same except for the order of sums, and memory grows with the square root of the depth. */
static void
test_recompute (void)
{
  g_autoptr (RlxGraph) kept = make_deep (5, 2, 3, TRUE, FALSE), again = make_deep (5, 2, 3, TRUE, TRUE);
  g_autoptr (RlxTensor) feed = rlx_test_random ("f32[2,3]", -1, 1, 9);
  g_autoptr (GPtrArray) expected = NULL, values = NULL;
  g_autoptr (RlxExecutable) executable = NULL, other = NULL;
  g_auto (RlxTensors) outputs = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *text = NULL;
  guint64 small, large;

  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (again)), >, g_list_model_get_n_items (G_LIST_MODEL (kept)));
  expected = rlx_reference_run (kept, &feed, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  values = rlx_reference_run (again, &feed, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < expected->len; i++)
    {
      const RlxReferenceValue *a = g_ptr_array_index (expected, i), *b = g_ptr_array_index (values, i);

      for (gsize k = 0; k < a->n_elements; k++)
        g_assert_cmpfloat_with_epsilon (a->values[k], b->values[k], 1e-12 * fabs (a->values[k]));
    }
  if (rlx_test_device () == NULL)
    return;

  executable = rlx_device_compile (rlx_test_device (), again, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &feed, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < expected->len; i++)
    {
      RlxReferenceCheck check;

      g_assert_true (rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check));
    }

  small = get_memory (9, TRUE);
  large = get_memory (36, TRUE);
  /* Four times the depth takes twice the memory, except that segments consist of whole layers, and their number is whole:
   * one more kept value, and the three values of one more layer in a segment. */
  g_assert_cmpuint (large, <=, 2 * small + 4 * (64 * 64 * sizeof (float)));
  g_assert_cmpuint (large, <=, get_memory (36, FALSE) / 2);

  /* The plan has both numbers: the second is what a graph without recomputation needs. */
  other = rlx_device_compile (rlx_test_device (), kept, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get_alive (other, "kept-bytes"), ==, 0);
  g_assert_cmpuint (get_alive (executable, "kept-bytes"), ==, get_alive (other, "live-bytes"));
  text = rlx_executable_describe_plan (executable);
  g_assert_nonnull (strstr (text, " if nothing were computed again), weights "));
}

static void
test_stop (void)
{
  RlxNode *x, *y;
  g_autoptr (RlxGraph) graph = make_graph (&x);
  g_autoptr (RlxTensor) feed = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3), RLX_FLOAT_ARRAY (1, -2, 0.5), NULL);
  g_autoptr (GPtrArray) values = NULL;
  g_autoptr (GError) error = NULL;

  y = rlx_node_mul (x, rlx_node_stop_gradient (x, NULL), NULL);
  y = differentiate (graph, rlx_node_reduce_sum (y, (const gint64[]) { 0 }, 1, NULL, NULL), x);
  rlx_graph_output (graph, "d", y, &error);
  g_assert_no_error (error);
  values = rlx_reference_run (graph, &feed, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (guint k = 0; k < 3; k++)
    g_assert_cmpfloat (((RlxReferenceValue *) g_ptr_array_index (values, 0))->values[k], ==, ((const double[]) { 1, -2, 0.5 })[k]);
}

static const char *const twice[] = {
  "add", "mul", "div", "pow", "exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid", "silu", "gelu",
  "gelu_tanh", "softplus", "erf", "elu", "mish", "matmul", "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm",
  "instance_norm", "batch_norm", "conv", "conv_transpose", "reduce_sum", "reduce_mean", "softmax_cross_entropy", "mse_loss",
};

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];
      g_autofree char *path = g_strdup_printf ("/gradients/%s", op->name);

      if (op->gradient != NULL || is_flat (op))
        g_test_add_data_func (path, op, test_op);
      for (guint k = 0; k < G_N_ELEMENTS (twice); k++)
        if (strcmp (op->name, twice[k]) == 0)
          {
            g_autofree char *second = g_strdup_printf ("/second/%s", op->name);

            g_test_add_data_func (second, op, test_second);
          }
    }

  g_test_add_func ("/gradient/errors", test_errors);
  g_test_add_func ("/gradient/table", test_table);
  g_test_add_func ("/gradient/straight-through", test_straight_through);
  g_test_add_func ("/gradient/orders", test_orders);
  g_test_add_func ("/gradient/orders-on-device", test_orders_on_device);
  g_test_add_func ("/gradient/recompute", test_recompute);
  g_test_add_func ("/gradient/stop", test_stop);

  return g_test_run ();
}
