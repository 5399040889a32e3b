// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The Vala API: defaults, options, error domains, async, lists.

Rlx.Device? open_device () {
    try {
        return Rlx.Device.get_default ();
    } catch (Error e) {
        if (Environment.get_variable ("RLX_TEST_SKIP_NO_ADAPTER") == "1") {
            Test.skip (e.message);
        } else {
            Test.message ("no device: %s", e.message);
            Test.fail ();
        }
        return null;
    }
}

Rlx.Executable square_roots (Rlx.Device device) throws Error {
    var g = new Rlx.Graph ();
    g.output ("y", g.input ("x", Rlx.DataType.F32, { 4 }).sqrt ());
    return device.compile (g);
}

void test_run () {
    var device = open_device ();
    if (device == null)
        return;
    try {
        var exe = square_roots (device);
        var x = new Rlx.Tensor.from_floats ({ 4 }, { 1, 4, 9, 16 });
        Rlx.Tensor[] y = exe.run ({ x });
        assert (y.length == 1);
        assert (@"$(y[0])" == "[1, 2, 3, 4]");
        y = exe.run_named ({ "x" }, { x });
        assert (y.length == 1 && y[0].get_value (3) == 4);
    } catch (Error e) {
        assert_not_reached ();
    }
}

void test_defaults () {
    try {
        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 2, 3 });
        var w = g.constant (new Rlx.Tensor.scalar (Rlx.DataType.F32, 2));
        Rlx.Node[] parts = { x, x.mul (w) };
        assert (g.concat (parts, 1).get_shape ()[1] == 6);
        assert (x.layer_norm ().get_shape ().length == 2);
        assert (x.rms_norm ().get_inputs ()[1] == null);
        assert (x.matmul (x, new Rlx.MatmulOptions () { transpose_b = true }).get_shape ()[1] == 2);
        assert (x.clamp ().op == "clamp");
        var options = new Rlx.LayerNormOptions () { epsilon = 0.5, axes = new int64[] { 0, 1 } };
        assert (options.get_axes ().length == 2 && options.axes.equal (new int64[] { 0, 1 }));
        assert (x.layer_norm (null, null, options).get_attributes ().lookup_value ("epsilon", null).get_double () == 0.5);
        options.set_axes ({ 1 });
        assert (((int64[]) options.axes)[0] == 1 && options.axes.n_children () == 1);
        var image = g.input ("image", Rlx.DataType.F32, { 1, 2, 5, 5 });
        var filter = g.input ("filter", Rlx.DataType.F32, { 3, 2, 3, 3 });
        var padded = image.conv (filter, null, new Rlx.ConvOptions () { padding = new int64[] { 1, 1, 1, 1 } });
        assert (padded.get_shape ()[3] == 5 && image.conv (filter).get_shape ()[3] == 3);
        assert (g.add_op ("relu", { x }).length == 1);
        assert (x.data_type == Rlx.DataType.F32 && x.data_type.to_string () == "f32");
        for (uint i = 0; i < g.get_n_items (); i++)
            assert (((Rlx.Node) g.get_item (i)).get_graph () == g);
    } catch (Error e) {
        assert_not_reached ();
    }
}

int n_gone = 0;

void test_graphs_are_freed () {
    try {
        for (var i = 0; i < 10000; i++) {
            var g = new Rlx.Graph ();
            g.weak_ref ((object) => n_gone++);
            var x = g.input ("x", Rlx.DataType.F32, { 2 });
            var y = x.add (x).relu ();
            g.output ("y", y);
            // Only the node keeps it alive.
            g = null;
            assert (n_gone == i && y.get_graph ().check ());
        }
    } catch (Error e) {
        assert_not_reached ();
    }
    assert (n_gone == 10000);
}

void test_precision () {
    try {
        assert (new Rlx.Graph ().precision == Rlx.Precision.FULL);
        assert (new Rlx.Graph.from_text ("rlx 1\nprecision reduced\n").precision == Rlx.Precision.REDUCED);
        var options = new Rlx.CompileOptions () { precision = Rlx.Precision.REDUCED, timeout = 5.5, memory_limit = 1000 };
        assert (options.precision == Rlx.Precision.REDUCED && options.timeout == 5.5 && options.memory_limit == 1000);
        assert (!options.tuning && !options.profiling);
    } catch (Error e) {
        assert_not_reached ();
    }
}

