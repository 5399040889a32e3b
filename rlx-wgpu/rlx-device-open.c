/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Opening devices: with or without blocking, by a selector or for an adapter, or
 * the one that everything shares.
 */
#include "config.h"

#include "rlx-device-private.h"

#include "rlx-adapter-private.h"
#include "rlx-job-private.h"

/* What to open. */
typedef struct
{
  char *selector;
  RlxGpuAdapterInfo *info;   /* of an adapter that was already chosen; nullable */
  RlxTicker *ticker;         /* nullable */
} Opening;

static Opening *
opening_new (RlxDevice *self)
{
  Opening *opening = g_new0 (Opening, 1);
  RlxAdapter *adapter = rlx_device_get_adapter (self);

  opening->selector = g_strdup (rlx_device_get_selector (self));
  if (adapter != NULL)
    opening->info = rlx_gpu_adapter_info_ref (rlx_adapter_get_info (adapter));
  opening->ticker = rlx_device_start_opening (self);
  rlx_ticker_set (opening->ticker, "looking for adapters", 0, 2);
  return opening;
}

static void
opening_free (gpointer data)
{
  Opening *opening = data;

  /* It is still set if opening failed, or never started. */
  rlx_ticker_stop (opening->ticker, FALSE);
  g_free (opening->selector);
  g_clear_pointer (&opening->info, rlx_gpu_adapter_info_unref);
  g_free (opening);
}

static gpointer
open_gpu (gpointer      data,
          GCancellable *cancellable,
          GError      **error)
{
  Opening *opening = data;
  g_autofree char *what = NULL;
  RlxGpu *gpu;

  if (opening->info == NULL)
    opening->info = rlx_gpu_select_adapter (opening->selector, error);
  if (opening->info == NULL || g_cancellable_set_error_if_cancelled (cancellable, error))
    return NULL;
  what = g_strdup_printf ("opening %s", opening->info->name);
  rlx_ticker_set (opening->ticker, what, 1, 2);
  gpu = rlx_gpu_open (opening->info, error);
  rlx_ticker_stop (g_steal_pointer (&opening->ticker), gpu != NULL);
  return gpu;
}

static void
unref_gpu (gpointer gpu)
{
  rlx_gpu_unref (gpu);
}

/* ---- GInitable ------------------------------------------------------------------------ */

static gboolean
initable_init (GInitable    *initable,
               GCancellable *cancellable,
               GError      **error)
{
  RlxDevice *self = RLX_DEVICE (initable);
  RlxGpu *gpu;

  if (rlx_device_get_gpu (self) != NULL)
    return TRUE;
  gpu = rlx_thread_wait (open_gpu, unref_gpu, opening_new (self), opening_free, cancellable, error);
  if (gpu == NULL)
    return FALSE;
  rlx_device_take_gpu (self, gpu);
  return TRUE;
}

static void
initable_init_async (GAsyncInitable     *initable,
                     int                 io_priority,
                     GCancellable       *cancellable,
                     GAsyncReadyCallback callback,
                     gpointer            user_data)
{
  rlx_thread_start (initable, initable_init_async, open_gpu, unref_gpu, opening_new (RLX_DEVICE (initable)), opening_free,
                    cancellable, callback, user_data);
}

static gboolean
initable_init_finish (GAsyncInitable *initable,
                      GAsyncResult   *result,
                      GError        **error)
{
  RlxDevice *self = RLX_DEVICE (initable);
  RlxGpu *gpu = g_task_propagate_pointer (G_TASK (result), error);

  if (gpu == NULL)
    return FALSE;
  if (rlx_device_get_gpu (self) == NULL)
    rlx_device_take_gpu (self, gpu);
  else
    rlx_gpu_unref (gpu);
  return TRUE;
}

void
rlx_device_initable_iface_init (GInitableIface *iface)
{
  iface->init = initable_init;
}

void
rlx_device_async_initable_iface_init (GAsyncInitableIface *iface)
{
  iface->init_async = initable_init_async;
  iface->init_finish = initable_init_finish;
}

/* ---- separate devices ------------------------------------------------------------------ */

