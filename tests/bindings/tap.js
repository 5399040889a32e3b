// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// Tests with results in the Test Anything Protocol.

import GLib from 'gi://GLib';
import Rlx from 'gi://Rlx?version=1.0';
import System from 'system';

const tests = [];
let opened = null;

class Skip extends Error {}

export function test(name, run) {
    tests.push({name, run});
}

export function device() {
    if (!opened) {
        try {
            opened = Rlx.Device.get_default();
        } catch (error) {
            if (GLib.getenv('RLX_TEST_SKIP_NO_ADAPTER') === '1')
                throw new Skip(error.message);
            throw error;
        }
    }
    return opened;
}

export function assert(condition, text = 'the condition does not hold') {
    if (!condition)
        throw new Error(text);
}

// For values and arrays of values; NaN is equal to NaN.
export function assertEqual(got, expected) {
    const list = value => Array.isArray(value) || ArrayBuffer.isView(value);
    const equal = (a, b) => list(a) && list(b)
        ? a.length === b.length && Array.from(a).every((entry, i) => equal(entry, b[i]))
        : Object.is(a, b);
    assert(equal(got, expected), `${got} instead of ${expected}`);
}

export function assertThrows(call, check) {
    let caught = null;
    try {
        call();
    } catch (error) {
        caught = error;
    }
    assert(caught, `${call} throws nothing`);
    assert(check(caught), `${call} throws ${caught}`);
    return caught;
}

export async function assertRejects(promise, check) {
    let caught = null;
    try {
        await promise;
    } catch (error) {
        caught = error;
    }
    assert(caught, 'the promise is not rejected');
    assert(check(caught), `the promise is rejected with ${caught}`);
    return caught;
}

// Iterates the main loop, so that unused objects are finalised.
export async function collect() {
    for (let i = 0; i < 3; i++) {
        System.gc();
        await new Promise(resolve => GLib.timeout_add(GLib.PRIORITY_LOW, 5, () => {
            resolve();
            return GLib.SOURCE_REMOVE;
        }));
    }
}

export async function main() {
    let failed = 0;
    print('TAP version 13');
    print(`1..${tests.length}`);
    for (const [i, {name, run}] of tests.entries()) {
        try {
            await run();
            print(`ok ${i + 1} - ${name}`);
        } catch (error) {
            if (error instanceof Skip) {
                print(`ok ${i + 1} - ${name} # SKIP ${error.message}`);
                continue;
            }
            failed++;
            print(`not ok ${i + 1} - ${name}`);
            for (const line of `${error}\n${error.stack}`.trimEnd().split('\n'))
                print(`# ${line}`);
        }
    }
    System.exit(failed ? 1 : 0);
}
