/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Interpolation. Resizing is done axis by axis.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-index-private.h"
#include "ops/rlx-variant-private.h"

#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64

/* ---- resize --------------------------------------------------------------------- */

static gint64
get_resize_axis (const RlxInts *axes,
                 guint          index,
                 guint          n,
                 guint          n_dims)
{
  gint64 axis = axes->n_values > 0 ? axes->values[index] : (gint64) n_dims - n + index;

  return axis < 0 ? axis + n_dims : axis;
}

gboolean
rlx_resize_infer (RlxOpCall            *call,
                  const RlxResizeAttrs *attrs,
                  GError              **error)
{
  const RlxInts *sizes = &attrs->sizes;
  const RlxInts *axes = &attrs->axes;
  const RlxTensorType *scales = call->inputs[RLX_RESIZE_SCALES], *region = call->inputs[RLX_RESIZE_REGION];
  gboolean crop = attrs->coordinates == RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
  RlxTensorType type = *call->inputs[0];
  guint mask;

  if (sizes->n_values > type.n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u sizes, the operand has %u dimensions", sizes->n_values, type.n_dims);
  if (axes->n_values > 0 && axes->n_values != sizes->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u sizes for %u axes", sizes->n_values, axes->n_values);
  if (!rlx_call_axes (call, axes, type.n_dims, FALSE, &mask, error))
    return FALSE;
  if (!rlx_data_type_is_float (type.data_type) && attrs->mode != RLX_INTERPOLATION_NEAREST)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the operand is %s: only floats can be interpolated, other types take the nearest element",
                           rlx_data_type_to_string (type.data_type));
  if (scales != NULL && rlx_type_n_elements (scales) != sizes->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "there are %" G_GUINT64_FORMAT " scales for %u sizes", rlx_type_n_elements (scales), sizes->n_values);
  if (crop && region == NULL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is no region to resize");
  if (region != NULL && rlx_type_n_elements (region) != 2 * (guint64) sizes->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the region has %" G_GUINT64_FORMAT " numbers, a start and an end are needed for each of %u sizes",
                           rlx_type_n_elements (region), sizes->n_values);

  for (guint i = 0; i < sizes->n_values; i++)
    {
      gint64 axis = get_resize_axis (axes, i, sizes->n_values, type.n_dims);

      if (sizes->values[i] < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "size %u is %" G_GINT64_FORMAT, i, sizes->values[i]);
      if (type.shape[axis] == 0 && sizes->values[i] > 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "dimension %" G_GINT64_FORMAT " is 0 and cannot be resized", axis);
      type.shape[axis] = sizes->values[i];
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Element r of the result is at exactly (a r + b) / d of the operand; FALSE if that does not hold or the numbers are
 * too large. */
static gboolean
get_exact_place (const RlxIrNode *node,
                 gint64           size,
                 gint64           new_size,
                 gint64          *a,
                 gint64          *b,
                 gint64          *d)
{
  gint64 largest;

  if (size > G_MAXINT16 * (gint64) 1024 || new_size > G_MAXINT16 * (gint64) 1024)
    return FALSE;

  *b = 0;
  switch (rlx_resize_attrs (node)->coordinates)
    {
    case RLX_RESIZE_COORDINATES_ALIGN_CORNERS:
      *a = new_size > 1 ? size - 1 : 0;
      *d = MAX (new_size - 1, 1);
      break;

    case RLX_RESIZE_COORDINATES_ASYMMETRIC:
      *a = size;
      *d = new_size;
      break;

    case RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN:
      *a = 2 * size;
      *b = size;
      *d = 2 * new_size;
      break;

    case RLX_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL:
      if (new_size == 1)
        {
          *a = 0;
          *d = 1;
          break;
        }
      G_GNUC_FALLTHROUGH;
    case RLX_RESIZE_COORDINATES_HALF_PIXEL:
    case RLX_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC:
      *a = 2 * size;
      *b = size - new_size;
      *d = 2 * new_size;
      break;

    case RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE:
    default:
      return FALSE;
    }

  /* Only align_corners does not depend on the scales. */
  if (node->inputs[RLX_RESIZE_SCALES] != NULL && rlx_resize_attrs (node)->coordinates != RLX_RESIZE_COORDINATES_ALIGN_CORNERS)
    return FALSE;

  largest = new_size * *a + ABS (*b) + 2 * *d;
  return largest <= G_MAXINT32;
}

/* One axis; all others of the result are those of the operand. */
typedef struct
{
  const RlxResizeAttrs *attrs;
  const RlxIrValue *x, *y;
  guint index;                /* index into the sizes */
  gint64 axis, size, new_size;
  gboolean antialias;         /* weights every element that the result covers, not just the neighbours */
} Problem;

static double
get_operations (const Problem *self)
{
  return 8.0 * (double) rlx_type_n_elements (&self->y->type) *
         (self->antialias ? 1.0 + 2.0 * (double) self->size / (double) self->new_size : 1.0);
}

static gboolean
lower_axis (RlxLower        *lower,
            const RlxIrNode *node,
            const Problem   *self,
            guint            lanes,
            GError         **error)
{
  const RlxResizeAttrs *attrs = self->attrs;
  const RlxIrValue *x = self->x, *y = self->y;
  gint64 size = self->size, new_size = self->new_size, a = 0, b = 0, d = 1;
  gint64 exact_a, exact_b, exact_d;
  gboolean exact = get_exact_place (node, size, new_size, &exact_a, &exact_b, &exact_d);
  gboolean crop = attrs->coordinates == RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
  gboolean raw = attrs->mode == RLX_INTERPOLATION_NEAREST && !crop;
  gboolean scales = (!exact || self->antialias) && !crop && node->inputs[RLX_RESIZE_SCALES] != NULL;
  guint64 n = rlx_type_n_elements (&y->type), groups = rlx_divide_up (n, WORKGROUP_SIZE / lanes);
  guint64 inner = 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "resize");

  for (guint i = (guint) self->axis + 1; i < x->type.n_dims; i++)
    inner *= x->type.shape[i];
  /* Inexact ones may not fit the parameters, and are not used. */
  if (exact)
    {
      a = exact_a;
      b = exact_b;
      d = exact_d;
    }

  if (raw)
    {
      rlx_kernel_input_raw (kernel, "x", x);
      rlx_kernel_output_raw (kernel, "y", y);
    }
  else
    {
      rlx_kernel_input (kernel, "x", x);
      rlx_kernel_output (kernel, "y", y);
    }
  if (scales)
    rlx_kernel_input (kernel, "scales", node->inputs[RLX_RESIZE_SCALES]);
  if (crop)
    rlx_kernel_input (kernel, "region", node->inputs[RLX_RESIZE_REGION]);

  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "MODE", attrs->mode);
  rlx_kernel_define (kernel, "COORDINATES", attrs->coordinates);
  rlx_kernel_define (kernel, "ROUNDING", attrs->rounding);
  rlx_kernel_define (kernel, "OUTSIDE", attrs->mode != RLX_INTERPOLATION_NEAREST && attrs->exclude_outside);
  rlx_kernel_define (kernel, "EXACT", exact);
  rlx_kernel_define (kernel, "ANTIALIAS", self->antialias);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "SCALES", scales);
  rlx_kernel_define (kernel, "AXIS", self->index);
  rlx_kernel_define (kernel, "AXES", attrs->sizes.n_values);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "size", size);
  rlx_kernel_param_u32 (kernel, "new_size", new_size);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_i32 (kernel, "a", a);
  rlx_kernel_param_i32 (kernel, "b", b);
  rlx_kernel_param_i32 (kernel, "d", d);
  rlx_kernel_param_f32 (kernel, "cubic_a", attrs->cubic_a);
  rlx_kernel_param_f32 (kernel, "extrapolation", attrs->extrapolation);
  rlx_kernel_set_cost (kernel, get_operations (self), 12.0 * (double) n);

  return rlx_kernel_dispatch (kernel, groups, error);
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " elements, %" G_GINT64_FORMAT " become %" G_GINT64_FORMAT "%s, %s",
                          rlx_type_n_elements (&self->y->type), self->size, self->new_size, self->antialias ? ", all count" : "",
                          rlx_data_type_to_string (self->x->type.data_type));
}

