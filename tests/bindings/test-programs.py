#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the examples in all languages, with a driver and without.

    test-programs.py SOURCES EXAMPLES LANGUAGE:NAME=PROGRAM…

SOURCES is the folder of this file, EXAMPLES that of the examples; the programs are the compiled
ones.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import wave
import zlib
from pathlib import Path

import gi
import tap

sys.path.append(str(Path(__file__).resolve().parent.parent / 'tools'))
import models

SOURCES, EXAMPLES = map(Path, sys.argv[1:3])
PROGRAMS = {tuple(name.split(':')): [path] for name, path in (pair.split('=', 1) for pair in sys.argv[3:])}
PROGRAMS |= {('python', path.stem): [sys.executable, path] for path in (EXAMPLES / 'python').glob('*.py')}
PROGRAMS |= {('gjs', path.stem): ['gjs', '-m', path] for path in (EXAMPLES / 'gjs').glob('*.js')}
PROGRAMS['python', 'no-adapter'] = [sys.executable, SOURCES / 'no-adapter.py']
PROGRAMS['gjs', 'no-adapter'] = ['gjs', '-m', SOURCES / 'no-adapter.js']
WINDOWS = {language: PROGRAMS.pop((language, 'window')) for language in ('python', 'gjs')}
# They need files that may be missing: see test-mnist.py.
for program in ('python', 'mnist'), ('gjs', 'mnist'), ('python', 'lora'):
    del PROGRAMS[program]
LANGUAGES = sorted({language for language, _ in PROGRAMS})

OUTPUT = {
    'first': '[4, 5, 0, 0]\n',
    'async': '[1, 2, 3, 4]\ncancelled\n',
    ('python', 'async'): '[1, 2, 3, 4]\n[2, 4, 6, 8]\n[3, 6, 9, 12]\ncancelled\n',
    'upscale': '32 x 24 to 64 x 48, mean 91.3 123.8 123.3\n',
    'decoder': '3 14 15 35 3 3 3 3 3 3 3 30 30 18 3 3\n',
    'embed': '1.000 The cat sleeps on the sofa.\n0.733 A kitten is napping on a couch.\n-0.038 Interest rates rose again.\n',
    'encoder': '1.000 0.831 0.577\n0.831 1.000 0.809\n0.577 0.809 1.000\n',
    'dense': '(8, 32) as numpy has it\n',
    'chain': '[2, 2, 2, 2]\n',
    'weights': '[14, 25, 0, 9]\n',
    'model': '[14.5, 2.75]\n[14.5, 2.75, 10.5, 0]\n',
    'spectrum': '300 frames of 400, 80 bins, levels from -0.64 to 1.36, mean -0.199\n',
}
MODEL = {'embed': 'minilm'}
ARGUMENTS = {'weights': [EXAMPLES / 'weights.safetensors'], 'model': [EXAMPLES / 'model.onnx'], 'embed': [models.find('minilm') or '/nonexistent']}
NO_DRIVER = {'VK_DRIVER_FILES': '/nonexistent', 'VK_ICD_FILENAMES': '/nonexistent'}


def run(command, **environment):
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)


class Programs(unittest.TestCase):
    def use_window(self, language):
        tap.device()
        if shutil.which('Xvfb') is None:
            raise unittest.SkipTest('there is no Xvfb')
        try:
            gi.require_version('Gtk', '4.0')
        except ValueError:
            raise unittest.SkipTest('there is no GTK 4')
        *command, example = WINDOWS[language]
        driver = SOURCES / ('drive-window' + example.suffix)
        # GTK warns about what is missing here: a session bus, a settings daemon.
        with subprocess.Popen(['Xvfb', '-displayfd', '1', '-nolisten', 'tcp'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True) as server:
            try:
                display = ':' + server.stdout.readline().strip()
                result = run([*command, driver, example], DISPLAY=display, GDK_BACKEND='x11', GSK_RENDERER='cairo', GTK_A11Y='none',
                             GSETTINGS_BACKEND='memory', G_DEBUG='')
            finally:
                server.terminate()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, 'progress\nstopped\n', result.stderr)

    def test_window_python(self):
        self.use_window('python')

    def test_window_gjs(self):
        self.use_window('gjs')


def add(name, test):
    test.__name__ = 'test_' + name
    setattr(Programs, test.__name__, test)


