# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is exported is what is declared is what is documented; the headers stand for themselves.

Usage: test-api.py LIBRARY GIR BUILD_ROOT SOURCE_ROOT"""
import glob
import json
import os
import re
import shlex
import sys
import xml.etree.ElementTree as xml

import tap

library, gir_path, build, source = map(os.path.abspath, sys.argv[1:5])
ns = {'core': 'http://www.gtk.org/introspection/core/1.0'}
core, c, glib = ('{http://www.gtk.org/introspection/%s/1.0}' % name for name in ('core', 'c', 'glib'))
cc = shlex.split(os.environ.get('CC', 'cc'))

tree = xml.parse(gir_path).getroot()
namespace = tree.find('core:namespace', ns)
callables = [item for tag in ('function', 'method', 'constructor') for item in namespace.iter(core + tag)
             if item.get(c + 'identifier')]
# Where there is something to say: an error domain is described with its codes, and what moved to a type is there twice.
described = [item for item in callables if not item.get(c + 'identifier').endswith('_error_quark') and not item.get('moved-to')]
in_gir = {item.get(c + 'identifier') for item in callables}
in_gir |= {item.get(glib + 'get-type') for item in namespace if item.get(glib + 'get-type')}


def exported():
    lines = tap.run(['nm', '-D', '--defined-only', library], status=0).stdout.splitlines()
    return {line.split()[2] for line in lines}


def installed_headers():
    """Path in the tree: the name it is included by."""
    with open(os.path.join(build, 'meson-info', 'intro-installed.json'), encoding='utf-8') as file:
        plan = json.load(file)
    return {path: 'rlx-wgpu/' + os.path.basename(path) for path, target in plan.items() if target.endswith('.h')}


def compile_text(text, *options):
    flags = shlex.split(tap.run(['pkg-config', '--cflags', 'gio-2.0'], status=0).stdout)
    return tap.run([*cc, '-xc', '-', f'-I{source}', f'-I{build}', *flags, *options], stdin=text)


def name_of(item):
    return item.get(c + 'identifier') or item.get(c + 'type') or item.get('name')


@tap.test
def only_our_prefix_is_exported():
    tap.none((name for name in exported() if not name.startswith('rlx_')), 'exported without our prefix')


@tap.test
def exported_is_introspected():
    tap.none(exported() - in_gir, 'exported, but not in the GIR: private, or missing from its sources')


@tap.test
def introspected_is_exported():
    tap.none(in_gir - exported(), 'in the GIR, but not exported: RLX_API is missing')


@tap.test
def exported_is_declared():
    text = compile_text('#include <rlx-wgpu/rlx-wgpu.h>\n', '-E').stdout
    declared = set(re.findall(r'\b(rlx_\w+)\s*\(', text))
    tap.none(exported() - declared, 'exported, but in no installed header')


@tap.test
def functions_are_documented():
    tap.none({name_of(item) for item in described if item.find('core:doc', ns) is None}, 'not documented')


@tap.test
def parameters_and_results_are_documented():
    bad = set()
    for item in described:
        for parameter in item.findall('core:parameters/core:parameter', ns):
            if parameter.find('core:doc', ns) is None:
                bad.add(f'{name_of(item)}: {parameter.get("name")}')
        result = item.find('core:return-value', ns)
        if result.find('core:doc', ns) is None and result.find('core:type[@name="none"]', ns) is None:
            bad.add(f'{name_of(item)}: result')
    tap.none(bad, 'not documented')


@tap.test
def dictionaries_are_owned():
    """No floating references, which only C knows: in a GIR they look as if somebody else kept the value."""
    bad = set()
    for item in callables:
        result = item.find('core:return-value', ns)
        if result.find('core:type[@name="GLib.Variant"]', ns) is not None and item.get(glib + 'get-property') is None:
            if result.get('transfer-ownership') != 'full':
                bad.add(name_of(item))
    tap.none(bad, 'returns a dictionary that is not the caller\'s')


@tap.test
def types_are_documented():
    bad = set()
    for item in namespace:
        if item.tag in (core + 'class', core + 'interface', core + 'record', core + 'enumeration', core + 'bitfield'):
            if item.get(glib + 'is-gtype-struct-for') or item.get('disguised'):
                continue
            members = [member for tag in ('member', 'property') for member in item.findall('core:' + tag, ns)]
            members += item.findall(glib + 'signal')
            for thing in [item, *members]:
                if thing.find('core:doc', ns) is None:
                    bad.add(f'{name_of(item)}: {thing.get("name")}')
        elif item.tag in (core + 'constant', core + 'callback', core + 'alias', core + 'function-macro'):
            if item.find('core:doc', ns) is None:
                bad.add(name_of(item))
    tap.none(bad, 'not documented')


@tap.test
def everything_says_since_when():
    bad = set()
    things = list(described)
    for item in namespace:
        if item.get(glib + 'is-gtype-struct-for') or item.get('disguised') or item.tag in (core + 'function', core + 'docsection'):
            continue
        things.append(item)
        things += item.findall('core:property', ns) + item.findall(glib + 'signal')
    for thing in things:
        since = thing.get('version')
        if since is None or not re.fullmatch(r'1\.\d+', since):
            bad.add(f'{name_of(thing)} ({since})')
    tap.none(bad, 'without a good "Since:"')


@tap.test
def warnings_of_the_scanner_are_fatal():
    """The very command that makes the GIR fails when one source has an annotation that makes no sense."""
    commands = tap.run(['ninja', '-C', build, '-t', 'commands', 'rlx-wgpu/Rlx-1.0.gir'], status=0).stdout.splitlines()
    command = shlex.split(commands[-1])
    output = command.index('--output') + 1
    where = next(i for i, word in enumerate(command) if word.startswith('--filelist='))
    with open(command[where].partition('=')[2], encoding='utf-8') as file:
        names = file.read()
    command[output] = tap.path('again.gir')
    tap.run(command, status=0, cwd=build)
    bad = tap.write('bad.c', '/**\n * rlx_data_type_get_size:\n * @nonsense: (transfer everything): no such thing\n */\n')
    command[where] = '--filelist=' + tap.write('filelist', names + bad + '\n')
    done = tap.run(command, cwd=build)
    tap.check(done.returncode != 0, 'a warning does not fail the build')
    tap.contains(done.stdout + done.stderr, 'bad.c', 'the message')


@tap.test
def one_header_includes_the_rest():
    headers = installed_headers()
    tap.check(len(headers) > 10, f'only {len(headers)} headers are installed')
    text = compile_text('#include <rlx-wgpu/rlx-wgpu.h>\n', '-M').stdout
    seen = {os.path.basename(path) for path in text.split() if 'rlx-wgpu' in path}
    tap.none({os.path.basename(name) for name in headers} - seen, 'installed, but not part of rlx-wgpu.h')
    tap.none((name for name in headers.values() if 'private' in name or 'internal' in name), 'installed')


@tap.test
def headers_are_clean():
    """Also with warnings that we do not use ourselves, and in the strictest C that GLib's own headers allow."""
    text = '#include <rlx-wgpu/rlx-wgpu.h>\nint main (void) { return 0; }\n'
    for standard in 'gnu99', 'c11', 'gnu17', 'gnu23':
        done = compile_text(text, f'-std={standard}', '-Wall', '-Wextra', '-Werror', '-Wstrict-prototypes', '-Wundef',
                            '-Wredundant-decls', '-fsyntax-only')
        tap.equal(done.stderr, '', f'what the compiler says in {standard}')


