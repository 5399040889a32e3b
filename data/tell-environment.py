#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tells, after an installation, which variables let this system find what was installed where it does not look.

    tell-environment.py PREFIX TYPELIB_DIR BINDIR LIBDIR DATADIR OVERRIDES

TYPELIB_DIR is where GObject introspection looks; the last four are relative to PREFIX, or below it.
MESON_INSTALL_DESTDIR_PREFIX, which Meson sets, is where they are now: that may be below a staging directory.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

DATA_DIRS = '/usr/local/share:/usr/share'


def output(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding='utf-8').stdout
    except OSError:
        return ''


def missing(prefix, place, typelib_dir, *folders):
    """Variables with the entry they lack, and what to take for them where they are not set. No variable: a command."""
    binaries, libraries, data, overrides = (os.path.join(place, os.path.relpath(os.path.join(prefix, folder), prefix))
                                            for folder in folders)
    typelibs = f'{libraries}/girepository-1.0'
    # An ordinary user's path may not lead there.
    ldconfig = shutil.which('ldconfig') or '/sbin/ldconfig'

    if binaries not in os.environ.get('PATH', '').split(':'):
        yield 'PATH', binaries, ''
    if f'=> {libraries}/librlx-wgpu-1.0.so.0\n' not in output(ldconfig, '-p'):
        # It looks in these once it was told that there is something new.
        if re.search(rf'^{re.escape(libraries)}:', output(ldconfig, '-N', '-X', '-v'), re.M):
            yield None, 'ldconfig  # as root', ''
        else:
            yield 'LD_LIBRARY_PATH', libraries, ''
    if f'{libraries}/pkgconfig' not in output('pkg-config', '--variable=pc_path', 'pkg-config').strip().split(':'):
        yield 'PKG_CONFIG_PATH', f'{libraries}/pkgconfig', ''
    # valac, and the shell's completion
    if data not in (os.environ.get('XDG_DATA_DIRS') or DATA_DIRS).split(':'):
        yield 'XDG_DATA_DIRS', data, DATA_DIRS
    if typelibs != typelib_dir:
        yield 'GI_TYPELIB_PATH', typelibs, ''
        # It looks where it was installed itself, which is where GObject introspection was.
        yield 'GJS_PATH', f'{data}/gjs-1.0', ''
    if os.path.dirname(os.path.dirname(overrides)) not in sys.path:
        yield 'PYGI_OVERRIDES_PATH', overrides, ''


def main():
    prefix, typelib_dir, *folders = sys.argv[1:]
    place = os.environ.get('MESON_INSTALL_DESTDIR_PREFIX', prefix)
    lines = []
    for name, entry, default in missing(prefix, place, typelib_dir, *folders):
        if name is None:
            lines.append(entry)
        else:
            lines.append(f'export {name}={shlex.quote(entry)}' + (f':${{{name}:-{default}}}' if default else f'${{{name}:+:${name}}}'))
    if lines:
        print('\nThis system does not find everything that was installed by itself. It will after this:\n')
        print('\n'.join(f'  {line}' for line in lines))


if __name__ == '__main__':
    main()
