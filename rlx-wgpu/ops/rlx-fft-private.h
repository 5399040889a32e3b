/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How the length of a Fourier transform is factorised, and what kernels need to know in
 * advance.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* The longest transform, and the longest that has a prime factor above RLX_FFT_PRIME. */
#define RLX_FFT_LENGTH (1 << 24)
#define RLX_FFT_CHIRP_LENGTH (1 << 23)
#define RLX_FFT_PRIME 13

/* For one kernel, and for one transform. */
#define RLX_FFT_STAGES 8
#define RLX_FFT_PASSES 8

/* What a workgroup computes at once: a transform whose length is the product of the
 * radices. */
typedef struct
{
  guint radices[RLX_FFT_STAGES];
  guint n_stages;
  guint sum;           /* of the radices */
} RlxFftStages;

/* Whether there is no prime factor above RLX_FFT_PRIME. */
gboolean rlx_fft_is_smooth    (guint64 n);
/* FALSE if some prime factor is above @max_radix. */
gboolean rlx_fft_find_stages  (guint64       n,
                               guint         max_radix,
                               guint         max_sum,
                               RlxFftStages *stages);
/* The smallest number of factors of at most @most each; 0 if there are none. */
guint    rlx_fft_find_passes  (guint64       n,
                               guint64       most,
                               guint64      *factors);
/* The length of the convolution that computes a transform of any length. */
guint64  rlx_fft_find_chirp   (guint64       n);

/* WGSL: butterfly_N (v: ptr<function, array<vec2f, N>>) for each radix. */
char *   rlx_fft_make_butterflies (const RlxFftStages *stages);

/* Complex constants, shared as long as they are in use. */
/* exp (-2πi k / n) for k < n */
RlxTensor *rlx_fft_get_roots       (guint64 n);
/* exp (-2πi k 2^bits / n), then exp (-2πi k / n) for k < 2^bits */
RlxTensor *rlx_fft_get_split_roots (guint64 n,
                                    guint   bits);
/* exp (-πi k² / n) for k < n */
RlxTensor *rlx_fft_get_chirp       (guint64 n);
/* The transform of the conjugate chirp, over @length */
RlxTensor *rlx_fft_get_filter      (guint64 n,
                                    guint64 length);

G_END_DECLS
