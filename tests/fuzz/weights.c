/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A file of weights: opens it and loads what is small.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "fuzz.h"

/* A file may claim to hold more than a test has time and memory for. */
#define MAX_BYTES (1 << 20)
#define MAX_TENSORS 32

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GBytes) bytes = g_bytes_new (data, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (bytes, &error);

  if (weights == NULL)
    {
      g_assert_nonnull (error);
      return 0;
    }
  g_assert_no_error (error);
  /* Other formats have their own fuzz targets. */
  if (rlx_weights_get_format (weights) != FORMAT)
    return -1;
  g_assert_true (g_variant_is_normal_form (rlx_weights_get_metadata (weights)));
  for (guint i = 0; i < MIN (g_list_model_get_n_items (G_LIST_MODEL (weights)), MAX_TENSORS); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);
      const char *name = rlx_weights_entry_get_name (entry);
      g_autoptr(RlxWeightsEntry) found = rlx_weights_lookup (weights, name);
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GBytes) content = NULL;

      g_assert_true (found == entry);
      if (rlx_weights_entry_get_size (entry) > MAX_BYTES)
        continue;
      content = rlx_weights_load_bytes (weights, name, NULL, &error);
      g_assert_true ((content == NULL) == (error != NULL));
      g_assert_true (content == NULL || g_bytes_get_size (content) == rlx_weights_entry_get_size (entry));
      g_clear_error (&error);
      tensor = rlx_weights_load_tensor (weights, name, NULL, &error);
      g_assert_true ((tensor == NULL) == (error != NULL));
      g_clear_error (&error);
    }
  return 0;
}
