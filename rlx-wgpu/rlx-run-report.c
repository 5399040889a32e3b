/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-run-report-private.h"

#include <string.h>

#include "ops/rlx-report-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

gsize
rlx_reports_get_size (const RlxPlan *plan)
{
  return plan->reports->len * RLX_REPORT_WORDS * sizeof (guint32);
}

void
rlx_reports_fill_downloads (RlxExecutable *self,
                            RlxGpuJob     *job)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->reports->len; i++)
    {
      const RlxSlot *slot = rlx_plan_get_slot (plan, g_array_index (plan->reports, RlxPlanReport, i).slot);

      self->downloads[job->n_downloads++] = (RlxGpuDownload) {
        rlx_executable_get_buffer (self, slot->buffer), slot->offset, RLX_REPORT_WORDS * sizeof (guint32), self->reports + i * RLX_REPORT_WORDS
      };
    }
}

/* ---- checks ----------------------------------------------------------------------------- */

static const RlxOp *
get_op (const RlxIrNode *report)
{
  return rlx_op_table[rlx_report_attrs (report)->op - 1];
}

static char *
get_label (const RlxIrNode *node)
{
  return node->name ? g_strdup (node->name) : g_strdup_printf ("%%%u", node->origin);
}

/* "[2, 3]" for the element at an index in row-major order; nothing for a scalar. */
static char *
describe_place (const RlxTensorType *type,
                guint64              place)
{
  gint64 index[RLX_MAX_DIMS];

  for (guint i = type->n_dims; i-- > 0;)
    {
      index[i] = (gint64) (place % (guint64) type->shape[i]);
      place /= (guint64) type->shape[i];
    }
  return type->n_dims > 0 ? rlx_shape_to_string (index, type->n_dims) : g_strdup ("");
}

static char *
describe_number (const RlxTensorType *type,
                 guint32              bits)
{
  RlxDataType data_type = rlx_data_type_on_device (type->data_type);
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  float value;

  if (rlx_data_type_is_unsigned (data_type))
    return g_strdup_printf ("%u", bits);
  if (!rlx_data_type_loads_float (data_type))
    return g_strdup_printf ("%d", (gint32) bits);
  memcpy (&value, &bits, sizeof value);
  return g_strdup (g_ascii_formatd (text, sizeof text, "%.9g", value));
}

static void
set_range_error (const RlxIrNode *report,
                 const guint32   *words,
                 GError         **error)
{
  const RlxReportAttrs *attrs = rlx_report_attrs (report);
  const RlxOp *op = get_op (report);
  const RlxTensorType *type = &report->inputs[0]->type;
  guint64 place = words[0] - 1;
  guint bound = (guint) (place % attrs->lowest.n_values);
  gint64 lowest = attrs->lowest.values[bound];
  g_autofree char *label = get_label (report), *where = describe_place (type, place), *value = describe_number (type, words[1]);

  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_OUT_OF_RANGE,
               "%s “%s”: %s%s is %s; it can be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, op->name, label,
               attrs->input == 0 ? "element" : op->inputs[attrs->input].name, where, value,
               rlx_data_type_is_unsigned (type->data_type) ? MAX (lowest, 0) : lowest, attrs->highest.values[bound]);
}

static void
set_excess_error (const RlxIrNode *report,
                  const guint32   *words,
                  GError         **error)
{
  const RlxTensorType *type = &report->inputs[0]->type;
  RlxDataType data_type = type->data_type;
  gboolean is_unsigned = rlx_data_type_is_unsigned (data_type);
  gint32 excess = (gint32) words[2];
  g_autofree char *label = get_label (report), *where = describe_place (type, words[0] - 1), *value = NULL;

  if (ABS ((gint64) excess) == RLX_EXCESS_MAX)
    value = g_strdup (excess < 0 ? "far below" : "far above");
  else
    value = g_strdup_printf ("%" G_GINT64_FORMAT,
                             (gint64) ((guint64) (gint64) excess << 32) + (is_unsigned ? (gint64) words[1] : (gint64) (gint32) words[1]));
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_OUT_OF_RANGE,
               "%s “%s”: result%s is %s; %s%s can be %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, get_op (report)->name, label, where, value,
               rlx_data_type_to_string (data_type), data_type != rlx_data_type_on_device (data_type) ? ", of 32 bits on the device," : "",
               is_unsigned ? (gint64) 0 : (gint64) G_MININT32, is_unsigned ? (gint64) G_MAXUINT32 : (gint64) G_MAXINT32);
}

/* ---- surveys ---------------------------------------------------------------------------- */

static float
to_float (guint32 bits)
{
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

static char *
describe_value (const RlxIrNode *report)
{
  const RlxReportAttrs *attrs = rlx_report_attrs (report);
  g_autofree char *type = rlx_type_to_string (&report->inputs[0]->type);

  return g_strdup_printf ("%%%u = %s%s%s%s : %s", report->origin + (guint) attrs->input, get_op (report)->name, report->name ? " “" : "",
                          report->name ? report->name : "", report->name ? "”" : "", type);
}

/* Reports one value; returns whether all of it is finite. */
static gboolean
note_survey (const RlxIrNode *report,
             const guint32   *words)
{
  guint64 n = rlx_type_n_elements (&report->inputs[0]->type), n_finite = n - words[0] - words[1];
  g_autofree char *value = describe_value (report);

  RLX_NOTE (VALUES, "largest %-12.6g mean %-12.6g NaN %-6u infinite %-6u %s", to_float (words[2]),
            n_finite > 0 ? to_float (words[3]) / (double) n_finite : 0.0, words[0], words[1], value);
  return n_finite == n;
}

gboolean
rlx_reports_read (RlxExecutable *self,
                  GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  const RlxPlanReport *failed = NULL;
  const RlxIrNode *not_finite = NULL;

  for (guint i = 0; i < plan->reports->len; i++)
    {
      const RlxPlanReport *report = &g_array_index (plan->reports, RlxPlanReport, i);
      const guint32 *words = self->reports + i * RLX_REPORT_WORDS;

      if (rlx_ir_node_is (report->node, RLX_OP_ID_SURVEY))
        {
          if (!note_survey (report->node, words) && not_finite == NULL)
            not_finite = report->node;
        }
      else if (failed == NULL && words[0] != 0)
        {
          failed = report;
          if (rlx_ir_node_is (report->node, RLX_OP_ID_CHECK_RANGE))
            set_range_error (report->node, words, error);
          else
            set_excess_error (report->node, words, error);
        }
    }
  if (not_finite != NULL)
    {
      g_autofree char *value = describe_value (not_finite);

      RLX_NOTE (VALUES, "the first that is not finite: %s", value);
    }
  return failed == NULL;
}
