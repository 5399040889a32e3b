# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Indexing with brackets, as in numpy."""
import operator

from .operators import graph_of
from .values import LISTS, Rlx, to_tensor


def _is_list(entry):
    return isinstance(entry, (Rlx.Node, Rlx.Tensor, *LISTS)) or getattr(entry, 'shape', ()) != ()


def _expand(index, rank):
    """The entries, one for each axis or None for a new one."""
    index = list(index) if isinstance(index, tuple) else [index]
    gaps = [i for i, entry in enumerate(index) if entry is Ellipsis]
    given = sum(entry is not None and entry is not Ellipsis for entry in index)
    if len(gaps) > 1:
        raise IndexError('an index can have one ellipsis (...)')
    if given > rank:
        raise IndexError(f'there are {given} indices for {rank} axes')
    at = gaps[0] if gaps else len(index)
    return index[:at] + [slice(None)] * (rank - given) + index[at + 1:]


def _number(entry, axis, size):
    if isinstance(entry, bool):
        raise TypeError('a node cannot be indexed by booleans: the shape of the result would depend on them')
    try:
        number = operator.index(entry)
    except TypeError:
        raise TypeError(f'a node cannot be indexed by a {type(entry).__name__}: numbers, slices, None, ..., lists of '
                        'integers and nodes can') from None
    if not -size <= number < size:
        raise IndexError(f'index {number} is out of range for axis {axis} of size {size}')
    return number % size


def _list(node, entry):
    """The operand of gather."""
    if not isinstance(entry, Rlx.Node):
        entry = graph_of(node).constant(to_tensor(entry) if not isinstance(entry, LISTS) or entry else
                                        to_tensor(entry, Rlx.DataType.I32))
    if entry.get_data_type() == Rlx.DataType.BOOL:
        raise TypeError('a node cannot be indexed by booleans: the shape of the result would depend on them')
    return entry


def index_node(node, index):
    """Indexing: first the slice, then the list of indices, then the new shape, without numbers and with None."""
    shape = list(node.get_shape())
    cuts, lists, result, numbers, axis = [], [], [], [], 0
    for place, entry in enumerate(_expand(index, len(shape))):
        if entry is None:
            result.append(1)
            continue
        size = shape[axis]
        if isinstance(entry, slice):
            start, stop, step = entry.indices(size)
            count = len(range(start, stop, step))
            if (start, count, step) != (0, size, 1):
                # Below 0 an end counts from the back.
                cuts.append((axis, start, stop if stop >= 0 else -size - 1, step) if count else (axis, 0, 0, 1))
            result.append(count)
        elif _is_list(entry):
            lists.append((axis, len(result), _list(node, entry)))
            result.append(None)
            numbers.append(place)
        else:
            number = _number(entry, axis, size)
            cuts.append((axis, number, number + 1, 1))
            numbers.append(place)
        axis += 1
    if len(lists) > 1:
        raise IndexError('there can be only one list of indices; for more, use gather_nd()')
    if lists and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise IndexError('numpy moves the axis of a list that is apart from a number to the front: index twice, first '
                         'by the one and then by the other')
    if cuts:
        axes, starts, ends, steps = map(list, zip(*cuts))
        node = node.slice(starts, ends, axes=axes, steps=steps)
    for axis, at, entry in lists:
        node = node.gather(entry, axis=axis)
        result[at:at + 1] = entry.get_shape()
    return node if list(node.get_shape()) == result else node.reshape(result)
