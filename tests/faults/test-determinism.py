# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The same graph and inputs give the same bits: in every run and process, with any number of
threads.

Usage: test-determinism.py PROBE"""
import os
import sys

import tap

probe = os.path.abspath(sys.argv[1])


def checksum(**env):
    done = tap.run([probe, '--encoder', '--runs', '50'], env=env, status=0)
    return done.stdout.strip()


@tap.test
def same_bits():
    cold = tap.path('cache')
    os.mkdir(cold)
    sums = {}
    for name, env in {
        'as it is': {},
        'no threads': {'LP_NUM_THREADS': '0'},
        'one thread': {'LP_NUM_THREADS': '1'},
        'two threads': {'LP_NUM_THREADS': '2'},
        'cold cache': {'XDG_CACHE_HOME': cold},
        'no cache': {'RLX_DEBUG': 'no-cache'},
        'no bounds checks': {'RLX_DEBUG': 'no-robustness'},
        'no memory used twice': {'RLX_DEBUG': 'no-alias'},
        'timed': {'RLX_DEBUG': 'no-timestamps'},
    }.items():
        sums.setdefault(checksum(**env), []).append(name)
    tap.equal(len(sums), 1, f'the number of different results of {sums}')


tap.main('determinism')
