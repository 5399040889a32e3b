// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compares the meanings of texts with that of the first one.
//
//     gjs -m embed.js FOLDER
//
// FOLDER contains a model as saved by sentence-transformers.

import Gio from 'gi://Gio';
import Rlx from 'gi://Rlx?version=1.0';
import System from 'system';

const texts = ['The cat sleeps on the sofa.', 'A kitten is napping on a couch.', 'Interest rates rose again.'];

const device = Rlx.Device.get_default();
const encoder = Rlx.TextEncoder.open(Gio.File.new_for_commandline_arg(System.programArgs[0]), device, null);
const vectors = encoder.encode(texts, null).to_floats();
const width = encoder.width;
texts.forEach((text, i) => {
  let similarity = 0;
  for (let j = 0; j < width; j++)
    similarity += vectors[j] * vectors[i * width + j];
  print(similarity.toFixed(3), text);
});
