// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// The GJS override: typed arrays, promises, lists, errors, lifetime.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Rlx from 'gi://Rlx?version=1.0';

import {assert, assertEqual, assertRejects, assertThrows, collect, device, main, test} from './tap.js';

const {DataType, GraphError, Tensor} = Rlx;

const isTypeError = error => error instanceof TypeError;
const isGraphError = code => error => error instanceof GraphError && error.matches(GraphError, code) && error.code === code;
const isCancelled = error => error.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED);
// GJS itself rejects most arguments of a wrong type, with a plain Error.
const isError = error => error instanceof Error || error instanceof GLib.Error;

function small() {
    const g = new Rlx.Graph();
    return {g, x: g.input('x', DataType.F32, [2, 3])};
}

function compile(build, shape = [4]) {
    const g = new Rlx.Graph();
    g.output('y', build(g.input('x', DataType.F32, shape)));
    return device().compile(g, null);
}

// ---- typed arrays ----

const samples = {
    F32: new Float32Array([1.5, -0, Infinity, NaN, 1e-40, -2]),
    F16: new Float16Array([1.5, -0, Infinity, NaN, 65504, -2]),
    I32: new Int32Array([0, 1, -1, 2147483647, -2147483648, 5]),
    U32: new Uint32Array([0, 1, 2, 4294967295, 3, 5]),
    I8: new Int8Array([0, 1, -1, 127, -128, 5]),
    U8: new Uint8Array([0, 1, 2, 255, 3, 5]),
    I64: new BigInt64Array([0n, 1n, -1n, 9223372036854775807n, -9223372036854775808n, 5n]),
    U64: new BigUint64Array([0n, 1n, 2n, 18446744073709551615n, 3n, 5n]),
};

for (const [name, array] of Object.entries(samples)) {
    test(`typed array of ${name}`, () => {
        const tensor = Tensor.fromTypedArray(array, [2, 3]);
        assertEqual(tensor.data_type, DataType[name]);
        assertEqual(tensor.shape, [2, 3]);
        const back = tensor.toTypedArray();
        assertEqual(back.constructor, array.constructor);
        assertEqual(back, array);
        // A copy each way.
        back.fill(array[5]);
        assertEqual(tensor.toTypedArray(), array);
    });
}

test('typed array of bools', () => {
    const tensor = Tensor.fromTypedArray(new Uint8Array([0, 1, 1, 0]), [4], DataType.BOOL);
    assertEqual(tensor.data_type, DataType.BOOL);
    assertEqual(tensor.toTypedArray(), new Uint8Array([0, 1, 1, 0]));
});

test('typed array of four bits', () => {
    for (const [name, array] of [['I4', new Int8Array([-8, 7, 0])], ['U4', new Uint8Array([15, 1, 0])]]) {
        const tensor = Tensor.fromTypedArray(array, [3], DataType[name]);
        assertEqual(tensor.get_size(), 2);
        assertEqual(tensor.toTypedArray().constructor, array.constructor);
        assertEqual(tensor.toTypedArray(), array);
        assertThrows(() => Tensor.fromTypedArray(array.fill(100), [3], DataType[name]),
            isGraphError(GraphError.INVALID_ARGUMENT));
        assertThrows(() => Tensor.fromTypedArray(new Int32Array(3), [3], DataType[name]), isTypeError);
    }
});

test('narrow floats', () => {
    for (const name of ['bf16', 'f8e4m3fn', 'f8e4m3fnuz', 'f8e5m2', 'f8e5m2fnuz', 'f4e2m1']) {
        const tensor = Tensor.new_from_doubles(DataType[name.toUpperCase()], [3], [1.5, -2, 0.5]);
        assertEqual(DataType.to_string(tensor.data_type), name);
        assertEqual(tensor.toTypedArray(), new Float32Array([1.5, -2, 0.5]));
    }
    assertThrows(() => Tensor.new_from_doubles(DataType.F8E4M3FN, [1], [500]), isGraphError(GraphError.INVALID_ARGUMENT));
});

test('typed array of half floats as bits', () => {
    const tensor = Tensor.fromTypedArray(new Uint16Array([0x3c00, 0xc000]), [2], DataType.F16);
    assertEqual(tensor.to_floats(), [1, -2]);
});

test('parts of buffers, and none', () => {
    const whole = new Float32Array([0, 1, 2, 3, 4]);
    assertEqual(Tensor.fromTypedArray(whole.subarray(1, 3)).toTypedArray(), new Float32Array([1, 2]));
    const bytes = new Uint8Array(whole.buffer, 3, 5);
    assertEqual(Tensor.fromTypedArray(bytes).toTypedArray(), bytes);
    assertEqual(Tensor.fromTypedArray(whole).shape, [5]);
    const empty = Tensor.fromTypedArray(new Float32Array(0), [3, 0]);
    assertEqual(empty.shape, [3, 0]);
    assertEqual(empty.toTypedArray().length, 0);
    assertEqual(Tensor.new_scalar(DataType.I32, 7).toTypedArray(), new Int32Array([7]));
    assertEqual(Tensor.new_scalar(DataType.I32, 7).shape, []);
});

