# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trip counts for the loops of machine code, from the loops of the WGSL it was compiled from.

Compilers unroll some loops and keep the others in order, with the same nesting. So the loops of the machine code are matched
with those of the text, at the least cost: it is better if removed loops are short ones. Trip counts are known if a loop's
bounds are numbers, or names whose values are in `KNOWN`; the others remain unknown (None)."""
import functools
import re

# Bounds computed in kernels whose parameters are known.
KNOWN = {
    'left': 16, 'keys': 32, 'n': 8, 'cols': 128, 'places': 64,   # attention: of a whole chunk, block, part of it, head
    'odd': 0, 'odd_keys': 0, 'odd_rows': 0,   # of infinities and NaN: there are none
    # The share of attention's blocks in which sums are rescaled because the maximum score has grown, if scores have
    # a standard deviation of 1: test-isa.py draws some.
    'grown': 0.03,
}
UNROLLED_UNKNOWN = 200
UNLIKELY = 100
UNEXPLAINED = 1000


class Loop:
    """A loop of the text, or of machine code."""

    def __init__(self, header='', trips=None, barrier=False):
        self.header, self.trips, self.barrier, self.inner = header, trips, barrier, []
        self.is_idle = False   # neither multiplies nor loads


def number(text):
    match = re.fullmatch(r'\s*(0x[0-9a-fA-F]+|\d+)[ui]?\s*', text)
    return int(match[1], 0) if match else None


def count_trips(header, known):
    """For a `for` loop: `header` is the text in its parentheses."""
    match = re.fullmatch(r'\s*(?:var\s+)?(\w*)[^=;]*(?:=([^;]*))?;\s*\w+\s*([<>]=?)\s*([^;]*);\s*(.*)', header, re.S)
    if not match:
        return None
    _, first, relation, bound, change = (part if part is not None else '' for part in match.groups())
    if re.search(r'/=\s*2u', change) and relation == '>':
        start = number(first)
        return start.bit_length() if start else None
    step = re.search(r'\+=\s*(\w+)', change)
    step = (number(step[1]) if number(step[1]) is not None else known.get(step[1])) if step else 1
    end = number(bound)
    if end is None:
        product = re.fullmatch(r'\s*(\w+)\s*\*\s*(\w+)\s*', bound)
        if product:
            factors = [number(f) if number(f) is not None else known.get(f) for f in product.groups()]
            end = factors[0] * factors[1] if None not in factors else None
        else:
            end = known.get(bound.strip())
    if end is None or not step:
        return None
    if end < 1:
        return end
    # A loop that starts at the lane's index has about the same trip count in every lane; or none in some of the subgroups.
    start = number(first)
    if start is None and end < step:
        return end / step
    return max(1, -(-(end - (start or 0)) // step))


def strip(text):
    return re.sub(r'//[^\n]*', '', text)


def closing(text, at, pair):
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] == pair[0]
        depth -= text[i] == pair[1]
        if depth == 0:
            return i
    raise ValueError('unbalanced')


def read_text(text, known=None):
    """The loops of `main`, with those of the functions it calls in their place."""
    known = KNOWN if known is None else known
    text = strip(text)
    bodies = {}
    for match in re.finditer(r'\bfn\s+(\w+)\s*\(', text):
        begin = text.index('{', closing(text, match.end() - 1, '()'))
        bodies[match[1]] = text[begin + 1:closing(text, begin, '{}')]

    def walk(body, loops, calls):
        """Adds the loops of a text; returns whether it contains a barrier."""
        barrier, at = False, 0
        for match in iter(lambda: re.compile(r'\b(for|while|loop|(\w+))\s*(?=[({])').search(body, at), None):
            at, word = match.end(), match[1]
            if word in ('for', 'while', 'loop'):
                header, begin = '', at
                if word != 'loop':
                    end = closing(body, at, '()')
                    header, begin = body[at + 1:end], body.index('{', end)
                end = closing(body, begin, '{}')
                loop = Loop(header, count_trips(header, known) if word == 'for' else None)
                loop.barrier = walk(body[begin + 1:end], loop.inner, calls)
                barrier = barrier or loop.barrier
                loops.append(loop)
                at = end
            elif word == 'workgroupBarrier':
                barrier = True
            elif word in bodies and word not in calls:
                barrier = walk(bodies[word], loops, calls | {word}) or barrier
        return barrier

    loops = []
    walk(bodies['main'], loops, frozenset(['main']))
    return loops


def match(machine, text):
    """Assigns the trip counts of the text's loops to those of machine code."""
    pairs = {}

    @functools.lru_cache(maxsize=None)
    def cost(left, right, top):
        """The minimum, and its matching."""
        if not left:
            return sum(skip(loop) for loop in right), ()
        best = None
        if right:
            first, rest = right[0], right[1:]
            # unchanged
            if first.barrier or not left[0].barrier:
                inner, found = cost(tuple(left[0].inner), tuple(first.inner), False)
                after, others = cost(left[1:], rest, top)
                unlike = UNLIKELY if left[0].is_idle and first.trips is None else 0
                best = inner + after + unlike, ((left[0], first), *found, *others)
            # unrolled, so that nested loops occur several times
            times = first.trips or 1
            replaced = tuple(first.inner) * min(int(times) or 1, 64) + rest
            if first.inner and len(replaced) <= 200:
                after, others = cost(left, replaced, top)
                best = min(best or (1e9,), (after + own(first), others), key=lambda pair: pair[0])
            elif not first.inner:
                after, others = cost(left, rest, top)
                best = min(best or (1e9,), (after + own(first), others), key=lambda pair: pair[0])
        # not in the text: added by the compiler, such as those that zero workgroup memory
        after, others = cost(left[1:], right, top)
        strange = 1 if top and not left[0].inner and left[0].is_idle else UNEXPLAINED
        return min(best or (1e9,), (after + strange, ((left[0], None), *others)), key=lambda pair: pair[0])

    def own(loop):
        return loop.trips if loop.trips is not None else UNROLLED_UNKNOWN

    def skip(loop):
        return own(loop) + sum(skip(inner) for inner in loop.inner)

    total, found = cost(tuple(machine), tuple(text), True)
    pairs.update(found)
    return total, pairs
