# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Workloads of model files: those fetched by `./dev models`, and exports made with what `./dev peers` fetches.

The reference is the result of ONNX Runtime's CPU provider, so these take part with --peers only.
"""
import json
import os
import subprocess
import sys

from contender import Contender, Failure

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(FOLDER), name) for name in ('tools', 'models')]

import models
import peers

# Rounding, as derived in tests/models and tests/exports, of results up to 1; up to 6 for BERT and for classifiers.
FLOAT, LARGE = 4.2e-4, 2.4e-4
# 8-bit levels: if the last bit of an f32 decides, another program gets another level, and more follow in each layer. Of
# 131,616 elements up to 7.5 a few are off by more than 1 (tests/exports/test-exports.py); the amount of work is the same.
LEVELS = 3
# The operands of MobileNetV2's last product are 1,280 levels of 0.0020, and a row of its weights has a norm of up to 1.06. If
# rounding moves each level up or down by one, the error of a result has a root mean square of 0.0021, and five times that is
# more than occurs among 1,000. ONNX Runtime's CPU provider differs from itself by 0.0024 if it does not fuse.
LAST_LEVELS = 5 * 0.0021


def _random(*shape):
    import numpy as np
    return np.random.default_rng(7).standard_normal(shape, dtype=np.float32)


def _silero():
    import numpy as np
    return {'input': _random(1, 576) * np.float32(0.1), 'state': np.zeros([2, 1, 128], np.float32), 'sr': np.int64(16000)}


def _sound():
    import wave

    import numpy as np
    folder = models.find('jfk')
    if folder is None:
        raise Failure('jfk was not fetched: ./dev models jfk')
    with wave.open(os.path.join(folder, 'jfk.wav')) as sound:
        samples = np.frombuffer(sound.readframes(sound.getnframes()), np.int16)
    return {'input_values': samples[None].astype(np.float32) / 32768}


# Name: the model and the file in it, or None for an export; inputs; the output; tolerance; description.
MODELS = {
    'silero-vad': ('silero-vad', 'silero_vad_v6.onnx', _silero, 'output', FLOAT, 'Silero VAD v6, 36 ms of sound'),
    'ppocr-rec': ('ppocr', 'ch_PP-OCRv4_rec_infer.onnx', lambda: {'x': _random(1, 3, 48, 320)}, 'softmax_11.tmp_0', FLOAT,
                  'PP-OCRv4 recognition, 320 x 48'),
    'ppocr-det': ('ppocr', 'ch_PP-OCRv4_det_infer.onnx', lambda: {'x': _random(1, 3, 640, 640)}, 'sigmoid_0.tmp_0', FLOAT,
                  'PP-OCRv4 detection, 640 x 640'),
    'moonshine-encoder': ('moonshine-tiny', 'model/tiny/quantized/encoder_model.onnx', _sound, 'last_hidden_state', LEVELS,
                          'Moonshine tiny, encoder of 8 bits, 11 s of sound'),
    'bert-export': ('bert-small', None, None, None, LARGE, 'BERT as PyTorch exports it: 4 layers, width 512, 128 tokens'),
    'mobilenet-qdq': ('mobilenet-qdq', None, None, None, LAST_LEVELS, 'MobileNetV2 with levels of 8 bits, 224 x 224'),
}
STARTS = {'warm-start': False, 'cold-start': True}


def list_workloads():
    rows = []
    for name, row in MODELS.items():
        workload = {'family': 'model', 'model': name, 'data': f'model-{name}', 'type': 'f32', 'tolerance': row[4], 'flops': 0, 'bytes': 0}
        rows.append({**workload, 'name': name, 'kind': 'run', 'cold': False, 'what': row[5]})
        rows += [{**workload, 'name': f'{start}-{name}', 'kind': 'start', 'cold': cold,
                  'what': f'the same, to the first result, {"without" if cold else "with"} what is cached'} for start, cold in STARTS.items()]
    return rows


def _export(name, folder):
    import numpy as np
    exported = os.path.abspath(os.path.join(folder, 'exports'))
    path = os.path.join(exported, name)
    if not os.path.exists(f'{path}.npz'):
        os.makedirs(exported, exist_ok=True)
        program = os.path.join(os.path.dirname(FOLDER), 'exports', 'export.py')
        command = peers.command('python3', program, exported, name.removesuffix('-qdq'), folders=[exported])
        if command is None:
            raise Failure('PyTorch was not fetched: ./dev peers')
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    arrays = np.load(f'{path}.npz')
    return f'{path}.onnx', {key[3:]: arrays[key] for key in arrays.files if key.startswith('in.')}


def prepare(workload, bench, modules):
    """Adds the file and the inputs of a workload, and has its result computed."""
    import numpy as np
    model, file, make, result, _, _ = MODELS[workload['model']]
    if file is None:
        path, inputs = _export(model, bench.data)
    else:
        folder = models.find(model)
        if folder is None:
            raise Failure(f'{model} was not fetched: ./dev models {model}')
        path, inputs = os.path.join(folder, file), make()
    data = os.path.join(bench.data, workload['data'])
    np.savez(f'{data}.npz', **inputs)
    tensors, offset = [], 0
    with open(f'{data}.input', 'wb') as out:
        for name, value in inputs.items():
            value = np.asarray(value)
            tensors.append({'name': name, 'role': 'input', 'type': {'float32': 'f32', 'int64': 'i64'}[value.dtype.name],
                            'shape': list(value.shape), 'file': os.path.basename(out.name), 'offset': offset, 'length': value.nbytes})
            out.write(value.tobytes())
            offset += value.nbytes
    workload.update(path=path, tensors=tensors, result=result)
    if not os.path.exists(f'{data}.expected') or not os.path.exists(f'{data}.result'):
        done = subprocess.run(ort_command(workload, bench, modules, 'cpu', f'{data}.expected', 0), check=True, capture_output=True, text=True)
        with open(f'{data}.result', 'w', encoding='utf-8') as out:
            out.write(json.loads(done.stdout.splitlines()[-1])['result'])
    with open(f'{data}.result', encoding='utf-8') as stream:
        workload['result'] = stream.read()


def ort_command(workload, bench, modules, provider, output, seconds):
    configuration = {
        'modules': modules, 'provider': provider, 'folder': bench.data, 'seconds': seconds, 'model': workload['path'], 'output': output,
        'workload': {'kind': workload['kind'], 'tensors': workload['tensors'], 'result': workload['result']},
    }
    return ['node', os.path.join(FOLDER, 'ort-bench.mjs'), json.dumps(configuration)]


class RlxModel(Contender):
    """This library with a model file."""

    def takes(self, workload):
        return workload['family'] == 'model'

    def command(self, workload, output):
        return [os.path.join(self.bench.programs, 'rlx-bench-model'), '--model', workload['path'],
                '--inputs', os.path.join(self.bench.data, workload['data'] + '.npz'), '--result', workload['result'],
                '--output', output, '--seconds', str(self.bench.seconds)] + (['--start'] if workload['kind'] == 'start' else [])
