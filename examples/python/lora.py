#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fine-tunes the network of mnist.py for digits that lie on their side: lora.py WEIGHTS.safetensors [ADAPTERS.safetensors]

WEIGHTS is the file that `mnist.py --weights` wrote, and is not changed. Low-rank adapters (LoRA) are trained: for each
weight, seen as a matrix, two thin ones whose product is added to it. They are written to ADAPTERS.
"""
import argparse
import os
import sys

import gi
import numpy as np
from mnist import SHAPES, batches, find_folder, network, read_digits, show_progress

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

RANK, BATCH, TEST_BATCH = 4, 64, 1000
ADAPTED = 'filter1', 'filter2', 'dense'


def adapter_shapes(name):
    rows, columns = SHAPES[name][0], int(np.prod(SHAPES[name][1:]))
    return {f'{name}.a': (rows, RANK), f'{name}.b': (RANK, columns)}


def adapted(g, make):
    """The weights of the network, some of them plus a product of two adapters that make(name, shape) creates."""
    w, adapters = {}, {}
    for name, shape in SHAPES.items():
        w[name] = g.parameter(name, 'f32', shape)
        if name in ADAPTED:
            a, b = (make(*row) for row in adapter_shapes(name).items())
            adapters |= {f'{name}.a': a, f'{name}.b': b}
            w[name] = w[name] + (a @ b).reshape(shape)
    return w, adapters


def training_graph(seed):
    random = np.random.default_rng(seed)
    g = Rlx.Graph()
    x, labels, rate = g.input('x', 'u8', [BATCH, 28, 28]), g.input('labels', 'u8', [BATCH]), g.input('rate', 'f32', [])

    def make(name, shape):
        # The product starts at 0, so that nothing changes at first.
        return g.state(name, np.zeros(shape, 'f') if name.endswith('.b') else random.normal(0, RANK ** -.5, shape).astype('f'))

    w, adapters = adapted(g, make)
    loss = network(x, w).softmax_cross_entropy(labels)
    g.optimize(loss, adapters, algorithm='adam', learning_rate=rate)
    g.output('loss', loss)
    return g


def test_graph():
    g = Rlx.Graph()
    x = g.input('x', 'u8', [TEST_BATCH, 28, 28])
    w, _ = adapted(g, lambda name, shape: g.parameter(name, 'f32', shape))
    g.output('guess', network(x, w).arg_max(1))
    return g


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('weights')
    parser.add_argument('adapters', nargs='?')
    parser.add_argument('--folder', default=find_folder(), help='where the four files of MNIST are')
    parser.add_argument('--digits', type=int, default=16000, help='how many are learnt')
    arguments = parser.parse_args()
    if not os.path.isdir(arguments.folder):
        sys.exit(f'{arguments.folder} is not there: ./dev models mnist fetches it')

    device, weights = Rlx.Device.get_default(), Rlx.Weights.open(arguments.weights)
    frozen = {name: weights.load_tensor(name) for name in SHAPES}
    test = device.compile(test_graph())
    pictures, labels = read_digits(arguments.folder, 't10k')
    lying = np.ascontiguousarray(pictures.transpose(0, 2, 1))

    def read(pictures, adapters):
        test.set_parameters(frozen | adapters)
        guesses = np.concatenate([test(pictures[i:i + TEST_BATCH]).guess for i in range(0, len(labels), TEST_BATCH)])
        return np.mean(guesses == labels)

    nothing = {name: np.zeros(shape, 'f') for each in ADAPTED for name, shape in adapter_shapes(each).items()}
    before = read(lying, nothing)
    exe = device.compile(training_graph(1))
    exe.set_parameters(frozen)
    trainer = Rlx.Trainer(exe)
    train, train_labels = (part[:arguments.digits] for part in read_digits(arguments.folder, 'train'))
    trainer.train(batches(np.ascontiguousarray(train.transpose(0, 2, 1)), train_labels, BATCH, 1, 1),
                  total=len(train) // BATCH, progress=show_progress)
    learnt = trainer.read(nothing)
    if arguments.adapters:
        trainer.save(arguments.adapters, nothing)
        learnt = {name: Rlx.Weights.open(arguments.adapters).load_tensor(name) for name in nothing}

    n_frozen, n_learnt = (sum(int(np.prod(value.shape)) for value in values.values()) for values in (frozen, nothing))
    print(f'{n_learnt} numbers beside {n_frozen}: of digits on their side {before:.1%} were read, and {read(lying, learnt):.1%} are; '
          f'without the adapters still {read(pictures, nothing):.1%} of upright ones')


if __name__ == '__main__':
    main()
