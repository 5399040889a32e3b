# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tensors."""
import struct
import sys

from .values import Rlx, RlxPrivate, TYPES, kind_of, override, to_data_type, to_ints, to_tensor


def _restore(data_type, shape, data):
    return Rlx.Tensor.new_from_data(to_data_type(data_type), shape, data)


@override
class Tensor(Rlx.Tensor):
    @classmethod
    def from_array(cls, array, data_type=None):
        """Creates a tensor from a numpy array (with one copy), anything with __dlpack__(), a buffer, a list or a number."""
        return to_tensor(array, None if data_type is None else to_data_type(data_type))

    shape = property(lambda self: tuple(self.get_shape()), doc='The size of each dimension.')
    dtype = property(lambda self: self.get_data_type(), doc='The type of the elements, an Rlx.DataType.')
    ndim = property(lambda self: self.get_n_dims(), doc='The number of dimensions.')
    size = property(lambda self: self.get_n_elements(), doc='The number of elements.')
    nbytes = property(lambda self: self.get_size(), doc='The size of the elements in bytes.')
    T = property(lambda self: self.numpy().T, doc='An array with the dimensions reversed, without a copy.')

    # ---- numpy and others ----

    @property
    def __array_interface__(self):
        if self.dtype not in TYPES:
            raise AttributeError('numpy has no such data type')
        self.fetch()
        code = TYPES[self.dtype][1]
        order = '|' if code[1] == '1' else '<' if sys.byteorder == 'little' else '>'
        return {
            'version': 3,
            'shape': self.shape,
            'typestr': order + code,
            # # Users of the address keep the object that it came from alive.
            'data': (RlxPrivate.tensor_get_address(self), True),
        }

    def __array__(self, dtype=None, copy=None):
        """Widens types that numpy does not have to the next larger one."""
        import numpy
        if self.dtype in TYPES:
            return numpy.array(self.numpy(), dtype, copy=copy)
        if copy is False:
            raise ValueError(f'numpy has no data type {self.dtype.name.lower()}, so a copy is necessary')
        wider = {'f': numpy.float32, 'i': numpy.int8, 'u': numpy.uint8}[kind_of(self.dtype)]
        array = numpy.array(self._numbers(), wider)
        return array.reshape(self.shape).astype(dtype or array.dtype)

    def numpy(self):
        """The elements as a read-only array, without a copy if numpy has the data type."""
        import numpy
        # # Not asarray(self), which prefers the buffer protocol, which is implemented
        # by this.
        return numpy.asarray(_Interface(self) if self.dtype in TYPES else self.__array__())

    def __buffer__(self, flags):
        # # If this fails, numpy tries __array__() next.
        if self.dtype not in TYPES:
            raise BufferError(f'there are no elements of type {self.dtype.name.lower()} in Python')
        return memoryview(self.numpy())

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        array = self.numpy()
        # # Older versions cannot mark the elements as read-only.
        if copy is None and (max_version is None or max_version[0] < 1):
            array = array.copy()
        return array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self):
        return self.numpy().__dlpack_device__()

    def __len__(self):
        if not self.shape:
            raise TypeError('a scalar has no length')
        return self.shape[0]

    def __getitem__(self, index):
        return self.numpy()[index]

    def __iter__(self):
        return iter(self.numpy())

    def __contains__(self, value):
        return value in self.numpy()

    # ---- numbers ----

    def _numbers(self):
        if self.dtype not in TYPES:
            return self.to_floats() if kind_of(self.dtype) == 'f' else self.to_ints()
        self.fetch()
        return struct.unpack(f'={self.get_n_elements()}{TYPES[self.dtype][2]}', self.get_bytes().get_data() or b'')

    def tolist(self):
        """The elements as nested lists of Python's numbers; one number for a scalar."""
        level = list(self._numbers())
        shape = self.shape
        for axis in range(len(shape) - 1, 0, -1):
            count, size = 1, shape[axis]
            for other in shape[:axis]:
                count *= other
            level = [level[i * size:(i + 1) * size] for i in range(count)]
        return level if shape else level[0]

    def item(self, *index):
        """One element as a number: the only one, or that at an index."""
        return self.numpy().item(*index) if index else self._number()

    def _number(self):
        if self.get_n_elements() != 1:
            raise TypeError(f'a tensor of {self.get_n_elements()} elements is not a number')
        return self._numbers()[0]

    def __float__(self):
        return float(self._number())

    def __int__(self):
        return int(self._number())

    def __bool__(self):
        return bool(self._number())

    def reshape(self, *shape):
        """The same elements in another shape, without a copy: reshape(3, 2) or reshape([3, 2]); -1 is inferred."""
        return super().reshape(to_ints(shape[0] if len(shape) == 1 else shape))

    # # It is immutable.
    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        self.fetch()
        return _restore, (self.dtype.name.lower(), self.shape, self.get_bytes().get_data() or b'')

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f'<Rlx.Tensor {self.dtype.name.lower()}{list(self.shape)} {self.to_string()}>'


class _Interface:
    """Exposes the address of a tensor, which it keeps alive, and no other protocol that numpy would try."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = tensor.__array_interface__
