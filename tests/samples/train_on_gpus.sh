#!/bin/sh
# The training program on the simulated machine: after some steps its parameters are those of two CPU devices, up to the order of sums; also
# those of the expressions, whole and split.
# usage: train_on_gpus.sh TRAIN PYTHON DATA LIBRARIES
set -eu
train=$1 python=$2 data=$3
export MUSTER_CUDA_LIBRARIES=$4 MUSTER_SIM_DELAY=20 MUSTER_SIM_DELAY_ONE_OF=8 MUSTER_CACHE_DIR=off
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ -e "$MUSTER_CUDA_LIBRARIES/libcuda.so.1" ] || { echo "$MUSTER_CUDA_LIBRARIES: no simulated machine"; exit 1; }
n=0
for devices in host:2 cuda:2 cuda@0+0; do
    n=$((n + 1))
    "$train" --by-hand --data "$data" --devices "$devices" --steps 5 --dump-params "$folder/$n" >"$folder/log" || { cat "$folder/log"; exit 1; }
done
"$train" --data "$data" --devices cuda:2 --steps 5 --dump-params "$folder/4" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$train" --split --data "$data" --devices cuda:2 --steps 5 --dump-params "$folder/5" >"$folder/log" || { cat "$folder/log"; exit 1; }
"$python" "$(dirname "$0")/compare_parameters.py" "$folder/1" "$folder/2" "$folder/3" "$folder/4" "$folder/5"
