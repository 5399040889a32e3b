# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pictures as arrays [height, width, 3] of bytes, from and to 8-bit PNG files without interlacing."""
import struct
import zlib

import numpy as np


def read(path):
    with open(path, 'rb') as stream:
        data, at, pixels = stream.read(), 8, b''
    while at < len(data):
        size, kind = struct.unpack_from('>I4s', data, at)
        chunk, at = data[at + 8:at + 8 + size], at + 12 + size
        if kind == b'IHDR':
            width, height, depth, colour, _, _, interlaced = struct.unpack('>IIBBBBB', chunk)
        pixels += chunk if kind == b'IDAT' else b''
    channels = {0: 1, 2: 3, 4: 2, 6: 4}.get(colour)
    if depth != 8 or interlaced or channels is None:
        raise ValueError(f'{path}: only colours and greys of 8 bits are read, and nothing interlaced')
    rows = np.frombuffer(zlib.decompress(pixels), np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), int)
    picture = np.empty((height, width, channels), np.uint8)
    for y, (kind, row) in enumerate(zip(rows[:, 0], rows[:, 1:].reshape(height, width, channels).astype(int))):
        left = corner = np.zeros(channels, int)
        for x in range(width):
            up = above[x]
            if kind == 4:
                distances = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
                guess = np.choose(np.argmin(distances, 0), [left, up, corner])
            else:
                guess = (0, left, up, (left + up) // 2)[kind]
            corner = up
            left = row[x] = (row[x] + guess) & 255
        above = picture[y] = row
    # Grey becomes three equal colours; transparency is dropped.
    return picture[..., :3] if channels > 2 else picture[..., :1].repeat(3, -1)


def write(path, picture):
    height, width, _ = picture.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), np.ascontiguousarray(picture).reshape(height, -1)], 1)
    with open(path, 'wb') as stream:
        stream.write(b'\x89PNG\r\n\x1a\n')
        for kind, chunk in ((b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)),
                            (b'IDAT', zlib.compress(rows.tobytes(), 9)), (b'IEND', b'')):
            stream.write(struct.pack('>I', len(chunk)) + kind + chunk + struct.pack('>I', zlib.crc32(kind + chunk)))
