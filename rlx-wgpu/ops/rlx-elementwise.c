/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Element-wise operators: their shape rules, and the generator that turns a
 * region of them into one kernel with full broadcasting.
 */
#include "config.h"

#include "ops/rlx-fused-private.h"

#include <math.h>

#include "ops/rlx-step-private.h"
#include "util/rlx-wgsl-library-private.h"

#define WORKGROUP_SIZE 64

/* ---- rules ------------------------------------------------------------------ */

gboolean
rlx_elementwise_infer (RlxOpCall *call,
                       GError   **error)
{
  RlxTensorType type = *call->inputs[0];

  for (guint i = 1; i < call->n_inputs; i++)
    {
      RlxTensorType joined = type;

      if (!rlx_shape_broadcast (&type, call->inputs[i], &joined))
        {
          g_autofree char *a = rlx_type_to_string (&type);
          g_autofree char *b = rlx_type_to_string (call->inputs[i]);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s and %s do not broadcast together", a, b);
        }
      type = joined;
    }

  type.data_type = call->op->flags & RLX_OP_BOOL_RESULT ? RLX_DATA_TYPE_BOOL : call->inputs[call->n_inputs - 1]->data_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_cast_infer (RlxOpCall          *call,
                const RlxCastAttrs *attrs,
                GError            **error)
{
  RlxTensorType type = *call->inputs[0];

  type.data_type = attrs->to;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_clamp_infer (RlxOpCall           *call,
                 const RlxClampAttrs *attrs,
                 GError             **error)
{
  double minimum = attrs->minimum;
  double maximum = attrs->maximum;

  if (minimum > maximum)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "minimum %g is greater than maximum %g", minimum, maximum);
  return rlx_elementwise_infer (call, error);
}

gboolean
rlx_celu_infer (RlxOpCall          *call,
                const RlxCeluAttrs *attrs,
                GError            **error)
{
  if (attrs->alpha == 0.0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "alpha is 0");
  return rlx_elementwise_infer (call, error);
}

/* ---- regions -------------------------------------------------------------------- */

static void
clear_instruction (gpointer data)
{
  RlxInstruction *instruction = data;

  rlx_attrs_free (instruction->op, instruction->attrs);
}

RlxFused *
rlx_fused_new (void)
{
  RlxFused *fused = g_new0 (RlxFused, 1);

  fused->operands = g_array_new (FALSE, TRUE, sizeof (RlxOperand));
  fused->instructions = g_array_new (FALSE, TRUE, sizeof (RlxInstruction));
  g_array_set_clear_func (fused->instructions, clear_instruction);
  return fused;
}

void
rlx_fused_free (gpointer data)
{
  RlxFused *fused = data;

  g_array_unref (fused->operands);
  g_array_unref (fused->instructions);
  g_clear_pointer (&fused->results, g_array_unref);
  g_free (fused);
}

gboolean
rlx_operand_is_plain (const RlxOperand    *operand,
                      const RlxTensorType *type)
{
  gint64 plain[RLX_MAX_DIMS];

  rlx_type_get_strides (type, plain);
  for (guint d = 0; d < type->n_dims; d++)
    if (type->shape[d] > 1 && operand->strides[d] != plain[d])
      return FALSE;
  return operand->offset == 0;
}

gboolean
rlx_fused_reads_one (const RlxFused      *self,
                     guint                input,
                     const RlxTensorType *type)
{
  if (rlx_type_n_elements (type) == 1)
    return TRUE;
  for (guint i = 0; i < self->operands->len; i++)
    {
      const RlxOperand *operand = &g_array_index (self->operands, RlxOperand, i);

      for (guint d = 0; operand->input == input && d < RLX_MAX_DIMS; d++)
        if (operand->strides[d] != 0)
          return FALSE;
    }
  return TRUE;
}

/* The shape that a region loops over; neighbouring dimensions are merged if every operand steps through both at
 * once. */
typedef struct
{
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
  gint64 (*strides)[RLX_MAX_DIMS];   /* of each operand */
} Loop;

static void
collapse (Loop                *loop,
          const RlxTensorType *type,
          const RlxFused      *fused)
{
  guint n = fused->operands->len;

  loop->n_dims = 0;
  for (guint d = 0; d < type->n_dims; d++)
    {
      gboolean join = loop->n_dims > 0;

      if (type->shape[d] == 1)
        continue;
      for (guint i = 0; join && i < n; i++)
        {
          const RlxOperand *operand = &g_array_index (fused->operands, RlxOperand, i);
          join = loop->strides[i][loop->n_dims - 1] == operand->strides[d] * type->shape[d];
        }
      if (join)
        loop->shape[loop->n_dims - 1] *= type->shape[d];
      else
        loop->shape[loop->n_dims++] = type->shape[d];
      for (guint i = 0; i < n; i++)
        loop->strides[i][loop->n_dims - 1] = g_array_index (fused->operands, RlxOperand, i).strides[d];
    }
}

static gboolean
is_contiguous (const Loop       *loop,
               const RlxOperand *operand,
               guint             index)
{
  return operand->offset == 0 && (loop->n_dims == 0 || (loop->n_dims == 1 && loop->strides[index][0] == 1));
}

/* ---- text -------------------------------------------------------------------------- */

/* Which of the four classes of 32-bit values a type is computed with. */
static char
type_class (RlxDataType data_type)
{
  if (rlx_data_type_loads_float (data_type))
    return 'f';
  if (data_type == RLX_DATA_TYPE_BOOL)
    return 'b';
  return rlx_data_type_is_unsigned (data_type) ? 'u' : 'i';
}

static guint
type_bits (RlxDataType data_type)
{
  return rlx_data_type_get_bits (rlx_data_type_on_device (data_type));
}

static const char *
class_expression (const RlxOp *op,
                  RlxDataType  data_type)
{
  switch (type_class (data_type))
    {
    case 'f': return op->expr_f;
    case 'i': return op->expr_i;
    case 'u': return op->expr_u;
    default: return op->expr_b;
    }
}

/* A conversion of the 32-bit value @a. Integers wrap to fewer bits afterwards, as all such results do; floats
 * saturate first. */
static char *
cast_expression (const char *a,
                 RlxDataType from,
                 RlxDataType to)
{
  char source = type_class (from), target = type_class (to);

  if (source == target)
    return g_strdup (a);
  if (target == 'b')
    return g_strdup_printf (source == 'f' ? "!op_eq(%s, 0.0)" : source == 'i' ? "%s != 0" : "%s != 0u", a);
  if (source == 'b')
    return g_strdup_printf (target == 'f' ? "select(0.0, 1.0, %s)" : target == 'i' ? "select(0, 1, %s)" : "select(0u, 1u, %s)", a);
  if (target == 'f')
    return g_strdup_printf ("f32(%s)", a);
  if (source == 'f')
    {
      guint bits = type_bits (to);

      if (bits < 32)
        return target == 'i' ? g_strdup_printf ("cast_f_small_i(%s, %u.0)", a, 1u << (bits - 1))
                             : g_strdup_printf ("cast_f_small_u(%s, %u.0)", a, (1u << bits) - 1);
      return g_strdup_printf (target == 'i' ? "cast_f_i(%s)" : "cast_f_u(%s)", a);
    }
  return g_strdup_printf (target == 'i' ? "bitcast<i32>(%s)" : "bitcast<u32>(%s)", a);
}

static gint64
saturate (double value,
          gint64 low,
          gint64 high)
{
  return value <= (double) low ? low : value >= (double) high ? high : (gint64) value;
}

typedef struct
{
  char *name;
  RlxParamKind kind;
  double f;
  gint64 i;
} Scalar;

/* Adds a number to the parameters: its value never becomes text, so kernels that only
 * differ in numbers are the same. */
static char *
add_scalar (GArray      *scalars,
            char         class,
            double       f,
            gint64       i)
{
  Scalar scalar = { g_strdup_printf ("s%u", scalars->len), RLX_PARAM_F32, f, i };
  char *text;

  if (class == 'f')
    text = g_strdup_printf ("p.%s", scalar.name);
  else if (class == 'b')
    text = g_strdup_printf ("(p.%s != 0)", scalar.name);
  else
    text = g_strdup_printf ("p.%s", scalar.name);
  scalar.kind = class == 'f' ? RLX_PARAM_F32 : class == 'u' ? RLX_PARAM_U32 : RLX_PARAM_I32;
  g_array_append_val (scalars, scalar);
  return text;
}

static char *
attribute_text (GArray               *scalars,
                const RlxInstruction *instruction,
                guint                 index)
{
  const RlxAttrDef *def = &instruction->op->attrs[index];
  char class = type_class (instruction->operand_type);
  const RlxDataTypeInfo *info = rlx_data_type_get_info (rlx_data_type_get_info (instruction->operand_type)->on_device);
  double value;

  if (def->kind != RLX_ATTR_FLOAT)
    return add_scalar (scalars, 'i', 0, rlx_attr_get_int (def, instruction->attrs));
  value = rlx_attr_get_float (def, instruction->attrs);
  if (class == 'f')
    return add_scalar (scalars, 'f', value, 0);
  /* Kernels compute with 32 bits: values that the type cannot hold would wrap when stored. */
  return add_scalar (scalars, class, 0, saturate (value, info->min, (gint64) info->max));
}

/* Replaces a, b, c, the numbers of attributes and $bits in an operator's expression. */
static char *
expand_expression (const RlxInstruction *instruction,
                   const char           *expression,
                   char *const          *args,
                   GArray               *scalars)
{
  GString *out = g_string_new (NULL);

  for (const char *s = expression; *s != '\0';)
    {
      if (*s == '$')
        {
          const char *end = s + 1;

          while (g_ascii_isalnum (*end))
            end++;
          if (g_ascii_isdigit (s[1]))
            {
              g_autofree char *text = attribute_text (scalars, instruction, (guint) g_ascii_strtoull (s + 1, NULL, 10));

              g_string_append (out, text);
            }
          else
            g_string_append_printf (out, "%uu", type_bits (instruction->operand_type));
          s = end;
        }
      else if (g_ascii_isalpha (*s) || *s == '_')
        {
          const char *end = s;

          while (g_ascii_isalnum (*end) || *end == '_')
            end++;
          if (end - s == 1 && *s >= 'a' && *s < 'a' + (int) instruction->n_args)
            g_string_append (out, args[*s - 'a']);
          else
            g_string_append_len (out, s, end - s);
          s = end;
        }
      else if (g_ascii_isdigit (*s))
        {
          /* a number stays whole, including its suffix */
          while (g_ascii_isalnum (*s) || *s == '.')
            g_string_append_c (out, *s++);
        }
      else
        {
          g_string_append_c (out, *s++);
        }
    }
  return g_string_free (out, FALSE);
}

static const char *
class_type (char class)
{
  return class == 'f' ? "f32" : class == 'i' ? "i32" : class == 'u' ? "u32" : "bool";
}

/* A region while its kernel is generated. */
typedef struct
{
  const RlxFused *fused;
  const RlxIrNode *node;
  int result;             /* the operand that is passed as an argument, or -1 */
  Loop loop;
  gint64 *strides;
  gboolean *contiguous;   /* by operand */
  char **immediates;      /* by operand: its replacement, or NULL for a load */
  GArray *scalars;
  gboolean indexed;       /* some operand needs the index in each dimension */
  gboolean vectors;       /* contiguous floats are passed as arguments */
} Region;

/* Below this, there may be too few invocations for a GPU, which needs tens of thousands. */
#define MIN_VECTORS (1 << 14)

static gboolean
is_vector (const Region *region,
           guint         index)
{
  const RlxOperand *operand = &g_array_index (region->fused->operands, RlxOperand, index);

  return region->vectors && region->contiguous[index] && region->immediates[index] == NULL &&
         rlx_data_type_is_float (region->node->inputs[operand->input]->type.data_type);
}

static void
region_init (Region          *region,
             const RlxFused  *fused,
             const RlxIrNode *node,
             int              result)
{
  guint n = fused->operands->len;

  *region = (Region) {
    .fused = fused,
    .node = node,
    .result = result,
    .strides = g_new0 (gint64, (n + 1) * RLX_MAX_DIMS),
    .contiguous = g_new0 (gboolean, n + 1),
    .immediates = g_new0 (char *, n + 1),
    .scalars = g_array_new (FALSE, TRUE, sizeof (Scalar)),
  };
  region->loop.strides = (gint64 (*)[RLX_MAX_DIMS]) region->strides;
  collapse (&region->loop, &node->outputs[0].type, fused);

  for (guint i = 0; i < n; i++)
    {
      const RlxOperand *operand = &g_array_index (fused->operands, RlxOperand, i);
      const RlxIrValue *value;
      double number;
      gint64 integer;

      if ((int) i == result)
        {
          region->immediates[i] = g_strdup ("result");
          continue;
        }
      value = node->inputs[operand->input];
      region->contiguous[i] = is_contiguous (&region->loop, operand, i);
      if (rlx_ir_value_get_immediate (value, &number, &integer))
        region->immediates[i] = add_scalar (region->scalars, type_class (value->type.data_type), number, integer);
      else
        region->indexed |= !region->contiguous[i];
    }
}

static void
region_clear (Region *region)
{
  for (guint i = 0; i < region->fused->operands->len; i++)
    g_free (region->immediates[i]);
  for (guint i = 0; i < region->scalars->len; i++)
    g_free (g_array_index (region->scalars, Scalar, i).name);
  g_free (region->immediates);
  g_free (region->contiguous);
  g_free (region->strides);
  g_array_unref (region->scalars);
}

/* fn value (i: u32) -> T, the region's result for element i, with an argument for each
 * operand that is read in vectors, or fn epilogue (i: u32, result: f32) -> T. Several results are one struct. */
static void
region_write (Region  *region,
              GString *out)
{
  const RlxFused *fused = region->fused;
  const Loop *loop = &region->loop;

  if (fused->results != NULL)
    {
      g_string_append (out, "struct Results {");
      for (guint i = 0; i < fused->results->len; i++)
        g_string_append_printf (out, " r%u: f32,", i);
      g_string_append (out, " }\n");
    }
  g_string_append (out, region->result < 0 ? "fn value(i: u32" : "fn epilogue(i: u32, result: f32");
  for (guint i = 0; i < fused->operands->len; i++)
    if (is_vector (region, i))
      g_string_append_printf (out, ", x%u: f32", i);
  g_string_append_printf (out, ") -> %s {\n",
                          fused->results != NULL ? "Results" : class_type (type_class (region->node->outputs[0].type.data_type)));
  if (region->indexed && loop->n_dims > 0)
    {
      g_string_append (out, "  var r = i;\n");
      for (int d = (int) loop->n_dims - 1; d > 0; d--)
        g_string_append_printf (out, "  let q%d = op_quotient(r, p.dm%d, p.dl%d);\n  let i%d = r - q%d * p.d%d;\n  r = q%d;\n", d, d, d, d, d, d, d);
      g_string_append (out, "  let i0 = r;\n");
    }

  for (guint i = 0; i < fused->operands->len; i++)
    {
      if (region->immediates[i] != NULL)
        {
          g_string_append_printf (out, "  let x%u = %s;\n", i, region->immediates[i]);
          continue;
        }
      if (is_vector (region, i))
        continue;
      if (region->contiguous[i])
        {
          g_string_append_printf (out, "  let x%u = load_x%u(i);\n", i, i);
          continue;
        }
      g_string_append_printf (out, "  let x%u = load_x%u(p.o%u", i, i, i);
      for (guint d = 0; d < loop->n_dims; d++)
        g_string_append_printf (out, " + i%u * p.t%u_%u", d, i, d);
      g_string_append (out, ");\n");
    }

  for (guint i = 0; i < fused->instructions->len; i++)
    {
      const RlxInstruction *instruction = &g_array_index (fused->instructions, RlxInstruction, i);
      char *args[RLX_FUSED_MAX_ARGS] = { NULL, };
      g_autofree char *text = NULL;

      for (guint j = 0; j < instruction->n_args; j++)
        args[j] = instruction->args[j] >= 0 ? g_strdup_printf ("v%d", instruction->args[j])
                                            : g_strdup_printf ("x%d", -1 - instruction->args[j]);
      if (instruction->op->id == RLX_OP_ID_CAST)
        {
          text = cast_expression (args[0], instruction->operand_type, instruction->type);
          /* an intermediate cast rounds, even though nothing is stored there */
          if (instruction->type == RLX_DATA_TYPE_F16 && instruction->operand_type != RLX_DATA_TYPE_F16 && i + 1 < fused->instructions->len)
            {
              char *rounded = g_strdup_printf ("f16_bits_to_f32(f32_to_f16_bits(%s))", text);

              g_free (text);
              text = rounded;
            }
          if (rlx_data_type_is_narrow (instruction->type) && instruction->operand_type != instruction->type && i + 1 < fused->instructions->len)
            {
              const char *name = rlx_data_type_to_string (instruction->type);
              char *rounded = g_strdup_printf ("%s_to_f32(f32_to_%s(%s))", name, name, text);

              g_free (text);
              text = rounded;
            }
        }
      else
        text = expand_expression (instruction, class_expression (instruction->op, instruction->operand_type), args, region->scalars);

      /* Narrow results wrap here, so that the next operator sees the same as after a store and a load. */
      if (rlx_data_type_is_unsigned (instruction->type) && type_bits (instruction->type) < 32)
        g_string_append_printf (out, "  let v%u = (%s) & 0x%xu;\n", i, text, (1u << type_bits (instruction->type)) - 1);
      else if (rlx_data_type_is_int (instruction->type) && type_bits (instruction->type) < 32)
        g_string_append_printf (out, "  let v%u = ((%s) << %uu) >> %uu;\n", i, text, 32 - type_bits (instruction->type), 32 - type_bits (instruction->type));
      else
        g_string_append_printf (out, "  let v%u = %s;\n", i, text);
      for (guint j = 0; j < instruction->n_args; j++)
        g_free (args[j]);
    }

  if (fused->results != NULL)
    {
      for (guint i = 0; i < fused->results->len; i++)
        g_string_append_printf (out, i ? ", v%u" : "  return Results(v%u", g_array_index (fused->results, guint, i));
      g_string_append (out, ");\n}\n");
    }
  else if (fused->instructions->len > 0)
    g_string_append_printf (out, "  return v%u;\n}\n", fused->instructions->len - 1);
  else
    g_string_append (out, "  return x0;\n}\n");
}

/* The entry point. A result narrower than a word is written in whole words: each invocation computes the
 * elements of one. On a CPU, where an invocation costs as much as several loads, it computes four if each is
 * little work: more would take long to compile. */
static guint
write_main (GString         *out,
            RlxDataType      data_type,
            guint            n_instructions,
            guint            n_results,
            const RlxTarget *target)
{
  guint per_word = 1;

  if (data_type != RLX_DATA_TYPE_F16 || !(target->features & RLX_DEVICE_FEATURES_F16))
    per_word = 32 / type_bits (data_type);

  g_string_append (out,
                   "@compute @workgroup_size($(WG))\n"
                   "fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n");
  if (n_results == 0 && per_word == 1 && n_instructions <= 4 && !target->loads_coalesce)
    {
      g_string_append (out, "  let i = workgroup_index(wid) * 4u * $(WG)u + lane;\n");
      for (guint j = 0; j < 4; j++)
        g_string_append_printf (out, "  let i%u = i + %uu * $(WG)u;\n  if i%u < p.n { store_y(i%u, value(i%u)); }\n", j, j, j, j, j);
      g_string_append (out, "}\n");
      return 4;
    }

  g_string_append (out, "  let i = workgroup_index(wid) * $(WG)u + lane;\n");
  if (n_results > 0)
    {
      g_string_append (out, "  if i >= p.n { return; }\n  let v = value(i);\n");
      for (guint j = 0; j < n_results; j++)
        g_string_append_printf (out, "  store_y%u(i, v.r%u);\n", j, j);
      g_string_append (out, "}\n");
    }
  else if (per_word == 1)
    {
      g_string_append (out, "  if i < p.n { store_y(i, value(i)); }\n}\n");
    }
  else
    {
      g_string_append_printf (out,
                              "  let first = i * %uu;\n"
                              "  if first >= p.n { return; }\n"
                              "  var word = encode_y(value(first));\n", per_word);
      for (guint j = 1; j < per_word; j++)
        g_string_append_printf (out, "  if first + %uu < p.n { word |= encode_y(value(first + %uu)) << %uu; }\n",
                                j, j, j * 32 / per_word);
      g_string_append (out, "  store_word_y(i, word);\n}\n");
    }
  return per_word;
}

/* Puts the library functions that @text calls in front of it. */
static gboolean
prepend_library (GString *text,
                 GError **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *library = NULL;

  rlx_wgsl_library_scan (text->str, names);
  g_ptr_array_add (names, NULL);
  library = rlx_wgsl_library_select (RLX_WGSL_LIBRARY_MATH, (const char *const *) names->pdata, error);
  if (library == NULL)
    return FALSE;
  g_string_prepend (text, library);
  return TRUE;
}

/* Adds the inputs and parameters that the text needs. Returns the number of bytes read. */
static double
region_describe (Region    *region,
                 RlxKernel *kernel)
{
  double bytes = 0;

  for (guint i = 0; i < region->scalars->len; i++)
    {
      const Scalar *scalar = &g_array_index (region->scalars, Scalar, i);

      if (scalar->kind == RLX_PARAM_F32)
        rlx_kernel_param_f32 (kernel, scalar->name, scalar->f);
      else if (scalar->kind == RLX_PARAM_U32)
        rlx_kernel_param_u32 (kernel, scalar->name, (guint32) scalar->i);
      else
        rlx_kernel_param_i32 (kernel, scalar->name, (gint32) scalar->i);
    }
  for (guint d = 1; region->indexed && d < region->loop.n_dims; d++)
    rlx_kernel_param_divisor (kernel, "d", d, (guint64) region->loop.shape[d]);
  for (guint i = 0; i < region->fused->operands->len; i++)
    {
      const RlxOperand *operand = &g_array_index (region->fused->operands, RlxOperand, i);
      g_autofree char *arg = g_strdup_printf ("x%u", i);

      if (region->immediates[i] != NULL)
        continue;
      if (is_vector (region, i))
        rlx_kernel_input_vector (kernel, arg, region->node->inputs[operand->input], 4);
      else
        rlx_kernel_input (kernel, arg, region->node->inputs[operand->input]);
      bytes += (double) rlx_type_n_bytes (&region->node->inputs[operand->input]->type);
      if (region->contiguous[i])
        continue;
      /* Negative strides rely on 32-bit arithmetic wrapping around. */
      g_autofree char *offset = g_strdup_printf ("o%u", i);
      rlx_kernel_param_u32 (kernel, offset, (guint32) operand->offset);
      for (guint d = 0; d < region->loop.n_dims; d++)
        {
          g_autofree char *stride = g_strdup_printf ("t%u_%u", i, d);
          rlx_kernel_param_u32 (kernel, stride, (guint32) region->loop.strides[i][d]);
        }
    }
  return bytes;
}

/* The entry point for four elements per invocation. Beyond the end there are zeros, or remains of other values,
 * and room for the results. */
static guint
write_vectors (GString      *out,
               const Region *region)
{
  g_string_append (out,
                   "@compute @workgroup_size($(WG))\n"
                   "fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {\n"
                   "  let i = workgroup_index(wid) * $(WG)u + lane;\n"
                   "  let first = i * 4u;\n"
                   "  if first >= p.n { return; }\n");
  for (guint j = 0; j < region->fused->operands->len; j++)
    if (is_vector (region, j))
      g_string_append_printf (out, "  let q%u = load4_x%u(i);\n", j, j);
  for (guint e = 0; e < 4; e++)
    {
      g_string_append_printf (out, e ? "  let v%u = value(min(first + %uu, p.n - 1u)" : "  let v%u = value(first", e, e);
      for (guint j = 0; j < region->fused->operands->len; j++)
        if (is_vector (region, j))
          g_string_append_printf (out, ", q%u[%u]", j, e);
      g_string_append (out, ");\n");
    }
  if (region->fused->results == NULL)
    g_string_append (out, "  store4_y(i, vec4<f32>(v0, v1, v2, v3));\n");
  for (guint j = 0; region->fused->results != NULL && j < region->fused->results->len; j++)
    g_string_append_printf (out, "  store4_y%u(i, vec4<f32>(v0.r%u, v1.r%u, v2.r%u, v3.r%u));\n", j, j, j, j, j);
  g_string_append (out, "}\n");
  return 4;
}

static char *
kernel_name (const RlxFused *fused)
{
  GString *name = g_string_new (NULL);

  for (guint i = 0; i < fused->instructions->len; i++)
    {
      if (i == 6)
        {
          g_string_append_printf (name, "+%u more", fused->instructions->len - i);
          break;
        }
      g_string_append_printf (name, "%s%s", i ? "+" : "", g_array_index (fused->instructions, RlxInstruction, i).op->name);
    }
  if (name->len == 0)
    g_string_append (name, "copy");
  return g_string_free (name, FALSE);
}

/* Whether all operands that are @value are read element after element. */
static gboolean
reads_in_order (const Region     *region,
                const RlxIrValue *value)
{
  for (guint i = 0; i < region->fused->operands->len; i++)
    if (region->node->inputs[g_array_index (region->fused->operands, RlxOperand, i).input] == value && !region->contiguous[i])
      return FALSE;
  return TRUE;
}

static void
describe_results (const Region            *region,
                  RlxKernel               *kernel,
                  const RlxIrValue *const *results)
{
  const RlxIrNode *node = region->node;
  const RlxFused *fused = region->fused;

  for (guint i = 0; i < (fused->results != NULL ? fused->results->len : 1); i++)
    {
      g_autofree char *name = results != NULL ? g_strdup_printf ("y%u", i) : g_strdup ("y");
      const RlxIrValue *value = results != NULL ? results[i] : &node->outputs[0];

      if (region->vectors)
        rlx_kernel_output_vector (kernel, name, value);
      else
        rlx_kernel_output (kernel, name, value);
    }
  for (guint i = 0; i < fused->operands->len; i++)
    {
      g_autofree char *arg = g_strdup_printf ("x%u", i);
      const RlxIrValue *value;

      if (region->immediates[i] != NULL)
        continue;
      value = node->inputs[g_array_index (fused->operands, RlxOperand, i).input];
      if (results != NULL)
        rlx_kernel_merge (kernel, arg);
      else if (region->contiguous[i] && rlx_type_n_elements (&value->type) == rlx_type_n_elements (&node->outputs[0].type))
        rlx_kernel_allow_in_place (kernel, arg, "y");
    }
}

gboolean
rlx_fused_dispatch (RlxLower                *lower,
                    const RlxIrNode         *node,
                    const RlxFused          *fused,
                    const RlxIrValue *const *results,
                    GError                 **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  guint64 n = rlx_type_n_elements (type), per_group;
  guint n_results = fused->results != NULL ? fused->results->len : 0;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autofree char *name = kernel_name (fused);
  Region region;
  RlxKernel *k;
  double bytes;

  if (n == 0)
    return TRUE;

  region_init (&region, fused, node, -1);
  region.vectors = rlx_lower_get_target (lower)->loads_coalesce && n >= MIN_VECTORS &&
                   rlx_data_type_is_float (type->data_type);
  /* Whatever is both read and written must be read in the same order. */
  for (guint i = 0; i < n_results; i++)
    region.vectors &= reads_in_order (&region, results[i]);
  region_write (&region, text);
  per_group = WORKGROUP_SIZE * (guint64) (region.vectors ? write_vectors (text, &region)
                                                         : write_main (text, type->data_type, fused->instructions->len, n_results,
                                                                       rlx_lower_get_target (lower)));
  if (!prepend_library (text, error))
    {
      region_clear (&region);
      return FALSE;
    }

  k = rlx_kernel_new_generated (lower, node, name, g_string_free (g_steal_pointer (&text), FALSE));
  rlx_kernel_define (k, "WG", WORKGROUP_SIZE);
  rlx_kernel_param_u32 (k, "n", n);
  bytes = region_describe (&region, k);
  describe_results (&region, k, results);
  rlx_kernel_set_cost (k, (double) n * fused->instructions->len, bytes + (double) rlx_type_n_bytes (type) * MAX (n_results, 1));
  region_clear (&region);
  return rlx_kernel_dispatch (k, (n + per_group - 1) / per_group, error);
}

gboolean
rlx_fused_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  const RlxFused *fused = node->payload;

  return fused->results != NULL ? rlx_update_lower (lower, node, error) : rlx_fused_dispatch (lower, node, fused, NULL, error);
}

