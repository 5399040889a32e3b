/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * An open device: features, limits, callbacks, memory budget, end.
 */
#include "config.h"

#include "rlx-gpu-internal.h"
#include "util/rlx-os-private.h"

#include <string.h>

#define DEVICE_TIMEOUT_NS (G_GUINT64_CONSTANT (30) * 1000000000)
/* Driver messages are only kept to quote them. */
#define MESSAGE_MAX 4096

/* ---- strings ---- */

char *
rlx_gpu_string (WGPUStringView view)
{
  gsize length;

  if (view.data == NULL)
    return g_strdup ("");

  length = view.length == WGPU_STRLEN ? strlen (view.data) : view.length;
  return g_utf8_make_valid (view.data, (gssize) MIN (length, MESSAGE_MAX));
}

WGPUStringView
rlx_gpu_view (const char *string)
{
  WGPUStringView view = WGPU_STRING_VIEW_INIT;

  if (string != NULL)
    {
      view.data = string;
      view.length = strlen (string);
    }

  return view;
}

/* ---- callbacks: Dawn holds its locks here, so they only take notes ---- */

static void
call_lost_func (RlxGpu  *gpu,
                gpointer user_data G_GNUC_UNUSED)
{
  RlxGpuLostFunc func = NULL;
  gpointer data = NULL;
  g_autofree char *reason = NULL;

  /* Held during the call, so that the data cannot be freed meanwhile. */
  g_rec_mutex_lock (&gpu->lost_func_lock);

  g_mutex_lock (&gpu->lock);
  if (!gpu->lost_called && gpu->lost_func != NULL)
    {
      gpu->lost_called = TRUE;
      func = gpu->lost_func;
      data = gpu->lost_data;
      reason = g_strdup (gpu->lost_reason);
    }
  g_mutex_unlock (&gpu->lock);

  if (func != NULL)
    func (reason, data);

  g_rec_mutex_unlock (&gpu->lost_func_lock);
}

static gboolean
try_ref (RlxGpu *gpu)
{
  int count = g_atomic_int_get (&gpu->ref_count);

  while (count > 0)
    if (g_atomic_int_compare_and_exchange_full (&gpu->ref_count, count, count + 1, &count))
      return TRUE;

  return FALSE;
}

void
rlx_gpu_mark_lost (RlxGpu     *gpu,
                   const char *reason,
                   gboolean    hung)
{
  gboolean first;

  g_mutex_lock (&gpu->lock);
  first = gpu->lost_reason == NULL;
  if (first)
    gpu->lost_reason = g_strdup (reason);
  if (hung)
    atomic_store (&gpu->hung, true);
  atomic_store (&gpu->lost, true);
  g_mutex_unlock (&gpu->lock);

  if (first && gpu->thread != NULL && try_ref (gpu))
    rlx_gpu_post (gpu, call_lost_func, NULL);
}

static void
on_lost (WGPUDevice const    *device G_GNUC_UNUSED,
         WGPUDeviceLostReason reason,
         WGPUStringView       message,
         void                *userdata1,
         void                *userdata2 G_GNUC_UNUSED)
{
  RlxGpu *gpu = userdata1;
  g_autofree char *text = NULL;

  /* Reported for every device at its end. */
  if (atomic_load (&gpu->closing))
    return;

  text = rlx_gpu_string (message);
  /* The rest is the place in Dawn's source. */
  text[strcspn (text, "\n")] = '\0';
  g_debug ("device lost (reason %d): %s", (int) reason, text);
  rlx_gpu_mark_lost (gpu, *text != '\0' ? text : "the driver gives no reason", FALSE);
}

static void
on_uncaptured_error (WGPUDevice const *device G_GNUC_UNUSED,
                     WGPUErrorType     type,
                     WGPUStringView    message,
                     void             *userdata1,
                     void             *userdata2 G_GNUC_UNUSED)
{
  RlxGpu *gpu = userdata1;
  char *text = rlx_gpu_string (message);

  g_debug ("uncaptured error (type %d): %s", (int) type, text);

  g_mutex_lock (&gpu->lock);
  if (gpu->uncaptured == NULL)
    {
      gpu->uncaptured = g_steal_pointer (&text);
      gpu->uncaptured_type = type;
    }
  g_mutex_unlock (&gpu->lock);

  g_free (text);
}