test('wrong arrays', () => {
    const error = assertThrows(() => Tensor.fromTypedArray(new Float64Array(2)), isTypeError);
    assert(error.message.includes('Float32Array'));
    assertThrows(() => Tensor.fromTypedArray(new Uint8ClampedArray(2)), isTypeError);
    assertThrows(() => Tensor.fromTypedArray([1, 2]), isTypeError);
    assertThrows(() => Tensor.fromTypedArray(null), isTypeError);
    assertThrows(() => Tensor.fromTypedArray(), isTypeError);
    assertThrows(() => Tensor.fromTypedArray('abc'), isTypeError);
    assertThrows(() => Tensor.fromTypedArray(new DataView(new ArrayBuffer(4)), [1], DataType.F32), isTypeError);
    assertThrows(() => Tensor.fromTypedArray(new Float32Array(2), [2], DataType.I32), isTypeError);
    assertThrows(() => Tensor.fromTypedArray(new Float32Array(2), [2], 99), isError);
    assertThrows(() => Tensor.fromTypedArray(new Float32Array(2), [3]), isGraphError(GraphError.SHAPE));
    assertThrows(() => Tensor.fromTypedArray(new Float32Array(2), Array(10).fill(1)), isGraphError(GraphError.LIMIT));
    assertThrows(() => Tensor.fromTypedArray(new Float32Array(2), 2), isError);
});

// ---- graphs ----

test('text and shapes', () => {
    const {x} = small();
    assertEqual(x.shape, [2, 3]);
    assertEqual(`${x}`, '%0 = input "x": f32[2, 3]');
    assertEqual(`${Tensor.new_from_floats([2], [1, 2.5])}`, '[1, 2.5]');
});

test('tensors that stay on the device', async () => {
    const exe = compile(x => x.mul(2).add(1), [3]);
    const x = device().upload([1, 2, 3]);
    assert(x.get_device() === device());
    let [y] = exe.run_on_device([x]);
    ({y} = await exe.run_on_device_async({x: y}));
    assert(await y.fetch_async());
    assertEqual([...y.toTypedArray()], [7, 11, 15]);
    assertThrows(() => exe.run_on_device({z: x}), isTypeError);
});

test('states that are shared', async () => {
    const compileStep = step => {
        const g = new Rlx.Graph(), s = g.state('s', [1, 1]);
        if (step)
            g.assign(s, s.add(step));
        g.output('y', s.mul(1));
        return device().compile(g);
    };
    const write = compileStep(2), read = compileStep(null), state = write.dup_state('s');
    assertEqual(state.get_data_type(), DataType.F32);
    assert(state.get_device() === device());
    read.bind_state('s', state);
    write.run([]);
    assertEqual([...read.run([])[0].toTypedArray()], [3, 3]);
    const again = compileStep(null);
    assertEqual(await again.bind_state_async('s', state), true);
    write.run([]);
    assertEqual([...again.read_state('s').toTypedArray()], [5, 5]);
    assertThrows(() => read.dup_state('t'), error => error.matches(Rlx.GraphError, Rlx.GraphError.NOT_FOUND));
});

test('operators without a graph', () => {
    const {ops} = Rlx;
    const product = ops.matmul([[1, 2], [3, 4]], [[1, 0], [0, 1]]);
    assert(product.get_device() === device());
    assertEqual([...ops.add(product, 1).toTypedArray()], [2, 3, 4, 5]);
    assertEqual([...ops.reduce_sum(product, [0], {keep_dims: true}).toTypedArray()], [4, 6]);
    assertEqual(ops.cast(product, 'i32').data_type, DataType.I32);
    assertEqual(ops.concat([product, product], 0).shape, [4, 2]);
    assertThrows(() => ops.matmul(product, product, {nothing: 1}), isTypeError);
});

test('graphs are iterable', () => {
    const {g, x} = small();
    const y = x.relu();
    assertEqual([...g], [x, y]);
    assertEqual([...new Rlx.Graph()], []);
});

test('options', () => {
    const {x} = small();
    assertEqual(x.matmul(x, new Rlx.MatmulOptions({transpose_b: true})).shape, [2, 2]);
    const options = new Rlx.ReduceSumOptions({keepDims: true});
    assertEqual(x.reduce_sum([0], options).shape, [1, 3]);
    assertEqual(x.reduce_sum([0]).shape, [3]);
    assertEqual(x.reduce_sum([0], null).shape, [3]);
    assertEqual(x.reduce_sum([0], {keep_dims: true}).shape, [1, 3]);
    assertEqual(x.layer_norm(null, null).shape, [2, 3]);
    assertEqual(x.layer_norm().shape, [2, 3]);
});

test('lists as options', () => {
    const {g} = small();
    const x = g.input('image', 'f32', [1, 2, 5, 5]), w = g.input('w', 'f32', [3, 2, 3, 3]);
    assertEqual(x.conv(w).shape, [1, 3, 3, 3]);
    const options = new Rlx.ConvOptions({padding: [1, 1, 1, 1], filterLayout: 'ois'});
    assertEqual(x.conv(w, null, options).shape, [1, 3, 5, 5]);
    assertEqual(x.conv(w, null, {padding: [1, 1, 0, 0], strides: [2, 1]}).shape, [1, 3, 3, 3]);
    assertEqual(options.padding, [1, 1, 1, 1]);
    let n = 0;
    options.connect('notify::padding', () => n++);
    options.padding = [0, 0, 1, 1];
    options.padding = [0, 0, 1, 1];
    options.set_padding([0, 0, 1, 1]);
    assertEqual(n, 1);
    assertEqual(options.get_padding(), [0, 0, 1, 1]);
    assertEqual(x.conv(w, null, options).shape, [1, 3, 3, 5]);
    options.padding = new GLib.Variant('ax', []);
    assertEqual(options.padding, []);
    for (const wrong of [[0.5], 3, 'a', null, [NaN], new GLib.Variant('ai', [1])]) {
        assertThrows(() => new Rlx.ConvOptions({padding: wrong}), isError);
        assertThrows(() => (options.padding = wrong), isError);
        assertThrows(() => x.conv(w, null, {padding: wrong}), isError);
    }
    assertThrows(() => x.conv(w, null, {paddings: [1]}), isError);
    assertThrows(() => x.relu({alpha: 1}), isError);
});

