/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "util/rlx-debug-private.h"

/* RLX_DEBUG=validate: a pass that leaves a graph that is not in order is found at
 * once, not by what comes of it. */
static gboolean
check_pass (const RlxIr *ir,
            const char  *pass,
            GError     **error)
{
  if (!RLX_DEBUG_CHECK (VALIDATE) || rlx_ir_verify (ir, error))
    return TRUE;
  g_prefix_error (error, "after the pass “%s”: ", pass);
  return FALSE;
}

RlxIr *
rlx_run_passes (const RlxIr             *ir,
                const RlxGpuAdapterInfo *adapter,
                GError                 **error)
{
  g_autoptr(RlxIr) expanded = rlx_pass_expand (ir, error);
  g_autoptr(RlxIr) simple = NULL;
  g_autoptr(RlxIr) integers = NULL;
  g_autoptr(RlxIr) recognised = NULL;
  g_autoptr(RlxIr) parted = NULL;
  g_autoptr(RlxIr) joined = NULL;
  g_autoptr(RlxIr) rotated = NULL;
  g_autoptr(RlxIr) fused = NULL;

  if (expanded == NULL)
    return NULL;
  simple = rlx_pass_simplify (expanded);
  integers = rlx_pass_qdq (simple, adapter);
  recognised = rlx_pass_recognise (integers != NULL ? integers : simple, adapter);
  parted = rlx_pass_parts (recognised);
  joined = rlx_pass_join (parted);
  rotated = rlx_pass_rotate (joined, adapter);
  fused = rlx_pass_fuse (rotated, adapter);
  if (!check_pass (expanded, "expand", error) || !check_pass (simple, "simplify", error) ||
      (integers != NULL && !check_pass (integers, "qdq", error)) || !check_pass (recognised, "recognise", error) ||
      !check_pass (parted, "parts", error) || !check_pass (joined, "join", error) || !check_pass (rotated, "rotate", error) || !check_pass (fused, "fuse", error))
    return NULL;
  return g_steal_pointer (&fused);
}