static double
resize_cost (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data)
{
  const Problem *self = data;
  double n = (double) rlx_type_n_elements (&self->y->type);
  double idle = MAX (1.0, (double) target->busy_invocations / (n * GPOINTER_TO_UINT (variant->data)));

  return idle * rlx_target_get_seconds (target, get_operations (self), 12.0 * n);
}

static RlxFit
shared_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *self = data;

  if (!self->antialias)
    return rlx_variant_cannot ("an element has too few neighbours to share", why);
  return self->size / 16 > self->new_size ? RLX_FIT_WELL : rlx_variant_poorly ("few elements become one", why);
}

static RlxFit
own_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const char *none;

  return shared_fits (variant, target, data, &none) == RLX_FIT_WELL ? rlx_variant_poorly ("many elements become one", why) : RLX_FIT_WELL;
}

static gboolean
axis_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  return lower_axis (lower, node, data, GPOINTER_TO_UINT (variant->data), error);
}

static const RlxVariant variants[] = {
  { "workgroup", shared_fits, resize_cost, NULL, axis_describe, GUINT_TO_POINTER (WORKGROUP_SIZE) },
  { "elements", own_fits, resize_cost, NULL, axis_describe, GUINT_TO_POINTER (1) },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 3, 64, 2048]")
    "%1 = resize(%0) {sizes = [64], axes = [3], mode = linear, antialias = true}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 3, 256, 256]")
    "%1 = resize(%0) {sizes = [512], axes = [3], mode = linear}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_resize_variants = {
  RLX_FAMILY_RESIZE, "resize", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_resize_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxResizeAttrs *attrs = rlx_resize_attrs (node);
  const RlxInts *sizes = &attrs->sizes;
  const RlxInts *axes = &attrs->axes;
  gint64 coordinates = attrs->coordinates;
  gboolean nearest = attrs->mode == RLX_INTERPOLATION_NEAREST;
  const RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  guint todo[RLX_MAX_DIMS], n = 0;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  for (guint i = 0; i < sizes->n_values; i++)
    {
      gint64 axis = get_resize_axis (axes, i, sizes->n_values, x->type.n_dims);
      gint64 a, b, d;

      /* An axis whose elements stay in place needs no step. */
      if (x->type.shape[axis] == sizes->values[i] && coordinates != RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN &&
          get_exact_place (node, x->type.shape[axis], sizes->values[i], &a, &b, &d))
        continue;
      todo[n++] = i;
    }
  if (n == 0)
    {
      rlx_lower_alias (lower, y, x);
      return TRUE;
    }

  for (guint i = 0; i < n; i++)
    {
      gint64 axis = get_resize_axis (axes, todo[i], sizes->n_values, x->type.n_dims);
      const RlxIrValue *next = y;
      Problem problem;

      if (i + 1 < n)
        {
          RlxTensorType type = x->type;

          /* only the last step rounds */
          type.data_type = nearest ? type.data_type : RLX_DATA_TYPE_F32;
          type.shape[axis] = sizes->values[todo[i]];
          if (!rlx_type_check (&type, error))
            return FALSE;
          next = rlx_lower_temporary (lower, &type);
        }
      problem = (Problem) {
        .attrs = attrs, .x = x, .y = next, .index = todo[i], .axis = axis,
        .size = x->type.shape[axis], .new_size = next->type.shape[axis],
      };
      problem.antialias = !nearest && attrs->antialias && (problem.new_size < problem.size || node->inputs[RLX_RESIZE_SCALES] != NULL);
      if (!rlx_lower_choose (lower, node, &rlx_resize_variants, &problem, error))
        return FALSE;
      x = next;
    }

  return TRUE;
}

