/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Writes the WGSL around a kernel: parameters, bindings and the load_ and
 * store_ functions that hide how a tensor is stored.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"
#include "util/rlx-wgsl-library-private.h"

/* How an argument's elements are stored in words. */
typedef struct
{
  const char *element;   /* WGSL element type of the array */
  const char *type;      /* WGSL type the kernel sees */
  guint bits;            /* of an element inside a u32 word; 0: one element per array entry */
  guint size;            /* bytes of an array entry */
} Storage;

/* The argument whose buffers @arg lives in: itself, or the output that took
 * over its memory. */
static const RlxArg *
buffers_of (const RlxStep *step,
            const RlxArg  *arg)
{
  return arg->merged ? &g_array_index (step->args, RlxArg, arg->in_place) : arg;
}

static gboolean
has_f16 (const RlxTarget *target)
{
  return (target->features & RLX_DEVICE_FEATURES_F16) != 0;
}

/* Half-precision vectors are loaded as words: fewer loads, and the same with and without native
 * f16. They are stored as vectors: not every compiler merges them into words. */
static Storage
get_vector_storage (const RlxStep   *step,
                    const RlxArg    *arg,
                    const RlxTarget *target)
{
  if (arg->data_type == RLX_DATA_TYPE_F16 && arg->width == 4 && has_f16 (target) && buffers_of (step, arg)->is_output)
    return (Storage) { "vec4<f16>", "vec4<f32>", 0, 8 };
  if (arg->data_type == RLX_DATA_TYPE_F16)
    return arg->width == 4 ? (Storage) { "vec2<u32>", "vec4<f32>", 0, 8 } : (Storage) { "u32", "vec2<f32>", 0, 4 };
  if (arg->data_type == RLX_DATA_TYPE_U32)
    return arg->width == 4 ? (Storage) { "vec4<u32>", "vec4<u32>", 0, 16 } : (Storage) { "vec2<u32>", "vec2<u32>", 0, 8 };
  return arg->width == 4 ? (Storage) { "vec4<f32>", "vec4<f32>", 0, 16 } : (Storage) { "vec2<f32>", "vec2<f32>", 0, 8 };
}

static Storage
get_storage (const RlxStep   *step,
             const RlxArg    *arg,
             const RlxTarget *target)
{
  const RlxDataTypeInfo *info = rlx_data_type_get_info (arg->data_type);

  if (arg->width > 1)
    return get_vector_storage (step, arg, target);

  if (arg->data_type == RLX_DATA_TYPE_F16 && has_f16 (target) && !arg->raw)
    return (Storage) { "f16", "f32", 0, 2 };
  if (info->bits == 32)
    return (Storage) { arg->raw ? "u32" : info->wgsl, arg->raw ? "u32" : info->wgsl, 0, 4 };
  return (Storage) { "u32", arg->raw ? "u32" : info->wgsl, info->bits, 4 };
}

/* The expression that turns loaded bits (or an entry) into the kernel's type. */
static char *
decode (const RlxArg  *arg,
        const Storage *storage)
{
  RlxNumberClass number = rlx_data_type_get_info (arg->data_type)->number;

  if (g_str_equal (storage->element, "vec4<f16>"))
    return g_strdup ("vec4<f32>(v)");
  if (arg->width > 1)
    return g_strdup (arg->raw || arg->data_type != RLX_DATA_TYPE_F16 ? "v" :
                     arg->width == 4 ? "vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y))" : "unpack2x16float(v)");
  if (arg->data_type == RLX_DATA_TYPE_F16 && !arg->raw)
    return g_strdup (storage->bits ? "f16_bits_to_f32(v)" : "f32(v)");
  if (arg->raw || storage->bits == 0 || number == RLX_NUMBER_UNSIGNED)
    return g_strdup ("v");
  if (number == RLX_NUMBER_NARROW)
    return g_strdup_printf ("%s_to_f32(v)", rlx_data_type_to_string (arg->data_type));
  if (number == RLX_NUMBER_BOOL)
    return g_strdup ("v != 0u");
  return g_strdup_printf ("bitcast<i32>(v << %uu) >> %uu", 32 - storage->bits, 32 - storage->bits);
}

