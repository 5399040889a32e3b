// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs cases in any engine. Each result is an object with the case, the plan, the largest error of its outputs and
// whether all bits are the same, or the error.

/** The array types of files, by data type; for halves the bits. */
export const ARRAYS = {
  f32: Float32Array, f16: Uint16Array, i32: Int32Array, u32: Uint32Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array,
  i64: BigInt64Array, u64: BigUint64Array, i4: Uint8Array, u4: Uint8Array,
};

export class Cases {
  constructor({Rlx, base, options = {}, fetch = globalThis.fetch}) {
    Object.assign(this, {Rlx, base, options, fetch});
  }

  async get(path) {
    const response = await this.fetch(new URL(path, this.base).href, {});
    if (!response.ok)
      throw new Error(`${path}: ${response.status}`);
    return response;
  }

  async arrays(folder, entries, ports) {
    const result = {};
    for (const [name, {file}] of Object.entries(entries)) {
      const {dataType} = ports.find(port => port.name === name);
      result[name] = new ARRAYS[dataType](await (await this.get(`${folder}/${file}`)).arrayBuffer());
    }
    return result;
  }

  /** The difference between two arrays, and whether they are equal bit for bit. */
  compare(dataType, got, wanted) {
    const bytes = array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const a = bytes(got), b = bytes(wanted);
    const same = a.length === b.length && a.every((byte, i) => byte === b[i]);
    if (got.length !== wanted.length)
      return {error: Infinity, same};
    const numbers = array => dataType === 'f16' ? this.Rlx.fromHalf(array) : array;
    const x = numbers(got), y = numbers(wanted);
    let error = 0;
    for (let i = 0; i < x.length; i++) {
      const p = Number(x[i]), q = Number(y[i]);
      if (!Object.is(p, q) && p !== q)
        error = Math.max(error, Number.isNaN(p - q) ? Infinity : Math.abs(p - q));
    }
    return {error, same};
  }

  async run({name, runs}, target, times = 0) {
    const result = {name, target, error: 0, same: true, ok: true};
    try {
      const start = performance.now();
      const model = await this.Rlx.load(new URL(name, this.base).href, {...this.options, fetch: this.fetch, target});
      result.load = performance.now() - start;
      result.target = model.target;
      // Twice, to check that states can be reset.
      for (let round = 0; round < 2; round++) {
        for (const run of runs) {
          const changed = await this.arrays(name, run.set, model.parameters);
          if (Object.keys(changed).length > 0)
            model.setParameters(changed);
          else if (round > 0 && model.parameters.length > 0)
            await model.reload();
          const inputs = await this.arrays(name, run.inputs, model.inputs);
          const wanted = await this.arrays(name, run.outputs, model.outputs);
          const outputs = await model.run(inputs);
          for (const {name: output, dataType} of model.outputs) {
            const {error, same} = this.compare(dataType, outputs[output], wanted[output]);
            result.error = Math.max(result.error, error);
            result.same &&= same;
            if (!(error <= run.outputs[output].tolerance)) {
              result.ok = false;
              result.message ??= `run ${runs.indexOf(run)}, output “${output}” is off by ${error}, ${run.outputs[output].tolerance} is allowed`;
            }
          }
        }
        if (model.states.length > 0)
          model.reset();
      }
      if (times > 0) {
        const inputs = await this.arrays(name, runs[0].inputs, model.inputs), all = [];
        for (let i = 0; i < times; i++) {
          const begin = performance.now();
          await model.run(inputs);
          all.push(performance.now() - begin);
        }
        result.ms = all.sort((a, b) => a - b)[times >> 1];
        await model.reload();
      }
      if (model.hasCheck) {
        const check = await model.check();
        if (!check.ok) {
          result.ok = false;
          result.message ??= `the example of the export is off by ${check.error}`;
        }
      }
      model.destroy();
    } catch (error) {
      Object.assign(result, {ok: false, same: false, message: `${error.name}: ${error.message}`});
    }
    return result;
  }

  /** All cases except some, with all plans; undefined is the one chosen automatically. */
  async runAll(targets, tell, times = 0, without = []) {
    for (const one of await (await this.get('cases.json')).json()) {
      if (without.includes(one.name))
        continue;
      for (const target of targets)
        await tell(await this.run(one, target, times));
    }
  }
}
