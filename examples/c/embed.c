/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compares the meanings of texts with that of the first one.
 *
 *     cc embed.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o embed && ./embed FOLDER
 *
 * FOLDER contains a model as saved by sentence-transformers.
 */
#include <rlx-wgpu/rlx-wgpu.h>

int
main (int    argc,
      char **argv)
{
  const char *texts[] = { "The cat sleeps on the sofa.", "A kitten is napping on a couch.", "Interest rates rose again.", NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(GFile) folder = g_file_new_for_commandline_arg (argc > 1 ? argv[1] : ".");
  g_autoptr(RlxTextEncoder) encoder = NULL;
  g_autoptr(RlxTensor) vectors = NULL;
  RlxDevice *device = rlx_device_get_default (&error);
  const float *values;

  if (device != NULL)
    encoder = rlx_text_encoder_open (folder, device, NULL, &error);
  if (encoder != NULL)
    vectors = rlx_text_encoder_encode (encoder, texts, NULL, &error);
  if (vectors == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }

  values = g_bytes_get_data (rlx_tensor_get_bytes (vectors), NULL);
  for (guint i = 0; texts[i] != NULL; i++)
    {
      const guint width = rlx_text_encoder_get_width (encoder);
      float similarity = 0;

      for (guint j = 0; j < width; j++)
        similarity += values[j] * values[i * width + j];
      g_print ("%.3f %s\n", similarity, texts[i]);
    }
  return 0;
}
