#!/bin/sh
# Ctrl-C: the step is finished or has no effect, the parameters are still written, and the exit code is 130.
# usage: interrupted.sh TRAIN PYTHON DATA
set -eu
train=$1 data=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A shell without job control starts background programs with SIGINT ignored; env gives it its default action back.
env --default-signal=INT "$train" --data "$data" --devices host:2 --epochs 100000 --batch 2000 --dump-params "$folder/p" >"$folder/log" 2>&1 &
job=$!
# Until the program catches SIGINT, which is signal 2.
caught=0
while [ -d /proc/$job ] && [ $((0x$caught & 2)) -eq 0 ]; do
    sleep 0.1
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$job/status)
done
kill -INT $job
code=0
wait $job || code=$?
cat "$folder/log"
[ $code -eq 130 ]
grep -q "stopped by Ctrl-C" "$folder/log"
[ "$(wc -c <"$folder/p")" -eq 5107240 ]
