/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * For LD_PRELOAD: a GPU of Intel's or NVIDIA's that is not there. Mesa's Vulkan drivers for them find one graphics card,
 * and the requests they make of the kernel's i915 or nouveau driver succeed, so that they compile shaders for that
 * chip. Buffers are real memory (of one file without a name); what is submitted to the card is forgotten, and every wait
 * ends at once.
 *
 *   ISA_CHIP=dg2 LD_PRELOAD=libgpu-shim.so VK_DRIVER_FILES=…/intel_icd.json PROGRAM
 *   ISA_CHIP=ada LD_PRELOAD=libgpu-shim.so VK_DRIVER_FILES=…/nouveau_icd.json PROGRAM
 *
 * ISA_CHIP: a name of the table below, or NAME:0xID for another PCI id of that kind. ISA_SHIM_DEBUG=1 tells of
 * requests that are not known here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <drm/drm.h>
#include <drm/i915_drm.h>
#include <drm/nouveau_drm.h>
#include <xf86drm.h>

#define NODE "/dev/dri/renderD128"
#define GIB (UINT64_C (1) << 30)
#define SPACE (UINT64_C (1) << 42)   /* of the file behind all buffers; only touched pages take memory */
#define MAX_BUFFERS (1 << 20)

#define INTEL 0x8086
#define NVIDIA 0x10de

/* Intel: cores are subslices, dual subslices or Xe cores, engines the vector engines of a core; from Xe-HPG on the kernel
 * reports a single slice with all cores. NVIDIA: cores are TPCs (two SMs), engines GPCs. */
static const struct Chip
{
  const char *name;
  uint32_t id, revision, cores, engines, memory_gib;
  uint32_t clock;              /* of time stamps, Hz; NVIDIA: the hardware's number for the chipset */
  uint16_t copy, graphics, compute;   /* NVIDIA: classes of its engines */
} chips[] = {
  { "skl", 0x1912, 6, 3, 8, 0, 12000000, 0, 0, 0 },         /* Gen9: HD Graphics 530 */
  { "icl", 0x8a52, 7, 8, 8, 0, 12000000, 0, 0, 0 },         /* Gen11: Iris Plus G7 */
  { "tgl", 0x9a49, 3, 6, 16, 0, 19200000, 0, 0, 0 },        /* Xe-LP: Iris Xe of Tiger Lake */
  { "adl", 0x46a6, 12, 6, 16, 0, 19200000, 0, 0, 0 },       /* Xe-LP: Alder Lake-P */
  { "rpl", 0xa7a0, 4, 6, 16, 0, 19200000, 0, 0, 0 },        /* Xe-LP: Raptor Lake-P */
  { "adln", 0x46d1, 0, 2, 16, 0, 19200000, 0, 0, 0 },       /* Xe-LP: N100 */
  { "dg2", 0x56a0, 8, 32, 16, 16, 19200000, 0, 0, 0 },      /* Xe-HPG: Arc A770 */
  { "mtl", 0x7d55, 4, 8, 16, 0, 19200000, 0, 0, 0 },        /* Xe-LPG: Arc of Meteor Lake-P */
  { "arl", 0x7d51, 4, 8, 16, 0, 19200000, 0, 0, 0 },        /* Xe-LPG+: Arc of Arrow Lake-H, with matrix engines */
  { "lnl", 0x64a0, 4, 8, 8, 0, 19200000, 0, 0, 0 },         /* Xe2: Lunar Lake */
  { "bmg", 0xe20b, 4, 20, 8, 12, 19200000, 0, 0, 0 },       /* Xe2: Arc B580 */
  { "ptl", 0xb080, 4, 12, 8, 0, 19200000, 0, 0, 0 },        /* Xe3: Panther Lake */
  { "turing", 0x1f08, 161, 15, 3, 6, 0x166, 0xc5b5, 0xc597, 0xc5c0 },       /* RTX 2060 */
  { "ampere", 0x2503, 161, 14, 3, 12, 0x176, 0xc7b5, 0xc797, 0xc7c0 },      /* RTX 3060 */
  { "ada", 0x2882, 161, 12, 3, 8, 0x197, 0xc7b5, 0xc997, 0xc9c0 },          /* RTX 4060 */
  { "blackwell", 0x2f04, 161, 24, 5, 12, 0x1b5, 0xcab5, 0xce97, 0xcec0 },   /* RTX 5070 */
};
static struct Chip chip;
static bool debug;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static struct { uint64_t offset, size; } buffers[MAX_BUFFERS];
static uint32_t n_buffers = 1, next_id = 1;
static uint64_t used;

