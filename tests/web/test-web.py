# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Exports for browsers, in Node.js with the package `webgpu`, which is the same Dawn on the same driver: bit for bit what
the library computes. Skipped if the package is unavailable.

Usage: test-web.py EXPORT_FOLDER"""
import json
import os
import re
import shutil
import sys

import tap

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)
import cases
import node as engine

exports = os.path.join(tap.folder, 'web')
SCRIPT = '''
import {Rlx, RlxError, Model, Port, Values} from './rlx.js';
const model: Model = await Rlx.load(new URL('file:///'), {
  onprogress: ({loaded, total, compiled, kernels}) => console.log(loaded / total, compiled / kernels),
  signal: new AbortController().signal, target: 'minimum', fetch: url => fetch(url),
});
const {y}: Record<string, Values> = await model.run({x: new Float32Array(1)}, {signal: AbortSignal.timeout(1)});
model.setParameters({w: Rlx.toHalf([1, 2])});
model.writeState('s', await model.readState('s'));
model.reset();
const ports: readonly Port[] = [...model.inputs, ...model.outputs, ...model.parameters, ...model.states];
const bits: number = model.size + ports[0].shape[0] + Rlx.fromHalf(new Uint16Array(1))[0];
const why: string | null = model.lost;
if (model.hasCheck && (await model.check()).ok)
  await model.reload({signal: new AbortController().signal});
model.destroy();
throw new RlxError(`${bits} ${why} ${y} ${model.target}`);
// @ts-expect-error
model.run({x: [1, 2]});
// @ts-expect-error
model.inputs = [];
// @ts-expect-error
new Model();
// @ts-expect-error
Rlx.load('.', {onProgress: () => {}});
'''


def node(*arguments):
    return engine.run(exports, *arguments)


@tap.test
def exports_are_written():
    os.mkdir(exports)
    cases.write(exports)
    for make in cases.CASES:
        tap.check(os.path.exists(os.path.join(exports, make.__name__, 'plan.json')), f'no plan for {make.__name__}')


@tap.test
def runtime_is_small():
    tap.check(os.path.getsize(os.path.join(sys.argv[1], 'rlx.js')) < 40_000, 'rlx.js has more than 40 kB')


@tap.test
def declarations_are_those_of_the_runtime():
    def read(name):
        with open(os.path.join(sys.argv[1], name), encoding='utf-8') as file:
            return file.read()
    members = set(re.findall(r'^  (?:async |get )?([a-zA-Z]\w*)\(.*\{', read('rlx.js').split('export class Model')[1], re.M)) - {'constructor'}
    declared = read('rlx.d.ts').split('export class Model')[1].split('export const Rlx')[0]
    tap.check({'run', 'inputs', 'reload'} <= members, f'the members of Model are {members}')
    tap.none((name for name in members if not re.search(rf'^  (readonly {name}:|{name} \()', declared, re.M)), 'members without a declaration')
    tap.none((name for name in re.findall(r'^  (?:readonly )?(\w+)(?::| \()', declared, re.M) if name not in members), 'declared members that are not there')


@tap.test
def declarations_are_typescript():
    if shutil.which('tsc') is None:
        tap.skip('there is no tsc')
    folder = os.path.join(tap.folder, 'types')
    os.mkdir(folder)
    shutil.copy(os.path.join(sys.argv[1], 'rlx.d.ts'), folder)
    tap.write('types/script.ts', SCRIPT)
    tap.run(['tsc', '--noEmit', '--strict', '--target', 'es2022', '--module', 'es2022', '--lib', 'es2022,dom', 'script.ts'],
            cwd=folder, status=0)


@tap.test
def node_has_the_same_bits():
    results = node('cases', 'lavapipe')
    tap.equal(len(results), len(cases.CASES), 'the number of results')
    tap.none((f'{result["name"]} ({result.get("message") or result["error"]})' for result in results if not result['ok'] or not result['same']),
             'cases that are not the same')


@tap.test
def node_runs_the_other_plans():
    results = node('cases', 'minimum-f16', 'minimum')
    tap.none((f'{result["name"]}, {result["target"]} ({result.get("message")})' for result in results if not result['ok']), 'cases that are wrong')


@tap.test
def faults_are_told():
    results = node('faults')
    tap.check(len(results) > 40, f'only {len(results)} faults were tried')
    tap.none((f'{result["name"]}: {result.get("message")}' for result in results if not result['ok']), 'faults that are not told')


@tap.test
def checksums_are_those_of_the_files():
    import hashlib
    folder = os.path.join(exports, 'encoder')
    with open(os.path.join(folder, 'plan.json'), encoding='utf-8') as file:
        head, rest = file.read().split('\n', 1)
    tap.equal(re.search('"sha256":"([0-9a-f]+)"', head)[1], hashlib.sha256(rest.encode()).hexdigest(), 'the checksum')
    plan = json.loads(head + rest)
    for piece in plan['pieces']:
        with open(os.path.join(folder, piece['file']), 'rb') as file:
            content = file.read()
        tap.equal((len(content), hashlib.sha256(content).hexdigest()), (piece['size'], piece['sha256']), piece['file'])
    found = {name for name in os.listdir(folder) if name.startswith('weights-')}
    tap.equal(found, {piece['file'] for piece in plan['pieces']}, 'the pieces')


tap.main('web')
