#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A GTK 4 window that blurs a picture, shows its progress, and can cancel it."""
import asyncio

import gi
import gi.events
import numpy

gi.require_version('Gtk', '4.0')
gi.require_version('Rlx', '1.0')
from gi.repository import Gdk, GLib, Gtk, Rlx

SIZE, STEPS = 256, 400


def blur():
    """Many small steps, each of which spreads a pixel over its neighbours."""
    g = Rlx.Graph()
    y = g.input('picture', 'f32', [1, 1, SIZE, SIZE])
    for _ in range(STEPS):
        y = y.conv(numpy.full((1, 1, 3, 3), 1 / 9, 'f4'), padding=[1, 1, 1, 1])
    g.output('picture', (y * 255).clamp(minimum=0, maximum=255).round_even().cast('u8'))
    return g


class Window(Gtk.Window):
    def __init__(self, executable):
        super().__init__(title='Blur', default_width=320, default_height=400)
        self.executable = executable
        self.picture = Gtk.Picture(vexpand=True)
        self.bar = Gtk.ProgressBar(show_text=True)
        self.button = Gtk.Button(label='Run')
        self.button.connect('clicked', self.clicked)
        self.task = None
        box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL, spacing=6)
        for child in self.picture, self.bar, self.button:
            box.append(child)
        self.set_child(box)
        # Notifications are emitted in the main loop that the run was started from: this one.
        executable.bind_property('progress', self.bar, 'fraction')

    def clicked(self, button):
        if self.task:
            self.task.cancel()
        else:
            self.task = asyncio.create_task(self.run())

    async def run(self):
        self.button.set_label('Stop')
        self.bar.set_text(None)
        points = numpy.random.default_rng(1).random((1, 1, SIZE, SIZE)) > 0.99
        try:
            blurred, = await self.executable.run_future([points.astype('f4') * 50])
            self.picture.set_paintable(Gdk.MemoryTexture.new(SIZE, SIZE, Gdk.MemoryFormat.G8, blurred.get_bytes(), SIZE))
            self.bar.set_text('Done')
        except asyncio.CancelledError:
            self.bar.set_text('Stopped')
        except GLib.Error as error:
            self.bar.set_text(error.message)
        self.button.set_label('Run')
        self.task = None


async def main():
    Gtk.init()
    device = await Rlx.Device.get_default_future()
    window = Window(await device.compile_future(blur()))
    closed = asyncio.get_running_loop().create_future()
    window.connect('close-request', lambda window: closed.set_result(None))
    window.present()
    await closed


asyncio.run(main(), loop_factory=gi.events.GLibEventLoop)
