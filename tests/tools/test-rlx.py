# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The `rlx` command: every subcommand, with valid and invalid arguments.

Usage: test-rlx.py RLX"""
import base64
import contextlib
import json
import math
import os
import pty
import re
import struct
import subprocess
import sys
import xml.etree.ElementTree
import zlib

import tap
from command import FAILED, NO_ADAPTER, OK, USAGE, npy, parse, refused, rlx, run

graph = tap.write('graph.rlx', '''rlx 1
%0 = input "x" f32[2, 3]
%1 = parameter "w" f32[3, 2]
%2 = matmul(%0, %1)
%3 = relu(%2)
output "y" %3
''')
simple = tap.write('simple.rlx', '''rlx 1
%0 = input "x" f32[4]
%1 = constant f32[] [2]
%2 = mul(%0, %1)
%3 = log(%0)
output "twice" %2
output "log" %3
''')


x = npy('x.npy', '<f4', (2, 3), struct.pack('<6f', 1, 2, 3, -4, -5, -6))
w = npy('w.npy', '<f4', (3, 2), struct.pack('<6f', 1, 0, 0, 1, 1, 1))
four = npy('four.npy', '<f4', (4,), struct.pack('<4f', 1, 0, -1, 4))


# --- the command itself ----------------------------------------------------------------------------------------------


@tap.test
def help_and_version():
    for option in '--help', '-h', 'help':
        text = run(option).stdout
        for command in 'devices', 'targets', 'calibrate', 'verify', 'ops', 'demo', 'run', 'bench', 'compile', 'profile', 'spectrum', 'dot':
            tap.contains(text, command)
            tap.contains(run(command, '--help').stdout, 'Usage:')
    tap.check(re.fullmatch(r'rlx \d+\.\d+\.\d+\n', run('--version').stdout), 'the version is no version')


@tap.test
def wrong_usage():
    done = run(status=USAGE, silent=False)
    tap.contains(done.stdout + done.stderr, 'Usage')
    refused('“nothing”', 'nothing', status=USAGE)
    refused('nothing', 'devices', '--nothing', status=USAGE)
    refused('too many', 'devices', 'x', status=USAGE)
    refused('too many', 'calibrate', 'x', status=USAGE)
    refused('too many', 'ops', 'add', 'sub', status=USAGE)
    for command in 'run', 'bench', 'compile', 'profile', 'dot':
        refused('missing', command, status=USAGE)
        refused('too many', command, graph, graph, status=USAGE)
    refused('--runs', 'bench', graph, '--runs', '0', status=USAGE)
    refused('--runs', 'bench', graph, '--runs', '-5', status=USAGE)
    refused('999999999999', 'bench', graph, '--runs', '999999999999', status=USAGE)
    for command in 'bench', 'compile':
        refused('“half”; it can be full, reduced or integer', command, graph, '--precision', 'half', status=USAGE)


@tap.test
def completion():
    tap.equal(run('--complete').stdout.split(), ['devices', 'targets', 'calibrate', 'verify', 'ops', 'demo', 'info', 'convert', 'embed', 'run', 'bench', 'compile', 'export', 'profile', 'spectrum', 'dot'], 'the commands')
    names = run('--complete', 'ops').stdout.split()
    tap.check('matmul' in names and 'attention' in names, 'operators are missing')
    tap.equal(run('--complete', 'run').stdout, '', 'what follows run')


# --- subcommands -----------------------------------------------------------------------------------------------------


@tap.test
def devices():
    text = run('devices').stdout
    tap.contains(text, '0: ')
    tap.contains(text, '(default)')
    tap.contains(run('devices', '-v').stdout, 'max-buffer-size')
    found = parse(run('devices', '--json').stdout)
    tap.check(len(found) > 0, 'there are none')
    for adapter in found:
        for key in 'index', 'name', 'vendor', 'driver', 'backend', 'type', 'features', 'memory', 'limits':
            tap.check(key in adapter, f'there is no {key}')
        tap.check(adapter['backend'] != 'null', 'the backend computes nothing')
        tap.check('calibration' not in adapter, 'somebody calibrated where tests run')


@tap.test
def calibrate():
    # Other tests must not see the measurements.
    own = {'XDG_CACHE_HOME': tap.path('calibrated'), 'MESA_SHADER_CACHE_DIR': os.environ.get('XDG_CACHE_HOME')}
    # On a machine that is too busy for measurements it says so.
    for _ in range(5):
        done = subprocess.run([rlx, 'calibrate', '--json'], env=dict(os.environ, **own), capture_output=True, text=True)
        if done.returncode == OK:
            break
        tap.equal(done.returncode, FAILED, 'the status')
        tap.contains(done.stderr, 'when it is idle', 'the message')
    tap.equal(done.stderr, '', 'the standard error output')
    found = parse(done.stdout)
    tap.equal(found['stored'], True, 'whether it is stored')
    figures = found['calibration']
    for key in 'flops', 'flops_f16', 'bandwidth', 'transfer_rate', 'dispatch_time', 'round_trip_time':
        tap.check(figures[key] > 0, f'{key} is {figures[key]}')
    kernels = figures['kernels']
    tap.equal(figures['flops'], max(kernel['flops'] for kernel in kernels if kernel['family'] == 'product'), 'the best')
    tap.equal([kernel for kernel in kernels if kernel['wrong'] or not kernel['time'] > 0], [], 'the wrong ones')
    families = {kernel['family'] for kernel in kernels}
    tap.check({'product', 'conv', 'attention', 'norm', 'sort', 'copy'} <= families, f'there are {families}')
    default = [adapter for adapter in parse(run('devices', '--json', env=own).stdout) if adapter['name'] == found['adapter']]
    tap.equal(default[0]['calibration'], figures, 'what is stored')
    tap.check(figures['spread'] >= 1, f'the spread is {figures["spread"]}')
    tap.check(found['file'].startswith(own['XDG_CACHE_HOME'] + '/') and os.path.isfile(found['file']),
              f'it is not in {found["file"]}')
    text = run('devices', '-v', env=own).stdout
    for unit in 'GFLOPS', 'GB/s', 'µs':
        tap.contains(text, unit)
    tap.contains(run('devices', '-v').stdout, 'not calibrated')

    # Progress is only for terminals: the calls above would not have been silent otherwise.
    ours, theirs = pty.openpty()
    with (open(tap.path('figures'), 'w', encoding='utf-8') as figures,
          subprocess.Popen([rlx, 'calibrate'], env=dict(os.environ, **own), stdout=figures, stderr=theirs) as process):
        os.close(theirs)
        shown = b''
        with contextlib.suppress(OSError):  # raised when the other side is closed
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    busy = b'when it is idle' in shown
    tap.equal(process.returncode, FAILED if busy else OK, 'the status')
    with open(tap.path('figures'), encoding='utf-8') as figures:
        text = figures.read()
    tap.check(busy or f'stored in {found["file"]}\n' in text, f'it is kept somewhere else: {text!r}')
    percents = [int(found) for found in re.findall(rb'(\d+) %  [a-z]', shown)]
    tap.check(len(percents) > 4 and percents[0] == 0 and percents == sorted(percents), f'the progress {shown!r}')
    tap.check(busy or shown.endswith(b'\r\x1b[K'), 'something is left on the line')

    tap.contains(run('calibrate', '--forget', env=own).stdout, 'its measurements were deleted')
    tap.check(not os.path.exists(found['file']), 'the file is still there')
    tap.equal(parse(run('calibrate', '--forget', '--json', env=own).stdout)['forgotten'], False, 'what there was to forget')
    tap.contains(run('devices', '-v', env=own).stdout, 'not calibrated')


@tap.test
def tune():
    own = {'XDG_CACHE_HOME': tap.path('tuned'), 'MESA_SHADER_CACHE_DIR': os.environ.get('XDG_CACHE_HOME')}
    product = tap.write('product.rlx', 'rlx 1\n%0 = input "a" f32[96, 64]\n%1 = input "b" f32[64, 160]\n%2 = matmul(%0, %1)\noutput "y" %2\n')
    for command in 'compile', 'bench', 'run':
        tap.contains(run(command, '--help').stdout, '--tune')

    def count():
        return max(adapter['tuned_problems'] for adapter in parse(run('devices', '--json', env=own).stdout))

    run('compile', product, env=own)
    tap.equal(count(), 0, 'the problems that were tuned without being asked')
    first = run('compile', '--tune', '--wgsl', product, env=own).stdout
    tap.equal(count(), 1, 'the problems that were tuned')
    tap.equal(run('compile', '--tune', '--wgsl', product, env=own).stdout, first, 'the kernels with the same cache')
    run('bench', '--tune', '-n', '1', product, env=own)
    tap.equal(count(), 1, 'the problems that were tuned')
    tap.contains(run('devices', '-v', env=own).stdout, 'problems tuned')
    tap.check('problems tuned' not in run('devices', '-v').stdout, 'somebody tuned where tests run')


@tap.test
def operators():
    found = parse(run('ops', '--json').stdout)
    names = [op['name'] for op in found]
    tap.equal(len(names), len(set(names)), 'the number of different names')
    tap.check(len(names) > 80, f'there are only {len(names)}')
    text = run('ops').stdout
    for name in names:
        tap.contains(text, f'\n  {name} ')
    for name in 'matmul', 'clamp', 'input', 'attention':
        tap.contains(run('ops', name).stdout, f'{name}: ')
        tap.equal(parse(run('ops', name, '--json').stdout)['name'], name, 'the name')
    conv = parse(run('ops', 'conv', '--json').stdout)
    layout = next(attribute for attribute in conv['attributes'] if attribute['name'] == 'layout')
    tap.equal([value['name'] for value in layout['values']], ['channels-first', 'channels-last'], 'the values of an enumeration')
    tap.check(all(value['doc'] for op in found for a in op['attributes'] for value in a.get('values', [])),
              'a value has no meaning')
    tap.none((a['name'] for op in found for a in op['attributes'] if a['type'] == 'enum' and not a['values']), 'has no values')
    text = ' '.join(run('ops', 'conv').stdout.split())
    for words in conv['doc'], conv['example'], *(value['name'] + ': ' + value['doc'] for value in layout['values']):
        tap.contains(text, words)
    tap.none((op['name'] for op in found if '@' in str(op)), 'has a link of the manual')
    refused('did you mean “matmul”?', 'ops', 'matmu')
    refused('nothing', 'ops', 'nothing')
    refused('', 'ops', '')
    refused('', 'ops', 'a' * 5000)


@tap.test
def demo():
    done = run('demo')
    for words in 'adapter', 'driver', 'dispatches', 'banks', 'arena bytes', 'weight bytes', 'kernel matmul', 'compile', 'correct':
        tap.contains(done.stdout, words)


@tap.test
def demo_json():
    found = parse(run('demo', '--json').stdout)
    tap.equal(found['pass'], True, 'the verdict')
    tap.check(0 < found['max_error'] <= found['bound'], f'the error is {found["max_error"]}')
    for key in 'dispatches', 'banks', 'arena-bytes', 'weight-bytes', 'kernels':
        tap.check(found['plan'][key], f'there is no {key}')
    tap.check(found['median_ms'] > 0 and found['compile_ms'] > 0, 'no time went by')


@tap.test
def run_and_print():
    text = run('run', graph, '--input', f'x={x}', '--parameter', f'w={w}').stdout
    tap.equal(text, 'y = [4, 5, 0, 0]\n', 'the result')
    # from the standard input, with short options
    with open(graph, encoding='utf-8') as file:
        again = run('run', '-', '-i', f'x={x}', '-p', f'w={w}', stdin=file.read()).stdout
    tap.equal(again, text, 'the result')


@tap.test
def run_and_save():
    numpy = __import__('numpy')
    y = tap.path('out.npy')
    done = run('run', graph, '-i', f'x={x}', '-p', f'w={w}', '-o', f'y={y}')
    tap.equal(done.stdout, '', 'what is printed')
    saved = numpy.load(y, allow_pickle=False)
    tap.equal((str(saved.dtype), saved.tolist()), ('float32', [[4, 5], [0, 0]]), 'the result')


@tap.test
def run_with_arrays_of_numpy():
    """Every type, a Fortran order and an empty one, as written by numpy itself."""
    numpy = __import__('numpy')
    for name, dtype in ('f32', 'float32'), ('f16', 'float16'), ('i32', 'int32'), ('u32', 'uint32'), ('i8', 'int8'), ('u8', 'uint8'), ('i64', 'int64'):
        for shape in (2, 3), (0, 3), ():
            text = f'rlx 1\n%0 = input "x" {name}{list(shape)}\n%1 = add(%0, %0)\noutput "y" %1\n'
            value = numpy.asarray(numpy.arange(int(numpy.prod(shape)), dtype=dtype).reshape(shape), order='F')
            numpy.save(tap.path('in.npy'), value)
            run('run', '-', '-i', f'x={tap.path("in.npy")}', '-o', f'y={tap.path("out.npy")}', stdin=text)
            got = numpy.load(tap.path('out.npy'), allow_pickle=False)
            tap.equal((got.shape, str(got.dtype), got.tolist()), (shape, dtype, (value + value).tolist()), f'{name}{list(shape)}')


@tap.test
def run_values():
    graph = tap.write('values.rlx', 'rlx 1\n%0 = input "x" f32[4]\n%1 = mul(%0, %0)\n%2 = log(%0) "bad"\n%3 = exp(%2)\noutput "y" %3\n')
    done = run('run', graph, '-i', f'x={four}', '--values', silent=False)
    tap.check(done.stdout.startswith('y = ') and 'values' not in done.stdout, done.stdout)
    lines = done.stderr.splitlines()
    tap.equal(len(lines), 6, 'lines')
    tap.equal(lines[2].split()[:4], ['16', '4.5', '0', '0'], 'the square')
    tap.equal(lines[3].split()[2:4], ['1', '1'], 'the logarithm')
    tap.check(lines[5].startswith('the first that is not finite: %2 = log(%0) "bad"'), lines[5])


@tap.test
def debug_values():
    """RLX_DEBUG=values reports the same, as found by the device."""
    graph = tap.write('values.rlx', 'rlx 1\n%0 = input "x" f32[4]\n%1 = mul(%0, %0)\n%2 = log(%0) "bad"\n%3 = exp(%2)\n'
                      '%4 = constant i32[3] [1, 2, -6]\n%5 = cast(%4) {to = f32}\n%6 = reduce_sum(%5) {axes = [0]}\n%7 = add(%3, %6)\n'
                      '%8 = add(%7, %1)\noutput "y" %8\n')
    done = run('run', graph, '-i', f'x={four}', silent=False, env={'RLX_DEBUG': 'values'})
    lines = [line.partition('[values] ')[2] for line in done.stderr.splitlines()]
    figures = [line.split()[1:8:2] for line in lines[:-1]]
    tap.equal(len(lines), 10, 'lines')
    tap.equal(figures[1], ['16', '4.5', '0', '0'], 'the square')
    tap.equal(figures[2][2:], ['1', '1'], 'the logarithm')
    tap.equal(figures[4], ['6', '-1', '0', '0'], 'a constant')
    tap.check(lines[2].endswith('%2 = log “bad” : f32[4]'), lines[2])
    tap.equal(lines[-1], 'the first that is not finite: %2 = log “bad” : f32[4]', 'the first')


@tap.test
def run_checked():
    graph = tap.write('checked.rlx', 'rlx 1\n%0 = input "x" f32[4]\n%1 = cast(%0) {to = i32}\n%2 = constant i32[4] [9, 8, 7, 6]\n'
                      '%3 = constant f32[4] [0, 1, 2, 3]\n%4 = mul(%1, %2)\n%5 = gather(%3, %4) {axis = 0} "pick"\noutput "y" %5\n')
    run('run', graph, '-i', f'x={four}')
    for arguments, env in (['--checked'], {}), ([], {'RLX_DEBUG': 'checked'}):
        refused('gather “pick”: indices[0] is 9; it can be -4 to 3', 'run', graph, '-i', f'x={four}', *arguments, env=env)



@tap.test
def profile_command():
    graph = tap.write('profile.rlx', 'rlx 1\n%0 = input "x" f32[8,8]\n%1 = parameter "w" f32[8,8]\n%2 = matmul(%0, %1) "a < b"\n'
                      '%3 = softmax(%2) {axis = -1}\noutput "y" %3\n')
    lines = run('profile', graph, '-n', '2').stdout.splitlines()
    tap.equal(len(lines), 2, 'steps')
    tap.check(any('matmul a < b' in line for line in lines), lines)
    picture = tap.path('profile.svg')
    run('profile', graph, '-o', picture)
    root = xml.etree.ElementTree.parse(picture).getroot()
    tap.equal(len(root.findall('{http://www.w3.org/2000/svg}rect')), 3, 'a background and two bars')
    tap.check('matmul a < b' in [text.text for text in root.findall('{http://www.w3.org/2000/svg}text')], 'no label')
    tap.check('--runs' in run('profile', graph, '-n', '0', status=2).stderr, 'no message')


@tap.test
def run_shows_progress():
    """On a terminal a long run has a progress bar, which leaves nothing behind; elsewhere it is silent."""
    lines = ['rlx 1', '%0 = input "x" f32[256,256]', *(f'%{i + 1} = matmul(%{i}, %0)' for i in range(400)), 'output "y" %400']
    long = tap.write('long.rlx', '\n'.join(lines) + '\n')
    x, y = npy('long.npy', '<f4', (256, 256), bytes(256 * 256 * 4)), tap.path('y.npy')
    ours, theirs = pty.openpty()
    with subprocess.Popen([rlx, 'run', long, '-i', f'x={x}', '-o', f'y={y}'], stderr=theirs) as process:
        os.close(theirs)
        shown = b''
        with contextlib.suppress(OSError):  # raised when the other side is closed
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    tap.equal(process.returncode, OK, 'the status')
    percents = [int(found) for found in re.findall(rb'\] +(\d+) %  running', shown)]
    tap.check(len(percents) > 1 and percents == sorted(percents), f'the progress {shown!r}')
    tap.check(shown.endswith(b'\r\x1b[K'), 'something is left on the line')
    tap.equal(run('run', long, '-i', f'x={x}', '-o', f'y={y}').stderr, '')


def wav(name, samples, rate=16000, kind=1, bits=16, channels=1, data=None):
    """A mono sound, or one with the given data."""
    data = struct.pack(f'<{len(samples)}h', *samples) if data is None else data
    width = bits // 8 * channels
    form = struct.pack('<HHIIHH', kind, channels, rate, rate * width, width, bits)
    odd = b'LIST' + struct.pack('<I', 3) + b'abc\0'
    body = b'WAVE' + b'fmt ' + struct.pack('<I', len(form)) + form + odd + b'data' + struct.pack('<I', len(data)) + data
    path = tap.path(name)
    with open(path, 'wb') as file:
        file.write(b'RIFF' + struct.pack('<I', len(body)) + body)
    return path


@tap.test
def spectrum():
    """A tone of 1000 Hz is a line at its height, which is drawn in a picture; all sample formats agree."""
    tone = [math.sin(2 * math.pi * 1000 * i / 16000) / 2 for i in range(4000)]
    sound = wav('tone.wav', [int(32767 * v) for v in tone])
    picture = tap.path('tone.png')
    told = parse(run('spectrum', '--json', '--bins', '40', '-o', picture, sound).stdout)
    tap.equal((told['frames'], told['bins'], told['rate']), (25, 40, 16000))
    with open(picture, 'rb') as file:
        data = file.read()
    tap.equal(data[:8], b'\x89PNG\r\n\x1a\n')
    at, rows = 8, b''
    while at < len(data):
        size, = struct.unpack('>I', data[at:at + 4])
        kind, body, = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        tap.equal(struct.unpack('>I', data[at + 8 + size:at + 12 + size])[0], zlib.crc32(kind + body), f'the sum of {kind}')
        if kind == b'IHDR':
            tap.equal(struct.unpack('>IIBBBBB', body), (25, 40, 8, 0, 0, 0, 0))
        rows += body if kind == b'IDAT' else b''
        at += 12 + size
    rows = zlib.decompress(rows)
    tap.equal(len(rows), 40 * 26)
    bright = max(range(40), key=lambda y: rows[y * 26 + 13])
    # 1000 Hz are 15 of 45.25 mels, which are divided into 41 steps
    tap.check(abs(39 - bright - (15 / 45.245 * 41 - 1)) <= 1, f'the line is in row {bright}')

    for name, kind, bits, data in (('byte', 1, 8, bytes(int(127 * v + 128) for v in tone)),
                                   ('long', 1, 24, b''.join(struct.pack('<i', int(2 ** 31 * v))[1:] for v in tone)),
                                   ('float', 3, 32, struct.pack('<4000f', *tone)), ('double', 3, 64, struct.pack('<4000d', *tone))):
        other = parse(run('spectrum', '--json', '--bins', '40', wav(f'{name}.wav', [], kind=kind, bits=bits, data=data)).stdout)
        tap.check(abs(other['most'] - told['most']) < 0.01, f'{name}: {other}')
    stereo = struct.pack('<8000h', *(int(32767 * v) for v in tone for _ in range(2)))
    tap.equal(parse(run('spectrum', '--json', wav('stereo.wav', [], channels=2, data=stereo)).stdout)['frames'], 25)


@tap.test
def spectrum_refuses():
    refused('not a WAV file', 'spectrum', graph, status=FAILED)
    refused('No such file', 'spectrum', tap.path('none.wav'), status=FAILED)
    refused('0 channels', 'spectrum', wav('a.wav', [0] * 4000, channels=0), status=FAILED)
    refused('12 bits', 'spectrum', wav('b.wav', [0] * 4000, bits=12), status=FAILED)
    refused('per second', 'spectrum', wav('c.wav', [0] * 4000, rate=0), status=FAILED)
    refused('10 ms', 'spectrum', wav('d.wav', [0] * 9), status=FAILED)
    refused('10 ms', 'spectrum', wav('e.wav', [0] * 9, rate=1), status=FAILED)
    refused('not finite', 'spectrum', wav('f.wav', [], kind=3, bits=32, data=struct.pack('<f', float('nan')) * 4000), status=FAILED)
    refused('--bins', 'spectrum', '--bins', '0', wav('g.wav', [0] * 4000), status=USAGE)
    whole = open(wav('h.wav', [0] * 4000), 'rb').read()
    for size in 0, 4, 11, 12, 20, 30, 43, 50, 60:
        path = tap.path('cut.wav')
        with open(path, 'wb') as file:
            file.write(whole[:size])
        refused('cut.wav', 'spectrum', path, status=FAILED)


@tap.test
def dot_draws():
    """Every node is in the picture, and every edge."""
    graph = tap.write('draw.rlx', 'rlx 1\n%0 = input "x" f32[8]\n%1 = parameter "w" f32[8]\n%2 = mul(%0, %1) "a < b"\n%3 = relu(%2)\n'
                      '%4 = add(%3, %0)\n%5 = mul(%4, %4)\noutput "y" %5\n')
    picture = tap.path('draw.svg')
    tap.equal(run('dot', graph, '-o', picture).stdout, '')
    root = xml.etree.ElementTree.parse(picture).getroot()
    svg = '{http://www.w3.org/2000/svg}'
    texts = [text.text for text in root.findall(svg + 'text')]
    for wanted in 'input x', 'parameter w', 'mul a < b', 'relu', 'add', 'output', 'y', 'f32[8]':
        tap.check(wanted in texts, f'no “{wanted}” in {texts}')
    tap.equal(len(root.findall(svg + 'rect')), 1 + 7, 'a background and the nodes')
    tap.equal(len(root.findall(f'{svg}g/{svg}path')), 8, 'edges')
    width = float(root.get('viewBox').split()[2])
    for box in root.findall(svg + 'rect')[1:]:
        tap.check(0 <= float(box.get('x')) and float(box.get('x')) + float(box.get('width')) <= width, 'a node outside')
    # As shown in the manual.
    project = os.path.join(os.path.dirname(__file__), '..', '..')
    run('dot', os.path.join(project, 'examples', 'upscale.rlx'), '-o', picture)
    with open(picture, encoding='utf-8') as ours, open(os.path.join(project, 'doc', 'graph.svg'), encoding='utf-8') as theirs:
        tap.equal(ours.read(), theirs.read(), 'doc/graph.svg, which rlx dot -o doc/graph.svg examples/upscale.rlx makes')
    many = tap.write('many.rlx', 'rlx 1\n%0 = input "x" f32[1]\n' + ''.join(f'%{i + 1} = relu(%{i})\n' for i in range(2001)) +
                     'output "y" %2001\n')
    refused('2000', 'dot', many, '-o', picture)


@tap.test
def run_json():
    found = parse(run('run', simple, '-i', f'x={four}', '--json').stdout)
    tap.equal(found['twice'], {'data_type': 'f32', 'shape': [4], 'data': [2, 0, -2, 8]}, 'twice')
    # values that JSON has no numbers for
    tap.equal(found['log']['data'][:3], [0, '-Infinity', 'NaN'], 'the logarithm')


@tap.test
def profile():
    done = run('run', simple, '-i', f'x={four}', '--profile', silent=False)
    tap.contains(done.stdout, 'twice = ')
    tap.check(len(done.stderr.splitlines()) >= 2, 'there is no profile')


@tap.test
def bench():
    tap.contains(run('bench', graph, '--runs', '3').stdout, 'median')
    found = parse(run('bench', graph, '-n', '3', '--json').stdout)
    tap.equal(found['runs'], 3, 'the runs')
    tap.check(0 < found['min_ms'] <= found['median_ms'] <= found['max_ms'], 'the times are not in order')
    tap.contains(run('bench', graph, '-n', '3', '--no-fetch').stdout, '3 runs that stay on the device')


@tap.test
def compile_and_look():
    plan = run('compile', graph).stdout
    tap.contains(plan, 'matmul')
    tap.equal(run('compile', graph, '--plan').stdout, plan, 'the plan')
    wgsl = run('compile', graph, '--wgsl').stdout
    tap.contains(wgsl, '@compute')
    tap.contains(run('compile', '--plan', '--wgsl', graph).stdout, plan)
    found = parse(run('compile', graph, '--json').stdout)
    tap.check(found['dispatches'] >= 1 and found['steps'], 'there are no steps')


@tap.test
def targets():
    """Graphs are compiled for absent devices, without any driver."""
    product = tap.write('product', 'rlx 1\n%0 = input "x" f32[64, 64]\n%1 = parameter "w" f32[64, 64]\n%2 = matmul(%0, %1)\noutput "y" %2\n')
    nothing = {'VK_DRIVER_FILES': '/nonexistent', 'VK_ICD_FILENAMES': '/nonexistent'}
    names = [line.split()[0] for line in run('targets').stdout.splitlines()]
    tap.equal(names, [target['name'] for target in parse(run('targets', '--json').stdout)], 'the names')
    tap.equal(names, run('--complete', 'targets').stdout.split(), 'the names to complete')
    for name in 'lavapipe', 'minimum', 'minimum-f16', 'swiftshader', 'tgl', 'dg2', 'lnl', 'navi21', 'navi31', 'gfx1201', 'turing', 'ada', 'apple-m', 'adreno', 'v3d':
        tap.check(name in names, f'there is no target {name}')
    kernels = {}
    for name in names:
        plan = parse(run('compile', '--target', name, '--json', product, env=nothing).stdout)
        kernels[name] = [step['kernel'] for step in plan['steps']]
        tap.check('fn main' in run('compile', '--target', name, '--wgsl', product, env=nothing).stdout, f'no WGSL for {name}')
    tap.equal((kernels['lavapipe'], kernels['navi31'], kernels['v3d']), (['matmul'], ['matmul-tile'], ['matmul-registers']), 'the kernels')
    tap.check('lavapipe' in run('compile', '--target', 'navi99', product, status=1).stderr, 'the message does not list the targets')
    # Large tensors take several of the few bindings that a step has.
    for name, text in {
        'scatter': '%1 = input "i" i32[16, 1]\n%2 = input "u" f32[16, 1024]\n%3 = scatter_nd(%0, %1, %2) {mode = add}\noutput "y" %3\n',
        'quantize': '%1 = parameter "f" f32[]\n%2, %3, %4 = dynamic_quantize(%0)\n%5 = mul(%3, %1)\noutput "y" %2\noutput "s" %5\noutput "z" %4\n',
    }.items():
        graph = tap.write(f'{name}.rlx', f'rlx 1\n%0 = input "x" f32[1024, 1024]\n{text}')
        run('compile', '--target', 'small', graph, env=nothing)
    tap.check('no-such' in run('run', product, status=1, env={'RLX_DEBUG': 'target=no-such'}).stderr, 'the message does not name the target')
    tap.check('cooperative' not in run('compile', product, env={'RLX_DEBUG': 'target=minimum'}).stdout, 'no plan on a stand-in')


@tap.test
def precision():
    """If a CPU driver is treated as a GPU with matrix units."""
    wide = 'rlx 1\n%0 = input "x" f32[64, 64]\n%1 = parameter "w" f32[64, 64]\n%2 = matmul(%0, %1)\noutput "y" %2\n'
    units = {'RLX_DEBUG': 'target=navi31'}
    has_units = any('f16' in matrix for matrix in parse(run('devices', '--json').stdout)[0]['limits']['matrices'])
    for words, reduced in ([], False), (['--precision', 'full'], False), (['--precision=reduced'], True):
        plan = run('compile', '-', *words, stdin=wide, env=units).stdout
        tap.equal('matmul-matrix' in plan, reduced and has_units, f'the kernel with {words}')
        tap.contains(run('bench', '-n', '2', *words, '-', stdin=wide, env=units).stdout, 'median')
    plan = run('compile', '-', '--precision', 'reduced', stdin=wide).stdout
    tap.check(has_units and 'matmul-matrix' not in plan, 'a CPU has no matrix units')
    text = wide.replace('rlx 1', 'rlx 1\nprecision reduced')
    tap.equal('matmul-matrix' in run('compile', '-', stdin=text, env=units).stdout, has_units, 'the kernel by the text')
    tap.contains(run('devices', '-v').stdout, 'matrices')


@tap.test
def dot():
    text = run('dot', graph).stdout
    tap.check(text.startswith('digraph'), 'it is no graph of graphviz')
    tap.contains(text, 'matmul')
    nasty = 'rlx 1\n%0 = input "a\\"]; x -> y [label=\\"" f32[2]\noutput "<b>&\\\\" %0\n'
    text = run('dot', '-', stdin=nasty).stdout
    tap.check('a"]; x' not in text, 'a name got out of its quotes')


# --- invalid files ---------------------------------------------------------------------------------------------------


@tap.test
def bad_graph_files():
    whole = open(graph, 'rb').read()
    os.mkfifo(tap.path('closed'))
    cases = {
        'missing': ('No such file', tap.path('missing')),
        'folder': ('directory', tap.folder),
        'empty': ('', tap.write('empty', '')),
        'nul': ('NUL', tap.write('nul', whole[:20] + b'\0' + whole[20:])),
        'nul first': ('NUL', tap.write('nul0', b'\0' + whole)),
        'not utf-8': ('', tap.write('latin', whole.replace(b'"x"', b'"\xff"'))),
        'newer': ('version', tap.write('newer', whole.replace(b'rlx 1', b'rlx 2'))),
        'a program': ('NUL', rlx),
        'no output': ('output', tap.write('none', b'rlx 1\n%0 = input "x" f32[2]\n')),
        'bad operator': ('frobnicate', tap.write('op', whole.replace(b'relu', b'frobnicate'))),
        'bad shapes': ('matmul', tap.write('shapes', whole.replace(b'f32[3, 2]', b'f32[4, 2]'))),
        'too large': ('', tap.write('large', whole.replace(b'f32[2, 3]', b'f32[4294967296, 4294967296]'))),
        'no end': ('', tap.write('noend', whole.replace(b'relu(%2)', b'relu(' * 100000))),
    }
    for name, (words, path) in cases.items():
        for command in ('compile', 'dot') if name not in ('no output',) else ('compile',):
            try:
                refused(words, command, path)
            except tap.Failure as why:
                tap.fail(f'{name}: {why}')


@tap.test
def truncated_graph():
    """Truncated anywhere it is rejected, or is a complete graph that happens to be shorter."""
    whole = open(graph, 'rb').read()
    for length in range(0, len(whole), 7):
        done = tap.run([rlx, 'dot', '-'], stdin=whole[:length])
        tap.check(done.returncode in (OK, FAILED), f'{length} bytes: status {done.returncode}')
        if done.returncode == FAILED:
            tap.check(done.stderr.startswith('rlx dot: '), f'{length} bytes: {done.stderr!r}')


@tap.test
def bad_arrays():
    data = struct.pack('<6f', *range(6))
    good = open(x, 'rb').read()
    cases = {
        'missing': 'No such file',
        'folder': 'directory',
        'empty': '', 'magic': '', 'truncated': '', 'short header': '', 'version': '', 'object': '', 'unknown': '', 'huge': '', 'negative': '',
        'too long': '', 'pickle': '',
    }
    os.mkdir(tap.path('folder.npy'))
    tap.write('empty.npy', b'')
    tap.write('magic.npy', b'\x93NUMPX' + good[6:])
    tap.write('truncated.npy', good[:-1])
    tap.write('short header.npy', good[:9])
    npy('version.npy', '<f4', (2, 3), data, version=9)
    npy('object.npy', '|O', (2, 3), data)
    npy('unknown.npy', '<f17', (2, 3), data)
    npy('huge.npy', '<f4', (2 ** 62, 2 ** 62), data)
    npy('negative.npy', '<f4', (-2, -3), data)
    tap.write('too long.npy', good + b'1234')
    tap.write('pickle.npy', b'\x80\x04cos\nsystem\n')
    for name, words in cases.items():
        try:
            refused([words, name], 'run', graph, '-p', f'w={w}', '-i', f'x={tap.path(name)}.npy')
        except tap.Failure as why:
            tap.fail(f'{name}: {why}')


@tap.test
def wrong_values():
    wide = npy('wide.npy', '<f4', (2, 4), bytes(32))
    half = npy('half.npy', '<f2', (2, 3), bytes(12))
    both = ('-i', f'x={x}', '-p', f'w={w}')
    refused(['“x”', 'not given'], 'run', graph, '-p', f'w={w}')
    refused('“w”', 'run', graph, '-i', f'x={x}')
    refused('“z”', 'run', graph, *both, '-i', f'z={x}')
    refused('“x”', 'run', graph, *both, '-i', f'x={x}')
    refused(['“x”', 'f32[2, 4]', 'f32[2, 3]'], 'run', graph, '-i', f'x={wide}', '-p', f'w={w}')
    refused(['“x”', 'f16'], 'run', graph, '-i', f'x={half}', '-p', f'w={w}')
    refused('“w”', 'run', graph, '-i', f'x={x}', '-p', f'w={wide}')
    refused('“v”', 'run', graph, '-i', f'x={x}', '-p', f'v={w}')
    refused("z", 'run', graph, *both, '-o', f'z={tap.path("z.npy")}')
    for argument in 'x', '=', 'x=', f'={x}', '':
        refused('NAME=FILE', 'run', graph, '-i', argument)
    refused('', 'run', graph, *both, '-o', f'y={tap.folder}')
    refused('', 'run', graph, *both, '-o', f'y={tap.path("no/such/folder.npy")}')
    tap.check(not os.path.exists(tap.path('z.npy')), 'something was written')


@tap.test
def full_disk():
    """A closed pipe or a full disk is an error for the writer."""
    if not os.path.exists('/dev/full'):
        tap.skip('there is no /dev/full')
    refused('', 'run', graph, '-i', f'x={x}', '-p', f'w={w}', '-o', 'y=/dev/full')


# --- the environment -------------------------------------------------------------------------------------------------


@tap.test
def no_driver():
    for value in '/nonexistent', tap.write('broken.json', '{'), tap.write('gone.json', json.dumps(
            {'file_format_version': '1.0.0', 'ICD': {'library_path': '/nonexistent.so', 'api_version': '1.3.0'}})):
        for command in ['devices'], ['devices', '--json'], ['calibrate'], ['verify'], ['demo'], ['compile', graph], ['bench', graph], ['run', simple, '-i', f'x={four}']:
            refused(['mesa-vulkan-drivers', 'libvulkan1'], *command, status=NO_ADAPTER, env={'VK_DRIVER_FILES': value})
    # commands that need no driver
    run('ops', env={'VK_DRIVER_FILES': '/nonexistent'})
    run('dot', graph, env={'VK_DRIVER_FILES': '/nonexistent'})


@tap.test
def chosen_adapter():
    for value in '0', '', 'cpu' if parse(run('devices', '--json').stdout)[0]['type'] == 'cpu' else 'gpu':
        run('compile', graph, env={'RLX_DEVICE': value})
    for value in '99', '-1', '+1', '18446744073709551616', '99999999999999999999999999', 'no such adapter', 'a' * 4096, 'x\ny', b'\xff\xfe':
        refused('RLX_DEVICE', 'compile', graph, env={'RLX_DEVICE': value})


@tap.test
def chosen_backend():
    run('compile', graph, env={'WGPU_BACKEND': 'vulkan'})
    run('compile', graph, env={'WGPU_BACKEND': ''})
    run('compile', graph, env={'WGPU_BACKEND': 'VULKAN,metal'})
    refused('driver', 'compile', graph, env={'WGPU_BACKEND': 'metal'}, status=NO_ADAPTER)
    for value in 'null', 'cuda', ',', 'v' * 4096, b'\xff':
        refused('WGPU_BACKEND', 'compile', graph, env={'WGPU_BACKEND': value})


@tap.test
def debug_keys():
    done = run('compile', graph, env={'RLX_DEBUG': 'help'}, silent=False)
    for key in 'device', 'no-f16', 'shaders', 'all', 'help':
        tap.contains(done.stderr, f'\n  {key} ')
    tap.contains(done.stdout, 'matmul')
    done = run('compile', graph, env={'RLX_DEBUG': 'nonsense,no-cache'}, silent=False)
    tap.contains(done.stderr, 'nonsense')
    for value in '', ',,,', 'no-fuse', 'no-alias,no-fold', 'target=small':
        text = run('run', graph, '-i', f'x={x}', '-p', f'w={w}', env={'RLX_DEBUG': value}).stdout
        tap.equal(text, 'y = [4, 5, 0, 0]\n', f'the result with {value!r}')
    done = run('run', graph, '-i', f'x={x}', '-p', f'w={w}', env={'RLX_DEBUG': 'all'}, silent=False)
    tap.equal(done.stdout, 'y = [4, 5, 0, 0]\n', 'the result with all')


@tap.test
def other_variables():
    """An invalid value is reported once, and ignored."""
    for name in 'RLX_TIMEOUT', 'RLX_MEMORY_LIMIT':
        for value in '-1', '1,5', 'nan', 'much', '9' * 400, b'\xff':
            done = run('run', simple, '-i', f'x={four}', env={name: value, 'G_DEBUG': None}, silent=False)
            tap.contains(done.stdout, 'twice = [2, 0, -2, 8]')
            tap.equal(done.stderr.count(name), 1, f'how often {name}={value!r} is told of')
    refused('memory', 'run', simple, '-i', f'x={four}', env={'RLX_MEMORY_LIMIT': '1K'})
    run('run', simple, '-i', f'x={four}', env={'RLX_MEMORY_LIMIT': '64M', 'RLX_TIMEOUT': '20.5'})


@tap.test
def other_locale():
    """Numbers look the same everywhere."""
    env = {'LC_ALL': 'de_DE.UTF-8', 'LANGUAGE': 'de'}
    tap.equal(run('run', graph, '-i', f'x={x}', '-p', f'w={w}', env=env).stdout, 'y = [4, 5, 0, 0]\n', 'the result')
    tap.equal(run('compile', simple, '--wgsl', env=env).stdout, run('compile', simple, '--wgsl').stdout, 'the kernel')


tap.main('rlx')
