/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-trial-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-builder-private.h"
#include "ops/rlx-fused-private.h"
#include "rlx-graph-private.h"
#include "target/rlx-tuning-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

/* The largest number in any operand but the first of a sample. */
#define SMALL 7
/* The same in all operands, for problems whose sums may have any length. */
#define TINY 2

static int faults[RLX_N_FAMILIES];   /* atomic: bits by row */

void
rlx_trial_set_test (RlxFamily family,
                    guint32   wrong)
{
  g_atomic_int_set (&faults[family], (int) wrong);
}

/* ---- numbers -------------------------------------------------------------------------- */

/* Whole numbers in [-@most, @most], as far as the type has them. Their sums are exact, in
 * whatever order a variant adds up. */
static RlxTensor *
make_tensor (const RlxTensorType *type,
             gint64               most,
             guint32              seed,
             GError             **error)
{
  g_autofree guint8 *data = g_malloc0 (rlx_type_n_bytes (type) + 8);
  guint64 n = rlx_type_n_elements (type), highest;
  gint64 lowest;

  rlx_element_get_int_range (type->data_type, &lowest, &highest);
  lowest = MAX (lowest, -most);
  /* If integers are indices, none is negative. */
  if (rlx_data_type_get_bits (type->data_type) >= 32 && !rlx_data_type_is_float (type->data_type))
    lowest = 0;
  most = (gint64) MIN ((guint64) most, highest);
  for (guint64 i = 0; i < n; i++)
    {
      seed = seed * 1664525u + 1013904223u;
      rlx_element_set_int (type->data_type, data, i, (gint64) ((seed >> 8) % (guint64) (most - lowest + 1)) + lowest);
    }
  return rlx_tensor_new_from_data (type->data_type, type->shape, type->n_dims, data, rlx_type_n_bytes (type), error);
}

/* How much two results may differ. If the correct one only has whole numbers, not at all.
 * Otherwise variants round and add up differently, which changes the last digits; driver
 * bugs change the first. */
static double
get_tolerance (RlxTensor *right,
               gboolean   reduced)
{
  RlxDataType data_type = rlx_tensor_get_data_type (right);
  gconstpointer data = g_bytes_get_data (rlx_tensor_get_bytes (right), NULL);
  gsize n = (gsize) rlx_tensor_get_n_elements (right);
  gboolean whole = TRUE;
  double largest = 0.0;

  for (gsize i = 0; i < n; i++)
    {
      double value = rlx_element_get_double (data_type, data, i);

      if (!isfinite (value))
        continue;
      whole = whole && value == rint (value);
      largest = MAX (largest, fabs (value));
    }
  if (whole && largest < (data_type == RLX_DATA_TYPE_F16 ? 0x1p11 : 0x1p24))
    return 0.0;
  return largest * (reduced || data_type == RLX_DATA_TYPE_F16 ? 0x1p-7 : 0x1p-10);
}

/* @fault is added to the last element of @got. */
static gboolean
agrees (RlxTensor *got,
        RlxTensor *right,
        double     fault,
        gboolean   reduced)
{
  RlxDataType data_type = rlx_tensor_get_data_type (right);
  gsize n = (gsize) rlx_tensor_get_n_elements (right);
  gconstpointer a = g_bytes_get_data (rlx_tensor_get_bytes (got), NULL), b = g_bytes_get_data (rlx_tensor_get_bytes (right), NULL);
  double tolerance = get_tolerance (right, reduced);

  if (rlx_tensor_get_data_type (got) != data_type || (gsize) rlx_tensor_get_n_elements (got) != n)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      double x = rlx_element_get_double (data_type, a, i) + (i == n - 1 ? fault : 0.0), y = rlx_element_get_double (data_type, b, i);

      if (!(fabs (x - y) <= tolerance) && x != y && !(isnan (x) && isnan (y)))
        return FALSE;
    }
  return TRUE;
}

