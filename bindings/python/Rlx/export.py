# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Export for web browsers."""
from .running import add_blocking, add_futures
from .values import Rlx, override, to_tensor


@override
class WebExport(Rlx.WebExport):
    """A graph as a folder of files for a web page.

        export = Rlx.WebExport(graph, targets=['lavapipe', 'minimum'])
        export.set_parameters({'w': array})
        export.write('site')
    """

    def __init__(self, graph, **properties):
        super().__init__(graph=graph, **properties)

    def _nodes(self, op):
        return {node.get_name(): node for node in self.get_graph() if node.get_op() == op}

    def set_parameters(self, names, values=None):
        """Sets the values of parameters: set_parameters({'w': array}), or names and values in two lists."""
        if isinstance(names, dict):
            if values is not None:
                raise TypeError('the dictionary contains the values, so no others can be given')
            names, values = names.keys(), names.values()
        names, nodes = list(names), self._nodes('parameter')
        return super().set_parameters(names, [to_tensor(value, nodes[name].dtype if name in nodes and not isinstance(value, Rlx.Tensor) else None)
                                              for name, value in zip(names, values, strict=True)])

    def set_check(self, inputs, outputs, tolerance):
        """Stores an example that the page can check itself with: inputs, in a list or by name, and the expected outputs."""
        nodes = self._nodes('input')
        if isinstance(inputs, dict):
            if inputs.keys() != nodes.keys():
                raise TypeError(f'the inputs are {", ".join(nodes)}; {", ".join(map(str, inputs))} were given')
            inputs = [inputs[name] for name in nodes]
        inputs = [value if isinstance(value, Rlx.Tensor) else to_tensor(value, None if node is None else node.dtype)
                  for value, node in zip(inputs, [*nodes.values()] + [None] * len(inputs))]
        super().set_check(inputs, [to_tensor(value) for value in outputs], tolerance)


add_blocking(WebExport, Rlx.WebExport, 'WebExport')
add_futures(WebExport, 'WebExport')
