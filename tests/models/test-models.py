#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models as published, compared with ONNX Runtime's CPU provider and the results published with them.

Models that `./dev models` has not fetched are skipped. expect.py writes the expected results.
"""
import json
import shutil
import subprocess
import unittest

import gi
import inputs
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

import picture
import tap

with open(inputs.FOLDER / 'expected.json', encoding='utf-8') as stream:
    EXPECTED = json.load(stream)

# In either program each of some 100 layers has an error of a few units in the last place of its largest element; sums
# of a few hundred products have more, and they add up randomly: 100 · 4 · 2⁻²⁴ · √300. The final sigmoid and softmax
# do not increase that.
TOLERANCE = 100 * 4 * 2 ** -24 * 300 ** 0.5

# The words. Commas depend on the rounding of the 8-bit activations.
SPEECH = 'And so my fellow Americans ask not what your country can do for you ask what you can do for your country.'


def need(name):
    tap.device()
    folder = inputs.find(name)
    if folder is None:
        raise unittest.SkipTest(f'{name} was not fetched: ./dev models {name}')
    return folder


class Models(unittest.TestCase):
    def check(self, y, expected):
        y = np.asarray(y).ravel()
        self.assertEqual(y.shape, np.shape(expected))
        self.assertLessEqual(np.abs(y - expected).max(), TOLERANCE)

    def check_speech(self, name, file):
        folder, sound = need(name), need('jfk') / 'jfk.wav'
        vad = inputs.example('detect-speech')
        found = [*vad.probabilities(str(folder / file), vad.read_sound(str(sound)))]
        self.check(found, EXPECTED[name])
        # The classes are distinguishable.
        self.assertTrue(min(found) < 0.1 and max(found) > 0.9)

    def test_silero_vad(self):
        self.check_speech('silero-vad', 'silero_vad_v6.onnx')

    def test_silero_vad_v5(self):
        self.check_speech('silero-vad-v5', 'silero_vad_v5.onnx')

    def test_ppocr_detect(self):
        session = Rlx.Session.open(str(need('ppocr') / inputs.DETECT))
        y = session(x=inputs.to_detect())[0].numpy()
        self.check(y.ravel()[inputs.places(y.shape)], EXPECTED['ppocr-det'])
        # Two lines with a gap between them.
        rows = (y[0, 0] > 0.3).any(1)
        self.assertEqual(np.count_nonzero(np.diff(rows.astype(int)) == 1), 2)

    def test_ppocr_turn(self):
        y = Rlx.Session.open(str(need('ppocr') / inputs.TURN))(x=inputs.to_turn())[0].numpy()
        self.check(y.ravel()[inputs.places(y.shape)], EXPECTED['ppocr-cls'])
        self.assertEqual(y.argmax(1).tolist(), [0, 1])

    def test_ppocr_read(self):
        folder = need('ppocr')
        session, program = Rlx.Session.open(str(folder / inputs.READ)), inputs.example('read-text')
        for name, text in inputs.LINES.items():
            with self.subTest(name):
                pixels = inputs.line(name)
                self.assertEqual(program.read(folder, session, pixels)[0], text)
                self.check(session(x=inputs.as_input(pixels))[0].numpy()[0].max(-1), EXPECTED['ppocr-rec'][name])
        self.assertEqual(session.get_n_executables(), len(inputs.LINES))

    def test_moonshine(self):
        folder, sound = need('moonshine-tiny'), need('jfk') / 'jfk.wav'
        program = inputs.example('transcribe')
        tokens = [*program.Moonshine(str(folder)).transcribe(program.read_sound(str(sound)))]
        self.assertEqual(program.to_text(program.read_tokens(str(folder)), tokens).replace(',', ''), SPEECH)

    def test_moonshine_gjs(self):
        folder, sound = need('moonshine-tiny'), need('jfk') / 'jfk.wav'
        if shutil.which('gjs') is None:
            raise unittest.SkipTest('there is no GJS')
        result = subprocess.run(['gjs', '-m', inputs.EXAMPLES / 'transcribe.js', folder, sound], capture_output=True, text=True,
                                timeout=200)
        self.assertEqual((result.returncode, result.stdout.replace(',', ''), result.stderr), (0, SPEECH + '\n', ''))

    def test_esrgan(self):
        folder = need('esrgan-slim')
        program = inputs.example('enlarge')
        large = program.enlarge(str(folder), picture.read(folder / 'assets/fixture.png')).astype(float)
        published = picture.read(folder / 'assets/samples/2x/result.png').astype(float)
        self.assertEqual(large.shape, published.shape)
        # The published picture was rounded to bytes as well.
        self.assertGreaterEqual(20 * np.log10(255) - 10 * np.log10(max(1e-9, ((large - published) ** 2).mean())), 45)


if __name__ == '__main__':
    tap.main()