@tap.test
def headers_refuse_to_be_included_alone():
    bad = set()
    for name in installed_headers().values():
        if name == 'rlx-wgpu/rlx-wgpu.h':
            continue
        done = compile_text(f'#include <{name}>\n', '-fsyntax-only')
        if done.returncode == 0 or 'Only <rlx-wgpu/rlx-wgpu.h> can be included directly' not in done.stderr:
            bad.add(name)
    tap.none(bad, 'can be included alone')


@tap.test
def headers_know_nothing_of_webgpu():
    bad = set()
    for path, name in installed_headers().items():
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if re.search(r'#\s*include\s*[<"](webgpu|dawn|config\.h|.*-private|.*-internal)', text):
            bad.add(name)
    tap.none(bad, 'includes what no program has')


@tap.test
def versions_agree():
    with open(os.path.join(build, 'meson-info', 'intro-projectinfo.json'), encoding='utf-8') as file:
        version = json.load(file)['version']
    numbers = version.split('.')
    text = '#include <rlx-wgpu/rlx-wgpu.h>\nV RLX_MAJOR_VERSION RLX_MINOR_VERSION RLX_MICRO_VERSION RLX_VERSION_S\n'
    last = compile_text(text, '-E', '-P').stdout.strip().splitlines()[-1]
    tap.equal(last.split()[1:], [*numbers, f'"{version}"'], 'the version in the headers')
    text = '#include <rlx-wgpu/rlx-wgpu.h>\n'
    for delta, expected in (0, 1), (-1, 1), (1, 0):
        for place in range(3):
            asked = [int(number) + delta * (i == place) for i, number in enumerate(numbers)]
            text += f'G_STATIC_ASSERT (RLX_CHECK_VERSION ({", ".join(map(str, asked))}) == {expected});\n'
    tap.equal(compile_text(text, '-fsyntax-only').stderr, '', 'what the compiler says to RLX_CHECK_VERSION')
    tap.equal(namespace.get('version'), '1.0', 'the version of the GIR')
    tap.equal([item.get('name') for item in tree.findall('core:package', ns)], ['rlx-wgpu-1.0'], 'the package of the GIR')


@tap.test
def the_library_is_hardened():
    text = tap.run(['readelf', '-dlW', library], status=0).stdout
    tap.contains(text, 'Library soname: [librlx-wgpu-1.0.so.0]')
    tap.contains(text, 'GNU_RELRO')
    tap.check('BIND_NOW' in text or re.search(r'FLAGS_1.*NOW', text), 'symbols are bound lazily')
    tap.check('TEXTREL' not in text, 'the code is written to when it is loaded')
    tap.check(not re.search(r'GNU_STACK.*RWE', text), 'the stack is executable')
    tap.check('RPATH' not in text, 'there is an old kind of path in the library')
    allowed = r'lib(glib-2\.0|gobject-2\.0|gio-2\.0|m|c|webgpu_dawn|gcc_s|pthread|dl|asan|ubsan)\.so\.\d+|ld-linux.*'
    needed = re.findall(r'NEEDED.*\[(.*)\]', text)
    tap.none((name for name in needed if not re.fullmatch(allowed, name)), 'linked, though nobody decided so')


@tap.test
def only_one_room_knows_webgpu():
    """Everything else must be able to do without Dawn's headers."""
    bad = set()
    for path in glob.glob(os.path.join(source, 'rlx-wgpu', '**', '*.[ch]'), recursive=True):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if os.path.basename(os.path.dirname(path)) != 'gpu' and re.search(r'#\s*include\s*[<"]webgpu/', text):
            bad.add(os.path.relpath(path, source))
    tap.none(bad, 'includes webgpu.h')


tap.main('api')
