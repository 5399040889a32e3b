/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "workloads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Alignment of tensors in a file, for contenders that map it. */
#define ALIGNMENT 4096

/* In a sum of K products of numbers below 1, partial sums are of size √K / 3, and K
 * roundings of random sign make an error of about K / 3 · 2⁻²⁴. Eight times K is far more
 * than chance produces, and far less than a wrong kernel does. */
#define SUM(k) (8.0 * (k) / 16777216.0)
/* The same if a result of up to 5 √K / 3 is rounded to 11 bits. */
#define SUM_F16(k, root) (SUM (k) + 5.0 * (root) / 3.0 / 2048.0)
/* And if every partial sum is. */
#define F16_SUM(k) (8.0 * (k) / 4096.0)
/* Sums with an error of √K · 2⁻²⁴, some 30 or 60 of them in sequence, each of which a
 * layer norm or a softmax may double: the results are of size 1. */
#define ENCODER_TOLERANCE 2e-4

/* 2⁻²⁴ · (1 + log₂ n) is a bound of the mean error of a transform; that of a single
 * element may be eight times as large. Numbers below 1 have a mean square of 1/3. */
#define TRANSFORM(n, log_n, root) (8.0 / 16777216.0 * (1 + (log_n)) * 0.82 * (root))

#define MINILM(batch) { batch, 128, 384, 12, 1536, 6, 30522 }
#define BERT_BASE(batch) { batch, 128, 768, 12, 3072, 12, 30522 }

