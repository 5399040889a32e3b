#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns the op table (*.toml) into C, headers, the manual's page of operators and metadata for Vala.

    generate.py table|vocabulary.h|build.c|gradient.c|methods.c|methods.h|options.c|options.h|manual|metadata OUTPUT TOML... [HEADER]

The table and the manual take the descriptions of enumeration values from the header.

A row:
    [op.NAME]
    summary, doc, formula, bound     text for the manual and the methods
    subnormals                       how subnormal numbers are treated: "kept", "kept by" values of an attribute, or,
             by default if the operator is not exact, "may be taken for zero"
    inputs = ["self:number", "other:same", "bias?:same", "inputs*:any"]
             name, ? optional, * repeated; a set of types, or `same` (as the
             first input) or `sameN` (as input N)
    shapes = an example of a call, with the types of operands, as in the text form, and those of the results: a test
             checks it. Element-wise operators have one by default
    attrs.NAME = { type = bool|int|float|ints|string|data_type|enum:RlxName, default, doc }
             without default it is required and an argument of the method;
             with one it is a property of the RlxNameOptions object; a
             string has none; `field` is its name in C, by default the same
    checked = what makes a checked run fail, or "nothing:" and the reason
    since = "1.0" (default)          the first version that has it; attributes
             that were added later give their own
    outputs = 1 (default) or "many"
    rule = the RULE in the C functions rlx_RULE_infer and rlx_RULE_lower; default NAME.
             Operators with the same rule share one struct of attributes, with the
             members of all; element-wise ones each have their own
    variants = the VARIANTS in rlx_VARIANTS_variants in C: the kernels that the lowering chooses from
    attrs_of = the rule whose struct of attributes it uses, instead of its own
    traits = ["norm", "epilogue", "report"]    what passes need to know of a family, see RlxOpFlags
    internal = true                  only passes create it, and set the types of
             its results: no method, no rule, and not in the manual
    expand = "always" or "sometimes"   it is replaced with other operators during
             compilation, by rlx_RULE_expand in C; always: it has no lowering
    f, i, u, b, result               element-wise only, see elementwise.toml
    gradient = "rule"                rlx_RULE_gradient in C, see rlx-gradient-private.h
             "expand"                that of its expansion
             "zero"                  the derivative is zero wherever it exists
             "none: WHY"             there is none; implied if no operand or result is a float
             ["g * b", "g * a"]      element-wise only, for each operand, "" for none: g is the result's gradient, y the
             result, a, b, c the operands; expressions are written as in Python, with numbers, attributes and element-wise
             operators, and `t = …; ` in front names a value that is used several times
