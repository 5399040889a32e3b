/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The known-answer check every new device goes through. Dawn can end up on a
 * backend that computes nothing and reports success, a driver can miscompile,
 * and a library newer than its header can disagree about a structure: all of
 * them show here, before anybody sees a result.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <string.h>

#define N 64
/* Each invocation gives two answers of each kind, of which there are up to four. */
#define N_ANSWERS (2 * N)
#define MAX_ANSWERS (4 * N_ANSWERS)

/* Stores to several results: rows by the columns of each. Eight invocations share some
 * rows. */
#define N_RESULTS 3
#define ROWS_EACH 2u
#define ROWS (ROWS_EACH * N / 8)
static const guint widths[N_RESULTS] = { 6, 9, 4 };
/* After them, in the last: long rows, of each of which eight invocations store every eighth
 * column. There are fewer than there are invocations for. */
#define LONG_ROWS widths[0]
#define LONG_COLUMNS (widths[1] * widths[2] + 1)
#define LONG_START 256u

typedef struct
{
  RlxDeviceFeatures feature;      /* the feature that is tested, unless every device has it */
  RlxDeviceFeatures instead_of;   /* only used, and so only tested, on devices without this feature */
  const char *label;
  const char *enable;
  const char *body;      /* computes p and q from the invocation's number i */
  const char *type;      /* of the results, if it stores to several … */
  const char *number;    /* … the value of x, which is below 32 … */
  const char *store;     /* … stores v, as 16 bits, to element i of @ */
} Check;

static const Check checks[] = {
  /* Wrapping integers, shifts, and floats whose results are exact in any order and
   * with or without a fused multiply-add. */
  { .label = "arithmetic",
    .body =
    "    let x = a[i];\n"
    "    let f = f32(x & 255u) * 0.5 - 16.0;\n"
    "    let p = (x * 2654435761u) ^ (x >> 7u);\n"
    "    let q = bitcast<u32>(select(f * f + 0.25, f, (i & 1u) == 1u));\n" },
  { .feature = RLX_DEVICE_FEATURES_F16, .label = "f16", .enable = "enable f16;\n",
    .type = "f16",
    .number = "f32(f16(x) * 0.5h - 2.75h) * 2.0 + 1.0",
    .store = "@[i] = f16(v);" },
  /* Vectors of them, which f16 holds exactly, as words and as numbers. */
  { .feature = RLX_DEVICE_FEATURES_F16, .label = "vectors of f16", .enable = "enable f16;\n",
    .body =
    "    let v = vec4<f16>(vec4<f32>((vec4<u32>(a[i]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u)) * 0.5 - 64.25);\n"
    "    let p = bitcast<u32>(v.xy);\n"
    "    let q = bitcast<u32>(f32(v.z) * f32(v.w));\n" },
  { .instead_of = RLX_DEVICE_FEATURES_F16, .label = "stores to halves of words",
    .type = "atomic<u32>",
    .number = "f32(x + 1u)",
    .store = "let s = (i & 1u) * 16u; atomicAnd(&@[i >> 1u], ~(0xffffu << s)); atomicOr(&@[i >> 1u], u32(v) << s);" },
  /* A sum over the subgroup and how many took part in it, which do not depend on how
   * large it is. The shuffle reads the first one's value, with an index that a compiler
   * cannot know to be 0. */
  { .feature = RLX_DEVICE_FEATURES_SUBGROUPS, .label = "subgroups", .enable = "enable subgroups;\n",
    .body =
    "    let n = subgroupAdd(1u);\n"
    "    let sum = subgroupAdd(a[i]);\n"
    "    let same = subgroupAdd(subgroupShuffle(a[i], (i >> 6u)));\n"
    "    let p = select(0u, 1u, n <= size && n * subgroupBroadcastFirst(a[i]) == same);\n"
    "    let q = select(0u, sum, subgroupElect());\n" },
  { .feature = RLX_DEVICE_FEATURES_PACKED_DOT, .label = "packed products",
    .body =
    "    let other = a[63u - i];\n"
    "    let p = bitcast<u32>(dot4I8Packed(a[i], other));\n"
    "    let q = dot4U8Packed(a[i], other);\n" },
};