char *
rlx_gpu_steal_uncaptured (RlxGpu        *gpu,
                          WGPUErrorType *type)
{
  char *text;

  g_mutex_lock (&gpu->lock);
  text = g_steal_pointer (&gpu->uncaptured);
  *type = gpu->uncaptured_type;
  g_mutex_unlock (&gpu->lock);

  return text;
}

static void
on_log (WGPULoggingType type,
        WGPUStringView  message,
        void           *userdata1,
        void           *userdata2 G_GNUC_UNUSED)
{
  RlxGpu *gpu = userdata1;
  g_autofree char *text = rlx_gpu_string (message);

  g_debug ("dawn: %s", text);

  if (type != WGPULoggingType_Warning && type != WGPULoggingType_Error)
    return;

  g_mutex_lock (&gpu->lock);
  g_free (gpu->last_log);
  gpu->last_log = g_steal_pointer (&text);
  g_mutex_unlock (&gpu->lock);
}

static size_t
on_cache_load (size_t         key_size,
               uint8_t const *key,
               size_t         value_size,
               uint8_t       *value,
               void          *userdata1,
               void          *userdata2 G_GNUC_UNUSED)
{
  return rlx_gpu_cache_load (userdata1, key, key_size, value, value_size);
}

static void
on_cache_store (size_t         key_size,
                uint8_t const *key,
                size_t         value_size,
                uint8_t const *value,
                void          *userdata1,
                void          *userdata2 G_GNUC_UNUSED)
{
  rlx_gpu_cache_store (userdata1, key, key_size, value, value_size);
}

/* ---- memory ---- */

static gboolean
parse_size (const char *text,
            guint64    *size)
{
  char *end = NULL;
  guint64 value;
  guint shift = 0;

  if (!g_ascii_isdigit (*text))
    return FALSE;

  value = g_ascii_strtoull (text, &end, 10);
  switch (*end)
    {
    case 'k':
    case 'K':
      shift = 10;
      end++;
      break;
    case 'm':
    case 'M':
      shift = 20;
      end++;
      break;
    case 'g':
    case 'G':
      shift = 30;
      end++;
      break;
    default:
      break;
    }

  if (*end != '\0' || value == G_MAXUINT64 || value > (G_MAXUINT64 >> shift))
    return FALSE;

  *size = value << shift;
  return TRUE;
}

/* How much memory the device may use. When memory is really exhausted, drivers crash
 * instead of reporting it, so the limit keeps the process alive. */
static guint64
find_memory_limit (const RlxGpuAdapterInfo *info)
{
  guint64 limit = info->memory_size > 0 ? info->memory_size : G_MAXUINT64;
  const char *value;

  if (info->type != RLX_ADAPTER_TYPE_DISCRETE)
    limit = MIN (limit, rlx_os_get_memory_size () / 2);

  value = rlx_getenv ("RLX_MEMORY_LIMIT");
  if (value != NULL && *value != '\0')
    {
      guint64 size;

      if (parse_size (value, &size))
        {
          limit = MIN (limit, size);
        }
      else
        {
          static gsize warned = 0;

          if (g_once_init_enter (&warned))
            {
              g_warning ("RLX_MEMORY_LIMIT is not a number of bytes, optionally followed by K, M or G");
              g_once_init_leave (&warned, 1);
            }
        }
    }

  return limit;
}

gboolean
rlx_gpu_reserve (RlxGpu     *gpu,
                 guint64     size,
                 const char *label,
                 GError    **error)
{
  unsigned long long used = atomic_load (&gpu->memory_used);

  do
    {
      if (size > gpu->memory_limit || used > gpu->memory_limit - size)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                       "“%s” needs %" G_GUINT64_FORMAT " bytes of device memory; %" G_GUINT64_FORMAT
                       " of %" G_GUINT64_FORMAT " are in use",
                       label != NULL ? label : "A buffer", size, (guint64) used, gpu->memory_limit);
          return FALSE;
        }
    }
  while (!atomic_compare_exchange_weak (&gpu->memory_used, &used, used + size));

  return TRUE;
}

void
rlx_gpu_release_memory (RlxGpu *gpu,
                        guint64 size)
{
  atomic_fetch_sub (&gpu->memory_used, size);
}

/* ---- opening ---- */

typedef struct
{
  WGPURequestDeviceStatus status;
  WGPUDevice device;
  char *message;
} DeviceReply;

