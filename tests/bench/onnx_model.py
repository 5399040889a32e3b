# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the workloads as ONNX models, for contenders that run these.

A model is a protobuf message; this implements just as much of the format as is needed. Constants stay in the files that
all contenders share (“external data”). Networks are written as the usual tools leave them after fusing: with the
contributed operators for attention, for a sum with its layer norm and for GELU, for which both providers of ONNX Runtime
have kernels.
"""

import os
import struct

TYPES = {'f32': 1, 'i32': 6, 'i64': 7, 'f16': 10}
CONTRIBUTED = 'com.microsoft'


# --- The wire format --------------------------------------------------------------------------------------------------

def _varint(value):
    value &= (1 << 64) - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def _integer(field, value):
    return _varint(field << 3) + _varint(value)


def _bytes(field, value):
    if isinstance(value, str):
        value = value.encode()
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _float(field, value):
    return _varint(field << 3 | 5) + struct.pack('<f', value)


def _attribute(name, value):
    data = _bytes(1, name)
    if isinstance(value, float):
        return data + _float(2, value) + _integer(20, 1)
    if isinstance(value, int):
        return data + _integer(3, value) + _integer(20, 2)
    if isinstance(value, str):
        return data + _bytes(4, value) + _integer(20, 3)
    return data + b''.join(_integer(8, i) for i in value) + _integer(20, 7)


def _value_info(tensor):
    shape = b''.join(_bytes(1, _integer(1, n)) for n in tensor['shape'])
    return _bytes(1, tensor['name']) + _bytes(2, _bytes(1, _integer(1, TYPES[tensor['type']]) + _bytes(2, shape)))


def _initializer(tensor):
    data = b''.join(_integer(1, n) for n in tensor['shape']) + _integer(2, TYPES[tensor['type']]) + _bytes(8, tensor['name'])
    for key, value in ('location', tensor['file']), ('offset', str(tensor['offset'])), ('length', str(tensor['length'])):
        data += _bytes(13, _bytes(1, key) + _bytes(2, value))
    return data + _integer(14, 1)


# --- Graphs -----------------------------------------------------------------------------------------------------------

class _Graph:
    def __init__(self, workload, fused_attention):
        self.fused_attention = fused_attention
        self.tensors = {tensor['name']: tensor for tensor in workload['tensors']}
        self.workload, self.nodes, self.used, self.extra, self.count = workload, [], set(), b'', 0

    def add(self, op, inputs, outputs=None, domain='', **attributes):
        """Adds a node; returns the name of its (first) result."""
        if outputs is None:
            self.count += 1
            outputs = [f't{self.count}']
        self.used.update(inputs)
        self.nodes.append(
            b''.join(_bytes(1, name) for name in inputs) + b''.join(_bytes(2, name) for name in outputs) +
            _bytes(3, f'n{len(self.nodes)}') + _bytes(4, op) +
            b''.join(_bytes(5, _attribute(name, value)) for name, value in attributes.items()) + _bytes(7, domain))
        return outputs[0]

    def integers(self, name, values):
        self.extra += _bytes(5, _integer(1, len(values)) + _integer(2, TYPES['i64']) + _bytes(8, name) +
                             _bytes(9, struct.pack(f'<{len(values)}q', *values)))
        return name

    def number(self, name, value):
        if name not in self.used:
            self.used.add(name)
            self.extra += _bytes(5, _integer(2, TYPES['f32']) + _bytes(8, name) + _bytes(9, struct.pack('<f', value)))
        return name

    def serialize(self):
        graph = b''.join(_bytes(1, node) for node in self.nodes) + _bytes(2, self.workload['name']) + self.extra
        for tensor in self.tensors.values():
            if tensor['role'] == 'input':
                graph += _bytes(11, _value_info(tensor))
            elif tensor['role'] == 'output':
                graph += _bytes(12, _value_info(tensor))
            elif tensor['name'] in self.used:
                graph += _bytes(5, _initializer(tensor))
        return (_integer(1, 8) + _bytes(2, 'rlx-wgpu') + _bytes(7, graph) + _bytes(8, _bytes(1, '') + _integer(2, 17)) +
                _bytes(8, _bytes(1, CONTRIBUTED) + _integer(2, 1)))


def _linear(graph, x, name):
    return graph.add('Add', [graph.add('MatMul', [x, f'{name}.weight']), f'{name}.bias'])


def _encoder(graph):
    batch, sequence, width, heads, _, layers = graph.workload['size'][:6]
    split = graph.integers('split', [batch, sequence, heads, width // heads])
    flat = graph.integers('flat', [batch, sequence, width])

    def split_heads(x, name, order):
        return graph.add('Transpose', [graph.add('Reshape', [_linear(graph, x, name), split])], perm=order)

    def attention(x, i):
        if graph.fused_attention:
            return graph.add('Attention', [x, f'{i}.qkv.weight', f'{i}.qkv.bias'], None, CONTRIBUTED, num_heads=heads)
        q, v = (split_heads(x, f'{i}.{name}', [0, 2, 1, 3]) for name in ('query', 'value'))
        y = _attend(graph, q, split_heads(x, f'{i}.key', [0, 2, 3, 1]), v, width // heads)
        return graph.add('Reshape', [graph.add('Transpose', [y], perm=[0, 2, 1, 3]), flat])

    def add_norm(x, residual, linear, norm, output=None):
        return graph.add('SkipLayerNormalization', [graph.add('MatMul', [x, f'{linear}.weight']), residual, f'{norm}.scale',
                                                    f'{norm}.bias', f'{linear}.bias'], output, CONTRIBUTED, epsilon=1e-5)

    x = graph.add('Add', [graph.add('Gather', ['words', 'tokens'], axis=0), 'positions'])
    x = graph.add('LayerNormalization', [x, 'norm.scale', 'norm.bias'], axis=-1, epsilon=1e-5)
    for i in range(layers):
        x = add_norm(attention(x, i), x, f'{i}.out', f'{i}.norm1')
        up = graph.add('BiasGelu', [graph.add('MatMul', [x, f'{i}.up.weight']), f'{i}.up.bias'], None, CONTRIBUTED)
        x = add_norm(up, x, f'{i}.down', f'{i}.norm2', ['y'] if i == layers - 1 else None)


def _attend(graph, q, k, v, width, output=None):
    """Attention in separate steps; k is already transposed."""
    scores = graph.add('Mul', [graph.add('MatMul', [q, k]), graph.number('scale', width ** -0.5)])
    return graph.add('MatMul', [graph.add('Softmax', [scores], axis=-1), v], output)


def _attention(graph):
    heads, width, queries, _ = graph.workload['size'][:4]
    if not graph.fused_attention and queries > 1:
        _attend(graph, 'q', graph.add('Transpose', ['k'], perm=[0, 1, 3, 2]), 'v', width, ['y'])
        return
    # This operator wants [batch, sequence, heads · width], and also takes key and value as [batch, heads, …].
    flat = graph.integers('flat', [1, queries, heads * width])
    split = graph.integers('split', [1, queries, heads, width])
    q = graph.add('Reshape', [graph.add('Transpose', ['q'], perm=[0, 2, 1, 3]), flat])
    y = graph.add('MultiHeadAttention', [q, 'k', 'v'], None, CONTRIBUTED, num_heads=heads)
    graph.add('Transpose', [graph.add('Reshape', [y, split])], ['y'], perm=[0, 2, 1, 3])


def _elementwise(graph):
    y = graph.add('Add', [graph.add('Mul', ['x', 'scale']), 'bias'])
    y = graph.add('Mul', [graph.add('Gelu', [y], None, CONTRIBUTED), graph.add('Sigmoid', ['x'])])
    graph.add('Sub', [graph.add('Tanh', [y]), graph.add('Abs', ['x'])], ['y'])


def _conv(graph, inputs, outputs=None):
    return graph.add('Conv', inputs, outputs, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def _resnet_block(graph):
    y = graph.add('Relu', [_conv(graph, ['x', 'filter', 'bias'])])
    y = graph.add('Add', [_conv(graph, [y, 'filter2', 'bias2']), 'x'])
    graph.add('Relu', [y], ['y'])


_BUILDERS = {
    'matmul': lambda graph: graph.add('MatMul', ['x', 'w'], ['y']),
    'encoder': _encoder,
    'attention': _attention,
    'softmax': lambda graph: graph.add('Softmax', ['x'], ['y'], axis=-1),
    'layer-norm': lambda graph: graph.add('LayerNormalization', ['x', 'norm.scale', 'norm.bias'], ['y'], axis=-1, epsilon=1e-5),
    'elementwise': _elementwise,
    'transpose': lambda graph: graph.add('Transpose', ['x'], ['y'], perm=[1, 0]),
    'reduce': lambda graph: graph.add('ReduceSum', ['x', graph.integers('axes', [1])], ['y'], keepdims=0),
    'gather': lambda graph: graph.add('Gather', ['table', 'indices'], ['y'], axis=0),
    'conv': lambda graph: _conv(graph, ['x', 'filter', 'bias'], ['y']),
    'resnet-block': _resnet_block,
    'fft': lambda graph: graph.add('DFT', ['x'], ['y'], axis=1),
    'tiny': lambda graph: graph.add('Add', ['x', 'x'], ['y']),
}


def has_model(workload):
    return workload['family'] in _BUILDERS


def write_model(workload, folder, provider):
    """Writes the model into the folder with its data; returns its path."""
    # ONNX Runtime 1.30's fused attention for several queries gives wrong results on WebGPU with a driver that uses the CPU,
    # so it gets separate steps there.
    graph = _Graph(workload, fused_attention=provider == 'cpu')
    _BUILDERS[workload['family']](graph)
    path = os.path.join(folder, f'{workload["data"]}.{provider}.onnx')
    with open(path + f'.{os.getpid()}', 'wb') as file:
        file.write(graph.serialize())
    os.replace(file.name, path)
    return path
