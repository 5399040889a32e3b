/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-gpu-internal.h"
#include "util/rlx-os-private.h"

#include <string.h>

/* Longer than any adapter's name; a selector beyond it is a mistake. */
#define SELECTOR_MAX 256

/* Asking for an adapter loads drivers, which can be slow from a cold disk. */
#define ADAPTER_TIMEOUT_NS (G_GUINT64_CONSTANT (30) * 1000000000)

static const struct
{
  WGPUBackendType type;
  const char *name;
  const char *alias;
  gboolean by_default;
} backends[] = {
  { WGPUBackendType_D3D12, "d3d12", "dx12", RLX_OS_IS_WINDOWS },
  { WGPUBackendType_Metal, "metal", "mtl", RLX_OS_IS_MACOS },
  { WGPUBackendType_Vulkan, "vulkan", "vk", TRUE },
  { WGPUBackendType_D3D11, "d3d11", "dx11", FALSE },
  { WGPUBackendType_OpenGL, "opengl", "gl", FALSE },
  { WGPUBackendType_OpenGLES, "opengles", "gles", FALSE },
};

typedef struct
{
  RlxGpuAdapterInfo *info;
  WGPUAdapter adapter;
} Found;

static void
found_clear (gpointer data)
{
  Found *found = data;

  g_clear_pointer (&found->info, rlx_gpu_adapter_info_unref);
  g_clear_pointer (&found->adapter, wgpuAdapterRelease);
}

/* ---- plain facts ---- */

RlxGpuAdapterInfo *
rlx_gpu_adapter_info_ref (RlxGpuAdapterInfo *info)
{
  g_return_val_if_fail (info != NULL, NULL);

  g_atomic_ref_count_inc (&info->ref_count);
  return info;
}

void
rlx_gpu_adapter_info_unref (RlxGpuAdapterInfo *info)
{
  g_return_if_fail (info != NULL);

  if (!g_atomic_ref_count_dec (&info->ref_count))
    return;

  g_free (info->name);
  g_free (info->vendor);
  g_free (info->architecture);
  g_free (info->driver);
  g_free (info->backend);
  g_free (info);
}

RlxGpuAdapterInfo *
rlx_gpu_adapter_info_copy (const RlxGpuAdapterInfo *info)
{
  RlxGpuAdapterInfo *copy = g_memdup2 (info, sizeof *info);

  g_atomic_ref_count_init (&copy->ref_count);
  copy->name = g_strdup (info->name);
  copy->vendor = g_strdup (info->vendor);
  copy->architecture = g_strdup (info->architecture);
  copy->driver = g_strdup (info->driver);
  copy->backend = g_strdup (info->backend);

  return copy;
}

void
rlx_gpu_limits_init (RlxLimits        *limits,
                     const WGPULimits *from)
{
  limits->max_buffer_size = from->maxBufferSize;
  limits->max_storage_binding_size = from->maxStorageBufferBindingSize;
  limits->max_storage_buffers = from->maxStorageBuffersPerShaderStage;
  limits->max_uniform_binding_size = (guint32) MIN (from->maxUniformBufferBindingSize, G_MAXUINT32);
  limits->storage_offset_alignment = from->minStorageBufferOffsetAlignment;
  limits->uniform_offset_alignment = from->minUniformBufferOffsetAlignment;
  limits->max_workgroup_storage = from->maxComputeWorkgroupStorageSize;
  limits->max_invocations = from->maxComputeInvocationsPerWorkgroup;
  limits->max_workgroup_size[0] = from->maxComputeWorkgroupSizeX;
  limits->max_workgroup_size[1] = from->maxComputeWorkgroupSizeY;
  limits->max_workgroup_size[2] = from->maxComputeWorkgroupSizeZ;
  limits->max_workgroups = from->maxComputeWorkgroupsPerDimension;
  limits->max_immediate_size = from->maxImmediateSize;
}

