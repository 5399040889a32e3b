# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reads the code of NVIDIA's GPUs, as written by Mesa's compiler NAK (not NVIDIA's own).

Clocks are those of a quarter of an SM for one warp of 32: one instruction per clock; 32-bit integer products two, special
functions and conversions four; matrix products (hmma, imma of 16x8x16) 16, with f32 sums 32, as on GeForce cards; workgroup
memory 32 bytes per clock and quarter, which is an assumption."""
import re

import machine


def count(line, counts):
    text = line.split('//')[0].strip()
    text = text.split(' = ', 1)[1].strip() if ' = ' in text else text
    op = text.split()[0].split('.')[0] if text else ''
    if op in ('', 'nop'):
        return
    counts['clk issue'] += 1
    width = re.search(r'\.b(8|16|32|64|128)\b|\.[us](8|16)\b', text)
    size = int(width[1] or width[2]) // 8 * 32 if width else 128
    if op in ('ffma', 'hfma2'):
        counts['product'] += 1
        counts['macs'] += 64 if op == 'hfma2' else 32
    elif op in ('hmma', 'imma', 'mma'):
        clocks = 32 if '.f32' in text.split()[0] else 16
        counts['matrices'] += 1
        counts['matrix'] += clocks
        counts['clk matrix'] += clocks
        counts['macs'] += 2048
    elif op == 'idp4':
        counts['product'] += 4
        counts['macs'] += 128
    elif op in ('ld', 'st', 'atom', 'lds', 'sts', 'ldg', 'stg', 'ldsm'):
        kind = 'loads' if op.startswith('l') else 'stores'
        if '.shared' in text or op in ('lds', 'sts', 'ldsm'):
            counts['workgroup ' + kind] += 1
            counts['clk shared'] += size / 32
        elif '.local' in text:
            counts['fills' if kind == 'loads' else 'spills'] += 1
            counts['clk shared'] += size / 32
            counts['spill shared'] += size / 32
            counts['spill issue'] += 1
        else:
            counts['memory ' + kind] += 1
            counts['memory bytes'] += size
    elif op == 'bar':
        counts['barriers'] += 1
    elif op in ('imad', 'imul'):
        counts['clk issue'] += 1
    elif op in ('mufu', 'i2f', 'f2i', 'f2f', 'popc', 'flo', 'shfl'):
        counts['clk slow'] += 4


def find_loops(blocks):
    """A loop has a header, the target of a back edge, and the blocks that reach that edge without passing the header."""
    sources = [[i for i, (_, targets) in enumerate(blocks) if number in targets] for number in range(len(blocks))]
    state, back, path, done = {0: iter(blocks[0][1])}, [], [0], set()
    while path:
        target = next(state[path[-1]], None)
        if target is None:
            done.add(path.pop())
        elif target in path:
            back.append((path[-1], target))
        elif target not in done and target not in state:
            state[target] = iter(blocks[target][1])
            path.append(target)
    bodies = {}
    for tail, head in back:
        body, todo = bodies.setdefault(head, {head}), [tail]
        while todo:
            block = todo.pop()
            if block not in body:
                body.add(block)
                todo += sources[block]
    return sorted(bodies.values(), key=lambda body: (min(body), -len(body)))


def read(path, _chip, _subgroup):
    blocks, current = [], None
    for line in open(path, encoding='utf-8'):
        if re.match(r'block(?:\.u)? (\d+) ', line):
            current = machine.Counts()
        elif line.startswith('}'):
            blocks.append((current, [int(n) for n in re.findall(r'\d+', line)]))
            current = None
        elif current is not None:
            count(line, current)
    bodies = find_loops(blocks)
    every = [machine.MachineLoop() for _ in bodies]
    loops, outside = [], machine.Counts()
    for loop, body in zip(every, bodies):
        around = [i for i, other in enumerate(bodies) if body < other]
        (every[min(around, key=lambda i: len(bodies[i]))].inner if around else loops).append(loop)
    for number, (counts, _) in enumerate(blocks):
        inside = [i for i, body in enumerate(bodies) if number in body]
        (every[min(inside, key=lambda i: len(bodies[i]))].counts if inside else outside).add(counts)
    return outside, loops
