#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Writes down what is said: gjs -m transcribe.js FOLDER SOUND.wav
//
// FOLDER is where `./dev models moonshine-tiny` says that it put the model. The sound is mono, with 16,000 samples a second.
import GLib from 'gi://GLib';
import System from 'system';
import Rlx from 'gi://Rlx?version=1.0';

const LAYERS = 6, HEADS = 8, WIDTH = 36, START = 1, END = 2, RATE = 16000;
const load = path => GLib.file_get_contents(path)[1];

function readSound(path) {
    const bytes = load(path);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    // Four letters and a size stand before each part of the file; the samples are in the part “data”.
    let at = 12;
    while (new TextDecoder().decode(bytes.subarray(at, at + 4)) !== 'data')
        at += 8 + view.getUint32(at + 4, true);
    const samples = new Float32Array(view.getUint32(at + 4, true) / 2);
    return samples.map((_, i) => view.getInt16(at + 8 + 2 * i, true) / 32768);
}

// They are in the program that the model was published with.
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
    // One file has two decoders: for the first token, and for those that have others before them.
    const decoders = [false, true].map(later => {
        const model = Rlx.Model.open(`${path}/decoder_model_merged.onnx`);
        model.fix_input('use_cache_branch', [later]);
        return Rlx.Session.new(model, device, null);
    });

    const [heard] = encoder.run({input_values: Rlx.Tensor.fromTypedArray(samples, [1, samples.length])});
    const past = {};
    for (let i = 0; i < LAYERS; i++) {
        for (const part of ['decoder.key', 'decoder.value', 'encoder.key', 'encoder.value'])
            past[`past_key_values.${i}.${part}`] = Rlx.Tensor.fromTypedArray(new Float32Array(0), [1, HEADS, 0, WIDTH]);
    }
    let token = START;
    for (let i = 0; i < Math.floor(samples.length * 6 / RATE); i++) {
        const out = decoders[i > 0 ? 1 : 0].run({input_ids: [[token]], encoder_hidden_states: heard, ...past});
        const logits = out.logits.toTypedArray();
        token = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
        if (token === END)
            return;
        yield token;
        // What was heard stays the same.
        for (const name of Object.keys(past).filter(name => i === 0 || name.includes('decoder')))
            past[name] = out[name.replace('past_key_values', 'present')];
    }
}

const [folder, sound] = System.programArgs;
print(toText(readTokens(folder), [...transcribe(folder, readSound(sound))]));
