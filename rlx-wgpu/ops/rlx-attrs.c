/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-op-private.h"

#include "rlx-op-options-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

#include <math.h>
#include <string.h>

/* What rlx_attr_set_ints() leaves in RlxAttrValue.i when it could not keep the
 * values: it has no way to fail, rlx_op_infer() reports it. */
enum
{
  INTS_GOOD = 0,
  INTS_TOO_MANY = 1,
  INTS_NULL = 2,
};

static void
attr_clear (RlxAttrValue *attr)
{
  g_clear_pointer (&attr->ints, g_free);
  g_clear_pointer (&attr->string, g_free);
  attr->n_ints = 0;
}

RlxAttrValue *
rlx_attrs_new (const RlxOp *op)
{
  /* never NULL, which stands for a failure */
  RlxAttrValue *attrs = g_new0 (RlxAttrValue, MAX (op->n_attrs, 1));

  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];

      if (def->kind == RLX_ATTR_INTS)
        {
          attrs[i].n_ints = def->n_default_ints;
          attrs[i].ints = g_memdup2 (def->default_ints, def->n_default_ints * sizeof (gint64));
        }
      else if (def->kind == RLX_ATTR_FLOAT)
        attrs[i].f = def->default_float;
      else
        attrs[i].i = def->default_int;
    }

  return attrs;
}

RlxAttrValue *
rlx_attrs_copy (const RlxOp        *op,
                const RlxAttrValue *attrs)
{
  RlxAttrValue *copy;

  if (attrs == NULL)
    return rlx_attrs_new (op);

  copy = g_memdup2 (attrs, op->n_attrs * sizeof (RlxAttrValue));
  for (guint i = 0; i < op->n_attrs; i++)
    {
      copy[i].ints = g_memdup2 (attrs[i].ints, attrs[i].n_ints * sizeof (gint64));
      copy[i].string = g_strdup (attrs[i].string);
    }

  return copy;
}

void
rlx_attrs_free (const RlxOp  *op,
                RlxAttrValue *attrs)
{
  if (attrs == NULL)
    return;

  for (guint i = 0; i < op->n_attrs; i++)
    attr_clear (&attrs[i]);
  g_free (attrs);
}

gboolean
rlx_attr_equal (const RlxAttrDef   *def,
                const RlxAttrValue *a,
                const RlxAttrValue *b)
{
  switch (def->kind)
    {
    case RLX_ATTR_FLOAT:
      /* By bits: -0.0 is not 0.0, and a NaN equals itself. */
      return memcmp (&a->f, &b->f, sizeof (double)) == 0;

    case RLX_ATTR_INTS:
      /* For rules, an empty list is not always the same as no list. */
      if (a->n_ints == 0 && b->n_ints == 0)
        return !a->is_set == !b->is_set && a->i == b->i;
      return a->n_ints == b->n_ints &&
             memcmp (a->ints, b->ints, a->n_ints * sizeof (gint64)) == 0;

    case RLX_ATTR_STRING:
      return g_strcmp0 (a->string, b->string) == 0;

    case RLX_ATTR_BOOL:
      return !a->i == !b->i;

    case RLX_ATTR_INT:
    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
    default:
      return a->i == b->i;
    }
}

gboolean
rlx_attrs_equal (const RlxOp        *op,
                 const RlxAttrValue *a,
                 const RlxAttrValue *b)
{
  for (guint i = 0; i < op->n_attrs; i++)
    if (!rlx_attr_equal (&op->attrs[i], &a[i], &b[i]))
      return FALSE;

  return TRUE;
}

static guint
hash_mix (guint   hash,
          guint64 value)
{
  guint64 mixed = (hash ^ value) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  return (guint) (mixed ^ (mixed >> 32));
}

