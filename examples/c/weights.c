/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A layer of a network with weights from a file.
 *
 *     cc weights.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o weights && ./weights weights.safetensors
 */
#include <rlx-wgpu/rlx-wgpu.h>

int
main (int    argc,
      char **argv)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (argc > 1 ? argv[1] : "weights.safetensors");
  RlxDevice *device = rlx_device_get_default (&error);
  g_autoptr(RlxGraph) g = rlx_graph_new ();
  const gint64 sx[] = { 2, 3 }, sw[] = { 3, 2 }, sb[] = { 2 };
  g_autoptr(RlxTensor) xt = rlx_tensor_new_from_floats (sx, 2, (float[]) { 1, 2, 3, -4, -5, -6 }, 6, NULL);
  RlxNode *x = rlx_graph_input (g, "x", RLX_DATA_TYPE_F32, sx, 2, &error);
  RlxNode *w = rlx_graph_parameter (g, "w", RLX_DATA_TYPE_F32, sw, 2, &error);
  RlxNode *b = rlx_graph_parameter (g, "b", RLX_DATA_TYPE_F32, sb, 1, &error);
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(RlxExecutable) exe = NULL;
  g_auto(RlxTensors) out = NULL;
  g_autofree char *text = NULL;

  rlx_graph_output (g, "y", rlx_node_relu (rlx_node_add (rlx_node_matmul (x, w, NULL, &error), b, &error), &error), &error);

  if (error == NULL)
    exe = rlx_device_compile (device, g, NULL, NULL, &error);
  if (exe != NULL)
    weights = rlx_weights_open (file, NULL, &error);
  if (weights != NULL && rlx_executable_set_parameters_from (exe, weights, NULL, NULL, &error))
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
