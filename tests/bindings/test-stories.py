#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fine-tunes a language model by adapters of low rank: a small text changes what it tells.

The model is stories260K of llama2.c, in shared/models beside the project; without it this is skipped.
"""
import os
import struct
import tempfile
import unittest

import numpy as np
import tap
from gi.repository import Rlx

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(os.path.dirname(PROJECT), 'shared', 'models', 'stories260K')
TEXT = 'Once upon a time, a robot was made of cheese. The moon was red, and all cats were in the rain.'
RANK, LENGTH, STEPS, RATE = 8, 64, 60, 1e-2
ADAPTED = 'wq', 'wv', 'wo', 'w2'


class Model:
    """Weights by name, and pieces of text with their scores."""

    def __init__(self, folder):
        with open(os.path.join(folder, 'stories260K.bin'), 'rb') as stream:
            dim, hidden, layers, heads, kv_heads, vocab, _ = self.sizes = struct.unpack('<7i', stream.read(28))
            width = dim // heads * kv_heads
            self.weights = {}
            for name, shape in {'table': (vocab, dim), 'rms_att': (layers, dim), 'wq': (layers, dim, dim), 'wk': (layers, width, dim),
                                'wv': (layers, width, dim), 'wo': (layers, dim, dim), 'rms_ffn': (layers, dim),
                                'w1': (layers, hidden, dim), 'w2': (layers, dim, hidden), 'w3': (layers, hidden, dim),
                                'rms_final': (dim,)}.items():
                self.weights[name] = np.fromfile(stream, '<f4', int(np.prod(shape))).reshape(shape)
        self.pieces, self.scores = [], []
        with open(os.path.join(folder, 'tok512.bin'), 'rb') as stream:
            stream.read(4)
            for _ in range(vocab):
                score, n = struct.unpack('<fi', stream.read(8))
                self.scores.append(score)
                self.pieces.append(stream.read(n).decode('utf-8', 'replace'))

    def encode(self, text):
        """From letters on, the two neighbours whose join has the best score become one."""
        tokens = [self.pieces.index(letter) for letter in ' ' + text]
        while True:
            joins = [(self.scores[self.pieces.index(piece)], -i) for i, pair in enumerate(zip(tokens, tokens[1:]))
                     if (piece := self.pieces[pair[0]] + self.pieces[pair[1]]) in self.pieces]
            if not joins:
                return [1] + tokens
            at = -max(joins)[1]
            tokens[at:at + 2] = [self.pieces.index(self.pieces[tokens[at]] + self.pieces[tokens[at + 1]])]

    def decode(self, tokens):
        return ''.join(self.pieces[token] for token in tokens).strip()

    def adapter_shapes(self):
        return {f'{name}{i}.{side}': (shape[1], RANK) if side == 'a' else (RANK, shape[2])
                for name in ADAPTED for i in range(self.sizes[2]) for shape in [self.weights[name].shape] for side in 'ab'}

    def network(self, g, tokens, adapters):
        """Logits for each token; weights are constants, and so learn nothing."""
        dim, _, layers, heads, kv_heads, _, _ = self.sizes
        n, w = tokens.shape[0], self.weights

        def times(x, name, i):
            y = x @ g.constant(np.ascontiguousarray(w[name][i].T))
            a, b = (adapters.get(f'{name}{i}.{side}') for side in 'ab')
            # The adapters are of the weight as it lies in the file, whose rows are what comes out.
            return y if a is None else y + x @ b.T @ a.T

        def split(x, count):
            return x.reshape([1, n, count, dim // heads])

        x = g.constant(w['table']).gather(tokens, axis=0)
        for i in range(layers):
            h = x.rms_norm(g.constant(w['rms_att'][i]), axes=[-1], epsilon=1e-5)
            q, k = (split(times(h, name, i), count).rope(interleaved=True, layout='sequence-first')
                    for name, count in (('wq', heads), ('wk', kv_heads)))
            y = q.attention(k, split(times(h, 'wv', i), kv_heads), causal=True, layout='sequence-first')
            x = x + times(y.reshape([n, dim]), 'wo', i)
            h = x.rms_norm(g.constant(w['rms_ffn'][i]), axes=[-1], epsilon=1e-5)
            x = x + times(times(h, 'w1', i).silu() * times(h, 'w3', i), 'w2', i)
        return x.rms_norm(g.constant(w['rms_final']), axes=[-1], epsilon=1e-5) @ g.constant(np.ascontiguousarray(w['table'].T))


class Stories(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.isdir(FOLDER):
            raise unittest.SkipTest(f'{FOLDER} is not there')
        tap.device()
        cls.model = Model(FOLDER)

    def tell(self, adapters, tokens, n):
        """The most likely tokens, one after the other."""
        g = Rlx.Graph()
        x = g.input('tokens', 'i32', [LENGTH])
        parameters = {name: g.parameter(name, 'f32', shape) for name, shape in self.model.adapter_shapes().items()}
        g.output('logits', self.model.network(g, x, parameters))
        exe = tap.device().compile(g)
        exe.set_parameters(adapters)
        tokens = list(tokens)
        while len(tokens) < n:
            logits = np.asarray(exe(np.array(tokens + [0] * (LENGTH - len(tokens)), np.int32)).logits)
            tokens.append(int(logits[len(tokens) - 1].argmax()))
        return tokens, np.asarray(exe(np.array([1] + [0] * (LENGTH - 1), np.int32)).logits)[0]

    def test_fine_tune(self):
        model = self.model
        tokens = model.encode(TEXT)
        self.assertEqual(model.decode(tokens[1:]), TEXT)
        self.assertLess(len(tokens), LENGTH)
        nothing = {name: np.zeros(shape, 'f') for name, shape in model.adapter_shapes().items()}
        before, logits = self.tell(nothing, tokens[:6], len(tokens))
        # What the model's maker computes.
        np.testing.assert_allclose(logits[:4], [-6.22291, 8.40434, -6.22374, -6.22254], atol=2e-4)
        self.assertNotEqual(before, tokens)

        random = np.random.default_rng(1)
        n = len(tokens) - 1
        g = Rlx.Graph()
        x, target = g.input('tokens', 'i32', [n]), g.input('target', 'i32', [n])
        adapters = {name: g.state(name, np.zeros(shape, 'f') if name.endswith('.a') else random.normal(0, .1, shape).astype('f'))
                    for name, shape in model.adapter_shapes().items()}
        loss = model.network(g, x, adapters).softmax_cross_entropy(target)
        g.optimize(loss, adapters, algorithm='adam', learning_rate=RATE)
        g.output('loss', loss)
        trainer = Rlx.Trainer(tap.device().compile(g))
        batch = np.array(tokens[:-1], np.int32), np.array(tokens[1:], np.int32)
        losses = trainer.train([batch] * STEPS)
        self.assertGreater(losses[0], 1)
        self.assertLess(losses[-1], losses[0] / 20)

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'adapters.safetensors')
            trainer.save(path, nothing)
            weights = Rlx.Weights.open(path)
            learnt = {name: weights.load_tensor(name) for name in nothing}
        after, _ = self.tell(learnt, tokens[:6], len(tokens))
        self.assertEqual(model.decode(after[1:]), TEXT)


if __name__ == '__main__':
    tap.main()
