# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A small network as an ONNX file: y = softmax(x · w + b), with an unknown number of rows."""
import struct

FLOAT = 1


def varint(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data) + bytes([value])


def message(*fields):
    """A message from pairs of a field's number and its value: an integer, text or bytes."""
    data = b''
    for number, value in fields:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(value)) + value
    return data


def port(name, *shape):
    dims = [(1, message((2, size) if isinstance(size, str) else (1, size))) for size in shape]
    return message((1, name), (2, message((1, message((1, FLOAT), (2, message(*dims)))))))


def constant(name, shape, values):
    return message(*((1, size) for size in shape), (2, FLOAT), (8, name), (9, struct.pack(f'<{len(values)}f', *values)))


def node(op, inputs, output):
    return message(*((1, name) for name in inputs), (2, output), (4, op))


def make(weights, bias):
    """weights: rows of numbers; bias: a number per column."""
    inner, width = len(weights), len(bias)
    graph = message(
        (1, node('MatMul', ['x', 'w'], 'h')), (1, node('Add', ['h', 'b'], 's')), (1, node('Softmax', ['s'], 'y')), (2, 'small'),
        (5, constant('w', [inner, width], [value for row in weights for value in row])), (5, constant('b', [width], bias)),
        (11, port('x', 'rows', inner)), (12, port('y', 'rows', width)))
    return message((1, 8), (7, graph), (8, message((1, ''), (2, 17))))
