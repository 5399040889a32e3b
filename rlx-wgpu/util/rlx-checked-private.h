/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Arithmetic on sizes that come from users or files. Every function returns FALSE if the
 * exact result does not fit, and then leaves *result unchanged, so a caller that forgets to
 * check cannot continue with a wrapped value by accident.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define RLX_CHECKED_OP_(name, type, builtin)                  \
  G_GNUC_WARN_UNUSED_RESULT G_GNUC_UNUSED                     \
  static inline gboolean                                      \
  name (type a, type b, type *result)                         \
  {                                                           \
    type r_;                                                  \
    if (G_UNLIKELY (builtin (a, b, &r_)))                     \
      return FALSE;                                           \
    *result = r_;                                             \
    return TRUE;                                              \
  }

/* clang-format off */
RLX_CHECKED_OP_ (rlx_add_size, gsize,   __builtin_add_overflow)
RLX_CHECKED_OP_ (rlx_sub_size, gsize,   __builtin_sub_overflow)
RLX_CHECKED_OP_ (rlx_mul_size, gsize,   __builtin_mul_overflow)
RLX_CHECKED_OP_ (rlx_add_u64,  guint64, __builtin_add_overflow)
RLX_CHECKED_OP_ (rlx_sub_u64,  guint64, __builtin_sub_overflow)
RLX_CHECKED_OP_ (rlx_mul_u64,  guint64, __builtin_mul_overflow)
RLX_CHECKED_OP_ (rlx_add_i64,  gint64,  __builtin_add_overflow)
RLX_CHECKED_OP_ (rlx_sub_i64,  gint64,  __builtin_sub_overflow)
RLX_CHECKED_OP_ (rlx_mul_i64,  gint64,  __builtin_mul_overflow)
/* clang-format on */

#undef RLX_CHECKED_OP_

/* The smallest multiple of @alignment that is not below @value. The alignment must not
 * be 0, and need not be a power of two. */
#define RLX_CHECKED_ROUND_UP_(name, type, add)                \
  G_GNUC_WARN_UNUSED_RESULT G_GNUC_UNUSED                     \
  static inline gboolean                                      \
  name (type value, type alignment, type *result)             \
  {                                                           \
    type rest_;                                               \
    if (G_UNLIKELY (alignment == 0))                          \
      return FALSE;                                           \
    rest_ = value % alignment;                                \
    return add (value, rest_ == 0 ? 0 : alignment - rest_, result); \
  }

/* clang-format off */
RLX_CHECKED_ROUND_UP_ (rlx_round_up_size, gsize,   rlx_add_size)
RLX_CHECKED_ROUND_UP_ (rlx_round_up_u64,  guint64, rlx_add_u64)
/* clang-format on */

#undef RLX_CHECKED_ROUND_UP_

/* The number of pieces of @size in @value, the last of which may be smaller. Cannot
 * overflow; @size is not 0. */
static inline guint64
rlx_divide_up (guint64 value,
               guint64 size)
{
  return value / size + (value % size != 0);
}

/* Narrowing conversions, which fail if the value does not fit. */
G_GNUC_WARN_UNUSED_RESULT G_GNUC_UNUSED
static inline gboolean
rlx_u64_to_size (guint64 value, gsize *result)
{
#if GLIB_SIZEOF_SIZE_T < 8
  if (value > G_MAXSIZE)
    return FALSE;
#endif
  *result = (gsize) value;
  return TRUE;
}

G_GNUC_WARN_UNUSED_RESULT G_GNUC_UNUSED
static inline gboolean
rlx_u64_to_u32 (guint64 value, guint32 *result)
{
  if (G_UNLIKELY (value > G_MAXUINT32))
    return FALSE;
  *result = (guint32) value;
  return TRUE;
}

G_END_DECLS
