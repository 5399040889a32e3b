/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tells what a Vulkan driver makes of compute shaders: registers, spills, code size, occupancy, the compiler's own
 * estimate of time, and the assembly. Nothing runs, so a driver without its hardware will do (RADV_FORCE_FAMILY, or
 * Intel's and NVIDIA's with gpu-shim.c).
 *
 *   stats [OPTION…] FILE.spv[@ID=VALUE,…]… | FOLDER…
 *
 * ID=VALUE sets a specialization constant. Bindings come from the SPIR-V itself.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <vulkan/vulkan.h>

#define LENGTH(array) (sizeof (array) / sizeof *(array))
#define MAX_SETS 8
#define MAX_BINDINGS 256
#define MAX_SPECS 64

static struct
{
  unsigned subgroup;     /* 0: chosen by the driver */
  unsigned robust;       /* 0, 1: robustBufferAccess, 2: robustBufferAccess2 as well */
  bool full, varying, json, index;
  const char *assembly;  /* a folder */
  const char *entry;
} options;

static VkPhysicalDevice physical;
static VkDevice device;
static VkPhysicalDeviceProperties2 properties = { .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 };
static PFN_vkGetPipelineExecutablePropertiesKHR get_executables;
static PFN_vkGetPipelineExecutableStatisticsKHR get_statistics;
static PFN_vkGetPipelineExecutableInternalRepresentationsKHR get_texts;
static unsigned n_rows;

static void
check (VkResult    result,
       const char *what)
{
  if (result == VK_SUCCESS || result == VK_INCOMPLETE)
    return;
  fprintf (stderr, "stats: %s: VkResult %d\n", what, result);
  exit (1);
}

static void *
allocate (size_t n,
          size_t size)
{
  void *memory = calloc (n > 0 ? n : 1, size);

  if (memory == NULL)
    abort ();
  return memory;
}

/* ---- the device ---- */

/* What shaders may need. Robustness is not included: it changes the code, so it is an option. */
static const char * const wanted[] = {
  "VK_KHR_cooperative_matrix", "VK_KHR_pipeline_executable_properties", "VK_KHR_shader_bfloat16",
  "VK_KHR_shader_clock", "VK_KHR_shader_maximal_reconvergence", "VK_KHR_shader_subgroup_uniform_control_flow",
  "VK_KHR_workgroup_memory_explicit_layout", "VK_EXT_shader_atomic_float", "VK_EXT_robustness2",
};

static void
open_device (void)
{
  VkApplicationInfo application = { VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3 };
  VkInstanceCreateInfo create = { VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application };
  VkPhysicalDeviceRobustness2FeaturesEXT robustness = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ROBUSTNESS_2_FEATURES_EXT };
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomics = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT, &robustness };
  VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR layout = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR, &atomics };
  VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR flow = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR, &layout };
  VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR reconvergence = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR, &flow };
  VkPhysicalDeviceShaderClockFeaturesKHR clock = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CLOCK_FEATURES_KHR, &reconvergence };
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, &clock };
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable = {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, &matrix };
  VkPhysicalDeviceVulkan13Features v13 = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, &executable };
  VkPhysicalDeviceVulkan12Features v12 = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v13 };
  VkPhysicalDeviceVulkan11Features v11 = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12 };
  VkPhysicalDeviceFeatures2 features = { VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11 };
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue = {
    VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority };
  VkDeviceCreateInfo open = {
    VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features, .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue };
  const char *names[LENGTH (wanted)];
  VkExtensionProperties *extensions;
  VkInstance instance;
  uint32_t n = 1;

  check (vkCreateInstance (&create, NULL, &instance), "no Vulkan");
  check (vkEnumeratePhysicalDevices (instance, &n, &physical), "no device");
  if (n == 0)
    {
      fprintf (stderr, "stats: the driver has no device\n");
      exit (1);
    }
  check (vkEnumerateDeviceExtensionProperties (physical, NULL, &n, NULL), "no extensions");
  extensions = allocate (n, sizeof *extensions);
  check (vkEnumerateDeviceExtensionProperties (physical, NULL, &n, extensions), "no extensions");
  for (uint32_t i = 0; i < LENGTH (wanted); i++)
    for (uint32_t j = 0; j < n; j++)
      if (strcmp (wanted[i], extensions[j].extensionName) == 0)
        names[open.enabledExtensionCount++] = wanted[i];
  free (extensions);
  open.ppEnabledExtensionNames = names;

  /* Structures of extensions that the device lacks remain zeroed. */
  vkGetPhysicalDeviceFeatures2 (physical, &features);
  features.features.robustBufferAccess = options.robust > 0;
  robustness.robustBufferAccess2 = options.robust > 1;
  robustness.robustImageAccess2 = robustness.nullDescriptor = VK_FALSE;
  v13.robustImageAccess = VK_FALSE;
  vkGetPhysicalDeviceProperties2 (physical, &properties);
  check (vkCreateDevice (physical, &open, NULL, &device), "the device cannot be opened");
  get_executables = (void *) vkGetDeviceProcAddr (device, "vkGetPipelineExecutablePropertiesKHR");
  get_statistics = (void *) vkGetDeviceProcAddr (device, "vkGetPipelineExecutableStatisticsKHR");
  get_texts = (void *) vkGetDeviceProcAddr (device, "vkGetPipelineExecutableInternalRepresentationsKHR");
}

