# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command `rlx`, the first argument of the tests that import this, and .npy files for it."""
import json
import os
import struct
import sys

import tap

rlx = os.path.abspath(sys.argv[1])
OK, FAILED, USAGE, NO_ADAPTER = 0, 1, 2, 77


def npy(name, dtype, shape, data, version=1, order='False'):
    """Written by hand, so that the bytes can also be wrong."""
    text = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({''.join(f'{n}, ' for n in shape)}), }}"
    text += ' ' * (-(len(text) + 11) % 64) + '\n'
    return tap.write(name, b'\x93NUMPY' + bytes([version, 0]) + struct.pack('<H', len(text)) + text.encode() + data)


def run(*arguments, status=OK, env=None, stdin='', silent=None):
    """A command prints nothing to standard error if it succeeds, and one message if it fails."""
    done = tap.run([rlx, *arguments], status=status, env=env, stdin=stdin)
    if silent is False:
        return done
    if status == OK:
        tap.equal(done.stderr, '', 'the standard error output')
    else:
        lines = done.stderr.splitlines()
        tap.check(lines and lines[0].startswith('rlx'), f'no message, but {done.stderr!r}')
        tap.equal(len(lines), 1, f'the number of lines in {done.stderr!r}')
        tap.check(len(done.stderr) < 2000, 'the message is endless')
        tap.check('\ufffd' not in done.stderr, f'the message is not UTF-8: {done.stderr!r}')
    return done


def refused(words, *arguments, status=FAILED, **others):
    done = run(*arguments, status=status, **others)
    for word in [words] if isinstance(words, str) else words:
        tap.contains(done.stderr, word, 'the message')
    tap.equal(done.stdout, '', 'the standard output')


def parse(text):
    def strictly(name):
        tap.fail(f'{name} is not JSON')
    return json.loads(text, parse_constant=strictly)