const BenchWorkload bench_workloads[] = {
  { "tiny-roundtrip", BENCH_TINY, .size = { 16 }, .what = "16 numbers there and back" },
  { "chain-100", BENCH_TINY, BENCH_CHAIN, .size = { 16 }, .data = "tiny-roundtrip",
    .what = "100 such runs that stay on the device, and one fetch" },
  { "apply", BENCH_TINY, BENCH_APPLY, .size = { 16 }, .data = "tiny-roundtrip",
    .what = "the same operator by rlx_device_apply(), there and back" },

  { "matmul-512", BENCH_MATMUL, .size = { 512, 512, 512 }, .tolerance = SUM (512), .what = "[512, 512] × [512, 512]" },
  { "matmul-1024", BENCH_MATMUL, .size = { 1024, 1024, 1024 }, .tolerance = SUM (1024), .what = "[1024, 1024] × [1024, 1024]" },
  { "matmul-384x384x1536", BENCH_MATMUL, .size = { 384, 384, 1536 }, .tolerance = SUM (384), .what = "[384, 384] × [384, 1536]" },
  { "matmul-128x768x3072", BENCH_MATMUL, .size = { 128, 768, 3072 }, .tolerance = SUM (768), .what = "[128, 768] × [768, 3072]" },
  { "matmul-500x499x501", BENCH_MATMUL, .size = { 500, 499, 501 }, .tolerance = SUM (499), .what = "[500, 499] × [499, 501]" },
  { "matmul-512-f16", BENCH_MATMUL, .type = BENCH_F16, .size = { 512, 512, 512 }, .tolerance = SUM_F16 (512, 22.6), .f16_sums_tolerance = F16_SUM (512),
    .what = "[512, 512] × [512, 512] in f16" },
  { "gemv-4096-f32", BENCH_MATMUL, .size = { 1, 4096, 4096 }, .tolerance = SUM (4096), .what = "[1, 4096] × [4096, 4096]" },
  { "gemv-4096-f16", BENCH_MATMUL, .type = BENCH_F16, .size = { 1, 4096, 4096 }, .tolerance = SUM_F16 (4096, 64), .f16_sums_tolerance = F16_SUM (4096),
    .what = "[1, 4096] × [4096, 4096] in f16" },

  { "matmul-q4k", BENCH_PACKED, .size = { 128, 2048, 2048 }, .tolerance = SUM (2048),
    .what = "[128, 2048] × [2048, 2048] packed as q4_k" },
  { "gemv-q4k", BENCH_PACKED, .size = { 1, 4096, 4096 }, .tolerance = SUM (4096), .what = "[1, 4096] × [4096, 4096] packed as q4_k" },

  { "bert-layer", BENCH_ENCODER, .size = { 1, 128, 768, 12, 3072, 1, 1000 }, .tolerance = ENCODER_TOLERANCE,
    .what = "one layer of width 768, 128 tokens" },
  { "minilm-b1", BENCH_ENCODER, .size = MINILM (1), .weights = "minilm", .tolerance = ENCODER_TOLERANCE,
    .what = "6 layers of width 384, 128 tokens" },
  { "minilm-b8", BENCH_ENCODER, .size = MINILM (8), .weights = "minilm", .tolerance = ENCODER_TOLERANCE,
    .what = "the same, 8 times 128 tokens" },
  { "bert-base-b1", BENCH_ENCODER, .size = BERT_BASE (1), .tolerance = ENCODER_TOLERANCE,
    .what = "12 layers of width 768, 128 tokens" },

  /* Averages of values below 1. */
  { "attention-128", BENCH_ATTENTION, .size = { 8, 64, 128, 128 }, .tolerance = 1e-5, .what = "8 heads of 64, 128 queries, 128 keys" },
  { "attention-1024", BENCH_ATTENTION, .size = { 8, 64, 1024, 1024 }, .tolerance = 1e-5, .what = "8 heads of 64, 1024 queries, 1024 keys" },
  { "attention-4096", BENCH_ATTENTION, .size = { 8, 64, 4096, 4096 }, .tolerance = 1e-5, .what = "8 heads of 64, 4096 queries, 4096 keys" },
  { "attention-1x128", BENCH_ATTENTION, .size = { 8, 64, 1, 128 }, .tolerance = 1e-5, .what = "8 heads of 64, 1 query, 128 keys" },
  { "attention-1x1024", BENCH_ATTENTION, .size = { 8, 64, 1, 1024 }, .tolerance = 1e-5, .what = "8 heads of 64, 1 query, 1024 keys" },
  { "attention-1x4096", BENCH_ATTENTION, .size = { 8, 64, 1, 4096 }, .tolerance = 1e-5, .what = "8 heads of 64, 1 query, 4096 keys" },

  /* Results of at most e / 1024. */
  { "softmax", BENCH_SOFTMAX, .size = { 1024, 1024 }, .tolerance = 2e-8, .what = "of 1024 rows of 1024" },
  { "layer-norm", BENCH_LAYER_NORM, .size = { 1024, 768 }, .tolerance = 1e-5, .what = "of 1024 rows of 768" },
  { "elementwise", BENCH_ELEMENTWISE, .size = { 1024, 1024 }, .tolerance = 1e-5, .what = "8 operators on 1024 × 1024" },
  { "transpose", BENCH_TRANSPOSE, .size = { 1024, 2048 }, .what = "of 1024 × 2048" },
  { "reduce", BENCH_REDUCE, .size = { 1024, 2048 }, .tolerance = SUM (2048), .what = "sums of 1024 rows of 2048" },
  { "gather", BENCH_GATHER, .size = { 30000, 384, 512 }, .what = "512 of 30000 rows of 384" },
  /* Sums of 576 products, of size 1. */
  { "conv3x3", BENCH_CONV, .size = { 64, 56 }, .tolerance = SUM (24), .what = "64 to 64 channels, 56 × 56" },
  { "resnet-block", BENCH_RESNET_BLOCK, .size = { 64, 56 }, .tolerance = SUM (48), .what = "two such with ReLU, and a residual" },

  { "fft-512", BENCH_FFT, BENCH_STAY, .size = { 1024, 512 }, .tolerance = TRANSFORM (512, 9, 22.6), .f16_sums_tolerance = SUM (512), .what = "1024 complex transforms of 512" },
  { "fft-1000", BENCH_FFT, BENCH_STAY, .size = { 1024, 1000 }, .tolerance = TRANSFORM (1000, 10, 31.6), .f16_sums_tolerance = SUM (1000), .what = "1024 complex transforms of 1000" },
  { "fft-1024", BENCH_FFT, BENCH_STAY, .size = { 1024, 1024 }, .tolerance = TRANSFORM (1024, 10, 32), .what = "1024 complex transforms of 1024" },
  { "fft-997", BENCH_FFT, BENCH_STAY, .size = { 1024, 997 }, .tolerance = TRANSFORM (997, 10, 31.6), .what = "1024 complex transforms of 997, a prime" },
  { "fft-65536", BENCH_FFT, BENCH_STAY, .size = { 16, 65536 }, .tolerance = TRANSFORM (65536, 16, 256), .what = "16 complex transforms of 65536" },
  { "fft-1048576", BENCH_FFT, BENCH_STAY, .size = { 1, 1048576 }, .tolerance = TRANSFORM (1048576, 20, 1024), .what = "a complex transform of 1048576" },
  /* The weakest of 24,000 powers is some 4e-5 of their mean, its root 6e-3, of which the error of an element is up to 4e-4. */
  { "log-mel", BENCH_LOG_MEL, BENCH_STAY, .size = { 480000, 80 }, .tolerance = 1e-4, .what = "80 bands of 30 s at 16 kHz, as Whisper" },
  /* States of size 1 remember some 20 steps. */
  { "selective-scan", BENCH_SCAN, BENCH_STAY, .size = { 1024, 1024, 16 }, .tolerance = SUM (64), .what = "1024 steps, 1024 channels, 16 states" },
  { "selective-scan-16k", BENCH_SCAN, BENCH_STAY, .size = { 16384, 1024, 16 }, .tolerance = SUM (64), .what = "16384 steps, 1024 channels, 16 states" },
  { "delta-net", BENCH_DELTA_NET, BENCH_STAY, .size = { 1024, 8, 64 }, .tolerance = SUM (128), .what = "1024 steps, 8 heads of 64 × 64" },
  { "delta-net-16k", BENCH_DELTA_NET, BENCH_STAY, .size = { 16384, 8, 64 }, .tolerance = SUM (128), .what = "16384 steps, 8 heads of 64 × 64" },
  { "knn", BENCH_KNN, BENCH_STAY, .size = { 10000, 64, 15 }, .tolerance = SUM (64), .what = "15 nearest of 10000 points in 64 dimensions" },
  { "top-k-15", BENCH_TOP_K, BENCH_STAY, .size = { 1000, 10000, 15 }, .what = "15 of each of 1000 rows of 10000" },
  { "top-k-40", BENCH_TOP_K, BENCH_STAY, .size = { 1, 128000, 40 }, .what = "40 of a row of 128000" },
  { "top-k-8", BENCH_TOP_K, BENCH_STAY, .size = { 1024, 256, 8 }, .what = "8 of each of 1024 rows of 256" },

  { "cold-start-tiny", BENCH_TINY, BENCH_START, TRUE, .size = { 16 }, .data = "tiny-roundtrip",
    .what = "process to first result, nothing cached" },
  { "warm-start-tiny", BENCH_TINY, BENCH_START, .size = { 16 }, .data = "tiny-roundtrip",
    .what = "the same, with what the last start left in caches" },
  { "cold-start-minilm", BENCH_ENCODER, BENCH_START, TRUE, .size = MINILM (1), .data = "minilm-b1", .weights = "minilm",
    .tolerance = ENCODER_TOLERANCE, .what = "process to first result, nothing cached" },
  { "warm-start-minilm", BENCH_ENCODER, BENCH_START, .size = MINILM (1), .data = "minilm-b1", .weights = "minilm",
    .tolerance = ENCODER_TOLERANCE, .what = "the same, with what the last start left in caches" },
  { "compile-minilm", BENCH_ENCODER, BENCH_COMPILE, TRUE, .size = MINILM (1), .data = "minilm-b1", .weights = "minilm",
    .tolerance = ENCODER_TOLERANCE, .what = "nothing cached" },
  { "compile-minilm-warm", BENCH_ENCODER, BENCH_COMPILE, .size = MINILM (1), .data = "minilm-b1", .weights = "minilm",
    .tolerance = ENCODER_TOLERANCE, .what = "the same, from caches" },

  { "web-encoder", BENCH_ENCODER, BENCH_WEB, .size = { 1, 48, 128, 4, 512, 2, 1000 }, .tolerance = ENCODER_TOLERANCE,
    .what = "in JavaScript: 2 layers of width 128, 48 tokens, as `rlx demo`" },
  { "web-minilm", BENCH_ENCODER, BENCH_WEB, .size = MINILM (1), .data = "minilm-b1", .weights = "minilm",
    .tolerance = ENCODER_TOLERANCE, .what = "in JavaScript: 6 layers of width 384, 128 tokens" },

  { "memory-copy", BENCH_COPY, .size = { 1 << 26 }, .what = "256 MiB, by all processors" },
};
const gsize bench_n_workloads = G_N_ELEMENTS (bench_workloads);