test('enumerations', () => {
    const {g, x} = small();
    assertEqual(g.input('a', 'i32', [2]).data_type, DataType.I32);
    assertEqual(g.input('b', 1, [2]).data_type, DataType.F16);
    assertEqual(x.cast('f16').data_type, DataType.F16);
    assertEqual(g.scalar('u8', 3).data_type, DataType.U8);
    assertEqual(Tensor.new_from_ints('i8', [1], [5]).data_type, DataType.I8);
    assertEqual(Tensor.fromTypedArray(new Uint8Array([1]), [1], 'bool').data_type, DataType.BOOL);
    assertEqual(DataType.to_string('u4'), 'u4');
    const options = new Rlx.ConvOptions({layout: 'channels-last', filterLayout: Rlx.FilterLayout.SIO, groups: 1});
    assertEqual(options.layout, Rlx.Layout.CHANNELS_LAST);
    assertEqual(options.filter_layout, Rlx.FilterLayout.SIO);
    options.layout = 'channels-first';
    assertEqual(options.get_layout(), Rlx.Layout.CHANNELS_FIRST);
    options.set_layout('channels-last');
    assertEqual(options.layout, Rlx.Layout.CHANNELS_LAST);
    assertEqual(new Rlx.ConvOptions().layout, Rlx.Layout.CHANNELS_FIRST);

    const before = g.get_n_items();
    for (const [call, value] of [
        [() => g.input('t', DataType.F33, [2]), 'i32'], [() => g.input('t', 'float', [2]), 'i32'],
        [() => g.input('t', 99, [2]), 'i32'], [() => g.input('t', 1.5, [2]), 'i32'], [() => g.input('t'), 'i32'],
        [() => g.parameter('t', null, [2]), 'i32'], [() => g.scalar('F32', 1), 'f32'], [() => x.cast('double'), 'f16'],
        [() => x.cast(), 'f16'], [() => Tensor.new_scalar('', 1), 'u4'],
        [() => DataType.to_string(-1), 'u4'], [() => Tensor.fromTypedArray(new Float32Array(1), [1], 'f33'), 'f32'],
        [() => new Rlx.ConvOptions({layout: 'channels_last'}), 'channels-last'],
        [() => new Rlx.ConvOptions({layout: Rlx.Layout.LAST}), 'channels-last'],
        [() => new Rlx.ConvOptions({'filter-layout': 7}), 'sio'],
        [() => new Rlx.ConvOptions({filterLayout: 7}), 'sio'], [() => new Rlx.ConvOptions({filter_layout: 7}), 'sio'],
        [() => options.set_layout('NHWC'), 'channels-first'],
        [() => {
            options.layout = 'NHWC';
        }, 'channels-first'],
        [() => new Rlx.PadOptions({mode: true}), 'reflect'],
    ]) {
        const error = assertThrows(call, isTypeError);
        assert(error.message.includes(`'${value}'`), error.message);
    }
    assertEqual(g.get_n_items(), before);
    assertEqual(options.layout, Rlx.Layout.CHANNELS_LAST);
});

// Also in later additions to the library: nothing converts a word to the value 0.
test('every enumeration is checked', () => {
    const {x} = small();
    let tried = 0;
    for (const [name, thing] of Object.entries(Rlx).filter(([key]) => key.endsWith('Options'))) {
        for (const {name: property, value_type: type} of GObject.Object.list_properties.call(thing)) {
            if (!GObject.type_is_a(type, GObject.TYPE_ENUM))
                continue;
            tried++;
            const spelled = property.replaceAll('-', '_');
            const options = new thing();
            for (const call of [() => new thing({[property]: 'nonsense'}), () => options[`set_${spelled}`]('nonsense'),
                () => {
                    options[spelled] = 'nonsense';
                }])
                assert(assertThrows(call, isTypeError).message.includes("'nonsense'"), name);
        }
    }
    assert(tried > 40, `only ${tried}`);
    for (const operator of Rlx.operators_list()) {
        const {inputs, variadic, attributes} = Rlx.operators_describe(operator).recursiveUnpack();
        const required = attributes.filter(row => row.required);
        required.forEach(({type}, i) => {
            if (type !== 'enum' && type !== 'data type')
                return;
            tried++;
            const values = {bool: true, int: 1, float: 1, ints: [1], string: 'x', enum: 0, 'data type': 0};
            const args = variadic ? [[x]] : inputs.slice(1).filter(row => !row.optional).map(() => x);
            args.push(...required.map((row, j) => j === i ? 'nonsense' : values[row.type]));
            assert(assertThrows(() => x[operator](...args), isTypeError).message.includes("'nonsense'"), operator);
        });
    }
    assert(tried > 45, `only ${tried}`);
});

