/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-bans-private.h"

#include <string.h>

#include "ops/rlx-variant-private.h"

#define NOTES "bans"
/* The names of each one's family and of itself. */
#define FILE_TYPE "a(ss)"
/* A file of any other kind is much longer. */
#define FILE_MAX 16384

static gboolean
find_variant (const char *family,
              const char *variant,
              RlxFamily  *found,
              guint      *row)
{
  for (*found = 0; *found < RLX_N_FAMILIES; (*found)++)
    {
      const RlxVariants *table = rlx_variants_get (*found);

      if (!g_str_equal (table->name, family))
        continue;
      for (*row = 0; *row < table->n_variants; (*row)++)
        if (g_str_equal (table->variants[*row].name, variant))
          return TRUE;
    }
  return FALSE;
}

/* A file only contains names that this build stored. */
static gboolean
read_bans (GBytes  *bytes,
           guint32 *banned)
{
  g_autoptr(GVariant) variant = NULL;
  GVariantIter iter;
  const char *family, *name;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return FALSE;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return FALSE;
  g_variant_iter_init (&iter, variant);
  while (g_variant_iter_next (&iter, "(&s&s)", &family, &name))
    {
      RlxFamily found;
      guint row;

      if (!find_variant (family, name, &found, &row))
        return FALSE;
      banned[found] |= 1u << row;
    }
  return TRUE;
}

void
rlx_bans_load (const RlxGpuAdapterInfo *info,
               guint32                 *banned)
{
  g_autoptr(GBytes) bytes = rlx_gpu_notes_load (info, NOTES);

  memset (banned, 0, RLX_N_FAMILIES * sizeof *banned);
  if (bytes != NULL && !read_bans (bytes, banned))
    memset (banned, 0, RLX_N_FAMILIES * sizeof *banned);
}

char **
rlx_bans_list (const RlxGpuAdapterInfo *info)
{
  g_autoptr(GStrvBuilder) names = g_strv_builder_new ();
  guint32 banned[RLX_N_FAMILIES];

  rlx_bans_load (info, banned);
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    for (guint j = 0; j < rlx_variants_get (i)->n_variants; j++)
      if (banned[i] >> j & 1)
        g_strv_builder_take (names, g_strdup_printf ("%s/%s", rlx_variants_get (i)->name, rlx_variants_get (i)->variants[j].name));
  return g_strv_builder_end (names);
}

gboolean
rlx_bans_store (const RlxGpuAdapterInfo *info,
                const char              *family,
                const char              *variant,
                GError                 **error)
{
  g_autoptr(GVariant) all = NULL;
  g_autoptr(GBytes) bytes = NULL;
  guint32 banned[RLX_N_FAMILIES];
  GVariantBuilder builder;
  RlxFamily found;
  guint row;

  if (!find_variant (family, variant, &found, &row))
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED, "There is no kernel “%s” of the family “%s”", variant, family);
      return FALSE;
    }
  rlx_bans_load (info, banned);
  banned[found] |= 1u << row;
  g_variant_builder_init (&builder, G_VARIANT_TYPE (FILE_TYPE));
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    for (guint j = 0; j < rlx_variants_get (i)->n_variants; j++)
      if (banned[i] >> j & 1)
        g_variant_builder_add (&builder, "(ss)", rlx_variants_get (i)->name, rlx_variants_get (i)->variants[j].name);
  all = g_variant_ref_sink (g_variant_builder_end (&builder));
  bytes = g_variant_get_data_as_bytes (all);
  if (!rlx_gpu_notes_store (info, NOTES, bytes))
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "It cannot be stored that the kernel “%s” of the family “%s” is wrong: the cache cannot be used", variant, family);
      return FALSE;
    }
  return TRUE;
}

gboolean
rlx_bans_remove (const RlxGpuAdapterInfo *info,
                 GError                 **error)
{
  return rlx_gpu_notes_remove (info, NOTES, error);
}
