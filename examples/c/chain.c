/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A hundred runs, each on the result that the previous one left on the device, and one fetch.
 *
 *     cc chain.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o chain && ./chain
 */
#include <rlx-wgpu/rlx-wgpu.h>

int
main (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);
  g_autoptr(RlxGraph) g = rlx_graph_new ();
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats (RLX_INT_ARRAY (4), RLX_FLOAT_ARRAY (0, 1, 2, 1000), NULL);
  RlxNode *half = rlx_graph_scalar (g, RLX_DATA_TYPE_F32, 0.5, &error), *one = rlx_graph_scalar (g, RLX_DATA_TYPE_F32, 1, &error);
  RlxNode *y = rlx_node_mul (rlx_graph_input (g, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (4), &error), half, &error);
  g_autoptr(RlxExecutable) exe = NULL;
  g_autofree char *text = NULL;

  rlx_graph_output (g, "y", rlx_node_add (y, one, &error), &error);
  if (error == NULL)
    exe = rlx_device_compile (device, g, NULL, NULL, &error);
  for (int i = 0; i < 100 && error == NULL; i++)
    {
      g_auto(RlxTensors) out = rlx_executable_run_on_device (exe, &x, 1, NULL, NULL, &error);

      if (out != NULL)
        g_set_object (&x, out[0]);
    }
  if (error != NULL || !rlx_tensor_fetch (x, NULL, &error))
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }

  text = rlx_tensor_to_string (x);
  g_print ("%s\n", text);
  return 0;
}