static RlxAdapterType
adapter_type (WGPUAdapterType type)
{
  switch (type)
    {
    case WGPUAdapterType_DiscreteGPU:
      return RLX_ADAPTER_TYPE_DISCRETE;
    case WGPUAdapterType_IntegratedGPU:
      return RLX_ADAPTER_TYPE_INTEGRATED;
    case WGPUAdapterType_CPU:
      return RLX_ADAPTER_TYPE_CPU;
    default:
      return RLX_ADAPTER_TYPE_UNKNOWN;
    }
}

static gboolean
component_type (WGPUSubgroupMatrixComponentType type,
                RlxComponent                   *component)
{
  switch (type)
    {
    case WGPUSubgroupMatrixComponentType_F32:
      *component = RLX_COMPONENT_F32;
      return TRUE;
    case WGPUSubgroupMatrixComponentType_F16:
      *component = RLX_COMPONENT_F16;
      return TRUE;
    case WGPUSubgroupMatrixComponentType_U32:
      *component = RLX_COMPONENT_U32;
      return TRUE;
    case WGPUSubgroupMatrixComponentType_I32:
      *component = RLX_COMPONENT_I32;
      return TRUE;
    case WGPUSubgroupMatrixComponentType_U8:
      *component = RLX_COMPONENT_U8;
      return TRUE;
    case WGPUSubgroupMatrixComponentType_I8:
      *component = RLX_COMPONENT_I8;
      return TRUE;
    default:
      return FALSE;
    }
}

static const char *
backend_name (WGPUBackendType type)
{
  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    if (backends[i].type == type)
      return backends[i].name;

  return NULL;
}

/* The features of an adapter, without those that RLX_DEBUG removes. */
static RlxDeviceFeatures
adapter_features (WGPUAdapter adapter)
{
  RlxDebugFlags debug = rlx_debug_get_flags ();
  RlxDeviceFeatures features = RLX_DEVICE_FEATURES_NONE;

  if (wgpuAdapterHasFeature (adapter, WGPUFeatureName_ShaderF16))
    features |= RLX_DEVICE_FEATURES_F16;

  if (wgpuAdapterHasFeature (adapter, WGPUFeatureName_Subgroups))
    features |= RLX_DEVICE_FEATURES_SUBGROUPS;

  if (wgpuAdapterHasFeature (adapter, WGPUFeatureName_ChromiumExperimentalSubgroupMatrix) &&
      (features & RLX_DEVICE_FEATURES_SUBGROUPS))
    features |= RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;

  if (wgpuAdapterHasFeature (adapter, WGPUFeatureName_TimestampQuery) &&
      !(debug & RLX_DEBUG_NO_TIMESTAMPS))
    features |= RLX_DEVICE_FEATURES_TIMESTAMPS;

  if (wgpuAdapterHasFeature (adapter, WGPUFeatureName_HostMappedPointer) &&
      !(debug & RLX_DEBUG_NO_MAP))
    features |= RLX_DEVICE_FEATURES_MAPPED_STORAGE;

  /* A feature of the language, which all adapters of the instance share. */
  if (wgpuInstanceHasWGSLLanguageFeature (rlx_gpu_get_instance (NULL), WGPUWGSLLanguageFeatureName_Packed4x8IntegerDotProduct))
    features |= RLX_DEVICE_FEATURES_PACKED_DOT;

  return features;
}

