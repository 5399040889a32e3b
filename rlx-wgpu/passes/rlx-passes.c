/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "util/rlx-debug-private.h"

/* In their order. Those with a flag only make graphs faster, and RLX_DEBUG=no-NAME, or no-fuse, leaves them out. */
static const struct
{
  const char *name;
  RlxPassFunc run;
  RlxDebugFlags left_out;
} passes[] = {
  /* in the graph as its owner knows it */
  { "survey", rlx_pass_survey, 0 },
  { "check", rlx_pass_check, 0 },
  { "expand", rlx_pass_expand, 0 },
  { "simplify", rlx_pass_simplify, 0 },
  /* the first half of “recognise”, in a graph as exporters write it */
  { "compose", rlx_pass_compose, RLX_DEBUG_NO_RECOGNISE | RLX_DEBUG_NO_FUSE },
#define PASS(NAME, name) { #name, rlx_pass_##name, RLX_DEBUG_NO_##NAME | RLX_DEBUG_NO_FUSE },
  RLX_OPTIONAL_PASSES (PASS)
#undef PASS
  /* also needed for nodes that are not fused */
  { "fuse", rlx_pass_fuse, 0 },
};

RlxIr *
rlx_run_passes (const RlxIr     *ir,
                const RlxTarget *target,
                GError         **error)
{
  g_autoptr(RlxIr) last = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
    {
      GError *failure = NULL;
      RlxIr *next;

      if (rlx_debug_get_flags () & passes[i].left_out)
        continue;
      next = passes[i].run (last != NULL ? last : ir, target, &failure);
      if (failure != NULL)
        {
          g_propagate_error (error, failure);
          return NULL;
        }
      if (next == NULL)
        continue;
      rlx_ir_free (last);
      last = next;
      /* Finds a pass that leaves an inconsistent graph at once, instead of through its
       * consequences. */
      if (RLX_DEBUG_CHECK (VALIDATE) && !rlx_ir_verify (last, error))
        {
          g_prefix_error (error, "after the pass “%s”: ", passes[i].name);
          return NULL;
        }
    }
  return g_steal_pointer (&last);
}
