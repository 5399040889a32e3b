#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes declarations of Rlx for editors and type checkers: a stub for Python, or declarations for TypeScript.

    declare.py python|typescript GENERATE TEMPLATE OUTPUT GIR TOML...

Operators come from the op table, which GENERATE (ops/generate.py) reads, everything else from the GIR. The template
contains what the overrides add or change: its declarations in a class replace those of the GIR, and the rest of the
class is inserted at the line @CLASS@. @REST@ stands for all classes, enumerations and functions that it does not have.
"""
import importlib.util
import re
import sys
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from functions import dictionary

CORE = '{http://www.gtk.org/introspection/core/1.0}'
INTEGERS = {'gint', 'guint', 'gint64', 'guint64', 'gsize', 'gssize', 'guint8', 'gint32', 'guint32', 'GLib.Quark'}
# Names of the table's types for attributes, as the languages have them.
ATTRIBUTES = {
    'python': {'bool': 'bool', 'int': 'int', 'float': 'float', 'ints': '_Ints', 'string': 'str', 'data_type': '_DataType'},
    'typescript': {'bool': 'boolean', 'int': 'number', 'float': 'number', 'ints': 'number | number[]', 'string': 'string',
                   'data_type': 'DataTypeName'},
}

# # The types of list items, which the GIR does not state.
ITEMS = {'Graph': 'Node', 'PortList': 'Port', 'Profile': 'ProfileStep', 'Calibration': 'CalibrationKernel'}


def words(name):
    return name.replace('-', '_')


class Language:
    """What both languages have in common: the members of a class, and their arguments."""

    def __init__(self, namespace, ops):
        self.namespace, self.ops = namespace, ops
        self.enums = {element.get('name'): element for kind in ('enumeration', 'bitfield')
                      for element in namespace.findall(CORE + kind)}
        self.classes = {element.get('name'): element for element in namespace.findall(CORE + 'class')}

    def nicks(self, name):
        return [member.get('name').replace('_', '-') for member in self.enums[name].findall(CORE + 'member')]

    def given(self, function):
        """The arguments that a script passes: no lengths, no user data."""
        parameters = function.findall(f'{CORE}parameters/{CORE}parameter')
        arrays = [value.find(CORE + 'array') for value in parameters + function.findall(CORE + 'return-value')]
        hidden = {int(array.get('length')) for array in arrays if array is not None and array.get('length')}
        hidden |= {int(value.get('closure')) for value in parameters if value.get('closure')}
        shown = [value for i, value in enumerate(parameters) if i not in hidden]
        return ([value for value in shown if value.get('direction', 'in') == 'in'],
                [value for value in shown if value.get('direction', 'in') != 'in'])

    def optional(self, arguments):
        """The index of the first argument that may be left out: the cancellable, and nullable arguments before it."""
        first = len(arguments)
        while first and (arguments[first - 1].get('nullable') or arguments[first - 1].get('name') == 'callback'):
            first -= 1
        return first if any(value.get('name') == 'cancellable' for value in arguments[first:]) else len(arguments)

    def functions(self, owner, *kinds):
        return [function for kind in kinds for function in owner.findall(CORE + kind)
                if function.get('introspectable') != '0' and not function.get('moved-to')]

    def operator(self, owner, name):
        """The row of the op table that a method is made from."""
        op = self.ops.get(name)
        return op if op and not op.leaf and owner == ('Graph' if op.variadic or not op.inputs else 'Node') else None

    def arguments(self, op):
        """Required operands, required attributes and optional operands."""
        operands = op.inputs if op.variadic else op.inputs[1:]
        return [row for row in operands if not row['optional']], op.required, [row for row in operands if row['optional']]


    def returned(self, function):
        """Failures throw an error: results that are null only on failure are not nullable in a script."""
        text = self.type(function.find(CORE + 'return-value'), False)
        return re.sub(r' \| (None|null)$', '', text) if function.get('throws') else text

    def item(self, owner):
        """The type of a list's items."""
        is_list = any(interface.get('name') == 'Gio.ListModel' for interface in owner.findall(CORE + 'implements'))
        return ITEMS.get(owner.get('name'), 'GObject.Object') if is_list else None

    def only(self, op):
        """The attribute of an operator that takes nothing but one list of integers, which may be spread out."""
        operands = op.inputs if op.variadic else op.inputs[1:]
        return op.attrs[0] if not operands and len(op.attrs) == 1 and op.attrs[0].type == 'ints' else None

    def called(self, owner, name):
        return next(function for function in self.functions(owner, 'constructor', 'function', 'method')
                    if function.get('name') == name)


