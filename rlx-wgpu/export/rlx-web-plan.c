/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "export/rlx-web-private.h"

#include <string.h>

#include "rlx-plan-port-private.h"

/* ---- text ------------------------------------------------------------------------------ */

void
rlx_web_append_string (GString    *out,
                       const char *string)
{
  g_string_append_c (out, '"');
  for (const char *p = string; *p != '\0'; p++)
    {
      if (*p == '"' || *p == '\\')
        g_string_append_printf (out, "\\%c", *p);
      else if (*p == '\n')
        g_string_append (out, "\\n");
      else if ((guchar) *p < ' ')
        g_string_append_printf (out, "\\u%04x", (guchar) *p);
      else
        g_string_append_c (out, *p);
    }
  g_string_append_c (out, '"');
}

void
rlx_web_append_ports (GString      *out,
                      const char   *name,
                      const GArray *ports)
{
  g_string_append_printf (out, "\"%s\":[", name);
  for (guint i = 0; i < ports->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (ports, RlxPlanPort, i);

      g_string_append (out, i > 0 ? ",\n{\"name\":" : "\n{\"name\":");
      rlx_web_append_string (out, port->name);
      g_string_append_printf (out, ",\"dataType\":\"%s\",\"shape\":[", rlx_data_type_to_string (port->type.data_type));
      for (guint j = 0; j < port->type.n_dims; j++)
        g_string_append_printf (out, "%s%" G_GINT64_FORMAT, j > 0 ? "," : "", port->type.shape[j]);
      g_string_append (out, "]}");
    }
  g_string_append (out, "]");
}

/* ---- what a device has to have --------------------------------------------------------- */

void
rlx_web_restrict (RlxTarget *target)
{
  target->subgroup_sizes_can_be_set = FALSE;
  target->n_matrices = 0;
  target->features &= ~RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;
  /* Kernels rely on a fixed subgroup size, but browsers do not tell which one the driver chose. */
  if (target->subgroup_min != target->subgroup_max)
    target->features &= ~RLX_DEVICE_FEATURES_SUBGROUPS;
}

typedef struct
{
  gboolean f16, subgroups, packed_dot, other;
  guint64 buffer, binding, uniform;
  guint storage_buffers, invocations, workgroups, workgroup_storage;
} Needs;

static void
add_binding (Needs                *needs,
             const RlxStepBinding *binding,
             guint                *n_storage)
{
  if (binding->kind == RLX_GPU_BINDING_UNIFORM)
    {
      needs->uniform = MAX (needs->uniform, binding->size);
      return;
    }
  needs->binding = MAX (needs->binding, binding->size);
  *n_storage += 1;
}

static void
find_needs (Needs           *needs,
            const RlxPlan   *plan,
            const RlxTarget *target)
{
  for (guint i = 0; i < plan->buffers->len; i++)
    needs->buffer = MAX (needs->buffer, g_array_index (plan->buffers, RlxBuffer, i).size);
  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);
      guint n_storage = 0;

      needs->f16 |= strstr (step->wgsl, "enable f16;") != NULL;
      needs->subgroups |= strstr (step->wgsl, "enable subgroups;") != NULL;
      needs->packed_dot |= strstr (step->wgsl, "dot4I8Packed") != NULL || strstr (step->wgsl, "dot4U8Packed") != NULL;
      needs->other |= strstr (step->wgsl, "enable chromium") != NULL || strstr (step->wgsl, "enable subgroup_size_control") != NULL;
      for (guint j = 0; j < step->bindings->len; j++)
        add_binding (needs, &g_array_index (step->bindings, RlxStepBinding, j), &n_storage);
      needs->storage_buffers = MAX (needs->storage_buffers, n_storage);
      needs->invocations = MAX (needs->invocations, step->workgroup_size);
      for (guint j = 0; j < 3; j++)
        needs->workgroups = MAX (needs->workgroups, step->grid[j]);
      /* The size is only in the WGSL, so require the target's limit. */
      if (strstr (step->wgsl, "var<workgroup>") != NULL)
        needs->workgroup_storage = target->limits.max_workgroup_storage;
    }
}

