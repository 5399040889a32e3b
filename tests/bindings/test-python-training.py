#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rlx.Trainer: what it returns, reports, saves and rejects; adapters next to weights that stay as they are."""
import asyncio
import os
import tempfile
import unittest

import numpy as np
import tap
from gi.repository import Gio, GLib, Rlx

ROWS, INPUTS = 8, 5


def training_graph(inputs=INPUTS, skip=False, **extra):
    """A line fitted to points, with Adam."""
    g = Rlx.Graph()
    x, y = g.input('x', 'f32', [ROWS, inputs]), g.input('y', 'f32', [ROWS])
    w = {'w': g.state('w', np.zeros((inputs, 1), 'f')), 'b': g.state('b', np.zeros(1, 'f'))}
    loss = ((x @ w['w']).reshape([ROWS]) + w['b']).mse_loss(y)
    g.optimize(loss, w, algorithm='adam', learning_rate=.05, **({'skip_not_finite': True} if skip else {}), **extra)
    g.output('loss', loss)
    return g


def make_trainer(**settings):
    return Rlx.Trainer(tap.device().compile(training_graph(**settings)))


def make_batches(n, seed=1):
    random = np.random.default_rng(seed)
    slopes = np.arange(INPUTS, dtype='f') - 2
    for _ in range(n):
        x = random.normal(0, 1, (ROWS, INPUTS)).astype('f')
        yield {'x': x, 'y': x @ slopes + 1}


class Loop(unittest.TestCase):
    def test_learns(self):
        calls = []
        trainer = make_trainer()
        losses = trainer.train(make_batches(150), total=150, progress=lambda *call: calls.append(call))
        self.assertEqual(calls, [(i + 1, loss, 150) for i, loss in enumerate(losses)])
        self.assertLess(losses[-1], losses[0] / 50)
        np.testing.assert_allclose(np.asarray(trainer.read(['w'])['w']).ravel(), np.arange(INPUTS) - 2, atol=.3)
        # A list has a length, a generator may have none; inputs may be given by position.
        seen = []
        trainer.train([tuple(batch.values()) for batch in make_batches(2)], progress=lambda step, loss, total: seen.append(total))
        trainer.train(make_batches(1), progress=lambda step, loss, total: seen.append(total))
        self.assertEqual(seen, [2, 2, None])

    def test_await(self):
        expected = make_trainer().train(make_batches(5))
        self.assertEqual(asyncio.run(make_trainer().train_future(make_batches(5))), expected)

    def test_cancel(self):
        cancellable, trainer = Gio.Cancellable(), make_trainer()

        def progress(step, loss, total):
            if step == 3:
                cancellable.cancel()

        with self.assertRaises(GLib.Error) as caught:
            trainer.train(make_batches(10), progress=progress, cancellable=cancellable)
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        # The trained weights are kept, and training can continue.
        other = make_trainer()
        other.train(make_batches(3))
        np.testing.assert_array_equal(*(np.asarray(each.read(['w'])['w']) for each in (trainer, other)))
        self.assertEqual(len(trainer.train(make_batches(2))), 2)

    def test_cancel_task(self):
        async def main():
            trainer = make_trainer()
            task = asyncio.create_task(trainer.train_future(make_batches(100000)))
            await asyncio.sleep(.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return len(trainer.train(make_batches(1)))

        self.assertEqual(asyncio.run(main()), 1)

    def test_not_finite(self):
        batches = [*make_batches(3)]
        batches[1]['x'] = batches[1]['x'] * np.float32(np.inf)
        with self.assertRaises(GLib.Error) as caught:
            make_trainer().train(batches)
        self.assertTrue(caught.exception.matches(Rlx.graph_error_quark(), Rlx.GraphError.INVALID_ARGUMENT))
        self.assertIn('“loss” of step 2 is nan', caught.exception.message)
        # On request, the step is skipped and counted.
        trainer = make_trainer(skip=True)
        losses = trainer.train(batches)
        self.assertEqual([np.isfinite(loss) for loss in losses], [True, False, True])
        self.assertEqual(trainer.skipped, 1)
        other = make_trainer(skip=True)
        self.assertEqual(other.train([batches[0], batches[2]]), [losses[0], losses[2]])

    def test_refused(self):
        g = Rlx.Graph()
        g.output('y', g.input('x', 'f32', [2]).relu())
        with self.assertRaisesRegex(ValueError, "no output 'loss'"):
            Rlx.Trainer(tap.device().compile(g))
        with self.assertRaisesRegex(ValueError, 'nothing to train'):
            Rlx.Trainer(tap.device().compile(g), 'y')


class Files(unittest.TestCase):
    def test_resume(self):
        """Training resumed from a file has the same bits as uninterrupted training."""
        batches = [*make_batches(12)]
        whole = make_trainer(accumulate=2, clip_norm=1.0)
        expected = whole.train(batches)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'state.safetensors')
            first = make_trainer(accumulate=2, clip_norm=1.0)
            losses = first.train(batches[:5])
            first.save(path)
            second = make_trainer(accumulate=2, clip_norm=1.0)
            second.load(path)
            losses += second.train(batches[5:])
        self.assertEqual(losses, expected)
        for name, value in whole.read().items():
            self.assertEqual(np.asarray(value).tobytes(), np.asarray(second.read([name])[name]).tobytes(), name)

    def test_other_shapes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'state.safetensors')
            make_trainer(inputs=4).save(path)
            trainer = make_trainer()
            trainer.train(make_batches(1))
            before = {name: np.asarray(value).tobytes() for name, value in trainer.read().items()}
            with self.assertRaises(GLib.Error) as caught:
                trainer.load(path)
            self.assertTrue(caught.exception.matches(Rlx.graph_error_quark(), Rlx.GraphError.SHAPE), caught.exception)
            self.assertRegex(caught.exception.message, r'the state .*w.* is f32\[4, 1\] in the file')
            trainer.save(path, ['w'])
            with self.assertRaises(GLib.Error) as caught:
                trainer.load(path)
            self.assertIn('b', caught.exception.message)
            with self.assertRaisesRegex(ValueError, "no state 'nothing'"):
                trainer.load(path, ['nothing'])
            self.assertEqual({name: np.asarray(value).tobytes() for name, value in trainer.read().items()}, before)
            trainer.load(path, ['w'])


