/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A Vulkan layer for a driver without hardware: commands are not recorded and not run, everything that waits succeeds
 * at once, and the SPIR-V of each compute pipeline is written to the folder ISA_CAPTURE, as the driver gets it from
 * whatever program runs above: NNNN.spv, or the program's ISA_NAME at that time, and a line in `index` with what was asked
 * of the stage. The driver does not compile them: stats.c lets it.
 *
 * For the loader: VK_LAYER_PATH=FOLDER-OF-layer.json VK_INSTANCE_LAYERS=VK_LAYER_ISA_capture
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#define EXPORT __attribute__ ((visibility ("default")))
#define MAX_MODULES 65536

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkCreateShaderModule create_module;
static PFN_vkGetBufferMemoryRequirements next_requirements;
static VkInstance instance;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { VkShaderModule module; uint32_t *words; size_t size; } modules[MAX_MODULES];
static unsigned n_modules, n_pipelines;
static char robust[64];

EXPORT PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr (VkInstance, const char *);
EXPORT PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr (VkDevice, const char *);

/* Accept any arguments: by the x86-64 and AArch64 conventions the caller cleans up. */
static void do_nothing (void) { }
static VkResult succeed (void) { return VK_SUCCESS; }

static VkResult VKAPI_CALL
get_counter (VkDevice device, VkSemaphore semaphore, uint64_t *value)
{
  (void) device, (void) semaphore;
  *value = UINT64_MAX / 2;
  return VK_SUCCESS;
}

/* ---- memory: the driver has none without its hardware ---- */

typedef struct { size_t size; void *data; } Memory;

static void VKAPI_CALL
get_memory (VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *result)
{
  (void) physical;
  *result = (VkPhysicalDeviceMemoryProperties) {
    2, { { VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0 },
         { VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1 } },
    2, { { UINT64_C (24) << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT }, { UINT64_C (24) << 30, 0 } } };
}

static void VKAPI_CALL
get_memory2 (VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *result)
{
  get_memory (physical, &result->memoryProperties);
}

static void VKAPI_CALL
get_requirements (VkDevice device, VkBuffer buffer, VkMemoryRequirements *result)
{
  next_requirements (device, buffer, result);
  result->memoryTypeBits = 3;
}

static void VKAPI_CALL
get_requirements2 (VkDevice device, const VkBufferMemoryRequirementsInfo2 *info, VkMemoryRequirements2 *result)
{
  next_requirements (device, info->buffer, &result->memoryRequirements);
  result->memoryRequirements.memoryTypeBits = 3;
}

static VkResult VKAPI_CALL
allocate_memory (VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator, VkDeviceMemory *result)
{
  Memory *memory = calloc (1, sizeof *memory);

  (void) device, (void) allocator;
  memory->size = info->allocationSize;
  *result = (VkDeviceMemory) memory;
  return VK_SUCCESS;
}

static void VKAPI_CALL
free_memory (VkDevice device, VkDeviceMemory handle, const VkAllocationCallbacks *allocator)
{
  Memory *memory = (Memory *) handle;

  (void) device, (void) allocator;
  if (memory != NULL)
    free (memory->data);
  free (memory);
}