test('error classes', () => {
    const {g, x} = small();
    let error = assertThrows(() => x.matmul(x), isGraphError(GraphError.SHAPE));
    assert(error.message.includes('matmul') && error.message.includes('f32[2, 3]'));
    const i = g.input('i', DataType.I32, [3]);
    error = assertThrows(() => x.add(i), isGraphError(GraphError.DATA_TYPE));
    assert(error.message.includes('f32') && error.message.includes('i32'));
    error = assertThrows(() => g.add_op('relo', [x], null), isGraphError(GraphError.NOT_FOUND));
    assert(error.message.includes('relu'));
    assertThrows(() => g.input('t', DataType.F32, Array(10).fill(1)), isGraphError(GraphError.LIMIT));
    assertThrows(() => g.input('t', DataType.F32, [2 ** 60, 2 ** 60]), isGraphError(GraphError.LIMIT));
    assertThrows(() => g.input('t', DataType.F32, [-1]), isGraphError(GraphError.SHAPE));
    assertThrows(() => Rlx.Graph.new_from_text('nonsense'), isGraphError(GraphError.PARSE));
    g.output('y', x);
    error = assertThrows(() => g.output('y', x), isGraphError(GraphError.INVALID_ARGUMENT));
    assert(error.message.includes('taken'));
    // All of them were reported, and the graph is unchanged.
    assertEqual(g.check(), true);
});

test('precision', () => {
    assertEqual(new Rlx.Graph().precision, Rlx.Precision.FULL);
    assertEqual(Rlx.Graph.new_from_text('rlx 1\nprecision reduced\n').precision, Rlx.Precision.REDUCED);
});

test('hostile arguments', () => {
    const {g, x} = small();
    for (const call of [
        () => x.add(null), () => x.add('x'), () => x.add(g), () => x.add(), () => x.softmax('a'),
        () => x.softmax(NaN), () => x.softmax(1.5), () => x.softmax(), () => x.reshape([1.5, 4]), () => x.reshape(null),
        () => x.reshape([NaN]), () => x.reshape('abc'), () => x.reshape([null]), () => x.reduce_sum([0.5], null),
        () => g.input('t', 99, [1]), () => g.input('t', DataType.F32, [1.5]), () => g.input('t', DataType.F32, [NaN]),
        () => g.input('t', DataType.F32, ['a']), () => g.input('t', DataType.F32, 'abc'), () => g.input(null, 0, []),
        () => g.constant(null), () => g.constant(x), () => g.concat([null], 0),
        () => g.concat(['a'], 0), () => g.concat(x, 0), () => g.concat([x], 0.5), () => g.output('y', null),
        () => g.output('y', 3), () => g.add_op(null, [x], null), () => g.add_op('relu', [3], null),
        () => g.add_op('relu', x, null), () => g.add_op('relu', [x], {}), () => Rlx.Node.prototype.relu.call({}),
        () => x.split(NaN), () => x.split(g), () => x.split(0, 3), () => x.split(0, x),
        () => x.split(1, new Rlx.MatmulOptions()), () => x.matmul(x, 3), () => x.pad([0, 0], [0, 0], 'a'),
        () => x.pad([0.5, 0], [0, 0]), () => x.layer_norm('a'), () => x.relu(x), () => x.relu({}), () => x.add([1, 'a']),
        () => x.add([[1], [2, 3]]), () => x.pad([0, 0]),
        () => Tensor.new_from_floats([2], 'a'),
        () => Tensor.new_from_address(DataType.F32, [4], 1, 16),
    ])
        assertThrows(call, isError);
    assertEqual(g.get_n_items(), 1);
});

test('values as operands', () => {
    const {g, x} = small();
    const i = g.input('i', 'i32', [3]);
    for (const [node, type] of [
        [x.add(3), 'F32'], [x.mul([1, 2, 3]), 'F32'], [x.add(new Float64Array([1, 2, 3])), 'F32'], [i.add(1), 'I32'],
        [i.add(new BigInt64Array([1n, 2n, 3n])), 'I32'], [x.matmul([[1], [2], [3]]), 'F32'], [x.max(new Float32Array(3)), 'F32'],
        [x.gather([1, 0], 0).reshape(6), 'F32'], [x.linear([[1, 2, 3]], {transpose_b: true}), 'F32'],
        [x.linear([[1, 2, 3]], [5], {transpose_b: true}), 'F32'], [g.concat([x, [[1, 2, 3]]], 0), 'F32'],
        [x.less(0).where(1, x), 'F32'], [x.pad([1, 1], [1, 1]), 'F32'], [x.pad([1, 1], [1, 1], 7, {mode: 'constant'}), 'F32'],
        [x.pad([1, 1], [1, 1], {mode: 'edge'}), 'F32'], [x.pad([1, 1], [1, 1], {value: 3, mode: 'constant'}), 'F32'],
        [x.layer_norm({bias: [1, 2, 3]}), 'F32'], [g.constant([1, 2], 'u8'), 'U8'], [g.constant(true), 'BOOL'],
        [g.constant([[1.5]], 'f16'), 'F16'], [g.state('s', [0, 0]), 'F32'], [g.constant([1n, 2n], 'i64'), 'I64'],
        [g.constant([1, -1], 'i4'), 'I4'],
    ])
        assertEqual(node.data_type, DataType[type]);
    assertEqual(x.layer_norm({bias: [1, 2, 3]}).get_inputs().map(node => node?.shape ?? null), [[2, 3], null, [3]]);
    assertEqual([x.reshape(3, 2).shape, x.reshape([6]).shape, x.reshape(-1).shape], [[3, 2], [6], [6]]);
    assertEqual([x.transpose().shape, x.transpose(1, 0).shape, x.unsqueeze(0).squeeze(0).shape, x.expand(4, 2, 3).shape],
        [[3, 2], [3, 2], [2, 3], [4, 2, 3]]);
    assertEqual([x.reduce_sum(0).shape, x.unsqueeze(0).squeeze().shape, x.unsqueeze(0).squeeze({axes: [0]}).shape], [[3], [2, 3], [2, 3]]);
});

