// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Compares sentences of several lengths with an encoder: the similarity of each two, from -1 to 1. The weights are
// seeded, not learned.

import Rlx from 'gi://Rlx?version=1.0';

const [TOKENS, LENGTH, WIDTH, HEADS, LAYERS] = [100, 8, 32, 4, 2];
const SENTENCES = [[5, 17, 42, 8], [5, 17, 42, 9, 3], [61, 2, 2, 77, 30, 12, 99]];

// The same numbers in every language, scaled for a layer.
function seeded(seed, shape) {
    return Float32Array.from({length: shape.reduce((a, b) => a * b)}, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
        return (seed / 2 ** 30 - 1) * 2 / Math.sqrt(shape[0]);
    });
}

const g = new Rlx.Graph();
const n = SENTENCES.length;
const tokens = g.input('tokens', 'i32', [n, LENGTH]), lengths = g.input('lengths', 'i32', [n]);

function layer(h, i) {
    const weight = (name, rows, columns) => g.parameter(`${name}${i}`, 'f32', [rows, columns]);
    const heads = name => h.matmul(weight(name, WIDTH, WIDTH)).reshape(n, LENGTH, HEADS, WIDTH / HEADS);

    const seen = heads('q').attention(heads('k'), heads('v'), {key_lengths: lengths, layout: 'sequence-first'});
    h = h.add(seen.reshape(n, LENGTH, WIDTH).matmul(weight('o', WIDTH, WIDTH))).layer_norm();
    return h.add(h.matmul(weight('up', WIDTH, 4 * WIDTH)).gelu().matmul(weight('down', 4 * WIDTH, WIDTH))).layer_norm();
}

let h = g.parameter('table', 'f32', [TOKENS, WIDTH]).gather(tokens, 0).add(g.parameter('positions', 'f32', [LENGTH, WIDTH]));
for (let i = 0; i < LAYERS; i++)
    h = layer(h, i);
// The mean of the actual tokens, normalised to length 1.
const there = lengths.reshape(n, 1).greater([...Array(LENGTH).keys()]).cast('f32').reshape(n, LENGTH, 1);
const sentences = h.mul(there).reduce_sum(1).lp_norm();
g.output('alike', sentences.matmul(sentences, {transpose_b: true}));

const device = await Rlx.Device.get_default_async();
const exe = await device.compile_async(g);
await exe.set_parameters_async(Object.fromEntries([...exe.parameters].map((port, i) => [port.name, seeded(i + 1, port.shape)])));
const padded = SENTENCES.map(sentence => [...sentence, ...Array(LENGTH - sentence.length).fill(0)]);
const {alike} = await exe.run_async({tokens: padded, lengths: SENTENCES.map(sentence => sentence.length)});
const values = [...alike.toTypedArray()].map(value => value.toFixed(3));
for (let i = 0; i < n; i++)
    print(...values.slice(i * n, (i + 1) * n));