class Python(Language):
    def type(self, element, is_argument):
        array, kind = element.find(CORE + 'array'), element.find(CORE + 'type')
        text = 'None'
        if array is not None:
            inner = array.find(CORE + 'type').get('name')
            text = ('bytes' if inner == 'guint8' else
                    f'{"Sequence" if is_argument else "list"}[{self.named(inner, is_argument)}]')
        elif kind is not None:
            text = self.named(kind.get('name'), is_argument)
            if is_argument and (signature := dictionary(element)):
                text += f' | Mapping[str, {"str" if signature == "a{ss}" else "int"}]'
        return text + (' | None' if element.get('nullable') and text != 'None' else '')

    def named(self, name, is_argument):
        if name in INTEGERS:
            return 'int'
        if name in self.enums:
            return '_' + name if is_argument else name
        if name == 'Gio.File' and is_argument:
            return '_File'
        return {'gboolean': 'bool', 'gdouble': 'float', 'gfloat': 'float', 'utf8': 'str', 'filename': 'str', 'none': 'None',
                'Gio.AsyncReadyCallback': 'Callable[..., None]'}.get(name, name)

    def signature(self, function, first):
        arguments, _ = self.given(function)
        start = self.optional(arguments)
        return [first] * bool(first) + [
            f'{value.get("name")}: {self.type(value, True)}' + (' | None' if i >= start and not value.get('nullable') else '')
            + (' = ...' if i >= start else '') for i, value in enumerate(arguments)]

    def result(self, function):
        _, out = self.given(function)
        results = [self.returned(function)] + [self.type(value, False) for value in out]
        results = results[1:] if results[0] == 'None' and len(results) > 1 else results
        return results[0] if len(results) == 1 else f'tuple[{", ".join(results)}]'

    def operation(self, op):
        required, attributes, optional = self.arguments(op)
        kind = lambda a: '_' + a.enum[3:] if a.enum else ATTRIBUTES['python'][a.type]
        reduction = {'axes', 'keep_dims'} <= {a.name for a in op.attrs}
        only = self.only(op)
        result = 'list[Node]' if op.many else 'Node'
        if only:
            default = ' = ...' if not only.required or op.name == 'transpose' else ''
            options = f', *, options: {op.options_class[3:]} | None = ...' if op.options else ''
            return ['@overload', f'def {op.name}(self, {only.name}: _Ints{default}{options}) -> {result}: ...',
                    '@overload', f'def {op.name}(self, *{only.name}: int) -> {result}: ...']
        parts = ['self']
        parts += [f'{row["name"]}: {"Sequence[_Operand]" if row["variadic"] else "_Operand"}' for row in required]
        parts += [f'{a.name}: {kind(a)}' + (' | None = ...' if reduction and a.name == 'axes' else '') for a in attributes]
        parts += [f'{row["name"]}: _Operand | None = ...' for row in optional]
        if op.options:
            parts += ['*'] + [f'{a.name}: {kind(a)} = ...' for a in op.options]
            parts += ['keepdims: bool = ...'] if reduction else []
            parts += [f'options: {op.options_class[3:]} | None = ...']
        if reduction:
            parts += ['axis: _Ints | None = ...']
        return [f'def {op.name}({", ".join(parts)}) -> {result}: ...']

    def members(self, name, known):
        owner, lines = self.classes[name], []
        is_options = name.endswith('Options')
        if is_options and '__init__' not in known:
            properties = [prop for prop in owner.findall(CORE + 'property') if prop.get('writable')]
            parts = [f'{words(prop.get("name"))}: {self.setting(owner, prop)} = ...' for prop in properties]
            lines.append(f'def __init__(self, *, {", ".join(parts)}) -> None: ...')
        readable = owner.findall(CORE + 'property')
        if readable:
            lines.append('class Props(GObject.Object.Props):')
            lines += [f'    {words(prop.get("name"))}: {self.type(prop, False)}' for prop in readable]
            lines += ['@property', 'def props(self) -> Props: ...']
        for function in self.functions(owner, 'constructor', 'function', 'method'):
            own = function.get('name')
            static = function.tag != CORE + 'method'
            op = self.operator(name, own)
            if own in known:
                continue
            if op:
                lines += self.operation(op)
                continue
            signature = self.signature(function, '' if static else 'self')
            lines += ['@staticmethod'] * static + [f'def {own}({", ".join(signature)}) -> {self.result(function)}: ...']
            if own.endswith('_async') and (base := own.removesuffix('_async')) + '_future' not in known:
                result = self.result(self.called(owner, base + '_finish'))
                parts = [part for part in signature if not part.startswith('callback:')]
                lines += ['@staticmethod'] * static + [f'async def {base}_future({", ".join(parts)}) -> {result}: ...']
        if item := self.item(owner):
            lines += ['def __len__(self) -> int: ...', f'def __iter__(self) -> Iterator[{item}]: ...',
                      f'def __getitem__(self, index: int) -> {item}: ...']
        return lines

    def setting(self, owner, prop):
        """The type that a property is set from: a list of integers is a variant."""
        setter = [m for m in owner.findall(CORE + 'method') if m.get('name') == 'set_' + words(prop.get('name'))]
        value = setter[0].find(f'{CORE}parameters/{CORE}parameter') if setter else prop
        return '_Ints' if value.find(CORE + 'array') is not None else self.type(value, True)

    def whole_class(self, name):
        parent = self.classes[name].get('parent')
        lines = self.members(name, set())
        return [f'class {name}({parent}):'] + (['    ' + line for line in lines] or ['    ...']) + ['']

    def enumeration(self, name):
        flags = self.enums[name].tag == CORE + 'bitfield'
        lines = [f'class {name}(GObject.{"GFlags" if flags else "GEnum"}):']
        lines += [f'    {member.get("name").upper()} = {member.get("value")}'
                  for member in self.enums[name].findall(CORE + 'member')]
        for function in self.functions(self.enums[name], 'function'):
            signature = ', '.join(self.signature(function, ''))
            lines += ['    @staticmethod', f'    def {function.get("name")}({signature}) -> {self.result(function)}: ...']
        return lines + ['']

    def rest(self, known):
        lines = []
        for name in sorted(self.enums):
            lines += self.enumeration(name) if name not in known else []
            nicks = ', '.join(repr(nick) for nick in self.nicks(name))
            lines += [f'_{name} = Union[{name}, Literal[{nicks}]]', ''] if '_' + name not in known else []
        for name in sorted(self.classes):
            lines += self.whole_class(name) if name not in known else []
        for function in self.functions(self.namespace, 'function'):
            lines += [f'def {function.get("name")}({", ".join(self.signature(function, ""))}) -> {self.result(function)}: ...']
        lines += [f'{constant.get("name")}: {self.named(constant.find(CORE + "type").get("name"), False)}'
                  for constant in self.namespace.findall(CORE + 'constant')]
        return lines

    def known(self, text):
        """The names that the template declares, in each class and outside of any."""
        names, owner = {'': set()}, ''
        for line in text.splitlines():
            if match := re.match(r'class (\w+)', line):
                owner = match[1]
                names.setdefault(owner, set())
                names[''].add(owner)
            elif match := re.match(r'(_\w+) = ', line):
                names[''].add(match[1])
            elif match := re.match(r'    (?:async )?def (\w+)|    (\w+):', line):
                names[owner].add(match[1] or match[2])
        return names


