/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Spoils models at random and does with them what is done without a device: reading,
 * importing, checking, passes and plans. Whatever comes out is right, but a crash, an abort,
 * a run of more than 20 seconds and one that takes more than 3 GiB.
 *
 * Usage: onnx-fuzz [--seed N] [--runs N | --seconds N] FOLDER…
 *
 * Each run draws from a generator of its own: what a failure prints repeats it alone.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_SEED (64 * 1024)
#define MAX_SECONDS 20
#define MAX_MEMORY ((rlim_t) 3 << 30)

static volatile guint32 current;

static void
tell (int number)
{
  char text[64] = "# failed; repeat with --runs 1 --seed ", digits[12];
  gsize length = strlen (text), n = 0;
  guint32 rest = current;

  do
    digits[n++] = (char) ('0' + rest % 10);
  while ((rest /= 10) > 0);
  while (n > 0)
    text[length++] = digits[--n];
  text[length++] = '\n';
  if (write (STDERR_FILENO, text, length) < 0)
    _exit (2);
  signal (number, SIG_DFL);
  raise (number);
}

static void
add_seeds (GPtrArray  *seeds,
           const char *path)
{
  g_autoptr(GDir) dir = g_dir_open (path, 0, NULL);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_build_filename (path, name, "model.onnx", NULL));
  /* The same seeds in the same order everywhere. */
  g_ptr_array_sort_values (names, (GCompareFunc) strcmp);
  for (guint i = 0; i < names->len; i++)
    {
      char *contents;
      gsize size;

      if (!g_file_get_contents (names->pdata[i], &contents, &size, NULL))
        continue;
      if (size > 0 && size <= MAX_SEED)
        g_ptr_array_add (seeds, g_bytes_new_take (contents, size));
      else
        g_free (contents);
    }
}

static void
mutate (GByteArray *bytes,
        GPtrArray  *seeds,
        GRand      *rand)
{
  static const guint8 numbers[][10] = {
    { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01 },   /* -1 */
    { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x00 },   /* the largest */
    { 0x80, 0x80, 0x80, 0x80, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00 },   /* 2^32 */
    { 0xff, 0xff, 0xff, 0xff, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00 },
  };
  static const guint8 small[] = { 0, 1, 2, 3, 7, 0x7f, 0x80, 0xff };
  guint at = bytes->len > 0 ? (guint) g_rand_int_range (rand, 0, (gint32) bytes->len) : 0;
  guint length = bytes->len > 0 ? (guint) g_rand_int_range (rand, 1, (gint32) MIN (bytes->len - at, 32) + 1) : 0;

  if (bytes->len == 0)
    return;
  switch (g_rand_int_range (rand, 0, 7))
    {
    case 0:
      bytes->data[at] ^= (guint8) (1u << g_rand_int_range (rand, 0, 8));
      break;
    case 1:
      bytes->data[at] = (guint8) g_rand_int_range (rand, 0, 256);
      break;
    case 2:
      bytes->data[at] = small[g_rand_int_range (rand, 0, G_N_ELEMENTS (small))];
      break;
    case 3:
      memcpy (bytes->data + at, numbers[g_rand_int_range (rand, 0, G_N_ELEMENTS (numbers))], MIN (length, 10));
      break;
    case 4:
      g_byte_array_remove_range (bytes, at, length);
      break;
    case 5:
      {
        g_autofree guint8 *copy = g_memdup2 (bytes->data + at, length);

        g_byte_array_append (bytes, copy, length);
        memmove (bytes->data + at + length, bytes->data + at, bytes->len - at - length);
        memcpy (bytes->data + at, copy, length);
        break;
      }
    default:
      {
        GBytes *other = seeds->pdata[g_rand_int_range (rand, 0, (gint32) seeds->len)];
        gsize size;
        const guint8 *data = g_bytes_get_data (other, &size);
        guint from = (guint) g_rand_int_range (rand, 0, (gint32) size);

        memcpy (bytes->data + at, data + from, MIN (length, size - from));
        break;
      }
    }
}