/* Whether the result repeats each element along an axis, all of them equally often. */
static gboolean
repeats (const RlxResizeAttrs *attrs,
         gint64                size,
         gint64                new_size)
{
  if (size == 0 || new_size == 0 || new_size % size != 0)
    return FALSE;
  switch (attrs->coordinates)
    {
    case RLX_RESIZE_COORDINATES_ASYMMETRIC:
      return new_size == size || attrs->rounding == RLX_RESIZE_ROUNDING_FLOOR;

    /* The centre of an element of the result is less than half an element away from the centre of the one that
     * contains it. */
    case RLX_RESIZE_COORDINATES_HALF_PIXEL:
      return new_size == size || attrs->rounding == RLX_RESIZE_ROUNDING_ROUND_PREFER_FLOOR || attrs->rounding == RLX_RESIZE_ROUNDING_ROUND_PREFER_CEIL;

    default:
      return FALSE;
    }
}

/* All axes in a single copy, of a view that repeats elements. */
RlxIrValue *
rlx_resize_expand (RlxBuilder        *b,
                   const RlxIrNode   *node,
                   RlxIrValue *const *inputs)
{
  const RlxResizeAttrs *attrs = rlx_resize_attrs (node);
  const RlxTensorType *type = &node->inputs[0]->type, *to = &node->outputs[0].type;
  gint64 apart[2 * RLX_MAX_DIMS], repeated[2 * RLX_MAX_DIMS];
  guint n = 0;
  RlxIrValue *value;

  if (attrs->mode != RLX_INTERPOLATION_NEAREST || inputs[RLX_RESIZE_SCALES] != NULL || inputs[RLX_RESIZE_REGION] != NULL)
    return NULL;
  for (guint i = 0; i < type->n_dims; i++)
    {
      if (to->shape[i] != type->shape[i] && !repeats (attrs, type->shape[i], to->shape[i]))
        return NULL;
      apart[n] = repeated[n] = type->shape[i];
      n++;
      if (to->shape[i] == type->shape[i])
        continue;
      apart[n] = 1;
      repeated[n++] = to->shape[i] / type->shape[i];
    }
  for (guint i = 0; i < attrs->sizes.n_values; i++)
    {
      gint64 axis = get_resize_axis (&attrs->axes, i, attrs->sizes.n_values, type->n_dims);

      if (!repeats (attrs, type->shape[axis], to->shape[axis]))
        return NULL;
    }
  if (n > RLX_MAX_DIMS)
    return NULL;
  value = rlx_build_reshape (b, inputs[RLX_RESIZE_SELF], RLX_RESHAPE_ATTRS (.shape = RLX_INTS (apart, n)));
  value = rlx_build_expand (b, value, RLX_EXPAND_ATTRS (.shape = RLX_INTS (repeated, n)));
  return rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (to->shape, to->n_dims)));
}

