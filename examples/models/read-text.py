#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads a line of text in a picture: read-text.py FOLDER PICTURE.png

FOLDER is the one printed by `./dev models ppocr`.
"""
import os
import sys

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

import picture

HEIGHT = 48


def prepare(pixels):
    """As the model was trained: 48 rows, blue first, from -1 to 1."""
    height, width, _ = pixels.shape
    g = Rlx.Graph()
    x = g.input('x', 'u8', [height, width, 3])[:, :, ::-1].cast('f32').transpose(2, 0, 1)[None] / 127.5 - 1
    g.output('x', x.resize([HEIGHT, max(1, round(width * HEIGHT / height))], axes=[2, 3], mode='linear'))
    return Rlx.Device.get_default().compile(g).run_on_device([pixels]).x


def read(folder, session, pixels):
    with open(os.path.join(folder, 'ppocr_keys_v1.txt'), encoding='utf-8') as stream:
        letters = [None, *stream.read().rstrip('\n').split('\n'), ' ']
    scores = session(x=prepare(pixels))[0].numpy()[0]
    best = scores.argmax(-1)
    # Most positions have no letter, and a letter that is repeated in adjacent positions is a single one.
    first = (best != 0) & (best != np.concatenate([[0], best[:-1]]))
    return ''.join(letters[i] for i in best[first]).strip(), scores[first].max(-1).mean() if first.any() else 0


def main():
    folder, path = sys.argv[1:]
    session = Rlx.Session.open(os.path.join(folder, 'ch_PP-OCRv4_rec_infer.onnx'))
    text, sure = read(folder, session, picture.read(path))
    print(f'{text}  ({sure:.0%})')


if __name__ == '__main__':
    main()
