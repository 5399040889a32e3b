#!/bin/sh
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-suite.sh RUNNER DIR [ARGUMENT…]: runs the cases of a folder; skipped where it is not.

runner=$1
folder=$2
shift 2
if [ ! -d "$folder" ]; then
  echo "no folder $folder: skipped"
  exit 77
fi
exec "$runner" "$@" "$folder"
