#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures how long typical work takes, and with --peers how long it takes others.

Every measurement is made in several processes, those of the contenders in turn, so that neither a lucky start nor what
else the machine does favours anyone: a figure is the median over the processes of the median over the runs in each.
All contenders get the same numbers, and each result is compared with one that was computed in double precision. A time
with a wrong result does not count. Times of runs go from numbers in memory to numbers in memory.
"""

import argparse
import array
import fcntl
import fnmatch
import hashlib
import json
import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(FOLDER), 'tools'))

import chart
import models_bench
import npm
import onnx_model
import rlx_rust
import signals
import web
from contender import NO_ADAPTER, Contender, Failure, NoAdapter

ORT = 'onnxruntime-node'
ORT_VERSION = '1.30.0'


# --- Contenders -------------------------------------------------------------------------------------------------------

class Program(Contender):
    """One of our own programs, which share their arguments."""

    program = None

    def command(self, workload, output):
        return [os.path.join(self.bench.programs, self.program), '--workload', workload['name'], '--folder', self.bench.data,
                '--output', output, '--seconds', str(self.bench.seconds)]


class Rlx(Program):
    program = 'rlx-bench'

    def takes(self, workload):
        return workload['family'] not in ('copy', 'model')


class Memory(Program):
    program = 'rlx-bench-host'

    def takes(self, workload):
        return workload['family'] == 'copy'


class Dawn(Program):
    program = 'rlx-bench-dawn'

    def takes(self, workload):
        return workload['family'] == 'tiny' and workload['kind'] == 'run'


class OpenBlas(Program):
    program = 'rlx-bench-host'

    def prepare(self):
        path = os.path.join(self.bench.programs, self.program)
        if 'openblas' not in subprocess.run([path, '--list'], capture_output=True, text=True, check=True).stdout.split():
            raise Failure('OpenBLAS was not found when the programs were built')

    def takes(self, workload):
        return workload['family'] == 'matmul'


class OnnxRuntime(Contender):
    def __init__(self, name, bench, provider):
        super().__init__(name, bench)
        self.provider = provider
        self.f16_sums = provider == 'webgpu'
        self.modules = None

    def prepare(self):
        if shutil.which('node') is None:
            raise Failure('there is no Node.js')
        self.modules = install_ort()

    def takes(self, workload):
        # It only has a fast transform for the former; other lengths take seconds.
        if workload['family'] == 'fft' and (self.provider, workload['size'][1]) not in (('webgpu', 512), ('webgpu', 1000)):
            return False
        return workload['kind'] not in ('compile', 'chain', 'apply', 'web') and (workload['family'] == 'model' or onnx_model.has_model(workload))

    def command(self, workload, output):
        if workload['family'] == 'model':
            return models_bench.ort_command(workload, self.bench, self.modules, self.provider, output, self.bench.seconds)
        inputs = [tensor for tensor in workload['tensors'] if tensor['role'] == 'input']
        configuration = {
            'modules': self.modules, 'provider': self.provider, 'folder': self.bench.data, 'seconds': self.bench.seconds,
            'model': onnx_model.write_model(workload, self.bench.data, self.provider), 'output': output,
            'workload': {'kind': workload['kind'], 'tensors': inputs},
        }
        return ['node', os.path.join(FOLDER, 'ort-bench.mjs'), json.dumps(configuration)]


def install_ort():
    """Installs ONNX Runtime for Node.js into the user's cache, once; returns its folder."""
    try:
        # The package has the libraries for all systems.
        return npm.install(ORT, ORT_VERSION, [f'bin/napi-v6/{other}' for other in ('darwin', 'win32')])
    except npm.Failure as error:
        raise Failure(str(error)) from error


# --- Results ----------------------------------------------------------------------------------------------------------

def read_floats(path):
    values = array.array('f')
    with open(path, 'rb') as file:
        values.frombytes(file.read())
    return values


def largest_error(expected, got):
    """The largest difference between two lists; infinity if one contains NaN, or the lengths differ."""
    if len(expected) != len(got):
        return float('inf')
    errors = array.array('d', map(abs, map(operator.sub, got, expected)))
    # max() may ignore NaN, a sum does not
    return max(errors, default=0.0) if sum(errors) < float('inf') else float('inf')


