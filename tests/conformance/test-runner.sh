#!/bin/sh
# SPDX-FileCopyrightText: The rlx-wgpu authors
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-runner.sh RUNNER: the runner's own behaviour, on cases made here.

runner=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# expect STATUS WHAT ARGUMENT…: the runner's exit status, output in $folder/out
expect () {
  status=$1
  what=$2
  shift 2
  "$runner" "$@" > "$folder/out" 2> "$folder/err"
  got=$?
  if [ $got -eq 77 ]; then
    cat "$folder/err"
    exit 77
  fi
  if [ $got -ne "$status" ]; then
    echo "not ok: $what: status $got instead of $status"
    cat "$folder/out" "$folder/err"
    failed=1
  else
    echo "ok: $what"
  fi
}

# output PATTERN WHAT: a line of the last run's output
output () {
  if ! grep -q -e "$1" "$folder/out"; then
    echo "not ok: $2: no line “$1” in"
    cat "$folder/out"
    failed=1
  fi
}

# make FILE OPERATOR WANT [MORE [SUITE ARGUMENTS]]: a file with one case, [1, -2] through the operator
make () {
  suite=${5:-webnn}
  args=${6:-'"input": {"ref": "x"}'}
  mkdir -p "$(dirname "$folder/$1")"
  cat > "$folder/$1" <<END
{"suite": "$suite", "op": "$2", "source": "here", "cases": [
{"suite": "$suite", "op": "$2", "id": "$suite/$2/here", "inputs":
{"x": {"dtype": "f32", "shape": [2], "data": [1, -2], "constant": false}},
"ops": [{"name": "$2", "args": {$args}, "outputs": ["y"]}],
"outputs": {"y": {"dtype": "f32", "shape": [2], "data": [$3]}}${4:+, $4},
"tolerance": {"kind": "ulp", "value": 0}}]}
END
}

expect 2 "an unknown option" --no-such-option
expect 2 "a folder that does not exist" "$folder/nowhere"

make good/abs.json abs "1, 2"
make good/deeper/unknown.json noSuchOperator "1, 2"
make good/deeper/neg.json neg "-1, 3" '"quirk": "wrong on purpose"'
echo '{"total": 3}' > "$folder/good/index.json"
expect 0 "a pass, an unsupported one and a quirk" "$folder/good"
output '^total: 1 pass, 0 fail, 1 unsupported, 1 quirk$' "totals"
output '^webnn: 1 pass, 0 fail, 1 unsupported, 1 quirk$' "totals of the suite"
expect 0 "as JSON" --json "$folder/good"
output '"adapter"' "JSON"
expect 0 "a list" --list "$folder/good"
output '^webnn/abs/here' "list"
expect 0 "one by its name" --filter 'webnn/a*' "$folder/good"
output '^total: 1 pass, 0 fail, 0 unsupported, 0 quirk$' "filtered"

make bad/abs.json abs "1, -2"
expect 1 "a failure" "$folder/bad"
output 'webnn/abs/here: .*element 1 is 2 instead of -2' "reason of the failure"
expect 1 "a failure as JSON" --json "$folder/bad"
output '"id" : "webnn/abs/here"' "failure in JSON"

echo 'webnn/abs/here it is not so' > "$folder/known"
expect 0 "a failure that is known" --known "$folder/known" "$folder/bad"
output 'webnn/abs/here (fail): it is not so' "reason of the quirk"
expect 2 "no such list" --known "$folder/unknown" "$folder/bad"

# What a mapping does not know could change the result, even where the result is right.
make strange/webnn.json abs "1, 2" "" webnn '"input": {"ref": "x"}, "sideways": 1'
make strange/webnn-func.json clamp "1, -2" "" webnn '"input": {"ref": "x"}, "sideways": 1'
make strange/onnx.json Abs "1, 2" "" onnx '"inputs": [{"ref": "x"}], "sideways": 0'
make strange/onnx-func.json Clip "1, -2" "" onnx '"inputs": [{"ref": "x"}], "sideways": []'
make strange/onnx-input.json Gelu "1, -2" "" onnx '"inputs": [{"ref": "x"}, {"ref": "x"}]'
make strange/ref.json abs "1, 2" "" ref '"inputs": [{"ref": "x"}], "sideways": 1'
expect 0 "attributes that no mapping knows" --verbose "$folder/strange"
output '^total: 0 pass, 0 fail, 6 unsupported, 0 quirk$' "none of them passes"
output 'attribute “sideways” of clamp' "reason of the unsupported one"
output 'input 1' "reason of the unsupported one, for an input"
expect 1 "the same where all is to be supported" --strict "$folder/strange"
output 'ref/abs/here: .*attribute “sideways” of abs' "reason of the failure"

make plain/webnn.json abs "1, 2" "" webnn '"input": {"ref": "x"}, "label": "absolute", "sideways": null'
make plain/onnx.json Cast "1, -2" "" onnx '"inputs": [{"ref": "x"}, null], "to": 1, "saturate": 1'
expect 0 "attributes that change no number" "$folder/plain"
output '^total: 2 pass, 0 fail, 0 unsupported, 0 quirk$' "they pass"

make broken/abs.json abs "1, 2"
echo '{"suite": "webnn", "cases": [' > "$folder/broken/ceil.json"
expect 2 "a file that is not JSON" "$folder/broken"
output '^total: 1 pass' "the other file"
echo '{"suite": "webnn", "op": "x", "cases": [{"id": 1}, 7, {}]}' > "$folder/broken/ceil.json"
expect 2 "cases that are none" "$folder/broken"

exit $failed
