# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Graphs for the kernels that the calls of the property tests do not reach: those for large tensors, for parameters,
for every packed format, and with other operators fused in."""

import base64
import math

FLOATS = 'f32', 'f16'
# The numbers and bytes of a block.
PACKED = {
    'q4-0': (32, 18), 'q4-1': (32, 20), 'q5-0': (32, 22), 'q5-1': (32, 24), 'q8-0': (32, 34), 'q2-k': (256, 84),
    'q3-k': (256, 110), 'q4-k': (256, 144), 'q5-k': (256, 176), 'q6-k': (256, 210), 'q8-k': (256, 292),
    'iq2-xxs': (256, 66), 'iq2-xs': (256, 74), 'iq3-xxs': (256, 98), 'iq1-s': (256, 50), 'iq4-nl': (32, 18),
    'iq3-s': (256, 110), 'iq2-s': (256, 82), 'iq4-xs': (256, 136), 'iq1-m': (256, 56), 'bf16': (1, 2),
    'tq1-0': (256, 54), 'tq2-0': (256, 66), 'mxfp4': (32, 17), 'nvfp4': (64, 36), 'q1-0': (128, 18), 'q2-0': (64, 18),
}
# Numbers per byte; their scales are separate.
SCALED = {'int2': 4, 'int4': 2, 'int8': 1, 'f8-e4m3': 1, 'f8-e5m2': 1}


class Graph:
    """A graph in text form. Operands are values, types of new inputs, or None."""

    def __init__(self, precision='full'):
        self.lines = ['rlx 1', f'precision {precision}']
        self.n_values = 0
        self.n_outputs = 0

    def leaf(self, kind, type):
        name = f'%{self.n_values}'
        self.lines.append(f'{name} = {kind} "x{self.n_values}" {type}')
        self.n_values += 1
        return name

    def input(self, type):
        return self.leaf('input', type)

    def parameter(self, type):
        return self.leaf('parameter', type)

    def update(self, type, op, *operands, **attributes):
        """A zero-initialised state of a byte-sized or larger type, which is assigned the result of an operator."""
        size = {'f32': 4, 'f16': 2, 'u8': 1}[type.split('[')[0]] * math.prod(map(int, type.split('[')[1].strip(']').split(',')))
        state = self.leaf('state', f'{type} base64:"{base64.b64encode(bytes(size)).decode()}"')
        value = self.add(op, state, *operands, **attributes)
        self.lines.append(f'assign {state} {value}')
        return value

    def add(self, op, *operands, results=1, **attributes):
        operands = [self.input(o) if o and o[0] != '%' else o or '_' for o in operands]
        values = [f'%{self.n_values + i}' for i in range(results)]
        self.n_values += results
        text = ', '.join(f'{key} = {str(value).lower()}' for key, value in attributes.items())
        self.lines.append(f'{", ".join(values)} = {op}({", ".join(operands)})' + (f' {{{text}}}' if text else ''))
        return values if results > 1 else values[0]

    def output(self, *values):
        for value in values:
            self.lines.append(f'output "y{self.n_outputs}" {value}')
            self.n_outputs += 1

    def call(self, *arguments, **attributes):
        values = self.add(*arguments, **attributes)
        self.output(*([values] if isinstance(values, str) else values))

    def __str__(self):
        return '\n'.join(self.lines) + '\n'


def products(g, t):
    """With parameters, which are packed for a CPU, and with inputs: tiles of each size, long sums, few rows, stacks."""
    for m, k, n in (1, 1024, 1024), (4, 512, 64), (33, 499, 40), (512, 512, 512), (64, 70, 75):
        g.call('linear', f'{t}[{m}, {k}]', g.parameter(f'{t}[{k}, {n}]'), g.parameter(f'{t}[{n}]'))
    for m in 6, 64:
        g.call('linear', f'{t}[{m}, 384]', g.parameter(f'{t}[1536, 384]'), transpose_b=True)
        x = g.input(f'{t}[{m}, 384]')
        for _ in range(3):
            g.call('linear', x, g.parameter(f'{t}[384, 384]'), g.parameter(f'{t}[384]'))
    for a, b in (
        ('2048, 256', '256, 2048'), ('512, 512', '512, 512'), ('100, 64', '64, 100'), ('64, 4096', '4096, 64'),
        ('8, 4096', '4096, 4096'), ('1, 4096', '4096, 4096'), ('1, 8192', '8192, 1'), ('500, 499', '499, 3'),
        ('6, 128, 64', '6, 64, 128'), ('4, 300', '300, 250'), ('2, 66', '66, 250'),
    ):
        g.call('matmul', f'{t}[{a}]', f'{t}[{b}]')
    for a, b in ('512, 256', '512, 256'), ('1, 4096', '4096, 4096'), ('6, 128, 64', '6, 128, 64'):
        g.call('matmul', f'{t}[{a}]', f'{t}[{b}]', transpose_b=True)
    g.call('matmul', f'{t}[256, 512]', f'{t}[256, 512]', transpose_a=True)
    for m, k in (1, 4096), (3, 1032), (2, 68):
        g.call('linear', f'{t}[{m}, {k}]', g.parameter(f'{t}[300, {k}]'), transpose_b=True)
    g.call('matmul', f'{t}[3, 2000, 64]', f'{t}[3, 2, 64]', transpose_b=True)


def odd_products(g, t):
    """Sums of odd length, small enough for every device: the last steps are done one by one."""
    for m in 1, 33:
        g.call('linear', f'{t}[{m}, 199]', g.parameter(f'{t}[199, 40]'), g.parameter(f'{t}[40]'))
        g.call('matmul', f'{t}[{m}, 199]', f'{t}[199, 40]')


def epilogues(g, t):
    """Operators after a product, a convolution, a norm or a softmax are fused into its kernel."""
    for m, n in (100, 384), (100, 2048), (2, 40000):
        x = g.input(f'{t}[{m}, {n}]')
        g.call('add', g.add('layer_norm', x), x)
        g.call('tanh', g.add('rms_norm', x, f'{t}[{n}]'))
        g.call('log', g.add('softmax', x, axis=1))
    for m in 1, 4, 64:
        weight = g.parameter('u8[512, 36]')
        g.call('silu', g.add('dequant_matmul', f'{t}[{m}, 64]', weight, type='q4-0'))
        g.call('silu', g.add('dequant_matmul', f'{t}[{m}, 64]', g.parameter('u8[2, 512, 36]'), None, None, None, f'i32[{m}]',
                             type='q4-0'))
    for m in 1, 64, 300:
        x = g.input(f'{t}[{m}, 384]')
        y = g.add('gelu', g.add('linear', x, g.parameter(f'{t}[384, 384]'), g.parameter(f'{t}[384]')))
        y = g.add('linear', y, g.parameter(f'{t}[384, 384]'), g.parameter(f'{t}[384]'))
        g.call('add', y, x)
        g.call('relu', g.add('matmul', x, f'{t}[384, 70]'))
        g.call('qkv_linear', x, g.parameter(f'{t}[384, 1152]'), g.parameter(f'{t}[1152]'), results=3, query_size=384,
               key_size=384)
    for x, f, attributes in (
        ('16, 56, 56', '32, 16, 3, 3', {'padding': [1, 1, 1, 1]}),
        ('64, 28, 28', '64, 64, 1, 1', {}),
        ('32, 28, 28', '32, 1, 3, 3', {'groups': 32}),
        ('3, 224, 224', '64, 3, 7, 7', {'strides': [2, 2], 'padding': [3, 3, 3, 3]}),
        ('256, 7, 7', '256, 256, 3, 3', {'padding': [1, 1, 1, 1]}),
    ):
        x = g.input(f'{t}[1, {x}]')
        bias = g.parameter(f'{t}[{f.split(",")[0]}]')
        g.call('relu', g.add('conv', x, g.parameter(f'{t}[{f}]'), bias, **attributes))
        g.call('clamp', g.add('conv', x, g.parameter(f'{t}[{f}]'), **attributes), minimum=0, maximum=6)


def convolutions(g, t):
    """As matrix products: every order of axes, groups, split sums."""
    for m, c in (64, 32), (33, 30):
        shapes = {'ois': (m, c, 3, 3), 'ios': (c, m, 3, 3), 'osi': (m, 3, 3, c), 'iso': (c, 3, 3, m),
                  'sio': (3, 3, c, m), 'soi': (3, 3, m, c)}
        for layout, shape in shapes.items():
            for size in 7, 64:
                for x, x_layout in ((c, size, size), 'first'), ((size, size, c), 'last'):
                    g.call('conv', f'{t}{[1, *x]}', g.parameter(f'{t}{list(shape)}'), g.parameter(f'{t}[{m}]'),
                           padding=[1, 1, 1, 1], layout=f'channels-{x_layout}', filter_layout=layout)
    g.call('conv', f'{t}[2, 64, 30, 30]', g.parameter(f'{t}[64, 32, 3, 3]'), g.parameter(f'{t}[64]'), groups=2)
    g.call('conv', f'{t}[2, 64, 30]', g.parameter(f'{t}[64, 64, 3]'))
    g.call('conv', f'{t}[2, 16, 32, 32]', g.parameter(f'{t}[3, 16, 5, 5]'), padding=[2, 2, 2, 2])
    g.call('conv_transpose', f'{t}[2, 16, 32, 32]', g.parameter(f'{t}[16, 24, 2, 2]'), strides=[2, 2])
    g.call('conv', f'{t}[2, 64, 9, 9, 9]', g.parameter(f'{t}[64, 64, 3, 3, 3]'))
    g.call('conv', f'{t}[2, 9, 9, 9, 64]', g.parameter(f'{t}[64, 3, 3, 3, 64]'), layout='channels-last',
           filter_layout='osi')
    for size in 5, 7:
        g.call('conv', f'{t}[2, 64, 40, 40]', g.parameter(f'{t}[64, 64, {size}, {size}]'))
        g.call('conv', f'{t}[2, 40, 40, 64]', g.parameter(f'{t}[64, {size}, {size}, 64]'), layout='channels-last', filter_layout='osi')


def reduced(g, t):
    """With matrix units: tiles of each size, edges, all transposes, stacks, long sums, and all epilogues of a product."""
    for m, k, n in (2048, 256, 2048), (1024, 64, 1024), (64, 128, 96), (101, 63, 93), (64, 4096, 64):
        g.call('linear', f'{t}[{m}, {k}]', g.parameter(f'{t}[{k}, {n}]'), g.parameter(f'{t}[{n}]'), alpha=0.5, beta=2)
        g.call('matmul', f'{t}[{k}, {m}]', g.parameter(f'{t}[{n}, {k}]'), transpose_a=True, transpose_b=True)
        g.call('matmul', g.parameter(f'{t}[{m}, {k}]'), f'{t}[{k}, {n}]')
    g.call('matmul', f'{t}[6, 128, 64]', g.parameter(f'{t}[6, 64, 128]'))
    g.call('matmul', f'{t}[64, 72]', g.parameter(f'{t}[96, 72]'), transpose_b=True)
    for m in 20, 300:
        g.call('dequant_matmul', f'{t}[{m}, 512]', g.parameter('u8[640, 288]'), None, None, f'{t}[640]', type='q4-0')
        g.call('dequant_matmul', f'{t}[{m}, 512]', g.parameter('u8[640, 220]'), type='iq3-s')
    # without a weight f32 is not narrowed
    g.call('matmul', f'{t}[1024, 68]', f'{t}[68, 1024]')
    g.call('matmul', f'{t}[1024, 64]', f'{t}[1024, 64]', transpose_b=True)
    g.call('linear', f'{t}[3, 64, 128]', g.parameter(f'{t}[128, 128]'), f'{t}[64, 1]')
    x = g.input(f'{t}[128, 384]')
    y = g.add('gelu', g.add('linear', x, g.parameter(f'{t}[384, 384]'), g.parameter(f'{t}[384]')))
    g.call('add', g.add('linear', y, g.parameter(f'{t}[384, 384]'), g.parameter(f'{t}[384]')), x)
    g.call('qkv_linear', x, g.parameter(f'{t}[384, 1152]'), g.parameter(f'{t}[1152]'), results=3, query_size=384,
           key_size=384)
    for width in 64, 128:
        kv = f'{t}[1, 2, 200, {width}]'
        g.call('attention', f'{t}[1, 8, 300, {width}]', kv, kv, causal=True)
        g.call('attention', f'{t}[1, 8, 60, {width}]', kv, kv, 'bool[200]', 'i32[1]', 'f32[8]', window=100, softcap=5)


def attention(g, t):
    """Few and many queries, every width of tiles, all ways to hide keys."""
    def call(shape, n_keys, kv_heads, *others, **attributes):
        batch, heads, queries, width = shape
        kv = f'{t}[{batch}, {kv_heads}, {n_keys}, {width}]'
        g.call('attention', f'{t}[{batch}, {heads}, {queries}, {width}]', kv, kv, *others, **attributes)

    for q in 1, 3, 8, 64, 512:
        for width in 16, 32, 63, 64, 96:
            call((1, 8, q, width), 1024, 8)
        call((1, 8, q, 64), 600, 2, 'bool[600]', causal=True)
        call((1, 8, q, 64), 600, 2, f'bool[{q}, 600]')
        call((1, 8, q, 64), 600, 8, f'f32[8, {q}, 600]', softcap=30)
        call((1, 8, q, 64), 600, 8, 'f32[600]')
        call((1, 8, q, 64), 600, 8, None, 'i32[1]', 'f32[8]', causal=True, window=100)
        call((1, 8, q, 63), 200, 8, 'bool[200]', None, 'f32[8]', window=100, softcap=5)
        call((2, 1, q, 30), 200, 1, f'bool[{q}, 200]', None, 'f32[1]')
        call((1, 32, q, 64), 100, 32, None, None, 'f32[32]')
        call((1, 32, q, 16), 100, 32)
    call((1, 12, 2048, 64), 2048, 12)
    call((1, 12, 2048, 64), 2048, 12, causal=True, softcap=9)
    call((1, 12, 2048, 66), 2048, 12, 'f32[2048, 2048]')


def caches(g, t):
    """A decoder's rotary positions and caches, in both orders of heads and tokens, with angles of every kind."""
    for tokens in 1, 9:
        for order, layout in ([1, 8, tokens, 64], 'heads-first'), ([1, tokens, 8, 64], 'sequence-first'):
            axis = order.index(tokens, 1)
            cache = f'{t}{[n if i != axis else 100 for i, n in enumerate(order)]}'
            at, p, cos, sin = g.input('i32[]'), g.input(f'i32[{tokens}]'), g.input('f32[100, 64]'), g.input('f32[100, 64]')
            for angles in (p,), (p, cos, sin), ():
                for interleaved in False, True:
                    def turn(x):
                        return g.add('rope', x, *angles, layout=layout, interleaved=interleaved)
                    q, k, v = (g.input(f'{t}{order}') for _ in range(3))
                    q, k = turn(q), g.update(cache, 'write_at', turn(k), at, axis=axis)
                    g.output(q, k, g.update(cache, 'write_at', v, at, axis=axis))
            g.output(g.update(cache, 'write_at', f'{t}{order}', at, axis=axis))
    g.output(g.update('u8[10, 30]', 'write_at', 'u8[10, 3]', 'u32[]', axis=1))


