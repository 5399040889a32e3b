// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs the example with a window, and uses it like a user: drive-window.js EXAMPLE

import GLib from 'gi://GLib';
import Gio from 'gi://Gio';
import Gtk from 'gi://Gtk?version=4.0';
import System from 'system';

function check(good, text) {
    if (good)
        return;
    printerr(text);
    System.exit(1);
}

// Yields whenever the window has to process events.
function* use() {
    while (!Gtk.Window.get_toplevels().get_n_items())
        yield;
    const window = Gtk.Window.get_toplevels().get_item(0);
    const picture = window.child.get_first_child(), bar = picture.get_next_sibling(), button = bar.get_next_sibling();
    check(button.label === 'Run', button.label);
    button.emit('clicked');
    const fractions = new Set();
    while (bar.text !== 'Done') {
        check(bar.text === null, bar.text);
        fractions.add(bar.fraction);
        yield;
    }
    check(picture.paintable, 'there is no picture');
    print([...fractions].some(fraction => fraction > 0 && fraction < 1) ? 'progress' : [...fractions]);
    button.emit('clicked');
    yield;
    check(button.label === 'Stop', button.label);
    button.emit('clicked');
    while (bar.text !== 'Stopped') {
        check(bar.text === null, bar.text);
        yield;
    }
    print('stopped');
    window.close();
}

Gtk.init();
const steps = use();
GLib.timeout_add(GLib.PRIORITY_DEFAULT, 20, () => !steps.next().done);
await import(Gio.File.new_for_path(ARGV[0]).get_uri());