class TypeScript(Language):
    def type(self, element, is_argument):
        array, kind = element.find(CORE + 'array'), element.find(CORE + 'type')
        text = 'void'
        if array is not None:
            inner = array.find(CORE + 'type').get('name')
            text = 'Uint8Array' if inner == 'guint8' else f'{self.named(inner, is_argument)}[]'
        elif kind is not None:
            text = self.named(kind.get('name'), is_argument)
            if is_argument and (signature := dictionary(element)):
                text += f' | {{[name: string]: {"string" if signature == "a{ss}" else "number"}}}'
        return text + (' | null' if element.get('nullable') and text != 'void' else '')

    def named(self, name, is_argument):
        if name in INTEGERS or name in ('gdouble', 'gfloat'):
            return 'number'
        if name in self.enums:
            return name + 'Name' if is_argument else name
        if name == 'Gio.File' and is_argument:
            return '(Gio.File | string)'
        return {'gboolean': 'boolean', 'utf8': 'string', 'filename': 'string', 'none': 'void',
                'Gio.AsyncReadyCallback': 'Gio.AsyncReadyCallback | null'}.get(name, name)

    def signature(self, function):
        arguments, _ = self.given(function)
        start = self.optional(arguments)
        return [f'{self.safe(value.get("name"))}{"?" if i >= start else ""}: {self.type(value, True)}'
                for i, value in enumerate(arguments) if value.get('name') != 'callback']

    @staticmethod
    def safe(name):
        return name + '_' if name in ('function', 'in', 'default', 'new', 'var') else name

    def result(self, function):
        _, out = self.given(function)
        results = [self.returned(function)] + [self.type(value, False) for value in out]
        results = results[1:] if results[0] == 'void' and len(results) > 1 else results
        return results[0] if len(results) == 1 else f'[{", ".join(results)}]'

    def operation(self, op):
        required, attributes, optional = self.arguments(op)
        kind = lambda a: a.enum[3:] + 'Name' if a.enum else ATTRIBUTES['typescript'][a.type]
        result = 'Node[]' if op.many else 'Node'
        head = [f'{self.safe(row["name"])}: {"Operand[]" if row["variadic"] else "Operand"}' for row in required]
        rows = []
        if only := self.only(op):
            rows.append(f'{op.name}(...{only.name}: number[]): {result};')
        head += [f'{self.safe(a.name)}: {kind(a)}' for a in attributes]
        tail = [f'{self.safe(row["name"])}?: Operand | null' for row in optional]
        options = [f'options?: {op.options_class[3:]}.Properties | {op.options_class[3:]} | null'] if op.options else []
        named = '; '.join(tail)
        rows.append(f'{op.name}({", ".join(head + tail + options)}): {result};')
        if tail and options:
            rows.append(f'{op.name}({", ".join(head)}{", " if head else ""}options: {op.options_class[3:]} | '
                        f'({op.options_class[3:]}.Properties & {{{named}}}) | null): {result};')
        return rows

    def members(self, name, known):
        owner, lines = self.classes[name], []
        if name.endswith('Options'):
            lines.append(f'constructor(properties?: {name}.Properties);')
        elif name == 'Device':
            lines.append('constructor(properties: {adapter: Adapter} | {selector: string | null});')
        for prop in owner.findall(CORE + 'property'):
            own = words(prop.get('name'))
            # GJS prefers methods of the name.
            if own not in known and not any(m.get('name') == own for m in owner.findall(CORE + 'method')):
                lines.append(f'{"" if prop.get("writable") else "readonly "}{own}: {self.setting(owner, prop, False)};')
        finishes = {f.get('name'): f for f in self.functions(owner, 'constructor', 'function', 'method')}
        for own, function in finishes.items():
            if own in known:
                continue
            op = self.operator(name, own)
            static = 'static ' if function.tag != CORE + 'method' else ''
            if op:
                lines += self.operation(op)
                continue
            result = self.result(function)
            if own.endswith('_async'):
                result = f'Promise<{self.result(finishes[own.removesuffix("_async") + "_finish"])}>'
            lines.append(f'{static}{own}({", ".join(self.signature(function))}): {result};')
        if item := self.item(owner):
            lines += [f'[Symbol.iterator](): Iterator<{item}>;', 'get_n_items(): number;', f'get_item(position: number): {item} | null;']
        return lines

    def setting(self, owner, prop, is_argument):
        setter = [m for m in owner.findall(CORE + 'method') if m.get('name') == 'set_' + words(prop.get('name'))]
        value = setter[0].find(f'{CORE}parameters/{CORE}parameter') if setter else prop
        return 'number[]' if value.find(CORE + 'array') is not None else self.type(value, is_argument)

    def properties(self, name):
        owner = self.classes[name]
        rows = [f'{words(prop.get("name"))}?: {self.setting(owner, prop, True)};'
                for prop in owner.findall(CORE + 'property') if prop.get('writable')]
        return [f'namespace {name} {{', '    interface Properties {'] + ['        ' + row for row in rows] + ['    }', '}']

    def whole_class(self, name):
        lines = [f'class {name} extends {self.classes[name].get("parent")} {{']
        lines += ['    ' + line for line in self.members(name, set())] + ['}']
        return lines + (self.properties(name) if name.endswith('Options') else [])

    def rest(self, known):
        lines = []
        for name in sorted(self.enums):
            lines += [f'enum {name} {{'] + [f'    {member.get("name").upper()} = {member.get("value")},'
                                           for member in self.enums[name].findall(CORE + 'member')] + ['}']
            statics = self.functions(self.enums[name], 'function')
            if statics:
                lines += [f'namespace {name} {{'] + [f'    function {f.get("name")}({", ".join(self.signature(f))}): {self.result(f)};'
                                                     for f in statics] + ['}']
            lines += [f'type {name}Name = {name} | {" | ".join(repr(nick) for nick in self.nicks(name))};']
        for name in sorted(self.classes):
            lines += self.whole_class(name) if name not in known else []
        for function in self.functions(self.namespace, 'function'):
            lines += [f'function {function.get("name")}({", ".join(self.signature(function))}): {self.result(function)};']
        lines += [f'const {constant.get("name")}: {self.named(constant.find(CORE + "type").get("name"), False)};'
                  for constant in self.namespace.findall(CORE + 'constant')]
        return lines

    def known(self, text):
        names, owner = {'': set()}, ''
        for line in text.splitlines():
            if match := re.match(r' *class (\w+)', line):
                owner = match[1]
                names.setdefault(owner, set())
                names[''].add(owner)
            elif match := re.match(r'        (?:static |readonly )*(\w+)\??[(:<]', line):
                names.setdefault(owner, set()).add(match[1])
        return names


def main():
    language, generate, template, output, gir, *tables = sys.argv[1:]
    spec = importlib.util.spec_from_file_location('generate', generate)
    table = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(table)
    ops = {op.name: op for op in table.load(tables) if not op.internal}
    namespace = xml.etree.ElementTree.parse(gir).getroot().find(CORE + 'namespace')
    declare = {'python': Python, 'typescript': TypeScript}[language](namespace, ops)
    with open(template, encoding='utf-8') as stream:
        text = stream.read()
    known = declare.known(text)

    def fill(match):
        lines = declare.rest(known['']) if match[2] == 'REST' else declare.members(match[2], known[match[2]])
        return ''.join(f'{match[1]}{line}\n' for line in lines)

    with open(output, 'w', encoding='utf-8') as stream:
        stream.write(re.sub(r'^( *)@(\w+)@\n', fill, text, flags=re.M))


if __name__ == '__main__':
    main()