static void
append_needs (GString         *out,
              const Needs     *needs,
              const RlxTarget *target)
{
  const RlxLimits *limits = &target->limits;

  g_string_append_printf (out, "\"needs\":{\"features\":[%s%s%s],\"languageFeatures\":[%s],\"subgroupSize\":%u,\n\"limits\":{",
                          needs->f16 ? "\"shader-f16\"" : "", needs->f16 && needs->subgroups ? "," : "", needs->subgroups ? "\"subgroups\"" : "",
                          needs->packed_dot ? "\"packed_4x8_integer_dot_product\"" : "", needs->subgroups ? target->subgroup_size : 0);
  g_string_append_printf (out, "\"maxBufferSize\":%" G_GUINT64_FORMAT ",\"maxStorageBufferBindingSize\":%" G_GUINT64_FORMAT ","
                               "\"maxUniformBufferBindingSize\":%" G_GUINT64_FORMAT ",\"maxStorageBuffersPerShaderStage\":%u,",
                          MAX (needs->buffer, 16), needs->binding, needs->uniform, needs->storage_buffers);
  g_string_append_printf (out, "\"maxComputeWorkgroupStorageSize\":%u,\"maxComputeInvocationsPerWorkgroup\":%u,\"maxComputeWorkgroupSizeX\":%u,"
                               "\"maxComputeWorkgroupsPerDimension\":%u,",
                          needs->workgroup_storage, needs->invocations, needs->invocations, needs->workgroups);
  g_string_append_printf (out, "\"minStorageBufferOffsetAlignment\":%u,\"minUniformBufferOffsetAlignment\":%u}},\n",
                          limits->storage_offset_alignment, limits->uniform_offset_alignment);
}

/* ---- steps ----------------------------------------------------------------------------- */

static const RlxSlot *
get_slot (const RlxPlan *plan,
          guint          index)
{
  return &g_array_index (plan->slots, RlxSlot, index);
}

static guint
find_shader (RlxWebShaders *shaders,
             const char    *text)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (shaders->indices, text));

  if (index == 0)
    {
      char *copy = g_strdup (text);

      g_ptr_array_add (shaders->texts, copy);
      index = shaders->texts->len;
      g_hash_table_insert (shaders->indices, copy, GUINT_TO_POINTER (index));
    }
  return index - 1;
}

static void
append_step (GString         *out,
             const RlxPlan   *plan,
             const RlxStep   *step,
             const RlxTarget *target,
             RlxWebShaders   *shaders)
{
  static const char *const kinds[] = { [RLX_GPU_BINDING_READ] = "read", [RLX_GPU_BINDING_READ_WRITE] = "write" };
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (out, "\n{\"op\":");
  rlx_web_append_string (out, step->op);
  g_string_append (out, ",\"label\":");
  rlx_web_append_string (out, step->label);
  g_string_append (out, ",\"kernel\":");
  rlx_web_append_string (out, step->kernel);
  g_string_append_printf (out, ",\"shader\":%u,\"grid\":[%u,%u,%u],\"bindings\":[", find_shader (shaders, step->wgsl),
                          step->grid[0], step->grid[1], step->grid[2]);
  for (guint i = 0; i < step->bindings->len; i++)
    {
      const RlxStepBinding *binding = &g_array_index (step->bindings, RlxStepBinding, i);

      if (i > 0)
        g_string_append_c (out, ',');
      if (binding->slot == G_MAXUINT)
        g_string_append_printf (out, "[\"params\",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]", step->param_offset, binding->size);
      else
        g_string_append_printf (out, "[\"%s\",%u,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]", kinds[binding->kind],
                                get_slot (plan, binding->slot)->buffer, get_slot (plan, binding->slot)->offset + binding->offset, binding->size);
    }
  g_string_append_printf (out, "],\"params\":[%" G_GUINT64_FORMAT, step->param_offset);
  for (guint i = 0; i < step->params->len; i++)
    g_string_append_printf (out, ",%u", g_array_index (step->params, RlxParam, i).bits);
  g_string_append_printf (out, "],\"ms\":%s}",
                          g_ascii_formatd (text, sizeof text, "%.4g", rlx_plan_estimate_step (plan, step, &target->speeds) * 1e3));
}

