/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that a graph spells out: which kernels it becomes, and that the
 * results are those of the graph as it stands.
 */
#include "config.h"

#include "rlx-reference.h"
#include "rlx-test-util.h"
#include "util/rlx-debug-private.h"

typedef struct
{
  const char *name;
  const char *graph;       /* one node per line; inputs get random numbers */
  guint dispatches;
  const char *has;         /* a prefix of a kernel's name; nullable */
  const char *has_not;     /* nullable */
} Case;

#define QKV                                \
  "%0 = input \"q\" f32[2, 3, 7, 8]\n"     \
  "%1 = input \"k\" f32[2, 3, 9, 8]\n"     \
  "%2 = input \"v\" f32[2, 3, 9, 5]\n"

static const Case cases[] = {
  { "attention/plain",
    QKV
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = -1}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n", 1, "attention", "softmax" },
  { "attention/scale-and-mask",
    QKV
    "%3 = input \"mask\" f32[2, 1, 1, 9]\n"
    "%4 = constant f32[] [0.35355338]\n"
    "%5 = transpose(%1) {permutation = [0, 1, 3, 2]}\n"
    "%6 = matmul(%0, %5)\n"
    "%7 = mul(%6, %4)\n"
    "%8 = add(%7, %3)\n"
    "%9 = softmax(%8) {axis = 3}\n"
    "%10 = matmul(%9, %2)\n"
    "output \"y\" %10\n", 1, "attention", "softmax" },
  /* the mask first, in the shape of the scores, and itself multiplied by a number */
  { "attention/mask-first",
    QKV
    "%3 = input \"mask\" f32[2, 3, 7, 9]\n"
    "%4 = constant f32[] [-3]\n"
    "%5 = mul(%3, %4)\n"
    "%6 = constant f32[] [2.5]\n"
    "%7 = matmul(%0, %1) {transpose_b = true}\n"
    "%8 = div(%7, %6)\n"
    "%9 = add(%5, %8)\n"
    "%10 = softmax(%9) {axis = -1}\n"
    "%11 = matmul(%10, %2)\n"
    "output \"y\" %11\n", 2, "attention", "softmax" },
  /* the square root of the scale on each side */
  { "attention/factors-before",
    QKV
    "%3 = constant f32[] [0.59]\n"
    "%4 = mul(%0, %3)\n"
    "%5 = mul(%3, %1)\n"
    "%6 = matmul(%4, %5) {transpose_b = true}\n"
    "%7 = softmax(%6) {axis = -1}\n"
    "%8 = matmul(%7, %2)\n"
    "output \"y\" %8\n", 1, "attention", "softmax" },
  /* moving heads to the front and transposing keys are one transpose, with other axes moved too */
  { "attention/keys-moved",
    "%0 = input \"q\" f32[2, 3, 7, 8]\n"
    "%1 = input \"k\" f32[8, 9, 2, 3]\n"
    "%2 = input \"v\" f32[2, 3, 9, 5]\n"
    "%3 = transpose(%1) {permutation = [2, -1, 0, 1]}\n"
    "%4 = matmul(%0, %3)\n"
    "%5 = softmax(%4) {axis = -1}\n"
    "%6 = matmul(%5, %2)\n"
    "output \"y\" %6\n", 2, "attention", "softmax" },
  { "attention/three-dimensions",
    "%0 = input \"q\" f32[4, 7, 8]\n"
    "%1 = input \"k\" f32[4, 9, 8]\n"
    "%2 = input \"v\" f32[4, 9, 8]\n"
    "%3 = input \"mask\" f32[4, 1, 9]\n"
    "%4 = matmul(%0, %1) {transpose_b = true}\n"
    "%5 = add(%4, %3)\n"
    "%6 = softmax(%5) {axis = 2}\n"
    "%7 = matmul(%6, %2)\n"
    "output \"y\" %7\n", 1, "attention", "softmax" },
  { "attention/two-dimensions",
    "%0 = input \"q\" f16[7, 8]\n"
    "%1 = input \"k\" f16[9, 8]\n"
    "%2 = input \"v\" f16[9, 8]\n"
    "%3 = input \"mask\" f16[7, 9]\n"
    "%4 = matmul(%0, %1) {transpose_b = true}\n"
    "%5 = add(%4, %3)\n"
    "%6 = softmax(%5) {axis = 1}\n"
    "%7 = matmul(%6, %2)\n"
    "output \"y\" %7\n", 1, "attention", "softmax" },
  /* heads are moved to the front and back: none of that remains */
  { "attention/between-transposes",
    "%0 = input \"q\" f32[2, 7, 3, 8]\n"
    "%1 = input \"k\" f32[2, 9, 3, 8]\n"
    "%2 = input \"v\" f32[2, 9, 3, 5]\n"
    "%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
    "%4 = transpose(%1) {permutation = [0, 2, 1, 3]}\n"
    "%5 = transpose(%2) {permutation = [0, 2, 1, 3]}\n"
    "%6 = matmul(%3, %4) {transpose_b = true}\n"
    "%7 = softmax(%6) {axis = -1}\n"
    "%8 = matmul(%7, %5)\n"
    "%9 = transpose(%8) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %9\n", 1, "attention", "copy" },
  /* The cache has another layout than the inputs and the output. */
  { "attention/mixed-heads-first-7",
    "%0 = input \"q\" f32[2, 7, 4, 8]\n"
    "%1 = input \"k\" f32[2, 2, 9, 8]\n"
    "%2 = input \"v\" f32[2, 2, 9, 5]\n"
    "%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
    "%4 = attention(%3, %1, %2) {layout = heads-first, causal = true, softcap = 2, scale = 0.5, window = 6}\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %5\n", 1, "attention", "copy" },
  { "attention/mixed-sequence-first-7",
    "%0 = input \"q\" f32[2, 4, 7, 8]\n"
    "%1 = input \"k\" f32[2, 9, 2, 8]\n"
    "%2 = input \"v\" f32[2, 9, 2, 5]\n"
    "%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
    "%4 = attention(%3, %1, %2) {layout = sequence-first, causal = true, softcap = 2, scale = 0.5, window = 6}\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %5\n", 1, "attention", "copy" },
  { "attention/mixed-heads-first-1",
    "%0 = input \"q\" f32[2, 1, 4, 8]\n"
    "%1 = input \"k\" f32[2, 2, 9, 8]\n"
    "%2 = input \"v\" f32[2, 2, 9, 5]\n"
    "%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
    "%4 = attention(%3, %1, %2) {layout = heads-first, causal = true, softcap = 2, scale = 0.5, window = 6}\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %5\n", 1, "attention", "copy" },
  { "attention/mixed-sequence-first-1",
    "%0 = input \"q\" f32[2, 4, 1, 8]\n"
    "%1 = input \"k\" f32[2, 9, 2, 8]\n"
    "%2 = input \"v\" f32[2, 9, 2, 5]\n"
    "%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
    "%4 = attention(%3, %1, %2) {layout = sequence-first, causal = true, softcap = 2, scale = 0.5, window = 6}\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %5\n", 1, "attention", "copy" },
  { "attention/mixed-keys",
    "%0 = input \"q\" f32[2, 4, 7, 8]\n"
    "%1 = input \"k\" f32[2, 9, 2, 8]\n"
    "%2 = input \"v\" f32[2, 2, 9, 5]\n"
    "%3 = transpose(%1) {permutation = [0, -2, -3, 3]}\n"
    "%4 = attention(%0, %3, %2)\n"
    "output \"y\" %4\n", 1, "attention", "copy" },
  /* The result itself is needed, too. */
  { "attention/mixed-but-needed",
    "%0 = input \"q\" f32[2, 4, 7, 8]\n"
    "%1 = input \"k\" f32[2, 2, 9, 8]\n"
    "%2 = input \"v\" f32[2, 9, 2, 5]\n"
    "%3 = transpose(%2) {permutation = [0, 2, 1, 3]}\n"
    "%4 = attention(%0, %1, %3)\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "output \"x\" %4\n"
    "output \"y\" %5\n", 2, "attention", NULL },
  /* one key head for all queries */
  { "attention/shared-keys",
    "%0 = input \"q\" f32[2, 3, 7, 8]\n"
    "%1 = input \"k\" f32[2, 1, 9, 8]\n"
    "%2 = input \"v\" f32[2, 1, 9, 5]\n"
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = -1}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n", 1, "attention", "softmax" },
  { "attention/not-if-weights-are-needed",
    QKV
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = -1}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n"
    "output \"weights\" %4\n", 3, "softmax", "attention" },
  { "attention/not-if-scaled-after-mask",
    QKV
    "%3 = input \"mask\" f32[2, 1, 1, 9]\n"
    "%4 = constant f32[] [0.5]\n"
    "%5 = matmul(%0, %1) {transpose_b = true}\n"
    "%6 = add(%5, %3)\n"
    "%7 = mul(%6, %4)\n"
    "%8 = softmax(%7) {axis = -1}\n"
    "%9 = matmul(%8, %2)\n"
    "output \"y\" %9\n", 3, "softmax", "attention" },
  { "attention/not-along-another-axis",
    "%0 = input \"q\" f32[2, 3, 9, 8]\n"
    "%1 = input \"k\" f32[2, 3, 9, 8]\n"
    "%2 = input \"v\" f32[2, 3, 9, 5]\n"
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = 2}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n", 3, "softmax", "attention" },
  { "attention/not-if-batches-broadcast",
    "%0 = input \"q\" f32[2, 3, 7, 8]\n"
    "%1 = input \"k\" f32[1, 3, 9, 8]\n"
    "%2 = input \"v\" f32[2, 3, 9, 5]\n"
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = -1}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n", 3, "softmax", "attention" },
  { "attention/not-with-a-scale-of-zero",
    QKV
    "%3 = constant f32[] [0]\n"
    "%4 = matmul(%0, %1) {transpose_b = true}\n"
    "%5 = mul(%4, %3)\n"
    "%6 = softmax(%5) {axis = -1}\n"
    "%7 = matmul(%6, %2)\n"
    "output \"y\" %7\n", 3, "softmax", "attention" },
  { "attention/not-if-wide",
    "%0 = input \"q\" f32[3, 300]\n"
    "%1 = input \"k\" f32[9, 300]\n"
    "%2 = input \"v\" f32[9, 4]\n"
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = softmax(%3) {axis = -1}\n"
    "%5 = matmul(%4, %2)\n"
    "output \"y\" %5\n", 3, "softmax", "attention" },

  { "packed/matmul",
    "%0 = input \"x\" f32[3, 64]\n"
    "%1 = input \"w\" u8[5, 64]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = dequantize_blocks(%1, %2) {type = int8, block_size = 32}\n"
    "%4 = matmul(%0, %3) {transpose_b = true}\n"
    "output \"y\" %4\n", 1, "packed-matmul", "packed-dequantize" },
  { "packed/linear",
    "%0 = input \"x\" f32[3, 64]\n"
    "%1 = input \"w\" u8[5, 32]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = input \"zero\" u8[5, 1]\n"
    "%4 = input \"bias\" f32[5]\n"
    "%5 = dequantize_blocks(%1, %2, %3) {type = int4, block_size = 32}\n"
    "%6 = linear(%0, %5, %4) {transpose_b = true}\n"
    "output \"y\" %6\n", 1, "packed-matmul", "packed-dequantize" },
  { "packed/epilogue",
    "%0 = input \"x\" f32[3, 64]\n"
    "%1 = input \"w\" u8[5, 64]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = input \"gate\" f32[3, 5]\n"
    "%4 = dequant_matmul(%0, %1, %2) {type = int8, block_size = 32}\n"
    "%5 = silu(%4)\n"
    "%6 = mul(%5, %3)\n"
    "output \"y\" %6\n", 1, "packed-matmul", "fused" },
  /* rows of missing experts are zero for the epilogue, too */
  { "packed/epilogue-of-experts",
    "%0 = input \"x\" f32[6, 64]\n"
    "%1 = input \"w\" u8[2, 5, 64]\n"
    "%2 = input \"scale\" f32[2, 5, 2]\n"
    "%3 = input \"expert\" i32[6]\n"
    "%4 = dequant_matmul(%0, %1, %2, _, _, %3) {type = int8, block_size = 32}\n"
    "%5 = exp(%4)\n"
    "%6 = constant f32[] [1]\n"
    "%7 = add(%5, %6)\n"
    "%8 = reciprocal(%7)\n"
    "output \"y\" %8\n", 1, "packed-matmul", "fused" },
  /* through a transpose */
  { "packed/transposed",
    "%0 = input \"x\" f32[3, 64]\n"
    "%1 = input \"w\" u8[5, 64]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = dequantize_blocks(%1, %2) {type = int8, block_size = 32}\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = matmul(%0, %4)\n"
    "output \"y\" %5\n", 1, "packed-matmul", "packed-dequantize" },
  { "packed/gather",
    "%0 = input \"i\" i32[3]\n"
    "%1 = input \"w\" u8[5, 64]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = dequantize_blocks(%1, %2) {type = int8, block_size = 32}\n"
    "%4 = gather(%3, %0) {axis = 0}\n"
    "output \"y\" %4\n", 1, NULL, "gather" },
  { "packed/not-along-columns",
    "%0 = input \"x\" f32[3, 5]\n"
    "%1 = input \"w\" u8[5, 64]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = dequantize_blocks(%1, %2) {type = int8, block_size = 32}\n"
    "%4 = matmul(%0, %3)\n"
    "output \"y\" %4\n", 2, "packed-dequantize", "packed-matmul" },
  /* the last byte of a row has room for another number, which does not contribute */
  { "packed/room-left",
    "%0 = input \"x\" f32[3, 63]\n"
    "%1 = input \"w\" u8[5, 32]\n"
    "%2 = input \"scale\" f32[5, 2]\n"
    "%3 = dequantize_blocks(%1, %2) {type = int4, block_size = 32, columns = 63}\n"
    "%4 = matmul(%0, %3) {transpose_b = true}\n"
    "output \"y\" %4\n", 1, "packed-matmul", "packed-dequantize" },

  { "bias/product",
    "%0 = input \"x\" f32[2, 6, 20]\n"
    "%1 = input \"w\" f32[40, 20]\n"
    "%2 = input \"b\" f32[40]\n"
    "%3 = matmul(%0, %1) {transpose_b = true}\n"
    "%4 = add(%2, %3)\n"
    "output \"y\" %4\n", 1, "matmul", "fused" },
  { "norm/layer",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"r\" f32[6, 20]\n"
    "%2 = input \"scale\" f32[20]\n"
    "%3 = input \"bias\" f32[20]\n"
    "%4 = add(%0, %1)\n"
    "%5 = layer_norm(%4, %2, %3) {epsilon = 0.001}\n"
    "output \"y\" %5\n", 1, "norm", "fused" },
  /* the broadcast operand comes second, and the sum is a result */
  { "norm/rms-and-sum",
    "%0 = input \"r\" f32[20]\n"
    "%1 = input \"x\" f32[6, 20]\n"
    "%2 = add(%0, %1)\n"
    "%3 = rms_norm(%2)\n"
    "%4 = mul(%2, %3)\n"
    "output \"y\" %4\n"
    "output \"sum\" %2\n", 2, "norm", NULL },
  { "norm/axes",
    "%0 = input \"x\" f32[6, 5, 4]\n"
    "%1 = input \"r\" f32[6, 5, 4]\n"
    "%2 = input \"scale\" f32[5, 4]\n"
    "%3 = add(%0, %1)\n"
    "%4 = layer_norm(%3, %2) {axes = [1, 2]}\n"
    "output \"y\" %4\n", 1, "norm", "fused" },
  { "norm/epilogue",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"scale\" f32[20]\n"
    "%2 = input \"gate\" f32[6, 1]\n"
    "%3 = rms_norm(%0, %1)\n"
    "%4 = mul(%3, %2)\n"
    "%5 = tanh(%4)\n"
    "output \"y\" %5\n", 1, "norm", "fused" },
  /* nothing is overwritten before it is read: the operand is an input of both */
  { "norm/epilogue-with-operand",
    "%0 = input \"a\" f32[6, 20]\n"
    "%1 = input \"b\" f32[20, 20]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = layer_norm(%2)\n"
    "%4 = add(%3, %2)\n"
    "output \"y\" %4\n", 2, "norm", "fused" },
  { "norm/epilogue-of-another-type",
    "%0 = input \"x\" f32[6, 5, 4]\n"
    "%1 = layer_norm(%0) {axes = [0, 1]}\n"
    "%2 = cast(%1) {to = f16}\n"
    "output \"y\" %2\n", 1, "norm", "fused" },
  /* rows long enough for three steps */
  { "norm/epilogue-of-long-rows",
    "%0 = input \"x\" f32[2, 40000]\n"
    "%1 = layer_norm(%0)\n"
    "%2 = sigmoid(%1)\n"
    "output \"y\" %2\n", 3, "norm", "fused" },
  { "norm/epilogue-of-groups",
    "%0 = input \"x\" f32[2, 6, 5, 7]\n"
    "%1 = input \"scale\" f32[6]\n"
    "%2 = input \"bias\" f32[6]\n"
    "%3 = input \"z\" f32[6, 1, 1]\n"
    "%4 = group_norm(%0, %1, %2) {groups = 3}\n"
    "%5 = silu(%4)\n"
    "%6 = add(%5, %3)\n"
    "output \"y\" %6\n", 1, "norm", "silu" },
  { "norm/epilogue-of-instances",
    "%0 = input \"x\" f32[2, 5, 7, 6]\n"
    "%1 = input \"z\" f32[5, 7, 6]\n"
    "%2 = instance_norm(%0) {layout = channels-last}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = cast(%3) {to = f16}\n"
    "output \"y\" %4\n", 1, "norm", "mul" },
  { "norm/epilogue-of-channels",
    "%0 = input \"x\" f32[2, 6, 5, 7]\n"
    "%1 = input \"scale\" f32[6]\n"
    "%2 = layer_norm_2d(%0, %1)\n"
    "%3 = gelu(%2)\n"
    "output \"y\" %3\n", 1, "norm", "gelu" },
  { "norm/epilogue-of-a-sum",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"r\" f32[6, 20]\n"
    "%2 = input \"scale\" f32[20]\n"
    "%3 = input \"z\" f32[6, 1]\n"
    "%4 = add(%0, %1)\n"
    "%5 = rms_norm(%4, %2)\n"
    "%6 = mul(%5, %3)\n"
    "output \"y\" %6\n", 1, "norm", "mul" },
  { "norm/not-an-epilogue-of-two-results",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"r\" f32[6, 20]\n"
    "%2 = add(%0, %1)\n"
    "%3 = layer_norm(%2)\n"
    "%4 = exp(%3)\n"
    "output \"y\" %4\n"
    "output \"z\" %2\n", 2, "norm", NULL },
  { "norm/epilogue-of-factors",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"scale\" f32[6, 20]\n"
    "%2 = input \"shift\" f32[6, 20]\n"
    "%3 = ada_layer_norm(%0, %1, %2)\n"
    "%4 = add(%3, %0)\n"
    "output \"y\" %4\n", 1, "norm", "add" },
  { "norm/epilogue-of-lengths",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"z\" f32[20]\n"
    "%2 = lp_norm(%0) {axis = 1}\n"
    "%3 = mul(%2, %1)\n"
    "output \"y\" %3\n", 1, "norm", "mul" },
  /* the sum is an epilogue */
  { "norm/not-behind-a-product",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"w\" f32[20, 20]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = add(%2, %0)\n"
    "%4 = layer_norm(%3)\n"
    "output \"y\" %4\n", 2, "matmul", "fused" },
  { "norm/not-if-the-sum-is-needed-before",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"r\" f32[6, 20]\n"
    "%2 = add(%0, %1)\n"
    "%3 = softmax(%2) {axis = -1}\n"
    "%4 = layer_norm(%2)\n"
    "%5 = matmul(%4, %3) {transpose_b = true}\n"
    "output \"y\" %5\n", 4, "softmax", NULL },

  { "reduce/bias",
    "%0 = input \"x\" f32[6, 5, 20]\n"
    "%1 = input \"bias\" f32[5]\n"
    "%2 = reduce_sum(%0) {axes = [-1]}\n"
    "%3 = add(%1, %2)\n"
    "%4 = relu(%3)\n"
    "output \"y\" %4\n", 1, "reduce", "add" },
  /* the root of the mean of squares, in the shape of its other divisor, so that it is not a norm */
  { "reduce/root-of-mean",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = mul(%0, %0)\n"
    "%2 = reduce_mean(%1) {axes = [1], keep_dims = true}\n"
    "%3 = constant f32[] [0.001]\n"
    "%4 = add(%2, %3)\n"
    "%5 = rsqrt(%4)\n"
    "%6 = input \"z\" f32[6, 20]\n"
    "%7 = mul(%6, %5)\n"
    "output \"y\" %7\n", 3, "reduce", "add" },
  /* shared helper functions are emitted only once */
  { "reduce/exponentials",
    "%0 = input \"x\" f32[4, 6, 20]\n"
    "%2 = reduce_log_sum_exp(%0) {axes = [0, 2], keep_dims = true}\n"
    "%3 = exp(%2)\n"
    "%4 = log(%3)\n"
    "output \"y\" %4\n", 1, "reduce", "exp" },
  { "reduce/another-type",
    "%0 = input \"x\" f16[3, 40, 7]\n"
    "%1 = reduce_max(%0) {axes = [1]}\n"
    "%2 = constant f16[] [1]\n"
    "%3 = greater(%1, %2)\n"
    "output \"y\" %3\n", 1, "reduce", "greater" },
  /* rows long enough for two steps, the last of which has the epilogue */
  { "reduce/long-rows",
    "%0 = input \"x\" f32[2, 100000]\n"
    "%1 = input \"z\" f32[2]\n"
    "%2 = reduce_l2(%0) {axes = [1]}\n"
    "%3 = sqrt(%2)\n"
    "%4 = mul(%3, %1)\n"
    "output \"y\" %4\n", 2, "reduce", "sqrt" },
  { "reduce/long-rows-to-bytes",
    "%0 = input \"x\" f32[100000, 3]\n"
    "%1 = reduce_min(%0) {axes = [0]}\n"
    "%2 = cast(%1) {to = i8}\n"
    "output \"y\" %2\n", 2, "reduce", "cast" },
  { "reduce/no-columns",
    "%0 = input \"x\" f32[5, 0, 3]\n"
    "%1 = reduce_prod(%0) {axes = [1]}\n"
    "%2 = exp(%1)\n"
    "output \"y\" %2\n", 1, "reduce", "exp" },
  { "reduce/no-rows",
    "%0 = input \"x\" f32[0, 7, 3]\n"
    "%1 = reduce_sum(%0) {axes = [1]}\n"
    "%2 = exp(%1)\n"
    "output \"y\" %2\n", 0, NULL, NULL },
  /* a sum over one element is its operand, apart from what follows */
  { "reduce/one-column",
    "%0 = input \"x\" f32[5, 1, 3]\n"
    "%1 = reduce_sum(%0) {axes = [1]}\n"
    "%2 = exp(%1)\n"
    "output \"y\" %2\n", 1, "reduce", "exp" },
  { "reduce/not-of-integers",
    "%0 = input \"x\" i32[5, 6]\n"
    "%1 = reduce_sum(%0) {axes = [1]}\n"
    "%2 = neg(%1)\n"
    "output \"y\" %2\n", 2, "neg", NULL },
  { "reduce/not-of-another-shape",
    "%0 = input \"x\" f32[5, 6]\n"
    "%1 = reduce_mean(%0) {axes = [1], keep_dims = true}\n"
    "%2 = sub(%0, %1)\n"
    "output \"y\" %2\n", 2, "sub", NULL },
  { "reduce/not-if-it-is-needed",
    "%0 = input \"x\" f32[5, 6]\n"
    "%1 = reduce_sum(%0) {axes = [1]}\n"
    "%2 = exp(%1)\n"
    "output \"y\" %2\n"
    "output \"z\" %1\n", 2, "exp", NULL },
  { "softmax/weighted",
    "%0 = input \"x\" f32[3, 5, 40]\n"
    "%1 = input \"z\" f32[5, 1]\n"
    "%2 = softmax(%0) {axis = -1}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = exp(%3)\n"
    "output \"y\" %4\n", 1, "softmax", "mul" },
  { "softmax/with-operand",
    "%0 = input \"x\" f32[3, 40, 5]\n"
    "%1 = log_softmax(%0) {axis = 1}\n"
    "%2 = mul(%1, %0)\n"
    "output \"y\" %2\n", 1, "softmax", "mul" },
  { "softmax/long-rows",
    "%0 = input \"x\" f32[2, 100000]\n"
    "%1 = input \"z\" f32[100000]\n"
    "%2 = softmax(%0) {axis = 1}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = cast(%3) {to = f16}\n"
    "output \"y\" %4\n", 3, "softmax", "mul" },
  /* an operator that broadcasts the sum is not part of the reduction */
  { "norm/of-a-small-sum",
    "%0 = input \"x\" f32[6, 20]\n"
    "%1 = input \"z\" f32[6, 20]\n"
    "%2 = reduce_sum(%0) {axes = [1], keep_dims = true}\n"
    "%3 = add(%2, %1)\n"
    "%4 = rms_norm(%3)\n"
    "output \"y\" %4\n", 2, "norm", "add" },

  /* A gate is fused with the second of two products. */
  { "gates/silu",
    "%0 = input \"x\" f32[5, 32]\n"
    "%1 = parameter \"w\" f32[32, 64]\n"
    "%2 = parameter \"v\" f32[32, 64]\n"
    "%3 = matmul(%0, %1)\n"
    "%4 = matmul(%0, %2)\n"
    "%5 = sigmoid(%3)\n"
    "%6 = mul(%3, %5)\n"
    "%7 = mul(%6, %4)\n"
    "output \"y\" %7\n", 2, "matmul", "mul" },
  { "gates/gelu",
    "%0 = input \"x\" f32[5, 32]\n"
    "%1 = parameter \"w\" f32[64, 32]\n"
    "%2 = parameter \"v\" f32[64, 32]\n"
    "%3 = parameter \"b\" f32[64]\n"
    "%4 = parameter \"c\" f32[64]\n"
    "%5 = linear(%0, %1, %3) {transpose_b = true}\n"
    "%6 = linear(%0, %2, %4) {transpose_b = true}\n"
    "%7 = constant f32[] [1.4142135]\n"
    "%8 = constant f32[] [1]\n"
    "%9 = constant f32[] [0.5]\n"
    "%10 = div(%5, %7)\n"
    "%11 = erf(%10)\n"
    "%12 = add(%11, %8)\n"
    "%13 = mul(%5, %12)\n"
    "%14 = mul(%13, %9)\n"
    "%15 = mul(%14, %6)\n"
    "output \"y\" %15\n", 2, "matmul", "mul" },
  { "gates/swiglu",
    "%0 = input \"x\" f32[5, 32]\n"
    "%1 = parameter \"w\" f32[32, 64]\n"
    "%2 = parameter \"v\" f32[32, 64]\n"
    "%3 = matmul(%0, %1)\n"
    "%4 = matmul(%0, %2)\n"
    "%5 = swiglu(%3, %4)\n"
    "output \"y\" %5\n", 2, "matmul", "swiglu" },

  { "parts/split",
    "%0 = input \"x\" f32[2, 5, 32]\n"
    "%1 = parameter \"w\" f32[32, 48]\n"
    "%2 = matmul(%0, %1)\n"
    "%3, %4, %5 = split(%2) {axis = -1, sizes = [16, 24, 8]}\n"
    "%6 = softmax(%3) {axis = -1}\n"
    "%7 = softmax(%4) {axis = -1}\n"
    "%8 = softmax(%5) {axis = -1}\n"
    "output \"q\" %6\n"
    "output \"k\" %7\n"
    "output \"v\" %8\n", 4, "matmul", "copy" },
  /* As in files of image networks: the three of them are a separate axis. */
  { "parts/picked",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = parameter \"b\" f32[96]\n"
    "%3 = linear(%0, %1, %2)\n"
    "%4 = reshape(%3) {shape = [2, 10, 3, 4, 8]}\n"
    "%5 = transpose(%4) {permutation = [2, 0, 3, 1, 4]}\n"
    "%6 = constant i32[] [0]\n"
    "%7 = constant i32[] [1]\n"
    "%8 = constant i32[] [-1]\n"
    "%10 = gather(%5, %6) {axis = 0}\n"
    "%11 = gather(%5, %7) {axis = 0}\n"
    "%12 = gather(%5, %8) {axis = 0}\n"
    "%20 = attention(%10, %11, %12)\n"
    "%21 = transpose(%20) {permutation = [0, 2, 1, 3]}\n"
    "%22 = reshape(%21) {shape = [2, 10, 32]}\n"
    "output \"y\" %22\n", 2, "attention", "copy" },
  { "parts/sliced-and-squeezed",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = parameter \"b\" f32[96]\n"
    "%3 = linear(%0, %1, %2)\n"
    "%4 = reshape(%3) {shape = [2, 10, 3, 4, 8]}\n"
    "%5 = transpose(%4) {permutation = [2, 0, 3, 1, 4]}\n"
    "%6 = slice(%5) {starts = [2], ends = [3]}\n"
    "%7 = slice(%5) {starts = [0], ends = [1]}\n"
    "%8 = slice(%5) {starts = [1], ends = [2]}\n"
    "%10 = squeeze(%7) {axes = [0]}\n"
    "%11 = squeeze(%8) {axes = [0]}\n"
    "%12 = reshape(%6) {shape = [2, 4, 10, 8]}\n"
    "%20 = attention(%10, %11, %12)\n"
    "%21 = transpose(%20) {permutation = [0, 2, 1, 3]}\n"
    "%22 = reshape(%21) {shape = [2, 10, 32]}\n"
    "output \"y\" %22\n", 2, "attention", "copy" },
  { "parts/split-and-squeezed",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = parameter \"b\" f32[96]\n"
    "%3 = linear(%0, %1, %2)\n"
    "%4 = reshape(%3) {shape = [2, 10, 3, 4, 8]}\n"
    "%5 = transpose(%4) {permutation = [-3, 0, -2, 1, -1]}\n"
    "%6, %7, %8 = split(%5) {axis = -5, parts = 3}\n"
    "%10 = squeeze(%6) {axes = [0]}\n"
    "%11 = squeeze(%7) {axes = [0]}\n"
    "%12 = squeeze(%8) {axes = [0]}\n"
    "%20 = attention(%10, %11, %12)\n"
    "%21 = transpose(%20) {permutation = [0, 2, 1, 3]}\n"
    "%22 = reshape(%21) {shape = [2, 10, 32]}\n"
    "output \"y\" %22\n", 2, "attention", "copy" },
  /* There are fewer key heads; rows become batches in between. */
  { "parts/heads",
    "%0 = input \"x\" f32[20, 32]\n"
    "%1 = parameter \"w\" f32[48, 32]\n"
    "%2 = linear(%0, %1) {transpose_b = true}\n"
    "%3 = reshape(%2) {shape = [2, 10, 6, 8]}\n"
    "%4, %5, %6 = split(%3) {axis = 2, sizes = [4, 1, 1]}\n"
    "%7 = attention(%4, %5, %6) {layout = sequence-first}\n"
    "output \"y\" %7\n", 2, "attention", "copy" },
  { "parts/heads-come-forward",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = parameter \"w\" f32[32, 48]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = reshape(%2) {shape = [2, 10, 6, 8]}\n"
    "%4 = transpose(%3) {permutation = [0, 2, 1, 3]}\n"
    "%5 = slice(%4) {starts = [0], ends = [4], axes = [1]}\n"
    "%6 = slice(%4) {starts = [4], ends = [5], axes = [1]}\n"
    "%7 = slice(%4) {starts = [5], ends = [6], axes = [1]}\n"
    "%8 = attention(%5, %6, %7)\n"
    "%9 = transpose(%8) {permutation = [0, 2, 1, 3]}\n"
    "output \"y\" %9\n", 2, "attention", "copy" },
  /* A gate and its operand. */
  { "parts/two",
    "%0 = input \"x\" f32[10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = matmul(%0, %1)\n"
    "%3, %4 = split(%2) {axis = 1, parts = 2}\n"
    "%5 = swiglu(%3, %4)\n"
    "output \"y\" %5\n", 2, "swiglu", "copy" },
  { "parts/read-where-they-are",
    "%0 = input \"x\" f32[5, 12, 7]\n"
    "%1, %2, %3, %4 = split(%0) {axis = -2, sizes = [4, 4, 0, 4]}\n"
    "%5 = swiglu(%1, %2)\n"
    "%6 = add(%5, %4)\n"
    "output \"y\" %6\n", 1, "swiglu", "copy" },
  { "parts/some-are-copied",
    "%0 = input \"x\" f32[5, 12]\n"
    "%1, %2, %3 = split(%0) {axis = 1, parts = 3}\n"
    "%4 = exp(%1)\n"
    "%5 = softmax(%2) {axis = -1}\n"
    "output \"y\" %4\n"
    "output \"z\" %5\n"
    "output \"w\" %3\n", 4, "copy", NULL },
  { "parts/keys-and-values",
    "%0 = input \"x\" f32[2, 9, 32]\n"
    "%1 = input \"q\" f32[2, 4, 7, 8]\n"
    "%2 = parameter \"w\" f32[32, 64]\n"
    "%3 = matmul(%0, %2)\n"
    "%4 = reshape(%3) {shape = [2, 9, 2, 4, 8]}\n"
    "%5 = transpose(%4) {permutation = [2, 0, 1, 3, 4]}\n"
    "%6 = constant i64[1] [0]\n"
    "%7 = constant i64[1] [1]\n"
    "%8 = gather(%5, %6) {axis = 0}\n"
    "%9 = gather(%5, %7) {axis = 0}\n"
    "%10 = reshape(%8) {shape = [2, 9, 4, 8]}\n"
    "%11 = reshape(%9) {shape = [2, 9, 4, 8]}\n"
    "%12 = transpose(%1) {permutation = [0, 2, 1, 3]}\n"
    "%13 = attention(%12, %10, %11) {layout = sequence-first}\n"
    "output \"y\" %13\n", 2, "attention", "gather" },
  { "parts/one-row",
    "%0 = input \"x\" f32[1, 1, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = reshape(%2) {shape = [1, 1, 3, 4, 8]}\n"
    "%4 = slice(%3) {starts = [0], ends = [1], axes = [2]}\n"
    "%5 = slice(%3) {starts = [1], ends = [3], axes = [2]}\n"
    "%6 = softmax(%4) {axis = -1}\n"
    "%7 = softmax(%5) {axis = -1}\n"
    "output \"y\" %6\n"
    "output \"z\" %7\n", 3, "softmax", "copy" },
  { "parts/not-if-heads-are-slower",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = reshape(%2) {shape = [2, 10, 4, 3, 8]}\n"
    "%4, %5, %6 = split(%3) {axis = 3, parts = 3}\n"
    "%7 = softmax(%4) {axis = -1}\n"
    "%8 = softmax(%5) {axis = -1}\n"
    "%9 = softmax(%6) {axis = -1}\n"
    "output \"q\" %7\n"
    "output \"k\" %8\n"
    "output \"v\" %9\n", 7, "copy", NULL },
  { "parts/not-if-some-are-left-out",
    "%0 = input \"x\" f32[10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = matmul(%0, %1)\n"
    "%3 = slice(%2) {starts = [0], ends = [40], axes = [1]}\n"
    "%4 = slice(%2) {starts = [39], ends = [96], axes = [1]}\n"
    "%5 = softmax(%3) {axis = -1}\n"
    "%6 = softmax(%4) {axis = -1}\n"
    "output \"y\" %5\n"
    "output \"z\" %6\n", 5, "copy", NULL },
  { "parts/not-if-all-is-needed",
    "%0 = input \"x\" f32[10, 32]\n"
    "%1 = parameter \"w\" f32[32, 96]\n"
    "%2 = matmul(%0, %1)\n"
    "%3, %4 = split(%2) {axis = 1, sizes = [40, 56]}\n"
    "%5 = softmax(%3) {axis = -1}\n"
    "%6 = softmax(%4) {axis = -1}\n"
    "output \"x\" %2\n"
    "output \"y\" %5\n"
    "output \"z\" %6\n", 5, "copy", NULL },

  { "transpose/second",
    "%0 = input \"a\" f32[2, 6, 20]\n"
    "%1 = input \"b\" f32[2, 40, 20]\n"
    "%2 = transpose(%1) {permutation = [0, -1, -2]}\n"
    "%3 = matmul(%0, %2)\n"
    "output \"y\" %3\n", 1, "matmul", "copy" },
  { "transpose/back",
    "%0 = input \"a\" f32[6, 20]\n"
    "%1 = input \"b\" f32[20, 40]\n"
    "%2 = transpose(%1) {permutation = []}\n"
    "%3 = linear(%0, %2) {transpose_b = true}\n"
    "output \"y\" %3\n", 1, "matmul", "copy" },
  { "transpose/both",
    "%0 = input \"a\" f32[20, 6]\n"
    "%1 = input \"b\" f32[10, 20]\n"
    "%2 = transpose(%0) {permutation = [1, 0]}\n"
    "%3 = transpose(%1) {permutation = [1, 0]}\n"
    "%4 = matmul(%2, %3)\n"
    "output \"y\" %4\n", 1, "matmul", "copy" },
  { "transpose/not-of-other-axes",
    "%0 = input \"a\" f32[2, 6, 20]\n"
    "%1 = input \"b\" f32[20, 2, 40]\n"
    "%2 = transpose(%1) {permutation = [1, 0, 2]}\n"
    "%3 = matmul(%0, %2)\n"
    "output \"y\" %3\n", 2, "copy", NULL },

  /* A layer of an encoder as in files: keys are transposed directly, biases are added. */
  { "networks/encoder",
    "%0 = input \"x\" f32[2, 10, 32]\n"
    "%1 = input \"mask\" f32[2, 1, 1, 10]\n"
    "%2 = parameter \"wq\" f32[32, 32]\n"
    "%3 = parameter \"wk\" f32[32, 32]\n"
    "%4 = parameter \"wv\" f32[32, 32]\n"
    "%5 = parameter \"bq\" f32[32]\n"
    "%6 = parameter \"bk\" f32[32]\n"
    "%7 = parameter \"bv\" f32[32]\n"
    "%8 = matmul(%0, %2)\n"
    "%9 = matmul(%0, %3)\n"
    "%10 = matmul(%0, %4)\n"
    "%11 = add(%8, %5)\n"
    "%12 = add(%9, %6)\n"
    "%13 = add(%10, %7)\n"
    "%14 = reshape(%11) {shape = [2, 10, 4, 8]}\n"
    "%15 = reshape(%12) {shape = [2, 10, 4, 8]}\n"
    "%16 = reshape(%13) {shape = [2, 10, 4, 8]}\n"
    "%17 = transpose(%14) {permutation = [0, 2, 1, 3]}\n"
    "%18 = transpose(%15) {permutation = [0, 2, 3, 1]}\n"
    "%19 = transpose(%16) {permutation = [0, 2, 1, 3]}\n"
    "%20 = matmul(%17, %18)\n"
    "%21 = constant f32[] [2.828427]\n"
    "%22 = div(%20, %21)\n"
    "%23 = add(%22, %1)\n"
    "%24 = softmax(%23) {axis = -1}\n"
    "%25 = matmul(%24, %19)\n"
    "%26 = transpose(%25) {permutation = [0, 2, 1, 3]}\n"
    "%27 = reshape(%26) {shape = [2, 10, 32]}\n"
    "%28 = parameter \"wo\" f32[32, 32]\n"
    "%29 = parameter \"bo\" f32[32]\n"
    "%30 = matmul(%27, %28)\n"
    "%31 = add(%30, %29)\n"
    "%32 = add(%31, %0)\n"
    "%33 = parameter \"s1\" f32[32]\n"
    "%34 = parameter \"b1\" f32[32]\n"
    "%35 = layer_norm(%32, %33, %34)\n"
    "%36 = parameter \"w1\" f32[32, 128]\n"
    "%37 = parameter \"b2\" f32[128]\n"
    "%38 = matmul(%35, %36)\n"
    "%39 = add(%38, %37)\n"
    "%40 = gelu(%39)\n"
    "%41 = parameter \"w2\" f32[128, 32]\n"
    "%42 = parameter \"b3\" f32[32]\n"
    "%43 = matmul(%40, %41)\n"
    "%44 = add(%43, %42)\n"
    "%45 = add(%44, %35)\n"
    "%46 = parameter \"s2\" f32[32]\n"
    "%47 = parameter \"b4\" f32[32]\n"
    "%48 = layer_norm(%45, %46, %47)\n"
    "output \"y\" %48\n", 7, "attention", "copy" },
  /* A layer of a decoder: two norms, projections, positions, attention, output, gate, up
   * and down projections. */
  { "networks/decoder",
    "%0 = input \"x\" f32[1, 5, 64]\n"
    "%1 = parameter \"n1\" f32[64]\n"
    "%2 = rms_norm(%0, %1)\n"
    "%3 = parameter \"wq\" f32[64, 64]\n"
    "%4 = parameter \"wk\" f32[64, 32]\n"
    "%5 = parameter \"wv\" f32[64, 32]\n"
    "%6 = matmul(%2, %3)\n"
    "%7 = matmul(%2, %4)\n"
    "%8 = matmul(%2, %5)\n"
    "%9 = reshape(%6) {shape = [1, 5, 4, 16]}\n"
    "%10 = reshape(%7) {shape = [1, 5, 2, 16]}\n"
    "%11 = reshape(%8) {shape = [1, 5, 2, 16]}\n"
    "%12 = input \"pos\" i32[1, 5]\n"
    "%13 = rope(%9, %12) {layout = sequence-first}\n"
    "%14 = rope(%10, %12) {layout = sequence-first}\n"
    "%15 = attention(%13, %14, %11) {layout = sequence-first, causal = true}\n"
    "%16 = reshape(%15) {shape = [1, 5, 64]}\n"
    "%17 = parameter \"wo\" f32[64, 64]\n"
    "%18 = matmul(%16, %17)\n"
    "%19 = add(%18, %0)\n"
    "%20 = parameter \"n2\" f32[64]\n"
    "%21 = rms_norm(%19, %20)\n"
    "%22 = parameter \"wg\" f32[64, 128]\n"
    "%23 = parameter \"wu\" f32[64, 128]\n"
    "%24 = matmul(%21, %22)\n"
    "%25 = matmul(%21, %23)\n"
    "%26 = silu(%24)\n"
    "%27 = mul(%26, %25)\n"
    "%28 = parameter \"wd\" f32[128, 64]\n"
    "%29 = matmul(%27, %28)\n"
    "%30 = add(%29, %19)\n"
    "output \"y\" %30\n", 9, "attention", "fused" },
  /* the power spectrum of overlapping frames, times a window; with 20 complex numbers in place of 40 real ones */
  { "powers/frames",
    "%0 = input \"x\" f32[2, 300]\n"
    "%1 = input \"w\" f32[40]\n"
    "%2 = frame(%0) {length = 40, hop = 16}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = rfft(%3)\n"
    "%5 = abs_squared(%4)\n"
    "output \"y\" %5\n", 1, "fft", "mul" },
  /* frames at odd offsets, between two pairs */
  { "powers/odd-hop",
    "%0 = input \"x\" f32[2, 300]\n"
    "%1 = input \"w\" f32[40]\n"
    "%2 = frame(%0) {length = 40, hop = 17}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = rfft(%3) {norm = ortho}\n"
    "%5 = abs_squared(%4)\n"
    "output \"y\" %5\n", 1, "fft", "mul" },
  /* a convolution; rows without framing */
  { "powers/prime",
    "%0 = input \"x\" f32[3, 1, 101]\n"
    "%1 = input \"w\" f32[101]\n"
    "%2 = mul(%0, %1)\n"
    "%3 = rfft(%2)\n"
    "%4 = abs_squared(%3)\n"
    "output \"y\" %4\n", 1, "fft", "mul" },
  { "powers/filled-up",
    "%0 = input \"x\" f32[3, 10]\n"
    "%1 = rfft(%0) {lengths = [36]}\n"
    "%2 = abs_squared(%1)\n"
    "output \"y\" %2\n", 1, "fft", "mul" },
  /* several passes, the first of which reads frames */
  { "powers/long",
    "%0 = input \"x\" f32[2, 25000]\n"
    "%1 = input \"w\" f32[20000]\n"
    "%2 = frame(%0) {length = 20000, hop = 5000}\n"
    "%3 = mul(%2, %1)\n"
    "%4 = rfft(%3)\n"
    "%5 = abs_squared(%4)\n"
    "output \"y\" %5\n", 2, "fft", "mul" },
  /* the spectrum itself is needed, too */
  { "powers/spectrum-kept",
    "%0 = input \"x\" f32[3, 24]\n"
    "%1 = rfft(%0)\n"
    "%2 = abs_squared(%1)\n"
    "output \"y\" %2\n"
    "output \"z\" %1\n", 2, "mul", NULL },
};

