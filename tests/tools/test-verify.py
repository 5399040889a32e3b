# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""`rlx verify`: its report for a device that works, for any that this one can pose as, and for drivers that compute
nonsense, reject kernels, lose the device or crash.

Usage: test-verify.py RLX FAULTS          FAULTS: a library to be loaded before Dawn, or nothing
       test-verify.py RLX '' --full NAME  everything, on the device or the target NAME, and nothing else"""
import contextlib
import getpass
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import tap
from command import FAILED, OK, USAGE, parse, refused, rlx, run

faults = sys.argv[2] and os.path.abspath(sys.argv[2])
# Compiled shaders may be shared, bans may not.
own = {'XDG_CACHE_HOME': tap.path('cache'), 'MESA_SHADER_CACHE_DIR': os.environ.get('XDG_CACHE_HOME')}


def verify(*arguments, status=OK, env=None, timeout=300):
    done = tap.run([rlx, 'verify', '--json', *arguments], status=status, env={**own, **(env or {})}, timeout=timeout)
    report = parse(done.stdout)
    # The report must not reveal who owns the device.
    for word in os.path.expanduser('~'), tap.folder, os.path.dirname(rlx), getpass.getuser(), socket.gethostname():
        tap.check(not re.search(rf'(?<!\w){re.escape(word)}(?!\w)', done.stdout), f'the report tells {word}')
    return report


def check_right(report):
    tap.equal(report['failures'], [], 'the failures')
    tap.equal(report['banned'], [], 'the bans')
    tap.equal(report['complete'], True, 'whether all was tried')
    tap.check(report['results'], 'nothing was computed')
    for result in report['results']:
        tap.check(result['calls'] > 0 and result['time'] > 0, f'not computed or timed: {result}')
        tap.check('operator' in result or 'family' in result, f'of what: {result}')


def banned(family):
    """The variants that the library no longer uses, according to its choices."""
    graph = tap.write('scan.rlx', 'rlx 1\n%0 = input "x" f32[256, 1024]\n%1 = cumsum(%0) {axis = 1}\noutput "y" %1\n')
    text = run('compile', '--plan', '-v', graph, env=own).stdout
    return sorted(set(re.findall(rf'^\s*[-*] (\S+) .*banned', text.split(f'{family}: ', 1)[1], re.M)))


@tap.test
def report():
    found = verify('--quick', '--only', 'relu', '--only=cumsum,softmax')
    check_right(found)
    tap.equal(found['only'], ['relu', 'cumsum', 'softmax'], 'what is tried')
    tap.equal({result['operator'] for result in found['results'] if 'operator' in result}, {'relu', 'cumsum', 'softmax'}, 'operators')
    tap.check({'family': 'scan', 'variant': 'rows'}.items() <= found['results'][-2].items() or
              any(result.get('variant') == 'rows' and result.get('family') == 'scan' for result in found['results']), 'no scan by rows')
    device = parse(run('devices', '--json').stdout)[0]
    for key in 'name', 'driver', 'backend', 'limits', 'features':
        tap.equal(found['device'][key], device[key], key)
    for key in 'version', 'date', 'system', 'seconds', 'clock', 'quick', 'skipped':
        tap.check(key in found, f'there is no {key}')


@tap.test
def file():
    name = tap.path('here.json')
    text = run('verify', '--quick', '--only', 'relu', '-o', name, env=own).stdout
    for words in 'wrong     0', f'kept in {name}', 'computed', 'driver':
        tap.contains(text, words)
    with open(name, encoding='utf-8') as stored:
        check_right(parse(stored.read()))

    # A default name, in the caller's folder, which does not replace a report of everything.
    os.makedirs(tap.path('beside'))
    done = tap.run([rlx, 'verify', '--quick', '--only', 'relu'], status=OK, env=own, cwd=tap.path('beside'))
    names = os.listdir(tap.path('beside'))
    tap.check(len(names) == 1 and re.fullmatch(r'rlx-verify-[a-z0-9-]+-partial\.json', names[0]), f'there is {names}')
    tap.contains(done.stdout, names[0])


@tap.test
def wrong_usage():
    refused('“nothing”', 'verify', '--only', 'relu,nothing', status=USAGE)
    refused('too many', 'verify', 'relu', status=USAGE)
    done = tap.run([rlx, 'verify', '--json', '--only', 'input'], status=FAILED, env=own)
    tap.contains(done.stderr, 'nothing to try')
    done = tap.run([rlx, 'verify', '--quick', '--only', 'relu', '-o', tap.path('none/none.json')], status=FAILED, env=own)
    tap.contains(done.stderr, 'none.json')


@tap.test
def on_targets():
    played = set()
    for target in parse(run('targets', '--json').stdout):
        env = {'RLX_DEBUG': f'target={target["name"]}', 'GALLIVM_PERF': 'nopt'}
        done = tap.run([rlx, 'verify', '--json', '--quick', '--only', 'softmax'], env={**own, **env})
        if 'cannot stand in' in done.stderr:
            continue
        tap.equal(done.returncode, OK, f'the status on {target["name"]}, which said {done.stderr!r}')
        found = parse(done.stdout)
        check_right(found)
        tap.equal(found['debug'], env['RLX_DEBUG'], 'the target')
        played.add(target['name'])
    tap.check({'minimum', 'small', 'navi31'} <= played, f'it stands in for {played}')


def with_fault(**variables):
    if not faults:
        tap.skip('Dawn cannot be stood in for here')
    return {'LD_PRELOAD': faults, **{f'RLX_TEST_{name.upper()}': str(value) for name, value in variables.items()}}


@tap.test
def a_wrong_variant():
    fault = with_fault(pattern=r'shared_totals\[lane - min \(t, step\)\]', other='shared_totals[lane - min (t, 1u)]')
    found = verify('--quick', '--only', 'cumsum,relu', status=FAILED, env=fault)
    tap.equal(found['complete'], True, 'whether all was tried')
    tap.equal(found['banned'], ['scan/workgroup'], 'the bans')
    tap.check(found['failures'], 'nothing is wrong')
    for failure in found['failures']:
        tap.equal((failure['problem'], failure['family'], failure['variant']), ('wrong', 'scan', 'workgroup'), 'what is wrong')
        tap.check(not abs(failure['got'] - failure['expected']) <= failure['bound'], f'{failure} is right')
        if 'operator' in failure:
            tap.equal(failure['operator'], 'cumsum', 'the operator')
            tap.check(failure['call'].startswith('cumsum f32['), f'the call is {failure["call"]}')
            for key in 'seed', 'number', 'data_type', 'precision', 'element', 'wrong', 'elements':
                tap.check(key in failure, f'there is no {key}')
    right = {result.get('operator') for result in found['results'] if result.get('variant') != 'workgroup'}
    tap.check({'relu', 'cumsum'} <= right, f'only {right} were tried')

    # In the printed report, and in later runs.
    done = tap.run([rlx, 'verify', '--quick', '--only', 'cumsum', '-o', tap.path('wrong.json')], status=FAILED, env={**own, **fault})
    for words in 'cumsum by scan/workgroup: wrong', 'should be', 'of seed', 'scan/workgroup is not used':
        tap.contains(done.stdout, words)
    tap.equal(banned('scan'), ['workgroup'], 'what is banned')
    tap.contains(run('devices', '-v', env=own).stdout, 'not used scan/workgroup\n')
    tap.contains(run('calibrate', '--forget', env=own).stdout, 'used again, though found to be wrong: scan/workgroup\n')
    tap.equal(banned('scan'), [], 'what is still banned')


@tap.test
def an_operator_without_choice():
    found = verify('--quick', '--only', 'ceil', status=FAILED, env=with_fault(pattern=r'\bceil ?\(', other='floor('))
    tap.check(found['failures'] and {failure['operator'] for failure in found['failures']} == {'ceil'}, f'wrong is {found["failures"]}')
    tap.equal(found['banned'], [], 'the bans')
    done = tap.run([rlx, 'verify', '--quick', '--only', 'ceil', '-o', tap.path('ceil.json')], status=FAILED,
                   env={**own, **with_fault(pattern=r'\bceil ?\(', other='floor(')})
    tap.equal(done.stdout.count('no other kernel for ceil'), 1, 'how often it says that nothing else is there')


@tap.test
def a_kernel_that_is_refused():
    found = verify('--quick', '--only', 'cumsum', status=FAILED,
                   env=with_fault(pattern=r'shared_totals\[lane - min \(t, step\)\]', other='nothing_that_is_there'))
    tap.equal(found['complete'], True, 'whether all was tried')
    tap.equal({(failure['problem'], failure['variant']) for failure in found['failures']}, {('error', 'workgroup')}, 'what is wrong')
    run('calibrate', '--forget', env=own)


@tap.test
def a_lost_device():
    found = verify('--quick', '--only', 'cumsum,softmax', status=FAILED, env=with_fault(loss=60))
    tap.equal(found['complete'], True, 'whether all was tried')
    tap.equal({failure['problem'] for failure in found['failures']}, {'lost'}, 'what is wrong')
    lost = {(failure.get('operator'), failure['variant']) for failure in found['failures']}
    tried = {(result.get('operator'), result['variant']) for result in found['results']}
    tap.equal(len(lost), len(found['failures']), 'how often one is tried that lost the device')
    tap.check(tried - lost, 'nothing else was tried')
    run('calibrate', '--forget', env=own)


def start(*arguments, **others):
    return subprocess.Popen([rlx, 'verify', *arguments], env=dict(os.environ, **own), **others)


def find_child(process):
    """Once it has started."""
    for _ in range(600):
        with open(f'/proc/{process.pid}/task/{process.pid}/children', encoding='ascii') as file:
            children = file.read().split()
        for child in children:
            with open(f'/proc/{child}/comm', encoding='ascii') as file:
                if file.read().startswith('rlx-verify'):
                    return int(child)
        time.sleep(0.1)
    return tap.fail('nothing is started')


def wait_for(words, terminal):
    shown = b''
    while words not in shown:
        shown += os.read(terminal, 4096)


def read_all(terminal):
    """What is not read would block the program; Linux reports the end as an error."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass


@tap.test
def a_crash():
    ours, theirs = pty.openpty()
    with start('--quick', '--only', 'cumsum,softmax,matmul', '--json', stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        wait_for(b'cumsum by', ours)
        os.kill(find_child(process), signal.SIGSEGV)
        drain = threading.Thread(target=read_all, args=(ours,))
        drain.start()
        output = process.communicate(timeout=300)[0]
        drain.join()
    os.close(ours)
    found = parse(output)
    tap.equal(process.returncode, FAILED, 'the status')
    tap.equal([failure['problem'] for failure in found['failures']], ['crash'], 'what is wrong')
    tap.contains(found['failures'][0]['message'], 'signal 11')
    tap.equal(found['complete'], True, 'whether the others were tried')
    run('calibrate', '--forget', env=own)


@tap.test
def a_driver_that_prints():
    """Lines in another encoding than ours: the program is wrapped by one that prints such a line."""
    folder = tap.path('wrapped')
    os.makedirs(f'{folder}/tools/verify')
    own_tool = os.path.realpath(rlx)
    tool = shutil.copy(own_tool, f'{folder}/tools/rlx')
    os.symlink(f'{os.path.dirname(os.path.dirname(own_tool))}/rlx-wgpu', f'{folder}/rlx-wgpu')
    with open(f'{folder}/tools/verify/rlx-verify', 'w', encoding='ascii') as file:
        file.write(f'#!/bin/sh\nprintf \'caf\\351\\n\'\nexec {os.path.dirname(own_tool)}/verify/rlx-verify "$@"\n')
    os.chmod(f'{folder}/tools/verify/rlx-verify', 0o755)
    check_right(parse(tap.run([tool, 'verify', '--json', '--quick', '--only', 'relu'], status=OK, env=own).stdout))


@tap.test
def an_interruption():
    name = tap.path('interrupted.json')
    ours, theirs = pty.openpty()
    with start('-o', name, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        wait_for(b'%', ours)
        child = find_child(process)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0]
    os.close(ours)
    tap.equal(process.returncode, FAILED, 'the status')
    tap.contains(output.decode(), 'incomplete')
    tap.check(not os.path.exists(f'/proc/{child}'), 'it still runs')
    with open(name, encoding='utf-8') as file:
        found = json.load(file)
    tap.equal((found['complete'], found['failures']), (False, []), 'what the file says')


def full():
    debug = {'RLX_DEBUG': f'target={sys.argv[4]}'} if sys.argv[4] else {}
    check_right(verify(env={'GALLIVM_PERF': 'nopt', **debug}, timeout=7200))


if sys.argv[3:4] == ['--full']:
    tap._tests[:] = [full]
tap.main('verify')
