/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-template-private.h"

#include "rlx-types.h"
#include "util/rlx-wgsl-library-private.h"

#include <string.h>

/* The input is the library's own, but a mistake in it must end in an error message, not in
 * a stack overflow or in a lack of memory. */
#define MAX_INCLUDES   16
#define MAX_NESTING    32
#define MAX_PARENS     64
#define MAX_ITERATIONS 4096
#define MAX_OUTPUT     (1024 * 1024)

struct _RlxTemplate
{
  GHashTable *ints;
  GHashTable *texts;
};

/* One expansion. #define and #for change the integers in here, not those of the template,
 * so that it can be expanded again. */
typedef struct
{
  GHashTable *ints;
  GHashTable *texts;      /* of the template */
  GHashTable *arguments;  /* texts that a file is included with; they hide those */
  GHashTable *included;
  GHashTable *used;
  GString *output;
  guint n_iterations;
} Expansion;

typedef struct
{
  Expansion *expansion;
  const char *label;
  char **lines;
  guint line;
  guint n_includes;
} Source;

/* Where in a line an expression is being read. With @dead set, values do not
 * matter: the right side of an && or || that is already decided. */
typedef struct
{
  Source *source;
  const char *p;
  guint depth;
  guint dead;
} Reader;

static gboolean expand_text (Expansion  *expansion,
                             const char *text,
                             const char *label,
                             guint       n_includes,
                             GError    **error);

G_GNUC_PRINTF (3, 4)
static gboolean
fail (Source      *source,
      GError     **error,
      const char  *format,
      ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);

  g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
               "%s:%u: %s", source->label, source->line + 1, message);

  return FALSE;
}

static const char *
lookup_text (Expansion  *expansion,
             const char *name)
{
  const char *text = g_hash_table_lookup (expansion->arguments, name);

  return text != NULL ? text : g_hash_table_lookup (expansion->texts, name);
}

/* ---- expressions ---------------------------------------------------------- */

static void
skip_space (Reader *reader)
{
  while (*reader->p == ' ' || *reader->p == '\t')
    reader->p++;
}

static gboolean
accept (Reader     *reader,
        const char *token)
{
  skip_space (reader);

  if (!g_str_has_prefix (reader->p, token))
    return FALSE;

  reader->p += strlen (token);

  return TRUE;
}

static gboolean
is_name_start (char c)
{
  return g_ascii_isalpha (c) || c == '_';
}

static char *
read_name (Reader *reader)
{
  const char *start;

  skip_space (reader);
  start = reader->p;
  if (is_name_start (*start))
    {
      while (g_ascii_isalnum (*reader->p) || *reader->p == '_')
        reader->p++;
    }

  return g_strndup (start, reader->p - start);
}

static gboolean
at_end (Reader *reader)
{
  skip_space (reader);

  return *reader->p == '\0' || g_str_has_prefix (reader->p, "//");
}

static gboolean read_binary (Reader  *reader,
                             guint    level,
                             gint64  *value,
                             GError **error);

static gboolean
read_number (Reader  *reader,
             gint64  *value,
             GError **error)
{
  for (*value = 0; g_ascii_isdigit (*reader->p); reader->p++)
    {
      if (__builtin_mul_overflow (*value, 10, value) ||
          __builtin_add_overflow (*value, *reader->p - '0', value))
        return fail (reader->source, error, "a number is beyond 64 bits");
    }

  if (is_name_start (*reader->p))
    return fail (reader->source, error, "“%c” follows a number", *reader->p);

  return TRUE;
}

static gboolean
read_variable (Reader  *reader,
               gint64  *value,
               GError **error)
{
  Expansion *expansion = reader->source->expansion;
  g_autofree char *name = read_name (reader);
  const gint64 *found;

  if (g_str_equal (name, "defined"))
    {
      g_autofree char *argument = NULL;

      if (!accept (reader, "("))
        return fail (reader->source, error, "“(” is missing after “defined”");
      argument = read_name (reader);
      if (*argument == '\0' || !accept (reader, ")"))
        return fail (reader->source, error, "“defined” takes one name");
      *value = g_hash_table_contains (expansion->ints, argument) ||
               lookup_text (expansion, argument) != NULL;
      return TRUE;
    }

  found = g_hash_table_lookup (expansion->ints, name);
  if (found != NULL)
    *value = *found;
  else if (reader->dead > 0)
    *value = 0;
  else
    return fail (reader->source, error, "“%s” is not defined", name);

  return TRUE;
}

