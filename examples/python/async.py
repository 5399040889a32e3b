#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compiles and runs without blocking the event loop, several runs at a time, and cancels one.

In a program with windows, give asyncio.run() PyGObject's event loop:
loop_factory=gi.events.GLibEventLoop.
"""
import asyncio

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Gio, GLib, Rlx


async def main():
    device = await Rlx.Device.get_default_future()
    g = Rlx.Graph()
    g.output('y', g.input('x', 'f32', [4]).sqrt())
    exe = await device.compile_future(g)

    runs = [exe.run_future([[1.0 * i, 4.0 * i, 9.0 * i, 16.0 * i]]) for i in (1, 4, 9)]
    for y, in await asyncio.gather(*runs):
        print(y)

    cancellable = Gio.Cancellable()
    run = asyncio.create_task(exe.run_future([[1.0, 4.0, 9.0, 16.0]], cancellable))
    cancellable.cancel()
    try:
        await run
    except GLib.Error as error:
        if not error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED):
            raise
        print('cancelled')


asyncio.run(main())