static char *
encode (const RlxArg  *arg,
        const Storage *storage)
{
  RlxNumberClass number = rlx_data_type_get_info (arg->data_type)->number;

  if (g_str_equal (storage->element, "vec4<f16>"))
    return g_strdup ("vec4<f16>(v)");
  if (arg->width == 4 && arg->data_type == RLX_DATA_TYPE_F16)
    return g_strdup ("vec2<u32>(f32_to_f16_bits(v.x) | (f32_to_f16_bits(v.y) << 16u), f32_to_f16_bits(v.z) | (f32_to_f16_bits(v.w) << 16u))");
  if (arg->data_type == RLX_DATA_TYPE_F16 && !arg->raw)
    return g_strdup (storage->bits ? "f32_to_f16_bits(v)" : "f16(v)");
  if (storage->bits == 0)
    return g_strdup ("v");
  if (number == RLX_NUMBER_BOOL && !arg->raw)
    return g_strdup ("select(0u, 1u, v)");
  if (number == RLX_NUMBER_NARROW && !arg->raw)
    return g_strdup_printf ("f32_to_%s(v)", rlx_data_type_to_string (arg->data_type));
  return g_strdup_printf (number == RLX_NUMBER_SIGNED && !arg->raw ? "bitcast<u32>(v) & 0x%xu" : "v & 0x%xu", (1u << storage->bits) - 1);
}

/* Each part of a large tensor is a separate variable. No access to one is nested in the
 * condition of another (kernels/common/product.wgsl says why). */
static void
write_access (GString       *out,
              const char    *function,
              const char    *head,
              const char    *variable,
              guint          n_segments,
              guint64        per_segment,
              const char    *entry_format,
              const char    *tail)
{
  g_string_append_printf (out, "fn %s%s\n", function, head);
  for (guint s = 0; s < n_segments; s++)
    {
      g_autofree char *name = g_strdup_printf ("%s_%u", variable, s);
      g_autofree char *index = n_segments == 1 ? g_strdup ("w") : g_strdup_printf ("w - %" G_GUINT64_FORMAT "u", s * per_segment);
      g_autoptr(GString) entry = g_string_new (entry_format);

      g_string_replace (entry, "@", name, 0);
      g_string_replace (entry, "#", index, 0);
      if (n_segments == 1)
        g_string_append_printf (out, "  %s\n", entry->str);
      else
        g_string_append_printf (out, "  if %s < %" G_GUINT64_FORMAT "u { %s }\n", index, per_segment, entry->str);
    }
  g_string_append_printf (out, "%s}\n", tail);
}

/* load_NAME, and store_NAME for outputs. An output narrower than a word is an
 * array of atomics: two invocations may own neighbours in one word. */
static void
write_functions (GString         *out,
                 const RlxPlan   *plan,
                 const RlxStep   *step,
                 const RlxArg    *arg,
                 const RlxTarget *target)
{
  const RlxArg *home = buffers_of (step, arg);
  Storage storage = get_storage (step, arg, target);
  guint64 size = g_array_index (plan->slots, RlxSlot, home->slot).size;
  guint n_segments = rlx_target_get_n_segments (target, size);
  guint shift = storage.bits == 16 ? 1 : storage.bits == 8 ? 2 : storage.bits == 4 ? 3 : 4;   /* 2^shift elements in a word */
  guint64 per_segment = rlx_target_get_segment_size (target) / storage.size;
  gboolean atomic = home->is_output && (storage.bits != 0 || home->atomic);
  g_autofree char *decoded = decode (arg, &storage), *encoded = NULL;
  g_autofree char *head = NULL, *load = NULL, *function = NULL, *body = NULL;

  g_string_append_printf (out, "alias type_%s = %s;\n", arg->name, storage.type);

  /* the entry that holds element i, as v */
  head = g_strdup_printf ("(w: u32) -> %s {\n  var v: %s;", storage.element, storage.element);
  load = g_strdup (atomic ? "v = atomicLoad(&@[#]);" : "v = @[#];");
  function = g_strdup_printf ("word_%s", arg->name);
  write_access (out, function, head, home->name, n_segments, per_segment, load, "  return v;\n");

  if (storage.bits == 0)
    g_string_append_printf (out, "fn load%s_%s(i: u32) -> %s { let v = word_%s(i); return %s; }\n",
                            arg->width == 4 ? "4" : arg->width == 2 ? "2" : "", arg->name, storage.type, arg->name,
                            decoded);
  else
    g_string_append_printf (out, "fn load_%s(i: u32) -> %s { let v = extractBits(word_%s(i >> %uu), (i & %uu) * %uu, %uu); return %s; }\n",
                            arg->name, storage.type, arg->name, shift, (1u << shift) - 1, storage.bits, storage.bits, decoded);

  if (!arg->is_output)
    return;

  encoded = encode (arg, &storage);
  g_string_append_printf (out, "fn encode_%s(v: %s) -> %s { return %s; }\n", arg->name, storage.type, storage.element, encoded);
  g_free (head);
  g_free (function);
  if (storage.bits == 0)
    {
      head = g_strdup_printf ("(w: u32, v: %s) {", storage.type);
      function = g_strdup_printf (arg->width == 4 ? "store4_%s" : "store_%s", arg->name);
      body = g_strdup_printf (atomic ? "atomicStore(&@[#], encode_%s(v));" : "@[#] = encode_%s(v);", arg->name);
      write_access (out, function, head, home->name, n_segments, per_segment, body, "");
      for (guint i = 0; atomic && i < 2; i++)
        {
          g_autofree char *name = g_strdup_printf ("atomic_%s_%s", i == 0 ? "add" : "max", arg->name);

          write_access (out, name, "(w: u32, v: u32) -> u32 {\n  var old: u32;", home->name, n_segments, per_segment,
                        i == 0 ? "old = atomicAdd(&@[#], v);" : "old = atomicMax(&@[#], v);", "  return old;\n");
        }
    }
  else
    {
      /* whole words, for kernels that own all elements of a word */
      head = g_strdup_printf ("(w: u32, v: u32) {");
      function = g_strdup_printf ("store_word_%s", arg->name);
      write_access (out, function, head, home->name, n_segments, per_segment, "atomicStore(&@[#], v);", "");
      g_free (head);
      g_free (function);
      head = g_strdup_printf ("(w: u32, mask: u32, bits: u32) {");
      function = g_strdup_printf ("merge_%s", arg->name);
      write_access (out, function, head, home->name, n_segments, per_segment,
                    "atomicAnd(&@[#], ~mask); atomicOr(&@[#], bits);", "");
      g_string_append_printf (out,
                              "fn store_%s(i: u32, v: %s) { let s = (i & %uu) * %uu; merge_%s(i >> %uu, 0x%xu << s, encode_%s(v) << s); }\n",
                              arg->name, storage.type, (1u << shift) - 1, storage.bits, arg->name, shift,
                              (1u << storage.bits) - 1, arg->name);
    }
}