RlxGpuAdapterInfo *
rlx_gpu_adapter_describe (WGPUAdapter adapter)
{
  WGPUAdapterInfo from = WGPU_ADAPTER_INFO_INIT;
  WGPUAdapterPropertiesMemoryHeaps heaps = WGPU_ADAPTER_PROPERTIES_MEMORY_HEAPS_INIT;
  WGPUAdapterPropertiesSubgroupMatrixConfigs matrices = WGPU_ADAPTER_PROPERTIES_SUBGROUP_MATRIX_CONFIGS_INIT;
  WGPULimits limits = WGPU_LIMITS_INIT;
  WGPUChainedStruct **next = &from.nextInChain;
  RlxGpuAdapterInfo *info;
  const char *backend;
  gboolean has_heaps, has_matrices;

  has_heaps = wgpuAdapterHasFeature (adapter, WGPUFeatureName_AdapterPropertiesMemoryHeaps);
  has_matrices = wgpuAdapterHasFeature (adapter, WGPUFeatureName_ChromiumExperimentalSubgroupMatrix);

  if (has_heaps)
    {
      *next = &heaps.chain;
      next = &heaps.chain.next;
    }
  if (has_matrices)
    {
      *next = &matrices.chain;
      next = &matrices.chain.next;
    }

  if (wgpuAdapterGetInfo (adapter, &from) != WGPUStatus_Success)
    return NULL;

  backend = backend_name (from.backendType);
  if (backend == NULL ||
      wgpuAdapterGetLimits (adapter, &limits) != WGPUStatus_Success)
    {
      wgpuAdapterInfoFreeMembers (from);
      return NULL;
    }

  info = g_new0 (RlxGpuAdapterInfo, 1);
  g_atomic_ref_count_init (&info->ref_count);
  info->name = rlx_gpu_string (from.device);
  info->vendor = rlx_gpu_string (from.vendor);
  info->architecture = rlx_gpu_string (from.architecture);
  info->driver = rlx_gpu_string (from.description);
  info->backend = g_strdup (backend);
  info->vendor_id = from.vendorID;
  info->device_id = from.deviceID;
  info->type = adapter_type (from.adapterType);
  info->target.features = adapter_features (adapter);
  info->target.subgroup_min = from.subgroupMinSize;
  info->target.subgroup_max = from.subgroupMaxSize;
  info->target.subgroup_sizes_can_be_set = (info->target.features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0 &&
                                           wgpuAdapterHasFeature (adapter, WGPUFeatureName_SubgroupSizeControl);
  rlx_gpu_limits_init (&info->target.limits, &limits);

  if (has_heaps)
    {
      for (gsize i = 0; i < heaps.heapCount; i++)
        if (heaps.heapInfo[i].properties & WGPUHeapProperty_DeviceLocal)
          info->memory_size += heaps.heapInfo[i].size;
      wgpuAdapterPropertiesMemoryHeapsFreeMembers (heaps);
    }

  if (has_matrices)
    {
      for (gsize i = 0; i < matrices.configCount && info->target.n_matrices < RLX_MAX_MATRIX_SHAPES; i++)
        {
          const WGPUSubgroupMatrixConfig *config = &matrices.configs[i];
          RlxMatrixShape *to = &info->target.matrices[info->target.n_matrices];

          if (component_type (config->componentType, &to->component) &&
              component_type (config->resultComponentType, &to->result))
            {
              to->m = config->M;
              to->n = config->N;
              to->k = config->K;
              info->target.n_matrices++;
            }
        }
      wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers (matrices);
    }

  rlx_gpu_adapter_info_set_traits (info);
  rlx_target_apply_debug (&info->target);

  wgpuAdapterInfoFreeMembers (from);

  return info;
}

/* ---- the instance ---- */

/* One for the process, made when first needed and never released: it outlives every
 * device, and loading the drivers is most of the cost of opening one.
 * wgpuInstanceProcessEvents() is never called on it, so that no thread runs the
 * callbacks of another thread's futures. */
WGPUInstance
rlx_gpu_get_instance (GError **error)
{
  static gsize initialized = 0;
  static WGPUInstance instance = NULL;

  if (g_once_init_enter (&initialized))
    {
      static const WGPUInstanceFeatureName features[] = { WGPUInstanceFeatureName_TimedWaitAny };
      static const char * const enabled[] = { "allow_unsafe_apis" };
      WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
      WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;

      toggles.enabledToggleCount = G_N_ELEMENTS (enabled);
      toggles.enabledToggles = enabled;
      descriptor.nextInChain = &toggles.chain;
      descriptor.requiredFeatureCount = G_N_ELEMENTS (features);
      descriptor.requiredFeatures = features;

      rlx_gpu_watch_fork ();
      instance = wgpuCreateInstance (&descriptor);
      g_once_init_leave (&initialized, 1);
    }

  if (instance == NULL)
    g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                         "WebGPU could not be started");

  return instance;
}

