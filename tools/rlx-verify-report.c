/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-verify-report.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "rlx-tool.h"

/* The version that readers of the file check. */
#define FORMAT 1
/* The maximum number of failures that are printed; the file contains all. */
#define MAX_PRINTED 20

struct _RlxVerifyReport
{
  RlxDevice *device;
  char **names;             /* nullable, borrowed */
  gboolean quick;
  GDateTime *start;

  guint n_cases;            /* 0 if not known yet */
  char *clock;
  gboolean complete;
  char *problem;            /* nullable */

  GVariant *now;            /* of the case; NULL between cases */
  GVariant *call;           /* the last call of the case; nullable */
  guint number;             /* of the current or next case */
  guint n_calls;            /* made by the case so far */
  gboolean lost;            /* the case reported that the device is lost */

  GPtrArray *results;       /* GVariant: cases that ran, successfully or not */
  GPtrArray *skipped;       /* GVariant */
  GPtrArray *failures;      /* GVariant */
  GPtrArray *banned;        /* family/variant */
};

static GPtrArray *
new_list (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
}

RlxVerifyReport *
rlx_verify_report_new (RlxDevice *device,
                       char     **names,
                       gboolean   quick)
{
  RlxVerifyReport *self = g_new0 (RlxVerifyReport, 1);

  self->device = device;
  self->names = names;
  self->quick = quick;
  self->start = g_date_time_new_now_utc ();
  self->results = new_list ();
  self->skipped = new_list ();
  self->failures = new_list ();
  self->banned = g_ptr_array_new_with_free_func (g_free);
  return self;
}

static void
leave_case (RlxVerifyReport *self)
{
  g_clear_pointer (&self->now, g_variant_unref);
  g_clear_pointer (&self->call, g_variant_unref);
  self->n_calls = 0;
  self->lost = FALSE;
}

void
rlx_verify_report_free (RlxVerifyReport *self)
{
  leave_case (self);
  g_date_time_unref (self->start);
  g_ptr_array_unref (self->results);
  g_ptr_array_unref (self->skipped);
  g_ptr_array_unref (self->failures);
  g_ptr_array_unref (self->banned);
  g_free (self->clock);
  g_free (self->problem);
  g_free (self);
}

/* ---- what is told --------------------------------------------------------------------------- */

static const char *
look_up (GVariant   *dict,
         const char *name)
{
  const char *text = NULL;

  if (dict != NULL)
    g_variant_lookup (dict, name, "&s", &text);
  return text;
}

static void
add_all (GVariantBuilder *builder,
         GVariant        *dict)
{
  GVariantIter iter;
  const char *name;
  GVariant *value;

  if (dict == NULL)
    return;
  g_variant_iter_init (&iter, dict);
  while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
    if (!g_str_equal (name, "case"))
      g_variant_builder_add (builder, "{sv}", name, value);
}

/* Joins what was reported about the case and, apart from its result, about the call. */
static GVariant *
join (RlxVerifyReport *self,
      GVariant        *dict,
      gboolean         with_call)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  add_all (&builder, self->now);
  if (with_call)
    add_all (&builder, self->call);
  add_all (&builder, dict);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

void
rlx_verify_report_add (RlxVerifyReport *self,
                       const char      *kind,
                       GVariant        *dict)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (dict);

  if (g_str_equal (kind, "begin"))
    {
      g_variant_lookup (owned, "n_cases", "u", &self->n_cases);
      g_free (self->clock);
      self->clock = g_strdup (look_up (owned, "clock"));
    }
  else if (g_str_equal (kind, "case"))
    {
      leave_case (self);
      self->now = g_steal_pointer (&owned);
      g_variant_lookup (self->now, "case", "u", &self->number);
    }
  else if (g_str_equal (kind, "call"))
    {
      g_clear_pointer (&self->call, g_variant_unref);
      self->call = g_steal_pointer (&owned);
      self->n_calls++;
    }
  else if (g_str_equal (kind, "failure"))
    {
      g_ptr_array_add (self->failures, join (self, owned, TRUE));
      self->lost = g_strcmp0 (look_up (owned, "problem"), "lost") == 0;
    }
  else if (g_str_equal (kind, "result"))
    {
      g_ptr_array_add (look_up (owned, "skipped") != NULL ? self->skipped : self->results, join (self, owned, FALSE));
      leave_case (self);
      self->number++;
    }
  else if (g_str_equal (kind, "end"))
    {
      self->complete = TRUE;
    }
}

