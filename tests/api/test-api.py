# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is exported, declared and documented is the same; every header compiles on its own.

Usage: test-api.py LIBRARY GIR BUILD_ROOT SOURCE_ROOT"""
import ctypes
import glob
import json
import os
import re
import shlex
import shutil
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
# If they need documentation: an error domain is described with its codes, and functions that moved to a type are listed twice.
described = [item for item in callables if not item.get(c + 'identifier').endswith('_error_quark') and not item.get('moved-to')]
# Macros before declarations are for headers only.
public = [item for item in namespace if not re.match('RLX_(DEPRECATED|UNAVAILABLE)_', item.get(c + 'identifier') or '')]
in_gir = {item.get(c + 'identifier') for item in callables}
in_gir |= {item.get(glib + 'get-type') for item in namespace if item.get(glib + 'get-type')}


def all_exported():
    lines = tap.run(['nm', '-D', '--defined-only', library], status=0).stdout.splitlines()
    return {line.split()[2] for line in lines}


def exported():
    """Except for what only the overrides need, which is in a typelib of its own."""
    return {name for name in all_exported() if not name.startswith('rlx_private_')}


def installed_headers():
    """Path in the tree: the name used in #include."""
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
def addresses_are_private():
    """A script that can turn a number into a pointer can crash."""
    bad = {name_of(item) for item in callables for value in item.iter()
           if value.tag in (core + 'parameter', core + 'return-value') and value.get('name') != 'user_data'
           and value.find('core:type', ns) is not None
           and value.find('core:type', ns).get('name') in ('guintptr', 'gintptr', 'gpointer')}
    tap.none(bad, 'takes or gives an address')
    private = {name for name in all_exported() if name.startswith('rlx_private_')}
    known = {item.get(c + 'identifier') for item in xml.parse(os.path.join(os.path.dirname(gir_path), 'RlxPrivate-1.0.gir'))
             .getroot().iter(core + 'function')}
    tap.equal(private, known, 'what is private')


@tap.test
def introspected_is_exported():
    tap.none(in_gir - exported(), 'in the GIR, but not exported: RLX_AVAILABLE_IN_… is missing')


@tap.test
def exported_is_declared():
    text = compile_text('#include <rlx-wgpu/rlx-wgpu.h>\n', '-E').stdout
    declared = set(re.findall(r'\b(rlx_\w+)\s*\(', text))
    tap.none(exported() - declared, 'exported, but in no installed header')


def described_abi():
    """What programs are compiled against, one per line: functions as declared in C, and the values of enumerations."""
    text = compile_text('#include <rlx-wgpu/rlx-wgpu.h>\n', '-E', '-P').stdout
    functions = re.findall(r'\bextern\s+([^;{}()]*?\brlx_\w+\s*\([^;{}]*?\))\s*(?:__attribute__[^;]*)?;', text)
    values = [f'{kind.get(c + "type")}: {member.get(c + "identifier")} = {member.get("value")}'
              for tag in ('enumeration', 'bitfield') for kind in namespace.findall('core:' + tag, ns)
              for member in kind.findall('core:member', ns)]
    functions = {re.sub(r'\* ', '*', ' '.join(function.split())) for function in functions}
    return values + sorted(functions, key=lambda line: re.search(r'\w+ \(', line)[0])


def stored_abi():
    with open(os.path.join(source, 'tests', 'api', 'abi.txt'), encoding='utf-8') as file:
        return [line.rstrip('\n') for line in file if not line.startswith('#')]


def function_names(lines):
    return {re.search(r'(\w+) \(', line)[1] for line in lines if '(' in line}


@tap.test
def the_abi_is_the_stored_one():
    """A removed or changed line breaks programs. RLX_UPDATE_ABI=1 stores the current ones."""
    lines = described_abi()
    tap.equal(function_names(lines), exported(), 'what is declared')
    if os.environ.get('RLX_UPDATE_ABI'):
        path = os.path.join(source, 'tests', 'api', 'abi.txt')
        with open(path, encoding='utf-8') as file:
            head = [line for line in file if line.startswith('#')]
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines(head + [line + '\n' for line in lines])
    tap.none(set(stored_abi()) - set(lines), 'in tests/api/abi.txt, but gone from the library')
    tap.none(set(lines) - set(stored_abi()), 'not in tests/api/abi.txt (RLX_UPDATE_ABI=1 adds it)')


