/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The table of tuned problems, and its file. It contains no times, since all that matters is
 * which variant was fastest. A variant that does not fit the problem, or that calibration
 * found to be wrong, is not used whatever the table says.
 */
#include "config.h"

#include "target/rlx-tuning-private.h"

#include <string.h>

/* Version; problems and variants. */
#define FILE_TYPE "(ua(ss))"
#define FILE_VERSION 2
#define MAX_LENGTH 255
#define FILE_MAX (RLX_TUNING_MAX_PROBLEMS * (2 * MAX_LENGTH + 16))

struct _RlxTuning
{
  GHashTable *variants;    /* problem to name of a variant */
};

RlxTuning *
rlx_tuning_new (void)
{
  RlxTuning *self = g_new0 (RlxTuning, 1);

  self->variants = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return self;
}

RlxTuning *
rlx_tuning_copy (RlxTuning *self)
{
  RlxTuning *copy = rlx_tuning_new ();
  GHashTableIter iter;
  gpointer problem, variant;

  g_hash_table_iter_init (&iter, self->variants);
  while (g_hash_table_iter_next (&iter, &problem, &variant))
    g_hash_table_insert (copy->variants, g_strdup (problem), g_strdup (variant));
  return copy;
}

void
rlx_tuning_free (RlxTuning *self)
{
  g_hash_table_unref (self->variants);
  g_free (self);
}

static gboolean
is_text (const char *text)
{
  for (const char *p = text; *p != '\0'; p++)
    if (g_ascii_iscntrl (*p))
      return FALSE;
  return *text != '\0' && strlen (text) <= MAX_LENGTH;
}

static int
compare_texts (gconstpointer a,
               gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

GBytes *
rlx_tuning_to_bytes (RlxTuning *self)
{
  /* Sorted, so that the same table yields the same file. */
  g_autoptr(GPtrArray) problems = g_hash_table_get_keys_as_ptr_array (self->variants);
  g_autoptr(GVariant) variant = NULL;
  GVariantBuilder builder;

  g_ptr_array_sort (problems, compare_texts);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ss)"));
  for (guint i = 0; i < problems->len; i++)
    g_variant_builder_add (&builder, "(ss)", problems->pdata[i], g_hash_table_lookup (self->variants, problems->pdata[i]));
  variant = g_variant_ref_sink (g_variant_new (FILE_TYPE, FILE_VERSION, &builder));
  return g_variant_get_data_as_bytes (variant);
}

RlxTuning *
rlx_tuning_from_bytes (GBytes *bytes)
{
  g_autoptr(RlxTuning) self = rlx_tuning_new ();
  g_autoptr(GVariant) variant = NULL;
  g_autoptr(GVariant) problems = NULL;
  guint32 version;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return NULL;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return NULL;
  g_variant_get (variant, "(u@a(ss))", &version, &problems);
  if (version != FILE_VERSION || g_variant_n_children (problems) > RLX_TUNING_MAX_PROBLEMS)
    return NULL;
  for (gsize i = 0; i < g_variant_n_children (problems); i++)
    {
      const char *problem, *name;

      g_variant_get_child (problems, i, "(&s&s)", &problem, &name);
      if (!is_text (problem) || !is_text (name) || !g_hash_table_insert (self->variants, g_strdup (problem), g_strdup (name)))
        return NULL;
    }
  return g_steal_pointer (&self);
}

guint
rlx_tuning_get_n_problems (RlxTuning *self)
{
  return g_hash_table_size (self->variants);
}

void
rlx_tuning_set (RlxTuning  *self,
                const char *problem,
                const char *variant)
{
  if (variant == NULL || !is_text (problem))
    {
      g_hash_table_remove (self->variants, problem);
      return;
    }
  /* With that many, most are likely to be obsolete. */
  if (g_hash_table_size (self->variants) >= RLX_TUNING_MAX_PROBLEMS && !g_hash_table_contains (self->variants, problem))
    g_hash_table_remove_all (self->variants);
  g_hash_table_replace (self->variants, g_strdup (problem), g_strdup (variant));
}

const char *
rlx_tuning_look_up (RlxTuning  *self,
                    const char *problem)
{
  return g_hash_table_lookup (self->variants, problem);
}
