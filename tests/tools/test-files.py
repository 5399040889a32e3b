# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The `rlx` command and weight files: info, convert, run and embed.

Usage: test-files.py RLX SHARED"""
import contextlib
import json
import os
import pty
import re
import socket
import struct
import subprocess
import sys

import models
import numpy
import onnx_file
import tap
from command import FAILED, OK, USAGE, npy, parse, refused, rlx, run

shared = sys.argv[2]

graph = tap.write('graph.rlx', '''rlx 1
%0 = input "x" f32[2, 3]
%1 = parameter "w" f32[3, 2]
%2 = matmul(%0, %1)
%3 = relu(%2)
output "y" %3
''')
x = npy('x.npy', '<f4', (2, 3), struct.pack('<6f', 1, 2, 3, -4, -5, -6))
w = npy('w.npy', '<f4', (3, 2), struct.pack('<6f', 1, 0, 0, 1, 1, 1))


def safetensors(name, tensors, metadata=None):
    """From {name: (type, shape, bytes)}."""
    header, data = {'__metadata__': metadata} if metadata else {}, b''
    for key, (dtype, shape, content) in tensors.items():
        header[key] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return tap.write(name, struct.pack('<Q', len(text)) + text + data)


weights = safetensors('w.safetensors', {'w': ('F32', [3, 2], struct.pack('<6f', 1, 0, 0, 1, 1, 1)), 'left': ('U8', [], b'x')},
                      {'format': 'pt', 'bell': 'a\a', 'long': 'x' * 100})


@tap.test
def info_lists_tensors():
    text = run('info', weights).stdout
    for words in ('format   safetensors', 'tensors  2', 'bytes    25', 'format', 'a\\u0007', 'x' * 72 + '…',
                  'w                                        f32      [3, 2]', 'left', 'u8                                              1'):
        tap.contains(text, words)
    found = parse(run('info', '--json', weights).stdout)
    tap.equal(found['format'], 'safetensors')
    tap.equal(found['metadata'], {'format': 'pt', 'bell': 'a\a', 'long': 'x' * 100})
    tap.equal([(t['name'], t['type'], t['shape'], t['bytes']) for t in found['tensors']],
              [('w', 'f32', [3, 2], 24), ('left', 'u8', [], 1)])
    tap.equal(found['tensors'][1]['offset'], os.path.getsize(weights) - 1)
    tap.equal(found['totals'], {'f32': {'tensors': 1, 'bytes': 24}, 'u8': {'tensors': 1, 'bytes': 1}})


@tap.test
def info_refuses():
    refused('missing', 'info', status=USAGE)
    refused(['nothing', 'No such file'], 'info', 'nothing')
    refused(['nothing.onnx', 'No such file'], 'info', 'nothing.onnx')
    refused(['graph.rlx', 'neither safetensors'], 'info', graph)


# Types that numpy and the library have in common, in both byte orders, and types that it widens or only lists.
arrays = {
    'floats': numpy.arange(6, dtype='<f4').reshape(2, 3) / 7,
    'halves': numpy.asfortranarray(numpy.arange(24, dtype='<f2').reshape(2, 3, 4)),
    'layer.0/weight': numpy.arange(5, dtype='<i8') - 2,
    'grö\u00dfe': numpy.array(True),
    'none': numpy.zeros((0, 3), dtype='<u4'),
    'short': numpy.array([-1, 2], dtype='<i2'),
    'double': numpy.asfortranarray(numpy.arange(6, dtype='<f8').reshape(3, 2)),
}
TYPES = {'floats': 'f32', 'halves': 'f16', 'layer.0/weight': 'i64', 'größe': 'bool', 'none': 'u32', 'short': 'i16', 'double': 'f64'}


def archives():
    """As written by numpy, stored and deflated."""
    for name, save in ('stored.npz', numpy.savez), ('deflated.npz', numpy.savez_compressed):
        path = tap.path(name)
        save(path, **arrays)
        yield path


def same(path, expected=None, types=None):
    """Whether numpy reads the same arrays."""
    with numpy.load(path) as found:
        tap.equal(sorted(found.files), sorted(expected or arrays), 'the names')
        for name, array in (expected or arrays).items():
            tap.equal(str(found[name].dtype), str((types or {}).get(name, array.dtype)), f'the type of {name}')
            tap.check(numpy.array_equal(found[name], array), f'{name} is {found[name]}')


@tap.test
def info_lists_arrays():
    for path in archives():
        found = parse(run('info', '--json', path).stdout)
        tap.equal(found['format'], 'npz')
        tap.equal({t['name']: (t['type'], t['shape'], t['bytes']) for t in found['tensors']},
                  {name: (TYPES[name], list(array.shape), array.nbytes) for name, array in arrays.items()})
    text = run('info', w).stdout
    for words in ('format   npy', 'tensors  1', 'w                                        f32      [3, 2]'):
        tap.contains(text, words)
    refused(['In “x.npy”', '“|O”'], 'info', objects())


def objects():
    path = tap.path('objects.npz')
    numpy.savez(path, x=numpy.array([{}], dtype=object))
    return path


@tap.test
def convert_keeps_arrays():
    """From numpy's files to safetensors and back: numpy reads what it wrote."""
    for path in archives():
        middle, back = tap.path('middle.safetensors'), tap.path('back.npz')
        run('convert', path, middle)
        run('convert', middle, back)
        same(back)
        run('convert', '--deflate', middle, back)
        same(back)
        run('convert', path, back)
        same(back)
    tap.check(os.path.getsize(tap.path('deflated.npz')) < os.path.getsize(tap.path('stored.npz')), 'nothing was deflated')