void
rlx_verify_report_add_ban (RlxVerifyReport *self,
                           const char      *family,
                           const char      *variant)
{
  char *name = g_strdup_printf ("%s/%s", family, variant);

  if (g_ptr_array_find_with_equal_func (self->banned, name, g_str_equal, NULL))
    g_free (name);
  else
    g_ptr_array_add (self->banned, name);
}

void
rlx_verify_report_add_arguments (RlxVerifyReport *self,
                                 GPtrArray       *arguments)
{
  g_ptr_array_add (arguments, g_strdup_printf ("--from=%u", self->number));
  for (guint i = 0; i < self->banned->len; i++)
    g_ptr_array_add (arguments, g_strdup_printf ("--banned=%s", (char *) g_ptr_array_index (self->banned, i)));
}

/* ---- where it is ------------------------------------------------------------------------------ */

gboolean
rlx_verify_report_is_in_case (RlxVerifyReport *self)
{
  return self->now != NULL;
}

gboolean
rlx_verify_report_get_variant (RlxVerifyReport *self,
                               const char     **family,
                               const char     **variant)
{
  *family = look_up (self->now, "family");
  *variant = look_up (self->now, "variant");
  return *family != NULL && *variant != NULL;
}

static char *
describe_case (GVariant *dict)
{
  const char *op = look_up (dict, "operator"), *family = look_up (dict, "family"), *variant = look_up (dict, "variant");

  if (family == NULL)
    return g_strdup (op);
  if (op == NULL)
    return g_strdup_printf ("an example by %s/%s", family, variant);
  return g_strdup_printf ("%s by %s/%s", op, family, variant);
}

char *
rlx_verify_report_describe_case (RlxVerifyReport *self)
{
  return self->now != NULL ? describe_case (self->now) : g_strdup ("verifying");
}

gboolean
rlx_verify_report_has_lost (RlxVerifyReport *self)
{
  return self->lost;
}

double
rlx_verify_report_get_progress (RlxVerifyReport *self)
{
  return self->n_cases > 0 ? (double) self->number / self->n_cases : 0.0;
}

gboolean
rlx_verify_report_is_complete (RlxVerifyReport *self)
{
  return self->complete;
}

gboolean
rlx_verify_report_is_empty (RlxVerifyReport *self)
{
  return self->n_cases == 0;
}

gboolean
rlx_verify_report_go_on (RlxVerifyReport *self)
{
  if (self->now != NULL)
    {
      GVariantDict dict;

      /* It has not reported a result itself. */
      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "calls", "u", self->n_calls);
      rlx_verify_report_add (self, "result", g_variant_dict_end (&dict));
    }
  self->complete = self->complete || (self->n_cases > 0 && self->number >= self->n_cases);
  return !self->complete;
}

gboolean
rlx_verify_report_end (RlxVerifyReport *self,
                       const char      *problem)
{
  self->problem = g_strdup (problem);
  return self->complete && problem == NULL && self->failures->len == 0;
}

/* ---- as JSON ---------------------------------------------------------------------------------- */

static GVariant *
make_array (GPtrArray *list)
{
  return g_variant_new_array (G_VARIANT_TYPE_VARDICT, (GVariant *const *) list->pdata, list->len);
}

static GVariant *
describe_device (RlxVerifyReport *self)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  rlx_tool_describe_adapter (rlx_device_get_adapter (self->device), &dict);
  /* Features that gave wrong results when the device was opened are not included. */
  g_variant_dict_insert_value (&dict, "features_used", rlx_tool_list_features (rlx_device_get_features (self->device)));
  return g_variant_dict_end (&dict);
}

/* Does not include the name of the machine, for privacy. */
static char *
describe_system (void)
{
  g_autofree char *name = g_get_os_info (G_OS_INFO_KEY_PRETTY_NAME);
  struct utsname system;

  if (uname (&system) != 0)
    return g_strdup (name != NULL ? name : "unknown");
  return g_strdup_printf ("%s %s %s, %s", system.sysname, system.release, system.machine, name != NULL ? name : "unknown");
}