/* ---- what the SPIR-V says of itself ---- */

typedef struct
{
  VkDescriptorSetLayoutBinding bindings[MAX_SETS][MAX_BINDINGS];
  uint32_t n_bindings[MAX_SETS];
  char entry[256];
} Shader;

typedef struct
{
  uint32_t set, binding;
  bool has_binding, buffer_block;
  uint32_t op, class, type;   /* of a pointer, array, image or variable */
} Id;

static VkDescriptorType
get_descriptor_type (const Id *ids,
                     uint32_t  class,
                     uint32_t  type)
{
  while (ids[type].op == 28 || ids[type].op == 29)   /* OpTypeArray, OpTypeRuntimeArray */
    type = ids[type].type;
  switch (class)
    {
    case 12: return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    case 2: return ids[type].buffer_block ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    default: break;
    }
  switch (ids[type].op)
    {
    case 26: return VK_DESCRIPTOR_TYPE_SAMPLER;
    case 27: return VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER;
    default: return ids[type].class == 2 ? VK_DESCRIPTOR_TYPE_STORAGE_IMAGE : VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE;
    }
}

/* The numbers are from the SPIR-V specification. */
static bool
reflect (Shader         *shader,
         const uint32_t *words,
         size_t          n_words)
{
  uint32_t bound = n_words > 5 && words[0] == 0x07230203 ? words[3] : 0;
  Id *ids = allocate (bound, sizeof *ids);
  bool ok = bound > 0;

  for (size_t at = 5; ok && at < n_words; at += words[at] >> 16)
    {
      const uint32_t *w = words + at;
      uint32_t length = w[0] >> 16, op = w[0] & 0xffff;

      if (length == 0 || at + length > n_words)
        ok = false;
      else if (op == 15 && w[1] == 5 && (shader->entry[0] == '\0' || strcmp ((const char *) (w + 3), options.entry) == 0))
        snprintf (shader->entry, sizeof shader->entry, "%s", (const char *) (w + 3));   /* OpEntryPoint GLCompute */
      else if (op == 71 && w[1] < bound)   /* OpDecorate */
        {
          if (w[2] == 34)
            ids[w[1]].set = w[3];
          else if (w[2] == 33)
            ids[w[1]].binding = w[3], ids[w[1]].has_binding = true;
          else if (w[2] == 3)
            ids[w[1]].buffer_block = true;
        }
      else if (op == 32 && w[1] < bound)   /* OpTypePointer */
        ids[w[1]].op = op, ids[w[1]].class = w[2], ids[w[1]].type = w[3];
      else if ((op == 28 || op == 29) && w[1] < bound)
        ids[w[1]].op = op, ids[w[1]].type = w[2];
      else if (op >= 25 && op <= 27 && w[1] < bound)
        ids[w[1]].op = op, ids[w[1]].class = op == 25 ? w[7] : 0;
      else if (op == 59 && w[2] < bound && ids[w[2]].has_binding)   /* OpVariable */
        {
          const Id *id = &ids[w[2]];
          VkDescriptorSetLayoutBinding *binding;

          if (id->set >= MAX_SETS || shader->n_bindings[id->set] == MAX_BINDINGS)
            ok = false;
          else
            {
              bool known = false;

              for (uint32_t i = 0; i < shader->n_bindings[id->set]; i++)
                known = known || shader->bindings[id->set][i].binding == id->binding;
              if (known)   /* accessed as another type */
                continue;
              binding = &shader->bindings[id->set][shader->n_bindings[id->set]++];
              *binding = (VkDescriptorSetLayoutBinding) {
                id->binding, get_descriptor_type (ids, w[3], ids[w[1]].type), 1, VK_SHADER_STAGE_COMPUTE_BIT };
            }
        }
    }
  free (ids);
  return ok && shader->entry[0] != '\0';
}