static void
add_bindings (RlxPlan         *plan,
              RlxStep         *step,
              const RlxArg    *arg,
              const RlxTarget *target,
              GString         *out)
{
  Storage storage = get_storage (step, arg, target);
  guint64 size = g_array_index (plan->slots, RlxSlot, arg->slot).size;
  guint n = rlx_target_get_n_segments (target, size);
  gboolean atomic = arg->is_output && (storage.bits != 0 || arg->atomic);

  for (guint s = 0; s < n; s++)
    {
      guint64 offset = s * rlx_target_get_segment_size (target);
      RlxStepBinding binding = {
        .kind = arg->is_output ? RLX_GPU_BINDING_READ_WRITE : RLX_GPU_BINDING_READ,
        .slot = arg->slot,
        .offset = offset,
        .size = n == 1 ? size : MIN (rlx_target_get_segment_size (target), size - offset),
      };

      g_string_append_printf (out, "@group(0) @binding(%u) var<storage, %s> %s_%u: array<%s%s%s>;\n",
                              step->bindings->len, arg->is_output ? "read_write" : "read", arg->name, s,
                              atomic ? "atomic<" : "", storage.element, atomic ? ">" : "");
      g_array_append_val (step->bindings, binding);
    }
}

static const char *
param_type (RlxParamKind kind)
{
  return kind == RLX_PARAM_U32 ? "u32" : kind == RLX_PARAM_I32 ? "i32" : "f32";
}

/* The step's own text. Networks have many steps of a kind, and expanding a large one
 * takes milliseconds. */
static const char *
expand_body (RlxStep    *step,
             GHashTable *bodies,
             GError    **error)
{
  g_autofree char *variables = rlx_template_describe (step->template);
  g_autofree char *key = g_strconcat (step->file ? step->file : step->body, "\n", variables, NULL);
  char *body = g_hash_table_lookup (bodies, key);

  if (body != NULL)
    return body;
  body = step->file ? rlx_template_expand_file (step->template, step->file, error)
                    : rlx_template_expand (step->template, step->body, step->kernel, error);
  if (body != NULL)
    g_hash_table_insert (bodies, g_steal_pointer (&key), body);
  return body;
}

static void
set_subgroup_size (RlxStep *step)
{
  g_autofree char *attribute = step->subgroup_size > 0 ? g_strdup_printf (" @subgroup_size(%u)", step->subgroup_size) : NULL;

  rlx_template_set_text (step->template, "SUBGROUP_SIZE", attribute ? attribute : "");
}

/* The conversions of narrow floats that @functions and @body call. */
static char *
select_narrow (const char *functions,
               const char *body,
               GError    **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (0, g_free, TRUE);

  for (int i = 0; i < RLX_N_DATA_TYPES; i++)
    for (guint back = 0; rlx_data_type_is_narrow ((RlxDataType) i) && back < 2; back++)
      {
        g_autofree char *name = g_strdup_printf (back ? "f32_to_%s" : "%s_to_f32", rlx_data_types[i].name);
        g_autofree char *called = g_strconcat (name, "(", NULL);

        if (strstr (functions, called) != NULL || strstr (body, called) != NULL)
          g_ptr_array_add (names, g_steal_pointer (&name));
      }
  return names->len > 0 ? rlx_wgsl_library_select ("common/narrow.wgsl", (const char *const *) names->pdata, error) : g_strdup ("");
}

