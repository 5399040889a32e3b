/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <gio/gio.h>
#include <rlx-wgpu/rlx-version-macros.h>

G_BEGIN_DECLS

typedef struct _RlxAdapter RlxAdapter;
typedef struct _RlxCalibration RlxCalibration;
typedef struct _RlxCompileOptions RlxCompileOptions;
typedef struct _RlxDevice RlxDevice;
typedef struct _RlxExecutable RlxExecutable;
typedef struct _RlxGraph RlxGraph;
typedef struct _RlxNode RlxNode;
typedef struct _RlxPort RlxPort;
typedef struct _RlxPortList RlxPortList;
typedef struct _RlxProfile RlxProfile;
typedef struct _RlxProfileStep RlxProfileStep;
typedef struct _RlxTensor RlxTensor;
typedef struct _RlxWeights RlxWeights;
typedef struct _RlxWeightsEntry RlxWeightsEntry;

/**
 * RLX_MAX_DIMS:
 *
 * The largest number of dimensions a tensor can have.
 *
 * Since: 1.0
 */
#define RLX_MAX_DIMS 8

/**
 * RLX_INT_ARRAY:
 * @...: integers
 *
 * An array of integers and its length: the two arguments that a shape or a list of axes takes in C,
 * as in `rlx_node_reshape (x, RLX_INT_ARRAY (2, 3), &error)`.
 *
 * Since: 1.0
 */
#define RLX_INT_ARRAY(...) ((const gint64[]) { __VA_ARGS__ }), (sizeof ((const gint64[]) { __VA_ARGS__ }) / sizeof (gint64))

/**
 * RLX_FLOAT_ARRAY:
 * @...: numbers
 *
 * An array of floats and its length: the two arguments that values take in C, as in
 * `rlx_tensor_new_from_floats (RLX_INT_ARRAY (2), RLX_FLOAT_ARRAY (1, 2), &error)`.
 *
 * Since: 1.0
 */
#define RLX_FLOAT_ARRAY(...) ((const float[]) { __VA_ARGS__ }), (sizeof ((const float[]) { __VA_ARGS__ }) / sizeof (float))