class Measurement:
    """A workload run by a contender."""

    def __init__(self, workload, contender):
        self.workload, self.contender = workload, contender
        self.times, self.extra, self.accepted, self.error, self.failure = [], {}, set(), 0.0, None

    def add(self, result):
        """Records what a process reported besides the time."""
        result.pop('runs', None)
        result.pop('result', None)
        for name, value in result.items():
            self.extra.setdefault(name, []).append(value)

    def tolerance(self):
        return self.workload['f16_sums_tolerance' if self.contender.f16_sums and 'f16_sums_tolerance' in self.workload else 'tolerance']

    def check(self, path):
        """Compares a result with the expected one."""
        with open(path, 'rb') as file:
            digest = hashlib.sha256(file.read()).digest()
        if digest in self.accepted:
            return
        expected = read_floats(os.path.join(self.contender.bench.data, self.workload['data'] + '.expected'))
        error = largest_error(expected, read_floats(path))
        if not error <= self.tolerance():
            raise Failure(f'wrong result: off by {error:.3g}, rounding explains {self.tolerance():.3g}')
        self.error = max(self.error, error)
        self.accepted.add(digest)

    def row(self):
        row = {
            'workload': self.workload['name'], 'contender': self.contender.name, 'median_ms': statistics.median(self.times),
            'min_ms': min(self.times), 'max_ms': max(self.times), 'processes': len(self.times), 'checked': True,
            'max_error': self.error,
        }
        if self.workload['kind'] in ('run', 'web', 'stay') and self.workload['family'] != 'tiny':
            seconds = row['median_ms'] * 1e-3
            if self.workload['flops'] > 0:
                row['gflops'] = self.workload['flops'] * 1e-9 / seconds
            row['gbytes_per_s'] = self.workload['bytes'] * 1e-9 / seconds
        row.update((name, statistics.median_low(values)) for name, values in self.extra.items())
        return row


class Bench:
    def __init__(self, options):
        self.programs, self.seconds, self.processes = options.programs, options.seconds, options.processes
        self.data = options.data or os.path.join(self.programs, 'data')
        maker = os.path.join(self.programs, 'rlx-bench-data')
        everything = json.loads(subprocess.run([maker, '--manifest'], capture_output=True, check=True).stdout)
        self.workloads = choose(everything + (models_bench.list_workloads() if options.peers or options.list else []), options.only)
        self.contenders, self.skipped, self.rows, self.failures = [], [], [], []
        self.temporary = None

    def find_contenders(self, peers):
        self.contenders = [Rlx('rlx', self), models_bench.RlxModel('rlx', self), Memory('memcpy', self)]
        if not peers:
            return
        for peer in (Dawn('dawn', self), OpenBlas('openblas', self), OnnxRuntime('ort-cpu', self, 'cpu'),
                     OnnxRuntime('ort-webgpu', self, 'webgpu'), rlx_rust.RlxRust('rlx-rust', self), *web.get_contenders(self),
                     *signals.get_contenders(self)):
            if not any(peer.takes(workload) for workload in self.workloads):
                continue
            try:
                peer.prepare()
                self.contenders.append(peer)
            except Failure as failure:
                self.skipped.append(f'{peer.name}: {failure}')
                print(f'skipped {peer.name}: {failure}', flush=True)

    def make_data(self, workload):
        """Has the data generated. That of other versions of the program is useless."""
        if workload['family'] == 'model':
            os.makedirs(self.data, exist_ok=True)
            models_bench.prepare(workload, self, install_ort())
            return
        maker = os.path.join(self.programs, 'rlx-bench-data')
        with open(maker, 'rb') as file:
            stamp = hashlib.sha256(file.read()).hexdigest()
        os.makedirs(self.data, exist_ok=True)
        with open(os.path.join(self.data, 'stamp'), 'a+', encoding='utf-8') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if file.read() != stamp:
                for name in os.listdir(self.data):
                    if name != 'stamp' and os.path.isfile(os.path.join(self.data, name)):
                        os.unlink(os.path.join(self.data, name))
                file.truncate(0)
                file.write(stamp)
                file.flush()
            subprocess.run([maker, self.data, workload['name']], check=True)

    def cache(self, workload, contender):
        """A folder for caches: an empty one for a cold start, otherwise always the same."""
        if workload['cold']:
            return tempfile.mkdtemp(dir=self.temporary)
        folder = os.path.join(self.temporary, f'cache-{contender.name}')
        os.makedirs(folder, exist_ok=True)
        return folder

    def measure_once(self, measurement):
        workload, contender = measurement.workload, measurement.contender
        output = os.path.join(self.temporary, 'output')
        cache = self.cache(workload, contender)
        if os.path.exists(output):
            os.unlink(output)
        result = contender.start(workload, output, cache)
        if workload['family'] != 'copy':
            measurement.check(output)
        if workload['cold']:
            shutil.rmtree(cache)
        return result

    def measure(self, workload):
        try:
            self.make_data(workload)
        except Failure as failure:
            self.skipped.append(f'{workload["name"]}: {failure}')
            return
        measurements = [Measurement(workload, contender) for contender in self.contenders if contender.takes(workload)]
        # Those that start with caches need them filled.
        rounds = range(-1 if workload['kind'] not in ('run', 'stay') and not workload['cold'] else 0, self.processes)
        for i in rounds:
            # no contender always follows the same one, which may leave the processor hot
            for j in range(len(measurements)):
                measurement = measurements[(i + j) % len(measurements)]
                if measurement.failure:
                    continue
                try:
                    result = self.measure_once(measurement)
                    if i >= 0:
                        measurement.times.append(result.pop('ms'))
                        measurement.add(result)
                except NoAdapter:
                    if measurement.contender.name == 'rlx':
                        raise
                    measurement.failure = 'no adapter'
                except Failure as failure:
                    measurement.failure = str(failure)
        self.report(workload, measurements)

    def report(self, workload, measurements):
        rows = {m.contender.name: m.row() for m in measurements if not m.failure}
        own = rows.get('rlx')
        for i, measurement in enumerate(measurements):
            name = workload['name'] if i == 0 else ''
            if measurement.failure:
                print(f'{name:<20} {measurement.contender.name:<12} {measurement.failure}', flush=True)
                self.failures.append((workload['name'], measurement.contender.name, measurement.failure))
                continue
            row = rows[measurement.contender.name]
            self.rows.append(row)
            columns = [
                f'{name:<20} {row["contender"]:<12} {row["median_ms"]:>10.3f}  {row["min_ms"]:>9.3f} … {row["max_ms"]:<9.3f}',
                f'{row["median_ms"] / own["median_ms"]:>8.2f}' if own else f'{"":>8}',
                f'{row["cpu_ms"]:>10.3f}' if 'cpu_ms' in row else f'{"":>10}',
                f'{row["cpu_ms"] / own["cpu_ms"]:>7.2f}' if own and 'cpu_ms' in row and 'cpu_ms' in own else f'{"":>7}',
                f'{row["gflops"]:>8.1f}' if 'gflops' in row else f'{"":>8}',
                f'{row["gbytes_per_s"]:>7.2f}' if 'gbytes_per_s' in row else f'{"":>7}',
                f'{row["max_error"]:>9.1e}',
                workload['what'] if i == 0 else '',
            ]
            print(' '.join(columns).rstrip(), flush=True)


