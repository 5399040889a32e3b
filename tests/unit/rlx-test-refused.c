/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How files are refused, and what memory that takes: programs with this file have a malloc() of their own in front of
 * the C library's.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <malloc.h>
#include <string.h>

/* The heap usage of this thread, now and at its peak. */
static __thread gssize heap_used, heap_peak;

#if RLX_TEST_COUNTS_MEMORY

extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void __libc_free (void *memory);

static void *
count (void  *memory,
       size_t before)
{
  heap_used += (gssize) malloc_usable_size (memory) - (gssize) before;
  heap_peak = MAX (heap_peak, heap_used);
  return memory;
}

void *
malloc (size_t size)
{
  return count (__libc_malloc (size), 0);
}

void *
calloc (size_t n,
        size_t size)
{
  return count (__libc_calloc (n, size), 0);
}

void *
realloc (void  *memory,
         size_t size)
{
  size_t before = malloc_usable_size (memory);

  return count (__libc_realloc (memory, size), before);
}

void
free (void *memory)
{
  heap_used -= (gssize) malloc_usable_size (memory);
  __libc_free (memory);
}

#endif

void
rlx_test_heap_start (void)
{
  heap_used = heap_peak = 0;
}

gsize
rlx_test_heap_get_peak (void)
{
  return (gsize) heap_peak;
}

void
rlx_test_check_message (const GError *error,
                        gsize         metadata)
{
  g_assert_cmpuint (rlx_test_heap_get_peak (), <=, 4 * metadata + (256 << 10));
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 2000);
  if (error->domain == RLX_WEIGHTS_ERROR && strstr (error->message, "At byte ") == NULL && strstr (error->message, ", at byte ") == NULL)
    g_error ("no place in: %s", error->message);
}

void
rlx_test_check_refused (GBytes               *file,
                        gsize                 data,
                        const RlxTestRefusal *refusal)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_auto(GStrv) words = g_strsplit (refusal->words, "|", -1);

  rlx_test_heap_start ();
  weights = rlx_weights_new_from_bytes (file, &error);
  if (weights != NULL)
    g_error ("%s: the file was opened", refusal->name);
  if (!g_error_matches (error, RLX_WEIGHTS_ERROR, (int) refusal->code))
    g_error ("%s: the error is %s %d: %s", refusal->name, g_quark_to_string (error->domain), error->code, error->message);
  for (char **word = words; *word != NULL; word++)
    if (strstr (error->message, *word) == NULL)
      g_error ("%s: no “%s” in: %s", refusal->name, *word, error->message);
  rlx_test_check_message (error, g_bytes_get_size (file) - data);
}
