# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What Rlx has in Python beyond its C interface.

    g = Rlx.Graph()
    x = g.input('x', 'f32', [8, 64])
    g.output('y', (x @ w + b).gelu())             # w, b: numpy arrays
    exe = Rlx.Device.get_default().compile(g)
    y, = exe(np.ones((8, 64), np.float32))
    print(np.asarray(y))                          # no copy

Nodes have the operators + - * / // % ** @ abs() < <= > >= & | ^ ~ << >>. The
other side may be a number, a list, a numpy array or a tensor; it becomes a
constant of the node's data type. == and != compare which node it is, as for
every GObject, so that nodes can be keys and be found in lists: element by
element there are equal() and not_equal().

Optional attributes of operators are keyword arguments: x.matmul(w,
transpose_b=True). Where a data type is asked for, 'f32', 'float32',
numpy.float32 and Rlx.DataType.F32 are the same.

`await exe.run_future([x])` works in any asyncio program. In one that has a GLib
main loop, such as one with windows, use PyGObject's event loop:
asyncio.run(main(), loop_factory=gi.events.GLibEventLoop), or, before Python
3.12, asyncio.set_event_loop_policy(gi.events.GLibEventLoopPolicy()).

numpy is imported only when a program uses it with Rlx.
"""
import inspect
import operator
import struct
import sys
import weakref

from gi.module import get_introspection_module
from gi.overrides import override
from gi.repository import Gio, GLib, GObject

Rlx = get_introspection_module('Rlx')

__all__ = []

# ---- data types and values ----------------------------------------------------

# numpy's name, kind and size, and the letter of the struct module. Types that
# are not here, two elements to a byte, come and go as lists of integers.
_TYPES = {
    Rlx.DataType.F32: ('float32', 'f4', 'f'),
    Rlx.DataType.F16: ('float16', 'f2', 'e'),
    Rlx.DataType.I32: ('int32', 'i4', 'i'),
    Rlx.DataType.U32: ('uint32', 'u4', 'I'),
    Rlx.DataType.I8: ('int8', 'i1', 'b'),
    Rlx.DataType.U8: ('uint8', 'u1', 'B'),
    Rlx.DataType.BOOL: ('bool', 'b1', '?'),
    Rlx.DataType.I64: ('int64', 'i8', 'q'),
    Rlx.DataType.U64: ('uint64', 'u8', 'Q'),
}
_BY_NAME = {row[0]: data_type for data_type, row in _TYPES.items()}
_BY_NAME |= {data_type.name.lower(): data_type for data_type in Rlx.DataType}
_BY_NAME['bool_'] = Rlx.DataType.BOOL
_BY_FORMAT = {row[2]: data_type for data_type, row in _TYPES.items()}
_BY_FORMAT |= {long: _BY_FORMAT[fixed] for long, fixed in zip('lL', 'qQ' if struct.calcsize('l') == 8 else 'iI')}
_NUMBERS = (bool, int, float)
_LISTS = (list, tuple)


def _data_type(value):
    if isinstance(value, Rlx.DataType):
        return value
    name = value if isinstance(value, str) else getattr(value, 'name', None) or getattr(value, '__name__', None)
    if not isinstance(name, str) or name not in _BY_NAME:
        raise TypeError(f'{value!r} is not one of the data types ' + ', '.join(t.name.lower() for t in Rlx.DataType))
    return _BY_NAME[name]


def _kind(data_type):
    return data_type.name[0].lower()


def _ints(value):
    """PyGObject would cut 1.5 down to 1."""
    if hasattr(value, '__index__'):
        return [operator.index(value)]
    return [operator.index(number) for number in value]


def _is_value(value):
    return isinstance(value, (*_NUMBERS, *_LISTS, Rlx.Tensor)) or hasattr(value, '__array_interface__')


def _flatten(value):
    """The shape of nested lists, and what is in them."""
    shape, level = [], [value]
    while level and isinstance(level[0], _LISTS) and len(shape) < Rlx.MAX_RANK:
        shape.append(len(level[0]))
        if any(not isinstance(entry, _LISTS) or len(entry) != shape[-1] for entry in level):
            raise ValueError('the lists at one depth are not all of the same length')
        level = [number for entry in level for number in entry]
    if any(isinstance(entry, _LISTS) for entry in level):
        raise ValueError('the lists at one depth are not all of the same length' if len(shape) < Rlx.MAX_RANK
                         else f'the lists are nested deeper than {Rlx.MAX_RANK} times')
    return shape, level


def _from_numbers(shape, numbers, data_type):
    types = set(map(type, numbers))
    if data_type is None:
        floats = not numbers or any(issubclass(t, float) for t in types)
        data_type = (Rlx.DataType.F32 if floats else
                     Rlx.DataType.BOOL if types == {bool} else Rlx.DataType.I32)
    kind = _kind(data_type)
    if kind == 'b' and types - {bool} or kind in 'iu' and any(issubclass(t, float) for t in types):
        raise TypeError(f'{next(n for n in numbers if not isinstance(n, bool if kind == "b" else int))!r} '
                        f'is not {"an integer" if kind != "b" else "a bool"}, '
                        f'as data type {data_type.name.lower()} needs')
    if data_type not in _TYPES:
        return Rlx.Tensor.new_from_ints(data_type, shape, numbers)
    try:
        data = struct.pack(f'={len(numbers)}{_TYPES[data_type][2]}', *numbers)
    except (struct.error, OverflowError) as error:
        raise OverflowError(f'a number is out of the range of data type {data_type.name.lower()}: {error}') from None
    return Rlx.Tensor.new_from_data(data_type, shape, data)


def _from_numpy(value, data_type, hint):
    import numpy
    array = numpy.asarray(value)
    name = array.dtype.name
    if data_type is None:
        if name not in _BY_NAME:
            raise TypeError(f'there is no data type {name} in Rlx; {hint}')
        data_type = _BY_NAME[name]
    kind = _kind(data_type)
    if array.dtype.kind not in {'f': 'fiub', 'i': 'iub', 'u': 'iub', 'b': 'b'}[kind]:
        raise TypeError(f'an array of {name} is no value of data type {data_type.name.lower()}; {hint}')
    if data_type not in _TYPES:
        return Rlx.Tensor.new_from_ints(data_type, array.shape, array.ravel().tolist())
    to = _TYPES[data_type][0]
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
    return Rlx.Tensor.new_from_address(data_type, converted.shape, converted.__array_interface__['data'][0],
                                       converted.nbytes)


def _tensor(value, data_type=None):
    """A tensor, from whatever Python has for one."""
    if isinstance(value, Rlx.Tensor):
        if data_type not in (None, value.get_data_type()):
            raise TypeError(f'the tensor is of type {value.dtype.name.lower()}, not {data_type.name.lower()}')
        return value
    if isinstance(value, _NUMBERS):
        return _from_numbers([], [value], data_type)
    hint = 'convert it first, for example with .astype(numpy.float32)'
    if hasattr(value, '__array_interface__'):
        return _from_numpy(value, data_type, hint)
    if isinstance(value, _LISTS):
        shape, numbers = _flatten(value)
        if all(isinstance(number, _NUMBERS) for number in numbers):
            return _from_numbers(shape, numbers, data_type)
        if all(isinstance(number, _NUMBERS) or hasattr(number, '__array_interface__') for number in numbers):
            return _from_numpy(value, data_type, hint)
    else:
        try:
            view = memoryview(value)
        except TypeError:
            view = None
        if view is not None and view.format in _BY_FORMAT and data_type in (None, _BY_FORMAT[view.format]):
            return Rlx.Tensor.new_from_data(_BY_FORMAT[view.format], view.shape, view.tobytes())
    raise TypeError(f'{type(value).__name__} cannot be turned into a tensor: numbers, lists of numbers, '
                    'numpy arrays, buffers and tensors can')


# ---- tensors ---------------------------------------------------------------------

class Tensor(Rlx.Tensor):
    @classmethod
    def from_array(cls, array, data_type=None):
        """Makes a tensor from a numpy array (with one copy), a buffer, a list or a number."""
        return _tensor(array, None if data_type is None else _data_type(data_type))

    shape = property(lambda self: tuple(self.get_shape()), doc='The size of each dimension.')
    dtype = property(lambda self: self.get_data_type(), doc='The type of the elements, an Rlx.DataType.')

    @property
    def __array_interface__(self):
        if self.dtype not in _TYPES:
            raise AttributeError('numpy has no such data type')
        code = _TYPES[self.dtype][1]
        order = '|' if code[1] == '1' else '<' if sys.byteorder == 'little' else '>'
        return {
            'version': 3,
            'shape': self.shape,
            'typestr': order + code,
            # Whoever takes the address keeps the object it came from.
            'data': (self.get_address()[0], True),
        }

    def __array__(self, dtype=None, copy=None):
        """For types that numpy does not have: each element in a byte."""
        import numpy
        if copy is False:
            raise ValueError(f'numpy has no data type {self.dtype.name.lower()}: it takes a copy')
        array = numpy.array(self._numbers(), numpy.int8 if _kind(self.dtype) == 'i' else numpy.uint8)
        return array.reshape(self.shape).astype(dtype or array.dtype)

    def _numbers(self):
        if self.dtype not in _TYPES:
            return self.get_ints()
        return struct.unpack(f'={self.get_n_elements()}{_TYPES[self.dtype][2]}', self.get_bytes().get_data() or b'')

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

    def _number(self):
        if self.get_n_elements() != 1:
            raise TypeError(f'a tensor of {self.get_n_elements()} elements is not a number')
        return self._numbers()[0]

    def __float__(self):
        return float(self._number())

    def __int__(self):
        return int(self._number())

    def __str__(self):
        return self.to_string()

    def __repr__(self):
        return f'<Rlx.Tensor {self.dtype.name.lower()}{list(self.shape)} {self.to_string()}>'


Tensor = override(Tensor)
__all__.append('Tensor')

# ---- operators --------------------------------------------------------------------

# A node must keep its graph alive, but the graph owns the node: a plain attribute
# would keep both for ever. Here the entry goes with the Python side of the node.
_graphs = weakref.WeakKeyDictionary()


def _pin(result, graph):
    if isinstance(result, Rlx.Node):
        _graphs[result] = graph
    elif isinstance(result, _LISTS):
        for node in result:
            _pin(node, graph)
    return result


def _graph_of(node):
    graph = node.get_graph()
    if graph is None:
        raise ValueError('the graph of the node does not exist any more')
    return graph


# float() would read text, and everything is true or false to bool().
_ATTRIBUTES = {
    'bool': lambda value: {True: True, False: False}[value],
    'int': operator.index,
    'float': lambda value: float(value + 0.0),
    'data type': _data_type,
    'ints': _ints,
    'string': lambda value: ''.join([value]),
    # Not converted here: the name of the type is not in the description.
    'enum': lambda value: value,
}


def _attribute(op, row, value):
    try:
        return _ATTRIBUTES[row['type']](value)
    except (TypeError, ValueError, KeyError):
        raise TypeError(f'{op}: {row["name"]} cannot be {value!r}, it is of type {row["type"]}') from None


def _operands(op, graph, rows, values):
    """Nodes for the operands of an operator. What is not a node takes the data type of one that must match it."""
    types, nodes = {}, []
    groups = [row.get('same-as', row['name']) for row in rows]
    for group, value in zip(groups, values):
        if isinstance(value, (Rlx.Node, Rlx.Tensor)):
            types.setdefault(group, value.get_data_type())
    for group, value in zip(groups, values):
        if hasattr(value, '__array_interface__') and group not in types:
            types[group] = _BY_NAME.get(getattr(getattr(value, 'dtype', None), 'name', None))
    for group, row, value in zip(groups, rows, values):
        if value is None and not row['optional']:
            raise TypeError(f'{op}: {row["name"]} cannot be None')
        if value is not None and not isinstance(value, Rlx.Node):
            if not _is_value(value):
                raise TypeError(f'{op}: {row["name"]} cannot be a {type(value).__name__}')
            value = graph.constant(value, types.get(group))
            types[group] = value.get_data_type()
        nodes.append(value)
    return nodes


def _operator(base, op):
    """The method for an operator: operands and required attributes as in C, optional attributes by keyword."""
    about = Rlx.operators_describe(op).unpack()
    inputs, variadic = about['inputs'], about['variadic']
    required = [row for row in about['attributes'] if row['required']]
    optional = [row for row in about['attributes'] if not row['required']]
    plain, full = getattr(base, op), getattr(base, op + '_full', None)
    options = getattr(Rlx, ''.join(map(str.capitalize, op.split('_'))) + 'Options', None)

    parameters = [inspect.Parameter('self', inspect.Parameter.POSITIONAL_ONLY)]
    for row in (inputs if variadic else inputs[1:]) + required:
        # None is no value of a required attribute, so it can stand for one that is missing.
        default = None if row.get('optional') or parameters[-1].default is None else inspect.Parameter.empty
        parameters.append(inspect.Parameter(row['name'], inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    for row in optional:
        parameters.append(inspect.Parameter(row['name'], inspect.Parameter.KEYWORD_ONLY, default=row['default']))
    signature = inspect.Signature(parameters)

    def method(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f'{op}: {error}') from None
        self = given['self']
        graph = self if variadic else _graph_of(self)
        if variadic:
            values = list(given[inputs[0]['name']])
            nodes = [_operands(op, graph, inputs * len(values), values)]
        else:
            nodes = _operands(op, graph, inputs, [self] + [given.get(row['name']) for row in inputs[1:]])[1:]
        values = [_attribute(op, row, given.get(row['name'])) for row in required]
        settings = [(row, given[row['name']]) for row in optional if given.get(row['name']) is not None]
        if not settings:
            return _pin(plain(self, *nodes, *values), graph)
        chosen = options()
        for row, value in settings:
            if row['type'] == 'enum' and isinstance(value, str):
                value = next((member for member in type(getattr(chosen.props, row['name']))
                              if member.value_nick == value), value)
            getattr(chosen, 'set_' + row['name'])(_attribute(op, row, value))
        return _pin(full(self, *nodes, *values, chosen), graph)

    method.__name__ = op
    method.__qualname__ = f'{"Graph" if variadic else "Node"}.{op}'
    method.__signature__ = signature
    method.__doc__ = '\n\n'.join(
        [text for text in (about['summary'], about['formula']) if text] +
        ['\n'.join(f'{row["name"]}: {row["doc"]}' for row in about['attributes'])]).strip()
    return method


class _Lazy:
    """Becomes the method at its first use: to describe all operators takes longer than to load the library."""

    def __init__(self, base, op):
        self.base, self.op = base, op

    def __get__(self, instance, owner):
        method = _operator(self.base, self.op)
        for cls in owner.__mro__:
            if cls.__dict__.get(self.op) is self:
                setattr(cls, self.op, method)
        return method.__get__(instance, owner)


def _pinned(base, name):
    def method(self, *args, **kwargs):
        result = getattr(base, name)(self, *args, **kwargs)
        return _pin(result, self if isinstance(self, Rlx.Graph) else self.get_graph())

    method.__name__ = name
    method.__doc__ = getattr(base, name).__doc__
    return method


def _add_operators(cls, base):
    for op in Rlx.operators_list():
        if hasattr(base, op) and op not in cls.__dict__:
            setattr(cls, op, _Lazy(base, op))
            if hasattr(base, op + '_full'):
                setattr(cls, op + '_full', _pinned(base, op + '_full'))


def _binary(call):
    def method(self, other):
        if not isinstance(other, Rlx.Node) and not _is_value(other):
            return NotImplemented
        return call(self, other)

    return method


def _comparison(symbol, call):
    def method(self, other):
        # Not NotImplemented: Python would go on to compare the addresses of two GObjects.
        if not isinstance(other, Rlx.Node) and not _is_value(other):
            raise TypeError(f"'{symbol}' is not supported between a node and a {type(other).__name__}")
        return call(self, other)

    return method


def _reflected(call):
    def method(self, other):
        if not _is_value(other):
            return NotImplemented
        return call(_graph_of(self).constant(other, self.dtype), self)

    return method


def _divide(a, b):
    if _kind(a.dtype) != 'f':
        raise TypeError(f'/ is for floats, and the node is of type {a.dtype.name.lower()}: use //, or div(), '
                        'which truncates, or cast() first')
    return a.div(b)


def _floor_divide(a, b):
    if not isinstance(b, Rlx.Node):
        b = _graph_of(a).constant(b, a.dtype)
    quotient = a.div(b)
    if _kind(a.dtype) == 'f':
        # The quotient is not exact: rounding down could give 1 for 6 // 3.
        return b.equal(0).where(quotient, (a - a % b).div(b).round_even())
    if _kind(a.dtype) != 'i':
        return quotient
    # div() truncates. The remainder of a division by zero is 0, as is its quotient.
    low = a.mod(b).not_equal(0) & ((a < 0) ^ (b < 0))
    return quotient - low.cast(a.dtype)


def _logical(op):
    def call(a, *b):
        return getattr(a, ('logical_' if a.dtype == Rlx.DataType.BOOL else 'bit_') + op)(*b)

    return call


def _add_symbols(cls):
    symbols = {
        'add': lambda a, b: a.add(b),
        'sub': lambda a, b: a.sub(b),
        'mul': lambda a, b: a.mul(b),
        'truediv': _divide,
        'floordiv': _floor_divide,
        'mod': lambda a, b: a.mod(b, floor=True),
        'pow': lambda a, b: a.pow(b),
        'matmul': lambda a, b: a.matmul(b),
        'and': _logical('and'),
        'or': _logical('or'),
        'xor': _logical('xor'),
        'lshift': lambda a, b: a.shift_left(b),
        'rshift': lambda a, b: a.shift_right(b),
    }
    for name, call in symbols.items():
        setattr(cls, f'__{name}__', _binary(call))
        setattr(cls, f'__r{name}__', _reflected(call))
    cls.__lt__ = _comparison('<', lambda a, b: a.less(b))
    cls.__le__ = _comparison('<=', lambda a, b: a.less_equal(b))
    cls.__gt__ = _comparison('>', lambda a, b: a.greater(b))
    cls.__ge__ = _comparison('>=', lambda a, b: a.greater_equal(b))
    cls.__neg__ = lambda self: self.neg()
    cls.__pos__ = lambda self: self
    cls.__abs__ = lambda self: self.abs()
    cls.__invert__ = _logical('not')


# ---- nodes and graphs ----------------------------------------------------------------

class Node(Rlx.Node):
    # Or numpy would take the node for an element, and return an array of nodes.
    __array_ufunc__ = None

    shape = property(lambda self: tuple(self.get_shape()), doc='The size of each dimension.')
    dtype = property(lambda self: self.get_data_type(), doc="The type of the value's elements, an Rlx.DataType.")
    get_inputs = _pinned(Rlx.Node, 'get_inputs')

    def __bool__(self):
        raise TypeError('a node has no value before it is run, so it is neither true nor false; '
                        'to tell it from None, use "is"')

    def __repr__(self):
        return f'<Rlx.Node {self.to_string()}>'


Node = override(Node)
_add_operators(Node, Rlx.Node)
_add_symbols(Node)
__all__.append('Node')


class Graph(Rlx.Graph):
    def input(self, name, data_type, shape):
        return _pin(super().input(name, _data_type(data_type), _ints(shape)), self)

    def parameter(self, name, data_type, shape):
        return _pin(super().parameter(name, _data_type(data_type), _ints(shape)), self)

    def constant(self, tensor, data_type=None):
        """A node for a tensor, a numpy array, a list or a number."""
        return _pin(super().constant(_tensor(tensor, None if data_type is None else _data_type(data_type))), self)

    def scalar(self, data_type, value):
        return _pin(super().scalar(_data_type(data_type), value), self)

    def state(self, name, initial):
        return _pin(super().state(name, _tensor(initial)), self)

    def output(self, name, node):
        taken = super().get_output(name)
        super().output(name, node)
        # The method has no error: the graph would keep it until it is compiled.
        if taken is not None or super().get_output(name) is not node:
            self.check()

    def set_precision(self, precision):
        super().set_precision(precision)
        # Nor has this one.
        if super().get_precision() != precision:
            self.check()

    def add_op(self, op, inputs=None, attributes=None):
        return _pin(super().add_op(op, inputs, attributes), self)

    # PyGObject makes iteration and indices of it.
    get_item = _pinned(Rlx.Graph, 'get_item')
    get_output = _pinned(Rlx.Graph, 'get_output')
    lookup = _pinned(Rlx.Graph, 'lookup')

    def __bool__(self):
        return True

    def __repr__(self):
        return f'<Rlx.Graph of {len(self)} nodes>'


Graph = override(Graph)
_add_operators(Graph, Rlx.Graph)
__all__.append('Graph')

# ---- running ---------------------------------------------------------------------------


async def _future(cancellable, begin, finish, block):
    """Waits for an asynchronous call in the way of asyncio.

    What PyGObject returns when the callback is left out can be awaited too, but
    has no cancelled(), which makes asyncio.gather() wait for ever.
    """
    import asyncio
    loop = asyncio.get_running_loop()
    # The caller's may be shared: the end of this one task must not cancel others.
    ours = Gio.Cancellable()
    handler = None
    if cancellable is not None:
        # Gio.Cancellable has a connect() of its own.
        handler = GObject.Object.connect(cancellable, 'cancelled', lambda _: ours.cancel())
        if cancellable.is_cancelled():
            ours.cancel()
    try:
        try:
            from gi.events import GLibEventLoop
        except ImportError:
            GLibEventLoop = ()
        if not isinstance(loop, GLibEventLoop):
            # Nothing dispatches GLib's callbacks in this thread. PyGObject lets other threads run during a call.
            value = await loop.run_in_executor(None, block, ours)
            # As a GTask has it, the cancellable counts until the end.
            ours.set_error_if_cancelled()
            return value
        future = loop.create_future()

        def ready(_, result):
            try:
                value, error = finish(result), None
            except GLib.Error as caught:
                value, error = None, caught
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        begin(ours, ready)
        return await future
    except asyncio.CancelledError:
        ours.cancel()
        raise
    finally:
        if handler is not None:
            GObject.Object.disconnect(cancellable, handler)


class Device(Rlx.Device):
    def __init__(self, *args, **kwargs):
        raise TypeError('devices come from Rlx.Device.get_default() and Rlx.Device.open()')

    async def calibrate_future(self, cancellable=None):
        """Measures without blocking; to be awaited. Cancelling the task ends the wait."""
        return await _future(cancellable, self.calibrate_async, self.calibrate_finish, self.calibrate)

    async def compile_future(self, graph, cancellable=None):
        """Compiles without blocking; to be awaited. Cancelling the task ends the wait."""
        return await _future(cancellable,
                             lambda ours, ready: self.compile_async(graph, ours, ready),
                             self.compile_finish,
                             lambda ours: self.compile(graph, ours))


Device = override(Device)
__all__.append('Device')


class Executable(Rlx.Executable):
    def __init__(self, *args, **kwargs):
        raise TypeError('executables come from Rlx.Device.compile()')

    def __call__(self, /, *inputs, **named):
        """Runs the graph with inputs by position, by name or both, and returns the list of its outputs."""
        if not named:
            return self.run(inputs)
        names = self.get_input_names()
        given = dict(zip(names, inputs))
        if len(inputs) > len(names) or given.keys() & named.keys():
            raise TypeError(f'an input is given twice or too often; the inputs are: {", ".join(names)}')
        given |= named
        return self.run_named(list(given), given.values())

    def run(self, inputs, cancellable=None):
        return super().run([_tensor(value) for value in inputs], cancellable)

    def run_named(self, names, inputs, cancellable=None):
        return super().run_named(names, [_tensor(value) for value in inputs], cancellable)

    def run_async(self, inputs, cancellable=None, callback=None, *user_data):
        call = super().run_async
        inputs = [_tensor(value) for value in inputs]
        return call(inputs, cancellable) if callback is None else call(inputs, cancellable, callback, *user_data)

    async def run_future(self, inputs, cancellable=None):
        """Runs without blocking; to be awaited. Cancelling the task ends the run."""
        inputs = [_tensor(value) for value in inputs]
        return await _future(cancellable,
                             lambda ours, ready: self.run_async(inputs, ours, ready),
                             self.run_finish,
                             lambda ours: self.run(inputs, ours))

    def set_parameters(self, names, values, cancellable=None):
        return super().set_parameters(names, [_tensor(value) for value in values], cancellable)

    def write_state(self, name, value, cancellable=None):
        return super().write_state(name, _tensor(value), cancellable)


Executable = override(Executable)
__all__.append('Executable')
