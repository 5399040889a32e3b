/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-template-private.h"
#include "util/rlx-wgsl-library-private.h"

#include "rlx-types.h"

#include <glib/gstdio.h>
#include <string.h>

/* Kernel files that only these tests need are below kernels/unit, which is not part of
 * the library's resource but an overlay set up by main(). */
static const struct
{
  const char *name;
  const char *text;
} unit_files[] = {
  { "leaf.wgsl", "leaf $(N)\n" },
  { "no-newline.wgsl", "tail" },
  { "outer.wgsl", "#include \"unit/leaf.wgsl\"\n#include \"unit/outer.wgsl\"\n#define FROM_OUTER 7\nouter\n" },
  { "with.wgsl", "${t} $(N + EXTRA)\n#define LAST EXTRA\n" },
  { "with-outer.wgsl", "#include \"unit/with.wgsl\" t=\"inner\" EXTRA=1\n#include \"unit/with.wgsl\"\n" },
  { "maybe.wgsl", "$(defined(t)) $(defined(N))\n" },
  { "bad.wgsl", "fine\n$(NOWHERE)\n" },
  { "open-if.wgsl", "#if 1\n" },
  { "close-if.wgsl", "#endif\n" },
  { "blocks.wgsl",
    "// belongs to none\n"
    "//= op_a:\nfn op_a() {}\n"
    "//= op_b: op_a helper\nfn op_b() {}\n\n"
    "//= helper: op_a\nfn helper() {}\n"
    "//= op_round: op_trip\nfn op_round() {}\n"
    "//= op_trip: op_round\nfn op_trip() {}\n"
    "//= op_lost: nowhere\nfn op_lost() {}\n" },
  { "headless.wgsl", "//= op_a\nfn op_a() {}\n" },
};

static void
write_unit_files (const char *dir)
{
  g_autofree char *unit = g_build_filename (dir, "unit", NULL);

  g_assert_cmpint (g_mkdir (unit, 0700), ==, 0);

  for (gsize i = 0; i < G_N_ELEMENTS (unit_files); i++)
    {
      g_autofree char *path = g_build_filename (unit, unit_files[i].name, NULL);

      g_assert_true (g_file_set_contents (path, unit_files[i].text, -1, NULL));
    }

  /* chain-0 includes chain-1 and so on, beyond the maximum depth. */
  for (guint i = 0; i < 20; i++)
    {
      g_autofree char *name = g_strdup_printf ("chain-%u.wgsl", i);
      g_autofree char *path = g_build_filename (unit, name, NULL);
      g_autofree char *text = g_strdup_printf ("%u\n#include \"unit/chain-%u.wgsl\"\n", i, i + 1);

      g_assert_true (g_file_set_contents (path, i == 19 ? "end\n" : text, -1, NULL));
    }
}

static void
remove_unit_files (const char *dir)
{
  g_autofree char *unit = g_build_filename (dir, "unit", NULL);
  g_autoptr(GDir) files = g_dir_open (unit, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (files)) != NULL)
    {
      g_autofree char *path = g_build_filename (unit, name, NULL);

      g_unlink (path);
    }

  g_rmdir (unit);
  g_rmdir (dir);
}

static RlxTemplate *
new_template (void)
{
  RlxTemplate *template = rlx_template_new ();

  rlx_template_set_int (template, "N", 3);
  rlx_template_set_int (template, "ZERO", 0);
  rlx_template_set_int (template, "MIN", G_MININT64);
  rlx_template_set_int (template, "MAX", G_MAXINT64);
  rlx_template_set_text (template, "TYPE", "vec4<f32>");
  rlx_template_set_text (template, "DOLLAR", "$(N) ${TYPE}\n#if");

  return template;
}

static void
assert_expands (const char *text,
                const char *expected)
{
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *result = rlx_template_expand (template, text, "text", &error);

  g_assert_no_error (error);
  g_assert_cmpstr (result, ==, expected);
}

/* @beginning is the start of the message after the location, "text:LINE: ". */
static void
assert_fails (const char *text,
              const char *beginning)
{
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *result = rlx_template_expand (template, text, "text", &error);

  g_assert_null (result);
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  if (!g_str_has_prefix (error->message, beginning))
    g_error ("“%s” does not begin with “%s”", error->message, beginning);
}