static int (*real_open) (const char *, int, ...);
static int (*real_ioctl) (int, unsigned long, ...);

static void
start (void)
{
  const char *name = getenv ("ISA_CHIP") ? getenv ("ISA_CHIP") : "dg2", *id = strchr (name, ':');
  size_t length = id != NULL ? (size_t) (id - name) : strlen (name);

  for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
    if (strlen (chips[i].name) == length && strncmp (chips[i].name, name, length) == 0)
      chip = chips[i];
  if (chip.id == 0)
    {
      fprintf (stderr, "gpu-shim: no chip “%s”; there are", name);
      for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        fprintf (stderr, " %s", chips[i].name);
      fputc ('\n', stderr);
      _exit (2);
    }
  if (id != NULL)
    chip.id = strtoul (id + 1, NULL, 16);
  debug = getenv ("ISA_SHIM_DEBUG") != NULL;
  real_open = dlsym (RTLD_NEXT, "open");
  real_ioctl = dlsym (RTLD_NEXT, "ioctl");
  file = memfd_create ("gpu-shim", MFD_CLOEXEC);
  if (file < 0 || ftruncate (file, SPACE) != 0)
    perror ("gpu-shim");
}

static uint32_t
maker (void)
{
  return chip.compute != 0 ? NVIDIA : INTEL;
}

static int
fail (int error)
{
  errno = error;
  return -1;
}

/* ---- information from libdrm --------- */

static drmDevicePtr
make_device (void)
{
  struct { drmDevice device; drmPciBusInfo bus; drmPciDeviceInfo info; char *nodes[DRM_NODE_MAX]; char path[2][32]; } *all;

  pthread_once (&once, start);
  all = calloc (1, sizeof *all);
  strcpy (all->path[0], "/dev/dri/card0");
  strcpy (all->path[1], NODE);
  all->nodes[DRM_NODE_PRIMARY] = all->path[0];
  all->nodes[DRM_NODE_RENDER] = all->path[1];
  all->bus.dev = 2;
  all->info = (drmPciDeviceInfo) { maker (), chip.id, maker (), 0x1000, chip.revision };
  all->device.nodes = all->nodes;
  all->device.available_nodes = 1 << DRM_NODE_PRIMARY | 1 << DRM_NODE_RENDER;
  all->device.bustype = DRM_BUS_PCI;
  all->device.businfo.pci = &all->bus;
  all->device.deviceinfo.pci = &all->info;
  return &all->device;
}

int
drmGetDevices2 (uint32_t flags, drmDevicePtr devices[], int max)
{
  (void) flags;
  if (devices != NULL && max > 0)
    devices[0] = make_device ();
  return 1;
}

int drmGetDevices (drmDevicePtr devices[], int max) { return drmGetDevices2 (0, devices, max); }
int drmGetDevice2 (int fd, uint32_t flags, drmDevicePtr *device) { (void) fd, (void) flags; *device = make_device (); return 0; }
int drmGetDevice (int fd, drmDevicePtr *device) { return drmGetDevice2 (fd, 0, device); }
int drmGetDeviceFromDevId (dev_t id, uint32_t flags, drmDevicePtr *device) { (void) id; return drmGetDevice2 (-1, flags, device); }
void drmFreeDevice (drmDevicePtr *device) { free (*device); *device = NULL; }

void
drmFreeDevices (drmDevicePtr devices[], int n)
{
  for (int i = 0; i < n; i++)
    drmFreeDevice (&devices[i]);
}

