/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "case.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* No case needs more for a single tensor; a wrong shape must not exhaust the machine. */
#define MAX_TENSOR_BYTES ((guint64) 1 << 30)

G_DEFINE_QUARK (conformance-error-quark, conformance_error)

static gboolean malformed (GError    **error,
                           const char *format,
                           ...) G_GNUC_PRINTF (2, 3);

static gboolean
malformed (GError    **error,
           const char *format,
           ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_MALFORMED, message);
  return FALSE;
}

/* ---- text ------------------------------------------------------------------ */

/* JsonParser reads integers as 64-bit ones (longer ones saturate, -0 loses its sign) and
 * ends strings at a NUL, which names in the files may contain. Both are rewritten
 * beforehand: such numbers as floats, NUL as its visible symbol. */
static char *
prepare_text (const char *text,
              gsize       length,
              gsize      *out_length)
{
  GString *out = g_string_sized_new (length + 64);
  gsize i = 0;

  while (i < length)
    {
      char c = text[i];

      if (c == '"')
        {
          gsize start = i++;

          while (i < length && text[i] != '"')
            {
              if (text[i] == '\\' && i + 1 < length)
                {
                  if (length - i >= 6 && strncmp (text + i, "\\u0000", 6) == 0)
                    {
                      g_string_append_len (out, text + start, i - start);
                      g_string_append (out, "\\u2400");
                      i += 6;
                      start = i;
                      continue;
                    }
                  i++;
                }
              i++;
            }
          if (i < length)
            i++;
          g_string_append_len (out, text + start, i - start);
        }
      else if (c == '-' || g_ascii_isdigit (c))
        {
          gsize start = i;
          gboolean whole = TRUE;

          for (i++; i < length; i++)
            {
              if (text[i] == '.' || text[i] == 'e' || text[i] == 'E')
                whole = FALSE;
              else if (!g_ascii_isdigit (text[i]) && text[i] != '+' && text[i] != '-')
                break;
            }
          g_string_append_len (out, text + start, i - start);
          if (whole && (i - start > 18 || (i - start == 2 && strncmp (text + start, "-0", 2) == 0)))
            g_string_append (out, ".0");
        }
      else
        {
          g_string_append_c (out, c);
          i++;
        }
    }

  *out_length = out->len;
  return g_string_free_and_steal (out);
}

/* ---- numbers ---------------------------------------------------------------- */

gboolean
case_number_is_string (JsonNode *node)
{
  const char *text;

  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    return FALSE;
  text = json_node_get_string (node);
  if (*text == '-')
    text++;
  return g_ascii_isdigit (*text);
}

gboolean
case_number_to_double (JsonNode *node,
                       double   *value)
{
  GType type;

  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node))
    return FALSE;

  type = json_node_get_value_type (node);
  if (type == G_TYPE_INT64 || type == G_TYPE_DOUBLE)
    {
      *value = json_node_get_double (node);
      return TRUE;
    }
  if (type == G_TYPE_BOOLEAN)
    {
      *value = json_node_get_boolean (node) ? 1 : 0;
      return TRUE;
    }
  if (type == G_TYPE_STRING)
    {
      const char *text = json_node_get_string (node);
      char *end;

      if (g_str_equal (text, "NaN"))
        *value = NAN;
      else if (g_str_equal (text, "Infinity"))
        *value = INFINITY;
      else if (g_str_equal (text, "-Infinity"))
        *value = -INFINITY;
      else if (case_number_is_string (node))
        {
          *value = g_ascii_strtod (text, &end);
          return *end == '\0';
        }
      else
        return FALSE;
      return TRUE;
    }
  return FALSE;
}

