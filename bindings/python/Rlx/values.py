# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Data types, enumerations, and conversion of Python values to tensors."""
import functools
import json
import operator
import os
import struct

import gi
from gi.module import get_introspection_module
from gi.repository import Gio, GLib

# # For programs that import this package directly, as pickle does.
gi.require_version('Rlx', '1.0')
gi.require_version('RlxPrivate', '1.0')
Rlx = get_introspection_module('Rlx')
RlxPrivate = get_introspection_module('RlxPrivate')

# # numpy's name, kind and size, and the letter of the struct module. Types that are not
# here have no counterpart there, and are converted from and to lists of numbers.
TYPES = {
    Rlx.DataType.F32: ('float32', 'f4', 'f'),
    Rlx.DataType.F16: ('float16', 'f2', 'e'),
    Rlx.DataType.I32: ('int32', 'i4', 'i'),
    Rlx.DataType.U32: ('uint32', 'u4', 'I'),
    Rlx.DataType.I8: ('int8', 'i1', 'b'),
    Rlx.DataType.U8: ('uint8', 'u1', 'B'),
    Rlx.DataType.BOOL: ('bool', 'b1', '?'),
    Rlx.DataType.I64: ('int64', 'i8', 'q'),
    Rlx.DataType.U64: ('uint64', 'u8', 'Q'),
    Rlx.DataType.I16: ('int16', 'i2', 'h'),
    Rlx.DataType.U16: ('uint16', 'u2', 'H'),
}
BY_NAME = {row[0]: data_type for data_type, row in TYPES.items()}
BY_NAME |= {data_type.name.lower(): data_type for data_type in Rlx.DataType}
BY_NAME['bool_'] = Rlx.DataType.BOOL
_BY_FORMAT = {row[2]: data_type for data_type, row in TYPES.items()}
_BY_FORMAT |= {long: _BY_FORMAT[fixed] for long, fixed in zip('lL', 'qQ' if struct.calcsize('l') == 8 else 'iI')}
NUMBERS = (bool, int, float)
LISTS = (list, tuple)


def override(cls):
    """Makes a class the Python class of its type. PyGObject's own function requires all classes to be in one file."""
    cls.__info__.get_g_type().pytype = cls
    return cls


def to_enum(kind, value, what):
    """A member of an enumeration, from itself or its short name. PyGObject takes numbers and members of others, too."""
    if isinstance(value, kind):
        return value
    for member in kind:
        if value == member.value_nick:
            return member
    raise TypeError(f"{what} cannot be {value!r}; it must be an Rlx.{kind.__name__}: "
                    + ', '.join(repr(member.value_nick) for member in kind))


def to_data_type(value, what='a data type'):
    name = value if isinstance(value, str) else getattr(value, 'name', None) or getattr(value, '__name__', None)
    if not isinstance(value, Rlx.DataType) and isinstance(name, str) and name in BY_NAME:
        return BY_NAME[name]
    return to_enum(Rlx.DataType, value, what)


def to_member(kind, value, what):
    return to_data_type(value, what) if kind == 'DataType' else to_enum(getattr(Rlx, kind), value, what)


def to_file(value, what):
    """A file, from itself or its path."""
    if isinstance(value, Gio.File):
        return value
    try:
        return Gio.File.new_for_path(os.fspath(value))
    except TypeError:
        raise TypeError(f'{what} cannot be {value!r}; it must be a path or a Gio.File') from None


def to_dictionary(signature, value, what):
    """A variant of a dictionary of text or integers, from itself or a dictionary."""
    if value is None or isinstance(value, GLib.Variant):
        return value
    kind = {'s': str, 'x': int}[signature[3]]
    if not isinstance(value, dict):
        raise TypeError(f'{what} cannot be {value!r}; it must be a dictionary of {kind.__name__} by name')
    for name, entry in value.items():
        if not isinstance(name, str) or isinstance(entry, bool) or not (hasattr(entry, '__index__') if kind is int else isinstance(entry, str)):
            raise TypeError(f'{what}: {name!r} cannot be {entry!r}; it must be a name with {"an integer" if kind is int else "text"}')
    return GLib.Variant(signature, {name: operator.index(entry) if kind is int else entry for name, entry in value.items()})


