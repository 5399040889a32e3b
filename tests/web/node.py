# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Node.js with the package `webgpu`, which is Dawn. Skips the calling test if it is unavailable."""
import json
import os
import shutil

import npm
import tap

WEBGPU, WEBGPU_VERSION = 'webgpu', '0.6.2'


def modules():
    if shutil.which('node') is None:
        tap.skip('there is no Node.js')
    try:
        return npm.install(WEBGPU, WEBGPU_VERSION, [f'dist/{other}' for other in ('darwin-universal', 'win32-x64', 'win32-arm64')])
    except npm.Failure as error:
        tap.skip(str(error))


def run(folder, *arguments, timeout=300):
    """Runs node.mjs on a folder of exports; returns the objects it prints."""
    here = os.path.dirname(os.path.abspath(__file__))
    done = tap.run(['node', os.path.join(here, 'node.mjs'), modules(), folder, *arguments], status=0, timeout=timeout)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
