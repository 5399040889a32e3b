/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-calibration-private.h"

#include <math.h>

/**
 * RlxCalibration:
 *
 * How fast a device is, as [method@Rlx.Device.calibrate] measured it.
 *
 * It is a list of [class@Rlx.CalibrationKernel]: of the kernels that multiply
 * matrices, each with its speed. There are `lanes` and `registers`, which are made
 * for CPUs, and `tiles-128`, `tiles-64` and `tiles-32`, which are made for GPUs and
 * called by the rows and columns of a tile. `matrix` is there for devices with matrix
 * units, and for graphs with %RLX_PRECISION_REDUCED. All of them multiply matrices of
 * 512 by 512 elements of 32 bits. Which of them a graph gets depends on the sizes of
 * its matrices, too.
 *
 * A calibration does not change, so it can be shared between threads. One made
 * by `g_object_new()` has zeros only.
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

  const char *name;
  double flops;
  gboolean wrong;
};

enum
{
  PROP_0,
  PROP_BANDWIDTH,
  PROP_DISPATCH_TIME,
  PROP_FLOPS,
  PROP_FLOPS_F16,
  PROP_ROUND_TRIP_TIME,
  PROP_SPREAD,
  PROP_TRANSFER_RATE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

enum
{
  KERNEL_PROP_0,
  KERNEL_PROP_FLOPS,
  KERNEL_PROP_NAME,
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
    case KERNEL_PROP_FLOPS:
      g_value_set_double (value, self->flops);
      break;
    case KERNEL_PROP_NAME:
      g_value_set_string (value, self->name);
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
   * RlxCalibrationKernel:flops:
   *
   * How many floating-point operations a second it does; 0 when it is wrong.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibrationKernel:name:
   *
   * The name of the kernel.
   *
   * Since: 1.0
   */
  kernel_properties[KERNEL_PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * RlxCalibrationKernel:wrong:
   *
   * Whether it gave a wrong result, or the driver could not compile it. It is not
   * used then.
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

static void
rlx_calibration_get_property (GObject    *object,
                              guint       id,
                              GValue     *value,
                              GParamSpec *pspec)
{
  RlxCalibration *self = RLX_CALIBRATION (object);

  switch (id)
    {
    case PROP_BANDWIDTH:
      g_value_set_double (value, rlx_calibration_get_bandwidth (self));
      break;
    case PROP_DISPATCH_TIME:
      g_value_set_double (value, rlx_calibration_get_dispatch_time (self));
      break;
    case PROP_FLOPS:
      g_value_set_double (value, rlx_calibration_get_flops (self));
      break;
    case PROP_FLOPS_F16:
      g_value_set_double (value, rlx_calibration_get_flops_f16 (self));
      break;
    case PROP_ROUND_TRIP_TIME:
      g_value_set_double (value, rlx_calibration_get_round_trip_time (self));
      break;
    case PROP_SPREAD:
      g_value_set_double (value, rlx_calibration_get_spread (self));
      break;
    case PROP_TRANSFER_RATE:
      g_value_set_double (value, rlx_calibration_get_transfer_rate (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_calibration_class_init (RlxCalibrationClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_calibration_finalize;
  object_class->get_property = rlx_calibration_get_property;

  /**
   * RlxCalibration:bandwidth:
   *
   * How fast kernels read and write the memory of the device, in bytes a second,
   * both added up.
   *
   * Since: 1.0
   */
  properties[PROP_BANDWIDTH] = g_param_spec_double ("bandwidth", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:dispatch-time:
   *
   * How many seconds it takes to start one more kernel in a run.
   *
   * Since: 1.0
   */
  properties[PROP_DISPATCH_TIME] = g_param_spec_double ("dispatch-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:flops:
   *
   * How many floating-point operations a second products of matrices reach, with
   * elements of 32 bits, in the fastest way that was right.
   *
   * Since: 1.0
   */
  properties[PROP_FLOPS] = g_param_spec_double ("flops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:flops-f16:
   *
   * The same with elements that are stored in 16 bits.
   *
   * Since: 1.0
   */
  properties[PROP_FLOPS_F16] = g_param_spec_double ("flops-f16", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:round-trip-time:
   *
   * How many seconds a run with one tiny kernel takes, from numbers in memory to
   * numbers in memory.
   *
   * Since: 1.0
   */
  properties[PROP_ROUND_TRIP_TIME] = g_param_spec_double ("round-trip-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:spread:
   *
   * How far apart the times lay that one figure was taken from, where that was
   * widest: the one in the middle divided by the one that counts, which is among
   * the shortest.
   *
   * 1 is best. Above 1.5 the machine was busy, and measuring again when it has
   * nothing else to do may give other speeds.
   *
   * Since: 1.0
   */
  properties[PROP_SPREAD] = g_param_spec_double ("spread", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:transfer-rate:
   *
   * How fast inputs and outputs of a run move between the program and the
   * device, in bytes a second.
   *
   * Since: 1.0
   */
  properties[PROP_TRANSFER_RATE] = g_param_spec_double ("transfer-rate", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
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
    if (i != RLX_PRODUCT_MATRIX && !(speeds->banned[RLX_FAMILY_PRODUCT] >> i & 1))
      best = MAX (best, speeds->product_flops[i]);
  return best;
}

/* What is far beyond all that there is, on either side. Rates and times are told in
 * the units that people see them in. */
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
/* The widest ways there are reach 1 TB/s. */
static const Range range_transfer = { "a transfer rate", 1e5, 2e12, 1e9, "GB/s" };
static const Range range_dispatch = { "the time of a dispatch", 2e-8, 1.0, 1e-6, "µs" };
static const Range range_round_trip = { "the time of a round trip", 5e-7, 60.0, 1e-6, "µs" };
static const Range range_spread = { "a spread of the times", 1.0, 1e6, 1.0, "" };

/* The memory of a device may be slower than the caches that a transfer stays in, and
 * a busy machine holds up many dispatches more than one, but not by that much. */
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
check_products (const RlxSpeeds *speeds)
{
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      gboolean banned = (speeds->banned[RLX_FAMILY_PRODUCT] >> i & 1) != 0;
      char *problem;

      /* not every device has matrix units */
      if ((banned || i == RLX_PRODUCT_MATRIX) && speeds->product_flops[i] == 0.0)
        continue;
      if (banned)
        return g_strdup_printf ("the way “%s” is wrong and has a rate", rlx_product_variant_get_name (i));
      problem = check_range (&range_flops, speeds->product_flops[i]);
      if (problem != NULL)
        return problem;
    }
  /* All ways wrong leaves nothing to compute with. */
  if (speeds->flops != rlx_speeds_get_best (speeds))
    return g_strdup ("the rate of products is not that of the fastest way");
  return check_range (&range_flops, speeds->flops);
}

char *
rlx_speeds_find_problem (const RlxSpeeds *speeds)
{
  char *problem = check_products (speeds);

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

/* Version; the speeds in the order of the structure; each way to compute a
 * product with its rate and whether it is wrong. */
#define FILE_TYPE "(uddddddda(sdb))"
#define FILE_VERSION 3
/* A file of any other kind is much longer. */
#define FILE_MAX 4096

GBytes *
rlx_calibration_to_bytes (RlxCalibration *self)
{
  const RlxSpeeds *speeds = &self->speeds;
  g_autoptr(GVariant) variant = NULL;
  GVariantBuilder products;

  g_variant_builder_init (&products, G_VARIANT_TYPE ("a(sdb)"));
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    g_variant_builder_add (&products, "(sdb)", rlx_product_variant_get_name (i), speeds->product_flops[i],
                           (speeds->banned[RLX_FAMILY_PRODUCT] >> i & 1) != 0);
  variant = g_variant_new (FILE_TYPE, FILE_VERSION, speeds->flops, speeds->flops_f16, speeds->bandwidth,
                           speeds->transfer, speeds->dispatch_time, speeds->round_trip_time, speeds->spread, &products);
  g_variant_ref_sink (variant);
  return g_variant_get_data_as_bytes (variant);
}

RlxCalibration *
rlx_calibration_from_bytes (GBytes *bytes)
{
  g_autoptr(GVariant) variant = NULL;
  g_autoptr(GVariant) products = NULL;
  g_autofree char *problem = NULL;
  RlxSpeeds speeds = { .measured = TRUE };
  guint32 version;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return NULL;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return NULL;

  g_variant_get (variant, "(uddddddd@a(sdb))", &version, &speeds.flops, &speeds.flops_f16, &speeds.bandwidth,
                 &speeds.transfer, &speeds.dispatch_time, &speeds.round_trip_time, &speeds.spread, &products);
  if (version != FILE_VERSION || g_variant_n_children (products) != RLX_N_PRODUCTS)
    return NULL;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      const char *name;
      gboolean banned;

      g_variant_get_child (products, i, "(&sdb)", &name, &speeds.product_flops[i], &banned);
      if (!g_str_equal (name, rlx_product_variant_get_name (i)))
        return NULL;
      if (banned)
        speeds.banned[RLX_FAMILY_PRODUCT] |= 1u << i;
    }

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

RlxCalibration *
rlx_calibration_new (const RlxSpeeds *speeds)
{
  RlxCalibration *self = g_object_new (RLX_TYPE_CALIBRATION, NULL);

  self->speeds = *speeds;
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      gboolean wrong = (speeds->banned[RLX_FAMILY_PRODUCT] >> i & 1) != 0;
      RlxCalibrationKernel *kernel;

      if (!wrong && speeds->product_flops[i] <= 0.0)
        continue;
      kernel = g_object_new (RLX_TYPE_CALIBRATION_KERNEL, NULL);
      kernel->name = rlx_product_variant_get_name (i);
      kernel->flops = speeds->product_flops[i];
      kernel->wrong = wrong;
      g_ptr_array_add (self->kernels, kernel);
    }
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
 * Gets how fast products of matrices are.
 *
 * Returns: floating-point operations a second, a multiplication and an addition
 *   being two
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
 * Gets how fast products of matrices are whose elements are stored in
 * 16 bits.
 *
 * Returns: floating-point operations a second
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
 * Gets how fast kernels read and write the memory of the device.
 *
 * Returns: bytes a second, read and written ones added up
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
 * Gets how fast inputs and outputs move between the program and the
 * device.
 *
 * Returns: bytes a second
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
 * Gets how long it takes to start one more kernel in a run.
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
 * Gets how long a run with one tiny kernel takes, from numbers in memory
 * to numbers in memory.
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
 * Gets how far apart the times lay.
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
 * Returns: floating-point operations a second; 0 when it is wrong
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
 * rlx_calibration_kernel_get_wrong: (get-property wrong)
 * @self: a kernel
 *
 * Whether the kernel gave a wrong result, or the driver could not compile it.
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