/* ---- values ---------------------------------------------------------------------------- */

static void
append_place (GString       *out,
              const RlxSlot *slot,
              guint64        size)
{
  g_string_append_printf (out, "[%u,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]", slot->buffer, slot->offset, size);
}

static void
append_places (GString       *out,
               const char    *name,
               const RlxPlan *plan,
               const GArray  *ports)
{
  g_string_append_printf (out, "\"%s\":[", name);
  for (guint i = 0; i < ports->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (ports, RlxPlanPort, i);

      if (i > 0)
        g_string_append_c (out, ',');
      append_place (out, get_slot (plan, port->slot), rlx_type_n_device_bytes (&port->type));
    }
  g_string_append (out, "],\n");
}

/* Adds a value as the device stores it, with its place in a buffer. */
static gboolean
add_value (GString       *out,
           const RlxSlot *slot,
           guint64        offset,
           const char    *prefix,
           const char    *name,
           RlxTensor     *tensor,
           RlxWebFolder  *folder,
           GError       **error)
{
  g_autoptr(GBytes) bytes = rlx_tensor_to_device (tensor, name, error);
  g_autoptr(GBytes) packed = bytes != NULL ? rlx_slot_pack (slot, bytes) : NULL;

  return packed != NULL && rlx_web_folder_add (folder, packed, offset, prefix, out, error);
}

static gboolean
append_uploads (GString       *out,
                const RlxPlan *plan,
                GHashTable    *parameters,
                RlxWebFolder  *folder,
                GError       **error)
{
  g_string_append (out, "\"uploads\":[");
  for (guint i = 0; i < plan->constants->len; i++)
    {
      const RlxSlot *slot = get_slot (plan, g_array_index (plan->constants, guint, i));
      g_autofree char *buffer = g_strdup_printf ("%u,", slot->buffer);

      if (!add_value (out, slot, slot->offset, buffer, "a constant", slot->leaf->data, folder, error))
        return FALSE;
    }
  for (guint i = 0; i < plan->parameters->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->parameters, RlxPlanPort, i);
      const RlxSlot *slot = get_slot (plan, port->slot);
      RlxTensor *value = g_hash_table_lookup (parameters, port->name);
      g_autofree char *buffer = g_strdup_printf ("%u,", slot->buffer);

      if (value != NULL && !add_value (out, slot, slot->offset, buffer, port->name, value, folder, error))
        return FALSE;
    }
  g_string_append (out, "],\n");
  return TRUE;
}

static void
append_parameters (GString       *out,
                   const RlxPlan *plan,
                   GHashTable    *parameters)
{
  g_string_append (out, "\"parameters\":[");
  for (guint i = 0; i < plan->parameters->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->parameters, RlxPlanPort, i);
      const RlxSlot *slot = get_slot (plan, port->slot);
      const RlxPacking *packing = &slot->packing;

      g_string_append (out, i > 0 ? ",\n{\"at\":" : "\n{\"at\":");
      append_place (out, slot, packing->width > 0 ? slot->size : rlx_type_n_device_bytes (&port->type));
      if (packing->width > 0)
        g_string_append_printf (out, ",\"packing\":[%u,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]",
                                packing->width, packing->n_k, packing->n_n, packing->stride_k, packing->stride_n);
      g_string_append_printf (out, ",\"given\":%s}", g_hash_table_contains (parameters, port->name) ? "true" : "false");
    }
  g_string_append (out, "],\n");
}

static gboolean
is_zero (GBytes *bytes)
{
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);

  return size == 0 || (data[0] == 0 && memcmp (data, data + 1, size - 1) == 0);
}