static void
test_expressions (void)
{
  static const struct
  {
    const char *expression;
    gint64 value;
  } cases[] = {
    { "0", 0 },
    { "42", 42 },
    { "007", 7 },
    { "N", 3 },
    { "N+1", 4 },
    { " N  + 1 ", 4 },
    { "9223372036854775807", G_MAXINT64 },
    { "-9223372036854775807 - 1", G_MININT64 },
    { "MIN", G_MININT64 },
    { "-7", -7 },
    { "- -7", 7 },
    { "3--7", 10 },
    { "1 + 2 * 3", 7 },
    { "(1 + 2) * 3", 9 },
    { "10 - 4 - 3", 3 },
    { "100 / 10 / 5", 2 },
    { "100 / (10 / 5)", 50 },
    { "7 / 2", 3 },
    { "-7 / 2", -3 },
    { "7 % 4", 3 },
    { "-7 % 4", -3 },
    { "2 * 7 % 4", 2 },
    { "1 < 2", 1 },
    { "2 < 2", 0 },
    { "2 <= 2", 1 },
    { "3 <= 2", 0 },
    { "3 > 2", 1 },
    { "2 > 2", 0 },
    { "2 >= 3", 0 },
    { "2 >= 2", 1 },
    { "2 == 2", 1 },
    { "2 == 3", 0 },
    { "2 != 2", 0 },
    { "2 != 3", 1 },
    { "1 + 1 == 2", 1 },
    { "1 < 2 == 1", 1 },
    { "2 == 1 < 3", 0 },
    { "1 || 0 && 0", 1 },
    { "(1 || 0) && 0", 0 },
    { "0 || 0", 0 },
    { "0 || 5", 1 },
    { "5 && 6", 1 },
    { "!0", 1 },
    { "!5", 0 },
    { "!!5", 1 },
    { "!1 == 0", 1 },
    { "!(1 == 0)", 1 },
    { "-N * 2", -6 },
    { "defined(N)", 1 },
    { "defined ( N )", 1 },
    { "defined(TYPE)", 1 },
    { "defined(NOWHERE)", 0 },
    { "!defined(NOWHERE)", 1 },
    /* After a short circuit only the syntax matters. */
    { "defined(NOWHERE) && NOWHERE > 1", 0 },
    { "N == 3 || NOWHERE", 1 },
    { "0 && 1 / 0", 0 },
    { "0 && MAX + 1", 0 },
    { "0 && -MIN", 0 },
    { "1 || MIN / -1", 1 },
    { "0 && (1 || NOWHERE) || N", 1 },
    { "MIN / 1", G_MININT64 },
    { "MAX * -1", -G_MAXINT64 },
    { "((((((((N))))))))", 3 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("<$(%s)>", cases[i].expression);
      g_autofree char *expected = g_strdup_printf ("<%" G_GINT64_FORMAT ">", cases[i].value);

      assert_expands (text, expected);
    }
}

static void
test_expression_errors (void)
{
  static const struct
  {
    const char *expression;
    const char *message;
  } cases[] = {
    { "", "text:2: an expression cannot begin at “)" },
    { "1 +", "text:2: an expression cannot begin at “)" },
    { "* 2", "text:2: an expression cannot begin at “* 2)" },
    { "1 2", "text:2: “)” is missing" },
    { "1 = 2", "text:2: “)” is missing" },
    { "(1", "text:2: “)” is missing" },
    { "12x", "text:2: “x” follows a number" },
    { "0x10", "text:2: “x” follows a number" },
    { "TYPE", "text:2: “TYPE” is not defined" },
    { "NOWHERE", "text:2: “NOWHERE” is not defined" },
    { "NOWHERE && 0", "text:2: “NOWHERE” is not defined" },
    { "1 && NOWHERE", "text:2: “NOWHERE” is not defined" },
    { "0 || NOWHERE", "text:2: “NOWHERE” is not defined" },
    { "(0 && NOWHERE) + NOWHERE", "text:2: “NOWHERE” is not defined" },
    { "defined", "text:2: “(” is missing after “defined”" },
    { "defined()", "text:2: “defined” takes one name" },
    { "defined(N, N)", "text:2: “defined” takes one name" },
    { "1 / 0", "text:2: division by zero" },
    { "1 % ZERO", "text:2: division by zero" },
    { "9223372036854775808", "text:2: a number is beyond 64 bits" },
    { "99999999999999999999999", "text:2: a number is beyond 64 bits" },
    { "MAX + 1", "text:2: the result is beyond 64 bits" },
    { "MIN - 1", "text:2: the result is beyond 64 bits" },
    { "MAX * 2", "text:2: the result is beyond 64 bits" },
    { "MIN / -1", "text:2: the result is beyond 64 bits" },
    { "MIN % -1", "text:2: the result is beyond 64 bits" },
    { "-MIN", "text:2: the result is beyond 64 bits" },
  };
  g_autofree char *deep = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("fine\n$(%s); end\n", cases[i].expression);

      assert_fails (text, cases[i].message);
    }

  deep = g_strnfill (100000, '(');
  memcpy (deep, "$", 1);
  assert_fails (deep, "text:1: an expression is nested deeper than 64");

  memset (deep + 2, '!', 99998);
  assert_fails (deep, "text:1: an expression is nested deeper than 64");
}

