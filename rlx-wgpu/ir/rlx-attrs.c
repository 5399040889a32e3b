/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ir/rlx-op-private.h"

#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

#include <math.h>
#include <string.h>

/* Set by rlx_ints_set() if it could not store the values: it cannot fail, so
 * rlx_op_infer() reports it. */
typedef enum
{
  INTS_GOOD = 0,
  INTS_TOO_MANY = 1,
  INTS_NULL = 2,
} RlxIntsFault;

/* ---- members of a struct ------------------------------------------------------ */

/* Enumerations are as large as integers, so that one function can do for all. */
G_STATIC_ASSERT (sizeof (RlxDataType) == sizeof (int));

#define MEMBER(def, attrs, type) ((type *) ((char *) (attrs) + (def)->offset))
#define MEMBER_CONST(def, attrs, type) ((const type *) ((const char *) (attrs) + (def)->offset))

gint64
rlx_attr_get_int (const RlxAttrDef *def,
                  gconstpointer     attrs)
{
  return def->kind == RLX_ATTR_INT ? *MEMBER_CONST (def, attrs, gint64) : *MEMBER_CONST (def, attrs, int);
}

double
rlx_attr_get_float (const RlxAttrDef *def,
                    gconstpointer     attrs)
{
  return *MEMBER_CONST (def, attrs, double);
}

const RlxInts *
rlx_attr_get_ints (const RlxAttrDef *def,
                   gconstpointer     attrs)
{
  return MEMBER_CONST (def, attrs, RlxInts);
}

const char *
rlx_attr_get_string (const RlxAttrDef *def,
                     gconstpointer     attrs)
{
  return *MEMBER_CONST (def, attrs, char *);
}

gboolean
rlx_attr_set_int (const RlxAttrDef *def,
                  gpointer          attrs,
                  gint64            value)
{
  gint64 old = rlx_attr_get_int (def, attrs);

  if (def->kind == RLX_ATTR_INT)
    *MEMBER (def, attrs, gint64) = value;
  else
    *MEMBER (def, attrs, int) = def->kind == RLX_ATTR_BOOL ? value != 0 : (int) value;
  return rlx_attr_get_int (def, attrs) != old;
}

gboolean
rlx_attr_set_float (const RlxAttrDef *def,
                    gpointer          attrs,
                    double            value)
{
  double *member = MEMBER (def, attrs, double);
  /* NaN never equals itself, but it has not changed: it is rejected later */
  gboolean changed = memcmp (member, &value, sizeof value) != 0;

  *member = value;
  return changed;
}

void
rlx_ints_set (RlxInts      *ints,
              const gint64 *values,
              gsize         n_values)
{
  RlxIntsFault fault = INTS_GOOD;
  gint64 *copy;

  if (n_values > RLX_MAX_ATTR_INTS)
    fault = INTS_TOO_MANY;
  else if (values == NULL && n_values > 0)
    fault = INTS_NULL;
  if (fault != INTS_GOOD)
    n_values = 0;

  /* Before freeing the old ones: they may be the same. */
  copy = g_memdup2 (values, n_values * sizeof (gint64));
  g_free ((gpointer) ints->values);
  *ints = RLX_INTS (copy, (guint) n_values);
  ints->fault = fault;
}

gboolean
rlx_attr_set_ints (const RlxAttrDef *def,
                   gpointer          attrs,
                   const gint64     *values,
                   gsize             n_values)
{
  RlxInts *member = MEMBER (def, attrs, RlxInts);
  /* An empty list is not the same as none. */
  gboolean same = member->fault == INTS_GOOD && member->n_values == n_values &&
                  (n_values == 0 ? member->is_set : memcmp (member->values, values, n_values * sizeof (gint64)) == 0);

  if (!same)
    rlx_ints_set (member, values, n_values);
  return !same;
}

