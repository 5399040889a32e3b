#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares the meanings of texts with that of the first one.

    python3 embed.py FOLDER

FOLDER contains a model as saved by sentence-transformers.
"""
import sys

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Gio, Rlx

TEXTS = ['The cat sleeps on the sofa.', 'A kitten is napping on a couch.', 'Interest rates rose again.']

device = Rlx.Device.get_default()
encoder = Rlx.TextEncoder.open(Gio.File.new_for_commandline_arg(sys.argv[1]), device)
vectors = encoder.encode(TEXTS).numpy()
for text, similarity in zip(TEXTS, vectors @ vectors[0]):
    print(f'{similarity:.3f} {text}')
