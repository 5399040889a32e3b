# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cases of make-cases.py in Deno, Firefox and Chromium, each on its CPU adapter; missing ones are skipped. Prints a
table of errors and times.

Usage: test-browsers.py FOLDER DENO"""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'tools'))
import tap

folder, deno = sys.argv[1:3]


def check(engine, output, n_plans=1):
    results = [json.loads(line) for line in output.splitlines() if line.startswith('{')]
    for result in results:
        if 'adapter' in result:
            print(f'# {engine}: {result["adapter"] or "adapter not told"}, {", ".join(result["features"]) or "no features"}')
        elif 'name' in result:
            print(f'# {engine:9} {result["name"]:13} {result["target"] or "":12} error {result["error"]:.1e}  '
                  f'load {result.get("load", 0):8.0f} ms  run {result.get("ms", 0):7.1f} ms')
    tap.check([result for result in results if 'name' in result], f'no results, but {output!r}')
    tap.none((f'{result.get("name")}, {result.get("target")}: {result["message"]}' for result in results if result.get('message')), 'what failed')
    tap.none((result['name'] for result in results if 'name' in result and not result['ok']), 'cases that are wrong')


def browser(name, program, *arguments):
    if shutil.which(program) is None:
        tap.skip(f'there is no {program}')
    done = tap.run([sys.executable, '-B', os.path.join(HERE, 'browsers.py'), name, folder, *arguments], timeout=900)
    check(name, done.stdout)


@tap.test
def deno_is_right():
    if deno.startswith('skip'):
        tap.skip(deno)
    done = tap.run([deno, 'run', '-A', '--unstable-webgpu', os.path.join(HERE, 'node.mjs'), '-', folder, 'cases', 'any', 'minimum'], timeout=900)
    check('deno', done.stdout)


@tap.test
def firefox_is_right():
    browser('firefox', 'firefox-esr', 'target=any', 'target=minimum')


@tap.test
def chromium_is_right():
    browser('chromium', 'chromium', 'target=any')


@tap.test
def chromium_runs_the_plan_for_all():
    """For the encoder it has kernels that SwiftShader takes minutes to compile."""
    browser('chromium', 'chromium', 'target=minimum', 'without=encoder')


tap.main('browsers')
