#!/bin/sh
# The step of expressions gives the parameters of the step that is written as a body, on 1 and 3 devices (500 rows do not divide by 3), and where
# a batch has fewer rows than there are devices. One epoch reaches the accuracy of script/demo and more.
# usage: expressions.sh TRAIN PYTHON DATA
set -eu
train=$1 python=$2 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run() {
    "$train" --data "$data" "$@" >"$folder/log" || { cat "$folder/log"; exit 1; }
}
run --devices host:1 --steps 5 --dump-params "$folder/body"
run --devices host:1 --batch 2 --steps 3 --dump-params "$folder/few"
for n in 1 3; do
    run --expressions --devices host:$n --steps 5 --dump-params "$folder/$n"
done
run --expressions --devices host:3 --batch 2 --steps 3 --dump-params "$folder/few3"
"$python" "$(dirname "$0")/compare_parameters.py" "$folder/body" "$folder/1" "$folder/3"
"$python" "$(dirname "$0")/compare_parameters.py" "$folder/few" "$folder/few3"
run --expressions --devices host:2 --epochs 1 --min-accuracy 0.83
tail -n 1 "$folder/log"