/* Whether the name of a kernel of the plan begins with @start. */
static gboolean
has_kernel (RlxExecutable *executable,
            const char    *start)
{
  g_autoptr (GVariant) plan = rlx_executable_dup_plan (executable);
  g_autoptr (GVariant) kernels = g_variant_lookup_value (plan, "kernels", G_VARIANT_TYPE ("a{su}"));
  GVariantIter iter;
  const char *name;
  guint32 n;

  g_variant_iter_init (&iter, kernels);
  while (g_variant_iter_next (&iter, "{&su}", &name, &n))
    if (g_str_has_prefix (name, start))
      return TRUE;
  return FALSE;
}

static RlxTensor *
make_input (RlxNode *node,
            double   size,
            guint    seed)
{
  RlxDataType data_type = rlx_node_get_data_type (node);
  g_autoptr (GString) type = g_string_new (rlx_data_type_to_string (data_type));
  const gint64 *shape;
  gsize n_dims;

  shape = rlx_node_get_shape (node, &n_dims);
  g_string_append_c (type, '[');
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (type, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", shape[i]);
  g_string_append_c (type, ']');
  if (data_type == RLX_DATA_TYPE_U8)
    return rlx_test_random (type->str, 0, 255, seed);
  if (data_type == RLX_DATA_TYPE_I32)
    return rlx_test_random (type->str, 0, 4, seed);
  return rlx_test_random (type->str, -size, size, seed);
}

static void
find_parameters (RlxGraph  *graph,
                 GPtrArray *names,
                 GPtrArray *parameters)
{
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);

      if (!g_str_equal (rlx_node_get_op (node), "parameter"))
        continue;
      g_ptr_array_add (names, (gpointer) rlx_node_get_name (node));
      g_ptr_array_add (parameters, make_input (node, 0.2, 100 + i));
    }
}

