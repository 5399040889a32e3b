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

/* Wrapping integers, shifts, and floats whose results are exact in any order
 * and with or without a fused multiply-add. */
static const char base_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  let i = id.x;\n"
  "  let x = a[i];\n"
  "  let h = (x * 2654435761u) ^ (x >> 7u);\n"
  "  let f = f32(x & 255u) * 0.5 - 16.0;\n"
  "  b[i * 2u] = h;\n"
  "  b[i * 2u + 1u] = bitcast<u32>(select(f * f + 0.25, f, (i & 1u) == 1u));\n"
  "}\n";

static const char f16_wgsl[] =
  "enable f16;\n"
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<f16>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  let i = id.x;\n"
  "  let f = f16(a[i] & 31u) * 0.5h - 4.0h;\n"
  "  b[i * 2u] = f;\n"
  "  b[i * 2u + 1u] = f16(f32(f) * 2.0 + 1.0);\n"
  "}\n";

/* Two answers per invocation: a sum over the subgroup and how many took part
 * in it, which do not depend on how large it is. The shuffle takes the first one's
 * value, by an index that a compiler does not see to be 0. */
static const char subgroups_wgsl[] =
  "enable subgroups;\n"
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>,\n"
  "                                     @builtin(subgroup_size) size : u32) {\n"
  "  let i = id.x;\n"
  "  let n = subgroupAdd(1u);\n"
  "  let sum = subgroupAdd(a[i]);\n"
  "  let same = subgroupAdd(subgroupShuffle(a[i], (i >> 6u)));\n"
  "  b[i * 2u] = select(0u, 1u, n <= size && n * subgroupBroadcastFirst(a[i]) == same);\n"
  "  b[i * 2u + 1u] = select(0u, sum, subgroupElect());\n"
  "}\n";

static const char packed_dot_wgsl[] =
  "@group(0) @binding(0) var<storage, read> a : array<u32>;\n"
  "@group(0) @binding(1) var<storage, read_write> b : array<u32>;\n"
  "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {\n"
  "  let i = id.x;\n"
  "  let other = a[63u - i];\n"
  "  b[i * 2u] = bitcast<u32>(dot4I8Packed(a[i], other));\n"
  "  b[i * 2u + 1u] = dot4U8Packed(a[i], other);\n"
  "}\n";

typedef struct
{
  RlxDeviceFeatures feature;
  const char *label;
  const char *wgsl;
} Check;

static const Check checks[] = {
  { RLX_DEVICE_FEATURES_NONE, "known answers", base_wgsl },
  { RLX_DEVICE_FEATURES_F16, "known answers in f16", f16_wgsl },
  { RLX_DEVICE_FEATURES_SUBGROUPS, "known answers of subgroups", subgroups_wgsl },
  { RLX_DEVICE_FEATURES_PACKED_DOT, "known answers of packed products", packed_dot_wgsl },
};

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

/* All at once is faster. Failures are not looked at: whoever asks for a
 * pipeline again gets its error again. */
static void
make_pipelines (RlxGpu                  *gpu,
                const RlxGpuBindingKind *kinds,
                guint                    n_kinds,
                RlxDeviceFeatures        features)
{
  RlxGpuPipelineDesc descs[G_N_ELEMENTS (checks)];
  RlxGpuPipeline *pipelines[G_N_ELEMENTS (checks)];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if ((checks[i].feature & ~features) == 0)
      descs[n++] = (RlxGpuPipelineDesc) { checks[i].label, checks[i].wgsl, kinds, n_kinds };

  rlx_gpu_pipelines_new (gpu, descs, n, pipelines, NULL, NULL, NULL);
}

/* Runs those checks whose pipelines could be made; one that cannot be made or
 * answers wrongly takes its feature with it. */
