#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of Python that use a device: fork and signals."""
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

import tap
from gi.repository import Gio, GLib, Rlx

# Seconds for calls that are quick unless they hang.
GUARD = 60


def doubled(numbers):
    g = Rlx.Graph()
    g.output('y', g.input('x', 'f32', [len(numbers)]) * 2)
    return Rlx.Device.get_default().compile(g)(numbers)[0].tolist()


def report(queue):
    try:
        queue.put(doubled([1.0, 2.0]))
    except GLib.Error as error:
        queue.put(error.message)


class Fork(unittest.TestCase):
    def in_process(self, method):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=report, args=[queue])
        with warnings.catch_warnings():
            # Python itself warns that a process with threads should not fork.
            warnings.simplefilter('ignore', DeprecationWarning)
            process.start()
        process.join(GUARD)
        alive = process.is_alive()
        process.kill()
        self.assertFalse(alive, 'the process hangs')
        self.assertEqual(process.exitcode, 0)
        return queue.get()

    def test_multiprocessing(self):
        tap.device()
        self.assertEqual(doubled([3.0]), [6])
        message = self.in_process('fork')
        self.assertIn('spawn', message)
        self.assertIn('forkserver', message)
        self.assertEqual(self.in_process('spawn'), [2, 4])
        self.assertEqual(doubled([3.0]), [6])

    def test_exit(self):
        """Both processes go through the interpreter's full shutdown."""
        tap.device()
        script = '''if True:
            import gi, os, sys
            gi.require_version('Rlx', '1.0')
            from gi.repository import GLib, Rlx
            g = Rlx.Graph()
            g.output('y', g.input('x', 'f32', [1]) * 2)
            exe = Rlx.Device.get_default().compile(g)
            exe([1.0])
            pid = os.fork()
            if pid == 0:
                try:
                    exe([1.0])
                except GLib.Error as error:
                    print('spawn' in error.message)
                sys.exit(5)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), exe([4.0])[0].tolist())
        '''
        done = subprocess.run([sys.executable, '-W', 'ignore', '-c', script], timeout=GUARD, check=True,
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.stdout.split('\n'), ['True', '5 [8.0]', ''])


class Interrupt(unittest.TestCase):
    """Signals that arrive while the main thread waits for the device."""

    def setUp(self):
        if tap.device().get_adapter().get_adapter_type() != Rlx.AdapterType.CPU:
            self.skipTest('the device may be too fast')

    def long_run(self):
        """A run of some 10¹² operations, which is started, and not expected to finish."""
        size = 1024
        g = Rlx.Graph()
        x = y = g.input('x', 'f32', [size, size])
        for _ in range(500):
            y = y @ x
        g.output('y', y)
        tensor = Rlx.Tensor.new_from_data(Rlx.DataType.F32, [size, size], bytes(4 * size * size))
        return tap.device().compile(g), tensor

    def interrupt(self, call, number=signal.SIGINT):
        """Seconds from the signal to the exception."""
        sent = []

        def send():
            sent.append(time.monotonic())
            os.kill(os.getpid(), number)

        timer = threading.Timer(0.5, send)
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                call()
            return time.monotonic() - sent[0]
        finally:
            timer.cancel()
            timer.join()

    def check(self, call):
        # The submitted work continues to its end, but nobody waits for it here.
        self.assertLess(self.interrupt(call), 3)
        self.assertFalse(tap.device().get_lost())
        self.assertEqual(doubled([3.0]), [6])

    def test_run(self):
        exe, x = self.long_run()
        self.assertGreater(exe.get_estimate(), 1)
        self.check(lambda: exe.run([x]))
        self.check(lambda: exe.run_named(['x'], [x]))
        self.check(lambda: exe(x))

    def test_behind_another(self):
        """A short run that has to wait for a long one in another thread."""
        exe, x = self.long_run()
        g = Rlx.Graph()
        g.output('y', -g.input('x', 'f32', [1]))
        short = tap.device().compile(g)
        cancellable = Gio.Cancellable()

        def run():
            with contextlib.suppress(GLib.Error):
                exe.run([x], cancellable)

        other = threading.Thread(target=run)
        other.start()
        time.sleep(0.1)
        try:
            self.assertLess(self.interrupt(lambda: [short([1.0]) for _ in range(1000000)]), 3)
        finally:
            cancellable.cancel()
            other.join()
        self.assertEqual(doubled([3.0]), [6])

    def test_calibrate(self):
        # If it fails, other tests must not see the measurements.
        self.addCleanup(tap.device().get_adapter().forget_calibration)
        self.check(tap.device().calibrate)

    def test_other_handler(self):
        """A handler that does not raise runs in between, and the call continues."""
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(threading.get_ident()))
        g = Rlx.Graph()
        x = y = g.input('x', 'f32', [512, 512])
        for _ in range(100):
            y = y @ x
        g.output('y', y)
        exe = tap.device().compile(g)
        tensor = Rlx.Tensor.new_from_data(Rlx.DataType.F32, [512, 512], bytes(4 * 512 * 512))
        timer = threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        try:
            timer.start()
            outputs = exe.run([tensor])
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before)
        self.assertEqual(outputs[0].shape, (512, 512))
        self.assertEqual(seen, [threading.get_ident()])

    def test_cancellable(self):
        """The caller's own still works."""
        exe, x = self.long_run()
        cancellable = Gio.Cancellable()
        timer = threading.Timer(0.3, cancellable.cancel)
        timer.start()
        with self.assertRaises(GLib.Error) as caught:
            exe.run([x], cancellable)
        self.assertTrue(caught.exception.matches(Gio.io_error_quark(), Gio.IOErrorEnum.CANCELLED))
        timer.join()
        with self.assertRaises(GLib.Error):
            exe.run([x], cancellable)


if __name__ == '__main__':
    tap.main()
