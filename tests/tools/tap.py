# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tests as functions, reported as TAP.

    import tap

    @tap.test
    def one_and_one():
        tap.equal(1 + 1, 2)

    tap.main('sums')
"""
import os
import signal
import subprocess
import sys
import tempfile
import traceback

_tests = []
# Removed at the end, with everything in it.
_folder = tempfile.TemporaryDirectory(prefix='rlx-test-')
folder = _folder.name


class Skip(Exception):
    pass


class Failure(Exception):
    pass


def test(function):
    _tests.append(function)
    return function


def skip(why):
    raise Skip(why)


def fail(why):
    raise Failure(why)


def check(condition, why):
    if not condition:
        raise Failure(why)


def equal(got, expected, what='value'):
    if got != expected:
        raise Failure(f'{what} is {got!r}, not {expected!r}')


def contains(text, words, what='text'):
    if words not in text:
        raise Failure(f'{what} does not contain {words!r}: {text!r}')


def none(items, what):
    """Fails if there are any, and lists them."""
    items = sorted(items)
    if items:
        more = f' and {len(items) - 20} more' if len(items) > 20 else ''
        raise Failure(f'{what}: {", ".join(map(str, items[:20]))}{more}')


def path(name):
    return os.path.join(folder, name)


def write(name, content):
    full = path(name)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, 'wb') as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return full


def run(command, env=None, status=None, stdin='', timeout=120, **others):
    """Runs a program. A crash fails; so does another exit status than the given one. In env, None unsets a variable."""
    everything = dict(os.environ)
    for key, value in (env or {}).items():
        everything.pop(key, None)
        if value is not None:
            everything[key] = value
    try:
        done = subprocess.run(command, env=everything, input=stdin.encode() if isinstance(stdin, str) else stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **others)
    except subprocess.TimeoutExpired as error:
        raise Failure(f'{show(command)} did not end within {timeout} s') from error
    done.stdout = done.stdout.decode(errors='replace')
    done.stderr = done.stderr.decode(errors='replace')
    if done.returncode < 0:
        raise Failure(f'{show(command)} was ended by {signal.Signals(-done.returncode).name}; it said: {done.stderr!r}')
    if status is not None and done.returncode != status:
        raise Failure(f'{show(command)} ended with status {done.returncode}, not {status}; it said: {done.stderr or done.stdout!r}')
    return done


def show(command):
    return ' '.join(os.fsdecode(word) for word in command).encode(errors='replace').decode()[:300]


def main(name):
    print(f'1..{len(_tests)}')
    failed = 0
    for number, function in enumerate(_tests, 1):
        label = f'{number} /{name}/{function.__name__.replace("_", "-")}'
        try:
            function()
            print(f'ok {label}')
        except Skip as why:
            print(f'ok {label} # SKIP {why}')
        except Failure as why:
            failed += 1
            print(f'not ok {label}')
            print('\n'.join(f'# {line}' for line in str(why).splitlines()))
        except Exception:
            failed += 1
            print(f'not ok {label}')
            print('\n'.join(f'# {line}' for line in traceback.format_exc().splitlines()))
        sys.stdout.flush()
    sys.exit(1 if failed else 0)
