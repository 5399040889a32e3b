# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random graphs of all operators, exported and run in Node.js: bit for bit what the library computes. RLX_TEST_GRAPHS is their
number (200), RLX_TEST_SEED the first seed.

Usage: test-web-graphs.py PROGRAM"""
import os
import sys

import tap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import node

COUNT, SEED = os.environ.get('RLX_TEST_GRAPHS', '200'), os.environ.get('RLX_TEST_SEED', '0')
NO_ADAPTER = 77


@tap.test
def random_graphs_have_the_same_bits():
    node.modules()
    done = tap.run([sys.argv[1], tap.path('graphs'), COUNT, SEED], timeout=3600)
    if done.returncode == NO_ADAPTER:
        tap.skip('there is no adapter')
    tap.equal(done.returncode, 0, f'the status of the exporting program, which said {done.stderr[-2000:]!r}')
    results = node.run(tap.path('graphs'), 'graphs', COUNT, done.stdout.split()[-1], timeout=3600)
    tap.equal(len(results), int(COUNT), 'the number of results')
    print(f'# {COUNT} graphs, {sum(result["elements"] for result in results)} elements of results')
    tap.none((f'seed {int(SEED) + int(result["name"])}: {result["message"]}' for result in results if not result['ok']), 'graphs that differ')


tap.main('web-graphs')