/* Sizes for unknown dimensions. */
static GVariant *
make_sizes (RlxModel *model,
            GRand    *rand)
{
  GVariantBuilder sizes = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{sx}"));
  g_autoptr(GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GListModel *inputs = rlx_model_get_inputs (model);

  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (inputs, i);
      gsize n_dims;
      const gint64 *shape = rlx_model_port_get_shape (port, &n_dims);

      for (guint j = 0; j < n_dims; j++)
        {
          const char *symbol = rlx_model_port_get_dimension_name (port, j);
          char *name = symbol != NULL ? g_strdup (symbol) : g_strdup_printf ("%s.%u", rlx_model_port_get_name (port), j);

          if (shape[j] < 0 && g_utf8_validate (name, -1, NULL) && g_hash_table_add (seen, g_strdup (name)))
            g_variant_builder_add (&sizes, "{sx}", name, (gint64) g_rand_int_range (rand, 0, 4));
          g_free (name);
        }
    }
  return g_variant_builder_end (&sizes);
}

typedef struct
{
  guint opened;
  guint built;
  guint planned;
} Counts;

static void
run (GPtrArray *seeds,
     guint32    number,
     Counts    *counts)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed (number);
  GBytes *seed = seeds->pdata[g_rand_int_range (rand, 0, (gint32) seeds->len)];
  g_autoptr(GByteArray) bytes = g_byte_array_new ();
  g_autoptr(GBytes) file = NULL;
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GVariant) plan = NULL;
  g_autoptr(GError) error = NULL;

  g_byte_array_append (bytes, g_bytes_get_data (seed, NULL), (guint) g_bytes_get_size (seed));
  for (gint32 n = g_rand_int_range (rand, 0, 6); n > 0; n--)
    mutate (bytes, seeds, rand);
  file = g_byte_array_free_to_bytes (g_steal_pointer (&bytes));
  model = rlx_model_new_from_bytes (file, &error);
  if ((model == NULL) != (error != NULL))
    g_error ("neither a model nor an error");
  if (model == NULL)
    return;
  counts->opened++;
  graph = rlx_model_build (model, make_sizes (model, rand), NULL, &error);
  if ((graph == NULL) != (error != NULL))
    g_error ("neither a graph nor an error");
  if (graph == NULL)
    return;
  counts->built++;
  plan = rlx_graph_plan_for (graph, "minimum", NULL, &error);
  if ((plan == NULL) != (error != NULL))
    g_error ("neither a plan nor an error");
  counts->planned += plan != NULL;
}

int
main (int    argc,
      char **argv)
{
  int seed = 1, n_runs = 0, seconds = 0;
  const GOptionEntry entries[] = {
    { "seed", 0, 0, G_OPTION_ARG_INT, &seed, "The number of the first run", "N" },
    { "runs", 0, 0, G_OPTION_ARG_INT, &n_runs, "How many runs there are", "N" },
    { "seconds", 0, 0, G_OPTION_ARG_INT, &seconds, "How long there are runs", "N" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new ("FOLDER…");
  g_autoptr(GPtrArray) seeds = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr(GError) error = NULL;
  struct rlimit limit = { MAX_MEMORY, MAX_MEMORY };
  gint64 start = g_get_monotonic_time ();
  Counts counts = { 0, 0, 0 };
  guint n = 0;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 2)
    {
      g_printerr ("onnx-fuzz: %s\n", error != NULL ? error->message : "no folder was given");
      return 2;
    }
  for (int i = 1; i < argc; i++)
    add_seeds (seeds, argv[i]);
  if (seeds->len == 0)
    {
      g_print ("onnx-fuzz: there are no models\n");
      return 77;
    }
  signal (SIGSEGV, tell);
  signal (SIGABRT, tell);
  signal (SIGTRAP, tell);
  signal (SIGFPE, tell);
  signal (SIGBUS, tell);
  signal (SIGALRM, tell);
  setrlimit (RLIMIT_AS, &limit);
  if (n_runs == 0 && seconds == 0)
    n_runs = 1000;
  while (n_runs > 0 ? n < (guint) n_runs : g_get_monotonic_time () - start < seconds * G_USEC_PER_SEC)
    {
      current = (guint32) seed + n++;
      alarm (MAX_SECONDS);
      run (seeds, current, &counts);
      alarm (0);
    }
  g_print ("onnx-fuzz: %u runs with %u models: %u could be opened, %u built, %u planned\n", n, seeds->len, counts.opened, counts.built, counts.planned);
  /* Something must have been accepted, or nothing was tested. */
  return n > 100 && (counts.built == 0 || counts.planned == 0);
}
