# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""How a program fails if there is no driver; see test-programs.py."""
import sys

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import GLib, Rlx

try:
    Rlx.Device.get_default()
except GLib.Error as error:
    if error.matches(Rlx.DeviceError.quark(), Rlx.DeviceError.NO_ADAPTER):
        print(f'NO_ADAPTER: {error.message}')
        sys.exit(0)
sys.exit(1)