gboolean
case_number_to_int (JsonNode *node,
                    gint64   *value)
{
  double number;

  if (case_number_is_string (node))
    {
      const char *text = json_node_get_string (node);
      char *end;

      errno = 0;
      *value = g_ascii_strtoll (text, &end, 10);
      return errno == 0 && *end == '\0';
    }
  if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64)
    {
      *value = json_node_get_int (node);
      return TRUE;
    }
  if (!case_number_to_double (node, &number) ||
      !(number >= -9223372036854775808.0 && number < 9223372036854775808.0) ||
      number != floor (number))
    return FALSE;
  *value = (gint64) number;
  return TRUE;
}

static gboolean
number_to_uint (JsonNode *node,
                guint64  *value)
{
  gint64 number;

  if (case_number_is_string (node) && json_node_get_string (node)[0] != '-')
    {
      char *end;

      errno = 0;
      *value = g_ascii_strtoull (json_node_get_string (node), &end, 10);
      return errno == 0 && *end == '\0';
    }
  if (!case_number_to_int (node, &number) || number < 0)
    return FALSE;
  *value = (guint64) number;
  return TRUE;
}

gboolean
case_data_type_from_string (const char  *name,
                            RlxDataType *data_type)
{
  /* GPUs have no usable 64-bit floats. Tolerances are as wide as for 32 bits, so such
   * cases still check the semantics of an operator. */
  if (g_str_equal (name, "f64"))
    name = "f32";
  /* There are no cases for storage-only types. */
  return rlx_data_type_from_string (name, data_type, NULL) && *data_type <= RLX_DATA_TYPE_U4;
}

/* ---- tensors ---------------------------------------------------------------- */

void
case_tensor_free (CaseTensor *self)
{
  g_free (self->name);
  g_free (self->dtype);
  g_free (self->shape);
  g_free (self);
}

gboolean
case_tensor_has_data (const CaseTensor *self)
{
  return self->data != NULL || self->fill != NULL || self->base64 != NULL;
}

