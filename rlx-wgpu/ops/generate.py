#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Turns the op table (*.toml) into C, headers, the manual's operator page and what Vala has to know.

    generate.py table|methods.c|methods.h|options.c|options.h|manual|metadata OUTPUT TOML...

A row:
    [op.NAME]
    summary, doc, formula, bound     text for the manual and the methods
    inputs = ["self:number", "other:same", "bias?:same", "inputs*:any"]
             name, ? optional, * repeats; type set or `same` (as the first
             input) or `sameN` (as input N)
    attrs.NAME = { type = bool|int|float|ints|string|dtype|enum:RlxName, default, doc }
             without default it is required and an argument of the method;
             with one it is a property of the RlxNameOptions object; a
             string has none
    outputs = 1 (default) or "many"
    rule = which rlx_RULE_infer and rlx_RULE_lower in C; default NAME
    expand = "always" or "sometimes"   it becomes other operators when it is
             compiled, by rlx_RULE_expand in C; always: it has no lowering
    f, i, u, b, result               element-wise only, see elementwise.toml
"""
import math
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
    'signed': 'f32, f16, i32, i8, i64', 'bool': 'bool', 'any': 'every type but i4 and u4', 'index': 'i32, u32, i8, u8, i64, u64',
    'stored': 'every type', 'quantized': 'i8, u8, i4, u4, i32', 'f32': 'f32', 'f16': 'f16', 'i32': 'i32', 'byte': 'i8, u8',
}
C_TYPES = {'bool': 'gboolean', 'int': 'gint64', 'float': 'double', 'dtype': 'RlxDataType', 'string': 'const char *'}
KINDS = {'bool': 'BOOL', 'int': 'INT', 'float': 'FLOAT', 'dtype': 'DATA_TYPE', 'ints': 'INTS', 'string': 'STRING'}
LICENSE = ('SPDX-FileCopyrightText: The rlx-wgpu authors', 'SPDX-License-Identifier: LGPL-2.1-or-later')


class Attr:
    def __init__(self, name, row):
        self.name = name
        self.type = row['type']
        self.enum = self.type[5:] if self.type.startswith('enum:') else None
        self.required = 'default' not in row
        self.default = row.get('default')
        if self.type == 'string' and not self.required:
            sys.exit(f'{name}: a string has no default')
        self.doc = row['doc']

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
        self.summary = row['summary']
        self.doc = row.get('doc', '')
        self.formula = row.get('formula')
        self.bound = row.get('bound', 'exact')
        self.rule = row.get('rule', file.get('rule', name))
        self.exprs = {k: row.get(k) for k in 'fiub'}
        self.elementwise = any(self.exprs.values())
        self.bool_result = row.get('result') == 'bool'
        self.many = row.get('outputs') == 'many'
        self.expand = row.get('expand')
        self.lowered = not self.leaf and not self.elementwise and self.expand != 'always'
        self.inputs = []
        for text in row['inputs']:
            label, types = text.split(':')
            same = -1
            if types.startswith('same'):
                same = int(types[4:] or 0)
            self.inputs.append({'name': label.rstrip('?*'), 'optional': label.endswith('?'),
                                'variadic': label.endswith('*'), 'types': types, 'same': same})
        self.variadic = bool(self.inputs) and self.inputs[-1]['variadic']
        self.attrs = [Attr(n, r) for n, r in row.get('attrs', {}).items()]
        self.required = [a for a in self.attrs if a.required]
        self.options = [a for a in self.attrs if not a.required]

    @property
    def camel(self):
        return ''.join(w.capitalize() for w in self.name.split('_'))

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
        return ' | '.join(out) or '0'


def load(paths):
    ops = []
    for path in paths:
        with open(path, 'rb') as stream:
            file = tomllib.load(stream)
        ops += [Op(name, row, file) for name, row in file['op'].items()]
    names = [op.name for op in ops]
    if len(set(names)) != len(names):
        sys.exit('an operator has two rows: ' + ', '.join(sorted({n for n in names if names.count(n) > 1})))
    return ops


def quote(text):
    if text is None:
        return 'NULL'
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', ' ') + '"'


def c_inf(value):
    """A double constant that compilers and the scanner take."""
    if math.isinf(value):
        return 'INFINITY' if value > 0 else '-INFINITY'
    return repr(float(value))


def head():
    return f'/* {LICENSE[0]}\n * {LICENSE[1]}\n *\n * Generated from the op table by generate.py: do not edit.\n */\n'


# ---- the table ------------------------------------------------------------

def table(ops):
    out = [head(), '#include "config.h"', '#include <math.h>', '#include "ops/rlx-op-private.h"', '#include "rlx-enum-types.h"', '']
    for rule in sorted({op.rule for op in ops if not op.leaf}):
        out.append(f'gboolean rlx_{rule}_infer (RlxOpCall *call, GError **error);')
    for rule in sorted({op.rule for op in ops if op.lowered}):
        out.append(f'gboolean rlx_{rule}_lower (RlxLower *lower, const RlxIrNode *node, GError **error);')
    for rule in sorted({op.rule for op in ops if op.expand}):
        out.append(f'RlxIrValue *rlx_{rule}_expand (RlxExpand *expand, GError **error);')
    for op in ops:
        out.append('')
        if op.inputs:
            out.append(f'static const RlxInputDef {op.name}_inputs[] = {{')
            for i in op.inputs:
                first = op.inputs[i['same']] if i['same'] >= 0 else i
                types = ' | '.join(TYPE_SETS[t] for t in first['types'].split('|'))
                out.append(f'  {{ "{i["name"]}", {types}, {"TRUE" if i["optional"] else "FALSE"}, {i["same"]} }},')
            out.append('};')
        for a in op.attrs:
            if a.type == 'ints' and a.default:
                out.append(f'static const gint64 {op.name}_{a.name}[] = {{ {", ".join(map(str, a.default))} }};')
        if op.attrs:
            out.append(f'static const RlxAttrDef {op.name}_attrs[] = {{')
            for a in op.attrs:
                i = f = '0'
                ints, n_ints = 'NULL', 0
                if not a.required:
                    if a.type == 'float':
                        f = c_inf(a.default)
                    elif a.type == 'ints':
                        if a.default:
                            ints, n_ints = f'{op.name}_{a.name}', len(a.default)
                    elif a.enum:
                        i = enum_value(a.enum, a.default)
                    elif a.type == 'dtype':
                        i = enum_value('RlxDataType', a.default)
                    elif a.type == 'bool':
                        i = 'TRUE' if a.default else 'FALSE'
                    else:
                        i = str(a.default)
                getter = enum_getter(a.enum) if a.enum else 'NULL'
                out.append(f'  {{ "{a.name}", RLX_ATTR_{a.kind}, {"TRUE" if a.required else "FALSE"}, {i}, {f}, {ints}, {n_ints}, {getter},')
                out.append(f'    {quote(a.doc)} }},')
            out.append('};')
        infer = 'NULL' if op.leaf else f'rlx_{op.rule}_infer'
        lower = f'rlx_{op.rule}_lower' if op.lowered else 'NULL'
        out += [f'const RlxOp rlx_op_{op.name} = {{',
                f'  .name = "{op.name}",',
                f'  .family = {quote(op.family)},',
                f'  .summary = {quote(op.summary)},',
                f'  .formula = {quote(op.formula)},',
                f'  .bound = {quote(op.bound)},',
                f'  .flags = {op.flags()},']
        if op.inputs:
            out += [f'  .inputs = {op.name}_inputs,', f'  .n_inputs = {len(op.inputs)},']
        if op.attrs:
            out += [f'  .attrs = {op.name}_attrs,', f'  .n_attrs = {len(op.attrs)},']
        out += [f'  .infer = {infer},', f'  .lower = {lower},']
        if op.expand:
            out.append(f'  .expand = rlx_{op.rule}_expand,')
        out += [f'  .expr_{k} = {quote(v)},' for k, v in op.exprs.items() if v]
        out.append('};')
    out += ['', 'const RlxOp *const rlx_op_table[] = {']
    out += [f'  &rlx_op_{op.name},' for op in ops]
    out += ['};', '', 'const guint rlx_n_ops = G_N_ELEMENTS (rlx_op_table);', '']
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

def parameters(op, full, error=True):
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
    if full:
        out.append((op.options_class + ' *', 'options', '(nullable): options, or %NULL for the defaults'))
    if op.many:
        out.append(('gsize *', 'n_outputs', '(out) (optional): the number of nodes returned'))
    out.append(('GError **', 'error', None))
    return out


def method_name(op, full):
    return f'rlx_{"graph" if op.variadic else "node"}_{op.name}{"_full" if full else ""}'


def signature(op, full, semicolon):
    params = parameters(op, full)
    ret = 'RlxNode **' if op.many else 'RlxNode *'
    name = method_name(op, full)
    pad = ' ' * (len(name) + 2)
    body = (',\n' + pad).join(f'{t}{n}' for t, n, _ in params)
    return f'{ret}\n{name} ({body})' + (';' if semicolon else '')


def method_doc(op, full):
    out = ['/**', f' * {method_name(op, full)}:']
    for _, name, doc in parameters(op, full):
        if doc is not None:
            out.append(f' * @{name}: {doc}')
    out += [' *', f' * {op.summary}']
    if op.formula:
        out += [' *', f' *     {op.formula}']
    if op.doc:
        out += [' *', ' * ' + op.doc.replace('\n', '\n * ')]
    if full:
        out += [' *', f' * As [method@Rlx.{"Graph" if op.variadic else "Node"}.{op.name}], with options.']
    what = 'the results' if op.many else 'the result'
    annotation = '(array length=n_outputs) (transfer container) (nullable)' if op.many else '(transfer none) (nullable)'
    out += [' *', f' * Returns: {annotation}: {what}; %NULL with @error set on',
            ' *   failure, and %NULL alone when an operand is %NULL', ' *', ' * Since: 1.0', ' */']
    return '\n'.join(out)


def methods_h(ops):
    out = [head(), '#pragma once', '', '#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)',
           '#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."', '#endif', '',
           '#include <rlx-wgpu/rlx-types.h>', '#include <rlx-wgpu/rlx-op-options.h>', '', 'G_BEGIN_DECLS', '']
    for op in ops:
        if op.leaf:
            continue
        for full in ([False, True] if op.options else [False]):
            out += ['RLX_API', signature(op, full, True), '']
    out += ['G_END_DECLS', '']
    return '\n'.join(out)


def methods_c(ops):
    out = [head(), '#include "config.h"', '#include "rlx-op-methods.h"', '#include "rlx-op-options-private.h"',
           '#include "rlx-graph-private.h"', '#include "ops/rlx-op-private.h"', '']
    for op in ops:
        if op.leaf:
            continue
        out.append(f'extern const RlxOp rlx_op_{op.name};')
    out.append('')
    for op in ops:
        if op.leaf:
            continue
        for full in ([False, True] if op.options else [False]):
            out += [method_doc(op, full), signature(op, full, False), '{']
            if op.attrs:
                base = f'rlx_op_options_get_attrs ((GObject *) options, &rlx_op_{op.name})' if full else f'rlx_attrs_new (&rlx_op_{op.name})'
                out.append(f'  RlxAttrValue *attrs = {base};')
                out.append('')
                for a in op.required:
                    index = op.attrs.index(a)
                    if a.type == 'ints':
                        out.append(f'  rlx_attr_set_ints (&attrs[{index}], {a.name}, n_{a.name});')
                    elif a.type in ('float', 'string'):
                        out.append(f'  rlx_attr_set_{a.type} (&attrs[{index}], {a.name});')
                    else:
                        out.append(f'  rlx_attr_set_int (&attrs[{index}], {a.name});')
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
        if not op.options:
            continue
        cls, prefix = op.options_class, op.options_prefix
        upper = f'{op.name.upper()}_OPTIONS'
        out += [f'#define RLX_TYPE_{upper} ({prefix}_get_type ())', 'RLX_API',
                f'G_DECLARE_FINAL_TYPE ({cls}, {prefix}, RLX, {upper}, GObject)', '',
                'RLX_API', f'{cls} *\n{prefix}_new (void) G_GNUC_WARN_UNUSED_RESULT;', '']
        for a in op.options:
            if a.type == 'ints':
                out += ['RLX_API', f'const gint64 *\n{prefix}_get_{a.name} ({cls} *self, gsize *n_values);', '',
                        'RLX_API', f'void\n{prefix}_set_{a.name} ({cls} *self, const gint64 *values, gsize n_values);', '']
            else:
                out += ['RLX_API', f'{a.c_type}\n{prefix}_get_{a.name} ({cls} *self);', '',
                        'RLX_API', f'void\n{prefix}_set_{a.name} ({cls} *self, {a.c_type} {a.name});', '']
    out += ['G_END_DECLS', '']
    return '\n'.join(out)


def param_spec(a):
    flags = 'G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY'
    name = f'"{a.prop}", NULL, NULL'
    if a.enum:
        return f'g_param_spec_enum ({name}, {enum_getter(a.enum)} (), {enum_value(a.enum, a.default)}, {flags})'
    if a.type == 'dtype':
        return f'g_param_spec_enum ({name}, RLX_TYPE_DATA_TYPE, {enum_value("RlxDataType", a.default)}, {flags})'
    if a.type == 'bool':
        return f'g_param_spec_boolean ({name}, {"TRUE" if a.default else "FALSE"}, {flags})'
    if a.type == 'int':
        return f'g_param_spec_int64 ({name}, G_MININT64, G_MAXINT64, {a.default}, {flags})'
    return f'g_param_spec_double ({name}, -INFINITY, INFINITY, {c_inf(a.default)}, {flags})'


def options_c(ops):
    out = [head(), '#include "config.h"', '#include <math.h>', '#include "rlx-enum-types.h"', '#include "rlx-op-options.h"',
           '#include "rlx-op-options-private.h"', '#include "ops/rlx-op-private.h"', '']
    for op in ops:
        if not op.options:
            continue
        cls, prefix = op.options_class, op.options_prefix
        scalars = [a for a in op.options if a.type != 'ints']
        out += [f'extern const RlxOp rlx_op_{op.name};', '',
                '/**', f' * {cls}:', ' *',
                f' * Options of [method@Rlx.{"Graph" if op.variadic else "Node"}.{op.name}_full].', ' *', ' * Since: 1.0', ' */',
                f'struct _{cls}', '{', '  GObject parent_instance;', '  RlxAttrValue *attrs;', '};', '',
                f'G_DEFINE_FINAL_TYPE ({cls}, {prefix}, G_TYPE_OBJECT)', '',
                'static void', f'{prefix}_finalize (GObject *object)', '{',
                f'  {cls} *self = ({cls} *) object;', '',
                f'  rlx_attrs_free (&rlx_op_{op.name}, self->attrs);',
                f'  G_OBJECT_CLASS ({prefix}_parent_class)->finalize (object);', '}', '']
        if scalars:
            out += ['static void', f'{prefix}_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)', '{',
                    f'  rlx_op_options_get_property ((({cls} *) object)->attrs, &rlx_op_{op.name}, id - 1, value);', '}', '',
                    'static void', f'{prefix}_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)', '{',
                    f'  if (rlx_op_options_set_property ((({cls} *) object)->attrs, &rlx_op_{op.name}, id - 1, value))',
                    '    g_object_notify_by_pspec (object, pspec);', '}', '']
        out += ['static void', f'{prefix}_class_init ({cls}Class *klass)', '{',
                '  GObjectClass *object_class = G_OBJECT_CLASS (klass);', '',
                f'  object_class->finalize = {prefix}_finalize;']
        if scalars:
            out += [f'  object_class->get_property = {prefix}_get_property;', f'  object_class->set_property = {prefix}_set_property;', '']
        for a in scalars:
            out += ['  /**', f'   * {cls}:{a.prop}:', '   *', f'   * {a.doc[0].upper() + a.doc[1:]}.', '   *', '   * Since: 1.0', '   */',
                    f'  g_object_class_install_property (object_class, {op.attrs.index(a) + 1},', f'    {param_spec(a)});']
        out += ['}', '', 'static void', f'{prefix}_init ({cls} *self)', '{',
                f'  self->attrs = rlx_attrs_new (&rlx_op_{op.name});', '}', '',
                '/**', f' * {prefix}_new:', ' *', ' * Makes options that have the default values.', ' *', ' * Returns: (transfer full): new options', ' *', ' * Since: 1.0', ' */',
                f'{cls} *', f'{prefix}_new (void)', '{', f'  return g_object_new ({prefix}_get_type (), NULL);', '}', '']
        for a in op.options:
            index = op.attrs.index(a)
            check = f'RLX_IS_{op.name.upper()}_OPTIONS (self)'
            doc = a.doc
            if a.type == 'ints':
                out += ['/**', f' * {prefix}_get_{a.name}:', ' * @self: options', ' * @n_values: (out): the number of values', ' *',
                        f' * Gets {doc}.', ' *', ' * Returns: (array length=n_values) (transfer none) (nullable): the values', ' *', ' * Since: 1.0', ' */',
                        'const gint64 *', f'{prefix}_get_{a.name} ({cls} *self, gsize *n_values)', '{',
                        f'  g_return_val_if_fail ({check}, NULL);', '  g_return_val_if_fail (n_values != NULL, NULL);', '',
                        f'  *n_values = self->attrs[{index}].n_ints;', f'  return self->attrs[{index}].ints;', '}', '',
                        '/**', f' * {prefix}_set_{a.name}:', ' * @self: options', ' * @values: (array length=n_values): the values', ' * @n_values: the number of @values', ' *',
                        f' * Sets {doc}.', ' *', ' * Since: 1.0', ' */',
                        'void', f'{prefix}_set_{a.name} ({cls} *self, const gint64 *values, gsize n_values)', '{',
                        f'  g_return_if_fail ({check});', '  g_return_if_fail (values != NULL || n_values == 0);', '',
                        f'  rlx_attr_set_ints (&self->attrs[{index}], values, n_values);', '}', '']
            else:
                field = 'f' if a.type == 'float' else 'i'
                zero = '0.0' if a.type == 'float' else 'FALSE' if a.type == 'bool' else '0'
                out += ['/**', f' * {prefix}_get_{a.name}: (get-property {a.prop})', ' * @self: options', ' *', f' * Gets the value of [property@Rlx.{cls[3:]}:{a.prop}].', ' *',
                        ' * Returns: the value', ' *', ' * Since: 1.0', ' */',
                        a.c_type, f'{prefix}_get_{a.name} ({cls} *self)', '{',
                        f'  g_return_val_if_fail ({check}, {zero});', '', f'  return ({a.c_type}) self->attrs[{index}].{field};', '}', '',
                        '/**', f' * {prefix}_set_{a.name}: (set-property {a.prop})', ' * @self: options', f' * @{a.name}: {doc}', ' *',
                        f' * Sets the value of [property@Rlx.{cls[3:]}:{a.prop}].', ' *', ' * Since: 1.0', ' */',
                        'void', f'{prefix}_set_{a.name} ({cls} *self, {a.c_type} {a.name})', '{',
                        f'  g_return_if_fail ({check});', '',
                        f'  if (rlx_attr_set_{"float" if a.type == "float" else "int"} (&self->attrs[{index}], {a.name}))',
                        f'    g_object_notify (G_OBJECT (self), "{a.prop}");', '}', '']
    out += ['RlxAttrValue *', 'rlx_op_options_get_attrs (GObject *options, const RlxOp *op)', '{',
            '  if (options == NULL)', '    return rlx_attrs_new (op);']
    for op in ops:
        if op.options:
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
    # what comes after operands that are left out is named
    named = any(i['optional'] for i in op.inputs)
    args += [(f'{a.name}=' if named else '') + (f"'{a.doc.split('`')[1]}'" if a.type == 'string' else a.name) for a in op.required]
    result = 'results' if op.many else 'y'
    if op.variadic:
        return f'{result} = graph.{op.name}([a, b], ' + ', '.join(args) + ')'
    return f'{result} = x.{op.name}(' + ', '.join(args) + ')'


def owner(op):
    return 'Graph' if op.variadic or op.leaf else 'Node'


def manual(ops):
    out = ['Title: Operators', 'Slug: operators', '',
           'Every operator there is, by family. The examples are in Python; every language has the same names.',
           'Operands of element-wise operators broadcast as in NumPy. Negative axes count from the end.', '',
           'Operands and attributes without a default are arguments of the method. In C, Vala and JavaScript, attributes',
           'that have a default are properties of an object, which a second method takes; in Python they are keyword',
           'arguments. What the error bounds mean is in [Numerics](numerics.html).', '']
    family = None
    for op in ops:
        if op.family != family:
            family = op.family
            out += [f'## {family}', '']
        out += [f'### {op.name}', '', op.summary + (' ' + op.doc if op.doc else ''), '']
        if op.formula:
            out += [f'    {op.formula}', '']
        out += [f'- Method: [method@Rlx.{owner(op)}.{op.name}]' +
                (f'; with options: [method@Rlx.{owner(op)}.{op.name}_full]' if op.options else '')]
        if op.inputs:
            out += [f'- Types: {type_words(op)}' + ('; the result is bool' if op.bool_result else '')]
        for a in op.attrs:
            default = '' if a.required else f', default {str(a.default).lower() if a.type == "bool" else a.default}'
            out += [f'- `{a.name}` ({a.type}{default}): {a.doc}']
        if not op.leaf:
            out += [f'- Error bound: {op.bound}', '', '```python', example(op), '```']
        out.append('')
    return '\n'.join(out)


# ---- Vala -------------------------------------------------------------------

def metadata(ops):
    """Default values of operands that may be left out, where nothing that is required follows; and types that are arrays
    of constants in C, or the C compiler warns about Vala's code."""
    out = ['', '// From the op table.']
    for op in ops:
        for i in [] if op.required or op.variadic else op.inputs:
            if i['optional']:
                out += [f'Node.{name}.{i["name"]} default=null' for name in (op.name, op.name + '_full')[:2 if op.options else 1]]
    out += [f'*Options.get_{name} ctype="const gint64 *"' for name in sorted({a.name for op in ops for a in op.options if a.type == 'ints'})]
    return '\n'.join(out) + '\n'


def main():
    what, path, *files = sys.argv[1:]
    if what == 'metadata':
        # what is written by hand comes first
        hand, *files = files
        with open(hand, encoding='utf-8') as stream:
            text = stream.read() + metadata(load(files))
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(text)
        return
    ops = load(files)
    text = {'table': table, 'methods.h': methods_h, 'methods.c': methods_c,
            'options.h': options_h, 'options.c': options_c, 'manual': manual}[what](ops)
    with open(path, 'w', encoding='utf-8') as stream:
        stream.write(text)


if __name__ == '__main__':
    main()
