/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-test-util.h"

#include <glib/gstdio.h>

#include "rlx-reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rlx-device-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

static RlxDevice *stand_in;   /* nullable: returned by rlx_test_device() while set */

RlxDevice *
rlx_test_device (void)
{
  static RlxDevice *device = NULL;
  static gboolean tried = FALSE;
  static char *reason = NULL;

  if (stand_in != NULL)
    return stand_in;
  if (!tried)
    {
      g_autoptr (GError) error = NULL;

      tried = TRUE;
      device = rlx_device_get_default (&error);
      if (device == NULL)
        reason = g_strdup (error->message);
    }

  if (device == NULL)
    {
      if (g_strcmp0 (g_getenv ("RLX_TEST_SKIP_NO_ADAPTER"), "1") == 0)
        g_test_skip (reason);
      else
        {
          g_test_message ("no device: %s", reason);
          g_test_fail ();
        }
    }

  return device;
}

const RlxTarget *
rlx_test_target (void)
{
  return &rlx_gpu_get_info (rlx_device_get_gpu (rlx_test_device ()))->target;
}

gboolean
rlx_test_has_small_bindings (void)
{
  return rlx_test_target ()->limits.max_storage_binding_size <= 1024 * 1024;
}

gboolean
rlx_test_is_thorough (void)
{
#ifdef __SANITIZE_ADDRESS__
  return g_test_slow ();
#else
  return g_getenv ("RLX_DEBUG") == NULL || g_test_slow ();
#endif
}

/* Opened only once, as that takes a while. */
static void
run_as_gpu (gconstpointer data)
{
  static RlxDevice *gpu;
  GTestFunc *func = (GTestFunc *) data;
  const char *before = rlx_debug_get_target ();
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  if (gpu == NULL)
    {
      rlx_debug_set_target ("navi31");
      gpu = rlx_device_open (NULL, NULL, &error);
      rlx_debug_set_target (before);
      g_assert_no_error (error);
    }
  stand_in = gpu;
  (*func) ();
  stand_in = NULL;
}

void
rlx_test_add_kernels (const char *path,
                      GTestFunc   func)
{
  g_test_add_func (path, func);
  if (g_getenv ("RLX_DEBUG") == NULL)
    {
      g_autofree char *gpu_path = g_strconcat (path, "/gpu", NULL);

      g_test_add_data_func_full (gpu_path, g_memdup2 (&func, sizeof func), run_as_gpu, g_free);
    }
}

/* ---- types and values ------------------------------------------------------ */

gboolean
rlx_test_next_type (const char  **text,
                    RlxDataType  *data_type,
                    gint64        shape[RLX_MAX_DIMS],
                    gsize        *n_dims)
{
  const char *s = *text;
  const char *bracket;
  g_autofree char *name = NULL;
  g_autoptr (GError) error = NULL;

  while (*s == ' ')
    s++;
  if (*s == '\0')
    return FALSE;

  bracket = strchr (s, '[');
  g_assert_nonnull (bracket);
  name = g_strndup (s, bracket - s);
  rlx_data_type_from_string (name, data_type, &error);
  g_assert_no_error (error);

  *n_dims = 0;
  s = bracket + 1;
  while (*s != ']')
    {
      char *end;

      g_assert_cmpuint (*n_dims, <, RLX_MAX_DIMS);
      shape[(*n_dims)++] = g_ascii_strtoll (s, &end, 10);
      g_assert_true (end != s);
      s = end;
      while (*s == ',' || *s == ' ')
        s++;
    }
  *text = s + 1;

  return TRUE;
}

static gsize
parse_one (const char  *type,
           RlxDataType *data_type,
           gint64       shape[RLX_MAX_DIMS],
           gsize       *n_dims)
{
  gsize n = 1;

  g_assert_true (rlx_test_next_type (&type, data_type, shape, n_dims));
  for (gsize i = 0; i < *n_dims; i++)
    n *= shape[i];

  return n;
}

/* Independent of the library's own conversion: scale so that the spacing of
 * f16 around the value is 1, round to even there, scale back. */
static guint16
half_from_double (double value)
{
  guint16 sign = signbit (value) ? 0x8000 : 0;
  int exponent;
  double scaled;

  if (isnan (value))
    return 0x7e00;
  value = fabs (value);
  if (isinf (value))
    return sign | 0x7c00;
  if (value == 0)
    return sign;

  frexp (value, &exponent);
  exponent = MAX (exponent - 1, -14);
  scaled = nearbyint (ldexp (value, 10 - exponent));
  if (scaled >= 2048)
    {
      scaled /= 2;
      exponent++;
    }
  if (exponent > 15)
    return sign | 0x7c00;
  if (scaled < 1024) /* below the smallest normal number */
    return sign | (guint16) scaled;

  return sign | (guint16) ((exponent + 15) << 10) | (guint16) ((int) scaled - 1024);
}