/* ---- opening ---- */

static int
open_any (const char *path, int flags, mode_t mode)
{
  pthread_once (&once, start);
  return strcmp (path, NODE) == 0 ? fcntl (file, F_DUPFD_CLOEXEC, 3) : real_open (path, flags, mode);
}

#define OPEN(name) \
  int \
  name (const char *path, int flags, ...) \
  { \
    va_list arguments; \
    mode_t mode; \
\
    va_start (arguments, flags); \
    mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg (arguments, mode_t) : 0; \
    va_end (arguments); \
    return open_any (path, flags, mode); \
  }

OPEN (open)
OPEN (open64)

/* The same structure has two names here. */
#define STAT(name, type) \
  int \
  name (const char *path, struct type *status) \
  { \
    int (*real) (const char *, struct type *) = dlsym (RTLD_NEXT, #name); \
\
    if (strcmp (path, NODE) != 0) \
      return real (path, status); \
    memset (status, 0, sizeof *status); \
    status->st_mode = S_IFCHR | 0666; \
    status->st_rdev = makedev (226, 128); \
    return 0; \
  }

STAT (stat, stat)
STAT (stat64, stat64)

/* ---- requests of i915 ---- */

static int
get_parameter (int32_t which, int *value)
{
  switch (which)
    {
    case I915_PARAM_CHIPSET_ID: *value = chip.id; return 0;
    case I915_PARAM_REVISION: *value = chip.revision; return 0;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY: *value = chip.clock; return 0;
    case I915_PARAM_SUBSLICE_TOTAL: *value = chip.cores; return 0;
    case I915_PARAM_EU_TOTAL: *value = chip.cores * chip.engines; return 0;
    case I915_PARAM_MMAP_VERSION: *value = 1; return 0;
    case I915_PARAM_MMAP_GTT_VERSION: *value = 4; return 0;
    case I915_PARAM_CMD_PARSER_VERSION: *value = 10; return 0;
    case I915_PARAM_HAS_ALIASING_PPGTT: *value = 3; return 0;
    case I915_PARAM_HAS_GEM: case I915_PARAM_HAS_EXECBUF2: case I915_PARAM_HAS_WAIT_TIMEOUT:
    case I915_PARAM_HAS_EXEC_SOFTPIN: case I915_PARAM_HAS_EXEC_ASYNC: case I915_PARAM_HAS_EXEC_FENCE:
    case I915_PARAM_HAS_EXEC_FENCE_ARRAY: case I915_PARAM_HAS_EXEC_CAPTURE: case I915_PARAM_HAS_EXEC_BATCH_FIRST:
    case I915_PARAM_HAS_EXEC_TIMELINE_FENCES: case I915_PARAM_HAS_CONTEXT_ISOLATION: case I915_PARAM_HAS_USERPTR_PROBE:
    case I915_PARAM_HAS_EXEC_NO_RELOC:
      *value = 1;
      return 0;
    case I915_PARAM_PXP_STATUS: return fail (ENODEV);
    default:
      if (debug)
        fprintf (stderr, "gpu-shim: parameter %d is not known\n", which);
      return fail (EINVAL);
    }
}

/* Writes the answer to one item of a query, or nothing if there is no room; returns its length. */
static int
answer (uint64_t id, void *data, int room)
{
  switch (id)
    {
    case DRM_I915_QUERY_TOPOLOGY_INFO:
    case DRM_I915_QUERY_GEOMETRY_SUBSLICES:
      {
        struct drm_i915_query_topology_info *info = data;
        uint32_t stride = (chip.cores + 7) / 8, engine_stride = (chip.engines + 7) / 8;
        int length = sizeof *info + 1 + stride + chip.cores * engine_stride;

        if (room >= length)
          {
            memset (info, 0, length);
            info->max_slices = 1;
            info->max_subslices = chip.cores;
            info->max_eus_per_subslice = chip.engines;
            info->subslice_offset = 1;
            info->subslice_stride = stride;
            info->eu_offset = 1 + stride;
            info->eu_stride = engine_stride;
            info->data[0] = 1;
            for (uint32_t core = 0; core < chip.cores; core++)
              {
                info->data[1 + core / 8] |= 1 << core % 8;
                for (uint32_t engine = 0; engine < chip.engines; engine++)
                  info->data[1 + stride + core * engine_stride + engine / 8] |= 1 << engine % 8;
              }
          }
        return length;
      }
    case DRM_I915_QUERY_ENGINE_INFO:
      {
        static const uint16_t classes[] = { I915_ENGINE_CLASS_RENDER, I915_ENGINE_CLASS_COPY };
        struct drm_i915_query_engine_info *info = data;
        int n = sizeof classes / sizeof *classes, length = sizeof *info + n * sizeof *info->engines;

        if (room >= length)
          {
            memset (info, 0, length);
            info->num_engines = n;
            for (int i = 0; i < n; i++)
              info->engines[i].engine.engine_class = classes[i];
          }
        return length;
      }
    case DRM_I915_QUERY_MEMORY_REGIONS:
      {
        struct drm_i915_query_memory_regions *info = data;
        int n = chip.memory_gib > 0 ? 2 : 1, length = sizeof *info + n * sizeof *info->regions;

        if (room >= length)
          {
            memset (info, 0, length);
            info->num_regions = n;
            for (int i = 0; i < n; i++)
              {
                struct drm_i915_memory_region_info *region = &info->regions[i];

                region->region.memory_class = i == 0 ? I915_MEMORY_CLASS_SYSTEM : I915_MEMORY_CLASS_DEVICE;
                region->probed_size = region->unallocated_size = (i == 0 ? 16 : chip.memory_gib) * GIB;
                if (i > 0)
                  region->probed_cpu_visible_size = region->unallocated_cpu_visible_size = region->probed_size;
              }
          }
        return length;
      }
    default:
      if (debug)
        fprintf (stderr, "gpu-shim: query %d is not known\n", (int) id);
      return -EINVAL;
    }
}

static int
query (struct drm_i915_query *all)
{
  struct drm_i915_query_item *items = (void *) (uintptr_t) all->items_ptr;

  for (uint32_t i = 0; i < all->num_items; i++)
    items[i].length = answer (items[i].query_id, (void *) (uintptr_t) items[i].data_ptr, items[i].length);
  return 0;
}

static uint32_t
create_buffer (uint64_t *size)
{
  uint32_t handle = 0;

  *size = (*size + 65535) & ~UINT64_C (65535);
  pthread_mutex_lock (&lock);
  if (n_buffers < MAX_BUFFERS && used + *size <= SPACE)
    {
      handle = n_buffers++;
      buffers[handle].offset = used;
      buffers[handle].size = *size;
      used += *size;
    }
  pthread_mutex_unlock (&lock);
  return handle;
}

/* The pages are returned to the system; the offset is not reused. */
static void
close_buffer (uint32_t handle)
{
  if (handle > 0 && handle < n_buffers && buffers[handle].size > 0)
    fallocate (file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, buffers[handle].offset, buffers[handle].size);
}

static uint32_t
make_id (void)
{
  return __atomic_fetch_add (&next_id, 1, __ATOMIC_RELAXED);
}

static int
copy_text (char *to, __kernel_size_t *length, const char *text)
{
  if (to != NULL)
    memcpy (to, text, *length < strlen (text) ? *length : strlen (text));
  *length = strlen (text);
  return 0;
}

static int
unknown (unsigned long request)
{
  if (debug)
    fprintf (stderr, "gpu-shim: request %#lx is not known\n", request);
  return fail (EINVAL);
}

static int
handle_i915 (unsigned long request, void *argument)
{
  union
  {
    void *any;
    struct drm_i915_getparam *parameter;
    struct drm_i915_query *query;
    struct drm_i915_gem_create *create;
    struct drm_i915_gem_create_ext *create_ext;
    struct drm_i915_gem_mmap_offset *map_offset;
    struct drm_i915_gem_mmap *map;
    struct drm_i915_gem_userptr *user;
    struct drm_i915_gem_context_create *context;
    struct drm_i915_gem_context_param *context_parameter;
    struct drm_i915_gem_vm_control *vm;
    struct drm_i915_gem_get_aperture *aperture;
    struct drm_i915_gem_get_tiling *tiling;
    struct drm_i915_gem_busy *busy;
    struct drm_i915_reset_stats *reset;
    struct drm_i915_reg_read *reg;
  } a = { argument };

  switch (_IOC_NR (request))
    {
    case _IOC_NR (DRM_IOCTL_I915_GETPARAM):
      return get_parameter (a.parameter->param, a.parameter->value);
    case _IOC_NR (DRM_IOCTL_I915_QUERY):
      return query (a.query);
    case _IOC_NR (DRM_IOCTL_I915_GEM_CREATE):   /* and CREATE_EXT, which begins in the same way */
      a.create->handle = create_buffer ((uint64_t *) &a.create->size);
      return a.create->handle != 0 ? 0 : fail (ENOMEM);
    case _IOC_NR (DRM_IOCTL_I915_GEM_CREATE_EXT):
      a.create_ext->handle = create_buffer ((uint64_t *) &a.create_ext->size);
      return a.create_ext->handle != 0 ? 0 : fail (ENOMEM);
    case _IOC_NR (DRM_IOCTL_I915_GEM_MMAP_OFFSET):
      if (a.map_offset->handle >= n_buffers)
        return fail (ENOENT);
      a.map_offset->offset = buffers[a.map_offset->handle].offset;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_MMAP):
      {
        void *at = mmap (NULL, a.map->size, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                         buffers[a.map->handle].offset + a.map->offset);

        a.map->addr_ptr = (uintptr_t) at;
        return at != MAP_FAILED ? 0 : -1;
      }
    case _IOC_NR (DRM_IOCTL_I915_GEM_USERPTR):
      {
        uint64_t size = 65536;

        if (a.user->user_size == 0)
          return fail (EINVAL);
        a.user->handle = create_buffer (&size);
        return 0;
      }
    case _IOC_NR (DRM_IOCTL_I915_GEM_CONTEXT_CREATE):
      a.context->ctx_id = make_id ();
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM):
      a.context_parameter->value = a.context_parameter->param == I915_CONTEXT_PARAM_GTT_SIZE ? UINT64_C (1) << 48
                                   : a.context_parameter->param == I915_CONTEXT_PARAM_VM;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_VM_CREATE):
      a.vm->vm_id = make_id ();
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_GET_APERTURE):
      a.aperture->aper_size = a.aperture->aper_available_size = UINT64_C (1) << 48;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_GET_TILING):
      a.tiling->tiling_mode = a.tiling->swizzle_mode = a.tiling->phys_swizzle_mode = 0;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_BUSY):
      a.busy->busy = 0;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GET_RESET_STATS):
      a.reset->reset_count = a.reset->batch_active = a.reset->batch_pending = 0;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_REG_READ):
      a.reg->val = 0;
      return 0;
    case _IOC_NR (DRM_IOCTL_I915_GEM_CONTEXT_SETPARAM): case _IOC_NR (DRM_IOCTL_I915_GEM_CONTEXT_DESTROY):
    case _IOC_NR (DRM_IOCTL_I915_GEM_VM_DESTROY): case _IOC_NR (DRM_IOCTL_I915_GEM_EXECBUFFER2):
    case _IOC_NR (DRM_IOCTL_I915_GEM_WAIT): case _IOC_NR (DRM_IOCTL_I915_GEM_SET_CACHING):
    case _IOC_NR (DRM_IOCTL_I915_GEM_SET_DOMAIN): case _IOC_NR (DRM_IOCTL_I915_GEM_MADVISE):
    case _IOC_NR (DRM_IOCTL_I915_GEM_SET_TILING):
      return 0;
    default:
      return unknown (request);
    }
}

