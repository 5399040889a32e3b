/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Signals: frames, their spectra and filters, from their definitions.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* Numbers, and their errors. */
typedef struct
{
  gsize n;
  double *values, *bounds;
} Row;

static void
row_init (Row  *self,
          gsize n)
{
  self->n = n;
  self->values = g_new0 (double, n + 1);
  self->bounds = g_new0 (double, n + 1);
}

static void
row_clear (Row *self)
{
  g_free (self->values);
  g_free (self->bounds);
}

/* The bound of an unknown value is infinite. */
static double
known (double bound)
{
  return isnan (bound) ? INFINITY : bound;
}

static void
set (RlxReferenceCall *call,
     gsize             at,
     double            value,
     double            bound)
{
  call->output->values[at] = value;
  call->output->bounds[at] = known (bound);
}

static gsize
get_size (RlxReferenceCall *call,
          const char       *name)
{
  return (gsize) rlx_reference_get_int (call, name);
}

static gsize
get_last (const RlxReferenceValue *x)
{
  return (gsize) x->shape[x->n_dims - 1];
}

/* ---- frames ------------------------------------------------------------------------ */

typedef struct
{
  gsize length, hop;
  gboolean center;
  const char *mode;
  const RlxReferenceValue *window;
  gboolean hann;              /* if there is no window */
} Frames;

static void
get_window (const Frames *self,
            gsize         i,
            double       *value,
            double       *bound)
{
  gsize n, before;

  *value = 1;
  *bound = 0;
  if (self->window == NULL && self->hann)
    {
      *value = 0.5 - 0.5 * cos (2 * G_PI * (double) i / (double) self->length);
      if (self->length == 1)
        *value = 1;
      *bound = RLX_F32_EPSILON * *value + 0x1p-50;
    }
  if (self->window == NULL)
    return;
  n = get_last (self->window);
  before = (self->length - n) / 2;
  *value = i >= before && i < before + n ? self->window->values[i - before] : 0;
  *bound = i >= before && i < before + n ? self->window->bounds[i - before] : 0;
}

/* The index of the sample at @i; FALSE for a zero. */
static gboolean
find_sample (const char *mode,
             gint64      n,
             gint64     *i)
{
  if (*i >= 0 && *i < n)
    return TRUE;
  if (strcmp (mode, "constant") == 0)
    return FALSE;
  if (strcmp (mode, "edge") == 0)
    *i = *i < 0 ? 0 : n - 1;
  while (*i < 0 || *i >= n)
    {
      if (strcmp (mode, "reflect") == 0)
        *i = n == 1 ? 0 : *i < 0 ? -*i : 2 * (n - 1) - *i;
      else if (strcmp (mode, "symmetric") == 0)
        *i = *i < 0 ? -1 - *i : 2 * n - 1 - *i;
      else
        *i += *i < 0 ? n : -n;
    }
  return TRUE;
}

/* The frames of a signal, times the window. */
static void
cut (const Frames        *self,
     const double        *values,
     const double        *bounds,
     gsize                n,
     RlxReferenceNumbers *out)
{
  gsize beside = self->center ? self->length / 2 : 0, n_frames = 1 + (n + 2 * beside - self->length) / self->hop;

  rlx_reference_numbers_init (out, (gint64[]) { (gint64) n_frames, (gint64) self->length }, 2);
  for (gsize f = 0; f < n_frames; f++)
    for (gsize i = 0; i < self->length; i++)
      {
        gint64 from = (gint64) (f * self->hop + i) - (gint64) beside;
        gboolean there = find_sample (self->center ? self->mode : "constant", (gint64) n, &from);
        gsize at = f * self->length + i;
        double value = there ? values[from] : 0, bound = there ? bounds[from] : 0, w, w_bound;

        get_window (self, i, &w, &w_bound);
        out->re[at] = value * w;
        out->bounds[at] = known (bound * fabs (w) + (w_bound > 0 ? w_bound * (fabs (value) + bound) : 0) +
                                 (self->window != NULL || self->hann ? RLX_F32_EPSILON * fabs (out->re[at]) + 0x1p-126 : 0));
      }
}

static void
frame (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gsize n = get_last (x), length = get_size (call, "length"), hop = get_size (call, "hop"), n_frames = 1 + (n - length) / hop;

  for (gsize at = 0; at < call->output->n_elements; at++)
    {
      gsize from = at / length / n_frames * n + at / length % n_frames * hop + at % length;

      call->output->values[at] = x->values[from];
      call->output->bounds[at] = x->bounds[from];
    }
}

