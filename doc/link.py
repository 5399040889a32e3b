#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes a page of the manual from one that reads well in a checkout.

    link.py GIR PAGE OUTPUT

Names between backquotes become links, where the GIR has them: `rlx_device_compile()`, `RlxProfile`,
`RlxExecutable:profiling`, `RlxDevice::lost`, `RLX_GRAPH_ERROR_SHAPE`. Links to other pages, as in [Numerics](numerics.md),
lead to what these become.
"""
import re
import sys
import xml.etree.ElementTree

CORE = '{http://www.gtk.org/introspection/core/1.0}'
C = '{http://www.gtk.org/introspection/c/1.0}'
GLIB = '{http://www.gtk.org/introspection/glib/1.0}'
KINDS = {'method': 'method', 'constructor': 'ctor', 'function': 'func'}


def names(gir):
    """What is written in a page: the link it becomes."""
    namespace = xml.etree.ElementTree.parse(gir).getroot().find(CORE + 'namespace')
    found = {}
    for owner in [namespace, *namespace]:
        name = owner.get('name')
        prefix = 'Rlx.' if owner is namespace else f'Rlx.{name}.'
        for kind, link in KINDS.items():
            for function in owner.findall(CORE + kind):
                if not function.get('moved-to'):
                    found[function.get(C + 'identifier') + '()'] = f'{link}@{prefix}{function.get("name")}'
        if owner.tag == CORE + 'class':
            found[f'Rlx{name}'] = f'class@Rlx.{name}'
            for prop in owner.findall(CORE + 'property'):
                found[f'Rlx{name}:{prop.get("name")}'] = f'property@Rlx.{name}:{prop.get("name")}'
            for signal in owner.findall(GLIB + 'signal'):
                found[f'Rlx{name}::{signal.get("name")}'] = f'signal@Rlx.{name}::{signal.get("name")}'
        elif owner.tag in (CORE + 'enumeration', CORE + 'bitfield'):
            kind = 'error' if owner.get(GLIB + 'error-domain') else 'flags' if owner.tag == CORE + 'bitfield' else 'enum'
            found[f'Rlx{name}'] = f'{kind}@Rlx.{name}'
            for member in owner.findall(CORE + 'member'):
                found[member.get(C + 'identifier')] = f'{kind}@Rlx.{name}.{member.get("name").upper()}'
    return found


def link(text, found):
    def replace(match):
        return f'[{found[match[1]]}]' if match[1] in found else match[0]

    # Not in blocks of code, nor in the text of a link.
    parts = re.split(r'(^```.*?^```$)', text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r'(?<!\[)`([^`\n]+)`', replace, parts[i])
        parts[i] = parts[i].replace('](../rlx-wgpu/ops)', '](operators.html)')
        parts[i] = re.sub(r'\]\(([\w-]+)\.md(#[\w-]+)?\)', lambda match: f']({match[1]}.html{match[2] or ""})', parts[i])
    return ''.join(parts)


def main():
    gir, page, output = sys.argv[1:]
    with open(page, encoding='utf-8') as stream:
        text = stream.read()
    with open(output, 'w', encoding='utf-8') as stream:
        stream.write(link(text, names(gir)))


if __name__ == '__main__':
    main()
