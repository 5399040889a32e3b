// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs a model exported by `rlx export --web` with WebGPU. An ES module without dependencies.
//
//   import {Rlx} from './rlx.js';
//   const model = await Rlx.load('.');
//   const {y} = await model.run({x: new Float32Array(6)});

/** The supported version of plan.json. */
const VERSION = 1;
/** The number of files that are fetched at a time. */
const FETCHES = 4;
/** The estimated milliseconds of work in a submit: browsers abort work that occupies the GPU for seconds. */
const SUBMIT_MS = 100;

/** Any failure except those of AbortSignal and fetch, and programming errors. */
export class RlxError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'RlxError';
  }
}

function fail(message, cause) {
  throw new RlxError(message, cause === undefined ? undefined : {cause});
}

// ---- numbers -------------------------------------------------------------------------------

const Half = globalThis.Float16Array ?? Uint16Array;

/** By data type: the array type of values, bits of an element on the device, and the array type there if it differs. */
const TYPES = {
  f32: {array: Float32Array, bits: 32},
  f16: {array: Half, bits: 16},
  i32: {array: Int32Array, bits: 32},
  u32: {array: Uint32Array, bits: 32},
  i8: {array: Int8Array, bits: 8},
  u8: {array: Uint8Array, bits: 8},
  bool: {array: Uint8Array, bits: 8},
  i64: {array: BigInt64Array, bits: 32, stored: Int32Array, fits: v => BigInt.asIntN(32, v) === v},
  u64: {array: BigUint64Array, bits: 32, stored: Uint32Array, fits: v => BigInt.asUintN(32, v) === v},
  i4: {array: Uint8Array, bits: 4},
  u4: {array: Uint8Array, bits: 4},
  i16: {array: Int16Array, bits: 16},
  u16: {array: Uint16Array, bits: 16},
  bf16: {array: Uint16Array, bits: 16},
  f8e4m3fn: {array: Uint8Array, bits: 8},
  f8e4m3fnuz: {array: Uint8Array, bits: 8},
  f8e5m2: {array: Uint8Array, bits: 8},
  f8e5m2fnuz: {array: Uint8Array, bits: 8},
  f8e8m0: {array: Uint8Array, bits: 8},
  f4e2m1: {array: Uint8Array, bits: 4},
  i2: {array: Uint8Array, bits: 2},
  u2: {array: Uint8Array, bits: 2},
};

const round4 = size => Math.ceil(size / 4) * 4;
const countElements = port => port.shape.reduce((n, size) => n * size, 1);
const describe = port => `${port.dataType}[${port.shape.join(', ')}]`;
const countBytes = port => Math.ceil(countElements(port) * TYPES[port.dataType].bits / 8);
/** The length of the array for a value: two 4-bit or four 2-bit elements share an array element. */
const arrayLength = port => TYPES[port.dataType].bits < 8 ? countBytes(port) : countElements(port);

/** Converts a value to the bytes that the device stores. */
function encode(port, what, value) {
  const type = TYPES[port.dataType];
  const bits = port.dataType === 'f16' && value instanceof Uint16Array;
  if (!(value instanceof type.array) && !bits) {
    const got = value === undefined || value === null ? `${value}` : value.constructor?.name ?? typeof value;
    fail(`${what} “${port.name}” is of type ${got}; ${describe(port)} takes ${type.array.name}`);
  }
  const length = arrayLength(port);
  if (value.length !== length)
    fail(`${what} “${port.name}” has ${value.length} elements; ${describe(port)} has ${length}`);
  if (type.stored === undefined)
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const stored = new type.stored(length);
  for (let i = 0; i < length; i++) {
    if (!type.fits(value[i]))
      fail(`element ${i} of “${port.name}” is ${value[i]}, which does not fit the device's 32-bit integers`);
    stored[i] = Number(value[i]);
  }
  return new Uint8Array(stored.buffer);
}

/** Converts bytes from the device to a value, which may share the buffer. */
function decode(port, buffer) {
  const type = TYPES[port.dataType];
  if (type.stored === undefined)
    return new type.array(buffer, 0, arrayLength(port));
  const stored = new type.stored(buffer, 0, arrayLength(port));
  return type.array.from(stored, BigInt);
}

/** Packs a weight into the layout that kernels read: panels of columns, each of them row-major. */
function pack(bytes, [width, nK, nN, strideK, strideN], elementSize, size) {
  const View = elementSize === 4 ? Uint32Array : elementSize === 2 ? Uint16Array : Uint8Array;
  const from = new View(bytes.slice().buffer), to = new View(size / elementSize);
  for (let first = 0; first < nN; first += width) {
    const n = Math.min(width, nN - first);
    for (let k = 0; k < nK; k++) {
      const source = k * strideK + first * strideN, target = first * nK + k * width;
      for (let i = 0; i < n; i++)
        to[target + i] = from[source + i * strideN];
    }
  }
  return new Uint8Array(to.buffer);
}