@tap.test
def convert_chooses():
    stored = next(archives())
    one, two = tap.path('one.npy'), tap.path('two.npz')
    run('convert', stored, one, '--tensor', 'halves')
    tap.check(numpy.array_equal(numpy.load(one), arrays['halves']), 'another array')
    run('convert', w, x, two)
    same(two, {'w': numpy.load(w), 'x': numpy.load(x)})
    run('convert', stored, '-t', 'floats', '-t', 'none', two)
    same(two, {name: arrays[name] for name in ('floats', 'none')})
    run('convert', w, '--to', 'safetensors', tap.path('odd'))
    tap.equal(parse(run('info', '--json', tap.path('odd')).stdout)['format'], 'safetensors')
    done = run('convert', weights, two, silent=False)
    tap.equal(done.stderr, 'rlx convert: 3 pairs of metadata are left out\n')
    halves = safetensors('bf16.safetensors', {'b': ('BF16', [2], b'\x80\x3f\x20\xc0')})
    run('convert', halves, two)
    same(two, {'b': numpy.array([1, -2.5], dtype='f4')})


@tap.test
def convert_refuses():
    stored = next(archives())
    refused('missing', 'convert', stored, status=USAGE)
    refused(['suffix', '“out”'], 'convert', stored, 'out', status=USAGE)
    refused(['“zip”', 'safetensors'], 'convert', stored, 'out', '--to', 'zip', status=USAGE)
    refused('--from', 'convert', '--from', 'onnx', stored, 'out.gguf', status=USAGE)
    refused('as a whole', 'convert', '--from', 'llama2c', stored, 'out.npz', status=USAGE)
    refused('No such file', 'convert', 'nothing', 'out.npz')
    refused('“nobody”', 'convert', stored, '-t', 'nobody', tap.path('out.npz'))
    refused('one tensor', 'convert', stored, tap.path('out.npy'))
    refused('one tensor, not 2', 'convert', w, x, tap.path('out.npy'))
    refused(['“größe”', 'bool', 'GGUF'], 'convert', stored, tap.path('out.gguf'))
    refused('two tensors called “w”', 'convert', w, w, tap.path('out.npz'))
    tap.none((name for name in ('out.npz', 'out.npy', 'out.gguf') if os.path.exists(tap.path(name))), 'files that were left')


# --- models of llama2.c ----------------------------------------------------------------------------------------------