static gboolean
read_unary (Reader  *reader,
            gint64  *value,
            GError **error)
{
  gboolean ok = FALSE;

  *value = 0;
  if (reader->depth >= MAX_PARENS)
    return fail (reader->source, error, "an expression is nested deeper than %d", MAX_PARENS);

  reader->depth++;

  skip_space (reader);
  if (g_ascii_isdigit (*reader->p))
    {
      ok = read_number (reader, value, error);
    }
  else if (is_name_start (*reader->p))
    {
      ok = read_variable (reader, value, error);
    }
  else if (accept (reader, "("))
    {
      ok = read_binary (reader, 0, value, error);
      if (ok && !accept (reader, ")"))
        ok = fail (reader->source, error, "“)” is missing");
    }
  else if (accept (reader, "!"))
    {
      ok = read_unary (reader, value, error);
      *value = *value == 0;
    }
  else if (accept (reader, "-"))
    {
      ok = read_unary (reader, value, error);
      if (ok && __builtin_sub_overflow (0, *value, value) && reader->dead == 0)
        ok = fail (reader->source, error, "the result is beyond 64 bits");
    }
  else if (*reader->p == '\0')
    {
      fail (reader->source, error, "an expression is missing");
    }
  else
    {
      fail (reader->source, error, "an expression cannot begin at “%s”", reader->p);
    }

  reader->depth--;

  return ok;
}

/* Longer operators come before their prefixes. */
static const struct
{
  char token[3];
  guint8 level;
} operators[] = {
  { "||", 0 },
  { "&&", 1 },
  { "==", 2 }, { "!=", 2 },
  { "<=", 3 }, { ">=", 3 }, { "<", 3 }, { ">", 3 },
  { "+", 4 }, { "-", 4 },
  { "*", 5 }, { "/", 5 }, { "%", 5 },
};

#define UNARY_LEVEL 6

static const char *
accept_operator (Reader *reader,
                 guint   level)
{
  if (at_end (reader))
    return NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (operators); i++)
    {
      if (operators[i].level == level && accept (reader, operators[i].token))
        return operators[i].token;
    }

  return NULL;
}

static gboolean
compute (Reader      *reader,
         const char  *token,
         gint64       a,
         gint64       b,
         gint64      *value,
         GError     **error)
{
  gboolean overflow = FALSE;

  switch (token[0])
    {
    case '|': *value = a != 0 || b != 0; break;
    case '&': *value = a != 0 && b != 0; break;
    case '=': *value = a == b; break;
    case '!': *value = a != b; break;
    case '<': *value = token[1] == '=' ? a <= b : a < b; break;
    case '>': *value = token[1] == '=' ? a >= b : a > b; break;
    case '+': overflow = __builtin_add_overflow (a, b, value); break;
    case '-': overflow = __builtin_sub_overflow (a, b, value); break;
    case '*': overflow = __builtin_mul_overflow (a, b, value); break;
    default:
      if (b == 0)
        {
          *value = 0;
          return reader->dead > 0 || fail (reader->source, error, "division by zero");
        }
      overflow = a == G_MININT64 && b == -1;
      if (!overflow)
        *value = token[0] == '/' ? a / b : a % b;
      break;
    }

  if (overflow)
    {
      *value = 0;
      return reader->dead > 0 || fail (reader->source, error, "the result is beyond 64 bits");
    }

  return TRUE;
}

static gboolean
read_binary (Reader  *reader,
             guint    level,
             gint64  *value,
             GError **error)
{
  const char *token;

  if (level == UNARY_LEVEL)
    return read_unary (reader, value, error);

  if (!read_binary (reader, level + 1, value, error))
    return FALSE;

  while ((token = accept_operator (reader, level)) != NULL)
    {
      gboolean decided = (token[0] == '|' && *value != 0) || (token[0] == '&' && *value == 0);
      gint64 right = 0;
      gboolean ok;

      reader->dead += decided;
      ok = read_binary (reader, level + 1, &right, error);
      reader->dead -= decided;

      if (!ok || !compute (reader, token, *value, right, value, error))
        return FALSE;
    }

  return TRUE;
}