char *
case_tensor_describe (const CaseTensor *self)
{
  GString *out = g_string_new (self->dtype);

  g_string_append_c (out, '[');
  for (guint i = 0; i < self->n_dims; i++)
    g_string_append_printf (out, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", self->shape[i]);
  g_string_append_c (out, ']');
  return g_string_free_and_steal (out);
}

static gboolean
get_flag (JsonObject *object,
          const char *member,
          gboolean   *value,
          GError    **error)
{
  JsonNode *node = json_object_get_member (object, member);

  *value = FALSE;
  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    return malformed (error, "“%s” is not a boolean", member);
  *value = json_node_get_boolean (node);
  return TRUE;
}

static const char *
get_string (JsonObject *object,
            const char *member,
            gboolean    optional,
            GError    **error)
{
  JsonNode *node = json_object_get_member (object, member);

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    {
      if (!optional)
        malformed (error, "there is no “%s”", member);
      return NULL;
    }
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    {
      malformed (error, "“%s” is not a string", member);
      return NULL;
    }
  return json_node_get_string (node);
}

/* The number of elements, or an error if it overflows a size. */
static gboolean
count_elements (const CaseTensor *self,
                guint64          *count)
{
  guint64 n = 1;

  *count = 0;
  for (guint i = 0; i < self->n_dims; i++)
    if (self->shape[i] == 0)
      return TRUE;
  for (guint i = 0; i < self->n_dims; i++)
    if (!g_uint64_checked_mul (&n, n, (guint64) self->shape[i]))
      return FALSE;
  *count = n;
  return TRUE;
}

/* Flattens the pairs in the data of @object into a list of numbers. */
static gboolean
flatten_pairs (JsonObject *object)
{
  JsonNode *member = json_object_get_member (object, "data");
  g_autoptr(JsonArray) flat = json_array_new ();
  JsonArray *pairs;

  if (member == NULL || !JSON_NODE_HOLDS_ARRAY (member))
    return FALSE;
  pairs = json_node_get_array (member);
  for (guint i = 0; i < json_array_get_length (pairs); i++)
    {
      JsonNode *pair = json_array_get_element (pairs, i);

      if (!JSON_NODE_HOLDS_ARRAY (pair) || json_array_get_length (json_node_get_array (pair)) != 2)
        return FALSE;
      for (guint j = 0; j < 2; j++)
        json_array_add_element (flat, json_node_copy (json_array_get_element (json_node_get_array (pair), j)));
    }
  json_object_set_array_member (object, "data", g_steal_pointer (&flat));
  return TRUE;
}

CaseTensor *
case_tensor_parse (const char *name,
                   JsonNode   *node,
                   GError    **error)
{
  g_autoptr(CaseTensor) self = g_new0 (CaseTensor, 1);
  JsonObject *object;
  JsonNode *member;
  JsonArray *shape;
  const char *dtype;
  GError *local = NULL;
  guint64 count;

  self->name = g_strdup (name);
  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      malformed (error, "tensor “%s” is not an object", name);
      return NULL;
    }
  object = json_node_get_object (node);

  dtype = get_string (object, "dtype", FALSE, error);
  if (dtype == NULL)
    {
      g_prefix_error (error, "tensor “%s”: ", name);
      return NULL;
    }
  self->dtype = g_strdup (dtype);
  self->known = case_data_type_from_string (dtype, &self->data_type);

  member = json_object_get_member (object, "shape");
  if (member == NULL || !JSON_NODE_HOLDS_ARRAY (member))
    {
      malformed (error, "tensor “%s” has no shape", name);
      return NULL;
    }
  shape = json_node_get_array (member);
  self->n_dims = json_array_get_length (shape);
  self->shape = g_new0 (gint64, self->n_dims + 2);
  for (guint i = 0; i < self->n_dims; i++)
    if (!case_number_to_int (json_array_get_element (shape, i), &self->shape[i]) || self->shape[i] < 0)
      {
        malformed (error, "tensor “%s”: dimension %u is not a size", name, i);
        return NULL;
      }

  /* complex numbers are pairs */
  if (g_str_equal (dtype, "c64"))
    {
      if (!flatten_pairs (object))
        {
          malformed (error, "tensor “%s”: the data is not a list of pairs", name);
          return NULL;
        }
      self->known = TRUE;
      self->data_type = RLX_DATA_TYPE_F32;
      self->shape[self->n_dims++] = 2;
    }

  if (!get_flag (object, "constant", &self->constant, &local) ||
      !get_flag (object, "param", &self->param, &local) ||
      !get_flag (object, "foreign_graph", &self->foreign_graph, &local))
    {
      g_propagate_prefixed_error (error, local, "tensor “%s”: ", name);
      return NULL;
    }

  member = json_object_get_member (object, "data");
  if (member != NULL && !JSON_NODE_HOLDS_NULL (member))
    {
      if (!JSON_NODE_HOLDS_ARRAY (member))
        {
          malformed (error, "tensor “%s”: the data is not a list", name);
          return NULL;
        }
      self->data = json_node_get_array (member);
      if (!count_elements (self, &count) || count != json_array_get_length (self->data))
        {
          g_autofree char *text = case_tensor_describe (self);

          malformed (error, "tensor “%s” is %s, but has %u elements", name, text,
                     json_array_get_length (self->data));
          return NULL;
        }
      return g_steal_pointer (&self);
    }

  self->fill = json_object_get_member (object, "fill");
  if (self->fill != NULL)
    return g_steal_pointer (&self);

  self->base64 = get_string (object, "b64", TRUE, &local);
  if (local != NULL)
    {
      g_propagate_prefixed_error (error, local, "tensor “%s”: ", name);
      return NULL;
    }
  return g_steal_pointer (&self);
}

