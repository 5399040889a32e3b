/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-calibration-private.h"

#include <math.h>

#include "ops/rlx-product-private.h"
#include "ops/rlx-variant-private.h"

/**
 * RlxCalibration:
 *
 * How fast a device is, as [method@Rlx.Device.calibrate] measured it.
 *
 * It is a list of [class@Rlx.CalibrationKernel]: all kernels that compete with others,
 * each with the time it took for a typical problem. Which of them a graph gets also
 * depends on its shapes.
 *
 * A calibration never changes, so threads can share it. One created by `g_object_new()`
 * contains only zeros.
 *
 * Since: 1.0
 */
struct _RlxCalibration
{
  GObject parent_instance;

  RlxSpeeds speeds;
  GPtrArray *kernels;    /* RlxCalibrationKernel */
};

/**
 * RlxCalibrationKernel:
 *
 * One kernel of a [class@Rlx.Calibration].
 *
 * Since: 1.0
 */
struct _RlxCalibrationKernel
{
  GObject parent_instance;

  const char *family;
  const char *name;
  double time;
  double flops;
  gboolean wrong;
};

enum
{
  KERNEL_PROP_0,
  KERNEL_PROP_FAMILY,
  KERNEL_PROP_FLOPS,
  KERNEL_PROP_NAME,
  KERNEL_PROP_TIME,
  KERNEL_PROP_WRONG,
  N_KERNEL_PROPS
};

static GParamSpec *kernel_properties[N_KERNEL_PROPS];

G_DEFINE_FINAL_TYPE (RlxCalibrationKernel, rlx_calibration_kernel, G_TYPE_OBJECT)

