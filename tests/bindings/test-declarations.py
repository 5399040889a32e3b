#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What editors and type checkers see: the stub compared with the objects at run time, and both checked by their
tools.

    test-declarations.py STUB DECLARATIONS

mypy, pyright and tsc are run if they are installed.
"""
import ast
import glob
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap
from gi.repository import GObject, Rlx

STUB, DECLARATIONS = sys.argv[1:3]
del sys.argv[1:3]

# The parts of other libraries that the declarations use. Users with stubs for all of GLib have more.
NEIGHBOURS = {
    'GObject': 'class Object:\n    class Props: ...\nclass GEnum(int):\n    value_nick: str\nclass GFlags(int): ...\n',
    'GLib': 'from typing import Any\nclass Variant: ...\nclass Bytes: ...\nclass Error(Exception):\n    message: str\n'
            '    def matches(self, domain: int, code: int) -> bool: ...\nclass MainLoop:\n    def __getattr__(self, name: str) -> Any: ...\n',
    'Gio': 'class Cancellable:\n    def cancel(self) -> None: ...\nclass File: ...\nclass AsyncResult: ...\nclass ListModel: ...\n'
           'class IOErrorEnum(int):\n    CANCELLED: int\ndef io_error_quark() -> int: ...\n',
}
GOOD = '''
import gi
gi.require_version('Rlx', '1.0')
from gi.repository import Rlx
g = Rlx.Graph()
x = g.input('x', 'f32', [1, 2, 8, 8])
w = g.parameter('w', Rlx.DataType.F32, (4, 2, 3, 3))
y = (x.conv(w, padding=[1, 1, 1, 1], layout='channels-first') * 2 + 1)[:, 0, ..., None].T
g.output('y', 1 - y.reshape(8, -1).sum(axis=0, keepdims=True))
g.output('z', x.pad([0, 0, 1, 1], [0, 0, 1, 1], mode='edge').reduce_max(axis=1).transpose())
exe = Rlx.Device.get_default().compile(g, precision='reduced')
exe.set_parameters({'w': 1.0})
out = exe(x=[1.0])
n: int = out.y.size + len(out['y'])
closed = Rlx.Device(selector=None)
trainer = Rlx.Trainer(exe, 'y')
losses: list[float] = trainer.train([[[1.0]]], progress=lambda step, loss, total: print(step, loss))
model = Rlx.Model.open('model.onnx').build({'rows': 3})
Rlx.WebExport(model, targets=['minimum']).set_parameters({'w': 1.0})
exe.set_parameters_from(Rlx.Weights.open('w.npz'), {'w': 'other'})
async def later() -> Rlx.Tensor:
    return (await exe.run_future([[1.0]]))[0]
'''
# Each line is wrong, and must be reported.
BAD = '''
x.conv(w, padding='same')
Rlx.Model.open('model.onnx').build({'rows': 'three'})
Rlx.WebExport(targets=['minimum'])
x.conv(w, layout='NHWC')
x.matmul()
x.softmax('a')
x.relu(1)
x.nothing()
exe.run(3)
g.output(y, 'y')
'''
GOOD_SCRIPT = '''
import Rlx from 'gi://Rlx?version=1.0';
const g = new Rlx.Graph();
const x = g.input('x', 'f32', [1, 2, 8, 8]);
const w = g.parameter('w', Rlx.DataType.F32, [4, 2, 3, 3]);
const y = x.conv(w, {padding: [1, 1, 1, 1], layout: 'channels-first'}).mul(2).add([1]).reshape(8, -1);
g.output('y', x.pad([0, 0], [1, 1], null, {mode: 'edge'}).reduce_sum([0], {keep_dims: true}));
const exe = await (await Rlx.Device.get_default_async()).compile_async(g, null);
exe.set_parameters({w: 1});
const out = await exe.run_async({x: new Float32Array(4)});
const model = Rlx.Model.open('model.onnx').build({rows: 3});
const web = new Rlx.WebExport({graph: model, targets: ['minimum']});
web.set_parameters({w: 1});
exe.set_parameters_from(Rlx.Weights.open('w.npz'), {w: 'other'});
const closed = new Rlx.Device({selector: null});
const n: number = out.y.shape.length + out[0].get_n_elements();
for (const node of g)
    node.get_op();
const losses: number[] = await new Rlx.Trainer(exe, 'y').train_async([[1]], {progress: (step, loss) => void (step + loss)});
export {closed, losses, n, y};
'''
BAD_SCRIPT = '''
x.conv(w, {layout: 'NHWC'});
x.conv(w, {paddings: [1]});
x.matmul();
x.softmax('a');
x.nothing();
exe.run(3);
g.output(y, 'y');
'''
MODULES = '''
declare module 'gi://GObject?version=2.0' {
namespace GObject { class Object {} }
export default GObject;
}
declare module 'gi://GLib?version=2.0' {
namespace GLib { class Variant {} class Bytes {} }
export default GLib;
}
declare module 'gi://Gio?version=2.0' {
namespace Gio { class Cancellable {} class File {} interface AsyncResult {} interface ListModel {} type AsyncReadyCallback = () => void; }
export default Gio;
}
'''


def find(name):
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f'there is no {name}')
    return path


class Stub(unittest.TestCase):
    def setUp(self):
        with open(STUB, encoding='utf-8') as stream:
            tree = ast.parse(stream.read())
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def members(self, name):
        found = {}
        for node in self.classes[name].body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, node)
        return found

    def test_operators(self):
        for op in Rlx.operators_list():
            about = Rlx.operators_describe(op).unpack()
            if about['family'] == 'Leaves' or op in ('max', 'min'):
                continue
            name = 'Graph' if about['variadic'] or not about['inputs'] else 'Node'
            with self.subTest(op):
                node = self.members(name)[op]
                names = [row.arg for row in node.args.args + node.args.kwonlyargs]
                real = list(inspect.signature(getattr(getattr(Rlx, name), op)).parameters)
                self.assertEqual([entry for entry in names if entry not in ('axis', 'keepdims') or entry in real], real)

    def test_everything_is_declared(self):
        for name in self.classes:
            # Members of enumerations are callable, being classes.
            if not hasattr(Rlx, name) or issubclass(getattr(Rlx, name), (GObject.GEnum, GObject.GFlags)):
                continue
            for base in getattr(Rlx, name).__mro__:
                if base.__name__ != name:
                    continue
                for member, value in vars(base).items():
                    if member.startswith('_') or not callable(value) and not isinstance(value, (staticmethod, property)):
                        continue
                    with self.subTest(f'{name}.{member}'):
                        self.assertIn(member, self.members(name))

    def check(self, command, wrong):
        """The correct program passes, and each wrong line is reported."""
        with tempfile.TemporaryDirectory() as folder:
            # Where pyright looks by default.
            stubs = os.path.join(folder, 'typings', 'gi', 'repository')
            os.makedirs(stubs)
            shutil.copy(STUB, stubs)
            for path, text in {'../__init__': 'def require_version(namespace: str, version: str) -> None: ...\n',
                               '__init__': '', **NEIGHBOURS}.items():
                with open(os.path.join(stubs, path + '.pyi'), 'w', encoding='utf-8') as stream:
                    stream.write(text)
            for name, text in {'good.py': GOOD, 'bad.py': GOOD + BAD}.items():
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as stream:
                    stream.write(text)
            environment = os.environ | {'MYPYPATH': os.path.join(folder, 'typings')}
            done = subprocess.run([*command, os.path.join(folder, 'good.py')], capture_output=True, text=True, cwd=folder, env=environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = subprocess.run([*command, os.path.join(folder, 'bad.py')], capture_output=True, text=True, cwd=folder, env=environment)
            lines = {int(number) for number in re.findall(r'bad\.py:(\d+)', done.stdout)}
            first = (GOOD + BAD).splitlines().index('x.conv(w, padding=\'same\')') + 1
            self.assertEqual(lines, set(range(first, first + wrong)), done.stdout)

    def test_mypy(self):
        self.check([find('mypy'), '--strict', '--cache-dir=/dev/null'], len(BAD.split('\n')) - 2)

    def test_pyright(self):
        self.check([find('pyright')], len(BAD.split('\n')) - 2)


class Declarations(unittest.TestCase):
    def test_operators(self):
        with open(DECLARATIONS, encoding='utf-8') as stream:
            text = stream.read()
        for op in Rlx.operators_list():
            self.assertRegex(text, rf'(?m)^ +{op}\(')

    def test_tsc(self):
        compiler = find('tsc')
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DECLARATIONS, folder)
            for name, text in {'neighbours.d.ts': MODULES, 'good.ts': GOOD_SCRIPT, 'bad.ts': GOOD_SCRIPT + BAD_SCRIPT}.items():
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as stream:
                    stream.write(text)
            command = [compiler, '--noEmit', '--strict', '--target', 'es2022', '--module', 'es2022', '--lib', 'es2022',
                       *glob.glob(folder + '/*.d.ts')]
            done = subprocess.run([*command, 'good.ts'], cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            done = subprocess.run([*command, 'bad.ts'], cwd=folder, capture_output=True, text=True)
            lines = {int(number) for number in re.findall(r'bad\.ts\((\d+),', done.stdout)}
            first = (GOOD_SCRIPT + BAD_SCRIPT).splitlines().index("x.conv(w, {layout: 'NHWC'});") + 1
            self.assertEqual(lines, set(range(first, first + len(BAD_SCRIPT.split('\n')) - 2)), done.stdout)


if __name__ == '__main__':
    tap.main()