/* @bytes must be zeroed: 4-bit elements share them. */
static gboolean
store (const CaseTensor *self,
       JsonNode         *node,
       guint8           *bytes,
       guint64           index)
{
  guint8 *out = bytes + index * rlx_data_type_get_bits (self->data_type) / 8;
  double number;
  float single;
  guint16 half;
  gint64 integer;
  guint64 large;

  switch (self->data_type)
    {
    case RLX_DATA_TYPE_F32:
      if (!case_number_to_double (node, &number))
        return FALSE;
      single = (float) number;
      memcpy (out, &single, 4);
      return TRUE;
    case RLX_DATA_TYPE_F16:
      if (!case_number_to_double (node, &number))
        return FALSE;
      half = half_from_double (number);
      memcpy (out, &half, 2);
      return TRUE;
    case RLX_DATA_TYPE_U64:
      if (!number_to_uint (node, &large))
        return FALSE;
      memcpy (out, &large, 8);
      return TRUE;
    default:
      if (!case_number_to_int (node, &integer))
        return FALSE;
      break;
    }

  /* narrow ones wrap: some suites fill JavaScript typed arrays with larger numbers */

  switch (rlx_data_type_get_size (self->data_type))
    {
    case 0:
      *out |= (guint8) ((integer & 0xf) << (index % 2 * 4));
      break;
    case 1:
      *out = (guint8) integer;
      break;
    case 4:
      {
        guint32 narrow = (guint32) integer;

        memcpy (out, &narrow, 4);
        break;
      }
    default:
      memcpy (out, &integer, 8);
      break;
    }
  return TRUE;
}

GBytes *
case_tensor_to_bytes (const CaseTensor *self,
                      gsize             limit,
                      GError          **error)
{
  g_autofree guint8 *bytes = NULL;
  g_autofree char *text = case_tensor_describe (self);
  guint64 count, n_bytes;

  if (!self->known)
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED, "data type %s", self->dtype);
      return NULL;
    }

  if (!count_elements (self, &count) || count > MAX_TENSOR_BYTES)
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED, "a tensor %s", text);
      return NULL;
    }
  if (limit > 0 && count > limit)
    count = limit;
  n_bytes = (count * rlx_data_type_get_bits (self->data_type) + 7) / 8;
  if (n_bytes > MAX_TENSOR_BYTES)
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED, "a tensor %s", text);
      return NULL;
    }

  if (self->base64 != NULL)
    {
      gsize length = 0;
      g_autofree guint8 *decoded = g_base64_decode (self->base64, &length);

      if (length < n_bytes)
        {
          malformed (error, "tensor “%s” is %s, but has %" G_GSIZE_FORMAT " bytes", self->name, text, length);
          return NULL;
        }
      return g_bytes_new (decoded, n_bytes);
    }

  bytes = g_malloc0 (MAX (n_bytes, 1));
  if (self->data != NULL)
    {
      for (guint64 i = 0; i < count; i++)
        if (!store (self, json_array_get_element (self->data, (guint) i), bytes, i))
          {
            malformed (error, "tensor “%s”: element %" G_GUINT64_FORMAT " is not a value of %s",
                       self->name, i, self->dtype);
            return NULL;
          }
    }
  else if (self->fill != NULL && count > 0)
    {
      for (guint64 i = 0; i < count; i++)
        if (!store (self, self->fill, bytes, i))
          {
            malformed (error, "tensor “%s”: the fill is not a value of %s", self->name, self->dtype);
            return NULL;
          }
    }
  return g_bytes_new_take (g_steal_pointer (&bytes), n_bytes);
}

RlxTensor *
case_tensor_to_rlx (const CaseTensor *self,
                    GError          **error)
{
  g_autoptr(GBytes) bytes = case_tensor_to_bytes (self, 0, error);

  if (bytes == NULL)
    return NULL;
  return rlx_tensor_new_from_bytes (self->data_type, self->shape, self->n_dims, bytes, error);
}