static GVariant *
make_report (RlxVerifyReport *self)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *date = g_date_time_format_iso8601 (self->start);
  const char *debug = g_getenv ("RLX_DEBUG");
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "format", "u", FORMAT);
  g_variant_dict_insert (&dict, "version", "s", RLX_VERSION);
  g_variant_dict_insert (&dict, "date", "s", date);
  g_variant_dict_insert (&dict, "seconds", "d", (double) g_date_time_difference (now, self->start) * 1e-6);
  g_variant_dict_insert_value (&dict, "system", g_variant_new_take_string (describe_system ()));
  g_variant_dict_insert_value (&dict, "device", describe_device (self));
  if (debug != NULL)
    g_variant_dict_insert (&dict, "debug", "s", debug);
  if (self->names != NULL)
    g_variant_dict_insert_value (&dict, "only", g_variant_new_strv ((const char *const *) self->names, -1));
  g_variant_dict_insert (&dict, "quick", "b", self->quick);
  g_variant_dict_insert (&dict, "complete", "b", self->complete);
  g_variant_dict_insert (&dict, "clock", "s", self->clock != NULL ? self->clock : "unknown");
  if (self->problem != NULL)
    g_variant_dict_insert (&dict, "problem", "s", self->problem);
  g_variant_dict_insert_value (&dict, "failures", make_array (self->failures));
  g_variant_dict_insert_value (&dict, "banned", g_variant_new_strv ((const char *const *) self->banned->pdata, self->banned->len));
  g_variant_dict_insert_value (&dict, "results", make_array (self->results));
  g_variant_dict_insert_value (&dict, "skipped", make_array (self->skipped));
  return g_variant_dict_end (&dict);
}

void
rlx_verify_report_print_json (RlxVerifyReport *self)
{
  rlx_tool_print_json (make_report (self));
}

/* "rlx-verify-nvidia-geforce-rtx-3060.json". A report of a part does not replace one of everything. */
static char *
make_name (RlxVerifyReport *self)
{
  GString *name = g_string_new ("rlx-verify-");

  for (const char *c = rlx_adapter_get_name (rlx_device_get_adapter (self->device)); *c != '\0'; c++)
    if (g_ascii_isalnum (*c))
      g_string_append_c (name, g_ascii_tolower (*c));
    else if (name->str[name->len - 1] != '-')
      g_string_append_c (name, '-');
  if (name->str[name->len - 1] == '-')
    g_string_truncate (name, name->len - 1);
  g_string_append (name, self->names != NULL || !self->complete ? "-partial.json" : ".json");
  return g_string_free (name, FALSE);
}

gboolean
rlx_verify_report_write (RlxVerifyReport *self,
                         const char      *path,
                         gboolean         tells)
{
  g_autofree char *name = path != NULL ? g_strdup (path) : make_name (self);
  g_autofree char *shown = g_filename_display_name (name);
  g_autofree char *text = rlx_tool_to_json (make_report (self));
  g_autoptr(GError) error = NULL;

  if (!g_file_set_contents (name, text, -1, &error))
    {
      g_printerr ("%s: %s\n", g_get_prgname (), error->message);
      return FALSE;
    }
  if (tells)
    g_print ("   kept in %s: please attach it to a report, also if all is right\n", shown);
  return TRUE;
}

/* ---- for people --------------------------------------------------------------------------------- */

typedef struct
{
  const char *family;
  const char *timed;
  const char *best, *worst;
  double least, most;
  double flops;             /* of the fastest variant */
  guint n;
} Span;

static gboolean
get_time (GVariant   *result,
          const char *name,
          double     *value)
{
  return g_variant_lookup (result, name, "d", value) && *value > 0.0;
}

/* Compares variants that ran the same example. */
static void
print_times (RlxVerifyReport *self)
{
  g_autoptr(GArray) spans = g_array_new (FALSE, TRUE, sizeof (Span));

  for (guint i = 0; i < self->results->len; i++)
    {
      GVariant *result = g_ptr_array_index (self->results, i);
      const char *family = look_up (result, "family"), *timed = look_up (result, "timed"), *variant = look_up (result, "variant");
      double time;
      guint at = 0;
      Span *span;

      if (look_up (result, "operator") != NULL || timed == NULL || !get_time (result, "time", &time))
        continue;
      while (at < spans->len && !g_str_equal (g_array_index (spans, Span, at).timed, timed))
        at++;
      if (at == spans->len)
        g_array_append_val (spans, ((Span) { family, timed, variant, variant, time, time, 0.0, 0 }));
      span = &g_array_index (spans, Span, at);
      span->n++;
      if (time <= span->least)
        {
          span->least = time;
          span->best = variant;
          get_time (result, "flops", &span->flops);
        }
      if (time > span->most)
        {
          span->most = time;
          span->worst = variant;
        }
    }
  if (spans->len > 0)
    g_print ("   times by the clock of the %s, each for an example of its family\n", self->clock);
  for (guint i = 0; i < spans->len; i++)
    {
      const Span *span = &g_array_index (spans, Span, i);

      g_print ("     %-15s fastest %-13s %10.1f µs", span->family, span->best, span->least * 1e6);
      if (span->flops > 0.0)
        g_print (" %8.1f GFLOPS", span->flops * 1e-9);
      if (span->n > 1)
        g_print ("; slowest of %u %s %.1f µs", span->n, span->worst, span->most * 1e6);
      g_print ("\n");
    }
}