gboolean
rlx_gpu_check_secure (GError **error)
{
  if (rlx_os_is_privileged ())
    {
      g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                           "A set-uid process cannot open a device: GPU drivers trust their environment");
      return FALSE;
    }

  return TRUE;
}

/* ---- listing ---- */

static void
on_adapter (WGPURequestAdapterStatus status,
            WGPUAdapter              adapter,
            WGPUStringView           message,
            void                    *userdata1,
            void                    *userdata2 G_GNUC_UNUSED)
{
  WGPUAdapter *slot = userdata1;

  if (status == WGPURequestAdapterStatus_Success)
    {
      *slot = adapter;
    }
  else
    {
      g_autofree char *text = rlx_gpu_string (message);

      RLX_NOTE (DEVICE, "no adapter: %s", text);
    }
}

static WGPUAdapter
ask_for_adapter (WGPUInstance        instance,
                 WGPUBackendType     backend,
                 WGPUPowerPreference power,
                 gboolean            fallback)
{
  static const char * const enabled[] = { "allow_unsafe_apis", RLX_GPU_TOGGLE_F16 };
  WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  WGPURequestAdapterCallbackInfo callback = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;
  /* On the heap, since a late callback would write to it. */
  WGPUAdapter *slot = g_new0 (WGPUAdapter, 1);
  WGPUAdapter adapter;

  toggles.enabledToggleCount = G_N_ELEMENTS (enabled);
  toggles.enabledToggles = enabled;
  options.nextInChain = &toggles.chain;
  options.backendType = backend;
  options.powerPreference = power;
  options.forceFallbackAdapter = fallback;

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_adapter;
  callback.userdata1 = slot;

  wait.future = wgpuInstanceRequestAdapter (instance, &options, callback);
  if (wgpuInstanceWaitAny (instance, 1, &wait, ADAPTER_TIMEOUT_NS) != WGPUWaitStatus_Success ||
      !wait.completed)
    return NULL;

  adapter = *slot;
  g_free (slot);
  return adapter;
}

static int
adapter_rank (const RlxGpuAdapterInfo *info)
{
  switch (info->type)
    {
    case RLX_ADAPTER_TYPE_DISCRETE:
      return 0;
    case RLX_ADAPTER_TYPE_INTEGRATED:
      return 1;
    case RLX_ADAPTER_TYPE_UNKNOWN:
      return 2;
    case RLX_ADAPTER_TYPE_CPU:
    default:
      return 3;
    }
}

static gboolean
same_adapter (const RlxGpuAdapterInfo *a,
              const RlxGpuAdapterInfo *b)
{
  return a->vendor_id == b->vendor_id &&
         a->device_id == b->device_id &&
         a->type == b->type &&
         g_str_equal (a->name, b->name) &&
         g_str_equal (a->driver, b->driver) &&
         g_str_equal (a->backend, b->backend);
}

/* Which backends WGPU_BACKEND allows, as a set of indices in the table. */
static gboolean
get_backends (guint   *wanted,
              GError **error)
{
  const char *value = rlx_getenv ("WGPU_BACKEND");
  g_auto (GStrv) names = NULL;

  *wanted = 0;

  if (value == NULL || *value == '\0')
    {
      for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
        if (backends[i].by_default)
          *wanted |= 1u << i;
      return TRUE;
    }

  if (strlen (value) > SELECTOR_MAX || !g_utf8_validate (value, -1, NULL))
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
                   "WGPU_BACKEND is not a list of backends: it is longer than %d bytes or not UTF-8",
                   SELECTOR_MAX);
      return FALSE;
    }

  names = g_strsplit (value, ",", -1);
  for (gsize n = 0; names[n] != NULL; n++)
    {
      const char *name = g_strstrip (names[n]);
      gboolean known = FALSE;

      if (*name == '\0')
        continue;

      for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
        if (g_ascii_strcasecmp (name, backends[i].name) == 0 ||
            g_ascii_strcasecmp (name, backends[i].alias) == 0)
          {
            *wanted |= 1u << i;
            known = TRUE;
          }

      if (!known)
        {
          g_autofree char *quoted = rlx_quote_text (name, -1);

          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
                       "WGPU_BACKEND names %s, which is not a backend; "
                       "there are vulkan, metal, d3d12, d3d11, opengl and opengles", quoted);
          return FALSE;
        }
    }

  if (*wanted == 0)
    {
      g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
                           "WGPU_BACKEND names no backend");
      return FALSE;
    }

  return TRUE;
}

