/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "target/rlx-target-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

/* A workgroup of 1,024 invocations in subgroups of 32; also the limit of Mesa's lavapipe. */
#define MAX_SUBGROUPS 32
/* What RLX_DEBUG=small-bindings claims, so that tests split small tensors. */
#define SMALL_BINDING (1024 * 1024)
/* The smallest limit that a program may set. */
#define MIN_BUFFER_LIMIT SMALL_BINDING

void
rlx_speeds_guess (RlxSpeeds     *speeds,
                  RlxAdapterType type)
{
  static const RlxSpeeds discrete = {
    .flops = 2e12, .flops_f16 = 2e12, .bandwidth = 2e11, .transfer = 5e9, .dispatch_time = 5e-6, .round_trip_time = 1e-4,
  };
  static const RlxSpeeds integrated = {
    .flops = 2e11, .flops_f16 = 2e11, .bandwidth = 2e10, .transfer = 3e9, .dispatch_time = 5e-6, .round_trip_time = 1e-4,
  };
  static const RlxSpeeds cpu = {
    .flops = 2e10, .flops_f16 = 2e10, .bandwidth = 4e9, .transfer = 2e9, .dispatch_time = 1e-5, .round_trip_time = 1e-4,
  };

  *speeds = type == RLX_ADAPTER_TYPE_DISCRETE ? discrete : type == RLX_ADAPTER_TYPE_CPU ? cpu : integrated;
}

void
rlx_target_set_class (RlxTarget     *self,
                      RlxAdapterType type)
{
  rlx_speeds_guess (&self->speeds, type);
  /* AMD's and NVIDIA's cards have this many, and a core has room for two workgroups of 256 that use all of
   * them. Less is known about others: with fewer than 128, compilers still manage what we count as 140. */
  self->registers = type == RLX_ADAPTER_TYPE_DISCRETE ? 255 : 140;
  self->max_subgroups = MAX_SUBGROUPS;

  if (type == RLX_ADAPTER_TYPE_CPU)
    {
      /* Mesa's lavapipe, measured: eight lanes fill a core, a barrier turns a kernel into coroutines, and a
       * non-uniform load is done element by element. */
      self->lanes = 8;
      self->busy_invocations = 16;
      self->busy_workgroups = 4;
      self->split_workgroups = 16;
      self->copy_workgroups = 32;
      return;
    }
  self->lanes = 32;
  self->busy_invocations = 2048;
  self->busy_workgroups = type == RLX_ADAPTER_TYPE_DISCRETE ? 96 : 24;
  self->split_workgroups = 256;
  self->copy_workgroups = 1024;
  self->barriers_are_cheap = TRUE;
  self->workgroup_memory_is_fast = TRUE;
  self->loads_coalesce = TRUE;
  self->matrices_are_fast = TRUE;
}

static void
remove_features (RlxTarget        *self,
                 RlxDeviceFeatures features)
{
  self->features &= ~features;
  if (!(self->features & RLX_DEVICE_FEATURES_SUBGROUPS))
    {
      self->features &= ~RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;
      self->subgroup_sizes_can_be_set = FALSE;
    }
  if (!(self->features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX))
    self->n_matrices = 0;
}

void
rlx_target_apply_debug (RlxTarget *self)
{
  if (RLX_DEBUG_CHECK (NO_F16))
    remove_features (self, RLX_DEVICE_FEATURES_F16);
  if (RLX_DEBUG_CHECK (NO_SUBGROUPS))
    remove_features (self, RLX_DEVICE_FEATURES_SUBGROUPS);
  if (RLX_DEBUG_CHECK (NO_MATRIX))
    remove_features (self, RLX_DEVICE_FEATURES_SUBGROUP_MATRIX);
  if (RLX_DEBUG_CHECK (NO_DOT))
    remove_features (self, RLX_DEVICE_FEATURES_PACKED_DOT);
  if (RLX_DEBUG_CHECK (SMALL_BINDINGS))
    self->limits.max_storage_binding_size = MIN (self->limits.max_storage_binding_size, SMALL_BINDING);
}