/**
 * RlxDataType:
 * @RLX_DATA_TYPE_F32: 32-bit IEEE float
 * @RLX_DATA_TYPE_F16: 16-bit IEEE float; a storage type, arithmetic is done in 32 bits
 * @RLX_DATA_TYPE_I32: 32-bit signed integer
 * @RLX_DATA_TYPE_U32: 32-bit unsigned integer
 * @RLX_DATA_TYPE_I8: 8-bit signed integer
 * @RLX_DATA_TYPE_U8: 8-bit unsigned integer
 * @RLX_DATA_TYPE_BOOL: one byte, 0 or 1
 * @RLX_DATA_TYPE_I64: 64-bit signed integer; 32 bits wide on the device: uploading a value that
 *   does not fit is an error, and results wrap
 * @RLX_DATA_TYPE_U64: 64-bit unsigned integer; 32 bits wide on the device: uploading a value that
 *   does not fit is an error, and results wrap
 * @RLX_DATA_TYPE_I4: 4-bit signed integer, two to a byte, the first in its lower half
 * @RLX_DATA_TYPE_U4: 4-bit unsigned integer, two to a byte, the first in its lower half
 * @RLX_DATA_TYPE_I16: 16-bit signed integer
 * @RLX_DATA_TYPE_U16: 16-bit unsigned integer
 * @RLX_DATA_TYPE_BF16: 16-bit float with the exponent of `f32` (bfloat16)
 * @RLX_DATA_TYPE_F8E4M3FN: 8-bit float, 4 bits of exponent and 3 of fraction, without infinities
 * @RLX_DATA_TYPE_F8E4M3FNUZ: the same with another bias, and with one NaN in place of -0
 * @RLX_DATA_TYPE_F8E5M2: 8-bit float, 5 bits of exponent and 2 of fraction
 * @RLX_DATA_TYPE_F8E5M2FNUZ: the same with another bias, without infinities, and with one NaN in place of -0
 * @RLX_DATA_TYPE_F8E8M0: 8 bits of exponent: the powers of two from 2⁻¹²⁷ to 2¹²⁷, and NaN
 * @RLX_DATA_TYPE_F4E2M1: 4-bit float, 2 bits of exponent and 1 of fraction, without infinities and NaN, two to a byte
 * @RLX_DATA_TYPE_I2: 2-bit signed integer, four to a byte, the first in its lowest bits
 * @RLX_DATA_TYPE_U2: 2-bit unsigned integer, four to a byte, the first in its lowest bits
 *
 * The type of a tensor's elements. Those from @RLX_DATA_TYPE_I4 on can be moved and converted, but
 * there is no arithmetic on them.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_DATA_TYPE_F32,
  RLX_DATA_TYPE_F16,
  RLX_DATA_TYPE_I32,
  RLX_DATA_TYPE_U32,
  RLX_DATA_TYPE_I8,
  RLX_DATA_TYPE_U8,
  RLX_DATA_TYPE_BOOL,
  RLX_DATA_TYPE_I64,
  RLX_DATA_TYPE_U64,
  RLX_DATA_TYPE_I4,
  RLX_DATA_TYPE_U4,
  RLX_DATA_TYPE_I16,
  RLX_DATA_TYPE_U16,
  RLX_DATA_TYPE_BF16,
  RLX_DATA_TYPE_F8E4M3FN,
  RLX_DATA_TYPE_F8E4M3FNUZ,
  RLX_DATA_TYPE_F8E5M2,
  RLX_DATA_TYPE_F8E5M2FNUZ,
  RLX_DATA_TYPE_F8E8M0,
  RLX_DATA_TYPE_F4E2M1,
  RLX_DATA_TYPE_I2,
  RLX_DATA_TYPE_U2,
} RlxDataType;

/**
 * RlxAdapterType:
 * @RLX_ADAPTER_TYPE_UNKNOWN: the driver does not say
 * @RLX_ADAPTER_TYPE_DISCRETE: a GPU with memory of its own
 * @RLX_ADAPTER_TYPE_INTEGRATED: a GPU that shares the system's memory
 * @RLX_ADAPTER_TYPE_CPU: a driver that computes on the CPU
 *
 * The kind of hardware behind an adapter.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_ADAPTER_TYPE_UNKNOWN,
  RLX_ADAPTER_TYPE_DISCRETE,
  RLX_ADAPTER_TYPE_INTEGRATED,
  RLX_ADAPTER_TYPE_CPU,
} RlxAdapterType;

/**
 * RlxDeviceFeatures:
 * @RLX_DEVICE_FEATURES_NONE: none
 * @RLX_DEVICE_FEATURES_F16: 16-bit floats are loaded and stored natively
 * @RLX_DEVICE_FEATURES_SUBGROUPS: subgroup operations
 * @RLX_DEVICE_FEATURES_SUBGROUP_MATRIX: cooperative matrices
 * @RLX_DEVICE_FEATURES_TIMESTAMPS: the GPU's own clock, for profiles
 * @RLX_DEVICE_FEATURES_MAPPED_STORAGE: kernels can access the program's memory
 * @RLX_DEVICE_FEATURES_PACKED_DOT: products of four 8-bit integers at a time
 *
 * Optional abilities of an adapter or device.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  RLX_DEVICE_FEATURES_NONE            = 0,
  RLX_DEVICE_FEATURES_F16             = 1 << 0,
  RLX_DEVICE_FEATURES_SUBGROUPS       = 1 << 1,
  RLX_DEVICE_FEATURES_SUBGROUP_MATRIX = 1 << 2,
  RLX_DEVICE_FEATURES_TIMESTAMPS      = 1 << 3,
  RLX_DEVICE_FEATURES_MAPPED_STORAGE  = 1 << 4,
  RLX_DEVICE_FEATURES_PACKED_DOT      = 1 << 5,
} RlxDeviceFeatures;

/**
 * RlxPadMode:
 * @RLX_PAD_MODE_CONSTANT: a given value, 0 by default
 * @RLX_PAD_MODE_EDGE: the element at the edge
 * @RLX_PAD_MODE_REFLECT: mirrored at the edge element, which is not repeated
 * @RLX_PAD_MODE_SYMMETRIC: mirrored beyond the edge element, which is repeated
 * @RLX_PAD_MODE_WRAP: the elements from the opposite end
 *
 * Which values lie beyond the edges of a tensor.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_PAD_MODE_CONSTANT,
  RLX_PAD_MODE_EDGE,
  RLX_PAD_MODE_REFLECT,
  RLX_PAD_MODE_SYMMETRIC,
  RLX_PAD_MODE_WRAP,
} RlxPadMode;

/**
 * RlxScatterMode:
 * @RLX_SCATTER_MODE_REPLACE: the last update
 * @RLX_SCATTER_MODE_ADD: the sum of the element and all updates
 * @RLX_SCATTER_MODE_MUL: their product
 * @RLX_SCATTER_MODE_MAX: the largest of them
 * @RLX_SCATTER_MODE_MIN: the smallest of them
 *
 * How an element is combined with its updates.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_SCATTER_MODE_REPLACE,
  RLX_SCATTER_MODE_ADD,
  RLX_SCATTER_MODE_MUL,
  RLX_SCATTER_MODE_MAX,
  RLX_SCATTER_MODE_MIN,
} RlxScatterMode;

/**
 * RlxFourierNorm:
 * @RLX_FOURIER_NORM_BACKWARD: the forward transform is not scaled, the inverse one by 1 / n
 * @RLX_FOURIER_NORM_FORWARD: the forward transform is scaled by 1 / n, the inverse one is not
 * @RLX_FOURIER_NORM_ORTHO: both are scaled by 1 / √n
 *
 * Which of the forward and inverse Fourier transforms is scaled, so that each undoes the other.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_FOURIER_NORM_BACKWARD,
  RLX_FOURIER_NORM_FORWARD,
  RLX_FOURIER_NORM_ORTHO,
} RlxFourierNorm;

/**
 * RlxWindowShape:
 * @RLX_WINDOW_SHAPE_HANN: ½ - ½ cos(2πi / m)
 * @RLX_WINDOW_SHAPE_HAMMING: 0.54 - 0.46 cos(2πi / m)
 * @RLX_WINDOW_SHAPE_BLACKMAN: 0.42 - ½ cos(2πi / m) + 0.08 cos(4πi / m)
 * @RLX_WINDOW_SHAPE_KAISER: I₀(β √(1 - (2i / m - 1)²)) / I₀(β), where I₀ is a modified Bessel function
 *
 * The window that the frames of a signal are multiplied by before they are transformed. Elements i
 * are counted from 0; m is the number of elements of a periodic window, and one less for a
 * symmetric one.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_WINDOW_SHAPE_HANN,
  RLX_WINDOW_SHAPE_HAMMING,
  RLX_WINDOW_SHAPE_BLACKMAN,
  RLX_WINDOW_SHAPE_KAISER,
} RlxWindowShape;

/**
 * RlxMelScale:
 * @RLX_MEL_SCALE_SLANEY: linear up to 1000 Hz, logarithmic above
 * @RLX_MEL_SCALE_HTK: 2595 log₁₀(1 + f / 700)
 *
 * How frequencies are mapped to a scale of perceived pitch.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_MEL_SCALE_SLANEY,
  RLX_MEL_SCALE_HTK,
} RlxMelScale;

/**
 * RlxConvolution:
 * @RLX_CONVOLUTION_FULL: everything that is not zero: signal + filter - 1 elements
 * @RLX_CONVOLUTION_SAME: the middle, as long as the signal
 * @RLX_CONVOLUTION_VALID: where the filter lies within the signal, or the signal within the filter
 * @RLX_CONVOLUTION_CAUSAL: the start, as long as the signal
 *
 * Which part of a convolution to compute.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_CONVOLUTION_FULL,
  RLX_CONVOLUTION_SAME,
  RLX_CONVOLUTION_VALID,
  RLX_CONVOLUTION_CAUSAL,
} RlxConvolution;

/**
 * RlxGateScoring:
 * @RLX_GATE_SCORING_SOFTMAX: the scores of all experts add up to 1
 * @RLX_GATE_SCORING_SIGMOID: each expert has a score between 0 and 1 of its own
 *
 * How the logits of a mixture of experts become scores.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_GATE_SCORING_SOFTMAX,
  RLX_GATE_SCORING_SIGMOID,
} RlxGateScoring;

/**
 * RlxDistance:
 * @RLX_DISTANCE_EUCLIDEAN: √Σ (x - y)²
 * @RLX_DISTANCE_SQUARED: Σ (x - y)²
 * @RLX_DISTANCE_COSINE: 1 - Σ x y / √(Σ x² Σ y²), 1 where a point is 0
 * @RLX_DISTANCE_INNER_PRODUCT: -Σ x y, so a larger product is nearer
 *
 * How to measure the distance between points.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_DISTANCE_EUCLIDEAN,
  RLX_DISTANCE_SQUARED,
  RLX_DISTANCE_COSINE,
  RLX_DISTANCE_INNER_PRODUCT,
} RlxDistance;

/**
 * RlxComplexLayout:
 * @RLX_COMPLEX_LAYOUT_PAIRS: the last dimension is 2: the real and imaginary part of each number
 * @RLX_COMPLEX_LAYOUT_PLANAR: the first dimension is 2: all real parts, then all imaginary parts
 *
 * How complex numbers are stored in a tensor.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_COMPLEX_LAYOUT_PAIRS,
  RLX_COMPLEX_LAYOUT_PLANAR,
} RlxComplexLayout;

/**
 * RlxInterpolation:
 * @RLX_INTERPOLATION_NEAREST: the nearest element
 * @RLX_INTERPOLATION_LINEAR: between the two neighbours along each axis
 * @RLX_INTERPOLATION_CUBIC: cubic convolution over four neighbours along each axis
 *
 * How values between the elements of a tensor are interpolated.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_INTERPOLATION_NEAREST,
  RLX_INTERPOLATION_LINEAR,
  RLX_INTERPOLATION_CUBIC,
} RlxInterpolation;

/**
 * RlxResizeCoordinates:
 * @RLX_RESIZE_COORDINATES_HALF_PIXEL: at (i + ½) / scale - ½
 * @RLX_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC: the same, centred on the operand where the scale does not
 *   give a whole number of elements
 * @RLX_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL: as half pixel, but 0 for a single element
 * @RLX_RESIZE_COORDINATES_ALIGN_CORNERS: at i · (size before - 1) / (size after - 1)
 * @RLX_RESIZE_COORDINATES_ASYMMETRIC: at i / scale
 * @RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN: at (i + ½) / scale
 * @RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE: evenly from the start to the end of a region, both given as
 *   fractions of (size before - 1); elements outside the operand get a given value
 *
 * Where element i of a resized axis is in the operand.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_RESIZE_COORDINATES_HALF_PIXEL,
  RLX_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC,
  RLX_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL,
  RLX_RESIZE_COORDINATES_ALIGN_CORNERS,
  RLX_RESIZE_COORDINATES_ASYMMETRIC,
  RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN,
  RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE,
} RlxResizeCoordinates;

/**
 * RlxResizeRounding:
 * @RLX_RESIZE_ROUNDING_ROUND_PREFER_FLOOR: to the nearest, halves down
 * @RLX_RESIZE_ROUNDING_ROUND_PREFER_CEIL: to the nearest, halves up
 * @RLX_RESIZE_ROUNDING_FLOOR: down
 * @RLX_RESIZE_ROUNDING_CEIL: up
 *
 * Which element counts as the nearest.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_RESIZE_ROUNDING_ROUND_PREFER_FLOOR,
  RLX_RESIZE_ROUNDING_ROUND_PREFER_CEIL,
  RLX_RESIZE_ROUNDING_FLOOR,
  RLX_RESIZE_ROUNDING_CEIL,
} RlxResizeRounding;

/**
 * RlxGridPadding:
 * @RLX_GRID_PADDING_ZEROS: 0
 * @RLX_GRID_PADDING_BORDER: the element at the edge
 * @RLX_GRID_PADDING_REFLECTION: mirrored at the edges, as often as necessary
 *
 * What lies beyond the edges of an image that is sampled.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_GRID_PADDING_ZEROS,
  RLX_GRID_PADDING_BORDER,
  RLX_GRID_PADDING_REFLECTION,
} RlxGridPadding;

/**
 * RlxLayout:
 * @RLX_LAYOUT_CHANNELS_FIRST: batch, channels, spatial axes (NCHW)
 * @RLX_LAYOUT_CHANNELS_LAST: batch, spatial axes, channels (NHWC)
 *
 * Where the channels of an image, a signal or a volume are.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_LAYOUT_CHANNELS_FIRST, /*< nick=channels-first >*/
  RLX_LAYOUT_CHANNELS_LAST,  /*< nick=channels-last >*/
} RlxLayout;

