#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rlx.Trainer: what it returns, reports, saves and refuses; adapters beside weights that stay as they are."""
import asyncio
import os
import tempfile
import unittest

import numpy as np
import tap
from gi.repository import Gio, GLib, Rlx

ROWS, INPUTS = 8, 5


def training_graph(inputs=INPUTS, skip=False, **extra):
    """A line through points, by Adam."""
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
        # A list has a length, a generator may have none; inputs may come by position.
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
        # What was learnt stays, and more can be.
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
        # Where it is asked for, the step is skipped and counted.
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
        """What goes on from a file has the bits of what never stopped."""
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
        """Parameters stay as they are; two thin matrices beside one learn, and can be saved and added to it."""
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
        # The last loss is of before the last step.
        self.assertLess((difference ** 2).mean(), losses[-1] * 1.5)


if __name__ == '__main__':
    tap.main()
