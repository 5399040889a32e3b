#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether the man page has every command and option of rlx, and the manual every environment variable and debug key.

    check-man-page.py RLX SOURCE_ROOT
"""
import os
import re
import subprocess
import sys
from pathlib import Path


def output(*command, **environment):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding='utf-8',
                         env=os.environ | environment)
    return run.stdout, run.stderr


def words(text):
    """What a page in reStructuredText or Markdown marks as literal, and headings."""
    return set(re.findall(r'(?:\*\*|`)([^*`\s=]+)=?(?:\*\*|`)', text)) | set(re.findall(r'^(\w+)\n[-=]+$', text, re.M))


def main():
    rlx, root = sys.argv[1], Path(sys.argv[2])
    page = (root / 'doc' / 'rlx.1.rst').read_text(encoding='utf-8')
    manual = ''.join((root / 'doc' / name).read_text(encoding='utf-8') for name in ('overview.md', 'debugging.md'))
    sections = {title: body for title, body in re.findall(r'^(\w+)\n-+\n(.*?)(?=^\w+\n[-=]+\n|\Z)', page, re.M | re.S)}
    tests = []

    commands = re.findall(r'^  (\w+) ', output(rlx, '--help')[0].split('Commands:')[1], re.M)
    tests.append(('commands', [c for c in commands if c not in sections] + [s for s in sections if s not in commands]))
    for command in commands:
        help_text = output(rlx, command, '--help')[0]
        options = set(re.findall(r'(?<![\w-])--?[a-z][\w-]*', help_text.split('Help Options:')[1])) - {'-h', '--help'}
        known = {word for word in words(sections.get(command, '')) if word.startswith('-')}
        tests.append((f'options of {command}', sorted(options ^ known)))

    keys = re.findall(r'^  ([\w-]+) ', output(rlx, 'devices', RLX_DEBUG='help')[1], re.M)
    tests.append(('keys of RLX_DEBUG', [k for k in keys if k not in words(page) & words(manual) | {'help'}] or
                  ([] if keys else ['RLX_DEBUG=help prints nothing'])))

    variables = {name for path in (root / 'rlx-wgpu').rglob('*.c')
                 for name in re.findall(r'rlx_getenv \("(\w+)"\)', path.read_text(encoding='utf-8'))}
    tests.append(('environment variables', sorted(v for v in variables if v not in words(page) & words(manual)) or
                  ([] if variables else ['no variable was found'])))

    print(f'TAP version 14\n1..{len(tests)}')
    for number, (name, problems) in enumerate(tests, 1):
        print(f'{"not " if problems else ""}ok {number} {name}')
        if problems:
            print(f'{name}: not documented, or not there: {", ".join(problems)}', file=sys.stderr)
    return any(problems for _, problems in tests)


if __name__ == '__main__':
    sys.exit(main())
