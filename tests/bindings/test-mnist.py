#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The examples that learn to read digits, with the files of MNIST; skipped if these were not fetched.

    test-mnist.py EXAMPLES [--whole]

2,000 digits once, or with --whole the full training of the examples, in both languages, which takes minutes.
"""
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import tap

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'tools'))
import models

EXAMPLES, WHOLE = Path(sys.argv[1]), '--whole' in sys.argv
PROGRAMS = {'python': [sys.executable, EXAMPLES / 'python' / 'mnist.py'], 'gjs': ['gjs', '-m', EXAMPLES / 'gjs' / 'mnist.js']}
PNG = b'\x89PNG\r\n\x1a\n'
# Percentage of the 10,000 other digits that the whole training has to reach, in how many seconds with
# how many cores.
WANTED, SECONDS, CORES = 98.0, 180, 2
# After seeing 2,000 digits once, most are read; without learning it would be a tenth.
WANTED_OF_FEW = 75.0


def cpu_time():
    """Of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Digits(unittest.TestCase):
    def run_example(self, language, **arguments):
        command = [*PROGRAMS[language], *(f'--{name}={value}' if value else f'--{name}' for name, value in arguments.items())]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode, 0, result.stderr)
        return float(re.fullmatch(r'([0-9.]+)% of 10000 other digits are read\n', result.stdout)[1])

    def learn(self, language, **arguments):
        """Trains, and reads with the weights saved in the other language."""
        tap.device()
        folder = models.find('mnist')
        if folder is None:
            raise unittest.SkipTest('./dev models mnist fetches the digits')
        with tempfile.TemporaryDirectory() as temporary:
            weights, picture = Path(temporary) / 'w.safetensors', Path(temporary) / 'p.png'
            start, busy, before = time.monotonic(), os.getloadavg()[0] > CORES, cpu_time()
            read = self.run_example(language, folder=folder, weights=weights, picture=picture, **arguments)
            self.assertLess(cpu_time() - before, CORES * SECONDS)
            # If other programs are running, the clock is meaningless.
            if not busy:
                self.assertLess(time.monotonic() - start, SECONDS)
            self.assertEqual(picture.read_bytes()[:8], PNG)
            for other in PROGRAMS if WHOLE else ['gjs']:
                self.assertEqual(self.run_example(other, folder=folder, weights=weights, test=''), read)
            if WHOLE:
                self.fine_tune(folder, weights, Path(temporary) / 'adapters.safetensors')
        return read

    def fine_tune(self, folder, weights, adapters):
        before = weights.read_bytes()
        result = subprocess.run([sys.executable, EXAMPLES / 'python' / 'lora.py', weights, adapters, f'--folder={folder}'],
                                capture_output=True, text=True, timeout=900)
        self.assertEqual(result.returncode, 0, result.stderr)
        lying, adapted, upright = map(float, re.findall(r'([0-9.]+)%', result.stdout))
        self.assertLess(lying, 40)
        self.assertGreater(adapted, lying + 30)
        self.assertGreaterEqual(upright, WANTED)
        self.assertEqual(weights.read_bytes(), before)

    def test_digits(self):
        if not WHOLE:
            self.assertGreater(self.learn('python', digits=2000, epochs=1, batch=16), WANTED_OF_FEW)
            return
        for language in PROGRAMS:
            with self.subTest(language):
                self.assertGreaterEqual(self.learn(language), WANTED)


if __name__ == '__main__':
    del sys.argv[1:]
    tap.main()
