/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-debug-private.h"
#include "util/rlx-os-private.h"

#include <string.h>

/* Messages are for people; nobody reads more of a bad value than this. */
#define QUOTE_MAX_CHARS 64
#define UNKNOWN_MAX_KEYS 4

/* A name follows. */
#define TARGET_KEY "target="

static const struct
{
  const char *key;
  RlxDebugFlags flag;
  const char *help;
} debug_keys[] = {
  { "device", RLX_DEBUG_DEVICE, "Which adapters are found, which one is opened, and when it is lost" },
  { "compile", RLX_DEBUG_COMPILE, "What the compiler does with a graph" },
  { "fuse", RLX_DEBUG_FUSE, "Which operators are fused and why others are not" },
  { "plan", RLX_DEBUG_PLAN, "Where each tensor lives, and for how long" },
  { "shaders", RLX_DEBUG_SHADERS, "The WGSL text of each kernel" },
  { "dispatch", RLX_DEBUG_DISPATCH, "Each dispatch as it is encoded" },
  { "cache", RLX_DEBUG_CACHE, "What is read from and written to the caches" },
  { "values", RLX_DEBUG_VALUES, "How large the values of each node are in each run, and the first that is not finite (slow)" },
  { "checked", RLX_DEBUG_CHECKED, "Make runs fail if an index is out of range or an integer does not fit into 32 bits (slow)" },
  { "validate", RLX_DEBUG_VALIDATE, "Check the graph after each pass and the memory plan (slow)" },
  { "no-f16", RLX_DEBUG_NO_F16, "Do not use 16-bit floats on the device" },
  { "no-subgroups", RLX_DEBUG_NO_SUBGROUPS, "Do not use subgroup operations" },
  { "no-matrix", RLX_DEBUG_NO_MATRIX, "Do not use cooperative matrices" },
  { "no-dot", RLX_DEBUG_NO_DOT, "Do not use products of four 8-bit integers at a time" },
  { "no-cache", RLX_DEBUG_NO_CACHE, "Neither read nor write the caches" },
  { "no-fuse", RLX_DEBUG_NO_FUSE, "Give each operator its own kernel" },
#define PASS(NAME, name) { "no-" #name, RLX_DEBUG_NO_##NAME, "Skip the pass “" #name "”" },
  RLX_OPTIONAL_PASSES (PASS)
#undef PASS
  { "no-alias", RLX_DEBUG_NO_ALIAS, "Never work in place or reuse memory" },
  { "no-fold", RLX_DEBUG_NO_FOLD, "Compute constant parts of the graph in each run" },
  { "no-robustness", RLX_DEBUG_NO_ROBUSTNESS, "Omit the bounds checks in kernels (unsafe)" },
  { "no-timestamps", RLX_DEBUG_NO_TIMESTAMPS, "Do not use the GPU's own clock" },
  { "no-map", RLX_DEBUG_NO_MAP, "Copy between host and device even where that is unnecessary" },
  { "small-bindings", RLX_DEBUG_SMALL_BINDINGS, "Limit each binding to 1 MiB" },
};

/* The keys that only log; "all" must not change any result. */
#define RLX_DEBUG_TALKING \
  (RLX_DEBUG_DEVICE | RLX_DEBUG_COMPILE | RLX_DEBUG_FUSE | RLX_DEBUG_PLAN | \
   RLX_DEBUG_SHADERS | RLX_DEBUG_DISPATCH | RLX_DEBUG_CACHE)

const char *
rlx_getenv (const char *name)
{
  if (rlx_os_is_privileged ())
    return NULL;

  return g_getenv (name);
}

char *
rlx_quote_text (const char *text,
                gssize      length)
{
  gsize n = length < 0 ? strlen (text) : (gsize) length;
  const char *p = text;
  const char *end = text + n;
  guint n_chars = 0;
  GString *quoted = g_string_new ("“");

  while (p < end && n_chars < QUOTE_MAX_CHARS)
    {
      gunichar c = g_utf8_get_char_validated (p, end - p);

      if (c == (gunichar) -1 || c == (gunichar) -2 || !g_unichar_isprint (c))
        {
          g_string_append_printf (quoted, "\\x%02x", (guchar) *p);
          p++;
        }
      else
        {
          g_string_append_unichar (quoted, c);
          p += g_unichar_to_utf8 (c, NULL);
        }
      n_chars++;
    }

  g_string_append (quoted, p < end ? "…”" : "”");

  return g_string_free (quoted, FALSE);
}

/* As in g_parse_debug_string(), case does not matter and "_" stands for "-". */
static gboolean
key_matches (const char *key,
             const char *token,
             gsize       length)
{
  for (gsize i = 0; i < length; i++)
    {
      char c = token[i] == '_' ? '-' : g_ascii_tolower (token[i]);

      /* Also ends at the NUL of a shorter key. */
      if (key[i] == '\0' || c != key[i])
        return FALSE;
    }

  return key[length] == '\0';
}