static gboolean
is_due (const Check      *check,
        RlxDeviceFeatures features)
{
  return (check->feature & ~features) == 0 && (check->instead_of & features) == 0;
}

/* Elements of 16 bits to one of several results, inside one condition after the other: a
 * driver lost some of those that were for the third one. And in a loop inside of a
 * condition, where it lost nearly all. Our kernels that do such things
 * (kernels/common/product.wgsl, softmax.wgsl) demand less of a driver. The sizes are in a
 * word of the input, so that no compiler knows them. */
static void
add_stores (GString     *text,
            const Check *check)
{
  for (guint o = 0; o < N_RESULTS; o++)
    {
      g_autoptr(GString) store = g_string_new (check->store);
      char y[] = { 'y', (char) ('0' + o), '\0' };

      g_string_replace (store, "@", y, 0);
      g_string_append_printf (text,
                              "@group(0) @binding(%u) var<storage, read_write> %s : array<%s>;\n"
                              "fn store%u(i : u32, v : f32) { %s }\n", 2 + o, y, check->type, o, store->str);
    }
  g_string_append (text, "fn put(row : u32, col : u32, v : f32, sizes : vec4<u32>) {\n  var first = 0u;\n");
  for (guint o = 0; o < N_RESULTS; o++)
    g_string_append_printf (text,
                            "  if (col >= first && col - first < sizes[%u]) { store%u(row * sizes[%u] + col - first, v); }\n"
                            "  first += sizes[%u];\n", o, o, o, o);
  g_string_append_printf (text,
                          "}\n"
                          "fn number(x : u32) -> f32 { return %s; }\n"
                          "fn put_all(i : u32, seed : u32, sizes : vec4<u32>) {\n"
                          "  for (var j = 0u; j < sizes.w * 2u; j++) {\n"
                          "    let col = (i & 7u) * 2u + j / 2u * 16u + j %% 2u;\n"
                          "    for (var r = 0u; r < sizes.w; r++) {\n"
                          "      if (col < sizes.x + sizes.y + sizes.z) {\n"
                          "        put((i >> 3u) * sizes.w + r, col, number(((seed >> (col & 15u)) + r) & 31u), sizes);\n"
                          "      }\n"
                          "    }\n"
                          "  }\n"
                          "  let row = i >> 3u;\n"
                          "  let columns = sizes.y * sizes.z + 1u;\n"
                          "  if (row < sizes.x) {\n"
                          "    for (var col = i & 7u; col < columns; col += 8u) {\n"
                          "      store2(%uu + row * columns + col, number(((seed >> (col & 15u)) + row) & 31u));\n"
                          "    }\n"
                          "  }\n"
                          "}\n", check->number, LONG_START);
}

/* A kernel for those checks that are in @which, of which one at most stores to several
 * results. */
static char *
make_text (const guint *which,
           guint        n)
{
  GString *text = g_string_new (NULL);
  gboolean subgroups = FALSE;

  for (guint i = 0; i < n; i++)
    {
      g_string_append (text, checks[which[i]].enable != NULL ? checks[which[i]].enable : "");
      subgroups |= checks[which[i]].feature == RLX_DEVICE_FEATURES_SUBGROUPS;
    }
  g_string_append (text,
                   "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
                   "@group(0) @binding(1) var<storage, read_write> b : array<vec2<u32>>;\n");
  for (guint i = 0; i < n; i++)
    if (checks[which[i]].type != NULL)
      add_stores (text, &checks[which[i]]);
  g_string_append_printf (text,
                          "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>%s) {\n"
                          "  let i = id.x;\n", subgroups ? ", @builtin(subgroup_size) size : u32" : "");
  for (guint i = 0, part = 0; i < n; i++)
    if (checks[which[i]].type != NULL)
      g_string_append_printf (text, "  put_all(i, a[i], (vec4<u32>(a[%u]) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));\n", N);
    else
      g_string_append_printf (text, "  {\n%s    b[%uu + i] = vec2<u32>(p, q);\n  }\n", checks[which[i]].body, N * part++);
  g_string_append (text, "}\n");

  return g_string_free (text, FALSE);
}

