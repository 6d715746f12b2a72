#!/bin/sh
# The network of expressions, also with its large layers split, gives the parameters of the bodies on 1, 2 and 3 devices (500 rows do not divide
# by 3), and where a batch has fewer rows than there are devices. One epoch reaches the accuracy of script/demo and more, by the bodies too.
# usage: expressions.sh TRAIN PYTHON DATA
set -eu
train=$1 python=$2 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run() {
    "$train" --data "$data" "$@" >"$folder/log" || { cat "$folder/log"; exit 1; }
}
compare() {
    "$python" "$(dirname "$0")/compare_parameters.py" "$@"
}
run --by-hand --devices host:1 --steps 5 --dump-params "$folder/bodies"
run --by-hand --devices host:1 --batch 2 --steps 3 --dump-params "$folder/few"
for n in 1 2 3; do
    run --devices host:$n --steps 5 --dump-params "$folder/$n"
    run --devices host:$n --split --steps 5 --dump-params "$folder/split$n"
    compare "$folder/bodies" "$folder/$n" "$folder/split$n"
done
for way in "" --split; do
    run $way --devices host:3 --batch 2 --steps 3 --dump-params "$folder/of two rows$way"
    compare "$folder/few" "$folder/of two rows$way"
done
# The bodies are evaluated in slices of the test images.
for way in "" --by-hand; do
    run $way --devices host:2 --epochs 1 --min-accuracy 0.83
    tail -n 1 "$folder/log"
done
