/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Random graphs of all operators. What the compiler does with them must not show:
 * fused or not, with memory used again or not, with constants computed once or not,
 * every result and every state is within the bounds of the reference in every run,
 * and where only addresses differ it has the same bits. The text form of a graph is
 * the same graph.
 *
 * Graph number i is drawn from the seed RLX_TEST_SEED + i; RLX_TEST_GRAPHS says how
 * many there are. Without, some run with all other tests, and more of them with
 * "-m slow".
 */
#include "config.h"

#include "rlx-prop-maker.h"
#include "util/rlx-debug-private.h"

#define N_GRAPHS 40
#define N_GRAPHS_SLOW 500
#define N_RUNS 3

typedef struct
{
  const char *name;
  RlxDebugFlags flags;
  gboolean parsed;      /* the graph after a round trip through text */
  gboolean same_bits;   /* as in the first one */
  guint every;          /* only some of the graphs: it takes long */
} Way;

static const Way ways[] = {
  { "as usual", 0, FALSE, TRUE, 1 },
  { "no-fuse,no-alias,no-fold", RLX_DEBUG_NO_FUSE | RLX_DEBUG_NO_ALIAS | RLX_DEBUG_NO_FOLD, TRUE, FALSE, 1 },
  { "no-alias", RLX_DEBUG_NO_ALIAS, FALSE, TRUE, 4 },
#define PASS(NAME, name) | RLX_DEBUG_NO_##NAME
  { "without optional passes", 0 RLX_OPTIONAL_PASSES (PASS), FALSE, FALSE, 4 },
#undef PASS
  { "no-fold", RLX_DEBUG_NO_FOLD, TRUE, FALSE, 4 },
  { "validate", RLX_DEBUG_VALIDATE, FALSE, TRUE, 4 },
};

/* Over all graphs: the number of elements checked, and of those with a bound too large to
 * be meaningful; the number of graphs with an operator. */
static gsize n_checked, n_vague, n_dispatches;
static GHashTable *n_seen;

G_GNUC_PRINTF (1, 2) static void
fail (const char *format,
      ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_test_message ("%s", text);
  g_test_fail ();
}

/* ---- expected results -------------------------------------------------------------- */

typedef struct
{
  GPtrArray *outputs[N_RUNS];   /* RlxReferenceValue */
  GHashTable *states;           /* RlxNode → RlxReferenceValue, after the last run */
} Expected;

static void
expected_clear (Expected *self)
{
  for (guint i = 0; i < N_RUNS; i++)
    g_clear_pointer (&self->outputs[i], g_ptr_array_unref);
  g_clear_pointer (&self->states, g_hash_table_unref);
}

/* The inputs of a run. Without states the first two are the same. */
static GPtrArray *
get_feeds (Maker *self,
           guint  run)
{
  return self->feeds[run == (self->states->len > 0 ? 1 : 2)];
}

static RlxTensor *
get_leaf_tensor (Maker      *self,
                 RlxNode    *node,
                 GPtrArray  *feeds,
                 guint      *next_feed)
{
  const char *op = rlx_node_get_op (node);

  if (g_str_equal (op, "input"))
    return g_ptr_array_index (feeds, (*next_feed)++);
  for (guint i = 0; g_str_equal (op, "parameter") && i < self->names->len; i++)
    if (g_str_equal (g_ptr_array_index (self->names, i), rlx_node_get_name (node)))
      return g_ptr_array_index (self->parameters, i);

  return rlx_node_get_tensor (node);
}