def long_rows(g, t):
    """Rows that are split, and many rows; then columns."""
    for m, n in (2, 100000), (300, 1000), (4, 70000):
        x = g.input(f'{t}[{m}, {n}]')
        for op in 'softmax', 'log_softmax', 'lp_norm':
            g.call(op, x, axis=1)
        g.call('lp_norm', x, axis=1, p=1)
        g.call('layer_norm', x)
        g.call('layer_norm', x, f'{t}[{n}]', f'{t}[{n}]')
        g.call('rms_norm', x, f'{t}[{n}]')
        g.call('residual_layer_norm', x, f'{t}[{m}, {n}]', f'{t}[{n}]', f'{t}[{n}]', f'{t}[{n}]', results=2,
               keep_sum=True)
    g.call('ada_layer_norm', f'{t}[2, 100, 2048]', f'{t}[2, 1, 2048]', f'{t}[2, 1, 2048]')
    x = g.input(f'{t}[70000, 3]')
    g.call('softmax', x, axis=0)
    g.call('layer_norm', x, axes=[0])


def elements(g, t):
    """Four at a time, or one by one if they are not contiguous."""
    x = g.input(f'{t}[300, 301]')
    g.call('tanh', x)
    g.call('add', x, f'{t}[301]')
    g.call('where', 'bool[300, 301]', x, f'{t}[300, 1]')


