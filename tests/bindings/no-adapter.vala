// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// How a program fails if there is no driver; see test-programs.py.

int main () {
    try {
        Rlx.Device.get_default ();
    } catch (Rlx.DeviceError.NO_ADAPTER e) {
        print ("NO_ADAPTER: %s\n", e.message);
        return 0;
    } catch (Error e) {
    }
    return 1;
}
