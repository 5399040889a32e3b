/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-reference.h"

G_BEGIN_DECLS

/* Half the relative distance between f32 numbers: the error of one rounding. */
#define RLX_F32_EPSILON 0x1p-24
/* The relative distance: "1 ulp" is at most this. */
#define RLX_F32_ULP 0x1p-23

typedef struct
{
  const char *op;
  GVariant *attributes;                   /* a{sv}, complete */
  const RlxReferenceValue *const *inputs; /* NULL for an omitted one */
  gsize n_inputs;
  RlxReferenceValue *output;              /* type and shape are set; bounds are 0 */
  gsize result;                           /* index among several results of an operator */
  gboolean narrow;                        /* products may round their operands to f16 */
  gboolean bytes;                         /* those with packed weights quantise the other operand to bytes */
} RlxReferenceCall;

typedef void (*RlxReferenceFunc) (RlxReferenceCall *call);

typedef struct
{
  const char *op;
  RlxReferenceFunc func;
} RlxReferenceRow;

/* One table per file, terminated by NULL. */
extern const RlxReferenceRow rlx_reference_attention[];
extern const RlxReferenceRow rlx_reference_contract[];
extern const RlxReferenceRow rlx_reference_complex[];
extern const RlxReferenceRow rlx_reference_fourier[];
extern const RlxReferenceRow rlx_reference_index[];
extern const RlxReferenceRow rlx_reference_linear[];
extern const RlxReferenceRow rlx_reference_loss[];
extern const RlxReferenceRow rlx_reference_neighbours[];
extern const RlxReferenceRow rlx_reference_normalise[];
extern const RlxReferenceRow rlx_reference_norms[];
extern const RlxReferenceRow rlx_reference_packed[];
extern const RlxReferenceRow rlx_reference_quantize[];
extern const RlxReferenceRow rlx_reference_random[];
extern const RlxReferenceRow rlx_reference_recurrent[];
extern const RlxReferenceRow rlx_reference_reduce[];
extern const RlxReferenceRow rlx_reference_resize[];
extern const RlxReferenceRow rlx_reference_sequence[];
extern const RlxReferenceRow rlx_reference_shape[];
extern const RlxReferenceRow rlx_reference_signal[];
extern const RlxReferenceRow rlx_reference_solve[];
extern const RlxReferenceRow rlx_reference_sort[];
extern const RlxReferenceRow rlx_reference_window[];

/* ---- sums of products ------------------------------------------------------ */

/* Σ |a| |b|, and that of the finite products. */
typedef struct
{
  double all;
  double finite;
} RlxReferenceSize;

void   rlx_reference_size_add      (RlxReferenceSize *self,
                                    double            product);
/* The error of a sum of @k products, with @error from the errors of the operands. If intermediate
 * results may overflow f32, nothing is known; exact infinities and NaNs are kept. */
double rlx_reference_sum_bound     (const RlxReferenceSize *size,
                                    double                  error,
                                    double                  k);
/* The error of an operand of a product. With reduced precision it is rounded to the nearest number of
 * f16, where values below 2⁻¹⁴ may be lost, and those above 65504 may become anything. */
double rlx_reference_operand_bound (const RlxReferenceCall  *call,
                                    const RlxReferenceValue *value,
                                    gsize                    i);

/* ---- element-wise operators ---------------------------------------------- */

/* The attributes that the operator has. Floats are rounded to f32, as on the device. */
typedef struct
{
  double p;                  /* alpha, minimum */
  double q;                  /* beta, gamma, maximum */
  gboolean flag;             /* floor, detect_negative */
  gboolean other_flag;       /* detect_positive */
  RlxDataType type;          /* of the last operand */
  RlxDataType to;            /* of the result */
} RlxReferenceParams;

typedef double (*RlxReferenceFloatFunc) (const double             *x,
                                         const RlxReferenceParams *params);
typedef gint64 (*RlxReferenceIntFunc)   (const gint64             *x,
                                         const RlxReferenceParams *params);

typedef struct
{
  const char *op;
  RlxReferenceFloatFunc f;     /* floats, and all types if there is no i */
  RlxReferenceIntFunc i;       /* integers; the result wraps */
  double relative;             /* the stated bound: relative · |y| + absolute, */
  double absolute;
  RlxReferenceFloatFunc bound; /* or this function of the operands */
  gboolean curved;             /* the error may be larger inside an interval than at its ends */
} RlxReferenceFunction;