static void
overlap_add (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gsize length = get_last (x), n_frames = (gsize) x->shape[x->n_dims - 2], n = get_last (call->output);
  gsize hop = get_size (call, "hop");

  for (gsize at = 0; at < call->output->n_elements; at++)
    {
      double sum = 0, size = 0, error = 0, k = 0;

      for (gsize f = 0; f < n_frames; f++)
        if (at % n >= f * hop && at % n < f * hop + length)
          {
            gsize from = (at / n * n_frames + f) * length + at % n - f * hop;

            sum += x->values[from];
            size += fabs (x->values[from]) + x->bounds[from];
            error += x->bounds[from];
            k++;
          }
      set (call, at, sum, error + k * RLX_F32_EPSILON * size);
    }
}

static Frames
get_frames (RlxReferenceCall *call,
            gsize             window)
{
  return (Frames) {
    .length = get_size (call, "fft_length"), .hop = get_size (call, "hop"), .center = rlx_reference_get_bool (call, "center"),
    .mode = rlx_reference_get_text (call, "pad_mode"), .window = rlx_reference_get_input (call, window),
  };
}

static void
stft (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  Frames frames = get_frames (call, 1);
  gsize n = get_last (x), bins = rlx_reference_get_bool (call, "one_sided") ? frames.length / 2 + 1 : frames.length;
  gsize n_signals = x->n_elements / n, done = 0, total = call->output->n_elements / 2;
  gboolean planar = strcmp (rlx_reference_get_text (call, "layout"), "planar") == 0;

  for (gsize s = 0; s < n_signals; s++)
    {
      RlxReferenceNumbers z;

      cut (&frames, x->values + s * n, x->bounds + s * n, n, &z);
      rlx_reference_transform (&z, 1, frames.length, bins, FALSE, -1, rlx_reference_get_norm (call, FALSE, frames.length));
      for (gsize i = 0; i < z.n_elements; i++, done++)
        {
          set (call, rlx_reference_find_part (planar, done, total, 0), z.re[i], z.bounds[i]);
          set (call, rlx_reference_find_part (planar, done, total, 1), z.im[i], z.bounds[i]);
        }
      rlx_reference_numbers_clear (&z);
    }
}

static void
istft (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gboolean planar = strcmp (rlx_reference_get_text (call, "layout"), "planar") == 0;
  gboolean one_sided = rlx_reference_get_bool (call, "one_sided");
  const gint64 *shape = x->shape + (planar ? x->n_dims - 2 : x->n_dims - 3);
  gsize n_frames = (gsize) shape[0], bins = (gsize) shape[1], given = get_size (call, "fft_length");
  gsize length = given > 0 ? given : one_sided ? 2 * (bins - 1) : bins, hop = get_size (call, "hop");
  gsize n_signals = x->n_elements / 2 / (n_frames * bins), total = x->n_elements / 2;
  Frames frames = { .length = length, .hop = hop, .window = rlx_reference_get_input (call, 1) };
  gsize skip = rlx_reference_get_bool (call, "center") ? length / 2 : 0;
  gsize n = call->output->n_elements / (one_sided ? 1 : 2) / MAX (n_signals, 1);

  for (gsize s = 0; s < n_signals; s++)
    {
      RlxReferenceNumbers z;

      rlx_reference_numbers_init (&z, shape, 2);
      for (gsize i = 0; i < z.n_elements; i++)
        {
          gsize re = rlx_reference_find_part (planar, s * z.n_elements + i, total, 0);
          gsize im = rlx_reference_find_part (planar, s * z.n_elements + i, total, 1);

          z.re[i] = x->values[re];
          z.im[i] = x->values[im];
          z.bounds[i] = MAX (x->bounds[re], x->bounds[im]);
        }
      rlx_reference_transform (&z, 1, length, length, one_sided, 1, rlx_reference_get_norm (call, TRUE, length));

      for (gsize t = 0; t < n; t++)
        {
          double sums[2] = { 0, 0 }, sizes[2] = { 0, 0 }, error = 0, envelope = 0, envelope_error = 0, k = 0;

          for (gsize f = 0; f < n_frames; f++)
            if (t + skip >= f * hop && t + skip < f * hop + length)
              {
                gsize i = t + skip - f * hop, at = f * length + i;
                double w, w_bound;

                get_window (&frames, i, &w, &w_bound);
                sums[0] += w * z.re[at];
                sums[1] += w * z.im[at];
                sizes[0] += fabs (w * z.re[at]);
                sizes[1] += fabs (w * z.im[at]);
                error += (fabs (w) + w_bound) * z.bounds[at] + (w_bound > 0 ? w_bound * MAX (fabs (z.re[at]), fabs (z.im[at])) : 0);
                envelope += w * w;
                envelope_error += 2 * fabs (w) * w_bound + w_bound * w_bound;
                k++;
              }
          envelope_error += k * 0x1p-22 * envelope;
          for (gsize part = 0; part < (one_sided ? 1u : 2u); part++)
            {
              gsize at = s * n + t;
              double y = sums[part] / envelope;

              if (!one_sided)
                at = rlx_reference_find_part (planar, at, n_signals * n, part);
              if (fabs (envelope - 1e-11) <= envelope_error && envelope > 0)
                set (call, at, y, INFINITY);
              else if (envelope <= 1e-11)
                set (call, at, 0, 0);
              else
                set (call, at, y, (error + (k + 5) * RLX_F32_ULP * (sizes[part] + error) + (envelope_error > k * 0x1p-22 * envelope ? envelope_error * fabs (y) : 0)) / envelope);
            }
        }
      rlx_reference_numbers_clear (&z);
    }
}