const BenchWorkload *
bench_find_workload (const char *name)
{
  for (gsize i = 0; i < bench_n_workloads; i++)
    if (g_str_equal (bench_workloads[i].name, name))
      return &bench_workloads[i];
  return NULL;
}

const char *
bench_data_name (const BenchWorkload *self)
{
  return self->data ? self->data : self->name;
}

char *
bench_file_name (const BenchWorkload *self,
                 BenchRole            role)
{
  switch (role)
    {
    case BENCH_INPUT:
      return g_strconcat (bench_data_name (self), ".inputs", NULL);
    case BENCH_OUTPUT:
      return g_strconcat (bench_data_name (self), ".expected", NULL);
    case BENCH_CONSTANT:
    case BENCH_DERIVED:
    default:
      return g_strconcat (self->weights ? self->weights : bench_data_name (self), ".weights", NULL);
    }
}

gsize
bench_tensor_count (const BenchTensor *self)
{
  gsize n = 1;

  for (gsize i = 0; i < self->n_dims; i++)
    n *= (gsize) self->shape[i];
  return n;
}

gsize
bench_tensor_size (const BenchTensor *self)
{
  if (self->type == BENCH_Q4_K)
    return bench_tensor_count (self) / BENCH_Q4_K_NUMBERS * BENCH_Q4_K_BYTES;
  return bench_tensor_count (self) * (self->type == BENCH_F16 ? 2 : 4);
}