static void
test_case (gconstpointer data)
{
  const Case *test = data;
  g_autofree char *text = g_strconcat ("rlx 1\n", test->graph, NULL);
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) parameter_names = g_ptr_array_new_null_terminated (0, NULL, TRUE);
  g_autoptr (GPtrArray) parameters = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;
  g_autofree RlxTensor **outputs = NULL;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  graph = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  names = rlx_graph_dup_input_names (graph);
  for (guint i = 0; names[i] != NULL; i++)
    g_ptr_array_add (inputs, make_input (rlx_graph_lookup (graph, names[i]), 2, i + 1));
  find_parameters (graph, parameter_names, parameters);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==, test->dispatches);
  g_assert_true (test->has == NULL || has_kernel (executable, test->has));
  g_assert_false (test->has_not != NULL && has_kernel (executable, test->has_not));

  if (parameters->len > 0)
    rlx_executable_set_parameters (executable, (const char *const *) parameter_names->pdata, (RlxTensor **) parameters->pdata,
                                   parameters->len, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_reference_run (graph, (RlxTensor **) inputs->pdata, inputs->len,
                                (const char *const *) parameter_names->pdata, (RlxTensor **) parameters->pdata, parameters->len,
                                RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < n_outputs; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        {
          g_test_message ("output %" G_GSIZE_FORMAT ": element %" G_GSIZE_FORMAT " is %.9g instead of %.9g (bound %.3g)", i,
                          check.first_wrong, check.got, check.expected, check.bound);
          g_test_fail ();
        }
      g_assert_cmpuint (check.n_unknown, ==, 0);
      g_object_unref (outputs[i]);
    }
}