static void
test_text (void)
{
  assert_expands ("", "");
  assert_expands ("a", "a");
  assert_expands ("a\n\nb\n", "a\n\nb\n");
  assert_expands ("let x: ${TYPE}; // $(N)$(N)${TYPE}\n", "let x: vec4<f32>; // 33vec4<f32>\n");
  /* Inserted text is not expanded again. */
  assert_expands ("${DOLLAR}\n", "$(N) ${TYPE}\n#if\n");
  assert_fails ("a $b\n", "text:1: “$” is followed by neither");
  assert_fails ("a $", "text:1: “$” is followed by neither");
  assert_fails ("${NOWHERE}", "text:1: the text “NOWHERE” is not defined");
  assert_fails ("${N}", "text:1: the text “N” is not defined");
  assert_fails ("${TYPE", "text:1: “}” is missing");
  assert_fails ("\n#pragma once\n", "text:2: #pragma is not a directive");
  assert_fails ("# \n", "text:1: # is not a directive");
}

static void
test_if (void)
{
  assert_expands ("#if N == 3\na\n#else\nb\n#endif\nc\n", "a\nc\n");
  assert_expands ("#if N != 3\na\n#else\nb\n#endif\nc\n", "b\nc\n");
  assert_expands ("  #if 0 // never\na\n  #endif // 0\nc", "c");
  assert_expands ("#if 0\n1\n#elif N == 3\n2\n#elif N == 3\n3\n#else\n4\n#endif\n", "2\n");
  assert_expands ("#if 0\n1\n#elif 0\n2\n#else\n4\n#endif\n", "4\n");
  assert_expands ("#if 1\n#if 0\na\n#else\nb\n#endif\n#else\n#if 1\nc\n#endif\n#endif\n", "b\n");
  /* Nothing is evaluated in excluded blocks. */
  assert_expands ("#if 0\n$(1 / 0) $x\n#define A 1 / 0\n#include \"none\"\n#use none\n"
                  "#if NOWHERE\n#elif NOWHERE\n#endif\n#for i in NOWHERE..2\n#endfor\n#endif\na\n",
                  "a\n");
  assert_expands ("#if 1\na\n#elif NOWHERE\nb\n#endif\n", "a\n");

  assert_fails ("a\n#if 1\nb\n", "text:2: #if has no #endif");
  assert_fails ("#if 1\n#for i in 0..2\n#endif\n#endfor\n", "text:2: #for has no #endfor");
  assert_fails ("#for i in 0..2\n#if 1\n#endfor\n#endif\n", "text:2: #if has no #endif");
  assert_fails ("#for i in 0..0\n#if 1\n#endfor\n#endif\n", "text:2: #if has no #endif");
  assert_fails ("a\n#endif\n", "text:2: #endif has no beginning");
  assert_fails ("#else\n", "text:1: #else has no beginning");
  assert_fails ("#elif 1\n", "text:1: #elif has no beginning");
  assert_fails ("#endfor\n", "text:1: #endfor has no beginning");
  assert_fails ("#if 1\n#else\n#else\n#endif\n", "text:3: #else comes after #else");
  assert_fails ("#if 1\n#else\n#elif 1\n#endif\n", "text:3: #elif comes after #else");
  assert_fails ("#if\n#endif\n", "text:1: an expression is missing");
  assert_fails ("#if 1 2\n#endif\n", "text:1: “2” is left over");
  assert_fails ("#if 1\n#endif 1\n", "text:2: “1” is left over after #endif");
  assert_fails ("#if 0\n#elif NOWHERE\n#endif\n", "text:2: “NOWHERE” is not defined");
  assert_fails ("#if 0\n#bogus\n#endif\n", "text:2: #bogus is not a directive");
}

