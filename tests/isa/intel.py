# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the assembly of Intel's GPUs, as written by Mesa's compiler.

Clocks are those of one vector engine for one thread. An engine has 8 lanes of 32 bits (16 for Xe2): an instruction of n lanes
takes n / lanes clocks, at least one; half that for half floats, twice for products of 32-bit integers (which is also how Mesa
counts), four times for `math`. Floats and integers have separate pipes, a shared one up to Tiger Lake. A `dpas` of depth 8 and
8 rows takes 16 clocks. `lsc`: bytes from and to workgroup memory, memory and scratch, at 8 bytes per clock and engine (16 for
Xe2), that is 128 per clock and core, which is an assumption. `issue`: one instruction per clock."""
import re

import machine

INSTRUCTION = re.compile(r'^(?:\([^)]*\)\s+)?([a-z0-9]+)(?:\.([a-z0-9.]+))?\s*\((\d+)\)\s*(.*)$')
DPAS = re.compile(r'^dpas\.(\d+)x(\d+)\((\d+)\)')
TYPE = re.compile(r'(?:>|\d|nul+)(DF|HF|BF|F|UQ|Q|UD|D|UW|W|UB|B)\b')
FLOAT = {'F', 'HF', 'BF', 'DF'}
FLOW = {'if', 'else', 'endif', 'while', 'do', 'break', 'cont', 'halt', 'jmpi', 'brd', 'brc', 'nop', 'call', 'ret', 'goto', 'join'}
# A scratch message comes with others: two instructions for its descriptor and two for its address.
SPILL_HELPERS = 4


def message(text, width, register):
    """What a send moves: unit, direction, bytes."""
    unit = text.split()[0]
    if 'scratch' in text or 'bti 253' in text:
        unit = 'scratch'
    wide = re.search(r'\bd(8|16|32|64)(?:c32u|u32)?, V(\d+)(, transpose)?', text)
    kind = 'store' if re.search(r'\bstore\b|write|scattered write', text) else 'load'
    if 'fence' in text:
        return 'fence', kind, 0
    if 'atomic' in text:
        kind = 'atomic'
    if wide:
        return unit, kind, int(wide[1]) // 8 * int(wide[2]) * (1 if wide[3] else width)
    length = re.search(r'ex_mlen (\d+) rlen (\d+)', text)
    if length:
        return unit, kind, register * int(length[2] if kind == 'load' else length[1])
    return unit, kind, 0


def count_send(line, following, width, counts, chip, scratch):
    unit, kind, size = message(following, width, 4 * chip.lanes)
    if scratch and unit == 'ugm' and 'a0.2' in line:
        unit = 'scratch'
    clocks = size / chip.lanes
    if unit in ('gateway', 'fence'):
        return
    counts['clk lsc'] += clocks
    if unit == 'slm' or 'surface = 254' in following.lower() or 'bti 254' in following:
        counts[f'workgroup {kind}s'] += 1
    elif unit == 'scratch':
        counts['fills' if kind == 'load' else 'spills'] += 1
        counts['spill lsc'] += clocks
        counts['spill issue'] += 1 + SPILL_HELPERS
        counts['spill alu' if chip.shared_pipe else 'spill int'] += SPILL_HELPERS
    else:
        counts[f'memory {kind}s'] += 1
        counts['memory bytes'] += size


def count(line, following, counts, chip, scratch):
    lanes = chip.lanes
    matrix = DPAS.match(re.sub(r'^\([^)]*\)\s+', '', line))
    if matrix:
        depth, rows, width = (int(n) for n in matrix.groups())
        counts['matrices'] += 1
        counts['matrix'] += 2 * rows
        counts['clk matrix'] += 2 * rows
        counts['clk issue'] += 1
        counts['macs'] += 2 * depth * rows * width
        return
    waiting = re.match(r'^(?:\([^)]*\)\s+)?sync\s*(\w+)', line)
    if waiting:
        counts['barriers'] += waiting[1] == 'bar'
        return
    match = INSTRUCTION.match(line)
    if not match:
        return
    op, width, rest = match[1], int(match[3]), match[4]
    counts['clk issue'] += 1
    if op in ('send', 'sendc', 'sends'):
        count_send(line, following, width, counts, chip, scratch)
        return
    if op in FLOW:
        return
    types = TYPE.findall(rest)
    kind = types[0] if types else 'UD'
    sources = types[1:] or [kind]
    clocks = max(1.0, width / lanes)
    if op == 'math':
        counts['clk math'] += 4 * clocks
    elif kind in FLOAT or any(t in FLOAT for t in sources):
        executed = 'F' if 'F' in sources or kind == 'F' else 'HF' if 'HF' in (kind, *sources) else 'F'
        if executed == 'HF' and op in ('mad', 'mul', 'add', 'sel', 'cmp', 'mov'):
            clocks = max(1.0, width / lanes / 2)
        if 'DF' in (kind, *sources):
            clocks *= 4
        counts['clk alu' if chip.shared_pipe else 'clk float'] += clocks
        if op in ('mad', 'mac', 'dp2', 'dp3', 'dp4', 'lrp'):
            counts['macs'] += width
            counts['product'] += clocks
    else:
        if op == 'dp4a':
            counts['macs'] += 4 * width
            counts['product'] += 4 * clocks
        elif op in ('mul', 'mad', 'mach', 'macl') and sum(t in ('D', 'UD') for t in sources) > 1:
            clocks *= 2
        counts['clk alu' if chip.shared_pipe else 'clk int'] += clocks


def read(path, chip, _subgroup):
    lines = [line.rstrip() for line in open(path, encoding='utf-8', errors='replace')]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.match(r'LABEL\d+:$', line)}
    spans = []
    for i, line in enumerate(lines):
        match = re.match(r'^(?:\([^)]*\)\s+)?(?:while|jmpi)\(?\d*\)?\s+.*?(LABEL\d+)', line)
        if match and labels.get(match[1], i) < i:
            spans.append((labels[match[1]], i))
    loops, every = machine.nest(spans)
    outside = machine.Counts()
    owners = [outside] * len(lines)
    for loop in every:
        owners[loop.first:loop.last + 1] = [loop.counts] * (loop.last + 1 - loop.first)
    scratch = any('0xfffffc00UD' in line for line in lines)
    for i, line in enumerate(lines):
        if line and not line.startswith((' ', 'LABEL', '//')):
            count(line, lines[i + 1].strip() if i + 1 < len(lines) else '', owners[i], chip, scratch)
    return outside, loops
