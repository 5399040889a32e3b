/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Makes the numbers that all contenders get, and what should come out, in
 * double precision by plain loops that know nothing of any of them.
 *
 *   rlx-bench-data --manifest
 *   rlx-bench-data FOLDER WORKLOAD…
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workloads.h"

/* ---- numbers ------------------------------------------------------------------- */

/* The n-th of a sequence of random numbers: stateless, so that order does not matter. */
static guint64
random_bits (guint64 seed,
             guint64 n)
{
  guint64 x = seed + (n + 1) * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static guint64
make_seed (const char *file,
           const char *tensor)
{
  guint64 seed = G_GUINT64_CONSTANT (0xcbf29ce484222325);

  for (const char *p = file; *p; p++)
    seed = (seed ^ (guint8) *p) * G_GUINT64_CONSTANT (0x100000001b3);
  for (const char *p = tensor; *p; p++)
    seed = (seed ^ (guint8) *p) * G_GUINT64_CONSTANT (0x100000001b3);
  return seed;
}

/* For numbers between -2 and 2, rounded to nearest even. */
static guint16
half_from_double (double value)
{
  guint16 sign = signbit (value) ? 0x8000 : 0;
  int exponent;
  double mantissa = frexp (fabs (value), &exponent);

  if (exponent < -13)
    return (guint16) (sign | (guint16) rint (ldexp (fabs (value), 24)));
  return (guint16) (sign | (((exponent + 14) << 10) + (int) rint (mantissa * 2048) - 1024));
}

static double
double_from_half (guint16 bits)
{
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent > 0 ? ldexp (mantissa + 1024, exponent - 25) : ldexp (mantissa, -24);

  return bits & 0x8000 ? -value : value;
}

/* Blocks of GGUF's q4_k: two halves, which scale the scales and offsets; 6-bit scales and offsets of 8 groups of 32
 * numbers; 4-bit numbers. The offsets centre the numbers. */
static void
fill_q4_k (const BenchTensor *tensor,
           guint64            seed,
           guint8            *to)
{
  gsize n = bench_tensor_size (tensor);

  for (gsize i = 0; i < n; i++)
    to[i] = (guint8) (random_bits (seed, i) >> 56);
  for (gsize i = 0; i < n; i += BENCH_Q4_K_BYTES)
    {
      double scale = tensor->low + (double) to[i] / 256 * (tensor->high - tensor->low);
      guint16 halves[] = { GUINT16_TO_LE (half_from_double (scale)), GUINT16_TO_LE (half_from_double (7.5 * scale)) };

      memcpy (to + i, halves, sizeof halves);
    }
}

static void
unpack_q4_k (const guint8 *from,
             gsize         n,
             double       *to)
{
  for (gsize i = 0; i < n; i += BENCH_Q4_K_NUMBERS, from += BENCH_Q4_K_BYTES)
    {
      const guint8 *six = from + 4, *four = from + 16;
      double scale = double_from_half ((guint16) (from[0] | from[1] << 8)), offset = double_from_half ((guint16) (from[2] | from[3] << 8));

      for (gsize j = 0; j < BENCH_Q4_K_NUMBERS; j++)
        {
          /* The last four groups have their low bits together, and the high ones above those of the first four. */
          gsize group = j / 32;
          int a = group < 4 ? six[group] & 63 : (six[group + 4] & 15) | six[group - 4] >> 6 << 4;
          int b = group < 4 ? six[group + 4] & 63 : six[group + 4] >> 4 | six[group] >> 6 << 4;
          int number = four[group / 2 * 32 + j % 32] >> (group % 2 * 4) & 15;

          to[i + j] = scale * a * number - offset * b;
        }
    }
}

static void
fill (const BenchTensor *tensor,
      const char        *file,
      guint8            *to)
{
  guint64 seed = make_seed (file, tensor->name);
  gsize n = bench_tensor_count (tensor);

  if (tensor->type == BENCH_Q4_K)
    {
      fill_q4_k (tensor, seed, to);
      return;
    }
  for (gsize i = 0; i < n; i++)
    {
      /* 24 bits, all of which fit into a float */
      double value = tensor->low + (double) (random_bits (seed, i) >> 40) / 16777216.0 * (tensor->high - tensor->low);

      if (tensor->type == BENCH_I32)
        ((gint32 *) to)[i] = (gint32) floor (value);
      else if (tensor->type == BENCH_F16)
        ((guint16 *) to)[i] = half_from_double (value);
      else
        ((float *) to)[i] = (float) value;
    }
}

/* ---- files ----------------------------------------------------------------------- */

typedef struct
{
  const BenchWorkload *workload;
  GArray *tensors;
  guint8 *files[BENCH_OUTPUT + 1];   /* by role */
  gsize sizes[BENCH_OUTPUT + 1];
} Data;

static gboolean
fail (const char *path)
{
  g_printerr ("rlx-bench-data: %s: %s\n", path, g_strerror (errno));
  return FALSE;
}

static guint8 *
find_data (const Data *self,
           const char *name)
{
  const BenchTensor *tensor = bench_find_tensor (self->tensors, name);

  return self->files[tensor->role] + tensor->offset;
}

/* Concatenates the weights of three projections. */
static void
fill_derived (Data        *self,
              BenchTensor *tensor)
{
  static const char *const parts[] = { "query", "key", "value" };
  gsize rows = tensor->n_dims == 2 ? (gsize) tensor->shape[0] : 1, width = (gsize) tensor->shape[tensor->n_dims - 1] / 3;
  float *to = (float *) (self->files[BENCH_CONSTANT] + tensor->offset);
  int layer = atoi (tensor->name);

  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autofree char *name = g_strdup_printf ("%d.%s.%s", layer, parts[i], tensor->n_dims == 2 ? "weight" : "bias");
      const float *from = (const float *) find_data (self, name);

      for (gsize row = 0; row < rows; row++)
        memcpy (to + (row * 3 + i) * width, from + row * width, width * sizeof (float));
    }
}

