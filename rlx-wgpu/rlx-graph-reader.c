/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The reader of the text form; ir/rlx-ir-text.c says what that is. It takes
 * nothing on trust: it does not recurse, and memory follows the length of the
 * text, never a number in it.
 */
#include "config.h"

#include "rlx-graph-private.h"

#include "ir/rlx-ir-lexer-private.h"
#include "ir/rlx-op-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"
#include "util/rlx-half-private.h"
#include "util/rlx-narrow-private.h"

#include <math.h>
#include <string.h>

#define MAX_LABEL_LENGTH 255
#define PRECISIONS "\"full\", \"reduced\" or \"integer\""
#define LINE_STARTS "a line that starts with %, \"output\", \"assign\" or \"precision\""

typedef struct
{
  RlxLexer lexer;
  RlxGraph *graph;
  GHashTable *values;   /* number in the text → RlxNode */
  gboolean has_precision;
} Reader;

/* "[1, 2]" */
static GArray *
read_ints (Reader  *reader,
           GError **error)
{
  g_autoptr(GArray) ints = g_array_new (FALSE, FALSE, sizeof (gint64));
  gboolean first = TRUE, more;

  if (!rlx_lexer_read_char (&reader->lexer, '[', error))
    return NULL;

  for (;;)
    {
      RlxLexerNumber number;

      if (!rlx_lexer_read_next (&reader->lexer, ']', &first, &more, error))
        return NULL;
      if (!more)
        return g_steal_pointer (&ints);

      if (!rlx_lexer_read_number (&reader->lexer, &number, "an integer", error))
        return NULL;
      if (number.kind != RLX_LEXER_SIGNED)
        {
          rlx_lexer_error (&reader->lexer, number.start, error, "not an integer of 64 bits");
          return NULL;
        }
      if (ints->len >= RLX_MAX_ATTR_INTS)
        {
          rlx_lexer_error (&reader->lexer, number.start, error, "a list of more than %u integers", RLX_MAX_ATTR_INTS);
          return NULL;
        }
      g_array_append_val (ints, number.i);
    }
}

/* Errors of the graph's methods keep their code, and get their position added. */
static gboolean
statement_error (Reader  *reader,
                 GError  *failure,
                 GError **error)
{
  g_propagate_prefixed_error (error, failure, "line %u: ", reader->lexer.line);

  return FALSE;
}

static gboolean
read_value_number (Reader  *reader,
                   guint   *number,
                   GError **error)
{
  const char *start;
  guint64 n = 0;

  rlx_lexer_skip_space (&reader->lexer);
  start = reader->lexer.p;
  if (*reader->lexer.p != '%' || !g_ascii_isdigit (reader->lexer.p[1]))
    return rlx_lexer_expected (&reader->lexer, "a value such as %0", error);

  for (reader->lexer.p++; g_ascii_isdigit (*reader->lexer.p); reader->lexer.p++)
    {
      n = n * 10 + (guint64) (*reader->lexer.p - '0');
      if (n > G_MAXUINT32)
        return rlx_lexer_error (&reader->lexer, start, error, "the number of a value is beyond the limit of %u", G_MAXUINT32);
    }

  *number = (guint) n;

  return TRUE;
}

static RlxNode *
read_value (Reader  *reader,
            GError **error)
{
  const char *start;
  RlxNode *node;
  guint number;

  rlx_lexer_skip_space (&reader->lexer);
  start = reader->lexer.p;
  if (!read_value_number (reader, &number, error))
    return NULL;

  node = g_hash_table_lookup (reader->values, GUINT_TO_POINTER (number));
  if (node == NULL)
    rlx_lexer_error (&reader->lexer, start, error, "there is no value %%%u before this line", number);

  return node;
}

static gboolean
read_type (Reader       *reader,
           RlxDataType  *data_type,
           GArray      **shape,
           GError      **error)
{
  g_autofree char *word = NULL;
  const char *start;

  rlx_lexer_skip_space (&reader->lexer);
  start = reader->lexer.p;
  word = rlx_lexer_read_word (&reader->lexer, "a type such as f32[2, 3]", error);
  if (word == NULL)
    return FALSE;

  if (!rlx_data_type_from_string (word, data_type, NULL))
    {
      g_autofree char *quoted = rlx_quote_text (word, -1);

      return rlx_lexer_error (&reader->lexer, start, error, "%s is not a data type", quoted);
    }

  *shape = read_ints (reader, error);

  return *shape != NULL;
}

