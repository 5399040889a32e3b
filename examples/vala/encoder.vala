// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compares sentences of several lengths with an encoder: the similarity of each two, from -1 to 1. The weights are
// seeded, not learned.
//
//     valac --pkg rlx-wgpu-1.0 -X -lm encoder.vala && ./encoder

const int TOKENS = 100;
const int N = 3;
const int LENGTH = 8;
const int WIDTH = 32;
const int HEADS = 4;
const int LAYERS = 2;

// The same numbers in every language, scaled for a layer.
Rlx.Tensor seeded (uint32 seed, int64[] shape) throws Error {
    var values = new float[shape[0] * shape[1]];
    for (var i = 0; i < values.length; i++) {
        seed = (seed * 1103515245 + 12345) & 0x7fffffff;
        values[i] = (float) ((seed / 1073741824.0 - 1) * 2 / Math.sqrt (shape[0]));
    }
    return new Rlx.Tensor.from_floats (shape, values);
}

Rlx.Node times (Rlx.Node h, string name, int64 rows, int64 columns) throws Error {
    return h.matmul (h.get_graph ().parameter (name, Rlx.DataType.F32, { rows, columns }));
}

Rlx.Node heads (Rlx.Node h, string name) throws Error {
    return times (h, name, WIDTH, WIDTH).reshape ({ N, LENGTH, HEADS, WIDTH / HEADS });
}

Rlx.Node layer (Rlx.Node input, Rlx.Node lengths, int i) throws Error {
    var options = new Rlx.AttentionOptions () { layout = Rlx.HeadLayout.SEQUENCE_FIRST };
    var seen = heads (input, @"q$i").attention (heads (input, @"k$i"), heads (input, @"v$i"), null, lengths, null, options);
    var h = input.add (times (seen.reshape ({ N, LENGTH, WIDTH }), @"o$i", WIDTH, WIDTH)).layer_norm ();
    var up = times (h, @"up$i", WIDTH, 4 * WIDTH).gelu ();
    return h.add (times (up, @"down$i", 4 * WIDTH, WIDTH)).layer_norm ();
}

async void compare () throws Error {
    var g = new Rlx.Graph ();
    var tokens = g.input ("tokens", Rlx.DataType.I32, { N, LENGTH });
    var lengths = g.input ("lengths", Rlx.DataType.I32, { N });
    var table = g.parameter ("table", Rlx.DataType.F32, { TOKENS, WIDTH });
    Rlx.Node h = table.gather (tokens, 0).add (g.parameter ("positions", Rlx.DataType.F32, { LENGTH, WIDTH }));
    for (var i = 0; i < LAYERS; i++)
        h = layer (h, lengths, i);
    // The mean of the actual tokens, normalised to length 1.
    var count = g.constant (new Rlx.Tensor.from_ints (Rlx.DataType.I32, { LENGTH }, { 0, 1, 2, 3, 4, 5, 6, 7 }));
    var there = lengths.reshape ({ N, 1 }).greater (count).cast (Rlx.DataType.F32).reshape ({ N, LENGTH, 1 });
    var sentences = h.mul (there).reduce_sum ({ 1 }).lp_norm ();
    g.output ("alike", sentences.matmul (sentences, new Rlx.MatmulOptions () { transpose_b = true }));

    var device = yield Rlx.Device.get_default_async ();
    var exe = yield device.compile_async (g);
    for (var i = 0; i < exe.parameters.get_n_items (); i++) {
        var port = (Rlx.Port) exe.parameters.get_item (i);
        yield exe.set_parameters_async ({ port.name, null }, { seeded (i + 1, port.get_shape ()) });
    }
    int64[] padded = { 5, 17, 42, 8, 0, 0, 0, 0, 5, 17, 42, 9, 3, 0, 0, 0, 61, 2, 2, 77, 30, 12, 99, 0 };
    var outputs = yield exe.run_async ({
        new Rlx.Tensor.from_ints (Rlx.DataType.I32, { N, LENGTH }, padded),
        new Rlx.Tensor.from_ints (Rlx.DataType.I32, { N }, { 4, 5, 7 })
    });
    for (var i = 0; i < N * N; i++)
        print ("%.3f%c", outputs[0].get_value (i), i % N == N - 1 ? '\n' : ' ');
}

int main () {
    var loop = new MainLoop ();
    var status = 0;
    compare.begin ((_, result) => {
        try {
            compare.end (result);
        } catch (Error error) {
            printerr ("%s\n", error.message);
            status = 1;
        }
        loop.quit ();
    });
    loop.run ();
    return status;
}
