// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// jax-js for training.mjs. A function owns the arrays that are its arguments: pass array.ref to use one again.

import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

export async function start(modules, job, weights) {
    const jax = await import(pathToFileURL(join(modules, 'node_modules/@jax-js/jax/dist/index.js')));
    const {numpy: np, nn, lax} = jax;
    if (!(await jax.init('webgpu')).includes('webgpu'))
        throw new Error('jax-js finds no WebGPU');
    jax.defaultDevice('webgpu');

    const tensor = ({values, shape}) => np.array(values, {shape, dtype: values instanceof Int32Array ? np.int32 : np.float32});
    const norm = (x, gain, shift) => nn.standardize(x, -1, {epsilon: 1e-5}).mul(gain).add(shift);
    const dense = (x, weight, bias) => np.matmul(x, weight).add(bias);
    const heads = (x, n) => np.transpose(x.reshape([x.shape[0], x.shape[1], n, x.shape[2] / n]), [0, 2, 1, 3]);

    function attend(q, k, v, n) {
        const [batch, steps, width] = q.shape;
        const scores = np.matmul(heads(q, n), np.transpose(heads(k, n), [0, 1, 3, 2])).mul(1 / Math.sqrt(width / n));
        return np.transpose(np.matmul(nn.softmax(scores, -1), heads(v, n)), [0, 2, 1, 3]).reshape([batch, steps, width]);
    }

    const convolve = (x, filter, bias) => nn.relu(lax.conv(x, filter, [1, 1], 'VALID').add(bias.reshape([bias.shape[0], 1, 1])));
    const networks = {
        mlp: (x, w) => dense(nn.relu(dense(x, w.w1, w.b1)), w.w2, w.b2),
        cnn(x, w) {
            x = convolve(convolve(x, w.w1, w.b1), w.w2, w.b2);
            const [batch, channels, height, width] = x.shape;
            x = np.max(x.reshape([batch, channels, height / 2, 2, width / 2, 2]), [3, 5]).reshape([batch, -1]);
            return dense(nn.relu(dense(x, w.w3, w.b3)), w.w4, w.b4);
        },
        encoder(x, w) {
            x = np.take(w.table, x, 0).add(w.places);
            for (const i of 'ab') {
                let h = norm(x.ref, w[`gain1${i}`], w[`shift1${i}`]);
                const [q, k, v] = [...'qkv'].map(name => dense(h.ref, w[name + i], w[`b${name}${i}`]));
                h.dispose();
                x = x.add(dense(attend(q, k, v, 4), w[`o${i}`], w[`bo${i}`]));
                h = norm(x.ref, w[`gain2${i}`], w[`shift2${i}`]);
                h = nn.gelu(dense(h, w[`u${i}`], w[`bu${i}`]), {approximate: false});
                x = x.add(dense(h, w[`d${i}`], w[`bd${i}`]));
            }
            return np.matmul(x, w.out);
        },
    };

    function findLoss(w, x, labels) {
        const y = networks[job.network](x, w).reshape([-1, job.classes]);
        const rows = y.shape[0];
        return np.sum(nn.logSoftmax(y, -1).mul(nn.oneHot(labels.reshape([-1]), job.classes))).mul(-1 / rows);
    }

    // The optimiser's state for each weight, and how it updates both.
    const n = job.algorithm === 'sgd' ? 1 : 2;
    function change(weight, moments, slope, scales) {
        if (n === 1) {
            const velocity = moments[0].mul(0.9).add(slope);
            return [weight.sub(velocity.ref.mul(job.rate)), [velocity]];
        }
        const mean = moments[0].mul(0.9).add(slope.ref.mul(0.1));
        const square = moments[1].mul(0.999).add(slope.ref.mul(slope).mul(0.001));
        const [rate, root] = scales;
        return [weight.sub(mean.ref.mul(rate).div(np.sqrt(square.ref).mul(root).add(1e-8))), [mean, square]];
    }

    const train = jax.jit((w, state, scales, x, labels) => {
        const [loss, slopes] = jax.valueAndGrad(findLoss)(jax.tree.ref(w), x, labels);
        const next = {w: {}, state: {}, loss};
        for (const name of Object.keys(w))
            [next.w[name], next.state[name]] = change(w[name], state[name], slopes[name], scales.map(scale => scale.ref));
        jax.tree.dispose(scales);
        return next;
    });

    let w = {}, state = {}, t = 0;
    for (const [name, value] of Object.entries(weights)) {
        w[name] = tensor(value);
        state[name] = Array.from({length: n}, () => np.zeros(value.shape));
    }
    return async (batch, answers) => {
        t++;
        const scales = [job.rate / (1 - 0.9 ** t), 1 / Math.sqrt(1 - 0.999 ** t)].map(scale => np.array(scale));
        const next = train(w, state, scales, tensor(batch), tensor(answers));
        ({w, state} = next);
        return (await next.loss.data())[0];
    };
}
