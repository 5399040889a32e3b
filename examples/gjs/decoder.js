// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Continues a sequence of tokens with a decoder that keeps its keys and values on the device. The weights are seeded, not
// learned.

import Rlx from 'gi://Rlx?version=1.0';

const [TOKENS, WIDTH, HEADS, KEY_HEADS, HEAD, LAYERS, CONTEXT] = [50, 32, 4, 2, 8, 2, 32];

// The same numbers in every language, scaled for a layer.
function seeded(seed, shape) {
    return Float32Array.from({length: shape.reduce((a, b) => a * b)}, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
        return (seed / 2 ** 30 - 1) * 2 / Math.sqrt(shape[0]);
    });
}

const g = new Rlx.Graph();
const token = g.input('token', 'i32', [1]), position = g.input('position', 'i32', []);

// A state that has a row more after each run; only that row is written.
function cache(name, row) {
    const zeros = new Float32Array(KEY_HEADS * CONTEXT * HEAD);
    const state = g.state(name, Rlx.Tensor.fromTypedArray(zeros, [1, KEY_HEADS, CONTEXT, HEAD]));
    const rows = state.write_at(row, position, {axis: 2});
    g.assign(state, rows);
    return rows;
}

function layer(h, i) {
    const weight = (name, rows, columns) => g.parameter(`${name}${i}`, 'f32', [rows, columns]);

    let n = h.rms_norm();
    const q = n.matmul(weight('q', WIDTH, HEADS * HEAD)).reshape(1, HEADS, 1, HEAD);
    const k = n.matmul(weight('k', WIDTH, KEY_HEADS * HEAD)).reshape(1, KEY_HEADS, 1, HEAD);
    const v = n.matmul(weight('v', WIDTH, KEY_HEADS * HEAD)).reshape(1, KEY_HEADS, 1, HEAD);
    const at = position.reshape(1, 1);
    const keys = cache(`keys${i}`, k.rope(at)), values = cache(`values${i}`, v);
    // Rows beyond the position have nothing to say yet.
    const seen = q.rope(at).attention(keys, values, {key_lengths: position.add(1).reshape(1)});
    h = h.add(seen.reshape(1, WIDTH).matmul(weight('o', HEADS * HEAD, WIDTH)));
    n = h.rms_norm();
    const gate = n.matmul(weight('gate', WIDTH, 3 * WIDTH)), up = n.matmul(weight('up', WIDTH, 3 * WIDTH));
    return h.add(gate.silu().mul(up).matmul(weight('down', 3 * WIDTH, WIDTH)));
}

const table = g.parameter('table', 'f32', [TOKENS, WIDTH]);
let h = table.gather(token, 0);
for (let i = 0; i < LAYERS; i++)
    h = layer(h, i);
g.output('next', h.rms_norm().matmul(table, {transpose_b: true}).arg_max(-1));

const device = await Rlx.Device.get_default_async();
const exe = await device.compile_async(g);
await exe.set_parameters_async(Object.fromEntries([...exe.parameters].map((port, i) => [port.name, seeded(i + 1, port.shape)])));
const row = [3, 14, 15];
for (let at = 0; at < 15; at++) {
    const {next} = await exe.run_async({token: [row[at]], position: at});
    if (at + 1 === row.length)
        row.push(next.get_value(0));
}
print(...row);
