#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes facts about the arguments of functions that an override cannot query, or not in every version.

    functions.py GIR [TEMPLATE] OUTPUT

The table, which takes the place of @FUNCTIONS@ in a template, has, by the name of the class ('' for none), in JSON:

    {"Graph": {"methods": {"input": {"convert": {"data_type": [1, "DataType"]}}},
               "functions": {},
               "properties": {"layout": "Layout", "padding": "ints"}},
     "Device": {"methods": {"compile_async": {"cancellable": 2, "optional": 1, "finish": "compile_finish"}}, …}}

- convert: arguments that are enumerations or files ("File"), which a script may give by name, and dictionaries, by
  their signature ("a{sx}"). Without this, GJS converts anything that is not a number to 0, the first value, and
  PyGObject accepts members of any enumeration.
- cancellable: its index. optional: the index of the first of the nullable arguments before it.
- finish: the function that finishes an asynchronous one.

Arguments count from 0, without the object of a method. Functions without any of these are left out, and so are
properties that cannot be set, or are neither an enumeration nor a list of integers (a variant with a method that sets
it from an array).
"""
import json
import re
import sys
import xml.etree.ElementTree

CORE = '{http://www.gtk.org/introspection/core/1.0}'


def enumeration(element, names):
    kind = element.find(CORE + 'type')
    return kind.get('name') if kind is not None and kind.get('name') in names else None


def dictionary(element):
    """The signature of an argument that is a dictionary of text or integers: its documentation says it."""
    kind, about = element.find(CORE + 'type'), element.find(CORE + 'doc')
    found = re.search(r'`(a\{s[sx]\})`', about.text) if about is not None else None
    return found[1] if found and kind is not None and kind.get('name') == 'GLib.Variant' else None


def converted(element, names):
    """The type of an argument that a script may give by name, or as a plain dictionary."""
    kind = element.find(CORE + 'type')
    if dictionary(element):
        return dictionary(element)
    return 'File' if kind is not None and kind.get('name') == 'Gio.File' else enumeration(element, names)


def is_list(prop, owner):
    """Whether a property is a list of integers."""
    kind = prop.find(CORE + 'type')
    name = 'set_' + prop.get('name').replace('-', '_')
    return kind is not None and kind.get('name') == 'GLib.Variant' and any(
        method.get('name') == name and method.find(f'{CORE}parameters/{CORE}parameter/{CORE}array') is not None
        for method in owner.findall(CORE + 'method'))


def properties(owner, names):
    found = {prop.get('name'): 'ints' if is_list(prop, owner) else enumeration(prop, names)
             for prop in owner.findall(CORE + 'property') if prop.get('writable')}
    return {name: kind for name, kind in found.items() if kind}


def given_arguments(function):
    """The arguments that a script passes: no lengths, no user data."""
    parameters = function.findall(f'{CORE}parameters/{CORE}parameter')
    values = parameters + function.findall(CORE + 'return-value')
    hidden = {int(array.get('length')) for value in values for array in value.findall(CORE + 'array') if array.get('length')}
    hidden |= {int(value.get('closure')) for value in parameters if value.get('closure')}
    return [value for i, value in enumerate(parameters) if i not in hidden and value.get('direction', 'in') != 'out']


def describe(function, names):
    given = given_arguments(function)
    row = {}
    convert = {value.get('name'): [i, converted(value, names)] for i, value in enumerate(given) if converted(value, names)}
    if convert:
        row['convert'] = convert
    for i, value in enumerate(given):
        if value.get('name') == 'cancellable':
            row['cancellable'] = row['optional'] = i
            while row['optional'] > 0 and given[row['optional'] - 1].get('nullable'):
                row['optional'] -= 1
    name = function.get('name')
    if name.endswith('_async'):
        row['finish'] = name.removesuffix('_async') + '_finish'
    return row


def table(path):
    namespace = xml.etree.ElementTree.parse(path).getroot().find(CORE + 'namespace')
    names = {element.get('name') for element in namespace.findall(CORE + 'enumeration')}
    rows = {}
    for owner in [namespace, *namespace]:
        def functions(*kinds):
            found = {function.get('name'): describe(function, names)
                     for kind in kinds for function in owner.findall(CORE + kind) if not function.get('moved-to')}
            return {name: row for name, row in found.items() if row}

        row = {'methods': functions('method'), 'functions': functions('constructor', 'function'),
               'properties': properties(owner, names)}
        if any(row.values()):
            rows['' if owner is namespace else owner.get('name')] = row
    return rows


def main():
    gir, *template, output = sys.argv[1:]
    text = '@FUNCTIONS@'
    if template:
        with open(template[0], encoding='utf-8') as stream:
            text = stream.read()
    with open(output, 'w', encoding='utf-8') as stream:
        stream.write(text.replace('@FUNCTIONS@', json.dumps(table(gir))))


if __name__ == '__main__':
    main()