/* Most states start as zeros and need no file. */
static gboolean
append_states (GString       *out,
               const RlxPlan *plan,
               RlxWebFolder  *folder,
               GError       **error)
{
  g_string_append (out, "\"states\":[");
  for (guint i = 0; i < plan->states->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->states, RlxPlanPort, i);
      const RlxSlot *slot = get_slot (plan, port->slot);

      g_string_append (out, i > 0 ? ",\n{\"at\":" : "\n{\"at\":");
      append_place (out, slot, rlx_type_n_device_bytes (&port->type));
      g_string_append (out, ",\"initial\":[");
      if (!is_zero (rlx_tensor_get_bytes (slot->leaf->data)) &&
          !add_value (out, slot, 0, "", port->name, slot->leaf->data, folder, error))
        return FALSE;
      g_string_append (out, "]}");
    }
  g_string_append (out, "],\n");
  return TRUE;
}

static void
append_copies (GString       *out,
               const RlxPlan *plan)
{
  g_string_append (out, "\"copies\":[");
  for (guint i = 0; i < plan->copies->len; i++)
    {
      const RlxSlotCopy *copy = &g_array_index (plan->copies, RlxSlotCopy, i);
      const RlxSlot *source = get_slot (plan, copy->source), *target = get_slot (plan, copy->target);

      g_string_append_printf (out, "%s[%u,%" G_GUINT64_FORMAT ",%u,%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]", i > 0 ? "," : "",
                              source->buffer, source->offset, target->buffer, target->offset, target->size);
    }
  g_string_append (out, "]");
}

guint64
rlx_web_count_bytes (const RlxPlan *plan,
                     GHashTable    *parameters)
{
  guint64 n = 0;

  for (guint i = 0; i < plan->constants->len; i++)
    n += get_slot (plan, g_array_index (plan->constants, guint, i))->size;
  for (guint i = 0; i < plan->parameters->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->parameters, RlxPlanPort, i);

      if (g_hash_table_contains (parameters, port->name))
        n += get_slot (plan, port->slot)->size;
    }
  return n;
}

gboolean
rlx_web_append_plan (GString         *out,
                     const RlxPlan   *plan,
                     const RlxTarget *target,
                     GHashTable      *parameters,
                     RlxWebShaders   *shaders,
                     RlxWebFolder    *folder,
                     GError         **error)
{
  Needs needs = { 0 };

  find_needs (&needs, plan, target);
  /* rlx_web_restrict() has prevented this. */
  if (needs.other || plan->f16_weights->len > 0 || plan->reports->len > 0)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED,
                   "the plan for “%s” has kernels that browsers do not support", target->name);
      return FALSE;
    }

  g_string_append (out, "{\"target\":");
  rlx_web_append_string (out, target->name);
  g_string_append (out, ",\n");
  append_needs (out, &needs, target);
  g_string_append (out, "\"buffers\":[");
  for (guint i = 0; i < plan->buffers->len; i++)
    g_string_append_printf (out, "%s%" G_GUINT64_FORMAT, i > 0 ? "," : "", MAX (g_array_index (plan->buffers, RlxBuffer, i).size, 16));
  g_string_append_printf (out, "],\n\"paramsSize\":%" G_GUINT64_FORMAT ",\"prologue\":%u,\n\"steps\":[", MAX (plan->params_size, 16), plan->n_prologue);
  for (guint i = 0; i < plan->steps->len; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      append_step (out, plan, g_ptr_array_index (plan->steps, i), target, shaders);
    }
  g_string_append (out, "],\n");
  append_places (out, "inputs", plan, plan->inputs);
  append_places (out, "outputs", plan, plan->outputs);
  append_parameters (out, plan, parameters);
  if (!append_uploads (out, plan, parameters, folder, error) || !append_states (out, plan, folder, error))
    return FALSE;
  append_copies (out, plan);
  g_string_append (out, "}");
  return TRUE;
}
