/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The text form of a graph. A file is lines; one that starts with # after any
 * space is a comment, and so is the rest of a line from a # outside a string.
 *
 *   text       = "rlx" "1" line*
 *   line       = node | "output" string value | "assign" value value | "precision" ("full" | "reduced" | "integer")
 *   node       = value ("," value)* "=" (leaf | call) [string]
 *   leaf       = ("input" | "parameter") string type
 *              | "constant" type data | "state" string type data
 *   call       = word "(" [operand ("," operand)*] ")" ["{" [attr ("," attr)*] "}"]
 *   operand    = value | "_"
 *   attr       = word "=" (number | word | string | "[" [number ("," number)*] "]")
 *   type       = word "[" [number ("," number)*] "]"
 *   data       = "[" [element ("," element)*] "]" | "base64:" string
 *   value      = "%" digits
 *   string     = as in JSON, on one line and without NUL
 *
 * The precision is there once at most. The string at the end of a node is its label: constants and calls only.
 * Numbers of values are free, as long as each is used once; a written graph
 * counts from 0. Data in base64 is in little-endian byte order.
 */
#include "config.h"

#include "ir/rlx-ir-lexer-private.h"
#include "ir/rlx-ir-private.h"

#include "ir/rlx-op-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

#include <math.h>
#include <string.h>

