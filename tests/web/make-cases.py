# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the cases for browsers, and gets Deno; prints its path, or why it is unavailable.

Usage: make-cases.py FOLDER"""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'tools'))
import cases
import deno
import npm

shutil.rmtree(sys.argv[1], ignore_errors=True)
os.makedirs(sys.argv[1])
cases.write(sys.argv[1])
try:
    print(deno.install())
except npm.Failure as error:
    print(f'skip: {error}')
