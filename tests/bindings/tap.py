# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""unittest with results in the Test Anything Protocol, and a device for tests."""
import functools
import os
import sys
import unittest

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import GLib, Rlx


@functools.cache
def open_device():
    try:
        return Rlx.Device.get_default()
    except GLib.Error as error:
        return error


def device():
    found = open_device()
    if isinstance(found, Rlx.Device):
        return found
    if os.environ.get('RLX_TEST_SKIP_NO_ADAPTER') == '1':
        raise unittest.SkipTest(found.message)
    raise AssertionError(f'no device: {found.message}')


class Result(unittest.TestResult):
    count = 0

    def report(self, test, ok, text='', skip=''):
        self.count += 1
        print(f'{"ok" if ok else "not ok"} {self.count} - {test.id().removeprefix("__main__.")}{skip}')
        for line in text.splitlines():
            print(f'# {line}')
        sys.stdout.flush()

    def stopTest(self, test):
        super().stopTest(test)
        for failed, text in [pair for pair in self.failures + self.errors if pair[0] is test]:
            self.report(failed, False, text)
            return
        # A test with failed sub-tests fails as a whole.
        texts = [f'{failed._subDescription()}\n{text}' for failed, text in self.failures + self.errors
                 if getattr(failed, 'test_case', None) is test]
        skipped = [reason for other, reason in self.skipped if other is test]
        if texts:
            self.report(test, False, '\n'.join(texts))
        else:
            self.report(test, True, skip=f' # SKIP {skipped[0]}' if skipped else '')


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules['__main__'])
    if len(sys.argv) > 1:
        suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:], sys.modules['__main__'])
    print('TAP version 13')
    print(f'1..{suite.countTestCases()}', flush=True)
    result = Result()
    suite.run(result)
    # Meson reads the results in the output; the exit status is for people.
    sys.exit(not result.wasSuccessful())
