# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Graphs as folders for browsers, each with inputs and the outputs of the library for several runs.

`cases.json`, next to the folders of the exports, lists them: name, folder, runs, and what is set between these. Arrays are
files in the format of JavaScript's typed arrays.
"""
import json
import os
import tempfile

import gi
import numpy as np
import onnx_file

gi.require_version('Rlx', '1.0')
from gi.repository import Gio, Rlx

# The plans of each export, the most demanding first.
TARGETS = ['lavapipe', 'swiftshader', 'minimum-f16', 'minimum']

# Other devices add in another order: as for `rlx demo`, relative to the size of the results. Half floats have 11 bits.
TOLERANCE = 1e-4
TOLERANCE_F16 = 2 ** -9


def random(seed, *shape, dtype=np.float32):
    values = np.random.default_rng(seed).standard_normal(shape)
    return (values if dtype in (np.float32, np.float16) else values * 50).astype(dtype)


def encoder():
    """A transformer encoder with seeded weights: a gather, norms, products, attention."""
    n, width, heads = 24, 64, 4
    g = Rlx.Graph()
    h = g.constant(random(0, 100, width)).gather(g.input('tokens', 'i32', [n]), 0)
    for i in range(2):
        x = h.layer_norm()
        q, k, v = ((x @ g.constant(random(10 * i + j + 1, width, width) / 8)).reshape(n, heads, width // heads) for j in range(3))
        seen = q.reshape(1, n, heads, width // heads).attention(
            k.reshape(1, n, heads, width // heads), v.reshape(1, n, heads, width // heads), layout='sequence-first')
        h = h + seen.reshape(n, width) @ g.constant(random(10 * i + 4, width, width) / 8)
        h = h + (h.layer_norm() @ g.constant(random(10 * i + 5, width, 128) / 8)).gelu() @ g.constant(random(10 * i + 6, 128, width) / 11)
    g.output('y', h.layer_norm())
    return g, [{'tokens': np.arange(n, dtype=np.int32) * 3}]


def convolutions():
    g = Rlx.Graph()
    x = g.input('x', 'f32', [1, 1, 28, 28])
    x = x.conv(g.constant(random(1, 8, 1, 5, 5) / 5), g.constant(random(2, 8)), padding=[2, 2, 2, 2]).relu()
    x = x.max_pool(window=[2, 2], strides=[2, 2])
    x = x.conv(g.constant(random(3, 16, 8, 3, 3) / 8), g.constant(random(4, 16)), padding=[1, 1, 1, 1]).relu()
    x = x.max_pool(window=[2, 2], strides=[2, 2]).reshape(1, 16 * 7 * 7)
    g.output('y', (x @ g.constant(random(5, 784, 10) / 28)).softmax(-1))
    return g, [{'x': random(6, 1, 1, 28, 28)}]


def states():
    """A sum over the runs, a state with initial values, and a position that counts."""
    g = Rlx.Graph()
    x = g.input('x', 'f32', [5])
    total = g.state('total', np.zeros(5, np.float32))
    place = g.state('place', np.array([7], np.int32))
    g.assign(total, total * 0.5 + x)
    g.assign(place, place + g.constant(np.array([1], np.int32)))
    g.output('before', total)
    g.output('after', total * 0.5 + x)
    g.output('place', place)
    return g, [{'x': random(i, 5)} for i in range(3)]


def prologue():
    """Values that depend only on parameters are computed once, and again when one is set."""
    g = Rlx.Graph()
    w = g.parameter('w', 'f32', [33, 20])
    scale = g.parameter('scale', 'f32', [20])
    g.output('y', g.input('x', 'f32', [6, 33]) @ (w * scale.exp()))
    g.output('z', g.input('v', 'f32', [4, 33]) @ w)
    x = {'x': random(1, 6, 33), 'v': random(2, 4, 33)}
    return g, [x, dict(x, set={'w': random(3, 33, 20), 'scale': random(4, 20)})], {'w': random(5, 33, 20), 'scale': random(6, 20)}


def halves():
    g = Rlx.Graph()
    x = g.input('x', 'f16', [7, 30])
    g.output('y', (x @ g.constant(random(1, 30, 9).astype(np.float16))).tanh())
    g.output('z', x + x)
    return g, [{'x': random(2, 7, 30, dtype=np.float16)}]


def wide():
    """64-bit integers at the ends of the range, small ones, and booleans."""
    g = Rlx.Graph()
    i, u = g.input('i', 'i64', [5]), g.input('u', 'u64', [3])
    b, s = g.input('b', 'bool', [7]), g.input('s', 'i8', [2, 3])
    g.output('i', i * 3)
    g.output('u', u + u)
    g.output('b', b.logical_not())
    g.output('s', s.transpose([1, 0]))
    g.output('taken', g.constant(random(1, 9, 2)).gather(i.abs(), 0))
    return g, [{'i': np.array([-8, 0, 5, 7, -1]), 'u': np.array([0, 2 ** 31, 9], np.uint64), 'b': np.array([0, 1, 1, 0, 1, 0, 0], bool),
                's': np.array([[1, -2, 3], [-128, 127, 0]], np.int8)}]


def packed():
    """Products with packed weights, as a constant and as a parameter: GGUF's q4_0 and q8_0."""
    rng = np.random.default_rng(3)

    def blocks(rows, n, size):
        bytes_ = rng.integers(0, 256, (rows, n, size), np.uint8)
        bytes_[:, :, :2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
        return bytes_.reshape(rows, n * size)
    g = Rlx.Graph()
    x = g.input('x', 'f32', [3, 64])
    g.output('y', x.dequant_matmul(g.constant(blocks(48, 2, 18)), type='q4-0'))
    g.output('z', x.dequant_matmul(g.parameter('w', 'u8', [40, 68]), type='q8-0'))
    return g, [{'x': random(1, 3, 64)}], {'w': blocks(40, 2, 34)}


def numbers():
    """Random numbers are the same everywhere."""
    g = Rlx.Graph()
    key = g.input('key', 'u32', [2])
    g.output('bits', key.random_bits([2, 7]))
    g.output('uniform', key.random_uniform([33]))
    g.output('normal', key.random_normal([10, 10]))
    return g, [{'key': np.array([1, 2], np.uint32)}, {'key': np.array([2 ** 32 - 1, 0], np.uint32)}]


def edges():
    """Outputs that are inputs and constants, the same one twice, and tensors without elements."""
    g = Rlx.Graph()
    x, none = g.input('x', 'f32', [3, 2]), g.input('none', 'f32', [0, 4])
    g.output('x', x)
    g.output('again', x)
    g.output('seven', g.constant(np.array([7, 8, 9], np.float32)))
    g.output('none', none + none)
    g.output('sum', none.reduce_sum(axes=[0]))
    g.output('“quoted\\', x.transpose([1, 0]))
    return g, [{'x': random(1, 3, 2), 'none': np.zeros((0, 4), np.float32)}]


def model():
    """From an ONNX file, with an unknown number of rows."""
    content = onnx_file.make((random(1, 12, 10) / 3).tolist(), random(2, 10).tolist())
    with tempfile.NamedTemporaryFile(suffix='.onnx') as file:
        file.write(content)
        file.flush()
        g = Rlx.Model.open(Gio.File.new_for_path(file.name), None).build({'rows': 7})
    return g, [{'x': random(3, 7, 12)}]


CASES = [encoder, convolutions, states, prologue, halves, wide, packed, numbers, edges, model]


def to_bytes(values):
    """As in JavaScript: booleans are bytes."""
    return np.ascontiguousarray(values).tobytes()


def tolerance(values):
    if values.dtype not in (np.float32, np.float16) or values.size == 0:
        return 0
    largest = float(np.abs(values[np.isfinite(values)].astype(np.float64)).max(initial=0))
    return largest * (TOLERANCE if values.dtype == np.float32 else TOLERANCE_F16)


def write_arrays(folder, prefix, arrays):
    entries = {}
    for i, (name, values) in enumerate(arrays.items()):
        file = f'{prefix}-{i}.bin'
        with open(os.path.join(folder, file), 'wb') as out:
            out.write(to_bytes(values))
        entries[name] = {'file': file, 'tolerance': tolerance(values)}
    return entries


def tensor(values):
    return values if isinstance(values, Rlx.Tensor) else Rlx.Tensor.from_array(np.ascontiguousarray(values))


def write_case(folder, name, device, graph, runs, parameters=None):
    """Runs a graph here, and exports it."""
    parameters = parameters or {}
    here = os.path.join(folder, name)
    os.makedirs(here)
    executable = device.compile(graph)
    executable.set_parameters(list(parameters), [tensor(value) for value in parameters.values()])
    case = {'name': name, 'runs': []}
    names = executable.get_output_names()
    export = Rlx.WebExport.new(graph)
    export.set_targets(TARGETS)
    export.set_parameters(list(parameters), [tensor(value) for value in parameters.values()])
    for i, arrays in enumerate(runs):
        inputs = dict(arrays)
        changed = inputs.pop('set', {})
        if changed:
            executable.set_parameters(list(changed), [tensor(value) for value in changed.values()])
        given = [tensor(inputs[port.get_name()]) for port in executable.get_inputs()]
        outputs = executable.run(given)
        if i == 0:
            export.set_check(given, outputs, max([tolerance(np.asarray(output)) for output in outputs], default=0))
        case['runs'].append({
            'set': write_arrays(here, f'set-{i}', changed),
            'inputs': write_arrays(here, f'in-{i}', inputs),
            'outputs': write_arrays(here, f'out-{i}', {name: np.asarray(output) for name, output in zip(names, outputs)}),
        })
    export.write(Gio.File.new_for_path(here))
    return case


def write(folder):
    device = Rlx.Device.get_default()
    cases = [write_case(folder, make.__name__, device, *make()) for make in CASES]
    with open(os.path.join(folder, 'cases.json'), 'w', encoding='utf-8') as file:
        json.dump(cases, file)
    return cases
