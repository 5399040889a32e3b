#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Transcribes speech: gjs -m transcribe.js FOLDER SOUND.wav
//
// FOLDER is the one printed by `./dev models moonshine-tiny`. The sound is mono, with 16,000 samples per second.
import GLib from 'gi://GLib';
import System from 'system';
import Rlx from 'gi://Rlx?version=1.0';

const START = 1, END = 2, RATE = 16000, LONGEST = 192;
const load = path => GLib.file_get_contents(path)[1];

function readSound(path) {
    const bytes = load(path);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    // Each part of the file starts with four letters and a size; the samples are in the part “data”.
    let at = 12;
    while (new TextDecoder().decode(bytes.subarray(at, at + 4)) !== 'data')
        at += 8 + view.getUint32(at + 4, true);
    const samples = new Float32Array(view.getUint32(at + 4, true) / 2);
    return samples.map((_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768);
}

// They are in the program that was published with the model.
function readTokens(folder) {
    const [base64] = new TextDecoder().decode(load(`${folder}/moonshine.min.js`)).match(/PHVuaz4K[A-Za-z0-9+/=]+/);
    return new TextDecoder().decode(GLib.base64_decode(base64)).split('\n');
}

function toText(tokens, ids) {
    const bytes = ids.flatMap(id => /^<0x..>$/.test(tokens[id])
        ? [parseInt(tokens[id].slice(3, 5), 16)] : [...new TextEncoder().encode(tokens[id])]);
    return new TextDecoder().decode(Uint8Array.from(bytes)).replaceAll('▁', ' ').trim();
}

function* transcribe(folder, samples) {
    const path = `${folder}/model/tiny/quantized`;
    const device = Rlx.Device.get_default();
    const encoder = Rlx.Session.open(`${path}/encoder_model.onnx`, device);
    // Its state for earlier tokens and the sound stays on the device.
    const decoder = Rlx.Session.open(`${path}/decoder_model_merged.onnx`, device);
    decoder.set_max_rows(LONGEST);
    decoder.add_states();

    const [heard] = encoder.run({input_values: Rlx.Tensor.fromTypedArray(samples, [1, samples.length])});
    let token = START;
    for (let i = 0; i < Math.min(LONGEST, Math.floor(samples.length * 6 / RATE)); i++) {
        const out = decoder.run({input_ids: [[token]], encoder_hidden_states: heard});
        const logits = out.logits.toTypedArray();
        token = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
        if (token === END)
            return;
        yield token;
    }
}

const [folder, sound] = System.programArgs;
print(toText(readTokens(folder), [...transcribe(folder, readSound(sound))]));