/* Reads an expression that takes up the rest of a line. */
static gboolean
read_last (Reader  *reader,
           gint64  *value,
           GError **error)
{
  if (!read_binary (reader, 0, value, error))
    return FALSE;

  if (!at_end (reader))
    return fail (reader->source, error, "“%s” is left over after the expression", reader->p);

  return TRUE;
}

/* ---- lines ---------------------------------------------------------------- */

static gboolean
emit (Source      *source,
      const char  *text,
      gssize       length,
      GError     **error)
{
  GString *output = source->expansion->output;

  g_string_append_len (output, text, length);
  if (output->len > MAX_OUTPUT)
    return fail (source, error, "the result is longer than %d bytes", MAX_OUTPUT);

  return TRUE;
}

static gboolean
emit_line (Source      *source,
           const char  *line,
           GError     **error)
{
  for (;;)
    {
      const char *dollar = line + strcspn (line, "$");
      Reader reader = { .source = source, .p = dollar };

      if (!emit (source, line, dollar - line, error))
        return FALSE;

      if (*dollar == '\0')
        return source->lines[source->line + 1] == NULL || emit (source, "\n", 1, error);

      if (accept (&reader, "$("))
        {
          char digits[32];
          gint64 value;

          if (!read_binary (&reader, 0, &value, error))
            return FALSE;
          if (!accept (&reader, ")"))
            return fail (source, error, "“)” is missing after “$(”");
          g_snprintf (digits, sizeof digits, "%" G_GINT64_FORMAT, value);
          if (!emit (source, digits, -1, error))
            return FALSE;
        }
      else if (accept (&reader, "${"))
        {
          g_autofree char *name = read_name (&reader);
          const char *text = lookup_text (source->expansion, name);

          if (!accept (&reader, "}"))
            return fail (source, error, "“}” is missing after “${”");
          if (text == NULL)
            return fail (source, error, "the text “%s” is not defined", name);
          if (!emit (source, text, -1, error))
            return FALSE;
        }
      else
        {
          return fail (source, error, "“$” is followed by neither “(” nor “{”");
        }

      line = reader.p;
    }
}

static void
set_int (GHashTable *ints,
         const char *name,
         gint64      value)
{
  g_hash_table_replace (ints, g_strdup (name), g_memdup2 (&value, sizeof value));
}

static gboolean
run_define (Source  *source,
            Reader  *reader,
            GError **error)
{
  g_autofree char *name = read_name (reader);
  gint64 value;

  if (*name == '\0' || g_str_equal (name, "defined"))
    return fail (source, error, "#define needs a name");

  if (!read_last (reader, &value, error))
    return FALSE;

  set_int (source->expansion->ints, name, value);

  return TRUE;
}

static gboolean
use_blocks (Source             *source,
            const char *const  *names,
            GError            **error)
{
  g_autofree char *text = NULL;

  text = rlx_wgsl_library_select_new (RLX_WGSL_LIBRARY_MATH, names,
                                      source->expansion->used, error);
  if (text == NULL)
    {
      g_prefix_error (error, "%s:%u: ", source->label, source->line + 1);
      return FALSE;
    }

  return emit (source, text, -1, error);
}

static gboolean
run_use (Source  *source,
         Reader  *reader,
         GError **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (0, g_free, TRUE);
  gboolean some = FALSE;

  while (!at_end (reader))
    {
      gboolean is_text = accept (reader, "${");
      g_autofree char *name = read_name (reader);

      if (is_text)
        {
          const char *text = g_hash_table_lookup (source->expansion->texts, name);
          g_auto(GStrv) words = NULL;

          if (!accept (reader, "}"))
            return fail (source, error, "“}” is missing after “${”");
          if (text == NULL)
            return fail (source, error, "the text “%s” is not defined", name);
          words = g_strsplit (text, " ", -1);
          for (gsize i = 0; words[i] != NULL; i++)
            if (*words[i] != '\0')
              g_ptr_array_add (names, g_strdup (words[i]));
          some = TRUE;
          continue;
        }
      if (*name == '\0')
        return fail (source, error, "“%s” is not a name", reader->p);
      g_ptr_array_add (names, g_steal_pointer (&name));
    }

  if (names->len == 0 && !some)
    return fail (source, error, "#use needs a name");

  /* an empty list would mean all */
  return names->len == 0 || use_blocks (source, (const char *const *) names->pdata, error);
}