def backwards(g, t):
    """The gradient of a pool whose operand went through a relu; those of norms and of cross-entropy as in networks."""
    x = g.input(f'{t}[2, 3, 12, 12]')
    g.call('relu', g.add('max_pool_backward', x, f'{t}[2, 3, 6, 6]', window=[2, 2], strides=[2, 2]))
    g.call('relu', g.add('max_pool_backward', x, f'{t}[2, 3, 5, 5]', window=[3, 3], strides=[2, 2]))
    if t == 'f32':
        g.call('layer_norm_backward', 'f32[512, 128]', 'f32[512, 128]', 'f32[128]', 'f32[512, 128]', results=3)
        g.call('softmax_cross_entropy_backward', 'f32[2048, 300]', 'i32[2048]', 'f32[]')


def large_sums(g, t):
    """Sums that do not fit into a step with their norm if bindings are small."""
    g.call('residual_layer_norm', f'{t}[800, 1024]', f'{t}[800, 1024]', f'{t}[1024]', f'{t}[1024]', f'{t}[1024]',
           results=2, keep_sum=True)
    g.call('residual_rms_norm', f'{t}[2, 300000]', f'{t}[2, 300000]', f'{t}[300000]', results=2, keep_sum=True)


def reductions(g):
    """In several steps, along rows and columns."""
    for op, t in (
        ('sum', 'f32'), ('mean', 'f16'), ('max', 'f32'), ('min', 'i32'), ('prod', 'f32'), ('log_sum_exp', 'f32'),
        ('l2', 'f16'), ('sum', 'u8'), ('any', 'bool'),
    ):
        for shape, axes in ('2, 100000', [1]), ('100000, 3', [0]), ('40, 50, 60', [0, 2]), ('1000000', [0]):
            g.call('reduce_' + op, f'{t}[{shape}]', axes=axes)
    for op in 'max', 'log_sum_exp', 'l2':
        for shape in '2, 100000', '300, 40', '300, 0':
            g.call('sqrt', g.add('exp', g.add('reduce_' + op, f'f32[{shape}]', axes=[1])))


