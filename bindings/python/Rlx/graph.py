# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Nodes, graphs and ports."""
import difflib
import math

from .indexing import index_node
from .operators import add_operators, add_reductions, add_symbols
from .values import Rlx, override, to_data_type, to_ints, to_tensor

# # Names that users of numpy or PyTorch will try, and their equivalents here.
_ELSEWHERE = {'astype': 'cast', 'clip': 'clamp', 'dot': 'matmul', 'permute': 'transpose', 'to': 'cast', 'view': 'reshape'}


@override
class Node(Rlx.Node):
    # # Otherwise numpy would treat the node as an element, and return an array of
    # nodes.
    __array_ufunc__ = None

    shape = property(lambda self: tuple(self.get_shape()), doc='The size of each dimension.')
    dtype = property(lambda self: self.get_data_type(), doc="The type of the value's elements, an Rlx.DataType.")
    ndim = property(lambda self: len(self.get_shape()), doc='The number of dimensions.')
    size = property(lambda self: math.prod(self.get_shape()), doc='The number of elements.')
    T = property(lambda self: self.transpose(), doc='The value with its dimensions reversed.')

    def __getattr__(self, name):
        message = f"nodes have no attribute '{name}'"
        near = [_ELSEWHERE[name]] if name in _ELSEWHERE else difflib.get_close_matches(name, Rlx.operators_list(), 1, 0.75)
        if near and not name.startswith('_'):
            message += f"; did you mean '{near[0]}'?"
        # With a name, Python would add its own guess.
        raise AttributeError(message)

    def __getitem__(self, index):
        return index_node(self, index)

    def __len__(self):
        if not self.shape:
            raise TypeError('a scalar has no length')
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # # Python would create a node for each row, and compare identities.
    __contains__ = None

    def __bool__(self):
        raise TypeError('a node has no value before a run, so it is neither true nor false; '
                        'to compare it with None, use "is"')

    def __array__(self, dtype=None, copy=None):
        raise TypeError('a node has no value before a run')

    def __repr__(self):
        return f'<Rlx.Node {self.to_string()}>'


add_reductions(Node)
add_operators(Node, Rlx.Node)
add_symbols(Node)


def _restore(text):
    return Rlx.Graph.new_from_text(text)


@override
class Graph(Rlx.Graph):
    def input(self, name, data_type, shape):
        return super().input(name, to_data_type(data_type), to_ints(shape))

    def parameter(self, name, data_type, shape):
        return super().parameter(name, to_data_type(data_type), to_ints(shape))

    def constant(self, tensor, data_type=None):
        """A node for a tensor, a numpy array, a list or a number."""
        return super().constant(to_tensor(tensor, None if data_type is None else to_data_type(data_type)))

    def scalar(self, data_type, value):
        return super().scalar(to_data_type(data_type), value)

    def state(self, name, initial, data_type=None):
        """A state whose initial value is a tensor, a numpy array, a list or a number."""
        return super().state(name, to_tensor(initial, None if data_type is None else to_data_type(data_type)))

    def gradient(self, loss, nodes, *, seed=None, allow_unused=False, recompute=False):
        """The gradient of a loss, or the sum of a list of losses, with respect to a node or each of a list or dictionary.

        A loss has one element, unless there is a seed, which it is multiplied by element by element. A list of losses
        takes a list of seeds. It is an error if the loss does not depend on a node, unless allow_unused is set; the
        gradient is then zero. With recompute, activations are recomputed instead of kept, which takes less memory.
        """
        several = isinstance(loss, (list, tuple))
        losses = list(loss) if several else [loss]
        seeds = [None] * len(losses) if seed is None else list(seed) if several else [seed]
        if not losses or len(seeds) != len(losses):
            raise ValueError(f'there are {len(losses)} losses and {len(seeds)} seeds')
        options = Rlx.GradientOptions(seed=seeds[0], allow_unused=allow_unused, recompute=recompute)
        for more, its_seed in zip(losses[1:], seeds[1:]):
            options.add_loss(more, its_seed)
        names = list(nodes) if isinstance(nodes, dict) else None
        single = isinstance(nodes, Rlx.Node)
        by = [nodes] if single else list(nodes.values()) if names is not None else list(nodes)
        gradients = super().gradient(losses[0], by, options)
        return gradients[0] if single else dict(zip(names, gradients)) if names is not None else gradients

    def optimize(self, loss, parameters, **options):
        """Makes each run update the parameters, which are states, to reduce the loss.

        The options are those of Rlx.OptimizerOptions: algorithm, an Rlx.Optimizer or its name in lower case, learning_rate, a
        number or a node, and so on.
        """
        algorithm = options.get('algorithm')
        if isinstance(algorithm, str):
            try:
                options['algorithm'] = getattr(Rlx.Optimizer, algorithm.upper())
            except AttributeError:
                raise ValueError(f'there is no optimizer "{algorithm}"') from None
        if isinstance(options.get('learning_rate'), Rlx.Node):
            options['rate'] = options.pop('learning_rate')
        by = parameters.values() if isinstance(parameters, dict) else parameters
        return super().optimize(loss, list(by), Rlx.OptimizerOptions(**options))

    def __reduce__(self):
        return _restore, (self.to_text(),)

    def __copy__(self):
        return _restore(self.to_text())

    def __deepcopy__(self, memo):
        return _restore(self.to_text())

    def __bool__(self):
        return True

    def __repr__(self):
        return f'<Rlx.Graph of {len(self)} nodes>'


add_operators(Graph, Rlx.Graph)


@override
class Port(Rlx.Port):
    shape = property(lambda self: tuple(self.get_shape()), doc='The size of each dimension.')
    dtype = property(lambda self: self.get_data_type(), doc='The type of the elements, an Rlx.DataType.')

    def __repr__(self):
        return f'<Rlx.Port {self.to_string()}>'
