# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Every kernel can be translated for Vulkan, Metal and Direct3D, whatever adapter is here: its WGSL is valid, the
SPIR-V generated from it is valid too, and can be converted to MSL and HLSL. Nothing is run.

Compilers are slow, so only some are compiled (collected.py). RLX_TEST_FULL=1 compiles all.

Usage: test-kernels.py COLLECT KERNELS"""
import collections
import glob
import math
import os
import re
import shutil
import subprocess
import sys

import collected
from collected import describe
import tap
import wgsl as traps

collect, kernels = map(os.path.abspath, sys.argv[1:3])
# Not for HLSL, and only some for MSL.
MATRIX = 'matmul-matrix.wgsl', 'attention-matrix.wgsl'

COMPILE = '''
for i in *.wgsl; do
  i=${i%.wgsl}
  tint --disable-ir-validation-asserts --format spirv -o $i.spv $i.wgsl >$i.tint 2>&1 || { echo tint $i; rm -f $i.spv; }
done
'''
VALIDATE = '''
spirv-val --target-env vulkan1.1 . >/dev/null 2>&1 || for i in *.spv; do
  [ -f $i ] || continue
  i=${i%.spv}
  spirv-val --target-env vulkan1.1 $i.spv >$i.spirv-val 2>&1 || echo spirv-val $i
done
'''
TRANSLATE = '''
for i in *.spv; do
  [ -f $i ] || continue
  i=${i%.spv}
  case ${i#*-} in
  matrix) continue ;;
  matrix8)
    spirv-cross $i.spv --msl --msl-version 30100 --output $i.metal >$i.msl 2>&1 || echo msl $i
    continue ;;
  esac
  spirv-cross $i.spv --msl --msl-version 20100 --output $i.metal >$i.msl 2>&1 || echo msl $i
  [ ${i#*-} = msl ] && continue
  spirv-cross $i.spv --hlsl --shader-model ${i#*-} --hlsl-enable-16bit-types --output $i.dx >$i.hlsl 2>&1 || echo hlsl $i
done
'''


everything = collected.get_kernels(collect)
chosen = collected.choose(everything)
print(f'# {len(everything)} kernels, {len(chosen)} of them compiled')


def is_for_metal(kernel):
    """Whether all matrices of a kernel that uses them are 8 by 8."""
    return set(re.findall(r'subgroup_matrix_\w+<\w+, (\d+), (\d+)>', kernel.text)) == {('8', '8')}


def is_not_for_hlsl(kernel):
    """Whether it uses the subgroup's index, which Dawn supports in HLSL, but spirv-cross does not."""
    return 'builtin(subgroup_id)' in kernel.text


def get_stem(kernel):
    """Includes the shader model, which has to be newer for products of four integers. Dawn emulates them otherwise.
    HLSL has no matrix units, and MSL has them from 3.1 on, 8 by 8 only."""
    if kernel.file in MATRIX:
        return f'{os.path.splitext(kernel.name)[0]}-matrix{"8" if is_for_metal(kernel) else ""}'
    if is_not_for_hlsl(kernel):
        return f'{os.path.splitext(kernel.name)[0]}-msl'
    return f'{os.path.splitext(kernel.name)[0]}-{64 if "8Packed" in kernel.text else 62}'


def compile_all():
    """For each tool, its messages about rejected kernels."""
    by_stem = {get_stem(kernel): kernel for kernel in chosen}
    script = COMPILE
    if shutil.which('spirv-val'):
        script += VALIDATE
    if shutil.which('spirv-cross'):
        script += TRANSLATE
    running = []
    n_workers = len(os.sched_getaffinity(0))
    for i in range(n_workers):
        folder = tap.path(f'part{i}')
        for kernel in chosen[i::n_workers]:
            tap.write(f'part{i}/{get_stem(kernel)}.wgsl', kernel.text)
        running.append((folder, subprocess.Popen(['sh', '-c', script], cwd=folder, stdout=subprocess.PIPE, text=True)))

    refused = collections.defaultdict(list)
    for folder, process in running:
        for line in process.communicate()[0].splitlines():
            tool, stem = line.split()
            with open(os.path.join(folder, f'{stem}.{tool}'), errors='replace') as file:
                refused[tool].append((by_stem[stem], file.read().strip()[:1000]))
        tap.check(process.returncode == 0, f'the compilers’ script ended with status {process.returncode}')
    return refused


