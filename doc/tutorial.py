#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the tutorials true.

    tutorial.py extract LANGUAGE PAGE OUTPUT
        joins the code of a page into the program it is made of
    tutorial.py run PAGE RLX COMMAND...
        runs that program: it must succeed, and print what the page says it
        prints; RLX is the rlx command, which knows whether there is a device

The section "The first program" stays out: it is one of the examples.
"""
import re
import subprocess
import sys

SKIPPED = 77


def sections(page):
    with open(page, encoding='utf-8') as stream:
        return [section for section in re.split(r'^## ', stream.read(), flags=re.M)
                if not section.startswith('The first program')]


def extract(language, page, output):
    blocks = []
    for section in sections(page):
        blocks += re.findall(rf'^```{language}\n(.*?)^```$', section, re.M | re.S)
    if not blocks:
        sys.exit(f'{page} has no code in {language}')
    with open(output, 'w', encoding='utf-8') as stream:
        stream.write('\n'.join(blocks))


def run(page, rlx, *command):
    if subprocess.run([rlx, 'devices'], stdout=subprocess.DEVNULL).returncode == SKIPPED:
        sys.exit(SKIPPED)
    printed = subprocess.run(command, stdout=subprocess.PIPE, encoding='utf-8', check=True).stdout
    print(printed)
    promised = [text for section in sections(page) for text in re.findall(r'It prints `([^`]+)`', section)]
    missing = [text for text in promised if text not in printed]
    if missing or not promised:
        sys.exit(f'{page} says that this is printed, and it is not: {missing}')


if __name__ == '__main__':
    {'extract': extract, 'run': run}[sys.argv[1]](*sys.argv[2:])