model = os.path.join(shared, 'models', 'stories260K')


def tensors_of(path):
    archive = tap.path('tensors.npz')
    run('convert', path, archive, silent=False)
    with numpy.load(archive) as found:
        return dict(found)


def norm(values, weight):
    return values / numpy.sqrt(numpy.mean(values * values) + 1e-5) * weight


@tap.test
def convert_llama2c():
    """The logits after the first token are known: there, attention is its only value, and nothing is rotated."""
    if not os.path.isdir(model):
        tap.skip(f'{model} is not there')
    gguf = tap.path('stories.gguf')
    run('convert', '--from=llama2c', '--tokenizer', os.path.join(model, 'tok512.bin'), os.path.join(model, 'stories260K.bin'), gguf)
    found = parse(run('info', '--json', gguf).stdout)['metadata']
    tap.equal((found['general.architecture'], found['llama.block_count'], found['llama.attention.head_count_kv']), ('llama', 5, 4))
    tokens = found['tokenizer.ggml.tokens']
    tap.equal((len(tokens), tokens[:4], found['tokenizer.ggml.token_type'][:4]), (512, ['<unk>', '<s>', '</s>', '<0x00>'], [2, 3, 3, 6]))
    tap.check('▁the' in tokens and not any(' ' in token for token in tokens), 'spaces are not marked')

    t = tensors_of(gguf)
    values = t['token_embd.weight'][1]
    for i in range(5):
        block = {name: t[f'blk.{i}.{name}.weight'] for name in
                 ('attn_norm', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down')}
        seen = (block['attn_v'] @ norm(values, block['attn_norm'])).reshape(4, 1, 8).repeat(2, 1).reshape(64)
        values = values + block['attn_output'] @ seen
        inner = norm(values, block['ffn_norm'])
        gate = block['ffn_gate'] @ inner
        values = values + block['ffn_down'] @ (gate / (1 + numpy.exp(-gate)) * (block['ffn_up'] @ inner))
    logits = t['token_embd.weight'] @ norm(values, t['output_norm.weight'])
    for got, expected in zip(logits, (-6.22291, 8.40434, -6.22374, -6.22254)):
        tap.check(abs(got - expected) < 2e-5, f'a logit is {got}, not {expected}')


@tap.test
def convert_llama2c_refuses():
    sizes, out = (4, 8, 1, 2, 1, 3, 5), tap.path('bad.gguf')
    n = 3 * 4 + 2 * 4 + 2 * 16 + 2 * 8 + 3 * 32 + 4 + 5 * 2

    def attempt(words, numbers=sizes, extra=0, tokenizer=None):
        path = tap.write('bad.bin', struct.pack('<7i', *numbers) + bytes(4 * n + extra))
        options = ['--tokenizer', tap.write('bad.tok', tokenizer)] if tokenizer is not None else []
        refused(words, 'convert', '--from=llama2c', *options, path, out)

    run('convert', '--from=llama2c', tap.write('good.bin', struct.pack('<7i', *sizes) + bytes(4 * n)), out)
    for i in range(7):
        for value in 0, -2147483648, 2147483647:
            attempt('bad.bin', sizes[:i] + (value,) + sizes[i + 1:])
    attempt('its numbers say', extra=1)
    attempt('its numbers say', extra=-1)
    attempt('heads', (4, 8, 1, 3, 1, 3, 5))
    attempt('newer format', (0x616b3432,) + sizes[1:])
    pieces = struct.pack('<i', 3) + b''.join(struct.pack('<fi', 0, 1) + b'a' for _ in range(3))
    attempt('piece 2 of 3', tokenizer=pieces[:-1])
    attempt('1 bytes follow', tokenizer=pieces + b'x')
    attempt('not UTF-8', tokenizer=pieces[:-1] + b'\xff')
    attempt('piece 0 of 3', tokenizer=pieces[:8] + b'\xff\xff\xff\x7f' + pieces[12:])
    attempt('piece 0 of 3', tokenizer=b'')


@tap.test
def embed():
    """Vectors as computed by others: tests/bindings/minilm.json has their source."""
    folder = models.find('minilm')
    if folder is None:
        tap.skip('the model minilm is not there; ./dev models minilm fetches it')
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'bindings', 'minilm.json'), encoding='utf-8') as file:
        rows = [row for row in json.load(file) if 'embedding' in row]
    texts, path = [row['text'] for row in rows], tap.path('vectors.npy')
    found = parse(run('embed', '--json', '-o', path, folder, *texts).stdout)['embeddings']
    tap.equal([one['text'] for one in found], texts, 'the texts')
    for row, one, vector in zip(rows, found, numpy.load(path)):
        a, b = numpy.array(one['embedding']), numpy.array(row['embedding'])
        cosine = a @ b / numpy.sqrt((a @ a) * (b @ b))
        tap.check(cosine >= 0.99999, f'the cosine is {cosine}')
        tap.equal(vector.astype(float).tolist(), one['embedding'], 'the vector in the file')
    table = run('embed', folder, stdin='\n'.join(texts[:2]) + '\n').stdout.splitlines()
    tap.equal([line.split()[1 + i] for i, line in enumerate(table)], ['1.0000', '1.0000'], 'how similar each is to itself')