/* ---- requests of nouveau ---- */

/* Objects of the kernel driver are created and queried by a request of their own, whose structures are not in the
 * kernel's public headers. */
typedef struct
{
  uint8_t version, type, reserved[4], owner, route;
  uint64_t token, object;
  union
  {
    struct { uint8_t version, count, reserved[6]; struct { int32_t class; int16_t oldest, newest; } list[]; } classes;
    struct
    {
      uint8_t version, method, reserved[6];
      struct { uint8_t version, platform; uint16_t chipset; uint8_t revision, family, pad[2]; uint64_t memory, for_user; char chip[16], name[64]; } info;
    } call;
  };
} ObjectRequest;

enum { LIST_CLASSES = 1, CALL_METHOD = 4, METHOD_INFO = 0, ON_PCIE = 3 };

static int
handle_object (ObjectRequest *request)
{
  const int32_t classes[] = { 0xa140, chip.copy, 0x902d, chip.graphics, chip.compute };
  unsigned n = sizeof classes / sizeof *classes;

  if (request->type == LIST_CLASSES)
    {
      for (unsigned i = 0; i < n && i < request->classes.count; i++)
        request->classes.list[i].class = classes[i];
      request->classes.count = n;
    }
  else if (request->type == CALL_METHOD && request->call.method == METHOD_INFO)
    {
      request->call.info.platform = ON_PCIE;
      request->call.info.chipset = chip.clock;
      request->call.info.memory = request->call.info.for_user = chip.memory_gib * GIB;
      snprintf (request->call.info.name, sizeof request->call.info.name, "%s", chip.name);
    }
  return 0;
}