static gboolean
store_element (Reader                *reader,
               RlxDataType            data_type,
               guint8                *data,
               gsize                  index,
               const RlxLexerNumber  *number,
               GError               **error)
{
  const char *name = rlx_data_type_to_string (data_type);
  gint64 min;
  guint64 max;

  if (number->overflow && rlx_data_type_loads_float (data_type))
    return rlx_lexer_error (&reader->lexer, number->start, error, "the number is outside the range of %s", name);

  if (rlx_data_type_is_narrow (data_type) && number->kind != RLX_LEXER_BOOL)
    {
      if (!rlx_narrow_fits (data_type, number->f))
        return rlx_lexer_error (&reader->lexer, number->start, error, "the number is outside the range of %s", name);
      rlx_element_set_narrow (data_type, data, index, number->f);
      return TRUE;
    }
  switch ((int) data_type)
    {
    case RLX_DATA_TYPE_F32:
      if (number->kind == RLX_LEXER_BOOL)
        break;
      if (isnan (number->f))
        ((guint32 *) data)[index] = RLX_IR_NAN_F32;
      else
        ((float *) data)[index] = (float) number->f;
      if (isinf (((float *) data)[index]) && !isinf (number->f))
        return rlx_lexer_error (&reader->lexer, number->start, error, "the number is outside the range of %s", name);
      return TRUE;

    case RLX_DATA_TYPE_F16:
      if (number->kind == RLX_LEXER_BOOL)
        break;
      ((guint16 *) data)[index] = isnan (number->f) ? RLX_IR_NAN_F16 : rlx_half_from_double (number->f);
      if (isfinite (number->f) && (((guint16 *) data)[index] & 0x7fff) == 0x7c00)
        return rlx_lexer_error (&reader->lexer, number->start, error, "the number is outside the range of %s", name);
      return TRUE;

    case RLX_DATA_TYPE_BOOL:
      if (number->kind != RLX_LEXER_BOOL)
        break;
      data[index] = number->f != 0;
      return TRUE;

    default:
      if (number->kind != RLX_LEXER_SIGNED && number->kind != RLX_LEXER_UNSIGNED)
        break;
      rlx_element_get_int_range (data_type, &min, &max);
      if (number->kind == RLX_LEXER_SIGNED ? number->i < min || (number->i > 0 && (guint64) number->i > max) : number->u > max)
        return rlx_lexer_error (&reader->lexer, number->start, error, "the number is outside the range of %s", name);
      if (number->kind == RLX_LEXER_UNSIGNED)
        ((guint64 *) data)[index] = number->u;
      else
        rlx_element_set_int (data_type, data, index, number->i);
      return TRUE;
    }

  return rlx_lexer_error (&reader->lexer, number->start, error, "not an element of type %s", name);
}

/* "[1, 2, 3]" */
static gboolean
read_list_data (Reader      *reader,
                RlxDataType  data_type,
                guint64      n_elements,
                guint8      *data,
                GError     **error)
{
  gboolean first = TRUE, more;

  if (!rlx_lexer_read_char (&reader->lexer, '[', error))
    return FALSE;

  for (guint64 i = 0;; i++)
    {
      RlxLexerNumber number;

      if (!rlx_lexer_read_next (&reader->lexer, ']', &first, &more, error))
        return FALSE;
      if (more && i >= n_elements)
        return rlx_lexer_error (&reader->lexer, reader->lexer.p, error, "more elements than the %" G_GUINT64_FORMAT " of the shape", n_elements);
      if (!more && i < n_elements)
        return rlx_lexer_error (&reader->lexer, reader->lexer.p, error, "%" G_GUINT64_FORMAT " elements, the shape has %" G_GUINT64_FORMAT, i, n_elements);
      if (!more)
        return TRUE;

      if (!rlx_lexer_read_number (&reader->lexer, &number, "an element", error) ||
          !store_element (reader, data_type, data, (gsize) i, &number, error))
        return FALSE;
    }
}

