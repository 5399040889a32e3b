# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""That the benchmarks measure, check what they measure, and report it. No times are tested.

Usage: test-bench.py FOLDER, which contains the programs"""
import contextlib
import io
import json
import os
import subprocess
import sys
import xml.dom.minidom

import tap

programs = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import bench
import chart
import onnx_model
import rlx_rust
import signals
import web

OK, FAILED, USAGE = 0, 1, 2
data = os.path.join(tap.folder, 'data')
results = os.path.join(tap.folder, 'results.json')
picture = os.path.join(tap.folder, 'bench.svg')
common = ['--data', data, '--processes', '1', '--seconds', '0.02', '--json', results, '--chart', picture]


def run(*arguments, status=OK):
    done = tap.run([sys.executable, '-B', os.path.join(here, 'bench.py'), '--programs', programs, *arguments])
    if done.returncode == bench.NO_ADAPTER:
        tap.skip(done.stderr.strip())
    tap.equal(done.returncode, status, f'the status of {arguments}, which said {done.stderr!r}')
    return done


def measure(*arguments, status=OK):
    for path in results, picture:
        if os.path.exists(path):
            os.unlink(path)
    done = run(*common, *arguments, status=status)
    with open(results, encoding='utf-8') as file:
        return done, json.load(file)


def start_once(contender, workload, folder):
    """The output of a single process, whose result has to be right."""
    contender.bench.make_data(workload)
    measurement = bench.Measurement(workload, contender)
    output = os.path.join(folder, 'output')
    try:
        result = contender.start(workload, output, folder)
    except bench.NoAdapter as why:
        tap.skip(str(why))
    measurement.check(output)
    return result


@tap.test
def rows():
    done, rows = measure('--only', 'tiny-roundtrip')
    tap.equal(len(rows), 1, 'the number of rows')
    row = rows[0]
    tap.equal([row['workload'], row['contender'], row['processes'], row['checked']], ['tiny-roundtrip', 'rlx', 1, True])
    tap.check(0 < row['min_ms'] <= row['median_ms'] <= row['max_ms'] < 60000, f'times make no sense: {row}')
    tap.equal(row['max_error'], 0, 'the error of a sum of two equal numbers')
    tap.contains(done.stdout, 'tiny-roundtrip', 'the table')
    xml.dom.minidom.parse(picture)


@tap.test
def chain():
    done, rows = measure('--only', 'chain-100')
    tap.check(0 < rows[0]['median_ms'] and 0 < rows[0]['round_trips_ms'], f'times make no sense: {rows[0]}')
    tap.contains(done.stdout, 'of the time of as many round trips', 'the notes')


@tap.test
def apply():
    done, rows = measure('--only', 'apply')
    tap.check(0 < rows[0]['median_ms'] and 0 < rows[0]['executable_ms'], f'times make no sense: {rows[0]}')
    tap.contains(done.stdout, 'of the time of a run of its executable', 'the notes')


@tap.test
def weights():
    done = subprocess.run([os.path.join(programs, 'rlx-bench-weights'), '--megabytes=4', '--folder', tap.folder],
                          stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 77:
        tap.skip('there is no adapter')
    tap.equal(done.returncode, 0, 'the exit status')
    for words in 'safetensors', 'GGUF', 'into new memory', 'two executables':
        tap.contains(done.stdout, words, 'the table')
    tap.check(not [name for name in os.listdir(tap.folder) if name.startswith('weights')], 'files are left')


@tap.test
def several_processes():
    _, rows = measure('--only', 'tiny-*', '--processes', '2')
    tap.equal(rows[0]['processes'], 2, 'the number of processes')


@tap.test
def bare_calls():
    """Another contender, which is always available, does the same work."""
    settings = bench.parse(['--programs', programs, *common])
    bench_ = bench.Bench(settings)
    contender = bench.Dawn('dawn', bench_)
    workload = next(workload for workload in bench_.workloads if workload['name'] == 'tiny-roundtrip')
    tap.check(start_once(contender, workload, tap.folder)['ms'] > 0, 'there is no time')


@tap.test
def in_javascript():
    """Exports for browsers take part, too, if Node.js and its package are available."""
    bench_ = bench.Bench(bench.parse(['--programs', programs, *common, '--only', 'web-encoder']))
    contender = web.Node('rlx-node', bench_, 'rlx')
    try:
        contender.prepare()
    except bench.Failure as why:
        tap.skip(str(why))
    bench_.temporary = tap.path('web')
    os.mkdir(bench_.temporary)
    workload, = bench_.workloads
    result = start_once(contender, workload, bench_.temporary)
    tap.check(all(result[name] > 0 for name in ('ms', 'load_ms', 'reload_ms', 'fetch_ms')), f'times make no sense: {result}')


@tap.test
def in_rust():
    """The crate takes part if `./dev bench --peers` has built its program; building it takes too long for a test."""
    if not os.path.exists(rlx_rust.program()):
        tap.skip('the program of the crate was not built')
    bench_ = bench.Bench(bench.parse(['--programs', programs, *common, '--only', *rlx_rust.WORKLOADS]))
    contender = rlx_rust.RlxRust('rlx-rust', bench_)
    tap.equal([workload['name'] for workload in bench_.workloads if not contender.takes(workload)], [], 'what it does not take')
    workload = next(workload for workload in bench_.workloads if workload['name'] == 'layer-norm')
    result = start_once(contender, workload, tap.folder)
    tap.check(result['ms'] > 0 and result['cpu_ms'] > 0, f'times make no sense: {result}')
    tap.check(result['host'] and result['version'], f'what the crate says is missing: {result}')


@tap.test
def staying():
    """Runs with data on the device, and a library that does the same in memory, if it is available."""
    _, rows = measure('--only', 'top-k-8')
    tap.equal([rows[0]['workload'], rows[0]['checked'], rows[0]['max_error']], ['top-k-8', True, 0])
    tap.check(0 < rows[0]['median_ms'] and 0 < rows[0]['cpu_ms'], f'times make no sense: {rows[0]}')
    bench_ = bench.Bench(bench.parse(['--programs', programs, *common, '--only', 'top-k-8']))
    contender = signals.Library('torch', bench_)
    try:
        contender.prepare()
    except bench.Failure as why:
        tap.skip(str(why))
    workload, = bench_.workloads
    measurement = bench.Measurement(workload, contender)
    output = os.path.join(tap.folder, 'output')
    tap.check(contender.start(workload, output, tap.folder)['ms'] > 0, 'there is no time')
    measurement.check(output)


@tap.test
def packed_weights():
    """The library agrees with data.c about packed blocks."""
    _, rows = measure('--only', 'gemv-q4k')
    tap.equal([row['contender'] for row in rows], ['rlx'], 'who did it')


@tap.test
def start():
    """From the start of a process to the first result, by an external clock."""
    _, rows = measure('--only', 'warm-start-tiny')
    row = rows[0]
    tap.equal([row['workload'], row['checked'], row['dispatches']], ['warm-start-tiny', True, 1])
    tap.check(row['median_ms'] > 1, f'no process starts that fast: {row}')


@tap.test
def wrong_result():
    """A time with a wrong result is rejected."""
    measure('--only', 'tiny-roundtrip')
    path = os.path.join(data, 'tiny-roundtrip.expected')
    with open(path, 'r+b') as file:
        file.seek(3)
        file.write(b'\x7e')
    done, rows = measure('--only', 'tiny-roundtrip', status=FAILED)
    tap.equal(rows, [], 'the rows')
    tap.contains(done.stdout, 'wrong result')
    os.unlink(path)


@tap.test
def comparing():
    nan, infinity = float('nan'), float('inf')
    for expected, got, error in (([1, 2], [1, 2], 0), ([1, 2], [1, 2.5], 0.5), ([1, 2], [1], infinity), ([nan], [1], infinity),
                                 ([1], [nan], infinity), ([1, 2], [nan, 2], infinity), ([1], [infinity], infinity),
                                 ([infinity], [infinity], infinity), ([], [], 0)):
        tap.equal(bench.largest_error(expected, got), error, f'the error of {got} for {expected}')


@tap.test
def missing_peer():
    """A missing one is listed, with the reason."""
    def fail():
        raise bench.Failure('it is not there')

    peers = bench.OpenBlas, bench.OnnxRuntime, rlx_rust.RlxRust, web.Web, signals.VkFft, signals.Library
    original = [peer.prepare for peer in peers]
    for peer in peers:
        peer.prepare = lambda self: fail()
    try:
        bench_ = bench.Bench(bench.parse(['--programs', programs]))
        with contextlib.redirect_stdout(io.StringIO()) as said:
            bench_.find_contenders(True)
    finally:
        for peer, prepare in zip(peers, original):
            peer.prepare = prepare
    tap.contains(said.getvalue(), 'skipped ort-webgpu: it is not there')
    # the library twice: with graphs built here, and with model files
    tap.equal([contender.name for contender in bench_.contenders], ['rlx', 'rlx', 'memcpy', 'dawn'])
    tap.equal(bench_.skipped, [f'{name}: it is not there' for name in (
        'openblas', 'ort-cpu', 'ort-webgpu', 'rlx-rust', 'rlx-node', 'ort-node', 'rlx-chromium', 'ort-chromium', 'vkfft', 'scipy',
        'numpy', 'torch', 'sklearn')])


@tap.test
def arguments():
    listed = run('--list').stdout
    for name in ('matmul-512', 'matmul-1024', 'matmul-384x384x1536', 'matmul-128x768x3072', 'matmul-500x499x501', 'matmul-512-f16',
                 'gemv-4096-f32', 'gemv-4096-f16', 'matmul-q4k', 'gemv-q4k', 'bert-layer', 'minilm-b1', 'minilm-b8', 'bert-base-b1', 'attention-4096', 'softmax',
                 'layer-norm', 'elementwise', 'transpose', 'reduce', 'gather', 'conv3x3', 'resnet-block', 'tiny-roundtrip',
                 'cold-start-minilm', 'warm-start-minilm', 'compile-minilm', 'web-encoder', 'web-minilm', 'fft-1024', 'log-mel',
                 'selective-scan', 'delta-net', 'knn', 'top-k-40'):
        tap.contains(listed, f'\n{name} ' if name != 'tiny-roundtrip' else name, 'the list')
    for wrong in (['--only', 'nothing'], ['--processes', '0'], ['--seconds', '-1'], ['--seconds', 'nan'], ['--nothing']):
        done = run(*wrong, status=USAGE)
        tap.check(done.stderr, f'{wrong}: no message')


def read_message(data):
    """The fields of a protobuf message, by number."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 5:
            value, at = data[at:at + 4], at + 4
        else:
            tap.equal(key & 7, 2, 'the wire type')
            length = varint()
            tap.check(at + length <= len(data), 'a field ends behind its message')
            value, at = data[at:at + length], at + length
        fields.setdefault(key >> 3, []).append(value)
    return fields