static void
rlx_calibration_kernel_get_property (GObject    *object,
                                     guint       id,
                                     GValue     *value,
                                     GParamSpec *pspec)
{
  RlxCalibrationKernel *self = RLX_CALIBRATION_KERNEL (object);

  switch (id)
    {
    case KERNEL_PROP_FAMILY:
      g_value_set_string (value, self->family);
      break;
    case KERNEL_PROP_FLOPS:
      g_value_set_double (value, self->flops);
      break;
    case KERNEL_PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case KERNEL_PROP_TIME:
      g_value_set_double (value, self->time);
      break;
    case KERNEL_PROP_WRONG:
      g_value_set_boolean (value, self->wrong);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_calibration_kernel_class_init (RlxCalibrationKernelClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->get_property = rlx_calibration_kernel_get_property;

  /**
   * RlxCalibrationKernel:family:
   *
   * The family of kernels it belongs to: `product`, `conv`, `attention` and others.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_FAMILY] = g_param_spec_string ("family", NULL, NULL, NULL, flags);
  /**
   * RlxCalibrationKernel:flops:
   *
   * How many floating-point operations it did per second; 0 if it only moves data, or
   * is wrong.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibrationKernel:name:
   *
   * The name of the kernel, unique within its family.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * RlxCalibrationKernel:time:
   *
   * How many seconds it took for a typical problem of its family; 0 if it is wrong.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_TIME] = g_param_spec_double ("time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibrationKernel:wrong:
   *
   * Whether it gave a wrong result or could not be compiled by the driver. Such a
   * kernel is not used.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_WRONG] = g_param_spec_boolean ("wrong", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_KERNEL_PROPS, kernel_properties);
}

static void
rlx_calibration_kernel_init (RlxCalibrationKernel *self G_GNUC_UNUSED)
{
}

/* ---- the list ------------------------------------------------------------------- */

static GType
rlx_calibration_get_item_type (GListModel *model G_GNUC_UNUSED)
{
  return RLX_TYPE_CALIBRATION_KERNEL;
}

static guint
rlx_calibration_get_n_items (GListModel *model)
{
  return RLX_CALIBRATION (model)->kernels->len;
}

static gpointer
rlx_calibration_get_item (GListModel *model,
                          guint       position)
{
  RlxCalibration *self = RLX_CALIBRATION (model);

  return position < self->kernels->len ? g_object_ref (g_ptr_array_index (self->kernels, position)) : NULL;
}

static void
rlx_calibration_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = rlx_calibration_get_item_type;
  iface->get_n_items = rlx_calibration_get_n_items;
  iface->get_item = rlx_calibration_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxCalibration, rlx_calibration, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, rlx_calibration_list_model_init))

static void
rlx_calibration_finalize (GObject *object)
{
  g_ptr_array_unref (RLX_CALIBRATION (object)->kernels);
  G_OBJECT_CLASS (rlx_calibration_parent_class)->finalize (object);
}

/**
 * RlxCalibration:bandwidth:
 *
 * How fast kernels access the memory of the device: bytes read and written per second,
 * added up.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:dispatch-time:
 *
 * How many seconds each further kernel adds to a run.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:flops:
 *
 * How many floating-point operations per second the fastest correct kernel reaches for
 * matrix products with 32-bit elements.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:flops-f16:
 *
 * The same for elements that are stored in 16 bits.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:round-trip-time:
 *
 * How many seconds a run of one tiny kernel takes, from inputs in the computer's memory
 * to outputs there.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:spread:
 *
 * How much the times varied from which a speed was computed: the largest ratio of the
 * median to the time that was used, which is one of the shortest.
 *
 * 1 is best. Above 1.5 the machine was busy, and measuring again when it is idle may
 * give other speeds.
 *
 * Since: 1.0
 */
/**
 * RlxCalibration:transfer-rate:
 *
 * How fast the inputs and outputs of a run are transferred between the program and the
 * device, in bytes per second.
 *
 * Since: 1.0
 */
/* Numbers that are read only, from 1 on. */
static const struct
{
  const char *name;
  gsize offset;
} properties[] = {
  { NULL, 0 },
  { "bandwidth", G_STRUCT_OFFSET (RlxSpeeds, bandwidth) },
  { "dispatch-time", G_STRUCT_OFFSET (RlxSpeeds, dispatch_time) },
  { "flops", G_STRUCT_OFFSET (RlxSpeeds, flops) },
  { "flops-f16", G_STRUCT_OFFSET (RlxSpeeds, flops_f16) },
  { "round-trip-time", G_STRUCT_OFFSET (RlxSpeeds, round_trip_time) },
  { "spread", G_STRUCT_OFFSET (RlxSpeeds, spread) },
  { "transfer-rate", G_STRUCT_OFFSET (RlxSpeeds, transfer) },
};

static void
rlx_calibration_get_property (GObject    *object,
                              guint       id,
                              GValue     *value,
                              GParamSpec *pspec G_GNUC_UNUSED)
{
  g_value_set_double (value, G_STRUCT_MEMBER (double, &RLX_CALIBRATION (object)->speeds, properties[id].offset));
}

static void
rlx_calibration_class_init (RlxCalibrationClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_calibration_finalize;
  object_class->get_property = rlx_calibration_get_property;
  for (guint i = 1; i < G_N_ELEMENTS (properties); i++)
    g_object_class_install_property (object_class, i, g_param_spec_double (properties[i].name, NULL, NULL, 0, G_MAXDOUBLE, 0, flags));
}

static void
rlx_calibration_init (RlxCalibration *self)
{
  self->kernels = g_ptr_array_new_with_free_func (g_object_unref);
}

/* ---- speeds --------------------------------------------------------------------- */

double
rlx_speeds_get_best (const RlxSpeeds *speeds)
{
  double best = 0.0;

  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    if (i != RLX_PRODUCT_MATRIX && !rlx_speeds_is_banned (speeds, RLX_FAMILY_PRODUCT, i))
      best = MAX (best, speeds->variants[RLX_FAMILY_PRODUCT][i].flops);
  return best;
}

/* Limits far beyond all existing devices, in either direction, in the units used for
 * display. */
typedef struct
{
  const char *name;
  double least, most;
  double unit;
  const char *unit_name;
} Range;

static const Range range_flops = { "products of matrices", 1e5, 1e16, 1e9, "GFLOPS" };
static const Range range_flops_f16 = { "products of f16 matrices", 1e5, 1e16, 1e9, "GFLOPS" };
static const Range range_bandwidth = { "a memory bandwidth", 1e5, 5e13, 1e9, "GB/s" };
/* The fastest links there are reach 1 TB/s. */
static const Range range_transfer = { "a transfer rate", 1e5, 2e12, 1e9, "GB/s" };
static const Range range_dispatch = { "the time of a dispatch", 2e-8, 1.0, 1e-6, "µs" };
static const Range range_round_trip = { "the time of a round trip", 5e-7, 60.0, 1e-6, "µs" };
static const Range range_kernel = { "the time of a kernel", 1e-9, 60.0, 1e-6, "µs" };
static const Range range_factor = { "the time of a kernel, times its estimate,", 1e-9, 1e9, 1.0, "" };
static const Range range_spread = { "a spread of the times", 1.0, 1e6, 1.0, "" };

/* The memory of a device may be slower than the caches that a transfer stays in, and a
 * busy machine delays many dispatches more than one, but not by that much. */
#define MOST_TIMES 100.0

/* NaN is never within. */
static char *
check_range (const Range *range,
             double       value)
{
  if (isfinite (value) && value >= range->least && value <= range->most)
    return NULL;
  return g_strdup_printf ("%s of %g %s, where %g to %g are possible", range->name, value / range->unit, range->unit_name,
                          range->least / range->unit, range->most / range->unit);
}

static char *
check_variants (const RlxSpeeds   *speeds,
                const RlxVariants *table)
{
  for (guint i = 0; i < table->n_variants; i++)
    {
      const RlxMeasurement *measured = &speeds->variants[table->family][i];
      char *problem;

      /* wrong, or it fits no sample on the device */
      if (measured->seconds == 0.0 && measured->flops == 0.0 && measured->factor == 0.0)
        continue;
      if (rlx_speeds_is_banned (speeds, table->family, i))
        return g_strdup_printf ("“%s” is wrong and has a time", table->variants[i].name);
      problem = check_range (&range_kernel, measured->seconds);
      problem = problem ? problem : check_range (&range_factor, measured->factor);
      if (problem == NULL && measured->flops != 0.0)
        problem = check_range (&range_flops, measured->flops);
      if (problem != NULL)
        return problem;
    }
  return NULL;
}

char *
rlx_speeds_find_problem (const RlxSpeeds *speeds)
{
  char *problem = check_range (&range_flops, speeds->flops);

  for (RlxFamily i = 0; problem == NULL && i < RLX_N_FAMILIES; i++)
    problem = check_variants (speeds, rlx_variants_get (i));
  /* Without a correct variant, nothing can be computed. */
  if (problem == NULL && speeds->flops != rlx_speeds_get_best (speeds))
    problem = g_strdup ("the rate of products is not that of the fastest kernel");
  problem = problem ? problem : check_range (&range_flops_f16, speeds->flops_f16);
  problem = problem ? problem : check_range (&range_bandwidth, speeds->bandwidth);
  problem = problem ? problem : check_range (&range_transfer, speeds->transfer);
  problem = problem ? problem : check_range (&range_dispatch, speeds->dispatch_time);
  problem = problem ? problem : check_range (&range_round_trip, speeds->round_trip_time);
  problem = problem ? problem : check_range (&range_spread, speeds->spread);
  if (problem == NULL && speeds->transfer > speeds->bandwidth * MOST_TIMES)
    problem = g_strdup_printf ("a transfer rate of %g GB/s beside a memory bandwidth of %g GB/s",
                               speeds->transfer * 1e-9, speeds->bandwidth * 1e-9);
  if (problem == NULL && speeds->dispatch_time > speeds->round_trip_time * MOST_TIMES)
    problem = g_strdup_printf ("%g µs for a dispatch beside %g µs for a round trip",
                               speeds->dispatch_time * 1e6, speeds->round_trip_time * 1e6);
  return problem;
}

/* ---- as a file -------------------------------------------------------------------- */

/* Version; the speeds in the order of the structure; each variant that is wrong or was
 * measured, with its family, its measurement and whether it is wrong. */
#define FILE_TYPE "(uddddddda(ssdddb))"
#define FILE_VERSION 4
/* A file of any other kind is much longer. */
#define FILE_MAX 16384

GBytes *
rlx_calibration_to_bytes (RlxCalibration *self)
{
  const RlxSpeeds *speeds = &self->speeds;
  g_autoptr(GVariant) variant = NULL;
  GVariantBuilder variants;

  g_variant_builder_init (&variants, G_VARIANT_TYPE ("a(ssdddb)"));
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    {
      const RlxVariants *table = rlx_variants_get (i);

      for (guint j = 0; j < table->n_variants; j++)
        {
          const RlxMeasurement *measured = &speeds->variants[i][j];

          g_variant_builder_add (&variants, "(ssdddb)", table->name, table->variants[j].name, measured->seconds, measured->flops,
                                 measured->factor, rlx_speeds_is_banned (speeds, i, j));
        }
    }
  variant = g_variant_new (FILE_TYPE, FILE_VERSION, speeds->flops, speeds->flops_f16, speeds->bandwidth,
                           speeds->transfer, speeds->dispatch_time, speeds->round_trip_time, speeds->spread, &variants);
  g_variant_ref_sink (variant);
  return g_variant_get_data_as_bytes (variant);
}

/* All variants of this build, in their order. */
static gboolean
read_variants (RlxSpeeds *speeds,
               GVariant  *variants)
{
  gsize at = 0;

  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    {
      const RlxVariants *table = rlx_variants_get (i);

      for (guint j = 0; j < table->n_variants; j++)
        {
          RlxMeasurement *measured = &speeds->variants[i][j];
          const char *family, *name;
          gboolean banned;

          if (at >= g_variant_n_children (variants))
            return FALSE;
          g_variant_get_child (variants, at++, "(&s&sdddb)", &family, &name, &measured->seconds, &measured->flops, &measured->factor, &banned);
          if (!g_str_equal (family, table->name) || !g_str_equal (name, table->variants[j].name))
            return FALSE;
          if (banned)
            speeds->banned[i] |= 1u << j;
        }
    }
  return at == g_variant_n_children (variants);
}

RlxCalibration *
rlx_calibration_from_bytes (GBytes *bytes)
{
  g_autoptr(GVariant) variant = NULL;
  g_autoptr(GVariant) variants = NULL;
  g_autofree char *problem = NULL;
  RlxSpeeds speeds = { .measured = TRUE };
  guint32 version;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return NULL;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return NULL;

  g_variant_get (variant, "(uddddddd@a(ssdddb))", &version, &speeds.flops, &speeds.flops_f16, &speeds.bandwidth,
                 &speeds.transfer, &speeds.dispatch_time, &speeds.round_trip_time, &speeds.spread, &variants);
  if (version != FILE_VERSION || !read_variants (&speeds, variants))
    return NULL;
  problem = rlx_speeds_find_problem (&speeds);
  return problem == NULL ? rlx_calibration_new (&speeds) : NULL;
}

RlxCalibration *
rlx_calibration_load (const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_gpu_notes_load (info, RLX_CALIBRATION_NOTES);

  return bytes ? rlx_calibration_from_bytes (bytes) : NULL;
}

gboolean
rlx_calibration_store (RlxCalibration          *self,
                       const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_calibration_to_bytes (self);

  return rlx_gpu_notes_store (info, RLX_CALIBRATION_NOTES, bytes);
}

/* ---- the object --------------------------------------------------------------------- */

static void
add_kernel (RlxCalibration    *self,
            const RlxVariants *table,
            guint              row)
{
  const RlxMeasurement *measured = &self->speeds.variants[table->family][row];
  gboolean wrong = rlx_speeds_is_banned (&self->speeds, table->family, row);
  RlxCalibrationKernel *kernel;

  if (!wrong && measured->seconds <= 0.0)
    return;
  kernel = g_object_new (RLX_TYPE_CALIBRATION_KERNEL, NULL);
  kernel->family = table->name;
  kernel->name = table->variants[row].name;
  kernel->time = measured->seconds;
  kernel->flops = measured->flops;
  kernel->wrong = wrong;
  g_ptr_array_add (self->kernels, kernel);
}

RlxCalibration *
rlx_calibration_new (const RlxSpeeds *speeds)
{
  RlxCalibration *self = g_object_new (RLX_TYPE_CALIBRATION, NULL);

  self->speeds = *speeds;
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    for (guint j = 0; j < rlx_variants_get (i)->n_variants; j++)
      add_kernel (self, rlx_variants_get (i), j);
  return self;
}

const RlxSpeeds *
rlx_calibration_get_speeds (RlxCalibration *self)
{
  return &self->speeds;
}

/**
 * rlx_calibration_get_flops: (get-property flops)
 * @self: a calibration
 *
 * Gets how fast matrix products are.
 *
 * Returns: floating-point operations per second; a multiplication and an addition count
 *   as two
 *
 * Since: 1.0
 */
double
rlx_calibration_get_flops (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.flops;
}

/**
 * rlx_calibration_get_flops_f16: (get-property flops-f16)
 * @self: a calibration
 *
 * Gets how fast matrix products are when the elements are stored in 16 bits.
 *
 * Returns: floating-point operations per second
 *
 * Since: 1.0
 */
double
rlx_calibration_get_flops_f16 (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.flops_f16;
}

/**
 * rlx_calibration_get_bandwidth: (get-property bandwidth)
 * @self: a calibration
 *
 * Gets how fast kernels access the memory of the device.
 *
 * Returns: bytes read and written per second, added up
 *
 * Since: 1.0
 */
double
rlx_calibration_get_bandwidth (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.bandwidth;
}

/**
 * rlx_calibration_get_transfer_rate: (get-property transfer-rate)
 * @self: a calibration
 *
 * Gets how fast inputs and outputs are transferred between the program and the device.
 *
 * Returns: bytes per second
 *
 * Since: 1.0
 */
double
rlx_calibration_get_transfer_rate (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.transfer;
}

/**
 * rlx_calibration_get_dispatch_time: (get-property dispatch-time)
 * @self: a calibration
 *
 * Gets how much time each further kernel adds to a run.
 *
 * Returns: seconds
 *
 * Since: 1.0
 */
double
rlx_calibration_get_dispatch_time (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.dispatch_time;
}

/**
 * rlx_calibration_get_round_trip_time: (get-property round-trip-time)
 * @self: a calibration
 *
 * Gets how long a run of one tiny kernel takes, from inputs in the computer's memory to
 * outputs there.
 *
 * Returns: seconds
 *
 * Since: 1.0
 */
double
rlx_calibration_get_round_trip_time (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.round_trip_time;
}

/**
 * rlx_calibration_get_spread: (get-property spread)
 * @self: a calibration
 *
 * Gets how much the measured times varied.
 *
 * Returns: a factor; 1 is best, and above 1.5 the machine was busy
 *
 * Since: 1.0
 */
double
rlx_calibration_get_spread (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->speeds.spread;
}

/**
 * rlx_calibration_kernel_get_family: (get-property family)
 * @self: a kernel
 *
 * Gets the family the kernel belongs to.
 *
 * Returns: (transfer none): the name of the family
 *
 * Since: 1.0
 */
const char *
rlx_calibration_kernel_get_family (RlxCalibrationKernel *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION_KERNEL (self), NULL);

  return self->family;
}