/* ---- grid_sample ------------------------------------------------------------------- */

gboolean
rlx_grid_sample_infer (RlxOpCall                *call,
                       const RlxGridSampleAttrs *attrs,
                       GError                  **error)
{
  const RlxTensorType *x = call->inputs[0], *grid = call->inputs[1];
  RlxTensorType type = *x;

  if (x->n_dims != 4 && x->n_dims != 5)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions; it must have a batch, channels and 2 or 3 spatial axes", x->n_dims);
  if (grid->n_dims != x->n_dims || grid->shape[grid->n_dims - 1] != x->n_dims - 2 || grid->shape[0] != x->shape[0])
    {
      g_autofree char *a = rlx_type_to_string (x);
      g_autofree char *b = rlx_type_to_string (grid);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the grid %s does not fit the operand %s: it must have as many dimensions, the same batch and %u numbers for each place",
                             b, a, x->n_dims - 2);
    }
  if (x->n_dims == 5 && attrs->mode == RLX_INTERPOLATION_CUBIC)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_UNSUPPORTED, "cubic interpolation is for planes only");
  for (guint i = 2; i < x->n_dims; i++)
    {
      if (x->shape[i] == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "dimension %u is 0, there is nothing to sample", i);
      if (x->shape[i] > 1 << 24)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "dimension %u is %" G_GINT64_FORMAT "; the limit is %d", i, x->shape[i], 1 << 24);
      type.shape[i] = grid->shape[i - 1];
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_grid_sample_lower (RlxLower        *lower,
                       const RlxIrNode *node,
                       GError         **error)
{
  const RlxGridSampleAttrs *attrs = rlx_grid_sample_attrs (node);
  const RlxTensorType *x = &node->inputs[0]->type, *y = &node->outputs[0].type;
  guint64 n = rlx_type_n_elements (y);
  guint64 groups = (n + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
  guint64 places = 1;
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;
  for (guint i = 2; i < y->n_dims; i++)
    places *= y->shape[i];

  kernel = rlx_kernel_new (lower, node, "grid-sample");
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "grid", node->inputs[1]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "DIMS", x->n_dims - 2);
  rlx_kernel_define (kernel, "MODE", attrs->mode);
  rlx_kernel_define (kernel, "PADDING", attrs->padding);
  rlx_kernel_define (kernel, "ALIGN", attrs->align_corners);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "places", places);
  rlx_kernel_param_u32 (kernel, "channels", x->shape[1]);
  for (guint i = 0; i < x->n_dims - 2; i++)
    rlx_kernel_param_indexed (kernel, "size", i, x->shape[x->n_dims - 1 - i]);
  rlx_kernel_set_cost (kernel, 16.0 * n, 16.0 * n);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* ---- gradient ------------------------------------------------------------------------- */