const char *
bench_type_name (BenchType type)
{
  static const char *const names[] = { "f32", "f16", "i32", "q4_k" };

  return names[type];
}

/* ---- contents of the files ----------------------------------------------------- */

typedef struct
{
  GArray *tensors;
  gsize ends[BENCH_OUTPUT + 1];
} List;

static BenchTensor *
add (List        *self,
     BenchRole    role,
     BenchType    type,
     double       low,
     double       high,
     gsize        n_dims,
     const gint64 shape[],
     const char  *name)
{
  BenchTensor tensor = { .role = role, .type = type, .n_dims = n_dims, .low = low, .high = high };
  gsize *end = &self->ends[role == BENCH_DERIVED ? BENCH_CONSTANT : role];

  g_strlcpy (tensor.name, name, sizeof tensor.name);
  memcpy (tensor.shape, shape, n_dims * sizeof shape[0]);
  tensor.offset = *end;
  *end += (bench_tensor_size (&tensor) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  g_array_append_val (self->tensors, tensor);
  return &g_array_index (self->tensors, BenchTensor, self->tensors->len - 1);
}

#define ADD(list, role, type, low, high, name, ...) \
  add (list, role, type, low, high, G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ })), (const gint64[]) { __VA_ARGS__ }, name)

static void
add_weight (List       *self,
            const char *prefix,
            const char *name,
            gint64      rows,
            gint64      columns)
{
  g_autofree char *weight = g_strdup_printf ("%s%s.weight", prefix, name), *bias = g_strdup_printf ("%s%s.bias", prefix, name);
  /* uniform, and scaled so that results are of the size of the operands */
  double limit = sqrt (3.0 / (double) rows);

  ADD (self, BENCH_CONSTANT, BENCH_F32, -limit, limit, weight, rows, columns);
  ADD (self, BENCH_CONSTANT, BENCH_F32, -0.1, 0.1, bias, columns);
}

static void
add_norm (List       *self,
          const char *prefix,
          const char *name,
          gint64      width)
{
  g_autofree char *scale = g_strdup_printf ("%s%s.scale", prefix, name), *bias = g_strdup_printf ("%s%s.bias", prefix, name);

  ADD (self, BENCH_CONSTANT, BENCH_F32, 0.9, 1.1, scale, width);
  ADD (self, BENCH_CONSTANT, BENCH_F32, -0.1, 0.1, bias, width);
}

