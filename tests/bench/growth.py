#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures how the cost of an encoder grows with its batch, sequence, width and depth, and how much memory it takes.

Needs the Python bindings, with NumPy. The cost is the processor time of a run, summed over all threads, so it is
meaningful for adapters that are CPUs. Each process measures every size; a number is the median over the processes of
the median over the runs in each. Lines are fitted to relative errors: the smallest size counts as much as the largest.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx  # noqa: E402

HEAD = 64
BASE = {'batch': 1, 'sequence': 128, 'width': 256, 'layers': 2}
# As in workloads.c: width, heads, hidden, layers, vocabulary.
NETWORKS = {'minilm': (384, 12, 1536, 6, 30522), 'bert-base': (768, 12, 3072, 12, 30522)}


class Builder:
    def __init__(self, seed=1):
        self.graph = Rlx.Graph()
        self.random = np.random.default_rng(seed)
        self.inputs = []

    def constant(self, *shape):
        scale = np.float32(1 / np.sqrt(shape[0]))
        return self.graph.constant(self.random.standard_normal(shape, np.float32) * scale)

    def input(self, name, *shape):
        self.inputs.append(self.random.standard_normal(shape, np.float32))
        return self.graph.input(name, 'f32', list(shape))

    def linear(self, x, rows, columns):
        return x.linear(self.constant(rows, columns), self.constant(columns))

    def norm(self, x, width):
        return x.layer_norm(self.constant(width), self.constant(width))

    def layer(self, x, shape, heads, hidden, attention=True):
        batch, sequence, width = shape
        split = [self.linear(x, width, width).reshape([batch, sequence, heads, width // heads]).transpose([0, 2, 1, 3])
                 for _ in range(3)]
        # Without attention the three projections must still be used.
        y = split[0].attention(split[1], split[2]) if attention else split[0] + split[1] + split[2]
        y = self.linear(y.transpose([0, 2, 1, 3]).reshape(list(shape)), width, width)
        x = self.norm(x + y, width)
        y = self.linear(self.linear(x, width, hidden).gelu(), hidden, width)
        return self.norm(x + y, width)

    def finish(self, y):
        self.graph.output('y', y)
        return self


def make_encoder(batch, sequence, width, layers, attention=True):
    self = Builder()
    x = self.input('x', batch, sequence, width)
    for _ in range(layers):
        x = self.layer(x, (batch, sequence, width), width // HEAD, 4 * width, attention)
    return self.finish(x)


def make_attention(sequence):
    self = Builder()
    q, k, v = (self.input(name, 1, BASE['width'] // HEAD, sequence, HEAD) for name in 'qkv')
    return self.finish(q.attention(k, v))


def make_network(name, batch, sequence=128):
    width, heads, hidden, layers, vocabulary = NETWORKS[name]
    self = Builder()
    tokens = self.graph.input('tokens', 'i32', [batch, sequence])
    x = self.constant(vocabulary, width).gather(tokens, 0) + self.constant(sequence, width)
    x = self.norm(x, width)
    for _ in range(layers):
        x = self.layer(x, (batch, sequence, width), heads, hidden)
    return self.finish(x)


def encoder(**changes):
    return lambda: make_encoder(**(BASE | changes))


# The dimension that grows, its sizes, what to build, and the exponents of the terms of the cost in theory.
CURVES = {
    'batch': ((1, 2, 4, 8), lambda n: encoder(batch=n), (0, 1)),
    'depth': ((1, 2, 4, 8, 12), lambda n: encoder(layers=n), (0, 1)),
    'width, without attention': ((64, 128, 256, 512, 768), lambda n: encoder(width=n, attention=False), (0, 2)),
    'width': ((64, 128, 256, 512, 768), lambda n: encoder(width=n), (0, 1, 2)),
    'sequence, without attention': ((64, 128, 256, 512, 1024), lambda n: encoder(sequence=n, attention=False), (0, 1)),
    'sequence, attention alone': ((64, 128, 256, 512, 1024), lambda n: lambda: make_attention(n), (0, 2)),
    'sequence': ((64, 128, 256, 512, 1024), lambda n: encoder(sequence=n), (0, 1, 2)),
}


def prepare(device, built):
    executable = device.compile(built.graph)
    inputs = [Rlx.Tensor.new_from_floats(x.shape, x.ravel().tolist()) for x in built.inputs]
    executable.run(inputs)
    return lambda: executable.run(inputs)


def measure(device, sizes, make, rounds):
    """The sizes are interleaved, so that other load on the machine affects all of them."""
    runs = [prepare(device, make(n)()) for n in sizes]
    times = [[] for _ in runs]
    for _ in range(rounds):
        for run, own in zip(runs, times):
            begin = time.process_time()
            while True:
                start = time.process_time()
                run()
                own.append(time.process_time() - start)
                if time.process_time() - begin > 0.05:
                    break
    return [statistics.median(own) * 1e3 for own in times]


def measure_all(names, rounds):
    device = Rlx.Device.get_default()
    return {name: measure(device, CURVES[name][0], CURVES[name][1], rounds) for name in names}


def fit(sizes, times, powers):
    sizes, times = np.array(sizes, float), np.array(times)
    terms = np.stack([sizes ** p for p in powers], 1)
    factors = np.linalg.lstsq(terms / times[:, None], np.ones(len(times)), rcond=None)[0]
    return factors, times / (terms @ factors) - 1


def slope(sizes, times):
    return np.diff(np.log(times)) / np.diff(np.log(sizes))


def print_curve(name, results):
    sizes, _, powers = CURVES[name]
    times = [statistics.median(r[name][i] for r in results) for i in range(len(sizes))]
    factors, residuals = fit(sizes, times, powers)
    unit = {0: '', 1: ' n', 2: ' n²'}
    formula = ' + '.join(f'{f:.3g}{unit[p]}' for f, p in zip(factors, powers)).replace('+ -', '− ')
    print(f'\n{name}: {formula}\n')
    print('| n | ms (range) | fit | residual | exponent |')
    print('|---:|---:|---:|---:|---:|')
    exponents = ['', *(f'{e:.2f}' for e in slope(sizes, times))]
    for i, size in enumerate(sizes):
        low, high = (f(r[name][i] for r in results) for f in (min, max))
        print(f'| {size} | {times[i]:.3g} ({low:.3g}–{high:.3g}) | {times[i] / (1 + residuals[i]):.3g} '
              f'| {residuals[i] * 100:+.0f} % | {exponents[i]} |')


def print_memory():
    device = Rlx.Device.get_default()
    graphs = [(f'{name}-b{batch}', lambda n=name, b=batch: make_network(n, b))
              for name, batch in (('minilm', 1), ('minilm', 8), ('bert-base', 1))]
    graphs += [(f'sequence {n}', encoder(sequence=n)) for n in (32, 128, 512, 1024)]
    graphs += [(f'batch {n}', encoder(batch=n)) for n in (4, 16)]
    graphs += [(f'width {n}', encoder(width=n)) for n in (64, 768)]
    graphs += [(f'depth {n}', encoder(layers=n)) for n in (1, 16)]
    print('| encoder | arena | alive at most | arena / alive | weights | banks | dispatches |')
    print('|---|---:|---:|---:|---:|---:|---:|')
    for name, make in graphs:
        built = make()
        plan = device.compile(built.graph).dup_plan().unpack()
        arena, live, weights = (plan[key] for key in ('arena-bytes', 'live-bytes', 'weight-bytes'))
        print(f'| {name} | {arena / 2 ** 20:.2f} | {live / 2 ** 20:.2f} | {arena / live:.2f} | {weights / 2 ** 20:.1f} '
              f'| {plan["banks"]} | {plan["dispatches"]} |')


def main():
    parser = argparse.ArgumentParser(description='Measures how the cost of an encoder grows.')
    parser.add_argument('--only', nargs='+', metavar='NAME', choices=CURVES, default=list(CURVES), help='which curves')
    parser.add_argument('--processes', type=int, default=5, metavar='N', help='how many processes (5)')
    parser.add_argument('--rounds', type=int, default=5, metavar='N', help='how often each process returns to a size (5)')
    parser.add_argument('--json', metavar='FILE', help='write the times of each process')
    parser.add_argument('--memory', action='store_true', help='print what memory encoders take, and nothing else')
    parser.add_argument('--one', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print_memory()
        return
    if options.one:
        print(json.dumps(measure_all(options.only, options.rounds)))
        return

    command = [sys.executable, __file__, '--one', '--rounds', str(options.rounds), '--only', *options.only]
    results = []
    for _ in range(options.processes):
        results.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as stream:
            json.dump(results, stream)
    for name in options.only:
        print_curve(name, results)


if __name__ == '__main__':
    main()