/** Converts numbers to the bits of half floats, rounding to nearest, ties to even. */
function toHalf(values) {
  if (globalThis.Float16Array)
    return new Uint16Array(Float16Array.from(values).buffer);
  const halves = new Uint16Array(values.length), float = new Float32Array(1), word = new Uint32Array(float.buffer);
  for (let i = 0; i < values.length; i++) {
    float[0] = values[i];
    const sign = word[0] >>> 16 & 0x8000, size = word[0] & 0x7fffffff;
    let half;
    if (size > 0x7f800000)
      half = 0x7e00;
    else if (size >= 0x477ff000)
      half = 0x7c00;
    else if (size >= 0x38800000)
      half = (size - 0x38000000 + 0xfff + (size >>> 13 & 1)) >>> 13;
    else {
      // Subnormal: adding 0.5 rounds it to a multiple of 2 ** -24.
      word[0] = size;
      float[0] += 0.5;
      half = word[0] - 0x3f000000;
    }
    halves[i] = sign | half;
  }
  return halves;
}

/** Converts half floats to numbers, given as a Float16Array or as bits. */
function fromHalf(halves) {
  if (!(halves instanceof Uint16Array))
    return Float32Array.from(halves);
  return Float32Array.from(halves, half => {
    const exponent = half >>> 10 & 31, fraction = half & 1023;
    const size = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
    return half & 0x8000 ? -size : size;
  });
}

// ---- devices -------------------------------------------------------------------------------

const FEATURES = ['shader-f16', 'subgroups'];
const LIMITS = [
  'maxBufferSize', 'maxStorageBufferBindingSize', 'maxUniformBufferBindingSize', 'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup', 'maxComputeWorkgroupSizeX',
  'maxComputeWorkgroupsPerDimension', 'minStorageBufferOffsetAlignment', 'minUniformBufferOffsetAlignment',
];

// As numbers, so that the module can be imported where there is no GPUBufferUsage.
const USAGE = {MAP_READ: 1, COPY_SRC: 4, COPY_DST: 8, UNIFORM: 64, STORAGE: 128};

const PROBE = `
@group(0) @binding(0) var<storage, read_write> y: array<u32, 64>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) { y[i] = i * 3u + 7u; }`;
const PROBE_SUBGROUPS = `enable subgroups;
@group(0) @binding(0) var<storage, read_write> y: array<u32, 64>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) n: u32) { y[i] = n; }`;

/** Runs a kernel and returns the 64 words that it writes. */
async function probe(device, code) {
  const y = device.createBuffer({size: 256, usage: USAGE.STORAGE | USAGE.COPY_SRC});
  const staging = device.createBuffer({size: 256, usage: USAGE.MAP_READ | USAGE.COPY_DST});
  try {
    const module = device.createShaderModule({code});
    const pipeline = await device.createComputePipelineAsync({layout: 'auto', compute: {module, entryPoint: 'main'}});
    const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({
      layout: pipeline.getBindGroupLayout(0), entries: [{binding: 0, resource: {buffer: y}}],
    }));
    pass.dispatchWorkgroups(1);
    pass.end();
    encoder.copyBufferToBuffer(y, 0, staging, 0, 256);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(1);
    return [...new Uint32Array(staging.getMappedRange())];
  } finally {
    y.destroy();
    staging.destroy();
  }
}

/** By device: a promise of what examine() found. */
const known = new WeakMap();
/** The device that models share by default: a promise, or null. */
let shared = null;

/** Examines a device. Some compute nothing, for lack of a driver; these are refused. */
function examine(device, gpu, adapter) {
  if (!known.has(device)) {
    known.set(device, (async () => {
      const info = device.adapterInfo ?? adapter?.info ?? {};
      const found = {device, gpu, info, subgroupSize: 0, lost: null};
      device.lost.then(({reason, message}) => { found.lost = [reason, message].filter(Boolean).join(': ') || 'unknown'; });
      // Kernels rely on a fixed subgroup size, so verify the one that the device reports.
      const told = device.features.has('subgroups') && info.subgroupMinSize === info.subgroupMaxSize ? info.subgroupMinSize : 0;
      const [words, sizes] = await Promise.all([probe(device, PROBE), told ? probe(device, PROBE_SUBGROUPS) : []]);
      if (words.some((word, i) => word !== i * 3 + 7))
        fail('the device does not compute: a kernel of one line gave a wrong result');
      if (sizes.every(size => size === told))
        found.subgroupSize = told;
      return found;
    })());
  }
  return known.get(device);
}

