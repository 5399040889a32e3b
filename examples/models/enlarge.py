#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Doubles the size of a picture: enlarge.py FOLDER IN.png OUT.png

FOLDER is the one printed by `./dev models esrgan-slim`. The model is one of TensorFlow.js: a list of layers and a file
of weights, which are converted to a graph here.
"""
import json
import os
import sys

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

import picture


def read_weights(folder, manifest):
    for group in manifest:
        data = b''.join(open(os.path.join(folder, path), 'rb').read() for path in group['paths'])
        for entry in group['weights']:
            size = int(np.prod(entry['shape']))
            yield entry['name'], np.frombuffer(data, '<f4', size).reshape(entry['shape'])
            data = data[4 * size:]


def convert(folder, height, width):
    """The graph of a model, for pictures with channels last."""
    with open(os.path.join(folder, 'model.json'), encoding='utf-8') as stream:
        model = json.load(stream)
    weights = dict(read_weights(folder, model['weightsManifest']))
    layers, values = model['modelTopology']['model_config']['config'], {}
    g = Rlx.Graph()
    for layer in layers['layers']:
        name, kind, config = layer['name'], layer['class_name'], layer['config']
        inputs = [values[entry[0]] for entry in layer['inbound_nodes'][0]] if layer['inbound_nodes'] else []
        if kind == 'InputLayer':
            values[name] = g.input('picture', 'u8', [1, height, width, 3]).cast('f32')
        elif kind == 'Conv2D' and config['strides'] == [1, 1] and config['activation'] == 'linear':
            side = config['kernel_size'][0] // 2 if config['padding'] == 'same' else 0
            values[name] = inputs[0].conv(weights[name + '/kernel'].transpose(3, 2, 0, 1), weights[name + '/bias'],
                                          padding=[side] * 4, layout='channels-last')
        elif kind == 'Activation' and config['activation'] == 'relu':
            values[name] = inputs[0].relu()
        elif kind == 'Concatenate' and config['axis'] == 3:
            values[name] = g.concat(inputs, axis=3)
        elif kind == 'Add':
            values[name] = inputs[0] + inputs[1]
        elif kind == 'UpSampling2D' and config['interpolation'] == 'nearest':
            size = [length * factor for length, factor in zip(inputs[0].shape[1:3], config['size'])]
            values[name] = inputs[0].resize(size, axes=[1, 2], mode='nearest')
        else:
            raise ValueError(f'{name}: layers like this {kind} are not converted')
    g.output('picture', values[layers['output_layers'][0][0]].clamp(minimum=0, maximum=255).round_even().cast('u8'))
    return g


def enlarge(folder, pixels):
    height, width, _ = pixels.shape
    graph = convert(os.path.join(folder, 'models'), height, width)
    return Rlx.Device.get_default().compile(graph)(pixels[None]).picture.numpy()[0]


def main():
    folder, source, target = sys.argv[1:]
    small = picture.read(source)
    large = enlarge(folder, small)
    picture.write(target, large)
    print(f'{small.shape[1]} x {small.shape[0]} to {large.shape[1]} x {large.shape[0]}: {target}')


if __name__ == '__main__':
    main()