class Adapters(unittest.TestCase):
    def test_low_rank(self):
        """Parameters stay as they are; two thin matrices next to one are trained, and can be saved and added to it."""
        random = np.random.default_rng(3)
        frozen, wanted = random.normal(0, 1, (6, 4)).astype('f'), random.normal(0, 1, (6, 4)).astype('f') * .1
        x = random.normal(0, 1, (16, 6)).astype('f')
        y = x @ (frozen + wanted[:, :1] @ wanted[:1])
        g = Rlx.Graph()
        given, target = g.input('x', 'f32', x.shape), g.input('y', 'f32', y.shape)
        w = g.parameter('w', 'f32', frozen.shape)
        a, b = g.state('w.a', random.normal(0, .3, (6, 1)).astype('f')), g.state('w.b', np.zeros((1, 4), 'f'))
        loss = (given @ w + given @ a @ b).mse_loss(target)
        g.optimize(loss, [a, b], algorithm='adam', learning_rate=.02)
        g.output('loss', loss)
        exe = tap.device().compile(g)
        exe.set_parameters({'w': frozen})
        trainer = Rlx.Trainer(exe)
        losses = trainer.train([(x, y)] * 200)
        self.assertLess(losses[-1], losses[0] / 20)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'adapters.safetensors')
            trainer.save(path, ['w.a', 'w.b'])
            weights = Rlx.Weights.open(path)
            a, b = (np.asarray(weights.load_tensor(name)) for name in ('w.a', 'w.b'))
        difference = x @ (frozen + a @ b) - y
        # The last loss was computed before the last step.
        self.assertLess((difference ** 2).mean(), losses[-1] * 1.5)

    def test_packed(self):
        """A weight of packed integers is trained through its adapters, and keeps its bytes."""
        random = np.random.default_rng(5)
        levels, scales = random.integers(0, 256, (8, 16), dtype=np.uint8), random.uniform(.005, .01, (8, 1)).astype('f')
        frozen = (levels.astype('f') - 128) * scales
        wanted = random.normal(0, .3, (16, 1)).astype('f') @ random.normal(0, .3, (1, 8)).astype('f')
        x = random.normal(0, 1, (32, 16)).astype('f')
        g = Rlx.Graph()
        given, target = g.input('x', 'f32', x.shape), g.input('y', 'f32', (32, 8))
        w, scale = g.parameter('w', 'u8', levels.shape), g.constant(scales)
        a, b = g.state('w.a', random.normal(0, .3, (16, 1)).astype('f')), g.state('w.b', np.zeros((1, 8), 'f'))
        # Operators before the weight are trained, too: the gradient passes through it.
        gain = g.state('gain', np.full(16, .5, 'f'))
        h = given * gain
        loss = (h.dequant_matmul(w, 'int8', scale=scale, block_size=16) + h @ a @ b).mse_loss(target)
        g.optimize(loss, [a, b, gain], algorithm='adam', learning_rate=.02)
        g.output('loss', loss)
        exe = tap.device().compile(g)
        exe.set_parameters({'w': levels})
        losses = Rlx.Trainer(exe).train([(x, x @ (frozen.T + wanted))] * 300)
        self.assertLess(losses[-1], losses[0] / 50)
        self.assertEqual({port.get_name() for port in exe.get_states()} & {'w'}, set())