/* A value that a file is included with. */
typedef struct
{
  char *name;
  gboolean is_text;
  gpointer value;   /* a string, or a gint64; NULL: there is none of that name */
} Argument;

static void
argument_clear (gpointer data)
{
  Argument *argument = data;

  g_free (argument->name);
  g_free (argument->value);
}

/* Swaps an argument with the definition that it hides; a second call restores it. */
static void
exchange_argument (Expansion *expansion,
                   Argument  *argument)
{
  GHashTable *table = argument->is_text ? expansion->arguments : expansion->ints;
  gpointer name = NULL, hidden = NULL;

  g_hash_table_steal_extended (table, argument->name, &name, &hidden);
  g_free (name);
  if (argument->value != NULL)
    g_hash_table_insert (table, g_strdup (argument->name), argument->value);
  argument->value = hidden;
}

/* Reads NAME=EXPR and NAME="text", and appends them to @key, which identifies this
 * inclusion of a file. */
static gboolean
read_arguments (Source   *source,
                Reader   *reader,
                GArray   *arguments,
                GString  *key,
                GError  **error)
{
  while (!at_end (reader))
    {
      const char *start = reader->p;
      const char *end;
      Argument *argument;
      gint64 number;

      g_array_set_size (arguments, arguments->len + 1);
      argument = &g_array_index (arguments, Argument, arguments->len - 1);
      argument->name = read_name (reader);
      if (*argument->name == '\0' || g_str_equal (argument->name, "defined") || !accept (reader, "="))
        return fail (source, error, "“%s” is left over after the file name", start);

      if (accept (reader, "\""))
        {
          end = strchr (reader->p, '"');
          if (end == NULL)
            return fail (source, error, "the text of “%s” has no end", argument->name);
          argument->is_text = TRUE;
          argument->value = g_strndup (reader->p, end - reader->p);
          reader->p = end + 1;
          g_string_append_printf (key, " %s=\"%s\"", argument->name, (const char *) argument->value);
        }
      else
        {
          if (!read_binary (reader, 0, &number, error))
            return FALSE;
          argument->value = g_memdup2 (&number, sizeof number);
          g_string_append_printf (key, " %s=%" G_GINT64_FORMAT, argument->name, number);
        }
    }

  return TRUE;
}

static gboolean
run_include (Source  *source,
             Reader  *reader,
             GError **error)
{
  g_autoptr(GArray) arguments = g_array_new (FALSE, TRUE, sizeof (Argument));
  g_autoptr(GString) key = g_string_new (NULL);
  g_autofree char *file = NULL;
  g_autofree char *text = NULL;
  const char *end;

  g_array_set_clear_func (arguments, argument_clear);
  if (!accept (reader, "\"") || (end = strchr (reader->p, '"')) == NULL || end == reader->p)
    return fail (source, error, "#include needs a file name in quotation marks");

  file = g_strndup (reader->p, end - reader->p);
  reader->p = end + 1;
  g_string_append (key, file);
  if (!read_arguments (source, reader, arguments, key, error))
    return FALSE;

  if (source->n_includes >= MAX_INCLUDES)
    return fail (source, error, "#include is nested deeper than %d", MAX_INCLUDES);

  if (!g_hash_table_add (source->expansion->included, g_strdup (key->str)))
    return TRUE;

  /* Some of it may already be there because of a #use. */
  if (g_str_equal (file, RLX_WGSL_LIBRARY_MATH))
    return use_blocks (source, NULL, error);

  text = rlx_wgsl_library_load (file, error);
  if (text == NULL)
    {
      g_prefix_error (error, "%s:%u: ", source->label, source->line + 1);
      return FALSE;
    }

  for (guint i = 0; i < arguments->len; i++)
    exchange_argument (source->expansion, &g_array_index (arguments, Argument, i));
  if (!expand_text (source->expansion, text, file, source->n_includes + 1, error))
    return FALSE;
  for (guint i = arguments->len; i-- > 0;)
    exchange_argument (source->expansion, &g_array_index (arguments, Argument, i));

  /* What follows must not continue the file's last line. */
  return g_str_has_suffix (source->expansion->output->str, "\n") || emit (source, "\n", 1, error);
}

/* Which directive ended a block of lines. */
typedef enum
{
  END_OF_FILE,
  END_ELIF,
  END_ELSE,
  END_ENDIF,
  END_ENDFOR,
} BlockEnd;

