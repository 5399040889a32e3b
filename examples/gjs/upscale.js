// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Doubles the size of a picture with a convolutional network: gjs -m upscale.js IN.ppm OUT.ppm
//
// Without arguments a generated picture is used, and the result is not saved. The weights are seeded, not learned.

import GLib from 'gi://GLib';
import Rlx from 'gi://Rlx?version=1.0';
import {programArgs} from 'system';

// The same numbers in every language, scaled for a layer.
function seeded(seed, shape) {
    const size = shape.reduce((a, b) => a * b), inputs = size / shape[0];
    return Float32Array.from({length: size}, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
        return (seed / 2 ** 30 - 1) / Math.sqrt(inputs);
    });
}

function readPicture(path) {
    const [, data] = GLib.file_get_contents(path);
    const [, width, height] = new TextDecoder('latin1').decode(data.slice(0, 64)).split(/\s+/).map(Number);
    return {width, height, data: data.slice(-width * height * 3)};
}

function drawPicture(height, width) {
    const data = new Uint8Array(height * width * 3);
    for (let row = 0; row < height; row++) {
        for (let column = 0; column < width; column++)
            data.set([row * 8, column * 8, (row ^ column) * 8], (row * width + column) * 3);
    }
    return {width, height, data};
}

const {width, height, data} = programArgs.length ? readPicture(programArgs[0]) : drawPicture(24, 32);

const g = new Rlx.Graph();
const x = g.input('picture', 'u8', [1, height, width, 3]).cast('f32').div(255);
let h = x;
[[16, 5], [16, 3], [12, 3]].forEach(([channels, side], i) => {
    const w = g.parameter(`w${i}`, 'f32', [channels, h.shape.at(-1), side, side]);
    h = h.conv(w, {padding: Array(4).fill(side >> 1), layout: 'channels-last'});
    if (i < 2)
        h = h.relu();
});
// Twelve channels are a square of 2 x 2 elements for each of three colours.
const details = h.transpose(0, 3, 1, 2).depth_to_space(2).transpose(0, 2, 3, 1);
const smooth = x.resize([2 * height, 2 * width], {axes: [1, 2], mode: 'linear'});
g.output('picture', smooth.add(details.div(10)).clamp({minimum: 0, maximum: 1}).mul(255).round_even().cast('u8'));

const device = await Rlx.Device.get_default_async();
const exe = await device.compile_async(g);
await exe.set_parameters_async(Object.fromEntries([...exe.parameters].map((port, i) => [port.name, seeded(i + 1, port.shape)])));
const {picture} = await exe.run_async({picture: data});
const large = picture.toTypedArray();
if (programArgs.length > 1) {
    const header = new TextEncoder().encode(`P6 ${2 * width} ${2 * height} 255\n`);
    GLib.file_set_contents(programArgs[1], Uint8Array.from([...header, ...large]));
}
const means = [0, 1, 2].map(colour => large.filter((_, i) => i % 3 === colour).reduce((a, b) => a + b) / (4 * width * height));
print(`${width} x ${height} to ${picture.shape[2]} x ${picture.shape[1]}, mean`, ...means.map(mean => mean.toFixed(1)));