static int
base64_value (char c)
{
  if (c >= 'A' && c <= 'Z')
    return c - 'A';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 26;
  if (c >= '0' && c <= '9')
    return c - '0' + 52;
  if (c == '+')
    return 62;
  if (c == '/')
    return 63;

  return -1;
}

/* @size bytes from the string at the reader, whose length fits. */
static gboolean
read_base64_data (Reader  *reader,
                  guint8  *data,
                  gsize    size,
                  GError **error)
{
  for (gsize i = 0; i < size; i += 3)
    {
      gsize n = MIN (size - i, 3);
      guint32 bits = 0;

      for (gsize j = 0; j < 4; j++)
        {
          int value = base64_value (reader->lexer.p[j]);

          if (j > n)
            value = reader->lexer.p[j] == '=' ? 0 : -1;
          if (value < 0)
            return rlx_lexer_error (&reader->lexer, reader->lexer.p + j, error, "not valid base64 here");
          bits = bits << 6 | (guint32) value;
        }

      /* Unused bits must be 0, so that no two texts have the same meaning. */
      if ((n == 1 && (bits & 0xffff) != 0) || (n == 2 && (bits & 0xff) != 0))
        return rlx_lexer_error (&reader->lexer, reader->lexer.p, error, "not valid base64 here");

      for (gsize j = 0; j < n; j++)
        data[i + j] = (guint8) (bits >> (16 - 8 * j));
      reader->lexer.p += 4;
    }

  return TRUE;
}

static RlxTensor *
read_tensor (Reader  *reader,
             GError **error)
{
  g_autoptr(GArray) shape = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autofree guint8 *data = NULL;
  const gint64 *dims;
  RlxTensor *tensor;
  RlxDataType data_type;
  GError *failure = NULL;
  guint64 n_elements;
  gsize size;

  if (!read_type (reader, &data_type, &shape, error))
    return NULL;

  dims = (const gint64 *) shape->data;
  if (!rlx_shape_n_bytes (data_type, dims, shape->len, &n_elements, &size, &failure))
    {
      statement_error (reader, failure, error);
      return NULL;
    }

  rlx_lexer_skip_space (&reader->lexer);
  if (g_str_has_prefix (reader->lexer.p, "base64:\""))
    {
      const char *start = reader->lexer.p;
      guint64 wanted = ((guint64) size + 2) / 3 * 4;
      gsize length;

      reader->lexer.p += strlen ("base64:\"");
      length = strcspn (reader->lexer.p, "\"\n");
      if (length != wanted || reader->lexer.p[length] != '"')
        {
          rlx_lexer_error (&reader->lexer, start, error,
                           "base64 of %" G_GSIZE_FORMAT " characters where the shape needs %" G_GUINT64_FORMAT, length, wanted);
          return NULL;
        }

      data = rlx_try_alloc (size, error);
      if (data == NULL || !read_base64_data (reader, data, size, error))
        return NULL;
      reader->lexer.p++;
      rlx_ir_swap_bytes (data_type, data, size);
    }
  else
    {
      /* Before memory is taken: an element and its comma or bracket are at least
       * two characters of the line. */
      if (n_elements > strcspn (reader->lexer.p, "\n") / 2)
        {
          rlx_lexer_error (&reader->lexer, reader->lexer.p, error, "fewer elements than the %" G_GUINT64_FORMAT " of the shape", n_elements);
          return NULL;
        }

      data = rlx_try_alloc (size, error);
      if (data == NULL || !read_list_data (reader, data_type, n_elements, data, error))
        return NULL;
    }

  bytes = g_bytes_new_take (g_steal_pointer (&data), size);
  tensor = rlx_tensor_new_from_bytes (data_type, dims, shape->len, bytes, &failure);
  if (tensor == NULL)
    statement_error (reader, failure, error);

  return tensor;
}

