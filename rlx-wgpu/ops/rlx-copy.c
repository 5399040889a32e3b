/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Copies of elements at regular strides in the operand and in the result.
 */
#include "config.h"

#include "ops/rlx-shape-private.h"

#include "ops/rlx-index-private.h"
#include "ops/rlx-variant-private.h"
#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64
/* The side of a tile that is traversed in order, in elements: a cache line on most devices. */
#define TILE 16
/* The same in workgroup memory; see kernels/transpose.wgsl. */
#define SHARED_TILE 32
#define SHARED_WORKGROUP_SIZE 256
/* If either dimension is shorter, most of such a tile is empty. */
#define MIN_SIDE 8

guint64
rlx_copy_get_block (RlxLower *lower,
                    guint64   n_units)
{
  guint64 groups = rlx_lower_get_target (lower)->copy_workgroups;
  guint64 rounds = CLAMP (n_units / (WORKGROUP_SIZE * groups), 1, 16);

  return rounds * WORKGROUP_SIZE;
}

gboolean
rlx_copy_simplify (RlxCopy *copy)
{
  guint n_dims = 0;

  for (guint i = 0; i < copy->n_dims; i++)
    {
      if (copy->shape[i] == 0)
        return FALSE;
      if (copy->shape[i] == 1)
        continue;

      if (n_dims > 0 &&
          copy->from[n_dims - 1] == copy->from[i] * copy->shape[i] &&
          copy->to[n_dims - 1] == copy->to[i] * copy->shape[i])
        {
          copy->shape[n_dims - 1] *= copy->shape[i];
        }
      else
        {
          copy->shape[n_dims] = copy->shape[i];
          n_dims++;
        }
      copy->from[n_dims - 1] = copy->from[i];
      copy->to[n_dims - 1] = copy->to[i];
    }

  if (n_dims == 0)
    {
      copy->shape[0] = copy->from[0] = copy->to[0] = 1;
      n_dims = 1;
    }
  copy->n_dims = n_dims;

  return TRUE;
}

static guint64
count_elements (const RlxCopy *copy)
{
  guint64 n = 1;

  for (guint i = 0; i < copy->n_dims; i++)
    n *= copy->shape[i];

  return n;
}

/* One step, for a copy in its simplest form. */
static gboolean
dispatch_copy (RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *from,
               const RlxIrValue *to,
               const RlxCopy    *copy,
               GError          **error)
{
  guint bits = rlx_data_type_get_bits (rlx_data_type_on_device (to->type.data_type));
  guint64 n, block, groups, inner = 1;
  gint64 next_from = 0, next_to = 0;
  gboolean in_order;
  guint pack;
  RlxKernel *kernel;

  /* Results in order are written in whole words, so that small elements need no atomics; words
   * beyond the end are padding. */
  n = count_elements (copy);
  in_order = copy->to_offset == 0 && n == rlx_type_n_elements (&to->type);
  for (guint i = copy->n_dims; in_order && i-- > 0;)
    {
      in_order = copy->to[i] == (gint64) inner;
      inner *= copy->shape[i];
    }
  pack = in_order ? 32 / bits : 1;

  kernel = rlx_kernel_new (lower, node, "copy");
  rlx_kernel_input_raw (kernel, "x", from);
  rlx_kernel_output_raw (kernel, "y", to);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "RANK", copy->n_dims);
  rlx_kernel_define (kernel, "PACK", pack);
  rlx_kernel_define (kernel, "BITS", bits);
  rlx_kernel_define (kernel, "IN_ORDER", in_order);

  block = rlx_copy_get_block (lower, rlx_divide_up (n, pack)) * pack;
  groups = rlx_divide_up (n, block);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "block", block);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "from_offset", (guint32) copy->from_offset);
  if (!in_order)
    rlx_kernel_param_u32 (kernel, "to_offset", (guint32) copy->to_offset);

  /* Innermost first. An invocation advances by WG elements (words of them), in mixed radix:
   * adding digits takes no division, and finding an element takes no multiplication if each
   * carry has its own distance. */
  inner = 1;
  for (guint i = 0; i < copy->n_dims; i++)
    {
      guint d = copy->n_dims - 1 - i;
      guint64 next = (guint64) WORKGROUP_SIZE * pack / inner;

      if (i + 1 < copy->n_dims)
        {
          next %= copy->shape[d];
          rlx_kernel_param_indexed (kernel, "carry_from", i, copy->from[d - 1] - copy->shape[d] * copy->from[d]);
          if (!in_order)
            rlx_kernel_param_indexed (kernel, "carry_to", i, copy->to[d - 1] - copy->shape[d] * copy->to[d]);
        }
      rlx_kernel_param_indexed (kernel, "dim", i, copy->shape[d]);
      rlx_kernel_param_indexed (kernel, "next", i, next);
      rlx_kernel_param_indexed (kernel, "from", i, copy->from[d]);
      next_from += next * copy->from[d];
      if (!in_order)
        {
          rlx_kernel_param_indexed (kernel, "to", i, copy->to[d]);
          next_to += next * copy->to[d];
        }
      inner *= copy->shape[d];
    }
  rlx_kernel_param_u32 (kernel, "next_from", (guint32) next_from);
  if (!in_order)
    rlx_kernel_param_u32 (kernel, "next_to", (guint32) next_to);
  rlx_kernel_set_cost (kernel, 0, 2.0 * n * bits / 8);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* ---- variants ------------------------------------------------------------------------- */

