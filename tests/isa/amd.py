# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the assembly of AMD's RDNA GPUs, as written by Mesa's compiler.

Clocks are those of one SIMD for one wave, by the compiler's costs for gfx10 to gfx12: an instruction of 64 lanes takes two
passes, one if it can be dual-issued (f32 arithmetic, moves and selects on gfx11 and later); 32-bit integer products four times
as many; a matrix product 32. `lds`, `vmem`: for workgroup memory, and for memory and scratch, a CU with two SIMDs has 128 bytes
per clock, which is an assumption."""
import re

import machine

DUAL = re.compile(r'v_(dual_)?((fma|fmac|fmaak|fmamk|mul|add|sub|subrev|max|min)_(legacy_)?f(32|16)|mov_b(32|16)|cndmask_b(32|16)|'
                  r'dot2c?_f32_f16|(add|sub|mad|mul_lo)_[iu]16|(max|min)_[iu]16)')
FMA = re.compile(r'v_(dual_)?(fma|fmac|fmaak|fmamk|mac|mad|pk_fma|pk_fmac|dot\d|fma_mix)')
QUARTER = re.compile(r'v_(mul_lo_u32|mul_hi_[iu]32|mad_[iu]64_[iu]32|mul_lo_i32)')
# x · 1 - 0, which converts a half float to a float
CONVERSION = re.compile(r', 1\.0, (neg\()?0')


def get_width(name):
    """Bytes moved per lane."""
    for pattern, size in (r'_b128|x4|_b512|x16', 16), (r'_b96|x3', 12), (r'_b64|x2', 8), (r'[ui]8|byte', 1), (r'b16|[ui]16|short', 2):
        if re.search(pattern, name):
            return size
    return 4


def get_macs(name):
    """Multiply-adds per lane."""
    if 'dot8' in name:
        return 8
    if 'dot4' in name:
        return 4
    return 2 if 'pk_' in name or 'dot2' in name else 1


def count(text, counts, chip, wave):
    passes = 2 if wave == 64 else 1
    name = text.split()[0]
    if text.startswith(('v_', '(')):
        for part in text.split('::'):
            part = part.strip()
            if FMA.match(part) and not ('fma_mix' in part and CONVERSION.search(part)) and not QUARTER.match(part):
                macs = get_macs(part.split()[0])
                counts['macs'] += macs * wave
                # gfx11 and later compute 64 f32 products per clock, earlier ones 32
                counts['product'] += macs * wave / 64 * (1 if chip.gfx >= 11 else 2)
        if 'wmma' in name:
            counts['matrices'] += 1
            counts['macs'] += 4096
            counts['matrix'] += 32
            counts['clk valu'] += 32
        elif QUARTER.match(name):
            counts['clk valu'] += 4 * passes
        else:
            counts['clk valu'] += 1 if chip.gfx >= 11 and DUAL.match(name) else passes
    elif name.startswith('ds_'):
        size = 4 if re.match(r'ds_(bpermute|permute|swizzle)', name) else get_width(name)
        if re.search(r'(2_b|2st64_b|read2|write2|2addr)', name):
            size *= 2
        counts['workgroup loads' if re.match(r'ds_(load|read)', name) else 'workgroup stores'] += 1
        counts['clk lds'] += max(size, 4) * wave / 64
    elif name.startswith('scratch_'):
        counts['spills' if 'store' in name else 'fills'] += 1
        counts['clk vmem'] += get_width(name) * wave / 64
        counts['spill vmem'] += get_width(name) * wave / 64
    elif re.match(r'(buffer|global|flat|image|tbuffer)_', name):
        counts['memory stores' if 'store' in name else 'memory loads'] += 1
        counts['memory bytes'] += get_width(name) * wave
        counts['clk vmem'] += get_width(name) * wave / 64
    elif re.match(r's_(load|buffer_load)', name):
        counts['scalar loads'] += 1
    elif name.startswith('s_barrier'):
        counts['barriers'] += 1
    elif name.startswith('s_wait'):
        counts['waits'] += 1


def read(path, chip, subgroup):
    instructions, labels = [], {}
    for line in open(path, encoding='utf-8', errors='replace'):
        text = line.split(';')[0].strip()
        label = re.match(r'(BB\d+):', text)
        again = re.match(r'\(then repeated (\d+) times\)', text)
        if label:
            labels[label[1]] = len(instructions)
        elif again:
            instructions += [instructions[-1]] * int(again[1])
        elif text:
            instructions.append(text)
    ends = {}
    for i, text in enumerate(instructions):
        match = re.match(r's_(?:cbranch_\w+|branch) (BB\d+)', text)
        if match and labels.get(match[1], i + 1) <= i:
            ends[labels[match[1]]] = i
    loops, every = machine.nest(ends.items())
    outside = machine.Counts()
    owners = [outside] * len(instructions)
    for loop in every:
        owners[loop.first:loop.last + 1] = [loop.counts] * (loop.last + 1 - loop.first)
    flight = 0
    for text, counts in zip(instructions, owners):
        count(text, counts, chip, subgroup)
        # Outstanding loads from memory, in units of 16 bytes per lane.
        if re.match(r's_wait(cnt.*vmcnt|_loadcnt)', text):
            flight = 0
        elif re.match(r'(buffer|global)_load', text):
            flight += get_width(text.split()[0]) / 16
            counts.flight = max(counts.flight, flight)
    return outside, loops
