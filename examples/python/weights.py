#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A layer of a network with weights from a file.

    python3 weights.py weights.safetensors
"""
import sys

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Gio, Rlx

device = Rlx.Device.get_default()
g = Rlx.Graph()
x = g.input('x', Rlx.DataType.F32, [2, 3])
w = g.parameter('w', Rlx.DataType.F32, [3, 2])
b = g.parameter('b', Rlx.DataType.F32, [2])
g.output('y', (x @ w + b).relu())
exe = device.compile(g)
exe.set_parameters_from(Rlx.Weights.open(Gio.File.new_for_commandline_arg(sys.argv[1])))
y, = exe.run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])])
print(y.to_string())
