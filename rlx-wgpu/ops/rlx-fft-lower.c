/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Fourier transforms along one axis. A single dispatch does what fits into workgroup memory,
 * including the convolution that replaces a length with large prime factors. Longer
 * transforms take one pass over memory for each factor that fits, with several adjacent
 * transforms in a workgroup, so that whole cache lines are read and written.
 */
#include "config.h"

#include "ops/rlx-fft-private.h"
#include "ops/rlx-sort-private.h"
#include "ops/rlx-variant-private.h"

#include <math.h>
#include <string.h>

/* The size of a cache line in f32. */
#define LINE_WORDS 16

/* Registers of an invocation with so many complex numbers, as observed with compilers: inner stages rotate them and store
 * them in place. */
static guint
get_registers (const RlxFftStages *stages)
{
  guint radix = 1;

  for (guint i = 0; i < stages->n_stages; i++)
    radix = MAX (radix, stages->radices[i]);
  return (stages->n_stages > 2 ? 4 : 3) * radix + 10;
}

/* How kernels are made for a kind of device. */
typedef struct
{
  guint max_radix;
  guint max_sum;       /* of the radices, which determines the time to compile */
  guint workgroup_size;
  guint n_across;      /* adjacent transforms of a pass */
  guint n_filling;     /* at most so many transforms to keep invocations from being idle at the end of a stage */
  gboolean touch;      /* fetch lines from memory before they are needed */
} Style;

typedef struct
{
  const RlxIrValue *x, *y;
  guint64 n;           /* the length */
  guint64 x_length, y_length;   /* along the axis */
  guint64 outer, inner;
  gboolean real_x, real_y, hermitian, inverse, planar, power;
  double scale;
  guint64 chirp;       /* the length of the convolution, or 0 */
  const RlxIrValue *window;     /* nullable */
  guint64 frames, hop, signal;  /* rows that overlap: their number per signal; hop is 0 for others */
} Problem;

/* A dispatch. */
typedef struct
{
  const RlxIrValue *x, *y;
  guint64 n, length, x_length, y_length, factor, done;
  gboolean first, last;      /* of the dispatches of the node */
  gboolean real_x, hermitian, real_y, planar_x, planar_y;
  gboolean swap_x, swap_middle, swap_y;
  gboolean convolve, filter, chirp_x, chirp_y;
  gboolean half, framed, power;
  double scale;
} Pass;

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " transforms of %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT " apart",
                          self->outer * self->inner, self->n, self->inner);
}

/* The number of elements for which workgroup memory has room. */
static guint64
get_room (const RlxTarget *target)
{
  return MIN (target->limits.max_workgroup_storage, 32768) / 8;
}

/* The digits of j, the index of a result, in the order of blocks. */
static char *
make_block (const RlxFftStages *stages)
{
  GString *text = g_string_new ("0u");
  guint before = 1;

  for (guint i = 0; i + 1 < stages->n_stages; i++)
    {
      g_autofree char *rest = g_strdup (text->str);

      g_string_printf (text, "(%s * %uu + j / %uu %% %uu)", rest, stages->radices[i], before, stages->radices[i]);
      before *= stages->radices[i];
    }
  return g_string_free (text, FALSE);
}

static guint
get_bits (guint64 n)
{
  guint bits = 0;

  while (((guint64) 1 << (2 * bits)) < n)
    bits++;
  return bits;
}

static void
input_constant (RlxKernel  *kernel,
                RlxLower   *lower,
                const char *name,
                RlxTensor  *tensor)
{
  rlx_kernel_input_vector (kernel, name, rlx_lower_constant (lower, tensor), 2);
  g_object_unref (tensor);
}

/* Whether some invocations are idle in the last round of a stage with so many transforms. */
static gboolean
has_idle (const RlxFftStages *stages,
          guint64             length,
          guint64             at_once,
          guint               workgroup_size)
{
  for (guint i = 0; i < stages->n_stages; i++)
    if (length / stages->radices[i] * at_once % workgroup_size != 0)
      return TRUE;
  return FALSE;
}

/* Defines how the lines with a group's elements are fetched: by one element out of several in a row, or by all elements
 * of the first of adjacent transforms. */
static void
define_lines (RlxKernel  *kernel,
              const char *lines,
              const char *line,
              gboolean    plain,
              guint64     n,
              guint       n_words)
{
  rlx_kernel_define (kernel, line, plain ? LINE_WORDS / n_words : 1);
  rlx_kernel_define (kernel, lines, (gint64) (plain ? rlx_divide_up (n, LINE_WORDS / n_words) : n));
}

