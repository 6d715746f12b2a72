#!/bin/sh
# The convolutional network learns; it has the same parameters on 1 and 2 devices but for rounding, also where a batch has fewer rows than there are
# devices, and the same bits in the reproducible mode.
# usage: lenet.sh LENET PYTHON DATA
set -eu
lenet=$1 python=$2 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run() { # DEVICES FILE ARGUMENT...
    devices=$1 file=$2
    shift 2
    MUSTER_DEVICES=$devices "$lenet" --data "$data" --parameters "$folder/$file" "$@" >"$folder/log" || { cat "$folder/log"; exit 1; }
    grep -q "^274758 parameters, ${devices#host:} devices$" "$folder/log" || { echo "wrong first line:"; cat "$folder/log"; exit 1; }
}
run host:1 1 --steps 5 --batch 129 --test 1 # 129 rows do not divide by 2
run host:2 2 --steps 5 --batch 129 --test 1
run host:1 few1 --steps 2 --batch 2 --test 1
run host:3 few3 --steps 2 --batch 2 --test 1
"$python" "$(dirname "$0")/compare_parameters.py" --count 274758 "$folder/1" "$folder/2"
"$python" "$(dirname "$0")/compare_parameters.py" --count 274758 "$folder/few1" "$folder/few3"
export MUSTER_LOGICAL_SHARDS=4
for n in 1 2; do run host:$n shards$n --steps 3 --test 1; done
cmp "$folder/shards1" "$folder/shards2"
! cmp -s "$folder/shards1" "$folder/1"
unset MUSTER_LOGICAL_SHARDS
run host:2 trained --steps 50 --test 2000
cat "$folder/log"
# with equal probabilities the loss is log 10 = 2.3 and one image in ten is right
awk '/^step 50: loss/ { low = $4 + 0 < 1.5 } /^test accuracy:/ { right = $3 > 0.6 } END { exit !(low && right) }' "$folder/log"
code=0
"$lenet" --batches 3 2>/dev/null || code=$?
[ $code -eq 2 ]
