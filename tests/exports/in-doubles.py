# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Evaluates a quantised model with everything between its integers in double precision: python3 in-doubles.py MODEL.onnx INPUT
RESULTS.npz, in the root that `./dev peers` makes. RESULTS has the input as `x`; it gets `doubles`, and the results of ONNX
Runtime in f32, without and with its optimisations."""
import subprocess
import sys
import warnings

import numpy as np


def run_here(path, name, results):
    """In a process of its own: both `onnxruntime` and `onnx` register operators, and complain about each other's."""
    import onnxruntime as ort
    arrays = dict(np.load(results))
    for key, level in ('plain', ort.GraphOptimizationLevel.ORT_DISABLE_ALL), ('optimised', ort.GraphOptimizationLevel.ORT_ENABLE_ALL):
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level, options.graph_optimization_level = 1, 3, level
        arrays[key], = ort.InferenceSession(path, options, providers=['CPUExecutionProvider']).run(None, {name: arrays['x']})
    np.savez(results, **arrays)


def operators():
    import torch
    from onnx.reference.op_run import OpRun
    torch.set_num_threads(1)

    class DynamicQuantizeLinear(OpRun):
        op_domain = ''

        def _run(self, x):
            low, high = min(x.min(), 0), max(x.max(), 0)
            scale = (high - low) / 255
            zero = np.clip(np.rint(-low / scale), 0, 255)
            return (np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.asarray(scale), np.asarray(zero, np.uint8))

    class MatMulInteger(OpRun):
        op_domain = ''

        def _run(self, a, b, zero_a=0, zero_b=0):
            return ((a.astype(np.float64) - zero_a) @ (b.astype(np.float64) - zero_b)).astype(np.int32),

    class Erf(OpRun):
        op_domain = ''

        def _run(self, x):
            return torch.erf(torch.from_numpy(x.copy())).numpy(),

    class Conv(OpRun):
        op_domain = ''

        def _run(self, x, w, b=None, strides=None, pads=None, **_):
            assert not pads or pads[0] == pads[1]
            x, w, b = (value if value is None else torch.from_numpy(value.copy()) for value in (x, w, b))
            return torch.nn.functional.conv1d(x, w, b, stride=strides[0], padding=pads[0] if pads else 0).numpy(),

    return [DynamicQuantizeLinear, MatMulInteger, Erf, Conv]


def widen(model):
    """Turns all floats into doubles."""
    import onnx
    from onnx import numpy_helper

    def change(tensor):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))

    for tensor in model.graph.initializer:
        change(tensor)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField('t'):
                change(attribute.t)
            if node.op_type == 'Cast' and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return model


def main(path, name, results, here=None):
    if here:
        return run_here(path, name, results)
    import onnx
    from onnx.reference import ReferenceEvaluator
    warnings.filterwarnings('ignore')
    subprocess.run([sys.executable, __file__, path, name, results, 'here'], check=True)
    arrays = dict(np.load(results))
    evaluator = ReferenceEvaluator(widen(onnx.load(path)), new_ops=operators())
    arrays['doubles'], = evaluator.run(None, {name: arrays['x'].astype(np.float64)})
    np.savez(results, **arrays)


if __name__ == '__main__':
    main(*sys.argv[1:])
