// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Learns to read handwritten digits from scratch.
//
//     gjs -m mnist.js [--digits=N] [--epochs=N] [--batch=N] [--weights=FILE.safetensors] [--picture=FILE.png] [--test]
//
// The digits are those of MNIST, in its original files, which `./dev models mnist` fetches; use
// --folder=FOLDER for another location. With --test there is no training: the weights are read from the file.

import cairo from 'cairo';
import GLib from 'gi://GLib';
import Rlx from 'gi://Rlx?version=1.0';
import {exit, programArgs} from 'system';

const TEST_BATCH = 1000, RATE = 3e-3;
const SHAPES = {filter1: [8, 1, 5, 5], bias1: [8], filter2: [16, 8, 5, 5], bias2: [16], dense: [256, 10], bias3: [10]};

const models = GLib.getenv('RLX_MODELS') ?? GLib.build_filenamev([GLib.get_home_dir(), '.cache', 'rlx-wgpu', 'models']);
const settings = {folder: `${models}/mnist`, digits: 60000, epochs: 2, batch: 64, weights: '', picture: '', test: ''};
for (const argument of programArgs) {
    const [, name, value] = /^--(\w+)=?(.*)$/.exec(argument) ?? [];
    if (!(name in settings)) {
        printerr(`${argument}? There are ${Object.keys(settings).map(known => `--${known}`).join(', ')}`);
        exit(1);
    }
    settings[name] = typeof settings[name] === 'number' ? Number(value) : value || 'yes';
}
if (!GLib.file_test(settings.folder, GLib.FileTest.IS_DIR)) {
    printerr(`${settings.folder} is not there: ./dev models mnist fetches it`);
    exit(1);
}

// The same numbers each time.
let seed = 1;
function random() {
    seed = Math.imul(seed, 1664525) + 1013904223 >>> 0;
    return seed / 2 ** 32;
}

const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

// Pictures of 28 x 28 bytes, and their labels.
function readDigits(name, most) {
    const [, pictures] = GLib.file_get_contents(`${settings.folder}/${name}-images-idx3-ubyte`);
    const [, labels] = GLib.file_get_contents(`${settings.folder}/${name}-labels-idx1-ubyte`);
    return {pictures: pictures.subarray(16), labels: labels.subarray(8, 8 + most)};
}

// Ten numbers for each picture, the largest of which should be that of its digit.
function network(x, w) {
    const pool = {window: [2, 2], strides: [2, 2]};
    x = x.cast('f32').reshape(-1, 1, 28, 28).div(255);
    x = x.conv(w.filter1, w.bias1).relu().max_pool(pool);
    x = x.conv(w.filter2, w.bias2).relu().max_pool(pool);
    return x.reshape(-1, 256).matmul(w.dense).add(w.bias3);
}

function trainingGraph() {
    const g = new Rlx.Graph();
    const x = g.input('x', 'u8', [settings.batch, 28, 28]), labels = g.input('labels', 'u8', [settings.batch]);
    const rate = g.input('rate', 'f32', []);
    const w = {};
    for (const [name, shape] of Object.entries(SHAPES)) {
        // Biases start at 0, weights with random numbers that preserve the scale of activations.
        const size = shape.reduce((a, b) => a * b), inputs = shape.length > 2 ? size / shape[0] : shape[0];
        const values = Float32Array.from({length: size}, () => shape.length > 1 ? normal() * Math.sqrt(2 / inputs) : 0);
        w[name] = g.state(name, Rlx.Tensor.fromTypedArray(values, shape));
    }
    const loss = network(x, w).softmax_cross_entropy(labels);
    g.optimize(loss, w, {algorithm: 'adam', learning_rate: rate});
    g.output('loss', loss);
    return g;
}

function testGraph() {
    const g = new Rlx.Graph();
    const w = Object.fromEntries(Object.entries(SHAPES).map(([name, shape]) => [name, g.parameter(name, 'f32', shape)]));
    g.output('guess', network(g.input('x', 'u8', [TEST_BATCH, 28, 28]), w).arg_max(1));
    return g;
}