RlxTensor *
rlx_test_tensor (const char   *type,
                 const double *values)
{
  RlxDataType data_type;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;
  gsize n = parse_one (type, &data_type, shape, &n_dims);
  gsize size = (n * rlx_data_type_get_bits (data_type) + 7) / 8;
  g_autofree guint8 *data = g_malloc0 (MAX (size, 1));
  g_autoptr (GError) error = NULL;
  RlxTensor *tensor;

  for (gsize i = 0; i < n; i++)
    switch (data_type)
      {
      case RLX_DATA_TYPE_F32: ((float *) data)[i] = (float) values[i]; break;
      case RLX_DATA_TYPE_F16: ((guint16 *) data)[i] = half_from_double (values[i]); break;
      case RLX_DATA_TYPE_I32: ((gint32 *) data)[i] = (gint32) values[i]; break;
      case RLX_DATA_TYPE_U32: ((guint32 *) data)[i] = (guint32) values[i]; break;
      case RLX_DATA_TYPE_I8: ((gint8 *) data)[i] = (gint8) values[i]; break;
      case RLX_DATA_TYPE_U8: data[i] = (guint8) values[i]; break;
      case RLX_DATA_TYPE_BOOL: data[i] = values[i] != 0; break;
      case RLX_DATA_TYPE_I64: ((gint64 *) data)[i] = (gint64) values[i]; break;
      case RLX_DATA_TYPE_U64: ((guint64 *) data)[i] = (guint64) values[i]; break;
      case RLX_DATA_TYPE_I4:
      case RLX_DATA_TYPE_U4: data[i / 2] |= (guint8) (((gint64) values[i] & 15) << (i % 2 * 4)); break;
      case RLX_DATA_TYPE_I16:
      case RLX_DATA_TYPE_U16:
      case RLX_DATA_TYPE_I2:
      case RLX_DATA_TYPE_U2: rlx_element_set_int (data_type, data, i, (gint64) values[i]); break;
      case RLX_DATA_TYPE_BF16:
      case RLX_DATA_TYPE_F8E4M3FN:
      case RLX_DATA_TYPE_F8E4M3FNUZ:
      case RLX_DATA_TYPE_F8E5M2:
      case RLX_DATA_TYPE_F8E5M2FNUZ:
      case RLX_DATA_TYPE_F8E8M0:
      case RLX_DATA_TYPE_F4E2M1: rlx_element_set_narrow (data_type, data, i, values[i]); break;
      default: g_assert_not_reached ();
      }

  tensor = rlx_tensor_new_from_data (data_type, shape, n_dims, data, size, &error);
  g_assert_no_error (error);

  return tensor;
}

RlxTensor *
rlx_test_random (const char *type,
                 double      min,
                 double      max,
                 guint32     seed)
{
  RlxDataType data_type;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;
  gsize n = parse_one (type, &data_type, shape, &n_dims);
  g_autofree double *values = g_new (double, MAX (n, 1));
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);

  for (gsize i = 0; i < n; i++)
    {
      double unit = g_rand_int (rand) / 4294967296.0;

      if (data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16)
        values[i] = min + unit * (max - min);
      else
        values[i] = min + floor (unit * (max - min + 1));
    }

  return rlx_test_tensor (type, values);
}

double *
rlx_test_get_values (RlxTensor *tensor)
{
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  gsize n;
  double *values;

  if (rlx_data_type_loads_float (data_type))
    {
      g_autofree float *floats = rlx_tensor_to_floats (tensor, &n, NULL);

      values = g_new (double, MAX (n, 1));
      for (gsize i = 0; i < n; i++)
        values[i] = floats[i];
    }
  else
    {
      g_autofree gint64 *ints = rlx_tensor_to_ints (tensor, &n, NULL);

      values = g_new (double, MAX (n, 1));
      for (gsize i = 0; i < n; i++)
        values[i] = (double) ints[i];
    }

  return values;
}

GVariant *
rlx_test_ints (gsize         n_values,
               const gint64 *values)
{
  return g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n_values, sizeof (gint64));
}

/* ---- running --------------------------------------------------------------- */

static gboolean
report (GError     *error,
        const char *what)
{
  if (error == NULL)
    return FALSE;

  g_test_message ("%s: %s %d: %s", what, g_quark_to_string (error->domain), error->code, error->message);
  g_test_fail ();

  return TRUE;
}

