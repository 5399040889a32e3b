#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Rewrites expected.json with ONNX Runtime's CPU provider: ./dev shell python3 tests/models/expect.py

The models have to be fetched with `./dev models` before.
"""
import json
import subprocess
import tempfile

import numpy as np

import inputs
from inputs import FOLDER

import npm

VERSION = '1.30.0'


def run(model, runs, carry=None):
    def describe(array):
        return {'type': array.dtype.name, 'shape': array.shape, 'data': array.ravel().tolist()}

    configuration = {'modules': npm.install('onnxruntime-node', VERSION), 'model': str(model), 'carry': carry or {},
                     'runs': [{name: describe(array) for name, array in run.items()} for run in runs]}
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
        json.dump(configuration, file)
        file.flush()
        result = subprocess.run(['node', FOLDER / 'ort-run.mjs', file.name], check=True, capture_output=True, text=True)
    return [[np.float32(entry['data']).reshape(entry['shape']) for entry in outputs.values()] for outputs in json.loads(result.stdout)]


def sample(array):
    return [float(f'{value:.7g}') for value in array.ravel()[inputs.places(array.shape)]]


def main():
    expected = {'origin': f'onnxruntime-node {VERSION}, CPU provider; tests/models/expect.py'}
    vad = inputs.example('detect-speech')
    sound = np.concatenate([np.zeros(vad.CONTEXT, np.float32), vad.read_sound(str(inputs.find('jfk') / 'jfk.wav'))])
    for name, file in ('silero-vad', 'silero_vad_v6.onnx'), ('silero-vad-v5', 'silero_vad_v5.onnx'):
        runs = [{'input': sound[None, start:start + vad.CONTEXT + vad.FRAME], 'sr': np.int64(vad.RATE),
                 **({} if start else {'state': np.zeros([2, 1, 128], np.float32)})}
                for start in range(0, len(sound) - vad.CONTEXT - vad.FRAME + 1, vad.FRAME)]
        expected[name] = [float(f'{y[0, 0]:.6f}') for y, in run(inputs.find(name) / file, runs, {'stateN': 'state'})]
    ppocr = inputs.find('ppocr')
    (detected,), = run(ppocr / inputs.DETECT, [{'x': inputs.to_detect()}])
    expected['ppocr-det'] = sample(detected)
    (turned,), = run(ppocr / inputs.TURN, [{'x': inputs.to_turn()}])
    expected['ppocr-cls'] = sample(turned)
    expected['ppocr-rec'] = {
        name: [float(f'{p:.7g}') for p in scores[0].max(-1)]
        for name in inputs.LINES
        for (scores,), in [run(ppocr / inputs.READ, [{'x': inputs.as_input(inputs.line(name))}])]}
    with open(FOLDER / 'expected.json', 'w', encoding='utf-8') as file:
        json.dump(expected, file, indent=0, separators=(',', ':'))
        file.write('\n')


if __name__ == '__main__':
    main()
