/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A look at the Vulkan loader before Dawn is asked. Without a driver Dawn
 * writes warnings to the standard error output, which no callback of the C
 * interface can catch, and falls back to a backend that computes nothing. The
 * loader itself also knows what is missing.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include "util/rlx-os-private.h"

#ifdef RLX_OS_VULKAN_LOADER

/* The small part of Vulkan's interface that is needed, which is stable. */

typedef struct
{
  gint32 type;
  const void *next;
  const char *application_name;
  guint32 application_version;
  const char *engine_name;
  guint32 engine_version;
  guint32 api_version;
} ApplicationInfo;

typedef struct
{
  gint32 type;
  const void *next;
  guint32 flags;
  const ApplicationInfo *application_info;
  guint32 n_layers;
  const char * const *layers;
  guint32 n_extensions;
  const char * const *extensions;
} InstanceCreateInfo;

#define TYPE_APPLICATION_INFO 0
#define TYPE_INSTANCE_CREATE_INFO 1
#define API_VERSION_1_1 ((1u << 22) | (1u << 12))

typedef void (*VoidFunc) (void);
typedef VoidFunc (*GetInstanceProcAddr) (gpointer    instance,
                                         const char *name);
typedef gint32 (*CreateInstance) (const InstanceCreateInfo *info,
                                  const void               *allocator,
                                  gpointer                 *instance);
typedef void (*DestroyInstance) (gpointer    instance,
                                 const void *allocator);
typedef gint32 (*EnumeratePhysicalDevices) (gpointer  instance,
                                            guint32  *n_devices,
                                            gpointer *devices);

/* Kept until Dawn has an instance of its own, or every driver would be loaded
 * twice. */
static GMutex lock;
static gboolean good = FALSE;
static gpointer kept = NULL;
static DestroyInstance destroy = NULL;

static const char *
look (void)
{
  static const ApplicationInfo application = {
    .type = TYPE_APPLICATION_INFO,
    .application_name = "rlx-wgpu",
    .api_version = API_VERSION_1_1,
  };
  static const InstanceCreateInfo info = {
    .type = TYPE_INSTANCE_CREATE_INFO,
    .application_info = &application,
  };
  GetInstanceProcAddr get_proc;
  gboolean found;
  CreateInstance create;
  EnumeratePhysicalDevices enumerate;
  gpointer instance = NULL;
  guint32 n_devices = 0;
  gint32 status;

  /* Never closed: drivers do not support being unloaded, and Dawn is about to load it
   * too. */
  get_proc = (GetInstanceProcAddr) (gsize) rlx_os_find_symbol (RLX_OS_VULKAN_LOADER, "vkGetInstanceProcAddr", &found);
  if (!found)
    return "the Vulkan loader " RLX_OS_VULKAN_LOADER " is not installed";
  if (get_proc == NULL)
    return RLX_OS_VULKAN_LOADER " is not a Vulkan loader";

  create = (CreateInstance) get_proc (NULL, "vkCreateInstance");
  if (create == NULL || create (&info, NULL, &instance) != 0 || instance == NULL)
    return "the Vulkan loader found no working driver";

  destroy = (DestroyInstance) get_proc (instance, "vkDestroyInstance");
  enumerate = (EnumeratePhysicalDevices) get_proc (instance, "vkEnumeratePhysicalDevices");
  status = enumerate != NULL ? enumerate (instance, &n_devices, NULL) : -1;
  kept = instance;

  return status >= 0 && n_devices > 0 ? NULL : "the installed Vulkan drivers found no GPU that they support";
}

static void
let_go (void)
{
  if (kept != NULL && destroy != NULL)
    destroy (kept, NULL);
  kept = NULL;
}

/* NULL if there is something for Dawn to find, otherwise what is missing. */
const char *
rlx_gpu_vulkan_problem (void)
{
  const char *problem = NULL;

  g_mutex_lock (&lock);
  if (!good)
    {
      problem = look ();
      good = problem == NULL;
      if (!good)
        let_go ();
    }
  g_mutex_unlock (&lock);

  return problem;
}

/* Dawn has looked for itself. */
void
rlx_gpu_vulkan_done (void)
{
  g_mutex_lock (&lock);
  let_go ();
  g_mutex_unlock (&lock);
}

#else

const char *
rlx_gpu_vulkan_problem (void)
{
  return NULL;
}

void
rlx_gpu_vulkan_done (void)
{
}

#endif
