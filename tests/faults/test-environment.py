# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program in unusual environments: its result is the same, or it reports what is wrong, and nothing else.

Usage: test-environment.py PROBE"""
import glob
import json
import os
import resource
import shutil
import stat
import subprocess
import sys

import tap

probe = os.path.abspath(sys.argv[1])
FAILED = 3
_right = None


def right():
    """What the program prints on success."""
    global _right
    if _right is None:
        _right = tap.run([probe], env={'XDG_CACHE_HOME': cache('warm')}, status=0).stdout
    return _right


def cache(name):
    folder = tap.path(name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def entries(folder):
    return sorted(path for path in glob.glob(folder + '/rlx-wgpu/v1/*/*') if os.path.isfile(path))


def works(env, *arguments, **others):
    done = tap.run([probe, *arguments], env=env, status=0, **others)
    tap.equal(done.stdout, right(), 'the result')
    tap.equal(done.stderr, '', 'the standard error output')


def refuses(words, env, *arguments, **others):
    done = tap.run([probe, *arguments], env=env, status=FAILED, **others)
    for word in words:
        tap.contains(done.stdout, word, 'the message')
    tap.equal(done.stderr, '', 'the standard error output')


def filled_cache(name):
    """A cache with everything that the program needs."""
    right()
    full = tap.path('warm')
    tap.check(len(entries(full)) >= 3, f'only {len(entries(full))} entries were written')
    folder = tap.path(name)
    shutil.copytree(full, folder)
    return folder


def spoiled(spoil, again=False):
    """Every entry is damaged; the program is not affected."""
    folder = filled_cache('spoiled')
    for path in entries(folder):
        spoil(path)
    works({'XDG_CACHE_HOME': folder})
    # it repairs what it can, and the rest does no harm
    if again:
        works({'XDG_CACHE_HOME': folder})
    shutil.rmtree(folder)


# --- drivers ---------------------------------------------------------------------------------------------------------


@tap.test
def no_driver():
    words = ['rlx-device-error-quark 1', 'mesa-vulkan-drivers']
    refuses(words, {'VK_DRIVER_FILES': '/nonexistent'})
    refuses(words, {'VK_DRIVER_FILES': tap.folder})


@tap.test
def broken_driver_files():
    def icd(**fields):
        return json.dumps({'file_format_version': '1.0.0', 'ICD': fields})
    words = ['rlx-device-error-quark 1', 'mesa-vulkan-drivers']
    for name, content in {
        'empty': '', 'brace': '{', 'binary': b'\0\xff\0\xff' * 100, 'deep': '[' * 100000, 'list': '[]',
        'no library': icd(api_version='1.3.0'),
        'missing library': icd(library_path='/nonexistent.so', api_version='1.3.0'),
        'a text': icd(library_path='./brace.json', api_version='1.3.0'),
        'another library': icd(library_path='libm.so.6', api_version='1.3.0'),
        'wrong types': icd(library_path=7, api_version=[]),
    }.items():
        try:
            refuses(words, {'VK_DRIVER_FILES': tap.write(name + '.json', content)})
        except tap.Failure as why:
            tap.fail(f'{name}: {why}')


@tap.test
def no_runtime_folder():
    """The driver itself warns about that one, so the output is not empty."""
    done = tap.run([probe], env={'XDG_RUNTIME_DIR': None}, status=0)
    tap.equal(done.stdout, right(), 'the result')


# --- folders ---------------------------------------------------------------------------------------------------------


@tap.test
def no_home():
    works({'HOME': None, 'XDG_CACHE_HOME': None})
    works({'HOME': '/nonexistent', 'XDG_CACHE_HOME': None})
    works({'HOME': '', 'XDG_CACHE_HOME': ''})


@tap.test
def strange_cache_folders():
    file = tap.write('a file', 'x')
    locked = cache('locked')
    os.chmod(locked, 0o500)
    for value in 'relative/folder', '.', '/proc/nonexistent', '/dev/null', file, file + '/below', locked, '/' + 'x' * 300, '/' + 'x/' * 3000:
        try:
            # the driver has a cache of its own, and is less quiet
            works({'XDG_CACHE_HOME': value, 'MESA_SHADER_CACHE_DISABLE': 'true'}, cwd=tap.folder)
        except tap.Failure as why:
            tap.fail(f'{value[:60]}: {why}')
    tap.check(not os.path.exists(tap.path('relative')), 'something was written where the program stands')
    tap.equal(open(file, encoding='utf-8').read(), 'x', 'the file')


@tap.test
def cache_folders_of_others():
    """If others could write there, they could make the driver load arbitrary code: it is not used."""
    folder = cache('open')
    os.mkdir(folder + '/rlx-wgpu')
    os.chmod(folder + '/rlx-wgpu', 0o777)
    works({'XDG_CACHE_HOME': folder})
    tap.equal(os.listdir(folder + '/rlx-wgpu'), [], 'what is in a folder that everybody may write to')
    folder, target = cache('linked'), cache('target')
    os.symlink(target, folder + '/rlx-wgpu')
    works({'XDG_CACHE_HOME': folder})
    tap.equal(os.listdir(target), [], 'what is behind a link')
    folder = cache('blocked')
    tap.write('blocked/rlx-wgpu', 'a file')
    works({'XDG_CACHE_HOME': folder})


@tap.test
def rights_of_the_cache():
    folder = cache('rights')
    works({'XDG_CACHE_HOME': folder}, umask=0)
    for path in [*glob.glob(folder + '/rlx-wgpu'), *glob.glob(folder + '/rlx-wgpu/**', recursive=True)]:
        mode = os.stat(path).st_mode
        tap.check(not mode & (stat.S_IRWXG | stat.S_IRWXO), f'{path} is {stat.filemode(mode)}')


@tap.test
def full_disk():
    """A file system of 64 KiB, if we have the rights to create one."""
    folder = cache('full')
    script = 'mount -t tmpfs -o size=64k,mode=700 none "$1" && shift && exec "$@"'
    done = tap.run(['unshare', '--mount', 'sh', '-c', script, 'sh', folder, 'true'])
    if done.returncode != 0:
        tap.skip('no rights to mount')
    done = tap.run(['unshare', '--mount', 'sh', '-c', script, 'sh', folder, probe, '--encoder'], env={'XDG_CACHE_HOME': folder}, status=0)
    tap.equal(done.stderr, '', 'the standard error output')
    tap.equal(done.stdout, tap.run([probe, '--encoder'], status=0).stdout, 'the result')


# --- entries of the cache --------------------------------------------------------------------------------------------


def change(path, function):
    with open(path, 'rb') as file:
        data = bytearray(file.read())
    # the program replaces files by renaming, and never writes into an old one
    os.unlink(path)
    with open(path, 'wb') as file:
        file.write(function(data))


def flip(data, bit):
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return data


@tap.test
def short_entries():
    spoiled(lambda path: change(path, lambda data: b''))
    spoiled(lambda path: change(path, lambda data: data[:8]))
    spoiled(lambda path: change(path, lambda data: data[:len(data) // 2]))
    spoiled(lambda path: change(path, lambda data: data[:-1]), again=True)
    spoiled(lambda path: change(path, lambda data: data + b'x'))


@tap.test
def changed_entries():
    for bit in 3, 70, 130, 260, 500, 5001:
        spoiled(lambda path: change(path, lambda data, bit=bit: flip(data, bit)))
    spoiled(lambda path: change(path, lambda data: b'\xff' * len(data)))
    # an excessive length
    spoiled(lambda path: change(path, lambda data: data[:8] + b'\xff' * 16 + data[24:]))


@tap.test
def exchanged_entries():
    folder = filled_cache('exchanged')
    paths = entries(folder)
    contents = [open(path, 'rb').read() for path in paths]
    for path, content in zip(paths, contents[1:] + contents[:1]):
        with open(path, 'wb') as file:
            file.write(content)
    works({'XDG_CACHE_HOME': folder})


@tap.test
def entries_that_are_no_files():
    secret = tap.write('secret', 'not to be touched')

    def replace(make):
        def spoil(path):
            os.unlink(path)
            make(path)
        return spoil
    spoiled(replace(os.mkfifo), again=True)
    spoiled(replace(os.mkdir), again=True)
    spoiled(replace(lambda path: os.symlink(secret, path)))
    spoiled(replace(lambda path: os.symlink('/dev/zero', path)))
    spoiled(replace(lambda path: os.symlink(path, path)))
    tap.equal(open(secret, encoding='utf-8').read(), 'not to be touched', 'what a link points to')


@tap.test
def huge_entries():
    """Of 10 GiB, without using disk space."""
    spoiled(lambda path: os.truncate(path, 10 << 30))


@tap.test
def unreadable_entries():
    if os.geteuid() == 0:
        # root can read everything, so the folder is given to some other user instead
        folder = filled_cache('foreign')
        os.chown(os.path.dirname(entries(folder)[0]), 65534, 65534)
        works({'XDG_CACHE_HOME': folder})
    else:
        spoiled(lambda path: os.chmod(path, 0))


# --- several at once -------------------------------------------------------------------------------------------------


def let_go(n, env, *arguments):
    everything = {**os.environ, **env}
    programs = [subprocess.Popen([probe, '--wait', *arguments], env=everything, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) for i in range(n)]
    for program in programs:
        program.stdin.write(b'\n')
        program.stdin.flush()
    outputs = set()
    for program in programs:
        out, err = program.communicate(timeout=120)
        tap.equal((program.returncode, err), (0, b''), 'the end of a program')
        outputs.add(out)
    tap.equal(len(outputs), 1, 'the number of different results')


@tap.test
def two_programs_with_an_empty_cache():
    for i in range(3):
        folder = cache(f'shared-{i}')
        let_go(2, {'XDG_CACHE_HOME': folder})
        left = [path for path in glob.glob(folder + '/rlx-wgpu/v1/*/*') if os.path.basename(path).startswith('tmp-')]
        tap.equal(left, [], 'what is left behind')
        works({'XDG_CACHE_HOME': folder})


@tap.test
def killed_while_writing():
    """Killed at any point, it leaves nothing harmful."""
    for delay in 0.02, 0.05, 0.1, 0.2:
        folder = cache(f'killed-{delay}')
        program = subprocess.Popen([probe], env={**os.environ, 'XDG_CACHE_HOME': folder}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            program.wait(delay)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        works({'XDG_CACHE_HOME': folder})


# --- limits of the process -------------------------------------------------------------------------------------------


def limited(what, soft):
    return {'preexec_fn': lambda: resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))}


@tap.test
def few_files():
    works({}, **limited(resource.RLIMIT_NOFILE, 64))
    # too few to open a driver at all: rejected, if the dynamic linker gets that far
    for n in 24, 16, 12:
        done = tap.run([probe], **limited(resource.RLIMIT_NOFILE, n))
        tap.check(done.returncode in (0, FAILED), f'with {n} files the status is {done.returncode}: {done.stderr!r}')
        if done.returncode == 0:
            tap.equal(done.stdout, right(), 'the result')


@tap.test
def small_stacks():
    """Of the calling thread, and of those that the driver creates."""
    for kib in 256, 128:
        works({}, '--stack', str(kib))
    works({}, **limited(resource.RLIMIT_STACK, 512 * 1024))


@tap.test
def no_core_and_no_priority():
    works({}, **limited(resource.RLIMIT_CORE, 0))
    works({}, preexec_fn=lambda: os.nice(19))


@tap.test
def closed_descriptors():
    """The first files opened by the library then get the descriptors 0 to 2, and must not be written to as if they were the
    terminal."""
    for numbers in '0', '1', '2', '0 1 2':
        redirect = ' '.join(f'{number}>&-' for number in numbers.split())
        out = tap.path('closed.txt')
        script = f'exec 7>"$2"; "$1" {redirect}; echo $? >&7'
        tap.run(['sh', '-c', script, 'sh', probe, out], env={'XDG_CACHE_HOME': cache('closed' + numbers[0])})
        tap.equal(open(out, encoding='utf-8').read(), '0\n', f'the status without {numbers}')
        works({'XDG_CACHE_HOME': cache('closed' + numbers[0])})


# --- the rest --------------------------------------------------------------------------------------------------------


@tap.test
def variables_of_others():
    """None of them makes the library print anything."""
    for env in {'VK_LOADER_DEBUG': 'none'}, {'LC_ALL': 'tr_TR.UTF-8'}, {'LANG': 'nonsense'}, {'TMPDIR': '/nonexistent'}, \
            {'G_MESSAGES_DEBUG': ''}, {'RLX_DEVICE': ''}, {'RLX_DEBUG': ''}, {'WGPU_BACKEND': ''}, {'RLX_TIMEOUT': ''}, \
            {'RLX_MEMORY_LIMIT': ''}:
        works(env)


@tap.test
def signals_are_left_alone():
    """Handlers of the program are preserved; no further signals are ignored."""
    done = subprocess.run(['sh', '-c', f'trap "" PIPE; exec "{probe}"'], stdout=subprocess.PIPE, check=True)
    tap.equal(done.stdout.decode(), right(), 'the result')
    # a closed pipe ends the program, but does not corrupt its result
    program = subprocess.Popen([probe], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.stdout.close()
    program.wait(60)
    tap.check(program.returncode in (0, -13), f'the status is {program.returncode}')


tap.main('environment')
