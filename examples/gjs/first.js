#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A matrix product and a ReLU, on the default GPU.

import Rlx from 'gi://Rlx?version=1.0';

const device = Rlx.Device.get_default();
const g = new Rlx.Graph();
const x = g.input('x', Rlx.DataType.F32, [2, 3]);
const w = g.constant(Rlx.Tensor.new_from_floats([3, 2], [1, 0, 0, 1, 1, 1]));
g.output('y', x.matmul(w).relu());
const exe = device.compile(g);
const [y] = exe.run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])], null);
print(y.to_string());
