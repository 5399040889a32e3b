# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What Rlx offers in Python beyond its C interface.

    g = Rlx.Graph()
    x = g.input('x', 'f32', [8, 64])
    g.output('y', (x @ w + b).gelu())             # w, b: numpy arrays
    exe = Rlx.Device.get_default().compile(g)
    out = exe(np.ones((8, 64), np.float32))
    print(out.y[0], np.asarray(out['y']))         # no copy

Nodes have the operators + - * / // % ** @ abs() < <= > >= & | ^ ~ << >>. The
other side may be a number, a list, a numpy array or a tensor; it becomes a
constant of the node's data type. == and != compare identity, as for every
GObject, so nodes can be keys and members of lists; equal() and not_equal()
compare element by element.

Nodes are indexed like arrays: x[0], x[:, 1:-1], x[..., None], x[::-1],
x[[2, 0]], x[ids] for a node of integers. x.T, len(x), x.ndim and x.size work
as in numpy, and so do sum(), mean(), prod(), any(), all(), max() and min()
with axis= and keepdims=. Indexing a tensor gives numpy's result.

The arguments of an operator are its operands and required attributes, then
optional operands; attributes with a default are keyword arguments:
x.matmul(w, transpose_b=True), or options=Rlx.MatmulOptions(transpose_b=True).
axis= and keepdims= stand for axes= and keep_dims=. As a data type, 'f32',
'float32', numpy.float32 and Rlx.DataType.F32 are the same; members of other
enumerations also have short names, such as 'channels-last'. Files may be paths,
and dictionaries of names or sizes are Python's: model.build({'batch': 1}).

Inputs, parameters and states take the same values as constants, converted to
their data type if that loses nothing but the precision of floats; dictionaries
give them by name. Tensors and graphs can be pickled.

`await exe.run_future([x])` works in any asyncio program. In one that has a GLib
main loop, such as one with windows, use PyGObject's event loop:
asyncio.run(main(), loop_factory=gi.events.GLibEventLoop), or, before Python
3.12, asyncio.set_event_loop_policy(gi.events.GLibEventLoopPolicy()).

Ctrl-C interrupts blocking calls: they raise KeyboardInterrupt, and their work is
cancelled. Other signal handlers that raise an exception have the same effect.

Rlx.ops has all operators as functions that compute immediately, without a graph,
as in Rlx.ops.matmul(a, b). Their results stay on the device until their elements
are needed.

Rlx.Trainer is a training loop around an executable: batches in, losses out.

numpy is only imported when a program uses it with Rlx.
"""
from .apply import ops
from .export import WebExport
from .graph import Graph, Node, Port
from .running import Adapter, Device, Executable, Outputs
from .tensor import Tensor
from .training import Trainer

__all__ = ['Adapter', 'Device', 'Executable', 'Graph', 'Node', 'Outputs', 'Port', 'Tensor', 'Trainer', 'WebExport', 'ops']