/**
 * RlxFilterLayout:
 * @RLX_FILTER_LAYOUT_OIS: output channels, input channels, spatial axes (OIHW)
 * @RLX_FILTER_LAYOUT_IOS: input channels, output channels, spatial axes (IOHW)
 * @RLX_FILTER_LAYOUT_OSI: output channels, spatial axes, input channels (OHWI)
 * @RLX_FILTER_LAYOUT_ISO: input channels, spatial axes, output channels (IHWO)
 * @RLX_FILTER_LAYOUT_SIO: spatial axes, input channels, output channels (HWIO)
 * @RLX_FILTER_LAYOUT_SOI: spatial axes, output channels, input channels (HWOI)
 *
 * The order of a filter's dimensions.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_FILTER_LAYOUT_OIS,
  RLX_FILTER_LAYOUT_IOS,
  RLX_FILTER_LAYOUT_OSI,
  RLX_FILTER_LAYOUT_ISO,
  RLX_FILTER_LAYOUT_SIO,
  RLX_FILTER_LAYOUT_SOI,
} RlxFilterLayout;

/**
 * RlxRecurrentDirection:
 * @RLX_RECURRENT_DIRECTION_FORWARD: from the first step to the last
 * @RLX_RECURRENT_DIRECTION_BACKWARD: from the last step to the first
 * @RLX_RECURRENT_DIRECTION_BOTH: both, each with its own weights
 *
 * The order in which a recurrent network processes the steps of a sequence.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_RECURRENT_DIRECTION_FORWARD,
  RLX_RECURRENT_DIRECTION_BACKWARD,
  RLX_RECURRENT_DIRECTION_BOTH,
} RlxRecurrentDirection;

/**
 * RlxRecurrentActivation:
 * @RLX_RECURRENT_ACTIVATION_SIGMOID: 1 / (1 + e⁻ˣ)
 * @RLX_RECURRENT_ACTIVATION_TANH: tanh x
 * @RLX_RECURRENT_ACTIVATION_RELU: max(0, x)
 * @RLX_RECURRENT_ACTIVATION_LEAKY_RELU: x, or alpha · x for x < 0
 * @RLX_RECURRENT_ACTIVATION_THRESHOLDED_RELU: x for x > alpha, otherwise 0
 * @RLX_RECURRENT_ACTIVATION_HARD_SIGMOID: alpha · x + beta, clamped to the range from 0 to 1
 * @RLX_RECURRENT_ACTIVATION_ELU: x, or alpha · (eˣ - 1) for x < 0
 * @RLX_RECURRENT_ACTIVATION_SOFTSIGN: x / (1 + |x|)
 * @RLX_RECURRENT_ACTIVATION_SOFTPLUS: ln(1 + eˣ)
 * @RLX_RECURRENT_ACTIVATION_AFFINE: alpha · x + beta
 * @RLX_RECURRENT_ACTIVATION_SCALED_TANH: alpha · tanh(beta · x)
 *
 * A function of one number in a recurrent network. Alpha and beta are
 * attributes of the operator.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_RECURRENT_ACTIVATION_SIGMOID,
  RLX_RECURRENT_ACTIVATION_TANH,
  RLX_RECURRENT_ACTIVATION_RELU,
  RLX_RECURRENT_ACTIVATION_LEAKY_RELU,       /*< nick=leaky-relu >*/
  RLX_RECURRENT_ACTIVATION_THRESHOLDED_RELU, /*< nick=thresholded-relu >*/
  RLX_RECURRENT_ACTIVATION_HARD_SIGMOID,     /*< nick=hard-sigmoid >*/
  RLX_RECURRENT_ACTIVATION_ELU,
  RLX_RECURRENT_ACTIVATION_SOFTSIGN,
  RLX_RECURRENT_ACTIVATION_SOFTPLUS,
  RLX_RECURRENT_ACTIVATION_AFFINE,
  RLX_RECURRENT_ACTIVATION_SCALED_TANH,      /*< nick=scaled-tanh >*/
} RlxRecurrentActivation;

