# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The methods of operators, and Python's symbols."""
import inspect
import operator
import textwrap

from .values import BY_NAME, Rlx, is_value, kind_of, to_data_type, to_ints


def graph_of(node):
    graph = node.get_graph()
    if graph is None:
        raise ValueError('the node belongs to no graph')
    return graph


# float() would read text, and everything is true or false to bool().
_ATTRIBUTES = {
    'bool': lambda value: {True: True, False: False}[value],
    'int': operator.index,
    'float': lambda value: float(value + 0.0),
    'ints': to_ints,
    'string': lambda value: ''.join([value]),
}

# # Stands for a missing attribute.
_MISSING = {('transpose', 'permutation'): []}

# # numpy's names.
_ALIASES = {'axis': 'axes', 'keepdims': 'keep_dims'}


def attribute_of(op, row, value):
    if row['type'] == 'data type':
        return to_data_type(value, f'{op}: {row["name"]}')
    if row['type'] == 'enum':
        # # Converted where it is used: the description does not have the name of the
        # type.
        return value
    try:
        return _ATTRIBUTES[row['type']](value)
    except (TypeError, ValueError, KeyError):
        words = {'ints': 'a list of integers', 'int': 'an integer', 'float': 'a number', 'bool': 'True or False',
                 'string': 'a string'}
        raise TypeError(f'{op}: {row["name"]} cannot be {value!r}; it must be {words[row["type"]]}') from None


def _operands(op, graph, rows, values):
    """Nodes for the operands of an operator. Values that are not nodes take the data type of the operand that they must match."""
    types, nodes = {}, []
    groups = [row.get('same-as', row['name']) for row in rows]
    for group, value in zip(groups, values):
        if isinstance(value, (Rlx.Node, Rlx.Tensor)):
            types.setdefault(group, value.get_data_type())
    for group, value in zip(groups, values):
        if hasattr(value, '__array_interface__') and group not in types:
            types[group] = BY_NAME.get(getattr(getattr(value, 'dtype', None), 'name', None))
    for group, row, value in zip(groups, rows, values):
        if value is None and not row['optional']:
            raise TypeError(f'{op}: {row["name"]} cannot be None')
        if value is not None and not isinstance(value, Rlx.Node):
            if not is_value(value):
                raise TypeError(f'{op}: {row["name"]} cannot be a {type(value).__name__}')
            value = graph.constant(value, types.get(group))
            types[group] = value.get_data_type()
        nodes.append(value)
    return nodes


def document(about):
    """The text of `rlx ops NAME`, as a docstring."""
    def wrap(text, indent='', first=''):
        return textwrap.fill(text, 79, initial_indent=first or indent, subsequent_indent=indent, break_on_hyphens=False)

    parts = [wrap(about['summary']), wrap(about['doc']), about['formula']]
    rows = []
    for row in about['inputs'] if about['variadic'] else about['inputs'][1:]:
        like = f', as {row["same-as"]}' if 'same-as' in row else ''
        optional = '; optional' if row['optional'] else ''
        rows.append(wrap(f'{row["name"]}: {row["types"]}{like}{optional}', '    ', '  '))
    for row in about['attributes']:
        default = '' if row['required'] else f', by default {row["default"]!r}'
        rows.append(wrap(f'{row["name"]} ({row["type"]}{default}): {row["doc"]}', '    ', '  '))
        for value in row.get('values', []):
            rows.append(wrap(f'{value["name"]!r}: {value["doc"]}', '      ', '    '))
    parts += ['Arguments:\n' + '\n'.join(rows)] if rows else []
    parts += [f'For example: {about["example"]}' if about['example'] else '', f'Error bound: {about["bound"]}',
              wrap(f'Checked: {about["checked"]}') if about['checked'] else '']
    return '\n\n'.join(part for part in parts if part)


