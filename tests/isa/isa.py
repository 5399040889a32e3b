#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the compilers for Intel's, AMD's and NVIDIA's chips make of the kernels, on a machine that has none of these. README.md says how."""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import sys
import tomllib

import chips
import drive
import machine

HERE = pathlib.Path(__file__).resolve().parent
LAST = HERE / 'last.json'
# Numbers for the same code may differ by that many per cent: nothing is measured, but kernels are rewritten.
SLACK = 2
UPPER = ('clocks', 'latency')   # measures for which smaller is better


class Figures:
    """Those of one kernel of one graph on one chip."""

    def __init__(self, chip, graph, step, statistics, path):
        self.chip, self.graph, self.step, self.path = chip, graph, step, path
        self.subgroup, self.statistics = statistics['subgroup'], statistics
        self.total, self.certain = machine.measure(path, chip, step['wgsl'], step, self.subgroup)
        self.clocks, self.bound = self.total.clocks()
        self.waves = machine.get_waves(step, self.subgroup)

    @property
    def spills(self):
        """Their cost, in per cent of the kernel's clocks."""
        return 100 * (1 - self.total.clocks(True)[0] / self.clocks) if self.clocks else 0.0

    @property
    def share(self):
        """The share of the f32 peak, counting the required products."""
        return 100 * self.step['operations'] / 2 / self.waves / chips.get_peak(self.chip) / max(self.clocks, 1)

    def get(self, measure, of_matrices=False):
        if measure == 'share':
            return self.share / self.chip.matrix_rate if of_matrices and self.chip.matrix_rate else self.share
        if measure == 'bandwidth':
            rate = self.step['bytes'] / self.waves / max(self.clocks, 1)
            return 100 * min(1, rate / self.chip.bytes_per_clock) * min(1, self.waves / self.chip.units)
        if measure == 'clocks':
            return self.clocks * self.waves * 64 / max(self.step['operations'] / 2, 1)
        if measure == 'latency':
            return self.statistics.get('Latency', 0)
        return self.waves if measure == 'waves' else self.total.flight

    def describe(self):
        registers = next((f'{self.statistics[key]:g}' for key in ('Max live registers', 'VGPRs', 'Number of GPRs')
                          if key in self.statistics), '')
        share = f'{self.share:.0f} %' if self.total['macs'] and self.step['operations'] else ''
        if self.total['matrix'] and self.chip.matrix_rate:
            share = f'{self.share / self.chip.matrix_rate:.0f} % M'
        cost = f'{self.spills:.0f} %' if self.total['spills'] + self.total['fills'] else ''
        return [self.graph, self.step['kernel'], str(self.waves), str(self.subgroup), registers, cost, f'{self.clocks:.0f}',
                self.bound, share + ('' if self.certain else ' ?')]


COLUMNS = ['graph', 'kernel', 'waves', 'lanes', 'registers', 'spills', 'clocks', 'bound by', 'share']


