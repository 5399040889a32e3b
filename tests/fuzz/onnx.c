/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A model: reads it, builds its graph, and compiles that for a device that need not be there.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "fuzz.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GBytes) bytes = g_bytes_new (data, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxModel) model = rlx_model_new_from_bytes (bytes, &error);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GVariant) plan = NULL;

  g_assert_true ((model == NULL) == (error != NULL));
  if (model == NULL)
    return 0;
  graph = rlx_model_build (model, NULL, NULL, &error);
  g_assert_true ((graph == NULL) == (error != NULL));
  if (graph == NULL)
    return 0;
  plan = rlx_graph_plan_for (graph, "lavapipe", NULL, &error);
  g_assert_true ((plan == NULL) == (error != NULL));
  return 0;
}