static guint32
input_value (guint i)
{
  return i * 2246822519u + 374761393u;
}

/* The bits of a multiple of 1/4 between -256 and 256 that is not 0. */
static guint16
half_bits (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);

  return (guint16) (((bits >> 16) & 0x8000u) |
                    ((((bits >> 23) & 0xffu) - 112u) << 10) |
                    ((bits >> 13) & 0x3ffu));
}

static gboolean
base_is_right (const guint32 *output)
{
  for (guint i = 0; i < N; i++)
    {
      guint32 x = input_value (i);
      float f = (float) (x & 255u) * 0.5f - 16.0f;
      float want = (i & 1u) == 1u ? f : f * f + 0.25f;
      float got;

      memcpy (&got, &output[i * 2 + 1], sizeof got);
      if (output[i * 2] != ((x * 2654435761u) ^ (x >> 7)) || got != want)
        return FALSE;
    }

  return TRUE;
}

/* Does element @at of @result stand for the number @x? */
static gboolean
is_stored (const Check   *check,
           const guint32 *result,
           guint          at,
           guint32        x)
{
  guint32 want = check->feature == RLX_DEVICE_FEATURES_F16 ? half_bits ((float) (x & 31u) - 4.5f) : (x & 31u) + 1;

  return (result[at / 2] >> at % 2 * 16 & 0xffffu) == want;
}

static gboolean
stores_are_right (const Check    *check,
                  const guint32 (*results)[MAX_ANSWERS])
{
  for (guint o = 0, first = 0; o < N_RESULTS; first += widths[o], o++)
    for (guint at = 0; at < ROWS * widths[o]; at++)
      {
        guint row = at / widths[o], col = first + at % widths[o];
        guint32 seed = input_value (row / ROWS_EACH * 8 + (col & 15u) / 2);

        if (!is_stored (check, results[o], at, (seed >> (col & 15u)) + row % ROWS_EACH))
          return FALSE;
      }

  for (guint at = 0; at < LONG_ROWS * LONG_COLUMNS; at++)
    {
      guint row = at / LONG_COLUMNS, col = at % LONG_COLUMNS;
      guint32 seed = input_value (row * 8 + (col & 7u));

      if (!is_stored (check, results[N_RESULTS - 1], LONG_START + at, (seed >> (col & 15u)) + row))
        return FALSE;
    }

  return TRUE;
}

static gboolean
vectors_are_right (const guint32 *output)
{
  for (guint i = 0; i < N; i++)
    {
      float v[4], product;
      guint32 bits;

      for (guint j = 0; j < 4; j++)
        v[j] = (float) (input_value (i) >> 8 * j & 0xffu) * 0.5f - 64.25f;
      product = v[2] * v[3];
      memcpy (&bits, &product, sizeof bits);
      if (output[i * 2] != (half_bits (v[0]) | (guint32) half_bits (v[1]) << 16) || output[i * 2 + 1] != bits)
        return FALSE;
    }

  return TRUE;
}

static gboolean
subgroups_are_right (const guint32 *output)
{
  guint32 sum = 0, want = 0;

  for (guint i = 0; i < N; i++)
    {
      if (output[i * 2] != 1)
        return FALSE;
      sum += output[i * 2 + 1];
      want += input_value (i);
    }

  return sum == want;
}