static void
add_encoder (List         *self,
             const gint64 *size)
{
  const gint64 batch = size[0], sequence = size[1], width = size[2], hidden = size[4], layers = size[5], vocabulary = size[6];

  ADD (self, BENCH_INPUT, BENCH_I32, 0, (double) vocabulary, "tokens", batch, sequence);
  ADD (self, BENCH_CONSTANT, BENCH_F32, -1, 1, "words", vocabulary, width);
  ADD (self, BENCH_CONSTANT, BENCH_F32, -0.5, 0.5, "positions", sequence, width);
  add_norm (self, "", "norm", width);
  for (gint64 i = 0; i < layers; i++)
    {
      g_autofree char *prefix = g_strdup_printf ("%d.", (int) i);

      add_weight (self, prefix, "query", width, width);
      add_weight (self, prefix, "key", width, width);
      add_weight (self, prefix, "value", width, width);
      add_weight (self, prefix, "out", width, width);
      add_norm (self, prefix, "norm1", width);
      add_weight (self, prefix, "up", width, hidden);
      add_weight (self, prefix, "down", hidden, width);
      add_norm (self, prefix, "norm2", width);
    }
  /* Query, key and value concatenated. */
  for (gint64 i = 0; i < layers; i++)
    {
      g_autofree char *weight = g_strdup_printf ("%d.qkv.weight", (int) i), *bias = g_strdup_printf ("%d.qkv.bias", (int) i);

      ADD (self, BENCH_DERIVED, BENCH_F32, 0, 0, weight, width, 3 * width);
      ADD (self, BENCH_DERIVED, BENCH_F32, 0, 0, bias, 3 * width);
    }
  ADD (self, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", batch, sequence, width);
}

GArray *
bench_list_tensors (const BenchWorkload *self)
{
  const gint64 *size = self->size;
  List list = { .tensors = g_array_new (FALSE, FALSE, sizeof (BenchTensor)) };

  switch (self->family)
    {
    case BENCH_MATMUL:
      ADD (&list, BENCH_INPUT, self->type, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_CONSTANT, self->type, -1, 1, "w", size[1], size[2]);
      ADD (&list, BENCH_OUTPUT, self->type, 0, 0, "y", size[0], size[2]);
      break;
    case BENCH_PACKED:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      /* for results of size 1 */
      ADD (&list, BENCH_CONSTANT, BENCH_Q4_K, 0x1p-13, 0x1p-12, "w", size[2], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[2]);
      break;
    case BENCH_ENCODER:
      add_encoder (&list, size);
      break;
    case BENCH_ATTENTION:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "q", 1, size[0], size[2], size[1]);
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "k", 1, size[0], size[3], size[1]);
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "v", 1, size[0], size[3], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", 1, size[0], size[2], size[1]);
      break;
    case BENCH_SOFTMAX:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[1]);
      break;
    case BENCH_LAYER_NORM:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      add_norm (&list, "", "norm", size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[1]);
      break;
    case BENCH_ELEMENTWISE:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_CONSTANT, BENCH_F32, -1, 1, "scale", size[1]);
      ADD (&list, BENCH_CONSTANT, BENCH_F32, -1, 1, "bias", size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[1]);
      break;
    case BENCH_TRANSPOSE:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[1], size[0]);
      break;
    case BENCH_REDUCE:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0]);
      break;
    case BENCH_GATHER:
      ADD (&list, BENCH_INPUT, BENCH_I32, 0, (double) size[0], "indices", size[2]);
      ADD (&list, BENCH_CONSTANT, BENCH_F32, -1, 1, "table", size[0], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[2], size[1]);
      break;
    case BENCH_CONV:
    case BENCH_RESNET_BLOCK:
      {
        double limit = sqrt (3.0 / (9.0 * (double) size[0]));

        ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", 1, size[0], size[1], size[1]);
        ADD (&list, BENCH_CONSTANT, BENCH_F32, -limit, limit, "filter", size[0], size[0], 3, 3);
        ADD (&list, BENCH_CONSTANT, BENCH_F32, -0.1, 0.1, "bias", size[0]);
        if (self->family == BENCH_RESNET_BLOCK)
          {
            ADD (&list, BENCH_CONSTANT, BENCH_F32, -limit, limit, "filter2", size[0], size[0], 3, 3);
            ADD (&list, BENCH_CONSTANT, BENCH_F32, -0.1, 0.1, "bias2", size[0]);
          }
        ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", 1, size[0], size[1], size[1]);
      }
      break;
    case BENCH_FFT:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1], 2);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[1], 2);
      break;
    case BENCH_LOG_MEL:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[1], size[0] / 160);
      break;
    case BENCH_SCAN:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", 1, size[0], size[1]);
      ADD (&list, BENCH_INPUT, BENCH_F32, 0.001, 0.1, "delta", 1, size[0], size[1]);
      ADD (&list, BENCH_INPUT, BENCH_F32, -16, -1, "rate", size[1], size[2]);
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "key", 1, size[0], size[2]);
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "query", 1, size[0], size[2]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", 1, size[0], size[1]);
      break;
    case BENCH_DELTA_NET:
      {
        /* keys of length about 1 */
        double limit = sqrt (3.0 / (double) size[2]);

        ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "query", 1, size[0], size[1], size[2]);
        ADD (&list, BENCH_INPUT, BENCH_F32, -limit, limit, "key", 1, size[0], size[1], size[2]);
        ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "value", 1, size[0], size[1], size[2]);
        ADD (&list, BENCH_INPUT, BENCH_F32, -0.1, 0, "decay", 1, size[0], size[1]);
        ADD (&list, BENCH_INPUT, BENCH_F32, 0, 1, "beta", 1, size[0], size[1]);
        ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", 1, size[0], size[1], size[2]);
      }
      break;
    case BENCH_KNN:
    case BENCH_TOP_K:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0], size[1]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0], size[2]);
      break;
    case BENCH_TINY:
      ADD (&list, BENCH_INPUT, BENCH_F32, -1, 1, "x", size[0]);
      ADD (&list, BENCH_OUTPUT, BENCH_F32, 0, 0, "y", size[0]);
      break;
    case BENCH_COPY:
    default:
      break;
    }
  return list.tensors;
}

