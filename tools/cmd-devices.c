/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"
#include "rlx-wgpu/rlx-private.h"

static char *
flags_to_string (GType type,
                 guint value)
{
  g_autoptr(GTypeClass) klass = g_type_class_ref (type);
  GFlagsClass *flags = G_FLAGS_CLASS (klass);
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < flags->n_values; i++)
    if (flags->values[i].value != 0 && (value & flags->values[i].value))
      g_string_append_printf (out, "%s%s", out->len ? " " : "", flags->values[i].value_nick);
  return g_string_free (out, FALSE);
}

static const char *
enum_to_string (GType type,
                int   value)
{
  g_autoptr(GTypeClass) klass = g_type_class_ref (type);
  const GEnumValue *entry = g_enum_get_value (G_ENUM_CLASS (klass), value);

  return entry ? entry->value_nick : "?";
}

GVariant *
rlx_tool_list_features (RlxDeviceFeatures features)
{
  g_autofree char *text = flags_to_string (RLX_TYPE_DEVICE_FEATURES, features);
  g_auto(GStrv) list = g_strsplit (text, " ", -1);

  return g_variant_new_strv ((const char *const *) list, text[0] ? -1 : 0);
}

void
rlx_tool_describe_adapter (RlxAdapter   *adapter,
                           GVariantDict *dict)
{
  g_autoptr(RlxCalibration) calibration = rlx_adapter_load_calibration (adapter);
  g_auto(GStrv) bans = rlx_private_adapter_list_bans (adapter);

  g_variant_dict_insert (dict, "name", "s", rlx_adapter_get_name (adapter));
  g_variant_dict_insert (dict, "vendor", "s", rlx_adapter_get_vendor (adapter));
  g_variant_dict_insert (dict, "driver", "s", rlx_adapter_get_driver (adapter));
  g_variant_dict_insert (dict, "backend", "s", rlx_adapter_get_backend (adapter));
  g_variant_dict_insert (dict, "type", "s", enum_to_string (RLX_TYPE_ADAPTER_TYPE, rlx_adapter_get_adapter_type (adapter)));
  g_variant_dict_insert_value (dict, "features", rlx_tool_list_features (rlx_adapter_get_features (adapter)));
  g_variant_dict_insert (dict, "memory", "t", rlx_adapter_get_memory_size (adapter));
  g_variant_dict_insert_value (dict, "limits", rlx_adapter_get_limits (adapter));
  if (calibration != NULL)
    g_variant_dict_insert_value (dict, "calibration", rlx_tool_describe_calibration (calibration));
  g_variant_dict_insert_value (dict, "banned", g_variant_new_strv ((const char *const *) bans, -1));
  g_variant_dict_insert (dict, "tuned_problems", "u", rlx_adapter_count_tuned_problems (adapter));
}

static GVariant *
describe (RlxAdapter *adapter,
          guint       index)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "index", "u", index);
  rlx_tool_describe_adapter (adapter, &dict);
  return g_variant_dict_end (&dict);
}

void
rlx_tool_print_adapter (RlxAdapter *adapter)
{
  g_autofree char *features = flags_to_string (RLX_TYPE_DEVICE_FEATURES, rlx_adapter_get_features (adapter));
  g_autofree char *memory = g_format_size_full (rlx_adapter_get_memory_size (adapter), G_FORMAT_SIZE_IEC_UNITS);

  g_print ("   type      %s, %s\n", enum_to_string (RLX_TYPE_ADAPTER_TYPE, rlx_adapter_get_adapter_type (adapter)), rlx_adapter_get_backend (adapter));
  g_print ("   driver    %s\n", rlx_adapter_get_driver (adapter));
  g_print ("   features  %s\n", features[0] ? features : "none");
  g_print ("   memory    %s\n", rlx_adapter_get_memory_size (adapter) ? memory : "unknown");
}