/* More elements than this are written in base64. */
#define MAX_LISTED 64

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void
append_string (GString    *text,
               const char *string)
{
  g_string_append_c (text, '"');

  for (const char *p = string; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (c == '"' || c == '\\')
        g_string_append_printf (text, "\\%c", (char) c);
      else if (c == '\n')
        g_string_append (text, "\\n");
      else if (c == '\t')
        g_string_append (text, "\\t");
      else if (c == '\r')
        g_string_append (text, "\\r");
      else if (g_unichar_isprint (c))
        g_string_append_unichar (text, c);
      else if (c < 0x10000)
        /* Also characters that change the direction of the text around them. */
        g_string_append_printf (text, "\\u%04x", c);
      else
        g_string_append_printf (text, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
    }

  g_string_append_c (text, '"');
}

void
rlx_ir_append_double (GString *text,
                      double   value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  const char *const formats[] = { "%.15g", "%.16g", "%.17g" };

  if (isnan (value))
    {
      g_string_append (text, "nan");
      return;
    }
  if (isinf (value))
    {
      g_string_append (text, value < 0 ? "-inf" : "inf");
      return;
    }

  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    {
      g_ascii_formatd (buffer, sizeof buffer, formats[i], value);
      if (g_ascii_strtod (buffer, NULL) == value)
        break;
    }

  g_string_append (text, buffer);
}

static void
append_ints (GString      *text,
             const gint64 *values,
             guint         n_values)
{
  g_autofree char *list = rlx_shape_to_string (values, n_values);

  g_string_append (text, list);
}

static void
append_attrs (GString         *text,
              const RlxIrNode *node)
{
  const char *separator = " {";

  for (guint i = 0; i < node->op->n_attrs; i++)
    {
      const RlxAttrDef *def = &node->op->attrs[i];
      const RlxInts *ints;
      const char *value;

      if (rlx_attr_is_default (node->op, def, node->attrs))
        continue;

      g_string_append_printf (text, "%s%s = ", separator, def->name);
      separator = ", ";

      switch (def->kind)
        {
        case RLX_ATTR_BOOL:
          g_string_append (text, rlx_attr_get_int (def, node->attrs) ? "true" : "false");
          break;

        case RLX_ATTR_INT:
          g_string_append_printf (text, "%" G_GINT64_FORMAT, rlx_attr_get_int (def, node->attrs));
          break;

        case RLX_ATTR_FLOAT:
          rlx_ir_append_double (text, rlx_attr_get_float (def, node->attrs));
          break;

        case RLX_ATTR_ENUM:
        case RLX_ATTR_DATA_TYPE:
          value = rlx_attr_get_nick (def, node->attrs);
          g_string_append (text, value != NULL ? value : "invalid");
          break;

        case RLX_ATTR_INTS:
          ints = rlx_attr_get_ints (def, node->attrs);
          append_ints (text, ints->values, ints->n_values);
          break;

        case RLX_ATTR_STRING:
          value = rlx_attr_get_string (def, node->attrs);
          append_string (text, value != NULL ? value : "");
          break;

        default:
          g_return_if_reached ();
        }
    }

  if (separator[0] == ',')
    g_string_append_c (text, '}');
}

void
rlx_ir_append_call (GString         *text,
                    const RlxIrNode *node)
{
  g_string_append (text, node->op->name);

  if ((node->op->flags & RLX_OP_LEAF) == 0)
    {
      guint n = node->n_inputs;

      while (n > 0 && node->inputs[n - 1] == NULL)
        n--;
      g_string_append_c (text, '(');
      for (guint i = 0; i < n; i++)
        {
          if (i > 0)
            g_string_append (text, ", ");
          if (node->inputs[i] != NULL)
            g_string_append_printf (text, "%%%u", node->inputs[i]->id);
          else
            g_string_append_c (text, '_');
        }
      g_string_append_c (text, ')');
      append_attrs (text, node);
    }

  if (node->name != NULL)
    {
      g_string_append_c (text, ' ');
      append_string (text, node->name);
    }
}

char *
rlx_ir_value_describe (const RlxIrValue *value)
{
  g_autofree char *quoted = NULL;

  if (value->node->name == NULL)
    return g_strdup_printf ("%%%u", value->id);

  quoted = rlx_quote_text (value->node->name, -1);

  return g_strdup_printf ("%%%u %s", value->id, quoted);
}

/* Whether decimal numbers preserve all bits: there is only one "nan". */
static gboolean
can_be_listed (RlxTensor *tensor)
{
  gsize n = (gsize) rlx_tensor_get_n_elements (tensor);
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  gconstpointer data = rlx_tensor_peek_data (tensor);

  if (n > MAX_LISTED)
    return FALSE;

  for (gsize i = 0; i < n; i++)
    {
      if (data_type == RLX_DATA_TYPE_F32)
        {
          guint32 bits = ((const guint32 *) data)[i];

          if ((bits & 0x7fffffffu) > 0x7f800000u && bits != RLX_IR_NAN_F32)
            return FALSE;
        }
      else if (data_type == RLX_DATA_TYPE_F16)
        {
          guint16 bits = ((const guint16 *) data)[i];

          if ((bits & 0x7fffu) > 0x7c00u && bits != RLX_IR_NAN_F16)
            return FALSE;
        }
      else if (rlx_data_type_is_narrow (data_type) && isnan (rlx_element_get_double (data_type, data, i)))
        {
          return FALSE;
        }
    }

  return TRUE;
}

void
rlx_ir_swap_bytes (RlxDataType data_type,
                   guint8     *data,
                   gsize       size)
{
#if G_BYTE_ORDER != G_LITTLE_ENDIAN
  gsize width = rlx_data_type_get_size (data_type);

  /* 0 for elements that share bytes */
  for (gsize i = 0; width > 1 && i < size; i += width)
    for (gsize j = 0; j < width / 2; j++)
      {
        guint8 byte = data[i + j];

        data[i + j] = data[i + width - 1 - j];
        data[i + width - 1 - j] = byte;
      }
#else
  (void) data_type;
  (void) data;
  (void) size;
#endif
}

static void
append_base64 (GString   *text,
               RlxTensor *tensor)
{
  const guint8 *data = rlx_tensor_peek_data (tensor);
  gsize size = rlx_tensor_get_size (tensor);
  g_autofree guint8 *swapped = NULL;

  if (G_BYTE_ORDER != G_LITTLE_ENDIAN)
    {
      swapped = g_memdup2 (data, size);
      rlx_ir_swap_bytes (rlx_tensor_get_data_type (tensor), swapped, size);
      data = swapped;
    }

  g_string_append (text, "base64:\"");
  for (gsize i = 0; i < size; i += 3)
    {
      gsize n = MIN (size - i, 3);
      guint32 bits = (guint32) data[i] << 16 | (n > 1 ? (guint32) data[i + 1] << 8 : 0) | (n > 2 ? data[i + 2] : 0);
      const char group[] = {
        base64_digits[bits >> 18],
        base64_digits[bits >> 12 & 63],
        n > 1 ? base64_digits[bits >> 6 & 63] : '=',
        n > 2 ? base64_digits[bits & 63] : '=',
      };

      g_string_append_len (text, group, sizeof group);
    }
  g_string_append_c (text, '"');
}

static void
append_data (GString   *text,
             RlxTensor *tensor)
{
  gsize n = (gsize) rlx_tensor_get_n_elements (tensor);
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  gconstpointer data = rlx_tensor_peek_data (tensor);

  if (!can_be_listed (tensor))
    {
      append_base64 (text, tensor);
      return;
    }

  g_string_append_c (text, '[');
  for (gsize i = 0; i < n; i++)
    {
      if (i > 0)
        g_string_append (text, ", ");
      rlx_element_append (text, data_type, data, i);
    }
  g_string_append_c (text, ']');
}

static void
append_node (GString         *text,
             const RlxIrNode *node)
{
  for (guint i = 0; i < node->n_outputs; i++)
    g_string_append_printf (text, "%s%%%u", i > 0 ? ", " : "", node->outputs[i].id);
  g_string_append (text, " = ");

  if (node->op->flags & RLX_OP_LEAF)
    {
      g_autofree char *type = rlx_type_to_string (&node->outputs[0].type);
      gboolean is_constant = node->op == &rlx_op_constant;

      g_string_append (text, node->op->name);
      g_string_append_c (text, ' ');
      if (!is_constant)
        {
          append_string (text, node->name);
          g_string_append_c (text, ' ');
        }
      g_string_append (text, type);
      if (node->data != NULL)
        {
          g_string_append_c (text, ' ');
          append_data (text, node->data);
        }
      if (is_constant && node->name != NULL)
        {
          g_string_append_c (text, ' ');
          append_string (text, node->name);
        }
    }
  else
    rlx_ir_append_call (text, node);

  g_string_append_c (text, '\n');
}

char *
rlx_ir_to_text (const RlxIr *ir)
{
  GString *text = g_string_new ("rlx 1\n");

  if (ir->precision != RLX_PRECISION_FULL)
    g_string_append_printf (text, "precision %s\n", ir->precision == RLX_PRECISION_REDUCED ? "reduced" : "integer");
  for (guint i = 0; i < ir->nodes->len; i++)
    append_node (text, g_ptr_array_index (ir->nodes, i));

  for (guint i = 0; i < ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (ir->outputs, RlxIrOutput, i);

      g_string_append (text, "output ");
      append_string (text, output->name);
      g_string_append_printf (text, " %%%u\n", output->value->id);
    }

  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      g_string_append_printf (text, "assign %%%u %%%u\n", assign->state->id, assign->value->id);
    }

  return g_string_free (text, FALSE);
}
