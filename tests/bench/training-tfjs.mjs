// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// TensorFlow.js for training.mjs. Images come with their channels last, and filters as [height, width, in, out].

import {createRequire, registerHooks} from 'node:module';
import {join} from 'node:path';

let tf;

function tensor({values, shape}) {
    return tf.tensor(values, shape, values instanceof Int32Array ? 'int32' : 'float32');
}

function norm(x, gain, shift) {
    const {mean, variance} = tf.moments(x, -1, true);
    return x.sub(mean).mul(variance.add(1e-5).rsqrt()).mul(gain).add(shift);
}

function dense(x, weight, bias) {
    const width = x.shape.at(-1);
    const y = x.reshape([-1, width]).matMul(weight).reshape([...x.shape.slice(0, -1), weight.shape[1]]);
    return bias ? y.add(bias) : y;
}

function attend(q, k, v, heads) {
    const [batch, steps, width] = q.shape;
    const [a, b, c] = [q, k, v].map(x => x.reshape([batch, steps, heads, width / heads]).transpose([0, 2, 1, 3]));
    const shares = tf.softmax(tf.matMul(a, b, false, true).mul(1 / Math.sqrt(width / heads)));
    return tf.matMul(shares, c).transpose([0, 2, 1, 3]).reshape([batch, steps, width]);
}

const gelu = x => x.mul(0.5).mul(tf.erf(x.mul(Math.SQRT1_2)).add(1));
export async function start(modules, job, weights) {
    // Modules of TensorFlow.js import others without their extension.
    registerHooks({
        resolve(name, context, next) {
            try {
                return next(name, context);
            } catch (error) {
                if (!name.startsWith('.'))
                    throw error;
                return next(`${name}.js`, context);
            }
        },
    });
    const require = createRequire(join(modules, 'node_modules/'));
    tf = require('@tensorflow/tfjs-core');
    require('@tensorflow/tfjs-core/dist/register_all_gradients.js');
    require('@tensorflow/tfjs-core/dist/public/chained_ops/register_all_chained_ops.js');
    require('@tensorflow/tfjs-backend-webgpu');
    await tf.setBackend('webgpu');
    await tf.ready();

    const w = Object.fromEntries(Object.entries(weights).map(([name, value]) => [name, tf.variable(tensor(value), true, name)]));
    const networks = {
        mlp: x => dense(dense(x, w.w1, w.b1).relu(), w.w2, w.b2),
        cnn(x) {
            x = tf.conv2d(x, w.w1, 1, 'valid').add(w.b1).relu();
            x = tf.maxPool(tf.conv2d(x, w.w2, 1, 'valid').add(w.b2).relu(), 2, 2, 'valid');
            x = x.transpose([0, 3, 1, 2]).reshape([x.shape[0], -1]);
            return dense(dense(x, w.w3, w.b3).relu(), w.w4, w.b4);
        },
        encoder(x) {
            x = tf.gather(w.table, x).add(w.places);
            for (const i of 'ab') {
                let h = norm(x, w[`gain1${i}`], w[`shift1${i}`]);
                const [q, k, v] = [...'qkv'].map(name => dense(h, w[name + i], w[`b${name}${i}`]));
                x = x.add(dense(attend(q, k, v, 4), w[`o${i}`], w[`bo${i}`]));
                h = norm(x, w[`gain2${i}`], w[`shift2${i}`]);
                x = x.add(dense(gelu(dense(h, w[`u${i}`], w[`bu${i}`])), w[`d${i}`], w[`bd${i}`]));
            }
            return dense(x, w.out);
        },
    };
    const optimizer = job.algorithm === 'sgd' ? tf.train.momentum(job.rate, 0.9) : tf.train.adam(job.rate, 0.9, 0.999, 1e-8);

    return async (batch, answers) => {
        const x = tensor(batch), labels = tensor(answers);
        const loss = optimizer.minimize(() => {
            const y = networks[job.network](x).reshape([-1, job.classes]);
            return tf.losses.softmaxCrossEntropy(tf.oneHot(labels.reshape([-1]), job.classes), y);
        }, true);
        const [value] = await loss.data();
        tf.dispose([x, labels, loss]);
        return value;
    };
}