// In JavaScript's terms: the method, the argument, and its valid values.
test('messages', () => {
    const {g, x} = small();
    const i = g.input('i', 'i32', [3]);
    for (const [call, text, kind] of [
        [() => x.matmul(), 'matmul: other is missing', TypeError],
        [() => x.matmul('a'), 'matmul: other must be a node, a number, an array', TypeError],
        [() => i.add(1.5), 'add: other: 1.5 is not an integer', TypeError],
        [() => i.add(2 ** 31), 'add: other: 2147483648 is out of the range of data type i32', RangeError],
        [() => i.add(new Float32Array(3)), 'add: other: a Float32Array cannot be a value of data type i32', TypeError],
        [() => x.softmax(), 'softmax: axis is missing', TypeError],
        [() => x.relu(x), 'relu: it takes 0 arguments at most, not 1', TypeError],
        [() => x.conv(x, {paddings: [1]}), 'conv: there is no option “paddings”; there are strides, ', TypeError],
        [() => x.conv(x, {layout: 'NHWC'}), "conv: layout cannot be 'NHWC'; it must be an Rlx.Layout: ", TypeError],
        [() => x.clamp(0, 1), 'clamp: it takes 1 argument at most, not 2; options are an object: {minimum, maximum}', TypeError],
        [() => x.relu(...[x, x]), 'relu: it takes 0 arguments at most, not 2', TypeError],
        [() => Tensor.load_npy(3), 'load_npy: file must be a path or a Gio.File', TypeError],
        [() => g.add_op('input', []), 'graphs have a method of that name', GLib.Error],
    ]) {
        const error = assertThrows(call, caught => caught instanceof kind);
        assert(error.message.includes(text), error.message);
        assert(!error.message.includes('rlx_'), error.message);
    }
});

test('a node keeps its graph', async () => {
    for (const get of [
        g => g.constant(Tensor.new_scalar(DataType.F32, 1)), g => g.scalar(DataType.F32, 1),
        g => g.parameter('p', DataType.F32, [2]), g => g.get_item(0).relu(), g => g.concat([g.get_item(0)], 0),
        g => g.get_item(0).matmul(g.get_item(0), new Rlx.MatmulOptions({transpose_b: true})),
        g => [...g][0], g => g.lookup('x'), g => g.add_op('exp', [g.get_item(0)])[0],
        g => g.get_item(0).relu().get_inputs()[0],
        g => g.get_item(0).split(0, new Rlx.SplitOptions({parts: 2}))[1],
    ]) {
        const node = get(small().g);
        await collect();
        assert(node.get_graph() !== null, `${get} gives a node whose graph is gone`);
        assertEqual(node.exp().shape, node.shape);
    }
});

test('graphs are freed', async () => {
    const resident = () => Number(new TextDecoder().decode(GLib.file_get_contents('/proc/self/statm')[1]).split(' ')[1]) * 4096;
    const size = 1 << 15, count = 10000;
    const build = () => {
        const g = new Rlx.Graph();
        const x = g.constant(Tensor.fromTypedArray(new Float32Array(size / 4).fill(1)));
        return x.add(x).relu();
    };
    for (let i = 0; i < 100; i++)
        build();
    await collect();
    const before = resident();
    for (let i = 0; i < count; i++) {
        build();
        if (i % 500 === 0)
            await collect();
    }
    await collect();
    // All of them would be 312 MiB, and the amount between two collections is 16.
    assert(resident() - before < count * size / 4, `${(resident() - before) / (1 << 20)} MiB more`);
});

// ---- running ----

test('run', () => {
    const exe = compile(x => x.sqrt());
    const x = Tensor.fromTypedArray(new Float32Array([1, 4, 9, 16]));
    for (const outputs of [exe.run([x], null), exe.run([x]), exe.run_named(['x'], [x], null)]) {
        assertEqual(outputs.length, 1);
        assertEqual(outputs[0].toTypedArray(), new Float32Array([1, 2, 3, 4]));
    }
});

test('inputs and outputs by name', async () => {
    const g = new Rlx.Graph();
    const [a, b] = ['a', 'b'].map(name => g.input(name, 'f32', [2, 2]));
    g.output('sum', a.add(b).mul(g.parameter('scale', 'f32', [])));
    g.output('ids', g.input('ids', 'i32', [2]).add(1));
    const exe = device().compile(g);
    assertThrows(() => exe.run({a: 1}), caught => !caught.message.includes('rlx_'));
    exe.set_parameters({scale: 2});
    const inputs = {ids: [5, 6], b: [[1, 2], [3, 4]], a: new Float32Array([10, 20, 30, 40])};
    for (const outputs of [exe.run(inputs), await exe.run_async(inputs), exe.run([inputs.a, inputs.b, inputs.ids])]) {
        const {sum, ids} = outputs;
        assertEqual([sum.shape, sum.toTypedArray()], [[2, 2], new Float32Array([22, 44, 66, 88])]);
        assertEqual([ids, outputs.length], [outputs[1], 2]);
        assertEqual(ids.toTypedArray(), new Int32Array([6, 7]));
    }
    assertEqual(await exe.set_parameters_async({scale: new Float64Array([1])[0]}), true);
    assertEqual((await exe.run_async(inputs)).sum.get_value(0), 11);
    const error = assertThrows(() => exe.run({...inputs, ids: [0.5, 1]}), isTypeError);
    assert(error.message.includes('ids: 0.5 is not an integer'), error.message);
});