for key, command in PROGRAMS.items():
    language, name = key
    command = command + ARGUMENTS.get(name, [])

    def prints(self, key=key, command=command):
        tap.device()
        if key[1] in MODEL and models.find(MODEL[key[1]]) is None:
            raise unittest.SkipTest(f'the model {MODEL[key[1]]} is not there; ./dev models {MODEL[key[1]]} fetches it')
        result = run(command)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, OUTPUT.get(key) or OUTPUT[key[1]])
        self.assertEqual(result.stderr, '')

    def fails(self, command=command):
        # In GJS an uncaught error is a warning.
        result = run(command, G_DEBUG='', **NO_DRIVER)
        self.assertGreater(result.returncode, 0, 'it works, or it crashed')
        self.assertIn('mesa-vulkan-drivers', result.stderr)

    def tells(self, command=command):
        result = run(command, **NO_DRIVER)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith('NO_ADAPTER: '), result.stdout)
        self.assertIn('Install', result.stdout)
        self.assertIn('mesa-vulkan-drivers', result.stdout)
        self.assertEqual(result.stderr, '')

    if name == 'no-adapter':
        add(f'no_adapter_{language}', tells)
    else:
        add(f'{language}_{name}', prints)
        add(f'{language}_{name}_without_a_driver', fails)


class Pictures(unittest.TestCase):
    def test_in_and_out(self):
        tap.device()
        with tempfile.TemporaryDirectory() as folder:
            small = Path(folder) / 'small.ppm'
            small.write_bytes(b'P6\n4 2\n255\n' + bytes(range(10, 250, 10)))
            large = []
            for language, name in ('python', 'upscale'), ('gjs', 'upscale'):
                path = Path(folder) / language
                result = run([*PROGRAMS[language, name], small, path])
                self.assertEqual(result.returncode, 0, result.stderr)
                large.append(path.read_bytes())
            self.assertEqual(len(large[0]), len(b'P6 8 4 255\n') + 8 * 4 * 3)
            self.assertEqual(large[0], large[1])


class Sounds(unittest.TestCase):
    def test_picture(self):
        tap.device()
        with tempfile.TemporaryDirectory() as folder:
            sound, picture = Path(folder) / 'sound.wav', Path(folder) / 'picture.png'
            with wave.open(str(sound), 'wb') as stream:
                stream.setparams((2, 2, 8000, 0, 'NONE', ''))
                stream.writeframes(b''.join(struct.pack('<hh', i % 40 * 500 - 10000, 0) for i in range(4000)))
            result = run([*PROGRAMS['python', 'spectrum'], sound, picture])
            self.assertEqual(result.returncode, 0, result.stderr)
            data = picture.read_bytes()
            width, height, depth, colour = struct.unpack('>IIBB', data[16:26])
            self.assertEqual((width, height, depth, colour), (50, 80, 8, 0))
            at = data.index(b'IDAT')
            rows = zlib.decompress(data[at + 4:at + 4 + struct.unpack('>I', data[at - 4:at])[0]])
            self.assertEqual(len(rows), 80 * 51)
            # The loudest is the tone of 200 Hz, the fifth of 80 bins up to 4000 Hz.
            self.assertIn(79 - rows.index(255) // 51, range(3, 8))

    def test_short(self):
        with tempfile.TemporaryDirectory() as folder:
            sound = Path(folder) / 'sound.wav'
            with wave.open(str(sound), 'wb') as stream:
                stream.setparams((1, 1, 8000, 0, 'NONE', ''))
                stream.writeframes(bytes(100))
            result = run([*PROGRAMS['python', 'spectrum'], sound])
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, '100 samples are less than one frame of 200\n')


class Compilers(unittest.TestCase):
    """As in the comments at the top of the examples."""

    def compile(self, command):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, '')
            tap.device()
            self.assertEqual(run([Path(folder) / 'first']).stdout, OUTPUT['first'])

    def test_cc(self):
        self.compile(f'cc -Wall -Wextra {EXAMPLES}/c/first.c $(pkg-config --cflags --libs rlx-wgpu-1.0) -o first')

    @unittest.skipIf('vala' not in LANGUAGES, 'there is no Vala compiler')
    def test_valac(self):
        self.compile(f'valac --fatal-warnings --pkg rlx-wgpu-1.0 {EXAMPLES}/vala/first.vala -o first')


if __name__ == '__main__':
    del sys.argv[1:]
    tap.main()
