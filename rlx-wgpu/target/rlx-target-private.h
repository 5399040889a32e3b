/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A device as the compiler sees it. Passes and lowering know nothing of a device but its
 * RlxTarget, so a graph can be compiled for any device anywhere: gpu/ makes a target from an
 * adapter, rlx-target-table.c has named ones.
 *
 * A target is a plain value. To get a different one, copy it and change the copy.
 */
#pragma once

#include "rlx-types.h"
#include "util/rlx-checked-private.h"

G_BEGIN_DECLS

/* If lanes share registers: the most hardware threads per workgroup that Mesa's driver for Intel's chips allows. */
#define RLX_MAX_SHARED_SUBGROUPS 64

/* Named as in WebGPU. */
typedef struct
{
  guint64 max_buffer_size;
  guint64 max_storage_binding_size;
  guint32 max_storage_buffers;            /* per shader stage */
  guint32 max_uniform_binding_size;
  guint32 storage_offset_alignment;
  guint32 uniform_offset_alignment;
  guint32 max_workgroup_storage;          /* bytes */
  guint32 max_invocations;                /* per workgroup */
  guint32 max_workgroup_size[3];
  guint32 max_workgroups;                 /* per dimension */
  guint32 max_immediate_size;
} RlxLimits;

typedef enum
{
  RLX_COMPONENT_F32,
  RLX_COMPONENT_F16,
  RLX_COMPONENT_U32,
  RLX_COMPONENT_I32,
  RLX_COMPONENT_U8,
  RLX_COMPONENT_I8,
} RlxComponent;

/* A shape that a matrix unit multiplies at once: m x k by k x n. */
typedef struct
{
  RlxComponent component;
  RlxComponent result;
  guint32 m, n, k;
} RlxMatrixShape;

#define RLX_MAX_MATRIX_SHAPES 32

/* Tables of variants, see ops/rlx-variant-private.h. A ban names the family and the
 * row. */
typedef enum
{
  RLX_FAMILY_PRODUCT,
  RLX_FAMILY_CONV,
  RLX_FAMILY_ATTENTION,
  RLX_FAMILY_PACKED,
  RLX_FAMILY_REDUCE,
  RLX_FAMILY_NORM,
  RLX_FAMILY_ARG,
  RLX_FAMILY_SCAN,
  RLX_FAMILY_SORT,
  RLX_FAMILY_COPY,
  RLX_FAMILY_QMATMUL,
  RLX_FAMILY_QCONV,
  RLX_FAMILY_RECURRENT,
  RLX_FAMILY_FFT,
  RLX_FAMILY_RECURRENCE,
  RLX_FAMILY_POOL,
  RLX_FAMILY_RESIZE,
  RLX_FAMILY_SOLVE,
  RLX_FAMILY_KNN,
  RLX_FAMILY_GROUPED,
  RLX_N_FAMILIES
} RlxFamily;

/* Rows of one table. */
#define RLX_MAX_VARIANTS 16

/* Measurements of a variant; zeros if there are none. */
typedef struct
{
  double seconds;          /* for a sample of its family */
  double flops;            /* operations per second in that time; 0 if it only moves data */
  double factor;           /* measured time divided by its estimated cost */
} RlxMeasurement;

/* How fast a device is: measured, or guessed from its class. */
typedef struct
{
  gboolean measured;
  double flops;            /* operations per second of f32 products */
  double flops_f16;        /* the same for elements stored as f16 */
  double bandwidth;        /* bytes per second, of its memory */
  double transfer;         /* bytes per second, from and to the program */
  double dispatch_time;    /* seconds that each further kernel adds */
  double round_trip_time;  /* seconds of a run that does almost nothing */
  double spread;           /* of the measured times, as a factor; 1: all were the same */
  RlxMeasurement variants[RLX_N_FAMILIES][RLX_MAX_VARIANTS];
  guint32 banned[RLX_N_FAMILIES];   /* bits, by row: variants that gave wrong results */
} RlxSpeeds;

static inline gboolean
rlx_speeds_is_banned (const RlxSpeeds *self,
                      RlxFamily        family,
                      guint            row)
{
  return (self->banned[family] >> row & 1) != 0;
}

typedef struct
{
  const char *name;        /* such as "navi31"; NULL for a real device */

  RlxLimits limits;
  RlxDeviceFeatures features;
  guint subgroup_min, subgroup_max;   /* what the driver may choose from */
  guint subgroup_size;     /* what it chooses; if there is a choice, what Dawn requires */
  gboolean subgroup_sizes_can_be_set;   /* kernels may request one of these */
  guint max_subgroups;     /* in a workgroup of a kernel that does so; WebGPU does not report it */
  RlxMatrixShape matrices[RLX_MAX_MATRIX_SHAPES];
  guint n_matrices;

  guint lanes;             /* with fewer adjacent invocations, a core is partly idle */
  guint busy_invocations;  /* with fewer, most of the device is idle */
  guint busy_workgroups;   /* with fewer, cores are idle */
  guint split_workgroups;  /* enough to hide the latency of memory if each has little to do */
  guint copy_workgroups;   /* more do not make a copy faster */
  guint registers;         /* of 32 bits, available to an invocation in a subgroup of the actual size */
  gboolean registers_are_shared;      /* shared by the lanes of a subgroup: with half as many lanes, each has twice as
                                         many */
  gboolean barriers_are_cheap;        /* otherwise they are best avoided */
  gboolean workgroup_memory_is_fast;  /* faster than the memory that it caches */
  gboolean loads_coalesce; /* adjacent elements read by neighbouring invocations are one load, like a vector;
                            * otherwise only reads that are the same for all are cheap */
  gboolean matrices_are_fast;         /* otherwise they are emulated, which is only useful for tests */

  RlxSpeeds speeds;
  struct _RlxTuning *tuning;   /* nullable, borrowed: measurements of single problems */
} RlxTarget;