def _operator(base, op):
    """The method for an operator: required operands and attributes, then optional operands; optional attributes by
    keyword. In C all operands come before all attributes."""
    about = Rlx.operators_describe(op).unpack()
    inputs, variadic = about['inputs'], about['variadic']
    attributes = about['attributes']
    required = [row for row in attributes if row['required']]
    optional = [row for row in attributes if not row['required']]
    operands = inputs if variadic else inputs[1:]
    names = {row['name'] for row in operands + attributes}
    aliases = {alias: name for alias, name in _ALIASES.items() if name in names and alias not in names}
    # x.reshape(3, 2): it takes nothing but one list of integers.
    only = attributes[0]['name'] if not operands and len(attributes) == 1 and attributes[0]['type'] == 'ints' else None
    # # Without axes, a reduction covers all of them.
    reduction = 'axes' in names and 'keep_dims' in names
    call = getattr(base, op)
    Options = getattr(Rlx, ''.join(map(str.capitalize, op.split('_'))) + 'Options', None)

    def parameter(row, kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, default=inspect.Parameter.empty):
        return inspect.Parameter(row['name'], kind, default=default)

    parameters = [inspect.Parameter('self', inspect.Parameter.POSITIONAL_ONLY)]
    parameters += [parameter(row) for row in operands if not row['optional']]
    parameters += [parameter(row, default=None) if reduction or (op, row['name']) in _MISSING else parameter(row)
                   for row in required]
    parameters += [parameter(row, default=None) for row in operands if row['optional']]
    parameters += [parameter(row, inspect.Parameter.POSITIONAL_OR_KEYWORD if row['name'] == only else
                             inspect.Parameter.KEYWORD_ONLY, row['default']) for row in optional]
    if Options:
        parameters.append(inspect.Parameter('options', inspect.Parameter.KEYWORD_ONLY, default=None))
    signature = inspect.Signature(parameters)

    def method(*args, **kwargs):
        for alias in aliases.keys() & kwargs.keys():
            if aliases[alias] in kwargs:
                raise TypeError(f'{op}: {alias} and {aliases[alias]} are the same')
            kwargs[aliases[alias]] = kwargs.pop(alias)
        if only and len(args) > 2:
            args = args[0], args[1:]
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            named = [row['name'] for row in optional if row['name'] != only]
            hint = f'; {", ".join(named)} can be given by name' if named and 'positional' in str(error) else ''
            raise TypeError(f'{op}: {error}{hint}') from None
        self = given['self']
        graph = self if variadic else graph_of(self)
        if variadic:
            values = given[inputs[0]['name']]
            if isinstance(values, Rlx.Node):
                raise TypeError(f'{op}: {inputs[0]["name"]} cannot be one node, they are a list')
            values = list(values)
            nodes = [_operands(op, graph, inputs * len(values), values)]
        else:
            nodes = _operands(op, graph, inputs, [self] + [given.get(row['name']) for row in inputs[1:]])[1:]
        if reduction and given.get('axes') is None:
            given['axes'] = range(len(self.get_shape()))
        values = [attribute_of(op, row, given.get(row['name'], _MISSING.get((op, row['name'])))) for row in required]
        if not Options:
            return call(self, *nodes, *values)
        options = given.get('options')
        settings = [(row, given[row['name']]) for row in optional if given.get(row['name']) is not None]
        if settings and options is not None:
            raise TypeError(f'{op}: {settings[0][0]["name"]} is given in addition to options')
        if settings:
            options = Options()
        for row, value in settings:
            try:
                getattr(options, 'set_' + row['name'])(attribute_of(op, row, value))
            except TypeError as error:
                text = str(error).removeprefix(f'set_{row["name"]}: ')
                raise TypeError(text if text.startswith(op) else f'{op}: {text}') from None
        return call(self, *nodes, *values, options)

    method.__name__ = op
    method.__qualname__ = f'{"Graph" if variadic else "Node"}.{op}'
    method.__signature__ = signature
    method.__doc__ = document(about)
    return method


class _Lazy:
    """Becomes the method on first use: describing all operators takes longer than loading the library."""

    def __init__(self, base, op):
        self.base, self.op = base, op

    def __get__(self, instance, owner):
        method = _operator(self.base, self.op)
        for cls in owner.__mro__:
            if cls.__dict__.get(self.op) is self:
                setattr(cls, self.op, method)
        return method.__get__(instance, owner)


def add_operators(cls, base):
    for op in Rlx.operators_list():
        if hasattr(base, op) and op not in cls.__dict__:
            setattr(cls, op, _Lazy(base, op))


# # ---- numpy's methods
# ----------------------------------------------------------------

def _reduction(name, op):
    def method(self, axis=None, *, keepdims=False):
        return getattr(self, op)(axis, keep_dims=keepdims)

    method.__name__ = name
    method.__qualname__ = f'Node.{name}'
    method.__doc__ = f'{op}() over all axes, one or some.'
    return method


def _extreme(name):
    """In numpy the name is a reduction, in the op table an element-wise operator."""
    lazy = _Lazy(Rlx.Node, name)

    def method(self, other=None, *, axis=None, keepdims=False, **kwargs):
        if other is None and not kwargs:
            return getattr(self, f'reduce_{name}')(axis, keep_dims=keepdims)
        if axis is not None or keepdims:
            raise TypeError(f'{name}: with another operand it is element by element, and has no axis')
        return lazy.__get__(self, type(self))(other, **kwargs)

    method.__name__ = name
    method.__qualname__ = f'Node.{name}'
    about = Rlx.operators_describe(name).unpack()
    method.__doc__ = f'{document(about)}\n\nWithout the other operand, reduce_{name}(): over all axes, one or some.'
    return method


def add_reductions(cls):
    for name in 'sum', 'mean', 'prod', 'any', 'all':
        setattr(cls, name, _reduction(name, f'reduce_{name}'))
    for name in 'max', 'min':
        setattr(cls, name, _extreme(name))


# ---- symbols -----------------------------------------------------------------------

def _binary(call):
    def method(self, other):
        if not isinstance(other, Rlx.Node) and not is_value(other):
            return NotImplemented
        return call(self, other)

    return method


def _comparison(symbol, call):
    def method(self, other):
        # Not NotImplemented: Python would go on to compare the addresses of two GObjects.
        if not isinstance(other, Rlx.Node) and not is_value(other):
            raise TypeError(f"'{symbol}' is not supported between a node and a {type(other).__name__}")
        return call(self, other)

    return method


def _reflected(call):
    def method(self, other):
        if not is_value(other):
            return NotImplemented
        return call(graph_of(self).constant(other, self.dtype), self)

    return method


def _divide(a, b):
    if kind_of(a.dtype) != 'f':
        raise TypeError(f'/ is for floats, and the node is of type {a.dtype.name.lower()}: use //, or div(), '
                        'which truncates, or cast() first')
    return a.div(b)


def _floor_divide(a, b):
    if not isinstance(b, Rlx.Node):
        b = graph_of(a).constant(b, a.dtype)
    quotient = a.div(b)
    if kind_of(a.dtype) == 'f':
        # The quotient is not exact: rounding down could give 1 for 6 // 3.
        return b.equal(0).where(quotient, (a - a % b).div(b).round_even())
    if kind_of(a.dtype) != 'i':
        return quotient
    # div() truncates. The remainder of a division by zero is 0, as is its quotient.
    low = a.mod(b).not_equal(0) & ((a < 0) ^ (b < 0))
    return quotient - low.cast(a.dtype)


def _logical(op):
    def call(a, *b):
        return getattr(a, ('logical_' if a.dtype == Rlx.DataType.BOOL else 'bit_') + op)(*b)

    return call


def add_symbols(cls):
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

