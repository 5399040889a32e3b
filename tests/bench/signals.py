# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contenders for transforms, sequences and searches: programs of the root that `./dev peers` makes."""
import json
import os
import subprocess

import peers
from contender import Contender, Failure

MISSING = '`./dev peers` fetches it'
RUNS_THAT_STAY = 8   # as in rlx-bench
FOLDER = os.path.dirname(os.path.abspath(__file__))

# The required module, and the families of workloads that signal_bench.py supports with it.
LIBRARIES = {
    'scipy': ('scipy.fft', ['fft']),
    'numpy': ('transformers', ['log-mel', 'scan', 'delta-net', 'knn', 'top-k']),
    'torch': ('transformers, torch', ['log-mel', 'delta-net', 'top-k']),
    'sklearn': ('sklearn.neighbors', ['knn']),
}


class Library(Contender):
    """A Python library."""

    def prepare(self):
        modules, _ = LIBRARIES[self.name]
        command = peers.command('python3', '-c', f'import {modules}')
        if command is None:
            raise Failure(MISSING)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure((done.stderr.strip().splitlines() or [f'{modules} cannot be imported'])[-1])

    def takes(self, workload):
        # a loop over 16,384 steps shows nothing that one over 1,024 does not
        return workload['family'] in LIBRARIES[self.name][1] and not (
            workload['family'] in ('scan', 'delta-net') and self.name == 'numpy' and workload['size'][0] > 1024)

    def command(self, workload, output):
        configuration = {'folder': os.path.abspath(self.bench.data), 'seconds': self.bench.seconds, 'output': output,
                         'workload': workload}
        folders = [self.bench.data, os.path.dirname(output)]
        return peers.command('python3', os.path.join(FOLDER, 'signal_bench.py'), self.name, json.dumps(configuration), folders=folders)


class VkFft(Contender):
    program = 'vkfft-bench'

    def prepare(self):
        source = os.path.join(FOLDER, 'vkfft-bench.c')
        self.path = os.path.join(os.path.abspath(self.bench.programs), self.program)
        if os.path.exists(self.path) and os.path.getmtime(self.path) > os.path.getmtime(source):
            return
        libraries = ['glslang', 'glslang-default-resource-limits', 'SPIRV-Tools-opt', 'SPIRV-Tools', 'vulkan', 'm', ':libstdc++.so.6']
        command = peers.command('gcc', '-O1', '-w', '-o', self.path, source, '-I/usr/include/vkFFT', '-I/usr/include/glslang/Include',
                                *(f'-l{name}' for name in libraries), folders=[self.bench.programs])
        if command is None:
            raise Failure(MISSING)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure((done.stderr.strip().splitlines() or ['it cannot be compiled'])[-1])

    def takes(self, workload):
        return workload['family'] == 'fft'

    def command(self, workload, output):
        batch, length = workload['size'][:2]
        tensor = workload['tensors'][0]
        return peers.command(self.path, str(length), str(batch), str(RUNS_THAT_STAY), str(self.bench.seconds),
                             os.path.join(os.path.abspath(self.bench.data), tensor['file']), output,
                             folders=[self.bench.programs, self.bench.data, os.path.dirname(output)])


def get_contenders(bench):
    return [VkFft('vkfft', bench), *(Library(name, bench) for name in LIBRARIES)]
