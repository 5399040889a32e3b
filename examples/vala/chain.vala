// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A hundred runs, each on the result that the previous one left on the device, and one fetch.
//
//     valac --pkg rlx-wgpu-1.0 chain.vala && ./chain

int main () {
    try {
        var device = Rlx.Device.get_default ();
        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 4 });
        g.output ("y", x.mul (g.scalar (Rlx.DataType.F32, 0.5)).add (g.scalar (Rlx.DataType.F32, 1)));
        var exe = device.compile (g);
        var y = new Rlx.Tensor.from_floats ({ 4 }, { 0, 1, 2, 1000 });
        for (int i = 0; i < 100; i++)
            y = exe.run_on_device ({ y })[0];
        y.fetch ();
        print (@"$(y)\n");
    } catch (Error e) {
        printerr ("%s\n", e.message);
        return 1;
    }
    return 0;
}
