// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later

// What Rlx has in GJS beyond its C interface:
//
//     const x = Rlx.Tensor.fromTypedArray(new Float32Array([1, 2, 3, 4]), [2, 2]);
//     const [y] = await executable.run_async([x], null);
//     y.shape, y.toTypedArray(), `${y}`
//     for (const node of graph) …                    // a profile has steps

const {GLib, Gio} = imports.gi;

function _init() {
    const Rlx = this;
    const {Executable, Device, DataType, Graph, Node, Profile, Tensor} = Rlx;

    // ---- typed arrays ----

    const arrays = new Map([
        [DataType.F32, Float32Array],
        [DataType.I32, Int32Array],
        [DataType.U32, Uint32Array],
        [DataType.I8, Int8Array],
        [DataType.U8, Uint8Array],
        [DataType.BOOL, Uint8Array],
        [DataType.I64, BigInt64Array],
        [DataType.U64, BigUint64Array],
    ]);
    if (globalThis.Float16Array)
        arrays.set(DataType.F16, globalThis.Float16Array);
    // Types without an array of their own, two elements to a byte, come and go
    // with each element in a byte.
    const unpacked = new Map([
        [DataType.I4, Int8Array],
        [DataType.U4, Uint8Array],
    ]);

    function dataTypeOf(array) {
        for (const [dataType, constructor] of arrays) {
            if (array instanceof constructor)
                return dataType;
        }
        const hint = array instanceof Float64Array ? ': use a Float32Array' : '';
        throw new TypeError(`there is no data type for a ${array?.constructor?.name ?? typeof array}${hint}`);
    }

    // The type of the elements follows from that of the array. It has to be
    // given for bools in a Uint8Array, for half floats, as bits, in a
    // Uint16Array, and for elements of four bits.
    Tensor.fromTypedArray = function (array, shape = [array.length], dataType = dataTypeOf(array)) {
        if (!ArrayBuffer.isView(array) || array instanceof DataView)
            throw new TypeError(`${array} is not a typed array`);
        if (unpacked.has(dataType) && array instanceof unpacked.get(dataType))
            return Tensor.new_from_ints(dataType, shape, Array.from(array));
        const isHalf = dataType === DataType.F16 && array instanceof Uint16Array;
        if (!isHalf && !(arrays.has(dataType) && array instanceof arrays.get(dataType))) {
            throw new TypeError(
                `a ${array.constructor.name} does not hold elements of type ${Rlx.DataType.to_string(dataType)}`);
        }
        const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
        return Tensor.new_from_bytes(dataType, shape, new GLib.Bytes(bytes));
    };

    // A copy of the elements. Bools come in a Uint8Array, and half floats, where
    // there is no Float16Array, in a Float32Array.
    Tensor.prototype.toTypedArray = function () {
        const dataType = this.get_data_type();
        const constructor = arrays.get(dataType);
        if (unpacked.has(dataType))
            return unpacked.get(dataType).from(this.get_ints());
        if (!constructor)
            return Float32Array.from(this.get_floats());
        const length = this.get_n_elements();
        if (length === 0)
            return new constructor(0);
        const bytes = this.get_bytes().toArray();
        return new constructor(bytes.buffer, bytes.byteOffset, length);
    };

    for (const {prototype} of [Tensor, Node]) {
        Object.defineProperty(prototype, 'shape', {
            configurable: true,
            get() {
                return this.get_shape();
            },
        });
    }
    for (const {prototype} of [Tensor, Node, Profile]) {
        prototype.toString = function () {
            return this.to_string();
        };
    }

    // ---- running ----

    for (const [{prototype}, text] of [
        [Device, 'devices come from Rlx.Device.get_default() and Rlx.Device.open()'],
        [Executable, 'executables come from Rlx.Device.compile()'],
    ]) {
        prototype._init = function () {
            throw new TypeError(text);
        };
    }

    function checkArray(values, constructor, what) {
        if (!Array.isArray(values) || !values.every(value => value instanceof constructor))
            throw new TypeError(`${what} must be an array of ${constructor.name.replace('_', '.')}`);
    }

    function checkNames(names) {
        if (!Array.isArray(names) || !names.every(name => typeof name === 'string'))
            throw new TypeError('names must be an array of strings');
    }

    // Calls method with arguments that check has seen. When GJS 1.90 cannot
    // convert an argument of a function that returns an array, it frees the
    // array that was never returned: nothing of a wrong type may get that far.
    function guard(prototype, name, check) {
        const method = prototype[name];
        prototype[name] = function (...args) {
            return method.apply(this, check(...args));
        };
    }

    function checkCancellable(cancellable) {
        if (cancellable !== null && !(cancellable instanceof Gio.Cancellable))
            throw new TypeError('cancellable must be a Gio.Cancellable or null');
    }

    guard(Executable.prototype, 'run', (inputs, cancellable = null) => {
        checkArray(inputs, Tensor, 'inputs');
        checkCancellable(cancellable);
        return [inputs, cancellable];
    });
    guard(Executable.prototype, 'run_named', (names, inputs, cancellable = null) => {
        checkNames(names);
        checkArray(inputs, Tensor, 'inputs');
        checkCancellable(cancellable);
        return [names, inputs, cancellable];
    });
    guard(Graph.prototype, 'add_op', (op, inputs = null, attributes = null) => {
        if (typeof op !== 'string')
            throw new TypeError('op must be a string');
        // An optional operand may be null.
        checkArray(inputs?.filter?.(node => node !== null) ?? inputs ?? [], Node, 'inputs');
        if (attributes !== null && !(attributes instanceof GLib.Variant))
            throw new TypeError('attributes must be a GLib.Variant or null');
        return [op, inputs, attributes];
    });

    Gio._promisify(Device.prototype, 'calibrate_async');
    Gio._promisify(Device.prototype, 'compile_async');
    Gio._promisify(Executable.prototype, 'run_async');
    for (const [prototype, name] of [[Device.prototype, 'compile_async'], [Executable.prototype, 'run_async']])
        guard(prototype, name, (first, cancellable = null, ...rest) => [first, cancellable, ...rest]);
    guard(Device.prototype, 'calibrate_async', (cancellable = null, ...rest) => [cancellable, ...rest]);

    // ---- lists ----

    for (const {prototype} of [Graph, Profile]) {
        prototype[Symbol.iterator] = function* () {
            for (let i = 0; i < this.get_n_items(); i++)
                yield this.get_item(i);
        };
    }

    // ---- nodes ----

    // GJS cuts 1.5 down to 1, and NaN to 0.
    function checkIntegers(name, value) {
        for (const number of Array.isArray(value) ? value : [value]) {
            if (typeof number !== 'bigint' && !Number.isInteger(number))
                throw new TypeError(`${name}: ${number} is not an integer`);
        }
    }

    // Whether an operator can be called so: operands, then required attributes,
    // then perhaps an object of options. Some return an array: see guard().
    const descriptions = new Map();
    function checkCall(operator, args) {
        if (!descriptions.has(operator)) {
            const {inputs, variadic, attributes} = Rlx.operators_describe(operator).recursiveUnpack();
            const camel = operator.split('_').map(word => word[0].toUpperCase() + word.slice(1)).join('');
            descriptions.set(operator, {
                operands: variadic ? [] : inputs.slice(1),
                rest: variadic ? 1 : inputs.length - 1,
                required: attributes.filter(row => row.required),
                Options: Rlx[`${camel}Options`],
            });
        }
        const {operands, rest, required, Options} = descriptions.get(operator);
        operands.slice(0, args.length).forEach(({name, optional}, i) => {
            if (!(args[i] instanceof Node) && !(optional && args[i] === null))
                throw new TypeError(`${operator}: ${name} must be a node`);
        });
        required.slice(0, Math.max(args.length - rest, 0)).forEach(({name, type}, i) => {
            if (type === 'int' || type === 'ints')
                checkIntegers(`${operator}: ${name}`, args[rest + i]);
        });
        const options = args[rest + required.length] ?? null;
        if (options !== null && !(Options && options instanceof Options))
            throw new TypeError(`${operator}: options must be an Rlx.${Options?.$gtype.name.slice(3) ?? 'Options'}`);
    }

    // A node must keep its graph alive, but the graph owns the node: a plain
    // property would keep both for ever.
    const graphs = new WeakMap();

    function pinGraph(prototype, name, check = () => {}) {
        const method = prototype[name];
        if (!method)
            return;
        prototype[name] = function (...args) {
            check(args);
            const result = method.apply(this, args);
            const graph = this instanceof Graph ? this : this.get_graph();
            for (const node of Array.isArray(result) ? result : [result]) {
                if (node && graph)
                    graphs.set(node, graph);
            }
            return result;
        };
    }

    for (const name of ['input', 'parameter'])
        pinGraph(Graph.prototype, name, args => checkIntegers(`${name}: shape`, args[2] ?? []));
    for (const name of ['constant', 'scalar', 'state', 'add_op', 'get_item', 'get_output', 'lookup'])
        pinGraph(Graph.prototype, name);
    pinGraph(Node.prototype, 'get_inputs');
    const leaves = ['input', 'parameter', 'constant', 'state'];
    for (const name of Rlx.operators_list().filter(operator => !leaves.includes(operator))) {
        for (const {prototype} of [Graph, Node]) {
            pinGraph(prototype, name, args => checkCall(name, args));
            pinGraph(prototype, `${name}_full`, args => checkCall(name, args));
        }
    }
}
