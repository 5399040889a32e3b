/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The table of shapes that were tuned, and its file. No time is in there: which
 * way was fastest is all there is to know, and what cannot be read cannot be
 * wrong. A way that calibration found to be wrong is not used, whatever the table
 * says.
 */
#include "config.h"

#include "target/rlx-tuning-private.h"

#include <string.h>

/* Version; the shapes with the names of their ways. */
#define FILE_TYPE "(ua(ss))"
#define FILE_VERSION 1
#define KEY_MAX_LENGTH 128
#define FILE_MAX (RLX_TUNING_MAX_SHAPES * (KEY_MAX_LENGTH + 32))

struct _RlxTuning
{
  GHashTable *ways;        /* key to RlxProductVariant */
  GArray *missing;         /* RlxMissingShape */
};

RlxTuning *
rlx_tuning_new (void)
{
  RlxTuning *self = g_new0 (RlxTuning, 1);

  self->ways = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->missing = g_array_new (FALSE, TRUE, sizeof (RlxMissingShape));
  return self;
}

void
rlx_tuning_free (RlxTuning *self)
{
  g_hash_table_unref (self->ways);
  g_array_unref (self->missing);
  g_free (self);
}

static char *
make_key (const RlxTunedShape *shape)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT "x%" G_GUINT64_FORMAT " %s %c%c%s",
                          shape->n_batch, shape->m, shape->n, shape->k, rlx_data_type_to_string (shape->data_type),
                          shape->a_along_k ? 'n' : 't', shape->b_along_n ? 'n' : 't', shape->is_weight ? " weight" : "");
}

static RlxProductVariant
find_way (const char *name)
{
  guint way = 0;

  while (way < RLX_N_PRODUCTS && !g_str_equal (name, rlx_product_variant_get_name (way)))
    way++;
  return way;
}

static gboolean
is_key (const char *text)
{
  gsize length = strlen (text);

  for (const char *p = text; *p != '\0'; p++)
    if (!g_ascii_isalnum (*p) && *p != ' ')
      return FALSE;
  return length > 0 && length <= KEY_MAX_LENGTH;
}

static int
compare_keys (gconstpointer a,
              gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

GBytes *
rlx_tuning_to_bytes (RlxTuning *self)
{
  g_autofree gpointer *keys = NULL;
  g_autoptr(GVariant) variant = NULL;
  GVariantBuilder builder;
  guint n;

  /* The same table is the same file. */
  keys = g_hash_table_get_keys_as_array (self->ways, &n);
  qsort (keys, n, sizeof (gpointer), compare_keys);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ss)"));
  for (guint i = 0; i < n; i++)
    g_variant_builder_add (&builder, "(ss)", keys[i],
                           rlx_product_variant_get_name (GPOINTER_TO_UINT (g_hash_table_lookup (self->ways, keys[i]))));
  variant = g_variant_ref_sink (g_variant_new (FILE_TYPE, FILE_VERSION, &builder));
  return g_variant_get_data_as_bytes (variant);
}

RlxTuning *
rlx_tuning_from_bytes (GBytes *bytes)
{
  g_autoptr(RlxTuning) self = rlx_tuning_new ();
  g_autoptr(GVariant) variant = NULL;
  g_autoptr(GVariant) shapes = NULL;
  guint32 version;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return NULL;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return NULL;
  g_variant_get (variant, "(u@a(ss))", &version, &shapes);
  if (version != FILE_VERSION || g_variant_n_children (shapes) > RLX_TUNING_MAX_SHAPES)
    return NULL;
  for (gsize i = 0; i < g_variant_n_children (shapes); i++)
    {
      const char *key, *name;
      RlxProductVariant way;

      g_variant_get_child (shapes, i, "(&s&s)", &key, &name);
      way = find_way (name);
      if (way == RLX_N_PRODUCTS || !is_key (key) ||
          !g_hash_table_insert (self->ways, g_strdup (key), GUINT_TO_POINTER (way)))
        return NULL;
    }
  return g_steal_pointer (&self);
}

guint
rlx_tuning_get_n_shapes (RlxTuning *self)
{
  return g_hash_table_size (self->ways);
}

void
rlx_tuning_set (RlxTuning           *self,
                const RlxTunedShape *shape,
                RlxProductVariant    way)
{
  /* Whoever has that many needs others by now. */
  if (g_hash_table_size (self->ways) >= RLX_TUNING_MAX_SHAPES)
    g_hash_table_remove_all (self->ways);
  g_hash_table_replace (self->ways, make_key (shape), GUINT_TO_POINTER (way));
}

RlxProductVariant
rlx_tuning_look_up (RlxTuning           *self,
                    const RlxTunedShape *shape)
{
  g_autofree char *key = make_key (shape);
  RlxMissingShape new = { .shape = *shape };
  double flops = 2.0 * (double) shape->m * (double) shape->n * (double) shape->k * (double) shape->n_batch;
  gpointer way;

  if (g_hash_table_lookup_extended (self->ways, key, NULL, &way))
    return GPOINTER_TO_UINT (way);
  for (guint i = 0; i < self->missing->len; i++)
    {
      RlxMissingShape *missing = &g_array_index (self->missing, RlxMissingShape, i);
      g_autofree char *other = make_key (&missing->shape);

      if (g_str_equal (other, key))
        {
          missing->flops += flops;
          return RLX_N_PRODUCTS;
        }
    }
  new.flops = flops;
  g_array_append_val (self->missing, new);
  return RLX_N_PRODUCTS;
}

GArray *
rlx_tuning_get_missing (RlxTuning *self)
{
  return self->missing;
}