typedef struct
{
  RlxCopy copy;            /* in its simplest form */
  const RlxIrValue *from, *to;
  guint bits;              /* of an element */
} Problem;

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < self->copy.n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? " x " : "", self->copy.shape[i]);
  g_string_append_printf (text, " elements of %u bits", self->bits);
  return g_string_free (text, FALSE);
}

static double
copy_cost (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data)
{
  const Problem *self = data;

  return rlx_target_get_seconds (target, 0, 2.0 * (double) count_elements (&self->copy) * self->bits / 8);
}

/* The dimension along which the operand is contiguous, if that is not the last, and
 * both have at least @side elements. */
static gboolean
find_near (const RlxCopy *copy,
           gint64         side,
           guint         *near)
{
  guint far = copy->n_dims - 1;

  if (copy->n_dims < 2 || ABS (copy->from[far]) < side || copy->shape[far] < side)
    return FALSE;
  for (guint i = 0; i < far; i++)
    if (ABS (copy->from[i]) == 1 && copy->shape[i] >= side)
      {
        *near = i;
        return TRUE;
      }
  return FALSE;
}

static const char runs_alike[] = "operand and result run along the same dimension, or too shortly";

static gboolean
is_multiple (const RlxCopy *copy,
             guint          pack)
{
  if (copy->to_offset % pack != 0 || copy->shape[copy->n_dims - 1] % pack != 0)
    return FALSE;
  for (guint i = 0; i + 1 < copy->n_dims; i++)
    if (copy->to[i] % pack != 0)
      return FALSE;
  return TRUE;
}

static RlxFit
shared_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *self = data;
  const RlxCopy *copy = &self->copy;
  guint near;

  if (!find_near (copy, MIN_SIDE, &near) || copy->to[copy->n_dims - 1] != 1)
    return rlx_variant_cannot (runs_alike, why);
  if (!is_multiple (copy, 32 / self->bits))
    return rlx_variant_cannot ("rows of the result are not whole words", why);
  return target->barriers_are_cheap ? RLX_FIT_WELL : rlx_variant_poorly ("barriers are slow here", why);
}

/* Through tiles in workgroup memory. */
static gboolean
shared_describe (const RlxVariant *variant,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Problem *self = data;
  const RlxCopy *copy = &self->copy;
  guint far = copy->n_dims - 1, near = 0, n_others = 0;
  guint64 n_groups, tiles_near, tiles_far;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "transpose");

  find_near (copy, MIN_SIDE, &near);
  tiles_near = rlx_divide_up ((guint64) copy->shape[near], SHARED_TILE);
  tiles_far = rlx_divide_up ((guint64) copy->shape[far], SHARED_TILE);
  n_groups = tiles_near * tiles_far;

  rlx_kernel_input_raw (kernel, "x", self->from);
  rlx_kernel_output_raw (kernel, "y", self->to);
  rlx_kernel_define (kernel, "WG", SHARED_WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "PACK", 32 / self->bits);
  rlx_kernel_define (kernel, "BITS", self->bits);
  for (guint i = copy->n_dims; i-- > 0;)
    {
      if (i == near || i == far)
        continue;
      rlx_kernel_param_indexed (kernel, "dim", n_others, copy->shape[i]);
      rlx_kernel_param_indexed (kernel, "from", n_others, copy->from[i]);
      rlx_kernel_param_indexed (kernel, "to", n_others, copy->to[i]);
      n_groups *= (guint64) copy->shape[i];
      n_others++;
    }
  rlx_kernel_define (kernel, "OTHERS", n_others);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "tiles_near", tiles_near);
  rlx_kernel_param_u32 (kernel, "tiles_far", tiles_far);
  /* Negative strides rely on arithmetic modulo 2³². */
  rlx_kernel_param_u32 (kernel, "near", (guint32) copy->shape[near]);
  rlx_kernel_param_u32 (kernel, "far", (guint32) copy->shape[far]);
  rlx_kernel_param_u32 (kernel, "from_offset", (guint32) copy->from_offset);
  rlx_kernel_param_u32 (kernel, "from_near", (guint32) copy->from[near]);
  rlx_kernel_param_u32 (kernel, "from_far", (guint32) copy->from[far]);
  rlx_kernel_param_u32 (kernel, "to_offset", (guint32) copy->to_offset);
  rlx_kernel_param_u32 (kernel, "to_near", (guint32) copy->to[near]);
  rlx_kernel_set_cost (kernel, 0, 2.0 * (double) count_elements (copy) * self->bits / 8);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

