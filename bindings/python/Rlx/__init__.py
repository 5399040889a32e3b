# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What Rlx has in Python beyond its C interface.

    g = Rlx.Graph()
    x = g.input('x', 'f32', [8, 64])
    g.output('y', (x @ w + b).gelu())             # w, b: numpy arrays
    exe = Rlx.Device.get_default().compile(g)
    out = exe(np.ones((8, 64), np.float32))
    print(out.y[0], np.asarray(out['y']))         # no copy

Nodes have the operators + - * / // % ** @ abs() < <= > >= & | ^ ~ << >>. The
other side may be a number, a list, a numpy array or a tensor; it becomes a
constant of the node's data type. == and != compare which node it is, as for
every GObject, so that nodes can be keys and be found in lists: element by
element there are equal() and not_equal().

Nodes are indexed as arrays are: x[0], x[:, 1:-1], x[..., None], x[::-1],
x[[2, 0]], x[ids] for a node of integers. x.T, len(x), x.ndim and x.size are
what they are in numpy, and so are sum(), mean(), prod(), any(), all(), max()
and min() with axis= and keepdims=. Tensors are indexed by numpy.

The arguments of an operator are its operands and required attributes, then
operands that may be left out; attributes with a default are keyword arguments:
x.matmul(w, transpose_b=True), or options=Rlx.MatmulOptions(transpose_b=True).
axis= and keepdims= stand for axes= and keep_dims=. Where a data type is asked
for, 'f32', 'float32', numpy.float32 and Rlx.DataType.F32 are the same; members
of other enumerations have short names as well, such as 'channels-last'. A file
may be a path, and a dictionary of names or sizes is one of Python:
model.build({'batch': 1}).

Inputs, parameters and states take what constants take, converted to their data
type where that loses nothing but the precision of floats; dictionaries name
them. Tensors and graphs can be pickled.

`await exe.run_future([x])` works in any asyncio program. In one that has a GLib
main loop, such as one with windows, use PyGObject's event loop:
asyncio.run(main(), loop_factory=gi.events.GLibEventLoop), or, before Python
3.12, asyncio.set_event_loop_policy(gi.events.GLibEventLoopPolicy()).

Ctrl-C ends calls that block: they raise KeyboardInterrupt, and what they began is
cancelled. So does every other handler of a signal that raises an exception.

Rlx.ops has all operators as functions that compute at once, without a graph, as in
Rlx.ops.matmul(a, b); what they return stays on the device until somebody wants
its elements.

Rlx.Trainer is the loop around an executable that learns: batches in, losses out.

numpy is imported only when a program uses it with Rlx.
"""
from .apply import ops
from .export import WebExport
from .graph import Graph, Node, Port
from .running import Adapter, Device, Executable, Outputs
from .tensor import Tensor
from .training import Trainer

__all__ = ['Adapter', 'Device', 'Executable', 'Graph', 'Node', 'Outputs', 'Port', 'Tensor', 'Trainer', 'WebExport', 'ops']