static int
get_nouveau_parameter (struct drm_nouveau_getparam *parameter)
{
  switch (parameter->param)
    {
    case NOUVEAU_GETPARAM_PCI_VENDOR: parameter->value = NVIDIA; return 0;
    case NOUVEAU_GETPARAM_PCI_DEVICE: parameter->value = chip.id; return 0;
    case NOUVEAU_GETPARAM_CHIPSET_ID: parameter->value = chip.clock; return 0;
    case NOUVEAU_GETPARAM_BUS_TYPE: parameter->value = 2; return 0;
    case NOUVEAU_GETPARAM_FB_SIZE: parameter->value = chip.memory_gib * GIB; return 0;
    case NOUVEAU_GETPARAM_GRAPH_UNITS: parameter->value = chip.engines | chip.cores << 8; return 0;
    case NOUVEAU_GETPARAM_PTIMER_TIME: parameter->value = 0; return 0;
    case NOUVEAU_GETPARAM_EXEC_PUSH_MAX: parameter->value = 510; return 0;
    case NOUVEAU_GETPARAM_VRAM_BAR_SIZE: parameter->value = chip.memory_gib * GIB; return 0;
    case NOUVEAU_GETPARAM_VRAM_USED: parameter->value = 65536; return 0;
    case NOUVEAU_GETPARAM_HAS_VMA_TILEMODE: parameter->value = 1; return 0;
    default:
      if (debug)
        fprintf (stderr, "gpu-shim: parameter %d is not known\n", (int) parameter->param);
      return fail (EINVAL);
    }
}