/* ---- epilogues ---------------------------------------------------------------------- */

void
rlx_epilogue_free (gpointer data)
{
  RlxEpilogue *epilogue = data;

  rlx_fused_free (epilogue->fused);
  g_free (epilogue);
}

guint
rlx_ir_node_n_own_inputs (const RlxIrNode *node)
{
  return node->payload_free == rlx_epilogue_free ? ((const RlxEpilogue *) node->payload)->n_own_inputs : node->n_inputs;
}

void
rlx_kernel_epilogue (RlxKernel       *kernel,
                     const RlxIrNode *node)
{
  const RlxEpilogue *epilogue = node->payload_free == rlx_epilogue_free ? node->payload : NULL;
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (0, g_free, TRUE);
  g_autofree char *uses = NULL;

  if (epilogue != NULL)
    {
      Region region;

      region_init (&region, epilogue->fused, node, (int) epilogue->result);
      region_write (&region, text);
      region_describe (&region, kernel);
      region_clear (&region);
      rlx_wgsl_library_scan (text->str, names);
    }
  uses = names->len > 0 ? g_strjoinv (" ", (char **) names->pdata) : g_strdup ("");
  rlx_kernel_define (kernel, "EPILOGUE", epilogue != NULL);
  rlx_kernel_define_text (kernel, "EPILOGUE_TEXT", text->str);
  rlx_kernel_define_text (kernel, "EPILOGUE_USES", uses);
}