static gboolean
read_attr_value (Reader          *reader,
                 const char      *name,
                 GVariantBuilder *builder,
                 GError         **error)
{
  g_autofree char *word = NULL;
  RlxLexerNumber number;
  GVariant *value = NULL;
  const char *start;
  gsize n;

  rlx_lexer_skip_space (&reader->lexer);
  start = reader->lexer.p;

  if (*start == '[')
    {
      g_autoptr(GArray) ints = read_ints (reader, error);

      if (ints == NULL)
        return FALSE;
      value = g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, ints->data, ints->len, sizeof (gint64));
    }
  else if (*start == '"')
    {
      word = rlx_lexer_read_string (&reader->lexer, "a value", error);
      if (word == NULL)
        return FALSE;
      value = g_variant_new_string (word);
    }
  else if ((n = rlx_lexer_word_length (start)) > 0 &&
           !(n == 3 && (strncmp (start, "nan", 3) == 0 || strncmp (start, "inf", 3) == 0)) &&
           !(n == 4 && strncmp (start, "true", 4) == 0) &&
           !(n == 5 && strncmp (start, "false", 5) == 0))
    {
      word = rlx_lexer_read_word (&reader->lexer, "a value", error);
      value = g_variant_new_string (word);
    }
  else
    {
      if (!rlx_lexer_read_number (&reader->lexer, &number, "the value of an attribute", error))
        return FALSE;
      if (number.overflow)
        return rlx_lexer_error (&reader->lexer, number.start, error, "the number is outside the range of f64");

      switch (number.kind)
        {
        case RLX_LEXER_SIGNED:
          value = g_variant_new_int64 (number.i);
          break;
        case RLX_LEXER_UNSIGNED:
          value = g_variant_new_uint64 (number.u);
          break;
        case RLX_LEXER_BOOL:
          value = g_variant_new_boolean (number.f != 0);
          break;
        case RLX_LEXER_FLOAT:
        default:
          value = g_variant_new_double (number.f);
          break;
        }
    }

  g_variant_builder_add (builder, "{sv}", name, value);

  return TRUE;
}

/* "{a = 1, b = [2]}", or nothing. */
static gboolean
read_attrs (Reader          *reader,
            GVariantBuilder *builder,
            GError         **error)
{
  gboolean first = TRUE, more;

  if (!rlx_lexer_accept (&reader->lexer, '{'))
    return TRUE;

  for (;;)
    {
      g_autofree char *name = NULL;

      if (!rlx_lexer_read_next (&reader->lexer, '}', &first, &more, error))
        return FALSE;
      if (!more)
        return TRUE;

      name = rlx_lexer_read_word (&reader->lexer, "the name of an attribute", error);
      if (name == NULL ||
          !rlx_lexer_read_char (&reader->lexer, '=', error) ||
          !read_attr_value (reader, name, builder, error))
        return FALSE;
    }
}

/* "(%0, _)" */
static gboolean
read_operands (Reader    *reader,
               GPtrArray *operands,
               GError   **error)
{
  gboolean first = TRUE, more;

  if (!rlx_lexer_read_char (&reader->lexer, '(', error))
    return FALSE;

  for (;;)
    {
      RlxNode *node = NULL;

      if (!rlx_lexer_read_next (&reader->lexer, ')', &first, &more, error))
        return FALSE;
      if (!more)
        return TRUE;

      if (!rlx_lexer_accept (&reader->lexer, '_'))
        {
          node = read_value (reader, error);
          if (node == NULL)
            return FALSE;
        }
      g_ptr_array_add (operands, node);
    }
}

static RlxNode **
read_call (Reader      *reader,
           const char  *op,
           gsize       *n_outputs,
           GError     **error)
{
  g_autoptr(GPtrArray) operands = g_ptr_array_new ();
  g_auto(GVariantBuilder) builder;
  GError *failure = NULL;
  RlxNode **nodes;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);

  if (!read_operands (reader, operands, error) ||
      !read_attrs (reader, &builder, error))
    return NULL;

  nodes = rlx_graph_add_op (reader->graph, op, (RlxNode **) operands->pdata, operands->len,
                            g_variant_builder_end (&builder), n_outputs, &failure);
  if (nodes == NULL)
    {
      /* The only failure without an error is a missing operand. */
      if (failure == NULL)
        rlx_graph_check (reader->graph, &failure);
      statement_error (reader, failure, error);
    }

  return nodes;
}

