# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the cases of a folder in a headless browser, on loopback, and prints a line of JSON for each.

    browsers.py chromium|firefox FOLDER KEY=VALUE…               target=NAME, or any: the one it chooses; without=CASE
    browsers.py chromium|firefox FOLDER --screenshot FILE.png ADDRESS
"""
import functools
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

TESTS = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 600


class Handler(http.server.SimpleHTTPRequestHandler):
    results = None

    def translate_path(self, path):
        name = path.split('?')[0]
        if name.startswith('/tests/'):
            return os.path.join(TESTS, os.path.basename(name))
        return super().translate_path(path)

    def do_GET(self):
        # A page has loaded, so that the screenshot is taken, when all pictures have arrived.
        if self.path == '/tests/wait':
            time.sleep(8)
            self.send_error(404)
        elif 'demo' in self.path:
            with open(self.translate_path(self.path), 'rb') as file:
                page = file.read() + b'<img src="/tests/wait" alt="" hidden>'
            self.send_response(200)
            self.send_header('Content-Type', 'text/html')
            self.send_header('Content-Length', str(len(page)))
            self.end_headers()
            self.wfile.write(page)
        else:
            super().do_GET()

    def do_POST(self):
        self.results(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args):
        pass


def chromium(profile, *arguments):
    # Without --enable-unsafe-webgpu there is no CPU adapter.
    return ['chromium', '--headless=new', '--no-sandbox', '--enable-unsafe-webgpu', '--disable-quic', '--no-first-run',
            '--disable-background-networking', '--disable-component-update', '--disable-sync', f'--user-data-dir={profile}', *arguments]


def firefox(profile, *arguments):
    with open(os.path.join(profile, 'user.js'), 'w', encoding='utf-8') as file:
        for name, value in {'dom.webgpu.enabled': 'true', 'gfx.webgpu.ignore-blocklist': 'true', 'app.update.enabled': 'false',
                            'browser.shell.checkDefaultBrowser': 'false', 'datareporting.policy.dataSubmissionEnabled': 'false',
                            'network.captive-portal-service.enabled': 'false', 'network.connectivity-service.enabled': 'false'}.items():
            file.write(f'user_pref("{name}", {value});\n')
    return ['firefox-esr', '--headless', '--no-remote', '--profile', profile, *arguments]


ENVIRONMENT = {'MOZ_HEADLESS': '1', 'MOZ_DISABLE_CONTENT_SANDBOX': '1', 'MOZ_DISABLE_GPU_SANDBOX': '1', 'MOZ_DISABLE_RDD_SANDBOX': '1',
               'MOZ_CRASHREPORTER_DISABLE': '1'}


def main():
    browser, folder, *rest = sys.argv[1:]
    ended = threading.Event()

    def take(result):
        print(json.dumps(result), flush=True)
        if result.get('end'):
            ended.set()
    Handler.results = staticmethod(take)
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f'http://127.0.0.1:{server.server_address[1]}/'
    start = chromium if browser == 'chromium' else firefox
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        env = dict(os.environ, HOME=profile, XDG_RUNTIME_DIR=profile, **ENVIRONMENT)
        if rest[0] == '--screenshot':
            shot = [f'--screenshot={rest[1]}', '--window-size=760,620', '--timeout=20000'] \
                if browser == 'chromium' else ['--screenshot', rest[1], '--window-size=760,620']
            subprocess.run(start(profile, *shot, base + rest[2]), env=env, timeout=TIMEOUT, check=False)
            return 0 if os.path.exists(rest[1]) else 1
        address = base + 'tests/page.html?' + '&'.join(rest)
        with subprocess.Popen(start(profile, address), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + TIMEOUT
            while not ended.wait(1) and process.poll() is None and time.monotonic() < end:
                pass
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
    return 0 if ended.is_set() else 1


if __name__ == '__main__':
    sys.exit(main())