/* ---- spectra ------------------------------------------------------------------------- */

/* Squared absolute values of element @i. */
static void
get_power (const RlxReferenceNumbers *z,
           gsize                      i,
           double                    *value,
           double                    *bound)
{
  double b = z->bounds[i];

  *value = z->re[i] * z->re[i] + z->im[i] * z->im[i];
  *bound = known (4 * RLX_F32_EPSILON * *value + 2 * (fabs (z->re[i]) + fabs (z->im[i])) * b + 2 * b * b + 0x1p-126);
}

static void
power_spectrum (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gsize given = get_size (call, "fft_length"), n = get_last (x), length = given > 0 ? given : n;
  Frames frames = { .length = length, .hop = 1, .window = rlx_reference_get_input (call, 1) };
  gsize n_signals = x->n_elements / n, done = 0;

  for (gsize s = 0; s < n_signals; s++)
    {
      RlxReferenceNumbers z;
      Row row;

      /* truncated or padded to a frame */
      row_init (&row, length);
      memcpy (row.values, x->values + s * n, MIN (n, length) * sizeof (double));
      memcpy (row.bounds, x->bounds + s * n, MIN (n, length) * sizeof (double));
      cut (&frames, row.values, row.bounds, length, &z);
      rlx_reference_transform (&z, 1, length, length / 2 + 1, FALSE, -1, rlx_reference_get_norm (call, FALSE, length));
      for (gsize i = 0; i < z.n_elements; i++, done++)
        {
          double value, bound;

          get_power (&z, i, &value, &bound);
          set (call, done, value, bound);
        }
      rlx_reference_numbers_clear (&z);
      row_clear (&row);
    }
}

/* Those of @n_frames frames for each of the filters, [mels, frames]. */
static void
make_mels (RlxReferenceCall *call,
           const Frames     *frames,
           const double     *values,
           const double     *bounds,
           gsize             n,
           gboolean          magnitude,
           Row              *out)
{
  const RlxReferenceValue *filters = call->inputs[1];
  gsize bins = (gsize) filters->shape[0], mels = (gsize) filters->shape[1];
  gsize n_frames;
  RlxReferenceNumbers z;

  cut (frames, values, bounds, n, &z);
  n_frames = (gsize) z.shape[0];
  rlx_reference_transform (&z, 1, frames->length, bins, FALSE, -1, 1);
  row_init (out, n_frames * mels);
  for (gsize f = 0; f < n_frames; f++)
    for (gsize m = 0; m < mels; m++)
      {
        RlxReferenceSize size = { 0, 0 };
        double sum = 0, error = 0;

        for (gsize k = 0; k < bins; k++)
          {
            gsize at = k * mels + m;
            double value, bound, filter = filters->values[at], filter_bound = rlx_reference_operand_bound (call, filters, at);

            get_power (&z, f * bins + k, &value, &bound);
            if (magnitude)
              {
                double above = sqrt (value + bound), below = sqrt (MAX (value - bound, 0));

                value = sqrt (value);
                bound = MAX (above - value, value - below) + RLX_F32_ULP * 2 * above;
              }
            if (call->narrow)
              bound += value > 65000 ? INFINITY : value * 0x1p-11 + 0x1p-14;
            sum += filter * value;
            if (filter != 0 || filter_bound > 0)
              {
                rlx_reference_size_add (&size, filter * (value + bound));
                error += fabs (filter) * bound + (filter_bound > 0 ? filter_bound * (value + bound) : 0);
              }
          }
        out->values[m * n_frames + f] = sum;
        out->bounds[m * n_frames + f] = known (rlx_reference_sum_bound (&size, error, (double) bins));
      }
  rlx_reference_numbers_clear (&z);
}