@tap.test
def models():
    """Every name in a model is an input, a constant or an earlier result, and there is a model for each workload."""
    bench_ = bench.Bench(bench.parse(['--programs', programs]))
    for workload in bench_.workloads:
        for provider in ('cpu', 'webgpu') if onnx_model.has_model(workload) else ():
            with open(onnx_model.write_model(workload, tap.folder, provider), 'rb') as file:
                graph = read_message(read_message(file.read())[7][0])
            known = {read_message(value)[1][0] for value in graph[11]}
            for value in map(read_message, graph.get(5, [])):
                known.add(value[8][0])
                size = {1: 4, 7: 8, 10: 2}[value[2][0]]
                for n in value.get(1, []):
                    size *= n
                entries = {entry[1][0]: entry[2][0] for entry in map(read_message, value.get(13, []))}
                tap.equal(int(entries[b'length']) if entries else len(value[9][0]), size, f'the size of {value[8][0]}')
            for node in map(read_message, graph[1]):
                for name in node[1]:
                    tap.check(name in known, f'{workload["name"]}: {name} comes from nowhere')
                known.update(node[2])
            tap.check(read_message(graph[12][0])[1][0] in known, f'{workload["name"]}: there is no result')


@tap.test
def charts():
    xml.dom.minidom.parseString(chart.draw([]))
    row = {'workload': '<&>', 'contender': 'rlx', 'median_ms': 5, 'min_ms': 5, 'max_ms': 5}
    text = chart.draw([row, dict(row, contender='other', min_ms=0.0001, median_ms=123456, max_ms=1e6)])
    document = xml.dom.minidom.parseString(text)
    tap.check(len(document.getElementsByTagName('rect')) >= 5, 'bars are missing')


tap.main('bench')
