#!/bin/bash
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-completion.sh RLX: what bash offers after some words.
set -u

rlx=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
mkdir data
touch graph.rlx 'a b.npy' x.npy
# shellcheck source=data/rlx.bash
. "$here/rlx.bash"

number=0
failed=0
# completes "WORD WORD…" "EXPECTED EXPECTED…": all of them, and with a last "!" no others
completes ()
{
  local answers expected only= problem=
  read -ra COMP_WORDS <<<"$1"
  # A space at the end begins a new word.
  [[ $1 != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _rlx "$rlx" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  answers=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
  for expected in $2; do
    if [[ $expected == '!' ]]; then
      only=1
    elif ! grep -qxF -e "$expected" <<<"$answers"; then
      problem+=" no $expected"
    fi
  done
  [[ -z $only || ${#COMPREPLY[@]} == "$(($(wc -w <<<"$2") - 1))" ]] || problem+=" others too: ${COMPREPLY[*]}"
  number=$((number + 1))
  if [[ $problem ]]; then
    echo "not ok $number $1"
    echo "$1:$problem" >&2
    failed=1
  else
    echo "ok $number $1"
  fi
}

echo 'TAP version 14'
completes 'rlx ' 'devices targets calibrate verify ops demo info convert embed run bench compile profile spectrum dot --help --version'
completes 'rlx de' 'devices demo !'
completes 'rlx ops layer' 'layer_norm layer_norm_2d layer_norm_backward !'
completes 'rlx run --' '--input --parameter --weights --output --profile --tune --values --checked --json --dim --help !'
completes 'rlx calibrate --' '--forget --json --help !'
completes 'rlx verify --' '--only --quick --output --json --help !'
completes 'rlx verify --only layer' 'layer_norm layer_norm_2d layer_norm_backward !'
completes 'rlx compile --w' '--wgsl !'
completes 'rlx info g' 'graph.rlx !'
completes 'rlx convert g' 'graph.rlx !'
completes 'rlx run --weights x' 'x.npy !'
completes 'rlx dot g' 'graph.rlx !'
completes 'rlx profile g' 'graph.rlx !'
completes 'rlx bench --precision ' 'full reduced integer !'
completes 'rlx compile --precision = r' 'reduced !'
completes 'rlx compile --precision =' 'full reduced integer !'
completes 'rlx run -i x = ' 'x.npy data'
completes 'rlx run -i x =' 'x.npy data'
completes 'rlx run -i ' '!'
echo "1..$number"
exit $failed
