// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A layer of a network with weights from a file.
//
//     valac --pkg rlx-wgpu-1.0 weights.vala && ./weights weights.safetensors

int main (string[] args) {
    try {
        var device = Rlx.Device.get_default ();
        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 2, 3 });
        var w = g.parameter ("w", Rlx.DataType.F32, { 3, 2 });
        var b = g.parameter ("b", Rlx.DataType.F32, { 2 });
        g.output ("y", x.matmul (w).add (b).relu ());
        var exe = device.compile (g);
        exe.set_parameters_from (Rlx.Weights.open (File.new_for_commandline_arg (args[1])));
        var y = exe.run ({ new Rlx.Tensor.from_floats ({ 2, 3 }, { 1, 2, 3, -4, -5, -6 }) })[0];
        print (@"$(y)\n");
    } catch (Error e) {
        printerr ("%s\n", e.message);
        return 1;
    }
    return 0;
}