static RlxNode *
read_leaf (Reader      *reader,
           const char  *op,
           GError     **error)
{
  g_autofree char *name = NULL;
  g_autoptr(GArray) shape = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  GError *failure = NULL;
  RlxNode *node;
  RlxDataType data_type;

  if (strcmp (op, "constant") != 0)
    {
      name = rlx_lexer_read_string (&reader->lexer, "a name in quotes", error);
      if (name == NULL)
        return NULL;
    }

  if (strcmp (op, "input") == 0 || strcmp (op, "parameter") == 0)
    {
      if (!read_type (reader, &data_type, &shape, error))
        return NULL;

      if (op[0] == 'i')
        node = rlx_graph_input (reader->graph, name, data_type, (const gint64 *) shape->data, shape->len, &failure);
      else
        node = rlx_graph_parameter (reader->graph, name, data_type, (const gint64 *) shape->data, shape->len, &failure);
    }
  else
    {
      tensor = read_tensor (reader, error);
      if (tensor == NULL)
        return NULL;

      if (name != NULL)
        node = rlx_graph_state (reader->graph, name, tensor, &failure);
      else
        node = rlx_graph_constant (reader->graph, tensor, &failure);
    }

  if (node == NULL)
    statement_error (reader, failure, error);

  return node;
}

static gboolean
read_node (Reader  *reader,
           GError **error)
{
  g_autoptr(GArray) numbers = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree RlxNode **nodes = NULL;
  g_autofree char *op = NULL;
  const char *start = reader->lexer.p;
  const RlxOp *row;
  gsize n_nodes = 0;

  do
    {
      guint number;

      if (!read_value_number (reader, &number, error))
        return FALSE;
      if (g_hash_table_contains (reader->values, GUINT_TO_POINTER (number)))
        return rlx_lexer_error (&reader->lexer, start, error, "there is a value %%%u already", number);
      g_array_append_val (numbers, number);
    }
  while (rlx_lexer_accept (&reader->lexer, ','));

  if (!rlx_lexer_read_char (&reader->lexer, '=', error))
    return FALSE;

  op = rlx_lexer_read_word (&reader->lexer, "the name of an operator", error);
  if (op == NULL)
    return FALSE;

  row = rlx_op_lookup (op);
  if (row != NULL && (row->flags & RLX_OP_LEAF) != 0)
    {
      RlxNode *leaf = read_leaf (reader, op, error);

      if (leaf == NULL)
        return FALSE;
      nodes = g_new0 (RlxNode *, 1);
      nodes[n_nodes++] = leaf;
    }
  else
    {
      nodes = read_call (reader, op, &n_nodes, error);
      if (nodes == NULL)
        return FALSE;
    }

  if (n_nodes != numbers->len)
    return rlx_lexer_error (&reader->lexer, start, error, "%u values on the left, the operator has %" G_GSIZE_FORMAT " results",
                            numbers->len, n_nodes);

  for (gsize i = 0; i < n_nodes; i++)
    if (!g_hash_table_insert (reader->values, GUINT_TO_POINTER (g_array_index (numbers, guint, i)), nodes[i]))
      return rlx_lexer_error (&reader->lexer, start, error, "the value %%%u is defined twice", g_array_index (numbers, guint, i));

  if (!rlx_lexer_at_line_end (&reader->lexer) && *reader->lexer.p == '"')
    {
      g_autofree char *label = NULL;
      const char *label_start = reader->lexer.p;

      if (row != NULL && (row->flags & RLX_OP_LEAF) != 0 && row != &rlx_op_constant)
        return rlx_lexer_expected (&reader->lexer, "the end of the line", error);

      label = rlx_lexer_read_string (&reader->lexer, "a label", error);
      if (label == NULL)
        return FALSE;
      if (label[0] == '\0' || strlen (label) > MAX_LABEL_LENGTH)
        return rlx_lexer_error (&reader->lexer, label_start, error, "a label of %" G_GSIZE_FORMAT " bytes; it can have 1 to %d",
                                strlen (label), MAX_LABEL_LENGTH);
      rlx_node_set_name (nodes[0], label);
    }

  return TRUE;
}

static gboolean
read_output (Reader  *reader,
             GError **error)
{
  g_autofree char *name = rlx_lexer_read_string (&reader->lexer, "a name in quotes", error);
  GError *failure = NULL;
  RlxNode *node;

  if (name == NULL)
    return FALSE;

  node = read_value (reader, error);
  if (node == NULL)
    return FALSE;

  if (!rlx_graph_output (reader->graph, name, node, &failure))
    return statement_error (reader, failure, error);

  return TRUE;
}