/**
 * rlx_calibration_kernel_get_name: (get-property name)
 * @self: a kernel
 *
 * Gets the name of the kernel.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_calibration_kernel_get_name (RlxCalibrationKernel *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION_KERNEL (self), NULL);

  return self->name;
}

/**
 * rlx_calibration_kernel_get_flops: (get-property flops)
 * @self: a kernel
 *
 * Gets how fast the kernel is.
 *
 * Returns: floating-point operations per second; 0 if it only moves data, or is wrong
 *
 * Since: 1.0
 */
double
rlx_calibration_kernel_get_flops (RlxCalibrationKernel *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION_KERNEL (self), 0.0);

  return self->flops;
}

/**
 * rlx_calibration_kernel_get_time: (get-property time)
 * @self: a kernel
 *
 * Gets how long the kernel took for a typical problem of its family.
 *
 * Returns: seconds; 0 if it is wrong
 *
 * Since: 1.0
 */
double
rlx_calibration_kernel_get_time (RlxCalibrationKernel *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION_KERNEL (self), 0.0);

  return self->time;
}

/**
 * rlx_calibration_kernel_get_wrong: (get-property wrong)
 * @self: a kernel
 *
 * Gets whether the kernel gave a wrong result or could not be compiled by the driver.
 *
 * Returns: %TRUE if it is not used
 *
 * Since: 1.0
 */
gboolean
rlx_calibration_kernel_get_wrong (RlxCalibrationKernel *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION_KERNEL (self), FALSE);

  return self->wrong;
}
