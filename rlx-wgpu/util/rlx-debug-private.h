/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The passes that only make graphs faster, in order. Each has a flag and a key no-NAME, here and in the compiler's
 * table of passes. */
#define RLX_OPTIONAL_PASSES(PASS) \
  PASS (QDQ, qdq) \
  PASS (RECOGNISE, recognise) \
  PASS (SPLIT, split) \
  PASS (JOIN, join) \
  PASS (ROTATE, rotate)

enum
{
#define PASS(NAME, name) RLX_DEBUG_BIT_##NAME,
  RLX_OPTIONAL_PASSES (PASS)
#undef PASS
};

/* Keys of RLX_DEBUG. The first group logs; the second changes behaviour, so that tests
 * and bug reports can switch off one thing at a time. */
typedef enum
{
  RLX_DEBUG_DEVICE        = 1 << 0,
  RLX_DEBUG_COMPILE       = 1 << 1,
  RLX_DEBUG_FUSE          = 1 << 2,
  RLX_DEBUG_PLAN          = 1 << 3,
  RLX_DEBUG_SHADERS       = 1 << 4,
  RLX_DEBUG_DISPATCH      = 1 << 5,
  RLX_DEBUG_CACHE         = 1 << 6,
  RLX_DEBUG_VALUES        = 1 << 7, /* logs, but prevents fusion */

  RLX_DEBUG_CHECKED       = 1 << 8, /* like the compile option */

  RLX_DEBUG_VALIDATE      = 1 << 10, /* check graphs and plans */
  RLX_DEBUG_NO_F16        = 1 << 11,
  RLX_DEBUG_NO_SUBGROUPS  = 1 << 12,
  RLX_DEBUG_NO_MATRIX     = 1 << 13,
  RLX_DEBUG_NO_CACHE      = 1 << 14,
  RLX_DEBUG_NO_FUSE       = 1 << 15,
  RLX_DEBUG_NO_ALIAS      = 1 << 16, /* no in-place, no reuse of memory */
  RLX_DEBUG_NO_FOLD       = 1 << 17,
  RLX_DEBUG_NO_ROBUSTNESS = 1 << 18,
  RLX_DEBUG_NO_TIMESTAMPS = 1 << 19,
  RLX_DEBUG_SMALL_BINDINGS = 1 << 20, /* so that small tensors are split */
  RLX_DEBUG_NO_DOT        = 1 << 21,
  RLX_DEBUG_NO_MAP        = 1 << 22, /* use the driver's memory even where the host's would do */
#define PASS(NAME, name) RLX_DEBUG_NO_##NAME = 1 << (23 + RLX_DEBUG_BIT_##NAME),
  RLX_OPTIONAL_PASSES (PASS)
#undef PASS
} RlxDebugFlags;

/* Measurements made with one of these do not apply without it. */
#define RLX_DEBUG_CHANGES_KERNELS \
  (RLX_DEBUG_NO_F16 | RLX_DEBUG_NO_SUBGROUPS | RLX_DEBUG_NO_MATRIX | RLX_DEBUG_NO_ROBUSTNESS | \
   RLX_DEBUG_SMALL_BINDINGS | RLX_DEBUG_NO_DOT)

/* Read once; 0 in a set-uid process. */
RlxDebugFlags rlx_debug_get_flags (void);
/* The name behind the key "target=", or NULL. Read once as well. */
const char *  rlx_debug_get_target (void);
/* Parses the variable's value, for rlx_debug_get_flags(). @target is the name behind
 * the last key "target=", or NULL; @help says whether "help" was among the keys;
 * @unknown is the quoted list of those that do not exist, or NULL. */
RlxDebugFlags rlx_debug_parse     (const char *string,
                                   char      **target,
                                   gboolean   *help,
                                   char      **unknown);
/* The table that "help" prints. */
char *        rlx_debug_help      (void);
/* For tests only: replaces the target from now on; NULL for none. @target is not copied. */
void          rlx_debug_set_target (const char *target);
/* For tests only: replaces the flags from now on. */
void          rlx_debug_set_flags (RlxDebugFlags flags);

#define RLX_DEBUG_CHECK(key) G_UNLIKELY (rlx_debug_get_flags () & RLX_DEBUG_##key)

/* Logs with g_message-like structure in domain "Rlx" when the key is set. */
#define RLX_NOTE(key, ...) \
  G_STMT_START { if (RLX_DEBUG_CHECK (key)) rlx_debug_log (#key, __VA_ARGS__); } G_STMT_END
void rlx_debug_log (const char *key, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* The value of one of the library's environment variables; NULL if it is unset, or in a
 * set-uid process. */
const char *rlx_getenv (const char *name);

/* Quotes text from outside for a message: control characters and bytes that are not
 * UTF-8 are escaped, and long text is truncated. @length may be -1 for a string that
 * ends in NUL. */
char *rlx_quote_text (const char *text, gssize length);

G_END_DECLS
