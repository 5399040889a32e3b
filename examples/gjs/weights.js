// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A layer of a network with weights from a file.
//
//     gjs -m weights.js weights.safetensors

import Gio from 'gi://Gio';
import Rlx from 'gi://Rlx?version=1.0';
import System from 'system';

const device = Rlx.Device.get_default();
const g = new Rlx.Graph();
const x = g.input('x', 'f32', [2, 3]);
const w = g.parameter('w', 'f32', [3, 2]);
const b = g.parameter('b', 'f32', [2]);
g.output('y', x.matmul(w).add(b).relu());
const exe = device.compile(g);
exe.set_parameters_from(Rlx.Weights.open(Gio.File.new_for_commandline_arg(System.programArgs[0])));
const [y] = exe.run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])]);
print(y.to_string());
