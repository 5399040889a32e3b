/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-half-private.h"

#include <math.h>
#include <string.h>

/* ---- checked arithmetic ------------------------------------------------- */

/* The required result, computed in 128 bits. */
#define CHECK(call, exact, min, max, result)                        \
  G_STMT_START                                                      \
  {                                                                 \
    __int128 exact_ = (exact);                                      \
    result = 0x5a;                                                  \
    if (exact_ >= (__int128) (min) && exact_ <= (__int128) (max))   \
      {                                                             \
        g_assert_true (call);                                       \
        g_assert_true ((__int128) result == exact_);                \
      }                                                             \
    else                                                            \
      {                                                             \
        g_assert_false (call);                                      \
        g_assert_true (result == 0x5a);                             \
      }                                                             \
  }                                                                 \
  G_STMT_END

static void
test_checked_unsigned (void)
{
  static const guint64 values[] = {
    0, 1, 2, 3, 7, 63, 64, 65,
    G_MAXUINT32 - 1, G_MAXUINT32, (guint64) G_MAXUINT32 + 1, (guint64) G_MAXUINT32 + 2,
    G_MAXINT64, (guint64) G_MAXINT64 + 1, (guint64) G_MAXINT64 + 2,
    G_MAXUINT64 / 3, G_MAXUINT64 / 3 + 1, G_MAXUINT64 / 2, G_MAXUINT64 - 63, G_MAXUINT64 - 1, G_MAXUINT64
  };

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        guint64 a = values[i], b = values[j], u;
        unsigned __int128 product = (unsigned __int128) a * b;

        CHECK (rlx_add_u64 (a, b, &u), (__int128) a + b, 0, G_MAXUINT64, u);
        CHECK (rlx_sub_u64 (a, b, &u), (__int128) a - b, 0, G_MAXUINT64, u);

        /* The product of two large ones overflows a signed 128-bit number, but is far
         * above the limit anyway. */
        if (product > G_MAXUINT64)
          product = (unsigned __int128) G_MAXUINT64 + 1;
        CHECK (rlx_mul_u64 (a, b, &u), (__int128) product, 0, G_MAXUINT64, u);

        if (b != 0)
          CHECK (rlx_round_up_u64 (a, b, &u), ((__int128) a + b - 1) / b * b, 0, G_MAXUINT64, u);
        else
          g_assert_false (rlx_round_up_u64 (a, b, &u));
      }
}

static void
test_checked_size (void)
{
  static const gsize values[] = { 0, 1, 2, 64, G_MAXSIZE / 2, G_MAXSIZE / 2 + 1, G_MAXSIZE - 1, G_MAXSIZE };

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        gsize a = values[i], b = values[j], r;
        unsigned __int128 product = MIN ((unsigned __int128) a * b, (unsigned __int128) G_MAXSIZE + 1);

        CHECK (rlx_add_size (a, b, &r), (__int128) a + b, 0, G_MAXSIZE, r);
        CHECK (rlx_sub_size (a, b, &r), (__int128) a - b, 0, G_MAXSIZE, r);
        CHECK (rlx_mul_size (a, b, &r), (__int128) product, 0, G_MAXSIZE, r);
        if (b != 0)
          CHECK (rlx_round_up_size (a, b, &r), ((__int128) a + b - 1) / b * b, 0, G_MAXSIZE, r);
        else
          g_assert_false (rlx_round_up_size (a, b, &r));
      }
}

static void
test_checked_signed (void)
{
  static const gint64 values[] = {
    G_MININT64, G_MININT64 + 1, G_MININT64 / 2, -(G_GINT64_CONSTANT (1) << 32), -3, -1, 0,
    1, 2, 10, G_GINT64_CONSTANT (1) << 31, G_MAXINT64 / 10, G_MAXINT64 / 10 + 1, G_MAXINT64 - 1, G_MAXINT64
  };

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        gint64 a = values[i], b = values[j], r;

        CHECK (rlx_add_i64 (a, b, &r), (__int128) a + b, G_MININT64, G_MAXINT64, r);
        CHECK (rlx_sub_i64 (a, b, &r), (__int128) a - b, G_MININT64, G_MAXINT64, r);
        CHECK (rlx_mul_i64 (a, b, &r), (__int128) a * b, G_MININT64, G_MAXINT64, r);
      }
}

static void
test_checked_narrow (void)
{
  gsize size = 0;
  guint32 u32 = 7;

  g_assert_true (rlx_u64_to_size (G_MAXSIZE, &size));
  g_assert_true (size == G_MAXSIZE);

  g_assert_false (rlx_u64_to_u32 ((guint64) G_MAXUINT32 + 1, &u32));
  g_assert_cmpuint (u32, ==, 7);
  g_assert_true (rlx_u64_to_u32 (G_MAXUINT32, &u32));
  g_assert_cmpuint (u32, ==, G_MAXUINT32);
}

