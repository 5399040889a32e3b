// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A hundred runs, each on the result that the previous one left on the device, and one fetch.
//
//     gjs -m chain.js

import Rlx from 'gi://Rlx?version=1.0';

const device = Rlx.Device.get_default();
const g = new Rlx.Graph();
g.output('y', g.input('x', 'f32', [4]).mul(0.5).add(1));
const exe = device.compile(g);
let y = [0, 1, 2, 1000];
for (let i = 0; i < 100; i++)
    [y] = exe.run_on_device([y]);
await y.fetch_async();
print(y.to_string());
