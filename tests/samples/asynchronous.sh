#!/bin/sh
# An asynchronous training of one epoch: its lines, the counts above zero, and the accuracy of what the server holds.
# usage: asynchronous.sh SAMPLE DATA LEAST_ACCURACY
set -eu
sample=$1 data=$2 least=$3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$sample" --data "$data" --no-comparison --min-accuracy "$least" >"$log" || { cat "$log"; exit 1; }
cat "$log"
for line in "^worker 0: 100 %" "^worker 1: 100 %" "^all workers: [1-9][0-9]* fetches, [1-9][0-9]* integrations, [1-9][0-9]* sends$" \
    "^test accuracy of the server's value: 0\.[0-9]*"; do
    grep -q "$line" "$log" || { echo "no line like $line"; exit 1; }
done
code=0
"$sample" --data "$data" --no-comparison --min-accuracy 2 >/dev/null 2>&1 || code=$?
[ $code -eq 2 ] || { echo "expected exit 2 for a wrong option, received $code"; exit 1; }