test('large outputs do not pile up', async () => {
    const resident = () => Number(new TextDecoder().decode(GLib.file_get_contents('/proc/self/statm')[1]).split(' ')[1]) * 4096;
    const size = 1 << 23, count = 100;
    const g = new Rlx.Graph();
    g.output('y', g.input('x', 'f32', []).expand(size / 4));
    const exe = device().compile(g);
    exe.run([1]);
    const before = resident();
    let most = 0;
    for (let i = 0; i < count; i++) {
        const [y] = i % 2 ? exe.run([i]) : await exe.run_async([i]);
        assertEqual(y.get_value(0), i);
        most = Math.max(most, resident() - before);
    }
    // All of them would be 800 MiB.
    assert(most < size * count / 3, `${most / (1 << 20)} MiB more`);
});

test('ports', () => {
    const exe = compile(x => x.sqrt(), [2, 2]);
    const [x] = exe.inputs;
    assertEqual([x.name, x.data_type, `${x}`], ['x', DataType.F32, 'x: f32[2, 2]']);
    assertEqual(x.shape, [2, 2]);
    assertEqual([...exe.outputs].map(port => port.name), ['y']);
    assertEqual([exe.parameters.get_n_items(), exe.get_states().get_n_items()], [0, 0]);
});

test('wrong calls', () => {
    const exe = compile(x => x.sqrt());
    const x = Tensor.new_from_floats([4], [1, 2, 3, 4]);
    assertThrows(() => exe.run([], null), isGraphError(GraphError.INVALID_ARGUMENT));
    assertThrows(() => exe.run([Tensor.new_from_floats([1], [1])], null), isGraphError(GraphError.SHAPE));
    assertThrows(() => exe.run([Tensor.new_from_ints(DataType.I32, [4], [1, 2, 3, 4])], null),
        isGraphError(GraphError.DATA_TYPE));
    assertThrows(() => exe.run_named(['z'], [x], null), isGraphError(GraphError.NOT_FOUND));
    const {x: node} = small();
    for (const call of [
        () => exe.run(null, null), () => exe.run([null], null), () => exe.run([node], null), () => exe.run('x', null),
        () => exe.run(x, null), () => exe.run([x], node), () => exe.run(), () => exe.run_named(5, [x], null),
        () => exe.run_named([5], [x], null), () => exe.run_named(['x'], [node], null), () => exe.run_named(['x']),
        () => exe.set_parameters([3], [x], null), () => exe.set_parameters(['x'], [node], null),
        () => device().compile(null, null), () => device().compile(node, null), () => new Rlx.Executable(), () => new Rlx.Device(),
    ])
        assertThrows(call, isError);
    assertEqual(exe.run([x], null)[0].shape, [4]);
});

test('options of compiling', async () => {
    const options = new Rlx.CompileOptions({precision: 'reduced', tuning: true, profiling: true, memoryLimit: 1e9, timeout: 5.5});
    assertEqual(options.precision, Rlx.Precision.REDUCED);
    assertEqual([options.tuning, options.profiling, options.memory_limit, options.timeout], [true, true, 1e9, 5.5]);
    assertThrows(() => new Rlx.CompileOptions({precision: 'half'}), isTypeError);
    const {g, x} = small();
    g.output('y', x.exp());
    assert(device().compile(g, new Rlx.CompileOptions({profiling: true})).profiling);
    assert((await device().compile_async(g, new Rlx.CompileOptions({profiling: true}))).profiling);
    const error = assertThrows(() => device().compile(g, new Rlx.CompileOptions({memory_limit: 1})),
        caught => caught.matches(Rlx.DeviceError, Rlx.DeviceError.OUT_OF_MEMORY));
    assert(error.message.includes('limit is 1'));
    assertThrows(() => device().compile(g, {}), isError);
});

test('promises', async () => {
    const g = new Rlx.Graph();
    g.output('y', g.input('x', DataType.F32, [2]).exp());
    const exe = await device().compile_async(g, null);
    const x = Tensor.new_from_floats([2], [0, 0]);
    const [y] = await exe.run_async([x], null);
    assertEqual(y.toTypedArray(), new Float32Array([1, 1]));
    const results = await Promise.all(Array.from({length: 8}, (_, i) =>
        exe.run_async([Tensor.new_from_floats([2], [Math.log(i + 1), 0])])));
    assertEqual(results.map(([tensor]) => Math.round(tensor.get_value(0))), [1, 2, 3, 4, 5, 6, 7, 8]);
    await assertRejects(exe.run_async([], null), isGraphError(GraphError.INVALID_ARGUMENT));
    await assertRejects(device().compile_async(new Rlx.Graph(), null),
        error => error.matches(Rlx.CompileError, Rlx.CompileError.INVALID_GRAPH));
});

