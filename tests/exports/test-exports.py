#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models exported by torch and transformers, compared with ONNX Runtime's CPU provider, and their number of dispatches; and
a quantised model, compared with its evaluation in double precision. They are made by what `./dev peers` fetches; without
that everything is skipped.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path += [str(FOLDER.parent / 'tools'), str(FOLDER.parent / 'models')]

import gi
import inputs
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

import peers
import tap

# Some forty steps, each with the rounding error of a sum of 256 terms, relative to its largest element.
TOLERANCE = 40 * 256 ** 0.5 * 2.0 ** -24
# The number of dispatches per run on lavapipe, for these dimensions. More means that something is no longer recognised:
# attention, norms, GELU, joint products, rotary positions (Llama, Qwen3: one for queries and keys), integers (MobileNet).
TOKENS = {'batch': 2, 'tokens': 12}
DISPATCHES = {
    'bert': (TOKENS, 22), 'llama': (TOKENS, 24), 'qwen3': (TOKENS, 28), 'vit': ({'batch': 2}, 19), 'whisper': ({'batch': 1}, 22),
    'wav2vec2': ({'batch': 2, 'samples': 1600}, 26), 'swin': ({'batch': 1}, 84), 'detr': ({'batch': 1}, 90),
    'mobilenet': ({'batch': 1}, 54), 'mobilenet-qdq': ({'batch': 1}, 67),
}


def peer(program, *arguments, folders):
    tap.device()
    command = peers.command('python3', str(FOLDER / program), *map(str, arguments), folders=[*map(str, folders)])
    if command is None:
        raise unittest.SkipTest('PyTorch and ONNX Runtime were not fetched: ./dev peers')
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        raise AssertionError(f'{program} failed: {result.stderr[-2000:]}')


class Exports(unittest.TestCase):
    def check(self, folder, name):
        arrays = np.load(folder / f'{name}.npz')
        session = Rlx.Session.open(str(folder / f'{name}.onnx'))
        known = [port.get_name() for port in session.get_model().get_inputs()]
        outputs = session(**{key[3:]: arrays[key] for key in arrays.files if key.startswith('in.') and key[3:] in known})
        expected = [arrays[key] for key in arrays.files if key.startswith('out.')]
        self.assertEqual(len(outputs), len(expected))
        for got, wanted in zip(outputs, expected):
            self.assertEqual(got.numpy().shape, wanted.shape)
            self.assertLessEqual(np.abs(got.numpy() - wanted).max() / np.abs(wanted).max(), TOLERANCE)

    def check_dispatches(self, folder, name):
        dimensions, expected = DISPATCHES[name]
        plan = subprocess.run(['rlx', 'compile', '--target=lavapipe', *(f'--dim={key}={size}' for key, size in dimensions.items()),
                               folder / f'{name}.onnx'], capture_output=True, text=True, check=True).stdout
        counts = [*map(int, re.match(r'(\d+) dispatches, (\d+) computed once', plan).groups())]
        self.assertLessEqual(counts[0], expected, f'{counts[0]} dispatches, {counts[1]} computed once')

    def test_exports(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [name for name in DISPATCHES if not name.endswith('-qdq')]
            peer('export.py', folder, *names, folders=[folder])
            for name in DISPATCHES:
                with self.subTest(name):
                    self.check(Path(folder), name)
                    self.check_dispatches(Path(folder), name)

    def test_moonshine(self):
        """8-bit levels cause rounding noise: if a quotient is close to the midpoint between two levels, the last bit of an f32
        decides, and more levels follow in each layer. Any computation in f32 differs from doubles about equally."""
        model, sound = inputs.find('moonshine-tiny'), inputs.find('jfk')
        if model is None or sound is None:
            raise unittest.SkipTest('moonshine-tiny or jfk was not fetched: ./dev models moonshine-tiny jfk')
        model = model / 'model/tiny/quantized/encoder_model.onnx'
        x = np.float32(inputs.example('transcribe').read_sound(str(sound / 'jfk.wav'))).reshape(1, -1)
        with tempfile.TemporaryDirectory() as folder:
            results = os.path.join(folder, 'results.npz')
            np.savez(results, x=x)
            peer('in-doubles.py', model, 'input_values', results, folders=[folder, model.parent])
            arrays = np.load(results)

            def distance(y):
                return np.sqrt(np.square(y - arrays['doubles']).mean())

            mine, others = Rlx.Session.open(str(model))(input_values=x)[0].numpy(), [arrays['plain'], arrays['optimised']]
            print(f'# off from doubles by {distance(mine):.5f}; ONNX Runtime by', *(f'{distance(y):.5f}' for y in others), flush=True)
            # The same number of flips in other places: over 131,616 elements their root mean square varies little.
            self.assertLessEqual(distance(mine), 1.25 * max(map(distance, others)))


if __name__ == '__main__':
    tap.main()