/* The C interface cannot list adapters, so every kind of request is tried, and the
 * answers are told apart by their properties. */
static GArray *
find_adapters (GError **error)
{
  static const struct
  {
    WGPUPowerPreference power;
    gboolean fallback;
  } requests[] = {
    { WGPUPowerPreference_HighPerformance, FALSE },
    { WGPUPowerPreference_LowPower, FALSE },
    { WGPUPowerPreference_Undefined, TRUE },
  };
  g_autoptr (GArray) found = NULL;
  const char *problem = NULL;
  WGPUInstance instance;
  guint wanted;

  if (!rlx_gpu_check_secure (error) || !get_backends (&wanted, error))
    return NULL;

  instance = rlx_gpu_get_instance (error);
  if (instance == NULL)
    return NULL;

  found = g_array_new (FALSE, FALSE, sizeof (Found));
  g_array_set_clear_func (found, found_clear);

  for (gsize i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      if (!(wanted & (1u << i)))
        continue;

      if (backends[i].type == WGPUBackendType_Vulkan)
        {
          problem = rlx_gpu_vulkan_problem ();
          if (problem != NULL)
            continue;
        }

      for (gsize w = 0; w < G_N_ELEMENTS (requests); w++)
        {
          Found one = { NULL, NULL };
          gboolean seen = FALSE;
          guint at = 0;

          one.adapter = ask_for_adapter (instance, backends[i].type,
                                         requests[w].power, requests[w].fallback);
          if (one.adapter == NULL)
            continue;

          /* NULL also for the Null backend, which Dawn falls back to when
           * there is no driver and which computes nothing. */
          one.info = rlx_gpu_adapter_describe (one.adapter);
          if (one.info == NULL || !g_str_equal (one.info->backend, backends[i].name))
            {
              found_clear (&one);
              continue;
            }

          for (guint f = 0; f < found->len; f++)
            {
              const Found *other = &g_array_index (found, Found, f);

              if (same_adapter (one.info, other->info))
                seen = TRUE;
              if (adapter_rank (other->info) <= adapter_rank (one.info))
                at = f + 1;
            }

          if (seen)
            found_clear (&one);
          else
            g_array_insert_val (found, at, one);
        }

      if (backends[i].type == WGPUBackendType_Vulkan)
        rlx_gpu_vulkan_done ();
    }

  if (found->len == 0)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER,
                   "No usable GPU driver was found%s%s. Install the Vulkan loader (libvulkan1) and a Vulkan "
                   "driver: that of your GPU's maker, or Mesa's (mesa-vulkan-drivers), which can also "
                   "compute on the CPU. A container or sandbox needs access to /dev/dri",
                   problem != NULL ? ": " : "", problem != NULL ? problem : "");
      return NULL;
    }

  return g_steal_pointer (&found);
}

GPtrArray *
rlx_gpu_list_adapters (GError **error)
{
  g_autoptr (GArray) found = NULL;
  g_autoptr (GPtrArray) list = NULL;

  if (!rlx_gpu_enter (error))
    return NULL;

  found = find_adapters (error);
  if (found == NULL)
    {
      rlx_gpu_leave ();
      return NULL;
    }

  list = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_gpu_adapter_info_unref);
  for (guint i = 0; i < found->len; i++)
    g_ptr_array_add (list, rlx_gpu_adapter_info_ref (g_array_index (found, Found, i).info));

  /* Releases the adapters, which is also a call of Dawn. */
  g_clear_pointer (&found, g_array_unref);
  rlx_gpu_leave ();

  return g_steal_pointer (&list);
}

