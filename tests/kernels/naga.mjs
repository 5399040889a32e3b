// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compiles WGSL with Deno's WebGPU: deno run -A --unstable-webgpu naga.mjs LIST, which is JSON with
//   modules     files that have to be valid
//   pipelines   those of them that must also compile to pipelines
// Prints a line of JSON for each rejected one, and at the end one with the counts.
import {readFileSync} from 'node:fs';
import process from 'node:process';

const {modules, pipelines} = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const adapter = await navigator.gpu?.requestAdapter();
if (!adapter) {
  console.log(JSON.stringify({skip: 'Deno has no adapter'}));
  process.exit(0);
}
const requiredLimits = {};
for (const name of ['maxStorageBuffersPerShaderStage', 'maxComputeWorkgroupStorageSize', 'maxComputeInvocationsPerWorkgroup',
  'maxComputeWorkgroupSizeX', 'maxComputeWorkgroupSizeY', 'maxComputeWorkgroupSizeZ'])
  requiredLimits[name] = adapter.limits[name];
const device = await adapter.requestDevice({requiredFeatures: ['shader-f16'], requiredLimits});
const becomes = new Set(pipelines);
let valid = 0, ready = 0;

/** The error message from running func(), or undefined. */
async function refusal(func) {
  device.pushErrorScope('validation');
  device.pushErrorScope('internal');
  let thrown;
  try {
    func();
  } catch (error) {
    thrown = error;
  }
  const errors = [await device.popErrorScope(), await device.popErrorScope()];
  return (errors[0] ?? errors[1] ?? thrown)?.message;
}

for (const file of modules) {
  let module;
  const code = readFileSync(file, 'utf8');
  let message = await refusal(() => { module = device.createShaderModule({code}); });
  if (message === undefined) {
    valid++;
    if (becomes.has(file)) {
      message = await refusal(() => device.createComputePipeline({layout: 'auto', compute: {module, entryPoint: 'main'}}));
      ready += message === undefined;
    }
  }
  if (message !== undefined)
    console.log(JSON.stringify({file, message}));
}
console.log(JSON.stringify({adapter: adapter.info?.description || adapter.info?.device, valid, ready}));
process.exit(0);