def packed(g):
    """Rows of every packed format, and products with them for one row, several and many."""
    for name, (numbers, size) in PACKED.items():
        weight = g.input(f'u8[640, {512 // numbers * size}]')
        g.call('dequantize_blocks', weight, type=name)
        for m in (1, 20) if name in ('q4-0', 'q4-k', 'iq3-s', 'bf16') else (8,):
            g.call('dequant_matmul', f'f32[{m}, 512]', weight, type=name)
    g.call('dequant_matmul', 'f32[3, 512]', 'u8[2, 640, 288]', None, None, 'f32[2, 640]', 'i32[3]', type='q4-0')


def integer_precision(g):
    """Packed products of bytes."""
    for name in 'q4-0', 'q4-1', 'q5-0', 'q5-1', 'q8-0', 'q4-k', 'q5-k', 'q6-k', 'mxfp4':
        numbers, size = PACKED[name]
        g.call('dequant_matmul', 'f32[80, 512]', g.parameter(f'u8[640, {512 // numbers * size}]'), type=name)
    g.call('silu', g.add('dequant_matmul', 'f16[80, 4096]', g.parameter('u8[64, 2304]'), None, None, 'f16[64]', type='q4-0'))


def scaled(g):
    """The same with separate scales and zero points."""
    for name, numbers in SCALED.items():
        for t in 'u8', 'i8':
            weight = g.input(f'{t}[640, {512 // numbers}]')
            for block in 512, 32, 16, 4:
                n = 512 // block
                g.call('dequantize_blocks', weight, f'f16[640, {n}]', type=name, block_size=block)
                if name[0] == 'i' and block <= 16:
                    g.call('dequantize_blocks', weight, f'f16[640, {n}]', f'f32[640, {n}]', type=name, block_size=block,
                           to='f16')
                    g.call('dequantize_blocks', weight, f'f16[640, {n}]', f'{t}[640, {-(-n // numbers)}]', type=name,
                           block_size=block)
            if name[0] == 'f':
                g.call('dequantize_blocks', weight, type=name)
            for m in 1, 3, 64:
                g.call('dequant_matmul', f'f16[{m}, 512]', weight, 'f32[640, 16]', None, 'f16[640]', type=name,
                       block_size=32)
        g.call('dequant_matmul', 'f32[6, 508]', f'u8[24, {508 // numbers}]', 'f32[24, 16]', type=name, block_size=32)


