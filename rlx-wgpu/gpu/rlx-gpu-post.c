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

typedef struct
{
  RlxDeviceFeatures feature;
  const char *label;
  const char *enable;
  const char *type;        /* of its answers, of which each invocation gives two */
  const char *body;        /* computes p and q from the invocation's number i */
} Check;

static const Check checks[] = {
  /* Wrapping integers, shifts, and floats whose results are exact in any order and
   * with or without a fused multiply-add. */
  { RLX_DEVICE_FEATURES_NONE, "known answers", "", "u32",
    "    let x = a[i];\n"
    "    let f = f32(x & 255u) * 0.5 - 16.0;\n"
    "    let p = (x * 2654435761u) ^ (x >> 7u);\n"
    "    let q = bitcast<u32>(select(f * f + 0.25, f, (i & 1u) == 1u));\n" },
  { RLX_DEVICE_FEATURES_F16, "known answers in f16", "enable f16;\n", "f16",
    "    let p = f16(a[i] & 31u) * 0.5h - 4.0h;\n"
    "    let q = f16(f32(p) * 2.0 + 1.0);\n" },
  /* A sum over the subgroup and how many took part in it, which do not depend on how
   * large it is. The shuffle takes the first one's value, by an index that a compiler
   * does not see to be 0. */
  { RLX_DEVICE_FEATURES_SUBGROUPS, "known answers of subgroups", "enable subgroups;\n", "u32",
    "    let n = subgroupAdd(1u);\n"
    "    let sum = subgroupAdd(a[i]);\n"
    "    let same = subgroupAdd(subgroupShuffle(a[i], (i >> 6u)));\n"
    "    let p = select(0u, 1u, n <= size && n * subgroupBroadcastFirst(a[i]) == same);\n"
    "    let q = select(0u, sum, subgroupElect());\n" },
  { RLX_DEVICE_FEATURES_PACKED_DOT, "known answers of packed products", "", "u32",
    "    let other = a[63u - i];\n"
    "    let p = bitcast<u32>(dot4I8Packed(a[i], other));\n"
    "    let q = dot4U8Packed(a[i], other);\n" },
};

/* A kernel for those checks that are in @which. */
static char *
make_text (const guint *which,
           guint        n)
{
  GString *text = g_string_new (NULL);
  gboolean subgroups = FALSE;

  for (guint i = 0; i < n; i++)
    {
      g_string_append (text, checks[which[i]].enable);
      subgroups |= checks[which[i]].feature == RLX_DEVICE_FEATURES_SUBGROUPS;
    }
  g_string_append (text, "@group(0) @binding(0) var<storage, read> a : array<u32>;\n");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "@group(0) @binding(%u) var<storage, read_write> b%u : array<%s>;\n",
                            i + 1, i, checks[which[i]].type);
  g_string_append_printf (text,
                          "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>%s) {\n"
                          "  let i = id.x;\n", subgroups ? ", @builtin(subgroup_size) size : u32" : "");
  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "  {\n%s    b%u[i * 2u] = p;\n    b%u[i * 2u + 1u] = q;\n  }\n", checks[which[i]].body, i, i);
  g_string_append (text, "}\n");

  return g_string_free (text, FALSE);
}

static guint32
input_value (guint i)
{
  return i * 2246822519u + 374761393u;
}