RlxTensor *
rlx_trial_multiply (RlxTrial *self,
                    GError  **error)
{
  RlxTensor *a = g_ptr_array_index (self->inputs, 0), *b = NULL;
  RlxTensorType type = { .data_type = rlx_tensor_get_data_type (a), .n_dims = 2 };
  g_autofree float *x = NULL, *w = NULL, *sums = NULL;
  g_autofree guint8 *data = NULL;
  gsize n_x, n_w, m, n, k;

  for (guint i = 0; b == NULL && i < self->ir->nodes->len; i++)
    b = ((const RlxIrNode *) g_ptr_array_index (self->ir->nodes, i))->data;
  type.shape[0] = rlx_tensor_get_shape (a, &n_x)[0];
  type.shape[1] = rlx_tensor_get_shape (b, &n_w)[1];
  x = rlx_tensor_to_floats (a, &n_x, error);
  w = x != NULL ? rlx_tensor_to_floats (b, &n_w, error) : NULL;
  if (w == NULL)
    return NULL;
  m = (gsize) type.shape[0];
  n = (gsize) type.shape[1];
  k = n_x / m;
  sums = g_new0 (float, m * n);
  for (gsize i = 0; i < m; i++)
    for (gsize j = 0; j < k; j++)
      for (gsize l = 0; l < n; l++)
        sums[i * n + l] += x[i * k + j] * w[j * n + l];
  data = g_malloc0 (rlx_type_n_bytes (&type));
  for (gsize i = 0; i < m * n; i++)
    rlx_element_set_int (type.data_type, data, i, (gint64) sums[i]);
  return rlx_tensor_new_from_data (type.data_type, type.shape, 2, data, rlx_type_n_bytes (&type), error);
}

/* ---- the operator ---------------------------------------------------------------------- */

/* Sets numbers for the inputs, and for the parameters, which become constants. */
static gboolean
add_numbers (RlxTrial *self,
             guint     most,
             guint     others,
             GError  **error)
{
  for (guint i = 0; i < self->ir->nodes->len; i++)
    {
      RlxIrNode *node = g_ptr_array_index (self->ir->nodes, i);
      gboolean is_input = rlx_ir_node_is (node, RLX_OP_ID_INPUT);
      RlxTensor *tensor;

      if (!is_input && !rlx_ir_node_is (node, RLX_OP_ID_PARAMETER))
        continue;
      tensor = make_tensor (&node->outputs[0].type, i == 0 ? most : others, i + 1, error);
      if (tensor == NULL)
        return FALSE;
      if (is_input)
        {
          g_ptr_array_add (self->inputs, tensor);
          continue;
        }
      node->op = &rlx_op_constant;
      node->data = tensor;
      g_clear_pointer (&node->name, g_free);
    }
  return TRUE;
}

/* The choice for @key or, if that is NULL, the one from the most variants of the table. */
static const RlxChoice *
find_choice (const RlxTrial *self,
             const RlxPlan  *plan,
             const char     *key)
{
  const RlxChoice *found = NULL;
  guint most = 0;

  for (guint i = 0; i < plan->choices->len; i++)
    {
      const RlxChoice *choice = g_ptr_array_index (plan->choices, i);
      guint n = 0;

      if (choice->table != self->table || choice->once || (key != NULL && !g_str_equal (choice->key, key)))
        continue;
      for (guint j = 0; j < self->table->n_variants; j++)
        n += choice->verdicts[j].fit != RLX_FIT_NO;
      if (n > most)
        {
          most = n;
          found = choice;
        }
    }
  return found;
}

static gboolean
find_problem (RlxTrial   *self,
              const char *key,
              GError    **error)
{
  g_autoptr(RlxPlan) plan = rlx_plan_make (self->ir, &self->target, self->cancellable, error);
  const RlxChoice *choice = plan != NULL ? find_choice (self, plan, key) : NULL;

  if (choice != NULL)
    {
      self->key = g_strdup (choice->key);
      memcpy (self->verdicts, choice->verdicts, sizeof self->verdicts);
    }
  return plan != NULL;
}

