# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What all contenders have in common."""

import json
import os
import subprocess
import tempfile
import threading
import time

NO_ADAPTER = 77
PROCESS_TIMEOUT = 900


class Failure(Exception):
    """A contender failed; the text says why."""


class NoAdapter(Failure):
    pass


class Contender:
    """Does the work. A process prints JSON with the time in ms. Before that it may announce its first result, for a clock
    that was started before the process."""

    # Whether it accumulates f16 in f16.
    f16_sums = False

    def __init__(self, name, bench):
        self.name, self.bench = name, bench

    def prepare(self):
        """Provides what it needs; fails with the reason if that is not possible."""

    def takes(self, workload):
        raise NotImplementedError

    def command(self, workload, output):
        raise NotImplementedError

    def start(self, workload, output, cache):
        """Runs a process; returns what it has printed."""
        env = dict(os.environ, XDG_CACHE_HOME=cache)
        started, last = None, ''
        begin = time.monotonic()
        with tempfile.TemporaryFile('w+') as errors:
            with subprocess.Popen(self.command(workload, output), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=errors, text=True) as process:
                timer = threading.Timer(PROCESS_TIMEOUT, process.kill)
                timer.start()
                try:
                    for last in process.stdout:
                        if started is None and last == 'started\n':
                            started = (time.monotonic() - begin) * 1e3
                except BaseException:
                    process.kill()
                    raise
                finally:
                    timer.cancel()
            errors.seek(0)
            lines = [line.strip() for line in errors if line.strip()]
        if time.monotonic() - begin >= PROCESS_TIMEOUT:
            raise Failure(f'no result within {PROCESS_TIMEOUT} s')
        if process.returncode != 0:
            reason = next((line for line in lines if 'rror' in line), lines[-1] if lines else f'status {process.returncode}')
            raise (NoAdapter if process.returncode == NO_ADAPTER else Failure)(reason)
        result = json.loads(last)
        if started is not None:
            result['ms'] = started
        return result
