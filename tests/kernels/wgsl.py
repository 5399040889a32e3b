# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds pitfalls in WGSL: code that is valid, and yet gives wrong results on some drivers. The text must be one that compiles.
"""
import collections
import re

LOOPS = {'for', 'while', 'loop'}
KEYWORDS = {*LOOPS, 'if', 'else', 'switch', '&&', '||'}
# The tokens that matter here; a name is only one if it is called or declared.
TOKEN = re.compile(r'''//[^\n]* | /\* | \*/ | [{}();] | && | \|\| | (?<![<>=!+\-*/%&|^])=(?!=) |
                       \b(?:fn|var|for|while|loop|if|else|switch)\b | [A-Za-z_]\w*(?=\s*\()''', re.VERBOSE)
VARIABLE = re.compile(r'\s*(?:<[^>]*>)?\s*(\w+)')

Block = collections.namedtuple('Block', 'is_loop depth')


class Function:
    """The number of conditions around its innermost block, and its calls: how many conditions are around each, and what is
    called."""

    def __init__(self):
        self.depth = 0
        self.calls = []


def get_tokens(text):
    """Without comments, which may be nested."""
    comments = 0
    for match in TOKEN.finditer(text):
        if match[0] in ('/*', '*/'):
            comments += 1 if match[0] == '/*' else -1
        elif comments == 0 and not match[0].startswith('//'):
            yield match


def get_depth(head, around, before):
    """The depth of a new block, from the text in front of it."""
    if 'else' in head:
        depth = before + ('if' in head)
    else:
        depth = around + ('if' in head or 'switch' in head)
    # The operand after && or || is a branch of its own.
    return depth + (head.count('&&') + head.count('||') if 'if' in head else 0)


def scan(text):
    """The functions by name, and the variables without an initialiser in loop bodies."""
    functions = {}
    unset = []
    function = variable = None
    blocks = []
    head = []
    names_function = False
    before = 0      # conditions around the contents of the block that ended last
    parentheses = 0
    for match in get_tokens(text):
        token = match[0]
        if token == '{':
            depth = get_depth(head, blocks[-1].depth if blocks else 0, before)
            blocks.append(Block(not LOOPS.isdisjoint(head), depth))
            if function is not None:
                function.depth = max(function.depth, depth)
            head = []
        elif token == '}':
            before = blocks.pop().depth
            if not blocks:
                function = None
            head = []
        elif token in ('(', ')'):
            parentheses += 1 if token == '(' else -1
        elif token == ';':
            if variable is not None:
                unset.append(variable)
                variable = None
            # The header of a loop contains some, too.
            if parentheses == 0:
                head = []
        elif token == '=':
            variable = None
        elif token == 'var':
            # The header of a loop is outside it.
            if any(block.is_loop for block in blocks):
                variable = VARIABLE.match(text, match.end())[1]
        elif token in KEYWORDS:
            head.append(token)
        elif token == 'fn':
            names_function = True
        elif names_function:
            function = functions[token] = Function()
            names_function = False
        elif function is not None and blocks:
            function.calls.append((blocks[-1].depth, token))
    return functions, unset


def find_unset(text):
    """Tint zero-initialises a variable before the loops around it, not in each iteration."""
    return scan(text)[1]


def find_deep_stores(text):
    """Stores to one of several results whose elements are smaller than a word, within more than one condition: a driver
    lost such stores."""
    names = {name for name, element in re.findall(r'var<storage, read_write> (\w+)_\d+ *: *array<([^;]*)>;', text)
             if element in ('f16', 'vec4<f16>') or f'fn merge_{name}(' in text}
    n_variables = len(re.findall(rf'var<storage, read_write> (?:{"|".join(names)})_\d+ *:', text)) if names else 0
    if n_variables < 2:
        return []
    functions = scan(text)[0]
    found = set()

    def visit(function, around):
        for depth, name in function.calls:
            match = re.fullmatch(r'store4?_(?:word_)?(\w+)', name)
            if match and match[1] in names:
                if around + depth > 1:
                    found.add(name)
            elif name in functions:
                visit(functions[name], around + depth)

    visit(functions['main'], 0)
    return sorted(found | {name for name, function in functions.items()
                           if re.match('(store4?|merge)_', name) and function.depth > 1})