def integers(g):
    for a in 'i8', 'u8':
        for b in 'i8', 'u8':
            for m in 1, 4, 600:
                g.call('qmatmul', f'{a}[{m}, 256]', f'{b}[256, 512]', f'{a}[]', f'{b}[]')
                g.call('qmatmul', f'{a}[{m}, 256]', f'{b}[512, 256]', None, None, None, 'f32[512]', 'f32[]', f'{a}[]',
                       to=a, transpose_b=True)
                g.call('qmatmul', f'{a}[{m}, 256]', f'{b}[512, 256]', f'{a}[]', f'{b}[]', transpose_b=True)
                g.call('qmatmul', f'{a}[{m}, 255]', f'{b}[255, 33]', f'{a}[{m}, 1]', f'{b}[1, 33]', 'f32[33]',
                       'f32[33]', to='f32')
    x = g.input('f32[64, 33]')
    g.call('quantize_linear', x, 'f32[33]', 'i32[33]', to='i32')
    g.call('quantize_linear', x, 'f32[33]', to='i32')
    g.call('fake_quantize', x)
    g.call('fake_quantize', x, symmetric=False)
    # a scale times that of a weight
    for n in 40, 1000:
        levels, scale, zero = g.add('dynamic_quantize', f'f32[{n}, 64]', results=3)
        g.output(levels, zero, g.add('mul', scale, g.parameter('f32[8]')))