gboolean
rlx_target_restrict (RlxTarget        *self,
                     RlxDeviceFeatures features,
                     guint64           buffer_limit,
                     GError          **error)
{
  const RlxDeviceFeatures known = RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS |
                                  RLX_DEVICE_FEATURES_SUBGROUP_MATRIX | RLX_DEVICE_FEATURES_PACKED_DOT;

  if (features & ~known)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the features to avoid are 0x%x; only f16, subgroups, subgroup-matrix and packed-dot can be avoided, 0x%x",
                   (guint) features, (guint) known);
      return FALSE;
    }
  if (buffer_limit > 0 && buffer_limit < MIN_BUFFER_LIMIT)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the limit of a buffer is %" G_GUINT64_FORMAT " bytes; it must be 0 for none, or at least %d", buffer_limit, MIN_BUFFER_LIMIT);
      return FALSE;
    }

  remove_features (self, features);
  if (buffer_limit > 0)
    {
      self->limits.max_buffer_size = MIN (self->limits.max_buffer_size, buffer_limit);
      self->limits.max_storage_binding_size = MIN (self->limits.max_storage_binding_size, buffer_limit);
    }
  return TRUE;
}

/* ---- for programs ------------------------------------------------------------------------ */

/* "f16 8x16x16 f32": the operands, their sizes and the result. */
static GVariant *
matrices_to_variant (const RlxTarget *self)
{
  static const char *const components[] = { "f32", "f16", "u32", "i32", "u8", "i8" };
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; i < self->n_matrices; i++)
    {
      const RlxMatrixShape *config = &self->matrices[i];
      g_autofree char *text = g_strdup_printf ("%s %ux%ux%u %s", components[config->component], config->m, config->n, config->k,
                                               components[config->result]);

      g_variant_builder_add (&builder, "s", text);
    }
  return g_variant_builder_end (&builder);
}

GVariant *
rlx_target_limits_to_variant (const RlxTarget *self)
{
  const RlxLimits *limits = &self->limits;
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "max-buffer-size", "t", limits->max_buffer_size);
  g_variant_dict_insert (&dict, "max-storage-binding-size", "t", limits->max_storage_binding_size);
  g_variant_dict_insert (&dict, "max-storage-buffers", "u", limits->max_storage_buffers);
  g_variant_dict_insert (&dict, "max-uniform-binding-size", "u", limits->max_uniform_binding_size);
  g_variant_dict_insert (&dict, "storage-offset-alignment", "u", limits->storage_offset_alignment);
  g_variant_dict_insert (&dict, "uniform-offset-alignment", "u", limits->uniform_offset_alignment);
  g_variant_dict_insert (&dict, "max-workgroup-storage", "u", limits->max_workgroup_storage);
  g_variant_dict_insert (&dict, "max-invocations", "u", limits->max_invocations);
  g_variant_dict_insert (&dict, "max-workgroup-size-x", "u", limits->max_workgroup_size[0]);
  g_variant_dict_insert (&dict, "max-workgroup-size-y", "u", limits->max_workgroup_size[1]);
  g_variant_dict_insert (&dict, "max-workgroup-size-z", "u", limits->max_workgroup_size[2]);
  g_variant_dict_insert (&dict, "max-workgroups", "u", limits->max_workgroups);
  g_variant_dict_insert (&dict, "max-immediate-size", "u", limits->max_immediate_size);
  g_variant_dict_insert (&dict, "min-subgroup-size", "u", self->subgroup_min);
  g_variant_dict_insert (&dict, "max-subgroup-size", "u", self->subgroup_max);
  g_variant_dict_insert_value (&dict, "matrices", matrices_to_variant (self));

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* ---- standing in for a device ------------------------------------------------------------ */