static void
mel_spectrogram (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  Frames frames = get_frames (call, 2);
  gsize n = get_last (x), done = 0;

  frames.hann = TRUE;
  for (gsize s = 0; s < x->n_elements / n; s++)
    {
      Row mels;

      make_mels (call, &frames, x->values + s * n, x->bounds + s * n, n, rlx_reference_get_bool (call, "magnitude"), &mels);
      for (gsize i = 0; i < mels.n; i++, done++)
        set (call, done, mels.values[i], mels.bounds[i]);
      row_clear (&mels);
    }
}

static double
get_level (double value)
{
  return log10 (MAX (value, (double) 1e-10f));
}

static void
log_mel (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  Frames frames = get_frames (call, 2);
  gsize n = get_last (x), wanted = get_last (call->output), done = 0;

  frames.hann = TRUE;
  for (gsize s = 0; s < x->n_elements / n; s++)
    {
      Row mels;
      gsize n_frames, n_mels = (gsize) call->inputs[1]->shape[1];
      double top = -INFINITY, top_bound = 0;

      make_mels (call, &frames, x->values + s * n, x->bounds + s * n, n, FALSE, &mels);
      n_frames = mels.n / MAX (n_mels, 1);
      for (gsize i = 0; i < mels.n; i++)
        {
          double level = get_level (mels.values[i]);
          double above = get_level (mels.values[i] + mels.bounds[i]), below = get_level (mels.values[i] - mels.bounds[i]);

          mels.bounds[i] = known (MAX (above - level, level - below) + 8 * RLX_F32_EPSILON * (1 + fabs (level)));
          if (isnan (mels.values[i]))
            mels.bounds[i] = INFINITY;
          mels.values[i] = level;
          /* the last frame is left out */
          if (i % n_frames < wanted)
            {
              top = fmax (top, level);
              top_bound = fmax (top_bound, mels.bounds[i]);
            }
        }
      for (gsize m = 0; m < n_mels; m++)
        for (gsize f = 0; f < wanted; f++, done++)
          {
            double level = MAX (mels.values[m * n_frames + f], top - 8);

            set (call, done, (level + 4) / 4,
                 (MAX (mels.bounds[m * n_frames + f], top_bound) + 4 * RLX_F32_EPSILON * (fabs (top) + fabs (level) + 12)) / 4);
          }
      row_clear (&mels);
    }
}

static void
welch_peaks (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gsize hop = get_size (call, "hop"), k = get_size (call, "k"), n = get_last (x), length = get_size (call, "length"), bins = length / 2 + 1;
  Frames frames = {
    .length = length, .hop = hop > 0 ? hop : MAX (length / 2, 1), .window = rlx_reference_get_input (call, 1), .hann = TRUE,
  };

  for (gsize s = 0; s < x->n_elements / n; s++)
    {
      RlxReferenceNumbers z;
      gsize n_frames;
      Row mean;
      g_autofree gboolean *taken = g_new0 (gboolean, bins);

      cut (&frames, x->values + s * n, x->bounds + s * n, n, &z);
      n_frames = (gsize) z.shape[0];
      rlx_reference_transform (&z, 1, length, bins, FALSE, -1, rlx_reference_get_norm (call, FALSE, length));
      row_init (&mean, bins);
      for (gsize b = 0; b < bins; b++)
        {
          for (gsize f = 0; f < n_frames; f++)
            {
              double value, bound;

              get_power (&z, f * bins + b, &value, &bound);
              mean.values[b] += value / (double) n_frames;
              mean.bounds[b] += bound / (double) n_frames;
            }
          mean.bounds[b] += ((double) n_frames + 2) * RLX_F32_EPSILON * (mean.values[b] + mean.bounds[b]);
          if (!isfinite (mean.values[b]))
            mean.bounds[b] = INFINITY;
        }
      for (gsize i = 0; i < k; i++)
        {
          gsize best = bins, at = s * k + i;
          double worst = 0;
          gboolean certain = TRUE;

          for (gsize b = 0; b < bins; b++)
            if (!taken[b] && (best == bins || mean.values[b] > mean.values[best]))
              best = b;
          taken[best] = TRUE;
          for (gsize b = 0; b < bins; b++)
            {
              worst = fmax (worst, mean.bounds[b]);
              if (b != best && !(fabs (mean.values[b] - mean.values[best]) > mean.bounds[b] + mean.bounds[best]))
                certain = FALSE;
            }
          if (call->result == 0)
            set (call, at, (double) best, certain ? 0 : INFINITY);
          else
            set (call, at, mean.values[best], worst);
        }
      row_clear (&mean);
      rlx_reference_numbers_clear (&z);
    }
}