static gboolean
lower_pass (RlxLower        *lower,
            const RlxIrNode *node,
            const Problem   *self,
            const Style     *style,
            const Pass      *pass,
            GError         **error)
{
  static const char *const names[] = { "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7" };
  guint64 room = get_room (rlx_lower_get_target (lower));
  guint64 steps = pass->length / pass->factor, count = self->outer * self->inner * steps, groups;
  guint64 total = self->outer * self->inner;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "fft");
  gboolean plain = steps == 1 && self->inner == 1, turn = pass->done > 1;
  g_autofree char *butterflies = NULL, *block = NULL;
  RlxFftStages stages;
  guint64 given, wanted, items, at_once, size = pass->factor * (pass->half ? 2 : 1);
  guint workgroup_size = style->workgroup_size;

  rlx_fft_find_stages (pass->factor, style->max_radix, style->max_sum, &stages);
  butterflies = rlx_fft_make_butterflies (&stages);
  block = make_block (&stages);

  /* How many transforms a workgroup computes: as many as occupy its invocations, or adjacent ones. */
  items = pass->factor / stages.radices[stages.n_stages - 1];
  at_once = MAX (workgroup_size / MAX (items, 1), 1);
  if (!plain)
    at_once = MAX (at_once, style->n_across);
  if (stages.n_stages > 1 || pass->half)
    while (at_once > 1 && at_once * size > room)
      at_once /= 2;
  /* half of the room, so that it stays in the first-level cache */
  while (plain && at_once < style->n_filling && 4 * at_once * size <= room && has_idle (&stages, pass->factor, at_once, workgroup_size))
    at_once *= 2;
  while (at_once > 1 && at_once / 2 >= count)
    at_once /= 2;
  groups = rlx_divide_up (count, at_once);
  /* the first rows that have input, and the last ones whose result is needed */
  given = rlx_divide_up (MIN (pass->n, pass->hermitian ? pass->n : pass->x_length), pass->factor / stages.radices[0]);
  wanted = rlx_divide_up (pass->y_length, pass->factor / stages.radices[0]);
  if (pass->framed && self->window != NULL && pass->half)
    rlx_kernel_input_vector (kernel, "window", self->window, 2);
  else if (pass->framed && self->window != NULL)
    rlx_kernel_input (kernel, "window", self->window);
  if (pass->half)
    input_constant (kernel, lower, "halves", rlx_fft_get_roots (2 * pass->factor));

  if (pass->real_x || pass->planar_x)
    rlx_kernel_input (kernel, "x", pass->x);
  else
    rlx_kernel_input_vector (kernel, "x", pass->x, 2);
  if (stages.n_stages > 1)
    input_constant (kernel, lower, "roots", rlx_fft_get_roots (pass->factor));
  if (turn)
    input_constant (kernel, lower, "turns", rlx_fft_get_split_roots (pass->done * pass->factor, get_bits (pass->done * pass->factor)));
  if (pass->convolve || pass->filter)
    input_constant (kernel, lower, "filter", rlx_fft_get_filter (self->n, self->chirp));
  if (pass->convolve || pass->chirp_x || pass->chirp_y)
    input_constant (kernel, lower, "chirp", rlx_fft_get_chirp (self->n));
  rlx_kernel_output (kernel, "y", pass->y);

  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "S", stages.n_stages);
  for (guint i = 0; i < RLX_FFT_STAGES; i++)
    rlx_kernel_define (kernel, names[i], MAX (stages.radices[i], 1));
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (rlx_lower_get_target (lower), workgroup_size, get_registers (&stages)));
  rlx_kernel_define (kernel, "F", (gint64) pass->factor);
  rlx_kernel_define (kernel, "T", (gint64) at_once);
  rlx_kernel_define (kernel, "GIVEN", steps > 1 ? stages.radices[0] : (gint64) given);
  rlx_kernel_define (kernel, "WANTED", (gint64) wanted);
  rlx_kernel_define (kernel, "PLAIN", plain);
  rlx_kernel_define (kernel, "EVEN_X", pass->n == pass->length && pass->x_length >= (pass->hermitian ? pass->n / 2 + 1 : pass->n));
  rlx_kernel_define (kernel, "EVEN_Y", !pass->half && pass->y_length == pass->length && count % at_once == 0);
  rlx_kernel_define (kernel, "SCALED", pass->scale != 1.0);
  rlx_kernel_define (kernel, "TOUCH", style->touch);
  rlx_kernel_define (kernel, "TOUCHED", plain ? (gint64) at_once : 1);
  define_lines (kernel, "LINES_X", "LINE_X", plain, pass->factor, pass->real_x || pass->planar_x ? 1 : 2);
  define_lines (kernel, "LINES_Y", "LINE_Y", plain, pass->factor + pass->half, pass->real_y || pass->planar_y || pass->power ? 1 : 2);
  rlx_kernel_define (kernel, "ACROSS", !plain);
  /* Keeping values between rounds costs more than recomputing them on Xe2: 18 % of the clocks. */
  rlx_kernel_define (kernel, "SAME", style->touch && (plain ? at_once == 1 : workgroup_size % at_once == 0));
  rlx_kernel_define (kernel, "TURN", turn);
  rlx_kernel_define (kernel, "CONVOLVE", pass->convolve);
  rlx_kernel_define (kernel, "FILTER", pass->filter);
  rlx_kernel_define (kernel, "CHIRP_X", pass->chirp_x || pass->convolve);
  rlx_kernel_define (kernel, "CHIRP_Y", pass->chirp_y || pass->convolve);
  rlx_kernel_define (kernel, "SWAP_X", pass->swap_x);
  rlx_kernel_define (kernel, "SWAP_MIDDLE", pass->swap_middle || pass->convolve);
  rlx_kernel_define (kernel, "SWAP_Y", pass->swap_y);
  rlx_kernel_define (kernel, "HERMITIAN", pass->hermitian);
  rlx_kernel_define (kernel, "HALF", pass->half);
  rlx_kernel_define (kernel, "FRAMES", pass->framed && self->hop > 0);
  rlx_kernel_define (kernel, "WINDOW", pass->framed && self->window != NULL);
  rlx_kernel_define (kernel, "POWER", pass->power);
  rlx_kernel_define (kernel, "REAL_X", pass->real_x);
  rlx_kernel_define (kernel, "REAL_Y", pass->real_y);
  rlx_kernel_define (kernel, "PLANAR_X", pass->planar_x);
  rlx_kernel_define (kernel, "PLANAR_Y", pass->planar_y);
  rlx_kernel_define_text (kernel, "INNER", self->inner == 1 ? "1u" : "p.inner");
  rlx_kernel_define_text (kernel, "BUTTERFLIES", butterflies);
  rlx_kernel_define_text (kernel, "BLOCK", block);

  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "count", count);
  rlx_kernel_param_u32 (kernel, "n", pass->n);
  rlx_kernel_param_u32 (kernel, "x_length", pass->x_length);
  rlx_kernel_param_u32 (kernel, "y_length", pass->y_length);
  rlx_kernel_param_f32 (kernel, "scale", pass->scale);
  if (!plain)
    {
      rlx_kernel_param_u32 (kernel, "inner", self->inner);
      rlx_kernel_param_u32 (kernel, "steps", steps);
      rlx_kernel_param_u32 (kernel, "done", pass->done);
    }
  if (turn)
    {
      guint bits = get_bits (pass->done * pass->factor);

      rlx_kernel_param_u32 (kernel, "bits", bits);
      rlx_kernel_param_u32 (kernel, "coarse", rlx_divide_up (pass->done * pass->factor, (guint64) 1 << bits));
    }
  if (pass->framed && self->hop > 0)
    {
      guint64 unit = pass->half ? 2 : 1;

      rlx_kernel_param_u32 (kernel, "frames", self->frames);
      rlx_kernel_param_u32 (kernel, "hop", self->hop / unit);
      rlx_kernel_param_u32 (kernel, "signal", self->signal / unit);
    }
  if (pass->planar_x)
    rlx_kernel_param_u32 (kernel, "x_plane", total * pass->x_length);
  if (pass->planar_y)
    rlx_kernel_param_u32 (kernel, "y_plane", total * pass->y_length);
  rlx_kernel_set_cost (kernel, 5.0 * (double) total * (double) pass->length * log2 ((double) MAX (pass->factor, 2)) * (pass->convolve ? 2 : 1),
                       8.0 * (double) total * ((double) pass->x_length + (double) pass->y_length));

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* Values between passes are pairs of f32. */
static const RlxIrValue *
make_temporary (RlxLower      *lower,
                const Problem *self,
                guint64        length)
{
  RlxTensorType type = { RLX_DATA_TYPE_F32, 4, { (gint64) self->outer, (gint64) length, (gint64) self->inner, 2 } };

  return rlx_lower_temporary (lower, &type);
}