def _converter(kind):
    if kind == 'File':
        return to_file
    return functools.partial(to_dictionary if kind.startswith('a{') else to_member, kind)


def _property(kind, value, what):
    """The value of a property: a list of integers becomes a variant, anything else in the table is an enumeration."""
    if kind != 'ints':
        return to_member(kind, value, what)
    if isinstance(value, GLib.Variant) and value.get_type_string() == 'ax':
        return value
    try:
        return GLib.Variant('ax', to_ints(value))
    except (TypeError, OverflowError):
        raise TypeError(f'{what} cannot be {value!r}; it must be a list of integers') from None


def _check_function(owner, name, taken, start):
    call = getattr(owner, name)

    @functools.wraps(call)
    def function(*args, **kwargs):
        args = list(args)
        for argument, (position, kind) in taken.items():
            values, at = (kwargs, argument) if argument in kwargs else (args, start + position)
            if values is kwargs or at < len(args):
                values[at] = _converter(kind)(values[at], f'{name}: {argument}')
        return call(*args, **kwargs)

    return function


def _check_properties(owner, properties):
    init = owner.__init__

    @functools.wraps(init)
    def function(self, *args, **kwargs):
        for name, value in kwargs.items():
            kind = properties.get(name.replace('_', '-'))
            kwargs[name] = value if kind is None else _property(kind, value, name)
        init(self, *args, **kwargs)

    owner.__init__ = function


# # The arguments of functions: see bindings/functions.py.
with open(os.path.join(os.path.dirname(__file__), 'functions.json'), encoding='utf-8') as _stream:
    FUNCTIONS = json.load(_stream)


def check_arguments():
    """Makes functions that take an enumeration accept nothing else, and list its values; those that take a file also
    accept a path, and those that take a dictionary in a variant also accept one of Python."""
    for name, row in FUNCTIONS.items():
        owner = getattr(Rlx, name) if name else Rlx
        for method, about in row['methods'].items():
            if 'convert' in about:
                setattr(owner, method, _check_function(owner, method, about['convert'], 1))
        for function, about in row['functions'].items():
            if 'convert' in about:
                setattr(owner, function, staticmethod(_check_function(owner, function, about['convert'], 0)))
        if row['properties']:
            _check_properties(owner, row['properties'])


def kind_of(data_type):
    return 'f' if data_type == Rlx.DataType.BF16 else data_type.name[0].lower()


def to_ints(value):
    """PyGObject would truncate 1.5 to 1."""
    if isinstance(value, Rlx.Node):
        raise TypeError('a node has no value before a run')
    if hasattr(value, '__index__'):
        return [operator.index(value)]
    return [operator.index(number) for number in value]


def is_value(value):
    return isinstance(value, (*NUMBERS, *LISTS, Rlx.Tensor)) or any(
        hasattr(value, name) for name in ('__array_interface__', '__dlpack__'))


def _flatten(value):
    """The shape of nested lists, and their elements."""
    shape, level = [], [value]
    while level and isinstance(level[0], LISTS) and len(shape) < Rlx.MAX_DIMS:
        shape.append(len(level[0]))
        if any(not isinstance(entry, LISTS) or len(entry) != shape[-1] for entry in level):
            raise ValueError('the lists at one depth are not all of the same length')
        level = [number for entry in level for number in entry]
    if any(isinstance(entry, LISTS) for entry in level):
        raise ValueError('the lists at one depth are not all of the same length' if len(shape) < Rlx.MAX_DIMS
                         else f'the lists are nested deeper than {Rlx.MAX_DIMS} times')
    return shape, level


def _from_list(data_type, shape, numbers):
    if kind_of(data_type) == 'f':
        return Rlx.Tensor.new_from_doubles(data_type, shape, numbers)
    return Rlx.Tensor.new_from_ints(data_type, shape, numbers)


