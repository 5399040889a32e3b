#!/usr/bin/env python3
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs an ONNX file: model.py model.onnx"""
import sys

import gi

gi.require_version('Rlx', '1.0')
from gi.repository import Rlx

session = Rlx.Session.open(sys.argv[1])
print(session(x=[[1, 2, 3]]).y.to_string())
# Any size: it is compiled for the second batch, too.
print(session(x=[[1, 2, 3], [3, 2, 1]]).y.to_string())
