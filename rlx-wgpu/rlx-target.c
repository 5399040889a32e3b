/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compiling without a device.
 */
#include "config.h"

#include "rlx-target.h"

#include "plan/rlx-plan-private.h"
#include "rlx-compile-options-private.h"
#include "rlx-enum-types.h"
#include "rlx-graph-private.h"
#include "target/rlx-target-private.h"
#include "util/rlx-debug-private.h"

/**
 * rlx_targets_list:
 *
 * Lists the names of the devices that graphs can be compiled for even if they are not
 * present: `lavapipe`, `minimum` (what every WebGPU device supports), and real chips.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_targets_list (void)
{
  GStrvBuilder *builder = g_strv_builder_new ();
  const RlxTarget *target;
  char **names;

  for (guint i = 0; (target = rlx_target_get_named (i)) != NULL; i++)
    g_strv_builder_add (builder, target->name);
  names = g_strv_builder_end (builder);
  g_strv_builder_unref (builder);
  return names;
}

static const RlxTarget *
look_up (const char *name,
         GError    **error)
{
  const RlxTarget *target = rlx_target_lookup (name);

  if (target == NULL)
    {
      g_autofree char *quoted = rlx_quote_text (name, -1), *names = rlx_target_list_names ();

      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED, "there is no target %s; there are %s", quoted, names);
    }
  return target;
}

/**
 * rlx_targets_describe:
 * @name: the name of a target
 * @error: return location for an error
 *
 * Describes a target.
 *
 * The dictionary has `name`, `source` (the origin of its numbers), `features` (an array
 * of names), `limits` (as returned by [method@Rlx.Adapter.get_limits]), `subgroup-size`
 * and `registers` (the number of 32-bit registers per invocation).
 *
 * Returns: (transfer full): a dictionary `a{sv}`
 *
 * Since: 1.0
 */
GVariant *
rlx_targets_describe (const char *name,
                      GError    **error)
{
  const RlxTarget *target;
  g_autoptr(GFlagsClass) features = NULL;
  g_autoptr(GVariant) limits = NULL;
  GVariantBuilder names;
  GVariantDict dict;

  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  target = look_up (name, error);
  if (target == NULL)
    return NULL;

  features = g_type_class_ref (RLX_TYPE_DEVICE_FEATURES);
  g_variant_builder_init (&names, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; i < features->n_values; i++)
    if (features->values[i].value != 0 && (target->features & features->values[i].value) == features->values[i].value)
      g_variant_builder_add (&names, "s", features->values[i].value_nick);
  limits = rlx_target_limits_to_variant (target);

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "name", "s", target->name);
  g_variant_dict_insert (&dict, "source", "s", rlx_target_get_source (target));
  g_variant_dict_insert_value (&dict, "features", g_variant_builder_end (&names));
  g_variant_dict_insert_value (&dict, "limits", limits);
  g_variant_dict_insert (&dict, "subgroup-size", "u", target->subgroup_size);
  g_variant_dict_insert (&dict, "registers", "u", target->registers);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static RlxPlan *
make_plan (RlxGraph          *self,
           const char        *name,
           RlxCompileOptions *options,
           GError           **error)
{
  const RlxTarget *named = look_up (name, error);
  g_autoptr(RlxIr) ir = named != NULL ? rlx_graph_copy_ir (self, error) : NULL;
  RlxCompileSettings settings;
  RlxTarget target;

  if (ir == NULL)
    return NULL;
  rlx_compile_options_read (options, &settings);
  if (settings.precision != RLX_PRECISION_DEFAULT)
    ir->precision = settings.precision;
  ir->checked = settings.checked;
  target = *named;
  rlx_target_apply_debug (&target);
  if (!rlx_target_restrict (&target, settings.avoided_features, settings.buffer_limit, error))
    return NULL;
  return rlx_plan_make (ir, &target, NULL, error);
}

/**
 * rlx_graph_plan_for:
 * @self: a graph
 * @target: the name of a target; see [func@Rlx.targets_list]
 * @options: (nullable): options, or %NULL for the defaults; those that do not affect
 *   the plan are ignored
 * @error: return location for an error
 *
 * Compiles a graph for a device that need not be present, and gets a machine-readable
 * description of what a run would do.
 *
 * Returns: (transfer full): a dictionary `a{sv}`, like that of
 *   [method@Rlx.Executable.dup_plan]
 *
 * Since: 1.0
 */
GVariant *
rlx_graph_plan_for (RlxGraph          *self,
                    const char        *target,
                    RlxCompileOptions *options,
                    GError           **error)
{
  g_autoptr(RlxPlan) plan = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (target != NULL, NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  plan = make_plan (self, target, options, error);
  return plan != NULL ? rlx_plan_to_variant (plan, plan->steps) : NULL;
}

/**
 * rlx_graph_describe_plan_for:
 * @self: a graph
 * @target: the name of a target; see [func@Rlx.targets_list]
 * @options: (nullable): options, or %NULL for the defaults; those that do not affect
 *   the plan are ignored
 * @error: return location for an error
 *
 * Compiles a graph for a device that need not be present, and describes, as text, what
 * a run would do.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_graph_describe_plan_for (RlxGraph          *self,
                             const char        *target,
                             RlxCompileOptions *options,
                             GError           **error)
{
  g_autoptr(RlxPlan) plan = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (target != NULL, NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  plan = make_plan (self, target, options, error);
  return plan != NULL ? rlx_plan_to_text (plan, plan->steps) : NULL;
}