/* Whether n real numbers can be treated as n / 2 complex ones. */
static gboolean
is_half (const Problem *self,
         const Style   *style,
         guint64        room)
{
  RlxFftStages stages;

  return self->real_x && self->chirp == 0 && self->inner == 1 && self->n % 2 == 0 && self->n > 2 && self->n <= room &&
         self->x_length % 2 == 0 && self->hop % 2 == 0 && (self->hop == 0 || self->signal % 2 == 0) &&
         rlx_fft_find_stages (self->n / 2, style->max_radix, style->max_sum, &stages);
}

/* One transform of @length, which reads the operand of the node if @first, and writes its result if @last. */
static gboolean
lower_transform (RlxLower          *lower,
                 const RlxIrNode   *node,
                 const Problem     *self,
                 const Style       *style,
                 guint64            length,
                 gboolean           first,
                 gboolean           last,
                 const RlxIrValue **x,
                 GError           **error)
{
  guint64 room = get_room (rlx_lower_get_target (lower)), factors[RLX_FFT_PASSES], done = 1;
  RlxFftStages stages;
  gboolean fits = length <= room;
  guint n_passes;

  if (fits && rlx_fft_find_stages (length, style->max_radix, style->max_sum, &stages))
    {
      factors[0] = length;
      n_passes = 1;
    }
  else
    {
      n_passes = rlx_fft_find_passes (length, room / style->n_across, factors);
    }
  g_assert (n_passes > 0);
  if (is_half (self, style, room))
    {
      const Pass pass = {
        .x = *x,
        .y = self->y,
        .n = length / 2,
        .length = length / 2,
        .x_length = self->x_length / 2,
        .y_length = self->y_length,
        .factor = length / 2,
        .done = 1,
        .first = TRUE,
        .last = TRUE,
        .planar_y = self->planar,
        .half = TRUE,
        .framed = TRUE,
        .power = self->power,
        .scale = self->scale,
      };

      return lower_pass (lower, node, self, style, &pass, error);
    }

  for (guint i = 0; i < n_passes; i++)
    {
      gboolean starts = first && i == 0, ends = last && i + 1 == n_passes;
      Pass pass = {
        .x = *x,
        .n = starts ? self->n : length,
        .length = length,
        .x_length = starts ? self->x_length : length,
        .y_length = ends ? self->y_length : length,
        .factor = factors[i],
        .done = done,
        .real_x = starts && self->real_x,
        .hermitian = starts && self->hermitian,
        .real_y = ends && self->real_y,
        .planar_x = starts && self->planar && !self->real_x,
        .planar_y = ends && self->planar && !self->real_y && !self->power,
        .swap_x = starts && self->inverse,
        .swap_y = ends && self->inverse,
        .framed = starts,
        .power = ends && self->power,
        .scale = ends ? self->scale : 1.0,
      };

      if (self->chirp > 0)
        {
          /* the first of two transforms ends with the product, swapped for the inverse */
          pass.convolve = first && last;
          pass.chirp_x = starts;
          pass.chirp_y = ends;
          pass.filter = !last && i + 1 == n_passes;
          pass.swap_middle = (ends && !pass.convolve) || pass.filter;
        }
      pass.y = ends ? self->y : make_temporary (lower, self, length);
      if (!lower_pass (lower, node, self, style, &pass, error))
        return FALSE;
      *x = pass.y;
      done *= factors[i];
    }
  return TRUE;
}

