// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A matrix product and a ReLU, on the default GPU.
//
//     valac --pkg rlx-wgpu-1.0 first.vala && ./first

int main () {
    try {
        var device = Rlx.Device.get_default ();
        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 2, 3 });
        var w = g.constant (new Rlx.Tensor.from_floats ({ 3, 2 }, { 1, 0, 0, 1, 1, 1 }));
        g.output ("y", x.matmul (w).relu ());
        var exe = device.compile (g);
        var y = exe.run ({ new Rlx.Tensor.from_floats ({ 2, 3 }, { 1, 2, 3, -4, -5, -6 }) })[0];
        print (@"$(y)\n");
    } catch (Error e) {
        printerr ("%s\n", e.message);
        return 1;
    }
    return 0;
}