async function openDevice(gpu) {
  if (!gpu)
    fail('there is no WebGPU here (navigator.gpu); a page has it only when it comes by https or from this machine');
  const adapter = await gpu.requestAdapter({powerPreference: 'high-performance'});
  if (!adapter)
    fail('WebGPU has no adapter: no GPU that the browser allows, or no driver');
  const requiredLimits = {};
  for (const name of LIMITS) {
    if (adapter.limits[name] !== undefined)
      requiredLimits[name] = adapter.limits[name];
  }
  const requiredFeatures = FEATURES.filter(name => adapter.features.has(name));
  const device = await adapter.requestDevice({requiredFeatures, requiredLimits});
  return examine(device, gpu, adapter);
}

async function getDevice({device, gpu = globalThis.navigator?.gpu}) {
  if (device)
    return examine(device, gpu, null);
  // Concurrent calls share a device; a lost one is replaced.
  for (;;) {
    const mine = shared ??= openDevice(gpu);
    try {
      const found = await mine;
      if (found.lost === null)
        return found;
    } catch (error) {
      if (shared === mine)
        shared = null;
      throw error;
    }
    if (shared === mine)
      shared = null;
  }
}

/** Describes what a device lacks for a plan, as a list of strings. */
function findMissing({device, gpu, info, subgroupSize}, needs) {
  const missing = needs.features.filter(name => !device.features.has(name)).map(name => `the feature ${name}`);
  missing.push(...needs.languageFeatures.filter(name => !gpu?.wgslLanguageFeatures?.has(name))
    .map(name => `the WGSL feature ${name}`));
  if (needs.subgroupSize && device.features.has('subgroups') && needs.subgroupSize !== subgroupSize) {
    const {subgroupMinSize: min, subgroupMaxSize: max} = info;
    missing.push(`subgroups of ${needs.subgroupSize} (here of ${min === max ? min ?? 'unknown size' : `${min} to ${max}`})`);
  }
  for (const [name, value] of Object.entries(needs.limits)) {
    const has = device.limits[name];
    if (has === undefined || (name.startsWith('min') ? has > value : has < value))
      missing.push(`${name} ${value} (here ${has})`);
  }
  return missing;
}

// ---- files ---------------------------------------------------------------------------------

async function sha256(bytes) {
  if (!globalThis.crypto?.subtle)
    fail('there is no crypto.subtle here; a page has it only when it comes by https or from this machine');
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('');
}

class Source {
  constructor(url, {fetch: get = globalThis.fetch}) {
    const base = new URL(url, globalThis.location?.href ?? 'file:///');
    if (base.pathname.endsWith('/plan.json'))
      base.pathname = base.pathname.slice(0, -'plan.json'.length);
    else if (!base.pathname.endsWith('/'))
      base.pathname += '/';
    this.base = base;
    this.get = (...args) => get(...args);
  }

  async fetch(name, signal) {
    const response = await this.get(new URL(name, this.base).href, {signal});
    if (!response.ok)
      fail(`${name} could not be fetched: ${response.status} ${response.statusText}`);
    return response;
  }

  /** Fetches a file whose size is known; calls told(n) for every n bytes received. */
  async fetchPiece({file, size, sha256: expected}, told = () => {}, signal) {
    const response = await this.fetch(file, signal), reader = response.body.getReader();
    const bytes = new Uint8Array(size);
    let at = 0;
    for (;;) {
      const {done, value} = await reader.read();
      if (done)
        break;
      if (at + value.length > size) {
        await reader.cancel();
        fail(`${file} has more than ${size} bytes`);
      }
      bytes.set(value, at);
      at += value.length;
      told(value.length);
    }
    if (at < size)
      fail(`${file} has ${at} bytes, not ${size}: it is truncated`);
    if (await sha256(bytes) !== expected)
      fail(`${file} is not what was exported: its checksum is wrong`);
    return bytes;
  }