/**
 * RlxLstmGates:
 * @RLX_LSTM_GATES_IOFG: input, output, forget, cell (WebNN's default, ONNX)
 * @RLX_LSTM_GATES_IFGO: input, forget, cell, output (PyTorch)
 *
 * The order of the gates of a long short-term memory (LSTM).
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_LSTM_GATES_IOFG,
  RLX_LSTM_GATES_IFGO,
} RlxLstmGates;

/**
 * RlxGruGates:
 * @RLX_GRU_GATES_ZRN: update, reset, new (WebNN's default, ONNX)
 * @RLX_GRU_GATES_RZN: reset, update, new (PyTorch)
 *
 * The order of the gates of a gated recurrent unit (GRU).
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_GRU_GATES_ZRN,
  RLX_GRU_GATES_RZN,
} RlxGruGates;

/**
 * RlxReduction:
 * @RLX_REDUCTION_NONE: the loss of each element
 * @RLX_REDUCTION_MEAN: their mean
 * @RLX_REDUCTION_SUM: their sum
 *
 * How the losses of single elements are reduced.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_REDUCTION_NONE,
  RLX_REDUCTION_MEAN,
  RLX_REDUCTION_SUM,
} RlxReduction;

/**
 * RlxOptimizer:
 * @RLX_OPTIMIZER_SGD: along the gradient, optionally with momentum
 * @RLX_OPTIMIZER_ADAM: along the mean of the gradients, divided by the root of their mean square
 * @RLX_OPTIMIZER_ADAMW: the same, with decoupled weight decay
 * @RLX_OPTIMIZER_LION: along the sign of the mean of the gradients
 * @RLX_OPTIMIZER_ADAFACTOR: as Adam without momentum, with mean squares kept for rows and columns
 *   only
 *
 * How an optimiser updates parameters from the gradients of a loss.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_OPTIMIZER_SGD,
  RLX_OPTIMIZER_ADAM,
  RLX_OPTIMIZER_ADAMW,
  RLX_OPTIMIZER_LION,
  RLX_OPTIMIZER_ADAFACTOR,
} RlxOptimizer;

/**
 * RlxHeadLayout:
 * @RLX_HEAD_LAYOUT_HEADS_FIRST: batch, heads, sequence, width
 * @RLX_HEAD_LAYOUT_SEQUENCE_FIRST: batch, sequence, heads, width: the result of a projection whose
 *   columns are split into heads
 *
 * The position of the heads in queries, keys and values.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_HEAD_LAYOUT_HEADS_FIRST,    /*< nick=heads-first >*/
  RLX_HEAD_LAYOUT_SEQUENCE_FIRST, /*< nick=sequence-first >*/
} RlxHeadLayout;