/* Reset to the default of the table, which may be no list at all. */
gboolean
rlx_attr_reset_ints (const RlxAttrDef *def,
                     gpointer          attrs,
                     const RlxOp      *op)
{
  RlxInts *member = MEMBER (def, attrs, RlxInts);
  const RlxInts *initial = MEMBER_CONST (def, op->defaults, RlxInts);
  gboolean same = !member->is_set;

  if (!same)
    {
      rlx_ints_set (member, initial->values, initial->n_values);
      member->is_set = FALSE;
    }
  return !same;
}

void
rlx_attr_set_string (const RlxAttrDef *def,
                     gpointer          attrs,
                     const char       *value)
{
  char *copy = value != NULL ? g_strndup (value, RLX_MAX_ATTR_STRING + 1) : NULL;

  g_free (*MEMBER (def, attrs, char *));
  *MEMBER (def, attrs, char *) = copy;
}

/* ---- structs -------------------------------------------------------------------- */

gpointer
rlx_attrs_new (const RlxOp *op)
{
  return rlx_attrs_copy (op, NULL);
}

gpointer
rlx_attrs_copy (const RlxOp  *op,
                gconstpointer attrs)
{
  gpointer copy;

  /* never NULL, which stands for a failure */
  if (op->n_attrs == 0)
    return g_malloc0 (1);

  copy = g_memdup2 (attrs != NULL ? attrs : op->defaults, op->attrs_size);
  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];

      if (def->kind == RLX_ATTR_INTS)
        {
          RlxInts *ints = MEMBER (def, copy, RlxInts);

          ints->values = g_memdup2 (ints->values, ints->n_values * sizeof (gint64));
        }
      else if (def->kind == RLX_ATTR_STRING)
        *MEMBER (def, copy, char *) = g_strdup (*MEMBER (def, copy, char *));
    }

  return copy;
}

void
rlx_attrs_free (const RlxOp *op,
                gpointer     attrs)
{
  if (attrs == NULL)
    return;

  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];

      if (def->kind == RLX_ATTR_INTS)
        g_free ((gpointer) MEMBER (def, attrs, RlxInts)->values);
      else if (def->kind == RLX_ATTR_STRING)
        g_free (*MEMBER (def, attrs, char *));
    }
  g_free (attrs);
}

gboolean
rlx_attr_equal (const RlxAttrDef *def,
                gconstpointer     a,
                gconstpointer     b)
{
  const RlxInts *x, *y;

  switch (def->kind)
    {
    case RLX_ATTR_FLOAT:
      /* By bits: -0.0 is not 0.0, and a NaN equals itself. */
      return memcmp (MEMBER_CONST (def, a, double), MEMBER_CONST (def, b, double), sizeof (double)) == 0;

    case RLX_ATTR_INTS:
      x = rlx_attr_get_ints (def, a);
      y = rlx_attr_get_ints (def, b);
      /* For rules, an empty list is not always the same as no list. */
      if (x->n_values == 0 && y->n_values == 0)
        return x->is_set == y->is_set && x->fault == y->fault;
      return x->n_values == y->n_values &&
             memcmp (x->values, y->values, x->n_values * sizeof (gint64)) == 0;

    case RLX_ATTR_STRING:
      return g_strcmp0 (rlx_attr_get_string (def, a), rlx_attr_get_string (def, b)) == 0;

    case RLX_ATTR_BOOL:
      return !rlx_attr_get_int (def, a) == !rlx_attr_get_int (def, b);

    case RLX_ATTR_INT:
    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
    default:
      return rlx_attr_get_int (def, a) == rlx_attr_get_int (def, b);
    }
}