  async fetchPlan(signal) {
    const response = await this.fetch('plan.json', signal), text = await response.text();
    const head = /^\{"format":"rlx-web","version":(\d+),"sha256":"([0-9a-f]{64})",\n/.exec(text);
    if (!head)
      fail('plan.json is not a plan of rlx-wgpu');
    if (Number(head[1]) !== VERSION)
      fail(`plan.json is of version ${head[1]}, and this rlx.js is for version ${VERSION}: they have to come from one export`);
    const rest = text.slice(head[0].length);
    if (await sha256(new TextEncoder().encode(rest)) !== head[2])
      fail('plan.json is not what was exported: its checksum is wrong');
    let plan;
    try {
      plan = JSON.parse(`{${rest}`);
    } catch (error) {
      fail(`plan.json is not JSON: ${error.message}`, error);
    }
    checkPlan(plan);
    return plan;
  }
}

// ---- what is in plan.json ------------------------------------------------------------------

const isSize = value => Number.isSafeInteger(value) && value >= 0;
const isSizes = (value, length) => Array.isArray(value) && (length === undefined || value.length === length) && value.every(isSize);

/** Checks what WebGPU does not validate: a malicious plan may have a correct checksum. */
function checkPlan(file) {
  const expect = (ok, what) => ok || fail(`plan.json: ${what} is wrong`);
  const expectList = (value, what, check) => {
    expect(Array.isArray(value), what);
    value.forEach((item, i) => check(item, `${what}[${i}]`));
  };
  const expectPorts = (value, what) => expectList(value, what, (port, name) =>
    expect(typeof port?.name === 'string' && Object.hasOwn(TYPES, port.dataType) && isSizes(port.shape), name));
  for (const what of ['inputs', 'outputs', 'parameters', 'states'])
    expectPorts(file[what], what);
  expectList(file.shaders, 'shaders', (text, name) => expect(typeof text === 'string', name));
  expectList(file.pieces, 'pieces', (piece, name) =>
    expect(/^weights-[0-9a-f]{16}\.bin$/.test(piece?.file) && isSize(piece.size) && typeof piece.sha256 === 'string', name));
  const isPart = ([piece, at, size]) => piece < file.pieces.length && at + size <= file.pieces[piece].size && at % 4 + size % 4 === 0;
  const expectParts = (value, what, limit) => expectList(value, what, (part, name) =>
    expect(isSizes(part, 4) && isPart(part) && part[3] + part[2] <= limit, name));
  if (file.check !== undefined) {
    for (const what of ['inputs', 'outputs']) {
      expect(file.check[what]?.length === file[what].length, `check.${what}`);
      file.check[what].forEach((parts, i) => expectParts(parts, `check.${what}[${i}]`, round4(countBytes(file[what][i]))));
    }
    expect(typeof file.check.tolerance === 'number', 'check.tolerance');
  }

  expectList(file.plans, 'plans', (plan, name) => {
    const {needs} = plan;
    expect(typeof plan.target === 'string', `${name}.target`);
    expect(Array.isArray(needs?.features) && Array.isArray(needs.languageFeatures) && isSize(needs.subgroupSize) &&
           Object.values(needs.limits ?? {}).every(isSize), `${name}.needs`);
    expect(isSizes(plan.buffers), `${name}.buffers`);
    expect(isSize(plan.paramsSize) && isSize(plan.prologue), `${name}.prologue`);
    const isPlace = (value, size) => isSizes(value, 3) && value[2] === size &&
      value[1] % 4 === 0 && value[1] + round4(size) <= plan.buffers[value[0]];
    for (const what of ['inputs', 'outputs'])
      expect(plan[what]?.length === file[what].length && plan[what].every((place, i) => isPlace(place, countBytes(file[what][i]))), `${name}.${what}`);
    expect(plan.parameters?.length === file.parameters.length, `${name}.parameters`);
    plan.parameters.forEach(({at, packing}, i) => expect(
      packing === undefined ? isPlace(at, countBytes(file.parameters[i]))
        : isSizes(packing, 5) && packing[0] > 0 && isPlace(at, at[2]), `${name}.parameters[${i}]`));
    expect(plan.states?.length === file.states.length, `${name}.states`);
    plan.states.forEach(({at, initial}, i) => {
      expect(isPlace(at, countBytes(file.states[i])), `${name}.states[${i}]`);
      expectParts(initial, `${name}.states[${i}].initial`, round4(at[2]));
    });
    expectList(plan.uploads, `${name}.uploads`, (upload, what) =>
      expect(isSizes(upload, 5) && isPart(upload.slice(1)) && upload[4] + upload[3] <= plan.buffers[upload[0]], what));
    expectList(plan.copies, `${name}.copies`, (copy, what) =>
      expect(isSizes(copy, 5) && copy[0] < plan.buffers.length && copy[2] < plan.buffers.length, what));
    expectList(plan.steps, `${name}.steps`, (step, what) => {
      expect(step.shader < file.shaders.length && isSizes(step.grid, 3) && isSizes(step.params) && typeof step.ms === 'number', what);
      expect((step.params[0] + (step.params.length - 1) * 4) <= plan.paramsSize, `${what}.params`);
      expectList(step.bindings, `${what}.bindings`, ([kind, ...rest], binding) =>
        expect(kind === 'params' ? isSizes(rest, 2) : ['read', 'write'].includes(kind) && isSizes(rest, 3) && rest[0] < plan.buffers.length, binding));
    });
  });
  expect(file.plans.length > 0, 'plans');
}

// ---- models --------------------------------------------------------------------------------

/** Calls func(); returns its result and a promise of WebGPU errors that its synchronous part caused. */
function watch(device, func) {
  device.pushErrorScope('validation');
  device.pushErrorScope('internal');
  device.pushErrorScope('out-of-memory');
  let result;
  try {
    result = func();
  } finally {
    var errors = Promise.all([device.popErrorScope(), device.popErrorScope(), device.popErrorScope()]);
  }
  return [result, errors.then(([memory, internal, validation]) => memory ?? internal ?? validation)];
}

/** A promise that is also rejected when the signal aborts. */
function abortable(promise, signal) {
  if (!signal)
    return promise;
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, {once: true});
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

const {process} = globalThis;
/** The `webgpu` package for Node.js polls the device in a busy loop, which takes a processor from software drivers. */
const POLLS = process?.versions?.node !== undefined && !process.versions.electron && globalThis.Deno === undefined;
let nWaiting = 0, since = 0, sleeping = false;

/** Sleeps between two iterations of that loop, for a sixteenth of the time waited so far. */
function sleep() {
  sleeping = nWaiting > 0;
  if (sleeping) {
    const ms = (performance.now() - since) / 16;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.min(Math.max(ms, 0.05), 1));
    setImmediate(sleep);
  }
}