guint
rlx_attrs_hash (const RlxOp        *op,
                const RlxAttrValue *attrs)
{
  guint hash = g_str_hash (op->name);

  for (guint i = 0; i < op->n_attrs; i++)
    {
      guint64 bits;

      switch (op->attrs[i].kind)
        {
        case RLX_ATTR_FLOAT:
          memcpy (&bits, &attrs[i].f, sizeof bits);
          hash = hash_mix (hash, bits);
          break;

        case RLX_ATTR_INTS:
          hash = hash_mix (hash, attrs[i].n_ints);
          for (guint j = 0; j < attrs[i].n_ints; j++)
            hash = hash_mix (hash, (guint64) attrs[i].ints[j]);
          break;

        case RLX_ATTR_STRING:
          hash = hash_mix (hash, attrs[i].string != NULL ? g_str_hash (attrs[i].string) : 0);
          break;

        case RLX_ATTR_BOOL:
          hash = hash_mix (hash, attrs[i].i != 0);
          break;

        case RLX_ATTR_INT:
        case RLX_ATTR_ENUM:
        case RLX_ATTR_DATA_TYPE:
        default:
          hash = hash_mix (hash, (guint64) attrs[i].i);
          break;
        }
    }

  return hash;
}

gboolean
rlx_attr_set_int (RlxAttrValue *attr,
                  gint64        value)
{
  gboolean changed = attr->i != value;

  attr->i = value;
  attr->is_set = TRUE;
  return changed;
}

gboolean
rlx_attr_set_float (RlxAttrValue *attr,
                    double        value)
{
  /* NaN is no number, but it does not change either: it is refused later */
  gboolean changed = memcmp (&attr->f, &value, sizeof value) != 0;

  attr->f = value;
  attr->is_set = TRUE;
  return changed;
}

void
rlx_attr_set_ints (RlxAttrValue *attr,
                   const gint64 *values,
                   gsize         n_values)
{
  gint64 *copy = NULL;

  attr->i = INTS_GOOD;
  if (n_values > RLX_MAX_ATTR_INTS)
    attr->i = INTS_TOO_MANY;
  else if (values == NULL && n_values > 0)
    attr->i = INTS_NULL;

  if (attr->i != INTS_GOOD)
    n_values = 0;

  /* Before the old ones go: they may be the same. */
  copy = g_memdup2 (values, n_values * sizeof (gint64));
  attr_clear (attr);
  attr->ints = copy;
  attr->n_ints = (guint) n_values;
  attr->is_set = TRUE;
}

void
rlx_attr_set_string (RlxAttrValue *attr,
                     const char   *value)
{
  char *copy = value != NULL ? g_strndup (value, RLX_MAX_ATTR_STRING + 1) : NULL;

  attr_clear (attr);
  attr->string = copy;
  attr->is_set = TRUE;
}

gboolean
rlx_attr_is_default (const RlxAttrDef   *def,
                     const RlxAttrValue *attr)
{
  const RlxAttrValue value = {
    .i = def->kind == RLX_ATTR_INTS ? INTS_GOOD : def->default_int,
    .f = def->default_float,
    .ints = (gint64 *) def->default_ints,
    .n_ints = def->n_default_ints,
    .is_set = FALSE,
  };

  return !def->required && rlx_attr_equal (def, attr, &value);
}