static gboolean
packed_dot_is_right (const guint32 *output)
{
  for (guint i = 0; i < N; i++)
    {
      guint32 a = input_value (i), b = input_value (N - 1 - i), sum = 0, plain = 0;

      for (guint shift = 0; shift < 32; shift += 8)
        {
          sum += (guint32) ((gint8) (a >> shift & 0xff) * (gint8) (b >> shift & 0xff));
          plain += (a >> shift & 0xff) * (b >> shift & 0xff);
        }
      if (output[i * 2] != sum || output[i * 2 + 1] != plain)
        return FALSE;
    }

  return TRUE;
}

/* @answers are those of the check; @results is what was stored to several. */
static gboolean
is_right (const Check    *check,
          const guint32  *answers,
          const guint32 (*results)[MAX_ANSWERS])
{
  if (check->type != NULL)
    return stores_are_right (check, results);

  switch ((guint) check->feature)
    {
    case RLX_DEVICE_FEATURES_F16:
      return vectors_are_right (answers);
    case RLX_DEVICE_FEATURES_SUBGROUPS:
      return subgroups_are_right (answers);
    case RLX_DEVICE_FEATURES_PACKED_DOT:
      return packed_dot_is_right (answers);
    default:
      return base_is_right (answers);
    }
}

/* Runs the checks in @which; FALSE if there was no answer. *refused tells whether the
 * kernel was the reason. */
static gboolean
ask (RlxGpu      *gpu,
     const guint *which,
     guint        n,
     gboolean    *right,
     gboolean    *refused,
     GError     **error)
{
  static const RlxGpuBindingKind kinds[] = {
    RLX_GPU_BINDING_READ, RLX_GPU_BINDING_READ_WRITE, RLX_GPU_BINDING_READ_WRITE, RLX_GPU_BINDING_READ_WRITE,
    RLX_GPU_BINDING_READ_WRITE,
  };
  const gsize size = MAX_ANSWERS * sizeof (guint32);
  const char *label = "known answers";
  g_autofree char *text = make_text (which, n);
  RlxGpuPipelineDesc desc = { label, text, kinds, G_N_ELEMENTS (kinds), NULL };
  RlxGpuBuffer *buffers[G_N_ELEMENTS (kinds)] = { NULL };
  RlxGpuBinding bindings[G_N_ELEMENTS (kinds)];
  RlxGpuDownload downloads[G_N_ELEMENTS (kinds) - 1];
  guint32 data[G_N_ELEMENTS (kinds) - 1][MAX_ANSWERS] = { 0 };
  guint32 values[N + 1];
  RlxGpuUpload uploads[G_N_ELEMENTS (kinds)];
  RlxGpuDispatch dispatch;
  RlxGpuJob job = { .uploads = uploads, .n_uploads = G_N_ELEMENTS (uploads), .dispatches = &dispatch, .n_dispatches = 1 };
  RlxGpuPipeline *pipeline;
  RlxGpuBindGroup *group = NULL;
  gboolean result = FALSE;

  G_STATIC_ASSERT (G_N_ELEMENTS (kinds) == 2 + N_RESULTS);

  *refused = FALSE;
  for (guint i = 0; i < N; i++)
    values[i] = input_value (i);
  values[N] = widths[0] | widths[1] << 8 | widths[2] << 16 | ROWS_EACH << 24;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      buffers[i] = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, label, error);
      if (buffers[i] == NULL)
        goto out;
      bindings[i] = (RlxGpuBinding) { buffers[i], 0, size };
    }

  if (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, NULL, error))
    group = rlx_gpu_bind_group_new (gpu, pipeline, bindings, G_N_ELEMENTS (bindings), label, error);
  if (group == NULL)
    {
      *refused = !rlx_gpu_is_lost (gpu);
      goto out;
    }

  uploads[0] = (RlxGpuUpload) { buffers[0], 0, values, sizeof values };
  dispatch = (RlxGpuDispatch) { pipeline, group, { 1, 1, 1 }, 0.0 };
  for (guint i = 0; i < G_N_ELEMENTS (downloads); i++)
    {
      /* Right answers of before must not be there. */
      uploads[i + 1] = (RlxGpuUpload) { buffers[i + 1], 0, data[i], size };
      downloads[i] = (RlxGpuDownload) { buffers[i + 1], 0, size, data[i] };
    }
  job.downloads = downloads;
  job.n_downloads = G_N_ELEMENTS (downloads);
  result = rlx_gpu_execute (gpu, &job, NULL, error);
  for (guint i = 0, part = 0; i < n; i++)
    {
      right[i] = is_right (&checks[which[i]], &data[0][N_ANSWERS * part], &data[1]);
      part += checks[which[i]].type == NULL;
    }

