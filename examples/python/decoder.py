#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Continues a sequence of tokens with a decoder that keeps its keys and values on the device.

The weights are seeded, not learned.
"""
import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

TOKENS, WIDTH, HEADS, KEY_HEADS, HEAD, LAYERS, CONTEXT = 50, 32, 4, 2, 8, 2, 32


def seeded(seed, *shape):
    """The same numbers in every language, scaled for a layer."""
    values = np.empty(np.prod(shape), np.float32)
    for i in range(values.size):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        values[i] = seed / 2 ** 30 - 1
    return values.reshape(shape) * 2 / np.sqrt(shape[0])


g = Rlx.Graph()
token, position = g.input('token', 'i32', [1]), g.input('position', 'i32', [])


def cache(name, row):
    """A state that has a row more after each run; only that row is written."""
    state = g.state(name, np.zeros((1, KEY_HEADS, CONTEXT, HEAD), np.float32))
    rows = state.write_at(row, position, axis=2)
    g.assign(state, rows)
    return rows


def layer(h, i):
    def weight(name, rows, columns):
        return g.parameter(f'{name}{i}', 'f32', [rows, columns])

    n = h.rms_norm()
    q = (n @ weight('q', WIDTH, HEADS * HEAD)).reshape(1, HEADS, 1, HEAD)
    k = (n @ weight('k', WIDTH, KEY_HEADS * HEAD)).reshape(1, KEY_HEADS, 1, HEAD)
    v = (n @ weight('v', WIDTH, KEY_HEADS * HEAD)).reshape(1, KEY_HEADS, 1, HEAD)
    at = position.reshape(1, 1)
    keys, values = cache(f'keys{i}', k.rope(at)), cache(f'values{i}', v)
    # Rows beyond the position have nothing to say yet.
    seen = q.rope(at).attention(keys, values, key_lengths=(position + 1).reshape(1))
    h = h + seen.reshape(1, WIDTH) @ weight('o', HEADS * HEAD, WIDTH)
    n = h.rms_norm()
    gate, up = n @ weight('gate', WIDTH, 3 * WIDTH), n @ weight('up', WIDTH, 3 * WIDTH)
    return h + (gate.silu() * up) @ weight('down', 3 * WIDTH, WIDTH)


table = g.parameter('table', 'f32', [TOKENS, WIDTH])
h = table[token]
for i in range(LAYERS):
    h = layer(h, i)
g.output('next', h.rms_norm().matmul(table, transpose_b=True).arg_max(axis=-1))

exe = Rlx.Device.get_default().compile(g)
exe.set_parameters({port.get_name(): seeded(i + 1, *port.shape) for i, port in enumerate(exe.get_parameters())})
row = [3, 14, 15]
for at in range(15):
    follows = exe(token=[row[at]], position=at).next.item()
    if at + 1 == len(row):
        row.append(follows)
print(*row)