static void
compute_run (Maker    *self,
             guint     run,
             Expected *expected)
{
  g_autoptr (GHashTable) values = g_hash_table_new_full (NULL, NULL, NULL, rlx_reference_value_free);
  g_auto (GStrv) names = rlx_graph_dup_output_names (self->graph);
  GPtrArray *outputs = expected->outputs[run] = g_ptr_array_new_with_free_func (rlx_reference_value_free);
  GHashTable *states = g_hash_table_new_full (NULL, NULL, NULL, rlx_reference_value_free);
  guint next_feed = 0;

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (self->graph)); i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (G_LIST_MODEL (self->graph), i);
      const RlxOp *op = rlx_op_lookup (rlx_node_get_op (node));
      g_autoptr (GError) error = NULL;
      RlxReferenceValue *value;

      if (expected->states != NULL && g_hash_table_contains (expected->states, node))
        value = rlx_reference_value_new_state (g_hash_table_lookup (expected->states, node));
      else if (op->flags & RLX_OP_LEAF)
        value = rlx_reference_value_new_leaf (node, get_leaf_tensor (self, node, get_feeds (self, run), &next_feed), &error);
      else
        value = compute_value (self, values, node);
      g_assert_no_error (error);
      g_hash_table_insert (values, node, value);
    }

  for (guint i = 0; names[i] != NULL; i++)
    g_ptr_array_add (outputs, rlx_reference_value_new_state (g_hash_table_lookup (values, rlx_graph_get_output (self->graph, names[i]))));
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxNode *state = g_ptr_array_index (self->states, i), *value = g_hash_table_lookup (self->assigned, state);

      g_hash_table_insert (states, state, rlx_reference_value_new_state (g_hash_table_lookup (values, value != NULL ? value : state)));
    }
  g_clear_pointer (&expected->states, g_hash_table_unref);
  expected->states = states;
}

/* ---- running in all modes -------------------------------------------------------------------- */

static void
check_value (const Way               *way,
             const char              *what,
             guint                    number,
             guint                    run,
             const RlxReferenceValue *expected,
             RlxTensor               *got)
{
  RlxReferenceCheck check;

  if (!rlx_reference_value_check (expected, got, &check))
    fail ("%s: %s %u in run %u, element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " are wrong",
          way->name, what, number, run, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong, expected->n_elements);
  for (gsize i = 0; i < expected->n_elements; i++)
    {
      n_checked++;
      n_vague += expected->bounds[i] > 0.01 * (1 + fabs (expected->values[i]));
    }
}

static void
check_states (Maker         *self,
              const Way     *way,
              RlxExecutable *executable,
              Expected      *expected)
{
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxNode *state = g_ptr_array_index (self->states, i);
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxTensor) tensor = rlx_executable_read_state (executable, rlx_node_get_name (state), NULL, &error);

      if (tensor == NULL)
        fail ("%s: state %u cannot be read: %s", way->name, i, error->message);
      else
        check_value (way, "state", i, N_RUNS, g_hash_table_lookup (expected->states, state), tensor);
    }
}

/* The outputs of all runs in sequence; NULL after failing. */
static GPtrArray *
run_way (Maker     *self,
         const Way *way,
         RlxGraph  *graph,
         Expected  *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func (g_object_unref);
  RlxDebugFlags flags = rlx_debug_get_flags ();

  rlx_debug_set_flags (flags | way->flags);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  rlx_debug_set_flags (flags);
  if (executable == NULL ||
      (self->names->len > 0 &&
       !rlx_executable_set_parameters (executable, (const char *const *) self->names->pdata,
                                       (RlxTensor **) self->parameters->pdata, self->names->len, NULL, &error)))
    {
      fail ("%s: %s", way->name, error->message);
      return NULL;
    }
  n_dispatches += rlx_executable_get_n_dispatches (executable);

  for (guint run = 0; run < N_RUNS; run++)
    {
      GPtrArray *feeds = get_feeds (self, run);
      gsize n_outputs;
      g_autofree RlxTensor **outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, &n_outputs, NULL, &error);

      if (outputs == NULL)
        {
          fail ("%s: run %u: %s", way->name, run, error->message);
          return NULL;
        }
      g_assert_cmpuint (n_outputs, ==, expected->outputs[run]->len);
      for (gsize i = 0; i < n_outputs; i++)
        {
          g_ptr_array_add (all, outputs[i]);
          check_value (way, "output", (guint) i, run, g_ptr_array_index (expected->outputs[run], i), outputs[i]);
          if (run == 1 && self->states->len == 0 &&
              !g_bytes_equal (rlx_tensor_get_bytes (outputs[i]), rlx_tensor_get_bytes (g_ptr_array_index (all, i))))
            fail ("%s: output %" G_GSIZE_FORMAT " has other bits in the second run", way->name, i);
        }
    }
  check_states (self, way, executable, expected);

  return g_steal_pointer (&all);
}

