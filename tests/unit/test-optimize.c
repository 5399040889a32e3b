/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Steps of training against the formulas in double precision.
 */
#include "config.h"

#include "rlx-test-util.h"

#include <math.h>

#include "rlx-device-private.h"
#include "util/rlx-debug-private.h"

#define N 6
#define STEPS 5

/* The parameter is [2, 3], the loss Σ (p - target)² / 2 · weight, so the gradient is (p - target) · weight. */
static const double first_p[N] = { 1, -2, 0.5, 0.25, 3, -1 };
static const double target[N] = { 0, 1, 2, -1, 0.5, 0 };

typedef struct
{
  double p[N], m[N], v[N], row[2], column[3];
  guint step;
} Plain;

static double
mean_square (const double *x)
{
  double sum = 0;

  for (guint i = 0; i < N; i++)
    sum += x[i] * x[i] / N;
  return sum;
}

static void
plain_step (Plain               *self,
            RlxOptimizerOptions *options,
            double               weight)
{
  RlxOptimizer algorithm = rlx_optimizer_options_get_algorithm (options);
  double rate = rlx_optimizer_options_get_learning_rate (options), decay = rlx_optimizer_options_get_weight_decay (options);
  double momentum = rlx_optimizer_options_get_momentum (options), b1 = rlx_optimizer_options_get_beta1 (options);
  double b2 = rlx_optimizer_options_get_beta2 (options), clip = rlx_optimizer_options_get_clip_norm (options);
  double g[N], way[N], norm = 0, t = ++self->step, share = pow (t, -0.8), mean, size;

  for (guint i = 0; i < N; i++)
    {
      g[i] = (self->p[i] - target[i]) * weight;
      if (rlx_optimizer_options_get_clip_value (options) > 0)
        g[i] = CLAMP (g[i], -rlx_optimizer_options_get_clip_value (options), rlx_optimizer_options_get_clip_value (options));
      norm += g[i] * g[i];
    }
  for (guint i = 0; i < N && clip > 0; i++)
    g[i] *= fmin (1, clip / (sqrt (norm) + 1e-6));
  for (guint i = 0; i < 2; i++)
    self->row[i] += ((g[3 * i] * g[3 * i] + g[3 * i + 1] * g[3 * i + 1] + g[3 * i + 2] * g[3 * i + 2]) / 3 - self->row[i]) * share;
  for (guint i = 0; i < 3; i++)
    self->column[i] += ((g[i] * g[i] + g[i + 3] * g[i + 3]) / 2 - self->column[i]) * share;
  mean = (self->row[0] + self->row[1]) / 2;

  for (guint i = 0; i < N; i++)
    {
      if (algorithm == RLX_OPTIMIZER_SGD || algorithm == RLX_OPTIMIZER_ADAM)
        g[i] += decay * self->p[i];
      switch (algorithm)
        {
        case RLX_OPTIMIZER_SGD:
          self->m[i] = momentum * self->m[i] + g[i];
          way[i] = rlx_optimizer_options_get_nesterov (options) ? g[i] + momentum * self->m[i] : self->m[i];
          break;
        case RLX_OPTIMIZER_LION:
          {
            double mixed = b1 * self->m[i] + (1 - b1) * g[i];

            way[i] = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
            self->m[i] = b2 * self->m[i] + (1 - b2) * g[i];
            break;
          }
        case RLX_OPTIMIZER_ADAFACTOR:
          way[i] = g[i] / sqrt (self->row[i / 3] * self->column[i % 3] / mean);
          break;
        case RLX_OPTIMIZER_ADAM:
        case RLX_OPTIMIZER_ADAMW:
        default:
          self->m[i] = b1 * self->m[i] + (1 - b1) * g[i];
          self->v[i] = b2 * self->v[i] + (1 - b2) * g[i] * g[i];
          way[i] = self->m[i] / (1 - pow (b1, t)) / (sqrt (self->v[i] / (1 - pow (b2, t))) + 1e-8);
        }
    }
  size = algorithm == RLX_OPTIMIZER_ADAFACTOR
           ? fmin (rate, 1 / sqrt (t)) * fmax (1e-3, sqrt (mean_square (self->p))) / fmax (1, sqrt (mean_square (way))) : rate;
  for (guint i = 0; i < N; i++)
    {
      if (algorithm != RLX_OPTIMIZER_SGD && algorithm != RLX_OPTIMIZER_ADAM)
        self->p[i] -= rate * decay * self->p[i];
      self->p[i] -= size * way[i];
    }
}

