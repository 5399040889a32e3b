#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares sentences of several lengths with an encoder: the similarity of each two, from -1 to 1.

The weights are seeded, not learned.
"""
import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

TOKENS, LENGTH, WIDTH, HEADS, LAYERS = 100, 8, 32, 4, 2
SENTENCES = [[5, 17, 42, 8], [5, 17, 42, 9, 3], [61, 2, 2, 77, 30, 12, 99]]


def seeded(seed, *shape):
    """The same numbers in every language, scaled for a layer."""
    values = np.empty(np.prod(shape), np.float32)
    for i in range(values.size):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        values[i] = seed / 2 ** 30 - 1
    return values.reshape(shape) * 2 / np.sqrt(shape[0])


g = Rlx.Graph()
n = len(SENTENCES)
tokens, lengths = g.input('tokens', 'i32', [n, LENGTH]), g.input('lengths', 'i32', [n])


def layer(h, i):
    def weight(name, rows, columns):
        return g.parameter(f'{name}{i}', 'f32', [rows, columns])

    def heads(name):
        return (h @ weight(name, WIDTH, WIDTH)).reshape(n, LENGTH, HEADS, WIDTH // HEADS)

    seen = heads('q').attention(heads('k'), heads('v'), key_lengths=lengths, layout='sequence-first')
    h = (h + seen.reshape(n, LENGTH, WIDTH) @ weight('o', WIDTH, WIDTH)).layer_norm()
    return (h + (h @ weight('up', WIDTH, 4 * WIDTH)).gelu() @ weight('down', 4 * WIDTH, WIDTH)).layer_norm()


h = g.parameter('table', 'f32', [TOKENS, WIDTH])[tokens] + g.parameter('positions', 'f32', [LENGTH, WIDTH])
for i in range(LAYERS):
    h = layer(h, i)
# The mean of the actual tokens, normalised to length 1.
there = (lengths[:, None] > np.arange(LENGTH)).cast('f32')[:, :, None]
sentences = (h * there).sum(axis=1).lp_norm()
g.output('alike', sentences @ sentences.T)

exe = Rlx.Device.get_default().compile(g)
exe.set_parameters({port.get_name(): seeded(i + 1, *port.shape) for i, port in enumerate(exe.get_parameters())})
padded = [sentence + [0] * (LENGTH - len(sentence)) for sentence in SENTENCES]
for row in exe(tokens=padded, lengths=[len(sentence) for sentence in SENTENCES]).alike:
    print(*(f'{value:.3f}' for value in row))