static void
init (RlxTrial          *self,
      RlxDevice         *device,
      const RlxTarget   *target,
      const RlxVariants *table,
      GCancellable      *cancellable)
{
  *self = (RlxTrial) {
    .device = device, .target = *target, .cancellable = cancellable, .table = table,
    .inputs = g_ptr_array_new_with_free_func (g_object_unref),
  };
}

gboolean
rlx_trial_init_for_sample (RlxTrial          *self,
                           RlxDevice         *device,
                           const RlxTarget   *target,
                           const RlxVariants *table,
                           const RlxSample   *sample,
                           GCancellable      *cancellable,
                           GError           **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (sample->text, error);

  init (self, device, target, table, cancellable);
  self->target.tuning = rlx_tuning_new ();
  self->ir = graph != NULL ? rlx_graph_copy_ir (graph, error) : NULL;
  if (self->ir == NULL)
    return FALSE;
  self->reduced = self->ir->precision >= RLX_PRECISION_REDUCED;
  return add_numbers (self, sample->most, MIN (SMALL, sample->most), error) && find_problem (self, NULL, error);
}

gboolean
rlx_trial_init_for_choice (RlxTrial        *self,
                           RlxDevice       *device,
                           const RlxTarget *target,
                           const RlxChoice *choice,
                           RlxPrecision     precision,
                           GCancellable    *cancellable,
                           GError         **error)
{
  const RlxIrNode *node = choice->node;
  guint n_inputs = rlx_ir_node_n_own_inputs (node);
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, n_inputs + 1);
  g_autoptr(GHashTable) copies = g_hash_table_new (NULL, NULL);
  RlxBuilder b = { 0 };
  RlxIrNode *copy;

  init (self, device, target, choice->table, cancellable);
  self->target.tuning = rlx_tuning_copy (target->tuning);
  b.ir = self->ir = rlx_ir_new ();
  self->reduced = precision >= RLX_PRECISION_REDUCED;
  self->ir->precision = precision;
  for (guint i = 0; i < n_inputs; i++)
    {
      const RlxIrValue *value = node->inputs[i];

      if (value == NULL)
        continue;
      inputs[i] = g_hash_table_lookup (copies, value);
      if (inputs[i] != NULL)
        continue;
      if (value->node != NULL && (rlx_ir_node_is (value->node, RLX_OP_ID_CONSTANT) || rlx_ir_node_is (value->node, RLX_OP_ID_PARAMETER)))
        {
          copy = rlx_ir_append_copy (self->ir, value->node, NULL);
        }
      else
        {
          copy = rlx_ir_append (self->ir, &rlx_op_input, NULL, NULL, 0, &value->type, 1);
          copy->name = g_strdup_printf ("x%u", i);
        }
      inputs[i] = &copy->outputs[0];
      g_hash_table_insert (copies, (gpointer) value, inputs[i]);
    }
  copy = rlx_builder_append (&b, node->op, inputs, n_inputs, node->attrs);
  if (copy == NULL)
    {
      g_propagate_error (error, b.error);
      return FALSE;
    }
  for (guint i = 0; i < copy->n_outputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%u", i);

      rlx_ir_add_output (self->ir, name, &copy->outputs[i]);
    }
  return add_numbers (self, TINY, TINY, error) && find_problem (self, choice->key, error);
}

void
rlx_trial_clear (RlxTrial *self)
{
  for (guint i = 0; i < RLX_MAX_VARIANTS; i++)
    g_clear_object (&self->executables[i]);
  g_clear_pointer (&self->inputs, g_ptr_array_unref);
  g_clear_pointer (&self->ir, rlx_ir_free);
  g_clear_pointer (&self->target.tuning, rlx_tuning_free);
  g_clear_pointer (&self->key, g_free);
}

/* ---- running ------------------------------------------------------------------------- */