static void
test_define (void)
{
  assert_expands ("#define A N * 2\n$(A)\n#define A A + 1\n$(A)\n", "6\n7\n");
  assert_fails ("$(A)\n#define A 1\n", "text:1: “A” is not defined");
  assert_fails ("#define\n", "text:1: #define needs a name");
  assert_fails ("#define 1 1\n", "text:1: #define needs a name");
  assert_fails ("#define defined 1\n", "text:1: #define needs a name");
  assert_fails ("#define A\n", "text:1: an expression is missing");
  assert_fails ("#define A f32\n", "text:1: “f32” is not defined");
}

static void
test_for (void)
{
  assert_expands ("#for i in 0..N\n$(i);\n#endfor\nend\n", "0;\n1;\n2;\nend\n");
  assert_expands ("#for i in N - 4 .. N * 1 // four\n$(i) \n#endfor\n", "-1 \n0 \n1 \n2 \n");
  assert_expands ("#for i in 2..2\n$(i)\n#endfor\na\n", "a\n");
  assert_expands ("#for i in 2..-5\n$(i)\n#endfor\na\n", "a\n");
  assert_expands ("#for i in MAX - 1 .. MAX\n$(i == MAX - 1)\n#endfor\n", "1\n");
  assert_expands ("#for i in 0..2\n#for j in 0..i + 1\n$(i)$(j)\n#endfor\n#endfor\n", "00\n10\n11\n");
  assert_expands ("#for i in 0..3\n#if i == 1\none\n#else\n$(i)\n#endif\n#endfor\n", "0\none\n2\n");
  /* The loop variable hides another of the same name during the loop. */
  assert_expands ("#for N in 0..1\n$(N)\n#endfor\n$(N)\n", "0\n3\n");
  assert_expands ("#for i in 0..1\n#endfor\n$(defined(i))\n", "0\n");
  assert_expands ("#define S 0\n#for i in 0..5\n#define S S + i\n#endfor\n$(S)\n", "10\n");
  assert_expands ("#for i in 0..64\n#for j in 0..63\n#endfor\n#endfor\n", "");

  assert_fails ("#for i in 0..2\n$(i)\n", "text:1: #for has no #endfor");
  assert_fails ("#for i in 0\n#endfor\n", "text:1: #for is written");
  assert_fails ("#for i = 0..2\n#endfor\n", "text:1: #for is written");
  assert_fails ("#for in 0..2\n#endfor\n", "text:1: #for is written");
  assert_fails ("#for i in 0..\n#endfor\n", "text:1: an expression is missing");
  assert_fails ("#for i in 0..2 3\n#endfor\n", "text:1: “3” is left over");
  assert_fails ("#for i in 0..NOWHERE\n#endfor\n", "text:1: “NOWHERE” is not defined");
}