/* ---- one graph --------------------------------------------------------------------------------- */

static guint32
get_number (const char *variable,
            guint32     otherwise)
{
  const char *text = g_getenv (variable);

  return text != NULL ? (guint32) g_ascii_strtoull (text, NULL, 10) : otherwise;
}

static void
count_ops (RlxGraph *graph)
{
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);
      const RlxOp *op = rlx_op_lookup (rlx_node_get_op (node));

      g_hash_table_insert (n_seen, (gpointer) op, GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (n_seen, op)) + 1));
    }
}

/* In all modes, or in those selected by this seed. */
static void
check_graph (Maker      *self,
             guint32     seed,
             gboolean    every,
             const char *text)
{
  g_autoptr (RlxGraph) parsed = NULL;
  g_autoptr (GPtrArray) first = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *again = NULL;
  Expected expected = { .states = NULL };

  parsed = rlx_graph_new_from_text (text, &error);
  again = parsed != NULL ? rlx_graph_to_text (parsed) : NULL;
  if (g_strcmp0 (text, again) != 0)
    fail ("the text form is not the graph's: %s", error != NULL ? error->message : "another one comes back");

  for (guint run = 0; run < N_RUNS; run++)
    compute_run (self, run, &expected);
  for (gsize i = 0; i < G_N_ELEMENTS (ways) && !g_test_failed (); i++)
    {
      g_autoptr (GPtrArray) outputs = NULL;

      if (!every && seed % ways[i].every != i % ways[i].every)
        continue;
      outputs = run_way (self, &ways[i], ways[i].parsed ? parsed : self->graph, &expected);
      for (guint j = 0; ways[i].same_bits && outputs != NULL && first != NULL && j < outputs->len; j++)
        if (!g_bytes_equal (rlx_tensor_get_bytes (g_ptr_array_index (first, j)), rlx_tensor_get_bytes (g_ptr_array_index (outputs, j))))
          fail ("%s: output %u in run %u has other bits than as usual", ways[i].name,
                j % expected.outputs[0]->len, j / expected.outputs[0]->len);
      if (i == 0)
        first = g_steal_pointer (&outputs);
    }
  expected_clear (&expected);
}

static void
test_graph (gconstpointer data)
{
  guint32 seed = get_number ("RLX_TEST_SEED", 0) + GPOINTER_TO_UINT (data);
  g_autofree char *text = NULL;
  Maker self;

  if (rlx_test_device () == NULL)
    return;

  maker_init (&self, seed);
  make_graph (&self);
  count_ops (self.graph);
  text = rlx_graph_to_text (self.graph);
  check_graph (&self, seed, FALSE, text);
  if (g_test_failed ())
    {
      g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
      const char *keys = g_getenv ("RLX_DEBUG");

      g_test_message ("To see this again: RLX_DEBUG=%s RLX_TEST_SEED=%u RLX_TEST_GRAPHS=1 %s", keys != NULL ? keys : "", seed, g_get_prgname ());
      for (gsize i = 0; lines[i] != NULL; i++)
        g_test_message ("%.200s", lines[i]);
    }
  maker_clear (&self);
}

/* ---- found by random graphs ----------------------------------------------------------------------- */

typedef struct
{
  const char *name;
  double least_bound;    /* the least error that the reference must allow for the first output */
  const char *graph;     /* one node per line, without inputs */
} Found;