gboolean
rlx_call_check_attrs (const RlxOpCall *call,
                      GError         **error)
{
  for (guint i = 0; i < call->op->n_attrs; i++)
    {
      const RlxAttrDef *def = &call->op->attrs[i];
      const RlxAttrValue *attr = &call->attrs[i];

      switch (def->kind)
        {
        case RLX_ATTR_FLOAT:
          if (isnan (attr->f))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” is not a number", def->name);
          break;

        case RLX_ATTR_ENUM:
          if (rlx_attr_get_nick (def, attr) == NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has the unknown value %" G_GINT64_FORMAT, def->name, attr->i);
          break;

        case RLX_ATTR_DATA_TYPE:
          if (attr->i < G_MININT || attr->i > G_MAXINT || !rlx_data_type_check ((RlxDataType) attr->i, NULL))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                                   "the attribute “%s” has the value %" G_GINT64_FORMAT ", which is no data type", def->name, attr->i);
          break;

        case RLX_ATTR_INTS:
          if (attr->i == INTS_TOO_MANY)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "the attribute “%s” has more values than the limit of %u", def->name, RLX_MAX_ATTR_INTS);
          if (attr->i == INTS_NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has a number of values but no values", def->name);
          break;

        case RLX_ATTR_STRING:
          if (attr->string == NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has no value", def->name);
          if (strlen (attr->string) > RLX_MAX_ATTR_STRING)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "the attribute “%s” is longer than the limit of %u bytes", def->name, RLX_MAX_ATTR_STRING);
          if (!g_utf8_validate (attr->string, -1, NULL))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” is not valid UTF-8", def->name);
          break;

        case RLX_ATTR_BOOL:
        case RLX_ATTR_INT:
        default:
          break;
        }
    }

  return TRUE;
}

/* ---- attributes and GVariant ------------------------------------------------ */

static const char *
kind_expectation (RlxAttrKind kind)
{
  switch (kind)
    {
    case RLX_ATTR_BOOL:
      return "a boolean (b)";
    case RLX_ATTR_INT:
      return "an integer (x)";
    case RLX_ATTR_FLOAT:
      return "a number (d)";
    case RLX_ATTR_ENUM:
      return "the name of a value (s)";
    case RLX_ATTR_DATA_TYPE:
      return "the name of a data type (s)";
    case RLX_ATTR_INTS:
      return "an array of integers (ax)";
    case RLX_ATTR_STRING:
      return "text (s)";
    default:
      g_return_val_if_reached ("?");
    }
}

typedef enum
{
  INT_FOUND,
  INT_WRONG_TYPE,
  INT_OUT_OF_RANGE,
} IntResult;

static IntResult
variant_get_any_int (GVariant *variant,
                     gint64   *out)
{
  switch (g_variant_classify (variant))
    {
    case G_VARIANT_CLASS_BYTE:
      *out = g_variant_get_byte (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_INT16:
      *out = g_variant_get_int16 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_UINT16:
      *out = g_variant_get_uint16 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_INT32:
      *out = g_variant_get_int32 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_UINT32:
      *out = g_variant_get_uint32 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_INT64:
      *out = g_variant_get_int64 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_UINT64:
      if (g_variant_get_uint64 (variant) > G_MAXINT64)
        return INT_OUT_OF_RANGE;
      *out = (gint64) g_variant_get_uint64 (variant);
      return INT_FOUND;

    case G_VARIANT_CLASS_BOOLEAN:
    case G_VARIANT_CLASS_HANDLE:
    case G_VARIANT_CLASS_DOUBLE:
    case G_VARIANT_CLASS_STRING:
    case G_VARIANT_CLASS_OBJECT_PATH:
    case G_VARIANT_CLASS_SIGNATURE:
    case G_VARIANT_CLASS_VARIANT:
    case G_VARIANT_CLASS_MAYBE:
    case G_VARIANT_CLASS_ARRAY:
    case G_VARIANT_CLASS_TUPLE:
    case G_VARIANT_CLASS_DICT_ENTRY:
    default:
      return INT_WRONG_TYPE;
    }
}

static gboolean
attr_error (const RlxOp      *op,
            const RlxAttrDef *def,
            GError          **error,
            RlxGraphError     code,
            const char       *format,
            ...) G_GNUC_PRINTF (5, 6);

static gboolean
attr_error (const RlxOp      *op,
            const RlxAttrDef *def,
            GError          **error,
            RlxGraphError     code,
            const char       *format,
            ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, RLX_GRAPH_ERROR, code, "%s: the attribute “%s” %s", op->name, def->name, message);

  return FALSE;
}

