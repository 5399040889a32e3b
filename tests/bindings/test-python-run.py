#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python override on a device: results compared with numpy, asyncio, cancelling, errors."""
import asyncio
import functools
import json
import math
import operator
import pickle
import tempfile
import threading
import unittest
import unittest.mock

import numpy as np
import onnx_file
import tap
from gi.events import GLibEventLoop
from gi.repository import Gio, GLib, Rlx

# One unit in the last place of a 32-bit float, relative.
ULP = 2.0 ** -23


def evaluate(build, **inputs):
    """The result of the graph that build(**nodes) makes, for numpy arrays."""
    g = Rlx.Graph()
    results = build(**{name: g.input(name, value.dtype, value.shape) for name, value in inputs.items()})
    for i, node in enumerate(results):
        g.output(str(i), node)
    return [np.asarray(tensor) for tensor in tap.device().compile(g)(**inputs)]


class Symbols(unittest.TestCase):
    """Python's operators, compared with their effect on arrays."""

    def check(self, calls, *values, bound=0.0):
        """bound: the relative error of floats."""
        results = evaluate(lambda **nodes: [call(*nodes.values()) for call in calls.values()],
                           **{f'x{i}': value for i, value in enumerate(values)})
        for (name, call), got in zip(calls.items(), results):
            with np.errstate(all='ignore'):
                expected = np.asarray(call(*values))
            with self.subTest(name, dtype=values[0].dtype.name):
                self.assertEqual(got.shape, expected.shape)
                if expected.dtype == np.bool_ or got.dtype.kind in 'iu':
                    self.assertEqual(got.dtype, expected.dtype)
                    self.assertEqual(got.tolist(), expected.tolist())
                else:
                    both_nan = np.isnan(got) & np.isnan(expected)
                    with np.errstate(all='ignore'):
                        error = np.abs(got.astype(np.float64) - expected)
                        fits = (error <= bound * np.abs(expected)) | (got == expected) | both_nan
                    self.assertTrue(fits.all(), f'{got[~fits]} for {expected[~fits]}')

    def test_exact_floats(self):
        a = np.array([[-7.5, -1, 0, 2.25], [3, 1e20, -6, 0.1]], np.float32)
        b = np.array([2, -3.5, 4, 0.25], np.float32)
        self.check({
            'add': lambda a, b: a + b, 'add number': lambda a, b: a + 2, 'number add': lambda a, b: 2.5 + a,
            'add array': lambda a, b: a + np.array([1, 2, 3, 4], np.float32), 'sub': lambda a, b: a - b,
            'number sub': lambda a, b: 1 - a, 'array sub': lambda a, b: np.array([1, 2, 3, 4], np.float32) - a,
            'mul': lambda a, b: a * b, 'number mul': lambda a, b: np.float32(3) * a, 'neg': lambda a, b: -a,
            'pos': lambda a, b: +a, 'abs': lambda a, b: abs(a), 'bool add': lambda a, b: True + a,
            'less': lambda a, b: a < b, 'less equal': lambda a, b: a <= 3, 'greater': lambda a, b: 2 > a,
            'greater equal': lambda a, b: np.float32(-1) >= a, 'array less': lambda a, b: np.zeros(4, np.float32) < a,
        }, a, b)

    def test_division(self):
        a = np.array([7.5, -7.5, 6, 1, 0.1, 1000], np.float32)
        b = np.array([2, 2, -3, 3, 7, 0.1], np.float32)
        self.check({'div': lambda a, b: a / b, 'div number': lambda a, b: a / 3, 'number div': lambda a, b: 3 / b},
                   a, b, bound=2.5 * ULP)

    def test_floor_division_of_floats(self):
        a = np.array([7.5, -7.5, 6, -6, 9, 1e6, 0, 5, -5, 1, -1, 27], np.float32)
        b = np.array([2, 2, 3, 3, -3, 7, 4, 0, 0, 0.1, 0.1, 0.3], np.float32)
        self.check({'floordiv': lambda a, b: a // b, 'number': lambda a, b: a // np.float32(0.3),
                    'reflected': lambda a, b: 12 // b}, a, b)
        self.check({'mod': lambda a, b: a % b, 'number': lambda a, b: a % 2, 'reflected': lambda a, b: 12 % b},
                   a[:7], b[:7])

    def test_powers(self):
        a = np.array([0.5, 1, 2, 3.5, 10], np.float32)
        # The bound of the operator.
        self.check({'pow': lambda a: a ** 2.5, 'negative': lambda a: a ** -1, 'reflected': lambda a: 2 ** a}, a, bound=4e-6)

    def test_matmul(self):
        a = np.arange(12, dtype=np.float32).reshape(2, 2, 3) - 5
        b = np.arange(6, dtype=np.float32).reshape(3, 2) - 2
        # Small integers: exact in any order.
        self.check({
            'matmul': lambda a, b: a @ b, 'array': lambda a, b: a @ np.ones((3, 4), np.float32),
            'reflected': lambda a, b: np.ones((4, 3), np.float32) @ b, 'vector': lambda a, b: a @ np.float32([1, 2, 3]),
        }, a, b)

    def test_integers(self):
        for dtype in (np.int32, np.uint32, np.int8, np.uint8):
            signed = np.issubdtype(dtype, np.signedinteger)
            a = np.array([7, 7, 6, 100, 0, 1] + ([-7, -7, -6, np.iinfo(dtype).min, -1, -100] if signed else []), dtype)
            b = np.array([2, 3, 3, 7, 5, 0] + ([2, -2, 3, 3, -5, 7] if signed else []), dtype)
            count = np.array([0, 1, 2, 3, 4, 5] * (2 if signed else 1), dtype)
            self.check({
                'add': lambda a, b, c: a + b, 'sub': lambda a, b, c: a - 1, 'mul': lambda a, b, c: a * b,
                'floordiv': lambda a, b, c: a // b, 'floordiv number': lambda a, b, c: a // 3,
                'number floordiv': lambda a, b, c: 100 // b, 'mod': lambda a, b, c: a % b,
                'mod number': lambda a, b, c: a % 3, 'and': lambda a, b, c: a & b, 'or': lambda a, b, c: a | 4,
                'xor': lambda a, b, c: 5 ^ a, 'not': lambda a, b, c: ~a, 'shl': lambda a, b, c: a << c,
                'shr': lambda a, b, c: a >> c, 'number shl': lambda a, b, c: 1 << c, 'pow': lambda a, b, c: c ** 2,
                'equal': lambda a, b, c: a.equal(b) if isinstance(a, Rlx.Node) else a == b,
                'less': lambda a, b, c: a < 5,
            }, a, b, count)

    def test_bools(self):
        a = np.array([True, True, False, False])
        b = np.array([True, False, True, False])
        self.check({'and': operator.and_, 'or': operator.or_, 'xor': operator.xor, 'not': lambda a, b: ~a,
                    'and value': lambda a, b: True & a, 'array': lambda a, b: np.array([True, False, False, True]) ^ a},
                   a, b)

    def test_the_example_of_the_manual(self):
        rng = np.random.default_rng(3)
        x, w, b = (rng.standard_normal(shape, np.float32) for shape in ((5, 17), (17, 9), (9,)))
        y, = evaluate(lambda x: [(x @ w + b).gelu()], x=x)
        z = x.astype(np.float64) @ w + b
        expected = z * 0.5 * (1 + np.vectorize(math.erf)(z / 2 ** 0.5))
        # The sums, through a function whose slope is below 1.2, and GELU's own error.
        bound = 1.2 * (2 * 17 + 1) * 2.0 ** -24 * (np.abs(x) @ np.abs(w) + np.abs(b)) + 1e-5
        self.assertTrue((np.abs(y - expected) <= bound).all())


class Attributes(unittest.TestCase):
    def test_keywords(self):
        rng = np.random.default_rng(4)
        x = rng.integers(-4, 5, (4, 6)).astype(np.float32)
        results = evaluate(lambda x: [
            x.matmul(x, transpose_b=True), x.reduce_sum(axes=[0], keep_dims=True), x.reduce_max(1),
            x.slice([0, 5], [4, 0], axes=[0, 1], steps=[2, -2]), x.get_graph().concat([x, x * 2], axis=1),
            x.clamp(minimum=-1, maximum=2), x.affine(alpha=2, beta=1), x.mod([3], floor=True),
            x.transpose([1, 0]), x.reshape([2, -1]), x.expand((2, 4, 6)), x.gather([3, 0], axis=0), x.cast('i8'),
            x.linear(np.ones((2, 6)), [1, 2], transpose_b=True, beta=2), x.leaky_relu(alpha=0.5),
        ], x=x)
        expected = [
            x @ x.T, x.sum(0, keepdims=True), x.max(1), x[0:4:2, 5:0:-2], np.concatenate([x, x * 2], 1),
            x.clip(-1, 2), x * 2 + 1, x % 3, x.T, x.reshape(2, -1), np.broadcast_to(x, (2, 4, 6)), x[[3, 0]],
            x.astype(np.int8), x @ np.ones((6, 2)) + 2 * np.array([1, 2]), np.where(x < 0, x / 2, x),
        ]
        for i, (got, right) in enumerate(zip(results, expected, strict=True)):
            with self.subTest(i):
                self.assertEqual(got.shape, right.shape)
                self.assertTrue((got == right).all())

    def test_norms(self):
        x = np.random.default_rng(5).standard_normal((4, 6), np.float32)
        soft, norm, rms = evaluate(lambda x: [
            x.softmax(axis=0), x.layer_norm(np.full(6, 2.0), axes=[-1], epsilon=1e-3), x.rms_norm(epsilon=0.5)], x=x)
        x = x.astype(np.float64)
        e = np.exp(x - x.max(0))
        centred = x - x.mean(1, keepdims=True)
        for got, right in (
            (soft, e / e.sum(0)), (norm, 2 * centred / np.sqrt(x.var(1, keepdims=True) + 1e-3)),
            (rms, x / np.sqrt((x * x).mean(1, keepdims=True) + 0.5)),
        ):
            # The bounds of the operators: 2e-6 relative to numbers that are below 8 here, and 1e-7.
            self.assertTrue((np.abs(got - right) <= 2e-6 * 8 + 1e-7).all())

    def test_attention(self):
        rng = np.random.default_rng(6)
        q, k, v = (rng.standard_normal((1, 2, 5, 4), np.float32) for _ in range(3))
        mask = rng.random((5, 5)) < 0.7
        plain, causal, masked = evaluate(lambda q, k, v: [
            q.attention(k, v), q.attention(k, v, mask=None, causal=True), q.attention(k, v, mask, scale=0.25)], q=q, k=k, v=v)
        for got, scale, seen in ((plain, 0.5, np.ones((5, 5), bool)), (causal, 0.5, np.tri(5, dtype=bool)),
                                 (masked, 0.25, mask)):
            scores = np.where(seen, scale * (q.astype(np.float64) @ k.swapaxes(2, 3)), -np.inf)
            e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
            right = e / np.maximum(e.sum(-1, keepdims=True), 1e-300) @ v
            # The operator's bound for 5 keys of width 4, with scores that are below 20.
            self.assertTrue((np.abs(got - right) <= 2.0 ** -23 * (5 + 8 * 20 + 64) * np.abs(v).max()).all())


class Indexing(unittest.TestCase):
    """Brackets and reductions, compared with numpy."""

    def test_indices(self):
        x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
        indices = [
            np.s_[0], np.s_[-1], np.s_[1, 2], np.s_[1, 2, -5], np.s_[:], np.s_[...], np.s_[1:], np.s_[:, 0], np.s_[..., 0],
            np.s_[..., -1, :], np.s_[0, ..., 1], np.s_[:, 1:-1], np.s_[::-1], np.s_[:, ::-2, 4:0:-3], np.s_[5:], np.s_[2:1],
            np.s_[:, 9:-9:-1], np.s_[-100:100], np.s_[None], np.s_[:, None, 0], np.s_[..., None], np.s_[0, None, :, 1],
            np.s_[[2, 0]], np.s_[:, [3, 3, -1]], np.s_[[[0, 1], [2, 0]]], np.s_[1, [0, 2]], np.s_[[0, 2], 1], np.s_[:, 1, [0, 2]],
            np.s_[[0, 2], ::2], np.s_[1:, None, [3]], np.s_[np.array([1, 0]), ..., None], np.s_[np.int64(1)], np.s_[np.array(2)],
            np.s_[[]],
        ]
        # numpy treats an empty list as floats.
        results = evaluate(lambda x: [x[index] for index in indices], x=x)
        for index, got in zip(indices, results, strict=True):
            with self.subTest(index=str(index)):
                expected = x[index]
                self.assertEqual(got.shape, expected.shape)
                self.assertTrue((got == expected).all())

    def test_nodes_as_indices(self):
        x, ids = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[3, 0], [1, 1]], np.int32)
        rows, columns = evaluate(lambda x, ids: [x[ids], x[1:, ids[:, 1]]], x=x, ids=ids)
        self.assertEqual(rows.tolist(), x[ids].tolist())
        self.assertEqual(columns.tolist(), x[1:, ids[:, 1]].tolist())

    def test_reductions(self):
        x = np.random.default_rng(8).integers(-4, 5, (3, 4, 2)).astype(np.float32)
        calls = [
            lambda x: x.sum(), lambda x: x.sum(1), lambda x: x.sum(axis=(0, -1), keepdims=True), lambda x: x.max(),
            lambda x: x.max(axis=0), lambda x: x.min(axis=(1, 2)), lambda x: x.prod(axis=2), lambda x: x.mean(axis=1),
            lambda x: (x > 0).any(axis=1), lambda x: (x > -4).all(), lambda x: x.T.sum(axis=0),
        ]
        for call, got in zip(calls, evaluate(lambda x: [call(x) for call in calls], x=x), strict=True):
            # Quarters and eighths: exact.
            self.assertEqual(got.tolist(), call(x).tolist())


