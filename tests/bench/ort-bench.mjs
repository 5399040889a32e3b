// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// One process of ONNX Runtime: node ort-bench.mjs CONFIGURATION, which is JSON with
//   modules   where it is installed           provider  cpu or webgpu
//   folder    where the data is               model     its file
//   seconds   how long to measure
//   workload  of the manifest                 output    the file to write the result to
// Prints what all contenders print: one line of JSON.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const { modules, provider, folder, model, workload, seconds, output } = JSON.parse(process.argv[2]);

// Its binding only accepts f16 as bits, although newer versions of Node.js have a type for it.
delete globalThis.Float16Array;

function read(tensor) {
  const file = readFileSync(path.join(folder, tensor.file));
  const bytes = file.buffer.slice(file.byteOffset + tensor.offset, file.byteOffset + tensor.offset + tensor.length);
  switch (tensor.type) {
    case 'f16': return ['float16', new Uint16Array(bytes)];
    case 'i32': return ['int32', new Int32Array(bytes)];
    case 'i64': return ['int64', new BigInt64Array(bytes)];
    default: return ['float32', new Float32Array(bytes)];
  }
}

function toFloats(data) {
  if (data instanceof Float32Array)
    return data;
  const bits = new Uint16Array(data.buffer, data.byteOffset, data.length);
  return Float32Array.from(bits, half => {
    const exponent = half >> 10 & 31, mantissa = half & 1023;
    const value = exponent === 31 ? (mantissa ? NaN : Infinity)
      : exponent ? (mantissa + 1024) * 2 ** (exponent - 25) : mantissa * 2 ** -24;
    return half & 0x8000 ? -value : value;
  });
}

// Loading the library is part of its start; Node's own start is not.
const begin = performance.now();
const ort = createRequire(path.join(modules, 'x.js'))('onnxruntime-node');
const session = await ort.InferenceSession.create(model,
  { executionProviders: [provider], graphOptimizationLevel: 'all', logSeverityLevel: 3 });
const feeds = {};
for (const tensor of workload.tensors.filter(({ role }) => role === 'input')) {
  const [type, data] = read(tensor);
  feeds[tensor.name] = new ort.Tensor(type, data, tensor.shape);
}
const result = workload.result ?? session.outputNames[0];
const run = async () => (await session.run(feeds))[result];

const first = await run();
const start = performance.now() - begin;
if (output)
  writeFileSync(output, toFloats(first.data));

const times = [];
const more = { result };
if (workload.kind === 'run' || workload.kind === 'stay') {
  let from = performance.now();
  for (let i = 0; i < 2 && performance.now() - from < 1000; i++)
    await run();
  from = performance.now();
  const cpuBefore = process.cpuUsage();
  const goOn = () => times.length < 3 ||
    times.length < 2000 && performance.now() - from < 1000 * seconds * (times.length < 7 ? 4 : 1);
  while (goOn()) {
    const before = performance.now();
    const y = await run();
    // The result must have been read back.
    if (y.data.length === 0)
      throw new Error('no result');
    times.push(performance.now() - before);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  more.cpu_ms = (user + system) / 1000 / times.length;
  times.sort((a, b) => a - b);
} else {
  times.push(start);
}
const ms = (times[times.length - 1 >> 1] + times[times.length >> 1]) / 2;
console.log(JSON.stringify({ ms, runs: times.length, ...more }));