static VkResult VKAPI_CALL
map_memory (VkDevice device, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize size, VkMemoryMapFlags flags, void **data)
{
  Memory *memory = (Memory *) handle;

  (void) device, (void) size, (void) flags;
  if (memory->data == NULL)
    memory->data = calloc (1, memory->size);
  *data = (char *) memory->data + offset;
  return memory->data != NULL ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

/* Some chips do not report that they have memory of their own: ISA_TYPE=discrete or integrated overrides that. */
static void
set_type (VkPhysicalDeviceProperties *properties)
{
  const char *type = getenv ("ISA_TYPE");

  if (type != NULL)
    properties->deviceType = strcmp (type, "discrete") == 0 ? VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
                                                            : VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
}

static void VKAPI_CALL
get_properties (VkPhysicalDevice physical, VkPhysicalDeviceProperties *properties)
{
  ((PFN_vkGetPhysicalDeviceProperties) next_instance (instance, "vkGetPhysicalDeviceProperties")) (physical, properties);
  set_type (properties);
}

static void VKAPI_CALL
get_properties2 (VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *properties)
{
  ((PFN_vkGetPhysicalDeviceProperties2) next_instance (instance, "vkGetPhysicalDeviceProperties2")) (physical, properties);
  set_type (&properties->properties);
}

/* Fences and semaphores are fake, too. */
static VkResult VKAPI_CALL
create_fence (VkDevice device, const VkFenceCreateInfo *info, const VkAllocationCallbacks *allocator, VkFence *fence)
{
  (void) device, (void) info, (void) allocator;
  *fence = (VkFence) calloc (1, 8);
  return VK_SUCCESS;
}

static VkResult VKAPI_CALL
create_semaphore (VkDevice device, const VkSemaphoreCreateInfo *info, const VkAllocationCallbacks *allocator, VkSemaphore *semaphore)
{
  (void) device, (void) info, (void) allocator;
  *semaphore = (VkSemaphore) calloc (1, 8);
  return VK_SUCCESS;
}

static VkResult VKAPI_CALL
get_fd (VkDevice device, const void *info, int *fd)
{
  (void) device, (void) info;
  *fd = -1;
  return VK_SUCCESS;
}

/* ---- the chain of layers ---- */

static void *
find_link (const void     *chain,
           VkStructureType type)
{
  for (const VkBaseInStructure *s = chain; s != NULL; s = s->pNext)
    if (s->sType == type && ((const VkLayerInstanceCreateInfo *) s)->function == VK_LAYER_LINK_INFO)
      return (void *) s;
  return NULL;
}

static const void *
find (const void     *chain,
      VkStructureType type)
{
  for (const VkBaseInStructure *s = chain; s != NULL; s = s->pNext)
    if (s->sType == type)
      return s;
  return NULL;
}

static VkResult VKAPI_CALL
create_instance (const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator, VkInstance *result)
{
  VkLayerInstanceCreateInfo *link = find_link (info->pNext, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  VkResult status;

  next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  status = ((PFN_vkCreateInstance) next_instance (NULL, "vkCreateInstance")) (info, allocator, result);
  if (status == VK_SUCCESS)
    instance = *result;
  return status;
}

static VkResult VKAPI_CALL
create_device (VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *allocator, VkDevice *result)
{
  VkLayerDeviceCreateInfo *link = find_link (info->pNext, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  const VkPhysicalDeviceFeatures2 *features = find (info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  const VkPhysicalDeviceRobustness2FeaturesEXT *two = find (info->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT);
  const VkPhysicalDeviceFeatures *basic = features != NULL ? &features->features : info->pEnabledFeatures;
  VkResult status;

  snprintf (robust, sizeof robust, "robust=%d robust2=%d", basic != NULL && basic->robustBufferAccess,
            two != NULL && two->robustBufferAccess2);
  next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  PFN_vkGetInstanceProcAddr gipa = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  status = ((PFN_vkCreateDevice) gipa (instance, "vkCreateDevice")) (physical, info, allocator, result);
  if (status == VK_SUCCESS)
    {
      create_module = (PFN_vkCreateShaderModule) next_device (*result, "vkCreateShaderModule");
      next_requirements = (PFN_vkGetBufferMemoryRequirements) next_device (*result, "vkGetBufferMemoryRequirements");
    }
  return status;
}

/* Only recorded: the same module may be in several pipelines. */
static VkResult VKAPI_CALL
capture_module (VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *allocator, VkShaderModule *module)
{
  VkResult status = create_module (device, info, allocator, module);

  pthread_mutex_lock (&lock);
  if (status == VK_SUCCESS && n_modules < MAX_MODULES)
    {
      modules[n_modules].module = *module;
      modules[n_modules].size = info->codeSize;
      modules[n_modules].words = memcpy (malloc (info->codeSize), info->pCode, info->codeSize);
      n_modules++;
    }
  pthread_mutex_unlock (&lock);
  return status;
}

static void
write_stage (const VkPipelineShaderStageCreateInfo *stage,
             const char                            *folder)
{
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo *size =
    find (stage->pNext, VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  const VkSpecializationInfo *special = stage->pSpecializationInfo;
  const VkShaderModuleCreateInfo *info = find (stage->pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  const void *words = info != NULL ? info->pCode : NULL;
  size_t length = info != NULL ? info->codeSize : 0;
  const char *given = getenv ("ISA_NAME");
  char *path, name[64];
  FILE *file;

  /* Handles may be reused after destruction: the last one counts. */
  for (unsigned i = n_modules; words == NULL && i-- > 0;)
    if (modules[i].module == stage->module)
      words = modules[i].words, length = modules[i].size;
  if (words == NULL)
    return;
  snprintf (name, sizeof name, "%04u", n_pipelines);
  if (given != NULL)
    snprintf (name, sizeof name, "%s", given);
  if (asprintf (&path, "%s/%s.spv", folder, name) > 0 && (file = fopen (path, "wb")) != NULL)
    {
      fwrite (words, 1, length, file);
      fclose (file);
      free (path);
    }
  if (asprintf (&path, "%s/index", folder) > 0 && (file = fopen (path, "a")) != NULL)
    {
      fprintf (file, "%s\t%s\tflags=%#x\tsubgroup=%u\t%s\tconstants=", name, stage->pName, stage->flags,
               size != NULL ? size->requiredSubgroupSize : 0, robust);
      for (uint32_t i = 0; special != NULL && i < special->mapEntryCount; i++)
        {
          uint32_t value = 0;

          memcpy (&value, (const char *) special->pData + special->pMapEntries[i].offset, special->pMapEntries[i].size);
          fprintf (file, "%s%u=%u", i > 0 ? "," : "", special->pMapEntries[i].constantID, value);
        }
      fputc ('\n', file);
      fclose (file);
      free (path);
    }
  n_pipelines++;
}

static VkResult VKAPI_CALL
capture_pipelines (VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                   const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
  const char *folder = getenv ("ISA_CAPTURE");

  (void) device, (void) cache, (void) allocator;
  pthread_mutex_lock (&lock);
  for (uint32_t i = 0; i < n; i++)
    {
      if (folder != NULL)
        write_stage (&infos[i].stage, folder);
      pipelines[i] = (VkPipeline) calloc (1, 8);
    }
  pthread_mutex_unlock (&lock);
  return VK_SUCCESS;
}

static const struct { const char *name; void *function; } replaced[] = {
  { "vkGetInstanceProcAddr", vkGetInstanceProcAddr }, { "vkGetDeviceProcAddr", vkGetDeviceProcAddr },
  { "vkCreateInstance", create_instance }, { "vkCreateDevice", create_device },
  { "vkCreateShaderModule", capture_module }, { "vkCreateComputePipelines", capture_pipelines },
  { "vkDestroyPipeline", do_nothing },
  { "vkGetPhysicalDeviceProperties", get_properties }, { "vkGetPhysicalDeviceProperties2", get_properties2 },
  { "vkGetPhysicalDeviceProperties2KHR", get_properties2 },
  { "vkGetPhysicalDeviceMemoryProperties", get_memory }, { "vkGetPhysicalDeviceMemoryProperties2", get_memory2 },
  { "vkGetPhysicalDeviceMemoryProperties2KHR", get_memory2 },
  { "vkGetBufferMemoryRequirements", get_requirements }, { "vkGetBufferMemoryRequirements2", get_requirements2 },
  { "vkGetBufferMemoryRequirements2KHR", get_requirements2 },
  { "vkAllocateMemory", allocate_memory }, { "vkFreeMemory", free_memory }, { "vkMapMemory", map_memory },
  { "vkUnmapMemory", do_nothing }, { "vkBindBufferMemory", succeed }, { "vkBindBufferMemory2", succeed },
  { "vkBindBufferMemory2KHR", succeed }, { "vkFlushMappedMemoryRanges", succeed },
  { "vkInvalidateMappedMemoryRanges", succeed },
  { "vkCreateFence", create_fence }, { "vkDestroyFence", do_nothing }, { "vkGetFenceFdKHR", get_fd }, { "vkGetSemaphoreFdKHR", get_fd },
  { "vkCreateSemaphore", create_semaphore }, { "vkDestroySemaphore", do_nothing },
  { "vkUpdateDescriptorSets", do_nothing }, { "vkGetQueryPoolResults", succeed },
  { "vkBeginCommandBuffer", succeed }, { "vkEndCommandBuffer", succeed }, { "vkResetCommandBuffer", succeed },
  { "vkResetCommandPool", succeed }, { "vkQueueSubmit", succeed }, { "vkQueueSubmit2", succeed },
  { "vkQueueSubmit2KHR", succeed }, { "vkQueueWaitIdle", succeed }, { "vkDeviceWaitIdle", succeed },
  { "vkWaitForFences", succeed }, { "vkGetFenceStatus", succeed }, { "vkResetFences", succeed },
  { "vkWaitSemaphores", succeed }, { "vkWaitSemaphoresKHR", succeed }, { "vkSignalSemaphore", succeed },
  { "vkGetSemaphoreCounterValue", get_counter }, { "vkGetSemaphoreCounterValueKHR", get_counter },
};

static PFN_vkVoidFunction
find_replaced (const char *name)
{
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++)
    if (strcmp (name, replaced[i].name) == 0)
      return (PFN_vkVoidFunction) replaced[i].function;
  return strncmp (name, "vkCmd", 5) == 0 ? (PFN_vkVoidFunction) do_nothing : NULL;
}

PFN_vkVoidFunction VKAPI_CALL
vkGetDeviceProcAddr (VkDevice device, const char *name)
{
  PFN_vkVoidFunction mine = find_replaced (name);
  PFN_vkVoidFunction theirs = next_device (device, name);

  return theirs != NULL && mine != NULL ? mine : theirs;
}

PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr (VkInstance which, const char *name)
{
  PFN_vkVoidFunction mine = find_replaced (name);

  if (mine != NULL)
    return mine;
  return next_instance != NULL ? next_instance (which, name) : NULL;
}

EXPORT VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion (VkNegotiateLayerInterface *negotiation)
{
  negotiation->loaderLayerInterfaceVersion = 2;
  negotiation->pfnGetInstanceProcAddr = vkGetInstanceProcAddr;
  negotiation->pfnGetDeviceProcAddr = vkGetDeviceProcAddr;
  negotiation->pfnGetPhysicalDeviceProcAddr = NULL;
  return VK_SUCCESS;
}