refused = None


def compiles(tool, *programs):
    global refused
    for program in 'tint', *programs:
        if not shutil.which(program):
            tap.skip(f'{program} is not installed')
    if refused is None:
        refused = compile_all()
    tap.check(not refused[tool], f'{len(refused[tool])} of {len(chosen)} kernels are refused\n' +
              '\n'.join(f'{describe(kernel)}: {message}' for kernel, message in refused[tool][:5]))


def get_pattern(line):
    """Matches what the template may turn a line into."""
    inner = r'[^()]*'
    for _ in range(3):
        inner = rf'(?:[^()]|\({inner}\))*'
    parts = re.split(rf'(\$\({inner}\)|\$\{{\w+\}})', line)
    return ''.join('.*' if part.startswith('${') else r'-?\d+' if part.startswith('$(') else re.escape(part)
                   for part in parts)


@tap.test
def every_file_is_used():
    files = {os.path.basename(path) for path in glob.glob(os.path.join(kernels, '*.wgsl'))}
    tap.none(files - {kernel.file for kernel in everything}, 'no graph leads to')


@tap.test
def every_line_is_used():
    """So no branch of a template is left untested."""
    by_file = collections.defaultdict(set)
    for kernel in everything:
        lines = {line.strip() for line in kernel.text.splitlines()}
        by_file[kernel.file] |= lines
        by_file[None] |= lines

    missing = []
    n = 0
    for path in sorted(glob.glob(os.path.join(kernels, '**', '*.wgsl'), recursive=True)):
        name = os.path.relpath(path, kernels)
        lines = by_file[None if os.sep in name else name]
        text = '\n'.join(lines)
        with open(path) as file:
            for number, line in enumerate(file, 1):
                line = line.strip()
                if not line or line.startswith(('#', '//')):
                    continue
                n += 1
                if line not in lines and not ('$' in line and re.search(f'(?m)^{get_pattern(line)}$', text)):
                    missing.append(f'{name}:{number}')
    print(f'# {n} lines of templates')
    tap.none(missing, 'no graph leads to')