/* ---- one row ---- */

static void
print_name (const char *name)
{
  for (; *name != '\0'; name++)
    putchar (options.json && (*name == '"' || *name == '\\' || *name < ' ') ? '?' : *name);
}

/* Hashes tell nothing, and data passed between stages does not concern compute shaders. */
static bool
is_of_interest (const VkPipelineExecutableStatisticKHR *statistic)
{
  return strcasestr (statistic->name, "hash") == NULL && strstr (statistic->name, "Combined") == NULL;
}

/* Statistics as JSON fields, or as "name value" on a line. */
static void
print_statistics (const char *name,
                  VkPipeline  pipeline)
{
  VkPipelineInfoKHR info = { VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline };
  VkPipelineExecutableInfoKHR which = { VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline };
  VkPipelineExecutablePropertiesKHR executable = { VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR };
  VkPipelineExecutableStatisticKHR *statistics;
  uint32_t n = 1;

  check (get_executables (device, &info, &n, &executable), "no executable");
  check (get_statistics (device, &which, &n, NULL), "no statistics");
  statistics = allocate (n, sizeof *statistics);
  for (uint32_t i = 0; i < n; i++)
    statistics[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  check (get_statistics (device, &which, &n, statistics), "no statistics");

  if (options.json)
    printf ("%s\n  {\"kernel\": \"", n_rows > 0 ? "," : "");
  print_name (name);
  printf (options.json ? "\", \"subgroup\": %u" : "\tsubgroup %u", executable.subgroupSize);
  for (uint32_t i = 0; i < n; i++)
    {
      const VkPipelineExecutableStatisticKHR *s = &statistics[i];

      if (!is_of_interest (s))
        continue;
      printf (options.json ? ", \"%s\": " : "\t%s ", s->name);
      if (s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR)
        printf ("%g", s->value.f64);
      else if (s->format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR)
        printf ("%" PRId64, s->value.i64);
      else
        printf ("%" PRIu64, s->value.u64);
    }
  printf (options.json ? "}" : "\n");
  n_rows++;
  free (statistics);
}

static void
write_assembly (const char *name,
                VkPipeline  pipeline)
{
  VkPipelineExecutableInfoKHR which = { VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = pipeline };
  VkPipelineExecutableInternalRepresentationKHR *texts;
  uint32_t n = 0;

  check (get_texts (device, &which, &n, NULL), "no assembly");
  texts = allocate (n, sizeof *texts);
  for (uint32_t i = 0; i < n; i++)
    texts[i].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
  check (get_texts (device, &which, &n, texts), "no assembly");
  for (uint32_t i = 0; i < n; i++)
    texts[i].pData = allocate (texts[i].dataSize + 1, 1);
  check (get_texts (device, &which, &n, texts), "no assembly");
  for (uint32_t i = 0; i < n; i++)
    {
      char *path = NULL;
      FILE *file;

      if (strstr (texts[i].name, "ssembly") != NULL && asprintf (&path, "%s/%s.s", options.assembly, name) > 0)
        {
          file = fopen (path, "w");
          if (file == NULL || fputs (texts[i].pData, file) < 0 || fclose (file) != 0)
            fprintf (stderr, "stats: %s: %s\n", path, strerror (errno));
        }
      free (path);
      free (texts[i].pData);
    }
  free (texts);
}

/* ---- one shader ---- */

static bool
compile (const char     *name,
         const uint32_t *words,
         size_t          n_words,
         const char     *constants)
{
  Shader *shader = allocate (1, sizeof *shader);
  VkPushConstantRange range = { VK_SHADER_STAGE_COMPUTE_BIT, 0, properties.properties.limits.maxPushConstantsSize };
  VkDescriptorSetLayout sets[MAX_SETS];
  VkPipelineLayoutCreateInfo layout_info = {
    VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = MAX_SETS, .pSetLayouts = sets,
    .pushConstantRangeCount = 1, .pPushConstantRanges = &range };
  VkSpecializationMapEntry entries[MAX_SPECS];
  uint32_t values[MAX_SPECS];
  VkSpecializationInfo special = { 0, entries, 0, values };
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
    VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO, NULL, options.subgroup };
  VkShaderModuleCreateInfo module_info = { VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, NULL, 0, n_words * 4, words };
  VkComputePipelineCreateInfo info = {
    .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
    .flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
             (options.assembly ? VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR : 0),
    .stage = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
      .pNext = options.subgroup ? &size : NULL,
      .flags = (options.full ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0) |
               (options.varying ? VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT : 0),
      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
      .pName = shader->entry,
      .pSpecializationInfo = &special,
    },
  };
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkResult result;

  for (const char *c = constants; c != NULL && *c != '\0' && special.mapEntryCount < MAX_SPECS; c = strchr (c, ','))
    {
      uint32_t i = special.mapEntryCount++;
      char *end;

      c += *c == ',';
      entries[i] = (VkSpecializationMapEntry) { (uint32_t) strtoul (c, &end, 0), i * 4, 4 };
      values[i] = *end == '=' ? (uint32_t) strtoul (end + 1, NULL, 0) : 0;
      special.dataSize += 4;
    }
  if (!reflect (shader, words, n_words))
    {
      fprintf (stderr, "stats: %s: no compute shader\n", name);
      free (shader);
      return false;
    }
  for (uint32_t i = 0; i < MAX_SETS; i++)
    {
      VkDescriptorSetLayoutCreateInfo set = {
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, NULL, 0, shader->n_bindings[i], shader->bindings[i] };

      check (vkCreateDescriptorSetLayout (device, &set, NULL, &sets[i]), name);
    }
  check (vkCreatePipelineLayout (device, &layout_info, NULL, &info.layout), name);
  check (vkCreateShaderModule (device, &module_info, NULL, &info.stage.module), name);
  result = vkCreateComputePipelines (device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
  if (result == VK_SUCCESS)
    {
      print_statistics (name, pipeline);
      if (options.assembly != NULL)
        write_assembly (name, pipeline);
    }
  else
    fprintf (stderr, "stats: %s: refused with VkResult %d\n", name, result);

  vkDestroyPipeline (device, pipeline, NULL);
  vkDestroyShaderModule (device, info.stage.module, NULL);
  vkDestroyPipelineLayout (device, info.layout, NULL);
  for (uint32_t i = 0; i < MAX_SETS; i++)
    vkDestroyDescriptorSetLayout (device, sets[i], NULL);
  free (shader);
  return result == VK_SUCCESS;
}