class Calls(unittest.TestCase):
    @staticmethod
    @functools.cache
    def compile():
        device = tap.device()
        g = Rlx.Graph()
        a, b = g.input('a', np.float32, [3]), g.input('b', np.float32, [3])
        g.output('difference', a - b)
        g.output('quotient', a / b)
        return device.compile(g)

    def setUp(self):
        self.exe = Calls.compile()

    def test_forms(self):
        a, b = np.float32([5, 6, 7]), [1.0, 2.0, 4.0]
        for name, outputs in {
            'positions': self.exe(a, b), 'names': self.exe(b=b, a=a), 'both': self.exe(a, b=b),
            'run': self.exe.run([a, b]), 'run_named': self.exe.run_named(['b', 'a'], [b, a]),
            'tensors': self.exe.run([Rlx.Tensor.from_array(a), Rlx.Tensor.from_array(b)], None),
            'any iterable': self.exe.run(iter((a, b))),
        }.items():
            with self.subTest(name):
                self.assertEqual([tensor.tolist() for tensor in outputs], [[4, 4, 3], [5, 3, 1.75]])

    def test_outputs_by_name(self):
        out = self.exe([5, 6, 7], [1, 2, 4])
        self.assertIsInstance(out, list)
        self.assertIs(out['quotient'], out[1])
        self.assertIs(out.difference, out[0])
        self.assertEqual(list(out.keys()), ['difference', 'quotient'])
        self.assertEqual({name: tensor.tolist() for name, tensor in dict(out).items()},
                         {'difference': [4, 4, 3], 'quotient': [5, 3, 1.75]})
        self.assertIn('quotient', dir(out))
        with self.assertRaisesRegex(KeyError, "'sum'.*'difference', 'quotient'"):
            out['sum']
        with self.assertRaisesRegex(AttributeError, "'sum'"):
            out.sum
        again = pickle.loads(pickle.dumps(out))
        self.assertEqual(again.quotient.tolist(), [5, 3, 1.75])

    def test_inputs_are_converted(self):
        a = np.array([5, 6, 7])
        for name, value in {'int64': a, 'float64': a.astype(np.float64), 'int list': [5, 6, 7], 'f16': a.astype(np.float16),
                            'bools': a > 5, 'buffer': memoryview(a.astype(np.float32))}.items():
            with self.subTest(name):
                expected = np.asarray(value).astype(np.float32) - 1
                self.assertEqual(self.exe(value, [1, 1, 1])[0].tolist(), expected.tolist())
                self.assertEqual(self.exe({'b': [1, 1, 1], 'a': value}).difference.tolist(), expected.tolist())
                for future in (self.exe.run_future([value, [1, 1, 1]]), self.exe.run_future({'a': value, 'b': [1, 1, 1]})):
                    self.assertEqual(asyncio.run(future)['difference'].tolist(), expected.tolist())
        g = Rlx.Graph()
        ids = g.input('ids', 'i32', [2])
        g.output('y', ids + g.parameter('p', 'i32', []) + g.state('s', 0))
        exe = tap.device().compile(g)
        exe.set_parameters({'p': np.int64(100)})
        exe.write_state('s', np.int64(7))
        self.assertEqual(exe(np.array([1, 2])).y.tolist(), [108, 109])
        asyncio.run(exe.set_parameters_future({'p': 0}))
        self.assertEqual(exe([1, 2]).y.tolist(), [8, 9])
        for wrong, error in ((np.array([2 ** 40, 1]), OverflowError), ([1.5, 2], TypeError), (np.ones(2), TypeError)):
            with self.assertRaisesRegex(error, '^ids: '):
                exe(wrong)
        with self.assertRaisesRegex(TypeError, 'no others'):
            exe.set_parameters({'p': 1}, [1])

    def test_wrong_calls(self):
        a = np.float32([1, 2, 3])
        for code, call in ((Rlx.GraphError.INVALID_ARGUMENT, lambda: self.exe(a)),
                           (Rlx.GraphError.SHAPE, lambda: self.exe(a, a[:2])),
                           (Rlx.GraphError.DATA_TYPE, lambda: self.exe(a, Rlx.Tensor.from_array(a, 'f16'))),
                           (Rlx.GraphError.NOT_FOUND, lambda: self.exe(a=a, c=a))):
            with self.subTest(code), self.assertRaises(GLib.Error) as caught:
                call()
            self.assertTrue(caught.exception.matches(Rlx.GraphError.quark(), code), caught.exception)
        for call in (lambda: self.exe(a, a, a=a), lambda: self.exe(a, a, a, b=a), lambda: self.exe(a, None),
                     lambda: self.exe(a.astype(np.complex64), a), lambda: self.exe.run(None), lambda: self.exe.run(3),
                     lambda: self.exe.run([a, object()]), lambda: self.exe.run([a, a], 'cancel'),
                     Rlx.Executable, Rlx.Device):
            with self.assertRaises(TypeError):
                call()
        # Still usable.
        self.assertEqual(self.exe(a, a)[0].tolist(), [0, 0, 0])

    def test_parameters_and_states(self):
        g = Rlx.Graph()
        p = g.parameter('p', np.float32, (2,))
        s = g.state('s', np.float32([1, 1]))
        g.assign(s, s + p)
        g.output('y', s * 1)
        exe = tap.device().compile(g)
        exe.set_parameters(['p'], [np.float32([1, 2])])
        exe()
        self.assertEqual(exe.read_state('s').tolist(), [2, 3])
        exe.write_state('s', [5.0, 5.0])
        exe()
        self.assertEqual(exe.read_state('s').tolist(), [6, 7])

    def test_threads(self):
        results = [None] * 4

        def run(index):
            results[index] = [self.exe(np.float32([i, index, 1]), np.float32([1, 1, 1]))[0].tolist() for i in range(10)]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [[[i - 1, index - 1, 0] for i in range(10)] for index in range(len(results))])

    def test_compile_errors(self):
        g = Rlx.Graph()
        g.input('x', 'f32', [1])
        with self.assertRaises(GLib.Error) as caught:
            tap.device().compile(g)
        self.assertTrue(caught.exception.matches(Rlx.CompileError.quark(), Rlx.CompileError.INVALID_GRAPH))
        for wrong in (None, 3, 'graph'):
            with self.assertRaises(TypeError):
                tap.device().compile(wrong)

    def test_compile_again(self):
        g = Rlx.Graph()
        x = g.input('x', 'f32', [1])
        with self.assertRaises(GLib.Error):
            tap.device().compile(g)
        g.output('y', x.relu())
        first = tap.device().compile(g)
        g.output('z', -x)
        second = tap.device().compile(g)
        self.assertEqual([y.tolist() for y in first([2.0])], [[2]])
        self.assertEqual([y.tolist() for y in second([2.0])], [[2], [-2]])

    def test_precision(self):
        self.assertEqual(Rlx.Graph().get_precision(), Rlx.Precision.FULL)
        g = Rlx.Graph.new_from_text('rlx 1\nprecision reduced\n')
        self.assertEqual(g.props.precision, Rlx.Precision.REDUCED)
        self.assertIn('precision reduced', g.to_text())
        x = g.input('x', 'f32', [2, 2])
        g.output('y', x.matmul(g.constant([[1.0, 2.0], [3.0, 4.0]])))
        y, = tap.device().compile(g).run([Rlx.Tensor.new_from_floats([2, 2], [1, 0, 0, 1])])
        self.assertEqual(y.to_floats(), [1, 2, 3, 4])

    def test_ports(self):
        self.assertEqual([(port.get_name(), port.dtype, port.shape) for port in self.exe.get_inputs()],
                         [('a', Rlx.DataType.F32, (3,)), ('b', Rlx.DataType.F32, (3,))])
        self.assertEqual([port.props.shape.unpack() for port in self.exe.props.inputs], [[3], [3]])
        self.assertEqual(repr(self.exe.props.inputs[0]), '<Rlx.Port a: f32[3]>')
        self.assertEqual(len(self.exe.props.parameters) + len(self.exe.props.states), 0)

    def test_compile_options(self):
        g = Rlx.Graph()
        g.output('y', g.input('x', 'f32', [2, 2]).exp())
        options = Rlx.CompileOptions(precision='reduced', tuning=True, profiling=True, memory_limit=10 ** 9, timeout=5.5)
        self.assertEqual((options.props.precision, options.props.tuning, options.props.timeout),
                         (Rlx.Precision.REDUCED, True, 5.5))
        self.assertTrue(tap.device().compile(g, Rlx.CompileOptions(profiling=True)).get_profiling())
        self.assertTrue(tap.device().compile(g, profiling=True, precision='full').get_profiling())
        self.assertTrue(asyncio.run(tap.device().compile_future(g, profiling=True)).get_profiling())
        with self.assertRaises(GLib.Error) as caught:
            tap.device().compile(g, memory_limit=1)
        self.assertTrue(caught.exception.matches(Rlx.DeviceError.quark(), Rlx.DeviceError.OUT_OF_MEMORY))
        self.assertIn('limit is 1', caught.exception.message)
        for wrong in ({'precision': 'half'}, {'nonsense': 1}, {'options': options, 'tuning': True}, {'timeout': 'x'}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                tap.device().compile(g, **wrong)

    def test_device_errors(self):
        with self.assertRaises(GLib.Error) as caught:
            Rlx.Device.open('no such adapter')
        self.assertTrue(caught.exception.matches(Rlx.DeviceError.quark(), Rlx.DeviceError.NOT_FOUND))
        self.assertIn('no such adapter', caught.exception.message)

    def test_estimate(self):
        self.assertGreater(self.exe.props.estimate, 0)
        self.assertEqual(self.exe.get_estimate(), self.exe.props.estimate)
        # Nothing is measured unless requested.
        self.assertIsNone(tap.device().props.calibration)

    def test_dictionaries(self):
        g = Rlx.Graph()
        g.output('y', g.input('x', np.float32, [3]).exp())
        exe = tap.device().compile(g)
        n = exe.get_n_dispatches()
        plan = exe.dup_plan()
        # The dictionary outlives its source.
        del exe, g
        self.assertEqual(plan['dispatches'], n)
        self.assertEqual(len(plan['steps']), n)
        adapter = tap.device().get_adapter()
        self.assertEqual(adapter.get_limits().unpack(), adapter.props.limits.unpack())
        self.assertGreater(adapter.get_limits()['max-buffer-size'], 0)

    def test_lists(self):
        self.assertIsInstance(list(Rlx.Adapter.list())[0], Rlx.Adapter)
        self.exe.set_profiling(True)
        try:
            self.exe([1.0] * 3, [2.0] * 3)
            steps = list(self.exe.props.profile)
            self.assertTrue(all(step.props.op and step.props.kernel and step.props.bytes > 0 and step.props.time >= 0
                                for step in steps))
            self.assertEqual(len(steps), self.exe.get_n_dispatches())
            self.assertGreaterEqual(steps[0].get_time(), 0)
        finally:
            self.exe.set_profiling(False)


class OnDevice(unittest.TestCase):
    def setUp(self):
        self.device = tap.device()

    def test_chain(self):
        g = Rlx.Graph()
        g.output('y', g.input('x', 'f32', [3]) * 2 + 1)
        exe = self.device.compile(g)
        x = self.device.upload([1.0, 2.0, 3.0])
        self.assertIs(x.get_device(), self.device)
        y, = exe.run_on_device([x])
        y, = exe.run_on_device({'x': y})
        self.assertEqual(y.numpy().tolist(), [7, 11, 15])
        self.assertTrue(y.fetch())
        with self.assertRaisesRegex(TypeError, 'the inputs are x'):
            exe.run_on_device({'z': x})

    def test_shared_states(self):
        def compile(step):
            g = Rlx.Graph()
            s = g.state('s', np.float32([1, 1]))
            if step:
                g.assign(s, s + step)
            g.output('y', s * 1)
            return self.device.compile(g)

        write, read = compile(2.0), compile(None)
        state = write.dup_state('s')
        self.assertEqual((state.get_data_type(), list(state.get_shape()), state.get_device()), (Rlx.DataType.F32, [2], self.device))
        read.bind_state('s', state)
        write()
        self.assertEqual(read()[0].tolist(), [3, 3])
        read.write_state('s', [5.0, 6.0])
        write()
        self.assertEqual(read.read_state('s').tolist(), [7, 8])
        with self.assertRaises(GLib.Error) as caught:
            read.dup_state('t')
        self.assertTrue(caught.exception.matches(Rlx.GraphError.quark(), Rlx.GraphError.NOT_FOUND))

    def test_operators(self):
        ops = Rlx.ops
        product = ops.matmul([[1, 2], [3, 4]], np.eye(2, dtype='float32'))
        self.assertIs(product.get_device(), self.device)
        self.assertEqual((ops.add(product, 1)).tolist(), [[2, 3], [4, 5]])
        self.assertEqual(ops.reduce_sum(product, axes=[0], keep_dims=True).tolist(), [[4, 6]])
        self.assertEqual(ops.softmax(product, -1).shape, (2, 2))
        self.assertEqual(ops.cast(product, 'i32').dtype, Rlx.DataType.I32)
        self.assertEqual([part.tolist() for part in ops.split(product, 0, sizes=[1, 1])], [[[1, 2]], [[3, 4]]])
        self.assertEqual(ops.concat([product, product], 0, device=self.device).shape, (4, 2))
        self.assertIn('matmul', dir(ops))
        self.assertIn('matmul', ops.matmul.__qualname__)
        with self.assertRaises(AttributeError):
            ops.nothing
        with self.assertRaisesRegex(TypeError, 'matmul'):
            ops.matmul(product)


class Async:
    """Used by the two classes below, with each of the event loops."""
    loop_factory = None

    @staticmethod
    @functools.cache
    def compile():
        device = tap.device()
        g = Rlx.Graph()
        x = g.input('x', np.float32, [64, 64])
        y = x
        for _ in range(8):
            y = (y @ x).tanh()
        g.output('y', y)
        g.output('sum', x.reduce_sum([0, 1]))
        exe, x = device.compile(g), np.random.default_rng(7).standard_normal((64, 64), np.float32)
        return g, exe, x, [tensor.tolist() for tensor in exe(x)]

    def setUp(self):
        self.graph, self.exe, self.x, self.expected = Async.compile()

    def run_coroutine(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, 30), loop_factory=self.loop_factory)

    def test_await(self):
        outputs = self.run_coroutine(self.exe.run_future([self.x]))
        self.assertEqual([tensor.tolist() for tensor in outputs], self.expected)

    def test_gather(self):
        async def main():
            return await asyncio.gather(*(self.exe.run_future([self.x * i]) for i in range(8)))

        results = self.run_coroutine(main())
        for i, outputs in enumerate(results):
            self.assertEqual(outputs[0].tolist(), self.exe(self.x * i)[0].tolist())
        self.assertEqual(results[1][0].tolist(), self.expected[0])

    def test_loop_goes_on(self):
        ticks = []

        async def main():
            run = asyncio.ensure_future(self.exe.run_future([self.x]))
            while not run.done():
                ticks.append(1)
                await asyncio.sleep(0)
            return await run

        self.assertEqual(len(self.run_coroutine(main())), 2)
        self.assertGreater(len(ticks), 0)

    def test_cancellable(self):
        async def before():
            cancellable = Gio.Cancellable()
            cancellable.cancel()
            await self.exe.run_future([self.x], cancellable)

        async def meanwhile():
            # On a busy machine a run may finish before it is cancelled.
            for _ in range(100):
                cancellable = Gio.Cancellable()
                run = asyncio.ensure_future(self.exe.run_future([self.x], cancellable))
                await asyncio.sleep(0)
                cancellable.cancel()
                await run

        for main in (before, meanwhile):
            with self.subTest(main.__name__), self.assertRaises(GLib.Error) as caught:
                self.run_coroutine(main())
            self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED), caught.exception)

    def test_cancelled_task(self):
        """Cancels only its own run, even if others share the cancellable."""
        async def main():
            cancellable = Gio.Cancellable()
            for _ in range(100):
                runs = [asyncio.ensure_future(self.exe.run_future([self.x], cancellable)) for _ in range(3)]
                await asyncio.sleep(0)
                if runs[1].cancel():
                    break
            return await asyncio.gather(*runs, return_exceptions=True), cancellable.is_cancelled()

        (first, second, third), cancelled = self.run_coroutine(main())
        self.assertEqual(first[0].tolist(), self.expected[0])
        self.assertIsInstance(second, asyncio.CancelledError)
        self.assertEqual(third[0].tolist(), self.expected[0])
        self.assertFalse(cancelled)

    def test_cancelled_task_ends_its_run(self):
        method = 'run_async' if self.loop_factory else 'run'
        call, cancellables = getattr(Rlx.Executable, method), []

        def record(exe, inputs, cancellable, *args):
            cancellables.append(cancellable)
            return call(exe, inputs, cancellable, *args)

        async def main():
            run = asyncio.ensure_future(self.exe.run_future([self.x]))
            while not cancellables:
                await asyncio.sleep(0)
            return run.cancel()

        with unittest.mock.patch.object(Rlx.Executable, method, record):
            for _ in range(100):
                cancellables.clear()
                if self.run_coroutine(main()):
                    break
        self.assertTrue(cancellables[0].is_cancelled())

    def test_timeout(self):
        async def main():
            for _ in range(100):
                await self.exe.run_future([self.x])

        async def limited():
            await asyncio.wait_for(main(), 1e-4)

        with self.assertRaises(TimeoutError):
            self.run_coroutine(limited())
        self.assertEqual(self.exe(self.x)[0].tolist(), self.expected[0])

    def test_errors(self):
        with self.assertRaises(GLib.Error) as caught:
            self.run_coroutine(self.exe.run_future([self.x[:2]]))
        self.assertTrue(caught.exception.matches(Rlx.GraphError.quark(), Rlx.GraphError.SHAPE))
        with self.assertRaises(TypeError):
            self.run_coroutine(self.exe.run_future([None]))

    def test_compile(self):
        async def main():
            exe = await tap.device().compile_future(self.graph)
            return await exe.run_future([self.x])

        self.assertEqual(self.run_coroutine(main())[0].tolist(), self.expected[0])

    def test_everything_that_blocks_has_a_future(self):
        async def main():
            device = await Rlx.Device.open_future(None)
            self.assertIs(await Rlx.Device.get_default_future(), tap.device())
            self.assertGreater(len(await Rlx.Adapter.list_future()), 0)
            g = Rlx.Graph()
            total = g.state('total', [0.0, 0.0])
            g.assign(total, total + g.input('x', 'f32', [2]) * g.parameter('p', 'f32', []))
            exe = await device.compile_future(g)
            await exe.set_parameters_future(['p'], [2.0])
            await exe.run_named_future(['x'], [[1.0, 2.0]])
            self.assertEqual((await exe.read_state_future('total')).tolist(), [2, 4])
            await exe.write_state_future('total', [5.0, 6.0])
            self.assertEqual((await exe.read_state_future('total')).tolist(), [5, 6])
            await exe.reset_state_future()
            fork = await exe.fork_future()
            self.assertEqual((await fork.read_state_future('total')).tolist(), [0, 0])
            cancellable = Gio.Cancellable()
            cancellable.cancel()
            for wait in (exe.read_state_future('total', cancellable=cancellable),
                         Rlx.Device.open_future(None, cancellable=cancellable)):
                with self.assertRaises(GLib.Error) as caught:
                    await wait
                self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
            with tempfile.TemporaryDirectory() as folder:
                file = Gio.File.new_for_path(folder + '/x.npy')
                await Rlx.Tensor.from_array([1.0, 2.0]).save_npy_future(file)
                self.assertEqual((await Rlx.Tensor.load_npy_future(file)).tolist(), [1, 2])

        self.run_coroutine(main())

    def test_calibrate(self):
        cancellable = Gio.Cancellable()
        cancellable.cancel()
        with self.assertRaises(GLib.Error) as caught:
            self.run_coroutine(tap.device().calibrate_future(cancellable))
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))