static const char *const block_ends[] = { NULL, "elif", "else", "endif", "endfor" };

static gboolean run_block (Source   *source,
                           guint     nesting,
                           gboolean  active,
                           BlockEnd *end,
                           Reader   *end_reader,
                           GError  **error);

static gboolean
run_if (Source   *source,
        Reader   *reader,
        guint     nesting,
        gboolean  active,
        GError  **error)
{
  guint first_line = source->line;
  gboolean taken = FALSE;
  BlockEnd end = END_ELIF;
  Reader condition = *reader;

  while (end == END_ELIF || end == END_ELSE)
    {
      gboolean last = end == END_ELSE;
      gint64 value = last;

      if (!last && active && !taken && !read_last (&condition, &value, error))
        return FALSE;

      source->line++;
      if (!run_block (source, nesting + 1, active && !taken && value != 0, &end, &condition, error))
        return FALSE;
      taken = taken || value != 0;

      if (last && (end == END_ELIF || end == END_ELSE))
        return fail (source, error, "#%s comes after #else", block_ends[end]);
    }

  if (end != END_ENDIF)
    {
      source->line = first_line;
      return fail (source, error, "#if has no #endif");
    }

  return TRUE;
}

static gboolean
run_for (Source   *source,
         Reader   *reader,
         guint     nesting,
         gboolean  active,
         GError  **error)
{
  Expansion *expansion = source->expansion;
  guint first_line = source->line;
  g_autofree char *name = read_name (reader);
  g_autofree char *in = read_name (reader);
  g_autofree gint64 *hidden = NULL;
  gint64 from = 0, to = 0;
  gint64 i;

  if (*name == '\0' || g_str_equal (name, "defined") || !g_str_equal (in, "in"))
    return fail (source, error, "#for is written #for NAME in A..B");

  if (active)
    {
      const gint64 *value = g_hash_table_lookup (expansion->ints, name);

      if (!read_binary (reader, 0, &from, error))
        return FALSE;
      if (!accept (reader, ".."))
        return fail (source, error, "#for is written #for NAME in A..B");
      if (!read_last (reader, &to, error))
        return FALSE;
      if (value != NULL)
        hidden = g_memdup2 (value, sizeof *value);
    }

  i = from;
  do
    {
      gboolean run = active && i < to;
      BlockEnd end;
      Reader end_reader;

      source->line = first_line;
      if (run && expansion->n_iterations++ >= MAX_ITERATIONS)
        return fail (source, error, "more than %d iterations", MAX_ITERATIONS);
      if (run)
        set_int (expansion->ints, name, i);

      source->line++;
      if (!run_block (source, nesting + 1, run, &end, &end_reader, error))
        return FALSE;
      if (end != END_ENDFOR)
        {
          source->line = first_line;
          return fail (source, error, "#for has no #endfor");
        }
    }
  while (active && i < to && ++i < to);

  if (hidden != NULL)
    set_int (expansion->ints, name, *hidden);
  else if (active)
    g_hash_table_remove (expansion->ints, name);

  return TRUE;
}

/* Runs lines up to a directive that ends a block, or to the end of the file. Unless
 * @active, lines are only parsed for their structure. On return, the current line is the
 * one that ended the block. */
static gboolean
run_block (Source    *source,
           guint      nesting,
           gboolean   active,
           BlockEnd  *end,
           Reader    *end_reader,
           GError   **error)
{
  if (nesting > MAX_NESTING)
    return fail (source, error, "directives are nested deeper than %d", MAX_NESTING);

  for (; source->lines[source->line] != NULL; source->line++)
    {
      const char *line = source->lines[source->line];
      Reader reader = { .source = source, .p = line };
      g_autofree char *directive = NULL;
      gboolean ok = TRUE;

      if (!accept (&reader, "#"))
        {
          if (active && !emit_line (source, line, error))
            return FALSE;
          continue;
        }

      directive = read_name (&reader);

      for (gsize i = 1; i < G_N_ELEMENTS (block_ends); i++)
        {
          if (g_str_equal (directive, block_ends[i]))
            {
              if (i != END_ELIF && !at_end (&reader))
                return fail (source, error, "“%s” is left over after #%s", reader.p, directive);
              *end = i;
              *end_reader = reader;
              return TRUE;
            }
        }

      if (g_str_equal (directive, "if"))
        ok = run_if (source, &reader, nesting, active, error);
      else if (g_str_equal (directive, "for"))
        ok = run_for (source, &reader, nesting, active, error);
      else if (g_str_equal (directive, "define"))
        ok = !active || run_define (source, &reader, error);
      else if (g_str_equal (directive, "include"))
        ok = !active || run_include (source, &reader, error);
      else if (g_str_equal (directive, "use"))
        ok = !active || run_use (source, &reader, error);
      else
        ok = fail (source, error, "#%s is not a directive", directive);

      if (!ok)
        return FALSE;
    }

  *end = END_OF_FILE;

  return TRUE;
}