@tap.test
def embed_refuses():
    refused(['vocab.txt', 'No such file'], 'embed', tap.folder, 'text')
    refused('text 1 is not UTF-8', 'embed', tap.folder, b'\xff', status=USAGE)


# --- progress --------------------------------------------------------------------------------------------------------

@tap.test
def bars_are_for_terminals():
    """Slow commands show their progress on a terminal, and leave nothing behind there."""
    big = tap.path('big.npz')
    numpy.savez(big, **{f'n{i}': numpy.random.default_rng(i).random(1 << 20, dtype='f4') for i in range(24)})
    ours, theirs = pty.openpty()
    with subprocess.Popen([rlx, 'convert', '--deflate', big, tap.path('bar.npz')], stderr=theirs) as process:
        os.close(theirs)
        shown = b''
        with contextlib.suppress(OSError):  # raised when the other side is closed
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    tap.equal(process.returncode, OK, 'the status')
    tap.check(b'] ' in shown and b' %' in shown, f'no bar in {shown!r}')
    tap.check(shown.endswith(b'\r\x1b[K'), 'something is left on the line')
    tap.equal(run('convert', '--deflate', big, tap.path('bar.npz')).stdout, '')


@tap.test
def run_takes_weights():
    tap.equal(run('run', graph, '-i', f'x={x}', '--weights', weights).stdout, run('run', graph, '-i', f'x={x}', '-p', f'w={w}').stdout)
    tap.equal(run('run', graph, '-i', f'x={x}', '-w', weights, '-p', f'w={w}').stdout, run('run', graph, '-i', f'x={x}', '-p', f'w={w}').stdout)
    other = safetensors('other.safetensors', {'w': ('F32', [2, 3], bytes(24))})
    refused(['“w” is f32[2, 3]', 'f32[3, 2]'], 'run', graph, '-i', f'x={x}', '-w', other)
    refused('no tensor “w”', 'run', graph, '-i', f'x={x}', '-w', safetensors('none.safetensors', {}))


@tap.test
def convert_models():
    source = '/usr/share/libonnx-testdata/data/pytorch-converted/test_Linear/model.onnx'
    if not os.path.exists(source):
        tap.skip(f'there is no {source}')
    made, whole, kept = tap.path('model.rlx'), tap.path('whole.rlx'), tap.path('model.safetensors')
    port = parse(run('info', '--json', source).stdout)['inputs'][0]
    count = numpy.prod(port['shape'])
    value = npy('model.npy', '<f4', tuple(port['shape']), struct.pack(f'<{count}f', *[i % 7 - 3 for i in range(count)]))
    run('convert', source, whole)
    run('convert', source, made, '--weights', kept)
    expected = run('run', source, '-i', f'{port["name"]}={value}').stdout
    tap.equal(run('run', whole, '-i', f'{port["name"]}={value}').stdout, expected, 'with constants')
    tap.equal(run('run', made, '-w', kept, '-i', f'{port["name"]}={value}').stdout, expected, 'with parameters')
    tap.equal([row['bytes'] for row in parse(run('info', '--json', kept).stdout)['tensors']], [320], 'the weights')
    refused('one ONNX model', 'convert', source, source, made, status=USAGE)
    refused('for ONNX models', 'convert', '--dim', 'n=1', weights, tap.path('no.npz'), status=USAGE)


