/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-adapter.h"

#include "rlx-adapter-private.h"
#include "rlx-bans-private.h"
#include "rlx-calibration-private.h"
#include "rlx-job-private.h"
#include "rlx-tune-private.h"
#include "rlx-enum-types.h"

/**
 * RlxAdapter:
 *
 * A GPU, or a driver that acts as one, that can be opened.
 *
 * An adapter only describes the hardware: what it is, who made the driver, which
 * optional features and limits it has. [func@Rlx.Device.open_adapter] opens it.
 *
 * [func@Rlx.Adapter.list] finds the adapters of the system and lists the one that is
 * likely to be fastest first. The environment variable `WGPU_BACKEND` restricts the
 * list to the graphics APIs it names (`vulkan`, `metal`, `d3d12`, `opengl`, …,
 * separated by commas).
 *
 * WebGPU reports one adapter for each type and power preference, so only one of two
 * GPUs of the same type may be listed. The driver's own variables, such as
 * `VK_DRIVER_FILES` and `MESA_VK_DEVICE_SELECT`, select which.
 *
 * An adapter never changes, so threads can share it freely. One created by
 * `g_object_new()` describes nothing and cannot be opened.
 *
 * Since: 1.0
 */

struct _RlxAdapter
{
  GObject parent_instance;

  RlxGpuAdapterInfo *info;
  GVariant *limits;
};

enum
{
  PROP_0,
  PROP_NAME,
  PROP_VENDOR,
  PROP_DRIVER,
  PROP_BACKEND,
  PROP_ADAPTER_TYPE,
  PROP_FEATURES,
  PROP_MEMORY_SIZE,
  PROP_LIMITS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxAdapter, rlx_adapter, G_TYPE_OBJECT)

/* ---- the object --------------------------------------------------------- */

static void
set_info (RlxAdapter        *self,
          RlxGpuAdapterInfo *info)
{
  g_clear_pointer (&self->info, rlx_gpu_adapter_info_unref);
  g_clear_pointer (&self->limits, g_variant_unref);
  self->info = info;
  self->limits = rlx_target_limits_to_variant (&info->target);
}

static void
rlx_adapter_finalize (GObject *object)
{
  RlxAdapter *self = RLX_ADAPTER (object);

  rlx_gpu_adapter_info_unref (self->info);
  g_variant_unref (self->limits);

  G_OBJECT_CLASS (rlx_adapter_parent_class)->finalize (object);
}

static void
rlx_adapter_get_property (GObject    *object,
                          guint       prop_id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  RlxAdapter *self = RLX_ADAPTER (object);

  switch (prop_id)
    {
    case PROP_NAME:
      g_value_set_string (value, self->info->name);
      break;

    case PROP_VENDOR:
      g_value_set_string (value, self->info->vendor);
      break;

    case PROP_DRIVER:
      g_value_set_string (value, self->info->driver);
      break;

    case PROP_BACKEND:
      g_value_set_string (value, self->info->backend);
      break;

    case PROP_ADAPTER_TYPE:
      g_value_set_enum (value, self->info->type);
      break;

    case PROP_FEATURES:
      g_value_set_flags (value, self->info->target.features);
      break;

    case PROP_MEMORY_SIZE:
      g_value_set_uint64 (value, self->info->memory_size);
      break;

    case PROP_LIMITS:
      g_value_set_variant (value, self->limits);
      break;

    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
    }
}

