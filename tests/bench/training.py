#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measures steps of training: `./dev bench --training [--steps N] [--peers] [WORKLOAD…]`.

For each workload it prints the time of a step, wall clock and of all threads, including the upload of a batch and the read-back
of the loss; the number of dispatches, the memory of the plan, and its excess over the states and the peak of live values; and
the ratio to the forward pass alone. For a deep encoder only the memory is measured, with the values needed by the gradients
either kept or recomputed.
If `./dev peers` has fetched PyTorch, or Python finds it, or the Python that RLX_TORCH names does, it executes the same steps
with one thread, starting with the same numbers, and the first eight losses have to agree; otherwise that is skipped. With
--peers so do TensorFlow.js with its WebGPU back end, and jax-js, in Node.js.

The tolerance of losses: each is a sum in f32 with a relative error of some ten 2⁻²⁴, and a step carries over the error of the
parameters, which is as large. After eight steps 2⁻¹⁶ is possible.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'tools'))
import npm
import peers

WEBGPU = 'webgpu', '0.6.2'
# Libraries in Node.js: a package, its version, and whether channels come last there.
PEERS = {'tfjs': ('@tensorflow/tfjs-backend-webgpu', '4.22.0', True), 'jax': ('@jax-js/jax', '0.1.25', False)}
CHECKED, BOUND = 8, 2.0 ** -16
# Each takes seconds.
PEER_STEPS = 3


class Workload:
    """Shapes of weights, and one function that is used for both libraries."""

    def __init__(self, shapes, inputs, classes, rate, algorithm, network):
        self.shapes, self.inputs, self.classes = shapes, inputs, classes
        self.rate, self.algorithm, self.network = rate, algorithm, network

    def weights(self):
        random = np.random.default_rng(7)
        return {name: (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:] if len(shape) > 2 else shape[:1]))
                       if len(shape) > 1 else np.full(shape, 1.0 if name.startswith('gain') else 0.0)).astype('f')
                for name, shape in self.shapes.items()}

    def batch(self, step):
        random = np.random.default_rng(100 + step)
        kind, shape, labels = self.inputs
        x = random.integers(0, 256, shape, dtype=np.int32) if kind == 'i32' else random.standard_normal(shape).astype('f')
        return x, random.integers(0, self.classes, labels, dtype=np.int32)


