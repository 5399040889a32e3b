/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Where a graph is cut, so that its values can be recomputed segment by segment.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

/* The largest number of segments that is tried. */
#define MAX_PARTS 64

typedef struct
{
  guint n_nodes;
  guint64 *before;     /* bytes of all values of the nodes before each node, and of all nodes */
  guint64 *across;     /* bytes of the values that cross the cut before each node */
} Sizes;

static void
sizes_clear (Sizes *self)
{
  g_free (self->before);
  g_free (self->across);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Sizes, sizes_clear)

static void
sizes_init (Sizes          *self,
            const RlxIr    *ir,
            const gboolean *reached,
            guint           n_nodes)
{
  g_autofree guint *last = g_new0 (guint, n_nodes + 1);
  g_autofree gint64 *changes = g_new0 (gint64, n_nodes + 2);
  gint64 alive = 0;

  *self = (Sizes) { n_nodes, g_new0 (guint64, n_nodes + 1), g_new0 (guint64, n_nodes + 1) };
  for (guint i = 0; i < n_nodes; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint k = 0; reached[i] && k < node->n_inputs; k++)
        if (node->inputs[k] != NULL)
          last[node->inputs[k]->node->id] = i;
    }
  for (guint i = 0; i < n_nodes; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      guint64 bytes = 0;

      /* Inputs and weights are kept anyway. */
      for (guint k = 0; reached[i] && node->n_inputs > 0 && k < node->n_outputs; k++)
        bytes += rlx_type_n_device_bytes (&node->outputs[k].type);
      self->before[i + 1] = self->before[i] + bytes;
      if (last[i] > i)
        {
          changes[i + 1] += (gint64) bytes;
          changes[last[i] + 1] -= (gint64) bytes;
        }
    }
  for (guint i = 0; i <= n_nodes; i++)
    {
      alive += changes[i];
      self->across[i] = (guint64) alive;
    }
}

/* Cuts into @n_parts segments of similar size where few bytes cross. Returns the memory needed. */
static guint64
try_cuts (const Sizes *self,
          guint        n_parts,
          guint       *cuts,
          guint       *n_cuts)
{
  guint64 all = self->before[self->n_nodes], kept = 0, largest = 0;
  guint at = 1, previous = 0;

  *n_cuts = 0;
  for (guint i = 1; i < n_parts; i++)
    {
      guint64 from = (guint64) ((double) all * (i - 0.5) / n_parts), to = (guint64) ((double) all * (i + 0.5) / n_parts);
      guint best = 0;

      for (; at < self->n_nodes && self->before[at] < to; at++)
        if (self->before[at] >= from && (best == 0 || self->across[at] < self->across[best]))
          best = at;
      if (best == 0)
        continue;
      kept += self->across[best];
      largest = MAX (largest, self->before[best] - self->before[previous]);
      cuts[(*n_cuts)++] = previous = best;
    }
  return kept + MAX (largest, all - self->before[previous]);
}

guint *
rlx_gradient_find_cuts (const RlxIr    *ir,
                        const gboolean *reached,
                        guint           n_nodes,
                        guint          *n_cuts)
{
  g_auto(Sizes) sizes = { 0 };
  g_autofree guint *cuts = g_new0 (guint, MAX_PARTS);
  guint best = 1, n;
  guint64 least;

  sizes_init (&sizes, ir, reached, n_nodes);
  least = sizes.before[n_nodes];
  for (guint i = 2; i <= MAX_PARTS; i++)
    {
      guint64 size = try_cuts (&sizes, i, cuts, &n);

      if (size < least)
        {
          least = size;
          best = i;
        }
    }
  *n_cuts = 0;
  if (best == 1)
    return NULL;
  try_cuts (&sizes, best, cuts, n_cuts);
  return g_steal_pointer (&cuts);
}