# --- The end ----------------------------------------------------------------------------------------------------------

def print_heading():
    print(f'{"workload":<20} {"contender":<12} {"median/ms":>10}  {"range/ms":>21} {"time/rlx":>8} {"CPU/ms":>10} {"CPU/rlx":>7} {"GFLOPS":>8} '
          f'{"GB/s":>7} {"error":>9}')


def print_memory(rows):
    rows = [row for row in rows if row['contender'] == 'rlx' and row.get('dispatches', 0) > 0]
    if rows:
        print(f'\n{"of rlx":<20} {"dispatches":>10} {"GPU/ms":>10} {"arena/MB":>10} {"weights/MB":>10}')
    for row in rows:
        gpu = f'{row["gpu_ms"]:>10.3f}' if 'gpu_ms' in row else f'{"":>10}'
        print(f'{row["workload"]:<20} {row["dispatches"]:>10} {gpu} {row["arena_bytes"] * 1e-6:>10.2f} '
              f'{row["weights_bytes"] * 1e-6:>10.2f}')


def print_notes(rows):
    times = {(row['workload'], row['contender']): (row['median_ms'], row.get('cpu_ms')) for row in rows}
    speed = next((row['gbytes_per_s'] for row in rows if row['contender'] == 'memcpy'), None)
    print()
    for half, single in ('matmul-512-f16', 'matmul-512'), ('gemv-4096-f16', 'gemv-4096-f32'):
        if (half, 'rlx') in times and (single, 'ort-webgpu') in times:
            others, own = times[single, 'ort-webgpu'], times[half, 'rlx']
            print(f'{half} takes ort-webgpu in f32 {others[0] / own[0]:.1f} times as long as rlx, '
                  f'{others[1] / own[1]:.1f} times in CPU time')
    for row in rows:
        if 'load_ms' in row:
            print(f'{row["workload"]} by {row["contender"]}: {row["fetch_ms"]:.1f} ms to fetch its files by 200 Mbit/s, '
                  f'{row["load_ms"]:.1f} ms to be ready, {row["reload_ms"]:.1f} ms again')
        if 'host' in row:
            print(f'{row["workload"]} by {row["contender"]} {row["version"]} on {row["adapter"]}: {row["host"]}')
        if 'round_trips_ms' in row:
            print(f'{row["workload"]} takes {row["median_ms"] / row["round_trips_ms"]:.2f} of the time of as many round trips')
        if 'executable_ms' in row:
            print(f'{row["workload"]} takes {row["median_ms"] / row["executable_ms"]:.2f} of the time of a run of its executable')
    if speed:
        print(f'Copying memory moves {speed:.1f} GB/s. GB/s counts what must be moved at least: operands and results, once.')
    print('CPU is what all threads of a process use for one run, whatever else the machine does; who polls uses it, too.')
    print('The error is the largest difference from a result in double precision.')