out:
  rlx_gpu_bind_group_free (group);
  for (guint i = 0; i < G_N_ELEMENTS (buffers); i++)
    rlx_gpu_buffer_free (buffers[i]);

  return result;
}

/* A check that cannot be made or gives wrong answers disables its feature. FALSE if it
 * is one that every device must pass. */
static gboolean
fail_check (const Check       *check,
            RlxDeviceFeatures *features,
            const char        *why,
            GError           **error)
{
  if (check->feature == RLX_DEVICE_FEATURES_NONE)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "it fails the self-test (%s)", check->label);
      return FALSE;
    }

  RLX_NOTE (DEVICE, "known answers, %s: %s", check->label, why);
  *features &= ~check->feature;
  if (!(*features & RLX_DEVICE_FEATURES_SUBGROUPS))
    *features &= ~RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;

  return TRUE;
}

/* All at once: one kernel is compiled much faster than several. *again: something was
 * wrong, and the remaining features have not been tested together. */
static gboolean
ask_all (RlxGpu            *gpu,
         RlxDeviceFeatures *features,
         gboolean          *again,
         gboolean          *refused,
         GError           **error)
{
  guint which[G_N_ELEMENTS (checks)], n = 0;
  gboolean right[G_N_ELEMENTS (checks)];

  *again = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if (is_due (&checks[i], *features))
      which[n++] = i;

  if (!ask (gpu, which, n, right, refused, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (!right[i])
      {
        if (!fail_check (&checks[which[i]], features, "wrong", error))
          return FALSE;
        *again = TRUE;
      }

  return TRUE;
}

static gboolean
ask_each (RlxGpu            *gpu,
          RlxDeviceFeatures *features,
          GError           **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      g_autoptr (GError) local_error = NULL;
      gboolean right = FALSE, refused;

      if (!is_due (&checks[i], *features))
        continue;
      if (!ask (gpu, &i, 1, &right, &refused, &local_error) && (!refused || checks[i].feature == RLX_DEVICE_FEATURES_NONE))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (!right && !fail_check (&checks[i], features, local_error != NULL ? local_error->message : "wrong", error))
        return FALSE;
    }

  return TRUE;
}

gboolean
rlx_gpu_known_answers (RlxGpu            *gpu,
                       RlxDeviceFeatures *features,
                       GError           **error)
{
  g_autoptr (GError) local_error = NULL;
  gboolean right, again, refused;

  /* Each iteration disables a feature. */
  do
    right = ask_all (gpu, features, &again, &refused, &local_error);
  while (right && again);
  if (right)
    return TRUE;

  if (refused)
    {
      g_clear_error (&local_error);
      if (ask_each (gpu, features, &local_error))
        return TRUE;
    }

  /* Temporary errors keep their code; an adapter that cannot compute counts as none. */
  g_set_error (error, RLX_DEVICE_ERROR,
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST) ||
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT) ||
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY)
                 ? local_error->code : RLX_DEVICE_ERROR_NO_ADAPTER,
               "The adapter “%s” (%s) cannot be used: %s",
               gpu->info->name, gpu->info->driver, local_error->message);
  return FALSE;
}
