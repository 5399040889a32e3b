#!/bin/sh
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-suite.sh RUNNER DIR: runs the cases of a folder; skipped where it is not.

if [ ! -d "$2" ]; then
  echo "no folder $2: skipped"
  exit 77
fi
exec "$1" "$2"