static RlxTensor *
floats (const double *values)
{
  float f[N];

  for (guint i = 0; i < N; i++)
    f[i] = (float) values[i];
  return rlx_tensor_new_from_floats (RLX_INT_ARRAY (2, 3), f, N, NULL);
}

static RlxExecutable *
make_training (RlxOptimizerOptions *options)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) initial = floats (first_p);
  g_autoptr (RlxTensor) wanted = floats (target);
  g_autoptr (RlxMseLossOptions) sum = rlx_mse_loss_options_new ();
  g_autoptr (GError) error = NULL;
  RlxExecutable *executable;
  RlxNode *p, *weight, *loss;

  rlx_mse_loss_options_set_reduction (sum, RLX_REDUCTION_SUM);
  p = rlx_graph_state (graph, "p", initial, &error);
  weight = rlx_graph_input (graph, "weight", RLX_DATA_TYPE_F32, NULL, 0, &error);
  loss = rlx_node_mse_loss (p, rlx_graph_constant (graph, wanted, &error), sum, &error);
  loss = rlx_node_mul (loss, rlx_node_mul (weight, rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 0.5, &error), &error), &error);
  g_assert_no_error (error);
  rlx_graph_optimize (graph, loss, &p, 1, options, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "loss", loss, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static void
train (RlxExecutable *executable,
       double         weight)
{
  g_autoptr (RlxTensor) feed = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, weight, NULL);
  g_autoptr (GError) error = NULL;
  g_auto (RlxTensors) outputs = rlx_executable_run (executable, &feed, 1, NULL, NULL, &error);

  g_assert_no_error (error);
}

static double
read_state (RlxExecutable *executable,
            const char    *name,
            gsize          at)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) value = rlx_executable_read_state (executable, name, NULL, &error);

  g_assert_no_error (error);
  return rlx_tensor_get_value (value, at);
}

static void
assert_like (RlxExecutable *executable,
             const Plain   *plain,
             const char    *what)
{
  for (guint i = 0; i < N; i++)
    {
      double got = read_state (executable, "p", i);

      /* Each step takes a few roundings of numbers up to 4, as do the means in the denominator. */
      if (!(fabs (got - plain->p[i]) <= 3e-6 * plain->step))
        {
          g_test_message ("%s: element %u is %.9g, not %.9g", what, i, got, plain->p[i]);
          g_test_fail ();
        }
    }
}

static void
test_algorithms (void)
{
  for (guint variant = 0; variant < 9; variant++)
    {
      g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();
      g_autoptr (RlxExecutable) executable = NULL;
      g_autofree char *what = g_strdup_printf ("variant %u", variant);
      Plain plain = { .step = 0 };

      memcpy (plain.p, first_p, sizeof first_p);
      rlx_optimizer_options_set_learning_rate (options, 0.125);
      rlx_optimizer_options_set_algorithm (options, variant < 3 ? RLX_OPTIMIZER_SGD : variant < 5 ? RLX_OPTIMIZER_ADAM :
                                                    variant == 5 ? RLX_OPTIMIZER_ADAMW : variant == 6 ? RLX_OPTIMIZER_LION :
                                                    variant == 7 ? RLX_OPTIMIZER_ADAFACTOR : RLX_OPTIMIZER_SGD);
      rlx_optimizer_options_set_momentum (options, variant == 0 ? 0 : 0.75);
      rlx_optimizer_options_set_nesterov (options, variant == 2);
      rlx_optimizer_options_set_weight_decay (options, variant == 0 ? 0 : 0.125);
      rlx_optimizer_options_set_clip_norm (options, variant == 4 ? 0.5 : 0);
      rlx_optimizer_options_set_clip_value (options, variant == 8 ? 0.5 : 0);
      executable = make_training (options);
      for (guint i = 0; i < STEPS; i++)
        {
          train (executable, 1 + 0.25 * i);
          plain_step (&plain, options, 1 + 0.25 * i);
        }
      assert_like (executable, &plain, what);
    }
}