const BenchTensor *
bench_find_tensor (GArray     *tensors,
                   const char *name)
{
  for (guint i = 0; i < tensors->len; i++)
    if (g_str_equal (g_array_index (tensors, BenchTensor, i).name, name))
      return &g_array_index (tensors, BenchTensor, i);
  return NULL;
}

double
bench_count_flops (const BenchWorkload *self)
{
  const gint64 *size = self->size;

  switch (self->family)
    {
    case BENCH_MATMUL:
    case BENCH_PACKED:
      return 2.0 * (double) (size[0] * size[1] * size[2]);
    case BENCH_ENCODER:
      {
        /* four projections, the two of the feed-forward network, scores and the weighted sum */
        double tokens = (double) (size[0] * size[1]), width = (double) size[2];

        return tokens * (double) size[5] * width * (8 * width + 4.0 * (double) size[4] + 4.0 * (double) size[1]);
      }
    case BENCH_ATTENTION:
      return 4.0 * (double) (size[0] * size[1] * size[2] * size[3]);
    case BENCH_CONV:
      return 18.0 * (double) (size[0] * size[0] * size[1] * size[1]);
    case BENCH_RESNET_BLOCK:
      return 36.0 * (double) (size[0] * size[0] * size[1] * size[1]);
    case BENCH_KNN:
      return 2.0 * (double) (size[0] * size[0] * size[1]);
    case BENCH_SOFTMAX:
    case BENCH_LAYER_NORM:
    case BENCH_ELEMENTWISE:
    case BENCH_TRANSPOSE:
    case BENCH_REDUCE:
    case BENCH_GATHER:
    case BENCH_FFT:
    case BENCH_LOG_MEL:
    case BENCH_SCAN:
    case BENCH_DELTA_NET:
    case BENCH_TOP_K:
    case BENCH_TINY:
    case BENCH_COPY:
    default:
      return 0;
    }
}