gint64 *
case_tensor_to_ints (const CaseTensor *self,
                     gsize            *n_values,
                     GError          **error)
{
  g_autofree gint64 *values = NULL;
  guint64 count;

  *n_values = 0;
  if (!count_elements (self, &count) || count > G_MAXUINT16 || self->base64 != NULL ||
      (!case_tensor_has_data (self) && count > 0))
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED,
                   "an argument that is the tensor “%s”", self->name);
      return NULL;
    }
  values = g_new0 (gint64, count + 1);
  for (guint64 i = 0; i < count; i++)
    if (!case_number_to_int (self->data != NULL ? json_array_get_element (self->data, (guint) i) : self->fill,
                             &values[i]))
      {
        malformed (error, "tensor “%s”: element %" G_GUINT64_FORMAT " is not an integer", self->name, i);
        return NULL;
      }
  *n_values = count;
  return g_steal_pointer (&values);
}

/* ---- cases ------------------------------------------------------------------- */

static void
case_op_free (gpointer data)
{
  CaseOp *self = data;

  g_free (self->name);
  g_free (self->domain);
  g_strfreev (self->outputs);
  g_free (self);
}

static void
case_free (gpointer data)
{
  Case *self = data;

  g_free (self->id);
  g_free (self->suite);
  g_free (self->op);
  g_free (self->name);
  g_free (self->quirk);
  g_ptr_array_unref (self->inputs);
  g_ptr_array_unref (self->ops);
  g_ptr_array_unref (self->outputs);
  g_free (self);
}

static Case *
case_new (void)
{
  Case *self = g_new0 (Case, 1);

  self->inputs = g_ptr_array_new_with_free_func ((GDestroyNotify) case_tensor_free);
  self->ops = g_ptr_array_new_with_free_func (case_op_free);
  self->outputs = g_ptr_array_new_with_free_func ((GDestroyNotify) case_tensor_free);
  self->opset = G_MAXINT;
  return self;
}

const CaseTensor *
case_find_input (const Case *self,
                 const char *name)
{
  for (guint i = 0; i < self->inputs->len; i++)
    {
      const CaseTensor *tensor = g_ptr_array_index (self->inputs, i);

      if (g_str_equal (tensor->name, name))
        return tensor;
    }
  return NULL;
}

static Family
family_of_suite (const char *suite)
{
  if (g_str_has_prefix (suite, "webnn"))
    return FAMILY_WEBNN;
  if (g_str_equal (suite, "ref"))
    return FAMILY_REF;
  if (g_str_equal (suite, "gguf"))
    return FAMILY_GGUF;
  return FAMILY_ONNX;
}

static gboolean
parse_tensors (JsonObject *object,
               const char *member,
               gboolean    optional,
               GPtrArray  *out,
               GError    **error)
{
  JsonNode *node = json_object_get_member (object, member);
  g_autoptr(GList) names = NULL;

  if (node == NULL && optional)
    return TRUE;
  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    return malformed (error, "“%s” is not an object", member);
  names = json_object_get_members (json_node_get_object (node));
  for (GList *l = names; l != NULL; l = l->next)
    {
      CaseTensor *tensor = case_tensor_parse (l->data,
                                              json_object_get_member (json_node_get_object (node), l->data),
                                              error);

      if (tensor == NULL)
        return FALSE;
      g_ptr_array_add (out, tensor);
    }
  return TRUE;
}

static gboolean
parse_op (JsonNode  *node,
          GPtrArray *out,
          GError   **error)
{
  CaseOp *op = g_new0 (CaseOp, 1);
  GError *local = NULL;
  JsonObject *object;
  JsonNode *member;
  JsonArray *names;

  g_ptr_array_add (out, op);
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return malformed (error, "an operator is not an object");
  object = json_node_get_object (node);

  op->name = g_strdup (get_string (object, "name", FALSE, error));
  if (op->name == NULL)
    return FALSE;
  op->domain = g_strdup (get_string (object, "domain", TRUE, &local));
  if (local != NULL)
    {
      g_propagate_error (error, local);
      return FALSE;
    }

  member = json_object_get_member (object, "args");
  if (member == NULL || !JSON_NODE_HOLDS_OBJECT (member))
    return malformed (error, "operator %s has no arguments", op->name);
  op->args = json_node_get_object (member);

  member = json_object_get_member (object, "outputs");
  if (member == NULL || !JSON_NODE_HOLDS_ARRAY (member))
    return malformed (error, "operator %s has no outputs", op->name);
  names = json_node_get_array (member);
  op->outputs = g_new0 (char *, json_array_get_length (names) + 1);
  for (guint i = 0; i < json_array_get_length (names); i++)
    {
      JsonNode *name = json_array_get_element (names, i);

      if (!JSON_NODE_HOLDS_VALUE (name) || json_node_get_value_type (name) != G_TYPE_STRING)
        return malformed (error, "operator %s: output %u has no name", op->name, i);
      op->outputs[i] = json_node_dup_string (name);
    }
  return TRUE;
}

