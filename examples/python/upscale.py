#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Doubles the size of a picture with a convolutional network: upscale.py IN.ppm OUT.ppm

Without arguments a generated picture is used, and the result is not saved. The weights are seeded, not learned.
"""
import sys

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx


def seeded(seed, *shape):
    """The same numbers in every language, scaled for a layer."""
    values = np.empty(np.prod(shape), np.float32)
    for i in range(values.size):
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        values[i] = seed / 2 ** 30 - 1
    return values.reshape(shape) / np.sqrt(np.prod(shape[1:]))


def read_picture(path):
    with open(path, 'rb') as stream:
        data = stream.read()
    _, width, height, _ = data.split(maxsplit=4)[:4]
    return np.frombuffer(data, np.uint8)[-int(width) * int(height) * 3:].reshape(int(height), int(width), 3)


def draw_picture(height, width):
    row, column = np.mgrid[:height, :width]
    return np.stack([row * 8, column * 8, (row ^ column) * 8], -1).astype(np.uint8)


picture = read_picture(sys.argv[1]) if len(sys.argv) > 1 else draw_picture(24, 32)
height, width, _ = picture.shape

g = Rlx.Graph()
x = g.input('picture', 'u8', [1, height, width, 3]).cast('f32') / 255
h = x
for i, (channels, side) in enumerate([(16, 5), (16, 3), (12, 3)]):
    w = g.parameter(f'w{i}', 'f32', [channels, h.shape[-1], side, side])
    h = h.conv(w, padding=[side // 2] * 4, layout='channels-last')
    if i < 2:
        h = h.relu()
# Twelve channels are a square of 2 x 2 elements for each of three colours.
details = h.transpose(0, 3, 1, 2).depth_to_space(2).transpose(0, 2, 3, 1)
smooth = x.resize([2 * height, 2 * width], axes=[1, 2], mode='linear')
g.output('picture', ((smooth + details / 10).clamp(minimum=0, maximum=1) * 255).round_even().cast('u8'))

exe = Rlx.Device.get_default().compile(g)
exe.set_parameters({port.get_name(): seeded(i + 1, *port.shape) for i, port in enumerate(exe.get_parameters())})
large = exe(picture[None]).picture[0]
if len(sys.argv) > 2:
    with open(sys.argv[2], 'wb') as stream:
        stream.write(f'P6 {2 * width} {2 * height} 255\n'.encode() + large.tobytes())
print(f'{width} x {height} to {large.shape[1]} x {large.shape[0]}, mean', *(f'{mean:.1f}' for mean in large.mean((0, 1))))
