/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-fft-private.h"

#include <math.h>
#include <string.h>

/* ---- factors ------------------------------------------------------------------------ */

gboolean
rlx_fft_is_smooth (guint64 n)
{
  for (guint p = 2; p <= RLX_FFT_PRIME; p++)
    while (n > 1 && n % p == 0)
      n /= p;
  return n == 1;
}

typedef struct
{
  guint64 most;          /* the largest factor */
  guint64 factors[RLX_FFT_STAGES], found[RLX_FFT_STAGES];
  guint64 sum;           /* of the best factors so far; 0: none yet */
} Search;

/* Searches for @left factors of @n with the smallest sum, in descending order. */
static void
search (Search *self,
        guint64 n,
        guint   at,
        guint   left,
        guint64 limit,
        guint64 sum)
{
  if (left == 1)
    {
      if (n > limit || (self->sum != 0 && sum + n >= self->sum))
        return;
      self->factors[at] = n;
      memcpy (self->found, self->factors, sizeof self->found);
      self->sum = sum + n;
      return;
    }
  for (guint64 f = MIN (limit, n); f >= 2; f--)
    {
      guint64 rest;
      guint needed = 0;

      if (n % f != 0)
        continue;
      for (rest = 1; rest < n / f && needed < left; needed++)
        rest *= f;
      if (needed >= left)   /* too small for all that are left */
        break;
      self->factors[at] = f;
      search (self, n / f, at + 1, left - 1, f, sum + f);
    }
}

static guint
find_factors (guint64 n,
              guint64 most,
              guint   max_factors,
              Search *self)
{
  *self = (Search) { .most = most };
  for (guint left = 1; left <= max_factors; left++)
    {
      search (self, n, 0, left, most, 0);
      if (self->sum != 0)
        return left;
    }
  return 0;
}

gboolean
rlx_fft_find_stages (guint64       n,
                     guint         max_radix,
                     guint         max_sum,
                     RlxFftStages *stages)
{
  Search self;

  *stages = (RlxFftStages) { .n_stages = 0 };
  for (guint most = max_radix; most >= 2; most = most / 2)
    {
      guint n_stages = find_factors (n, most, RLX_FFT_STAGES, &self);

      if (n_stages == 0)
        break;
      stages->n_stages = n_stages;
      stages->sum = (guint) self.sum;
      for (guint i = 0; i < n_stages; i++)
        stages->radices[i] = (guint) self.found[i];
      if (self.sum <= max_sum)
        break;
    }
  return stages->n_stages > 0;
}

guint
rlx_fft_find_passes (guint64  n,
                     guint64  most,
                     guint64 *factors)
{
  Search self;
  guint n_passes = find_factors (n, most, RLX_FFT_PASSES, &self);

  for (guint i = 0; i < n_passes; i++)
    factors[i] = self.found[i];
  return n_passes;
}

/* Numbers without large factors and with an even one are dense: one of them is less than a
 * tenth larger. Long ones are powers of two, whose passes are balanced. */
guint64
rlx_fft_find_chirp (guint64 n)
{
  guint64 least = 2 * n - 1, length = 1;

  while (length < least)
    length *= 2;
  if (length <= 32 || length > 4096)
    return length;
  for (guint64 i = least; i < length; i++)
    {
      guint64 rest = i;

      for (guint p = 2; p <= 5; p++)
        while (rest % p == 0)
          rest /= p;
      if (rest == 1 && i % 8 == 0)
        return i;
    }
  return length;
}

/* ---- butterflies ---------------------------------------------------------------------- */

/* Text that computes values x0, x1, … one after the other. */
typedef struct
{
  GString *text;
  guint n_values;
} Writer;

static guint G_GNUC_PRINTF (2, 3)
add_value (Writer     *self,
           const char *format,
           ...)
{
  va_list args;

  g_string_append_printf (self->text, "  let x%u = ", self->n_values);
  va_start (args, format);
  g_string_append_vprintf (self->text, format, args);
  va_end (args);
  g_string_append (self->text, ";\n");
  return self->n_values++;
}