static void
test_limits (void)
{
  g_autoptr(GString) nested = g_string_new (NULL);
  g_autoptr(GString) long_line = g_string_new (NULL);
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *result = NULL;

  assert_expands ("#for i in 0..4096\n#endfor\n", "");
  assert_fails ("#for i in 0..4097\n#endfor\n", "text:1: more than 4096 iterations");
  assert_fails ("#for i in MIN..MAX\n#endfor\n", "text:1: more than 4096 iterations");
  assert_fails ("#for i in 0..100\n#for j in 0..100\n#endfor\n#endfor\n", "text:2: more than 4096 iterations");
  assert_fails ("#for i in 0..4000\n#endfor\n#for i in 0..4000\n#endfor\n", "text:3: more than 4096 iterations");

  for (guint i = 0; i < 1000; i++)
    g_string_append (nested, "#if 1\n");
  assert_fails (nested->str, "text:34: directives are nested deeper than 32");
  for (char *p = nested->str; (p = strchr (p, '1')) != NULL; p++)
    *p = '0';
  assert_fails (nested->str, "text:34: directives are nested deeper than 32");

  g_string_append (long_line, "#for i in 0..4096\n");
  for (guint i = 0; i < 256; i++)
    g_string_append_c (long_line, 'x');
  g_string_append (long_line, "\n#endfor\n");
  assert_fails (long_line->str, "text:2: the result is longer than 1048576 bytes");

  g_string_erase (long_line, strlen ("#for i in 0..4096\n"), 1);
  result = rlx_template_expand (template, long_line->str, "text", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (strlen (result), ==, 1048576);
}

static void
test_include (void)
{
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *result = NULL;

  assert_expands ("#include \"unit/leaf.wgsl\"\n#include \"unit/leaf.wgsl\" // again\nend\n", "leaf 3\nend\n");
  assert_expands ("#include \"unit/outer.wgsl\"\n$(FROM_OUTER)\n", "leaf 3\nouter\n7\n");
  assert_expands ("#for i in 0..3\n#include \"unit/leaf.wgsl\"\n#endfor\n", "leaf 3\n");
  assert_expands ("#include \"unit/no-newline.wgsl\"\nend\n", "tail\nend\n");
  assert_expands ("#include \"unit/chain-4.wgsl\"\n",
                  "4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\nend\n");

  assert_fails ("#include unit/leaf.wgsl\n", "text:1: #include needs a file name");
  assert_fails ("#include \"\n", "text:1: #include needs a file name");
  assert_fails ("#include \"\"\n", "text:1: #include needs a file name");
  assert_fails ("#include \"unit/leaf.wgsl\" x\n", "text:1: “x” is left over");
  assert_fails ("a\n#include \"unit/none.wgsl\"\n", "text:2: Kernel file “unit/none.wgsl” cannot be read");
  assert_fails ("#include \"unit/bad.wgsl\"\n", "unit/bad.wgsl:2: “NOWHERE” is not defined");
  assert_fails ("#include \"unit/open-if.wgsl\"\n#include \"unit/close-if.wgsl\"\n",
                "unit/open-if.wgsl:1: #if has no #endif");
  assert_fails ("#if 1\n#include \"unit/close-if.wgsl\"\n#endif\n",
                "unit/close-if.wgsl:1: #endif has no beginning");
  assert_fails ("#include \"unit/chain-0.wgsl\"\n", "unit/chain-15.wgsl:2: #include is nested deeper than 16");

  /* An expanded file counts as included, and the template can be reused after an expansion. */
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *text = rlx_template_expand_file (template, "unit/outer.wgsl", &error);

      g_assert_no_error (error);
      g_assert_cmpstr (text, ==, "leaf 3\nouter\n");
    }

  result = rlx_template_expand (template, "$(FROM_OUTER)", "text", &error);
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_null (result);
  g_clear_error (&error);

  result = rlx_template_expand_file (template, "unit/none.wgsl", &error);
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_null (result);
}

