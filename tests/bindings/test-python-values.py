#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Python override without a device: tensors, nodes, graphs."""
import array
import asyncio
import copy
import gc
import inspect
import math
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import numpy as np
import tap
from gi.repository import Gio, GLib, GObject, Rlx

NUMPY_TYPES = {
    Rlx.DataType.F32: np.float32, Rlx.DataType.F16: np.float16, Rlx.DataType.I32: np.int32,
    Rlx.DataType.U32: np.uint32, Rlx.DataType.I8: np.int8, Rlx.DataType.U8: np.uint8,
    Rlx.DataType.BOOL: np.bool_, Rlx.DataType.I64: np.int64, Rlx.DataType.U64: np.uint64,
    Rlx.DataType.I16: np.int16, Rlx.DataType.U16: np.uint16,
}
STORED_TYPES = {
    Rlx.DataType[name] for name in ('I4', 'U4', 'I2', 'U2', 'BF16', 'F8E4M3FN', 'F8E4M3FNUZ', 'F8E5M2', 'F8E5M2FNUZ', 'F8E8M0', 'F4E2M1')
}


def extremes(dtype):
    """Values at both ends of a type."""
    if dtype == np.bool_:
        return np.array([True, False, True, True, False, False], dtype)
    if issubclass(dtype, np.floating):
        info = np.finfo(dtype)
        return np.array([0.0, -0.0, info.max, info.tiny, -np.inf, np.nan], dtype)
    info = np.iinfo(dtype)
    return np.array([info.min, info.max, 0, 1, 2, 3], dtype)


class Versioned:
    """Exposes a tensor to DLPack consumers of one version."""

    def __init__(self, tensor, version):
        self.tensor, self.version = tensor, version
        self.__dlpack_device__ = tensor.__dlpack_device__

    def __dlpack__(self, **kwargs):
        return self.tensor.__dlpack__(max_version=self.version)


class GraphErrors:
    def assertGraphError(self, code, call, *parts):
        with self.assertRaises(GLib.Error) as caught:
            call()
        self.assertTrue(caught.exception.matches(Rlx.GraphError.quark(), code), caught.exception)
        for part in parts:
            self.assertIn(part, caught.exception.message)


