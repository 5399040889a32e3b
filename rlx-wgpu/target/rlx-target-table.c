/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Targets by name. Each says where its limits, features, subgroups and matrices come from:
 * for most, what Dawn reported with the named driver. What a chip does not report follows
 * from its class, except for what is listed here.
 */
#include "config.h"

#include "target/rlx-target-private.h"

#include <string.h>

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define GIB (G_GUINT64_CONSTANT (1) << 30)

#define BASE RLX_DEVICE_FEATURES_PACKED_DOT
#define HALF (BASE | RLX_DEVICE_FEATURES_F16)
#define SUBGROUPS RLX_DEVICE_FEATURES_SUBGROUPS
#define MATRIX (RLX_DEVICE_FEATURES_SUBGROUPS | RLX_DEVICE_FEATURES_SUBGROUP_MATRIX)

/* Kernels may request a subgroup size. */
#define SIZES (1 << 0)
/* A subgroup on Intel's chips has 128 registers that are as wide as the smallest subgroup.
 * Dawn requires twice that size, which leaves half of them to a lane. */
#define SHARED (SIZES | 1 << 1)
#define SHARED_REGISTERS 64
#define SLOW_MEMORY (1 << 2)

/* A row of the table: what chips differ in. */
typedef struct
{
  const char *name;
  const char *source;
  RlxAdapterType type;
  RlxDeviceFeatures features;
  guint subgroup_min, subgroup_max, subgroup_size;
  guint invocations, workgroup_storage, storage_buffers, alignment;
  guint64 buffer_size, binding_size;
  guint registers;                  /* 0: that of its class */
  guint traits;
  RlxMatrixShape matrices[15];      /* up to the first empty one */
} Row;

#define F16 RLX_COMPONENT_F16
#define F32 RLX_COMPONENT_F32
#define I8 RLX_COMPONENT_I8
#define I32 RLX_COMPONENT_I32
#define U8 RLX_COMPONENT_U8
#define U32 RLX_COMPONENT_U32