static const struct
{
  RlxDeviceFeatures feature;
  const char *name;
} compute_features[] = {
  { RLX_DEVICE_FEATURES_F16, "f16" },
  { RLX_DEVICE_FEATURES_SUBGROUPS, "subgroups" },
  { RLX_DEVICE_FEATURES_PACKED_DOT, "packed dot products" },
};

/* The smaller limit; reports it if it is that of the device. */
static guint64
lower_limit (GString    *lowered,
             const char *name,
             guint64     has,
             guint64     wants)
{
  if (has < wants)
    g_string_append_printf (lowered, "; %s %" G_GUINT64_FORMAT " instead of %" G_GUINT64_FORMAT, name, has, wants);
  return MIN (has, wants);
}

static void
lower_limits (GString         *lowered,
              RlxLimits       *limits,
              const RlxLimits *wants)
{
#define LOWER(field, name) limits->field = (typeof (limits->field)) lower_limit (lowered, name, limits->field, wants->field)
  LOWER (max_buffer_size, "maxBufferSize");
  LOWER (max_storage_binding_size, "maxStorageBufferBindingSize");
  LOWER (max_storage_buffers, "maxStorageBuffersPerShaderStage");
  LOWER (max_workgroup_storage, "maxComputeWorkgroupStorageSize");
  LOWER (max_invocations, "maxComputeInvocationsPerWorkgroup");
  LOWER (max_workgroup_size[0], "maxComputeWorkgroupSizeX");
  LOWER (max_workgroup_size[1], "maxComputeWorkgroupSizeY");
  LOWER (max_workgroup_size[2], "maxComputeWorkgroupSizeZ");
  LOWER (max_workgroups, "maxComputeWorkgroupsPerDimension");
#undef LOWER
  limits->storage_offset_alignment = MAX (limits->storage_offset_alignment, wants->storage_offset_alignment);
  limits->uniform_offset_alignment = MAX (limits->uniform_offset_alignment, wants->uniform_offset_alignment);
}

gboolean
rlx_target_pretend (RlxTarget       *device,
                    const RlxTarget *named,
                    GError         **error)
{
  const RlxDeviceFeatures other = RLX_DEVICE_FEATURES_TIMESTAMPS | RLX_DEVICE_FEATURES_MAPPED_STORAGE;
  g_autoptr(GString) missing = g_string_new (NULL), changed = g_string_new (NULL);
  RlxTarget result = *named;

  for (guint i = 0; i < G_N_ELEMENTS (compute_features); i++)
    if (named->features & ~device->features & compute_features[i].feature)
      g_string_append_printf (missing, "%s%s", missing->len > 0 ? ", " : "", compute_features[i].name);
  if (missing->len > 0)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_UNSUPPORTED,
                   "The device cannot stand in for the target “%s”: it lacks %s", named->name, missing->str);
      return FALSE;
    }

  result.limits = device->limits;
  lower_limits (changed, &result.limits, &named->limits);
  /* Features that do not concern computing remain those of the device, and so do subgroup sizes. */
  result.features = (named->features & device->features) | (device->features & other);
  result.subgroup_min = device->subgroup_min;
  result.subgroup_max = device->subgroup_max;
  result.subgroup_size = device->subgroup_size;
  result.subgroup_sizes_can_be_set = named->subgroup_sizes_can_be_set && device->subgroup_sizes_can_be_set &&
                                     (result.features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0;
  result.max_subgroups = MIN (named->max_subgroups, device->max_subgroups);
  /* Kernels have as many registers as with the smallest subgroups of the named target. */
  if (result.subgroup_sizes_can_be_set)
    result.registers = rlx_target_get_registers (named, named->subgroup_min);
  memcpy (result.matrices, device->matrices, sizeof result.matrices);
  result.n_matrices = result.features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX ? device->n_matrices : 0;
  if (result.subgroup_size != named->subgroup_size)
    g_string_append_printf (changed, "; subgroups of %u instead of %u", result.subgroup_size, named->subgroup_size);
  RLX_NOTE (DEVICE, "standing in for the target “%s”%s", named->name, changed->str);
  *device = result;
  return TRUE;
}
