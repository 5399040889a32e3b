#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Transcribes speech: transcribe.py FOLDER SOUND.wav

FOLDER is the one printed by `./dev models moonshine-tiny`. The sound is mono, with 16,000 samples per second.
"""
import base64
import os
import re
import sys
import wave

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

START, END = 1, 2
LONGEST = 192  # tokens


def read_sound(path):
    with wave.open(path) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), '<i2').astype(np.float32) / 32768


def read_tokens(folder):
    """They are in the program that was published with the model."""
    with open(os.path.join(folder, 'moonshine.min.js'), encoding='utf-8') as stream:
        return base64.b64decode(re.search('PHVuaz4K[A-Za-z0-9+/=]+', stream.read())[0]).decode().split('\n')


def to_text(tokens, ids):
    data = b''.join(bytes.fromhex(tokens[i][3:5]) if re.fullmatch('<0x..>', tokens[i]) else tokens[i].encode() for i in ids)
    return data.decode(errors='replace').replace('▁', ' ').strip()


class Moonshine:
    def __init__(self, folder):
        folder = os.path.join(folder, 'model/tiny/quantized')
        device = Rlx.Device.get_default()
        self.encoder = Rlx.Session.open(os.path.join(folder, 'encoder_model.onnx'), device)
        # Its state for earlier tokens and the sound stays on the device.
        self.decoder = Rlx.Session.open(os.path.join(folder, 'decoder_model_merged.onnx'), device)
        self.decoder.set_max_rows(LONGEST)
        self.decoder.add_states()

    def transcribe(self, samples):
        """Yields the ids of tokens, one by one."""
        heard, = self.encoder(input_values=samples[None])
        self.decoder.reset_states()
        token = START
        for _ in range(min(LONGEST, len(samples) * 6 // 16000)):
            logits, = self.decoder(input_ids=[[token]], encoder_hidden_states=heard)
            token = int(logits.numpy()[0, -1].argmax())
            if token == END:
                return
            yield token


def main():
    folder, sound = sys.argv[1:]
    print(to_text(read_tokens(folder), Moonshine(folder).transcribe(read_sound(sound))))


if __name__ == '__main__':
    main()
