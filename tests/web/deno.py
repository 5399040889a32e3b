# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Deno, whose WebGPU is wgpu, that of Firefox."""
import os

import npm

VERSION = '2.9.6'


def install():
    """Returns the program; fails with npm.Failure."""
    folder = os.path.join(npm.install('deno', VERSION), 'node_modules', '@deno')
    try:
        program = os.path.join(folder, os.listdir(folder)[0], 'deno')
    except (OSError, IndexError) as error:
        raise npm.Failure(f'the package of Deno has no program: {error}') from error
    if not os.path.exists(program):
        raise npm.Failure(f'there is no {program}')
    return program