void test_errors () {
    var caught = 0;
    var g = new Rlx.Graph ();
    try {
        var x = g.input ("x", Rlx.DataType.F32, { 2, 3 });
        var i = g.input ("i", Rlx.DataType.I32, { 3 });
        try {
            x.matmul (x);
        } catch (Rlx.GraphError.SHAPE e) {
            assert ("f32[2, 3]" in e.message);
            caught++;
        }
        try {
            x.add (i);
        } catch (Rlx.GraphError.DATA_TYPE e) {
            assert ("i32" in e.message);
            caught++;
        }
        try {
            g.add_op ("relo", { x });
        } catch (Rlx.GraphError.NOT_FOUND e) {
            assert ("relu" in e.message);
            caught++;
        }
        try {
            new Rlx.Tensor.from_floats ({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 1 });
        } catch (Rlx.GraphError.LIMIT e) {
            caught++;
        }
    } catch (Error e) {
        assert_not_reached ();
    }
    try {
        // All of them were reported, and the graph is unchanged.
        g.check ();
    } catch (Error e) {
        assert_not_reached ();
    }
    try {
        Rlx.Device.open ("no such adapter");
    } catch (Rlx.DeviceError.NOT_FOUND e) {
        caught++;
    } catch (Error e) {
        // Without any driver.
        assert (e is Rlx.DeviceError.NO_ADAPTER);
        caught++;
    }
    assert (caught == 5);
}

void test_bytes () {
    Rlx.DataType[] types = {
        F32, F16, I32, U32, I8, U8, BOOL, I64, U64
    };
    foreach (var type in types) {
        try {
            var data = new uint8[6 * (int) type.get_size ()];
            for (var i = 0; i < data.length; i++)
                data[i] = (uint8) (type == BOOL ? i % 2 : i * 37);
            var tensor = new Rlx.Tensor.from_bytes (type, { 2, 3 }, new Bytes (data));
            assert (tensor.data_type == type && tensor.n_dims == 2 && tensor.get_shape ()[1] == 3);
            assert (tensor.get_bytes ().compare (new Bytes (data)) == 0);
            var copy = new Rlx.Tensor.from_data (type, { 6 }, data);
            assert (copy.reshape ({ 2, -1 }).equal (tensor));
        } catch (Error e) {
            assert_not_reached ();
        }
    }
}

void test_on_device () {
    var device = open_device ();
    if (device == null)
        return;
    try {
        var exe = square_roots (device);
        var x = device.upload (new Rlx.Tensor.from_floats ({ 4 }, { 1, 16, 81, 256 }));
        assert (x.get_device () == device);
        var y = exe.run_on_device (exe.run_on_device ({ x }))[0];
        assert (y.get_device () == device && y.fetch ());
        assert (@"$y" == "[1, 2, 3, 4]");
        assert (device.apply ("add", { y, y }, null)[0].get_value (3) == 8);
    } catch (Error e) {
        Test.message ("%s", e.message);
        Test.fail ();
    }
}

Rlx.Executable with_state (Rlx.Device device, float step) throws Error {
    var g = new Rlx.Graph ();
    var s = g.state ("s", new Rlx.Tensor.from_floats ({ 2 }, { 1, 1 }));
    g.assign (s, s.add (g.constant (new Rlx.Tensor.from_floats ({ 1 }, { step }))));
    g.output ("y", s.neg ());
    return device.compile (g);
}

void test_states () {
    var device = open_device ();
    if (device == null)
        return;
    try {
        var first = with_state (device, 2), second = with_state (device, 3);
        var state = first.dup_state ("s");
        assert (state.get_data_type () == Rlx.DataType.F32 && state.get_device () == device);
        second.bind_state ("s", state);
        first.run ({});
        assert (@"$(second.run ({})[0])" == "[-3, -3]");
        assert (@"$(first.read_state ("s"))" == "[6, 6]");
        second.write_state ("s", new Rlx.Tensor.from_floats ({ 2 }, { 4, 5 }));
        assert (@"$(first.read_state ("s"))" == "[4, 5]");
    } catch (Error e) {
        Test.message ("%s", e.message);
        Test.fail ();
    }
}

