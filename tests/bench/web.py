# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Contenders in JavaScript: rlx.js, and ONNX Runtime Web with its WebGPU provider, in Node.js and in Chromium. Both get their
files from a server on this machine, over loopback."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import npm
import onnx_model
from contender import PROCESS_TIMEOUT, Contender, Failure

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(FOLDER), 'web'))
import browsers

ORT, ORT_VERSION = 'onnxruntime-web', '1.30.0'
WEBGPU, WEBGPU_VERSION = 'webgpu', '0.6.2'
# Bytes per second for exports: a network of 200 Mbit/s. Over loopback, fetches would be too fast to be compared with
# anything else.
RATE = 25e6
CHUNK = 1 << 18
PAGE = b'''<!DOCTYPE html><meta charset="utf-8"><title>Measuring</title><script type="module">
import {measure} from '/bench/web-bench.mjs';
let result;
try {
  result = await measure(await (await fetch('/configuration')).json());
} catch (error) {
  result = {failure: `${error.name}: ${error.message}`};
}
await fetch('/result', {method: 'POST', body: JSON.stringify(result)});
</script>'''
# With the driver's manifests in the root of browsers, and the folders that programs expect.
ENTER = '''for folder in proc dev sys tmp; do mount --rbind "/$folder" "$RLX_BROWSERS_ROOT/$folder" || exit 1; done
exec chroot "$RLX_BROWSERS_ROOT" "$@"'''


def install(package, version, useless=()):
    try:
        return npm.install(package, version, useless)
    except npm.Failure as error:
        raise Failure(str(error)) from error


class Handler(http.server.SimpleHTTPRequestHandler):
    """Maps the first part of the path to folders; receives what a contender sends."""

    protocol_version = 'HTTP/1.1'

    def __init__(self, server, *arguments):
        self.files = server
        super().__init__(*arguments)

    def translate_path(self, path):
        first, _, rest = path.split('?')[0].lstrip('/').partition('/')
        folder = self.files.folders.get(first)
        return os.path.join(folder, rest) if folder and '..' not in rest else os.path.join(FOLDER, 'nothing')

    def do_GET(self):
        fixed = {'/page': ('text/html', PAGE), '/configuration': ('application/json', json.dumps(self.files.configuration).encode())}
        if self.path not in fixed:
            super().do_GET()
            return
        content_type, content = fixed[self.path]
        self.send_response(200)
        self.send_header('Content-Type', content_type)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def copyfile(self, source, outputfile):
        if not self.path.startswith('/export/'):
            super().copyfile(source, outputfile)
            return
        while content := source.read(CHUNK):
            time.sleep(self.files.reserve(len(content)))
            outputfile.write(content)

    def end_headers(self):
        self.send_header('Cache-Control', 'no-store')
        super().end_headers()

    def do_POST(self):
        content = self.rfile.read(int(self.headers['Content-Length']))
        if self.path == '/output':
            with open(self.files.output, 'wb') as file:
                file.write(content)
        elif self.path == '/result':
            self.files.result = json.loads(content)
            self.files.ended.set()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Server:
    """Shared by all; used by one contender at a time."""

    def __init__(self):
        self.folders, self.configuration, self.output, self.result = {'bench': FOLDER}, None, None, None
        self.ended = threading.Event()
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Handler, self))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.base = f'http://127.0.0.1:{server.server_address[1]}/'
        self.lock, self.busy_until = threading.Lock(), 0

    def reserve(self, n):
        """How long to wait before that many bytes may be sent; all connections share the network."""
        with self.lock:
            now = time.monotonic()
            self.busy_until = max(self.busy_until, now) + n / RATE
            return self.busy_until - now


class Web(Contender):
    """rlx.js, or ONNX Runtime, in an engine."""

    server = None

    def __init__(self, name, bench, runtime):
        super().__init__(name, bench)
        self.runtime, self.modules = runtime, {}
        self.f16_sums = runtime == 'ort'

    def takes(self, workload):
        return workload['kind'] == 'web'

    def prepare(self):
        Web.server = Web.server or Server()
        if self.runtime == 'ort':
            self.modules['ort'] = os.path.join(install(ORT, ORT_VERSION), 'node_modules', ORT, 'dist')
            self.server.folders['ort'] = self.modules['ort']

    def export(self, workload):
        """Exports the graph to a folder, once for all engines."""
        folder = os.path.join(self.bench.temporary, f'export-{workload["name"]}')
        if not os.path.exists(folder):
            subprocess.run([os.path.join(self.bench.programs, 'rlx-bench'), '--workload', workload['name'],
                            '--folder', self.bench.data, '--export', folder], check=True)
        return folder

    def start(self, workload, output, cache):
        configuration = {
            'runtime': self.runtime, 'base': self.server.base, 'seconds': self.bench.seconds, 'modules': self.modules,
            'tensors': [tensor for tensor in workload['tensors'] if tensor['role'] == 'input'],
        }
        self.server.folders['data'] = self.bench.data
        if self.runtime == 'rlx':
            self.server.folders['export'] = self.export(workload)
        else:
            configuration['model'] = os.path.basename(onnx_model.write_model(workload, self.bench.data, 'webgpu'))
            configuration['weights'] = sorted({tensor['file'] for tensor in workload['tensors'] if tensor['role'] == 'constant'})
        self.server.configuration, self.server.output, self.server.result = configuration, output, None
        self.server.ended.clear()
        return self.measure(workload, output, cache)

    def measure(self, workload, output, cache):
        raise NotImplementedError


class Node(Web):
    def prepare(self):
        if shutil.which('node') is None:
            raise Failure('there is no Node.js')
        super().prepare()
        self.modules['webgpu'] = os.path.join(
            install(WEBGPU, WEBGPU_VERSION, [f'dist/{other}' for other in ('darwin-universal', 'win32-x64', 'win32-arm64')]),
            'node_modules', WEBGPU, 'index.js')

    def command(self, workload, output):
        return ['node', os.path.join(FOLDER, 'web-bench.mjs'), json.dumps(self.server.configuration)]

    def measure(self, workload, output, cache):
        return Contender.start(self, workload, output, cache)


class Chromium(Web):
    def prepare(self):
        super().prepare()
        if shutil.which('chromium'):
            self.enter = []
        elif os.path.isdir(os.environ.get('RLX_BROWSERS_ROOT', '')):
            user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
            self.enter = ['unshare', *user, '--mount', 'sh', '-c', ENTER, 'sh']
        else:
            raise Failure("there is no Chromium; `./dev bench --peers --only 'web-*'` and `./dev test --browsers` fetch it")

    def measure(self, workload, output, cache):
        end = time.monotonic() + PROCESS_TIMEOUT
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            env = dict(os.environ, HOME=profile, XDG_RUNTIME_DIR=profile, XDG_CACHE_HOME=cache)
            command = self.enter + browsers.chromium(profile, f'{self.server.base}page')
            with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as process:
                try:
                    while not self.server.ended.wait(0.2) and process.poll() is None and time.monotonic() < end:
                        pass
                finally:
                    process.terminate()
                    try:
                        process.wait(20)
                    except subprocess.TimeoutExpired:
                        process.kill()
        result = self.server.result
        if result is None:
            raise Failure(f'no result within {PROCESS_TIMEOUT} s' if time.monotonic() >= end else 'Chromium ended without a result')
        if 'failure' in result:
            raise Failure(result['failure'])
        return result


def get_contenders(bench):
    return [engine(f'{runtime}-{name}', bench, runtime) for name, engine in (('node', Node), ('chromium', Chromium))
            for runtime in ('rlx', 'ort')]