static const Found founds[] = {
  /* In f16 it is infinite only if it is stored. */
  { "sine-of-overflow", INFINITY,
    "%0 = constant f16[1] [300]\n"
    "%1 = mul(%0, %0)\n"
    "%2 = sin(%1)\n"
    "output \"y\" %2\n" },
  /* So many times around the circle. */
  { "cosine-of-anything", 2,
    "%0 = constant f32[1] [15.6534]\n"
    "%1 = exp(%0)\n"
    "%2 = cos(%1)\n"
    "output \"y\" %2\n" },
  { "tangent-at-pole", INFINITY,
    "%0 = constant f32[1] [1.2533141]\n"
    "%1 = mul(%0, %0)\n"
    "%2 = tan(%1)\n"
    "output \"y\" %2\n" },
  { "reciprocal-at-pole", INFINITY,
    "%0 = constant f32[1] [1]\n"
    "%1 = exp(%0)\n"
    "%2 = constant f32[1] [2.7182817]\n"
    "%3 = sub(%1, %2)\n"
    "%4 = reciprocal(%3)\n"
    "output \"y\" %4\n" },
  /* The exponent is -1, or nearly. */
  { "power-of-negative-number", INFINITY,
    "%0 = constant f32[1] [-9]\n"
    "%1 = tanh(%0)\n"
    "%2 = pow(%0, %1)\n"
    "output \"y\" %2\n" },
  /* The operand is only known to be between -π/2 and 3π/2. */
  { "arc-cosine-of-much", INFINITY,
    "%0 = constant f32[1] [1e-40]\n"
    "%1 = constant f32[1] [0]\n"
    "%2 = atan2(%0, %1)\n"
    "%3 = acos(%2)\n"
    "output \"y\" %3\n" },
  { "sign-of-zero", INFINITY,
    "%0 = constant f32[1] [-inf]\n"
    "%1 = silu(%0)\n"
    "%2 = rsqrt(%1)\n"
    "output \"y\" %2\n" },
  { "difference-of-the-same", INFINITY,
    "%0 = constant f32[1] [inf]\n"
    "%1 = softplus(%0)\n"
    "%2 = softplus(%0)\n"
    "%3 = sub(%1, %2)\n"
    "output \"y\" %3\n" },
  /* A subnormal number may be flushed to zero. */
  { "rest-of-subnormal-number", INFINITY,
    "%0 = constant f32[1] [1e-39]\n"
    "%1 = constant f32[1] [3.7]\n"
    "%2 = mul(%0, %1)\n"
    "%3 = mod(%2, %2)\n"
    "output \"y\" %3\n" },
  { "subnormal-product", 6e-39,
    "%0 = constant f32[1] [1.2e-38]\n"
    "%1 = constant f32[1] [0.5]\n"
    "%2 = gated_residual(%0, %0, %1)\n"
    "output \"y\" %2\n" },
  /* The difference is 0, whatever it is multiplied by. */
  { "zero-times-nan", INFINITY,
    "%0 = constant f32[1] [-3]\n"
    "%1 = sub(%0, %0)\n"
    "%2 = sqrt(%0)\n"
    "%3 = mul(%1, %2)\n"
    "output \"y\" %3\n" },
  { "norm-of-nothing", INFINITY,
    "%0 = constant f32[1, 1] [-3]\n"
    "%1 = reshape(%0) {shape = [1]}\n"
    "%2 = batch_norm(%0, %1, %1, _, %1)\n"
    "output \"y\" %2\n" },
  /* The weight is unknown, and so is 0 times the weight. */
  { "zero-times-anything", INFINITY,
    "%0 = constant f32[1, 1] [1.2533141]\n"
    "%1 = mul(%0, %0)\n"
    "%2 = tan(%1)\n"
    "%3 = constant f32[1, 1] [0]\n"
    "%4 = rnn_cell(%3, %2, %0, %0)\n"
    "output \"y\" %4\n" },
  { "packed-zero-times-anything", INFINITY,
    "%0 = constant f32[1, 32] [1.2533141, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    "%1 = mul(%0, %0)\n"
    "%2 = tan(%1)\n"
    "%3 = constant u8[1, 18] [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
    "%4 = dequant_matmul(%2, %3) {type = q4-0}\n"
    "output \"y\" %4\n" },
  /* An overflowing product is infinite, and the other infinity makes it NaN. */
  { "infinity-beside-overflow", INFINITY,
    "%0 = constant f32[1, 2] [1e30, 1]\n"
    "%1 = constant f32[2, 1] [1e30, -inf]\n"
    "%2 = matmul(%0, %1)\n"
    "output \"y\" %2\n" },
  /* A padding value is no more accurate than its computation. */
  { "padded-with-a-result", 0,
    "%0 = constant f32[2] [1, 2]\n"
    "%1 = constant f32[] [0.3]\n"
    "%2 = exp(%1)\n"
    "%3 = sin(%2)\n"
    "%4 = pad(%0, %3) {before = [1], after = [1]}\n"
    "output \"y\" %4\n" },
  /* Limits out of the range of the type become those of the type. */
  { "limit-beyond-type", 0,
    "%0 = constant i8[3] [-100, 5, 100]\n"
    "%1 = add(%0, %0)\n"
    "%2 = clamp(%1) {minimum = 227.5, maximum = 300}\n"
    "output \"y\" %2\n" },
  /* Only constants of the graph itself are rejected; other indices are clamped to the axis. */
  { "index-that-becomes-constant", 0,
    "%0 = constant f32[3] [1, 2, 3]\n"
    "%1 = constant u8[] [70]\n"
    "%2 = identity(%1)\n"
    "%3 = gather(%0, %2) {axis = 0}\n"
    "output \"y\" %3\n" },
  /* The kernel uses a function of common/math.wgsl, which the operators fused into it need, too. */
  { "function-of-both", 0,
    "%0 = constant f32[1, 3] [3, -4, 0]\n"
    "%1 = lp_norm(%0)\n"
    "%2 = max(%1, %0)\n"
    "output \"y\" %2\n" },
  /* The operand may be 1, and the error of tanh there is larger than at 0. */
  { "error-at-an-end", 0.7615956,
    "%0 = constant f32[1] [-1e-7]\n"
    "%1 = sin(%0)\n"
    "%2 = ceil(%1)\n"
    "%3 = tanh(%2)\n"
    "output \"y\" %3\n" },
};

