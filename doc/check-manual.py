#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Whether everything public is documented, and every link of the manual leads somewhere.

    check-manual.py GI_DOCGEN CONFIG GIR CONTENT_DIR...
"""
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding='utf-8'))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for name in 'id', 'name':
            if attributes.get(name):
                self.anchors.add(attributes[name].replace('_', '-'))
        if tag == 'a' and attributes.get('href'):
            self.links.append(attributes['href'])


def broken_links(folder):
    pages = {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob('*.html')}
    for name, page in sorted(pages.items()):
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith('javascript:'):
                continue
            target = Path(name).parent / unquote(parts.path) if parts.path else Path(name)
            # gi-docgen itself spells the members of enumerations one way in links and another in what they link to.
            anchor = unquote(parts.fragment).replace('_', '-')
            if not (folder / target).exists():
                yield f'{name}: there is no page {link}'
            elif anchor and target.as_posix() in pages and anchor not in pages[target.as_posix()].anchors:
                yield f'{name}: there is no place {link}'


def main():
    gi_docgen, config, gir, *content = sys.argv[1:]
    failed = 0

    def report(number, what, problems):
        nonlocal failed
        print(f'{"not " if problems else ""}ok {number} {what}')
        for problem in problems:
            print(problem, file=sys.stderr)
        failed += bool(problems)

    def docgen(command, *arguments):
        run = subprocess.run([gi_docgen, command, '--quiet', '--fatal-warnings', '--config', config, *arguments, gir],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding='utf-8')
        problems = run.stdout.splitlines()
        return problems or ([f'exit status {run.returncode}'] if run.returncode else [])

    print('TAP version 14\n1..3')
    report(1, 'everything is documented', docgen('check'))
    with tempfile.TemporaryDirectory() as folder:
        report(2, 'symbols that are linked to exist',
               docgen('generate', '--no-namespace-dir', f'--output-dir={folder}', *(f'--content-dir={d}' for d in content)))
        report(3, 'places that are linked to exist', list(broken_links(Path(folder))))
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
