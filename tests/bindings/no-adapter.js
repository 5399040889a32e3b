// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// How a program fails if there is no driver; see test-programs.py.

import Rlx from 'gi://Rlx?version=1.0';
import System from 'system';

try {
    Rlx.Device.get_default();
} catch (error) {
    if (error instanceof Rlx.DeviceError && error.matches(Rlx.DeviceError, Rlx.DeviceError.NO_ADAPTER)) {
        print(`NO_ADAPTER: ${error.message}`);
        System.exit(0);
    }
}
System.exit(1);