/**
 * RlxPrecision:
 * @RLX_PRECISION_DEFAULT: the graph's own, which is full unless its text form asks for another
 * @RLX_PRECISION_FULL: the error bounds that the operators state
 * @RLX_PRECISION_REDUCED: products with weights may round their operands to f16, unless the weights
 *   would suffer
 * @RLX_PRECISION_INTEGER: the same, and products with packed weights may round the other operand to
 *   8-bit integers with a scale for every 32
 *
 * How exact a graph's matrix products are.
 *
 * A device with matrix units (%RLX_DEVICE_FEATURES_SUBGROUP_MATRIX) is several times as fast with
 * %RLX_PRECISION_REDUCED; on others it changes nothing. Sums are still computed in f32. The error
 * of each element may exceed the operator's bound by at most 2⁻¹⁰ times the sum of the absolute
 * products. Weights are checked whenever they are set: those that f16 cannot hold, or whose
 * products rely on cancellation (differences, Fourier matrices), keep full precision. Activations
 * are not checked: one beyond 65504 becomes infinite.
 *
 * %RLX_PRECISION_INTEGER is for packed weights on devices that have no matrix units but can
 * multiply four pairs of bytes at a time (%RLX_DEVICE_FEATURES_PACKED_DOT): products with many rows
 * are then two to four times as fast. Each activation is off by up to 1/253 of the largest among
 * the 32 that share its scale. The weights do not change. Sums are exact within such a block and in
 * f32 across blocks.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_PRECISION_DEFAULT,
  RLX_PRECISION_FULL,
  RLX_PRECISION_REDUCED,
  RLX_PRECISION_INTEGER,
} RlxPrecision;

/**
 * RlxPackedType:
 * @RLX_PACKED_TYPE_Q4_0: 32 4-bit numbers and a scale, 18 bytes
 * @RLX_PACKED_TYPE_Q4_1: 32 4-bit numbers, a scale and an offset, 20 bytes
 * @RLX_PACKED_TYPE_Q5_0: 32 5-bit numbers and a scale, 22 bytes
 * @RLX_PACKED_TYPE_Q5_1: 32 5-bit numbers, a scale and an offset, 24 bytes
 * @RLX_PACKED_TYPE_Q8_0: 32 8-bit numbers and a scale, 34 bytes
 * @RLX_PACKED_TYPE_Q2_K: 256 2-bit numbers, 84 bytes
 * @RLX_PACKED_TYPE_Q3_K: 256 3-bit numbers, 110 bytes
 * @RLX_PACKED_TYPE_Q4_K: 256 4-bit numbers, 144 bytes
 * @RLX_PACKED_TYPE_Q5_K: 256 5-bit numbers, 176 bytes
 * @RLX_PACKED_TYPE_Q6_K: 256 6-bit numbers, 210 bytes
 * @RLX_PACKED_TYPE_Q8_K: 256 8-bit numbers, 292 bytes
 * @RLX_PACKED_TYPE_IQ2_XXS: 256 numbers from a grid, 66 bytes
 * @RLX_PACKED_TYPE_IQ2_XS: 256 numbers from a grid, 74 bytes
 * @RLX_PACKED_TYPE_IQ3_XXS: 256 numbers from a grid, 98 bytes
 * @RLX_PACKED_TYPE_IQ1_S: 256 ternary numbers from a grid, 50 bytes
 * @RLX_PACKED_TYPE_IQ4_NL: 32 numbers from 16 levels, 18 bytes
 * @RLX_PACKED_TYPE_IQ3_S: 256 numbers from a grid, 110 bytes
 * @RLX_PACKED_TYPE_IQ2_S: 256 numbers from a grid, 82 bytes
 * @RLX_PACKED_TYPE_IQ4_XS: 256 numbers from 16 levels, 136 bytes
 * @RLX_PACKED_TYPE_IQ1_M: 256 ternary numbers from a grid, 56 bytes
 * @RLX_PACKED_TYPE_BF16: 16-bit floats with 8 bits of exponent
 * @RLX_PACKED_TYPE_TQ1_0: 256 ternary numbers, 54 bytes
 * @RLX_PACKED_TYPE_TQ2_0: 256 ternary numbers, 66 bytes
 * @RLX_PACKED_TYPE_MXFP4: 32 4-bit floats, 17 bytes
 * @RLX_PACKED_TYPE_NVFP4: 64 4-bit floats, 36 bytes
 * @RLX_PACKED_TYPE_Q1_0: 128 1-bit numbers and a scale, 18 bytes
 * @RLX_PACKED_TYPE_Q2_0: 64 2-bit numbers and a scale, 18 bytes
 * @RLX_PACKED_TYPE_INT2: 2-bit integers, the first in the lowest bits of a byte; scales are separate
 * @RLX_PACKED_TYPE_INT4: 4-bit integers, the first in the lowest bits of a byte; scales are separate
 * @RLX_PACKED_TYPE_INT8: 8-bit integers; scales are separate
 * @RLX_PACKED_TYPE_F8_E4M3: 8-bit floats, 4 bits of them exponent, without infinities; scales are
 *   separate
 * @RLX_PACKED_TYPE_F8_E5M2: 8-bit floats, 5 bits of them exponent; scales are separate
 *
 * How numbers are packed into bytes, mostly in blocks with a scale each.
 *
 * Values below 1000 are the tensor types of GGUF files, with the same numbers.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_PACKED_TYPE_Q4_0 = 2,
  RLX_PACKED_TYPE_Q4_1 = 3,
  RLX_PACKED_TYPE_Q5_0 = 6,
  RLX_PACKED_TYPE_Q5_1 = 7,
  RLX_PACKED_TYPE_Q8_0 = 8,
  RLX_PACKED_TYPE_Q2_K = 10,
  RLX_PACKED_TYPE_Q3_K = 11,
  RLX_PACKED_TYPE_Q4_K = 12,
  RLX_PACKED_TYPE_Q5_K = 13,
  RLX_PACKED_TYPE_Q6_K = 14,
  RLX_PACKED_TYPE_Q8_K = 15,
  RLX_PACKED_TYPE_IQ2_XXS = 16,
  RLX_PACKED_TYPE_IQ2_XS = 17,
  RLX_PACKED_TYPE_IQ3_XXS = 18,
  RLX_PACKED_TYPE_IQ1_S = 19,
  RLX_PACKED_TYPE_IQ4_NL = 20,
  RLX_PACKED_TYPE_IQ3_S = 21,
  RLX_PACKED_TYPE_IQ2_S = 22,
  RLX_PACKED_TYPE_IQ4_XS = 23,
  RLX_PACKED_TYPE_IQ1_M = 29,
  RLX_PACKED_TYPE_BF16 = 30,
  RLX_PACKED_TYPE_TQ1_0 = 34,
  RLX_PACKED_TYPE_TQ2_0 = 35,
  RLX_PACKED_TYPE_MXFP4 = 39,
  RLX_PACKED_TYPE_NVFP4 = 40,
  RLX_PACKED_TYPE_Q1_0 = 41,
  RLX_PACKED_TYPE_Q2_0 = 42,
  RLX_PACKED_TYPE_INT2 = 1002,
  RLX_PACKED_TYPE_INT4 = 1004,
  RLX_PACKED_TYPE_INT8 = 1008,
  RLX_PACKED_TYPE_F8_E4M3 = 1108,
  RLX_PACKED_TYPE_F8_E5M2 = 1208,
} RlxPackedType;

/**
 * RlxWeightsFormat:
 * @RLX_WEIGHTS_FORMAT_SAFETENSORS: a safetensors file, or several with an index
 * @RLX_WEIGHTS_FORMAT_GGUF: a GGUF file
 * @RLX_WEIGHTS_FORMAT_NPZ: an `.npz` file, NumPy's archive of arrays
 * @RLX_WEIGHTS_FORMAT_NPY: an `.npy` file, NumPy's format for one array
 *
 * The format of a file of weights.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_WEIGHTS_FORMAT_SAFETENSORS,
  RLX_WEIGHTS_FORMAT_GGUF,
  RLX_WEIGHTS_FORMAT_NPZ,
  RLX_WEIGHTS_FORMAT_NPY,
} RlxWeightsFormat;

/**
 * RLX_DEVICE_ERROR:
 *
 * Error domain for finding, opening and using a device.
 *
 * Since: 1.0
 */