static void
on_device (WGPURequestDeviceStatus status,
           WGPUDevice              device,
           WGPUStringView          message,
           void                   *userdata1,
           void                   *userdata2 G_GNUC_UNUSED)
{
  DeviceReply *reply = userdata1;

  reply->status = status;
  reply->device = device;
  reply->message = rlx_gpu_string (message);
}

/* The limits of a target: Dawn then rejects kernels that need more. */
static void
ask_for_limits (WGPULimits      *limits,
                const RlxLimits *from)
{
  *limits = (WGPULimits) WGPU_LIMITS_INIT;
  limits->maxBufferSize = from->max_buffer_size;
  limits->maxStorageBufferBindingSize = from->max_storage_binding_size;
  limits->maxStorageBuffersPerShaderStage = from->max_storage_buffers;
  limits->maxComputeWorkgroupStorageSize = from->max_workgroup_storage;
  limits->maxComputeInvocationsPerWorkgroup = from->max_invocations;
  limits->maxComputeWorkgroupSizeX = from->max_workgroup_size[0];
  limits->maxComputeWorkgroupSizeY = from->max_workgroup_size[1];
  limits->maxComputeWorkgroupSizeZ = from->max_workgroup_size[2];
  limits->maxComputeWorkgroupsPerDimension = from->max_workgroups;
  limits->minStorageBufferOffsetAlignment = from->storage_offset_alignment;
  limits->minUniformBufferOffsetAlignment = from->uniform_offset_alignment;
}

static WGPUDevice
request_device (RlxGpu     *gpu,
                WGPUAdapter adapter,
                GError    **error)
{
  static const struct
  {
    RlxDeviceFeatures ours;
    WGPUFeatureName theirs;
  } wanted[] = {
    { RLX_DEVICE_FEATURES_F16, WGPUFeatureName_ShaderF16 },
    { RLX_DEVICE_FEATURES_SUBGROUPS, WGPUFeatureName_Subgroups },
    { RLX_DEVICE_FEATURES_SUBGROUP_MATRIX, WGPUFeatureName_ChromiumExperimentalSubgroupMatrix },
    { RLX_DEVICE_FEATURES_TIMESTAMPS, WGPUFeatureName_TimestampQuery },
    { RLX_DEVICE_FEATURES_MAPPED_STORAGE, WGPUFeatureName_HostMappedPointer },
  };
  WGPUInstance instance = rlx_gpu_get_instance (NULL);
  WGPUFeatureName features[G_N_ELEMENTS (wanted) + 2];
  const char *enabled[3];
  static const char * const disabled[] = { "timestamp_quantization" };
  WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  WGPUDawnCacheDeviceDescriptor cache = WGPU_DAWN_CACHE_DEVICE_DESCRIPTOR_INIT;
  WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
  WGPURequestDeviceCallbackInfo callback = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  WGPULimits limits = WGPU_LIMITS_INIT;
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;
  DeviceReply *reply;
  WGPUDevice device;
  gsize n_features = 0, n_enabled = 0;

  /* Without this feature, two threads on one device crash Dawn. */
  features[n_features++] = WGPUFeatureName_ImplicitDeviceSynchronization;
  for (gsize i = 0; i < G_N_ELEMENTS (wanted); i++)
    if (gpu->info->target.features & wanted[i].ours)
      features[n_features++] = wanted[i].theirs;
  if (gpu->info->target.subgroup_sizes_can_be_set)
    features[n_features++] = WGPUFeatureName_SubgroupSizeControl;

  enabled[n_enabled++] = "allow_unsafe_apis";
  enabled[n_enabled++] = RLX_GPU_TOGGLE_F16;
  if (RLX_DEBUG_CHECK (NO_ROBUSTNESS))
    enabled[n_enabled++] = "disable_robustness";

  if (wgpuAdapterGetLimits (adapter, &limits) != WGPUStatus_Success)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The adapter “%s” does not report its limits", gpu->info->name);
      return NULL;
    }
  if (gpu->info->target.name != NULL)
    ask_for_limits (&limits, &gpu->info->target.limits);

  toggles.enabledToggleCount = n_enabled;
  toggles.enabledToggles = enabled;
  toggles.disabledToggleCount = G_N_ELEMENTS (disabled);
  toggles.disabledToggles = disabled;

  descriptor.nextInChain = &toggles.chain;
  if (gpu->cache != NULL)
    {
      cache.isolationKey = rlx_gpu_view ("rlx-wgpu");
      cache.dawnLoadCacheDataCallbackInfo.callback = on_cache_load;
      cache.dawnLoadCacheDataCallbackInfo.userdata1 = gpu->cache;
      cache.dawnStoreCacheDataCallbackInfo.callback = on_cache_store;
      cache.dawnStoreCacheDataCallbackInfo.userdata1 = gpu->cache;
      toggles.chain.next = &cache.chain;
    }
  descriptor.label = rlx_gpu_view ("rlx-wgpu");
  descriptor.requiredFeatureCount = n_features;
  descriptor.requiredFeatures = features;
  descriptor.requiredLimits = &limits;
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = on_lost;
  descriptor.deviceLostCallbackInfo.userdata1 = gpu;
  descriptor.uncapturedErrorCallbackInfo.callback = on_uncaptured_error;
  descriptor.uncapturedErrorCallbackInfo.userdata1 = gpu;

  reply = g_new0 (DeviceReply, 1);
  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_device;
  callback.userdata1 = reply;

  wait.future = wgpuAdapterRequestDevice (adapter, &descriptor, callback);
  if (wgpuInstanceWaitAny (instance, 1, &wait, DEVICE_TIMEOUT_NS) != WGPUWaitStatus_Success ||
      !wait.completed)
    {
      atomic_store (&gpu->hung, true);
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT,
                   "The adapter “%s” did not open in time", gpu->info->name);
      return NULL;
    }

  device = reply->device;
  if (reply->status != WGPURequestDeviceStatus_Success || device == NULL)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The adapter “%s” could not be opened: %s", gpu->info->name, reply->message);
      g_clear_pointer (&device, wgpuDeviceRelease);
    }

  g_free (reply->message);
  g_free (reply);
  return device;
}