static gboolean
fft_describe (const RlxVariant *variant,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *self = data;
  const Style *style = variant->data;
  const RlxIrValue *x = self->x;

  if (self->chirp == 0)
    return lower_transform (lower, node, self, style, self->n, TRUE, TRUE, &x, error);
  if (self->chirp <= get_room (rlx_lower_get_target (lower)))
    return lower_transform (lower, node, self, style, self->chirp, TRUE, TRUE, &x, error);
  return lower_transform (lower, node, self, style, self->chirp, TRUE, FALSE, &x, error) &&
         lower_transform (lower, node, self, style, self->chirp, FALSE, TRUE, &x, error);
}

/* ---- variants ------------------------------------------------------------------------- */

static const Style wide = { 64, 96, 8, 8, 4, TRUE }, narrow = { 16, 64, 64, 8, 1, FALSE };

static double
fft_cost (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data)
{
  const Problem *self = data;
  double n = (double) self->outer * (double) self->inner * (double) MAX (self->n, self->chirp);

  return rlx_target_get_seconds (target, 5.0 * n * log2 ((double) MAX (self->n, 2)), 16.0 * n);
}

static RlxFit
wide_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  if (target->loads_coalesce)
    return rlx_variant_poorly ("neighbours should read side by side, with few registers each", why);
  return RLX_FIT_WELL;
}

