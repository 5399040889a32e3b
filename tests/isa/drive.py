# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""From graphs to machine code for absent chips: the library plans for a named target, Dawn generates the SPIR-V on Mesa's
driver for that chip, which gpu-shim.c (Intel, NVIDIA) or the driver itself (AMD) lets open without a card, and the driver
compiles it. Results are cached by the text of the kernel."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Number of kernels compiled per process.
BATCH = 12
FLAGS = ['-std=gnu11', '-O2', '-Wall', '-Wextra', '-Wno-missing-field-initializers']
# AMD's driver comes from the root, as later versions need a card; so do libraries that are missing here.
AMD_LIBRARIES = ['libvulkan_radeon.so', 'libLLVM.so.19.1', 'libxml2.so.2']


class Failure(Exception):
    """A message for the user."""


class Tools:
    """The programs, which are compiled on first use, and the drivers."""

    def __init__(self, root, folder):
        self.root, self.folder = pathlib.Path(root).resolve(), pathlib.Path(folder).resolve()
        self.libraries = self.root / 'usr' / 'lib' / f'{os.uname().machine}-linux-gnu'
        (self.folder / 'driver').mkdir(parents=True, exist_ok=True)
        (self.folder / 'include').mkdir(exist_ok=True)
        for name in AMD_LIBRARIES:
            self.link(self.libraries / name, self.folder / 'driver' / name)
        for name in 'vulkan', 'vk_video', 'xf86drm.h', 'xf86drmMode.h', 'libdrm':
            self.link(self.root / 'usr' / 'include' / name, self.folder / 'include' / name)
        (self.folder / 'amd.json').write_text(json.dumps({'file_format_version': '1.0.1', 'ICD': {
            'api_version': '1.4.305', 'library_path': str(self.folder / 'driver' / 'libvulkan_radeon.so')}}))
        shutil.copy(HERE / 'layer.json', self.folder)
        self.compile('stats', 'stats.c', ['-l:libvulkan.so.1'])
        self.compile('liblayer.so', 'layer.c', ['-shared', '-fPIC', '-fvisibility=hidden', '-lpthread'])
        self.compile('libgpu-shim.so', 'gpu-shim.c', ['-shared', '-fPIC', f'-I{self.folder}/include/libdrm'])
        self.compile('capture-wgsl', 'capture-wgsl.c', ['-lwebgpu_dawn'])

    @staticmethod
    def link(source, target):
        if not source.exists():
            raise Failure(f'{source} is missing')
        if not target.is_symlink() or os.readlink(target) != str(source):
            target.unlink(missing_ok=True)
            target.symlink_to(source)

    def compile(self, name, source, flags):
        result = self.folder / name
        if not result.exists() or result.stat().st_mtime < (HERE / source).stat().st_mtime:
            subprocess.run(['cc', *FLAGS, f'-I{self.folder}/include', '-o', result, HERE / source, *flags], check=True)

    def environment(self, chip, **more):
        """The environment for running a program with a chip's driver."""
        env = dict(os.environ, MESA_SHADER_CACHE_DISABLE='1', **more)
        if chip.maker == 'amd':
            env.update(VK_DRIVER_FILES=str(self.folder / 'amd.json'), RADV_FORCE_FAMILY=chip.card, ISA_TYPE='discrete',
                       LD_LIBRARY_PATH=f'{self.folder}/driver:{env.get("LD_LIBRARY_PATH", "")}')
        else:
            name = 'intel' if chip.maker == 'intel' else 'nouveau'
            env.update(VK_DRIVER_FILES=f'/usr/share/vulkan/icd.d/{name}_icd.json', ISA_CHIP=chip.card,
                       LD_PRELOAD=str(self.folder / 'libgpu-shim.so'))
        return env

    def run(self, command, env):
        result = subprocess.run([str(word) for word in command], env=env, text=True, capture_output=True, check=False)
        errors = [line for line in result.stderr.splitlines() if 'pci bus info' not in line and 'not a conformant' not in line]
        return result.returncode, result.stdout, '\n'.join(errors)

    def capture(self, chip, folder, command):
        """Lets any Vulkan program open the chip; captures its shaders in a folder."""
        return self.run(command, self.environment(chip, ISA_CAPTURE=str(folder), VK_LAYER_PATH=str(self.folder),
                                                  VK_INSTANCE_LAYERS='VK_LAYER_ISA_capture'))

    def driver_version(self, chip):
        path = {'amd': self.libraries / 'libvulkan_radeon.so', 'intel': '/usr/lib/{}/libvulkan_intel.so',
                'nvidia': '/usr/lib/{}/libvulkan_nouveau.so'}[chip.maker]
        status = os.stat(str(path).format(f'{os.uname().machine}-linux-gnu'))
        return f'{status.st_size}-{int(status.st_mtime)}'