def stub(lines):
    """A library with that ABI and no code."""
    functions = [line for line in lines if '(' in line]
    enumerations = {}
    for line in lines:
        if '(' not in line:
            kind, _, member = line.partition(': ')
            enumerations.setdefault(kind, []).append(member)
    text = '#include <gio/gio.h>\n'
    for kind, members in enumerations.items():
        text += f'typedef enum {{ {", ".join(members)} }} {kind};\n'
    for kind in sorted(set(re.findall(r'\bRlx\w+', ' '.join(functions))) - set(enumerations)):
        text += f'typedef struct _{kind} {kind};\n'
    for function in functions:
        text += f'{function} {{ __builtin_trap (); }}\n'
    path = tap.path('stub.so')
    done = compile_text(text, '-g', '-shared', '-fPIC', '-w', '-Wl,-soname,librlx-wgpu-1.0.so.0', '-o', path)
    tap.equal(done.returncode, 0, f'the compiler says {done.stderr!r} and its status')
    return path


@tap.test
def abidiff_finds_no_difference():
    """That the library matches its headers, as far as debugging information tells."""
    if shutil.which('abidiff') is None:
        tap.skip('there is no abidiff')
    if '.debug_info' not in tap.run(['readelf', '-SW', library], status=0).stdout:
        tap.skip('the library has no debugging information')
    private = tap.write('private.suppr', '[suppress_function]\nname_regexp = ^rlx_private_\n')
    command = ['abidiff', '--suppressions', private]
    done = tap.run([*command, stub(stored_abi()), library])
    tap.equal(done.returncode, 0, f'abidiff says {done.stdout[-2000:]!r} and its status')
    # And it would find a difference.
    other = [line.replace('gint64 axis', 'int axis') if 'rlx_node_softmax ' in line else line for line in stored_abi()]
    said = tap.run([*command, stub(other), library]).stdout
    tap.contains(said, '0 Removed, 1 Changed', 'what abidiff says of an int instead of a gint64')


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
def what_can_be_cancelled_can_be_asynchronous():
    """Functions that can be cancelled may take long, so they also need an asynchronous version."""
    bad = set()
    for item in callables:
        waits = any(kind.get('name') == 'Gio.Cancellable' for kind in item.iter(core + 'type'))
        name = name_of(item)
        if waits and not name.endswith('_async') and not {name + '_async', name + '_finish'} <= in_gir:
            bad.add(name)
    tap.none(bad, 'blocks, and has no asynchronous form')


@tap.test
def getters_give_nothing_away():
    """Functions that return ownership are called dup_, to_, new_ or another verb."""
    bad = set()
    for item in callables:
        result = item.find('core:return-value', ns)
        if '_get_' in item.get(c + 'identifier') and result.get('transfer-ownership') != 'none':
            bad.add(name_of(item))
    tap.none(bad, 'is called get_, and yet what it returns is the caller\'s')


@tap.test
def dictionaries_are_owned():
    """No floating references, which only C understands: in a GIR they look as if the caller did not own the value."""
    bad = set()
    for item in callables:
        result = item.find('core:return-value', ns)
        if result.find('core:type[@name="GLib.Variant"]', ns) is not None and '_get_' not in item.get(c + 'identifier'):
            if result.get('transfer-ownership') != 'full':
                bad.add(name_of(item))
    tap.none(bad, 'returns a dictionary that is not the caller\'s')


@tap.test
def types_are_documented():
    bad = set()
    for item in public:
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
    for item in public:
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
    """The very command that creates the GIR fails if a source has an invalid annotation."""
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
def versions_at_run_time():
    with open(os.path.join(build, 'meson-info', 'intro-projectinfo.json'), encoding='utf-8') as file:
        numbers = [int(number) for number in json.load(file)['version'].split('.')]
    loaded = ctypes.CDLL(library)
    tap.equal([getattr(loaded, f'rlx_get_{which}_version')() for which in ('major', 'minor', 'micro')], numbers, 'the version')
    # Another major version is another library, so only the lower parts may differ.
    for delta, expected in ([0, 0, 0], 1), ([0, -1, 9], 1), ([0, 1, 0], 0), ([0, 0, 1], 0), ([1, 0, 0], 0), ([-1, 0, 0], 0):
        asked = [number + change for number, change in zip(numbers, delta)]
        tap.equal(loaded.rlx_check_version(*(ctypes.c_uint(number) for number in asked)), expected, f'for {asked}')


@tap.test
def programs_choose_what_they_are_warned_of():
    include = '#include <rlx-wgpu/rlx-wgpu.h>\n'
    use = 'int main (void) { return (int) old (); }\n'
    flags = '-Wall', '-Wextra', '-Werror', '-Wundef', '-fsyntax-only'
    for declaration in 'RLX_DEPRECATED_IN_1_0 guint old (void);\n', 'RLX_DEPRECATED_IN_1_0_FOR (rlx_check_version) guint old (void);\n':
        for option, warns in ([], True), (['-DRLX_DISABLE_DEPRECATION_WARNINGS'], False), (['-DRLX_VERSION_MIN_REQUIRED=RLX_VERSION_1_0'], True):
            said = compile_text(include + declaration + use, *flags, *option).stderr
            tap.equal('deprecated' in said, warns, f'{declaration.strip()} with {option}')
    said = compile_text(include + '_RLX_UNAVAILABLE (1, 9) guint old (void);\n' + use, *flags).stderr
    tap.contains(said, '1.9', 'what is said of functions that are too new')
    for option in ('MIN_REQUIRED=G_ENCODE_VERSION(0,9)', 'MAX_ALLOWED=G_ENCODE_VERSION(0,9)', 'MIN_REQUIRED=G_ENCODE_VERSION(9,0)'):
        said = compile_text(include, *flags, f'-DRLX_VERSION_{option}').stderr
        tap.contains(said, 'RLX_VERSION_' + option.partition('=')[0] + ' is', f'{option}')
    for option in 'MIN_REQUIRED', 'MAX_ALLOWED':
        tap.equal(compile_text(include, *flags, f'-DRLX_VERSION_{option}=RLX_VERSION_1_0').stderr, '', f'{option} is 1.0')