static gboolean
attr_wrong_type (const RlxOp      *op,
                 const RlxAttrDef *def,
                 GVariant         *value,
                 GError          **error)
{
  g_autofree char *type = rlx_quote_text (g_variant_get_type_string (value), -1);

  return attr_error (op, def, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                     "has a value of type %s where %s is expected", type, kind_expectation (def->kind));
}

static gboolean
attr_set_ints_from_variant (const RlxOp      *op,
                            const RlxAttrDef *def,
                            RlxAttrValue     *attr,
                            GVariant         *value,
                            GError          **error)
{
  g_autoptr(GArray) ints = NULL;
  gsize n;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_ARRAY))
    return attr_wrong_type (op, def, value, error);

  n = g_variant_n_children (value);
  if (n > RLX_MAX_ATTR_INTS)
    return attr_error (op, def, error, RLX_GRAPH_ERROR_LIMIT,
                       "has %" G_GSIZE_FORMAT " values, the limit is %u", n, RLX_MAX_ATTR_INTS);

  ints = g_array_sized_new (FALSE, FALSE, sizeof (gint64), (guint) n);
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);
      gint64 element;

      while (g_variant_is_of_type (child, G_VARIANT_TYPE_VARIANT))
        {
          GVariant *inner = g_variant_get_variant (child);

          g_variant_unref (child);
          child = inner;
        }

      switch (variant_get_any_int (child, &element))
        {
        case INT_FOUND:
          g_array_append_val (ints, element);
          break;

        case INT_OUT_OF_RANGE:
          return attr_error (op, def, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "has the value %" G_GUINT64_FORMAT " at index %" G_GSIZE_FORMAT ", beyond the limit of %" G_GINT64_FORMAT,
                             g_variant_get_uint64 (child), i, G_MAXINT64);

        case INT_WRONG_TYPE:
        default:
          return attr_wrong_type (op, def, value, error);
        }
    }

  rlx_attr_set_ints (attr, (const gint64 *) ints->data, n);

  return TRUE;
}

