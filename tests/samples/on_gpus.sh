#!/bin/sh
# A sample, unchanged, on two GPUs of the simulated machine and on two virtual ones of one (mesh, from_jax: four): it prints what it prints on as many CPU devices.
# usage: on_gpus.sh SAMPLE LIBRARIES
set -eu
sample=$1
export MUSTER_CUDA_LIBRARIES=$2 MUSTER_SIM_DELAY=20 MUSTER_SIM_DELAY_ONE_OF=8 MUSTER_CACHE_DIR=off
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ -e "$MUSTER_CUDA_LIBRARIES/libcuda.so.1" ] || { echo "$MUSTER_CUDA_LIBRARIES: no simulated machine"; exit 1; }
case $(basename "$sample") in
mesh | from_jax) count=4 virtual=cuda@0+0+0+0 ;;
*) count=2 virtual=cuda@0+0 ;;
esac
export MUSTER_SIM_DEVICES=$count
MUSTER_DEVICES=host:$count "$sample" >"$folder/host"
for devices in cuda:$count $virtual; do
    MUSTER_DEVICES=$devices "$sample" >"$folder/gpus" || { echo "$devices: $?"; cat "$folder/gpus"; exit 1; }
    diff "$folder/host" "$folder/gpus" || { echo "$devices: prints something else than host:$count"; exit 1; }
done
[ -s "$folder/host" ]