/* An infinity changes only the count, and the scale. */
static void
test_skip (void)
{
  g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();
  g_autoptr (RlxExecutable) executable = NULL;
  Plain plain = { .step = 0 };

  memcpy (plain.p, first_p, sizeof first_p);
  rlx_optimizer_options_set_scale_loss (options, TRUE);
  rlx_optimizer_options_set_learning_rate (options, 0.125);
  executable = make_training (options);
  train (executable, 1);
  plain_step (&plain, options, 1);
  g_assert_cmpfloat (read_state (executable, "optimizer.scale", 0), ==, 65536);
  train (executable, INFINITY);
  train (executable, NAN);
  assert_like (executable, &plain, "after an infinity");
  g_assert_cmpfloat (read_state (executable, "optimizer.skipped", 0), ==, 2);
  g_assert_cmpfloat (read_state (executable, "optimizer.scale", 0), ==, 16384);
  train (executable, 0.5);
  plain_step (&plain, options, 0.5);
  assert_like (executable, &plain, "after that");
}

/* Three runs make one step with their mean. */
static void
test_accumulate (void)
{
  g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();
  g_autoptr (RlxExecutable) executable = NULL;
  Plain plain = { .step = 0 };

  memcpy (plain.p, first_p, sizeof first_p);
  rlx_optimizer_options_set_accumulate (options, 3);
  rlx_optimizer_options_set_learning_rate (options, 0.125);
  executable = make_training (options);
  train (executable, 1);
  train (executable, 2);
  assert_like (executable, &plain, "before a step");
  train (executable, 6);
  plain_step (&plain, options, 3);
  assert_like (executable, &plain, "after a step");
  for (guint i = 0; i < 3; i++)
    train (executable, 1);
  plain_step (&plain, options, 1);
  assert_like (executable, &plain, "after two steps");
}

/* States that are read and written back continue with the same bits. */
static void
test_resume (void)
{
  g_autoptr (RlxExecutable) one = make_training (NULL);
  g_autoptr (RlxExecutable) other = make_training (NULL);
  GListModel *states;

  for (guint i = 0; i < 3; i++)
    train (one, 1);
  states = rlx_executable_get_states (one);
  g_assert_cmpuint (g_list_model_get_n_items (states), ==, 4);
  for (guint i = 0; i < g_list_model_get_n_items (states); i++)
    {
      g_autoptr (RlxPort) port = g_list_model_get_item (states, i);
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxTensor) value = rlx_executable_read_state (one, rlx_port_get_name (port), NULL, &error);

      g_assert_no_error (error);
      rlx_executable_write_state (other, rlx_port_get_name (port), value, NULL, &error);
      g_assert_no_error (error);
    }
  train (one, 2);
  train (other, 2);
  for (guint i = 0; i < N; i++)
    g_assert_cmpfloat (read_state (one, "p", i), ==, read_state (other, "p", i));
}

/* ---- several parameters -------------------------------------------------------------- */

#define N_PARAMETERS 4
/* The index of another parameter, whose gradient is transposed. */
#define TURNED N_PARAMETERS

static const gint64 sizes[N_PARAMETERS + 1] = { 6, 70, 1, 300, 70 };