@tap.test
def info_takes_sizes():
    graph = onnx_file.message((1, onnx_file.node('MatMul', ['x', 'x'], 'y')), (11, onnx_file.port('x', 'a', 'b')), (12, onnx_file.port('y', 'a', 'b')))
    model = tap.write('square.onnx', onnx_file.message((1, 8), (7, graph), (8, onnx_file.message((1, ''), (2, 17)))))
    tap.check('refused' not in parse(run('info', '--json', model).stdout), 'refused with sizes of 1')
    tap.check('refused' not in parse(run('info', '--json', '--dim', 'a=3', '--dim', 'b=3', model).stdout), 'refused a square')
    tap.contains(parse(run('info', '--json', '--dim', 'a=3', model).stdout)['refused'], 'MatMul')
    tap.contains(run('info', '--dim', 'a=3', model).stdout, 'that --dim does not set')
    refused('three', 'info', '--dim', 'a=three', model)


@tap.test
def export_needs_no_device():
    nothing = {'VK_DRIVER_FILES': '/nonexistent', 'VK_ICD_FILENAMES': '/nonexistent'}
    folder = tap.path('site')
    run('export', '--web', folder, '--weights', weights, '--f16', '--target', 'navi31', graph, env=nothing)

    def read():
        with open(os.path.join(folder, 'plan.json'), encoding='utf-8') as file:
            return json.load(file)
    plan = read()
    tap.equal([one['target'] for one in plan['plans']], ['navi31', 'minimum-f16', 'minimum'], 'the plans')
    tap.equal(plan['plans'][0]['needs']['subgroupSize'], 0, 'the size of subgroups that a driver chooses')
    tap.check(plan['plans'][2]['parameters'][0]['given'] and 'check' not in plan, 'what was given')
    # With an example; files that the user may have changed are kept, and unused weights are removed.
    tap.write('site/index.html', 'mine')
    tap.write('site/weights-0123456789abcdef.bin', 'old')
    run('export', '--web', folder, '-p', f'w={w}', graph)
    tap.check('check' in read() and len(read()['plans']) == 1, 'there is no example')
    with open(os.path.join(folder, 'index.html'), encoding='utf-8') as file:
        tap.equal(file.read(), 'mine', 'the page')
    tap.equal(sorted(os.listdir(folder)), sorted(['index.html', 'package.json', 'plan.json', 'rlx.d.ts', 'rlx.js'] +
                                                 [piece['file'] for piece in read()['pieces']]), 'the files')


@tap.test
def export_takes_models():
    """With sizes for unknown dimensions, and their weights."""
    model = tap.write('small.onnx', onnx_file.make([[1, 2], [3, 4], [5, 6]], [7, 8]))
    folder = tap.path('model')
    run('export', '--web', folder, '--dim', 'rows=5', model)
    with open(os.path.join(folder, 'plan.json'), encoding='utf-8') as file:
        plan = json.load(file)
    tap.equal(plan['inputs'], [{'name': 'x', 'dataType': 'f32', 'shape': [5, 3]}], 'the inputs')
    tap.equal(plan['outputs'], [{'name': 'y', 'dataType': 'f32', 'shape': [5, 2]}], 'the outputs')
    tap.check('check' in plan and plan['pieces'], 'there is no example')
    refused('rows', 'export', '--web', folder, model)