/* ---- filters --------------------------------------------------------------------------- */

static void
filter (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *h = call->inputs[1];
  gboolean direct = strcmp (call->op, "fir") == 0;
  const char *mode = direct ? "causal" : rlx_reference_get_text (call, "mode");
  gsize n = get_last (x), taps = get_last (h), wanted = get_last (call->output), length = 1, first = 0;

  if (call->output->n_elements == 0)
    return;
  if (strcmp (mode, "same") == 0)
    first = (taps - 1) / 2;
  else if (strcmp (mode, "valid") == 0)
    first = MIN (n, taps) - 1;
  while (length < n + taps - 1 && (length < 4 * taps || length < 1024))
    length *= 2;

  for (gsize s = 0; s < x->n_elements / n; s++)
    {
      double x_norm = 0, h_norm = 0, error_norm = 0, h_error = 0;

      for (gsize i = 0; i < n; i++)
        {
          x_norm += x->values[s * n + i] * x->values[s * n + i];
          error_norm += x->bounds[s * n + i] * x->bounds[s * n + i];
        }
      for (gsize i = 0; i < taps; i++)
        {
          h_norm += h->values[i] * h->values[i];
          h_error += h->bounds[i] * h->bounds[i];
        }
      for (gsize i = 0; i < wanted; i++)
        {
          RlxReferenceSize size = { 0, 0 };
          double sum = 0, error = 0;

          for (gsize j = 0; j < taps; j++)
            {
              double x_value, h_value = h->values[j], x_bound, h_bound;

              if (i + first < j || i + first - j >= n)
                {
                  /* padding: its effect on an infinity is unspecified */
                  error += isfinite (h_value) ? 0 : INFINITY;
                  continue;
                }
              x_value = x->values[s * n + i + first - j];
              x_bound = direct ? rlx_reference_operand_bound (call, x, s * n + i + first - j) : x->bounds[s * n + i + first - j];
              h_bound = direct ? rlx_reference_operand_bound (call, h, j) : h->bounds[j];
              sum += x_value * h_value;
              rlx_reference_size_add (&size, x_value * h_value);
              if (x_bound > 0)
                error += x_bound * (fabs (h_value) + h_bound);
              if (h_bound > 0)
                error += h_bound * fabs (x_value);
            }
          if (direct)
            set (call, s * wanted + i, sum, rlx_reference_sum_bound (&size, error, (double) taps) + RLX_F32_ULP * fabs (sum));
          else
            set (call, s * wanted + i, isfinite (x_norm + h_norm) ? sum : 0, error + 16 * RLX_F32_EPSILON * (8 + log2 ((double) length)) * sqrt ((double) length) *
                 (sqrt (x_norm) + sqrt (error_norm)) * (sqrt (h_norm) + sqrt (h_error)));
        }
    }
}

const RlxReferenceRow rlx_reference_signal[] = {
  { "frame", frame },
  { "overlap_add", overlap_add },
  { "stft", stft },
  { "istft", istft },
  { "power_spectrum", power_spectrum },
  { "mel_spectrogram", mel_spectrogram },
  { "log_mel", log_mel },
  { "welch_peaks", welch_peaks },
  { "fir", filter },
  { "fft_conv", filter },
  { NULL, NULL }
};