/* An adapter is consumed by the first device created from it, so every device requests
 * its own. */
WGPUAdapter
rlx_gpu_request_adapter (RlxGpuAdapterInfo *info,
                         GError           **error)
{
  g_autoptr (GArray) found = find_adapters (error);

  if (found == NULL)
    return NULL;

  for (guint i = 0; i < found->len; i++)
    {
      Found *one = &g_array_index (found, Found, i);

      if (same_adapter (one->info, info))
        return g_steal_pointer (&one->adapter);
    }

  g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
               "The adapter “%s” no longer exists", info->name);
  return NULL;
}

/* ---- choosing ---- */

static gboolean
contains (const char *haystack,
          const char *folded)
{
  g_autofree char *other = g_utf8_casefold (haystack, -1);

  return strstr (other, folded) != NULL;
}

/* Also true for a number that no adapter has: "-1" is a mistake, not part of a name. */
static gboolean
selector_is_index (const char *selector)
{
  const char *digits = selector + (*selector == '-' || *selector == '+');

  return *digits != '\0' && digits[strspn (digits, "0123456789")] == '\0';
}

static gboolean
selector_matches (const char              *selector,
                  const char              *folded,
                  const RlxGpuAdapterInfo *info)
{
  if (g_ascii_strcasecmp (selector, "discrete") == 0)
    return info->type == RLX_ADAPTER_TYPE_DISCRETE;
  if (g_ascii_strcasecmp (selector, "integrated") == 0)
    return info->type == RLX_ADAPTER_TYPE_INTEGRATED;
  if (g_ascii_strcasecmp (selector, "cpu") == 0)
    return info->type == RLX_ADAPTER_TYPE_CPU;
  if (g_ascii_strcasecmp (selector, "gpu") == 0)
    return info->type != RLX_ADAPTER_TYPE_CPU;

  return contains (info->name, folded) ||
         contains (info->vendor, folded) ||
         contains (info->driver, folded);
}

RlxGpuAdapterInfo *
rlx_gpu_select_adapter (const char *selector,
                        GError    **error)
{
  g_autoptr (GPtrArray) list = NULL;
  g_autoptr (GString) names = NULL;
  g_autofree char *folded = NULL;
  g_autofree char *quoted = NULL;
  const char *origin = "selector";

  if (selector == NULL)
    {
      selector = rlx_getenv ("RLX_DEVICE");
      origin = "RLX_DEVICE";
    }
  if (selector != NULL && *selector == '\0')
    selector = NULL;

  if (selector != NULL &&
      (strlen (selector) > SELECTOR_MAX || !g_utf8_validate (selector, -1, NULL)))
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
                   "No adapter matches the %s: it is longer than %d bytes or not UTF-8",
                   origin, SELECTOR_MAX);
      return NULL;
    }

  list = rlx_gpu_list_adapters (error);
  if (list == NULL)
    return NULL;

  if (selector == NULL)
    return rlx_gpu_adapter_info_ref (g_ptr_array_index (list, 0));

  if (selector_is_index (selector))
    {
      guint64 index = g_ascii_strtoull (selector, NULL, 10);

      if (*selector != '-' && index < list->len)
        return rlx_gpu_adapter_info_ref (g_ptr_array_index (list, index));
    }
  else
    {
      folded = g_utf8_casefold (selector, -1);
      for (guint i = 0; i < list->len; i++)
        if (selector_matches (selector, folded, g_ptr_array_index (list, i)))
          return rlx_gpu_adapter_info_ref (g_ptr_array_index (list, i));
    }

  names = g_string_new (NULL);
  for (guint i = 0; i < list->len; i++)
    {
      const RlxGpuAdapterInfo *info = g_ptr_array_index (list, i);

      g_string_append_printf (names, "%s%u “%s”", i > 0 ? ", " : "", i, info->name);
    }
  quoted = rlx_quote_text (selector, -1);
  g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
               "No adapter matches the %s %s; there are: %s", origin, quoted, names->str);
  return NULL;
}