static int
handle_nouveau (unsigned long request, void *argument)
{
  struct drm_nouveau_gem_new *new = argument;
  struct drm_nouveau_gem_info *info = argument;
  struct drm_nouveau_channel_alloc *channel = argument;

  switch (_IOC_NR (request) - DRM_COMMAND_BASE)
    {
    case DRM_NOUVEAU_GETPARAM: return get_nouveau_parameter (argument);
    case DRM_NOUVEAU_NVIF: return handle_object (argument);
    case DRM_NOUVEAU_CHANNEL_ALLOC:
      channel->channel = make_id ();
      return 0;
    case DRM_NOUVEAU_GEM_NEW:
      new->info.handle = create_buffer ((uint64_t *) &new->info.size);
      info = &new->info;
      /* fall through */
    case DRM_NOUVEAU_GEM_INFO:
      if (info->handle == 0 || info->handle >= n_buffers)
        return fail (ENOENT);
      info->size = buffers[info->handle].size;
      info->offset = info->map_handle = buffers[info->handle].offset;
      return 0;
    case DRM_NOUVEAU_CHANNEL_FREE: case DRM_NOUVEAU_VM_INIT: case DRM_NOUVEAU_VM_BIND: case DRM_NOUVEAU_EXEC:
    case DRM_NOUVEAU_GEM_PUSHBUF: case DRM_NOUVEAU_GEM_CPU_PREP: case DRM_NOUVEAU_GEM_CPU_FINI:
      return 0;
    default:
      return unknown (request);
    }
}