static void
rlx_adapter_class_init (RlxAdapterClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = rlx_adapter_finalize;
  object_class->get_property = rlx_adapter_get_property;

  /**
   * RlxAdapter:name: (getter get_name)
   *
   * The name of the GPU.
   *
   * Since: 1.0
   */
  properties[PROP_NAME] =
    g_param_spec_string ("name", NULL, NULL, "", flags);

  /**
   * RlxAdapter:vendor: (getter get_vendor)
   *
   * The vendor of the GPU or its driver.
   *
   * Since: 1.0
   */
  properties[PROP_VENDOR] =
    g_param_spec_string ("vendor", NULL, NULL, "", flags);

  /**
   * RlxAdapter:driver: (getter get_driver)
   *
   * The name and version of the driver, as it reports them.
   *
   * Since: 1.0
   */
  properties[PROP_DRIVER] =
    g_param_spec_string ("driver", NULL, NULL, "", flags);

  /**
   * RlxAdapter:backend: (getter get_backend)
   *
   * The graphics API it is used through, such as `vulkan` or `metal`.
   *
   * Since: 1.0
   */
  properties[PROP_BACKEND] =
    g_param_spec_string ("backend", NULL, NULL, "", flags);

  /**
   * RlxAdapter:adapter-type: (getter get_adapter_type)
   *
   * The kind of hardware.
   *
   * Since: 1.0
   */
  properties[PROP_ADAPTER_TYPE] =
    g_param_spec_enum ("adapter-type", NULL, NULL, RLX_TYPE_ADAPTER_TYPE, RLX_ADAPTER_TYPE_UNKNOWN, flags);

  /**
   * RlxAdapter:features: (getter get_features)
   *
   * Its optional features.
   *
   * Since: 1.0
   */
  properties[PROP_FEATURES] =
    g_param_spec_flags ("features", NULL, NULL, RLX_TYPE_DEVICE_FEATURES, RLX_DEVICE_FEATURES_NONE, flags);

  /**
   * RlxAdapter:memory-size: (getter get_memory_size)
   *
   * The size of its memory in bytes; 0 if unknown.
   *
   * Since: 1.0
   */
  properties[PROP_MEMORY_SIZE] =
    g_param_spec_uint64 ("memory-size", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * RlxAdapter:limits: (getter get_limits)
   *
   * Its limits, as a dictionary of type `a{sv}`; see [method@Rlx.Adapter.get_limits].
   *
   * Since: 1.0
   */
  properties[PROP_LIMITS] =
    g_param_spec_variant ("limits", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_adapter_init (RlxAdapter *self)
{
  RlxGpuAdapterInfo *info = g_new0 (RlxGpuAdapterInfo, 1);

  g_atomic_ref_count_init (&info->ref_count);
  info->name = g_strdup ("");
  info->vendor = g_strdup ("");
  info->architecture = g_strdup ("");
  info->driver = g_strdup ("");
  info->backend = g_strdup ("");
  set_info (self, info);
}

RlxAdapter *
rlx_adapter_new (RlxGpuAdapterInfo *info)
{
  RlxAdapter *self = g_object_new (RLX_TYPE_ADAPTER, NULL);

  set_info (self, rlx_gpu_adapter_info_ref (info));

  return self;
}

RlxGpuAdapterInfo *
rlx_adapter_get_info (RlxAdapter *self)
{
  return self->info;
}

/* ---- finding them ------------------------------------------------------- */

static gpointer
list_adapters (gpointer      data G_GNUC_UNUSED,
               GCancellable *cancellable G_GNUC_UNUSED,
               GError      **error)
{
  g_autoptr (GPtrArray) infos = rlx_gpu_list_adapters (error);
  GListStore *store;

  if (infos == NULL)
    return NULL;

  store = g_list_store_new (RLX_TYPE_ADAPTER);
  for (guint i = 0; i < infos->len; i++)
    {
      g_autoptr (RlxAdapter) adapter = rlx_adapter_new (g_ptr_array_index (infos, i));

      g_list_store_append (store, adapter);
    }

  return store;
}

/**
 * rlx_adapter_list:
 * @cancellable: (nullable): a cancellable
 * @error: where to store an error
 *
 * Finds the adapters of the system.
 *
 * GPUs with their own memory come first, then GPUs that share the system's memory, then
 * drivers that compute on the CPU. If there are none, the call fails with
 * [error@Rlx.DeviceError.NO_ADAPTER], and the message says what to install.
 *
 * Finding adapters loads their drivers, so the first call can take a noticeable
 * fraction of a second. It can be made on any thread.
 *
 * Returns: (transfer full): a list of [class@Rlx.Adapter], never empty
 *
 * Since: 1.0
 */
GListModel *
rlx_adapter_list (GCancellable *cancellable,
                  GError      **error)
{
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return rlx_thread_wait (list_adapters, g_object_unref, NULL, NULL, cancellable, error);
}

/**
 * rlx_adapter_list_async:
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the adapters have been found
 * @user_data: data for @callback
 *
 * Finds the adapters of the system, without blocking.
 *
 * Since: 1.0
 */
void
rlx_adapter_list_async (GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (NULL, rlx_adapter_list_async, list_adapters, g_object_unref, NULL, NULL, cancellable, callback, user_data);
}

/**
 * rlx_adapter_list_finish:
 * @result: the result given to the callback
 * @error: where to store an error
 *
 * Finishes an operation started with [func@Rlx.Adapter.list_async].
 *
 * Returns: (transfer full): a list of [class@Rlx.Adapter], never empty
 *
 * Since: 1.0
 */
GListModel *
rlx_adapter_list_finish (GAsyncResult *result,
                         GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- facts -------------------------------------------------------------- */

/**
 * rlx_adapter_get_name: (get-property name)
 * @self: an adapter
 *
 * Gets the name of the GPU.
 *
 * Returns: the name
 *
 * Since: 1.0
 */
const char *
rlx_adapter_get_name (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return self->info->name;
}

/**
 * rlx_adapter_get_vendor: (get-property vendor)
 * @self: an adapter
 *
 * Gets the vendor of the GPU or its driver.
 *
 * Returns: the vendor, in a short form such as `amd` or `mesa`
 *
 * Since: 1.0
 */
const char *
rlx_adapter_get_vendor (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return self->info->vendor;
}

/**
 * rlx_adapter_get_driver: (get-property driver)
 * @self: an adapter
 *
 * Gets the name and version of the driver, as it reports them.
 *
 * Returns: the driver
 *
 * Since: 1.0
 */
const char *
rlx_adapter_get_driver (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return self->info->driver;
}

/**
 * rlx_adapter_get_backend: (get-property backend)
 * @self: an adapter
 *
 * Gets the graphics API the adapter is used through.
 *
 * Returns: the name, such as `vulkan`, `metal` or `d3d12`
 *
 * Since: 1.0
 */
const char *
rlx_adapter_get_backend (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return self->info->backend;
}

/**
 * rlx_adapter_get_adapter_type: (get-property adapter-type)
 * @self: an adapter
 *
 * Gets the kind of hardware behind the adapter.
 *
 * Returns: the kind
 *
 * Since: 1.0
 */
RlxAdapterType
rlx_adapter_get_adapter_type (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), RLX_ADAPTER_TYPE_UNKNOWN);

  return self->info->type;
}

/**
 * rlx_adapter_get_features: (get-property features)
 * @self: an adapter
 *
 * Gets the optional features the adapter has.
 *
 * A device opened on it may have fewer: each is tested when the device is opened, and
 * one that gives wrong answers is not used.
 *
 * Returns: the features
 *
 * Since: 1.0
 */
RlxDeviceFeatures
rlx_adapter_get_features (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), RLX_DEVICE_FEATURES_NONE);

  return self->info->target.features;
}

