#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws the log-mel spectrogram of a sound, the input of speech recognisers: spectrum.py IN.wav OUT.png

Without arguments a generated sound is used, and the picture is not saved. Frames of 25 ms start every 10 ms.
"""
import struct
import sys
import wave
import zlib

import gi
import numpy as np

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

BINS = 80


def read_sound(path):
    """Samples from -1 to 1, averaged over the channels, and the sample rate."""
    with wave.open(path) as stream:
        rate, width, channels = stream.getframerate(), stream.getsampwidth(), stream.getnchannels()
        data = stream.readframes(stream.getnframes())
    if width not in (1, 2, 4):
        sys.exit(f'{path}: samples of {8 * width} bits')
    # Bytes are unsigned, other samples are signed.
    samples = np.frombuffer(data, {1: np.uint8, 2: '<i2', 4: '<i4'}[width]).astype(np.float32)
    samples = samples / 128 - 1 if width == 1 else samples / 2 ** (8 * width - 1)
    return samples.reshape(-1, channels).mean(1, dtype=np.float32), rate


def make_sound(rate, seconds):
    """A rising tone, with two of its harmonics."""
    time = np.arange(int(rate * seconds)) / rate
    phase = 2 * np.pi * (200 * time + 300 * time ** 2 / seconds)
    return sum(np.sin(k * phase) / (3 * k) for k in (1, 2, 4)).astype(np.float32)


def write_picture(path, grey):
    """A PNG, row by row, each after a byte for its filter: none."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    height, width = grey.shape
    rows = np.pad(grey, ((0, 0), (1, 0)))
    with open(path, 'wb') as stream:
        stream.write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0)) +
                     chunk(b'IDAT', zlib.compress(rows.tobytes(), 9)) + chunk(b'IEND', b''))


def main():
    samples, rate = read_sound(sys.argv[1]) if len(sys.argv) > 1 else (make_sound(16000, 3), 16000)
    n_fft, hop = rate // 40, rate // 100
    if len(samples) <= n_fft:
        sys.exit(f'{len(samples)} samples are less than one frame of {n_fft}')

    g = Rlx.Graph()
    x = g.input('samples', 'f32', [len(samples)])
    filters = Rlx.Tensor.new_mel_filters(Rlx.MelScale.SLANEY, BINS, n_fft, rate, 0, rate / 2, True)
    g.output('levels', x.log_mel(g.constant(filters), fft_length=n_fft, hop=hop))
    levels = np.asarray(Rlx.Device.get_default().compile(g)(samples).levels)

    if len(sys.argv) > 2:
        # Low tones at the bottom, time from left to right.
        shades = (levels - levels.min()) / max(levels.max() - levels.min(), 1e-6)
        write_picture(sys.argv[2], (shades[::-1] * 255).astype(np.uint8))
    print(f'{levels.shape[1]} frames of {n_fft}, {BINS} bins, levels from {levels.min():.2f} to {levels.max():.2f}, '
          f'mean {levels.mean():.3f}')


if __name__ == '__main__':
    main()
