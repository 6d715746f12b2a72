#!/bin/sh
# One gradient, on 1 and on 3 devices, agrees with NumPy's: that of the expressions, also with split layers, and that of the bodies.
# usage: gradient.sh TRAIN PYTHON DATA CHECK_GRADIENT
set -eu
train=$1 python=$2 data=$3 check=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
numbers="1 3"
[ -z "${MUSTER_TEST_FEW:-}" ] || numbers=3 # a sanitizer takes long to read the data
for n in $numbers; do
    for way in "" --split --by-hand; do
        "$train" --data "$data" --devices host:$n $way --steps 0 --dump-params "$folder/p" --dump-gradient "$folder/g" >"$folder/log" || { cat "$folder/log"; exit 1; }
        "$python" "$check" "$folder/p" "$folder/g" 500 "$data"
    done
done