extern const RlxReferenceFunction rlx_reference_functions[]; /* terminated by NULL */
const RlxReferenceFunction *rlx_reference_find_function (const char *op);
void rlx_reference_elementwise (RlxReferenceCall *call);
void rlx_reference_cast        (RlxReferenceCall *call);

/* ---- Fourier transforms ----------------------------------------------------- */

/* Complex numbers, and the errors of their parts. */
typedef struct
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;
  gsize n_elements;
  double *re, *im, *bounds;
} RlxReferenceNumbers;

/* All zeros. */
void rlx_reference_numbers_init  (RlxReferenceNumbers *self,
                                  const gint64        *shape,
                                  gsize                n_dims);
void rlx_reference_numbers_clear (RlxReferenceNumbers *self);
/* Transforms the elements along @axis into @wanted ones by a transform of length @n: of @sign -1 or 1,
 * times @scale, where elements above n / 2 are conjugates if @hermitian is set. */
void rlx_reference_transform     (RlxReferenceNumbers *x,
                                  gsize                axis,
                                  gsize                n,
                                  gsize                wanted,
                                  gboolean             hermitian,
                                  double               sign,
                                  double               scale);
/* The factor for one of the two directions. */
double rlx_reference_get_norm    (RlxReferenceCall    *call,
                                  gboolean             inverse,
                                  gsize                n);
/* The position of a part of number @i of @n. */
gsize rlx_reference_find_part    (gboolean             planar,
                                  gsize                i,
                                  gsize                n,
                                  gsize                part);
/* "" if there is none. */
const char *rlx_reference_get_text (RlxReferenceCall  *call,
                                    const char        *name);

/* ---- integers ------------------------------------------------------------- */

gint64 rlx_reference_add_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_sub_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_mul_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_div_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_pow_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_mod_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_fma_i         (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_prelu_i       (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_clamp_i       (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_bit_and       (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_bit_or        (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_bit_xor       (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_bit_not       (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_shift_left    (const gint64 *x, const RlxReferenceParams *params);
gint64 rlx_reference_shift_right   (const gint64 *x, const RlxReferenceParams *params);

/* The number as @data_type stores it on the device; 64-bit types are 32 bits wide. */
gint64   rlx_reference_wrap        (RlxDataType data_type, gint64 value);
void     rlx_reference_get_range   (RlxDataType data_type, gint64 *least, gint64 *greatest);
guint    rlx_reference_get_bits    (RlxDataType data_type);
gboolean rlx_reference_is_float    (RlxDataType data_type);

/* ---- helpers ---------------------------------------------------------------- */

gint64   rlx_reference_get_int     (RlxReferenceCall *call, const char *name);
gboolean rlx_reference_get_bool    (RlxReferenceCall *call, const char *name);
double   rlx_reference_get_float   (RlxReferenceCall *call, const char *name);
/* NULL and 0 for an empty list, FALSE if there is none. */
gboolean rlx_reference_get_ints    (RlxReferenceCall *call,
                                    const char       *name,
                                    gint64            values[RLX_MAX_DIMS],
                                    gsize            *n_values);
/* Marks the axes in a list. */
void     rlx_reference_get_axes    (RlxReferenceCall *call,
                                    const char       *name,
                                    gsize             n_dims,
                                    gboolean          axes[RLX_MAX_DIMS]);

const RlxReferenceValue *rlx_reference_get_input (RlxReferenceCall *call, gsize index);

/* The next index in row-major order; FALSE after the last. */
gboolean rlx_reference_next        (gint64       *index,
                                    const gint64 *shape,
                                    gsize         n_dims);
/* The position of the element of @value that broadcasts to @index of a shape of @n_dims
 * dimensions. */
gsize    rlx_reference_position    (const RlxReferenceValue *value,
                                    const gint64            *index,
                                    gsize                    n_dims);
/* Sets element @at of the result of an operator whose operands from @first on are bias,
 * scale, scale_y and zero_y. @sum is of integers, with an error of up to @bound. */
void     rlx_reference_requantize  (RlxReferenceCall *call,
                                    gsize             first,
                                    gsize             channel,
                                    gsize             at,
                                    double            sum,
                                    double            bound);
/* The value rounded to f16. */
gboolean rlx_reference_is_narrow     (RlxDataType data_type);
double   rlx_reference_decode_narrow (RlxDataType data_type,
                                      guint       bits);
double   rlx_reference_round_narrow  (RlxDataType data_type,
                                      double      value);
double   rlx_reference_round_f16   (double value);

G_END_DECLS