static gboolean
expand_text (Expansion   *expansion,
             const char  *text,
             const char  *label,
             guint        n_includes,
             GError     **error)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  Source source = {
    .expansion = expansion,
    .label = label,
    .lines = lines,
    .n_includes = n_includes,
  };
  BlockEnd end;
  Reader end_reader;

  if (!run_block (&source, 0, TRUE, &end, &end_reader, error))
    return FALSE;

  if (end != END_OF_FILE)
    return fail (&source, error, "#%s has no beginning", block_ends[end]);

  return TRUE;
}

/* ---- the template --------------------------------------------------------- */

RlxTemplate *
rlx_template_new (void)
{
  RlxTemplate *self = g_new0 (RlxTemplate, 1);

  self->ints = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->texts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  return self;
}

void
rlx_template_free (RlxTemplate *self)
{
  g_hash_table_unref (self->ints);
  g_hash_table_unref (self->texts);
  g_free (self);
}

void
rlx_template_set_int (RlxTemplate *self,
                      const char  *name,
                      gint64       value)
{
  set_int (self->ints, name, value);
}

void
rlx_template_set_text (RlxTemplate *self,
                       const char  *name,
                       const char  *text)
{
  g_hash_table_replace (self->texts, g_strdup (name), g_strdup (text));
}

static int
compare_keys (gconstpointer a,
              gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

char *
rlx_template_describe (RlxTemplate *self)
{
  g_autoptr(GPtrArray) ints = g_hash_table_get_keys_as_ptr_array (self->ints);
  g_autoptr(GPtrArray) texts = g_hash_table_get_keys_as_ptr_array (self->texts);
  GString *out = g_string_new (NULL);

  g_ptr_array_sort (ints, compare_keys);
  g_ptr_array_sort (texts, compare_keys);
  for (guint i = 0; i < ints->len; i++)
    g_string_append_printf (out, "%s %" G_GINT64_FORMAT "\n", (const char *) g_ptr_array_index (ints, i),
                            *(const gint64 *) g_hash_table_lookup (self->ints, g_ptr_array_index (ints, i)));
  for (guint i = 0; i < texts->len; i++)
    {
      const char *text = g_hash_table_lookup (self->texts, g_ptr_array_index (texts, i));

      g_string_append_printf (out, "%s %" G_GSIZE_FORMAT " %s\n", (const char *) g_ptr_array_index (texts, i), strlen (text), text);
    }
  return g_string_free (out, FALSE);
}

static char *
expand (RlxTemplate  *self,
        const char   *text,
        const char   *label,
        GError      **error)
{
  g_autoptr(GHashTable) ints = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GHashTable) arguments = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GHashTable) included = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) used = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GString) output = g_string_new (NULL);
  Expansion expansion = {
    .ints = ints,
    .texts = self->texts,
    .arguments = arguments,
    .included = included,
    .used = used,
    .output = output,
  };
  GHashTableIter iter;
  gpointer name, value;

  g_hash_table_iter_init (&iter, self->ints);
  while (g_hash_table_iter_next (&iter, &name, &value))
    set_int (ints, name, *(const gint64 *) value);

  g_hash_table_add (included, g_strdup (label));

  if (!expand_text (&expansion, text, label, 0, error))
    return NULL;

  return g_string_free (g_steal_pointer (&output), FALSE);
}

char *
rlx_template_expand (RlxTemplate  *self,
                     const char   *text,
                     const char   *label,
                     GError      **error)
{
  return expand (self, text, label, error);
}

char *
rlx_template_expand_file (RlxTemplate  *self,
                          const char   *file,
                          GError      **error)
{
  g_autofree char *text = rlx_wgsl_library_load (file, error);

  if (text == NULL)
    return NULL;

  return expand (self, text, file, error);
}
