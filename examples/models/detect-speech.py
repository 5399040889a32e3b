#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Detects speech in a sound: detect-speech.py silero_vad_v6.onnx SOUND.wav

`./dev models silero-vad` fetches the model, `./dev models jfk` a sound. Sounds are mono, with 16,000 samples per second.
"""
import sys
import wave

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

RATE, FRAME, CONTEXT = 16000, 512, 64


def read_sound(path):
    with wave.open(path) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), '<i2').astype(np.float32) / 32768


def probabilities(path, samples):
    """For each frame of 32 ms, the probability of speech."""
    model = Rlx.Model.open(path)
    model.fix_input('sr', RATE)
    session = Rlx.Session.new(model, Rlx.Device.get_default(), None)
    state = np.zeros([2, 1, 128], np.float32)
    samples = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    for start in range(0, len(samples) - CONTEXT - FRAME + 1, FRAME):
        out = session(input=samples[None, start:start + CONTEXT + FRAME], state=state)
        state = out.stateN
        yield float(out.output.numpy()[0, 0])


def main():
    path, sound = sys.argv[1:]
    begin = None
    for i, p in enumerate([*probabilities(path, read_sound(sound)), 0]):
        if p >= 0.5 and begin is None:
            begin = i
        elif p < 0.35 and begin is not None:
            print(f'{begin * FRAME / RATE:6.2f} s to {i * FRAME / RATE:6.2f} s')
            begin = None


if __name__ == '__main__':
    main()