/* A tensor that exceeds the size of a binding is bound in segments: the size of each
 * but the last, and their number. */
static inline guint64
rlx_target_get_segment_size (const RlxTarget *self)
{
  return self->limits.max_storage_binding_size & ~(guint64) 255;
}

static inline guint
rlx_target_get_n_segments (const RlxTarget *self,
                           guint64          size)
{
  if (size <= self->limits.max_storage_binding_size)
    return 1;
  return (guint) rlx_divide_up (size, rlx_target_get_segment_size (self));
}

/* The registers of an invocation, in a subgroup of this size. */
static inline guint
rlx_target_get_registers (const RlxTarget *self,
                          guint            subgroup_size)
{
  if (!self->registers_are_shared || subgroup_size == 0)
    return self->registers;
  return self->registers * self->subgroup_size / subgroup_size;
}

/* The most invocations of a workgroup with subgroups of @subgroup_size. */
static inline guint
rlx_target_get_max_workgroup (const RlxTarget *self,
                              guint            subgroup_size)
{
  guint max = MIN (self->limits.max_invocations, self->limits.max_workgroup_size[0]);

  return self->subgroup_sizes_can_be_set ? MIN (max, self->max_subgroups * subgroup_size) : max;
}

/* The subgroup size that a kernel of @workgroup invocations should request if each needs @needed registers: the
 * largest that provides them, or the smallest that a workgroup can consist of. 0: the driver's choice. */
static inline guint
rlx_target_choose_subgroup_size (const RlxTarget *self,
                                 guint            workgroup,
                                 guint            needed)
{
  guint size = self->subgroup_size;

  if (!self->registers_are_shared || !self->subgroup_sizes_can_be_set)
    return 0;
  while (size / 2 >= self->subgroup_min && workgroup <= rlx_target_get_max_workgroup (self, size / 2) &&
         rlx_target_get_registers (self, size) < needed)
    size /= 2;
  return size;
}

/* How many times longer a kernel takes because it has too few registers. Counted with the
 * compilers for Intel's chips: 2 if a sixth is missing, 3 to 5 if a half is. */
static inline double
rlx_target_get_spill_factor (const RlxTarget *self,
                             guint            workgroup,
                             guint            needed)
{
  guint there = rlx_target_get_registers (self, rlx_target_choose_subgroup_size (self, workgroup, needed));

  return there >= needed ? 1.0 : 1.0 + 8.0 * (needed - there) / needed;
}

/* Facts that the device does not report and that follow from its class: everything from
 * `lanes` on. */
void              rlx_target_set_class  (RlxTarget     *self,
                                         RlxAdapterType type);

/* Typical speeds of a device of the class, to within a factor of ten. */
void              rlx_speeds_guess      (RlxSpeeds     *speeds,
                                         RlxAdapterType type);

/* rlx-target-table.c: by name; NULL if there is none. Never freed. */
const RlxTarget * rlx_target_lookup     (const char *name);
/* All of them, in a fixed order; NULL after the last. */
const RlxTarget * rlx_target_get_named  (guint index);
/* "lavapipe, minimum, …", for messages. */
char *            rlx_target_list_names (void);
/* The origin of a named target's numbers. */
const char *      rlx_target_get_source (const RlxTarget *named);

/* Limits, subgroups and matrices as rlx_adapter_get_limits() returns them; not floating. */
GVariant *        rlx_target_limits_to_variant (const RlxTarget *self);

/* Removes the features that the keys no-f16, no-subgroups, no-matrix and no-dot of
 * RLX_DEBUG name. */
void              rlx_target_apply_debug (RlxTarget *self);

/* Removes what a program wants to avoid: @features, and buffers and bindings of more
 * than @buffer_limit bytes, unless it is 0. */
gboolean          rlx_target_restrict    (RlxTarget        *self,
                                          RlxDeviceFeatures features,
                                          guint64           buffer_limit,
                                          GError          **error);

/* Makes @device, which is real, stand in for @named as far as possible: with its
 * choices, limits and features. Subgroup and matrix sizes remain those of the device,
 * since they cannot be imitated. FALSE, with an error that lists what is missing, if
 * the device has less than @named. */
gboolean          rlx_target_pretend    (RlxTarget       *device,
                                         const RlxTarget *named,
                                         GError         **error);

G_END_DECLS