static const Row rows[] = {
  {
    "lavapipe", "Dawn on Mesa 26.1's lavapipe, LLVM 21, 256 bits", RLX_ADAPTER_TYPE_CPU,
    HALF | MATRIX, 8, 8, 8, 1024, 32768, 16, 16, 4 * GIB - 1, 128 * MIB, 0, SIZES,
    { { F16, F16, 8, 8, 8 }, { F16, F32, 8, 8, 8 }, { U8, U32, 8, 8, 8 }, { I8, I32, 8, 8, 8 } },
  },
  {
    "minimum", "the default limits of the WebGPU specification, no features", RLX_ADAPTER_TYPE_INTEGRATED,
    RLX_DEVICE_FEATURES_NONE, 0, 0, 0, 256, 16384, 8, 256, 256 * MIB, 128 * MIB, 0, 0, { { 0 } },
  },
  {
    "minimum-f16", "the same, with the feature shader-f16", RLX_ADAPTER_TYPE_INTEGRATED,
    RLX_DEVICE_FEATURES_F16, 0, 0, 0, 256, 16384, 8, 256, 256 * MIB, 128 * MIB, 0, 0, { { 0 } },
  },
  {
    "swiftshader", "Chromium 156 on SwiftShader, which computes on the CPU", RLX_ADAPTER_TYPE_CPU,
    BASE | SUBGROUPS, 4, 4, 4, 256, 32768, 10, 256, 1 * GIB, 128 * MIB, 0, 0, { { 0 } },
  },
  {
    "small", "lavapipe with the default limits of WebGPU and bindings of 1 MiB, for tests", RLX_ADAPTER_TYPE_CPU,
    HALF | MATRIX, 8, 8, 8, 256, 16384, 8, 256, 4 * GIB - 1, 1 * MIB, 0, SIZES,
    { { F16, F16, 8, 8, 8 }, { F16, F32, 8, 8, 8 }, { U8, U32, 8, 8, 8 }, { I8, I32, 8, 8, 8 } },
  },
  {
    "tgl", "Dawn on Mesa 26.1's ANV for Tiger Lake GT2; Dawn requires 16 lanes", RLX_ADAPTER_TYPE_INTEGRATED,
    HALF | SUBGROUPS, 8, 32, 16, 1024, 49152, 16, 64, 4 * GIB, 4 * GIB - 1, SHARED_REGISTERS, SHARED, { { 0 } },
  },
  {
    "dg2", "Dawn on Mesa 26.1's ANV for the Arc A770; Dawn requires 16 lanes", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | MATRIX, 8, 32, 16, 1024, 49152, 16, 64, 4 * GIB, 4 * GIB - 1, SHARED_REGISTERS, SHARED,
    { { F16, F32, 8, 8, 16 }, { I8, I32, 8, 8, 32 }, { U8, U32, 8, 8, 32 } },
  },
  {
    "lnl", "Dawn on Mesa 26.1's ANV for Lunar Lake; Dawn requires 32 lanes", RLX_ADAPTER_TYPE_INTEGRATED,
    HALF | MATRIX, 16, 32, 32, 1024, 49152, 16, 64, 4 * GIB, 4 * GIB - 1, SHARED_REGISTERS, SHARED,
    { { F16, F16, 8, 16, 16 }, { F16, F32, 8, 16, 16 }, { I8, I32, 8, 16, 32 }, { U8, U32, 8, 16, 32 } },
  },
  {
    "navi21", "Dawn on Mesa 25.0's RADV for Navi 21", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | SUBGROUPS, 32, 64, 64, 1024, 65536, 16, 4, 4 * GIB - 4, 4 * GIB - 4, 0, SIZES, { { 0 } },
  },
  {
    "navi31", "Dawn on Mesa 25.0's RADV for Navi 31", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | MATRIX, 32, 64, 64, 1024, 65536, 16, 4, 4 * GIB - 4, 4 * GIB - 4, 0, SIZES,
    {
      { F16, F16, 16, 16, 16 }, { F16, F32, 16, 16, 16 }, { U8, U32, 16, 16, 16 }, { U8, I32, 16, 16, 16 },
      { I8, U32, 16, 16, 16 }, { I8, I32, 16, 16, 16 },
    },
  },
  {
    "gfx1201", "Dawn on Mesa 25.0's RADV for Navi 48, which has no matrices there yet", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | SUBGROUPS, 32, 64, 64, 1024, 65536, 16, 4, 4 * GIB - 4, 4 * GIB - 4, 0, SIZES, { { 0 } },
  },
  {
    "turing", "Dawn on Mesa 26.1's NVK for the RTX 2060", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | MATRIX, 32, 32, 32, 1024, 49152, 16, 64, 2 * GIB, 2 * GIB - 4, 0, SIZES,
    {
      { F16, F16, 16, 16, 16 }, { F16, F16, 16, 8, 16 }, { F16, F16, 16, 8, 8 },
      { F16, F32, 16, 16, 16 }, { F16, F32, 16, 8, 16 }, { F16, F32, 16, 8, 8 },
      { U8, U32, 16, 16, 32 }, { U8, U32, 16, 8, 32 }, { U8, U32, 8, 8, 16 },
      { I8, I32, 16, 16, 32 }, { I8, I32, 16, 8, 32 }, { I8, I32, 8, 8, 16 },
    },
  },
  {
    "ada", "Dawn on Mesa 26.1's NVK for the RTX 4060", RLX_ADAPTER_TYPE_DISCRETE,
    HALF | MATRIX, 32, 32, 32, 1024, 49152, 16, 64, 2 * GIB, 2 * GIB - 4, 0, SIZES,
    {
      { F16, F16, 16, 16, 16 }, { F16, F16, 16, 8, 16 }, { F16, F16, 16, 8, 8 },
      { F16, F32, 16, 16, 16 }, { F16, F32, 16, 8, 16 }, { F16, F32, 16, 8, 8 },
      { U8, U32, 16, 16, 32 }, { U8, U32, 16, 8, 32 }, { U8, U32, 16, 8, 16 }, { U8, U32, 8, 8, 16 },
      { I8, I32, 16, 16, 32 }, { I8, I32, 16, 8, 32 }, { I8, I32, 16, 8, 16 }, { I8, I32, 8, 8, 16 },
    },
  },
  {
    "apple-m", "Apple's Metal feature set tables (Apple7 to Apple9), and Dawn's Metal back end", RLX_ADAPTER_TYPE_INTEGRATED,
    HALF | MATRIX, 4, 64, 32, 1024, 32768, 10, 4, 4 * GIB - 1, 4 * GIB - 1, 0, 0,
    { { F32, F32, 8, 8, 8 }, { F16, F16, 8, 8, 8 } },
  },
  {
    "adreno", "Mesa's Turnip, for Adreno 7xx", RLX_ADAPTER_TYPE_INTEGRATED,
    HALF | SUBGROUPS, 64, 128, 128, 1024, 32768, 16, 64, 1 * GIB, 128 * MIB, 0, 0, { { 0 } },
  },
  {
    "v3d", "Mesa's V3DV, for the Raspberry Pi 5", RLX_ADAPTER_TYPE_INTEGRATED,
    BASE | SUBGROUPS, 16, 16, 16, 256, 16384, 10, 32, 1 * GIB, 128 * MIB, 64, SLOW_MEMORY, { { 0 } },
  },
};