/** Returns the promise; until it is settled, sleeps between polls. */
function wait(promise) {
  if (!POLLS)
    return promise;
  nWaiting++;
  since = performance.now();
  if (!sleeping)
    setImmediate(sleep);
  sleeping = true;
  return promise.finally(() => { nWaiting--; });
}

export class Model {
  #options;
  #source;
  #file;
  #found = null;
  #plan;
  #buffers = [];
  #params;
  #commands;          // by step: pipeline, bind group, grid, milliseconds
  #initial;           // by state: initial bytes, or null for zeros
  #given;             // by parameter: whether it has a value
  #stale;             // the prologue has to be run again
  #staging = [];      // unused buffers
  #readSize;
  #loading = Promise.resolve();
  #destroyed = false;

  constructor(source, file, options) {
    this.#source = source;
    this.#file = file;
    this.#options = options;
  }

  /** Names, data types and shapes. */
  get inputs() { return this.#file.inputs; }
  get outputs() { return this.#file.outputs; }
  get parameters() { return this.#file.parameters; }
  get states() { return this.#file.states; }
  /** The target of the selected plan. */
  get target() { return this.#plan.target; }
  get device() { return this.#found.device; }
  get adapterInfo() { return this.#found.info; }
  /** Why the device was lost, or null. */
  get lost() { return this.#found.lost; }
  /** Bytes on the device. */
  get size() { return this.#plan.buffers.reduce((sum, size) => sum + size, this.#plan.paramsSize); }
  get hasCheck() { return this.#file.check !== undefined; }

  static async load(url, options = {}) {
    options.signal?.throwIfAborted();
    const source = new Source(url, options);
    // Open it while the plan is fetched; errors are reported when it is used.
    getDevice(options).catch(() => {});
    const file = await abortable(source.fetchPlan(options.signal), options.signal);
    const model = new Model(source, file, options);
    await model.#start(options.signal);
    return model;
  }

  // ---- loading

  #choose() {
    const told = [];
    for (const plan of this.#file.plans) {
      if (this.#options.target !== undefined && this.#options.target !== plan.target)
        continue;
      const missing = findMissing(this.#found, plan.needs);
      if (missing.length === 0)
        return plan;
      told.push(`the plan “${plan.target}” needs ${missing.join(', ')}`);
    }
    if (told.length === 0)
      fail(`there is no plan “${this.#options.target}”; there are ${this.#file.plans.map(plan => plan.target).join(', ')}`);
    const {vendor, architecture, description} = this.#found.info;
    return fail(`no plan fits the adapter “${[vendor, architecture, description].filter(Boolean).join(' ')}”: ${told.join('; ')}`);
  }

  /** Prepares the model. Calls must not overlap, even if an earlier one was aborted, as they would mix their results. */
  #start(signal) {
    this.#loading = this.#loading.catch(() => {}).then(() => this.#prepare(signal));
    return abortable(this.#loading, signal).catch(error => {
      this.destroy();
      throw error;
    });
  }

  async #prepare(signal) {
    signal?.throwIfAborted();
    this.destroy();
    this.#destroyed = false;
    this.#found = await getDevice(this.#options);
    this.#check();
    this.#plan = this.#choose();
    const {device} = this.#found, plan = this.#plan;
    const [, errors] = watch(device, () => {
      const usage = USAGE.STORAGE | USAGE.COPY_SRC | USAGE.COPY_DST;
      this.#buffers = plan.buffers.map(size => device.createBuffer({size: round4(size), usage}));
      this.#params = device.createBuffer({size: round4(plan.paramsSize), usage: USAGE.UNIFORM | USAGE.COPY_DST});
    });
    const error = await errors;
    if (error)
      fail(`no memory for ${this.size} bytes: ${error.message}`);

    this.#readSize = plan.outputs.reduce((sum, place) => sum + round4(place[2]), 0);
    this.#given = plan.parameters.map(parameter => parameter.given === true);
    this.#stale = plan.prologue > 0;
    this.#initial = plan.states.map(({at, initial}) => initial.length > 0 ? new Uint8Array(round4(at[2])) : null);
    const progress = {loaded: 0, total: 0, compiled: 0, kernels: 0};
    const told = () => this.#options.onprogress?.({...progress});
    await Promise.all([this.#compile(progress, told), this.#fetchWeights(progress, told, signal)]);
    this.#initial.forEach((bytes, i) => bytes && this.#write(plan.states[i].at, bytes));
    this.#check();
  }

  async #compile(progress, told) {
    const {device} = this.#found, plan = this.#plan, layouts = new Map(), pipelines = new Map();
    const types = {read: 'read-only-storage', write: 'storage', params: 'uniform'};
    const words = new Uint32Array(round4(plan.paramsSize) / 4);
    for (const {params: [at, ...values]} of plan.steps)
      words.set(values, at / 4);
    device.queue.writeBuffer(this.#params, 0, words);

    const jobs = plan.steps.map(step => {
      const kinds = step.bindings.map(([kind]) => kind), key = kinds.join();
      if (!layouts.has(key)) {
        layouts.set(key, device.createBindGroupLayout({
          entries: kinds.map((kind, binding) => ({binding, visibility: 4, buffer: {type: types[kind]}})),
        }));
      }
      const layout = layouts.get(key), name = `${step.shader},${key}`;
      if (!pipelines.has(name)) {
        progress.kernels++;
        const module = device.createShaderModule({code: this.#file.shaders[step.shader], label: step.kernel});
        pipelines.set(name, device.createComputePipelineAsync({
          label: step.kernel, layout: device.createPipelineLayout({bindGroupLayouts: [layout]}),
          compute: {module, entryPoint: 'main'},
        }).then(pipeline => {
          progress.compiled++;
          told();
          return pipeline;
        }, error => fail(`${step.op} “${step.label}”: its kernel ${step.kernel} was refused: ${error.message}`, error)));
      }
      return [step, layout, pipelines.get(name)];
    });
    const ready = await Promise.all(jobs.map(([, , pipeline]) => pipeline));

    // Steps with the same bindings share a group.
    const groups = new Map();
    const [commands, errors] = watch(device, () => jobs.map(([step, layout], i) => {
      const key = JSON.stringify(step.bindings);
      if (!groups.has(key)) {
        groups.set(key, device.createBindGroup({
          layout, entries: step.bindings.map((entry, binding) => {
            const [offset, size] = entry.slice(-2);
            return {binding, resource: {buffer: entry[0] === 'params' ? this.#params : this.#buffers[entry[1]], offset, size}};
          }),
        }));
      }
      return {pipeline: ready[i], group: groups.get(key), grid: step.grid, ms: step.ms};
    }));
    const error = await errors;
    if (error)
      fail(`plan.json does not fit its kernels: ${error.message}`);
    this.#commands = commands;
  }

  async #fetchWeights(progress, told, signal) {
    const {pieces} = this.#file, jobs = new Map();
    const add = (piece, job) => jobs.set(piece, [...jobs.get(piece) ?? [], job]);
    for (const [buffer, piece, at, size, offset] of this.#plan.uploads)
      add(piece, bytes => this.#found.device.queue.writeBuffer(this.#buffers[buffer], offset, bytes, at, size));
    this.#plan.states.forEach(({initial}, i) => {
      for (const [piece, at, size, offset] of initial)
        add(piece, bytes => this.#initial[i].set(bytes.subarray(at, at + size), offset));
    });
    for (const piece of jobs.keys())
      progress.total += pieces[piece].size;
    const waiting = [...jobs];
    await Promise.all(Array.from({length: FETCHES}, async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const bytes = await this.#source.fetchPiece(pieces[next[0]], n => {
          progress.loaded += n;
          told();
        }, signal);
        this.#check();
        next[1].forEach(job => job(bytes));
      }
    }));
  }

  // ---- running

  #check() {
    if (this.#destroyed)
      fail('the model was destroyed');
    if (this.#found.lost !== null)
      fail(`the device was lost (${this.#found.lost}); reload() begins anew with another`);
  }

  #write([buffer, offset, size], bytes) {
    if (size === 0)
      return;
    let whole = bytes;
    if (bytes.length % 4 !== 0) {
      whole = new Uint8Array(round4(bytes.length));
      whole.set(bytes);
    }
    this.#found.device.queue.writeBuffer(this.#buffers[buffer], offset, whole);
  }

  #encode(first, end, commands) {
    const {device} = this.#found;
    let encoder = device.createCommandEncoder(), pass = null, ms = 0;
    for (let i = first; i < end; i++) {
      const command = this.#commands[i];
      if (ms > 0 && ms + command.ms > SUBMIT_MS) {
        pass.end();
        commands.push(encoder.finish());
        encoder = device.createCommandEncoder();
        pass = null;
        ms = 0;
      }
      pass ??= encoder.beginComputePass();
      pass.setPipeline(command.pipeline);
      pass.setBindGroup(0, command.group);
      pass.dispatchWorkgroups(...command.grid);
      ms += command.ms;
    }
    pass?.end();
    return encoder;
  }

  /** Appends copies of places to mappable memory to the encoder, submits everything and reads the values. */
  async #read(places, ports, encoder, commands, errors, signal) {
    const {device} = this.#found;
    const size = places.reduce((sum, place) => sum + round4(place[2]), 0);
    const pooled = size === this.#readSize;
    let staging = null;
    if (size > 0) {
      staging = (pooled && this.#staging.pop()) || device.createBuffer({size, usage: USAGE.MAP_READ | USAGE.COPY_DST});
      let at = 0;
      for (const [buffer, offset, length] of places) {
        if (length > 0)
          encoder.copyBufferToBuffer(this.#buffers[buffer], offset, staging, at, round4(length));
        at += round4(length);
      }
    }
    commands.push(encoder.finish());
    for (const command of commands)
      device.queue.submit([command]);
    const scopes = errors();

    const finish = async () => {
      try {
        await wait(staging ? staging.mapAsync(1) : device.queue.onSubmittedWorkDone());
      } catch (error) {
        await Promise.resolve();
        this.#check();
        fail(`the run failed: ${(await scopes)?.message ?? error.message}`, error);
      }
      const error = await scopes;
      this.#check();
      if (error)
        fail(`the run failed: ${error.message}`);
      const range = staging?.getMappedRange() ?? new ArrayBuffer(0);
      let at = 0;
      const values = places.map((place, i) => {
        const value = decode(ports[i], range.slice(at, at + round4(place[2])));
        at += round4(place[2]);
        return value;
      });
      staging?.unmap();
      if (staging && pooled)
        this.#staging.push(staging);
      else
        staging?.destroy();
      return values;
    };
    return abortable(finish(), signal);
  }

  #watch() {
    const {device} = this.#found;
    device.pushErrorScope('validation');
    device.pushErrorScope('out-of-memory');
    return async () => {
      const errors = await Promise.all([device.popErrorScope(), device.popErrorScope()]);
      return errors[0] ?? errors[1];
    };
  }

  #find(ports, what, name) {
    const index = ports.findIndex(port => port.name === name);
    return index >= 0 ? index : fail(`the model has no ${what} “${name}”${ports.length ? `; there are ${ports.map(port => port.name).join(', ')}` : ''}`);
  }

  /** Runs the graph with arrays by name, and returns arrays by name. Runs are queued in the order of the calls. */
  async run(inputs = {}, {signal} = {}) {
    signal?.throwIfAborted();
    this.#check();
    const plan = this.#plan;
    for (const name of Object.keys(inputs))
      this.#find(this.inputs, 'input', name);
    const bytes = this.inputs.map(port => Object.hasOwn(inputs, port.name) ? encode(port, 'input', inputs[port.name])
      : fail(`input “${port.name}” was not given`));
    const unset = this.#given.indexOf(false);
    if (unset >= 0)
      fail(`parameter “${this.parameters[unset].name}” has no value: setParameters() comes before the first run`);

    const errors = this.#watch(), commands = [];
    // The prologue may share memory with inputs, so it is submitted before these are written.
    if (this.#stale) {
      commands.push(this.#encode(0, plan.prologue, commands).finish());
      commands.splice(0).forEach(command => this.#found.device.queue.submit([command]));
      this.#stale = false;
    }
    bytes.forEach((value, i) => this.#write(plan.inputs[i], value));
    const encoder = this.#encode(plan.prologue, plan.steps.length, commands);
    for (const [from, fromOffset, to, toOffset, size] of plan.copies)
      encoder.copyBufferToBuffer(this.#buffers[from], fromOffset, this.#buffers[to], toOffset, size);
    const values = await this.#read(plan.outputs, this.outputs, encoder, commands, errors, signal);
    return Object.fromEntries(values.map((value, i) => [this.outputs[i].name, value]));
  }

  /** Sets parameters by name; runs that were started before still use the old values. */
  setParameters(values) {
    this.#check();
    const writes = Object.entries(values).map(([name, value]) => {
      const index = this.#find(this.parameters, 'parameter', name), port = this.parameters[index];
      const {at, packing} = this.#plan.parameters[index], bytes = encode(port, 'parameter', value);
      return [index, at, packing ? pack(bytes, packing, TYPES[port.dataType].bits / 8, at[2]) : bytes];
    });
    for (const [index, at, bytes] of writes) {
      this.#write(at, bytes);
      this.#given[index] = true;
      this.#stale = this.#plan.prologue > 0;
    }
  }

  async readState(name) {
    this.#check();
    const index = this.#find(this.states, 'state', name), errors = this.#watch();
    const encoder = this.#found.device.createCommandEncoder();
    return (await this.#read([this.#plan.states[index].at], [this.states[index]], encoder, [], errors))[0];
  }

  writeState(name, value) {
    this.#check();
    const index = this.#find(this.states, 'state', name);
    this.#write(this.#plan.states[index].at, encode(this.states[index], 'state', value));
  }

  /** Resets states to their initial values. */
  reset() {
    this.#check();
    this.#plan.states.forEach(({at}, i) => this.#write(at, this.#initial[i] ?? new Uint8Array(round4(at[2]))));
  }

  /** Runs the example that was stored by the export with reset states, and compares the results. */
  async check() {
    const {check} = this.#file;
    if (!check)
      fail('the export has no example to check with');
    const pieces = new Map();
    const load = async (port, parts) => {
      const bytes = new Uint8Array(round4(countBytes(port)));
      for (const [piece, at, size, offset] of parts) {
        if (!pieces.has(piece))
          pieces.set(piece, await this.#source.fetchPiece(this.#file.pieces[piece]));
        bytes.set(pieces.get(piece).subarray(at, at + size), offset);
      }
      return decode(port, bytes.buffer);
    };
    const inputs = {};
    for (const [i, port] of this.inputs.entries())
      inputs[port.name] = await load(port, check.inputs[i]);
    this.reset();
    const outputs = await this.run(inputs);
    this.reset();
    let error = 0;
    const numbers = value => value instanceof Uint16Array ? fromHalf(value) : value;
    for (const [i, port] of this.outputs.entries()) {
      const wanted = numbers(await load(port, check.outputs[i])), got = numbers(outputs[port.name]);
      for (let j = 0; j < wanted.length; j++) {
        const a = Number(got[j]), b = Number(wanted[j]);
        if (!Object.is(a, b) && a !== b)
          error = Math.max(error, Number.isNaN(a - b) ? Infinity : Math.abs(a - b));
      }
    }
    return {inputs, outputs, error, tolerance: check.tolerance, ok: error <= check.tolerance};
  }

  /** Starts again, with another device if the old one is lost, and with the parameters and states of the export. */
  async reload({signal} = {}) {
    signal?.throwIfAborted();
    if (this.#options.device && this.#found?.lost !== null)
      this.#options = {...this.#options, device: undefined};
    await this.#start(signal);
  }

  /** Frees the memory. */
  destroy() {
    this.#destroyed = true;
    for (const buffer of [...this.#buffers, this.#params, ...this.#staging])
      buffer?.destroy();
    this.#buffers = [];
    this.#staging = [];
  }
}

export const Rlx = {
  /** Loads the model in a folder: see rlx.d.ts. */
  load: (url, options) => Model.load(url, options),
  toHalf,
  fromHalf,
  version: VERSION,
};
export default Rlx;