class Half(unittest.TestCase):
    def test_masters(self):
        """Activations in f16, parameters and the optimiser's state in f32: a step too small for f16 is not lost."""
        random = np.random.default_rng(6)
        x, slopes = random.normal(0, 1, (64, 4)).astype('f'), np.array([1, -.5, 2, 1.5], 'f')
        g = Rlx.Graph()
        given, target = g.input('x', 'f32', x.shape), g.input('y', 'f32', (64, 1))
        w = g.state('w', np.ones((4, 1), 'f'))
        y = given.cast('f16') @ w.cast('f16')
        self.assertEqual(y.dtype, Rlx.DataType.F16)
        loss = y.cast('f32').mse_loss(target)
        g.optimize(loss, [w], algorithm='sgd', learning_rate=5e-5, scale_loss=True)
        g.output('loss', loss)
        trainer = Rlx.Trainer(tap.device().compile(g))
        batch = x, x @ slopes[:, None]
        losses = trainer.train([batch] * 20)
        self.assertEqual(trainer.skipped, 0)
        learnt = np.asarray(trainer.read(['w'])['w'])
        # Plain steps in f32; the gradient is a mean of 64 products whose factors have 11 bits.
        p = np.ones((4, 1))
        for _ in range(20):
            p -= 5e-5 * 2 * x.T @ (x @ p - batch[1]) / 64
        np.testing.assert_allclose(learnt - 1, p - 1, rtol=8 * 2.0 ** -11, atol=20 * 2.0 ** -24)
        self.assertLess(np.abs(learnt - 1).max() / 20, 2.0 ** -12)
        self.assertLess(losses[-1], losses[0])
        # An infinite activation halves the scale, changes nothing else, and is counted.
        trainer.train([(x * np.float32(1e6), batch[1])])
        self.assertEqual(trainer.skipped, 1)
        np.testing.assert_array_equal(np.asarray(trainer.read(['w'])['w']), learnt)


class Several(unittest.TestCase):
    def test_losses(self):
        """Two losses share a subgraph; gradients of each, of their sum, and with a seed, with the same bits in each run."""
        random = np.random.default_rng(7)
        x, w = random.normal(0, 1, (5, 3)).astype('f'), random.normal(0, 1, (3, 4)).astype('f')
        g = Rlx.Graph()
        given, weight, seed = g.input('x', 'f32', x.shape), g.input('w', 'f32', w.shape), g.input('seed', 'f32', (5, 4))
        shared = (given @ weight).tanh()
        first, second = (shared * shared).sum(), shared.sum()
        g.output('first', g.gradient(first, weight))
        g.output('second', g.gradient(second, weight))
        g.output('both', g.gradient(first + second, weight))
        g.output('seeded', g.gradient(shared, weight, seed=seed))
        exe = tap.device().compile(g)
        v = random.normal(0, 1, (5, 4)).astype('f')
        out = exe(x, w, v)
        t = np.tanh(x.astype('d') @ w)
        slope = 1 - t * t
        # Sums of 5 terms up to 8, each of some ten roundings.
        for name, factor in ('first', 2 * t), ('second', 1), ('both', 2 * t + 1), ('seeded', v):
            np.testing.assert_allclose(np.asarray(out[name]), x.T.astype('d') @ (slope * factor), rtol=0, atol=5 * 8 * 10 * 2.0 ** -24)
        for _ in range(3):
            again = exe(x, w, v)
            for name in ('first', 'second', 'both', 'seeded'):
                self.assertEqual(np.asarray(again[name]).tobytes(), np.asarray(out[name]).tobytes())


if __name__ == '__main__':
    tap.main()
