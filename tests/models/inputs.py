# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The inputs of models, both here and for the expected results of ONNX Runtime."""
import importlib.util
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
EXAMPLES = FOLDER.parent.parent / 'examples' / 'models'
sys.path += [str(FOLDER.parent / 'tools'), str(EXAMPLES)]

import models
import picture

LINES = {
    'line-short': 'Hello, GPU!',
    'line-middle': 'The quick brown fox, 1234.56',
    'line-long': 'Compiled for the device that is there: 17% faster (v0.9)',
}
DETECT, READ, TURN = 'ch_PP-OCRv4_det_infer.onnx', 'ch_PP-OCRv4_rec_infer.onnx', 'ch_ppocr_mobile_v2.0_cls_infer.onnx'


def example(name):
    """A program of examples/models as a module."""
    spec = importlib.util.spec_from_file_location(name.replace('-', '_'), EXAMPLES / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def find(name):
    folder = models.find(name)
    return None if folder is None else Path(folder)


def line(name):
    return picture.read(FOLDER / f'{name}.png')


def as_input(pixels, mean=0.5, deviation=0.5):
    """Blue first, channels first."""
    return ((pixels[:, :, ::-1] / np.float32(255) - mean) / deviation).transpose(2, 0, 1)[None].astype(np.float32)


def to_detect():
    """Two lines on a page whose sides are multiples of 32."""
    sheet = np.full([160, 480, 3], 255, np.uint8)
    for name, top, left in ('line-short', 16, 24), ('line-middle', 96, 8):
        pixels = line(name)[:, :464]
        sheet[top:top + pixels.shape[0], left:left + pixels.shape[1]] = pixels
    return as_input(sheet, np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225]))


def to_turn():
    """A line and the same one upside down, cropped to 192 columns."""
    upright = line('line-middle')[:, :192]
    return np.concatenate([as_input(upright), as_input(upright[::-1, ::-1])])


def places(shape):
    """Elements spread over an array, as a sample of it."""
    size = int(np.prod(shape))
    return np.arange(1, 1 + min(size, 96)) * 7919 % size
