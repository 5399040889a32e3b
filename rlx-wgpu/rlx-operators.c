/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-operators.h"

#include "ir/rlx-op-private.h"
#include "util/rlx-debug-private.h"

/**
 * rlx_operators_list:
 *
 * Lists the names of all operators, in the order in which the manual lists them.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_operators_list (void)
{
  char **names = g_new0 (char *, rlx_n_ops + 1);

  for (guint i = 0; i < rlx_n_ops; i++)
    names[i] = g_strdup (rlx_op_table[i]->name);
  return names;
}

static const char *
kind_to_string (const RlxAttrDef *def)
{
  switch (def->kind)
    {
    case RLX_ATTR_BOOL: return "bool";
    case RLX_ATTR_INT: return "int";
    case RLX_ATTR_FLOAT: return "float";
    case RLX_ATTR_ENUM: return "enum";
    case RLX_ATTR_DATA_TYPE: return "data type";
    case RLX_ATTR_INTS: return "ints";
    case RLX_ATTR_STRING: return "string";
    default: g_return_val_if_reached (NULL);
    }
}

static GVariant *
describe_values (const RlxAttrDef *def)
{
  const char *type = g_type_name (def->enum_type ());
  GVariantBuilder values;

  g_variant_builder_init (&values, G_VARIANT_TYPE ("aa{sv}"));
  for (const RlxEnumDoc *value = rlx_enum_docs; value->type != NULL; value++)
    if (g_str_equal (value->type, type))
      g_variant_builder_add_parsed (&values, "{'name': <%s>, 'doc': <%s>}", value->nick, value->doc);
  return g_variant_builder_end (&values);
}

/**
 * rlx_operators_describe:
 * @name: the name of an operator
 * @error: return location for an error
 *
 * Describes an operator.
 *
 * The dictionary has `name`, `family`, `summary`, `doc` (further details), `formula`,
 * `example` (a call with types for its operands, and the types of its results; empty
 * for nodes that are not computed), `bound`, `subnormals` (what happens to subnormal
 * numbers; empty if no operand has floats), `checked` (what makes a run with
 * [property@Rlx.CompileOptions:checked] fail, or why nothing does; empty if nothing
 * could), `since` (the first version of the library that has it), `element-wise`,
 * `variadic`, `inputs` (an array of dictionaries with `name`, `types`, `optional` and,
 * where an input must have the type of another one, `same-as`) and `attributes` (an
 * array of dictionaries with `name`, `type`, `required`, `doc` and, unless it is
 * required, `default`; an enumeration has `values`, an array of dictionaries with
 * `name` and `doc`).
 *
 * If there is no such operator, the error suggests one with a similar name.
 *
 * Returns: (transfer full): a dictionary `a{sv}`
 *
 * Since: 1.0
 */
GVariant *
rlx_operators_describe (const char *name,
                        GError    **error)
{
  const RlxOp *op;
  GVariantDict dict;
  GVariantBuilder inputs, attributes;
  g_autoptr(GVariant) defaults = NULL;

  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  op = rlx_op_lookup (name);
  if (op == NULL)
    {
      g_autofree char *quoted = rlx_quote_text (name, -1);

      const char *close = rlx_op_suggest (name);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "there is no operator %s%s%s%s",
                   quoted, close ? "; did you mean “" : "", close ? close : "", close ? "”?" : "");
      return NULL;
    }

  g_variant_builder_init (&inputs, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < op->n_inputs; i++)
    {
      const RlxInputDef *input = &op->inputs[i];
      const RlxInputDef *typed = input->same_as >= 0 ? &op->inputs[input->same_as] : input;
      g_autofree char *types = rlx_data_types_to_string (typed->types, " ");
      GVariantDict entry;

      g_variant_dict_init (&entry, NULL);
      g_variant_dict_insert (&entry, "name", "s", input->name);
      g_variant_dict_insert (&entry, "types", "s", types);
      g_variant_dict_insert (&entry, "optional", "b", input->optional);
      if (input->same_as >= 0)
        g_variant_dict_insert (&entry, "same-as", "s", typed->name);
      g_variant_builder_add_value (&inputs, g_variant_dict_end (&entry));
    }

  defaults = rlx_attrs_to_variant (op, op->defaults);
  g_variant_builder_init (&attributes, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];
      g_autoptr(GVariant) value = g_variant_lookup_value (defaults, def->name, NULL);
      GVariantDict entry;

      /* no list; an empty one may mean something else */
      if (value == NULL && def->kind == RLX_ATTR_INTS)
        value = g_variant_ref_sink (g_variant_new_array (G_VARIANT_TYPE_INT64, NULL, 0));

      g_variant_dict_init (&entry, NULL);
      g_variant_dict_insert (&entry, "name", "s", def->name);
      g_variant_dict_insert (&entry, "type", "s", kind_to_string (def));
      g_variant_dict_insert (&entry, "required", "b", def->required);
      g_variant_dict_insert (&entry, "doc", "s", def->doc);
      if (!def->required && value != NULL)
        g_variant_dict_insert_value (&entry, "default", value);
      if (def->kind == RLX_ATTR_ENUM)
        g_variant_dict_insert_value (&entry, "values", describe_values (def));
      g_variant_builder_add_value (&attributes, g_variant_dict_end (&entry));
    }

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "name", "s", op->name);
  g_variant_dict_insert (&dict, "family", "s", op->family);
  g_variant_dict_insert (&dict, "summary", "s", op->summary);
  g_variant_dict_insert (&dict, "doc", "s", op->doc);
  g_variant_dict_insert_value (&dict, "example", g_variant_new_take_string (g_strconcat (op->shapes ? op->name : "", op->shapes, NULL)));
  g_variant_dict_insert (&dict, "formula", "s", op->formula ? op->formula : "");
  g_variant_dict_insert (&dict, "bound", "s", op->bound);
  g_variant_dict_insert (&dict, "subnormals", "s", op->subnormals ? op->subnormals : "");
  g_variant_dict_insert (&dict, "checked", "s", op->checked ? op->checked : "");
  g_variant_dict_insert (&dict, "since", "s", op->since);
  g_variant_dict_insert (&dict, "element-wise", "b", (op->flags & RLX_OP_ELEMENTWISE) != 0);
  g_variant_dict_insert (&dict, "variadic", "b", (op->flags & RLX_OP_VARIADIC) != 0);
  g_variant_dict_insert_value (&dict, "inputs", g_variant_builder_end (&inputs));
  g_variant_dict_insert_value (&dict, "attributes", g_variant_builder_end (&attributes));
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}
