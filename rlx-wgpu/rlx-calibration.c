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
 * A calibration does not change, so it can be shared between threads. One made
 * by `g_object_new()` has zeros only.
 *
 * Since: 1.0
 */
struct _RlxCalibration
{
  GObject parent_instance;

  RlxGpuFigures figures;
};

enum
{
  PROP_0,
  PROP_BANDWIDTH,
  PROP_DISPATCH_TIME,
  PROP_GFLOPS,
  PROP_GFLOPS_F16,
  PROP_ROUND_TRIP_TIME,
  PROP_TRANSFER_RATE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxCalibration, rlx_calibration, G_TYPE_OBJECT)

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
    case PROP_GFLOPS:
      g_value_set_double (value, rlx_calibration_get_gflops (self));
      break;
    case PROP_GFLOPS_F16:
      g_value_set_double (value, rlx_calibration_get_gflops_f16 (self));
      break;
    case PROP_ROUND_TRIP_TIME:
      g_value_set_double (value, rlx_calibration_get_round_trip_time (self));
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

  object_class->get_property = rlx_calibration_get_property;

  /**
   * RlxCalibration:bandwidth:
   *
   * How fast kernels read and write the memory of the device, in 10⁹ bytes a
   * second (GB/s), both added up.
   *
   * Since: 1.0
   */
  properties[PROP_BANDWIDTH] = g_param_spec_double ("bandwidth", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:dispatch-time:
   *
   * How many microseconds (µs) it takes to start one more kernel in a run.
   *
   * Since: 1.0
   */
  properties[PROP_DISPATCH_TIME] = g_param_spec_double ("dispatch-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:gflops:
   *
   * How many billion floating-point operations a second products of matrices reach
   * (GFLOPS), with elements of 32 bits, in the fastest way that was right.
   *
   * Since: 1.0
   */
  properties[PROP_GFLOPS] = g_param_spec_double ("gflops", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:gflops-f16:
   *
   * The same (GFLOPS) with elements that are stored in 16 bits.
   *
   * Since: 1.0
   */
  properties[PROP_GFLOPS_F16] = g_param_spec_double ("gflops-f16", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:round-trip-time:
   *
   * How many microseconds (µs) a run with one tiny kernel takes, from numbers in
   * memory to numbers in memory.
   *
   * Since: 1.0
   */
  properties[PROP_ROUND_TRIP_TIME] = g_param_spec_double ("round-trip-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxCalibration:transfer-rate:
   *
   * How fast inputs and outputs of a run move between the program and the
   * device, in 10⁹ bytes a second (GB/s).
   *
   * Since: 1.0
   */
  properties[PROP_TRANSFER_RATE] = g_param_spec_double ("transfer-rate", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_calibration_init (RlxCalibration *self G_GNUC_UNUSED)
{
}

/* ---- figures -------------------------------------------------------------------- */

void
rlx_figures_guess (RlxGpuFigures *figures,
                   RlxAdapterType type)
{
  static const RlxGpuFigures discrete = {
    .flops = 2e12, .flops_f16 = 2e12, .bandwidth = 2e11, .transfer = 5e9, .dispatch_time = 5e-6, .round_trip_time = 1e-4,
  };
  static const RlxGpuFigures integrated = {
    .flops = 2e11, .flops_f16 = 2e11, .bandwidth = 2e10, .transfer = 3e9, .dispatch_time = 5e-6, .round_trip_time = 1e-4,
  };
  static const RlxGpuFigures cpu = {
    .flops = 2e10, .flops_f16 = 2e10, .bandwidth = 4e9, .transfer = 2e9, .dispatch_time = 1e-5, .round_trip_time = 1e-4,
  };

  *figures = type == RLX_ADAPTER_TYPE_DISCRETE ? discrete : type == RLX_ADAPTER_TYPE_CPU ? cpu : integrated;
}

const char *
rlx_gpu_product_get_name (RlxGpuProduct product)
{
  static const char *const names[RLX_GPU_N_PRODUCTS] = { "lanes", "tiles-128", "tiles-64", "tiles-32", "registers", "matrix" };

  return names[product];
}

double
rlx_figures_get_best (const RlxGpuFigures *figures)
{
  double best = 0.0;

  for (guint i = 0; i < RLX_GPU_PRODUCT_MATRIX; i++)
    if (!(figures->banned_products >> i & 1))
      best = MAX (best, figures->product_flops[i]);
  return best;
}

/* Far beyond what there is on either side; NaN is never within. */
static gboolean
is_within (double value,
           double least,
           double most)
{
  return isfinite (value) && value >= least && value <= most;
}

static gboolean
is_rate (double value)
{
  return is_within (value, 1e5, 1e17);
}

static gboolean
is_time (double value)
{
  return is_within (value, 1e-9, 60.0);
}

static gboolean
is_possible (const RlxGpuFigures *figures)
{
  for (guint i = 0; i < RLX_GPU_N_PRODUCTS; i++)
    {
      gboolean banned = (figures->banned_products >> i & 1) != 0;

      /* not every device has matrix units */
      if ((banned || i == RLX_GPU_PRODUCT_MATRIX) && figures->product_flops[i] == 0.0)
        continue;
      if (banned || !is_rate (figures->product_flops[i]))
        return FALSE;
    }
  /* All ways wrong leaves nothing to compute with. */
  return is_rate (figures->flops) && figures->flops == rlx_figures_get_best (figures) &&
         is_rate (figures->flops_f16) && is_rate (figures->bandwidth) && is_rate (figures->transfer) &&
         is_time (figures->dispatch_time) && is_time (figures->round_trip_time);
}

/* ---- as a file -------------------------------------------------------------------- */

/* Version; the figures in the order of the structure; each way to compute a
 * product with its rate and whether it is wrong. */
#define FILE_TYPE "(udddddda(sdb))"
#define FILE_VERSION 1
/* A file of any other kind is much longer. */
#define FILE_MAX 4096

GBytes *
rlx_calibration_to_bytes (RlxCalibration *self)
{
  const RlxGpuFigures *figures = &self->figures;
  g_autoptr(GVariant) variant = NULL;
  GVariantBuilder products;

  g_variant_builder_init (&products, G_VARIANT_TYPE ("a(sdb)"));
  for (guint i = 0; i < RLX_GPU_N_PRODUCTS; i++)
    g_variant_builder_add (&products, "(sdb)", rlx_gpu_product_get_name (i), figures->product_flops[i],
                           (figures->banned_products >> i & 1) != 0);
  variant = g_variant_new (FILE_TYPE, FILE_VERSION, figures->flops, figures->flops_f16, figures->bandwidth,
                           figures->transfer, figures->dispatch_time, figures->round_trip_time, &products);
  g_variant_ref_sink (variant);
  return g_variant_get_data_as_bytes (variant);
}

RlxCalibration *
rlx_calibration_from_bytes (GBytes *bytes)
{
  g_autoptr(GVariant) variant = NULL;
  g_autoptr(GVariant) products = NULL;
  RlxGpuFigures figures = { .measured = TRUE };
  guint32 version;

  if (g_bytes_get_size (bytes) > FILE_MAX)
    return NULL;
  variant = g_variant_ref_sink (g_variant_new_from_bytes (G_VARIANT_TYPE (FILE_TYPE), bytes, FALSE));
  if (!g_variant_is_normal_form (variant))
    return NULL;

  g_variant_get (variant, "(udddddd@a(sdb))", &version, &figures.flops, &figures.flops_f16, &figures.bandwidth,
                 &figures.transfer, &figures.dispatch_time, &figures.round_trip_time, &products);
  if (version != FILE_VERSION || g_variant_n_children (products) != RLX_GPU_N_PRODUCTS)
    return NULL;
  for (guint i = 0; i < RLX_GPU_N_PRODUCTS; i++)
    {
      const char *name;
      gboolean banned;

      g_variant_get_child (products, i, "(&sdb)", &name, &figures.product_flops[i], &banned);
      if (!g_str_equal (name, rlx_gpu_product_get_name (i)))
        return NULL;
      if (banned)
        figures.banned_products |= 1u << i;
    }

  return is_possible (&figures) ? rlx_calibration_new (&figures) : NULL;
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
rlx_calibration_new (const RlxGpuFigures *figures)
{
  RlxCalibration *self = g_object_new (RLX_TYPE_CALIBRATION, NULL);

  self->figures = *figures;
  return self;
}

const RlxGpuFigures *
rlx_calibration_get_figures (RlxCalibration *self)
{
  return &self->figures;
}

/**
 * rlx_calibration_get_gflops: (get-property gflops)
 * @self: a calibration
 *
 * Gets how fast products of matrices are.
 *
 * Returns: 10⁹ floating-point operations a second (GFLOPS), a
 *   multiplication and an addition being two
 *
 * Since: 1.0
 */
double
rlx_calibration_get_gflops (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.flops * 1e-9;
}

/**
 * rlx_calibration_get_gflops_f16: (get-property gflops-f16)
 * @self: a calibration
 *
 * Gets how fast products of matrices are whose elements are stored in
 * 16 bits.
 *
 * Returns: 10⁹ floating-point operations a second (GFLOPS)
 *
 * Since: 1.0
 */
double
rlx_calibration_get_gflops_f16 (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.flops_f16 * 1e-9;
}

/**
 * rlx_calibration_get_bandwidth: (get-property bandwidth)
 * @self: a calibration
 *
 * Gets how fast kernels read and write the memory of the device.
 *
 * Returns: 10⁹ bytes a second (GB/s), read and written ones added up
 *
 * Since: 1.0
 */
double
rlx_calibration_get_bandwidth (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.bandwidth * 1e-9;
}

/**
 * rlx_calibration_get_transfer_rate: (get-property transfer-rate)
 * @self: a calibration
 *
 * Gets how fast inputs and outputs move between the program and the
 * device.
 *
 * Returns: 10⁹ bytes a second (GB/s)
 *
 * Since: 1.0
 */
double
rlx_calibration_get_transfer_rate (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.transfer * 1e-9;
}

/**
 * rlx_calibration_get_dispatch_time: (get-property dispatch-time)
 * @self: a calibration
 *
 * Gets how long it takes to start one more kernel in a run.
 *
 * Returns: microseconds (µs)
 *
 * Since: 1.0
 */
double
rlx_calibration_get_dispatch_time (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.dispatch_time * 1e6;
}

/**
 * rlx_calibration_get_round_trip_time: (get-property round-trip-time)
 * @self: a calibration
 *
 * Gets how long a run with one tiny kernel takes, from numbers in memory
 * to numbers in memory.
 *
 * Returns: microseconds (µs)
 *
 * Since: 1.0
 */
double
rlx_calibration_get_round_trip_time (RlxCalibration *self)
{
  g_return_val_if_fail (RLX_IS_CALIBRATION (self), 0.0);

  return self->figures.round_trip_time * 1e6;
}

/**
 * rlx_calibration_get_kernels:
 * @self: a calibration
 *
 * Gets how fast each of the ways to multiply matrices is, a dictionary of type
 * `a{sd}` with GFLOPS.
 *
 * The keys are `lanes`, which is made for CPUs, and `tiles-128`, `tiles-64` and
 * `tiles-32`, which are made for GPUs and called by the rows and columns of a
 * tile. `matrix` is there for devices with matrix units, and for graphs with
 * %RLX_PRECISION_REDUCED. All of them multiply matrices of 512 by 512 elements of
 * 32 bits. Those in [method@Rlx.Calibration.get_wrong_kernels] are left out. Which of them a
 * graph gets depends on the sizes of its matrices, too.
 *
 * Returns: (transfer full): the rates
 *
 * Since: 1.0
 */
GVariant *
rlx_calibration_get_kernels (RlxCalibration *self)
{
  GVariantBuilder builder;

  g_return_val_if_fail (RLX_IS_CALIBRATION (self), NULL);

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{sd}"));
  for (guint i = 0; i < RLX_GPU_N_PRODUCTS; i++)
    if (self->figures.product_flops[i] > 0.0)
      g_variant_builder_add (&builder, "{sd}", rlx_gpu_product_get_name (i), self->figures.product_flops[i] * 1e-9);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/**
 * rlx_calibration_get_wrong_kernels:
 * @self: a calibration
 *
 * Gets the ways to multiply matrices that gave a wrong result, or that the
 * driver could not compile. They are not used.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names
 *
 * Since: 1.0
 */
char **
rlx_calibration_get_wrong_kernels (RlxCalibration *self)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();

  g_return_val_if_fail (RLX_IS_CALIBRATION (self), NULL);

  for (guint i = 0; i < RLX_GPU_N_PRODUCTS; i++)
    if (self->figures.banned_products >> i & 1)
      g_strv_builder_add (builder, rlx_gpu_product_get_name (i));
  return g_strv_builder_end (builder);
}
