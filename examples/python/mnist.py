#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Learns to read handwritten digits, from nothing: mnist.py [--weights FILE.safetensors] [--picture FILE.png]

The digits are those of MNIST, in its original files, which `./dev models mnist` fetches; use --folder for another
location. With --test there is no training: the weights are read from the file.
"""
import argparse
import os
import sys
import time

import gi
import numpy as np
from spectrum import write_picture

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

TEST_BATCH, RATE = 1000, 3e-3
SHAPES = {'filter1': (8, 1, 5, 5), 'bias1': (8,), 'filter2': (16, 8, 5, 5), 'bias2': (16,), 'dense': (256, 10), 'bias3': (10,)}
# Bitmaps of the labels in the picture: rows of three bits.
GLYPHS = ['75557', '26227', '71747', '71717', '55711', '74717', '74757', '71111', '75757', '75717']


def find_folder():
    models = os.environ.get('RLX_MODELS') or os.path.join(os.path.expanduser('~'), '.cache', 'rlx-wgpu', 'models')
    return os.path.join(models, 'mnist')


def read_digits(folder, name):
    """Pictures of 28 x 28 bytes, and their labels."""
    pictures = np.fromfile(os.path.join(folder, f'{name}-images-idx3-ubyte'), np.uint8)[16:].reshape(-1, 28, 28)
    return pictures, np.fromfile(os.path.join(folder, f'{name}-labels-idx1-ubyte'), np.uint8)[8:]


def network(x, w):
    """Ten numbers for each picture, the largest of which should be that of its digit."""
    x = x.cast('f32').reshape([-1, 1, 28, 28]) / 255
    x = x.conv(w['filter1'], w['bias1']).relu().max_pool(window=[2, 2], strides=[2, 2])
    x = x.conv(w['filter2'], w['bias2']).relu().max_pool(window=[2, 2], strides=[2, 2])
    return x.reshape([-1, 256]) @ w['dense'] + w['bias3']


def compile_training(device, batch, seed):
    random = np.random.default_rng(seed)
    g = Rlx.Graph()
    x, labels, rate = g.input('x', 'u8', [batch, 28, 28]), g.input('labels', 'u8', [batch]), g.input('rate', 'f32', [])
    w = {}
    for name, shape in SHAPES.items():
        # Biases start at 0, weights with random numbers that preserve the scale of activations.
        size = (2 / np.prod(shape[1:] if len(shape) > 2 else shape[:1])) ** .5 if len(shape) > 1 else 0
        w[name] = g.state(name, random.normal(0, 1, shape).astype('f') * np.float32(size))
    loss = network(x, w).softmax_cross_entropy(labels)
    g.optimize(loss, w, algorithm='adam', learning_rate=rate)
    g.output('loss', loss)
    return device.compile(g)


def compile_test(device):
    g = Rlx.Graph()
    x = g.input('x', 'u8', [TEST_BATCH, 28, 28])
    g.output('guess', network(x, {name: g.parameter(name, 'f32', shape) for name, shape in SHAPES.items()}).arg_max(1))
    return device.compile(g)


def batches(pictures, labels, size, epochs, seed):
    """All digits, reshuffled for each epoch; the learning rate decreases to zero."""
    random = np.random.default_rng(seed)
    n = len(labels) // size
    for step in range(epochs * n):
        if step % n == 0:
            order = random.permutation(len(labels))
        rows = order[step % n * size:][:size]
        yield pictures[rows], labels[rows], np.float32(RATE * (1 + np.cos(np.pi * step / (epochs * n))) / 2)


def show_progress(step, loss, total):
    if sys.stderr.isatty() and (step % 10 == 0 or step == total):
        done = 40 * step // total
        print(f'\r[{"#" * done}{"." * (40 - done)}] {100 * step // total:3} %  loss {loss:.3f} ', end='' if step < total else '\n',
              file=sys.stderr, flush=True)


def put_glyph(canvas, digit, row, column, shade):
    for y, bits in enumerate(GLYPHS[digit]):
        for x in range(3):
            if int(bits) >> (2 - x) & 1:
                canvas[row + 2 * y:row + 2 * y + 2, column + 2 * x:column + 2 * x + 2] = shade


def draw(path, losses, pictures, guesses, labels):
    """The losses above, on a logarithmic scale, and below misread digits: their labels, and what was read."""
    wrong = np.flatnonzero(guesses != labels)[:80]
    width, height, cell = 16 * 36, 160, 46
    canvas = np.full((height + 5 * cell, width), 255, np.uint8)
    for level in 1, .1, .01:
        canvas[round(height * .2 - height * .25 * np.log10(level)), :] = 220
    if len(losses):
        # The mean of the losses in a column.
        columns = np.array([np.mean(part) for part in np.array_split(losses, min(width, len(losses)))])
        rows = np.clip(height * .2 - height * .25 * np.log10(np.maximum(columns, 1e-9)), 0, height - 2).astype(int)
        for x in range(width):
            here, next_one = rows[x * len(rows) // width], rows[min((x + 1) * len(rows) // width, len(rows) - 1)]
            canvas[min(here, next_one):max(here, next_one) + 2, x] = 0
    for i, at in enumerate(wrong):
        row, column = height + i // 16 * cell, i % 16 * 36 + 4
        canvas[row:row + 28, column:column + 28] = 255 - pictures[at]
        put_glyph(canvas, labels[at], row + 31, column + 4, 150)
        put_glyph(canvas, guesses[at], row + 31, column + 18, 0)
    write_picture(path, canvas)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--folder', default=find_folder(), help='where the four files of MNIST are')
    parser.add_argument('--digits', type=int, default=60000, help='how many are learnt')
    parser.add_argument('--epochs', type=int, default=2, help='how often each of them')
    parser.add_argument('--batch', type=int, default=64, help='how many at a time')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--weights', help='a safetensors file: what was learnt')
    parser.add_argument('--test', action='store_true', help='take the weights of that file')
    parser.add_argument('--picture', help='a PNG: the losses, and digits that were misread')
    arguments = parser.parse_args()
    if not os.path.isdir(arguments.folder):
        sys.exit(f'{arguments.folder} is not there: ./dev models mnist fetches it')
    if arguments.test and not arguments.weights:
        parser.error('--test needs --weights')

    device, losses = Rlx.Device.get_default(), []
    exe = compile_test(device)
    if arguments.test:
        exe.set_parameters_from(Rlx.Weights.open(arguments.weights))
    else:
        pictures, labels = (part[:arguments.digits] for part in read_digits(arguments.folder, 'train'))
        start = time.monotonic()
        trainer = Rlx.Trainer(compile_training(device, arguments.batch, arguments.seed))
        losses = trainer.train(batches(pictures, labels, arguments.batch, arguments.epochs, arguments.seed),
                               total=arguments.epochs * (len(labels) // arguments.batch), progress=show_progress)
        print(f'{len(losses)} steps in {time.monotonic() - start:.0f} s, loss {np.mean(losses[:20]):.3f} to {np.mean(losses[-20:]):.3f}',
              file=sys.stderr)
        exe.set_parameters(trainer.read(SHAPES))
        if arguments.weights:
            trainer.save(arguments.weights, SHAPES)

    pictures, labels = read_digits(arguments.folder, 't10k')
    guesses = np.concatenate([exe(pictures[i:i + TEST_BATCH]).guess for i in range(0, len(labels), TEST_BATCH)])
    if arguments.picture:
        draw(arguments.picture, losses, pictures, guesses, labels)
    print(f'{np.mean(guesses == labels):.2%} of {len(labels)} other digits are read')


if __name__ == '__main__':
    main()
