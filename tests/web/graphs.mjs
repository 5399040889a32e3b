// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The random graphs of write-graphs.c: with the plan for this adapter, the results must have the same bits as the library's.
import {ARRAYS, Cases} from './engine.js';

export default async function ({Rlx, base, fetch, gpu, tell}, [count, nRuns]) {
  const cases = new Cases({Rlx, base, fetch});
  for (let i = 0; i < count; i++) {
    const result = {name: `${i}`, ok: true, elements: 0};
    const complain = message => {
      result.ok = false;
      result.message ??= message;
    };
    try {
      const model = await Rlx.load(new URL(`${i}`, base).href, {gpu, fetch, target: 'lavapipe'});
      const read = async (kind, run, ports) => Object.fromEntries(await Promise.all(ports.map(async ({name, dataType}, j) =>
        [name, new ARRAYS[dataType](await (await cases.get(`${i}/${kind}-${run}-${j}.bin`)).arrayBuffer())])));
      for (let run = 0; run < nRuns; run++) {
        const inputs = await read('in', run, model.inputs), wanted = await read('out', run, model.outputs);
        const outputs = await model.run(inputs);
        for (const {name, dataType} of model.outputs) {
          const {error, same} = cases.compare(dataType, outputs[name], wanted[name]);
          result.elements += wanted[name].length;
          if (!same)
            complain(`run ${run}, output “${name}” (${dataType}) has other bits; it is off by ${error}`);
        }
      }
      model.destroy();
    } catch (error) {
      complain(`${error.name}: ${error.message}`);
    }
    await tell(result);
  }
}
