/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A graph's text form: reads it, writes it, reads that again, and compiles it for a device that need not be there.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "fuzz.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autofree char *text = g_strndup ((const char *) data, size), *first = NULL, *second = NULL;
  g_autoptr(RlxGraph) graph = NULL, again = NULL;
  g_autoptr(GVariant) plan = NULL;
  g_autoptr(GError) error = NULL;

  graph = rlx_graph_new_from_text (text, &error);
  g_assert_true ((graph == NULL) == (error != NULL));
  if (graph == NULL)
    return 0;
  first = rlx_graph_to_text (graph);
  again = rlx_graph_new_from_text (first, &error);
  g_assert_no_error (error);
  second = rlx_graph_to_text (again);
  g_assert_cmpstr (first, ==, second);
  plan = rlx_graph_plan_for (graph, size % 2 == 0 ? "lavapipe" : "navi31", NULL, &error);
  g_assert_true ((plan == NULL) == (error != NULL));
  g_clear_pointer (&plan, g_variant_unref);
  return 0;
}