static void
set_device_facts (RlxGpu *gpu)
{
  WGPULimits limits = WGPU_LIMITS_INIT;

  /* A device that stands in for another one may have more features than it shows. */
  if (gpu->info->target.name == NULL && wgpuDeviceGetLimits (gpu->device, &limits) == WGPUStatus_Success)
    rlx_gpu_limits_init (&gpu->info->target.limits, &limits);
  rlx_gpu_find_host_page (gpu);
  rlx_target_apply_debug (&gpu->info->target);
}

/* RLX_DEBUG=target=NAME */
static gboolean
pretend_target (RlxGpu  *gpu,
                GError **error)
{
  const char *name = rlx_debug_get_target ();
  const RlxTarget *target = name != NULL ? rlx_target_lookup (name) : NULL;
  RlxTarget edited;

  if (name == NULL)
    return TRUE;
  if (target == NULL)
    {
      g_autofree char *quoted = rlx_quote_text (name, -1), *names = rlx_target_list_names ();

      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NOT_FOUND,
                   "RLX_DEBUG asks for the target %s; there are %s", quoted, names);
      return FALSE;
    }
  /* features that other keys switch off must not count as missing */
  edited = *target;
  rlx_target_apply_debug (&edited);
  return rlx_target_pretend (&gpu->info->target, &edited, error);
}

static void
free_gpu (RlxGpu *gpu)
{
  if (gpu->lost_destroy != NULL)
    gpu->lost_destroy (gpu->lost_data);
  g_free (gpu->lost_reason);
  g_free (gpu->uncaptured);
  g_free (gpu->last_log);
  g_free (gpu->map_message);
  g_clear_pointer (&gpu->cache, rlx_gpu_cache_free);
  g_clear_pointer (&gpu->abandoned, g_ptr_array_unref);
  g_clear_pointer (&gpu->pipelines, g_hash_table_unref);
  g_clear_pointer (&gpu->layouts, g_hash_table_unref);
  g_clear_pointer (&gpu->staging, g_array_unref);
  g_clear_pointer (&gpu->small.buffers, g_ptr_array_unref);
  g_clear_pointer (&gpu->large.buffers, g_ptr_array_unref);
  g_clear_pointer (&gpu->info, rlx_gpu_adapter_info_unref);
  g_mutex_clear (&gpu->pool_lock);
  g_mutex_clear (&gpu->pipeline_lock);
  g_mutex_clear (&gpu->queue_lock);
  g_cond_clear (&gpu->queue_cond);
  g_rec_mutex_clear (&gpu->lost_func_lock);
  g_mutex_clear (&gpu->lock);
  g_free (gpu);
}

/* On the device thread, which ends after it; without one, on the thread that
 * failed to open the device. */
