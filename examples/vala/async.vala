// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compiles and runs without blocking the main loop, and cancels a run.

async void run () throws Error {
    var device = yield Rlx.Device.get_default_async ();
    var g = new Rlx.Graph ();
    var x = g.input ("x", Rlx.DataType.F32, { 4 });
    g.output ("y", x.sqrt ());
    var exe = yield device.compile_async (g);

    Rlx.Tensor[] inputs = { new Rlx.Tensor.from_floats ({ 4 }, { 1, 4, 9, 16 }) };
    var outputs = yield exe.run_async (inputs);
    print (@"$(outputs[0])\n");

    var cancellable = new Cancellable ();
    Idle.add (() => {
        cancellable.cancel ();
        return Source.REMOVE;
    }, Priority.HIGH);
    try {
        while (true)
            yield exe.run_async (inputs, cancellable);
    } catch (IOError.CANCELLED e) {
        print ("cancelled\n");
    }
}

int main () {
    var loop = new MainLoop ();
    var status = 0;
    run.begin ((object, result) => {
        try {
            run.end (result);
        } catch (Error e) {
            printerr ("%s\n", e.message);
            status = 1;
        }
        loop.quit ();
    });
    loop.run ();
    return status;
}