double
bench_count_bytes (const BenchWorkload *self)
{
  g_autoptr(GArray) tensors = bench_list_tensors (self);
  double bytes = 0;

  if (self->family == BENCH_COPY)
    return 8.0 * (double) self->size[0];
  for (guint i = 0; i < tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (tensors, BenchTensor, i);

      /* Only some rows of a table are read: as much as is written. */
      if (g_str_equal (tensor->name, "table"))
        bytes += 4.0 * (double) (self->size[1] * self->size[2]);
      else if (g_str_equal (tensor->name, "words"))
        bytes += 4.0 * (double) (self->size[0] * self->size[1] * self->size[2]);
      else if (tensor->role != BENCH_DERIVED)
        bytes += (double) bench_tensor_size (tensor);
    }
  return bytes;
}

/* ---- shared by contenders -------------------------------------------------------- */

static int
compare_doubles (const void *a,
                 const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

/* The processor time of all threads of this process, in ms. */
static double
cpu_time (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-3;
}

static double cpu_start, cpu_end;
static gsize n_together = 1;   /* runs that are timed as one */

void
bench_set_runs_together (gsize n_runs)
{
  n_together = n_runs;
}

double
bench_median (double *times,
              gsize   n_times)
{
  qsort (times, n_times, sizeof (double), compare_doubles);
  return (times[(n_times - 1) / 2] + times[n_times / 2]) / 2;
}

void
bench_print_times (double     *times,
                   gsize       n_times,
                   const char *more)
{
  char number[2][G_ASCII_DTOSTR_BUF_SIZE];

  g_ascii_formatd (number[0], sizeof number[0], "%.6f", bench_median (times, n_times));
  g_print ("{\"ms\": %s, \"runs\": %" G_GSIZE_FORMAT, number[0], n_times);
  if (cpu_end > 0)
    {
      g_ascii_formatd (number[1], sizeof number[1], "%.6f", (cpu_end - cpu_start) / (double) (n_times * n_together));
      g_print (", \"cpu_ms\": %s", number[1]);
    }
  g_print ("%s%s}\n", more ? ", " : "", more ? more : "");
}

gboolean
bench_warm_up (gint64 start,
               gsize  n_runs)
{
  return n_runs < 2 && g_get_monotonic_time () - start < G_USEC_PER_SEC;
}

gboolean
bench_continue (gint64 start,
                double seconds,
                gsize  n_times)
{
  double passed = (double) (g_get_monotonic_time () - start) * 1e-6;

  if (n_times == 0)
    cpu_start = cpu_time ();
  /* For slow workloads, few runs are as significant as many. */
  if (n_times < 3 || (n_times < BENCH_MAX_RUNS && passed < (n_times < 7 ? 4 * seconds : seconds)))
    return TRUE;
  cpu_end = cpu_time ();
  return FALSE;
}

gboolean
bench_write_floats (const char  *path,
                    const float *values,
                    gsize        n_values)
{
  g_autoptr(GError) error = NULL;

  if (path == NULL || g_file_set_contents_full (path, (const char *) values, (gssize) (n_values * sizeof (float)),
                                                G_FILE_SET_CONTENTS_NONE, 0666, &error))
    return TRUE;
  g_printerr ("%s: %s\n", g_get_prgname (), error->message);
  return FALSE;
}

/* ---- memory ---- */

typedef struct
{
  float *to;
  const float *from;
  gsize n;
} Part;

static gpointer
copy_part (gpointer data)
{
  Part *part = data;

  memcpy (part->to, part->from, part->n * sizeof (float));
  return NULL;
}

void
bench_copy (float       *to,
            const float *from,
            gsize        n)
{
  guint n_parts = MIN (g_get_num_processors (), 64);
  Part parts[64];
  GThread *threads[64];

  for (guint i = 0; i < n_parts; i++)
    {
      gsize first = n * i / n_parts;

      parts[i] = (Part) { to + first, from + first, n * (i + 1) / n_parts - first };
      threads[i] = g_thread_new ("copy", copy_part, &parts[i]);
    }
  for (guint i = 0; i < n_parts; i++)
    g_thread_join (threads[i]);
}
