#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The Rust crate rlx-wgpu as a contender, by the program in rlx-rust/. cargo builds it with the newest release of the crate.

    rlx_rust.py ARGUMENT…    builds it, if these arguments of `./dev bench` ask for it: on the host, where cargo is
"""
import argparse
import fcntl
import filecmp
import fnmatch
import json
import os
import shutil
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(FOLDER), 'tools'))

import npm
from contender import Contender, Failure

WORKLOADS = ('matmul-512', 'matmul-1024', 'matmul-q4k', 'gemv-q4k', 'bert-layer', 'softmax', 'layer-norm')
CRATE, PROGRAM = 'rlx-wgpu', 'rlx-rust-bench'
BUILD_TIMEOUT = 3600


def cache_folder():
    return os.path.join(npm.cache_folder(), 'rlx-rust')


def program():
    return os.path.join(cache_folder(), 'target', 'release', PROGRAM)


def cargo(*arguments, timeout):
    try:
        done = subprocess.run(['cargo', *arguments], cwd=cache_folder(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f'cargo {arguments[0]} took too long') from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if 'error' in line] or ['no message']
        raise Failure(f'cargo {arguments[0]}: {lines[0].strip()}')
    return done.stdout


def build():
    """Builds the program in the user's cache, so that the next start only checks for a newer release of the crate."""
    folder = cache_folder()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Unchanged files keep their time, so that they are not rebuilt.
        for name in 'Cargo.toml', 'src/main.rs':
            source, copy = os.path.join(FOLDER, 'rlx-rust', name), os.path.join(folder, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if not os.path.exists(copy) or not filecmp.cmp(source, copy, shallow=False):
                shutil.copyfile(source, copy)
        try:
            cargo('update', '--quiet', timeout=120)
        except Failure:
            # If the registry cannot be reached, an existing program is used.
            if not os.path.exists(program()):
                raise
        if not os.path.exists(program()):
            print(f'# building {CRATE} for Rust in {folder} (some minutes, once)', file=sys.stderr, flush=True)
        cargo('build', '--quiet', '--release', timeout=BUILD_TIMEOUT)


def version():
    """Of the crate it was built with."""
    with open(os.path.join(cache_folder(), 'Cargo.lock'), encoding='utf-8') as file:
        lines = file.read().splitlines()
    return lines[lines.index(f'name = "{CRATE}"') + 1].split('"')[1]


class RlxRust(Contender):
    def prepare(self):
        if shutil.which('cargo'):
            build()
        elif not os.path.exists(program()):
            raise Failure('there is no cargo, or it could not build the crate')

    def takes(self, workload):
        return workload['name'] in WORKLOADS

    def command(self, workload, output):
        configuration = {'folder': self.bench.data, 'workload': workload, 'output': output, 'seconds': self.bench.seconds}
        return [program(), json.dumps(configuration)]

    def start(self, workload, output, cache):
        return dict(super().start(workload, output, cache), version=version())


def main(arguments):
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument('--peers', action='store_true')
    parser.add_argument('--only', nargs='+', action='extend', default=[])
    options, _ = parser.parse_known_args(arguments)
    wanted = not options.only or any(fnmatch.fnmatchcase(name, pattern) for name in WORKLOADS for pattern in options.only)
    if options.peers and wanted:
        try:
            if shutil.which('cargo') is None:
                raise Failure('there is no cargo')
            build()
        except Failure as failure:
            print(f'# rlx-rust: {failure}', file=sys.stderr)


if __name__ == '__main__':
    main(sys.argv[1:])