void
rlx_gpu_teardown (RlxGpu *gpu)
{
  atomic_store (&gpu->closing, true);

  /* The GPU may still be running our shaders, and Dawn may still call back, so nothing
   * can be freed. */
  if (atomic_load (&gpu->hung))
    {
      GDestroyNotify destroy = g_steal_pointer (&gpu->lost_destroy);

      if (destroy != NULL)
        destroy (gpu->lost_data);
      return;
    }

  if (gpu->device != NULL)
    {
      rlx_gpu_execute_clear (gpu);
      rlx_gpu_pool_clear (gpu);
      rlx_gpu_pipelines_clear (gpu);
      wgpuQueueRelease (gpu->queue);
      wgpuDeviceDestroy (gpu->device);
      wgpuDeviceRelease (gpu->device);
    }

  free_gpu (gpu);
}

typedef struct
{
  RlxDeviceFeatures features;
  gboolean result;
  GError *error;
} KnownAnswers;

static void
run_known_answers (RlxGpu  *gpu,
                   gpointer user_data)
{
  KnownAnswers *check = user_data;

  check->result = rlx_gpu_known_answers (gpu, &check->features, &check->error);
}

static RlxGpu *
open_adapter (RlxGpuAdapterInfo *info,
              GError           **error)
{
  WGPULoggingCallbackInfo logging = WGPU_LOGGING_CALLBACK_INFO_INIT;
  KnownAnswers check = { 0 };
  WGPUAdapter adapter;
  RlxGpu *gpu;

  adapter = rlx_gpu_request_adapter (info, error);
  if (adapter == NULL)
    return NULL;

  gpu = g_new0 (RlxGpu, 1);
  gpu->ref_count = 1;
  g_mutex_init (&gpu->lock);
  g_rec_mutex_init (&gpu->lost_func_lock);
  g_mutex_init (&gpu->queue_lock);
  g_cond_init (&gpu->queue_cond);
  g_mutex_init (&gpu->pipeline_lock);
  g_queue_init (&gpu->items);
  g_queue_init (&gpu->spare_items);
  gpu->info = rlx_gpu_adapter_describe (adapter);
  if (gpu->info == NULL)
    gpu->info = rlx_gpu_adapter_info_copy (info);
  gpu->staging = g_array_new (FALSE, TRUE, sizeof (RlxGpuStaging));
  gpu->memory_limit = find_memory_limit (gpu->info);
  gpu->cache = rlx_gpu_cache_open (gpu->info);
  rlx_gpu_pipelines_init (gpu);
  rlx_gpu_pool_init (gpu);

  rlx_gpu_set_used ();
  if (pretend_target (gpu, error))
    gpu->device = request_device (gpu, adapter, error);
  wgpuAdapterRelease (adapter);
  if (gpu->device == NULL)
    {
      rlx_gpu_teardown (gpu);
      return NULL;
    }

  gpu->queue = wgpuDeviceGetQueue (gpu->device);
  set_device_facts (gpu);

  logging.callback = on_log;
  logging.userdata1 = gpu;
  wgpuDeviceSetLoggingCallback (gpu->device, logging);

  if (!rlx_gpu_thread_start (gpu, error))
    {
      rlx_gpu_teardown (gpu);
      return NULL;
    }

  check.features = gpu->info->target.features;
  rlx_gpu_invoke_sync (gpu, run_known_answers, &check);
  rlx_gpu_watch_exit ();
  if (!check.result)
    {
      g_propagate_error (error, check.error);
      rlx_gpu_unref (gpu);
      return NULL;
    }

  if (check.features != gpu->info->target.features)
    {
      gpu->info->target.features = check.features;
      if (!(check.features & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX))
        gpu->info->target.n_matrices = 0;
      if (!(check.features & RLX_DEVICE_FEATURES_SUBGROUPS))
        gpu->info->target.subgroup_sizes_can_be_set = FALSE;
    }

  RLX_NOTE (DEVICE, "opened “%s” (%s, %s), features 0x%x, %" G_GUINT64_FORMAT " MiB allowed",
            gpu->info->name, gpu->info->backend, gpu->info->driver,
            (guint) gpu->info->target.features, gpu->memory_limit >> 20);

  return gpu;
}

RlxGpu *
rlx_gpu_open (RlxGpuAdapterInfo *info,
              GError           **error)
{
  RlxGpu *gpu;

  g_return_val_if_fail (info != NULL, NULL);

  if (!rlx_gpu_enter (error))
    return NULL;

  gpu = open_adapter (info, error);
  rlx_gpu_leave ();

  return gpu;
}