/**
 * rlx_device_open:
 * @selector: (nullable): which adapter, or %NULL for the default choice
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a device.
 *
 * @selector is a kind of adapter (`discrete`, `integrated`, `cpu`, or `gpu` for
 * anything but the CPU), an index into the list of [func@Rlx.Adapter.list], or part of
 * a name, vendor or driver, in upper or lower case. If it is %NULL, the environment
 * variable `RLX_DEVICE` is used in the same way; without either, the best adapter is
 * opened. `WGPU_BACKEND` (`vulkan`, `metal`, `d3d12`) limits the choice.
 *
 * Every call opens a separate device; see [func@Rlx.Device.get_default] for the shared
 * one.
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_open (const char   *selector,
                 GCancellable *cancellable,
                 GError      **error)
{
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return g_initable_new (RLX_TYPE_DEVICE, cancellable, error, "selector", selector, NULL);
}

/**
 * rlx_device_open_async:
 * @selector: (nullable): which adapter, as for [func@Rlx.Device.open]
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the device is open
 * @user_data: data for @callback
 *
 * Opens a device without blocking.
 *
 * Opening loads drivers, which takes a noticeable fraction of a second the first time.
 *
 * Since: 1.0
 */
void
rlx_device_open_async (const char         *selector,
                       GCancellable       *cancellable,
                       GAsyncReadyCallback callback,
                       gpointer            user_data)
{
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_async_initable_new_async (RLX_TYPE_DEVICE, G_PRIORITY_DEFAULT, cancellable, callback, user_data, "selector", selector, NULL);
}

static RlxDevice *
finish_new (GAsyncResult *result,
            GError      **error)
{
  g_autoptr(GObject) source = NULL;

  g_return_val_if_fail (G_IS_ASYNC_RESULT (result), NULL);

  source = g_async_result_get_source_object (result);
  return RLX_DEVICE (g_async_initable_new_finish (G_ASYNC_INITABLE (source), result, error));
}

/**
 * rlx_device_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Device.open_async].
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_open_finish (GAsyncResult *result,
                        GError      **error)
{
  return finish_new (result, error);
}

/**
 * rlx_device_open_adapter:
 * @adapter: an adapter
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a device on an adapter of [func@Rlx.Adapter.list].
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_open_adapter (RlxAdapter   *adapter,
                         GCancellable *cancellable,
                         GError      **error)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (adapter), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return g_initable_new (RLX_TYPE_DEVICE, cancellable, error, "adapter", adapter, NULL);
}

/**
 * rlx_device_open_adapter_async:
 * @adapter: an adapter
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the device is open
 * @user_data: data for @callback
 *
 * Opens a device on an adapter of [func@Rlx.Adapter.list] without blocking.
 *
 * Since: 1.0
 */
void
rlx_device_open_adapter_async (RlxAdapter         *adapter,
                               GCancellable       *cancellable,
                               GAsyncReadyCallback callback,
                               gpointer            user_data)
{
  g_return_if_fail (RLX_IS_ADAPTER (adapter));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  g_async_initable_new_async (RLX_TYPE_DEVICE, G_PRIORITY_DEFAULT, cancellable, callback, user_data, "adapter", adapter, NULL);
}

/**
 * rlx_device_open_adapter_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Device.open_adapter_async].
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_open_adapter_finish (GAsyncResult *result,
                                GError      **error)
{
  return finish_new (result, error);
}

/* ---- the default device -------------------------------------------------------------------- */

/**
 * rlx_device_get_default:
 * @error: return location for an error
 *
 * Gets the device that the whole process shares.
 *
 * The first call opens it, and the library keeps it until the process ends. If it is
 * lost, the next call opens a new one.
 *
 * Returns: (transfer none): the default device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_get_default (GError **error)
{
  static GMutex mutex;
  static RlxDevice *shared = NULL;
  static GSList *lost = NULL;
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!rlx_gpu_check_forked (error))
    return NULL;

  locker = g_mutex_locker_new (&mutex);
  /* Callers have no reference of their own, and may not have noticed yet. */
  if (shared != NULL && rlx_device_get_lost (shared))
    lost = g_slist_prepend (lost, g_steal_pointer (&shared));
  if (shared == NULL)
    shared = rlx_device_open (NULL, NULL, error);
  return shared;
}

static gpointer
get_default (gpointer      data G_GNUC_UNUSED,
             GCancellable *cancellable G_GNUC_UNUSED,
             GError      **error)
{
  return rlx_device_get_default (error);
}

/**
 * rlx_device_get_default_async:
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the device is open
 * @user_data: data for @callback
 *
 * Gets the device that the whole process shares, without blocking while it is opened.
 *
 * Cancelling ends the wait, but the device is still opened.
 *
 * Since: 1.0
 */
void
rlx_device_get_default_async (GCancellable       *cancellable,
                              GAsyncReadyCallback callback,
                              gpointer            user_data)
{
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (NULL, rlx_device_get_default_async, get_default, NULL, NULL, NULL, cancellable, callback, user_data);
}

/**
 * rlx_device_get_default_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Device.get_default_async].
 *
 * Returns: (transfer none): the default device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_get_default_finish (GAsyncResult *result,
                               GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