/* WGSL has no locale. */
static const char *
number (char  *text,
        double value)
{
  g_ascii_formatd (text, G_ASCII_DTOSTR_BUF_SIZE, "%.17e", value);
  return text;
}

/* cos (2π k / n) and sin, exact for simple angles */
static void
get_root (guint64 k,
          guint64 n,
          double *c,
          double *s)
{
  guint64 quarters;
  double x, u, v;

  k %= n;
  /* at most an eighth of a turn away from an axis */
  quarters = (8 * k + n) / (2 * n);
  x = 2.0 * G_PI * (double) ((gint64) (4 * k) - (gint64) (quarters * n)) / (4.0 * (double) n);
  u = cos (x);
  v = sin (x);
  switch (quarters % 4)
    {
    case 0:
      *c = u, *s = v;
      break;
    case 1:
      *c = -v, *s = u;
      break;
    case 2:
      *c = -u, *s = -v;
      break;
    default:
      *c = v, *s = -u;
      break;
    }
}

/* x exp (-2πi k / n) */
static guint
rotate (Writer *self,
        guint   x,
        guint   k,
        guint   n)
{
  char c_text[G_ASCII_DTOSTR_BUF_SIZE], s_text[G_ASCII_DTOSTR_BUF_SIZE];
  double c, s;

  k %= n;
  if (k == 0)
    return x;
  if (4 * k == n)
    return add_value (self, "vec2f (x%u.y, -x%u.x)", x, x);
  if (2 * k == n)
    return add_value (self, "-x%u", x);
  if (4 * k == 3 * n)
    return add_value (self, "vec2f (-x%u.y, x%u.x)", x, x);
  get_root (k, n, &c, &s);
  number (c_text, c);
  number (s_text, s);
  return add_value (self, "%s * x%u + %s * vec2f (x%u.y, -x%u.x)", c_text, x, s_text, x, x);
}

static void
write_two (Writer *self,
           guint  *x)
{
  guint a = x[0], b = x[1];

  x[0] = add_value (self, "x%u + x%u", a, b);
  x[1] = add_value (self, "x%u - x%u", a, b);
}

/* For an odd prime: cosines times the sums of x[j] and x[p - j], sines times their
 * differences. */
static void
write_prime (Writer *self,
             guint  *x,
             guint   p)
{
  guint sums[RLX_FFT_PRIME], differences[RLX_FFT_PRIME], y[RLX_FFT_PRIME], first = x[0], half = p / 2;
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint j = 1; j <= half; j++)
    {
      sums[j] = add_value (self, "x%u + x%u", x[j], x[p - j]);
      differences[j] = add_value (self, "x%u - x%u", x[j], x[p - j]);
      g_string_append_printf (text, "%sx%u", j > 1 ? " + " : "", sums[j]);
    }
  y[0] = add_value (self, "x%u + (%s)", first, text->str);
  for (guint k = 1; k <= half; k++)
    {
      guint even, odd;

      g_string_truncate (text, 0);
      for (guint j = 1; j <= half; j++)
        {
          char c_text[G_ASCII_DTOSTR_BUF_SIZE];
          double c, s;

          get_root ((guint64) j * k, p, &c, &s);
          g_string_append_printf (text, "%s%s * x%u", j > 1 ? " + " : "", number (c_text, c), sums[j]);
        }
      even = add_value (self, "x%u + (%s)", first, text->str);
      g_string_truncate (text, 0);
      for (guint j = 1; j <= half; j++)
        {
          char s_text[G_ASCII_DTOSTR_BUF_SIZE];
          double c, s;

          get_root ((guint64) j * k, p, &c, &s);
          g_string_append_printf (text, "%s%s * x%u", j > 1 ? " + " : "", number (s_text, s), differences[j]);
        }
      odd = add_value (self, "%s", text->str);
      y[k] = add_value (self, "vec2f (x%u.x + x%u.y, x%u.y - x%u.x)", even, odd, even, odd);
      y[p - k] = add_value (self, "vec2f (x%u.x - x%u.y, x%u.y + x%u.x)", even, odd, even, odd);
    }
  memcpy (x, y, p * sizeof *y);
}