RlxTensor **
rlx_test_run_graph (RlxGraph         *graph,
                    gsize             n_inputs,
                    RlxTensor *const *inputs,
                    gsize            *n_outputs)
{
  g_autoptr (RlxGraph) owned = graph;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GError) error = NULL;
  RlxDevice *device = rlx_test_device ();
  RlxTensor **outputs;

  if (device == NULL)
    return NULL;

  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  if (report (error, "compile"))
    return NULL;

  outputs = rlx_executable_run (executable, (RlxTensor **) inputs, n_inputs, n_outputs, NULL, &error);
  if (report (error, "run"))
    return NULL;

  return outputs;
}

RlxTensor *
rlx_test_run_op_full (const char       *op,
                      gsize             n_inputs,
                      RlxTensor *const *inputs,
                      guint             constants,
                      GVariant         *attributes)
{
  g_autoptr (GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **nodes = g_new0 (RlxNode *, MAX (n_inputs, 1));
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **feeds = g_new0 (RlxTensor *, MAX (n_inputs, 1));
  g_autofree RlxTensor **outputs = NULL;
  gsize n_feeds = 0, n_results, n_outputs;

  for (gsize i = 0; i < n_inputs; i++)
    {
      if (inputs[i] == NULL)
        continue;
      if (i < 32 && (constants >> i & 1))
        {
          nodes[i] = rlx_graph_constant (graph, inputs[i], &error);
        }
      else
        {
          g_autofree char *name = g_strdup_printf ("input%" G_GSIZE_FORMAT, i);
          gsize n_dims;
          const gint64 *shape = rlx_tensor_get_shape (inputs[i], &n_dims);

          nodes[i] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (inputs[i]), shape, n_dims, &error);
          feeds[n_feeds++] = inputs[i];
        }
      if (report (error, op))
        return NULL;
    }

  results = rlx_graph_add_op (graph, op, nodes, n_inputs, owned, &n_results, &error);
  if (report (error, op))
    return NULL;
  g_assert_cmpuint (n_results, >=, 1);
  rlx_graph_output (graph, "y", results[0], NULL);

  outputs = rlx_test_run_graph (g_object_ref (graph), n_feeds, feeds, &n_outputs);
  if (outputs == NULL)
    return NULL;
  g_assert_cmpuint (n_outputs, ==, 1);

  return outputs[0];
}

RlxTensor *
rlx_test_run_op (const char       *op,
                 gsize             n_inputs,
                 RlxTensor *const *inputs,
                 GVariant         *attributes)
{
  return rlx_test_run_op_full (op, n_inputs, inputs, 0, attributes);
}

/* ---- shape rules ------------------------------------------------------------ */

void
rlx_test_check_op (const char       *op,
                   gsize             n_inputs,
                   RlxTensor *const *inputs,
                   GVariant         *attributes)
{
  g_autoptr (GVariant) kept = g_variant_ref_sink (attributes);
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **nodes = g_new0 (RlxNode *, n_inputs);
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxReferenceCheck result;
  gsize n;

  for (gsize i = 0; i < n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, i);
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (inputs[i], &n_dims);

      nodes[i] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (inputs[i]), shape, n_dims, &error);
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, op, nodes, n_inputs, kept, &n, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", results[0], NULL);

  outputs = rlx_test_run_graph (g_object_ref (graph), n_inputs, inputs, &n);
  g_assert_nonnull (outputs);
  expected = rlx_reference_run (graph, inputs, n_inputs, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &result))
    {
      g_test_message ("%s: element %" G_GSIZE_FORMAT " is %.9g instead of %.9g (bound %.3g), %" G_GSIZE_FORMAT " are wrong",
                      op, result.first_wrong, result.got, result.expected, result.bound, result.n_wrong);
      g_test_fail ();
    }
  g_object_unref (outputs[0]);
}