RlxGpu *
rlx_gpu_ref (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, NULL);

  g_atomic_int_inc (&gpu->ref_count);
  return gpu;
}

void
rlx_gpu_unref (RlxGpu *gpu)
{
  g_return_if_fail (gpu != NULL);

  if (g_atomic_int_dec_and_test (&gpu->ref_count))
    rlx_gpu_thread_quit (gpu);
}

/* ---- facts ---- */

void
rlx_gpu_set_lost_func (RlxGpu        *gpu,
                       RlxGpuLostFunc func,
                       gpointer       user_data,
                       GDestroyNotify destroy)
{
  GDestroyNotify old_destroy;
  gpointer old_data;

  g_return_if_fail (gpu != NULL);

  g_rec_mutex_lock (&gpu->lost_func_lock);
  g_mutex_lock (&gpu->lock);
  old_destroy = gpu->lost_destroy;
  old_data = gpu->lost_data;
  gpu->lost_func = func;
  gpu->lost_data = user_data;
  gpu->lost_destroy = destroy;
  g_mutex_unlock (&gpu->lock);
  g_rec_mutex_unlock (&gpu->lost_func_lock);

  if (old_destroy != NULL)
    old_destroy (old_data);

  if (func != NULL && rlx_gpu_is_lost (gpu))
    rlx_gpu_invoke (gpu, call_lost_func, NULL);
}

const RlxGpuAdapterInfo *
rlx_gpu_get_info (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, NULL);

  return gpu->info;
}

gboolean
rlx_gpu_is_lost (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, TRUE);

  return atomic_load (&gpu->lost) || rlx_gpu_is_forked ();
}

const char *
rlx_gpu_get_lost_reason (RlxGpu *gpu)
{
  const char *reason;

  g_return_val_if_fail (gpu != NULL, NULL);

  if (rlx_gpu_is_forked ())
    return "it belongs to the process that this one was forked from";
  g_mutex_lock (&gpu->lock);
  reason = gpu->lost_reason;
  g_mutex_unlock (&gpu->lock);
  return reason;
}

gboolean
rlx_gpu_check_lost (RlxGpu  *gpu,
                    GError **error)
{
  g_return_val_if_fail (gpu != NULL, FALSE);

  if (!rlx_gpu_check_forked (error))
    return FALSE;
  if (G_LIKELY (!atomic_load (&gpu->lost)))
    return TRUE;

  g_mutex_lock (&gpu->lock);
  g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST,
               "The device “%s” was lost: %s", gpu->info->name, gpu->lost_reason);
  g_mutex_unlock (&gpu->lock);

  return FALSE;
}

guint64
rlx_gpu_get_memory_used (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, 0);

  return atomic_load (&gpu->memory_used);
}

guint64
rlx_gpu_get_memory_limit (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, 0);

  return gpu->memory_limit;
}

void
rlx_gpu_force_loss (RlxGpu     *gpu,
                    const char *message)
{
  g_return_if_fail (gpu != NULL);

  if (!rlx_gpu_enter (NULL))
    return;

  wgpuDeviceForceLoss (gpu->device, WGPUDeviceLostReason_Unknown, rlx_gpu_view (message));
  rlx_gpu_leave ();
}

void
rlx_gpu_get_counters (RlxGpu         *gpu,
                      RlxGpuCounters *counters)
{
  g_return_if_fail (gpu != NULL);
  g_return_if_fail (counters != NULL);

  counters->buffers = atomic_load (&gpu->n_buffers);
  counters->bind_groups = atomic_load (&gpu->n_bind_groups);
  counters->pipelines = atomic_load (&gpu->n_pipelines);
  counters->shader_modules = atomic_load (&gpu->n_shader_modules);
  counters->submits = atomic_load (&gpu->n_submits);
  counters->dispatches = atomic_load (&gpu->n_dispatches);
  counters->waits = atomic_load (&gpu->n_waits);
  counters->uploads = atomic_load (&gpu->n_uploads);
  counters->uploaded_bytes = atomic_load (&gpu->uploaded_bytes);
  counters->downloads = atomic_load (&gpu->n_downloads);
  counters->downloaded_bytes = atomic_load (&gpu->downloaded_bytes);
  rlx_gpu_cache_get_stats (gpu->cache, &counters->cache_hits, &counters->cache_misses);
}