class Rlx:
    """The operations of a network in this library."""

    relu = staticmethod(lambda x: x.relu())
    gelu = staticmethod(lambda x: x.gelu())
    conv = staticmethod(lambda x, w, b: x.conv(w, b))
    pool = staticmethod(lambda x: x.max_pool(window=[2, 2], strides=[2, 2]))
    flat = staticmethod(lambda x: x.reshape([x.shape[0], -1]))
    norm = staticmethod(lambda x, gain, bias: x.layer_norm(gain, bias, axes=[-1]))
    embed = staticmethod(lambda table, x: table.gather(x, axis=0))

    @staticmethod
    def attend(q, k, v, heads):
        batch, steps, width = q.shape
        q, k, v = (x.reshape([batch, steps, heads, width // heads]) for x in (q, k, v))
        return q.attention(k, v, layout='sequence-first').reshape([batch, steps, width])


class Torch:
    """The same in PyTorch."""

    def __init__(self):
        import torch
        torch.set_num_threads(1)
        self.torch, f = torch, torch.nn.functional
        self.relu, self.gelu = torch.relu, f.gelu
        self.conv, self.pool = f.conv2d, lambda x: f.max_pool2d(x, 2)
        self.flat = lambda x: x.flatten(1)
        self.norm = lambda x, gain, bias: f.layer_norm(x, x.shape[-1:], gain, bias)
        self.embed = lambda table, x: table[x.long()]

    def attend(self, q, k, v, heads):
        batch, steps, width = q.shape
        q, k, v = (x.reshape(batch, steps, heads, width // heads).transpose(1, 2) for x in (q, k, v))
        y = self.torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(batch, steps, width)


def mlp(a, x, w):
    return a.relu(x @ w['w1'] + w['b1']) @ w['w2'] + w['b2']


def cnn(a, x, w):
    x = a.relu(a.conv(x, w['w1'], w['b1']))
    x = a.flat(a.pool(a.relu(a.conv(x, w['w2'], w['b2']))))
    return a.relu(x @ w['w3'] + w['b3']) @ w['w4'] + w['b4']


def encoder(a, x, w, layers='ab', heads=4):
    x = a.embed(w['table'], x) + w['places']
    for i in layers:
        h = a.norm(x, w['gain1' + i], w['shift1' + i])
        q, k, v = (h @ w[name + i] + w['b' + name + i] for name in 'qkv')
        x = x + a.attend(q, k, v, heads) @ w['o' + i] + w['bo' + i]
        h = a.norm(x, w['gain2' + i], w['shift2' + i])
        x = x + a.gelu(h @ w['u' + i] + w['bu' + i]) @ w['d' + i] + w['bd' + i]
    return x @ w['out']


MLP = {'w1': (784, 512), 'b1': (512,), 'w2': (512, 10), 'b2': (10,)}
CNN = {'w1': (32, 3, 3, 3), 'b1': (32,), 'w2': (64, 32, 3, 3), 'b2': (64,), 'w3': (9216, 128), 'b3': (128,), 'w4': (128, 10), 'b4': (10,)}


def encoder_shapes(width, tokens, layers):
    shapes = {'table': (256, width), 'places': (tokens, width), 'out': (width, 256)}
    for layer in layers:
        for norm in '12':
            shapes |= {f'gain{norm}{layer}': (width,), f'shift{norm}{layer}': (width,)}
        for matrix, columns, rows in *((name, width, width) for name in 'qkvo'), ('u', 4 * width, width), ('d', width, 4 * width):
            shapes |= {matrix + layer: (rows, columns), f'b{matrix}{layer}': (columns,)}
    return shapes


WORKLOADS = {
    'mlp-sgd': Workload(MLP, ('f32', (128, 784), (128,)), 10, .05, 'sgd', mlp),
    'mlp-adam': Workload(MLP, ('f32', (128, 784), (128,)), 10, 1e-3, 'adam', mlp),
    'cnn-adam': Workload(CNN, ('f32', (64, 3, 28, 28), (64,)), 10, 1e-3, 'adam', cnn),
    'encoder-adam': Workload(encoder_shapes(128, 64, 'ab'), ('i32', (8, 64), (8, 64)), 256, 1e-3, 'adam', encoder),
}
# Only its memory is measured.
DEEP = Workload(encoder_shapes(384, 128, 'abcdef'), ('i32', (8, 128), (8, 128)), 256, 1e-3, 'adam',
                lambda a, x, w: encoder(a, x, w, 'abcdef', 6))


def measure(step, steps):
    """The first losses, and the median time of later steps."""
    losses, walls, times = [], [], []
    for i in range(CHECKED + steps):
        wall, cpu = time.perf_counter(), time.process_time()
        loss = step(i)
        walls.append((time.perf_counter() - wall) * 1e3)
        times.append((time.process_time() - cpu) * 1e3)
        losses.append(loss)
    return {'losses': losses[:CHECKED], 'wall': statistics.median(walls[CHECKED:]), 'cpu': statistics.fmean(times[CHECKED:])}


def compile_rlx(workload, training, **options):
    import gi
    gi.require_version('Rlx', '1.0')
    from gi.repository import Rlx as library
    g = library.Graph()
    kind, shape, labels_shape = workload.inputs
    x, labels = g.input('x', kind, shape), g.input('labels', 'i32', labels_shape)
    w = {key: g.state(key, value) if training else g.constant(value) for key, value in workload.weights().items()}
    loss = workload.network(Rlx, x, w).softmax_cross_entropy(labels)
    if training:
        g.optimize(loss, w, algorithm=workload.algorithm, learning_rate=workload.rate, momentum=.9, **options)
    g.output('loss', loss)
    return library.Device.get_default().compile(g)


def facts(exe):
    """Including the memory of the plan, and its lower bound: states, and the peak of live values."""
    alive = int(re.search(r'\((\d+) alive at most', exe.describe_plan()).group(1))
    states = sum(4 * math.prod(port.get_shape()) for port in exe.get_states())
    return {'dispatches': exe.get_n_dispatches(), 'memory': exe.get_arena_size(), 'least': alive + states}


def run_rlx(name, steps):
    workload, results = WORKLOADS[name], {}
    for training in True, False:
        exe = compile_rlx(workload, training)
        results[training] = measure(lambda i: exe(*workload.batch(i)).loss.item(), steps) | facts(exe)
    return results[True] | {'forward': results[False]}


def run_memory(_, __):
    """Nothing is run."""
    return {name: facts(compile_rlx(DEEP, True, recompute=recompute)) for name, recompute in (('deep-encoder', False), ('recomputed', True))}


def run_torch(name, steps):
    a, workload = Torch(), WORKLOADS[name]
    torch = a.torch
    w = {key: torch.tensor(value, requires_grad=True) for key, value in workload.weights().items()}
    optimizer = (torch.optim.SGD(w.values(), lr=workload.rate, momentum=.9) if workload.algorithm == 'sgd'
                 else torch.optim.Adam(w.values(), lr=workload.rate))

    def step(i):
        x, labels = map(torch.from_numpy, workload.batch(i))
        optimizer.zero_grad()
        y = workload.network(a, x, w)
        loss = torch.nn.functional.cross_entropy(y.reshape(-1, workload.classes), labels.long().reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return measure(step, steps)


def run_orders(_, steps):
    """A scalar function of many numbers, differentiated four times."""
    import gi
    gi.require_version('Rlx', '1.0')
    from gi.repository import Rlx as library
    g = library.Graph()
    x = y = g.input('x', 'f32', [4096])
    y = (y.sin() * y).tanh()
    for _ in range(4):
        y = g.gradient(y.sum(), x)
    g.output('fourth', y)
    exe, values = library.Device.get_default().compile(g), np.linspace(-2, 2, 4096, dtype='f')
    result = measure(lambda i: float(np.asarray(exe(values)[0])[i]), steps)
    return result | facts(exe)


def run_node(peer, name, steps):
    workload, network = WORKLOADS[name], name.split('-')[0]
    *package, channels_last = PEERS[peer]
    modules = [npm.install(*package), npm.install(*WEBGPU)]
    with tempfile.TemporaryDirectory() as folder:
        def write(file, value):
            if value.ndim == 4 and channels_last:
                value = value.transpose((2, 3, 1, 0) if file in workload.shapes else (0, 2, 3, 1))
            np.ascontiguousarray(value).tofile(os.path.join(folder, file))
            return {'file': file, 'shape': value.shape, 'type': 'i32' if value.dtype == np.int32 else 'f32'}

        batches = [workload.batch(i) for i in range(CHECKED + steps)]
        job = {'network': network, 'algorithm': workload.algorithm, 'rate': workload.rate, 'classes': workload.classes,
               'weights': {key: write(key, value) for key, value in workload.weights().items()},
               'batches': [{'x': write(f'batch-{i}', x), 'labels': write(f'labels-{i}', labels)} for i, (x, labels) in enumerate(batches)]}
        with open(os.path.join(folder, 'job.json'), 'w', encoding='utf-8') as stream:
            json.dump(job, stream)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'training.mjs')
        done = subprocess.run(['node', script, peer, *modules, folder], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f'status {done.returncode}')
    result = json.loads(done.stdout.splitlines()[-1])
    return {'losses': result['losses'][:CHECKED], 'wall': statistics.median(result['walls'][CHECKED:]), 'cpu': statistics.fmean(result['times'][CHECKED:])}


def child(python, who, name, steps):
    command = [*python, os.path.abspath(__file__), '--child', who, '--steps', str(steps), name]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f'status {done.returncode}')
    return json.loads(done.stdout)


def compare(ours, theirs):
    """The difference between the first losses, and whether it is within the tolerance."""
    off = max(abs(a - b) / abs(b) for a, b in zip(ours['losses'], theirs['losses']))
    right = off <= BOUND
    return f'{off:10.1e}' + ('' if right else ' WRONG'), right


def describe_facts(result):
    return f'{result["dispatches"]:7}{result["memory"] / 1e6:7.1f}{100 * (result["memory"] / result["least"] - 1):6.0f}%'


def main():
    parser = argparse.ArgumentParser(prog='./dev bench --training')
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--peers', action='store_true', help='with TensorFlow.js and jax-js, too, which are installed on first use: minutes')
    parser.add_argument('--child', choices=['rlx', 'torch', 'orders', 'memory'], help=argparse.SUPPRESS)
    parser.add_argument('workloads', nargs='*')
    arguments = parser.parse_args()
    if arguments.child:
        run = {'rlx': run_rlx, 'torch': run_torch, 'orders': run_orders, 'memory': run_memory}[arguments.child]
        print(json.dumps(run(arguments.workloads[0], arguments.steps)))
        return 0

    known = [*WORKLOADS, 'nth-order', 'deep-encoder']
    names = arguments.workloads or known
    for name in names:
        if name not in known:
            parser.error(f'there is no workload {name}; there are {", ".join(known)}')
    named = os.environ.get('RLX_TORCH')
    python = [named] if named else peers.command('python3') or [sys.executable]
    has_torch = subprocess.run([*python, '-c', 'import torch'], capture_output=True).returncode == 0
    if not has_torch:
        print('torch: skipped; `./dev peers` fetches it, or RLX_TORCH may name a Python that has it', file=sys.stderr)
    status = 0
    print(f'{"workload":14}{"ms":>8}{"CPU ms":>8}{"/forward":>9}{"steps":>7}{"MB":>7}{"more":>7}{"torch":>8}{"slower":>8}{"losses":>10}' +
          ''.join(f'{peer:>9}{"faster":>8}{"losses":>10}' for peer in PEERS if arguments.peers))
    for name in names:
        if name == 'deep-encoder':
            for label, result in child([sys.executable], 'memory', name, 0).items():
                print(f'{label:14}{"":25}{describe_facts(result)}', flush=True)
            continue
        ours = child([sys.executable], 'orders' if name == 'nth-order' else 'rlx', name, arguments.steps)
        row = f'{name:14}{ours["wall"]:8.1f}{ours["cpu"]:8.1f}'
        row += f'{ours["cpu"] / ours["forward"]["cpu"]:9.2f}' if 'forward' in ours else f'{"":9}'
        row += describe_facts(ours)
        if has_torch and name in WORKLOADS:
            theirs = child(python, 'torch', name, arguments.steps)
            row += f'{theirs["cpu"]:8.1f}{ours["cpu"] / theirs["cpu"]:7.1f}x'
            text, right = compare(ours, theirs)
            row, status = row + text, status | (not right)
        for peer in PEERS if arguments.peers and name in WORKLOADS else ():
            try:
                theirs = run_node(peer, name, min(arguments.steps, PEER_STEPS))
            except (npm.Failure, RuntimeError, OSError) as error:
                print(f'{peer}: skipped; {str(error).splitlines()[0]}', file=sys.stderr)
                row += ' ' * 27
            else:
                row += f'{theirs["cpu"]:9.1f}{theirs["cpu"] / ours["cpu"]:7.1f}x'
                text, right = compare(ours, theirs)
                row, status = row + text, status | (not right)
        print(row, flush=True)
    return status


if __name__ == '__main__':
    sys.exit(main())
