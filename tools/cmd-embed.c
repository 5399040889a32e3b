/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <math.h>
#include <unistd.h>

#include "rlx-tool.h"

/* Reads the lines of standard input, skipping empty ones. */
static gboolean
read_lines (GPtrArray *texts,
            GError   **error)
{
  g_autoptr(GIOChannel) input = g_io_channel_unix_new (STDIN_FILENO);
  GIOStatus status;

  do
    {
      char *line = NULL;
      gsize end;

      /* fails if it is not UTF-8 */
      status = g_io_channel_read_line (input, &line, NULL, &end, error);
      if (line != NULL)
        line[end] = '\0';
      if (line != NULL && *line != '\0')
        g_ptr_array_add (texts, line);
      else
        g_free (line);
    }
  while (status == G_IO_STATUS_NORMAL);
  return status == G_IO_STATUS_EOF;
}

/* The cosine of the angle between two rows. */
static double
compare (const float *a,
         const float *b,
         gsize        width)
{
  double product = 0, first = 0, second = 0;

  for (gsize i = 0; i < width; i++)
    {
      product += (double) a[i] * b[i];
      first += (double) a[i] * a[i];
      second += (double) b[i] * b[i];
    }
  return product / sqrt (first * second);
}

static void
print_text (GPtrArray   *texts,
            const float *values,
            gsize        width)
{
  for (guint i = 0; i < texts->len; i++)
    {
      g_autofree char *text = rlx_tool_make_printable (g_ptr_array_index (texts, i));

      g_print ("%2u", i + 1);
      for (guint j = 0; j < texts->len; j++)
        g_print (" %7.4f", compare (values + i * width, values + j * width, width));
      g_print ("  %s\n", text);
    }
}

static void
print_json (GPtrArray   *texts,
            const float *values,
            gsize        width)
{
  GVariantBuilder rows;
  GVariantDict dict;

  g_variant_builder_init (&rows, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < texts->len; i++)
    {
      GVariantBuilder row;
      GVariantDict one;

      g_variant_builder_init (&row, G_VARIANT_TYPE ("ad"));
      for (gsize j = 0; j < width; j++)
        g_variant_builder_add (&row, "d", (double) values[i * width + j]);
      g_variant_dict_init (&one, NULL);
      g_variant_dict_insert (&one, "text", "s", g_ptr_array_index (texts, i));
      g_variant_dict_insert_value (&one, "embedding", g_variant_builder_end (&row));
      g_variant_builder_add_value (&rows, g_variant_dict_end (&one));
    }
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "embeddings", g_variant_builder_end (&rows));
  rlx_tool_print_json (g_variant_dict_end (&dict));
}

int
rlx_tool_embed (int    argc,
                char **argv)
{
  g_autofree char *output = NULL;
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "Write the vectors to a file", "FILE.npy" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON with the vectors", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GFile) folder = NULL;
  g_autoptr(RlxTextEncoder) encoder = NULL;
  g_autoptr(RlxTensor) result = NULL;
  GBytes *bytes;
  g_autoptr(GError) error = NULL;
  RlxToolWait *wait;
  g_autoptr(GAsyncResult) end = NULL;
  RlxDevice *device;
  int status;

  if (!rlx_tool_parse ("FOLDER [TEXT…]",
                       "Embeds texts, or the lines of standard input, with the model in FOLDER, and prints how similar each is to "
                       "the others.", entries, &argc, &argv, 1, G_MAXINT, &status))
    return status;

  folder = g_file_new_for_commandline_arg (argv[1]);
  for (int i = 2; i < argc; i++)
    {
      if (!g_utf8_validate (argv[i], -1, NULL))
        {
          g_printerr ("rlx embed: text %d is not UTF-8\n", i - 1);
          return RLX_TOOL_USAGE;
        }
      g_ptr_array_add (texts, g_strdup (argv[i]));
    }
  if (argc == 2 && !read_lines (texts, &error))
    return rlx_tool_fail (error);
  g_ptr_array_add (texts, NULL);

  device = rlx_tool_open (&error);
  if (device == NULL)
    return rlx_tool_fail (error);
  encoder = rlx_text_encoder_open (folder, device, NULL, &error);
  if (encoder == NULL)
    return rlx_tool_fail (error);
  wait = rlx_tool_wait_new ("embed", NULL);
  rlx_text_encoder_encode_async (encoder, (const char *const *) texts->pdata, NULL, rlx_tool_wait_done, wait);
  end = rlx_tool_wait_end (wait);
  result = rlx_text_encoder_encode_finish (encoder, end, &error);
  if (result == NULL)
    return rlx_tool_fail (error);
  g_ptr_array_set_size (texts, (int) texts->len - 1);

  if (output != NULL)
    {
      g_autoptr(GFile) file = g_file_new_for_commandline_arg (output);

      if (!rlx_tensor_save_npy (result, file, NULL, &error))
        return rlx_tool_fail (error);
    }
  bytes = rlx_tensor_get_bytes (result);
  if (json)
    print_json (texts, g_bytes_get_data (bytes, NULL), rlx_text_encoder_get_width (encoder));
  else if (output == NULL)
    print_text (texts, g_bytes_get_data (bytes, NULL), rlx_text_encoder_get_width (encoder));
  return RLX_TOOL_OK;
}
