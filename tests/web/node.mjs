// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs the tests given on the command line in Node.js, with the package `webgpu`, or in Deno; prints lines of JSON.
//
//   node node.mjs MODULES FOLDER cases TARGET…    or    faults    or    graphs COUNT RUNS
import {readFile} from 'node:fs/promises';
import {pathToFileURL} from 'node:url';
import process from 'node:process';

const [modules, folder, what, ...rest] = process.argv.slice(2);
const isDeno = globalThis.Deno !== undefined;

let gpu = globalThis.navigator?.gpu;
if (!isDeno) {
  const {create, globals} = await import(pathToFileURL(`${modules}/node_modules/webgpu/index.js`).href);
  Object.assign(globalThis, globals);
  gpu = create([]);
}

const base = `${pathToFileURL(folder).href}/`;
const fetch = async url => {
  try {
    return new Response(await readFile(new URL(url)));
  } catch (error) {
    return new Response(null, {status: 404, statusText: error.code ?? error.message});
  }
};
const tell = result => process.stdout.write(`${JSON.stringify(result)}\n`);

const {Rlx} = await import(`${base}${what === 'graphs' ? '0' : 'encoder'}/rlx.js`);
const {default: run} = await import(new URL(`./${what}.mjs`, import.meta.url).href);
await run({Rlx, base, fetch, gpu, tell}, rest);
// Dawn's threads would keep running.
process.exit(0);
