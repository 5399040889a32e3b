#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A matrix product and a ReLU, on the default GPU."""
import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

device = Rlx.Device.get_default()
g = Rlx.Graph()
x = g.input('x', Rlx.DataType.F32, [2, 3])
w = g.constant(Rlx.Tensor.new_from_floats([3, 2], [1, 0, 0, 1, 1, 1]))
g.output('y', x.matmul(w).relu())
exe = device.compile(g)
y, = exe.run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])])
print(y.to_string())