def ask(port, text):
    """A server's answer: status, headers and content."""
    with socket.create_connection(('127.0.0.1', port), timeout=20) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b''.join(iter(lambda: connection.recv(65536), b''))
    head, _, content = answer.partition(b'\r\n\r\n')
    return head.decode().split('\r\n')[0], head.decode(), content


@tap.test
def export_serves():
    folder = tap.path('served')
    command = [rlx, 'export', '--web', folder, '--serve=0', '-w', weights, '--no-check', graph]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            address = process.stdout.readline()
            port = int(re.fullmatch(r'http://127\.0\.0\.1:(\d+)/\n', address)[1])
            tap.write('served-secret', 'secret')
            host = f'Host: 127.0.0.1:{port}\r\n\r\n'
            for name, kind in ('', 'text/html'), ('rlx.js', 'text/javascript'), ('plan.json?x', 'application/json'):
                status, head, content = ask(port, f'GET /{name} HTTP/1.1\r\n{host}')
                tap.equal(status, 'HTTP/1.1 200 OK', f'the status of {name}')
                tap.contains(head, f'Content-Type: {kind}')
                with open(os.path.join(folder, name.split('?')[0] or 'index.html'), 'rb') as file:
                    tap.equal(content, file.read(), name)
            piece = next(name for name in os.listdir(folder) if name.startswith('weights-'))
            tap.contains(ask(port, f'GET /{piece} HTTP/1.1\r\n{host}')[1], 'immutable')
            tap.equal(ask(port, f'HEAD /rlx.js HTTP/1.1\r\nHost: localhost\r\n\r\n')[2], b'', 'the content of a head')
            for request, status in ((f'GET /../served-secret HTTP/1.1\r\n{host}', 404), (f'GET /..%2fserved-secret HTTP/1.1\r\n{host}', 404),
                                    (f'GET /%2e%2e/served-secret HTTP/1.1\r\n{host}', 404), (f'GET /none HTTP/1.1\r\n{host}', 404),
                                    (f'GET /%00 HTTP/1.1\r\n{host}', 404), (f'GET {tap.path("served-secret")} HTTP/1.1\r\n{host}', 404),
                                    (f'POST / HTTP/1.1\r\n{host}', 405), ('GET / HTTP/1.1\r\nHost: example.org\r\n\r\n', 403),
                                    ('GET / HTTP/1.1\r\n\r\n', 403), ('\x16\x03\r\n\r\n', 400)):
                tap.contains(ask(port, request)[0], f' {status} ', request)
            tap.equal(ask(port, 'GET / HTTP/1.1\r\n' + 'X: y\r\n' * 5000)[0], '', 'what an endless head gets')
            # It is for this machine only, so nothing else may use the port on another of its addresses.
            with open('/proc/net/tcp', encoding='ascii') as file:
                listening = {line.split()[1] for line in file if line.split()[3] == '0A'}
            tap.check(f'0100007F:{port:04X}' in listening and f'00000000:{port:04X}' not in listening, 'it listens elsewhere')
            refused(str(port), 'export', '--web', folder, f'--serve={port}', '-w', weights, '--no-check', graph)
        finally:
            process.kill()
    refused('a port must be from 0 to 65535', 'export', '--web', folder, '--serve=70000', graph, status=USAGE)


@tap.test
def export_refuses():
    folder = tap.path('refused')
    refused('--web DIR is missing', 'export', graph, status=USAGE)
    refused('no target “navi99”', 'export', '--web', folder, '--target', 'navi99', '--no-check', graph)
    refused('no parameter “v”', 'export', '--web', folder, '-p', f'v={w}', graph)
    refused(['parameter “w” is f32[2, 3]', 'f32[3, 2]'], 'export', '--web', folder, '-p', f'w={x}', graph)
    refused('no tensor “w”', 'export', '--web', folder, '-w', safetensors('empty.safetensors', {}), graph)
    refused('reduced', 'export', '--web', folder, '--precision', 'half', graph, status=USAGE)
    tap.check(not os.path.exists(folder), 'something was written')
    refused('file', 'export', '--web', tap.write('file', ''), '--no-check', graph)


tap.main('files')
