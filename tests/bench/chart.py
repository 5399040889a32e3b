# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws the results as bars: the time of each contender, on a logarithmic scale, with its range."""

import html
import math

COLOURS = {'rlx': '#3584e4', 'ort-webgpu': '#e66100', 'ort-cpu': '#c88800', 'openblas': '#26a269', 'dawn': '#813d9c',
           'memcpy': '#77767b', 'rlx-rust': '#a51d2d', 'vkfft': '#986a44', 'scipy': '#1a5fb4', 'numpy': '#63452c',
           'torch': '#c01c28', 'sklearn': '#9141ac'}
LEFT, RIGHT, TOP, BAR, GAP, WIDTH = 180, 110, 56, 12, 10, 900


def _scale(rows):
    """The powers of ten at both ends of the axis."""
    low = min(row['min_ms'] for row in rows)
    high = max(row['max_ms'] for row in rows)
    low, high = math.floor(math.log10(max(low, 1e-6))), math.ceil(math.log10(max(high, 1e-6)))
    return low, max(high, low + 1)


def _number(value):
    """With three digits, but not in scientific notation."""
    return f'{value:.{max(0, 2 - math.floor(math.log10(value)))}f}' if value > 0 else '0'


def _text(x, y, text, anchor='start', **attributes):
    more = ''.join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(text)}</text>'


def draw(rows):
    """Returns the text of an SVG file."""
    groups = {}
    for row in rows:
        groups.setdefault(row['workload'], []).append(row)
    height = TOP + sum(BAR * len(group) + GAP for group in groups.values()) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(8, 18, 'Time in ms, shorter is better (median and range of the processes)', font_weight='bold'),
    ]
    if not rows:
        return '\n'.join(parts + ['</svg>', ''])
    low, high = _scale(rows)
    plot = WIDTH - LEFT - RIGHT

    def place(ms):
        return LEFT + plot * (math.log10(max(ms, 10 ** low)) - low) / (high - low)

    for power in range(low, high + 1):
        x = place(10 ** power)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 8}" stroke="#deddda"/>')
        parts.append(_text(x, TOP - 10, _number(10 ** power) if power < 2 else str(10 ** power), 'middle', fill='#5e5c64'))
    x = LEFT
    for name in dict.fromkeys(row['contender'] for row in rows):
        parts.append(f'<rect x="{x}" y="24" width="10" height="10" fill="{COLOURS.get(name, "#000000")}"/>')
        parts.append(_text(x + 14, 33, name))
        x += 24 + 8 * len(name)
    y = TOP
    for workload, group in groups.items():
        parts.append(_text(LEFT - 8, y + BAR * len(group) / 2 + 4, workload, 'end'))
        for row in group:
            end, middle = place(row['median_ms']), y + BAR / 2
            parts.append(f'<rect x="{LEFT}" y="{y + 1}" width="{max(end - LEFT, 1):.1f}" height="{BAR - 2}" '
                         f'fill="{COLOURS.get(row["contender"], "#000000")}"/>')
            parts.append(f'<line x1="{place(row["min_ms"]):.1f}" y1="{middle}" x2="{place(row["max_ms"]):.1f}" y2="{middle}" '
                         'stroke="#000000" stroke-opacity="0.6"/>')
            parts.append(_text(max(end, place(row['max_ms'])) + 4, middle + 4, _number(row['median_ms'])))
            y += BAR
        y += GAP
    return '\n'.join(parts + ['</svg>', ''])