/* Maps the file with the tensors of this role, which is created if it does not exist. */
static gboolean
open_file (Data       *self,
           BenchRole   role,
           const char *folder)
{
  g_autofree char *name = bench_file_name (self->workload, role), *path = g_build_filename (folder, name, NULL);
  g_autofree char *temporary = g_strdup_printf ("%s.%d", path, (int) getpid ());
  gboolean there = g_file_test (path, G_FILE_TEST_EXISTS);
  gsize size = 0;
  int fd;

  for (guint i = 0; i < self->tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (self->tensors, BenchTensor, i);

      if (tensor->role == role || (role == BENCH_CONSTANT && tensor->role == BENCH_DERIVED))
        size = tensor->offset + bench_tensor_size (tensor);
    }
  if (size == 0)
    return TRUE;
  fd = open (there ? path : temporary, there ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || (!there && ftruncate (fd, (off_t) size) != 0))
    return fail (path);
  self->sizes[role] = size;
  self->files[role] = mmap (NULL, size, there ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close (fd);
  if (self->files[role] == MAP_FAILED)
    return fail (path);
  if (role == BENCH_CONSTANT)
    self->files[BENCH_DERIVED] = self->files[role];
  if (there)
    return TRUE;
  for (guint i = 0; i < self->tensors->len; i++)
    {
      BenchTensor *tensor = &g_array_index (self->tensors, BenchTensor, i);

      if (tensor->role == role)
        fill (tensor, name, self->files[role] + tensor->offset);
      else if (role == BENCH_CONSTANT && tensor->role == BENCH_DERIVED)
        fill_derived (self, tensor);
    }
  return g_rename (temporary, path) == 0 || fail (path);
}

/* ---- expected results -------------------------------------------------------------- */

static double *
get_numbers (const Data *self,
             const char *name)
{
  const BenchTensor *tensor = bench_find_tensor (self->tensors, name);
  const guint8 *from = find_data (self, name);
  gsize n = bench_tensor_count (tensor);
  double *values = g_new (double, n);

  if (tensor->type == BENCH_Q4_K)
    {
      unpack_q4_k (from, n, values);
      return values;
    }
  for (gsize i = 0; i < n; i++)
    values[i] = tensor->type == BENCH_F16 ? double_from_half (((const guint16 *) from)[i]) : ((const float *) from)[i];
  return values;
}

typedef void (*RowFunc) (gsize    first,
                         gsize    end,
                         gpointer data);

typedef struct
{
  gsize first, end;
  RowFunc func;
  gpointer data;
} Part;

static gpointer
run_part (gpointer data)
{
  Part *part = data;

  part->func (part->first, part->end, part->data);
  return NULL;
}

static void
for_each_row (gsize    n,
              RowFunc  func,
              gpointer data)
{
  guint n_parts = MIN (g_get_num_processors (), 64);
  Part parts[64];
  GThread *threads[64];

  for (guint i = 0; i < n_parts; i++)
    {
      parts[i] = (Part) { n * i / n_parts, n * (i + 1) / n_parts, func, data };
      threads[i] = g_thread_new ("rows", run_part, &parts[i]);
    }
  for (guint i = 0; i < n_parts; i++)
    g_thread_join (threads[i]);
}

typedef struct
{
  const double *x, *w, *bias;
  double *y;
  gsize inner, columns;
} Product;

static void
multiply_rows (gsize    first,
               gsize    end,
               gpointer data)
{
  const Product *p = data;
  const gsize n = p->columns;

  /* Four rows at a time, so that the weights are read a quarter as often. */
  for (gsize i = first, rows; i < end; i += rows)
    {
      double *y0 = p->y + i * n, *y1, *y2, *y3;
      const double *x = p->x + i * p->inner;

      rows = MIN (end - i, 4);
      y1 = rows > 1 ? y0 + n : y0, y2 = rows > 2 ? y1 + n : y1, y3 = rows > 3 ? y2 + n : y2;
      for (gsize j = 0; j < rows * n; j++)
        y0[j] = p->bias ? p->bias[j % n] : 0;
      for (gsize k = 0; k < p->inner; k++, x++)
        {
          const double *w = p->w + k * n;
          double x0 = x[0], x1 = rows > 1 ? x[p->inner] : 0, x2 = rows > 2 ? x[2 * p->inner] : 0;
          double x3 = rows > 3 ? x[3 * p->inner] : 0;

          for (gsize j = 0; j < n; j++)
            {
              y0[j] += x0 * w[j];
              y1[j] += x1 * w[j];
              y2[j] += x2 * w[j];
              y3[j] += x3 * w[j];
            }
        }
    }
}

static double *
multiply (const double *x,
          const double *w,
          const double *bias,
          gsize         rows,
          gsize         inner,
          gsize         columns)
{
  double *y = g_new (double, rows * columns);
  Product product = { x, w, bias, y, inner, columns };

  for_each_row (rows, multiply_rows, &product);
  return y;
}

static void
softmax (double *row,
         gsize   n)
{
  double most = -INFINITY, sum = 0;

  for (gsize i = 0; i < n; i++)
    most = fmax (most, row[i]);
  for (gsize i = 0; i < n; i++)
    sum += row[i] = exp (row[i] - most);
  for (gsize i = 0; i < n; i++)
    row[i] /= sum;
}

static void
layer_norm (double       *x,
            const double *scale,
            const double *bias,
            gsize         rows,
            gsize         width)
{
  for (gsize i = 0; i < rows; i++, x += width)
    {
      double mean = 0, variance = 0;

      for (gsize j = 0; j < width; j++)
        mean += x[j] / (double) width;
      for (gsize j = 0; j < width; j++)
        variance += (x[j] - mean) * (x[j] - mean) / (double) width;
      for (gsize j = 0; j < width; j++)
        x[j] = (x[j] - mean) / sqrt (variance + 1e-5) * scale[j] + bias[j];
    }
}

static double
gelu (double x)
{
  return x * 0.5 * erfc (-x * M_SQRT1_2);
}

/* A row is a query of a head. Strides are in elements. */
typedef struct
{
  const double *q, *k, *v;
  double *y;
  gsize heads, queries, keys, width;
  gsize batch_stride, key_batch_stride, head_stride, key_head_stride, row_stride;
} Attention;

static void
attend_rows (gsize    first,
             gsize    end,
             gpointer data)
{
  const Attention *a = data;
  g_autofree double *scores = g_new (double, a->keys);

  for (gsize i = first; i < end; i++)
    {
      gsize query = i % a->queries, head = i / a->queries % a->heads, batch = i / a->queries / a->heads;
      gsize from = batch * a->batch_stride + head * a->head_stride + query * a->row_stride;
      gsize keys = batch * a->key_batch_stride + head * a->key_head_stride;
      double *y = a->y + from;

      for (gsize j = 0; j < a->keys; j++)
        {
          const double *k = a->k + keys + j * a->row_stride;
          double sum = 0;

#pragma omp simd reduction(+:sum)
          for (gsize d = 0; d < a->width; d++)
            sum += a->q[from + d] * k[d];
          scores[j] = sum / sqrt ((double) a->width);
        }
      softmax (scores, a->keys);
      memset (y, 0, a->width * sizeof (double));
      for (gsize j = 0; j < a->keys; j++)
        {
          const double *v = a->v + keys + j * a->row_stride;

          for (gsize d = 0; d < a->width; d++)
            y[d] += scores[j] * v[d];
        }
    }
}

/* x · weight + bias */
static double *
project (const Data   *self,
         int           layer,
         const char   *name,
         const double *x,
         gsize         rows)
{
  g_autofree char *weight_name = g_strdup_printf ("%d.%s.weight", layer, name);
  g_autofree char *bias_name = g_strdup_printf ("%d.%s.bias", layer, name);
  const BenchTensor *tensor = bench_find_tensor (self->tensors, weight_name);
  g_autofree double *weight = get_numbers (self, weight_name), *bias = get_numbers (self, bias_name);

  return multiply (x, weight, bias, rows, (gsize) tensor->shape[0], (gsize) tensor->shape[1]);
}

static void
normalise (const Data *self,
           int         layer,
           const char *name,
           double     *x,
           gsize       rows,
           gsize       width)
{
  g_autofree char *prefix = layer < 0 ? g_strdup ("") : g_strdup_printf ("%d.", layer);
  g_autofree char *scale_name = g_strdup_printf ("%s%s.scale", prefix, name), *bias_name = g_strdup_printf ("%s%s.bias", prefix, name);
  g_autofree double *scale = get_numbers (self, scale_name), *bias = get_numbers (self, bias_name);

  layer_norm (x, scale, bias, rows, width);
}

static void
add_to (double       *x,
        const double *y,
        gsize         n)
{
  for (gsize i = 0; i < n; i++)
    x[i] += y[i];
}

static double *
encode (const Data *self)
{
  const gint64 *size = self->workload->size;
  const gsize batch = (gsize) size[0], sequence = (gsize) size[1], width = (gsize) size[2], heads = (gsize) size[3];
  const gsize rows = batch * sequence, hidden = (gsize) size[4], n = rows * width;
  const gint32 *tokens = (const gint32 *) find_data (self, "tokens");
  const float *words = (const float *) find_data (self, "words"), *positions = (const float *) find_data (self, "positions");
  double *x = g_new (double, n);

  for (gsize i = 0; i < rows; i++)
    for (gsize j = 0; j < width; j++)
      x[i * width + j] = (double) words[(gsize) tokens[i] * width + j] + positions[i % sequence * width + j];
  normalise (self, -1, "norm", x, rows, width);
  for (int layer = 0; layer < (int) size[5]; layer++)
    {
      g_autofree double *q = project (self, layer, "query", x, rows), *k = project (self, layer, "key", x, rows);
      g_autofree double *v = project (self, layer, "value", x, rows), *mixed = g_new (double, n);
      g_autofree double *out = NULL, *up = NULL, *down = NULL;
      Attention attention = { q, k, v, mixed, heads, sequence, sequence, width / heads, sequence * width, sequence * width,
                              width / heads, width / heads, width };

      for_each_row (batch * heads * sequence, attend_rows, &attention);
      out = project (self, layer, "out", mixed, rows);
      add_to (x, out, n);
      normalise (self, layer, "norm1", x, rows, width);
      up = project (self, layer, "up", x, rows);
      for (gsize i = 0; i < rows * hidden; i++)
        up[i] = gelu (up[i]);
      down = project (self, layer, "down", up, rows);
      add_to (x, down, n);
      normalise (self, layer, "norm2", x, rows, width);
    }
  return x;
}

static double *
transpose (const double *x,
           gsize         rows,
           gsize         columns)
{
  double *y = g_new (double, rows * columns);

  for (gsize i = 0; i < rows * columns; i++)
    y[i % columns * rows + i / columns] = x[i];
  return y;
}

/* 3 × 3 with zero padding. */
static double *
convolve (const double *x,
          const double *filter,
          const double *bias,
          gsize         channels,
          gsize         size)
{
  double *y = g_new (double, channels * size * size);

  for (gsize o = 0; o < channels; o++)
    for (gsize i = 0; i < size; i++)
      for (gsize j = 0; j < size; j++)
        {
          double sum = bias[o];

          for (gsize c = 0; c < channels; c++)
            for (gsize di = 0; di < 3; di++)
              for (gsize dj = 0; dj < 3; dj++)
                if (i + di >= 1 && i + di <= size && j + dj >= 1 && j + dj <= size)
                  sum += x[(c * size + i + di - 1) * size + j + dj - 1] * filter[((o * channels + c) * 3 + di) * 3 + dj];
          y[(o * size + i) * size + j] = sum;
        }
  return y;
}

static double *
compute (const Data *self)
{
  const BenchWorkload *workload = self->workload;
  const gsize a = (gsize) workload->size[0], b = (gsize) workload->size[1], c = (gsize) workload->size[2], d = (gsize) workload->size[3];
  const gboolean no_x = workload->family == BENCH_ENCODER || workload->family == BENCH_GATHER || workload->family == BENCH_DELTA_NET;
  g_autofree double *x = no_x ? NULL : get_numbers (self, workload->family == BENCH_ATTENTION ? "q" : "x");
  double *y;

  switch (workload->family)
    {
    case BENCH_MATMUL:
      {
        g_autofree double *w = get_numbers (self, "w");

        return multiply (x, w, NULL, a, b, c);
      }
    case BENCH_PACKED:
      {
        g_autofree double *packed = get_numbers (self, "w"), *w = transpose (packed, c, b);

        return multiply (x, w, NULL, a, b, c);
      }
    case BENCH_ENCODER:
      return encode (self);
    case BENCH_ATTENTION:
      {
        g_autofree double *k = get_numbers (self, "k"), *v = get_numbers (self, "v");
        Attention attention = { x, k, v, NULL, a, c, d, b, 0, 0, c * b, d * b, b };

        attention.y = y = g_new (double, a * b * c);
        for_each_row (a * c, attend_rows, &attention);
        return y;
      }
    case BENCH_SOFTMAX:
      for (gsize i = 0; i < a; i++)
        softmax (x + i * b, b);
      return g_steal_pointer (&x);
    case BENCH_LAYER_NORM:
      normalise (self, -1, "norm", x, a, b);
      return g_steal_pointer (&x);
    case BENCH_ELEMENTWISE:
      {
        g_autofree double *scale = get_numbers (self, "scale"), *bias = get_numbers (self, "bias");

        for (gsize i = 0; i < a * b; i++)
          x[i] = tanh (gelu (x[i] * scale[i % b] + bias[i % b]) / (1 + exp (-x[i]))) - fabs (x[i]);
        return g_steal_pointer (&x);
      }
    case BENCH_TRANSPOSE:
      return transpose (x, a, b);
    case BENCH_REDUCE:
      y = g_new0 (double, a);
      for (gsize i = 0; i < a * b; i++)
        y[i / b] += x[i];
      return y;
    case BENCH_GATHER:
      {
        g_autofree double *table = get_numbers (self, "table");
        const gint32 *indices = (const gint32 *) find_data (self, "indices");

        y = g_new (double, b * c);
        for (gsize i = 0; i < c; i++)
          memcpy (y + i * b, table + (gsize) indices[i] * b, b * sizeof (double));
        return y;
      }
    case BENCH_CONV:
    case BENCH_RESNET_BLOCK:
      {
        g_autofree double *filter = get_numbers (self, "filter"), *bias = get_numbers (self, "bias"), *inner = NULL;

        y = convolve (x, filter, bias, a, b);
        if (workload->family == BENCH_RESNET_BLOCK)
          {
            g_autofree double *filter2 = get_numbers (self, "filter2"), *bias2 = get_numbers (self, "bias2");

            inner = y;
            for (gsize i = 0; i < a * b * b; i++)
              inner[i] = fmax (inner[i], 0);
            y = convolve (inner, filter2, bias2, a, b);
            for (gsize i = 0; i < a * b * b; i++)
              y[i] = fmax (y[i] + x[i], 0);
          }
        return y;
      }
    case BENCH_TINY:
      for (gsize i = 0; i < a; i++)
        x[i] += x[i];
      return g_steal_pointer (&x);
    case BENCH_FFT:
    case BENCH_LOG_MEL:
    case BENCH_SCAN:
    case BENCH_DELTA_NET:
    case BENCH_KNN:
    case BENCH_TOP_K:
      {
        double *operands[8] = { NULL, };
        guint n = 0;

        for (; n + 1 < self->tensors->len; n++)
          operands[n] = get_numbers (self, g_array_index (self->tensors, BenchTensor, n).name);
        y = bench_compute_signal (workload, operands);
        for (guint i = 0; i < n; i++)
          g_free (operands[i]);
        return y;
      }
    case BENCH_COPY:
    default:
      return g_new0 (double, 1);
    }
}

static gboolean
make (const BenchWorkload *workload,
      const char          *folder)
{
  g_autoptr(GArray) tensors = bench_list_tensors (workload);
  Data data = { .workload = workload, .tensors = tensors };
  g_autofree char *name = bench_file_name (workload, BENCH_OUTPUT), *path = g_build_filename (folder, name, NULL);
  gboolean good = TRUE;

  if (tensors->len == 0)
    return TRUE;
  good = open_file (&data, BENCH_INPUT, folder) && open_file (&data, BENCH_CONSTANT, folder);
  if (good && !g_file_test (path, G_FILE_TEST_EXISTS))
    {
      gsize n = bench_tensor_count (bench_find_tensor (tensors, "y"));
      g_autofree double *values = compute (&data);
      g_autofree float *floats = g_new (float, n);

      for (gsize i = 0; i < n; i++)
        floats[i] = (float) values[i];
      good = bench_write_floats (path, floats, n);
    }
  for (guint role = 0; role <= BENCH_OUTPUT; role++)
    if (data.sizes[role] > 0)
      munmap (data.files[role], data.sizes[role]);
  return good;
}

/* ---- the list ------------------------------------------------------------------------ */

static void
print_manifest (void)
{
  static const char *const families[] = {
    "matmul", "packed", "encoder", "attention", "softmax", "layer-norm", "elementwise", "transpose", "reduce", "gather", "conv",
    "resnet-block", "fft", "log-mel", "scan", "delta-net", "knn", "top-k", "tiny", "copy",
  };
  static const char *const kinds[] = { "run", "start", "compile", "chain", "apply", "web", "stay" };
  static const char *const roles[] = { "input", "constant", "derived", "output" };

  g_print ("[");
  for (gsize i = 0; i < bench_n_workloads; i++)
    {
      const BenchWorkload *workload = &bench_workloads[i];
      g_autoptr(GArray) tensors = bench_list_tensors (workload);

      g_print ("%s\n{\"name\": \"%s\", \"family\": \"%s\", \"kind\": \"%s\", \"cold\": %s, \"data\": \"%s\", \"what\": \"%s\", "
               "\"tolerance\": %.9g, \"f16_sums_tolerance\": %.9g, \"flops\": %.0f, \"bytes\": %.0f, \"size\": [", i > 0 ? "," : "", workload->name,
               families[workload->family], kinds[workload->kind], workload->cold ? "true" : "false", bench_data_name (workload),
               workload->what, workload->tolerance,
               MAX (workload->tolerance, workload->f16_sums_tolerance), bench_count_flops (workload), bench_count_bytes (workload));
      for (gsize j = 0; j < G_N_ELEMENTS (workload->size); j++)
        g_print ("%s%" G_GINT64_FORMAT, j > 0 ? ", " : "", workload->size[j]);
      g_print ("], \"tensors\": [");
      for (guint j = 0; j < tensors->len; j++)
        {
          const BenchTensor *tensor = &g_array_index (tensors, BenchTensor, j);
          g_autofree char *file = bench_file_name (workload, tensor->role);

          g_print ("%s\n  {\"name\": \"%s\", \"role\": \"%s\", \"type\": \"%s\", \"file\": \"%s\", \"offset\": %" G_GSIZE_FORMAT
                   ", \"length\": %" G_GSIZE_FORMAT ", \"shape\": [", j > 0 ? "," : "", tensor->name, roles[tensor->role],
                   bench_type_name (tensor->type), file, tensor->offset, bench_tensor_size (tensor));
          for (gsize k = 0; k < tensor->n_dims; k++)
            g_print ("%s%" G_GINT64_FORMAT, k > 0 ? ", " : "", tensor->shape[k]);
          g_print ("]}");
        }
      g_print ("]}");
    }
  g_print ("\n]\n");
}

int
main (int   argc,
      char *argv[])
{
  g_set_prgname ("rlx-bench-data");
  if (argc == 2 && g_str_equal (argv[1], "--manifest"))
    {
      print_manifest ();
      return 0;
    }
  if (argc < 3)
    {
      g_printerr ("usage: rlx-bench-data --manifest | FOLDER WORKLOAD…\n");
      return 2;
    }
  for (int i = 2; i < argc; i++)
    {
      const BenchWorkload *workload = bench_find_workload (argv[i]);

      if (workload == NULL)
        {
          g_printerr ("rlx-bench-data: there is no workload “%s”\n", argv[i]);
          return 2;
        }
      if (!make (workload, argv[1]))
        return 1;
    }
  return 0;
}
