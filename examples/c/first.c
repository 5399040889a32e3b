/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A matrix product and a ReLU, on the default GPU.
 *
 *     cc first.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o first && ./first
 */
#include <rlx-wgpu/rlx-wgpu.h>

int
main (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);
  g_autoptr(RlxGraph) g = rlx_graph_new ();
  g_autoptr(RlxTensor) wt = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3, 2), RLX_FLOAT_ARRAY (1, 0, 0, 1, 1, 1), NULL);
  g_autoptr(RlxTensor) xt = rlx_tensor_new_from_floats (RLX_INT_ARRAY (2, 3), RLX_FLOAT_ARRAY (1, 2, 3, -4, -5, -6), NULL);
  RlxNode *x = rlx_graph_input (g, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (2, 3), &error);
  RlxNode *w = rlx_graph_constant (g, wt, &error);
  g_autoptr(RlxExecutable) exe = NULL;
  g_auto(RlxTensors) out = NULL;
  g_autofree char *text = NULL;

  rlx_graph_output (g, "y", rlx_node_relu (rlx_node_matmul (x, w, NULL, &error), &error), &error);

  /* The first error stays, whatever is called after it: one check will do. */
  if (error == NULL)
    exe = rlx_device_compile (device, g, NULL, NULL, &error);
  if (exe != NULL)
    out = rlx_executable_run (exe, &xt, 1, NULL, NULL, &error);
  if (out == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }

  text = rlx_tensor_to_string (out[0]);
  g_print ("%s\n", text);
  return 0;
}