static gboolean
read_assign (Reader  *reader,
             GError **error)
{
  RlxNode *state, *value;
  GError *failure = NULL;

  state = read_value (reader, error);
  if (state == NULL)
    return FALSE;

  value = read_value (reader, error);
  if (value == NULL)
    return FALSE;

  if (!rlx_graph_assign (reader->graph, state, value, &failure))
    return statement_error (reader, failure, error);

  return TRUE;
}

static gboolean
read_precision (Reader  *reader,
                GError **error)
{
  const char *start;
  g_autofree char *word = NULL;

  if (reader->has_precision)
    return rlx_lexer_error (&reader->lexer, reader->lexer.p, error, "the precision is given twice");
  reader->has_precision = TRUE;

  word = rlx_lexer_read_word (&reader->lexer, PRECISIONS, error);
  if (word == NULL)
    return FALSE;
  start = reader->lexer.p - strlen (word);
  if (strcmp (word, "full") != 0 && strcmp (word, "reduced") != 0 && strcmp (word, "integer") != 0)
    {
      reader->lexer.p = start;
      return rlx_lexer_expected (&reader->lexer, PRECISIONS, error);
    }

  rlx_graph_set_default_precision (reader->graph, word[0] == 'f' ? RLX_PRECISION_FULL : word[0] == 'r' ? RLX_PRECISION_REDUCED : RLX_PRECISION_INTEGER);
  return TRUE;
}

static gboolean
read_header (Reader  *reader,
             GError **error)
{
  RlxLexerNumber version;

  if (!rlx_lexer_next_line (&reader->lexer) || rlx_lexer_word_length (reader->lexer.p) != 3 || strncmp (reader->lexer.p, "rlx", 3) != 0)
    return rlx_lexer_expected (&reader->lexer, "the first line, \"rlx 1\",", error);
  reader->lexer.p += 3;

  if (!rlx_lexer_read_number (&reader->lexer, &version, "the version of the format", error))
    return FALSE;
  if (version.kind != RLX_LEXER_SIGNED || version.i != 1)
    return rlx_lexer_error (&reader->lexer, version.start, error, "only version 1 of the format is known");

  return rlx_lexer_at_line_end (&reader->lexer) || rlx_lexer_expected (&reader->lexer, "the end of the line", error);
}

gboolean
rlx_graph_read_text (RlxGraph    *self,
                     const char  *text,
                     GError     **error)
{
  g_autoptr(GHashTable) values = g_hash_table_new (NULL, NULL);
  Reader reader = { .lexer = { .p = text, .line_start = text, .line = 1 }, .graph = self, .values = values };
  const char *end;

  if (!g_utf8_validate (text, -1, &end))
    {
      for (const char *p = text; p < end; p++)
        if (*p == '\n')
          {
            reader.lexer.line++;
            reader.lexer.line_start = p + 1;
          }
      return rlx_lexer_error (&reader.lexer, end, error, "the text is not valid UTF-8");
    }

  if (!read_header (&reader, error))
    return FALSE;

  while (rlx_lexer_next_line (&reader.lexer))
    {
      gboolean good;

      if (*reader.lexer.p == '%')
        good = read_node (&reader, error);
      else
        {
          g_autofree char *word = rlx_lexer_read_word (&reader.lexer, LINE_STARTS, error);

          if (word == NULL)
            return FALSE;
          if (strcmp (word, "output") == 0)
            good = read_output (&reader, error);
          else if (strcmp (word, "assign") == 0)
            good = read_assign (&reader, error);
          else if (strcmp (word, "precision") == 0)
            good = read_precision (&reader, error);
          else
            {
              reader.lexer.p -= strlen (word);
              good = rlx_lexer_expected (&reader.lexer, LINE_STARTS, error);
            }
        }

      if (!good)
        return FALSE;

      if (!rlx_lexer_at_line_end (&reader.lexer))
        return rlx_lexer_expected (&reader.lexer, "the end of the line", error);
    }

  return TRUE;
}