def sequences(g, t):
    """Long ones, whose chunks a GPU computes in parallel, with a state and without."""
    rows, values, gates = f'{t}[1, 4096, 2, 16]', f'{t}[1, 4096, 2, 24]', f'{t}[1, 4096, 2]'
    for state in None, 'f32[1, 2, 16, 24]':
        g.call('gated_delta_net', rows, rows, values, gates, gates, state, results=2)
        g.call('rwkv6', rows, rows, values, 'f32[1, 4096, 2, 16]', 'f32[2, 16]', state, results=2)
        g.call('rwkv7', rows, rows, values, 'f32[1, 4096, 2, 16]', rows, rows, state, results=2)
    for state in None, 'f32[1, 24, 16]':
        g.call('selective_scan', f'{t}[1, 4096, 24]', f'{t}[1, 4096, 24]', 'f32[24, 16]', f'{t}[1, 4096, 16]', f'{t}[1, 4096, 16]',
               'f32[24]', state, results=2)
    # More rows than fit the registers of an invocation, but those of four or eight.
    for n in 64, 128:
        many = f'{t}[1, 9, 2, {n}]'
        g.call('gated_delta_net', many, many, many, results=2)
    # More rows than fit into registers.
    wide = f'{t}[1, 9, 2, 200]'
    for decay in f'{t}[1, 9, 2]', wide:
        g.call('gated_delta_net', wide, wide, f'{t}[1, 9, 2, 24]', decay, results=2)
    g.call('mamba2', values, gates, 'f32[2]', rows, rows, 'f32[2]', None, results=2)
    key, state = 'f32[9, 2, 16]', 'f32[2, 16, 24]'
    g.call('recurrence_states', key, 'f32[9, 2, 24]', key, key, key, state)
    g.call('recurrence_states', key, 'f32[9, 2, 24]')
    g.call('recurrence_states', 'f32[9000, 2, 16]', 'f32[9000, 2, 24]', None, None, None, state)
    g.call('recurrence_states', 'f32[0, 2, 16]', 'f32[0, 2, 24]', None, None, None, state)


def recurrent(g, t):
    """Small ones, and those whose steps do not fit into a dispatch."""
    for hidden in 64, 700, 2048:
        x = g.input(f'{t}[9, 3, 32]')
        for op, gates, attributes in (
            ('rnn', 1, {}), ('gru', 3, {}), ('gru', 3, {'reset_after': False}), ('lstm', 4, {}),
        ):
            rows = gates * hidden
            g.call(op, x, g.parameter(f'{t}[2, {rows}, 32]'), g.parameter(f'{t}[2, {rows}, {hidden}]'),
                   g.parameter(f'{t}[2, {rows}]'), results=3 if op == 'lstm' else 2, direction='both',
                   return_sequence=True, **attributes)


def resizes(g):
    """Strong downscaling, and every kind of coordinates."""
    for mode in 'linear', 'cubic':
        g.call('resize', 'f32[1, 3, 512, 512]', sizes=[12, 12], mode=mode, antialias=True)
        g.call('resize', 'f16[1, 3, 512, 512]', sizes=[300, 300], mode=mode, antialias=True, exclude_outside=True)
    for mode in 'nearest', 'linear', 'cubic':
        for coordinates in ('half-pixel', 'half-pixel-symmetric', 'pytorch-half-pixel', 'align-corners', 'asymmetric',
                            'tf-half-pixel-for-nn'):
            g.call('resize', 'f32[1, 3, 70000, 2]', sizes=[66000, 3], mode=mode, coordinates=coordinates)
            g.call('resize', 'f32[1, 3, 20, 20]', 'f32[2]', sizes=[27, 31], mode=mode, coordinates=coordinates)