/**
 * rlx_adapter_get_memory_size: (get-property memory-size)
 * @self: an adapter
 *
 * Gets how much memory the adapter has. If it shares the system's memory, this is the
 * part that the driver is willing to use.
 *
 * Returns: the size in bytes; 0 if unknown
 *
 * Since: 1.0
 */
guint64
rlx_adapter_get_memory_size (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), 0);

  return self->info->memory_size;
}

/**
 * rlx_adapter_get_limits: (get-property limits)
 * @self: an adapter
 *
 * Gets the limits of the adapter, a dictionary of type `a{sv}`.
 *
 * The keys are
 *
 * - `max-buffer-size` and `max-storage-binding-size` (`t`): the size of the largest
 *   buffer, and of the largest part of one that a kernel can bind, in bytes
 * - `max-storage-buffers` (`u`): the number of buffers a kernel can use
 * - `max-uniform-binding-size` (`u`): the size of a kernel's parameters in bytes
 * - `storage-offset-alignment`, `uniform-offset-alignment` (`u`): in bytes
 * - `max-workgroup-storage` (`u`): the memory that the invocations of a workgroup
 *   share, in bytes
 * - `max-invocations`, `max-workgroup-size-x`, `max-workgroup-size-y`,
 *   `max-workgroup-size-z` (`u`): of a workgroup
 * - `max-workgroups` (`u`): of a dispatch, in each dimension
 * - `max-immediate-size` (`u`): the number of bytes that can be set between dispatches
 * - `min-subgroup-size`, `max-subgroup-size` (`u`): the number of invocations that run
 *   in lockstep
 * - `matrices` (`as`): the shapes its matrix units multiply, such as `f16 8x16x16 f32`:
 *   the type of the operands, the shape (8 rows by 16 columns, with sums over 16
 *   products), and the type of the result
 *
 * Returns: (transfer none): the limits
 *
 * Since: 1.0
 */
