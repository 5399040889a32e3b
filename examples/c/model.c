/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Runs an ONNX file.
 *
 *     cc model.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o model && ./model model.onnx
 */
#include <rlx-wgpu/rlx-wgpu.h>

static gboolean
run (RlxSession *session,
     RlxTensor  *x,
     GError    **error)
{
  const char *names[] = { "x", NULL };
  g_auto(RlxTensors) outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, error);
  g_autofree char *text = NULL;

  if (outputs == NULL)
    return FALSE;
  text = rlx_tensor_to_string (outputs[0]);
  g_print ("%s\n", text);
  return TRUE;
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (argc > 1 ? argv[1] : "model.onnx");
  g_autoptr(RlxSession) session = rlx_session_open (file, NULL, NULL, &error);
  g_autoptr(RlxTensor) one = rlx_tensor_new_from_floats (RLX_INT_ARRAY (1, 3), RLX_FLOAT_ARRAY (1, 2, 3), NULL);
  g_autoptr(RlxTensor) two = rlx_tensor_new_from_floats (RLX_INT_ARRAY (2, 3), RLX_FLOAT_ARRAY (1, 2, 3, 3, 2, 1), NULL);

  /* Any size: it is compiled for the second batch, too. */
  if (session == NULL || !run (session, one, &error) || !run (session, two, &error))
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  return 0;
}