/* The bits of a multiple of 1/2 or of 1 between -64 and 64. */
static guint16
half_bits (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  if (value == 0.0f)
    return 0;

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

static gboolean
f16_is_right (const guint32 *output)
{
  for (guint i = 0; i < N; i++)
    {
      float f = (float) (input_value (i) & 31u) * 0.5f - 4.0f;

      if (output[i] != ((guint32) half_bits (f) | (guint32) half_bits (f * 2.0f + 1.0f) << 16))
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

static gboolean
is_right (const Check   *check,
          const guint32 *output)
{
  switch ((guint) check->feature)
    {
    case RLX_DEVICE_FEATURES_F16:
      return f16_is_right (output);
    case RLX_DEVICE_FEATURES_SUBGROUPS:
      return subgroups_are_right (output);
    case RLX_DEVICE_FEATURES_PACKED_DOT:
      return packed_dot_is_right (output);
    default:
      return base_is_right (output);
    }
}

/* Asks for those checks that are in @which; FALSE when there was no answer. *refused
 * tells whether that was for the kernel. */
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
  const gsize size = 2 * N * sizeof (guint32);
  const char *label = checks[which[0]].label;
  g_autofree char *text = make_text (which, n);
  RlxGpuPipelineDesc desc = { label, text, kinds, n + 1 };
  RlxGpuBuffer *buffers[G_N_ELEMENTS (checks) + 1] = { NULL };
  RlxGpuBinding bindings[G_N_ELEMENTS (checks) + 1];
  RlxGpuDownload downloads[G_N_ELEMENTS (checks)];
  guint32 data[G_N_ELEMENTS (checks)][2 * N] = { 0 };
  guint32 values[N];
  RlxGpuUpload upload;
  RlxGpuDispatch dispatch;
  RlxGpuJob job = { .uploads = &upload, .n_uploads = 1, .dispatches = &dispatch, .n_dispatches = 1 };
  RlxGpuPipeline *pipeline;
  RlxGpuBindGroup *group = NULL;
  gboolean result = FALSE;

  G_STATIC_ASSERT (G_N_ELEMENTS (kinds) == G_N_ELEMENTS (checks) + 1);

  *refused = FALSE;
  for (guint i = 0; i < N; i++)
    values[i] = input_value (i);
  for (guint i = 0; i <= n; i++)
    {
      buffers[i] = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, label, error);
      if (buffers[i] == NULL)
        goto out;
      bindings[i] = (RlxGpuBinding) { buffers[i], 0, size };
    }

  if (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipeline, NULL, NULL, error))
    group = rlx_gpu_bind_group_new (gpu, pipeline, bindings, n + 1, label, error);
  if (group == NULL)
    {
      *refused = !rlx_gpu_is_lost (gpu);
      goto out;
    }

  upload = (RlxGpuUpload) { buffers[0], 0, values, sizeof values };
  dispatch = (RlxGpuDispatch) { pipeline, group, { 1, 1, 1 }, 0.0 };
  for (guint i = 0; i < n; i++)
    downloads[i] = (RlxGpuDownload) { buffers[i + 1], 0, size, data[i] };
  job.downloads = downloads;
  job.n_downloads = n;
  result = rlx_gpu_execute (gpu, &job, NULL, error);
  for (guint i = 0; i < n; i++)
    right[i] = is_right (&checks[which[i]], data[i]);

out:
  rlx_gpu_bind_group_free (group);
  for (guint i = 0; i <= n; i++)
    rlx_gpu_buffer_free (buffers[i]);

  return result;
}

/* All at once: one kernel is compiled much faster than four. FALSE without an error
 * when an answer was wrong. */
static gboolean
ask_all (RlxGpu           *gpu,
         RlxDeviceFeatures features,
         gboolean         *refused,
         GError          **error)
{
  guint which[G_N_ELEMENTS (checks)], n = 0;
  gboolean right[G_N_ELEMENTS (checks)], result;

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if ((checks[i].feature & ~features) == 0)
      which[n++] = i;

  result = ask (gpu, which, n, right, refused, error);
  for (guint i = 0; result && i < n; i++)
    result = right[i];

  return result;
}

static void
set_wrong (GError **error)
{
  g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                       "it gives wrong answers to known questions");
}

/* A check that cannot be made or is answered wrongly takes its feature with it. */
static gboolean
ask_each (RlxGpu            *gpu,
          RlxDeviceFeatures *features,
          GError           **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      g_autoptr (GError) local_error = NULL;
      gboolean right = FALSE, refused;

      if ((checks[i].feature & ~*features) != 0)
        continue;
      if (!ask (gpu, &i, 1, &right, &refused, &local_error) && (!refused || checks[i].feature == RLX_DEVICE_FEATURES_NONE))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (right)
        continue;

      if (checks[i].feature == RLX_DEVICE_FEATURES_NONE)
        {
          set_wrong (error);
          return FALSE;
        }
      RLX_NOTE (DEVICE, "%s: %s", checks[i].label, local_error != NULL ? local_error->message : "wrong");
      *features &= ~checks[i].feature;
    }

  if (!(*features & RLX_DEVICE_FEATURES_SUBGROUPS))
    *features &= ~RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;

  return TRUE;
}

gboolean
rlx_gpu_known_answers (RlxGpu            *gpu,
                       RlxDeviceFeatures *features,
                       GError           **error)
{
  g_autoptr (GError) local_error = NULL;
  RlxDeviceFeatures before = *features;
  gboolean refused;

  if (ask_all (gpu, *features, &refused, &local_error))
    return TRUE;

  if (refused || local_error == NULL)
    {
      g_clear_error (&local_error);
      if (ask_each (gpu, features, &local_error))
        {
          if (refused || *features != before)
            return TRUE;
          /* Who is right only sometimes is not to be trusted. */
          set_wrong (&local_error);
        }
    }

  /* What may pass keeps its code; an adapter that cannot compute is none. */
  g_set_error (error, RLX_DEVICE_ERROR,
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST) ||
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT) ||
               g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY)
                 ? local_error->code : RLX_DEVICE_ERROR_NO_ADAPTER,
               "The adapter “%s” (%s) cannot be used: %s",
               gpu->info->name, gpu->info->driver, local_error->message);
  return FALSE;
}