RlxDebugFlags
rlx_debug_parse (const char *string,
                 char      **target,
                 gboolean   *help,
                 char      **unknown)
{
  const char separators[] = ",:; \t";
  guint flags = 0;
  guint n_unknown = 0;
  GString *list = g_string_new (NULL);

  *target = NULL;
  *help = FALSE;

  while (*string != '\0')
    {
      gsize length = strcspn (string, separators);
      gsize i;

      if (length == 0)
        {
          string++;
          continue;
        }

      for (i = 0; i < G_N_ELEMENTS (debug_keys); i++)
        if (key_matches (debug_keys[i].key, string, length))
          break;

      if (i < G_N_ELEMENTS (debug_keys))
        flags |= debug_keys[i].flag;
      else if (length > strlen (TARGET_KEY) && key_matches (TARGET_KEY, string, strlen (TARGET_KEY)))
        {
          g_free (*target);
          *target = g_strndup (string + strlen (TARGET_KEY), length - strlen (TARGET_KEY));
        }
      else if (key_matches ("all", string, length))
        flags |= RLX_DEBUG_TALKING;
      else if (key_matches ("help", string, length))
        *help = TRUE;
      else if (n_unknown++ < UNKNOWN_MAX_KEYS)
        {
          g_autofree char *quoted = rlx_quote_text (string, (gssize) length);

          g_string_append_printf (list, "%s%s", list->len > 0 ? ", " : "", quoted);
        }

      string += length;
    }

  if (n_unknown > UNKNOWN_MAX_KEYS)
    g_string_append_printf (list, " and %u more", n_unknown - UNKNOWN_MAX_KEYS);

  *unknown = g_string_free (list, n_unknown == 0);

  return (RlxDebugFlags) flags;
}

char *
rlx_debug_help (void)
{
  GString *text = g_string_new ("Values of RLX_DEBUG, separated by commas, colons, semicolons or spaces:\n");

  for (gsize i = 0; i < G_N_ELEMENTS (debug_keys); i++)
    g_string_append_printf (text, "  %-15s %s\n", debug_keys[i].key, debug_keys[i].help);
  g_string_append_printf (text, "  %-15s %s\n", TARGET_KEY "NAME", "Stand in for this target; `rlx targets` lists them");
  g_string_append_printf (text, "  %-15s %s\n", "all", "All keys above that only print");
  g_string_append_printf (text, "  %-15s %s\n", "help", "This list");

  return g_string_free (text, FALSE);
}

static gint debug_flags;
static const char *debug_target;   /* atomic */

RlxDebugFlags
rlx_debug_get_flags (void)
{
  static gsize initialized = 0;

  if (g_once_init_enter (&initialized))
    {
      const char *value = rlx_getenv ("RLX_DEBUG");
      g_autofree char *unknown = NULL;
      char *target = NULL;
      gboolean help = FALSE;

      if (value != NULL)
        g_atomic_int_set (&debug_flags, (gint) rlx_debug_parse (value, &target, &help, &unknown));
      g_atomic_pointer_set (&debug_target, target);

      /* Before anything is logged: a log writer of the application may call back here, and
       * must not wait for itself. */
      g_once_init_leave (&initialized, 1);

      if (help)
        {
          g_autofree char *text = rlx_debug_help ();

          g_printerr ("%s", text);
        }
      if (unknown != NULL)
        g_message ("RLX_DEBUG has no key %s; RLX_DEBUG=help lists them all", unknown);
    }

  return (RlxDebugFlags) g_atomic_int_get (&debug_flags);
}

const char *
rlx_debug_get_target (void)
{
  rlx_debug_get_flags ();
  return g_atomic_pointer_get (&debug_target);
}

void
rlx_debug_set_target (const char *target)
{
  /* Otherwise the first reader would restore the environment's target. */
  rlx_debug_get_flags ();
  g_atomic_pointer_set (&debug_target, target);
}

void
rlx_debug_set_flags (RlxDebugFlags flags)
{
  /* Otherwise the first reader would restore the environment's flags. */
  rlx_debug_get_flags ();
  g_atomic_int_set (&debug_flags, (gint) flags);
}

void
rlx_debug_log (const char *key,
               const char *format,
               ...)
{
  g_autofree char *message = NULL;
  g_autofree char *name = NULL;
  va_list args;

  name = g_ascii_strdown (key, -1);
  g_strdelimit (name, "_", '-');

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);

  /* A message, not debug output: whoever sets the key wants to see it without having to set
   * G_MESSAGES_DEBUG as well. Also, it is never fatal. */
  g_log_structured (G_LOG_DOMAIN, G_LOG_LEVEL_MESSAGE,
                    "RLX_DEBUG_KEY", name,
                    "MESSAGE", "[%s] %s", name, message);
}