def count_bytes(type, text):
    """For a WGSL type that is allowed in workgroup memory: an upper bound of its size."""
    match = re.fullmatch(r'array<(.*), *(\d+)u?>', type)
    if match:
        return count_bytes(match[1], text) * int(match[2])
    match = re.fullmatch(r'vec(\d)<(.*)>', type)
    if match:
        return (2 if match[1] == '2' else 4) * count_bytes(match[2], text)
    match = re.fullmatch(r'atomic<(.*)>', type)
    if match:
        return count_bytes(match[1], text)
    match = re.search(rf'\balias {type} = (.*);', text)
    if match:
        return count_bytes(match[1], text)
    match = re.search(rf'\bstruct {type} \{{(.*?)\}}', text, re.DOTALL)
    if match:
        return sum(-(-count_bytes(member, text) // 4) * 4 for member in re.findall(r'\w+ *: *(\w+(?:<\w+>)?)', match[1]))
    return {'f16': 2, 'f32': 4, 'i32': 4, 'u32': 4, 'bool': 4}[type]


@tap.test
def every_workgroup_fits():
    wrong = []
    most = [0, 0]
    for kernel in everything:
        sizes = re.search(r'@workgroup_size\(([\d, ]+)\)', kernel.text)
        invocations = math.prod(map(int, sizes[1].split(',')))
        shared = re.findall(r'var<workgroup> *\w+ *: *(.*);', kernel.text)
        size = sum(-(-count_bytes(type, kernel.text) // 16) * 16 for type in shared)
        most = [max(most[0], invocations), max(most[1], size)]
        if invocations > int(kernel.invocations) or size > int(kernel.bytes):
            wrong.append(f'{describe(kernel)} ({invocations} invocations, {size} bytes)')
    print(f'# at most {most[0]} invocations, {most[1]} bytes')
    tap.none(wrong, 'more than the device has')


# With what is found in them.
STORES = '''
@group(0) @binding(1) var<storage, read_write> y0_0: array<f16>;
@group(0) @binding(2) var<storage, read_write> y1_0: array<f16>;
fn store_y0(w: u32, v: f32) { y0_0[w] = f16(v); }
fn store_y1(w: u32, v: f32) { y1_0[w] = f16(v); }
fn put (i: u32) { if (i < 8u) { store_y0 (i, 0.0); } if (i >= 8u) { store_y1 (i - 8u, 0.0); } }
'''
STORE_SAMPLES = {
    'fn main () { put (1u); }': [],
    'fn main () { for (var i = 0u; i < 9u; i++) { put (i); } if (true) { other (); } }': [],
    'fn main () { if (p.n > 1u) { put (1u); } }': ['store_y0', 'store_y1'],
    'fn all () { put (1u); }\nfn main () { switch (p.n) { case 1u: { all (); } default: { } } }': ['store_y0', 'store_y1'],
    'fn main () { if (p.n > 1u && p.m > 1u) { store_y1 (1u, 0.0); } }': ['store_y1'],
    'fn main () { if (p.n > 1u) { } else { store_y1 (1u, 0.0); } }': [],
    'fn main () { if (p.n > 1u) { } else if (p.m > 1u) { store_y1 (1u, 0.0); } }': ['store_y1'],
}
VECTORS = STORES.replace('array<f16>', 'array<vec4<f16>>').replace('store_', 'store4_')
UNSET_SAMPLES = {
    'fn f () { var v: f32; for (var i = 0u; i < 4u; i++) { var w = 0.0; var x: u32 = select (0u, 1u, i <= 2u); v += w; } }': [],
    'fn f () { for (var i = 0u; i < 4u; i++) { v += 1.0; } var v: f32; if (v == 1.0) { var w: f32; } }': [],
    'fn f () { loop { /* var v: f32; /* */ var w: f32; */ // var x: f32;\n break; } }\nfn g () { var v: array<f32, 4>; }': [],
    'var<private> v: f32;\nfn f () { for (var i: u32; i < 4u; i++) { i = 1u; } }': [],
    'fn f () { for (var i = 0u; i < 4u; i++) { var v: f32; v += 1.0; } }': ['v'],
    'fn f () { while (a <= b) { if (a == b) { var v: array<vec2<f32>, 4>; var w = v[0]; } } }': ['v'],
    'fn f () { loop { var<function> v: u32; { var w: u32 ; } continuing { var x: u32; } } }': ['v', 'w', 'x'],
    'fn f () { @diagnostic (off, a) for (; i == 1u;) { for (var j: u32; j < 4u; j++) { } } }': ['j'],
}


def check_samples(find, samples):
    for text, expected in samples.items():
        tap.equal(find(text), expected, f'what is found in “{text}”')


@tap.test
def no_variable_of_a_loop_is_unset():
    """Tint zero-initialises it before the loop, and not in each iteration."""
    check_samples(traps.find_unset, UNSET_SAMPLES)
    # Most functions are in many kernels.
    pieces = {piece: kernel for kernel in everything for piece in re.split(r'(?m)^(?=fn )', kernel.text)}
    tap.none({f'{name} in {describe(kernel)}' for piece, kernel in pieces.items() for name in traps.find_unset(piece)},
             'without an initialiser in a loop')


@tap.test
def no_store_to_one_of_several_results_is_deep():
    """A driver lost such 16-bit stores within several nested conditions."""
    check_samples(traps.find_deep_stores, {STORES + text: expected for text, expected in STORE_SAMPLES.items()})
    check_samples(traps.find_deep_stores, {VECTORS + text.replace('store_', 'store4_'): [name.replace('_', '4_') for name in expected]
                                           for text, expected in STORE_SAMPLES.items()})
    tap.none({f'{name} in {describe(kernel)}' for kernel in everything for name in traps.find_deep_stores(kernel.text)},
             'inside more than one condition')


@tap.test
def wgsl():
    compiles('tint')


@tap.test
def spir_v():
    compiles('spirv-val', 'spirv-val')


@tap.test
def msl():
    left_out = sum(kernel.file in MATRIX and not is_for_metal(kernel) for kernel in chosen)
    print(f'# without {left_out} kernels for matrix units whose matrices are not 8 by 8')
    compiles('msl', 'spirv-cross')


@tap.test
def hlsl():
    print(f'# without {sum(kernel.file in MATRIX for kernel in chosen)} kernels for matrix units')
    print(f'# without those that ask for the number of their subgroup: {sum(is_not_for_hlsl(kernel) for kernel in chosen)} kernels')
    compiles('hlsl', 'spirv-cross')


tap.main('kernels')