static gboolean
has_reason (gconstpointer skipped,
            gconstpointer why)
{
  return g_str_equal (look_up ((GVariant *) skipped, "skipped"), why);
}

/* Prints the reasons and their counts. */
static void
print_skipped (RlxVerifyReport *self)
{
  g_print ("   skipped   %u\n", self->skipped->len);
  for (guint i = 0; i < self->skipped->len; i++)
    {
      const char *why = look_up (g_ptr_array_index (self->skipped, i), "skipped");
      guint first, n = 0;

      g_ptr_array_find_with_equal_func (self->skipped, why, has_reason, &first);
      for (guint j = i; first == i && j < self->skipped->len; j++)
        n += has_reason (g_ptr_array_index (self->skipped, j), why);
      if (n > 0)
        g_print ("     %4u  %s\n", n, why);
    }
}

static void
print_bans (RlxVerifyReport *self)
{
  const char *last = NULL;

  for (guint i = 0; i < self->banned->len; i++)
    g_print ("   %s is not used on this device any more where there is another kernel, until rlx calibrate --forget\n"
             "     or an update of the library or the driver\n", (char *) g_ptr_array_index (self->banned, i));
  /* Failures of a case follow each other. */
  for (guint i = 0; i < self->failures->len; i++)
    {
      GVariant *failure = g_ptr_array_index (self->failures, i);
      const char *op = look_up (failure, "operator");

      if (look_up (failure, "family") != NULL || g_strcmp0 (op, last) == 0)
        continue;
      g_print ("   there is no other kernel for %s, so this one is still used\n", op);
      last = op;
    }
}

static void
print_failures (RlxVerifyReport *self)
{
  g_print ("   wrong     %u\n", self->failures->len);
  for (guint i = 0; i < MIN (self->failures->len, MAX_PRINTED); i++)
    {
      GVariant *failure = g_ptr_array_index (self->failures, i);
      g_autofree char *what = describe_case (failure);
      const char *call = look_up (failure, "call"), *precision = look_up (failure, "precision");
      guint32 number, seed;

      g_print ("     %s: %s: %s\n", what, look_up (failure, "problem"), look_up (failure, "message"));
      if (call != NULL)
        g_print ("       %s", call);
      if (g_variant_lookup (failure, "number", "u", &number) && g_variant_lookup (failure, "seed", "u", &seed))
        g_print (" (call %u of seed %u, %s precision)", number, seed, precision);
      if (call != NULL)
        g_print ("\n");
    }
  if (self->failures->len > MAX_PRINTED)
    g_print ("     and %u more, which are in the report\n", self->failures->len - MAX_PRINTED);
  print_bans (self);
}

void
rlx_verify_report_print (RlxVerifyReport *self)
{
  RlxAdapter *adapter = rlx_device_get_adapter (self->device);
  g_autoptr(GHashTable) operators = g_hash_table_new (g_str_hash, g_str_equal);
  guint n_calls = 0, n_variants = 0;

  for (guint i = 0; i < self->results->len; i++)
    {
      GVariant *result = g_ptr_array_index (self->results, i);
      guint32 n = 0;

      g_variant_lookup (result, "calls", "u", &n);
      n_calls += n;
      if (look_up (result, "operator") != NULL)
        {
          n_variants++;
          g_hash_table_add (operators, (gpointer) look_up (result, "operator"));
        }
    }
  g_print ("%s\n", rlx_adapter_get_name (adapter));
  rlx_tool_print_adapter (adapter);
  g_print ("   library   rlx-wgpu " RLX_VERSION "\n");
  g_print ("   computed  %u calls: %u operators, by %u kernels\n", n_calls, g_hash_table_size (operators), n_variants);
  print_skipped (self);
  print_times (self);
  print_failures (self);
  if (!self->complete)
    g_print ("   incomplete: %.0f %% was tried\n", 100.0 * rlx_verify_report_get_progress (self));
}
