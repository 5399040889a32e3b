#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains the network of digits.rlx on digits that it draws itself: randomly bent pen strokes.

Usage: train.py WEIGHTS.npz"""
import sys

import numpy as np

SIZE, BOX, HIDDEN, SAMPLES, EPOCHS, BATCH = 28, 20, 96, 6000, 20, 64


def arc(x, y, rx, ry, begin, end, n=10):
    """An arc of an ellipse, in degrees; 0 is to the right, 90 down."""
    angles = np.radians(np.linspace(begin, end, n))
    return [(x + rx * np.cos(a), y + ry * np.sin(a)) for a in angles]


# Ways to write each digit, in a box of 1 x 1: lists of strokes, which are lists of points.
DIGITS = [
    [[arc(.5, .5, .35, .5, -90, 270, 16)]],
    [[[(.5, 0), (.5, 1)]], [[(.25, .3), (.55, 0), (.55, 1)]], [[(.25, .3), (.55, 0), (.55, 1)], [(.25, 1), (.85, 1)]]],
    [[arc(.5, .28, .36, .28, 190, 380) + [(.1, 1), (.9, 1)]]],
    [[arc(.45, .26, .35, .26, 200, 450) + arc(.45, .76, .4, .24, 270, 520)]],
    [[[(.6, 0), (.08, .68), (.92, .68)], [(.66, .35), (.66, 1)]], [[(.2, 0), (.15, .5), (.85, .5)], [(.8, 0), (.75, 1)]]],
    [[[(.85, 0), (.22, 0), (.18, .45)] + arc(.45, .69, .4, .31, 240, 510)]],
    [[[(.7, 0), (.3, .35), (.14, .7)] + arc(.48, .72, .34, .28, 180, 540, 14)]],
    [[[(.1, 0), (.9, 0), (.4, 1)]], [[(.1, 0), (.9, 0), (.4, 1)], [(.3, .5), (.75, .5)]]],
    [[arc(.5, .25, .3, .25, 90, 450, 14), arc(.5, .75, .38, .25, -90, 270, 14)]],
    [[arc(.5, .28, .34, .28, 0, 360, 14) + [(.84, .28), (.78, .65), (.6, 1)]], [arc(.5, .28, .34, .28, 0, 360, 14) + [(.82, 1)]]],
]


def draw(digit, random):
    """A picture as the page makes it: the strokes fill a centred box of 20 x 20 in at least one direction."""
    ways = DIGITS[digit]
    strokes = ways[random.integers(len(ways))]
    turn, lean, narrow = random.normal(0, .12), random.normal(0, .15), random.uniform(.55, 1.1)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ np.array([[narrow, lean], [0, 1]])
    # Slow waves over the page bend all strokes alike.
    waves, phases = random.normal(0, .035, (2, 2)), random.uniform(0, 6.3, (2, 2))
    bent = []
    for stroke in strokes:
        points = np.array(stroke) + random.normal(0, .012, (len(stroke), 2))
        points = points + np.stack([(waves[i] * np.sin(points[:, ::-1] * 5 + phases[i])).sum(1) for i in range(2)], 1)
        bent.append(points @ matrix.T)
    everything = np.concatenate(bent)
    low, high = everything.min(0), everything.max(0)
    scale = BOX / (high - low).max()
    pen = random.uniform(.9, 1.9)
    starts = np.concatenate([(points[:-1] - (low + high) / 2) * scale for points in bent]) + SIZE / 2
    ends = np.concatenate([(points[1:] - (low + high) / 2) * scale for points in bent]) + SIZE / 2
    y, x = np.mgrid[:SIZE, :SIZE] + .5
    pixels = np.stack([x.ravel(), y.ravel()], 1)[:, None]
    along = ends - starts
    where = ((pixels - starts) * along).sum(2) / np.maximum((along ** 2).sum(1), 1e-9)
    distances = np.linalg.norm(pixels - starts - np.clip(where, 0, 1)[:, :, None] * along, axis=2).min(1)
    return np.clip(pen + .5 - distances, 0, 1)


def forward(x, w1, b1, w2, b2):
    hidden = np.maximum(x @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    scores = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, scores / scores.sum(1, keepdims=True)


def main():
    random = np.random.default_rng(1)
    labels = np.arange(SAMPLES + 1000) % 10
    pictures = np.array([draw(label, random) for label in labels], np.float32)
    x, y, test_x, test_y = pictures[:SAMPLES], labels[:SAMPLES], pictures[SAMPLES:], labels[SAMPLES:]
    weights = [random.normal(0, (2 / SIZE ** 2) ** .5, (SIZE ** 2, HIDDEN)), np.zeros(HIDDEN),
               random.normal(0, (2 / HIDDEN) ** .5, (HIDDEN, 10)), np.zeros(10)]
    weights = [weight.astype(np.float32) for weight in weights]
    moments, squares, step = [np.zeros_like(w) for w in weights], [np.zeros_like(w) for w in weights], 0
    for _ in range(EPOCHS):
        for rows in np.split(random.permutation(SAMPLES), range(BATCH, SAMPLES, BATCH)):
            hidden, guess = forward(x[rows], *weights)
            slope = (guess - np.eye(10, dtype=np.float32)[y[rows]]) / len(rows)
            back = (slope @ weights[2].T) * (hidden > 0)
            step += 1
            for i, gradient in enumerate((x[rows].T @ back, back.sum(0), hidden.T @ slope, slope.sum(0))):
                moments[i] = .9 * moments[i] + .1 * gradient
                squares[i] = .999 * squares[i] + .001 * gradient ** 2
                weights[i] -= (.002 * moments[i] / (1 - .9 ** step) / (np.sqrt(squares[i] / (1 - .999 ** step)) + 1e-8)).astype(np.float32)
    right = (forward(test_x, *weights)[1].argmax(1) == test_y).mean()
    np.savez(sys.argv[1], **{name: weight.astype(np.float32) for name, weight in zip(('w1', 'b1', 'w2', 'b2'), weights)})
    print(f'{right:.1%} of 1000 other pictures are recognised')


main()