def compile_texts(tools, chip, texts, cache):
    """Machine code of WGSL texts: a dictionary from text to a pair of its statistics (None if it does not compile) and
    the path of the assembly."""
    folder = pathlib.Path(cache) / chip.name
    folder.mkdir(parents=True, exist_ok=True)
    version = tools.driver_version(chip)
    names = {text: hashlib.sha256(f'{version}\n{text}'.encode()).hexdigest()[:20] for text in texts}
    missing = {text: name for text, name in names.items() if not (folder / f'{name}.json').exists()}
    items = list(missing.items())

    def compile_some(first):
        with tempfile.TemporaryDirectory(dir=folder) as work:
            compile_batch(tools, chip, dict(items[first:first + BATCH]), pathlib.Path(work), folder)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_some, range(0, len(items), BATCH)))
    result = {}
    for text, name in names.items():
        path = folder / f'{name}.json'
        result[text] = (json.loads(path.read_text()) if path.exists() else None, folder / f'{name}.s')
    return result


def compile_batch(tools, chip, names, work, folder):
    for text, name in names.items():
        (work / f'{name}.wgsl').write_text(text)
    files = [work / f'{name}.wgsl' for name in names.values()]
    status, _, errors = tools.capture(chip, work, [tools.folder / 'capture-wgsl', *files])
    if status != 0:
        raise Failure(f'{chip.name}: Dawn cannot open the chip: {errors}')
    if errors:
        print(errors, file=sys.stderr)
    if not (work / 'index').exists():
        return
    robust = 2 if 'robust2=1' in (work / 'index').read_text() else 1
    # A kernel that the compiler rejects must not affect the others.
    _, output, errors = tools.run([tools.folder / 'stats', '--json', '--index', '--robust', robust, '--asm', work, work],
                                  tools.environment(chip))
    if errors:
        print(errors, file=sys.stderr)
    try:
        rows = json.loads(output)['kernels']
    except ValueError:
        raise Failure(f'{chip.name}: the driver gave up: {errors}') from None
    for row in rows:
        name = row['kernel']
        for suffix in 'wgsl', 'spv', 's':
            shutil.move(work / f'{name}.{suffix}', folder / f'{name}.{suffix}')
        (folder / f'{name}.json').write_text(json.dumps(row))


def read_graphs(path):
    """Graphs in text form, separated by empty lines, each below a line “@NAME”."""
    graphs = {}
    for part in pathlib.Path(path).read_text(encoding='utf-8').split('\n\n'):
        head, _, text = part.strip().partition('\n')
        if head.startswith('@'):
            graphs[head[1:]] = text + '\n'
    return graphs


def plan(graphs, target):
    """The steps of graphs on a target: name, dictionary of the step."""
    import gi
    gi.require_version('Rlx', '1.0')
    from gi.repository import GLib, Rlx
    steps = []
    for name, text in graphs.items():
        try:
            graph = Rlx.Graph.new_from_text(text)
            result = graph.plan_for(target, None)
        except GLib.Error as error:
            print(f'isa: {name}: {target}: {error.message}', file=sys.stderr)
            continue
        result = result.unpack() if hasattr(result, 'unpack') else result
        steps += [(name, step) for step in result['steps']]
    return steps