def copies(g):
    """Inputs that are outputs, and transposes large enough for tiles."""
    for type in 'f32', 'f16', 'u8', 'i4':
        g.call('transpose', f'{type}[3, 64, 128]', permutation=[0, 2, 1])
        g.call('transpose', f'{type}[100, 2, 64, 3]', permutation=[2, 1, 3, 0])
    for type in 'f32[]', 'f32[1000]', 'u8[1001]', 'f16[1001]':
        g.output(g.input(type))
    g.call('reshape', 'f32[1000]', shape=[10, 100])


def checked(g):
    """Checks of values, for few elements and for many."""
    g.lines.append('# checked')
    for t in 'i32', 'u32':
        x = g.input(f'{t}[3, 1000]')
        for op in 'reduce_sum', 'reduce_prod', 'reduce_l1', 'reduce_sum_square':
            g.call(op, x, axes=[1])
            g.call(op, x, axes=[0])
        for op in 'cumsum', 'cumprod':
            for attributes in {}, {'reverse': True}, {'exclusive': True}:
                g.call(op, x, axis=1, **attributes)
        for op in 'add', 'sub', 'mul', 'div', 'pow', 'shift_left':
            g.call(op, x, f'{t}[1000]')
        g.call('fma', x, x, f'{t}[1000]')
        g.call('gather', 'f32[10, 4]', f'{t}[1000]', axis=0)
        g.call('gather', 'f32[10, 4]', f'{t}[]', axis=0)
        g.call('gather_nd', 'f32[10, 4]', f'{t}[7, 2]')
        g.call('gather_nd', 'f32[10, 4]', f'{t}[700, 2]')
        g.call('scatter_elements', x, f'{t}[3, 10]', f'{t}[3, 10]', axis=1, mode='add')
        g.call('scatter_nd', 'f32[10, 4]', f'{t}[2000, 1]', 'f32[2000, 4]', mode='add')
    for op in 'abs', 'neg':
        g.call(op, g.input('i32[30]'))
    g.call('prelu', 'i32[30]', 'i32[30]')
    for t in 'f32', 'f16':
        for to in 'i32', 'u32':
            g.call('cast', f'{t}[1000]', to=to)


def fourier(g, t):
    """Several passes, convolutions in one pass and in several, many stages."""
    for shape in '3, 1000, 2', '2, 997, 2', '65536, 2', '5003, 2', '40, 1024, 3, 2', '4096, 3, 2', '3125, 2':
        axis = shape.count(',') - (shape.count(',') > 1 and shape.endswith('3, 2')) - 1
        g.call('fft', f'{t}[{shape}]', axes=[axis])
        g.call('ifft', f'{t}[{shape}]', axes=[axis])
    g.call('fft', f'{t}[2, 20000]', layout='planar')
    g.call('rfft', f'{t}[2, 20000]', layout='planar')
    g.call('irfft', f'{t}[2, 20000]', layout='planar')
    g.call('irfft', f'{t}[2, 5003]', layout='planar')
    g.call('rfft', f'{t}[3, 400]')
    for hop in 160, 161:
        g.call('mel_spectrogram', f'{t}[2, 4000]', f'{t}[201, 40]', fft_length=400, hop=hop)
    g.call('pad', f'{t}[7]', before=[20], after=[0], mode='reflect')


def get_all():
    texts = []
    for fill in products, odd_products, epilogues, convolutions, elements, attention, caches, long_rows, backwards, large_sums, recurrent, \
            fourier, sequences:
        for t in FLOATS:
            g = Graph()
            fill(g, t)
            texts.append(str(g))
    for t in FLOATS:
        g = Graph('reduced')
        reduced(g, t)
        texts.append(str(g))
    g = Graph('integer')
    integer_precision(g)
    texts.append(str(g))
    for fill in reductions, packed, scaled, integers, resizes, copies, checked:
        g = Graph()
        fill(g)
        texts.append(str(g))
    return texts