static gboolean
attr_set_name_from_variant (const RlxOp      *op,
                            const RlxAttrDef *def,
                            RlxAttrValue     *attr,
                            GVariant         *value,
                            GError          **error)
{
  g_autoptr(GEnumClass) enum_class = NULL;
  g_autoptr(GString) known = NULL;
  g_autofree char *quoted = NULL;
  const GEnumValue *enum_value;
  const char *name;
  RlxDataType data_type;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return attr_wrong_type (op, def, value, error);
  name = g_variant_get_string (value, NULL);

  if (def->kind == RLX_ATTR_DATA_TYPE)
    {
      g_autoptr(GError) local = NULL;

      if (!rlx_data_type_from_string (name, &data_type, &local))
        return attr_error (op, def, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "is wrong: %s", local->message);

      rlx_attr_set_int (attr, data_type);
      return TRUE;
    }

  enum_class = g_type_class_ref (def->enum_type ());
  enum_value = g_enum_get_value_by_nick (enum_class, name);
  if (enum_value != NULL)
    {
      rlx_attr_set_int (attr, enum_value->value);
      return TRUE;
    }

  known = g_string_new (NULL);
  for (guint i = 0; i < enum_class->n_values; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", enum_class->values[i].value_nick);
  quoted = rlx_quote_text (name, -1);

  return attr_error (op, def, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                     "has the unknown value %s; there are %s", quoted, known->str);
}

static gboolean
attr_set_from_variant (const RlxOp      *op,
                       const RlxAttrDef *def,
                       RlxAttrValue     *attr,
                       GVariant         *value,
                       GError          **error)
{
  gint64 element = 0;

  switch (def->kind)
    {
    case RLX_ATTR_BOOL:
      if (!g_variant_is_of_type (value, G_VARIANT_TYPE_BOOLEAN))
        return attr_wrong_type (op, def, value, error);
      rlx_attr_set_int (attr, g_variant_get_boolean (value));
      return TRUE;

    case RLX_ATTR_FLOAT:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
        rlx_attr_set_float (attr, g_variant_get_double (value));
      else if (variant_get_any_int (value, &element) == INT_FOUND)
        rlx_attr_set_float (attr, (double) element);
      else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
        rlx_attr_set_float (attr, (double) g_variant_get_uint64 (value));
      else
        return attr_wrong_type (op, def, value, error);
      return TRUE;

    case RLX_ATTR_INT:
      switch (variant_get_any_int (value, &element))
        {
        case INT_FOUND:
          rlx_attr_set_int (attr, element);
          return TRUE;

        case INT_OUT_OF_RANGE:
          return attr_error (op, def, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "has the value %" G_GUINT64_FORMAT ", beyond the limit of %" G_GINT64_FORMAT,
                             g_variant_get_uint64 (value), G_MAXINT64);

        case INT_WRONG_TYPE:
        default:
          return attr_wrong_type (op, def, value, error);
        }

    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
      return attr_set_name_from_variant (op, def, attr, value, error);

    case RLX_ATTR_INTS:
      return attr_set_ints_from_variant (op, def, attr, value, error);

    case RLX_ATTR_STRING:
      if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
        return attr_wrong_type (op, def, value, error);
      rlx_attr_set_string (attr, g_variant_get_string (value, NULL));
      return TRUE;

    default:
      g_return_val_if_reached (FALSE);
    }
}

static void
set_unknown_attr_error (const RlxOp *op,
                        const char  *key,
                        GError     **error)
{
  g_autofree char *quoted = rlx_quote_text (key, -1);
  g_autoptr(GString) known = g_string_new (NULL);

  for (guint i = 0; i < op->n_attrs; i++)
    g_string_append_printf (known, "%s%s", i > 0 ? ", " : "", op->attrs[i].name);

  if (op->n_attrs > 0)
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND,
                 "%s: there is no attribute %s; there are %s", op->name, quoted, known->str);
  else
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND,
                 "%s: there is no attribute %s; the operator has none", op->name, quoted);
}

RlxAttrValue *
rlx_attrs_new_from_variant (const RlxOp *op,
                            GVariant    *attributes,
                            GError     **error)
{
  RlxAttrValue *attrs = rlx_attrs_new (op);

  if (attributes != NULL)
    {
      GVariantIter iter;
      const char *key;
      GVariant *boxed;

      if (!g_variant_is_of_type (attributes, G_VARIANT_TYPE_VARDICT))
        {
          g_autofree char *type = rlx_quote_text (g_variant_get_type_string (attributes), -1);

          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "%s: the attributes are of type %s where a dictionary (a{sv}) is expected", op->name, type);
          goto failed;
        }

      g_variant_iter_init (&iter, attributes);
      while (g_variant_iter_next (&iter, "{&sv}", &key, &boxed))
        {
          g_autoptr(GVariant) value = boxed;
          int index = rlx_op_find_attr (op, key);

          if (index < 0)
            {
              set_unknown_attr_error (op, key, error);
              goto failed;
            }

          if (attrs[index].is_set)
            {
              attr_error (op, &op->attrs[index], error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "is given twice");
              goto failed;
            }

          if (!attr_set_from_variant (op, &op->attrs[index], &attrs[index], value, error))
            goto failed;
        }
    }

  for (guint i = 0; i < op->n_attrs; i++)
    {
      if (op->attrs[i].required && !attrs[i].is_set)
        {
          attr_error (op, &op->attrs[i], error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                      "is missing: %s is expected", kind_expectation (op->attrs[i].kind));
          goto failed;
        }
    }

  return attrs;

failed:
  rlx_attrs_free (op, attrs);
  return NULL;
}

