# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the example with a window, and uses it like a user: drive-window.py EXAMPLE"""
import runpy
import sys

import gi

gi.require_version('Gtk', '4.0')
from gi.repository import GLib, Gtk


def use():
    """Yields whenever the window has to process events."""
    while not len(Gtk.Window.get_toplevels()):
        yield
    window = Gtk.Window.get_toplevels()[0]
    picture, bar, button = window.get_child()
    assert button.get_label() == 'Run'
    button.emit('clicked')
    fractions = set()
    while bar.get_text() != 'Done':
        assert bar.get_text() is None, bar.get_text()
        fractions.add(bar.get_fraction())
        yield
    assert picture.get_paintable(), 'there is no picture'
    print('progress' if any(0 < fraction < 1 for fraction in fractions) else sorted(fractions))
    button.emit('clicked')
    yield
    assert button.get_label() == 'Stop', button.get_label()
    button.emit('clicked')
    while bar.get_text() != 'Stopped':
        assert bar.get_text() is None, bar.get_text()
        yield
    print('stopped')
    window.close()


steps = use()


def step():
    return next(steps, 'end') != 'end'


GLib.timeout_add(20, step)
runpy.run_path(sys.argv[1], run_name='__main__')