def print_table(head, rows, right=()):
    """A Markdown table."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for number, row in enumerate([head, *rows]):
        print('| ' + ' | '.join(cell.rjust(width) if i in right else cell.ljust(width)
                                for i, (cell, width) in enumerate(zip(row, widths))) + ' |')
        if number == 0:
            print('|' + '|'.join('-' * (width + 1) + (':' if i in right else '-') for i, width in enumerate(widths)) + '|')


def parse_goal(text):
    return float(text.rstrip('M')), text.endswith('M')


def is_met(measure, value, goal):
    return value <= goal if measure in UPPER else value >= goal


def show(value):
    return f'{value:.0f}' if value >= 20 or value == int(value) else f'{value:.1f}'


def pick(figures, graph):
    """The kernel of a graph with the most work; of two alternatives selected by a weight, the first."""
    own = [f for f in figures if f.graph == graph]
    return max(own, key=lambda f: f.step['operations'], default=None)


def judge(all_figures, goals):
    """A dictionary for each goal and chip."""
    rows = []
    for goal in goals['goal']:
        for name, figures in all_figures.items():
            figure = pick(figures, goal['graph'])
            if figure is None:
                continue
            text = goal['goals'].get(name)
            wanted, of_matrices = parse_goal(text) if text else (None, bool(figure.total['matrix']))
            value = figure.get(goal['measure'], of_matrices)
            if goal['measure'] in ('latency', 'flight') and figure.chip.maker != 'amd':
                continue
            rows.append({'name': goal['name'], 'graph': goal['graph'], 'measure': goal['measure'], 'target': name,
                         'value': round(value, 2), 'of_matrices': of_matrices and goal['measure'] == 'share', 'goal': wanted,
                         'kernel': figure.step['kernel'], 'certain': figure.certain,
                         'met': wanted is None or is_met(goal['measure'], value, wanted)})
    return rows


def find_costly(all_figures, limit):
    rows, seen = [], set()
    for name, figures in all_figures.items():
        for figure in figures:
            if figure.spills > limit and figure.path not in seen:
                seen.add(figure.path)
                rows.append({'target': name, 'graph': figure.graph, 'kernel': figure.step['kernel'], 'spills': round(figure.spills, 1)})
    return rows


def find_worse(rows, last):
    """Goals that used to be met, and no longer are."""
    worse = []
    for row in rows:
        before = last.get(f'{row["target"]} {row["graph"]} {row["measure"]}')
        if before is None or row['goal'] is None or row['met']:
            continue
        slack = row['goal'] * SLACK / 100
        if is_met(row['measure'], before, row['goal']) and \
                not is_met(row['measure'], row['value'] + (-slack if row['measure'] in UPPER else slack), row['goal']):
            worse.append({**row, 'before': before})
    return worse


def print_goals(rows, names):
    cells = {}
    for row in rows:
        unit = 'M' if row['of_matrices'] else ''
        text = show(row['value']) + unit + ('' if row['certain'] else '?')
        if row['goal'] is not None:
            text += (' ≤ ' if row['measure'] in UPPER else ' ≥ ') + show(row['goal']) + unit + ('' if row['met'] else ' missed')
        cells.setdefault((row['name'], row['measure']), {})[row['target']] = text
    print_table(['goal', 'measure', *names], [[*key, *(value.get(name, '') for name in names)] for key, value in cells.items()])


def collect(tools, cache, graphs, names):
    everything = {}
    for name in names:
        chip = chips.CHIPS[name]
        steps = drive.plan(graphs, name)
        code = drive.compile_texts(tools, chip, {step['wgsl'] for _, step in steps}, cache)
        everything[name] = []
        for graph, step in steps:
            statistics, path = code[step['wgsl']]
            if statistics is None:
                raise drive.Failure(f'{name}: {graph}: {step["kernel"]} does not compile')
            everything[name].append(Figures(chip, graph, step, statistics, path))
    return everything


def count_files(tools, cache, files, names):
    """Kernels as WGSL alone. Trips and work are only known as far as the text tells, so only shares can be printed."""
    for name in names:
        texts = {pathlib.Path(path).read_text(encoding='utf-8'): pathlib.Path(path).name for path in files}
        code = drive.compile_texts(tools, chips.CHIPS[name], texts, cache)
        rows = []
        for text, file in texts.items():
            statistics, path = code[text]
            if statistics is None:
                rows.append([file, 'does not compile', *[''] * 5])
                continue
            size = re.search(r'@workgroup_size\s*\(([^)]*)\)', text)[1]
            lanes = 1
            for part in size.split(','):
                lanes *= int(re.match(r'\s*(\d+)', part)[1])
            step = {'parameters': {}, 'workgroup-size': lanes, 'grid': (1, 1, 1), 'operations': 1e9, 'kernel': file, 'bytes': 0}
            figure = Figures(chips.CHIPS[name], file, dict(step, wgsl=text), statistics, path)
            total = figure.total
            peak = (total['matrix'] or total['product']) / max(figure.clocks, 1)
            rows.append([file, statistics['subgroup'], *figure.describe()[4:6], figure.bound,
                         f'{100 * peak:.0f} %{" M" if total["matrix"] else ""}', path])
        print(f'\n{name}')
        print_table(['file', 'lanes', 'registers', 'spills', 'bound by', 'share', 'assembly'], rows)


def parse_arguments():
    parser = argparse.ArgumentParser(prog='./dev isa', description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--root', default=os.environ.get('RLX_ISA_ROOT'), help=argparse.SUPPRESS)
    parser.add_argument('--build', required=True, help=argparse.SUPPRESS)
    parser.add_argument('--target', action='append', choices=list(chips.CHIPS), metavar='NAME',
                        help=f'a chip: {", ".join(chips.CHIPS)}; all without it; can be given several times')
    parser.add_argument('--graphs', metavar='FILE', help='graphs of your own, each below a line “@NAME”')
    parser.add_argument('--only', action='append', metavar='PATTERN', help='graphs of that name alone; * and ? stand for anything')
    parser.add_argument('--kernels', action='store_true', help='print a row for each kernel, too')
    parser.add_argument('--wgsl', nargs='+', metavar='FILE', help='count these kernels instead, which are complete WGSL files')
    parser.add_argument('--json', metavar='FILE', help='write everything; `missed` lists the goals that are not reached')
    parser.add_argument('--check', action='store_true', help='as a test: fail when spills cost too much, or a goal is missed that was met')
    parser.add_argument('--update', action='store_true', help='keep the figures as those that --check compares with')
    return parser.parse_args()


def report_check(costly, worse, names):
    """As TAP."""
    print(f'1..{2 * len(names)}')
    for number, name in enumerate(names):
        spills = [row for row in costly if row['target'] == name]
        goals = [row for row in worse if row['target'] == name]
        for row in spills:
            print(f'# {row["graph"]}: {row["kernel"]}: spills take {row["spills"]} % of the clocks')
        print(f'{"not " if spills else ""}ok {2 * number + 1} - {name}: no costly spill')
        for row in goals:
            print(f'# {row["name"]}, {row["measure"]}: {row["value"]}, was {row["before"]}, goal {row["goal"]}')
        print(f'{"not " if goals else ""}ok {2 * number + 2} - {name}: goals that were met are met')
    return bool(costly or worse)


def main():
    args = parse_arguments()
    if not args.root or not os.path.isdir(args.root):
        print('isa: the drivers are not there: `./dev isa` fetches them', file=sys.stderr)
        return 77 if args.check else 2
    names = args.target or list(chips.CHIPS)
    goals = tomllib.loads((HERE / 'goals.toml').read_text(encoding='utf-8'))
    tools = drive.Tools(args.root, args.build)
    cache = pathlib.Path(args.build) / 'kernels'
    if args.wgsl:
        count_files(tools, cache, args.wgsl, names)
        return 0
    graphs = drive.read_graphs(args.graphs or HERE / 'graphs.txt')
    if args.only:
        graphs = {name: text for name, text in graphs.items() if any(fnmatch.fnmatch(name, pattern) for pattern in args.only)}
    figures = collect(tools, cache, graphs, names)
    rows = judge(figures, goals)
    costly = find_costly(figures, goals['spills'])
    last = json.loads(LAST.read_text(encoding='utf-8')) if LAST.exists() else {}
    worse = find_worse(rows, last)
    if args.kernels:
        for name in names:
            print(f'\n{name}: {chips.CHIPS[name].model}\n')
            print_table(COLUMNS, [figure.describe() for figure in figures[name]], right=(2, 3, 4, 5, 6, 8))
        print()
    missed = [row for row in rows if not row['met']]
    if args.json:
        with open(args.json, 'w', encoding='utf-8') as file:
            json.dump({'goals': rows, 'missed': missed, 'costly_spills': costly, 'worse': worse}, file, indent=1)
    if args.update:
        last.update({f'{row["target"]} {row["graph"]} {row["measure"]}': row['value'] for row in rows})
        LAST.write_text(json.dumps(last, indent=1, sort_keys=True) + '\n', encoding='utf-8')
    if args.check:
        return 1 if report_check(costly, worse, names) else 0
    print_goals(rows, names)
    print(f'\n{sum(row["goal"] is not None and row["met"] for row in rows)} goals are reached, {len(missed)} are missed.')
    print('Kernels whose spills cost more than', goals['spills'], '% of their clocks:',
          ', '.join(f'{name} {sum(row["target"] == name for row in costly)}' for name in names) + '.')
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except drive.Failure as failure:
        sys.exit(f'isa: {failure}')