def print_machine(when):
    name = 'processor of an unknown kind'
    try:
        with open('/proc/cpuinfo', encoding='utf-8') as file:
            name = next((line.partition(':')[2].strip() for line in file if line.startswith('model name')), name)
    except OSError:
        pass
    count = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    busy = ' (busy with other things: times are too long)' if when == 'before' and load > 0.5 * count else ''
    print(f'{count} × {name}; load {when}: {load:.1f}{busy}')


def choose(workloads, patterns):
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(workload['name'], pattern) for workload in workloads):
            sys.exit(usage_error(f'there is no workload “{pattern}”; --list lists them'))
    return [workload for workload in workloads
            if not patterns or any(fnmatch.fnmatchcase(workload['name'], pattern) for pattern in patterns)]


def usage_error(text):
    print(f'bench: {text}', file=sys.stderr)
    return 2


def parse(arguments):
    parser = argparse.ArgumentParser(prog='bench', description=__doc__.strip(), allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--programs', required=True, metavar='FOLDER', help='where the programs are: tests/bench of a build')
    parser.add_argument('--peers', action='store_true',
                        help='measure others too: bare Dawn, OpenBLAS, ONNX Runtime on the CPU and on WebGPU, and the Rust '
                             'crate rlx-wgpu; what is called web-* in JavaScript, in Node.js and in Chromium; and what '
                             '`./dev peers` has fetched')
    parser.add_argument('--only', nargs='+', action='extend', default=[], metavar='NAME',
                        help='measure these; * and ? are patterns')
    parser.add_argument('--processes', type=int, default=5, metavar='N', help='how many processes measure each (5)')
    parser.add_argument('--seconds', type=float, default=0.5, metavar='S', help='how long each of them measures (0.5)')
    parser.add_argument('--json', metavar='FILE', help='write the results to this file')
    parser.add_argument('--chart', metavar='FILE', help='where to write the chart (bench.svg beside the programs)')
    parser.add_argument('--data', metavar='FOLDER', help='where the numbers are (beside the programs)')
    parser.add_argument('--list', action='store_true', help='list the workloads')
    options = parser.parse_args(arguments)
    if not 1 <= options.processes <= 1000 or not 0 <= options.seconds <= 3600:
        sys.exit(usage_error('--processes can be 1 to 1000, --seconds 0 to 3600'))
    return options


def main(arguments):
    options = parse(arguments)
    bench = Bench(options)
    if options.list:
        for workload in bench.workloads:
            print(f'{workload["name"]:<20} {workload["what"]}')
        return 0
    print_machine('before')
    bench.find_contenders(options.peers)
    print_heading()
    with tempfile.TemporaryDirectory(prefix='rlx-bench-') as bench.temporary:
        try:
            for workload in bench.workloads:
                bench.measure(workload)
        except NoAdapter as failure:
            print(f'bench: {failure}', file=sys.stderr)
            return NO_ADAPTER
    print_memory(bench.rows)
    print_notes(bench.rows)
    print_machine('after')
    for skipped in bench.skipped:
        print(f'skipped {skipped}')
    for workload, contender, failure in bench.failures:
        print(f'failed {workload} by {contender}: {failure}')
    if options.json:
        with open(options.json, 'w', encoding='utf-8') as file:
            json.dump(bench.rows, file, indent=1)
            file.write('\n')
    path = options.chart or os.path.join(options.programs, 'bench.svg')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(chart.draw(bench.rows))
    print(f'chart: {path}')
    return 1 if any(contender == 'rlx' for _, contender, _ in bench.failures) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
