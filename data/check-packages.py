#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether every installed file is in exactly one Debian package.

    check-packages.py DEBIAN_DIR BUILD_ROOT
"""
import json
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

# As debhelper has them.
DIRECTORIES = {
    'prefix': 'usr', 'bindir': 'usr/bin', 'libexecdir': 'usr/libexec', 'includedir': 'usr/include', 'datadir': 'usr/share', 'mandir': 'usr/share/man',
    'libdir': 'usr/lib/TRIPLET', 'libdir_shared': 'usr/lib/TRIPLET', 'py_purelib': 'usr/lib/python3/dist-packages',
}


def installed(build):
    plan = json.loads((build / 'meson-info' / 'intro-install_plan.json').read_text(encoding='utf-8'))
    options = json.loads((build / 'meson-info' / 'intro-buildoptions.json').read_text(encoding='utf-8'))
    values = {option['name']: option['value'] for option in options}
    libdir, prefix = values['libdir'], values['prefix']
    for kind in plan.values():
        for entry in kind.values():
            # Some destinations are relative to the prefix, some have it spelled out.
            path = re.sub(r'^\{(\w+)\}', lambda match: DIRECTORIES[match[1]], entry['destination'])
            path = path.replace(prefix.rstrip('/') + '/', 'usr/', 1) if path.startswith(prefix) else path
            path = path if path.startswith('usr/') else f'usr/{path}'
            path = path.replace(f'usr/{libdir}/', 'usr/lib/TRIPLET/', 1)
            yield path
            # Meson makes these links when it installs.
            library = re.match(r'(.*\.so)\.(\d+)\.\d+\.\d+$', path)
            if library:
                yield library[1]
                yield f'{library[1]}.{library[2]}'


def matches(path, pattern):
    parts, wanted = path.split('/'), pattern.split('/')
    return len(parts) >= len(wanted) and all(fnmatchcase(part, want) for part, want in zip(parts, wanted))


def main():
    debian, build = map(Path, sys.argv[1:])
    packages = set(re.findall(r'^Package: (\S+)$', (debian / 'control').read_text(encoding='utf-8'), re.M))
    patterns = {path.stem: path.read_text(encoding='utf-8').split() for path in debian.glob('*.install')}
    files = sorted(set(installed(build)))
    problems = []

    if packages != set(patterns):
        problems.append(f'control has {sorted(packages)}, files for {sorted(patterns)}')
    for package, lines in patterns.items():
        problems += [f'{package}: nothing is {line}' for line in lines if not any(matches(file, line) for file in files)]
    for file in files:
        owners = [package for package, lines in patterns.items() if any(matches(file, line) for line in lines)]
        if len(owners) != 1:
            problems.append(f'{file} is in {owners or "no package"}')
    version = re.match(r'rlx-wgpu \(([^-]+)-', (debian / 'changelog').read_text(encoding='utf-8'))[1]
    project = json.loads((build / 'meson-info' / 'intro-projectinfo.json').read_text(encoding='utf-8'))['version']
    if version != project:
        problems.append(f'the changelog is of version {version}, the project of {project}')

    print('TAP version 14\n1..1')
    print(f'{"not " if problems else ""}ok 1 {len(files)} files in {len(packages)} packages')
    for problem in problems:
        print(problem, file=sys.stderr)
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main())