// All digits, reshuffled for each epoch; the learning rate decreases to zero.
function* batches({pictures, labels}) {
    const n = Math.floor(labels.length / settings.batch), order = Uint32Array.from(labels, (_, i) => i);
    for (let step = 0; step < settings.epochs * n; step++) {
        for (let i = order.length; step % n === 0 && i > 1; i--) {
            const other = Math.floor(random() * i);
            [order[i - 1], order[other]] = [order[other], order[i - 1]];
        }
        const x = new Uint8Array(settings.batch * 784), rows = order.subarray(step % n * settings.batch).subarray(0, settings.batch);
        rows.forEach((row, i) => x.set(pictures.subarray(row * 784, (row + 1) * 784), i * 784));
        yield {x, labels: Uint8Array.from(rows, row => labels[row]), rate: RATE * (1 + Math.cos(Math.PI * step / (settings.epochs * n))) / 2};
    }
}

function showProgress(step, loss, total) {
    if (step % 50 === 0 || step === total) {
        const done = Math.floor(40 * step / total);
        printerr(`[${'#'.repeat(done)}${'.'.repeat(40 - done)}] ${Math.floor(100 * step / total)} %  loss ${loss.toFixed(3)}`);
    }
}

// The losses above, on a logarithmic scale, and below misread digits: their labels, and what was read.
function draw(path, losses, {pictures, labels}, guesses) {
    const wrong = [...labels.keys()].filter(i => guesses[i] !== labels[i]).slice(0, 80);
    const surface = new cairo.ImageSurface(cairo.Format.RGB24, 576, 390);
    const context = new cairo.Context(surface);
    const fill = (shade, ...box) => {
        context.setSourceRGB(shade, shade, shade);
        context.rectangle(...box);
        context.fill();
    };
    fill(1, 0, 0, 576, 390);
    const height = loss => Math.min(Math.max(32 - 40 * Math.log10(Math.max(loss, 1e-9)), 0), 158);
    [1, .1, .01].forEach(level => fill(.85, 0, height(level), 576, 1));
    context.setSourceRGB(0, 0, 0);
    context.setLineWidth(1.5);
    for (let x = 0; x < 576 && losses.length; x++) {
        const part = losses.slice(Math.floor(x * losses.length / 576), Math.max(Math.ceil((x + 1) * losses.length / 576), 1));
        context.lineTo(x, height(part.reduce((a, b) => a + b) / part.length));
    }
    context.stroke();
    wrong.forEach((at, i) => {
        const left = i % 16 * 36 + 4, top = 160 + Math.floor(i / 16) * 46;
        for (let pixel = 0; pixel < 784; pixel++) {
            if (pictures[at * 784 + pixel])
                fill(1 - pictures[at * 784 + pixel] / 255, left + pixel % 28, top + Math.floor(pixel / 28), 1, 1);
        }
        [[labels[at], 4, .6], [guesses[at], 18, 0]].forEach(([digit, shift, shade]) => {
            context.setSourceRGB(shade, shade, shade);
            context.moveTo(left + shift, top + 41);
            context.showText(`${digit}`);
        });
    });
    surface.writeToPNG(path);
    context.$dispose();
}

const device = await Rlx.Device.get_default_async();
const test = await device.compile_async(testGraph());
let losses = [];
if (settings.test) {
    await test.set_parameters_from_async(Rlx.Weights.open(settings.weights));
} else {
    const digits = readDigits('train', settings.digits), start = GLib.get_monotonic_time();
    const trainer = new Rlx.Trainer(await device.compile_async(trainingGraph()));
    losses = await trainer.train_async(batches(digits), {
        progress: showProgress, total: settings.epochs * Math.floor(digits.labels.length / settings.batch),
    });
    printerr(`${losses.length} steps in ${Math.round((GLib.get_monotonic_time() - start) / 1e6)} s`);
    await test.set_parameters_async(trainer.read(Object.keys(SHAPES)));
    if (settings.weights)
        trainer.save(settings.weights, Object.keys(SHAPES));
}

const {pictures, labels} = readDigits('t10k', 10000), guesses = new Uint8Array(labels.length);
for (let i = 0; i < labels.length; i += TEST_BATCH) {
    const {guess} = await test.run_async({x: pictures.slice(i * 784, (i + TEST_BATCH) * 784)});
    guesses.set(guess.toTypedArray(), i);
}
if (settings.picture)
    draw(settings.picture, losses, {pictures, labels}, guesses);
print(`${(100 * guesses.filter((guess, i) => guess === labels[i]).length / labels.length).toFixed(2)}% of ${labels.length} other digits are read`);
