# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A second compiler for every kernel: naga, that of Firefox, through Deno's WebGPU, which npm fetches. All texts have to be
valid, and those that collected.py chooses become pipelines. Kernels that need what naga lacks are listed and skipped.

Usage: test-naga.py COLLECT"""
import collections
import json
import os
import re
import sys

import collected
import npm
import tap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'web'))
import deno

HERE = os.path.dirname(os.path.abspath(__file__))
# Features that naga lacks, by the text in a kernel that needs them.
LACKS = {'enable subgroups;': 'subgroups', 'enable chromium_experimental_subgroup_matrix;': 'subgroup matrices'}

everything = collected.get_kernels(os.path.abspath(sys.argv[1]))


def get_lacking(kernel):
    return next((what for words, what in LACKS.items() if words in kernel.text), None)


def compile_all(name, modules, pipelines, timeout=1500):
    """Deno's verdict on WGSL files: a list of rejected ones, and the counts."""
    try:
        program = deno.install()
    except npm.Failure as why:
        tap.skip(str(why))
    listed = tap.write(name, json.dumps({'modules': modules, 'pipelines': pipelines}))
    done = tap.run([program, 'run', '-A', '--unstable-webgpu', os.path.join(HERE, 'naga.mjs'), listed], status=0, timeout=timeout)
    *refused, last = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
    if 'skip' in last:
        tap.skip(last['skip'])
    return refused, last


@tap.test
def every_kernel():
    lacking = collections.Counter(filter(None, map(get_lacking, everything)))
    for what, n in lacking.items():
        print(f'# without {n} kernels with {what}')
    kernels = {os.path.join(tap.folder, 'all', kernel.name): kernel for kernel in everything if not get_lacking(kernel)}
    tap.check(len(kernels) > len(everything) / 2, f'only {len(kernels)} of {len(everything)} kernels are left')
    chosen = {kernel.name for kernel in collected.choose(list(kernels.values()))}
    wanted = [path for path, kernel in kernels.items() if kernel.name in chosen]
    refused, last = compile_all('list.json', list(kernels), wanted)
    print(f'# {last["valid"]} of {len(kernels)} kernels are valid, {last["ready"]} of {len(wanted)} pipelines were made')
    tap.check(not refused, f'{len(refused)} kernels are refused\n' + '\n'.join(
        f'{collected.describe(kernels[one["file"]])}: {one["message"]}' for one in refused[:8]))
    tap.equal((last['valid'], last['ready']), (len(kernels), len(wanted)), 'valid kernels and pipelines')


@tap.test
def faults_are_found():
    """That it does not just accept everything."""
    good = next(kernel for kernel in everything if not get_lacking(kernel))
    files = [tap.write(f'fault{i}.wgsl', text) for i, text in enumerate([
        good.text, good.text + '\nfn g () { let v: u32 = 1.5; }', re.sub(r'@workgroup_size\([^)]*\)', '@workgroup_size(65536)', good.text)])]
    refused, _ = compile_all('faults.json', files, files)
    tap.equal([one['file'] for one in refused], files[1:], 'what is refused')


tap.main('naga')