void test_weights () {
    var device = open_device ();
    if (device == null)
        return;
    try {
        FileIOStream stream;
        var file = File.new_tmp ("rlx-XXXXXX.safetensors", out stream);
        stream.close ();
        Rlx.Weights.write_safetensors (file, { "scale" }, { new Rlx.Tensor.from_floats ({ 2 }, { 2, 3 }) });
        var weights = Rlx.Weights.open (file);
        assert (weights.format == Rlx.WeightsFormat.SAFETENSORS && weights.get_n_items () == 1);
        var entry = (Rlx.WeightsEntry) weights.get_item (0);
        assert (entry.name == "scale" && entry.size == 8);

        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 2 });
        g.output ("y", x.mul (g.parameter ("p", Rlx.DataType.F32, { 2 })));
        var exe = device.compile (g);
        exe.set_parameters_from (weights, new Variant.parsed ("{'p': 'scale'}"));
        assert (@"$(exe.run ({ new Rlx.Tensor.from_floats ({ 2 }, { 1, 10 }) })[0])" == "[2, 30]");
        try {
            exe.set_parameters_from (weights);
            assert_not_reached ();
        } catch (Rlx.WeightsError.NOT_FOUND e) {
        }
        file.delete ();
    } catch (Error e) {
        Test.message ("%s", e.message);
        Test.fail ();
    }
}

void test_lost () {
    var device = open_device ();
    if (device == null)
        return;
    var id = device.notify["lost"].connect (() => Test.message ("%s", device.lost_reason));
    assert (!device.lost);
    assert (device.lost_reason == null);
    device.disconnect (id);
}

async void run_and_cancel (Rlx.Device device) throws Error {
    var g = new Rlx.Graph ();
    var x = g.input ("x", Rlx.DataType.F32, { 4 });
    g.output ("root", x.sqrt ());
    g.output ("square", x.mul (x));
    g.output ("sum", x.reduce_sum ({ 0 }));
    var exe = yield device.compile_async (g);

    Rlx.Tensor[] inputs = { new Rlx.Tensor.from_floats ({ 4 }, { 1, 4, 9, 16 }) };
    var y = yield exe.run_async (inputs);
    assert (y.length == 3);
    assert (@"$(y[0]) $(y[1]) $(y[2])" == "[1, 2, 3, 4] [1, 16, 81, 256] 30");

    var cancellable = new Cancellable ();
    cancellable.cancel ();
    var cancelled = 0;
    try {
        yield exe.run_async (inputs, cancellable);
    } catch (IOError.CANCELLED e) {
        cancelled++;
    }
    try {
        yield device.compile_async (g, null, cancellable);
    } catch (IOError.CANCELLED e) {
        cancelled++;
    }
    try {
        yield device.calibrate_async (cancellable);
    } catch (IOError.CANCELLED e) {
        cancelled++;
    }
    assert (device.calibration == null && exe.estimate > 0);
    try {
        exe.run (inputs, cancellable);
    } catch (IOError.CANCELLED e) {
        cancelled++;
    }
    assert (cancelled == 4);

    try {
        yield exe.run_async ({});
        assert_not_reached ();
    } catch (Rlx.GraphError.INVALID_ARGUMENT e) {
    }
}

void test_async () {
    var device = open_device ();
    if (device == null)
        return;
    var loop = new MainLoop ();
    run_and_cancel.begin (device, (object, result) => {
        try {
            run_and_cancel.end (result);
        } catch (Error e) {
            Test.message ("%s", e.message);
            Test.fail ();
        }
        loop.quit ();
    });
    loop.run ();
}

int main (string[] args) {
    Test.init (ref args);
    Test.add_func ("/vala/run", test_run);
    Test.add_func ("/vala/defaults", test_defaults);
    Test.add_func ("/vala/precision", test_precision);
    Test.add_func ("/vala/graphs-are-freed", test_graphs_are_freed);
    Test.add_func ("/vala/errors", test_errors);
    Test.add_func ("/vala/bytes", test_bytes);
    Test.add_func ("/vala/on-device", test_on_device);
    Test.add_func ("/vala/states", test_states);
    Test.add_func ("/vala/weights", test_weights);
    Test.add_func ("/vala/lost", test_lost);
    Test.add_func ("/vala/async", test_async);
    return Test.run ();
}
