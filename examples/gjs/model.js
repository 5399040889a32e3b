#!/usr/bin/env -S gjs -m
// SPDX-FileCopyrightText: The rlx-wgpu authors
// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Runs an ONNX file: gjs -m model.js model.onnx
import System from 'system';
import Rlx from 'gi://Rlx?version=1.0';

const session = Rlx.Session.open(System.programArgs[0]);
print(session.run({x: [[1, 2, 3]]}).y);
// Any size: it is compiled for the second batch, too.
print(session.run({x: [[1, 2, 3], [3, 2, 1]]}).y);