test('everything that blocks has a promise', async () => {
    device();
    assert([...await Rlx.Adapter.list_async()].length > 0);
    assertEqual(await Rlx.Device.get_default_async(), device());
    const own = await Rlx.Device.open_async(null);
    assert(own instanceof Rlx.Device && own !== device());
    await assertRejects(Rlx.Device.open_async('no such adapter'),
        error => error.matches(Rlx.DeviceError, Rlx.DeviceError.NOT_FOUND));
    const g = new Rlx.Graph();
    const total = g.state('total', Tensor.new_from_floats([2], [0, 0]));
    const next = total.add(g.input('x', 'f32', [2]).mul(g.parameter('p', 'f32', [])));
    g.assign(total, next);
    g.output('y', next);
    const exe = await own.compile_async(g);
    assertEqual(await exe.set_parameters_async(['p'], [Tensor.new_scalar('f32', 2)]), true);
    const x = Tensor.new_from_floats([2], [1, 2]);
    assertEqual((await exe.run_named_async(['x'], [x]))[0].toTypedArray(), new Float32Array([2, 4]));
    assertEqual((await exe.read_state_async('total')).toTypedArray(), new Float32Array([2, 4]));
    assertEqual(await exe.write_state_async('total', x), true);
    assertEqual((await exe.read_state_async('total')).toTypedArray(), new Float32Array([1, 2]));
    assertEqual(await exe.reset_state_async(), true);
    assertEqual((await (await exe.fork_async()).run_async([x]))[0].toTypedArray(), new Float32Array([2, 4]));
    const cancellable = new Gio.Cancellable();
    cancellable.cancel();
    await assertRejects(exe.read_state_async('total', cancellable), isCancelled);
    await assertRejects(Rlx.Device.open_async(null, cancellable), isCancelled);
    const [file, stream] = Gio.File.new_tmp('rlx-XXXXXX.npy');
    stream.close(null);
    assertEqual(await x.save_npy_async(file), true);
    assert((await Tensor.load_npy_async(file)).equal(x));
    file.delete(null);
});

test('callbacks', async () => {
    const exe = compile(x => x.sqrt());
    const x = Tensor.new_from_floats([4], [1, 4, 9, 16]);
    const y = await new Promise((resolve, reject) => exe.run_async([x], null, (source, result) => {
        try {
            resolve(source.run_finish(result)[0]);
        } catch (error) {
            reject(error);
        }
    }));
    assertEqual(y.toTypedArray(), new Float32Array([1, 2, 3, 4]));
});

test('cancel', async () => {
    const exe = compile(x => x.sqrt());
    const x = Tensor.new_from_floats([4], [1, 4, 9, 16]);
    const cancellable = new Gio.Cancellable();
    const run = exe.run_async([x], cancellable);
    cancellable.cancel();
    await assertRejects(run, isCancelled);
    await assertRejects(exe.run_async([x], cancellable), isCancelled);
    assertThrows(() => exe.run([x], cancellable), isCancelled);
    await assertRejects(device().compile_async(small().g, null, cancellable), isCancelled);
    await assertRejects(device().calibrate_async(cancellable), isCancelled);
    assertEqual(device().calibration, null);
    assert(exe.estimate > 0 && exe.estimate < 10);
    assertEqual(exe.run([x])[0].shape, [4]);
});

test('dictionaries', () => {
    const exe = compile(x => x.exp());
    const plan = exe.dup_plan();
    assertEqual(plan.deepUnpack().dispatches.unpack(), exe.n_dispatches);
    assertEqual(plan.recursiveUnpack().steps.length, exe.n_dispatches);
    const {adapter} = device();
    assert(adapter.get_limits().equal(adapter.limits));
    assert(adapter.limits.recursiveUnpack()['max-buffer-size'] > 0);
    assertEqual(Rlx.operators_describe('relu').recursiveUnpack().name, 'relu');
});

test('adapters and profiles are iterable', () => {
    device();
    assert([...Rlx.Adapter.list()].every(adapter => adapter instanceof Rlx.Adapter && adapter.name));
    const exe = compile(x => x.exp());
    exe.profiling = true;
    exe.run([Tensor.new_from_floats([4], [1, 2, 3, 4])]);
    const profile = exe.dup_profile();
    assertEqual([...profile].length, exe.n_dispatches);
    assert(`${profile}`.includes('exp'));
    const [step] = exe.profile;
    assert(step.op && step.kernel && step.node && step.time >= 0 && step.operations >= 0 && step.bytes > 0);
    assert(profile.wall_time > 0 && profile.total_time >= 0);
    assertEqual([...new Rlx.Calibration()], []);
});

test('progress', async () => {
    device();
    const opened = new Rlx.Device({selector: null}), fractions = [];
    opened.connect('opening', (_device, fraction, what) => {
        assert(what);
        fractions.push(fraction);
    });
    await new Promise(resolve => opened.init_async(GLib.PRIORITY_DEFAULT, null, (source, result) => resolve(source.init_finish(result))));
    assert(opened.adapter.name);
    assertEqual(fractions, [...fractions].sort());

    const exe = compile(x => x.exp());
    assertEqual(exe.progress, 1);
    const seen = [];
    exe.connect('notify::progress', () => seen.push(exe.progress));
    await exe.run_async([Tensor.new_from_floats([4], [1, 2, 3, 4])]);
    assert(seen.every(progress => progress >= 0 && progress <= 1));
    assertThrows(() => new Rlx.Device(), isTypeError);
    assertThrows(() => new Rlx.Executable({profiling: true}), isTypeError);
});

function trainingGraph(inputs, options = {}) {
    const g = new Rlx.Graph();
    const x = g.input('x', 'f32', [4, inputs]), y = g.input('y', 'f32', [4]);
    const w = g.state('w', Tensor.new_from_floats([inputs, 1], Array(inputs).fill(0)));
    const loss = x.matmul(w).reshape(4).mse_loss(y);
    g.optimize(loss, {w}, {algorithm: 'adam', learning_rate: .05, ...options});
    g.output('loss', loss);
    return device().compile(g, null);
}