static void
print_adapter (RlxAdapter *adapter,
               guint       index,
               gboolean    chosen,
               gboolean    verbose)
{
  g_print ("%u: %s%s\n", index, rlx_adapter_get_name (adapter), chosen ? "  (default)" : "");
  rlx_tool_print_adapter (adapter);
  if (verbose)
    {
      GVariant *limits = rlx_adapter_get_limits (adapter);
      g_autoptr(RlxCalibration) calibration = rlx_adapter_load_calibration (adapter);
      g_auto(GStrv) bans = rlx_private_adapter_list_bans (adapter);
      guint n_tuned = rlx_adapter_count_tuned_problems (adapter);
      GVariantIter iter;
      const char *name;
      GVariant *value;

      g_variant_iter_init (&iter, limits);
      while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
        {
          g_autofree char *text = g_variant_print (value, FALSE);
          g_print ("   %-36s %s\n", name, text);
        }
      if (calibration != NULL)
        rlx_tool_print_calibration (calibration);
      else
        g_print ("   not calibrated; see rlx calibrate\n");
      for (char **ban = bans; *ban != NULL; ban++)
        g_print ("   wrong here, and not used %s\n", *ban);
      if (n_tuned > 0)
        g_print ("   problems tuned           %u\n", n_tuned);
    }
}

int
rlx_tool_devices (int    argc,
                  char **argv)
{
  gboolean json = FALSE, verbose = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &verbose, "Print limits and calibration too", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(GListModel) adapters = NULL;
  RlxDevice *device = NULL;
  GVariantBuilder list;
  int status;

  if (!rlx_tool_parse (NULL, "Lists the adapters of this system, the best first, and which one is used.", entries, &argc, &argv, 0, 0, &status))
    return status;
  adapters = rlx_adapter_list (NULL, &error);
  if (adapters == NULL)
    return rlx_tool_fail (error);

  if (json)
    {
      g_variant_builder_init (&list, G_VARIANT_TYPE ("aa{sv}"));
      for (guint i = 0; i < g_list_model_get_n_items (adapters); i++)
        {
          g_autoptr(RlxAdapter) adapter = g_list_model_get_item (adapters, i);
          g_variant_builder_add_value (&list, describe (adapter, i));
        }
      rlx_tool_print_json (g_variant_builder_end (&list));
      return RLX_TOOL_OK;
    }

  /* Whether it works is only known after opening it. */
  device = rlx_tool_open (&error);
  for (guint i = 0; i < g_list_model_get_n_items (adapters); i++)
    {
      g_autoptr(RlxAdapter) adapter = g_list_model_get_item (adapters, i);
      gboolean chosen = device && g_str_equal (rlx_adapter_get_name (adapter), rlx_adapter_get_name (rlx_device_get_adapter (device))) &&
                        g_str_equal (rlx_adapter_get_backend (adapter), rlx_adapter_get_backend (rlx_device_get_adapter (device)));

      print_adapter (adapter, i, chosen, verbose);
    }
  return device ? RLX_TOOL_OK : rlx_tool_fail (error);
}

int
rlx_tool_targets (int    argc,
                  char **argv)
{
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_auto(GStrv) names = NULL;
  GVariantBuilder list;
  int status;

  if (!rlx_tool_parse (NULL, "Lists the devices that a graph can be compiled for even if they are not present.", entries, &argc, &argv, 0, 0, &status))
    return status;

  names = rlx_targets_list ();
  g_variant_builder_init (&list, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr(GVariant) target = rlx_targets_describe (names[i], NULL);
      const char *source;

      g_variant_lookup (target, "source", "&s", &source);
      if (!json)
        g_print ("%-9s %s\n", names[i], source);
      g_variant_builder_add_value (&list, target);
    }
  if (json)
    rlx_tool_print_json (g_variant_builder_end (&list));
  else
    g_variant_builder_clear (&list);
  return RLX_TOOL_OK;
}
