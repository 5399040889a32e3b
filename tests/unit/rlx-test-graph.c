/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Looks at graphs for tests.
 */
#include "config.h"

#include "rlx-test-graph.h"

void
assert_message (GError    **error,
                int         code,
                const char *parts)
{
  g_auto (GStrv) split = g_strsplit (parts, "|", -1);

  g_assert_error (*error, RLX_GRAPH_ERROR, code);
  g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  for (guint i = 0; split[i] != NULL; i++)
    if (strstr ((*error)->message, split[i]) == NULL)
      g_error ("“%s” does not mention “%s”", (*error)->message, split[i]);
  g_clear_error (error);
}

void
assert_sticky (RlxGraph   *graph,
               int         code,
               const char *parts)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (rlx_graph_check (graph, &error));
  assert_message (&error, code, parts);
  g_assert_null (rlx_graph_peek_ir (graph, &error));
  assert_message (&error, code, parts);
}

void
assert_sound (RlxGraph *graph)
{
  g_autoptr (GError) error = NULL;

  rlx_graph_check (graph, &error);
  g_assert_no_error (error);
}

void
assert_type (RlxNode    *node,
             const char *expected)
{
  g_autofree char *text = rlx_node_to_string (node);

  g_assert_nonnull (text);
  if (!g_str_has_suffix (text, expected))
    g_error ("“%s” is not of type %s", text, expected);
}

static gboolean
many_infer (RlxOpCall *call,
            GError   **error)
{
  gint64 count = ((const ManyAttrs *) call->attrs)->count;

  if (count == 9)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_UNSUPPORTED, "no %d", 9);

  for (gint64 i = 0; i < count; i++)
    rlx_call_add_output (call, call->inputs[0]);

  return TRUE;
}

static const RlxInputDef many_inputs[] = {
  { "self", RLX_TYPES_ANY, FALSE, -1 },
  { "extra", RLX_TYPES_ANY, TRUE, 0 },
};
static const gint64 default_list[] = { 3, 4 };
static const RlxAttrDef many_attrs[] = {
  { "flag", RLX_ATTR_BOOL, G_STRUCT_OFFSET (ManyAttrs, flag), FALSE, NULL, "a flag" },
  { "count", RLX_ATTR_INT, G_STRUCT_OFFSET (ManyAttrs, count), FALSE, NULL, "a count" },
  { "factor", RLX_ATTR_FLOAT, G_STRUCT_OFFSET (ManyAttrs, factor), FALSE, NULL, "a factor" },
  { "choice", RLX_ATTR_ENUM, G_STRUCT_OFFSET (ManyAttrs, choice), FALSE, rlx_adapter_type_get_type, "a choice" },
  { "type", RLX_ATTR_DATA_TYPE, G_STRUCT_OFFSET (ManyAttrs, type), FALSE, NULL, "a type" },
  { "list", RLX_ATTR_INTS, G_STRUCT_OFFSET (ManyAttrs, list), FALSE, NULL, "a list" },
  { "open", RLX_ATTR_INTS, G_STRUCT_OFFSET (ManyAttrs, open), FALSE, NULL, "a list that may be empty" },
};
static const ManyAttrs many_defaults = {
  .flag = TRUE, .count = 3, .factor = 0.5, .choice = RLX_ADAPTER_TYPE_CPU, .type = RLX_DATA_TYPE_F16,
  .list = { default_list, G_N_ELEMENTS (default_list) },
};
const RlxOp many_op = {
  .name = "many",
  .inputs = many_inputs,
  .n_inputs = G_N_ELEMENTS (many_inputs),
  .attrs = many_attrs,
  .n_attrs = G_N_ELEMENTS (many_attrs),
  .attrs_size = sizeof (ManyAttrs),
  .defaults = &many_defaults,
  .infer = many_infer,
};