static RlxFit
narrow_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  if (!target->barriers_are_cheap)
    return rlx_variant_poorly ("barriers are slow here", why);
  return RLX_FIT_WELL;
}

static const RlxVariant variants[] = {
  { "wide", wide_fits, fft_cost, NULL, fft_describe, &wide },
  { "narrow", narrow_fits, fft_cost, NULL, fft_describe, &narrow },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[64, 1024, 2]")
    "%1 = fft(%0)\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_fft_variants = {
  RLX_FAMILY_FFT, "fft", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

static double
get_scale (RlxFourierNorm norm,
           guint64        n,
           gboolean       inverse)
{
  if (norm == RLX_FOURIER_NORM_ORTHO)
    return 1.0 / sqrt ((double) n);
  return (norm == RLX_FOURIER_NORM_FORWARD) != inverse ? 1.0 / (double) n : 1.0;
}

gboolean
rlx_fft_lower (RlxLower        *lower,
               const RlxIrNode *node,
               GError         **error)
{
  const RlxFftAttrs *attrs = rlx_fft_attrs (node);
  const RlxTensorType *type = &node->inputs[0]->type;
  RlxOpId id = node->op->id;
  RlxTensorType result = node->outputs[0].type, numbers;
  gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;
  Problem problem = {
    .x = node->inputs[0],
    .y = &node->outputs[0],
    .outer = 1,
    .inner = 1,
    .real_x = id == RLX_OP_ID_RFFT,
    .real_y = id == RLX_OP_ID_IRFFT,
    .hermitian = id == RLX_OP_ID_IRFFT,
    .inverse = id == RLX_OP_ID_IFFT || id == RLX_OP_ID_IRFFT,
    .planar = planar,
  };
  guint axis, skip_x = planar && !problem.real_x ? 1 : 0, skip_y = planar && !problem.real_y ? 1 : 0;

  if (rlx_type_n_elements (&result) == 0)
    return TRUE;

  numbers = *type;
  if (!problem.real_x)
    {
      if (planar)
        memmove (numbers.shape, numbers.shape + 1, (numbers.n_dims - 1) * sizeof *numbers.shape);
      numbers.n_dims--;
    }
  axis = rlx_type_get_axis (&numbers, attrs->axes.n_values > 0 ? attrs->axes.values[0] : -1);
  for (guint i = 0; i < numbers.n_dims; i++)
    if (i < axis)
      problem.outer *= (guint64) numbers.shape[i];
    else if (i > axis)
      problem.inner *= (guint64) numbers.shape[i];
  problem.x_length = (guint64) type->shape[axis + skip_x];
  problem.y_length = (guint64) result.shape[axis + skip_y];
  if (attrs->lengths.n_values > 0)
    problem.n = (guint64) attrs->lengths.values[0];
  else
    problem.n = id == RLX_OP_ID_IRFFT ? problem.y_length : problem.x_length;
  if (problem.n == 0)
    return TRUE;
  if (!rlx_fft_is_smooth (problem.n))
    problem.chirp = rlx_fft_find_chirp (problem.n);

  problem.scale = get_scale (attrs->norm, problem.n, problem.inverse);

  return rlx_lower_choose (lower, node, &rlx_fft_variants, &problem, error);
}

gboolean
rlx_frame_powers_lower (RlxLower        *lower,
                        const RlxIrNode *node,
                        GError         **error)
{
  const RlxFramePowersAttrs *attrs = rlx_frame_powers_attrs (node);
  const RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  guint64 n = (guint64) attrs->length;
  Problem problem = {
    .x = x,
    .y = y,
    .n = n,
    .x_length = attrs->hop > 0 ? n : (guint64) x->type.shape[x->type.n_dims - 1],
    .y_length = n / 2 + 1,
    .outer = rlx_type_n_elements (&y->type) / (n / 2 + 1),
    .inner = 1,
    .real_x = TRUE,
    .power = TRUE,
    .scale = get_scale (attrs->norm, n, FALSE),
    .chirp = rlx_fft_is_smooth (n) ? 0 : rlx_fft_find_chirp (n),
    .window = node->n_inputs > 1 ? node->inputs[1] : NULL,
    .frames = attrs->hop > 0 ? (guint64) y->type.shape[y->type.n_dims - 2] : 1,
    .hop = (guint64) attrs->hop,
    .signal = (guint64) x->type.shape[x->type.n_dims - 1],
  };

  if (problem.outer == 0)
    return TRUE;
  return rlx_lower_choose (lower, node, &rlx_fft_variants, &problem, error);
}
