#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Fine-tunes a language model with low-rank adapters: a small text changes what it tells.

The model is stories260K of llama2.c, in shared/models next to the project; without it this is
skipped.
"""
import os
import tempfile
import unittest

import numpy as np
import tap
from gi.repository import Rlx
from stories import FOLDER, TEXT, Model

LENGTH, STEPS, RATE = 64, 60, 1e-2


class Stories(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.isdir(FOLDER):
            raise unittest.SkipTest(f'{FOLDER} is not there')
        tap.device()
        cls.model = Model(FOLDER)

    def tell(self, adapters, tokens, n):
        """The most likely tokens, one by one."""
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
        # As computed by the author of the model.
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