test('training', async () => {
    const batches = Array.from({length: 30}, (_, i) => {
        const x = Float32Array.from({length: 12}, (__, k) => Math.sin(12 * i + k));
        return {x, y: [0, 3, 6, 9].map(at => x[at] - x[at + 1] + 2 * x[at + 2])};
    });
    const calls = [];
    const trainer = new Rlx.Trainer(trainingGraph(3));
    const losses = trainer.train(batches, {progress: (...call) => calls.push(call)});
    assertEqual(calls, losses.map((loss, i) => [i + 1, loss, 30]));
    assert(losses.at(-1) < losses[0]);
    assertEqual(trainer.skipped, 0);
    assertThrows(() => new Rlx.Trainer(trainer.executable, 'nothing'), isTypeError);

    // In two parts, through a file, and asynchronously, the result has the same bits.
    const folder = GLib.Dir.make_tmp('rlx-XXXXXX'), path = `${folder}/state.safetensors`;
    const first = new Rlx.Trainer(trainingGraph(3)), second = new Rlx.Trainer(trainingGraph(3));
    const parts = await first.train_async(batches.slice(0, 11));
    first.save(path);
    second.load(path);
    assertEqual([...parts, ...await second.train_async(batches.slice(11))], losses);
    assertEqual(second.read(['w']).w.to_floats(), trainer.read(['w']).w.to_floats());

    const other = new Rlx.Trainer(trainingGraph(5));
    const error = assertThrows(() => other.load(path), isGraphError(GraphError.SHAPE));
    assert(error.message.includes('is f32[3, 1] in the file'), error.message);
    assertThrows(() => other.load(path, ['nothing']), isTypeError);
    GLib.unlink(path);
    GLib.rmdir(folder);

    // Infinities and NaN are reported, or skipped and counted.
    const broken = [{x: new Float32Array(12).fill(Infinity), y: [1, 2, 3, 4]}];
    const report = assertThrows(() => trainer.train(broken), isGraphError(GraphError.INVALID_ARGUMENT));
    assert(report.message.includes('“loss” of step 1 is NaN'), report.message);
    const skipping = new Rlx.Trainer(trainingGraph(3, {skip_not_finite: true}));
    skipping.train(broken);
    assertEqual(skipping.skipped, 1);

    const cancellable = new Gio.Cancellable();
    cancellable.cancel();
    await assertRejects(skipping.train_async(batches, {cancellable}), caught => caught.matches(Gio.IOErrorEnum, Gio.IOErrorEnum.CANCELLED));
    assertThrows(() => new Rlx.Graph().optimize(null, [], 3), isTypeError);
});

test('exports', async () => {
    const g = new Rlx.Graph();
    g.output('y', g.input('x', 'f32', [1, 2]).matmul(g.parameter('w', 'f32', [2, 2])));
    const folder = GLib.dir_make_tmp('rlx-XXXXXX');
    const read = () => JSON.parse(new TextDecoder().decode(GLib.file_get_contents(`${folder}/plan.json`)[1]));
    const web = new Rlx.WebExport({graph: g, targets: ['lavapipe', 'minimum']});
    web.set_parameters({w: [[1, 2], [3, 4]]});
    web.set_check({x: [[1, 1]]}, [Tensor.fromTypedArray(Float32Array.of(4, 6), [1, 2])], 1e-5);
    await web.write_async(folder);
    assertEqual(read().plans.map(({target}) => target), ['lavapipe', 'minimum']);
    assert(read().plans[0].parameters[0].given);
    assertEqual(read().check.tolerance, 1e-5);
    assertThrows(() => web.set_parameters({v: 1}), error => error.message.includes('no parameter “v”'));
    assertThrows(() => web.set_check({z: [1]}, [], 0), isTypeError);
    assertThrows(() => web.set_check({x: [[1, 1]]}, [7], 0), isTypeError);

    // Dictionaries in place of variants.
    const bytes = new GLib.Bytes(new Uint8Array(0));
    assertThrows(() => Rlx.Model.new_from_bytes(bytes), error => error instanceof GLib.Error);
    const weights = `${folder}/w.npz`;
    Rlx.Weights.write_npz(weights, ['other'], [Tensor.fromTypedArray(Float32Array.of(1, 1, 1, 1), [2, 2])], false, null);
    const exe = device().compile(g);
    exe.set_parameters_from(Rlx.Weights.open(weights), {w: 'other'});
    assertEqual([...exe.run([[[1, 2]]])[0].toTypedArray()], [3, 3]);
    assertThrows(() => exe.set_parameters_from(Rlx.Weights.open(weights), {w: 1}), isTypeError);
    assertThrows(() => exe.set_parameters_from(Rlx.Weights.open(weights), ['w']), isTypeError);
    for (const {name} of [...Gio.File.new_for_path(folder).enumerate_children('standard::name', 0, null)].map(info => ({name: info.get_name()})))
        GLib.unlink(`${folder}/${name}`);
    GLib.rmdir(folder);
});

test('device errors', () => {
    device();
    const error = assertThrows(() => Rlx.Device.open('no such adapter'),
        caught => caught.matches(Rlx.DeviceError, Rlx.DeviceError.NOT_FOUND));
    assert(error.message.includes('no such adapter'));
});

await main();
