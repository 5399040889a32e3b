# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The cost of machine code: the loops of an assembly with the clocks that each iteration takes of each resource, summed over
the iterations.

It is an upper bound of speed: everything overlaps, nothing waits, every load hits a cache. But it is the same for everybody."""
import importlib
import re

import trips

# Assumed iterations of an unknown loop.
GUESS = 8


class Counts(dict):
    """Numbers by name: `clk RESOURCE`, of these `spill RESOURCE`, `product` and `matrix` (the clocks of products alone), `macs`
    (multiply-adds of all lanes), and numbers of instructions by kind."""

    flight = 0   # the most outstanding loads in any iteration, in 16 bytes per lane; AMD only

    def __missing__(self, key):
        return 0

    def add(self, other, times=1):
        for key, value in other.items():
            self[key] += value * times
        self.flight = max(self.flight, other.flight)

    def clocks(self, without_spills=False):
        """The resource that takes longest, and its clocks."""
        return max(((value - (self['spill ' + key[4:]] if without_spills else 0), key[4:])
                    for key, value in self.items() if key.startswith('clk ')), default=(0, ''))


class MachineLoop(trips.Loop):
    def __init__(self):
        super().__init__()
        self.counts = Counts()
        self.trips = None

    @property
    def is_product(self):
        return self.counts['macs'] > 0 or any(loop.is_product for loop in self.inner)


def nest(spans):
    """Nested loops, from pairs of their first and last line, which do not cross."""
    loops, stack, all_loops = [], [], []
    for first, last in sorted(spans, key=lambda span: (span[0], -span[1])):
        loop = MachineLoop()
        loop.first, loop.last = first, last
        while stack and stack[-1].last < first:
            stack.pop()
        (stack[-1].inner if stack else loops).append(loop)
        stack.append(loop)
        all_loops.append(loop)
    return loops, all_loops


def set_facts(loops):
    for loop in loops:
        set_facts(loop.inner)
        loop.barrier = loop.counts['barriers'] > 0 or any(inner.barrier for inner in loop.inner)
        loop.is_idle = not (loop.barrier or loop.is_product or loop.counts['memory loads'])


def add_up(loops, total, times=1):
    for loop in loops:
        turns = times * (loop.trips if loop.trips is not None else GUESS)
        total.add(loop.counts, turns)
        add_up(loop.inner, total, turns)


def measure(path, chip, wgsl, step, subgroup):
    """The counts of one subgroup for a whole kernel, and whether the trip counts of all loops with products are known."""
    reader = importlib.import_module(chip.maker)
    outside, loops = reader.read(path, chip, subgroup)
    set_facts(loops)
    known = dict(trips.KNOWN, **{f'p.{name}': value for name, value in step['parameters'].items()})
    known['n_subgroups'] = max(1, step['workgroup-size'] // subgroup)
    _, pairs = trips.match(loops, trips.read_text(wgsl, known))
    for loop, of_text in pairs.items():
        loop.trips = of_text.trips if of_text is not None else 1
        if loop.trips is None and '< limit;' in of_text.header and 'p.heads' in known:
            loop.trips = get_keys(known, step['operations']) / int(re.search(r'\+= (\d+)u', of_text.header)[1])
    certain = solve(loops, step, subgroup)
    total = Counts()
    outside.flight = 0
    total.add(outside)
    add_up(loops, total)
    return total, certain


def get_keys(known, operations):
    """For attention with many queries: the number of keys that a query sees, by the required products. A kernel may compute
    more."""
    lines = known['p.groups'] / known['p.tiles'] / known['p.chunks'] * known['p.queries']
    return operations / 2 / lines / (known.get('p.width', 0) + known['p.columns'])


def get_waves(step, subgroup):
    grid = step['grid']
    return grid[0] * grid[1] * grid[2] * -(-step['workgroup-size'] // subgroup)


def solve(loops, step, subgroup):
    """Infers the trip counts of the summation loops from the number of required products. FALSE if several loops are possible.
    """
    unknown = []

    def find(some, depth):
        for loop in some:
            if loop.trips is None and loop.is_product:
                unknown.append((depth, loop))
            find(loop.inner, depth + 1)

    find(loops, 0)
    if not unknown:
        return True
    wanted = step['operations'] / 2 / get_waves(step, subgroup)
    for _, loop in unknown:
        loop.trips = 0
    fixed = Counts()
    add_up(loops, fixed)
    # Of several, the one with the most products per iteration: the others handle remainders.
    gains = []
    for _, loop in unknown:
        loop.trips = 1
        one = Counts()
        add_up(loops, one)
        gains.append(one['macs'] - fixed['macs'])
        loop.trips = 0
    best = max(range(len(unknown)), key=gains.__getitem__)
    if gains[best] > 0:
        unknown[best][1].trips = max(1.0, (wanted - fixed['macs']) / gains[best])
    return gains[best] > 0