#define RLX_DEVICE_ERROR (rlx_device_error_quark ())

/**
 * RlxDeviceError:
 * @RLX_DEVICE_ERROR_FAILED: something else went wrong
 * @RLX_DEVICE_ERROR_NO_ADAPTER: no usable GPU driver was found
 * @RLX_DEVICE_ERROR_NOT_FOUND: no adapter matches the selector
 * @RLX_DEVICE_ERROR_LOST: the device was lost
 * @RLX_DEVICE_ERROR_OUT_OF_MEMORY: the device's memory or the memory limit is exhausted
 * @RLX_DEVICE_ERROR_TIMEOUT: the device did not answer in time
 * @RLX_DEVICE_ERROR_UNSUPPORTED: the device lacks something that is required
 * @RLX_DEVICE_ERROR_INTERNAL: a bug in the driver or in this library
 *
 * Errors of finding, opening and using a device.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_DEVICE_ERROR_FAILED,
  RLX_DEVICE_ERROR_NO_ADAPTER,
  RLX_DEVICE_ERROR_NOT_FOUND,
  RLX_DEVICE_ERROR_LOST,
  RLX_DEVICE_ERROR_OUT_OF_MEMORY,
  RLX_DEVICE_ERROR_TIMEOUT,
  RLX_DEVICE_ERROR_UNSUPPORTED,
  RLX_DEVICE_ERROR_INTERNAL,
} RlxDeviceError;

/**
 * RLX_GRAPH_ERROR:
 *
 * Error domain for tensors, building graphs and calling executables.
 *
 * Since: 1.0
 */