/* ---- half floats -------------------------------------------------------- */

static guint32
bits_of (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);

  return bits;
}

static float
float_of (guint32 bits)
{
  float value;

  memcpy (&value, &bits, sizeof value);

  return value;
}

/* The neighbour that is further from zero. */
static double
away (double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits++;
  memcpy (&value, &bits, sizeof value);

  return value;
}

static double
towards (double value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits--;
  memcpy (&value, &bits, sizeof value);

  return value;
}

/* The value of a finite bit pattern, by the definition of the format. */
static double
value_of (guint16 pattern,
          int     mantissa_bits,
          int     exponent_bits)
{
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (pattern >> mantissa_bits) & ((1 << exponent_bits) - 1);
  double value = pattern & ((1 << mantissa_bits) - 1);
  int scale;

  if (exponent > 0)
    value += 1 << mantissa_bits;
  else
    exponent = 1;

  for (scale = exponent - bias - mantissa_bits; scale > 0; scale--)
    value *= 2;
  for (; scale < 0; scale++)
    value /= 2;

  return (pattern & 0x8000) != 0 ? -value : value;
}

static void
test_half_patterns (void)
{
  for (guint i = 0; i <= 0xffff; i++)
    {
      guint16 half = (guint16) i;
      float value = rlx_half_to_float (half);

      if ((half & 0x7c00) != 0x7c00)
        {
          g_assert_true (value == value_of (half, 10, 5));
          g_assert_true (!!signbit (value) == (half >> 15));
          g_assert_cmpuint (rlx_half_from_float (value), ==, half);
          g_assert_cmpuint (rlx_half_from_double (value), ==, half);
        }
      else if ((half & 0x3ff) == 0)
        {
          g_assert_true (value == ((half >> 15) != 0 ? -INFINITY : INFINITY));
          g_assert_cmpuint (rlx_half_from_float (value), ==, half);
          g_assert_cmpuint (rlx_half_from_double (value), ==, half);
        }
      else
        {
          g_assert_true (isnan (value));
          g_assert_cmpuint (rlx_half_from_float (value), ==, half | 0x200);
          g_assert_cmpuint (rlx_half_from_double (value), ==, half | 0x200);
        }
    }
}

/* Each midpoint between two neighbours, and the numbers next to it. */
static void
test_half_rounding (void)
{
  for (guint sign = 0; sign <= 0x8000; sign += 0x8000)
    for (guint i = 0; i < 0x7c00; i++)
      {
        guint16 low = (guint16) (sign | i);
        guint16 high = (guint16) (low + 1);
        guint16 even = (low & 1) == 0 ? low : high;
        double a = value_of (low, 10, 5);
        /* For the largest number the next one is where infinity begins. */
        double b = i == 0x7bff ? (sign != 0 ? -65536.0 : 65536.0) : value_of (high, 10, 5);
        double middle = (a + b) / 2;
        float f = (float) middle;

        g_assert_true (f == middle);
        g_assert_cmpuint (rlx_half_from_float (f), ==, even);
        g_assert_cmpuint (rlx_half_from_float (float_of (bits_of (f) + 1)), ==, high);
        g_assert_cmpuint (rlx_half_from_float (float_of (bits_of (f) - 1)), ==, low);

        /* As floats all of these would be the midpoint. */
        g_assert_cmpuint (rlx_half_from_double (middle), ==, even);
        g_assert_cmpuint (rlx_half_from_double (away (middle)), ==, high);
        g_assert_cmpuint (rlx_half_from_double (towards (middle)), ==, low);
      }
}