GVariant *
rlx_adapter_get_limits (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return self->limits;
}

/**
 * rlx_adapter_load_calibration:
 * @self: an adapter
 *
 * Looks up the stored result of [method@Rlx.Device.calibrate] for the adapter,
 * whichever process measured it.
 *
 * Results of another driver or another build of this library, and damaged files, are
 * ignored.
 *
 * Returns: (transfer full) (nullable): the calibration, or %NULL if there is none
 *
 * Since: 1.0
 */
RlxCalibration *
rlx_adapter_load_calibration (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return rlx_calibration_load (self->info);
}

/**
 * rlx_adapter_dup_calibration_path:
 * @self: an adapter
 *
 * Gets the path of the file that holds the adapter's calibration, or would hold it.
 *
 * Returns: (transfer full) (nullable) (type filename): the path of the file, or
 *   %NULL if there is no cache
 *
 * Since: 1.0
 */
char *
rlx_adapter_dup_calibration_path (RlxAdapter *self)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), NULL);

  return rlx_gpu_notes_get_path (self->info, RLX_CALIBRATION_NOTES);
}

/**
 * rlx_adapter_forget_calibration:
 * @self: an adapter
 * @error: return location for an error
 *
 * Deletes what [method@Rlx.Device.calibrate] stored for the adapter, and which kernels
 * `rlx verify` found to be wrong.
 *
 * Open devices keep using it.
 *
 * Returns: %TRUE if no calibration is stored any longer
 *
 * Since: 1.0
 */
gboolean
rlx_adapter_forget_calibration (RlxAdapter *self,
                                GError    **error)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (self), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return rlx_gpu_notes_remove (self->info, RLX_CALIBRATION_NOTES, error) && rlx_bans_remove (self->info, error);
}

/**
 * rlx_adapter_count_tuned_problems:
 * @self: an adapter
 *
 * Counts the problems (operators with operands of certain types and shapes) whose
 * fastest kernel is stored for the adapter, because this or another process compiled a
 * graph with [property@Rlx.CompileOptions:tuning].
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_adapter_count_tuned_problems (RlxAdapter *self)
{
  g_autoptr(RlxTuning) tuning = NULL;

  g_return_val_if_fail (RLX_IS_ADAPTER (self), 0);

  tuning = rlx_tuning_load (self->info);
  return rlx_tuning_get_n_problems (tuning);
}
