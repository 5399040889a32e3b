# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The language model stories260K of llama2.c, in shared/models next to the project, and a text to learn."""
import os
import struct

import numpy as np

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(os.path.dirname(PROJECT), 'shared', 'models', 'stories260K')
TEXT = 'Once upon a time, a robot was made of cheese. The moon was red, and all cats were in the rain.'
RANK = 8
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
        """Starting with letters, repeatedly merges the two neighbours with the best score."""
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
        """Logits for each token; weights are constants, and so are not trained."""
        dim, _, layers, heads, kv_heads, _, _ = self.sizes
        n, w = tokens.shape[0], self.weights

        def times(x, name, i):
            y = x @ g.constant(np.ascontiguousarray(w[name][i].T))
            a, b = (adapters.get(f'{name}{i}.{side}') for side in 'ab')
            # The adapters follow the layout of the weight in the file, whose rows are outputs.
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