char *
rlx_test_infer (const char       *op,
                const char       *types,
                RlxTensor *const *constants,
                GVariant         *attributes,
                GError          **error)
{
  g_autoptr (GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  g_autofree RlxNode **results = NULL;
  GString *text;
  const gint64 *shape;
  gsize n_results, n_dims;

  for (guint i = 0;; i++)
    {
      g_autofree char *name = g_strdup_printf ("input%u", i);
      g_autoptr (GError) local_error = NULL;
      RlxDataType data_type;
      gint64 dims[RLX_MAX_DIMS];
      RlxNode *node;

      while (*types == ' ')
        types++;
      if (*types == '-')
        {
          types++;
          g_ptr_array_add (nodes, NULL);
          continue;
        }
      if (!rlx_test_next_type (&types, &data_type, dims, &n_dims))
        break;
      if (constants != NULL && constants[i] != NULL)
        node = rlx_graph_constant (graph, constants[i], &local_error);
      else
        node = rlx_graph_input (graph, name, data_type, dims, n_dims, &local_error);
      g_assert_no_error (local_error);
      g_ptr_array_add (nodes, node);
    }

  results = rlx_graph_add_op (graph, op, (RlxNode **) nodes->pdata, nodes->len, owned, &n_results, error);
  if (results == NULL)
    return NULL;

  shape = rlx_node_get_shape (results[0], &n_dims);
  text = g_string_new (rlx_data_type_to_string (rlx_node_get_data_type (results[0])));
  g_string_append_c (text, '[');
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", shape[i]);
  g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}

void
rlx_test_infers (const char *op,
                 const char *types,
                 GVariant   *attributes,
                 const char *type)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *got = rlx_test_infer (op, types, NULL, attributes, &error);

  if (!report (error, op) && g_strcmp0 (got, type) != 0)
    {
      g_test_message ("%s of %s: expected %s, got %s", op, types, type, got);
      g_test_fail ();
    }
}

void
rlx_test_refuses (const char    *op,
                  const char    *types,
                  GVariant      *attributes,
                  RlxGraphError  code,
                  const char    *words)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autofree char *text = owned != NULL ? g_variant_print (owned, FALSE) : g_strdup ("no attributes");
  g_autofree char *got = rlx_test_infer (op, types, NULL, owned, &error);

  if (got != NULL)
    {
      g_test_message ("%s of %s with %s: expected an error, got %s", op, types, text, got);
      g_test_fail ();
    }
  else if (!g_error_matches (error, RLX_GRAPH_ERROR, code))
    {
      g_test_message ("%s of %s with %s: expected code %d, got %s %d: %s", op, types, text, code,
                      error != NULL ? g_quark_to_string (error->domain) : "no error",
                      error != NULL ? error->code : -1, error != NULL ? error->message : "");
      g_test_fail ();
    }
  else if (words != NULL && strstr (error->message, words) == NULL)
    {
      g_test_message ("%s of %s with %s: expected a message with \"%s\", got: %s", op, types, text, words, error->message);
      g_test_fail ();
    }
}

/* ---- comparing -------------------------------------------------------------- */

double
rlx_test_rounding (RlxDataType data_type,
                   double      value)
{
  int exponent;

  if (data_type != RLX_DATA_TYPE_F16 && data_type != RLX_DATA_TYPE_F32)
    return 0;

  frexp (value, &exponent);
  if (data_type == RLX_DATA_TYPE_F16)
    return ldexp (1, MAX (exponent - 1, -14) - 11);
  else
    return ldexp (1, MAX (exponent - 1, -126) - 24);
}

gboolean
rlx_test_compare_full (const char   *what,
                       RlxTensor    *got,
                       const char   *type,
                       const double *expected,
                       RlxTestBound  bound,
                       gpointer      user_data)
{
  g_autofree double *values = NULL;
  gsize n, n_bad = 0;

  if (got == NULL)
    {
      g_test_message ("%s: no result", what);
      g_test_fail ();
      return FALSE;
    }

  n = rlx_tensor_get_n_elements (got);
  if (type != NULL)
    {
      RlxDataType data_type;
      gint64 dims[RLX_MAX_DIMS];
      gsize n_dims, n_got;
      const gint64 *shape = rlx_tensor_get_shape (got, &n_got);

      parse_one (type, &data_type, dims, &n_dims);
      if (data_type != rlx_tensor_get_data_type (got) || n_dims != n_got ||
          (n_dims > 0 && memcmp (dims, shape, n_dims * sizeof (gint64)) != 0))
        {
          g_autofree char *text = rlx_tensor_to_string (got);

          g_test_message ("%s: expected a tensor of type %s, got %s", what, type, text);
          g_test_fail ();
          return FALSE;
        }
    }

  values = rlx_test_get_values (got);
  for (gsize i = 0; i < n; i++)
    {
      double limit, difference;

      if (isnan (expected[i]) ? isnan (values[i]) : values[i] == expected[i])
        continue;

      limit = bound (i, expected[i], user_data);
      difference = fabs (values[i] - expected[i]);
      if (isfinite (expected[i]) && difference <= limit) /* false for NaN */
        continue;

      if (n_bad++ == 0)
        g_test_message ("%s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (difference %.3g, bound %.3g)",
                        what, i, expected[i], values[i], difference, limit);
    }

  if (n_bad == 0)
    return TRUE;

  g_test_message ("%s: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " elements are out of bounds", what, n_bad, n);
  g_test_fail ();

  return FALSE;
}

typedef struct
{
  RlxDataType data_type;
  double absolute;
  double relative;
} PlainBound;

static double
plain_bound (gsize    index,
             double   expected,
             gpointer user_data)
{
  PlainBound *plain = user_data;

  return plain->absolute + plain->relative * fabs (expected) +
         (plain->data_type == RLX_DATA_TYPE_F16 ? rlx_test_rounding (plain->data_type, expected) : 0);
}

gboolean
rlx_test_compare (const char   *what,
                  RlxTensor    *got,
                  const char   *type,
                  const double *expected,
                  double        absolute,
                  double        relative)
{
  PlainBound plain = {
    .data_type = got != NULL ? rlx_tensor_get_data_type (got) : RLX_DATA_TYPE_F32,
    .absolute = absolute,
    .relative = relative,
  };

  return rlx_test_compare_full (what, got, type, expected, plain_bound, &plain);
}

/* ---- caches --------------------------------------------------------------------------- */

void
rlx_test_remove_tree (const char *path)
{
  g_autoptr(GDir) dir = NULL;
  const char *name;

  if (g_file_test (path, G_FILE_TEST_IS_SYMLINK) || !g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_unlink (path);
      return;
    }
  dir = g_dir_open (path, 0, NULL);
  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *child = g_build_filename (path, name, NULL);

      rlx_test_remove_tree (child);
    }
  g_rmdir (path);
}

