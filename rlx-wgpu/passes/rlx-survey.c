/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * RLX_DEBUG=values: a report of every value of the graph. That is one more use of each,
 * so next to nothing is fused.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-report-private.h"

RlxIr *
rlx_pass_survey (const RlxIr     *ir,
                 const RlxTarget *target,
                 GError         **error)
{
  const RlxTensorType type = { RLX_DATA_TYPE_U32, 1, { RLX_REPORT_WORDS } };
  g_auto(RlxRewrite) base = { 0, };

  if (!ir->surveyed)
    return NULL;
  rlx_rewrite_init (&base, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      RlxIrNode *copy;

      if (!base.live[i])
        continue;
      copy = rlx_rewrite_copy (&base, node);
      for (guint j = 0; j < copy->n_outputs; j++)
        {
          RlxIrValue *value = &copy->outputs[j];
          RlxIrNode *report;

          if (rlx_type_n_elements (&value->type) == 0)
            continue;
          report = rlx_ir_append (base.out, &rlx_op_survey,
                                  rlx_attrs_copy (&rlx_op_survey, RLX_SURVEY_ATTRS (.op = node->op->id, .input = j)), &value, 1, &type, 1);
          report->origin = node->origin;
          report->name = g_strdup (node->name);
        }
    }
  return rlx_rewrite_end (&base);
}
