#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws what a command shows on a terminal while it is half done.

    terminal.py FILE.svg COMMAND [ARGUMENT…]

The lines of all bars that it showed are drawn, each as it was nearest to 60 %, and then what the command printed. What
was on the screen is drawn, not what should have been: `./dev shell doc/terminal.py doc/terminal.svg rlx run …`.
"""
import contextlib
import html
import os
import pty
import re
import subprocess
import sys

LINE, COLUMN, MARGIN = 18, 8, 14


def show(command):
    """What the command wrote to its terminal, and how it ended."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b''
        with contextlib.suppress(OSError):  # what the end of the other side is here
            while part := os.read(ours, 4096):
                shown += part
    os.close(ours)
    if process.returncode:
        sys.exit(f'{command[0]} failed: {shown.decode()}')
    return shown.decode()


def main(path, *command):
    # A bar writes over itself: each piece is what the line was for a while.
    pieces = [piece for piece in re.split(r'\r\n|\r\x1b\[K', show(command)) if piece]
    bars = {}
    for piece in pieces:
        if found := re.search(r'\] +(\d+) %  (.*)', piece):
            distance = abs(int(found[1]) - 60)
            bars[found[2]] = min(bars.get(found[2], (101, '')), (distance, piece))
    lines = ['$ ' + ' '.join(command), *(piece for _, piece in bars.values()),
             *(piece for piece in pieces if not re.search(r'\] +\d+ %  |…$', piece))]
    width = 2 * MARGIN + COLUMN * max(map(len, lines))
    with open(path, 'w', encoding='utf-8') as stream:
        stream.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {2 * MARGIN + LINE * len(lines)}" '
                     'font-family="monospace" font-size="13">\n  <rect width="100%" height="100%" rx="6" fill="#241f31"/>\n')
        for i, line in enumerate(lines):
            stream.write(f'  <text x="{MARGIN}" y="{MARGIN + LINE * i + 13}" fill="#f6f5f4" xml:space="preserve" '
                         f'textLength="{COLUMN * len(line)}">{html.escape(line)}</text>\n')
        stream.write('</svg>\n')


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