gboolean
rlx_attrs_equal (const RlxOp  *op,
                 gconstpointer a,
                 gconstpointer b)
{
  for (guint i = 0; i < op->n_attrs; i++)
    if (!rlx_attr_equal (&op->attrs[i], a, b))
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
rlx_attrs_hash (const RlxOp  *op,
                gconstpointer attrs)
{
  guint hash = g_str_hash (op->name);

  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];
      const RlxInts *ints;
      const char *string;
      guint64 bits;

      switch (def->kind)
        {
        case RLX_ATTR_FLOAT:
          memcpy (&bits, MEMBER_CONST (def, attrs, double), sizeof bits);
          hash = hash_mix (hash, bits);
          break;

        case RLX_ATTR_INTS:
          ints = rlx_attr_get_ints (def, attrs);
          hash = hash_mix (hash, ints->n_values);
          for (guint j = 0; j < ints->n_values; j++)
            hash = hash_mix (hash, (guint64) ints->values[j]);
          break;

        case RLX_ATTR_STRING:
          string = rlx_attr_get_string (def, attrs);
          hash = hash_mix (hash, string != NULL ? g_str_hash (string) : 0);
          break;

        case RLX_ATTR_BOOL:
          hash = hash_mix (hash, rlx_attr_get_int (def, attrs) != 0);
          break;

        case RLX_ATTR_INT:
        case RLX_ATTR_ENUM:
        case RLX_ATTR_DATA_TYPE:
        default:
          hash = hash_mix (hash, (guint64) rlx_attr_get_int (def, attrs));
          break;
        }
    }

  return hash;
}

gboolean
rlx_attr_is_default (const RlxOp      *op,
                     const RlxAttrDef *def,
                     gconstpointer     attrs)
{
  return !def->required && rlx_attr_equal (def, attrs, op->defaults);
}

gboolean
rlx_call_check_attrs (const RlxOpCall *call,
                      GError         **error)
{
  for (guint i = 0; i < call->op->n_attrs; i++)
    {
      const RlxAttrDef *def = &call->op->attrs[i];
      const char *string;

      switch (def->kind)
        {
        case RLX_ATTR_FLOAT:
          if (isnan (rlx_attr_get_float (def, call->attrs)))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” is not a number", def->name);
          break;

        case RLX_ATTR_ENUM:
          if (rlx_attr_get_nick (def, call->attrs) == NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has the unknown value %" G_GINT64_FORMAT, def->name,
                                   rlx_attr_get_int (def, call->attrs));
          break;

        case RLX_ATTR_DATA_TYPE:
          if (!rlx_data_type_check ((RlxDataType) rlx_attr_get_int (def, call->attrs), NULL))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                                   "the attribute “%s” has the value %" G_GINT64_FORMAT ", which is not a data type", def->name,
                                   rlx_attr_get_int (def, call->attrs));
          break;

        case RLX_ATTR_INTS:
          if (rlx_attr_get_ints (def, call->attrs)->fault == INTS_TOO_MANY)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "the attribute “%s” has more values than the limit of %u", def->name, RLX_MAX_ATTR_INTS);
          if (rlx_attr_get_ints (def, call->attrs)->fault == INTS_NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has a number of values but no values", def->name);
          break;

        case RLX_ATTR_STRING:
          string = rlx_attr_get_string (def, call->attrs);
          if (string == NULL)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the attribute “%s” has no value", def->name);
          if (strlen (string) > RLX_MAX_ATTR_STRING)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "the attribute “%s” is longer than the limit of %u bytes", def->name, RLX_MAX_ATTR_STRING);
          if (!g_utf8_validate (string, -1, NULL))
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
                            gpointer          attrs,
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
                       "has %" G_GSIZE_FORMAT " values; the limit is %u", n, RLX_MAX_ATTR_INTS);

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

  rlx_ints_set (MEMBER (def, attrs, RlxInts), (const gint64 *) ints->data, n);

  return TRUE;
}