/* A disabled pass leaves the graph as it is. */
static void
test_left_out (void)
{
  g_autofree char *text = g_strconcat ("rlx 1\n", cases[0].graph, NULL);
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, NULL);
  RlxDebugFlags flags = rlx_debug_get_flags ();

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxExecutable) executable = NULL;

      rlx_debug_set_flags (flags | (i == 0 ? RLX_DEBUG_NO_RECOGNISE : RLX_DEBUG_NO_JOIN));
      executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
      rlx_debug_set_flags (flags);
      g_assert_no_error (error);
      g_assert_true (has_kernel (executable, "softmax") == (i == 0));
      g_assert_true (has_kernel (executable, "attention") == (i == 1));
    }
}

/* A chain as long as a hostile graph may have must not exhaust the stack. */
static void
test_long_chain (void)
{
  g_autoptr (GString) text = g_string_new ("rlx 1\n%0 = input \"q\" f32[3, 4]\n%1 = input \"v\" f32[3, 4]\n"
                                           "%2 = constant f32[] [1.0000001]\n%3 = matmul(%0, %1) {transpose_b = true}\n");
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GError) error = NULL;
  guint n = 20000;

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < n; i++)
    g_string_append_printf (text, "%%%u = mul(%%%u, %%2)\n", 4 + i, 3 + i);
  g_string_append_printf (text, "%%%u = softmax(%%%u) {axis = -1}\n%%%u = matmul(%%%u, %%1)\noutput \"y\" %%%u\n",
                          4 + n, 3 + n, 5 + n, 4 + n, 5 + n);
  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (has_kernel (executable, "attention"));
  g_assert_false (has_kernel (executable, "softmax"));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/recognise/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/recognise/left-out", test_left_out);
  g_test_add_func ("/recognise/long-chain", test_long_chain);

  return g_test_run ();
}