#define RLX_GRAPH_ERROR (rlx_graph_error_quark ())

/**
 * RlxGraphError:
 * @RLX_GRAPH_ERROR_INVALID_ARGUMENT: an argument or attribute has an invalid value
 * @RLX_GRAPH_ERROR_SHAPE: shapes do not fit together
 * @RLX_GRAPH_ERROR_DATA_TYPE: data types do not fit together
 * @RLX_GRAPH_ERROR_LIMIT: a size is larger than the library can address
 * @RLX_GRAPH_ERROR_NOT_FOUND: there is no operator, attribute, input or output with that name
 * @RLX_GRAPH_ERROR_UNSUPPORTED: valid, but not supported by this library
 * @RLX_GRAPH_ERROR_PARSE: the text is not a graph
 * @RLX_GRAPH_ERROR_OUT_OF_RANGE: a checked run came across an index that is out of range, or an integer that does not
 *   fit its type
 *
 * Errors of tensors, of building graphs and of calling executables.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_GRAPH_ERROR_INVALID_ARGUMENT,
  RLX_GRAPH_ERROR_SHAPE,
  RLX_GRAPH_ERROR_DATA_TYPE,
  RLX_GRAPH_ERROR_LIMIT,
  RLX_GRAPH_ERROR_NOT_FOUND,
  RLX_GRAPH_ERROR_UNSUPPORTED,
  RLX_GRAPH_ERROR_PARSE,
  RLX_GRAPH_ERROR_OUT_OF_RANGE,
} RlxGraphError;

/**
 * RLX_COMPILE_ERROR:
 *
 * Error domain for compiling a graph.
 *
 * Since: 1.0
 */
