# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Installs into a temporary folder, checks the files, and uses the library from there.

Usage: test-install.py BUILD_ROOT SOURCE_ROOT"""
import glob
import json
import os
import re
import shlex
import shutil
import stat
import sys

import tap

build, source = map(os.path.abspath, sys.argv[1:3])
root = tap.path('root')
cc = shlex.split(os.environ.get('CC', 'cc'))
options = {option['name']: option['value']
           for option in json.load(open(os.path.join(build, 'meson-info', 'intro-buildoptions.json'), encoding='utf-8'))}
prefix = options['prefix']


def below(*parts):
    """A path in the temporary folder; parts are relative to the prefix, or absolute."""
    return root + os.path.join(prefix, *parts)


libdir = below(options['libdir'])

program = r'''
#include <rlx-wgpu/rlx-wgpu.h>

int
main (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);
  g_autoptr(RlxGraph) g = rlx_graph_new ();
  const gint64 sx[] = { 2, 3 }, sw[] = { 3, 2 };
  g_autoptr(RlxTensor) wt = rlx_tensor_new_from_floats (sw, 2, (float[]) { 1, 0, 0, 1, 1, 1 }, 6, NULL);
  g_autoptr(RlxTensor) xt = rlx_tensor_new_from_floats (sx, 2, (float[]) { 1, 2, 3, -4, -5, -6 }, 6, NULL);
  g_autoptr(RlxExecutable) exe = NULL;
  g_auto(RlxTensors) out = NULL;
  g_autofree char *text = NULL;
  RlxNode *x = rlx_graph_input (g, "x", RLX_DATA_TYPE_F32, sx, 2, &error);
  RlxNode *w = rlx_graph_constant (g, wt, &error);
  gsize n;

  rlx_graph_output (g, "y", rlx_node_relu (rlx_node_matmul (x, w, NULL, &error), &error), &error);
  exe = device ? rlx_device_compile (device, g, NULL, NULL, &error) : NULL;
  out = exe ? rlx_executable_run (exe, &xt, 1, &n, NULL, &error) : NULL;
  if (out == NULL)
    g_error ("%s", error->message);
  text = rlx_tensor_to_string (out[0]);
  g_print ("%s\n", text);
  return 0;
}
'''


def pkg_config(*arguments):
    """The file determines its prefix by its own location, so that this works wherever the tree was moved."""
    if not options['pkgconfig.relocatable']:
        tap.skip('configured without pkgconfig.relocatable, the default of new build directories')
    return shlex.split(tap.run(['pkg-config', *arguments, 'rlx-wgpu-1.0'], env=running, status=0).stdout)


# The variables that the installation said to set, and no others.
running = {}


@tap.test
def install():
    # Variables that lead to the uninstalled library would hide that the installed one is not found.
    unset = dict.fromkeys(('GI_TYPELIB_PATH', 'GJS_PATH', 'PYGI_OVERRIDES_PATH', 'LD_LIBRARY_PATH', 'PKG_CONFIG_PATH', 'XDG_DATA_DIRS'))
    done = tap.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', root], env=unset, status=0)
    told = [line for line in done.stdout.splitlines() if line.startswith('  export ')]
    done = tap.run(['sh', '-c', '\n'.join(told + ['env -0'])], env=unset, status=0)
    values = dict(entry.split('=', 1) for entry in done.stdout.split('\0') if entry)
    names = {line.split()[1].split('=')[0] for line in told}
    running.update(unset, **{name: values[name] for name in names}, PYTHONDONTWRITEBYTECODE='1')
    tap.equal(names, {'PATH', *unset}, 'what a staging directory needs')
    tap.none((name for name in names if not all(os.path.isabs(entry) for entry in values[name].split(':'))),
             'has an entry that is not absolute')


@tap.test
def everything_is_there():
    wanted = [
        'bin/rlx',
        'include/rlx-wgpu-1.0/rlx-wgpu/rlx-wgpu.h',
        'include/rlx-wgpu-1.0/rlx-wgpu/rlx-enum-types.h',
        'include/rlx-wgpu-1.0/rlx-wgpu/rlx-op-methods.h',
        'include/rlx-wgpu-1.0/rlx-wgpu/rlx-op-options.h',
        'include/rlx-wgpu-1.0/rlx-wgpu/rlx-version.h',
        options['libdir'] + '/librlx-wgpu-1.0.so',
        options['libdir'] + '/librlx-wgpu-1.0.so.0',
        options['libdir'] + '/pkgconfig/rlx-wgpu-1.0.pc',
        options['libdir'] + '/girepository-1.0/Rlx-1.0.typelib',
        options['libdir'] + '/girepository-1.0/RlxPrivate-1.0.typelib',
        'share/gir-1.0/Rlx-1.0.gir',
        'share/gjs-1.0/overrides/Rlx.js',
        'share/gjs-1.0/types/Rlx-1.0.d.ts',
        'share/bash-completion/completions/rlx',
    ]
    if options['vapi']:
        wanted += ['share/vala/vapi/rlx-wgpu-1.0.vapi', 'share/vala/vapi/rlx-wgpu-1.0.deps']
    if options['documentation']:
        wanted += ['share/man/man1/rlx.1', 'share/doc/rlx-wgpu-1.0/index.html']
    missing = {name for name in wanted if not os.path.exists(below(name))}
    # Python itself decides where it looks for modules
    for name in '__init__.py', 'running.py', 'functions.json':
        if not glob.glob(f'{root}/**/gi/overrides/Rlx/{name}', recursive=True):
            missing.add(f'gi/overrides/Rlx/{name}')
    if not glob.glob(root + '/**/gi-stubs/repository/Rlx.pyi', recursive=True):
        missing.add('gi-stubs/repository/Rlx.pyi')
    tap.none(missing, 'not installed')


@tap.test
def nothing_else_is_there():
    ours = re.compile(r'rlx', re.IGNORECASE)
    strangers, private, modes = set(), set(), set()
    for folder, folders, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            inside = path[len(root):]
            mode = os.lstat(path).st_mode
            if not inside.startswith(prefix + '/') or not ours.search(inside[len(prefix):]):
                strangers.add(inside)
            if re.search(r'private|internal|\.a$|\.la$|\.orig$|~$|test|config\.h$', inside):
                private.add(inside)
            if not stat.S_ISLNK(mode) and mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID):
                modes.add(f'{inside} ({stat.filemode(mode)})')
    tap.none(strangers, 'installed under a name that is not ours')
    tap.none(private, 'installed, though private')
    tap.none(modes, 'installed with too many rights')


@tap.test
def nothing_knows_where_it_was_built():
    known = set()
    for folder, folders, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or '/share/doc/' in path:
                continue
            with open(path, 'rb') as file:
                data = file.read()
            # debugging information names sources; packages split it off
            if data.startswith(b'\x7fELF'):
                stripped = tap.path('stripped')
                tap.run(['strip', '-o', stripped, path], status=0)
                with open(stripped, 'rb') as file:
                    data = file.read()
            # assertions contain the file name as given to the compiler, which Meson makes relative
            if build.encode() in data or source.encode() + b'/' in data or root.encode() in data:
                known.add(path[len(root):])
    tap.none(known, 'knows a path of this machine')


@tap.test
def links_of_the_library():
    link = os.path.join(libdir, 'librlx-wgpu-1.0.so')
    tap.check(os.path.islink(link), 'librlx-wgpu-1.0.so is not a link')
    text = tap.run(['readelf', '-d', os.path.realpath(link)], status=0).stdout
    tap.contains(text, 'Library soname: [librlx-wgpu-1.0.so.0]')
    tap.check(not re.search(r'\((RPATH|RUNPATH)\)', text), 'the library has a search path of its own')
    text = tap.run(['readelf', '-d', below('bin/rlx')], status=0).stdout
    tap.check(not re.search(r'\((RPATH|RUNPATH)\)', text), 'rlx has a search path of its own')


@tap.test
def headers_are_complete():
    """The program does not see the sources, so headers that are missing or include a private one are detected."""
    text = '#include <rlx-wgpu/rlx-wgpu.h>\n'
    done = tap.run([*cc, '-xc', '-', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', *pkg_config('--cflags')], stdin=text, status=0)
    tap.equal(done.stderr, '', 'what the compiler says')


@tap.test
def a_program_in_c():
    code = tap.write('program.c', program)
    binary = tap.path('program')
    flags = pkg_config('--cflags', '--libs')
    tap.check('-lrlx-wgpu-1.0' in flags, f'pkg-config says {flags}')
    tap.none((flag for flag in flags if 'dawn' in flag), 'every program would be linked with')
    tap.run([*cc, '-Wall', '-Wextra', '-Werror', code, '-o', binary, *flags], status=0)
    done = tap.run([binary], env=running, status=0)
    tap.equal(done.stdout, '[4, 5, 0, 0]\n', 'the result')
    tap.equal(done.stderr, '', 'what it says')


@tap.test
def a_program_in_vala():
    if not options['vapi']:
        tap.skip('built without the VAPI')
    code = tap.write('program.vala', '''int main () {
    try {
        var g = new Rlx.Graph ();
        var x = g.input ("x", Rlx.DataType.F32, { 2, 3 });
        var w = g.constant (new Rlx.Tensor.from_floats ({ 3, 2 }, { 1, 0, 0, 1, 1, 1 }));
        g.output ("y", x.matmul (w).relu ());
        var exe = Rlx.Device.get_default ().compile (g);
        var y = exe.run ({ new Rlx.Tensor.from_floats ({ 2, 3 }, { 1, 2, 3, -4, -5, -6 }) })[0];
        print ("%s\\n", y.to_string ());
    } catch (Error e) { printerr ("%s\\n", e.message); return 1; }
    return 0;
}
''')
    binary = tap.path('vala-program')
    compiler = [word for flag in pkg_config('--cflags', '--libs') for word in ('-X', flag)]
    tap.run(['valac', '--pkg', 'rlx-wgpu-1.0', code, '-o', binary, *compiler, '-X', '-w'], status=0, env=running)
    tap.equal(tap.run([binary], env=running, status=0).stdout, '[4, 5, 0, 0]\n', 'the result')


PYTHON_PROGRAM = '''
import gi
gi.require_version('Rlx', '1.0')
from gi.repository import Rlx
g = Rlx.Graph()
x = g.input('x', Rlx.DataType.F32, [2, 3])
w = g.constant(Rlx.Tensor.new_from_floats([3, 2], [1, 0, 0, 1, 1, 1]))
g.output('y', (x @ w).relu())
y, = Rlx.Device.get_default().compile(g).run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])])
print(y.to_string())
'''
GJS_PROGRAM = '''
import Rlx from 'gi://Rlx?version=1.0';
const g = new Rlx.Graph();
const x = g.input('x', 'f32', [2, 3]);
const w = g.constant(Rlx.Tensor.new_from_floats([3, 2], [1, 0, 0, 1, 1, 1]));
g.output('y', x.matmul(w).relu());
const [y] = Rlx.Device.get_default().compile(g).run([Rlx.Tensor.new_from_floats([2, 3], [1, 2, 3, -4, -5, -6])], null);
print(y.to_string());
'''


@tap.test
def a_program_in_python():
    done = tap.run([sys.executable, '-c', PYTHON_PROGRAM], status=0, env=running)
    tap.equal(done.stdout, '[4, 5, 0, 0]\n', 'the result')


@tap.test
def a_program_in_javascript():
    if shutil.which('gjs') is None:
        tap.skip('there is no gjs')
    code = tap.write('program.js', GJS_PROGRAM)
    tap.equal(tap.run(['gjs', '-m', code], status=0, env=running).stdout, '[4, 5, 0, 0]\n', 'the result')


# As root in a system with an empty /usr/local, and a copy of /etc, where ldconfig keeps its cache.
AS_ROOT = '''
set -e
mount -t tmpfs tmpfs /usr/local
cp -a /etc "$1/etc" 2>/dev/null || true
mount --bind "$1/etc" /etc
meson install -C "$2" --no-rebuild --quiet >"$1/told"
eval "$(sed -n 's/^  //p' "$1/told")"
export PYTHONDONTWRITEBYTECODE=1
command -v rlx
python3 -c "$3"
if [ "$4" ]; then gjs -m "$4"; fi
cc -Wall -Werror "$5" -o "$1/program" $(pkg-config --cflags --libs rlx-wgpu-1.0)
"$1/program"
'''


@tap.test
def below_usr_local():
    """As in README: `meson install`, then the commands it prints, and everything is found."""
    if prefix != '/usr/local':
        tap.skip(f'the prefix is {prefix}')
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    enter = ['unshare', *user, '--mount']
    if shutil.which('unshare') is None or tap.run([*enter, 'mount', '-t', 'tmpfs', 'tmpfs', '/usr/local']).returncode != 0:
        tap.skip('nothing can be mounted here')
    unset = dict.fromkeys(('GI_TYPELIB_PATH', 'GJS_PATH', 'PYGI_OVERRIDES_PATH', 'LD_LIBRARY_PATH', 'PKG_CONFIG_PATH', 'XDG_DATA_DIRS'))
    folder = tap.path('local')
    os.mkdir(folder)
    script = tap.write('local.js', GJS_PROGRAM) if shutil.which('gjs') else ''
    done = tap.run([*enter, 'sh', '-c', AS_ROOT, 'sh', folder, build, PYTHON_PROGRAM, script, tap.write('local.c', program)],
                   env=dict(unset, PATH='/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'), status=0)
    tap.equal(done.stdout.splitlines(), ['/usr/local/bin/rlx'] + ['[4, 5, 0, 0]'] * (3 if script else 2), 'what the programs print')
    with open(os.path.join(folder, 'told'), encoding='utf-8') as file:
        told = file.read()
    for name in 'ldconfig', 'GI_TYPELIB_PATH', 'GJS_PATH':
        tap.contains(told, name, 'what is told')


@tap.test
def the_command():
    tap.equal(shutil.which('rlx', path=running['PATH']), below('bin/rlx'), 'the command that is found')
    done = tap.run(['rlx', 'ops', '--json'], env=running, status=0)
    tap.check(len(json.loads(done.stdout)) > 80, 'rlx ops lists few operators')


@tap.test
def pkg_config_file():
    with open(os.path.join(build, 'meson-info', 'intro-projectinfo.json'), encoding='utf-8') as file:
        version = json.load(file)['version']
    tap.equal(pkg_config('--modversion'), [version], 'the version')
    tap.equal(pkg_config('--variable=gir'), ['Rlx-1.0'], 'the name for introspection')
    tap.check(any(word.startswith('gio-2.0') for word in pkg_config('--print-requires')), 'GIO is not required')


tap.main('install')
