#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compiles and runs without blocking the main loop, with typed arrays, and cancels
// a run.

import Gio from 'gi://Gio';
import Rlx from 'gi://Rlx?version=1.0';

const device = await Rlx.Device.get_default_async();
const g = new Rlx.Graph();
g.output('y', g.input('x', Rlx.DataType.F32, [4]).sqrt());
const exe = await device.compile_async(g);

const x = Rlx.Tensor.fromTypedArray(new Float32Array([1, 4, 9, 16]));
const [y] = await exe.run_async([x]);
print(`[${y.toTypedArray().join(', ')}]`);

const cancellable = new Gio.Cancellable();
const run = exe.run_async([x], cancellable);
cancellable.cancel();
try {
    await run;
} catch (error) {
    if (!error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED))
        throw error;
    print('cancelled');
}
