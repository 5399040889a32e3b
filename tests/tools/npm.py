# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""npm packages for tests and comparisons, each installed once into the user's cache."""
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile

# Debian's npm consists of hundreds of packages; the corepack of its Node.js gets this one if there is none.
NPM = ('npm@11.19.1+sha512.cedb312b1b7f92421a02cfb68b4194e88f8346651dacd6acc5364a25ef5309d4a32b19616a1ff8aff865e7280c0fa5c'
       '0835a99f5cd93368991e2a80ec9da75d2')


class Failure(Exception):
    """The text says why a package is unavailable."""


def cache_folder():
    """Not below XDG_CACHE_HOME, which tests change: installed packages are shared by all of them."""
    return os.environ.get('RLX_NPM_CACHE') or os.path.join(os.path.expanduser('~'), '.cache', 'rlx-wgpu')


def command(cache):
    env = dict(os.environ, COREPACK_ENABLE_DOWNLOAD_PROMPT='0', COREPACK_HOME=os.path.join(cache, 'corepack'))
    if env.get('npm_config_registry'):
        env['COREPACK_NPM_REGISTRY'] = env['npm_config_registry'].rstrip('/')
    if shutil.which('npm'):
        return ['npm'], env
    if shutil.which('corepack'):
        return ['corepack', NPM], env
    raise Failure('neither npm nor corepack is there')


def install(package, version, useless=()):
    """Returns the folder with node_modules, without the given folders of the package, which are useless here."""
    cache = cache_folder()
    folder = os.path.join(cache, f'{package}-{version}')
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + '.lock', 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(folder):
            return folder
        npm, env = command(cache)
        print(f'# installing {package} {version} into {folder}', file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            modules = os.path.join(temporary, 'modules')
            os.mkdir(modules)
            try:
                result = subprocess.run(
                    npm + ['install', '--prefix', modules, '--ignore-scripts', '--no-save', '--no-package-lock', '--no-audit',
                           '--no-fund', f'{package}@{version}'],
                    cwd=modules, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
            except subprocess.TimeoutExpired as error:
                raise Failure(f'installing {package} took too long') from error
            if result.returncode != 0:
                lines = [line for line in result.stderr.splitlines() if 'rror' in line] or ['no message']
                raise Failure(f'{package} could not be installed: {lines[0].strip()}')
            for other in useless:
                shutil.rmtree(os.path.join(modules, 'node_modules', package, other), ignore_errors=True)
            os.rename(modules, folder)
    return folder