@tap.test
def headers_say_since_when():
    """They agree with the documentation."""
    declared = {}
    for path in installed_headers():
        with open(path, encoding='utf-8') as file:
            text = file.read()
        declared |= {name: version.replace('_', '.')
                     for version, name in re.findall(r'^RLX_AVAILABLE_IN_(\w+)\n[^;(]*?(\brlx_\w+)\s*\(', text, re.MULTILINE)}
    tap.equal({name_of(item): declared.get(name_of(item)) for item in described},
              {name_of(item): item.get('version') for item in described}, 'since when there are functions')


@tap.test
def the_library_is_hardened():
    text = tap.run(['readelf', '-dlW', library], status=0).stdout
    tap.contains(text, 'Library soname: [librlx-wgpu-1.0.so.0]')
    tap.contains(text, 'GNU_RELRO')
    tap.check('BIND_NOW' in text or re.search(r'FLAGS_1.*NOW', text), 'symbols are bound lazily')
    tap.check('TEXTREL' not in text, 'the code is written to when it is loaded')
    tap.check(not re.search(r'GNU_STACK.*RWE', text), 'the stack is executable')
    tap.check('RPATH' not in text, 'there is an old kind of path in the library')
    allowed = r'lib(glib-2\.0|gobject-2\.0|gio-2\.0|m|c|z|webgpu_dawn|gcc_s|pthread|dl|asan|ubsan)\.so\.\d+|ld-linux.*'
    needed = re.findall(r'NEEDED.*\[(.*)\]', text)
    tap.none((name for name in needed if not re.fullmatch(allowed, name)), 'linked, though nobody decided so')


@tap.test
def only_one_room_knows_webgpu():
    """Everything else must compile without Dawn's headers."""
    bad = set()
    for path in glob.glob(os.path.join(source, 'rlx-wgpu', '**', '*.[ch]'), recursive=True):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if os.path.basename(os.path.dirname(path)) != 'gpu' and re.search(r'#\s*include\s*[<"]webgpu/', text):
            bad.add(os.path.relpath(path, source))
    tap.none(bad, 'includes webgpu.h')


# Calls that create errors, and what their texts must not contain: C names. fork() and exec() are names
# of the system.
TEXT = r'"(?:[^"\\]|\\.)*"'
MAKES_ERROR = re.compile(r'\b\w*(?:error|fail|refuse|invalid|complain)\w* \(')
NAME_OF_C = re.compile(r'\brlx_[a-z]|\bRlx[A-Z]|\bRLX_[A-Z_]+_[A-Z]+_|\b(?!fork|exec)\w+ ?\(\)')


def find_names_of_c(text):
    """The texts with C names in calls that create errors."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    found = []
    for match in MAKES_ERROR.finditer(text):
        depth = 1
        for part in re.finditer(rf'{TEXT}|[()]', text[match.end():]):
            depth += {'(': 1, ')': -1}.get(part[0], 0)
            if depth == 0:
                break
            if part[0].startswith('"') and NAME_OF_C.search(part[0]):
                found.append(part[0])
    return found


@tap.test
def messages_name_no_functions():
    """They are also read by people who write Python or JavaScript."""
    samples = {'g_set_error (error, A, B, "call rlx_graph_output() first (%s)", f ("x)"));': 1, 'fail (self, "an RlxTensor");': 1,
               'fail ("x", "a run() later");': 1, 'g_set_error (error, A, B, "made by fork() (%u)", n); puts ("rlx_x ()");': 0,
               '/* fail ("rlx_x") */ fail ("RLX_DEBUG");': 0}
    for text, n in samples.items():
        tap.equal(len(find_names_of_c(text)), n, f'what is found in “{text}”')
    bad = set()
    for path in glob.glob(os.path.join(source, 'rlx-wgpu', '**', '*.c'), recursive=True):
        with open(path, encoding='utf-8') as file:
            bad |= {f'{os.path.basename(path)}: {text}' for text in find_names_of_c(file.read())}
    tap.none(bad, 'a message with a name of C')


tap.main('api')