/* Replaces the values @x by those of their transform. */
static void
write_transform (Writer *self,
                 guint  *x,
                 guint   n)
{
  g_autofree guint *part = NULL, *y = NULL;
  guint a = 2, b;

  if (n == 1)
    return;
  if (n == 2)
    {
      write_two (self, x);
      return;
    }

  if (n % 4 == 0 && n > 4)
    a = 4;
  else
    while (n % a != 0)
      a++;
  if (a == n)
    {
      write_prime (self, x, n);
      return;
    }

  /* b transforms of length a, rotated, then a transforms of length b */
  b = n / a;
  part = g_new (guint, n);
  y = g_new (guint, n);
  for (guint i = 0; i < b; i++)
    {
      for (guint j = 0; j < a; j++)
        part[j] = x[i + b * j];
      write_transform (self, part, a);
      for (guint j = 0; j < a; j++)
        y[j * b + i] = rotate (self, part[j], i * j, n);
    }
  for (guint j = 0; j < a; j++)
    {
      write_transform (self, y + j * b, b);
      for (guint i = 0; i < b; i++)
        x[j + a * i] = y[j * b + i];
    }
}

char *
rlx_fft_make_butterflies (const RlxFftStages *stages)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < stages->n_stages; i++)
    {
      guint n = stages->radices[i];
      g_autofree guint *x = g_new (guint, n);
      Writer writer = { text, 0 };
      gboolean seen = FALSE;

      for (guint j = 0; j < i; j++)
        seen = seen || stages->radices[j] == n;
      if (seen)
        continue;
      g_string_append_printf (text, "fn butterfly_%u (v: ptr<function, array<vec2f, %u>>) {\n", n, n);
      for (guint j = 0; j < n; j++)
        x[j] = add_value (&writer, "(*v)[%u]", j);
      write_transform (&writer, x, n);
      for (guint j = 0; j < n; j++)
        g_string_append_printf (text, "  (*v)[%u] = x%u;\n", j, x[j]);
      g_string_append (text, "}\n");
    }
  return g_string_free (text, FALSE);
}

/* ---- constants ---------------------------------------------------------------------- */

static GMutex mutex;
static GHashTable *constants;   /* char → GWeakRef */

static void
weak_ref_free (gpointer data)
{
  g_weak_ref_clear (data);
  g_free (data);
}

static RlxTensor *
find_constant (const char *key)
{
  GWeakRef *weak;
  RlxTensor *tensor;

  g_mutex_lock (&mutex);
  if (constants == NULL)
    constants = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, weak_ref_free);
  weak = g_hash_table_lookup (constants, key);
  tensor = weak != NULL ? g_weak_ref_get (weak) : NULL;
  g_mutex_unlock (&mutex);
  return tensor;
}

static gboolean
is_gone (gpointer key,
         gpointer value,
         gpointer user_data)
{
  g_autoptr(GObject) object = g_weak_ref_get (value);

  return object == NULL;
}

static RlxTensor *
keep_constant (const char *key,
               float      *data,
               guint64     n)
{
  gint64 shape[] = { (gint64) n, 2 };
  RlxTensor *tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, shape, 2, (const guint8 *) data, n * 2 * sizeof *data, NULL);
  GWeakRef *weak = g_new0 (GWeakRef, 1);

  g_weak_ref_init (weak, tensor);
  g_mutex_lock (&mutex);
  g_hash_table_foreach_remove (constants, is_gone, NULL);
  g_hash_table_replace (constants, g_strdup (key), weak);
  g_mutex_unlock (&mutex);
  return tensor;
}

RlxTensor *
rlx_fft_get_roots (guint64 n)
{
  g_autofree char *key = g_strdup_printf ("roots %" G_GUINT64_FORMAT, n);
  RlxTensor *tensor = find_constant (key);
  g_autofree float *data = NULL;

  if (tensor != NULL)
    return tensor;
  data = g_new (float, n * 2);
  for (guint64 k = 0; k < n; k++)
    {
      double c, s;

      get_root (k, n, &c, &s);
      data[2 * k] = (float) c;
      data[2 * k + 1] = (float) -s;
    }
  return keep_constant (key, data, n);
}

