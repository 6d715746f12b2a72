#!/bin/sh
# After 20 steps of the bodies the parameters are the same on 1, 2 and 3 devices (500 rows do not divide by 3), and so they are when a batch has fewer rows
# than there are devices.
# usage: same_parameters.sh TRAIN PYTHON DATA
set -eu
train=$1 python=$2 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
numbers="1 2 3" steps=20
[ -z "${MUSTER_TEST_FEW:-}" ] || { numbers="1 3" steps=5; } # a sanitizer takes long to read the data
for n in $numbers; do
    "$train" --by-hand --data "$data" --devices host:$n --steps $steps --dump-params "$folder/$n" >"$folder/log" || { cat "$folder/log"; exit 1; }
    "$train" --by-hand --data "$data" --devices host:$n --batch 2 --steps 3 --dump-params "$folder/few$n" >"$folder/log" || { cat "$folder/log"; exit 1; }
done
"$python" "$(dirname "$0")/compare_parameters.py" "$folder"/[123]
"$python" "$(dirname "$0")/compare_parameters.py" "$folder"/few[123]
