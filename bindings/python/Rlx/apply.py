# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Operators without a graph: Rlx.ops.matmul(a, b)."""
import inspect

from gi.repository import GLib

from .operators import attribute_of, document
from .values import BY_NAME, Rlx, to_tensor

_VARIANTS = {'bool': 'b', 'int': 'x', 'float': 'd', 'ints': 'ax', 'string': 's'}


def _variant(op, row, value):
    value = attribute_of(op, row, value)
    if row['type'] == 'data type':
        return GLib.Variant('s', Rlx.DataType.to_string(value))
    if row['type'] == 'enum':
        # A member has the short name of its value.
        return GLib.Variant('s', getattr(value, 'value_nick', value))
    return GLib.Variant(_VARIANTS[row['type']], list(value) if row['type'] == 'ints' else value)


def _tensors(op, rows, values):
    """Values that are not tensors take the data type of the operand that they must match."""
    groups = [row.get('same-as', row['name']) for row in rows]
    types = {}
    for group, value in zip(groups, values):
        if isinstance(value, Rlx.Tensor):
            types.setdefault(group, value.get_data_type())
        elif hasattr(value, '__array_interface__'):
            types.setdefault(group, BY_NAME.get(getattr(getattr(value, 'dtype', None), 'name', None)))
    return [None if value is None else to_tensor(value, None if hasattr(value, '__array_interface__') else types.get(group))
            for group, value in zip(groups, values)]


def _function(op):
    about = Rlx.operators_describe(op).unpack()
    inputs, variadic, attributes = about['inputs'], about['variadic'], about['attributes']
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(row['name'], kind) for row in inputs if not row['optional']]
    parameters += [inspect.Parameter(row['name'], kind) for row in attributes if row['required']]
    parameters += [inspect.Parameter(row['name'], kind, default=None) for row in inputs if row['optional']]
    parameters += [inspect.Parameter(row['name'], inspect.Parameter.KEYWORD_ONLY, default=None)
                   for row in attributes if not row['required']]
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in ('device', 'cancellable')]
    signature = inspect.Signature(parameters)

    def function(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f'{op}: {error}') from None
        if variadic:
            values = list(given[inputs[0]['name']])
            tensors = _tensors(op, inputs * len(values), values)
        else:
            tensors = _tensors(op, inputs, [given.get(row['name']) for row in inputs])
        while tensors and tensors[-1] is None:
            tensors.pop()
        settings = {row['name']: _variant(op, row, given[row['name']]) for row in attributes
                    if given.get(row['name']) is not None}
        devices = [tensor.get_device() for tensor in tensors if tensor is not None]
        device = given.get('device') or next(filter(None, devices), None) or Rlx.Device.get_default()
        results = device.apply(op, tensors, GLib.Variant('a{sv}', settings), given.get('cancellable'))
        return results[0] if len(results) == 1 else results

    function.__name__ = op
    function.__qualname__ = f'ops.{op}'
    function.__signature__ = signature
    function.__doc__ = document(about)
    return function


class Operators:
    """Operators that compute immediately, on tensors, arrays, lists or numbers: Rlx.ops.matmul(a, b).

    The results are tensors that stay on the device; numpy() and anything else that needs their elements fetches them.
    The device is the argument `device`, or that of the first tensor that is on one, or the default one."""

    def __getattr__(self, op):
        if op not in Rlx.operators_list() or op in ('input', 'parameter', 'constant', 'state'):
            raise AttributeError(f'there is no operator {op!r}')
        function = _function(op)
        setattr(self, op, function)
        return function

    def __dir__(self):
        return sorted(set(Rlx.operators_list()) - {'input', 'parameter', 'constant', 'state'})


ops = Operators()
