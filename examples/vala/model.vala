// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs an ONNX file.
//
//     valac --pkg rlx-wgpu-1.0 model.vala && ./model model.onnx

int main (string[] args) {
    try {
        var session = Rlx.Session.open (File.new_for_path (args[1]), null);
        print (@"$(session.run ({ "x" }, { new Rlx.Tensor.from_floats ({ 1, 3 }, { 1, 2, 3 }) })[0])\n");
        // Any size: it is compiled for the second batch, too.
        print (@"$(session.run ({ "x" }, { new Rlx.Tensor.from_floats ({ 2, 3 }, { 1, 2, 3, 3, 2, 1 }) })[0])\n");
    } catch (Error e) {
        printerr ("%s\n", e.message);
        return 1;
    }
    return 0;
}