static void
test_found (gconstpointer data)
{
  const Found *found = data;
  g_autofree char *graph = g_strconcat ("rlx 1\n", found->graph, NULL), *text = NULL;
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  Maker self;

  if (rlx_test_device () == NULL)
    return;

  maker_init (&self, 0);
  g_object_unref (self.graph);
  self.graph = rlx_graph_new_from_text (graph, &error);
  g_assert_no_error (error);
  text = rlx_graph_to_text (self.graph);
  check_graph (&self, 0, TRUE, text);

  expected = rlx_reference_run (self.graph, NULL, 0, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (((RlxReferenceValue *) g_ptr_array_index (expected, 0))->bounds[0], >=, found->least_bound);
  maker_clear (&self);
}

/* Meaningless bounds would make the tests above meaningless, and so would graphs that
 * never use some operator. */
static void
test_all (gconstpointer data)
{
  guint n_graphs = GPOINTER_TO_UINT (data);

  if (rlx_test_device () == NULL || n_checked == 0)
    return;

  g_test_message ("%" G_GSIZE_FORMAT " dispatches; %" G_GSIZE_FORMAT " elements were checked, %" G_GSIZE_FORMAT " of them by a bound above 1%%",
                  n_dispatches, n_checked, n_vague);
  if (n_graphs >= N_GRAPHS)
    g_assert_cmpuint (n_vague, <, n_checked / 5);
  for (guint i = 0; i < rlx_n_ops && n_graphs >= N_GRAPHS_SLOW; i++)
    if (!(rlx_op_table[i]->flags & RLX_OP_INTERNAL) && !g_hash_table_contains (n_seen, rlx_op_table[i]))
      fail ("no graph has %s", rlx_op_table[i]->name);
}

int
main (int   argc,
      char *argv[])
{
  guint n_graphs;
  int result;

  g_test_init (&argc, &argv, NULL);

  n_seen = g_hash_table_new (NULL, NULL);
  n_graphs = get_number ("RLX_TEST_GRAPHS", g_test_slow () ? N_GRAPHS_SLOW : N_GRAPHS);
  for (guint i = 0; i < n_graphs; i++)
    {
      g_autofree char *path = g_strdup_printf ("/graphs/%u", get_number ("RLX_TEST_SEED", 0) + i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_graph);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (founds); i++)
    {
      g_autofree char *path = g_strconcat ("/graphs/found/", founds[i].name, NULL);

      g_test_add_data_func (path, &founds[i], test_found);
    }
  g_test_add_data_func ("/graphs/all", GUINT_TO_POINTER (n_graphs), test_all);

  result = g_test_run ();
  g_hash_table_unref (n_seen);
  return result;
}