class AsyncGLib(Async, unittest.TestCase):
    loop_factory = staticmethod(GLibEventLoop)

    def test_pygobjects_own(self):
        async def main():
            return await self.exe.run_async([self.x])

        self.assertEqual(self.run_coroutine(main())[0].tolist(), self.expected[0])

    def test_calibrate_progress(self):
        device = Rlx.Device.open(None)
        cancellable, seen = Gio.Cancellable(), []

        # As soon as progress is reported, so that nothing is stored.
        def on_calibrating(_device, fraction, what):
            seen.append((fraction, what))
            cancellable.cancel()

        device.connect('calibrating', on_calibrating)
        with self.assertRaises(GLib.Error) as caught:
            self.run_coroutine(device.calibrate_future(cancellable))
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        self.assertEqual(seen[0][0], 0)
        self.assertIn('overheads', seen[0][1])


class AsyncPlain(Async, unittest.TestCase):
    loop_factory = None


class Progress(unittest.TestCase):
    def test_run(self):
        """Every value arrives in the thread that started the run, and before its results."""
        g = Rlx.Graph()
        y = x = g.input('x', 'f32', [256, 256])
        for _ in range(400):
            y = y @ x
        g.output('y', y)
        exe = tap.device().compile(g)
        loop, seen, thread = GLib.MainLoop(), [], threading.get_ident()

        def on_progress(executable, _property):
            self.assertEqual(threading.get_ident(), thread)
            seen.append(executable.props.progress)

        def ready(source, result):
            source.run_finish(result)
            seen.append('done')
            loop.quit()

        self.assertEqual(exe.props.progress, 1)
        exe.connect('notify::progress', on_progress)
        exe.run_async([np.zeros((256, 256), 'f4')], None, ready)
        loop.run()
        self.assertEqual(seen.pop(), 'done')
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(not seen or seen[-1] == 1)

    def test_opening(self):
        tap.device()
        device = Rlx.Device(selector=None)
        loop, seen = GLib.MainLoop(), []

        def ready(source, result):
            seen.append(source.init_finish(result))
            loop.quit()

        device.connect('opening', lambda device, fraction, what: seen.append(fraction))
        device.init_async(GLib.PRIORITY_DEFAULT, None, ready)
        loop.run()
        self.assertIs(seen.pop(), True)
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(device.get_adapter().get_name())