/* Files that are included with definitions. */
static void
test_include_with (void)
{
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *first = NULL;
  g_autofree char *second = NULL;

  assert_expands ("#include \"unit/with.wgsl\" t=\"a b\" EXTRA=N * (2 + 1) // not this\n$(LAST)\n", "a b 12\n9\n");
  /* once per set of definitions, however they are written */
  assert_expands ("#include \"unit/with.wgsl\" t=\"a\" EXTRA=1\n#include \"unit/with.wgsl\" t = \"a\" EXTRA = 2 - 1\n"
                  "#include \"unit/with.wgsl\" t=\"b\" EXTRA=1\n#include \"unit/with.wgsl\" t=\"b\" EXTRA=2\n",
                  "a 4\nb 4\nb 5\n");
  assert_expands ("#include \"unit/leaf.wgsl\"\n#include \"unit/leaf.wgsl\" N=5\n#include \"unit/leaf.wgsl\" N=6\n$(N)\n",
                  "leaf 3\nleaf 5\nleaf 6\n3\n");
  /* those of the including file are visible, and are restored */
  assert_expands ("#include \"unit/with-outer.wgsl\" t=\"outer\" EXTRA=10\n", "inner 4\nouter 13\n");
  assert_expands ("#define N 8\n#include \"unit/leaf.wgsl\" N=N + 1\n$(N)\n", "leaf 9\n8\n");
  assert_expands ("#include \"unit/leaf.wgsl\" N=1 N=2\n$(N)\n", "leaf 2\n3\n");
  assert_expands ("#include \"unit/maybe.wgsl\" t=\"\"\n$(defined(t))\n", "1 1\n0\n");

  assert_fails ("#include \"unit/with.wgsl\" t=\"a\"\n", "unit/with.wgsl:1: “EXTRA” is not defined");
  assert_fails ("#include \"unit/with.wgsl\" EXTRA=1\n", "unit/with.wgsl:1: the text “t” is not defined");
  assert_fails ("#include \"unit/with.wgsl\" t=\"a\" EXTRA=1\n${t}\n", "text:2: the text “t” is not defined");
  assert_fails ("#include \"unit/leaf.wgsl\" N=1 x\n", "text:1: “x” is left over");
  assert_fails ("#include \"unit/leaf.wgsl\" N=1, x=2\n", "text:1: “, x=2” is left over");
  assert_fails ("#include \"unit/leaf.wgsl\" defined=1\n", "text:1: “defined=1” is left over");
  assert_fails ("#include \"unit/leaf.wgsl\" t=\"a\n", "text:1: the text of “t” has no end");
  assert_fails ("#include \"unit/leaf.wgsl\" N=NOWHERE\n", "text:1: “NOWHERE” is not defined");
  assert_fails ("#include \"unit/leaf.wgsl\" N=\n", "text:1: ");

  /* A text of the template is only hidden. */
  rlx_template_set_text (template, "t", "mine");
  first = rlx_template_expand (template, "#include \"unit/with.wgsl\" t=\"other\" EXTRA=0\n${t}\n", "text", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (first, ==, "other 3\nmine\n");
  second = rlx_template_expand (template, "${t}\n", "text", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (second, ==, "mine\n");
}

static void
test_library_select (void)
{
  static const struct
  {
    const char *names[3];
    const char *text;
  } cases[] = {
    { { NULL }, "" },
    { { "op_a" }, "fn op_a() {}\n" },
    { { "op_b" }, "fn op_a() {}\nfn op_b() {}\n\nfn helper() {}\n" },
    { { "helper", "op_a" }, "fn op_a() {}\nfn helper() {}\n" },
    { { "op_a", "op_a" }, "fn op_a() {}\n" },
    { { "op_round" }, "fn op_round() {}\nfn op_trip() {}\n" },
  };
  static const char *const unknown[] = { "op_none", NULL };
  static const char *const lost[] = { "op_lost", NULL };
  g_autoptr(GError) error = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = rlx_wgsl_library_select ("unit/blocks.wgsl", cases[i].names, &error);

      g_assert_no_error (error);
      g_assert_cmpstr (text, ==, cases[i].text);
    }

  g_assert_null (rlx_wgsl_library_select ("unit/blocks.wgsl", unknown, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_assert_cmpstr (error->message, ==, "unit/blocks.wgsl has no function “op_none”");
  g_clear_error (&error);

  g_assert_null (rlx_wgsl_library_select ("unit/blocks.wgsl", lost, &error));
  g_assert_cmpstr (error->message, ==, "unit/blocks.wgsl has no function “nowhere”");
  g_clear_error (&error);

  g_assert_null (rlx_wgsl_library_select ("unit/headless.wgsl", unknown, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
  g_clear_error (&error);

  g_assert_null (rlx_wgsl_library_select ("unit/none.wgsl", unknown, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
}

static void
test_library_scan (void)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);

  rlx_wgsl_library_scan ("", names);
  rlx_wgsl_library_scan ("a + load_op_x(3) + myop_exp + _op_a", names);
  g_assert_cmpuint (names->len, ==, 0);

  rlx_wgsl_library_scan ("-op_exp(op_log(a))*op_exp(b)/cast_f_i(op_log2)", names);
  rlx_wgsl_library_scan ("op_log", names);
  g_assert_cmpuint (names->len, ==, 4);
  g_assert_cmpstr (names->pdata[0], ==, "op_exp");
  g_assert_cmpstr (names->pdata[1], ==, "op_log");
  g_assert_cmpstr (names->pdata[2], ==, "cast_f_i");
  g_assert_cmpstr (names->pdata[3], ==, "op_log2");
}

static guint
count (const char *text,
       const char *part)
{
  guint n = 0;

  for (; (text = strstr (text, part)) != NULL; text++)
    n++;

  return n;
}

static void
test_use (void)
{
  static const char *const with_include[] = {
    "#use op_exp\n#include \"common/math.wgsl\"\n",
    "#include \"common/math.wgsl\"\n#use op_exp\n",
  };
  g_autoptr(RlxTemplate) template = new_template ();
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  text = rlx_template_expand (template, "#use op_silu // first\n#use op_sigmoid op_silu\nend\n",
                              "text", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count (text, "fn op_silu("), ==, 1);
  g_assert_cmpuint (count (text, "fn op_sigmoid("), ==, 1);
  g_assert_cmpuint (count (text, "fn op_exp("), ==, 1);
  g_assert_cmpuint (count (text, "fn op_erf("), ==, 0);
  g_assert_cmpuint (count (text, "//="), ==, 0);
  g_assert_true (g_str_has_suffix (text, "end\n"));

  g_clear_pointer (&text, g_free);
  rlx_template_set_text (template, "NAMES", "op_exp op_silu");
  rlx_template_set_text (template, "NOTHING", "");
  text = rlx_template_expand (template, "#use ${NOTHING}\n#use op_erf ${NAMES}\n", "text", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count (text, "fn op_silu("), ==, 1);
  g_assert_cmpuint (count (text, "fn op_erf("), ==, 1);
  g_assert_cmpuint (count (text, "fn op_gelu("), ==, 0);

  for (gsize i = 0; i < G_N_ELEMENTS (with_include); i++)
    {
      g_autofree char *all = rlx_template_expand (template, with_include[i], "text", &error);

      g_assert_no_error (error);
      g_assert_cmpuint (count (all, "fn op_exp("), ==, 1);
      g_assert_cmpuint (count (all, "fn op_erf("), ==, 1);
    }

  assert_fails ("#use\n", "text:1: #use needs a name");
  assert_fails ("#use ${NONE}\n", "text:1: the text “NONE” is not defined");
  assert_fails ("#use ${NONE\n", "text:1: “}” is missing after “${”");
  assert_fails ("#use op_exp, op_log\n", "text:1: “, op_log” is not a name");
  assert_fails ("a\n#use op_none\n", "text:2: common/math.wgsl has no function “op_none”");
}

static char *
describe (const char *names,
          gint64      value,
          const char *text)
{
  g_autoptr(RlxTemplate) template = rlx_template_new ();

  for (; *names != '\0'; names++)
    rlx_template_set_int (template, (const char[]) { *names, '\0' }, value);
  if (text != NULL)
    rlx_template_set_text (template, "T", text);
  return rlx_template_describe (template);
}

/* Equal for equal settings in any order, and different for others. */
static void
test_describe (void)
{
  g_autofree char *one = describe ("AB", 7, "x"), *same = describe ("BA", 7, "x");
  g_autofree char *value = describe ("AB", 8, "x"), *more = describe ("ABC", 7, "x");
  g_autofree char *text = describe ("AB", 7, "y"), *none = describe ("AB", 7, NULL);
  /* a text that looks like another variable */
  g_autofree char *inside = describe ("A", 7, "x\nU 1 y");
  g_autoptr(RlxTemplate) two = rlx_template_new ();
  g_autofree char *beside = NULL;

  rlx_template_set_int (two, "A", 7);
  rlx_template_set_text (two, "T", "x");
  rlx_template_set_text (two, "U", "y");
  beside = rlx_template_describe (two);

  g_assert_cmpstr (one, ==, same);
  g_assert_cmpstr (one, !=, value);
  g_assert_cmpstr (one, !=, more);
  g_assert_cmpstr (one, !=, text);
  g_assert_cmpstr (one, !=, none);
  g_assert_cmpstr (inside, !=, beside);
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *dir = g_dir_make_tmp ("rlx-template-XXXXXX", NULL);
  g_autofree char *overlay = g_strdup_printf ("/rlx-wgpu/kernels/unit=%s/unit", dir);
  int result;

  write_unit_files (dir);
  /* Before any resource is accessed. */
  g_setenv ("G_RESOURCE_OVERLAYS", overlay, TRUE);

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/template/expressions", test_expressions);
  g_test_add_func ("/template/expression-errors", test_expression_errors);
  g_test_add_func ("/template/text", test_text);
  g_test_add_func ("/template/if", test_if);
  g_test_add_func ("/template/define", test_define);
  g_test_add_func ("/template/for", test_for);
  g_test_add_func ("/template/limits", test_limits);
  g_test_add_func ("/template/include", test_include);
  g_test_add_func ("/template/include-with", test_include_with);
  g_test_add_func ("/template/use", test_use);
  g_test_add_func ("/template/describe", test_describe);
  g_test_add_func ("/template/library/select", test_library_select);
  g_test_add_func ("/template/library/scan", test_library_scan);

  result = g_test_run ();
  remove_unit_files (dir);

  return result;
}
