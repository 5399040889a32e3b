#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether the programs in the README and the tutorials are the examples, and files that are linked to exist.

    check-readme.py [--update] SOURCE_ROOT

With --update it copies the examples.
"""
import re
import sys
from pathlib import Path

FILES = {'c': 'c/first.c', 'vala': 'vala/first.vala', 'js': 'gjs/first.js', 'python': 'python/first.py'}
PAGES = {'c': 'tutorial-c.md', 'vala': 'tutorial-vala.md', 'js': 'tutorial-gjs.md', 'python': 'tutorial-python.md'}


def program(path):
    """A file without the comment it begins with."""
    text = path.read_text(encoding='utf-8')
    return re.sub(r'\A(#!.*\n)?(/\*(.|\n)*?\*/\n|(//.*\n)+|(#.*\n)+(""".*"""\n)?)\n*', '', text)


def check(page, language, code, update):
    """The first block of that language on the page."""
    text = page.read_text(encoding='utf-8')
    block = re.search(rf'^```{language}\n(.*?)^```$', text, re.M | re.S)
    if block is None:
        return f'{page.name} has no program in {language}'
    if block[1] == code:
        return None
    if update:
        page.write_text(text[:block.start(1)] + code + text[block.end(1):], encoding='utf-8')
        return None
    return f'{page.name}: the program in {language} is not examples/{FILES[language]}; check-readme.py --update copies it'


def foreign_code(page, root):
    """Blocks of a page about one of the examples that are not in it, whatever their indentation."""
    text = page.read_text(encoding='utf-8')
    for language, suffix in ('python', 'py'), ('js', 'js'):
        name = re.search(rf'examples/\w+/\w+\.{suffix}\b', text)
        for block in re.findall(rf'^```{language}\n(.*?)^```$', text, re.M | re.S):
            if name is None or block not in (root / name[0]).read_text(encoding='utf-8'):
                yield f'{page.name} has code that is not in {name and name[0]}: {block.splitlines()[0]}'


def broken_links(page):
    """Links to files of the project, in a page that is read where the project is hosted."""
    for link in re.findall(r'\]\(([^)#:]+)(?:#[^)]*)?\)', page.read_text(encoding='utf-8')):
        if not (page.parent / link).exists():
            yield f'{page.name}: there is no {link}'


def main():
    update = '--update' in sys.argv
    root = Path(sys.argv[-1])
    tests = []
    for language, file in FILES.items():
        code = program(root / 'examples' / file)
        for page in root / 'README.md', root / 'doc' / PAGES[language]:
            tests.append((f'{page.name} {language}', check(page, language, code, update)))
    for page in sorted([*root.glob('*.md'), *root.glob('doc/*.md')]):
        tests.append((f'links of {page.name}', ', '.join(broken_links(page))))
    tests.append(('names in pages', ', '.join(
        f'{page.name}: {link[0]} is for machines; a name between backquotes becomes the same link'
        for page in sorted(root.glob('doc/*.md')) for link in re.finditer(r'\[\w+@[^]]*\]', page.read_text(encoding='utf-8')))))

    for name in 'tutorial-pictures.md', 'tutorial-decoder.md':
        tests.append((f'code of {name}', ', '.join(foreign_code(root / 'doc' / name, root))))

    print(f'TAP version 14\n1..{len(tests)}')
    for number, (name, problem) in enumerate(tests, 1):
        print(f'{"not " if problem else ""}ok {number} {name}')
        if problem:
            print(problem, file=sys.stderr)
    return any(problem for _, problem in tests)


if __name__ == '__main__':
    sys.exit(main())