static void
test_half_extremes (void)
{
  static const struct
  {
    double value;
    guint16 half;
  } cases[] = {
    { 0.0, 0x0000 },
    { -0.0, 0x8000 },
    { 1.0, 0x3c00 },
    { -2.0, 0xc000 },
    { 65504.0, 0x7bff },
    { 65519.99, 0x7bff },
    { 65520.0, 0x7c00 },
    { 1e30, 0x7c00 },
    { -1e30, 0xfc00 },
    { 0x1p-14, 0x0400 },
    { 0x1p-24, 0x0001 },
    { 0x1p-25, 0x0000 },
    { 0x1.8p-25, 0x0001 },
    { -0x1p-26, 0x8000 },
    { 0x1p-149, 0x0000 },
    { 0.1, 0x2e66 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_assert_cmphex (rlx_half_from_double (cases[i].value), ==, cases[i].half);
      g_assert_cmphex (rlx_half_from_float ((float) cases[i].value), ==, cases[i].half);
    }

  g_assert_cmphex (rlx_half_from_double (1e300), ==, 0x7c00);
  g_assert_cmphex (rlx_half_from_double (-1e-320), ==, 0x8000);

  /* A NaN that loses its payload is still a NaN. */
  g_assert_cmphex (rlx_half_from_float (float_of (0x7f800001)) & 0x7e00, ==, 0x7e00);
  g_assert_cmphex (rlx_half_from_float (float_of (0xff800001)) & 0xfe00, ==, 0xfe00);
}

static void
test_bfloat (void)
{
  for (guint i = 0; i <= 0xffff; i++)
    {
      guint16 pattern = (guint16) i;
      float value = rlx_bfloat_to_float (pattern);

      if ((pattern & 0x7fff) > 0x7f80)
        {
          g_assert_true (isnan (value));
          g_assert_cmphex (rlx_bfloat_from_float (value), ==, pattern | 0x40);
          continue;
        }

      g_assert_cmphex (rlx_bfloat_from_float (value), ==, pattern);
      if ((pattern & 0x7fff) == 0x7f80)
        {
          g_assert_true (isinf (value));
          continue;
        }

      g_assert_true (value == value_of (pattern, 7, 8));

      /* Half-way to the next pattern, which for the largest one is infinity. */
      g_assert_cmphex (rlx_bfloat_from_float (float_of (i << 16 | 0x7fff)), ==, i);
      g_assert_cmphex (rlx_bfloat_from_float (float_of (i << 16 | 0x8000)), ==, i + (i & 1));
      g_assert_cmphex (rlx_bfloat_from_float (float_of (i << 16 | 0x8001)), ==, i + 1);
    }

  /* All of the payload is truncated. */
  g_assert_cmphex (rlx_bfloat_from_float (float_of (0x7f800001)), ==, 0x7fc0);
  g_assert_cmphex (rlx_bfloat_from_float (float_of (0xffffffff)), ==, 0xffff);
}

static void
test_half_arrays (void)
{
  const float values[] = { 0.0f, 1.0f, -2.5f, 65504.0f, 1e10f };
  guint16 half[G_N_ELEMENTS (values) + 1] = { 0 };
  float back[G_N_ELEMENTS (values) + 1] = { 0 };

  /* The last one must not be changed. */
  half[5] = 0x1234;
  back[5] = 42.0f;

  rlx_half_from_floats (values, half, 5);
  g_assert_cmphex (half[2], ==, 0xc100);
  g_assert_cmphex (half[4], ==, 0x7c00);
  g_assert_cmphex (half[5], ==, 0x1234);
  rlx_half_to_floats (half, back, 5);
  g_assert_true (back[2] == -2.5f && back[3] == 65504.0f && isinf (back[4]));
  g_assert_true (back[5] == 42.0f);

  rlx_bfloat_from_floats (values, half, 5);
  g_assert_cmphex (half[2], ==, 0xc020);
  g_assert_cmphex (half[5], ==, 0x1234);
  rlx_bfloat_to_floats (half, back, 5);
  g_assert_true (back[1] == 1.0f && back[3] == 65536.0f);
  g_assert_true (back[5] == 42.0f);

  rlx_half_to_floats (NULL, NULL, 0);
}

/* ---- debug keys --------------------------------------------------------- */

#define TALKING \
  (RLX_DEBUG_DEVICE | RLX_DEBUG_COMPILE | RLX_DEBUG_FUSE | RLX_DEBUG_PLAN | \
   RLX_DEBUG_SHADERS | RLX_DEBUG_DISPATCH | RLX_DEBUG_CACHE)

static void
test_debug_parse (void)
{
  static const struct
  {
    const char *string;
    guint flags;
    gboolean help;
    const char *unknown;
  } cases[] = {
    { "", 0, FALSE, NULL },
    { ",,: ;\t", 0, FALSE, NULL },
    { "plan", RLX_DEBUG_PLAN, FALSE, NULL },
    { "plan,device:fuse;cache shaders\tdispatch",
      RLX_DEBUG_PLAN | RLX_DEBUG_DEVICE | RLX_DEBUG_FUSE | RLX_DEBUG_CACHE | RLX_DEBUG_SHADERS | RLX_DEBUG_DISPATCH, FALSE, NULL },
    { " ,compile,", RLX_DEBUG_COMPILE, FALSE, NULL },
    { "PLAN,No-F16", RLX_DEBUG_PLAN | RLX_DEBUG_NO_F16, FALSE, NULL },
    { "no_subgroups,small_bindings", RLX_DEBUG_NO_SUBGROUPS | RLX_DEBUG_SMALL_BINDINGS, FALSE, NULL },
    { "no-matrix,no-cache,no-fuse,no-alias,no-fold,no-robustness,no-timestamps,no-map,validate",
      RLX_DEBUG_NO_MATRIX | RLX_DEBUG_NO_CACHE | RLX_DEBUG_NO_FUSE | RLX_DEBUG_NO_ALIAS | RLX_DEBUG_NO_FOLD |
      RLX_DEBUG_NO_ROBUSTNESS | RLX_DEBUG_NO_TIMESTAMPS | RLX_DEBUG_NO_MAP | RLX_DEBUG_VALIDATE, FALSE, NULL },
    { "no-qdq,no-recognise,no-split,no-join,no-rotate",
      RLX_DEBUG_NO_QDQ | RLX_DEBUG_NO_RECOGNISE | RLX_DEBUG_NO_SPLIT | RLX_DEBUG_NO_JOIN | RLX_DEBUG_NO_ROTATE, FALSE, NULL },
    { "all", TALKING, FALSE, NULL },
    { "all,no-fuse", TALKING | RLX_DEBUG_NO_FUSE, FALSE, NULL },
    { "help", 0, TRUE, NULL },
    { "help,plan", RLX_DEBUG_PLAN, TRUE, NULL },
    { "pla", 0, FALSE, "“pla”" },
    { "plans", 0, FALSE, "“plans”" },
    { "al", 0, FALSE, "“al”" },
    { "plan,nonsense,cache", RLX_DEBUG_PLAN | RLX_DEBUG_CACHE, FALSE, "“nonsense”" },
    { "a,b", 0, FALSE, "“a”, “b”" },
    { "a,b,c,d,e,f", 0, FALSE, "“a”, “b”, “c”, “d” and 2 more" },
    { "\xff\x01", 0, FALSE, "“\\xff\\x01”" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *unknown = NULL, *target = NULL;
      gboolean help = 2;

      g_assert_cmphex (rlx_debug_parse (cases[i].string, &target, &help, &unknown), ==, cases[i].flags);
      g_assert_cmpint (help, ==, cases[i].help);
      g_assert_cmpstr (unknown, ==, cases[i].unknown);
      g_assert_null (target);
    }
}

static void
test_debug_parse_long (void)
{
  g_autofree char *value = g_strnfill (1 << 20, 'x');
  g_autofree char *unknown = NULL, *target = NULL;
  gboolean help;

  g_assert_cmphex (rlx_debug_parse (value, &target, &help, &unknown), ==, 0);
  g_assert_cmpuint (strlen (unknown), <, 100);
  g_assert_true (g_str_has_suffix (unknown, "x…”"));
}

/* Each key in the table can be set, and each flag has a key. */
static void
test_debug_help (void)
{
  g_autofree char *text = rlx_debug_help ();
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint all = 0;

  for (guint i = 1; lines[i] != NULL && lines[i][0] != '\0'; i++)
    {
      g_auto (GStrv) words = g_strsplit_set (g_strchug (lines[i]), " ", 2);
      g_autofree char *unknown = NULL, *target = NULL;
      gboolean help;

      g_assert_cmpuint (g_strv_length (words), ==, 2);
      all |= rlx_debug_parse (words[0], &target, &help, &unknown);
      g_assert_null (unknown);
      g_assert_cmpuint (strlen (g_strstrip (words[1])), >, 5);
    }

  g_assert_cmphex (all, ==, TALKING | RLX_DEBUG_VALUES | RLX_DEBUG_CHECKED | (((guint) RLX_DEBUG_NO_ROTATE << 1) - RLX_DEBUG_VALIDATE));
}

static void
test_debug_set_flags (void)
{
  RlxDebugFlags before = rlx_debug_get_flags ();

  rlx_debug_set_flags (RLX_DEBUG_NO_FUSE);
  g_assert_true (RLX_DEBUG_CHECK (NO_FUSE));
  g_assert_false (RLX_DEBUG_CHECK (PLAN));
  rlx_debug_set_flags (before);
  g_assert_cmphex (rlx_debug_get_flags (), ==, before);
}

static gpointer
get_flags_thread (gpointer data G_GNUC_UNUSED)
{
  return GUINT_TO_POINTER (rlx_debug_get_flags ());
}

/* Runs in a child process, with RLX_DEBUG set by the tests below. */
static void
test_debug_child (void)
{
  GThread *threads[8];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new (NULL, get_flags_thread, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_assert_cmpuint (GPOINTER_TO_UINT (g_thread_join (threads[i])), ==, rlx_debug_get_flags ());

  RLX_NOTE (PLAN, "the answer is %d", 42);
  RLX_NOTE (NO_FUSE, "%s", "never said by the library");
  RLX_NOTE (CACHE, "silent");
}

static void
run_child (const char *value)
{
  g_auto (GStrv) env = g_get_environ ();

  env = g_environ_unsetenv (env, "G_MESSAGES_DEBUG");
  env = value != NULL ? g_environ_setenv (env, "RLX_DEBUG", value, TRUE) : g_environ_unsetenv (env, "RLX_DEBUG");
  g_test_trap_subprocess_with_envp ("/util/debug/subprocess/child", (const char * const *) env, 0,
                                    G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

static void
test_debug_environment (void)
{
  run_child (NULL);
  g_test_trap_assert_stderr_unmatched ("*Rlx*");
  g_test_trap_assert_stderr_unmatched ("*RLX*");

  run_child ("plan,no_fuse");
  g_test_trap_assert_stderr ("*Rlx*[plan] the answer is 42*[no-fuse] never said by the library*");
  g_test_trap_assert_stderr_unmatched ("*silent*");

  run_child ("help");
  g_test_trap_assert_stderr ("*Values of RLX_DEBUG*\n  device *\n  all *\n  help *\n*");
  g_test_trap_assert_stderr_unmatched ("*Values of RLX_DEBUG*Values of RLX_DEBUG*");

  run_child ("bogus,plan");
  g_test_trap_assert_stderr ("*Rlx*RLX_DEBUG has no key “bogus”*[plan] the answer is 42*");
  g_test_trap_assert_stderr_unmatched ("*bogus*bogus*");
}

static void
test_getenv (void)
{
  g_setenv ("RLX_TEST_VALUE", "seen", TRUE);
  g_assert_cmpstr (rlx_getenv ("RLX_TEST_VALUE"), ==, "seen");
  g_unsetenv ("RLX_TEST_VALUE");
  g_assert_null (rlx_getenv ("RLX_TEST_VALUE"));
}

static void
test_quote (void)
{
  static const struct
  {
    const char *text;
    gssize length;
    const char *quoted;
  } cases[] = {
    { "", -1, "“”" },
    { "abc", -1, "“abc”" },
    { "abc", 2, "“ab”" },
    { "a\0b", 3, "“a\\x00b”" },
    { "a\nb\x7f", -1, "“a\\x0ab\\x7f”" },
    { "größe", -1, "“größe”" },
    { "\xc3", -1, "“\\xc3”" },
    { "\xc3\xb6", 1, "“\\xc3”" },
    { "\xed\xa0\x80", -1, "“\\xed\\xa0\\x80”" },
    { "\xe2\x80\xae", -1, "“\\xe2\\x80\\xae”" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *quoted = rlx_quote_text (cases[i].text, cases[i].length);

      g_assert_cmpstr (quoted, ==, cases[i].quoted);
    }

  for (gsize n = 62; n < 68; n++)
    {
      g_autofree char *text = g_strnfill (n, 'y');
      g_autofree char *quoted = rlx_quote_text (text, -1);

      g_assert_cmpint (g_utf8_strlen (quoted, -1), ==, (glong) (n <= 64 ? n + 2 : 64 + 3));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/util/checked/unsigned", test_checked_unsigned);
  g_test_add_func ("/util/checked/size", test_checked_size);
  g_test_add_func ("/util/checked/signed", test_checked_signed);
  g_test_add_func ("/util/checked/narrow", test_checked_narrow);
  g_test_add_func ("/util/half/patterns", test_half_patterns);
  g_test_add_func ("/util/half/rounding", test_half_rounding);
  g_test_add_func ("/util/half/extremes", test_half_extremes);
  g_test_add_func ("/util/half/bfloat", test_bfloat);
  g_test_add_func ("/util/half/arrays", test_half_arrays);
  g_test_add_func ("/util/debug/parse", test_debug_parse);
  g_test_add_func ("/util/debug/parse-long", test_debug_parse_long);
  g_test_add_func ("/util/debug/help", test_debug_help);
  g_test_add_func ("/util/debug/set-flags", test_debug_set_flags);
  g_test_add_func ("/util/debug/subprocess/child", test_debug_child);
  g_test_add_func ("/util/debug/environment", test_debug_environment);
  g_test_add_func ("/util/debug/getenv", test_getenv);
  g_test_add_func ("/util/debug/quote", test_quote);

  return g_test_run ();
}