/* Axes are independent of each other, and the results are weighted sums of the elements. Resizing the unit vectors
 * yields the weights; the transposed matrix maps gradients back. */
void
rlx_resize_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  RlxResizeAttrs attrs = *rlx_resize_attrs (node);
  const RlxInts sizes = attrs.sizes, axes = attrs.axes;
  const RlxTensorType *x = &node->inputs[0]->type;
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *scales = node->inputs[RLX_RESIZE_SCALES], *region = node->inputs[RLX_RESIZE_REGION];
  const gint64 second = 1;

  if (rlx_gradient_wants (self, node, RLX_RESIZE_SCALES) || rlx_gradient_wants (self, node, RLX_RESIZE_REGION))
    {
      rlx_gradient_refuse (self, node, "scales and regions have no gradient");
      return;
    }
  if (rlx_type_n_elements (x) == 0 || rlx_type_n_elements (&node->outputs[0].type) == 0)
    {
      rlx_gradient_add (self, node, 0, rlx_build_filled (b, x, 0.0));
      return;
    }

  attrs.extrapolation = 0;
  for (guint i = 0; i < sizes.n_values && g != NULL; i++)
    {
      guint axis = (guint) get_resize_axis (&axes, i, sizes.n_values, x->n_dims), last = x->n_dims - 1;
      gint64 n = x->shape[axis];
      RlxIrValue *weights = rlx_build_constant (b, rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (const float[]) { 0, 1 }, 2, NULL));
      RlxIrValue *scale = NULL, *part = NULL;

      weights = rlx_build_one_hot (b, rlx_build_iota (b, n), rlx_build_as (b, weights, g->type.data_type), RLX_ONE_HOT_ATTRS (.depth = n));
      if (scales != NULL)
        scale = rlx_build_part (b, rlx_build_shaped (b, scales, (gint64[]) { sizes.n_values }, 1), 0, i, i + 1);
      if (region != NULL)
        {
          gint64 two = 2;

          part = rlx_build_shaped (b, region, (gint64[]) { 2, sizes.n_values }, 2);
          part = rlx_build_shaped (b, rlx_build_part (b, part, 1, i, i + 1), &two, 1);
        }
      attrs.sizes = RLX_INTS (&sizes.values[i], 1);
      attrs.axes = RLX_INTS (&second, 1);
      weights = rlx_build_resize (b, weights, scale, part, &attrs);
      g = rlx_build_matmul (b, rlx_build_swapped (b, g, axis, last), weights, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
      g = rlx_build_swapped (b, g, axis, last);
    }
  rlx_gradient_add (self, node, 0, g);
}