/* Compiles it with a row and runs it. If the row does not work, there is no executable. */
static gboolean
run_row (RlxTrial    *self,
         guint        row,
         RlxTensor ***outputs,
         gsize       *n_outputs,
         GError     **error)
{
  g_autoptr(GError) problem = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  const RlxChoice *choice;

  rlx_tuning_set (self->target.tuning, self->key, self->table->variants[row].name);
  executable = rlx_device_compile_ir (self->device, self->ir, &self->target, self->cancellable, &problem);
  if (executable == NULL && problem->domain != RLX_COMPILE_ERROR)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  choice = executable != NULL ? find_choice (self, rlx_executable_peek_plan (executable), self->key) : NULL;
  if (choice == NULL || choice->row != (int) row)
    {
      RLX_NOTE (DEVICE, "“%s” does not work for %s: %s", self->table->variants[row].name, self->key,
                problem != NULL ? problem->message : "it does not fit");
      return TRUE;
    }
  *outputs = rlx_executable_run (executable, (RlxTensor **) self->inputs->pdata, self->inputs->len, n_outputs, self->cancellable, error);
  if (*outputs == NULL)
    return FALSE;
  self->executables[row] = g_steal_pointer (&executable);
  return TRUE;
}

typedef struct
{
  RlxTensor **outputs;   /* NULL: none */
  gsize n_outputs;
  double fault;
} Result;

static gboolean
results_agree (const RlxTrial *self,
               const Result   *got,
               const Result   *right)
{
  if (got->n_outputs != right->n_outputs)
    return FALSE;
  for (gsize i = 0; i < right->n_outputs; i++)
    if (!agrees (got->outputs[i], right->outputs[i], got->fault - right->fault, self->reduced))
      return FALSE;
  return TRUE;
}

/* The one that most others agree with; of two such, the later one, which is simpler. */
static const Result *
find_right (const RlxTrial *self,
            const Result   *results)
{
  const Result *right = NULL;
  guint most = 0, n_all = 0;

  for (guint i = 0; i < self->table->n_variants; i++)
    n_all += results[i].outputs != NULL;
  for (guint i = self->table->n_variants; most * 2 <= n_all && i-- > 0;)
    {
      guint n = 0;

      for (guint j = 0; results[i].outputs != NULL && j < self->table->n_variants; j++)
        n += results[j].outputs != NULL && results_agree (self, &results[j], &results[i]);
      if (n > most)
        {
          most = n;
          right = &results[i];
        }
    }
  return right;
}

gboolean
rlx_trial_run (RlxTrial  *self,
               guint32    rows,
               RlxTensor *expected,
               GError   **error)
{
  guint32 seems_wrong = (guint32) g_atomic_int_get (&faults[self->table->family]);
  Result results[RLX_MAX_VARIANTS] = { 0 }, given = { &expected, 1, 0.0 };
  const Result *right;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < self->table->n_variants; i++)
    if ((rows >> i & 1) && self->verdicts[i].fit != RLX_FIT_NO)
      {
        results[i].fault = seems_wrong >> i & 1 ? 1000.0 * (i + 1) : 0.0;
        ok = run_row (self, i, &results[i].outputs, &results[i].n_outputs, error);
        if (ok && results[i].outputs == NULL)
          self->wrong |= 1u << i;
      }
  right = expected != NULL ? &given : find_right (self, results);
  for (guint i = 0; i < self->table->n_variants; i++)
    if (results[i].outputs != NULL && ok && !results_agree (self, &results[i], right))
      {
        self->wrong |= 1u << i;
        g_clear_object (&self->executables[i]);
        RLX_NOTE (DEVICE, "“%s” gives a wrong result for %s", self->table->variants[i].name, self->key);
      }
  for (guint i = 0; i < self->table->n_variants; i++)
    {
      for (gsize j = 0; j < results[i].n_outputs; j++)
        g_object_unref (results[i].outputs[j]);
      g_free (results[i].outputs);
    }
  return ok;
}