static bool
compile_file (const char *argument)
{
  char *path = strdup (argument), *constants = strchr (path, '@'), *name, *suffix;
  FILE *file;
  uint32_t *words = NULL;
  long size = -1;
  bool ok = false;

  if (constants != NULL)
    *constants++ = '\0';
  file = fopen (path, "rb");
  if (file != NULL && fseek (file, 0, SEEK_END) == 0 && (size = ftell (file)) > 0)
    {
      words = allocate ((size_t) size / 4 + 1, 4);
      rewind (file);
      ok = fread (words, 1, (size_t) size, file) == (size_t) size;
    }
  if (file != NULL)
    fclose (file);
  if (!ok)
    fprintf (stderr, "stats: %s: %s\n", path, errno ? strerror (errno) : "empty");
  name = strrchr (path, '/') ? strrchr (path, '/') + 1 : path;
  suffix = strrchr (name, '.');
  if (suffix != NULL && strcmp (suffix, ".spv") == 0)
    *suffix = '\0';
  ok = ok && compile (name, words, (size_t) size / 4, constants);
  fflush (stdout);
  free (words);
  free (path);
  return ok;
}

static int
is_spirv (const struct dirent *entry)
{
  const char *suffix = strrchr (entry->d_name, '.');

  return suffix != NULL && strcmp (suffix, ".spv") == 0;
}