static gboolean
parse_tolerance (JsonObject *object,
                 Tolerance  *out,
                 GError    **error)
{
  JsonNode *node = json_object_get_member (object, "tolerance");
  JsonObject *tolerance;
  const char *kind;

  /* exact */
  *out = (Tolerance) { .kind = TOLERANCE_ULP };
  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return malformed (error, "the tolerance is not an object");
  tolerance = json_node_get_object (node);
  kind = get_string (tolerance, "kind", FALSE, error);
  if (kind == NULL)
    return FALSE;

  if (g_str_equal (kind, "rtol_atol"))
    {
      out->kind = TOLERANCE_RTOL_ATOL;
      if (!case_number_to_double (json_object_get_member (tolerance, "rtol"), &out->rtol) ||
          !case_number_to_double (json_object_get_member (tolerance, "atol"), &out->atol))
        return malformed (error, "the tolerance has no “rtol” and “atol”");
      return TRUE;
    }
  if (g_str_equal (kind, "atol"))
    out->kind = TOLERANCE_ATOL;
  else if (!g_str_equal (kind, "ulp"))
    return malformed (error, "the tolerance is of an unknown kind, “%s”", kind);
  if (!case_number_to_double (json_object_get_member (tolerance, "value"), &out->value))
    return malformed (error, "the tolerance has no value");
  return TRUE;
}

static gboolean
parse_case (JsonNode   *node,
            const char *suite,
            const char *op,
            GPtrArray  *out,
            GError    **error)
{
  Case *self = case_new ();
  JsonObject *object;
  JsonNode *member;
  JsonArray *ops;
  const char *text;
  gint64 opset;
  GError *local = NULL;

  g_ptr_array_add (out, self);
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return malformed (error, "a case is not an object");
  object = json_node_get_object (node);

  self->id = g_strdup (get_string (object, "id", FALSE, error));
  if (self->id == NULL)
    return FALSE;

  text = get_string (object, "suite", TRUE, &local);
  self->suite = g_strdup (text != NULL ? text : suite);
  if (local == NULL)
    {
      text = get_string (object, "op", TRUE, &local);
      self->op = g_strdup (text != NULL ? text : op);
    }
  if (local == NULL)
    self->name = g_strdup (get_string (object, "name", TRUE, &local));
  if (local == NULL)
    self->quirk = g_strdup (get_string (object, "quirk", TRUE, &local));
  if (local == NULL)
    {
      text = get_string (object, "expect", TRUE, &local);
      if (g_strcmp0 (text, "error") == 0)
        self->expect = EXPECT_ERROR;
      else if (g_strcmp0 (text, "ok") == 0)
        self->expect = EXPECT_SHAPES;
      else if (text != NULL)
        malformed (&local, "“expect” is “%s”", text);
    }
  if (local == NULL && (self->suite == NULL || self->op == NULL))
    malformed (&local, "it names no suite or no operator");
  if (local == NULL)
    {
      self->family = family_of_suite (self->suite);
      member = json_object_get_member (object, "opset");
      if (member != NULL && !JSON_NODE_HOLDS_NULL (member))
        {
          if (case_number_to_int (member, &opset) && opset > 0 && opset < G_MAXINT)
            self->opset = (int) opset;
          else
            malformed (&local, "the opset is not a version");
        }
    }

  if (local == NULL &&
      parse_tensors (object, "inputs", FALSE, self->inputs, &local) &&
      parse_tensors (object, "outputs", self->expect == EXPECT_ERROR, self->outputs, &local) &&
      parse_tolerance (object, &self->tolerance, &local))
    {
      member = json_object_get_member (object, "ops");
      if (member == NULL || !JSON_NODE_HOLDS_ARRAY (member))
        malformed (&local, "it has no list of operators");
      else
        {
          ops = json_node_get_array (member);
          for (guint i = 0; i < json_array_get_length (ops) && local == NULL; i++)
            parse_op (json_array_get_element (ops, i), self->ops, &local);
        }
    }

  if (local != NULL)
    {
      g_propagate_prefixed_error (error, local, "case %s: ", self->id);
      return FALSE;
    }
  return TRUE;
}

