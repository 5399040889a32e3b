// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Steps of training with another library, for training.py: node training.mjs PEER MODULES WEBGPU JOB
//
// training-PEER.mjs has the differences; MODULES and WEBGPU are folders of modules; JOB is a folder with job.json and the
// numbers it names.

import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [peer, modules, webgpu, folder] = process.argv.slice(2);
const {create, globals} = await import(pathToFileURL(join(webgpu, 'node_modules/webgpu/index.js')));
Object.assign(globalThis, globals);
Object.defineProperty(navigator, 'gpu', {value: create([])});

const job = JSON.parse(readFileSync(join(folder, 'job.json')));
function read({file, shape, type}) {
    const {buffer} = new Uint8Array(readFileSync(join(folder, file)));
    return {values: type === 'i32' ? new Int32Array(buffer) : new Float32Array(buffer), shape};
}
const weights = Object.fromEntries(Object.entries(job.weights).map(([name, value]) => [name, read(value)]));
const {start} = await import(`./training-${peer}.mjs`);
const step = await start(modules, job, weights);

const results = {losses: [], walls: [], times: []};
for (const batch of job.batches) {
    const x = read(batch.x), labels = read(batch.labels);
    const wall = performance.now(), cpu = process.cpuUsage();
    results.losses.push(await step(x, labels));
    const {user, system} = process.cpuUsage(cpu);
    results.times.push((user + system) / 1e3);
    results.walls.push(performance.now() - wall);
}
console.log(JSON.stringify(results));
process.exit(0);
