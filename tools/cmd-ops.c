/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <string.h>

#include "rlx-tool.h"

static const char *
get_string (GVariant   *dict,
            const char *key)
{
  const char *text = "";

  g_variant_lookup (dict, key, "&s", &text);
  return text;
}

/* Prints words in lines that are indented by @indent columns; the first line already has @at columns. Line breaks in @text are
 * kept. */
static void
print_wrapped (const char *text,
               guint       indent,
               glong       at)
{
  g_auto(GStrv) words = g_strsplit (text, " ", -1);

  for (char **word = words; *word; word++)
    {
      /* the start of the next paragraph */
      const char *rest = strrchr (*word, '\n');
      glong width = g_utf8_strlen (*word, rest ? rest - *word : -1);

      if (word != words && at + 1 + width > 96)
        {
          g_print ("\n%*s", (int) indent, "");
          at = indent;
        }
      else if (word != words)
        {
          g_print (" ");
          at++;
        }
      g_print ("%s", *word);
      at = rest ? g_utf8_strlen (rest + 1, -1) : at + width;
    }
  g_print ("\n");
}

static void
print_operator (GVariant *op)
{
  g_autoptr(GVariant) inputs = g_variant_lookup_value (op, "inputs", NULL);
  g_autoptr(GVariant) attributes = g_variant_lookup_value (op, "attributes", NULL);

  g_print ("%s: %s\n", get_string (op, "name"), get_string (op, "summary"));
  if (get_string (op, "formula")[0])
    g_print ("\n    %s\n", get_string (op, "formula"));
  if (get_string (op, "doc")[0])
    {
      g_print ("\n");
      print_wrapped (get_string (op, "doc"), 0, 0);
    }
  for (gsize i = 0; i < g_variant_n_children (inputs); i++)
    {
      g_autoptr(GVariant) input = g_variant_get_child_value (inputs, i);
      gboolean optional = FALSE;

      g_variant_lookup (input, "optional", "b", &optional);
      g_print ("%s  %-14s %s%s%s%s\n", i == 0 ? "\nInputs:\n" : "", get_string (input, "name"), get_string (input, "types"),
               get_string (input, "same-as")[0] ? ", as " : "", get_string (input, "same-as"), optional ? " (optional)" : "");
    }
  for (gsize i = 0; i < g_variant_n_children (attributes); i++)
    {
      g_autoptr(GVariant) attribute = g_variant_get_child_value (attributes, i);
      g_autoptr(GVariant) value = g_variant_lookup_value (attribute, "default", NULL);
      g_autoptr(GVariant) values = g_variant_lookup_value (attribute, "values", NULL);
      g_autofree char *text = value ? g_variant_print (value, FALSE) : NULL, *line = NULL;

      g_print ("%s", i == 0 ? "\nAttributes:\n" : "");
      line = g_strdup_printf ("  %-14s %s%s%s: ", get_string (attribute, "name"), get_string (attribute, "type"),
                              text ? ", default " : "", text ? text : "");
      g_print ("%s", line);
      print_wrapped (get_string (attribute, "doc"), 17, g_utf8_strlen (line, -1));
      for (gsize j = 0; values != NULL && j < g_variant_n_children (values); j++)
        {
          g_autoptr(GVariant) each = g_variant_get_child_value (values, j);
          g_autofree char *head = g_strdup_printf ("%19s%s: ", "", get_string (each, "name"));

          g_print ("%s", head);
          print_wrapped (get_string (each, "doc"), 21, g_utf8_strlen (head, -1));
        }
    }
  if (get_string (op, "example")[0])
    g_print ("\nFor example:\n  %s\n", get_string (op, "example"));
  g_print ("\nError bound: %s\n", get_string (op, "bound"));
  if (get_string (op, "subnormals")[0])
    g_print ("Subnormal numbers: %s\n", get_string (op, "subnormals"));
  if (get_string (op, "checked")[0])
    {
      g_print ("Checked: ");
      print_wrapped (get_string (op, "checked"), 9, 9);
    }
  g_print ("Since: %s\n", get_string (op, "since"));
}

int
rlx_tool_ops (int    argc,
              char **argv)
{
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) names = NULL;
  g_autofree char *family = NULL;
  GVariantBuilder list;
  int status;

  if (!rlx_tool_parse ("[NAME]", "Lists the operators, or describes one.", entries, &argc, &argv, 0, 1, &status))
    return status;

  if (argc == 2)
    {
      g_autoptr(GVariant) op = rlx_operators_describe (argv[1], &error);

      if (op == NULL)
        return rlx_tool_fail (error);
      if (json)
        rlx_tool_print_json (op);
      else
        print_operator (op);
      return RLX_TOOL_OK;
    }

  names = rlx_operators_list ();
  g_variant_builder_init (&list, G_VARIANT_TYPE ("aa{sv}"));
  for (char **name = names; *name; name++)
    {
      g_autoptr(GVariant) op = rlx_operators_describe (*name, NULL);

      if (json)
        {
          g_variant_builder_add_value (&list, op);
          continue;
        }
      if (g_strcmp0 (family, get_string (op, "family")) != 0)
        {
          g_print ("%s%s:\n", family ? "\n" : "", get_string (op, "family"));
          g_free (family);
          family = g_strdup (get_string (op, "family"));
        }
      g_print ("  %-18s %s\n", *name, get_string (op, "summary"));
    }
  if (json)
    rlx_tool_print_json (g_variant_builder_end (&list));
  else
    g_variant_builder_clear (&list);
  return RLX_TOOL_OK;
}