/* For the parameters from @first up to @end: Σ (x · p)², summed over all of them and three rows of x. */
static RlxExecutable *
make_several (guint                first,
              guint                end,
              RlxOptimizerOptions *options)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  RlxNode *parameters[N_PARAMETERS + 1], *loss = NULL;
  RlxExecutable *executable;

  for (guint i = first; i < end; i++)
    {
      g_autofree char *name = g_strdup_printf ("p%u", i), *type = g_strdup_printf ("f32[%d]", (int) sizes[i]);
      g_autofree char *row_type = g_strdup_printf ("f32[3, %d]", (int) sizes[i]);
      g_autoptr (RlxTensor) initial = rlx_test_random (i == TURNED ? "f32[7, 10]" : type, -1, 1, i);
      g_autoptr (RlxTensor) x = rlx_test_random (i == TURNED ? "f32[3, 10, 7]" : row_type, -1, 1, i + 9);
      RlxNode *sum;

      parameters[i] = rlx_graph_state (graph, name, initial, &error);
      sum = i == TURNED ? rlx_node_transpose (parameters[i], (const gint64[]) { 1, 0 }, 2, &error) : parameters[i];
      sum = rlx_node_mul (rlx_graph_constant (graph, x, &error), sum, &error);
      sum = rlx_node_reduce_sum_square (sum, (const gint64[]) { 0, 1, 2 }, i == TURNED ? 3 : 2, NULL, &error);
      loss = loss == NULL ? sum : rlx_node_add (loss, sum, &error);
      g_assert_no_error (error);
    }
  rlx_graph_optimize (graph, loss, parameters + first, end - first, options, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "loss", loss, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static void
run_once (RlxExecutable *executable)
{
  g_autoptr (GError) error = NULL;
  g_auto (RlxTensors) outputs = rlx_executable_run (executable, NULL, 0, NULL, NULL, &error);

  g_assert_no_error (error);
}

/* A single step updates all of them, with the same bits as one by one. */
static void
test_together (void)
{
  static const RlxOptimizer algorithms[] = { RLX_OPTIMIZER_SGD, RLX_OPTIMIZER_ADAMW, RLX_OPTIMIZER_LION };

  for (guint a = 0; a < G_N_ELEMENTS (algorithms); a++)
    {
      g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();
      g_autoptr (RlxExecutable) all = NULL, three = NULL;

      rlx_optimizer_options_set_algorithm (options, algorithms[a]);
      rlx_optimizer_options_set_momentum (options, 0.75);
      rlx_optimizer_options_set_accumulate (options, a == 0 ? 2 : 1);
      rlx_optimizer_options_set_skip_not_finite (options, a == 2);
      all = make_several (0, N_PARAMETERS + 1, options);
      for (guint i = 0; i < 4; i++)
        run_once (all);
      for (guint k = 0; k < N_PARAMETERS + 1; k++)
        {
          g_autoptr (RlxExecutable) alone = make_several (k, k + 1, options);
          g_autofree char *name = g_strdup_printf ("p%u", k);

          for (guint i = 0; i < 4; i++)
            run_once (alone);
          for (gint64 i = 0; i < sizes[k]; i++)
            g_assert_cmpfloat (read_state (all, name, i), ==, read_state (alone, name, i));
        }
      /* another parameter takes two steps of the loss, and two of the gradient */
      three = make_several (0, 3, options);
      g_object_unref (all);
      all = make_several (0, N_PARAMETERS, options);
      if ((rlx_debug_get_flags () & (RLX_DEBUG_NO_FUSE | RLX_DEBUG_NO_ALIAS)) == 0)
        g_assert_cmpuint (rlx_executable_get_n_dispatches (all) - rlx_executable_get_n_dispatches (three), ==, a == 2 ? 5 : 4);
    }
}

/* A run uploads its inputs and reads the loss back; the trained parameters stay on the device. */
static void
test_transfers (void)
{
  const guint n_runs = 5;
  g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();
  g_autoptr (RlxExecutable) executable = NULL;
  RlxGpu *gpu = rlx_device_get_gpu (rlx_test_device ());
  RlxGpuCounters before, after;

  rlx_optimizer_options_set_algorithm (options, RLX_OPTIMIZER_ADAMW);
  executable = make_training (options);
  train (executable, 1);
  rlx_gpu_get_counters (gpu, &before);
  for (guint i = 0; i < n_runs; i++)
    train (executable, 1);
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (after.uploads - before.uploads, ==, n_runs);
  g_assert_cmpuint (after.uploaded_bytes - before.uploaded_bytes, ==, n_runs * sizeof (float));
  g_assert_cmpuint (after.downloads - before.downloads, ==, n_runs);
  g_assert_cmpuint (after.downloaded_bytes - before.downloaded_bytes, ==, n_runs * sizeof (float));
  g_assert_cmpuint (after.dispatches - before.dispatches, ==, n_runs * rlx_executable_get_n_dispatches (executable));
  g_assert_cmpuint (after.buffers, ==, before.buffers);

  g_assert_cmpfloat (read_state (executable, "p", 0), !=, first_p[0]);
  rlx_gpu_get_counters (gpu, &before);
  g_assert_cmpuint (before.downloaded_bytes - after.downloaded_bytes, >=, N * sizeof (float));
}

/* Executables share states that are stored together. */
static void
test_share (void)
{
  g_autoptr (RlxExecutable) one = make_several (0, N_PARAMETERS, NULL), other = make_several (0, N_PARAMETERS, NULL);
  g_autoptr (RlxExecutable) reader = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxState) first = rlx_executable_dup_state (one, "p0", &error), second = rlx_executable_dup_state (one, "p1", &error);
  g_autoptr (RlxState) again = rlx_executable_dup_state (one, "p1", &error), its_own = NULL;
  g_auto (RlxTensors) outputs = { NULL };
  RlxNode *p;

  g_assert_true (again == second);
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *name = g_strdup_printf ("s%u", i), *type = g_strdup_printf ("f32[%d]", (int) sizes[i]);
      g_autoptr (RlxTensor) initial = rlx_test_random (type, 5, 6, 1);

      p = rlx_graph_state (graph, name, initial, &error);
      rlx_graph_output (graph, name, rlx_node_neg (p, &error), &error);
      g_assert_no_error (error);
    }
  reader = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  its_own = rlx_executable_dup_state (reader, "s1", &error);
  g_assert_true (rlx_executable_bind_state (reader, "s0", first, NULL, &error));
  g_assert_true (rlx_executable_bind_state (reader, "s1", second, NULL, &error));
  g_assert_no_error (error);

  run_once (one);
  outputs = rlx_executable_run (reader, NULL, 0, NULL, NULL, &error);
  g_assert_no_error (error);
  for (guint k = 0; k < 2; k++)
    for (gint64 i = 0; i < sizes[k]; i++)
      g_assert_cmpfloat (rlx_tensor_get_value (outputs[k], i), ==, -read_state (one, k == 0 ? "p0" : "p1", i));
  g_assert_cmpfloat (read_state (reader, "s1", 69), ==, read_state (one, "p1", 69));

  /* A state stored alone can be bound; one stored with others needs all of them. */
  if ((rlx_debug_get_flags () & (RLX_DEBUG_NO_FUSE | RLX_DEBUG_NO_ALIAS)) == 0)
    {
      g_assert_false (rlx_executable_bind_state (one, "p1", its_own, NULL, &error));
      g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, "“p1” is stored together with others"));
      g_clear_error (&error);
      g_assert_true (rlx_executable_bind_state (other, "p1", second, NULL, &error));
      g_assert_no_error (error);
      g_assert_cmpfloat (read_state (other, "p3", 299), ==, read_state (one, "p3", 299));
      run_once (other);
      g_assert_cmpfloat (read_state (other, "p3", 299), ==, read_state (one, "p3", 299));
    }
}