def _from_numbers(shape, numbers, data_type):
    types = set(map(type, numbers))
    if data_type is None:
        floats = not numbers or any(issubclass(t, float) for t in types)
        data_type = (Rlx.DataType.F32 if floats else
                     Rlx.DataType.BOOL if types == {bool} else Rlx.DataType.I32)
    kind = kind_of(data_type)
    if kind == 'b' and types - {bool} or kind in 'iu' and any(issubclass(t, float) for t in types):
        raise TypeError(f'{next(n for n in numbers if not isinstance(n, bool if kind == "b" else int))!r} '
                        f'is not {"an integer" if kind != "b" else "a bool"}, '
                        f'as data type {data_type.name.lower()} needs')
    if data_type not in TYPES:
        return _from_list(data_type, shape, numbers)
    try:
        data = struct.pack(f'={len(numbers)}{TYPES[data_type][2]}', *numbers)
    except (struct.error, OverflowError) as error:
        raise OverflowError(f'a number is out of the range of data type {data_type.name.lower()}: {error}') from None
    return Rlx.Tensor.new_from_data(data_type, shape, data)


def _from_numpy(value, data_type, hint):
    import numpy
    array = numpy.asarray(value)
    name = array.dtype.name
    if data_type is None:
        if name not in BY_NAME:
            raise TypeError(f'there is no data type {name} in Rlx; {hint}')
        data_type = BY_NAME[name]
    kind = kind_of(data_type)
    if array.dtype.kind not in {'f': 'fiub', 'i': 'iub', 'u': 'iub', 'b': 'b'}[kind]:
        raise TypeError(f'an array of {name} cannot be a value of data type {data_type.name.lower()}; {hint}')
    if data_type not in TYPES:
        return _from_list(data_type, array.shape, array.ravel().tolist())
    to = TYPES[data_type][0]
    with numpy.errstate(over='ignore'):
        converted = numpy.asarray(array, dtype=to, order='C')
    if array.size and name != to:
        if kind == 'f':
            fits = numpy.array_equal(numpy.isinf(array), numpy.isinf(converted))
        else:
            limits = numpy.iinfo(to) if kind in 'iu' else None
            fits = limits is None or limits.min <= int(array.min()) and int(array.max()) <= limits.max
        if not fits:
            raise OverflowError(f'a number is out of the range of data type {data_type.name.lower()}')
    return RlxPrivate.tensor_new_from_address(data_type, converted.shape, converted.__array_interface__['data'][0],
                                              converted.nbytes)


def to_tensor(value, data_type=None):
    """Converts any suitable Python value to a tensor."""
    if isinstance(value, Rlx.Tensor):
        if data_type not in (None, value.get_data_type()):
            raise TypeError(f'the tensor is of type {value.dtype.name.lower()}, not {data_type.name.lower()}')
        return value
    if isinstance(value, NUMBERS):
        return _from_numbers([], [value], data_type)
    hint = 'convert it first, for example with .astype(numpy.float32)'
    if hasattr(value, '__array_interface__'):
        return _from_numpy(value, data_type, hint)
    if hasattr(value, '__dlpack__'):
        import numpy
        return _from_numpy(numpy.from_dlpack(value), data_type, hint)
    if isinstance(value, LISTS):
        shape, numbers = _flatten(value)
        if all(isinstance(number, NUMBERS) for number in numbers):
            return _from_numbers(shape, numbers, data_type)
        if all(isinstance(number, NUMBERS) or hasattr(number, '__array_interface__') for number in numbers):
            return _from_numpy(value, data_type, hint)
    else:
        try:
            view = memoryview(value)
        except TypeError:
            view = None
        if view is not None and view.format in _BY_FORMAT and data_type in (None, _BY_FORMAT[view.format]):
            return Rlx.Tensor.new_from_data(_BY_FORMAT[view.format], view.shape, view.tobytes())
    raise TypeError(f'{type(value).__name__} cannot be converted to a tensor: only numbers, lists of numbers, '
                    'numpy arrays, buffers and tensors can')


check_arguments()
