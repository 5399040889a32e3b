// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compares the meanings of texts with that of the first one.
//
//     valac --pkg rlx-wgpu-1.0 embed.vala && ./embed FOLDER
//
// FOLDER contains a model as saved by sentence-transformers.

int main (string[] args) {
    string[] texts = { "The cat sleeps on the sofa.", "A kitten is napping on a couch.", "Interest rates rose again." };

    try {
        var device = Rlx.Device.get_default ();
        var encoder = Rlx.TextEncoder.open (File.new_for_commandline_arg (args[1]), device);
        var vectors = encoder.encode (texts).to_floats ();
        for (var i = 0; i < texts.length; i++) {
            double similarity = 0;
            for (var j = 0; j < encoder.width; j++)
                similarity += vectors[j] * vectors[i * encoder.width + j];
            print ("%.3f %s\n", similarity, texts[i]);
        }
    } catch (Error e) {
        printerr ("%s\n", e.message);
        return 1;
    }
    return 0;
}