RlxTensor *
rlx_fft_get_split_roots (guint64 n,
                         guint   bits)
{
  g_autofree char *key = g_strdup_printf ("split %" G_GUINT64_FORMAT " %u", n, bits);
  RlxTensor *tensor = find_constant (key);
  guint64 fine = (guint64) 1 << bits, coarse = rlx_divide_up (n, fine);
  g_autofree float *data = NULL;

  if (tensor != NULL)
    return tensor;
  data = g_new (float, (coarse + fine) * 2);
  for (guint64 k = 0; k < coarse + fine; k++)
    {
      double c, s;

      get_root (k < coarse ? k << bits : k - coarse, n, &c, &s);
      data[2 * k] = (float) c;
      data[2 * k + 1] = (float) -s;
    }
  return keep_constant (key, data, coarse + fine);
}

RlxTensor *
rlx_fft_get_chirp (guint64 n)
{
  g_autofree char *key = g_strdup_printf ("chirp %" G_GUINT64_FORMAT, n);
  RlxTensor *tensor = find_constant (key);
  g_autofree float *data = NULL;

  if (tensor != NULL)
    return tensor;
  data = g_new (float, n * 2);
  for (guint64 k = 0; k < n; k++)
    {
      double c, s;

      /* k is below 2²³, so that its square is still a whole number here */
      get_root (k * k % (2 * n), 2 * n, &c, &s);
      data[2 * k] = (float) c;
      data[2 * k + 1] = (float) -s;
    }
  return keep_constant (key, data, n);
}

typedef struct
{
  double re, im;
} Complex;

/* Applies the factors of @n one after the other, from @x to @y and back; returns the array
 * that has the transform. @roots are those of @n. */
static Complex *
transform (Complex       *x,
           Complex       *y,
           guint64        n,
           const Complex *roots)
{
  guint64 done = 1;

  while (done < n)
    {
      guint64 r = 2, rest = n / done, step;
      Complex *other = x;

      while (rest % r != 0)
        r++;
      step = n / r;
      for (guint64 j = 0; j < step; j++)
        {
          guint64 k = j % done, to = j / done * done * r + k;

          for (guint64 q = 0; q < r; q++)
            {
              Complex sum = { 0, 0 };

              for (guint64 i = 0; i < r; i++)
                {
                  /* exp (-2πi · i · (k + q · done) / (done · r)) */
                  const Complex *w = &roots[i * (k + q * done) % (done * r) * (n / (done * r))];
                  const Complex *v = &x[j + i * step];

                  sum.re += v->re * w->re - v->im * w->im;
                  sum.im += v->re * w->im + v->im * w->re;
                }
              y[to + q * done] = sum;
            }
        }
      x = y;
      y = other;
      done *= r;
    }
  return x;
}

RlxTensor *
rlx_fft_get_filter (guint64 n,
                    guint64 length)
{
  g_autofree char *key = g_strdup_printf ("filter %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, n, length);
  RlxTensor *tensor = find_constant (key);
  g_autofree Complex *x = NULL, *y = NULL, *roots = NULL;
  g_autofree float *data = NULL;
  Complex *found;

  if (tensor != NULL)
    return tensor;
  x = g_new0 (Complex, length);
  y = g_new0 (Complex, length);
  roots = g_new (Complex, length);
  for (guint64 k = 0; k < n; k++)
    {
      get_root (k * k % (2 * n), 2 * n, &x[k].re, &x[k].im);
      if (k > 0)
        x[length - k] = x[k];
    }
  for (guint64 k = 0; k < length; k++)
    {
      get_root (k, length, &roots[k].re, &roots[k].im);
      roots[k].im = -roots[k].im;
    }
  found = transform (x, y, length, roots);
  data = g_new (float, length * 2);
  for (guint64 k = 0; k < length; k++)
    {
      data[2 * k] = (float) (found[k].re / (double) length);
      data[2 * k + 1] = (float) (found[k].im / (double) length);
    }
  return keep_constant (key, data, length);
}
