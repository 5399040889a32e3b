#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A hundred runs, each on the result that the previous one left on the device, and one fetch.

    python3 chain.py
"""
import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

device = Rlx.Device.get_default()
g = Rlx.Graph()
g.output('y', g.input('x', 'f32', [4]) * 0.5 + 1)
exe = device.compile(g)
y = [0, 1, 2, 1000]
for _ in range(100):
    y, = exe.run_on_device([y])
y.fetch()
print(y.to_string())