gboolean
rlx_step_build_source (RlxPlan         *plan,
                       RlxStep         *step,
                       const RlxTarget *target,
                       GHashTable      *bodies,
                       GError         **error)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GString) functions = g_string_new (NULL);
  g_autofree char *half = NULL;
  g_autofree char *narrow = NULL;
  const char *body;
  gboolean f16 = FALSE, packed_f16 = FALSE;
  RlxStepBinding block = { RLX_GPU_BINDING_UNIFORM, G_MAXUINT, 0, 0 };

  g_clear_pointer (&step->bindings, g_array_unref);
  step->bindings = g_array_new (FALSE, TRUE, sizeof (RlxStepBinding));

  g_string_append (out, "struct Params {\n");
  for (guint i = 0; i < step->params->len; i++)
    {
      const RlxParam *param = &g_array_index (step->params, RlxParam, i);
      g_string_append_printf (out, "  %s: %s,\n", param->name, param_type (param->kind));
    }
  g_string_append (out, "}\n@group(0) @binding(0) var<uniform> p: Params;\n");
  /* Uniform blocks are padded to whole vectors. */
  block.size = (step->params->len * 4 + 15) & ~(guint64) 15;
  g_array_append_val (step->bindings, block);

  for (guint i = 0; i < step->args->len; i++)
    {
      const RlxArg *arg = &g_array_index (step->args, RlxArg, i);
      Storage storage = get_storage (step, arg, target);

      gboolean halves = arg->data_type == RLX_DATA_TYPE_F16 && arg->is_output && arg->width > 1;
      gboolean native = has_f16 (target);

      f16 |= g_str_equal (storage.element, "f16") || (halves && native);
      packed_f16 |= (arg->data_type == RLX_DATA_TYPE_F16 && storage.bits && !arg->raw) || (halves && !native);
      if (!arg->merged)
        add_bindings (plan, step, arg, target, out);
      write_functions (functions, plan, step, arg, target);
    }

  if (step->bindings->len - 1 > target->limits.max_storage_buffers)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                   "%s “%s” needs %u storage bindings of at most %" G_GUINT64_FORMAT " bytes each, the device has %u (maxStorageBuffersPerShaderStage, maxStorageBufferBindingSize)",
                   step->op, step->label, step->bindings->len - 1, target->limits.max_storage_binding_size,
                   target->limits.max_storage_buffers);
      return FALSE;
    }

  g_string_append (functions, "fn workgroup_index(wid: vec3<u32>) -> u32 { return wid.y * p.grid_x + wid.x; }\n");
  rlx_template_set_int (step->template, "WG", step->workgroup_size);
  set_subgroup_size (step);
  body = expand_body (step, bodies, error);
  if (body == NULL)
    {
      g_prefix_error (error, "%s “%s”: ", step->op, step->label);
      return FALSE;
    }

  /* WGSL's own conversions may round in any way; regions that cast in the middle also
   * need ours. */
  if (packed_f16 || strstr (body, "f16_bits") != NULL)
    {
      half = rlx_wgsl_library_select ("common/f16.wgsl", NULL, error);
      if (half == NULL)
        return FALSE;
    }

  narrow = select_narrow (functions->str, body, error);
  if (narrow == NULL)
    return FALSE;

  g_free (step->wgsl);
  step->wgsl = g_strconcat (f16 ? "enable f16;\n" : "", step->subgroup_size > 0 ? "enable subgroups;\nenable subgroup_size_control;\n" : "",
                            step->enables ? step->enables : "", out->str, half ? half : "", narrow, functions->str, body, NULL);
  RLX_NOTE (SHADERS, "%s “%s”:\n%s", step->op, step->label, step->wgsl);
  return TRUE;
}

void
rlx_step_free (RlxStep *step)
{
  for (guint i = 0; i < step->args->len; i++)
    g_free (g_array_index (step->args, RlxArg, i).name);
  for (guint i = 0; i < step->params->len; i++)
    g_free (g_array_index (step->params, RlxParam, i).name);
  g_array_unref (step->args);
  g_array_unref (step->params);
  g_clear_pointer (&step->bindings, g_array_unref);
  rlx_template_free (step->template);
  g_free (step->op);
  g_free (step->label);
  g_free (step->file);
  g_free (step->body);
  g_free (step->kernel);
  g_free (step->enables);
  g_free (step->wgsl);
  g_free (step);
}
