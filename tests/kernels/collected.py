# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The kernels that collect-kernels finds.

Compilers are slow, and types, ranks and tile sizes give many texts that differ little. So a text is only chosen if it has a
binding or a pair of lines, ignoring numbers, that no earlier one has. With RLX_TEST_FULL=1 all of them are."""
import collections
import os
import re

import graphs
import tap

Kernel = collections.namedtuple('Kernel', 'name kernel file op adapter invocations bytes text')


def get_kernels(collect):
    folder = tap.path('all')
    os.mkdir(folder)
    tap.run([collect, tap.write('graphs', '\n'.join(graphs.get_all())), folder], status=0, env={'RLX_DEBUG': None})
    found = []
    with open(os.path.join(folder, 'index')) as index:
        for line in index:
            fields = line.rstrip('\n').split('\t')
            with open(os.path.join(folder, fields[0])) as file:
                found.append(Kernel(*fields, file.read()))
    return found


def get_parts(kernel):
    """What kernels from the same file may have in common."""
    head, body = re.split(r'(?m)^fn workgroup_index.*\n', re.sub(r'\b\d+(?=u?\b)', 'N', kernel.text))
    body = [line.strip() for line in body.splitlines()]
    return {(kernel.file, line) for line in head.splitlines()} | {(kernel.file, *pair) for pair in zip(body, body[1:])}


def choose(everything):
    if 'RLX_TEST_FULL' in os.environ:
        return everything
    known = set()
    chosen = []
    for kernel in everything:
        parts = get_parts(kernel)
        if not parts <= known:
            known |= parts
            chosen.append(kernel)
    return chosen


def describe(kernel):
    return f'{kernel.kernel} of {kernel.op} for “{kernel.adapter}”'