#define RLX_COMPILE_ERROR (rlx_compile_error_quark ())

/**
 * RlxCompileError:
 * @RLX_COMPILE_ERROR_UNSUPPORTED: no kernel for this device can compute a node
 * @RLX_COMPILE_ERROR_LIMIT: a node exceeds a limit of the device
 * @RLX_COMPILE_ERROR_INVALID_GRAPH: the graph cannot be compiled, for example because it has no output
 * @RLX_COMPILE_ERROR_INTERNAL: the driver rejected a kernel, which is a bug
 *
 * Errors of compiling a graph.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_COMPILE_ERROR_UNSUPPORTED,
  RLX_COMPILE_ERROR_LIMIT,
  RLX_COMPILE_ERROR_INVALID_GRAPH,
  RLX_COMPILE_ERROR_INTERNAL,
} RlxCompileError;

/**
 * RLX_WEIGHTS_ERROR:
 *
 * Error domain for reading and writing tensor files.
 *
 * Since: 1.0
 */
#define RLX_WEIGHTS_ERROR (rlx_weights_error_quark ())

/**
 * RlxWeightsError:
 * @RLX_WEIGHTS_ERROR_PARSE: the file does not conform to its format
 * @RLX_WEIGHTS_ERROR_TRUNCATED: the file ends too early
 * @RLX_WEIGHTS_ERROR_LIMIT: a size in the file exceeds a limit
 * @RLX_WEIGHTS_ERROR_UNSUPPORTED: the file is valid, but has something that this library does not
 *   read
 * @RLX_WEIGHTS_ERROR_NOT_FOUND: there is no tensor with that name, or nothing that takes one
 * @RLX_WEIGHTS_ERROR_SHAPE: a tensor does not have the requested shape
 * @RLX_WEIGHTS_ERROR_DATA_TYPE: a tensor does not have the requested data type
 *
 * Errors of reading and writing tensor files.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_WEIGHTS_ERROR_PARSE,
  RLX_WEIGHTS_ERROR_TRUNCATED,
  RLX_WEIGHTS_ERROR_LIMIT,
  RLX_WEIGHTS_ERROR_UNSUPPORTED,
  RLX_WEIGHTS_ERROR_NOT_FOUND,
  RLX_WEIGHTS_ERROR_SHAPE,
  RLX_WEIGHTS_ERROR_DATA_TYPE,
} RlxWeightsError;

/**
 * RLX_MODEL_ERROR:
 *
 * Error domain for reading model files and building graphs from them.
 *
 * Since: 1.0
 */
#define RLX_MODEL_ERROR (rlx_model_error_quark ())

/**
 * RlxModelError:
 * @RLX_MODEL_ERROR_PARSE: the file does not conform to its format
 * @RLX_MODEL_ERROR_TRUNCATED: the file ends too early
 * @RLX_MODEL_ERROR_LIMIT: a size exceeds a limit
 * @RLX_MODEL_ERROR_UNSUPPORTED: the model is valid, but has something that this library does not
 *   compute
 * @RLX_MODEL_ERROR_INVALID: the nodes of the model are inconsistent
 * @RLX_MODEL_ERROR_NOT_FOUND: the model has no input, output or dimension with that name
 * @RLX_MODEL_ERROR_SHAPE: a tensor does not have the shape that the model expects, or a dimension is
 *   unknown
 * @RLX_MODEL_ERROR_DATA_TYPE: a tensor does not have the data type that the model expects
 *
 * Errors of reading model files and building graphs from them.
 *
 * Since: 1.0
 */
typedef enum
{
  RLX_MODEL_ERROR_PARSE,
  RLX_MODEL_ERROR_TRUNCATED,
  RLX_MODEL_ERROR_LIMIT,
  RLX_MODEL_ERROR_UNSUPPORTED,
  RLX_MODEL_ERROR_INVALID,
  RLX_MODEL_ERROR_NOT_FOUND,
  RLX_MODEL_ERROR_SHAPE,
  RLX_MODEL_ERROR_DATA_TYPE,
} RlxModelError;

RLX_AVAILABLE_IN_1_0
GQuark       rlx_device_error_quark   (void);
RLX_AVAILABLE_IN_1_0
GQuark       rlx_graph_error_quark    (void);
RLX_AVAILABLE_IN_1_0
GQuark       rlx_compile_error_quark  (void);
RLX_AVAILABLE_IN_1_0
GQuark       rlx_weights_error_quark  (void);
RLX_AVAILABLE_IN_1_0
GQuark       rlx_model_error_quark    (void);

RLX_AVAILABLE_IN_1_0
gsize        rlx_data_type_get_size   (RlxDataType   data_type);
RLX_AVAILABLE_IN_1_0
guint        rlx_data_type_get_bits   (RlxDataType   data_type);
RLX_AVAILABLE_IN_1_0
const char * rlx_data_type_to_string  (RlxDataType   data_type);
RLX_AVAILABLE_IN_1_0
gboolean     rlx_data_type_from_string (const char   *name,
                                       RlxDataType  *data_type,
                                       GError      **error);

G_END_DECLS
