// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// ONNX Runtime's results for a model, with its CPU provider: node ort-run.mjs CONFIGURATION, which is JSON with
//   modules   where it is installed
//   model     the file
//   runs      for each run, the inputs by name, each { type, shape, data }
//   carry     outputs that are inputs of the next run: { output: input }
// Prints the outputs of each run, as JSON in the same form.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const { modules, model, runs, carry } = JSON.parse(readFileSync(process.argv[2]));
const ort = createRequire(path.join(modules, 'x.js'))('onnxruntime-node');
const session = await ort.InferenceSession.create(model, { executionProviders: ['cpu'], logSeverityLevel: 3 });
const carried = {}, results = [];
for (const inputs of runs) {
  const feeds = {};
  for (const [name, { type, shape, data }] of Object.entries(inputs))
    feeds[name] = new ort.Tensor(type, type === 'int64' ? BigInt64Array.from(data, BigInt) : Float32Array.from(data), shape);
  const outputs = await session.run({ ...feeds, ...carried });
  for (const [from, to] of Object.entries(carry))
    carried[to] = outputs[from];
  results.push(Object.fromEntries(Object.entries(outputs).filter(([name]) => !(name in carry))
    .map(([name, tensor]) => [name, { shape: tensor.dims, data: Array.from(tensor.data) }])));
}
console.log(JSON.stringify(results));