gboolean
rlx_gpu_known_answers (RlxGpu            *gpu,
                       RlxDeviceFeatures *features,
                       GError           **error)
{
  static const RlxGpuBindingKind kinds[] = { RLX_GPU_BINDING_READ, RLX_GPU_BINDING_READ_WRITE };
  const gsize size = 2 * N * sizeof (guint32);
  RlxGpuBuffer *input = NULL;
  RlxGpuBuffer *outputs[G_N_ELEMENTS (checks)] = { NULL };
  RlxGpuBindGroup *groups[G_N_ELEMENTS (checks)] = { NULL };
  RlxGpuPipeline *pipelines[G_N_ELEMENTS (checks)] = { NULL };
  RlxGpuDispatch dispatches[G_N_ELEMENTS (checks)] = { 0 };
  RlxGpuDownload downloads[G_N_ELEMENTS (checks)] = { 0 };
  guint32 data[G_N_ELEMENTS (checks)][2 * N] = { 0 };
  guint32 values[N];
  RlxGpuUpload upload = { 0 };
  RlxGpuJob job = { 0 };
  guint which[G_N_ELEMENTS (checks)];
  guint n = 0;
  gboolean result = FALSE;
  g_autoptr (GError) local_error = NULL;

  for (guint i = 0; i < N; i++)
    values[i] = input_value (i);

  input = rlx_gpu_buffer_new (gpu, sizeof values, RLX_GPU_BUFFER_STORAGE, "known questions", &local_error);
  if (input == NULL)
    goto out;

  make_pipelines (gpu, kinds, G_N_ELEMENTS (kinds), *features);

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      RlxGpuPipelineDesc desc = {
        .label = checks[i].label, .wgsl = checks[i].wgsl,
        .bindings = kinds, .n_bindings = G_N_ELEMENTS (kinds),
      };
      RlxGpuBinding bindings[] = { { input, 0, sizeof values }, { NULL, 0, size } };

      if ((checks[i].feature & ~*features) != 0)
        continue;

      g_clear_error (&local_error);
      outputs[i] = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, checks[i].label, &local_error);
      if (outputs[i] == NULL)
        goto out;

      bindings[1].buffer = outputs[i];
      if (rlx_gpu_pipelines_new (gpu, &desc, 1, &pipelines[i], NULL, NULL, &local_error))
        groups[i] = rlx_gpu_bind_group_new (gpu, pipelines[i], bindings, G_N_ELEMENTS (bindings),
                                            checks[i].label, &local_error);
      if (groups[i] == NULL)
        {
          if (checks[i].feature == RLX_DEVICE_FEATURES_NONE || rlx_gpu_is_lost (gpu))
            goto out;
          RLX_NOTE (DEVICE, "%s: %s", checks[i].label, local_error->message);
          *features &= ~checks[i].feature;
          continue;
        }

      dispatches[n] = (RlxGpuDispatch) { pipelines[i], groups[i], { 1, 1, 1 }, 0.0 };
      downloads[n] = (RlxGpuDownload) { outputs[i], 0, size, data[n] };
      which[n] = i;
      n++;
    }

  g_clear_error (&local_error);
  upload = (RlxGpuUpload) { input, 0, values, sizeof values };
  job.uploads = &upload;
  job.n_uploads = 1;
  job.dispatches = dispatches;
  job.n_dispatches = n;
  job.downloads = downloads;
  job.n_downloads = n;
  if (!rlx_gpu_execute (gpu, &job, NULL, &local_error))
    goto out;

  result = TRUE;
  for (guint i = 0; i < n; i++)
    {
      const Check *check = &checks[which[i]];

      if (is_right (check, data[i]))
        continue;

      if (check->feature == RLX_DEVICE_FEATURES_NONE)
        {
          g_set_error_literal (&local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                               "it gives wrong answers to known questions");
          result = FALSE;
          goto out;
        }
      RLX_NOTE (DEVICE, "%s: wrong", check->label);
      *features &= ~check->feature;
    }

  if (!(*features & RLX_DEVICE_FEATURES_SUBGROUPS))
    *features &= ~RLX_DEVICE_FEATURES_SUBGROUP_MATRIX;

out:
  /* What may pass keeps its code; an adapter that cannot compute is none. */
  if (!result)
    g_set_error (error, RLX_DEVICE_ERROR,
                 g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST) ||
                 g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT) ||
                 g_error_matches (local_error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY)
                   ? local_error->code : RLX_DEVICE_ERROR_NO_ADAPTER,
                 "The adapter “%s” (%s) cannot be used: %s",
                 gpu->info->name, gpu->info->driver, local_error->message);

  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    {
      rlx_gpu_bind_group_free (groups[i]);
      rlx_gpu_buffer_free (outputs[i]);
    }
  rlx_gpu_buffer_free (input);

  return result;
}
