// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Every fault results in a rejected promise that names it. Prints an object for each fault.

export default async function ({Rlx, base, fetch, gpu, tell}) {
  const url = name => new URL(name, base).href;
  const load = (name, options = {}) => Rlx.load(url(name), {gpu, fetch, ...options});
  const text = async file => (await fetch(url(file))).text();

  /** It has to fail, with all of the words in its message. */
  async function refused(name, words, func) {
    let message = null;
    try {
      await func();
    } catch (error) {
      message = `${error.message}`;
    }
    tell({name, ok: message !== null && words.every(word => message.includes(word)), message});
  }

  async function works(name, func) {
    try {
      const ok = await func();
      tell({name, ok: ok !== false, message: ok === false ? 'wrong' : undefined});
    } catch (error) {
      tell({name, ok: false, message: error.message});
    }
  }

  /** A fetch that modifies files on the way. */
  const changing = (file, change) => async address => {
    const response = await fetch(address);
    if (!file.test(address))
      return response;
    return new Response(change(new Uint8Array(await response.arrayBuffer())));
  };
  const replace = (from, to) => bytes => new TextEncoder().encode(new TextDecoder().decode(bytes).replace(from, to));

  /** The same with a valid checksum, like somebody who writes their own plans. */
  async function forge(change) {
    const [, ...lines] = (await text('prologue/plan.json')).split('\n');
    const plan = JSON.parse(`{${lines.join('\n')}`);
    change(plan);
    const rest = JSON.stringify(plan).slice(1);
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(rest)));
    const hex = Array.from(digest, byte => byte.toString(16).padStart(2, '0')).join('');
    return changing(/plan\.json$/, () => new TextEncoder().encode(`{"format":"rlx-web","version":1,"sha256":"${hex}",\n${rest}`));
  }

  await refused('no WebGPU', ['WebGPU'], () => load('encoder', {gpu: null}));
  await refused('no folder', ['plan.json', '404'], () => load('nothing'));
  await refused('plan of others', ['plan.json', 'not a plan'], () => load('encoder', {fetch: changing(/plan\.json$/, () => new Uint8Array(10))}));
  await refused('other version', ['version 9'], () => load('encoder', {fetch: changing(/plan\.json$/, replace('"version":1', '"version":9'))}));
  await refused('truncated plan', ['plan.json', 'checksum'], () => load('encoder', {fetch: changing(/plan\.json$/, bytes => bytes.slice(0, -100))}));
  await refused('altered plan', ['plan.json', 'checksum'], () => load('encoder', {fetch: changing(/plan\.json$/, replace('"ms":', '"ms": '))}));
  await refused('truncated weights', ['weights-', 'truncated'], () => load('encoder', {fetch: changing(/\.bin$/, bytes => bytes.slice(0, -4))}));
  await refused('longer weights', ['weights-', 'more than'], () => load('encoder', {fetch: changing(/\.bin$/, bytes => new Uint8Array(bytes.length + 4))}));
  await refused('altered weights', ['weights-', 'checksum'], () => load('encoder', {fetch: changing(/\.bin$/, bytes => bytes.map((b, i) => i === 5 ? b ^ 1 : b))}));
  await refused('no weights', ['weights-', '404'], () => load('encoder', {fetch: async address =>
    /\.bin$/.test(address) ? new Response(null, {status: 404, statusText: 'Not Found'}) : fetch(address)}));
  await refused('no such plan', ['“navi99”', 'minimum'], () => load('encoder', {target: 'navi99'}));

  const forged = [
    ['shapes', plan => { plan.inputs[0].shape = [-1]; }, 'inputs[0]'],
    ['data types', plan => { plan.inputs[0].dataType = 'f64'; }, 'inputs[0]'],
    ['places', plan => { plan.plans[0].outputs[0][1] = 1e9; }, 'outputs'],
    ['names of files', plan => { plan.pieces[0].file = '../secret'; }, 'pieces[0]'],
    ['parts', plan => { plan.plans[0].uploads[0][2] = 1e9; }, 'uploads[0]'],
    ['bindings', plan => { plan.plans[0].steps[0].bindings[1][1] = 99; }, 'bindings'],
    ['ranges', plan => { plan.plans[0].steps[0].bindings[1][2] = 2 ** 30; }, 'kernels'],
    ['kernels', plan => { plan.shaders = plan.shaders.map(() => 'fn main() {'); }, 'refused'],
    ['nothing', plan => { plan.plans = []; }, 'plans'],
  ];
  for (const [name, change, words] of forged)
    await refused(`forged ${name}`, [words], async () => load('prologue', {fetch: await forge(change)}));

  // Features that the device lacks are named, and the next plan is used.
  const needing = change => forge(plan => plan.plans.forEach((one, i) => i < plan.plans.length - 1 && change(one.needs)));
  const all = change => forge(plan => plan.plans.forEach(one => change(one.needs)));
  await refused('subgroups of another size', ['subgroups of 64'], async () =>
    load('prologue', {fetch: await all(needs => { needs.features = ['subgroups']; needs.subgroupSize = 64; })}));
  await refused('missing features', ['timestamp-magic'], async () => load('prologue', {fetch: await all(needs => { needs.features = ['timestamp-magic']; })}));
  await refused('missing WGSL', ['telepathy'], async () => load('prologue', {fetch: await all(needs => { needs.languageFeatures = ['telepathy']; })}));
  await refused('missing limits', ['maxBufferSize 9000000000000'], async () => load('prologue', {fetch: await all(needs => { needs.limits.maxBufferSize = 9e12; })}));
  await refused('alignment', ['minStorageBufferOffsetAlignment 1 '], async () =>
    load('prologue', {fetch: await all(needs => { needs.limits.minStorageBufferOffsetAlignment = 1; })}));
  await works('takes the other plan', async () => {
    const model = await load('prologue', {fetch: await needing(needs => { needs.subgroupSize = 64; needs.features = ['subgroups']; })});
    return model.target === 'minimum';
  });

  const model = await load('wide');
  const good = {
    i: BigInt64Array.of(1n, 2n, 3n, 4n, 5n), u: BigUint64Array.of(1n, 2n, 3n), b: new Uint8Array(7), s: new Int8Array(6),
  };
  await refused('missing input', ['“u”'], () => model.run({...good, u: undefined, ...{}}));
  await refused('unknown input', ['“q”', 'i, u, b, s'], () => model.run({...good, q: new Int8Array(1)}));
  await refused('wrong type', ['“i”', 'Float32Array', 'BigInt64Array'], () => model.run({...good, i: new Float32Array(5)}));
  await refused('plain array', ['“s”', 'Array'], () => model.run({...good, s: [1, 2, 3, 4, 5, 6]}));
  await refused('wrong length', ['“s”', '7 elements', 'i8[2, 3]'], () => model.run({...good, s: new Int8Array(7)}));
  await refused('too wide', ['element 1', '2147483648'], () => model.run({...good, i: BigInt64Array.of(0n, 2147483648n, 0n, 0n, 0n)}));
  await refused('too wide and unsigned', ['element 2', '4294967296'], () => model.run({...good, u: BigUint64Array.of(0n, 0n, 4294967296n)}));
  await refused('no such state', ['no state “h”'], () => model.readState('h'));
  await refused('no such parameter', ['no parameter “w”'], async () => model.setParameters({w: new Float32Array(1)}));
  await works('good after all that', async () => (await model.run(good)).i[4] === 15n);

  await refused('aborted before', ['abort'], () => load('encoder', {signal: AbortSignal.abort(new Error('abort'))}));
  await refused('aborted load', ['stop it'], () => {
    const controller = new AbortController();
    return load('encoder', {signal: controller.signal, onprogress: () => controller.abort(new Error('stop it'))});
  });
  await refused('aborted reload', ['stop it'], async () => {
    const controller = new AbortController(), encoder = await load('encoder', {signal: controller.signal});
    const reload = encoder.reload({signal: controller.signal});
    controller.abort(new Error('stop it'));
    await reload;
  });
  await works('reload after abort', async () => {
    const controller = new AbortController(), encoder = await load('encoder', {signal: controller.signal});
    const reload = encoder.reload({signal: controller.signal});
    controller.abort(new Error('stop it'));
    // The signal of a load or a reload does not affect anything later.
    await Promise.all([reload.catch(() => {}), encoder.reload(), encoder.reload()]);
    const {ok} = await encoder.check();
    encoder.destroy();
    return ok;
  });
  await refused('aborted run', ['stop it'], () => {
    const controller = new AbortController();
    const run = model.run(good, {signal: controller.signal});
    controller.abort(new Error('stop it'));
    return run;
  });
  await works('runs queue up', async () => {
    const all = await Promise.all([1n, 2n, 3n].map(n => model.run({...good, u: BigUint64Array.of(n, n, n)})));
    return all.every(({u}, i) => u[0] === 2n * BigInt(i + 1));
  });

  await works('states can be read and written', async () => {
    const states = await load('states');
    states.writeState('place', Int32Array.of(40));
    await states.run({x: new Float32Array(5)});
    const place = await states.readState('place');
    states.reset();
    return place[0] === 41 && (await states.readState('place'))[0] === 7 && (await states.readState('total'))[0] === 0;
  });
  await works('halves', async () => {
    const numbers = Float32Array.of(0, -0, 1, 65504, 65520, 1e-8, 6e-8, 2 ** -14, 1 / 3, -Infinity, NaN, 2049, 2051);
    const bits = [0, 0x8000, 0x3c00, 0x7bff, 0x7c00, 0, 1, 0x400, 0x3555, 0xfc00, 0x7e00, 0x6800, 0x6802];
    const Native = globalThis.Float16Array;
    const check = () => Rlx.toHalf(numbers).every((half, i) => half === bits[i]) && Object.is(Rlx.fromHalf(Uint16Array.of(0x3555))[0], Math.fround(0.333251953125));
    let ok = check();
    delete globalThis.Float16Array;
    ok &&= check();
    if (Native)
      globalThis.Float16Array = Native;
    return ok;
  });

  const other = await load('encoder'), tokens = {tokens: new Int32Array(24)};
  await works('models share a device', async () => other.device === model.device);
  await refused('lost while it runs', ['lost'], () => {
    const run = other.run(tokens);
    other.device.destroy();
    return run;
  });
  await refused('lost before', ['lost', 'reload'], () => model.run(good));
  await works('back after reload', async () => {
    await other.reload();
    await model.reload();
    return (await model.run(good)).i[4] === 15n && (await other.check()).ok && other.device === model.device;
  });
  model.destroy();
  await refused('destroyed', ['destroyed'], () => model.run(good));
}