static gboolean
attr_set_name_from_variant (const RlxOp      *op,
                            const RlxAttrDef *def,
                            gpointer          attrs,
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

      rlx_attr_set_int (def, attrs, data_type);
      return TRUE;
    }

  enum_class = g_type_class_ref (def->enum_type ());
  enum_value = g_enum_get_value_by_nick (enum_class, name);
  if (enum_value != NULL)
    {
      rlx_attr_set_int (def, attrs, enum_value->value);
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
                       gpointer          attrs,
                       GVariant         *value,
                       GError          **error)
{
  gint64 element = 0;

  switch (def->kind)
    {
    case RLX_ATTR_BOOL:
      if (!g_variant_is_of_type (value, G_VARIANT_TYPE_BOOLEAN))
        return attr_wrong_type (op, def, value, error);
      rlx_attr_set_int (def, attrs, g_variant_get_boolean (value));
      return TRUE;

    case RLX_ATTR_FLOAT:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
        rlx_attr_set_float (def, attrs, g_variant_get_double (value));
      else if (variant_get_any_int (value, &element) == INT_FOUND)
        rlx_attr_set_float (def, attrs, (double) element);
      else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
        rlx_attr_set_float (def, attrs, (double) g_variant_get_uint64 (value));
      else
        return attr_wrong_type (op, def, value, error);
      return TRUE;

    case RLX_ATTR_INT:
      switch (variant_get_any_int (value, &element))
        {
        case INT_FOUND:
          rlx_attr_set_int (def, attrs, element);
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
      return attr_set_name_from_variant (op, def, attrs, value, error);

    case RLX_ATTR_INTS:
      return attr_set_ints_from_variant (op, def, attrs, value, error);

    case RLX_ATTR_STRING:
      if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
        return attr_wrong_type (op, def, value, error);
      rlx_attr_set_string (def, attrs, g_variant_get_string (value, NULL));
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

gpointer
rlx_attrs_new_from_variant (const RlxOp *op,
                            GVariant    *attributes,
                            GError     **error)
{
  gpointer attrs = rlx_attrs_new (op);
  g_autofree gboolean *given = g_new0 (gboolean, op->n_attrs + 1);

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

          if (given[index])
            {
              attr_error (op, &op->attrs[index], error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "is given twice");
              goto failed;
            }

          if (!attr_set_from_variant (op, &op->attrs[index], attrs, value, error))
            goto failed;
          given[index] = TRUE;
        }
    }

  for (guint i = 0; i < op->n_attrs; i++)
    {
      if (op->attrs[i].required && !given[i])
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
rlx_attr_get_nick (const RlxAttrDef *def,
                   gconstpointer     attrs)
{
  g_autoptr(GEnumClass) enum_class = NULL;
  const GEnumValue *enum_value;

  if (def->kind == RLX_ATTR_DATA_TYPE)
    return rlx_data_type_to_string ((RlxDataType) rlx_attr_get_int (def, attrs));

  /* The names are static, and stay when the class goes. */
  enum_class = g_type_class_ref (def->enum_type ());
  enum_value = g_enum_get_value (enum_class, (int) rlx_attr_get_int (def, attrs));

  return enum_value != NULL ? enum_value->value_nick : NULL;
}

GVariant *
rlx_attrs_to_variant (const RlxOp  *op,
                      gconstpointer attrs)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);

  for (guint i = 0; i < op->n_attrs; i++)
    {
      const RlxAttrDef *def = &op->attrs[i];
      const RlxInts *ints;
      const char *text;
      GVariant *value = NULL;

      switch (def->kind)
        {
        case RLX_ATTR_BOOL:
          value = g_variant_new_boolean (rlx_attr_get_int (def, attrs) != 0);
          break;

        case RLX_ATTR_INT:
          value = g_variant_new_int64 (rlx_attr_get_int (def, attrs));
          break;

        case RLX_ATTR_FLOAT:
          value = g_variant_new_double (rlx_attr_get_float (def, attrs));
          break;

        case RLX_ATTR_ENUM:
        case RLX_ATTR_DATA_TYPE:
          text = rlx_attr_get_nick (def, attrs);
          value = text != NULL ? g_variant_new_string (text) : NULL;
          break;

        case RLX_ATTR_INTS:
          /* No list is not the same as an empty one: leave it out. */
          ints = rlx_attr_get_ints (def, attrs);
          if (ints->is_set || ints->n_values > 0)
            value = g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, ints->values, ints->n_values, sizeof (gint64));
          break;

        case RLX_ATTR_STRING:
          text = rlx_attr_get_string (def, attrs);
          value = text != NULL ? g_variant_new_string (text) : NULL;
          break;

        default:
          g_return_val_if_reached (NULL);
        }

      if (value != NULL)
        g_variant_builder_add (&builder, "{sv}", def->name, value);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