class Tensors(GraphErrors, unittest.TestCase):
    def test_numpy_round_trip(self):
        self.assertEqual(NUMPY_TYPES.keys() | STORED_TYPES, set(Rlx.DataType))
        for data_type, dtype in NUMPY_TYPES.items():
            with self.subTest(data_type=data_type.name):
                source = extremes(dtype).reshape(2, 3)
                tensor = Rlx.Tensor.from_array(source)
                self.assertEqual(tensor.dtype, data_type)
                self.assertEqual(tensor.shape, (2, 3))
                back = np.asarray(tensor)
                self.assertEqual(back.dtype, source.dtype)
                self.assertEqual(back.shape, source.shape)
                self.assertEqual(back.tobytes(), source.tobytes())

    def test_narrow_floats(self):
        for name in ('bf16', 'f8e4m3fn', 'f8e4m3fnuz', 'f8e5m2', 'f8e5m2fnuz', 'f4e2m1'):
            for source in ([[1.5, -2], [0.5, 4]], np.array([[1.5, -2], [0.5, 4]])):
                tensor = Rlx.Tensor.from_array(source, name)
                self.assertEqual((tensor.dtype.name.lower(), tensor.shape), (name, (2, 2)))
                self.assertEqual(tensor.tolist(), [[1.5, -2], [0.5, 4]])
                self.assertEqual(np.asarray(tensor).dtype, np.float32)
        self.assertEqual(Rlx.Tensor.from_array([0.25, 8], 'f8e8m0').tolist(), [0.25, 8])
        self.assertGraphError(Rlx.GraphError.INVALID_ARGUMENT, lambda: Rlx.Tensor.from_array([1.0, 500.0], 'f8e4m3fn'), '500', 'f8e4m3fn')

    def test_two_bits(self):
        for name, values in (('i2', [-2, 1, 0, -1, 1]), ('u2', [3, 0, 1, 2, 3])):
            tensor = Rlx.Tensor.from_array(values, name)
            self.assertEqual((tensor.get_size(), tensor.tolist(), np.asarray(tensor).tolist()), (2, values, values))

    def test_four_bits(self):
        for name, dtype, values in (('i4', np.int8, [-8, 7, 0, -1, 5]), ('u4', np.uint8, [0, 15, 1, 2, 8])):
            for source in (values, np.array(values, dtype), np.array(values)):
                tensor = Rlx.Tensor.from_array(source, name)
                self.assertEqual((tensor.dtype.name.lower(), tensor.shape, tensor.get_size()), (name, (5,), 3))
                self.assertEqual(tensor.tolist(), values)
                back = np.asarray(tensor)
                self.assertEqual((back.dtype, back.tolist()), (dtype, values))
                with self.assertRaises(ValueError):
                    np.asarray(tensor, copy=False)
            self.assertGraphError(Rlx.GraphError.INVALID_ARGUMENT, lambda: Rlx.Tensor.from_array([16], name), '16')
            with self.assertRaises(TypeError):
                Rlx.Tensor.from_array([1.5], name)

    def test_shapes(self):
        for shape in ((), (0,), (3, 0, 2), (1,) * 8, (2, 1, 3)):
            with self.subTest(shape=shape):
                source = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
                back = np.asarray(Rlx.Tensor.from_array(source))
                self.assertEqual(back.shape, shape)
                self.assertTrue(np.array_equal(back, source))

    def test_layouts(self):
        source = np.arange(24, dtype=np.float32).reshape(4, 6)
        for name, view in {
            'transposed': source.T, 'column-major': np.asfortranarray(source), 'stepped': source[::2, ::-1],
            'big-endian': source.astype('>f4'), 'little-endian': source.astype('<f4'),
            'broadcast': np.broadcast_to(source[0], (3, 6)), 'read-only': np.frombuffer(source.tobytes(), np.float32),
            'unaligned': np.frombuffer(b'x' + source.tobytes(), np.float32, offset=1),
        }.items():
            with self.subTest(name):
                tensor = Rlx.Tensor.from_array(view)
                self.assertEqual(tensor.dtype, Rlx.DataType.F32)
                self.assertTrue(np.array_equal(np.asarray(tensor), view))

    def test_in_by_a_copy_out_by_none(self):
        source = np.arange(6, dtype=np.float32)
        tensor = Rlx.Tensor.from_array(source)
        source[:] = -1
        view = np.asarray(tensor)
        self.assertEqual(view.tolist(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(view.__array_interface__['data'][0], np.asarray(tensor).__array_interface__['data'][0])
        with self.assertRaises(ValueError):
            view[0] = 1
        with self.assertRaises(ValueError):
            view.flags.writeable = True

    def test_array_outlives_tensor(self):
        size = 1 << 18
        tensor = Rlx.Tensor.from_array(np.full(size, 7, np.float32))
        gone = weakref.ref(tensor)
        view = np.asarray(tensor)[1:]
        del tensor
        gc.collect()
        self.assertIsNotNone(gone())
        others = [Rlx.Tensor.from_array(np.full(size, i, np.float32)) for i in range(8)]
        self.assertTrue((view == 7).all())
        del view, others
        gc.collect()
        self.assertIsNone(gone())

    def test_other_types_are_refused(self):
        for source in (np.ones(2), np.ones(2, np.complex64), np.array(['a']),
                       np.array([object()]), np.array(['2020-01-01'], 'M8[D]'), np.zeros(2, [('a', 'f4')])):
            with self.subTest(source.dtype.name), self.assertRaisesRegex(TypeError, r'\.astype\(numpy\.float32\)'):
                Rlx.Tensor.from_array(source)

    def test_data_type_of_choice(self):
        self.assertEqual(Rlx.Tensor.from_array(np.array([1.5, 2.5]), 'f16').dtype, Rlx.DataType.F16)
        self.assertEqual(Rlx.Tensor.from_array([1, 2], np.uint8).dtype, Rlx.DataType.U8)
        self.assertEqual(Rlx.Tensor.from_array(np.array([-300], np.int16)).dtype, Rlx.DataType.I16)
        self.assertEqual(Rlx.Tensor.from_array([0.1], 'bf16').tolist(), [0.10009765625])
        self.assertEqual(Rlx.Tensor.from_array(np.array([200]), 'u8').tolist(), [200])
        for value, data_type, error in (
            (np.array([1.5]), 'i32', TypeError), (np.array([256]), 'u8', OverflowError),
            (np.array([-1]), 'u64', OverflowError), (np.array([1e300]), 'f32', OverflowError),
            (np.array([70000]), 'f16', OverflowError), (np.array([1]), 'bool', TypeError),
            ([1.5], 'i32', TypeError), ([300], 'u8', OverflowError), ([1e39], 'f32', OverflowError),
            ([10 ** 400], 'f32', OverflowError), ([1], 'bool', TypeError), (2 ** 64, 'u64', OverflowError),
            ([1], 'f64', TypeError), ([1], 3, TypeError), ([1], object(), TypeError),
        ):
            with self.subTest(value=value, data_type=data_type), self.assertRaises(error):
                Rlx.Tensor.from_array(value, data_type)

    def test_lists(self):
        for value, data_type, shape in (
            (1.5, 'F32', ()), (3, 'I32', ()), (True, 'BOOL', ()), ([], 'F32', (0,)), ([[], []], 'F32', (2, 0)),
            ([1, 2.5], 'F32', (2,)), ([True, 2], 'I32', (2,)), ([[1, 2], (3, 4)], 'I32', (2, 2)),
            ([True, False], 'BOOL', (2,)), ([np.float32(1), np.float32(2)], 'F32', (2,)), (np.float64(2.5), 'F32', ()),
        ):
            with self.subTest(value=value):
                tensor = Rlx.Tensor.from_array(value)
                self.assertEqual((tensor.dtype.name, tensor.shape), (data_type, shape))
                self.assertEqual(tensor.tolist(), np.asarray(value).tolist())

    def test_bad_lists(self):
        endless = []
        endless.append(endless)
        deep = 1
        for _ in range(9):
            deep = [deep]
        for value, error in (([[1], [1, 2]], ValueError), ([1, [2]], ValueError), ([[1], 2], ValueError),
                             (endless, ValueError), (deep, ValueError), (['a'], TypeError), ([None], TypeError),
                             (None, TypeError), ('abc', TypeError), ({}, TypeError), (object(), TypeError),
                             (2 ** 31, OverflowError), (1e39, OverflowError)):
            with self.subTest(value=repr(value)[:20]), self.assertRaises(error):
                Rlx.Tensor.from_array(value)

    def test_buffers(self):
        self.assertEqual(Rlx.Tensor.from_array(b'ab').tolist(), [97, 98])
        self.assertEqual(Rlx.Tensor.from_array(array.array('f', [1, 2])).dtype, Rlx.DataType.F32)
        self.assertEqual(Rlx.Tensor.from_array(array.array('q', [-1, 2])).tolist(), [-1, 2])
        grid = memoryview(b'abcdef').cast('B', (2, 3))
        self.assertEqual(Rlx.Tensor.from_array(grid).tolist(), [[97, 98, 99], [100, 101, 102]])
        with self.assertRaises(TypeError):
            Rlx.Tensor.from_array(array.array('d', [1, 2]))

    def test_tolist(self):
        for data_type, dtype in NUMPY_TYPES.items():
            with self.subTest(data_type=data_type.name):
                source = extremes(dtype)[:5].reshape(5, 1)
                values = Rlx.Tensor.from_array(source).tolist()
                self.assertEqual(values, source.tolist())
                self.assertIs(type(values[0][0]), type(source.tolist()[0][0]))
        self.assertEqual(Rlx.Tensor.from_array(np.zeros((2, 0, 3), np.float32)).tolist(), [[], []])

    def test_numbers(self):
        self.assertEqual(float(Rlx.Tensor.from_array([[2.5]])), 2.5)
        self.assertEqual(int(Rlx.Tensor.from_array(2 ** 64 - 1, 'u64')), 2 ** 64 - 1)
        self.assertEqual(int(Rlx.Tensor.from_array(-2.5)), -2)
        for value in ([1.0, 2.0], []):
            for convert in (int, float):
                with self.assertRaises(TypeError):
                    convert(Rlx.Tensor.from_array(value))

    def test_like_an_array(self):
        source = np.arange(6, dtype=np.float32).reshape(2, 3)
        tensor = Rlx.Tensor.from_array(source)
        self.assertEqual((tensor.ndim, tensor.size, tensor.nbytes, len(tensor)), (2, 6, 24, 2))
        self.assertTrue((tensor.numpy() == source).all() and (tensor.T == source.T).all())
        self.assertEqual((tensor[1, 2], tensor[:, ::-1].tolist(), tensor[-1].tolist()), (5, source[:, ::-1].tolist(), [3, 4, 5]))
        self.assertEqual([row.tolist() for row in tensor], source.tolist())
        self.assertIn(5, tensor)
        self.assertNotIn(7, tensor)
        self.assertEqual((tensor.item(1, 0), Rlx.Tensor.from_array(2.5).item(), Rlx.Tensor.from_array([[7]]).item()), (3, 2.5, 7))
        self.assertEqual((tensor.reshape(3, 2).shape, tensor.reshape([6]).shape, tensor.reshape(-1).shape), ((3, 2), (6,), (6,)))
        self.assertTrue(Rlx.Tensor.from_array(True) and not Rlx.Tensor.from_array(0))
        for wrong in (lambda: len(Rlx.Tensor.from_array(1)), lambda: tensor.item(), lambda: bool(tensor)):
            with self.assertRaises(TypeError):
                wrong()
        # Also 4-bit elements.
        self.assertEqual(Rlx.Tensor.from_array([1, -2], 'i4')[1], -2)

    def test_buffers_out(self):
        for data_type, dtype in NUMPY_TYPES.items():
            tensor = Rlx.Tensor.from_array(extremes(dtype).reshape(3, 2))
            view = memoryview(tensor)
            self.assertEqual((view.shape, view.tobytes(), view.readonly), ((3, 2), extremes(dtype).tobytes(), True))
            for version in (None, (1, 0)):
                back = np.from_dlpack(Versioned(tensor, version))
                self.assertEqual((back.dtype, back.tobytes()), (np.dtype(dtype), extremes(dtype).tobytes()))
                # Only the newer version can mark shared data as read-only.
                self.assertEqual(np.shares_memory(back, tensor.numpy()), version is not None)
                self.assertFalse(version is not None and back.flags.writeable)
            again = Rlx.Tensor.from_array(Versioned(tensor, (1, 0)))
            self.assertEqual((again.dtype, again.get_bytes().get_data()), (data_type, tensor.get_bytes().get_data()))
        with self.assertRaises(BufferError):
            memoryview(Rlx.Tensor.from_array([1], 'u4'))

    def test_pickling(self):
        for data_type in Rlx.DataType:
            # Exponents alone are powers of two, none of which is 0.
            source = {Rlx.DataType.BOOL: [[True, False, True]], Rlx.DataType.F8E8M0: [[1, 2, 0.5]]}.get(data_type, [[1, 0, 1]])
            tensor = Rlx.Tensor.from_array(source, data_type)
            for copied in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
                self.assertEqual((copied.dtype, copied.shape, copied.tolist()), (data_type, (1, 3), tensor.tolist()))
        # In a process that has not imported Rlx, and without a warning.
        program = 'import pickle, sys; print(pickle.load(sys.stdin.buffer).tolist())'
        done = subprocess.run([sys.executable, '-W', 'error', '-c', program], input=pickle.dumps(Rlx.Tensor.from_array([[1.5]])),
                              capture_output=True)
        self.assertEqual((done.stdout, done.stderr), (b'[[1.5]]\n', b''))

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'x.npy'
            Rlx.Tensor.from_array([[1.5, 2]]).save_npy(path)
            self.assertEqual(np.load(path).tolist(), [[1.5, 2]])
            for form in (path, str(path), Gio.File.new_for_path(str(path))):
                self.assertEqual(Rlx.Tensor.load_npy(form).tolist(), [[1.5, 2]])
            self.assertEqual(asyncio.run(Rlx.Tensor.load_npy_future(path)).tolist(), [[1.5, 2]])
            for wrong in (3, None, object()):
                with self.assertRaisesRegex(TypeError, 'load_npy: file cannot be'):
                    Rlx.Tensor.load_npy(wrong)

    def test_text(self):
        tensor = Rlx.Tensor.from_array([[1.5, 2]])
        self.assertEqual(str(tensor), '[1.5, 2]')
        self.assertEqual(repr(tensor), '<Rlx.Tensor f32[1, 2] [1.5, 2]>')

    def test_c_constructors(self):
        self.assertEqual(Rlx.Tensor.new_from_floats([2], [1, 2]).tolist(), [1, 2])
        self.assertEqual(Rlx.Tensor.new_from_ints(Rlx.DataType.I8, [2], [1, -2]).tolist(), [1, -2])
        self.assertEqual(Rlx.Tensor.new_from_bytes(Rlx.DataType.U8, [2], GLib.Bytes.new(b'ab')).tolist(), [97, 98])
        self.assertGraphError(Rlx.GraphError.SHAPE, lambda: Rlx.Tensor.new_from_floats([3], [1, 2]), '[3]', '2')
        self.assertGraphError(Rlx.GraphError.LIMIT, lambda: Rlx.Tensor.new_from_floats([1] * 10, [1]), '10', '8')
        self.assertGraphError(Rlx.GraphError.LIMIT, lambda: Rlx.Tensor.new_from_floats([2 ** 62, 4], [1]))
        # A script could crash by using these.
        self.assertFalse(hasattr(Rlx.Tensor, 'new_from_address') or hasattr(Rlx.Tensor, 'get_address'))

    def test_without_numpy(self):
        program = '''
import sys
class NoNumpy:
    def find_spec(self, name, path, target=None):
        if name.split('.')[0] == 'numpy':
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoNumpy())
import gi
gi.require_version('Rlx', '1.0')
from gi.repository import Rlx
g = Rlx.Graph()
x = g.input('x', 'float32', [2])
g.output('y', 2 * x + [1, 2.5] - Rlx.Tensor.from_array([1.0, 1.0]))
assert Rlx.Tensor.from_array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
assert 'numpy' not in sys.modules
'''
        subprocess.run([sys.executable, '-c', program], check=True)


class Nodes(GraphErrors, unittest.TestCase):
    def setUp(self):
        self.g = Rlx.Graph()
        self.x = self.g.input('x', Rlx.DataType.F32, [2, 3])
        self.i = self.g.input('i', 'i32', [3])
        self.b = self.g.input('b', 'bool', [3])

    def test_what_a_node_is(self):
        self.assertEqual(self.x.shape, (2, 3))
        self.assertEqual(self.x.dtype, Rlx.DataType.F32)
        self.assertIn('input "x": f32[2, 3]', repr(self.x))
        self.assertEqual(repr(self.g), '<Rlx.Graph of 3 nodes>')

    def test_identity(self):
        y = self.x.relu()
        self.assertTrue(self.x == self.x)
        self.assertTrue(self.x != y)
        self.assertEqual([self.x, y].index(y), 1)
        self.assertIn(y, {y: 1})
        self.assertIn(y, self.g)
        self.assertIs(self.g[-1], y)
        self.assertEqual(list(self.g)[0], self.x)
        self.assertEqual(self.x.equal(1).dtype, Rlx.DataType.BOOL)
        for wrong in (lambda: bool(self.x), lambda: 1 < self.x < 2, lambda: self.x and y):
            with self.assertRaises(TypeError):
                wrong()

    def test_data_type_names(self):
        for i, name in enumerate(('f16', 'float16', np.float16, np.dtype('float16'), np.dtype('>f2'), Rlx.DataType.F16)):
            self.assertEqual(self.g.input(f'n{i}', name, (1,)).dtype, Rlx.DataType.F16)
        self.assertEqual(self.x.cast(np.uint8).dtype, Rlx.DataType.U8)
        self.assertEqual(self.g.input('c', bool, np.array([2, 2]).shape).dtype, Rlx.DataType.BOOL)
        self.assertEqual(self.g.parameter('p', np.int8, 3).shape, (3,))
        self.assertEqual(self.g.scalar('i32', 3).dtype, Rlx.DataType.I32)
        for wrong in ('f64', float, np.float64, 'x', None, 0, 99, -1, 1.5, [], object()):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.g.input('wrong', wrong, [1])

    def test_constants(self):
        for value in (np.ones((2, 2), np.float16), [[1.0, 2.0]], 3, True, Rlx.Tensor.from_array([1, 2])):
            tensor = Rlx.Tensor.from_array(value)
            node = self.g.constant(value)
            self.assertEqual((node.dtype, node.shape), (tensor.dtype, tensor.shape))
            self.assertEqual(node.get_tensor().tolist(), tensor.tolist())
        self.assertEqual(self.g.constant([1, 2], 'f16').dtype, Rlx.DataType.F16)
        self.assertEqual(self.g.state('s', np.zeros(3, np.float32)).shape, (3,))

    def test_constants_take_the_type_of_the_node(self):
        h = self.g.input('h', 'f16', [2])
        for node, value in ((self.x, 1), (self.x, True), (self.x, 1.5), (self.x, np.ones(3)), (self.x, [1, 2, 3]),
                            (h, 1.5), (h, np.ones(2)), (self.i, 2), (self.i, [1, 2, 3]), (self.i, True),
                            (self.i, np.arange(3)), (self.b, True), (self.b, np.ones(3, bool))):
            for result in (node.equal(value), node.add(value) if node is not self.b else node & value):
                self.assertEqual(result.get_inputs()[1].dtype, node.dtype)
        for node, value, error in ((self.i, 1.5, TypeError), (self.i, np.ones(3), TypeError), (self.b, 1, TypeError),
                                   (self.i, 2 ** 31, OverflowError), (self.i, np.array([2 ** 40] * 3), OverflowError),
                                   (h, 1e6, OverflowError), (self.i, Rlx.Tensor.from_array([1.5]), TypeError)):
            for call in (lambda: node.equal(value), lambda: node & value, lambda: value & node):
                with self.subTest(value=value), self.assertRaises(error):
                    call() if node is not h else h + value

    def test_where_types(self):
        for yes, no in ((1, self.x), (self.x, 1), (np.ones(3, np.float32), 0), (0, np.ones(3, np.float32)), (1.5, 2)):
            self.assertEqual((self.x < 0).where(yes, no).dtype, Rlx.DataType.F32)

    def test_unsupported_operands(self):
        for value in (None, 'a', object(), {}, self.g, b'', 1j):
            for call in (lambda: self.x + value, lambda: value * self.x, lambda: self.x @ value, lambda: self.x < value,
                         lambda: self.x.add(value), lambda: self.x.matmul(value)):
                with self.subTest(value), self.assertRaises(TypeError):
                    call()
        with self.assertRaisesRegex(TypeError, '//'):
            self.i / 2
        with self.assertRaisesRegex(TypeError, 'clamp: too many positional arguments; minimum, maximum can be given by name'):
            self.x.clamp(0, 1)
        for wrong, right in ('sofmax', 'softmax'), ('astype', 'cast'), ('clip', 'clamp'):
            with self.assertRaisesRegex(AttributeError, f"'{wrong}'; did you mean '{right}'"):
                getattr(self.x, wrong)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'$"):
            self.x.nothing

    def test_every_operator(self):
        for op in Rlx.operators_list():
            about = Rlx.operators_describe(op).unpack()
            owner = Rlx.Graph if about['variadic'] or about['family'] == 'Leaves' else Rlx.Node
            with self.subTest(op):
                method = getattr(owner, op)
                self.assertEqual(method.__name__, op)
                if about['family'] == 'Leaves':
                    continue
                text = ' '.join(method.__doc__.split())
                for part in [about['summary'], about['doc'], about['bound'], *(row['doc'] for row in about['attributes']),
                             *(value['doc'] for row in about['attributes'] for value in row.get('values', []))]:
                    self.assertIn(' '.join(part.split()), text)
                if op in ('max', 'min'):
                    # They are reductions, too.
                    continue
                rows = [row for row in about['inputs'] if row['name'] != 'self'] + about['attributes']
                # Required before optional ones, and operands before attributes.
                order = [row['name'] for row in rows if not row.get('optional') and row.get('required', True)]
                order += [row['name'] for row in rows if row.get('optional')]
                order += [row['name'] for row in rows if not row.get('required', True)]
                self.assertEqual(list(inspect.signature(method).parameters)[1:],
                                 order + ['options'] * any(not row['required'] for row in about['attributes']))

    def test_shapes_as_arguments(self):
        for result, shape in (
            (self.x.reshape(3, 2), (3, 2)), (self.x.reshape([3, -1]), (3, 2)), (self.x.reshape(6), (6,)),
            (self.x.reshape(shape=(1, 6)), (1, 6)), (self.x.transpose(), (3, 2)),
            (self.x.transpose(1, 0), (3, 2)), (self.x.T, (3, 2)), (self.i.T, (3,)), (self.x.expand(4, 2, 3), (4, 2, 3)),
            (self.x.tile(2, 1), (4, 3)), (self.x.unsqueeze(0), (1, 2, 3)), (self.x.unsqueeze(0, -1), (1, 2, 3, 1)),
            (self.x.unsqueeze(0).squeeze(0), (2, 3)), (self.x.unsqueeze(0).squeeze(), (2, 3)),
        ):
            self.assertEqual(result.shape, shape)
        self.assertEqual((self.x.ndim, self.x.size, len(self.x), [row.shape for row in self.x]), (2, 6, 2, [(3,), (3,)]))
        for wrong in (lambda: self.x.reshape(), lambda: self.x.reshape(2, 1.5), lambda: self.x.reshape(self.x),
                      lambda: len(self.g.scalar('f32', 1)), lambda: self.x in self.x, lambda: np.asarray(self.x),
                      lambda: list(self.g.scalar('f32', 1))):
            with self.assertRaises(TypeError):
                wrong()

    def test_reductions(self):
        for result, shape in (
            (self.x.reduce_sum(), ()), (self.x.reduce_sum(axis=1), (2,)), (self.x.reduce_sum(0, keepdims=True), (1, 3)),
            (self.x.reduce_sum(axes=[]), (2, 3)), (self.x.sum(), ()), (self.x.mean(-1), (2,)), (self.x.max(), ()),
            (self.x.max(axis=(0, 1), keepdims=True), (1, 1)), (self.x.max(self.x), (2, 3)), (self.x.min(0), (2, 3)),
            (self.x.prod((0, 1)), ()), (self.b.any(), ()), (self.b.all(0), ()), (self.x.arg_max(axis=0, keepdims=True), (1, 3)),
            (self.x.layer_norm(axis=0), (2, 3)),
        ):
            self.assertEqual(result.shape, shape)
        self.assertEqual(self.x.max(0).get_op(), 'max')
        self.assertEqual(self.x.max(axis=0).get_op(), 'reduce_max')
        for wrong in (lambda: self.x.max(self.x, axis=0), lambda: self.x.sum(axis='a'), lambda: self.x.sum(keepdims=3)):
            with self.assertRaises(TypeError):
                wrong()

    def test_wrong_indices(self):
        for index, error, *parts in (
            (2, IndexError, '2', 'axis 0', 'size 2'), (-3, IndexError, '-3'), ((0, 3), IndexError, 'axis 1'),
            ((0, 0, 0), IndexError, '3 indices for 2 axes'), ((..., ...), IndexError, 'one ellipsis'),
            (1.5, TypeError, 'float'), ('a', TypeError, 'str'), (True, TypeError, 'boolean'),
            ([True, False], TypeError, 'boolean'), (self.b, TypeError, 'boolean'), ([1.5], GLib.Error, 'f32'),
            (([0], [0]), IndexError, 'gather_nd'), (([0], None, 0), IndexError, 'twice'), ([5], GLib.Error, '5'),
        ):
            with self.subTest(index=str(index)[:20]), self.assertRaises(error) as caught:
                self.x[index]
            for part in parts:
                self.assertIn(part, str(caught.exception))

    def test_pickled_graphs(self):
        self.g.output('y', ((self.x * [1, 2, 3]).T @ np.ones((2, 70), np.float32)).softmax(-1))
        for copied in (pickle.loads(pickle.dumps(self.g)), copy.copy(self.g), copy.deepcopy(self.g)):
            self.assertEqual(copied.to_text(), self.g.to_text())
            self.assertIsNot(copied, self.g)

    def test_lists_as_options(self):
        x, w = self.g.input('image', 'f32', [1, 2, 5, 5]), self.g.input('w', 'f32', [3, 2, 3, 3])
        options = Rlx.ConvOptions(padding=[1, 1, 1, 1], strides=(2, np.int64(1)), layout='channels-first')
        self.assertEqual(x.conv(w, options=options).shape, (1, 3, 3, 5))
        self.assertEqual(x.conv(w, padding=[1, 1, 1, 1], strides=(2, 1)).shape, (1, 3, 3, 5))
        self.assertEqual(options.props.padding.unpack(), [1, 1, 1, 1])
        self.assertIsNone(Rlx.ConvOptions().props.padding)
        self.assertEqual(Rlx.LayerNormOptions().props.axes.unpack(), [-1])
        self.assertEqual(Rlx.LayerNormOptions.find_property('axes').default_value.unpack(), [-1])
        seen = []
        options.connect('notify::padding', lambda *_: seen.append(options.get_padding()))
        options.props.padding = GLib.Variant('ax', [0, 0, 1, 1])
        options.set_padding([0, 0, 1, 1])
        options.set_padding([])
        self.assertEqual(seen, [[0, 0, 1, 1], []])
        for wrong in ([0.5], 'a', ['1'], [1 << 63], object()):
            with self.assertRaises(TypeError):
                Rlx.ConvOptions(padding=wrong)

    def test_arguments(self):
        y = self.x.layer_norm([1.0] * 3, bias=[0, 0, 0], axes=[-1], epsilon=1e-6)
        self.assertEqual(y.get_attributes().unpack(), {'axes': [-1], 'epsilon': 1e-6})
        self.assertEqual(self.x.layer_norm(epsilon=1).get_inputs(), [self.x, None, None])
        self.assertEqual(self.x.layer_norm(axes=1, epsilon=None).get_attributes().unpack(),
                         {'axes': [1], 'epsilon': 1e-5})
        self.assertEqual(self.x.softmax(-1).shape, self.x.softmax(axis=np.int64(1)).shape)
        self.assertEqual(self.x.reduce_sum([0]).shape, (3,))
        self.assertEqual(self.x.reduce_sum(axes=(0, 1), keep_dims=True).shape, (1, 1))
        self.assertEqual(self.x.slice([0], [1]).shape, (1, 3))
        self.assertEqual(self.x.slice(starts=[2], ends=[-9], axes=[1], steps=[-2]).shape, (2, 2))
        self.assertEqual(self.x.matmul(self.x, transpose_b=np.True_).shape, (2, 2))
        self.assertEqual(self.x.matmul(self.x, options=Rlx.MatmulOptions(transpose_a=True)).shape, (3, 3))
        self.assertEqual(self.g.concat([self.x, np.ones((2, 2))], axis=1).shape, (2, 5))
        self.assertEqual(self.x.is_inf(detect_negative=False).dtype, Rlx.DataType.BOOL)
        self.assertEqual(self.g.add_op('relu', [self.x])[0].shape, (2, 3))
        self.assertEqual([part.shape for part in self.x.split(axis=1, sizes=[1, 2])], [(2, 1), (2, 2)])
        self.assertEqual(self.x.pad(before=[0, 1], after=[0, 1], mode='edge').shape, (2, 5))
        self.assertEqual(self.x.pad([0, 1], [0, 1], 1.5).get_inputs()[1].dtype, Rlx.DataType.F32)
        self.assertEqual(self.x.pad(before=[0, 0], after=[1, 1], mode=Rlx.PadMode.EDGE).shape, (3, 4))
        for wrong in (lambda: self.x.matmul(self.x, transpose_b=True, options=Rlx.MatmulOptions()),
                      lambda: self.x.matmul(self.x, options=Rlx.ConvOptions()), lambda: self.x.matmul(self.x, options=3),
                      lambda: self.x.matmul(self.x, Rlx.MatmulOptions()), lambda: self.x.softmax(1, options=None),
                      lambda: self.x.softmax(), lambda: self.x.softmax(1, 2), lambda: self.x.softmax(axes=1),
                      lambda: self.x.softmax(axis=None), lambda: self.x.softmax(1.0), lambda: self.x.softmax('1'),
                      lambda: self.x.reduce_sum([0.5]), lambda: self.x.reduce_sum('a'), lambda: self.x.reduce_sum(axis=0, axes=[0]),
                      lambda: self.x.matmul(self.x, transpose_b=2), lambda: self.x.matmul(self.x, transpose_b='x'),
                      lambda: self.x.matmul(self.x, True), lambda: self.x.layer_norm(epsilon='1'),
                      lambda: self.x.layer_norm(epsilon=[1]), lambda: self.x.add(None), lambda: self.x.cast('f64'),
                      lambda: self.g.concat(self.x, 0), lambda: self.g.concat([None], 0), lambda: self.g.concat(None, 0),
                      lambda: self.x.relu(self.x), lambda: Rlx.Node.relu(), lambda: self.x.reshape([2.5, 2]),
                      lambda: self.x.pad(before=[0, 0], after=[0, 0], mode='none'), lambda: self.x.pad(before=[0, 0]),
                      lambda: self.x.pad(before=[0, 0], after=[0, 0], mode=99)):
            with self.subTest(inspect.getsource(wrong).strip()), self.assertRaises(TypeError):
                wrong()

    def test_graph_errors(self):
        for code, call, *parts in (
            (Rlx.GraphError.SHAPE, lambda: self.x @ self.x, 'matmul', 'f32[2, 3]'),
            (Rlx.GraphError.SHAPE, lambda: self.x + np.ones(4), 'add', '[2, 3]', '4'),
            (Rlx.GraphError.DATA_TYPE, lambda: self.x + self.i, 'add', 'f32', 'i32'),
            (Rlx.GraphError.DATA_TYPE, lambda: self.i.exp(), 'exp', 'i32'),
            (Rlx.GraphError.NOT_FOUND, lambda: self.g.add_op('relo', [self.x]), 'relo', 'relu'),
            (Rlx.GraphError.NOT_FOUND, lambda: Rlx.operators_describe('nothing'), 'nothing'),
            (Rlx.GraphError.INVALID_ARGUMENT, lambda: self.x.softmax(2), 'softmax', '2'),
            (Rlx.GraphError.INVALID_ARGUMENT, lambda: self.x.layer_norm(epsilon=math.nan), 'epsilon'),
            (Rlx.GraphError.INVALID_ARGUMENT, lambda: self.x + Rlx.Graph().input('z', 'f32', []), 'another graph'),
            (Rlx.GraphError.INVALID_ARGUMENT, lambda: self.g.input('x', 'f32', []), '“x”'),
            (Rlx.GraphError.INVALID_ARGUMENT, lambda: self.g.input('', 'f32', []), 'empty'),
            (Rlx.GraphError.LIMIT, lambda: self.g.input('t', 'f32', [1] * 10), '10', '8'),
            (Rlx.GraphError.LIMIT, lambda: self.g.input('t', 'f32', [2 ** 62, 2 ** 62]), str(2 ** 62)),
            (Rlx.GraphError.SHAPE, lambda: self.g.input('t', 'f32', [-1]), '-1'),
            (Rlx.GraphError.PARSE, lambda: Rlx.Graph.new_from_text('nonsense')),
        ):
            with self.subTest(inspect.getsource(call).strip()[:60] if parts else code):
                self.assertGraphError(code, call, *parts)

    def test_hostile_shapes(self):
        for shape in (None, [None], ['a'], [1.5], 'abc', [[1]], [2 ** 70], object(), [math.nan], b'a' * 9):
            with self.subTest(shape=repr(shape)[:20]), self.assertRaises((TypeError, OverflowError, GLib.Error)):
                self.g.input('wrong', 'f32', shape)

    def test_hostile_nodes(self):
        bare = GObject.new(Rlx.Node)
        for call in (lambda: bare.relu(), lambda: bare + 1, lambda: self.x + bare, lambda: self.g.concat([bare], 0),
                     lambda: self.g.output('bare', bare), lambda: Rlx.Node.relu(3), lambda: Rlx.Node.add(None, self.x)):
            with self.assertRaises((GLib.Error, TypeError, ValueError, AttributeError)):
                call()

    def test_outputs(self):
        y = self.x.relu()
        self.g.output('y', y)
        self.assertIs(self.g.get_output('y'), y)
        for wrong in (None, 3, 'y', self.g):
            with self.assertRaises(TypeError):
                self.g.output('z', wrong)
        self.assertGraphError(Rlx.GraphError.INVALID_ARGUMENT, lambda: self.g.output('y', y), '“y”', 'taken')
        # It was reported: the graph is still valid.
        self.g.output('z', y)
        self.assertTrue(self.g.check())

    def test_enumerations(self):
        self.assertEqual(self.x.cast('f16').dtype, Rlx.DataType.F16)
        self.assertEqual(Rlx.Tensor.new_from_ints('int8', [1], [5]).dtype, Rlx.DataType.I8)
        self.assertEqual(Rlx.Tensor.new_from_ints(shape=[1], values=[5], data_type='u8').dtype, Rlx.DataType.U8)
        self.assertEqual(Rlx.DataType.to_string('u4'), 'u4')
        options = Rlx.ConvOptions(layout='channels-last', filter_layout=Rlx.FilterLayout.SIO, groups=1)
        self.assertEqual(options.props.layout, Rlx.Layout.CHANNELS_LAST)
        self.assertEqual(options.props.filter_layout, Rlx.FilterLayout.SIO)
        options.set_layout('channels-first')
        self.assertEqual(options.get_layout(), Rlx.Layout.CHANNELS_FIRST)
        before = len(self.g)
        for call, value in (
            (lambda: self.g.input('t', 'float', [2]), 'i32'), (lambda: self.g.input('t', 99, [2]), 'i32'),
            (lambda: self.g.input('t', Rlx.Layout.CHANNELS_LAST, [2]), 'i32'), (lambda: self.x.cast('double'), 'f16'),
            (lambda: self.x.cast(Rlx.Layout.CHANNELS_LAST), 'f16'), (lambda: Rlx.Tensor.new_scalar('', 1), 'u4'),
            (lambda: self.g.scalar(None, 1), 'f32'), (lambda: Rlx.DataType.to_string(-1), 'u4'),
            (lambda: Rlx.Tensor.new_from_ints(shape=[1], values=[1], data_type='x'), 'f32'),
            (lambda: Rlx.ConvOptions(layout='channels_last'), 'channels-last'),
            (lambda: Rlx.ConvOptions(filter_layout=Rlx.Layout.CHANNELS_LAST), 'sio'),
            (lambda: options.set_layout('NHWC'), 'channels-last'), (lambda: options.set_layout(7), 'channels-last'),
            (lambda: self.x.pad([0, 0], [0, 0], mode='none'), 'reflect'),
            (lambda: self.x.pad([0, 0], [0, 0], mode=Rlx.Layout.CHANNELS_LAST), 'reflect'),
        ):
            with self.subTest(inspect.getsource(call).strip()[:60]), self.assertRaises(TypeError) as caught:
                call()
            self.assertIn(f"'{value}'", str(caught.exception))
        self.assertEqual(len(self.g), before)

    def test_every_enumeration_is_checked(self):
        tried = 0
        for name in filter(lambda name: name.endswith('Options'), dir(Rlx)):
            options = getattr(Rlx, name)
            for prop in options.list_properties():
                if not prop.value_type.is_a(GObject.TYPE_ENUM):
                    continue
                tried += 1
                spelled = prop.name.replace('-', '_')
                for call in (lambda: options(**{spelled: 'nonsense'}),
                             lambda: getattr(options(), f'set_{spelled}')('nonsense')):
                    with self.subTest(f'{name}.{spelled}'), self.assertRaisesRegex(TypeError, "'nonsense'; it must be an Rlx"):
                        call()
        self.assertGreater(tried, 40)

    def test_threads(self):
        """Several threads building one graph: nothing is lost, and nothing crashes."""
        failures = []

        def build(number):
            try:
                node = self.x
                for i in range(300):
                    node = (node + self.x * 2).relu()
                    node.set_name(f'{number}.{i}')
                    self.assertEqual(node.get_name(), f'{number}.{i}')
                    self.x.relu().set_name(node.get_inputs()[0].get_op())
                    self.assertIsNotNone(self.g[len(self.g) - 1])
                    if i % 50 == 0:
                        self.g.output(f'{number}.{i}', node)
                        self.assertIn(f'{number}.{i}', self.g.dup_output_names())
                        self.assertTrue(self.g.to_text().startswith('rlx 1'))
            except BaseException as error:
                failures.append(error)

        before = len(self.g)
        threads = [threading.Thread(target=build, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(self.g), before + 4 * 300 * 5)
        self.assertTrue(self.g.check())


class Lifetime(unittest.TestCase):
    def assertGraphLives(self, get):
        """A node alone keeps its graph alive, and both are freed together."""
        gone = []
        g = Rlx.Graph()
        g.weak_ref(lambda: gone.append(True))
        x = g.input('x', 'f32', [2, 3])
        g.output('y', x.relu())
        del x
        node = get(g)
        del g
        gc.collect()
        self.assertEqual(gone, [])
        self.assertEqual((node + 1).shape, node.shape)
        del node
        gc.collect()
        self.assertEqual(gone, [True])

    def test_node_outlives_graph(self):
        for name, get in {
            'input': lambda g: g.input('z', 'f32', [2]), 'parameter': lambda g: g.parameter('z', 'f32', [2]),
            'constant': lambda g: g.constant(1.0), 'scalar': lambda g: g.scalar('f32', 1),
            'state': lambda g: g.state('z', 1.0), 'add_op': lambda g: g.add_op('exp', [g[0]])[0],
            'operator': lambda g: g[0].softmax(1), 'symbol': lambda g: -g[0] * 2,
            'options': lambda g: g[0].matmul(g[0], options=Rlx.MatmulOptions(transpose_b=True)),
            'keyword': lambda g: g[0].matmul(g[0], transpose_b=True), 'variadic': lambda g: g.concat([g[0]], 0), 'one of many': lambda g: g[0].split(0, parts=2)[1],
            'index': lambda g: g[0], 'slice': lambda g: g[:1][0], 'iteration': lambda g: next(iter(g)),
            'output': lambda g: g.get_output('y'), 'lookup': lambda g: g.lookup('x'),
            'inputs': lambda g: g.get_output('y').get_inputs()[0],
        }.items():
            with self.subTest(name):
                self.assertGraphLives(get)

    def test_graphs_are_freed(self):
        gone, n = [], 10000
        for i in range(n):
            g = Rlx.Graph()
            g.weak_ref(gone.append, i)
            x = g.input('x', 'f32', [4])
            g.output('y', x.add(x).relu())
            if i % 2:
                # Only the node keeps it until the next iteration.
                del g
        del x
        g = None
        gc.collect()
        self.assertEqual(sorted(gone), list(range(n)))


if __name__ == '__main__':
    os.environ.setdefault('PYTHONDONTWRITEBYTECODE', '1')
    tap.main()
