#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A GTK 4 window that blurs a picture, shows its progress, and can cancel it.

import Gdk from 'gi://Gdk?version=4.0';
import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import Gtk from 'gi://Gtk?version=4.0';
import Rlx from 'gi://Rlx?version=1.0';

const SIZE = 256, STEPS = 400;

// Many small steps, each of which spreads a pixel over its neighbours.
function blur() {
    const g = new Rlx.Graph();
    const weights = g.constant(Rlx.Tensor.fromTypedArray(new Float32Array(9).fill(1 / 9), [1, 1, 3, 3]));
    let y = g.input('picture', 'f32', [1, 1, SIZE, SIZE]);
    for (let i = 0; i < STEPS; i++)
        y = y.conv(weights, {padding: [1, 1, 1, 1]});
    g.output('picture', y.mul(255).clamp({minimum: 0, maximum: 255}).round_even().cast('u8'));
    return g;
}

Gtk.init();
const device = await Rlx.Device.get_default_async();
const executable = await device.compile_async(blur());

const picture = new Gtk.Picture({vexpand: true});
const bar = new Gtk.ProgressBar({show_text: true});
const button = new Gtk.Button({label: 'Run'});
const box = new Gtk.Box({orientation: Gtk.Orientation.VERTICAL, spacing: 6});
for (const child of [picture, bar, button])
    box.append(child);
// Notifications are emitted in the main loop that the run was started from: this one.
executable.bind_property('progress', bar, 'fraction', 0);

let cancellable = null;

async function run() {
    const points = new Float32Array(SIZE * SIZE).map((_, i) => i * 7919 % 101 ? 0 : 50);
    cancellable = new Gio.Cancellable();
    button.label = 'Stop';
    bar.text = null;
    try {
        const [blurred] = await executable.run_async([Rlx.Tensor.fromTypedArray(points, [1, 1, SIZE, SIZE])], cancellable);
        picture.paintable = Gdk.MemoryTexture.new(SIZE, SIZE, Gdk.MemoryFormat.G8, blurred.get_bytes(), SIZE);
        bar.text = 'Done';
    } catch (error) {
        bar.text = cancellable.is_cancelled() ? 'Stopped' : error.message;
    }
    button.label = 'Run';
    cancellable = null;
}

button.connect('clicked', () => cancellable ? cancellable.cancel() : run());
const loop = new GLib.MainLoop(null, false);
const window = new Gtk.Window({title: 'Blur', default_width: 320, default_height: 400, child: box});
window.connect('close-request', () => loop.quit());
window.present();
await loop.runAsync();