/* A file of packed weights is a single case. */
static gboolean
parse_gguf (JsonObject *root,
            GPtrArray  *out,
            GError    **error)
{
  const char *type = get_string (root, "type", FALSE, error);
  Case *self;

  if (type == NULL)
    return FALSE;
  self = case_new ();
  g_ptr_array_add (out, self);
  self->family = FAMILY_GGUF;
  self->suite = g_strdup ("gguf");
  self->op = g_strdup (type);
  self->id = g_strdup_printf ("gguf/%s", type);
  self->name = g_strdup (type);
  return parse_tensors (root, "tensors", FALSE, self->inputs, error);
}

void
case_file_free (CaseFile *self)
{
  g_ptr_array_unref (self->cases);
  g_ptr_array_unref (self->problems);
  g_clear_object (&self->parser);
  g_free (self);
}

CaseFile *
case_file_parse (const char *label,
                 const char *text,
                 gsize       length,
                 GError    **error)
{
  g_autoptr(CaseFile) self = g_new0 (CaseFile, 1);
  g_autofree char *prepared = NULL;
  GError *local = NULL;
  JsonNode *node;
  JsonObject *root;
  const char *suite = NULL;
  const char *op = NULL;

  self->cases = g_ptr_array_new_with_free_func (case_free);
  self->problems = g_ptr_array_new_with_free_func (g_free);
  self->parser = json_parser_new_immutable ();
  prepared = prepare_text (text, length, &length);
  if (!json_parser_load_from_data (self->parser, prepared, (gssize) length, &local))
    {
      g_propagate_prefixed_error (error, local, "%s: ", label);
      return NULL;
    }

  node = json_parser_get_root (self->parser);
  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    {
      malformed (error, "%s: not an object", label);
      return NULL;
    }
  root = json_node_get_object (node);

  node = json_object_get_member (root, "cases");
  if (node == NULL && json_object_has_member (root, "tensors"))
    parse_gguf (root, self->cases, &local);
  else if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    malformed (&local, "there is no list of cases");
  else
    {
      suite = get_string (root, "suite", TRUE, &local);
      if (local == NULL)
        op = get_string (root, "op", TRUE, &local);
      for (guint i = 0; local == NULL && i < json_array_get_length (json_node_get_array (node)); i++)
        {
          g_autoptr(GError) problem = NULL;

          if (!parse_case (json_array_get_element (json_node_get_array (node), i), suite, op, self->cases, &problem))
            {
              g_ptr_array_add (self->problems, g_strdup_printf ("%s: %s", label, problem->message));
              g_ptr_array_set_size (self->cases, (int) self->cases->len - 1);
            }
        }
    }

  if (local != NULL)
    {
      g_propagate_prefixed_error (error, local, "%s: ", label);
      return NULL;
    }
  return g_steal_pointer (&self);
}

CaseFile *
case_file_load (const char *path,
                GError    **error)
{
  g_autofree char *text = NULL;
  gsize length;

  if (!g_file_get_contents (path, &text, &length, error))
    return NULL;
  return case_file_parse (path, text, length, error);
}