/* The settings for shader @name, from the index written by the layer; its constants are stored in @constants. */
static void
look_up (const char *index,
         const char *name,
         char       *constants,
         size_t      size)
{
  size_t length = strcspn (name, ".");
  unsigned flags = 0;
  const char *line;

  for (line = index; line != NULL && (strncmp (line, name, length) != 0 || line[length] != '\t');)
    line = (line = strchr (line, '\n')) != NULL ? line + 1 : NULL;
  options.subgroup = 0;
  if (line != NULL && sscanf (line, "%*s %*s flags=%x subgroup=%u", &flags, &options.subgroup) > 0)
    {
      const char *found = strstr (line, "constants=") + strlen ("constants=");

      snprintf (constants, size, "%.*s", (int) strcspn (found, "\n"), found);
    }
  options.full = (flags & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT) != 0;
  options.varying = (flags & VK_PIPELINE_SHADER_STAGE_CREATE_ALLOW_VARYING_SUBGROUP_SIZE_BIT) != 0;
}

static bool
compile_folder (const char *folder)
{
  struct dirent **entries;
  int n = scandir (folder, &entries, is_spirv, alphasort);
  char *path, *index = allocate (1 << 20, 1), constants[4096];
  FILE *file = NULL;
  bool ok = n >= 0;

  if (options.index && asprintf (&path, "%s/index", folder) > 0)
    {
      file = fopen (path, "r");
      free (path);
    }
  if (file != NULL)
    {
      index[fread (index, 1, (1 << 20) - 1, file)] = '\0';
      fclose (file);
    }
  for (int i = 0; i < n; i++)
    {
      constants[0] = '\0';
      if (file != NULL)
        look_up (index, entries[i]->d_name, constants, sizeof constants);
      ok = asprintf (&path, "%s/%s%s%s", folder, entries[i]->d_name, constants[0] ? "@" : "", constants) > 0 &&
           compile_file (path) && ok;
      free (path);
      free (entries[i]);
    }
  if (n >= 0)
    free (entries);
  free (index);
  return ok;
}

static const char usage[] =
  "Usage: stats [OPTION…] FILE.spv[@ID=VALUE,…]… | FOLDER…\n\n"
  "  --json            rows as JSON\n"
  "  --asm DIR         write the assembly of each shader to DIR/NAME.s\n"
  "  --index           ask for what the index of a FOLDER says, which the layer wrote: subgroups, constants\n"
  "  --subgroup N      require subgroups of N (8, 16, 32, 64)\n"
  "  --full            require full subgroups\n"
  "  --varying         allow varying sizes of subgroups\n"
  "  --robust N        0: no bounds checks of the driver's (default); 1: robustBufferAccess, as Dawn asks for;\n"
  "                    2: robustBufferAccess2 too\n"
  "  --entry NAME      the entry point, where there are several (main)\n";

int
main (int   argc,
      char *argv[])
{
  static const struct option names[] = {
    { "json", no_argument, NULL, 'j' }, { "index", no_argument, NULL, 'i' }, { "asm", required_argument, NULL, 'a' }, { "full", no_argument, NULL, 'f' },
    { "subgroup", required_argument, NULL, 's' }, { "varying", no_argument, NULL, 'v' },
    { "robust", required_argument, NULL, 'r' }, { "entry", required_argument, NULL, 'e' },
    { "help", no_argument, NULL, 'h' }, { 0 } };
  bool ok = true;
  int option;

  options.entry = "main";
  while ((option = getopt_long (argc, argv, "h", names, NULL)) != -1)
    switch (option)
      {
      case 'j': options.json = true; break;
      case 'i': options.index = true; break;
      case 'a': options.assembly = optarg; break;
      case 'f': options.full = true; break;
      case 'v': options.varying = true; break;
      case 's': options.subgroup = (unsigned) atoi (optarg); break;
      case 'r': options.robust = (unsigned) atoi (optarg); break;
      case 'e': options.entry = optarg; break;
      case 'h': fputs (usage, stdout); return 0;
      default: fputs (usage, stderr); return 2;
      }
  if (optind == argc)
    {
      fputs (usage, stderr);
      return 2;
    }
  open_device ();
  if (options.json)
    printf ("{\"device\": \"%s\", \"kernels\": [", properties.properties.deviceName);
  else
    printf ("# %s\n", properties.properties.deviceName);
  for (int i = optind; i < argc; i++)
    {
      struct stat status;

      ok = (stat (argv[i], &status) == 0 && S_ISDIR (status.st_mode) ? compile_folder (argv[i]) : compile_file (argv[i])) && ok;
    }
  if (options.json)
    printf ("\n]}\n");
  return ok ? 0 : 1;
}