static RlxFit
tiles_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;
  guint near;

  if (self->copy.n_dims + 2 > RLX_MAX_DIMS || !find_near (&self->copy, TILE, &near))
    return rlx_variant_cannot (runs_alike, why);
  if (self->bits != 32)
    return rlx_variant_poorly ("elements of less than a word would need atomics", why);
  return count_elements (&self->copy) >= 1 << 18 ? RLX_FIT_WELL : rlx_variant_poorly ("all of it fits into a cache", why);
}

/* Neighbours in the result may be far apart in the operand, as in the transpose of a
 * matrix: then a cache line is evicted before its other elements are needed. Traversing
 * the elements in square tiles avoids that. */
static gboolean
tiles_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;
  RlxCopy tiles = self->copy;
  guint axes[] = { 0, tiles.n_dims - 1 };

  find_near (&tiles, TILE, &axes[0]);
  /* Clip incomplete tiles. */
  for (guint i = 0; i < G_N_ELEMENTS (axes); i++)
    {
      guint d = axes[i];
      gint64 whole = tiles.shape[d] / TILE * TILE;

      if (whole < tiles.shape[d])
        {
          RlxCopy rest = tiles;

          rest.shape[d] -= whole;
          rest.from_offset += whole * rest.from[d];
          rest.to_offset += whole * rest.to[d];
          if (!rlx_copy_simplify (&rest) || !dispatch_copy (lower, node, self->from, self->to, &rest, error))
            return FALSE;
        }
      tiles.shape[d] = whole;
    }

  for (guint i = 0; i < G_N_ELEMENTS (axes); i++)
    {
      guint d = axes[i];

      tiles.shape[tiles.n_dims] = TILE;
      tiles.from[tiles.n_dims] = tiles.from[d];
      tiles.to[tiles.n_dims] = tiles.to[d];
      tiles.n_dims++;
      tiles.shape[d] /= TILE;
      tiles.from[d] *= TILE;
      tiles.to[d] *= TILE;
    }

  return dispatch_copy (lower, node, self->from, self->to, &tiles, error);
}

static RlxFit
direct_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  return RLX_FIT_WELL;
}

static gboolean
direct_describe (const RlxVariant *variant,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Problem *self = data;

  return dispatch_copy (lower, node, self->from, self->to, &self->copy, error);
}

static const RlxVariant variants[] = {
  { "workgroup", shared_fits, copy_cost, NULL, shared_describe, NULL },
  { "tiles", tiles_fits, copy_cost, NULL, tiles_describe, NULL },
  { "direct", direct_fits, copy_cost, NULL, direct_describe, NULL },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[512, 512]")
    "%1 = transpose(%0) {permutation = [1, 0]}\n" RLX_SAMPLE_OUTPUT (1), 4095 },
  { NULL, 0 },
};

const RlxVariants rlx_copy_variants = {
  RLX_FAMILY_COPY, "copy", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_lower_copy (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *from,
                const RlxIrValue *to,
                const RlxCopy    *copy,
                GError          **error)
{
  Problem problem = {
    .copy = *copy, .from = from, .to = to, .bits = rlx_data_type_get_bits (rlx_data_type_on_device (to->type.data_type)),
  };

  return !rlx_copy_simplify (&problem.copy) || rlx_lower_choose (lower, node, &rlx_copy_variants, &problem, error);
}

gboolean
rlx_lower_copy_all (RlxLower         *lower,
                    const RlxIrNode  *node,
                    const RlxIrValue *from,
                    const RlxIrValue *to,
                    GError          **error)
{
  RlxCopy copy = {
    .n_dims = 1,
    .shape = { (gint64) rlx_type_n_elements (&to->type) },
    .from = { 1 },
    .to = { 1 },
  };

  return rlx_lower_copy (lower, node, from, to, &copy, error);
}
