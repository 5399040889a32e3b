# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The folders of the library depend on each other in one order only, and system-dependent code is in one
file.

Usage: test-rooms.py SOURCE_ROOT"""
import os
import re
import sys

import tap

library = os.path.join(os.path.abspath(sys.argv[1]), 'rlx-wgpu')

# A file includes headers of its own folder and of earlier ones. '' is the library's main folder, with the public
# classes; formats/, import/ and text/ add methods to these.
ROOMS = ['util', 'target', 'gpu', 'ir', 'ops', 'passes', 'plan', '', 'formats', 'import', 'text', 'export']

# Used in all folders, although they are with the public classes. These include nothing but each other.
WORDS = {'rlx-types.h', 'rlx-tensor.h', 'rlx-tensor-private.h', 'rlx-version-macros.h', 'rlx-enum-types.h'}

# Generated from the op table into the build folder; they belong to these folders.
GENERATED = {'rlx-op-vocabulary-private.h': 'ops', 'rlx-op-options.h': '', 'rlx-op-methods.h': ''}

# Available on every system.
STANDARD = {'math.h', 'stdatomic.h', 'stdbool.h', 'stdio.h', 'stdlib.h', 'string.h', 'glib.h', 'gio/gio.h',
            'sysprof-capture.h', 'zlib.h'}


def list_files():
    """Path below the library's folder: what it includes, where names in quotes are resolved if they are files."""
    paths = [os.path.relpath(os.path.join(folder, name), library) for folder, _, names in os.walk(library)
             for name in names if name.endswith(('.c', '.h'))]
    files = {}
    for path in paths:
        with open(os.path.join(library, path), encoding='utf-8') as file:
            text = file.read()
        own, system = set(), set()
        for kind, name in re.findall(r'^#\s*include\s+(["<])([^">]+)', text, re.M):
            name = name.removeprefix('rlx-wgpu/')
            beside = os.path.join(os.path.dirname(path), name)
            found = next((place for place in (beside, name) if place in paths or place in GENERATED), None)
            if found:
                own.add(found)
            elif kind == '<' and not name.startswith('rlx-'):
                system.add(name)
        files[path] = own, system
    return files


files = list_files()


def room(path):
    return GENERATED.get(path, os.path.dirname(path))


def stands_above(name, path):
    return ROOMS.index(room(name)) > ROOMS.index(room(path))


@tap.test
def all_rooms_are_known():
    tap.check(len(files) > 100, f'only {len(files)} files were found in {library}')
    tap.none({room(path) for path in files} - set(ROOMS), 'folders that have no place in the order')


@tap.test
def rooms_stand_on_each_other():
    tap.none((f'{path} includes {name}' for path in files for name in files[path][0] - WORDS if stands_above(name, path)),
             'includes of what stands above: what is needed of it is in the wrong place')


@tap.test
def words_stand_alone():
    tap.none((f'{path} includes {name}' for path in WORDS & set(files) for name in files[path][0] - WORDS),
             'includes of what all rooms speak of')


@tap.test
def systems_differ_in_one_file():
    tap.none((f'{path} includes {name}' for path in files if path != 'util/rlx-os.c'
              for name in files[path][1] - STANDARD if not (room(path) == 'gpu' and name == 'webgpu/webgpu.h')),
             'includes of what not every system has')


@tap.test
def messages_name_no_functions():
    """They are also read by people who write Python or JavaScript."""
    found = set()
    for path in files:
        with open(os.path.join(library, path), encoding='utf-8') as file:
            found |= {f'{path}: {text}' for text in re.findall(r'"(?:[^"\\\n]|\\.)*\brlx_\w+ ?\(\)(?:[^"\\\n]|\\.)*"', file.read())}
    tap.none(found, 'texts that name functions of C')


tap.main('rooms')