static void
test_errors (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) initial = floats (first_p);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (2, 3), NULL);
  RlxNode *p = rlx_graph_state (graph, "p", initial, NULL), *loss, *whole, *alone;
  g_autoptr (RlxTensor) whole_numbers = rlx_test_random ("i32[2]", 0, 9, 1);
  g_autoptr (RlxOptimizerOptions) options = rlx_optimizer_options_new ();

  g_assert_false (rlx_graph_optimize (graph, p, &x, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "“x” is not a state"));
  g_clear_error (&error);
  g_assert_false (rlx_graph_optimize (graph, p, &p, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "it must have one element"));
  g_clear_error (&error);

  /* Integers cannot be trained; nor can what the loss does not depend on. */
  loss = rlx_node_reduce_sum_square (p, (const gint64[]) { 0, 1 }, 2, NULL, NULL);
  whole = rlx_graph_state (graph, "whole", whole_numbers, NULL);
  g_assert_nonnull (whole);
  g_assert_false (rlx_graph_optimize (graph, loss, &whole, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE);
  g_assert_nonnull (strstr (error->message, "“whole” is i32[2]"));
  g_clear_error (&error);
  alone = rlx_graph_state (graph, "alone", initial, NULL);
  g_assert_false (rlx_graph_optimize (graph, loss, (RlxNode *[]) { p, alone }, 2, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "does not depend on"));
  g_assert_nonnull (strstr (error->message, "“alone”"));
  g_clear_error (&error);
  rlx_optimizer_options_set_rate (options, x);
  g_assert_false (rlx_graph_optimize (graph, loss, &p, 1, options, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "the learning rate is f32[2, 3]"));
  g_clear_error (&error);

  /* None of this left anything behind. */
  rlx_optimizer_options_set_rate (options, NULL);
  g_assert_true (rlx_graph_optimize (graph, loss, &p, 1, options, &error));
  g_assert_no_error (error);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/optimize/errors", test_errors);
  if (rlx_test_device () != NULL)
    {
      g_test_add_func ("/optimize/algorithms", test_algorithms);
      g_test_add_func ("/optimize/skip", test_skip);
      g_test_add_func ("/optimize/accumulate", test_accumulate);
      g_test_add_func ("/optimize/resume", test_resume);
      g_test_add_func ("/optimize/together", test_together);
      g_test_add_func ("/optimize/share", test_share);
      g_test_add_func ("/optimize/transfers", test_transfers);
    }

  return g_test_run ();
}