static gboolean has_own_cache = FALSE;

char *
rlx_test_use_own_cache (void)
{
  char *folder = g_dir_make_tmp ("rlx-test-XXXXXX", NULL);

  /* The driver may cache compiled shaders, which take the longest. */
  g_setenv ("MESA_SHADER_CACHE_DIR", g_getenv ("XDG_CACHE_HOME") ? g_getenv ("XDG_CACHE_HOME") : folder, FALSE);
  g_setenv ("XDG_CACHE_HOME", folder, TRUE);
  has_own_cache = TRUE;
  return folder;
}

static void
with_empty_cache (gconstpointer data)
{
  g_autofree char *path = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", NULL);

  rlx_test_remove_tree (path);
  ((GTestFunc) data) ();
}

void
rlx_test_add_with_empty_cache (const char *path,
                               GTestFunc   func)
{
  /* Nobody else's cache may be emptied. */
  g_assert_true (has_own_cache);
  g_test_add_data_func (path, (gconstpointer) func, with_empty_cache);
}

/* ---- memory ------------------------------------------------------------------------------- */

gsize
rlx_test_resident_bytes (void)
{
  g_autofree char *text = NULL;
  unsigned long size = 0, resident = 0;

  if (!g_file_get_contents ("/proc/self/statm", &text, NULL, NULL) || sscanf (text, "%lu %lu", &size, &resident) != 2)
    return 0;
  return resident * (gsize) sysconf (_SC_PAGESIZE);
}

/* ---- callbacks ------------------------------------------------------------------------- */

void
rlx_test_keep_result (GObject      *source G_GNUC_UNUSED,
                      GAsyncResult *result,
                      gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

gboolean
rlx_test_cancel (gpointer data)
{
  g_cancellable_cancel (data);
  return G_SOURCE_REMOVE;
}

void
rlx_test_count_notify (GObject    *object G_GNUC_UNUSED,
                       GParamSpec *pspec G_GNUC_UNUSED,
                       gpointer    data)
{
  ++*(guint *) data;
}

double
rlx_test_get_bound (gsize    index,
                    double   expected,
                    gpointer user_data)
{
  const RlxTestExpected *known = user_data;

  return known->bounds[index] + (known->data_type == RLX_DATA_TYPE_F16 ? rlx_test_rounding (RLX_DATA_TYPE_F16, expected) : 0);
}

GVariant *
rlx_test_attributes (const char *text)
{
  g_autoptr(GError) error = NULL;
  GVariant *value = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, &error);

  g_assert_no_error (error);
  return value;
}

void
rlx_test_check_same_bits (const char *op,
                          const char *type,
                          const char *attributes)
{
  g_autoptr (RlxTensor) x = NULL;
  g_autoptr (RlxTensor) first = NULL;
  g_autoptr (GVariant) attrs = rlx_test_attributes (attributes);

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_random (type, -1, 1, 4);
  first = rlx_test_run_op (op, 1, &x, attrs);
  for (int i = 0; i < 3; i++)
    {
      g_autoptr (RlxTensor) again = rlx_test_run_op (op, 1, &x, attrs);

      g_assert_true (first != NULL && again != NULL && rlx_tensor_equal (first, again));
    }
}
