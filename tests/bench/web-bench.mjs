// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// One process of a contender in JavaScript: in a page, which imports it, or node web-bench.mjs CONFIGURATION, which is JSON with
//   runtime   rlx or ort                      base      the address of the server, which has all files
//   model     the ONNX model, for ort         weights   names of the files with its constants
//   tensors   inputs, of the manifest         seconds   how long to measure
//   modules   where packages are installed, for Node.js
// Sends the result to the server; node prints what all contenders print: one line of JSON.

const isNode = typeof globalThis.process?.versions?.node === 'string';

const get = async url => {
  const response = await fetch(url);
  if (!response.ok)
    throw new Error(`${url}: ${response.status}`);
  return response;
};
const getBytes = async url => new Uint8Array(await (await get(url)).arrayBuffer());

async function getInputs({base, tensors}) {
  const inputs = {};
  for (const {name, file, offset, length, type} of tensors) {
    const bytes = (await getBytes(`${base}data/${file}`)).slice(offset, offset + length);
    inputs[name] = new (type === 'i32' ? Int32Array : Float32Array)(bytes.buffer);
  }
  return inputs;
}

/** Fetches only the files that a load fetches: the chosen plan is only known afterwards. */
async function timeFetches(url, model) {
  const plan = await (await get(`${url}plan.json`)).json();
  const {uploads, states} = plan.plans.find(({target}) => target === model.target);
  const pieces = new Set([...uploads.map(([, piece]) => piece), ...states.flatMap(({initial}) => initial.map(([piece]) => piece))]);
  const begin = performance.now();
  await Promise.all([`${url}plan.json`, ...[...pieces].map(i => url + plan.pieces[i].file)].map(getBytes));
  return performance.now() - begin;
}

async function openRlx({base}, gpu) {
  const {Rlx} = await import(isNode ? await importable(`${base}export/rlx.js`) : `${base}export/rlx.js`);
  const url = `${base}export/`;
  let begin = performance.now();
  const model = await Rlx.load(url, {gpu});
  const load_ms = performance.now() - begin;
  begin = performance.now();
  const other = await Rlx.load(url, {gpu});
  const reload_ms = performance.now() - begin;
  other.destroy();
  return {
    run: async inputs => (await model.run(inputs)).y,
    more: {load_ms, reload_ms, fetch_ms: await timeFetches(url, model)},
  };
}

async function openOrt({base, model, weights, modules, tensors}) {
  const file = 'ort.webgpu.min.mjs', wasm = 'ort-wasm-simd-threaded.asyncify.wasm';
  const ort = await import(isNode ? await fileUrl(`${modules.ort}/${file}`) : `${base}ort/${file}`);
  ort.env.wasm.wasmPaths = isNode ? await fileUrl(`${modules.ort}/`) : `${base}ort/`;
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = (await getBytes(`${base}ort/${wasm}`)).buffer;
  const externalData = await Promise.all(weights.map(async path => ({path, data: await getBytes(`${base}data/${path}`)})));
  const session = await ort.InferenceSession.create(await getBytes(`${base}data/${model}`),
    {executionProviders: ['webgpu'], graphOptimizationLevel: 'all', externalData, logSeverityLevel: 3});
  return {
    run: async inputs => {
      const feeds = Object.fromEntries(tensors.map(({name, type, shape}) =>
        [name, new ort.Tensor(type === 'i32' ? 'int32' : 'float32', inputs[name], shape)]));
      return (await session.run(feeds)).y.data;
    },
    more: {},
  };
}

const fileUrl = async path => (await import('node:url')).pathToFileURL(path).href;
/** Node.js cannot import modules from servers. */
const importable = async url => `data:text/javascript;base64,${btoa(unescape(encodeURIComponent(await (await get(url)).text())))}`;

export async function measure(configuration, gpu) {
  const {run, more} = await (configuration.runtime === 'rlx' ? openRlx(configuration, gpu) : openOrt(configuration));
  const inputs = await getInputs(configuration);
  const first = await run(inputs);
  await fetch(`${configuration.base}output`, {method: 'POST', body: first.slice()});

  const times = [], {seconds} = configuration;
  let from = performance.now();
  for (let i = 0; i < 2 && performance.now() - from < 1000; i++)
    await run(inputs);
  from = performance.now();
  const before = isNode ? process.cpuUsage() : null;
  while (times.length < 3 || times.length < 2000 && performance.now() - from < 1000 * seconds * (times.length < 7 ? 4 : 1)) {
    const begin = performance.now();
    const y = await run(inputs);
    // The result must have been read back.
    if (y.length === 0)
      throw new Error('no result');
    times.push(performance.now() - begin);
  }
  if (before) {
    const {user, system} = process.cpuUsage(before);
    more.cpu_ms = (user + system) / 1000 / times.length;
  }
  times.sort((a, b) => a - b);
  return {ms: (times[times.length - 1 >> 1] + times[times.length >> 1]) / 2, runs: times.length, ...more};
}

if (isNode) {
  const configuration = JSON.parse(process.argv[2]);
  const {create, globals} = await import(await fileUrl(configuration.modules.webgpu));
  Object.assign(globalThis, globals);
  const gpu = create([]);
  // ONNX Runtime looks here.
  Object.defineProperty(globalThis, 'navigator', {value: {gpu, hardwareConcurrency: 1, userAgent: 'Node.js'}, configurable: true});
  console.log(JSON.stringify(await measure(configuration, gpu)));
  // Dawn's threads would keep running.
  process.exit(0);
}