static RlxTarget targets[G_N_ELEMENTS (rows)];

static void
fill (RlxTarget *self,
      const Row *row)
{
  self->name = row->name;
  self->features = row->features;
  self->subgroup_min = row->subgroup_min;
  self->subgroup_max = row->subgroup_max;
  self->subgroup_size = row->subgroup_size;
  self->limits = (RlxLimits) {
    .max_buffer_size = row->buffer_size,
    .max_storage_binding_size = row->binding_size,
    .max_storage_buffers = row->storage_buffers,
    .max_uniform_binding_size = 65536,
    .storage_offset_alignment = row->alignment,
    .uniform_offset_alignment = row->alignment,
    .max_workgroup_storage = row->workgroup_storage,
    .max_invocations = row->invocations,
    /* The third is 64 on every device that has no more. */
    .max_workgroup_size = { row->invocations, row->invocations, 64 },
    .max_workgroups = 65535,
    .max_immediate_size = 64,
  };
  while (row->matrices[self->n_matrices].m > 0)
    {
      self->matrices[self->n_matrices] = row->matrices[self->n_matrices];
      self->n_matrices++;
    }

  rlx_target_set_class (self, row->type);
  if (row->registers > 0)
    self->registers = row->registers;
  if (row->traits & SLOW_MEMORY)
    self->workgroup_memory_is_fast = FALSE;
  self->subgroup_sizes_can_be_set = (row->traits & SIZES) != 0;
  self->registers_are_shared = (row->traits & SHARED) == SHARED;
  if (self->registers_are_shared)
    self->max_subgroups = RLX_MAX_SHARED_SUBGROUPS;
}

const RlxTarget *
rlx_target_get_named (guint index)
{
  static gsize initialized = 0;

  if (g_once_init_enter (&initialized))
    {
      for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
        fill (&targets[i], &rows[i]);
      g_once_init_leave (&initialized, 1);
    }
  return index < G_N_ELEMENTS (rows) ? &targets[index] : NULL;
}

const RlxTarget *
rlx_target_lookup (const char *name)
{
  const RlxTarget *target;

  for (guint i = 0; (target = rlx_target_get_named (i)) != NULL; i++)
    if (g_ascii_strcasecmp (target->name, name) == 0)
      return target;
  return NULL;
}

const char *
rlx_target_get_source (const RlxTarget *named)
{
  return rows[named - targets].source;
}

char *
rlx_target_list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", rows[i].name);
  return g_string_free (names, FALSE);
}