"""
import ast
import math
import re
import sys
import tomllib

TYPE_SETS = {
    'float': 'RLX_TYPES_FLOAT', 'int': 'RLX_TYPES_INT', 'number': 'RLX_TYPES_NUMBER',
    'signed': 'RLX_TYPES_SIGNED', 'bool': 'RLX_TYPES_BOOL', 'any': 'RLX_TYPES_ANY',
    'index': 'RLX_TYPES_INT', 'f32': 'RLX_TYPES_F32', 'f16': 'RLX_TYPES_F16',
    'stored': 'RLX_TYPES_STORED', 'quantized': 'RLX_TYPES_QUANTIZED', 'i32': 'RLX_TYPES_I32', 'byte': 'RLX_TYPES_BYTE',
}
TYPE_WORDS = {
    'float': 'f32, f16', 'int': 'i32, u32, i8, u8, i64, u64', 'number': 'f32, f16, i32, u32, i8, u8, i64, u64',
    'signed': 'f32, f16, i32, i8, i64', 'bool': 'bool', 'any': 'every type that is computed with', 'index': 'i32, u32, i8, u8, i64, u64',
    'stored': 'every type', 'quantized': 'i8, u8, i16, u16, i4, u4, i2, u2, i32', 'f32': 'f32', 'f16': 'f16', 'i32': 'i32', 'byte': 'i8, u8',
}
FLOATS = {'f32', 'f16'}
C_TYPES = {'bool': 'gboolean', 'int': 'gint64', 'float': 'double', 'data_type': 'RlxDataType', 'string': 'const char *'}
KINDS = {'bool': 'BOOL', 'int': 'INT', 'float': 'FLOAT', 'data_type': 'DATA_TYPE', 'ints': 'INTS', 'string': 'STRING'}
LICENSE = ('SPDX-FileCopyrightText: The rlx-wgpu authors', 'SPDX-License-Identifier: LGPL-2.1-or-later')


class Attr:
    def __init__(self, name, row, since):
        self.name = name
        self.since = row.get('since', since)
        self.type = row['type']
        self.field = row.get('field', name)
        self.enum = self.type[5:] if self.type.startswith('enum:') else None
        self.required = 'default' not in row
        self.default = row.get('default')
        if self.type == 'string' and not self.required:
            sys.exit(f'{name}: a string has no default')
        self.doc = row.get('doc', '')

    @property
    def member(self):
        """Its type in the struct of attributes."""
        return 'RlxInts ' if self.type == 'ints' else self.c_type + ('' if self.c_type.endswith('*') else ' ')

    @property
    def initial(self):
        """Its default in C; None where that is all zeros."""
        if self.required or not self.default:
            return None
        if self.type == 'ints':
            return f'{{ (const gint64[]) {{ {", ".join(map(str, self.default))} }}, {len(self.default)} }}'
        if self.enum or self.type == 'data_type':
            return enum_value(self.enum or 'RlxDataType', self.default)
        return c_inf(self.default) if self.type == 'float' else 'TRUE' if self.type == 'bool' else str(self.default)

    @property
    def c_type(self):
        return self.enum or C_TYPES[self.type]

    @property
    def kind(self):
        return 'ENUM' if self.enum else KINDS[self.type]

    @property
    def prop(self):
        return self.name.replace('_', '-')


class Op:
    def __init__(self, name, row, file):
        self.name = name
        self.family = file['family']
        self.leaf = file.get('leaf', False)
        self.internal = row.get('internal', file.get('internal', False))
        self.attrs_of = row.get('attrs_of')
        self.traits = row.get('traits', file.get('traits', []))
        self.summary = row['summary']
        self.since = row.get('since', '1.0')
        self.doc = row.get('doc', '')
        self.formula = row.get('formula')
        self.shapes = row.get('shapes')
        self.bound = row.get('bound', 'exact')
        self.checked = row.get('checked', file.get('checked'))
        self.rule = row.get('rule', file.get('rule', name))
        self.exprs = {k: row.get(k) for k in 'fiub'}
        self.elementwise = any(self.exprs.values())
        self.bool_result = row.get('result') == 'bool'
        self.many = row.get('outputs') == 'many'
        self.expand = row.get('expand', file.get('expand'))
        self.ruled = not self.leaf and not self.internal
        self.lowered = not self.leaf and not self.elementwise and self.expand != 'always'
        self.variants = row.get('variants', file.get('variants')) if self.lowered else None
        self.inputs = []
        for text in row.get('inputs', []) if self.internal else row['inputs']:
            label, types = text.split(':')
            same = -1
            if types.startswith('same'):
                same = int(types[4:] or 0)
            self.inputs.append({'name': label.rstrip('?*'), 'optional': label.endswith('?'),
                                'variadic': label.endswith('*'), 'types': types, 'same': same})
        floats = any(FLOATS & set(TYPE_WORDS[w].replace(',', ' ').split()) or w in ('any', 'stored')
                     for i in self.inputs if i['same'] < 0 for w in i['types'].split('|'))
        self.subnormals = None
        if floats:
            self.subnormals = row.get('subnormals', 'kept' if self.bound == 'exact' else 'may be taken for zero')
        self.variadic = bool(self.inputs) and self.inputs[-1]['variadic']
        self.attrs = [Attr(n, r, self.since) for n, r in row.get('attrs', {}).items()]
        self.gradient = row.get('gradient', file.get('gradient'))
        self.no_gradient = None
        if self.gradient is None:
            self.no_gradient = ('it is where values come from' if self.leaf else 'it is made by passes' if self.internal else
                                'its operands are not floats' if self.inputs and not floats else
                                'its result is not a float' if self.bool_result else None)
            if self.no_gradient is None:
                sys.exit(f'{self.name}: its row says neither what its gradient is nor why there is none')
        elif isinstance(self.gradient, str) and self.gradient.startswith('none: '):
            self.gradient, self.no_gradient = None, self.gradient[6:]
        elif self.gradient not in ('rule', 'expand', 'zero') and not isinstance(self.gradient, list):
            sys.exit(f'{self.name}: its gradient is {self.gradient}')
        elif isinstance(self.gradient, list) and (not self.elementwise or len(self.gradient) != len(self.inputs)):
            sys.exit(f'{self.name}: its gradient is not one expression for each operand')
        if self.elementwise and self.shapes is None and not self.internal:
            self.shapes = self.elementwise_shapes()
        if self.shapes is None and not self.leaf and not self.internal:
            sys.exit(f'{self.name} has no shapes')
        self.required = [a for a in self.attrs if a.required]
        self.options = [a for a in self.attrs if not a.required]
        known = {a.name: f'${i}' for i, a in enumerate(self.attrs)} | {'bits': '$bits'}
        for k, text in self.exprs.items():
            # expressions refer to attributes by number
            for name in re.findall(r'\$(\w+)', text or ''):
                if name not in known:
                    sys.exit(f'{self.name}: {k} has ${name}, which is no attribute')
            self.exprs[k] = text and re.sub(r'\$(\w+)', lambda match: known[match[1]], text)

    def elementwise_shapes(self):
        types = []
        for i in self.inputs:
            own = i['types'].split('|')[0]
            types.append(types[i['same']] if i['same'] >= 0 else 'bool' if own == 'bool' else 'i32' if own in ('int', 'index') else 'f32')
        operands = [f'{data_type}[{"3" if number else "2, 3"}]' for number, data_type in enumerate(types)]
        return f'({", ".join(operands)}) -> {"bool" if self.bool_result else types[-1]}[2, 3]'

    @property
    def camel(self):
        return camel(self.name)

    @property
    def group(self):
        """The name of the struct of attributes, which several operators may share."""
        return self.attrs_of or (self.name if self.elementwise else self.rule)

    @property
    def attrs_type(self):
        return f'Rlx{camel(self.group)}Attrs'

    @property
    def id(self):
        return f'RLX_OP_ID_{self.name.upper()}'

    @property
    def options_class(self):
        return f'Rlx{self.camel}Options'

    @property
    def options_prefix(self):
        return f'rlx_{self.name}_options'

    def flags(self):
        out = []
        if self.leaf:
            out.append('RLX_OP_LEAF')
        if self.elementwise:
            out.append('RLX_OP_ELEMENTWISE')
        if self.variadic:
            out.append('RLX_OP_VARIADIC')
        if self.bool_result:
            out.append('RLX_OP_BOOL_RESULT')
        if self.internal:
            out.append('RLX_OP_INTERNAL')
        if self.gradient == 'zero':
            out.append('RLX_OP_FLAT')
        out += [f'RLX_OP_{trait.upper()}' for trait in self.traits]
        return ' | '.join(out) or '0'


def load_enums(headers):
    """For each enumeration, the short names and descriptions of its values."""
    enums = {}
    for path in headers:
        with open(path, encoding='utf-8') as stream:
            text = stream.read()
        for name, lines in re.findall(r'^/\*\*\n \* (Rlx\w+):\n((?: \* @RLX_.*\n(?: \*   .*\n)*)+)', text, re.M):
            prefix = snake(name).upper() + '_'
            enums[name] = [(value.removeprefix(prefix).lower().replace('_', '-'), re.sub(r'\n \*  ', '', doc))
                           for value, doc in re.findall(r'^ \* @(\w+): (.*(?:\n \*   .*)*)', lines, re.M)]
    return enums


def plain(text):
    """The text without links to the manual."""
    return re.sub(r'\[(?:method@(?:Rlx\.)?\w+\.(\w+)|enum@(?:Rlx\.)?(\w+))\]', lambda link: link[1] or 'Rlx' + link[2], text)


def load(paths):
    ops = []
    for path in paths:
        with open(path, 'rb') as stream:
            file = tomllib.load(stream)
        ops += [Op(name, row, file) for name, row in file['op'].items()]
    names = [op.name for op in ops]
    if len(set(names)) != len(names):
        sys.exit('an operator has two rows: ' + ', '.join(sorted({n for n in names if names.count(n) > 1})))
    # internal operators come last
    return sorted(ops, key=lambda op: op.internal)


def camel(name):
    return ''.join(w.capitalize() for w in name.split('_'))


def attr_groups(ops):
    """The members of each struct of attributes."""
    groups = {}
    for op in ops:
        for a in op.attrs:
            members = groups.setdefault(op.group, {})
            first = members.setdefault(a.field, a)
            if a.type != first.type:
                sys.exit(f'{op.name}: {a.name} is not what another operator of rule {op.rule} has; give it a `field` of its own')
    return groups


def defaults(op):
    return ', '.join(f'.{a.field} = {a.initial}' for a in op.attrs if a.initial)


def rule_attrs(op, groups):
    """Whether the rule gets attributes; the general one of element-wise operators does not."""
    return op.group in groups and (not op.elementwise or op.rule == op.name)


def available(thing):
    """The macro in front of a declaration."""
    return 'RLX_AVAILABLE_IN_' + thing.since.replace('.', '_')


def quote(text):
    if text is None:
        return 'NULL'
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n') + '"'


def c_inf(value):
    """A double constant that both compilers and g-ir-scanner accept."""
    if math.isinf(value):
        return 'INFINITY' if value > 0 else '-INFINITY'
    return repr(float(value))


def head():
    return f'/* {LICENSE[0]}\n * {LICENSE[1]}\n *\n * Generated from the op table by generate.py: do not edit.\n */\n'


# ---- the table ------------------------------------------------------------

def rules(ops):
    """One operator of each rule."""
    return sorted({op.rule: op for op in ops if not op.leaf}.values(), key=lambda op: op.rule)


def table(ops, enums):
    groups = attr_groups(ops)
    out = [head(), '#include "config.h"', '#include <math.h>', '#include "rlx-op-vocabulary-private.h"', '#include "rlx-enum-types.h"', '']
    for op in rules([op for op in ops if op.ruled]):
        if rule_attrs(op, groups):
            out += ['static gboolean', f'infer_{op.rule} (RlxOpCall *call, GError **error)', '{',
                    f'  return rlx_{op.rule}_infer (call, call->attrs, error);', '}', '']
    for op in ops:
        out.append('')
        if op.inputs:
            out.append(f'static const RlxInputDef {op.name}_inputs[] = {{')
            for i in op.inputs:
                first = op.inputs[i['same']] if i['same'] >= 0 else i
                types = ' | '.join(TYPE_SETS[t] for t in first['types'].split('|'))
                out.append(f'  {{ "{i["name"]}", {types}, {"TRUE" if i["optional"] else "FALSE"}, {i["same"]} }},')
            out.append('};')
        if op.attrs:
            out.append(f'static const {op.attrs_type} {op.name}_defaults = {{ {defaults(op)} }};')
            out.append(f'static const RlxAttrDef {op.name}_attrs[] = {{')
            for a in op.attrs:
                getter = enum_getter(a.enum) if a.enum else 'NULL'
                out.append(f'  {{ "{a.name}", RLX_ATTR_{a.kind}, G_STRUCT_OFFSET ({op.attrs_type}, {a.field}), {"TRUE" if a.required else "FALSE"}, {getter},')
                out.append(f'    {quote(plain(a.doc))} }},')
            out.append('};')
        out += [f'const RlxOp rlx_op_{op.name} = {{',
                f'  .id = {op.id},',
                f'  .name = "{op.name}",',
                f'  .family = {quote(op.family)},',
                f'  .summary = {quote(op.summary)},',
                f'  .doc = {quote(plain(op.doc))},',
                f'  .shapes = {quote(op.shapes)},',
                f'  .formula = {quote(op.formula)},',
                f'  .bound = {quote(op.bound)},',
                f'  .since = {quote(op.since)},',
                f'  .checked = {quote(op.checked)},',
                f'  .subnormals = {quote(op.subnormals)},',
                f'  .flags = {op.flags()},']
        if op.inputs:
            out += [f'  .inputs = {op.name}_inputs,', f'  .n_inputs = {len(op.inputs)},']
        if op.attrs:
            out += [f'  .attrs = {op.name}_attrs,', f'  .n_attrs = {len(op.attrs)},',
                    f'  .attrs_id = RLX_ATTRS_ID_{op.group.upper()},', f'  .attrs_size = sizeof ({op.attrs_type}),',
                    f'  .defaults = &{op.name}_defaults,']
        if op.ruled:
            out.append(f'  .infer = {f"infer_{op.rule}" if rule_attrs(op, groups) else f"rlx_{op.rule}_infer"},')
        if op.lowered:
            out.append(f'  .lower = rlx_{op.rule}_lower,')
        if op.variants:
            out.append(f'  .variants = &rlx_{op.variants}_variants,')
        if op.expand:
            out.append(f'  .expand = rlx_{op.rule}_expand,')
        if op.gradient not in (None, 'zero'):
            out.append(f'  .gradient = {gradient_function(op)},')
        out.append(f'  .no_gradient = {quote(op.no_gradient)},')
        out += [f'  .expr_{k} = {quote(v)},' for k, v in op.exprs.items() if v]
        out.append('};')
    out += ['', 'const RlxEnumDoc rlx_enum_docs[] = {']
    out += [f'  {{ {quote(name)}, {quote(nick)}, {quote(plain(doc))} }},'
            for name in sorted({a.enum for op in ops for a in op.attrs if a.enum}) for nick, doc in enums[name]]
    out += ['  { NULL, NULL, NULL },', '};']
    out += ['', 'const RlxOp *const rlx_op_table[] = {']
    out += [f'  &rlx_op_{op.name},' for op in ops if not op.internal]
    out += ['};', '', 'const guint rlx_n_ops = G_N_ELEMENTS (rlx_op_table);', '']
    return '\n'.join(out)


# ---- the vocabulary of the compiler ------------------------------------------

def operands(ops):
    """Names for the indices of operands: of the rule if its operators agree, otherwise of each operator."""
    out = []
    for rule in rules(ops):
        same = [op for op in ops if op.rule == rule.rule and not op.elementwise and not op.variadic]
        longest = max(same, key=lambda op: len(op.inputs), default=None)
        if longest is None or len(longest.inputs) < 2:
            continue
        names = [i['name'] for i in longest.inputs]
        if all([i['name'] for i in op.inputs] == names[:len(op.inputs)] for op in same):
            out.append((rule.rule, names))
        else:
            out += [(op.name, [i['name'] for i in op.inputs]) for op in same]
    return out


def build_signature(op):
    name = f'rlx_build_{op.name}'
    params = ['RlxBuilder *b']
    params += ['RlxIrValue *const *inputs', 'guint n_inputs'] if op.variadic else [f'RlxIrValue *{i["name"]}' for i in op.inputs]
    if op.attrs:
        params.append(f'const {op.attrs_type} *attrs')
    return f'{"RlxIrNode" if op.many else "RlxIrValue"} *\n{name} (' + (',\n' + ' ' * (len(name) + 2)).join(params) + ')'


def vocabulary_h(ops):
    groups = attr_groups(ops)
    out = [head(), '#pragma once', '', '#include <math.h>', '', '#include "ir/rlx-op-private.h"', '', 'G_BEGIN_DECLS', '',
           '/* Attributes that are named in RLX_NAME_ATTRS() take the place of defaults. */',
           '#pragma GCC diagnostic ignored "-Woverride-init"', '',
           'typedef enum', '{', '  RLX_OP_ID_NONE,']
    out += [f'  {op.id},' for op in ops]
    out += ['  RLX_N_OP_IDS,', '} RlxOpId;', '']
    out += [f'extern const RlxOp rlx_op_{op.name};' for op in ops]
    out += ['', 'static inline gboolean', 'rlx_ir_node_is (const RlxIrNode *node,', '                RlxOpId          id)', '{',
            '  return node->op->id == id;', '}', '',
            '/* ---- attributes ---- */', '', 'enum', '{', '  RLX_ATTRS_ID_NONE,']
    out += [f'  RLX_ATTRS_ID_{group.upper()},' for group in groups]
    out += ['};', '']
    for group, members in groups.items():
        struct = f'Rlx{camel(group)}Attrs'
        out += ['typedef struct', '{', *(f'  {a.member}{a.field};' for a in members.values()), f'}} {struct};', '',
                f'static inline const {struct} *', f'rlx_{group}_attrs (const RlxIrNode *node)', '{',
                f'  return rlx_ir_node_get_attrs (node, RLX_ATTRS_ID_{group.upper()});', '}', '']
    out += ['/* Attributes of a new node: RLX_CONV_ATTRS (.groups = 2) has the defaults but for that. */']
    out += [f'#define RLX_{op.name.upper()}_ATTRS(...) (&(const {op.attrs_type}) {{ {defaults(op)}{", " if defaults(op) else ""}__VA_ARGS__ }})'
            for op in ops if op.attrs]
    out += ['', '/* ---- operands ---- */', '']
    for name, names in operands(ops):
        out += ['enum', '{', *(f'  RLX_{name.upper()}_{i.upper()},' for i in names), '};', '']
    out += ['/* ---- what is written by hand ---- */', '']
    for op in rules([op for op in ops if op.ruled]):
        attrs = f'const {op.attrs_type} *attrs, ' if rule_attrs(op, groups) else ''
        out.append(f'gboolean rlx_{op.rule}_infer (RlxOpCall *call, {attrs}GError **error);')
    for op in rules([op for op in ops if op.lowered]):
        out.append(f'gboolean rlx_{op.rule}_lower (RlxLower *lower, const RlxIrNode *node, GError **error);')
    out += [f'extern const RlxVariants rlx_{name}_variants;' for name in sorted({op.variants for op in ops if op.variants})]
    for op in rules([op for op in ops if op.expand]):
        out.append(f'RlxIrValue *rlx_{op.rule}_expand (RlxBuilder *b, const RlxIrNode *node, RlxIrValue *const *inputs);')
    out += [f'void {name} (RlxGradient *self, const RlxIrNode *node);'
            for name in sorted({gradient_function(op) for op in ops if op.gradient not in (None, 'zero')})]
    out += ['', '/* ---- making nodes: see ops/rlx-builder-private.h ---- */', '']
    for op in ops:
        if op.ruled:
            out += [build_signature(op) + ';', '']
    out += ['G_END_DECLS', '']
    return '\n'.join(out)


def build_c(ops):
    out = [head(), '#include "config.h"', '#include "ops/rlx-builder-private.h"', '']
    for op in ops:
        if not op.ruled:
            continue
        out += [build_signature(op), '{']
        if op.variadic:
            inputs = 'inputs, n_inputs'
        else:
            out += [f'  RlxIrValue *inputs[] = {{ {", ".join(i["name"] for i in op.inputs)} }};', '']
            inputs = 'inputs, G_N_ELEMENTS (inputs)'
        out += [f'  return rlx_builder_append{"" if op.many else "_one"} (b, &rlx_op_{op.name}, {inputs}, {"attrs" if op.attrs else "NULL"});', '}', '']
    return '\n'.join(out)


# ---- gradients ----------------------------------------------------------------

def gradient_function(op):
    if op.gradient == 'expand':
        return 'rlx_gradient_expand'
    return f'rlx_{op.name if isinstance(op.gradient, list) else op.rule}_gradient'


class GradientExpression:
    """Turns an expression of a row into calls of the builder, one per line, so that nodes always have the same order."""

    OPERATORS = {ast.Add: 'add', ast.Sub: 'sub', ast.Mult: 'mul', ast.Div: 'div', ast.BitAnd: 'logical_and', ast.BitOr: 'logical_or',
                 ast.USub: 'neg', ast.Eq: 'equal', ast.NotEq: 'not_equal', ast.Lt: 'less', ast.LtE: 'less_equal', ast.Gt: 'greater',
                 ast.GtE: 'greater_equal'}

    def __init__(self, op, ops):
        self.op, self.ops, self.lines = op, ops, []
        self.names = dict(zip('abc', (f'node->inputs[{i}]' for i in range(len(op.inputs)))))
        self.names |= {'g': 'g', 'y': '&node->outputs[0]'}

    def call(self, name, arguments):
        if name not in self.ops or not self.ops[name].elementwise:
            sys.exit(f'{self.op.name}: its gradient has {name}, which is no element-wise operator')
        result = f't{len(self.lines)}'
        attrs = ', NULL' if self.ops[name].attrs else ''
        self.lines.append(f'RlxIrValue *{result} = rlx_build_{name} (b, {", ".join(arguments)}{attrs});')
        return result

    def number(self, value):
        result = f't{len(self.lines)}'
        self.lines.append(f'RlxIrValue *{result} = rlx_build_number (b, g, {value});')
        return result

    def visit(self, tree):
        if isinstance(tree, ast.Constant):
            return self.number(c_inf(tree.value))
        if isinstance(tree, ast.Name):
            if tree.id not in self.names:
                attr = next((a for a in self.op.attrs if a.name == tree.id), None)
                if attr is None:
                    sys.exit(f'{self.op.name}: its gradient has {tree.id}, which is no operand and no attribute')
                self.names[tree.id] = self.number(f'rlx_{self.op.group}_attrs (node)->{attr.field}')
            return self.names[tree.id]
        if isinstance(tree, ast.UnaryOp):
            if isinstance(tree.operand, ast.Constant):
                return self.number(c_inf(-tree.operand.value))
            return self.call(self.OPERATORS[type(tree.op)], [self.visit(tree.operand)])
        if isinstance(tree, ast.BinOp):
            return self.call(self.OPERATORS[type(tree.op)], [self.visit(tree.left), self.visit(tree.right)])
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            return self.call(self.OPERATORS[type(tree.ops[0])], [self.visit(tree.left), self.visit(tree.comparators[0])])
        if isinstance(tree, ast.Call):
            return self.call(tree.func.id, [self.visit(argument) for argument in tree.args])
        sys.exit(f'{self.op.name}: its gradient has {ast.unparse(tree)}, which nobody understands')

    def translate(self, text):
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign):
                self.names[statement.targets[0].id] = self.visit(statement.value)
            else:
                return self.visit(statement.value)
        return sys.exit(f'{self.op.name}: its gradient has no value')


def gradient_c(ops):
    out = [head(), '#include "config.h"', '#include "ops/rlx-gradient-private.h"', '']
    known = {op.name: op for op in ops}
    for op in ops:
        if not isinstance(op.gradient, list):
            continue
        rule = []
        for index, text in enumerate(op.gradient):
            if not text:
                continue
            expression = GradientExpression(op, known)
            result = expression.translate(text)
            rule += [f'  if (rlx_gradient_wants (self, node, {index}))', '    {', *(f'      {line}' for line in expression.lines),
                     f'      rlx_gradient_add (self, node, {index}, {result});', '    }']
        out += ['void', f'{gradient_function(op)} (RlxGradient *self, const RlxIrNode *node)', '{',
                *(['  RlxBuilder *b = rlx_gradient_get_builder (self);'] if any('(b, ' in line for line in rule) else []),
                '  RlxIrValue *g = rlx_gradient_get (self, node, 0);', '', *rule, '}', '']
    return '\n'.join(out)


def snake(camel):
    out = ''
    for c in camel:
        out += ('_' + c.lower()) if c.isupper() else c
    return out.lstrip('_')


def enum_getter(enum):
    return snake(enum) + '_get_type'


def enum_value(enum, nick):
    return f'{snake(enum).upper()}_{nick.upper().replace("-", "_")}'


# ---- methods --------------------------------------------------------------

def parameters(op):
    """(C declaration, name, doc) of each parameter."""
    out = []
    inputs = list(op.inputs)
    if op.variadic:
        out.append(('RlxGraph *', 'self', 'a graph'))
        out.append(('RlxNode **', 'inputs', '(array length=n_inputs): the operands'))
        out.append(('gsize ', 'n_inputs', 'the number of @inputs'))
    else:
        for i in inputs:
            mark = '(nullable): ' if i['optional'] else ''
            what = 'the first operand' if i['name'] == 'self' and len(inputs) > 1 else 'the operand' if i['name'] == 'self' else f'the {i["name"].replace("_", " ")}'
            out.append(('RlxNode *', i['name'], mark + what))
    for a in op.required:
        if a.type == 'ints':
            out.append(('const gint64 *', a.name, f'(array length=n_{a.name}): {a.doc}'))
            out.append(('gsize ', f'n_{a.name}', f'the number of @{a.name}'))
        else:
            out.append((a.c_type + ('' if a.c_type.endswith('*') else ' '), a.name, a.doc))
    if op.options:
        out.append((op.options_class + ' *', 'options', '(nullable): options, or %NULL for the defaults'))
    if op.many:
        out.append(('gsize *', 'n_outputs', '(out) (optional): the number of nodes returned'))
    out.append(('GError **', 'error', None))
    return out


def method_name(op):
    return f'rlx_{"graph" if op.variadic else "node"}_{op.name}'


def signature(op):
    params = parameters(op)
    ret = 'RlxNode **' if op.many else 'RlxNode *'
    name = method_name(op)
    pad = ' ' * (len(name) + 2)
    body = (',\n' + pad).join(f'{t}{n}' for t, n, _ in params)
    return f'{ret}\n{name} ({body})'


def method_doc(op):
    out = ['/**', f' * {method_name(op)}:']
    for _, name, doc in parameters(op):
        if doc is not None:
            out.append(f' * @{name}: {doc}')
    out += [' *', f' * {op.summary}']
    if op.formula:
        out += [' *', f' *     {op.formula}']
    if op.doc:
        out += [' *', ' * ' + op.doc.replace('\n', '\n * ')]
    if op.checked and not op.checked.startswith('nothing'):
        out += [' *', f' * With [property@Rlx.CompileOptions:checked], a run fails at {op.checked}.']
    what = 'the results' if op.many else 'the result'
    annotation = '(array length=n_outputs) (transfer container) (nullable)' if op.many else '(transfer none) (nullable)'
    out += [' *', f' * Returns: {annotation}: {what}; %NULL with @error set on',
            ' *   failure, and %NULL alone when an operand is %NULL', ' *', f' * Since: {op.since}', ' */']
    return '\n'.join(out)


def methods_h(ops):
    out = [head(), '#pragma once', '', '#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)',
           '#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."', '#endif', '',
           '#include <rlx-wgpu/rlx-types.h>', '#include <rlx-wgpu/rlx-op-options.h>', '', 'G_BEGIN_DECLS', '']
    for op in ops:
        if not op.ruled:
            continue
        out += [available(op), signature(op) + ';', '']
    out += ['G_END_DECLS', '']
    return '\n'.join(out)


def methods_c(ops):
    out = [head(), '#include "config.h"', '#include "rlx-op-methods.h"', '#include "rlx-op-options-private.h"',
           '#include "rlx-graph-private.h"', '#include "rlx-op-vocabulary-private.h"', '']
    for op in ops:
        if not op.ruled:
            continue
        out += [method_doc(op), signature(op), '{']
        if op.attrs:
            base = f'rlx_op_options_get_attrs ((GObject *) options, &rlx_op_{op.name})' if op.options else f'rlx_attrs_new (&rlx_op_{op.name})'
            out.append(f'  {op.attrs_type} *attrs = {base};')
            out.append('')
            for a in op.required:
                if a.type == 'ints':
                    out.append(f'  rlx_ints_set (&attrs->{a.field}, {a.name}, n_{a.name});')
                elif a.type == 'string':
                    out.append(f'  rlx_attr_set_string (&rlx_op_{op.name}.attrs[{op.attrs.index(a)}], attrs, {a.name});')
                else:
                    out.append(f'  attrs->{a.field} = {a.name}{" != FALSE" if a.type == "bool" else ""};')
        attrs = 'attrs' if op.attrs else 'NULL'
        n_out = 'n_outputs' if op.many else 'NULL'
        call = 'rlx_graph_call_many' if op.many else 'rlx_graph_call'
        if op.variadic:
            out.append(f'  return {call} (self, &rlx_op_{op.name}, inputs, n_inputs, {attrs}, {n_out + ", " if op.many else ""}error);')
        else:
            names = ', '.join(i['name'] for i in op.inputs)
            out.append(f'  RlxNode *inputs[] = {{ {names} }};')
            out.append('')
            out.append(f'  return {call} (NULL, &rlx_op_{op.name}, inputs, G_N_ELEMENTS (inputs), {attrs}, {n_out + ", " if op.many else ""}error);')
        out += ['}', '']
    return '\n'.join(out)


# ---- option objects ---------------------------------------------------------

def options_h(ops):
    out = [head(), '#pragma once', '', '#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)',
           '#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."', '#endif', '',
           '#include <rlx-wgpu/rlx-types.h>', '', 'G_BEGIN_DECLS', '']
    for op in ops:
        if not op.options or op.internal:
            continue
        cls, prefix = op.options_class, op.options_prefix
        upper = f'{op.name.upper()}_OPTIONS'
        out += [f'#define RLX_TYPE_{upper} ({prefix}_get_type ())', available(op),
                f'G_DECLARE_FINAL_TYPE ({cls}, {prefix}, RLX, {upper}, GObject)', '',
                available(op), f'{cls} *\n{prefix}_new (void) G_GNUC_WARN_UNUSED_RESULT;', '']
        for a in op.options:
            if a.type == 'ints':
                out += [available(a), f'const gint64 *\n{prefix}_get_{a.name} ({cls} *self, gsize *n_values);', '',
                        available(a), f'void\n{prefix}_set_{a.name} ({cls} *self, const gint64 *values, gsize n_values);', '']
            else:
                out += [available(a), f'{a.c_type}\n{prefix}_get_{a.name} ({cls} *self);', '',
                        available(a), f'void\n{prefix}_set_{a.name} ({cls} *self, {a.c_type} {a.name});', '']
    out += ['G_END_DECLS', '']
    return '\n'.join(out)


def param_spec(a):
    flags = 'G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY'
    name = f'"{a.prop}", NULL, NULL'
    if a.enum:
        return f'g_param_spec_enum ({name}, {enum_getter(a.enum)} (), {enum_value(a.enum, a.default)}, {flags})'
    if a.type == 'data_type':
        return f'g_param_spec_enum ({name}, RLX_TYPE_DATA_TYPE, {enum_value("RlxDataType", a.default)}, {flags})'
    if a.type == 'bool':
        return f'g_param_spec_boolean ({name}, {"TRUE" if a.default else "FALSE"}, {flags})'
    if a.type == 'ints':
        initial = f'g_variant_new_parsed ("@ax {a.default}")' if a.default else 'NULL'
        return f'g_param_spec_variant ({name}, G_VARIANT_TYPE ("ax"), {initial}, {flags})'
    if a.type == 'int':
        return f'g_param_spec_int64 ({name}, G_MININT64, G_MAXINT64, {a.default}, {flags})'
    return f'g_param_spec_double ({name}, -INFINITY, INFINITY, {c_inf(a.default)}, {flags})'


def options_c(ops):
    out = [head(), '#include "config.h"', '#include <math.h>', '#include "rlx-enum-types.h"', '#include "rlx-op-options.h"',
           '#include "rlx-op-options-private.h"', '#include "rlx-op-vocabulary-private.h"', '']
    for op in ops:
        if not op.options or op.internal:
            continue
        cls, prefix = op.options_class, op.options_prefix
        out += ['/**', f' * {cls}:', ' *',
                f' * Options of [method@Rlx.{"Graph" if op.variadic else "Node"}.{op.name}].', ' *', f' * Since: {op.since}', ' */',
                f'struct _{cls}', '{', '  GObject parent_instance;', f'  {op.attrs_type} *attrs;', '};', '',
                f'G_DEFINE_FINAL_TYPE ({cls}, {prefix}, G_TYPE_OBJECT)', '',
                'static void', f'{prefix}_finalize (GObject *object)', '{',
                f'  {cls} *self = ({cls} *) object;', '',
                f'  rlx_attrs_free (&rlx_op_{op.name}, self->attrs);',
                f'  G_OBJECT_CLASS ({prefix}_parent_class)->finalize (object);', '}', '',
                'static void', f'{prefix}_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)', '{',
                f'  rlx_op_options_get_property ((({cls} *) object)->attrs, &rlx_op_{op.name}, id - 1, value);', '}', '',
                'static void', f'{prefix}_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)', '{',
                f'  if (rlx_op_options_set_property ((({cls} *) object)->attrs, &rlx_op_{op.name}, id - 1, value))',
                '    g_object_notify_by_pspec (object, pspec);', '}', '',
                'static void', f'{prefix}_class_init ({cls}Class *klass)', '{',
                '  GObjectClass *object_class = G_OBJECT_CLASS (klass);', '',
                f'  object_class->finalize = {prefix}_finalize;', f'  object_class->get_property = {prefix}_get_property;',
                f'  object_class->set_property = {prefix}_set_property;', '']
        for a in op.options:
            what = ['   *', '   * A variant of type `ax`, numbers of 64 bits.'] if a.type == 'ints' else []
            out += ['  /**', f'   * {cls}:{a.prop}:', '   *', f'   * {a.doc[0].upper() + a.doc[1:]}.', *what, '   *', f'   * Since: {a.since}', '   */',
                    f'  g_object_class_install_property (object_class, {op.attrs.index(a) + 1},', f'    {param_spec(a)});']
        out += ['}', '', 'static void', f'{prefix}_init ({cls} *self)', '{',
                f'  self->attrs = rlx_attrs_new (&rlx_op_{op.name});', '}', '',
                '/**', f' * {prefix}_new:', ' *', ' * Makes options that have the default values.', ' *', ' * Returns: (transfer full): new options', ' *', f' * Since: {op.since}', ' */',
                f'{cls} *', f'{prefix}_new (void)', '{', f'  return g_object_new ({prefix}_get_type (), NULL);', '}', '']
        for a in op.options:
            index = op.attrs.index(a)
            check = f'RLX_IS_{op.name.upper()}_OPTIONS (self)'
            doc = a.doc
            if a.type == 'ints':
                out += ['/**', f' * {prefix}_get_{a.name}:', ' * @self: options', ' * @n_values: (out): the number of values', ' *',
                        f' * Gets {doc}.', ' *', ' * Returns: (array length=n_values) (transfer none) (nullable): the values', ' *', f' * Since: {a.since}', ' */',
                        'const gint64 *', f'{prefix}_get_{a.name} ({cls} *self, gsize *n_values)', '{',
                        f'  g_return_val_if_fail ({check}, NULL);', '  g_return_val_if_fail (n_values != NULL, NULL);', '',
                        f'  *n_values = self->attrs->{a.field}.n_values;', f'  return self->attrs->{a.field}.values;', '}', '',
                        '/**', f' * {prefix}_set_{a.name}:', ' * @self: options', ' * @values: (array length=n_values): the values', ' * @n_values: the number of @values', ' *',
                        f' * Sets {doc}.', ' *', f' * Since: {a.since}', ' */',
                        'void', f'{prefix}_set_{a.name} ({cls} *self, const gint64 *values, gsize n_values)', '{',
                        f'  g_return_if_fail ({check});', '  g_return_if_fail (values != NULL || n_values == 0);', '',
                        f'  if (rlx_attr_set_ints (&rlx_op_{op.name}.attrs[{index}], self->attrs, values, n_values))',
                        f'    g_object_notify (G_OBJECT (self), "{a.prop}");', '}', '']
            else:
                zero = '0.0' if a.type == 'float' else 'FALSE' if a.type == 'bool' else '0'
                out += ['/**', f' * {prefix}_get_{a.name}: (get-property {a.prop})', ' * @self: options', ' *', f' * Gets the value of [property@Rlx.{cls[3:]}:{a.prop}].', ' *',
                        ' * Returns: the value', ' *', f' * Since: {a.since}', ' */',
                        a.c_type, f'{prefix}_get_{a.name} ({cls} *self)', '{',
                        f'  g_return_val_if_fail ({check}, {zero});', '', f'  return self->attrs->{a.field};', '}', '',
                        '/**', f' * {prefix}_set_{a.name}: (set-property {a.prop})', ' * @self: options', f' * @{a.name}: {doc}', ' *',
                        f' * Sets the value of [property@Rlx.{cls[3:]}:{a.prop}].', ' *', f' * Since: {a.since}', ' */',
                        'void', f'{prefix}_set_{a.name} ({cls} *self, {a.c_type} {a.name})', '{',
                        f'  g_return_if_fail ({check});', '',
                        f'  if (rlx_attr_set_{"float" if a.type == "float" else "int"} (&rlx_op_{op.name}.attrs[{index}], self->attrs, {a.name}))',
                        f'    g_object_notify (G_OBJECT (self), "{a.prop}");', '}', '']
    out += ['gpointer', 'rlx_op_options_get_attrs (GObject *options, const RlxOp *op)', '{',
            '  if (options == NULL)', '    return rlx_attrs_new (op);']
    for op in ops:
        if op.options and not op.internal:
            out += [f'  if (op == &rlx_op_{op.name} && RLX_IS_{op.name.upper()}_OPTIONS (options))',
                    f'    return rlx_attrs_copy (op, (({op.options_class} *) options)->attrs);']
    out += ['  g_return_val_if_reached (rlx_attrs_new (op));', '}', '']
    return '\n'.join(out)


# ---- the manual -------------------------------------------------------------

def type_words(op):
    out = []
    for i in op.inputs:
        name = i['name'].replace('_', ' ') if i['name'] != 'self' else 'first operand' if len(op.inputs) > 1 else 'operand'
        if i['same'] >= 0:
            words = 'as the ' + ('first operand' if i['same'] == 0 else op.inputs[i['same']]['name'].replace('_', ' '))
        else:
            words = ' or '.join(TYPE_WORDS[t] for t in i['types'].split('|'))
        extra = ' (optional)' if i['optional'] else ' (any number)' if i['variadic'] else ''
        out.append(f'{name}{extra}: {words}')
    return '; '.join(out)


def example(op):
    args = [i['name'] for i in op.inputs if i['name'] != 'self' and not i['variadic'] and not i['optional']]
    # after optional operands, arguments are named
    named = any(i['optional'] for i in op.inputs)
    args += [(f'{a.name}=' if named else '') + (f"'{a.doc.split('`')[1]}'" if a.type == 'string' else a.name) for a in op.required]
    result = 'results' if op.many else 'y'
    if op.variadic:
        return f'{result} = graph.{op.name}([a, b], ' + ', '.join(args) + ')'
    return f'{result} = x.{op.name}(' + ', '.join(args) + ')'


def owner(op):
    return 'Graph' if op.variadic or op.leaf else 'Node'


def manual(ops, enums):
    out = ['Title: Operators', 'Slug: operators', '',
           'Every operator there is, by family. The examples are in Python; every language has the same names.',
           'Operands of element-wise operators broadcast as in NumPy. Negative axes count from the end.', '',
           'Operands and attributes without a default are arguments of the method. Attributes that have a default are',
           'properties of an object of options, the last argument, which may be left out (`NULL` in C). In Python they are',
           'keyword arguments. What the error bounds mean is in [Numerics](numerics.html).', '']
    family = None
    for op in ops:
        if op.internal:
            continue
        if op.family != family:
            family = op.family
            out += [f'## {family}', '']
        out += [f'### {op.name}', '', op.summary + (' ' + op.doc if op.doc else ''), '']
        if op.formula:
            out += [f'    {op.formula}', '']
        out += [f'- Method: [method@Rlx.{owner(op)}.{op.name}]' +
                (f'; options: [class@Rlx.{op.options_class[3:]}]' if op.options else '')]
        if op.inputs:
            out += [f'- Types: {type_words(op)}' + ('; the result is bool' if op.bool_result else '')]
        for a in op.attrs:
            default = '' if a.required else f', default {str(a.default).lower() if a.type == "bool" else a.default}'
            out += [f'- `{a.name}` ({"enum" if a.enum else a.type}{default}): {a.doc}' + ('' if a.since == op.since else f' (since {a.since})')]
            out += [f'    - `{nick}`: {doc}' for nick, doc in enums[a.enum]] if a.enum else []
        if not op.leaf:
            out += [f'- Error bound: {op.bound}']
            if op.subnormals:
                out += [f'- Subnormal numbers: {op.subnormals}']
            if op.checked:
                out += [f'- [Checked](debugging.html#checked-runs): {op.checked}']
            out += [f'- Gradient: {"none, since " + op.no_gradient if op.no_gradient else "zero" if op.gradient == "zero" else "yes"}']
            out += [f'- Since: {op.since}', f'- For example: `{op.name}{op.shapes}`', '', '```python', example(op), '```']
        out.append('')
    return '\n'.join(out)


# ---- Vala -------------------------------------------------------------------

def metadata(ops):
    """Defaults of optional operands that no required argument follows, and of options. Also, lists are variants only as
    properties, and arrays of constants have their C type, or the C compiler would warn about Vala's code."""
    out = ['', '// From the op table.']
    for op in [op for op in ops if not op.internal]:
        for i in [] if op.required or op.variadic else op.inputs:
            if i['optional']:
                out.append(f'Node.{op.name}.{i["name"]} default=null')
        if op.options:
            out.append(f'{owner(op)}.{op.name}.options default=null')
        out += [f'{op.options_class[3:]}.{a.name}#property no_accessor_method' for a in op.options if a.type == 'ints']
    out += [f'*Options.get_{name} ctype="const gint64 *"' for name in sorted({a.name for op in ops if not op.internal for a in op.options if a.type == 'ints'})]
    return '\n'.join(out) + '\n'


def main():
    what, path, *files = sys.argv[1:]
    if what == 'metadata':
        # the part written by hand comes first
        hand, *files = files
        with open(hand, encoding='utf-8') as stream:
            text = stream.read() + metadata(load(files))
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(text)
        return
    headers = [name for name in files if name.endswith('.h')]
    ops = load([name for name in files if name not in headers])
    if what in ('table', 'manual'):
        text = {'table': table, 'manual': manual}[what](ops, load_enums(headers))
    else:
        text = {'vocabulary.h': vocabulary_h, 'build.c': build_c, 'gradient.c': gradient_c, 'methods.h': methods_h, 'methods.c': methods_c,
                'options.h': options_h, 'options.c': options_c}[what](ops)
    with open(path, 'w', encoding='utf-8') as stream:
        stream.write(text)


if __name__ == '__main__':
    main()
