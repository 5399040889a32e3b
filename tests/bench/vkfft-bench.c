/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One process of VkFFT, on the same driver: complex transforms in place, forward and back in turn, of what is on the
 * device. bench.py compiles and starts it in the root that `./dev peers` makes.
 *
 *   vkfft-bench LENGTH BATCH RUNS SECONDS INPUT OUTPUT
 *
 * RUNS transforms in a row are timed together, and the copy of the last result into memory.
 */
#define VKFFT_BACKEND 0

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <vkFFT.h>

#define CHECK(call)                                                           \
  do                                                                          \
    {                                                                         \
      int result = (int) (call);                                              \
                                                                              \
      if (result != 0)                                                        \
        {                                                                     \
          fprintf (stderr, "vkfft-bench: error %d of %s\n", result, #call);   \
          exit (1);                                                           \
        }                                                                     \
    }                                                                         \
  while (0)

typedef struct
{
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  VkCommandPool pool;
  VkFence fence;
  VkBuffer buffer;
  VkDeviceMemory memory;
  float *mapped;
  VkCommandBuffer commands[2];   /* forward and inverse */
} Bench;

static double
now (void)
{
  struct timespec time;

  clock_gettime (CLOCK_MONOTONIC, &time);
  return (double) time.tv_sec * 1e3 + (double) time.tv_nsec * 1e-6;
}

static double
cpu_time (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-3;
}

static void
open_device (Bench *self)
{
  VkInstance instance;
  uint32_t n = 1;
  const float priority = 1;
  VkApplicationInfo application = { VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1 };
  VkInstanceCreateInfo instance_info = { VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application };
  VkDeviceQueueCreateInfo queue = { VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority };
  VkDeviceCreateInfo device = { VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue };
  VkCommandPoolCreateInfo pool = { VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO };
  VkFenceCreateInfo fence = { VK_STRUCTURE_TYPE_FENCE_CREATE_INFO };

  CHECK (vkCreateInstance (&instance_info, NULL, &instance));
  vkEnumeratePhysicalDevices (instance, &n, &self->physical);
  if (n == 0)
    exit (77);
  CHECK (vkCreateDevice (self->physical, &device, NULL, &self->device));
  vkGetDeviceQueue (self->device, 0, 0, &self->queue);
  CHECK (vkCreateCommandPool (self->device, &pool, NULL, &self->pool));
  CHECK (vkCreateFence (self->device, &fence, NULL, &self->fence));
}

/* Host-visible memory, which is all that its driver has. */
static void
make_buffer (Bench  *self,
             size_t  size)
{
  VkBufferCreateInfo info = { VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT };
  VkMemoryAllocateInfo allocation = { VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO };
  VkPhysicalDeviceMemoryProperties properties;
  VkMemoryRequirements needs;
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

  CHECK (vkCreateBuffer (self->device, &info, NULL, &self->buffer));
  vkGetBufferMemoryRequirements (self->device, self->buffer, &needs);
  vkGetPhysicalDeviceMemoryProperties (self->physical, &properties);
  while ((properties.memoryTypes[allocation.memoryTypeIndex].propertyFlags & wanted) != wanted)
    if (++allocation.memoryTypeIndex == properties.memoryTypeCount)
      exit (77);
  allocation.allocationSize = needs.size;
  CHECK (vkAllocateMemory (self->device, &allocation, NULL, &self->memory));
  CHECK (vkBindBufferMemory (self->device, self->buffer, self->memory, 0));
  CHECK (vkMapMemory (self->device, self->memory, 0, VK_WHOLE_SIZE, 0, (void **) &self->mapped));
}

static void
record (Bench              *self,
        VkFFTApplication   *app)
{
  VkCommandBufferAllocateInfo allocation = { VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = self->pool,
                                             .commandBufferCount = 2 };
  VkCommandBufferBeginInfo begin = { VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO };

  CHECK (vkAllocateCommandBuffers (self->device, &allocation, self->commands));
  for (int i = 0; i < 2; i++)
    {
      VkFFTLaunchParams launch = { .commandBuffer = &self->commands[i] };

      CHECK (vkBeginCommandBuffer (self->commands[i], &begin));
      CHECK (VkFFTAppend (app, i == 0 ? -1 : 1, &launch));
      CHECK (vkEndCommandBuffer (self->commands[i]));
    }
}

static void
submit (Bench *self,
        int    way)
{
  VkSubmitInfo info = { VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &self->commands[way] };

  CHECK (vkQueueSubmit (self->queue, 1, &info, self->fence));
  CHECK (vkWaitForFences (self->device, 1, &self->fence, VK_TRUE, UINT64_MAX));
  CHECK (vkResetFences (self->device, 1, &self->fence));
}

static int
compare (const void *a,
         const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

int
main (int   argc,
      char *argv[])
{
  Bench self = { 0 };
  VkFFTConfiguration configuration = { 0 };
  VkFFTApplication app = { 0 };
  uint64_t length, batch, size;
  double seconds, begin, cpu;
  static double times[2000];
  int n = 0, runs;
  float *copy;
  FILE *file;

  if (argc != 7)
    return 2;
  length = strtoull (argv[1], NULL, 10);
  batch = strtoull (argv[2], NULL, 10);
  runs = atoi (argv[3]);
  seconds = strtod (argv[4], NULL);
  size = length * batch * 2 * sizeof (float);
  copy = malloc (size);
  file = fopen (argv[5], "rb");
  if (file == NULL || fread (copy, 1, size, file) != size)
    return 1;
  fclose (file);

  open_device (&self);
  make_buffer (&self, size);
  configuration.FFTdim = 1;
  configuration.size[0] = length;
  configuration.numberBatches = batch;
  configuration.normalize = 1;
  configuration.physicalDevice = &self.physical;
  configuration.device = &self.device;
  configuration.queue = &self.queue;
  configuration.commandPool = &self.pool;
  configuration.fence = &self.fence;
  configuration.buffer = &self.buffer;
  configuration.bufferSize = &size;
  CHECK (initializeVkFFT (&app, configuration));
  record (&self, &app);

  memcpy (self.mapped, copy, size);
  submit (&self, 0);
  file = fopen (argv[6], "wb");
  if (file == NULL || fwrite (self.mapped, 1, size, file) != size || fclose (file) != 0)
    return 1;
  submit (&self, 1);

  cpu = cpu_time ();
  begin = now ();
  while (n < 3 || (n < 2000 && now () - begin < seconds * 1e3 * (n < 7 ? 4 : 1)))
    {
      double start = now ();

      for (int i = 0; i < runs; i++)
        submit (&self, i % 2);
      memcpy (copy, self.mapped, size);
      times[n++] = (now () - start) / runs;
    }
  cpu = (cpu_time () - cpu) / n / runs;
  qsort (times, (size_t) n, sizeof times[0], compare);
  printf ("{\"ms\": %.6f, \"runs\": %d, \"cpu_ms\": %.6f}\n", (times[(n - 1) / 2] + times[n / 2]) / 2, n, cpu);
  fflush (stdout);
  _exit (0);
}
