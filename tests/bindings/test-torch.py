#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Losses of fifty training steps compared with PyTorch, for random encoders, residual networks and LSTMs, and for adapters that
fine-tune stories260K: `./dev test --suite training torch`, after `./dev peers`.

PyTorch computes in double precision, from the same numbers. The effect of rounding to f32 on a loss depends on how much a
network's training amplifies small errors, so that is measured, too. The gradient of a tensor comes from a chain of sums, each
with a relative error of some (log₂ n + 24) · 2⁻²⁴ of its terms; with NOISE, that for n = 256 relative to the gradient's root
mean square, added to each element of it in each step, trainings diverge. Our bound is the largest deviation among TRIALS of
these, three of which almost surely show half of the possible deviation, times two for the other half and times two again for
errors that are not random; the loss itself is rounded, too.
"""
import argparse
import json
import os
import subprocess
import sys
import unittest

import numpy as np

# The Python with PyTorch lacks the library.
if '--torch' not in sys.argv:
    import tap
import stories

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(PROJECT, 'tests', 'bench'), os.path.join(PROJECT, 'tests', 'tools')]
import peers
import training

STEPS, TRIALS, NOISE, FACTOR = 50, 3, 2.0 ** -19, 4
RATE = 3e-3


class Rlx(training.Rlx):
    conv = staticmethod(lambda x, w, stride: x.conv(w, padding=[1, 1, 1, 1], strides=[stride, stride]))
    group_norm = staticmethod(lambda x, gain, shift: x.group_norm(2, gain, shift))
    average = staticmethod(lambda x: x.reduce_mean([2, 3]))

    @staticmethod
    def lstm(x, w, r, b):
        return x.lstm(w, r, b, gate_order='ifgo')[0].reshape([x.shape[1], r.shape[2]])

    @staticmethod
    def adapt(x, w, a, b):
        return x @ w + x @ b.T @ a.T

    @staticmethod
    def rope(x):
        return x.rope(interleaved=True, layout='sequence-first')

    @staticmethod
    def look_back(q, k, v):
        return q.attention(k, v, causal=True, layout='sequence-first')

    rms_norm = staticmethod(lambda x, gain: x.rms_norm(gain, axes=[-1], epsilon=1e-5))
    silu = staticmethod(lambda x: x.silu())


class Torch(training.Torch):
    def __init__(self):
        super().__init__()
        f = self.torch.nn.functional
        self.conv = lambda x, w, stride: f.conv2d(x, w, stride=stride, padding=1)
        self.group_norm = lambda x, gain, shift: f.group_norm(x, 2, gain, shift)
        self.average = lambda x: x.mean((2, 3))
        self.rms_norm = lambda x, gain: x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gain
        self.silu = f.silu
        self.adapt = Rlx.adapt

    def lstm(self, x, w, r, b):
        h = c = self.torch.zeros(x.shape[1], r.shape[2], dtype=x.dtype)
        for step in x:
            i, f, g, o = (step @ w[0].T + h @ r[0].T + b[0]).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h

    def rope(self, x):
        """Adjacent pairs are rotated by position · 10000^(-2i/width)."""
        torch, width = self.torch, x.shape[-1]
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        cosines, sines = angles.cos()[:, None], angles.sin()[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cosines - b * sines, b * cosines + a * sines], dim=-1).flatten(-2)

    def look_back(self, q, k, v):
        k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], dim=2) for x in (k, v))
        y = self.torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True)
        return y.transpose(1, 2)


class Random:
    """A network of a given kind, whose sizes are drawn from a seed; so are weights and batches."""

    constants = {}

    def __init__(self, kind, seed):
        self.kind, self.seed = kind, seed
        random = np.random.default_rng(seed)
        pick = lambda *options: int(random.choice(options))
        self.batch, self.classes = pick(4, 7, 8), pick(5, 10)
        if kind == 'encoder':
            self.heads, self.layers = pick(1, 2, 4), pick(1, 2, 3)
            self.width, self.tokens = self.heads * pick(8, 12, 16), pick(9, 16, 21)
            shapes = {'table': (32, self.width), 'places': (self.tokens, self.width), 'out': (self.width, self.classes)}
            for i in range(self.layers):
                for name in 'qkvo':
                    shapes |= {f'{name}{i}': (self.width, self.width), f'b{name}{i}': (self.width,)}
                for norm in '12':
                    shapes |= {f'gain{norm}{i}': (self.width,), f'shift{norm}{i}': (self.width,)}
                shapes |= {f'u{i}': (self.width, 3 * self.width), f'd{i}': (3 * self.width, self.width)}
        elif kind == 'resnet':
            self.channels, self.layers, self.side = pick(4, 8), pick(2, 3), pick(8, 11)
            shapes = {'first': (self.channels, 3, 3, 3), 'out': (self.channels, self.classes)}
            for i in range(self.layers):
                for part in 'ab':
                    shapes |= {f'w{part}{i}': (self.channels, self.channels, 3, 3), f'gain{part}{i}': (self.channels,), f'shift{part}{i}': (self.channels,)}
        else:
            self.inputs, self.hidden, self.tokens = pick(3, 8), pick(6, 16), pick(5, 12)
            shapes = {'w': (1, 4 * self.hidden, self.inputs), 'r': (1, 4 * self.hidden, self.hidden), 'b': (1, 4 * self.hidden),
                      'out': (self.hidden, self.classes)}
        self.shapes = shapes

    def weights(self):
        random = np.random.default_rng(self.seed + 1)
        return {name: np.full(shape, 1, 'f') if name.startswith('gain') else np.zeros(shape, 'f') if len(shape) == 1 else
                random.normal(0, 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 2 else shape[0]), shape).astype('f')
                for name, shape in self.shapes.items()}

    def inputs_type(self):
        if self.kind == 'encoder':
            return 'i32', (self.batch, self.tokens), (self.batch, self.tokens)
        return 'f32', (self.batch, 3, self.side, self.side) if self.kind == 'resnet' else (self.tokens, self.batch, self.inputs), (self.batch,)

    def data(self, step):
        """The same few batches repeatedly, so that there is something to learn."""
        random = np.random.default_rng([self.seed, step % 4])
        kind, shape, labels = self.inputs_type()
        x = random.integers(0, 32, shape, dtype=np.int32) if kind == 'i32' else random.standard_normal(shape).astype('f')
        return x, random.integers(0, self.classes, labels, dtype=np.int32)

    def network(self, a, x, w):
        if self.kind == 'encoder':
            x = a.embed(w['table'], x) + w['places']
            for i in range(self.layers):
                h = a.norm(x, w[f'gain1{i}'], w[f'shift1{i}'])
                x = x + a.attend(*(h @ w[f'{name}{i}'] + w[f'b{name}{i}'] for name in 'qkv'), self.heads) @ w[f'o{i}'] + w[f'bo{i}']
                x = x + a.gelu(a.norm(x, w[f'gain2{i}'], w[f'shift2{i}']) @ w[f'u{i}']) @ w[f'd{i}']
        elif self.kind == 'resnet':
            x = a.conv(x, w['first'], 1)
            for i in range(self.layers):
                y = a.relu(a.group_norm(a.conv(x, w[f'wa{i}'], 1), w[f'gaina{i}'], w[f'shifta{i}']))
                x = a.relu(x + a.group_norm(a.conv(y, w[f'wb{i}'], 1), w[f'gainb{i}'], w[f'shiftb{i}']))
            x = a.average(x)
        else:
            x = a.lstm(x, w['w'], w['r'], w['b'])
        return x @ w['out']


class Stories:
    """Low-rank adapters for the weights of stories260K, trained on one text."""

    def __init__(self, _seed):
        self.model = stories.Model(stories.FOLDER)
        self.shapes, self.classes = self.model.adapter_shapes(), self.model.sizes[5]
        self.tokens = np.array(self.model.encode(stories.TEXT), np.int32)
        w = self.model.weights
        self.constants = {name: w[name] for name in ('table', 'rms_final')} | {f'{name}{i}': w[name][i] for name in w if name not in ('table', 'rms_final')
                                                                               for i in range(self.model.sizes[2])}

    def weights(self):
        random = np.random.default_rng(1)
        return {name: np.zeros(shape, 'f') if name.endswith('.a') else random.normal(0, .1, shape).astype('f') for name, shape in self.shapes.items()}

    def inputs_type(self):
        return 'i32', (len(self.tokens) - 1,), (len(self.tokens) - 1,)

    def data(self, _step):
        return self.tokens[:-1], self.tokens[1:]

    def network(self, a, tokens, w):
        dim, _, layers, heads, kv_heads, _, _ = self.model.sizes
        n = tokens.shape[0]

        def times(x, name, i):
            weight = w[f'{name}{i}'].T
            return a.adapt(x, weight, w[f'{name}{i}.a'], w[f'{name}{i}.b']) if f'{name}{i}.a' in w else x @ weight

        x = a.embed(w['table'], tokens)
        for i in range(layers):
            h = a.rms_norm(x, w[f'rms_att{i}'])
            q, k, v = (times(h, name, i).reshape([1, n, count, dim // heads]) for name, count in (('wq', heads), ('wk', kv_heads), ('wv', kv_heads)))
            x = x + times(a.look_back(a.rope(q), a.rope(k), v).reshape([n, dim]), 'wo', i)
            h = a.rms_norm(x, w[f'rms_ffn{i}'])
            x = x + times(a.silu(times(h, 'w1', i)) * times(h, 'w3', i), 'w2', i)
        return a.rms_norm(x, w['rms_final']) @ w['table'].T


def make(kind, seed):
    return Stories(seed) if kind == 'stories' else Random(kind, seed)


def run_rlx(network):
    from gi.repository import Rlx as library
    g = library.Graph()
    kind, shape, labels_shape = network.inputs_type()
    x, labels = g.input('x', kind, shape), g.input('labels', 'i32', labels_shape)
    w = {name: g.state(name, value) for name, value in network.weights().items()}
    loss = network.network(Rlx, x, w | {name: g.constant(value) for name, value in network.constants.items()}).softmax_cross_entropy(labels)
    g.optimize(loss, w, algorithm='adam', learning_rate=RATE)
    g.output('loss', loss)
    exe = tap.device().compile(g)
    return [exe(*network.data(i)).loss.item() for i in range(STEPS)]


def run_torch(network):
    """The loss curve, and its distance from others with noise in their gradients."""
    a = Torch()
    torch = a.torch
    torch.set_default_dtype(torch.float64)
    curves = []
    for trial in range(TRIALS + 1):
        noise = torch.Generator().manual_seed(trial)
        w = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in network.weights().items()}
        constants = {name: torch.tensor(value, dtype=torch.float64) for name, value in network.constants.items()}
        optimizer, losses = torch.optim.Adam(w.values(), lr=RATE), []
        for i in range(STEPS):
            x, labels = (torch.from_numpy(np.array(value)) for value in network.data(i))
            optimizer.zero_grad()
            y = network.network(a, x.double() if x.is_floating_point() else x, w | constants)
            loss = torch.nn.functional.cross_entropy(y.reshape(-1, network.classes), labels.long().reshape(-1))
            loss.backward()
            for value in w.values():
                if trial > 0:
                    value.grad += NOISE * value.grad.square().mean().sqrt() * torch.randn(value.shape, generator=noise)
            optimizer.step()
            losses.append(loss.item())
        curves.append(losses)
    return {'losses': curves[0], 'apart': [max(abs(other[i] - curves[0][i]) for other in curves[1:]) for i in range(STEPS)]}


class Curves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        named = os.environ.get('RLX_TORCH')
        cls.python = [named] if named else peers.command('python3', folders=[stories.FOLDER] if os.path.isdir(stories.FOLDER) else []) or [sys.executable]
        if subprocess.run([*cls.python, '-c', 'import torch'], capture_output=True).returncode != 0:
            raise unittest.SkipTest('there is no PyTorch; `./dev peers` fetches it')

    def compare(self, kind, seed):
        done = subprocess.run([*self.python, '-B', os.path.abspath(__file__), '--torch', kind, '--seed', str(seed)], capture_output=True, text=True,
                              env=os.environ | {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'})
        self.assertEqual(done.returncode, 0, done.stderr)
        theirs, ours = json.loads(done.stdout), run_rlx(make(kind, seed))
        # The network learns from the batches, which are repeated.
        self.assertLess(sum(theirs['losses'][-4:]), sum(theirs['losses'][:4]))
        worst = 0
        for i, (loss, expected) in enumerate(zip(ours, theirs['losses'])):
            # Errors of earlier steps do not vanish where the curves happen to cross.
            bound = FACTOR * max(theirs['apart'][:i + 1]) + NOISE * abs(expected)
            worst = max(worst, abs(loss - expected) / bound)
            self.assertLessEqual(abs(loss - expected), bound, f'{kind} {seed}, step {i}: the loss is {loss}, PyTorch has {expected}')
        print(f'# {kind} {seed}: from {ours[0]:.4f} to {ours[-1]:.4f}, at most {worst:.2f} of the bound, which ends at {bound:.1e}')

    def test_encoders(self):
        for seed in 1, 2, 3:
            self.compare('encoder', seed)

    def test_residual_networks(self):
        for seed in 1, 2, 3:
            self.compare('resnet', seed)

    def test_lstms(self):
        for seed in 1, 2, 3:
            self.compare('lstm', seed)

    def test_stories(self):
        if not os.path.isdir(stories.FOLDER):
            self.skipTest(f'{stories.FOLDER} is not there')
        self.compare('stories', 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--torch')
    parser.add_argument('--seed', type=int, default=0)
    arguments, _ = parser.parse_known_args()
    if arguments.torch:
        print(json.dumps(run_torch(make(arguments.torch, arguments.seed))))
    else:
        tap.main()


if __name__ == '__main__':
    main()
