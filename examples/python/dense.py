#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A layer of a neural network on numpy arrays, compared with numpy's own result."""
import math

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

rng = np.random.default_rng(1)
w = rng.standard_normal((64, 32), np.float32)
b = rng.standard_normal(32, np.float32)

g = Rlx.Graph()
x = g.input('x', np.float32, (8, 64))
g.output('y', (x @ w + b).gelu())
exe = Rlx.Device.get_default().compile(g)

a = rng.standard_normal((8, 64), np.float32)
y, = exe(a)
y = np.asarray(y)

z = a.astype(np.float64) @ w + b
expected = z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
# 64 products and their sum, each rounded to 24 bits, and GELU's own bound.
bound = 64 * 2 * 2.0 ** -24 * (np.abs(a) @ np.abs(w)) + 1e-5
assert (np.abs(y - expected) <= bound).all()
print(y.shape, 'as numpy has it')
