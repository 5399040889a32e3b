/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Several rotations in one dispatch, and rows that are written directly into a cache.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

#define RLX_JOINT_ROPE_MAX_PARTS 4

/* The first inputs of a joint_rope, each nullable. The operands of the parts follow, then
 * the caches of the parts that have one. */
enum
{
  RLX_JOINT_ROPE_POSITIONS,
  RLX_JOINT_ROPE_COSINES,
  RLX_JOINT_ROPE_SINES,
  RLX_JOINT_ROPE_INDEX,      /* the first row in the caches */
  RLX_JOINT_ROPE_N_SHARED,
};

/* A part is rotated, written into a cache at a position, or both. Parts without a cache
 * come first, parts that are not rotated come last. */
typedef struct
{
  gboolean rotates;
  gboolean writes;
  gboolean swap_x;   /* the two middle axes of the operand are swapped */
  gboolean swap_y;   /* and so are those of the result */
  guint axis;        /* of the cache */
} RlxRopePart;

/* Output i belongs to part i and has the type of its operand, or of its cache. Returns the
 * attributes of a joint_rope whose parts rotate like @rope, which may be NULL if none does. */
gpointer rlx_joint_rope_attrs_new (const RlxIrNode   *rope,
                                   const RlxRopePart *parts,
                                   guint              n_parts);

G_END_DECLS