/* ---- requests of every driver ---- */

static int
handle_request (unsigned long request, void *argument)
{
  union
  {
    void *any;
    struct drm_version *version;
    struct drm_get_cap *cap;
    struct drm_syncobj_create *sync;
    struct drm_syncobj_handle *sync_handle;
    struct drm_syncobj_timeline_array *timeline;
    struct drm_gem_close *close;
    struct drm_prime_handle *prime;
  } a = { argument };

  switch (_IOC_NR (request))
    {
    case _IOC_NR (DRM_IOCTL_VERSION):
      a.version->version_major = 1, a.version->version_minor = maker () == NVIDIA ? 4 : 6, a.version->version_patchlevel = 0;
      copy_text (a.version->name, &a.version->name_len, maker () == NVIDIA ? "nouveau" : "i915");
      copy_text (a.version->date, &a.version->date_len, "20230929");
      return copy_text (a.version->desc, &a.version->desc_len, "a GPU that is not there");
    case _IOC_NR (DRM_IOCTL_GET_CAP):
      a.cap->value = a.cap->capability == DRM_CAP_PRIME ? 3 : 1;
      return 0;
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_CREATE):
      a.sync->handle = make_id ();
      return 0;
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE):
      a.sync_handle->handle = make_id ();
      return 0;
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD):
    case _IOC_NR (DRM_IOCTL_PRIME_HANDLE_TO_FD):
      *(_IOC_NR (request) == _IOC_NR (DRM_IOCTL_PRIME_HANDLE_TO_FD) ? &a.prime->fd : &a.sync_handle->fd) =
        fcntl (file, F_DUPFD_CLOEXEC, 3);
      return 0;
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_QUERY):
      for (uint32_t i = 0; i < a.timeline->count_handles; i++)
        ((uint64_t *) (uintptr_t) a.timeline->points)[i] = UINT64_MAX / 2;
      return 0;
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_DESTROY): case _IOC_NR (DRM_IOCTL_SYNCOBJ_WAIT):
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_RESET): case _IOC_NR (DRM_IOCTL_SYNCOBJ_SIGNAL):
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT): case _IOC_NR (DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL):
    case _IOC_NR (DRM_IOCTL_SYNCOBJ_TRANSFER):
      return 0;
    case _IOC_NR (DRM_IOCTL_GEM_CLOSE):
      close_buffer (a.close->handle);
      return 0;
    default:
      return maker () == NVIDIA ? handle_nouveau (request, argument) : handle_i915 (request, argument);
    }
}

int
ioctl (int fd, unsigned long request, ...)
{
  va_list arguments;
  void *argument;

  va_start (arguments, request);
  argument = va_arg (arguments, void *);
  va_end (arguments);
  pthread_once (&once, start);
  if (_IOC_TYPE (request) == DRM_IOCTL_BASE)
    return handle_request (request, argument);
  if (_IOC_TYPE (request) == 'b' && (_IOC_NR (request) == 2 || _IOC_NR (request) == 3))   /* DMA_BUF_IOCTL_…_SYNC_FILE */
    {
      if (_IOC_NR (request) == 2)
        ((int32_t *) argument)[1] = fcntl (file, F_DUPFD_CLOEXEC, 3);
      return 0;
    }
  return real_ioctl (fd, request, argument);
}
