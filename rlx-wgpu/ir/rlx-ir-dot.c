/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ir/rlx-ir-private.h"

#include "ir/rlx-op-private.h"

/* Into a string in double quotes. Graphviz interprets backslashes (\N is the name of
 * the node), so they are doubled. */
static void
append_escaped (GString    *dot,
                const char *text)
{
  for (const char *p = text; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (c == '"' || c == '\\')
        g_string_append_printf (dot, "\\%c", (char) c);
      else if (c == '\n')
        g_string_append (dot, "\\n");
      else if (!g_unichar_isprint (c))
        g_string_append_printf (dot, "\\\\u%04x", c);
      else
        g_string_append_unichar (dot, c);
    }
}

static const char *
node_style (const RlxIrNode *node)
{
  if (node->op == &rlx_op_input)
    return "shape=ellipse, style=filled, fillcolor=\"#cfe3f7\"";
  if (node->op == &rlx_op_parameter || node->op == &rlx_op_constant)
    return "shape=ellipse, style=filled, fillcolor=\"#eeeeec\"";
  if (node->op == &rlx_op_state)
    return "shape=ellipse, style=filled, fillcolor=\"#f9e3b4\"";

  return "shape=box, style=rounded";
}

static void
append_node (GString         *dot,
             const RlxIrNode *node)
{
  g_string_append_printf (dot, "  n%u [%s, label=\"%s", node->id, node_style (node), node->op->name);
  if (node->name != NULL)
    {
      g_string_append (dot, "\\n");
      append_escaped (dot, node->name);
    }
  for (guint i = 0; i < node->n_outputs; i++)
    {
      g_autofree char *type = rlx_type_to_string (&node->outputs[i].type);

      g_string_append_printf (dot, "\\n%%%u: %s", node->outputs[i].id, type);
    }
  g_string_append (dot, "\"];\n");

  for (guint i = 0; i < node->n_inputs; i++)
    {
      const RlxIrValue *input = node->inputs[i];

      if (input == NULL)
        continue;

      g_string_append_printf (dot, "  n%u -> n%u", input->node->id, node->id);
      if (input->node->n_outputs > 1)
        g_string_append_printf (dot, " [label=\"%u\"]", input->index);
      g_string_append (dot, ";\n");
    }
}

char *
rlx_ir_to_dot (const RlxIr *ir)
{
  GString *dot = g_string_new ("digraph rlx {\n"
                               "  node [fontname=\"sans-serif\"];\n");

  for (guint i = 0; i < ir->nodes->len; i++)
    append_node (dot, g_ptr_array_index (ir->nodes, i));

  for (guint i = 0; i < ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (ir->outputs, RlxIrOutput, i);

      g_string_append_printf (dot, "  o%u [shape=ellipse, style=filled, fillcolor=\"#cfe9c6\", label=\"output\\n", i);
      append_escaped (dot, output->name);
      g_string_append_printf (dot, "\"];\n  n%u -> o%u;\n", output->value->node->id, i);
    }

  /* Against the flow, so they must not affect the layout. */
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      g_string_append_printf (dot, "  n%u -> n%u [style=dashed, constraint=false, label=\"assign\"];\n",
                              assign->value->node->id, assign->state->node->id);
    }

  g_string_append (dot, "}\n");

  return g_string_free (dot, FALSE);
}