const char *
rlx_attr_get_nick (const RlxAttrDef   *def,
                   const RlxAttrValue *attr)
{
  g_autoptr(GEnumClass) enum_class = NULL;
  const GEnumValue *enum_value;

  if (def->kind == RLX_ATTR_DATA_TYPE)
    return rlx_data_type_to_string ((RlxDataType) attr->i);

  /* The names are static, and stay when the class goes. */
  enum_class = g_type_class_ref (def->enum_type ());
  if (attr->i < G_MININT || attr->i > G_MAXINT)
    return NULL;
  enum_value = g_enum_get_value (enum_class, (int) attr->i);

  return enum_value != NULL ? enum_value->value_nick : NULL;
}

GVariant *
rlx_attrs_to_variant (const RlxOp        *op,
                      const RlxAttrValue *attrs)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);

  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];
      const char *nick;
      GVariant *value = NULL;

      switch (def->kind)
        {
        case RLX_ATTR_BOOL:
          value = g_variant_new_boolean (attrs[i].i != 0);
          break;

        case RLX_ATTR_INT:
          value = g_variant_new_int64 (attrs[i].i);
          break;

        case RLX_ATTR_FLOAT:
          value = g_variant_new_double (attrs[i].f);
          break;

        case RLX_ATTR_ENUM:
        case RLX_ATTR_DATA_TYPE:
          nick = rlx_attr_get_nick (def, &attrs[i]);
          value = nick != NULL ? g_variant_new_string (nick) : NULL;
          break;

        case RLX_ATTR_INTS:
          /* No list is not the same as an empty one: leave it out. */
          if (attrs[i].is_set || attrs[i].n_ints > 0)
            value = g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, attrs[i].ints, attrs[i].n_ints, sizeof (gint64));
          break;

        case RLX_ATTR_STRING:
          value = attrs[i].string != NULL ? g_variant_new_string (attrs[i].string) : NULL;
          break;

        default:
          g_return_val_if_reached (NULL);
        }

      if (value != NULL)
        g_variant_builder_add (&builder, "{sv}", def->name, value);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* ---- options objects -------------------------------------------------------- */

void
rlx_op_options_get_property (const RlxAttrValue *attrs,
                             const RlxOp        *op,
                             guint               index,
                             GValue             *value)
{
  g_return_if_fail (index < op->n_attrs);

  switch (op->attrs[index].kind)
    {
    case RLX_ATTR_BOOL:
      g_value_set_boolean (value, attrs[index].i != 0);
      break;

    case RLX_ATTR_INT:
      g_value_set_int64 (value, attrs[index].i);
      break;

    case RLX_ATTR_FLOAT:
      g_value_set_double (value, attrs[index].f);
      break;

    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
      g_value_set_enum (value, (int) attrs[index].i);
      break;

    case RLX_ATTR_INTS:
    case RLX_ATTR_STRING:
    default:
      g_return_if_reached ();
    }
}

gboolean
rlx_op_options_set_property (RlxAttrValue *attrs,
                             const RlxOp  *op,
                             guint         index,
                             const GValue *value)
{
  RlxAttrValue changed = { 0 };

  g_return_val_if_fail (index < op->n_attrs, FALSE);

  switch (op->attrs[index].kind)
    {
    case RLX_ATTR_BOOL:
      rlx_attr_set_int (&changed, g_value_get_boolean (value) != FALSE);
      break;

    case RLX_ATTR_INT:
      rlx_attr_set_int (&changed, g_value_get_int64 (value));
      break;

    case RLX_ATTR_FLOAT:
      rlx_attr_set_float (&changed, g_value_get_double (value));
      break;

    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
      rlx_attr_set_int (&changed, g_value_get_enum (value));
      break;

    case RLX_ATTR_INTS:
    case RLX_ATTR_STRING:
    default:
      g_return_val_if_reached (FALSE);
    }

  if (rlx_attr_equal (&op->attrs[index], &attrs[index], &changed))
    {
      attrs[index].is_set = TRUE;
      return FALSE;
    }

  attrs[index] = changed;

  return TRUE;
}
