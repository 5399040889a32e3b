#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""One process of NumPy, SciPy, PyTorch or scikit-learn, with one thread: signal_bench.py LIBRARY CONFIGURATION, which is JSON with

  folder    where the data is            workload  of the manifest
  seconds   how long to measure          output    the file to write the result to

Prints what all contenders print: one line of JSON. bench.py starts it in the root that `./dev peers` makes."""
import json
import os
import sys
import time

for name in 'OMP', 'OPENBLAS', 'MKL':
    os.environ[f'{name}_NUM_THREADS'] = '1'

import numpy as np

RATE, LENGTH, HOP = 16000, 400, 160


def one_torch():
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return torch


def whisper(bands):
    """The front end for Whisper in transformers."""
    from transformers import WhisperFeatureExtractor
    return WhisperFeatureExtractor(feature_size=bands, sampling_rate=RATE, hop_length=HOP, n_fft=LENGTH)


def fft_scipy(size, x):
    from scipy import fft
    x = x.view(np.complex64)[..., 0]
    return lambda: fft.fft(x, workers=1).view(np.float32)


def log_mel_numpy(size, x):
    extractor = whisper(size[1])
    return lambda: extractor._np_extract_fbank_features(x[None], 'cpu')[0]


def log_mel_torch(size, x):
    one_torch()
    extractor = whisper(size[1])
    return lambda: extractor._torch_extract_fbank_features(x[None], 'cpu')[0]


def scan_numpy(size, x, delta, rate, key, query):
    def run():
        h, y = np.zeros((size[1], size[2]), 'f'), np.empty_like(x[0])
        for t in range(size[0]):
            d = delta[0, t, :, None]
            h = np.exp(d * rate) * h + (d[:, 0] * x[0, t])[:, None] * key[0, t]
            y[t] = h @ query[0, t]
        return y
    return run


def delta_net_numpy(size, query, key, value, decay, beta):
    scale = np.float32(size[2] ** -.5)

    def run():
        state, y = np.zeros((size[1], size[2], size[2]), 'f'), np.empty_like(value[0])
        for t in range(size[0]):
            state *= np.exp(decay[0, t])[:, None, None]
            k = key[0, t]
            learnt = (value[0, t] - (k[:, None] @ state)[:, 0]) * beta[0, t][:, None]
            state += k[:, :, None] * learnt[:, None]
            y[t] = (query[0, t][:, None] @ state)[:, 0] * scale
        return y
    return run


def delta_net_torch(size, query, key, value, decay, beta, chunk=64):
    """In chunks: within a chunk, the updates of the steps are the solution of a triangular system, which turns them into matrix
    products; the state is passed from chunk to chunk."""
    torch = one_torch()
    steps, heads, width = size[:3]
    q, k, v = (torch.from_numpy(a).reshape(steps // chunk, chunk, heads, width).permute(2, 0, 1, 3) for a in (query, key, value))
    g, b = (torch.from_numpy(a).reshape(steps // chunk, chunk, heads).permute(2, 0, 1) for a in (decay, beta))
    one, later = torch.eye(chunk), torch.ones(chunk, chunk).triu(1).bool()

    def run():
        total = g.cumsum(-1)
        factor = (total[..., :, None] - total[..., None, :]).masked_fill(later, -torch.inf).exp()
        weighted = k * b[..., None]
        system = one + ((weighted @ k.transpose(-1, -2)) * factor).tril(-1)
        right = torch.cat([v * b[..., None], weighted * total.exp()[..., None]], -1)
        new, old = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True).split(width, -1)
        scores = (q @ k.transpose(-1, -2)) * factor
        turned = q * total.exp()[..., None]
        kept = k * (total[..., -1:] - total).exp()[..., None]
        last = total[..., -1].exp()
        state, results = torch.zeros(heads, width, width), []
        for i in range(steps // chunk):
            learnt = new[:, i] - old[:, i] @ state
            results.append(turned[:, i] @ state + scores[:, i] @ learnt)
            state = state * last[:, i, None, None] + kept[:, i].transpose(-1, -2) @ learnt
        return (torch.stack(results, 1) * width ** -.5).permute(1, 2, 0, 3).numpy()
    return run


def knn_numpy(size, x, rows=2000):
    k = size[2]

    def run():
        squares, results = (x * x).sum(1), []
        for first in range(0, len(x), rows):
            part = slice(first, first + rows)
            distances = squares[part, None] + squares - 2 * (x[part] @ x.T)
            distances[np.arange(len(distances)), np.arange(first, first + len(distances))] = np.inf
            best = np.partition(distances, k - 1, axis=1)[:, :k]
            results.append(np.sqrt(np.sort(best, axis=1)))
        return np.concatenate(results)
    return run


def knn_sklearn(size, x):
    from sklearn.neighbors import NearestNeighbors
    return lambda: NearestNeighbors(n_neighbors=size[2], algorithm='brute', n_jobs=1).fit(x).kneighbors()[0]


def top_k_numpy(size, x):
    k = size[2]
    return lambda: -np.sort(np.partition(-x, k - 1, axis=1)[:, :k], axis=1)


def top_k_torch(size, x):
    torch = one_torch()
    x = torch.from_numpy(x)
    return lambda: x.topk(size[2]).values.numpy()


WORK = {
    'scipy': {'fft': fft_scipy},
    'numpy': {'log-mel': log_mel_numpy, 'scan': scan_numpy, 'delta-net': delta_net_numpy, 'knn': knn_numpy, 'top-k': top_k_numpy},
    'torch': {'log-mel': log_mel_torch, 'delta-net': delta_net_torch, 'top-k': top_k_torch},
    'sklearn': {'knn': knn_sklearn},
}


def main(library, configuration):
    workload = configuration['workload']
    operands = []
    for tensor in workload['tensors']:
        if tensor['role'] == 'input':
            operands.append(np.fromfile(os.path.join(configuration['folder'], tensor['file']), 'f', tensor['length'] // 4,
                                        offset=tensor['offset']).reshape(tensor['shape']))
    run = WORK[library][workload['family']](workload['size'], *operands)
    np.ascontiguousarray(run(), 'f').tofile(configuration['output'])
    begin = time.perf_counter()
    for _ in range(2):
        if time.perf_counter() - begin < 1:
            run()
    times, begin, cpu = [], time.perf_counter(), time.process_time()
    while len(times) < 3 or len(times) < 2000 and time.perf_counter() - begin < configuration['seconds'] * (4 if len(times) < 7 else 1):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    cpu = (time.process_time() - cpu) * 1e3 / len(times)
    print(json.dumps({'ms': float(np.median(times)), 'runs': len(times), 'cpu_ms': cpu}))


if __name__ == '__main__':
    main(sys.argv[1], json.loads(sys.argv[2]))