class Callbacks(unittest.TestCase):
    def test_run_async(self):
        g = Rlx.Graph()
        g.output('y', g.input('x', 'f32', [2]) * 2)
        exe = tap.device().compile(g)
        loop, results, thread = GLib.MainLoop(), [], threading.get_ident()

        def ready(source, result, *data):
            self.assertEqual(threading.get_ident(), thread)
            results.append((source.run_finish(result)[0].tolist(), data))
            loop.quit()

        exe.run_async([[1.0, 2.0]], None, ready, 'data')
        self.assertEqual(results, [])
        loop.run()
        self.assertEqual(results, [([2, 4], ('data',))])


class Exports(unittest.TestCase):
    """Graphs for browsers, and dictionaries in place of variants."""

    def setUp(self):
        self.graph = Rlx.Graph()
        self.graph.output('y', self.graph.input('x', 'f32', [1, 2]) @ self.graph.parameter('w', 'f32', [2, 2]))
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def plan(self):
        with open(f'{self.folder.name}/plan.json', encoding='utf-8') as file:
            return json.load(file)

    def test_write(self):
        export = Rlx.WebExport(self.graph, targets=['lavapipe', 'minimum'])
        export.set_parameters({'w': [[1, 2], [3, 4]]})
        export.set_check({'x': [[1, 1]]}, [np.array([[4, 6]], np.float32)], 1e-5)
        export.write(self.folder.name)
        plan = self.plan()
        self.assertEqual([one['target'] for one in plan['plans']], ['lavapipe', 'minimum'])
        self.assertTrue(plan['plans'][0]['parameters'][0]['given'])
        self.assertEqual(plan['check']['tolerance'], 1e-5)
        self.assertEqual(export.props.progress, 1)

    def test_write_future(self):
        export = Rlx.WebExport(self.graph)
        asyncio.run(export.write_future(Gio.File.new_for_path(self.folder.name)))
        self.assertEqual([one['target'] for one in self.plan()['plans']], ['minimum'])

    def test_refused(self):
        export = Rlx.WebExport(self.graph)
        with self.assertRaisesRegex(TypeError, 'WebExport'):
            Rlx.WebExport()
        with self.assertRaisesRegex(GLib.Error, 'no parameter “v”'):
            export.set_parameters({'v': 1.0})
        with self.assertRaisesRegex(GLib.Error, r'f32\[2, 2\]'):
            export.set_parameters({'w': [1, 2, 3]})
        with self.assertRaisesRegex(TypeError, 'the inputs are x; z were given'):
            export.set_check({'z': 1}, [], 0)
        with self.assertRaisesRegex(TypeError, 'the dictionary contains the values'):
            export.set_parameters({'w': 1.0}, [2.0])

    def test_dictionaries(self):
        path = f'{self.folder.name}/weights.npz'
        np.savez(path, other=np.ones((2, 2), np.float32))
        weights = Rlx.Weights.open(path)
        exe = tap.device().compile(self.graph)
        exe.set_parameters_from(weights, {'w': 'other'})
        self.assertEqual(exe([[1, 2]])[0].tolist(), [[3, 3]])
        Rlx.WebExport(self.graph).set_parameters_from(weights, {'w': 'other'})
        for wrong in ['w'], {'w': 1}, {1: 'w'}:
            with self.assertRaisesRegex(TypeError, 'names'):
                exe.set_parameters_from(weights, wrong)
        model = Rlx.Model.new_from_bytes(GLib.Bytes.new(onnx_file.make([[1.0], [2.0]], [0.5])))
        graph = model.build({'rows': np.int64(3)})
        self.assertEqual(tap.device().compile(graph)([[1, 2]] * 3)[0].tolist(), [[1], [1], [1]])
        with self.assertRaisesRegex(TypeError, "dimensions: 'rows' cannot be 1.5"):
            model.build({'rows': 1.5})


if __name__ == '__main__':
    tap.main()
